/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The output files of a run: their names, which are known before the computation, and writing them. */
#ifndef MSI_SRC_OUTPUTS_H
#define MSI_SRC_OUTPUTS_H

#include "core/image.h"
#include "io/fits/fits_image.h"
#include "io/fits/publish.h"
#include "src/options/options.h"
#include "src/sky/stokes.h"

enum { MSI_OUTPUT_MFS = -1 }; /* as a channel number: all channels combined */

/* One image of a run. */
typedef struct msi_output_id {
    int64_t interval; /* counted from 0 */
    int64_t channel;  /* or MSI_OUTPUT_MFS */
    int plane;        /* number of the image plane; 0 for PSF and weights */
    msi_fits_kind kind;
    int term; /* Taylor term, or for a PSF the order of its spectral moment; 0 for kinds without terms */
} msi_output_id;

/* Output files that are not images. */
typedef enum msi_output_text {
    MSI_OUTPUT_HISTORY = 1,
    MSI_OUTPUT_CURVES,
    MSI_OUTPUT_SOURCES,
    MSI_OUTPUT_SOURCES_PB,
    MSI_OUTPUT_REPORT
} msi_output_text;

/* An output file, as -report shows it. */
typedef struct msi_output_shown {
    const char *name;
    msi_output_id id;
    msi_output_text text; /* 0: an image or its picture */
    int is_picture;
    const unsigned char *png; /* [n_png] the picture; NULL: not drawn, or not shown */
    int64_t n_png;
    /* Members for images: */
    double freq_hz, bandwidth_hz;
    msi_beam beam; /* zero: none */
    msi_pol pol;   /* 0: several polarisations */
    int64_t n_vis;
    double low, high, rms; /* range and rms of the finite pixels; NaN if there are none */
} msi_output_shown;

typedef struct msi_outputs msi_outputs;

/*
 * msi_outputs_plan - name every output file, and check that it can be created.
 * Given:   options and planes, borrowed for the life of *out
 * Returns: 0, MSI_EUSAGE (a file exists and -overwrite is not given; the files would be inside a set), MSI_EOUTPUT,
 *          MSI_ENOMEM
 */
int msi_outputs_plan(msi_outputs **out, const msi_options *options, const msi_plane *planes, int n_plane);

/* msi_outputs_has_mask - return whether masks are among the output files. */
int msi_outputs_has_mask(const msi_options *options);

/* msi_outputs_index_plane - return the plane of which the spectral index is mapped: Stokes I, if spectra of at least
 * two terms are fitted to joined channels; else -1. */
int msi_outputs_index_plane(const msi_options *options);

/* msi_outputs_taylor_plane - return the plane for which maps of alpha and beta are made: Stokes I, with Taylor terms;
 * else -1. */
int msi_outputs_taylor_plane(const msi_options *options);

/* msi_outputs_beam_is_matrix - return 1 if the primary beam is written as a matrix, in 16 files, for I, Q, U and V;
 * 0 if it is written as the power of the two feeds. */
int msi_outputs_beam_is_matrix(const msi_options *options);

int msi_outputs_n(const msi_outputs *o);

/* msi_outputs_set_axis - set the spectral axis of cubes, before the first image is written; copied, without beams. */
void msi_outputs_set_axis(msi_outputs *o, const msi_fits_cube *axis);

/* ---- Cubes that are read back, with -restoring-beam: dirty images, residuals and models ---- */

/* msi_outputs_cube_beams - return the beams of the planes of a cube, in the order of planes; borrowed. NULL if the cube
 * is not created yet. */
const msi_beam *msi_outputs_cube_beams(const msi_outputs *o, const msi_output_id *id);

/*
 * msi_outputs_read_back - read a plane that was written.
 * Returned: *facts  beam, samples, weights and results of cleaning of the plane; pixel [ny][nx]
 * Returns:  0, MSI_EOUTPUT
 */
int msi_outputs_read_back(const msi_outputs *o, const msi_output_id *id, msi_fits_spec *facts, float *pixel);

/* msi_outputs_finish_cubes - write the headers of an interval's cubes. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM */
int msi_outputs_finish_cubes(msi_outputs *o, int64_t interval);

/* msi_outputs_has_weights - return whether the weights of a channel are written or drawn. */
int msi_outputs_has_weights(const msi_options *options, int64_t channel);

/* msi_outputs_shown - return the description of file i for -report; borrowed until the files are renamed. */
void msi_outputs_shown(const msi_outputs *o, int i, msi_output_shown *shown);

/* msi_outputs_keep_picture - read picture i, after it was written, if -report embeds it. Returns: 0, MSI_EOUTPUT,
 * MSI_ENOMEM */
int msi_outputs_keep_picture(msi_outputs *o, int i);

/* msi_outputs_bytes - return the disk space that the images need. */
int64_t msi_outputs_bytes(const msi_outputs *o);

/*
 * msi_outputs_write - write one image, and its picture with -png or -report.
 * Given: spec  as msi_fits_write; kind and pol are set from id
 */
int msi_outputs_write(msi_outputs *o, const msi_output_id *id, const msi_fits_spec *spec, const void *pixel,
                      msi_precision precision);

/*
 * msi_outputs_path - return the name of an image of a run with the same options, but another -name.
 * Returned: *path  owned by the caller, msi_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_outputs_path(char **path, const msi_outputs *o, const char *prefix, const msi_output_id *id);

/*
 * msi_outputs_text - find an output file that is not an image.
 * Returned: *publish, borrowed
 * Returns:  its number in *publish; -1 if it was not planned
 */
int msi_outputs_text(const msi_outputs *o, msi_output_text text, msi_publish **publish);

/* msi_outputs_sources - find the list of sources of an interval and channel, as msi_outputs_text does. With is_true it
 * is the list of true fluxes. Joined channels have one list, that of channel 0. */
int msi_outputs_sources(const msi_outputs *o, int64_t interval, int64_t channel, int is_true, msi_publish **publish);

/* msi_outputs_commit - rename all files to their final names, and log the names. */
int msi_outputs_commit(msi_outputs *o);

/* msi_outputs_free - remove files that were not committed, and free the list; NULL is fine. */
void msi_outputs_free(msi_outputs *o);

#endif
