/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Allocate device memory, under the project's error convention. */
#ifndef MSI_KERNELS_CUDA_MEMORY_H
#define MSI_KERNELS_CUDA_MEMORY_H

#include <algorithm>
#include <mutex>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_pool.h"

namespace {

/* no_memory - set the error of a failed allocation. Returns: MSI_EGPU */
inline int no_memory(cudaError_t e, double bytes, const char *what)
{
    return msi_error_about(msi_error_set(MSI_EGPU, "%s: cannot allocate %.3f GB of device memory for %s: %s",
                                         msi_gpu_current_name(), 1e-9 * bytes, what, cudaGetErrorString(e)),
                           "backend");
}

/*
 * allocate - allocate n elements of device memory, to be freed by cudaFree.
 * Given:    what  the purpose, for the error message
 * Returned: *out  NULL after a failure
 * Returns:  0, MSI_EGPU
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

/* A buffer is device memory of the pool that frees itself, so that its owner can simply return after a failure. */
class buffer {
  public:
    buffer() = default;
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer()
    {
        msi_gpu_pool_free(p);
    }
    /* fit - make the buffer at least this large. Its contents are lost if it grows. Returns: 0, MSI_EGPU */
    int fit(int64_t bytes, const char *what)
    {
        if (bytes <= size) return MSI_OK;
        release();
        const cudaError_t e = msi_gpu_pool_alloc(&p, (size_t)bytes);
        if (e != cudaSuccess) return no_memory(e, (double)bytes, what);
        size = bytes;
        return MSI_OK;
    }
    /* release - free the memory. */
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

/* usable_of - return how many bytes of the free memory a plan may use. */
inline int64_t usable_of(size_t free_bytes)
{
    return (int64_t)(0.9 * (double)free_bytes);
}

/* usable_bytes - find how many bytes of the current device's free memory a plan may use. Returns: 0, MSI_EGPU */
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

/* Shared memory of a block on every GPU of compute capability 8.0 or later; 8.6, 8.9 and 12.0 have this much. */
constexpr size_t LEAST_SHARED_BYTES = 99 << 10;

/*
 * block_shared_bytes - find the largest shared memory of a block on the current device; 0 after a failure.
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
 * allow_shared - allow a kernel's blocks at least this much dynamic shared memory on the current device.
 * Returns: 0, MSI_EGPU
 * Notes:   the limit belongs to the kernel and is shared by all threads. It is only raised, because another plan or
 *          another thread may be about to launch the kernel with more.
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
