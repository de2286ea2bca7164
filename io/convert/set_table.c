/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows of one shape are declared so, which spares casacore a shape for each row. Values that many rows share are
 * IncrementalStMan's, which stores changes; the others of a row StandardStMan's, which takes each by itself.
 */
#include "io/convert/set_table.h"

#include "core/types.h"
#include "io/convert/set_subtables.h"

enum {
    TILE_BYTES = 1 << 20, /* of visibilities */
    BUCKET_BYTES =
        1 << 18, /* of thousands of rows: casacore keeps but two buckets, and each column visits all of them */
    MOST_COLUMNS = 8
};

/* Columns of a shape, each with a tiled manager of its own, and the steady ones. */
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

/* Plan a column of cells [n1][n0], or [n0] where n1 is 0, in tiles of some rows. */
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

int msi_set_table_make(ccc_table **table, const char *path, const msi_set_table_spec *spec)
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
