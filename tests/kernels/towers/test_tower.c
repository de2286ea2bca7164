/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-towers on the CPU at their seams: samples where subgrids and towers end, towers of every size, and their plans. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#include "kernels/wgrid/wgrid_cpu.h"
#include "kernels/towers/tower_plan.h"
#include "tests/support/direct_sum.h"
#include "tests/support/wgrid_cases.h"

/* The part of the accuracy that towers are planned with. */
static const double TOWERS_PART = 0.5;

/* A field in a store, with w-planes and towers of one size. */
typedef struct job {
    msi_case_data data;
    msi_vis_store store;
    msi_wgrid_plan plan;
    msi_tower_plan towers;
} job;

static void fill_store(job *j, int coordinates, msi_precision precision)
{
    const msi_image_geometry *g = &j->data.geometry;
    msi_vis_store_init(&j->store, 1, precision, 0.5 / g->cell_x_rad, 0.5 / g->cell_y_rad, 0, NULL);
    j->store.coordinates = coordinates;
    assert_int_equal(msi_vis_store_add(&j->store, &j->data.block), 0);
}

static int plan_towers(job *j, double accuracy, int32_t size)
{
    msi_tower_load load;
    msi_tower_cost cost = msi_wgrid_tower_cpu_cost;
    cost.size = &size;
    cost.n_size = 1;
    assert_int_equal(msi_tower_load_make(&load, &j->plan, &j->store, j->store.n_sample), 0);
    return msi_tower_plan_make(&j->towers, &j->plan, TOWERS_PART * accuracy, &load, &msi_wgrid_cpu_cost, &cost);
}

static void job_make(job *j, const msi_case *c, double accuracy, int coordinates)
{
    msi_precision precision = msi_precision_for(accuracy);
    memset(j, 0, sizeof *j);
    msi_case_make(&j->data, c, 5);
    fill_store(j, coordinates, precision);
    const msi_wgrid_request request =
        msi_case_request(&j->data.geometry, &j->store, accuracy, precision, &msi_wgrid_cpu_cost);
    assert_int_equal(msi_wgrid_plan_make(&j->plan, &request), 0);
}

static void job_free(job *j)
{
    msi_vis_store_free(&j->store);
    msi_case_free(&j->data);
}

/*
 * Move samples to the places where towers are least exact: the first and last cells of cores, and the first and last
 * planes of towers. One sample stays at the smallest |w|, one at the largest, so that the planes do not change.
 */
static void move_to_seams(job *j)
{
    const msi_wgrid_geometry *g = &j->plan.grid;
    const msi_tower_plan *t = &j->towers;
    double m_per_lambda = MSI_SPEED_OF_LIGHT / j->data.freq_hz[0], first_w0 = 0.5 * g->w_width;
    uint64_t random = 3;
    int64_t least = 0, most = 0, n_row = j->data.block.n_row;
    double *uvw = j->data.uvw_m;
    for (int64_t row = 0; row < n_row; row++) {
        if (fabs(uvw[3 * row + 2]) < fabs(uvw[3 * least + 2])) least = row;
        if (fabs(uvw[3 * row + 2]) > fabs(uvw[3 * most + 2])) most = row;
    }
    for (int64_t row = 0; row < n_row; row++) {
        if (row == least || row == most) continue;
        double cell[3];
        for (int axis = 0; axis < 2; axis++) {
            int64_t n = axis ? g->nv : g->nu, n_sub = axis ? t->n_sub_v : t->n_sub_u;
            double seam, limit = 0.48 * (double)n;
            do {
                seam = floor(msi_random(&random) * (double)n_sub) * t->core - (double)(n / 2) - 0.5 * g->width;
                seam += msi_random(&random) < 0.5 ? -msi_random(&random) : msi_random(&random);
            } while (fabs(seam) > limit);
            cell[axis] = seam;
        }
        do {
            double tower = floor(msi_random(&random) * t->n_tower), end = msi_random(&random) < 0.5 ? 0 : t->height - 1;
            cell[2] = tower * t->height + end + first_w0 - msi_random(&random);
        } while (cell[2] < first_w0 || cell[2] > g->n_w - g->w_width + first_w0 - 1);
        uvw[3 * row] = -cell[0] / ((double)g->nu * j->data.geometry.cell_x_rad) * m_per_lambda;
        uvw[3 * row + 1] = cell[1] / ((double)g->nv * j->data.geometry.cell_y_rad) * m_per_lambda;
        uvw[3 * row + 2] = (g->w_first + cell[2] * g->w_step) * m_per_lambda;
    }
}

/* Compute the error of an image by the job's towers. */
static double image_error(job *j)
{
    msi_image image;
    msi_stage_times times = {0};
    const int plane = 0;
    assert_int_equal(msi_image_alloc(&image, &j->data.geometry, 1, j->plan.precision), 0);
    for (int64_t i = 0; i < j->data.block.n_row * j->data.block.n_chan; i++)
        image.sum_weight[0] += (double)j->data.weight[i];
    assert_int_equal(msi_wgrid_tower_cpu_image(&j->plan, &j->towers, &j->store, &plane, &image, &times), 0);
    double error = msi_case_error(&j->data, &image, 0, 0, 200, 3);
    msi_image_free(&image);
    return error;
}

/* A field with many towers, for subgrids of any size. It has one channel, so that samples can be put anywhere. */
static const msi_case field = {.name = "seams",
                               .nx = 320,
                               .ny = 256,
                               .field_x_rad = 0.3,
                               .stretch_y = 1.2,
                               .w_ratio = 2.0,
                               .n_row = 1500,
                               .n_chan = 1};

/* Test every size that holds a tower, with all samples at the seams. */
static void test_seams(void **state)
{
    (void)state;
    int n_tried = 0;
    msi_case smaller = field;
    smaller.nx = 240;
    smaller.ny = 192;
    for (double accuracy = 1e-2; accuracy > 0.9e-12; accuracy *= 1e-2)
        for (int i = 0; i < msi_wgrid_tower_cpu_cost.n_size; i++) {
            job j;
            job_make(&j, &smaller, accuracy, 0);
            if (plan_towers(&j, accuracy, msi_wgrid_tower_cpu_cost.size[i]) == 0) {
                move_to_seams(&j);
                msi_vis_store_free(&j.store);
                fill_store(&j, 0, j.plan.precision);
                double error = image_error(&j);
                printf("  accuracy %.0e, %d towers of %d x %d planes, core %d, margin %d: error %.2e\n", accuracy,
                       j.towers.n_tower, j.towers.size, j.towers.n_plane, j.towers.core, j.towers.margin, error);
                if (!(error <= accuracy)) fail_msg("error %g", error);
                n_tried++;
            }
            job_free(&j);
        }
    assert_true(n_tried >= 12);
}

/* One tower of all planes, far beyond what its margin allows, gives a larger error: the margin is needed. */
static void test_margin_matters(void **state)
{
    (void)state;
    const double accuracy = 1e-8;
    job j;
    job_make(&j, &field, accuracy, 0);
    assert_int_equal(plan_towers(&j, accuracy, 256), 0);
    assert_true(j.towers.n_tower > 2);
    move_to_seams(&j);
    msi_vis_store_free(&j.store);
    fill_store(&j, 0, j.plan.precision);
    assert_true(image_error(&j) <= accuracy);
    j.towers.n_tower = 1;
    j.towers.n_plane = j.plan.grid.n_w;
    j.towers.height = j.towers.n_plane - j.plan.grid.w_width + 1;
    double error = image_error(&j);
    printf("  one tower: error %.2e\n", error);
    assert_true(error > 3 * accuracy);
    job_free(&j);
}

/* Predict at the seams, each sample within its bound: see WORST in test_degrid.c. Predict twice, with kept planes. */
static void test_predict_at_seams(void **state)
{
    (void)state;
    for (double accuracy = 1e-3; accuracy > 0.9e-9; accuracy *= 1e-3) {
        job j;
        msi_case_pixels pixels;
        msi_image model;
        msi_stage_times times = {0};
        void *kept = NULL;
        int64_t n = field.n_row;
        msi_c64 *vis = msi_test_alloc(n, sizeof *vis), *truth = msi_test_alloc(n, sizeof *truth);
        job_make(&j, &field, accuracy, 1);
        assert_int_equal(plan_towers(&j, accuracy, 192), 0);
        move_to_seams(&j);
        msi_case_pixels_draw(&pixels, &j.data.geometry, 200, 8);
        msi_case_model(&model, &j.data.geometry, 1, &pixels, j.plan.precision);
        msi_direct_visibility(&j.data.block, &j.data.geometry, &(msi_pixels){pixels.n, pixels.x, pixels.y},
                              pixels.flux_jy, truth);
        for (int call = 0; call < 2; call++) {
            double worst;
            msi_vis_store_free(&j.store);
            fill_store(&j, 1, j.plan.precision);
            assert_int_equal(msi_wgrid_tower_cpu_predict(&j.plan, &j.towers, &j.store, &model, 1, &kept, &times), 0);
            assert_non_null(kept);
            assert_int_equal(msi_vis_store_fetch(&j.store, n, 1, j.data.freq_hz, vis), 0);
            double error = msi_vis_distance(vis, truth, n, &worst);
            printf("  accuracy %.0e: error %.2e, worst %.2e\n", accuracy, error, worst);
            assert_true(error <= accuracy && worst <= 20 * accuracy);
        }
        msi_wgrid_tower_cpu_free_model(kept);
        free(vis);
        free(truth);
        msi_image_free(&model);
        job_free(&j);
    }
}

/* The bend does not change the image, never turns back, and levels off. */
static void test_bend(void **state)
{
    (void)state;
    const double image = 1 / 1.4, field_rad = 0.5;
    for (int order = 3; order <= 14; order++) {
        double before = -1;
        for (int i = -1000; i <= 1000; i++) {
            double x = 0.0005 * i, l = msi_tower_bend(x, image, field_rad, order);
            if (fabs(x) <= 0.5 * image) assert_true(l == x * field_rad);
            assert_true(fabs(l) <= fabs(x) * field_rad + 1e-15);
            assert_true(l == -msi_tower_bend(-x, image, field_rad, order));
            assert_true(l > before - 1e-15);
            before = l;
        }
        double h = 1e-5,
               slope = msi_tower_bend(0.5, image, field_rad, order) - msi_tower_bend(0.5 - h, image, field_rad, order);
        assert_true(slope < 1e-9 * field_rad);
        /* Half of the slope is left half way, so the rest of a straight line is half as long. */
        double end = msi_tower_bend(0.5, image, field_rad, order) / field_rad;
        assert_true(fabs(end - 0.5 * (0.5 * image + 0.5)) < 1e-12);
    }
}

/* The load of towers agrees with a plain count of the samples' cells. */
static void test_load(void **state)
{
    (void)state;
    job j;
    msi_tower_load load;
    job_make(&j, &field, 1e-4, 0);
    const msi_wgrid_geometry *g = &j.plan.grid;
    assert_int_equal(msi_tower_load_make(&load, &j.plan, &j.store, j.store.n_sample), 0);
    for (int64_t edge = 1; edge < 6; edge += 2) {
        int64_t n_u = (g->n_tile_u + edge - 1) / edge, n_v = (g->n_tile_v + edge - 1) / edge, n_sub = 0, n_plane = 0;
        uint8_t *held = msi_test_alloc(n_u * n_v * g->n_w, 1);
        for (int64_t row = 0; row < field.n_row; row++) {
            msi_footprint f;
            double w;
            if (j.data.weight[row] <= 0) continue;
            msi_locate(g, j.data.uvw_m + 3 * row, j.data.freq_hz[0], &f, &w);
            int64_t tile = msi_bucket(g, &f) % (g->n_tile_u * g->n_tile_v);
            int64_t sub = tile / g->n_tile_u / edge * n_u + tile % g->n_tile_u / edge;
            memset(held + sub * g->n_w + f.w0, 1, (size_t)g->w_width);
        }
        for (int64_t sub = 0; sub < n_u * n_v; sub++) {
            int any = 0;
            for (int64_t p = 0; p < g->n_w; p++) {
                any |= held[sub * g->n_w + p];
                n_plane += held[sub * g->n_w + p];
            }
            n_sub += any;
        }
        assert_int_equal((int64_t)load.n_subgrid[edge], n_sub);
        assert_int_equal((int64_t)load.n_plane[edge], n_plane);
        free(held);
    }
    job_free(&j);
}

/* If there are no towers, the error says so, and whole planes are used. */
static void test_refuses_what_it_cannot(void **state)
{
    (void)state;
    const msi_case fields[] = {{.name = "hemisphere",
                                .nx = 256,
                                .ny = 256,
                                .field_x_rad = 2.1,
                                .w_ratio = 0.4,
                                .n_row = 50,
                                .n_chan = 1,
                                .band = 1.2},
                               {.name = "flat",
                                .nx = 256,
                                .ny = 256,
                                .field_x_rad = 1e-7,
                                .w_ratio = 0.5,
                                .n_row = 50,
                                .n_chan = 1,
                                .band = 1.1}};
    const char *reasons[] = {"horizon", "w is negligible"};
    for (int i = 0; i < 2; i++) {
        msi_case_data data;
        msi_gridder *g;
        msi_image image;
        msi_gridder_report report;
        msi_case_make(&data, &fields[i], 3);
        msi_gridder_spec spec = {.geometry = data.geometry,
                                 .n_plane = 1,
                                 .strategy = "subgrid",
                                 .accuracy = 1e-4,
                                 .backend = MSI_BACKEND_CPU};
        assert_int_equal(msi_gridder_create(&g, &spec), 0);
        assert_int_equal(msi_gridder_add(g, &data.block), 0);
        /* If towers are not possible, a requested strategy fails instead of using another one; if they gain nothing,
         * planes give the same image. */
        assert_int_equal(msi_gridder_image(g, &image), i ? 0 : MSI_ERANGE);
        assert_non_null(strstr(msi_error_get(), reasons[i]));
        msi_gridder_report_get(g, &report);
        if (i) assert_string_equal(report.strategy, "planes");
        msi_image_free(&image);
        msi_gridder_free(g);
        spec.strategy = NULL;
        msi_case_image(&data, &spec, &image, &report);
        assert_string_equal(report.strategy, "planes");
        assert_int_equal(report.n_tower, 0);
        msi_image_free(&image);
        msi_case_free(&data);
    }
}

/* A channel without samples has no towers and no planes, but an image. */
static void test_no_samples(void **state)
{
    (void)state;
    const msi_gridder_spec spec = {.geometry = {.nx = 32, .ny = 48, .cell_x_rad = 1e-4, .cell_y_rad = 1e-4},
                                   .n_plane = 2,
                                   .psf = 1,
                                   .strategy = "subgrid",
                                   .accuracy = 1e-4,
                                   .backend = MSI_BACKEND_CPU};
    msi_gridder *g;
    msi_image image;
    assert_int_equal(msi_gridder_create(&g, &spec), 0);
    assert_int_equal(msi_gridder_image(g, &image), 0);
    assert_int_equal(image.n_plane, 3);
    for (int64_t i = 0; i < 3 * 32 * 48; i++) assert_true(isnan(msi_image_value(image.pixel, image.precision, i)));
    msi_image_free(&image);
    msi_gridder_free(g);
}

/* Count the samples in every subgrid of every tower, flagged or not, numbered as in tower_plan.h. Returns: the largest
 * count */
static int64_t count_cores(const job *j, int64_t *n)
{
    const msi_wgrid_geometry *g = &j->plan.grid;
    const msi_tower_plan *t = &j->towers;
    int64_t most = 0;
    for (int64_t i = 0; i < j->data.block.n_row; i++) {
        const double *uvw = j->data.uvw_m + 3 * i, lambda_per_m = j->data.freq_hz[0] / MSI_SPEED_OF_LIGHT;
        if (msi_uv_outside(g, uvw[0], uvw[1], j->data.freq_hz[0])) continue;
        const double sign = uvw[2] < 0 ? -lambda_per_m : lambda_per_m;
        const double u = -sign * uvw[0] * (double)g->nu * j->data.geometry.cell_x_rad;
        const double v = sign * uvw[1] * (double)g->nv * j->data.geometry.cell_y_rad;
        const double w = (sign * uvw[2] - g->w_first) / g->w_step;
        const int64_t su = ((int64_t)ceil(u - 0.5 * g->width) + g->nu / 2 + g->width) / t->core;
        const int64_t sv = ((int64_t)ceil(v - 0.5 * g->width) + g->nv / 2 + g->width) / t->core;
        const int64_t tower = (int64_t)ceil(w - 0.5 * g->w_width) / t->height;
        int64_t *own = &n[(tower * t->n_sub_v + sv) * t->n_sub_u + su];
        if (++*own > most) most = *own;
    }
    return most;
}

/* Count the towers that hold samples in subgrids [first, end). */
static int64_t count_towers(const int64_t *n, int64_t in_tower, int64_t first, int64_t end)
{
    int64_t count = 0, last = -1;
    for (int64_t i = first; i < end; i++) {
        count += n[i] && i / in_tower != last;
        if (n[i]) last = i / in_tower;
    }
    return count;
}

/* Count the subgrids that hold samples in [first, end). */
static int64_t count_used(const int64_t *n, int64_t first, int64_t end)
{
    int64_t count = 0;
    for (int64_t i = first; i < end; i++) count += n[i] > 0;
    return count;
}

/* If samples cost nothing, two shares have the same number of subgrids of equal cost, except for those counted here on
 * the other side of a border: if all of a sample's cost is its sort, which both shares do for all samples, and if
 * doubles are slower in planes only. By samples the shares would have 109 and 159. */
static void check_cut_without_samples(job *j, const int64_t *n, int64_t n_core)
{
    static const msi_share halves[] = {{0, 1}, {1, 1}};
    const double sample_s = j->plan.sample_cost_s;
    const msi_tower_cost sorted = {.sort_s = sample_s / (double)j->store.n_sample},
                         slow = {.fp64_planes = 1e12}, *const cost[] = {&sorted, &slow};
    const msi_precision precision = j->plan.precision;
    j->towers.plane_s = j->towers.tower_s = 0;
    j->towers.subgrid_s = 1e-6 * sample_s;
    for (int i = 0; i < 2; i++) {
        int64_t cut[3];
        j->plan.precision = i ? MSI_FP64 : MSI_FP32;
        assert_int_equal(msi_tower_cut(cut, &j->plan, &j->towers, cost[i], &j->store, halves, 2), 0);
        const int64_t more = count_used(n, cut[0], cut[1]) - count_used(n, cut[1], cut[2]);
        assert_true(cut[2] == n_core && more >= -4 && more <= 4);
    }
    j->plan.precision = precision;
}

/* Shares are in proportion to the devices' speeds, to within a subgrid. If only towers cost time, no tower is shared
 * unless it must be. */
static void test_shares(void **state)
{
    (void)state;
    static const msi_share share[][4] = {
        {{0, 1}, {1, 1}}, {{0, 1}, {1, 1}, {2, 1}, {3, 1}}, {{0, 2}, {1, 1}}, {{0, 1}, {1, 3}, {2, 1}}};
    static const int n_share[] = {2, 4, 2, 3};
    const msi_tower_cost cost = {0};
    const msi_case c = {
        .name = "shares", .nx = 400, .ny = 360, .field_x_rad = 0.2, .w_ratio = 1.0, .n_row = 20000, .n_chan = 1};
    job j;
    job_make(&j, &c, 1e-4, 0);
    assert_int_equal(plan_towers(&j, 1e-4, 128), 0);
    const int64_t in_tower = j.towers.n_sub_u * j.towers.n_sub_v, n_core = j.towers.n_tower * in_tower;
    int64_t *n = msi_test_alloc(n_core, sizeof *n), cut[5];
    const int64_t most = count_cores(&j, n);
    int64_t n_sample = 0;
    for (int64_t i = 0; i < n_core; i++) n_sample += n[i];
    assert_true(j.towers.n_tower >= 4);
    j.towers.plane_s = j.towers.subgrid_s = j.towers.tower_s = 0;
    for (size_t i = 0; i < sizeof n_share / sizeof *n_share; i++) {
        double all = 0;
        for (int k = 0; k < n_share[i]; k++) all += share[i][k].speed;
        assert_int_equal(msi_tower_cut(cut, &j.plan, &j.towers, &cost, &j.store, share[i], n_share[i]), 0);
        assert_true(cut[0] == 0 && cut[n_share[i]] == n_core);
        for (int k = 0; k < n_share[i]; k++) {
            int64_t own = 0;
            for (int64_t at = cut[k]; at < cut[k + 1]; at++) own += n[at];
            assert_true(fabs((double)own - (double)n_sample * share[i][k].speed / all) <=
                        (double)(n_share[i] * most + 5));
        }
    }
    j.towers.tower_s = 1e6 * j.plan.sample_cost_s;
    assert_int_equal(msi_tower_cut(cut, &j.plan, &j.towers, &cost, &j.store, share[0], 2), 0);
    const int64_t least = (count_towers(n, in_tower, 0, n_core) + 1) / 2;
    assert_true(count_towers(n, in_tower, cut[0], cut[1]) <= least);
    assert_true(count_towers(n, in_tower, cut[1], cut[2]) <= least);
    check_cut_without_samples(&j, n, n_core);
    free(n);
    job_free(&j);
}

static void test_auto_takes_towers(void **state)
{
    (void)state;
    const msi_case c = {.name = "large",
                        .nx = 1600,
                        .ny = 1600,
                        .field_x_rad = 0.05,
                        .w_ratio = 1.0,
                        .n_row = 2000,
                        .n_chan = 1,
                        .layout = CONCENTRATED};
    msi_case_data data;
    msi_image image;
    msi_gridder_report towers, planes;
    msi_case_make(&data, &c, 3);
    msi_gridder_spec spec = {
        .geometry = data.geometry, .n_plane = 1, .accuracy = 1e-4, .backend = MSI_BACKEND_CPU, .n_thread = 1};
    msi_case_image(&data, &spec, &image, &towers);
    assert_string_equal(towers.strategy, "subgrid");
    assert_true(towers.n_tower > 0 && towers.n_tower < towers.n_w && towers.subgrid > 0);
    assert_true(msi_case_error(&data, &image, 0, 0, 200, 3) <= 1e-4);
    msi_image_free(&image);
    spec.strategy = "planes";
    msi_case_image(&data, &spec, &image, &planes);
    assert_true(towers.estimate_s < planes.estimate_s);
    msi_image_free(&image);
    msi_case_free(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bend),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_seams),
        cmocka_unit_test(test_margin_matters),
        cmocka_unit_test(test_predict_at_seams),
        cmocka_unit_test(test_refuses_what_it_cannot),
        cmocka_unit_test(test_no_samples),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_auto_takes_towers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
