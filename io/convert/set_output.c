/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/set_output.h"

#include <stddef.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/convert/set_maps.h"
#include "io/convert/set_subtables.h"

enum {
    TILE_BYTES = 1 << 20, /* of visibilities */
    SPARSE = 8            /* rows between those that are wanted are read with them up to so many times as many */
};

struct msi_set_output {
    ccc_table *table;
    msi_set_maps *maps;
    int has_weight_spectrum, has_keywords;
    int64_t n_row;
    double *antenna_m; /* [n_antenna][3] */
    int64_t n_antenna;
    char *column, *between; /* room for a column of rows */
    int64_t n_column_allocated, n_between_allocated;
};

/* ---- Make ---- */

static void tiled(ccc_storage *s, const char *const *column, const char *type, int64_t n0, int64_t n1)
{
    const int64_t row_bytes = n0 * n1 * (int64_t)sizeof(msi_c32);
    const int64_t rows = TILE_BYTES / row_bytes > 1 ? TILE_BYTES / row_bytes : 1;
    *s = (ccc_storage){.type = type, .n_column = 1, .columns = column, .tile_ndim = n1 > 0 ? 3 : 2};
    s->tile_shape[0] = n0;
    s->tile_shape[1] = n1;
    s->tile_shape[2] = rows;
}

static void tiled_rows(ccc_storage *s, const char *const *column, const char *type, int64_t n0)
{
    *s = (ccc_storage){.type = type, .n_column = 1, .columns = column, .tile_ndim = 2};
    s->tile_shape[0] = n0;
    s->tile_shape[1] = TILE_BYTES / 8 / (8 * n0);
}

static int make_table(msi_set_output *out, const char *path, const msi_ms_reader *reader,
                      const msi_set_output_spec *spec)
{
    static const char *const names[] = {"DATA", "FLAG", "WEIGHT", "SIGMA", "UVW", "WEIGHT_SPECTRUM"};
    enum { DATA, FLAG, WEIGHT, SIGMA, UVW, SPECTRUM, N };
    ccc_storage storage[N];
    ccc_column_spec column[] = {{.name = "DATA", .type = CCC_COMPLEX, .ndim = 2},
                                {.name = "WEIGHT_SPECTRUM", .type = CCC_FLOAT, .ndim = 2}};
    int64_t n_chan = 1, n_corr = 1;
    for (int i = 0; i < reader->n_spw; i++) {
        if (spec->groups[i].n_group > n_chan) n_chan = spec->groups[i].n_group;
        if (reader->spw[i].n_corr > n_corr) n_corr = reader->spw[i].n_corr;
    }
    tiled(&storage[DATA], &names[DATA], "TiledShapeStMan", n_corr, n_chan);
    tiled(&storage[FLAG], &names[FLAG], "TiledShapeStMan", n_corr, n_chan);
    tiled(&storage[SPECTRUM], &names[SPECTRUM], "TiledShapeStMan", n_corr, n_chan);
    tiled_rows(&storage[WEIGHT], &names[WEIGHT], "TiledShapeStMan", n_corr);
    tiled_rows(&storage[SIGMA], &names[SIGMA], "TiledShapeStMan", n_corr);
    tiled_rows(&storage[UVW], &names[UVW], "TiledColumnStMan", 3);
    const int with = spec->has_weight_spectrum != 0;
    return msi_set_written(ccc_ms_create(&out->table, path, column, 1 + with, storage, N - !with));
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

/* A column of the main table, and where its values go in msi_set_row. */
typedef struct row_column {
    const char *name;
    ccc_type type;
    size_t offset;
    int n; /* elements; 0: of a correlation each */
    int is_needed;
} row_column;

#define AT(member) offsetof(msi_set_row, member)

static const row_column row_columns[] = {
    {"ANTENNA1", CCC_INT32, AT(antenna1), 1, 1},
    {"ANTENNA2", CCC_INT32, AT(antenna2), 1, 1},
    {"FEED1", CCC_INT32, AT(feed1), 1, 0},
    {"FEED2", CCC_INT32, AT(feed2), 1, 0},
    {"ARRAY_ID", CCC_INT32, AT(array), 1, 0},
    {"OBSERVATION_ID", CCC_INT32, AT(observation), 1, 0},
    {"PROCESSOR_ID", CCC_INT32, AT(processor), 1, 0},
    {"SCAN_NUMBER", CCC_INT32, AT(scan), 1, 0},
    {"STATE_ID", CCC_INT32, AT(state), 1, 0},
    {"FLAG_ROW", CCC_BOOL, AT(flag_row), 1, 0},
    {"TIME_CENTROID", CCC_DOUBLE, AT(centroid_s), 1, 0},
    {"INTERVAL", CCC_DOUBLE, AT(interval_s), 1, 1},
    {"EXPOSURE", CCC_DOUBLE, AT(exposure_s), 1, 0},
    {"WEIGHT", CCC_FLOAT, AT(weight), 0, 1},
    {"SIGMA", CCC_FLOAT, AT(sigma), 0, 0},
};

static size_t bytes_of(ccc_type type)
{
    return type == CCC_BOOL ? 1 : type == CCC_DOUBLE ? sizeof(double) : sizeof(int32_t);
}

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

static int describe_column(msi_set_output *o, ccc_table *t, const row_column *c, const msi_ms_block *b,
                           msi_set_row *row)
{
    const int64_t n_element = c->n ? c->n : b->n_corr;
    const size_t one = bytes_of(c->type);
    if (!c->is_needed && !ccc_table_has_column(t, c->name)) return MSI_OK;
    MSI_TRY(read_column(o, t, c, b, n_element));
    for (int64_t i = 0; i < b->n_row; i++)
        memcpy((char *)&row[i] + c->offset, o->column + (size_t)(i * n_element) * one, (size_t)n_element * one);
    return MSI_OK;
}

static int32_t mapped(const int32_t *map, int32_t n, int32_t id)
{
    return id >= 0 && id < n ? map[id] : id;
}

int msi_set_output_describe(msi_set_output *o, const msi_ms_reader *reader, const msi_ms_block *b, msi_set_row *row)
{
    const msi_set_map *m = msi_set_maps_of(o->maps, b->set);
    ccc_table *t = reader->set[b->set].table;
    memset(row, 0, (size_t)b->n_row * sizeof *row);
    for (int64_t i = 0; i < b->n_row; i++) row[i].centroid_s = b->time_s[i];
    for (size_t c = 0; c < sizeof row_columns / sizeof *row_columns; c++)
        MSI_TRY(describe_column(o, t, &row_columns[c], b, row));
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

static int put_column(msi_set_output *o, const msi_set_rows *rows, const row_column *c)
{
    const int64_t n = rows->n_row, n_element = c->n ? c->n : rows->n_corr;
    const size_t size = bytes_of(c->type) * (size_t)n_element;
    const int ndim = c->n != 1;
    MSI_TRY(grow(&o->column, &o->n_column_allocated, n * (int64_t)size));
    for (int64_t i = 0; i < n; i++) memcpy(o->column + (size_t)i * size, (const char *)&rows->row[i] + c->offset, size);
    return msi_set_written(
        ccc_put_range(o->table, c->name, o->n_row, n, ndim, ndim ? &n_element : NULL, NULL, c->type, o->column));
}

int msi_set_output_put(msi_set_output *o, const msi_set_rows *rows)
{
    static const row_column others[] = {{"TIME", CCC_DOUBLE, AT(time_s), 1, 1},
                                        {"FIELD_ID", CCC_INT32, AT(field), 1, 1},
                                        {"DATA_DESC_ID", CCC_INT32, AT(data_desc), 1, 1},
                                        {"UVW", CCC_DOUBLE, AT(uvw_m), 3, 1}};
    const int64_t shape[] = {rows->n_corr, rows->n_chan}, at = o->n_row, n = rows->n_row;
    if (n == 0) return MSI_OK;
    MSI_TRY(msi_set_written(ccc_table_add_rows(o->table, n)));
    for (size_t c = 0; c < sizeof row_columns / sizeof *row_columns; c++) MSI_TRY(put_column(o, rows, &row_columns[c]));
    for (size_t c = 0; c < sizeof others / sizeof *others; c++) MSI_TRY(put_column(o, rows, &others[c]));
    MSI_TRY(msi_set_written(ccc_put_range(o->table, "DATA", at, n, 2, shape, NULL, CCC_COMPLEX, rows->data)));
    MSI_TRY(msi_set_written(ccc_put_range(o->table, "FLAG", at, n, 2, shape, NULL, CCC_BOOL, rows->flag)));
    if (o->has_weight_spectrum)
        MSI_TRY(msi_set_written(
            ccc_put_range(o->table, "WEIGHT_SPECTRUM", at, n, 2, shape, NULL, CCC_FLOAT, rows->weight)));
    o->n_row += n;
    return MSI_OK;
}

int64_t msi_set_output_n_row(const msi_set_output *o)
{
    return o->n_row;
}

const double *msi_set_output_antenna_m(const msi_set_output *o)
{
    return o->antenna_m;
}

int msi_set_output_finish(msi_set_output *o)
{
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
    msi_free(o->column);
    msi_free(o->between);
    msi_free(o);
}
