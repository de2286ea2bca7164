/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-towers: for large images with a wide range of w, subgrids replace whole w-planes.
 *
 * The padded uv grid is divided into cores. A core with a margin around it is a subgrid. Its samples are gridded on a
 * stack of small w-planes. The transform of a small plane is the whole field at low resolution. There it is multiplied
 * by the w-screen, sampled at the same resolution, which shifts it to the w of its tower. The planes of a subgrid in a
 * tower are summed, transformed back, and added to the tower's one full-size plane. So a full-size transform is needed
 * for each tower instead of for each plane.
 *
 * A screen spreads cells by the gradient of its phase. If the margin is too small, cells wrap around the subgrid. The
 * screen is arbitrary in the padding beyond the image. There directions are bent so that the phase levels off smoothly
 * and is periodic (msi_tower_bend); its spectrum is then as narrow as the gradients in the image allow. If the image is
 * not centred on the phase centre, n - 1 is not even, and directions return to 0 in the padding (msi_tower_return).
 *
 * Source: w-towers after Wortmann, Kent & Nikolic (2022) and image-domain gridding (van der Tol, Veenboer & Offringa
 * 2018), subgrid stacks Adamek et al. 2021; the bent screen and its error are this project's.
 */
#ifndef MSI_KERNELS_TOWER_PLAN_H
#define MSI_KERNELS_TOWER_PLAN_H

#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/wgrid/wgrid_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_TOWER_MAX_SIZE = 512, MSI_TOWER_MAX_CORE_TILES = 32 };

/*
 * Subgrid (su, sv) holds the samples whose first taps are in cells [u0, u0 + core) x [v0, v0 + core), with u0 = -nu/2 -
 * width + su core: whole tiles. Its cell 0 is cell u0 - margin of the padded grid, modulo nu. Tower t holds the samples
 * whose first w-planes are t height .. t height + height - 1, and so these planes and all higher ones. The last
 * tower may be shorter.
 */
typedef struct msi_tower_plan {
    int32_t size;    /* cells along a subgrid's edge; even */
    int32_t core;    /* cells of first taps along its edge; a multiple of the grid's tile */
    int32_t margin;  /* cells before the first of the core; as many follow the last tap, or one more */
    int32_t height;  /* first w-planes of a tower */
    int32_t n_plane; /* planes of a tower: height + w_width - 1 */
    int32_t n_tower;
    int64_t n_sub_u, n_sub_v; /* subgrids */
    /* Subgrids of all towers are numbered tower by tower and row by row. Only samples of these subgrids are used: of
     * all, or of a share of msi_tower_cut. */
    int64_t first_core, end_core;
    int bend_order; /* order of msi_tower_bend */
    double error;   /* upper limit of the relative L2 error from screens that wrap around */
    double cost_s;  /* estimated seconds for one image plane on one unit of the backend, samples included */
    /* Estimated seconds of a subgrid's plane that holds samples, of a subgrid without its planes, and of a tower
     * without its subgrids. */
    double plane_s, subgrid_s, tower_s;
} msi_tower_plan;

/* A backend's rates for subgrids, rounded as in msi_cost_model, and the supported sizes. */
typedef struct msi_tower_cost {
    double fft_flop_s; /* speed of 2D transforms of subgrids */
    double cell_s;     /* seconds to screen and add a cell of a small plane */
    double far_cell_s; /* additional seconds for a cell of a small plane above near_bytes, a cache's size; 0: none */
    int64_t near_bytes;
    const int32_t *size; /* [n_size] even, at most MSI_TOWER_MAX_SIZE */
    int n_size;
    /* GPU; 0: none. Seconds of a cell in a small plane's filled rows, of a subgrid, and of a tower; and the rate of
     * whole transforms with their screens, if it differs from that of w-planes. */
    double filled_s, subgrid_s, tower_s, whole_flop_s;
    int off_centre; /* 1: images may be centred elsewhere than the phase centre */
    double call_s;  /* additional seconds of a call with towers instead of w-planes, of any size; 0: none */
    /* For shares. The part of a sample's seconds for sorting, which every share does for all samples; and the slowdown
     * of planes, subgrids and towers by double precision, relative to that of samples (0: the same). */
    double sort_s, fp64_planes;
} msi_tower_cost;

/* Numbers of subgrids, and of planes of subgrids, with samples, for each edge of the core in tiles. */
typedef struct msi_tower_load {
    double n_subgrid[MSI_TOWER_MAX_CORE_TILES + 1];
    double n_plane[MSI_TOWER_MAX_CORE_TILES + 1];
} msi_tower_load;

/*
 * msi_tower_load_make - compute the load of the samples, or estimate it from a part of them if there are many.
 * Given:    store  NULL: estimate the load of n_sample samples
 * Returned: *out
 * Returns:  0, MSI_ENOMEM
 */
int msi_tower_load_make(msi_tower_load *out, const msi_wgrid_plan *plan, const msi_vis_store *store, int64_t n_sample);

/*
 * msi_tower_plan_make - find the cheapest towers for a plan of w-planes.
 *
 * Given:    plan, error (upper limit of the image's), load, whole: rates of whole planes, cost: rates of subgrids
 * Returned: *out
 * Returns:  0, MSI_ENOMEM, MSI_ERANGE (no w-planes, or a field too near the horizon, or no subgrid holds a tower)
 */
int msi_tower_plan_make(msi_tower_plan *out, const msi_wgrid_plan *plan, double error, const msi_tower_load *load,
                        const msi_cost_model *whole, const msi_tower_cost *cost);

/*
 * msi_tower_cut - divide the subgrids of all towers into shares for several devices, so that the longest time of a
 * share is as short as possible. The times are estimated from the plan's costs of samples, planes, subgrids and towers.
 * A part of the samples is examined, the same one in each call.
 * Given:    share [n_share]  speeds of the devices
 * Returned: cut [n_share + 1]  share k is subgrids [cut[k], cut[k + 1]), numbered as in msi_tower_plan.first_core
 * Returns:  0, MSI_ENOMEM
 */
int msi_tower_cut(int64_t *cut, const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_tower_cost *cost,
                  const msi_vis_store *store, const msi_share *share, int n_share);

/*
 * msi_tower_bend - bend a direction cosine of the padded field beyond the image, so that it is periodic.
 * Given:   x  position in the padded field, -1/2 .. 1/2; image  fraction of the field that the image covers; field_rad;
 *          order  number of derivatives that are zero where the bend begins and ends
 * Returns: l = x field_rad inside the image; beyond, it levels off towards |x| = 1/2
 */
double msi_tower_bend(double x, double image, double field_rad, int order);

/*
 * msi_tower_return - bend it so that it returns to 0 at |x| = 1/2, for images whose n - 1 is not even.
 * Returns: l = x field_rad inside the image; odd about 0 and about |x| = 1/2
 */
double msi_tower_return(double x, double image, double field_rad, int order);

/* msi_tower_n - compute n - 1 - n_mid at pixel (i, j), 0 .. size/2, of a subgrid's transform, for an image centred on
 * the phase centre. It is even in i and j. */
double msi_tower_n(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int32_t i, int32_t j);

/*
 * msi_tower_screen - compute the screen that shifts plane k of a tower to the w of the tower: exp(-2 pi i dw (n - 1 -
 * n_mid)) at the pixels of a subgrid's forward transform, divided by size^2 for the backward transform. Degridding uses
 * its conjugate.
 * Returned: screen [msi_tower_screen_rows][size]  msi_c32 or msi_c64, v slow, frequency 0 first
 * Notes:    plane n_plane - 1 - k has the conjugate of plane k.
 *
 * msi_tower_screen_rows - return the number of rows: size, or size/2 + 1 if row size - r is the same as row r.
 */
int32_t msi_tower_screen_rows(const msi_wgrid_plan *plan, const msi_tower_plan *towers);
void msi_tower_screen(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int k, void *screen);

/* msi_tower_w - return w of a tower's full-size plane in wavelengths. */
static inline double msi_tower_w(const msi_wgrid_geometry *g, const msi_tower_plan *t, int64_t tower)
{
    return g->w_first + ((double)(tower * t->height) + 0.5 * (t->n_plane - 1)) * g->w_step;
}

/* msi_tower_origin_u, _v - return the padded grid's cell (0 .. n - 1) that is cell 0 of a column or row of subgrids. */
static inline int64_t msi_tower_origin_u(const msi_wgrid_geometry *g, const msi_tower_plan *t, int64_t su)
{
    int64_t at = su * t->core - g->width - t->margin;
    return (at % g->nu + g->nu) % g->nu;
}

static inline int64_t msi_tower_origin_v(const msi_wgrid_geometry *g, const msi_tower_plan *t, int64_t sv)
{
    int64_t at = sv * t->core - g->width - t->margin;
    return (at % g->nv + g->nv) % g->nv;
}

/* ---- The default gridder with w-towers as strategies ---- */

/* Stacks of subgrids, imaging and predicting. */
extern const msi_strategy_ops msi_wgrid_tower_cpu_ops;

extern const msi_strategy_ops msi_wgrid_tower_cuda_ops; /* in builds with CUDA */

/* ---- w-towers on the CPU, gridding and degridding: OpenMP, SIMD, FFTW ---- */

extern const msi_tower_cost msi_wgrid_tower_cpu_cost;

/* msi_wgrid_tower_cpu_bytes - return the host memory of imaging with n_thread threads, without store, sorted runs and
 * image sums. */
int64_t msi_wgrid_tower_cpu_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread);

/*
 * msi_wgrid_tower_cpu_image - grid subgrids, add them up to a plane for each tower, transform, screen and correct.
 *
 * Given:    plan, towers, store; store_plane [image->n_plane] (-1: the PSF of plane 0)
 * Returned: image->pixel, divided by image->sum_weight (set by the caller; 0: the plane becomes NaN)
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_tower_cpu_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                              const int *store_plane, msi_image *image, msi_stage_times *times);

/* msi_wgrid_tower_cpu_predict_bytes - return the same for predicting, with n_plane whole planes in memory. */
int64_t msi_wgrid_tower_cpu_predict_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread,
                                          int64_t n_plane);

/*
 * msi_wgrid_tower_cpu_predict - taper, screen and transform the model into a plane for each tower, cut subgrids out of
 * it, make small planes from them, and degrid every sample of the store.
 *
 * Given:    plan, towers, model (n_plane planes, as the store); keeps  1: keep the planes of all towers and images
 * Returned: store's visibilities [n_plane]
 * Given and returned:
 *           *model_cache  NULL at first; with keeps, the planes for the next call with the same plans. Freed by
 *                         msi_wgrid_tower_cpu_free_model
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    the result does not depend on the number of threads.
 */
int msi_wgrid_tower_cpu_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                const msi_image *model, int keeps, void **model_cache, msi_stage_times *times);

/* msi_wgrid_tower_cpu_free_model - free the planes that msi_wgrid_tower_cpu_predict keeps; NULL-safe. */
void msi_wgrid_tower_cpu_free_model(void *model_cache);

#ifdef __cplusplus
}
#endif
#endif
