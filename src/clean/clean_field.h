/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A field is what one sequence of major cycles is made for: one output channel, or all of them where they are joined,
 * in every polarisation. Its images are cleaned in groups: a group is what is searched together, one polarisation or
 * all of them. Groups share the samples and nothing else.
 */
#ifndef MSI_SRC_CLEAN_FIELD_H
#define MSI_SRC_CLEAN_FIELD_H

#include "core/image.h"
#include "kernels/cleaner.h"
#include "kernels/gridder.h"
#include "src/clean/clean_samples.h"
#include "src/clean/source_list.h"
#include "src/options/options.h"

/* A field is made of the samples of its channels. Everything is borrowed. */
typedef struct msi_clean_field_spec {
    const msi_options *options;
    msi_clean_samples *samples; /* counted; of n_pol planes */
    int64_t first;              /* its channels are [first, first + n_channel) of those */
    int n_channel, n_pol;
    const double *freq_hz; /* [n_channel] */
    int n_lane;            /* channels whose gridders may work side by side, on devices of their own; 0: 1 */
    uint64_t mask_hash;    /* of the pixels of a mask that the user gives, for checkpoints; 0: none */
} msi_clean_field_spec;

enum { MSI_CLEAN_STOP_TEXT = 32 };

/* A group, how far it is, and why it ended. */
typedef struct msi_clean_group {
    int pol;                               /* its polarisation; -1: all */
    msi_cleaner *cleaner;                  /* NULL: no channel has a sample, and nothing is cleaned */
    msi_planes *residual, *model, *before; /* [n_cleaned][polarisations] of the field's; before: the model that a cycle
                                              which makes things worse goes back to */
    /* [n_channel][polarisations]; NULL where channels are cleaned as they are */
    msi_planes *part_residual, *part_model;
    msi_auto_mask *auto_mask;            /* of -auto-multithresh; NULL: none */
    msi_clean_sources *sources;          /* of -save-source-list, where the group has Stokes I; NULL: none */
    const char *stop;                    /* why it ended; NULL: it goes on */
    char stop_text[MSI_CLEAN_STOP_TEXT]; /* the same, of a run that was ended */
    int in_mask;                         /* -auto-mask is reached: components lie where there are some */
    double mgain;                        /* of -mgain, half of it after each cycle that was taken back */
    double noise, threshold, peak;       /* Jy/beam: as measured last; peak with its sign */
    double peak_before, noise_before;    /* where the last cycle began */
    double first_peak;                   /* where cleaning began */
    double dirty_peak, dirty_noise;      /* of the dirty image: by these a checkpoint knows its data */
    double best_peak;                    /* the least of this phase */
    int at_threshold;                    /* the last cycle's minor iterations went down to it, not to -mgain's part */
    int n_back, n_idle;                  /* cycles in a row that were taken back, or brought nothing */
    int64_t n_minor;
    int n_major, n_told; /* cycles made, and told of in the log */
    int n_recorded;      /* of them, and of the beginning, in the history */
    double flux_jy, flux_before;
    msi_clean_report report; /* of the last cycle's minor iterations */
} msi_clean_group;

typedef struct msi_clean_field {
    msi_clean_field_spec spec;
    double accuracy;   /* of the residuals: that of the options, or a better one that cleaning came to need */
    int cannot_refine; /* no better one can be had */
    double edge_level; /* of all PSFs: the largest modulus near their edges; 0: not known */
    int n_cleaned; /* channels that are cleaned: n_channel, or as few as -deconvolution-channels says, means of those */
    int by_pol;    /* planes are [n_pol][n_channel], for groups of several channels and one polarisation; else
                      [n_channel][n_pol] */
    msi_planes *residual, *model;                   /* of channels that are imaged */
    msi_planes *cleaned_residual, *cleaned_model;   /* of those that are cleaned; NULL where they are the same */
    msi_planes *before;                             /* of those that are cleaned */
    msi_planes **channel_residual, **channel_model; /* [n_channel] views for the gridders; by_pol: a lane's, to
                                                       which planes are copied */
    void *first_residual;     /* [planes of residual] pixels of them after the first cycle; NULL: not kept */
    const double *sum_weight; /* [n_channel][n_pol], borrowed from the samples */
    const int64_t *n_vis;
    int n_group;
    msi_clean_group *group;
} msi_clean_field;

/*
 * msi_clean_field_make - make planes, all zero.
 * Returned: *field  freed by msi_clean_field_free whatever this returns
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_clean_field_make(msi_clean_field *field, const msi_clean_field_spec *spec);

/*
 * msi_clean_field_cleaners - make a cleaner for each group.
 * Given:   psf         [n_channel] planes; not needed afterwards
 *          beam_pixel  width of the beam, in pixels
 * Returns: 0, MSI_EUSAGE, MSI_ENOMEM, MSI_EGPU, MSI_EINPUT (a PSF without a peak)
 */
int msi_clean_field_cleaners(msi_clean_field *field, const msi_planes *psf, double beam_pixel);

/*
 * msi_clean_field_subtract - image what the models leave of the visibilities, of all channels.
 * Given:   with_model  0: subtract nothing
 * Returns: as msi_clean_samples_residual
 */
int msi_clean_field_subtract(msi_clean_field *field, int with_model);

/*
 * msi_clean_field_refine - make residuals to a better accuracy from now on.
 * Returns: as msi_clean_samples_refine; field->accuracy is that of the residuals then
 */
int msi_clean_field_refine(msi_clean_field *field, double accuracy);

/*
 * msi_clean_field_take - make the planes of the channels that are cleaned of those that are imaged, after these were
 * read: means by weight. msi_clean_field_subtract does so by itself.
 * Given:   models  0: residuals
 * Returns: 0, MSI_EGPU, MSI_ENOMEM
 */
int msi_clean_field_take(msi_clean_field *field, int models);

/* msi_clean_field_model - the models of the channels that are cleaned, which those that are imaged follow from. */
msi_planes *msi_clean_field_model(const msi_clean_field *field);

/* msi_clean_field_keep_first - keep the residual as it is now as the first one, for checkpoints. Returns: 0,
 * MSI_ENOMEM, MSI_EGPU */
int msi_clean_field_keep_first(msi_clean_field *field);

/*
 * msi_clean_field_masks - make a mask for each group that follows its residual.
 * Given:   beam, sidelobe  of the PSF; without a known beam, of no sample, there is none
 * Returns: 0, MSI_ENOMEM, MSI_EGPU, MSI_EARGUMENT
 */
int msi_clean_field_masks(msi_clean_field *field, const msi_beam *beam, double sidelobe);

/*
 * msi_clean_group_mask - give a group's mask as it stands: that of -auto-multithresh, else where components were found.
 * Given:    room [ny][nx] words
 * Returned: mask [ny][nx], 0 or 1
 */
int msi_clean_group_mask(msi_clean_group *group, int64_t n_pixel, uint16_t *room, uint8_t *mask);

/* msi_clean_field_plane - find an image among the field's planes. */
int msi_clean_field_plane(const msi_clean_field *field, int channel, int pol);

/* msi_clean_field_group - the group that has a polarisation. */
msi_clean_group *msi_clean_field_group(const msi_clean_field *field, int pol);

/* Bytes that a field and its cleaners take. */
typedef struct msi_clean_field_bytes {
    int64_t host, device;
} msi_clean_field_bytes;

/*
 * msi_clean_field_foresee - plan a field's memory: planes, PSFs, cleaners, and what restoring takes for a while.
 * Given:   spec  its samples are not looked at; gridder  where the work will be done, and in which precision
 * Returns: 0, MSI_EUSAGE, MSI_EARGUMENT (what cannot be cleaned)
 */
int msi_clean_field_foresee(const msi_clean_field_spec *spec, const msi_gridder_report *gridder,
                            msi_clean_field_bytes *bytes);

/* msi_clean_field_free - an empty field is fine. */
void msi_clean_field_free(msi_clean_field *field);

#endif
