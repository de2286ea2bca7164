/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Pointing directions of the antennas of a set, from the table POINTING.
 *
 * The table may have millions of rows, many per second for each antenna. So each field is sampled at a few times of its
 * rows, for a few antennas. The row of an antenna for a time is the nearest in TIME whose INTERVAL covers the time;
 * without an INTERVAL, it is the last row before. The aim is the median over antennas and then over times, so that
 * single antennas that point elsewhere, or that slew, do not matter.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_subtables.h"

enum {
    MOST_TIMES = 3,    /* times of a field */
    MANY_FIELDS = 100, /* a set with more fields has one time for each */
    MOST_ANTENNAS = 5, /* antennas for each time */
    CHUNK_ROWS = 8192, /* rows read at a time */
    QUICK_ROWS = 1 << 19,
    AIM_NOTE = 400
};

static const double SLACK_S = 10; /* a row is used for times up to this far outside its INTERVAL */

/* A row of POINTING. */
typedef struct place {
    int64_t row; /* -1: none */
    double time_s;
} place;

/* A time at which a field is sampled. */
typedef struct field_time {
    double time_s;
    int field;
} field_time;

typedef struct search {
    ccc_table *table;
    const char *scale; /* time scale of POINTING */
    int n_sample, n_antenna;
    field_time *sample; /* [n_sample] ascending */
    /* [n_sample][n_antenna + 1] nearest row at or before a sample's time, and after it; the last antenna stands for
     * rows that apply to all antennas */
    place *before, *after;
    double *chunk_s; /* [n_chunk + 1] first TIME of each chunk, if these ascend; NULL: all chunks are read */
    msi_ms_frames frames;
    int has_interval, has_origin;
} search;

/* Add a line to the notes of a set. */
static int add_note(msi_ms_set *set, const char *format, ...)
{
    char text[AIM_NOTE];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text - 1, format, ap);
    va_end(ap);
    strcat(text, "\n");
    const int64_t old = set->n_notes ? set->n_notes - 1 : 0, n = (int64_t)strlen(text);
    MSI_TRY(msi_grow(&set->notes, old, old + n + 1, 1, "notes"));
    memcpy(set->notes + old, text, (size_t)n + 1);
    set->n_notes = old + n + 1;
    return MSI_OK;
}

/* ---- Times ---- */

static int by_time(const void *a, const void *b)
{
    const field_time *x = a, *y = b;
    return (x->time_s > y->time_s) - (x->time_s < y->time_s);
}

/* Choose the sample times of each field, at equal distances among its rows. */
static int choose_times(search *s, const msi_ms_set *set)
{
    int64_t *passed;
    int n_seen = 0;
    for (int i = 0; i < set->n_field; i++) n_seen += set->field[i].n_row > 0;
    const int n_time = n_seen > MANY_FIELDS ? 1 : MOST_TIMES;
    MSI_TRY(msi_alloc(&passed, set->n_field, sizeof *passed, "rows of fields"));
    int rc = msi_alloc(&s->sample, (int64_t)n_seen * n_time + 1, sizeof *s->sample, "times of fields");
    for (int64_t r = 0; !rc && r < set->n_run; r++) {
        const msi_ms_run *run = &set->run[r];
        const int64_t n = set->field[run->field_id].n_row, first = passed[run->field_id], end = first + run->n_row;
        for (int k = 0; !rc && k < n_time; k++) {
            const int64_t wanted = n / (2 * n_time) * (2 * k + 1) + n % (2 * n_time) * (2 * k + 1) / (2 * n_time);
            double time_s;
            if (wanted < first || wanted >= end || s->n_sample >= n_seen * n_time) continue;
            if (ccc_get_range(set->table, "TIME", run->row + wanted - first, 1, NULL, CCC_DOUBLE, &time_s, 1) != CCC_OK)
                rc = msi_ms_failed(CCC_EFAILED);
            else
                s->sample[s->n_sample++] = (field_time){time_s, run->field_id};
        }
        passed[run->field_id] = end;
    }
    msi_free(passed);
    if (!rc && s->n_sample) qsort(s->sample, (size_t)s->n_sample, sizeof *s->sample, by_time);
    return rc;
}

/* Return the index of the first sample at or after a time. */
static int first_from(const search *s, double time_s)
{
    int low = 0, high = s->n_sample;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (s->sample[middle].time_s < time_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- Rows ---- */

/* If a large table is sorted by time, list the times of its chunks, so that few of them must be read. */
static int find_chunks(search *s, int64_t n_row)
{
    const int64_t n = (n_row + CHUNK_ROWS - 1) / CHUNK_ROWS;
    if (n <= 4) return MSI_OK;
    msi_child_progress(MSI_CHILD_STEP_S);
    MSI_TRY(msi_alloc(&s->chunk_s, n + 1, sizeof *s->chunk_s, "times of POINTING"));
    for (int64_t i = 0; i <= n; i++) {
        const int64_t row = i < n ? i * CHUNK_ROWS : n_row - 1;
        MSI_CCC(ccc_get_range(s->table, "TIME", row, 1, NULL, CCC_DOUBLE, &s->chunk_s[i], 1));
        if (i == 0 || s->chunk_s[i] >= s->chunk_s[i - 1]) continue;
        msi_free(s->chunk_s);
        s->chunk_s = NULL;
        return MSI_OK;
    }
    return MSI_OK;
}

/* Return 1 if a chunk may have rows that are nearest to a sample. */
static int is_wanted(const search *s, int64_t chunk)
{
    if (!s->chunk_s) return 1;
    const int first = first_from(s, s->chunk_s[chunk] - SLACK_S);
    return first < s->n_sample && s->sample[first].time_s <= s->chunk_s[chunk + 1] + SLACK_S;
}

/* Compare n rows with all samples, and store each row that is the nearest so far. */
static void take_rows(search *s, int64_t row, int64_t n, const double *time_s, const int32_t *antenna)
{
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(time_s[i]) || antenna[i] < -1 || antenna[i] >= s->n_antenna) continue;
        const int of = antenna[i] < 0 ? s->n_antenna : antenna[i], k = first_from(s, time_s[i]);
        if (k < s->n_sample) {
            place *p = &s->before[(int64_t)k * (s->n_antenna + 1) + of];
            if (p->row < 0 || time_s[i] >= p->time_s) *p = (place){row + i, time_s[i]};
        }
        if (k > 0) {
            place *p = &s->after[(int64_t)(k - 1) * (s->n_antenna + 1) + of];
            if (p->row < 0 || time_s[i] < p->time_s) *p = (place){row + i, time_s[i]};
        }
    }
}

/* Find the rows of all samples. Given: is_quick  1: do not read all of a large table. Returned: *is_found */
static int find_rows(search *s, int is_quick, int *is_found)
{
    const int64_t n_row = ccc_table_n_row(s->table), n_slot = s->n_antenna + 1, n_place = s->n_sample * n_slot;
    double *time_s = NULL;
    int32_t *antenna = NULL;
    MSI_TRY(find_chunks(s, n_row));
    *is_found = s->chunk_s || n_row <= QUICK_ROWS || !is_quick;
    if (!*is_found) return MSI_OK;
    MSI_TRY(msi_alloc(&s->before, n_place, sizeof *s->before, "rows of POINTING"));
    MSI_TRY(msi_alloc(&s->after, n_place, sizeof *s->after, "rows of POINTING"));
    for (int64_t i = 0; i < n_place; i++) s->before[i].row = s->after[i].row = -1;
    int rc = msi_alloc(&time_s, CHUNK_ROWS, sizeof *time_s, "rows of POINTING");
    if (!rc) rc = msi_alloc(&antenna, CHUNK_ROWS, sizeof *antenna, "rows of POINTING");
    for (int64_t row = 0; !rc && row < n_row; row += CHUNK_ROWS) {
        const int64_t n = n_row - row < CHUNK_ROWS ? n_row - row : CHUNK_ROWS;
        if (!is_wanted(s, row / CHUNK_ROWS)) continue;
        msi_child_progress(MSI_CHILD_STEP_S);
        int failed = ccc_get_range(s->table, "TIME", row, n, NULL, CCC_DOUBLE, time_s, n);
        if (!failed) failed = ccc_get_range(s->table, "ANTENNA_ID", row, n, NULL, CCC_INT32, antenna, n);
        if (failed)
            rc = msi_ms_failed(failed);
        else
            take_rows(s, row, n, time_s, antenna);
    }
    msi_free(time_s);
    msi_free(antenna);
    for (int64_t i = n_slot; !rc && i < n_place; i++)
        if (s->before[i].row < 0) s->before[i] = s->before[i - n_slot];
    for (int64_t i = n_place - n_slot - 1; !rc && i >= 0; i--)
        if (s->after[i].row < 0) s->after[i] = s->after[i + n_slot];
    return rc;
}

/* Return 1 if a row applies at a time. */
static int holds(const search *s, const place *p, double time_s)
{
    double interval_s = 0;
    if (p->row < 0) return 0;
    if (s->has_interval && ccc_get_range(s->table, "INTERVAL", p->row, 1, NULL, CCC_DOUBLE, &interval_s, 1) != CCC_OK)
        return 0;
    /* A row without an interval applies until the next row. */
    if (!(interval_s > 0) && p->time_s <= time_s) return 1;
    return fabs(time_s - p->time_s) <= fmax(interval_s, 0) / 2 + SLACK_S;
}

/* Return the row of an antenna that applies at a sample; NULL if there is none. */
static const place *row_of(const search *s, int sample, int antenna)
{
    const int64_t at = (int64_t)sample * (s->n_antenna + 1) + antenna;
    const double t = s->sample[sample].time_s;
    const place *before = &s->before[at], *after = &s->after[at];
    if (!holds(s, before, t)) before = NULL;
    if (!holds(s, after, t)) after = NULL;
    if (!before || !after) return before ? before : after;
    return t - before->time_s <= after->time_s - t ? before : after;
}

/* ---- Directions ---- */

/*
 * Read the direction of a row at a time, in J2000.
 * Returned: out  a unit vector
 * Returns:  0; MSI_EINPUT if it cannot be read or is not a direction; a table without values has zeros
 */
static int read_direction(const search *s, const place *p, double time_s, const double *itrf_m, double out[3])
{
    double *term, origin_s = p->time_s, at[2] = {0};
    int64_t n;
    char frame[16];
    MSI_TRY(msi_ms_frames_of_row(s->table, &s->frames, p->row, frame, sizeof frame));
    if (s->has_origin && ccc_get_range(s->table, "TIME_ORIGIN", p->row, 1, NULL, CCC_DOUBLE, &origin_s, 1) != CCC_OK)
        return MSI_EINPUT;
    if (!(origin_s > 0)) origin_s = p->time_s;
    MSI_TRY(msi_ms_table_doubles(s->table, "DIRECTION", p->row, &term, &n));
    for (int64_t k = n / 2 - 1; k >= 0; k--)
        for (int i = 0; i < 2; i++) at[i] = at[i] * (time_s - origin_s) + term[2 * k + i];
    msi_free(term);
    if (n < 2 || !isfinite(at[0]) || !(fabs(at[1]) <= MSI_PI / 2) || (at[0] == 0 && at[1] == 0)) return MSI_EINPUT;
    if (strcasecmp(frame, "J2000") != 0 && strcasecmp(frame, "ICRS") != 0) {
        if (ccc_epoch_convert(s->scale, "UTC", &time_s) != CCC_OK ||
            ccc_direction_convert(frame, "J2000", time_s, itrf_m, &at[0], &at[1]) != CCC_OK)
            return msi_ms_failed(CCC_EFAILED);
    }
    out[0] = cos(at[1]) * cos(at[0]);
    out[1] = cos(at[1]) * sin(at[0]);
    out[2] = sin(at[1]);
    return MSI_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Compute the median of directions, component by component. Given: n at least 1 */
static void median_of(const double (*direction)[3], int n, double out[3])
{
    double value[MOST_ANTENNAS > MOST_TIMES ? MOST_ANTENNAS : MOST_TIMES], length = 0;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < n; i++) value[i] = direction[i][k];
        qsort(value, (size_t)n, sizeof *value, by_value);
        out[k] = n % 2 ? value[n / 2] : 0.5 * (value[n / 2 - 1] + value[n / 2]);
        length += out[k] * out[k];
    }
    for (int k = 0; k < 3; k++) out[k] /= length > 0 ? sqrt(length) : 1;
}

static double angle_between(const double a[3], const double b[3])
{
    return 2 * asin(fmin(1, 0.5 * hypot(hypot(a[0] - b[0], a[1] - b[1]), a[2] - b[2])));
}

/* Find where the antennas pointed at a sample. Returns: 0 if no row applies */
static int find_direction(const search *s, const msi_ms_set *set, int sample, double out[3])
{
    double direction[MOST_ANTENNAS][3];
    int n = 0, n_row = 0;
    for (int a = 0; a <= s->n_antenna; a++) n_row += row_of(s, sample, a) != NULL;
    for (int a = 0, seen = 0; a <= s->n_antenna && n < MOST_ANTENNAS; a++) {
        const place *p = row_of(s, sample, a);
        if (!p) continue;
        /* Use every (n_row / MOST_ANTENNAS)th antenna, so that not all are in one arm of the array. */
        const int is_due = n_row <= MOST_ANTENNAS || seen * MOST_ANTENNAS / n_row >= n;
        seen++;
        if (!is_due) continue;
        const double *itrf_m = set->antenna_itrf_m + 3 * (a < s->n_antenna ? a : 0);
        n += read_direction(s, p, s->sample[sample].time_s, itrf_m, direction[n]) == MSI_OK;
    }
    if (n) median_of((const double(*)[3])direction, n, out);
    return n;
}

static void find_field_aim(const search *s, const msi_ms_set *set, int field, msi_ms_aim *aim)
{
    double direction[MOST_TIMES][3], mean[3];
    int n = 0;
    for (int i = 0; i < s->n_sample && n < MOST_TIMES; i++)
        if (s->sample[i].field == field) n += find_direction(s, set, i, direction[n]) > 0;
    *aim = (msi_ms_aim){.is_known = n > 0};
    if (!n) return;
    median_of((const double(*)[3])direction, n, mean);
    aim->ra_rad = atan2(mean[1], mean[0]);
    aim->dec_rad = atan2(mean[2], hypot(mean[0], mean[1]));
    for (int i = 0; i < n; i++) aim->spread_rad = fmax(aim->spread_rad, angle_between(direction[i], mean));
}

/* ---- A set ---- */

static int search_table(search *s, msi_ms_set *set, int is_quick)
{
    static const msi_ms_unit_column units[] = {
        {"TIME", "s"}, {"TIME_ORIGIN", "s"}, {"INTERVAL", "s"}, {"DIRECTION", "rad"}};
    int is_found;
    MSI_TRY(msi_ms_table_check_size(s->table));
    MSI_TRY(msi_ms_table_check_units(s->table, units, sizeof units / sizeof *units));
    MSI_TRY(msi_ms_frames_read(s->table, "DIRECTION", &s->frames));
    s->has_interval = ccc_table_has_column(s->table, "INTERVAL");
    s->has_origin = ccc_table_has_column(s->table, "TIME_ORIGIN");
    MSI_TRY(choose_times(s, set));
    MSI_TRY(find_rows(s, is_quick, &is_found));
    for (int i = 0; is_found && i < set->n_field; i++) {
        if (set->field[i].n_row <= 0) continue;
        msi_child_progress(MSI_CHILD_STEP_S);
        find_field_aim(s, set, i, &set->field[i].aim);
    }
    return MSI_OK;
}

int msi_ms_set_find_aims(msi_ms_set *set, const char *scale, int is_quick)
{
    search s = {.n_antenna = (int)set->n_antenna, .scale = scale};
    if (!set->table || !set->n_row || set->n_antenna > INT32_MAX / 2) return MSI_OK;
    const int opened = ccc_subtable_open(&s.table, set->table, "POINTING");
    if (opened == CCC_ENOTFOUND) return MSI_OK;
    int rc = opened != CCC_OK                ? msi_ms_failed(opened)
             : ccc_table_n_row(s.table) >= 1 ? search_table(&s, set, is_quick)
                                             : MSI_OK;
    msi_ms_frames_free(&s.frames);
    ccc_table_close(s.table);
    msi_free(s.sample);
    msi_free(s.before);
    msi_free(s.after);
    msi_free(s.chunk_s);
    if (rc == MSI_OK || rc == MSI_ENOMEM) return rc;
    for (int i = 0; i < set->n_field; i++) set->field[i].aim = (msi_ms_aim){0};
    return add_note(set, "POINTING is not used, and beams point at the phase centre: %s", msi_error_get());
}
