/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A drawn canvas is written as a PNG. */
#ifndef MSI_IO_PICTURE_SAVE_H
#define MSI_IO_PICTURE_SAVE_H

#include <cairo.h>

#include "io/fits/publish.h"

/*
 * msi_picture_save - write a canvas as output i of a plan, up to and including msi_publish_seal.
 * Given:   cr  drawn with; its failure is the call's
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_picture_save(msi_publish *p, int i, cairo_t *cr, cairo_surface_t *canvas);

#endif
