/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writes one column of one Measurement Set: plan, prepare, complete. */
#ifndef MSI_MS_COLUMN_H
#define MSI_MS_COLUMN_H

#include <stdint.h>

#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_writer.h"

enum {
    MSI_COLUMN_NAME = 64,
    MSI_COLUMN_MOST_OLD = 16 /* a run removes at most this many old columns */
};

/* The methods of writing, which ms_writer.h describes. */
typedef enum msi_ms_column_method { MSI_COLUMN_NEW, MSI_COLUMN_SWAPPED, MSI_COLUMN_IN_PLACE } msi_ms_column_method;

/* The stages of a column, in this order. */
typedef enum msi_ms_column_stage {
    MSI_COLUMN_PLANNED, /* the set is unchanged */
    MSI_COLUMN_FILLING, /* the set is unchanged; files are being written that table.dat does not refer to */
    MSI_COLUMN_JOINING, /* table.dat is being replaced by one that refers to the files */
    MSI_COLUMN_MARKED,  /* the mark of the column is set, or is being set */
    MSI_COLUMN_COMPLETE /* the column is complete and has no mark */
} msi_ms_column_stage;

/* A column. It is in shared memory and has no pointers, so that the parent can clean up after a child that has
 * ended. */
typedef struct msi_ms_column {
    msi_ms_column_method method;
    volatile int stage;   /* msi_ms_column_stage */
    volatile int touched; /* in place: 1 after values have been written */
    int was_marked;       /* 1: an earlier run has left a mark */
    int has_virtual_model;
    int manager_file;            /* N of table.fN; -1 while there is none */
    uint64_t table_dat;          /* inode of table.dat, which changes when the file is replaced */
    uint32_t mode, owner, group; /* mode, owner and group of table.dat, which new files get too */
    int is_shared;               /* in place: 1 if a data file has links, so that another set has it too */
    int64_t n_row, disk_bytes;
    int is_fixed_shape;    /* new or swapped: all cells have cell_shape, by the description of the column */
    int64_t cell_shape[2]; /* n_corr, n_chan */
    int64_t tile_shape[3]; /* n_corr, n_chan, n_row */
    char shape_column[MSI_COLUMN_NAME]; /* name of the column whose cells have the shapes for this one */
    char old_name[MSI_COLUMN_NAME];     /* swapped: new name of the old column */
    int is_lossy;                       /* swapped: the manager of the old column stores approximate values */
    int n_old;                          /* number of columns to remove when this one is complete */
    char old_columns[MSI_COLUMN_MOST_OLD][MSI_COLUMN_NAME];
    /* 1: old columns are being removed; 1: they are removed, or there were none */
    volatile int is_dropping, is_dropped;
    int last_manager; /* during the removal: highest N among the storage managers before it */
    char mark[512], marked_selection[MSI_MS_MAX_SELECTION]; /* mark and selection of an earlier run */
} msi_ms_column;

/* msi_ms_column_check - check a specification, without a set. Returns: 0, MSI_EARGUMENT. */
int msi_ms_column_check(const msi_ms_write_spec *spec);

/* msi_ms_column_is_protected - return 1 for a standard column that is not for models; it is never written. */
int msi_ms_column_is_protected(const char *name);

/*
 * msi_ms_column_check_links - fail if a file that casacore replaces or rewrites is a link, because the link's target
 * would be written. Call it before a set is opened for writing.
 * Returns: 0, MSI_EINPUT
 */
int msi_ms_column_check_links(const char *path);

/*
 * msi_ms_column_plan - check an open set against the specification and choose the method. Changes nothing.
 * Returns: 0, MSI_EARGUMENT, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_ms_column_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_prepare - make the files of the column and reserve their space, or set and sync the mark.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM; on failure the caller abandons the column
 */
int msi_ms_column_prepare(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_complete - after the data are synced, add the new column or remove the mark. This process must not have
 * written into the table since prepare.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_ms_column_complete(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_abandon - remove the files of a column that was not added, or the mark of a column without written
 * values.
 *
 * Given: path  of the set
 *        t     NULL if the process that had opened it has ended; then a mark is not removed
 */
void msi_ms_column_abandon(msi_ms_column *c, const char *path, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_column_files - open the data files of the column, for syncing.
 * Returned: *fd [*n], freed by msi_free; *n is 0 if the column has none
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_ms_column_files(const msi_ms_column *c, const char *path, int **fd, int *n);

/* ---- Removal of old columns of predictions (ms_drop.c) ---- */

/* Keyword of old columns of predictions. */
#define MSI_COLUMN_ASIDE "MSIMAGE_OLD"

/*
 * msi_ms_drop_plan - list the columns to remove: old columns of earlier predictions, and the column that this run
 * replaces. Changes nothing.
 * Given and returned: c  n_old, old_columns
 * Returns: 0; MSI_EINPUT (one cannot be removed), MSI_ENOMEM
 */
int msi_ms_drop_plan(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/*
 * msi_ms_drop_columns - remove the listed columns, after the column of this run is complete.
 * Given: t  open and locked; not usable afterwards
 * Returns: 0; MSI_EOUTPUT, MSI_ENOMEM: no column is removed
 */
int msi_ms_drop_columns(msi_ms_column *c, ccc_table *t, const msi_ms_write_spec *spec);

/* msi_ms_drop_abandon - remove the directory and files of a removal whose process has ended. c is in the state of that
 * process. */
void msi_ms_drop_abandon(msi_ms_column *c, const char *path);

/* msi_ms_drop_leftovers - remove the directory and files that a killed run has left in a set, which is open and locked.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM */
int msi_ms_drop_leftovers(ccc_table *t);

/* msi_ms_drop_links - return the number of links to a file of the set that are in the directory: 0 or 1. */
int msi_ms_drop_links(int set_fd, const char *name);

/* msi_ms_column_copy_mode - give an open file the owner and mode of table.dat, if the system allows it. */
void msi_ms_column_copy_mode(const msi_ms_column *c, int fd);

#endif
