/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CPU's inner loops of gridding and degridding, compiled once for each instruction set and chosen at run time. */
#ifndef MSI_KERNELS_WGRID_SIMD_H
#define MSI_KERNELS_WGRID_SIMD_H

#include <stdint.h>

#include "kernels/method/geometry.h"
#include "kernels/store/bucket_sort_cpu.h"
#include "kernels/store/vis_store.h"
#include "kernels/transform/pswf.h"

/* Rows of taps are padded to whole vectors; no vector is longer than this many complex cells. */
enum { MSI_GRID_GUARD = 16, MSI_TAP_PAD = 16 };

/* Polynomial coefficients of the taps in the grid's precision, padded with zeros. u taps are stored twice each, for re
 * and im. The arrays are [n_coef][..], highest power first. */
typedef struct msi_taps_f32 {
    float u[MSI_PSWF_MAX_COEF][2 * MSI_TAP_PAD];
    float v[MSI_PSWF_MAX_COEF][MSI_TAP_PAD];
    float w[MSI_PSWF_MAX_COEF][MSI_TAP_PAD];
} msi_taps_f32;

typedef struct msi_taps_f64 {
    double u[MSI_PSWF_MAX_COEF][2 * MSI_TAP_PAD];
    double v[MSI_PSWF_MAX_COEF][MSI_TAP_PAD];
    double w[MSI_PSWF_MAX_COEF][MSI_TAP_PAD];
} msi_taps_f64;

/* Runs of one bucket, and the store that has their values. */
typedef struct msi_span {
    const msi_wgrid_geometry *geometry;
    const msi_vis_store *store;
    const void *taps; /* msi_taps_f32 or msi_taps_f64 */
    const msi_run *run;
    int64_t n_run;
    int image_plane;  /* plane of the store's visibilities; -1: the PSF of plane 0, visibility 1 */
    int weight_plane; /* the plane of their weights; not read by degridding */
} msi_span;

/* The planes to which a span's footprints are added. Cell (u, v) of w tap k is at plane[k] + (v - v_origin) * stride +
 * (u - u_origin). */
typedef struct msi_grid_target {
    void *plane[MSI_PSWF_MAX_WIDTH]; /* [v][u] msi_c32 or msi_c64 */
    int first_tap, end_tap;          /* w taps whose planes are in memory */
    int64_t stride, u_origin, v_origin;
} msi_grid_target;

/*
 * The planes of one bucket, from which a span's visibilities are summed. Samples are near (u_middle, v_middle), the
 * middle of the bucket's tile, or whole periods away from it. If the first tap of a sample is at the middle plus (u,
 * v), its footprint begins at cell plane[k] + (v + v_offset) * stride + u + u_offset.
 */
typedef struct msi_grid_source {
    const void *plane[MSI_PSWF_MAX_WIDTH]; /* [v][u] msi_c32 or msi_c64, of w tap k */
    int first_tap, end_tap;                /* w taps whose planes are in memory */
    int adds;                              /* 1: add to the visibilities, which contain the sum over other w taps */
    int32_t w0;                            /* the w-plane of tap 0 */
    int64_t stride, u_offset, v_offset;
    double u_middle, v_middle, reach; /* samples are at most `reach` from the middle */
} msi_grid_source;

/* The functions of one instruction set. */
typedef struct msi_wgrid_simd_table {
    void (*grid_f32)(const msi_span *span, const msi_grid_target *target);
    void (*grid_f64)(const msi_span *span, const msi_grid_target *target);
    /* Degrid a span into the store's visibilities of its image_plane. */
    void (*degrid_f32)(const msi_span *span, const msi_grid_source *source);
    void (*degrid_f64)(const msi_span *span, const msi_grid_source *source);
    /* For cells of a subgrid's transform. gather: sum += cell * screen, cell = 0. turn: out = cell * screen. The
     * imaginary part of the screen is multiplied by sign. */
    void (*gather_f32)(msi_c32 *cell, const msi_c32 *screen, float sign, int64_t n, msi_c32 *sum);
    void (*gather_f64)(msi_c64 *cell, const msi_c64 *screen, double sign, int64_t n, msi_c64 *sum);
    void (*turn_f32)(const msi_c32 *cell, const msi_c32 *screen, float sign, int64_t n, msi_c32 *out);
    void (*turn_f64)(const msi_c64 *cell, const msi_c64 *screen, double sign, int64_t n, msi_c64 *out);
} msi_wgrid_simd_table;

/* msi_wgrid_simd - return the functions of the best instruction set (msi_simd_best). */
const msi_wgrid_simd_table *msi_wgrid_simd(void);

#endif
