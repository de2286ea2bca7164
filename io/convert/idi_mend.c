/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/idi_mend.h"

#include <fitsio.h>
#include <stdint.h>
#include <string.h>

#include "core/status.h"
#include "io/convert/uvfits_mend.h"

enum { TEXT_BYTES = 72, AT_ONCE = 4096 };

/* Go to the first table of a name. Returns: 1, or 0 where there is none. */
static int go_to(fitsfile *f, const char *name)
{
    char text[FLEN_VALUE]; /* cfitsio takes it as if it wrote there */
    int status = 0;
    strcpy(text, name);
    return fits_movnam_hdu(f, BINARY_TBL, text, 0, &status) == 0;
}

static long count_rows(fitsfile *f)
{
    long n = 0;
    int status = 0;
    fits_get_num_rows(f, &n, &status);
    return status ? 0 : n;
}

/* Read a text of a row. Returns: 1, or 0 where there is none that fits. */
static int read_text(fitsfile *f, const char *name, long row, char text[TEXT_BYTES])
{
    int status = 0, kind = 0;
    long width = 0, repeat = 0;
    char none[] = "";
    const int column = msi_uvfits_find_column(f, name);
    text[0] = 0;
    if (!column) return 0;
    fits_get_coltype(f, column, &kind, &repeat, &width, &status);
    if (status || kind != TSTRING || repeat >= TEXT_BYTES) return 0;
    fits_read_col(f, TSTRING, column, row, 1, 1, none, &text, NULL, &status);
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' ';) text[--n] = 0;
    return !status;
}

/* ---- Look: frequencies ---- */

static int other_freqid(const char *name, long long id, const char *table)
{
    return msi_error_set(
        MSI_EINPUT,
        "%s: table %s has FREQID = %lld; casacore reads only FREQID = 1 from FITS-IDI, which the first row of "
        "FREQUENCY must describe; write each FREQID into its own file first",
        name, table, id);
}

/* All rows of the table that is open are of FREQID 1, or have none. */
static int check_rows(fitsfile *f, const char *name, const char *table, long n)
{
    LONGLONG id[AT_ONCE];
    const int column = msi_uvfits_find_column(f, "FREQID");
    for (long row = 1; column && row <= n; row += AT_ONCE) {
        const long part = n - row + 1 < AT_ONCE ? n - row + 1 : AT_ONCE;
        int status = 0;
        if (fits_read_col(f, TLONGLONG, column, row, 1, part, NULL, id, NULL, &status)) return MSI_OK;
        for (long i = 0; i < part; i++)
            if (id[i] != 1) return other_freqid(name, id[i], table);
    }
    return MSI_OK;
}

static int check_frequencies(msi_idi_mending *m, fitsfile *f, const char *name)
{
    int n_hdu = 0, status = 0;
    if (!go_to(f, "FREQUENCY")) return MSI_OK;
    m->has_sideband = msi_uvfits_sideband_is_contrary(f, "CH_WIDTH");
    MSI_TRY(check_rows(f, name, "FREQUENCY, row 1,", count_rows(f) > 0));
    fits_get_num_hdus(f, &n_hdu, &status);
    for (int i = 2; !status && i <= n_hdu; i++) {
        char table[FLEN_VALUE] = "";
        int kind, unnamed = 0;
        fits_movabs_hdu(f, i, &kind, &status);
        fits_read_key(f, TSTRING, "EXTNAME", table, NULL, &unnamed);
        if (!status && !unnamed && strcmp(table, "UV_DATA") == 0)
            MSI_TRY(check_rows(f, name, "UV_DATA", count_rows(f)));
    }
    return MSI_OK;
}

/* ---- Look: sources ---- */

/* How casacore writes an equinox; NULL for one that it does not know. */
static const char *known_equinox(const char *text)
{
    static const char *const of_2000[] = {"2000", "2000.0", "2000.0J"};
    static const char *const of_1950[] = {"B1950", "B1950.0", "1950", "1950.0"};
    if (strstr(text, "J2000")) return "J2000";
    if (strstr(text, "1950.0B")) return "1950.0B";
    for (size_t i = 0; i < sizeof of_2000 / sizeof *of_2000; i++)
        if (strcmp(text, of_2000[i]) == 0) return "J2000";
    for (size_t i = 0; i < sizeof of_1950 / sizeof *of_1950; i++)
        if (strcmp(text, of_1950[i]) == 0) return "1950.0B";
    return NULL;
}

static int check_sources(msi_idi_mending *m, fitsfile *f, const char *name)
{
    char text[TEXT_BYTES];
    if (!go_to(f, "SOURCE")) return MSI_OK;
    const long n = count_rows(f);
    for (long row = 1; row <= n; row++) {
        if (read_text(f, "EQUINOX", row, text)) {
            const char *known = known_equinox(text);
            if (!known)
                return msi_error_set(
                    MSI_EINPUT,
                    "%s: the position in row %ld of table SOURCE has EQUINOX '%s'; a Measurement Set needs J2000 or "
                    "B1950",
                    name, row, text);
            m->has_equinox |= !strstr(text, known);
        }
        if (!m->has_motion && msi_uvfits_source_moves(f, row)) {
            m->has_motion = 1;
            read_text(f, "SOURCE", row, m->moving);
        }
    }
    return MSI_OK;
}

int msi_idi_mending_find(msi_idi_mending *m, const char *fits, const char *name)
{
    fitsfile *f = NULL;
    int failed = 0, closing = 0;
    memset(m, 0, sizeof *m);
    /* What cfitsio does not open casacore may: it says what it makes of it. */
    if (fits_open_diskfile(&f, fits, READONLY, &failed)) return MSI_OK;
    int status = check_frequencies(m, f, name);
    if (!status) status = check_sources(m, f, name);
    fits_close_file(f, &closing);
    return status;
}

int msi_idi_mending_is_needed(const msi_idi_mending *m)
{
    return m->has_equinox || m->has_motion;
}

/* ---- Mend ---- */

static void mend_equinox(fitsfile *f, long row, int *failed)
{
    char text[TEXT_BYTES];
    if (!read_text(f, "EQUINOX", row, text)) return;
    const char *known = known_equinox(text);
    char *put = text;
    if (!known || strstr(text, known)) return;
    strcpy(text, known);
    fits_write_col(f, TSTRING, msi_uvfits_find_column(f, "EQUINOX"), row, 1, 1, &put, failed);
}

int msi_idi_mend(const msi_idi_mending *m, const char *copy, const char *name)
{
    fitsfile *f = NULL;
    int failed = 0;
    if (fits_open_diskfile(&f, copy, READWRITE, &failed)) f = NULL;
    if (f && go_to(f, "SOURCE")) {
        const long n = m->has_equinox ? count_rows(f) : 0;
        for (long row = 1; !failed && row <= n; row++) mend_equinox(f, row, &failed);
        if (m->has_motion) msi_uvfits_stop_sources(f, &failed);
    }
    if (f) fits_close_file(f, &failed);
    if (!failed) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "cannot correct a copy of %s: cfitsio status %d", name, failed);
}
