/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/uv_file.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/interrupt.h"
#include "core/memory.h"
#include "core/status.h"

enum { CARD = 80, BLOCK = 2880, MOST_BLOCKS = 4096, MOST_HDUS = 1024 };

/* ---- Cards ---- */

/* A header as it is read: what of it is of use here. */
typedef struct hdu {
    msi_uv_file h;
    char name[72]; /* EXTNAME */
    int64_t n_parameter, n_group;
} hdu;

static void text_value(const char *card, char *to, size_t size)
{
    size_t n = 0;
    const char *p = strchr(card + 10, '\'');
    for (p = p ? p + 1 : ""; *p && *p != '\'' && n + 1 < size; p++) to[n++] = *p;
    while (n > 0 && to[n - 1] == ' ') n--;
    to[n] = 0;
}

static double number_value(const char *card)
{
    char text[32], *d;
    snprintf(text, sizeof text, "%.30s", card + 10);
    for (d = text; *d; d++)
        if (*d == 'D' || *d == 'd') *d = 'E';
    return strtod(text, NULL);
}

static int64_t integer_value(const char *card)
{
    return strtoll(card + 10, NULL, 10);
}

/* The number behind a keyword's stem, such as 3 of NAXIS3; 0 where it is another keyword. */
static int indexed(const char *card, const char *stem, int most)
{
    const size_t n = strlen(stem);
    if (strncmp(card, stem, n) != 0 || card[n] < '1' || card[n] > '9') return 0;
    const int i = atoi(card + n);
    return i >= 1 && i <= most ? i : 0;
}

static void take_card(hdu *u, const char *card)
{
    msi_uv_file *h = &u->h;
    int i;
    if (strncmp(card, "BITPIX  =", 9) == 0) h->bitpix = (int)integer_value(card);
    if (strncmp(card, "NAXIS   =", 9) == 0) h->n_axis = (int)integer_value(card);
    if (strncmp(card, "GROUPS  =", 9) == 0) h->is_groups = strchr(card + 10, 'T') && strchr(card + 10, 'T') < card + 30;
    if (strncmp(card, "PCOUNT  =", 9) == 0) u->n_parameter = integer_value(card);
    if (strncmp(card, "GCOUNT  =", 9) == 0) u->n_group = integer_value(card);
    if (strncmp(card, "RESTFREQ=", 9) == 0) h->rest_freq_hz = number_value(card);
    if (strncmp(card, "EXTNAME =", 9) == 0) text_value(card, u->name, sizeof u->name);
    if ((i = indexed(card, "NAXIS", MSI_UV_MAX_AXES))) h->axis[i - 1] = integer_value(card);
    if ((i = indexed(card, "CTYPE", MSI_UV_MAX_AXES))) text_value(card, h->axis_type[i - 1], 9);
    if ((i = indexed(card, "PTYPE", MSI_UV_MAX_PARAMETERS))) text_value(card, h->parameter[i - 1], 9);
    if ((i = indexed(card, "PSCAL", MSI_UV_MAX_PARAMETERS))) h->scale[i - 1] = number_value(card);
    if ((i = indexed(card, "PZERO", MSI_UV_MAX_PARAMETERS))) h->zero[i - 1] = number_value(card);
}

/* Read a header; *at goes on to the data behind it. Returns 1, 0 at the end of the file, -1 where it is none. */
static int read_hdu(FILE *f, hdu *u, int64_t *at)
{
    char block[BLOCK + 1] = {0}, card[CARD + 1] = {0};
    memset(u, 0, sizeof *u);
    u->n_group = 1;
    for (int i = 0; i < MSI_UV_MAX_PARAMETERS; i++) u->h.scale[i] = 1;
    for (int b = 0; b < MOST_BLOCKS; b++) {
        if (fseeko(f, *at, SEEK_SET) != 0 || fread(block, 1, BLOCK, f) != BLOCK) return b ? -1 : 0;
        *at += BLOCK;
        if (b == 0 && strncmp(block, "SIMPLE  =", 9) != 0 && strncmp(block, "XTENSION=", 9) != 0) return -1;
        for (int c = 0; c < BLOCK; c += CARD) {
            memcpy(card, block + c, CARD);
            if (strncmp(card, "END     ", 8) == 0) return 1;
            take_card(u, card);
        }
    }
    return -1;
}

/* Bytes of the array behind a header, without the filling of its last block; -1 where that cannot be. */
static int64_t data_bytes(const hdu *u, int64_t *one_group)
{
    const msi_uv_file *h = &u->h;
    int64_t n = h->n_axis > 0, bytes = 0;
    if (h->n_axis < 0 || h->n_axis > MSI_UV_MAX_AXES) return -1;
    for (int i = h->is_groups ? 1 : 0; i < h->n_axis; i++)
        if (h->axis[i] < 0 || __builtin_mul_overflow(n, h->axis[i], &n)) return -1;
    if (u->n_parameter < 0 || u->n_group < 0 || __builtin_add_overflow(n, u->n_parameter, &n) ||
        __builtin_mul_overflow(n, (int64_t)abs(h->bitpix) / 8, one_group) ||
        __builtin_mul_overflow(*one_group, u->n_group, &bytes))
        return -1;
    return bytes;
}

/* ---- Which kind ---- */

/* A FITS-IDI file has no primary data, and a table of visibilities among its extensions. */
static int is_idi(FILE *f, int64_t at)
{
    for (int i = 0; i < MOST_HDUS; i++) {
        hdu u;
        int64_t one;
        if (read_hdu(f, &u, &at) <= 0) return 0;
        if (strcmp(u.name, "UV_DATA") == 0) return 1;
        const int64_t bytes = data_bytes(&u, &one);
        if (bytes < 0 || bytes > INT64_MAX - at - BLOCK) return 0;
        at += (bytes + BLOCK - 1) / BLOCK * BLOCK;
    }
    return 0;
}

static int check_groups(msi_uv_file *h, const hdu *u, const char *path)
{
    const int64_t bytes = data_bytes(u, &h->group_bytes);
    if (h->bitpix != -32 && h->bitpix != 32 && h->bitpix != 16 && h->bitpix != 8)
        return msi_error_set(MSI_EINPUT,
                             "%s: BITPIX = %d: casacore reads UVFITS of 32-bit floats and of integers alone", path,
                             h->bitpix);
    if (bytes <= 0 || h->n_group < 1 || h->n_parameter < 1 || h->n_parameter > MSI_UV_MAX_PARAMETERS)
        return msi_error_set(MSI_EINPUT, "%s: a header that cannot be: %lld groups with %lld parameters", path,
                             (long long)h->n_group, (long long)h->n_parameter);
    if (bytes > h->file_bytes - h->data_begin)
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: %lld bytes of groups, but its header tells of %lld",
                             path, (long long)(h->file_bytes - h->data_begin), (long long)bytes);
    return MSI_OK;
}

static int read_open(msi_uv_file *h, FILE *f, const char *path)
{
    hdu u;
    struct stat info;
    int64_t at = 0;
    if (fstat(fileno(f), &info) != 0 || !S_ISREG(info.st_mode))
        return msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a file", path);
    if (read_hdu(f, &u, &at) <= 0)
        return msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a FITS file with a whole header", path);
    *h = u.h;
    h->n_parameter = u.n_parameter;
    h->n_group = u.n_group;
    h->data_begin = at;
    h->file_bytes = info.st_size;
    h->n_if = 1;
    for (int i = 0; i < MSI_UV_MAX_AXES; i++)
        if (strcmp(h->axis_type[i], "IF") == 0 && h->axis[i] > 0) h->n_if = h->axis[i];
    if (h->is_groups && h->n_axis > 1 && h->axis[0] == 0) {
        h->kind = MSI_UV_FITS;
        return check_groups(h, &u, path);
    }
    if (h->n_axis == 0 && is_idi(f, at)) {
        h->kind = MSI_UV_IDI;
        return MSI_OK;
    }
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

/* ---- Baselines ---- */

static double parameter_value(const msi_uv_file *h, int i, const unsigned char *group)
{
    const int size = abs(h->bitpix) / 8;
    const unsigned char *p = group + i * size;
    uint32_t bits = 0;
    for (int k = 0; k < size; k++) bits = bits << 8 | p[k];
    float value;
    memcpy(&value, &bits, sizeof value);
    const double stored = h->bitpix == -32 ? (double)value
                          : size == 4      ? (double)(int32_t)bits
                          : size == 2      ? (double)(int16_t)bits
                                           : (double)bits;
    return stored * h->scale[i] + h->zero[i];
}

static int check_all(const msi_uv_file *h, FILE *f, int parameter, const char *path)
{
    const int64_t head = h->n_parameter * (abs(h->bitpix) / 8);
    unsigned char *group;
    int status = MSI_OK;
    MSI_TRY(msi_alloc(&group, head, 1, "parameters of a group"));
    for (int64_t i = 0; !status && i < h->n_group; i++) {
        if (i % 65536 == 0 && (status = msi_interrupt_check())) break;
        if (fseeko(f, h->data_begin + i * h->group_bytes, SEEK_SET) != 0 || fread(group, (size_t)head, 1, f) != 1)
            status =
                msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: group %lld cannot be read", path, (long long)i);
        const double baseline = status ? 257 : parameter_value(h, parameter, group);
        if (baseline >= 65536)
            status = msi_error_set(MSI_EINPUT,
                                   "%s: group %lld: BASELINE is %.0f, a code by 2048 of more than 255 antennas, which "
                                   "casacore would take for other antennas",
                                   path, (long long)i, baseline);
        else if (!(baseline >= 257))
            status = msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: group %lld: BASELINE is %g, no two antennas",
                                   path, (long long)i, baseline);
    }
    msi_free(group);
    return status;
}

int msi_uv_file_check_baselines(const msi_uv_file *h, const char *path)
{
    int found = -1, antennas = 0;
    for (int i = 0; i < h->n_parameter; i++) {
        if (found < 0 && strcmp(h->parameter[i], "BASELINE") == 0) found = i;
        antennas += strcmp(h->parameter[i], "ANTENNA1") == 0 || strcmp(h->parameter[i], "ANTENNA2") == 0;
    }
    if (found < 0 && antennas == 2) return MSI_OK;
    if (found < 0) return msi_error_set(MSI_EINPUT, "%s: its groups have no parameter BASELINE", path);
    FILE *f = fopen(path, "rbe");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    const int status = check_all(h, f, found, path);
    fclose(f);
    return status;
}
