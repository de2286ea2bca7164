/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Memory pools of the devices. cudaMalloc and cudaFree map and unmap pages, which takes at least 0.2 ms for each
 * gigabyte. Plans allocate the same amount of memory in every call, so the pool of a device keeps the pages of freed
 * memory, up to half of the device's memory. They count as free memory.
 */
#ifndef MSI_KERNELS_GPU_POOL_H
#define MSI_KERNELS_GPU_POOL_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_gpu_pool_alloc - allocate memory on the current device, for all of its streams.
 * Returned: *out  freed by msi_gpu_pool_free; NULL after a failure
 * Returns:  CUDA's code; CUDA's last error is cleared
 */
cudaError_t msi_gpu_pool_alloc(void **out, size_t bytes);

/* msi_gpu_pool_free - wait for all work on the memory's device, and free the memory; NULL-safe. */
void msi_gpu_pool_free(void *p);

/*
 * msi_gpu_pool_open - let kernels of `device` read and write all present and future memory of owner's pool. `device`
 * must reach `owner` as a peer.
 * Returns: CUDA's code; CUDA's last error is cleared
 */
cudaError_t msi_gpu_pool_open(int owner, int device);

/* msi_gpu_pool_idle - return the bytes that a device's pool keeps and that are not in use; 0 if there is no pool. */
size_t msi_gpu_pool_idle(int device);

/* msi_gpu_pool_trim - return all idle memory of the current device's pool to the driver, for allocations outside the
 * pool. */
void msi_gpu_pool_trim(void);

/*
 * msi_gpu_pool_shrink - return the idle memory of every pool beyond `kept` bytes to the driver. For processes with
 * other users of the devices. The calling thread's current device stays the same.
 */
void msi_gpu_pool_shrink(size_t kept);

/* msi_gpu_pool_shrink_to_part - do the same with kept = total memory of the device / divisor. */
void msi_gpu_pool_shrink_to_part(int divisor);

#ifdef __cplusplus
}
#endif
#endif
