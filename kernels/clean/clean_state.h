/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A cleaner's state, and what its methods share. */
#ifndef MSI_CLEAN_STATE_H
#define MSI_CLEAN_STATE_H

#include <stddef.h>

#include "core/status.h"
#include "kernels/clean/clean_engine.h"
#include "kernels/clean/cleaner_spec.h"
#include "kernels/method/plan_choice.h"
#include "kernels/method/planes.h"

typedef struct msi_cleaner msi_cleaner;
typedef struct msi_clean_multiscale msi_clean_multiscale; /* what the method `multiscale` keeps */

/* Images that follow each other in the engine's memory. */
typedef struct msi_clean_planes {
    void *pixel;    /* planes [ny][nx] */
    int64_t stride; /* pixels from a plane to the next */
} msi_clean_planes;

/* One call of msi_cleaner_minor. */
typedef struct msi_clean_call {
    msi_cleaner *c;
    msi_clean_planes residual, model;
    const msi_clean_limits *limits;
    msi_clean_report *report;
    double peak_first; /* key */
    int scale;
    uint8_t *const *scale_mask; /* [n_scale], scale 0's is the mask itself; NULL: so is every scale's */
    int64_t n_component;        /* recorded */
} msi_clean_call;

/* The functions of a method. All return 0 or a code of core/status.h. */
struct msi_clean_method_ops {
    int (*prepare)(msi_cleaner *c);  /* memory beside what every cleaner has; NULL: none */
    void (*release)(msi_cleaner *c); /* of prepare, also after it failed; NULL: nothing */
    int (*psf)(msi_cleaner *c);      /* c->psf is new; NULL: nothing to do */
    int (*minor)(msi_clean_call *call);
    int64_t (*bytes)(const msi_cleaner *c); /* of engine's memory beside what every cleaner has */
    int64_t (*while_bytes)(const msi_cleaner *c); /* of the host, while a PSF is set; NULL: none */
    int uses_lists;
};
typedef struct msi_clean_method_ops msi_clean_method_ops;

extern const msi_clean_method_ops msi_clean_hogbom_ops, msi_clean_list_ops, msi_clean_multiscale_ops;

/* Channels are made of these parts. Without parts every channel is its own. */
typedef struct msi_clean_parts {
    int n;
    int *channel;             /* [n] */
    double *weight, *freq_hz; /* [n] */
    double *share;            /* [n] of its channel; they sum to 1 in each channel, also where it has no weight */
    double *term, *expand;    /* [n_term][n_channel], [n][n_channel]: of a polynomial's values, its terms in x =
                                      freq / mean - 1 and its values in the parts; or without a fit, n_term 1 */
    int n_term;
    double mean_hz;                            /* sum w freq / sum w */
    void *mean_matrix, *expand_matrix, *log_x; /* the engine's, made when they are first asked for */
} msi_clean_parts;

struct msi_cleaner {
    msi_cleaner_spec spec; /* complete: nothing is 0 for its default; lists point into this struct */
    double weight[MSI_CLEAN_CHANNELS], freq_hz[MSI_CLEAN_CHANNELS], spectrum[MSI_CLEAN_CHANNELS];
    double fit[MSI_CLEAN_CHANNELS * MSI_CLEAN_CHANNELS], scale[MSI_CLEAN_MAX_SCALE];
    msi_clean_setup setup;
    const msi_clean_method *row;
    const msi_clean_method_ops *method;
    const msi_clean_engine_ops *ops;
    msi_clean_engine *e;
    int n_plane;
    int64_t n_pixel, real_bytes, complex_bytes;
    void *psf; /* [n_channel] */
    int has_psf, has_mask, has_factor;
    uint8_t *mask, *allow;
    uint16_t *found;
    void *quantity, *factor; /* factor: made when it is first asked for */
    /* Lists need the padded transform, the spectra of the PSFs, and one to work in. */
    msi_clean_fft *wide;
    int64_t n_wide;
    void *psf_hat[MSI_CLEAN_CHANNELS], *work;
    msi_clean_multiscale *multiscale;
    msi_clean_parts parts;
};

/* msi_clean_plane - return plane k of planes in the engine's memory. */
static inline void *msi_clean_plane(const msi_cleaner *c, const msi_clean_planes *planes, int k)
{
    return (char *)planes->pixel + k * planes->stride * c->real_bytes;
}

/* msi_clean_plane_has_weight - tell whether the channel of a plane has weight. */
static inline int msi_clean_plane_has_weight(const msi_cleaner *c, int plane)
{
    return c->setup.share[plane / c->spec.n_pol] != 0;
}

/* msi_clean_plane_searched - tell whether the polarisation of a plane is searched. */
static inline int msi_clean_plane_searched(const msi_cleaner *c, int plane)
{
    return msi_clean_searched(&c->setup.join, plane % c->spec.n_pol);
}

/* msi_clean_factor_of - return the factor of local noise that a call is under, NULL without. */
static inline const void *msi_clean_factor_of(const msi_clean_call *call)
{
    return call->limits->local_rms ? call->c->factor : NULL;
}

/* msi_clean_rounded - return a threshold as the engine compares it. */
double msi_clean_rounded(const msi_cleaner *c, double value);

/* msi_clean_padded - return the edge of a transform in which n pixels are convolved with a PSF of as many: as far as a
 * component's PSF reaches beyond the image, which is half of it, it must not come in again on the other side. more: by
 * how much wider the PSF is. */
static inline int64_t msi_clean_padded(int64_t n, int64_t more)
{
    return msi_fft_size(n + n / 2 + more);
}

/* msi_clean_allow_scale - make what a scale may find: nothing within so many pixels of an edge, or in the
 * specification's border, the mask, and what was found if the limits say so. Returned: *allow, c->allow, or NULL where
 * all is allowed */
int msi_clean_allow_scale(msi_clean_call *call, int scale, int64_t border, const uint8_t **allow);

/* msi_clean_start - take the first peak: report it, and set the report's threshold. Returns: 1 where there is nothing
 * to do, and report.stop says why. */
int msi_clean_start(msi_clean_call *call, const msi_clean_peak *peak);

/*
 * msi_clean_run - iterate in chunks until the loop ends by itself or the call's iterations are used up.
 * Given:    step  list_loop or exact_loop of the engine
 * Returned: *end, and report's figures; *n iterations done
 */
int msi_clean_run(msi_clean_call *call, msi_clean_loop *loop,
                  int (*step)(msi_clean_engine *, const msi_clean_loop *, msi_clean_looped *), msi_clean_looped *done,
                  int64_t *n);

/* msi_clean_finish - report the last peak, and why a loop's end ends the call. */
void msi_clean_finish(msi_clean_call *call, msi_clean_end end, const msi_clean_peak *peak);

/*
 * msi_clean_list - make and load the list of a quantity's brightest pixels.
 * Given:   planes     whose values are listed
 *          threshold  of the quantity
 *          peak       its peak
 * Returned: *cut     the threshold down to which the list reaches
 */
int msi_clean_list(msi_clean_call *call, const msi_clean_search *search, const msi_clean_planes *planes,
                   msi_clean_range range, double *cut);

/* msi_clean_subtract_list - subtract the list's components of a plane, convolved with its PSF, from the residual. */
int msi_clean_subtract_list(msi_clean_call *call, int plane);

/* These do as msi_cleaner_mean, msi_cleaner_expand, msi_cleaner_terms, on the engine's planes; n_pol of them follow
 * each other in a channel or part. */
int msi_clean_mean(msi_cleaner *c, const msi_clean_planes *part, const msi_clean_planes *channel, int n_pol);
int msi_clean_expand(msi_cleaner *c, const msi_clean_planes *channel, const msi_clean_planes *part);
void msi_clean_terms(const msi_cleaner *c, const double *value, double *term);

/* These do what msi_cleaner_noise, msi_cleaner_sigmas and msi_cleaner_local_rms promise. */
int msi_clean_noise(msi_cleaner *c, const msi_clean_planes *residual, double *sigma);
double msi_clean_sigmas(const msi_cleaner *c, double n_sigma);
int msi_clean_local_noise(msi_cleaner *c, const msi_clean_planes *residual, const msi_clean_local_rms *options,
                          double *least);

#endif
