/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Predicted visibilities are written into a column of one or several Measurement Sets; nothing else in them is harmed.
 *
 * Who does what. casacore ends the process where a disk fails at the wrong moment, so it never writes in the caller's.
 * msi_ms_writer_start forks a child, the holder: it opens the sets, holds their write locks, and alone changes their
 * headers (table.dat). Before the first visibility it forks the filler, which writes values into data files and nothing
 * else. Blocks travel in shared memory. The filler ends without a flush, so the holder, whose own state of the tables
 * stays clean, can replace table.dat without rewriting the header of any storage manager that is in use.
 *
 * What casacore 3.5 touches (traced): a change of keywords or columns writes table.dat_tmp and renames it to table.dat;
 * table.info is rewritten in place at a table's first flush (casacore_c prevents it); every flush then writes
 * table.lock, and where that does not happen any more, and the number of columns is another, nobody can lock the table
 * again (ccc_table_forget_changes prevents it); a tiled column that was put into gets its header table.fN truncated and
 * rewritten in place at the next flush, where a kill would cost the whole table; other managers stay as they are. Hence
 * three ways to write a column:
 *
 *   new       The column is not there. Its files (table.fN, table.fN_TSM1 ..) are made and filled while table.dat does
 *             not know of them; one rename of table.dat, at the end, brings in the column, complete. Until then the set
 *             is as it was, whatever happens; there is no state to mark.
 *   swapped   The column shares its storage manager with others (but see below), or its manager is not tiled (nor is
 * Dysco's, which loses precision), or some of its cells have no value. As new; the same rename gives the old column the
 *             name <COLUMN>_OLD_1 (or _2 ..), under which it stays, unless it is to be removed afterwards
 *             (ms_column_drop.h). Cells that are not predicted are copied from it.
 *   in place  The column has a tiled storage manager of its own, or is one of a TiledDataStMan, where tiles hold
 * several columns: casacore writes the others' bytes back as it read them, and the filler, which dies with its lock's
 *             holder, is alone to write. The mark, main-table keyword MSIMAGE_PREDICT, is put
 *             and synced before the first byte changes, and goes when the data are synced. A run that is killed between
 *             leaves the mark, and the next run redoes it. Files keep their size.
 *
 * Files that a killed run left without a table.dat that knows them are used again by the next run: casacore gives the
 * same numbers again.
 *
 * After a power failure, all of this holds where the file system orders the rename of a file after its data (ext4,
 * btrfs): casacore renames table.dat_tmp before anyone can sync it.
 */
#ifndef MSI_IO_MS_WRITER_H
#define MSI_IO_MS_WRITER_H

#include "core/types.h"
#include "io/ms/ms_reader.h"

enum {
    MSI_MS_MAX_SELECTION = 512,
    MSI_MS_WRITER_SLOTS = 4 /* blocks that are under way to the disk at most */
};

/* A block's values take no more bytes, and its rows are no more, than these. */
#define MSI_MS_WRITER_BLOCK_BYTES ((int64_t)48 << 20)
#define MSI_MS_WRITER_BLOCK_ROWS  ((int64_t)1 << 20)

typedef enum msi_ms_write_op {
    MSI_MS_WRITE_REPLACE, /* column = values */
    MSI_MS_WRITE_ADD,     /* column = input_column + values */
    MSI_MS_WRITE_SUBTRACT /* column = input_column - values */
} msi_ms_write_op;

/*
 * Says what is written. Rows and channels that are not submitted keep what they have in a column that is there; in a
 * new one they are 0 or, with add and subtract, the input column's, so that it is whole.
 */
typedef struct msi_ms_write_spec {
    const char *column; /* "MODEL_DATA" or another name; no other standard column, but CORRECTED_DATA where it is
                           missing or was written by msimage */
    msi_ms_write_op op;
    const char *input_column; /* of add and subtract, not `column`, so that a run can be redone; else NULL */
    const char *description;  /* of the model (names, hash); goes into the mark and into the column's keyword
                                 MSIMAGE_MODEL */
    const char *selection;    /* of rows and channels, in words of less than MSI_MS_MAX_SELECTION characters, for the
                                 mark: only a run of the same selection completes what one that was stopped began */
    int drop_old; /* remove what predictions into `column` put aside, this one included, once all is written */
} msi_ms_write_spec;

typedef struct msi_ms_writer msi_ms_writer;

/*
 * msi_ms_writer_start - fork the writer, take the write locks, check every set. Nothing is changed yet.
 *
 * Call it before this process has threads that work, a GPU context or an open table. Readers (ms_reader.h) may be
 * opened and used from here on: they take no lock, and no file that they read is rewritten but table.dat, which is
 * replaced by rename.
 *
 * Given:    paths [n_path], spec (copied)
 * Returned: *out  owned, freed by msi_ms_writer_free
 * Returns:  0; MSI_EARGUMENT (a column name that cannot be, or is protected; the same set twice); MSI_ELOCKED (in use;
 *           it never waits); MSI_EINPUT (not a Measurement Set, a column missing or of another type or shape, or stored
 *           where it can neither be overwritten nor renamed); MSI_EOUTPUT (the set cannot be written, or no process can
 *           be made); MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ms_writer_start(msi_ms_writer **out, const char *const *paths, int n_path, const msi_ms_write_spec *spec);

/*
 * msi_ms_writer_marked - tell whether an earlier run left the column of a set incomplete.
 * Returned: *text  "MODEL_DATA, 2024-05-06T07:08:09Z, msimage 0.1.0, MODEL", *selection what that run had selected;
 *           borrowed, NULL where there is no mark
 * Returns:  1 or 0
 */
int msi_ms_writer_marked(const msi_ms_writer *w, int set, const char **text, const char **selection);

/* msi_ms_writer_disk_bytes - count what prepare will take of one set's file system; 0 where it is written in place. */
int64_t msi_ms_writer_disk_bytes(const msi_ms_writer *w, int set);

/*
 * msi_ms_writer_prepare - reserve the disk space of columns that are new or swapped, put and sync the marks of others.
 * Returns: 0; MSI_EOUTPUT (no space: the sets are as they were), MSI_EINTERRUPTED
 */
int msi_ms_writer_prepare(msi_ms_writer *w);

/*
 * msi_ms_writer_slot - room for the values of one block; waits until the writer has some.
 *
 * Given:    block   set, n_row, n_chan, n_corr, ms_row (ascending) and chan_index are used, and copied. A sample may be
 *                   submitted again; the later values count (with add and subtract too: the input stays as it is)
 * Returned: *values [n_row][n_chan][n_corr] in the block's order, Jy, to be filled by the caller before
 *                   msi_ms_writer_submit; not zeroed
 * Returns:  0; what the writer failed with; MSI_ERANGE (a block larger than MSI_MS_WRITER_BLOCK_..); MSI_EINTERRUPTED
 */
int msi_ms_writer_slot(msi_ms_writer *w, const msi_ms_block *block, msi_c32 **values);

/*
 * msi_ms_writer_submit - hand the slot's values to the writer. What fails there shows here, in slot or in finish.
 * Returns: 0; what the writer failed with; MSI_EINTERRUPTED
 */
int msi_ms_writer_submit(msi_ms_writer *w);

/*
 * msi_ms_writer_finish - wait until all is written and synced; bring in the columns, take away the marks, release the
 * locks.
 * Returns: 0, also where a signal came too late to stop anything; MSI_EOUTPUT and others: msi_ms_writer_left_mark says
 *          in which set the column is incomplete and marked; all others are as they were or complete
 */
int msi_ms_writer_finish(msi_ms_writer *w);

/* msi_ms_writer_stop - stop an unfinished writer as msi_ms_writer_free does, and keep what it left for
 * msi_ms_writer_left_mark; nothing more can be written. NULL and a finished writer are fine. */
void msi_ms_writer_stop(msi_ms_writer *w);

/*
 * msi_ms_writer_left_mark - tell whether this run leaves the column of a set incomplete, and marked so.
 * Given:   w  failed, stopped or finished; before that the answer is of the moment
 * Returns: 1 or 0
 */
int msi_ms_writer_left_mark(const msi_ms_writer *w, int set);

/*
 * msi_ms_writer_free - NULL is fine. An unfinished writer is stopped, within about a second: new files go; columns that
 * have been written in place stay marked, others are as they were. (A process that ends without this call leaves that
 * to the child, which sees it.)
 */
void msi_ms_writer_free(msi_ms_writer *w);

#endif
