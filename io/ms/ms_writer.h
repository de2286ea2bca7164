/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Write predicted visibilities into a column of one or several Measurement Sets. Everything else in the sets stays
 * intact.
 *
 * Processes. casacore ends the process if a disk fails at the wrong moment, so it never writes in the caller's process.
 * msi_ms_writer_start forks the first writer process: it opens the sets, holds their write locks, and is the only one
 * that changes their headers (table.dat). Before the first visibility it forks the second writer process, which only
 * writes values into data files. Blocks are passed in shared memory. The second one ends without a flush, and the
 * tables of the first one stay unmodified in memory. So the first one can replace table.dat without rewriting the
 * header of a storage manager.
 *
 * Files that casacore 3.5 changes (traced):
 *   table.dat   a change of keywords or columns writes table.dat_tmp and renames it to table.dat.
 *   table.info  rewritten in place at the first flush of a table (casacore_c prevents it).
 *   table.lock  written at every flush. If this stops while the number of columns changes, no program can lock the
 *               table again (ccc_table_forget_changes prevents it).
 *   table.fN    the header of a tiled column with new values is truncated and rewritten in place at the next flush. A
 *               kill at this moment would lose the whole table. Other storage managers are not changed.
 *
 * So there are three methods to write a column:
 *
 *   new       The column does not exist. Its files (table.fN, table.fN_TSM1 ..) are made and written before table.dat
 *             refers to them. One rename of table.dat at the end adds the complete column. Until then the set does not
 *             change, so there is no state to mark.
 *   swapped   The column shares its storage manager with others (but see below), or its manager is not tiled (Dysco's
 *             is not, and loses precision), or some of its cells have no value. As for new; the same rename gives the
 *             old column the name <COLUMN>_OLD_1 (or _2 ..). It stays unless it is to be removed afterwards
 *             (ms_column.h). Cells that are not predicted are copied from it.
 *   in place  The column has its own tiled storage manager, or is in a TiledDataStMan, whose tiles hold several
 *             columns: casacore writes the bytes of the others back as it read them, and no other process writes, as
 *             the second writer process ends with the first one, which has the lock. The mark, main-table keyword
 *             MSIMAGE_PREDICT, is set and synced before the first byte changes, and is removed after the data are
 *             synced. A run that is killed in between leaves the mark, and the next run repeats it. Files keep their
 *             size.
 *
 * Files that a killed run left, and to which table.dat does not refer, are reused by the next run, as casacore assigns
 * the same numbers again.
 *
 * After a power failure all of this holds if the file system orders the rename of a file after its data (ext4, btrfs):
 * casacore renames table.dat_tmp before it can be synced.
 */
#ifndef MSI_IO_MS_WRITER_H
#define MSI_IO_MS_WRITER_H

#include "core/types.h"
#include "io/ms/ms_reader.h"

enum {
    MSI_MS_MAX_SELECTION = 512,
    MSI_MS_WRITER_SLOTS = 4 /* most blocks in progress */
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
 * The column and its values. Rows and channels that are not submitted keep their values in an existing column. In a new
 * one they are 0 or, with add and subtract, the values of the input column, so that it is complete.
 */
typedef struct msi_ms_write_spec {
    const char
        *column; /* "MODEL_DATA" or another name, but no other standard column; CORRECTED_DATA is allowed if it is
                           missing or was written by msimage */
    msi_ms_write_op op;
    const char *input_column; /* for add and subtract, not `column`, so that a run can be repeated; else NULL */
    const char *description; /* description of the model (names, hash); goes into the mark and into the column's keyword
                                 MSIMAGE_MODEL */
    const char
        *selection; /* selection of rows and channels, in words of less than MSI_MS_MAX_SELECTION characters, for the
                                 mark: only a run with the same selection completes the column of a stopped run */
    int drop_old;   /* remove old columns of predictions into `column`, also that of this run, after all is written */
} msi_ms_write_spec;

typedef struct msi_ms_writer msi_ms_writer;

/*
 * msi_ms_writer_start - fork the first writer process, take the write locks, check every set. Nothing is changed yet.
 *
 * Call it before this process has threads that work, a GPU context or an open table. Readers (ms_reader.h) may be
 * opened and used: they take no lock, and no file that they read is rewritten but table.dat, which is
 * replaced by rename.
 *
 * Given:    paths [n_path], spec (copied)
 * Returned: *out  owned, freed by msi_ms_writer_free
 * Returns:  0; MSI_EARGUMENT (an invalid or protected column name; the same set twice); MSI_ELOCKED (in use;
 *           it never waits); MSI_EINPUT (not a Measurement Set, a column missing or of another type or shape, or stored
 *           where it can neither be overwritten nor renamed); MSI_EOUTPUT (the set cannot be written, or no process can
 *           be started); MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ms_writer_start(msi_ms_writer **out, const char *const *paths, int n_path, const msi_ms_write_spec *spec);

/*
 * msi_ms_writer_marked - return whether an earlier run left the column of a set incomplete.
 * Returned: *text  "MODEL_DATA, 2024-05-06T07:08:09Z, msimage 0.1.0, MODEL", *selection  of that run;
 *           borrowed, NULL without a mark
 * Returns:  1 or 0
 */
int msi_ms_writer_marked(const msi_ms_writer *w, int set, const char **text, const char **selection);

/* msi_ms_writer_disk_bytes - return the bytes that prepare takes on the file system of one set; 0 for in place. */
int64_t msi_ms_writer_disk_bytes(const msi_ms_writer *w, int set);

/*
 * msi_ms_writer_prepare - reserve the disk space of new and swapped columns; set and sync the marks of the others.
 * Returns: 0; MSI_EOUTPUT (no space: the sets are unchanged), MSI_EINTERRUPTED
 */
int msi_ms_writer_prepare(msi_ms_writer *w);

/*
 * msi_ms_writer_slot - get space for the values of one block. It waits for a free slot.
 *
 * Given:    block   set, n_row, n_chan, n_corr, ms_row (ascending) and chan_index are used, and copied. A sample may be
 *                   submitted again; the later values count (also with add and subtract: the input does not change)
 * Returned: *values [n_row][n_chan][n_corr] in the block's order, Jy, to be filled by the caller before
 *                   msi_ms_writer_submit; not zeroed
 * Returns:  0; an error of the writer; MSI_ERANGE (a block larger than MSI_MS_WRITER_BLOCK_..); MSI_EINTERRUPTED
 */
int msi_ms_writer_slot(msi_ms_writer *w, const msi_ms_block *block, msi_c32 **values);

/*
 * msi_ms_writer_submit - pass the values of the slot to the writer. Its errors are returned here, by slot or by finish.
 * Returns: 0; an error of the writer; MSI_EINTERRUPTED
 */
int msi_ms_writer_submit(msi_ms_writer *w);

/*
 * msi_ms_writer_finish - wait until all is written and synced; add the columns, remove the marks, release the locks.
 * Returns: 0, also if a signal came too late; MSI_EOUTPUT and others: msi_ms_writer_left_mark returns for each set
 * whether the column is incomplete and marked; all others are unchanged or complete
 */
int msi_ms_writer_finish(msi_ms_writer *w);

/* msi_ms_writer_stop - stop an unfinished writer as msi_ms_writer_free does, but keep the state for
 * msi_ms_writer_left_mark. No more values can be written. NULL and a finished writer are fine. */
void msi_ms_writer_stop(msi_ms_writer *w);

/*
 * msi_ms_writer_left_mark - return whether this run leaves the column of a set incomplete and marked.
 * Given:   w  failed, stopped or finished; before that the result may change
 * Returns: 1 or 0
 */
int msi_ms_writer_left_mark(const msi_ms_writer *w, int set);

/*
 * msi_ms_writer_free - free the writer; NULL is fine. An unfinished writer is stopped within about a second: new files
 * are removed, columns that were written in place stay marked, others are unchanged. (If a process ends without this
 * call, the first writer process does the same.)
 */
void msi_ms_writer_free(msi_ms_writer *w);

#endif
