/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A cleaner's state, and functions that its methods share. */
#ifndef MSI_CLEAN_STATE_H
#define MSI_CLEAN_STATE_H

#include <math.h>
#include <stddef.h>

#include "core/image.h"
#include "core/status.h"
#include "kernels/clean/clean_engine.h"
#include "kernels/clean/cleaner_spec.h"
#include "kernels/method/method.h"
#include "kernels/method/planes.h"

typedef struct msi_cleaner msi_cleaner;
typedef struct msi_clean_multiscale msi_clean_multiscale; /* data of the method `multiscale` */

/* Consecutive images in the engine's memory. */
typedef struct msi_clean_planes {
    void *pixel;    /* planes [ny][nx] */
    int64_t stride; /* distance between planes in pixels */
} msi_clean_planes;

/* One call of msi_cleaner_minor. */
typedef struct msi_clean_call {
    msi_cleaner *c;
    msi_clean_planes residual, model;
    const msi_clean_limits *limits;
    msi_clean_report *report;
    double peak_first; /* the key of the first peak */
    int scale;
    uint8_t in_cell[MSI_CLEAN_MAX_CELL]; /* cells with components of the present list */
    uint8_t *const
        *scale_mask;     /* [n_scale], that of scale 0 is the mask itself; NULL: all scales use the mask itself */
    int64_t n_component; /* recorded */
} msi_clean_call;

/* The functions of a method. All return 0 or a code of core/status.h. */
struct msi_clean_method_ops {
    int (*prepare)(msi_cleaner *c);       /* allocate memory of the method; NULL: none */
    void (*release)(msi_cleaner *c);      /* free that memory, also after prepare failed; NULL: nothing */
    int (*psf)(msi_cleaner *c, int cell); /* process a new PSF of a cell; NULL: nothing to do */
    int (*minor)(msi_clean_call *call);
    int64_t (*bytes)(const msi_cleaner *c);       /* the engine's memory for the method */
    int64_t (*paged)(const msi_cleaner *c);       /* the part of it that may be out of memory; NULL: none */
    int64_t (*while_bytes)(const msi_cleaner *c); /* host memory needed while a PSF is set; NULL: none */
    int uses_lists;
};
typedef struct msi_clean_method_ops msi_clean_method_ops;

extern const msi_clean_method_ops msi_clean_hogbom_ops, msi_clean_list_ops, msi_clean_multiscale_ops;

/* The parts that channels are made of. Without parts every channel is its own part. */
typedef struct msi_clean_parts {
    int n;
    int *channel;             /* [n] */
    double *weight, *freq_hz; /* [n] */
    double *share; /* [n] fraction of its channel's weight; they sum to 1 in each channel, also if it has no weight */
    /* [n_term][n_channel], [n][n_channel]: matrices from a polynomial's values to its terms in x = freq / mean - 1 and
     * to its values in the parts; without a fit n_term is 1 */
    double *term, *expand;
    int n_term;
    double mean_hz;                            /* sum w freq / sum w */
    void *mean_matrix, *expand_matrix, *log_x; /* in the engine's memory, made at first use */
} msi_clean_parts;

/* A device of a cleaner, which makes the transforms of its share of the planes (clean_workers.c). */
typedef struct msi_clean_worker {
    msi_clean_engine *e;
    void *image; /* a copy of a plane; NULL for the first worker, whose engine is the cleaner's */
    /* For lists: the padded transform, the spectra of the PSFs of its planes, [n_cell][n_channel], NULL for other
     * channels, and a work spectrum. */
    msi_clean_fft *wide;
    void **psf_hat, *work;
    /* Multiscale: the narrow transform, and the spectra of kernels; scale 0 has none. */
    msi_clean_fft *narrow;
    void *narrow_work, *kernel_wide[MSI_CLEAN_MAX_SCALE], *kernel_narrow[MSI_CLEAN_MAX_SCALE];
} msi_clean_worker;

struct msi_cleaner {
    msi_cleaner_spec spec; /* complete, with defaults filled in; lists point into this struct */
    double weight[MSI_CLEAN_CHANNELS], freq_hz[MSI_CLEAN_CHANNELS], spectrum[MSI_CLEAN_CHANNELS],
        correction[MSI_CLEAN_CHANNELS];
    double fit[MSI_CLEAN_CHANNELS * MSI_CLEAN_CHANNELS], scale[MSI_CLEAN_MAX_SCALE];
    msi_clean_setup setup;
    const msi_clean_method *row;
    const msi_clean_method_ops *method;
    const msi_clean_engine_ops *ops;
    msi_clean_engine *e;
    int n_plane;
    int64_t n_pixel, real_bytes, complex_bytes;
    int n_cell, middle_cell;
    void *psf; /* [n_cell][n_channel] */
    int has_psf, has_mask, has_scale_mask;
    int64_t psf_id;            /* identifies the PSF; that of a scale is psf_id + scale */
    int has_noise, has_factor; /* local noise was measured; it is zero nowhere, and factor is set */
    uint8_t *mask, *allow;
    uint16_t *found, *scale_mask; /* scale_mask: NULL unless spec.by_scale */
    void *quantity, *factor;      /* factor: made at first use */
    msi_clean_worker worker[MSI_CLEAN_MAX_DEVICE];
    int n_worker;
    int64_t n_wide; /* complex numbers of a wide spectrum */
    msi_clean_multiscale *multiscale;
    msi_clean_parts parts;
};

/* msi_clean_plane - return plane k of planes in the engine's memory. */
static inline void *msi_clean_plane(const msi_cleaner *c, const msi_clean_planes *planes, int k)
{
    return (char *)planes->pixel + k * planes->stride * c->real_bytes;
}

/* msi_clean_plane_has_weight - return 1 if the channel of a plane has weight. */
static inline int msi_clean_plane_has_weight(const msi_cleaner *c, int plane)
{
    return c->setup.share[plane / c->spec.n_pol] != 0;
}

/* msi_clean_plane_searched - return 1 if the polarisation of a plane is searched. */
static inline int msi_clean_plane_searched(const msi_cleaner *c, int plane)
{
    return msi_clean_searched(&c->setup.join, plane % c->spec.n_pol);
}

/* msi_clean_factor_of - return the factor of local noise of a call, NULL without or if it is zero somewhere. */
static inline const void *msi_clean_factor_of(const msi_clean_call *call)
{
    return call->limits->local_rms && call->c->has_factor ? call->c->factor : NULL;
}

/* ---- Minor iterations (clean_minor.c) --------------------------------------------------------------------------- */

/* msi_clean_rounded - round a threshold to the engine's precision. */
double msi_clean_rounded(const msi_cleaner *c, double value);

/* msi_clean_padded - return the edge of a transform in which n pixels are convolved with a PSF of n + more pixels
 * without wrapping: a component's PSF reaches beyond the image by half its size. */
static inline int64_t msi_clean_padded(int64_t n, int64_t more)
{
    return msi_fft_size(n + n / 2 + more);
}

/*
 * msi_clean_allow_scale - make the mask of pixels in which a scale may be found: not within `border` pixels of an edge
 * nor in the specification's border, inside the masks, and where components were found before if the limits require it.
 * Returned: *allow  c->allow, or NULL if all pixels are allowed
 */
int msi_clean_allow_scale(msi_clean_call *call, int scale, int64_t border, const uint8_t **allow);

/* msi_clean_start - report the first peak, and set the report's threshold. Returns: 1 if there is nothing to do;
 * report.stop is then the reason */
int msi_clean_start(msi_clean_call *call, const msi_clean_peak *peak);

/*
 * msi_clean_iterate - iterate in chunks until the loop ends or the call's iterations are used up.
 * Given:    step  list_loop or exact_loop of the engine
 * Returned: *end, and report's figures; *n iterations done
 */
int msi_clean_iterate(msi_clean_call *call, msi_clean_loop *loop,
                      int (*step)(msi_clean_engine *, const msi_clean_loop *, msi_clean_looped *),
                      msi_clean_looped *done, int64_t *n);

/* msi_clean_finish - report the last peak, and the reason for the end of the call. */
void msi_clean_finish(msi_clean_call *call, msi_clean_end end, const msi_clean_peak *peak);

/* msi_clean_select_list - make the list of a quantity's brightest pixels, without values. Returned: *cut  the threshold
 * down to which the list reaches */
int msi_clean_select_list(msi_clean_call *call, const msi_clean_search *search, msi_clean_range range, double *cut);

/* msi_clean_make_list - the same, and load their values. Given: planes  whose values are listed */
int msi_clean_make_list(msi_clean_call *call, const msi_clean_search *search, const msi_clean_planes *planes,
                        msi_clean_range range, double *cut);

/* ---- Transforms of planes (clean_workers.c) --------------------------------------------------------------------- */

/* msi_clean_workers_create - make the workers of spec.devices. msi_clean_workers_free: also after a failure. */
int msi_clean_workers_create(msi_cleaner *c);
void msi_clean_workers_free(msi_cleaner *c);

/* msi_clean_worker_of - return the worker of a plane. */
static inline const msi_clean_worker *msi_clean_worker_of(const msi_cleaner *c, int plane)
{
    return &c->worker[plane % c->n_worker];
}

/*
 * msi_clean_share - work on n planes, those of each worker in their order, several workers at a time.
 * Returns: 0, the status of work that failed first
 */
int msi_clean_share(msi_cleaner *c, int n, int (*work)(void *of, msi_clean_worker *w, int plane), void *of);

/*
 * msi_clean_borrow - make a plane of the cleaner accessible to a worker. msi_clean_give_back - store it again.
 * Returned: *own  the plane itself, or the worker's copy, until it borrows another
 */
int msi_clean_borrow(const msi_cleaner *c, const msi_clean_worker *w, void *plane, void **own);
int msi_clean_give_back(const msi_cleaner *c, const msi_clean_worker *w, void *plane);

/* msi_clean_make_wide - make each worker's padded transform, and allocate the spectra of its PSFs.
 * msi_clean_free_wide: also after a failure. msi_clean_transform_psf - compute the spectra of a cell. */
int msi_clean_make_wide(msi_cleaner *c, int64_t nx, int64_t ny);
void msi_clean_free_wide(msi_cleaner *c);
int msi_clean_transform_psf(msi_cleaner *c, int cell);

/* msi_clean_subtract_list - subtract the list's components of a plane, convolved with the PSFs of their cells, from the
 * residual. Given: w  the plane's worker; scale  of the components; NULL: points */
int msi_clean_subtract_list(msi_clean_call *call, msi_clean_worker *w, int plane, const msi_clean_scale_spectra *scale);

/* ---- Channels and their parts (clean_spectrum.c) ----------------------------------------------------------------- */

/* These implement msi_cleaner_mean, msi_cleaner_combine, msi_cleaner_expand and msi_cleaner_terms on the engine's
 * planes; n_pol planes follow each other in a channel or part. */
int msi_clean_mean(msi_cleaner *c, const msi_clean_planes *part, const msi_clean_planes *channel, int n_pol);
int msi_clean_combine(msi_cleaner *c, const double *matrix, msi_clean_map map); /* map.matrix is set */
int msi_clean_expand(msi_cleaner *c, const msi_clean_planes *channel, const msi_clean_planes *part);
void msi_clean_terms(const msi_cleaner *c, const double *value, double *term);

/* msi_clean_fit_seen implements msi_cleaner_fit_seen. */
void msi_clean_fit_seen(const msi_cleaner *c, int n_pol, const double *response, const double *forced, double *value,
                        double *part, double *term);

/* msi_clean_upload_matrix - copy n numbers to the engine's memory in its precision, unless *to is there already. */
int msi_clean_upload_matrix(msi_cleaner *c, void **to, const double *from, int64_t n);

/* ---- Noise (clean_noise.c) -------------------------------------------------------------------------------------- */

/* These implement msi_cleaner_noise, msi_cleaner_sigmas and msi_cleaner_local_rms. */
int msi_clean_noise(msi_cleaner *c, const msi_clean_planes *residual, double *sigma);
double msi_clean_sigmas(const msi_cleaner *c, double n_sigma);
int msi_clean_local_noise(msi_cleaner *c, const msi_clean_planes *residual, const msi_clean_local_rms *options,
                          double *least);

/* ---- Specification (clean_spec.c) ------------------------------------------------------------------------------- */

/*
 * msi_clean_spec_set - check a specification, and fill in all members of a cleaner that depend only on it.
 * Given:    c  zero; in any case msi_clean_spec_release must free it
 * Returns:  0, MSI_EARGUMENT, MSI_ENOMEM
 */
int msi_clean_spec_set(msi_cleaner *c, const msi_cleaner_spec *spec);
void msi_clean_spec_release(msi_cleaner *c);

/* msi_clean_setup_of_plane - return the setup of an engine that works on one plane of a shape, without lists. */
msi_clean_setup msi_clean_setup_of_plane(const msi_planes_shape *shape, int n_thread);

/* msi_clean_method_find - find the row of the table of methods for a method and a backend (AUTO: the first one
 * available to this process); NULL if there is none. */
const msi_clean_method *msi_clean_method_find(const char *name, msi_backend backend);

/* ---- Spectra and channels' parts (clean_spectrum.c) ------------------------------------------------------------- */

/*
 * msi_clean_forced - make the matrix of a forced spectrum f: values are a f with a = sum w y / sum w f. A least-squares
 * fit would leave a peak in the weighted mean, which would be found again.
 * Returns:  0, MSI_EARGUMENT (the weighted mean of the spectrum is 0)
 */
int msi_clean_forced(int n, const double *weight, const double *spectrum, double *fit);

/*
 * msi_clean_fit_of_scale - make the polynomial fit for a scale to which channels have the responses a_k. m_k a_k is
 * fitted to the residuals R_k by least squares, and multiplied by the mean of a_k, by which gains are divided.
 * Given:    response [n_channel]
 * Returned: fit [n_channel][n_channel]; unchanged if a response is not positive
 * Returns:  0, MSI_EARGUMENT, MSI_ENOMEM
 */
int msi_clean_fit_of_scale(const msi_cleaner *c, const double *response, double *fit);

/*
 * msi_clean_parts_make - check c->spec's parts, or its channels if it has no parts, and copy them to c->parts.
 * Returns: 0, MSI_EARGUMENT, MSI_ENOMEM; in any case msi_clean_parts_free must free them
 */
int msi_clean_parts_make(msi_cleaner *c);
void msi_clean_parts_free(msi_clean_parts *p);

/* msi_clean_diagonalise - diagonalise a symmetric matrix m [n][n] by Jacobi's rotations. Returned: m has the
 * eigenvalues on its diagonal, and the columns of v [n][n] are the eigenvectors. */
void msi_clean_diagonalise(int n, long double *m, long double *v);

/* msi_clean_parts_fit - make the matrices of spec's polynomial, after shares have been computed. Returns: 0,
 * MSI_EARGUMENT, MSI_ENOMEM */
int msi_clean_parts_fit(msi_cleaner *c);

/* msi_clean_log_nodes - fill setup.log: the nodes within channels at which spectra are evaluated. */
void msi_clean_log_nodes(msi_cleaner *c);

/* msi_clean_parts_release - free the engine's memory of the parts. */
void msi_clean_parts_release(msi_cleaner *c);

/* ---- Beams, in pixels ------------------------------------------------------------------------------------------- */

/* msi_clean_beam_gaussian - compute the gaussian of a beam. East is towards lower x; the position angle is from north
 * (up) through east. */
static inline msi_clean_gaussian msi_clean_beam_gaussian(const msi_beam *b, double cell_x_rad, double cell_y_rad)
{
    const double sin_pa = sin(b->pa_rad), cos_pa = cos(b->pa_rad);
    const double along = 4 * log(2) / (b->major_rad * b->major_rad);
    const double across = 4 * log(2) / (b->minor_rad * b->minor_rad);
    return (msi_clean_gaussian){.xx = cell_x_rad * cell_x_rad * (along * sin_pa * sin_pa + across * cos_pa * cos_pa),
                                .xy = -cell_x_rad * cell_y_rad * sin_pa * cos_pa * (along - across),
                                .yy = cell_y_rad * cell_y_rad * (along * cos_pa * cos_pa + across * sin_pa * sin_pa)};
}

/* msi_clean_beam_padded - return the edge of a transform in which an image of n pixels is convolved with a beam. At
 * four widths along an axis it has fallen to e-44, below the rounding of doubles. */
static inline int64_t msi_clean_beam_padded(int64_t n, const msi_beam *b, double cell_rad)
{
    const double reach = ceil(4 * fmax(b->major_rad, b->minor_rad) / cell_rad);
    return msi_fft_size(n + (reach < (double)n ? (int64_t)reach : n));
}

/* msi_clean_beam_is_valid - return 1 if a beam and a pixel size are finite and positive. */
static inline int msi_clean_beam_is_valid(const msi_beam *b, double cell_x_rad, double cell_y_rad)
{
    return msi_beam_known(b) && isfinite(b->major_rad + b->minor_rad + b->pa_rad) && cell_x_rad > 0 && cell_y_rad > 0 &&
           isfinite(cell_x_rad + cell_y_rad);
}

#endif
