/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_metadata.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_block.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_column.h"
#include "io/ms/ms_pack.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_uv.h"

int msi_ms_failed(int ccc_status)
{
    const int number = ccc_error_number();
    /* A write failed; another limit of the system than memory was reached. */
    const int is_write = number == -1 || number == ENOSPC || number == EFBIG || number == EDQUOT || number == EROFS;
    const int is_limit = number == EAGAIN || number == EMFILE || number == ENFILE;
    const int status = ccc_status == CCC_ENOMEM                ? MSI_ENOMEM
                       : ccc_status == CCC_ELOCKED             ? MSI_ELOCKED
                       : ccc_status == CCC_EFAILED && is_write ? MSI_EOUTPUT
                                                               : MSI_EINPUT;
    msi_error_set(status, "%s", ccc_error());
    return is_limit ? msi_error_about(status, "limit") : status;
}

/* ---- Tables and cells ---- */

/*
 * Refuse a table whose header gives more rows than its files have bytes, since every row of these tables takes some
 * bytes. Reading that many rows would take hours. Returns: 0, MSI_EINPUT
 */
static int check_table_size(const ccc_table *t)
{
    const char *path = ccc_table_path(t);
    const int64_t n = ccc_table_n_row(t), bytes = msi_ms_paths_bytes(&path, 1);
    if (n <= bytes) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s/table.dat (%lld rows, but %lld bytes of files)", path,
                         (long long)n, (long long)bytes);
}

/* Open a required subtable and check it. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
static int open_subtable(msi_ms_set *set, const char *name, ccc_table **out)
{
    const int status = ccc_subtable_open(out, set->table, name);
    if (status == CCC_ENOTFOUND)
        return msi_error_set(MSI_EINPUT, "%s: subtable %s is missing: not a complete Measurement Set", set->path, name);
    if (status != CCC_OK) return msi_ms_failed(status);
    const int checked = check_table_size(*out);
    if (checked != MSI_OK) {
        ccc_table_close(*out);
        *out = NULL;
    }
    return checked;
}

/*
 * Read an array cell of numbers as doubles. A cell without a value gives n = 0.
 * Returned: *out  freed by msi_free
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
static int read_doubles(ccc_table *t, const char *column, int64_t row, double **out, int64_t *n)
{
    int ndim;
    int64_t shape[CCC_MAX_DIM];
    *out = NULL;
    *n = 0;
    MSI_CCC(ccc_cell_shape(t, column, row, &ndim, shape));
    if (ndim < 0) return MSI_OK;
    int64_t count = 1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count))
            return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: column %s, row %lld: invalid cell shape",
                                 ccc_table_path(t), column, (long long)row);
    MSI_TRY(msi_alloc(out, count > 0 ? count : 1, sizeof **out, "a metadata cell"));
    const int status = count > 0 ? ccc_get_range(t, column, row, 1, NULL, CCC_DOUBLE, *out, count) : CCC_OK;
    if (status != CCC_OK) {
        msi_free(*out);
        *out = NULL;
        return msi_ms_failed(status);
    }
    *n = count;
    return MSI_OK;
}

/* Copy a text, cut to the size of the destination. */
static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* Accept the failure of a ccc function that reads an optional value, except lack of memory: the default must not
 * replace a value that exists. Returns: 0, MSI_ENOMEM. */
static int check_optional(int ccc_status, int *is_there)
{
    *is_there = ccc_status == CCC_OK;
    return ccc_status == CCC_ENOMEM ? msi_ms_failed(ccc_status) : MSI_OK;
}

/* Read a string cell; "" if there is none. Returns: 0, MSI_ENOMEM. */
static int read_text(ccc_table *t, const char *column, int64_t row, char *to, size_t size)
{
    char *text = NULL;
    int is_there;
    to[0] = 0;
    if (!ccc_table_has_column(t, column) || row >= ccc_table_n_row(t)) return MSI_OK;
    MSI_TRY(check_optional(ccc_get_string(t, column, row, &text), &is_there));
    if (is_there) copy_text(to, size, text);
    ccc_free(text);
    return MSI_OK;
}

/* A column of values in a unit. */
typedef struct unit_column {
    const char *column, *unit;
} unit_column;

/* Refuse columns whose units are not those of the Measurement Set definition. */
static int check_units(ccc_table *t, const unit_column *columns, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double factor = 1;
        if (!ccc_table_has_column(t, columns[i].column)) continue;
        MSI_CCC(ccc_column_factor(t, columns[i].column, columns[i].unit, &factor));
        if (fabs(factor - 1) > 1e-12)
            return msi_error_set(
                MSI_EINPUT,
                "%s: column %s is in a unit of %.9g %s by its keyword QuantumUnits; multiply its values by "
                "that, and set the keyword to %s",
                ccc_table_path(t), columns[i].column, factor, columns[i].unit, columns[i].unit);
    }
    return MSI_OK;
}

/* ---- Spectral windows, correlations, antennas ---- */

/* Translate casacore's MFrequency codes. Returns "" for a code without a frame; 64 means undefined. */
static const char *frequency_frame(int code)
{
    static const char *const frames[] = {"REST", "LSRK", "LSRD", "BARY", "GEO", "TOPO", "GALACTO", "LGROUP", "CMB"};
    return code >= 0 && code < (int)(sizeof frames / sizeof *frames) ? frames[code] : "";
}

static int read_window(msi_ms_set *set, ccc_table *t, int id)
{
    msi_ms_window *w = &set->window[id];
    int64_t n, n_width;
    MSI_TRY(read_doubles(t, "CHAN_FREQ", id, &w->freq_hz, &n));
    if (n > INT32_MAX) return msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: row %d: too many channels", set->path, id);
    w->n_chan = (int32_t)n;
    if (ccc_table_has_column(t, "CHAN_WIDTH")) {
        MSI_TRY(read_doubles(t, "CHAN_WIDTH", id, &w->width_hz, &n_width));
        if (n_width != n) {
            msi_free(w->width_hz);
            w->width_hz = NULL;
        }
    }
    if (!w->width_hz) MSI_TRY(msi_alloc(&w->width_hz, n > 0 ? n : 1, sizeof *w->width_hz, "channel widths"));
    /* A channel cannot extend below 0 Hz. A width that is larger, or 0, is treated as unknown. */
    for (int64_t i = 0; i < n; i++) {
        const double width_hz = fabs(w->width_hz[i]);
        w->width_hz[i] = width_hz <= 2 * w->freq_hz[i] ? width_hz : 0;
    }
    int32_t code = 5;
    if (ccc_table_has_column(t, "MEAS_FREQ_REF"))
        MSI_CCC(ccc_get_range(t, "MEAS_FREQ_REF", id, 1, NULL, CCC_INT32, &code, 1));
    copy_text(w->frame, sizeof w->frame, frequency_frame(code));
    return MSI_OK;
}

static int read_windows(msi_ms_set *set)
{
    ccc_table *t = NULL;
    MSI_TRY(open_subtable(set, "SPECTRAL_WINDOW", &t));
    int status = MSI_OK;
    const int64_t n = ccc_table_n_row(t);
    if (n < 1 || n > INT32_MAX) {
        status = msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: has %lld rows, so channels have no frequencies",
                               set->path, (long long)n);
        goto out;
    }
    static const unit_column units[] = {{"CHAN_FREQ", "Hz"}, {"CHAN_WIDTH", "Hz"}};
    if ((status = check_units(t, units, sizeof units / sizeof *units)) != MSI_OK) goto out;
    if ((status = msi_alloc(&set->window, n, sizeof *set->window, "spectral windows")) != MSI_OK) goto out;
    set->n_window = (int)n;
    for (int i = 0; i < set->n_window && status == MSI_OK; i++) {
        msi_child_progress(MSI_CHILD_STEP_S);
        status = read_window(set, t, i);
    }
out:
    ccc_table_close(t);
    return status;
}

/* Read the correlations of one POLARIZATION row. */
static int read_correlations(const msi_ms_set *set, ccc_table *t, int64_t row, msi_ms_setup *setup)
{
    double *codes;
    int64_t n;
    MSI_TRY(read_doubles(t, "CORR_TYPE", row, &codes, &n));
    int status = MSI_OK;
    if (n < 1 || n > MSI_MAX_CORR)
        status = msi_error_set(MSI_EINPUT,
                               "%s/POLARIZATION: row %lld: CORR_TYPE has %lld correlations; 1 to %d are supported",
                               set->path, (long long)row, (long long)n, MSI_MAX_CORR);
    for (int64_t i = 0; i < n && status == MSI_OK; i++) {
        if (codes[i] < MSI_POL_I || codes[i] > MSI_POL_YY)
            status = msi_error_set(MSI_EINPUT,
                                   "%s/POLARIZATION: row %lld: CORR_TYPE %g is neither Stokes, linear nor circular",
                                   set->path, (long long)row, codes[i]);
        else
            setup->corr[i] = (msi_pol)codes[i];
    }
    setup->n_corr = (int32_t)n;
    msi_free(codes);
    return status;
}

static int read_setups(msi_ms_set *set)
{
    ccc_table *t = NULL, *pol = NULL;
    int32_t *spw = NULL, *pol_id = NULL;
    int status = open_subtable(set, "DATA_DESCRIPTION", &t);
    if (status == MSI_OK) status = open_subtable(set, "POLARIZATION", &pol);
    if (status != MSI_OK) goto out;
    const int64_t n = ccc_table_n_row(t);
    if (n < 1 || n > INT32_MAX) {
        status = msi_error_set(MSI_EINPUT, "%s/DATA_DESCRIPTION: has %lld rows", set->path, (long long)n);
        goto out;
    }
    if ((status = msi_alloc(&set->setup, n, sizeof *set->setup, "data descriptions")) != MSI_OK) goto out;
    set->n_setup = (int)n;
    if ((status = msi_alloc(&spw, n, sizeof *spw, "data descriptions")) != MSI_OK) goto out;
    if ((status = msi_alloc(&pol_id, n, sizeof *pol_id, "data descriptions")) != MSI_OK) goto out;
    int failed = ccc_get_range(t, "SPECTRAL_WINDOW_ID", 0, n, NULL, CCC_INT32, spw, n);
    if (failed == CCC_OK) failed = ccc_get_range(t, "POLARIZATION_ID", 0, n, NULL, CCC_INT32, pol_id, n);
    if (failed != CCC_OK) {
        status = msi_ms_failed(failed);
        goto out;
    }
    for (int i = 0; i < set->n_setup && status == MSI_OK; i++) {
        msi_ms_setup *s = &set->setup[i];
        msi_child_progress(MSI_CHILD_STEP_S);
        if (spw[i] < 0 || spw[i] >= set->n_window)
            status = msi_error_set(MSI_EINPUT, "%s/DATA_DESCRIPTION: row %d: SPECTRAL_WINDOW_ID %d of %d", set->path, i,
                                   spw[i], set->n_window);
        else if (pol_id[i] < 0 || pol_id[i] >= ccc_table_n_row(pol))
            status = msi_error_set(MSI_EINPUT, "%s/DATA_DESCRIPTION: row %d: POLARIZATION_ID %d of %lld", set->path, i,
                                   pol_id[i], (long long)ccc_table_n_row(pol));
        else
            status = read_correlations(set, pol, pol_id[i], s);
        s->spw_id = spw[i];
        if (status == MSI_OK) s->n_stored = set->window[spw[i]].n_chan;
    }
out:
    msi_free(spw);
    msi_free(pol_id);
    ccc_table_close(pol);
    ccc_table_close(t);
    return status;
}

static int read_antennas(msi_ms_set *set)
{
    ccc_table *t = NULL;
    MSI_TRY(open_subtable(set, "ANTENNA", &t));
    const int64_t n = ccc_table_n_row(t);
    int status = MSI_OK;
    if (n < 1)
        status = msi_error_set(MSI_EINPUT, "%s/ANTENNA: has 0 rows", set->path);
    else
        status = msi_alloc(&set->antenna_itrf_m, 3 * n, sizeof *set->antenna_itrf_m, "antenna positions");
    if (status == MSI_OK)
        status = msi_alloc(&set->antenna_diameter_m, n, sizeof *set->antenna_diameter_m, "diameters of antennas");
    if (status == MSI_OK) status = msi_alloc(&set->antenna_name, n, sizeof *set->antenna_name, "names of antennas");
    if (status != MSI_OK) goto out;
    set->n_antenna = n;
    /* Positions are used for headers only, so a table without them is accepted. */
    static const unit_column units[] = {{"POSITION", "m"}};
    if ((status = check_units(t, units, 1)) != MSI_OK) goto out;
    int is_there;
    status =
        check_optional(ccc_get_range(t, "POSITION", 0, n, NULL, CCC_DOUBLE, set->antenna_itrf_m, 3 * n), &is_there);
    if (!is_there) memset(set->antenna_itrf_m, 0, (size_t)n * 3 * sizeof *set->antenna_itrf_m);
    if (status == MSI_OK)
        status = check_optional(ccc_get_range(t, "DISH_DIAMETER", 0, n, NULL, CCC_DOUBLE, set->antenna_diameter_m, n),
                                &is_there);
    for (int64_t i = 0; i < n; i++)
        if (!is_there || !(set->antenna_diameter_m[i] > 0) || !isfinite(set->antenna_diameter_m[i]))
            set->antenna_diameter_m[i] = 0;
    for (int64_t i = 0; status == MSI_OK && i < n; i++) {
        msi_child_progress(MSI_CHILD_STEP_S);
        status = read_text(t, "NAME", i, set->antenna_name[i].text, sizeof set->antenna_name[i].text);
    }
out:
    ccc_table_close(t);
    return status;
}

/* Read the delays of the first pointing of MWA tiles, if the set has that subtable. */
static int read_delays(msi_ms_set *set)
{
    ccc_table *t = NULL;
    int is_there;
    MSI_TRY(check_optional(ccc_subtable_open(&t, set->table, "MWA_TILE_POINTING"), &is_there));
    if (!is_there) return MSI_OK;
    int status =
        check_optional(ccc_get_range(t, "DELAYS", 0, 1, NULL, CCC_INT32, set->delay, MSI_MS_DELAYS), &is_there);
    set->has_delay = is_there;
    ccc_table_close(t);
    return status;
}

/* ---- Fields ---- */

/* Frames of a column of directions: one frame for all rows, or a second column with a code or name for each row. */
typedef struct direction_frames {
    char fixed[16], *column; /* the column; NULL: there is none */
    char **names;            /* [n] of the codes */
    int64_t *codes, n;
} direction_frames;

static void free_frames(direction_frames *f)
{
    ccc_free(f->column);
    ccc_free(f->names);
    ccc_free(f->codes);
}

static int read_frames(ccc_table *t, const char *column, direction_frames *f)
{
    char *text = NULL;
    int is_there;
    int64_t n_code = 0;
    *f = (direction_frames){.fixed = "J2000"};
    MSI_TRY(check_optional(ccc_keyword_get_string(t, column, "MEASINFO.VarRefCol", &f->column), &is_there));
    if (!is_there) {
        MSI_TRY(check_optional(ccc_keyword_get_string(t, column, "MEASINFO.Ref", &text), &is_there));
        if (is_there) copy_text(f->fixed, sizeof f->fixed, text);
        ccc_free(text);
        return MSI_OK;
    }
    MSI_TRY(check_optional(ccc_keyword_get_strings(t, column, "MEASINFO.TabRefTypes", &f->names, &f->n), &is_there));
    if (!is_there) f->n = 0;
    MSI_TRY(check_optional(ccc_keyword_get_ints(t, column, "MEASINFO.TabRefCodes", &f->codes, &n_code), &is_there));
    if (!is_there || n_code < f->n) f->n = is_there ? n_code : 0;
    return MSI_OK;
}

/* Find the frame of a row. */
static int frame_of_row(ccc_table *t, const direction_frames *f, int64_t row, char *frame, size_t size)
{
    int32_t code;
    int is_there;
    copy_text(frame, size, f->fixed);
    if (!f->column) return MSI_OK;
    MSI_TRY(check_optional(ccc_get_range(t, f->column, row, 1, NULL, CCC_INT32, &code, 1), &is_there));
    if (!is_there) return read_text(t, f->column, row, frame, size);
    for (int64_t i = 0; i < f->n; i++)
        if (f->codes[i] == code) copy_text(frame, size, f->names[i]);
    return MSI_OK;
}

/* Find out how a phase centre moves. Its polynomial has the terms direction[n_value], two for each power of time. */
static void find_motion(const double *direction, int64_t n_value, int32_t ephemeris, msi_ms_field *f)
{
    static const char bodies[] = " MERCURY VENUS MARS JUPITER SATURN URANUS NEPTUNE PLUTO SUN MOON COMET ";
    char between[sizeof f->frame + 2];
    f->motion = MSI_MS_FIXED;
    for (int64_t i = 2; i < n_value; i++)
        if (direction[i] != 0) f->motion = MSI_MS_POLYNOMIAL;
    snprintf(between, sizeof between, " %s ", f->frame);
    if (strstr(bodies, between)) f->motion = MSI_MS_PLANET;
    if (ephemeris >= 0) f->motion = MSI_MS_EPHEMERIS;
}

/* Read an optional column of integers. Without it all values are -1. Returned: *out [n]  freed by msi_free */
static int read_numbers(ccc_table *t, const char *column, int64_t n, int32_t **out)
{
    int is_there = 0;
    MSI_TRY(msi_alloc(out, n > 0 ? n : 1, sizeof **out, "numbers of a subtable"));
    if (n > 0 && ccc_table_has_column(t, column))
        MSI_TRY(check_optional(ccc_get_range(t, column, 0, n, NULL, CCC_INT32, *out, n), &is_there));
    for (int64_t i = 0; i < n && !is_there; i++) (*out)[i] = -1;
    return MSI_OK;
}

/* Read one field, whose direction is a polynomial of terms direction[n_value]. */
static int read_field(ccc_table *t, int64_t row, const direction_frames *frames, int32_t ephemeris,
                      const double *direction, int64_t n_value, msi_ms_field *f)
{
    MSI_TRY(read_text(t, "NAME", row, f->name, sizeof f->name));
    MSI_TRY(frame_of_row(t, frames, row, f->frame, sizeof f->frame));
    /* The first two numbers are the constant term of the polynomial in time. */
    const int is_finite = n_value >= 2 && isfinite(direction[0]) && isfinite(direction[1]);
    f->ra_rad = is_finite ? direction[0] : NAN;
    f->dec_rad = is_finite ? direction[1] : NAN;
    find_motion(direction, n_value, ephemeris, f);
    return MSI_OK;
}

enum { FIELDS_AT_ONCE = 4096 };

/* Read the directions of some rows from `row` on, at most n, whose cells have one shape.
 * Returned: *out [*n_read][*n_value]  freed by msi_free, also on failure */
static int read_directions(ccc_table *t, int64_t row, int64_t n, double **out, int64_t *n_read, int64_t *n_value)
{
    int ndim;
    int64_t shape[CCC_MAX_DIM];
    *out = NULL;
    *n_value = 0;
    MSI_CCC(ccc_rows_alike(t, "PHASE_DIR", row, n < FIELDS_AT_ONCE ? n : FIELDS_AT_ONCE, n_read, &ndim, shape));
    if (ndim < 0) return MSI_OK;
    int64_t count = 1;
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(count, shape[i], &count) || count > INT32_MAX)
            return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: column PHASE_DIR, row %lld: invalid cell shape",
                                 ccc_table_path(t), (long long)row);
    if (count == 0) return MSI_OK;
    *n_value = count;
    MSI_TRY(msi_alloc(out, *n_read * count, sizeof **out, "directions of fields"));
    MSI_CCC(ccc_get_range(t, "PHASE_DIR", row, *n_read, NULL, CCC_DOUBLE, *out, *n_read * count));
    return MSI_OK;
}

static int read_field_rows(msi_ms_set *set, ccc_table *t)
{
    static const unit_column units[] = {{"PHASE_DIR", "rad"}};
    direction_frames frames;
    int32_t *source = NULL, *ephemeris = NULL;
    int status = read_frames(t, "PHASE_DIR", &frames);
    if (status == MSI_OK) status = check_units(t, units, 1);
    if (status == MSI_OK) status = read_numbers(t, "SOURCE_ID", set->n_field, &source);
    if (status == MSI_OK) status = read_numbers(t, "EPHEMERIS_ID", set->n_field, &ephemeris);
    for (int64_t row = 0, n = 0; row < set->n_field && status == MSI_OK; row += n) {
        double *direction;
        int64_t n_value;
        msi_child_progress(MSI_CHILD_STEP_S);
        status = read_directions(t, row, set->n_field - row, &direction, &n, &n_value);
        for (int64_t i = 0; i < n && status == MSI_OK; i++) {
            msi_ms_field *f = &set->field[row + i];
            f->source_id = source[row + i];
            status = read_field(t, row + i, &frames, ephemeris[row + i], direction + i * n_value, n_value, f);
        }
        msi_free(direction);
    }
    msi_free(source);
    msi_free(ephemeris);
    free_frames(&frames);
    return status;
}

/* Read FIELD into a set: names, phase centres and their frames, and how they move.
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM */
static int read_fields(msi_ms_set *set)
{
    ccc_table *t = NULL;
    MSI_TRY(open_subtable(set, "FIELD", &t));
    const int64_t n = ccc_table_n_row(t);
    int status = MSI_OK;
    if (n < 1 || n > INT32_MAX)
        status =
            msi_error_set(MSI_EINPUT, "%s/FIELD: has %lld rows, so phase centres are unknown", set->path, (long long)n);
    else
        status = msi_alloc(&set->field, n, sizeof *set->field, "fields");
    if (status == MSI_OK) set->n_field = (int)n;
    if (status == MSI_OK) status = read_field_rows(set, t);
    ccc_table_close(t);
    return status;
}

/* A line of SOURCE, by the source's number. */
typedef struct source_line {
    int32_t id;
    int64_t row;
} source_line;

static int compare_sources(const void *a, const void *b)
{
    const source_line *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->row > y->row) - (x->row < y->row);
}

/* Read the first frequency of a row; 0 if there is none, or it cannot be read. */
static int read_line(ccc_table *t, int64_t row, double *rest_hz)
{
    double *values;
    int64_t n;
    const int status = read_doubles(t, "REST_FREQUENCY", row, &values, &n);
    *rest_hz = status == MSI_OK && n > 0 && isfinite(values[0]) && values[0] > 0 ? values[0] : 0;
    msi_free(values);
    return status == MSI_ENOMEM ? status : MSI_OK;
}

/* Find the rest frequency of each field in the rows of SOURCE, which are sorted by source. The first row that has one
 * counts. */
static int find_lines(ccc_table *t, const source_line *line, int64_t n, const msi_ms_field *field, int n_field,
                      double *rest_hz)
{
    int status = MSI_OK;
    int32_t id = -1;
    double known_hz = 0;
    for (int i = 0; i < n_field && status == MSI_OK; i++) {
        rest_hz[i] = 0;
        msi_child_progress(MSI_CHILD_STEP_S);
        /* Several fields may have the same source. */
        if (i > 0 && field[i].source_id == id) {
            rest_hz[i] = known_hz;
            continue;
        }
        id = field[i].source_id;
        int64_t low = 0;
        for (int64_t high = n; low < high;) {
            const int64_t middle = low + (high - low) / 2;
            if (line[middle].id < id)
                low = middle + 1;
            else
                high = middle;
        }
        for (; low < n && line[low].id == id && rest_hz[i] == 0 && status == MSI_OK; low++)
            status = read_line(t, line[low].row, &rest_hz[i]);
        known_hz = rest_hz[i];
    }
    return status;
}

/*
 * Read the rest frequencies of fields from SOURCE, an optional subtable.
 * Returned: rest_hz [n_field]  0 if unknown; a cell that cannot be read counts as missing
 * Returns:  0, MSI_EINPUT (another unit), MSI_ENOMEM
 */
static int read_rest_frequencies(const msi_ms_set *set, const msi_ms_field *field, int n_field, double *rest_hz)
{
    ccc_table *t = NULL;
    int is_there;
    int32_t *id = NULL;
    source_line *line = NULL;
    MSI_TRY(check_optional(ccc_subtable_open(&t, set->table, "SOURCE"), &is_there));
    if (is_there && check_table_size(t) != MSI_OK) is_there = 0;
    const int has_columns =
        is_there && ccc_table_has_column(t, "SOURCE_ID") && ccc_table_has_column(t, "REST_FREQUENCY");
    const int64_t n = has_columns ? ccc_table_n_row(t) : 0;
    static const unit_column units[] = {{"REST_FREQUENCY", "Hz"}};
    int status = has_columns ? check_units(t, units, 1) : MSI_OK;
    if (status == MSI_OK) status = read_numbers(t, "SOURCE_ID", n, &id);
    if (status == MSI_OK) status = msi_alloc(&line, n > 0 ? n : 1, sizeof *line, "numbers of sources");
    for (int64_t i = 0; i < n && status == MSI_OK; i++) line[i] = (source_line){id[i], i};
    if (status == MSI_OK && n > 0) qsort(line, (size_t)n, sizeof *line, compare_sources);
    if (status == MSI_OK) status = find_lines(t, line, n, field, n_field, rest_hz);
    msi_free(line);
    msi_free(id);
    ccc_table_close(t);
    return status;
}

/* ---- Visibility stores ---- */

typedef struct about_head {
    int64_t n_window, n_setup, n_field, n_antenna, n_table_row;
    char data_column[64], telescope[64], observer[64], time_scale[16];
} about_head;

typedef struct about_window {
    int64_t n_chan;
    char frame[16];
} about_window;

typedef struct about_setup {
    int32_t spw_id, n_corr;
    int32_t corr[MSI_MAX_CORR];
} about_setup;

typedef struct about_field {
    double ra_rad, dec_rad, rest_hz;
    int32_t source_id, motion; /* below 0 in files of a version that had 64 bits for the source */
    char frame[16], name[64];
} about_field;

/* NULL is fine. */
static void free_store(struct msi_ms_store *store)
{
    if (!store) return;
    msi_msv_file_close(store->file);
    msi_free(store->rest_hz);
    msi_free(store);
}

static void copy_store_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%.*s", (int)size - 1, from);
}

static int pass_store_window(msi_ms_cursor *c, msi_ms_window *w, int *is_whole)
{
    about_window a = {.n_chan = w->n_chan};
    copy_store_text(a.frame, sizeof a.frame, w->frame);
    *is_whole = msi_ms_transfer(c, &a, sizeof a);
    if (c->from) {
        *is_whole = *is_whole && a.n_chan >= 0 && a.n_chan <= INT32_MAX;
        copy_store_text(w->frame, sizeof w->frame, a.frame);
    }
    if (*is_whole) MSI_TRY(msi_ms_transfer_array(c, &w->freq_hz, a.n_chan, sizeof *w->freq_hz, is_whole));
    if (*is_whole) MSI_TRY(msi_ms_transfer_array(c, &w->width_hz, a.n_chan, sizeof *w->width_hz, is_whole));
    if (*is_whole) w->n_chan = (int32_t)a.n_chan;
    return MSI_OK;
}

static int pass_store_setup(msi_ms_cursor *c, msi_ms_setup *s)
{
    about_setup a = {.spw_id = s->spw_id, .n_corr = s->n_corr};
    for (int i = 0; i < s->n_corr; i++) a.corr[i] = (int32_t)s->corr[i];
    if (!msi_ms_transfer(c, &a, sizeof a)) return 0;
    if (!c->from) return 1;
    if (a.n_corr < 1 || a.n_corr > MSI_MAX_CORR) return 0;
    s->spw_id = a.spw_id;
    s->n_corr = a.n_corr;
    for (int i = 0; i < a.n_corr; i++) {
        if (a.corr[i] < MSI_POL_I || a.corr[i] > MSI_POL_YY) return 0;
        s->corr[i] = (msi_pol)a.corr[i];
    }
    return 1;
}

static int pass_store_field(msi_ms_cursor *c, msi_ms_field *f, double *rest_hz)
{
    about_field a = {.ra_rad = f->ra_rad,
                     .dec_rad = f->dec_rad,
                     .rest_hz = *rest_hz,
                     .source_id = f->source_id,
                     .motion = (int32_t)f->motion};
    copy_store_text(a.frame, sizeof a.frame, f->frame);
    copy_store_text(a.name, sizeof a.name, f->name);
    if (!msi_ms_transfer(c, &a, sizeof a)) return 0;
    if (!c->from) return 1;
    if (a.motion > MSI_MS_PLANET) return 0;
    *f = (msi_ms_field){.ra_rad = a.ra_rad, .dec_rad = a.dec_rad, .source_id = a.source_id};
    if (a.motion > 0) f->motion = (msi_ms_motion)a.motion;
    copy_store_text(f->frame, sizeof f->frame, a.frame);
    copy_store_text(f->name, sizeof f->name, a.name);
    *rest_hz = a.rest_hz;
    return 1;
}

/* Copy the counts of the head, and allocate the arrays that they count. Each element takes some bytes of the file. */
static int unpack_store_head(const msi_ms_cursor *c, const about_head *h, msi_ms_set *set, int *is_whole)
{
    const int64_t counts[] = {h->n_window, h->n_setup, h->n_field, h->n_antenna};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < 1 || counts[i] > (c->n - c->at) / 16) *is_whole = 0;
    if (!*is_whole || h->n_table_row < 1) return MSI_OK;
    MSI_TRY(msi_alloc(&set->window, h->n_window, sizeof *set->window, "spectral windows"));
    set->n_window = (int)h->n_window;
    MSI_TRY(msi_alloc(&set->setup, h->n_setup, sizeof *set->setup, "data descriptions"));
    set->n_setup = (int)h->n_setup;
    MSI_TRY(msi_alloc(&set->field, h->n_field, sizeof *set->field, "fields"));
    MSI_TRY(msi_alloc(&set->store->rest_hz, h->n_field, sizeof(double), "fields"));
    set->n_field = (int)h->n_field;
    set->n_antenna = h->n_antenna;
    set->n_table_row = h->n_table_row;
    copy_store_text(set->data_column, sizeof set->data_column, h->data_column);
    copy_store_text(set->store->telescope, sizeof h->telescope, h->telescope);
    copy_store_text(set->store->observer, sizeof h->observer, h->observer);
    copy_store_text(set->store->time_scale, sizeof h->time_scale, h->time_scale);
    return MSI_OK;
}

static int pass_store_metadata(msi_ms_cursor *c, msi_ms_set *set, int *is_whole)
{
    about_head h = {set->n_window, set->n_setup, set->n_field, set->n_antenna, set->n_table_row, "", "", "", ""};
    copy_store_text(h.data_column, sizeof h.data_column, set->data_column);
    copy_store_text(h.telescope, sizeof h.telescope, set->store->telescope);
    copy_store_text(h.observer, sizeof h.observer, set->store->observer);
    copy_store_text(h.time_scale, sizeof h.time_scale, set->store->time_scale);
    *is_whole = msi_ms_transfer(c, &h, sizeof h);
    if (c->from) MSI_TRY(unpack_store_head(c, &h, set, is_whole));
    for (int i = 0; i < set->n_window && *is_whole; i++) MSI_TRY(pass_store_window(c, &set->window[i], is_whole));
    for (int i = 0; i < set->n_setup && *is_whole; i++) *is_whole = pass_store_setup(c, &set->setup[i]);
    for (int i = 0; i < set->n_field && *is_whole; i++)
        *is_whole = pass_store_field(c, &set->field[i], &set->store->rest_hz[i]);
    if (*is_whole)
        MSI_TRY(msi_ms_transfer_array(c, &set->antenna_itrf_m, 3 * set->n_antenna, sizeof(double), is_whole));
    if (!*is_whole) return MSI_OK;
    /* Stores of earlier versions end here. */
    if (c->from && c->at == c->n) {
        MSI_TRY(msi_alloc(&set->antenna_name, set->n_antenna, sizeof *set->antenna_name, "names of antennas"));
        return msi_alloc(&set->antenna_diameter_m, set->n_antenna, sizeof(double), "diameters of antennas");
    }
    MSI_TRY(msi_ms_transfer_array(c, &set->antenna_diameter_m, set->n_antenna, sizeof(double), is_whole));
    if (*is_whole) *is_whole = msi_ms_transfer(c, &set->has_delay, sizeof set->has_delay);
    if (*is_whole) *is_whole = msi_ms_transfer(c, set->delay, sizeof set->delay);
    if (!*is_whole) return MSI_OK;
    if (c->from && c->at == c->n)
        return msi_alloc(&set->antenna_name, set->n_antenna, sizeof *set->antenna_name, "names of antennas");
    return msi_ms_transfer_names(c, &set->antenna_name, set->n_antenna, is_whole);
}

/* Fill a set with the metadata that a store has of its set. Its windows have only the selected channels. */
static int select_store_windows(const msi_ms_set *from, msi_ms_set *to)
{
    MSI_TRY(msi_alloc(&to->window, from->n_window, sizeof *to->window, "spectral windows"));
    to->n_window = from->n_window;
    for (int i = 0; i < from->n_window; i++)
        copy_store_text(to->window[i].frame, sizeof to->window->frame, from->window[i].frame);
    for (int i = 0; i < from->n_setup; i++) {
        const msi_ms_setup *s = &from->setup[i];
        msi_ms_window *w = &to->window[s->spw_id];
        if (s->n_chan == 0) continue;
        w->n_chan = s->n_chan;
        w->freq_hz = s->freq_hz;
        w->width_hz = s->width_hz;
    }
    return MSI_OK;
}

int msi_ms_store_pack_metadata(const msi_ms_reader *r, char **out, int64_t *n)
{
    msi_ms_set *set = &r->set[0], chosen = *set;
    struct msi_ms_store store = {0};
    msi_ms_cursor c = {0};
    int is_whole = 1, status;
    *out = NULL;
    chosen.window = NULL;
    chosen.store = &store;
    copy_store_text(store.telescope, sizeof store.telescope, r->observation.telescope);
    copy_store_text(store.observer, sizeof store.observer, r->observation.observer);
    copy_store_text(store.time_scale, sizeof store.time_scale, r->observation.time_scale);
    if ((status = select_store_windows(set, &chosen)) != MSI_OK) goto out;
    if ((status = msi_alloc(&store.rest_hz, set->n_field, sizeof *store.rest_hz, "fields")) != MSI_OK) goto out;
    if (!set->uv) status = read_rest_frequencies(set, set->field, set->n_field, store.rest_hz);
    for (int i = 0; set->uv && i < set->n_field; i++) store.rest_hz[i] = msi_ms_uv_rest_frequency(set, i);
    if (status != MSI_OK) goto out;
    status = pass_store_metadata(&c, &chosen, &is_whole);
    if (!status) status = msi_alloc(out, c.at, 1, "what a store keeps of its set");
    if (status) goto out;
    *n = c.at;
    c = (msi_ms_cursor){.to = *out};
    status = pass_store_metadata(&c, &chosen, &is_whole);
out:
    msi_free(store.rest_hz);
    msi_free(chosen.window);
    return status;
}

/* Open the store at a set's path. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
static int open_store(msi_ms_set *set)
{
    MSI_TRY(msi_alloc(&set->store, 1, sizeof *set->store, "a visibility store"));
    return msi_msv_file_open(&set->store->file, set->path);
}

/* Return whether the setups and fields to which runs and chunks refer exist. */
static int store_ids_are_valid(const msi_ms_set *set)
{
    const msi_msv_file *f = set->store->file;
    for (int i = 0; i < set->n_setup; i++)
        if (set->setup[i].spw_id < 0 || set->setup[i].spw_id >= set->n_window) return 0;
    for (int64_t i = 0; i < f->header->n_run; i++)
        if (f->run[i].data_desc_id >= set->n_setup || f->run[i].field_id >= set->n_field) return 0;
    for (int64_t i = 0; i < f->header->n_chunk; i++) {
        const msi_msv_chunk *c = &f->chunk[i];
        if (c->data_desc_id < 0 || c->data_desc_id >= set->n_setup || c->field_id < 0 || c->field_id >= set->n_field)
            return 0;
    }
    const msi_msv_run *last = &f->run[f->header->n_run - 1];
    return last->row + last->n_row <= set->n_table_row;
}

static int check_store_selection(const msi_ms_set *set, const msi_ms_selection *s)
{
    if (s->mssel_field || s->mssel_spw || s->mssel_antenna || s->mssel_uvrange || s->mssel_time || s->taql)
        return msi_error_set(MSI_EINPUT,
                             "%s: MSSelection and TaQL need the tables of a Measurement Set, which a visibility store "
                             "does not have; use them when the store is made",
                             set->path);
    const char *other = s->model_column;
    if (s->data_column && strcmp(s->data_column, set->data_column) != 0) other = s->data_column;
    if (other)
        return msi_error_set(MSI_EINPUT, "%s: a visibility store of %s, without column %s", set->path, set->data_column,
                             other);
    return MSI_OK;
}

/* Implement msi_ms_set_describe for a store. Returns MSI_EINPUT also if the selection needs a set's tables. */
static int describe_store(msi_ms_set *set, const msi_ms_selection *selection)
{
    const msi_msv_header *h = set->store->file->header;
    msi_ms_cursor c = {.from = set->store->file->about, .n = h->about_bytes};
    int is_whole = 0;
    MSI_TRY(pass_store_metadata(&c, set, &is_whole));
    if (!is_whole || !store_ids_are_valid(set))
        return msi_msv_file_damaged(set->path, "its index", h->index_at, h->index_bytes);
    for (int i = 0; i < set->n_setup; i++) set->setup[i].n_stored = set->window[set->setup[i].spw_id].n_chan;
    set->has_weight_spectrum = set->has_flag_row = 1;
    return check_store_selection(set, selection);
}

/* Implement the part of msi_ms_set_observe that reads subtables. field_id: of the first row, or -1. */
static void observe_store(const msi_ms_set *set, int field_id, msi_observation *o)
{
    copy_store_text(o->telescope, sizeof o->telescope, set->store->telescope);
    copy_store_text(o->observer, sizeof o->observer, set->store->observer);
    copy_store_text(o->time_scale, sizeof o->time_scale, set->store->time_scale);
    const double rest_hz = field_id >= 0 ? set->store->rest_hz[field_id] : 0;
    o->rest_freq_hz = isfinite(rest_hz) && rest_hz > 0 ? rest_hz : 0;
}

/* ---- Opening ---- */

/* Refuse a multi-MS. The message names its members, which have the rows. */
static int check_parts(const msi_ms_set *set)
{
    char **names, text[2048] = "";
    int64_t n;
    size_t used = 0;
    MSI_CCC(ccc_table_parts(set->table, &names, &n));
    for (int64_t i = 0; i < n && n > 1 && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i > 0 ? " " : "", names[i]);
    ccc_free(names);
    if (n <= 1) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: a multi-MS cannot be read as one set; give its %lld members instead: %s%s",
                         set->path, (long long)n, text, used < sizeof text ? "" : "..");
}

/* Return whether a table has its rows in its own files, so that neither the table nor its columns refer to other
 * tables. */
static int stores_rows(ccc_table *t)
{
    ccc_column_info info;
    if (!ccc_table_is_root(t)) return 0;
    return ccc_column_describe(t, "UVW", &info) != CCC_OK || strstr(info.manager_type, "StMan");
}

/* Check that the columns have not been written again since they were chosen. */
static int check_writing(const msi_ms_set *set)
{
    uint64_t written;
    const char *const columns[] = {set->data_column, set->model_column};
    MSI_TRY(msi_ms_watch_check(&set->watch, set->path, set->table, columns, &written));
    if (written == set->watch.written) return MSI_OK;
    return msi_ms_watch_rewritten(set->path, *set->model_column ? set->model_column : set->data_column);
}

/* ---- Large columns, read without casacore ---- */

static int only_casacore;

void msi_ms_read_by_casacore(int only)
{
    only_casacore = only;
}

static const char *large_column(const msi_ms_set *set, msi_ms_large k)
{
    const char *const names[] = {[MSI_MS_DATA] = set->data_column,
                                 [MSI_MS_MODEL] = set->model_column,
                                 [MSI_MS_FLAG] = "FLAG",
                                 [MSI_MS_SPECTRUM] = set->has_weight_spectrum ? "WEIGHT_SPECTRUM" : ""};
    return names[k];
}

/* Describe where a column is stored; place->type is MSI_TILED_NONE for a column that is not alone in its tiles. */
static int find_place(const msi_ms_set *set, const char *column, msi_tiled_place *place)
{
    ccc_column_info info;
    *place = (msi_tiled_place){0};
    MSI_CCC(ccc_column_describe(set->table, column, &info));
    if (info.is_scalar || info.manager_n_column != 1 || info.manager_file < 0) return MSI_OK;
    for (int i = 0; i < MSI_TILED_N_MANAGER; i++) {
        if (strcmp(info.manager_type, msi_tiled_manager_names[i]) != 0) continue;
        place->manager = i;
        place->number = info.manager_file;
        place->type = info.type == CCC_BOOL      ? MSI_TILED_BOOL
                      : info.type == CCC_FLOAT   ? MSI_TILED_FLOAT
                      : info.type == CCC_COMPLEX ? MSI_TILED_COMPLEX
                                                 : MSI_TILED_NONE;
    }
    return MSI_OK;
}

/* Describe where the large columns of an open table are stored. Rows of other tables are read by casacore. */
static int find_places(msi_ms_set *set)
{
    const char *by = getenv("MSIMAGE_READ");
    set->has_places = 0;
    if (only_casacore || (by && strcmp(by, "casacore") == 0) || !stores_rows(set->table)) return MSI_OK;
    for (msi_ms_large k = 0; k < MSI_MS_N_LARGE; k++) {
        set->place[k] = (msi_tiled_place){0};
        if (!*large_column(set, k)) continue;
        MSI_TRY(find_place(set, large_column(set, k), &set->place[k]));
        if (set->place[k].type == MSI_TILED_NONE) return MSI_OK;
    }
    /* Only these types are read without a conversion. */
    set->has_places = set->place[MSI_MS_DATA].type == MSI_TILED_COMPLEX &&
                      set->place[MSI_MS_FLAG].type == MSI_TILED_BOOL &&
                      (!*set->model_column || set->place[MSI_MS_MODEL].type == MSI_TILED_COMPLEX) &&
                      (!set->has_weight_spectrum || set->place[MSI_MS_SPECTRUM].type == MSI_TILED_FLOAT);
    return MSI_OK;
}

static void close_columns(msi_ms_set *set)
{
    set->is_direct = 0;
    for (msi_ms_large k = 0; k < MSI_MS_N_LARGE; k++) {
        msi_tiled_column_free(set->column[k]);
        set->column[k] = NULL;
    }
}

int msi_ms_set_open_columns(msi_ms_set *set)
{
    if (set->is_direct || !set->has_places) return MSI_OK;
    for (msi_ms_large k = 0; k < MSI_MS_N_LARGE; k++) {
        if (set->place[k].type == MSI_TILED_NONE) continue;
        const int status = msi_tiled_column_open(&set->column[k], set->path, &set->place[k], set->n_table_row);
        if (status == MSI_OK && set->column[k]) continue;
        close_columns(set);
        set->has_places = 0;
        return status;
    }
    set->is_direct = 1;
    return MSI_OK;
}

void msi_ms_set_close(msi_ms_set *set)
{
    ccc_table_close(set->table);
    set->table = NULL;
    close_columns(set);
}

int msi_ms_set_open(msi_ms_set *set)
{
    if (set->table || set->store || set->uv) return MSI_OK;
    if (msi_uv_set_is_file(set->path)) return msi_ms_uv_open(set);
    if (msi_msv_is_file(set->path)) return open_store(set);
    MSI_TRY(msi_ms_watch_open(&set->watch, set->path, &set->table));
    if (!stores_rows(set->table)) msi_ms_limit_lift();
    MSI_TRY(check_parts(set));
    return set->watch.is_on ? check_writing(set) : MSI_OK;
}

int msi_ms_set_recheck(msi_ms_set *set)
{
    if (!set->watch.is_on || msi_ms_watch_is_same(&set->watch, set->path)) return MSI_OK;
    /* casacore keeps a table in the state that it had when it was opened. */
    msi_ms_set_close(set);
    const int status = msi_ms_set_open(set);
    if (status == MSI_OK) return MSI_OK;
    /* Otherwise a process that continues, such as Python, would get casacore's old state of this table at the next
     * opening. */
    msi_ms_set_close(set);
    return status;
}

/* ---- Columns ---- */

/* Append the names of the columns that hold visibilities. */
static void list_data_columns(ccc_table *t, char *text, size_t size)
{
    char **names = NULL;
    int64_t n = 0;
    size_t used = 0;
    text[0] = 0;
    if (ccc_table_columns(t, &names, &n) != CCC_OK) return;
    for (int64_t i = 0; i < n; i++) {
        ccc_column_info info;
        if (ccc_column_describe(t, names[i], &info) != CCC_OK || info.is_scalar) continue;
        const int is_data = info.type == CCC_COMPLEX || info.type == CCC_DCOMPLEX || !strcmp(names[i], "FLOAT_DATA");
        if (is_data && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", names[i]);
    }
    ccc_free(names);
}

/* Find a column of visibilities and copy its name. */
static int choose_column(msi_ms_set *set, const char *column, char name[64])
{
    char there[256];
    ccc_column_info info;
    if (strlen(column) >= sizeof set->data_column)
        return msi_error_set(MSI_EINPUT, "%s: column name '%.80s..' is too long", set->path, column);
    copy_text(name, sizeof set->data_column, column);
    if (!*column) return MSI_OK;
    const int missing = ccc_column_describe(set->table, column, &info) != CCC_OK;
    if (!missing && !info.is_scalar &&
        (info.type == CCC_COMPLEX || info.type == CCC_DCOMPLEX || info.type == CCC_FLOAT))
        return MSI_OK;
    list_data_columns(set->table, there, sizeof there);
    return msi_error_set(MSI_EINPUT, "%s: %s%s%s; its data columns are: %s", set->path,
                         missing ? "has no column " : "column ", column, missing ? "" : " holds no visibilities",
                         *there ? there : "none");
}

static int choose_columns(msi_ms_set *set, const msi_ms_selection *selection)
{
    static const char *const required[] = {"UVW", "DATA_DESC_ID", "FIELD_ID", "ANTENNA1", "ANTENNA2", "TIME"};
    for (size_t i = 0; i < sizeof required / sizeof *required; i++)
        if (!ccc_table_has_column(set->table, required[i]))
            return msi_error_set(MSI_EINPUT, "%s: not a Measurement Set: the table has no column %s", set->path,
                                 required[i]);
    if (stores_rows(set->table)) MSI_TRY(check_table_size(set->table));
    set->n_table_row = ccc_table_n_row(set->table);
    set->has_flag_row = ccc_table_has_column(set->table, "FLAG_ROW");
    set->has_weight_spectrum = ccc_table_has_column(set->table, "WEIGHT_SPECTRUM");
    const char *column = selection->data_column;
    if (!column) column = ccc_table_has_column(set->table, "CORRECTED_DATA") ? "CORRECTED_DATA" : "DATA";
    if (selection->coordinates_only && !ccc_table_has_column(set->table, column)) column = "";
    /* As in CASA, sets with and without CORRECTED_DATA may be combined. msi_ms_reader_open_with fails if no set has the
     * column. */
    if (strcmp(column, "CORRECTED_DATA") == 0 && !ccc_table_has_column(set->table, column) &&
        ccc_table_has_column(set->table, "DATA"))
        column = "DATA";
    MSI_TRY(choose_column(set, column, set->data_column));
    if (selection->model_column) MSI_TRY(choose_column(set, selection->model_column, set->model_column));
    if (!*column) return MSI_OK;
    const char *const with_data[] = {"FLAG", "WEIGHT"};
    for (int i = 0; i < 2 && !selection->coordinates_only; i++)
        if (!ccc_table_has_column(set->table, with_data[i]))
            return msi_error_set(MSI_EINPUT, "%s: not a complete Measurement Set: the table has no column %s",
                                 set->path, with_data[i]);
    return MSI_OK;
}

/* Refuse columns that a prediction has left incomplete or is writing, and watch for one that starts while they are
 * read. Columns that no prediction can write are not checked again. */
static int watch_columns(msi_ms_set *set, const msi_ms_selection *selection)
{
    const char *const columns[] = {set->data_column, set->model_column};
    MSI_TRY(msi_ms_watch_check(&set->watch, set->path, set->table, columns, &set->watch.written));
    for (int i = 0; i < 2 && !selection->coordinates_only; i++)
        if (*columns[i] && !msi_ms_column_is_protected(columns[i])) set->watch.is_on = 1;
    return MSI_OK;
}

/* ---- The whole set ---- */

static int describe_tables(msi_ms_set *set, const msi_ms_selection *selection)
{
    static const unit_column units[] = {{"UVW", "m"},           {"TIME", "s"},
                                        {"TIME_CENTROID", "s"}, {"TIME_EXTRA_PREC", "s"},
                                        {"INTERVAL", "s"},      {"EXPOSURE", "s"}};
    MSI_TRY(choose_columns(set, selection));
    MSI_TRY(check_units(set->table, units, sizeof units / sizeof *units));
    MSI_TRY(watch_columns(set, selection));
    MSI_TRY(read_windows(set));
    MSI_TRY(read_setups(set));
    MSI_TRY(read_fields(set));
    MSI_TRY(read_antennas(set));
    MSI_TRY(read_delays(set));
    MSI_TRY(msi_ms_stations_read(&set->stations, set->table, set->data_column, set->n_antenna));
    if (set->n_table_row < 1) return msi_error_set(MSI_EINPUT, "%s: has 0 rows", set->path);
    if (selection->coordinates_only || !*set->data_column) return MSI_OK;
    return find_places(set);
}

int msi_ms_set_describe(msi_ms_set *set, const msi_ms_selection *selection)
{
    MSI_TRY(set->store ? describe_store(set, selection)
            : set->uv  ? msi_ms_uv_describe(set, selection)
                       : describe_tables(set, selection));
    return msi_ms_set_sort_dishes(set);
}

void msi_ms_set_free(msi_ms_set *set)
{
    msi_ms_set_close(set);
    msi_ms_watch_free(&set->watch);
    free_store(set->store);
    msi_uv_set_free(set->uv);
    msi_free(set->notes);
    for (int i = 0; i < set->n_window; i++) {
        msi_free(set->window[i].freq_hz);
        msi_free(set->window[i].width_hz);
    }
    for (int i = 0; i < set->n_setup; i++) {
        msi_free(set->setup[i].chan_index);
        msi_free(set->setup[i].freq_hz);
        msi_free(set->setup[i].width_hz);
        msi_free(set->setup[i].inverse_lambda2);
    }
    msi_free(set->window);
    msi_free(set->setup);
    msi_free(set->field);
    msi_free(set->antenna_itrf_m);
    msi_free(set->antenna_name);
    msi_free(set->minute);
    msi_free(set->doppler);
    msi_free(set->antenna_diameter_m);
    msi_free(set->antenna_kind);
    msi_ms_stations_free(&set->stations);
    msi_free(set->run);
    memset(set, 0, sizeof *set);
}

/* ---- The observation ---- */

/* Dummy antennas have the zero vector or no position. No antenna is farther than the Moon. */
static int is_somewhere(const double *itrf_m)
{
    const double r2 = itrf_m[0] * itrf_m[0] + itrf_m[1] * itrf_m[1] + itrf_m[2] * itrf_m[2];
    return r2 > 0 && r2 < 1e9 * 1e9;
}

void msi_ms_observe_antennas(const msi_ms_set *set, msi_observation *o)
{
    const double *p = set->antenna_itrf_m;
    double sum[3] = {0}, longest2 = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < set->n_antenna; i++) {
        if (!is_somewhere(p + 3 * i)) continue;
        for (int k = 0; k < 3; k++) sum[k] += p[3 * i + k];
        n++;
        for (int64_t j = 0; j < i; j++) {
            if (!is_somewhere(p + 3 * j)) continue;
            double d2 = 0;
            for (int k = 0; k < 3; k++) d2 += (p[3 * i + k] - p[3 * j + k]) * (p[3 * i + k] - p[3 * j + k]);
            if (d2 > longest2) longest2 = d2;
        }
    }
    for (int k = 0; k < 3; k++) o->antenna_itrf_m[k] = n ? sum[k] / (double)n : 0;
    o->longest_baseline_m = sqrt(longest2);
}

static int observe_tables(msi_ms_set *set, msi_observation *o)
{
    ccc_table *t = NULL;
    char *text = NULL;
    MSI_TRY(open_subtable(set, "OBSERVATION", &t));
    int is_there, status = read_text(t, "TELESCOPE_NAME", 0, o->telescope, sizeof o->telescope);
    if (status == MSI_OK) status = read_text(t, "OBSERVER", 0, o->observer, sizeof o->observer);
    ccc_table_close(t);
    MSI_TRY(status);
    MSI_TRY(check_optional(ccc_keyword_get_string(set->table, "TIME", "MEASINFO.Ref", &text), &is_there));
    copy_text(o->time_scale, sizeof o->time_scale, is_there ? text : "UTC");
    ccc_free(text);
    return MSI_OK;
}

int msi_ms_set_sort_dishes(msi_ms_set *set)
{
    long size[MSI_MS_KINDS];
    int n = 0;
    MSI_TRY(msi_alloc(&set->antenna_kind, set->n_antenna, sizeof *set->antenna_kind, "kinds of antennas"));
    /* The smallest sizes, ascending. */
    for (;;) {
        long next = 0;
        int is_there = 0;
        for (int64_t i = 0; i < set->n_antenna; i++) {
            const long metres = lround(fmin(set->antenna_diameter_m[i], 1e6));
            if ((n && metres <= size[n - 1]) || (is_there && metres >= next)) continue;
            next = metres;
            is_there = 1;
        }
        if (!is_there) break;
        size[n++] = next;
        if (n == MSI_MS_KINDS) break;
    }
    for (int64_t i = 0; i < set->n_antenna; i++) {
        const long metres = lround(fmin(set->antenna_diameter_m[i], 1e6));
        while (set->antenna_kind[i] + 1 < n && size[set->antenna_kind[i]] < metres) set->antenna_kind[i]++;
    }
    return MSI_OK;
}

int msi_ms_set_observe(msi_ms_set *set, msi_observation *o)
{
    memset(o, 0, sizeof *o);
    if (set->store)
        observe_store(set, set->n_run > 0 ? set->run[0].field_id : -1, o);
    else if (set->uv)
        msi_ms_uv_observe(set, o);
    else
        MSI_TRY(observe_tables(set, o));
    copy_text(set->telescope, sizeof set->telescope, o->telescope);
    o->start_mjd_s = set->start_mjd_s;
    o->end_mjd_s = set->end_mjd_s;
    msi_ms_observe_antennas(set, o);
    if (set->n_run == 0) return MSI_OK;
    const msi_ms_run *first = &set->run[0];
    const msi_ms_field *field = &set->field[first->field_id];
    copy_text(o->object, sizeof o->object, field->name);
    copy_text(o->dir_frame, sizeof o->dir_frame, field->frame);
    copy_text(o->spec_frame, sizeof o->spec_frame, set->window[set->setup[first->data_desc_id].spw_id].frame);
    o->ra_rad = field->ra_rad;
    o->dec_rad = field->dec_rad;
    return set->store || set->uv ? MSI_OK : read_rest_frequencies(set, field, 1, &o->rest_freq_hz);
}
