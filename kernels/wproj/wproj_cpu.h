/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-projection on the CPU. The first part declares the box of one slice of w: a trimmed grid that is transformed to the
 * image, or from a model. */
#ifndef MSI_WPROJ_CPU_H
#define MSI_WPROJ_CPU_H

#include <stddef.h>

#include "kernels/method/method.h"
#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/store/vis_store.h"
#include "kernels/transform/fft_cpu.h"
#include "kernels/transform/screen_taper.h"
#include "kernels/wproj/job/wproj_simd.h"
#include "kernels/wproj/wproj_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Samples sorted by slice and tile, and the box of cells that the footprints of one slice cover. Memory is needed only
 * for this trimmed grid (SDP memo "Vertical prototyping of the gridding algorithm", section 11). Cell numbers are
 * unbounded. The transform wraps cells beyond half of the padded grid to the other side.
 */
typedef struct msi_wproj_box {
    const msi_wproj_plan *plan; /* borrowed */
    const msi_column_simd_table *column_simd;
    const msi_bucket_simd_table *bucket_simd;
    const msi_wkernel_set *kernels; /* borrowed */
    int fp32;
    size_t cell_bytes;
    msi_wgrid_geometry sort; /* for the sort: slices take the place of w-planes, and nearest cells of first taps */
    msi_buckets buckets;
    int64_t u0, v0, n_u, n_v; /* the box: cells u0 .. u0 + n_u - 1 and v0 .. v0 + n_v - 1 */
    int64_t stride, capacity; /* cells of a row; cells allocated */
    char *cells;              /* [n_v][stride] */
    uint8_t *row_used;        /* [n_v] 1: a footprint may touch the row */
    int64_t row_capacity;
    int n_thread;
    char **line, **columns; /* [n_thread] of nu or nv cells, of 16 columns of nv */
    int64_t column_pitch;
    msi_fft1d *fft_u, *fft_v;
    double *factor_x, *factor_y; /* [nx], [ny] 1 / taper */
} msi_wproj_box;

/*
 * msi_wproj_box_create - sort a store's samples, and allocate the largest slice's box.
 * Given:   kernels of the plan; both borrowed as long as *s lives
 *          store  its coordinates and weights are not used after the call
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED; msi_wproj_box_destroy frees either way
 */
int msi_wproj_box_create(msi_wproj_box *s, const msi_wproj_plan *plan, const msi_wkernel_set *kernels,
                         const msi_vis_store *store);
void msi_wproj_box_destroy(msi_wproj_box *s);

/* msi_wproj_box_open - place the box around a slice's samples, and set the rows that they touch to zero (row_used).
 * Returns 1, or 0 if there are no samples. */
int msi_wproj_box_open(msi_wproj_box *s, int32_t slice);

/* msi_wproj_bucket - return the bucket of a slice and a tile; the tiles of a slice are numbered row by row. */
static inline int64_t msi_wproj_bucket(const msi_wproj_box *s, int32_t slice, int64_t tile)
{
    return slice * s->sort.n_tile_u * s->sort.n_tile_v + tile;
}

/* msi_wproj_tile_first - return the first cell, along one axis, in which a sample of a tile may lie. */
static inline int64_t msi_wproj_tile_first(const msi_wproj_box *s, int64_t tile, int64_t n_grid)
{
    return tile * s->sort.tile - n_grid / 2 - s->sort.width;
}

/* msi_wproj_cell_at - return the address `cells` cells after base. */
static inline void *msi_wproj_cell_at(const msi_wproj_box *s, char *base, int64_t cells)
{
    return base + cells * (int64_t)s->cell_bytes;
}

/*
 * msi_wproj_box_to_image - transform the open box, multiply it by the slice's screen, and add it to the image.
 * Given and returned: sum [nx][ny] float64 Jy, x slowest, accumulated
 */
void msi_wproj_box_to_image(msi_wproj_box *s, int32_t slice, double *sum);

/*
 * msi_wproj_box_from_model - the transpose: divide a model by the taper, multiply it by the slice's screen, and fill
 * the open box with its transform.
 * Given: model [ny][nx] float or double, according to the plan's precision; Jy/pixel
 */
void msi_wproj_box_from_model(msi_wproj_box *s, int32_t slice, const void *model);

/* msi_wproj_box_bytes - return the bytes of host memory for a box of the whole plane, kernels and sorted samples. */
int64_t msi_wproj_box_bytes(const msi_wproj_plan *plan, int64_t n_sample);

/* Imaging on the CPU, slice by slice and tile by tile. */

extern const msi_wproj_cost msi_wproj_cpu_cost;

/* The order in which a slice's samples and cells are processed. Only TILE is vectorised; the others are plain loops. */
typedef enum msi_wproj_cpu_form {
    MSI_WPROJ_CPU_TILE,      /* tile by tile */
    MSI_WPROJ_CPU_REFERENCE, /* sample by sample; gridding uses one thread */
    MSI_WPROJ_CPU_WINDOW,    /* sample by sample, with a window of cells that moves with the samples */
    MSI_WPROJ_CPU_SCATTER    /* degridding only: row of cells by row of cells */
} msi_wproj_cpu_form;

/*
 * msi_wproj_cpu_image - make images of a store: grid it, transform it, and divide by the taper and the weights.
 *
 * Given:    plan, its kernels, store
 *           store_plane [image->n_plane]  plane of the store, -1 for the PSF of plane 0
 *           image  allocated, with sum_weight set
 * Given and returned: times  wall seconds are added
 * Returned: image->pixel, divided by sum_weight; NaN in planes whose sum_weight is 0
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wproj_cpu_image(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                        const msi_vis_store *store, const int *store_plane, msi_image *image, msi_stage_times *times);

/*
 * msi_wproj_cpu_grid_slice - grid the samples of an open slice into its box, for one plane of the store.
 * Given:   image_plane  plane of the store, -1 for the PSF of plane 0
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_wproj_cpu_grid_slice(msi_wproj_box *s, msi_wproj_cpu_form form, const msi_vis_store *store, int image_plane,
                             int32_t slice);

/* Prediction on the CPU, the transpose of imaging. */

/*
 * msi_wproj_cpu_predict - taper, screen and transform the model for every slice, and degrid the store's samples.
 * Given:    plan, its kernels
 *           model  of the plan's geometry and precision, as many planes as the store, Jy/pixel
 * Returned: the store's visibilities, Jy
 * Given and returned: times  wall seconds are added
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_wproj_cpu_predict(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                          msi_vis_store *store, const msi_image *model, msi_stage_times *times);

#ifdef __cplusplus
}
#endif
#endif
