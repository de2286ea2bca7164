/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The library's functions compared with the sums that define its conventions: test_library cpu|cuda. */
#include <complex.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "msimage/cleaner.h"
#include "msimage/gridder.h"

enum { N_ROW = 60, N_CHAN = 3, N_X = 36, N_Y = 48, N_PIXEL = N_X * N_Y };

static const double TWO_PI = 6.283185307179586476925, LIGHT_M_S = 299792458.0;

static msimage_backend backend;

/* A caller's samples, some of which do not count. */
typedef struct observation {
    double uvw_m[N_ROW][3], freq_hz[N_CHAN], weight[N_ROW][N_CHAN];
    double complex vis[N_ROW][N_CHAN];
    uint8_t mask[N_ROW][N_CHAN];
    msimage_samples samples;
} observation;

/* Each thread has its own sequence; otherwise two threads that observe at once would get other samples than one. */
static _Thread_local unsigned seed;

static double draw(void)
{
    return 2.0 * rand_r(&seed) / RAND_MAX - 1;
}

/* Fill an observation whose samples extend to `reach` times the edge of the uv plane. */
static void observe(observation *o, double cell_rad, double reach)
{
    seed = 7;
    for (int c = 0; c < N_CHAN; c++) o->freq_hz[c] = 1.4e9 - 1e8 * c;
    for (int row = 0; row < N_ROW; row++) {
        for (int i = 0; i < 3; i++) o->uvw_m[row][i] = draw() * reach * 0.5 / cell_rad * LIGHT_M_S / o->freq_hz[0];
        for (int c = 0; c < N_CHAN; c++) {
            o->vis[row][c] = draw() + I * draw();
            o->weight[row][c] = 0.5 + fabs(draw());
            o->mask[row][c] = rand_r(&seed) % 5 != 0;
        }
    }
    o->vis[3][1] = NAN;
    o->weight[4][2] = NAN;
    o->weight[5][0] = 0;
    o->samples = (msimage_samples){
        N_ROW, N_CHAN, o->uvw_m[0], o->freq_hz, (const double *)o->vis, o->weight, (const uint8_t *)o->mask};
}

static int counts(const observation *o, int row, int c)
{
    return o->mask[row][c] && o->weight[row][c] != 0 && !isnan(o->weight[row][c]) && !isnan(creal(o->vis[row][c]));
}

static msimage_gridder_spec spec_of(msimage_task task, msimage_convention convention, double cell_rad, double accuracy)
{
    return (msimage_gridder_spec){.struct_bytes = sizeof(msimage_gridder_spec),
                                  .task = task,
                                  .convention = convention,
                                  .precision = MSIMAGE_FP64,
                                  .nx = N_X,
                                  .ny = N_Y,
                                  .cell_x_rad = cell_rad,
                                  .cell_y_rad = 1.2 * cell_rad,
                                  .accuracy = accuracy,
                                  .backend = backend,
                                  .strategy = "planes"};
}

/* Compute the direction of a pixel, and exp(+2 pi i phase) of a sample there: the kernel of the image, by
 * definition. */
static double complex kernel(const msimage_gridder_spec *s, const observation *o, int row, int c, int i, int j,
                             double *n)
{
    const double x = s->center_x_rad + (i - s->nx / 2) * s->cell_x_rad * (s->convention == MSIMAGE_XY ? 1 : -1);
    const double y = s->center_y_rad + (j - s->ny / 2) * s->cell_y_rad, sign = s->convention == MSIMAGE_XY ? 1 : -1;
    *n = sqrt(1 - x * x - y * y);
    const double w = s->ignores_w ? 0 : o->uvw_m[row][2] * (*n - 1);
    const double metres = sign * (o->uvw_m[row][0] * x + o->uvw_m[row][1] * y) - w;
    const double turns = metres * o->freq_hz[c] / LIGHT_M_S;
    return cexp(TWO_PI * I * (turns - rint(turns)));
}

static int place(const msimage_gridder_spec *s, int i, int j)
{
    return s->convention == MSIMAGE_XY ? i * N_Y + j : j * N_X + i;
}

static void direct_image(const msimage_gridder_spec *s, const observation *o, double *image)
{
    double sum_weight = 0;
    for (int row = 0; row < N_ROW; row++)
        for (int c = 0; c < N_CHAN; c++) sum_weight += counts(o, row, c) ? (double)(float)o->weight[row][c] : 0;
    for (int i = 0; i < N_X; i++)
        for (int j = 0; j < N_Y; j++) {
            double sum = 0, n = 1;
            for (int row = 0; row < N_ROW; row++)
                for (int c = 0; c < N_CHAN; c++)
                    if (counts(o, row, c))
                        sum += o->weight[row][c] * creal(o->vis[row][c] * kernel(s, o, row, c, i, j, &n));
            if (s->divides_by_n && !s->ignores_w) sum /= n;
            image[place(s, i, j)] = s->convention == MSIMAGE_XY ? sum : sum / sum_weight;
        }
}

static double distance(const double *a, const double *truth, int64_t n)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        error += (a[i] - truth[i]) * (a[i] - truth[i]);
        norm += truth[i] * truth[i];
    }
    return sqrt(error / norm);
}

static msimage_gridder *gridder(const msimage_gridder_spec *spec, const observation *o)
{
    msimage_gridder *g;
    if (msimage_gridder_create(&g, spec, NULL)) fail_msg("%s", msimage_error());
    if (o && msimage_gridder_add(g, &o->samples)) fail_msg("%s", msimage_error());
    return g;
}

static void image_by(const msimage_gridder_spec *spec, const observation *o, double *image)
{
    msimage_gridder *g = gridder(spec, o);
    if (msimage_gridder_image(g, image)) fail_msg("%s", msimage_error());
    msimage_gridder_free(g);
}

static void predict_by(const msimage_gridder_spec *spec, const observation *o, const double *model, double complex *vis)
{
    msimage_gridder *g = gridder(spec, o);
    if (msimage_gridder_predict(g, model) || msimage_gridder_fetch(g, &o->samples, vis))
        fail_msg("%s", msimage_error());
    msimage_gridder_free(g);
}

/* Image with both conventions, with w and without, divided by n, off centre, beyond the uv plane. */
static void test_images(void **state)
{
    (void)state;
    static observation o;
    static double image[N_PIXEL], truth[N_PIXEL];
    for (int variant = 0; variant < 16; variant++) {
        const double cell_rad = 4e-3, accuracy = variant % 3 ? 1e-9 : 1e-4;
        const msimage_convention convention = variant & 1 ? MSIMAGE_XY : MSIMAGE_SKY;
        observe(&o, cell_rad, convention == MSIMAGE_XY ? 2.7 : 0.8);
        for (msimage_task task = MSIMAGE_IMAGE; task <= MSIMAGE_RESIDUAL; task++) {
            msimage_gridder_spec spec = spec_of(task, convention, cell_rad, accuracy);
            spec.ignores_w = variant >> 1 & 1;
            spec.divides_by_n = variant >> 2 & 1;
            spec.center_x_rad = variant & 8 ? 0.05 : 0;
            spec.center_y_rad = variant & 8 ? -0.11 : 0;
            direct_image(&spec, &o, truth);
            image_by(&spec, &o, image);
            const double error = distance(image, truth, N_PIXEL);
            /* Stored weights are rounded to floats. */
            const double bound = accuracy + (task == MSIMAGE_RESIDUAL || convention == MSIMAGE_SKY ? 1e-7 : 0);
            if (!(error <= bound)) fail_msg("variant %d task %d: error %g of %g", variant, (int)task, error, bound);
        }
    }
}

/* Weights times a factor have full precision if they are not stored, and are errors with a clear line if they are. */
static void check_weights_kept_and_not(double factor, const char *words)
{
    static observation o;
    static double image[N_PIXEL], truth[N_PIXEL];
    const double cell_rad = 1e-3;
    observe(&o, cell_rad, 0.9);
    for (int row = 0; row < N_ROW; row++) o.weight[row][0] *= factor;
    msimage_gridder_spec spec = spec_of(MSIMAGE_IMAGE, MSIMAGE_XY, cell_rad, 1e-12);
    direct_image(&spec, &o, truth);
    image_by(&spec, &o, image);
    assert_true(distance(image, truth, N_PIXEL) <= 1e-12);
    spec.task = MSIMAGE_RESIDUAL;
    msimage_gridder *g = gridder(&spec, NULL);
    assert_int_equal(msimage_gridder_add(g, &o.samples), MSIMAGE_ERANGE);
    assert_non_null(strstr(msimage_error(), words));
    msimage_gridder_free(g);
}

static void test_signed_weights(void **state)
{
    (void)state;
    check_weights_kept_and_not(-1, "negative");
}

/* They are not treated as 0. */
static void test_large_weights(void **state)
{
    (void)state;
    check_weights_kept_and_not(1e39, "beyond single precision");
}

/* <A x, y> = <x, A* y> to rounding, at any accuracy: images and predictions have the same plan. */
static void test_adjoint(void **state)
{
    (void)state;
    static observation o;
    static double image[N_PIXEL], model[N_PIXEL];
    static double complex vis[N_ROW][N_CHAN];
    for (int variant = 0; variant < 8; variant++) {
        const double cell_rad = 4e-3;
        observe(&o, cell_rad, 2);
        o.vis[3][1] = 1; /* unknown to a prediction */
        msimage_gridder_spec spec = spec_of(MSIMAGE_IMAGE, MSIMAGE_XY, cell_rad, variant & 1 ? 1e-3 : 1e-10);
        spec.ignores_w = variant >> 1 & 1;
        spec.divides_by_n = 1;
        spec.center_x_rad = variant & 4 ? 0.1 : 0;
        for (int i = 0; i < N_PIXEL; i++) model[i] = draw();
        image_by(&spec, &o, image);
        spec.task = MSIMAGE_PREDICT;
        predict_by(&spec, &o, model, vis[0]);
        double of_images = 0, of_vis = 0, norm = 0, norm_vis = 0;
        for (int i = 0; i < N_PIXEL; i++) of_images += image[i] * model[i];
        for (int row = 0; row < N_ROW; row++)
            for (int c = 0; c < N_CHAN; c++) {
                if (!counts(&o, row, c)) {
                    assert_true(vis[row][c] == 0);
                    continue;
                }
                /* Predictions are multiplied by the weight. */
                of_vis += creal(conj(vis[row][c]) * o.vis[row][c]);
                norm += pow(cabs(o.vis[row][c]), 2);
                norm_vis += pow(cabs(vis[row][c]), 2);
            }
        const double error = fabs(of_images - of_vis) / sqrt(norm * norm_vis);
        if (!(error <= 2e-13)) fail_msg("variant %d: %g", variant, error);
    }
}

/* The residual is the image of data less predictions, the normal operator the image of predictions. */
static void test_residual_and_hessian(void **state)
{
    (void)state;
    static observation o, left;
    static double model[N_PIXEL], made[N_PIXEL], truth[N_PIXEL];
    static double complex vis[N_ROW][N_CHAN];
    const double cell_rad = 4e-3;
    for (msimage_convention convention = MSIMAGE_SKY; convention <= MSIMAGE_XY; convention++) {
        observe(&o, cell_rad, convention == MSIMAGE_XY ? 1.9 : 0.8);
        for (int row = 0; row < N_ROW; row++)
            for (int c = 0; c < N_CHAN; c++) o.weight[row][c] = (double)(float)o.weight[row][c];
        o.vis[3][1] = 1;
        for (int i = 0; i < N_PIXEL; i++) model[i] = 1e-3 * draw();
        const msimage_gridder_spec spec = spec_of(MSIMAGE_RESIDUAL, convention, cell_rad, 1e-11),
                                   predicting = spec_of(MSIMAGE_PREDICT, convention, cell_rad, 1e-11);
        msimage_gridder *g = gridder(&spec, &o);

        observation unweighted = o;
        unweighted.samples.weight = NULL;
        unweighted.samples.mask = NULL;
        predict_by(&predicting, &unweighted, model, vis[0]);
        left = o;
        left.samples.vis = (const double *)left.vis;
        for (int row = 0; row < N_ROW; row++)
            for (int c = 0; c < N_CHAN; c++) left.vis[row][c] = o.vis[row][c] - vis[row][c];
        direct_image(&spec, &left, truth);
        if (msimage_gridder_residual(g, model, made)) fail_msg("%s", msimage_error());
        assert_true(distance(made, truth, N_PIXEL) <= 2e-11);

        memcpy(left.vis, vis, sizeof vis);
        direct_image(&spec, &left, truth);
        for (int again = 0; again < 2; again++) {
            memcpy(made, model, sizeof made);
            if (msimage_gridder_hessian(g, made, made)) fail_msg("%s", msimage_error());
            const double error = distance(made, truth, N_PIXEL);
            if (!(error <= 3e-11)) fail_msg("hessian: %g", error);
        }
        model[7] = NAN;
        assert_int_equal(msimage_gridder_residual(g, model, made), MSIMAGE_ERANGE);
        msimage_gridder_free(g);
    }
}

/* Predict from one gridder, model after model, in blocks. */
static void test_predictions_again(void **state)
{
    (void)state;
    static observation o;
    static double model[N_PIXEL];
    static double complex vis[N_ROW][N_CHAN], first[N_ROW][N_CHAN];
    const double cell_rad = 2e-3;
    observe(&o, cell_rad, 0.8);
    const msimage_gridder_spec spec = spec_of(MSIMAGE_PREDICT, MSIMAGE_SKY, cell_rad, 1e-8);
    msimage_gridder *g = gridder(&spec, &o);
    assert_int_equal(msimage_gridder_fetch(g, &o.samples, vis), MSIMAGE_EARGUMENT);
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < N_PIXEL; i++) model[i] = k == 1 ? 0 : cos(i);
        assert_int_equal(msimage_gridder_predict(g, model), 0);
        assert_int_equal(msimage_gridder_fetch(g, &o.samples, k ? vis[0] : first[0]), 0);
        if (k == 2) assert_memory_equal(vis, first, sizeof vis);
    }
    model[5] = INFINITY;
    assert_int_equal(msimage_gridder_predict(g, model), 0);
    assert_int_equal(msimage_gridder_fetch(g, &o.samples, vis), 0);
    for (int row = 0; row < N_ROW; row++)
        for (int c = 0; c < N_CHAN; c++)
            assert_true(isnan(creal(vis[row][c])) ==
                        (o.mask[row][c] && o.weight[row][c] != 0 && !isnan(o.weight[row][c])));
    msimage_gridder_free(g);
}

/* Count the calls of the interrupt callback; return 1 after `stop` calls. */
typedef struct ear {
    int n_line, n_step, n_question, stop;
    double last;
} ear;

static void record_line(void *of, int level, const char *line)
{
    (void)level;
    (void)line;
    ((ear *)of)->n_line++;
}

static void record_step(void *of, const char *stage, double fraction)
{
    ear *e = of;
    assert_non_null(stage);
    e->n_step++;
    e->last = fraction;
}

static int ask(void *of)
{
    ear *e = of;
    return ++e->n_question >= e->stop && e->stop;
}

static void test_callbacks(void **state)
{
    (void)state;
    static observation o;
    static double image[N_PIXEL];
    observe(&o, 1e-3, 0.9);
    ear e = {0};
    const msimage_callbacks callbacks = {record_line, record_step, ask, &e};
    const msimage_gridder_spec spec = spec_of(MSIMAGE_RESIDUAL, MSIMAGE_SKY, 1e-3, 1e-5);
    msimage_gridder *g;
    assert_int_equal(msimage_gridder_create(&g, &spec, &callbacks), 0);
    assert_int_equal(msimage_gridder_add(g, &o.samples), 0);
    assert_int_equal(msimage_gridder_image(g, image), 0);
    assert_true(e.n_question > 0 && e.n_step > 2 && e.last == 1);
    /* An interrupt ends a call, and leaves the gridder unchanged. */
    e.stop = 1;
    assert_int_equal(msimage_gridder_image(g, image), MSIMAGE_EINTERRUPTED);
    assert_string_equal(msimage_error(), "stopped by the caller");
    e.stop = 0;
    assert_int_equal(msimage_gridder_image(g, image), 0);
    msimage_gridder_free(g);
}

/* The largest number of interrupt callbacks in a call that began then. */
static int most_questions(const struct timespec *begin)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1 + (int)(50 * ((double)(now.tv_sec - begin->tv_sec) + 1e-9 * (double)(now.tv_nsec - begin->tv_nsec)));
}

/* Calls that do everything at once give the same as the steps, with any task in the specification, and ask once for an
 * interrupt. */
static void test_once(void **state)
{
    (void)state;
    static observation o;
    static double image[N_PIXEL], at_once[N_PIXEL], model[N_PIXEL];
    static double complex vis[2][N_ROW * N_CHAN], vis_at_once[2][N_ROW * N_CHAN];
    observe(&o, 1e-3, 0.9);
    for (int i = 0; i < N_PIXEL; i++) model[i] = cos(i);
    const msimage_samples blocks[2] = {o.samples, o.samples};
    void *const to[2] = {vis_at_once[0], vis_at_once[1]};
    msimage_gridder_spec spec = spec_of(MSIMAGE_IMAGE, MSIMAGE_XY, 1e-3, 1e-5);
    msimage_gridder *g = gridder(&spec, &o);
    assert_int_equal(msimage_gridder_add(g, &o.samples), 0);
    assert_int_equal(msimage_gridder_image(g, image), 0);
    msimage_gridder_free(g);
    spec.task = MSIMAGE_PREDICT;
    g = gridder(&spec, &o);
    assert_int_equal(msimage_gridder_add(g, &o.samples), 0);
    assert_int_equal(msimage_gridder_predict(g, model), 0);
    for (int k = 0; k < 2; k++) assert_int_equal(msimage_gridder_fetch(g, &o.samples, vis[k]), 0);
    msimage_gridder_free(g);

    ear e = {0};
    struct timespec begin;
    const msimage_callbacks callbacks = {.interrupt = ask, .of = &e};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_int_equal(msimage_gridder_image_once(&spec, &callbacks, blocks, 2, at_once), 0);
    assert_true(e.n_question >= 1 && e.n_question <= most_questions(&begin));
    for (int i = 0; i < N_PIXEL; i++) assert_true(fabs(image[i] - at_once[i]) <= 1e-12 * (fabs(image[i]) + 1));
    e.n_question = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    spec.task = MSIMAGE_RESIDUAL;
    assert_int_equal(msimage_gridder_predict_once(&spec, &callbacks, blocks, 2, model, to), 0);
    assert_true(e.n_question >= 1 && e.n_question <= most_questions(&begin));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N_ROW * N_CHAN; i++)
            assert_true(cabs(vis[k][i] - vis_at_once[k][i]) <= 1e-12 * (cabs(vis[k][i]) + 1));

    e.stop = 1;
    assert_int_equal(msimage_gridder_image_once(&spec, &callbacks, blocks, 2, at_once), MSIMAGE_EINTERRUPTED);
    assert_int_equal(msimage_gridder_predict_once(&spec, &callbacks, blocks, 2, model, to), MSIMAGE_EINTERRUPTED);
    /* Afterwards the interval of interrupt callbacks is as before. */
    assert_int_equal(msimage_gridder_create(&g, &spec, &callbacks), MSIMAGE_EINTERRUPTED);
    spec.cell_x_rad = -1;
    assert_int_equal(msimage_gridder_image_once(&spec, NULL, blocks, 2, at_once), MSIMAGE_ERANGE);
    spec.struct_bytes = 1 << 20;
    assert_int_equal(msimage_gridder_predict_once(&spec, NULL, blocks, 2, model, to), MSIMAGE_EARGUMENT);
}

/* Try invalid specifications and calls. */
static void test_refusals(void **state)
{
    (void)state;
    static observation o;
    static double image[N_PIXEL];
    observe(&o, 1e-3, 0.9);
    msimage_gridder *g;
    msimage_gridder_spec spec = spec_of(MSIMAGE_IMAGE, MSIMAGE_XY, 1e-3, 1e-5);
#define REFUSED(change, code)                                                                                          \
    do {                                                                                                               \
        msimage_gridder_spec s = spec;                                                                                 \
        s.change;                                                                                                      \
        assert_int_equal(msimage_gridder_create(&g, &s, NULL), code);                                                  \
        assert_null(g);                                                                                                \
    } while (0)
    REFUSED(struct_bytes = 0, MSIMAGE_EARGUMENT);
    REFUSED(struct_bytes = sizeof spec + 8, MSIMAGE_EARGUMENT);
    REFUSED(nx = 35, MSIMAGE_ERANGE);
    REFUSED(ny = 0, MSIMAGE_ERANGE);
    REFUSED(cell_x_rad = NAN, MSIMAGE_ERANGE);
    REFUSED(cell_y_rad = -1, MSIMAGE_ERANGE);
    REFUSED(center_x_rad = INFINITY, MSIMAGE_ERANGE);
    REFUSED(accuracy = 0, MSIMAGE_ERANGE);
    REFUSED(n_plane = -1, MSIMAGE_ERANGE);
    REFUSED(store_bytes = 1, MSIMAGE_EARGUMENT);
    REFUSED(task = (msimage_task)7, MSIMAGE_EARGUMENT);
    REFUSED(strategy = "nonesuch", MSIMAGE_ERANGE);
    /* OpenMP would end the process. */
    REFUSED(n_thread = 1000000, MSIMAGE_ERANGE);
    REFUSED(n_thread = -1, MSIMAGE_ERANGE);
    /* An older program's specification is shorter. */
    spec.struct_bytes = offsetof(msimage_gridder_spec, stream);
    assert_int_equal(msimage_gridder_create(&g, &spec, NULL), 0);
    const msimage_weighting uniform = {.mode = MSIMAGE_UNIFORM};
    double sum;
    assert_int_equal(msimage_gridder_weight(g, &uniform), MSIMAGE_EARGUMENT);
    assert_int_equal(msimage_gridder_sum_weight(g, &sum, NULL), MSIMAGE_EARGUMENT);
    assert_int_equal(msimage_gridder_residual(g, NULL, image), MSIMAGE_EARGUMENT);
    assert_int_equal(msimage_gridder_predict(g, image), MSIMAGE_EARGUMENT);
    assert_int_equal(msimage_gridder_psf(g, image), MSIMAGE_EARGUMENT);
    /* These functions are for GPUs, and do nothing without one. */
    msimage_gpu_memory_release();
    msimage_gpu_memory_keep(0);
    msimage_gpu_memory_keep(-1);
    o.freq_hz[1] = 0;
    assert_int_equal(msimage_gridder_add(g, &o.samples), MSIMAGE_ERANGE);
    /* Without samples there is an image without flux. */
    assert_int_equal(msimage_gridder_image(g, image), 0);
    for (int i = 0; i < N_PIXEL; i++) assert_true(image[i] == 0);
    msimage_gridder_free(g);
}

/* Uniform weights make the mean weight by density the same everywhere: all cells of one sample have 1. */
static void test_weights(void **state)
{
    (void)state;
    static observation o;
    static double image[N_PIXEL];
    double sum[2];
    int64_t n;
    observe(&o, 1e-3, 0.8);
    const msimage_gridder_spec spec = spec_of(MSIMAGE_RESIDUAL, MSIMAGE_SKY, 1e-3, 1e-5);
    msimage_gridder *g = gridder(&spec, &o);
    const msimage_weighting uniform = {.mode = MSIMAGE_UNIFORM};
    assert_int_equal(msimage_gridder_sum_weight(g, &sum[0], &n), 0);
    int expected = 0;
    for (int row = 0; row < N_ROW; row++)
        for (int c = 0; c < N_CHAN; c++) expected += counts(&o, row, c);
    assert_int_equal(n, expected);
    /* A call that fails leaves the weights unchanged. */
    const msimage_weighting wrong[] = {{.mode = (msimage_weighting_mode)3},
                                       {.mode = MSIMAGE_BRIGGS, .robust = NAN},
                                       {.mode = MSIMAGE_BRIGGS, .robust = 2.5},
                                       {.taper_fwhm_rad = -1},
                                       {.taper_fwhm_rad = NAN},
                                       {.mode = MSIMAGE_UNIFORM, .super_weight = INFINITY}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(msimage_gridder_weight(g, &wrong[i]), i ? MSIMAGE_ERANGE : MSIMAGE_EARGUMENT);
    assert_int_equal(msimage_gridder_weight(g, &uniform), 0);
    assert_int_equal(msimage_gridder_weight(g, &uniform), MSIMAGE_EARGUMENT);
    assert_int_equal(msimage_gridder_sum_weight(g, &sum[1], &n), 0);
    /* There are fewer samples than cells: nearly every sample has its own cell, and no weight is above 1. */
    assert_true(sum[1] <= n && sum[1] >= 0.8 * n);
    assert_int_equal(msimage_gridder_psf(g, image), 0);
    assert_true(fabs(image[N_Y / 2 * N_X + N_X / 2] - 1) <= 1e-5);
    msimage_gridder_free(g);
}

static double rise(double x, double n)
{
    return x <= 0 ? 0 : x >= n ? 1 : 0.5 * (1 + cos(TWO_PI / 2 * (x - n) / n));
}

/* Sums of weights with tapers, by their definitions. */
static void test_tapers(void **state)
{
    (void)state;
    static observation o;
    observe(&o, 1e-3, 0.8);
    const msimage_gridder_spec spec = spec_of(MSIMAGE_RESIDUAL, MSIMAGE_SKY, 1e-3, 1e-5);
    const double edge_u = 0.5 / spec.cell_x_rad, edge_v = 0.5 / spec.cell_y_rad, pa = 0.6;
    const msimage_weighting rules[] = {
        {.taper_fwhm_rad = 4e-3, .taper_minor_rad = 1e-3, .taper_pa_rad = pa},
        {.inner_lambda = 50, .inner_tukey_lambda = 100, .outer_lambda = 350, .outer_tukey_lambda = 150},
        {.edge_lambda = 60, .edge_tukey_lambda = 120}};
    for (int k = 0; k < 3; k++) {
        const msimage_weighting *r = &rules[k];
        double want = 0, got;
        for (int row = 0; row < N_ROW; row++)
            for (int c = 0; c < N_CHAN; c++) {
                const double u = o.uvw_m[row][0] * o.freq_hz[c] / LIGHT_M_S,
                             v = o.uvw_m[row][1] * o.freq_hz[c] / LIGHT_M_S;
                const double along = u * sin(pa) + v * cos(pa), across = u * cos(pa) - v * sin(pa);
                const double major = r->taper_fwhm_rad * along, minor = r->taper_minor_rad * across, uv = hypot(u, v);
                double factor = exp(-TWO_PI * TWO_PI / (16 * log(2)) * (major * major + minor * minor));
                if (k == 1) factor = rise(uv - 50, 100) * rise(350 - uv, 150);
                if (k == 2) factor = rise(edge_u - 60 - fabs(u), 120) * rise(edge_v - 60 - fabs(v), 120);
                if (counts(&o, row, c)) want += o.weight[row][c] * factor;
            }
        msimage_gridder *g = gridder(&spec, &o);
        assert_int_equal(msimage_gridder_weight(g, r), 0);
        assert_int_equal(msimage_gridder_sum_weight(g, &got, NULL), 0);
        /* Weights are stored in fp32. */
        if (!(want > 0) || fabs(got / want - 1) > 1e-6) fail_msg("rule %d: %.9g, not %.9g", k, got, want);
        msimage_gridder_free(g);
    }
    const msimage_weighting wrong[] = {{.taper_minor_rad = 1},
                                       {.outer_tukey_lambda = 1},
                                       {.inner_lambda = NAN},
                                       {.edge_lambda = -1},
                                       {.taper_pa_rad = INFINITY}};
    msimage_gridder *g = gridder(&spec, &o);
    for (int k = 0; k < 5; k++) assert_int_equal(msimage_gridder_weight(g, &wrong[k]), MSIMAGE_ERANGE);
    msimage_gridder_free(g);
}

static void *work(void *of)
{
    observation *o = malloc(sizeof *o);
    observe(o, 1e-3, 0.9);
    const msimage_gridder_spec spec = spec_of(MSIMAGE_IMAGE, MSIMAGE_XY, 1e-3, 1e-6);
    msimage_gridder *g;
    for (int i = 0; i < 5; i++) {
        if (msimage_gridder_create(&g, &spec, NULL) || msimage_gridder_add(g, &o->samples) ||
            msimage_gridder_image(g, of))
            ((double *)of)[0] = NAN;
        msimage_gridder_free(g);
    }
    free(o);
    return NULL;
}

/* Two gridders in two threads give the same as one, and the caller's number of OpenMP threads is unchanged. */
static void test_threads(void **state)
{
    (void)state;
    static double image[3][N_PIXEL];
    pthread_t thread[2];
    omp_set_num_threads(3);
    work(image[2]);
    assert_int_equal(omp_get_max_threads(), 3);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, image[i]), 0);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    /* The order of sums on a GPU varies. */
    const double most = backend == MSIMAGE_CUDA ? 1e-13 : 1e-14;
    for (int i = 0; i < 2; i++) assert_true(distance(image[i], image[2], N_PIXEL) <= most);
}

/* A single source is cleaned to its flux. */
/* Fork after a call of several threads: parent and child make the image that was made before. */
static void test_fork(void **state)
{
    (void)state;
    if (backend == MSIMAGE_CUDA) skip();
    static observation o;
    static double image[N_PIXEL], again[N_PIXEL];
    observe(&o, 1e-3, 0.9);
    msimage_gridder_spec spec = spec_of(MSIMAGE_IMAGE, MSIMAGE_XY, 1e-3, 1e-6);
    spec.n_thread = 3;
    image_by(&spec, &o, image);
    msimage_threads_release();
    const pid_t child = fork();
    /* A child that waits for threads that it does not have is killed. */
    if (!child) alarm(300);
    image_by(&spec, &o, again);
    const int is_same = distance(again, image, N_PIXEL) <= 1e-12;
    if (!child) _exit(is_same ? 0 : 1);
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    assert_true(is_same);
}

static void test_cleaner(void **state)
{
    (void)state;
    enum { N = 64 };
    static float psf[N][N], residual[N][N], model[N][N];
    const msimage_cleaner_spec spec = {
        .struct_bytes = sizeof spec, .nx = N, .ny = N, .precision = MSIMAGE_FP32, .backend = backend};
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            psf[y][x] = expf(-0.1f * (float)((y - N / 2) * (y - N / 2) + (x - N / 2) * (x - N / 2)));
            residual[y][x] = 2 * expf(-0.1f * (float)((y - 20) * (y - 20) + (x - 40) * (x - 40)));
        }
    msimage_cleaner *c;
    msimage_clean_report report;
    const msimage_clean_limits limits = {.threshold = 1e-3, .n_iteration = 1000};
    assert_int_equal(msimage_cleaner_create(&c, &spec, NULL), 0);
    assert_int_equal(msimage_cleaner_minor(c, residual, model, &limits, &report), MSIMAGE_EARGUMENT);
    assert_int_equal(msimage_cleaner_psf(c, psf), 0);
    assert_int_equal(msimage_cleaner_minor(c, residual, model, &limits, &report), 0);
    assert_int_equal(report.stop, MSIMAGE_STOP_THRESHOLD);
    assert_true(fabs((double)model[20][40] - 2) <= 2e-3 && fabs(report.flux - 2) <= 2e-3);
    msimage_cleaner_free(c);
    msimage_cleaner_spec bad = spec;
    bad.method = "nonesuch";
    assert_int_equal(msimage_cleaner_create(&c, &bad, NULL), MSIMAGE_EARGUMENT);
    bad = spec;
    bad.n_thread = 1000000;
    assert_int_equal(msimage_cleaner_create(&c, &bad, NULL), MSIMAGE_ERANGE);
    assert_null(c);
}

/* Several devices, or one named twice, give the same model as one. */
static void test_cleaner_devices(void **state)
{
    enum { N = 64 };
    (void)state;
    static float psf[2 * N * N], residual[2 * N * N], model[2][2 * N * N];
    const int devices[2] = {0, 0};
    msimage_cleaner_spec spec = {.struct_bytes = sizeof spec,
                                 .nx = N,
                                 .ny = N,
                                 .n_channel = 2,
                                 .precision = MSIMAGE_FP32,
                                 .backend = backend,
                                 .devices = devices};
    const msimage_clean_limits limits = {.threshold = 1e-3, .n_iteration = 1000};
    msimage_cleaner *c;
    for (int i = 0; i < 2 * N * N; i++) {
        const float x = (float)(i % N), y = (float)(i / N % N);
        psf[i] = expf(-0.1f * ((y - N / 2) * (y - N / 2) + (x - N / 2) * (x - N / 2)));
    }
    for (spec.n_device = 0; spec.n_device < 4; spec.n_device += 2) {
        for (int i = 0; i < 2 * N * N; i++) {
            const float k = (float)(i / (N * N)), x = (float)(i % N), y = (float)(i / N % N);
            residual[i] = (2 - k) * expf(-0.1f * ((y - 20) * (y - 20) + (x - 40) * (x - 40)));
        }
        assert_int_equal(msimage_cleaner_create(&c, &spec, NULL), 0);
        assert_int_equal(msimage_cleaner_psf(c, psf), 0);
        assert_int_equal(msimage_cleaner_minor(c, residual, model[spec.n_device / 2], &limits, NULL), 0);
        msimage_cleaner_free(c);
    }
    assert_true(model[0][N * N + 20 * N + 40] > 0.9F);
    assert_memory_equal(model[0], model[1], sizeof model[0]);
    spec.n_device = 17;
    assert_int_equal(msimage_cleaner_create(&c, &spec, NULL), MSIMAGE_EARGUMENT);
    spec.n_device = 2;
    spec.devices = NULL;
    assert_int_equal(msimage_cleaner_create(&c, &spec, NULL), MSIMAGE_EARGUMENT);
}

/* Clean a wide source near an edge in one iteration, and return the position of the model's middle: 0 if the
 * specification is an error. */
static double wide_source_at(msimage_cleaner_spec spec)
{
    enum { N = 64, X = 8 };
    static double psf[N][N], residual[N][N], model[N][N];
    const msimage_clean_limits limits = {.threshold = 1e-3, .n_iteration = 1};
    memset(model, 0, sizeof model);
    memset(psf, 0, sizeof psf);
    psf[N / 2][N / 2] = 1;
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) residual[y][x] = exp(-0.05 * ((y - N / 2) * (y - N / 2) + (x - X) * (x - X)));
    msimage_cleaner *c;
    double sum = 0, moment = 0;
    if (msimage_cleaner_create(&c, &spec, NULL)) return 0;
    assert_int_equal(msimage_cleaner_psf(c, psf), 0);
    assert_int_equal(msimage_cleaner_minor(c, residual, model, &limits, NULL), 0);
    msimage_cleaner_free(c);
    for (int i = 0; i < N * N; i++) {
        sum += model[i / N][i % N];
        moment += (i % N) * model[i / N][i % N];
    }
    return moment / sum;
}

/* By power a scale is not found within three quarters of its width and a pixel of an edge, by the beam's width within
 * half. */
static void test_cleaner_scales(void **state)
{
    (void)state;
    static const double scale[] = {0, 12};
    msimage_cleaner_spec spec = {.struct_bytes = sizeof spec,
                                 .nx = 64,
                                 .ny = 64,
                                 .precision = MSIMAGE_FP64,
                                 .backend = backend,
                                 .method = "multiscale",
                                 .scale = scale,
                                 .n_scale = 2,
                                 .beam_pixel = 1};
    const double by_beam = wide_source_at(spec);
    spec.scale_bias = 0.3; /* wide scales */
    assert_true(fabs(by_beam - 8) < 1e-6 && fabs(wide_source_at(spec) - 8) < 1e-6);
    spec.scale_rule = MSIMAGE_SCALE_BY_POWER;
    spec.scale_shape = MSIMAGE_SCALE_SPHEROIDAL;
    spec.scale_gain = 1e-6;
    assert_true(fabs(wide_source_at(spec) - 10) < 1e-6);
    spec.small_scale_bias = 1; /* the widest scale's squares count as zero */
    assert_true(fabs(wide_source_at(spec) - 8) < 1e-6);
    spec.small_scale_bias = 1.5;
    assert_true(wide_source_at(spec) == 0);
    spec.small_scale_bias = 0;
    spec.scale_shape = (msimage_scale_shape)3;
    assert_true(wide_source_at(spec) == 0);
    spec.scale_shape = MSIMAGE_SCALE_GAUSSIAN;
    spec.scale_rule = (msimage_scale_rule)2;
    assert_true(wide_source_at(spec) == 0);
    /* An older program's specification ends before the rule, whatever follows it in memory. */
    spec.struct_bytes = offsetof(msimage_cleaner_spec, scale_rule);
    assert_true(fabs(wide_source_at(spec) - 8) < 1e-6);
}

/* One pixel without sidelobes: the model is the polynomial through two frequencies, and no residual is left. */
static void test_cleaner_terms(void **state)
{
    enum { N = 32, AT = 9 * N + 20 };
    static double psf[3][N * N], residual[2][N * N], model[2][N * N];
    static const double freq_hz[] = {1e9, 1.5e9}, weight[] = {1, 3}, flux[] = {2, 1};
    const msimage_clean_limits limits = {.threshold = 1e-9, .n_iteration = 1000};
    msimage_cleaner_spec spec = {.struct_bytes = sizeof spec,
                                 .nx = N,
                                 .ny = N,
                                 .precision = MSIMAGE_FP64,
                                 .backend = backend,
                                 .n_term = 2,
                                 .reference_hz = 1.25e9,
                                 .freq_hz = freq_hz,
                                 .freq_weight = weight,
                                 .n_freq = 2};
    msimage_cleaner *c;
    (void)state;
    for (int f = 0; f < 2; f++) {
        const double x = freq_hz[f] / spec.reference_hz - 1;
        for (int k = 0; k < 3; k++) psf[k][N / 2 * N + N / 2] += weight[f] / 4 * pow(x, k);
        for (int t = 0; t < 2; t++) residual[t][AT] += weight[f] / 4 * pow(x, t) * flux[f];
    }
    assert_int_equal(msimage_cleaner_create(&c, &spec, NULL), 0);
    assert_int_equal(msimage_cleaner_psf(c, psf), 0);
    assert_int_equal(msimage_cleaner_minor(c, residual, model, &limits, NULL), 0);
    msimage_cleaner_free(c);
    assert_true(fabs(model[0][AT] - 1.5) < 1e-6 && fabs(model[1][AT] + 2.5) < 1e-5); /* 1.5 at x = 0, 2 at -0.2 */
    assert_true(fabs(residual[0][AT]) < 1e-6 && fabs(residual[1][AT]) < 1e-6);
    spec.n_term = 3;
    assert_int_equal(msimage_cleaner_create(&c, &spec, NULL), MSIMAGE_EARGUMENT);
    spec.n_term = 2;
    spec.n_channel = 2;
    assert_int_equal(msimage_cleaner_create(&c, &spec, NULL), MSIMAGE_EARGUMENT);
}

int main(int argc, char **argv)
{
    backend = argc > 1 && strcmp(argv[1], "cuda") == 0 ? MSIMAGE_CUDA : MSIMAGE_CPU;
    if (backend == MSIMAGE_CUDA && msimage_gpu_count() == 0) {
        printf("no GPU found\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_signed_weights),
        cmocka_unit_test(test_large_weights),
        cmocka_unit_test(test_adjoint),
        cmocka_unit_test(test_residual_and_hessian),
        cmocka_unit_test(test_predictions_again),
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_once),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_tapers),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_cleaner),
        cmocka_unit_test(test_cleaner_devices),
        cmocka_unit_test(test_cleaner_scales),
        cmocka_unit_test(test_cleaner_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
