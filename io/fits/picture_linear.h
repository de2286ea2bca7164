/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Straight axes are drawn around a picture: offsets on the sky, the uv plane, pixels. */
#ifndef MSI_IO_PICTURE_LINEAR_H
#define MSI_IO_PICTURE_LINEAR_H

#include "io/fits/picture_axes.h"

/* The value at the centre of 0-based pixel i is (i - zero_pixel) * per_pixel. */
typedef struct msi_linear_axis {
    double zero_pixel, per_pixel; /* may be negative, not 0 */
    const char *title;            /* with the unit */
} msi_linear_axis;

/* msi_picture_draw_linear - draw border, grid lines at round values, their labels, titles, of axes x and y. */
void msi_picture_draw_linear(cairo_t *cr, const msi_picture_frame *f, const msi_linear_axis axis[2]);

#endif
