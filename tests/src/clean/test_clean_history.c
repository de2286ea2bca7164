/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The record of a deconvolution: its table, read back; its picture, by colours of pixels. */
#include <cairo.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/clean/clean_history.h"
#include "tests/support/temp_folder.h"

static char path[512];

static msi_publish *plan(const char *name)
{
    msi_publish *p;
    const char *names[] = {path};
    snprintf(path, sizeof path, "%s/%s", temp_folder, name);
    if (msi_publish_plan(&p, names, 1, 1)) fail_msg("%s", msi_error_get());
    return p;
}

static void commit(msi_publish *p, int rc)
{
    if (rc || msi_publish_commit(p)) fail_msg("%s", msi_error_get());
    msi_publish_free(p);
}

static void table_holds_every_step(void **state)
{
    (void)state;
    static const char want[] = "major,minor,scale,peak,noise,flux,seconds,stop,image\n"
                               "1,100,0,0.5,0.001,12.25,1.500,,\n"
                               "1,130,16,-0.25,,12.5,2.000,major cycle,0001-Q\n";
    msi_clean_history h = {0};
    char got[1024] = {0};
    msi_publish *p = plan("a.csv");
    const msi_clean_step first = {"", 1, 100, 0, 0.5, 0.001, 12.25, 1.5, ""};
    const msi_clean_step second = {"0001-Q", 1, 130, 16, -0.25, NAN, 12.5, 2, "major cycle"};
    assert_int_equal(msi_clean_history_add(&h, &first), 0);
    assert_int_equal(msi_clean_history_add(&h, &second), 0);
    commit(p, msi_clean_history_write(p, 0, &h));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fread(got, 1, sizeof got - 1, f), sizeof want - 1);
    fclose(f);
    assert_string_equal(got, want);
    msi_clean_history_free(&h);
    assert_int_equal(h.n, 0);
    unlink(path);
}

/* Count pixels of a colour in a box of a picture. */
static int count(cairo_surface_t *s, const int box[4], uint32_t colour)
{
    int n = 0;
    const int stride = cairo_image_surface_get_stride(s);
    for (int y = box[1]; y < box[3]; y++)
        for (int x = box[0]; x < box[2]; x++) {
            uint32_t pixel;
            memcpy(&pixel, cairo_image_surface_get_data(s) + (size_t)y * (size_t)stride + 4 * (size_t)x, 4);
            n += (pixel & 0xffffff) == colour;
        }
    return n;
}

/* A peak that falls by the same factor in each step is a straight line from the upper left to the lower right on the
 * logarithmic axis. The flux rises. */
static void curves_fall_and_rise(void **state)
{
    (void)state;
    msi_clean_history h = {0};
    const int64_t in_use = msi_memory_in_use();
    for (int i = 0; i <= 200; i++) {
        const msi_clean_step s = {"", i, 10 * i, 0, pow(10, -0.01 * i), 1e-3, 0.1 * i, i, ""};
        assert_int_equal(msi_clean_history_add(&h, &s), 0);
    }
    msi_publish *p = plan("a.png");
    commit(p, msi_clean_history_draw(p, 0, &h, "a field"));
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    /* The panels are 1000 x 380 pixels at (130, 90) and (130, 550); peak and noise share the upper one. */
    const int upper_left[4] = {130, 90, 330, 280}, upper_right[4] = {930, 90, 1000, 280};
    const int lower_left[4] = {130, 550, 330, 700}, lower_right[4] = {950, 550, 1130, 700};
    const uint32_t peak = 0x1f5fa8, flux = 0x2e8b57;
    assert_true(count(s, upper_left, peak) > 150 && count(s, upper_right, peak) == 0);
    assert_true(count(s, lower_right, flux) > 150 && count(s, lower_left, flux) == 0);
    cairo_surface_destroy(s);
    msi_clean_history_free(&h);
    assert_int_equal(msi_memory_in_use(), in_use);
    unlink(path);
}

/* Several scales alternate in a cycle, and the peak is known at its end: one line connects the ends of two cycles. Here
 * it is level, and so is the noise, a decade lower. */
static void cycles_of_scales_are_joined(void **state)
{
    (void)state;
    msi_clean_history h = {0};
    for (int major = 0; major <= 4; major++)
        for (int scale = 0; scale < (major ? 3 : 1); scale++) {
            const int is_last = !major || scale == 2;
            const msi_clean_step s = {
                "", major, 100 * major - 40 * !is_last, scale, is_last ? 1 : NAN, 0.1, 5 + 40 * !is_last, 0, ""};
            assert_int_equal(msi_clean_history_add(&h, &s), 0);
        }
    msi_publish *p = plan("d.png");
    commit(p, msi_clean_history_draw(p, 0, &h, "a field"));
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    /* Lines are two pixels wide; cycles are 250 pixels apart, with dots at them. */
    for (int cycle = 0; cycle < 4; cycle++) {
        const int upper[4] = {140 + 250 * cycle, 90, 370 + 250 * cycle, 470};
        const int lower[4] = {140 + 250 * cycle, 550, 370 + 250 * cycle, 930};
        const int peak = count(s, upper, 0x1f5fa8), flux = count(s, lower, 0x2e8b57);
        assert_in_range(peak, 230, 3 * 230);
        assert_in_range(flux, 230, 3 * 230);
    }
    cairo_surface_destroy(s);
    msi_clean_history_free(&h);
    unlink(path);
}

/* Each of several images has one colour, for its peak in the upper panel and its flux in the lower one. */
static void an_image_has_one_colour(void **state)
{
    (void)state;
    msi_clean_history h = {0};
    for (int i = 0; i <= 200; i++)
        for (int image = 0; image < 2; image++) {
            msi_clean_step s = {"I", i, 10 * i, 0, pow(10, -0.01 * i - image), 1e-5, (image ? 0.05 : 0.1) * i, i, ""};
            if (image) strcpy(s.image, "Q");
            assert_int_equal(msi_clean_history_add(&h, &s), 0);
        }
    msi_publish *p = plan("c.png");
    commit(p, msi_clean_history_draw(p, 0, &h, "a field"));
    cairo_surface_t *s = cairo_image_surface_create_from_png(path);
    assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
    const int panel[2][4] = {{130, 90, 1130, 470}, {130, 550, 1130, 930}};
    for (int k = 0; k < 2; k++) {
        assert_true(count(s, panel[k], 0x1f5fa8) > 150 && count(s, panel[k], 0xc8501e) > 150);
        assert_int_equal(count(s, panel[k], 0x2e8b57), 0);
    }
    cairo_surface_destroy(s);
    msi_clean_history_free(&h);
    unlink(path);
}

/* Histories without steps, with one step, or with numbers that fit on no axis are drawn too. */
static void nothing_to_draw_is_drawn(void **state)
{
    (void)state;
    for (int n = 0; n < 4; n++) {
        msi_clean_history h = {0};
        const msi_clean_step odd[] = {{"I", 1, 0, 0, 0, NAN, 0, 0, "mask empty"},
                                      {"Q", 1, 5, 0, INFINITY, -1, NAN, 0, ""},
                                      {"I", 2, 5, 0, 1e-300, 1e300, -1e300, 0, ""}};
        for (int i = 0; i < n; i++) assert_int_equal(msi_clean_history_add(&h, &odd[i]), 0);
        msi_publish *p = plan("b.png");
        commit(p, msi_clean_history_draw(p, 0, &h, ""));
        cairo_surface_t *s = cairo_image_surface_create_from_png(path);
        assert_int_equal(cairo_surface_status(s), CAIRO_STATUS_SUCCESS);
        cairo_surface_destroy(s);
        msi_clean_history_free(&h);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(table_holds_every_step), cmocka_unit_test(curves_fall_and_rise),
                                       cmocka_unit_test(cycles_of_scales_are_joined),
                                       cmocka_unit_test(an_image_has_one_colour),
                                       cmocka_unit_test(nothing_to_draw_is_drawn)};
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
