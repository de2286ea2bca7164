/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder on the GPU at its seams: few small planes of w-towers at a time, whole planes in slabs, several
 * images, and planes that are kept for a model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/method/planes.h"
#include "kernels/towers/wgrid_tower_cuda.h"
#include "kernels/wgrid/wgrid_cuda.h"
#include "tests/support/wgrid_cases.h"

/* Many planes in a field wide enough for several towers; crowded cores, and cores with one sample or none. */
static msi_case field = {.name = "skalow",
                         .nx = 240,
                         .ny = 200,
                         .field_x_rad = 0.25,
                         .w_ratio = 3.0,
                         .n_row = 4000,
                         .n_chan = 2,
                         .n_plane = 2,
                         .band = 1.3,
                         .layout = CONCENTRATED};

/* A case in a store, with its plan. */
typedef struct job {
    msi_case_data data;
    msi_vis_store store;
    msi_wgrid_plan plan;
    msi_tower_plan towers;
    double sum_weight[2];
} job;

static void job_make(job *j, double accuracy, msi_precision precision, int coordinates)
{
    memset(j, 0, sizeof *j);
    msi_case_make(&j->data, &field, 5);
    const msi_image_geometry *g = &j->data.geometry;
    int64_t n = field.n_row * field.n_chan;
    for (int64_t i = 0; i < 2 * n; i++) j->sum_weight[i / n] += (double)j->data.weight[i];
    msi_vis_store_init(&j->store, 2, precision, 0.5 / g->cell_x_rad, 0.5 / g->cell_y_rad, 0, NULL);
    j->store.coordinates = coordinates;
    assert_int_equal(msi_vis_store_add(&j->store, &j->data.block), 0);
    const msi_wgrid_request request = msi_case_request(g, &j->store, accuracy, precision, &msi_wgrid_cuda_cost);
    assert_int_equal(msi_wgrid_plan_make(&j->plan, &request), 0);
    msi_tower_load load;
    const int32_t size = 160;
    msi_tower_cost cost = msi_wgrid_tower_cuda_cost;
    cost.size = &size;
    cost.n_size = 1;
    assert_int_equal(msi_wgrid_tower_cuda_tiles(&j->plan), 0);
    assert_int_equal(msi_tower_load_make(&load, &j->plan, &j->store, j->store.n_sample), 0);
    if (msi_tower_plan_make(&j->towers, &j->plan, 0.3 * accuracy, &load, &msi_wgrid_cuda_cost, &cost))
        fail_msg("%s", msi_error_get());
    assert_true(j->towers.n_tower > 1 && j->towers.n_sub_u > 1);
}

static void job_free(job *j)
{
    msi_vis_store_free(&j->store);
    msi_case_free(&j->data);
}

/* Count the small planes that are processed at once. */
static int64_t n_small(const job *j)
{
    int64_t n = 0;
    assert_int_equal(msi_wgrid_tower_cuda_small(&j->plan, &j->towers, &n), 0);
    return n;
}

static void image_of(job *j, int64_t n_planes, msi_image *image)
{
    const int store_plane[3] = {0, 1, -1};
    msi_stage_times times = {0};
    assert_int_equal(msi_image_alloc(image, &j->data.geometry, 3, j->plan.precision), 0);
    for (int p = 0; p < 3; p++) image->sum_weight[p] = j->sum_weight[p % 2];
    if (msi_wgrid_tower_cuda_image(&j->plan, &j->towers, &j->store, store_plane, n_planes, image, &times))
        fail_msg("%s", msi_error_get());
}

/* Compute the largest distance of two images, each plane relative to its own rms. */
static double distance(const msi_image *a, const msi_image *b)
{
    double worst = 0;
    for (int p = 0; p < a->n_plane; p++) worst = fmax(worst, msi_image_difference(a, b, p));
    return worst;
}

/* Check each plane and the PSF within the accuracy, with memory for one subgrid's planes or for all. The two differ by
 * the order of sums: rounding of a float or double, times the windows' amplification at the corners (1e2). */
static void check_images(double accuracy, msi_precision precision, double rounding)
{
    job j;
    msi_image one, all;
    job_make(&j, accuracy, precision, 0);
    image_of(&j, j.towers.n_plane, &one);
    image_of(&j, n_small(&j), &all);
    for (int p = 0; p < 3; p++) {
        double error = msi_case_error(&j.data, &one, p, p < 2 ? p : -1, MSI_CASE_PIXELS, 3);
        printf("  accuracy %.0e, plane %d: %.2e; %d towers of %d planes, subgrids of %d\n", accuracy, p, error,
               j.towers.n_tower, j.towers.n_plane, j.towers.size);
        assert_true(error <= accuracy);
    }
    assert_true(distance(&one, &all) <= 100 * rounding);
    msi_image_free(&one);
    msi_image_free(&all);
    job_free(&j);
}

static void test_images(void **state)
{
    (void)state;
    check_images(1e-4, MSI_FP32, 6e-8);
    check_images(1e-7, MSI_FP64, 1.1e-16);
}

static void planes_of(job *j, int64_t n_resident, msi_image *image)
{
    const int store_plane[3] = {0, 1, -1};
    msi_stage_times times = {0};
    assert_int_equal(msi_image_alloc(image, &j->data.geometry, 3, j->plan.precision), 0);
    for (int p = 0; p < 3; p++) image->sum_weight[p] = j->sum_weight[p % 2];
    if (msi_wgrid_cuda_image(&j->plan, &j->store, store_plane, n_resident, image, &times))
        fail_msg("%s", msi_error_get());
}

/* Slabs thinner than a window is wide, so that footprints reach into three of them, give the same as all planes at
 * once. */
static void check_slabs(double accuracy, msi_precision precision, double rounding)
{
    job j;
    msi_image slabs, all;
    job_make(&j, accuracy, precision, 0);
    planes_of(&j, j.plan.grid.width - 2, &slabs);
    planes_of(&j, j.plan.grid.n_w, &all);
    for (int p = 0; p < 3; p++)
        assert_true(msi_case_error(&j.data, &all, p, p < 2 ? p : -1, MSI_CASE_PIXELS, 3) <= accuracy);
    printf("  accuracy %.0e, %d planes in slabs of %d: they differ by %.2e\n", accuracy, j.plan.grid.n_w,
           j.plan.grid.width - 2, distance(&slabs, &all));
    assert_true(distance(&slabs, &all) <= 100 * rounding);
    msi_image_free(&slabs);
    msi_image_free(&all);
    job_free(&j);
}

static void test_slabs(void **state)
{
    (void)state;
    check_slabs(1e-4, MSI_FP32, 6e-8);
    check_slabs(1e-7, MSI_FP64, 1.1e-16);
}

/* Make the residual image of a job after a model, by planes or by towers, twice, since the first call keeps data. */
static void residual_of(job *j, int by_towers, int64_t n_resident, int64_t batch_samples, const msi_image *model,
                        msi_image *image)
{
    const int store_plane[3] = {0, 1, -1};
    const msi_planes_shape shape = {.nx = j->data.geometry.nx,
                                    .ny = j->data.geometry.ny,
                                    .n = 3,
                                    .precision = j->plan.precision,
                                    .backend = MSI_BACKEND_CUDA};
    msi_stage_times times = {0};
    msi_planes *from, *to;
    void *kept = NULL;
    assert_int_equal(msi_image_alloc(image, &j->data.geometry, 3, j->plan.precision), 0);
    for (int p = 0; p < 3; p++) image->sum_weight[p] = j->sum_weight[p % 2];
    assert_int_equal(msi_planes_create(&from, &shape), 0);
    assert_int_equal(msi_planes_create(&to, &shape), 0);
    assert_int_equal(msi_planes_upload(from, 0, 2, model->pixel), 0);
    const msi_residual_job work = {.store = &j->store,
                                   .n_image = 3,
                                   .store_plane = store_plane,
                                   .sum_weight = image->sum_weight,
                                   .model = msi_planes_pixel(from, 0),
                                   .pixel = msi_planes_pixel(to, 0)};
    j->plan.batch_samples = batch_samples;
    for (int time = 0; time < 2; time++)
        if (by_towers ? msi_wgrid_tower_cuda_residual(&j->plan, &j->towers, &work, n_resident, &kept, &times)
                      : msi_wgrid_cuda_residual(&j->plan, &work, n_resident, &kept, &times))
            fail_msg("%s", msi_error_get());
    j->plan.batch_samples = 0;
    assert_int_equal(msi_planes_fetch(to, 0, 3, image->pixel), 0);
    (by_towers ? msi_wgrid_tower_cuda_free_samples : msi_wgrid_cuda_free_samples)(kept);
    msi_planes_free(from);
    msi_planes_free(to);
}

/* Make residuals with all samples on the device and with one segment at a time, with all w-planes and with slabs, by
 * whole planes and by towers. They differ by the order of sums; towers also by their own accuracy. */
static void check_residuals(double accuracy, msi_precision precision, double rounding)
{
    job j;
    msi_case_pixels pixels[2];
    msi_image model, all, other;
    const int64_t n_row = field.n_row;
    field.n_row = 2 * MSI_SEGMENT_ROWS + 100;
    job_make(&j, accuracy, precision, 0);
    for (int p = 0; p < 2; p++) {
        msi_case_pixels_draw(&pixels[p], &j.data.geometry, 30, 4 + (uint64_t)p);
        for (int64_t i = 0; i < pixels[p].n; i++) pixels[p].flux_jy[i] = (float)(pixels[p].flux_jy[i] / 6);
    }
    msi_case_model(&model, &j.data.geometry, 2, pixels, precision);
    assert_true(j.store.n_segment > 2);
    residual_of(&j, 0, j.plan.grid.n_w, 0, &model, &all);
    residual_of(&j, 0, j.plan.grid.n_w, 1, &model, &other);
    printf("  accuracy %.0e, residuals a segment at a time: they differ by %.2e\n", accuracy, distance(&other, &all));
    assert_true(distance(&other, &all) <= 100 * rounding);
    msi_image_free(&other);
    residual_of(&j, 0, j.plan.grid.width - 2, 1, &model, &other);
    printf("  accuracy %.0e, in slabs as well: %.2e\n", accuracy, distance(&other, &all));
    assert_true(distance(&other, &all) <= 100 * rounding);
    msi_image_free(&other);
    for (int64_t batch = 0; batch < 2; batch++) {
        residual_of(&j, 1, j.towers.n_plane, batch, &model, &other);
        printf("  accuracy %.0e, by towers: %.2e\n", accuracy, distance(&other, &all));
        assert_true(distance(&other, &all) <= 2 * accuracy);
        msi_image_free(&other);
    }
    msi_image_free(&all);
    msi_image_free(&model);
    job_free(&j);
    field.n_row = n_row;
}

static void test_residuals(void **state)
{
    (void)state;
    check_residuals(1e-4, MSI_FP32, 6e-8);
    check_residuals(1e-7, MSI_FP64, 1.1e-16);
}

static void predict(job *j, const msi_image *model, int64_t n_small, void **kept, msi_c64 *vis)
{
    msi_stage_times times = {0};
    msi_vis_store_clear(&j->store);
    assert_int_equal(msi_vis_store_add(&j->store, &j->data.block), 0);
    if (msi_wgrid_tower_cuda_predict(&j->plan, &j->towers, &j->store, model, n_small, kept, &times))
        fail_msg("%s", msi_error_get());
    assert_int_equal(msi_vis_store_fetch(&j->store, field.n_row, field.n_chan, j->data.freq_hz, vis), 0);
}

/* Degridding does not depend on how many small planes there are, nor on planes that are kept for the model. */
static void check_predictions(double accuracy, msi_precision precision)
{
    job j;
    msi_image model;
    msi_case_pixels pixels[2];
    int64_t n = 2 * field.n_row * field.n_chan;
    msi_c64 *vis = msi_test_alloc(n, sizeof *vis), *again = msi_test_alloc(n, sizeof *again);
    void *kept = NULL;
    job_make(&j, accuracy, precision, 1);
    for (int p = 0; p < 2; p++) msi_case_pixels_draw(&pixels[p], &j.data.geometry, 100, 9 + (uint64_t)p);
    msi_case_model(&model, &j.data.geometry, 2, pixels, precision);
    predict(&j, &model, n_small(&j), NULL, vis);
    predict(&j, &model, j.towers.n_plane, NULL, again);
    assert_memory_equal(vis, again, (size_t)n * sizeof *vis);
    for (int filling = 0; filling < 2; filling++) {
        predict(&j, &model, j.towers.n_plane, &kept, again);
        assert_memory_equal(vis, again, (size_t)n * sizeof *vis);
    }
    msi_wgrid_tower_cuda_free_model(kept);
    msi_image_free(&model);
    job_free(&j);
    free(vis);
    free(again);
}

static void test_predictions(void **state)
{
    (void)state;
    check_predictions(1e-4, MSI_FP32);
    check_predictions(1e-7, MSI_FP64);
}

/* test_tower_gpu [brief [TEST]]: fewer samples, and one test only, for tools that slow a program down. */
int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "brief") == 0) field.n_row /= 10;
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_slabs),
        cmocka_unit_test(test_residuals),
        cmocka_unit_test(test_predictions),
    };
    if (!msi_gpu_available()) {
        printf("skipped: %s\n", msi_gpu_describe(0));
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
