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
#include "src/options/wsclean_options.h"
#include "src/sky/stokes.h"
#include "src/sky/restoring_beam.h"

/* Local noise is measured by a window around each pixel, or also from its most negative residual. */
typedef enum msi_local_rms_method { MSI_LOCAL_RMS, MSI_LOCAL_RMS_WITH_MIN } msi_local_rms_method;

/* Holds what the user asks of deconvolution. Filled by msi_options_parse: every value is inside its documented range. */
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

typedef enum msi_action { MSI_ACTION_RUN, MSI_ACTION_HELP, MSI_ACTION_VERSION } msi_action;

/* The words of -model-interpolation: where a frequency between channel images takes its model from. */
typedef enum msi_model_interpolation { MSI_MODEL_NEAREST, MSI_MODEL_LINEAR } msi_model_interpolation;

enum { MSI_MAX_POL = 12, MSI_MAX_NOTE = 64 };

/* Holds what -restore or -restore-list asks for: no Measurement Set is looked at then. */
typedef struct msi_restore_options {
    const char *residual, *model, *out; /* files; NULL: images are made or predicted */
    int is_list;                        /* the model is a list of sources */
} msi_restore_options;

enum { MSI_MAX_GPUS = 64 };

/* The GPUs that are asked for. One is the first of the host, or that of a rank whose turn it is. */
typedef struct msi_gpus {
    enum { MSI_GPUS_ONE, MSI_GPUS_AUTO, MSI_GPUS_ALL, MSI_GPUS_COUNT, MSI_GPUS_LIST } kind;
    int n;                    /* of a count, or of a list: */
    int device[MSI_MAX_GPUS]; /* [n] */
} msi_gpus;

/*
 * One run. Filled by msi_options_parse: every value is inside its documented range. Strings are borrowed from argv
 * unless said otherwise.
 */
typedef struct msi_options {
    msi_action action;
    const char *help_topic; /* the word after -help; NULL: everything */

    const char *const *ms_paths; /* [n_ms], at least one where action is MSI_ACTION_RUN, but none to restore */
    int n_ms;
    const char *const *given_paths; /* [n_given] as on the command line: ms_paths has members for a multi-MS */
    int n_given;
    char **members;             /* owned; ms_paths where any of the paths given is a multi-MS, else NULL */
    msi_ms_selection selection; /* fields, spws are owned; coordinates_only is left 0 */
    int allow_stale;            /* visibility stores may be older than their sets */

    int subtract_model; /* selection.model_column is MODEL_DATA */

    const char *name;            /* prefix of the output files, or of the models */
    msi_image_geometry geometry; /* even sizes of 16 to 2^30 pixels; 0 with predict */
    int n_pol;
    msi_pol pol[MSI_MAX_POL]; /* in the order given, no duplicates */
    int make_psf;             /* set by make_psf_only too */
    int make_psf_only;
    int64_t channels_out;  /* >= 1 */
    int64_t intervals_out; /* >= 1 */
    int shift_set;
    double shift_ra_rad, shift_dec_rad; /* 0 <= ra < 2 pi, |dec| <= pi/2 */

    msi_weighting weighting; /* robust in [-10, 10], 0 unless Briggs */
    msi_stokes_weight stokes_weight;
    int mf_weighting; /* densities over all channels, not over those of one output channel */

    msi_clean_options clean;
    const char *only_clean; /* the first option of deconvolution given but -niter; NULL: none */

    double accuracy;          /* 1e-12 .. 1e-2 */
    int accuracy_follows;     /* it was not given: residuals of a deep image are made to a better one */
    const char *gridder;      /* a method of kernels/strategy.h */
    const char *strategy;     /* one that the method has in this kind of run, or MSI_STRATEGY_OPEN */
    int64_t n_slice;          /* of w-projection; 0: chosen from the accuracy */
    msi_kernel_lookup kernel; /* of w-projection */
    msi_backend backend;
    msi_precision_choice precision;
    double padding; /* 1.1 .. 4, the least; 0: chosen from the accuracy */

    int predict;               /* visibilities are made of models, not images of visibilities */
    const char *model_column;  /* what is written with MSI_MS_WRITE_REPLACE; NULL otherwise */
    const char *output_column; /* what is written otherwise; NULL with MSI_MS_WRITE_REPLACE */
    msi_ms_write_op predict_op;
    int drop_old; /* columns that predictions put aside are removed */
    msi_model_interpolation model_interpolation;
    int force; /* do it although the model seems not to be one of the set */

    msi_restore_options restore;
    const char *not_restore; /* the first option given that has no meaning while a file is restored; NULL: none */

    int save_weights, save_uv, png;
    msi_picture_style picture;
    int overwrite, dry_run;
    const char *temp_dir; /* NULL: beside the output */
    msi_gpus gpus;
    int n_threads;              /* >= 1 */
    int64_t n_reader;           /* processes that read; 0: chosen */
    int64_t memory_limit_bytes; /* > 0: the smaller of -mem and -abs-mem */
    msi_log_level log_level;
    int log_time;

    char *command_line; /* owned; as a shell would need it, for HISTORY */

    int n_note;                                   /* options of WSClean that were accepted or mapped .. */
    const msi_wsclean_option *note[MSI_MAX_NOTE]; /* .. each once, for the log */

    const char *only_imaging, *only_predict; /* the first option given that serves one kind of run alone; NULL: none */
    double memory_percent, memory_gb;        /* as given; memory_limit_bytes is made of them. 0: not given */
} msi_options;

/*
 * msi_options_parse - read and check a command line. Touches no file.
 *
 * Given:     argc, argv  as main has them; argv must outlive the options
 * Returned:  *options, freed by msi_options_free whatever this returns
 * Returns:   0, MSI_EUSAGE (the message names the option and the remedy), MSI_ENOMEM
 * Notes:     -help and -version end the parsing: what follows is not looked at, and no Measurement Set is needed.
 *            Of an option given twice the last one counts.
 */
int msi_options_parse(msi_options *options, int argc, const char *const *argv);

/*
 * msi_options_keep_words - keep the command line as a shell would need it: words with other than plain characters stand
 *   in quotes.
 * Returned: options->command_line, freed by msi_options_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_options_keep_words(msi_options *options, int argc, const char *const *argv);

/* msi_options_limit_memory - set memory_limit_bytes by memory_percent and memory_gb. */
void msi_options_limit_memory(msi_options *options);

/*
 * msi_options_check_selection - say what limits of a selection contradict each other.
 * Returns: 0, MSI_EUSAGE
 */
int msi_options_check_selection(const msi_ms_selection *selection);

/*
 * msi_options_expand - put the members of every multi-MS in its place among ms_paths.
 * Returns: 0, MSI_EUSAGE (times are counted, which each member does by itself), or any code of msi_ms_members
 * Notes:   it forks: call it before any thread is started.
 */
int msi_options_expand(msi_options *options);

/* msi_clean_options_check - check what no option of deconvolution can by itself. Returns: 0, MSI_EUSAGE */
int msi_clean_options_check(const msi_options *options);

/* msi_clean_options_searched - the bits of the image planes that -link-polarizations searches, as msi_cleaner_spec has
 * them; 0: all. */
unsigned msi_clean_options_searched(const msi_options *options);

/* msi_clean_options_updates - tell whether MODEL_DATA is written: where the user says so, or gave -mgain below 1, and
 * it is not what is subtracted. */
int msi_clean_options_updates(const msi_options *options);

/* msi_options_hash - a number that another command line hardly has. */
uint64_t msi_options_hash(const msi_options *options);

/* msi_options_log - tell what became of WSClean's options that were given, a line each, to the log. */
void msi_options_log(const msi_options *options);

/*
 * msi_selection_words - write the options that select what `selection` does.
 * Returned: text [size]  such as "-field 0,2 -spws 1", cut short where it is longer; never empty
 */
void msi_selection_words(const msi_ms_selection *selection, char *text, size_t size);

/* msi_options_free - free what is owned and zero the struct. */
void msi_options_free(msi_options *options);

#endif
