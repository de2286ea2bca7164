/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/uv_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"

enum { MOST_HDUS = 1024 };

/* ---- Extensions ---- */

/* A FITS-IDI file has no primary data, and a table of visibilities among its extensions. */
static int is_idi(FILE *f, int64_t at)
{
    for (int i = 0; i < MOST_HDUS; i++) {
        msi_uv_hdu u;
        int64_t one;
        if (msi_uv_hdu_read(f, &u, &at) <= 0) return 0;
        if (strcmp(u.name, "UV_DATA") == 0) return 1;
        const int64_t bytes = msi_uv_hdu_bytes(&u, &one);
        if (bytes < 0 || bytes > INT64_MAX - at - MSI_UV_BLOCK) return 0;
        at += msi_uv_in_blocks(bytes);
    }
    return 0;
}

/* casacore reads a table by its columns without an end, should they not be what a row is long. */
static int check_table(const msi_uv_hdu *u, const char *path)
{
    if (strcmp(u->name, "UV_DATA") == 0) MSI_TRY(msi_uv_axes_check_cells(u, path));
    int64_t row_bytes = 0;
    if (strcmp(u->extension, "BINTABLE") != 0 && strcmp(u->extension, "A3DTABLE") != 0) return MSI_OK;
    if (u->bitpix != 8 || u->n_axis != 2 || u->n_group != 1 || u->n_field < 0 || u->n_field > MSI_UV_MAX_FIELDS)
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: table %s has an invalid header", path, u->name);
    for (int64_t i = 0; i < u->n_field; i++) {
        if (u->field_bytes[i] < 0)
            return msi_error_set(MSI_EINPUT,
                                 "truncated or corrupt: %s: table %s: TFORM%lld is missing, or not a valid format",
                                 path, u->name, (long long)i + 1);
        row_bytes += u->field_bytes[i];
    }
    if (row_bytes != u->axis[0])
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: table %s: its rows have %lld bytes, but its columns %lld", path,
                             u->name, (long long)u->axis[0], (long long)row_bytes);
    return MSI_OK;
}

/* casacore takes a BASELINE of FITS-IDI for a code by 256. */
static int check_antennas(const msi_uv_file *h, const msi_uv_hdu *u, const char *path)
{
    enum { MOST_BY_256 = 255 };
    if (h->kind != MSI_UV_IDI || strcmp(u->name, "ARRAY_GEOMETRY") != 0 || u->axis[1] <= MOST_BY_256) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: it has %lld antennas, but casacore reads at most %d of FITS-IDI", path,
                         (long long)u->axis[1], MOST_BY_256);
}

/* casacore would call times of another scale UTC. */
static int check_times(const msi_uv_hdu *u, const char *path)
{
    static const char *const known[] = {"", "UTC", "UT", "IAT", "TAI"};
    if (strcmp(u->name, "AIPS AN") != 0 && strcmp(u->name, "ARRAY_GEOMETRY") != 0) return MSI_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(u->time_system, known[i]) == 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: its times are in %s (TIMSYS of table %s), not UTC or IAT", path,
                         u->time_system, u->name);
}

static int is_near(double a, double b)
{
    return fabs(a - b) < 0.01;
}

/* casacore prefers EPOCH to EQUINOX. It takes 1950 as 1950, and any other year, 0 or none as 2000. */
static int check_equinox(const msi_uv_file *h, const char *path)
{
    const msi_uv_hdu *u = &h->primary;
    const double year = u->has_epoch ? u->epoch : u->equinox;
    if (h->kind != MSI_UV_FITS || h->has_sources) return MSI_OK;
    if (u->has_epoch && u->has_equinox && !is_near(u->epoch, u->equinox))
        return msi_error_set(MSI_EINPUT, "%s: its position is of the year %g by EPOCH, of %g by EQUINOX", path,
                             u->epoch, u->equinox);
    if (year == 0 || is_near(year, 1950) || is_near(year, 2000)) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: its position is of the equinox %g (%s), but a set needs B1950 or J2000; precess RA and "
                         "DEC first",
                         path, year, u->has_epoch ? "EPOCH" : "EQUINOX");
}

/* casacore reads a FITS-IDI file's tables as they come, and visibilities by what these have told. */
static const char *const idi_tables[] = {"ARRAY_GEOMETRY", "SOURCE", "FREQUENCY", "ANTENNA"};
enum { N_IDI_TABLE = sizeof idi_tables / sizeof *idi_tables };

static int check_sequence(const msi_uv_file *h, const msi_uv_hdu *u, unsigned *seen, const char *path)
{
    if (h->kind != MSI_UV_IDI) return MSI_OK;
    for (int i = 0; i < N_IDI_TABLE; i++) {
        if (strcmp(u->name, idi_tables[i]) == 0) *seen |= 1u << i;
        if (strcmp(u->name, "UV_DATA") == 0 && !(*seen & 1u << i))
            return msi_error_set(MSI_EINPUT, "%s: FITS-IDI without a table %s before its visibilities", path,
                                 idi_tables[i]);
    }
    return MSI_OK;
}

/* Tell whether nothing but zeros or blanks, as tapes were filled with, stands from here to the end. */
static int is_filling(FILE *f, int64_t at)
{
    char block[MSI_UV_BLOCK];
    size_t n;
    if (fseeko(f, at, SEEK_SET) != 0) return 0;
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        for (size_t i = 0; i < n; i++)
            if (block[i] != 0 && block[i] != ' ') return 0;
    return 1;
}

static double first_of_axis(const msi_uv_hdu *u)
{
    for (int i = 0; i < MSI_UV_MAX_AXES; i++)
        if (strcmp(u->axis_type[i], "STOKES") == 0) return u->axis_value[i];
    return 0;
}

/* Go through the extensions from the end of the primary data on, and set the end of the last one. */
static int check_extensions(msi_uv_file *h, FILE *f, int64_t at, const char *path)
{
    unsigned seen = 0;
    for (int i = 0; i < MOST_HDUS; i++) {
        msi_uv_hdu u;
        int64_t one, begin = at;
        h->end = at;
        const int got = msi_uv_hdu_read(f, &u, &at);
        if (got == 0 || (got < 0 && is_filling(f, begin))) return MSI_OK;
        if (got < 0)
            return msi_error_set(MSI_EINPUT,
                                 "truncated or corrupt: %s: no complete header of an extension at byte %lld", path,
                                 (long long)begin);
        if (!*u.extension)
            return msi_error_set(MSI_EINPUT, "%s: another FITS file begins at byte %lld; convert each file separately",
                                 path, (long long)begin);
        MSI_TRY(check_table(&u, path));
        MSI_TRY(check_antennas(h, &u, path));
        MSI_TRY(check_times(&u, path));
        MSI_TRY(check_sequence(h, &u, &seen, path));
        if (strcmp(u.name, "AIPS SU") == 0) h->has_sources = 1;
        if (strcmp(u.name, "AIPS AN") == 0 && !u.has_time_system) h->has_no_time_system = 1;
        if (strcmp(u.name, "UV_DATA") == 0) h->idi = (msi_uv_idi){u.first_stokes, first_of_axis(&u)};
        const int64_t bytes = msi_uv_hdu_bytes(&u, &one);
        if (bytes < 0 || bytes > h->file_bytes - at)
            return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: table %s is longer than the file", path,
                                 u.name);
        at += msi_uv_in_blocks(bytes);
    }
    return msi_error_set(MSI_EINPUT, "%s: it has more than %d extensions", path, MOST_HDUS);
}

/* ---- Which kind ---- */

static int check_groups(msi_uv_file *h, const char *path)
{
    const msi_uv_hdu *u = &h->primary;
    const int64_t bytes = msi_uv_hdu_bytes(u, &h->group_bytes);
    if (u->bitpix != -32 && u->bitpix != 32 && u->bitpix != 16 && u->bitpix != 8)
        return msi_error_set(MSI_EINPUT, "%s: BITPIX = %d: casacore reads only UVFITS of 32-bit floats or of integers",
                             path, u->bitpix);
    if (bytes <= 0 || u->n_group < 1 || u->n_parameter < 1 || u->n_parameter > MSI_UV_MAX_PARAMETERS)
        return msi_error_set(MSI_EINPUT, "%s: invalid header: %lld groups with %lld parameters", path,
                             (long long)u->n_group, (long long)u->n_parameter);
    MSI_TRY(msi_uv_axes_check(u, path));
    if (bytes > h->file_bytes - h->data_begin)
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: it has %lld bytes of groups, but its header requires %lld",
                             path, (long long)(h->file_bytes - h->data_begin), (long long)bytes);
    return MSI_OK;
}

/* Archives hand out files that gzip has packed; the reader of headers does not unpack them. */
static int is_packed(FILE *f)
{
    rewind(f);
    return fgetc(f) == 0x1f && fgetc(f) == 0x8b;
}

/* AIPS marks files whose visibilities are in a table by a length that none has. */
static int is_aips_table(const msi_uv_hdu *u)
{
    enum { SIGNATURE = 777777701 };
    return u->n_axis == 2 && u->axis[0] == SIGNATURE && u->axis[1] == 0;
}

static int read_open(msi_uv_file *h, FILE *f, const char *path)
{
    msi_uv_hdu *u = &h->primary;
    struct stat info;
    int64_t at = 0;
    if (fstat(fileno(f), &info) != 0 || !S_ISREG(info.st_mode))
        return msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a file", path);
    if (msi_uv_hdu_read(f, u, &at) <= 0)
        return is_packed(f)
                   ? msi_error_set(MSI_EINPUT, "%s: it is compressed by gzip; decompress it with gunzip first", path)
                   : msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a FITS file with a complete header",
                                   path);
    h->data_begin = at;
    h->file_bytes = info.st_size;
    h->n_if = 1;
    for (int i = 0; i < u->n_axis && i < MSI_UV_MAX_AXES; i++)
        if (strcmp(u->axis_type[i], "IF") == 0 && u->axis[i] > 0) h->n_if = u->axis[i];
    if (u->is_groups && u->n_axis > 1 && u->axis[0] == 0) {
        MSI_TRY(check_groups(h, path));
        h->kind = MSI_UV_FITS;
        MSI_TRY(check_extensions(h, f, msi_uv_in_blocks(at + h->group_bytes * u->n_group), path));
        return check_equinox(h, path);
    }
    if (u->n_axis == 0 && is_idi(f, at)) {
        h->kind = MSI_UV_IDI;
        return check_extensions(h, f, at, path);
    }
    if (is_aips_table(u))
        return msi_error_set(
            MSI_EINPUT,
            "%s: it holds visibilities in a table 'AIPS UV', as written by FITAB of AIPS and by the VLA "
            "archive; read it with FITLD of AIPS, and write UVFITS with FITTP",
            path);
    return msi_error_set(MSI_EINPUT, "%s: a FITS file, but neither UVFITS (random groups) nor FITS-IDI", path);
}

int msi_uv_file_read(msi_uv_file *h, const char *path)
{
    memset(h, 0, sizeof *h);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    FILE *f = fd >= 0 ? fdopen(fd, "rb") : NULL;
    if (!f) {
        if (fd >= 0) close(fd);
        return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    }
    const int status = read_open(h, f, path);
    fclose(f);
    return status;
}
