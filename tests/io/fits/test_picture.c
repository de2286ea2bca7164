/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pictures: what can be said of one without eyes. */
#include <cairo.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/fits/picture.h"
#include "io/fits/picture_colour.h"

static char path[64];

static int make_name(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/msimage-test-%d.png", (int)getpid());
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static int draw(const msi_image_geometry *g, double dec_deg, const char *frame, const float *pixel, msi_fits_kind kind)
{
    msi_observation o;
    memset(&o, 0, sizeof o);
    snprintf(o.dir_frame, sizeof o.dir_frame, "%s", frame);
    strcpy(o.object, "a name");
    msi_fits_spec spec = {.kind = kind,
                          .geometry = *g,
                          .observation = &o,
                          .ra_rad = 0.01,
                          .dec_rad = dec_deg * MSI_PI / 180,
                          .freq_hz = 1.4e9,
                          .pol = MSI_POL_I,
                          .beam = {5 * g->cell_y_rad, 3 * g->cell_y_rad, 0.4}};
    const char *name = path;
    msi_publish *p;
    int rc = msi_publish_plan(&p, &name, 1, 1);
    if (!rc) rc = msi_picture_write(p, 0, &spec, pixel, MSI_FP32);
    if (!rc) rc = msi_publish_commit(p);
    msi_publish_free(p);
    return rc;
}

/* Fields from milliarcseconds to the whole sky, also over both poles; images of one pixel, without value, constant. */
static void every_field_is_drawn(void **state)
{
    (void)state;
    static const double dec_deg[] = {0, 45, -60, 89.99, 90, -90};
    static const double field_deg[] = {1e-9, 1e-4, 0.01, 1, 40, 170};
    static const struct {
        int nx, ny;
        float value;
    } image[] = {{1, 1, 3}, {64, 64, NAN}, {64, 48, 0}, {40, 1300, 1}};
    for (size_t i = 0; i < 6; i++) {
        for (size_t k = 0; k < 6; k++) {
            size_t m = (i + k) % 4;
            msi_image_geometry g = {image[m].nx, image[m].ny, 0, 0};
            g.cell_x_rad = g.cell_y_rad = field_deg[k] * MSI_PI / 180 / (image[m].ny > 64 ? 1300 : 64);
            float *pixel;
            assert_int_equal(msi_alloc(&pixel, msi_image_n_pixel(&g), sizeof *pixel, "test"), MSI_OK);
            for (int64_t x = 0; x < msi_image_n_pixel(&g); x++) pixel[x] = image[m].value;
            int rc = draw(&g, dec_deg[i], i % 2 ? "GALACTIC" : "J2000", pixel, MSI_FITS_DIRTY);
            if (rc) fail_msg("dec %g, field %g: %s", dec_deg[i], field_deg[k], msi_error_get());
            msi_free(pixel);
            cairo_surface_t *s = cairo_image_surface_create_from_png(path);
            assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
            assert_true(cairo_image_surface_get_width(s) > 200 && cairo_image_surface_get_width(s) < 1600);
            assert_true(cairo_image_surface_get_height(s) > 700 && cairo_image_surface_get_height(s) < 1600);
            cairo_surface_destroy(s);
        }
    }
}

static unsigned pixel_of(cairo_surface_t *s, int x, int y)
{
    const unsigned char *data = cairo_image_surface_get_data(s);
    uint32_t v;
    memcpy(&v, data + (ptrdiff_t)y * cairo_image_surface_get_stride(s) + 4 * (ptrdiff_t)x, sizeof v);
    return v & 0xffffff;
}

/* A bright block in the upper left quarter is seen there; where there is no value, grey. */
static void north_is_up_and_no_value_is_grey(void **state)
{
    (void)state;
    enum { N = 1000 };
    msi_image_geometry g = {N, N, 1e-6, 1e-6};
    float *pixel;
    assert_int_equal(msi_alloc(&pixel, N * N, sizeof *pixel, "test"), MSI_OK);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++)
            pixel[y * N + x] = y > 700 && x < 300   ? 10.F
                               : y < 300 && x > 700 ? NAN
                                                    : (float)((x * 7 + y * 3) % 10) * 0.01F;
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_MODEL), MSI_OK);
    msi_free(pixel);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour);
    int n_bright_upper_left = 0, n_grey_lower_right = 0, n_bright_elsewhere = 0;
    /* The image is 1000 canvas pixels a side, 150 from the left and 100 from the top. */
    for (int y = 0; y < N; y += 5) {
        for (int x = 0; x < N; x += 5) {
            unsigned v = pixel_of(s, 150 + x, 100 + y);
            int upper_left = y < 290 && x < 290;
            n_bright_upper_left += upper_left && v == colour[MSI_N_COLOUR - 1];
            n_bright_elsewhere += !(y < 310 && x < 310) && v == colour[MSI_N_COLOUR - 1];
            n_grey_lower_right += x > 710 && y > 710 && v == 0xd8d8d8;
        }
    }
    cairo_surface_destroy(s);
    /* 58 x 58 points each, less those under a grid line. */
    assert_true(n_bright_upper_left > 2900);
    assert_true(n_grey_lower_right > 2900);
    assert_int_equal(n_bright_elsewhere, 0);
}

static void uv_planes_are_refused(void **state)
{
    (void)state;
    msi_image_geometry g = {4, 4, 1e-6, 1e-6};
    float pixel[16] = {0};
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_UV_REAL), MSI_ERANGE);
}

static void stretch_is_monotonic_and_inverts(void **state)
{
    (void)state;
    float value[1000];
    for (int i = 0; i < 1000; i++) value[i] = (float)sin(i * 12.9898) * 0.01F;
    value[500] = 5;
    msi_stretch s;
    assert_int_equal(msi_stretch_fit(&s, value, 1000), MSI_OK);
    assert_true(s.high == 5);
    double last = -1;
    for (double v = s.low; v <= s.high; v += 0.01) {
        double t = msi_stretch_apply(&s, v);
        assert_true(t > last);
        last = t;
        assert_true(fabs(msi_stretch_invert(&s, t) - v) < 1e-12);
    }
}

/* Even steps of lightness are what makes a colour map honest: luminance grows all the way. */
static void colours_grow_lighter(void **state)
{
    (void)state;
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour);
    double last = -1;
    for (int i = 0; i < MSI_N_COLOUR; i++) {
        double luminance = 0;
        const double weight[3] = {0.2126, 0.7152, 0.0722};
        for (int k = 0; k < 3; k++) luminance += weight[k] * pow((double)(colour[i] >> (16 - 8 * k) & 255) / 255, 2.2);
        /* Rounding to 8 bits may hold a step back by half a level of each channel: at most 2.2 / 510. */
        assert_true(luminance > last - 2.2 / 510);
        last = luminance;
    }
    assert_true(last > 0.8);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_name, remove_file)
    const struct CMUnitTest tests[] = {
        TEST(every_field_is_drawn),
        TEST(north_is_up_and_no_value_is_grey),
        TEST(uv_planes_are_refused),
        cmocka_unit_test(stretch_is_monotonic_and_inverts),
        cmocka_unit_test(colours_grow_lighter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
