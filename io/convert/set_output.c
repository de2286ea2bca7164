/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/set_output.h"

#include <stddef.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/convert/set_maps.h"
#include "io/convert/set_subtables.h"
#include "io/convert/set_table.h"

enum {
    SPARSE = 8,           /* rows between those that are wanted are read with them up to so many times as many */
    HELD_BYTES = 4 << 20, /* of visibilities wait for others, as a call of casacore takes as long as hundreds of rows */
    AHEAD_ROWS = 1 << 14, /* of what rows have beside samples so many are read at once, at most */
    FEW_ROWS = 128,       /* which stay in the processor while one column after another is copied to them */
    MOST_COLUMNS = 24,
    OFTEN = 8 /* one change of a value in fewer rows than this is one in each */
};

/* Rows of one shape that are not written yet. */
typedef struct held_rows {
    int64_t n, n_allocated;
    int32_t n_chan, n_corr;
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
} held_rows;

/* How much of a column is known of the rows read ahead. */
typedef enum ahead_state {
    UNREAD,
    READ,
    NOT_THERE,
    BY_BLOCKS /* it cannot be read so, but perhaps in parts */
} ahead_state;

/* Columns of rows [first, first + n) of a set, which blocks to come will ask for too. */
typedef struct rows_ahead {
    int64_t first, n;
    int is_sparse; /* they are many, and too few are asked for to read all */
    struct {
        ahead_state state;
        char *value;
        int64_t n_allocated;
    } column[MOST_COLUMNS];
} rows_ahead;

struct msi_set_output {
    ccc_table *table;
    msi_set_maps *maps;
    int has_weight_spectrum, has_keywords;
    int described;                /* the set whose rows were described last; -1: none */
    int are_times_own, are_means; /* so that they are stored row by row */
    int64_t n_row;                /* written */
    msi_set_row last;             /* of them */
    held_rows held;
    rows_ahead ahead;
    double *antenna_m; /* [n_antenna][3] */
    int64_t n_antenna;
    char *column, *between; /* room for a column of rows */
    int64_t n_column_allocated, n_between_allocated;
};

/* ---- Columns ---- */

/* A column of the main table, and where its values are in msi_set_row. */
typedef struct row_column {
    const char *name;
    ccc_type type;
    size_t offset;
    int n;         /* elements; 0: of a correlation each */
    int is_needed; /* of a set that is read */
    enum { OF_ROW, OF_MEAN, OF_TIME, STEADY } kind;
} row_column;

#define AT(member) offsetof(msi_set_row, member)

/* Columns of a row that a block has not. */
static const row_column row_columns[] = {
    {"ANTENNA1", CCC_INT32, AT(antenna1), 1, 1, OF_ROW},
    {"ANTENNA2", CCC_INT32, AT(antenna2), 1, 1, OF_ROW},
    {"FEED1", CCC_INT32, AT(feed1), 1, 0, STEADY},
    {"FEED2", CCC_INT32, AT(feed2), 1, 0, STEADY},
    {"ARRAY_ID", CCC_INT32, AT(array), 1, 0, STEADY},
    {"OBSERVATION_ID", CCC_INT32, AT(observation), 1, 0, STEADY},
    {"PROCESSOR_ID", CCC_INT32, AT(processor), 1, 0, STEADY},
    {"SCAN_NUMBER", CCC_INT32, AT(scan), 1, 0, STEADY},
    {"STATE_ID", CCC_INT32, AT(state), 1, 0, STEADY},
    {"FLAG_ROW", CCC_BOOL, AT(flag_row), 1, 0, OF_ROW},
    {"TIME_CENTROID", CCC_DOUBLE, AT(centroid_s), 1, 0, OF_MEAN},
    {"INTERVAL", CCC_DOUBLE, AT(interval_s), 1, 1, OF_TIME},
    {"EXPOSURE", CCC_DOUBLE, AT(exposure_s), 1, 0, OF_MEAN},
    {"WEIGHT", CCC_FLOAT, AT(weight), 0, 1, OF_ROW},
    {"SIGMA", CCC_FLOAT, AT(sigma), 0, 0, OF_ROW},
};

/* The others. */
static const row_column block_columns[] = {{"TIME", CCC_DOUBLE, AT(time_s), 1, 1, OF_TIME},
                                           {"FIELD_ID", CCC_INT32, AT(field), 1, 1, STEADY},
                                           {"DATA_DESC_ID", CCC_INT32, AT(data_desc), 1, 1, STEADY},
                                           {"UVW", CCC_DOUBLE, AT(uvw_m), 3, 1, OF_ROW}};

enum {
    N_ROW_COLUMN = sizeof row_columns / sizeof *row_columns,
    N_BLOCK_COLUMN = sizeof block_columns / sizeof *block_columns,
    N_COLUMN = N_ROW_COLUMN + N_BLOCK_COLUMN
};

static const row_column *column_of(int i)
{
    return i < N_ROW_COLUMN ? &row_columns[i] : &block_columns[i - N_ROW_COLUMN];
}

static int is_steady(const msi_set_output *o, const row_column *c)
{
    return c->kind == STEADY || (c->kind == OF_TIME && !o->are_times_own) || (c->kind == OF_MEAN && !o->are_means);
}

static size_t bytes_of(ccc_type type)
{
    return type == CCC_BOOL ? 1 : type == CCC_DOUBLE ? sizeof(double) : sizeof(int32_t);
}

/* ---- Make ---- */

static int make_table(msi_set_output *out, const char *path, const msi_ms_reader *reader,
                      const msi_set_output_spec *spec)
{
    const char *steady[N_COLUMN], *scalar[N_COLUMN + 1] = {"FLAG_CATEGORY"}; /* which has no values */
    msi_set_table_spec table = {.n_corr = 1,
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
    for (int i = 0; i < N_COLUMN; i++)
        if (is_steady(out, column_of(i)))
            steady[table.n_steady++] = column_of(i)->name;
        else if (column_of(i)->n == 1)
            scalar[table.n_scalar++] = column_of(i)->name;
    return msi_set_table_make(&out->table, path, &table);
}

/* Frames and units of the columns are those of the first set that has rows. */
static int take_keywords(msi_set_output *out, ccc_table *from, const char *data_column)
{
    static const char *const columns[] = {"TIME", "TIME_CENTROID", "INTERVAL", "EXPOSURE", "UVW"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        if (ccc_table_has_column(from, columns[i]))
            MSI_TRY(msi_set_written(ccc_column_take_keywords(out->table, from, columns[i], columns[i])));
    out->has_keywords = 1;
    return msi_set_written(ccc_column_take_keywords(out->table, from, "DATA", data_column));
}

static int take_positions(msi_set_output *out, const msi_ms_set *set, const msi_set_map *map)
{
    for (int32_t i = 0; i < map->n_antenna; i++) {
        const int64_t at = map->antenna[i];
        if (at >= out->n_antenna) {
            MSI_TRY(msi_grow(&out->antenna_m, 3 * out->n_antenna, 3 * (at + map->n_antenna), sizeof(double),
                             "positions of antennas"));
            out->n_antenna = at + map->n_antenna;
        }
        memcpy(out->antenna_m + 3 * at, set->antenna_itrf_m + 3 * i, 3 * sizeof(double));
    }
    return MSI_OK;
}

static int take_set(msi_set_output *out, const msi_ms_reader *reader, int set, const msi_set_output_spec *spec)
{
    ccc_table *table;
    if (!reader->set[set].n_row) return MSI_OK;
    MSI_TRY(msi_set_read(ccc_table_open(&table, reader->set[set].path, CCC_READ, CCC_LOCK_NONE)));
    const msi_subtables_source source = {table, reader, set, spec};
    int status = msi_set_maps_add(out->maps, table, reader, set, spec->groups);
    if (!status) status = take_positions(out, &reader->set[set], msi_set_maps_of(out->maps, set));
    if (!status && !out->has_keywords) status = take_keywords(out, table, reader->set[set].data_column);
    if (!status) status = msi_set_subtables_take(out->table, &source, out->maps);
    ccc_table_close(table);
    return status;
}

int msi_set_output_make(msi_set_output **out, const char *path, const msi_ms_reader *reader,
                        const msi_set_output_spec *spec)
{
    msi_set_output *o;
    *out = NULL;
    MSI_TRY(msi_alloc(&o, 1, sizeof *o, "the new set"));
    o->has_weight_spectrum = spec->has_weight_spectrum;
    o->are_times_own = spec->are_times_own;
    o->are_means = spec->are_means;
    o->described = -1;
    int status = msi_set_maps_make(&o->maps, reader->n_set);
    if (!status) status = make_table(o, path, reader, spec);
    for (int i = 0; !status && i < reader->n_set; i++) status = take_set(o, reader, i, spec);
    if (!status) status = msi_set_subtables_history(o->table, spec);
    if (status) {
        msi_set_output_free(o);
        return status;
    }
    *out = o;
    return MSI_OK;
}

/* ---- What rows have beside their samples ---- */

static int grow(char **room, int64_t *n_allocated, int64_t bytes)
{
    if (*n_allocated >= bytes) return MSI_OK;
    *n_allocated = 0;
    MSI_TRY(msi_grow(room, 0, bytes, 1, "rows"));
    *n_allocated = bytes;
    return MSI_OK;
}

/* Read a column of rows that ascend. Rows close together are read at once, with those between them. */
static int read_column(msi_set_output *o, ccc_table *t, const row_column *c, const msi_ms_block *b, int64_t n_element)
{
    const int64_t size = (int64_t)bytes_of(c->type) * n_element;
    const int64_t n = b->n_row, first = b->ms_row[0], span = b->ms_row[n - 1] - first + 1;
    MSI_TRY(grow(&o->column, &o->n_column_allocated, n * size));
    if (span == n) return msi_set_read(ccc_get_range(t, c->name, first, n, NULL, c->type, o->column, n * n_element));
    if (span > SPARSE * n)
        return msi_set_read(ccc_get_rows(t, c->name, b->ms_row, n, NULL, c->type, o->column, n * n_element));
    MSI_TRY(grow(&o->between, &o->n_between_allocated, span * size));
    const int status = ccc_get_range(t, c->name, first, span, NULL, c->type, o->between, span * n_element);
    if (status == CCC_ESHAPE)
        return msi_set_read(ccc_get_rows(t, c->name, b->ms_row, n, NULL, c->type, o->column, n * n_element));
    for (int64_t i = 0; i < n; i++)
        memcpy(o->column + i * size, o->between + (b->ms_row[i] - first) * size, (size_t)size);
    return msi_set_read(status);
}

/* Copy n values from one place in every so many bytes to another. Sizes that the compiler knows are no calls. */
static inline void copy_values(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * to_step, from + (size_t)i * from_step, size);
}

static void copy_column(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size)
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

/* Choose the rows that are read ahead: those of the block, and where blocks follow one another, more each time. */
static void look_ahead(rows_ahead *a, const msi_ms_block *b, int64_t n_table)
{
    const int64_t first = b->ms_row[0], span = b->ms_row[b->n_row - 1] - first + 1;
    if (first >= a->first && first + span <= a->first + a->n) return;
    const int follows = a->n > 0 && first >= a->first && first <= a->first + a->n;
    int64_t n = follows ? 2 * a->n : span;
    if (n > AHEAD_ROWS) n = AHEAD_ROWS;
    if (n < span) n = span;
    if (n > n_table - first) n = n_table - first;
    a->first = first;
    a->n = n;
    a->is_sparse = span > AHEAD_ROWS && span > SPARSE * b->n_row;
    for (int i = 0; i < N_ROW_COLUMN; i++) a->column[i].state = UNREAD;
}

/* Read a column of the rows ahead. What fails there may be of rows that nobody asks for. */
static int read_ahead(msi_set_output *o, ccc_table *t, int i, int64_t n_element)
{
    rows_ahead *a = &o->ahead;
    const row_column *c = &row_columns[i];
    if (a->column[i].state != UNREAD) return MSI_OK;
    if (!c->is_needed && !ccc_table_has_column(t, c->name)) {
        a->column[i].state = NOT_THERE;
        return MSI_OK;
    }
    if (a->is_sparse) {
        a->column[i].state = BY_BLOCKS;
        return MSI_OK;
    }
    MSI_TRY(grow(&a->column[i].value, &a->column[i].n_allocated, a->n * n_element * (int64_t)bytes_of(c->type)));
    const int status = ccc_get_range(t, c->name, a->first, a->n, NULL, c->type, a->column[i].value, a->n * n_element);
    a->column[i].state = status == CCC_OK ? READ : BY_BLOCKS;
    return MSI_OK;
}

/* Copy columns that were read ahead to rows of a block, [first, end). */
static void copy_ahead(const rows_ahead *a, const msi_ms_block *b, msi_set_row *row, int64_t first, int64_t end)
{
    for (int64_t k = first, n; k < end; k += n) {
        for (n = 1; k + n < end && b->ms_row[k + n] == b->ms_row[k] + n;) n++;
        for (int i = 0; i < N_ROW_COLUMN; i++) {
            const row_column *c = &row_columns[i];
            const size_t size = bytes_of(c->type) * (size_t)(c->n ? c->n : b->n_corr);
            if (a->column[i].state != READ) continue;
            copy_column((char *)&row[k] + c->offset, sizeof *row,
                        a->column[i].value + (b->ms_row[k] - a->first) * (int64_t)size, size, n, size);
        }
    }
}

static int read_columns(msi_set_output *o, ccc_table *t, const msi_ms_block *b, msi_set_row *row)
{
    look_ahead(&o->ahead, b, ccc_table_n_row(t));
    for (int i = 0; i < N_ROW_COLUMN; i++) {
        const row_column *c = &row_columns[i];
        const int64_t n_element = c->n ? c->n : b->n_corr;
        const size_t size = bytes_of(c->type) * (size_t)n_element;
        MSI_TRY(read_ahead(o, t, i, n_element));
        if (o->ahead.column[i].state != BY_BLOCKS) continue;
        MSI_TRY(read_column(o, t, c, b, n_element));
        copy_column((char *)row + c->offset, sizeof *row, o->column, size, b->n_row, size);
    }
    for (int64_t i = 0; i < b->n_row; i += FEW_ROWS)
        copy_ahead(&o->ahead, b, row, i, i + FEW_ROWS < b->n_row ? i + FEW_ROWS : b->n_row);
    return MSI_OK;
}

static int32_t mapped(const int32_t *map, int32_t n, int32_t id)
{
    return id >= 0 && id < n ? map[id] : id;
}

/* Open the table of a set whose blocks another process reads; of several sets, one at a time. */
static int open_rows(msi_set_output *o, const msi_ms_reader *reader, int set)
{
    if (o->described >= 0 && o->described != set) {
        ccc_table_close(reader->set[o->described].table);
        reader->set[o->described].table = NULL;
    }
    if (o->described != set) o->ahead.n = 0;
    o->described = set;
    return msi_ms_set_open(&reader->set[set]);
}

int msi_set_output_describe(msi_set_output *o, const msi_ms_reader *reader, const msi_ms_block *b, msi_set_row *row)
{
    const msi_set_map *m = msi_set_maps_of(o->maps, b->set);
    MSI_TRY(open_rows(o, reader, b->set));
    ccc_table *t = reader->set[b->set].table;
    memset(row, 0, (size_t)b->n_row * sizeof *row);
    for (int64_t i = 0; i < b->n_row; i++) row[i].centroid_s = b->time_s[i];
    MSI_TRY(read_columns(o, t, b, row));
    for (int64_t i = 0; i < b->n_row; i++) {
        msi_set_row *r = &row[i];
        r->antenna1 = mapped(m->antenna, m->n_antenna, r->antenna1);
        r->antenna2 = mapped(m->antenna, m->n_antenna, r->antenna2);
        r->field = mapped(m->field, m->n_field, b->field_id);
        r->data_desc = mapped(m->data_desc, m->n_data_desc, b->data_desc_id);
        if (r->observation >= 0) r->observation += m->observation_offset;
        if (r->processor >= 0) r->processor += m->processor_offset;
        if (r->state >= 0) r->state += m->state_offset;
        r->time_s = b->time_s[i];
        memcpy(r->uvw_m, b->uvw_m + 3 * i, sizeof r->uvw_m);
    }
    return MSI_OK;
}

/* ---- Put ---- */

static int put_rows(msi_set_output *o, const msi_set_rows *rows, const row_column *c, int64_t first, int64_t n)
{
    const int64_t n_element = c->n ? c->n : rows->n_corr;
    const size_t size = bytes_of(c->type) * (size_t)n_element;
    const int ndim = c->n != 1;
    MSI_TRY(grow(&o->column, &o->n_column_allocated, n * (int64_t)size));
    copy_column(o->column, size, (const char *)&rows->row[first] + c->offset, sizeof *rows->row, n, size);
    return msi_set_written(ccc_put_range(o->table, c->name, o->n_row + first, n, ndim, ndim ? &n_element : NULL, NULL,
                                         c->type, o->column));
}

static inline int differ(const char *a, const char *b, size_t size)
{
    return size == 4 ? memcmp(a, b, 4) != 0 : memcmp(a, b, 8) != 0;
}

/* Find the next row, from i on, whose steady value is another than that of the row before; n_row where there is
 * none. */
static int64_t next_change(const msi_set_output *o, const msi_set_rows *rows, const row_column *c, int64_t i)
{
    const char *value = (const char *)rows->row + c->offset;
    const size_t size = bytes_of(c->type), step = sizeof *rows->row;
    if (i == 0 && (o->n_row == 0 || differ((const char *)&o->last + c->offset, value, size))) return 0;
    for (i += i == 0; i < rows->n_row; i++)
        if (differ(value + (size_t)(i - 1) * step, value + (size_t)i * step, size)) break;
    return i < rows->n_row ? i : rows->n_row;
}

static int put_changes(msi_set_output *o, const msi_set_rows *rows, const row_column *c)
{
    int64_t n = 0;
    for (int64_t i = next_change(o, rows, c, 0); i < rows->n_row; i = next_change(o, rows, c, i + 1)) n++;
    if (n * OFTEN > rows->n_row) return put_rows(o, rows, c, 0, rows->n_row);
    for (int64_t i = 0; n > 0; n--, i++) {
        i = next_change(o, rows, c, i);
        MSI_TRY(put_rows(o, rows, c, i, 1));
    }
    return MSI_OK;
}

static int write_rows(msi_set_output *o, const msi_set_rows *rows)
{
    const int64_t shape[] = {rows->n_corr, rows->n_chan}, at = o->n_row, n = rows->n_row;
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_set_written(ccc_table_add_rows(o->table, n)));
    for (int i = 0; i < N_COLUMN; i++) {
        const row_column *c = column_of(i);
        MSI_TRY(is_steady(o, c) ? put_changes(o, rows, c) : put_rows(o, rows, c, 0, n));
    }
    MSI_TRY(msi_set_written(ccc_put_range(o->table, "DATA", at, n, 2, shape, NULL, CCC_COMPLEX, rows->data)));
    MSI_TRY(msi_set_written(ccc_put_range(o->table, "FLAG", at, n, 2, shape, NULL, CCC_BOOL, rows->flag)));
    if (o->has_weight_spectrum)
        MSI_TRY(msi_set_written(
            ccc_put_range(o->table, "WEIGHT_SPECTRUM", at, n, 2, shape, NULL, CCC_FLOAT, rows->weight)));
    o->last = rows->row[n - 1];
    o->n_row += n;
    return MSI_OK;
}

/* ---- Rows that wait ---- */

static int write_held(msi_set_output *o)
{
    held_rows *h = &o->held;
    const msi_set_rows rows = {h->n, h->n_chan, h->n_corr, h->row, h->data, h->weight, h->flag};
    h->n = 0;
    return write_rows(o, &rows);
}

static int hold(msi_set_output *o, const msi_set_rows *rows)
{
    held_rows *h = &o->held;
    const int64_t n_sample = (int64_t)rows->n_chan * rows->n_corr, n = h->n + rows->n_row;
    if (h->n_allocated < n || h->n_chan != rows->n_chan || h->n_corr != rows->n_corr) {
        const int64_t enough = n + HELD_BYTES / (n_sample * (int64_t)sizeof(msi_c32));
        const int64_t more = enough > 2 * n ? enough : 2 * n;
        h->n_allocated = 0;
        MSI_TRY(msi_grow(&h->row, h->n, more, sizeof *h->row, "rows"));
        MSI_TRY(msi_grow(&h->data, h->n * n_sample, more * n_sample, sizeof *h->data, "rows"));
        MSI_TRY(msi_grow(&h->weight, h->n * n_sample, more * n_sample, sizeof *h->weight, "rows"));
        MSI_TRY(msi_grow(&h->flag, h->n * n_sample, more * n_sample, sizeof *h->flag, "rows"));
        h->n_allocated = more;
        h->n_chan = rows->n_chan;
        h->n_corr = rows->n_corr;
    }
    memcpy(h->row + h->n, rows->row, (size_t)rows->n_row * sizeof *h->row);
    memcpy(h->data + h->n * n_sample, rows->data, (size_t)(rows->n_row * n_sample) * sizeof *h->data);
    memcpy(h->weight + h->n * n_sample, rows->weight, (size_t)(rows->n_row * n_sample) * sizeof *h->weight);
    memcpy(h->flag + h->n * n_sample, rows->flag, (size_t)(rows->n_row * n_sample));
    h->n = n;
    return MSI_OK;
}

/* Ask whether rows make a call of casacore worth its time. */
static int are_many(const msi_set_rows *rows, int64_t n)
{
    return n * rows->n_chan * rows->n_corr * (int64_t)sizeof(msi_c32) >= HELD_BYTES;
}

int msi_set_output_put(msi_set_output *o, const msi_set_rows *rows)
{
    const held_rows *h = &o->held;
    if (rows->n_row == 0) return MSI_OK;
    const int is_alike = h->n_chan == rows->n_chan && h->n_corr == rows->n_corr;
    const int goes_alone = are_many(rows, rows->n_row);
    if (h->n && (goes_alone || !is_alike)) MSI_TRY(write_held(o));
    if (goes_alone) return write_rows(o, rows);
    MSI_TRY(hold(o, rows));
    return are_many(rows, h->n) ? write_held(o) : MSI_OK;
}

int64_t msi_set_output_n_row(const msi_set_output *o)
{
    return o->n_row + o->held.n;
}

const double *msi_set_output_antenna_m(const msi_set_output *o)
{
    return o->antenna_m;
}

int msi_set_output_finish(msi_set_output *o)
{
    MSI_TRY(write_held(o));
    ccc_table *t = o->table;
    o->table = NULL;
    return msi_set_written(ccc_table_close(t));
}

void msi_set_output_free(msi_set_output *o)
{
    if (!o) return;
    ccc_table_close(o->table);
    msi_set_maps_free(o->maps);
    msi_free(o->antenna_m);
    msi_free(o->held.row);
    msi_free(o->held.data);
    msi_free(o->held.weight);
    msi_free(o->held.flag);
    for (int i = 0; i < N_ROW_COLUMN; i++) msi_free(o->ahead.column[i].value);
    msi_free(o->column);
    msi_free(o->between);
    msi_free(o);
}
