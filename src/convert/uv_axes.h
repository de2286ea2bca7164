/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whether casacore reads the axes and parameters of a file's visibilities as the file means them: it takes them to lie in
 * one order, and looks for no other. */
#ifndef MSI_SRC_UV_AXES_H
#define MSI_SRC_UV_AXES_H

#include "src/convert/uv_hdu.h"

/*
 * msi_uv_axes_check - check the axes of the random groups of a UVFITS file, and their parameters.
 * Returns: 0, MSI_EINPUT (an axis or a parameter is missing or there twice; the axes lie in an order in which casacore
 *          would take one visibility for another; STOKES are no correlations)
 */
int msi_uv_axes_check(const msi_uv_hdu *u, const char *path);

/*
 * msi_uv_axes_check_cells - check the axes of a table UV_DATA of FITS-IDI, and its columns.
 * Returns: 0, MSI_EINPUT (as msi_uv_axes_check; a column is missing, or of other numbers than casacore takes it for; the
 *          header says Stokes parameters where the axis says correlations)
 */
int msi_uv_axes_check_cells(const msi_uv_hdu *u, const char *path);

#endif
