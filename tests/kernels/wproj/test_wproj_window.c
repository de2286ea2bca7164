/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The moving window on a GPU: every shape that is compiled in against plain sums in double. */
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
#include "kernels/wproj/window/wproj_window_cuda.h"
#include "tests/kernels/wproj/device_numbers.h"
#include "tests/kernels/wproj/window_numbers.h"

enum { N_SEED = 20, MAX_PLANE = 3 };

static uint64_t n_seed = N_SEED; /* 1 with the argument `brief`: under a sanitizer that takes a hundred times as long */

typedef struct job_data {
    msi_wproj_job job; /* device */
    int32_t taps[MAX_PLANE];
    int64_t offset_u[MAX_PLANE], offset_v[MAX_PLANE], n_table, n_cell;
    msi_wproj_sample *sample;
    msi_c64 *table, *value, *grid; /* values to be gridded, a grid to be degridded */
    msi_c64 *gridded, *degridded;  /* what must come out */
    void *d_value, *d_grid, *d_taps, *d_u, *d_v, *d_table, *d_sample;
    msi_window_operands *operands;
} job_data;

static void make_kernels(job_data *d, uint64_t *seed)
{
    msi_wproj_kernels *k = &d->job.kernels;
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

/* Make a track that moves slowly, jumps, stays, and crosses the grid's edge. */
static void make_samples(job_data *d, uint64_t *seed)
{
    const msi_wproj_kernels *k = &d->job.kernels;
    d->sample = calloc((size_t)d->job.n_vis, sizeof *d->sample);
    assert_non_null(d->sample);
    int half_u = (int)d->job.nu / 2, half_v = (int)d->job.nv / 2, u = 0, v = 0, os = k->oversample;
    for (int64_t i = 0; i < d->job.n_vis; i++) {
        msi_wproj_sample *s = &d->sample[i];
        if (random_below(seed, 40) == 0) {
            u = random_below(seed, (int)d->job.nu + 1) - half_u;
            v = random_below(seed, (int)d->job.nv + 1) - half_v;
        }
        if (random_below(seed, 3) == 0) {
            u += random_below(seed, 3) - 1;
            v += random_below(seed, 3) - 1;
        }
        int subs = k->lookup ? os : os + 1;
        *s = (msi_wproj_sample){.u = u,
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

static msi_c64 kernel_value(const job_data *d, const msi_wproj_sample *s, int tap_u, int tap_v)
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
        const msi_wproj_sample *s = &d->sample[i];
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

/* Upload the job's table and the data derived from it. */
static void upload_table(job_data *d)
{
    msi_wproj_job *j = &d->job;
    cudaFree(d->d_table);
    msi_window_operands_free(d->operands);
    j->kernels.table = d->d_table = numbers_to_device(d->table, d->n_table, j->precision);
    assert_int_equal(msi_window_operands_create(&d->operands, j, NULL), MSI_OK);
    assert_int_equal(d->operands != NULL, j->precision == MSI_FP32 && !j->kernels.full);
    j->kernels.operands = d->operands;
}

static void make_job(job_data *d, uint64_t seed, msi_precision precision, int n_image, int full)
{
    *d = (job_data){0};
    msi_wproj_job *j = &d->job;
    j->precision = precision;
    j->n_image = n_image;
    /* Tensor cores support multiples of four. */
    j->nu = random_below(&seed, 4) ? 4 * (30 + random_below(&seed, 11)) : 120 + random_below(&seed, 41);
    j->nv = 121 + random_below(&seed, 40);
    j->n_vis = 1 + random_below(&seed, full ? 60 : 150);
    j->kernels.full = full;
    j->kernels.lookup = !full && random_below(&seed, 2) ? MSI_WPROJ_LINEAR : MSI_WPROJ_NEAREST;
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
    upload_table(d);
    j->sample = d->d_sample = to_device(d->sample, j->n_vis * (int64_t)sizeof *d->sample);
}

static void free_job(job_data *d)
{
    void *host[] = {d->sample, d->table, d->value, d->grid, d->gridded, d->degridded};
    for (size_t i = 0; i < sizeof host / sizeof host[0]; i++) free(host[i]);
    void *device[] = {d->d_taps, d->d_u, d->d_v, d->d_table, d->d_sample};
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) cudaFree(device[i]);
    msi_window_operands_free(d->operands);
}

/* Run one shape on a job's values or grid; the caller frees the result by free. */
static msi_c64 *run_shape(job_data *d, int degrid, const msi_window_shape *shape)
{
    msi_wproj_job *j = &d->job;
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

/* Compute <x, y> over n numbers, and the product of the norms. */
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
 * The allowed error is the rounding, 2^-22 of every product, and 2^-35 of the largest cell in the same fragment;
 * a few of each.
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
    upload_table(&d);
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
            const msi_wproj_sample *s = &d.sample[i];
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
    msi_wproj_job job = {.precision = MSI_FP32, .n_image = 1, .nu = 64, .nv = 4096, .n_vis = 1};
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

static void test_operands_have_a_limit(void **state)
{
    (void)state;
    msi_wproj_job job = {.precision = MSI_FP32, .n_image = 1, .nu = 4096, .nv = 4096};
    job.kernels = (msi_wproj_kernels){.lookup = MSI_WPROJ_NEAREST, .n_plane = 30000, .oversample = 64, .max_taps = 60};
    msi_wproj_job other[4] = {job, job, job, job};
    other[1].precision = MSI_FP64;
    other[2].kernels.full = 1;
    other[3].kernels.lookup = MSI_WPROJ_TEXTURE;
    for (int i = 0; i < 4; i++) {
        if (i > 0) other[i].kernels.n_plane = 1;
        msi_window_operands *none;
        assert_int_equal(msi_window_operands_create(&none, &other[i], NULL), MSI_OK);
        assert_null(none);
        msi_window_shape shape[MSI_WINDOW_MAX_SHAPES];
        int n = msi_window_degrid_shapes(&other[i], shape);
        assert_true(n > 0);
        for (int k = 0; k < n; k++) assert_int_equal(shape[k].variant, MSI_WINDOW_THREADS);
    }
    msi_window_operands_free(NULL);
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
        cmocka_unit_test(test_operands_have_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
