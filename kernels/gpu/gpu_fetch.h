/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Set how many bytes the L2 cache of a device fetches from its memory at a time. The limit is the device's and concerns
 * whatever runs on it, so it is lowered while anyone wants it low, and put back when the last one is done.
 */
#ifndef MSI_KERNELS_GPU_FETCH_H
#define MSI_KERNELS_GPU_FETCH_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_gpu_fetch_acquire - have a device fetch this many bytes at a time: 32, 64 or 128, the same for all who hold it.
 * Returns: 1 where it does, to be released; 0 where it cannot, which only costs time
 */
int msi_gpu_fetch_acquire(int device, size_t bytes);

/* msi_gpu_fetch_release - the last of those who acquired puts back what was before. */
void msi_gpu_fetch_release(int device);

#ifdef __cplusplus
}
#endif
#endif
