/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One column of one Measurement Set is planned, prepared, and completed when it is written. */
#ifndef MSI_IO_MS_COLUMN_H
#define MSI_IO_MS_COLUMN_H

#include <stdint.h>

#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_writer.h"

enum {
    MSI_COLUMN_NAME = 64,
    MSI_COLUMN_MOST_OLD = 16 /* that one run removes */
};

/* ms_writer.h describes the three ways. */
typedef enum msi_ms_column_method { MSI_COLUMN_NEW, MSI_COLUMN_SWAPPED, MSI_COLUMN_IN_PLACE } msi_ms_column_method;

/* A column passes these stages in this order. */
typedef enum msi_ms_column_stage {
    MSI_COLUMN_PLANNED, /* the set is as it was */
    MSI_COLUMN_FILLING, /* the set is as it was; files that its table.dat does not know are being made */
    MSI_COLUMN_JOINING, /* table.dat is being replaced by one that knows them */
    MSI_COLUMN_MARKED,  /* the column is marked, or about to be */
    MSI_COLUMN_COMPLETE /* no mark, all there */
} msi_ms_column_stage;

/* A column lies in shared memory and holds no pointers, so that the parent can tidy up for a child that is gone. */
typedef struct msi_ms_column {
    msi_ms_column_method method;
    volatile int stage;   /* msi_ms_column_stage */
    volatile int touched; /* written in place: values have been written */
    int was_marked;       /* by an earlier run */
    int has_virtual_model;
    int manager_file;            /* N of table.fN; -1 while there is none */
    uint64_t table_dat;          /* inode, which changes when table.dat is replaced */
    uint32_t mode, owner, group; /* of table.dat: those of every file that is made */
    int is_shared;               /* written in place: a data file is another set's too, by a link */
    int64_t n_row, disk_bytes;
    int is_fixed_shape;             /* new or swapped: every cell is of cell_shape, by the description of the column */
    int64_t cell_shape[2];          /* n_corr, n_chan */
    int64_t tile_shape[3];          /* n_corr, n_chan, n_row */
    char like[MSI_COLUMN_NAME];     /* the column whose cells give the shape of this one's */
    char old_name[MSI_COLUMN_NAME]; /* swapped: the name that the old column gets */
    int is_lossy;                   /* swapped: the old column's manager keeps values approximately */
    int n_old;                      /* columns that go when this one is complete */
    char old_columns[MSI_COLUMN_MOST_OLD][MSI_COLUMN_NAME];
    volatile int is_dropping, is_dropped; /* they are being removed; they are gone, or there were none */
    int last_manager;                     /* while they are: the highest N of the set's managers before that */
    char mark[512], marked_selection[MSI_MS_MAX_SELECTION]; /* of the earlier run */
} msi_ms_column;

/* msi_ms_column_check - refuse what is wrong with a specification whatever the set. Returns: 0, MSI_EARGUMENT. */
int msi_ms_column_check(const msi_ms_write_spec *spec);

/* msi_ms_column_is_protected - return 1 for a standard column that is not for models, and never written. */
int msi_ms_column_is_protected(const char *name);

/*
 * msi_ms_column_check_links - fail where a file that casacore replaces or rewrites is a link: it would follow it to
 * whatever lies there. Before a set is opened to be written.
 * Returns: 0, MSI_EINPUT
 */
int msi_ms_column_check_links(const char *path);

/*
 * msi_ms_column_plan - check an open set against the specification and choose the way. Changes nothing.
 * Returns: 0, MSI_EARGUMENT, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_ms_column_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_prepare - make the column's files and reserve their space, or put the mark and sync it.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM; on failure the caller abandons the column
 */
int msi_ms_column_prepare(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_complete - bring in the new column, or take away the mark; the data are synced. The table must not
 * have been put into by this process since prepare.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_ms_column_complete(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_abandon - remove the files of a column that did not join its table, and the mark of one in which
 * nothing has been written.
 *
 * Given: path  of the set
 *        t     NULL after the process that had it open is gone: then a mark stays
 */
void msi_ms_column_abandon(msi_ms_column *c, const char *path, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_files - open the data files of the column, for syncing.
 * Returned: *fd [*n], freed by msi_free; *n is 0 where there are none
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_ms_column_files(const msi_ms_column *c, const char *path, int **fd, int *n);

/* msi_ms_column_keep_mode - give an open file the owner and mode that table.dat had, where the system lets it. */
void msi_ms_column_keep_mode(const msi_ms_column *c, int fd);

/* msi_ms_column_is_shared - return 1 where a data file of the column is a symbolic link, or has another name. */
int msi_ms_column_is_shared(const msi_ms_column *c, const char *path);

/* msi_ms_write_failed - return the status for what a ccc function returned while writing, with its message. */
int msi_ms_write_failed(int ccc_status);

#define MSI_CCC_WRITE(expr)                                                                                            \
    do {                                                                                                               \
        int msi_ccc_status_ = (expr);                                                                                  \
        if (msi_ccc_status_ != CCC_OK) return msi_ms_write_failed(msi_ccc_status_);                                    \
    } while (0)

#endif
