/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "src/run/uv_plane.h"

enum { NX = 18, NY = 12 };
static const msi_image_geometry geometry = {NX, NY, 2e-5, 3e-5};

/* Compute V(u, v) = sum I exp(+2 pi i (u l + v m)) at a pixel of the uv plane by the definition. */
static void direct(const double *pixel, int x, int y, double *re, double *im)
{
    double u = (x - NX / 2) / (NX * geometry.cell_x_rad), v = (y - NY / 2) / (NY * geometry.cell_y_rad);
    *re = *im = 0;
    for (int j = 0; j < NY; j++)
        for (int i = 0; i < NX; i++) {
            double l = (NX / 2 - i) * geometry.cell_x_rad, m = (j - NY / 2) * geometry.cell_y_rad;
            double value = pixel[j * NX + i], phase = 2 * MSI_PI * (u * l + v * m);
            if (isnan(value)) continue;
            *re += value * cos(phase);
            *im += value * sin(phase);
        }
}

static void check(const double *image, const void *pixel, msi_precision precision)
{
    double *re, *im;
    assert_int_equal(msi_uv_plane(&geometry, pixel, precision, &re, &im), MSI_OK);
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++) {
            double want_re, want_im;
            direct(image, x, y, &want_re, &want_im);
            /* NX * NY terms of at most 1, phases of at most some tens: a few hundred roundings. */
            assert_true(fabs(re[y * NX + x] - want_re) < 1000 * DBL_EPSILON);
            assert_true(fabs(im[y * NX + x] - want_im) < 1000 * DBL_EPSILON);
        }
    msi_free(re);
    msi_free(im);
}

static void test_against_definition(void **state)
{
    (void)state;
    double image[NX * NY];
    float single[NX * NY];
    for (int i = 0; i < NX * NY; i++) {
        single[i] = (float)(((i * 7919) % 101) / 101.0 - 0.3);
        image[i] = (double)single[i];
    }
    check(image, image, MSI_FP64);
    check(image, single, MSI_FP32);
    /* Pixels beyond the horizon count as zero. */
    image[0] = image[NX * NY - 1] = image[5 * NX + 3] = NAN;
    check(image, image, MSI_FP64);
}

/* A source at the centre has the same real visibility everywhere; the phase of one to the east changes with u. */
static void test_single_pixels(void **state)
{
    (void)state;
    double image[NX * NY] = {0}, *re, *im;
    image[NY / 2 * NX + NX / 2] = 2;
    assert_int_equal(msi_uv_plane(&geometry, image, MSI_FP64, &re, &im), MSI_OK);
    for (int i = 0; i < NX * NY; i++) {
        assert_true(fabs(re[i] - 2) < 10 * DBL_EPSILON);
        assert_true(fabs(im[i]) < 10 * DBL_EPSILON);
    }
    msi_free(re);
    msi_free(im);
    memset(image, 0, sizeof image);
    image[NY / 2 * NX + NX / 2 - 1] = 1; /* lower x, larger l */
    assert_int_equal(msi_uv_plane(&geometry, image, MSI_FP64, &re, &im), MSI_OK);
    double phase = 2 * MSI_PI / NX;
    assert_true(fabs(re[NY / 2 * NX + NX / 2 + 1] - cos(phase)) < 10 * DBL_EPSILON);
    assert_true(fabs(im[NY / 2 * NX + NX / 2 + 1] - sin(phase)) < 10 * DBL_EPSILON);
    msi_free(re);
    msi_free(im);
}

static void test_too_little_memory(void **state)
{
    (void)state;
    double image[NX * NY] = {0}, *re, *im;
    msi_memory_limit_set(msi_memory_in_use() + NX * NY * 20);
    assert_int_equal(msi_uv_plane(&geometry, image, MSI_FP64, &re, &im), MSI_ENOMEM);
    assert_null(re);
    assert_null(im);
    msi_memory_limit_set(0);
    assert_int_equal(msi_memory_in_use(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_definition),
        cmocka_unit_test(test_single_pixels),
        cmocka_unit_test(test_too_little_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
