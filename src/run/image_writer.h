/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images and grids that overflowed are not written. */
#ifndef MSI_IMAGE_WRITER_H
#define MSI_IMAGE_WRITER_H

#include "io/fits/fits_image.h"
#include "kernels/gridder.h"
#include "src/run/outputs.h"

/* Such values most likely come from one sample: the one with the largest product of weight and visibility. */
typedef struct msi_finite_cause {
    const char *ms_path; /* borrowed */
    int64_t row;
    double product;
} msi_finite_cause;

/*
 * msi_finite_check - refuse an image, or a grid of the uv plane, with values that a file of floats does not hold. NaN
 * belongs beyond the horizon, and everywhere into an image without a sample; a grid has none.
 * Given:   spec  of the file; pixel [ny][nx]
 * Returns: 0, MSI_EINPUT
 */
int msi_finite_check(const msi_finite_cause *cause, msi_fits_kind kind, const msi_fits_spec *spec, const void *pixel,
                     msi_precision precision);

/* Finished images go into their files beside the computing of the next ones: the planes of each, by a thread each. */

/* One file that a plane of an image becomes. */
typedef struct msi_image_file {
    msi_output_id id;
    int plane; /* of the image */
    msi_fits_spec spec;
    msi_finite_cause cause; /* of values that a file cannot hold */
} msi_image_file;

enum { MSI_IMAGE_MAX_FILES = MSI_GRIDDER_MAX_PLANES + 1 }; /* the planes and the PSF */
enum { MSI_IMAGES_BESIDE = 3 };                            /* that are written at a time, at most */

/* The images that are being written. */
typedef struct msi_image_writer msi_image_writer;

/*
 * msi_image_writer_create - make a writer that has nothing to write.
 * Given:    outputs  borrowed
 *           n_thread that may write; with one, msi_image_writer_put writes by itself and returns when it has written
 * Returned: *out     freed by msi_image_writer_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_image_writer_create(msi_image_writer **out, msi_outputs *outputs, int n_thread);

/*
 * msi_image_writer_put - begin to write an image, once there are fewer than n_beside under way.
 * Given:              n_beside  0 .. MSI_IMAGES_BESIDE; 0: it is written on return
 *                     file [n_file]  copied, with what spec.observation and spec.data_column point to; the other
 *                     pointers of a spec are borrowed until the image is written
 * Given and returned: image  taken over, and empty afterwards whatever is returned
 * Returns: 0, or what writing an image before it failed with, then nothing of this one is written
 */
int msi_image_writer_put(msi_image_writer *w, msi_image *image, int n_file, const msi_image_file *file, int n_beside);

/* msi_image_writer_wait - wait until all images are written. Returns 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED,
 * MSI_EINPUT (a value that a file cannot hold). */
int msi_image_writer_wait(msi_image_writer *w);

/* msi_image_writer_free - wait for files under way, and free the writer; NULL is fine. */
void msi_image_writer_free(msi_image_writer *w);

#endif
