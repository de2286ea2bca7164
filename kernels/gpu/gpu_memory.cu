/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/gpu_memory.h"

#include <algorithm>
#include <atomic>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_pool.h"
#include "kernels/gpu/plan_stream_cuda.h"

namespace {

cudaStream_t stream_of(const msi_gpu_stream *on)
{
    return static_cast<cudaStream_t>(on->stream);
}

} // namespace

int msi_gpu_alloc(void **out, const msi_gpu_stream *on, int64_t bytes, const char *what)
{
    *out = nullptr;
    MSI_TRY(msi_gpu_stream_enter(on));
    const cudaError_t e = msi_gpu_pool_alloc(out, (size_t)std::max<int64_t>(bytes, 1));
    return e == cudaSuccess ? MSI_OK : no_memory(e, (double)bytes, what);
}

void msi_gpu_release(void *p, const msi_gpu_stream *on)
{
    if (!p) return;
    if (cudaSetDevice(on->device) != cudaSuccess) cudaGetLastError();
    msi_gpu_pool_free(p);
}

int msi_gpu_upload(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    const plan_stream stream(*on);
    staged_copy staged(stream);
    MSI_TRY(staged.begin(bytes, from));
    MSI_TRY(staged.upload(static_cast<char *>(to), static_cast<const char *>(from), bytes));
    return staged.flush();
}

int msi_gpu_download(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    const plan_stream stream(*on);
    staged_copy staged(stream);
    return staged.download(to, from, bytes);
}

int msi_gpu_zero(const msi_gpu_stream *on, void *p, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    MSI_CUDA(cudaMemsetAsync(p, 0, (size_t)bytes, stream_of(on)));
    return msi_gpu_stream_wait(on);
}

/* ---- Several devices -------------------------------------------------------------------------------------------- */

namespace {

std::atomic<bool> is_allowed{true};

/* Copies through the host are made in pieces of this many bytes. */
constexpr int64_t PIECE_BYTES = (int64_t)64 << 20;

template <typename T> __global__ void __launch_bounds__(256) k_add_arrays(T *to, const T *from, int64_t n)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) to[i] += from[i];
}

template <typename T> int add_arrays(const msi_gpu_stream *on, T *to, const T *from, int64_t n)
{
    constexpr int64_t MOST_BLOCKS = 4096;
    k_add_arrays<<<(unsigned)std::clamp<int64_t>((n + 255) / 256, 1, MOST_BLOCKS), 256, 0, stream_of(on)>>>(to, from,
                                                                                                            n);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Return 1 if a device can read another's memory directly, or is the same device, else 0. */
int can_reach(int device, int other)
{
    int can = 0, before = 0;
    if (device == other) return 1;
    if (!is_allowed || cudaDeviceCanAccessPeer(&can, device, other) != cudaSuccess || !can) {
        cudaGetLastError();
        return 0;
    }
    cudaError_t e = cudaGetDevice(&before);
    if (e == cudaSuccess) e = cudaSetDevice(device);
    if (e == cudaSuccess) e = cudaDeviceEnablePeerAccess(other, 0);
    if (e != cudaSuccess) cudaGetLastError();
    if (cudaSetDevice(before) != cudaSuccess) cudaGetLastError();
    /* Peer access does not cover memory of a pool, which is opened separately. */
    return (e == cudaSuccess || e == cudaErrorPeerAccessAlreadyEnabled) &&
           msi_gpu_pool_open(other, device) == cudaSuccess;
}

template <typename T> int add_from_device(const msi_gpu_stream *on, T *to, const T *from, int from_device, int64_t n)
{
    if (can_reach(on->device, from_device)) {
        MSI_TRY(add_arrays(on, to, from, n));
        return msi_gpu_stream_wait(on);
    }
    buffer piece;
    const int64_t most = PIECE_BYTES / (int64_t)sizeof(T);
    MSI_TRY(piece.fit(std::min(n, most) * (int64_t)sizeof(T), "another GPU's images"));
    for (int64_t first = 0; first < n; first += most) {
        const int64_t count = std::min(n - first, most);
        MSI_CUDA(cudaMemcpyPeerAsync(piece.get(), on->device, from + first, from_device, (size_t)count * sizeof(T),
                                     stream_of(on)));
        MSI_TRY(add_arrays(on, to + first, as<T>(piece), count));
    }
    return msi_gpu_stream_wait(on);
}

} // namespace

void msi_gpu_peer_allow(int allowed)
{
    is_allowed = allowed != 0;
}

int msi_gpu_peer_copy(const msi_gpu_stream *on, void *to, const void *from, int from_device, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    /* The copy uses the link if it is enabled; otherwise the driver copies through the host. */
    can_reach(on->device, from_device);
    MSI_CUDA(cudaMemcpyPeerAsync(to, on->device, from, from_device, (size_t)bytes, stream_of(on)));
    return msi_gpu_stream_wait(on);
}

int msi_gpu_peer_send(const msi_gpu_stream *on, void *to, int to_device, const void *from, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    can_reach(on->device, to_device);
    MSI_CUDA(cudaMemcpyPeerAsync(to, to_device, from, on->device, (size_t)bytes, stream_of(on)));
    return msi_gpu_stream_wait(on);
}

int msi_gpu_peer_add(const msi_gpu_stream *on, void *to, const void *from, int from_device, int64_t n,
                     msi_precision precision)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    return precision == MSI_FP32
               ? add_from_device(on, static_cast<float *>(to), static_cast<const float *>(from), from_device, n)
               : add_from_device(on, static_cast<double *>(to), static_cast<const double *>(from), from_device, n);
}
