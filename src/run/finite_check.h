/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images and grids that overflowed are not written. */
#ifndef MSI_SRC_FINITE_CHECK_H
#define MSI_SRC_FINITE_CHECK_H

#include "io/fits/fits_image.h"

/* Such values most likely come from one sample: the one with the largest product of weight and visibility. */
typedef struct msi_finite_cause {
    const char *ms_path; /* borrowed */
    int64_t row;
    double product;
} msi_finite_cause;

/*
 * msi_finite_check - refuse an image, or a grid of the uv plane, with values that a file of floats does not hold. NaN
 * belongs beyond the horizon, and everywhere into an image without a sample; a grid has none.
 * Given:   spec  of the file; pixel [ny][nx]
 * Returns: 0, MSI_EINPUT
 */
int msi_finite_check(const msi_finite_cause *cause, msi_fits_kind kind, const msi_fits_spec *spec, const void *pixel,
                     msi_precision precision);

#endif
