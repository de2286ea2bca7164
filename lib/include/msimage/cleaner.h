/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * @file cleaner.h
 * @brief The minor cycles of deconvolution: finds components in residual images and adds them to model images.
 *
 * A set of planes is [n_channel][n_pol] images [ny][nx]. All of them are searched together: one polarisation by the
 * mean over channels, whose sign counts; several by the square root of the summed squares of the means. Images are of
 * #MSIMAGE_SKY, or [nx][ny] with nx and ny exchanged in the specification.
 *
 * With Taylor terms residuals and models are [n_term][n_pol] images. Residual t is the image of the visibilities less
 * the model, with weights times x^t, divided by the sum of the weights without x^t. PSF k, up to k = 2 n_term - 2, is
 * defined in the same way. Peaks are searched in residual 0; multiscale by power chooses the component whose terms
 * together lower chi^2 most. See U. Rau and T. J. Cornwell, A&A 532, A71 (2011).
 *
 * See base.h for errors, arrays and threads.
 */
#ifndef MSIMAGE_CLEANER_H
#define MSIMAGE_CLEANER_H

#include "msimage/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How the method multiscale chooses a scale. R is the residual, P the PSF, K a scale's kernel. */
typedef enum msimage_scale_rule {
    MSIMAGE_SCALE_BY_BEAM, /**< by the peak of R * K times a bias that depends on the beam's width, as WSClean does */
    MSIMAGE_SCALE_BY_POWER /**< by the reduction of the residual's squares by a component, (R * K)^2 / (P * K * K)(0),
                                as CASA's tclean does. Thresholds, mgain and the report's peaks are then those of
                                points. A wide scale may be found where nine tenths of it are within the mask. No scale
                                is found at an edge, or within three quarters of its width of one */
} msimage_scale_rule;

/** The shape of a scale: r is the distance from its middle, s its full width. */
typedef enum msimage_scale_shape {
    MSIMAGE_SCALE_TAPERED_QUADRATIC, /**< 1 - (r / s)^2 under a Hann window of width s */
    MSIMAGE_SCALE_GAUSSIAN,          /**< of sigma 3 s / 16 */
    MSIMAGE_SCALE_SPHEROIDAL /**< 1 - v^2 times the spheroidal function of v = 2 r / s, as in tclean, whose scales are s
                                  / 2 */
} msimage_scale_shape;

/** The specification of a cleaner. Members that are 0 take their defaults; all of it is copied, including lists. */
typedef struct msimage_cleaner_spec {
    size_t struct_bytes;         /**< sizeof(msimage_cleaner_spec): later versions add members at the end */
    int64_t nx;                  /**< pixels along a row */
    int64_t ny;                  /**< rows */
    int n_channel;               /**< 0: 1 */
    int n_pol;                   /**< 0: 1 */
    const double *weight;        /**< [n_channel] >= 0, in the mean over channels; NULL: equal */
    msimage_precision precision; /**< of all images */
    msimage_backend backend;     /**< where the work is done */
    int device;                  /**< the GPU to use: its CUDA ordinal */
    int n_thread;                /**< of the host, at most 4096; 0: as many as OpenMP gives */
    const char *method;  /**< "hogbom", "list" (many components for one convolution), "multiscale"; NULL: list */
    double gain;         /**< fraction of a peak that becomes a component; 0: 0.1 */
    int no_negative;     /**< for one polarisation: components are positive */
    int stop_negative;   /**< for one polarisation: stop when the peak is negative */
    int squared_join;    /**< join channels by squares instead of their mean */
    double border;       /**< fraction of the width and height, on each side, without components */
    const double *scale; /**< multiscale: [n_scale] full widths in pixels, from 0, increasing; NULL: from beam_pixel */
    int n_scale;         /**< length of the list, at most 16; 0: as many as fit */
    double beam_pixel;   /**< multiscale: full width of the beam at half maximum; required, with or without scale */
    double scale_bias;   /**< multiscale by the beam's width: above 0, at most 1; 0: 0.6 */
    msimage_scale_rule scale_rule;   /**< multiscale: how a scale is chosen */
    msimage_scale_shape scale_shape; /**< multiscale: shape of scales */
    double small_scale_bias;         /**< multiscale by power: squares are multiplied by 1 - b s / s_max; -1 to 1 */
    double scale_gain; /**< multiscale: fraction of a scale's peak that is cleaned before a scale is chosen again; 1e-6:
                         one component; 0: 0.2, by power 0.05 */
    int n_term;        /**< 2 to 4: components have Taylor terms; 0: none. n_channel is then 0 or 1 */
    double reference_hz;       /**< of terms: spectra are sums of term t times x^t, x = frequency / reference - 1 */
    const double *freq_hz;     /**< of terms: [n_freq] frequencies of the samples, at least n_term different ones */
    const double *freq_weight; /**< of terms: [n_freq] >= 0, the sums of the weights of the samples */
    int n_freq;                /**< length of both lists */
    /** [n_device] CUDA ordinals of GPUs that share the transforms of channels and polarisations; the first one is
     * `device`. Results do not depend on the list. A CPU ignores it. */
    const int *devices;
    int n_device; /**< length of the list, at most 16; 0: only `device` */
} msimage_cleaner_spec;

/** Limits of msimage_cleaner_minor(). */
typedef struct msimage_clean_limits {
    double threshold;    /**< Jy/beam */
    double mgain;        /**< fraction of the peak that is cleaned before new residuals are needed; 0: 1, all of it */
    int64_t n_iteration; /**< at most */
} msimage_clean_limits;

/** Reason for the end of msimage_cleaner_minor(). */
typedef enum msimage_clean_stop {
    MSIMAGE_STOP_THRESHOLD,  /**< the peak is at or below the threshold */
    MSIMAGE_STOP_MAJOR,      /**< the peak is at or below (1 - mgain) of the first: new residuals are needed */
    MSIMAGE_STOP_ITERATIONS, /**< limits.n_iteration is reached */
    MSIMAGE_STOP_NEGATIVE,   /**< stop_negative is set, and the peak is negative */
    MSIMAGE_STOP_EMPTY,      /**< no pixel may be cleaned */
    MSIMAGE_STOP_DIVERGED,   /**< the peak grew to twice the first; with several scales, to four times */
    MSIMAGE_STOP_STALLED     /**< iterations no longer lower the peak */
} msimage_clean_stop;

/** Report of msimage_cleaner_minor(). */
typedef struct msimage_clean_report {
    msimage_clean_stop stop; /**< reason for the end */
    int64_t n_iteration;     /**< number of components */
    double peak_before;      /**< Jy/beam, with their sign */
    double peak_after;       /**< Jy/beam, with their sign */
    int64_t peak_x;          /**< pixel of peak_after */
    int64_t peak_y;          /**< its row */
    double flux;             /**< Jy added to the model: mean over channels, summed over polarisations */
} msimage_clean_report;

typedef struct msimage_cleaner msimage_cleaner; /**< A cleaner; see msimage_cleaner_create(). */

/**
 * Make a cleaner.
 * @param[out] out owned by the caller, freed by msimage_cleaner_free(); NULL after a failure
 * @param spec copied
 * @param callbacks copied; NULL: none
 * @return 0, #MSIMAGE_EARGUMENT, #MSIMAGE_ENOMEM, #MSIMAGE_EGPU
 */
MSIMAGE_API int msimage_cleaner_create(msimage_cleaner **out, const msimage_cleaner_spec *spec,
                                       const msimage_callbacks *callbacks);

/** Free a cleaner; NULL-safe. */
MSIMAGE_API void msimage_cleaner_free(msimage_cleaner *c);

/**
 * Set the point spread functions.
 * @param c the cleaner
 * @param psf [n_channel] images, 1 at (nx/2, ny/2); with Taylor terms [2 n_term - 1], of which the first is 1 there
 * @return 0, #MSIMAGE_EINPUT (no positive peak in the middle), #MSIMAGE_EGPU, #MSIMAGE_ENOMEM
 */
MSIMAGE_API int msimage_cleaner_psf(msimage_cleaner *c, const void *psf);

/**
 * Set the mask.
 * @param c the cleaner
 * @param mask [ny][nx], not 0 where components are allowed; NULL: everywhere
 * @return 0, #MSIMAGE_EGPU, #MSIMAGE_ENOMEM
 */
MSIMAGE_API int msimage_cleaner_mask(msimage_cleaner *c, const uint8_t *mask);

/**
 * Run minor iterations until one of the limits.
 * @param c the cleaner
 * @param[in,out] residual [n_channel][n_pol] images, or [n_term][n_pol], Jy/beam; undefined after a failure
 * @param[in,out] model images like residual, Jy/pixel, in other memory; components are added to them
 * @param limits when to stop
 * @param[out] report results; may be NULL
 * @return 0, #MSIMAGE_EARGUMENT (no PSF was set), #MSIMAGE_EGPU, #MSIMAGE_ENOMEM, #MSIMAGE_EINTERRUPTED
 */
MSIMAGE_API int msimage_cleaner_minor(msimage_cleaner *c, void *residual, void *model,
                                      const msimage_clean_limits *limits, msimage_clean_report *report);

/**
 * Measure the noise of the mean over channels, or of residual 0: 1.4826 times the median distance from the median.
 * @param c the cleaner
 * @param residual [n_channel][n_pol] images, or [n_term][n_pol]
 * @param[out] sigma Jy/beam
 * @return 0, #MSIMAGE_EINPUT (no finite pixel), #MSIMAGE_EGPU, #MSIMAGE_ENOMEM
 */
MSIMAGE_API int msimage_cleaner_noise(msimage_cleaner *c, const void *residual, double *sigma);

/** A beam: the elliptical Gaussian that fits the main lobe of a point spread function. */
typedef struct msimage_beam {
    double major_rad; /**< full width at half maximum, along the major axis */
    double minor_rad; /**< and along the minor axis */
    double pa_rad;    /**< position angle of the major axis, from north (higher rows) through east (lower pixels of a
                           row), in [0, pi) */
} msimage_beam;

/**
 * Fit the beam of a point spread function, with which a model is restored. The fit uses the main lobe down to 0.35 of
 * the peak; values between the pixels are computed, so that the beam does not depend on their size.
 * @param[out] beam NaN after a failure
 * @param psf an image of #MSIMAGE_SKY in host memory, its peak at (nx/2, ny/2)
 * @param nx pixels along a row, at least 2
 * @param ny rows, at least 2
 * @param cell_x_rad size of a pixel, positive, in direction cosines
 * @param cell_y_rad size of a pixel, positive, in direction cosines
 * @param precision of the image
 * @return 0, #MSIMAGE_ERANGE (no peak in the middle, or no lobe that falls off in every direction), #MSIMAGE_EARGUMENT,
 *         #MSIMAGE_ENOMEM
 */
MSIMAGE_API int msimage_beam_fit(msimage_beam *beam, const void *psf, int64_t nx, int64_t ny, double cell_x_rad,
                                 double cell_y_rad, msimage_precision precision);

#ifdef __cplusplus
}
#endif
#endif
