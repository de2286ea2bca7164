/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The files of a run: their names, known before anything is computed, and how each is written. */
#ifndef MSI_SRC_OUTPUTS_H
#define MSI_SRC_OUTPUTS_H

#include "core/image.h"
#include "io/fits/fits_image.h"
#include "io/fits/publish.h"
#include "src/options/options.h"
#include "src/sky/stokes.h"

enum { MSI_OUTPUT_MFS = -1 }; /* as a channel: all channels together */

/* One image of a run. */
typedef struct msi_output_id {
    int64_t interval; /* counted from 0 */
    int64_t channel;  /* or MSI_OUTPUT_MFS */
    int plane;        /* of the planes imaged; 0 for PSF and weights */
    msi_fits_kind kind;
} msi_output_id;

/* Files of a run that are no images. */
typedef enum msi_output_text { MSI_OUTPUT_HISTORY = 1, MSI_OUTPUT_CURVES, MSI_OUTPUT_SOURCES } msi_output_text;

typedef struct msi_outputs msi_outputs;

/*
 * msi_outputs_plan - name every file of the run and check that it can be made.
 * Given:   options and planes, borrowed for the life of *out
 * Returns: 0, MSI_EUSAGE (a file exists and -overwrite was not given; they would lie inside a set), MSI_EOUTPUT,
 *          MSI_ENOMEM
 */
int msi_outputs_plan(msi_outputs **out, const msi_options *options, const msi_plane *planes, int n_plane);

/* msi_outputs_has_mask - tell whether masks are among the files of cleaned images. */
int msi_outputs_has_mask(const msi_options *options);

/* msi_outputs_index_plane - return the plane that a map of spectral indices is made of: Stokes I, where spectra of two
 * terms and more are fitted to joined channels; -1: no map is made. */
int msi_outputs_index_plane(const msi_options *options);

int msi_outputs_n(const msi_outputs *o);

/* msi_outputs_bytes - disk space the images take. */
int64_t msi_outputs_bytes(const msi_outputs *o);

/*
 * msi_outputs_write - write one image, and its picture where -png asks for one.
 * Given: spec as msi_fits_write; kind and pol are set from id
 */
int msi_outputs_write(msi_outputs *o, const msi_output_id *id, const msi_fits_spec *spec, const void *pixel,
                      msi_precision precision);

/*
 * msi_outputs_path - give the name that an image of a run with the same options, but another -name, has.
 * Returned: *path  owned by the caller, msi_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_outputs_path(char **path, const msi_outputs *o, const char *prefix, const msi_output_id *id);

/*
 * msi_outputs_text - name a file to write that is no image.
 * Returned: *publish, borrowed
 * Returns:  its number there; -1 where none was planned
 */
int msi_outputs_text(const msi_outputs *o, msi_output_text text, msi_publish **publish);

/* msi_outputs_sources - do so for the sources of an interval and channel, the first one where they are joined. */
int msi_outputs_sources(const msi_outputs *o, int64_t interval, int64_t channel, msi_publish **publish);

/* msi_outputs_commit - every file gets its name, all at the end; the log says which. */
int msi_outputs_commit(msi_outputs *o);

/* msi_outputs_free - remove what was not committed; NULL is fine. */
void msi_outputs_free(msi_outputs *o);

#endif
