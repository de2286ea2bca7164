/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sky coordinates are drawn around and over a picture. */
#ifndef MSI_PICTURE_AXES_H
#define MSI_PICTURE_AXES_H

#include <cairo.h>

#include "core/image.h"
#include "io/fits/sky_wcs.h"

/* A frame says where on the canvas the image lies; lengths are in canvas pixels. */
typedef struct msi_picture_frame {
    double left, top, width, height;
    double scale; /* canvas pixels an image pixel */
    int is_light; /* the colours about zero are light, so that lines are to be dark */
    msi_image_geometry geometry;
    const msi_sky_wcs *wcs; /* of msi_picture_draw_axes alone */
} msi_picture_frame;

enum { MSI_PICTURE_LABEL_SIZE = 15 };

/* msi_picture_draw_axes - draw border, grid lines at round coordinates, their labels, axis titles. */
void msi_picture_draw_axes(cairo_t *cr, const msi_picture_frame *f);

/* msi_picture_draw_border - draw border and axes' titles; widest_left is the width of the labels at the left. */
void msi_picture_draw_border(cairo_t *cr, const msi_picture_frame *f, const char *title_x, const char *title_y,
                             double widest_left);

/* msi_picture_format_direction - write an image centre's longitude and latitude to the microarcsecond, like labels. */
void msi_picture_format_direction(char lng[64], char lat[64], const msi_sky_axes *a);

/* msi_picture_text - draw at (x, y); align 0: x is the text's left end, 0.5: middle, 1: right end; y is the baseline.
 * Of a pair '^c' the character c is raised and small. */
void msi_picture_text(cairo_t *cr, double x, double y, double align, const char *text);

/* msi_picture_text_width - measure the same text. */
double msi_picture_text_width(cairo_t *cr, const char *text);

/* Straight axes are drawn around a picture: offsets on the sky, the uv plane, pixels. */

/* The value at the centre of 0-based pixel i is (i - zero_pixel) * per_pixel. */
typedef struct msi_linear_axis {
    double zero_pixel, per_pixel; /* may be negative, not 0 */
    const char *title;            /* with the unit */
} msi_linear_axis;

/* msi_picture_draw_linear - draw border, grid lines at round values, their labels, titles, of axes x and y. */
void msi_picture_draw_linear(cairo_t *cr, const msi_picture_frame *f, const msi_linear_axis axis[2]);

#endif
