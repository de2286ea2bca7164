/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A run that makes images, as its stages see it: only imaging*.c include this. */
#ifndef MSI_IMAGING_RUN_H
#define MSI_IMAGING_RUN_H

#include "core/image.h"
#include "io/ms/ms_crew.h"
#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/clean/clean_field.h"
#include "src/clean/clean_history.h"
#include "src/clean/clean_mask.h"
#include "src/imaging/imaging_plan.h"
#include "src/options/options.h"
#include "src/predict/model_update.h"
#include "src/sky/output_channels.h"
#include "src/sky/stokes.h"
#include "src/run/block_conversion.h"
#include "src/run/gpu_share.h"
#include "src/run/image_writer.h"
#include "src/run/outputs.h"
#include "src/run/ranks.h"

typedef struct msi_imaging_run {
    const msi_options *options;
    msi_team *team; /* all of it has the samples and the images together; its first rank writes files */
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane;
    char *temp_dir;               /* owned; for visibilities that exceed the memory limit */
    char weighting[48];           /* in words, for log and headers */
    msi_model_update *update;     /* NULL: MODEL_DATA is left as it is */
    msi_model_interval *modelled; /* [intervals_out] owned; NULL without update */
    msi_gpu_share gpus;
    msi_ms_crew *crew;        /* opens and reads the sets; NULL once all is read */
    msi_block_former *former; /* by which the crew forms what it reads */
    msi_outputs *outputs;     /* of the first rank, as is the writer; NULL on others */
    msi_image_writer *writer;
    msi_clean_mask mask;       /* that the user gives; empty: none */
    msi_clean_history history; /* of all that is cleaned */
    double checkpoint_at_s;    /* when the last one was written */
    int64_t n_kept;            /* samples that were read and kept, over all intervals and channels */
    int64_t n_gridded;         /* those with a weight after weighting */

    /* The rest lives as long as an interval. */
    int64_t interval;
    msi_ms_reader *reader;
    int is_empty; /* no row of the selection lies in the interval: nothing is read, and the images are NaN */
    msi_observation observation;
    double ra_rad, dec_rad; /* the images' centre */
    msi_output_channels channels;
    msi_imaging_plan plan;
    msi_gridder **gridder; /* [channels_out] NULL once it is imaged and not needed any more */
    msi_density **density; /* [channels_out] NULL for natural weights; with -mf-weighting [0] is that of all channels */
    msi_sample_tally tally; /* from here on of all ranks */
    msi_ms_dropped dropped;
    int64_t n_loaded, n_outside; /* samples that the gridders have; that they dropped */
} msi_imaging_run;

/* ---- The log: its lines of many figures (imaging_report.c) ---- */

/* The stages of an interval ended at these times, by msi_wall_s. */
typedef struct msi_imaging_times {
    double start_s, opened_s, loaded_s, weighed_s, imaged_s;
} msi_imaging_times;

/* Report what is imaged, as far as it is known before samples are read: sets, fields, band, times, image, resolution;
 * and a warning where pixels are needlessly fine. Of an interval after the first, its times. */
void msi_imaging_report_subject(const msi_imaging_run *run);

/* Report memory, disk and the gridder, as planned. */
void msi_imaging_report_plan(const msi_imaging_plan *plan, const msi_options *options);

/* Report what a dry run found, and how long a run would take. */
void msi_imaging_report_dry_run(const msi_imaging_run *run, const msi_imaging_scan *scan);

/* Report samples loaded, and samples dropped by reason; a warning where pixels are so coarse that samples are lost. */
void msi_imaging_report_loaded(const msi_imaging_run *run);

/* msi_imaging_report_nothing - record the error that no sample is left, with the reasons and their counts, which a
 * quiet log has not told. Returns: MSI_EINPUT */
int msi_imaging_report_nothing(const msi_imaging_run *run);

/* Report the rule by which samples were weighted. */
void msi_imaging_report_weights(const msi_imaging_run *run);

/*
 * msi_imaging_report_empty - warn of an output channel without a sample, and of a polarisation that has none where
 * others have: the images are NaN.
 * Given:   n_vis  [n] samples of the channel in each polarisation
 */
void msi_imaging_report_empty(const msi_imaging_run *r, int64_t channel, int n, const int64_t *n_vis);

/* Report the image of an output channel: n_sample of the plane that has most, the plan, and the time each step took. */
void msi_imaging_report_channel(int64_t channel, int64_t n_sample, const msi_gridder_report *report);

/* msi_imaging_theoretic_beam - give the wavelength over the longest baseline, in radians; 0 where it is unknown. */
double msi_imaging_theoretic_beam(const msi_imaging_run *run);

void msi_imaging_report_beam(const msi_beam *beam);
void msi_imaging_report_times(const msi_imaging_times *times);

/* ---- The images into their files, with what their headers say (imaging_files.c) ---- */

/* Headers say this of a plane's weights on all ranks, beside their sum. */
typedef struct msi_imaging_weight {
    double largest; /* with density weights */
    double vis_sum; /* sum of the weights before density weighting */
} msi_imaging_weight;

/* msi_imaging_weight_add - take the weights of other samples in, too. */
void msi_imaging_weight_add(msi_imaging_weight *all, const msi_imaging_weight *more);

/* Images of one kind: of all planes of an output channel, or its PSF. */
typedef struct msi_imaging_product {
    int64_t channel; /* or MSI_OUTPUT_MFS */
    msi_fits_kind kind;
    msi_beam beam;
    const msi_imaging_weight *weight; /* [planes] */
    const msi_fits_clean *clean;      /* [planes] what cleaning came to; NULL: nothing is said of it */
} msi_imaging_product;

/* Holds what headers say of the samples of a plane, on all ranks. */
typedef struct msi_imaging_sums {
    double sum_weight; /* with density weights */
    msi_imaging_weight weight;
    int64_t n_vis;
} msi_imaging_sums;

/*
 * msi_imaging_files_put - write images of one kind; with dirty images also what -save-uv asks for.
 * Given:   image  [planes]; taken over, and empty afterwards
 * Returns: as msi_imaging_files_write
 */
int msi_imaging_files_put(msi_imaging_run *run, const msi_imaging_product *product, msi_image *image);

/* msi_imaging_files_put_plane - put the same of an image that has one of the run's planes alone. */
int msi_imaging_files_put_plane(msi_imaging_run *run, const msi_imaging_product *product, int plane, msi_image *image);

/*
 * msi_imaging_files_weights - write the weights of an output channel's samples, or of all, on all ranks; called by
 * each.
 * Given:   channel     or MSI_OUTPUT_MFS
 *          sums        of plane 0
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_imaging_files_weights(msi_imaging_run *run, int64_t channel, const msi_imaging_sums *sums);

/* msi_imaging_files_beam - choose the beam of a PSF and say which; none is a warning. Returns: 0, MSI_ENOMEM */
int msi_imaging_files_beam(const msi_imaging_run *run, msi_beam *beam, const msi_image *psf);

/*
 * msi_imaging_files_write - write the images of an output channel, and what -save-uv and -save-weights ask for.
 *
 * Given:   channel     or MSI_OUTPUT_MFS
 *          image       [n_plane planes, then the PSF where there is one]; taken over, and empty afterwards
 *          weight      [image->n_plane]
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED; also what the image before this one failed with
 * Notes:   files are being written when this returns; run->writer tells when they are. The beam fitted to the PSF goes
 * into all headers; a PSF to which none fits is a warning.
 */
int msi_imaging_files_write(msi_imaging_run *run, int64_t channel, msi_image *image, const msi_imaging_weight *weight);

/* ---- Images of earlier runs: models, dirty images, PSFs, local noise (imaging_reuse.c) ---- */

/*
 * msi_imaging_reuse_check - look at the headers of all images that the run will read, of all its intervals: -continue,
 * -reuse-dirty, -reuse-psf, -local-rms-image. Centre and channels of the images are known.
 * Returns: 0, MSI_EINPUT (missing, or of another size, pixels, centre, frame, frequency or polarisation; the message
 *          has both values), MSI_ENOMEM
 */
int msi_imaging_reuse_check(const msi_imaging_run *run);

/*
 * msi_imaging_reuse_read - read PREFIX[-tNNNN][-NNNN][-POL]-KIND.fits.
 * Given:    prefix  of -continue (the run's -name), -reuse-dirty, -reuse-psf
 *           id      of the image that it is taken for
 * Returned: pixel   [ny][nx] of that precision; of a model, 0 where the file has NaN
 * Returns:  as msi_imaging_reuse_check; MSI_EINPUT where a pixel is not finite, too, or a PSF is not 1 at its centre
 */
int msi_imaging_reuse_read(const msi_imaging_run *run, const char *prefix, const msi_output_id *id,
                           msi_precision precision, void *pixel);

/*
 * msi_imaging_reuse_rms - read the image of local noise.
 * Returned: pixel  [ny][nx] of that precision, Jy/beam, larger than 0
 * Returns:  as above
 */
int msi_imaging_reuse_rms(const msi_imaging_run *run, msi_precision precision, void *pixel);

/* ---- Checkpoints: NAME[-tNNNN][-NNNN].clean, one for each field (imaging_reuse.c) ---- */

/*
 * msi_imaging_checkpoint_save - write the checkpoint of a field between two cycles, unless the last one is young.
 * Given:   first  the field's first output channel
 * Returns: as msi_clean_save
 */
int msi_imaging_checkpoint_save(msi_imaging_run *run, msi_clean_field *field, int64_t first);

/*
 * msi_imaging_checkpoint_load - read it back into the field with -resume, and say whether there was one; else say
 * so where an earlier run has left one.
 * Returned: *found  the field is what it was at the checkpoint
 * Returns:  as msi_clean_load
 */
int msi_imaging_checkpoint_load(msi_imaging_run *run, msi_clean_field *field, int64_t first, int *found);

/* msi_imaging_checkpoint_forget - remove those of a run whose images are complete. Returns: 0, MSI_EOUTPUT */
int msi_imaging_checkpoint_forget(const msi_options *options);

/*
 * msi_imaging_checkpoint_check - check, before anything is computed, that checkpoints would replace nothing but
 * checkpoints; with -resume they are looked at when they are read.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_imaging_checkpoint_check(const msi_options *options);

#endif
