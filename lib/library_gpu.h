/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The library's work on a GPU: samples and images are converted between the caller's arrays, in any memory, and those
 * of the kernels by device code; the host does not process their values. Arrays in the memory of the object's GPU are
 * used in place; an event makes them wait for the work queued on the caller's stream before a call.
 */
#ifndef MSI_LIB_LIBRARY_GPU_H
#define MSI_LIB_LIBRARY_GPU_H

#include <stdint.h>

#include "msimage/gridder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_library_gpu msi_library_gpu;

/* msi_library_gpu_create - make an object's stream on its device. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_library_gpu_create(msi_library_gpu **out, int device);

/* msi_library_gpu_free - NULL-safe. */
void msi_library_gpu_free(msi_library_gpu *gpu);

/* msi_library_gpu_enter - begin a call: later work waits for the work queued on a stream (cudaStream_t) so far, and the
 * device becomes the calling thread's current one. Returns: 0, MSI_EGPU */
int msi_library_gpu_enter(msi_library_gpu *gpu, void *stream);

/* msi_library_gpu_device - return the calling thread's current device; -1: none. msi_library_gpu_device_set - make a
 * device current; -1 does nothing. */
int msi_library_gpu_device(void);
void msi_library_gpu_device_set(int device);

/* msi_library_gpu_in - copy bytes from a caller's array to the device; msi_library_gpu_out - copy them back. Both
 * return when the copy is complete. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_library_gpu_in(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes);
int msi_library_gpu_out(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes);

/* ---- Pixels ----------------------------------------------------------------------------------------------------- */

/* msi_library_gpu_reach - get [n_plane] images of the caller in device memory, for the next call. Returned: *at  in
 * device memory. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_library_gpu_reach(msimage_gridder *g, const void *images, const void **at);

/* msi_library_gpu_squares - sum the squares of a model's finite pixels. Given: model  in device memory */
int msi_library_gpu_squares(msimage_gridder *g, const void *model, double *squares);

/*
 * msi_library_gpu_model - convert a model for the kernels: to the work's precision, divided by n if requested.
 * Given:    from  in device memory; scale  that it is multiplied by
 * Returned: to    in device memory; is_nan [n_plane] 1 if an image had values that are not finite, which are set to 0
 */
int msi_library_gpu_model(msimage_gridder *g, const void *from, double scale, void *to, int *is_nan);

/* Images in the work's precision and device memory, divided by the sums of weights: (from - less) / scale. */
typedef struct msi_work_images {
    const void *from, *less; /* [n_plane] images; less NULL: nothing */
    double scale;
    const double *sum_weight; /* [n_plane] */
    int n_plane;
} msi_work_images;

/* msi_library_gpu_pixels - convert images to the caller's convention. Returned: to  [n_plane] images of the caller */
int msi_library_gpu_pixels(msimage_gridder *g, const msi_work_images *images, void *to);

/* ---- Samples ---------------------------------------------------------------------------------------------------- */

/*
 * msi_library_gpu_add - add samples to the kernels' gridder in the device's memory.
 * Given:    samples  the caller's, with freq_hz in host memory
 * Returned: *is_taken  0: they do not fit on the device, or some are beyond the uv plane; use msi_library_add
 * Returns:  0, MSI_ENOMEM, MSI_EGPU, MSI_ERANGE, MSI_EINTERRUPTED
 */
int msi_library_gpu_add(msimage_gridder *g, const msimage_samples *samples, int *is_taken);

/* msi_library_gpu_fetch - fetch the predicted visibilities of block number i, from 0. */
int msi_library_gpu_fetch(msimage_gridder *g, const msimage_samples *samples, int64_t i, void *vis);

#ifdef __cplusplus
}
#endif
#endif
