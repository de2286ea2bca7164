/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/uvfits_output.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/convert/set_maps.h"
#include "io/convert/uvfits_layout.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_reader.h"

/* ---- Sorting of rows into groups. A group has one time, baseline and source, and a place for each window. ---- */

/* The values of all rows of a set, except samples. Arrays are owned. */
typedef struct uvfits_rows {
    int64_t n_row;
    double *time_s, *exposure_s; /* [n_row] TIME in MJD seconds, EXPOSURE */
    double *uvw_m;               /* [n_row][3] */
    int32_t *antenna1, *antenna2, *field, *data_desc;
    uint8_t *flag_row;
} uvfits_rows;

/* The groups of all rows. Arrays are owned. */
typedef struct uvfits_groups {
    int64_t n_group;
    int64_t *group; /* [n_row] group of the row; groups ascend in time, antennas, field */
    uint8_t *leads; /* [n_row] 1: the parameters of the group come from this row */
} uvfits_groups;

/* ---- Columns ---- */

static int read_column(const msi_ms_reader *r, const char *name, ccc_type type, void *out, int64_t n_element)
{
    ccc_table *t = r->set[0].table;
    const int64_t n_row = r->set[0].n_table_row;
    return msi_set_read(ccc_get_range(t, name, 0, n_row, NULL, type, out, n_row * n_element));
}

/*
 * read_rows - read the columns of a set's main table.
 * Given:    reader  of one set, opened in this process
 * Returned: *rows   freed by free_rows in all cases
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
static int read_rows(uvfits_rows *rows, const msi_ms_reader *r)
{
    const int64_t n = r->set[0].n_table_row;
    *rows = (uvfits_rows){.n_row = n};
    MSI_TRY(msi_alloc(&rows->time_s, n, sizeof *rows->time_s, "times of rows"));
    MSI_TRY(msi_alloc(&rows->exposure_s, n, sizeof *rows->exposure_s, "exposures of rows"));
    MSI_TRY(msi_alloc(&rows->uvw_m, 3 * n, sizeof *rows->uvw_m, "u, v, w of rows"));
    MSI_TRY(msi_alloc(&rows->antenna1, n, sizeof *rows->antenna1, "antennas of rows"));
    MSI_TRY(msi_alloc(&rows->antenna2, n, sizeof *rows->antenna2, "antennas of rows"));
    MSI_TRY(msi_alloc(&rows->field, n, sizeof *rows->field, "fields of rows"));
    MSI_TRY(msi_alloc(&rows->data_desc, n, sizeof *rows->data_desc, "setups of rows"));
    MSI_TRY(msi_alloc(&rows->flag_row, n, sizeof *rows->flag_row, "flags of rows"));
    MSI_TRY(read_column(r, "TIME", CCC_DOUBLE, rows->time_s, 1));
    MSI_TRY(read_column(r, "EXPOSURE", CCC_DOUBLE, rows->exposure_s, 1));
    MSI_TRY(read_column(r, "UVW", CCC_DOUBLE, rows->uvw_m, 3));
    MSI_TRY(read_column(r, "ANTENNA1", CCC_INT32, rows->antenna1, 1));
    MSI_TRY(read_column(r, "ANTENNA2", CCC_INT32, rows->antenna2, 1));
    MSI_TRY(read_column(r, "FIELD_ID", CCC_INT32, rows->field, 1));
    MSI_TRY(read_column(r, "DATA_DESC_ID", CCC_INT32, rows->data_desc, 1));
    return read_column(r, "FLAG_ROW", CCC_BOOL, rows->flag_row, 1);
}

/* free_rows, free_groups - free the arrays. */
static void free_rows(uvfits_rows *rows)
{
    msi_free(rows->time_s);
    msi_free(rows->exposure_s);
    msi_free(rows->uvw_m);
    msi_free(rows->antenna1);
    msi_free(rows->antenna2);
    msi_free(rows->field);
    msi_free(rows->data_desc);
    msi_free(rows->flag_row);
    *rows = (uvfits_rows){0};
}

/* ---- Groups ---- */

static int compare_numbers(double a, double b)
{
    return (a > b) - (a < b);
}

/* Compare rows by time, antennas and field. Rows with equal values compare as 0; compare_rows then keeps their
 * order. */
static int compare_keys(const uvfits_rows *r, int64_t i, int64_t k)
{
    int by = compare_numbers(r->time_s[i], r->time_s[k]);
    if (!by) by = compare_numbers(r->antenna1[i], r->antenna1[k]);
    if (!by) by = compare_numbers(r->antenna2[i], r->antenna2[k]);
    return by ? by : compare_numbers(r->field[i], r->field[k]);
}

static int compare_rows(const void *a, const void *b, void *of)
{
    const int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    const int by = compare_keys(of, i, k);
    return by ? by : (i > k) - (i < k);
}

/* Return 1 if two rows have the same u, v, w in single precision. Averages of windows with different flags may
 * differ. */
static int have_same_uvw(const uvfits_rows *r, int64_t i, int64_t k)
{
    const double *p = r->uvw_m + 3 * i, *q = r->uvw_m + 3 * k;
    const double length_m = sqrt(p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
    for (int a = 0; a < 3; a++)
        if (fabs(p[a] - q[a]) > 0x1p-24 * length_m) return 0;
    return 1;
}

static void assign(uvfits_groups *g, const uvfits_rows *r, const int64_t *order, const int32_t *place, int64_t *taken)
{
    int64_t leader = -1;
    for (int64_t i = 0; i < r->n_row; i++) {
        const int64_t row = order[i];
        const int32_t at = place[r->data_desc[row]];
        g->leads[row] = leader < 0 || compare_keys(r, leader, row) != 0 || taken[at] == g->n_group ||
                        !have_same_uvw(r, leader, row);
        if (g->leads[row]) {
            leader = row;
            g->n_group++;
        }
        taken[at] = g->n_group;
        g->group[row] = g->n_group - 1;
    }
}

/*
 * make_groups - sort rows into groups. Rows are in one group if their time, antennas and field are equal, their u, v, w
 * are equal in single precision, and their windows differ.
 * Given:    place [n_place]  by DATA_DESC_ID, place of a window in a group, below n_window
 * Returned: *groups  freed by free_groups in all cases
 * Returns:  0, MSI_ENOMEM
 */
static int make_groups(uvfits_groups *g, const uvfits_rows *rows, const int32_t *place, int32_t n_window)
{
    int64_t *order = NULL, *taken = NULL; /* taken[place]: n_group at the time when the place was last filled */
    *g = (uvfits_groups){0};
    MSI_TRY(msi_alloc(&g->group, rows->n_row, sizeof *g->group, "groups of rows"));
    MSI_TRY(msi_alloc(&g->leads, rows->n_row, sizeof *g->leads, "groups of rows"));
    int status = msi_alloc(&order, rows->n_row, sizeof *order, "order of rows");
    if (!status) status = msi_alloc(&taken, n_window, sizeof *taken, "windows of a group");
    if (!status) {
        /* Sorting takes some microseconds per row. */
        static const double ROW_S = 1e-4;
        msi_child_progress(MSI_CHILD_STEP_S + ROW_S * (double)rows->n_row);
        for (int64_t i = 0; i < rows->n_row; i++) order[i] = i;
        qsort_r(order, (size_t)rows->n_row, sizeof *order, compare_rows, (void *)rows);
        assign(g, rows, order, place, taken);
    }
    msi_free(order);
    msi_free(taken);
    return status;
}

static void free_groups(uvfits_groups *g)
{
    msi_free(g->group);
    msi_free(g->leads);
    *g = (uvfits_groups){0};
}

enum { BLOCK = 2880 };

/* Programs that read UVFITS count groups in 32 bits. */
static const int64_t MOST_GROUPS = INT32_MAX;

/* A file that is being written. */
typedef struct output {
    const msi_uvfits_output_spec *spec;
    msi_uvfits_report *report;
    msi_ms_reader *reader;
    msi_uvfits_layout layout;
    uvfits_rows rows;
    uvfits_groups groups;
    FILE *file;
    uint32_t *bytes; /* [parameters and a window] in the byte order of the file */
} output;

/* ---- One row ---- */

static uint32_t in_file_order(double value)
{
    const float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return htobe32(bits);
}

/* Split a date into two parts of single precision. The first is exact; the second is below 1/4096 day. */
static void split_date(double days, double part[2])
{
    part[0] = floor(days * 4096) / 4096;
    part[1] = days - part[0];
}

static int64_t put_parameters(const output *o, int64_t row, uint32_t *to)
{
    const uvfits_rows *r = &o->rows;
    const double first = r->antenna1[row] + 1.0, second = r->antenna2[row] + 1.0;
    double date[2];
    int64_t n = 0;
    for (int k = 0; k < 3; k++) to[n++] = in_file_order(r->uvw_m[3 * row + k] / MSI_SPEED_OF_LIGHT);
    split_date((r->time_s[row] + o->layout.utc_offset_s) / 86400 - o->layout.day_mjd, date);
    to[n++] = in_file_order(date[0]);
    to[n++] = in_file_order(date[1]);
    if (msi_uvfits_needs_antenna_columns(&o->layout)) {
        to[n++] = in_file_order(1);
        to[n++] = in_file_order(first);
        to[n++] = in_file_order(second);
    } else
        to[n++] = in_file_order(256 * first + second);
    to[n++] = in_file_order(1);
    to[n++] = in_file_order(r->exposure_s[row]);
    if (o->layout.n_field > 1) to[n++] = in_file_order(r->field[row] + 1.0);
    return n;
}

/* Store a sample: real part, imaginary part and weight, which is negative if the sample is flagged. */
static void put_sample(output *o, const msi_c32 *v, float weight, int is_flagged, uint32_t to[3])
{
    const int is_number = isfinite(v->re) && isfinite(v->im) && isfinite(weight);
    if (!is_number) {
        o->report->n_not_finite += !is_flagged;
        weight = isfinite(weight) ? -fabsf(weight) : 0;
    } else if (is_flagged)
        weight = -fabsf(weight);
    else
        o->report->n_unweighted += !(weight > 0);
    to[0] = in_file_order(is_number ? v->re : 0);
    to[1] = in_file_order(is_number ? v->im : 0);
    to[2] = in_file_order(weight);
}

static int put_bytes(const output *o, const void *bytes, int64_t n, int64_t at)
{
    const char *from = bytes;
    while (n > 0) {
        const ssize_t written = pwrite(fileno(o->file), from, (size_t)n, at);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0)
            return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s", o->spec->name, strerror(errno));
        from += written;
        at += written;
        n -= written;
    }
    return MSI_OK;
}

static int put_row(output *o, const msi_ms_block *b, int64_t i)
{
    const msi_uvfits_layout *l = &o->layout;
    const int64_t row = b->ms_row[i], n_sample = (int64_t)l->n_chan * l->n_corr;
    const int64_t group_at = l->data_begin + o->groups.group[row] * msi_uvfits_group_bytes(l);
    const int64_t first = i * n_sample;
    if (o->groups.leads[row]) {
        const int64_t n = put_parameters(o, row, o->bytes);
        MSI_TRY(put_bytes(o, o->bytes, 4 * n, group_at));
    }
    for (int64_t c = 0; c < l->n_chan; c++)
        for (int p = 0; p < l->n_corr; p++) {
            const int64_t from = first + c * l->n_corr + l->order[p], to = c * l->n_corr + p;
            put_sample(o, &b->data[from], b->weight[from], b->flag[from] || o->rows.flag_row[row], o->bytes + 3 * to);
        }
    const int64_t place = l->place[b->data_desc_id];
    return put_bytes(o, o->bytes, 12 * n_sample, group_at + 4 * msi_uvfits_n_parameter(l) + place * 12 * n_sample);
}

/* ---- The whole ---- */

static int put_rows(output *o)
{
    msi_ms_block block = {0};
    int64_t n_done = 0;
    for (;;) {
        MSI_TRY(msi_ms_reader_next(o->reader, &block));
        if (!block.n_row) break;
        for (int64_t i = 0; i < block.n_row; i++) MSI_TRY(put_row(o, &block, i));
        n_done += block.n_row;
        msi_progress_at(n_done, o->rows.n_row);
    }
    if (n_done != o->rows.n_row)
        return msi_error_set(MSI_EINTERNAL, "%s: read only %lld of %lld rows", o->spec->name, (long long)n_done,
                             (long long)o->rows.n_row);
    return MSI_OK;
}

static int plan(output *o)
{
    msi_uvfits_report *report = o->report;
    MSI_TRY(msi_uvfits_layout_make(&o->layout, o->reader, o->spec->name));
    MSI_TRY(read_rows(&o->rows, o->reader));
    MSI_TRY(make_groups(&o->groups, &o->rows, o->layout.place, o->layout.n_window));
    o->layout.n_group = o->groups.n_group;
    if (o->groups.n_group > MOST_GROUPS)
        return msi_error_set(MSI_EINPUT,
                             "%s: %lld groups, but readers of UVFITS support at most %lld; select fewer with -interval",
                             o->spec->name, (long long)o->groups.n_group, (long long)MOST_GROUPS);
    report->n_row = o->rows.n_row;
    report->n_group = o->groups.n_group;
    report->n_window = o->layout.n_window;
    report->n_filled = o->groups.n_group * o->layout.n_window - o->rows.n_row;
    const int64_t n_value = msi_uvfits_group_bytes(&o->layout) / 4;
    return msi_alloc(&o->bytes, n_value, sizeof *o->bytes, "a group");
}

/* Return the offset of the first byte after the padding of the last group. */
static int64_t tables_begin(const output *o)
{
    const int64_t end = o->layout.data_begin + o->layout.n_group * msi_uvfits_group_bytes(&o->layout);
    return (end + BLOCK - 1) / BLOCK * BLOCK;
}

static int put_tables(const output *o)
{
    void *bytes;
    int64_t n;
    int status = msi_uvfits_tables_make(&o->layout, o->spec->name, &bytes, &n);
    if (!status) status = put_bytes(o, bytes, n, tables_begin(o));
    free(bytes);
    return status;
}

static int write_all(output *o)
{
    const msi_uvfits_output_spec *spec = o->spec;
    MSI_TRY(plan(o));
    const int fd = open(spec->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    o->file = fd >= 0 ? fdopen(fd, "r+b") : NULL;
    if (!o->file) {
        const int failed = errno;
        if (fd >= 0) close(fd);
        return msi_error_set(MSI_EOUTPUT, "%s: %s", spec->name, strerror(failed));
    }
    MSI_TRY(msi_uvfits_header_write(&o->layout, o->file, spec->name, spec->command));
    /* Samples without a row stay zero. Their weight is then zero, so they are flagged. */
    if (ftruncate(fileno(o->file), tables_begin(o)) != 0)
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s", spec->name, strerror(errno));
    MSI_TRY(put_rows(o));
    return put_tables(o);
}

int msi_uvfits_check(const msi_ms_reader *reader, const char *name)
{
    msi_uvfits_layout layout;
    const int status = msi_uvfits_layout_make(&layout, reader, name);
    msi_uvfits_layout_free(&layout);
    return status;
}

int msi_uvfits_write(msi_ms_reader *reader, const msi_uvfits_output_spec *spec, msi_uvfits_report *report)
{
    output o = {.spec = spec, .reader = reader, .report = report};
    *report = (msi_uvfits_report){0};
    int status = write_all(&o);
    if (o.file && fclose(o.file) != 0 && !status)
        status = msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s", spec->name, strerror(errno));
    msi_uvfits_layout_free(&o.layout);
    free_rows(&o.rows);
    free_groups(&o.groups);
    msi_free(o.bytes);
    return status;
}
