/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/preprocess/stokes.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/pol.h"
#include "core/status.h"

/* A recipe gives a Stokes parameter's two correlations with their factors; linear feeds come first, then circular. */
static const struct recipe {
    msi_pol pol, corr[2];
    msi_c64 factor[2];
} recipes[] = {
    {MSI_POL_I, {MSI_POL_XX, MSI_POL_YY}, {{0.5, 0}, {0.5, 0}}},
    {MSI_POL_Q, {MSI_POL_XX, MSI_POL_YY}, {{0.5, 0}, {-0.5, 0}}},
    {MSI_POL_U, {MSI_POL_XY, MSI_POL_YX}, {{0.5, 0}, {0.5, 0}}},
    {MSI_POL_V, {MSI_POL_XY, MSI_POL_YX}, {{0, -0.5}, {0, 0.5}}},
    {MSI_POL_I, {MSI_POL_RR, MSI_POL_LL}, {{0.5, 0}, {0.5, 0}}},
    {MSI_POL_Q, {MSI_POL_RL, MSI_POL_LR}, {{0.5, 0}, {0.5, 0}}},
    {MSI_POL_U, {MSI_POL_RL, MSI_POL_LR}, {{0, -0.5}, {0, 0.5}}},
    {MSI_POL_V, {MSI_POL_RR, MSI_POL_LL}, {{0.5, 0}, {-0.5, 0}}},
};

static int is_cross_hand(msi_pol pol)
{
    return pol == MSI_POL_XY || pol == MSI_POL_YX || pol == MSI_POL_RL || pol == MSI_POL_LR;
}

int msi_planes_of(const msi_pol *pol, int n_pol, msi_plane planes[MSI_MAX_PLANES])
{
    int n = 0;
    for (int i = 0; i < n_pol; i++)
        for (int part = 0; part < (is_cross_hand(pol[i]) ? 2 : 1); part++)
            if (n < MSI_MAX_PLANES) planes[n++] = (msi_plane){pol[i], part};
    return n;
}

/* Return the index of a correlation, -1 where there is none. */
static int find(msi_pol wanted, const msi_pol *corr, int n_corr)
{
    for (int i = 0; i < n_corr; i++)
        if (corr[i] == wanted) return i;
    return -1;
}

/* Find the mix of one plane. Return 0 where the correlations do not give it. */
static int mix_one(msi_mix *mix, const msi_plane *plane, const msi_pol *corr, int n_corr)
{
    int at = find(plane->pol, corr, n_corr);
    if (at >= 0) {
        /* The imaginary part of an image is the real part of the image of -i V. */
        *mix = (msi_mix){.n = 1, .corr = {at}, .factor = {{plane->imaginary ? 0 : 1, plane->imaginary ? -1 : 0}}};
        return 1;
    }
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        if (recipes[r].pol != plane->pol) continue;
        int a = find(recipes[r].corr[0], corr, n_corr), b = find(recipes[r].corr[1], corr, n_corr);
        if (a >= 0 && b >= 0) {
            *mix = (msi_mix){.n = 2, .corr = {a, b}, .factor = {recipes[r].factor[0], recipes[r].factor[1]}};
            return 1;
        }
        if (plane->pol == MSI_POL_I && (a >= 0 || b >= 0)) {
            *mix = (msi_mix){.n = 1, .corr = {a >= 0 ? a : b}, .factor = {{1, 0}}};
            return 1;
        }
    }
    return 0;
}

int msi_mix_make(msi_mix *mix, const msi_plane *planes, int n_plane, msi_stokes_weight weight, const msi_pol *corr,
                 int n_corr)
{
    for (int p = 0; p < n_plane; p++) {
        if (mix_one(&mix[p], &planes[p], corr, n_corr)) {
            mix[p].weight = weight;
            continue;
        }
        char has[64] = "";
        for (int i = 0; i < n_corr; i++) {
            size_t length = strlen(has);
            snprintf(has + length, sizeof has - length, "%s%s", i ? " " : "", msi_pol_name(corr[i]));
        }
        return msi_error_set(MSI_EINPUT, "-pol %s cannot be formed from the set's correlations (%s)",
                             msi_pol_name(planes[p].pol), has);
    }
    return MSI_OK;
}

enum drop_reason { KEPT, FLAGGED, WEIGHT, NOT_FINITE, TOO_LARGE, N_REASON };

/* Form one plane's sample from its correlations [n_corr]. Return why it is dropped, with value and weight 0, or KEPT.
 */
static inline enum drop_reason mix_sample(const msi_mix *mix, const msi_c32 *data, const float *weight,
                                          const uint8_t *flag, msi_c64 *value, float *sample_weight)
{
    static const float LARGEST = 1e30f;
    msi_c64 sum = {0, 0};
    float smaller = INFINITY;
    double total = 0;
    int flagged = 0, bad_weight = 0, bad_data = 0, large = 0;
    for (int k = 0; k < mix->n; k++) {
        int c = mix->corr[k];
        float re = data[c].re, im = data[c].im;
        flagged |= flag[c] != 0;
        bad_weight |= !(weight[c] > 0) || isinf(weight[c]);
        bad_data |= !isfinite(re) || !isfinite(im);
        large |= fabsf(re) > LARGEST || fabsf(im) > LARGEST;
        smaller = weight[c] < smaller ? weight[c] : smaller;
        total += (double)weight[c];
        sum.re += mix->factor[k].re * (double)re - mix->factor[k].im * (double)im;
        sum.im += mix->factor[k].re * (double)im + mix->factor[k].im * (double)re;
    }
    if (flagged | bad_weight | bad_data | large) {
        *value = (msi_c64){0, 0};
        *sample_weight = 0;
        return flagged ? FLAGGED : bad_weight ? WEIGHT : bad_data ? NOT_FINITE : TOO_LARGE;
    }
    *value = sum;
    *sample_weight = mix->weight == MSI_STOKES_WEIGHT_MEAN ? (float)(total / mix->n) : smaller;
    return KEPT;
}

/* Return the larger of two numbers: an instruction, where fmax is a call because of NaN. */
static inline double larger(double a, double b)
{
    return b > a ? b : a;
}

/* Return the larger part of a value times its weight. */
static inline double product(msi_c64 value, float weight)
{
    return larger((double)weight * fabs(value.re), (double)weight * fabs(value.im));
}

/* Remember the row of a block that has the largest product of its planes [n_plane][n_row][n_chan]. */
static void remember_largest(msi_sample_tally *tally, double largest, const msi_ms_block *b, int64_t n_value,
                             int32_t n_chan, const msi_c64 *vis, const float *weight)
{
    if (!(largest > tally->largest_product)) return;
    int64_t i = 0;
    while (i < n_value - 1 && product(vis[i], weight[i]) < largest) i++;
    tally->largest_product = largest;
    tally->largest_set = b->set;
    tally->largest_row = b->ms_row[i / n_chan % b->n_row];
}

/* A row of a plane: what it is formed of, and where it goes. */
typedef struct plane_row {
    const msi_mix *mix;
    const msi_c32 *data; /* [n_chan][n_corr], as weights and flags */
    const float *weight;
    const uint8_t *flag;
    int32_t n_chan, n_corr;
    msi_c64 *vis; /* [n_chan] */
    float *sample_weight;
} plane_row;

/* Form a row as if no sample were left out, without a branch. Return 0 where one is, which mix_sample must tell then.
 * One correlation counts as itself and nothing of itself. */
static inline int mix_whole_row(const plane_row *r, double *largest)
{
    static const float LARGEST = 1e30f;
    const msi_mix *m = r->mix;
    const int a = m->corr[0], b = m->corr[m->n - 1], is_mean = m->weight == MSI_STOKES_WEIGHT_MEAN;
    const msi_c64 f = m->factor[0], g = m->n > 1 ? m->factor[1] : (msi_c64){0, 0};
    double most = 0;
    int is_whole = 1;
    for (int32_t c = 0; c < r->n_chan; c++) {
        const int64_t at = (int64_t)c * r->n_corr;
        const float re = r->data[at + a].re, im = r->data[at + a].im, wa = r->weight[at + a];
        const float re2 = r->data[at + b].re, im2 = r->data[at + b].im, wb = r->weight[at + b];
        is_whole &= !(r->flag[at + a] | r->flag[at + b]) & (wa > 0) & (wa <= FLT_MAX) & (wb > 0) & (wb <= FLT_MAX) &
                    (fabsf(re) <= LARGEST) & (fabsf(im) <= LARGEST) & (fabsf(re2) <= LARGEST) & (fabsf(im2) <= LARGEST);
        const float mean = (float)(((double)wa + (double)wb) / 2), least = wb < wa ? wb : wa;
        const float w = is_mean ? mean : least;
        const msi_c64 v = {0.0 + (f.re * (double)re - f.im * (double)im) + (g.re * (double)re2 - g.im * (double)im2),
                           0.0 + (f.re * (double)im + f.im * (double)re) + (g.re * (double)im2 + g.im * (double)re2)};
        r->vis[c] = v;
        r->sample_weight[c] = w;
        most = larger(most, larger((double)w * fabs(v.re), (double)w * fabs(v.im)));
    }
    if (is_whole) *largest = larger(*largest, most);
    return is_whole;
}

/* Form a row sample by sample, and count why they are left out. */
static void mix_row(const plane_row *r, double *largest, int64_t count[N_REASON])
{
    for (int32_t c = 0; c < r->n_chan; c++) {
        const int64_t at = (int64_t)c * r->n_corr;
        msi_c64 *vis = &r->vis[c];
        float *weight = &r->sample_weight[c];
        count[mix_sample(r->mix, r->data + at, r->weight + at, r->flag + at, vis, weight)]++;
        /* Compared with what they rarely exceed; which part is larger, no processor foresees. */
        *largest = larger(*largest, (double)*weight * fabs(vis->re));
        *largest = larger(*largest, (double)*weight * fabs(vis->im));
    }
}

void msi_stokes_form(const msi_ms_block *b, const msi_mix *mix, int n_plane, msi_channel_range channels, msi_c64 *vis,
                     float *weight, msi_sample_tally *tally)
{
    const int32_t n_chan = channels.n;
    int64_t flagged = 0, bad_weight = 0, not_finite = 0, too_large = 0;
    double largest = 0;
#pragma omp parallel for schedule(static) reduction(+ : flagged, bad_weight, not_finite, too_large) \
    reduction(max : largest)
    for (int64_t row = 0; row < b->n_row; row++) {
        const int64_t from = (row * b->n_chan + channels.first) * b->n_corr;
        int64_t first[N_REASON] = {0}, others[N_REASON] = {0};
        for (int p = 0; p < n_plane; p++) {
            const int64_t to = ((int64_t)p * b->n_row + row) * n_chan;
            const plane_row r = {&mix[p], b->data + from, b->weight + from, b->flag + from,
                                 n_chan,  b->n_corr,      vis + to,         weight + to};
            if (!mix_whole_row(&r, &largest)) mix_row(&r, &largest, p == 0 ? first : others);
        }
        flagged += first[FLAGGED];
        bad_weight += first[WEIGHT];
        not_finite += first[NOT_FINITE];
        too_large += first[TOO_LARGE];
    }
    tally->flagged += flagged;
    tally->weight += bad_weight;
    tally->data_not_finite += not_finite;
    tally->data_too_large += too_large;
    remember_largest(tally, largest, b, n_plane * b->n_row * n_chan, n_chan, vis, weight);
}

void msi_sample_tally_add(msi_sample_tally *to, const msi_sample_tally *from)
{
    to->flagged += from->flagged;
    to->weight += from->weight;
    to->data_not_finite += from->data_not_finite;
    to->data_too_large += from->data_too_large;
    if (!(from->largest_product > to->largest_product)) return;
    to->largest_product = from->largest_product;
    to->largest_set = from->largest_set;
    to->largest_row = from->largest_row;
}
