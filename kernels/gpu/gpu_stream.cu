/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/gpu_stream.h"

#include "kernels/gpu/cuda_check.h"

int msi_gpu_stream_create(msi_gpu_stream *s, int device)
{
    cudaStream_t stream;
    *s = {device, nullptr};
    MSI_TRY(msi_gpu_stream_enter(s));
    MSI_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    s->stream = stream;
    return MSI_OK;
}

void msi_gpu_stream_free(msi_gpu_stream *s)
{
    if (!s->stream) return;
    const cudaStream_t stream = static_cast<cudaStream_t>(s->stream);
    if (cudaStreamSynchronize(stream) != cudaSuccess) cudaGetLastError();
    if (cudaStreamDestroy(stream) != cudaSuccess) cudaGetLastError();
    s->stream = nullptr;
}

int msi_gpu_stream_enter(const msi_gpu_stream *s)
{
    MSI_CUDA_OF(s->device, cudaSetDevice(s->device));
    return MSI_OK;
}

int msi_gpu_stream_wait(const msi_gpu_stream *s)
{
    MSI_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(s->stream)));
    return MSI_OK;
}
