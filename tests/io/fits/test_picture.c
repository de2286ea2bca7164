/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pictures: properties that a program can check. */
#include <cairo.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/fits/picture.h"
#include "io/fits/picture_draw.h"
#include "tests/support/temp_folder.h"

static const char path[] = "picture.png";

/* Polarisation and style of the picture. */
static msi_pol pol = MSI_POL_I;
static msi_picture_style style;

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
                          .pol = pol,
                          .beam = {5 * g->cell_y_rad, 3 * g->cell_y_rad, 0.4}};
    const char *name = path;
    msi_publish *p;
    int rc = msi_publish_plan(&p, &name, 1, 1);
    if (!rc) rc = msi_picture_write(p, 0, &spec, &style, pixel, MSI_FP32);
    if (!rc) rc = msi_publish_commit(p);
    msi_publish_free(p);
    return rc;
}

/* Draw fields from milliarcseconds to the whole sky, also over both poles; images of one pixel, without value,
 * constant. */
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

/* A bright block in the upper left quarter is drawn there. Pixels without a value are grey. */
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
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_MASK), MSI_OK);
    msi_free(pixel);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour, MSI_VALUES_BRIGHTNESS);
    int n_bright_upper_left = 0, n_grey_lower_right = 0, n_bright_elsewhere = 0;
    /* The image has 1000 canvas pixels per side and begins 150 from the left and 100 from the top. */
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

/* A component of one pixel is drawn with half a beam, here 1.9 pixels wide: its neighbour is lit, pixels far away are
 * not. In another kind of image only its own pixel is. */
static void components_can_be_seen(void **state)
{
    (void)state;
    enum { N = 100, X = 37, Y = 68 };
    static float pixel[N * N];
    const msi_image_geometry g = {N, N, 1e-6, 1e-6};
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour, MSI_VALUES_BRIGHTNESS);
    pixel[Y * N + X] = 1;
    for (int is_model = 0; is_model < 2; is_model++) {
        assert_int_equal(draw(&g, 20, "J2000", pixel, is_model ? MSI_FITS_MODEL : MSI_FITS_MASK), MSI_OK);
        cairo_surface_t *s = cairo_image_surface_create_from_png(path);
        uint32_t at[7];
        /* 8 canvas pixels a pixel, because the picture of a small image has at least 800. */
        for (int d = 0; d < 7; d++) at[d] = pixel_of(s, 150 + 8 * (X + d) + 3, 100 + 8 * (N - 1 - Y) + 3);
        cairo_surface_destroy(s);
        assert_int_equal(at[0], colour[MSI_N_COLOUR - 1]);
        assert_true((at[1] != at[6]) == is_model);
        assert_int_equal(at[5], at[6]);
    }
}

/* A picture of the whole sky about a pole has labels inside the image, and none lies upon another: their ground is 0.55
 * of a bright image, two of them would be 0.3. */
static void labels_at_a_pole_do_not_overlap(void **state)
{
    (void)state;
    enum { N = 500 };
    const msi_image_geometry g = {N, N, 2.4 / N, 2.4 / N};
    float *pixel;
    int n_ground = 0, n_darker = 0;
    assert_int_equal(msi_alloc(&pixel, N * N, sizeof *pixel, "test"), MSI_OK);
    for (int i = 0; i < N * N; i++) pixel[i] = 1;
    style = (msi_picture_style){1, 0, 1};
    assert_int_equal(draw(&g, 89, "J2000", pixel, MSI_FITS_DIRTY), MSI_OK);
    style = (msi_picture_style){0, 0, 0};
    msi_free(pixel);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    /* The image has 1000 canvas pixels a side from (150, 100), 417 of them from the centre to the horizon. */
    for (int y = 300; y < 900; y++)
        for (int x = 400; x < 900; x++) {
            const unsigned green = pixel_of(s, x, y) >> 8 & 255;
            n_ground += green > 120 && green < 150;
            n_darker += green < 110;
        }
    cairo_surface_destroy(s);
    /* Eight hours and the declinations from 75 to 45 degrees have about 30 x 19 pixels each, a half of them ground. */
    assert_true(n_ground > 2500);
    assert_int_equal(n_darker, 0);
}

static void uv_planes_are_refused(void **state)
{
    (void)state;
    msi_image_geometry g = {4, 4, 1e-6, 1e-6};
    float pixel[16] = {0};
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_UV_REAL), MSI_ERANGE);
}

/* Count the points of a colour in a square of the canvas, of every fifth point. */
static int count(cairo_surface_t *s, int x0, int y0, int side, unsigned colour)
{
    int n = 0;
    for (int y = y0; y < y0 + side; y += 5)
        for (int x = x0; x < x0 + side; x += 5) n += pixel_of(s, x, y) == colour;
    return n;
}

/* Draw Stokes Q of +1 in the upper half and -2 in the lower, zero about the middle: red above, white, blue below, each
 * as far from white as its size says. */
static void zero_is_white(void **state)
{
    (void)state;
    enum { N = 1000 };
    const msi_image_geometry g = {N, N, 1e-6, 1e-6};
    float *pixel;
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour, MSI_VALUES_SIGNED);
    assert_int_equal(colour[127], 0xffffff);
    assert_int_equal(colour[128], 0xffffff);
    assert_int_equal(msi_alloc(&pixel, N * N, sizeof *pixel, "test"), MSI_OK);
    for (int y = 0; y < N; y++)
        for (int x = 0; x < N; x++) pixel[y * N + x] = y >= 600 ? 1.F : y < 400 ? -2.F : 0.F;
    pol = MSI_POL_Q;
    style = (msi_picture_style){1, -1, 2};
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_DIRTY), MSI_OK);
    pol = MSI_POL_I;
    style = (msi_picture_style){0, 0, 0};
    msi_free(pixel);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    /* Of 40 x 40 points each, few lie under a grid line. From -2 to 2, 1 is three quarters of the way. */
    assert_true(count(s, 300, 150, 200, colour[191]) > 1200);
    assert_true(count(s, 300, 510, 180, 0xffffff) > 1000);
    assert_true(count(s, 300, 800, 200, colour[0]) > 1200);
    cairo_surface_destroy(s);
}

/* Values outside the range have the colours of its ends. */
static void range_is_applied(void **state)
{
    (void)state;
    enum { N = 1000 };
    const msi_image_geometry g = {N, N, 1e-6, 1e-6};
    float *pixel;
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour, MSI_VALUES_BRIGHTNESS);
    assert_int_equal(msi_alloc(&pixel, N * N, sizeof *pixel, "test"), MSI_OK);
    for (int i = 0; i < N * N; i++) pixel[i] = i / N >= 600 ? 7.F : i / N < 400 ? -7.F : 1.5F;
    style = (msi_picture_style){1, 1, 2};
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_DIRTY), MSI_OK);
    style = (msi_picture_style){0, 0, 0};
    msi_free(pixel);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_true(count(s, 300, 150, 200, colour[MSI_N_COLOUR - 1]) > 1200);
    /* 1.5 lies between the two middle colours. */
    assert_true(count(s, 300, 510, 180, colour[127]) + count(s, 300, 510, 180, colour[128]) > 1000);
    assert_true(count(s, 300, 800, 200, colour[0]) > 1200);
    cairo_surface_destroy(s);
}

/* A PSF is cut to 8 beams on either side, here 40 pixels, with the ellipse drawn in blue; the whole is 2000 wide. */
static void psf_shows_its_inner_beams(void **state)
{
    (void)state;
    enum { N = 2000, SHOWN = 80, MAGNIFIED = 10 };
    const msi_image_geometry g = {N, N, 1e-6, 1e-6};
    float *pixel;
    assert_int_equal(msi_alloc(&pixel, (int64_t)N * N, sizeof *pixel, "test"), MSI_OK);
    pixel[N / 2 * N + N / 2] = 1;
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_PSF), MSI_OK);
    msi_free(pixel);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_image_surface_get_width(s), SHOWN * MAGNIFIED + 150 + 138);
    /* The major axis of 5 pixels stands 0.4 rad off north: its end lies 25 canvas pixels from the middle. */
    const double middle_x = 150 + (SHOWN / 2 + 0.5) * MAGNIFIED, middle_y = 100 + (SHOWN / 2 - 0.5) * MAGNIFIED;
    const unsigned at = pixel_of(s, (int)lround(middle_x - 25 * sin(0.4)), (int)lround(middle_y - 25 * cos(0.4)));
    assert_true((at & 255) > (at >> 16 & 255) + 60);
    cairo_surface_destroy(s);
}

/* Weights are cut to the cells that are not empty, about the middle. One half of the plane is the other, rotated. */
static void weights_show_the_uv_plane(void **state)
{
    (void)state;
    enum { N = 2000 };
    const msi_image_geometry g = {N, N, 1e-6, 1e-6};
    float *pixel;
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour, MSI_VALUES_WEIGHTS);
    assert_int_equal(msi_alloc(&pixel, (int64_t)N * N, sizeof *pixel, "test"), MSI_OK);
    for (int y = 0; y < 20; y++)
        for (int x = 0; x < 20; x++) {
            pixel[(1000 + 76 + y) * N + 1000 + 76 + x] = 1e4F;
            pixel[(999 - 76 - y) * N + 999 - 76 - x] = 1;
        }
    assert_int_equal(draw(&g, 20, "J2000", pixel, MSI_FITS_WEIGHTS), MSI_OK);
    msi_free(pixel);
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    /* The outermost cell is the 96th: 4 more and a twentieth are shown, 104 to each side, 4 canvas pixels a cell. */
    enum { SIDE = 2 * 104 * 4 };
    assert_int_equal(cairo_image_surface_get_width(s), SIDE + 150 + 138);
    const int from = 150 + (104 + 76) * 4, up = 100 + (104 - 76 - 20) * 4;
    assert_true(count(s, from, up, 80, colour[MSI_N_COLOUR - 1]) > 150);
    /* The smallest weights differ clearly in colour from 0. */
    const unsigned faint = pixel_of(s, 150 + (104 - 90) * 4 + 2, 100 + (104 + 90) * 4 + 1);
    assert_true(faint != colour[0] && faint != colour[1] && faint != colour[MSI_N_COLOUR - 1]);
    cairo_surface_destroy(s);
}

static void titles_say_whose_picture_it_is(void **state)
{
    (void)state;
    char line[MSI_CAPTION_BYTES] = "";
    msi_observation o = {.object = "A, B and 3 more", .telescope = "VLA"};
    msi_fits_spec spec = {.observation = &o, .freq_hz = 1.425e9, .channel = 2, .n_channel = 16, .pol = MSI_POL_U};
    msi_caption_title(line, &spec);
    assert_string_equal(line, "A, B and 3 more, VLA, 1.425 GHz, channel 3 of 16, Stokes U");
    spec.channel = -1;
    spec.pol = MSI_POL_XX;
    msi_caption_title(line, &spec);
    assert_string_equal(line, "A, B and 3 more, VLA, 1.425 GHz, all 16 channels, XX");
    spec.kind = MSI_FITS_PSF;
    spec.n_channel = 1;
    msi_caption_title(line, &spec);
    assert_string_equal(line, "A, B and 3 more, VLA, 1.425 GHz");
    line[0] = 0;
    const double asec = MSI_PI / 648000;
    const msi_beam beam = {12.34e-6 * asec, 2.5e-3 * asec, 0.5};
    msi_caption_add_band(line, 53.5e6);
    msi_caption_add_peak(line, -0.00123456, "Jy/beam");
    msi_caption_add_beam(line, &beam);
    assert_string_equal(line, "band 53.5 MHz, peak −1.235 mJy/beam, beam 12.3 µas × 2.50 mas at 29°");
}

static void stretch_is_monotonic(void **state)
{
    (void)state;
    float value[1000];
    for (int i = 0; i < 1000; i++) value[i] = (float)sin(i * 12.9898) * 0.01F;
    value[500] = 5;
    msi_stretch s;
    assert_int_equal(msi_stretch_fit(&s, MSI_VALUES_BRIGHTNESS, value, 1000), MSI_OK);
    assert_true(s.high == 5);
    assert_true(msi_stretch_apply(&s, s.low) == 0 && msi_stretch_apply(&s, s.high) == 1);
    double last = -1;
    for (double v = s.low; v <= s.high; v += 0.01) {
        double t = msi_stretch_apply(&s, v);
        assert_true(t > last);
        last = t;
    }
}

/* Spectral indices: equal steps have equal steps of colour over the bulk of the values. A few outliers do not
 * matter. */
static void an_index_is_even(void **state)
{
    (void)state;
    float value[1000];
    for (int i = 0; i < 1000; i++) value[i] = i < 900 ? -0.7F + 1e-3F * (float)(i % 10) : -2 + 0.02F * (float)(i - 900);
    value[500] = 50;
    value[501] = -50;
    msi_stretch s;
    assert_int_equal(msi_stretch_fit(&s, MSI_VALUES_INDEX, value, 1000), MSI_OK);
    assert_true(s.low > -2.5 && s.low < -1.5 && s.high < 0.5 && s.high > -0.5);
    const double low = msi_stretch_apply(&s, -1.5), middle = msi_stretch_apply(&s, -1),
                 high = msi_stretch_apply(&s, -0.5);
    assert_true(low > 0 && high < 1 && fabs(high - 2 * middle + low) < 1e-6);
    for (int i = 0; i < 1000; i++) value[i] = -0.7F;
    assert_int_equal(msi_stretch_fit(&s, MSI_VALUES_INDEX, value, 1000), MSI_OK);
    assert_true(fabs(msi_stretch_apply(&s, -0.7) - 0.5) < 1e-6);
}

/* The luminance of the colour map grows monotonically. */
static void colours_grow_lighter(void **state)
{
    (void)state;
    uint32_t colour[MSI_N_COLOUR];
    msi_colour_map(colour, MSI_VALUES_BRIGHTNESS);
    double last = -1;
    for (int i = 0; i < MSI_N_COLOUR; i++) {
        double luminance = 0;
        const double weight[3] = {0.2126, 0.7152, 0.0722};
        for (int k = 0; k < 3; k++) luminance += weight[k] * pow((double)(colour[i] >> (16 - 8 * k) & 255) / 255, 2.2);
        /* Rounding to 8 bits may reduce a step by half a level of each channel: at most 2.2 / 510. */
        assert_true(luminance > last - 2.2 / 510);
        last = luminance;
    }
    assert_true(last > 0.8);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, temp_folder_enter, temp_folder_leave)
    const struct CMUnitTest tests[] = {
        TEST(every_field_is_drawn),
        TEST(north_is_up_and_no_value_is_grey),
        TEST(components_can_be_seen),
        TEST(labels_at_a_pole_do_not_overlap),
        TEST(uv_planes_are_refused),
        TEST(zero_is_white),
        TEST(range_is_applied),
        TEST(psf_shows_its_inner_beams),
        TEST(weights_show_the_uv_plane),
        cmocka_unit_test(titles_say_whose_picture_it_is),
        cmocka_unit_test(stretch_is_monotonic),
        cmocka_unit_test(an_index_is_even),
        cmocka_unit_test(colours_grow_lighter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
