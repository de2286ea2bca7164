/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A FITS cube that is written plane by plane, in any order. Several threads may write planes at the same time. */
#ifndef MSI_IO_CUBE_FILE_H
#define MSI_IO_CUBE_FILE_H

#include "io/fits/fits_image.h"

typedef struct msi_cube_file msi_cube_file;

/*
 * msi_cube_file_begin - begin output i of a plan: reserve the disk space of its planes, and space for its header.
 * Given:    p, i  the plan, and the index of the output in it; p is borrowed until msi_cube_file_free
 *           spec  as in msi_fits_write; copied together with its observation and column. Other strings are borrowed
 *                 until msi_cube_file_finish. spec->cube has the axis with its n planes; its beams are ignored
 * Returned: *out  freed by msi_cube_file_free; NULL on failure
 * Returns:  0, MSI_EOUTPUT (also if the disk is full), MSI_ENOMEM, MSI_ERANGE
 */
int msi_cube_file_begin(msi_cube_file **out, msi_publish *p, int i, const msi_fits_spec *spec);

/*
 * msi_cube_file_put - write one plane; called once for each plane.
 * Given:    plane  0 .. n - 1
 *           spec   its beam, samples, weights and results of cleaning are stored for the header
 *           pixel  [ny][nx] in the given precision
 * Returned: *is_last  1: this was the last plane to be written
 * Returns:  0, MSI_EOUTPUT, MSI_EINTERRUPTED
 */
int msi_cube_file_put(msi_cube_file *c, int64_t plane, const msi_fits_spec *spec, const void *pixel,
                      msi_precision precision, int *is_last);

/*
 * msi_cube_file_finish - seal the output, after writing the header with the sums over all planes and, if beams differ,
 * the table BEAMS.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_cube_file_finish(msi_cube_file *c);

/* msi_cube_file_beams - return the beams of the planes written so far, [n], borrowed. */
const msi_beam *msi_cube_file_beams(const msi_cube_file *c);

/*
 * msi_cube_file_get - read back a plane that was written, before msi_cube_file_finish.
 * Returned: *plane_spec  beam, n_vis, weights and clean as given to msi_cube_file_put; its other members are 0
 *           pixel        [ny][nx]
 * Returns:  0, MSI_EOUTPUT
 */
int msi_cube_file_get(const msi_cube_file *c, int64_t plane, msi_fits_spec *plane_spec, float *pixel);

/* msi_cube_file_free - free the cube; NULL is fine. The plan (msi_publish) owns the output file. */
void msi_cube_file_free(msi_cube_file *c);

#endif
