/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writes the tables of a set: subtables copied from other sets, and rows. casacore runs in the calling process. */
#ifndef MSI_SET_WRITER_H
#define MSI_SET_WRITER_H

#include <stddef.h>
#include <string.h>

#include "io/casacore-c/casacore_c.h"
#include "io/convert/set_maps.h"
#include "io/convert/set_output.h"

/* How often the values of a column change. */
typedef enum msi_set_column_kind {
    MSI_SET_PER_ROW,          /* in each row */
    MSI_SET_PER_AVERAGED_ROW, /* in each row if rows are averages, otherwise rarely */
    MSI_SET_PER_TIME,         /* with the time; in each row if rows of one time may differ */
    MSI_SET_CONSTANT          /* rarely */
} msi_set_column_kind;

/* A column of the main table, and its value in msi_set_row. */
typedef struct msi_set_column {
    const char *name;
    ccc_type type;
    size_t offset; /* offset of the value in msi_set_row */
    int n;         /* number of elements; 0: one per correlation */
    int is_needed; /* 1: the sets that are read must have it */
    msi_set_column_kind kind;
} msi_set_column;

/* Columns whose values are not in a block come first. */
enum { MSI_SET_N_ROW_COLUMN = 15, MSI_SET_N_COLUMN = 19 };

extern const msi_set_column msi_set_columns[MSI_SET_N_COLUMN];

static inline size_t msi_set_bytes_of(ccc_type type)
{
    return type == CCC_BOOL ? 1 : type == CCC_DOUBLE ? sizeof(double) : sizeof(int32_t);
}

/* msi_set_copy_column - copy n values of `size` bytes, whose distances are to_step and from_step bytes. */
void msi_set_copy_column(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size);

/*
 * msi_set_grow - make a buffer at least `bytes` bytes long. Its contents are lost.
 * Given and returned: *buffer       owned by the caller, freed by msi_free; NULL: not yet allocated
 *                     *n_allocated  its length in bytes
 * Returns:            0, MSI_ENOMEM
 */
int msi_set_grow(char **buffer, int64_t *n_allocated, int64_t bytes);

typedef struct msi_set_writer msi_set_writer;

/*
 * msi_set_writer_make - make the set with its subtables, without rows.
 * Given:              path, reader, spec  as in msi_set_output_make
 * Given and returned: maps   of all sets with rows, by msi_set_maps_add; their offsets are set
 * Returned:           *out   owned, freed by msi_set_writer_free
 * Returns:            0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_writer_make(msi_set_writer **out, const char *path, const msi_ms_reader *reader,
                        const msi_set_output_spec *spec, msi_set_maps *maps);

/* msi_set_writer_put - write rows. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM. */
int msi_set_writer_put(msi_set_writer *w, const msi_set_rows *rows);

/* msi_set_writer_finish - close the set. Returns: 0, MSI_EOUTPUT. */
int msi_set_writer_finish(msi_set_writer *w);

/* msi_set_writer_free - close everything; NULL is fine. */
void msi_set_writer_free(msi_set_writer *w);

#endif
