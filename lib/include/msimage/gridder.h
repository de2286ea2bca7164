/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * @file gridder.h
 * @brief Visibilities to images and back, to an accuracy that the caller chooses.
 *
 * A gridder is made for a task (#msimage_task):
 * - images: create, add samples in blocks, optionally weight, image;
 * - residuals, for a deconvolution or a solver: the same, then any number of calls of residual, hessian, image, psf;
 * - predictions: create, add coordinates, then any number of times predict, each followed by fetch block by block.
 *
 * The method is w-gridding (Arras et al. 2021; Ye et al. 2022) with prolate spheroidal windows. Windows, padding and
 * w-planes are chosen from the accuracy, which is a relative L2 error over the image or over the visibilities.
 *
 * See base.h for errors, arrays and threads.
 */
#ifndef MSIMAGE_GRIDDER_H
#define MSIMAGE_GRIDDER_H

#include "msimage/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The task of a gridder. */
typedef enum msimage_task {
    MSIMAGE_IMAGE,    /**< images, each with its own plan: uses the least memory */
    MSIMAGE_RESIDUAL, /**< images less models, any number of times; everything derived from the samples is kept */
    MSIMAGE_PREDICT   /**< visibilities of models */
} msimage_task;

/**
 * Signs, axes and norms. Pixels are counted from 0, c is the speed of light, f the frequency, n = sqrt(1 - x^2 - y^2).
 * Sums run over samples with weight w; w_m is the coordinate.
 */
typedef enum msimage_convention {
    /**
     * An image as in FITS: [ny][nx], l = center_x + (nx/2 - i) cell_x grows towards lower i, m = center_y + (j - ny/2)
     * cell_y.
     * Image: sum w V exp(-2 pi i f/c (u l + v m + w_m (n - 1))) / sum w. Samples beyond 1 / (2 cell) are dropped and
     * counted. Pixels beyond the horizon are NaN.
     */
    MSIMAGE_SKY,
    /**
     * An image as in ducc0.wgridder: [nx][ny], x = center_x + (i - nx/2) cell_x, y = center_y + (j - ny/2) cell_y.
     * Image: Re sum w V exp(+2 pi i f/c (u x + v y - w_m (n - 1))), not divided by the weights. Samples beyond
     * 1 / (2 cell) count: the Fourier transform of an image of pixels is periodic in u and v. Beyond the horizon n is
     * -sqrt(x^2 + y^2 - 1); with divides_by_n pixels there are 0.
     */
    MSIMAGE_XY
} msimage_convention;

/**
 * The specification of a gridder. Fill it with zeros first. struct_bytes, nx, ny, both sizes of a pixel and the
 * accuracy are required; the other members default to 0. All of it is copied, including strings.
 */
typedef struct msimage_gridder_spec {
    size_t struct_bytes;           /**< sizeof(msimage_gridder_spec): later versions add members at the end */
    msimage_task task;             /**< the task */
    msimage_convention convention; /**< signs, axes, norms */
    msimage_precision precision;   /**< of images, models, visibilities and weights, in every array */
    int64_t nx;                    /**< pixels along x, or l; even, at least 2 */
    int64_t ny;                    /**< pixels along y, or m; even, at least 2 */
    double cell_x_rad;             /**< size of a pixel, in direction cosines; positive, at most 2 if w counts */
    double cell_y_rad;             /**< the same along y, or m */
    double center_x_rad;           /**< direction cosines of pixel (nx/2, ny/2) */
    double center_y_rad;           /**< direction cosines of pixel (nx/2, ny/2) */
    double accuracy;               /**< relative error: 0.1 .. 1e-13, or with #MSIMAGE_FP32 to about 1e-6 */
    int ignores_w;                 /**< w is taken as 0; there is no horizon then */
    int divides_by_n;              /**< divide images by n, and models too; ignored if ignores_w is set */
    int sums_in_double;            /**< use double precision for the work on arrays of #MSIMAGE_FP32 */
    int n_plane;                   /**< image planes, such as Stokes parameters, that share coordinates; 0: 1 */
    msimage_backend backend;       /**< where the work is done */
    int device;                    /**< the GPU to use: its CUDA ordinal */
    void *stream; /**< cudaStream_t: a call waits for the work queued on it before; NULL: the device's default stream */
    int n_thread; /**< of the host, at most 4096; 0: as many as OpenMP gives */
    int64_t memory_bytes; /**< host memory that the gridder may use; 0: all that is available */
    int64_t store_bytes;  /**< part of it for samples; more are stored in temp_dir, which is then required; 0: no
                              separate limit */
    const char *temp_dir; /**< directory for samples beyond store_bytes; copied */
    const char *strategy; /**< "planes", "subgrid" (w-towers), or NULL: the one with the lowest estimated time */
    double least_padding; /**< the padded grid is at least this many times the image; 0: automatic */
} msimage_gridder_spec;

/**
 * A block of samples: rows (each for a baseline and time) with the same channels. A sample is used if its mask is not
 * 0, its weight is neither 0 nor NaN, and its visibilities and coordinates are finite.
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

/**
 * A rule for density weights and tapers. A transition that is n wavelengths wide is (1 + cos(pi (x - n) / n)) / 2,
 * which is 0 at x = 0 and 1 at x = n. uv is the length of (u, v).
 */
typedef struct msimage_weighting {
    msimage_weighting_mode mode; /**< natural, uniform or robust */
    double robust;               /**< Briggs' R, -2 .. 2 */
    double taper_fwhm_rad;       /**< Gaussian uv taper: full width at half maximum of its image; 0: none */
    double super_weight;         /**< each cell of the density's grid is this many times as large; 0: 1 */
    double taper_minor_rad;      /**< minor axis of an elliptical taper; 0: as taper_fwhm_rad */
    double taper_pa_rad;         /**< position angle of its major axis, from north through east */
    double inner_lambda;         /**< weights are 0 below this uv distance; 0: none */
    double inner_tukey_lambda;   /**< width of the transition above it */
    double outer_lambda;         /**< weights are 0 beyond this uv distance; 0: none */
    double outer_tukey_lambda;   /**< width of the transition before it */
    double edge_lambda;          /**< weights are 0 if u or v is this close to 1 / (2 cell), the edge of the
                                                uv plane; 0: none */
    double edge_tukey_lambda;    /**< width of the transition inside it, along each axis */
} msimage_weighting;

/** The plan, and the samples added so far. */
typedef struct msimage_gridder_report {
    const char *strategy;    /**< static */
    msimage_backend backend; /**< where the work is done */
    int width;               /**< taps of the window along u and v; 0 before the first image or prediction */
    int64_t nu;              /**< cells of the padded grid along the axis of the image that is contiguous in memory */
    int64_t nv;              /**< cells along the other one */
    int64_t n_w;             /**< w-planes */
    double error_estimate;   /**< relative L2 */
    int64_t n_sample;        /**< samples that count in some plane */
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

/** Free a gridder; NULL-safe. */
MSIMAGE_API void msimage_gridder_free(msimage_gridder *g);

/**
 * Add samples; any number of times.
 *
 * Weights of #MSIMAGE_SKY, and of #MSIMAGE_RESIDUAL, must not be negative and are kept in single precision: more than
 * 3.4e38 is an error, less than 1e-45 counts as 0. Those of images of #MSIMAGE_XY may have either sign and are used in
 * full precision. Those of predictions multiply the visibilities that are fetched.
 * @param g the gridder
 * @param samples copied
 * @return 0, #MSIMAGE_ENOMEM, #MSIMAGE_EOUTPUT, #MSIMAGE_ERANGE (a frequency that is not positive, an invalid weight),
 *         #MSIMAGE_EARGUMENT, #MSIMAGE_EGPU, #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_gridder_add(msimage_gridder *g, const msimage_samples *samples);

/**
 * Multiply all weights by density weights and a taper. Call it once, after the last sample. Densities come from plane 0
 * or, in cells where it has no samples, from the samples of other planes.
 * @param g the gridder
 * @param rule the weighting
 * @return 0, #MSIMAGE_ENOMEM, #MSIMAGE_EARGUMENT (a second time, or an image of #MSIMAGE_XY or a prediction, whose
 *         weights are not kept), #MSIMAGE_ERANGE (a value of the rule), #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_gridder_weight(msimage_gridder *g, const msimage_weighting *rule);

/**
 * Get the current sums of weights and numbers of samples.
 * @param g the gridder
 * @param[out] sum_weight [n_plane]
 * @param[out] n_vis [n_plane]; may be NULL
 * @return 0, #MSIMAGE_EARGUMENT (weights that are not kept, or a gridder that predicts)
 */
MSIMAGE_API int msimage_gridder_sum_weight(msimage_gridder *g, double *sum_weight, int64_t *n_vis);

/**
 * Image all samples added so far. A plane without samples is NaN for #MSIMAGE_SKY, and 0 for #MSIMAGE_XY.
 * @param g the gridder
 * @param[out] image [n_plane] images: Jy/beam, or Jy times weight
 * @return 0, #MSIMAGE_ERANGE (no plan reaches the accuracy), #MSIMAGE_ENOMEM, #MSIMAGE_EGPU, #MSIMAGE_EINTERRUPTED,
 *         #MSIMAGE_EARGUMENT (a gridder that predicts)
 */
MSIMAGE_API int msimage_gridder_image(msimage_gridder *g, void *image);

/**
 * Image the point spread function, for #MSIMAGE_RESIDUAL: that of visibilities 1 with the weights of plane 0.
 * @param g the gridder
 * @param[out] psf one image; for #MSIMAGE_SKY its peak is 1
 * @return as msimage_gridder_image()
 */
MSIMAGE_API int msimage_gridder_psf(msimage_gridder *g, void *psf);

/**
 * Image the visibilities less those of a model, for #MSIMAGE_RESIDUAL; any number of times. The first call sorts the
 * samples and keeps them, on the GPU if the work is done there.
 * @param g the gridder
 * @param model [n_plane] images, Jy/pixel, finite (pixels beyond the horizon are ignored if they have no value); NULL:
 * no model
 * @param[out] residual [n_plane] images; may be model
 * @return as msimage_gridder_image(); #MSIMAGE_ERANGE if the model is not finite
 */
MSIMAGE_API int msimage_gridder_residual(msimage_gridder *g, const void *model, void *residual);

/**
 * Apply the normal operator, for #MSIMAGE_RESIDUAL: predict a model, weight, image. The visibilities that were added
 * are not used.
 * @param g the gridder
 * @param model [n_plane] images, Jy/pixel
 * @param[out] product [n_plane] images; may be model
 * @return as msimage_gridder_residual()
 */
MSIMAGE_API int msimage_gridder_hessian(msimage_gridder *g, const void *model, void *product);

/**
 * Predict a model at all samples added, for #MSIMAGE_PREDICT: the transpose of the image of the same samples. For
 * #MSIMAGE_SKY V = sum S exp(+2 pi i f/c (u l + v m + w_m (n - 1))), for #MSIMAGE_XY
 * V = w sum S exp(-2 pi i f/c (u x + v y - w_m (n - 1))).
 * @param g the gridder
 * @param model [n_plane] images, Jy/pixel. A value that is not finite makes every visibility of its plane NaN
 * @return 0, #MSIMAGE_ERANGE, #MSIMAGE_ENOMEM, #MSIMAGE_EGPU, #MSIMAGE_EINTERRUPTED, #MSIMAGE_EARGUMENT
 */
MSIMAGE_API int msimage_gridder_predict(msimage_gridder *g, const void *model);

/**
 * Copy predicted visibilities to an array, block by block in the order in which samples were added.
 * @param g the gridder
 * @param samples the block as it was added; vis is not read
 * @param[out] vis [n_plane][n_row][n_chan] complex, Jy: times the weight if there is one; 0 where the mask or the
 *             weight is 0 or the weight is NaN, NaN where coordinates are not finite
 * @return 0, #MSIMAGE_EARGUMENT (before a prediction, or more than was added), #MSIMAGE_ENOMEM, #MSIMAGE_EGPU,
 *         #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_gridder_fetch(msimage_gridder *g, const msimage_samples *samples, void *vis);

/**
 * Image samples in one call: create a gridder for #MSIMAGE_IMAGE, add blocks, image, free it.
 * @param spec its task is ignored
 * @param callbacks NULL: none
 * @param samples [n_block]
 * @param n_block blocks of samples
 * @param[out] image [n_plane] images, as of msimage_gridder_image()
 * @return as msimage_gridder_create(), msimage_gridder_add() and msimage_gridder_image()
 */
MSIMAGE_API int msimage_gridder_image_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                                           const msimage_samples *samples, int64_t n_block, void *image);

/**
 * Predict a model in one call: create a gridder for #MSIMAGE_PREDICT, add blocks, predict, fetch, free it.
 * @param spec its task is ignored
 * @param callbacks NULL: none
 * @param samples [n_block], whose vis is not read
 * @param n_block blocks of samples
 * @param model [n_plane] images, as of msimage_gridder_predict()
 * @param[out] vis [n_block] arrays, as of msimage_gridder_fetch()
 * @return as msimage_gridder_create(), msimage_gridder_add(), msimage_gridder_predict() and msimage_gridder_fetch()
 */
MSIMAGE_API int msimage_gridder_predict_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                                             const msimage_samples *samples, int64_t n_block, const void *model,
                                             void *const *vis);

/** Get the properties of the plan and of the samples added so far. */
MSIMAGE_API void msimage_gridder_report_get(const msimage_gridder *g, msimage_gridder_report *report);

#ifdef __cplusplus
}
#endif
#endif
