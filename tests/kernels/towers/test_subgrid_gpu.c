/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Transforms of subgrids on the GPU, of every size, against the same sums by FFTW in double precision. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cuda_runtime_api.h>
#include <fftw3.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/towers/subgrid_cuda.h"
#include "tests/kernels/wproj/device_numbers.h"
#include "tests/support/wgrid_cases.h"

enum { N_PLANE = 37, N_STACK = 3, N_CORE_U = 2, N_CORE = 6, MARGIN = 7, WIDTH = 6 };

static const uint32_t core_of[N_STACK] = {1, 2, 5};

/* Choose which planes of three of six cores hold samples: most of them, some with gaps, a single one. */
static int holds(int core, int plane)
{
    switch (core) {
    case 1:
        return plane % 5 != 2;
    case 2:
        return plane >= 3 && plane < 24 && plane % 16 != 0;
    default:
        return core == 5 && plane == 2;
    }
}

/* A job and its numbers in double precision on the host. */
typedef struct numbers {
    msi_subgrid_shape shape;
    msi_subgrid_job job;
    uint32_t slot[N_CORE * N_PLANE + 1];
    int64_t n_slot, small_cells, whole_cells, size_cells;
    double *nu;
    msi_c64 *small, *whole; /* the random input */
    msi_c64 *plane, *sum;   /* [size][size] workspace */
    fftw_plan forward, inverse;
} numbers;

static void *device_of_roots(const msi_subgrid_shape *s)
{
    msi_c64 roots[MSI_SUBGRID_MAX_ROOTS];
    int64_t n;
    assert_int_equal(msi_subgrid_roots(s, roots, &n), 0);
    return to_device(roots, n * msi_complex_bytes(s->precision));
}

static void *empty_on_device(int64_t cells, msi_precision precision)
{
    void *p = NULL;
    size_t bytes = (size_t)(cells * msi_complex_bytes(precision));
    assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
    assert_int_equal(cudaMemset(p, 0xff, bytes), cudaSuccess); /* NaN */
    return p;
}

static void make_device(numbers *n)
{
    msi_subgrid_job *j = &n->job;
    const msi_subgrid_shape *s = &n->shape;
    const int64_t half = s->size / 2 + 1;
    j->shape = *s;
    j->core_of = to_device(core_of, sizeof core_of);
    j->slot = to_device(n->slot, sizeof n->slot);
    j->n_stack = N_STACK;
    j->n_slot = n->n_slot;
    j->roots = device_of_roots(s);
    j->small = numbers_to_device(n->small, n->small_cells, s->precision);
    j->rows = empty_on_device(n->n_slot * msi_subgrid_row_cells(s), s->precision);
    j->sum = empty_on_device(N_STACK * n->size_cells, s->precision);
    j->whole = numbers_to_device(n->whole, n->whole_cells, s->precision);
    void *screens = empty_on_device(msi_subgrid_screen_cells(s), s->precision),
         *nu = to_device(n->nu, half * half * (int64_t)sizeof *n->nu);
    assert_int_equal(msi_subgrid_screens(s, nu, screens, NULL), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    cudaFree(nu);
    j->screens = screens;
}

/* The whole plane is little larger than a subgrid, so that subgrids overlap and wrap round it. */
static void make(numbers *n, int32_t size, int32_t core, msi_precision precision)
{
    uint64_t seed = (uint64_t)size;
    memset(n, 0, sizeof *n);
    n->shape = (msi_subgrid_shape){
        .size = size,
        .core = core,
        .margin = MARGIN,
        .width = WIDTH,
        .filled = core + WIDTH - 1,
        .pitch = (core + WIDTH - 1 + 3) / 4 * 4,
        .n_core_u = N_CORE_U,
        .n_plane = N_PLANE,
        .nu = size + 10,
        .nv = 2 * size + 4,
        .w_step = 0.04, /* doubles know the phase of many turns less well than the tolerance requires */
        .precision = precision};
    for (int i = 0; i < N_CORE * N_PLANE; i++) n->slot[i + 1] = n->slot[i] + (uint32_t)holds(i / N_PLANE, i % N_PLANE);
    const int64_t half = size / 2 + 1;
    n->n_slot = n->slot[N_CORE * N_PLANE];
    n->small_cells = n->n_slot * msi_subgrid_plane_cells(&n->shape);
    n->whole_cells = n->shape.nu * n->shape.nv;
    n->size_cells = (int64_t)size * size;
    n->nu = msi_test_alloc(half * half, sizeof *n->nu);
    for (int64_t i = 0; i < half * half; i++) n->nu[i] = 2 * msi_random(&seed) - 1;
    n->small = random_numbers(&seed, n->small_cells);
    n->whole = random_numbers(&seed, n->whole_cells);
    n->plane = zeros(n->size_cells);
    n->sum = zeros(n->size_cells);
    fftw_complex *plane = (fftw_complex *)n->plane, *sum = (fftw_complex *)n->sum;
    n->forward = fftw_plan_dft_2d(size, size, plane, plane, FFTW_FORWARD, FFTW_ESTIMATE);
    n->inverse = fftw_plan_dft_2d(size, size, sum, sum, FFTW_BACKWARD, FFTW_ESTIMATE);
    make_device(n);
}

static void free_numbers(numbers *n)
{
    const msi_subgrid_job *j = &n->job;
    const void *const device[] = {j->core_of, j->slot, j->roots, j->screens, j->small, j->rows, j->sum, j->whole};
    void *const host[] = {n->nu, n->small, n->whole, n->plane, n->sum};
    for (size_t i = 0; i < sizeof device / sizeof *device; i++) cudaFree((void *)device[i]);
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) free(host[i]);
    fftw_destroy_plan(n->forward);
    fftw_destroy_plan(n->inverse);
}

/* Compute exp(-2 pi i dw nu) / size^2 at a pixel of a plane's transform. */
static msi_c64 screen(const numbers *n, int plane, int64_t pixel)
{
    const int64_t size = n->shape.size, x = pixel % size, y = pixel / size, half = size / 2 + 1;
    const int64_t i = x < half ? x : size - x, j = y < half ? y : size - y;
    const double turns = (plane - 0.5 * (N_PLANE - 1)) * n->shape.w_step * n->nu[j * half + i];
    return (msi_c64){cos(2 * MSI_PI * turns) / (double)n->size_cells, -sin(2 * MSI_PI * turns) / (double)n->size_cells};
}

/* Return the whole plane's cell under a subgrid's, which is MARGIN cells before it if the last cells are the margin. */
static int64_t under(const numbers *n, uint32_t core, int64_t cell)
{
    const msi_subgrid_shape *s = &n->shape;
    int64_t u = cell % s->size, v = cell / s->size;
    if (u >= s->size - s->margin) u -= s->size;
    if (v >= s->size - s->margin) v -= s->size;
    u += (int64_t)(core % N_CORE_U) * s->core - s->width + s->nu;
    v += (int64_t)(core / N_CORE_U) * s->core - s->width + s->nv;
    return v % s->nv * s->nu + u % s->nu;
}

static double distance(const msi_c64 *a, const msi_c64 *b, int64_t n)
{
    double apart = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        apart += (a[i].re - b[i].re) * (a[i].re - b[i].re) + (a[i].im - b[i].im) * (a[i].im - b[i].im);
        size += b[i].re * b[i].re + b[i].im * b[i].im;
    }
    return sqrt(apart / size);
}

static msi_c64 *small_cell(const numbers *n, msi_c64 *small, int64_t slot, int64_t u, int64_t v)
{
    return small + slot * msi_subgrid_plane_cells(&n->shape) + v * n->shape.pitch + u;
}

static void fill_plane(numbers *n, int64_t slot)
{
    memset(n->plane, 0, (size_t)n->size_cells * sizeof *n->plane);
    for (int64_t v = 0; v < n->shape.filled; v++)
        for (int64_t u = 0; u < n->shape.filled; u++)
            n->plane[v * n->shape.size + u] = *small_cell(n, n->small, slot, u, v);
}

static void add_exactly(numbers *n, msi_c64 *whole)
{
    for (int k = 0; k < N_STACK; k++) {
        memset(n->sum, 0, (size_t)n->size_cells * sizeof *n->sum);
        for (int p = 0; p < N_PLANE; p++) {
            if (!holds((int)core_of[k], p)) continue;
            fill_plane(n, n->slot[core_of[k] * N_PLANE + (uint32_t)p]);
            fftw_execute(n->forward);
            for (int64_t i = 0; i < n->size_cells; i++) {
                const msi_c64 x = n->plane[i], w = screen(n, p, i);
                n->sum[i].re += x.re * w.re - x.im * w.im;
                n->sum[i].im += x.re * w.im + x.im * w.re;
            }
        }
        fftw_execute(n->inverse);
        for (int64_t i = 0; i < n->size_cells; i++) {
            msi_c64 *to = whole + under(n, core_of[k], i);
            to->re += n->sum[i].re;
            to->im += n->sum[i].im;
        }
    }
}

static void cut_exactly(numbers *n, msi_c64 *small)
{
    for (int k = 0; k < N_STACK; k++) {
        for (int64_t i = 0; i < n->size_cells; i++) n->plane[i] = n->whole[under(n, core_of[k], i)];
        fftw_execute(n->forward);
        for (int p = 0; p < N_PLANE; p++) {
            if (!holds((int)core_of[k], p)) continue;
            for (int64_t i = 0; i < n->size_cells; i++) {
                const msi_c64 x = n->plane[i], w = screen(n, p, i);
                n->sum[i] = (msi_c64){x.re * w.re + x.im * w.im, x.im * w.re - x.re * w.im};
            }
            fftw_execute(n->inverse);
            for (int64_t v = 0; v < n->shape.filled; v++)
                for (int64_t u = 0; u < n->shape.filled; u++)
                    *small_cell(n, small, n->slot[core_of[k] * N_PLANE + (uint32_t)p], u, v) =
                        n->sum[v * n->shape.size + u];
        }
    }
}

/* Butterflies of four transforms of at most 512 points are about 36 roundings, sqrt(36) in random order; with roots,
 * screens and sums ten. */
static double tolerance(msi_precision precision)
{
    return 10 * (precision == MSI_FP32 ? 6e-8 : 1.2e-16);
}

/* Check that adding has set the small planes to zero, and restore their input. */
static void fill_small_again(numbers *n)
{
    msi_c64 *left = numbers_to_host(n->job.small, n->small_cells, n->shape.precision);
    for (int64_t i = 0; i < n->small_cells; i++) assert_true(left[i].re == 0 && left[i].im == 0);
    free(left);
    cudaFree(n->job.small);
    n->job.small = numbers_to_device(n->small, n->small_cells, n->shape.precision);
}

/* Compute the distance of the whole plane from `whole` when the kept sums are added to it. */
static double error_of_sums(numbers *n, const msi_c64 *whole)
{
    msi_subgrid_job job = n->job;
    job.whole = NULL;
    assert_int_equal(msi_subgrid_add(&job, NULL), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    msi_c64 *sum = numbers_to_host(job.sum, N_STACK * n->size_cells, n->shape.precision), *all = zeros(n->whole_cells);
    memcpy(all, n->whole, (size_t)n->whole_cells * sizeof *all);
    for (int k = 0; k < N_STACK; k++)
        for (int64_t i = 0; i < n->size_cells; i++) {
            msi_c64 *to = all + under(n, core_of[k], i);
            to->re += sum[k * n->size_cells + i].re;
            to->im += sum[k * n->size_cells + i].im;
        }
    const double error = distance(all, whole, n->whole_cells);
    free(sum);
    free(all);
    return error;
}

static void check(int32_t size, int32_t core, msi_precision precision)
{
    numbers n;
    make(&n, size, core, precision);
    msi_c64 *whole = zeros(n.whole_cells), *small = zeros(n.small_cells);
    memcpy(whole, n.whole, (size_t)n.whole_cells * sizeof *whole);
    add_exactly(&n, whole);
    cut_exactly(&n, small);
    assert_true(error_of_sums(&n, whole) <= tolerance(precision));
    fill_small_again(&n);
    assert_int_equal(msi_subgrid_add(&n.job, NULL), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    msi_c64 *sum = numbers_to_host(n.job.whole, n.whole_cells, precision);
    const double add_error = distance(sum, whole, n.whole_cells);
    cudaFree(n.job.whole);
    n.job.whole = numbers_to_device(n.whole, n.whole_cells, precision);
    assert_int_equal(msi_subgrid_cut(&n.job, NULL), 0);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    msi_c64 *planes = numbers_to_host(n.job.small, n.small_cells, precision);
    const double cut_error = distance(planes, small, n.small_cells);
    printf("  %d cells, %d of them filled, fp%d: %.1e added, %.1e cut\n", size, n.shape.filled,
           precision == MSI_FP32 ? 32 : 64, add_error, cut_error);
    assert_true(add_error <= tolerance(precision));
    assert_true(cut_error <= tolerance(precision));
    free(whole);
    free(small);
    free(sum);
    free(planes);
    free_numbers(&n);
}

/* The largest size to test. */
static int32_t most_size = INT32_MAX;

/* Test cores that leave half of a subgrid empty, and cores that fill nearly all of it. */
static void test_every_size(void **state)
{
    (void)state;
    for (int i = 0; i < MSI_SUBGRID_N_SIZE; i++)
        for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
            const int32_t size = msi_subgrid_size[i];
            if (size > most_size) continue;
            check(size, size / 32 * 16, (msi_precision)precision);
            check(size, (size - 2 * MARGIN - WIDTH) / 2 * 2, (msi_precision)precision);
        }
}

/* Add stacks repeatedly while there is no error. The sums stay on the device. */
static void *add_often(void *given)
{
    const numbers *n = given;
    intptr_t code = 0;
    for (int i = 0; i < 1000 && !code; i++) code = msi_subgrid_add(&n->job, NULL);
    return (void *)code;
}

/* Two threads compute towers of two plans, with fewer and with more planes: kernels with different amounts of shared
 * memory are launched alternately. */
static void test_threads_of_different_towers(void **state)
{
    enum { SIZE = 512, FEWER = N_PLANE - 4 };
    numbers n[2];
    pthread_t thread[2];
    (void)state;
    if (most_size < SIZE) skip();
    for (int i = 0; i < 2; i++) make(&n[i], SIZE, SIZE / 2, MSI_FP32);
    n[1].job.shape.n_plane = FEWER; /* slots and screens of more planes also serve fewer */
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, add_often, &n[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *code;
        assert_int_equal(pthread_join(thread[i], &code), 0);
        assert_null(code);
    }
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    for (int i = 0; i < 2; i++) free_numbers(&n[i]);
}

static void test_other_sizes_are_refused(void **state)
{
    (void)state;
    const msi_subgrid_shape shape = {.size = 100, .precision = MSI_FP32};
    msi_c64 roots[MSI_SUBGRID_MAX_ROOTS];
    int64_t n;
    assert_int_equal(msi_subgrid_roots(&shape, roots, &n), MSI_EINTERNAL);
}

/* test_subgrid_gpu [MOST]: subgrids of at most this many cells along an edge, for tools that slow a program down. */
int main(int argc, char **argv)
{
    if (argc > 1) most_size = (int32_t)strtol(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),
        cmocka_unit_test(test_threads_of_different_towers),
        cmocka_unit_test(test_other_sizes_are_refused),
    };
    if (!msi_gpu_available()) {
        printf("skipped: %s\n", msi_gpu_describe(0));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
