/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests that the reader returns every selected sample once, in order, with its weight and flag, for any storage of the
 * set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "core/status.h"
#include "io/ms/ms_reader.h"
#include "tests/support/ms_fixture.h"

static int n_made;

static const ms_fixture simple = {.n_antenna = 5,
                                  .n_time = 6,
                                  .n_field = 1,
                                  .n_spw = 1,
                                  .n_chan = {8},
                                  .n_corr = {4},
                                  .tiled = 1,
                                  .with_weight_spectrum = 1};

static ms_fixture two_setups(void)
{
    ms_fixture f = simple;
    f.n_spw = 2;
    f.n_chan[1] = 4;
    f.n_corr[1] = 2;
    return f;
}

static msi_ms_reader *open_made(const ms_fixture *f, const msi_ms_selection *s, char *path, size_t size)
{
    snprintf(path, size, "%s/set%d.ms", temp_folder, n_made++);
    fixture_make(f, path);
    const char *const paths[] = {path};
    msi_ms_reader *r;
    if (msi_ms_reader_open(&r, paths, 1, s) != MSI_OK) fail_msg("%s", msi_error_get());
    return r;
}

static void next(msi_ms_reader *r, msi_ms_block *b)
{
    if (msi_ms_reader_next(r, b) != MSI_OK) fail_msg("%s", msi_error_get());
}

/* Compare a block with the fixture's values. */
static void check_block(const ms_fixture *f, const msi_ms_block *b, const msi_ms_selection *s)
{
    const int factor = f->with_corrected && !s->data_column ? 2 : 1;
    for (int32_t c = 0; c < b->n_chan; c++) {
        assert_true(b->freq_hz[c] == fixture_freq_hz(f, b->spw_id, b->chan_index[c]));
        if (c) assert_true(b->freq_hz[c] > b->freq_hz[c - 1]);
    }
    assert_int_equal(b->n_corr, f->n_corr[b->spw_id]);
    assert_int_equal(b->corr[0], MSI_POL_XX);
    if (b->n_corr > 1) assert_int_equal(b->corr[b->n_corr - 1], MSI_POL_YY);
    assert_true(b->ra_rad == 1.0 + 0.1 * b->field_id && b->dec_rad == -0.5);
    for (int64_t i = 0; i < b->n_row; i++) {
        const int64_t row = b->ms_row[i];
        int time, spw, a1, a2;
        double uvw[3];
        fixture_row(f, row, &time, &spw, &a1, &a2);
        fixture_uvw_m(row, uvw);
        assert_int_equal(b->data_desc_id, spw);
        assert_int_equal(b->field_id, time % f->n_field);
        assert_true(b->time_s[i] == 4.0e9 + 10.0 * time);
        assert_memory_equal(b->uvw_m + 3 * i, uvw, sizeof uvw);
        if (i) assert_true(row > b->ms_row[i - 1]);
        for (int32_t c = 0; c < b->n_chan && b->data; c++)
            for (int32_t p = 0; p < b->n_corr; p++) {
                const int64_t k = (i * b->n_chan + c) * b->n_corr + p;
                const int stored = b->chan_index[c];
                float im, re = fixture_data(row, stored, p, &im);
                assert_true(b->data[k].re == (float)factor * re && b->data[k].im == (float)factor * im);
                const float weight =
                    fixture_has_spectrum(f, row) ? fixture_weight_spectrum(row, stored, p) : fixture_weight(row, p);
                assert_true(b->weight[k] == weight);
                assert_int_equal(b->flag[k] != 0, fixture_flag(row, stored, p));
            }
    }
}

/* Read everything twice; check each sample, and that each selected row is read once. */
static void check_set(const ms_fixture *f, const msi_ms_selection *s, int (*wanted)(const ms_fixture *, int64_t row))
{
    char path[512];
    msi_ms_reader *r = open_made(f, s, path, sizeof path);
    const int64_t n_row = fixture_n_row(f);
    for (int pass = 0; pass < 2; pass++) {
        uint8_t *seen = calloc((size_t)n_row, 1);
        int64_t n_auto = 0, n_flagged = 0, n_selected = 0, n_sample = 0;
        msi_ms_block b = {0};
        for (;;) {
            next(r, &b);
            if (b.n_row == 0) break;
            check_block(f, &b, s);
            for (int64_t i = 0; i < b.n_row; i++) {
                assert_in_range(b.ms_row[i], 0, n_row - 1);
                assert_false(seen[b.ms_row[i]]++);
            }
        }
        for (int64_t row = 0; row < n_row; row++) {
            int time, spw, a1, a2;
            fixture_row(f, row, &time, &spw, &a1, &a2);
            const int belongs = wanted(f, row), left_out = !s->keep_flagged_rows && (a1 == a2 || fixture_flag_row(row));
            assert_int_equal(seen[row], belongs && !left_out);
            n_selected += belongs;
            for (int i = 0; i < msi_ms_reader_n_spw(r) && belongs; i++)
                if (msi_ms_reader_spw(r, i)->data_desc_id == spw) {
                    const int n_chan = msi_ms_reader_spw(r, i)->n_chan;
                    n_sample += n_chan;
                    if (s->keep_flagged_rows) continue;
                    if (a1 == a2)
                        n_auto += n_chan;
                    else if (fixture_flag_row(row))
                        n_flagged += n_chan;
                }
        }
        assert_int_equal(msi_ms_reader_n_row(r), n_selected);
        assert_int_equal(msi_ms_reader_n_sample(r), n_sample);
        assert_int_equal(msi_ms_reader_dropped(r)->autocorrelation, n_auto);
        assert_int_equal(msi_ms_reader_dropped(r)->flag_row, n_flagged);
        free(seen);
        msi_ms_reader_rewind(r);
    }
    msi_ms_reader_free(r);
}

static int every_row(const ms_fixture *f, int64_t row)
{
    (void)f;
    (void)row;
    return 1;
}

static int in_field_0(const ms_fixture *f, int64_t row)
{
    int time, spw, a, b;
    fixture_row(f, row, &time, &spw, &a, &b);
    return time % f->n_field == 0;
}

static int in_spw_1(const ms_fixture *f, int64_t row)
{
    int time, spw, a, b;
    fixture_row(f, row, &time, &spw, &a, &b);
    return spw == 1;
}

static int in_times_2_3(const ms_fixture *f, int64_t row)
{
    int time, spw, a, b;
    fixture_row(f, row, &time, &spw, &a, &b);
    return time == 2 || time == 3;
}

static int from_time_2(const ms_fixture *f, int64_t row)
{
    int time, spw, a, b;
    fixture_row(f, row, &time, &spw, &a, &b);
    return time >= 2;
}

static int with_antenna_1(const ms_fixture *f, int64_t row)
{
    int time, spw, a, b;
    fixture_row(f, row, &time, &spw, &a, &b);
    return (a == 1) != (b == 1) && time >= 3;
}

static void test_storage(void **state)
{
    (void)state;
    const msi_ms_selection s = {0};
    for (int tiled = 0; tiled < 2; tiled++)
        for (int spectrum = 0; spectrum < 3; spectrum++)
            for (int corrected = 0; corrected < 2; corrected++) {
                ms_fixture f = simple;
                f.tiled = tiled;
                f.with_weight_spectrum = spectrum;
                f.with_corrected = corrected;
                check_set(&f, &s, every_row);
            }
}

static void test_column(void **state)
{
    (void)state;
    ms_fixture f = simple;
    f.with_corrected = 1;
    const msi_ms_selection s = {.data_column = "DATA"};
    check_set(&f, &s, every_row);
}

/* Try different channel counts, correlations and directions, by timestep and row by row. */
static void test_setups(void **state)
{
    (void)state;
    const msi_ms_selection s = {.all_fields = 1}, first = {0},
                           one = {.all_fields = 1, .n_spw = 1, .spws = (const int[]){1}};
    for (int interleaved = 0; interleaved < 2; interleaved++)
        for (int tiled = 0; tiled < 2; tiled++)
            for (int same = 0; same < 2; same++) {
                ms_fixture f = {.n_antenna = 6,
                                .n_time = 5,
                                .n_field = 2,
                                .n_spw = 3,
                                .n_chan = {8, 3, 1},
                                .n_corr = {4, 2, 1},
                                .descending = {0, 1, 0},
                                .interleaved = interleaved,
                                .tiled = tiled,
                                .with_weight_spectrum = 2};
                for (int i = 0; i < 3 && same; i++) {
                    f.n_chan[i] = 5;
                    f.n_corr[i] = 2;
                }
                check_set(&f, &s, every_row);
                check_set(&f, &first, in_field_0);
                check_set(&f, &one, in_spw_1);
            }
}

static void test_channels(void **state)
{
    (void)state;
    ms_fixture f = simple;
    f.n_spw = 2;
    f.n_chan[1] = 6;
    f.n_corr[1] = 2;
    f.descending[1] = 1;
    const struct {
        int64_t begin, end;
        int n[2], first[2]; /* of each spectral window: channels, and the stored index of the lowest frequency */
    } cases[] = {{0, 0, {8, 6}, {0, 5}},  {2, 5, {3, 0}, {2, 0}},  {8, 14, {0, 6}, {0, 5}},
                 {6, 10, {2, 2}, {6, 5}}, {9, 11, {0, 2}, {0, 4}}, {13, 14, {0, 1}, {0, 0}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        const msi_ms_selection s = {.channel_begin = cases[i].begin, .channel_end = cases[i].end};
        msi_ms_reader *r = open_made(&f, &s, path, sizeof path);
        msi_ms_block b = {0};
        int64_t n_row[2] = {0};
        for (next(r, &b); b.n_row > 0; next(r, &b)) {
            check_block(&f, &b, &s);
            assert_int_equal(b.n_chan, cases[i].n[b.spw_id]);
            assert_int_equal(b.chan_index[0], cases[i].first[b.spw_id]);
            n_row[b.spw_id] += b.n_row;
        }
        for (int spw = 0; spw < 2; spw++) assert_int_equal(n_row[spw] > 0, cases[i].n[spw] > 0);
        assert_int_equal(msi_ms_reader_n_spw(r), (cases[i].n[0] > 0) + (cases[i].n[1] > 0));
        msi_ms_reader_free(r);
    }
}

static void test_expressions(void **state)
{
    (void)state;
    const ms_fixture f = two_setups();
    const msi_ms_selection both = {.taql = "TIME > 4.000000025e9", .mssel[MSI_MSSEL_ANTENNA] = "A1&*"};
    check_set(&f, &both, with_antenna_1);
    const msi_ms_selection times = {.interval_begin = 2, .interval_end = 4};
    check_set(&f, &times, in_times_2_3);
    const msi_ms_selection later = {.interval_begin = 2};
    check_set(&f, &later, from_time_2);
    char path[512];
    const msi_ms_selection s = {.mssel[MSI_MSSEL_SPW] = "0:1~6^2"};
    msi_ms_reader *r = open_made(&f, &s, path, sizeof path);
    msi_ms_block b = {0};
    next(r, &b);
    assert_int_equal(b.n_chan, 3);
    for (int c = 0; c < 3; c++) assert_int_equal(b.chan_index[c], 1 + 2 * c);
    check_block(&f, &b, &s);
    msi_ms_reader_free(r);
}

static void test_uv_limits(void **state)
{
    (void)state;
    ms_fixture f = simple;
    char path[512];
    const msi_ms_selection s = {.min_uv_lambda = 80, .max_uv_lambda = 150};
    for (int coordinates = 0; coordinates < 2; coordinates++) {
        msi_ms_selection limited = s;
        limited.coordinates_only = coordinates;
        msi_ms_reader *r = open_made(&f, &limited, path, sizeof path);
        msi_ms_block b = {0};
        int64_t n_outside = 0, n_inside = 0;
        for (next(r, &b); b.n_row > 0; next(r, &b)) {
            if (coordinates) assert_true(!b.data && !b.weight);
            for (int64_t i = 0; i < b.n_row * b.n_chan; i++) {
                const double *uvw = b.uvw_m + 3 * (i / b.n_chan);
                const double uv = hypot(uvw[0], uvw[1]) * b.freq_hz[i % b.n_chan] / MSI_SPEED_OF_LIGHT;
                const int outside = uv < s.min_uv_lambda || uv > s.max_uv_lambda;
                for (int p = 0; p < b.n_corr; p++) {
                    const int flagged =
                        !coordinates && fixture_flag(b.ms_row[i / b.n_chan], b.chan_index[i % b.n_chan], p);
                    assert_int_equal(b.flag[i * b.n_corr + p] != 0, outside || flagged);
                }
                n_outside += outside;
                n_inside += !outside;
            }
        }
        assert_true(n_outside > 0 && n_inside > 0);
        assert_int_equal(msi_ms_reader_dropped(r)->uv_limits, n_outside);
        msi_ms_reader_free(r);
    }
}

/* Read all samples of a selection; each row's length of (u, v, w) must be within the limits. */
static int64_t samples_by_length(const msi_ms_selection *s, int64_t *dropped)
{
    ms_fixture f = simple;
    char path[512];
    msi_ms_reader *r = open_made(&f, s, path, sizeof path);
    msi_ms_block b = {0};
    int64_t n = 0;
    for (next(r, &b); b.n_row > 0; next(r, &b)) {
        n += b.n_row * b.n_chan;
        for (int64_t i = 0; i < b.n_row; i++) {
            const double *uvw = b.uvw_m + 3 * i;
            const double length = sqrt(uvw[0] * uvw[0] + uvw[1] * uvw[1] + uvw[2] * uvw[2]);
            assert_true(length >= s->min_uvw_m && (s->max_uvw_m == 0 || length <= s->max_uvw_m));
        }
    }
    *dropped = msi_ms_reader_dropped(r)->uv_limits;
    msi_ms_reader_free(r);
    return n;
}

/* Rows are dropped by the length of their baselines, including w, and counted; both limits together keep the rest. */
static void test_baseline_limits(void **state)
{
    (void)state;
    const msi_ms_selection all = {0};
    int64_t dropped;
    const int64_t n_all = samples_by_length(&all, &dropped);
    assert_int_equal(dropped, 0);
    for (int coordinates = 0; coordinates < 2; coordinates++) {
        const msi_ms_selection near = {.max_uvw_m = 40, .coordinates_only = coordinates};
        const msi_ms_selection far = {.min_uvw_m = 40, .coordinates_only = coordinates};
        const int64_t n_near = samples_by_length(&near, &dropped);
        assert_int_equal(n_near + dropped, n_all);
        const int64_t n_far = samples_by_length(&far, &dropped);
        assert_int_equal(n_far + dropped, n_all);
        assert_true(n_near > 0 && n_far > 0);
        assert_int_equal(n_near + n_far, n_all);
    }
}

static void test_keep_flagged(void **state)
{
    (void)state;
    const msi_ms_selection s = {.coordinates_only = 1, .keep_flagged_rows = 1};
    check_set(&simple, &s, every_row);
}

static void test_observation(void **state)
{
    (void)state;
    ms_fixture f = simple;
    f.with_source = 1;
    char path[512];
    const msi_ms_selection s = {.interval_begin = 1, .interval_end = 3};
    msi_ms_reader *r = open_made(&f, &s, path, sizeof path);
    const msi_observation *o = msi_ms_reader_observation(r);
    assert_string_equal(o->telescope, "VLA");
    assert_string_equal(o->observer, "someone");
    assert_string_equal(o->object, "F0");
    assert_string_equal(o->dir_frame, "J2000");
    assert_string_equal(o->time_scale, "UTC");
    assert_string_equal(o->spec_frame, "LSRK");
    assert_true(o->ra_rad == 1.0 && o->dec_rad == -0.5 && o->rest_freq_hz == 1.42e9);
    assert_true(o->start_mjd_s == 4.0e9 + 10 && o->end_mjd_s == 4.0e9 + 20);
    assert_true(fabs(o->antenna_itrf_m[0] - 5.0002e6) < 1e-3);
    assert_true(fabs(o->longest_baseline_m - 4 * hypot(100, 50)) < 1e-6);
    assert_int_equal(msi_ms_reader_n_time(r), f.n_time);
    assert_string_equal(msi_ms_reader_data_column(r), "DATA");
    msi_ms_reader_free(r);
}

static void test_centres(void **state)
{
    (void)state;
    ms_fixture f = simple;
    f.n_field = 2;
    char path[512];
    const msi_ms_selection one = {0}, all = {.all_fields = 1}, second = {.n_field = 1, .fields = (const int[]){1}};
    msi_ms_reader *r = open_made(&f, &one, path, sizeof path);
    assert_true(msi_ms_reader_one_centre(r));
    msi_ms_reader_free(r);
    r = open_made(&f, &second, path, sizeof path);
    assert_true(msi_ms_reader_one_centre(r));
    assert_string_equal(msi_ms_reader_observation(r)->object, "F1");
    msi_ms_reader_free(r);
    r = open_made(&f, &all, path, sizeof path);
    assert_false(msi_ms_reader_one_centre(r));
    msi_ms_reader_free(r);
}

/* Two blocks in use at once do not share memory; a signal stops the reading. */
static void test_two_blocks(void **state)
{
    (void)state;
    const ms_fixture f = two_setups();
    char path[512];
    const msi_ms_selection s = {0};
    msi_ms_reader *r = open_made(&f, &s, path, sizeof path);
    msi_ms_block a = {0}, b = {0};
    next(r, &a);
    next(r, &b);
    assert_true(a.n_row > 0 && b.n_row > 0 && a.spw_id != b.spw_id);
    check_block(&f, &a, &s);
    check_block(&f, &b, &s);
    msi_ms_reader_rewind(r);
    msi_interrupt_raise(2);
    assert_int_equal(msi_ms_reader_next(r, &a), MSI_EINTERRUPTED);
    msi_interrupt_raise(0);
    msi_ms_reader_free(r);
}

/* More rows than a block holds. */
static void test_many_rows(void **state)
{
    (void)state;
    const ms_fixture f = {.n_antenna = 20,
                          .n_time = 6,
                          .n_field = 1,
                          .n_spw = 2,
                          .n_chan = {128, 128},
                          .n_corr = {4, 4},
                          .descending = {1, 0},
                          .tiled = 1,
                          .interleaved = 1};
    const msi_ms_selection s = {0};
    check_set(&f, &s, every_row);
}

static void test_share_out(void **state)
{
    (void)state;
    static const int64_t size[] = {3, 9, 0, 4, 5};
    int share[5];
    /* 9 to share 0; 5 to 1; 4 to 1; at 9 each, 3 to 0; the item without a size to 1. */
    static const int want[] = {0, 0, 1, 1, 1};
    assert_int_equal(msi_ms_share_out(size, 5, 2, share), MSI_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(share[i], want[i]);
    /* More shares than items of one size: the first shares get one each. */
    static const int64_t none[] = {0, 0, 0};
    assert_int_equal(msi_ms_share_out(none, 3, 7, share), MSI_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(share[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_storage),         cmocka_unit_test(test_column),       cmocka_unit_test(test_setups),
        cmocka_unit_test(test_channels),        cmocka_unit_test(test_expressions),  cmocka_unit_test(test_uv_limits),
        cmocka_unit_test(test_baseline_limits), cmocka_unit_test(test_keep_flagged), cmocka_unit_test(test_observation),
        cmocka_unit_test(test_centres),         cmocka_unit_test(test_two_blocks),   cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_share_out),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
