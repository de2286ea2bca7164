/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Planes of the padded grid in host memory, for gridding and degridding: a ring of w-planes (msi_wgrid_planes), the
 * steps from gridded planes to an image (msi_image_sum), and from a model to planes (msi_model_planes). */
#ifndef MSI_WGRID_PLANES_CPU_H
#define MSI_WGRID_PLANES_CPU_H

#include <stddef.h>

#include "core/image.h"
#include "kernels/method/method.h"
#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/transform/fft_cpu.h"
#include "kernels/transform/screen_taper.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/wgrid/wgrid_simd.h"

/* Columns that are transformed together, so that whole cache lines of the planes' rows are read and written. */
enum { MSI_PLANE_COLUMNS = 16 };

/*
 * Planes of (nv + 2 guards) rows of `stride` cells. Cell (u, v) is in column u + nu/2 + MSI_GRID_GUARD of row v + nv/2
 * + MSI_GRID_GUARD. Guard cells are copies of cells at the other end of the periodic grid.
 */
typedef struct msi_wgrid_planes {
    const msi_wgrid_plan *plan;
    const msi_wgrid_geometry *g;
    const msi_wgrid_simd_table *simd;
    const msi_column_simd_table *column_simd;
    int fp32;
    size_t cell_bytes;
    int64_t n_row, stride;
    int64_t n_resident;
    char **plane;      /* [n_resident] zero at first; w-plane p is plane[p % n_resident] */
    uint8_t *row_used; /* [n_resident][n_row] zero at first; the owner decides what it means */
    void *taps;        /* msi_taps_f32 or msi_taps_f64 */
    int n_thread;
    char **columns; /* [n_thread][MSI_PLANE_COLUMNS][column_pitch] */
    int64_t column_pitch;
    msi_fft1d *fft_u, *fft_v;
} msi_wgrid_planes;

/* A position of the ring: the first w-planes of its samples, and the w-planes in memory. */
typedef struct msi_ring_step {
    int64_t w0_begin, w0_end; /* first w-planes of the samples, the end excluded */
    int64_t low, high;        /* w-planes in memory, the end excluded; footprints may reach beyond */
} msi_ring_step;

/*
 * msi_wgrid_planes_create - allocate n_resident planes of zeros, column buffers for each thread, and transforms.
 * Given:   plan     borrowed for the life of *p
 *          touched  bytes of each plane that samples use, from msi_wgrid_plane_touched
 * Returns: 0, MSI_ENOMEM; freed by msi_wgrid_planes_free in either case
 */
int msi_wgrid_planes_create(msi_wgrid_planes *p, const msi_wgrid_plan *plan, int64_t n_resident, int64_t touched);
void msi_wgrid_planes_free(msi_wgrid_planes *p);

/* msi_wgrid_plane_bytes - return the bytes of one plane, guards included. */
int64_t msi_wgrid_plane_bytes(const msi_wgrid_plan *plan);

/* msi_wgrid_plane_touched - return an upper limit of the bytes of the rows of a plane that samples use. Other rows are
 * never accessed. Given: more  rows that a strategy uses in addition on both sides of its samples' tiles */
int64_t msi_wgrid_plane_touched(const msi_wgrid_plan *plan, int64_t more);

/* msi_plane_of - return the first cell of a w-plane in the ring; borrowed. */
static inline char *msi_plane_of(const msi_wgrid_planes *p, int64_t w_plane)
{
    return p->plane[w_plane % p->n_resident];
}

/* msi_plane_rows - return row_used [n_row] of a w-plane in the ring; borrowed. */
static inline uint8_t *msi_plane_rows(const msi_wgrid_planes *p, int64_t w_plane)
{
    return p->row_used + w_plane % p->n_resident * p->n_row;
}

/* msi_plane_cell - return the address `cells` cells beyond base. */
static inline void *msi_plane_cell(const msi_wgrid_planes *p, char *base, int64_t cells)
{
    return base + cells * (int64_t)p->cell_bytes;
}

/* msi_wgrid_plane_w - return w of a w-plane in wavelengths; 0 if w is left out. */
static inline double msi_wgrid_plane_w(const msi_wgrid_geometry *g, int64_t w_plane)
{
    return g->w_width > 1 ? g->w_first + (double)w_plane * g->w_step : 0;
}

/* msi_bucket_of - return the bucket of a first w-plane and a tile. Tiles are numbered row by row. */
static inline int64_t msi_bucket_of(const msi_wgrid_geometry *g, int64_t w0, int64_t tile)
{
    return w0 * g->n_tile_u * g->n_tile_v + tile;
}

/*
 * From gridded planes to an image. A plane is transformed by one-dimensional transforms: first the rows that are not
 * zero, then only the columns of the image. Each column is multiplied by the screen and added to the image while it is
 * in cache.
 */

/*
 * msi_image_sum_add - fold a plane's guards, transform and screen it, add it to an image, and set it to zero.
 *
 * Given:              p  its geometry, transforms and column buffers are used; w_lambda  w of the plane
 * Given and returned: plane, row_used [n_row]  rows that are not zero; both are zero afterwards
 *                     sum [nx][ny]  the image before correction, transposed; in double, because it may be the sum of
 *                     thousands of planes
 */
void msi_image_sum_add(const msi_wgrid_planes *p, char *plane, uint8_t *row_used, double w_lambda, double *sum);

/* A strategy's function that grids all w-planes of an image plane and adds them to the sum. */
typedef struct msi_plane_imager {
    const msi_wgrid_planes *planes;
    msi_buckets *buckets; /* filled by msi_image_sum_make */
    double *sum;          /* [nx][ny] see msi_image_sum_add */
    /* Given: store_plane  plane of the visibilities; -1: the PSF. Returns: 0, MSI_EINTERRUPTED */
    int (*add_plane)(void *of, int store_plane, msi_stage_times *times);
    void *of;
} msi_plane_imager;

/*
 * msi_image_sum_make - sort a store's samples and make all planes of an image, one after the other.
 * Given:              store_plane [image->n_plane]
 * Given and returned: image  its sum_weight is set; times
 * Returns:            0, MSI_ENOMEM, codes of add_plane
 */
int msi_image_sum_make(const msi_plane_imager *imager, const msi_vis_store *store, const int *store_plane,
                       msi_image *image, msi_stage_times *times);

/*
 * From a model image to planes, the transpose of msi_image_sum_add. A plane is made by one-dimensional transforms:
 * first the columns of the model that are not zero, then only the wanted rows. If all planes of all images are kept,
 * all columns are transformed first, and a row is transformed when it is needed for the first time.
 */

/* A ring of planes of a model, or all planes of all its images; and the image from which they are made. */
typedef struct msi_model_planes {
    msi_wgrid_planes planes; /* row_used: rows that are transformed */
    int keeps; /* 1: all planes of all images are in memory; plane p of image i is number i n_w_plane + p */
    int n_image;
    int64_t n_w_plane;
    uint8_t *column_used; /* [n_image][nx] 1: the column of the model is not zero */
    uint8_t *image_used;  /* [n_image] */
    void *value;          /* [nx][ny] float or double: an image divided by the windows' transforms, transposed */
    uint8_t *wanted;      /* [n_row] rows of the current plane to be transformed, set by the owner */
    msi_taper taper;
} msi_model_planes;

/*
 * msi_model_planes_create - allocate for n_w_plane w-planes of each image, of which n_resident are in memory together.
 * Given:   touched  bytes of a plane that samples use; not used if all planes are kept, because then all rows are
 *          written plan   borrowed; keeps  1: all planes of all images are in memory, and n_resident is not used
 * Returns: 0, MSI_ENOMEM; freed by msi_model_planes_free in either case
 */
int msi_model_planes_create(msi_model_planes *m, const msi_wgrid_plan *plan, int n_image, int64_t n_w_plane,
                            int64_t n_resident, int keeps, int64_t touched);
void msi_model_planes_free(msi_model_planes *m);

/* msi_model_planes_load - load an image of the model from which planes are made. It is divided by the windows'
 * transforms, and set to 0 beyond the horizon. */
void msi_model_planes_load(msi_model_planes *m, const msi_image *model, int image);

/* msi_model_planes_free_image - free the loaded image when all planes have been filled. */
void msi_model_planes_free_image(msi_model_planes *m);

/*
 * msi_model_planes_fill - multiply the columns of the loaded image by the screen of a plane, and transform them.
 * Given: wanted  1: write only to the rows of m->wanted, 0: to all rows
 */
void msi_model_planes_fill(msi_model_planes *m, int image, int64_t plane, double w_lambda, int wanted);

/* msi_model_planes_finish - transform the rows of m->wanted that have not been transformed, and copy guard rows from
 * the other end of the grid. */
void msi_model_planes_finish(msi_model_planes *m, int image, int64_t plane);

/* msi_model_planes_request_guards - for each guard row in m->wanted, also mark the row of which it is a copy. */
void msi_model_planes_request_guards(msi_model_planes *m);

/* msi_model_plane_number - return the number of an image's w-plane in m->planes.plane. */
static inline int64_t msi_model_plane_number(const msi_model_planes *m, int image, int64_t plane)
{
    return m->keeps ? image * m->n_w_plane + plane : plane % m->planes.n_resident;
}

#endif
