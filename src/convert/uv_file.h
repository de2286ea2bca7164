/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the primary header of a UVFITS or FITS-IDI file says, and whether casacore can be given the file. */
#ifndef MSI_SRC_UV_FILE_H
#define MSI_SRC_UV_FILE_H

#include <stdint.h>

typedef enum msi_uv_kind { MSI_UV_NONE, MSI_UV_FITS, MSI_UV_IDI } msi_uv_kind;

enum { MSI_UV_MAX_AXES = 8, MSI_UV_MAX_PARAMETERS = 32 };

typedef struct msi_uv_file {
    msi_uv_kind kind;
    int bitpix, n_axis, is_groups;
    int64_t axis[MSI_UV_MAX_AXES];
    char axis_type[MSI_UV_MAX_AXES][9];
    int64_t n_parameter, n_group; /* PCOUNT, GCOUNT */
    char parameter[MSI_UV_MAX_PARAMETERS][9];
    double scale[MSI_UV_MAX_PARAMETERS], zero[MSI_UV_MAX_PARAMETERS];
    double rest_freq_hz; /* RESTFREQ; 0 where there is none */
    int64_t n_if;        /* length of the axis IF; 1 where there is none */
    int64_t data_begin;  /* of the primary array, in bytes */
    int64_t group_bytes; /* of one group */
    int64_t file_bytes;
} msi_uv_file;

/*
 * msi_uv_file_read - read a file's primary header, and for a file without groups the extensions' names.
 * Returns: 0, MSI_EINPUT (no FITS file; one of neither kind; its data are shorter than the header says; numbers of a kind
 *          that casacore does not read)
 */
int msi_uv_file_read(msi_uv_file *h, const char *path);

/*
 * msi_uv_file_check_baselines - look at every group's BASELINE.
 * Returns: 0, MSI_EINPUT (there is none; one codes its antennas by 2048, for more than 255 of them: casacore takes every
 *          one for a code by 256)
 */
int msi_uv_file_check_baselines(const msi_uv_file *h, const char *path);

#endif
