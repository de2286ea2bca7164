/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The colour bar is drawn beside a picture, with the unit that suits its brightness. */
#ifndef MSI_IO_PICTURE_BAR_H
#define MSI_IO_PICTURE_BAR_H

#include <stddef.h>

#include "io/fits/picture_axes.h"
#include "io/fits/picture_colour.h"

/* msi_picture_draw_bar - draw the bar to the right of the frame, with ticks at round values and the unit. */
void msi_picture_draw_bar(cairo_t *cr, const msi_picture_frame *f, const msi_stretch *stretch,
                          const uint32_t colour[MSI_N_COLOUR], const char *unit);

/* msi_picture_value - "-1.234 mJy/beam": four digits and the unit, with the prefix that suits the value. */
void msi_picture_value(double value, const char *unit, char *text, size_t size);

#endif
