/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests model images: which files are found, the position of their pixels, and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fitsio.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/sky/model_images.h"
#include "tests/support/temp_folder.h"

/* A file to write; 0 or NULL means the usual value. */
typedef struct recipe {
    long nx, ny, n_freq, n_pol; /* 0: 20, 20, 1, 1 */
    int stokes_first;           /* axis 3 is STOKES, axis 4 FREQ */
    int no_axes;                /* two axes only */
    double crpix_x, crpix_y;    /* 0: N/2 + 1 */
    double freq_hz, step_hz;    /* 0: 1e9, 1e8 */
    int stokes, stokes_step;    /* 0: 1, 1 */
    const char *card[4];        /* written last; they replace other cards */
    double offset;              /* pixel (x, y) of plane k is offset + 1e6 k + 1000 y + x + 1 */
    int is_double;
} recipe;

static void set_number(fitsfile *f, const char *key, double value)
{
    int status = 0;
    fits_update_key_dbl(f, key, value, 15, NULL, &status);
    assert_int_equal(status, 0);
}

static void set_axis(fitsfile *f, int axis, const char *ctype, double crval, double cdelt)
{
    char key[16];
    int status = 0;
    snprintf(key, sizeof key, "CTYPE%d", axis);
    fits_update_key_str(f, key, ctype, NULL, &status);
    snprintf(key, sizeof key, "CRVAL%d", axis);
    set_number(f, key, crval);
    snprintf(key, sizeof key, "CDELT%d", axis);
    set_number(f, key, cdelt);
    snprintf(key, sizeof key, "CRPIX%d", axis);
    set_number(f, key, 1);
}

static void make(const char *name, const recipe *given)
{
    recipe r = *given;
    if (!r.nx) r.nx = 20;
    if (!r.ny) r.ny = 20;
    if (!r.n_freq) r.n_freq = 1;
    if (!r.n_pol) r.n_pol = 1;
    if (!r.stokes) r.stokes = 1;
    if (!r.stokes_step) r.stokes_step = 1;
    if (r.freq_hz == 0) r.freq_hz = 1e9;
    if (r.step_hz == 0) r.step_hz = 1e8;
    const int freq_axis = r.stokes_first ? 4 : 3, pol_axis = 7 - freq_axis;
    long axis[4] = {r.nx, r.ny, r.n_freq, r.n_pol};
    if (r.stokes_first) axis[2] = r.n_pol, axis[3] = r.n_freq;
    fitsfile *f;
    int status = 0;
    (void)remove(name);
    fits_create_diskfile(&f, name, &status);
    fits_create_img(f, r.is_double ? DOUBLE_IMG : FLOAT_IMG, r.no_axes ? 2 : 4, axis, &status);
    set_axis(f, 1, "RA---SIN", 60, -0.001);
    set_axis(f, 2, "DEC--SIN", 40, 0.002);
    set_number(f, "CRPIX1", r.crpix_x != 0 ? r.crpix_x : (double)(r.nx / 2 + 1));
    set_number(f, "CRPIX2", r.crpix_y != 0 ? r.crpix_y : (double)(r.ny / 2 + 1));
    if (!r.no_axes) {
        set_axis(f, freq_axis, "FREQ", r.freq_hz, r.step_hz);
        set_axis(f, pol_axis, "STOKES", r.stokes, r.stokes_step);
    }
    fits_update_key_str(f, "BUNIT", "Jy/pixel", NULL, &status);
    fits_update_key_str(f, "RADESYS", "FK5", NULL, &status);
    set_number(f, "EQUINOX", 2000);
    for (int i = 0; i < 4 && r.card[i]; i++) {
        char key[9] = "";
        memcpy(key, r.card[i], strcspn(r.card[i], " ="));
        fits_update_card(f, key, r.card[i], &status);
    }
    const long n = r.nx * r.ny, n_plane = r.n_freq * r.n_pol;
    for (long k = 0; k < n_plane; k++)
        for (long i = 0; i < n; i++) {
            double v = r.offset + 1e6 * (double)k + 1000 * (double)(i / r.nx) + (double)(i % r.nx) + 1;
            fits_write_img(f, TDOUBLE, k * n + i + 1, 1, &v, &status);
        }
    fits_close_file(f, &status);
    assert_int_equal(status, 0);
}

static void spoil(const char *name, long pixel, double value)
{
    fitsfile *f;
    int status = 0;
    fits_open_diskfile(&f, name, READWRITE, &status);
    fits_write_img(f, TDOUBLE, pixel + 1, 1, &value, &status);
    fits_close_file(f, &status);
    assert_int_equal(status, 0);
}

static void clean(void)
{
    assert_int_equal(system("rm -rf ./*"), 0);
}

static msi_model_images *find(const char *name)
{
    msi_model_images *m;
    if (msi_model_images_find(&m, name, 0, 0) != MSI_OK) fail_msg("%s: %s", name, msi_error_get());
    return m;
}

/* Expect an error line that begins with `begin` and contains `holds`, and no allocated memory. */
static void refused(const char *name, const char *begin, const char *holds)
{
    msi_model_images *m;
    const int64_t before = msi_memory_in_use();
    int rc = msi_model_images_find(&m, name, 0, 0);
    const char *message = rc ? msi_error_get() : "accepted";
    if (rc != MSI_EINPUT || strncmp(message, begin, strlen(begin)) != 0 || !strstr(message, holds))
        fail_msg("%s: %d: %s", name, rc, message);
    assert_null(m);
    assert_true(msi_memory_in_use() == before);
}

static double pixel(const msi_image *image, int plane, int64_t x, int64_t y)
{
    const msi_image_geometry *g = &image->geometry;
    const int64_t i = (plane * g->ny + y) * g->nx + x;
    return msi_image_value(image->pixel, image->precision, i);
}

/* Check that pixel (x, y) of a file of nx x ny pixels is at (x + dx, y + dy), and that other pixels are zero. */
static void placed(const msi_image *image, int plane, double offset, int64_t nx, int64_t ny, int64_t dx, int64_t dy)
{
    for (int64_t y = 0; y < image->geometry.ny; y++)
        for (int64_t x = 0; x < image->geometry.nx; x++) {
            const int64_t fx = x - dx, fy = y - dy;
            const int inside = fx >= 0 && fx < nx && fy >= 0 && fy < ny;
            assert_true(pixel(image, plane, x, y) == (inside ? offset + (double)(1000 * fy + fx + 1) : 0));
        }
}

static void one_model(void **state)
{
    (void)state;
    clean();
    for (int is_double = 0; is_double < 2; is_double++)
        for (int precision = MSI_FP32; precision <= MSI_FP64; precision++) {
            make("a-model.fits", &(recipe){.nx = 24, .ny = 18, .is_double = is_double});
            msi_model_images *m = find("a");
            assert_true(m->geometry.nx == 24 && m->geometry.ny == 18 && m->n_channel == 1 && m->n_plane == 1);
            assert_true(fabs(m->geometry.cell_x_rad * 180 / MSI_PI - 0.001) < 1e-15);
            assert_true(fabs(m->geometry.cell_y_rad * 180 / MSI_PI - 0.002) < 1e-15);
            assert_true(fabs(m->ra_rad * 180 / MSI_PI - 60) < 1e-12 && fabs(m->dec_rad * 180 / MSI_PI - 40) < 1e-12);
            assert_true(m->channel[0].freq_hz == 1e9 && m->channel[0].low_hz == 0.95e9 &&
                        m->channel[0].high_hz == 1.05e9);
            assert_int_equal(m->plane[0].pol, MSI_POL_I);
            assert_string_equal(m->dir_frame, "J2000");
            assert_string_equal(m->names, "a-model.fits");
            for (int again = 0; again < 2; again++) {
                msi_image image;
                assert_int_equal(msi_model_images_load(m, 0, 1, (msi_precision)precision, &image), MSI_OK);
                assert_true(image.n_plane == 1 && image.precision == (msi_precision)precision);
                placed(&image, 0, 0, 24, 18, 0, 0);
                msi_image_free(&image);
            }
            msi_model_images_free(m);
        }
    msi_model_images_free(NULL);
    assert_true(msi_memory_in_use() == 0);
}

/* Odd and tiny sizes, and other centres of projection, give an even image around that centre. */
static void pixels_are_placed(void **state)
{
    (void)state;
    static const struct {
        long nx, ny;
        double crpix_x, crpix_y;
        int64_t size_x, size_y, dx, dy;
    } cases[] = {
        {21, 19, 0, 0, 22, 20, 1, 1}, /* (n - 1) / 2 is the centre: half of 22 is 11 */
        {1, 1, 1, 1, 16, 16, 8, 8},      {5, 40, 0, 0, 16, 40, 6, 0},  {20, 20, 1, 20, 40, 38, 20, 0},
        {20, 20, -9, 41, 60, 80, 40, 0}, {17, 17, 8, 9, 20, 18, 3, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clean();
        make("a-model.fits",
             &(recipe){.nx = cases[i].nx, .ny = cases[i].ny, .crpix_x = cases[i].crpix_x, .crpix_y = cases[i].crpix_y});
        msi_model_images *m = find("a");
        msi_image image;
        assert_int_equal(msi_model_images_load(m, 0, 1, MSI_FP32, &image), MSI_OK);
        assert_int_equal(m->geometry.nx, cases[i].size_x);
        assert_int_equal(m->geometry.ny, cases[i].size_y);
        placed(&image, 0, 0, cases[i].nx, cases[i].ny, cases[i].dx, cases[i].dy);
        /* The reference pixel is the centre of the model. */
        const double rx = cases[i].crpix_x != 0 ? cases[i].crpix_x - 1 : (double)(cases[i].nx / 2);
        assert_true((int64_t)rx + cases[i].dx == m->geometry.nx / 2);
        msi_image_free(&image);
        msi_model_images_free(m);
    }
}

static void polarisations_by_name(void **state)
{
    (void)state;
    clean();
    make("a-V-model.fits", &(recipe){.stokes = 4, .offset = 4e5});
    make("a-I-model.fits", &(recipe){.stokes = 1, .offset = 1e5});
    make("a-Q-model.fits", &(recipe){.no_axes = 1, .offset = 2e5, .card = {"RESTFRQ = 1e9"}});
    /* Write files with similar names. */
    make("a-b-model.fits", &(recipe){.nx = 30});
    make("ab-I-model.fits", &(recipe){.nx = 30});
    make("a-I-dirty.fits", &(recipe){.nx = 30});
    make("a-t0000-I-model.fits", &(recipe){.nx = 30});
    make("a-000-I-model.fits", &(recipe){.nx = 30});
    make("a-00000-I-model.fits", &(recipe){.nx = 30});
    /* Q has no frequency, which differs from the others'. */
    refused("a", "a-Q-model.fits", "must agree");
    make("a-Q-model.fits", &(recipe){.stokes = 2, .offset = 2e5});
    char absolute[512];
    snprintf(absolute, sizeof absolute, "%s/a", temp_folder);
    const char *names[] = {"a", "./a", absolute};
    for (int k = 0; k < 3; k++) {
        msi_model_images *m = find(names[k]);
        assert_true(m->n_plane == 3 && m->n_channel == 1);
        assert_true(m->plane[0].pol == MSI_POL_I && m->plane[1].pol == MSI_POL_Q && m->plane[2].pol == MSI_POL_V);
        msi_image image;
        assert_int_equal(msi_model_images_load(m, 0, 1, MSI_FP64, &image), MSI_OK);
        placed(&image, 0, 1e5, 20, 20, 0, 0);
        placed(&image, 1, 2e5, 20, 20, 0, 0);
        placed(&image, 2, 4e5, 20, 20, 0, 0);
        msi_image_free(&image);
        msi_model_images_free(m);
    }
    /* The polarisation of the header agrees with the name. */
    make("a-Q-model.fits", &(recipe){.stokes = 3});
    refused("a", "a-Q-model.fits: named Q", "has U");
    assert_int_equal(remove("a-Q-model.fits"), 0);
    make("a-model.fits", &(recipe){0});
    refused("a", "a-model.fits and a-I-model.fits", "both hold I");
}

static void hands(void **state)
{
    (void)state;
    clean();
    make("a-XX-model.fits", &(recipe){.stokes = -5, .offset = 1e5});
    make("a-YY-model.fits", &(recipe){.stokes = -6, .offset = 2e5});
    msi_model_images *m = find("a");
    assert_true(m->n_plane == 2 && m->plane[0].pol == MSI_POL_XX && m->plane[1].pol == MSI_POL_YY);
    msi_model_images_free(m);
    make("a-I-model.fits", &(recipe){0});
    refused("a", "a-I-model.fits and a-XX-model.fits", "share flux");
    assert_int_equal(remove("a-I-model.fits"), 0);
    make("a-XY-model.fits", &(recipe){.stokes = -7});
    refused("a", "a-XY-model.fits", "complex");
}

static void channel_images(void **state)
{
    (void)state;
    clean();
    /* Numbers in the opposite order of frequencies, and descending frequencies. */
    static const double freq_hz[] = {1.3e9, 1.1e9, 1.2e9};
    for (int c = 0; c < 3; c++)
        for (int p = 0; p < 2; p++) {
            char name[64];
            snprintf(name, sizeof name, "a-%04d-%s-model.fits", c, p ? "Q" : "I");
            make(name, &(recipe){.freq_hz = freq_hz[c], .stokes = p + 1, .offset = 1e5 * (c + 1) + 1e4 * 3 * p});
        }
    make("a-MFS-I-model.fits", &(recipe){.nx = 30});
    make("a-MFS-Q-model.fits", &(recipe){.nx = 30});
    msi_model_images *m = find("a");
    assert_true(m->n_channel == 3 && m->n_plane == 2);
    assert_true(m->channel[0].freq_hz == 1.1e9 && m->channel[1].freq_hz == 1.2e9 && m->channel[2].freq_hz == 1.3e9);
    assert_true(m->channel[2].low_hz == 1.25e9 && m->channel[2].high_hz == 1.35e9);
    msi_image image;
    assert_int_equal(msi_model_images_load(m, 1, 2, MSI_FP32, &image), MSI_OK);
    assert_int_equal(image.n_plane, 4);
    placed(&image, 0, 3e5, 20, 20, 0, 0);
    placed(&image, 1, 3.3e5, 20, 20, 0, 0);
    placed(&image, 2, 1e5, 20, 20, 0, 0);
    placed(&image, 3, 1.3e5, 20, 20, 0, 0);
    msi_image_free(&image);
    msi_model_images_free(m);

    assert_int_equal(remove("a-0001-Q-model.fits"), 0);
    refused("a", "", "missing");
    assert_int_equal(remove("a-0001-I-model.fits"), 0);
    refused("a", "a-0002-I-model.fits", "channel image 0001 is missing");
    make("a-0001-I-model.fits", &(recipe){.freq_hz = 1.2e9});
    make("a-0001-Q-model.fits", &(recipe){.freq_hz = 1.2e9, .stokes = 2});
    refused("a", "a-0001-Q-model.fits and a-0002-I-model.fits", "same frequency");
    make("a-0001-I-model.fits", &(recipe){.freq_hz = 1.1e9, .nx = 22});
    make("a-0001-Q-model.fits", &(recipe){.freq_hz = 1.1e9, .stokes = 2});
    refused("a", "a-0001-I-model.fits", "the size differs from that of a-0000-I-model.fits");
    make("a-0001-I-model.fits", &(recipe){.freq_hz = 1.1e9});
    make("a-model.fits", &(recipe){0});
    refused("a", "a-model.fits and a-0000-I-model.fits", "move the files");

    clean();
    make("a-MFS-model.fits", &(recipe){.offset = 5e5});
    m = find("a");
    assert_true(m->n_channel == 1 && m->n_plane == 1);
    msi_model_images_free(m);
    make("a-0000-model.fits", &(recipe){.no_axes = 1});
    make("a-0001-model.fits", &(recipe){.no_axes = 1});
    refused("a", "a-0000-model.fits and a-0001-model.fits", "without a frequency");
    make("a-0001-model.fits", &(recipe){.n_freq = 2});
    refused("a", "a-0001-model.fits", "2 planes along FREQ");
}

/* Read one file with planes along both axes, in either order. */
static void cubes(void **state)
{
    (void)state;
    for (int stokes_first = 0; stokes_first < 2; stokes_first++) {
        clean();
        make("a-model.fits", &(recipe){.n_freq = 3,
                                       .n_pol = 2,
                                       .stokes_first = stokes_first,
                                       .stokes = 4,
                                       .stokes_step = -3, /* V, then I */
                                       .step_hz = -1e8});
        msi_model_images *m = find("a");
        assert_true(m->n_channel == 3 && m->n_plane == 2 && m->plane[0].pol == MSI_POL_I &&
                    m->plane[1].pol == MSI_POL_V);
        assert_true(fabs(m->channel[0].freq_hz - 0.8e9) < 1 && fabs(m->channel[2].freq_hz - 1e9) < 1);
        for (int c = 0; c < 3; c++) {
            msi_image image;
            assert_int_equal(msi_model_images_load(m, c, 1, MSI_FP32, &image), MSI_OK);
            for (int p = 0; p < 2; p++) {
                const int freq = 2 - c, pol = 1 - p;
                const int plane = stokes_first ? freq * 2 + pol : pol * 3 + freq;
                placed(&image, p, 1e6 * plane, 20, 20, 0, 0);
            }
            msi_image_free(&image);
        }
        msi_model_images_free(m);
    }
    make("a-model.fits", &(recipe){.n_pol = 2, .card = {"CTYPE4  = 'VELO    '"}});
    refused("a", "a-model.fits: axis 4 ('VELO') has 2 planes", "");
    make("a-model.fits", &(recipe){.n_pol = 8, .stokes = -1, .stokes_step = -1});
    refused("a", "a-model.fits", "complex");
}

static void bad_pixels(void **state)
{
    (void)state;
    clean();
    make("a-model.fits", &(recipe){0});
    spoil("a-model.fits", 3 * 20 + 7, NAN);
    refused("a", "a-model.fits: pixel (8, 4) is NaN", "");
    make("a-model.fits", &(recipe){0});
    spoil("a-model.fits", 399, INFINITY);
    refused("a", "a-model.fits: pixel (20, 20) is infinite", "");
    make("a-model.fits", &(recipe){.is_double = 1});
    spoil("a-model.fits", 5, 1e31);
    refused("a", "a-model.fits: the sum of its pixels is", "Jy");
    assert_int_equal(truncate("a-model.fits", 3000), 0);
    refused("a", "a-model.fits: truncated or corrupt", "");
    make("a-model.fits", &(recipe){.n_freq = 2});
    assert_int_equal(truncate("a-model.fits", 2880 + 1700), 0);
    refused("a", "a-model.fits: truncated or corrupt", "");
    /* 60 pixels of 5 degrees: the corners are beyond the horizon, where NaN is zero. */
    make("a-model.fits", &(recipe){.nx = 60, .ny = 60, .card = {"CDELT1  = -5.", "CDELT2  = 5."}});
    for (long i = 0; i < 3600; i++) {
        const double l = (30 - (double)(i % 60)) * 5 * MSI_PI / 180, m = ((double)(i / 60) - 30) * 5 * MSI_PI / 180;
        if (l * l + m * m >= 1) spoil("a-model.fits", i, i % 2 ? NAN : INFINITY);
    }
    msi_model_images *m = find("a");
    msi_model_images_free(m);
    spoil("a-model.fits", 30 * 60 + 19, NAN); /* l = 0.96 */
    refused("a", "a-model.fits: pixel (20, 31) is NaN", "");
}

static void bad_headers(void **state)
{
    (void)state;
    static const struct {
        recipe r;
        const char *why;
    } cases[] = {
        {{.card = {"BUNIT   = 'Jy/beam '"}}, "not Jy/pixel"},
        {{.card = {"BUNIT   = 'K       '"}}, "not Jy/pixel"},
        {{.card = {"CTYPE1  = 'RA---TAN'", "CTYPE2  = 'DEC--TAN'"}}, "RA---TAN"},
        {{.card = {"CTYPE1  = 'RA---NCP'", "CTYPE2  = 'DEC--NCP'"}}, "RA---NCP"},
        {{.card = {"PC1_2   = 0.1"}}, "rotated or skewed"},
        {{.card = {"CROTA2  = 3.0"}}, "rotated or skewed"},
        {{.card = {"PV2_1   = 0.1"}}, "rotated or skewed"},
        {{.card = {"CDELT1  = 0.001"}}, "CDELT1"},
        {{.crpix_x = 10.5}, "CRPIX1 is 10.5"},
        {{.crpix_y = 1e12}, "CRPIX2 is 1e+12, too far"},
        {{.freq_hz = -1}, "frequency"},
        {{.stokes = 9}, "not a polarisation"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clean();
        make("a-model.fits", &cases[i].r);
        refused("a", "a-model.fits: ", cases[i].why);
    }
    refused("b", "no model found: no file b-model.fits", "-name");
    refused("absent/b", "absent: No such file or directory", "");
    assert_int_equal(mkdir("d-model.fits", 0777), 0);
    refused("d", "d-model.fits: ", "");
    assert_int_equal(system("echo nothing > e-model.fits"), 0);
    refused("e", "e-model.fits: not a FITS file", "");

    /* Equivalent units, and force. */
    static const char *const units[] = {"BUNIT   = 'JY/PIXEL'", "BUNIT   = 'Jy/pix'", "BUNIT   = 'Jy      '"};
    for (size_t i = 0; i < 3; i++) {
        make("a-model.fits", &(recipe){.card = {units[i]}});
        msi_model_images_free(find("a"));
    }
    make("a-model.fits", &(recipe){.card = {"BUNIT   = 'Jy/beam '"}});
    msi_model_images *m;
    assert_int_equal(msi_model_images_find(&m, "a", 1, 0), MSI_OK);
    msi_model_images_free(m);
}

/* Use names of any characters, and as long as a path may be. */
static void odd_names(void **state)
{
    (void)state;
    static const char *const names[] = {"with blank", "%s%n", "[1:5]", "(x)", "!a", "'q\"", "-", "\xc3\xbc", "a.b-c"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char file[64], path[80];
        clean();
        make("x.fits", &(recipe){0});
        snprintf(file, sizeof file, "%s-Q-model.fits", names[i]);
        snprintf(path, sizeof path, "./%s-Q-model.fits", names[i]);
        assert_int_equal(rename("x.fits", path), 0);
        refused(names[i], file, "has I");
        make("x.fits", &(recipe){.stokes = 2});
        assert_int_equal(rename("x.fits", path), 0);
        msi_model_images *m = find(names[i]);
        assert_string_equal(m->names, file);
        msi_model_images_free(m);
    }
    char longest[5000];
    memset(longest, 'n', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    refused(longest, "no model", "");
}

/* The hash depends on pixels, polarisations and frequencies. */
static void hashes_differ(void **state)
{
    (void)state;
    static const recipe recipes[] = {{0}, {.offset = 1}, {.stokes = 2}, {.freq_hz = 1.5e9}, {.nx = 22}};
    uint64_t hash[5];
    for (int i = 0; i < 5; i++) {
        for (int again = 0; again < 2; again++) {
            clean();
            make("a-model.fits", &recipes[i]);
            msi_model_images *m = find("a");
            if (again) assert_true(hash[i] == m->hash);
            hash[i] = m->hash;
            msi_model_images_free(m);
        }
        for (int k = 0; k < i; k++) assert_true(hash[k] != hash[i]);
    }
}

static int setup(void **state)
{
    msi_log_setup(MSI_LOG_QUIET, 0);
    return temp_folder_enter(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_model),     cmocka_unit_test(pixels_are_placed), cmocka_unit_test(polarisations_by_name),
        cmocka_unit_test(hands),         cmocka_unit_test(channel_images),    cmocka_unit_test(cubes),
        cmocka_unit_test(bad_pixels),    cmocka_unit_test(bad_headers),       cmocka_unit_test(odd_names),
        cmocka_unit_test(hashes_differ),
    };
    return cmocka_run_group_tests(tests, setup, temp_folder_leave);
}
