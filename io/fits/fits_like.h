/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An image is written with the header of another one: what is made of a file that somebody else wrote. */
#ifndef MSI_IO_FITS_LIKE_H
#define MSI_IO_FITS_LIKE_H

#include "core/beam.h"
#include "io/fits/publish.h"

/* Names what differs from the other image's header. */
typedef struct msi_fits_change {
    const char *unit; /* BUNIT */
    msi_beam beam;    /* known */
    const char *command_line;
} msi_fits_change;

/*
 * msi_fits_write_like - write output i of a plan as a float32 primary image with the axes and cards of the first image
 * in a file, up to and including msi_publish_seal. Cards of the pixels' coding are left out, those of the beam
 * replaced.
 * Given:   path   taken literally
 *          pixel  of all planes, as many as that image has
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_fits_write_like(msi_publish *p, int i, const char *path, const msi_fits_change *change, const float *pixel);

#endif
