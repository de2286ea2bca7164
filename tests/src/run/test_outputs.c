/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The files of a run: each combination of intervals, channels and polarisations has its name; all files appear, or
 * none.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"
#include "src/options/suggestion.h"
#include "src/run/outputs.h"
#include "tests/support/temp_folder.h"

enum { SIZE = 16, MAX_FILES = 64 };

static const double blank[SIZE * SIZE];
static const msi_observation observation = {.dir_frame = "J2000", .time_scale = "UTC", .spec_frame = "TOPO"};
static const msi_fits_spec header = {.geometry = {SIZE, SIZE, 1e-5, 1e-5}, .observation = &observation};

static const msi_pol stokes[] = {MSI_POL_I, MSI_POL_Q}, raw[] = {MSI_POL_XX, MSI_POL_XY};

static msi_options plain(void)
{
    return (msi_options){
        .name = "run", .geometry = {SIZE, SIZE, 1e-5, 1e-5}, .n_pol = 1, .channels_out = 1, .intervals_out = 1};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* List the files of the directory, hidden ones too, sorted and separated by blanks. */
static void list(char *out, size_t size)
{
    char *name[MAX_FILES];
    int n = 0;
    DIR *d = opendir(".");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            assert_true(n < MAX_FILES);
            name[n++] = strdup(e->d_name);
        }
    closedir(d);
    qsort(name, (size_t)n, sizeof *name, by_name);
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(out);
        snprintf(out + length, size - length, "%s%s", i ? " " : "", name[i]);
        free(name[i]);
    }
}

static void empty_folder(void)
{
    char names[4096], *save = NULL;
    list(names, sizeof names);
    for (char *p = strtok_r(names, " ", &save); p; p = strtok_r(NULL, " ", &save)) assert_int_equal(remove(p), 0);
}

static void write_one(msi_outputs *o, int64_t interval, int64_t channel, int plane, msi_fits_kind kind)
{
    msi_output_id id = {interval, channel, plane, kind, 0};
    if (msi_outputs_write(o, &id, &header, blank, MSI_FP64) != MSI_OK) fail_msg("%s", msi_error_get());
}

static void write_channel(msi_outputs *o, const msi_options *opt, int n_plane, int64_t interval, int64_t channel)
{
    if (opt->make_psf) write_one(o, interval, channel, 0, MSI_FITS_PSF);
    if (opt->save_weights) write_one(o, interval, channel, 0, MSI_FITS_WEIGHTS);
    for (int p = 0; p < n_plane && !opt->make_psf_only; p++) {
        write_one(o, interval, channel, p, MSI_FITS_DIRTY);
        if (!opt->save_uv) continue;
        write_one(o, interval, channel, p, MSI_FITS_UV_REAL);
        write_one(o, interval, channel, p, MSI_FITS_UV_IMAG);
    }
}

/* Write all outputs of a run. The directory then holds exactly these files. */
static void check(const msi_options *opt, const msi_pol *pol, int n_pol, const char *want)
{
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane = msi_planes_of(pol, n_pol, 0, planes);
    msi_outputs *o;
    if (msi_outputs_plan(&o, opt, planes, n_plane) != MSI_OK) fail_msg("%s", msi_error_get());
    int n_want = 1;
    for (const char *p = want; *p; p++) n_want += *p == ' ';
    assert_int_equal(msi_outputs_n(o), n_want);
    char names[4096];
    list(names, sizeof names);
    assert_string_equal(names, "");
    for (int64_t t = 0; t < opt->intervals_out; t++) {
        for (int64_t c = 0; c < opt->channels_out; c++) write_channel(o, opt, n_plane, t, c);
        if (opt->channels_out > 1) write_channel(o, opt, n_plane, t, MSI_OUTPUT_MFS);
    }
    if (msi_outputs_commit(o) != MSI_OK) fail_msg("%s", msi_error_get());
    msi_outputs_free(o);
    list(names, sizeof names);
    assert_string_equal(names, want);
    empty_folder();
}

static void test_names(void **state)
{
    (void)state;
    msi_options o = plain();
    check(&o, stokes, 1, "run-dirty.fits run-image.fits");
    check(&o, stokes, 2, "run-I-dirty.fits run-I-image.fits run-Q-dirty.fits run-Q-image.fits");
    check(&o, raw, 2,
          "run-XX-dirty.fits run-XX-image.fits run-XY-dirty.fits run-XY-image.fits run-XYi-dirty.fits "
          "run-XYi-image.fits");
    check(&o, raw + 1, 1, "run-XY-dirty.fits run-XY-image.fits run-XYi-dirty.fits run-XYi-image.fits");
    o.make_psf = 1;
    check(&o, stokes, 2, "run-I-dirty.fits run-I-image.fits run-Q-dirty.fits run-Q-image.fits run-psf.fits");
    o.make_psf_only = 1;
    check(&o, stokes, 2, "run-psf.fits");
    o = plain();
    o.png = 1;
    o.make_psf = 1;
    check(&o, stokes, 1, "run-dirty.fits run-dirty.png run-image.fits run-psf.fits run-psf.png");
    o = plain();
    o.save_uv = o.save_weights = 1;
    check(&o, stokes, 1, "run-dirty.fits run-image.fits run-uv-imag.fits run-uv-real.fits run-weights.fits");
    check(&o, stokes, 2,
          "run-I-dirty.fits run-I-image.fits run-I-uv-imag.fits run-I-uv-real.fits run-Q-dirty.fits run-Q-image.fits "
          "run-Q-uv-imag.fits run-Q-uv-real.fits run-weights.fits");
    o.make_psf = o.make_psf_only = 1;
    check(&o, stokes, 1, "run-psf.fits run-weights.fits");
    o.png = 1;
    check(&o, stokes, 1, "run-psf.fits run-psf.png run-weights.fits run-weights.png");
}

static void test_names_of_channels(void **state)
{
    (void)state;
    msi_options o = plain();
    o.channels_out = 2;
    check(&o, stokes, 1,
          "run-0000-dirty.fits run-0000-image.fits run-0001-dirty.fits run-0001-image.fits run-MFS-dirty.fits "
          "run-MFS-image.fits");
    o.make_psf = 1;
    check(&o, stokes, 2,
          "run-0000-I-dirty.fits run-0000-I-image.fits run-0000-Q-dirty.fits run-0000-Q-image.fits run-0000-psf.fits "
          "run-0001-I-dirty.fits run-0001-I-image.fits run-0001-Q-dirty.fits run-0001-Q-image.fits run-0001-psf.fits "
          "run-MFS-I-dirty.fits run-MFS-I-image.fits run-MFS-Q-dirty.fits run-MFS-Q-image.fits run-MFS-psf.fits");
    o = plain();
    o.channels_out = 2;
    o.save_weights = 1;
    check(&o, stokes, 1,
          "run-0000-dirty.fits run-0000-image.fits run-0000-weights.fits run-0001-dirty.fits run-0001-image.fits "
          "run-0001-weights.fits run-MFS-dirty.fits run-MFS-image.fits run-MFS-weights.fits");
}

static void test_names_of_intervals(void **state)
{
    (void)state;
    msi_options o = plain();
    o.intervals_out = 2;
    check(&o, stokes, 1, "run-t0000-dirty.fits run-t0000-image.fits run-t0001-dirty.fits run-t0001-image.fits");
    o.channels_out = 2;
    o.make_psf = o.make_psf_only = 1;
    check(&o, stokes, 1,
          "run-t0000-0000-psf.fits run-t0000-0001-psf.fits run-t0000-MFS-psf.fits run-t0001-0000-psf.fits "
          "run-t0001-0001-psf.fits run-t0001-MFS-psf.fits");
    o = plain();
    o.intervals_out = 2;
    check(&o, stokes, 2,
          "run-t0000-I-dirty.fits run-t0000-I-image.fits run-t0000-Q-dirty.fits run-t0000-Q-image.fits "
          "run-t0001-I-dirty.fits run-t0001-I-image.fits run-t0001-Q-dirty.fits run-t0001-Q-image.fits");
}

/* A name is used unchanged. */
static void test_odd_names(void **state)
{
    (void)state;
    msi_options o = plain();
    o.name = "odd%s%n[1:5](x)!";
    check(&o, stokes, 1, "odd%s%n[1:5](x)!-dirty.fits odd%s%n[1:5](x)!-image.fits");
    o.name = "-dash";
    check(&o, stokes, 1, "-dash-dirty.fits -dash-image.fits");
    char longest[230];
    memset(longest, 'n', sizeof longest);
    longest[sizeof longest - 1] = 0;
    char want[512];
    snprintf(want, sizeof want, "%s-dirty.fits %s-image.fits", longest, longest);
    o.name = longest;
    check(&o, stokes, 1, want);
}

static void test_refusals(void **state)
{
    (void)state;
    msi_options o = plain();
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane = msi_planes_of(stokes, 2, 0, planes);
    msi_outputs *out;
    char names[4096];
    FILE *f = fopen("run-Q-dirty.fits", "w");
    assert_non_null(f);
    fputs("old", f);
    fclose(f);
    int status = msi_outputs_plan(&out, &o, planes, n_plane);
    assert_int_equal(status, MSI_EARGUMENT);
    assert_null(out);
    assert_int_equal(msi_hint_append(status), MSI_EARGUMENT);
    assert_non_null(strstr(msi_error_get(), "run-Q-dirty.fits"));
    assert_non_null(strstr(msi_error_get(), "-overwrite"));
    o.overwrite = 1;
    assert_int_equal(msi_outputs_plan(&out, &o, planes, n_plane), MSI_OK);
    write_one(out, 0, 0, 0, MSI_FITS_DIRTY);
    write_one(out, 0, 0, 1, MSI_FITS_DIRTY);
    /* After freeing without committing, the old file is unchanged and there are no other files. */
    msi_outputs_free(out);
    list(names, sizeof names);
    assert_string_equal(names, "run-Q-dirty.fits");
    struct stat s;
    assert_int_equal(stat("run-Q-dirty.fits", &s), 0);
    assert_int_equal(s.st_size, 3);
    empty_folder();
    o = plain();
    o.name = "absent/run";
    assert_int_equal(msi_outputs_plan(&out, &o, planes, n_plane), MSI_EOUTPUT);
    assert_non_null(strstr(msi_error_get(), "absent"));
    o = plain();
    assert_int_equal(msi_outputs_plan(&out, &o, planes, 1), MSI_OK);
    msi_output_id unplanned = {0, 0, 0, MSI_FITS_PSF, 0};
    assert_int_equal(msi_outputs_write(out, &unplanned, &header, blank, MSI_FP64), MSI_EINTERNAL);
    /* At least a header block and the pixels; a second name of the image needs no space here. */
    assert_true(msi_outputs_bytes(out) >= 2880 + SIZE * SIZE * 4);
    assert_true(msi_outputs_bytes(out) < 2 * (2880 + SIZE * SIZE * 4) + 4 * 2880);
    msi_outputs_free(out);
    msi_outputs_free(NULL);
    list(names, sizeof names);
    assert_string_equal(names, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_names_of_channels),
        cmocka_unit_test(test_names_of_intervals),
        cmocka_unit_test(test_odd_names),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, temp_folder_enter, temp_folder_leave);
}
