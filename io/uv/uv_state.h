/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of an open UVFITS or FITS-IDI file, shared by the files of its reader. */
#ifndef MSI_IO_UV_STATE_H
#define MSI_IO_UV_STATE_H

#include <stdint.h>

#include "io/uv/uv_set.h"

/* ---- The bytes of a FITS file, its headers, and the columns of its tables. Reading never goes beyond its end. ---- */

enum { MSI_UV_BLOCK_BYTES = 2880, MSI_UV_MOST_AXES = 9, MSI_UV_MOST_COLUMNS = 999 };

/* A file, and a window of its bytes in memory. */
typedef struct msi_uv_bytes {
    const char *path; /* borrowed */
    int fd;
    int64_t size;          /* size of the file */
    int64_t ahead;         /* least number of bytes that are read at a time */
    unsigned char *window; /* [n_window] part of the file that begins at window_at */
    int64_t window_at, n_window, n_allocated;
} msi_uv_bytes;

/* msi_uv_bytes_open - open a regular file. Returned: *b  closed by msi_uv_bytes_close also on failure. Returns: 0,
 * MSI_EINPUT. */
int msi_uv_bytes_open(msi_uv_bytes *b, const char *path);

/*
 * msi_uv_bytes_get - read n bytes from `at` on.
 * Returned: *bytes  borrowed until the next call
 * Returns:  0, MSI_EINPUT (beyond the end of the file, or it cannot be read), MSI_ENOMEM
 */
int msi_uv_bytes_get(msi_uv_bytes *b, int64_t at, int64_t n, const unsigned char **bytes);

void msi_uv_bytes_close(msi_uv_bytes *b);

/* A column of a table, or a parameter of random groups. A number is the stored value * scale + zero. */
typedef struct msi_uv_column {
    char name[24];
    char kind;      /* the letter of TFORM; 0: missing or not valid */
    int64_t repeat; /* values in a row */
    int64_t offset; /* offset in bytes from the beginning of the row */
    double scale, zero;
} msi_uv_column;

/* An axis of an array of visibilities: CTYPEn, CRVALn, CDELTn, CRPIXn, and MAXISn. */
typedef struct msi_uv_axis {
    char name[16];
    double value, step, pixel;
    int64_t n;
} msi_uv_axis;

/* A header, and the position of its data. */
typedef struct msi_uv_header {
    char *card; /* [n_card][80] owned */
    int64_t n_card;
    char extension[16], name[24]; /* XTENSION, EXTNAME; "" if missing */
    int bitpix, n_axis, is_groups;
    int64_t length[MSI_UV_MOST_AXES]; /* NAXISn */
    msi_uv_axis axis[MSI_UV_MOST_AXES];
    int64_t n_parameter, n_group;    /* PCOUNT, GCOUNT */
    int64_t n_column;                /* TFIELDS */
    msi_uv_column *column;           /* [n_described] from TTYPEn, TFORMn .. of tables, or PTYPEn .. of groups; owned */
    int n_described;                 /* at least n_column, unless n_column is too large */
    int64_t begin, bytes, row_bytes; /* position and size of the data; size of one group or row */
} msi_uv_header;

/* Results of msi_uv_header_read. */
typedef enum msi_uv_found { MSI_UV_END, MSI_UV_HEADER, MSI_UV_NO_HEADER } msi_uv_found;

/*
 * msi_uv_header_read - read the header at a byte of the file.
 * Returned: *h  freed by msi_uv_header_free in all cases; *found  MSI_UV_END at the end of the file, MSI_UV_NO_HEADER
 *               if there is no header or it has no end. h->bytes is -1 if the header is not valid.
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_uv_header_read(msi_uv_bytes *b, int64_t at, msi_uv_header *h, msi_uv_found *found);

void msi_uv_header_free(msi_uv_header *h);

/* msi_uv_header_text - copy the text of a keyword. Returns: 1; 0, and "", if it is missing. */
int msi_uv_header_text(const msi_uv_header *h, const char *key, char *to, int64_t size);

/* msi_uv_header_number - return the number of a keyword, or `missing` if there is none. For a text such as 'J2000' it
 * is the number in it. */
double msi_uv_header_number(const msi_uv_header *h, const char *key, double missing);

/* msi_uv_header_has - return 1 if there is such a keyword with a value, even a blank one. */
int msi_uv_header_has(const msi_uv_header *h, const char *key);

/* msi_uv_header_column - return the index of a column, or -1. Case and trailing blanks are ignored. */
int msi_uv_header_column(const msi_uv_header *h, const char *name);

/* msi_uv_in_whole_blocks - round a number of bytes up to whole blocks of FITS. */
static inline int64_t msi_uv_in_whole_blocks(int64_t bytes)
{
    return (bytes + MSI_UV_BLOCK_BYTES - 1) / MSI_UV_BLOCK_BYTES * MSI_UV_BLOCK_BYTES;
}

/* msi_uv_value_bytes - return the bytes of a value of a kind; 0 if the kind has no numbers of whole bytes. */
int msi_uv_value_bytes(char kind);

/* msi_uv_value - return a stored number, without scale and zero. Given: p  its first byte */
double msi_uv_value(char kind, const unsigned char *p);

/*
 * msi_uv_table_numbers - read numbers of a column in one row of a table.
 * Given:    row from 0; column  index; -1: all numbers are `missing`
 * Returned: to [n]  `missing` after the last number of the row, and if the column has no numbers
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_uv_table_numbers(msi_uv_bytes *b, const msi_uv_header *h, int column, int64_t row, int64_t n, double missing,
                         double *to);

/* msi_uv_table_text - read a text from a column in one row, without trailing blanks; "" if the column has no text. */
int msi_uv_table_text(msi_uv_bytes *b, const msi_uv_header *h, int column, int64_t row, char *to, int64_t size);

/* The parameters of a group, or the columns of a row of UV_DATA. */
typedef enum msi_uv_parameter {
    MSI_UV_U,
    MSI_UV_V,
    MSI_UV_W,
    MSI_UV_DATE,
    MSI_UV_BASELINE,
    MSI_UV_ANTENNA1,
    MSI_UV_ANTENNA2,
    MSI_UV_SUBARRAY,
    MSI_UV_SOURCE,
    MSI_UV_SETTING, /* FREQSEL or FREQID */
    MSI_UV_INTTIM,
    MSI_UV_WEIGHT, /* weights of compressed groups */
    MSI_UV_SCALE,
    MSI_UV_N_PARAMETER
} msi_uv_parameter;

enum { MSI_UV_MOST_PARTS = 4 };

/* The value of a parameter is the sum of its columns. */
typedef struct msi_uv_sum {
    int n, column[MSI_UV_MOST_PARTS];
} msi_uv_sum;

/* The random groups, or one table UV_DATA. Strides are in values of the array. */
typedef struct msi_uv_part {
    const msi_uv_header *h;
    int64_t first_group, n_group;
    msi_uv_sum parameter[MSI_UV_N_PARAMETER];
    int64_t head_bytes;             /* bytes from the beginning of a row that contain all parameters */
    int data;                       /* column of the array */
    int weight;                     /* column of weights; -1: none */
    int64_t weight_if, weight_chan; /* strides in the column of weights, where correlations are contiguous */
    int64_t stride_complex, stride_corr, stride_chan, stride_if;
    int n_complex; /* 3: with weights; 2: without; 1: compressed */
} msi_uv_part;

/* The antennas of a subarray: a table AIPS AN or ARRAY_GEOMETRY. */
typedef struct msi_uv_station_table {
    int64_t subarray, n_number;
    int32_t *antenna; /* [n_number] index of the antenna with a number in the file; -1: none */
} msi_uv_station_table;

/* Limits of the numbers of frequency settings and sources, and of the number of antennas. */
enum { MSI_UV_MOST_NUMBERS = 32768, MSI_UV_MOST_STATIONS = 65536 };

struct msi_uv_state {
    msi_uv_bytes bytes;
    int n_header;
    msi_uv_header *header; /* [n_header] the primary header is first */
    int n_part;
    msi_uv_part *part;
    int corr_place[MSI_MAX_CORR]; /* index of each correlation on the axis STOKES */
    double visibility_scale;
    int are_conjugate;      /* 1: phases have the opposite sign of those in Measurement Sets, as in FITS-IDI */
    int is_normalised;      /* 1: visibilities must be divided by their weights (WEIGHTYP = CORRELAT) */
    int normalises_by_time; /* 1: and by the integration time */
    int64_t n_station_table;
    msi_uv_station_table *station_table;
    double centre_m[3]; /* centre of the first table of antennas */
    int needs_levels;   /* 1: DiFX or VLBA correlator, which leaves digital corrections to the reader */
    double *level;      /* [n_antenna] digital levels; NULL: no digital corrections */
    int has_van_vleck;
    int has_source_table;
    int64_t n_source_number;
    /* [n_source_number] index of the source with a number in the file; -1: none */
    int32_t *source_of;
    int64_t *source_row;                     /* [n_source] row of its table */
    const msi_uv_header *sources, *settings; /* the tables of sources and settings; NULL: none */
    int64_t n_setting_number;
    int64_t *setting_row; /* [n_setting_number] row of the setting with a number in the file; -1: none */
    int32_t *setting_of;  /* [MSI_UV_MOST_NUMBERS] first window of the setting with a number; -1: not used */
    double *weight;       /* [n_weight_allocated] buffer for the weights of a row */
    int64_t n_weight_allocated;
    double *time_s, interval_s;       /* interval_s: for files whose groups have none */
    int32_t *source, *setting, *scan; /* [n_group] */
    int (*interrupt)(void);
};

/* msi_uv_note - append a line to the notes, unless they have the line already or are full. */
void msi_uv_note(msi_uv_set *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* msi_uv_is_idi - return 1 for FITS-IDI. */
static inline int msi_uv_is_idi(const msi_uv_set *s)
{
    return s->format == MSI_UV_FITSIDI;
}

/* msi_uv_tables_read - read antennas, sources and settings. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_uv_tables_read(msi_uv_set *s);

/* msi_uv_tables_source - return the index of the source with a number in the file; -1 if there is none. */
int32_t msi_uv_tables_source(const msi_uv_set *s, int64_t number);

/* msi_uv_tables_antenna - return the index of the antenna with a number in a subarray; -1 if there is none. */
int32_t msi_uv_tables_antenna(const msi_uv_set *s, int64_t subarray, int64_t number);

/* msi_uv_tables_check_source - check the position of a source that groups use. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_uv_tables_check_source(msi_uv_set *s, int32_t source);

/*
 * msi_uv_tables_windows - make the windows of the settings that groups use.
 * Given:   is_used [MSI_UV_MOST_NUMBERS]  by number
 * Returns: 0, MSI_EINPUT (a number is not in the table), MSI_ENOMEM
 */
int msi_uv_tables_windows(msi_uv_set *s, const uint8_t *is_used);

/* msi_uv_rows_scan - read and check the parameters of all groups. Returns: 0, MSI_EINPUT, MSI_ENOMEM, the status of
 * interrupt. */
int msi_uv_rows_scan(msi_uv_set *s);

#endif
