/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Devices and streams: the machine's devices are found, a gridder works on the device of its spec, and gridders on
 * different streams do not disturb each other. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/gpu_memory.h"
#include "kernels/gpu/gpu_pool.h"
#include "kernels/gpu/host_copy.h"
#include "kernels/gridder.h"
#include "tests/support/wgrid_cases.h"

static const msi_case narrow = {"narrow", 200, 160, 0.02, 1, 1.0, 3000, 4, 1, 1.2, CONCENTRATED};
static const msi_case wide = {"wide", 240, 200, 0.25, 1, 3.0, 2000, 2, 1, 1.3, CONCENTRATED};

static void test_devices(void **state)
{
    (void)state;
    const int n = msi_gpu_count();
    assert_true(n > 0 && msi_gpu_available());
    for (int d = 0; d < n; d++) {
        size_t free_bytes, total_bytes;
        assert_int_equal(msi_gpu_memory(d, &free_bytes, &total_bytes), MSI_OK);
        assert_true(free_bytes > 0 && free_bytes <= total_bytes);
        assert_non_null(strstr(msi_gpu_describe(d), "compute capability"));
    }
    size_t free_bytes = 1, total_bytes = 1;
    assert_int_equal(msi_gpu_memory(n, &free_bytes, &total_bytes), MSI_EGPU);
    assert_true(free_bytes == 0 && total_bytes == 0);
    assert_non_null(strstr(msi_gpu_describe(n), "no GPU"));
}

/* An error line names the device if there are several. */
static void test_errors_name_their_device(void **state)
{
    (void)state;
    const int n = msi_gpu_count();
    for (int d = 0; d < n; d++) {
        char name[32] = "GPU: ";
        msi_gpu_stream s;
        void *p = NULL;
        if (n > 1) snprintf(name, sizeof name, "GPU %d: ", d);
        assert_int_equal(msi_gpu_stream_create(&s, d), MSI_OK);
        assert_int_equal(msi_gpu_alloc(&p, &s, (int64_t)1 << 50, "a test"), MSI_EGPU);
        assert_int_equal(strncmp(msi_error_get(), name, strlen(name)), 0);
        assert_int_equal(msi_gpu_zero(&s, NULL, 64), MSI_EGPU);
        assert_int_equal(strncmp(msi_error_get(), name, strlen(name)), 0);
        msi_gpu_stream_free(&s);
    }
}

/* Freed memory is kept and counts as free, until it is allocated again or returned to the driver. */
static void test_pool(void **state)
{
    (void)state;
    const size_t bytes = (size_t)256 << 20, far_too_much = (size_t)1 << 50;
    msi_gpu_stream s;
    for (int d = msi_gpu_count() - 1; d >= 0; d--) {
        void *p = NULL;
        int has_pools = 0;
        assert_int_equal(msi_gpu_stream_create(&s, d), MSI_OK);
        assert_int_equal(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, d), cudaSuccess);
        msi_gpu_pool_trim();
        assert_int_equal(msi_gpu_pool_idle(d), 0);
        for (int again = 0; again < 2; again++) {
            assert_int_equal(msi_gpu_pool_alloc(&p, bytes), cudaSuccess);
            assert_non_null(p);
            assert_int_equal(cudaMemsetAsync(p, 1, bytes, (cudaStream_t)s.stream), cudaSuccess);
            assert_true(msi_gpu_pool_idle(d) < bytes);
            msi_gpu_pool_free(p);
            assert_true(!has_pools || msi_gpu_pool_idle(d) >= bytes);
        }
        assert_int_equal(msi_gpu_pool_alloc(&p, far_too_much), cudaErrorMemoryAllocation);
        assert_null(p);
        assert_int_equal(cudaGetLastError(), cudaSuccess);
        assert_int_equal(msi_gpu_pool_alloc(&p, bytes), cudaSuccess);
        msi_gpu_pool_free(p);
        msi_gpu_pool_trim();
        assert_int_equal(msi_gpu_pool_idle(d), 0);
        msi_gpu_stream_free(&s);
    }
    msi_gpu_pool_free(NULL);
}

/* Return kept memory beyond a size to the driver: exactly that size stays, and memory in use is not touched. */
static void test_pool_shrinks(void **state)
{
    (void)state;
    const size_t bytes = (size_t)256 << 20;
    msi_gpu_stream s;
    for (int d = msi_gpu_count() - 1; d >= 0; d--) {
        void *p = NULL, *other = NULL;
        int has_pools = 0, now = -1;
        assert_int_equal(msi_gpu_stream_create(&s, d), MSI_OK);
        assert_int_equal(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, d), cudaSuccess);
        assert_int_equal(msi_gpu_pool_alloc(&other, bytes), cudaSuccess);
        assert_int_equal(cudaMemset(other, 7, bytes), cudaSuccess);
        assert_int_equal(msi_gpu_pool_alloc(&p, bytes), cudaSuccess);
        msi_gpu_pool_free(p);
        assert_int_equal(cudaSetDevice(0), cudaSuccess);
        msi_gpu_pool_shrink(2 * bytes);
        assert_true(!has_pools || msi_gpu_pool_idle(d) >= bytes);
        msi_gpu_pool_shrink(bytes / 4);
        assert_true(msi_gpu_pool_idle(d) <= bytes / 4);
        msi_gpu_pool_shrink(0);
        assert_int_equal(msi_gpu_pool_idle(d), 0);
        assert_int_equal(cudaGetDevice(&now), cudaSuccess);
        assert_int_equal(now, 0);
        /* A part of each device's own memory, here slightly less than `bytes`. The driver keeps whole pages of it. */
        size_t free_bytes, total_bytes;
        assert_int_equal(msi_gpu_memory(d, &free_bytes, &total_bytes), MSI_OK);
        const int divisor = (int)(total_bytes / bytes) + 1;
        assert_int_equal(cudaSetDevice(d), cudaSuccess);
        assert_int_equal(msi_gpu_pool_alloc(&p, 2 * bytes), cudaSuccess);
        msi_gpu_pool_free(p);
        msi_gpu_pool_shrink_to_part(divisor / 2);
        assert_true(!has_pools || msi_gpu_pool_idle(d) >= bytes);
        msi_gpu_pool_shrink_to_part(divisor);
        assert_true(msi_gpu_pool_idle(d) <= bytes);
        msi_gpu_pool_shrink(0);
        unsigned char last = 0;
        /* Memory of a pool belongs to its own device. */
        assert_int_equal(cudaSetDevice(d), cudaSuccess);
        assert_int_equal(cudaMemcpy(&last, (char *)other + bytes - 1, 1, cudaMemcpyDeviceToHost), cudaSuccess);
        assert_int_equal(last, 7);
        msi_gpu_pool_free(other);
        msi_gpu_stream_free(&s);
    }
}

/* Pieces are copied completely wherever they begin and end, and the bytes next to them are not written. */
static void test_host_copies(void **state)
{
    (void)state;
    enum { BYTES = 400, MOST = 200 };
    static char from[BYTES], to[2][BYTES];
    for (int i = 0; i < BYTES; i++) from[i] = (char)(i * 7 + 3);
    for (int for_bus = 0; for_bus < 2; for_bus++)
        for (int begin = 0; begin < 70; begin++)
            for (int bytes = 0; bytes <= MOST; bytes += bytes < 70 ? 1 : 13) {
                memset(to, 0, sizeof to);
                const msi_host_piece piece[2] = {{to[0] + begin, from + 5, bytes}, {to[1] + 70, from + begin, bytes}};
                msi_host_copy(piece, 2, for_bus);
                for (int i = 0; i < BYTES; i++) {
                    const int first = i >= begin && i < begin + bytes, second = i >= 70 && i < 70 + bytes;
                    assert_int_equal(to[0][i], first ? from[5 + i - begin] : 0);
                    assert_int_equal(to[1][i], second ? from[begin + i - 70] : 0);
                }
            }
}

static void test_streams(void **state)
{
    (void)state;
    msi_gpu_stream s;
    for (int d = msi_gpu_count() - 1; d >= 0; d--) {
        assert_int_equal(msi_gpu_stream_create(&s, d), MSI_OK);
        assert_non_null(s.stream);
        assert_int_equal(s.device, d);
        assert_int_equal(msi_gpu_stream_enter(&s), MSI_OK);
        assert_int_equal(msi_gpu_stream_wait(&s), MSI_OK);
        msi_gpu_stream_free(&s);
        assert_null(s.stream);
        msi_gpu_stream_free(&s);
    }
    assert_int_equal(msi_gpu_stream_create(&s, msi_gpu_count()), MSI_EGPU);
    assert_null(s.stream);
    msi_gpu_stream_free(&s);
}

static msi_gridder_spec spec_of(const msi_case_data *data, const char *strategy, int device)
{
    return (msi_gridder_spec){.geometry = data->geometry,
                              .n_plane = 1,
                              .predict = 1,
                              .strategy = strategy,
                              .accuracy = 1e-6,
                              .precision = MSI_PRECISION_FP64,
                              .backend = MSI_BACKEND_CUDA,
                              .device = device};
}

static void test_device_that_is_not_there(void **state)
{
    (void)state;
    msi_case_data data;
    msi_case_make(&data, &narrow, 1);
    const int absent[] = {-1, msi_gpu_count()};
    for (int i = 0; i < 2; i++) {
        msi_gridder *g = NULL;
        msi_gridder_spec spec = spec_of(&data, NULL, absent[i]);
        assert_int_equal(msi_gridder_create(&g, &spec), MSI_EGPU);
        assert_null(g);
        assert_non_null(strstr(msi_error_get(), "no GPU"));
        spec.backend = MSI_BACKEND_CPU;
        assert_int_equal(msi_gridder_create(&g, &spec), MSI_OK);
        msi_gridder_free(g);
    }
    msi_case_free(&data);
}

/* A prediction, which is the same every time, since nothing in it is atomic. */
typedef struct prediction {
    const msi_case_data *data;
    const msi_image *model;
    msi_gridder_spec spec;
    msi_c64 *vis; /* [n_row][n_chan] */
    int rc;
} prediction;

static void *predict(void *argument)
{
    prediction *p = argument;
    const msi_vis_block *b = &p->data->block;
    msi_gridder *g = NULL;
    p->rc = msi_gridder_create(&g, &p->spec);
    if (!p->rc) p->rc = msi_gridder_model(g, p->model);
    if (!p->rc) p->rc = msi_gridder_add(g, b);
    if (!p->rc) p->rc = msi_gridder_predict(g);
    if (!p->rc) p->rc = msi_gridder_fetch(g, b->n_row, b->n_chan, b->freq_hz, p->vis);
    msi_gridder_free(g);
    return NULL;
}

/* Predictions on all devices, several at once on each, are bit by bit those of device 0 alone. */
static void check_at_once(const msi_case *field, const char *strategy)
{
    enum { EACH = 3, MOST = 8 * EACH };
    msi_case_data data;
    msi_case_pixels pixels;
    msi_image model;
    msi_case_make(&data, field, 7);
    msi_case_pixels_draw(&pixels, &data.geometry, 100, 8);
    msi_case_model(&model, &data.geometry, 1, &pixels, MSI_FP64);
    const int64_t n = field->n_row * field->n_chan;
    prediction alone = {&data, &model, spec_of(&data, strategy, 0), msi_test_alloc(n, sizeof(msi_c64)), 0}, many[MOST];
    predict(&alone);
    if (alone.rc) fail_msg("%s: %s", strategy, msi_error_get());

    pthread_t thread[MOST];
    int n_thread = msi_gpu_count() * EACH;
    if (n_thread > MOST) n_thread = MOST;
    for (int i = 0; i < n_thread; i++) {
        many[i] = alone;
        many[i].spec.device = i / EACH;
        many[i].vis = msi_test_alloc(n, sizeof(msi_c64));
        assert_int_equal(pthread_create(&thread[i], NULL, predict, &many[i]), 0);
    }
    for (int i = 0; i < n_thread; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < n_thread; i++) {
        if (many[i].rc) fail_msg("%s: gridder %d on device %d: code %d", strategy, i, i / EACH, many[i].rc);
        if (memcmp(many[i].vis, alone.vis, (size_t)n * sizeof(msi_c64)) != 0)
            fail_msg("%s: gridder %d on device %d predicts something else", strategy, i, i / EACH);
        free(many[i].vis);
    }
    free(alone.vis);
    msi_image_free(&model);
    msi_case_free(&data);
}

static void test_predictions_at_once(void **state)
{
    (void)state;
    check_at_once(&narrow, "planes");
    check_at_once(&wide, "subgrid");
}

/* The memory for grids on the host does not limit the choice of a GPU's plan: w-towers are faster, and have more lists. */
static void test_grid_bytes(void **state)
{
    const msi_case large = {
        .name = "large", .nx = 8192, .ny = 8192, .field_x_rad = 0.08, .w_ratio = 0.1, .n_row = 4000, .n_chan = 2};
    msi_case_data data;
    msi_gridder_report report[2];
    (void)state;
    msi_case_make(&data, &large, 1);
    float *pixel = msi_test_alloc(8192 * 8192, sizeof *pixel);
    double sum_weight;
    int64_t n_vis;
    for (int i = 0; i < 2; i++) {
        msi_gridder *g = NULL;
        msi_gridder_spec spec = spec_of(&data, NULL, 0);
        msi_image image = {.geometry = data.geometry,
                           .n_plane = 1,
                           .precision = MSI_FP32,
                           .pixel = pixel,
                           .sum_weight = &sum_weight,
                           .n_vis = &n_vis};
        spec.predict = 0;
        spec.accuracy = 1e-5;
        spec.precision = MSI_PRECISION_FP32;
        spec.grid_bytes = i;
        assert_int_equal(msi_gridder_create(&g, &spec), 0);
        assert_int_equal(msi_gridder_add(g, &data.block), 0);
        assert_int_equal(msi_gridder_image(g, &image), 0);
        msi_gridder_report_get(g, &report[i]);
        msi_gridder_free(g);
    }
    assert_string_equal(report[0].strategy, "subgrid");
    assert_string_equal(report[1].strategy, report[0].strategy);
    free(pixel);
    msi_case_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_devices),
                                       cmocka_unit_test(test_errors_name_their_device),
                                       cmocka_unit_test(test_pool),
                                       cmocka_unit_test(test_pool_shrinks),
                                       cmocka_unit_test(test_host_copies),
                                       cmocka_unit_test(test_streams),
                                       cmocka_unit_test(test_device_that_is_not_there),
                                       cmocka_unit_test(test_predictions_at_once),
                                       cmocka_unit_test(test_grid_bytes)};
    if (!msi_gpu_available()) {
        printf("skipped: %s\n", msi_gpu_describe(0));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
