/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Degridding from stacks of subgrids, test_stacks cpu|cuda [brief]: the CPU's loops, or every form of the GPU, against
 * sums in long double over footprints found from the words of the header, at the edges of subgrids and of
 * sub-positions, for loads from nothing to everything in one cell. Brief is for tools that slow a program.
 */
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
#include "kernels/stacks/stack_degrid_cpu.h"
#ifdef MSI_HAVE_CUDA
#include <cuda_runtime.h>

#include "kernels/stacks/stack_degrid_cuda.h"
#endif

enum { SKIPPED = 77, N_SEED = 12, SUB = MSI_STACK_OVERSAMPLE };

/*
 * Errors are relative to the root of the sum of the terms' squares, which is what a sum of 256 random terms comes to.
 * Its partial sums grow to that as a root, each rounded by 0.29 units of the last place (2^-23, 2^-52) in the mean:
 * 0.29 sqrt(256 / 2) = 3.3 units for terms added one after another. Six times that, since one visibility's may wander.
 */
static const double tolerance[] = {[MSI_FP32] = 2.4e-6, [MSI_FP64] = 4.4e-15};

/* Visibilities, cells and tables in the precision of the job, and the expected results. */
typedef struct stacks {
    msi_stack_job job;
    int64_t *first_vis;
    msi_stack_uvw *uvw;
    msi_c64 *exact;
    double *table[3], *cell; /* in double; exact in float32 */
    int64_t n_cell;
} stacks;

static int brief;
static uint64_t random_state;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % n);
}

static double random_value(void)
{
    return random_below(1 << 20) * 0x1p-19 - 1;
}

static void *alloc_zeroed(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n > 0 ? n : 1), size);
    assert_non_null(p);
    return p;
}

static double *random_values(int64_t n)
{
    double *x = alloc_zeroed(n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = random_value();
    return x;
}

/* Find the table's row for a coordinate and the first of its taps. */
static int32_t nearest(double x, int32_t taps, int32_t *first)
{
    const long long steps = llrint(x * SUB), whole = (steps - ((steps % SUB + SUB) % SUB)) / SUB;
    *first = (int32_t)whole - (taps / 2 - 1);
    return (int32_t)(steps - whole * SUB);
}

/* Compute the sum for one visibility; *scale gains the squares of its terms; *outside: the footprint leaves the
 * subgrid. */
static msi_c64 exact_value(const stacks *t, int32_t subgrid, const msi_stack_uvw *x, double *scale, int *outside)
{
    const int32_t size = t->job.size;
    int32_t u0, v0, w0;
    *outside = !(fabs(x->u) < size && fabs(x->v) < size && fabs(x->w) < size);
    if (*outside) return (msi_c64){0, 0};
    const double *ku = t->table[0] + (int64_t)nearest(x->u, 8, &u0) * 8;
    const double *kv = t->table[1] + (int64_t)nearest(x->v, 8, &v0) * 8;
    const double *kw = t->table[2] + (int64_t)nearest(x->w, 4, &w0) * 4;
    u0 += size / 2;
    v0 += size / 2;
    w0 += 1;
    long double re = 0, im = 0;
    *outside = u0 < 0 || v0 < 0 || w0 < 0 || u0 + 8 > size || v0 + 8 > size || w0 + 4 > 4;
    if (*outside) return (msi_c64){0, 0};
    for (int l = 0; l < 4; l++)
        for (int k = 0; k < 8; k++)
            for (int j = 0; j < 8; j++) {
                const int64_t at = ((int64_t)(subgrid * 4 + w0 + l) * size + v0 + k) * size + u0 + j;
                const long double weight = (long double)kw[l] * kv[k] * ku[j];
                re += weight * t->cell[2 * at];
                im += weight * t->cell[2 * at + 1];
                *scale += (double)(weight * weight) * (pow(t->cell[2 * at], 2) + pow(t->cell[2 * at + 1], 2));
            }
    return (msi_c64){(double)re, (double)im};
}

/* Make a stack of n subgrids of a size; counts are the caller's, uvw zero. */
static void make_stacks(stacks *t, int32_t size, int32_t n, const int64_t *count)
{
    memset(t, 0, sizeof *t);
    t->job.size = size;
    t->job.n_subgrid = n;
    t->first_vis = alloc_zeroed(n + 1, sizeof *t->first_vis);
    for (int32_t s = 0; s < n; s++) t->first_vis[s + 1] = t->first_vis[s] + count[s];
    t->n_cell = (int64_t)n * 4 * size * size;
    t->cell = random_values(2 * t->n_cell);
    for (int k = 0; k < 3; k++) t->table[k] = random_values((int64_t)SUB * (k < 2 ? 8 : 4));
    t->uvw = alloc_zeroed(t->first_vis[n], sizeof *t->uvw);
    t->exact = alloc_zeroed(t->first_vis[n], sizeof *t->exact);
    t->job.first_vis = t->first_vis;
}

static void free_stacks(stacks *t)
{
    free(t->first_vis);
    free(t->uvw);
    free(t->exact);
    free(t->cell);
    for (int k = 0; k < 3; k++) free(t->table[k]);
}

/* Make random coordinates, from the first whose footprint fits to the last one, both included. */
static double random_coordinate(int32_t size)
{
    const int32_t least = (3 - size / 2) * SUB, steps = (size - 7) * SUB;
    switch (random_below(8)) {
    case 0:
        return (double)least / SUB;
    case 1:
        return (double)(least + steps - 1) / SUB;
    case 2:
        return (double)((int32_t)random_below((uint32_t)(size - 7)) + least / SUB);
    default:
        return (least + random_below((uint32_t)steps) + 0.98 * (random_below(1000) * 0.001 - 0.5)) / SUB;
    }
}

static void scatter_visibilities(stacks *t)
{
    for (int64_t i = 0; i < t->first_vis[t->job.n_subgrid]; i++) {
        t->uvw[i].u = random_coordinate(t->job.size);
        t->uvw[i].v = random_coordinate(t->job.size);
        t->uvw[i].w = random_below(SUB) / (double)SUB;
    }
}

static void *narrowed(const double *x, int64_t n)
{
    float *y = alloc_zeroed(n, sizeof *y);
    for (int64_t i = 0; i < n; i++) y[i] = (float)x[i];
    return y;
}

static void *widened(const double *x, int64_t n)
{
    double *y = alloc_zeroed(n, sizeof *y);
    memcpy(y, x, (size_t)n * sizeof *y);
    return y;
}

static void open_job(stacks *t, msi_precision precision)
{
    void *(*const copy)(const double *, int64_t) = precision == MSI_FP32 ? narrowed : widened;
    msi_stack_job *job = &t->job;
    const int64_t n = t->first_vis[job->n_subgrid];
    job->precision = precision;
    job->uvw = t->uvw;
    job->grid = copy(t->cell, 2 * t->n_cell);
    job->kernel_u = copy(t->table[0], SUB * 8);
    job->kernel_v = copy(t->table[1], SUB * 8);
    job->kernel_w = copy(t->table[2], SUB * 4);
    job->value = alloc_zeroed(n, sizeof(msi_c64));
    /* Earlier contents of the values must not matter. */
    memset(job->value, 0x41, (size_t)n * sizeof(msi_c64));
}

static void close_job(msi_stack_job *job)
{
    free((void *)job->grid);
    free((void *)job->kernel_u);
    free((void *)job->kernel_v);
    free((void *)job->kernel_w);
    free(job->value);
}

/* Compute the L2 distance of the values on the host from the truth; those outside must be zero. */
static double error_of(const stacks *t, int *n_outside)
{
    double difference = 0, scale = 0;
    *n_outside = 0;
    for (int32_t s = 0; s < t->job.n_subgrid; s++)
        for (int64_t i = t->first_vis[s]; i < t->first_vis[s + 1]; i++) {
            int outside;
            const msi_c64 exact = exact_value(t, s, &t->uvw[i], &scale, &outside);
            const msi_c64 x = t->job.precision == MSI_FP64 ? ((const msi_c64 *)t->job.value)[i]
                                                           : (msi_c64){((const msi_c32 *)t->job.value)[i].re,
                                                                       ((const msi_c32 *)t->job.value)[i].im};
            if (outside && (x.re != 0 || x.im != 0))
                fail_msg("visibility %lld lies outside and is not 0", (long long)i);
            *n_outside += outside;
            difference += pow(x.re - exact.re, 2) + pow(x.im - exact.im, 2);
        }
    return scale > 0 ? sqrt(difference / scale) : sqrt(difference);
}

static void hold(const stacks *t, const char *how, int rc, int rc_outside)
{
    int n_outside;
    const double error = error_of(t, &n_outside);
    if (rc != (n_outside > 0 ? rc_outside : MSI_OK))
        fail_msg("%s: returned %d with %d outside: %s", how, rc, n_outside, msi_error_get());
    if (!(error <= tolerance[t->job.precision]))
        fail_msg("%s, fp%d: error %.2e, allowed %.1e", how, t->job.precision == MSI_FP32 ? 32 : 64, error,
                 tolerance[t->job.precision]);
}

static void check_cpu(stacks *t)
{
    for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
        open_job(t, (msi_precision)precision);
        hold(t, "cpu", msi_stack_cpu_degrid(&t->job), MSI_ERANGE);
        close_job(&t->job);
    }
}

static void (*check)(stacks *t) = check_cpu;

#ifdef MSI_HAVE_CUDA

static void *to_device(const void *from, int64_t n, size_t size)
{
    void *p;
    assert_int_equal(cudaMalloc(&p, (size_t)(n > 0 ? n : 1) * size), cudaSuccess);
    assert_int_equal(cudaMemcpy(p, from, (size_t)n * size, cudaMemcpyHostToDevice), cudaSuccess);
    return p;
}

static const msi_gpu_stream default_stream = {0, NULL};

/*
 * other: a job of as many visibilities elsewhere, whose order the form must not take for this one's, and whose values
 * are not looked at. twice: the values are those of the second time after one sort.
 */
static int run_form(const msi_stack_job *job, const msi_stack_job *other, msi_stack_form form, int32_t group, int twice,
                    int *checked)
{
    msi_stack *s;
    msi_stack_job first = *job;
    if (twice) first.value = other->value;
    MSI_TRY(msi_stack_create(&s, &default_stream, job, form, group));
    *checked = msi_stack_check(s, job);
    int rc = MSI_OK;
    for (int time = 0; rc == MSI_OK && time < 3; time++) {
        const msi_stack_job *now = time == 1 ? other : &first;
        rc = msi_stack_sort(s, now);
        if (rc == MSI_OK) rc = msi_stack_degrid(s, now);
    }
    if (rc == MSI_OK && twice) rc = msi_stack_degrid(s, job);
    msi_stack_free(s);
    return rc;
}

static int can_stream;

static void check_cuda(stacks *t)
{
    static const struct {
        const char *name;
        msi_stack_form form;
        int32_t group;
    } forms[] = {
        {"single", MSI_STACK_SINGLE, 0},    {"warp", MSI_STACK_WARP, 0},       {"warp by 1", MSI_STACK_WARP, 1},
        {"warp by 13", MSI_STACK_WARP, 13}, {"zreduce", MSI_STACK_ZREDUCE, 0}, {"zreduce by 5", MSI_STACK_ZREDUCE, 5},
        {"stream", MSI_STACK_STREAM, 0},    {"tile", MSI_STACK_TILE, 0},       {"auto", MSI_STACK_AUTO, 0}};
    for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
        open_job(t, (msi_precision)precision);
        const size_t real = precision == MSI_FP32 ? sizeof(float) : sizeof(double);
        const int64_t n = t->first_vis[t->job.n_subgrid];
        msi_stack_job job = t->job;
        job.uvw = to_device(t->uvw, n, sizeof *t->uvw);
        job.grid = to_device(t->job.grid, 2 * t->n_cell, real);
        job.kernel_u = to_device(t->job.kernel_u, SUB * 8, real);
        job.kernel_v = to_device(t->job.kernel_v, SUB * 8, real);
        job.kernel_w = to_device(t->job.kernel_w, SUB * 4, real);
        msi_stack_uvw *backwards = alloc_zeroed(n, sizeof *backwards);
        for (int64_t i = 0; i < n; i++) backwards[i] = t->uvw[n - 1 - i];
        msi_stack_job other = job;
        other.uvw = to_device(backwards, n, sizeof *backwards);
        free(backwards);
        other.value = to_device(t->job.value, n, 2 * real);
        for (size_t run = 0; run < 2 * (sizeof forms / sizeof forms[0]); run++) {
            const size_t k = run / 2;
            int checked = MSI_OK;
            if (forms[k].form == MSI_STACK_STREAM && !can_stream) continue;
            memset(t->job.value, 0x41, (size_t)n * 2 * real);
            job.value = to_device(t->job.value, n, 2 * real);
            const int rc = run_form(&job, &other, forms[k].form, forms[k].group, run % 2, &checked);
            if (rc != MSI_OK) fail_msg("%s: %s", forms[k].name, msi_error_get());
            const cudaError_t e = cudaDeviceSynchronize();
            if (e != cudaSuccess) fail_msg("%s: %s", forms[k].name, cudaGetErrorString(e));
            assert_int_equal(cudaMemcpy(t->job.value, job.value, (size_t)n * 2 * real, cudaMemcpyDeviceToHost),
                             cudaSuccess);
            cudaFree(job.value);
            hold(t, forms[k].name, checked, MSI_ERANGE);
        }
        cudaFree((void *)other.uvw);
        cudaFree(other.value);
        cudaFree((void *)job.uvw);
        cudaFree((void *)job.grid);
        cudaFree((void *)job.kernel_u);
        cudaFree((void *)job.kernel_v);
        cudaFree((void *)job.kernel_w);
        close_job(&t->job);
    }
}

/* Many visibilities are processed by tile if they are close together, not if they are spread out. */
static void test_density(void **state)
{
    (void)state;
    enum { N = 8192 };
    const int64_t count[] = {N, 0};
    for (int spread = 0; spread < 2; spread++) {
        stacks t;
        msi_stack *s;
        random_state = 21;
        make_stacks(&t, MSI_STACK_MAX_SIZE, 2, count);
        if (spread) scatter_visibilities(&t);
        msi_stack_job job = t.job;
        job.uvw = to_device(t.uvw, N, sizeof *t.uvw);
        assert_int_equal(msi_stack_create(&s, &default_stream, &job, MSI_STACK_AUTO, 0), MSI_OK);
        assert_int_equal(msi_stack_form_of(s), spread && can_stream ? MSI_STACK_STREAM : MSI_STACK_TILE);
        msi_stack_free(s);
        cudaFree((void *)job.uvw);
        free_stacks(&t);
    }
}

static void test_forms(void **state)
{
    (void)state;
    assert_int_equal(msi_stack_form_for(1), MSI_STACK_SINGLE);
    assert_int_equal(msi_stack_form_for(1e6), MSI_STACK_TILE);
    const int64_t first_vis[] = {0, 3};
    msi_stack_job job = {.n_subgrid = 1, .size = MSI_STACK_MAX_SIZE, .first_vis = first_vis};
    msi_stack *s;
    assert_int_equal(msi_stack_create(&s, &default_stream, &job, MSI_STACK_WARP, 33), MSI_ERANGE);
    assert_null(s);
    assert_int_equal(msi_stack_create(&s, &default_stream, &job, MSI_STACK_AUTO, 0), MSI_OK);
    assert_int_equal(msi_stack_form_of(s), msi_stack_form_for(3));
    msi_stack_free(s);
    const int64_t too_many[] = {0, (int64_t)1 << 31};
    job.first_vis = too_many;
    assert_int_equal(msi_stack_create(&s, &default_stream, &job, MSI_STACK_TILE, 0), MSI_ERANGE);
}

#endif

static void test_random(void **state)
{
    (void)state;
    for (int seed = 0; seed < (brief ? 2 : N_SEED); seed++) {
        random_state = 1000003u * (uint64_t)(seed + 1);
        int64_t count[5];
        const int32_t n = 1 + (int32_t)random_below(5), size = 16 + 2 * (int32_t)random_below(60);
        for (int32_t s = 0; s < n; s++) count[s] = random_below(3) ? random_below(3000) : random_below(3);
        stacks t;
        make_stacks(&t, size, n, count);
        scatter_visibilities(&t);
        check(&t);
        free_stacks(&t);
    }
}

/* Try every first cell of the largest subgrid's border and of its tiles' borders. */
static void test_largest(void **state)
{
    (void)state;
    random_state = 11;
    enum { SIZE = MSI_STACK_MAX_SIZE, POSITIONS = SIZE - 7 };
    const int64_t count[] = {0, 4 * POSITIONS};
    stacks t;
    make_stacks(&t, SIZE, 2, count);
    for (int32_t i = 0; i < 4 * POSITIONS; i++) {
        const double along = i / 4 + 3 - SIZE / 2 + random_below(SUB) / (double)SUB, across = random_coordinate(SIZE);
        t.uvw[i] = (msi_stack_uvw){i % 2 ? along : across, i % 2 ? across : along, 0};
        if (i % 4 == 2) t.uvw[i].u = t.uvw[i].v;
    }
    check(&t);
    free_stacks(&t);
}

/* All visibilities are in one cell, from one visibility to more than fit in an item; the other subgrids are empty. */
static void test_crowded(void **state)
{
    (void)state;
    static const int64_t number[] = {1, 2, 7, 8, 9, 511, 512, 513, 1024, 1025, 20011};
    for (size_t k = 0; k < sizeof number / sizeof number[0]; k++) {
        if (brief && number[k] > 513) continue;
        random_state = 77 + k;
        int64_t count[] = {0, 0, 0, 0};
        count[k % 4] = number[k];
        stacks t;
        make_stacks(&t, 40, 4, count);
        scatter_visibilities(&t);
        for (int64_t i = 0; i < number[k]; i++) {
            t.uvw[i].u = (int)k - 5 + random_below(SUB) / (double)SUB;
            t.uvw[i].v = 3 + random_below(SUB) / (double)SUB;
        }
        check(&t);
        free_stacks(&t);
    }
}

/* Dense everywhere: tiles of many cells with many visibilities each, and, unless brief, more than a cluster sorts. */
static void test_dense(void **state)
{
    (void)state;
    random_state = 5;
    const int64_t count[] = {brief ? 4000 : 40000, 1, 0, 17000};
    stacks t;
    make_stacks(&t, 64, 4, count);
    scatter_visibilities(&t);
    check(&t);
    free_stacks(&t);
}

/* Run enough subgrids to make units of work differ in height. Some subgrids are empty. */
static void test_many(void **state)
{
    (void)state;
    enum { N = 150 };
    random_state = 31;
    int64_t count[N];
    for (int s = 0; s < N; s++) count[s] = random_below(4) ? random_below(40) : 0;
    stacks t;
    make_stacks(&t, brief ? 80 : 200, N, count);
    scatter_visibilities(&t);
    check(&t);
    free_stacks(&t);
}

static void test_empty(void **state)
{
    (void)state;
    random_state = 6;
    const int64_t count[] = {0, 0, 0};
    for (int32_t n = 0; n <= 3; n++) {
        stacks t;
        make_stacks(&t, 16, n, count);
        check(&t);
        free_stacks(&t);
    }
}

/* Move visibilities one sub-position beyond either end of every axis, far outside, or to coordinates that are not
 * finite. The other visibilities keep their values. */
static void test_outside(void **state)
{
    (void)state;
    random_state = 8;
    const int64_t count[] = {600, 200};
    const int32_t size = 50;
    const double below = 3 - size / 2 - 1.0 / SUB, above = size / 2 - 4.0, step = 1.0 / SUB;
    const double bad[] = {below, above, 1e300, -1e300, INFINITY, -INFINITY, NAN}, bad_w[] = {-step, 1, 1e9, NAN};
    stacks t;
    make_stacks(&t, size, 2, count);
    scatter_visibilities(&t);
    for (int k = 0; k < 7; k++) {
        t.uvw[50 * k + 3].u = bad[k];
        t.uvw[50 * k + 4].v = bad[k];
    }
    for (int k = 0; k < 4; k++) t.uvw[50 * k + 5].w = bad_w[k];
    /* Half a sub-position away rounds to the last one inside, or, to even, to the first one outside. */
    t.uvw[700].u = above - 0.51 * step;
    t.uvw[701].u = above - 0.5 * step;
    t.uvw[702].u = below + 0.51 * step;
    check(&t);
    free_stacks(&t);
}

static void test_refused(void **state)
{
    (void)state;
    const int64_t first_vis[] = {0, 5, 4}, from_one[] = {1, 5};
    static const int32_t size[] = {14, 15, 17, 514, -2};
    for (size_t k = 0; k < sizeof size / sizeof size[0]; k++) {
        const msi_stack_job job = {.n_subgrid = 1, .size = size[k], .first_vis = first_vis};
        assert_int_equal(msi_stack_cpu_degrid(&job), MSI_ERANGE);
    }
    msi_stack_job job = {.n_subgrid = 2, .size = 16, .first_vis = first_vis};
    assert_int_equal(msi_stack_cpu_degrid(&job), MSI_ERANGE);
    job.n_subgrid = -1;
    assert_int_equal(msi_stack_cpu_degrid(&job), MSI_ERANGE);
    job.n_subgrid = 1;
    job.first_vis = from_one;
    assert_int_equal(msi_stack_cpu_degrid(&job), MSI_ERANGE);
}

int main(int argc, char **argv)
{
    const int on_gpu = argc > 1 && strcmp(argv[1], "cuda") == 0;
    brief = argc > 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random),  cmocka_unit_test(test_largest),
                                       cmocka_unit_test(test_crowded), cmocka_unit_test(test_dense),
                                       cmocka_unit_test(test_many),    cmocka_unit_test(test_empty),
                                       cmocka_unit_test(test_outside), cmocka_unit_test(test_refused)};
    if (on_gpu) {
#ifdef MSI_HAVE_CUDA
        int n_device = 0;
        if (cudaGetDeviceCount(&n_device) == cudaSuccess && n_device > 0) {
            const struct CMUnitTest gpu[] = {cmocka_unit_test(test_forms), cmocka_unit_test(test_density)};
            can_stream = msi_stack_stream_serves();
            check = check_cuda;
            return cmocka_run_group_tests(tests, NULL, NULL) + cmocka_run_group_tests(gpu, NULL, NULL);
        }
#endif
        puts("no GPU: skipped");
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
