/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The cleaner runs the minor cycles of deconvolution: it finds components in residual images, adds them to model images
 * and subtracts the point spread function. It does not use visibilities; its caller runs the major cycles, which make
 * new residuals.
 *
 * A set of planes is [n_channel][n_pol] images [ny][nx]. They are searched together, in one joined quantity:
 *
 *   one polarisation           I = sum_c w_c R_c / sum_c w_c, whose sign counts
 *   several polarisations      P = sqrt(sum_p (sum_c w_c R_cp / sum_c w_c)^2)
 *   squared channels           P = sqrt(sum_c w_c sum_p R_cp^2 / sum_c w_c)
 *
 * Only polarisations in spec.search_pol are searched. If there is one, the first line applies. Pixels that are not
 * finite are never found. Of equal pixels, the one with the lowest index is found.
 */
#ifndef MSI_CLEANER_H
#define MSI_CLEANER_H

#include <stdint.h>

#include "core/image.h"
#include "kernels/clean/clean_auto_mask.h"
#include "kernels/clean/clean_taylor.h"
#include "kernels/clean/cleaner_spec.h"
#include "kernels/method/planes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Restored images: a model convolved with a beam, plus residuals ---- */

/* The planes to restore with one beam. Planes of another beam need another call. */
typedef struct msi_restore_spec {
    msi_beam beam; /* known */
    double cell_x_rad, cell_y_rad;
    int first, n; /* planes [first, first + n) of model, residual and image */
    int n_thread; /* threads of the CPU; 0: as many as OpenMP gives */
} msi_restore_spec;

/*
 * msi_restore - convolve a model with the beam, a gaussian of peak 1, and add it to residuals. Jy/pixel become Jy/beam.
 * Given:    residual, model  planes of one shape; pixels of the model that are not finite count as zero, those of the
 *                            residual are kept
 * Returned: image  planes of the same shape; it may be the residual
 * Returns:  0, MSI_EARGUMENT (no beam, no pixel size, planes out of range or of different shapes), MSI_EGPU, MSI_ENOMEM
 * Notes:    the gaussian is sampled at pixels' centres and is exact down to e-44; beams of less than about two pixels
 *           are undersampled. The model is zero beyond the image's edge.
 */
int msi_restore(msi_planes *image, const msi_planes *residual, const msi_planes *model, const msi_restore_spec *spec);

/*
 * msi_restore_estimate - count the bytes that msi_restore needs on the host and on the GPU, not counting the planes.
 * Given:    shape  of the planes
 * Returned: paged  the part of host that may be out of memory after msi_memory_page_to
 */
void msi_restore_estimate(const msi_planes_shape *shape, const msi_restore_spec *spec, int64_t *host, int64_t *paged,
                          int64_t *device);

typedef struct msi_cleaner msi_cleaner;

/*
 * msi_cleaner_create - make a cleaner.
 * Returned: *out, owned by the caller, freed by msi_cleaner_free; NULL after a failure
 * Returns:  0, MSI_EARGUMENT (invalid specification; msi_error_about names the member), MSI_ENOMEM, MSI_EGPU
 */
int msi_cleaner_create(msi_cleaner **out, const msi_cleaner_spec *spec);

/* msi_cleaner_free - NULL-safe. */
void msi_cleaner_free(msi_cleaner *c);

/* msi_cleaner_shape - return the shape of the residual and of the model, and the backend chosen; PSFs have n_channel
 * planes. */
msi_planes_shape msi_cleaner_shape(const msi_cleaner *c);

/* msi_cleaner_scales - return the full widths in pixels of the cleaner's scales, [*n]. Borrowed. */
const double *msi_cleaner_scales(const msi_cleaner *c, int *n);

/* Memory of a cleaner. */
typedef struct msi_cleaner_bytes {
    int64_t host, device;
    int64_t least_device; /* part of device that any transforms need */
    int64_t temporary;    /* part of host that is needed only while a PSF is set or noise is measured */
    int64_t paged;        /* part of host that may be out of memory after msi_memory_page_to */
    int64_t work;         /* part of host that may be out of memory if work arrays are in files too */
} msi_cleaner_bytes;

/*
 * msi_cleaner_estimate - count the bytes that a cleaner needs, not counting its caller's planes.
 * Returns: 0, MSI_EARGUMENT as msi_cleaner_create
 */
int msi_cleaner_estimate(const msi_cleaner_spec *spec, msi_cleaner_bytes *bytes);

/*
 * msi_cleaner_psf - set the point spread functions of all cells.
 * Given:   psf  [n_channel] planes, 1 at (nx/2, ny/2); copied; zero beyond the image; pixels that are not finite count
 *               as zero
 * Returns: 0, MSI_EARGUMENT (planes of another shape, precision or backend), MSI_EINPUT (no positive peak in the middle
 *          of a channel with weight), MSI_EGPU, MSI_ENOMEM
 */
int msi_cleaner_psf(msi_cleaner *c, const msi_planes *psf);

/*
 * msi_cleaner_cell_psf - replace the point spread functions of a cell of spec's grid.
 * Given:   cell  x + grid_x y, numbered from the corner of pixel (0, 0); pixel (x, y) is in cell (x grid_x / nx,
 *                y grid_y / ny), rounded down
 *          psf   as for msi_cleaner_psf, which must have been called before
 * Returns: as msi_cleaner_psf
 */
int msi_cleaner_cell_psf(msi_cleaner *c, int cell, const msi_planes *psf);

/*
 * msi_cleaner_mask - set the mask.
 * Given:   mask  [ny][nx] bytes on the host, not 0 where components are allowed; copied; NULL: everywhere
 * Returns: 0, MSI_EGPU, MSI_ENOMEM
 */
int msi_cleaner_mask(msi_cleaner *c, const uint8_t *mask);

/*
 * msi_cleaner_scale_mask - set a mask for each scale, which applies in addition to msi_cleaner_mask. Needs
 *   spec.by_scale.
 * Given:   scales  [ny][nx] on the host: bit s of a pixel allows scale s; copied; NULL: everywhere
 * Returns: 0, MSI_EARGUMENT (by_scale is 0), MSI_EGPU
 */
int msi_cleaner_scale_mask(msi_cleaner *c, const uint16_t *scales);

/*
 * msi_cleaner_found - copy the mask of found components: bit s of a pixel stands for scale s.
 * Returned: found [ny][nx], on the host
 * Returns:  0, MSI_EGPU
 */
int msi_cleaner_found(msi_cleaner *c, uint16_t *found);

/* msi_cleaner_found_set - set the mask of found components, such as that of an earlier run; NULL: nowhere. Returns: 0,
 * MSI_EGPU */
int msi_cleaner_found_set(msi_cleaner *c, const uint16_t *found);

/*
 * msi_cleaner_minor - run minor iterations until one of the limits.
 * Given and returned: residual, model  [n_channel][n_pol] planes, Jy/beam and Jy/pixel; components are added to the
 *                     model
 * Returned: *report
 * Returns:  0 (also if there was nothing to do), MSI_EARGUMENT (no PSF or no local noise was set; other planes than the
 *           cleaner's), MSI_EGPU, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    after a failure residual and model are undefined, and the cleaner may be used again. The order of all sums
 *           is fixed: fp64 gives the same components on every backend and with any number of threads.
 */
int msi_cleaner_minor(msi_cleaner *c, msi_planes *residual, msi_planes *model, const msi_clean_limits *limits,
                      msi_clean_report *report);

/*
 * msi_cleaner_mean - compute channels as weighted means of their parts; zero if no part has weight.
 * Given:    part     [n_part][n_pol] planes, or [n_part] of PSFs; without parts, those of channels
 * Returned: channel  [n_channel][n_pol] planes, or [n_channel]
 * Returns:  0, MSI_EARGUMENT (other planes than these), MSI_EGPU, MSI_ENOMEM
 */
int msi_cleaner_mean(msi_cleaner *c, const msi_planes *part, msi_planes *channel);

/*
 * msi_cleaner_expand - evaluate the spectrum of each pixel in the parts: the fitted spectrum whose means over channels
 * are the channels' values. Without a fit, or with a forced one, parts are equal to their channel. If the values for a
 * log-polynomial have different signs, a polynomial is used.
 * Given:    channel  [n_channel][n_pol] planes, such as models; channels without weight are ignored
 * Returned: part     [n_part][n_pol] planes
 * Returns:  as msi_cleaner_mean
 */
int msi_cleaner_expand(msi_cleaner *c, const msi_planes *channel, msi_planes *part);

/* Planes first, first + pitch .. of a set of planes. */
typedef struct msi_cleaner_planes {
    const msi_planes *planes; /* planes of the cleaner's size, precision and backend */
    int first, pitch, n;
} msi_cleaner_planes;

/*
 * msi_cleaner_combine - compute sums of planes: out_o = sum_i matrix[o][i] in_i.
 * Given:    matrix  [out->n][in->n], on the host; where it is 0, a plane is not read
 * Returned: out     other planes than those of in
 * Returns:  0, MSI_EARGUMENT (planes of another shape), MSI_EGPU, MSI_ENOMEM
 */
int msi_cleaner_combine(msi_cleaner *c, const double *matrix, const msi_cleaner_planes *in,
                        const msi_cleaner_planes *out);

/*
 * msi_cleaner_n_term - count the terms of a spectrum: 1 without a fit, or with a forced one.
 * Returned: *reference_hz    at which the first term is the value: the weighted mean of frequencies; 0: not known
 *           *is_logarithmic  1: terms are the a_k of a_0 10^(a_1 x + a_2 x^2 ..), x = log10(frequency / reference)
 *                            0: terms are the a_k of a_0 + a_1 x + a_2 x^2 .., x = frequency / reference - 1
 */
int msi_cleaner_n_term(const msi_cleaner *c, double *reference_hz, int *is_logarithmic);

/*
 * msi_cleaner_terms - find the terms of a spectrum.
 * Given:    value [n_channel]
 * Returned: term  [msi_cleaner_n_term]; if the values for a log-polynomial have different signs, a_0 of a polynomial,
 *                 and 0 for the others
 */
void msi_cleaner_terms(const msi_cleaner *c, const double *value, double *term);

/*
 * msi_cleaner_fit_seen - fit spectra to the true flux of a pixel. The images show the sky multiplied by matrices, such
 * as those of a primary beam. Weights of channels are multiplied by their response, so that the weighted mean of the
 * difference between images and fit is 0, and is not found again. Needs a polynomial or log-polynomial fit.
 * Given:              n_pol     polarisations of the pixel, at most 4; each has its own spectrum
 *                     response  [n_part][n_pol][n_pol], image by sky; of channels without parts. If a diagonal is not
 *                               positive in a channel with weight, or a matrix is singular, the response is taken as 1
 *                     forced    [n_term - 1] the terms of the log-polynomial after the first, of all polarisations;
 *                               NULL: they are fitted
 * Given and returned: value     [n_channel][n_pol] of the images; replaced by those of the spectra
 * Returned:           part      [n_part][n_pol] of the images
 *                     term      [n_pol][msi_cleaner_n_term] of the spectra in true flux; if there is no log-polynomial,
 *                               because values have different signs, that of a constant
 */
void msi_cleaner_fit_seen(const msi_cleaner *c, int n_pol, const double *response, const double *forced, double *value,
                          double *part, double *term);

/*
 * msi_cleaner_noise - measure the noise of the mean over channels: 1.48260221850560 times the median distance from the
 * median, over finite pixels; for several searched polarisations, the quadratic mean of theirs.
 * Returned: *sigma, Jy/beam
 * Returns:  0, MSI_EINPUT (no finite pixel), MSI_EGPU, MSI_ENOMEM
 */
int msi_cleaner_noise(msi_cleaner *c, const msi_planes *residual, double *sigma);

/*
 * msi_cleaner_sigmas - compute the threshold that the joined quantity of pure noise, of msi_cleaner_noise = 1, exceeds
 * as rarely as a normal variable exceeds n_sigma on either side. It is n_sigma itself for one searched polarisation.
 */
double msi_cleaner_sigmas(const msi_cleaner *c, double n_sigma);

/*
 * msi_cleaner_local_rms - measure the noise around each pixel of the mean over channels, for the first searched
 * polarisation.
 * Given:    planes  the residual
 * Returned: *least  of all pixels, Jy/beam; 0: it is zero somewhere, and limits.local_rms has no effect
 * Returns:  0, MSI_EARGUMENT (window), MSI_EINPUT (no finite pixel), MSI_EGPU, MSI_ENOMEM
 */
int msi_cleaner_local_rms(msi_cleaner *c, const msi_planes *planes, const msi_clean_local_rms *options, double *least);

#ifdef __cplusplus
}
#endif
#endif
