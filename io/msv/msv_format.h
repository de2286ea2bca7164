/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The layout of a visibility store, a file NAME.msv. It is little-endian, and has these parts:
 *
 *   header  4096 bytes; the first 16 and the last 4 have the same meaning in every version
 *   chunks  each aligned to 64 bytes: a part for rows, then a part for samples
 *   index   metadata, times, runs, chunks
 *
 * Every part has a CRC. Those of the header and the index are in the header, those of chunks are in the index. Parts
 * are padded with zeros to a multiple of 64 bytes.
 */
#ifndef MSI_MSV_FORMAT_H
#define MSI_MSV_FORMAT_H

#include <stdint.h>

#include "core/types.h"

/* Checksums are CRC-32C (Castagnoli, RFC 3720 appendix B.4), which detects any change within 32 bits. */

/* msi_crc32c - return the CRC-32C of n bytes. */
uint32_t msi_crc32c(const void *bytes, int64_t n);

/* CRC-32C of the four quarters of a range of bytes. A processor computes four CRCs at once in the time of one. */
typedef struct msi_crc4 {
    uint32_t quarter[4];
} msi_crc4;

enum { MSI_CRC4_UNIT = 32 };

/* msi_crc4_of - return the CRC-32C of each quarter of n bytes. n must be a multiple of MSI_CRC4_UNIT, and bytes
 * aligned to 8. */
msi_crc4 msi_crc4_of(const void *bytes, int64_t n);

#define MSI_MSV_MAGIC "msi-vis\n" /* stored without its terminating zero */

enum { MSI_MSV_VERSION = 1, MSI_MSV_HEADER_BYTES = 4096, MSI_MSV_ALIGNMENT = 64 };

typedef struct msi_msv_header {
    char magic[8];
    uint32_t version, header_bytes;
    int64_t file_bytes;
    int64_t index_at, index_bytes;
    /* sizes of the parts of the index, in this order; each part is aligned to 64 bytes */
    int64_t about_bytes, n_time, n_run, n_chunk;
    msi_crc4 index_crc;
    uint64_t set_state; /* msi_set_state of the set before it was read */
    char set_path[MSI_MSV_HEADER_BYTES - 100];
    uint32_t crc; /* checksum of all bytes before it */
} msi_msv_header;
_Static_assert(sizeof(msi_msv_header) == MSI_MSV_HEADER_BYTES, "the header is one page");

/* A run: consecutive rows of the set with one setup, field and time. Runs are in ascending order of rows. */
typedef struct msi_msv_run {
    int64_t row;     /* index of its first row in the set */
    int64_t ordinal; /* index of that row among the rows of its setup and field */
    int32_t n_row;
    int32_t data_desc_id, field_id;
    int32_t time; /* index of its time in the list of times */
} msi_msv_run;

/* Storage of flags and weights of samples. */
enum {
    MSI_MSV_NO_FLAG = 0,     /* all are 0 */
    MSI_MSV_FLAG_BITS = 1,   /* one bit each, lowest bit first; each row begins a new byte */
    MSI_MSV_ROW_WEIGHTS = 0, /* [n_data_row][n_corr]: the same for all channels */
    MSI_MSV_WEIGHTS = 1      /* [n_data_row][n_chan][n_corr] */
};

/* A chunk: rows of one setup and field. Chunks are in ascending order of setup, field and first row. */
typedef struct msi_msv_chunk {
    int64_t at;      /* offset in the file */
    int64_t ordinal; /* index of its first row among the rows of its setup and field */
    int32_t data_desc_id, field_id;
    int32_t n_row;
    int32_t n_data_row; /* number of rows whose samples are stored */
    int32_t weights, flags;
    msi_crc4 rows_crc, samples_crc;
} msi_msv_chunk;

/* States of rows. The samples of rows that are never imaged are not stored. */
enum {
    MSI_MSV_ROW_DATA = 0,    /* its samples are stored */
    MSI_MSV_ROW_FLAGGED = 1, /* FLAG_ROW */
    MSI_MSV_ROW_EMPTY = 2    /* all its samples are flagged */
};

/* Offsets of the arrays of a chunk from its beginning. Those of samples follow rows_bytes. */
typedef struct msi_msv_layout {
    int64_t uvw_m;    /* [n_row][3] float64 */
    int64_t antenna1; /* [n_row] int32 */
    int64_t antenna2; /* [n_row] int32 */
    int64_t state;    /* [n_row] uint8: MSI_MSV_ROW_.. */
    int64_t rows_bytes;
    int64_t data;   /* [n_data_row][n_chan][n_corr] complex64 */
    int64_t weight; /* float32 */
    int64_t flag;
    int64_t flag_row_bytes; /* bytes of the flags of a row */
    int64_t bytes;
} msi_msv_layout;

/* msi_msv_aligned - round up to a multiple of MSI_MSV_ALIGNMENT. */
static inline int64_t msi_msv_aligned(int64_t bytes)
{
    return (bytes + MSI_MSV_ALIGNMENT - 1) / MSI_MSV_ALIGNMENT * MSI_MSV_ALIGNMENT;
}

/* msi_msv_lay_out - compute the offsets of the arrays of a chunk. */
static inline msi_msv_layout msi_msv_lay_out(const msi_msv_chunk *c, int32_t n_chan, int32_t n_corr)
{
    const int64_t n_row = c->n_row, n_data = c->n_data_row, n = (int64_t)n_chan * n_corr;
    msi_msv_layout l = {.uvw_m = 0};
    l.antenna1 = l.uvw_m + n_row * 3 * 8;
    l.antenna2 = l.antenna1 + n_row * 4;
    l.state = l.antenna2 + n_row * 4;
    l.rows_bytes = msi_msv_aligned(l.state + n_row);
    l.data = l.rows_bytes;
    l.weight = l.data + n_data * n * 8;
    l.flag = l.weight + n_data * (c->weights == MSI_MSV_WEIGHTS ? n : n_corr) * 4;
    l.flag_row_bytes = (n + 7) / 8;
    l.bytes = msi_msv_aligned(l.flag + (c->flags == MSI_MSV_FLAG_BITS ? n_data * l.flag_row_bytes : 0));
    return l;
}

#endif
