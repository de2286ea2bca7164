/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The header of a column, table.fN, is big-endian. Tiles are stored in the files table.fN_TSMn, one after the other, in
 * the order of the first axis first. All tiles of a hypercube have the same size, also at its edges. The last axis of a
 * hypercube counts cells, so the cells of neighbouring rows of a tile are contiguous. In a TiledCellStMan each row is a
 * hypercube.
 */
#include "io/ms/tiled_column.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/aips_header.h"

enum {
    MOST_FILES = 4096,     /* files of a column; each is a descriptor */
    MOST_HEADER = 1 << 28, /* bytes of a header */
    MOST_TILE = 1 << 30,   /* bytes of a tile */
    GAP_BYTES = 16 << 10,  /* unneeded rows between needed ones are read too if they have fewer bytes than this */
    PIECES = 256,          /* pieces of a vectored read */
    PART_BYTES = 1 << 19   /* bytes read at a time from tiles that have parts of cells */
};

typedef struct tiled_cube {
    int64_t shape[3], tile[3]; /* two axes of the cell, and the cells; shape[0] is 0 for cells without a value */
    int64_t across[2];         /* tiles along the first two axes */
    int64_t offset;            /* offset of the first tile */
    int64_t tile_bytes;
    int32_t file;
    int32_t is_plain; /* 1: each cell is contiguous, and so are all cells */
} tiled_cube;

/* Consecutive rows whose cells follow each other in a cube. */
typedef struct row_range {
    int64_t first, end;
    int64_t position; /* position of the first row's cell */
    int64_t cube;     /* -1, or 0 in a TiledShapeStMan: the rows have no values */
} row_range;

struct msi_tiled_column {
    char *path; /* path of the header */
    int32_t type, is_swapped, is_by_cell;
    int64_t size; /* bytes of a value in memory */
    int64_t n_row, n_file, n_cube, n_range;
    int *fd;            /* [n_file] -1: none */
    int64_t *file_size; /* [n_file] */
    tiled_cube *cube;   /* [n_cube] */
    row_range *range;   /* [n_range] ascending; if is_by_cell, there are none, and row i is cube i */
};

const char *const msi_tiled_manager_names[MSI_TILED_N_MANAGER] = {[MSI_TILED_SHAPE] = "TiledShapeStMan",
                                                                  [MSI_TILED_COLUMN] = "TiledColumnStMan",
                                                                  [MSI_TILED_CELL] = "TiledCellStMan"};

/* ---- Header ---- */

/* Read an IPosition. Returned: value [*n], at most `most` */
static void get_position(msi_aips *p, int64_t *value, int most, int64_t *n)
{
    int64_t end;
    const int64_t version = msi_aips_begin(p, "IPosition", &end);
    *n = msi_aips_u32(p);
    msi_aips_require(p, (version == 1 || version == 2) && *n <= most);
    for (int64_t i = 0; i < *n && !p->is_bad; i++) value[i] = version == 1 ? msi_aips_i32(p) : msi_aips_i64(p);
    msi_aips_end(p, end);
    if (p->is_bad) *n = 0;
}

static void skip_position(msi_aips *p)
{
    int64_t value[8], n;
    get_position(p, value, 8, &n);
}

/* Return a * b; 0 and is_bad if it is larger than `most`. */
static int64_t product(msi_aips *p, int64_t a, int64_t b, int64_t most)
{
    int64_t c = 0;
    msi_aips_require(p, a >= 0 && b >= 0 && !__builtin_mul_overflow(a, b, &c) && c <= most);
    return p->is_bad ? 0 : c;
}

static int64_t tile_bytes_of(const msi_tiled_column *c, int64_t n_value)
{
    return c->type == MSI_TILED_BOOL ? (n_value + 7) / 8 : n_value * c->size;
}

/* Check a cube's axes and that its tiles are in its file. */
static void check_cube(msi_aips *p, const msi_tiled_column *c, tiled_cube *u)
{
    int64_t n_value = 1, n_tile = 1;
    for (int i = 0; i < 3; i++) {
        msi_aips_require(p, u->shape[i] >= (i < 2) && u->tile[i] >= 1 && u->shape[i] <= INT64_MAX - u->tile[i]);
        if (p->is_bad) return;
        const int64_t n = (u->shape[i] + u->tile[i] - 1) / u->tile[i];
        if (i < 2) u->across[i] = n;
        n_value = product(p, n_value, u->tile[i], MOST_TILE);
        n_tile = product(p, n_tile, n, INT64_MAX / 2);
    }
    /* Cells may be as large as tiles allow; their bytes are checked below. */
    product(p, product(p, u->shape[0], u->shape[1], MOST_TILE), c->size, MOST_TILE);
    if (p->is_bad) return;
    u->tile_bytes = tile_bytes_of(c, n_value);
    msi_aips_require(p, u->tile_bytes <= MOST_TILE);
    const int64_t all = product(p, n_tile, u->tile_bytes, INT64_MAX / 2);
    msi_aips_require(p, u->offset >= 0);
    if (n_tile > 0) {
        msi_aips_require(p, u->file >= 0 && u->file < c->n_file && c->fd[u->file] >= 0);
        if (p->is_bad) return;
        const int64_t size = c->file_size[u->file];
        msi_aips_require(p, u->offset <= size && all <= size - u->offset);
    }
    u->is_plain = u->tile[0] == u->shape[0] && u->tile[1] == u->shape[1] &&
                  (c->type != MSI_TILED_BOOL || n_value % 8 == 0 || n_tile <= 1);
}

/* Read a cube. Given: n_dim  from the header */
static void get_cube(msi_aips *p, const msi_tiled_column *c, int64_t n_dim, tiled_cube *u)
{
    int64_t n = 0, n_tile = 0, shape[4] = {0}, tile[4] = {0};
    const int64_t version = msi_aips_u32(p), n_cell = c->is_by_cell ? n_dim : n_dim - 1;
    msi_aips_require(p, version == 1 || version == 2);
    msi_aips_skip(p, "Record"); /* values of coordinate columns, which a column that is alone in its manager lacks */
    msi_aips_number(p, 1);      /* whether it can be extended */
    const int64_t has = msi_aips_u32(p);
    get_position(p, shape, 4, &n);
    get_position(p, tile, 4, &n_tile);
    u->file = (int32_t)msi_aips_i32(p);
    u->offset = version == 1 ? msi_aips_u32(p) : msi_aips_i64(p);
    msi_aips_require(p, n == n_tile && (n == 0 || (n == n_dim && has == n_dim)));
    if (p->is_bad || n == 0) {
        *u = (tiled_cube){0};
        return;
    }
    for (int i = 0; i < 2; i++) {
        u->shape[i] = i < n_cell ? shape[i] : 1;
        u->tile[i] = i < n_cell ? tile[i] : 1;
    }
    u->shape[2] = c->is_by_cell ? 1 : shape[n - 1];
    u->tile[2] = c->is_by_cell ? 1 : tile[n - 1];
    check_cube(p, c, u);
}

/* Open the file of tiles with a number. */
static void open_tiles(msi_aips *p, msi_tiled_column *c, int64_t i)
{
    char name[PATH_MAX];
    struct stat info;
    const int n = snprintf(name, sizeof name, "%s_TSM%lld", c->path, (long long)i);
    msi_aips_require(p, n > 0 && n < (int)sizeof name);
    if (p->is_bad) return;
    c->fd[i] = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    msi_aips_require(p, c->fd[i] >= 0 && fstat(c->fd[i], &info) == 0 && S_ISREG(info.st_mode));
    if (!p->is_bad) c->file_size[i] = (int64_t)info.st_size;
}

static int get_files(msi_aips *p, msi_tiled_column *c, int64_t version)
{
    const int64_t n = version == 3 ? msi_aips_i64(p) : msi_aips_u32(p);
    msi_aips_require(p, n >= 0 && n <= MOST_FILES);
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&c->fd, n > 0 ? n : 1, sizeof *c->fd, "files of a column"));
    MSI_TRY(msi_alloc(&c->file_size, n > 0 ? n : 1, sizeof *c->file_size, "files of a column"));
    for (int64_t i = 0; i < n; i++) c->fd[i] = -1;
    c->n_file = n;
    for (int64_t i = 0; i < n && !p->is_bad; i++) {
        if (msi_aips_number(p, 1) == 0) continue;
        const int64_t file_version = msi_aips_u32(p);
        msi_aips_require(p, (file_version == 1 || file_version == 2) && msi_aips_u32(p) == i);
        msi_aips_number(p, file_version == 1 ? 4 : 8); /* the length; the file's own is used */
        open_tiles(p, c, i);
    }
    return MSI_OK;
}

/* Least bytes of a cube in a header, by which a damaged count is detected before memory is allocated. */
enum { LEAST_CUBE = 64 };

/* Codes of casacore's types in headers. */
static const int64_t type_codes[] = {
    [MSI_TILED_BOOL] = 0, [MSI_TILED_FLOAT] = 7, [MSI_TILED_DOUBLE] = 8, [MSI_TILED_COMPLEX] = 9};

static int get_tiled(msi_aips *p, msi_tiled_column *c, const msi_tiled_place *place)
{
    int64_t end;
    const int64_t version = msi_aips_begin(p, "TiledStMan", &end);
    msi_aips_require(p, version >= 1 && version <= 3);
    const int is_big = version == 1 || msi_aips_number(p, 1) != 0;
    c->is_swapped = is_big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    msi_aips_require(p, msi_aips_u32(p) == place->number);
    msi_aips_require(p, (version == 3 ? msi_aips_i64(p) : msi_aips_u32(p)) == c->n_row);
    msi_aips_require(p, msi_aips_u32(p) == 1); /* columns */
    msi_aips_require(p, msi_aips_i32(p) == type_codes[place->type]);
    msi_aips_skip_text(p);
    msi_aips_number(p, version == 3 ? 8 : 4); /* the size of casacore's cache */
    const int64_t n_dim = msi_aips_u32(p), n_cell = c->is_by_cell ? n_dim : n_dim - 1;
    msi_aips_require(p, n_cell == 1 || n_cell == 2);
    MSI_TRY(get_files(p, c, version));
    const int64_t n_cube = version == 3 ? msi_aips_i64(p) : msi_aips_u32(p);
    msi_aips_require(p, n_cube >= 0 && n_cube <= (p->end - p->at) / LEAST_CUBE);
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&c->cube, n_cube > 0 ? n_cube : 1, sizeof *c->cube, "tiles of a column"));
    c->n_cube = n_cube;
    for (int64_t i = 0; i < n_cube && !p->is_bad; i++) get_cube(p, c, n_dim, &c->cube[i]);
    msi_aips_end(p, end);
    return MSI_OK;
}

/* Read the map of rows of a TiledShapeStMan: the last row of each range, its cube, and the position of that row. */
static int get_row_map(msi_aips *p, msi_tiled_column *c)
{
    skip_position(p); /* the default shape of tiles */
    const int64_t n = msi_aips_u32(p);
    msi_aips_require(p, n <= (p->end - p->at) / 12);
    const int64_t last = msi_aips_block(p, p->is_bad ? 0 : n, 4), cube = msi_aips_block(p, p->is_bad ? 0 : n, 4),
                  position = msi_aips_block(p, p->is_bad ? 0 : n, 4);
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&c->range, n > 0 ? n : 1, sizeof *c->range, "rows of a column"));
    c->n_range = n;
    for (int64_t i = 0, first = 0; i < n && !p->is_bad; i++) {
        row_range *r = &c->range[i];
        *r = (row_range){
            .first = first, .end = msi_aips_value(p, last, i, 4) + 1, .cube = msi_aips_value(p, cube, i, 4)};
        msi_aips_require(p, r->end > first && r->end <= c->n_row && r->cube < c->n_cube);
        first = r->end;
        if (p->is_bad || r->cube == 0) continue;
        r->position = msi_aips_value(p, position, i, 4) - (r->end - 1 - r->first);
        msi_aips_require(p, c->cube[r->cube].shape[0] > 0 && r->position >= 0 &&
                                r->end - r->first <= c->cube[r->cube].shape[2] - r->position);
    }
    return MSI_OK;
}

/* All rows of a TiledColumnStMan are in its only cube. */
static int map_all_rows(msi_aips *p, msi_tiled_column *c)
{
    msi_aips_require(p, c->n_cube == 1 && c->cube[0].shape[0] > 0 && c->cube[0].shape[2] == c->n_row);
    if (p->is_bad) return MSI_OK;
    MSI_TRY(msi_alloc(&c->range, 1, sizeof *c->range, "rows of a column"));
    c->n_range = c->n_row > 0;
    c->range[0] = (row_range){.end = c->n_row};
    return MSI_OK;
}

static int parse(msi_aips *p, msi_tiled_column *c, const msi_tiled_place *place)
{
    int64_t end;
    msi_aips_require(p, msi_aips_begin_first(p, msi_tiled_manager_names[place->manager], &end) == 1);
    if (place->manager != MSI_TILED_SHAPE) skip_position(p);
    if (!p->is_bad) MSI_TRY(get_tiled(p, c, place));
    if (!p->is_bad && place->manager == MSI_TILED_SHAPE) MSI_TRY(get_row_map(p, c));
    if (!p->is_bad && place->manager == MSI_TILED_COLUMN) MSI_TRY(map_all_rows(p, c));
    if (place->manager == MSI_TILED_CELL) msi_aips_require(p, c->n_cube == c->n_row);
    msi_aips_end(p, end);
    msi_aips_require(p, p->at == p->end);
    return MSI_OK;
}

/* Read the whole header. *byte is NULL if it is not a regular file of a possible size. */
static int read_header(const char *path, unsigned char **byte, int64_t *n)
{
    struct stat info;
    *byte = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return MSI_OK;
    int status = MSI_OK;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && info.st_size <= MOST_HEADER) {
        *n = (int64_t)info.st_size;
        status = msi_alloc(byte, *n, 1, "the header of a column");
        if (status == MSI_OK && pread(fd, *byte, (size_t)*n, 0) != (ssize_t)*n) {
            msi_free(*byte);
            *byte = NULL;
        }
    }
    close(fd);
    return status;
}

static int place_is_known(const msi_tiled_place *place)
{
    return place->type > MSI_TILED_NONE && place->type <= MSI_TILED_COMPLEX && place->manager >= MSI_TILED_SHAPE &&
           place->manager <= MSI_TILED_CELL && place->number >= 0;
}

int msi_tiled_column_open(msi_tiled_column **out, const char *table, const msi_tiled_place *place, int64_t n_row)
{
    static const int64_t sizes[] = {
        [MSI_TILED_BOOL] = 1, [MSI_TILED_FLOAT] = 4, [MSI_TILED_DOUBLE] = 8, [MSI_TILED_COMPLEX] = 8};
    msi_tiled_column *c = NULL;
    msi_aips p = {0};
    unsigned char *byte = NULL;
    char path[PATH_MAX];
    *out = NULL;
    if (!place_is_known(place)) return MSI_OK;
    const int n = snprintf(path, sizeof path, "%s/table.f%d", table, place->number);
    if (n < 0 || n >= (int)sizeof path) return MSI_OK;
    MSI_TRY(read_header(path, &byte, &p.end));
    if (!byte) return MSI_OK;
    p.byte = byte;
    int status = msi_alloc(&c, 1, sizeof *c, "a column");
    if (status == MSI_OK) status = msi_alloc(&c->path, n + 1, 1, "a column");
    if (status == MSI_OK) {
        memcpy(c->path, path, (size_t)n + 1);
        c->type = place->type;
        c->size = sizes[place->type];
        c->n_row = n_row;
        c->is_by_cell = place->manager == MSI_TILED_CELL;
        status = parse(&p, c, place);
    }
    msi_free(byte);
    if (status != MSI_OK || p.is_bad)
        msi_tiled_column_free(c);
    else
        *out = c;
    return status;
}

/* ---- Rows ---- */

/* Return the range of a row. If the map does not have the row, or each row is a cube, the range is stored in *own. */
static const row_range *find_range(const msi_tiled_column *c, int64_t row, row_range *own)
{
    if (c->is_by_cell) {
        *own = (row_range){.first = row, .end = row + 1, .cube = row};
        return own;
    }
    int64_t low = 0, high = c->n_range;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (c->range[middle].end <= row)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < c->n_range) return &c->range[low];
    *own = (row_range){.first = row, .end = c->n_row, .cube = -1};
    return own;
}

/* Return the cube of a range; NULL if its cells have no value. */
static const tiled_cube *cube_of(const msi_tiled_column *c, const row_range *r)
{
    return r->cube >= 0 && c->cube[r->cube].shape[0] > 0 ? &c->cube[r->cube] : NULL;
}

int64_t msi_tiled_column_alike(const msi_tiled_column *c, int64_t row, int64_t n_row, int64_t shape[2])
{
    row_range own;
    int64_t at = row;
    shape[0] = shape[1] = 0;
    while (at < row + n_row && at < c->n_row) {
        const row_range *r = find_range(c, at, &own);
        const tiled_cube *u = cube_of(c, r);
        const int64_t has[2] = {u ? u->shape[0] : 0, u ? u->shape[1] : 0};
        if (at == row) memcpy(shape, has, sizeof has);
        if (has[0] != shape[0] || has[1] != shape[1]) break;
        at = r->end;
    }
    const int64_t n = (at < row + n_row ? at : row + n_row) - row;
    return n > 0 ? n : 1;
}

/* ---- Reading ---- */

static int fail_short(const msi_tiled_column *c, int32_t file, ssize_t got)
{
    if (got < 0) return msi_error_set(MSI_EINPUT, "%s_TSM%d: cannot be read: %s", c->path, file, strerror(errno));
    return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s_TSM%d is shorter than before", c->path, file);
}

/* Read n bytes at an offset into pieces of memory; `piece` is changed. */
static int read_pieces(const msi_tiled_column *c, int32_t file, struct iovec *piece, int n_piece, int64_t n, int64_t at)
{
    while (n > 0) {
        const ssize_t got = n_piece == 1 ? pread(c->fd[file], piece->iov_base, piece->iov_len, (off_t)at)
                                         : preadv(c->fd[file], piece, n_piece, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail_short(c, file, got);
        n -= got;
        at += got;
        for (size_t left = (size_t)got; left > 0 && n_piece > 0;) {
            const size_t step = left < piece->iov_len ? left : piece->iov_len;
            piece->iov_base = (char *)piece->iov_base + step;
            piece->iov_len -= step;
            left -= step;
            if (piece->iov_len > 0) break;
            piece++;
            n_piece--;
        }
    }
    return MSI_OK;
}

static int read_bytes(const msi_tiled_column *c, int32_t file, void *to, int64_t n, int64_t at)
{
    struct iovec one = {to, (size_t)n};
    return read_pieces(c, file, &one, 1, n, at);
}

static int fit_scratch(msi_tiled_scratch *s, int64_t n)
{
    if (n <= s->n_byte) return MSI_OK;
    s->n_byte = 0;
    msi_free(s->bytes);
    s->bytes = NULL;
    MSI_TRY(msi_alloc(&s->bytes, n, 1, "tiles of a column"));
    s->n_byte = n;
    return MSI_OK;
}

/* Unpack n flags, from bit `first` on, into a byte each. */
static void spread_bits(const unsigned char *bits, int64_t first, int64_t n, uint8_t *out)
{
    int64_t i = 0;
    for (; first % 8 != 0 && i < n; i++, first++) out[i] = bits[first / 8] >> first % 8 & 1;
    const unsigned char *from = bits + first / 8;
    for (; i + 8 <= n; i += 8, first += 8, from++) {
        if (*from == 0) {
            memset(out + i, 0, 8);
            continue;
        }
        /* Each byte keeps one of the eight bits. Adding 127 carries that bit into the highest one. */
        const uint64_t eight = (uint64_t)*from * 0x0101010101010101U & 0x8040201008040201U;
        const uint64_t ones = (eight + 0x7f7f7f7f7f7f7f7fU) >> 7 & 0x0101010101010101U;
        memcpy(out + i, &ones, sizeof ones);
    }
    for (; i < n; i++, first++) out[i] = bits[first / 8] >> first % 8 & 1;
}

/* Exchange the bytes of n values. */
static void swap_bytes(const msi_tiled_column *c, void *values, int64_t n)
{
    if (!c->is_swapped || c->type == MSI_TILED_BOOL) return;
    if (c->type == MSI_TILED_DOUBLE) {
        uint64_t *v = values;
        for (int64_t i = 0; i < n; i++) v[i] = __builtin_bswap64(v[i]);
        return;
    }
    uint32_t *v = values;
    n *= c->size / (int64_t)sizeof *v;
    for (int64_t i = 0; i < n; i++) v[i] = __builtin_bswap32(v[i]);
}

/* Rows of one range that are read together, and the destination of their values. */
typedef struct row_group {
    const tiled_cube *cube;
    const int64_t *row; /* [n] ascending */
    int64_t n;
    int64_t position; /* position of the first row's cell; that of the others follows from their numbers */
    int64_t first, n_second;
    char *out; /* [n][n_second][shape[0]] */
} row_group;

/* Read contiguous whole cells into their destination. Cells between them that are not needed go to the scratch memory.
 * */
static int read_plain(const msi_tiled_column *c, const row_group *g, msi_tiled_scratch *scratch)
{
    const tiled_cube *u = g->cube;
    const int64_t cell = u->shape[0] * u->shape[1] * c->size;
    struct iovec piece[PIECES];
    MSI_TRY(fit_scratch(scratch, GAP_BYTES));
    for (int64_t i = 0; i < g->n;) {
        const int64_t begin = g->row[i];
        int n_piece = 0;
        int64_t end = begin, j = i;
        while (j < g->n && n_piece + 2 <= PIECES && (g->row[j] - end) * cell <= GAP_BYTES) {
            if (g->row[j] > end) piece[n_piece++] = (struct iovec){scratch->bytes, (size_t)((g->row[j] - end) * cell)};
            const int64_t from = j;
            do j++;
            while (j < g->n && g->row[j] == g->row[j - 1] + 1);
            piece[n_piece++] = (struct iovec){g->out + from * cell, (size_t)((j - from) * cell)};
            end = g->row[j - 1] + 1;
        }
        const int64_t at = u->offset + (g->position + begin - g->row[0]) * cell;
        MSI_TRY(read_pieces(c, u->file, piece, n_piece, (end - begin) * cell, at));
        i = j;
    }
    swap_bytes(c, g->out, g->n * u->shape[0] * u->shape[1]);
    return MSI_OK;
}

/* Read contiguous whole cells of bits. */
static int read_plain_bits(const msi_tiled_column *c, const row_group *g, msi_tiled_scratch *scratch)
{
    const tiled_cube *u = g->cube;
    const int64_t cell = u->shape[0] * u->shape[1], most = PART_BYTES * 8 / cell + 1;
    for (int64_t i = 0, j; i < g->n; i = j) {
        const int64_t begin = g->position + g->row[i] - g->row[0];
        for (j = i + 1;
             j < g->n && g->row[j] - g->row[i] < most && (g->row[j] - g->row[j - 1]) * cell <= 8 * GAP_BYTES;)
            j++;
        const int64_t end = begin + g->row[j - 1] - g->row[i] + 1;
        const int64_t at = begin * cell / 8, n = (end * cell + 7) / 8 - at;
        MSI_TRY(fit_scratch(scratch, n));
        MSI_TRY(read_bytes(c, u->file, scratch->bytes, n, u->offset + at));
        for (int64_t k = i, next; k < j; k = next) {
            for (next = k + 1; next < j && g->row[next] == g->row[next - 1] + 1;) next++;
            const int64_t bit = (begin + g->row[k] - g->row[i]) * cell - 8 * at;
            spread_bits((const unsigned char *)scratch->bytes, bit, (next - k) * cell, (uint8_t *)g->out + k * cell);
        }
    }
    return MSI_OK;
}

/* The part of a tile that some rows need: cells [begin, end) of the tile, and the tile's position in a cell. */
typedef struct tile_part {
    int64_t tile;       /* number */
    int64_t begin, end; /* cells of the tile */
    int64_t axis[2];    /* first index of the tile along each of the two axes of a cell */
} tile_part;

/* Read a part of a tile, and copy its values to rows [i, j) of a group. */
static int read_tile_part(const msi_tiled_column *c, const row_group *g, const tile_part *t, int64_t i, int64_t j,
                          msi_tiled_scratch *scratch)
{
    const tiled_cube *u = g->cube;
    const int64_t in_tile = u->tile[0] * u->tile[1], n0 = u->shape[0] - t->axis[0];
    const int64_t n_first = n0 < u->tile[0] ? n0 : u->tile[0], end = t->axis[1] + u->tile[1];
    const int64_t from = t->axis[1] > g->first ? t->axis[1] : g->first;
    const int64_t to = end < g->first + g->n_second ? end : g->first + g->n_second;
    const int64_t base = u->offset + t->tile * u->tile_bytes, size = c->size;
    const int is_bits = c->type == MSI_TILED_BOOL;
    const int64_t at = is_bits ? t->begin * in_tile / 8 : t->begin * in_tile * size;
    const int64_t n = (is_bits ? (t->end * in_tile + 7) / 8 : t->end * in_tile * size) - at;
    if (from >= to) return MSI_OK;
    MSI_TRY(fit_scratch(scratch, n));
    MSI_TRY(read_bytes(c, u->file, scratch->bytes, n, base + at));
    for (int64_t k = i; k < j; k++) {
        const int64_t cell = g->row[k] - g->row[i] + t->begin;
        for (int64_t second = from; second < to; second++) {
            const int64_t value = cell * in_tile + (second - t->axis[1]) * u->tile[0];
            char *out = g->out + ((k * g->n_second + second - g->first) * u->shape[0] + t->axis[0]) * size;
            if (is_bits)
                spread_bits((const unsigned char *)scratch->bytes, value - 8 * at, n_first, (uint8_t *)out);
            else
                memcpy(out, scratch->bytes + value * size - at, (size_t)(n_first * size));
        }
    }
    return MSI_OK;
}

/* Read from tiles that have parts of cells, or if only parts of cells are needed. */
static int read_parts(const msi_tiled_column *c, const row_group *g, msi_tiled_scratch *scratch)
{
    const tiled_cube *u = g->cube;
    const int64_t in_tile = u->tile[0] * u->tile[1];
    const int64_t most = PART_BYTES / (in_tile * c->size) + 1, cells = u->tile[2], plane = u->across[0] * u->across[1];
    const int64_t last = (g->first + g->n_second - 1) / u->tile[1];
    for (int64_t i = 0, j; i < g->n; i = j) {
        const int64_t position = g->position + g->row[i] - g->row[0], slab = position / cells;
        const int64_t left = cells - position % cells, span = left < most ? left : most;
        for (j = i + 1; j < g->n && g->row[j] - g->row[i] < span;) j++;
        tile_part t = {.begin = position % cells};
        t.end = t.begin + g->row[j - 1] - g->row[i] + 1;
        for (int64_t b = g->first / u->tile[1]; b <= last; b++)
            for (int64_t a = 0; a < u->across[0]; a++) {
                t.tile = slab * plane + b * u->across[0] + a;
                t.axis[0] = a * u->tile[0];
                t.axis[1] = b * u->tile[1];
                MSI_TRY(read_tile_part(c, g, &t, i, j, scratch));
            }
    }
    swap_bytes(c, g->out, g->n * u->shape[0] * g->n_second);
    return MSI_OK;
}

int msi_tiled_column_read(const msi_tiled_column *c, const int64_t *row, int64_t n_row, int64_t n_first, int64_t first,
                          int64_t n, msi_tiled_scratch *scratch, void *out)
{
    row_range own;
    for (int64_t i = 0, j; i < n_row; i = j) {
        if (row[i] < 0 || row[i] >= c->n_row || first < 0 || n < 1)
            return msi_error_set(MSI_EINTERNAL, "%s: row %lld does not exist", c->path, (long long)row[i]);
        const row_range *r = find_range(c, row[i], &own);
        const tiled_cube *u = cube_of(c, r);
        if (!u || u->shape[0] != n_first || first > u->shape[1] - n)
            return msi_error_set(MSI_EINTERNAL, "%s: row %lld has no cell of the expected shape", c->path,
                                 (long long)row[i]);
        for (j = i + 1; j < n_row && row[j] < r->end; j++)
            if (row[j] <= row[j - 1]) return msi_error_set(MSI_EINTERNAL, "%s: rows are not in order", c->path);
        const row_group g = {.cube = u,
                             .row = row + i,
                             .n = j - i,
                             .position = r->position + row[i] - r->first,
                             .first = first,
                             .n_second = n,
                             .out = (char *)out + i * n * n_first * c->size};
        const int is_whole = u->is_plain && n == u->shape[1];
        MSI_TRY(!is_whole                   ? read_parts(c, &g, scratch)
                : c->type == MSI_TILED_BOOL ? read_plain_bits(c, &g, scratch)
                                            : read_plain(c, &g, scratch));
    }
    return MSI_OK;
}

/* ---- Memory ---- */

void msi_tiled_column_free(msi_tiled_column *c)
{
    if (!c) return;
    for (int64_t i = 0; i < c->n_file; i++)
        if (c->fd[i] >= 0) close(c->fd[i]);
    msi_free(c->fd);
    msi_free(c->file_size);
    msi_free(c->cube);
    msi_free(c->range);
    msi_free(c->path);
    msi_free(c);
}

void msi_tiled_scratch_free(msi_tiled_scratch *s)
{
    msi_free(s->bytes);
    *s = (msi_tiled_scratch){0};
}
