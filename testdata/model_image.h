/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sources of a simulated set are written as a model image, such as predictions are made of. */
#ifndef MSI_TESTDATA_MODEL_IMAGE_H
#define MSI_TESTDATA_MODEL_IMAGE_H

#include "io/fits/publish.h"
#include "testdata/makems.h"

/*
 * msi_model_image_write - write Stokes I of the sources in Jy/pixel, each on the pixel next to it, about the first
 * field's phase centre: a FITS image at the reference frequency.
 *
 * Given:    path; spec  of the set; overwrite is heeded for this file too
 *           size        pixels along each side, even; cell_rad  of a pixel
 * Returned: *out  the file under its temporary name, for msi_publish_commit and msi_publish_free; NULL after a failure
 * Returns:  0, MSI_EUSAGE (a source lies outside the image, or a file of that name is there), MSI_EOUTPUT, MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
int msi_model_image_write(msi_publish **out, const char *path, const msi_makems_spec *spec, int64_t size,
                          double cell_rad);

#endif
