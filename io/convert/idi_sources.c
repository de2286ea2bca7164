/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/idi_sources.h"

#include <fitsio.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/convert/set_maps.h"

enum { MOST_LINES = 64, MOST_SOURCES = 1 << 20 };

/* A source, and the different lines of its bands. */
typedef struct source {
    char name[72];
    int64_t n_line;
    double line_hz[MOST_LINES];
} source;

/* ---- The file ---- */

static void add_line(source *s, double line_hz)
{
    if (!(line_hz > 0) || !isfinite(line_hz)) return;
    for (int64_t i = 0; i < s->n_line; i++)
        if (s->line_hz[i] == line_hz) return;
    s->line_hz[s->n_line++] = line_hz;
}

static void read_source(fitsfile *f, long row, int name_column, int line_column, long n_band, source *s, int *status)
{
    double line_hz[MOST_LINES] = {0};
    char *name = s->name, none[] = "";
    fits_read_col(f, TSTRING, name_column, row, 1, 1, none, &name, NULL, status);
    fits_read_col(f, TDOUBLE, line_column, row, 1, n_band, NULL, line_hz, NULL, status);
    for (size_t n = strlen(s->name); n > 0 && s->name[n - 1] == ' ';) s->name[--n] = 0;
    for (long i = 0; !*status && i < n_band; i++) add_line(s, line_hz[i]);
}

/* Read all sources. None are found where there is no such table, or cfitsio cannot read it: casacore has read the
 * rest. */
static int read_sources(fitsfile *f, source **out, long *n)
{
    static char table[] = "SOURCE", line[] = "RESTFREQ"; /* cfitsio takes them as if it wrote there */
    int status = 0, name_column, line_column, name_type, line_type;
    long name_width, n_band, one;
    fits_movnam_hdu(f, BINARY_TBL, table, 0, &status);
    fits_get_num_rows(f, n, &status);
    fits_get_colnum(f, CASEINSEN, table, &name_column, &status);
    fits_get_colnum(f, CASEINSEN, line, &line_column, &status);
    fits_get_coltype(f, name_column, &name_type, &name_width, &one, &status);
    fits_get_coltype(f, line_column, &line_type, &n_band, &one, &status);
    if (status || name_type != TSTRING || name_width >= (long)sizeof(*out)->name || *n < 1 || *n > MOST_SOURCES) {
        *n = 0;
        return MSI_OK;
    }
    if (n_band > MOST_LINES) n_band = MOST_LINES;
    MSI_TRY(msi_alloc(out, *n, sizeof **out, "sources"));
    for (long i = 0; i < *n; i++) read_source(f, i + 1, name_column, line_column, n_band, &(*out)[i], &status);
    if (status) *n = 0;
    return MSI_OK;
}

/* ---- The set ---- */

/* msfits makes fields in the order of the sources. */
static const source *find_source(const source *sources, long n, int64_t field, const char *name)
{
    if (field < n && strcmp(sources[field].name, name) == 0) return &sources[field];
    for (long i = 0; i < n; i++)
        if (strcmp(sources[i].name, name) == 0) return &sources[i];
    return NULL;
}

static int put_source(ccc_table *t, const source *s, ccc_table *fields, int64_t field)
{
    const int64_t row = ccc_table_n_row(t), direction_shape = 2;
    double direction_rad[2] = {0};
    if (ccc_get_range(fields, "PHASE_DIR", field, 1, NULL, CCC_DOUBLE, direction_rad, 2) != CCC_OK)
        memset(direction_rad, 0, sizeof direction_rad);
    int status = ccc_table_add_rows(t, 1);
    if (!status) status = ccc_put_int(t, "SOURCE_ID", row, row);
    if (!status) status = ccc_put_int(t, "SPECTRAL_WINDOW_ID", row, -1);
    if (!status) status = ccc_put_int(t, "CALIBRATION_GROUP", row, -1);
    if (!status) status = ccc_put_int(t, "NUM_LINES", row, s->n_line);
    if (!status) status = ccc_put_string(t, "NAME", row, s->name);
    if (!status) status = ccc_put_array(t, "DIRECTION", row, 1, &direction_shape, CCC_DOUBLE, direction_rad);
    if (!status) status = ccc_put_array(t, "REST_FREQUENCY", row, 1, &s->n_line, CCC_DOUBLE, s->line_hz);
    if (!status) status = ccc_put_int(fields, "SOURCE_ID", field, row);
    return msi_set_written(status);
}

static int put_sources(ccc_table *t, ccc_table *fields, const source *sources, long n)
{
    int status = MSI_OK;
    for (int64_t i = 0; !status && i < ccc_table_n_row(fields); i++) {
        char *name = NULL;
        status = msi_set_read(ccc_get_string(fields, "NAME", i, &name));
        const source *s = status ? NULL : find_source(sources, n, i, name);
        if (s && s->n_line) status = put_source(t, s, fields, i);
        ccc_free(name);
    }
    return status;
}

static int add_table(ccc_table *set, const source *sources, long n)
{
    ccc_table *t, *fields;
    long n_known = 0;
    for (long i = 0; i < n; i++) n_known += sources[i].n_line > 0;
    if (!n_known || ccc_ms_add_source(set) != CCC_OK) return MSI_OK;
    MSI_TRY(msi_set_written(ccc_subtable_open(&t, set, "SOURCE")));
    int status = msi_set_written(ccc_subtable_open(&fields, set, "FIELD"));
    if (!status) {
        status = put_sources(t, fields, sources, n);
        const int closed = msi_set_written(ccc_table_close(fields));
        if (!status) status = closed;
    }
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

int msi_idi_sources_take(ccc_table *set, const char *fits)
{
    fitsfile *f = NULL;
    source *sources = NULL;
    long n = 0;
    int failed = 0, closing = 0;
    if (fits_open_diskfile(&f, fits, READONLY, &failed)) return MSI_OK;
    int status = read_sources(f, &sources, &n);
    fits_close_file(f, &closing);
    if (!status) status = add_table(set, sources, n);
    msi_free(sources);
    return status;
}
