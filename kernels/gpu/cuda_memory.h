/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Device memory under the project's error convention. */
#ifndef MSI_KERNELS_CUDA_MEMORY_H
#define MSI_KERNELS_CUDA_MEMORY_H

#include <algorithm>
#include <mutex>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_pool.h"

namespace {

/* no_memory - tell that there are not so many bytes for something. Returns: MSI_EGPU */
inline int no_memory(cudaError_t e, double bytes, const char *what)
{
    return msi_error_about(msi_error_set(MSI_EGPU, "%s: no %.3f GB of device memory for %s: %s", msi_gpu_here(),
                                         1e-9 * bytes, what, cudaGetErrorString(e)),
                           "backend");
}

/*
 * allocate - allocate room for n elements at *out, for cudaFree; NULL there after a failure.
 * Given:   what  the room is for, as an error names it
 * Returns: 0, MSI_EGPU
 */
template <typename T> int allocate(T **out, int64_t n, const char *what)
{
    const size_t bytes = (size_t)std::max<int64_t>(n, 1) * sizeof(T);
    *out = nullptr;
    cudaError_t e = cudaMalloc((void **)out, bytes);
    if (e == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        msi_gpu_pool_trim();
        e = cudaMalloc((void **)out, bytes);
    }
    if (e == cudaSuccess) return MSI_OK;
    cudaGetLastError();
    return no_memory(e, (double)n * sizeof(T), what);
}

/* Device memory of the pool that frees itself: every failure path of its owner is a plain return. */
class buffer {
  public:
    buffer() = default;
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer()
    {
        msi_gpu_pool_free(p);
    }
    /* fit - have at least so many bytes; what was there is lost where there are fewer. Returns: 0, MSI_EGPU */
    int fit(int64_t bytes, const char *what)
    {
        if (bytes <= size) return MSI_OK;
        release();
        const cudaError_t e = msi_gpu_pool_alloc(&p, (size_t)bytes);
        if (e != cudaSuccess) return no_memory(e, (double)bytes, what);
        size = bytes;
        return MSI_OK;
    }
    /* release - give back what there is. */
    void release()
    {
        msi_gpu_pool_free(p);
        p = nullptr;
        size = 0;
    }
    void *get() const
    {
        return p;
    }

  private:
    void *p = nullptr;
    int64_t size = 0;
};

template <typename T> T *as(const buffer &b)
{
    return static_cast<T *>(b.get());
}

/* usable_of - return the part of free memory that a plan may take, in bytes. */
inline int64_t usable_of(size_t free_bytes)
{
    return (int64_t)(0.9 * (double)free_bytes);
}

/* usable_bytes - return the part of the current device's free memory that a plan may take. Returns: 0, MSI_EGPU */
inline int usable_bytes(int64_t *bytes)
{
    size_t free_bytes, total_bytes;
    int device;
    *bytes = 0;
    MSI_CUDA(cudaGetDevice(&device));
    MSI_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
    *bytes = usable_of(free_bytes + msi_gpu_pool_idle(device));
    return MSI_OK;
}

/* Shared memory that a block may have on any GPU of compute capability 8.0 or later: what 8.6, 8.9 and 12.0 have. */
constexpr size_t LEAST_SHARED_BYTES = 99 << 10;

/*
 * block_shared_bytes - return the shared memory that a block may have on the device in use; 0 after a failure.
 * Returns: 0, MSI_EGPU
 */
inline int block_shared_bytes(size_t *bytes)
{
    int device, most;
    *bytes = 0;
    MSI_CUDA(cudaGetDevice(&device));
    MSI_CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    *bytes = (size_t)most;
    return MSI_OK;
}

/*
 * allow_shared - let blocks of a kernel have so many bytes of dynamic shared memory, and more, on the device in use.
 * Returns: 0, MSI_EGPU
 * Notes:   the limit is the kernel's, whoever launches it: it only rises, since another plan or another thread's image
 *          may be about to launch the kernel with more.
 */
template <typename K> int allow_shared(K *kernel, size_t bytes)
{
    static std::mutex lock;
    const std::lock_guard<std::mutex> guard(lock);
    cudaFuncAttributes now;
    MSI_CUDA(cudaFuncGetAttributes(&now, kernel));
    if ((size_t)now.maxDynamicSharedSizeBytes >= bytes) return MSI_OK;
    MSI_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes));
    return MSI_OK;
}

} // namespace

#endif
