/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A plan's stream in C++: it frees itself, and what a plan copies and clears goes through it. */
#ifndef MSI_KERNELS_PLAN_STREAM_CUDA_H
#define MSI_KERNELS_PLAN_STREAM_CUDA_H

#include <stdint.h>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_stream.h"

namespace {

/* A plan_stream wraps a stream, which until begin() is the default stream of device 0. Declare it before the buffers
 * that it works on, so that they are freed first. */
class plan_stream {
  public:
    plan_stream() = default;
    /* Make a plan_stream of another's stream, which outlasts it. */
    explicit plan_stream(const msi_gpu_stream &other) : on(other) {}
    plan_stream(const plan_stream &) = delete;
    plan_stream &operator=(const plan_stream &) = delete;
    ~plan_stream()
    {
        if (is_own) msi_gpu_stream_free(&on);
    }

    /* begin - enter a device, with a stream of its own from the first call on. Returns: 0, MSI_EGPU */
    int begin(int device)
    {
        if (on.stream) return msi_gpu_stream_enter(&on);
        is_own = true;
        return msi_gpu_stream_create(&on, device);
    }
    /* enter - make the stream's device the calling thread's current one. Returns: 0, MSI_EGPU */
    int enter() const
    {
        return msi_gpu_stream_enter(&on);
    }
    /* leave - the same before a plan is freed, when no error can be told any more. */
    void leave() const
    {
        if (cudaSetDevice(on.device) != cudaSuccess) cudaGetLastError();
    }
    /* wait - wait until all that was begun is done. Returns: 0, MSI_EGPU */
    int wait() const
    {
        return msi_gpu_stream_wait(&on);
    }
    cudaStream_t get() const
    {
        return static_cast<cudaStream_t>(on.stream);
    }

    /* upload - begin to copy n elements to the device; wait() before the host's are changed or freed. */
    template <typename T> int upload(T *to, const T *from, int64_t n) const
    {
        MSI_CUDA(cudaMemcpyAsync(to, from, sizeof(T) * (size_t)n, cudaMemcpyHostToDevice, get()));
        return MSI_OK;
    }
    /* download - copy n elements to the host, after all that was begun before. */
    template <typename T> int download(T *to, const T *from, int64_t n) const
    {
        MSI_CUDA(cudaMemcpyAsync(to, from, sizeof(T) * (size_t)n, cudaMemcpyDeviceToHost, get()));
        return wait();
    }
    /* clear - begin to set n elements to zero. */
    template <typename T> int clear(T *p, int64_t n) const
    {
        MSI_CUDA(cudaMemsetAsync(p, 0, sizeof(T) * (size_t)n, get()));
        return MSI_OK;
    }

  private:
    msi_gpu_stream on = {0, nullptr};
    bool is_own = false;
};

} // namespace

#endif
