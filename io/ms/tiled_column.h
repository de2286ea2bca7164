/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads columns of numbers without casacore, by any number of threads, if one of casacore's tiled storage managers
 * stores them in plain files: TiledShapeStMan, TiledColumnStMan or TiledCellStMan. The format follows casacore's
 * sources (tables/DataMan, TiledStMan.cc to TSMCube.cc), versions 1 to 3 of its headers.
 */
#ifndef MSI_TILED_COLUMN_H
#define MSI_TILED_COLUMN_H

#include <stdint.h>

/* The types of values that can be read. */
typedef enum msi_tiled_type {
    MSI_TILED_NONE, /* another type, or a column that is not tiled */
    MSI_TILED_BOOL, /* one bit each in files; read as one byte, 0 or 1 */
    MSI_TILED_FLOAT,
    MSI_TILED_DOUBLE,
    MSI_TILED_COMPLEX /* two floats */
} msi_tiled_type;

typedef enum msi_tiled_manager {
    MSI_TILED_SHAPE,
    MSI_TILED_COLUMN,
    MSI_TILED_CELL,
    MSI_TILED_N_MANAGER
} msi_tiled_manager;

/* Names of the storage managers in casacore. */
extern const char *const msi_tiled_manager_names[MSI_TILED_N_MANAGER];

/* How a column is stored, according to the table's description. Zero-initialised: it cannot be read directly. */
typedef struct msi_tiled_place {
    int32_t type, manager; /* msi_tiled_type, msi_tiled_manager */
    int32_t number;        /* N of the files table.fN and table.fN_TSM0 .. */
} msi_tiled_place;

typedef struct msi_tiled_column msi_tiled_column;

/* Memory of a reading thread, kept between calls. Zero-initialised: empty; freed by msi_tiled_scratch_free. */
typedef struct msi_tiled_scratch {
    char *bytes;
    int64_t n_byte;
} msi_tiled_scratch;

/*
 * msi_tiled_column_open - open a column's files, and check every field of its header against `place`, the number of
 * rows and the sizes of the files.
 * Given:    table  directory; n_row  of the table
 * Returned: *out   owned, msi_tiled_column_free; NULL if anything is unknown or contradictory. casacore must then read
 *                  the column, and reports what is wrong
 * Returns:  0, MSI_ENOMEM
 * Notes:    only the header is read. If a file shrinks later, reading it gives MSI_EINPUT.
 */
int msi_tiled_column_open(msi_tiled_column **out, const char *table, const msi_tiled_place *place, int64_t n_row);

/*
 * msi_tiled_column_alike - count the rows from `row` on, at most n_row, whose cells have the same shape.
 * Returned: shape [2]  shape of the cell of `row`; {0, 0} if it has no value; {n, 1} if it has one dimension
 * Returns:  the number of rows, at least 1
 */
int64_t msi_tiled_column_alike(const msi_tiled_column *c, int64_t row, int64_t n_row, int64_t shape[2]);

/*
 * msi_tiled_column_read - read values [first, first + n) along the second axis of the cells of some rows.
 * Given:    row [n_row]  ascending, all with cells of shape {n_first, at least first + n}
 * Returned: out [n_row][n][n_first]  of the type's size
 * Returns:  0, MSI_EINPUT (a file is shorter than before, or cannot be read), MSI_ENOMEM, MSI_EINTERNAL (a cell has no
 *           value, or another shape)
 */
int msi_tiled_column_read(const msi_tiled_column *c, const int64_t *row, int64_t n_row, int64_t n_first, int64_t first,
                          int64_t n, msi_tiled_scratch *scratch, void *out);

/* msi_tiled_column_free - close the files; NULL is fine. */
void msi_tiled_column_free(msi_tiled_column *c);

void msi_tiled_scratch_free(msi_tiled_scratch *s);

#endif
