/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writes finished images while the next ones are computed. A thread writes each plane. Several threads may put images
 * at the same time. Images and grids with overflowed values are refused. */
#ifndef MSI_IMAGE_WRITER_H
#define MSI_IMAGE_WRITER_H

#include "io/fits/fits_image.h"
#include "kernels/gridder.h"
#include "src/run/outputs.h"

/* The sample with the largest product of weight and visibility, which is the probable cause of an overflow. */
typedef struct msi_finite_cause {
    const char *ms_path; /* borrowed */
    int64_t row;
    double product;
    int is_mosaic; /* pixels that no field sees are NaN */
} msi_finite_cause;

/*
 * msi_finite_check - refuse an image, or a grid of the uv plane, with values that single precision cannot represent.
 * NaN is valid beyond the horizon, in pixels of a mosaic that no field sees, and everywhere in an image without
 * samples. It is never valid in a grid.
 * Given:   spec  of the file; pixel [ny][nx]
 * Returns: 0, MSI_EINPUT
 */
int msi_finite_check(const msi_finite_cause *cause, msi_fits_kind kind, const msi_fits_spec *spec, const void *pixel,
                     msi_precision precision);

/* A file for a plane of an image. */
typedef struct msi_image_file {
    msi_output_id id;
    int plane; /* plane of the image */
    msi_fits_spec spec;
    msi_finite_cause cause; /* reported if values are not finite in single precision */
} msi_image_file;

enum { MSI_IMAGE_MAX_FILES = MSI_GRIDDER_MAX_PLANES + 1 };  /* the planes and the PSF */
enum { MSI_IMAGES_IN_FLIGHT = 16, MSI_FILES_AT_ONCE = 16 }; /* written at a time, at most */

typedef struct msi_image_writer msi_image_writer;

/*
 * msi_image_writer_create - create a writer.
 * Given:    outputs  borrowed
 *           n_thread  threads that may write; with 1, msi_image_writer_put writes in the calling thread
 * Returned: *out     freed by msi_image_writer_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_image_writer_create(msi_image_writer **out, msi_outputs *outputs, int n_thread);

/*
 * msi_image_writer_put - begin to write an image, as soon as fewer than n_pending images are being written.
 * Given:              n_pending  0 .. MSI_IMAGES_IN_FLIGHT; 0: the image is written on return
 *                     file [n_file]  copied, with the contents of spec.observation, spec.data_column and
 *                                    spec.primary_beam, which must be the same for all files. Other pointers of a spec
 *                                    are borrowed until the image is written
 * Given and returned: image  owned by the writer from now on; empty on return, also after a failure
 * Returns: 0, or the status of an earlier image that failed; then this one is not written
 */
int msi_image_writer_put(msi_image_writer *w, msi_image *image, int n_file, const msi_image_file *file, int n_pending);

/* msi_image_writer_wait - wait until all images are written. Returns 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED,
 * MSI_EINPUT (from msi_finite_check). */
int msi_image_writer_wait(msi_image_writer *w);

/* msi_image_writer_free - wait for images that are being written, and free the writer; NULL is fine. */
void msi_image_writer_free(msi_image_writer *w);

#endif
