/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Turns brightness into colour: the stretch and the colour map of a picture. */
#ifndef MSI_IO_PICTURE_COLOUR_H
#define MSI_IO_PICTURE_COLOUR_H

#include <stdint.h>

enum { MSI_N_COLOUR = 256 };

/* brightness -> [0, 1]: asinh((v - centre) / softening), scaled so that low is 0 and high is 1 */
typedef struct msi_stretch {
    double low, high;
    double centre, softening;
} msi_stretch;

/*
 * msi_stretch_fit - choose a stretch for the values of an image.
 * Given:   value [n]  NaN is left out
 * Returns: 0, MSI_ENOMEM
 */
int msi_stretch_fit(msi_stretch *s, const float *value, int64_t n);

/* msi_stretch_apply - position of v in [0, 1]. msi_stretch_invert - the brightness at position t. */
double msi_stretch_apply(const msi_stretch *s, double v);
double msi_stretch_invert(const msi_stretch *s, double t);

/*
 * msi_colour_map - colours of even steps in perceived lightness, from near black through violet, red and orange to pale
 * yellow.
 * Returned: rgb [MSI_N_COLOUR]  0x00RRGGBB, sRGB
 */
void msi_colour_map(uint32_t rgb[MSI_N_COLOUR]);

#endif
