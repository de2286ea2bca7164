/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An image that is joined: its header, noise and primary beam. */
#ifndef MSI_JOIN_INPUT_H
#define MSI_JOIN_INPUT_H

#include "io/fits/fits_image.h"
#include "src/join/join_images.h"
#include "src/join/join_map.h"
#include "src/pb/pb_model.h"

enum { MSI_JOIN_RADII = 4096 };

typedef struct msi_join_input {
    const char *path;     /* borrowed */
    char *pb_path;        /* owned; NULL: the beam comes from the model, or is 1 */
    msi_fits_view header; /* without pixels */
    char frame[16];       /* frame of directions, as in Measurement Sets */
    double freq_hz, step_hz;
    int64_t n_plane, n_pb_plane;
    double pointing_deg[2], centre_deg[2];
    int has_pointing; /* 1: the header has a pointing; 0: it is the reference position */
    /* At the reference position: size of a pixel along x and y; angle of the columns from north through east; and
     * whether rows and columns are at right angles, and not mirrored. */
    double cell_rad[2], column_rad;
    int is_plain;
    double rms;     /* NaN: measured */
    msi_beam *beam; /* [n_plane] owned */
    msi_pb_model *model;
    double reach_rad, *profile; /* [MSI_JOIN_RADII + 1] owned: response by angle up to reach_rad */
    int is_fixed;               /* the model has sides, which are fixed on the sky: there is no profile */
    double profile_hz;          /* the frequency of the response */
    double turn_rad;            /* angle of the north of its reference position in the mosaic, through east */
    int is_unseen;              /* a warning says that its beam sees nothing of it */
    msi_join_map map;
} msi_join_input;

/*
 * msi_join_input_open - read the header of input i.
 * Returned: *in  emptied by msi_join_input_free, also after a failure
 * Returns:  0, MSI_EUSAGE, MSI_EINPUT (no image of the sky; several polarisations; no beam can be found), MSI_ENOMEM
 */
int msi_join_input_open(msi_join_input *in, const msi_join_spec *spec, int i);
void msi_join_input_free(msi_join_input *in);

/* msi_join_input_alike - check that an input can be joined to the first. Returns: 0, MSI_EINPUT */
int msi_join_input_alike(const msi_join_input *in, const msi_join_input *first);

/* msi_join_input_freq - return the frequency of a plane. */
double msi_join_input_freq(const msi_join_input *in, int64_t plane);

/* msi_join_input_profile - compute the response of the model at a plane's frequency. */
void msi_join_input_profile(msi_join_input *in, int64_t plane);

/* msi_join_input_response - return the response at angles from the pointing (msi_join_offset) at the frequency of the
 * last profile; 1 without a model. */
double msi_join_input_response(const msi_join_input *in, const double off[2]);

/* msi_join_is_per - return whether the unit of an input has a word, such as beam or pixel, in letters of any case. */
int msi_join_is_per(const msi_join_input *in, const char *word);

/* msi_join_rms_is_equal - return whether all images have the same noise, of no known size. */
int msi_join_rms_is_equal(const msi_join_spec *spec);

#endif
