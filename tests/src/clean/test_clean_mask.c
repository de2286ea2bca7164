/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Masks resampled to the pixels of an image, against spherical trigonometry; and masks that are refused. */
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
#include <fitsio.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "src/clean/clean_mask.h"
#include "tests/support/temp_folder.h"

static const double DEG = MSI_PI / 180;

static char path[512];

/* The file of a mask. Zero members mean the usual values. */
typedef struct recipe {
    long nx, ny, n_plane;
    double ra_deg, dec_deg, cell_deg;
    int is_tan, bitpix; /* 0: FLOAT_IMG */
    const char *radesys, *ctype;
    long nan_pixel; /* counted from 1; 0: none */
} recipe;

/* Set pixels in a pattern that every shift changes. */
static int pattern(int64_t x, int64_t y, int64_t plane)
{
    const uint64_t h =
        ((uint64_t)(x / 3) * 0x9e3779b97f4a7c15u ^ (uint64_t)(y / 3) * 0xc2b2ae3d27d4eb4fu) + (uint64_t)plane;
    return (h ^ h >> 33) * 0xff51afd7ed558ccdu >> 62 == 0;
}

static void put_axis(fitsfile *f, int k, const char *ctype, double crval, double cdelt, double crpix)
{
    static const char *const key[] = {"CTYPE", "CRVAL", "CDELT", "CRPIX"};
    double value[] = {0, crval, cdelt, crpix};
    int status = 0;
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "%s%d", key[i], k);
        if (i)
            fits_update_key_dbl(f, name, value[i], 15, NULL, &status);
        else
            fits_update_key_str(f, name, ctype, NULL, &status);
    }
    assert_int_equal(status, 0);
}

static void make(const recipe *r)
{
    fitsfile *f;
    int status = 0;
    long axis[3] = {r->nx, r->ny, r->n_plane ? r->n_plane : 1};
    snprintf(path, sizeof path, "%s/mask.fits", temp_folder);
    (void)remove(path);
    fits_create_diskfile(&f, path, &status);
    fits_create_img(f, r->bitpix ? r->bitpix : FLOAT_IMG, r->n_plane ? 3 : 2, axis, &status);
    char lng[9] = "RA---SIN", lat[9] = "DEC--SIN";
    if (r->is_tan) strcpy(lng + 5, "TAN"), strcpy(lat + 5, "TAN");
    put_axis(f, 1, r->ctype ? r->ctype : lng, r->ra_deg, -r->cell_deg, (double)(r->nx / 2 + 1));
    put_axis(f, 2, lat, r->dec_deg, r->cell_deg, (double)(r->ny / 2 + 1));
    if (r->n_plane) put_axis(f, 3, "FREQ", 1e9, 1e8, 1);
    fits_update_key_str(f, "RADESYS", r->radesys ? r->radesys : "FK5", NULL, &status);
    for (long k = 0; k < axis[2]; k++)
        for (long i = 0; i < r->nx * r->ny; i++) {
            double v = pattern(i % r->nx, i / r->nx, k) ? 1 + (double)(i % 2) : 0;
            if (k * r->nx * r->ny + i + 1 == r->nan_pixel) v = NAN;
            fits_write_img(f, TDOUBLE, k * r->nx * r->ny + i + 1, 1, &v, &status);
        }
    fits_close_file(f, &status);
    assert_int_equal(status, 0);
}

/* Find a pixel of the image on the mask: from offsets l and m to a direction vector to offsets in the plane of the
 * mask.
 * Returns: 0 if it is beyond the horizon */
static int position(const recipe *r, const msi_mask_target *t, int64_t x, int64_t y, double at[2])
{
    const msi_image_geometry *g = t->geometry;
    const double l = (double)(g->nx / 2 - x) * g->cell_x_rad, m = (double)(y - g->ny / 2) * g->cell_y_rad;
    if (l * l + m * m >= 1) return 0;
    const double n = sqrt(1 - l * l - m * m), d = t->dec_rad;
    /* towards the meridian of the image centre, east of it, north */
    const double v[3] = {n * cos(d) - m * sin(d), l, n * sin(d) + m * cos(d)};
    const double turn = t->ra_rad - r->ra_deg * DEG, e = r->dec_deg * DEG;
    const double along = v[0] * cos(turn) - v[1] * sin(turn), east = v[0] * sin(turn) + v[1] * cos(turn);
    const double depth = along * cos(e) + v[2] * sin(e), north = v[2] * cos(e) - along * sin(e);
    if (depth <= 0) return 0;
    const double scale = (r->is_tan ? 1 / depth : 1) / (r->cell_deg * DEG);
    at[0] = (double)(r->nx / 2) - east * scale;
    at[1] = (double)(r->ny / 2) + north * scale;
    return 1;
}

/* Every image pixel has the value of the nearest mask pixel. Pixels with two nearest ones are not compared. */
static void check(const recipe *r, const msi_mask_target *t, const msi_clean_mask *mask)
{
    int64_t n_set = 0, n_close = 0;
    for (int64_t k = 0; k < mask->n_plane; k++)
        for (int64_t y = 0; y < mask->ny; y++)
            for (int64_t x = 0; x < mask->nx; x++) {
                double at[2];
                const int got = msi_clean_mask_plane(mask, k)[y * mask->nx + x];
                n_set += got;
                if (!position(r, t, x, y, at)) {
                    assert_int_equal(got, 0);
                    continue;
                }
                const double near_x = floor(at[0] + 0.5), near_y = floor(at[1] + 0.5);
                const double edge = 0.5 - fmax(fabs(at[0] - near_x), fabs(at[1] - near_y));
                if (edge < 0.04)
                    n_close++;
                else if (got != pattern((int64_t)near_x, (int64_t)near_y, k))
                    fail_msg("pixel %lld, %lld of plane %lld", (long long)x, (long long)y, (long long)k);
            }
    const double part = (double)n_set / (double)(mask->nx * mask->ny * mask->n_plane);
    assert_true(part > 0.1 && part < 0.4 && n_close < mask->nx * mask->ny * mask->n_plane / 3);
}

static void nearest_pixels_are_taken(void **state)
{
    (void)state;
    static const struct {
        recipe r;
        msi_image_geometry g; /* cells in degrees */
        double ra_deg, dec_deg;
        int64_t n_channel;
    } all[] = {/* the image's own pixels; a larger one elsewhere; a plane a channel */
               {{100, 80, 0, 60, -30, 0.01, 0, 0, NULL, NULL, 0}, {100, 80, 0.01, 0.01}, 60, -30, 3},
               {{300, 280, 0, 60.3, -29.8, 0.008, 0, 0, "ICRS", NULL, 0}, {100, 80, 0.01, 0.01}, 60, -30, 3},
               {{130, 120, 3, 60.1, -30.1, 0.01, 0, 0, NULL, NULL, 0}, {100, 80, 0.01, 0.01}, 60, -30, 3},
               /* another projection, whole numbers, coarse pixels; across RA 0 and far from the equator */
               {{250, 250, 0, 359, 70, 0.02, 1, SHORT_IMG, NULL, NULL, 0}, {200, 220, 0.01, 0.012}, 1, 69, 1},
               {{90, 90, 1, 10, 5, 0.1, 1, BYTE_IMG, NULL, NULL, 0}, {300, 300, 0.02, 0.02}, 9, 5.5, 1},
               /* half of the sky, whose corners are beyond the horizon: every cell of the lattice is curved */
               {{150, 150, 0, 60, 20, 1, 0, 0, NULL, NULL, 0}, {140, 130, 0.9, 0.9}, 60, 20, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const msi_image_geometry g = {all[i].g.nx, all[i].g.ny, all[i].g.cell_x_rad * DEG, all[i].g.cell_y_rad * DEG};
        const msi_mask_target t = {&g, all[i].ra_deg * DEG, all[i].dec_deg * DEG, "J2000", all[i].n_channel};
        const int64_t in_use = msi_memory_in_use();
        msi_clean_mask mask;
        make(&all[i].r);
        if (msi_clean_mask_fits(&mask, path, &t)) fail_msg("%zu: %s", i, msi_error_get());
        assert_int_equal(mask.n_plane, all[i].r.n_plane ? all[i].r.n_plane : 1);
        assert_ptr_equal(msi_clean_mask_plane(&mask, 2), mask.pixel + (mask.n_plane > 1 ? 2 * g.nx * g.ny : 0));
        check(&all[i].r, &t, &mask);
        msi_clean_mask_free(&mask);
        assert_int_equal(msi_memory_in_use(), in_use);
    }
}

/* The fraction of a mask counts the pixels of its plane. */
static void parts_are_counted(void **state)
{
    (void)state;
    const recipe r = {.nx = 30, .ny = 20, .n_plane = 2, .ra_deg = 60, .dec_deg = 10, .cell_deg = 0.01};
    const msi_image_geometry g = {30, 20, 0.01 * DEG, 0.01 * DEG};
    const msi_mask_target t = {&g, 60 * DEG, 10 * DEG, "ICRS", 2};
    msi_clean_mask mask;
    make(&r);
    assert_int_equal(msi_clean_mask_fits(&mask, path, &t), 0);
    for (int k = 0; k < 2; k++) {
        int n = 0;
        for (int i = 0; i < 600; i++) n += pattern(i % 30, i / 30, k);
        assert_true(msi_clean_mask_fraction(&mask, k) == n / 600.0);
    }
    msi_clean_mask_free(&mask);
    assert_null(msi_clean_mask_plane(&mask, 0));
}

static void unusable_masks_are_refused(void **state)
{
    (void)state;
    const recipe good = {.nx = 40, .ny = 40, .ra_deg = 60, .dec_deg = 10, .cell_deg = 0.01};
    const msi_image_geometry g = {40, 40, 0.01 * DEG, 0.01 * DEG};
    const msi_mask_target t = {&g, 60 * DEG, 10 * DEG, "J2000", 2};
    recipe bad[] = {good, good, good, good, good, good, good, good};
    static const char *const word[] = {"cover", "cover", "no value", "planes", "B1950|FK4", "GLON", "axes", "axes"};
    bad[0].nx = 39;
    bad[1].ra_deg = 60.2;
    bad[2].nan_pixel = 17;
    bad[3].n_plane = 3;
    bad[4].radesys = "FK4";
    bad[5].ctype = "GLON-SIN";
    bad[6].ctype = "FREQ";
    bad[7].cell_deg = 0;
    const int64_t in_use = msi_memory_in_use();
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        msi_clean_mask mask;
        char words[32];
        make(&bad[i]);
        assert_int_equal(msi_clean_mask_fits(&mask, path, &t), MSI_EINPUT);
        assert_null(mask.pixel);
        assert_memory_equal(msi_error_get(), path, strlen(path));
        snprintf(words, sizeof words, "%s", word[i]);
        char * or = strchr(words, '|');
        if (or) * or ++ = 0;
        /* A longitude of one frame with a latitude of another is not a position. */
        if (!strstr(msi_error_get(), words) && !(or &&strstr(msi_error_get(), or)) && !strstr(msi_error_get(), "axes"))
            fail_msg("%d: %s", i, msi_error_get());
    }
    msi_clean_mask mask;
    unlink(path);
    assert_int_equal(msi_clean_mask_fits(&mask, path, &t), MSI_EINPUT);
    assert_int_equal(msi_memory_in_use(), in_use);
    make(&good);
    assert_int_equal(msi_clean_mask_fits(&mask, path, &t), 0);
    msi_clean_mask_free(&mask);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nearest_pixels_are_taken), cmocka_unit_test(parts_are_counted),
                                       cmocka_unit_test(unusable_masks_are_refused)};
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
