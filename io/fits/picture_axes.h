/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Axes and text of a picture: grid lines of sky coordinates, or linear axes. */
#ifndef MSI_PICTURE_AXES_H
#define MSI_PICTURE_AXES_H

#include <cairo.h>

#include "core/image.h"
#include "io/fits/sky_wcs.h"

/* The position of the image on the canvas. Lengths are in canvas pixels. */
typedef struct msi_picture_frame {
    double left, top, width, height;
    double scale; /* canvas pixels per image pixel */
    int is_light; /* 1: colours about zero are light, so lines are dark */
    msi_image_geometry geometry;
    const msi_sky_wcs *wcs; /* used only by msi_picture_draw_axes */
} msi_picture_frame;

enum { MSI_PICTURE_LABEL_SIZE = 15 };

/* msi_picture_draw_axes - draw border, grid lines at round sky coordinates, labels and axis titles. */
void msi_picture_draw_axes(cairo_t *cr, const msi_picture_frame *f);

/* msi_picture_draw_border - draw border and axis titles. widest_left is the width of the widest label at the left. */
void msi_picture_draw_border(cairo_t *cr, const msi_picture_frame *f, const char *title_x, const char *title_y,
                             double widest_left);

/* msi_picture_format_direction - format longitude and latitude of the image centre in the format of
 * the labels, to the microarcsecond. */
void msi_picture_format_direction(char lng[64], char lat[64], const msi_sky_axes *a);

/* msi_picture_draw_text - draw a text at (x, y). x is the left end of the text (align 0), its middle (0.5) or its right
 * end (1). y is the baseline. In '^c' the character c is raised and small. */
void msi_picture_draw_text(cairo_t *cr, double x, double y, double align, const char *text);

/* msi_picture_measure_text - return the width of a text for msi_picture_draw_text. */
double msi_picture_measure_text(cairo_t *cr, const char *text);

/* A linear axis: offsets on the sky, the uv plane, or pixels. The value at the centre of 0-based pixel i is
 * (i - zero_pixel) * per_pixel. */
typedef struct msi_linear_axis {
    double zero_pixel, per_pixel; /* per_pixel may be negative, but not 0 */
    const char *title;            /* includes the unit */
} msi_linear_axis;

/* msi_picture_draw_linear - draw border, grid lines at round values, labels and titles of linear axes x and y. */
void msi_picture_draw_linear(cairo_t *cr, const msi_picture_frame *f, const msi_linear_axis axis[2]);

#endif
