/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The subtables of a set that is being made: array, fields, spectral and polarisation setups, observation, history. */
#ifndef MSI_TESTDATA_MAKEMS_SUBTABLES_H
#define MSI_TESTDATA_MAKEMS_SUBTABLES_H

#include "io/casacore-c/casacore_c.h"
#include "testdata/makems.h"

/*
 * msi_makems_subtables - fill ANTENNA, FEED, FIELD, SPECTRAL_WINDOW, POLARIZATION, DATA_DESCRIPTION, OBSERVATION,
 * HISTORY.
 *
 * Given:    spec  start_mjd_s must be set
 * Returns:  0, MSI_EOUTPUT
 */
int msi_makems_subtables(ccc_table *ms, const msi_makems_spec *spec);

#endif
