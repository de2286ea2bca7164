/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The NVIDIA GPUs of this machine: whether there are any, how one starts, what it is and what memory it has. A device
 * is named by its CUDA ordinal, 0 .. MSI_GPU_MAX_DEVICES - 1. */
#ifndef MSI_KERNELS_GPU_DEVICE_H
#define MSI_KERNELS_GPU_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_GPU_MAX_DEVICES = 64 };

/* msi_gpu_count - return the number of devices that answer; 0 where there is no driver. */
int msi_gpu_count(void);

/* msi_gpu_available - return 1 where any device answers. */
int msi_gpu_available(void);

/*
 * msi_gpu_warm_up - start a device in the background: its driver, its context, cuFFT. A second call does nothing; so
 * does one for a device that there is not.
 */
void msi_gpu_warm_up(int device);

/* msi_gpu_await - wait until a device that is being warmed up has its context, or has failed to get one. */
void msi_gpu_await(int device);

/* msi_gpu_settle - wait for every warm-up to end; call it before the process does. */
void msi_gpu_settle(void);

/*
 * msi_gpu_memory - free and total memory of a device in bytes, 0 after a failure. While the device is being warmed up,
 * and before it has a context, all of it counts as free; so does what the process keeps in a pool (gpu_pool.h).
 * Returns: 0, MSI_EGPU
 * Notes:   leaves the calling thread's current device as it was.
 */
int msi_gpu_memory(int device, size_t *free_bytes, size_t *total_bytes);

/* msi_gpu_describe - one line on a device, or on why there is none. Borrowed, of the thread, until its next call. */
const char *msi_gpu_describe(int device);

/* msi_gpu_named - name a device, as an error line begins: "GPU", or "GPU 1" where several answer. Borrowed, of the
 * thread, until its next call. */
const char *msi_gpu_named(int device);

/* msi_gpu_here - name the calling thread's current device so. */
const char *msi_gpu_here(void);

/*
 * msi_gpu_speed - tell how fast a device is beside others: its multiprocessors times their clock.
 * Returned: *speed, above 0
 * Returns:  0, MSI_EGPU
 */
int msi_gpu_speed(int device, double *speed);

/* msi_gpu_versions - return CUDA's and cuFFT's versions, one line. Borrowed, static. */
const char *msi_gpu_versions(void);

#ifdef __cplusplus
}
#endif
#endif
