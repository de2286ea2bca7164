/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The library's work on a GPU. Device code converts samples and images between the caller's arrays, in any memory, and
 * the arrays of the kernels; the host does not process their values. Arrays in the memory of the object's GPU are used
 * in place, after work that was queued on the caller's stream before the call, for which an event makes them wait.
 */
#ifndef MSI_LIB_LIBRARY_GPU_H
#define MSI_LIB_LIBRARY_GPU_H

#include <stdint.h>

#include "msimage/gridder.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_library_gpu msi_library_gpu;

/* msi_library_gpu_create - create an object's stream on its device. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_library_gpu_create(msi_library_gpu **out, int device);

/* msi_library_gpu_free - free it; NULL is fine. */
void msi_library_gpu_free(msi_library_gpu *gpu);

/* msi_library_gpu_enter - begin a call. Later work waits for the work that is now queued on a stream (cudaStream_t).
 * The device becomes the calling thread's current device. Returns: 0, MSI_EGPU */
int msi_library_gpu_enter(msi_library_gpu *gpu, void *stream);

/* msi_library_gpu_device - return the current device of the calling thread; -1: none. msi_library_gpu_device_set - make
 * a device current; -1 does nothing. */
int msi_library_gpu_device(void);
void msi_library_gpu_device_set(int device);

/* msi_library_gpu_in - copy bytes from the caller's array to the device. msi_library_gpu_out - copy them back. Both
 * return after the copy is complete. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_library_gpu_in(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes);
int msi_library_gpu_out(msi_library_gpu *gpu, void *to, const void *from, int64_t bytes);

/* ---- Pixels ----------------------------------------------------------------------------------------------------- */

/* msi_library_gpu_reach - get [n_plane] images of the caller in device memory. Returned: *at  in device memory, valid
 * until the next call. Returns: 0, MSI_EGPU, MSI_ENOMEM */
int msi_library_gpu_reach(msimage_gridder *g, const void *images, const void **at);

/* msi_library_gpu_squares - sum the squares of a model's finite pixels. Given: model  in device memory */
int msi_library_gpu_squares(msimage_gridder *g, const void *model, double *squares);

/*
 * msi_library_gpu_model - convert a model for the kernels: to the precision of the work, and divided by n if requested.
 * Given:    from  in device memory; scale  factor
 * Returned: to    in device memory; is_nan [n_plane] 1 if an image had values that are not finite; these are set to 0
 */
int msi_library_gpu_model(msimage_gridder *g, const void *from, double scale, void *to, int *is_nan);

/* Images in device memory, in the precision of the work and divided by the sums of weights: (from - less) / scale. */
typedef struct msi_work_images {
    const void *from, *less; /* [n_plane] images; less may be NULL */
    double scale;
    const double *sum_weight; /* [n_plane] */
    int n_plane;
} msi_work_images;

/* msi_library_gpu_pixels - convert images to the caller's convention. Returned: to  [n_plane] images of the caller */
int msi_library_gpu_pixels(msimage_gridder *g, const msi_work_images *images, void *to);

/* ---- Samples ---------------------------------------------------------------------------------------------------- */

/*
 * msi_library_gpu_add - add samples to the kernels' gridder in the device's memory.
 * Given:    samples  of the caller, with freq_hz in host memory
 * Returned: *is_taken  0: they do not fit into device memory, or some are beyond the uv plane; call msi_library_add
 *                      instead
 * Returns:  0, MSI_ENOMEM, MSI_EGPU, MSI_ERANGE, MSI_EINTERRUPTED
 */
int msi_library_gpu_add(msimage_gridder *g, const msimage_samples *samples, int *is_taken);

/* msi_library_gpu_fetch - copy the predicted visibilities of block i, counted from 0, to the caller's array. */
int msi_library_gpu_fetch(msimage_gridder *g, const msimage_samples *samples, int64_t i, void *vis);

#ifdef __cplusplus
}
#endif
#endif
