/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writes predicted visibilities into a column of one or several Measurement Sets. Other contents of the sets are not
 * changed.
 *
 * Processes. casacore ends the process if a disk fails at the wrong moment, so it never writes in the caller's process.
 * msi_ms_writer_start forks the first writer process. It opens the sets, has their write locks, and is the only process
 * that changes their headers (table.dat). Before the first visibility it forks the second writer process, which only
 * writes values into data files. Blocks are passed in shared memory. The second process ends without a flush, and in
 * the first one the tables stay unmodified in memory. So the first one can replace table.dat without rewriting the
 * header of a storage manager.
 *
 * Files that casacore 3.5 changes (traced):
 *   table.dat   after a change of keywords or columns, table.dat_tmp is written and renamed to table.dat.
 *   table.info  rewritten in place at the first flush of a table (casacore_c prevents this).
 *   table.lock  written at every flush. If a kill stops this while the number of columns changes, no program can lock
 *               the table again (ccc_table_forget_changes prevents this).
 *   table.fN    the header of a tiled column with new values is truncated and rewritten in place at the next flush. A
 *               kill at this moment would lose the whole table. Other storage managers are not changed.
 *
 * So there are three methods to write a column:
 *
 *   new       The column does not exist. Its files (table.fN, table.fN_TSM1 ..) are made and written before table.dat
 *             refers to them. At the end, one rename of table.dat adds the complete column. Until then the set does not
 *             change, so no mark is needed.
 *   swapped   The column shares its storage manager with others (except as under "in place"), or its manager is not
 *             tiled (such as DyscoStMan, which also loses precision), or some of its cells have no value. The new
 *             column is made as above, and the same rename gives the old column the name <COLUMN>_OLD_1 (or _2 ..). The
 *             old column stays, unless it is to be removed afterwards (ms_column.h). Cells that are not predicted are
 *             copied from it.
 *   in place  The column has its own tiled storage manager, or is in a TiledDataStMan, whose tiles have several
 *             columns. In the latter case casacore writes the bytes of the other columns back as it read them; no other
 *             process writes meanwhile, since the second writer process ends with the first one, which has the lock.
 *             Before the first byte is changed, the mark, main-table keyword MSIMAGE_PREDICT, is set and synced. It is
 *             removed after the data are synced. A run that is killed in between leaves the mark; repeating the run
 *             completes the column. Files keep their size.
 *
 * If a killed run has left files to which table.dat does not refer, the next run uses them again, because casacore
 * assigns the same numbers again.
 *
 * After a power failure all of this is true if the file system orders the rename of a file after its data (ext4,
 * btrfs), because casacore renames table.dat_tmp before it can be synced.
 */
#ifndef MSI_IO_MS_WRITER_H
#define MSI_IO_MS_WRITER_H

#include "core/types.h"
#include "io/ms/ms_reader.h"

enum {
    MSI_MS_MAX_SELECTION = 512,
    MSI_MS_WRITER_SLOTS = 4 /* most blocks at a time */
};

/* Limits of a block: bytes of its values, and rows. */
#define MSI_MS_WRITER_BLOCK_BYTES ((int64_t)48 << 20)
#define MSI_MS_WRITER_BLOCK_ROWS  ((int64_t)1 << 20)

typedef enum msi_ms_write_op {
    MSI_MS_WRITE_REPLACE, /* column = values */
    MSI_MS_WRITE_ADD,     /* column = input_column + values */
    MSI_MS_WRITE_SUBTRACT /* column = input_column - values */
} msi_ms_write_op;

/*
 * The column and its values. In an existing column, rows and channels that are not submitted keep their values. In a
 * new column they are 0 or, with add and subtract, copied from the input column.
 */
typedef struct msi_ms_write_spec {
    /* "MODEL_DATA" or another name, except the other standard columns; CORRECTED_DATA is allowed if it does not exist
     * or was written by msimage */
    const char *column;
    msi_ms_write_op op;
    /* for add and subtract: must differ from `column`, so that a run can be repeated; else NULL */
    const char *input_column;
    /* description of the model (names, hash), for the mark and the column's keyword MSIMAGE_MODEL */
    const char *description;
    /* selection of rows and channels in words, shorter than MSI_MS_MAX_SELECTION, for the mark: only a run with the
     * same selection completes the column of a stopped run */
    const char *selection;
    /* 1: after all is written, remove old columns of predictions into `column`, including that of this run */
    int drop_old;
} msi_ms_write_spec;

typedef struct msi_ms_writer msi_ms_writer;

/*
 * msi_ms_writer_start - fork the first writer process, take the write locks, and check every set. Changes nothing yet.
 *
 * Call it before this process has working threads, a GPU context or an open table. Readers (ms_reader.h) may be opened
 * and used meanwhile: they take no lock, and the only file that they read and that changes is table.dat, which is
 * replaced by a rename.
 *
 * Given:    paths [n_path], spec (copied)
 * Returned: *out  owned, freed by msi_ms_writer_free
 * Returns:  0; MSI_EARGUMENT (an invalid or protected column name; the same set twice); MSI_ELOCKED (in use; there is
 *           no wait); MSI_EINPUT (not a Measurement Set; a column is missing, or has another type or shape, or is
 *           stored so that it can neither be overwritten nor renamed); MSI_EOUTPUT (the set cannot be written, or no
 *           process can be started); MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ms_writer_start(msi_ms_writer **out, const char *const *paths, int n_path, const msi_ms_write_spec *spec);

/*
 * msi_ms_writer_marked - return whether an earlier run has left the column of a set incomplete.
 * Returned: *text       "MODEL_DATA, 2024-05-06T07:08:09Z, msimage 0.1.0, MODEL"; borrowed, NULL without a mark
 *           *selection  of that run; the same
 * Returns:  1 or 0
 */
int msi_ms_writer_marked(const msi_ms_writer *w, int set, const char **text, const char **selection);

/* msi_ms_writer_disk_bytes - return the disk space that prepare takes for one set; 0 for in place. */
int64_t msi_ms_writer_disk_bytes(const msi_ms_writer *w, int set);

/*
 * msi_ms_writer_prepare - reserve the disk space of new and swapped columns; set and sync the marks of columns that are
 * written in place.
 * Returns: 0; MSI_EOUTPUT (no space: the sets are unchanged), MSI_EINTERRUPTED
 */
int msi_ms_writer_prepare(msi_ms_writer *w);

/*
 * msi_ms_writer_slot - get memory for the values of one block; wait for a free slot
 *
 * Given:    block   set, n_row, n_chan, n_corr, ms_row (ascending) and chan_index are used, and copied. A sample may be
 *                   submitted again, and the last values are written (also with add and subtract, since the input does
 *                   not change)
 * Returned: *values [n_row][n_chan][n_corr] in the block's order, Jy; not initialised. The caller fills them before
 *                   msi_ms_writer_submit
 * Returns:  0; an error of the writer; MSI_ERANGE (a block larger than MSI_MS_WRITER_BLOCK_..); MSI_EINTERRUPTED
 */
int msi_ms_writer_slot(msi_ms_writer *w, const msi_ms_block *block, msi_c32 **values);

/*
 * msi_ms_writer_submit - pass the values of the slot to the writer. Later calls may return its errors.
 * Returns: 0; an error of the writer; MSI_EINTERRUPTED
 */
int msi_ms_writer_submit(msi_ms_writer *w);

/*
 * msi_ms_writer_finish - wait until everything is written and synced; add the columns, remove the marks, release the
 * locks.
 * Returns: 0, also if a signal came too late; MSI_EOUTPUT and others: for each set msi_ms_writer_left_mark then returns
 *          whether the column is incomplete and marked; other columns are unchanged or complete
 */
int msi_ms_writer_finish(msi_ms_writer *w);

/* msi_ms_writer_stop - stop an unfinished writer as msi_ms_writer_free does, but keep the state for
 * msi_ms_writer_left_mark. NULL and a finished writer are fine. */
void msi_ms_writer_stop(msi_ms_writer *w);

/*
 * msi_ms_writer_left_mark - return whether this run has left the column of a set incomplete and marked.
 * Given:   w  must have failed, or be stopped or finished; otherwise the result may still change
 * Returns: 1 or 0
 */
int msi_ms_writer_left_mark(const msi_ms_writer *w, int set);

/*
 * msi_ms_writer_free - free the writer; NULL is fine. An unfinished writer is stopped within about a second: new files
 * are removed, columns written in place stay marked, other columns are unchanged. (If a process ends without this call,
 * the first writer process does the same.)
 */
void msi_ms_writer_free(msi_ms_writer *w);

#endif
