/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Degridding by gathering: warps, or parts of them, sum visibilities' footprints. A gather works on the device and the
 * stream that it was made with. */
#ifndef MSI_WPROJ_POINTS_CUDA_H
#define MSI_WPROJ_POINTS_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_gather_form {
    MSI_GATHER_GIVEN, /* in the order given; nothing is sorted */
    MSI_GATHER_PLACE, /* ordered by large tiles, so that footprints meet in the L2 cache */
    MSI_GATHER_STRIP, /* strips of the image stream through shared memory; for one plane of kernels of at most 8 taps
                         and 8 sub-offsets, one image whose rows are whole pieces of 32 bytes and not too many, and
                         compute capability 9.0 with 227 KB of shared memory to a block; else by place */
    MSI_GATHER_TILE,  /* a tile of the image in shared memory; visibilities share kernel values */
    MSI_GATHER_AUTO
} msi_gather_form;

/*
 * A convolution function that is evaluated instead of read from a table: exp(2 pi i p), with p = turns (1 - r), r the
 * tap's distance from the sample in half-widths of the kernel (so r <= sqrt 2), after n_polynomial steps p <- p + p^2 /
 * 1024. NVIDIA 2015, "Direct compute of GCF", whose polynomial p <- p + p^2 would soon be infinite.
 */
typedef struct msi_gather_phase {
    double turns;
    int32_t n_polynomial;
    msi_precision precision; /* precision of the evaluation */
} msi_gather_phase;

enum { MSI_GATHER_PHASE_SCALE = 1024 };

typedef struct msi_gather msi_gather;

/*
 * msi_gather_create - make tiles, and device memory to sort job->n_vis samples.
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
 * msi_gather_sort - put the job's samples in order; must precede msi_gather_degrid whenever they changed.
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
 * msi_gather_degrid_phase - the same with an evaluated function instead of the table; for the benchmark and tests.
 * Returns: 0, MSI_EGPU, MSI_ERANGE (a form other than MSI_GATHER_TILE)
 */
int msi_gather_degrid_phase(msi_gather *g, const msi_wproj_job *job, const msi_gather_phase *phase);

/* Degridding by scattering: threads keep cells in registers and add their contributions to every visibility whose
 * footprint contains them. A scatter works on the device and the stream that it was made with. */

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

/* msi_scatter_sort - put the job's samples in order, with bookmarks. Returns: 0, MSI_EGPU, MSI_ERANGE */
int msi_scatter_sort(msi_scatter *s, const msi_wproj_job *job);

/*
 * msi_scatter_degrid - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job, of the samples that were sorted
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 * Notes:    partial sums meet in atomic additions, so their order varies.
 */
int msi_scatter_degrid(msi_scatter *s, const msi_wproj_job *job);

/* Benchmark and tests only: degridding by a moving window of cells in registers, for kernels tabulated as squares; the
 * strategy "window" is in wproj/window/. The object works on the device and the stream that it was made with. */

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

/* msi_window_table_sort - order the job's samples along strips of the grid, so that the window moves little from one
 * to the next. Returns: 0, MSI_EGPU, MSI_ERANGE */
int msi_window_table_sort(msi_window_table *w, const msi_wproj_job *job);

/*
 * msi_window_table_degrid - compute value[i][p] = sum over the footprint of grid[v][u][p] conj(K_i(u, v)).
 * Given:    job; sorted: 0: process the samples in the given order, else in the order of the last sort
 * Returned: job->value, overwritten
 * Returns:  0, MSI_EGPU
 * Notes:    where a window takes several warps, sums meet in atomic additions, so their order varies.
 */
int msi_window_table_degrid(msi_window_table *w, const msi_wproj_job *job, int sorted);

#ifdef __cplusplus
}
#endif
#endif
