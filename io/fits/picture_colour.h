/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Colours of a picture: a stretch maps values to [0, 1], and a colour map maps those to colours. */
#ifndef MSI_IO_PICTURE_COLOUR_H
#define MSI_IO_PICTURE_COLOUR_H

#include <stdint.h>

enum { MSI_N_COLOUR = 256 };

/* A stretch maps a value v to asinh((v - centre) / softening), scaled so that low is 0 and high is 1. If softening is
 * 0, it is linear from low to high. */
typedef struct msi_stretch {
    double low, high;
    double centre, softening;
} msi_stretch;

/* Kinds of values. */
typedef enum msi_picture_values {
    MSI_VALUES_BRIGHTNESS, /* noise about zero, and sources above it */
    MSI_VALUES_SIGNED,     /* values of either sign, such as Q, U, V; zero has the middle colour */
    MSI_VALUES_WEIGHTS,    /* not negative, over decades; the smallest positive value differs in colour from 0 */
    MSI_VALUES_INDEX       /* spectral indices: linear over the bulk of the values */
} msi_picture_values;

/*
 * msi_stretch_fit - choose a stretch for the values of an image.
 * Given:   value [n]  NaN is ignored
 * Returns: 0, MSI_ENOMEM
 */
int msi_stretch_fit(msi_stretch *s, msi_picture_values kind, const float *value, int64_t n);

/* msi_stretch_range - return the linear stretch from low to high > low. For signed values it is from -m to m, where m
 * is the larger of |low| and |high|. */
msi_stretch msi_stretch_range(msi_picture_values kind, double low, double high);

/* msi_stretch_apply - map v to [0, 1]. */
double msi_stretch_apply(const msi_stretch *s, double v);

/*
 * msi_colour_map - make a colour map. Its steps are even in perceived lightness, from near black through violet, red
 * and orange to pale yellow. For signed values it goes from dark blue through white to dark red.
 * Returned: rgb [MSI_N_COLOUR]  0x00RRGGBB, sRGB
 */
void msi_colour_map(uint32_t rgb[MSI_N_COLOUR], msi_picture_values kind);

#endif
