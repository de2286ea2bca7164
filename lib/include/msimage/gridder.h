/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * @file gridder.h
 * @brief Visibilities to images and back, right to an accuracy that the caller chooses.
 *
 * A gridder is made for a task (#msimage_task):
 * - an image: create, add samples in blocks, perhaps weight, image;
 * - residuals, of a deconvolution or a solver: the same, then any number of times residual, hessian, image, psf;
 * - predictions: create, add coordinates, then any number of times predict, and for each fetch block by block.
 *
 * The method is w-gridding (Arras et al. 2021; Ye et al. 2022) with prolate spheroidal windows, which are chosen with
 * the padding and the w-planes from the accuracy. The error that is promised is relative, in L2, over the image or over
 * the visibilities.
 *
 * See base.h for errors, arrays and threads.
 */
#ifndef MSIMAGE_GRIDDER_H
#define MSIMAGE_GRIDDER_H

#include "msimage/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** What a gridder is for. */
typedef enum msimage_task {
    MSIMAGE_IMAGE,    /**< images, each planned by itself: the least memory */
    MSIMAGE_RESIDUAL, /**< images any number of times, less models; what is made of the samples is kept */
    MSIMAGE_PREDICT   /**< visibilities of models */
} msimage_task;

/**
 * Signs, axes and norms. Pixels count from 0, c is the speed of light, f the frequency, n = sqrt(1 - x^2 - y^2), and
 * sums run over samples with weight w (w_m is the coordinate).
 */
typedef enum msimage_convention {
    /**
     * An image as FITS has it: [ny][nx], l = center_x + (nx/2 - i) cell_x grows to lower i, m = center_y + (j - ny/2)
     * cell_y. Image: sum w V exp(-2 pi i f/c (u l + v m + w_m (n - 1))) / sum w. Samples beyond 1 / (2 cell) are
     * dropped and counted. Pixels beyond the horizon are NaN.
     */
    MSIMAGE_SKY,
    /**
     * An image as ducc0.wgridder has it: [nx][ny], x = center_x + (i - nx/2) cell_x, y = center_y + (j - ny/2) cell_y.
     * Image: Re sum w V exp(+2 pi i f/c (u x + v y - w_m (n - 1))), not divided by the weights. Samples beyond
     * 1 / (2 cell) count: an image of pixels is periodic in u and v. Pixels beyond the horizon are 0.
     */
    MSIMAGE_XY
} msimage_convention;

/**
 * The specification of a gridder, to be filled with zeros first. struct_bytes, nx, ny, both sizes of a pixel and
 * the accuracy are to be given; of the others 0 is the default. All of it is copied, texts too.
 */
typedef struct msimage_gridder_spec {
    size_t struct_bytes;           /**< sizeof(msimage_gridder_spec): later versions add members at the end */
    msimage_task task;             /**< what it is for */
    msimage_convention convention; /**< signs, axes, norms */
    msimage_precision precision;   /**< of images, models, visibilities and weights, in every array */
    int64_t nx;                    /**< pixels along x, or l; even, at least 2 */
    int64_t ny;                    /**< pixels along y, or m; even, at least 2 */
    double cell_x_rad;             /**< size of a pixel, positive, in direction cosines */
    double cell_y_rad;             /**< size of a pixel, positive, in direction cosines */
    double center_x_rad;           /**< direction cosines of pixel (nx/2, ny/2) */
    double center_y_rad;           /**< direction cosines of pixel (nx/2, ny/2) */
    double accuracy;               /**< relative error: 0.1 .. 1e-13, or with #MSIMAGE_FP32 to about 1e-6 */
    int ignores_w;                 /**< w is taken as 0; there is no horizon then */
    int divides_by_n;              /**< images are divided by n, and models too; not where w is ignored */
    int sums_in_double;            /**< arrays of #MSIMAGE_FP32 are worked on in double precision */
    int n_plane;                   /**< image planes, such as Stokes parameters, that share coordinates; 0: 1 */
    msimage_backend backend;       /**< where the work is done */
    int device;                    /**< the GPU to use: its CUDA ordinal */
    void *stream; /**< cudaStream_t: a call begins after what was put on it before; NULL: the device's default one */
    int n_thread; /**< of the host, at most 4096; 0: as many as OpenMP gives */
    int64_t memory_bytes; /**< host memory that the gridder may use; 0: what there is */
    int64_t store_bytes;  /**< of it, for samples; more goes to temp_dir, which must be named then; 0: no limit */
    const char *temp_dir; /**< folder for what store_bytes leaves out; copied */
    const char *strategy; /**< "planes", "subgrid" (w-towers), or NULL: the one foreseen to be soonest */
    double least_padding; /**< the padded grid is at least this many times the image; 0: free choice */
} msimage_gridder_spec;

/**
 * A block of samples: rows (a baseline and time each) of one list of channels. A sample counts where its mask is not 0,
 * its weight is neither 0 nor NaN and its visibilities and coordinates are finite.
 */
typedef struct msimage_samples {
    int64_t n_row;         /**< baselines and times */
    int32_t n_chan;        /**< channels */
    const double *uvw_m;   /**< [n_row][3] metres */
    const double *freq_hz; /**< [n_chan] > 0, in any order */
    const void *vis;       /**< [n_plane][n_row][n_chan] complex, Jy, unweighted; NULL: 0. Not read for predictions */
    const void *weight;    /**< [n_plane][n_row][n_chan] real; NULL: 1. See msimage_gridder_add() */
    const uint8_t *mask;   /**< [n_row][n_chan]; NULL: every sample counts */
} msimage_samples;

/** Density weighting. */
typedef enum msimage_weighting_mode { MSIMAGE_NATURAL, MSIMAGE_UNIFORM, MSIMAGE_BRIGGS } msimage_weighting_mode;

/** A rule by which weights are multiplied. */
typedef struct msimage_weighting {
    msimage_weighting_mode mode; /**< natural, uniform or robust */
    double robust;               /**< Briggs' R, -2 .. 2 */
    double taper_fwhm_rad;       /**< Gaussian uv taper: full width at half maximum of its image; 0: none */
    double super_weight;         /**< cells of the density's grid this many times as large; 0: 1 */
} msimage_weighting;

/** What was planned, and what samples there are. */
typedef struct msimage_gridder_report {
    const char *strategy;    /**< static */
    msimage_backend backend; /**< where the work is done */
    int width;               /**< taps of the window along u and v; 0 before the first image or prediction */
    int64_t nu;              /**< cells of the padded grid along the axis of the image that is contiguous in memory */
    int64_t nv;              /**< cells along the other one */
    int64_t n_w;             /**< w-planes */
    double error_estimate;   /**< relative L2 */
    int64_t n_sample;        /**< that count in some plane */
    int64_t n_outside;       /**< dropped because u or v is beyond 1 / (2 cell) */
    int64_t store_bytes;     /**< host memory of the samples */
} msimage_gridder_report;

typedef struct msimage_gridder msimage_gridder; /**< A gridder; see msimage_gridder_create(). */

/**
 * Make a gridder.
 * @param[out] out owned by the caller, freed by msimage_gridder_free(); NULL after a failure
 * @param spec copied
 * @param callbacks copied; NULL: none
 * @return 0, #MSIMAGE_EARGUMENT, #MSIMAGE_ERANGE, #MSIMAGE_EGPU, #MSIMAGE_ENOMEM, #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_gridder_create(msimage_gridder **out, const msimage_gridder_spec *spec,
                                       const msimage_callbacks *callbacks);

/** Free a gridder; NULL is fine. */
MSIMAGE_API void msimage_gridder_free(msimage_gridder *g);

/**
 * Take samples in; any number of times.
 *
 * Weights of #MSIMAGE_SKY, and of #MSIMAGE_RESIDUAL, must not be negative and are kept in single precision: more than
 * 3.4e38 is refused, less than 1e-45 counts as 0. Those of images of #MSIMAGE_XY may have either sign and count in full
 * precision. Those of predictions multiply what is fetched.
 * @param g the gridder
 * @param samples copied
 * @return 0, #MSIMAGE_ENOMEM, #MSIMAGE_EOUTPUT, #MSIMAGE_ERANGE (a frequency that is not positive, such a weight),
 *         #MSIMAGE_EARGUMENT, #MSIMAGE_EGPU, #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_gridder_add(msimage_gridder *g, const msimage_samples *samples);

/**
 * Multiply all weights by density weights and a taper: once, after the last sample. Densities are those of plane 0; in
 * cells where it has no sample, those of other planes' samples.
 * @param g the gridder
 * @param rule what to multiply by
 * @return 0, #MSIMAGE_ENOMEM, #MSIMAGE_EARGUMENT (a second time, or an image of #MSIMAGE_XY or a prediction, whose
 *         weights are not kept), #MSIMAGE_ERANGE (a value of the rule), #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_gridder_weight(msimage_gridder *g, const msimage_weighting *rule);

/**
 * Sum weights and count samples, as they stand.
 * @param g the gridder
 * @param[out] sum_weight [n_plane]
 * @param[out] n_vis [n_plane]; NULL: not wanted
 * @return 0, #MSIMAGE_EARGUMENT (weights that are not kept, or a gridder that predicts)
 */
MSIMAGE_API int msimage_gridder_sum_weight(msimage_gridder *g, double *sum_weight, int64_t *n_vis);

/**
 * Image everything added so far. Of #MSIMAGE_SKY a plane without a sample is NaN; of #MSIMAGE_XY it is 0.
 * @param g the gridder
 * @param[out] image [n_plane] images: Jy/beam, or Jy times weight
 * @return 0, #MSIMAGE_ERANGE (no plan reaches the accuracy), #MSIMAGE_ENOMEM, #MSIMAGE_EGPU, #MSIMAGE_EINTERRUPTED,
 *         #MSIMAGE_EARGUMENT (a gridder that predicts)
 */
MSIMAGE_API int msimage_gridder_image(msimage_gridder *g, void *image);

/**
 * Image the point spread function, of #MSIMAGE_RESIDUAL: visibilities 1 with the weights of plane 0.
 * @param g the gridder
 * @param[out] psf one image; of #MSIMAGE_SKY its peak is 1
 * @return as msimage_gridder_image()
 */
MSIMAGE_API int msimage_gridder_psf(msimage_gridder *g, void *psf);

/**
 * Image what a model leaves of the visibilities, of #MSIMAGE_RESIDUAL; any number of times. Samples are put in order by
 * the first call and stay, on the GPU where the work is done there.
 * @param g the gridder
 * @param model [n_plane] images, Jy/pixel, finite (beyond the horizon they are not looked at); NULL: nothing
 * @param[out] residual [n_plane] images; may be model
 * @return as msimage_gridder_image(); #MSIMAGE_ERANGE where the model is not finite
 */
MSIMAGE_API int msimage_gridder_residual(msimage_gridder *g, const void *model, void *residual);

/**
 * Apply the normal operator, of #MSIMAGE_RESIDUAL: predict a model, weight, image. The visibilities added do not
 * matter.
 * @param g the gridder
 * @param model [n_plane] images, Jy/pixel
 * @param[out] product [n_plane] images; may be model
 * @return as msimage_gridder_residual()
 */
MSIMAGE_API int msimage_gridder_hessian(msimage_gridder *g, const void *model, void *product);

/**
 * Predict a model at everything added, of #MSIMAGE_PREDICT: the transpose of the image of the same samples. Of
 * #MSIMAGE_SKY V = sum S exp(+2 pi i f/c (u l + v m + w_m (n - 1))), of #MSIMAGE_XY
 * V = w sum S exp(-2 pi i f/c (u x + v y - w_m (n - 1))).
 * @param g the gridder
 * @param model [n_plane] images, Jy/pixel. A value that is not finite makes every visibility of its plane NaN
 * @return 0, #MSIMAGE_ERANGE, #MSIMAGE_ENOMEM, #MSIMAGE_EGPU, #MSIMAGE_EINTERRUPTED, #MSIMAGE_EARGUMENT
 */
MSIMAGE_API int msimage_gridder_predict(msimage_gridder *g, const void *model);

/**
 * Hand out predicted visibilities, block by block in the order in which samples were added.
 * @param g the gridder
 * @param samples the block as it was added; vis is not read
 * @param[out] vis [n_plane][n_row][n_chan] complex, Jy: times the weight where there is one; 0 where the mask or the
 *             weight is 0 or the weight is NaN, NaN where coordinates are not finite
 * @return 0, #MSIMAGE_EARGUMENT (before a prediction, or more than was added), #MSIMAGE_ENOMEM, #MSIMAGE_EGPU,
 *         #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_gridder_fetch(msimage_gridder *g, const msimage_samples *samples, void *vis);

/**
 * Image samples once: what creating a gridder for #MSIMAGE_IMAGE, adding blocks, imaging and freeing it do, as one call.
 * @param spec of which task is not looked at
 * @param callbacks NULL: none
 * @param samples [n_block]
 * @param n_block blocks of samples
 * @param[out] image [n_plane] images, as msimage_gridder_image() makes them
 * @return as msimage_gridder_create(), msimage_gridder_add() and msimage_gridder_image()
 */
MSIMAGE_API int msimage_gridder_image_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                                           const msimage_samples *samples, int64_t n_block, void *image);

/**
 * Predict a model once: what creating a gridder for #MSIMAGE_PREDICT, adding blocks, predicting, fetching and freeing it
 * do, as one call.
 * @param spec of which task is not looked at
 * @param callbacks NULL: none
 * @param samples [n_block], whose vis is not read
 * @param n_block blocks of samples
 * @param model [n_plane] images, as msimage_gridder_predict() takes them
 * @param[out] vis [n_block] arrays, as msimage_gridder_fetch() fills them
 * @return as msimage_gridder_create(), msimage_gridder_add(), msimage_gridder_predict() and msimage_gridder_fetch()
 */
MSIMAGE_API int msimage_gridder_predict_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                                             const msimage_samples *samples, int64_t n_block, const void *model,
                                             void *const *vis);

/** Say what was planned, and what samples there are. */
MSIMAGE_API void msimage_gridder_report_get(const msimage_gridder *g, msimage_gridder_report *report);

#ifdef __cplusplus
}
#endif
#endif
