/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Fourier transforms of a plane's rows on the GPU, each by a block that holds the row in shared memory: it is read once
 * and written once, and of the side that is an image only the image's columns are touched.
 */
#ifndef MSI_KERNELS_ROW_FFT_CUDA_H
#define MSI_KERNELS_ROW_FFT_CUDA_H

#include <stdint.h>

#include "core/types.h"

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

#ifdef __cplusplus
}
#endif
#endif
