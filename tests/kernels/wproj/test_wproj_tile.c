/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tile gridding on a GPU against plain loops in double: every form, precision and order, several images, odd inputs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <cuda_runtime.h>

#include "core/status.h"
#include "kernels/wproj/job/wproj_simd.h"
#include "kernels/wproj/tile/wproj_tile_cuda.h"

static const msi_gpu_stream default_stream = {0, NULL};

enum { N_GRID_U = 96, N_GRID_V = 112, N_STORE_PLANE = 3, MAX_SEGMENT = 4, MAX_SLICE = 8, SKIPPED = 77 };

typedef enum layout { SPREAD, ONE_CELL, NO_WEIGHT, BEYOND } layout;

typedef struct tile_case {
    const char *name;
    msi_wkernel_form kernel;
    msi_wproj_tile_form form;
    msi_precision precision;
    int32_t linear, n_image, n_plane, half_most, n_slice;
    int64_t n_row; /* of a segment; the last of n_segment has only one */
    int32_t n_chan, n_segment;
    layout layout;
} tile_case;

#define SEP  MSI_WKERNEL_SEPARABLE
#define FULL MSI_WKERNEL_FULL

/* clang-format off */
static const tile_case cases[] = {
    {.name = "tensor", .kernel = SEP, .form = MSI_WPROJ_TILE_TENSOR, .n_image = 1, .n_plane = 20, .half_most = 12,
     .n_slice = 1, .n_row = 300, .n_chan = 4, .n_segment = 2},
    {.name = "tensor, images", .kernel = SEP, .n_image = 4, .n_plane = 20, .half_most = 12, .n_slice = 3, .n_row = 300,
     .n_chan = 4, .n_segment = 2},
    {.name = "separable", .kernel = SEP, .form = MSI_WPROJ_TILE_FMA, .n_image = 3, .n_plane = 20, .half_most = 12,
     .n_slice = 1, .n_row = 300, .n_chan = 4, .n_segment = 2},
    {.name = "separable, linear", .kernel = SEP, .form = MSI_WPROJ_TILE_FMA, .linear = 1, .n_image = 1, .n_plane = 20,
     .half_most = 12, .n_slice = 2, .n_row = 300, .n_chan = 4, .n_segment = 2},
    {.name = "separable, fp64", .kernel = SEP, .precision = MSI_FP64, .n_image = 3, .n_plane = 20, .half_most = 12,
     .n_slice = 1, .n_row = 300, .n_chan = 4, .n_segment = 2},
    {.name = "separable, linear, fp64", .kernel = SEP, .precision = MSI_FP64, .linear = 1, .n_image = 2, .n_plane = 20,
     .half_most = 12, .n_slice = 1, .n_row = 300, .n_chan = 4, .n_segment = 2},
    {.name = "full", .kernel = FULL, .n_image = 1, .n_plane = 20, .half_most = 12, .n_slice = 1, .n_row = 300,
     .n_chan = 4, .n_segment = 2},
    {.name = "full, images", .kernel = FULL, .n_image = 7, .n_plane = 20, .half_most = 12, .n_slice = 2, .n_row = 200,
     .n_chan = 4, .n_segment = 2},
    {.name = "full, linear", .kernel = FULL, .linear = 1, .n_image = 3, .n_plane = 20, .half_most = 8, .n_slice = 1,
     .n_row = 200, .n_chan = 4, .n_segment = 2},
    {.name = "full, fp64", .kernel = FULL, .precision = MSI_FP64, .n_image = 3, .n_plane = 20, .half_most = 12, .n_slice
     = 1, .n_row = 200, .n_chan = 4, .n_segment = 2},
    {.name = "full, linear, fp64", .kernel = FULL, .precision = MSI_FP64, .linear = 1, .n_image = 3, .n_plane = 20,
     .half_most = 8, .n_slice = 1, .n_row = 200, .n_chan = 4, .n_segment = 2},
    {.name = "wide", .kernel = SEP, .n_image = 1, .n_plane = 5, .half_most = 90, .n_slice = 1, .n_row = 40, .n_chan = 4,
     .n_segment = 1},
    {.name = "wide, full", .kernel = FULL, .n_image = 1, .n_plane = 3, .half_most = 60, .n_slice = 1, .n_row = 40,
     .n_chan = 4, .n_segment = 1},
    {.name = "half 0", .kernel = SEP, .n_image = 1, .n_plane = 4, .half_most = 0, .n_slice = 1, .n_row = 200,
     .n_chan = 4, .n_segment = 1},
    {.name = "half 0, full", .kernel = FULL, .n_image = 2, .n_plane = 4, .half_most = 0, .n_slice = 1, .n_row = 200,
     .n_chan = 4, .n_segment = 1},
    {.name = "one cell, tensor", .kernel = SEP, .form = MSI_WPROJ_TILE_TENSOR, .n_image = 1, .n_plane = 4,
     .half_most = 6, .n_slice = 1, .n_row = 4000, .n_chan = 4, .n_segment = 2, .layout = ONE_CELL},
    {.name = "one cell, full", .kernel = FULL, .form = MSI_WPROJ_TILE_FMA, .n_image = 1, .n_plane = 4, .half_most = 6,
     .n_slice = 1, .n_row = 4000, .n_chan = 4, .n_segment = 2, .layout = ONE_CELL},
    {.name = "no weight", .kernel = SEP, .n_image = 2, .n_plane = 4, .half_most = 6, .n_slice = 1, .n_row = 100, .n_chan
     = 4, .n_segment = 1, .layout = NO_WEIGHT},
    {.name = "one sample", .kernel = SEP, .n_image = 1, .n_plane = 4, .half_most = 6, .n_slice = 1, .n_row = 1, .n_chan
     = 1, .n_segment = 1},
    {.name = "one sample, full", .kernel = FULL, .precision = MSI_FP64, .n_image = 1, .n_plane = 4, .half_most = 6,
     .n_slice = 1, .n_row = 1, .n_chan = 1, .n_segment = 1},
    {.name = "wrapped", .kernel = SEP, .n_image = 1, .n_plane = 20, .half_most = 12, .n_slice = 1, .n_row = 300, .n_chan
     = 4, .n_segment = 1, .layout = BEYOND},
    {.name = "wrapped, full", .kernel = FULL, .precision = MSI_FP64, .n_image = 1, .n_plane = 20, .half_most = 12,
     .n_slice = 1, .n_row = 200, .n_chan = 4, .n_segment = 1, .layout = BEYOND},
    {.name = "tensor, linear", .kernel = SEP, .form = MSI_WPROJ_TILE_TENSOR, .linear = 1, .n_image = 1, .n_plane = 20,
     .half_most = 12, .n_slice = 1, .n_row = 300, .n_chan = 4, .n_segment = 2},
    {.name = "tensor, linear, images", .kernel = SEP, .linear = 1, .n_image = 3, .n_plane = 20, .half_most = 12,
     .n_slice = 2, .n_row = 300, .n_chan = 4, .n_segment = 2},
    {.name = "wide, linear", .kernel = SEP, .linear = 1, .n_image = 1, .n_plane = 5, .half_most = 90, .n_slice = 1,
     .n_row = 40, .n_chan = 4, .n_segment = 1},
    {.name = "half 0, linear", .kernel = SEP, .linear = 1, .n_image = 1, .n_plane = 4, .half_most = 0, .n_slice = 1,
     .n_row = 200, .n_chan = 4, .n_segment = 1},
    {.name = "one cell, linear", .kernel = SEP, .form = MSI_WPROJ_TILE_TENSOR, .linear = 1, .n_image = 1, .n_plane = 4,
     .half_most = 6, .n_slice = 1, .n_row = 4000, .n_chan = 4, .n_segment = 2, .layout = ONE_CELL},
};
/* clang-format on */
enum { N_CASE = sizeof cases / sizeof *cases };

static int n_seed = 20;

/* Random numbers that are the same everywhere: SplitMix64, uniform in [0, 1). */
static double draw(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void *allocate(int64_t n, size_t size)
{
    void *p = calloc(n > 0 ? (size_t)n : 1, size);
    assert_non_null(p);
    return p;
}

static void cuda_ok(cudaError_t e)
{
    if (e != cudaSuccess) fail_msg("%s", cudaGetErrorString(e));
}

static void ok(int status)
{
    if (status) fail_msg("%s", msi_error_get());
}

static void *to_device(const void *from, size_t bytes)
{
    void *p;
    cuda_ok(cudaMalloc(&p, bytes > 0 ? bytes : 1));
    cuda_ok(cudaMemcpy(p, from, bytes, cudaMemcpyHostToDevice));
    return p;
}

typedef struct problem {
    const tile_case *c;
    msi_wproj_geometry geometry;
    msi_wkernel_set kernels;
    msi_vis_store store;
    msi_vis_segment segment[MAX_SEGMENT];
    double *freq_hz;
    int64_t n, n_row;
    /* the same on the device */
    msi_wproj_samples samples;
    void *memory[5];
} problem;

/* Make values that fall off towards the edge, even in u and v where the kernel is full. */
static void make_kernels(problem *p, uint64_t *seed)
{
    const tile_case *c = p->c;
    msi_wkernel_set *k = &p->kernels;
    const int32_t os = 4, middle = os / 2;
    *k = (msi_wkernel_set){.form = c->kernel, .precision = c->precision, .n_plane = c->n_plane, .oversample = os};
    k->half = allocate(k->n_plane, sizeof *k->half);
    k->offset_u = allocate(k->n_plane, sizeof *k->offset_u);
    k->offset_v = allocate(k->n_plane, sizeof *k->offset_v);
    for (int32_t i = 0; i < k->n_plane; i++) {
        int32_t half = i + 1 == k->n_plane ? c->half_most : (int32_t)(draw(seed) * (c->half_most + 1));
        int64_t n = msi_wkernel_elements(c->kernel == FULL, os, half);
        k->half[i] = half;
        k->offset_u[i] = k->offset_v[i] = k->n_element;
        if (c->kernel == SEP && i % 2) k->offset_v[i] += n; /* oblong fields have a table for each axis */
        k->n_element = k->offset_v[i] + n;
    }
    msi_c64 *x = allocate(k->n_element, sizeof *x);
    msi_c32 *single = allocate(k->n_element, sizeof *single);
    for (int64_t i = 0; i < k->n_element; i++) x[i] = (msi_c64){draw(seed) - 0.5, draw(seed) - 0.5};
    for (int32_t i = 0; c->kernel == FULL && i < k->n_plane; i++)
        for (int32_t su = -middle; su <= middle; su++)
            for (int32_t sv = -middle; sv <= middle; sv++) {
                int32_t half = k->half[i];
                msi_c64 *at = x + msi_wkernel_square(k->offset_u[i], half, os, su, sv);
                for (int32_t tv = -half; tv <= half; tv++)
                    for (int32_t tu = -half; tu <= half; tu++, at++) {
                        uint64_t where =
                            ((uint64_t)i * 1000 + (uint64_t)abs(tu * os - su)) * 1000 + (uint64_t)abs(tv * os - sv);
                        *at = (msi_c64){draw(&where) - 0.5, draw(&where) - 0.5};
                    }
            }
    for (int64_t i = 0; i < k->n_element; i++) single[i] = (msi_c32){(float)x[i].re, (float)x[i].im};
    k->table = c->precision == MSI_FP64 ? (void *)x : (void *)single;
    free(c->precision == MSI_FP64 ? (void *)single : (void *)x);
}

static void make_segment(problem *p, msi_vis_segment *s, uint64_t *seed)
{
    const tile_case *c = p->c;
    const int64_t n = N_STORE_PLANE * s->n_row_max * s->n_chan;
    double reach = c->layout == BEYOND ? 3 : 1;
    s->uvw_m = allocate(3 * s->n_row_max, sizeof *s->uvw_m);
    s->weight = allocate(n, sizeof *s->weight);
    s->vis = allocate(n, sizeof(msi_c64));
    for (int64_t i = 0; i < s->n_row; i++) {
        double *uvw = s->uvw_m + 3 * i;
        uvw[0] = reach * (N_GRID_U / 2 - 0.01) / 1.1 * (2 * draw(seed) - 1);
        uvw[1] = reach * (N_GRID_V / 2 - 0.01) / 1.1 * (2 * draw(seed) - 1);
        uvw[2] = 100 / 1.1 * (2 * draw(seed) - 1);
        if (c->layout == ONE_CELL) memcpy(uvw, (double[]){10.1 / 1.1, -7.2 / 1.1, 50}, 3 * sizeof *uvw);
    }
    for (int64_t i = 0; i < n; i++) {
        double re = 2 * draw(seed) - 1, im = 2 * draw(seed) - 1;
        s->weight[i] = draw(seed) < 0.2 || c->layout == NO_WEIGHT ? 0 : (float)(0.1 + draw(seed));
        if (c->precision == MSI_FP64)
            ((msi_c64 *)s->vis)[i] = (msi_c64){re, im};
        else
            ((msi_c32 *)s->vis)[i] = (msi_c32){(float)re, (float)im};
    }
}

/* Store and device hold the same; the device's arrays are [plane][all samples]. */
static void upload(problem *p)
{
    const size_t cell = p->c->precision == MSI_FP64 ? sizeof(msi_c64) : sizeof(msi_c32);
    double *uvw = allocate(3 * p->n_row, sizeof *uvw);
    float *weight = allocate(N_STORE_PLANE * p->n, sizeof *weight);
    char *vis = allocate(N_STORE_PLANE * p->n, cell);
    msi_store_rows rows[MAX_SEGMENT] = {{0}};
    int64_t sample = 0, row = 0;
    for (int i = 0; i < p->c->n_segment; i++) {
        const msi_vis_segment *s = &p->segment[i];
        int64_t n = s->n_row * s->n_chan;
        rows[i] = (msi_store_rows){sample, row, (int32_t)s->n_row, s->n_chan, 0};
        memcpy(uvw + 3 * row, s->uvw_m, 3 * (size_t)s->n_row * sizeof *uvw);
        for (int plane = 0; plane < N_STORE_PLANE; plane++) {
            int64_t from = msi_segment_index(s, plane, 0, 0), to = plane * p->n + sample;
            memcpy(weight + to, s->weight + from, (size_t)n * sizeof *weight);
            memcpy(vis + (size_t)to * cell, (char *)s->vis + (size_t)from * cell, (size_t)n * cell);
        }
        sample += n;
        row += s->n_row;
    }
    p->memory[0] = to_device(rows, sizeof rows);
    p->memory[1] = to_device(p->freq_hz, (size_t)p->c->n_chan * sizeof *p->freq_hz);
    p->memory[2] = to_device(uvw, 3 * (size_t)p->n_row * sizeof *uvw);
    p->memory[3] = to_device(weight, N_STORE_PLANE * (size_t)p->n * sizeof *weight);
    p->memory[4] = to_device(vis, N_STORE_PLANE * (size_t)p->n * cell);
    p->samples = (msi_wproj_samples){.n = p->n,
                                     .n_rows = p->c->n_segment,
                                     .rows = p->memory[0],
                                     .freq_hz = p->memory[1],
                                     .uvw_m = p->memory[2],
                                     .weight = p->memory[3],
                                     .vis = p->memory[4],
                                     .n_image = p->c->n_image,
                                     .wrapped = p->c->layout == BEYOND};
    for (int i = 0; i < p->c->n_image; i++)
        p->samples.store_plane[i] = i % (N_STORE_PLANE + 1) == 1 ? -1 : i % N_STORE_PLANE;
    free(uvw);
    free(weight);
    free(vis);
}

static void make_problem(problem *p, const tile_case *c, uint64_t seed)
{
    memset(p, 0, sizeof *p);
    p->c = c;
    double thickness = 100.0 / c->n_slice, n_last = c->n_plane - 1.0;
    p->geometry = (msi_wproj_geometry){.nu = N_GRID_U,
                                       .nv = N_GRID_V,
                                       .u_cells_per_m_hz = -1,
                                       .v_cells_per_m_hz = 1,
                                       .w_lambda_per_m_hz = 1,
                                       .slice_step = thickness,
                                       .n_slice = c->n_slice,
                                       .n_plane = c->n_plane,
                                       .plane_scale = n_last * n_last / (0.5 * thickness),
                                       .plane_sqrt = 1,
                                       .oversample = 4,
                                       .linear = c->linear,
                                       .n_mid = -0.013};
    make_kernels(p, &seed);
    p->freq_hz = allocate(c->n_chan, sizeof *p->freq_hz);
    for (int32_t i = 0; i < c->n_chan; i++) p->freq_hz[i] = c->layout == ONE_CELL ? 1 : 1 + 0.1 * i / c->n_chan;
    for (int i = 0; i < c->n_segment; i++) {
        p->segment[i] = (msi_vis_segment){.n_row = i > 0 && i + 1 == c->n_segment ? 1 : c->n_row,
                                          .n_row_max = c->n_row,
                                          .n_chan = c->n_chan,
                                          .freq_hz = p->freq_hz};
        make_segment(p, &p->segment[i], &seed);
        p->n += p->segment[i].n_row * c->n_chan;
        p->n_row += p->segment[i].n_row;
    }
    p->store = (msi_vis_store){.n_plane = N_STORE_PLANE,
                               .precision = c->precision,
                               .coordinates = c->layout == BEYOND,
                               .n_segment = c->n_segment,
                               .segment = p->segment};
    upload(p);
}

static void free_problem(problem *p)
{
    for (int i = 0; i < p->c->n_segment; i++) {
        free(p->segment[i].uvw_m);
        free(p->segment[i].weight);
        free(p->segment[i].vis);
    }
    for (size_t i = 0; i < sizeof p->memory / sizeof *p->memory; i++) cudaFree(p->memory[i]);
    free(p->freq_hz);
    free(p->kernels.half);
    free(p->kernels.offset_u);
    free(p->kernels.offset_v);
    free(p->kernels.table);
}

/* Make one run a sample of the slice. Returned: how many; *extent what those that some image weighs cover. */
static int64_t runs_of_slice(const problem *p, int32_t slice, msi_run *run, msi_wproj_box_extent *extent)
{
    int64_t n = 0;
    *extent = (msi_wproj_box_extent){INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, 0};
    for (int i = 0; i < p->c->n_segment; i++)
        for (int64_t row = 0; row < p->segment[i].n_row; row++)
            for (int32_t chan = 0; chan < p->c->n_chan; chan++) {
                const double *uvw = p->segment[i].uvw_m + 3 * row;
                msi_wproj_place at;
                if (msi_wproj_slice(&p->geometry, fabs(uvw[2] * p->freq_hz[chan])) != slice) continue;
                run[n++] = (msi_run){
                    .row = ((uint32_t)i << MSI_SEGMENT_SHIFT) + (uint32_t)row, .chan = (uint16_t)chan, .n_chan = 1};
                int weighed = 0;
                for (int k = 0; k < p->c->n_image; k++) {
                    int plane = p->samples.store_plane[k] < 0 ? 0 : p->samples.store_plane[k];
                    weighed |= p->segment[i].weight[msi_segment_index(&p->segment[i], plane, row, chan)] > 0;
                }
                if (!weighed) continue;
                msi_wproj_locate_in(&p->geometry, uvw, p->freq_hz[chan], p->samples.wrapped, slice, &at);
                int32_t half = p->kernels.half[at.plane];
                extent->u_low = at.u - half < extent->u_low ? at.u - half : extent->u_low;
                extent->v_low = at.v - half < extent->v_low ? at.v - half : extent->v_low;
                extent->u_high = at.u + half > extent->u_high ? at.u + half : extent->u_high;
                extent->v_high = at.v + half > extent->v_high ? at.v + half : extent->v_high;
                extent->n++;
            }
    return n;
}

static msi_c64 element(const void *x, int64_t i, msi_precision precision)
{
    if (precision == MSI_FP64) return ((const msi_c64 *)x)[i];
    return (msi_c64){(double)((const msi_c32 *)x)[i].re, (double)((const msi_c32 *)x)[i].im};
}

static double distance(const void *x, msi_precision precision, const msi_c64 *truth, int64_t n)
{
    double difference = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        msi_c64 a = element(x, i, precision), b = truth[i];
        difference += (a.re - b.re) * (a.re - b.re) + (a.im - b.im) * (a.im - b.im);
        size += b.re * b.re + b.im * b.im;
    }
    return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

/* Compute an image's total over what values of random phase give on average: where all samples share a cell, what
 * rounding leaves is of the average, and that of a small total larger by as much. At most 1. */
static double luck(const problem *p, int image)
{
    int from = p->samples.store_plane[image];
    double re = 0, im = 0, square = 0;
    if (p->c->layout != ONE_CELL || from < 0) return 1;
    for (int i = 0; i < p->c->n_segment; i++) {
        const msi_vis_segment *s = &p->segment[i];
        for (int64_t row = 0; row < s->n_row; row++) {
            int64_t at = msi_segment_index(s, from, row, 0);
            for (int32_t k = 0; k < s->n_chan; k++) {
                double w = (double)s->weight[at + k];
                msi_c32 v = ((const msi_c32 *)s->vis)[at + k];
                re += w * (double)v.re;
                im += w * (double)v.im;
                square += w * w * (double)(v.re * v.re + v.im * v.im);
            }
        }
    }
    return fmin(1, sqrt((re * re + im * im) / square));
}

/*
 * fp64: a few thousand additions, each 2^-53 of a sum. fp32: rounding weighted and turned values and products of
 * kernels leaves 3e-7; n additions of random sign, each off by 2.6e-8 rms of the sum so far, leave 2.6e-8 sqrt(n/2).
 * Where samples are spread n is a hundred on the fullest cell; where all share one, no sum has more than 256 terms.
 * Factors of 22 bits leave 5e-7.
 */
static double tolerance(const problem *p, msi_wproj_tile_form form, int image)
{
    double n = p->c->layout != ONE_CELL ? 100 : p->n < 256 ? (double)p->n : 256;
    if (p->c->precision == MSI_FP64) return 1e-13;
    return (3e-7 + 5e-8 * sqrt(n) + (form == MSI_WPROJ_TILE_TENSOR ? 5e-7 : 0)) / luck(p, image);
}

/* The box of a slice: its first cell, and its edges, a multiple of tiles. */
typedef struct slice_box {
    int32_t u_low, v_low, nu, nv;
} slice_box;

/* Compare the box, and the box folded onto the padded grid, with the truth. */
static void compare(const problem *p, const msi_wproj_tile *tile, int by_key, slice_box box, const void *d_grid,
                    const msi_c64 *truth)
{
    const msi_precision precision = p->c->precision;
    const size_t cell = precision == MSI_FP64 ? sizeof(msi_c64) : sizeof(msi_c32);
    const int64_t n_box = (int64_t)box.nu * box.nv, n_padded = (int64_t)N_GRID_U * N_GRID_V;
    const int n_image = p->c->n_image;
    char *grid = allocate(n_image * n_box, cell), *padded = allocate(n_image * n_padded, cell);
    msi_c64 *folded = allocate(n_padded, sizeof *folded);
    void *d_padded;
    cuda_ok(cudaMalloc(&d_padded, (size_t)(n_image * n_padded) * cell));
    const msi_wproj_grid padded_grid = {N_GRID_U, N_GRID_V, d_padded};
    ok(msi_wproj_tile_fold(tile, d_grid, n_image, box.u_low, box.v_low, &padded_grid));
    cuda_ok(cudaMemcpy(grid, d_grid, (size_t)(n_image * n_box) * cell, cudaMemcpyDeviceToHost));
    cuda_ok(cudaMemcpy(padded, d_padded, (size_t)(n_image * n_padded) * cell, cudaMemcpyDeviceToHost));
    for (int image = 0; image < n_image; image++) {
        const msi_c64 *t = truth + image * n_box;
        memset(folded, 0, (size_t)n_padded * sizeof *folded);
        for (int64_t i = 0; i < n_box; i++) {
            int64_t u = msi_wproj_wrap(i % box.nu + box.u_low, N_GRID_U);
            int64_t v = msi_wproj_wrap(i / box.nu + box.v_low, N_GRID_V);
            folded[v * N_GRID_U + u].re += t[i].re;
            folded[v * N_GRID_U + u].im += t[i].im;
        }
        double error = distance(grid + (size_t)(image * n_box) * cell, precision, t, n_box);
        double fold_error = distance(padded + (size_t)(image * n_padded) * cell, precision, folded, n_padded);
        double limit = tolerance(p, msi_wproj_tile_form_of(tile), image);
        if (!(error <= limit && fold_error <= limit))
            fail_msg("%s, image %d, %s: error %.2e, folded %.2e, limit %.1e", p->c->name, image,
                     by_key ? "by key" : "by bin", error, fold_error, limit);
    }
    cudaFree(d_padded);
    free(grid);
    free(padded);
    free(folded);
}

/* Grid a slice's runs into its box by the reference. */
static void reference(const problem *p, const msi_run *run, int64_t n_run, int32_t slice, slice_box box, msi_c64 *truth)
{
    for (int image = 0; image < p->c->n_image; image++) {
        /* Samples of weight 0 add nothing, but may lie beyond the box. */
        for (int64_t i = 0; i < n_run; i++) {
            const msi_vis_segment *s = &p->segment[run[i].row >> MSI_SEGMENT_SHIFT];
            int plane = p->samples.store_plane[image] < 0 ? 0 : p->samples.store_plane[image];
            int64_t row = run[i].row & (MSI_SEGMENT_ROWS - 1);
            if (!(s->weight[msi_segment_index(s, plane, row, run[i].chan)] > 0)) continue;
            const msi_wproj_span span = {.geometry = &p->geometry,
                                         .kernels = &p->kernels,
                                         .store = &p->store,
                                         .run = &run[i],
                                         .n_run = 1,
                                         .slice = slice,
                                         .image_plane = p->samples.store_plane[image]};
            const msi_wproj_cells cells = {.cells = truth + (int64_t)image * box.nu * box.nv,
                                           .stride = box.nu,
                                           .u_origin = box.u_low,
                                           .v_origin = box.v_low,
                                           .n_u = box.nu,
                                           .n_v = box.nv};
            msi_wproj_reference_grid_f64(&span, &cells);
        }
    }
}

/* Find the box of a slice, of which the samples' extent is known. */
static slice_box find_box(const problem *p, int32_t slice, msi_wproj_box_extent wanted)
{
    msi_wproj_box_extent extents[MAX_SLICE];
    for (int32_t i = 0; i < p->c->n_slice; i++) extents[i] = msi_wproj_empty_extent();
    ok(msi_wproj_extents(&default_stream, &p->geometry, p->kernels.half, &p->samples, extents));
    msi_wproj_box_extent extent = extents[slice];
    assert_int_equal(extent.n, wanted.n);
    if (wanted.n == 0) extent = wanted = (msi_wproj_box_extent){0, 0, 0, 0, 0};
    assert_memory_equal(&extent, &wanted, sizeof extent);
    const int32_t nu = (extent.u_high - extent.u_low) / MSI_WPROJ_TILE * MSI_WPROJ_TILE + MSI_WPROJ_TILE;
    const int32_t nv = (extent.v_high - extent.v_low) / MSI_WPROJ_TILE * MSI_WPROJ_TILE + MSI_WPROJ_TILE;
    return (slice_box){extent.u_low, extent.v_low, nu, nv};
}

static void grid_slice(const problem *p, int32_t slice)
{
    msi_run *run = allocate(p->n, sizeof *run);
    msi_wproj_box_extent wanted;
    const int64_t n_run = runs_of_slice(p, slice, run, &wanted);
    const slice_box box = find_box(p, slice, wanted);
    const int32_t nu = box.nu, nv = box.nv;
    const size_t cell = p->c->precision == MSI_FP64 ? sizeof(msi_c64) : sizeof(msi_c32);
    const size_t bytes = (size_t)p->c->n_image * (size_t)nu * (size_t)nv * cell;
    msi_c64 *truth = allocate((int64_t)p->c->n_image * nu * nv, sizeof *truth);
    reference(p, run, n_run, slice, box, truth);

    const msi_wproj_sorter_spec spec = {.capacity = p->n,
                                        .nu = nu,
                                        .nv = nv,
                                        .half = p->kernels.half,
                                        .n_plane = p->c->n_plane,
                                        .oversample = p->kernels.oversample,
                                        .n_image = p->c->n_image,
                                        .precision = p->c->precision,
                                        .linear = p->c->linear};
    const msi_wproj_tile_spec tile_spec = {
        .kernels = &p->kernels, .form = p->c->form, .linear = p->c->linear, .nu = nu, .nv = nv};
    msi_wproj_sorter *sorter;
    msi_wproj_tile *tile;
    msi_wproj_sorted sorted;
    void *grid;
    ok(msi_wproj_sorter_create(&sorter, &default_stream, &spec));
    ok(msi_wproj_tile_create(&tile, &default_stream, &tile_spec));
    assert_int_equal(msi_wproj_tile_form_of(tile),
                     p->c->kernel == SEP && p->c->precision == MSI_FP32 && p->c->form != MSI_WPROJ_TILE_FMA
                         ? MSI_WPROJ_TILE_TENSOR
                         : MSI_WPROJ_TILE_FMA);
    cuda_ok(cudaMalloc(&grid, bytes));
    for (int by_key = 0; by_key < 2; by_key++) {
        ok(msi_wproj_locate(sorter, &p->geometry, &p->samples, slice, box.u_low, box.v_low));
        ok(by_key ? msi_wproj_sort_kernels(sorter, &sorted) : msi_wproj_sort_bins(sorter, &sorted));
        if (by_key)
            assert_true(sorted.n <= wanted.n);
        else
            assert_int_equal(sorted.n, wanted.n);
        /* Runs are cut at every 32nd sample; none merge where kernels are interpolated. */
        if (by_key && p->c->layout == ONE_CELL)
            assert_int_equal(sorted.n, p->c->linear ? wanted.n : (wanted.n + 31) / 32);
        cuda_ok(cudaMemset(grid, 0, bytes));
        ok(msi_wproj_tile_grid(tile, &sorted, grid));
        compare(p, tile, by_key, box, grid, truth);
    }
    cudaFree(grid);
    msi_wproj_tile_free(tile);
    msi_wproj_sorter_free(sorter);
    free(truth);
    free(run);
}

static void test_cases(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASE; i++)
        for (int seed = 0; seed < n_seed; seed++) {
            problem p;
            make_problem(&p, &cases[i], 1000 * (uint64_t)i + (uint64_t)seed);
            for (int32_t slice = 0; slice < cases[i].n_slice; slice++) grid_slice(&p, slice);
            free_problem(&p);
        }
}

static void test_refusals(void **state)
{
    (void)state;
    problem p;
    make_problem(&p, &cases[6], 1);
    msi_wproj_tile *tile = NULL;
    msi_wproj_tile_spec spec = {.kernels = &p.kernels, .form = MSI_WPROJ_TILE_AUTO, .nu = 160, .nv = 161};
    assert_int_equal(msi_wproj_tile_create(&tile, &default_stream, &spec), MSI_EINTERNAL);
    spec.nv = 160;
    spec.form = MSI_WPROJ_TILE_TENSOR;
    assert_int_equal(msi_wproj_tile_create(&tile, &default_stream, &spec), MSI_EINTERNAL);
    spec.form = MSI_WPROJ_TILE_FMA;
    ((msi_c32 *)p.kernels.table)[p.kernels.offset_u[p.c->n_plane - 1]].re += 1;
    assert_int_equal(msi_wproj_tile_create(&tile, &default_stream, &spec), MSI_EINTERNAL);
    assert_null(tile);
    msi_wproj_sorter *sorter = NULL;
    msi_wproj_sorter_spec wide = {.capacity = 1,
                                  .nu = MSI_WPROJ_MAX_BOX + 1,
                                  .nv = 16,
                                  .half = p.kernels.half,
                                  .n_plane = p.c->n_plane,
                                  .oversample = 4,
                                  .n_image = 1};
    assert_int_equal(msi_wproj_sorter_create(&sorter, &default_stream, &wide), MSI_ERANGE);
    wide.nu = 16;
    wide.capacity = (int64_t)1 << 31;
    assert_int_equal(msi_wproj_sorter_create(&sorter, &default_stream, &wide), MSI_ERANGE);
    assert_null(sorter);
    free_problem(&p);
}

/* "brief": two seeds, for runs under compute-sanitizer. */
int main(int argc, char **argv)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        puts("no GPU");
        return SKIPPED;
    }
    if (argc > 1 && strcmp(argv[1], "brief") == 0) n_seed = 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
