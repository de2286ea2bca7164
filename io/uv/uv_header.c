/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/uv/uv_state.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"

enum { CARD = 80, MOST_BLOCKS = 1024 };

/* ---- Bytes ---- */

int msi_uv_bytes_open(msi_uv_bytes *b, const char *path)
{
    struct stat info;
    *b = (msi_uv_bytes){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (b->fd < 0) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    if (fstat(b->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a file", path);
    b->size = info.st_size;
    return MSI_OK;
}

static int read_window(msi_uv_bytes *b, int64_t at, int64_t n)
{
    int64_t done = 0;
    if (b->n_allocated < n) {
        b->n_allocated = b->n_window = 0;
        MSI_TRY(msi_grow(&b->window, 0, n, 1, "bytes of a file"));
        b->n_allocated = n;
    }
    b->n_window = 0;
    while (done < n) {
        const ssize_t got = pread(b->fd, b->window + done, (size_t)(n - done), at + done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0)
            return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: cannot read bytes %lld to %lld: %s", b->path,
                                 (long long)(at + done), (long long)(at + n - 1),
                                 got < 0 ? strerror(errno) : "the file has become shorter");
        done += got;
    }
    b->window_at = at;
    b->n_window = n;
    return MSI_OK;
}

int msi_uv_bytes_get(msi_uv_bytes *b, int64_t at, int64_t n, const unsigned char **bytes)
{
    if (at < 0 || n < 0 || n > b->size || at > b->size - n)
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: %lld bytes at %lld are beyond its %lld bytes",
                             b->path, (long long)n, (long long)at, (long long)b->size);
    if (at < b->window_at || at + n > b->window_at + b->n_window) {
        const int64_t more = n > b->ahead ? n : b->ahead;
        MSI_TRY(read_window(b, at, more < b->size - at ? more : b->size - at));
    }
    *bytes = b->window + (at - b->window_at);
    return MSI_OK;
}

void msi_uv_bytes_close(msi_uv_bytes *b)
{
    if (b->fd >= 0) close(b->fd);
    msi_free(b->window);
    *b = (msi_uv_bytes){.fd = -1};
}

/* ---- Values ---- */

int msi_uv_value_bytes(char kind)
{
    static const char kinds[] = "LBIJKEDACMX";
    static const int bytes[] = {1, 1, 2, 4, 8, 4, 8, 0, 0, 0, 0};
    const char *at = kind ? strchr(kinds, kind) : NULL;
    return at ? bytes[at - kinds] : 0;
}

double msi_uv_value(char kind, const unsigned char *p)
{
    const int n = msi_uv_value_bytes(kind);
    uint64_t bits = 0;
    for (int i = 0; i < n; i++) bits = bits << 8 | p[i];
    if (kind == 'E') {
        const uint32_t half = (uint32_t)bits;
        float value;
        memcpy(&value, &half, sizeof value);
        return (double)value;
    }
    if (kind == 'D') {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    return kind == 'I' ? (double)(int16_t)bits : kind == 'J' ? (double)(int32_t)bits : (double)(int64_t)bits;
}

int msi_uv_table_numbers(msi_uv_bytes *b, const msi_uv_header *h, int column, int64_t row, int64_t n, double missing,
                         double *to)
{
    const msi_uv_column *c = column >= 0 ? &h->column[column] : NULL;
    const int size = c ? msi_uv_value_bytes(c->kind) : 0;
    const int64_t n_there = !size ? 0 : c->repeat < n ? c->repeat : n;
    const unsigned char *bytes = NULL;
    if (n_there)
        MSI_TRY(msi_uv_bytes_get(b, h->begin + row * h->row_bytes + c->offset, n_there * (int64_t)size, &bytes));
    for (int64_t i = 0; i < n; i++)
        to[i] = i < n_there ? msi_uv_value(c->kind, bytes + i * size) * c->scale + c->zero : missing;
    return MSI_OK;
}

/* Copy n bytes of text up to a zero, without trailing blanks. Bytes that are not printable ASCII become question
 * marks. */
static void copy_text(const unsigned char *from, int64_t n, char *to, int64_t size)
{
    int64_t length = 0;
    for (int64_t i = 0; i < n && from[i] && length + 1 < size; i++)
        to[length++] = from[i] >= ' ' && from[i] <= '~' ? (char)from[i] : '?';
    while (length > 0 && to[length - 1] == ' ') length--;
    to[length] = 0;
}

int msi_uv_table_text(msi_uv_bytes *b, const msi_uv_header *h, int column, int64_t row, char *to, int64_t size)
{
    const unsigned char *bytes;
    to[0] = 0;
    if (column < 0 || h->column[column].kind != 'A') return MSI_OK;
    const msi_uv_column *c = &h->column[column];
    MSI_TRY(msi_uv_bytes_get(b, h->begin + row * h->row_bytes + c->offset, c->repeat, &bytes));
    copy_text(bytes, c->repeat, to, size);
    return MSI_OK;
}

/* ---- Cards ---- */

static int is_key(const char *card, const char *key)
{
    const size_t n = strlen(key);
    if (strncmp(card, key, n) != 0 || card[8] != '=') return 0;
    for (size_t i = n; i < 8; i++)
        if (card[i] != ' ') return 0;
    return 1;
}

static const char *find_card(const msi_uv_header *h, const char *key)
{
    for (int64_t i = 0; i < h->n_card; i++)
        if (is_key(h->card + i * CARD, key)) return h->card + i * CARD;
    return NULL;
}

/* Copy the text of a card between its quotes. A doubled quote stands for one. */
static void card_text(const char *card, char *to, int64_t size)
{
    unsigned char text[CARD];
    int64_t n = 0;
    int at = 10;
    while (at < CARD && card[at] == ' ') at++;
    if (at < CARD && card[at] == '\'')
        for (at++; at < CARD; at++) {
            if (card[at] == '\'' && !(at + 1 < CARD && card[at + 1] == '\'')) break;
            at += card[at] == '\'';
            text[n++] = (unsigned char)card[at];
        }
    copy_text(text, n, to, size);
}

static double card_number(const char *card)
{
    char text[CARD + 1];
    snprintf(text, sizeof text, "%.70s", card + 10);
    char *at = text + strspn(text, " 'JB");
    for (char *d = at; *d && *d != '/'; d++)
        if (*d == 'D' || *d == 'd') *d = 'E';
    return strtod(at, NULL);
}

static int64_t card_integer(const char *card)
{
    const double value = card_number(card);
    return value >= -9e18 && value <= 9e18 ? (int64_t)value : 0;
}

static int card_small_integer(const char *card)
{
    const int64_t value = card_integer(card);
    return value >= INT32_MIN && value <= INT32_MAX ? (int)value : -1;
}

int msi_uv_header_text(const msi_uv_header *h, const char *key, char *to, int64_t size)
{
    const char *card = find_card(h, key);
    to[0] = 0;
    if (card) card_text(card, to, size);
    return card != NULL;
}

double msi_uv_header_number(const msi_uv_header *h, const char *key, double missing)
{
    const char *card = find_card(h, key);
    return card ? card_number(card) : missing;
}

int msi_uv_header_has(const msi_uv_header *h, const char *key)
{
    return find_card(h, key) != NULL;
}

int msi_uv_header_column(const msi_uv_header *h, const char *name)
{
    for (int64_t i = 0; i < h->n_column; i++)
        if (strcasecmp(h->column[i].name, name) == 0) return (int)i;
    return -1;
}

/* Return the number after the stem of a key, such as 3 for NAXIS3; 0 if the key has another stem, or the number is too
 * large. */
static int key_index(const char *card, const char *stem, int most)
{
    const size_t n = strlen(stem);
    if (strncmp(card, stem, n) != 0 || card[n] < '1' || card[n] > '9' || card[8] != '=') return 0;
    char *end;
    const long i = strtol(card + n, &end, 10);
    while (end < card + 8 && *end == ' ') end++;
    return end == card + 8 && i <= most ? (int)i : 0;
}

/* ---- A header ---- */

/* Parse a format such as 3D (FITS standard 4.0, table 18). */
static void parse_form(const char *card, msi_uv_column *c)
{
    static const char kinds[] = "LXBIJKAEDCMPQ";
    char text[32], *end;
    card_text(card, text, sizeof text);
    const int64_t given = strtoll(text, &end, 10), n = end == text ? 1 : given;
    const int is_kind = *end && strchr(kinds, *end) && n >= 0 && n <= INT32_MAX;
    c->kind = is_kind ? *end : 0;
    c->repeat = is_kind ? n : 0;
}

static int64_t column_bytes(const msi_uv_column *c)
{
    static const char kinds[] = "LXBIJKAEDCMPQ";
    static const int bytes[] = {1, 0, 1, 2, 4, 8, 1, 4, 8, 8, 16, 8, 16};
    return c->kind == 'X' ? (c->repeat + 7) / 8 : c->repeat * bytes[strchr(kinds, c->kind) - kinds];
}

static void take_axis(msi_uv_header *h, const char *card)
{
    int i;
    if ((i = key_index(card, "NAXIS", MSI_UV_MOST_AXES))) h->length[i - 1] = card_integer(card);
    if ((i = key_index(card, "CTYPE", MSI_UV_MOST_AXES))) card_text(card, h->axis[i - 1].name, sizeof h->axis->name);
    if ((i = key_index(card, "CRVAL", MSI_UV_MOST_AXES))) h->axis[i - 1].value = card_number(card);
    if ((i = key_index(card, "CDELT", MSI_UV_MOST_AXES))) h->axis[i - 1].step = card_number(card);
    if ((i = key_index(card, "CRPIX", MSI_UV_MOST_AXES))) h->axis[i - 1].pixel = card_number(card);
    if ((i = key_index(card, "MAXIS", MSI_UV_MOST_AXES))) h->axis[i - 1].n = card_integer(card);
}

static void take_column(msi_uv_header *h, const char *card)
{
    static const char *const names[] = {"TTYPE", "PTYPE"}, *const scales[] = {"TSCAL", "PSCAL"},
                             *const zeros[] = {"TZERO", "PZERO"};
    int i;
    for (int k = 0; k < 2; k++) {
        if ((i = key_index(card, names[k], h->n_described)))
            card_text(card, h->column[i - 1].name, sizeof h->column->name);
        if ((i = key_index(card, scales[k], h->n_described))) h->column[i - 1].scale = card_number(card);
        if ((i = key_index(card, zeros[k], h->n_described))) h->column[i - 1].zero = card_number(card);
    }
    if ((i = key_index(card, "TFORM", h->n_described))) parse_form(card, &h->column[i - 1]);
}

/* Compute the size of the data. bytes is -1 if the header is not valid. */
static void find_data_size(msi_uv_header *h)
{
    int64_t n = h->n_axis > 0, offset = 0;
    h->bytes = -1;
    if (h->n_axis < 0 || h->n_axis > MSI_UV_MOST_AXES || h->n_parameter < 0 || h->n_group < 0) return;
    for (int i = h->is_groups ? 1 : 0; i < h->n_axis; i++)
        if (h->length[i] < 0 || __builtin_mul_overflow(n, h->length[i], &n)) return;
    if (__builtin_add_overflow(n, h->n_parameter, &n) ||
        __builtin_mul_overflow(n, llabs((long long)h->bitpix) / 8, &h->row_bytes) ||
        __builtin_mul_overflow(h->row_bytes, h->n_group, &n))
        return;
    h->bytes = n;
    if (h->is_groups) return;
    h->row_bytes = h->length[0];
    for (int64_t i = 0; i < h->n_column && i < h->n_described; i++) {
        h->column[i].offset = offset;
        if (h->column[i].kind) offset += column_bytes(&h->column[i]);
    }
}

/* Return the number of columns to describe: those of a table, or the parameters of groups and their array. */
static int count_columns(const msi_uv_header *h)
{
    const double n = msi_uv_header_number(h, msi_uv_header_has(h, "XTENSION") ? "TFIELDS" : "PCOUNT", 0);
    return n >= 0 && n < MSI_UV_MOST_COLUMNS ? (int)n + 1 : MSI_UV_MOST_COLUMNS;
}

static int parse(msi_uv_header *h)
{
    h->n_described = count_columns(h);
    MSI_TRY(msi_alloc(&h->column, h->n_described, sizeof *h->column, "columns of a table"));
    for (int i = 0; i < h->n_described; i++) h->column[i].scale = 1;
    for (int i = 0; i < MSI_UV_MOST_AXES; i++) h->axis[i].step = h->axis[i].pixel = 1;
    h->n_group = 1;
    for (int64_t k = 0; k < h->n_card; k++) {
        const char *card = h->card + k * CARD;
        if (card[8] != '=') continue;
        if (is_key(card, "XTENSION")) card_text(card, h->extension, sizeof h->extension);
        if (is_key(card, "EXTNAME")) card_text(card, h->name, sizeof h->name);
        if (is_key(card, "BITPIX")) h->bitpix = card_small_integer(card);
        if (is_key(card, "NAXIS")) h->n_axis = card_small_integer(card);
        if (is_key(card, "GROUPS")) h->is_groups = memchr(card + 10, 'T', 20) != NULL;
        if (is_key(card, "PCOUNT")) h->n_parameter = card_integer(card);
        if (is_key(card, "GCOUNT")) h->n_group = card_integer(card);
        if (is_key(card, "TFIELDS")) h->n_column = card_integer(card);
        take_axis(h, card);
        take_column(h, card);
    }
    /* If a key has two cards, the second may contradict the first. */
    const int is_one = h->n_column >= 0 && h->n_column <= h->n_described;
    if (!is_one) h->n_column = 0;
    find_data_size(h);
    if (!is_one) h->bytes = -1;
    return MSI_OK;
}

int msi_uv_header_read(msi_uv_bytes *b, int64_t at, msi_uv_header *h, msi_uv_found *found)
{
    const unsigned char *block;
    int64_t n_card = -1;
    int n_block = 0;
    memset(h, 0, sizeof *h);
    *found = MSI_UV_NO_HEADER;
    for (; n_card < 0 && n_block < MOST_BLOCKS; n_block++) {
        const int64_t begin = at + (int64_t)n_block * MSI_UV_BLOCK_BYTES;
        if (begin > b->size - MSI_UV_BLOCK_BYTES) {
            *found = n_block ? MSI_UV_NO_HEADER : MSI_UV_END;
            return MSI_OK;
        }
        MSI_TRY(msi_uv_bytes_get(b, begin, MSI_UV_BLOCK_BYTES, &block));
        const char *card = (const char *)block;
        if (n_block == 0 && !is_key(card, "SIMPLE") && !is_key(card, "XTENSION")) return MSI_OK;
        for (int c = 0; n_card < 0 && c < MSI_UV_BLOCK_BYTES / CARD; c++)
            if (memcmp(card + (ptrdiff_t)c * CARD, "END     ", 8) == 0)
                n_card = (int64_t)n_block * (MSI_UV_BLOCK_BYTES / CARD) + c;
    }
    if (n_card < 0) return MSI_OK;
    MSI_TRY(msi_alloc(&h->card, n_card * CARD + 1, 1, "a header"));
    MSI_TRY(msi_uv_bytes_get(b, at, n_card * CARD, &block));
    memcpy(h->card, block, (size_t)(n_card * CARD));
    h->n_card = n_card;
    h->begin = at + (int64_t)n_block * MSI_UV_BLOCK_BYTES;
    *found = MSI_UV_HEADER;
    return parse(h);
}

void msi_uv_header_free(msi_uv_header *h)
{
    msi_free(h->card);
    msi_free(h->column);
    memset(h, 0, sizeof *h);
}
