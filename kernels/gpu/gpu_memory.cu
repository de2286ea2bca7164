/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/gpu_memory.h"

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/staged_copy_cuda.h"

namespace {

cudaStream_t stream_of(const msi_gpu_stream *on)
{
    return static_cast<cudaStream_t>(on->stream);
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
