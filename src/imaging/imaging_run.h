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
    msi_facets facets;      /* facets of the present interval, as the next ones */
    msi_pb_mean *seen;      /* [channels_out] the responses of channels, for spectra of true flux; NULL: not needed */
    msi_facet_work work;
    msi_facet_channel *channel; /* [channels_out] */
    double *weight;             /* [channels_out] sums of weights, for the mean of the channels */
    float *response;            /* response of the channel below, kept for its images; NULL: none yet */
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
    msi_conversion_turn *turn;   /* [n_turn] */
    int64_t n_turn;
    msi_gridder_spec spec; /* specification of a gridder of the whole image */
    msi_gridder *whole;    /* without samples, for its planes */
    uint8_t *seen;         /* [ny][nx] 1: a channel sees the pixel */
} msi_imaging_mosaic;

enum { MSI_N_REASON = 9, MSI_N_STAGE = 4 };

typedef struct msi_imaging_run {
    const msi_options *options; /* options of the run: &cube_options for a cube with the channels of the data */
    msi_options cube_options;   /* a copy with their number; its pointers are borrowed */
    msi_channel_grid grid;      /* the planes of a cube in another frame; n 0: none */
    msi_ranks *ranks;           /* samples are distributed over its ranks; the first rank writes files */
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane;
    char *temp_dir;               /* owned; for visibilities that exceed the memory limit */
    char weighting[48];           /* its name in log and headers */
    msi_model_update *update;     /* NULL: MODEL_DATA is not written */
    msi_model_interval *modelled; /* [intervals_out] owned; NULL without update */
    msi_gpu_share gpus;
    msi_reader_pool *reader_pool;   /* the reader processes; NULL after the last sample is read */
    msi_block_converter *converter; /* the Stokes conversion of the reader processes */
    msi_outputs *outputs;           /* on the first rank, as is the writer; NULL on others */
    msi_image_writer *writer;
    msi_clean_mask mask;                     /* the user's, with that of the horizon; empty: none */
    uint16_t *scale_mask;                    /* [ny][nx] bits of the scales that are allowed; owned; NULL: none */
    int has_written_horizon;                 /* the file of -horizon-mask was written */
    msi_clean_history history;               /* history of all fields */
    double checkpoint_at_s;                  /* when the last checkpoint was written */
    int has_checkpoint;                      /* this run has written or loaded one */
    int64_t n_kept;                          /* samples read and kept, over all intervals and channels */
    int64_t n_gridded;                       /* samples with a weight after weighting */
    int64_t n_used, n_dropped[MSI_N_REASON]; /* samples that gridders kept and that were dropped, on all ranks */
    double spent_s[MSI_N_STAGE];             /* opening, reading, weighting, images and files */
    msi_imaging_facets *facets;              /* NULL: images are made whole */
    msi_imaging_beam *beam;                  /* beam of the present interval; NULL: models are apparent */

    /* The following members belong to the present interval. */
    int64_t interval;
    msi_ms_reader *reader;
    int is_planned; /* the plan of this interval is made, and gridders are bound by it */
    int needs_cpu;  /* the GPU has too little memory for the images */
    int is_empty;   /* no selected row lies in the interval: nothing is read, and the images are NaN */
    msi_observation observation;
    double ra_rad, dec_rad; /* the centre of the images */
    msi_output_channels channels;
    msi_imaging_plan plan;
    msi_imaging_mosaic *mosaic; /* NULL: one gridder images a channel */
    msi_gridder **gridder;      /* [channels_out][fields of a mosaic, otherwise 1] NULL after its last use */
    msi_density *density;       /* density of all channels, or of one while its samples are weighted; otherwise NULL */
    msi_sample_tally tally;     /* this and the following are over all ranks */
    msi_ms_dropped dropped;
    msi_pb_array *pb;            /* NULL without a primary beam, as the next two */
    msi_pb_mean *pb_mean;        /* [channels_out + 1] of each channel, and of all; empty until it is needed */
    double pb_s[2];              /* time spent on models, and on their images and corrections */
    msi_fits_contour *contour;   /* contour of half power of the channel whose images were written last; NULL: none */
    double *pb_weight;           /* [channels_out] the sums of weights of the channels */
    double *pb_of_hz;            /* [MSI_BEAM_STEPS] the sums of weights by frequency; all 0 before samples are read */
    int64_t n_loaded, n_outside; /* samples that the gridders kept; that they dropped */
} msi_imaging_run;

/* msi_imaging_n_part - return the number of gridders of an output channel. */
static inline int msi_imaging_n_part(const msi_imaging_run *r)
{
    return r->mosaic ? r->mosaic->fields.n : 1;
}

/* msi_imaging_reference - return the reference frequency of Taylor terms: that of -reffreq, or the middle of the band. */
static inline double msi_imaging_reference(const msi_imaging_run *r)
{
    const double given = r->options->clean.reference_hz;
    return given > 0 ? given : 0.5 * (r->channels.low_hz[0] + r->channels.high_hz[r->options->channels_out - 1]);
}

/* ---- Loading (imaging_load.c) ---- */

/*
 * msi_imaging_load - read all samples of the interval into its gridders, and count those of all ranks. If the run is not
 * planned yet, it is planned as soon as the GPU has started, if that is before the last block.
 * Returns: 0, MSI_EINPUT, MSI_ENOMEM, MSI_EOUTPUT (the file of the store), MSI_EGPU, MSI_EINTERRUPTED
 *
 * msi_imaging_move_to_gpu - move the samples that are in host memory to the GPU, where they are used there. Returns: 0,
 * MSI_ENOMEM, MSI_EGPU, MSI_EOUTPUT
 *
 * msi_imaging_stop_readers - end the reader processes, after the last sample.
 */
int msi_imaging_load(msi_imaging_run *run);
int msi_imaging_move_to_gpu(const msi_imaging_run *run);
void msi_imaging_stop_readers(msi_imaging_run *run);

/* msi_imaging_plan_gridders - make the plan, and bind the gridders by it (imaging.c). Returns: 0, MSI_ENOMEM, MSI_EGPU or a
 * code of the plan */
int msi_imaging_plan_gridders(msi_imaging_run *run);

/* ---- The log: lines with many numbers (imaging_report.c) ---- */

/* Times at which the stages of an interval ended, by msi_wall_s. */
typedef struct msi_imaging_times {
    double start_s, opened_s, loaded_s, weighed_s, imaged_s;
} msi_imaging_times;

/* Log the subject of the images as far as it is known before samples are read: sets, fields, band, times, image,
 * resolution. Warn of needlessly fine pixels. For an interval after the first, log only its times. */
void msi_imaging_report_subject(const msi_imaging_run *run);

/* Log the plan: memory, disk and the gridder. */
void msi_imaging_report_plan(const msi_imaging_plan *plan, const msi_options *options);

/* Log the samples that a dry run found, and the estimated time of a run. */
void msi_imaging_report_dry_run(const msi_imaging_run *run, const msi_imaging_scan *scan);

/* Log samples loaded and dropped, with the reasons, and add them to the run's counts. Warn of pixels so coarse that samples are lost. */
void msi_imaging_report_loaded(msi_imaging_run *run);

/* msi_imaging_reason - return the i-th reason for which samples are dropped, in words. */
const char *msi_imaging_reason(int i);

/* msi_imaging_report_no_samples - set the error that no sample is left, with the reasons and their counts, which a
 * quiet log lacks. Returns: MSI_EINPUT */
int msi_imaging_report_no_samples(const msi_imaging_run *run);

/* Log the weighting. */
void msi_imaging_report_weights(const msi_imaging_run *run);

/*
 * msi_imaging_report_empty - warn of an output channel without samples, or of polarisations of it without samples.
 * Their images are NaN.
 * Given:   n_vis  [n] samples of the channel in each polarisation
 */
void msi_imaging_report_empty(const msi_imaging_run *r, int64_t channel, int n, const int64_t *n_vis);

/* Log the image of an output channel: n_sample of the plane with the most samples, the plan, and the time of each step.
 */
void msi_imaging_report_channel(int64_t channel, int64_t n_sample, const msi_gridder_report *report);

/* msi_imaging_report_of_channel - get the report of a channel: the sum of its gridders, with the plan of its facets, if
 * there are any. */
void msi_imaging_report_of_channel(const msi_imaging_run *run, int64_t channel, msi_gridder_report *report);

/* msi_imaging_theoretic_beam - return the wavelength over the longest baseline, in radians; 0 if unknown. */
double msi_imaging_theoretic_beam(const msi_imaging_run *run);

void msi_imaging_report_beam(const msi_imaging_run *run, int64_t channel, const msi_beam *beam);
void msi_imaging_report_times(msi_imaging_run *run, const msi_imaging_times *times);

/* msi_imaging_page_write - write the page of -report, if it was planned. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 * (imaging_page.c) */
int msi_imaging_page_write(const msi_imaging_run *run);

/* ---- Image files and their headers (imaging_files.c) ---- */

/* Properties of the weights of a plane on all ranks, for headers. */
typedef struct msi_imaging_weight {
    double largest; /* with density weights */
    double vis_sum; /* sum of the weights before density weighting */
} msi_imaging_weight;

/* msi_imaging_weight_add - include the weights of more samples. */
void msi_imaging_weight_add(msi_imaging_weight *all, const msi_imaging_weight *more);

/* The images of one kind: all planes of an output channel, or its PSF. */
typedef struct msi_imaging_product {
    int64_t channel; /* or MSI_OUTPUT_MFS */
    msi_fits_kind kind;
    msi_beam beam;
    const msi_imaging_weight *weight; /* [planes] */
    const msi_fits_clean *clean;      /* [planes] results of cleaning; NULL: no cards of cleaning */
    int term;                         /* Taylor term of the images, or power of the PSF */
} msi_imaging_product;

/* Properties of the samples of a plane on all ranks, for headers. */
typedef struct msi_imaging_sums {
    double sum_weight; /* with density weights */
    msi_imaging_weight weight;
    int64_t n_vis;
} msi_imaging_sums;

/*
 * msi_imaging_files_put - write images of one kind; with dirty images also the files of -save-uv.
 * Given:   image  [planes]; moved, so that it is empty afterwards
 * Returns: as msi_imaging_files_write
 */
int msi_imaging_files_put(msi_imaging_run *run, const msi_imaging_product *product, msi_image *image);

/* msi_imaging_files_put_plane - the same for an image of a single plane. Given: plane  its number among the run's */
int msi_imaging_files_put_plane(msi_imaging_run *run, const msi_imaging_product *product, int plane, msi_image *image);

/* msi_imaging_files_horizon - write the mask of -horizon-mask, once in a run. Returns: as msi_imaging_files_put */
int msi_imaging_files_horizon(msi_imaging_run *run);

/*
 * msi_imaging_files_weights - write the weights of the samples of an output channel, or of all channels, on all ranks;
 * every rank calls it.
 * Given:   channel     or MSI_OUTPUT_MFS
 *          sums        of plane 0
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_imaging_files_weights(msi_imaging_run *run, int64_t channel, const msi_imaging_sums *sums);

/* msi_imaging_files_beam - choose the beam of a PSF and log it; warn if there is none. Returns: 0, MSI_ENOMEM */
int msi_imaging_files_beam(const msi_imaging_run *run, int64_t channel, msi_beam *beam, const msi_image *psf);

/* msi_imaging_files_begin - begin to write the primary beam of the only output channel, while its image is made. Returns:
 * as msi_imaging_pb_put */
int msi_imaging_files_begin(msi_imaging_run *run);

/*
 * msi_imaging_files_write - write the images of an output channel, and the files of -save-uv and -save-weights.
 *
 * Given:   channel     or MSI_OUTPUT_MFS
 *          image       [n_plane planes, then the PSF if there is one]; moved, so that it is empty afterwards
 *          weight      [image->n_plane]
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED; also a failure of the previous image
 * Notes:   run->writer writes the files after this returns. All headers have the beam fitted to the PSF. Warns if no
 *          beam can be fitted.
 */
int msi_imaging_files_write(msi_imaging_run *run, int64_t channel, msi_image *image, const msi_imaging_weight *weight);

/* ---- Cubes (imaging_files.c) ---- */

/* msi_imaging_cube_restore - with -restoring-beam common or largest make the restored cubes of the interval, after all
 * of its planes are written. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINTERRUPTED */
int msi_imaging_cube_restore(msi_imaging_run *run);

/* ---- Primary beams (imaging_pb.c) ---- */

/* msi_imaging_pb_wanted - return 1 if options need a primary beam. */
int msi_imaging_pb_wanted(const msi_options *options);

/* msi_imaging_pb_open - choose the models of an interval's sets, if the options need them. Returns: as
 * msi_pb_array_make */
int msi_imaging_pb_open(msi_imaging_run *run);
void msi_imaging_pb_close(msi_imaging_run *run);

/* msi_imaging_pb_word - return the word of -pb. */
const char *msi_imaging_pb_word(const msi_options *options);

/* msi_imaging_pb_tag - make the tags of the rows of blocks [n] for -grid-with-beam. Returned: tag [n]  addresses of them,
 * valid until the next call. Returns: 0, MSI_ENOMEM */
int msi_imaging_pb_tag(msi_imaging_beam *beam, const msi_ms_block *block, int n, const uint64_t **tag);

/* msi_imaging_pb_channels - make the mean beams by which the channels are cleaned. Does nothing without
 * -grid-with-beam. Returns: 0, MSI_ENOMEM */
int msi_imaging_pb_channels(msi_imaging_run *run);

/*
 * msi_imaging_pb_sight - say how the images of joined channels see the sky, if fitted spectra are to be those of true
 * flux: where a beam is applied.
 * Given and returned: sight  respond is set until msi_imaging_pb_close, or left NULL
 * Returns:            0, MSI_ENOMEM, MSI_EINPUT (a file of -reuse-primary-beam)
 */
int msi_imaging_pb_sight(msi_imaging_run *run, msi_clean_sight *sight);

/* msi_imaging_pb_contour - return the contour of half power of the mean beam of a channel, borrowed until the next call,
 * if images are corrected for it and pictures are drawn; otherwise NULL. */
const msi_fits_contour *msi_imaging_pb_contour(msi_imaging_run *run, int64_t channel);

/* msi_imaging_pb_weigh - set the weights of an interval, summed over the ranks; every rank calls it. Given and returned:
 * weights [sets]. Returns: 0, MSI_EMPI.. as msi_ranks_sum */
int msi_imaging_pb_weigh(msi_imaging_run *run, msi_beam_weights *weights);

/* Planes that are being written. */
typedef struct msi_imaging_pb_image {
    int64_t channel; /* or MSI_OUTPUT_MFS */
    msi_fits_kind kind;
    const msi_image *image;
    int plane, n_plane;         /* which of its planes */
    int first;                  /* the number of the first of them among the run's */
    const msi_image_file *file; /* [n_plane] their files; the headers are used */
} msi_imaging_pb_image;

/*
 * msi_imaging_pb_put - write the primary beam of a channel before its first image, and the corrected images that belong
 * to planes that are being written. Nothing is done without a primary beam, and for images that are not corrected.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_EINPUT (a file of -reuse-primary-beam), MSI_EINTERRUPTED
 */
int msi_imaging_pb_put(msi_imaging_run *run, const msi_imaging_pb_image *image);

/* msi_imaging_pb_begin - write the primary beam of a channel before its image is made, unless it follows from other sums
 * than those of samples. Given: image  without pixels. Returns: as msi_imaging_pb_put */
int msi_imaging_pb_begin(msi_imaging_run *run, const msi_imaging_pb_image *image);

/*
 * msi_imaging_pb_response - make the image of the mean beam of a channel, or of all channels, for the first plane.
 * Given:    weight  sum of the weights of the channel
 * Returned: pixel   [ny][nx] NaN at or below -primary-beam-limit
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT
 */
int msi_imaging_pb_response(msi_imaging_run *run, int64_t channel, double weight, float *pixel);

/*
 * msi_imaging_pb_terms - correct images of Taylor terms for the beam of a channel.
 * Given:              taylor, freq_hz  [n_node] the nodes; without samples their images become NaN
 *                     limit, plane     as msi_pb_mean_correct_terms, as are all images
 * Given and returned: term
 * Returned:           beam, covariance
 * Returns:            0, MSI_ENOMEM
 */
int msi_imaging_pb_terms(msi_imaging_run *run, const msi_pb_taylor *taylor, const double *freq_hz, int plane,
                         msi_image *term, msi_image *beam, msi_image *covariance);

/*
 * msi_imaging_pb_mask - take pixels where the primary beam is at or below -pbmask out of a mask; with -grid-with-beam
 * those where it cannot be divided out.
 * Given:              reader  opened; frame of directions; centre  ra, dec of the image
 * Given and returned: mask    empty: everywhere
 * Returns:            as msi_pb_array_make
 */
int msi_imaging_pb_mask(msi_clean_mask *mask, const msi_options *options, const msi_ms_reader *reader,
                        const char *frame, const double centre[2]);

/* msi_imaging_pb_mosaic - make the beams of a mosaic's channel, and its response, which corrects its images. Given:
 * weight [fields]  moved. Returns: as msi_mosaic_channel_make */
int msi_imaging_pb_mosaic(msi_imaging_run *run, int64_t channel, double *weight, msi_mosaic_channel *out);

/* msi_imaging_append_psf - keep the first n planes of an image, and append an empty one for the PSF, with the weights of
 * plane 0. Returns: 0, MSI_ENOMEM; the image is unchanged after a failure (imaging_files.c) */
int msi_imaging_append_psf(msi_image *image, int n);

/* ---- Mosaics (imaging_mosaic.c) ---- */

/* msi_imaging_mosaic_open - find the fields of an interval's mosaic. Does nothing without -mosaic, as the next ones.
 * Returns: as msi_mosaic_make */
int msi_imaging_mosaic_open(msi_imaging_run *run);
void msi_imaging_mosaic_close(msi_imaging_run *run);

/* msi_imaging_mosaic_spec - change the specification of a gridder of the whole image to that of a field. */
void msi_imaging_mosaic_spec(const msi_imaging_run *run, int part, msi_gridder_spec *spec);

/* msi_imaging_mosaic_part - return which gridder of a channel takes a block; -1: none. */
int msi_imaging_mosaic_part(const msi_imaging_run *run, const msi_ms_block *block);

/* msi_imaging_mosaic_bind - keep the specification of the whole image. Returns: as msi_gridder_create */
int msi_imaging_mosaic_bind(msi_imaging_run *run, const msi_gridder_spec *whole);

/* msi_imaging_mosaic_channels - make the beams of all channels, once samples are weighted; every rank calls it. Returns:
 * as msi_imaging_pb_mosaic */
int msi_imaging_mosaic_channels(msi_imaging_run *run);

/* msi_imaging_mosaic_image - make the images of an output channel, as msi_gridder_image. */
int msi_imaging_mosaic_image(msi_imaging_run *run, int64_t channel, msi_image *image);

/* ---- Facets (imaging_facets.c) ---- */

/* msi_imaging_facets_start - read solutions, if the run has facets. Call it before any thread starts. Returns: as
 * msi_facet_gains_open */
int msi_imaging_facets_start(msi_imaging_run *run);

/* msi_imaging_facets_open - make the facets of an interval. Returns: as msi_facets_read, msi_facet_gains_assign */
int msi_imaging_facets_open(msi_imaging_run *run);

/* msi_imaging_facets_gridder - change the specification of a gridder of the whole image so that it stores samples for
 * facets. Does nothing without facets. */
void msi_imaging_facets_gridder(const msi_imaging_run *run, msi_gridder_spec *spec);

/* msi_imaging_facets_bind - give the gridders to the facets. Given: spec  of the gridders */
void msi_imaging_facets_bind(msi_imaging_run *run, const msi_gridder_spec *spec);

/* msi_imaging_facets_respond - find the responses of facets, over the samples of all ranks. Does nothing without facets.
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED, a failure of another rank */
int msi_imaging_facets_respond(msi_imaging_run *run);

/*
 * msi_imaging_facets_tag - make the tags of the rows of blocks [n].
 * Returned: tag [n]  addresses of them, valid until the next call; NULL without gains
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT
 */
int msi_imaging_facets_tag(msi_imaging_facets *f, const msi_ms_block *block, int n, const uint64_t **tag);

/* msi_imaging_facets_image - make the images of an output channel, as msi_gridder_image. */
int msi_imaging_facets_image(msi_imaging_run *run, int64_t channel, msi_image *image);

/* msi_imaging_facets_response - make the image of the response of an output channel, or of the mean of all: true flux
 * times it is the image. Returned: pixel [ny][nx]. Returns: 0, MSI_ENOMEM, MSI_EINPUT */
int msi_imaging_facets_response(msi_imaging_run *run, int64_t channel, float *pixel);

void msi_imaging_facets_close(msi_imaging_run *run); /* free what belongs to an interval */
void msi_imaging_facets_free(msi_imaging_run *run);

/* ---- Images of earlier runs: models, dirty images, PSFs, local noise (imaging_reuse.c) ---- */

/*
 * msi_imaging_reuse_check - check the headers of all images that the run will read in all intervals: -continue,
 * -reuse-dirty, -reuse-psf, -local-rms-image. Centre and channels of the run must be known.
 * Returns: 0, MSI_EINPUT (missing, or another size, pixel size, centre, frame, frequency or polarisation; the message
 *          has both values), MSI_ENOMEM
 */
int msi_imaging_reuse_check(const msi_imaging_run *run);

/*
 * msi_imaging_reuse_read - read PREFIX[-tNNNN][-NNNN][-POL]-KIND.fits.
 * Given:    prefix  of -continue (the run's -name), -reuse-dirty, -reuse-psf
 *           id      of the image that it replaces
 * Returned: pixel   [ny][nx] of that precision; a model that is NaN everywhere is 0
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

/* msi_imaging_reuse_forced - read the images of -force-spectrum. Returned: pixel [terms - 1][ny][nx]; NaN where nothing is
 * forced. Returns: as msi_imaging_reuse_rms */
int msi_imaging_reuse_forced(const msi_imaging_run *run, float *pixel);

/* ---- Checkpoints: NAME[-tNNNN][-NNNN].clean, one for each field (imaging_reuse.c) ---- */

/*
 * msi_imaging_checkpoint_save - write the checkpoint of a field between two cycles, unless the time of -checkpoint has
 * not passed since the last one.
 * Given:              first    the first output channel of the field
 *                     history  of the field
 * Given and returned: at_s     when the last one was written
 * Returns: as msi_checkpoint_save_field
 */
int msi_imaging_checkpoint_save(msi_imaging_run *run, msi_clean_field *field, int64_t first,
                                const msi_clean_history *history, double *at_s);

/*
 * msi_imaging_checkpoint_load - with -resume load the checkpoint into the field, and log whether there was one; without
 * it, keep that of an earlier run under another name, and log how to continue from it.
 * Returned: *found  1: the field has the state of the checkpoint
 * Returns:  as msi_checkpoint_load_field
 */
int msi_imaging_checkpoint_load(msi_imaging_run *run, msi_clean_field *field, int64_t first, msi_clean_history *history,
                                int *found);

/* msi_imaging_checkpoint_advise - log how a run that has failed or was stopped goes on from its checkpoint, if it has
 * one. */
void msi_imaging_checkpoint_advise(const msi_imaging_run *run);

/* msi_imaging_checkpoint_remove - remove the checkpoints of a run whose images are complete. Returns: 0, MSI_EOUTPUT */
int msi_imaging_checkpoint_remove(const msi_options *options);

/*
 * msi_imaging_checkpoint_check - check at the start that checkpoints would replace only checkpoints; with -resume this
 * is checked when they are read.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_imaging_checkpoint_check(const msi_options *options);

#endif
