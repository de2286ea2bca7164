/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests that reader processes give the same as a reader in this process: metadata, blocks in the same order, counts,
 * errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/process.h"
#include "core/status.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/reader_pool.h"
#include "tests/support/ms_fixture.h"

/* Ten blocks of two setups, alternating; rows that are dropped. */
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

static msi_reader_pool *start(const msi_ms_selection *s, int n_process)
{
    msi_reader_pool *pool;
    if (msi_reader_pool_start(&pool, paths, 1, s, n_process, NULL)) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_reader_pool_size(pool), n_process);
    return pool;
}

static msi_ms_opening opening_of(const msi_ms_selection *s)
{
    return (msi_ms_opening){.interval_begin = s->interval_begin, .interval_end = s->interval_end};
}

/* Open a reader of the pool's. */
static msi_ms_reader *open_by(msi_reader_pool *pool, const msi_ms_selection *s)
{
    msi_ms_reader *r;
    const msi_ms_opening opening = opening_of(s);
    if (msi_reader_pool_open(pool, &opening, &r)) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_ms_reader_n_process(r), msi_reader_pool_size(pool));
    return r;
}

/* Take blocks with their samples. */
static int take_filled(msi_reader_pool *pool, msi_ms_reader *r, int most, msi_ms_block *block, int *n)
{
    const int status = msi_reader_pool_take(pool, r, most, block, n);
    return status ? status : msi_reader_pool_fill(pool, r, block, *n);
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

/* Compare the other metadata, which conversions to other sets need. */
static void same_sets(const msi_ms_reader *a, const msi_ms_reader *b)
{
    assert_int_equal(a->n_set, b->n_set);
    for (int i = 0; i < a->n_set; i++) {
        const msi_ms_set *x = &a->set[i], *y = &b->set[i];
        assert_int_equal(x->has_weight_spectrum, y->has_weight_spectrum);
        assert_int_equal(x->n_window, y->n_window);
        for (int k = 0; k < x->n_window; k++) assert_string_equal(x->window[k].frame, y->window[k].frame);
        assert_int_equal(x->n_antenna, y->n_antenna);
        assert_memory_equal(x->antenna_itrf_m, y->antenna_itrf_m, 3 * (size_t)x->n_antenna * sizeof(double));
    }
}

/* Compare the metadata of two readers. */
static void same_findings(const msi_ms_reader *a, const msi_ms_reader *b)
{
    same_sets(a, b);
    assert_memory_equal(msi_ms_reader_observation(a), msi_ms_reader_observation(b), sizeof(msi_observation));
    assert_string_equal(msi_ms_reader_data_column(a), msi_ms_reader_data_column(b));
    assert_int_equal(msi_ms_reader_n_row(a), msi_ms_reader_n_row(b));
    assert_int_equal(msi_ms_reader_n_sample(a), msi_ms_reader_n_sample(b));
    assert_int_equal(msi_ms_reader_n_time(a), msi_ms_reader_n_time(b));
    assert_int_equal(msi_ms_reader_n_selected_time(a), msi_ms_reader_n_selected_time(b));
    assert_int_equal(msi_ms_reader_one_centre(a), msi_ms_reader_one_centre(b));
    assert_int_equal(msi_ms_reader_n_spw(a), msi_ms_reader_n_spw(b));
    for (int i = 0; i < msi_ms_reader_n_spw(a); i++) {
        const msi_ms_spw *x = msi_ms_reader_spw(a, i), *y = msi_ms_reader_spw(b, i);
        assert_true(x->set == y->set && x->data_desc_id == y->data_desc_id && x->spw_id == y->spw_id);
        assert_true(x->n_chan == y->n_chan && x->n_corr == y->n_corr && x->n_row == y->n_row);
        assert_memory_equal(x->corr, y->corr, sizeof x->corr);
        assert_memory_equal(x->freq_hz, y->freq_hz, (size_t)x->n_chan * sizeof *x->freq_hz);
        assert_memory_equal(x->width_hz, y->width_hz, (size_t)x->n_chan * sizeof *x->width_hz);
    }
    int64_t at_a = 0, at_b = 0;
    const char *name_a, *name_b;
    for (int id_a, id_b; msi_ms_reader_field(a, &at_a, &id_a, &name_a);) {
        assert_true(msi_ms_reader_field(b, &at_b, &id_b, &name_b));
        assert_int_equal(id_a, id_b);
        assert_string_equal(name_a, name_b);
    }
}

/* Compare all blocks of the pool's reader with those of a reader in this process, twice. Returns: their number. */
static int same_blocks(msi_reader_pool *pool, const msi_ms_selection *s)
{
    int n = 0;
    msi_ms_block a = {0}, b = {0};
    msi_ms_reader *one, *r = open_by(pool, s);
    assert_int_equal(msi_ms_reader_open(&one, paths, 1, s), MSI_OK);
    same_findings(r, one);
    for (int time = 0; time < 2; time++) {
        for (n = 0;; n++) {
            assert_int_equal(msi_ms_reader_next(one, &a), MSI_OK);
            if (msi_ms_reader_next(r, &b)) fail_msg("%s", msi_error_get());
            if (a.n_row == 0) break;
            same_block(&a, &b);
        }
        assert_int_equal(b.n_row, 0);
        assert_int_equal(msi_ms_reader_next(r, &b), MSI_OK);
        assert_int_equal(b.n_row, 0);
        assert_memory_equal(msi_ms_reader_dropped(r), msi_ms_reader_dropped(one), sizeof(msi_ms_dropped));
        msi_ms_reader_rewind(one);
        msi_ms_reader_rewind(r);
    }
    msi_ms_reader_free(one);
    msi_ms_reader_free(r);
    return n;
}

static void no_child_is_left(void)
{
    assert_true(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
}

/* Run fewer and more processes than slots and blocks; one interval after the other. */
static void test_same(void **state)
{
    (void)state;
    const msi_ms_selection all = {.min_uv_lambda = 100}, none = {.min_uv_lambda = 1e9},
                           intervals[] = {{.interval_begin = 0, .interval_end = 5},
                                          {.interval_begin = 5, .interval_end = 6}};
    for (int n_process = 1; n_process <= 16; n_process = 2 * n_process + 1) {
        msi_reader_pool *pool = start(&all, n_process);
        assert_in_range(same_blocks(pool, &all), 6, 16);
        assert_in_range(same_blocks(pool, &all), 6, 16);
        msi_reader_pool_free(pool);
        pool = start(&intervals[0], n_process);
        for (int i = 0; i < 2; i++) assert_true(same_blocks(pool, &intervals[i]) > 0);
        msi_reader_pool_free(pool);
    }
    msi_reader_pool *pool = start(&none, 3);
    same_blocks(pool, &none);
    msi_reader_pool_free(pool);
    no_child_is_left();
}

/* Put a cell of another shape in the middle of the set: the blocks before it are read, then the reader's error line
 * follows. */
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
    msi_reader_pool *pool = start(&s, 3);
    msi_ms_block a = {0}, b = {0};
    int status, n = 0;
    msi_ms_reader *one, *r = open_by(pool, &s);
    assert_int_equal(msi_ms_reader_open(&one, paths, 1, &s), MSI_OK);
    while ((status = msi_ms_reader_next(one, &a)) == MSI_OK) {
        assert_int_equal(msi_ms_reader_next(r, &b), MSI_OK);
        same_block(&a, &b);
        n++;
    }
    snprintf(line, sizeof line, "%s", msi_error_get());
    assert_true(n >= 2 && status == MSI_EINPUT);
    assert_int_equal(msi_ms_reader_next(r, &b), status);
    assert_string_equal(msi_error_get(), line);
    msi_ms_reader_free(one);
    msi_ms_reader_free(r);
    msi_reader_pool_free(pool);
    strcpy(path, whole);
    no_child_is_left();
}

/* Rewind and open again in the middle of the reading: blocks of the first reading are not mistaken for new ones. */
static void test_again(void **state)
{
    (void)state;
    const msi_ms_selection s = {0};
    msi_ms_block b = {0};
    msi_reader_pool *pool = start(&s, 3);
    for (int n = 0; n < 7; n++) {
        msi_ms_reader *one, *r = open_by(pool, &s);
        for (int i = 0; i < n; i++) assert_int_equal(msi_ms_reader_next(r, &b), MSI_OK);
        msi_ms_reader_rewind(r);
        assert_int_equal(msi_ms_reader_open(&one, paths, 1, &s), MSI_OK);
        msi_ms_block a = {0};
        for (int i = 0; i < n; i++) {
            assert_int_equal(msi_ms_reader_next(one, &a), MSI_OK);
            assert_int_equal(msi_ms_reader_next(r, &b), MSI_OK);
            same_block(&a, &b);
        }
        msi_ms_reader_free(one);
        msi_ms_reader *later = open_by(pool, &s);
        assert_int_equal(msi_ms_reader_next(r, &b), MSI_EINTERNAL);
        msi_ms_reader_free(later);
        msi_ms_reader_free(r);
    }
    assert_in_range(same_blocks(pool, &s), 6, 16);
    msi_reader_pool_free(pool);
    no_child_is_left();
}

/* An interval or a set that cannot be opened fails as in this process; afterwards the pool can open another one. */
static void test_refused(void **state)
{
    (void)state;
    const msi_ms_selection s = {.interval_begin = 3, .interval_end = 99}, good = {0};
    char line[1024];
    msi_ms_reader *r;
    msi_reader_pool *pool = start(&s, 2);
    assert_int_equal(msi_ms_reader_open(&r, paths, 1, &s), MSI_EINPUT);
    snprintf(line, sizeof line, "%s", msi_error_get());
    const msi_ms_opening opening = opening_of(&s);
    assert_int_equal(msi_reader_pool_open(pool, &opening, &r), MSI_EINPUT);
    assert_null(r);
    assert_string_equal(msi_error_get(), line);
    same_blocks(pool, &good);
    msi_reader_pool_free(pool);
    const char *const nowhere[] = {"nowhere.ms"};
    assert_int_equal(msi_reader_pool_start(&pool, nowhere, 1, &s, 2, NULL), MSI_OK);
    assert_int_equal(msi_reader_pool_open(pool, &opening, &r), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "nowhere.ms"));
    msi_reader_pool_free(pool);
    no_child_is_left();
}

/* Write FIELD_ID of a row. */
static void put_field(int64_t row, int64_t id)
{
    ccc_table *t;
    assert_int_equal(ccc_table_open(&t, path, CCC_UPDATE, CCC_LOCK_HOLD), CCC_OK);
    assert_int_equal(ccc_put_int(t, "FIELD_ID", row, id), CCC_OK);
    assert_int_equal(ccc_table_close(t), CCC_OK);
}

/* Damage a row that only one process reads, in the first, middle or last part of the index. The error line is that of
 * the reader, and the other processes, which wait for this one, open the set again when it is repaired. */
static void test_index(void **state)
{
    (void)state;
    const msi_ms_selection s = {0}, intervals = {.interval_begin = 1, .interval_end = 4};
    const msi_ms_opening opening = {0};
    const int64_t n_row = fixture_n_row(&fixture), bad[] = {1, n_row / 2, n_row - 1};
    char whole[sizeof path], line[1024];
    msi_ms_reader *r;
    strcpy(whole, path);
    snprintf(path, sizeof path, "%s/index.ms", temp_folder);
    fixture_make(&fixture, path);
    msi_reader_pool *pool = start(&s, 3);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        put_field(bad[i], 7);
        assert_int_equal(msi_ms_reader_open(&r, paths, 1, &s), MSI_EINPUT);
        snprintf(line, sizeof line, "%s", msi_error_get());
        assert_non_null(strstr(line, "column FIELD_ID"));
        assert_int_equal(msi_reader_pool_open(pool, &opening, &r), MSI_EINPUT);
        assert_null(r);
        assert_string_equal(msi_error_get(), line);
        put_field(bad[i], 0);
        assert_in_range(same_blocks(pool, &s), 6, 16);
        assert_true(same_blocks(pool, &intervals) > 0);
    }
    msi_reader_pool_free(pool);
    strcpy(path, whole);
    no_child_is_left();
}

/* If allowed, an interval without selected rows is empty, and has the times of other rows. */
static void test_empty(void **state)
{
    (void)state;
    const int spw = 1;
    const msi_ms_selection s = {.interval_begin = 2, .interval_end = 3, .taql = "TIME < 0", .n_spw = 1, .spws = &spw},
                           any = {.interval_begin = 2, .interval_end = 3};
    msi_reader_pool *pool = start(&s, 2);
    msi_ms_opening opening = opening_of(&s);
    msi_ms_reader *r, *one;
    assert_int_equal(msi_reader_pool_open(pool, &opening, &r), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "no row is selected"));
    opening.may_be_empty = 1;
    if (msi_reader_pool_open(pool, &opening, &r)) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_ms_reader_n_row(r), 0);
    assert_int_equal(msi_ms_reader_n_spw(r), 0);
    assert_int_equal(msi_ms_reader_open(&one, paths, 1, &any), MSI_OK);
    assert_true(msi_ms_reader_observation(r)->start_mjd_s == msi_ms_reader_observation(one)->start_mjd_s);
    assert_true(msi_ms_reader_observation(r)->end_mjd_s == msi_ms_reader_observation(one)->end_mjd_s);
    msi_ms_block b = {0};
    assert_int_equal(msi_ms_reader_next(r, &b), MSI_OK);
    assert_int_equal(b.n_row, 0);
    msi_ms_reader_free(one);
    msi_ms_reader_free(r);
    msi_reader_pool_free(pool);
    no_child_is_left();
}

/* Find the process that was forked first. */
static pid_t first_child(void)
{
    char name[64];
    long first = 0;
    snprintf(name, sizeof name, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld", &first), 1);
    fclose(f);
    return (pid_t)first;
}

/* End the first process of a pool by a signal during the reading, and return the parent's status. */
static int end_by(int signal_number)
{
    const msi_ms_selection s = {0};
    msi_ms_block b = {0};
    int status = MSI_OK;
    msi_reader_pool *pool = start(&s, 2);
    msi_ms_reader *r = open_by(pool, &s);
    assert_int_equal(kill(first_child(), signal_number), 0);
    for (int i = 0; i < 16 && status == MSI_OK; i++) status = msi_ms_reader_next(r, &b);
    msi_ms_reader_free(r);
    msi_reader_pool_free(pool);
    return status;
}

/* If a process dies, the reading ends with an error line; also after a signal to this process. */
static void test_ends(void **state)
{
    (void)state;
    const msi_ms_selection s = {0};
    const msi_ms_opening opening = {0};
    msi_ms_block b = {0};
    assert_int_equal(end_by(SIGKILL), MSI_ENOMEM);
    assert_non_null(strstr(msi_error_get(), "set.ms: a reader process was ended by signal 9"));
    assert_int_equal(end_by(SIGSEGV), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "set.ms: truncated or corrupt: "));
    assert_int_equal(end_by(SIGPROF), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "did not finish a step"));
    assert_int_equal(end_by(SIGXCPU), MSI_EINTERRUPTED);
    assert_int_equal(msi_interrupt_signal(), SIGXCPU);
    msi_interrupt_raise(0);

    msi_reader_pool *pool = start(&s, 2);
    msi_ms_reader *r = open_by(pool, &s);
    assert_int_equal(msi_ms_reader_next(r, &b), MSI_OK);
    msi_reader_pool_free(pool); /* with one block taken and others on their way */
    msi_ms_reader_free(r);
    pool = start(&s, 2);
    msi_interrupt_raise(SIGINT);
    assert_int_equal(msi_reader_pool_open(pool, &opening, &r), MSI_EINTERRUPTED);
    msi_interrupt_raise(0);
    msi_reader_pool_free(pool);
    no_child_is_left();
}

/* Run a child that does some work, whose steps may take so much CPU time. Returns: its status. */
static int end_of(double cpu_s, msi_child_work *work)
{
    const msi_child_spec spec = {.work = work, .what = "the process", .path = "test", .cpu_s = cpu_s};
    msi_child *child;
    assert_int_equal(msi_child_start(&child, &spec), MSI_OK);
    const int status = msi_child_await_done(child, MSI_EINPUT);
    msi_child_free(child);
    return status;
}

static int rest(msi_child *self, void *of)
{
    (void)self;
    (void)of;
    usleep(200000);
    return MSI_OK;
}

static int n_alarm;

static void count_alarm(int signal_number)
{
    (void)signal_number;
    n_alarm++;
}

/* Signal handlers, such as Python's, may interrupt system calls. The parent still waits for the child. */
static void test_wait_through_signals(void **state)
{
    (void)state;
    const struct sigaction ending = {.sa_handler = count_alarm};
    struct sigaction before;
    const struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &ending, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    assert_int_equal(end_of(0, rest), MSI_OK);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_true(n_alarm > 0);
    no_child_is_left();
}

static const double SHORT_S = 0.5; /* it is rounded up to a second */

static int work_on(msi_child *self, void *of)
{
    (void)self;
    (void)of;
    for (volatile int64_t i = 0; i >= 0;) i = (i + 1) & INT32_MAX;
    return MSI_OK;
}

static int work_for_two_seconds(msi_child *self, void *of)
{
    (void)self;
    (void)of;
    msi_child_progress(0); /* of no effect without a limit */
    while (clock() < 2 * CLOCKS_PER_SEC) continue;
    return MSI_OK;
}

static int work_in_steps(msi_child *self, void *of)
{
    (void)self;
    (void)of;
    for (int step = 1; step <= 4; step++) {
        msi_child_progress(0);
        while (clock() < step * CLOCKS_PER_SEC / 2) continue;
    }
    return MSI_OK;
}

/* A status other than 0 means that a request was granted instead of refused, or the reverse. */
static int take_memory(msi_child *self, void *of)
{
    (void)self;
    (void)of;
    if (!msi_child_limit_memory(64 << 20)) return msi_error_set(MSI_EINTERNAL, "no limit");
    void *volatile little = malloc(32 << 20), *volatile much = malloc(512 << 20);
    return little && !much ? MSI_OK : msi_error_set(MSI_EINTERNAL, "wrong answers");
}

static int crash(msi_child *self, void *of)
{
    (void)self;
    (void)of;
    raise(SIGSEGV);
    return MSI_OK;
}

/* As a library does to which the system refuses a thread. */
static int leave(msi_child *self, void *of)
{
    (void)self;
    (void)of;
    fprintf(stderr, "library: no thread\n");
    exit(1);
}

/* The way in which a process ends gives the status. */
static void test_child_ends(void **state)
{
    (void)state;
    assert_int_equal(end_of(0, crash), MSI_EINPUT);
    assert_string_equal(msi_error_get(),
                        "test: truncated or corrupt: the process was ended by signal 11 (Segmentation fault)");
    assert_int_equal(end_of(0, leave), MSI_ENOMEM);
    assert_string_equal(msi_error_get(), "test: the process has ended: library: no thread");
    no_child_is_left();
}

/* Limits end a process that does not progress, by its CPU time, and refuse it memory. */
static void test_limits(void **state)
{
    (void)state;
    assert_int_equal(end_of(SHORT_S, work_on), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "did not finish a step"));
    assert_int_equal(end_of(SHORT_S, work_in_steps), MSI_OK);
    assert_int_equal(end_of(0, work_for_two_seconds), MSI_OK);
    assert_int_equal(end_of(0, take_memory), MSI_OK);
    no_child_is_left();
}

/* Read a block of one row that is larger than any block of several. */
static void test_wide(void **state)
{
    (void)state;
    static const ms_fixture wide = {
        .n_antenna = 3, .n_time = 2, .n_field = 1, .n_spw = 1, .n_chan = {400000}, .n_corr = {4}};
    const msi_ms_selection s = {0};
    char whole[sizeof path];
    strcpy(whole, path);
    snprintf(path, sizeof path, "%s/wide.ms", temp_folder);
    fixture_make(&wide, path);
    msi_reader_pool *pool = start(&s, 2);
    assert_in_range(same_blocks(pool, &s), 6, 12);
    msi_reader_pool_free(pool);
    fixture_remove(path);
    strcpy(path, whole);
    no_child_is_left();
}

/* ---- Conversion ---- */

/* Parameters: the increase of coordinates, and the row of the set from which on the conversion fails. */
typedef struct growth {
    double add_m;
    int64_t fail_at; /* or later; -1: never */
} growth;

static int64_t growth_bytes(const void *order, int64_t n_row, int32_t n_chan, const double *freq_hz)
{
    (void)order;
    (void)freq_hz;
    return n_row * n_chan * (int64_t)sizeof(float);
}

/* Compute the sum of a sample's weights, plus twice the real part of the first correlation if that is not flagged. */
static int grow(void *of, const void *order, const msi_ms_block *b, double *uvw_m, void *converted)
{
    const growth *g = order;
    float *sum = converted;
    ++*(int *)of; /* of this process alone */
    for (int64_t i = 0; i < b->n_row; i++) {
        if (g->fail_at >= 0 && b->ms_row[i] >= g->fail_at)
            return msi_error_set(MSI_EINPUT, "row %lld", (long long)g->fail_at);
        for (int k = 0; k < 3; k++) uvw_m[3 * i + k] += g->add_m;
    }
    for (int64_t i = 0; i < b->n_row * b->n_chan; i++) {
        sum[i] = b->flag[i * b->n_corr] ? 0 : 2 * b->data[i * b->n_corr].re;
        for (int32_t c = 0; c < b->n_corr; c++) sum[i] += b->weight[i * b->n_corr + c];
    }
    return MSI_OK;
}

/* Compare a converted block with its conversion in this process. */
static void check_converted(void *of, const growth *g, const msi_ms_block *read, const msi_ms_block *converted)
{
    const size_t n_row = (size_t)read->n_row, n = n_row * (size_t)read->n_chan;
    float *sum = malloc(n * sizeof *sum);
    double *uvw_m = malloc(3 * n_row * sizeof *uvw_m);
    assert_true(sum && uvw_m);
    memcpy(uvw_m, read->uvw_m, 3 * n_row * sizeof *uvw_m);
    assert_int_equal(grow(of, g, read, uvw_m, sum), MSI_OK);
    assert_int_equal(converted->n_row, read->n_row);
    assert_int_equal(converted->data_desc_id, read->data_desc_id);
    assert_true(!converted->data && !converted->weight && !converted->flag);
    assert_memory_equal(converted->ms_row, read->ms_row, n_row * sizeof *read->ms_row);
    assert_memory_equal(converted->uvw_m, uvw_m, 3 * n_row * sizeof *uvw_m);
    assert_memory_equal(converted->converted, sum, n * sizeof *sum);
    free(sum);
    free(uvw_m);
}

/* Blocks are converted by the processes, are in order, and stay valid until the next ones are taken, for any number of
 * blocks. */
static void test_formed(void **state)
{
    (void)state;
    enum { MOST = 7 };
    int n_converted = 0;
    const msi_reader_conversion conversion = {.of = &n_converted, .bytes = growth_bytes, .convert = grow};
    const msi_ms_selection s = {.min_uv_lambda = 100};
    const growth orders[] = {{1, -1}, {-2, -1}};
    for (int n_process = 1; n_process <= 5; n_process += 2) {
        msi_reader_pool *pool;
        msi_ms_block a = {0}, b[MOST] = {{0}};
        msi_ms_reader *one;
        if (msi_reader_pool_start(&pool, paths, 1, &s, n_process, &conversion)) fail_msg("%s", msi_error_get());
        msi_ms_reader *r = open_by(pool, &s);
        assert_int_equal(msi_ms_reader_open(&one, paths, 1, &s), MSI_OK);
        for (int most = 1, i = 0; most <= MOST; most += 2, i++) {
            const growth *g = &orders[i % 2];
            int n, n_own = 0;
            n_converted = 0;
            assert_int_equal(msi_reader_pool_set_conversion(pool, g, sizeof *g), MSI_OK);
            msi_ms_reader_rewind(one);
            do {
                if (take_filled(pool, r, most, b, &n)) fail_msg("%s", msi_error_get());
                assert_in_range(n, 0, most);
                assert_int_equal(n_converted, 0);
                for (int k = 0; k < n; k++) {
                    assert_int_equal(msi_ms_reader_next(one, &a), MSI_OK);
                    check_converted(&n_own, g, &a, &b[k]);
                }
            } while (n > 0);
            assert_int_equal(msi_ms_reader_next(one, &a), MSI_OK);
            assert_int_equal(a.n_row, 0);
            assert_memory_equal(msi_ms_reader_dropped(r), msi_ms_reader_dropped(one), sizeof(msi_ms_dropped));
        }
        msi_ms_reader_free(one);
        msi_ms_reader_free(r);
        /* An opening clears the parameters. */
        assert_true(same_blocks(pool, &s) > 0);
        msi_reader_pool_free(pool);
    }
    no_child_is_left();
}

static int copy_count(void **of)
{
    *of = calloc(1, sizeof(int));
    return *of ? MSI_OK : MSI_ENOMEM;
}

/* Make a new set for the following tests, with its large columns in tiles. */
static void make_tiled(int with_weight_spectrum, int interleaved, int with_corrected)
{
    static int n;
    ms_fixture tiled = fixture;
    tiled.tiled = 1;
    tiled.with_weight_spectrum = with_weight_spectrum;
    tiled.interleaved = interleaved;
    tiled.with_corrected = with_corrected;
    snprintf(path, sizeof path, "%s/tiled%d.ms", temp_folder, n++);
    fixture_make(&tiled, path);
}

/* Samples of sets in tiles are read by threads of this process, and are those that casacore reads: with all kinds of
 * weights, parts of the channels, a model that is subtracted, and limits of uv. */
static void test_direct(void **state)
{
    (void)state;
    const msi_ms_selection selections[] = {{.min_uv_lambda = 100},
                                           {.channel_begin = 100, .channel_end = 150},
                                           {.data_column = "CORRECTED_DATA", .model_column = "DATA"},
                                           {.interval_begin = 2, .interval_end = 5, .max_uvw_m = 2000}};
    for (int k = 0; k < 3; k++) {
        make_tiled(k, k != 1, 1);
        for (size_t i = 0; i < sizeof selections / sizeof *selections; i++) {
            const msi_ms_selection *s = &selections[i];
            msi_reader_pool *pool = start(s, 1 + k);
            msi_ms_reader *r = open_by(pool, s);
            assert_int_equal(msi_reader_pool_load(pool, r), 0);
            msi_ms_reader_free(r);
            msi_ms_read_by_casacore(1); /* in this process */
            assert_true(same_blocks(pool, s) > 0);
            msi_ms_read_by_casacore(0);
            msi_reader_pool_free(pool);
        }
    }
    no_child_is_left();
}

/* Threads convert what they read, as processes do. */
static void test_direct_conversion(void **state)
{
    (void)state;
    int n_converted = 0, n, n_own = 0;
    const msi_reader_conversion conversion = {
        .of = &n_converted, .copy = copy_count, .drop = free, .bytes = growth_bytes, .convert = grow};
    const msi_ms_selection s = {.min_uv_lambda = 100};
    const growth g = {1, -1}, fails = {0, fixture_n_row(&fixture) / 2};
    msi_reader_pool *pool;
    msi_ms_block a = {0}, b[5] = {{0}};
    msi_ms_reader *one;
    make_tiled(2, 1, 0);
    if (msi_reader_pool_start(&pool, paths, 1, &s, 2, &conversion)) fail_msg("%s", msi_error_get());
    msi_ms_reader *r = open_by(pool, &s);
    assert_int_equal(msi_reader_pool_load(pool, r), 0);
    msi_ms_read_by_casacore(1);
    assert_int_equal(msi_ms_reader_open(&one, paths, 1, &s), MSI_OK);
    msi_ms_read_by_casacore(0);
    assert_int_equal(msi_reader_pool_set_conversion(pool, &g, sizeof g), MSI_OK);
    do {
        if (take_filled(pool, r, 5, b, &n)) fail_msg("%s", msi_error_get());
        for (int k = 0; k < n; k++) {
            assert_int_equal(msi_ms_reader_next(one, &a), MSI_OK);
            check_converted(&n_own, &g, &a, &b[k]);
        }
    } while (n > 0);
    assert_int_equal(msi_ms_reader_next(one, &a), MSI_OK);
    assert_int_equal(a.n_row, 0);
    assert_memory_equal(msi_ms_reader_dropped(r), msi_ms_reader_dropped(one), sizeof(msi_ms_dropped));
    /* A failure of a conversion is reported. */
    assert_int_equal(msi_reader_pool_set_conversion(pool, &fails, sizeof fails), MSI_OK);
    int status;
    while ((status = take_filled(pool, r, 5, b, &n)) == MSI_OK) assert_true(n > 0);
    assert_int_equal(status, MSI_EINPUT);
    msi_ms_reader_free(one);
    msi_ms_reader_free(r);
    msi_reader_pool_free(pool);
    no_child_is_left();
}

/* A file of samples that becomes shorter while it is read gives an error. */
static void test_direct_cut(void **state)
{
    (void)state;
    const msi_ms_selection s = {0};
    char command[640];
    msi_ms_block b = {0};
    int status;
    make_tiled(1, 1, 0);
    msi_reader_pool *pool = start(&s, 1);
    msi_ms_reader *r = open_by(pool, &s);
    assert_int_equal(msi_reader_pool_load(pool, r), 0);
    snprintf(command, sizeof command, "for f in %s/table.f*_TSM*; do truncate -s 1000 $f; done", path);
    assert_int_equal(system(command), 0);
    while ((status = msi_ms_reader_next(r, &b)) == MSI_OK) assert_true(b.n_row > 0);
    assert_int_equal(status, MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "shorter"));
    msi_ms_reader_free(r);
    msi_reader_pool_free(pool);
    no_child_is_left();
}

/* A block that cannot be converted ends the reading with the error line of the conversion function. */
static void test_not_formed(void **state)
{
    (void)state;
    int n_converted = 0, n, status;
    const msi_reader_conversion conversion = {.of = &n_converted, .bytes = growth_bytes, .convert = grow};
    const msi_ms_selection s = {0};
    const growth fails = {0, fixture_n_row(&fixture) / 2};
    msi_ms_block b = {0};
    msi_reader_pool *pool;
    if (msi_reader_pool_start(&pool, paths, 1, &s, 2, &conversion)) fail_msg("%s", msi_error_get());
    msi_ms_reader *r = open_by(pool, &s);
    assert_int_equal(msi_reader_pool_set_conversion(pool, &fails, (int64_t)1 << 40), MSI_ENOMEM);
    assert_int_equal(msi_reader_pool_set_conversion(pool, &fails, sizeof fails), MSI_OK);
    while ((status = take_filled(pool, r, 1, &b, &n)) == MSI_OK) assert_int_equal(n, 1);
    assert_int_equal(status, MSI_EINPUT);
    char line[64];
    snprintf(line, sizeof line, "row %lld", (long long)fails.fail_at);
    assert_string_equal(msi_error_get(), line);
    msi_ms_reader_free(r);
    msi_reader_pool_free(pool);
    pool = start(&s, 2);
    assert_int_equal(msi_reader_pool_set_conversion(pool, &fails, sizeof fails), MSI_EINTERNAL);
    msi_reader_pool_free(pool);
    no_child_is_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_index),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_child_ends),
        cmocka_unit_test(test_formed),
        cmocka_unit_test(test_not_formed),
        cmocka_unit_test(test_wait_through_signals),
        cmocka_unit_test(test_direct),
        cmocka_unit_test(test_direct_conversion),
        cmocka_unit_test(test_direct_cut),
    };
    return cmocka_run_group_tests(tests, make_set, temp_folder_teardown);
}
