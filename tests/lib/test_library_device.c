/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The library with arrays in GPU memory: results equal those of arrays in host memory, the arrays are not copied to the
 * host, the caller's stream and current device are respected, and a lack of memory is reported. */
#include <complex.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "msimage/cleaner.h"
#include "msimage/gridder.h"

enum { N_ROW = 700, N_CHAN = 3, N_X = 64, N_Y = 48, N_PIXEL = N_X * N_Y, N_SAMPLE = N_ROW * N_CHAN };

static const double LIGHT_M_S = 299792458.0, CELL_RAD = 2e-3;

/* The element types of an array, for samples and for images, in either precision. */
typedef struct arrays {
    double uvw_m[N_ROW][3], freq_hz[N_CHAN];
    double vis[2 * N_SAMPLE], weight[N_SAMPLE], model[N_PIXEL];
    uint8_t mask[N_SAMPLE];
} arrays;

static double draw(void)
{
    return 2.0 * rand() / RAND_MAX - 1;
}

/* Fill arrays whose samples extend to `reach` times the edge of the uv plane; some do not count. */
static void observe(arrays *a, double reach)
{
    srand(11);
    for (int c = 0; c < N_CHAN; c++) a->freq_hz[c] = 1.4e9 - 1e8 * c;
    for (int row = 0; row < N_ROW; row++)
        for (int i = 0; i < 3; i++) a->uvw_m[row][i] = draw() * reach * 0.5 / CELL_RAD * LIGHT_M_S / a->freq_hz[0];
    for (int i = 0; i < 2 * N_SAMPLE; i++) a->vis[i] = (double)(float)draw();
    for (int i = 0; i < N_SAMPLE; i++) a->weight[i] = (double)(float)(0.5 + fabs(draw()));
    for (int i = 0; i < N_SAMPLE; i++) a->mask[i] = rand() % 5 != 0;
    for (int i = 0; i < N_PIXEL; i++) a->model[i] = (double)(float)(1e-3 * draw());
    a->vis[30] = NAN;
    a->weight[44] = 0;
    a->weight[45] = NAN;
    a->uvw_m[9][1] = INFINITY;
}

/* The memory in which an array is placed. */
typedef enum place { HOST, REGISTERED, DEVICE, MANAGED } place;

static void *put(place where, const void *from, size_t bytes)
{
    void *p = NULL;
    if (where == HOST) p = malloc(bytes);
    if (where == REGISTERED) assert_int_equal(cudaMallocHost(&p, bytes), cudaSuccess);
    if (where == DEVICE) assert_int_equal(cudaMalloc(&p, bytes), cudaSuccess);
    if (where == MANAGED) assert_int_equal(cudaMallocManaged(&p, bytes, cudaMemAttachGlobal), cudaSuccess);
    assert_non_null(p);
    assert_int_equal(cudaMemcpy(p, from, bytes, cudaMemcpyDefault), cudaSuccess);
    return p;
}

static void take_away(place where, const void *p)
{
    if (where == HOST) free((void *)p);
    if (where == REGISTERED) assert_int_equal(cudaFreeHost((void *)p), cudaSuccess);
    if (where == DEVICE || where == MANAGED) assert_int_equal(cudaFree((void *)p), cudaSuccess);
}

/* Copy numbers as floats or doubles to some memory. */
static void *put_reals(place where, const double *from, int n, msimage_precision precision)
{
    float *single = malloc((size_t)n * sizeof *single);
    for (int i = 0; i < n; i++) single[i] = (float)from[i];
    void *p = precision == MSIMAGE_FP32 ? put(where, single, (size_t)n * sizeof *single)
                                        : put(where, from, (size_t)n * sizeof *from);
    free(single);
    return p;
}

static void get_reals(const void *from, int n, msimage_precision precision, double *to)
{
    float *single = malloc((size_t)n * sizeof *single);
    assert_int_equal(cudaMemcpy(precision == MSIMAGE_FP32 ? (void *)single : to, from,
                                (size_t)n * (precision == MSIMAGE_FP32 ? sizeof *single : sizeof *to),
                                cudaMemcpyDefault),
                     cudaSuccess);
    for (int i = 0; i < n && precision == MSIMAGE_FP32; i++) to[i] = (double)single[i];
    free(single);
}

static double distance(const double *a, const double *truth, int n)
{
    double error = 0, norm = 0;
    for (int i = 0; i < n; i++) {
        if (isnan(truth[i]) && isnan(a[i])) continue;
        error += pow(a[i] - truth[i], 2);
        norm += pow(truth[i], 2);
    }
    return sqrt(error / norm);
}

/* All results for some samples. */
typedef struct results {
    double image[N_PIXEL], residual[N_PIXEL], hessian[N_PIXEL], psf[N_PIXEL], vis[2 * N_SAMPLE];
} results;

static void must(int status)
{
    if (status) fail_msg("%d: %s", status, msimage_error());
}

/* A variant of a run: the specification without its task, and the memory of the arrays. */
typedef struct way {
    msimage_gridder_spec spec;
    place coordinates, data, out;
} way;

static msimage_gridder *gridder(const way *w, msimage_task task, const msimage_samples *samples)
{
    msimage_gridder *g;
    msimage_gridder_spec spec = w->spec;
    spec.task = task;
    must(msimage_gridder_create(&g, &spec, NULL));
    must(msimage_gridder_add(g, samples));
    return g;
}

static void make_images(const way *w, const msimage_samples *samples, const void *model, results *r)
{
    const msimage_precision precision = w->spec.precision;
    void *out = put_reals(w->out, r->image, N_PIXEL, precision);
    msimage_gridder *g = gridder(w, MSIMAGE_IMAGE, samples);
    must(msimage_gridder_image(g, out));
    get_reals(out, N_PIXEL, precision, r->image);
    msimage_gridder_free(g);
    g = gridder(w, MSIMAGE_RESIDUAL, samples);
    must(msimage_gridder_residual(g, model, out));
    get_reals(out, N_PIXEL, precision, r->residual);
    must(msimage_gridder_psf(g, out));
    get_reals(out, N_PIXEL, precision, r->psf);
    /* The product may overwrite the model. */
    void *both = put(w->out, model, N_PIXEL * (precision == MSIMAGE_FP32 ? sizeof(float) : sizeof(double)));
    must(msimage_gridder_hessian(g, both, both));
    get_reals(both, N_PIXEL, precision, r->hessian);
    take_away(w->out, both);
    take_away(w->out, out);
    msimage_gridder_free(g);
}

static void make_all(const way *w, const arrays *a, results *r)
{
    const msimage_precision precision = w->spec.precision;
    const msimage_samples samples = {.n_row = N_ROW,
                                     .n_chan = N_CHAN,
                                     .uvw_m = put(w->coordinates, a->uvw_m, sizeof a->uvw_m),
                                     .freq_hz = put(w->coordinates, a->freq_hz, sizeof a->freq_hz),
                                     .vis = put_reals(w->data, a->vis, 2 * N_SAMPLE, precision),
                                     .weight = put_reals(w->data, a->weight, N_SAMPLE, precision),
                                     .mask = put(w->data, a->mask, sizeof a->mask)};
    void *model = put_reals(w->data, a->model, N_PIXEL, precision),
         *vis = put_reals(w->out, a->vis, 2 * N_SAMPLE, precision);
    memset(r, 0, sizeof *r);
    make_images(w, &samples, model, r);
    msimage_gridder *g = gridder(w, MSIMAGE_PREDICT, &samples);
    must(msimage_gridder_predict(g, model));
    must(msimage_gridder_fetch(g, &samples, vis));
    get_reals(vis, 2 * N_SAMPLE, precision, r->vis);
    msimage_gridder_free(g);
    const void *const data[] = {samples.vis, samples.weight, samples.mask, model};
    for (int i = 0; i < 4; i++) take_away(w->data, data[i]);
    take_away(w->coordinates, samples.uvw_m);
    take_away(w->coordinates, samples.freq_hz);
    take_away(w->out, vis);
}

static void compare(const results *a, const results *truth, double most, const char *what)
{
    const double errors[] = {distance(a->image, truth->image, N_PIXEL), distance(a->residual, truth->residual, N_PIXEL),
                             distance(a->hessian, truth->hessian, N_PIXEL), distance(a->psf, truth->psf, N_PIXEL),
                             distance(a->vis, truth->vis, 2 * N_SAMPLE)};
    for (int i = 0; i < 5; i++)
        if (!(errors[i] <= most)) fail_msg("%s: result %d is off by %g of %g", what, i, errors[i], most);
}

static way way_of(msimage_convention convention, msimage_precision precision, msimage_backend backend)
{
    const double accuracy = precision == MSIMAGE_FP32 ? 1e-5 : 1e-10;
    return (way){.spec = {.struct_bytes = sizeof(msimage_gridder_spec),
                          .convention = convention,
                          .precision = precision,
                          .nx = convention == MSIMAGE_XY ? N_Y : N_X,
                          .ny = convention == MSIMAGE_XY ? N_X : N_Y,
                          .cell_x_rad = CELL_RAD,
                          .cell_y_rad = CELL_RAD,
                          .accuracy = accuracy,
                          .strategy = "planes",
                          .backend = backend,
                          .n_thread = 2}};
}

/* In any memory, arrays give the results of the CPU. */
static void test_places(void **state)
{
    (void)state;
    static arrays a;
    static results truth, r;
    static const place places[][3] = {{HOST, HOST, HOST},         {DEVICE, DEVICE, DEVICE},
                                      {REGISTERED, DEVICE, HOST}, {HOST, DEVICE, REGISTERED},
                                      {DEVICE, HOST, DEVICE},     {MANAGED, MANAGED, MANAGED}};
    for (int k = 0; k < 16; k++) {
        const msimage_convention convention = k % 2 ? MSIMAGE_XY : MSIMAGE_SKY;
        const msimage_precision precision = k / 2 % 2 ? MSIMAGE_FP32 : MSIMAGE_FP64;
        way w = way_of(convention, precision, MSIMAGE_CPU);
        w.spec.sums_in_double = k / 4 == 1;
        w.spec.divides_by_n = k / 4 == 1;
        w.spec.ignores_w = k / 4 == 2;
        /* In ducc0's convention pixels beyond the horizon have values. */
        w.spec.center_x_rad = k / 4 == 1 ? 0.05 : k / 4 == 3 && convention == MSIMAGE_XY ? 0.99 : 0;
        w.spec.center_y_rad = k / 4 == 1 ? -0.08 : 0;
        /* Samples beyond the uv plane are processed on the host. */
        observe(&a, k / 4 == 2 && convention == MSIMAGE_XY ? 1.7 : 0.9);
        make_all(&w, &a, &truth);
        w.spec.backend = MSIMAGE_CUDA;
        for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
            char what[80];
            snprintf(what, sizeof what, "case %d, places %zu", k, p);
            w.coordinates = places[p][0];
            w.data = places[p][1];
            w.out = places[p][2];
            make_all(&w, &a, &r);
            compare(&r, &truth, 4 * w.spec.accuracy, what);
        }
    }
}

/* Use density weights, several planes, blocks of other channels, and some in other memory: samples on the GPU are moved
 * to the host. */
static void test_ways_home(void **state)
{
    (void)state;
    static arrays a;
    static double image[2][N_PIXEL];
    observe(&a, 0.8);
    for (int mixed = 0; mixed < 3; mixed++) {
        double sum[2];
        int64_t n[2];
        for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
            way w = way_of(MSIMAGE_SKY, MSIMAGE_FP64, on_gpu ? MSIMAGE_CUDA : MSIMAGE_CPU);
            w.spec.convention = mixed == 2 ? MSIMAGE_XY : MSIMAGE_SKY;
            msimage_samples first = {N_ROW / 2, N_CHAN, a.uvw_m[0], a.freq_hz, a.vis, a.weight, a.mask}, second = first;
            second.uvw_m = a.uvw_m[N_ROW / 2];
            second.n_chan = 1;
            observe(&a, 0.8);
            /* The second block of an image of XY has samples beyond the uv plane. */
            for (int row = N_ROW / 2; row < N_ROW && mixed == 2; row++) a.uvw_m[row][0] *= 3;
            msimage_gridder *g = gridder(&w, MSIMAGE_RESIDUAL, &first);
            must(msimage_gridder_add(g, &second));
            const msimage_weighting briggs = {.mode = MSIMAGE_BRIGGS};
            if (mixed == 1) must(msimage_gridder_weight(g, &briggs));
            must(msimage_gridder_image(g, image[on_gpu]));
            must(msimage_gridder_sum_weight(g, &sum[on_gpu], &n[on_gpu]));
            msimage_gridder_free(g);
        }
        assert_true(distance(image[1], image[0], N_PIXEL) <= 4e-10);
        assert_int_equal(n[0], n[1]);
        assert_true(fabs(sum[1] / sum[0] - 1) <= 1e-12);
    }
}

/* Blocks are fetched in the order in which they were added, after each prediction. */
static void test_fetches(void **state)
{
    (void)state;
    static arrays a;
    static double vis[2][2 * N_SAMPLE], again[2 * N_SAMPLE];
    const way w = way_of(MSIMAGE_XY, MSIMAGE_FP64, MSIMAGE_CUDA);
    observe(&a, 0.9);
    const msimage_samples all = {.n_row = N_ROW, .n_chan = N_CHAN, .uvw_m = a.uvw_m[0], .freq_hz = a.freq_hz};
    msimage_samples part[2] = {all, all};
    part[0].n_row = 200;
    part[1].n_row = N_ROW - 200;
    part[1].uvw_m = a.uvw_m[200];
    msimage_gridder *g = gridder(&w, MSIMAGE_PREDICT, &all);
    must(msimage_gridder_predict(g, a.model));
    must(msimage_gridder_fetch(g, &all, vis[0]));
    assert_int_equal(msimage_gridder_fetch(g, &all, vis[1]), MSIMAGE_EARGUMENT);
    msimage_gridder_free(g);
    g = gridder(&w, MSIMAGE_PREDICT, &part[0]);
    must(msimage_gridder_add(g, &part[1]));
    for (int k = 0; k < 2; k++) {
        must(msimage_gridder_predict(g, a.model));
        must(msimage_gridder_fetch(g, &part[0], vis[1]));
        must(msimage_gridder_fetch(g, &part[1], vis[1] + 2 * 200 * N_CHAN));
        if (k) assert_true(distance(vis[1], again, 2 * N_SAMPLE) <= 1e-13);
        memcpy(again, vis[1], sizeof again);
    }
    /* Each part has its own plan. */
    assert_true(distance(vis[1], vis[0], 2 * N_SAMPLE) <= 4e-10);
    assert_int_equal(msimage_gridder_predict(g, a.model), 0);
    assert_int_equal(msimage_gridder_fetch(g, &part[1], vis[1]), MSIMAGE_EARGUMENT);
    msimage_gridder_free(g);
}

/* Weights and masks are copied from the host once, block by block; copies of them at other addresses are equivalent. */
static void test_factors(void **state)
{
    (void)state;
    enum { N_FIRST = 200 };
    static arrays a, copy;
    static double vis[4][2 * N_SAMPLE];
    observe(&a, 0.9);
    copy = a;
    double *far = put(DEVICE, a.weight + N_FIRST * N_CHAN, (N_SAMPLE - N_FIRST * N_CHAN) * sizeof *far);
    for (int k = 0; k < 4; k++) {
        const way w = way_of(MSIMAGE_XY, MSIMAGE_FP64, k ? MSIMAGE_CUDA : MSIMAGE_CPU);
        /* The first block has weights and a mask in host memory; the second has either, except for k = 2. */
        msimage_samples part[2] = {{N_FIRST, N_CHAN, a.uvw_m[0], a.freq_hz, NULL, a.weight, a.mask},
                                   {N_ROW - N_FIRST, N_CHAN, a.uvw_m[N_FIRST], a.freq_hz, NULL,
                                    k == 2 ? far : a.weight + N_FIRST * N_CHAN, a.mask + N_FIRST * N_CHAN}};
        msimage_gridder *g = gridder(&w, MSIMAGE_PREDICT, &part[0]);
        must(msimage_gridder_add(g, &part[1]));
        if (k == 3) {
            part[0].weight = copy.weight;
            part[1].mask = copy.mask + N_FIRST * N_CHAN;
        }
        for (int again = 0; again < 2; again++) {
            must(msimage_gridder_predict(g, a.model));
            memset(vis[k], 0, sizeof vis[k]);
            must(msimage_gridder_fetch(g, &part[0], vis[k]));
            must(msimage_gridder_fetch(g, &part[1], vis[k] + 2 * N_FIRST * N_CHAN));
            assert_true(distance(vis[k], vis[0], 2 * N_SAMPLE) <= 4e-10);
        }
        msimage_gridder_free(g);
    }
    take_away(DEVICE, far);
}

/* Arrays on the GPU are not copied to host memory, which is limited to less than any of them. */
static void test_resident(void **state)
{
    (void)state;
    enum { N = 2048, ROWS = 400000 };
    const size_t pixel_bytes = (size_t)N * N * sizeof(float), vis_bytes = (size_t)ROWS * 2 * sizeof(float);
    double *uvw = malloc((size_t)ROWS * 3 * sizeof *uvw);
    float *vis = malloc(vis_bytes);
    srand(5);
    for (int i = 0; i < 3 * ROWS; i++) uvw[i] = draw() * 0.45 / 1e-4 * 0.2;
    for (int i = 0; i < 2 * ROWS; i++) vis[i] = (float)draw();
    const double freq_hz = LIGHT_M_S / 0.2;
    void *image = NULL, *const far_vis = put(DEVICE, vis, vis_bytes);
    assert_int_equal(cudaMalloc(&image, pixel_bytes), cudaSuccess);
    const msimage_samples samples = {.n_row = ROWS,
                                     .n_chan = 1,
                                     .uvw_m = put(DEVICE, uvw, (size_t)ROWS * 3 * sizeof *uvw),
                                     .freq_hz = &freq_hz,
                                     .vis = far_vis};
    way w = way_of(MSIMAGE_XY, MSIMAGE_FP32, MSIMAGE_CUDA);
    w.spec.nx = w.spec.ny = N;
    w.spec.cell_x_rad = w.spec.cell_y_rad = 1e-4;
    w.spec.accuracy = 1e-4;
    msimage_memory_limit(2 << 20);
    msimage_gridder *g = gridder(&w, MSIMAGE_IMAGE, &samples);
    must(msimage_gridder_image(g, image));
    msimage_gridder_free(g);
    g = gridder(&w, MSIMAGE_RESIDUAL, &samples);
    must(msimage_gridder_residual(g, NULL, image));
    must(msimage_gridder_hessian(g, image, image));
    msimage_gridder_free(g);
    g = gridder(&w, MSIMAGE_PREDICT, &samples);
    must(msimage_gridder_predict(g, image));
    must(msimage_gridder_fetch(g, &samples, far_vis));
    msimage_gridder_free(g);
    msimage_memory_limit(0);
    take_away(DEVICE, image);
    take_away(DEVICE, far_vis);
    take_away(DEVICE, samples.uvw_m);
    free(uvw);
    free(vis);
}

/* A gate on a stream, which opens after a call of the library has begun. */
static sem_t gate;

static void CUDART_CB wait_at_gate(void *of)
{
    (void)of;
    sem_wait(&gate);
}

static int open_gate(void *of)
{
    int *is_open = of;
    if (!*is_open) sem_post(&gate);
    *is_open = 1;
    return 0;
}

/* Work queued on the caller's stream before a call is waited for, however long it takes. */
static void test_stream(void **state)
{
    (void)state;
    static arrays a;
    static double truth[N_PIXEL], made[N_PIXEL];
    observe(&a, 0.9);
    cudaStream_t stream;
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    way w = way_of(MSIMAGE_XY, MSIMAGE_FP64, MSIMAGE_CUDA);
    w.spec.task = MSIMAGE_RESIDUAL;
    const msimage_samples samples = {N_ROW, N_CHAN, a.uvw_m[0], a.freq_hz, a.vis, a.weight, a.mask};
    double *late = put(DEVICE, a.model, sizeof a.model), *model = put(DEVICE, a.model, sizeof a.model),
           *out = put(DEVICE, a.model, sizeof a.model);
    int is_open = 1;
    msimage_gridder *g;
    const msimage_callbacks callbacks = {.interrupt = open_gate, .of = &is_open};
    w.spec.stream = stream;
    must(msimage_gridder_create(&g, &w.spec, &callbacks));
    must(msimage_gridder_add(g, &samples));
    must(msimage_gridder_hessian(g, model, out));
    get_reals(out, N_PIXEL, MSIMAGE_FP64, truth);
    assert_int_equal(cudaMemset(model, 0, sizeof a.model), cudaSuccess);
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    assert_int_equal(cudaLaunchHostFunc(stream, wait_at_gate, NULL), cudaSuccess);
    assert_int_equal(cudaMemcpyAsync(model, late, sizeof a.model, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
    is_open = 0;
    must(msimage_gridder_hessian(g, model, out));
    get_reals(out, N_PIXEL, MSIMAGE_FP64, made);
    assert_true(distance(made, truth, N_PIXEL) <= 1e-12);
    msimage_gridder_free(g);
    take_away(DEVICE, late);
    take_away(DEVICE, model);
    take_away(DEVICE, out);
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    sem_destroy(&gate);
}

/* The calling thread's current device is unchanged. */
static void test_current_device(void **state)
{
    (void)state;
    static arrays a;
    static results r;
    int n, now;
    assert_int_equal(cudaGetDeviceCount(&n), cudaSuccess);
    observe(&a, 0.9);
    way w = way_of(MSIMAGE_SKY, MSIMAGE_FP32, MSIMAGE_CUDA);
    for (int current = 0; current < n; current++) {
        assert_int_equal(cudaSetDevice(current), cudaSuccess);
        w.spec.device = n - 1 - current;
        w.data = w.out = w.coordinates = DEVICE; /* on the current one, which may be another */
        make_all(&w, &a, &r);
        assert_int_equal(cudaGetDevice(&now), cudaSuccess);
        assert_int_equal(now, current);
    }
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
}

/* Too little device memory is MSIMAGE_EGPU with a line that says so, and existing objects still work. */
static void test_memory(void **state)
{
    (void)state;
    static arrays a;
    static double image[N_PIXEL];
    observe(&a, 0.9);
    const msimage_samples samples = {N_ROW, N_CHAN, a.uvw_m[0], a.freq_hz, a.vis, a.weight, a.mask};
    way w = way_of(MSIMAGE_XY, MSIMAGE_FP64, MSIMAGE_CUDA);
    msimage_gridder *small = gridder(&w, MSIMAGE_RESIDUAL, &samples);
    must(msimage_gridder_image(small, image));
    /* More pixels than any device can hold. */
    msimage_samples coordinates = samples;
    coordinates.vis = coordinates.weight = NULL;
    w.spec.nx = w.spec.ny = 46000;
    w.spec.n_plane = 16;
    w.spec.cell_x_rad = w.spec.cell_y_rad = CELL_RAD / 1000;
    msimage_gridder *large = gridder(&w, MSIMAGE_RESIDUAL, &coordinates);
    assert_int_equal(msimage_gridder_image(large, image), MSIMAGE_EGPU);
    assert_non_null(strstr(msimage_error(), "memory"));
    msimage_gridder_free(large);
    must(msimage_gridder_image(small, image));
    msimage_gridder_free(small);
}

/* Samples and an image that are copied in several chunks. */
typedef struct large {
    int64_t n_row;
    int n;
    double *uvw_m, freq_hz[1];
    float *vis, *weight, *image;
    uint8_t *mask;
} large;

static void observe_large(large *a)
{
    uint64_t seed = 5;
    const double span_m = 0.9 * LIGHT_M_S / 1e9 / CELL_RAD;
    a->freq_hz[0] = 1e9;
    a->uvw_m = malloc((size_t)a->n_row * 3 * sizeof *a->uvw_m);
    a->vis = malloc((size_t)a->n_row * 2 * sizeof *a->vis);
    a->weight = malloc((size_t)a->n_row * sizeof *a->weight);
    a->mask = malloc((size_t)a->n_row);
    a->image = malloc((size_t)a->n * (size_t)a->n * sizeof *a->image);
    assert_true(a->uvw_m && a->vis && a->weight && a->mask && a->image);
    for (int64_t i = 0; i < 7 * a->n_row; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const double drawn = (double)(seed >> 40) / (1 << 24) - 0.5;
        const int64_t row = i / 7, k = i % 7;
        if (k < 3) a->uvw_m[3 * row + k] = drawn * (k < 2 ? span_m : 1);
        if (k == 3 || k == 4) a->vis[2 * row + k - 3] = (float)drawn;
        if (k == 5) a->weight[row] = (float)(1 + drawn);
        if (k == 6) a->mask[row] = drawn < 0.4;
    }
    for (int64_t i = 0; i < (int64_t)a->n * a->n; i++) a->image[i] = (float)(i % 1013 == 0);
}

static void make_large(const large *a, place where, float *image, float *vis)
{
    const size_t n = (size_t)a->n_row, pixels = (size_t)a->n * (size_t)a->n;
    const msimage_samples samples = {.n_row = a->n_row,
                                     .n_chan = 1,
                                     .uvw_m = put(where, a->uvw_m, n * 3 * sizeof *a->uvw_m),
                                     .freq_hz = a->freq_hz,
                                     .vis = put(where, a->vis, n * 2 * sizeof *a->vis),
                                     .weight = put(where, a->weight, n * sizeof *a->weight),
                                     .mask = put(where, a->mask, n)};
    float *made = put(where, a->image, pixels * sizeof *made), *model = put(where, a->image, pixels * sizeof *model),
          *predicted = put(where, a->vis, n * 2 * sizeof *predicted);
    way w = way_of(MSIMAGE_XY, MSIMAGE_FP32, MSIMAGE_CUDA);
    w.spec.nx = w.spec.ny = a->n;
    w.spec.accuracy = 1e-4;
    /* Sums of single precision on a GPU differ from run to run. */
    w.spec.sums_in_double = 1;
    msimage_gridder *g = gridder(&w, MSIMAGE_IMAGE, &samples);
    must(msimage_gridder_image(g, made));
    msimage_gridder_free(g);
    g = gridder(&w, MSIMAGE_PREDICT, &samples);
    must(msimage_gridder_predict(g, model));
    must(msimage_gridder_fetch(g, &samples, predicted));
    msimage_gridder_free(g);
    assert_int_equal(cudaMemcpy(image, made, pixels * sizeof *image, cudaMemcpyDefault), cudaSuccess);
    assert_int_equal(cudaMemcpy(vis, predicted, n * 2 * sizeof *vis, cudaMemcpyDefault), cudaSuccess);
    const void *const all[] = {samples.uvw_m, samples.vis, samples.weight, samples.mask, made, model, predicted};
    for (int i = 0; i < 7; i++) take_away(where, all[i]);
}

static double distance_of_floats(const float *a, const float *truth, int64_t n)
{
    double error = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        error += pow((double)a[i] - (double)truth[i], 2);
        norm += pow((double)truth[i], 2);
    }
    return sqrt(error / norm);
}

/* Arrays in host memory that need several chunks and all staging buffers give the results of arrays on the GPU; some
 * pixels lie on the horizon. */
static void test_large(void **state)
{
    (void)state;
    large a = {.n_row = 16800001, .n = 1000};
    observe_large(&a);
    const int64_t pixels = (int64_t)a.n * a.n;
    float *image[3], *vis[3];
    const place where[3] = {DEVICE, HOST, REGISTERED};
    for (int k = 0; k < 3; k++) {
        image[k] = malloc((size_t)pixels * sizeof **image);
        vis[k] = malloc((size_t)a.n_row * 2 * sizeof **vis);
        assert_true(image[k] && vis[k]);
        make_large(&a, where[k], image[k], vis[k]);
    }
    for (int k = 1; k < 3; k++) {
        for (int64_t i = 0; i < pixels; i++) assert_true(isfinite(image[k][i]));
        const double of_images = distance_of_floats(image[k], image[0], pixels),
                     of_vis = distance_of_floats(vis[k], vis[0], 2 * a.n_row);
        if (!(of_images <= 1e-6 && of_vis <= 1e-6))
            fail_msg("place %d: images %g, visibilities %g", k, of_images, of_vis);
    }
    for (int k = 0; k < 3; k++) {
        free(image[k]);
        free(vis[k]);
    }
    free(a.uvw_m);
    free(a.vis);
    free(a.weight);
    free(a.mask);
    free(a.image);
}

/* Images in GPU memory are cleaned as those in host memory. */
static void test_cleaner(void **state)
{
    (void)state;
    enum { N = 64 };
    static double psf[N][N], first[N][N], none[N][N], model[2][N][N];
    const msimage_cleaner_spec spec = {
        .struct_bytes = sizeof spec, .nx = N, .ny = N, .precision = MSIMAGE_FP64, .backend = MSIMAGE_CUDA};
    const msimage_clean_limits limits = {.threshold = 1e-3, .n_iteration = 1000};
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) {
            psf[y][x] = exp(-0.1 * ((y - N / 2) * (y - N / 2) + (x - N / 2) * (x - N / 2)));
            first[y][x] = 2 * exp(-0.1 * ((y - 20) * (y - 20) + (x - 40) * (x - 40)));
        }
    for (int k = 0; k < 2; k++) {
        const place where = k ? DEVICE : HOST;
        void *far_psf = put(where, psf, sizeof psf), *residual = put(where, first, sizeof first),
             *parts = put(where, none, sizeof none);
        msimage_cleaner *c;
        must(msimage_cleaner_create(&c, &spec, NULL));
        must(msimage_cleaner_psf(c, far_psf));
        must(msimage_cleaner_minor(c, residual, parts, &limits, NULL));
        get_reals(parts, N * N, MSIMAGE_FP64, model[k][0]);
        msimage_cleaner_free(c);
        take_away(where, far_psf);
        take_away(where, residual);
        take_away(where, parts);
    }
    assert_true(fabs(model[1][20][40] - 2) <= 2e-3);
    assert_true(distance(model[1][0], model[0][0], N * N) <= 1e-12);
}

/* A gridder's work in its own thread, repeatedly. */
typedef struct thread_work {
    way how;
    const arrays *of;
    results made;
} thread_work;

static void *work(void *of)
{
    thread_work *w = of;
    for (int k = 0; k < 3; k++) make_all(&w->how, w->of, &w->made);
    return NULL;
}

/* The CPU and a GPU are used in parallel in one process, and two threads share the GPU. */
static void test_next_to_processor(void **state)
{
    (void)state;
    static arrays a;
    static thread_work w[3];
    pthread_t thread[3];
    observe(&a, 0.9);
    for (int i = 0; i < 3; i++) {
        w[i].how = way_of(MSIMAGE_XY, MSIMAGE_FP64, i ? MSIMAGE_CUDA : MSIMAGE_CPU);
        w[i].how.data = w[i].how.out = i == 2 ? DEVICE : HOST;
        w[i].of = &a;
    }
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    compare(&w[1].made, &w[0].made, 4e-10, "compared with the CPU");
    compare(&w[2].made, &w[0].made, 4e-10, "on the GPU");
}

int main(int argc, char **argv)
{
    if (msimage_gpu_count() == 0) {
        printf("no GPU found\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_ways_home),
        cmocka_unit_test(test_fetches),
        cmocka_unit_test(test_factors),
        cmocka_unit_test(test_resident),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_current_device),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_cleaner),
        cmocka_unit_test(test_next_to_processor),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
