/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests output channels: each selected frequency is in one of them, in order, in groups of nearly equal size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/sky/output_channels.h"
#include "testdata/makems.h"
#include "tests/support/ms_fixture.h"

#define MHZ(x) ((x)*1e6)

/* Open a new set with these spectral windows. */
static msi_ms_reader *open_set(msi_makems_spw *spw, int n_spw, const msi_ms_selection *selection)
{
    static int n_made;
    char path[300];
    snprintf(path, sizeof path, "%s/set%d.ms", temp_folder, n_made++);
    msi_layout layout;
    assert_int_equal(msi_layout_vla(&layout, 'D'), MSI_OK);
    for (int i = 0; i < n_spw; i++) {
        spw[i].n_corr = 1;
        spw[i].corr[0] = MSI_POL_XX;
    }
    const msi_makems_field field = {.name = "field", .ra_rad = 1, .dec_rad = 0.6};
    const msi_makems_source source = {.ra_rad = 1, .dec_rad = 0.6, .stokes_jy = {1, 0, 0, 0}};
    const msi_makems_spec spec = {.layout = &layout,
                                  .n_field = 1,
                                  .field = &field,
                                  .n_spw = n_spw,
                                  .spw = spw,
                                  .n_source = 1,
                                  .source = &source,
                                  .integration_s = 10,
                                  .n_time = 1};
    if (msi_makems_write(path, &spec) != MSI_OK) fail_msg("%s", msi_error_get());
    msi_layout_free(&layout);
    const char *const paths[] = {path};
    msi_ms_reader *reader;
    if (msi_ms_reader_open(&reader, paths, 1, selection) != MSI_OK) fail_msg("%s", msi_error_get());
    return reader;
}

/* Return the number of channels of all spectral windows in output channel i; each must belong to exactly one
 * output channel. */
static int members(const msi_output_channels *c, const msi_ms_reader *reader, int64_t i)
{
    int n = 0;
    for (int s = 0; s < msi_ms_reader_n_spw(reader); s++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, s);
        int32_t first, end, next = 0;
        int64_t first_met, end_met;
        msi_output_channels_overlap(c, spw->freq_hz, spw->n_chan, &first_met, &end_met);
        for (int64_t k = 0; k < c->n; k++) {
            msi_output_channels_range(c, k, spw->freq_hz, spw->n_chan, &first, &end);
            assert_int_equal(first, next);
            assert_true(end >= first);
            if (end > first) assert_in_range(k, first_met, end_met - 1);
            if (k == first_met || k == end_met - 1) assert_true(end > first);
            if (k == i) n += end - first;
            next = end;
        }
        assert_int_equal(next, spw->n_chan);
    }
    return n;
}

static const msi_channel_division evenly;

static void check_divided(const msi_ms_reader *reader, int64_t n, const msi_channel_division *d, const int *want)
{
    msi_output_channels c;
    assert_int_equal(msi_output_channels_make(&c, reader, n, d), MSI_OK);
    assert_int_equal(c.n, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(members(&c, reader, i), want[i]);
        if (i) assert_true(c.edge_hz[i] > c.edge_hz[i - 1]);
    }
    msi_output_channels_free(&c);
}

static void check(const msi_ms_reader *reader, int64_t n, const int *want)
{
    check_divided(reader, n, &evenly, want);
}

static void test_one_window(void **state)
{
    (void)state;
    msi_makems_spw spw = {.n_chan = 7, .first_freq_hz = MHZ(100), .step_hz = MHZ(2)};
    const msi_ms_selection all = {0};
    msi_ms_reader *r = open_set(&spw, 1, &all);
    check(r, 1, (const int[]){7});
    check(r, 2, (const int[]){3, 4});
    check(r, 3, (const int[]){2, 2, 3});
    check(r, 7, (const int[]){1, 1, 1, 1, 1, 1, 1});
    msi_output_channels c;
    assert_int_equal(msi_output_channels_make(&c, r, 3, &evenly), MSI_OK);
    /* Bands extend to the edges of the channels. */
    static const double low[] = {MHZ(99), MHZ(103), MHZ(107)}, high[] = {MHZ(103), MHZ(107), MHZ(113)};
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(c.low_hz[i] - low[i]) < 1);
        assert_true(fabs(c.high_hz[i] - high[i]) < 1);
    }
    msi_output_channels_free(&c);
    assert_int_equal(msi_output_channels_make(&c, r, 8, &evenly), MSI_EUSAGE);
    assert_non_null(strstr(msi_error_get(), "-channels-out 8"));
    assert_non_null(strstr(msi_error_get(), "7 frequencies"));
    assert_null(c.edge_hz);
    msi_ms_reader_free(r);
}

/* Try a descending window whose channels lie between those of another, and one that repeats some of its frequencies. */
static void test_interleaved_windows(void **state)
{
    (void)state;
    msi_makems_spw spw[] = {{.n_chan = 4, .first_freq_hz = MHZ(100), .step_hz = MHZ(2)},
                            {.n_chan = 4, .first_freq_hz = MHZ(107), .step_hz = -MHZ(2)},
                            {.n_chan = 2, .first_freq_hz = MHZ(104), .step_hz = MHZ(2)}};
    const msi_ms_selection all = {0};
    msi_ms_reader *r = open_set(spw, 3, &all);
    /* Distinct: 100 .. 107; 104 and 106 appear twice. */
    check(r, 2, (const int[]){4, 6});
    check(r, 3, (const int[]){2, 4, 4});
    check(r, 8, (const int[]){1, 1, 1, 1, 2, 1, 2, 1});
    msi_output_channels c;
    assert_int_equal(msi_output_channels_make(&c, r, 9, &evenly), MSI_EUSAGE);
    assert_int_equal(msi_output_channels_make(&c, r, 4, &evenly), MSI_OK);
    assert_true(fabs(c.low_hz[1] - MHZ(101)) < 1);  /* 102 less half of 2 */
    assert_true(fabs(c.high_hz[1] - MHZ(104)) < 1); /* 103 and half of 2 */
    msi_output_channels_free(&c);
    msi_ms_reader_free(r);
}

static void test_selected_frequencies_alone(void **state)
{
    (void)state;
    msi_makems_spw spw[] = {{.n_chan = 6, .first_freq_hz = MHZ(100), .step_hz = MHZ(1)},
                            {.n_chan = 6, .first_freq_hz = MHZ(205), .step_hz = -MHZ(1)}};
    const msi_ms_selection part = {.channel_begin = 4, .channel_end = 9};
    msi_ms_reader *r = open_set(spw, 2, &part);
    check(r, 2, (const int[]){2, 3}); /* 104, 105 and 200, 201, 202 */
    msi_output_channels c;
    assert_int_equal(msi_output_channels_make(&c, r, 2, &evenly), MSI_OK);
    assert_true(fabs(c.low_hz[0] - MHZ(103.5)) < 1 && fabs(c.high_hz[0] - MHZ(105.5)) < 1);
    assert_true(fabs(c.low_hz[1] - MHZ(199.5)) < 1 && fabs(c.high_hz[1] - MHZ(202.5)) < 1);
    msi_output_channels_free(&c);
    msi_ms_reader_free(r);
}

/* Divide at gaps and at given frequencies, by hand: 100, 101, 102, 110, 111, 130 MHz. */
static void test_gaps_and_splits(void **state)
{
    (void)state;
    msi_makems_spw spw[] = {{.n_chan = 3, .first_freq_hz = MHZ(100), .step_hz = MHZ(1)},
                            {.n_chan = 2, .first_freq_hz = MHZ(111), .step_hz = -MHZ(1)},
                            {.n_chan = 1, .first_freq_hz = MHZ(130), .step_hz = MHZ(1)}};
    const msi_ms_selection all = {0};
    msi_ms_reader *r = open_set(spw, 3, &all);
    const msi_channel_division gaps = {.by_gaps = 1};
    check_divided(r, 1, &gaps, (const int[]){6});
    check_divided(r, 2, &gaps, (const int[]){5, 1});
    check_divided(r, 3, &gaps, (const int[]){3, 2, 1});
    check_divided(r, 4, &gaps, (const int[]){3, 1, 1, 1}); /* of equal gaps the higher one */
    check_divided(r, 6, &gaps, (const int[]){1, 1, 1, 1, 1, 1});

    /* A part begins at its frequency; output channels go to parts evenly, the rest to the last ones. */
    const double at[] = {MHZ(102), MHZ(120)};
    const msi_channel_division two = {.n_split = 1, .split_hz = at}, three = {.n_split = 2, .split_hz = at};
    const msi_channel_division gaps_of_two = {.by_gaps = 1, .n_split = 1, .split_hz = at};
    check_divided(r, 2, &two, (const int[]){2, 4});
    check_divided(r, 3, &two, (const int[]){2, 2, 2});
    check_divided(r, 3, &gaps_of_two, (const int[]){2, 3, 1});
    check_divided(r, 3, &three, (const int[]){2, 3, 1});
    msi_output_channels c;
    assert_int_equal(msi_output_channels_make(&c, r, 4, &three), MSI_EUSAGE);
    assert_non_null(
        strstr(msi_error_get(), "needs 2 channels at 120 MHz or more, but the selection has 1 frequency there"));
    const struct {
        double hz[2];
        const char *words;
    } outside[] = {{{MHZ(99), MHZ(105)}, "below 99 MHz"},
                   {{MHZ(103), MHZ(104)}, "from 103 to 104 MHz"},
                   {{MHZ(103), MHZ(131)}, "at 131 MHz or more"}};
    for (int i = 0; i < 3; i++) {
        const msi_channel_division d = {.n_split = 2, .split_hz = outside[i].hz};
        assert_int_equal(msi_output_channels_make(&c, r, 3, &d), MSI_EINPUT);
        assert_non_null(strstr(msi_error_get(), outside[i].words));
        assert_null(c.edge_hz);
    }
    msi_ms_reader_free(r);
}

static void test_too_little_memory(void **state)
{
    (void)state;
    msi_makems_spw spw = {.n_chan = 100, .first_freq_hz = MHZ(100), .step_hz = MHZ(2)};
    const msi_ms_selection all = {0};
    msi_ms_reader *r = open_set(&spw, 1, &all);
    const int64_t before = msi_memory_in_use();
    for (int64_t allowed = 0; allowed < 4000; allowed += 500) {
        msi_memory_limit_set(before + allowed);
        msi_output_channels c;
        int rc = msi_output_channels_make(&c, r, 100, &evenly);
        assert_true(rc == MSI_ENOMEM || rc == MSI_OK);
        if (!rc) msi_output_channels_free(&c);
        assert_int_equal(msi_memory_in_use(), before);
    }
    msi_memory_limit_set(0);
    msi_ms_reader_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_window),
        cmocka_unit_test(test_interleaved_windows),
        cmocka_unit_test(test_selected_frequencies_alone),
        cmocka_unit_test(test_gaps_and_splits),
        cmocka_unit_test(test_too_little_memory),
    };
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
