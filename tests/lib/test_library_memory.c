/* SPDX-License-Identifier: GPL-3.0-or-later */
/* GPU memory kept by the library between calls: little at first, the amount set, or none. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "kernels/gpu/gpu_pool.h"
#include "msimage/gridder.h"

enum { N_X = 4096, MIB = 1 << 20 };

static void must(int status)
{
    if (status) fail_msg("%d: %s", status, msimage_error());
}

static const double FREQ_HZ = 1e9, LIGHT_M_S = 299792458.0, CELL_RAD = 1e-5, PI = 3.14159265358979324;
static const double UVW_M[3] = {31, -17, 0};

/* Make a gridder of one sample, whose image is a wave. */
static msimage_gridder *gridder(msimage_task task)
{
    static const double vis[2] = {1, 0};
    const msimage_gridder_spec spec = {.struct_bytes = sizeof spec,
                                       .task = task,
                                       .convention = MSIMAGE_XY,
                                       .precision = MSIMAGE_FP64,
                                       .nx = N_X,
                                       .ny = N_X,
                                       .cell_x_rad = CELL_RAD,
                                       .cell_y_rad = CELL_RAD,
                                       .accuracy = 1e-6,
                                       .backend = MSIMAGE_CUDA,
                                       .n_thread = 1};
    const msimage_samples samples = {.n_row = 1, .n_chan = 1, .uvw_m = UVW_M, .freq_hz = &FREQ_HZ, .vis = vis};
    msimage_gridder *g;
    must(msimage_gridder_create(&g, &spec, NULL));
    must(msimage_gridder_add(g, &samples));
    return g;
}

/* Make an image for which the GPU needs several hundred megabytes, and check it. */
static void make_image(msimage_gridder *g, double *image)
{
    must(msimage_gridder_image(g, image));
    double worst = 0;
    for (int64_t i = 0; i < (int64_t)N_X * N_X; i++) {
        const double x = (double)(i / N_X - N_X / 2) * CELL_RAD, y = (double)(i % N_X - N_X / 2) * CELL_RAD;
        const double wave = cos(2 * PI * FREQ_HZ / LIGHT_M_S * (UVW_M[0] * x + UVW_M[1] * y));
        worst = fmax(worst, fabs(image[i] - wave));
    }
    assert_true(worst < 1e-5);
}

static void make_once(double *image)
{
    msimage_gridder *g = gridder(MSIMAGE_IMAGE);
    make_image(g, image);
    msimage_gridder_free(g);
}

static void test_kept(void **state)
{
    (void)state;
    double *image = malloc(sizeof *image * N_X * N_X);
    assert_non_null(image);
    size_t free_bytes, total_bytes;
    make_once(image);
    assert_int_equal(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
    assert_true(msi_gpu_pool_idle(0) <= total_bytes / 16);
    msimage_gpu_memory_release();
    assert_int_equal(msi_gpu_pool_idle(0), 0);
    msimage_gpu_memory_keep((int64_t)1 << 40);
    make_once(image);
    const size_t all = msi_gpu_pool_idle(0);
    assert_true(all > 512 * MIB);
    msimage_gpu_memory_keep(256 * MIB);
    assert_true(msi_gpu_pool_idle(0) <= 256 * MIB);
    make_once(image);
    assert_true(msi_gpu_pool_idle(0) <= 256 * MIB);
    msimage_gpu_memory_keep(0);
    make_once(image);
    assert_int_equal(msi_gpu_pool_idle(0), 0);
    msimage_gpu_memory_keep(-1);
    make_once(image);
    assert_true(msi_gpu_pool_idle(0) <= total_bytes / 16);
    free(image);
}

/* A gridder's own memory is not affected when other memory is freed. */
static void test_owned(void **state)
{
    (void)state;
    double *image = malloc(sizeof *image * N_X * N_X);
    assert_non_null(image);
    msimage_gridder *g = gridder(MSIMAGE_RESIDUAL);
    make_image(g, image);
    msimage_gpu_memory_release();
    make_image(g, image);
    msimage_gridder_free(g);
    free(image);
}

int main(void)
{
    if (msimage_gpu_count() == 0) {
        printf("no GPU found\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept), cmocka_unit_test(test_owned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
