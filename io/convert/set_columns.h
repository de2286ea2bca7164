/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Columns of the main table of a set that is made, and where their values are in msi_set_row. */
#ifndef MSI_IO_SET_COLUMNS_H
#define MSI_IO_SET_COLUMNS_H

#include <stddef.h>
#include <string.h>

#include "io/casacore-c/casacore_c.h"
#include "io/convert/set_output.h"

typedef enum msi_set_column_kind {
    MSI_SET_OF_ROW,
    MSI_SET_OF_MEAN,
    MSI_SET_OF_TIME,
    MSI_SET_STEADY
} msi_set_column_kind;

typedef struct msi_set_column {
    const char *name;
    ccc_type type;
    size_t offset; /* of the value in msi_set_row */
    int n;         /* elements; 0: of a correlation each */
    int is_needed; /* of a set that is read */
    msi_set_column_kind kind;
} msi_set_column;

/* Columns whose values a block has not come first. */
enum { MSI_SET_N_ROW_COLUMN = 15, MSI_SET_N_COLUMN = 19 };

extern const msi_set_column msi_set_columns[MSI_SET_N_COLUMN];

static inline size_t msi_set_bytes_of(ccc_type type)
{
    return type == CCC_BOOL ? 1 : type == CCC_DOUBLE ? sizeof(double) : sizeof(int32_t);
}

/* msi_set_copy_column - copy n values of so many bytes, each so many bytes behind the one before. */
void msi_set_copy_column(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size);

/* msi_set_grow - have room for so many bytes, which need not keep what is in it. Returns: 0, MSI_ENOMEM. */
int msi_set_grow(char **room, int64_t *n_allocated, int64_t bytes);

#endif
