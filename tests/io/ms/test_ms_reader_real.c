/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the reader with real Measurement Sets of observatories, whose numbers of Stokes I samples are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"
#include "io/ms/ms_reader.h"
#include "tests/support/ms_fixture.h"

static char data_dir[1024];

/* Find the path of an unpacked set, or skip. */
static void unpack(const char *name, char *path, size_t size)
{
    char archive[2048], command[4096];
    snprintf(archive, sizeof archive, "%s/%s.tar.xz", data_dir, name);
    if (access(archive, R_OK) != 0) skip();
    snprintf(path, size, "%s/%s.ms", temp_folder, name);
    if (access(path, R_OK) == 0) return;
    snprintf(command, sizeof command, "tar xJf '%s' -C '%s'", archive, temp_folder);
    assert_int_equal(system(command), 0);
}

typedef struct counts {
    int64_t n_stokes_i;
    double sum_weight;
} counts;

/* Count samples with both parallel hands usable, as WSClean counts them, and the sum of the smaller of their
 * weights. */
static counts count(msi_ms_reader *r)
{
    counts c = {0};
    msi_ms_block b = {0};
    for (;;) {
        const int status = msi_ms_reader_next(r, &b);
        if (status != MSI_OK) fail_msg("%s", msi_error_get());
        if (b.n_row == 0) return c;
        const int q = b.n_corr - 1;
        for (int64_t i = 0; i < b.n_row * b.n_chan; i++) {
            const int64_t p = i * b.n_corr;
            if (b.flag[p] || b.flag[p + q]) continue;
            const float w = fminf(b.weight[p], b.weight[p + q]);
            if (!(w > 0) || !isfinite(b.data[p].re + b.data[p].im + b.data[p + q].re + b.data[p + q].im)) continue;
            c.n_stokes_i++;
            c.sum_weight += w;
        }
    }
}

static void check(const char *name, int64_t n_stokes_i, double sum_weight, const char *telescope, int64_t n_time)
{
    char path[2048];
    unpack(name, path, sizeof path);
    const char *const paths[] = {path};
    const uint64_t before = fixture_hash(path);
    msi_ms_reader *r;
    const msi_ms_selection everything = {0};
    if (msi_ms_reader_open(&r, paths, 1, &everything) != MSI_OK) fail_msg("%s", msi_error_get());
    const counts c = count(r);
    assert_int_equal(c.n_stokes_i, n_stokes_i);
    /* The figure that the sum is compared with was printed with 7 digits. */
    assert_true(fabs(c.sum_weight - sum_weight) <= 1e-6 * sum_weight);
    msi_ms_reader_rewind(r);
    assert_int_equal(count(r).n_stokes_i, n_stokes_i);
    assert_int_equal(strncmp(msi_ms_reader_observation(r)->telescope, telescope, strlen(telescope)), 0);
    assert_int_equal(msi_ms_reader_n_time(r), n_time);
    assert_true(msi_ms_reader_one_centre(r));
    msi_ms_reader_free(r);
    assert_true(fixture_hash(path) == before);
}

static void test_mwa(void **state)
{
    (void)state;
    check("mwa-puppis-a", 49255, 4704821, "MWA", 1);
}

static void test_lofar(void **state)
{
    (void)state;
    check("lofar-hba-3c295", 3516, 214592, "LOFAR", 2);
}

static void test_alma(void **state)
{
    (void)state;
    check("alma-hd142527-b9", 34546, 1191811.3, "ALMA", 891);
}

static void test_vla(void **state)
{
    (void)state;
    check("vla-ss433-u", 17569, 31898, "VLA", 31);
}

static void test_oskar(void **state)
{
    (void)state;
    check("sim-oskar-mwa", 8128, 8128, "OSKAR", 1);
}

static void test_two_sets(void **state)
{
    (void)state;
    char lofar[2048], mwa[2048];
    unpack("lofar-hba-3c295", lofar, sizeof lofar);
    unpack("mwa-puppis-a", mwa, sizeof mwa);
    const char *const paths[] = {lofar, mwa, lofar};
    msi_ms_selection data = {0};
    msi_ms_reader *r;
    /* Only one set has CORRECTED_DATA; such sets are not mixed unless requested. */
    assert_int_equal(msi_ms_reader_open(&r, paths, 3, &data), MSI_EINPUT);
    assert_null(r);
    data.data_column = "DATA";
    assert_int_equal(msi_ms_reader_open(&r, paths, 3, &data), MSI_OK);
    assert_int_equal(count(r).n_stokes_i, 3516 + 49255 + 3516);
    assert_false(msi_ms_reader_one_centre(r));
    msi_ms_reader_rewind(r);
    assert_int_equal(count(r).n_stokes_i, 3516 + 49255 + 3516);
    msi_ms_reader_free(r);
}

int main(void)
{
    const char *env = getenv("MSIMAGE_TEST_DATA");
    snprintf(data_dir, sizeof data_dir, "%s", env && *env ? env : MSIMAGE_SOURCE_DIR "/../shared/data");
    if (access(data_dir, R_OK) != 0) {
        printf("no test data in %s: skipped\n", data_dir);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mwa), cmocka_unit_test(test_lofar), cmocka_unit_test(test_alma),
        cmocka_unit_test(test_vla), cmocka_unit_test(test_oskar), cmocka_unit_test(test_two_sets),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
