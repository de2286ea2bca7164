/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The moving window on a GPU: every shape that is compiled in against plain sums in double, and the way from a block of
 * visibilities to the grid and back against the reference's taps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime_api.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/degrid/wproj_window_degrid_cuda.h"
#include "kernels/grid/wproj_reference.h"
#include "kernels/grid/wproj_window_gridder_cuda.h"
#include "tests/device_numbers.h"
#include "tests/wgrid_cases.h"

enum { N_SEED = 20, MAX_PLANE = 3 };

static uint64_t n_seed = N_SEED; /* 1 with the argument `brief`: under a sanitizer that takes a hundred times as long */

/*
 * Sums of some thousand products in another order: each addition rounds by 2^-24 of a partial sum, whose terms are
 * random, so the error stays near 1e-7 sqrt(10); ten times that. In double likewise.
 */
static double tolerance(msi_precision precision)
{
    return precision == MSI_FP32 ? 3e-6 : 6e-15;
}

static int random_below(uint64_t *seed, int n)
{
    int x = (int)(msi_random(seed) * n);
    return x < n ? x : n - 1;
}

static msi_c64 product(msi_c64 a, msi_c64 b)
{
    return (msi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static msi_c64 conjugate(msi_c64 a)
{
    return (msi_c64){a.re, -a.im};
}

static void add_to(msi_c64 *sum, msi_c64 x)
{
    sum->re += x.re;
    sum->im += x.im;
}

static double relative_error(const msi_c64 *x, const msi_c64 *truth, int64_t n)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        off += (x[i].re - truth[i].re) * (x[i].re - truth[i].re) + (x[i].im - truth[i].im) * (x[i].im - truth[i].im);
        all += truth[i].re * truth[i].re + truth[i].im * truth[i].im;
    }
    return all > 0 ? sqrt(off / all) : off;
}

static int64_t modulo(int64_t x, int64_t n)
{
    return msi_wproj_wrap(x, n);
}

/* ---- One job for every shape ------------------------------------------------------------------------------------ */

typedef struct job_data {
    msi_window_job job; /* device */
    int32_t taps[MAX_PLANE];
    int64_t offset_u[MAX_PLANE], offset_v[MAX_PLANE], n_table, n_cell;
    msi_window_sample *sample;
    msi_c64 *table, *value, *grid; /* values to be gridded, a grid to be degridded */
    msi_c64 *gridded, *degridded;  /* what must come out */
    void *d_value, *d_grid, *d_taps, *d_u, *d_v, *d_table, *d_sample;
} job_data;

static void make_kernels(job_data *d, uint64_t *seed)
{
    msi_window_kernels *k = &d->job.kernels;
    int widest = 1 + random_below(seed, k->full ? 40 : 72);
    for (int p = 0; p < k->n_plane; p++) {
        int64_t taps = 1 + random_below(seed, widest), subs = k->oversample + 1;
        d->taps[p] = (int32_t)taps;
        if (taps > k->max_taps) k->max_taps = (int32_t)taps;
        d->offset_u[p] = d->n_table;
        d->n_table += k->full ? subs * subs * taps * taps : subs * taps;
        d->offset_v[p] = k->full ? d->offset_u[p] : d->n_table;
        if (!k->full) d->n_table += subs * taps;
    }
    d->table = random_numbers(seed, d->n_table);
}

/* A track that creeps, jumps, stays, and leaves the grid's edge. */
static void make_samples(job_data *d, uint64_t *seed)
{
    const msi_window_kernels *k = &d->job.kernels;
    d->sample = calloc((size_t)d->job.n_vis, sizeof *d->sample);
    assert_non_null(d->sample);
    int half_u = (int)d->job.nu / 2, half_v = (int)d->job.nv / 2, u = 0, v = 0, os = k->oversample;
    for (int64_t i = 0; i < d->job.n_vis; i++) {
        msi_window_sample *s = &d->sample[i];
        if (random_below(seed, 40) == 0) {
            u = random_below(seed, (int)d->job.nu + 1) - half_u;
            v = random_below(seed, (int)d->job.nv + 1) - half_v;
        }
        if (random_below(seed, 3) == 0) {
            u += random_below(seed, 3) - 1;
            v += random_below(seed, 3) - 1;
        }
        int subs = k->lookup ? os : os + 1;
        *s = (msi_window_sample){.u = u,
                                 .v = v,
                                 .sub_u = (int16_t)(random_below(seed, subs) - os / 2),
                                 .sub_v = (int16_t)(random_below(seed, subs) - os / 2),
                                 .plane = (int16_t)random_below(seed, k->n_plane),
                                 .conjugate = (int16_t)random_below(seed, 2)};
        if (i > 0 && random_below(seed, 2)) {
            *s = s[-1];
            s->u = u;
            s->v = v;
        }
        if (k->lookup) {
            s->frac_u = (float)random_below(seed, 5) / 4;
            s->frac_v = (float)random_below(seed, 5) / 4;
        }
    }
}

static msi_c64 row_weight(const job_data *d, int64_t offset, int plane, int sub, int tap, double frac)
{
    int64_t taps = d->taps[plane], at = offset + (sub + d->job.kernels.oversample / 2) * taps + tap;
    msi_c64 w = d->table[at];
    if (frac > 0) {
        msi_c64 next = d->table[at + taps];
        w.re += frac * (next.re - w.re);
        w.im += frac * (next.im - w.im);
    }
    return w;
}

static msi_c64 kernel_value(const job_data *d, const msi_window_sample *s, int tap_u, int tap_v)
{
    int64_t taps = d->taps[s->plane], os = d->job.kernels.oversample;
    msi_c64 k;
    if (d->job.kernels.full)
        k = d->table[d->offset_u[s->plane] +
                     (((s->sub_u + os / 2) * (os + 1) + s->sub_v + os / 2) * taps + tap_v) * taps + tap_u];
    else
        k = product(row_weight(d, d->offset_u[s->plane], s->plane, s->sub_u, tap_u, (double)s->frac_u),
                    row_weight(d, d->offset_v[s->plane], s->plane, s->sub_v, tap_v, (double)s->frac_v));
    return s->conjugate ? conjugate(k) : k;
}

static void find_truth(job_data *d)
{
    const int n_image = d->job.n_image;
    d->gridded = zeros(d->n_cell * n_image);
    d->degridded = zeros(d->job.n_vis * n_image);
    for (int64_t i = 0; i < d->job.n_vis; i++) {
        const msi_window_sample *s = &d->sample[i];
        int taps = d->taps[s->plane];
        for (int b = 0; b < taps; b++)
            for (int a = 0; a < taps; a++) {
                msi_c64 k = kernel_value(d, s, a, b);
                int64_t at =
                    (modulo(s->v - taps / 2 + b, d->job.nv) * d->job.nu + modulo(s->u - taps / 2 + a, d->job.nu)) *
                    n_image;
                for (int p = 0; p < n_image; p++) {
                    add_to(&d->gridded[at + p], product(d->value[i * n_image + p], k));
                    add_to(&d->degridded[i * n_image + p], product(d->grid[at + p], conjugate(k)));
                }
            }
    }
}

static void make_job(job_data *d, uint64_t seed, msi_precision precision, int n_image, int full)
{
    *d = (job_data){0};
    msi_window_job *j = &d->job;
    j->precision = precision;
    j->n_image = n_image;
    j->nu = 120 + random_below(&seed, 41);
    j->nv = 121 + random_below(&seed, 40);
    j->n_vis = 1 + random_below(&seed, full ? 60 : 150);
    j->kernels.full = full;
    j->kernels.lookup = !full && random_below(&seed, 2) ? MSI_WINDOW_LINEAR : MSI_WINDOW_NEAREST;
    j->kernels.n_plane = 1 + random_below(&seed, MAX_PLANE);
    j->kernels.oversample = 2 * (1 + random_below(&seed, 4));
    d->n_cell = j->nu * j->nv;
    make_kernels(d, &seed);
    make_samples(d, &seed);
    d->value = random_numbers(&seed, j->n_vis * n_image);
    d->grid = random_numbers(&seed, d->n_cell * n_image);
    find_truth(d);
    const int64_t words = MAX_PLANE * (int64_t)sizeof(int64_t);
    j->kernels.taps = d->d_taps = to_device(d->taps, sizeof d->taps);
    j->kernels.offset_u = d->d_u = to_device(d->offset_u, words);
    j->kernels.offset_v = d->d_v = to_device(d->offset_v, words);
    j->kernels.table = d->d_table = numbers_to_device(d->table, d->n_table, precision);
    j->sample = d->d_sample = to_device(d->sample, j->n_vis * (int64_t)sizeof *d->sample);
}

static void free_job(job_data *d)
{
    void *host[] = {d->sample, d->table, d->value, d->grid, d->gridded, d->degridded};
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++) free(host[i]);
    void *device[] = {d->d_taps, d->d_u, d->d_v, d->d_table, d->d_sample};
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) cudaFree(device[i]);
}

/* What one shape makes of a job's values or grid; freed by free. */
static msi_c64 *run_shape(job_data *d, int degrid, const msi_window_shape *shape)
{
    msi_window_job *j = &d->job;
    const int64_t n_value = j->n_vis * j->n_image, n_grid = d->n_cell * j->n_image;
    msi_c64 *empty = zeros(degrid ? n_value : n_grid);
    j->value = numbers_to_device(degrid ? empty : d->value, n_value, j->precision);
    j->grid = numbers_to_device(degrid ? d->grid : empty, n_grid, j->precision);
    free(empty);
    assert_int_equal(degrid ? msi_window_degrid_cuda(j, shape, NULL) : msi_window_grid_cuda(j, shape, NULL), MSI_OK);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    msi_c64 *x =
        degrid ? numbers_to_host(j->value, n_value, j->precision) : numbers_to_host(j->grid, n_grid, j->precision);
    cudaFree(j->value);
    cudaFree(j->grid);
    return x;
}

/* <x, y> over n numbers, and the product of the norms. */
static msi_c64 inner_product(const msi_c64 *x, const msi_c64 *y, int64_t n, double *norms)
{
    msi_c64 sum = {0, 0};
    double xx = 0, yy = 0;
    for (int64_t i = 0; i < n; i++) {
        add_to(&sum, product(x[i], conjugate(y[i])));
        xx += x[i].re * x[i].re + x[i].im * x[i].im;
        yy += y[i].re * y[i].re + y[i].im * y[i].im;
    }
    *norms = sqrt(xx * yy);
    return sum;
}

static void check_shapes(uint64_t seed, msi_precision precision, int n_image, int full)
{
    job_data d;
    make_job(&d, seed, precision, n_image, full);
    const int64_t n_value = d.job.n_vis * n_image, n_grid = d.n_cell * n_image;
    msi_c64 *gridded = NULL, *degridded = NULL;
    for (int degrid = 0; degrid < 2; degrid++) {
        msi_window_shape shape[MSI_WINDOW_MAX_SHAPES];
        int n = degrid ? msi_window_degrid_shapes(&d.job, shape) : msi_window_grid_shapes(&d.job, shape);
        assert_true(n > 0);
        for (int i = 0; i < n; i++) {
            shape[i].n_vis = 1 + (int)((seed * 37 + (uint64_t)i * 11) % 150);
            msi_c64 *x = run_shape(&d, degrid, &shape[i]);
            double error = relative_error(x, degrid ? d.degridded : d.gridded, degrid ? n_value : n_grid);
            if (!(error < tolerance(precision)))
                print_message("%s seed %d images %d of %d full %d, %d of %dx%d in %dx%d, variant %d: error %.2e\n",
                              degrid ? "degrid" : "grid", (int)seed, (int)shape[i].images, n_image, full,
                              (int)shape[i].blocks_v, (int)shape[i].coarsen_u, (int)shape[i].coarsen_v,
                              (int)shape[i].tile_u, (int)shape[i].tile_v, (int)shape[i].variant, error);
            assert_true(error < tolerance(precision));
            msi_c64 **kept = degrid ? &degridded : &gridded;
            free(*kept);
            *kept = x;
        }
    }
    double norm_value, norm_grid;
    msi_c64 a = inner_product(gridded, d.grid, n_grid, &norm_grid);
    msi_c64 b = inner_product(d.value, degridded, n_value, &norm_value);
    double apart = hypot(a.re - b.re, a.im - b.im) / fmax(norm_grid, norm_value);
    assert_true(apart < (precision == MSI_FP32 ? 1e-6 : 1e-12));
    free(gridded);
    free(degridded);
    free_job(&d);
}

static void test_every_shape(void **state)
{
    (void)state;
    const int n_image[] = {1, 2, 4, 5, 3};
    for (uint64_t seed = 1; seed <= n_seed; seed++)
        for (int i = 0; i < 5; i++)
            for (int full = 0; full < 2; full++) {
                check_shapes(seed * 10 + (uint64_t)i, MSI_FP32, n_image[i], full);
                check_shapes(seed * 10 + (uint64_t)i, MSI_FP64, n_image[i], full);
            }
}

/*
 * Degridding where the left half of the grid is `step` times the right one: half-precision operands have to be scaled.
 * An error may be what rounding 2^-22 of every product makes, and 2^-35 of the largest cell that is read beside it;
 * some of either.
 */
static void check_range(uint64_t seed, double cell, double weight, double step)
{
    job_data d;
    make_job(&d, seed, MSI_FP32, 1, 0);
    const int64_t nu = d.job.nu;
    for (int64_t i = 0; i < d.n_cell; i++) {
        double x = i % nu < nu / 2 ? cell * step : cell;
        d.grid[i] = (msi_c64){(double)(float)(x * d.grid[i].re), (double)(float)(x * d.grid[i].im)};
    }
    for (int64_t i = 0; i < d.n_table; i++)
        d.table[i] = (msi_c64){(double)(float)(weight * d.table[i].re), (double)(float)(weight * d.table[i].im)};
    cudaFree(d.d_table);
    d.job.kernels.table = d.d_table = numbers_to_device(d.table, d.n_table, MSI_FP32);
    free(d.gridded);
    free(d.degridded);
    find_truth(&d);
    msi_window_shape shape[MSI_WINDOW_MAX_SHAPES];
    int n = msi_window_degrid_shapes(&d.job, shape);
    for (int k = 0; k < n; k++) {
        shape[k].n_vis = 100;
        msi_c64 *x = run_shape(&d, 1, &shape[k]);
        for (int64_t i = 0; i < d.job.n_vis; i++) {
            double products = 0, weights = 0;
            const msi_window_sample *s = &d.sample[i];
            const int taps = d.taps[s->plane];
            for (int b = 0; b < taps; b++)
                for (int a = 0; a < taps; a++) {
                    const msi_c64 w = kernel_value(&d, s, a, b);
                    const msi_c64 g =
                        d.grid[modulo(s->v - taps / 2 + b, d.job.nv) * nu + modulo(s->u - taps / 2 + a, nu)];
                    weights += hypot(w.re, w.im);
                    products += hypot(w.re, w.im) * hypot(g.re, g.im);
                }
            const double allowed = ldexp(4 * products, -22) + ldexp(2 * weights * cell * fmax(1, step), -35);
            const double off = hypot(x[i].re - d.degridded[i].re, x[i].im - d.degridded[i].im);
            if (!(off <= allowed))
                fail_msg("seed %d, %dx%d, variant %d: visibility %d of %d: error %.2e, allowed %.2e", (int)seed,
                         (int)shape[k].tile_u, (int)shape[k].tile_v, (int)shape[k].variant, (int)i, (int)d.job.n_vis,
                         off, allowed);
        }
        free(x);
    }
    free_job(&d);
}

static void test_range_of_values(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= n_seed; seed++) {
        check_range(seed, 1e15, 1e-6, 1);
        check_range(seed, 1e-15, 1e4, 1);
        check_range(seed, 1, 1, 1e6);
        check_range(seed, 1e3, 1, 0);
    }
}

static void test_kernels_wider_than_the_grid(void **state)
{
    (void)state;
    msi_window_job job = {.precision = MSI_FP32, .n_image = 1, .nu = 64, .nv = 4096, .n_vis = 1};
    job.kernels.max_taps = 60;
    msi_window_shape shape[MSI_WINDOW_MAX_SHAPES];
    assert_true(msi_window_grid_shapes(&job, shape) > 0);
    shape[0].n_vis = 256;
    assert_int_equal(msi_window_grid_cuda(&job, &shape[0], NULL), MSI_ERANGE);
    assert_true(msi_window_degrid_shapes(&job, shape) > 0);
    shape[0].n_vis = 256;
    assert_int_equal(msi_window_degrid_cuda(&job, &shape[0], NULL), MSI_ERANGE);
    shape[0].tile_u = 12345;
    job.nu = 4096;
    assert_int_equal(msi_window_degrid_cuda(&job, &shape[0], NULL), MSI_ERANGE);
}

/* ---- From visibilities to the grid and back --------------------------------------------------------------------- */

enum { N_BLOCK_PLANE = 2, N_W_PLANE = 9, N_ROW = 90, N_CHAN = 3 };

typedef struct block_data {
    msi_wproj_geometry geometry;
    msi_wkernel_set kernels;
    int32_t half[N_W_PLANE];
    int64_t offset_u[N_W_PLANE], offset_v[N_W_PLANE];
    double w_lambda[N_W_PLANE];
    double uvw_m[N_ROW][3], freq_hz[N_CHAN];
    float weight[N_BLOCK_PLANE * N_ROW * N_CHAN];
    msi_c64 *vis, *table;
    msi_window_block device;
    msi_precision precision;
} block_data;

static void make_block(block_data *b, uint64_t seed, msi_precision precision, int full, int linear)
{
    memset(b, 0, sizeof *b);
    b->precision = precision;
    msi_wproj_geometry *g = &b->geometry;
    *g = (msi_wproj_geometry){.nu = 160,
                              .nv = 150,
                              .u_cells_per_m_hz = -1e-9,
                              .v_cells_per_m_hz = 1.1e-9,
                              .w_lambda_per_m_hz = 1 / MSI_SPEED_OF_LIGHT,
                              .slice_step = 20,
                              .n_slice = 3,
                              .n_plane = N_W_PLANE,
                              .plane_scale = 6.4,
                              .plane_sqrt = 1,
                              .oversample = 4,
                              .linear = linear,
                              .n_mid = -0.013};
    msi_wkernel_set *k = &b->kernels;
    *k = (msi_wkernel_set){.form = full ? MSI_WKERNEL_FULL : MSI_WKERNEL_SEPARABLE,
                           .precision = precision,
                           .n_plane = N_W_PLANE,
                           .oversample = g->oversample,
                           .half = b->half,
                           .offset_u = b->offset_u,
                           .offset_v = b->offset_v,
                           .w_lambda = b->w_lambda};
    for (int p = 0; p < N_W_PLANE; p++) {
        b->half[p] = 2 + 2 * p;
        k->half_max = b->half[p];
        b->offset_u[p] = b->offset_v[p] = k->n_element;
        k->n_element += msi_wkernel_elements(full, g->oversample, b->half[p]);
    }
    b->table = random_numbers(&seed, k->n_element);
    for (int i = 0; i < N_CHAN; i++) b->freq_hz[i] = 1e8 * (1 + 0.05 * i);
    for (int r = 0; r < N_ROW; r++) {
        b->uvw_m[r][0] = 1200 * (msi_random(&seed) - 0.5);
        b->uvw_m[r][1] = 1200 * (msi_random(&seed) - 0.5);
        b->uvw_m[r][2] = 340 * (msi_random(&seed) - 0.5);
    }
    const int n = N_BLOCK_PLANE * N_ROW * N_CHAN;
    for (int i = 0; i < n; i++) b->weight[i] = random_below(&seed, 4) ? (float)msi_random(&seed) : 0;
    b->vis = random_numbers(&seed, n);
    b->device = (msi_window_block){.n_row = N_ROW, .n_chan = N_CHAN, .plane_stride = N_ROW * N_CHAN};
    b->device.freq_hz = to_device(b->freq_hz, sizeof b->freq_hz);
    b->device.uvw_m = to_device(b->uvw_m, sizeof b->uvw_m);
    b->device.weight = to_device(b->weight, sizeof b->weight);
    b->device.vis = numbers_to_device(b->vis, n, precision);
    /* The set's own table in its precision. */
    k->table = calloc((size_t)k->n_element, (size_t)element_bytes(precision));
    assert_non_null(k->table);
    for (int64_t i = 0; i < k->n_element; i++) {
        if (precision == MSI_FP64)
            ((msi_c64 *)k->table)[i] = b->table[i];
        else
            ((msi_c32 *)k->table)[i] = (msi_c32){(float)b->table[i].re, (float)b->table[i].im};
    }
}

static void free_block(block_data *b)
{
    const void *device[] = {b->device.freq_hz, b->device.uvw_m, b->device.weight, b->device.vis};
    for (int i = 0; i < 4; i++) {
        void *p;
        memcpy(&p, &device[i], sizeof p);
        cudaFree(p);
    }
    free(b->vis);
    free(b->table);
    free(b->kernels.table);
}

/* exp(-2 pi i turns) */
static msi_c64 turned(double turns)
{
    return (msi_c64){cos(2 * MSI_PI * turns), -sin(2 * MSI_PI * turns)};
}

static int is_in_slice(const block_data *b, int row, int chan, int32_t slice)
{
    double w = fabs(b->uvw_m[row][2] * b->freq_hz[chan] * b->geometry.w_lambda_per_m_hz);
    return msi_wproj_slice(&b->geometry, w) == slice;
}

/* Plain sums over a slice's samples: images are the block's planes and the PSF. */
static void grid_plainly(const block_data *b, int32_t slice, msi_c64 *grid)
{
    const int n_image = N_BLOCK_PLANE + 1;
    const msi_wproj_geometry *g = &b->geometry;
    for (int r = 0; r < N_ROW; r++)
        for (int c = 0; c < N_CHAN; c++) {
            if (!is_in_slice(b, r, c, slice)) continue;
            msi_wproj_place p;
            msi_wproj_locate_in(g, b->uvw_m[r], b->freq_hz[c], 0, slice, &p);
            int32_t half = b->half[p.plane];
            for (int m = 0; m < n_image; m++) {
                int plane = m < N_BLOCK_PLANE ? m : 0, at = (plane * N_ROW + r) * N_CHAN + c;
                msi_c64 v = m < N_BLOCK_PLANE ? b->vis[at] : (msi_c64){1, 0};
                if (p.conjugate_vis) v = conjugate(v);
                v = product((msi_c64){v.re * (double)b->weight[at], v.im * (double)b->weight[at]}, turned(p.turns));
                for (int32_t tv = -half; tv <= half; tv++)
                    for (int32_t tu = -half; tu <= half; tu++)
                        add_to(&grid[(modulo(p.v + tv, g->nv) * g->nu + modulo(p.u + tu, g->nu)) * n_image + m],
                               product(v, msi_wproj_reference_tap(g, &b->kernels, &p, tu, tv)));
            }
        }
}

static void degrid_plainly(const block_data *b, int32_t slice, const msi_c64 *grid, msi_c64 *vis)
{
    const msi_wproj_geometry *g = &b->geometry;
    for (int r = 0; r < N_ROW; r++)
        for (int c = 0; c < N_CHAN; c++) {
            if (!is_in_slice(b, r, c, slice)) continue;
            msi_wproj_place p;
            msi_wproj_locate_in(g, b->uvw_m[r], b->freq_hz[c], 1, slice, &p);
            int32_t half = b->half[p.plane];
            for (int m = 0; m < N_BLOCK_PLANE; m++) {
                msi_c64 sum = {0, 0};
                for (int32_t tv = -half; tv <= half; tv++)
                    for (int32_t tu = -half; tu <= half; tu++)
                        add_to(
                            &sum,
                            product(
                                grid[(modulo(p.v + tv, g->nv) * g->nu + modulo(p.u + tu, g->nu)) * N_BLOCK_PLANE + m],
                                conjugate(msi_wproj_reference_tap(g, &b->kernels, &p, tu, tv))));
                sum = product(sum, turned(-p.turns));
                vis[(m * N_ROW + r) * N_CHAN + c] = p.conjugate_vis ? conjugate(sum) : sum;
            }
        }
}

static void check_block(uint64_t seed, msi_precision precision, int full, int linear)
{
    block_data b;
    make_block(&b, seed, precision, full, linear);
    const int n_image = N_BLOCK_PLANE + 1;
    const int32_t image_plane[] = {0, 1, -1};
    const int64_t n_cell = b.geometry.nu * b.geometry.nv, n_vis = N_BLOCK_PLANE * N_ROW * N_CHAN;
    /* Fractions between sub-offsets are float. */
    double limit = linear ? 3e-6 : tolerance(precision);
    msi_window_gridder *g;
    assert_int_equal(msi_window_gridder_create(&g, &b.geometry, &b.kernels, n_image, N_ROW * N_CHAN, 0, 0), MSI_OK);
    msi_c64 *truth = zeros(n_cell * n_image);
    msi_window_grid grid = {b.geometry.nu, b.geometry.nv, numbers_to_device(truth, n_cell * n_image, precision)};
    for (int32_t slice = 0; slice < b.geometry.n_slice; slice++) {
        grid_plainly(&b, slice, truth);
        assert_int_equal(msi_window_gridder_add(g, &b.device, image_plane, slice, &grid, NULL), MSI_OK);
    }
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    msi_c64 *x = numbers_to_host(grid.cells, n_cell * n_image, precision);
    assert_true(relative_error(x, truth, n_cell * n_image) < limit);
    free(x);
    free(truth);
    cudaFree(grid.cells);
    msi_window_gridder_free(g);

    assert_int_equal(msi_window_gridder_create(&g, &b.geometry, &b.kernels, N_BLOCK_PLANE, N_ROW * N_CHAN, 0, 0),
                     MSI_OK);
    msi_c64 *cells = random_numbers(&seed, n_cell * N_BLOCK_PLANE);
    grid.cells = numbers_to_device(cells, n_cell * N_BLOCK_PLANE, precision);
    msi_window_block wanted = b.device;
    wanted.weight = NULL;
    truth = zeros(n_vis);
    for (int32_t slice = 0; slice < b.geometry.n_slice; slice++) {
        degrid_plainly(&b, slice, cells, truth);
        assert_int_equal(msi_window_gridder_predict(g, &wanted, slice, &grid, NULL), MSI_OK);
    }
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    x = numbers_to_host(wanted.vis, n_vis, precision);
    assert_true(relative_error(x, truth, n_vis) < limit);
    free(x);
    free(truth);
    free(cells);
    cudaFree(grid.cells);
    msi_window_gridder_free(g);
    free_block(&b);
}

static void test_blocks_of_visibilities(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= n_seed; seed++)
        for (int precision = 0; precision < 2; precision++) {
            check_block(seed, precision ? MSI_FP64 : MSI_FP32, 0, 0);
            check_block(seed, precision ? MSI_FP64 : MSI_FP32, 0, 1);
            check_block(seed, precision ? MSI_FP64 : MSI_FP32, 1, 0);
        }
}

int main(int argc, char **argv)
{
    int n = 0;
    if (argc > 1 && strcmp(argv[1], "brief") == 0) n_seed = 1;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0) {
        puts("skipped: no GPU");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_shape),
        cmocka_unit_test(test_range_of_values),
        cmocka_unit_test(test_kernels_wider_than_the_grid),
        cmocka_unit_test(test_blocks_of_visibilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
