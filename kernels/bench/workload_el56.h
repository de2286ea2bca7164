/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Coordinates of an SKA-Low observation in the geometry of the data set EL56-82 of the SDP memo "Vertical prototyping
 * of the gridding algorithm": 512 stations, 240 times 30 s at 100 MHz, declination -23.2 degrees.
 */
#ifndef MSI_WORKLOAD_EL56_H
#define MSI_WORKLOAD_EL56_H

#include "core/types.h"
#include "kernels/bench/bench.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/job/wproj_geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MSI_EL56_FREQ_HZ 100e6

typedef struct msi_el56_array {
    int64_t n_baseline, n_time;
    float *u, *v, *w;                  /* [n_time][n_baseline] wavelengths at MSI_EL56_FREQ_HZ */
    double u_max_lambda, v_max_lambda; /* maxima of |u|, |v| */
    double w_min_lambda, w_max_lambda; /* range of |w| */
    int procedural;                    /* 1: no station table was given */
} msi_el56_array;

/*
 * msi_el56_array_make - compute the coordinates for the fraction options->scale of the times. If this is less than one
 * time, make one time with a part of the stations.
 * Given:    n_time  number of times at scale 1, at most 240
 * Returned: *a, freed by msi_el56_array_free
 * Returns:  0, MSI_EINPUT (layouts), MSI_ENOMEM
 */
int msi_el56_array_make(msi_el56_array *a, const msi_bench_options *options, int64_t n_time);
void msi_el56_array_free(msi_el56_array *a);

/*
 * Rows el56/: w-projection of an SKA-Low observation in the geometry of the data set EL56-82 of the SDP memo "Vertical
 * prototyping of the gridding algorithm": 512 stations, 240 times 30 s at 100 MHz, time slowest, uniform weights. The
 * grid has 18000^2 cells for a field of 0.114; only the box with footprints is stored. 601 planes are spaced by
 * sqrt(w); half-supports are 4 .. 72, oversampling is 4. Coordinates and indices are float32.
 *
 * Other rows grid samples scattered over a square of cells, all with one support, to measure rates for different
 * numbers of samples and supports.
 */

#define MSI_EL56_TITLE "el56: w-projection, EL56-82 geometry, 31.4 M visibilities"

enum { MSI_EL56_TILE = 16, MSI_EL56_MAX_SAMPLE = 64 };

/* Samples with a Gaussian distribution around the middle of a square of 1024 cells, truncated at its edges, on random
 * planes. */
typedef struct msi_el56_scatter {
    int64_t n_vis;
    int32_t half;
} msi_el56_scatter;

typedef struct msi_el56 {
    int64_t n_vis, n_baseline, n_time; /* sample t n_baseline + b */
    float *u, *v, *w;                  /* [n_vis] wavelengths */
    float *weight;                     /* [n_vis] 1 / number of samples in the cell */
    msi_c32 *vis;                      /* [n_vis] unweighted */
    float scale_u, scale_v;            /* cells per wavelength */
    float plane_scale;                 /* plane = round(sqrt(|w| plane_scale)) */
    int32_t origin_u, origin_v;        /* offset from a cell of the grid to its position in the box */
    int32_t nu, nv;                    /* size of the box, multiples of MSI_EL56_TILE; it contains all footprints */
    msi_wkernel_set kernels;           /* separable, fp32; for w > 0 the conjugate is used */
    msi_c64 *exact;                    /* the same table in double, [kernels.n_element] */
    double n_addition;
    int procedural; /* 1: no station tables were given */
    int serial;     /* unique number of this workload in the process */
    /* The double-precision grid at some tiles of the box, [n_sample][tile][tile]. */
    int32_t n_sample, sample_u[MSI_EL56_MAX_SAMPLE], sample_v[MSI_EL56_MAX_SAMPLE]; /* first cells */
    msi_c64 *sample;
} msi_el56;

/* The place of a sample: its cell in the box and its kernel. */
typedef struct msi_el56_place {
    int32_t u, v, sub_u, sub_v, plane, conjugate;
} msi_el56_place;

static inline msi_el56_place msi_el56_locate(const msi_el56 *e, int64_t i)
{
    const msi_wkernel_set *k = &e->kernels;
    float gu = e->u[i] * e->scale_u, gv = e->v[i] * e->scale_v;
    int32_t u = msi_wproj_cell_f32(gu), v = msi_wproj_cell_f32(gv);
    return (msi_el56_place){.u = u + e->origin_u,
                            .v = v + e->origin_v,
                            .sub_u = msi_wproj_sub_f32(gu, u, k->oversample),
                            .sub_v = msi_wproj_sub_f32(gv, v, k->oversample),
                            .plane = msi_wproj_plane_f32(fabsf(e->w[i]), e->plane_scale, 1, k->n_plane),
                            .conjugate = e->w[i] > 0};
}

/*
 * msi_el56_get - return the workload of the observation or, with `scatter`, of scattered samples, at the scale of the
 * options. It is valid until another workload, with another `serial`, is requested.
 * Returned: *out borrowed. Returns: 0, MSI_EINPUT (layouts), MSI_ENOMEM
 */
int msi_el56_get(const msi_el56 **out, const msi_bench_options *options, const msi_el56_scatter *scatter);

/*
 * msi_el56_error - compute the relative L2 error of a grid of the box [nv][nu], msi_c32 or msi_c64, over the tiles with
 * a reference.
 */
int msi_el56_error(const msi_el56 *e, const void *grid, msi_precision precision, double *error);

msi_bench_table msi_el56_rows_cpu(void);
msi_bench_table msi_el56_rows_cpu_tile(void);
msi_bench_table msi_el56_rows_cuda(void);
msi_bench_table msi_el56_window_rows_cuda(void);

#ifdef __cplusplus
}
#endif
#endif
