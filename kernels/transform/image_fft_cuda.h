/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The transform of a padded uv plane on the GPU, screened and added to an image, and its transpose.
 *
 * Steps: (1) msi_row_fft transforms rows. A block holds a row in shared memory, so a row is read and written once, and
 * only the columns of the image are written. (2) Only these columns are transformed, and only the image's pixels are
 * computed. If the size is a product P Q of two supported numbers of points, a first kernel transforms P points at
 * distances of Q; a second kernel transforms Q contiguous points, multiplies the pixels by the screen, and adds them to
 * the image. cuFFT transforms rows of other lengths. If columns have another length, cuFFT transforms the whole plane,
 * and another kernel applies the screen.
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
 * Squares of size^2 numbers in device memory, whose sum is a plane. They are `step` cells apart and overlap; beyond an
 * edge of the plane they wrap around. Only the squares at the listed places, down * n_across + across, exist; they are
 * stored consecutively. Stored cell c of a square's rows and columns is cell (c + turned) modulo size of the square.
 */
typedef struct msi_plane_squares {
    const void *cell;          /* [n][size][size] */
    const uint32_t *place;     /* [n] ascending */
    const uint32_t *row_first; /* [n_down + 1] the first square of each row of squares; the last element is n */
    int32_t size, step, n_across, n_down, turned;
    int32_t first; /* the plane's cell, in both directions, under the first cell of place 0; may be negative */
} msi_plane_squares;

/* msi_row_fft_serves - return 1 if n points are supported, on a GPU with enough shared memory. */
int msi_row_fft_serves(int64_t n);

/*
 * msi_row_fft_create - prepare transforms of n points on the current device.
 * Given:    stream  cudaStream_t, borrowed while the transform lasts
 * Returned: *out, freed by msi_row_fft_free; NULL if n is not supported, or a row does not fit into the device's shared
 *           memory
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_row_fft_create(msi_row_fft **out, int64_t n, msi_precision precision, void *stream);
void msi_row_fft_free(msi_row_fft *fft);

/*
 * msi_row_fft_forward - begin to transform rows in place, exp(-2 pi i). Only the `kept` lowest frequencies are written:
 * -kept/2 .. kept - kept/2 - 1, negative ones from the row's end. The other cells of a row are then undefined.
 * Given:              row_used [n_row]  0: the row is not transformed; in device memory; NULL: all rows are transformed
 * Given and returned: plane [n_row][n]  in device memory
 * Returns:            0, MSI_EGPU
 */
int msi_row_fft_forward(const msi_row_fft *fft, void *plane, int64_t n_row, const uint8_t *row_used, int64_t kept);

/*
 * msi_row_fft_of_squares - begin to transform the rows of the sum of squares, as msi_row_fft_forward does. The `kept`
 * lowest frequencies are written, other cells stay the same.
 * Returned: plane [n_row][n]  in device memory
 * Returns:  0, MSI_EGPU
 */
int msi_row_fft_of_squares(const msi_row_fft *fft, const msi_plane_squares *squares, void *plane, int64_t n_row,
                           int64_t kept);

/* msi_row_fft_backward - begin the transpose, exp(2 pi i) without a factor: a row is zero except for its `kept` lowest
 * frequencies. */
int msi_row_fft_backward(const msi_row_fft *fft, void *plane, int64_t n_row, const uint8_t *row_used, int64_t kept);

typedef struct msi_image_fft msi_image_fft;

/* msi_image_fft_shape - a plane [nv][nu] of complex numbers and the image that its transform holds. */
typedef struct msi_image_fft_shape {
    msi_image_geometry image;
    int64_t nu, nv;
    double n_mid; /* offset of n - 1; screens turn by w (n - 1 - n_mid) */
    int has_w;
    msi_precision precision; /* precision of the plane and the image */
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
 * Given:              plane [nv][nu]  in device memory, overwritten; row_used [nv]  0: the row is zero, in device
 *                     memory;
 *                     NULL: any row may hold something
 * Given and returned: image [ny][nx]  float or double, in device memory
 * Returns:            0, MSI_EGPU
 */
int msi_image_fft_add(const msi_image_fft *fft, void *plane, const uint8_t *row_used, double w_lambda, void *image);

/* msi_image_fft_can_add_squares - return 1 if msi_row_fft transforms the rows, so that msi_image_fft_add_squares can be
 * used. */
int msi_image_fft_can_add_squares(const msi_image_fft *fft);

/*
 * msi_image_fft_add_squares - do the same as msi_image_fft_add for the sum of squares, without storing the sum.
 * Given:              plane [nv][nu]  in device memory, a workspace
 * Given and returned: image [ny][nx]  as in msi_image_fft_add
 * Returns:            0, MSI_EGPU
 */
int msi_image_fft_add_squares(const msi_image_fft *fft, const msi_plane_squares *squares, void *plane, double w_lambda,
                              void *image);

/*
 * msi_image_fft_spread - begin to make the plane of a model at w wavelengths: the model divided by the windows'
 * transforms, times exp(2 pi i w (n - 1 - n_mid)), zero-padded, transformed by exp(2 pi i) without a factor.
 * Given:    taper  of the image, its arrays in device memory; model [ny][nx]  float or double, in device memory;
 *           row_used [nv]  0: the row is not needed, and undefined afterwards; in device memory; NULL: all are needed
 * Returned: plane [nv][nu]  in device memory
 * Returns:  0, MSI_EGPU
 */
int msi_image_fft_spread(const msi_image_fft *fft, const msi_taper *taper, const void *model, double w_lambda,
                         const uint8_t *row_used, void *plane);

/*
 * msi_image_fft_size - return the padded size of an axis for these transforms.
 * Returns: the smallest size of at least n that the project's own kernels support in both directions, if it is at most
 *          1.07 times msi_fft_size(n); else msi_fft_size(n)
 */
int64_t msi_image_fft_size(int64_t n);

#ifdef __cplusplus
}
#endif
#endif
