/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Holds what the user asks of deconvolution. */
#ifndef MSI_SRC_CLEAN_OPTIONS_H
#define MSI_SRC_CLEAN_OPTIONS_H

#include "kernels/cleaner.h"
#include "src/sky/restoring_beam.h"

struct msi_options;

/* Local noise is measured by a window around each pixel, or also from its most negative residual. */
typedef enum msi_local_rms_method { MSI_LOCAL_RMS, MSI_LOCAL_RMS_WITH_MIN } msi_local_rms_method;

/* Filled by msi_options_parse: every value is inside its documented range. */
typedef struct msi_clean_options {
    int64_t niter;  /* minor iterations of a joined group at most; 0: nothing is cleaned */
    int64_t nmiter; /* major cycles at most; 0: no limit */
    double gain, mgain;
    double threshold_jy;              /* 0: none */
    double auto_threshold, auto_mask; /* in sigma; 0: none */
    int no_negative, stop_negative;
    double border_percent; /* of the image's width and height, on each side */

    int local_rms;
    double local_rms_window; /* beams */
    msi_local_rms_method local_rms_method;
    const char *local_rms_image; /* NULL: it is measured */

    int is_exact; /* Hogbom's loop over the whole image */
    int multiscale;
    double scale[MSI_CLEAN_MAX_SCALE]; /* [n_scale] pixels, the first 0, rising */
    int n_scale;                       /* 0: chosen */
    int64_t max_scales;                /* of those chosen; 0: no limit */
    double scale_bias, scale_gain;
    msi_clean_shape shape;
    msi_clean_scale_rule scale_rule;
    double small_scale_bias; /* of tclean's rule */

    int join_channels, join_pols, squared_join;
    unsigned link_pols;               /* bit p: of joined polarisations the msi_pol p is searched; 0: all are */
    int64_t fit_terms, log_fit_terms; /* 0: no such fit */
    int64_t deconvolution_channels;   /* channels that are cleaned, means of those that are imaged; 0: these */

    const char *fits_mask, *casa_mask; /* NULL: none; one of them at most */
    int multithresh;
    msi_auto_mask_spec mask; /* of multithresh; its beam and what follows from the image is left 0 */
    int64_t grow_iterations; /* mask.grow_iterations */
    msi_beam_choice beam;
    int mgain_given;

    int continues;                       /* from the models of NAME */
    const char *reuse_psf, *reuse_dirty; /* prefixes of an earlier run's images; NULL: they are made */
    int resume;
    double checkpoint_s;          /* a checkpoint at most so often */
    int update_model, keep_model; /* MODEL_DATA is to be written, or not, as the user says */
    int no_dirty, save_first_residual;
    int save_sources; /* scales are gaussians then */
} msi_clean_options;

/* msi_clean_options_check - check what no option of deconvolution can by itself. Returns: 0, MSI_EUSAGE */
int msi_clean_options_check(const struct msi_options *options);

/* msi_clean_options_searched - the bits of the image planes that -link-polarizations searches, as msi_cleaner_spec has
 * them; 0: all. */
unsigned msi_clean_options_searched(const struct msi_options *options);

/* msi_clean_options_updates - tell whether MODEL_DATA is written: where the user says so, or gave -mgain below 1, and
 * it is not what is subtracted. */
int msi_clean_options_updates(const struct msi_options *options);

#endif
