/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The devices that gridders use: which GPUs are available, their initialisation, and the versions of libraries. */
#ifndef MSI_KERNELS_BACKEND_H
#define MSI_KERNELS_BACKEND_H

#include "kernels/method/gridder_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_backend_describe - return one line: the GPU that AUTO would use, or why there is none. Borrowed by the thread
 * until its next call. */
const char *msi_backend_describe(void);

/* msi_backend_describe_device - return one line: a GPU, or why it is not available. Borrowed by the thread until its
 * next call. */
const char *msi_backend_describe_device(int device);

/* msi_backend_n_device - count the GPUs that work; 0 in a build without CUDA. Waits for their driver. */
int msi_backend_n_device(void);

/* msi_backend_device_bytes - return a GPU's free memory, or all of it while the GPU is being warmed up; 0 if unknown.
 * Waits for the driver. */
int64_t msi_backend_device_bytes(int device);

/*
 * msi_backend_warm_up - start the slow initialisation of GPUs in the background (contexts and FFT library, about 0.3
 * s), so that it is finished when visibilities have been read. Until a GPU has a context, plans are estimated as if no
 * other process used its memory. msi_backend_await waits for device [n]; the first image or prediction waits by itself.
 * Call msi_backend_await_all before the process ends. All do nothing if backend is CPU or there is no GPU.
 */
void msi_backend_warm_up(msi_backend backend, const int *device, int n);
void msi_backend_await(const int *device, int n);
void msi_backend_await_all(void);

/* msi_backend_has_started - return 1 if msi_backend_await would not wait for a device. */
int msi_backend_has_started(int device);

/* msi_backend_versions - return one line with the versions of the backends' libraries. Borrowed, static. */
const char *msi_backend_versions(void);

#ifdef __cplusplus
}
#endif
#endif
