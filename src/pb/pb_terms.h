/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The primary beam of a pointing in a range of frequencies and times, as a sum of a few products:
 *
 *     response(direction; time, baseline, frequency) = sum over k of a_k(time, baseline, frequency) b_k(direction).
 *
 * The beams b_k are real images. A model image is multiplied by each b_k, and the visibilities of the products are
 * added with the factors a_k. The sum describes beams that rotate, scale with frequency, and differ between baselines.
 */
#ifndef MSI_PB_TERMS_H
#define MSI_PB_TERMS_H

#include <complex.h>

#include "core/image.h"
#include "src/pb/pb_array.h"
#include "src/sky/stokes.h"

enum { MSI_PB_MOST_TERMS = 48 };

/* Largest ratio of the highest to the lowest frequency of a band. Sources beyond the limit of the beam at the lowest
 * frequency are left out in the whole band. */
#define MSI_PB_WIDEST 1.1

/* The baselines, times and frequencies that the sum must describe. Pointers are borrowed while the terms are made; view
 * also afterwards. */
typedef struct msi_pb_domain {
    const msi_pb_view *view;     /* the pointing, relative to the image's centre */
    msi_image_geometry geometry; /* geometry of the model image */
    double low_s, high_s;        /* TIME of the rows, MJD seconds */
    int64_t n_freq;              /* channels */
    const double *freq_hz;       /* [n_freq] ascending */
    int n_in;                    /* planes of the model */
    msi_pol in[4];               /* [n_in] Stokes parameters, or parallel hands, which do not mix */
    int n_out;                   /* planes of the visibilities */
    msi_pol out[4];              /* [n_out] in the same way */
    double width_rad;            /* smallest half-power width */
    double accuracy;             /* largest error of the sum; the response at the pointing is about 1 */
} msi_pb_domain;

typedef struct msi_pb_terms {
    int n; /* terms */
    int n_in, n_out;
    msi_image_geometry geometry;
    const msi_pb_view *view;
    double limit_rad; /* the model's limit at the lowest frequency; the beam is 0 farther from the pointing */
    double valid_rad; /* the model's limit at the highest frequency */
    double error;     /* largest error found at directions, times and frequencies between those of the fit */
    /* Beams on nodes of a coarse grid: node (i, j) is at pixel (x0 + (i - 1) step, y0 + (j - 1) step). */
    int64_t step, x0, y0, n_x, n_y;
    double *node; /* [n_y][n_x][n][n_out][n_in] */
    /* Factors, linear between the times and between the frequencies. */
    int n_class;
    int n_time, n_freq;
    double *time_s, *freq_hz; /* [n_time], [n_freq] */
    double complex *factor;   /* [n_time][n_class][n_class][n_freq][n] */
} msi_pb_terms;

/*
 * msi_pb_terms_make - find the terms of a domain.
 * Returned: *out  freed by msi_pb_terms_free; empty on failure. n is 0 if the image is beyond the limit of the beam
 * Returns:  0, MSI_ENOMEM, MSI_ERANGE (the accuracy needs more than MSI_PB_MOST_TERMS)
 */
int msi_pb_terms_make(msi_pb_terms *out, const msi_pb_domain *domain);
void msi_pb_terms_free(msi_pb_terms *t); /* leaves it empty */

/*
 * msi_pb_terms_apply - multiply a model by the beams of some terms.
 * Given:    model    n_in planes from plane `of` on
 *           first, n_term  the terms
 * Returned: product  [n_term][n_out] planes from plane `to` on
 *           lost     sums of |pixel| of the first plane: [0] beyond valid_rad, [1] of all pixels; NULL: not needed
 * Returns:  0, MSI_ENOMEM
 */
int msi_pb_terms_apply(const msi_pb_terms *t, const msi_image *model, int of, int first, int n_term, msi_image *product,
                       int to, double lost[2]);

/*
 * msi_pb_terms_add - multiply the visibilities of some terms by their factors, and add them to those of the model.
 * Given:              n_row rows with time_s and pair as in msi_ms_block; freq_hz [n_chan]
 *                     of_terms  [n_term][n_out][n_row][n_chan] Jy
 * Given and returned: sum  [n_out][n_row][n_chan]
 */
typedef struct msi_pb_rows {
    int64_t n_row;
    int32_t n_chan;
    const double *time_s, *freq_hz;
    const uint8_t *pair;
} msi_pb_rows;
void msi_pb_terms_add(const msi_pb_terms *t, const msi_pb_rows *rows, int first, int n_term, const msi_c64 *of_terms,
                      msi_c64 *sum);

#endif
