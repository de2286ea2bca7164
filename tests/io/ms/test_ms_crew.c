/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Processes that read side by side give what one reader gives: the same blocks in the same order, counts and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/status.h"
#include "io/ms/ms_crew.h"
#include "tests/support/ms_fixture.h"

/* Ten blocks of two setups, taken in turn; rows that are left out. */
static const ms_fixture fixture = {.n_antenna = 20,
                                   .n_time = 6,
                                   .n_field = 1,
                                   .n_spw = 2,
                                   .n_chan = {128, 128},
                                   .n_corr = {4, 2},
                                   .descending = {1, 0},
                                   .interleaved = 1};

static char path[512];
static const char *const paths[] = {path};

static int make_set(void **state)
{
    if (temp_folder_setup(state)) return 1;
    snprintf(path, sizeof path, "%s/set.ms", temp_folder);
    fixture_make(&fixture, path);
    return 0;
}

static msi_ms_crew *start(const msi_ms_selection *s, int n_process)
{
    msi_ms_crew *crew;
    if (msi_ms_crew_start(&crew, paths, 1, s, n_process)) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_ms_crew_size(crew), n_process);
    return crew;
}

/* A reader, and what the crew says of its blocks. */
static msi_ms_reader *open_both(msi_ms_crew *crew, const msi_ms_selection *s, int *reads)
{
    msi_ms_reader *r;
    msi_ms_crew_open(crew, s->interval_begin, s->interval_end);
    if (msi_ms_reader_open(&r, paths, 1, s)) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_ms_crew_begin(crew, r, reads), MSI_OK);
    return r;
}

static void same_block(const msi_ms_block *a, const msi_ms_block *b)
{
    const size_t n_row = (size_t)a->n_row, n = n_row * (size_t)a->n_chan * (size_t)a->n_corr;
    assert_int_equal(a->n_row, b->n_row);
    assert_true(a->set == b->set && a->field_id == b->field_id && a->data_desc_id == b->data_desc_id);
    assert_true(a->spw_id == b->spw_id && a->n_chan == b->n_chan && a->n_corr == b->n_corr);
    assert_true(a->ra_rad == b->ra_rad && a->dec_rad == b->dec_rad);
    assert_memory_equal(a->corr, b->corr, (size_t)a->n_corr * sizeof *a->corr);
    assert_memory_equal(a->freq_hz, b->freq_hz, (size_t)a->n_chan * sizeof *a->freq_hz);
    assert_memory_equal(a->chan_index, b->chan_index, (size_t)a->n_chan * sizeof *a->chan_index);
    assert_memory_equal(a->ms_row, b->ms_row, n_row * sizeof *a->ms_row);
    assert_memory_equal(a->time_s, b->time_s, n_row * sizeof *a->time_s);
    assert_memory_equal(a->uvw_m, b->uvw_m, 3 * n_row * sizeof *a->uvw_m);
    assert_memory_equal(a->data, b->data, n * sizeof *a->data);
    assert_memory_equal(a->weight, b->weight, n * sizeof *a->weight);
    assert_memory_equal(a->flag, b->flag, n);
}

/* All blocks of the crew against those of a second reader. Returned: how many. */
static int same_blocks(msi_ms_crew *crew, const msi_ms_selection *s)
{
    int n = 0, reads;
    msi_ms_block a = {0}, b = {0};
    msi_ms_reader *one, *r = open_both(crew, s, &reads);
    assert_true(reads);
    assert_int_equal(msi_ms_reader_open(&one, paths, 1, s), MSI_OK);
    for (;; n++) {
        assert_int_equal(msi_ms_reader_next(one, &a), MSI_OK);
        if (msi_ms_crew_next(crew, &b)) fail_msg("%s", msi_error_get());
        if (a.n_row == 0) break;
        same_block(&a, &b);
    }
    assert_int_equal(b.n_row, 0);
    assert_memory_equal(msi_ms_reader_dropped(r), msi_ms_reader_dropped(one), sizeof(msi_ms_dropped));
    msi_ms_reader_free(one);
    msi_ms_reader_free(r);
    return n;
}

static void nobody_is_left(void)
{
    assert_true(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* Fewer and more processes than slots and blocks; one interval after the other. */
static void test_same(void **state)
{
    (void)state;
    const msi_ms_selection all = {.min_uv_lambda = 100}, none = {.min_uv_lambda = 1e9},
                           intervals[] = {{.interval_begin = 0, .interval_end = 5},
                                          {.interval_begin = 5, .interval_end = 6}};
    for (int n_process = 1; n_process <= 16; n_process = 2 * n_process + 1) {
        msi_ms_crew *crew = start(&all, n_process);
        assert_in_range(same_blocks(crew, &all), 6, 16);
        assert_in_range(same_blocks(crew, &all), 6, 16);
        msi_ms_crew_free(crew);
        crew = start(&intervals[0], n_process);
        for (int i = 0; i < 2; i++) assert_true(same_blocks(crew, &intervals[i]) > 0);
        msi_ms_crew_free(crew);
    }
    msi_ms_crew *crew = start(&none, 3);
    same_blocks(crew, &none);
    msi_ms_crew_free(crew);
    nobody_is_left();
}

/* A cell of another shape in the midst of the set: what was read before it, then the reader's own line. */
static void test_damaged(void **state)
{
    (void)state;
    const int64_t shape[2] = {4, 7};
    const msi_c32 data[4 * 7] = {{0, 0}};
    const msi_ms_selection s = {0};
    char whole[sizeof path], line[1024];
    strcpy(whole, path);
    snprintf(path, sizeof path, "%s/damaged.ms", temp_folder);
    fixture_make(&fixture, path);
    ccc_table *t;
    assert_int_equal(ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD), CCC_OK);
    assert_int_equal(ccc_put_array(t, "DATA", fixture_n_row(&fixture) * 2 / 3, 2, shape, CCC_COMPLEX, data), CCC_OK);
    assert_int_equal(ccc_table_close(t), CCC_OK);
    msi_ms_crew *crew = start(&s, 3);
    msi_ms_block a = {0}, b = {0};
    int reads, status, n = 0;
    msi_ms_reader *one, *r = open_both(crew, &s, &reads);
    assert_true(reads);
    assert_int_equal(msi_ms_reader_open(&one, paths, 1, &s), MSI_OK);
    while ((status = msi_ms_reader_next(one, &a)) == MSI_OK) {
        assert_int_equal(msi_ms_crew_next(crew, &b), MSI_OK);
        same_block(&a, &b);
        n++;
    }
    snprintf(line, sizeof line, "%s", msi_error_get());
    assert_true(n >= 2 && status == MSI_EINPUT);
    assert_int_equal(msi_ms_crew_next(crew, &b), status);
    assert_string_equal(msi_error_get(), line);
    msi_ms_reader_free(one);
    msi_ms_reader_free(r);
    msi_ms_crew_free(crew);
    strcpy(path, whole);
    nobody_is_left();
}

/* Another selection than the reader's, and a set that is gone: the crew says that it cannot. */
static void test_unlike(void **state)
{
    (void)state;
    const msi_ms_selection s = {0}, other = {.channel_begin = 0, .channel_end = 3};
    int reads;
    msi_ms_crew *crew = start(&other, 2);
    msi_ms_reader *r = open_both(crew, &s, &reads);
    assert_false(reads);
    msi_ms_reader_free(r);
    msi_ms_crew_free(crew);
    const char *const nowhere[] = {"nowhere.ms"};
    assert_int_equal(msi_ms_crew_start(&crew, nowhere, 1, &s, 2), MSI_OK);
    r = open_both(crew, &s, &reads);
    assert_false(reads);
    msi_ms_reader_free(r);
    msi_ms_crew_free(crew);
    nobody_is_left();
}

/* A process that dies ends the reading with a line; so does a signal to this one. */
static void test_ends(void **state)
{
    (void)state;
    const msi_ms_selection s = {0};
    msi_ms_block b = {0};
    int reads, status = MSI_OK;
    long first = 0;
    msi_ms_crew *crew = start(&s, 2);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &first), 1);
    fclose(f);
    msi_ms_reader *r = open_both(crew, &s, &reads);
    assert_true(reads);
    assert_int_equal(kill((pid_t)first, SIGKILL), 0);
    for (int i = 0; i < 16 && status == MSI_OK; i++) status = msi_ms_crew_next(crew, &b);
    assert_int_equal(status, MSI_ENOMEM);
    assert_non_null(strstr(msi_error_get(), "set.ms: a process that reads was ended by signal 9"));
    msi_ms_reader_free(r);
    msi_ms_crew_free(crew);

    crew = start(&s, 2);
    r = open_both(crew, &s, &reads);
    assert_int_equal(msi_ms_crew_next(crew, &b), MSI_OK);
    msi_ms_crew_free(crew); /* with a block in hand and others under way */
    msi_ms_reader_free(r);
    crew = start(&s, 2);
    assert_int_equal(msi_ms_reader_open(&r, paths, 1, &s), MSI_OK);
    msi_interrupt_raise(SIGINT);
    assert_int_equal(msi_ms_crew_begin(crew, r, &reads), MSI_EINTERRUPTED); /* which were never told to open */
    msi_interrupt_raise(0);
    msi_ms_reader_free(r);
    msi_ms_crew_free(crew);
    nobody_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_unlike),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, make_set, temp_folder_teardown);
}
