/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Brightness becomes colour by two steps: the stretch and the colour maps of a picture. */
#ifndef MSI_IO_PICTURE_COLOUR_H
#define MSI_IO_PICTURE_COLOUR_H

#include <stdint.h>

enum { MSI_N_COLOUR = 256 };

/* brightness -> [0, 1]: asinh((v - centre) / softening), scaled so that low is 0 and high is 1; where softening is 0,
 * a straight line from low to high. */
typedef struct msi_stretch {
    double low, high;
    double centre, softening;
} msi_stretch;

/* The values of an image are of one of these kinds. */
typedef enum msi_picture_values {
    MSI_VALUES_BRIGHTNESS, /* noise about zero, and sources above it */
    MSI_VALUES_SIGNED,     /* of either sign alike: Q, U, V; zero is the middle of the colours */
    MSI_VALUES_WEIGHTS,    /* 0 or more, over decades; what is smallest above 0 still differs from it */
    MSI_VALUES_INDEX       /* a spectral index: colours are even between the bulk of values */
} msi_picture_values;

/*
 * msi_stretch_fit - choose a stretch for the values of an image.
 * Given:   value [n]  NaN is left out
 * Returns: 0, MSI_ENOMEM
 */
int msi_stretch_fit(msi_stretch *s, msi_picture_values kind, const float *value, int64_t n);

/* msi_stretch_range - the straight stretch from low to high > low; of signed values from -m to m, where m is the larger
 * of the two by size. */
msi_stretch msi_stretch_range(msi_picture_values kind, double low, double high);

/* msi_stretch_apply - return the position of v in [0, 1]. */
double msi_stretch_apply(const msi_stretch *s, double v);

/*
 * msi_colour_map - give colours of even steps in perceived lightness, from near black through violet, red and orange to
 * pale yellow; for signed values from dark blue through white to dark red.
 * Returned: rgb [MSI_N_COLOUR]  0x00RRGGBB, sRGB
 */
void msi_colour_map(uint32_t rgb[MSI_N_COLOUR], msi_picture_values kind);

#endif
