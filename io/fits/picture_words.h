/* SPDX-License-Identifier: GPL-3.0-or-later */
/* These words stand above a picture, and name the unit of its axes. */
#ifndef MSI_IO_PICTURE_WORDS_H
#define MSI_IO_PICTURE_WORDS_H

#include <stddef.h>

#include "core/beam.h"
#include "core/image.h"
#include "io/fits/fits_image.h"

enum { MSI_PICTURE_WORDS = 384 }; /* bytes of a line */

/* msi_words_title - say whose picture it is: object, telescope, frequency, channel, polarisation, where known. */
void msi_words_title(char line[MSI_PICTURE_WORDS], const msi_fits_spec *spec);

/* msi_words_add - add ", " and a part; nothing for an empty one. */
void msi_words_add(char line[MSI_PICTURE_WORDS], const char *part);

/* The following add their part, or nothing where it is unknown: 1.4 GHz; band 54 MHz; Stokes Q or XX; peak 1.2
 * mJy/beam; beam 2.1″ × 1.9″ at 30°. */
void msi_words_add_freq(char line[MSI_PICTURE_WORDS], double freq_hz);
void msi_words_add_band(char line[MSI_PICTURE_WORDS], double bandwidth_hz);
void msi_words_add_pol(char line[MSI_PICTURE_WORDS], msi_pol pol);
void msi_words_add_peak(char line[MSI_PICTURE_WORDS], double peak, const char *unit);
void msi_words_add_beam(char line[MSI_PICTURE_WORDS], const msi_beam *beam);

/* msi_words_angle - write 2.15″ and the like: °, ′, ″, mas or µas. */
void msi_words_angle(double rad, char *text, size_t size);

/* msi_words_peak - find the value of the largest size among the pixels; NaN where there is none. */
double msi_words_peak(int64_t n_pixel, const void *pixel, msi_precision precision);

#endif
