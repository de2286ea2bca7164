/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A file, table.fN, has a header of at most HEAD bytes and buckets of one size after it. Numbers are in the byte order of
 * the table. A list says which bucket has the rows up to which one.
 * In a StandardStMan each column of a bucket is an array. Columns that were added later may have other lists. The lists
 * are in buckets that form a chain.
 * In an IncrementalStMan a bucket has values, and for each column the rows at which its value changes. The only list
 * follows the last bucket.
 */
#include "io/ms/scalar_column.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/aips_header.h"

enum {
    HEAD = 512,
    MOST_INDEX = 1 << 28,  /* bytes of the lists */
    MOST_BUCKET = 1 << 27, /* bytes of a bucket */
    MOST_LISTS = 4096,
    READ_BYTES = 1 << 19,  /* read at a time, unless a bucket is larger */
    LEAST_ARRAY = 1 << 10, /* bytes of a part of an array that is read alone */
    CHAIN_BYTES = 8        /* at the beginning of a bucket with lists: the number of the next one, twice, big-endian */
};

typedef struct bucket_list {
    int64_t n;
    int64_t *end;      /* [n] ascending: the row after the last one of a bucket */
    int64_t *bucket;   /* [n] */
    int64_t most_rows; /* the most rows of a bucket */
} bucket_list;

/* The file of a manager, and the buckets that were read last. */
typedef struct bucket_file {
    int32_t number, is_incremental, is_little;
    int fd; /* -1: the file is not recognised */
    int64_t bucket_bytes, n_bucket, n_list;
    bucket_list *list; /* [n_list] */
    char *bytes;       /* buckets [first, first + n_held) */
    int64_t first, n_held;
} bucket_file;

typedef struct column {
    msi_scalar_place place;
    bucket_file *file; /* NULL: read by casacore */
} column;

struct msi_scalar_columns {
    int n, n_file;
    column *column;    /* [n] */
    bucket_file *file; /* [n_file] */
};

static const int64_t value_bytes[] = {[MSI_SCALAR_BOOL] = 1, [MSI_SCALAR_INT32] = 4, [MSI_SCALAR_DOUBLE] = 8};

/* ---- Headers ---- */

/* Get the length of a Block, which its values follow. */
static int64_t block_length(const msi_aips *p)
{
    msi_aips one = *p;
    int64_t end;
    msi_aips_begin(&one, "Block", &end);
    return msi_aips_u32(&one);
}

void msi_scalar_place_standard(msi_scalar_place *place, const unsigned char *bytes, int64_t n)
{
    msi_aips p = {.byte = bytes, .end = n};
    int64_t end;
    msi_aips_require(&p, msi_aips_begin_first(&p, "SSM", &end) == 2);
    msi_aips_skip_text(&p);
    const int64_t n_column = block_length(&p);
    msi_aips_require(&p, n_column == place->n_column && place->column < n_column);
    const int64_t offset = msi_aips_block(&p, n_column, 4), list = msi_aips_block(&p, n_column, 4);
    msi_aips_end(&p, end);
    msi_aips_require(&p, p.at == n);
    if (p.is_bad)
        place->type = MSI_SCALAR_NONE;
    else {
        place->offset = msi_aips_value(&p, offset, place->column, 4);
        place->list = msi_aips_value(&p, list, place->column, 4);
    }
}

static int is_whole(int fd, void *out, int64_t n, int64_t at)
{
    return pread(fd, out, (size_t)n, (off_t)at) == (ssize_t)n;
}

/*
 * Read a list of buckets. Given: rows, buckets  places of the numbers; row_bytes  size of the former
 *        is_first  the numbers are first rows, and the number of all rows follows; otherwise they are last rows
 */
static int get_list(msi_aips *p, const bucket_file *f, bucket_list *list, int64_t rows, int row_bytes, int is_first,
                    int64_t buckets, int64_t n_row)
{
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&list->end, list->n > 0 ? list->n : 1, sizeof *list->end, "rows of buckets"));
    MSI_TRY(msi_alloc(&list->bucket, list->n > 0 ? list->n : 1, sizeof *list->bucket, "rows of buckets"));
    if (is_first) msi_aips_require(p, msi_aips_value(p, rows, 0, row_bytes) == 0);
    for (int64_t i = 0, before = 0; i < list->n && !p->is_bad; before = list->end[i++]) {
        const int64_t row = msi_aips_value(p, rows, is_first ? i + 1 : i, row_bytes);
        msi_aips_require(p, row >= 0 && row < INT64_MAX);
        list->end[i] = is_first ? row : row + 1;
        list->bucket[i] = msi_aips_value(p, buckets, i, 4);
        msi_aips_require(p, list->end[i] > before && list->end[i] <= n_row && list->bucket[i] < f->n_bucket);
        if (list->end[i] - before > list->most_rows) list->most_rows = list->end[i] - before;
    }
    msi_aips_require(p, list->n > 0 ? list->end[list->n - 1] == n_row : n_row == 0);
    return MSI_OK;
}

static int make_lists(msi_aips *p, bucket_file *f, int64_t n)
{
    msi_aips_require(p, n >= 1 && n <= MOST_LISTS);
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&f->list, n, sizeof *f->list, "rows of buckets"));
    f->n_list = n;
    return MSI_OK;
}

/* Begin the header of a manager, whose last version is `version`: its byte order and its buckets. */
static void begin_manager(msi_aips *p, bucket_file *f, const char *type, int64_t version, int64_t *end)
{
    const int64_t is = msi_aips_begin_first(p, type, end);
    msi_aips_require(p, is == version || is == version - 1);
    msi_aips_require(p, f->is_little == (is == version && msi_aips_number(p, 1) == 0));
    f->bucket_bytes = msi_aips_u32(p);
    f->n_bucket = msi_aips_u32(p);
    msi_aips_u32(p); /* the size of casacore's cache */
}

/* Check that the file is large enough for its buckets. */
static void check_buckets(msi_aips *p, const bucket_file *f, int64_t file_size)
{
    msi_aips_require(p, f->bucket_bytes > CHAIN_BYTES && f->bucket_bytes <= MOST_BUCKET && file_size >= HEAD &&
                            f->n_bucket <= (file_size - HEAD) / (f->bucket_bytes > 0 ? f->bucket_bytes : 1));
}

/* Where the lists of a StandardStMan are. */
typedef struct chain {
    int64_t n, first, offset; /* buckets; the first one; the place of the lists in the only bucket, or 0 */
    int64_t n_byte, n_list;
} chain;

static void get_standard_head(msi_aips *p, bucket_file *f, chain *c)
{
    int64_t end;
    begin_manager(p, f, "StandardStMan", 3, &end);
    msi_aips_u32(p); /* free buckets */
    msi_aips_i32(p); /* the first of them */
    c->n = msi_aips_u32(p);
    c->first = msi_aips_i32(p);
    c->offset = msi_aips_u32(p);
    msi_aips_i32(p); /* the last bucket of strings */
    c->n_byte = msi_aips_u32(p);
    c->n_list = msi_aips_u32(p);
    msi_aips_end(p, end);
}

/* Read the lists from their chain of buckets. */
static void read_chain(msi_aips *p, const bucket_file *f, const chain *c, unsigned char *bytes)
{
    const int64_t in_bucket = f->bucket_bytes - CHAIN_BYTES;
    int64_t done = 0, bucket = c->first;
    if (c->offset > 0) {
        msi_aips_require(p,
                         c->n == 1 && bucket >= 0 && bucket < f->n_bucket && c->offset + c->n_byte <= f->bucket_bytes);
        msi_aips_require(p,
                         !p->is_bad && is_whole(f->fd, bytes, c->n_byte, HEAD + bucket * f->bucket_bytes + c->offset));
        return;
    }
    for (int64_t i = 0; i < c->n && !p->is_bad; i++) {
        unsigned char next[CHAIN_BYTES];
        const int64_t left = c->n_byte - done, n = left < in_bucket ? left : in_bucket;
        msi_aips_require(p, bucket >= 0 && bucket < f->n_bucket && left > 0);
        if (p->is_bad) return;
        const int64_t at = HEAD + bucket * f->bucket_bytes;
        msi_aips_require(p,
                         is_whole(f->fd, next, CHAIN_BYTES, at) && is_whole(f->fd, bytes + done, n, at + CHAIN_BYTES));
        msi_aips number = {.byte = next, .at = CHAIN_BYTES / 2, .end = CHAIN_BYTES};
        bucket = msi_aips_i32(&number);
        done += n;
    }
    msi_aips_require(p, done == c->n_byte);
}

static int get_standard_lists(msi_aips *p, bucket_file *f, int64_t n_row)
{
    for (int64_t i = 0; i < f->n_list && !p->is_bad; i++) {
        int64_t end;
        const int64_t version = msi_aips_begin_first(p, "SSMIndex", &end);
        msi_aips_require(p, version == 1 || version == 2);
        const int row_bytes = version == 1 ? 4 : 8;
        bucket_list *list = &f->list[i];
        list->n = msi_aips_u32(p);
        msi_aips_u32(p);                      /* rows that fit into a bucket */
        msi_aips_i32(p);                      /* columns */
        msi_aips_skip(p, "SimpleOrderedMap"); /* space for other columns */
        msi_aips_require(p, list->n <= (p->end - p->at) / (row_bytes + 4));
        if (p->is_bad) list->n = 0;
        const int64_t rows = msi_aips_block(p, list->n, row_bytes), buckets = msi_aips_block(p, list->n, 4);
        MSI_TRY(get_list(p, f, list, rows, row_bytes, 0, buckets, n_row));
        msi_aips_end(p, end);
    }
    msi_aips_require(p, p->at == p->end);
    return MSI_OK;
}

static int get_standard(msi_aips *p, bucket_file *f, int64_t file_size, int64_t n_row)
{
    chain c = {0};
    unsigned char *bytes = NULL;
    get_standard_head(p, f, &c);
    check_buckets(p, f, file_size);
    msi_aips_require(p, c.n_byte > 0 && c.n_byte <= MOST_INDEX && c.n_byte <= file_size);
    MSI_TRY(make_lists(p, f, c.n_list));
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&bytes, c.n_byte, 1, "rows of buckets"));
    read_chain(p, f, &c, bytes);
    msi_aips lists = {.byte = bytes, .end = c.n_byte, .is_little = f->is_little, .is_bad = p->is_bad};
    const int status = get_standard_lists(&lists, f, n_row);
    msi_free(bytes);
    msi_aips_require(p, !lists.is_bad);
    return status;
}

static int get_incremental_list(msi_aips *p, bucket_file *f, int64_t n_row)
{
    int64_t end;
    const int64_t version = msi_aips_begin_first(p, "ISMIndex", &end);
    msi_aips_require(p, version == 1 || version == 2);
    const int row_bytes = version == 1 ? 4 : 8;
    bucket_list *list = f->list;
    list->n = msi_aips_u32(p);
    msi_aips_require(p, list->n <= (p->end - p->at) / (row_bytes + 4));
    if (p->is_bad) list->n = 0;
    const int64_t rows = msi_aips_block(p, list->n + 1, row_bytes), buckets = msi_aips_block(p, list->n, 4);
    MSI_TRY(get_list(p, f, list, rows, row_bytes, 1, buckets, n_row));
    msi_aips_end(p, end);
    return MSI_OK;
}

static int get_incremental(msi_aips *p, bucket_file *f, int64_t file_size, int64_t n_row)
{
    int64_t end;
    unsigned char *bytes = NULL;
    begin_manager(p, f, "IncrementalStMan", 5, &end);
    msi_aips_u32(p); /* arrays so far */
    msi_aips_u32(p); /* free buckets */
    msi_aips_i32(p); /* the first of them */
    msi_aips_end(p, end);
    check_buckets(p, f, file_size);
    MSI_TRY(make_lists(p, f, 1));
    if (p->is_bad) return MSI_OK;
    const int64_t at = HEAD + f->n_bucket * f->bucket_bytes, n = file_size - at;
    msi_aips_require(p, n > 0 && n <= MOST_INDEX);
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&bytes, n, 1, "rows of buckets"));
    msi_aips_require(p, is_whole(f->fd, bytes, n, at));
    msi_aips list = {.byte = bytes, .end = n, .is_little = f->is_little, .is_bad = p->is_bad};
    const int status = get_incremental_list(&list, f, n_row);
    msi_free(bytes);
    msi_aips_require(p, !list.is_bad);
    return status;
}

static void close_file(bucket_file *f)
{
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    for (int64_t i = 0; i < f->n_list; i++) {
        msi_free(f->list[i].end);
        msi_free(f->list[i].bucket);
    }
    msi_free(f->list);
    msi_free(f->bytes);
    f->list = NULL;
    f->bytes = NULL;
    f->n_list = f->n_held = 0;
}

/* Open the file of a manager; f->fd stays -1 if it is not recognised. */
static int open_file(bucket_file *f, const char *table, const msi_scalar_place *place, int64_t n_row)
{
    char path[PATH_MAX];
    struct stat info;
    unsigned char head[HEAD];
    *f = (bucket_file){
        .number = place->number, .is_incremental = place->is_incremental, .is_little = place->is_little, .fd = -1};
    const int n = snprintf(path, sizeof path, "%s/table.f%d", table, place->number);
    if (n < 0 || n >= (int)sizeof path) return MSI_OK;
    f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0) return MSI_OK;
    msi_aips p = {.byte = head, .end = HEAD, .is_little = f->is_little};
    msi_aips_require(&p, fstat(f->fd, &info) == 0 && S_ISREG(info.st_mode) && is_whole(f->fd, head, HEAD, 0));
    int status = MSI_OK;
    if (!p.is_bad)
        status = f->is_incremental ? get_incremental(&p, f, (int64_t)info.st_size, n_row)
                                   : get_standard(&p, f, (int64_t)info.st_size, n_row);
    if (status == MSI_OK && !p.is_bad)
        status = msi_alloc(&f->bytes, f->bucket_bytes > READ_BYTES ? f->bucket_bytes : READ_BYTES, 1, "buckets");
    if (status != MSI_OK || p.is_bad) close_file(f);
    return status;
}

/* Return whether a column's array is inside all of its buckets. */
static int fits_buckets(const msi_scalar_place *s, const bucket_file *f)
{
    if (f->is_incremental) return s->column < s->n_column && s->n_column <= f->bucket_bytes / 4;
    if (s->list < 0 || s->list >= f->n_list || s->offset < 0 || s->offset >= f->bucket_bytes) return 0;
    const int64_t n = f->list[s->list].most_rows, left = f->bucket_bytes - s->offset;
    return s->type == MSI_SCALAR_BOOL ? n <= 8 * left : n <= left / value_bytes[s->type];
}

int msi_scalar_columns_open(msi_scalar_columns **out, const char *table, const msi_scalar_place *place, int n,
                            int64_t n_row)
{
    msi_scalar_columns *c = NULL;
    *out = NULL;
    int status = msi_alloc(&c, 1, sizeof *c, "columns");
    if (status == MSI_OK) status = msi_alloc(&c->column, n, sizeof *c->column, "columns");
    if (status == MSI_OK) status = msi_alloc(&c->file, n, sizeof *c->file, "columns");
    for (int i = 0; i < n && status == MSI_OK; i++) {
        const msi_scalar_place *s = &place[i];
        c->column[c->n++].place = *s;
        if (s->type <= MSI_SCALAR_NONE || s->type > MSI_SCALAR_DOUBLE || s->number < 0 || s->column < 0) continue;
        bucket_file *f = c->file;
        while (f < c->file + c->n_file && f->number != s->number) f++;
        if (f == c->file + c->n_file) {
            c->n_file++;
            status = open_file(f, table, s, n_row);
        }
        const int is_known = f->fd >= 0 && f->is_incremental == s->is_incremental && f->is_little == s->is_little;
        if (status == MSI_OK && is_known && fits_buckets(s, f)) c->column[i].file = f;
    }
    if (status != MSI_OK)
        msi_scalar_columns_free(c);
    else
        *out = c;
    return status;
}

/* ---- Reading ---- */

/* Find the first bucket of a list that has a row or later ones. */
static int64_t find_bucket(const bucket_list *l, int64_t row)
{
    int64_t low = 0, high = l->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (l->end[middle] <= row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Return bucket i of a list, read together with those that follow it in the file and have rows before `end`. NULL: it
 * cannot be read. */
static const char *get_bucket(bucket_file *f, const bucket_list *l, int64_t i, int64_t end)
{
    const int64_t bucket = l->bucket[i];
    if (bucket < f->first || bucket >= f->first + f->n_held) {
        int64_t n = 1;
        while (i + n < l->n && l->end[i + n - 1] < end && l->bucket[i + n] == bucket + n &&
               (n + 1) * f->bucket_bytes <= READ_BYTES)
            n++;
        f->first = bucket;
        f->n_held = n;
        if (!is_whole(f->fd, f->bytes, n * f->bucket_bytes, HEAD + bucket * f->bucket_bytes)) f->n_held = 0;
        if (f->n_held == 0) return NULL;
    }
    return f->bytes + (bucket - f->first) * f->bucket_bytes;
}

static uint32_t number_at(const bucket_file *f, const char *bytes)
{
    uint32_t v;
    memcpy(&v, bytes, sizeof v);
    return f->is_little == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__) ? v : __builtin_bswap32(v);
}

/* Give n values, which are not bits, the byte order of this machine. */
static void order_bytes(const column *c, void *values, int64_t n)
{
    if (c->file->is_little == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)) return;
    if (c->place.type == MSI_SCALAR_DOUBLE) {
        uint64_t *to = values;
        for (int64_t i = 0; i < n; i++) to[i] = __builtin_bswap64(to[i]);
    } else {
        uint32_t *to = values;
        for (int64_t i = 0; i < n; i++) to[i] = __builtin_bswap32(to[i]);
    }
}

/* Copy n values, from number `first` of an array on. */
static void copy_values(const column *c, const char *array, int64_t first, int64_t n, void *out)
{
    const int64_t size = value_bytes[c->place.type];
    if (c->place.type == MSI_SCALAR_BOOL) {
        uint8_t *to = out;
        for (int64_t i = 0; i < n; i++) to[i] = (uint8_t)array[(first + i) / 8] >> (first + i) % 8 & 1;
        return;
    }
    memcpy(out, array + first * size, (size_t)(n * size));
    order_bytes(c, out, n);
}

/* Set n values to the first one. */
static void repeat_value(const column *c, void *values, int64_t n)
{
    if (c->place.type == MSI_SCALAR_BOOL) {
        memset(values, *(const uint8_t *)values, (size_t)n);
    } else if (c->place.type == MSI_SCALAR_DOUBLE) {
        uint64_t *to = values;
        for (int64_t i = 1; i < n; i++) to[i] = to[0];
    } else {
        uint32_t *to = values;
        for (int64_t i = 1; i < n; i++) to[i] = to[0];
    }
}

/* Read rows [row, row + n) of a bucket of a StandardStMan. Returns 0 if they cannot be read. */
static int read_array(const column *c, const bucket_list *l, int64_t i, int64_t row, int64_t n, int64_t end, char *out)
{
    bucket_file *f = c->file;
    const int64_t size = value_bytes[c->place.type];
    if (c->place.type != MSI_SCALAR_BOOL && n * size >= LEAST_ARRAY) {
        const int64_t at = HEAD + l->bucket[i] * f->bucket_bytes + c->place.offset + row * size;
        if (!is_whole(f->fd, out, n * size, at)) return 0;
        order_bytes(c, out, n);
        return 1;
    }
    const char *bucket = get_bucket(f, l, i, end);
    if (bucket) copy_values(c, bucket + c->place.offset, row, n, out);
    return bucket != NULL;
}

/* The values of a column in a bucket of an IncrementalStMan: value i is valid from row[i] of the bucket on. */
typedef struct changes {
    const char *row, *offset; /* [n] numbers of 32 bits */
    int64_t n;
    const char *value; /* [value_bytes] */
    int64_t value_bytes;
} changes;

/* Find the changes of a column. Returns 0 if the bucket is not recognised. */
static int find_changes(const column *c, const char *bucket, changes *out)
{
    const bucket_file *f = c->file;
    int64_t at = number_at(f, bucket), left = f->bucket_bytes - at; /* four bits of the number tell newer versions */
    *out = (changes){.value = bucket + 4, .value_bytes = at - 4};
    if (at < 4 || left < 0) return 0;
    for (int i = 0; i <= c->place.column; i++) {
        if (left < 4) return 0;
        out->n = number_at(f, bucket + at);
        at += 4;
        left -= 4;
        if (out->n < 1 || out->n > left / 8) return 0;
        out->row = bucket + at;
        out->offset = out->row + 4 * out->n;
        at += 8 * out->n;
        left -= 8 * out->n;
    }
    return 1;
}

/* Return whether rows begin with 0 and ascend. */
static int are_in_order(const bucket_file *f, const changes *v)
{
    int in_order = number_at(f, v->row) == 0;
    for (int64_t i = 1; i < v->n; i++) in_order &= number_at(f, v->row + 4 * i) > number_at(f, v->row + 4 * (i - 1));
    return in_order;
}

/* Find the number of the value of a row. */
static int64_t find_change(const bucket_file *f, const changes *v, int64_t row)
{
    int64_t low = 0, high = v->n;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if ((int64_t)number_at(f, v->row + 4 * middle) <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Read rows [row, end) of a bucket of an IncrementalStMan. Returns 0 if it cannot be read, or is not recognised. */
static int read_changes(const column *c, const bucket_list *l, int64_t k, int64_t row, int64_t end, char *out)
{
    bucket_file *f = c->file;
    const int64_t size = value_bytes[c->place.type];
    const char *bucket = get_bucket(f, l, k, 0);
    changes v;
    if (!bucket || !find_changes(c, bucket, &v) || !are_in_order(f, &v)) return 0;
    for (int64_t i = find_change(f, &v, row), begin = row; begin < end; i++) {
        const int64_t at = number_at(f, v.offset + 4 * i);
        int64_t until = i + 1 < v.n ? number_at(f, v.row + 4 * (i + 1)) : end;
        if (at > v.value_bytes - size) return 0;
        if (until > end) until = end;
        char *to = out + (begin - row) * size;
        copy_values(c, v.value + at, 0, 1, to);
        repeat_value(c, to, until - begin);
        begin = until;
    }
    return 1;
}

int msi_scalar_columns_read(msi_scalar_columns *c, int i, int64_t row, int64_t n_row, int64_t end, void *out)
{
    const column *own = &c->column[i];
    const bucket_file *f = own->file;
    if (!f || row < 0 || n_row < 1) return 0;
    const bucket_list *l = &f->list[f->is_incremental ? 0 : own->place.list];
    const int64_t last = row + n_row, size = value_bytes[own->place.type];
    char *to = out;
    if (end < last) end = last;
    for (int64_t k = find_bucket(l, row); row < last; k++) {
        if (k == l->n) return 0;
        const int64_t first = k > 0 ? l->end[k - 1] : 0, until = l->end[k] < last ? l->end[k] : last;
        if (f->is_incremental ? !read_changes(own, l, k, row - first, until - first, to)
                              : !read_array(own, l, k, row - first, until - row, end, to))
            return 0;
        to += (until - row) * size;
        row = until;
    }
    return 1;
}

void msi_scalar_columns_free(msi_scalar_columns *c)
{
    if (!c) return;
    for (int i = 0; i < c->n_file; i++) close_file(&c->file[i]);
    msi_free(c->file);
    msi_free(c->column);
    msi_free(c);
}
