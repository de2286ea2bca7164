/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Degridding with tabulated kernels on the GPU: every strategy against plain loops in double, on random kernels of
 * random widths and planes, samples anywhere, footprints that wrap round the grid's edge.
 */
#include <cuda_runtime.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/status.h"
#include "kernels/wproj/points/wproj_points_cuda.h"

enum { SKIPPED = 77, N_SEED = 20, MAX_PLANE = 6 };

/* The argument `brief` leaves the wide kernels and most seeds out: under a sanitizer a test takes a hundred times as
 * long. */
static int brief;

/* A lane sums at most 512^2 / 32 = 8192 terms in a row; the rounding errors of a random sum of m terms grow as
 * sqrt(m) / 3 units of the last place relative to the sum: 30 x 6e-8 and 30 x 1.1e-16. */
static const double tolerance[] = {[MSI_FP32] = 2e-6, [MSI_FP64] = 4e-15};

typedef struct points {
    msi_precision precision;
    int32_t nu, nv, n_image, n_plane, oversample;
    int32_t taps[MAX_PLANE];
    int64_t offset[MAX_PLANE];
    int64_t n, n_element;
    int sub_spread; /* sub-positions that samples use along an axis */
    msi_wproj_sample *sample;
    msi_c64 *grid, *table, *exact;
} points;

static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static msi_c64 random_value(void)
{
    /* Exact in float32, so that both precisions have the same expected result. */
    return (msi_c64){random_below(1 << 20) * 0x1p-19 - 1, random_below(1 << 20) * 0x1p-19 - 1};
}

static void *alloc_zeroed(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n > 0 ? n : 1), size);
    assert_non_null(p);
    return p;
}

static int32_t wrapped(int64_t x, int32_t n)
{
    return (int32_t)((x % n + n) % n);
}

/* Sum in long double, so that the truth's own rounding does not count. */
static msi_c64 exact_value(const points *t, const msi_wproj_sample *s, int32_t image)
{
    const int32_t taps = t->taps[s->plane], os = t->oversample;
    const int64_t square = (int64_t)(s->sub_u + os / 2) * (os + 1) + s->sub_v + os / 2;
    const msi_c64 *g = t->table + t->offset[s->plane] + square * taps * taps;
    long double re = 0, im = 0;
    for (int32_t tv = 0; tv < taps; tv++)
        for (int32_t tu = 0; tu < taps; tu++, g++) {
            const int64_t cell = (int64_t)wrapped((int64_t)s->v - taps / 2 + tv, t->nv) * t->nu +
                                 wrapped((int64_t)s->u - taps / 2 + tu, t->nu);
            const long double g_re = g->re, g_im = s->conjugate ? g->im : -g->im;
            const msi_c64 x = t->grid[cell * t->n_image + image];
            re += x.re * g_re - x.im * g_im;
            im += x.re * g_im + x.im * g_re;
        }
    return (msi_c64){(double)re, (double)im};
}

/* Compute the members that depend on the sizes. */
static void fill_points(points *t)
{
    const int64_t squares = (int64_t)(t->oversample + 1) * (t->oversample + 1);
    t->n_element = 0;
    for (int32_t p = 0; p < t->n_plane; p++) {
        t->offset[p] = t->n_element;
        t->n_element += squares * t->taps[p] * t->taps[p];
    }
    t->sample = alloc_zeroed(t->n, sizeof *t->sample);
    t->grid = alloc_zeroed((int64_t)t->nu * t->nv * t->n_image, sizeof *t->grid);
    t->table = alloc_zeroed(t->n_element, sizeof *t->table);
    t->exact = alloc_zeroed(t->n * t->n_image, sizeof *t->exact);
    for (int64_t i = 0; i < (int64_t)t->nu * t->nv * t->n_image; i++) t->grid[i] = random_value();
    for (int64_t i = 0; i < t->n_element; i++) t->table[i] = random_value();
    for (int64_t i = 0; i < t->n; i++) {
        msi_wproj_sample *s = &t->sample[i];
        if (i > 0 && random_below(8) == 0) {
            *s = t->sample[random_below((uint32_t)i)];
            continue;
        }
        s->u = (int32_t)random_below(2 * (uint32_t)t->nu) - t->nu;
        s->v = (int32_t)random_below(2 * (uint32_t)t->nv) - t->nv;
        s->sub_u = (int16_t)((int)random_below((uint32_t)t->sub_spread) - t->oversample / 2);
        s->sub_v = (int16_t)((int)random_below((uint32_t)t->sub_spread) - t->oversample / 2);
        s->plane = (int16_t)random_below((uint32_t)t->n_plane);
        s->conjugate = (int16_t)random_below(2);
    }
    for (int64_t i = 0; i < t->n * t->n_image; i++)
        t->exact[i] = exact_value(t, &t->sample[i / t->n_image], (int32_t)(i % t->n_image));
}

static void free_points(points *t)
{
    free(t->sample);
    free(t->grid);
    free(t->table);
    free(t->exact);
}

static void *to_device(const void *from, int64_t n, size_t size)
{
    void *p;
    assert_int_equal(cudaMalloc(&p, (size_t)(n > 0 ? n : 1) * size), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, from, (size_t)n * size, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

/* Complex numbers in the job's precision. */
static void *values_to_device(const msi_c64 *from, int64_t n, msi_precision precision)
{
    if (precision == MSI_FP64) return to_device(from, n, sizeof *from);
    msi_c32 *narrow = alloc_zeroed(n, sizeof *narrow);
    for (int64_t i = 0; i < n; i++) narrow[i] = (msi_c32){(float)from[i].re, (float)from[i].im};
    void *p = to_device(narrow, n, sizeof *narrow);
    free(narrow);
    return p;
}

static void make_job(msi_wproj_job *job, const points *t)
{
    *job = (msi_wproj_job){.precision = t->precision, .n_image = t->n_image, .nu = t->nu, .nv = t->nv, .n_vis = t->n};
    job->sample = to_device(t->sample, t->n, sizeof *t->sample);
    job->grid = values_to_device(t->grid, (int64_t)t->nu * t->nv * t->n_image, t->precision);
    job->value = values_to_device(t->exact, t->n * t->n_image, t->precision);
    msi_wproj_kernels *k = &job->kernels;
    k->full = 1;
    k->n_plane = t->n_plane;
    k->oversample = t->oversample;
    for (int32_t p = 0; p < t->n_plane; p++)
        if (t->taps[p] > k->max_taps) k->max_taps = t->taps[p];
    k->taps = to_device(t->taps, t->n_plane, sizeof t->taps[0]);
    k->offset_u = k->offset_v = to_device(t->offset, t->n_plane, sizeof t->offset[0]);
    k->table = values_to_device(t->table, t->n_element, t->precision);
}

static void free_job(msi_wproj_job *job)
{
    cudaFree((void *)job->sample);
    cudaFree(job->grid);
    cudaFree(job->value);
    cudaFree((void *)job->kernels.taps);
    cudaFree((void *)job->kernels.offset_u);
    cudaFree((void *)job->kernels.table);
}

/* Compute the relative L2 distance of what the device holds from the truth. */
static double error_of(const points *t, const msi_wproj_job *job)
{
    const int64_t n = t->n * t->n_image;
    const size_t size = t->precision == MSI_FP32 ? sizeof(msi_c32) : sizeof(msi_c64);
    void *found = alloc_zeroed(n, size);
    assert_int_equal(cudaMemcpy(found, job->value, (size_t)n * size, cudaMemcpyDeviceToHost), cudaSuccess);
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        const msi_c64 x = t->precision == MSI_FP64 ? ((msi_c64 *)found)[i]
                                                   : (msi_c64){((msi_c32 *)found)[i].re, ((msi_c32 *)found)[i].im};
        difference += pow(x.re - t->exact[i].re, 2) + pow(x.im - t->exact[i].im, 2);
        norm += pow(t->exact[i].re, 2) + pow(t->exact[i].im, 2);
    }
    free(found);
    return norm > 0 ? sqrt(difference / norm) : 0;
}

static const msi_gpu_stream default_stream = {0, NULL};

static int run_gather(const msi_wproj_job *job, msi_gather_form form)
{
    msi_gather *g;
    MSI_TRY(msi_gather_create(&g, &default_stream, job, form));
    int status = msi_gather_sort(g, job);
    if (status == MSI_OK) status = msi_gather_degrid(g, job);
    msi_gather_free(g);
    return status;
}

static int gather_given(const msi_wproj_job *job)
{
    return run_gather(job, MSI_GATHER_GIVEN);
}

static int gather_place(const msi_wproj_job *job)
{
    return run_gather(job, MSI_GATHER_PLACE);
}

static int gather_strip(const msi_wproj_job *job)
{
    return run_gather(job, MSI_GATHER_STRIP);
}

static int gather_tile(const msi_wproj_job *job)
{
    return run_gather(job, MSI_GATHER_TILE);
}

static int gather_auto(const msi_wproj_job *job)
{
    return run_gather(job, MSI_GATHER_AUTO);
}

static int scatter(const msi_wproj_job *job)
{
    msi_scatter *s;
    MSI_TRY(msi_scatter_create(&s, &default_stream, job));
    int status = msi_scatter_sort(s, job);
    if (status == MSI_OK) status = msi_scatter_degrid(s, job);
    msi_scatter_free(s);
    return status;
}

static int run_window(const msi_wproj_job *job, int sorted)
{
    msi_window_table *w;
    MSI_TRY(msi_window_table_create(&w, &default_stream, job));
    int status = sorted ? msi_window_table_sort(w, job) : MSI_OK;
    if (status == MSI_OK) status = msi_window_table_degrid(w, job, sorted);
    msi_window_table_free(w);
    return status;
}

static int window_sorted(const msi_wproj_job *job)
{
    return run_window(job, 1);
}

static int window_given(const msi_wproj_job *job)
{
    return run_window(job, 0);
}

static const struct {
    const char *name;
    int (*run)(const msi_wproj_job *);
} strategies[] = {{"gather in the order given", gather_given}, {"gather by place", gather_place},
                  {"gather by strip", gather_strip},           {"gather by tile", gather_tile},
                  {"gather, form chosen", gather_auto},        {"scatter", scatter},
                  {"window, sorted", window_sorted},           {"window in the order given", window_given}};

/* Run every strategy and precision; earlier contents of the values must not matter. */
static void check(points *t, const char *what, int number)
{
    fill_points(t);
    for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
        t->precision = precision;
        msi_wproj_job job;
        make_job(&job, t);
        const size_t value_bytes =
            (size_t)(t->n * t->n_image) * (precision == MSI_FP32 ? sizeof(msi_c32) : sizeof(msi_c64));
        for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
            assert_int_equal(cudaMemset(job.value, 0x41, value_bytes), cudaSuccess);
            if (strategies[k].run(&job) != MSI_OK)
                fail_msg("%s %d, %s: %s", what, number, strategies[k].name, msi_error_get());
            cudaError_t e = cudaDeviceSynchronize();
            if (e != cudaSuccess) fail_msg("%s %d, %s: %s", what, number, strategies[k].name, cudaGetErrorString(e));
            const double error = error_of(t, &job);
            if (!(error <= tolerance[precision]))
                fail_msg("%s %d, %s, fp%d: relative L2 error %.2e, allowed %.1e", what, number, strategies[k].name,
                         precision == MSI_FP32 ? 32 : 64, error, tolerance[precision]);
        }
        free_job(&job);
    }
    free_points(t);
}

static void test_random(void **state)
{
    (void)state;
    for (int seed = 0; seed < (brief ? 2 : N_SEED); seed++) {
        random_state = 1000003u * (uint64_t)(seed + 1);
        points t = {.nu = 90 + (int32_t)random_below(200), .nv = 90 + (int32_t)random_below(200)};
        t.n_image = 1 + (int32_t)random_below(3);
        t.n_plane = 1 + (int32_t)random_below(MAX_PLANE);
        t.oversample = 2 << random_below(3);
        t.sub_spread = 1 + (int)random_below((uint32_t)t.oversample + 1);
        for (int32_t p = 0; p < t.n_plane; p++) t.taps[p] = 1 + (int32_t)random_below(seed % 2 ? 24 : 90);
        t.n = 1 + random_below(700);
        check(&t, "seed", seed);
    }
}

/* Run both parities of every size of the benchmark; kernels as wide as the grid. */
static void test_sizes(void **state)
{
    (void)state;
    static const int32_t size[] = {8, 9, 16, 17, 31, 32, 33, 64, 65, 96, 128, 129, 192, 256, 511, 512};
    for (size_t k = 0; k < sizeof size / sizeof size[0]; k++) {
        if (brief && size[k] > 33) break;
        random_state = 77 + k;
        points t = {.nu = size[k] < 200 ? 200 : size[k], .nv = size[k] < 200 ? 210 : size[k] + 3};
        t.n_image = t.n_plane = 1;
        t.oversample = 2;
        t.sub_spread = 2;
        t.taps[0] = size[k];
        t.n = size[k] > 200 ? 21 : 333;
        check(&t, "taps", size[k]);
    }
}

/* Grid many samples in a small grid: tiles are cut into pieces, runs of one kernel into groups. */
static void test_crowded(void **state)
{
    (void)state;
    random_state = 5;
    points t = {.nu = 64, .nv = 64, .n_image = 1, .n_plane = 2, .oversample = 2, .sub_spread = 1};
    t.taps[0] = 8;
    t.taps[1] = 7;
    t.n = 20011;
    check(&t, "crowded", 0);
}

/* Strips take what compute capability 9.0 brought, and nearly all the shared memory that a block has there. */
static int has_strips(void)
{
    int device = 0, major = 0, bytes = 0;
    assert_int_equal(cudaGetDevice(&device), cudaSuccess);
    assert_int_equal(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), cudaSuccess);
    assert_int_equal(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), cudaSuccess);
    return major >= 9 && bytes >= 227 * 1024;
}

/*
 * Try small kernels: a grid narrower than a strip, strips and bins that are cut off, rows that wrap, samples so crowded
 * that a bin's are cut into items and meet in one row, and so few that shared memory does not hold the rows from one to
 * the next. Sorting once more with the same plan must not count what was before.
 */
static void test_strips(void **state)
{
    (void)state;
    static const struct {
        int32_t nu, nv, taps;
        int64_t n;
    } grids[] = {{8, 9, 8, 500},        {104, 700, 8, 3000},    {752, 41, 7, 9000},
                 {16, 8, 8, 9000},      {1032, 1290, 8, 20000}, {520, 640, 3, 20000},
                 {2048, 8400, 8, 2500}, {12, 40, 8, 3000},      {1036, 90, 8, 9000}};
    for (size_t k = 0; k < sizeof grids / sizeof grids[0]; k++) {
        if (brief && k == 4) break;
        random_state = 9 + k;
        points t = {.nu = grids[k].nu, .nv = grids[k].nv, .n_image = 1, .n_plane = 1, .oversample = 8, .sub_spread = 9};
        t.taps[0] = grids[k].taps;
        t.n = grids[k].n;
        fill_points(&t);
        for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
            t.precision = precision;
            msi_wproj_job job;
            msi_gather *g;
            make_job(&job, &t);
            assert_int_equal(msi_gather_create(&g, &default_stream, &job, MSI_GATHER_STRIP), MSI_OK);
            assert_int_equal(msi_gather_form_of(g), has_strips() ? MSI_GATHER_STRIP : MSI_GATHER_PLACE);
            for (int again = 0; again < 3; again++) {
                assert_int_equal(cudaMemset(job.value, 0x41,
                                            (size_t)t.n * (precision == MSI_FP32 ? sizeof(msi_c32) : sizeof(msi_c64))),
                                 cudaSuccess);
                assert_int_equal(msi_gather_sort(g, &job), MSI_OK);
                assert_int_equal(msi_gather_degrid(g, &job), MSI_OK);
                const double error = error_of(&t, &job);
                if (!(error <= tolerance[precision]))
                    fail_msg("grid %d, fp%d: relative L2 error %.2e, allowed %.1e", (int)k,
                             precision == MSI_FP32 ? 32 : 64, error, tolerance[precision]);
            }
            msi_gather_free(g);
            free_job(&job);
        }
        free_points(&t);
    }
}

/* More samples than the GPU can process at once are sorted in another way. */
static void test_many(void **state)
{
    (void)state;
    if (brief) return;
    random_state = 12;
    points t = {.nu = 248, .nv = 300, .n_image = 1, .n_plane = 1, .oversample = 2, .sub_spread = 2, .taps = {2}};
    t.n = 2500000;
    check(&t, "many", 0);
}

static void test_empty(void **state)
{
    (void)state;
    random_state = 6;
    points t = {.nu = 64, .nv = 64, .n_image = 2, .n_plane = 1, .oversample = 4, .sub_spread = 5, .taps = {9}};
    check(&t, "empty", 0);
}

static void test_refused(void **state)
{
    (void)state;
    random_state = 7;
    points t = {.nu = 32, .nv = 40, .n_image = 1, .n_plane = 1, .oversample = 2, .sub_spread = 1, .n = 3, .taps = {33}};
    msi_wproj_job job;
    fill_points(&t);
    make_job(&job, &t);
    for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++)
        assert_int_equal(strategies[k].run(&job), MSI_ERANGE);
    free_job(&job);
    free_points(&t);
}

int main(int argc, char **argv)
{
    int n_device = 0;
    brief = argc > 1 && strcmp(argv[1], "brief") == 0;
    if (cudaGetDeviceCount(&n_device) != cudaSuccess || n_device == 0) {
        puts("no GPU: skipped");
        return SKIPPED;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),  cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_crowded), cmocka_unit_test(test_strips),
                                       cmocka_unit_test(test_many),    cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
