/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Operands are kernels as degridding on tensor cores reads them: weights of every sub-offset lie where they fall on the
 * blocks of a moving window, so that a warp takes its operands as they are, wherever the footprint is.
 */
#ifndef MSI_KERNELS_WINDOW_OPERANDS_CUDA_H
#define MSI_KERNELS_WINDOW_OPERANDS_CUDA_H

#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Operands of one width of kernels take a 256th of the device's memory at most, and no more than this. */
enum { MSI_WINDOW_OPERAND_MIB = 256 };

/*
 * Operands are rows of the planes' sub-offsets, plane by plane, and one of zeros. `half` taps lie before a footprint's
 * cell; kernels narrower than `taps` are padded by zeros.
 *
 * u [n_row][4][2][window / 4][2] 16 bytes: for footprints that begin 0 .. 3 cells into a block of four, twice over the
 * window's blocks, the real parts of a block's four weights, scaled, and the imaginary parts. MSI_WPROJ_NEAREST: four
 * high halves, then four low ones. MSI_WPROJ_LINEAR: floats.
 *
 * v [n_row][2][window] msi_c32: twice over the window's cells.
 */
typedef struct msi_window_operands {
    int32_t taps, half;
    int32_t window; /* cells of the least window for `taps` that tensor cores divide well; a multiple of 16 */
    msi_wproj_lookup lookup;
    void *u, *v;
    float *largest; /* the largest part of any weight, which scales the weights along u */
} msi_window_operands;

/* msi_window_operands_bytes - count the device's bytes for operands of kernels of up to max_taps; 0: none are made. */
int64_t msi_window_operands_bytes(int32_t n_plane, int32_t oversample, int32_t max_taps);

/*
 * msi_window_operands_create - make operands of a job's kernels, max_taps and narrower.
 *
 * Given:    job->precision, job->kernels; stream, a cudaStream_t of the current device, on which they are made
 * Returned: *out, freed by msi_window_operands_free; NULL where tensor cores do not take such kernels: full tables,
 *           double precision, textures, more than operands may take or the device has left
 * Returns:  0, MSI_EGPU, MSI_ENOMEM
 */
int msi_window_operands_create(msi_window_operands **out, const msi_wproj_job *job, void *stream);
void msi_window_operands_free(msi_window_operands *o);

#ifdef __cplusplus
}
#endif
#endif
