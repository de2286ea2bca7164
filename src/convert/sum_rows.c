/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Loops are without conditions, and the number of correlations a constant in each, so that the processor takes several
 * values at a time; more of them where it has AVX2. The sums do not depend on it: each has its own order, and products
 * are exact.
 */
#include "src/convert/sum_rows.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))

/* Ask whether any of n bytes is not 0. */
INLINE int has_flag(const uint8_t *flag, int64_t n)
{
    uint64_t any = 0, eight;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        memcpy(&eight, flag + i, sizeof eight);
        any |= eight;
    }
    for (; i < n; i++) any |= flag[i];
    return any != 0;
}

INLINE uint32_t bits_of(const float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    return bits;
}

INLINE uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Bits of positive floats are in the order of their values, below those of infinity, of what is not a number, and of
 * all negative floats; 0 less 1 is the largest number. */
INLINE int all_good(const msi_sum_row *row)
{
    static const float most = MSI_SUM_MOST_JY, infinite = INFINITY;
    const int64_t n = (int64_t)row->n_chan * row->n_corr;
    const float *value = (const float *)row->data;
    uint32_t weight = 0, magnitude = 0;
    for (int64_t i = 0; i < n; i++) weight = larger(weight, bits_of(row->weight + i) - 1);
    for (int64_t i = 0; i < 2 * n; i++) magnitude = larger(magnitude, bits_of(value + i) & INT32_MAX);
    return !has_flag(row->flag, n) && weight < bits_of(&infinite) - 1 && magnitude < bits_of(&most);
}

/* Comparisons with what is not a number are false. */
INLINE void keep_good(const msi_sum_row *row, msi_c32 *restrict data, float *restrict weight)
{
    const int64_t n = (int64_t)row->n_chan * row->n_corr;
    for (int64_t i = 0; i < n; i++) {
        const msi_c32 v = row->data[i];
        const float w = row->weight[i];
        const int is_good = (row->flag[i] == 0) & (w > 0) & (w < INFINITY) & (fabsf(v.re) < MSI_SUM_MOST_JY) &
                            (fabsf(v.im) < MSI_SUM_MOST_JY);
        data[i].re = is_good ? v.re : 0;
        data[i].im = is_good ? v.im : 0;
        weight[i] = is_good ? w : 0;
    }
}

/* ---- Sums ---- */

/* Add n channels; their weights also to all [n_corr]. */
INLINE void add_channels(const msi_c32 *data, const float *weight, int32_t n, const int32_t n_corr, const int begins,
                         double *value, double *weights, double *all)
{
    double sum[2 * MSI_MAX_CORR] = {0}, total[MSI_MAX_CORR] = {0};
    for (int32_t c = 0; c < n; c++, data += n_corr, weight += n_corr)
        for (int32_t p = 0; p < n_corr; p++) {
            sum[2 * p] += (double)weight[p] * data[p].re;
            sum[2 * p + 1] += (double)weight[p] * data[p].im;
            total[p] += weight[p];
        }
    for (int32_t p = 0; p < n_corr; p++) {
        value[2 * p] = (begins ? 0 : value[2 * p]) + sum[2 * p];
        value[2 * p + 1] = (begins ? 0 : value[2 * p + 1]) + sum[2 * p + 1];
        weights[p] = (begins ? 0 : weights[p]) + total[p];
        all[p] += total[p];
    }
}

INLINE double add_groups(const msi_sum_row *row, const msi_channel_groups *groups, const int32_t n_corr,
                         const int begins, double *value, double *weights)
{
    double all[MSI_MAX_CORR] = {0};
    for (int32_t g = 0; g < groups->n_group; g++, value += 2 * (int64_t)n_corr, weights += n_corr) {
        const int64_t at = (int64_t)groups->first[g] * n_corr;
        add_channels(row->data + at, row->weight + at, groups->first[g + 1] - groups->first[g], n_corr, begins, value,
                     weights, all);
    }
    return all[0] + all[1] + all[2] + all[3];
}

/* Add a row whose channels are not averaged: each is a group. Weights of a correlation add up in the order of channels.
 */
INLINE double add_alone(const msi_sum_row *row, const int32_t n_corr, const int begins, double *restrict value,
                        double *restrict weights)
{
    const int64_t n = (int64_t)row->n_chan * n_corr;
    const float *restrict weight = row->weight;
    double all[MSI_MAX_CORR] = {0};
    for (int64_t i = 0; i < n; i++) {
        const double w = weight[i];
        value[2 * i] = (begins ? 0 : value[2 * i]) + w * row->data[i].re;
        value[2 * i + 1] = (begins ? 0 : value[2 * i + 1]) + w * row->data[i].im;
        weights[i] = (begins ? 0 : weights[i]) + w;
    }
    for (int64_t i = 0; i < n; i += n_corr)
        for (int32_t p = 0; p < n_corr; p++) all[p] += weight[i + p];
    return all[0] + all[1] + all[2] + all[3];
}

INLINE double add_some(const msi_sum_row *row, const msi_channel_groups *groups, const int32_t n_corr, int begins,
                       double *value, double *weights)
{
    if (groups->n_group == row->n_chan)
        return begins ? add_alone(row, n_corr, 1, value, weights) : add_alone(row, n_corr, 0, value, weights);
    return begins ? add_groups(row, groups, n_corr, 1, value, weights)
                  : add_groups(row, groups, n_corr, 0, value, weights);
}

INLINE double add(const msi_sum_row *row, const msi_channel_groups *groups, int begins, double *value, double *weights)
{
    switch (row->n_corr) {
    case 1:
        return add_some(row, groups, 1, begins, value, weights);
    case 2:
        return add_some(row, groups, 2, begins, value, weights);
    case 4:
        return add_some(row, groups, 4, begins, value, weights);
    default:
        return add_some(row, groups, row->n_corr, begins, value, weights);
    }
}

INLINE void add_totals(int32_t n_group, const int32_t n_corr, const double *weight, double *total)
{
    double sum[MSI_MAX_CORR] = {0};
    for (int32_t g = 0; g < n_group; g++, weight += n_corr)
        for (int32_t p = 0; p < n_corr; p++) sum[p] += weight[p];
    for (int32_t p = 0; p < n_corr; p++) total[p] = sum[p];
}

INLINE void means(int64_t n, const double *value, const double *sum, msi_c32 *data, float *weight)
{
    for (int64_t i = 0; i < n; i++) {
        data[i] = (msi_c32){(float)(value[2 * i] / sum[i]), (float)(value[2 * i + 1] / sum[i])};
        weight[i] = (float)sum[i];
    }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static int all_good_avx2(const msi_sum_row *row)
{
    return all_good(row);
}

AVX2 static void keep_good_avx2(const msi_sum_row *row, msi_c32 *data, float *weight)
{
    keep_good(row, data, weight);
}

/* Add groups of four correlations. */
AVX2 INLINE double add_four(const msi_sum_row *row, const msi_channel_groups *groups, const int begins, double *value,
                            double *weights)
{
    __m256d total = _mm256_setzero_pd();
    for (int32_t g = 0; g < groups->n_group; g++, value += 8, weights += 4) {
        const float *weight = row->weight + 4 * (int64_t)groups->first[g];
        const float *end = row->weight + 4 * (int64_t)groups->first[g + 1];
        const float *data = (const float *)(row->data + 4 * (int64_t)groups->first[g]);
        __m256d low = _mm256_setzero_pd(), high = low, sum = low;
        for (; weight < end; weight += 4, data += 8) {
            const __m256d w = _mm256_cvtps_pd(_mm_loadu_ps(weight));
            const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(data)), b = _mm256_cvtps_pd(_mm_loadu_ps(data + 4));
            low = _mm256_fmadd_pd(_mm256_permute4x64_pd(w, 0x50), a, low);
            high = _mm256_fmadd_pd(_mm256_permute4x64_pd(w, 0xfa), b, high);
            sum = _mm256_add_pd(sum, w);
        }
        _mm256_storeu_pd(value, begins ? low : _mm256_add_pd(_mm256_loadu_pd(value), low));
        _mm256_storeu_pd(value + 4, begins ? high : _mm256_add_pd(_mm256_loadu_pd(value + 4), high));
        _mm256_storeu_pd(weights, begins ? sum : _mm256_add_pd(_mm256_loadu_pd(weights), sum));
        total = _mm256_add_pd(total, sum);
    }
    return total[0] + total[1] + total[2] + total[3];
}

/* Add a row whose channels are not averaged, four samples at a time: n_corr is 1, 2 or 4. */
AVX2 INLINE double add_alone_four(const msi_sum_row *row, const int32_t n_corr, const int begins, double *value,
                                  double *weights)
{
    const int64_t n = (int64_t)row->n_chan * n_corr;
    const float *weight = row->weight, *data = (const float *)row->data;
    const __m256d zero = _mm256_setzero_pd();
    __m256d total = zero;
    double all[MSI_MAX_CORR] = {0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        double *v = value + 2 * i, *s = weights + i;
        const __m256d w = _mm256_cvtps_pd(_mm_loadu_ps(weight + i));
        const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(data + 2 * i)),
                      b = _mm256_cvtps_pd(_mm_loadu_ps(data + 2 * i + 4));
        _mm256_storeu_pd(v, _mm256_fmadd_pd(_mm256_permute4x64_pd(w, 0x50), a, begins ? zero : _mm256_loadu_pd(v)));
        _mm256_storeu_pd(v + 4,
                         _mm256_fmadd_pd(_mm256_permute4x64_pd(w, 0xfa), b, begins ? zero : _mm256_loadu_pd(v + 4)));
        _mm256_storeu_pd(s, begins ? w : _mm256_add_pd(_mm256_loadu_pd(s), w));
        if (n_corr == 4)
            total = _mm256_add_pd(total, w);
        else
            for (int k = 0; k < 4; k++) all[k % n_corr] += w[k];
    }
    for (; i < n; i++) {
        const double w = weight[i];
        value[2 * i] = (begins ? 0 : value[2 * i]) + w * data[2 * i];
        value[2 * i + 1] = (begins ? 0 : value[2 * i + 1]) + w * data[2 * i + 1];
        weights[i] = (begins ? 0 : weights[i]) + w;
        all[i % n_corr] += w;
    }
    return n_corr == 4 ? total[0] + total[1] + total[2] + total[3] : all[0] + all[1] + all[2] + all[3];
}

AVX2 INLINE double add_alone_avx2(const msi_sum_row *row, const int begins, double *value, double *weights)
{
    switch (row->n_corr) {
    case 1:
        return add_alone_four(row, 1, begins, value, weights);
    case 2:
        return add_alone_four(row, 2, begins, value, weights);
    case 4:
        return add_alone_four(row, 4, begins, value, weights);
    default:
        return add_alone(row, row->n_corr, begins, value, weights);
    }
}

AVX2 static double add_avx2(const msi_sum_row *row, const msi_channel_groups *groups, int begins, double *value,
                            double *weights)
{
    if (groups->n_group == row->n_chan)
        return begins ? add_alone_avx2(row, 1, value, weights) : add_alone_avx2(row, 0, value, weights);
    if (row->n_corr == 4)
        return begins ? add_four(row, groups, 1, value, weights) : add_four(row, groups, 0, value, weights);
    return add(row, groups, begins, value, weights);
}

AVX2 static void means_avx2(int64_t n, const double *value, const double *sum, msi_c32 *data, float *weight)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const __m256d s = _mm256_loadu_pd(sum + i);
        const __m256d low = _mm256_div_pd(_mm256_loadu_pd(value + 2 * i), _mm256_permute4x64_pd(s, 0x50));
        const __m256d high = _mm256_div_pd(_mm256_loadu_pd(value + 2 * i + 4), _mm256_permute4x64_pd(s, 0xfa));
        _mm_storeu_ps((float *)(data + i), _mm256_cvtpd_ps(low));
        _mm_storeu_ps((float *)(data + i + 2), _mm256_cvtpd_ps(high));
        _mm_storeu_ps(weight + i, _mm256_cvtpd_ps(s));
    }
    means(n - i, value + 2 * i, sum + i, data + i, weight + i);
}

static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define all_good_avx2  all_good
#define keep_good_avx2 keep_good
#define add_avx2       add
#define means_avx2     means

static int has_avx2(void)
{
    return 0;
}
#endif

int msi_sum_all_good(const msi_sum_row *row)
{
    return has_avx2() ? all_good_avx2(row) : all_good(row);
}

void msi_sum_keep_good(const msi_sum_row *row, msi_c32 *data, float *weight)
{
    if (has_avx2())
        keep_good_avx2(row, data, weight);
    else
        keep_good(row, data, weight);
}

double msi_sum_add(const msi_sum_row *row, const msi_channel_groups *groups, int begins, double *value, double *weight)
{
    return has_avx2() ? add_avx2(row, groups, begins, value, weight) : add(row, groups, begins, value, weight);
}

void msi_sum_total(int32_t n_group, int32_t n_corr, const double *weight, double *total)
{
    switch (n_corr) {
    case 1:
        add_totals(n_group, 1, weight, total);
        break;
    case 2:
        add_totals(n_group, 2, weight, total);
        break;
    case 4:
        add_totals(n_group, 4, weight, total);
        break;
    default:
        add_totals(n_group, n_corr, weight, total);
        break;
    }
}

void msi_sum_means(int64_t n, const double *value, const double *sum, msi_c32 *data, float *weight)
{
    if (has_avx2())
        means_avx2(n, value, sum, data, weight);
    else
        means(n, value, sum, data, weight);
}
