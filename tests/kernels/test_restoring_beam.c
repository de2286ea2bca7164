/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the fitted beam: gaussians of every size and angle, PSFs of few pixels a beam, choices, errors. */
#include <complex.h>
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
#include "kernels/restoring_beam.h"

static const double DEG = MSI_PI / 180;
static const double CELL = 1e-5;

static double gauss(double a, double b)
{
    return exp(-4 * log(2) * (a * a + b * b));
}

/* Make a gaussian PSF of the given beam, times `peak`, plus sidelobes of amplitude `side`: the same gaussian four beams
 * to each side, where its tail in the main lobe is below 1e-13. */
static void make_psf(double *psf, const msi_image_geometry *g, const msi_beam *beam, double peak, double side)
{
    for (int64_t y = 0; y < g->ny; y++) {
        for (int64_t x = 0; x < g->nx; x++) {
            double east = (double)(g->nx / 2 - x) * g->cell_x_rad, north = (double)(y - g->ny / 2) * g->cell_y_rad;
            double along = east * sin(beam->pa_rad) + north * cos(beam->pa_rad);
            double across = east * cos(beam->pa_rad) - north * sin(beam->pa_rad);
            double a = along / beam->major_rad, b = across / beam->minor_rad, sum = gauss(a, b);
            for (int i = -4; i <= 4; i += 8) sum += side * (gauss(a - i, b) + gauss(a, b - i));
            psf[y * g->nx + x] = peak * sum;
        }
    }
}

static const msi_psf_fit_constraints unbound;

static double angle_off(double a, double b)
{
    return fabs(remainder(a - b, MSI_PI));
}

/*
 * A gaussian is no sum of cosines below half a turn a pixel: with 5 pixels across, its transform is 6e-10 there, and
 * 2e-8 at the 0.45 turns that the window of resampling passes. With fewer pixels other PSFs are tested. With more than
 * 64 pixels there is no resampling, and least squares converges to rounding; a beam of 300 pixels leaves 1 - psf of
 * 1e-1, hardly less exact.
 */
static void check_beam(const msi_beam *got, const msi_beam *wanted)
{
    const double most = wanted->minor_rad > 64 * CELL ? 1e-9 : 1e-7;
    assert_true(fabs(got->major_rad / wanted->major_rad - 1) < most);
    assert_true(fabs(got->minor_rad / wanted->minor_rad - 1) < most);
    assert_true(angle_off(got->pa_rad, wanted->pa_rad) < 10 * most);
}

static void gaussians_are_found_exactly(void **state)
{
    (void)state;
    static const double size[][2] = {{5.2, 5}, {12, 5.5}, {40, 37}, {300, 90}};
    msi_image_geometry g = {160, 145, CELL, CELL};
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

enum { N_UV = 100 };

/* Sum the cosines of a PSF. uv are turns a pixel of the image of `factor` 1. */
static void sum_cosines(double *psf, const msi_image_geometry *g, const double uv[N_UV][2], int factor)
{
    double complex *turn; /* of each column, then of each row */
    assert_int_equal(msi_alloc(&turn, g->nx + g->ny, sizeof *turn, "test"), MSI_OK);
    memset(psf, 0, sizeof *psf * (size_t)msi_image_n_pixel(g));
    for (int i = 0; i < N_UV; i++) {
        for (int64_t x = 0; x < g->nx; x++)
            turn[x] = cexp(2 * MSI_PI * I * uv[i][0] * (double)(g->nx / 2 - x) / factor);
        for (int64_t y = 0; y < g->ny; y++)
            turn[g->nx + y] = cexp(2 * MSI_PI * I * uv[i][1] * (double)(y - g->ny / 2) / factor);
        for (int64_t y = 0; y < g->ny; y++)
            for (int64_t x = 0; x < g->nx; x++) psf[y * g->nx + x] += creal(turn[x] * turn[g->nx + y]) / N_UV;
    }
    msi_free(turn);
}

/*
 * The PSFs of random uv points in an ellipse, with 1.8 to 8 pixels a beam: the fit to their pixels is the fit to the
 * same PSF on pixels 16 times finer. Resampling these 64 pixels is exact to 1e-5. The two fits evaluate the edge of the
 * lobe on different pixels, 1/64 of the beam or less apart, which changes the beam by up to 1e-4.
 */
static void few_pixels_give_the_beam_of_fine_ones(void **state)
{
    (void)state;
    enum { FINER = 16, HALF = 10 };
    static const double most_u[][2] = {{0.39, 0.39}, {0.28, 0.28}, {0.3, 0.12}, {0.2, 0.17}, {0.09, 0.09}};
    const msi_image_geometry g = {64, 64, CELL, CELL},
                             fine = {2 * HALF * FINER + 1, 2 * HALF * FINER + 1, CELL / FINER, CELL / FINER};
    double uv[N_UV][2], *psf, *fine_psf;
    assert_int_equal(msi_alloc(&psf, msi_image_n_pixel(&g), sizeof *psf, "test"), MSI_OK);
    assert_int_equal(msi_alloc(&fine_psf, msi_image_n_pixel(&fine), sizeof *fine_psf, "test"), MSI_OK);
    srand(1);
    for (size_t k = 0; k < sizeof most_u / sizeof most_u[0]; k++) {
        for (int i = 0; i < N_UV; i++) {
            const double r = sqrt((double)rand() / RAND_MAX), turn = 2 * MSI_PI * rand() / RAND_MAX;
            const double p = most_u[k][0] * r * cos(turn), q = most_u[k][1] * r * sin(turn), tilt = 25 * DEG;
            uv[i][0] = p * cos(tilt) - q * sin(tilt);
            uv[i][1] = p * sin(tilt) + q * cos(tilt);
        }
        msi_beam got, wanted;
        sum_cosines(psf, &g, uv, 1);
        sum_cosines(fine_psf, &fine, uv, FINER);
        for (int circular = 0; circular < 2; circular++) {
            const msi_psf_fit_constraints constraints = {.circular = circular};
            assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &constraints), MSI_OK);
            assert_int_equal(msi_psf_fit(&wanted, &fine, fine_psf, MSI_FP64, &constraints), MSI_OK);
            assert_true(fabs(got.major_rad / wanted.major_rad - 1) < 2e-4);
            assert_true(fabs(got.minor_rad / wanted.minor_rad - 1) < 2e-4);
        }
    }
    msi_free(psf);
    msi_free(fine_psf);
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
    check_beam(&got, &wanted);
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
    msi_image_geometry g = {64, 64, CELL, CELL};
    double psf[4096];
    msi_beam wanted = {9 * CELL, 5 * CELL, 70 * DEG}, got;
    make_psf(psf, &g, &wanted, 1, 0);
    for (int i = 0; i < 4096; i++)
        if (i % 64 > 34) psf[i] = NAN;
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &unbound), MSI_OK);
    check_beam(&got, &wanted);
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
    check_beam(&got, &round);
    assert_true(got.minor_rad == got.major_rad && got.pa_rad == 0);
    make_psf(psf, &g, &oval, 1, 0);
    assert_int_equal(msi_psf_fit(&got, &g, psf, MSI_FP64, &circle), MSI_OK);
    assert_true(got.minor_rad == got.major_rad && got.major_rad > oval.minor_rad && got.major_rad < oval.major_rad);
}

/* Of a sum of two gaussians, a small box sees the curvature at the centre: 1 / width^2 is the mean of the two. */
static void a_box_limits_what_is_fitted(void **state)
{
    (void)state;
    msi_image_geometry g = {128, 128, CELL, CELL};
    static double psf[128 * 128], wide[128 * 128];
    const msi_beam narrow = {8 * CELL, 8 * CELL, 0}, broad = {30 * CELL, 30 * CELL, 0};
    const double middle = CELL / sqrt(0.6 / 64 + 0.4 / 900);
    msi_beam all, inner, tiny;
    make_psf(psf, &g, &narrow, 0.6, 0);
    make_psf(wide, &g, &broad, 0.4, 0);
    for (int i = 0; i < 128 * 128; i++) psf[i] += wide[i];
    assert_int_equal(msi_psf_fit(&all, &g, psf, MSI_FP64, &unbound), MSI_OK);
    assert_int_equal(msi_psf_fit(&inner, &g, psf, MSI_FP64, &(msi_psf_fit_constraints){.box_rad = 8 * CELL}), MSI_OK);
    assert_int_equal(msi_psf_fit(&tiny, &g, psf, MSI_FP64, &(msi_psf_fit_constraints){.box_rad = 2 * CELL}), MSI_OK);
    assert_true(tiny.major_rad < inner.major_rad && 1.1 * inner.major_rad < all.major_rad);
    assert_true(fabs(tiny.major_rad / middle - 1) < 0.01);
}

/* WSClean 3.1 sees one quarter of a box of ten beams: nothing else matters, and a gaussian is found exactly. */
static void wsclean_fits_a_quarter_of_a_box(void **state)
{
    (void)state;
    msi_image_geometry g = {128, 128, CELL, CELL};
    static double psf[128 * 128];
    const msi_beam wanted = {6 * CELL, 4 * CELL, 30 * DEG};
    for (int other = 0; other < 2; other++) {
        msi_beam got;
        make_psf(psf, &g, &wanted, 0.7, 0);
        for (int i = 0; i < 128 * 128; i++) {
            const int x = i % 128 - 64, y = i / 128 - 64;
            /* The first box is 30 pixels wide, the second, of the beam found, 60. */
            if (other && (x < 0 || y < 0 || x >= 30 || y >= 30)) psf[i] = 0.5;
        }
        assert_int_equal(msi_psf_fit_wsclean(&got, &g, psf, MSI_FP64, 3 * CELL, 0, 0), MSI_OK);
        check_beam(&got, &wanted);
        assert_int_equal(msi_psf_fit_wsclean(&got, &g, psf, MSI_FP64, 3 * CELL, 0, 1), MSI_OK);
        assert_true(got.major_rad == got.minor_rad && got.minor_rad > wanted.minor_rad &&
                    got.major_rad < wanted.major_rad);
    }
    psf[64 * 128 + 65] = 2; /* sidelobes within the box count */
    msi_beam_psf of = {g, psf, MSI_FP64, 3 * CELL};
    msi_beam beam;
    msi_beam_origin origin;
    assert_int_equal(msi_restoring_beam(&beam, &origin, &(msi_beam_choice){.rule = MSI_BEAM_WSCLEAN}, &of), MSI_OK);
    assert_true(origin == MSI_BEAM_FITTED && beam.major_rad > 1.01 * wanted.major_rad);
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
        cmocka_unit_test(gaussians_are_found_exactly),  cmocka_unit_test(few_pixels_give_the_beam_of_fine_ones),
        cmocka_unit_test(angle_grows_towards_lower_x),  cmocka_unit_test(oblong_pixels_and_sidelobes),
        cmocka_unit_test(psf_without_lobe_has_no_beam), cmocka_unit_test(half_of_it_may_be_missing),
        cmocka_unit_test(circles_have_one_width),       cmocka_unit_test(a_box_limits_what_is_fitted),
        cmocka_unit_test(beams_follow_the_choice),      cmocka_unit_test(wsclean_fits_a_quarter_of_a_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
