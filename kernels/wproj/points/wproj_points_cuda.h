/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Degridding by gathering: a warp, or a part of it, sums the footprint of one visibility. A gather works on the device
 * and the stream that it was made with. */
#ifndef MSI_WPROJ_POINTS_CUDA_H
#define MSI_WPROJ_POINTS_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_gather_form {
    MSI_GATHER_GIVEN, /* in the order given; nothing is sorted */
    MSI_GATHER_PLACE, /* sorted by large tiles, so that concurrent footprints share the L2 cache */
    MSI_GATHER_STRIP, /* strips of the image stream through shared memory. Needs one plane of kernels, with at most 8
                         taps and 8 sub-offsets; one image, with rows of a multiple of 32 bytes and not too many of
                         them; compute capability 9.0 with 227 KB of shared memory per block. Else PLACE is used */
    MSI_GATHER_TILE,  /* a tile of the image is in shared memory, and visibilities share kernel values */
    MSI_GATHER_AUTO
} msi_gather_form;

/*
 * A convolution function that is evaluated, not read from a table. The weight is exp(2 pi i p). p begins as turns
 * (1 - r), where r <= sqrt 2 is the tap's distance from the sample in half-widths of the kernel. Then n_polynomial
 * steps p <- p + p^2 / 1024 follow. Source: NVIDIA 2015, "Direct compute of GCF". Its polynomial p <- p + p^2 soon
 * overflows.
 */
typedef struct msi_gather_phase {
    double turns;
    int32_t n_polynomial;
    msi_precision precision; /* precision of the evaluation */
} msi_gather_phase;

enum { MSI_GATHER_PHASE_SCALE = 1024 };

typedef struct msi_gather msi_gather;

/*
 * msi_gather_create - choose tiles, and allocate device memory to sort job->n_vis samples.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: all but its pointers to samples, values and grid; full kernels
 * Returned: *out, freed by msi_gather_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (separable kernels, or wider than the grid)
 */
int msi_gather_create(msi_gather **out, const msi_gpu_stream *gpu, const msi_wproj_job *job, msi_gather_form form);
void msi_gather_free(msi_gather *g);

/* msi_gather_form_of - return the form in use, which MSI_GATHER_AUTO chose. */
msi_gather_form msi_gather_form_of(const msi_gather *g);

/*
 * msi_gather_sort - sort the job's samples. Must be called before msi_gather_degrid if the samples have changed.
 * Returns: 0, MSI_EGPU, MSI_ERANGE (more samples than at create)
 */
int msi_gather_sort(msi_gather *g, const msi_wproj_job *job);

/*
 * msi_gather_degrid - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job, of the samples that were sorted
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 */
int msi_gather_degrid(msi_gather *g, const msi_wproj_job *job);

/*
 * msi_gather_degrid_phase - degrid with an evaluated function, not the table. For the benchmark and tests.
 * Returns: 0, MSI_EGPU, MSI_ERANGE (a form other than MSI_GATHER_TILE)
 */
int msi_gather_degrid_phase(msi_gather *g, const msi_wproj_job *job, const msi_gather_phase *phase);

/* Degridding by scattering: threads keep cells in registers, and add each cell's contribution to all visibilities whose
 * footprints contain it. A scatter works on the device and the stream that it was made with. */

typedef struct msi_scatter msi_scatter;

/*
 * msi_scatter_create - allocate device memory to sort job->n_vis samples.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: all but its pointers to samples, values and grid; full kernels
 * Returned: *out, freed by msi_scatter_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (separable kernels, or wider than the grid)
 */
int msi_scatter_create(msi_scatter **out, const msi_gpu_stream *gpu, const msi_wproj_job *job);
void msi_scatter_free(msi_scatter *s);

/* msi_scatter_sort - sort the job's samples into bins. Returns: 0, MSI_EGPU, MSI_ERANGE */
int msi_scatter_sort(msi_scatter *s, const msi_wproj_job *job);

/*
 * msi_scatter_degrid - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job, of the samples that were sorted
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 * Notes:    partial sums are added by atomic additions, so their order varies.
 */
int msi_scatter_degrid(msi_scatter *s, const msi_wproj_job *job);

/* Benchmark and tests only: degridding by a moving window of cells in registers, for full kernels. The strategy
 * "window" is in wproj/window/. The object works on the device and the stream that it was made with. */

typedef struct msi_window_table msi_window_table;

/*
 * msi_window_table_create - allocate device memory to sort job->n_vis samples.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           job: all but its pointers to samples, values and grid; full kernels
 * Returned: *out, freed by msi_window_table_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (separable kernels, or wider than the grid)
 */
int msi_window_table_create(msi_window_table **out, const msi_gpu_stream *gpu, const msi_wproj_job *job);
void msi_window_table_free(msi_window_table *w);

/* msi_window_table_sort - sort the job's samples along strips of the grid, so that the window moves little between
 * samples. Returns: 0, MSI_EGPU, MSI_ERANGE */
int msi_window_table_sort(msi_window_table *w, const msi_wproj_job *job);

/*
 * msi_window_table_degrid - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job; sorted: 0: use the given order of samples, 1: use the order of the last sort
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 * Notes:    if a window takes several warps, they add their sums by atomic additions, so the order varies.
 */
int msi_window_table_degrid(msi_window_table *w, const msi_wproj_job *job, int sorted);

#ifdef __cplusplus
}
#endif
#endif
