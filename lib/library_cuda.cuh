/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The stream of an object of the library, its copies, and room for arrays that kernels cannot reach. */
#ifndef MSI_LIB_LIBRARY_CUDA_CUH
#define MSI_LIB_LIBRARY_CUDA_CUH

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/plan_stream_cuda.h"
#include "lib/library_gpu.h"
#include "lib/library_gridder.h"

/* Factors of the visibilities that are predicted for a block, kept so that its weights and mask come once. */
struct kept_factor {
    buffer
        room; /* [n_row][n_chan] of the caller's precision: the weight; 0 where that or the mask leaves a sample out */
    const void *weight = nullptr, *mask = nullptr; /* the caller's arrays that it was made of */
    int64_t block = 0;
    kept_factor *next = nullptr;
};

struct msi_library_gpu {
    enum { UVW, FREQ, VIS, WEIGHT, MASK, N_ARRAY };
    plan_stream on;
    int device = 0;
    cudaEvent_t before = nullptr; /* what the caller's stream has begun */
    staged_copy staging{on, staged_copy::MOST_SLOTS};
    buffer array[N_ARRAY], image, tally;
    int64_t n_block = 0;           /* that were added */
    kept_factor *factor = nullptr; /* the latest block's first */

    ~msi_library_gpu()
    {
        on.leave();
        while (factor) forget_factor(factor->block);
        if (before && cudaEventDestroy(before) != cudaSuccess) cudaGetLastError();
    }

    /* is_here - tell whether kernels read and write memory as it lies. */
    bool is_here(const void *at) const
    {
        cudaPointerAttributes a;
        if (cudaPointerGetAttributes(&a, at) == cudaSuccess)
            return a.type == cudaMemoryTypeManaged || (a.type == cudaMemoryTypeDevice && a.device == device);
        cudaGetLastError();
        return false;
    }

    /* reach - have an array of the caller's where kernels on the stream read it: there already, or a copy in room,
     * which may be under way until the stream was waited for. NULL stays NULL. Returns: 0, MSI_EGPU, MSI_ENOMEM */
    template <typename T> int reach(const T *given, int64_t bytes, buffer &room, const T **at)
    {
        *at = given;
        if (!given || is_here(given)) return MSI_OK;
        MSI_TRY(room.fit(bytes, "a copy of an array"));
        *at = as<T>(room);
        MSI_TRY(staging.begin(bytes, given));
        MSI_TRY(staging.upload(as<char>(room), reinterpret_cast<const char *>(given), bytes));
        return staging.push();
    }

    /* forget_factor - forget the latest, if it is a block's. */
    void forget_factor(int64_t block)
    {
        kept_factor *last = factor;
        if (!last || last->block != block) return;
        factor = last->next;
        delete last;
    }

    /* settle - wait for what was begun with the caller's arrays, where a failure ends a call. Returns: rc */
    int settle(int rc) const
    {
        if (rc && cudaStreamSynchronize(on.get()) != cudaSuccess) cudaGetLastError();
        return rc;
    }
};

#endif
