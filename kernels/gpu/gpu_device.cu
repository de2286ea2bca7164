/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Devices, streams and the L2 fetch size. A device starts in the background in three steps: the driver, which reports
 * the number of devices and their memory; the context; cuFFT. Calls that need a context wait for the second step.
 * Estimates for plans do not wait for it: until then they use the figures of the driver.
 */
#include "kernels/gpu/gpu_device.h"

#include <stdio.h>

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_pool.h"

namespace {

/* The start of one device. `lock` guards the members after it. */
struct device_start {
    std::thread thread;
    std::mutex lock;
    std::condition_variable changed;
    bool has_driver = true;  /* also set if the driver has failed */
    bool has_context = true; /* also set if the context has failed */
    int n_device = 0;
    size_t total_bytes = 0;

    void run(int device);
    void set_driver(int n, size_t bytes);
    void set_context();
    bool await_driver(int *n, size_t *bytes);
    void await_context();
};

/* Record how many devices the driver has found, and the memory of this one. */
void device_start::set_driver(int n, size_t bytes)
{
    {
        const std::lock_guard<std::mutex> guard(lock);
        has_driver = true;
        n_device = n;
        total_bytes = bytes;
    }
    changed.notify_all();
}

void device_start::set_context()
{
    {
        const std::lock_guard<std::mutex> guard(lock);
        has_context = true;
    }
    changed.notify_all();
}

void device_start::run(int device)
{
    int n = 0;
    cudaDeviceProp properties;
    properties.totalGlobalMem = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) n = 0;
    if (device < n && cudaGetDeviceProperties(&properties, device) != cudaSuccess) properties.totalGlobalMem = 0;
    set_driver(n, properties.totalGlobalMem);
    const bool works = device < n && cudaSetDevice(device) == cudaSuccess && cudaFree(nullptr) == cudaSuccess;
    set_context();
    cufftHandle plan;
    if (works && cufftPlan1d(&plan, 64, CUFFT_C2C, 1) == CUFFT_SUCCESS) cufftDestroy(plan);
}

/* Wait for the driver's figures. Returns: whether the context exists too, so that CUDA can be called for more */
bool device_start::await_driver(int *n, size_t *bytes)
{
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [this] { return has_driver; });
    *n = n_device;
    *bytes = total_bytes;
    return has_context;
}

void device_start::await_context()
{
    std::unique_lock<std::mutex> guard(lock);
    changed.wait(guard, [this] { return has_context; });
}

device_start starts[MSI_GPU_MAX_DEVICES];

bool is_ordinal(int device)
{
    return device >= 0 && device < MSI_GPU_MAX_DEVICES;
}

} // namespace

void msi_gpu_warm_up(int device)
{
    if (!is_ordinal(device)) return;
    device_start &s = starts[device];
    const std::lock_guard<std::mutex> guard(s.lock);
    if (s.thread.joinable()) return;
    s.has_driver = s.has_context = false;
    try {
        s.thread = std::thread([&s, device] { s.run(device); });
    } catch (const std::system_error &) {
        s.has_driver = s.has_context = true;
    }
}

void msi_gpu_await(int device)
{
    if (is_ordinal(device)) starts[device].await_context();
}

int msi_gpu_has_started(int device)
{
    if (!is_ordinal(device)) return 1;
    const std::unique_lock<std::mutex> guard(starts[device].lock);
    return starts[device].has_context;
}

void msi_gpu_await_all(void)
{
    static std::mutex one_waits; /* other threads wait for the one that joins */
    const std::lock_guard<std::mutex> alone(one_waits);
    for (device_start &s : starts) {
        std::thread started;
        {
            const std::lock_guard<std::mutex> guard(s.lock);
            started.swap(s.thread);
        }
        if (started.joinable()) started.join();
    }
}

int msi_gpu_count(void)
{
    for (device_start &s : starts) {
        int n;
        size_t total_bytes;
        if (!s.await_driver(&n, &total_bytes)) return n;
    }
    int n = 0;
    const cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess) cudaGetLastError();
    return e == cudaSuccess ? n : 0;
}

int msi_gpu_available(void)
{
    return msi_gpu_count() > 0;
}

int msi_gpu_memory(int device, size_t *free_bytes, size_t *total_bytes)
{
    int n;
    *free_bytes = *total_bytes = 0;
    if (is_ordinal(device) && !starts[device].await_driver(&n, total_bytes) && *total_bytes > 0) {
        *free_bytes = *total_bytes;
        return MSI_OK;
    }
    *total_bytes = 0;
    int before;
    MSI_CUDA(cudaGetDevice(&before));
    if (before != device) MSI_CUDA_OF(device, cudaSetDevice(device));
    const cudaError_t e = cudaMemGetInfo(free_bytes, total_bytes);
    if (before != device) MSI_CUDA_OF(before, cudaSetDevice(before));
    MSI_CUDA_AT(msi_gpu_name(device), "cudaMemGetInfo", e);
    *free_bytes += msi_gpu_pool_idle(device);
    return MSI_OK;
}

const char *msi_gpu_describe(int device)
{
    static thread_local char text[640];
    int n = 0;
    cudaDeviceProp properties;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e == cudaSuccess && device >= 0 && device < n) e = cudaGetDeviceProperties(&properties, device);
    if (e != cudaSuccess || n == 0)
        snprintf(text, sizeof text, "no GPU found (%s)",
                 e != cudaSuccess ? cudaGetErrorString(e) : "none in this machine");
    else if (device < 0 || device >= n)
        snprintf(text, sizeof text, "no GPU %d: this machine has %d", device, n);
    else
        snprintf(text, sizeof text, "%s, compute capability %d.%d, %.1f GB", properties.name, properties.major,
                 properties.minor, 1e-9 * (double)properties.totalGlobalMem);
    if (e != cudaSuccess) cudaGetLastError();
    return text;
}

const char *msi_gpu_name(int device)
{
    static thread_local char text[24];
    int n = 0;
    if (cudaGetDeviceCount(&n) == cudaSuccess && n > 1) {
        snprintf(text, sizeof text, "GPU %d", device);
        return text;
    }
    cudaGetLastError();
    return "GPU";
}

const char *msi_gpu_current_name(void)
{
    int device = 0;
    if (cudaGetDevice(&device) == cudaSuccess) return msi_gpu_name(device);
    cudaGetLastError();
    return "GPU";
}

int msi_gpu_speed(int device, double *speed)
{
    int n = 0, clock_khz = 0;
    MSI_CUDA_OF(device, cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device));
    MSI_CUDA_OF(device, cudaDeviceGetAttribute(&clock_khz, cudaDevAttrClockRate, device));
    *speed = (double)n * (clock_khz > 0 ? clock_khz : 1);
    return MSI_OK;
}

const char *msi_gpu_versions(void)
{
    struct line {
        char text[96];
        line()
        {
            int fft = 0;
            cufftGetVersion(&fft);
            snprintf(text, sizeof text, "CUDA %d.%d, cuFFT %d.%d.%d", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
                     fft / 1000, fft % 1000 / 100, fft % 100);
        }
    };
    static const line made; /* initialised by the first thread that calls */
    return made.text;
}

/* ---- Streams ---------------------------------------------------------------------------------------------------- */

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

/* ---- L2 fetch size ----------------------------------------------------------------------------------------------- */

namespace {

struct fetch_limit {
    int n_holder = 0;
    size_t bytes_before = 0;
};

std::mutex fetch_lock;
fetch_limit fetch_limits[MSI_GPU_MAX_DEVICES];

/* Run change() with the device as the current one. Returns: whether every call succeeded */
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
    const std::lock_guard<std::mutex> guard(fetch_lock);
    if (device < 0 || device >= MSI_GPU_MAX_DEVICES) return 0;
    fetch_limit &limit = fetch_limits[device];
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
    const std::lock_guard<std::mutex> guard(fetch_lock);
    fetch_limit &limit = fetch_limits[device];
    if (--limit.n_holder > 0) return;
    on_device(device,
              [&] { return cudaDeviceSetLimit(cudaLimitMaxL2FetchGranularity, limit.bytes_before) == cudaSuccess; });
}
