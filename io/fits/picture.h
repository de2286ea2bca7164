/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pictures as PNG files, for a quick look at the images that a run writes and at any FITS image. */
#ifndef MSI_PICTURE_H
#define MSI_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "core/image.h"
#include "io/fits/fits_image.h"
#include "io/fits/publish.h"

/* Settings for pictures by the user. Zero: the defaults. */
typedef struct msi_picture_style {
    /* 1: colours are linear from low to high, in the unit of the pixels; for Stokes Q, U and V, from -m to m, where m
     * is the larger of |low| and |high| */
    int has_range;
    double low, high;
} msi_picture_style;

/*
 * msi_picture_write - write output i of a plan as a PNG file, and seal it (msi_publish_seal): the image with axes,
 * colour bar, beam and title. Large images are averaged over blocks to at most 1200 pixels per side.
 *
 * Given:    spec, pixel, precision  as for msi_fits_write; of a kind on the sky, or weights
 *           style
 * Returns:  as msi_picture_apart, and MSI_ERANGE (a transform to the uv plane; impossible coordinates)
 * Notes:    brightness is mapped to colours by asinh, which is linear within a few times the noise. Stokes Q, U and V
 *           are blue and red on either side of a white zero. Pixels without a value are grey. Fields of less than 2
 *           arcsec have offsets from the centre as axes. A PSF with a beam is cut to the inner 16 beams, and an ellipse
 *           shows its fitted half maximum. Weights are cut to the cells that are not empty. Components of a model with
 *           a beam are drawn as Gaussians of half the beam's width.
 */
int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const msi_picture_style *style,
                      const void *pixel, msi_precision precision);

/* Maps on one page, row by row from the top left. Each has nx x ny pixels, and a line to its right and below it. */
typedef struct msi_picture_tiles {
    int64_t n, n_column, nx, ny;
    char (*label)[24]; /* [n] text in the upper left corner of each map */
} msi_picture_tiles;

/*
 * msi_picture_write_view - write output i of a plan as a PNG file, and seal it (msi_publish_seal).
 * Given:   name     of the image, for the second line of the picture
 *          style
 *          contour  NULL: none
 *          tiles    the view is a page of these maps, without axes; NULL: it is one image
 * Returns: as msi_picture_apart
 * Notes:   like msi_picture_write, but the image is not cut. Axes that are not on the sky are linear.
 */
int msi_picture_write_view(msi_publish *p, int i, const msi_fits_view *view, const char *name,
                           const msi_picture_style *style, const msi_fits_contour *contour,
                           const msi_picture_tiles *tiles);

enum { MSI_CAPTION_BYTES = 384 }; /* size of a caption */

/* msi_caption_title - write the title of a picture: object, telescope, frequency, channel, polarisation, if known. */
void msi_caption_title(char line[MSI_CAPTION_BYTES], const msi_fits_spec *spec);

/* Append a part to a caption, such as "band 54 MHz", "peak 1.2 mJy/beam", "beam 2.1″ × 1.9″ at 30°". Nothing is
 * appended if it is unknown. */
void msi_caption_add_band(char line[MSI_CAPTION_BYTES], double bandwidth_hz);
void msi_caption_add_peak(char line[MSI_CAPTION_BYTES], double peak, const char *unit);
void msi_caption_add_beam(char line[MSI_CAPTION_BYTES], const msi_beam *beam);

/* ---- Pictures of curves over the same x, in panels one below the other ---- */

/* A curve. Colours repeat after six. */
typedef struct msi_picture_curve {
    const char *name; /* in the legend; "": not listed */
    int panel, colour, dashed;
    const double *x, *y; /* [n]; the curve has a gap if y is not finite, or not positive on a logarithmic axis */
    int64_t n;
} msi_picture_curve;

enum { MSI_CURVE_PANELS = 2 };

/* Everything is borrowed for the call. */
typedef struct msi_picture_curves {
    const char *title, *x_title;
    struct {
        const char *title; /* NULL: this panel and the following ones do not exist */
        int logarithmic;
    } panel[MSI_CURVE_PANELS];
    const msi_picture_curve *curve; /* [n_curve] */
    int64_t n_curve;
} msi_picture_curves;

/*
 * msi_picture_curves_draw - draw output i of a plan as a PNG file, and seal it (msi_publish_seal).
 * Returns: as msi_picture_apart
 */
int msi_picture_curves_draw(msi_publish *p, int i, const msi_picture_curves *c);

#endif
