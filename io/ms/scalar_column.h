/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Scalar columns that casacore's StandardStMan and IncrementalStMan keep in the buckets of a file. They are read without
 * casacore. The format follows casacore's sources (tables/DataMan, SSMBase.cc, SSMIndex.cc, ISMBase.cc, ISMBucket.cc): the
 * headers that casacore 2 and later write.
 */
#ifndef MSI_SCALAR_COLUMN_H
#define MSI_SCALAR_COLUMN_H

#include <stdint.h>

/* Types of values that are read. */
typedef enum msi_scalar_type {
    MSI_SCALAR_NONE, /* another type, or a column that is stored in another way */
    MSI_SCALAR_BOOL, /* a bit; read as a byte, 0 or 1 */
    MSI_SCALAR_INT32,
    MSI_SCALAR_DOUBLE
} msi_scalar_type;

/* The storage of a column by table.dat. Zero-initialised: it is not known. */
typedef struct msi_scalar_place {
    int32_t type; /* msi_scalar_type */
    int32_t is_incremental;
    int32_t is_little;        /* numbers of the table are little-endian */
    int32_t number;           /* N of the file table.fN */
    int32_t column, n_column; /* number of the column among those of the manager, and their count */
    int64_t list, offset;     /* StandardStMan: the list of buckets, and the first byte of the column in a bucket */
} msi_scalar_place;

/* Columns of one table. One thread at a time may read them. */
typedef struct msi_scalar_columns msi_scalar_columns;

/*
 * msi_scalar_place_standard - fill list and offset of a place from what table.dat has of its StandardStMan, bytes [n].
 * Returned: place->type becomes MSI_SCALAR_NONE if that is not recognised
 */
void msi_scalar_place_standard(msi_scalar_place *place, const unsigned char *bytes, int64_t n);

/*
 * msi_scalar_columns_open - open the files of columns, and check all fields of their headers and indices against the
 * places, the number of rows and the sizes of the files.
 * Given:    table  directory; place [n]; n_row  of the table
 * Returned: *out   owned, msi_scalar_columns_free. Columns of which anything is unknown or contradictory are not read
 * Returns:  0, MSI_ENOMEM
 */
int msi_scalar_columns_open(msi_scalar_columns **out, const char *table, const msi_scalar_place *place, int n,
                            int64_t n_row);

/*
 * msi_scalar_columns_read - read rows [row, row + n_row) of column i.
 * Given:    end  rows before this one are probably read next, perhaps of other columns of the manager
 * Returned: out  [n_row] of the column's type
 * Returns:  1; 0 if the column must be read by casacore, which finds the words for what is wrong
 */
int msi_scalar_columns_read(msi_scalar_columns *c, int i, int64_t row, int64_t n_row, int64_t end, void *out);

/* msi_scalar_columns_free - close the files; NULL is fine. */
void msi_scalar_columns_free(msi_scalar_columns *c);

#endif
