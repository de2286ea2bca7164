/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The transform of a padded uv plane on the GPU, screened and added to an image.
 *
 * cuFFT transforms rows. Of the columns only the image's are wanted, and of these only the image's pixels: where the
 * size is a product P Q of two that there are kernels for, a first kernel transforms P points at distances of Q, a
 * second one Q points that follow each other, screens its pixels and adds them to the image. Other sizes are left to
 * cuFFT's transform of the plane and a kernel that screens it.
 */
#ifndef MSI_KERNELS_IMAGE_FFT_CUDA_H
#define MSI_KERNELS_IMAGE_FFT_CUDA_H

#include "core/image.h"
#include "core/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_image_fft msi_image_fft;

/* msi_image_fft_shape - a plane [nv][nu] of complex numbers and the image that its transform holds. */
typedef struct msi_image_fft_shape {
    msi_image_geometry image;
    int64_t nu, nv;
    double n_mid; /* of n - 1; screens turn by w (n - 1 - n_mid) */
    int has_w;
    msi_precision precision; /* of the plane and the image */
} msi_image_fft_shape;

/*
 * msi_image_fft_create - make plans on the current device.
 * Given:    stream  cudaStream_t, borrowed while the transform lasts
 * Returned: *out, freed by msi_image_fft_free
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_image_fft_create(msi_image_fft **out, const msi_image_fft_shape *shape, void *stream);
void msi_image_fft_free(msi_image_fft *fft);

/*
 * msi_image_fft_add - begin to add a plane's transform at w wavelengths to an image: image += Re(transform exp(-2 pi i
 * w (n - 1 - n_mid))).
 * Given:              plane [nv][nu]  in device memory, which is overwritten
 * Given and returned: image [ny][nx]  float or double, in device memory
 * Returns:            0, MSI_EGPU
 */
int msi_image_fft_add(const msi_image_fft *fft, void *plane, double w_lambda, void *image);

#ifdef __cplusplus
}
#endif
#endif
