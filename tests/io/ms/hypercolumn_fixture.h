/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Columns that share the tiles of a hypercube, as in sets of the Compact Array, ASKAP and old CASA. casacore_c cannot
 * make them. */
#ifndef MSI_TESTS_HYPERCOLUMN_FIXTURE_H
#define MSI_TESTS_HYPERCOLUMN_FIXTURE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * hypercolumn_add - add MODEL_DATA and CORRECTED_DATA to a set, both in one hypercube of a TiledDataStMan.
 * Given:   n_row  of the hypercube: the first ones of the set; the cells of all others have no value
 *          model, corrected [n_row][n_chan][n_corr]  complex numbers, real and imaginary part
 * Returns: 0; 1 if casacore fails, with its message on stderr
 */
int hypercolumn_add(const char *path, int64_t n_row, int n_chan, int n_corr, const float *model,
                    const float *corrected);

#ifdef __cplusplus
}
#endif
#endif
