/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of msimage, parsed and checked. */
#ifndef MSI_SRC_OPTIONS_H
#define MSI_SRC_OPTIONS_H

#include <stddef.h>

#include "core/image.h"
#include "core/log.h"
#include "core/types.h"
#include "io/fits/picture.h"
#include "io/ms/ms_reader.h"
#include "io/ms/ms_writer.h"
#include "kernels/cleaner.h"
#include "kernels/gridder.h"
#include "src/facets/facet_gains.h"
#include "src/options/tclean_words.h"
#include "src/options/wsclean_options.h"
#include "src/sky/continuum.h"
#include "src/sky/output_channels.h"
#include "src/sky/stokes.h"
#include "kernels/restoring_beam.h"

/* -local-rms-method: the rms in a window around each pixel; or the rms, and the most negative residual in the
 * window. */
typedef enum msi_local_rms_method { MSI_LOCAL_RMS, MSI_LOCAL_RMS_WITH_MIN } msi_local_rms_method;

/* Options of deconvolution. After msi_options_parse every value is inside its documented range. */
typedef struct msi_clean_options {
    int64_t niter;             /* maximum of minor iterations of a joined group; 0: no cleaning */
    int64_t nmiter;            /* maximum of major cycles; 0: no limit */
    int64_t auto_mask_nmiter;  /* maximum of major cycles in the mask of auto_mask */
    int64_t force_mask_rounds; /* number of major cycles in which the whole image is searched despite that mask */
    int previous_mask;         /* 1: that mask begins with the components of the previous channel */
    int skip_final;            /* 1: make no residual after the last minor iterations */
    double gain, mgain;
    double threshold_jy, auto_mask_jy; /* 0: none */
    double auto_threshold, auto_mask;  /* in sigma; 0: none */
    int no_negative, stop_negative;
    double border_percent; /* percentage of the image's width and height, on each side */
    int64_t psf_grid[2];   /* cells of the image, across and up, each with a separate PSF; 0: one */

    int local_rms;
    double local_rms_window; /* beams */
    msi_local_rms_method local_rms_method;
    double local_rms_strength;   /* 0: local noise is not used */
    const char *force_spectrum;  /* images of the terms of log_fit_terms after the first; NULL: all terms are fitted */
    const char *local_rms_image; /* NULL: the noise is measured */

    int is_exact; /* 1: Hogbom's loop over the whole image */
    int multiscale;
    double scale[MSI_CLEAN_MAX_SCALE]; /* [n_scale] pixels, ascending from 0 */
    int no_points;                     /* 1: scale 0 is not used */
    int n_scale;                       /* 0: scales are chosen */
    int64_t max_scales;                /* largest number of scales if they are chosen; 0: no limit */
    double scale_bias, scale_gain;
    msi_clean_shape shape;
    msi_clean_scale_rule scale_rule;
    double small_scale_bias; /* for scale_rule tclean */

    int join_channels, join_pols, squared_join;
    unsigned link_pols;                         /* bit p: search msi_pol p of the joined polarisations; 0: search all */
    int64_t fit_terms, log_fit_terms;           /* 0: no such fit */
    double correction_hz;                       /* reference frequency of -spectral-correction; 0: not given */
    double correction_term[MSI_CLEAN_MAX_TERM]; /* [n_correction] a_0 10^(a_1 x + ..), x = log10(freq / reference) */
    int n_correction;
    int64_t n_taylor;               /* Taylor terms of mtmfs, at least 2; 0: none */
    int deconvolver;                /* index of the word of -deconvolver */
    double reference_hz;            /* -reffreq; 0: the middle of the band */
    int64_t deconvolution_channels; /* channels to clean, each a mean of output channels; 0: all output channels */

    const char *fits_mask, *casa_mask, *region_mask, *any_mask; /* NULL: none; at most one is given */
    /* NULL: none; it may be given together with one of these */
    const char *scale_mask;
    int has_horizon;
    double horizon_rad; /* components must be at least this far from the horizon */
    int multithresh;
    msi_auto_mask_spec mask; /* for multithresh; the beam and members that depend on the image are 0 */
    int64_t grow_iterations; /* copied to mask.grow_iterations */
    msi_beam_choice beam;
    int mgain_given;

    int continues;                       /* 1: start from the models with the prefix `name` */
    const char *reuse_psf, *reuse_dirty; /* prefixes of images of an earlier run; NULL: make them */
    int resume;
    double checkpoint_s;          /* shortest time between checkpoints */
    int update_model, keep_model; /* -update-model-required, -no-update-model-required */
    int no_dirty, save_first_residual;
    int save_sources; /* 1: the scales are Gaussians then */
} msi_clean_options;

/* -deconvolver: methods by tclean's names. */
enum { MSI_DECONVOLVER_CLARK, MSI_DECONVOLVER_HOGBOM, MSI_DECONVOLVER_MULTISCALE, MSI_DECONVOLVER_MTMFS };

/* Primary beams. */
typedef struct msi_pb_options {
    const char *model;          /* argument of -pb; NULL: auto, or off for predictions */
    int apply, reuse, save_psf; /* -apply-primary-beam, -reuse-primary-beam, -save-psf-pb */
    /* -grid-with-beam: residuals of models are computed through the beam; also sets apply */
    int grid;
    int by_table; /* -use-pointing: dishes point as POINTING says */
    /* -mosaic: fields are joined through their beams; also sets correct, unless apply is set */
    int mosaic;
    int weighs_fields;   /* -mosweight: each field has separate densities */
    double limit;        /* -primary-beam-limit */
    int is_differential; /* -use-differential-lofar-beam */
    int correct;         /* -pbcor */
    double pblimit;      /* -pblimit; negative: no limit */
    double mask;         /* -pbmask; 0: none */
} msi_pb_options;

/* -restoring-beam: each plane of a cube has its beam, or all have one. */
typedef enum msi_restoring_planes { MSI_RESTORE_EACH, MSI_RESTORE_COMMON, MSI_RESTORE_LARGEST } msi_restoring_planes;

/* Spectral cubes. */
typedef struct msi_cube_options {
    /* 1: output channels are planes of one file; then channels_out 1 means the channels of the data */
    int is_cube;
    msi_cube_request grid; /* evenly spaced planes instead, if it is given */
    msi_restoring_planes restoring_beam;
    msi_continuum continuum; /* -uvcontsub, with or without a cube */
} msi_cube_options;

typedef enum msi_action { MSI_ACTION_RUN, MSI_ACTION_HELP, MSI_ACTION_VERSION } msi_action;

/* -model-interpolation: the model at a frequency between channel images. */
typedef enum msi_model_interpolation { MSI_MODEL_NEAREST, MSI_MODEL_LINEAR } msi_model_interpolation;

/* -like: the program whose defaults are used. */
typedef enum msi_peer { MSI_PEER_NONE, MSI_PEER_WSCLEAN, MSI_PEER_TCLEAN } msi_peer;

enum { MSI_MAX_POL = 12, MSI_MAX_WSCLEAN = 96 };

/* -restore or -restore-list. These do not read a Measurement Set. */
typedef struct msi_restore_options {
    const char *residual, *model, *out; /* files; NULL: not given */
    int is_list;                        /* `model` is a list of sources */
} msi_restore_options;

/* -draw-model. A Measurement Set is read only if has_centre is 0, for its phase centre. */
typedef struct msi_draw_options {
    const char *list; /* file; NULL: not given */
    int has_centre;
    double ra_rad, dec_rad;
    double freq_hz, bandwidth_hz; /* bandwidth > 0 if n_term > 1 */
    int64_t n_term;
    int64_t window; /* pixels; 0: none */
} msi_draw_options;

enum { MSI_MAX_GPUS = 64 };

/* -gpus. MSI_GPUS_ONE is the first GPU of the host; if the host has several ranks, each takes the next one. */
typedef struct msi_gpus {
    enum { MSI_GPUS_ONE, MSI_GPUS_AUTO, MSI_GPUS_ALL, MSI_GPUS_COUNT, MSI_GPUS_LIST } kind;
    int n;                    /* number of GPUs for MSI_GPUS_COUNT and MSI_GPUS_LIST */
    int device[MSI_MAX_GPUS]; /* [n] for MSI_GPUS_LIST */
} msi_gpus;

/*
 * The options of a run. After msi_options_parse every value is inside its documented range. Strings are borrowed from
 * argv unless a comment says otherwise.
 */
typedef struct msi_options {
    msi_action action;
    const char *help_topic; /* the word after -help; NULL: print everything */

    const char *const *ms_paths; /* [n_ms] at least one for MSI_ACTION_RUN, except with -restore */
    int n_ms;
    const char *const *given_paths; /* [n_given] as on the command line; ms_paths has the members of a multi-MS */
    int n_given;
    char **members;             /* owned; equal to ms_paths if a given path is a multi-MS, else NULL */
    msi_ms_selection selection; /* fields and spws are owned; coordinates_only is 0 */
    int allow_stale;            /* accept visibility stores that are older than their sets */

    int subtract_model; /* 1: selection.model_column is MODEL_DATA */

    msi_peer like;
    const char *name; /* prefix of the output files, or of the models to predict */
    /* even sizes of 16 to 2^30 pixels; with predict, the geometry of the models; 0: not given */
    msi_image_geometry geometry;
    const char *bare_scale; /* argument of -scale if it has no unit; else NULL */
    int pol_given;          /* -pol was given */
    int n_pol;
    msi_pol pol[MSI_MAX_POL]; /* in the given order, without duplicates */
    int make_psf;             /* also set if make_psf_only or cleaning is set */
    int make_psf_only;
    int64_t channels_out;          /* >= 1, and division.n_split + 1 */
    msi_channel_division division; /* split_hz is owned */
    int64_t intervals_out;         /* >= 1 */
    int shift_set;
    double shift_ra_rad, shift_dec_rad; /* 0 <= ra < 2 pi, |dec| <= pi/2; not used with shift_is_field */
    int shift_is_field;                 /* 1: the centre is the phase centre of field shift_field of the first set */
    int64_t shift_field;

    msi_weighting weighting; /* robust in [-10, 10], 0 unless Briggs; most_w_lambda is 0 */
    msi_stokes_weight stokes_weight;
    int weight_given;
    int mf_weighting;      /* 1: densities of all channels; 0: of each output channel */
    int bandwidth_taper;   /* 1: Briggs' densities are divided by CASA's rule; mf_weighting is then 0 */
    double most_w_percent; /* percentage of the largest |w| of an output channel; 0 or 100: no limit */

    msi_clean_options clean;
    const char *only_clean; /* first given option of deconvolution, except -niter; NULL: none */

    msi_pb_options pb;
    msi_facet_options facets;
    msi_cube_options cube;

    double accuracy;          /* 1e-12 .. 1e-2 */
    int accuracy_follows;     /* 1: cleaning without -accuracy, so that residuals of a deep image use a smaller one */
    const char *gridder;      /* a method of kernels/strategy.h */
    const char *strategy;     /* a strategy of the method for this kind of run, or MSI_STRATEGY_OPEN */
    int64_t n_slice;          /* for w-projection; 0: chosen from the accuracy */
    msi_kernel_lookup kernel; /* for w-projection */
    msi_backend backend;
    msi_precision_choice precision;
    double padding; /* the minimum, 1 .. 4; 0: chosen from the accuracy */

    int predict;               /* 1: predict visibilities; 0: make images */
    const char *model_column;  /* column written by MSI_MS_WRITE_REPLACE; NULL for other operations */
    const char *output_column; /* column written by other operations; NULL for MSI_MS_WRITE_REPLACE */
    msi_ms_write_op predict_op;
    int drop_old; /* 1: remove the old columns that predictions have kept */
    msi_model_interpolation model_interpolation;
    int force; /* 1: predict even if the model does not seem to belong to the set */

    msi_restore_options restore;
    msi_draw_options draw;
    /* first given option that a restoration, or drawing a model, does not use; NULL: none */
    const char *not_restore, *not_draw;

    int save_weights, save_uv, png, report;
    msi_picture_style picture;
    int overwrite, dry_run;
    const char *temp_dir; /* NULL: the directory of the output */
    msi_gpus gpus;
    int n_threads;              /* >= 1 */
    int64_t n_reader;           /* reader processes; 0: chosen */
    int64_t memory_limit_bytes; /* > 0: the smaller of -mem and -abs-mem */
    msi_log_level log_level;
    int log_time;

    msi_words tclean;   /* owned; words that replace -tclean; empty: not given */
    char *command_line; /* owned; quoted for a shell, for HISTORY */

    int n_wsclean; /* options of WSClean that were accepted or mapped, each once, for the log */
    const msi_wsclean_option *wsclean[MSI_MAX_WSCLEAN];

    /* first given option that only this kind of run uses; NULL: none */
    const char *only_imaging, *only_predict, *only_draw;
    double memory_percent, memory_gb; /* as given, for memory_limit_bytes; 0: not given */
} msi_options;

/*
 * msi_options_parse - parse and check a command line. It does not access files, except that it checks whether paths
 * exist, to explain a word that is not a path.
 *
 * Given:     argc, argv  of main; argv must outlive the options
 * Returned:  *options, must be freed by msi_options_free, also after a failure
 * Returns:   0, MSI_EUSAGE (the message names the option and gives advice), MSI_ENOMEM
 * Notes:     -help and -version end parsing: words after them are ignored, and no Measurement Set is needed.
 *            If an option is repeated, the last one is used.
 */
int msi_options_parse(msi_options *options, int argc, const char *const *argv);

/*
 * msi_options_keep_command_line - store the command line, with words quoted for a shell if they have special
 *   characters.
 * Returned: options->command_line, freed by msi_options_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_options_keep_command_line(msi_options *options, int argc, const char *const *argv);

/* msi_options_limit_memory - set memory_limit_bytes from memory_percent and memory_gb. */
void msi_options_limit_memory(msi_options *options);

/* msi_options_check - check options against each other. msi_options_check_facets - check only those of facets, again
 * after a-terms have been read. Returns: 0, MSI_EUSAGE */
int msi_options_check(const msi_options *options);
int msi_options_check_facets(const msi_options *options);

/* msi_options_has_sign - return 1 if the peaks of a search have a sign; those of several joined images have none. */
int msi_options_has_sign(const msi_options *options);

/*
 * msi_options_check_selection - check that the limits of a selection do not contradict each other.
 * Returns: 0, MSI_EUSAGE
 */
int msi_options_check_selection(const msi_ms_selection *selection);

/*
 * msi_options_expand_multi_ms - replace every multi-MS in ms_paths by its members.
 * Returns: 0, MSI_EUSAGE (an option counts time steps, which a multi-MS counts in each member), or a code of
 *          msi_ms_members
 * Notes:   it forks, so call it before any thread is started.
 */
int msi_options_expand_multi_ms(msi_options *options);

/* msi_options_check_paths - if a path does not exist and looks like several paths, or like a pattern, report this.
 * Returns: 0, MSI_EINPUT */
int msi_options_check_paths(const msi_options *options);

/* msi_options_read_aterms - read whether the configuration of a-terms has the beam. If the stations of the sets have
 * different beams, replace -grid-with-beam and -predict -pb by an a-term. Returns: 0, MSI_EINPUT, MSI_EUSAGE,
 * MSI_ENOMEM */
int msi_options_read_aterms(msi_options *options);

/* msi_clean_options_makes_mask - return 1 if components are first found, and then cleaned within the mask that they
 * form. */
static inline int msi_clean_options_makes_mask(const msi_clean_options *options)
{
    return options->auto_mask > 0 || options->auto_mask_jy > 0;
}

/*
 * msi_clean_options_mask - find the given mask.
 * Returned: *option  name of its option, such as "fits-mask"
 * Returns:  the option's argument; NULL if no mask is given
 */
const char *msi_clean_options_mask(const msi_clean_options *options, const char **option);

/* msi_options_planes - list the image planes of -pol. Joined cross-hands are imaged as their mean, so that four
 * correlations are four planes. Returns: the number of planes */
int msi_options_planes(const msi_options *options, msi_plane planes[MSI_MAX_PLANES]);

/* msi_clean_options_searched_planes - return the image planes that -link-polarizations searches, as the bits of
 * msi_cleaner_spec; 0: all planes. */
unsigned msi_clean_options_searched_planes(const msi_options *options);

/* msi_clean_options_writes_model - return 1 if MODEL_DATA will be written: if requested, or if -mgain is given and
 * below 1; never if MODEL_DATA is subtracted. */
int msi_clean_options_writes_model(const msi_options *options);

/* msi_options_has_facets - return 1 if images are made by facets. msi_options_has_gains - and if solutions or a beam
 * apply. */
int msi_options_has_gains(const msi_options *options);
int msi_options_has_facets(const msi_options *options);

/* msi_options_command_hash - return a hash of the command line. */
uint64_t msi_options_command_hash(const msi_options *options);

/* msi_options_log - log a line for each given option of WSClean, and warnings about the options. */
void msi_options_log(const msi_options *options);

/*
 * msi_options_selection_words - write a selection as options of the command line.
 * Returned: text [size]  such as "-field 0,2 -spws 1", truncated to size; never empty
 */
void msi_options_selection_words(const msi_ms_selection *selection, char *text, size_t size);

/* msi_options_free - free the owned members and zero the struct. NULL is allowed. */
void msi_options_free(msi_options *options);

#endif
