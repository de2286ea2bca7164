/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quick-look pictures, as PNG files, of the images that a run writes and of any FITS image. */
#ifndef MSI_PICTURE_H
#define MSI_PICTURE_H

#include <stddef.h>
#include <stdint.h>

#include "core/image.h"
#include "io/fits/fits_image.h"
#include "io/fits/publish.h"

/* Settings of a user for pictures. Zero: the default. */
typedef struct msi_picture_style {
    int has_range; /* colours are linear from low to high, in the unit of the pixels; for Stokes Q, U and V they run
                      from -m to m, where m is the larger of |low| and |high| */
    double low, high;
} msi_picture_style;

/*
 * msi_picture_write - write output i of a plan as a PNG, up to and including msi_publish_seal: the image with axes,
 * colour bar, beam and title. Large images are averaged over blocks to at most 1200 pixels a side.
 *
 * Given:    spec, pixel, precision  as for msi_fits_write; a kind on the sky, or weights
 *           style
 * Returns:  as msi_picture_apart, and MSI_ERANGE (a transform to the uv plane; impossible coordinates)
 * Notes:    brightness is stretched by asinh, linear within a few times the noise. Stokes Q, U and V are blue and red
 *           about a white zero. Pixels without a value are grey. Fields of less than 2 arcsec have offsets from the
 *           centre as axes. A PSF with a beam is cut to the inner 16 beams, and the ellipse at half of its height is
 *           drawn. Weights are cut to the cells that are not empty. Components of a model with a beam are drawn as
 *           gaussians of half its width.
 */
int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const msi_picture_style *style,
                      const void *pixel, msi_precision precision);

/* Maps on one page, by rows from the top left: each has nx x ny pixels, and a line on its right and below it. */
typedef struct msi_picture_tiles {
    int64_t n, n_column, nx, ny;
    char (*label)[24]; /* [n], in the upper left corner of each */
} msi_picture_tiles;

/*
 * msi_picture_write_view - write output i of a plan as a PNG, up to and including msi_publish_seal.
 * Given:   name     of the image, for the second line of the picture
 *          style
 *          contour  NULL: none
 *          tiles    the view is a page of these, without axes; NULL: one image
 * Returns: as msi_picture_apart
 * Notes:   like msi_picture_write, but the image is never cut, and axes that are not on the sky are linear.
 */
int msi_picture_write_view(msi_publish *p, int i, const msi_fits_view *view, const char *name,
                           const msi_picture_style *style, const msi_fits_contour *contour,
                           const msi_picture_tiles *tiles);

enum { MSI_CAPTION_BYTES = 384 }; /* size of a caption */

/* msi_caption_title - write the title of a picture: object, telescope, frequency, channel, polarisation, if known. */
void msi_caption_title(char line[MSI_CAPTION_BYTES], const msi_fits_spec *spec);

/* These functions append a part to a caption, such as "band 54 MHz", "peak 1.2 mJy/beam", "beam 2.1″ × 1.9″ at 30°", or
 * nothing if it is unknown. */
void msi_caption_add_band(char line[MSI_CAPTION_BYTES], double bandwidth_hz);
void msi_caption_add_peak(char line[MSI_CAPTION_BYTES], double peak, const char *unit);
void msi_caption_add_beam(char line[MSI_CAPTION_BYTES], const msi_beam *beam);

/* ---- Pictures of curves over a common axis, in panels below each other ---- */

/* One curve. Colours repeat after six. */
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
        const char *title; /* NULL: there is no such panel, nor any after it */
        int logarithmic;
    } panel[MSI_CURVE_PANELS];
    const msi_picture_curve *curve; /* [n_curve] */
    int64_t n_curve;
} msi_picture_curves;

/*
 * msi_picture_curves_draw - draw output i of a plan as a PNG, up to and including msi_publish_seal.
 * Returns: as msi_picture_apart
 */
int msi_picture_curves_draw(msi_publish *p, int i, const msi_picture_curves *c);

#endif
