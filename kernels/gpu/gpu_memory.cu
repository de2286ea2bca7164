/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/gpu_memory.h"

#include "kernels/gpu/cuda_memory.h"

namespace {

cudaStream_t stream_of(const msi_gpu_stream *on)
{
    return static_cast<cudaStream_t>(on->stream);
}

int copy(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes, cudaMemcpyKind way)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    MSI_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, way, stream_of(on)));
    return msi_gpu_stream_wait(on);
}

} // namespace

int msi_gpu_alloc(void **out, const msi_gpu_stream *on, int64_t bytes, const char *what)
{
    char *p = nullptr;
    *out = nullptr;
    MSI_TRY(msi_gpu_stream_enter(on));
    MSI_TRY(allocate(&p, bytes, what));
    *out = p;
    return MSI_OK;
}

void msi_gpu_release(void *p, const msi_gpu_stream *on)
{
    if (!p) return;
    if (cudaSetDevice(on->device) != cudaSuccess) cudaGetLastError();
    if (cudaFree(p) != cudaSuccess) cudaGetLastError();
}

int msi_gpu_upload(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes)
{
    return copy(on, to, from, bytes, cudaMemcpyHostToDevice);
}

int msi_gpu_download(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes)
{
    return copy(on, to, from, bytes, cudaMemcpyDeviceToHost);
}

int msi_gpu_zero(const msi_gpu_stream *on, void *p, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(on));
    MSI_CUDA(cudaMemsetAsync(p, 0, (size_t)bytes, stream_of(on)));
    return msi_gpu_stream_wait(on);
}
