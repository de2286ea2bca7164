/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows of cleaning. list-..: iterations on a list of pixels. hogbom-..: exact iterations on images. rounds-..: a call
 * of multiscale cleaning. Iterations are reported as visibilities, and multiply-adds on pixels as additions. The notes
 * have the iterations per second, or the time of a round. The sky has islands of bright pixels. The point spread
 * function is a positive definite gaussian core with waves. At some pixels, the result is compared with the sky minus
 * the components, in double precision.
 */
#include "kernels/bench/bench.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_engine.h"
#include "kernels/cleaner.h"

enum { MAX_ROWS = 64, NAME_BYTES = 64, ISLAND = 5, N_CHECKED = 64, ITERATIONS = MSI_CLEAN_CHUNK };

typedef struct detail {
    msi_backend backend;
    const char *method;
    int64_t n_pixel, n_list, patch; /* edge of the image; bright pixels of the sky; edge of the PSF's patch, 0: all */
    int n_channel, n_term, n_iteration;
} detail;

typedef struct bench_state {
    const detail *d;
    msi_clean_engine *engine; /* for rows of lists */
    const msi_clean_engine_ops *ops;
    msi_cleaner *cleaner; /* for other rows */
    msi_planes *psf, *residual, *model;
    float *sky;   /* [n_channel][n_pixel][n_pixel], on the host */
    float *plane; /* [n_pixel][n_pixel], on the host: the PSF, then the residual */
    msi_clean_component *component;
    float *value;
    msi_clean_report report;
} bench_state;

/* Return the point spread function at an offset: a gaussian core, and waves with a wide gaussian envelope. */
static double psf_at(int64_t dx, int64_t dy)
{
    const double x = (double)dx, y = (double)dy, r2 = x * x + y * y;
    return 0.9 * exp(-r2 / 8) + 0.1 * exp(-r2 / 7200) * cos(0.23 * x) * cos(0.17 * y);
}

static int64_t plane_pixels(const bench_state *s)
{
    return s->d->n_pixel * s->d->n_pixel;
}

static float psf_pixel(const bench_state *s, int64_t i)
{
    return (float)psf_at(i % s->d->n_pixel - s->d->n_pixel / 2, i / s->d->n_pixel - s->d->n_pixel / 2);
}

/* Make islands of bright pixels with different values. Channels differ by a few percent. */
static void make_sky(bench_state *s)
{
    const int64_t n = s->d->n_pixel, n_island = s->d->n_list / (ISLAND * ISLAND) + 1, inner = n * 3 / 4;
    uint64_t seed = 1974;
    for (int64_t k = 0, n_left = s->d->n_list; k < 4 * n_island && n_left > 0; k++) {
        const int64_t x0 = n / 8 + (int64_t)(msi_bench_uniform(seed++) * (double)(inner - ISLAND));
        const int64_t y0 = n / 8 + (int64_t)(msi_bench_uniform(seed++) * (double)(inner - ISLAND));
        for (int64_t j = 0; j < ISLAND * ISLAND && n_left > 0; j++) {
            float *pixel = s->sky + (y0 + j / ISLAND) * n + x0 + j % ISLAND;
            n_left -= *pixel == 0;
            for (int c = 0; c < s->d->n_channel; c++)
                pixel[c * n * n] = (float)(0.5 + 0.5 * msi_bench_uniform(seed++) + 0.02 * c);
        }
    }
}

static int make_planes(bench_state *s)
{
    const int64_t n = plane_pixels(s);
    const msi_planes_shape shape = {s->d->n_pixel, s->d->n_pixel, s->d->n_channel, MSI_FP32, s->d->backend, 0};
    MSI_TRY(msi_alloc(&s->sky, n * s->d->n_channel, sizeof *s->sky, "the sky"));
    MSI_TRY(msi_alloc(&s->plane, n, sizeof *s->plane, "a plane"));
    MSI_TRY(msi_alloc(&s->component, ITERATIONS, sizeof *s->component, "components"));
    MSI_TRY(msi_alloc(&s->value, (int64_t)ITERATIONS * s->d->n_channel, sizeof *s->value, "components"));
    MSI_TRY(msi_planes_create(&s->psf, &shape));
    MSI_TRY(msi_planes_create(&s->residual, &shape));
    MSI_TRY(msi_planes_create(&s->model, &shape));
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) s->plane[i] = psf_pixel(s, i);
    for (int c = 0; c < s->d->n_channel; c++) MSI_TRY(msi_planes_upload(s->psf, c, 1, s->plane));
    make_sky(s);
    return MSI_OK;
}

static int make_engine(bench_state *s)
{
    const msi_clean_method *row;
    int n;
    row = msi_clean_methods(&n);
    for (int i = 0; i < n; i++)
        if (row[i].backend == s->d->backend) s->ops = row[i].engine;
    if (!s->ops) return msi_error_set(MSI_EGPU, "this program was built without CUDA");
    msi_clean_setup setup = {.nx = s->d->n_pixel,
                             .ny = s->d->n_pixel,
                             .precision = MSI_FP32,
                             .join = {.n_channel = s->d->n_channel, .n_pol = 1},
                             .list_limit = 2 * s->d->n_list};
    static double fit[MSI_CLEAN_CHANNELS * MSI_CLEAN_CHANNELS];
    for (int i = 0; i < s->d->n_channel; i++) setup.share[i] = 1.0 / s->d->n_channel;
    for (int i = 0; i < s->d->n_channel * s->d->n_channel; i++) fit[i] = 1.0 / s->d->n_channel;
    setup.fit = s->d->n_term ? fit : NULL;
    return s->ops->create(&s->engine, &setup);
}

static int make_cleaner(bench_state *s)
{
    static const double scale[] = {0, 8, 16, 32, 64, 128};
    const msi_cleaner_spec spec = {.nx = s->d->n_pixel,
                                   .ny = s->d->n_pixel,
                                   .n_channel = s->d->n_channel,
                                   .backend = s->d->backend,
                                   .method = s->d->method,
                                   .psf_patch = s->d->patch,
                                   .scale = scale,
                                   .n_scale = sizeof scale / sizeof *scale,
                                   .beam_pixel = 4};
    MSI_TRY(msi_cleaner_create(&s->cleaner, &spec));
    return msi_cleaner_psf(s->cleaner, s->psf);
}

static int is_list(const detail *d)
{
    return strcmp(d->method, "list") == 0;
}

static int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    bench_state *s;
    *out = NULL;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "a benchmark"));
    *out = s;
    s->d = row->detail;
    (void)options;
    work->n_vis = s->d->n_iteration;
    MSI_TRY(make_planes(s));
    return is_list(s->d) ? make_engine(s) : make_cleaner(s);
}

/* Make the list of the sky's pixels, and iterate. Only the iterations are timed. */
static int run_list(bench_state *s, double *seconds)
{
    const void *image = msi_planes_pixel(s->residual, 0);
    const msi_clean_search search = {image, NULL};
    const msi_clean_range range = {1e-3, 2};
    const msi_clean_loop loop = {
        .psf = msi_planes_pixel(s->psf, 0), .gain = 0.1, .diverged = 1e30, .n_iteration = s->d->n_iteration};
    msi_clean_looped done;
    int64_t n;
    MSI_TRY(s->ops->select(s->engine, &search, &range, 0, &n));
    MSI_TRY(s->ops->load(s->engine, image, plane_pixels(s), NULL));
    MSI_TRY(s->ops->wait(s->engine));
    const double from = omp_get_wtime();
    MSI_TRY(s->ops->list_loop(s->engine, &loop, &done));
    *seconds = omp_get_wtime() - from;
    s->report.n_iteration = done.n_iteration;
    s->report.list_largest = n;
    for (int64_t i = 0; i < done.n_iteration; i++)
        s->component[i] =
            (msi_clean_component){(int32_t)msi_clean_x(done.place[i]), (int32_t)msi_clean_y(done.place[i]), 0};
    memcpy(s->value, done.value, (size_t)(done.n_iteration * s->d->n_channel) * sizeof *s->value);
    return MSI_OK;
}

static int run_cleaner(bench_state *s, double *seconds)
{
    const msi_clean_limits limits = {.n_iteration = s->d->n_iteration,
                                     .component = s->component,
                                     .value = s->value,
                                     .component_capacity = ITERATIONS};
    const double from = omp_get_wtime();
    MSI_TRY(msi_cleaner_minor(s->cleaner, s->residual, s->model, &limits, &s->report));
    *seconds = omp_get_wtime() - from;
    return MSI_OK;
}

static int run_clean_row(void *in, msi_bench_work *work, msi_bench_time *time)
{
    bench_state *s = in;
    double seconds = 0;
    MSI_TRY(msi_planes_upload(s->residual, 0, s->d->n_channel, s->sky));
    MSI_TRY(is_list(s->d) ? run_list(s, &seconds) : run_cleaner(s, &seconds));
    const double n = (double)s->report.n_iteration;
    time->kernel_ms = 1e3 * seconds;
    work->n_vis = s->report.n_iteration;
    if (is_list(s->d)) {
        work->n_addition = n * (double)(s->report.list_largest * s->d->n_channel);
        snprintf(work->note, sizeof work->note, "%.0f thousand iterations a second, %lld pixels, %d channels",
                 1e-3 * n / seconds, (long long)s->report.list_largest, s->d->n_channel);
    } else if (s->d->patch) {
        work->n_addition = n * (double)(s->d->patch * s->d->patch);
        snprintf(work->note, sizeof work->note, "%.0f thousand iterations a second", 1e-3 * n / seconds);
    } else if (s->report.n_round) {
        snprintf(work->note, sizeof work->note, "%lld rounds, %.2f ms and %lld iterations each",
                 (long long)s->report.n_round, 1e3 * seconds / (double)s->report.n_round,
                 (long long)(s->report.n_iteration / s->report.n_round));
    }
    return MSI_OK;
}

/* Compute a pixel's residual, as a mean over channels, from the sky and the components, in double precision. The fit
 * over channels is their mean. Lists use the whole PSF. */
static double residual_at(const bench_state *s, int64_t x, int64_t y)
{
    const int64_t n = s->d->n_pixel, half = s->d->patch / 2;
    double sum = 0;
    for (int c = 0; c < s->d->n_channel; c++) sum += s->sky[(c * n + y) * n + x] / (float)s->d->n_channel;
    for (int64_t i = 0; i < s->report.n_iteration; i++) {
        const int64_t dx = x - s->component[i].x, dy = y - s->component[i].y;
        if (s->d->patch && (dx < -half || dx >= half || dy < -half || dy >= half)) continue;
        sum -= (double)s->value[i * s->d->n_channel] * psf_at(dx, dy);
    }
    return sum;
}

/* For lists, check that the last component is the gain times the residual of the others at its pixel. For images, check
 * the final residual. Multiscale cleaning is checked by tests. */
static int verify(void *in, double *error)
{
    bench_state *s = in;
    const int64_t n = s->d->n_pixel;
    double difference_squares = 0, expected_squares = 0;
    *error = 0;
    if (!is_list(s->d) && !s->d->patch) return MSI_OK;
    if (!is_list(s->d)) MSI_TRY(msi_planes_fetch(s->residual, 0, 1, s->plane));
    const int64_t n_iteration = s->report.n_iteration;
    for (int64_t k = 0; k < N_CHECKED; k++) {
        const int64_t at = n_iteration - 1 - k * (n_iteration / N_CHECKED);
        const int64_t x = s->component[at].x, y = s->component[at].y;
        double value, expected;
        if (is_list(s->d)) {
            s->report.n_iteration = at;
            value = s->value[at * s->d->n_channel];
            expected = 0.1 * residual_at(s, x, y);
        } else {
            value = s->plane[y * n + x];
            expected = residual_at(s, x, y);
        }
        difference_squares += (value - expected) * (value - expected);
        expected_squares += expected * expected;
    }
    s->report.n_iteration = n_iteration;
    *error = sqrt(difference_squares / expected_squares);
    return MSI_OK;
}

static void free_state(void *in)
{
    bench_state *s = in;
    if (!s) return;
    if (s->ops) s->ops->free(s->engine);
    msi_cleaner_free(s->cleaner);
    msi_planes_free(s->psf);
    msi_planes_free(s->residual);
    msi_planes_free(s->model);
    msi_free(s->sky);
    msi_free(s->plane);
    msi_free(s->component);
    msi_free(s->value);
    msi_free(s);
}

typedef struct row_list {
    msi_bench_row row[MAX_ROWS];
    detail details[MAX_ROWS];
    char name[MAX_ROWS][NAME_BYTES];
    int n;
} row_list;

static void add_row(row_list *l, const char *name, const detail *d)
{
    const int i = l->n++, cuda = d->backend == MSI_BACKEND_CUDA;
    snprintf(l->name[i], NAME_BYTES, "clean%s/%s", cuda ? "" : "-cpu", name);
    l->details[i] = *d;
    /* The tolerance is for residuals in single precision: the sky minus some thousand components, each with an error of
     * 6e-8 of the sky. The sum of these errors is compared with the residual, which is smaller than the sky. */
    l->row[i] = (msi_bench_row){.name = l->name[i],
                                .workload = cuda ? "clean: minor cycles of deconvolution"
                                                 : "clean-cpu: minor cycles of deconvolution",
                                .method = "clean",
                                .strategy = d->method,
                                .direction = "clean",
                                .backend = cuda ? "cuda" : "cpu",
                                .precision = "fp32",
                                .tolerance = 1e-3,
                                .detail = &l->details[i],
                                .set_up = set_up,
                                .run = run_clean_row,
                                .verify = verify,
                                .free_state = free_state,
                                .no_energy = 1};
}

static void add_lists(row_list *l, msi_backend backend, int64_t most, int n_iteration)
{
    static const int64_t pixels[] = {1024, 8192, 32768, 131072};
    char name[32];
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels && pixels[i] <= most; i++) {
        snprintf(name, sizeof name, "list-%lldk", (long long)(pixels[i] >> 10));
        add_row(l, name, &(detail){backend, "list", 4096, pixels[i], 0, 1, 0, n_iteration});
    }
    /* The PSF of this image fits in a GPU's cache. */
    add_row(l, "list-8k-of-1024", &(detail){backend, "list", 1024, 8192, 0, 1, 0, n_iteration});
    add_row(l, "list-32k-4chan-of-1024", &(detail){backend, "list", 1024, 32768, 0, 4, 0, n_iteration});
    add_row(l, "list-16k-8chan", &(detail){backend, "list", 4096, 16384, 0, 8, 2, n_iteration});
}

msi_bench_table msi_clean_rows(void)
{
    static row_list l;
    if (l.n == 0) {
        add_lists(&l, MSI_BACKEND_CPU, 32768, 500);
#ifdef MSI_HAVE_CUDA
        add_lists(&l, MSI_BACKEND_CUDA, 131072, ITERATIONS);
        for (int64_t n = 4096; n <= 16384; n *= 4) {
            char name[32];
            for (int64_t patch = 64; patch <= 512; patch *= 8) {
                snprintf(name, sizeof name, "hogbom-%lld-%lld", (long long)n, (long long)patch);
                add_row(&l, name, &(detail){MSI_BACKEND_CUDA, "hogbom", n, 20000, patch, 1, 0, ITERATIONS});
            }
        }
        add_row(&l, "rounds-4096", &(detail){MSI_BACKEND_CUDA, "multiscale", 4096, 500, 0, 1, 0, ITERATIONS});
        add_row(&l, "rounds-4096-8chan", &(detail){MSI_BACKEND_CUDA, "multiscale", 4096, 500, 0, 8, 0, ITERATIONS});
#endif
    }
    return (msi_bench_table){l.row, l.n};
}
