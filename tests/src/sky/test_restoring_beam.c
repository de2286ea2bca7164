/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the fitted beam: gaussians of every size and angle are exact; errors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/sky/restoring_beam.h"

static const double DEG = MSI_PI / 180;
static const double CELL = 1e-5;

/* Make a gaussian PSF of the given beam in cells of the y axis, times `peak`, plus a ring of sidelobes of amplitude
 * `ring`.
 */
static void make_psf(double *psf, const msi_image_geometry *g, const msi_beam *beam, double peak, double ring)
{
    for (int64_t y = 0; y < g->ny; y++) {
        for (int64_t x = 0; x < g->nx; x++) {
            double east = (double)(g->nx / 2 - x) * g->cell_x_rad, north = (double)(y - g->ny / 2) * g->cell_y_rad;
            double along = east * sin(beam->pa_rad) + north * cos(beam->pa_rad);
            double across = east * cos(beam->pa_rad) - north * sin(beam->pa_rad);
            double r2 = pow(along / beam->major_rad, 2) + pow(across / beam->minor_rad, 2);
            psf[y * g->nx + x] = peak * (exp(-4 * log(2) * r2) + (r2 > 2 ? ring * cos(9 * sqrt(r2)) : 0));
        }
    }
}

static const msi_psf_fit_constraints unbound;

static double angle_off(double a, double b)
{
    return fabs(remainder(a - b, MSI_PI));
}

/* Without noise the residual vanishes at the solution, where least squares converges to rounding; a beam of 300 pixels
 * leaves 1 - psf of 1e-1, hardly less exact. */
static void check_beam(const msi_beam *got, const msi_beam *wanted)
{
    assert_true(fabs(got->major_rad / wanted->major_rad - 1) < 1e-9);
    assert_true(fabs(got->minor_rad / wanted->minor_rad - 1) < 1e-9);
    assert_true(angle_off(got->pa_rad, wanted->pa_rad) < 1e-8);
}

static void gaussians_are_found_exactly(void **state)
{
    (void)state;
    static const double size[][2] = {{1.3, 1.2}, {2, 1.7}, {2.5, 2}, {5, 3}, {12, 4.5}, {40, 37}, {300, 90}};
    msi_image_geometry g = {96, 81, CELL, CELL};
    double *psf;
    assert_int_equal(msi_alloc(&psf, msi_image_n_pixel(&g), sizeof *psf, "test"), MSI_OK);
    for (size_t k = 0; k < sizeof size / sizeof size[0]; k++) {
        for (double pa = 0; pa < 180; pa += 17) {
            msi_beam wanted = {size[k][0] * CELL, size[k][1] * CELL, pa * DEG}, got;
            make_psf(psf, &g, &wanted, 0.7, 0);
            assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_OK);
            check_beam(&got, &wanted);
            assert_true(got.pa_rad >= 0 && got.pa_rad < MSI_PI);
        }
    }
    msi_free(psf);
}

static void angle_grows_towards_lower_x(void **state)
{
    (void)state;
    msi_image_geometry g = {5, 5, CELL, CELL};
    float psf[25] = {0};
    psf[12] = 1;
    psf[11] = psf[13] = psf[7] = psf[17] = 0.5F;
    psf[3 * 5 + 1] = psf[1 * 5 + 3] = 0.6F; /* north-east (up, lower x) and south-west */
    psf[3 * 5 + 3] = psf[1 * 5 + 1] = 0.1F;
    msi_beam got;
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP32, &unbound), MSI_OK);
    assert_true(angle_off(got.pa_rad, 45 * DEG) < 1e-6);
    assert_true(got.major_rad > 1.3 * got.minor_rad);
}

static void oblong_pixels_and_sidelobes(void **state)
{
    (void)state;
    msi_image_geometry g = {128, 64, CELL, 3 * CELL};
    double psf[128 * 64];
    msi_beam wanted = {21 * CELL, 14 * CELL, 100 * DEG}, got;
    make_psf(psf, &g, &wanted, 1, 0);
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_OK);
    check_beam(&got, &wanted);
    /* Sidelobes above the threshold that are not connected to the lobe do not change the beam. */
    msi_image_geometry square = {128, 64, CELL, CELL};
    wanted = (msi_beam){8 * CELL, 6 * CELL, 30 * DEG};
    make_psf(psf, &square, &wanted, 1, 0.5);
    assert_int_equal(msi_psf_fit(&got, &square, psf, MSI_FP64, &unbound), MSI_OK);
    assert_true(fabs(got.major_rad / wanted.major_rad - 1) < 1e-9);
    assert_true(fabs(got.minor_rad / wanted.minor_rad - 1) < 1e-9);
}

static void psf_without_lobe_has_no_beam(void **state)
{
    (void)state;
    msi_image_geometry g = {16, 16, CELL, CELL};
    double psf[256];
    msi_beam got;
    for (int i = 0; i < 256; i++) psf[i] = 1;
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_ERANGE);
    assert_true(isnan(got.major_rad) && isnan(got.minor_rad) && isnan(got.pa_rad));
    assert_false(msi_beam_known(&got));
    for (int i = 0; i < 256; i++) psf[i] = i % 16 == 8; /* a wall from edge to edge */
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_ERANGE);
    psf[8 * 16 + 8] = 0;
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_ERANGE);
    psf[8 * 16 + 8] = NAN;
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_ERANGE);
    for (int i = 0; i < 256; i++) psf[i] = NAN;
    psf[8 * 16 + 8] = 1;
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_ERANGE);
    msi_image_geometry one = {1, 1, CELL, CELL};
    assert_int_equal(msi_psf_fit(&got, &one, (double[]){1}, MSI_FP64, &unbound), MSI_ERANGE);
}

static void half_of_it_may_be_missing(void **state)
{
    (void)state;
    msi_image_geometry g = {32, 32, CELL, CELL};
    double psf[1024];
    msi_beam wanted = {9 * CELL, 5 * CELL, 70 * DEG}, got;
    make_psf(psf, &g, &wanted, 1, 0);
    for (int i = 0; i < 1024; i++)
        if (i % 32 > 18) psf[i] = NAN;
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_OK);
    assert_true(fabs(got.major_rad / wanted.major_rad - 1) < 1e-9);
}

/* The circle that is fitted to an ellipse is between its widths; for a circle it is exact. */
static void circles_have_one_width(void **state)
{
    (void)state;
    msi_image_geometry g = {64, 64, CELL, CELL};
    static double psf[4096];
    const msi_psf_fit_constraints circle = {.circular = 1};
    msi_beam round = {6 * CELL, 6 * CELL, 0}, oval = {9 * CELL, 5 * CELL, 70 * DEG}, got;
    make_psf(psf, &g, &round, 1, 0.2);
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &circle), MSI_OK);
    assert_true(fabs(got.major_rad / round.major_rad - 1) < 1e-9 && got.minor_rad == got.major_rad && got.pa_rad == 0);
    make_psf(psf, &g, &oval, 1, 0);
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &circle), MSI_OK);
    assert_true(got.minor_rad == got.major_rad && got.major_rad > oval.minor_rad && got.major_rad < oval.major_rad);
}

/* For a lobe that is not a gaussian, only the part within the box counts. */
static void a_box_limits_what_is_fitted(void **state)
{
    (void)state;
    msi_image_geometry g = {64, 64, CELL, CELL};
    static double psf[4096];
    msi_beam core = {4 * CELL, 4 * CELL, 0}, all, inner;
    const msi_psf_fit_constraints narrow = {.box_rad = 6 * CELL};
    make_psf(psf, &g, &core, 1, 0);
    for (int i = 0; i < 4096; i++)
        if (hypot(i % 64 - 32, i / 64 - 32) > 3) psf[i] = hypot(i % 64 - 32, i / 64 - 32) < 12 ? 0.4 : 0;
    psf[32 * 64 + 35] = psf[32 * 64 + 29] = psf[35 * 64 + 32] = psf[29 * 64 + 32] = 0.36;
    assert_int_equal(msi_psf_fit(&inner, &g, psf, MSI_FP64, &(msi_psf_fit_constraints){.box_rad = 4 * CELL}), MSI_OK);
    assert_true(fabs(inner.major_rad / core.major_rad - 1) < 1e-9);
    assert_int_equal(msi_psf_fit(&all, &g, psf, MSI_FP64, &unbound), MSI_OK);
    assert_true(all.major_rad > 1.5 * core.major_rad);
    assert_int_equal(msi_psf_fit(&inner, &g, psf, MSI_FP64, &narrow), MSI_OK);
    assert_true(inner.major_rad < 1.5 * core.major_rad);
}

static void beams_follow_the_choice(void **state)
{
    (void)state;
    static double image[4096];
    msi_beam_psf psf = {.geometry = {64, 64, CELL, CELL}, .pixel = image, .precision = MSI_FP64};
    const msi_beam wanted = {6 * CELL, 4 * CELL, 30 * DEG}, given = {3 * CELL, 2 * CELL, 1};
    msi_beam beam;
    msi_beam_origin origin;
    make_psf(image, &psf.geometry, &wanted, 1, 0);
    assert_int_equal(msi_restoring_beam(&beam, &origin, &(msi_beam_choice){0}, &psf), MSI_OK);
    assert_true(origin == MSI_BEAM_FITTED && fabs(beam.major_rad / wanted.major_rad - 1) < 1e-9);
    msi_beam_choice choice = {.given = given, .circular = 1, .theoretic = 1, .no_fit = 1};
    assert_int_equal(msi_restoring_beam(&beam, &origin, &choice, &psf), MSI_OK);
    assert_true(origin == MSI_BEAM_GIVEN && beam.major_rad == given.major_rad && beam.pa_rad == 1);
    choice.given = (msi_beam){0};
    assert_int_equal(msi_restoring_beam(&beam, &origin, &choice, &psf), MSI_OK);
    assert_true(origin == MSI_BEAM_NONE && !msi_beam_known(&beam));
    psf.theoretic_rad = 5 * CELL;
    assert_int_equal(msi_restoring_beam(&beam, &origin, &choice, &psf), MSI_OK);
    assert_true(origin == MSI_BEAM_THEORETIC && beam.major_rad == 5 * CELL && beam.minor_rad == 5 * CELL);
    choice.theoretic = 0;
    assert_int_equal(msi_restoring_beam(&beam, &origin, &choice, &psf), MSI_OK);
    assert_true(origin == MSI_BEAM_NONE && !msi_beam_known(&beam));
    for (int i = 0; i < 4096; i++) image[i] = 1;
    assert_int_equal(msi_restoring_beam(&beam, &origin, &(msi_beam_choice){0}, &psf), MSI_OK);
    assert_true(origin == MSI_BEAM_NONE && !msi_beam_known(&beam));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaussians_are_found_exactly), cmocka_unit_test(angle_grows_towards_lower_x),
        cmocka_unit_test(oblong_pixels_and_sidelobes), cmocka_unit_test(psf_without_lobe_has_no_beam),
        cmocka_unit_test(half_of_it_may_be_missing),   cmocka_unit_test(circles_have_one_width),
        cmocka_unit_test(a_box_limits_what_is_fitted), cmocka_unit_test(beams_follow_the_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
