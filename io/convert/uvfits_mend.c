/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/uvfits_mend.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { MOST_ROWS = 1 << 20 };

/* A column of whole numbers. */
typedef struct numbers {
    long n;
    int64_t *value; /* [n] */
} numbers;

/* ---- Tables ---- */

/* Go to the first table whose name has these letters, which is the one that casacore reads. Returns: 1, or 0 where there
 * is none. */
static int go_to(fitsfile *f, const char *letters)
{
    int n_hdu = 0, kind, status = 0;
    fits_get_num_hdus(f, &n_hdu, &status);
    for (int i = 2; !status && i <= n_hdu; i++) {
        char name[FLEN_VALUE] = "";
        int unnamed = 0;
        fits_movabs_hdu(f, i, &kind, &status);
        fits_read_key(f, TSTRING, "EXTNAME", name, NULL, &unnamed);
        if (!status && !unnamed && kind == BINARY_TBL && strstr(name, letters)) return 1;
    }
    return 0;
}

int msi_uvfits_column(fitsfile *f, const char *name, int *status)
{
    char pattern[FLEN_VALUE];
    int column = 0;
    snprintf(pattern, sizeof pattern, "%s", name);
    fits_get_colnum(f, CASEINSEN, pattern, &column, status);
    return column;
}

int msi_uvfits_find_column(fitsfile *f, const char *name)
{
    int status = 0;
    const int column = msi_uvfits_column(f, name, &status);
    return status ? 0 : column;
}

/* Read a column of the table that is open; n is 0 where there is none that can be read, which casacore then says. */
static int read_numbers(fitsfile *f, const char *name, numbers *to)
{
    int status = 0;
    const int column = msi_uvfits_find_column(f, name);
    LONGLONG *value;
    to->n = 0;
    fits_get_num_rows(f, &to->n, &status);
    if (status || !column || to->n < 1 || to->n > MOST_ROWS) to->n = 0;
    MSI_TRY(msi_alloc(&to->value, to->n + 1, sizeof *to->value, "numbers of a table"));
    MSI_TRY(msi_alloc(&value, to->n + 1, sizeof *value, "numbers of a table"));
    if (to->n) fits_read_col(f, TLONGLONG, column, 1, 1, to->n, NULL, value, NULL, &status);
    if (status) to->n = 0;
    for (long i = 0; i < to->n; i++) to->value[i] = value[i];
    msi_free(value);
    return MSI_OK;
}

/* Find the first row of each number from 1 to n: -1 where there is none. */
static int index_numbers(const numbers *in, int64_t n, int64_t **row)
{
    MSI_TRY(msi_alloc(row, n + 1, sizeof **row, "rows of a table"));
    for (int64_t id = 0; id <= n; id++) (*row)[id] = -1;
    for (long i = in->n - 1; i >= 0; i--)
        if (in->value[i] >= 1 && in->value[i] <= n) (*row)[in->value[i]] = i;
    return MSI_OK;
}

int msi_uvfits_sideband_is_contrary(fitsfile *f, const char *width_name)
{
    enum { LOOKED_AT = 4096 };
    double width_hz[LOOKED_AT] = {0}, sideband[LOOKED_AT] = {0};
    long n_row = 0, n_width = 0, n_sideband = 0;
    int kind, status = 0, n = 0;
    const int width_column = msi_uvfits_find_column(f, width_name), column = msi_uvfits_find_column(f, "SIDEBAND");
    if (!width_column || !column) return 0;
    fits_get_num_rows(f, &n_row, &status);
    fits_get_coltype(f, width_column, &kind, &n_width, NULL, &status);
    fits_get_coltype(f, column, &kind, &n_sideband, NULL, &status);
    if (status || n_row < 1 || n_width < 1 || n_width != n_sideband) return 0;
    const long wanted = n_width > LOOKED_AT / n_row ? LOOKED_AT : n_row * n_width;
    fits_read_col(f, TDOUBLE, width_column, 1, 1, wanted, NULL, width_hz, NULL, &status);
    fits_read_col(f, TDOUBLE, column, 1, 1, wanted, NULL, sideband, NULL, &status);
    for (long i = 0; !status && i < wanted; i++) n += width_hz[i] * sideband[i] < 0;
    return n > 0;
}

/* ---- Look ---- */

static int check_ids(const msi_uv_ids *ids, const numbers *known, const char *table, const char *parameter,
                     const char *name)
{
    int64_t *row;
    int status = MSI_OK;
    MSI_TRY(index_numbers(known, ids->last, &row));
    for (int64_t id = 1; !status && id <= ids->last; id++)
        if (msi_uv_ids_has(ids, id) && row[id] < 0)
            status = msi_error_set(MSI_EINPUT, "%s: groups have %s = %lld, which is not in table AIPS %s", name,
                                   parameter, (long long)id, table);
    msi_free(row);
    return status;
}

static int look_at_frequencies(msi_uvfits_mending *m, fitsfile *f, const msi_uvfits_use *use)
{
    numbers known = {0};
    if (!go_to(f, "FQ")) {
        if (use->freqsel->last <= 1 && use->n_if <= 1) return MSI_OK;
        return msi_error_set(MSI_EINPUT, "%s: has several windows, but no table AIPS FQ with their frequencies",
                             use->name);
    }
    m->has_sideband = msi_uvfits_sideband_is_contrary(f, "CH WIDTH");
    int status = read_numbers(f, "FRQSEL", &known);
    if (!status && known.n) status = check_ids(use->freqsel, &known, "FQ", "FREQSEL", use->name);
    for (int64_t id = 1; !status && known.n && id <= use->freqsel->last; id++)
        m->has_frequencies |= id > known.n || known.value[id - 1] != id;
    msi_free(known.value);
    return status;
}

/* casacore takes a source's position for that of 2000 where its year is neither 1950 nor 0; -1 stands for a body of the
 * solar system, which has none. */
static int check_equinox(fitsfile *f, const msi_uvfits_use *use, const numbers *known)
{
    static const double years[] = {-1, 1950, 2000};
    const int column = msi_uvfits_find_column(f, "EPOCH");
    for (long i = 0; column && i < known->n; i++) {
        double year = 2000;
        int failed = 0, n_near = 0;
        const int64_t id = known->value[i];
        if (id < 1 || id > use->source->last || !msi_uv_ids_has(use->source, id)) continue;
        fits_read_col(f, TDOUBLE, column, i + 1, 1, 1, NULL, &year, NULL, &failed);
        for (size_t k = 0; k < sizeof years / sizeof *years; k++) n_near += fabs(year - years[k]) < 0.01;
        if (!failed && n_near == 0)
            return msi_error_set(
                MSI_EINPUT,
                "%s: the position of source %lld has equinox %g (EPOCH in table AIPS SU); a Measurement Set needs "
                "B1950 or J2000",
                use->name, (long long)id, year);
    }
    return MSI_OK;
}

static const char *const motions[] = {"PMRA", "PMDEC"};

int msi_uvfits_source_moves(fitsfile *f, long row)
{
    int n = 0;
    for (int i = 0; i < 2; i++) {
        double motion = 0;
        int status = 0;
        const int column = msi_uvfits_find_column(f, motions[i]);
        if (column) fits_read_col(f, TDOUBLE, column, row, 1, 1, NULL, &motion, NULL, &status);
        n += column && !status && motion != 0;
    }
    return n > 0;
}

static int look_at_sources(msi_uvfits_mending *m, fitsfile *f, const msi_uvfits_use *use)
{
    numbers known = {0};
    if (!go_to(f, "SU")) {
        int64_t first = 1;
        while (first < use->source->last && !msi_uv_ids_has(use->source, first)) first++;
        if (first >= use->source->last) return MSI_OK;
        return msi_error_set(MSI_EINPUT, "%s: groups have sources %lld to %lld, but the file has no table AIPS SU",
                             use->name, (long long)first, (long long)use->source->last);
    }
    int status = read_numbers(f, "ID. NO.", &known);
    if (!status && known.n) status = check_ids(use->source, &known, "SU", "SOURCE", use->name);
    if (!status && known.n > 1 && msi_uv_ids_has(use->source, 0))
        status = msi_error_set(MSI_EINPUT, "%s: groups have source 0, which is not in table AIPS SU (%ld sources)",
                               use->name, known.n);
    if (!status) status = check_equinox(f, use, &known);
    for (long i = 0; !status && i < known.n && !m->has_motion; i++) {
        char *name = m->moving, none[] = "";
        int failed = 0;
        const int column = msi_uvfits_find_column(f, "SOURCE");
        m->has_motion = msi_uvfits_source_moves(f, i + 1);
        if (m->has_motion && column) fits_read_col(f, TSTRING, column, i + 1, 1, 1, none, &name, NULL, &failed);
    }
    msi_free(known.value);
    return status;
}

/* Find the axis of a position whose name has more than RA or DEC. Returns: its number; 0 where there is none. */
static int projected_axis(fitsfile *f, char key[FLEN_KEYWORD], const char **plain)
{
    for (int i = 1; i <= 9; i++) {
        char type[FLEN_VALUE] = "";
        int unknown = 0;
        snprintf(key, FLEN_KEYWORD, "CTYPE%d", i);
        fits_read_key(f, TSTRING, key, type, NULL, &unknown);
        *plain = strncmp(type, "RA---", 5) == 0 ? "RA" : strncmp(type, "DEC--", 5) == 0 ? "DEC" : NULL;
        if (!unknown && *plain) return i;
    }
    return 0;
}

static void look_at_header(msi_uvfits_mending *m, fitsfile *f, const msi_uvfits_use *use)
{
    char key[FLEN_KEYWORD];
    const char *plain;
    double velocity;
    int unknown = 0;
    m->is_projected = projected_axis(f, key, &plain) > 0;
    fits_read_key(f, TDOUBLE, "ALTRVAL", &velocity, NULL, &unknown);
    m->has_line = !unknown && (use->n_if > 1 || use->freqsel->last > 1);
}

int msi_uvfits_mending_find(msi_uvfits_mending *m, const char *fits, const msi_uvfits_use *use)
{
    fitsfile *f = NULL;
    int failed = 0, closing = 0;
    memset(m, 0, sizeof *m);
    /* What cfitsio does not open casacore may: it says what it makes of it. */
    if (fits_open_diskfile(&f, fits, READONLY, &failed)) return MSI_OK;
    look_at_header(m, f, use);
    int status = look_at_frequencies(m, f, use);
    if (!status) status = look_at_sources(m, f, use);
    fits_close_file(f, &closing);
    return status;
}

int msi_uvfits_mending_is_needed(const msi_uvfits_mending *m)
{
    return m->is_projected || m->has_line || m->has_frequencies || m->has_motion;
}

/* ---- Mend ---- */

static void mend_header(const msi_uvfits_mending *m, fitsfile *f, int *status)
{
    char key[FLEN_KEYWORD], plain[FLEN_VALUE];
    const char *name;
    int kind;
    fits_movabs_hdu(f, 1, &kind, status);
    while (!*status && m->is_projected && projected_axis(f, key, &name)) {
        snprintf(plain, sizeof plain, "%s", name);
        fits_update_key(f, TSTRING, key, plain, NULL, status);
    }
    if (m->has_line) fits_delete_key(f, "ALTRVAL", status);
}

/* Put the row of each FRQSEL in its place; one that no group names is a row like the first. */
static int place_rows(fitsfile *f, const numbers *known, int64_t last, int *failed)
{
    unsigned char *rows, *placed = NULL;
    int64_t *row = NULL;
    long n_byte = 0;
    fits_read_key(f, TLONG, "NAXIS1", &n_byte, NULL, failed);
    if (*failed || n_byte < 1) return MSI_OK;
    const int64_t n_row = last > known->n ? last : known->n;
    MSI_TRY(msi_alloc(&rows, known->n * n_byte, 1, "rows of a table"));
    int status = msi_alloc(&placed, n_row * n_byte, 1, "rows of a table");
    if (!status) status = index_numbers(known, n_row, &row);
    if (!status) {
        fits_read_tblbytes(f, 1, 1, known->n * n_byte, rows, failed);
        for (int64_t i = 0; i < n_row; i++)
            memcpy(placed + i * n_byte, rows + (row[i + 1] < 0 ? 0 : row[i + 1]) * n_byte, (size_t)n_byte);
        if (n_row > known->n) fits_insert_rows(f, known->n, n_row - known->n, failed);
        fits_write_tblbytes(f, 1, 1, n_row * n_byte, placed, failed);
        const int column = msi_uvfits_find_column(f, "FRQSEL");
        for (LONGLONG id = 1; id <= n_row; id++) fits_write_col(f, TLONGLONG, column, id, 1, 1, &id, failed);
    }
    msi_free(row);
    msi_free(placed);
    msi_free(rows);
    return status;
}

static int mend_frequencies(fitsfile *f, const msi_uvfits_use *use, int *failed)
{
    numbers known = {0};
    if (!go_to(f, "FQ")) return MSI_OK;
    int status = read_numbers(f, "FRQSEL", &known);
    if (!status && known.n) status = place_rows(f, &known, use->freqsel->last, failed);
    msi_free(known.value);
    return status;
}

void msi_uvfits_stop_sources(fitsfile *f, int *failed)
{
    long n = 0;
    double none = 0;
    fits_get_num_rows(f, &n, failed);
    for (int i = 0; i < 2; i++) {
        const int column = msi_uvfits_find_column(f, motions[i]);
        for (long row = 1; column && row <= n; row++) fits_write_col(f, TDOUBLE, column, row, 1, 1, &none, failed);
    }
}

int msi_uvfits_mend(const msi_uvfits_mending *m, const char *copy, const msi_uvfits_use *use)
{
    fitsfile *f = NULL;
    int failed = 0, status = MSI_OK;
    if (fits_open_diskfile(&f, copy, READWRITE, &failed)) f = NULL;
    if (f) {
        mend_header(m, f, &failed);
        if (m->has_frequencies) status = mend_frequencies(f, use, &failed);
        if (m->has_motion && go_to(f, "SU")) msi_uvfits_stop_sources(f, &failed);
        fits_close_file(f, &failed);
    }
    if (!status && failed)
        status = msi_error_set(MSI_EOUTPUT, "cannot correct a copy of %s: cfitsio status %d", use->name, failed);
    return status;
}
