/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/uv_hdu.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 4096 };

/* ---- Values of cards ---- */

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

/* Count the bytes of a column in a row, as the FITS standard 4.0 (table 18) has them; -1 for an invalid format. */
static int64_t form_bytes(const char *card)
{
    static const char kinds[] = "LXBIJKAEDCMPQ";
    static const int bytes[] = {1, 0, 1, 2, 4, 8, 1, 4, 8, 8, 16, 8, 16};
    char text[72], *end;
    text_value(card, text, sizeof text);
    const int64_t given = strtoll(text, &end, 10), n = end == text ? 1 : given;
    const char *kind = *end ? strchr(kinds, *end) : NULL;
    if (!kind || n < 0 || n > INT32_MAX) return -1;
    return *kind == 'X' ? (n + 7) / 8 : n * bytes[kind - kinds];
}

static char form_kind(const char *card)
{
    char text[72], *end;
    text_value(card, text, sizeof text);
    strtoll(text, &end, 10);
    return *end;
}

/* ---- Cards ---- */

int msi_uv_hdu_indexed(const char *card, const char *stem, int most)
{
    const size_t n = strlen(stem);
    if (strncmp(card, stem, n) != 0 || card[n] < '1' || card[n] > '9') return 0;
    const int i = atoi(card + n);
    return i >= 1 && i <= most ? i : 0;
}

static int is_card(const char *card, const char *key)
{
    return strncmp(card, key, 8) == 0 && card[8] == '=';
}

static void take_card(msi_uv_hdu *u, const char *card)
{
    int i;
    if (is_card(card, "XTENSION")) text_value(card, u->extension, sizeof u->extension);
    if (is_card(card, "EXTNAME ")) text_value(card, u->name, sizeof u->name);
    if (is_card(card, "TIMSYS  ")) text_value(card, u->time_system, sizeof u->time_system);
    if (is_card(card, "TIMSYS  ")) u->has_time_system = 1;
    if (is_card(card, "EPOCH   ")) u->has_epoch = 1, u->epoch = number_value(card);
    if (is_card(card, "EQUINOX ")) u->has_equinox = 1, u->equinox = number_value(card);
    if (is_card(card, "BITPIX  ")) u->bitpix = (int)integer_value(card);
    if (is_card(card, "NAXIS   ")) u->n_axis = (int)integer_value(card);
    if (is_card(card, "GROUPS  ")) u->is_groups = strchr(card + 10, 'T') && strchr(card + 10, 'T') < card + 30;
    if (is_card(card, "PCOUNT  ")) u->n_parameter = integer_value(card);
    if (is_card(card, "GCOUNT  ")) u->n_group = integer_value(card);
    if (is_card(card, "TFIELDS ")) u->n_field = integer_value(card);
    if (is_card(card, "MAXIS   ")) u->n_cell_axis = (int)integer_value(card);
    if (is_card(card, "STK_1   ")) u->first_stokes = number_value(card);
    if (is_card(card, "RESTFREQ")) u->rest_freq_hz = number_value(card);
    if ((i = msi_uv_hdu_indexed(card, "NAXIS", MSI_UV_MAX_AXES))) u->axis[i - 1] = integer_value(card);
    if ((i = msi_uv_hdu_indexed(card, "CTYPE", MSI_UV_MAX_AXES))) text_value(card, u->axis_type[i - 1], 9);
    if ((i = msi_uv_hdu_indexed(card, "CRVAL", MSI_UV_MAX_AXES))) u->axis_value[i - 1] = number_value(card);
    if ((i = msi_uv_hdu_indexed(card, "CDELT", MSI_UV_MAX_AXES))) u->axis_step[i - 1] = number_value(card);
    if ((i = msi_uv_hdu_indexed(card, "CRPIX", MSI_UV_MAX_AXES))) u->axis_pixel[i - 1] = number_value(card);
    if ((i = msi_uv_hdu_indexed(card, "MAXIS", MSI_UV_MAX_AXES))) u->cell_axis[i - 1] = integer_value(card);
    if ((i = msi_uv_hdu_indexed(card, "PTYPE", MSI_UV_MAX_PARAMETERS))) text_value(card, u->parameter[i - 1], 9);
    if ((i = msi_uv_hdu_indexed(card, "PSCAL", MSI_UV_MAX_PARAMETERS))) u->scale[i - 1] = number_value(card);
    if ((i = msi_uv_hdu_indexed(card, "PZERO", MSI_UV_MAX_PARAMETERS))) u->zero[i - 1] = number_value(card);
    if ((i = msi_uv_hdu_indexed(card, "TFORM", MSI_UV_MAX_FIELDS))) u->field_bytes[i - 1] = form_bytes(card);
    if (i) u->field_kind[i - 1] = form_kind(card);
    if ((i = msi_uv_hdu_indexed(card, "TTYPE", MSI_UV_MAX_FIELDS))) text_value(card, u->field_name[i - 1], 9);
    if ((i = msi_uv_hdu_indexed(card, "TSCAL", MSI_UV_MAX_FIELDS))) u->is_scaled[i - 1] |= number_value(card) != 1;
    if ((i = msi_uv_hdu_indexed(card, "TZERO", MSI_UV_MAX_FIELDS))) u->is_scaled[i - 1] |= number_value(card) != 0;
}

/* ---- A header ---- */

int msi_uv_hdu_read(FILE *f, msi_uv_hdu *u, int64_t *at)
{
    char block[MSI_UV_BLOCK + 1] = {0}, card[MSI_UV_CARD + 1] = {0};
    memset(u, 0, sizeof *u);
    u->n_group = 1;
    for (int i = 0; i < MSI_UV_MAX_PARAMETERS; i++) u->scale[i] = 1;
    for (int i = 0; i < MSI_UV_MAX_FIELDS; i++) u->field_bytes[i] = -1;
    for (int i = 0; i < MSI_UV_MAX_AXES; i++) u->axis_step[i] = u->axis_pixel[i] = 1;
    for (int b = 0; b < MOST_BLOCKS; b++) {
        if (fseeko(f, *at, SEEK_SET) != 0 || fread(block, 1, MSI_UV_BLOCK, f) != MSI_UV_BLOCK) return b ? -1 : 0;
        *at += MSI_UV_BLOCK;
        if (b == 0 && !is_card(block, "SIMPLE  ") && !is_card(block, "XTENSION")) return -1;
        for (int c = 0; c < MSI_UV_BLOCK; c += MSI_UV_CARD) {
            memcpy(card, block + c, MSI_UV_CARD);
            if (strncmp(card, "END     ", 8) == 0) return 1;
            take_card(u, card);
        }
    }
    return -1;
}

int64_t msi_uv_hdu_bytes(const msi_uv_hdu *u, int64_t *one_group)
{
    int64_t n = u->n_axis > 0, bytes = 0;
    if (u->n_axis < 0 || u->n_axis > MSI_UV_MAX_AXES) return -1;
    for (int i = u->is_groups ? 1 : 0; i < u->n_axis; i++)
        if (u->axis[i] < 0 || __builtin_mul_overflow(n, u->axis[i], &n)) return -1;
    if (u->n_parameter < 0 || u->n_group < 0 || __builtin_add_overflow(n, u->n_parameter, &n) ||
        __builtin_mul_overflow(n, llabs((long long)u->bitpix) / 8, one_group) ||
        __builtin_mul_overflow(*one_group, u->n_group, &bytes))
        return -1;
    return bytes;
}
