/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reader's blocks, read ahead by processes, or by a thread: the only one that touches casacore meanwhile. */
#ifndef MSI_SRC_BLOCK_STREAM_H
#define MSI_SRC_BLOCK_STREAM_H

#include "io/ms/ms_crew.h"
#include "io/ms/ms_reader.h"

typedef struct msi_block_stream msi_block_stream;

/*
 * msi_block_stream_open - begin to read.
 * Given:   reader, borrowed until the stream is closed; nobody else uses it
 *          crew  that has begun to read its blocks, borrowed too; NULL: a thread reads them
 * Returns: 0, MSI_ENOMEM
 */
int msi_block_stream_open(msi_block_stream **out, msi_ms_reader *reader, msi_ms_crew *crew);

/*
 * msi_block_stream_next - the next block; the one before it is given back.
 * Returned: *block  borrowed; n_row is 0 after the last one
 * Returns:  0, what msi_ms_reader_next or msi_ms_crew_next returned
 */
int msi_block_stream_next(msi_block_stream *stream, const msi_ms_block **block);

/* msi_block_stream_close - end the reading, at the next block where it is not over; NULL is fine. */
void msi_block_stream_close(msi_block_stream *stream);

#endif
