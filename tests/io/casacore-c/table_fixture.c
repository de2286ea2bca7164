/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/io/casacore-c/table_fixture.h"

#include <stdio.h>

void in_temp(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", temp_folder, name);
}

void make_table(ccc_table **t, const char *path)
{
    static const char *const tiled[] = {"CUBE"}, *const shaped[] = {"SHAPED"}, *const slow[] = {"ID"};
    const ccc_column_spec columns[] = {
        {.name = "ID", .type = CCC_INT32},
        {.name = "VALUE", .type = CCC_DOUBLE},
        {.name = "GOOD", .type = CCC_BOOL},
        {.name = "WORD", .type = CCC_STRING},
        {.name = "WORDS", .type = CCC_STRING, .ndim = 1},
        {.name = "CUBE", .type = CCC_COMPLEX, .ndim = 2, .is_fixed_shape = 1, .shape = {4, 6}},
        {.name = "SHAPED", .type = CCC_FLOAT, .ndim = 2},
        {.name = "ANY", .type = CCC_INT16, .ndim = -1}};
    const ccc_storage storage[] = {
        {.type = "TiledColumnStMan", .n_column = 1, .columns = tiled, .tile_ndim = 3, .tile_shape = {4, 3, 16}},
        {.type = "TiledShapeStMan",
         .name = "mine",
         .n_column = 1,
         .columns = shaped,
         .tile_ndim = 3,
         .tile_shape = {4, 4, 16}},
        {.type = "IncrementalStMan", .n_column = 1, .columns = slow}};
    OK(ccc_table_create(t, path, columns, 8, storage, 3));
    OK(ccc_table_add_rows(*t, N_ROW));
}

void fill_table(ccc_table *t)
{
    int32_t id[N_ROW];
    double value[N_ROW];
    float cube[N_ROW][6][4][2], shaped[8];
    const int64_t cell[2] = {4, 6};
    for (int i = 0; i < N_ROW; i++) {
        id[i] = i / 10;
        value[i] = i + 0.5;
        for (int c = 0; c < 6; c++)
            for (int p = 0; p < 4; p++) {
                cube[i][c][p][0] = (float)i;
                cube[i][c][p][1] = (float)(10 * c + p);
            }
    }
    OK(ccc_put_range(t, "ID", 0, N_ROW, 0, NULL, NULL, CCC_INT32, id));
    OK(ccc_put_range(t, "VALUE", 0, N_ROW, 0, NULL, NULL, CCC_DOUBLE, value));
    OK(ccc_put_range(t, "CUBE", 0, N_ROW, 2, cell, NULL, CCC_COMPLEX, cube));
    /* Rows 0 to 49 have 2 x 3, 50 to 89 have 2 x 4, the last ten no value. */
    for (int i = 0; i < 90; i++) {
        const int64_t shape[2] = {2, i < 50 ? 3 : 4};
        for (int k = 0; k < 8; k++) shaped[k] = (float)(100 * i + k);
        OK(ccc_put_array(t, "SHAPED", i, 2, shape, CCC_FLOAT, shaped));
    }
}

ccc_table *filled_table(char *path, size_t size, const char *name)
{
    ccc_table *t;
    in_temp(path, size, name);
    make_table(&t, path);
    fill_table(t);
    return t;
}
