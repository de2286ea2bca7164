/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The headers of a FITS file, read card by card before casacore is given it. */
#ifndef MSI_SRC_UV_HDU_H
#define MSI_SRC_UV_HDU_H

#include <stdint.h>
#include <stdio.h>

enum {
    MSI_UV_CARD = 80,
    MSI_UV_BLOCK = 2880,
    MSI_UV_MAX_AXES = 8,
    MSI_UV_MAX_PARAMETERS = 32,
    MSI_UV_MAX_FIELDS = 999
};

/* msi_uv_in_blocks - the number of bytes with the filling of their last block. */
static inline int64_t msi_uv_in_blocks(int64_t bytes)
{
    return (bytes + MSI_UV_BLOCK - 1) / MSI_UV_BLOCK * MSI_UV_BLOCK;
}

/* Holds a header's description of the data behind it. */
typedef struct msi_uv_hdu {
    char extension[9], name[72]; /* XTENSION, EXTNAME; "" where there is none */
    int bitpix, n_axis, is_groups;
    int64_t axis[MSI_UV_MAX_AXES];
    char axis_type[MSI_UV_MAX_AXES][9];
    /* CRVALn, CDELTn, CRPIXn; 0, 1 and 1 where they are not there. */
    double axis_value[MSI_UV_MAX_AXES], axis_step[MSI_UV_MAX_AXES], axis_pixel[MSI_UV_MAX_AXES];
    int64_t cell_axis[MSI_UV_MAX_AXES]; /* MAXISn, of the array in each row of a table of visibilities */
    double first_stokes;                /* STK_1; 0 where it is not there */
    int64_t n_parameter, n_group;       /* PCOUNT, GCOUNT */
    char parameter[MSI_UV_MAX_PARAMETERS][9];
    double scale[MSI_UV_MAX_PARAMETERS], zero[MSI_UV_MAX_PARAMETERS];
    char time_system[9];                   /* TIMSYS */
    int has_time_system;                   /* such a card is there, be it blank */
    int has_epoch, has_equinox;            /* such cards are there */
    double epoch, equinox;                 /* EPOCH, EQUINOX: years, of the position in the header */
    double rest_freq_hz;                   /* RESTFREQ; 0 where there is none */
    int64_t n_field;                       /* TFIELDS */
    int n_cell_axis;                       /* MAXIS */
    char field_name[MSI_UV_MAX_FIELDS][9]; /* TTYPE */
    char field_kind[MSI_UV_MAX_FIELDS];    /* the letter of TFORM; 0 where there is none */
    char is_scaled[MSI_UV_MAX_FIELDS];     /* TSCAL is not 1, or TZERO not 0 */
    int64_t
        field_bytes[MSI_UV_MAX_FIELDS]; /* of a row, by TFORM; -1 where there is none, or none that means something */
} msi_uv_hdu;

/* msi_uv_hdu_read - read a header. Given and returned: *at  its first byte, then that of its data. Returns: 1; 0 at the
 * end of the file; -1 where no header is, or one without an end. */
int msi_uv_hdu_read(FILE *f, msi_uv_hdu *u, int64_t *at);

/* msi_uv_hdu_bytes - count the data's bytes, without the filling of the last block; -1 where a header cannot be right.
 * Returned: *one_group  of them, those of one group. */
int64_t msi_uv_hdu_bytes(const msi_uv_hdu *u, int64_t *one_group);

/* msi_uv_hdu_indexed - return the number behind a keyword's stem in a card, such as 3 of NAXIS3; 0 where it is another
 * keyword, or the number is above `most`. */
int msi_uv_hdu_indexed(const char *card, const char *stem, int most);

#endif
