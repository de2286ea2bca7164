/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_clean_failures cpu|cuda: cleaning and restoring, once for each call that can fail, with that call failing. After
 * a failure nothing is leaked, and the cleaner can be used again. Loops repeat the same calls: of those made along one
 * path through the code, the first and the last fail, except for one method, of which all do. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "tests/kernels/clean/clean_cases.h"
#include "tests/support/failure_injection.h"
#ifdef MSI_HAVE_CUDA
#include <cuda_runtime_api.h>
#endif
#include "tests/support/failure_injection_cuda.h"

static const char NO_MESSAGE[] = "no message was set";

enum { NX = 32, NY = 30, N_PIXEL = NX * NY, MOST = 4, PARTS = 4 };

typedef struct scenario {
    const char *name, *method;
    msi_precision precision;
    int n_channel, n_part;
    msi_clean_fit fit;
    int local_rms;
    int all; /* every call fails */
} scenario;

/* The results of a run, in the planes' precision: the restored image, and the model's parts. */
typedef struct outcome {
    double image[MOST * N_PIXEL], part[PARTS * N_PIXEL];
} outcome;

static clean_problem problem;
static const double part_freq[PARTS] = {1.0e9, 1.1e9, 1.2e9, 1.3e9}, part_weight[PARTS] = {1, 2, 1, 1};

/* Planes, made when they are needed. */
typedef struct planes {
    msi_planes *psf, *residual, *model, *image, *part;
} planes;

static msi_cleaner_spec spec_of(const scenario *s)
{
    return (msi_cleaner_spec){.nx = NX,
                              .ny = NY,
                              .n_channel = s->n_channel,
                              .n_part = s->n_part,
                              .part_freq_hz = s->n_part ? part_freq : NULL,
                              .part_weight = s->n_part ? part_weight : NULL,
                              .freq_hz = s->n_part ? NULL : problem.freq_hz,
                              .precision = s->precision,
                              .backend = clean_backend,
                              .n_thread = 1,
                              .method = s->method,
                              .fit = s->fit,
                              .n_term = 2,
                              .beam_pixel = 2};
}

static int put(msi_planes *p, const double *value)
{
    const msi_planes_shape *s = msi_planes_shape_of(p);
    static float single[MOST * N_PIXEL];
    for (int i = 0; i < s->n * N_PIXEL; i++) single[i] = (float)value[i];
    return msi_planes_upload(p, 0, s->n, s->precision == MSI_FP32 ? (const void *)single : value);
}

static int get(const msi_planes *p, double *out)
{
    const msi_planes_shape *s = msi_planes_shape_of(p);
    static float single[MOST * N_PIXEL];
    MSI_TRY(msi_planes_fetch(p, 0, s->n, s->precision == MSI_FP32 ? (void *)single : out));
    for (int i = 0; i < s->n * N_PIXEL && s->precision == MSI_FP32; i++) out[i] = (double)single[i];
    return MSI_OK;
}

static int make_planes(const scenario *s, const msi_cleaner *c, planes *p)
{
    msi_planes_shape shape = msi_cleaner_shape(c);
    MSI_TRY(msi_planes_create(&p->psf, &shape));
    MSI_TRY(msi_planes_create(&p->residual, &shape));
    MSI_TRY(msi_planes_create(&p->model, &shape));
    MSI_TRY(msi_planes_create(&p->image, &shape));
    shape.n = s->n_part ? s->n_part : s->n_channel;
    MSI_TRY(msi_planes_create(&p->part, &shape));
    return put(p->psf, problem.psf);
}

static int make_image(const scenario *s, msi_cleaner *c, planes *p, outcome *out)
{
    const msi_clean_limits limits = {.threshold = 0.05, .n_iteration = 24, .local_rms = s->local_rms};
    const msi_restore_spec how = {.beam = {4, 3, 0.5}, .cell_x_rad = 1, .cell_y_rad = 1, .n = s->n_channel};
    const msi_clean_local_rms local = {.window_pixel = 12, .with_min = 1};
    msi_clean_report report;
    double value;
    MSI_TRY(put(p->residual, problem.residual));
    MSI_TRY(msi_planes_zero(p->model, 0, s->n_channel));
    MSI_TRY(msi_cleaner_psf(c, p->psf));
    MSI_TRY(msi_cleaner_noise(c, p->residual, &value));
    if (s->local_rms) MSI_TRY(msi_cleaner_local_rms(c, p->residual, &local, &value));
    MSI_TRY(msi_cleaner_minor(c, p->residual, p->model, &limits, &report));
    MSI_TRY(msi_restore(p->image, p->residual, p->model, &how));
    MSI_TRY(msi_cleaner_expand(c, p->model, p->part));
    MSI_TRY(get(p->image, out->image));
    return get(p->part, out->part);
}

/* If waiting fails like everything else, the code cannot know that queued work is done; the test waits here. */
static int waiting_fails;

static void settle(void)
{
#ifdef MSI_HAVE_CUDA
    if (waiting_fails && clean_backend == MSI_BACKEND_CUDA) (void)cudaDeviceSynchronize();
#endif
}

/* The second attempt is with the same cleaner and without a failure. *again: there was one */
static int run(const scenario *s, outcome *out, int *again)
{
    const msi_cleaner_spec spec = spec_of(s);
    msi_cleaner *c;
    planes p = {0};
    *again = 0;
    int rc = msi_cleaner_create(&c, &spec);
    if (rc) assert_null(c);
    if (!rc) {
        rc = make_planes(s, c, &p);
        if (!rc && (rc = make_image(s, c, &p, out))) {
            failure_disarm();
            settle();
            *again = 1;
            if (make_image(s, c, &p, out)) fail_msg("%s: not a second time either: %s", s->name, msi_error_get());
        }
    }
    msi_planes *all[] = {p.psf, p.residual, p.model, p.image, p.part};
    for (int i = 0; i < 5; i++) msi_planes_free(all[i]);
    msi_cleaner_free(c);
    return rc;
}

static void check_failure(const scenario *s, int rc)
{
    const char *function = failure_first();
    const int due = strncmp(function, "cu", 2) == 0 ? MSI_EGPU : MSI_ENOMEM;
    if (rc != due) fail_msg("%s: %s failed: status %d, not %d: %s", s->name, function, rc, due, msi_error_get());
    if (strcmp(msi_error_get(), NO_MESSAGE) == 0) fail_msg("%s: %s failed, no message", s->name, function);
}

/* The order of sums does not depend on time: images are the same to the last bit, even those of a second attempt. */
static void check_outcome(const scenario *s, const outcome *got, const outcome *truth, int64_t n)
{
    const int n_part = s->n_part ? s->n_part : s->n_channel;
    if (memcmp(got->image, truth->image, (size_t)(s->n_channel * N_PIXEL) * sizeof(double)) != 0 ||
        memcmp(got->part, truth->part, (size_t)(n_part * N_PIXEL) * sizeof(double)) != 0)
        fail_msg("%s: another image after failure %lld, of %s", s->name, (long long)n, failure_first());
}

enum { MOST_CALLS = 1 << 16 };

/* Return 1 if call n is to fail; if all calls after it fail too, the last of a path tests nothing that the first does
 * not. */
static int is_tried(const scenario *s, int64_t n, failure_mode mode)
{
    return s->all || failure_is_first(n) || (mode == FAILURE_ONCE && failure_is_last(n));
}

static void check_all(const scenario *s)
{
    static outcome truth, got;
    static uint8_t tried[2][MOST_CALLS + 1];
    int again;
    int64_t n_again = 0, n_survived = 0, n_tried = 0;
    failure_trace();
    if (run(s, &truth, &again)) fail_msg("%s: %s", s->name, msi_error_get());
    const int64_t n_call = failure_disarm(), in_use = msi_memory_in_use(), on_gpu = failure_cuda_live();
    assert_in_range(n_call, 1, MOST_CALLS);
    for (int64_t n = 1; n <= n_call; n++)
        for (int mode = FAILURE_ONCE; mode <= FAILURE_FROM; mode++)
            tried[mode][n] = (uint8_t)is_tried(s, n, (failure_mode)mode);
    for (int mode = FAILURE_ONCE; mode <= FAILURE_FROM; mode++)
        for (int64_t n = 1; n <= n_call; n++) {
            if (!tried[mode][n]) continue;
            n_tried++;
            (void)msi_error_set(MSI_OK, NO_MESSAGE);
            waiting_fails = mode == FAILURE_FROM;
            failure_arm(n, (failure_mode)mode);
            const int rc = run(s, &got, &again);
            failure_disarm();
            if (rc) check_failure(s, rc);
            if (rc && mode == FAILURE_ONCE && strncmp(failure_first(), "cufftPlan", 9) == 0)
                fail_msg("%s: %s is not tried again: %s", s->name, failure_first(), msi_error_get());
            if (!rc || again) check_outcome(s, &got, &truth, n);
            n_again += again;
            n_survived += !rc;
            assert_int_equal(msi_memory_in_use(), in_use);
            assert_int_equal(failure_cuda_live(), on_gpu);
        }
    printf("  %s: %lld calls; %lld failures, after %lld the cleaner was used again, %lld survived\n", s->name,
           (long long)n_call, (long long)n_tried, (long long)n_again, (long long)n_survived);
    fflush(stdout);
    assert_true(n_again > 0);
}

static void test_every_failure(void **state)
{
    (void)state;
    static const scenario all[] = {{"hogbom", "hogbom", MSI_FP64, 1, 0, MSI_CLEAN_FIT_NONE, 0, 1},
                                   {"list", "list", MSI_FP32, 2, 0, MSI_CLEAN_FIT_POLYNOMIAL, 1, 0},
                                   {"list of parts", "list", MSI_FP64, 2, PARTS, MSI_CLEAN_FIT_LOG, 0, 0},
                                   {"multiscale", "multiscale", MSI_FP32, 1, 0, MSI_CLEAN_FIT_NONE, 0, 0},
                                   {"multiscale of parts", "multiscale", MSI_FP32, 2, PARTS, MSI_CLEAN_FIT_LOG, 0, 0}};
    problem =
        (clean_problem){.nx = NX, .ny = NY, .n_channel = 2, .n_pol = 1, .weight = {1, 1}, .freq_hz = {1e9, 1.2e9}};
    clean_problem_make(&problem, 60, 11);
    clean_problem_points(&problem, 5, 12);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) check_all(&all[i]);
    clean_problem_free(&problem);
}

/* The list of wrapped functions is only complete if the code calls no others. */
static void test_what_was_called(void **state)
{
    (void)state;
    static const char *const host[] = {"aligned_alloc", "fftwf_plan_dft_r2c_1d", "fftw_plan_dft_c2r_1d",
                                       "fftwf_plan_dft_c2r_1d", "fftw_plan_dft_r2c_1d"};
    static const char *const device[] = {"aligned_alloc",       "cudaMalloc",
                                         "cudaMemcpyAsync",     "cudaMemcpy2DAsync",
                                         "cudaMemsetAsync",     "cufftPlanMany",
                                         "cufftExecR2C",        "cufftExecC2R",
                                         "cufftExecD2Z",        "cufftExecZ2D",
                                         "cudaLaunchKernel",    "cudaLaunchCooperativeKernel",
                                         "cudaLaunchKernelExC", "cudaDeviceGetAttribute",
                                         "cudaFuncSetAttribute"};
    const int on_gpu = clean_backend == MSI_BACKEND_CUDA;
    for (size_t i = 0; i < (on_gpu ? sizeof device / sizeof *device : sizeof host / sizeof *host); i++) {
        const char *function = on_gpu ? device[i] : host[i];
        if (!failure_seen(function)) fail_msg("%s was never called", function);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_failure), cmocka_unit_test(test_what_was_called)};
    if (!clean_begin(argc, argv)) return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
