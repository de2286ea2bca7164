/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quick-look pictures, as PNG files, of the images that a run writes and of any FITS image. */
#ifndef MSI_PICTURE_H
#define MSI_PICTURE_H

#include <stddef.h>

#include "core/image.h"
#include "io/fits/fits_image.h"

/* A user may ask this of pictures; zero: nothing. */
typedef struct msi_picture_style {
    int has_range; /* the colours run evenly from low to high, in the unit of the pixels; those of Stokes Q, U, V from
                      -m to m, where m is the larger by size */
    double low, high;
} msi_picture_style;

/*
 * msi_picture_write - write output i of a plan as a PNG, up to and including msi_publish_seal: the image with axes,
 * colour bar, beam and title. Large images are averaged over blocks to at most 1200 pixels a side.
 *
 * Given:    spec, pixel, precision  as for msi_fits_write; a kind on the sky, or weights; style
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM, MSI_ERANGE (a transform to the uv plane; impossible coordinates)
 * Notes:    brightness goes through asinh, linear within a few times the noise; Stokes Q, U and V are blue and red
 * about a white zero; pixels without value are grey. Fields of less than 2 arcsec have offsets from the centre as axes.
 * Of a PSF with a beam the inner 16 beams are shown with the ellipse at half of its height; of weights the cells that
 * have some.
 */
int msi_picture_write(msi_publish *p, int i, const msi_fits_spec *spec, const msi_picture_style *style,
                      const void *pixel, msi_precision precision);

/*
 * msi_picture_write_view - write output i of a plan as a PNG, up to and including msi_publish_seal.
 * Given:   name  of the image, for the picture's second line; style
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 * Notes:   as msi_picture_write, but the whole image; axes that are none on the sky are straight.
 */
int msi_picture_write_view(msi_publish *p, int i, const msi_fits_view *view, const char *name,
                           const msi_picture_style *style);

enum { MSI_PICTURE_WORDS = 384 }; /* bytes of a caption */

/* msi_words_title - write the title of a picture: object, telescope, frequency, channel, polarisation, where known. */
void msi_words_title(char line[MSI_PICTURE_WORDS], const msi_fits_spec *spec);

/* These append a part to a caption, such as "band 54 MHz", "peak 1.2 mJy/beam", "beam 2.1″ × 1.9″ at 30°", or nothing if
 * it is unknown. */
void msi_words_add_band(char line[MSI_PICTURE_WORDS], double bandwidth_hz);
void msi_words_add_peak(char line[MSI_PICTURE_WORDS], double peak, const char *unit);
void msi_words_add_beam(char line[MSI_PICTURE_WORDS], const msi_beam *beam);

#endif
