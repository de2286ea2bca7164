/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of an imaging run, and the functions that its stages share. Only imaging*.c include this header. */
#ifndef MSI_IMAGING_RUN_H
#define MSI_IMAGING_RUN_H

#include "core/image.h"
#include "io/ms/ms_reader.h"
#include "io/ms/reader_pool.h"
#include "kernels/gridder.h"
#include "src/clean/clean_field.h"
#include "src/clean/clean_history.h"
#include "src/clean/clean_mask.h"
#include "src/imaging/imaging_plan.h"
#include "src/facets/facet_setup.h"
#include "src/options/options.h"
#include "src/pb/pb_mean.h"
#include "src/pb/pb_mosaic.h"
#include "src/pb/pb_samples.h"
#include "src/predict/model_update.h"
#include "src/run/block_conversion.h"
#include "src/run/gpu_share.h"
#include "src/run/image_writer.h"
#include "src/run/outputs.h"
#include "src/run/ranks.h"
#include "src/sky/output_channels.h"
#include "src/sky/stokes.h"

/* Facets of a run (imaging_facets.c). */
typedef struct msi_imaging_facets {
    msi_facet_gains *gains; /* NULL: none */
    msi_facets facets;      /* this and the members below are of the current interval */
    msi_pb_mean *seen;      /* [channels_out] responses of channels, for spectra of true flux; NULL: not needed */
    msi_facet_work work;
    msi_facet_channel *channel; /* [channels_out] */
    double *weight;             /* [channels_out] sums of weights, for the mean of all channels */
    float *response;            /* response of response_channel, kept for its images; NULL: not computed yet */
    int64_t response_channel;
    int64_t n_tag;
    uint64_t *tag; /* tags of a batch of blocks */
} msi_imaging_facets;

/* The primary beam of -grid-with-beam (imaging_pb.c). */
typedef struct msi_imaging_beam {
    msi_pb_work work;
    msi_pb_channel *channel; /* [channels_out] */
    int64_t n_tag;
    uint64_t *tag; /* tags of a batch of blocks */
} msi_imaging_beam;

/* The fields of a mosaic (imaging_mosaic.c). */
typedef struct msi_imaging_mosaic {
    msi_mosaic fields;
    msi_mosaic_channel *channel; /* [channels_out] */
    msi_conversion_turn *turn;   /* [n_turn] directions of the fields */
    int64_t n_turn;
    msi_gridder_spec spec; /* for a gridder of the whole image */
    msi_gridder *whole;    /* has no samples; its image planes are used */
    uint8_t *seen;         /* [ny][nx] 1: at least one channel sees the pixel */
} msi_imaging_mosaic;

enum { MSI_N_REASON = 9, MSI_N_STAGE = 4 };

typedef struct msi_imaging_run {
    const msi_options *options; /* options of the run; for a cube with the channels of the data, &cube_options */
    msi_options cube_options;   /* a copy with the number of channels; its pointers are borrowed */
    msi_channel_grid grid;      /* planes of a cube in another frame; n 0: not used */
    msi_ranks *ranks;           /* samples are distributed over the ranks; the first rank writes files */
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane;
    char *temp_dir;               /* owned; for visibilities that exceed the memory limit */
    char weighting[48];           /* name of the weighting in log and headers */
    msi_model_update *update;     /* NULL: MODEL_DATA is not written */
    msi_model_interval *modelled; /* [intervals_out] owned; NULL without update */
    msi_gpu_share gpus;
    msi_reader_pool *reader_pool;   /* the reader processes; NULL after the last sample is read */
    msi_block_converter *converter; /* the conversion of correlations by the reader processes */
    msi_outputs *outputs;           /* this and the writer are NULL except on the first rank */
    msi_image_writer *writer;
    msi_clean_mask mask;       /* mask of the user combined with that of the horizon; empty: none */
    uint16_t *scale_mask;      /* [ny][nx] bits of the allowed scales; owned; NULL: all are allowed */
    int has_written_horizon;   /* 1: the file of -horizon-mask is written */
    msi_clean_history history; /* history of all fields */
    double checkpoint_at_s;    /* time at which the last checkpoint was written */
    int has_checkpoint;        /* 1: this run has written or loaded one */
    int64_t n_kept;            /* samples read and kept, over all intervals and channels */
    int64_t n_gridded;         /* samples with a weight after weighting */
    /* samples that gridders kept, and samples dropped by reason, on all ranks */
    int64_t n_used, n_dropped[MSI_N_REASON];
    double spent_s[MSI_N_STAGE]; /* times of opening, reading, weighting, images and files */
    msi_imaging_facets *facets;  /* NULL: images are not divided into facets */
    /* beam of the current interval, for -grid-with-beam; NULL: models are apparent */
    msi_imaging_beam *beam;

    /* The following members belong to the current interval. */
    int64_t interval;
    msi_ms_reader *reader;
    int is_planned; /* 1: the plan of this interval is made, and gridders are set up */
    int needs_cpu;  /* 1: the GPU has too little memory for the images */
    int is_empty;   /* 1: no selected row is in the interval; nothing is read, and the images are NaN */
    msi_observation observation;
    double ra_rad, dec_rad; /* the centre of the images */
    msi_output_channels channels;
    msi_imaging_plan plan;
    msi_imaging_mosaic *mosaic; /* NULL: one gridder images a channel */
    msi_gridder **gridder;      /* [channels_out][fields of a mosaic, otherwise 1] NULL after its last use */
    msi_density *density;       /* density of all channels, or of the one being weighted; otherwise NULL */
    msi_sample_tally tally;     /* this and the following two count all ranks */
    msi_ms_dropped dropped;
    msi_pb_array *pb;            /* NULL without a primary beam, like the next two */
    msi_pb_mean *pb_mean;        /* [channels_out + 1] beam of each channel, and of all; empty until it is needed */
    double pb_s[2];              /* time spent on beam models, and on beam images and corrections */
    msi_fits_contour *contour;   /* half-power contour of the channel whose images were written last; NULL: none */
    double *pb_weight;           /* [channels_out] sums of weights */
    double *pb_of_hz;            /* [MSI_BEAM_STEPS] sums of weights by frequency; 0 before samples are read */
    int64_t n_loaded, n_outside; /* samples that the gridders kept, and those that they dropped */
} msi_imaging_run;

/* msi_imaging_n_part - return the number of gridders of an output channel. */
static inline int msi_imaging_n_part(const msi_imaging_run *r)
{
    return r->mosaic ? r->mosaic->fields.n : 1;
}

/* msi_imaging_reference - return the reference frequency of Taylor terms: -reffreq, or the middle of the band. */
static inline double msi_imaging_reference(const msi_imaging_run *r)
{
    const double given = r->options->clean.reference_hz;
    return given > 0 ? given : 0.5 * (r->channels.low_hz[0] + r->channels.high_hz[r->options->channels_out - 1]);
}

/* ---- Loading (imaging_load.c) ---- */

/*
 * msi_imaging_load - read all samples of the interval into its gridders, and count those of all ranks. If the run is
 * not planned yet, it is planned when the GPU has started, at the latest after the last block.
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM, MSI_EOUTPUT (the file of the store), MSI_EGPU, MSI_EINTERRUPTED
 *
 * msi_imaging_move_to_gpu - move the samples from host memory to the GPU, if they are used there.
 * Returns: 0, MSI_ENOMEM, MSI_EGPU, MSI_EOUTPUT
 *
 * msi_imaging_stop_readers - end the reader processes, after the last sample.
 */
int msi_imaging_load(msi_imaging_run *run);
int msi_imaging_move_to_gpu(const msi_imaging_run *run);
void msi_imaging_stop_readers(msi_imaging_run *run);

/* msi_imaging_plan_gridders - make the plan, and set up the gridders accordingly (imaging.c). Returns: 0, MSI_ENOMEM,
 * MSI_EGPU, or any code of msi_imaging_plan_make */
int msi_imaging_plan_gridders(msi_imaging_run *run);

/* ---- The log: lines with many numbers (imaging_report.c) ---- */

/* Times of msi_wall_s at which the stages of an interval ended. */
typedef struct msi_imaging_times {
    double start_s, opened_s, loaded_s, weighed_s, imaged_s;
} msi_imaging_times;

/* Log the subject of the images, as known before samples are read: sets, fields, band, times, image, resolution. Warn
 * about needlessly fine pixels. For intervals after the first, log only the times. */
void msi_imaging_report_subject(const msi_imaging_run *run);

/* Log the plan: memory, disk and the gridder. */
void msi_imaging_report_plan(const msi_imaging_plan *plan, const msi_options *options);

/* Log the memory of a plan for the samples that were read. */
void msi_imaging_report_memory(const msi_imaging_plan *plan);

/* Log the samples that a dry run found, and the estimated time of a run. */
void msi_imaging_report_dry_run(const msi_imaging_run *run, const msi_imaging_scan *scan);

/* Log the counts of samples loaded and dropped, with reasons, and add them to the run's counts. Warn if pixels are so
 * coarse that samples are lost. */
void msi_imaging_report_loaded(msi_imaging_run *run);

/* msi_imaging_reason - return the i-th reason for which samples are dropped, in words. */
const char *msi_imaging_reason(int i);

/* msi_imaging_report_no_samples - set the error message that no sample is left. It has the reasons and their counts,
 * because they may not be in the log. Returns: MSI_EINPUT */
int msi_imaging_report_no_samples(const msi_imaging_run *run);

/* Log the weighting. */
void msi_imaging_report_weights(const msi_imaging_run *run);

/*
 * msi_imaging_report_empty - warn about an output channel, or polarisations of it, without samples. Their images are
 * NaN.
 * Given:   n_vis  [n] number of samples of the channel in each polarisation
 */
void msi_imaging_report_empty(const msi_imaging_run *r, int64_t channel, int n, const int64_t *n_vis);

/* Log the image of an output channel: samples of the plane with the most samples, the plan, and the time of each
 * step. */
void msi_imaging_report_channel(int64_t channel, int64_t n_sample, const msi_gridder_report *report);

/* msi_imaging_report_of_channel - get the report of a channel: the sum over its gridders and, with facets, their
 * plan. */
void msi_imaging_report_of_channel(const msi_imaging_run *run, int64_t channel, msi_gridder_report *report);

/* msi_imaging_theoretic_beam - return the wavelength over the longest baseline, in radians; 0 if unknown. */
double msi_imaging_theoretic_beam(const msi_imaging_run *run);

void msi_imaging_report_beam(const msi_imaging_run *run, int64_t channel, const msi_beam *beam);
void msi_imaging_report_times(msi_imaging_run *run, const msi_imaging_times *times);

/* msi_imaging_page_write - write the page of -report, if it was planned. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 * (imaging_page.c) */
int msi_imaging_page_write(const msi_imaging_run *run);

/* ---- Image files and their headers (imaging_files.c) ---- */

/* Properties of the weights of a plane, on all ranks, for headers. */
typedef struct msi_imaging_weight {
    double largest; /* with density weights */
    double vis_sum; /* sum of the weights before density weighting */
} msi_imaging_weight;

/* msi_imaging_weight_add - add the properties of more samples. */
void msi_imaging_weight_add(msi_imaging_weight *all, const msi_imaging_weight *more);

/* The images of one kind: all planes of an output channel, or its PSF. */
typedef struct msi_imaging_product {
    int64_t channel; /* or MSI_OUTPUT_MFS */
    msi_fits_kind kind;
    msi_beam beam;
    const msi_imaging_weight *weight; /* [planes] */
    const msi_fits_clean *clean;      /* [planes] results of cleaning; NULL: no cards of cleaning */
    int term;                         /* Taylor term of the images, or power of a PSF */
} msi_imaging_product;

/* Properties of the samples of a plane on all ranks, for headers. */
typedef struct msi_imaging_sums {
    double sum_weight; /* with density weights */
    msi_imaging_weight weight;
    int64_t n_vis;
} msi_imaging_sums;

/*
 * msi_imaging_files_put - write the images of one kind, and with dirty images the files of -save-uv.
 * Given:   image  [planes]; moved, so that it is empty afterwards
 * Returns: as msi_imaging_files_write
 */
int msi_imaging_files_put(msi_imaging_run *run, const msi_imaging_product *product, msi_image *image);

/* msi_imaging_files_put_plane - the same for an image of one plane. Given: plane  its index among the run's planes */
int msi_imaging_files_put_plane(msi_imaging_run *run, const msi_imaging_product *product, int plane, msi_image *image);

/* msi_imaging_files_horizon - write the mask of -horizon-mask, unless it is written. Returns: as
 * msi_imaging_files_put */
int msi_imaging_files_horizon(msi_imaging_run *run);

/*
 * msi_imaging_files_weights - write the weights of the samples of all ranks, for an output channel or all channels;
 * every rank calls it.
 * Given:   channel     or MSI_OUTPUT_MFS
 *          sums        for plane 0
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_imaging_files_weights(msi_imaging_run *run, int64_t channel, const msi_imaging_sums *sums);

/* msi_imaging_files_beam - choose the beam of a PSF and log it; warn if there is no beam. Returns: 0, MSI_ENOMEM */
int msi_imaging_files_beam(const msi_imaging_run *run, int64_t channel, msi_beam *beam, const msi_image *psf);

/* msi_imaging_files_begin - if there is one output channel, begin to write its primary beam while its image is made.
 * Returns: as msi_imaging_pb_put */
int msi_imaging_files_begin(msi_imaging_run *run);

/*
 * msi_imaging_files_write - write the images of an output channel, and the files of -save-uv and -save-weights.
 *
 * Given:   channel     or MSI_OUTPUT_MFS
 *          image       [n_plane planes, then the PSF if there is one]; moved, so that it is empty afterwards
 *          weight      [image->n_plane]
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED; also a failure of the previous image
 * Notes:   run->writer writes the files after this returns. All headers have the beam fitted to the PSF. If no beam can
 *          be fitted, a warning is logged.
 */
int msi_imaging_files_write(msi_imaging_run *run, int64_t channel, msi_image *image, const msi_imaging_weight *weight);

/* ---- Cubes (imaging_files.c) ---- */

/* msi_imaging_cube_restore - with -restoring-beam common or largest, make the restored cubes of the interval, once all
 * planes are written. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED */
int msi_imaging_cube_restore(msi_imaging_run *run);

/* ---- Primary beams (imaging_pb.c) ---- */

/* msi_imaging_pb_wanted - return 1 if the options need a primary beam. */
int msi_imaging_pb_wanted(const msi_options *options);

/* msi_imaging_pb_open - choose the beam models for the sets of an interval, if the options need them. Returns: as
 * msi_pb_array_make */
int msi_imaging_pb_open(msi_imaging_run *run);
void msi_imaging_pb_close(msi_imaging_run *run);

/* msi_imaging_pb_word - return the argument of -pb. */
const char *msi_imaging_pb_word(const msi_options *options);

/* msi_imaging_pb_tag - make tags for the rows of n blocks, for -grid-with-beam. Returned: tag [n]  their addresses,
 * valid until the next call. Returns: 0, MSI_ENOMEM */
int msi_imaging_pb_tag(msi_imaging_beam *beam, const msi_ms_block *block, int n, const uint64_t **tag);

/* msi_imaging_pb_channels - make the mean beams of the channels for -grid-with-beam. Without this option it does
 * nothing.
 * Returns: 0, MSI_ENOMEM */
int msi_imaging_pb_channels(msi_imaging_run *run);

/*
 * msi_imaging_pb_sight - set the responses of joined channels, if a beam is applied, so that fitted spectra
 * describe true flux.
 * Given and returned: sight  respond is valid until msi_imaging_pb_close; NULL if no beam is applied
 * Returns:            0, MSI_ENOMEM, MSI_EINPUT (a file of -reuse-primary-beam)
 */
int msi_imaging_pb_sight(msi_imaging_run *run, msi_clean_sight *sight);

/* msi_imaging_pb_contour - return the half-power contour of the mean beam of a channel; borrowed until the next call.
 * NULL if images are not corrected for the beam, or no pictures are drawn. */
const msi_fits_contour *msi_imaging_pb_contour(msi_imaging_run *run, int64_t channel);

/* msi_imaging_pb_weigh - set the weights of an interval, summed over the ranks; every rank calls it. Given and
 * returned: weights [sets]. Returns: as msi_ranks_sum */
int msi_imaging_pb_weigh(msi_imaging_run *run, msi_beam_weights *weights);

/* Planes that are being written. */
typedef struct msi_imaging_pb_image {
    int64_t channel; /* or MSI_OUTPUT_MFS */
    msi_fits_kind kind;
    const msi_image *image;
    int plane, n_plane;         /* planes of the image that are being written */
    int first;                  /* index of the first of them among the run's planes */
    const msi_image_file *file; /* [n_plane] their files, for the headers */
} msi_imaging_pb_image;

/*
 * msi_imaging_pb_put - write the primary beam of a channel before its first image, and the corrected images that
 * correspond to the planes being written. Does nothing without a primary beam, and for images that are not corrected.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINPUT (a file of -reuse-primary-beam), MSI_EINTERRUPTED
 */
int msi_imaging_pb_put(msi_imaging_run *run, const msi_imaging_pb_image *image);

/* msi_imaging_pb_begin - write the primary beam of a channel before its image is made, if it depends only on the
 * weights of the samples. Given: image  without pixels. Returns: as msi_imaging_pb_put */
int msi_imaging_pb_begin(msi_imaging_run *run, const msi_imaging_pb_image *image);

/*
 * msi_imaging_pb_response - make the image of the mean beam of a channel, or of all channels, for the first plane.
 * Given:    weight  sum of the weights of the channel
 * Returned: pixel   [ny][nx] NaN where the beam is at or below -primary-beam-limit
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT
 */
int msi_imaging_pb_response(msi_imaging_run *run, int64_t channel, double weight, float *pixel);

/*
 * msi_imaging_pb_terms - correct images of Taylor terms for the beam of a channel.
 * Given:              taylor, freq_hz  [n_node] the nodes; if they have no samples, the images become NaN
 *                     plane, images    as in msi_pb_mean_correct_terms
 * Given and returned: term
 * Returned:           beam, covariance
 * Returns:            0, MSI_ENOMEM
 */
int msi_imaging_pb_terms(msi_imaging_run *run, const msi_pb_taylor *taylor, const double *freq_hz, int plane,
                         msi_image *term, msi_image *beam, msi_image *covariance);

/*
 * msi_imaging_pb_mask - remove pixels from a mask where the primary beam is at or below -pbmask, and with
 * -grid-with-beam where a model cannot be divided by the beam.
 * Given:              reader  opened; frame of directions; centre  ra, dec of the image
 * Given and returned: mask    empty: all pixels are allowed
 * Returns:            as msi_pb_array_make
 */
int msi_imaging_pb_mask(msi_clean_mask *mask, const msi_options *options, const msi_ms_reader *reader,
                        const char *frame, const double centre[2]);

/* msi_imaging_pb_mosaic - make the beams of a channel of a mosaic, and the response by which its images are corrected.
 * Given: weight [fields]  moved. Returns: as msi_mosaic_channel_make */
int msi_imaging_pb_mosaic(msi_imaging_run *run, int64_t channel, double *weight, msi_mosaic_channel *out);

/* msi_imaging_append_psf - keep the first n planes of an image, and append an empty plane for the PSF, with the weights
 * of plane 0. Returns: 0, MSI_ENOMEM; on failure the image is unchanged (imaging_files.c) */
int msi_imaging_append_psf(msi_image *image, int n);

/* ---- Mosaics (imaging_mosaic.c) ---- */

/* msi_imaging_mosaic_open - find the fields of an interval's mosaic. This and the following functions do nothing
 * without -mosaic. Returns: as msi_mosaic_make */
int msi_imaging_mosaic_open(msi_imaging_run *run);
void msi_imaging_mosaic_close(msi_imaging_run *run);

/* msi_imaging_mosaic_spec - change the specification of a gridder from the whole image to the part-th field. */
void msi_imaging_mosaic_spec(const msi_imaging_run *run, int part, msi_gridder_spec *spec);

/* msi_imaging_mosaic_part - return the index of the gridder that gets a block; -1: none. */
int msi_imaging_mosaic_part(const msi_imaging_run *run, const msi_ms_block *block);

/* msi_imaging_mosaic_bind - store the specification of the whole image. Returns: as msi_gridder_create */
int msi_imaging_mosaic_bind(msi_imaging_run *run, const msi_gridder_spec *whole);

/* msi_imaging_mosaic_channels - make the beams of all channels after samples are weighted; every rank calls it.
 * Returns: as msi_imaging_pb_mosaic */
int msi_imaging_mosaic_channels(msi_imaging_run *run);

/* msi_imaging_mosaic_image - make the images of an output channel, as msi_gridder_image. */
int msi_imaging_mosaic_image(msi_imaging_run *run, int64_t channel, msi_image *image);

/* ---- Facets (imaging_facets.c) ---- */

/* msi_imaging_facets_start - read solutions, if the run has facets. Call it before any thread starts. Returns: as
 * msi_facet_gains_open */
int msi_imaging_facets_start(msi_imaging_run *run);

/* msi_imaging_facets_open - make the facets of an interval. Returns: as msi_facets_read, msi_facet_gains_assign */
int msi_imaging_facets_open(msi_imaging_run *run);

/* msi_imaging_facets_gridder - change the specification of a gridder of the whole image so that it stores the samples
 * for facets. Does nothing without facets. */
void msi_imaging_facets_gridder(const msi_imaging_run *run, msi_gridder_spec *spec);

/* msi_imaging_facets_bind - pass the gridders to the facets. Given: spec  of the gridders */
void msi_imaging_facets_bind(msi_imaging_run *run, const msi_gridder_spec *spec);

/* msi_imaging_facets_respond - compute the responses of facets from the samples of all ranks. Does nothing without
 * facets.
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED, a failure of another rank */
int msi_imaging_facets_respond(msi_imaging_run *run);

/*
 * msi_imaging_facets_tag - make tags for the rows of n blocks.
 * Returned: tag [n]  their addresses, valid until the next call; NULL without gains
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT
 */
int msi_imaging_facets_tag(msi_imaging_facets *f, const msi_ms_block *block, int n, const uint64_t **tag);

/* msi_imaging_facets_image - make the images of an output channel, as msi_gridder_image. */
int msi_imaging_facets_image(msi_imaging_run *run, int64_t channel, msi_image *image);

/* msi_imaging_facets_response - make the image of the response of an output channel, or of the mean of all channels.
 * The image is true flux times the response. Returned: pixel [ny][nx]. Returns: 0, MSI_ENOMEM, MSI_EINPUT */
int msi_imaging_facets_response(msi_imaging_run *run, int64_t channel, float *pixel);

void msi_imaging_facets_close(msi_imaging_run *run); /* free what belongs to an interval */
void msi_imaging_facets_free(msi_imaging_run *run);

/* ---- Images of earlier runs: models, dirty images, PSFs, local noise (imaging_reuse.c) ---- */

/*
 * msi_imaging_reuse_check - check the headers of all images that the run will read in any interval: for -continue,
 * -reuse-dirty, -reuse-psf, -local-rms-image. Centre and channels of the run must be known.
 * Returns: 0, MSI_EINPUT (missing, or different in size, pixel size, centre, frame, frequency or polarisation; the
 *          message has both values), MSI_ENOMEM
 */
int msi_imaging_reuse_check(const msi_imaging_run *run);

/*
 * msi_imaging_reuse_read - read PREFIX[-tNNNN][-NNNN][-POL]-KIND.fits.
 * Given:    prefix  for -continue the run's -name, otherwise the argument of -reuse-dirty or -reuse-psf
 *           id      of the image that is not made but read
 * Returned: pixel   [ny][nx] of that precision; a model that is NaN everywhere becomes 0
 * Returns:  as msi_imaging_reuse_check; MSI_EINPUT also if a pixel is not finite, or a PSF is not 1 at its centre
 */
int msi_imaging_reuse_read(const msi_imaging_run *run, const char *prefix, const msi_output_id *id,
                           msi_precision precision, void *pixel);

/*
 * msi_imaging_reuse_rms - read the image of local noise.
 * Returned: pixel  [ny][nx] of that precision, Jy/beam, larger than 0
 * Returns:  as above
 */
int msi_imaging_reuse_rms(const msi_imaging_run *run, msi_precision precision, void *pixel);

/* msi_imaging_reuse_forced - read the images of -force-spectrum. Returned: pixel [terms - 1][ny][nx]; NaN where the
 * spectrum is not forced. Returns: as msi_imaging_reuse_rms */
int msi_imaging_reuse_forced(const msi_imaging_run *run, float *pixel);

/* ---- Checkpoints: NAME[-tNNNN][-NNNN].clean, one for each field (imaging_reuse.c) ---- */

/*
 * msi_imaging_checkpoint_save - write the checkpoint of a field between two major cycles, if the time of -checkpoint
 * has passed since the last one.
 * Given:              first    first output channel of the field
 *                     history  history of the field
 * Given and returned: at_s     time at which the last checkpoint was written
 * Returns: as msi_checkpoint_save_field
 */
int msi_imaging_checkpoint_save(msi_imaging_run *run, msi_clean_field *field, int64_t first,
                                const msi_clean_history *history, double *at_s);

/*
 * msi_imaging_checkpoint_load - with -resume, load the checkpoint into the field, and log whether there is one. Without
 * -resume, rename the checkpoint of an earlier run, and log how to continue from it.
 * Returned: *found  1: the field has the state of the checkpoint
 * Returns:  as msi_checkpoint_load_field
 */
int msi_imaging_checkpoint_load(msi_imaging_run *run, msi_clean_field *field, int64_t first, msi_clean_history *history,
                                int *found);

/* msi_imaging_checkpoint_advise - log how a failed or stopped run can be continued from its checkpoint, if it has
 * one. */
void msi_imaging_checkpoint_advise(const msi_imaging_run *run);

/* msi_imaging_checkpoint_remove - remove the checkpoints of a run whose images are complete. Returns: 0, MSI_EOUTPUT */
int msi_imaging_checkpoint_remove(const msi_options *options);

/*
 * msi_imaging_checkpoint_check - check at the start that checkpoints do not replace other files. With -resume this is
 * checked when they are read.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_imaging_checkpoint_check(const msi_options *options);

#endif
