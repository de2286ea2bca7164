/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The strategy "window" on a GPU: the way from a block of visibilities to the grid and back against the reference's
 * taps, and a gridder that measures. */
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
#include "kernels/wproj/job/wproj_simd.h"
#include "kernels/wproj/window/wproj_window_gridder_cuda.h"
#include "tests/kernels/wproj/device_numbers.h"
#include "tests/support/temp_folder.h"
#include "tests/kernels/wproj/window_numbers.h"

enum { N_SEED = 20 };

static uint64_t n_seed = N_SEED; /* 1 with the argument `brief`: under a sanitizer that takes a hundred times as long */

enum { N_BLOCK_PLANE = 2, N_W_PLANE = 9, N_ROW = 90, N_CHAN = 3 };

typedef struct block_data {
    msi_wproj_geometry geometry;
    msi_wkernel_set kernels;
    int32_t half[N_W_PLANE];
    int64_t offset_u[N_W_PLANE], offset_v[N_W_PLANE];
    double w_lambda[N_W_PLANE];
    double uvw_m[N_ROW][3], freq_hz[N_CHAN];
    float weight[N_BLOCK_PLANE * N_ROW * N_CHAN];
    msi_c64 *vis, *table;
    msi_window_block device;
    msi_precision precision;
} block_data;

static void make_block(block_data *b, uint64_t seed, msi_precision precision, int full, int linear)
{
    memset(b, 0, sizeof *b);
    b->precision = precision;
    msi_wproj_geometry *g = &b->geometry;
    *g = (msi_wproj_geometry){.nu = 160,
                              .nv = 150,
                              .u_cells_per_m_hz = -1e-9,
                              .v_cells_per_m_hz = 1.1e-9,
                              .w_lambda_per_m_hz = 1 / MSI_SPEED_OF_LIGHT,
                              .slice_step = 20,
                              .n_slice = 3,
                              .n_plane = N_W_PLANE,
                              .plane_scale = 6.4,
                              .plane_sqrt = 1,
                              .oversample = 4,
                              .linear = linear,
                              .n_mid = -0.013};
    msi_wkernel_set *k = &b->kernels;
    *k = (msi_wkernel_set){.form = full ? MSI_WKERNEL_FULL : MSI_WKERNEL_SEPARABLE,
                           .precision = precision,
                           .n_plane = N_W_PLANE,
                           .oversample = g->oversample,
                           .half = b->half,
                           .offset_u = b->offset_u,
                           .offset_v = b->offset_v,
                           .w_lambda = b->w_lambda};
    for (int p = 0; p < N_W_PLANE; p++) {
        b->half[p] = 2 + 2 * p;
        k->half_max = b->half[p];
        b->offset_u[p] = b->offset_v[p] = k->n_element;
        k->n_element += msi_wkernel_elements(full, g->oversample, b->half[p]);
    }
    b->table = random_numbers(&seed, k->n_element);
    for (int i = 0; i < N_CHAN; i++) b->freq_hz[i] = 1e8 * (1 + 0.05 * i);
    for (int r = 0; r < N_ROW; r++) {
        b->uvw_m[r][0] = 1200 * (msi_random(&seed) - 0.5);
        b->uvw_m[r][1] = 1200 * (msi_random(&seed) - 0.5);
        b->uvw_m[r][2] = 340 * (msi_random(&seed) - 0.5);
    }
    const int n = N_BLOCK_PLANE * N_ROW * N_CHAN;
    for (int i = 0; i < n; i++) b->weight[i] = random_below(&seed, 4) ? (float)msi_random(&seed) : 0;
    b->vis = random_numbers(&seed, n);
    b->device = (msi_window_block){.n_row = N_ROW, .n_chan = N_CHAN, .plane_stride = N_ROW * N_CHAN};
    b->device.freq_hz = to_device(b->freq_hz, sizeof b->freq_hz);
    b->device.uvw_m = to_device(b->uvw_m, sizeof b->uvw_m);
    b->device.weight = to_device(b->weight, sizeof b->weight);
    b->device.vis = numbers_to_device(b->vis, n, precision);
    /* The set's own table in its precision. */
    k->table = calloc((size_t)k->n_element, (size_t)msi_complex_bytes(precision));
    assert_non_null(k->table);
    for (int64_t i = 0; i < k->n_element; i++) {
        if (precision == MSI_FP64)
            ((msi_c64 *)k->table)[i] = b->table[i];
        else
            ((msi_c32 *)k->table)[i] = (msi_c32){(float)b->table[i].re, (float)b->table[i].im};
    }
}

static void free_block(block_data *b)
{
    const void *device[] = {b->device.freq_hz, b->device.uvw_m, b->device.weight, b->device.vis};
    for (int i = 0; i < 4; i++) {
        void *p;
        memcpy(&p, &device[i], sizeof p);
        cudaFree(p);
    }
    free(b->vis);
    free(b->table);
    free(b->kernels.table);
}

/* Compute exp(-2 pi i turns) */
static msi_c64 turned(double turns)
{
    return (msi_c64){cos(2 * MSI_PI * turns), -sin(2 * MSI_PI * turns)};
}

static int is_in_slice(const block_data *b, int row, int chan, int32_t slice)
{
    double w = fabs(b->uvw_m[row][2] * b->freq_hz[chan] * b->geometry.w_lambda_per_m_hz);
    return msi_wproj_slice(&b->geometry, w) == slice;
}

/* Compute plain sums over a slice's samples, for the block's planes and the PSF. */
static void grid_plainly(const block_data *b, int32_t slice, msi_c64 *grid)
{
    const int n_image = N_BLOCK_PLANE + 1;
    const msi_wproj_geometry *g = &b->geometry;
    for (int r = 0; r < N_ROW; r++)
        for (int c = 0; c < N_CHAN; c++) {
            if (!is_in_slice(b, r, c, slice)) continue;
            msi_wproj_place p;
            msi_wproj_locate_in(g, b->uvw_m[r], b->freq_hz[c], 0, slice, &p);
            int32_t half = b->half[p.plane];
            for (int m = 0; m < n_image; m++) {
                int plane = m < N_BLOCK_PLANE ? m : 0, at = (plane * N_ROW + r) * N_CHAN + c;
                msi_c64 v = m < N_BLOCK_PLANE ? b->vis[at] : (msi_c64){1, 0};
                if (p.conjugate_vis) v = conjugate(v);
                v = product((msi_c64){v.re * (double)b->weight[at], v.im * (double)b->weight[at]}, turned(p.turns));
                for (int32_t tv = -half; tv <= half; tv++)
                    for (int32_t tu = -half; tu <= half; tu++)
                        add_to(&grid[(modulo(p.v + tv, g->nv) * g->nu + modulo(p.u + tu, g->nu)) * n_image + m],
                               product(v, msi_wproj_reference_tap(g, &b->kernels, &p, tu, tv)));
            }
        }
}

static void degrid_plainly(const block_data *b, int32_t slice, const msi_c64 *grid, msi_c64 *vis)
{
    const msi_wproj_geometry *g = &b->geometry;
    for (int r = 0; r < N_ROW; r++)
        for (int c = 0; c < N_CHAN; c++) {
            if (!is_in_slice(b, r, c, slice)) continue;
            msi_wproj_place p;
            msi_wproj_locate_in(g, b->uvw_m[r], b->freq_hz[c], 1, slice, &p);
            int32_t half = b->half[p.plane];
            for (int m = 0; m < N_BLOCK_PLANE; m++) {
                msi_c64 sum = {0, 0};
                for (int32_t tv = -half; tv <= half; tv++)
                    for (int32_t tu = -half; tu <= half; tu++)
                        add_to(
                            &sum,
                            product(
                                grid[(modulo(p.v + tv, g->nv) * g->nu + modulo(p.u + tu, g->nu)) * N_BLOCK_PLANE + m],
                                conjugate(msi_wproj_reference_tap(g, &b->kernels, &p, tu, tv))));
                sum = product(sum, turned(-p.turns));
                vis[(m * N_ROW + r) * N_CHAN + c] = p.conjugate_vis ? conjugate(sum) : sum;
            }
        }
}

static int create_gridder(msi_window_gridder **out, const msi_wproj_geometry *geometry, const msi_wkernel_set *kernels,
                          int n_image, int64_t capacity, int64_t n_expected)
{
    const msi_gpu_stream gpu = {0, NULL};
    const msi_window_gridder_spec spec = {
        .geometry = geometry, .kernels = kernels, .n_image = n_image, .capacity = capacity, .n_expected = n_expected};
    return msi_window_gridder_create(out, &gpu, &spec);
}

static void check_block(uint64_t seed, msi_precision precision, int full, int linear)
{
    block_data b;
    make_block(&b, seed, precision, full, linear);
    const int n_image = N_BLOCK_PLANE + 1;
    const int32_t image_plane[] = {0, 1, -1};
    const int64_t n_cell = b.geometry.nu * b.geometry.nv, n_vis = N_BLOCK_PLANE * N_ROW * N_CHAN;
    /* Fractions between sub-offsets are float. */
    double limit = linear ? 3e-6 : tolerance(precision);
    msi_window_gridder *g;
    assert_int_equal(create_gridder(&g, &b.geometry, &b.kernels, n_image, N_ROW * N_CHAN, 0), MSI_OK);
    msi_c64 *truth = zeros(n_cell * n_image);
    msi_wproj_grid grid = {b.geometry.nu, b.geometry.nv, numbers_to_device(truth, n_cell * n_image, precision)};
    for (int32_t slice = 0; slice < b.geometry.n_slice; slice++) {
        grid_plainly(&b, slice, truth);
        assert_int_equal(msi_window_gridder_add(g, &b.device, image_plane, slice, &grid), MSI_OK);
    }
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    msi_c64 *x = numbers_to_host(grid.cells, n_cell * n_image, precision);
    assert_true(relative_error(x, truth, n_cell * n_image) < limit);
    free(x);
    free(truth);
    cudaFree(grid.cells);
    msi_window_gridder_free(g);

    assert_int_equal(create_gridder(&g, &b.geometry, &b.kernels, N_BLOCK_PLANE, N_ROW * N_CHAN, 0), MSI_OK);
    msi_c64 *cells = random_numbers(&seed, n_cell * N_BLOCK_PLANE);
    grid.cells = numbers_to_device(cells, n_cell * N_BLOCK_PLANE, precision);
    msi_window_block wanted = b.device;
    wanted.weight = NULL;
    truth = zeros(n_vis);
    for (int32_t slice = 0; slice < b.geometry.n_slice; slice++) {
        degrid_plainly(&b, slice, cells, truth);
        assert_int_equal(msi_window_gridder_predict(g, &wanted, slice, &grid), MSI_OK);
    }
    assert_int_equal(cudaDeviceSynchronize(), cudaSuccess);
    x = numbers_to_host(wanted.vis, n_vis, precision);
    assert_true(relative_error(x, truth, n_vis) < limit);
    free(x);
    free(truth);
    free(cells);
    cudaFree(grid.cells);
    msi_window_gridder_free(g);
    free_block(&b);
}

static void test_blocks_of_visibilities(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= n_seed; seed++)
        for (int precision = 0; precision < 2; precision++) {
            check_block(seed, precision ? MSI_FP64 : MSI_FP32, 0, 0);
            check_block(seed, precision ? MSI_FP64 : MSI_FP32, 0, 1);
            check_block(seed, precision ? MSI_FP64 : MSI_FP32, 1, 0);
        }
}

enum { MANY_ROW = 100000, N_MANY = MANY_ROW * N_CHAN };

/* Make many samples of one class, on the device. */
static void make_many(block_data *b, msi_window_block *many)
{
    make_block(b, 1, MSI_FP32, 0, 0);
    uint64_t seed = 2;
    double(*uvw_m)[3] = calloc(MANY_ROW, sizeof *uvw_m);
    float *weight = calloc(N_MANY, sizeof *weight);
    assert_true(uvw_m && weight);
    for (int r = 0; r < MANY_ROW; r++)
        for (int i = 0; i < 2; i++) uvw_m[r][i] = 1200 * (msi_random(&seed) - 0.5);
    for (int i = 0; i < N_MANY; i++) weight[i] = 1;
    msi_c64 *vis = random_numbers(&seed, N_MANY);
    *many =
        (msi_window_block){.n_row = MANY_ROW, .n_chan = N_CHAN, .plane_stride = N_MANY, .freq_hz = b->device.freq_hz};
    many->uvw_m = to_device(uvw_m, MANY_ROW * (int64_t)sizeof *uvw_m);
    many->weight = to_device(weight, N_MANY * (int64_t)sizeof *weight);
    many->vis = numbers_to_device(vis, N_MANY, MSI_FP32);
    free(uvw_m);
    free(weight);
    free(vis);
}

static void free_device(const void *device)
{
    void *p;
    memcpy(&p, &device, sizeof p);
    cudaFree(p);
}

static int count_lines(const char *path, const char *with)
{
    FILE *f = fopen(path, "r");
    char line[512];
    int n = 0;
    if (!f) return 0;
    while (fgets(line, sizeof line, f)) n += strstr(line, with) != NULL;
    assert_int_equal(fclose(f), 0);
    return n;
}

/* Grid `many` and degrid the gridder's own grid: [n_cell] and [N_MANY], freed by free. */
static void grid_and_predict(const block_data *b, const msi_window_block *many, int64_t n_expected, msi_c64 **gridded,
                             msi_c64 **predicted)
{
    const int32_t image_plane[] = {0};
    const int64_t n_cell = b->geometry.nu * b->geometry.nv;
    msi_c64 *empty = zeros(n_cell);
    msi_wproj_grid grid = {b->geometry.nu, b->geometry.nv, numbers_to_device(empty, n_cell, MSI_FP32)};
    msi_window_block wanted = *many;
    msi_window_gridder *g;
    wanted.weight = NULL;
    assert_int_equal(create_gridder(&g, &b->geometry, &b->kernels, 1, N_MANY, n_expected), MSI_OK);
    assert_int_equal(msi_window_gridder_add(g, many, image_plane, 0, &grid), MSI_OK);
    *gridded = numbers_to_host(grid.cells, n_cell, MSI_FP32);
    msi_c64 *vis = numbers_to_host(many->vis, N_MANY, MSI_FP32);
    wanted.vis = numbers_to_device(vis, N_MANY, MSI_FP32);
    assert_int_equal(msi_window_gridder_predict(g, &wanted, 0, &grid), MSI_OK);
    *predicted = numbers_to_host(wanted.vis, N_MANY, MSI_FP32);
    cudaFree(wanted.vis);
    cudaFree(grid.cells);
    msi_window_gridder_free(g);
    free(vis);
    free(empty);
}

/* A gridder with many samples measures shapes on them, without changing the result, and writes the cache. */
static void test_measuring_gridder(void **state)
{
    (void)state;
    if (n_seed == 1) skip();
    char path[512];
    snprintf(path, sizeof path, "%s/msimage/window-tuning", temp_folder);
    assert_int_equal(setenv("XDG_CACHE_HOME", temp_folder, 1), 0);
    block_data b;
    msi_window_block many;
    make_many(&b, &many);
    const int64_t n_cell = b.geometry.nu * b.geometry.nv, expected[] = {0, (int64_t)1 << 40, 0};
    const int n_line[] = {0, 1, 1};
    msi_c64 *gridded[3], *predicted[3];
    for (int i = 0; i < 3; i++) {
        grid_and_predict(&b, &many, expected[i], &gridded[i], &predicted[i]);
        assert_int_equal(count_lines(path, " grid fp32 "), n_line[i]);
        assert_int_equal(count_lines(path, " degrid fp32 "), n_line[i]);
        assert_true(relative_error(gridded[i], gridded[0], n_cell) < tolerance(MSI_FP32));
        assert_true(relative_error(predicted[i], predicted[0], N_MANY) < tolerance(MSI_FP32));
    }
    for (int i = 0; i < 3; i++) {
        free(gridded[i]);
        free(predicted[i]);
    }
    free_device(many.uvw_m);
    free_device(many.weight);
    free_device(many.vis);
    free_block(&b);
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
        cmocka_unit_test(test_blocks_of_visibilities),
        cmocka_unit_test(test_measuring_gridder),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
