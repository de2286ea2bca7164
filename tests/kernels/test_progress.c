/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_progress cpu|cuda: every strategy reports its progress in both directions: 0 first, never decreasing, 1 at the
 * end, and on the CPU in small steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/gridder.h"
#include "kernels/strategy.h"
#include "tests/support/wgrid_cases.h"

static msi_backend backend;

/* The progress reported by a stage. */
typedef struct reported {
    const char *stage;
    int n;
    double first, last, largest_step;
    int fell;
} reported;

static void record_progress(void *of, const char *stage, double fraction)
{
    reported *h = of;
    assert_string_equal(stage, h->stage);
    if (h->n == 0) h->first = fraction;
    if (h->n && fraction < h->last) h->fell = 1;
    if (h->n && fraction - h->last > h->largest_step) h->largest_step = fraction - h->last;
    h->last = fraction;
    h->n++;
}

static void begin(reported *h, const char *stage)
{
    *h = (reported){.stage = stage};
    msi_progress_listen(record_progress, h);
    msi_progress_begin(stage);
}

static void end(const reported *h, const char *name, int least)
{
    const double before = h->last;
    msi_progress_end();
    msi_progress_listen(NULL, NULL);
    if (h->first != 0 || h->fell || h->last != 1)
        fail_msg("%s: first %g, last %g, fell %d", name, h->first, h->last, h->fell);
    /* The work reported its end, except for rounding: the stage's end adds nothing. */
    if (before < 1 - 1e-9) fail_msg("%s: over at %g", name, before);
    if (h->n < least) fail_msg("%s: %d steps, fewer than %d", name, h->n, least);
    printf("  %-28s %4d steps, the largest %.3f\n", name, h->n, h->largest_step);
}

static int serves(msi_gridder **g, const msi_gridder_spec *spec)
{
    const int rc = msi_gridder_create(g, spec);
    if (rc) assert_int_equal(rc, MSI_ERANGE);
    return !rc;
}

static void image_once(const msi_case_data *d, msi_gridder_spec spec, const char *name, int least)
{
    msi_gridder *g;
    msi_image image;
    reported h;
    spec.psf = 1;
    if (!serves(&g, &spec)) return;
    assert_int_equal(msi_gridder_add(g, &d->block), MSI_OK);
    begin(&h, "imaging");
    if (msi_gridder_image(g, &image)) fail_msg("%s: %s", name, msi_error_get());
    end(&h, name, least);
    msi_image_free(&image);
    msi_gridder_free(g);
}

static void predict_once(const msi_case_data *d, msi_gridder_spec spec, const char *name, int least)
{
    msi_gridder *g;
    msi_image model;
    reported h;
    spec.predict = 1;
    if (!serves(&g, &spec)) return;
    assert_int_equal(msi_image_alloc(&model, &spec.geometry, spec.n_plane, msi_gridder_precision(g)), MSI_OK);
    for (int64_t i = 0; i < msi_image_n_pixel(&spec.geometry) * spec.n_plane; i++) ((float *)model.pixel)[i] = 1;
    assert_int_equal(msi_gridder_model(g, &model), MSI_OK);
    assert_int_equal(msi_gridder_add(g, &d->block), MSI_OK);
    begin(&h, "predicting");
    if (msi_gridder_predict(g)) fail_msg("%s: %s", name, msi_error_get());
    end(&h, name, least);
    msi_gridder_free(g);
    msi_image_free(&model);
}

static void test_every_strategy(void **state)
{
    (void)state;
    /* Several segments, tiles and w-planes; towers need a wide field. */
    const msi_case c = {.name = "wide",
                        .nx = 256,
                        .ny = 240,
                        .field_x_rad = 0.3,
                        .w_ratio = 0.6,
                        .n_row = 20000,
                        .n_chan = 2,
                        .n_plane = 2,
                        .band = 1.2};
    /* With one thread the CPU sorts, grids and transforms in tens of pieces each; a GPU's pieces are batches. */
    const int least = backend == MSI_BACKEND_CPU ? 30 : 2;
    msi_case_data d;
    int n_strategy, n_met = 0;
    const msi_strategy *all = msi_strategies(&n_strategy);
    msi_case_make(&d, &c, 7);
    for (int i = 0; i < n_strategy; i++) {
        if (all[i].backend != backend) continue;
        msi_gridder_spec spec = {.geometry = d.geometry,
                                 .n_plane = d.block.n_plane,
                                 .method = all[i].method,
                                 .strategy = all[i].name,
                                 .accuracy = strcmp(all[i].method, "wproj") == 0 ? 1e-2 : 1e-3,
                                 .backend = backend,
                                 .n_thread = 1};
        char name[64];
        snprintf(name, sizeof name, "%s %s, %s", all[i].method, all[i].name, "images");
        if (msi_strategy_serves(&all[i], 0)) image_once(&d, spec, name, least);
        snprintf(name, sizeof name, "%s %s, %s", all[i].method, all[i].name, "predicts");
        if (msi_strategy_serves(&all[i], 1)) predict_once(&d, spec, name, least);
        n_met++;
    }
    assert_true(n_met > 0);
    msi_case_free(&d);
}

/* Density weights process the store twice: in batches of 16 parcels of up to 4096 samples, then by segments. */
static void test_weighting(void **state)
{
    (void)state;
    const msi_case c = {
        .name = "weights", .nx = 64, .ny = 64, .field_x_rad = 0.1, .w_ratio = 0.1, .n_row = 50000, .n_chan = 20};
    const msi_weighting rule = {.mode = MSI_WEIGHT_UNIFORM};
    msi_case_data d;
    msi_gridder *g;
    msi_density *density;
    reported h;
    msi_case_make(&d, &c, 8);
    const msi_gridder_spec spec = {
        .geometry = d.geometry, .n_plane = 1, .accuracy = 1e-3, .backend = MSI_BACKEND_CPU, .n_thread = 1};
    assert_int_equal(msi_gridder_create(&g, &spec), MSI_OK);
    assert_int_equal(msi_gridder_add(g, &d.block), MSI_OK);
    assert_int_equal(msi_density_create(&density, &d.geometry, &rule), MSI_OK);
    begin(&h, "weighting");
    msi_progress_share all = msi_progress_enter(0, 1, 2);
    assert_int_equal(msi_density_add(density, g), MSI_OK);
    msi_progress_leave(all);
    all = msi_progress_enter(1, 2, 2);
    assert_int_equal(msi_gridder_weight(g, density, &rule), MSI_OK);
    msi_progress_leave(all);
    /* 50000 rows are 250 parcels. The first thread, which reports, processes an unknown part of the second pass. */
    end(&h, "density weights", 250 / 16 + 2);
    msi_density_free(density);
    msi_gridder_free(g);
    msi_case_free(&d);
}

int main(int argc, char **argv)
{
    msi_case_choice chosen;
    const int skipped = msi_case_choose(argc, argv, &chosen);
    if (skipped) return skipped;
    backend = chosen.backend;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_strategy),
        cmocka_unit_test(test_weighting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
