/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A picture is put together of image, axes, colour bar, beam and title. What it says is its callers' to decide. */
#ifndef MSI_PICTURE_DRAW_H
#define MSI_PICTURE_DRAW_H

#include <cairo.h>
#include <stddef.h>

#include "core/image.h"
#include "io/fits/picture.h"
#include "io/fits/picture_axes.h"
#include "io/fits/picture_colour.h"
#include "io/fits/publish.h"
#include "io/fits/sky_wcs.h"

/* A part of an image: nx x ny pixels from the 0-based pixel (x, y) on. */
typedef struct msi_picture_window {
    int64_t x, y, nx, ny;
} msi_picture_window;

/* Everything is borrowed for the call. */
typedef struct msi_picture {
    const char *title, *detail; /* two lines above it */
    int64_t nx, ny;             /* of the image */
    msi_precision precision;
    const void *pixel; /* [ny][nx] */
    msi_picture_window window;
    msi_picture_values values;
    const char *unit;
    const msi_sky_wcs *wcs;         /* of the window; NULL: straight axes */
    const msi_linear_axis *axis;    /* [2] where wcs is NULL, of the window's pixels */
    msi_beam beam;                  /* zero: none is drawn */
    double cell_rad;                /* of a pixel in y, where there is a beam */
    int is_psf;                     /* the beam is outlined about the middle instead of shown in a corner */
    const msi_picture_style *style; /* NULL: none */
} msi_picture;

/*
 * msi_picture_draw - draw output i of a plan as a PNG, up to and including msi_publish_seal. Large windows are averaged
 * over blocks to at most 1200 pixels a side.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_picture_draw(msi_publish *p, int i, const msi_picture *picture);

/* msi_picture_value - "-1.234 mJy/beam": four digits and the unit, with the prefix that suits the value. */
void msi_picture_value(double value, const char *unit, char *text, size_t size);

/*
 * msi_picture_save - write a canvas as output i of a plan, up to and including msi_publish_seal.
 * Given:   cr  drawn with; its failure is the call's
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_picture_save(msi_publish *p, int i, cairo_t *cr, cairo_surface_t *canvas);

#endif
