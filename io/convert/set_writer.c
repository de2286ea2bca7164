/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/set_writer.h"

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "io/casacore-c/casacore_c.h"
#include "io/convert/set_maps.h"

#define AT(member) offsetof(msi_set_row, member)

const msi_set_column msi_set_columns[MSI_SET_N_COLUMN] = {
    {"ANTENNA1", CCC_INT32, AT(antenna1), 1, 1, MSI_SET_PER_ROW},
    {"ANTENNA2", CCC_INT32, AT(antenna2), 1, 1, MSI_SET_PER_ROW},
    {"FEED1", CCC_INT32, AT(feed1), 1, 0, MSI_SET_CONSTANT},
    {"FEED2", CCC_INT32, AT(feed2), 1, 0, MSI_SET_CONSTANT},
    {"ARRAY_ID", CCC_INT32, AT(array), 1, 0, MSI_SET_CONSTANT},
    {"OBSERVATION_ID", CCC_INT32, AT(observation), 1, 0, MSI_SET_CONSTANT},
    {"PROCESSOR_ID", CCC_INT32, AT(processor), 1, 0, MSI_SET_CONSTANT},
    {"SCAN_NUMBER", CCC_INT32, AT(scan), 1, 0, MSI_SET_CONSTANT},
    {"STATE_ID", CCC_INT32, AT(state), 1, 0, MSI_SET_CONSTANT},
    {"FLAG_ROW", CCC_BOOL, AT(flag_row), 1, 0, MSI_SET_PER_ROW},
    {"TIME_CENTROID", CCC_DOUBLE, AT(centroid_s), 1, 0, MSI_SET_PER_AVERAGED_ROW},
    {"INTERVAL", CCC_DOUBLE, AT(interval_s), 1, 1, MSI_SET_PER_TIME},
    {"EXPOSURE", CCC_DOUBLE, AT(exposure_s), 1, 0, MSI_SET_PER_AVERAGED_ROW},
    {"WEIGHT", CCC_FLOAT, AT(weight), 0, 1, MSI_SET_PER_ROW},
    {"SIGMA", CCC_FLOAT, AT(sigma), 0, 0, MSI_SET_PER_ROW},
    {"TIME", CCC_DOUBLE, AT(time_s), 1, 1, MSI_SET_PER_TIME},
    {"FIELD_ID", CCC_INT32, AT(field), 1, 1, MSI_SET_CONSTANT},
    {"DATA_DESC_ID", CCC_INT32, AT(data_desc), 1, 1, MSI_SET_CONSTANT},
    {"UVW", CCC_DOUBLE, AT(uvw_m), 3, 1, MSI_SET_PER_ROW},
};

/* Copy n values with strides. If the compiler knows the size, it inlines memcpy. */
static inline void copy_values(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * to_step, from + (size_t)i * from_step, size);
}

void msi_set_copy_column(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size)
{
    switch (size) {
    case 1:
        copy_values(to, to_step, from, from_step, n, 1);
        break;
    case 4:
        copy_values(to, to_step, from, from_step, n, 4);
        break;
    case 8:
        copy_values(to, to_step, from, from_step, n, 8);
        break;
    case 16:
        copy_values(to, to_step, from, from_step, n, 16);
        break;
    default:
        copy_values(to, to_step, from, from_step, n, size);
        break;
    }
}

int msi_set_grow(char **buffer, int64_t *n_allocated, int64_t bytes)
{
    if (*n_allocated >= bytes) return MSI_OK;
    *n_allocated = 0;
    MSI_TRY(msi_grow(buffer, 0, bytes, 1, "rows"));
    *n_allocated = bytes;
    return MSI_OK;
}

/*
 * Storage managers of the main table. If all rows have the same shape, columns have a fixed shape, so that casacore
 * does not store a shape for each row. Columns that change rarely are in an IncrementalStMan, which stores only
 * changes. Other scalar columns are in a StandardStMan.
 */

typedef struct table_spec {
    int64_t n_corr, n_chan; /* shape of every row, or the largest numbers */
    int is_one_shape;       /* all rows have this shape */
    int has_weight_spectrum;
    const char *const *steady; /* [n_steady] columns in which only changes are written */
    const char *const *scalar; /* [n_scalar] other scalar columns, which are written for each row */
    int n_steady, n_scalar;
} table_spec;

enum {
    TILE_BYTES = 1 << 20, /* size of a tile of visibilities */
    /* size of thousands of rows: casacore caches only two buckets, and each column visits all buckets */
    BUCKET_BYTES = 1 << 18,
    MOST_COLUMNS = 8
};

/* The array columns, each with a tiled storage manager, and the other storage managers. */
typedef struct table_plan {
    int is_fixed;
    int64_t n_column, n_storage;
    ccc_column_spec column[MOST_COLUMNS];
    ccc_storage storage[MOST_COLUMNS];
    const char *name[MOST_COLUMNS];
} table_plan;

static int64_t at_least_one(int64_t n)
{
    return n > 1 ? n : 1;
}

/* Plan a column whose cells have shape [n1][n0], or [n0] if n1 is 0, in tiles of tile_rows rows. */
static void plan_tiled(table_plan *p, const char *name, int64_t n0, int64_t n1, int64_t tile_rows)
{
    const int ndim = n1 > 0 ? 2 : 1;
    ccc_storage *s = &p->storage[p->n_storage];
    p->column[p->n_column++] =
        (ccc_column_spec){.name = name, .ndim = ndim, .is_fixed_shape = p->is_fixed, .shape = {n0, n1}};
    p->name[p->n_storage] = name;
    *s = (ccc_storage){.type = p->is_fixed ? "TiledColumnStMan" : "TiledShapeStMan",
                       .n_column = 1,
                       .columns = &p->name[p->n_storage],
                       .tile_ndim = ndim + 1,
                       .tile_shape = {n0, n1 > 0 ? n1 : tile_rows, tile_rows}};
    p->n_storage++;
}

/*
 * make_set_table - make an empty set with its standard subtables.
 * Given:    path    must not exist
 * Returned: *table  opened for update
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 * Notes:    a value in a steady column applies to later rows too, so rows must be written in order.
 */
static int make_set_table(ccc_table **table, const char *path, const table_spec *spec)
{
    table_plan p = {.is_fixed = spec->is_one_shape};
    const int64_t n_corr = spec->n_corr, n_chan = spec->n_chan;
    const int64_t cell_rows = at_least_one(TILE_BYTES / (n_corr * n_chan * (int64_t)sizeof(msi_c32)));
    plan_tiled(&p, "DATA", n_corr, n_chan, cell_rows);
    plan_tiled(&p, "FLAG", n_corr, n_chan, cell_rows);
    if (spec->has_weight_spectrum) plan_tiled(&p, "WEIGHT_SPECTRUM", n_corr, n_chan, cell_rows);
    plan_tiled(&p, "WEIGHT", n_corr, 0, TILE_BYTES / 8 / (8 * n_corr));
    plan_tiled(&p, "SIGMA", n_corr, 0, TILE_BYTES / 8 / (8 * n_corr));
    p.is_fixed = 1;
    plan_tiled(&p, "UVW", 3, 0, TILE_BYTES / 8 / (8 * 3));
    p.storage[p.n_storage++] = (ccc_storage){
        .type = "IncrementalStMan", .name = "Steady", .n_column = spec->n_steady, .columns = spec->steady};
    p.storage[p.n_storage++] = (ccc_storage){.type = "StandardStMan",
                                             .name = "OfRows",
                                             .n_column = spec->n_scalar,
                                             .columns = spec->scalar,
                                             .bucket_bytes = BUCKET_BYTES};
    return msi_set_written(ccc_ms_create(table, path, p.column, (int)p.n_column, p.storage, (int)p.n_storage));
}

enum {
    OFTEN = 8,     /* if values change more than once in this many rows, all rows are written */
    FEW_ROWS = 128 /* this many rows stay in the cache while one column after another is copied from them */
};

struct msi_set_writer {
    ccc_table *table;
    int has_weight_spectrum, has_keywords;
    int are_times_own, are_means; /* as in msi_set_output_spec: such columns are stored row by row */
    int64_t n_row;                /* written */
    msi_set_row last;             /* the last row written */
    struct {
        char *value;
        int64_t n_allocated;
        int is_alike;           /* 1: all rows have the same value, which is stored once */
    } column[MSI_SET_N_COLUMN]; /* values of the rows being written */
};

static int is_steady(const msi_set_writer *w, const msi_set_column *c)
{
    return c->kind == MSI_SET_CONSTANT || (c->kind == MSI_SET_PER_TIME && !w->are_times_own) ||
           (c->kind == MSI_SET_PER_AVERAGED_ROW && !w->are_means);
}

/* ---- Make ---- */

static int make_table(msi_set_writer *w, const char *path, const msi_ms_reader *reader, const msi_set_output_spec *spec)
{
    const char *steady[MSI_SET_N_COLUMN], *scalar[MSI_SET_N_COLUMN + 1] = {"FLAG_CATEGORY"}; /* has no values */
    table_spec table = {.n_corr = 1,
                        .n_chan = 1,
                        .is_one_shape = 1,
                        .has_weight_spectrum = spec->has_weight_spectrum,
                        .steady = steady,
                        .scalar = scalar,
                        .n_scalar = 1};
    for (int i = 0; i < reader->n_spw; i++) {
        const int32_t n_chan = spec->groups[i].n_group, n_corr = reader->spw[i].n_corr;
        if (n_chan != spec->groups[0].n_group || n_corr != reader->spw[0].n_corr) table.is_one_shape = 0;
        if (n_chan > table.n_chan) table.n_chan = n_chan;
        if (n_corr > table.n_corr) table.n_corr = n_corr;
    }
    for (int i = 0; i < MSI_SET_N_COLUMN; i++)
        if (is_steady(w, &msi_set_columns[i]))
            steady[table.n_steady++] = msi_set_columns[i].name;
        else if (msi_set_columns[i].n == 1)
            scalar[table.n_scalar++] = msi_set_columns[i].name;
    return make_set_table(&w->table, path, &table);
}

/* Copy frames and units of columns from the first set that has rows. */
static int copy_keywords(msi_set_writer *w, ccc_table *from, const char *data_column)
{
    static const char *const columns[] = {"TIME", "TIME_CENTROID", "INTERVAL", "EXPOSURE", "UVW"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (ccc_table_has_column(from, columns[i]))
            MSI_TRY(msi_set_written(ccc_column_take_keywords(w->table, from, columns[i], columns[i])));
    w->has_keywords = 1;
    return msi_set_written(ccc_column_take_keywords(w->table, from, "DATA", data_column));
}

static int copy_subtables(msi_set_writer *w, const msi_ms_reader *reader, int set, const msi_set_output_spec *spec,
                          msi_set_maps *maps)
{
    ccc_table *table;
    if (!reader->set[set].n_row) return MSI_OK;
    MSI_TRY(msi_set_read(ccc_table_open(&table, msi_ms_set_tables(&reader->set[set]), CCC_READ, CCC_LOCK_NONE)));
    const msi_subtables_source source = {table, reader, set, spec};
    int status = w->has_keywords ? MSI_OK : copy_keywords(w, table, reader->set[set].data_column);
    if (!status) status = msi_set_subtables_copy(w->table, &source, maps);
    ccc_table_close(table);
    return status;
}

int msi_set_writer_make(msi_set_writer **out, const char *path, const msi_ms_reader *reader,
                        const msi_set_output_spec *spec, msi_set_maps *maps)
{
    msi_set_writer *w;
    *out = NULL;
    MSI_TRY(msi_alloc(&w, 1, sizeof *w, "the new set"));
    w->has_weight_spectrum = spec->has_weight_spectrum;
    w->are_times_own = spec->are_times_own;
    w->are_means = spec->are_means;
    int status = make_table(w, path, reader, spec);
    for (int i = 0; !status && i < reader->n_set; i++) status = copy_subtables(w, reader, i, spec, maps);
    if (!status) status = msi_set_subtables_history(w->table, spec);
    if (status) {
        msi_set_writer_free(w);
        return status;
    }
    *out = w;
    return MSI_OK;
}

/* ---- Put ---- */

static int64_t n_element(const msi_set_rows *rows, const msi_set_column *c)
{
    return c->n ? c->n : rows->n_corr;
}

static size_t size_of(const msi_set_rows *rows, const msi_set_column *c)
{
    return msi_set_bytes_of(c->type) * (size_t)n_element(rows, c);
}

/* Return 1 if rows [first, end) have the value of row 0 in a column with elements of 4 or 8 bytes. */
static int have_first_value(const msi_set_rows *rows, const msi_set_column *c, int64_t first, int64_t end)
{
    const char *at = (const char *)rows->row + c->offset;
    const size_t step = sizeof *rows->row;
    uint64_t first8, value8, differing = 0;
    uint32_t first4, value4;
    if (msi_set_bytes_of(c->type) == sizeof first4) {
        memcpy(&first4, at, sizeof first4);
        for (int64_t i = first; i < end; i++) {
            memcpy(&value4, at + (size_t)i * step, sizeof value4);
            differing |= value4 ^ first4;
        }
    } else {
        memcpy(&first8, at, sizeof first8);
        for (int64_t i = first; i < end; i++) {
            memcpy(&value8, at + (size_t)i * step, sizeof value8);
            differing |= value8 ^ first8;
        }
    }
    return differing == 0;
}

/* Copy column k of rows [first, end). */
static void copy_rows(msi_set_writer *w, const msi_set_rows *rows, int k, int64_t first, int64_t end)
{
    const msi_set_column *c = &msi_set_columns[k];
    const size_t size = size_of(rows, c);
    msi_set_copy_column(w->column[k].value + (size_t)first * size, size, (const char *)&rows->row[first] + c->offset,
                        sizeof *rows->row, end - first, size);
}

/* Split rows into columns. If a steady column does not change, only its first value is copied. */
static int split_columns(msi_set_writer *w, const msi_set_rows *rows)
{
    for (int k = 0; k < MSI_SET_N_COLUMN; k++) {
        MSI_TRY(msi_set_grow(&w->column[k].value, &w->column[k].n_allocated,
                             rows->n_row * (int64_t)size_of(rows, &msi_set_columns[k])));
        w->column[k].is_alike = is_steady(w, &msi_set_columns[k]);
        if (w->column[k].is_alike) copy_rows(w, rows, k, 0, 1);
    }
    for (int64_t i = 0; i < rows->n_row; i += FEW_ROWS) {
        const int64_t end = rows->n_row - i < FEW_ROWS ? rows->n_row : i + FEW_ROWS;
        for (int k = 0; k < MSI_SET_N_COLUMN; k++) {
            const int was_alike = w->column[k].is_alike;
            if (was_alike && have_first_value(rows, &msi_set_columns[k], i, end)) continue;
            w->column[k].is_alike = 0;
            copy_rows(w, rows, k, was_alike ? 0 : i, end);
        }
    }
    return MSI_OK;
}

/* Write column k of rows [first, first + n). */
static int put_rows(msi_set_writer *w, const msi_set_rows *rows, int k, int64_t first, int64_t n)
{
    const msi_set_column *c = &msi_set_columns[k];
    const int64_t n_value = n_element(rows, c);
    const int ndim = c->n != 1;
    return msi_set_written(ccc_put_range(w->table, c->name, w->n_row + first, n, ndim, ndim ? &n_value : NULL, NULL,
                                         c->type, w->column[k].value + (size_t)first * size_of(rows, c)));
}

static inline int differ(const char *a, const char *b, size_t size)
{
    return size == 4 ? memcmp(a, b, 4) != 0 : memcmp(a, b, 8) != 0;
}

/* Return 1 if the first value of steady column k differs from the value in the last row written. */
static int differs_from_last(const msi_set_writer *w, int k)
{
    const msi_set_column *c = &msi_set_columns[k];
    return w->n_row == 0 || differ((const char *)&w->last + c->offset, w->column[k].value, msi_set_bytes_of(c->type));
}

/* Find the next row from i on in which the value of steady column k differs from the row before. Returns n_row if there
 * is none. */
static int64_t next_change(const msi_set_writer *w, const msi_set_rows *rows, int k, int64_t i)
{
    const msi_set_column *c = &msi_set_columns[k];
    const char *value = w->column[k].value;
    const size_t size = msi_set_bytes_of(c->type);
    if (i == 0 && differs_from_last(w, k)) return 0;
    for (i += i == 0; i < rows->n_row; i++)
        if (differ(value + (size_t)(i - 1) * size, value + (size_t)i * size, size)) break;
    return i < rows->n_row ? i : rows->n_row;
}

static int put_changes(msi_set_writer *w, const msi_set_rows *rows, int k)
{
    int64_t n = 0;
    if (w->column[k].is_alike) return differs_from_last(w, k) ? put_rows(w, rows, k, 0, 1) : MSI_OK;
    for (int64_t i = next_change(w, rows, k, 0); i < rows->n_row; i = next_change(w, rows, k, i + 1)) n++;
    if (n * OFTEN > rows->n_row) return put_rows(w, rows, k, 0, rows->n_row);
    for (int64_t i = 0; n > 0; n--, i++) {
        i = next_change(w, rows, k, i);
        MSI_TRY(put_rows(w, rows, k, i, 1));
    }
    return MSI_OK;
}

int msi_set_writer_put(msi_set_writer *w, const msi_set_rows *rows)
{
    const int64_t shape[] = {rows->n_corr, rows->n_chan}, at = w->n_row, n = rows->n_row;
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_set_written(ccc_table_add_rows(w->table, n)));
    MSI_TRY(split_columns(w, rows));
    for (int k = 0; k < MSI_SET_N_COLUMN; k++)
        MSI_TRY(is_steady(w, &msi_set_columns[k]) ? put_changes(w, rows, k) : put_rows(w, rows, k, 0, n));
    MSI_TRY(msi_set_written(ccc_put_range(w->table, "DATA", at, n, 2, shape, NULL, CCC_COMPLEX, rows->data)));
    MSI_TRY(msi_set_written(ccc_put_range(w->table, "FLAG", at, n, 2, shape, NULL, CCC_BOOL, rows->flag)));
    if (w->has_weight_spectrum)
        MSI_TRY(msi_set_written(
            ccc_put_range(w->table, "WEIGHT_SPECTRUM", at, n, 2, shape, NULL, CCC_FLOAT, rows->weight)));
    w->last = rows->row[n - 1];
    w->n_row += n;
    return MSI_OK;
}

/* ---- End ---- */

int msi_set_writer_finish(msi_set_writer *w)
{
    ccc_table *t = w->table;
    w->table = NULL;
    return msi_set_written(ccc_table_close(t));
}

void msi_set_writer_free(msi_set_writer *w)
{
    if (!w) return;
    ccc_table_close(w->table);
    for (int k = 0; k < MSI_SET_N_COLUMN; k++) msi_free(w->column[k].value);
    msi_free(w);
}
