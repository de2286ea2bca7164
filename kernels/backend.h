/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Devices that gridders work on: which answer, their start, and the libraries behind them. */
#ifndef MSI_KERNELS_BACKEND_H
#define MSI_KERNELS_BACKEND_H

#include "kernels/method/gridder_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_backend_describe - give one line: the GPU that AUTO would take, or why there is none. Borrowed, of the thread,
 * until its next call. */
const char *msi_backend_describe(void);

/* msi_backend_describe_device - give one line: a GPU, or why it is not there. Borrowed, of the thread, until its
 * next call. */
const char *msi_backend_describe_device(int device);

/* msi_backend_n_device - count the GPUs that answer; 0 in a build without. Waits for their driver. */
int msi_backend_n_device(void);

/* msi_backend_device_bytes - tell a GPU's free memory, all of it while the GPU is being warmed up; 0 where that cannot
 * be told. Waits for the driver. */
int64_t msi_backend_device_bytes(int device);

/*
 * msi_backend_warm_up - begin in the background what GPUs take a third of a second for (their contexts, their FFT
 * library), so that it is over when visibilities have been read. Until one has a context, plans are foreseen as if
 * nobody else used its memory; msi_backend_await waits for device [n], as the first image or prediction does by itself.
 * Call msi_backend_settle before the process ends. All do nothing where backend is CPU or there is no GPU.
 */
void msi_backend_warm_up(msi_backend backend, const int *device, int n);
void msi_backend_await(const int *device, int n);
void msi_backend_settle(void);

/* msi_backend_versions - name the libraries behind the backends with their versions, one line. Borrowed, static. */
const char *msi_backend_versions(void);

#ifdef __cplusplus
}
#endif
#endif
