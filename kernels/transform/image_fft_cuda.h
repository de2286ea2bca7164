/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Fourier transforms of a plane's rows on the GPU, each by a block that holds the row in shared memory: it is read once
 * and written once, and of the side that is an image only the image's columns are touched.
 */
#ifndef MSI_IMAGE_FFT_CUDA_H
#define MSI_IMAGE_FFT_CUDA_H

#include <stdint.h>

#include "core/image.h"
#include "core/types.h"
#include "kernels/transform/screen_taper.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_row_fft msi_row_fft;

/*
 * Squares of size^2 numbers that add up to a plane, in device memory. They lie `step` cells apart and overlap; beyond
 * an edge of the plane they come in on the other side. Those of places down * n_across + across that there are follow
 * each other. Cell c of a square's rows and columns is the one (c + turned) modulo size from its first.
 */
typedef struct msi_plane_squares {
    const void *cell;          /* [n][size][size] */
    const uint32_t *place;     /* [n] ascending */
    const uint32_t *row_first; /* [n_down + 1] the first square of a row of squares, n at last */
    int32_t size, step, n_across, n_down, turned;
    int32_t first; /* cell of the plane, both ways, under the first of place 0; may be negative */
} msi_plane_squares;

/* msi_row_fft_serves - tell whether there is a transform of n points, on a GPU with enough shared memory. */
int msi_row_fft_serves(int64_t n);

/*
 * msi_row_fft_create - prepare transforms of n points on the current device.
 * Given:    stream  cudaStream_t, borrowed while the transform lasts
 * Returned: *out, freed by msi_row_fft_free; NULL where there is no such transform, or no room for a row in the
 *           device's shared memory
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_row_fft_create(msi_row_fft **out, int64_t n, msi_precision precision, void *stream);
void msi_row_fft_free(msi_row_fft *fft);

/*
 * msi_row_fft_forward - begin to transform rows in place, exp(-2 pi i), of whose results the `kept` lowest frequencies
 * are written: -kept/2 .. kept - kept/2 - 1, negative ones from the row's end. What else the rows hold then is
 * undefined.
 * Given:              row_used [n_row]  0 where a row is left as it is, in device memory; NULL: all are transformed
 * Given and returned: plane [n_row][n]  in device memory
 * Returns:            0, MSI_EGPU
 */
int msi_row_fft_forward(const msi_row_fft *fft, void *plane, int64_t n_row, const uint8_t *row_used, int64_t kept);

/*
 * msi_row_fft_of_squares - begin to make all rows of the plane that squares add up to, transformed as by
 * msi_row_fft_forward: their `kept` lowest frequencies are written, what else the rows hold is left.
 * Returned: plane [n_row][n]  in device memory
 * Returns:  0, MSI_EGPU
 */
int msi_row_fft_of_squares(const msi_row_fft *fft, const msi_plane_squares *squares, void *plane, int64_t n_row,
                           int64_t kept);

/* msi_row_fft_backward - begin the transpose, exp(2 pi i) without a factor: all of a row but the `kept` lowest
 * frequencies counts as zero. */
int msi_row_fft_backward(const msi_row_fft *fft, void *plane, int64_t n_row, const uint8_t *row_used, int64_t kept);

/*
 * The transform of a padded uv plane on the GPU, screened and added to an image, and its transpose.
 *
 * Rows are transformed by image_fft_cuda.h. Of the columns only the image's are wanted, and of these only the image's
 * pixels: where the size is a product P Q of two that there are kernels for, a first kernel transforms P points at
 * distances of Q, a second one Q points that follow each other, screens its pixels and adds them to the image. Rows of
 * other lengths are left to cuFFT; where columns have another length, so is the whole plane, and a kernel screens it.
 */

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
 * Given:              plane [nv][nu]  in device memory, which is overwritten; row_used [nv]  0 where a row is zero,
 *                     in device memory; NULL: none is known to be
 * Given and returned: image [ny][nx]  float or double, in device memory
 * Returns:            0, MSI_EGPU
 */
int msi_image_fft_add(const msi_image_fft *fft, void *plane, const uint8_t *row_used, double w_lambda, void *image);

/* msi_image_fft_can_add_squares - tell whether msi_image_fft_add_squares serves: where there are kernels for rows. */
int msi_image_fft_can_add_squares(const msi_image_fft *fft);

/*
 * msi_image_fft_add_squares - msi_image_fft_add of the plane that squares add up to, which is never there itself.
 * Given:              plane [nv][nu]  in device memory, to work in
 * Given and returned: image [ny][nx]  as there
 * Returns:            0, MSI_EGPU
 */
int msi_image_fft_add_squares(const msi_image_fft *fft, const msi_plane_squares *squares, void *plane, double w_lambda,
                              void *image);

/*
 * msi_image_fft_spread - begin to make the plane of a model at w wavelengths: the model divided by the windows'
 * transforms, times exp(2 pi i w (n - 1 - n_mid)), zero-padded, transformed by exp(2 pi i) without a factor.
 * Given:    taper  of the image, its arrays in device memory; model [ny][nx]  float or double, in device memory
 *           row_used [nv]  0 where a row is not wanted, and undefined then, in device memory; NULL: all are
 * Returned: plane [nv][nu]  in device memory
 * Returns:  0, MSI_EGPU
 */
int msi_image_fft_spread(const msi_image_fft *fft, const msi_taper *taper, const void *model, double w_lambda,
                         const uint8_t *row_used, void *plane);

/*
 * msi_image_fft_size - return the padded size of an axis for these transforms.
 * Returns: the least size from n on that kernels of the project's own serve in both directions, if it is at most 1.07
 *          of msi_fft_size(n); else that
 */
int64_t msi_image_fft_size(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
