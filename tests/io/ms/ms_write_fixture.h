/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sets whose columns are written, for tests of the writer: the submitted values, and the expected columns. */
#ifndef MSI_TESTS_MS_WRITE_FIXTURE_H
#define MSI_TESTS_MS_WRITE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "core/status.h"
#include "io/ms/ms_writer.h"
#include "tests/support/ms_fixture.h"

#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        if ((expr) != MSI_OK) fail_msg("%s: %s", #expr, msi_error_get());                                              \
    } while (0)
#define FAILS(status, text, expr)                                                                                      \
    do {                                                                                                               \
        assert_int_equal(expr, status);                                                                                \
        if (!strstr(msi_error_get(), text)) fail_msg("'%s' is not in: %s", text, msi_error_get());                     \
    } while (0)
#define CCC(expr)                                                                                                      \
    do {                                                                                                               \
        if ((expr) != CCC_OK) fail_msg("%s: %s", #expr, ccc_error());                                                  \
    } while (0)

typedef struct written_set {
    const ms_fixture *f;
    char path[512];
    uint64_t others; /* of the files that must not change */
} written_set;

extern const ms_fixture ws_simple;
extern const ms_fixture ws_mixed; /* setups of different shapes in neighbouring rows, one of them descending */
extern const msi_ms_write_spec ws_replace;
extern const msi_ms_selection ws_everything;

/* ws_make - make a new set; ws_add_column - add a column of old values, with its own manager; `gap` leaves every
 * tenth row without a value, extra_chan makes the cells wider than DATA's. */
void ws_make(written_set *m, const ms_fixture *f);
void ws_add_column(written_set *m, const char *column, ccc_type type, const char *manager, int gap, int extra_chan);

/* Read the current contents of the set. ws_hash_others: the hash, time of change included, of all files but table.dat,
 * table.lock and the data files of manager n. */
int ws_has_name(const char *path, const char *name);
int ws_has_column(const char *path, const char *column);
int ws_is_marked(const char *path);
int ws_manager_of(const char *path, const char *column);
uint64_t ws_hash_others(const char *path, int n);

/* Values by row, stored channel and correlation. */
typedef msi_c32 (*ws_content)(int64_t row, int chan, int corr);
msi_c32 ws_zero(int64_t row, int chan, int corr);
msi_c32 ws_data(int64_t row, int chan, int corr);      /* of DATA */
msi_c32 ws_old_value(int64_t row, int chan, int corr); /* of ws_add_column */
msi_c32 ws_gap_value(int64_t row, int chan, int corr); /* the same with `gap`, and zeros there */

/* Marks of the samples that have been submitted, by row x 64 + channel; ws_forget, a set-up function, clears them. */
enum { WS_MOST_SAMPLES = 1 << 16 };
extern uint8_t ws_was_written[WS_MOST_SAMPLES];
int ws_forget(void **state);

/* ws_submit_all - submit new values for a selection; ws_predict - a whole run of one set. */
int ws_submit_all(msi_ms_writer *w, const char *const *paths, int n_path, const msi_ms_selection *s);
void ws_predict(const written_set *m, const msi_ms_write_spec *spec, const msi_ms_selection *s);

/* ws_check_column - check every sample: `input` + sign x the new value if it was submitted, else `rest`. */
void ws_check_column(const written_set *m, const char *column, ws_content input, float sign, ws_content rest);

#endif
