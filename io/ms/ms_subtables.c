/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_subtables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_paths.h"

/* ---- Tables and cells ---- */

int msi_ms_table_check_size(const ccc_table *t)
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
    const int checked = msi_ms_table_check_size(*out);
    if (checked != MSI_OK) {
        ccc_table_close(*out);
        *out = NULL;
    }
    return checked;
}

/* Open a required subtable that must have rows. Given: without  consequence of having no rows, for the message
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM; after a failure *out needs no closing */
static int open_rows(msi_ms_set *set, const char *name, const char *without, ccc_table **out, int64_t *n)
{
    MSI_TRY(open_subtable(set, name, out));
    *n = ccc_table_n_row(*out);
    if (*n >= 1 && *n <= INT32_MAX) return MSI_OK;
    ccc_table_close(*out);
    *out = NULL;
    return msi_error_set(MSI_EINPUT, "%s/%s: has %lld rows, so %s", set->path, name, (long long)*n, without);
}

int msi_ms_table_doubles(ccc_table *t, const char *column, int64_t row, double **out, int64_t *n)
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

/* Copy a text, truncated to the size of the destination. */
static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* Accept that a ccc function could not read an optional value. Fail for lack of memory, so that a default does not
 * replace a value that exists. Returns: 0, MSI_ENOMEM. */
static int check_optional(int ccc_status, int *is_there)
{
    *is_there = ccc_status == CCC_OK;
    return ccc_status == CCC_ENOMEM ? msi_ms_failed(ccc_status) : MSI_OK;
}

/* Read a string cell; "" if it does not exist. Returns: 0, MSI_ENOMEM. */
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

int msi_ms_table_check_units(ccc_table *t, const msi_ms_unit_column *columns, size_t n)
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
    MSI_TRY(msi_ms_table_doubles(t, "CHAN_FREQ", id, &w->freq_hz, &n));
    if (n > INT32_MAX) return msi_error_set(MSI_EINPUT, "%s/SPECTRAL_WINDOW: row %d: too many channels", set->path, id);
    w->n_chan = (int32_t)n;
    if (ccc_table_has_column(t, "CHAN_WIDTH")) {
        MSI_TRY(msi_ms_table_doubles(t, "CHAN_WIDTH", id, &w->width_hz, &n_width));
        if (n_width != n) {
            msi_free(w->width_hz);
            w->width_hz = NULL;
        }
    }
    if (!w->width_hz) MSI_TRY(msi_alloc(&w->width_hz, n > 0 ? n : 1, sizeof *w->width_hz, "channel widths"));
    /* A channel cannot extend below 0 Hz. A width that is 0 or larger than that is treated as unknown. */
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
    int64_t n;
    int status = MSI_OK;
    MSI_TRY(open_rows(set, "SPECTRAL_WINDOW", "channels have no frequencies", &t, &n));
    static const msi_ms_unit_column units[] = {{"CHAN_FREQ", "Hz"}, {"CHAN_WIDTH", "Hz"}};
    if ((status = msi_ms_table_check_units(t, units, sizeof units / sizeof *units)) != MSI_OK) goto out;
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
    MSI_TRY(msi_ms_table_doubles(t, "CORR_TYPE", row, &codes, &n));
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
    int64_t n = 0;
    int status = open_rows(set, "DATA_DESCRIPTION", "samples have no channels", &t, &n);
    if (status == MSI_OK) status = open_subtable(set, "POLARIZATION", &pol);
    if (status != MSI_OK) goto out;
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
    int64_t n;
    MSI_TRY(open_rows(set, "ANTENNA", "baselines have no antennas", &t, &n));
    int status = msi_alloc(&set->antenna_itrf_m, 3 * n, sizeof *set->antenna_itrf_m, "antenna positions");
    if (status == MSI_OK)
        status = msi_alloc(&set->antenna_diameter_m, n, sizeof *set->antenna_diameter_m, "diameters of antennas");
    if (status == MSI_OK) status = msi_alloc(&set->antenna_name, n, sizeof *set->antenna_name, "names of antennas");
    if (status != MSI_OK) goto out;
    set->n_antenna = n;
    /* Positions are used only for headers, so a table without them is accepted. */
    static const msi_ms_unit_column units[] = {{"POSITION", "m"}, {"DISH_DIAMETER", "m"}};
    if ((status = msi_ms_table_check_units(t, units, 2)) != MSI_OK) goto out;
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

/* Read the delays of MWA tiles, if the set has that subtable, and check whether all pointings have the same delays. */
static int read_delays(msi_ms_set *set)
{
    ccc_table *t = NULL;
    int is_there;
    MSI_TRY(check_optional(ccc_subtable_open(&t, set->table, "MWA_TILE_POINTING"), &is_there));
    if (!is_there) return MSI_OK;
    int status =
        check_optional(ccc_get_range(t, "DELAYS", 0, 1, NULL, CCC_INT32, set->delay, MSI_MS_DELAYS), &is_there);
    set->has_delay = is_there;
    const int64_t n = ccc_table_n_row(t);
    for (int64_t i = 1; status == MSI_OK && set->has_delay == 1 && i < n; i++) {
        int32_t delay[MSI_MS_DELAYS];
        status = check_optional(ccc_get_range(t, "DELAYS", i, 1, NULL, CCC_INT32, delay, MSI_MS_DELAYS), &is_there);
        if (status == MSI_OK && is_there && memcmp(delay, set->delay, sizeof delay) != 0) set->has_delay = 2;
    }
    ccc_table_close(t);
    return status;
}

/* ---- Fields ---- */

void msi_ms_frames_free(msi_ms_frames *f)
{
    ccc_free(f->column);
    ccc_free(f->names);
    ccc_free(f->codes);
}

int msi_ms_frames_read(ccc_table *t, const char *column, msi_ms_frames *f)
{
    char *text = NULL;
    int is_there;
    int64_t n_code = 0;
    *f = (msi_ms_frames){.fixed = "J2000"};
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

int msi_ms_frames_of_row(ccc_table *t, const msi_ms_frames *f, int64_t row, char *frame, size_t size)
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

/* Find how a phase centre moves. The polynomial is direction[n_value], with two values for each power of time. */
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

/* Read an optional column of integers; -1 without the column. Returned: *out [n]  freed by msi_free */
static int read_numbers(ccc_table *t, const char *column, int64_t n, int32_t **out)
{
    int is_there = 0;
    MSI_TRY(msi_alloc(out, n > 0 ? n : 1, sizeof **out, "numbers of a subtable"));
    if (n > 0 && ccc_table_has_column(t, column))
        MSI_TRY(check_optional(ccc_get_range(t, column, 0, n, NULL, CCC_INT32, *out, n), &is_there));
    for (int64_t i = 0; i < n && !is_there; i++) (*out)[i] = -1;
    return MSI_OK;
}

/* Read one field. Its direction is a polynomial, direction[n_value]. */
static int read_field(ccc_table *t, int64_t row, const msi_ms_frames *frames, int32_t ephemeris,
                      const double *direction, int64_t n_value, msi_ms_field *f)
{
    MSI_TRY(read_text(t, "NAME", row, f->name, sizeof f->name));
    MSI_TRY(msi_ms_frames_of_row(t, frames, row, f->frame, sizeof f->frame));
    /* The first two values are the constant term of the polynomial in time. */
    const int is_finite = n_value >= 2 && isfinite(direction[0]) && isfinite(direction[1]);
    f->ra_rad = is_finite ? direction[0] : NAN;
    f->dec_rad = is_finite ? direction[1] : NAN;
    find_motion(direction, n_value, ephemeris, f);
    return MSI_OK;
}

enum { FIELDS_AT_ONCE = 4096 };

/* Read directions from `row` on: at most n rows, whose cells have the same shape.
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
    static const msi_ms_unit_column units[] = {{"PHASE_DIR", "rad"}};
    msi_ms_frames frames;
    int32_t *source = NULL, *ephemeris = NULL;
    int status = msi_ms_frames_read(t, "PHASE_DIR", &frames);
    if (status == MSI_OK) status = msi_ms_table_check_units(t, units, 1);
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
    msi_ms_frames_free(&frames);
    return status;
}

/* Read FIELD: names, phase centres with their frames, and how they move. Returns: 0, MSI_EINPUT, MSI_ENOMEM */
static int read_fields(msi_ms_set *set)
{
    ccc_table *t = NULL;
    int64_t n;
    MSI_TRY(open_rows(set, "FIELD", "phase centres are unknown", &t, &n));
    int status = msi_alloc(&set->field, n, sizeof *set->field, "fields");
    if (status == MSI_OK) set->n_field = (int)n;
    if (status == MSI_OK) status = read_field_rows(set, t);
    ccc_table_close(t);
    return status;
}

/* A row of SOURCE and the id of its source. */
typedef struct source_line {
    int32_t id;
    int64_t row;
} source_line;

static int compare_sources(const void *a, const void *b)
{
    const source_line *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->row > y->row) - (x->row < y->row);
}

/* Read the first rest frequency of a row; 0 if it does not exist or cannot be read. */
static int read_line(ccc_table *t, int64_t row, double *rest_hz)
{
    double *values;
    int64_t n;
    const int status = msi_ms_table_doubles(t, "REST_FREQUENCY", row, &values, &n);
    *rest_hz = status == MSI_OK && n > 0 && isfinite(values[0]) && values[0] > 0 ? values[0] : 0;
    msi_free(values);
    return status == MSI_ENOMEM ? status : MSI_OK;
}

/* Find the rest frequency of each field in the rows of SOURCE, which are sorted by source id. The first row that has
 * one is used. */
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

int msi_ms_subtables_rest_frequencies(const msi_ms_set *set, const msi_ms_field *field, int n_field, double *rest_hz)
{
    ccc_table *t = NULL;
    int is_there;
    int32_t *id = NULL;
    source_line *line = NULL;
    MSI_TRY(check_optional(ccc_subtable_open(&t, set->table, "SOURCE"), &is_there));
    if (is_there && msi_ms_table_check_size(t) != MSI_OK) is_there = 0;
    const int has_columns =
        is_there && ccc_table_has_column(t, "SOURCE_ID") && ccc_table_has_column(t, "REST_FREQUENCY");
    const int64_t n = has_columns ? ccc_table_n_row(t) : 0;
    static const msi_ms_unit_column units[] = {{"REST_FREQUENCY", "Hz"}};
    int has_line = 0, status = read_numbers(t, "SOURCE_ID", n, &id);
    if (status == MSI_OK) status = msi_alloc(&line, n > 0 ? n : 1, sizeof *line, "numbers of sources");
    for (int64_t i = 0; i < n && status == MSI_OK; i++) line[i] = (source_line){id[i], i};
    if (status == MSI_OK && n > 0) qsort(line, (size_t)n, sizeof *line, compare_sources);
    if (status == MSI_OK) status = find_lines(t, line, n, field, n_field, rest_hz);
    for (int i = 0; i < n_field && status == MSI_OK; i++) has_line |= rest_hz[i] != 0;
    /* Birli writes a column of seconds without values. */
    if (status == MSI_OK && has_line) status = msi_ms_table_check_units(t, units, 1);
    msi_free(line);
    msi_free(id);
    ccc_table_close(t);
    return status;
}

/* ---- All of them ---- */

int msi_ms_subtables_read(msi_ms_set *set)
{
    MSI_TRY(read_windows(set));
    MSI_TRY(read_setups(set));
    MSI_TRY(read_fields(set));
    MSI_TRY(read_antennas(set));
    return read_delays(set);
}

int msi_ms_subtables_observe(msi_ms_set *set, msi_observation *o)
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

int msi_ms_transfer_names(msi_cursor *c, msi_ms_name **names, int64_t n, int *is_whole)
{
    MSI_TRY(msi_transfer_array(c, names, n, sizeof **names, is_whole));
    for (int64_t i = 0; *is_whole && c->from && i < n; i++) (*names)[i].text[sizeof(*names)[i].text - 1] = 0;
    return MSI_OK;
}
