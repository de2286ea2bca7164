/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Draws a picture: image, axes, colour bar, beam and title. picture.c chooses what it shows. */
#ifndef MSI_PICTURE_DRAW_H
#define MSI_PICTURE_DRAW_H

#include <cairo.h>
#include <stddef.h>
#include <stdint.h>

#include "core/image.h"
#include "io/fits/picture.h"
#include "io/fits/picture_axes.h"
#include "io/fits/publish.h"
#include "io/fits/sky_wcs.h"

/* ---- Colours: a stretch maps values to [0, 1], and a colour map maps these to colours ---- */

enum { MSI_N_COLOUR = 256 };

/* A stretch maps a value v to asinh((v - centre) / softening), scaled so that low is 0 and high is 1. If softening is
 * 0, it is linear from low to high. */
typedef struct msi_stretch {
    double low, high;
    double centre, softening;
} msi_stretch;

/* The kinds of values that pixels may have. */
typedef enum msi_picture_values {
    MSI_VALUES_BRIGHTNESS, /* noise about zero, and sources above it */
    MSI_VALUES_SIGNED,     /* values of either sign, such as Q, U, V; zero has the middle colour */
    MSI_VALUES_WEIGHTS,    /* positive or 0, over decades; the smallest positive value differs in colour from 0 */
    MSI_VALUES_INDEX       /* spectral indices: linear over most of the values */
} msi_picture_values;

/*
 * msi_stretch_fit - choose a stretch for the values of an image.
 * Given:   value [n]  NaN is ignored
 * Returns: 0, MSI_ENOMEM
 */
int msi_stretch_fit(msi_stretch *s, msi_picture_values kind, const float *value, int64_t n);

/* msi_stretch_apply - map v to [0, 1]. */
double msi_stretch_apply(const msi_stretch *s, double v);

/*
 * msi_colour_map - make a colour map. Its steps are even in perceived lightness, from near black through violet, red
 * and orange to pale yellow. For signed values it goes from dark blue through white to dark red.
 * Returned: rgb [MSI_N_COLOUR]  0x00RRGGBB, sRGB
 */
void msi_colour_map(uint32_t rgb[MSI_N_COLOUR], msi_picture_values kind);

/* A part of an image: nx x ny pixels, the first is the 0-based pixel (x, y). */
typedef struct msi_picture_window {
    int64_t x, y, nx, ny;
} msi_picture_window;

/* All pointers are borrowed for the call. */
typedef struct msi_picture {
    const char *title, *detail; /* two lines above the image */
    int64_t nx, ny;             /* size of the image */
    msi_precision precision;
    const void *pixel; /* [ny][nx] */
    msi_picture_window window;
    msi_picture_values values;
    const char *unit;
    const msi_sky_wcs *wcs;          /* coordinates of the window; NULL: linear axes */
    const msi_linear_axis *axis;     /* [2] if wcs is NULL, for pixels of the window */
    msi_beam beam;                   /* zero: not drawn */
    double cell_rad;                 /* size of a pixel in y, needed with a beam */
    int is_psf;                      /* 1: outline the beam in the middle; 0: draw it in a corner */
    const msi_fits_contour *contour; /* contour of the whole image; NULL: none */
    const msi_picture_tiles *tiles;  /* NULL: one image */
    const msi_picture_style *style;  /* NULL: default */
} msi_picture;

/*
 * msi_picture_draw - draw output i of a plan as a PNG file, and seal it (msi_publish_seal). Large windows are averaged
 * over blocks to at most 1200 pixels a side.
 * Returns: as msi_picture_apart
 */
int msi_picture_draw(msi_publish *p, int i, const msi_picture *picture);

/* msi_picture_format_value - format a value such as "-1.234 mJy/beam", with four digits and a suitable prefix. */
void msi_picture_format_value(double value, const char *unit, char *text, size_t size);

/*
 * msi_picture_save - write a canvas as output i of a plan, which has been begun.
 * Given:   cr  used for drawing; if it failed, this fails
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_picture_save(msi_publish *p, int i, cairo_t *cr, cairo_surface_t *canvas);

#endif
