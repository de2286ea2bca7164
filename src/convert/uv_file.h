/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Read the headers of a UVFITS or FITS-IDI file, and tell whether casacore can be given the file. */
#ifndef MSI_SRC_UV_FILE_H
#define MSI_SRC_UV_FILE_H

#include "io/convert/uvfits_mend.h"
#include "src/convert/uv_hdu.h"

typedef enum msi_uv_kind { MSI_UV_NONE, MSI_UV_FITS, MSI_UV_IDI } msi_uv_kind;

/* What visibilities of FITS-IDI are, by the card STK_1 (0: there is none) and by their axis. */
typedef struct msi_uv_idi {
    double first_stokes, first_of_axis;
} msi_uv_idi;

typedef struct msi_uv_file {
    msi_uv_kind kind;
    msi_uv_hdu primary;
    int has_wide_codes;                   /* of BASELINE by 2048: msi_uv_baselines_check */
    int has_zero;                         /* a group has antenna 0: msi_uv_baselines_check */
    msi_uv_ids freqsel, source, subarray; /* numbers in the groups: msi_uv_baselines_check */
    int has_sources;                      /* a table AIPS SU, whose positions count, not that of the header */
    int has_no_time_system;               /* a table of antennas without TIMSYS */
    int64_t n_if;                         /* length of the axis IF; 1 where there is none */
    int64_t data_begin;                   /* of the primary array, in bytes */
    int64_t group_bytes;                  /* of one group */
    msi_uv_idi idi;                       /* of the last table UV_DATA */
    int64_t end;                          /* of the last extension: what follows is filling */
    int64_t file_bytes;
} msi_uv_file;

/*
 * msi_uv_file_read - read the headers of a file, and hold them against each other.
 * Returns: 0, MSI_EINPUT (no FITS file; one of neither kind; data or tables are longer than the file; a table's columns
 *          are not what its rows are long; numbers of a kind that casacore does not read)
 */
int msi_uv_file_read(msi_uv_file *h, const char *path);

/*
 * casacore takes the axes and parameters of a file's visibilities to lie in one order, and looks for no other.
 *
 * msi_uv_axes_check - check the axes of the random groups of a UVFITS file, and their parameters.
 * Returns: 0, MSI_EINPUT (an axis or a parameter is missing or there twice; the axes lie in an order in which casacore
 *          would take one visibility for another; STOKES are neither correlations nor Stokes parameters)
 */
int msi_uv_axes_check(const msi_uv_hdu *u, const char *path);

/* msi_uv_axes_refuse_stokes - refuse random groups of Stokes parameters, which casacore does not read. Returns: 0,
 * MSI_EINPUT. */
int msi_uv_axes_refuse_stokes(const msi_uv_hdu *u, const char *path);

/*
 * msi_uv_axes_check_cells - check the axes of a table UV_DATA of FITS-IDI, and its columns.
 * Returns: 0, MSI_EINPUT (as msi_uv_axes_check; a column is missing, or of other numbers than casacore takes it for;
 *          the header says Stokes parameters where the axis says correlations)
 */
int msi_uv_axes_check_cells(const msi_uv_hdu *u, const char *path);

#endif
