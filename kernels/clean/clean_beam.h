/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A beam in pixels: the gaussian that images are convolved with. */
#ifndef MSI_CLEAN_BEAM_H
#define MSI_CLEAN_BEAM_H

#include <math.h>

#include "core/image.h"
#include "kernels/clean/clean_state.h"

/* msi_clean_beam_gaussian - east grows to lower x; the position angle from north, which is up, through east. */
static inline msi_clean_gaussian msi_clean_beam_gaussian(const msi_beam *b, double cell_x_rad, double cell_y_rad)
{
    const double sin_pa = sin(b->pa_rad), cos_pa = cos(b->pa_rad);
    const double along = 4 * log(2) / (b->major_rad * b->major_rad);
    const double across = 4 * log(2) / (b->minor_rad * b->minor_rad);
    return (msi_clean_gaussian){.xx = cell_x_rad * cell_x_rad * (along * sin_pa * sin_pa + across * cos_pa * cos_pa),
                                .xy = -cell_x_rad * cell_y_rad * sin_pa * cos_pa * (along - across),
                                .yy = cell_y_rad * cell_y_rad * (along * cos_pa * cos_pa + across * sin_pa * sin_pa)};
}

/* msi_clean_beam_padded - return the edge of a transform in which an image of n pixels is convolved with a beam. Along
 * an axis it has fallen to e-44, less than rounding of doubles, at four widths. */
static inline int64_t msi_clean_beam_padded(int64_t n, const msi_beam *b, double cell_rad)
{
    const double reach = ceil(4 * fmax(b->major_rad, b->minor_rad) / cell_rad);
    return msi_fft_size(n + (reach < (double)n ? (int64_t)reach : n));
}

/* msi_clean_beam_is - tell whether a beam and pixels are numbers to work with. */
static inline int msi_clean_beam_is(const msi_beam *b, double cell_x_rad, double cell_y_rad)
{
    return msi_beam_known(b) && isfinite(b->major_rad + b->minor_rad + b->pa_rad) && cell_x_rad > 0 && cell_y_rad > 0 &&
           isfinite(cell_x_rad + cell_y_rad);
}

#endif
