/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of sources: components that become one source; dropped, saved and loaded lists; the file against a table. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "src/clean/source_list.h"
#include "tests/support/temp_folder.h"

static const double DEG = MSI_PI / 180;

static int first_and_slope(const void *fit, const double *value, double *term)
{
    (void)fit;
    term[0] = value[0];
    term[1] = value[1] - value[0];
    term[2] = -0.25;
    return MSI_OK;
}

static void write_list(const msi_source_list *l, const msi_source_sky *sky, char *text, size_t size)
{
    char path[512];
    const char *names[] = {path};
    msi_publish *p;
    snprintf(path, sizeof path, "%s/a-sources.txt", temp_folder);
    assert_int_equal(msi_publish_plan(&p, names, 1, 1), 0);
    if (msi_source_list_write(p, 0, l, sky) || msi_publish_commit(p)) fail_msg("%s", msi_error_get());
    msi_publish_free(p);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, size - 1, f)] = 0;
    fclose(f);
    unlink(path);
}

/* Components are at the image centre, 1 h and -30 deg, and north of it; offsets of 0.01 deg are 36 arcsec. A scale of
 * 16 pixels is a gaussian of sigma 3 pixels, with a width of 2.35482 x 3 x 36 = 254.3206 arcsec. */
static void file_is_as_its_readers_want_it(void **state)
{
    (void)state;
    static const char want[] =
        "Format = Name, Type, Ra, Dec, I, SpectralIndex, LogarithmicSI, ReferenceFrequency='1400000000', MajorAxis, "
        "MinorAxis, Orientation\n"
        "s0c0,POINT,01:00:00.000,-29.59.24.000,-2.5,[1.5,-0.25],true,1400000000,,,\n"
        "s0c1,POINT,01:00:00.000,-30.00.00.000,1,[1,-0.25],true,1400000000,,,\n"
        "s1c0,GAUSSIAN,01:00:00.000,-30.00.00.000,0.5,[0.25,-0.25],true,1400000000,254.320";
    const msi_image_geometry g = {20, 10, 0.01 * DEG, 0.01 * DEG};
    const double scale[] = {0, 16};
    const msi_source_sky sky = {.geometry = &g,
                                .ra_rad = 15 * DEG,
                                .dec_rad = -30 * DEG,
                                .frame = "J2000",
                                .scale = scale,
                                .n_scale = 2,
                                .terms = first_and_slope,
                                .n_term = 3,
                                .is_logarithmic = 1,
                                .reference_hz = 1.4e9};
    /* There are two channels and two polarisations, of which only the first is used. */
    const msi_clean_component found[] = {{10, 5, 0}, {10, 5, 1}, {10, 6, 0}, {10, 5, 0}};
    const double value[4][2][2] = {
        {{0.25, 9}, {1.5, 9}}, {{0.5, 9}, {0.75, 9}}, {{-2.5, 9}, {-1, 9}}, {{0.75, 9}, {0.5, 9}}};
    char text[4096];
    msi_source_list *l;
    const int64_t in_use = msi_memory_in_use();
    assert_int_equal(msi_source_list_create(&l, 2), 0);
    assert_int_equal(msi_source_list_add(l, found, value, MSI_FP64, 2, 4), 0);
    assert_int_equal(msi_source_list_n(l), 0);
    assert_int_equal(msi_source_list_keep(l), 0);
    assert_int_equal(msi_source_list_n(l), 3);
    write_list(l, &sky, text, sizeof text);
    text[sizeof want - 1] = 0;
    assert_string_equal(text, want);
    msi_source_list_free(l);
    assert_int_equal(msi_memory_in_use(), in_use);
}

/* Many components in any order are summed as in an array. Dropped components leave nothing. A loaded list can be added
 * to. */
static void sources_are_sums_of_components(void **state)
{
    (void)state;
    enum { N = 3000, X = 9, Y = 7, S = 2 };
    static double sum[S][Y][X];
    msi_source_list *l, *other;
    uint64_t seed = 1;
    int64_t n_source = 0;
    assert_int_equal(msi_source_list_create(&l, 1), 0);
    for (int k = 0; k < N; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int x = (int)(seed >> 40) % X, y = (int)(seed >> 20 & 0xfffff) % Y, s = (int)(seed >> 60) % S;
        const msi_clean_component c = {x, y, s};
        const float value = (float)((int)(seed >> 33 & 255) - 128) / 64; /* whose sums are exact */
        assert_int_equal(msi_source_list_add(l, &c, &value, MSI_FP32, 1, 1), 0);
        if (k % 10 == 3) {
            msi_source_list_drop(l);
            continue;
        }
        /* Keep all added components before the next ones are dropped. */
        sum[s][y][x] += (double)value;
        if (k % 5 == 0 || k % 10 == 2) assert_int_equal(msi_source_list_keep(l), 0);
    }
    assert_int_equal(msi_source_list_keep(l), 0);
    for (int i = 0; i < S * Y * X; i++) n_source += (&sum[0][0][0])[i] != 0;
    const int64_t bytes = msi_source_list_bytes(l);
    void *saved = malloc((size_t)bytes);
    msi_source_list_save(l, saved);
    assert_int_equal(msi_source_list_create(&other, 1), 0);
    assert_int_equal(msi_source_list_load(other, saved, bytes - 1), MSI_EINPUT);
    assert_int_equal(msi_source_list_load(other, saved, bytes), 0);
    assert_int_equal(msi_source_list_n(other), msi_source_list_n(l));
    assert_true(msi_source_list_n(l) >= n_source);
    const msi_image_geometry g = {X, Y, 0.01 * DEG, 0.01 * DEG};
    const double scale[] = {0, 4};
    const msi_source_sky sky = {.geometry = &g, .frame = "ICRS", .scale = scale, .n_scale = 2, .n_term = 1};
    static char text[1 << 16], again[1 << 16];
    write_list(l, &sky, text, sizeof text);
    write_list(other, &sky, again, sizeof again);
    assert_string_equal(text, again);
    /* The fluxes in the file sum up to those of the components. */
    double flux = 0, want = 0;
    for (int i = 0; i < S * Y * X; i++) want += (&sum[0][0][0])[i];
    for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        const char *field = line;
        for (int i = 0; i < 4; i++) field = strchr(field, ',') + 1;
        flux += atof(field);
    }
    assert_true(fabs(flux - want) < 1e-9);
    free(saved);
    msi_source_list_free(l);
    msi_source_list_free(other);
}

/* Seconds are rounded together with minutes and hours: 60 never appears, and 24 hours are 0. */
static void angles_are_rounded_whole(void **state)
{
    (void)state;
    const double scale = 0;
    const msi_clean_component at = {2, 2, 0};
    const double one = 1;
    static const struct {
        double ra_deg, dec_deg, cell_arcsec;
        const char *text;
    } all[] = {{359.9999999, 59.99999999, 2, "POINT,00:00:00.000,60.00.00.000,1,[]"},
               {14.99999999, -0.00000001, 2, "POINT,01:00:00.000,-00.00.00.000,1,[]"},
               {187.70593, 12.39112, 2, "POINT,12:30:49.423,12.23.28.032,1,[]"},
               /* Pixels of a milliarcsecond need decimals to 1e-5 arcsec. */
               {187.705931, 12.391123, 0.001, "POINT,12:30:49.4234400,12.23.28.04280,1,[]"}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[2048];
        msi_source_list *l;
        const msi_image_geometry g = {4, 4, all[i].cell_arcsec / 3600 * DEG, all[i].cell_arcsec / 3600 * DEG};
        const msi_source_sky sky = {.geometry = &g,
                                    .ra_rad = all[i].ra_deg * DEG,
                                    .dec_rad = all[i].dec_deg * DEG,
                                    .frame = "J2000",
                                    .scale = &scale,
                                    .n_scale = 1,
                                    .n_term = 1};
        assert_int_equal(msi_source_list_create(&l, 1), 0);
        assert_int_equal(msi_source_list_add(l, &at, &one, MSI_FP64, 1, 1), 0);
        assert_int_equal(msi_source_list_keep(l), 0);
        write_list(l, &sky, text, sizeof text);
        if (!strstr(text, all[i].text)) fail_msg("%s", text);
        msi_source_list_free(l);
    }
}

/* If memory runs out, a merge leaks nothing; with enough memory the list is complete. */
static void memory_may_end_anywhere(void **state)
{
    (void)state;
    enum { N = 100 };
    static msi_clean_component found[N];
    static double value[N];
    msi_source_list *l;
    int n_failed = 0;
    for (int i = 0; i < N; i++) found[i] = (msi_clean_component){i, 0, 0}, value[i] = 1;
    assert_int_equal(msi_source_list_create(&l, 1), 0);
    assert_int_equal(msi_source_list_add(l, found, value, MSI_FP64, 1, N), 0);
    const int64_t in_use = msi_memory_in_use();
    for (int64_t bytes = 100; msi_source_list_n(l) == 0; bytes += 100) {
        msi_memory_limit_set(in_use + bytes);
        if (msi_source_list_keep(l) == 0) continue;
        n_failed++;
        assert_int_equal(msi_memory_in_use(), in_use);
    }
    msi_memory_limit_set(0);
    assert_int_equal(msi_source_list_n(l), N);
    /* Values take 800 bytes, and places more. */
    assert_true(n_failed > 16);
    msi_source_list_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(file_is_as_its_readers_want_it), cmocka_unit_test(sources_are_sums_of_components),
        cmocka_unit_test(angles_are_rounded_whole), cmocka_unit_test(memory_may_end_anywhere)};
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
