/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lib/library_gpu.h"

#include <new>

#include "lib/library_cuda.cuh"

int msi_library_gpu_create(msi_library_gpu **out, int device)
{
    *out = nullptr;
    msi_library_gpu *gpu = new (std::nothrow) msi_library_gpu;
    if (!gpu) return msi_error_set(MSI_ENOMEM, "no memory for the GPU's stream");
    gpu->device = device;
    int rc = gpu->on.begin(device);
    if (!rc && cudaEventCreateWithFlags(&gpu->before, cudaEventDisableTiming) != cudaSuccess) {
        cudaGetLastError();
        rc = msi_error_set(MSI_EGPU, "GPU: no event can be made");
    }
    if (rc)
        delete gpu;
    else
        *out = gpu;
    return rc;
}

void msi_library_gpu_free(msi_library_gpu *gpu)
{
    delete gpu;
}

int msi_library_gpu_enter(msi_library_gpu *gpu, void *stream)
{
    MSI_TRY(gpu->on.enter());
    if (cudaEventRecord(gpu->before, static_cast<cudaStream_t>(stream)) == cudaSuccess) {
        MSI_CUDA(cudaStreamWaitEvent(gpu->on.get(), gpu->before, 0));
        return MSI_OK;
    }
    /* The stream is another device's. */
    cudaGetLastError();
    MSI_CUDA(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
    return MSI_OK;
}

int msi_library_gpu_device()
{
    int device;
    if (cudaGetDevice(&device) == cudaSuccess) return device;
    cudaGetLastError();
    return -1;
}

void msi_library_gpu_device_set(int device)
{
    if (device >= 0 && cudaSetDevice(device) != cudaSuccess) cudaGetLastError();
}

int msi_library_gpu_in(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(gpu->staging.begin(bytes, from));
    MSI_TRY(gpu->staging.upload(static_cast<char *>(to), static_cast<const char *>(from), bytes));
    return gpu->staging.flush();
}

int msi_library_gpu_out(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes)
{
    return gpu->staging.download(to, from, bytes);
}
