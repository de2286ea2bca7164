/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The box of one slice of w in host memory: a trimmed grid that is transformed to the image, or from a model. */
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
 * Samples sorted by slice and tile, and the box of cells that the tiles of one slice and their footprints cover (SDP
 * memo "Vertical prototyping of the gridding algorithm" section 11: memory for the trimmed grid alone). Cell numbers
 * are unbounded. Cells beyond half of the padded grid belong to its other side, and the transform wraps them.
 */
typedef struct msi_wproj_box {
    const msi_wproj_plan *plan; /* borrowed */
    const msi_column_simd_table *column_simd;
    const msi_bucket_simd_table *bucket_simd;
    const msi_wkernel_set *kernels; /* borrowed */
    int fp32;
    size_t cell_bytes;
    msi_wgrid_geometry sort; /* the sort's view: slices for first w-planes, nearest cells for first taps */
    msi_buckets buckets;
    int64_t u0, v0, n_u, n_v; /* the box: cells u0 .. u0 + n_u - 1 and v0 .. v0 + n_v - 1 */
    int64_t stride, capacity; /* cells of a row; cells allocated */
    char *cells;              /* [n_v][stride] */
    uint8_t *row_used;        /* [n_v] 1: the footprint of some sample may touch the row */
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
 *          store  its coordinates and weights are read now
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED; msi_wproj_box_destroy frees either way
 */
int msi_wproj_box_create(msi_wproj_box *s, const msi_wproj_plan *plan, const msi_wkernel_set *kernels,
                         const msi_vis_store *store);
void msi_wproj_box_destroy(msi_wproj_box *s);

/* msi_wproj_box_open - place the box around a slice's samples, and zero the rows that they touch (row_used). Returns 1;
 * 0 if there are no samples. */
int msi_wproj_box_open(msi_wproj_box *s, int32_t slice);

/* msi_wproj_bucket - return the bucket of a slice and a tile; the tiles of a slice are numbered row by row. */
static inline int64_t msi_wproj_bucket(const msi_wproj_box *s, int32_t slice, int64_t tile)
{
    return slice * s->sort.n_tile_u * s->sort.n_tile_v + tile;
}

/* msi_wproj_tile_first - return the first cell of a tile (of its column or row) in which a sample may lie. */
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
 * msi_wproj_box_to_image - transform the open box and screen it with the slice's w.
 * Given and returned: sum [nx][ny] float64 Jy, x slowest, accumulated
 */
void msi_wproj_box_to_image(msi_wproj_box *s, int32_t slice, double *sum);

/*
 * msi_wproj_box_from_model - the transpose: fill the open box with a model times 1 / taper, screened and transformed.
 * Given: model [ny][nx] float or double as the plan's precision says, Jy/pixel
 */
void msi_wproj_box_from_model(msi_wproj_box *s, int32_t slice, const void *model);

/* msi_wproj_box_bytes - return the host bytes for a slice of a whole plane, with kernels and sorted samples. */
int64_t msi_wproj_box_bytes(const msi_wproj_plan *plan, int64_t n_sample);

/* w-projection on the CPU: slice by slice, tile by tile. */

extern const msi_wproj_cost msi_wproj_cpu_cost;

/* The order of processing a slice's samples and cells. All but the first are plain loops. */
typedef enum msi_wproj_cpu_form {
    MSI_WPROJ_CPU_TILE,      /* vectorised */
    MSI_WPROJ_CPU_REFERENCE, /* one sample's footprint after the other; gridding on one thread */
    MSI_WPROJ_CPU_WINDOW,    /* a window of cells moves with the samples */
    MSI_WPROJ_CPU_SCATTER    /* degridding only: cells add to the samples that they touch */
} msi_wproj_cpu_form;

/*
 * msi_wproj_cpu_image - grid a store, transform, correct.
 *
 * Given:    plan, its kernels, store
 *           store_plane [image->n_plane]  plane of the store, -1 for the PSF of plane 0
 *           image  allocated, with sum_weight set
 * Given and returned: times  wall seconds are added
 * Returned: image->pixel, divided by sum_weight; a plane whose sum is 0 is NaN
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wproj_cpu_image(const msi_wproj_plan *plan, const msi_wkernel_set *kernels, msi_wproj_cpu_form form,
                        const msi_vis_store *store, const int *store_plane, msi_image *image, msi_stage_times *times);

/*
 * msi_wproj_cpu_grid_slice - grid one plane of a store's samples of an open slice into its box.
 * Given:   image_plane  plane of the store, -1 for the PSF of plane 0
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_wproj_cpu_grid_slice(msi_wproj_box *s, msi_wproj_cpu_form form, const msi_vis_store *store, int image_plane,
                             int32_t slice);

/* w-projection's transpose on the CPU: a model image to visibilities. */

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
