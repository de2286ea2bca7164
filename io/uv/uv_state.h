/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of an open UVFITS or FITS-IDI file, shared by the parts of its reader. */
#ifndef MSI_IO_UV_STATE_H
#define MSI_IO_UV_STATE_H

#include "io/uv/uv_header.h"
#include "io/uv/uv_set.h"

/* The parameters of a group, or columns of a row. */
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

/* The groups, or a table UV_DATA. Strides count values of the array. */
typedef struct msi_uv_part {
    const msi_uv_header *h;
    int64_t first_group, n_group;
    msi_uv_sum parameter[MSI_UV_N_PARAMETER];
    int64_t head_bytes;             /* bytes of a row that have all parameters */
    int data;                       /* column of the array */
    int weight;                     /* column of weights; -1: none */
    int64_t weight_if, weight_chan; /* strides of the column of weights; correlations follow each other */
    int64_t stride_complex, stride_corr, stride_chan, stride_if;
    int n_complex; /* 3: with weights; 2: without; 1: compressed */
} msi_uv_part;

/* The antennas of a subarray: a table AIPS AN or ARRAY_GEOMETRY. */
typedef struct msi_uv_station_table {
    int64_t subarray, n_number;
    int32_t *antenna; /* [n_number] index by the number in the file; -1: none */
} msi_uv_station_table;

/* Numbers of frequency settings or sources. */
enum { MSI_UV_MOST_NUMBERS = 32768, MSI_UV_MOST_STATIONS = 65536 };

struct msi_uv_state {
    msi_uv_bytes bytes;
    int n_header;
    msi_uv_header *header; /* [n_header] the primary one first */
    int n_part;
    msi_uv_part *part;
    int corr_place[MSI_MAX_CORR]; /* place on the axis STOKES of each correlation */
    double visibility_scale;
    int are_conjugate;      /* phases have the opposite sign of Measurement Sets: FITS-IDI */
    int is_normalised;      /* visibilities are to be divided by their weights (WEIGHTYP = CORRELAT) */
    int normalises_by_time; /* and by the integration time */
    int64_t n_station_table;
    msi_uv_station_table *station_table;
    double centre_m[3]; /* centre of the first table of antennas */
    int needs_levels;   /* a correlator that leaves digital corrections open: DiFX or VLBA */
    double *level;      /* [n_antenna] digital levels; NULL: no digital corrections */
    int has_van_vleck;
    int has_source_table;
    int64_t n_source_number;
    int32_t *source_of;                      /* [n_source_number] index by the number in the file; -1: none */
    int64_t *source_row;                     /* [n_source] row of its table */
    const msi_uv_header *sources, *settings; /* their tables; NULL: none */
    int64_t n_setting_number;
    int64_t *setting_row; /* [n_setting_number] row by the number; -1: none */
    int32_t *setting_of;  /* [MSI_UV_MOST_NUMBERS] first window by the number; -1: not used */
    double *weight;       /* [n_weight_allocated] buffer for the weights of a row */
    int64_t n_weight_allocated;
    double *time_s, interval_s;       /* interval_s: if groups have none */
    int32_t *source, *setting, *scan; /* [n_group] */
    int (*interrupt)(void);
};

/* msi_uv_note - append a line to the notes, unless it is there already or the notes are full. */
void msi_uv_note(msi_uv_set *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* msi_uv_is_idi - return 1 for FITS-IDI. */
static inline int msi_uv_is_idi(const msi_uv_set *s)
{
    return s->format == MSI_UV_FITSIDI;
}

/* msi_uv_tables_read - read antennas, sources and settings. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_uv_tables_read(msi_uv_set *s);

/* msi_uv_tables_source - return the index of a source by its number, -1 if there is none. */
int32_t msi_uv_tables_source(const msi_uv_set *s, int64_t number);

/* msi_uv_tables_antenna - return the index of an antenna of a subarray, -1 if there is none. */
int32_t msi_uv_tables_antenna(const msi_uv_set *s, int64_t subarray, int64_t number);

/* msi_uv_tables_check_source - check the position of a source that groups name. Returns: 0, MSI_EINPUT, MSI_ENOMEM. */
int msi_uv_tables_check_source(msi_uv_set *s, int32_t source);

/*
 * msi_uv_tables_windows - make the windows of the settings that groups name.
 * Given:   is_used [MSI_UV_MOST_NUMBERS]  by number
 * Returns: 0, MSI_EINPUT (a number is not in the table), MSI_ENOMEM
 */
int msi_uv_tables_windows(msi_uv_set *s, const uint8_t *is_used);

/* msi_uv_rows_scan - look at the parameters of all groups. Returns: 0, MSI_EINPUT, MSI_ENOMEM, status of interrupt. */
int msi_uv_rows_scan(msi_uv_set *s);

#endif
