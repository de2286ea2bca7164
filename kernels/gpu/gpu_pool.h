/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Device memory that stays with the process when it is given back. cudaMalloc and cudaFree map and unmap pages, which
 * takes a fifth of a millisecond a gigabyte and more, at every call of a plan for what the call before had as well. A
 * device's pool keeps pages that nobody has at present, up to half of the device's memory; they count as free.
 */
#ifndef MSI_KERNELS_GPU_POOL_H
#define MSI_KERNELS_GPU_POOL_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_gpu_pool_alloc - get memory of the current device, which any of its streams may use from now on.
 * Returned: *out  given back by msi_gpu_pool_free; NULL after a failure
 * Returns:  what CUDA says; its own record of the failure is cleared
 */
cudaError_t msi_gpu_pool_alloc(void **out, size_t bytes);

/* msi_gpu_pool_free - wait for all that the memory's device does, and give it back; NULL is fine. */
void msi_gpu_pool_free(void *p);

/*
 * msi_gpu_pool_open - let kernels of `device`, which reaches `owner` as a peer, read and write what owner's pool holds
 * and will hold.
 * Returns: what CUDA says; its own record of the failure is cleared
 */
cudaError_t msi_gpu_pool_open(int owner, int device);

/* msi_gpu_pool_idle - return the bytes of a device that its pool keeps and nobody has; 0 where there is no pool. */
size_t msi_gpu_pool_idle(int device);

/* msi_gpu_pool_trim - give those of the current device back to the driver, for allocations that go past the pool. */
void msi_gpu_pool_trim(void);

/*
 * msi_gpu_pool_shrink - give back, of every device that has a pool, what nobody has beyond so many bytes. It is for
 * those whose process has other users of the devices. The calling thread's current device stays what it is.
 */
void msi_gpu_pool_shrink(size_t kept);

/* msi_gpu_pool_shrink_to_part - do so beyond that part of each device's own memory: total / divisor. */
void msi_gpu_pool_shrink_to_part(int divisor);

#ifdef __cplusplus
}
#endif
#endif
