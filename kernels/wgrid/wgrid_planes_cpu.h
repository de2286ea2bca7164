/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A ring of w-planes in host memory, with what gridding into it and degridding from it both need. */
#ifndef MSI_KERNELS_WGRID_PLANES_CPU_H
#define MSI_KERNELS_WGRID_PLANES_CPU_H

#include <stddef.h>

#include "kernels/wgrid/wgrid_simd.h"
#include "kernels/wgrid/wgrid_plan.h"
#include "kernels/transform/column_simd.h"
#include "kernels/transform/fft_cpu.h"

/* Columns that are transformed together, so that rows of the planes are read and written in whole cache lines. */
enum { MSI_PLANE_COLUMNS = 16 };

/*
 * Planes of (nv + 2 guards) rows of `stride` cells. Cell (u, v) lies at column u + nu/2 + MSI_GRID_GUARD of row
 * v + nv/2 + MSI_GRID_GUARD; guard cells stand for those at the other end of the grid.
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
    char **plane;      /* [n_resident] zero at first; w-plane p lives in plane[p % n_resident] */
    uint8_t *row_used; /* [n_resident][n_row] zero at first; what for is the user's affair */
    void *taps;        /* msi_taps_f32 or msi_taps_f64 */
    int n_thread;
    char **columns; /* [n_thread][MSI_PLANE_COLUMNS][column_pitch] */
    int64_t column_pitch;
    msi_fft1d *fft_u, *fft_v;
} msi_wgrid_planes;

/* A position of the ring: samples of some first w-planes meet the w-planes that are in memory. */
typedef struct msi_ring_step {
    int64_t w0_begin, w0_end; /* first w-planes of the samples, the end excluded */
    int64_t low, high;        /* w-planes in memory, the end excluded; footprints may reach beyond */
} msi_ring_step;

/*
 * msi_wgrid_planes_create - allocate n_resident planes of zeros, buffers of columns for each thread, and transforms.
 * Given:   plan  borrowed for the life of *p
 * Returns: 0, MSI_ENOMEM; freed by msi_wgrid_planes_free either way
 */
int msi_wgrid_planes_create(msi_wgrid_planes *p, const msi_wgrid_plan *plan, int64_t n_resident);
void msi_wgrid_planes_free(msi_wgrid_planes *p);

/* msi_wgrid_plane_bytes - return the bytes of one plane, guards included. */
int64_t msi_wgrid_plane_bytes(const msi_wgrid_plan *plan);

/* msi_plane_of - return the first cell of a w-plane in the ring; borrowed. */
static inline char *msi_plane_of(const msi_wgrid_planes *p, int64_t w_plane)
{
    return p->plane[w_plane % p->n_resident];
}

/* msi_plane_rows - row_used [n_row] of a w-plane in the ring; borrowed. */
static inline uint8_t *msi_plane_rows(const msi_wgrid_planes *p, int64_t w_plane)
{
    return p->row_used + w_plane % p->n_resident * p->n_row;
}

/* msi_plane_cell - return the address `cells` cells beyond base. */
static inline void *msi_plane_cell(const msi_wgrid_planes *p, char *base, int64_t cells)
{
    return base + cells * (int64_t)p->cell_bytes;
}

/* msi_wgrid_plane_w - return w of a w-plane in wavelengths, 0 where w is left out. */
static inline double msi_wgrid_plane_w(const msi_wgrid_geometry *g, int64_t w_plane)
{
    return g->w_width > 1 ? g->w_first + (double)w_plane * g->w_step : 0;
}

/* msi_bucket_of - return the bucket of a first w-plane and a tile; tiles follow row by row. */
static inline int64_t msi_bucket_of(const msi_wgrid_geometry *g, int64_t w0, int64_t tile)
{
    return w0 * g->n_tile_u * g->n_tile_v + tile;
}

#endif
