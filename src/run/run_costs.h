/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading and writing cost this, as measured; and this memory no plan counts. */
#ifndef MSI_SRC_RUN_COSTS_H
#define MSI_SRC_RUN_COSTS_H

#include <stdint.h>

/* Samples a second that casacore delivers from tiled storage in bulk, four correlations each. */
#define MSI_READ_SAMPLES_PER_S 5e7

/* Rows of coordinates, without data, that casacore delivers a second. */
#define MSI_READ_ROWS_PER_S 4e6

/* Bytes of visibilities that casacore writes a second. */
#define MSI_WRITE_BYTES_PER_S 7e8

/* Bytes of libraries and of buffers of blocks and threads: not worth counting one by one. */
#define MSI_UNPLANNED_BYTES ((int64_t)96 << 20)

#endif
