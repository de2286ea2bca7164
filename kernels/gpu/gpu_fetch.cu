/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/gpu_fetch.h"

#include <mutex>

#include <cuda_runtime.h>

#include "kernels/gpu/gpu_device.h"

namespace {

struct fetch_limit {
    int n_holder = 0;
    size_t bytes_before = 0;
};

std::mutex lock;
fetch_limit limits[MSI_GPU_MAX_DEVICES];

/* Run change() with the device current. Returns: whether every call succeeded */
template <typename CHANGE> bool on_device(int device, CHANGE change)
{
    int before;
    bool done = cudaGetDevice(&before) == cudaSuccess;
    if (done) {
        done = cudaSetDevice(device) == cudaSuccess && change();
        done = cudaSetDevice(before) == cudaSuccess && done;
    }
    if (!done) cudaGetLastError();
    return done;
}

} // namespace

int msi_gpu_fetch_acquire(int device, size_t bytes)
{
    const std::lock_guard<std::mutex> guard(lock);
    if (device < 0 || device >= MSI_GPU_MAX_DEVICES) return 0;
    fetch_limit &limit = limits[device];
    const auto lower = [&] {
        return cudaDeviceGetLimit(&limit.bytes_before, cudaLimitMaxL2FetchGranularity) == cudaSuccess &&
               cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, bytes) == cudaSuccess;
    };
    if (limit.n_holder == 0 && !on_device(device, lower)) return 0;
    limit.n_holder++;
    return 1;
}

void msi_gpu_fetch_release(int device)
{
    const std::lock_guard<std::mutex> guard(lock);
    fetch_limit &limit = limits[device];
    if (--limit.n_holder > 0) return;
    on_device(device,
              [&] { return cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, limit.bytes_before) == cudaSuccess; });
}
