/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests images: sizes, values in both precisions, and allocation without enough memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/image.h"
#include "core/memory.h"
#include "core/status.h"

static const msi_image_geometry geometry = {.nx = 6, .ny = 4, .cell_x_rad = 1e-3, .cell_y_rad = 2e-3};

static void test_images_are_zero_and_sized(void **state)
{
    (void)state;
    const int64_t before = msi_memory_in_use();
    for (msi_precision precision = MSI_FP32; precision <= MSI_FP64; precision++) {
        msi_image image;
        memset(&image, 0xff, sizeof image);
        assert_int_equal(msi_image_alloc(&image, &geometry, 3, precision), MSI_OK);
        assert_int_equal(msi_image_n_pixel(&image.geometry), 24);
        assert_int_equal(msi_image_pixel_bytes(precision), precision == MSI_FP32 ? sizeof(float) : sizeof(double));
        assert_true(image.n_plane == 3 && image.precision == precision);
        for (int64_t i = 0; i < 3 * 24; i++) {
            assert_true(msi_image_value(image.pixel, precision, i) == 0);
            if (precision == MSI_FP32)
                ((float *)image.pixel)[i] = (float)i + 0.5F;
            else
                ((double *)image.pixel)[i] = (double)i + 0.5;
            assert_true(msi_image_value(image.pixel, precision, i) == (double)i + 0.5);
        }
        for (int p = 0; p < 3; p++) assert_true(image.sum_weight[p] == 0 && image.n_vis[p] == 0);
        msi_image_free(&image);
        assert_true(image.pixel == NULL && image.sum_weight == NULL && image.n_vis == NULL);
        msi_image_free(&image);
        assert_int_equal(msi_memory_in_use(), before);
    }
    msi_image_free(NULL);
}

static void test_a_refused_image_is_empty(void **state)
{
    (void)state;
    const int64_t before = msi_memory_in_use();
    /* The limit is less than the pixels; then the pixels fit, but not the other arrays. */
    const int64_t limits[] = {64, 24 * 8 + 64};
    for (int i = 0; i < 2; i++) {
        msi_image image;
        msi_memory_limit_set(before + limits[i]);
        assert_int_equal(msi_image_alloc(&image, &geometry, 1, MSI_FP64), MSI_ENOMEM);
        assert_true(image.pixel == NULL && image.sum_weight == NULL && image.n_vis == NULL);
        assert_int_equal(msi_memory_in_use(), before);
    }
    msi_memory_limit_set(0);
    msi_image image;
    const msi_image_geometry huge = {.nx = INT64_C(1) << 31, .ny = INT64_C(1) << 31};
    assert_int_equal(msi_image_alloc(&image, &huge, 1, MSI_FP64), MSI_ENOMEM);
}

/* The sum of images is the image of all samples. An image without samples, which is NaN, does not change it. */
static void test_images_add_up_by_their_weights(void **state)
{
    (void)state;
    for (msi_precision precision = MSI_FP32; precision <= MSI_FP64; precision++) {
        msi_image sum, image;
        assert_int_equal(msi_image_alloc(&sum, &geometry, 2, precision), MSI_OK);
        assert_int_equal(msi_image_alloc(&image, &geometry, 2, precision), MSI_OK);
        /* Plane 0: value 1 of weight 3, then 5 of weight 1; plane 1: 8 of weight 2, then no samples. */
        const double value[2][2] = {{1, 8}, {5, 0}}, weight[2][2] = {{3, 2}, {1, 0}};
        for (int k = 0; k < 2; k++) {
            for (int p = 0; p < 2; p++) {
                image.sum_weight[p] = weight[k][p];
                image.n_vis[p] = weight[k][p] > 0 ? 10 + k : 0;
                for (int i = 24 * p; i < 24 * (p + 1); i++) {
                    if (precision == MSI_FP32)
                        ((float *)image.pixel)[i] = (float)value[k][p];
                    else
                        ((double *)image.pixel)[i] = value[k][p];
                }
            }
            if (k == 1) msi_image_fill_nan(&image, 1);
            msi_image_add(&sum, &image);
        }
        for (int i = 0; i < 48; i++) {
            assert_true(msi_image_value(sum.pixel, precision, i) == (i < 24 ? 2 : 8));
            assert_int_equal(isnan(msi_image_value(image.pixel, precision, i)) != 0, i >= 24);
        }
        assert_true(sum.sum_weight[0] == 4 && sum.sum_weight[1] == 2);
        assert_true(sum.n_vis[0] == 21 && sum.n_vis[1] == 10);
        msi_image_free(&sum);
        msi_image_free(&image);
    }
}

static void test_beam_is_known_where_it_has_widths(void **state)
{
    (void)state;
    const msi_beam none = {0}, whole = {.major_rad = 2e-5, .minor_rad = 1e-5}, half = {.major_rad = 2e-5};
    assert_false(msi_beam_known(&none));
    assert_false(msi_beam_known(&half));
    assert_true(msi_beam_known(&whole));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images_are_zero_and_sized),
        cmocka_unit_test(test_a_refused_image_is_empty),
        cmocka_unit_test(test_images_add_up_by_their_weights),
        cmocka_unit_test(test_beam_is_known_where_it_has_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
