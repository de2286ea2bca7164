/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/stokes.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/image.h"
#include "core/status.h"

/* The two correlations of each Stokes parameter, with their factors: linear feeds first, then circular feeds. */
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

int msi_is_cross_hand(msi_pol pol)
{
    return pol == MSI_POL_XY || pol == MSI_POL_YX || pol == MSI_POL_RL || pol == MSI_POL_LR;
}

msi_pol msi_other_hand(msi_pol pol)
{
    if (pol == MSI_POL_XY) return MSI_POL_YX;
    if (pol == MSI_POL_YX) return MSI_POL_XY;
    if (pol == MSI_POL_RL) return MSI_POL_LR;
    return pol == MSI_POL_LR ? MSI_POL_RL : pol;
}

int msi_planes_of(const msi_pol *pol, int n_pol, int both, msi_plane planes[MSI_MAX_PLANES])
{
    int n = 0;
    for (int i = 0; i < n_pol; i++) {
        int other = -1;
        for (int k = 0; k < n_pol && both && msi_is_cross_hand(pol[i]); k++)
            if (pol[k] == msi_other_hand(pol[i])) other = k;
        if (other >= 0 && other < i) continue;
        for (int part = 0; part < (msi_is_cross_hand(pol[i]) ? 2 : 1); part++)
            if (n < MSI_MAX_PLANES) planes[n++] = (msi_plane){pol[i], part, other >= 0};
    }
    return n;
}

/* Return the index of a correlation; -1 if it is missing. */
static int find_corr(msi_pol wanted, const msi_pol *corr, int n_corr)
{
    for (int i = 0; i < n_corr; i++)
        if (corr[i] == wanted) return i;
    return -1;
}

/* Find the mix of one plane. Return 0 if correlations are missing. */
static int mix_one(msi_mix *mix, const msi_plane *plane, const msi_pol *corr, int n_corr)
{
    int at = find_corr(plane->pol, corr, n_corr);
    if (plane->both) {
        /* A and B are the images of the two hands. The real part of (A + conj B) / 2 is the real part of the image of
         * (V_A + V_B) / 2; its imaginary part is the real part of the image of -i (V_A - V_B) / 2. */
        const int other = find_corr(msi_other_hand(plane->pol), corr, n_corr);
        if (at < 0 || other < 0) return 0;
        *mix = (msi_mix){.n = 2, .corr = {at, other}, .factor = {{0.5, 0}, {0.5, 0}}};
        if (plane->imaginary) mix->factor[0] = (msi_c64){0, -0.5}, mix->factor[1] = (msi_c64){0, 0.5};
        return 1;
    }
    if (at >= 0) {
        /* The imaginary part of an image is the real part of the image of -i V. */
        *mix = (msi_mix){.n = 1, .corr = {at}, .factor = {{plane->imaginary ? 0 : 1, plane->imaginary ? -1 : 0}}};
        return 1;
    }
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++) {
        if (recipes[r].pol != plane->pol) continue;
        int a = find_corr(recipes[r].corr[0], corr, n_corr), b = find_corr(recipes[r].corr[1], corr, n_corr);
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
        return msi_error_set(MSI_EINPUT, "-pol %s cannot be computed from the set's correlations (%s)",
                             msi_pol_name(planes[p].pol), has);
    }
    return MSI_OK;
}

/* Return the larger of two numbers. Unlike fmax, which handles NaN, it compiles to one instruction. */
static inline double larger(double a, double b)
{
    return b > a ? b : a;
}

/* Return the larger of |real| and |imaginary| part of a value, times its weight. */
static inline double product(msi_c64 value, float weight)
{
    return larger((double)weight * fabs(value.re), (double)weight * fabs(value.im));
}

/* ---- Conversion ---- */

/* Number of samples that are converted together. Their intermediate values fit in the first-level cache. */
enum { STRETCH = 128 };

static const float LARGEST = 1e30f;

/* Samples of one correlation in a stretch. */
typedef struct one_corr {
    float part[2 * STRETCH]; /* real and imaginary parts in turn */
    float weight[STRETCH];
    int32_t is_good[STRETCH]; /* -1 if it is valid, else 0 */
} one_corr;

/* Input and output of a conversion. */
typedef struct conversion {
    const msi_ms_block *block;
    const msi_mix *mix; /* [n_plane] */
    int n_plane;
    msi_channel_range channels;
    msi_planes_out out;
    unsigned used; /* a bit for each correlation of the mixes */
} conversion;

/* Samples that are adjacent in the block and in each plane: their first indices, and their number (<= STRETCH). */
typedef struct stretch {
    int64_t from, to;
    int32_t n;
} stretch;

/* As msi_sample_tally, for one stretch. */
typedef struct counts {
    int64_t flagged, weight, not_finite, too_large;
    double largest; /* product of a visibility and its weight */
} counts;

/* These loops are compiled for two instruction sets. Neither fuses a product and a sum, so both give the same bits. */
#define IN_BOTH static inline __attribute__((always_inline))

/* Copy each used correlation of samples [n][n_corr] to a separate array. */
IN_BOTH void split(const msi_c32 *data, const float *weight, const uint8_t *flag, int n_corr, unsigned used, int32_t n,
                   one_corr *to)
{
    for (int k = 0; k < n_corr; k++) {
        if (!(used >> k & 1)) continue;
        one_corr *one = &to[k];
        for (int32_t c = 0; c < n; c++) memcpy(&one->part[2 * c], &data[c * n_corr + k], sizeof *data);
        for (int32_t c = 0; c < n; c++) one->weight[c] = weight[c * n_corr + k];
        for (int32_t c = 0; c < n; c++)
            one->is_good[c] = -((one->weight[c] > 0) & (one->weight[c] <= FLT_MAX) &
                                (fabsf(one->part[2 * c]) <= LARGEST) & (fabsf(one->part[2 * c + 1]) <= LARGEST));
        for (int32_t c = 0; c < n; c++) one->is_good[c] &= -(flag[c * n_corr + k] == 0);
    }
}

/* Return a value if the mask is -1, and 0 if the mask is 0. A branch would prevent the vectorisation of the loops. */
static inline float masked(float value, int32_t mask)
{
    int32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= mask;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static inline double masked_double(double value, int32_t mask)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= (int64_t)mask;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

/* Factors of a mix, which are all real or all imaginary, as factors of the real and imaginary parts. */
typedef struct factors {
    double a[2], b[2];
} factors;

/* Compute the visibilities of a plane. Given: other  1 if the factors are imaginary, so that each part is computed from
 * the other part */
IN_BOTH void mix_visibilities(const factors *f, int other, const one_corr *restrict a, const one_corr *restrict b,
                              const int32_t *restrict is_good, int32_t n, int is_single, void *vis)
{
    const double a0 = f->a[0], a1 = f->a[1], b0 = f->b[0], b1 = f->b[1];
    float *restrict single = vis;
    double *restrict exact = vis;
    for (int32_t c = 0; c < n; c++) {
        const double re = 0.0 + a0 * (double)a->part[2 * c + other] + b0 * (double)b->part[2 * c + other];
        const double im = 0.0 + a1 * (double)a->part[2 * c + 1 - other] + b1 * (double)b->part[2 * c + 1 - other];
        if (is_single) {
            single[2 * c] = masked((float)re, is_good[c]);
            single[2 * c + 1] = masked((float)im, is_good[c]);
        } else {
            exact[2 * c] = masked_double(re, is_good[c]);
            exact[2 * c + 1] = masked_double(im, is_good[c]);
        }
    }
}

/* Compute the samples of a plane. Samples that are left out become 0. If the mix has one correlation, the second term
 * is the same correlation with factor 0. Returns: the number of samples that are left out */
IN_BOTH int32_t mix_corr(const msi_mix *mix, const one_corr *corr, int32_t n, int is_single, void *vis,
                         float *restrict weight, double *largest)
{
    const one_corr *restrict a = &corr[mix->corr[0]], *restrict b = &corr[mix->corr[mix->n - 1]];
    const msi_c64 f = mix->factor[0], g = mix->n > 1 ? mix->factor[1] : (msi_c64){0, 0};
    int32_t is_good[STRETCH], n_good = 0;
    for (int32_t c = 0; c < n; c++) is_good[c] = a->is_good[c] & b->is_good[c];
    for (int32_t c = 0; c < n; c++) n_good -= is_good[c];
    if (mix->weight == MSI_STOKES_WEIGHT_MEAN)
        for (int32_t c = 0; c < n; c++)
            weight[c] = masked((float)(((double)a->weight[c] + (double)b->weight[c]) / 2), is_good[c]);
    else
        for (int32_t c = 0; c < n; c++)
            weight[c] = masked(b->weight[c] < a->weight[c] ? b->weight[c] : a->weight[c], is_good[c]);
    if (f.im != 0)
        mix_visibilities(&(factors){{-f.im, f.im}, {-g.im, g.im}}, 1, a, b, is_good, n, is_single, vis);
    else
        mix_visibilities(&(factors){{f.re, f.re}, {g.re, g.re}}, 0, a, b, is_good, n, is_single, vis);

    const float *single = vis;
    const double *exact = vis;
    double most = 0;
#pragma omp simd reduction(max : most)
    for (int32_t c = 0; c < n; c++) {
        const double re = is_single ? (double)fabsf(single[2 * c]) : fabs(exact[2 * c]),
                     im = is_single ? (double)fabsf(single[2 * c + 1]) : fabs(exact[2 * c + 1]),
                     part = (double)weight[c] * (im > re ? im : re);
        most = part > most ? part : most;
    }
    *largest = larger(*largest, most);
    return n - n_good;
}

/* Count a sample that is left out, by the first reason that applies. */
static void count_reason(const msi_mix *mix, const msi_c32 *data, const float *weight, const uint8_t *flag, counts *to)
{
    int flagged = 0, bad_weight = 0, bad_data = 0, large = 0;
    for (int k = 0; k < mix->n; k++) {
        const int c = mix->corr[k];
        const float re = data[c].re, im = data[c].im;
        flagged |= flag[c] != 0;
        bad_weight |= !(weight[c] > 0) || isinf(weight[c]);
        bad_data |= !isfinite(re) || !isfinite(im);
        large |= fabsf(re) > LARGEST || fabsf(im) > LARGEST;
    }
    int64_t *const reason = flagged ? &to->flagged : bad_weight ? &to->weight : bad_data ? &to->not_finite : NULL;
    if (reason)
        ++*reason;
    else
        to->too_large += large;
}

IN_BOTH void convert_of(const conversion *f, const stretch *s, int n_corr, int is_single, counts *count)
{
    one_corr corr[MSI_MAX_CORR];
    const msi_ms_block *b = f->block;
    const int64_t from = s->from * n_corr;
    split(b->data + from, b->weight + from, b->flag + from, n_corr, f->used, s->n, corr);
    for (int p = 0; p < f->n_plane; p++) {
        const int64_t to = p * f->out.plane_rows * f->channels.n + s->to;
        void *vis = is_single ? (void *)((msi_c32 *)f->out.vis + to) : (void *)((msi_c64 *)f->out.vis + to);
        const int32_t n_out = mix_corr(&f->mix[p], corr, s->n, is_single, vis, f->out.weight + to, &count->largest);
        if (!n_out || p > 0) continue;
        for (int32_t c = 0; c < s->n; c++) {
            const int64_t at = from + (int64_t)c * n_corr;
            /* A valid sample has a positive weight. */
            if (!(f->out.weight[to + c] > 0)) count_reason(f->mix, b->data + at, b->weight + at, b->flag + at, count);
        }
    }
}

/* Compile the loops for the usual numbers of correlations. */
IN_BOTH void convert_any(const conversion *f, const stretch *s, counts *count)
{
    const int n_corr = f->block->n_corr, is_single = f->out.precision == MSI_FP32;
    if (n_corr == 4 && is_single)
        convert_of(f, s, 4, 1, count);
    else if (n_corr == 2 && is_single)
        convert_of(f, s, 2, 1, count);
    else if (n_corr == 4)
        convert_of(f, s, 4, 0, count);
    else if (n_corr == 2)
        convert_of(f, s, 2, 0, count);
    else
        convert_of(f, s, n_corr, is_single, count);
}

typedef void converter(const conversion *f, const stretch *s, counts *count);

static void convert(const conversion *f, const stretch *s, counts *count)
{
    convert_any(f, s, count);
}

#if defined(__x86_64__) && !defined(MSI_STOKES_BASE)
__attribute__((target("avx2"))) static void convert_avx2(const conversion *f, const stretch *s, counts *count)
{
    convert_any(f, s, count);
}

static converter *best_converter(void)
{
    return __builtin_cpu_supports("avx2") ? convert_avx2 : convert;
}
#else
static converter *best_converter(void)
{
    return convert;
}
#endif

/* Return weight times visibility of a converted sample. */
static double product_at(const conversion *f, int64_t i)
{
    const msi_c32 *single = f->out.vis;
    const msi_c64 *exact = f->out.vis;
    if (f->out.precision == MSI_FP64) return product(exact[i], f->out.weight[i]);
    return product((msi_c64){(double)single[i].re, (double)single[i].im}, f->out.weight[i]);
}

/* Store the row of a block with the largest product in its planes. */
static void store_largest(msi_sample_tally *tally, double largest, const conversion *f)
{
    const msi_ms_block *b = f->block;
    if (!(largest > tally->largest_product)) return;
    tally->largest_product = largest;
    tally->largest_set = b->set;
    tally->largest_row = b->ms_row[b->n_row - 1];
    for (int p = 0; p < f->n_plane; p++)
        for (int64_t row = 0; row < b->n_row; row++)
            for (int64_t c = 0, at = (p * f->out.plane_rows + row) * f->channels.n; c < f->channels.n; c++, at++)
                if (!(product_at(f, at) < largest)) {
                    tally->largest_row = b->ms_row[row];
                    return;
                }
}

void msi_stokes_convert(const msi_ms_block *b, const msi_mix *mix, int n_plane, msi_channel_range channels,
                        msi_c64 *vis, float *weight, msi_sample_tally *tally)
{
    const msi_planes_out out = {MSI_FP64, vis, weight, b->n_row};
    msi_stokes_convert_into(b, mix, n_plane, channels, &out, tally);
}

void msi_stokes_convert_into(const msi_ms_block *b, const msi_mix *mix, int n_plane, msi_channel_range channels,
                             const msi_planes_out *out, msi_sample_tally *tally)
{
    conversion f = {b, mix, n_plane, channels, *out, 0};
    for (int p = 0; p < n_plane; p++)
        for (int k = 0; k < mix[p].n; k++) f.used |= 1u << mix[p].corr[k];
    converter *const run = best_converter();
    /* If all channels are converted, rows are adjacent. */
    const int is_whole = channels.n == b->n_chan;
    const int64_t n_line = is_whole ? 1 : b->n_row, n = is_whole ? b->n_row * b->n_chan : channels.n,
                  of_line = (n + STRETCH - 1) / STRETCH;
    int64_t flagged = 0, bad_weight = 0, not_finite = 0, too_large = 0;
    double largest = 0;
#pragma omp parallel for schedule(static) reduction(+ : flagged, bad_weight, not_finite, too_large) \
    reduction(max : largest)
    for (int64_t i = 0; i < n_line * of_line; i++) {
        const int64_t line = i / of_line, first = i % of_line * STRETCH, left = n - first;
        const stretch s = {line * b->n_chan + channels.first + first, line * channels.n + first,
                           (int32_t)(left < STRETCH ? left : STRETCH)};
        counts c = {0};
        run(&f, &s, &c);
        flagged += c.flagged;
        bad_weight += c.weight;
        not_finite += c.not_finite;
        too_large += c.too_large;
        largest = larger(largest, c.largest);
    }
    tally->flagged += flagged;
    tally->weight += bad_weight;
    tally->data_not_finite += not_finite;
    tally->data_too_large += too_large;
    store_largest(tally, largest, &f);
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
