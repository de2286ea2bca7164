/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/uvfits_stations.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { XYZ = 3, MOST_STATIONS = 1 << 16 };

/* Antennas of one name lie in one place where their coordinates differ by less. */
static const double SAME_PLACE_M = 1e-3;

typedef struct station {
    int64_t subarray, number; /* as the file has them */
    int64_t new_number;
    char name[72];
    double position_m[XYZ]; /* with its array's centre */
    long table, row;        /* where it stands: the table's place among the file's parts, the row from 1 */
} station;

struct msi_uv_stations {
    int64_t n, n_appended;
    station *station;     /* [n], the first table's at first */
    int64_t n_first;      /* stations of the first table */
    double centre_m[XYZ]; /* of the first table */
    long first_table;     /* its place */
};

/* ---- Read ---- */

static void read_centre(fitsfile *f, double centre_m[XYZ])
{
    static const char *const names[XYZ] = {"ARRAYX", "ARRAYY", "ARRAYZ"};
    for (int k = 0; k < XYZ; k++) {
        int status = 0;
        centre_m[k] = 0;
        fits_read_key(f, TDOUBLE, names[k], &centre_m[k], NULL, &status);
    }
}

/* Add the rows of the table that is open. casacore reports a table that cannot be read. */
static int add_table(msi_uv_stations *s, fitsfile *f, int64_t subarray, long table)
{
    long n = 0, name_width = 0, repeat = 0;
    int status = 0, kind = 0, position_kind = 0;
    double centre_m[XYZ];
    const int number = msi_uvfits_column(f, "NOSTA", &status), name = msi_uvfits_column(f, "ANNAME", &status),
              position = msi_uvfits_column(f, "STABXYZ", &status);
    fits_get_num_rows(f, &n, &status);
    fits_get_coltype(f, name, &kind, &name_width, &repeat, &status);
    fits_get_coltype(f, position, &position_kind, &repeat, NULL, &status);
    if (status || kind != TSTRING || name_width >= (long)sizeof s->station->name || repeat != XYZ) return MSI_OK;
    if (n < 1 || s->n + n > MOST_STATIONS) return MSI_OK;
    station *all;
    MSI_TRY(msi_alloc(&all, s->n + n, sizeof *all, "antennas"));
    if (s->n) memcpy(all, s->station, (size_t)s->n * sizeof *all);
    msi_free(s->station);
    s->station = all;
    read_centre(f, centre_m);
    for (long i = 0; i < n; i++) {
        station *to = &all[s->n + i];
        LONGLONG given = 0;
        char *text = to->name, none[] = "";
        *to = (station){.subarray = subarray, .table = table, .row = i + 1};
        fits_read_col(f, TLONGLONG, number, i + 1, 1, 1, NULL, &given, NULL, &status);
        fits_read_col(f, TSTRING, name, i + 1, 1, 1, none, &text, NULL, &status);
        fits_read_col(f, TDOUBLE, position, i + 1, 1, XYZ, NULL, to->position_m, NULL, &status);
        for (int k = 0; k < XYZ; k++) to->position_m[k] += centre_m[k];
        to->number = given;
    }
    if (!status) s->n += n;
    return MSI_OK;
}

static int read_tables(msi_uv_stations *s, fitsfile *f, const msi_uv_ids *subarray)
{
    int n_hdu = 0, kind, status = 0;
    int64_t n_table = 0;
    fits_get_num_hdus(f, &n_hdu, &status);
    for (int i = 2; !status && i <= n_hdu; i++) {
        char name[FLEN_VALUE] = "";
        int unnamed = 0, unnumbered = 0;
        LONGLONG version = 0;
        fits_movabs_hdu(f, i, &kind, &status);
        fits_read_key(f, TSTRING, "EXTNAME", name, NULL, &unnamed);
        if (status || unnamed || kind != BINARY_TBL || !strstr(name, "AN")) continue;
        n_table++;
        fits_read_key(f, TLONGLONG, "EXTVER", &version, NULL, &unnumbered);
        if (unnumbered) version = n_table;
        if (version < 0 || version >= MSI_UV_MOST_IDS) continue;
        if (n_table > 1 && !msi_uv_ids_has(subarray, version)) continue;
        MSI_TRY(add_table(s, f, version, i));
        if (n_table > 1) continue;
        s->n_first = s->n;
        s->first_table = i;
        read_centre(f, s->centre_m);
    }
    return MSI_OK;
}

/* ---- Number ---- */

static int is_same(const station *a, const station *b)
{
    for (int k = 0; k < XYZ; k++)
        if (!(fabs(a->position_m[k] - b->position_m[k]) < SAME_PLACE_M)) return 0;
    return strcmp(a->name, b->name) == 0;
}

/* Find the same antenna among those before: that of the same number before all others. */
static const station *find_same(const msi_uv_stations *s, int64_t i)
{
    const station *found = NULL;
    for (int64_t k = 0; k < i; k++)
        if (is_same(&s->station[k], &s->station[i]) && (!found || s->station[k].number == s->station[i].number))
            found = &s->station[k];
    return found;
}

/* Number all antennas in one table. Returns: whether any number is another. */
static int renumber_antennas(msi_uv_stations *s)
{
    int64_t from = 1, last = 0;
    int is_changed;
    for (int64_t i = 0; i < s->n; i++)
        if (s->station[i].number == 0) from = 0;
    is_changed = from == 0;
    for (int64_t i = 0; i < s->n_first; i++) {
        s->station[i].new_number = s->station[i].number + 1 - from;
        if (s->station[i].new_number > last) last = s->station[i].new_number;
    }
    for (int64_t i = s->n_first; i < s->n; i++) {
        const station *same = find_same(s, i);
        s->station[i].new_number = same ? same->new_number : ++last;
        s->n_appended += !same;
        is_changed |= s->station[i].new_number != s->station[i].number;
    }
    return is_changed;
}

static int same_rows(const msi_uv_stations *s, fitsfile *f)
{
    long n_byte = 0, first = 0;
    int kind, status = 0;
    fits_movabs_hdu(f, (int)s->first_table, &kind, &status);
    fits_read_key(f, TLONG, "NAXIS1", &first, NULL, &status);
    for (int64_t i = s->n_first; !status && i < s->n; i++) {
        if (i > s->n_first && s->station[i].table == s->station[i - 1].table) continue;
        fits_movabs_hdu(f, (int)s->station[i].table, &kind, &status);
        fits_read_key(f, TLONG, "NAXIS1", &n_byte, NULL, &status);
        if (n_byte != first) return 0;
    }
    return !status;
}

void msi_uv_stations_free(msi_uv_stations *s)
{
    if (s) msi_free(s->station);
    msi_free(s);
}

static int find_in(msi_uv_stations *s, fitsfile *f, const char *name, const msi_uv_ids *subarray, int has_zero)
{
    int is_zero_known = 0;
    MSI_TRY(read_tables(s, f, subarray));
    for (int64_t i = 0; i < s->n; i++) is_zero_known |= s->station[i].number == 0;
    if (has_zero && !is_zero_known)
        return msi_error_set(
            MSI_EINPUT,
            "truncated or corrupt: %s: groups have antenna 0, which is not in a table AIPS AN: invalid BASELINE", name);
    if (s->n_first < 1 || !renumber_antennas(s)) {
        s->n = 0;
        return MSI_OK;
    }
    if (same_rows(s, f)) return MSI_OK;
    return msi_error_set(
        MSI_EINPUT,
        "%s: subarrays have different antennas in tables AIPS AN with different columns; joining such tables is "
        "not supported",
        name);
}

int msi_uv_stations_find(msi_uv_stations **out, const char *fits, const char *name, const msi_uv_ids *subarray,
                         int has_zero)
{
    fitsfile *f = NULL;
    int failed = 0, closing = 0;
    msi_uv_stations *s;
    *out = NULL;
    if (fits_open_diskfile(&f, fits, READONLY, &failed)) return MSI_OK;
    int status = msi_alloc(&s, 1, sizeof *s, "antennas");
    if (!status) {
        memset(s, 0, sizeof *s);
        status = find_in(s, f, name, subarray, has_zero);
    }
    fits_close_file(f, &closing);
    if (!status && s->n > 0)
        *out = s;
    else
        msi_uv_stations_free(s);
    return status;
}

int64_t msi_uv_stations_number(const msi_uv_stations *s, int64_t subarray, int64_t number)
{
    int64_t first = 0;
    for (int64_t i = 0; i < s->n; i++) {
        if (s->station[i].number != number) continue;
        if (s->station[i].subarray == subarray) return s->station[i].new_number;
        if (i < s->n_first) first = s->station[i].new_number;
    }
    return first;
}

/* ---- Write ---- */

static void append(const msi_uv_stations *s, fitsfile *f, const station *from, long row, unsigned char *bytes,
                   int *status)
{
    long n_byte = 0;
    int kind;
    double position_m[XYZ];
    LONGLONG number = from->new_number;
    for (int k = 0; k < XYZ; k++) position_m[k] = from->position_m[k] - s->centre_m[k];
    fits_movabs_hdu(f, (int)from->table, &kind, status);
    fits_read_key(f, TLONG, "NAXIS1", &n_byte, NULL, status);
    fits_read_tblbytes(f, from->row, 1, n_byte, bytes, status);
    fits_movabs_hdu(f, (int)s->first_table, &kind, status);
    fits_write_tblbytes(f, row, 1, n_byte, bytes, status);
    fits_write_col(f, TLONGLONG, msi_uvfits_column(f, "NOSTA", status), row, 1, 1, &number, status);
    fits_write_col(f, TDOUBLE, msi_uvfits_column(f, "STABXYZ", status), row, 1, XYZ, position_m, status);
}

static int put_in(const msi_uv_stations *s, fitsfile *f, int *failed)
{
    unsigned char *bytes;
    int kind;
    int64_t last = 0, row = s->n_first;
    long n_byte = 0;
    fits_movabs_hdu(f, (int)s->first_table, &kind, failed);
    fits_read_key(f, TLONG, "NAXIS1", &n_byte, NULL, failed);
    MSI_TRY(msi_alloc(&bytes, n_byte + 1, 1, "a row of a table"));
    for (int64_t i = 0; i < s->n_first; i++) {
        LONGLONG number = s->station[i].new_number;
        if (number > last) last = number;
        fits_write_col(f, TLONGLONG, msi_uvfits_column(f, "NOSTA", failed), i + 1, 1, 1, &number, failed);
    }
    if (s->n_appended) fits_insert_rows(f, s->n_first, s->n_appended, failed);
    for (int64_t i = s->n_first; i < s->n; i++)
        if (s->station[i].new_number > last) {
            last = s->station[i].new_number;
            append(s, f, &s->station[i], (long)++row, bytes, failed);
        }
    msi_free(bytes);
    return MSI_OK;
}

int msi_uv_stations_put(const msi_uv_stations *s, const char *copy, const char *name)
{
    fitsfile *f = NULL;
    int failed = 0, status = MSI_OK;
    fits_open_diskfile(&f, copy, READWRITE, &failed);
    if (!failed) {
        status = put_in(s, f, &failed);
        fits_close_file(f, &failed);
    }
    if (!status && failed)
        status = msi_error_set(MSI_EOUTPUT, "cannot write a copy of %s: cfitsio status %d", name, failed);
    return status;
}
