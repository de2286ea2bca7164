/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The antennas of the groups of a UVFITS file. BASELINE is 256 ANTENNA1 + ANTENNA2 + (SUBARRAY - 1) / 100 (E. W.
 * Greisen, "AIPS FITS File Format", AIPS Memo 117, NRAO 2009, section 3.1.2), of which nothing is above 65535; Miriad
 * and those that follow it write 2048 ANTENNA1 + ANTENNA2 + 65536 where a number is above 255. casacore knows the first
 * alone, but reads antennas that have a parameter each, as the memo's revision of 2017 has them.
 */
#ifndef MSI_SRC_UV_BASELINES_H
#define MSI_SRC_UV_BASELINES_H

#include "io/convert/uvfits_stations.h"
#include "src/convert/uv_file.h"

/*
 * msi_uv_baselines_check - look at the antennas of every group, and collect what else the groups name.
 * Given and returned: h  has_wide_codes, has_zero, freqsel, source and subarray are set
 * Returns: 0, MSI_EINPUT (there is no BASELINE, nor the antennas by themselves; one is no code of two antennas; FREQSEL
 *          or SOURCE is no number of a row of a table), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_uv_baselines_check(msi_uv_file *h, const char *path);

/* msi_uv_baselines_has_sums - tell whether u, v and w are two parameters each, whose sum they are. */
int msi_uv_baselines_has_sums(const msi_uv_file *h);

/*
 * msi_uv_baselines_coordinates - read u, v and w of every group, sums of all parameters of their names.
 * Returned: uvw_m [n_group][n_if][3]  metres, the same for all IFs of a group
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_uv_baselines_coordinates(const msi_uv_file *h, const char *path, double *uvw_m);

/*
 * msi_uv_baselines_split - copy a file with SUBARRAY, ANTENNA1 and ANTENNA2 in the place of BASELINE, should it have
 * that, without the filling behind its last extension.
 * Given:   to        where nothing stands
 *          stations  numbers that antennas get; NULL: they keep those that they have
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_uv_baselines_split(const msi_uv_file *h, const char *path, const char *to, const msi_uv_stations *stations);

/* msi_uv_baselines_keep - copy a file as it is, without that filling. Returns: as msi_uv_baselines_split. */
int msi_uv_baselines_keep(const msi_uv_file *h, const char *path, const char *to);

#endif
