/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Averages rows, in these steps:
 *   1. Find the interval of the row's baseline. If the row belongs to another time bin, finish the interval first.
 *   2. Add the row's samples to the sums of the interval, for each group of channels.
 *   3. Write a finished interval as a row. A cell gets the weighted mean of its good samples; if it has none, the plain
 *      mean of all samples.
 */
#include "src/convert/average.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "io/casacore-c/casacore_c.h"
#include "io/convert/set_output.h"

/* ---- Smearing ---- */

/* Rotation rate of the Earth: 2 pi in a sidereal day. */
static const double EARTH_RAD_S = 7.292115e-5;

/* Return the loss of amplitude, 0 .. 1, by averaging over a phase that changes by `turns`: 1 - sin(pi x) / (pi x). At
 * one turn the amplitude is zero. For more turns the function returns 1. */
static double smearing_loss(double turns)
{
    const double x = MSI_PI * turns;
    if (turns >= 1) return 1;
    /* Below this, the next term of the series is less than a rounding error. */
    return fabs(x) < 1e-4 ? x * x / 6 : 1 - sin(x) / x;
}

/* Return the number of turns, at most 1, that causes this loss, 0 .. 1. */
static double smearing_turns(double loss)
{
    double low = 0, high = 1;
    if (loss >= 1) return 1;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        *(smearing_loss(middle) <= loss ? &low : &high) = middle;
    }
    return low;
}

/* Return the largest change of a source's phase on a baseline within time_s, due to the Earth's rotation, in turns.
 * Given: radius_rad  distance of the source from the phase centre */
static double smearing_time_turns(double baseline_m, double radius_rad, double time_s, double freq_hz)
{
    return EARTH_RAD_S * time_s * baseline_m * freq_hz / MSI_SPEED_OF_LIGHT * sin(radius_rad);
}

/* Return the largest change of a source's phase over the width of a channel, in turns. It occurs if the baseline points
 * towards the source. */
static double smearing_band_turns(double baseline_m, double radius_rad, double width_hz)
{
    return baseline_m * width_hz / MSI_SPEED_OF_LIGHT * sin(radius_rad);
}

enum { N_LENGTH = 4 }; /* number of baseline lengths in the report: the longest, half of it, a quarter .. */

/* Return the diameter of the smallest dish, which has the widest beam; 0 if no diameter is known. */
static double smallest_dish_m(const char *path)
{
    ccc_table *ms, *t;
    double least_m = 0, diameter_m;
    if (ccc_table_open(&ms, path, CCC_READ, CCC_LOCK_NONE) != CCC_OK) return 0;
    if (ccc_subtable_open(&t, ms, "ANTENNA") == CCC_OK) {
        for (int64_t i = 0; i < ccc_table_n_row(t); i++)
            if (ccc_get_range(t, "DISH_DIAMETER", i, 1, NULL, CCC_DOUBLE, &diameter_m, 1) == CCC_OK && diameter_m > 0 &&
                isfinite(diameter_m) && (least_m == 0 || diameter_m < least_m))
                least_m = diameter_m;
        ccc_table_close(t);
    }
    ccc_table_close(ms);
    return least_m;
}

/* The limits of the band and the width of the widest averaged channel, on which the loss depends. */
typedef struct band {
    double lowest_hz, highest_hz, widest_hz;
    int is_averaged;
} band;

static band find_band(const msi_ms_reader *r, const msi_channel_groups *groups)
{
    band b = {.lowest_hz = INFINITY};
    for (int i = 0; i < msi_ms_reader_n_spw(r); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r, i);
        b.lowest_hz = fmin(b.lowest_hz, spw->freq_hz[0]);
        b.highest_hz = fmax(b.highest_hz, spw->freq_hz[spw->n_chan - 1]);
        b.is_averaged |= groups[i].n_group < spw->n_chan;
        for (int32_t g = 0; g < groups[i].n_group; g++) {
            double width_hz = 0;
            for (int32_t c = groups[i].first[g]; c < groups[i].first[g + 1]; c++) width_hz += spw->width_hz[c];
            b.widest_hz = fmax(b.widest_hz, width_hz);
        }
    }
    return b;
}

/* Return the averaging time of a baseline, in seconds: the longest time with at most the allowed loss, limited to
 * longest_s. */
static double averaging_time_s(const msi_average_time *t, double baseline_m)
{
    if (!(t->loss > 0)) return t->longest_s;
    const double turns_1s = smearing_time_turns(baseline_m, t->radius_rad, 1, t->highest_hz);
    const double s = turns_1s > 0 ? smearing_turns(t->loss) / turns_1s : INFINITY;
    return t->longest_s > 0 ? fmin(s, t->longest_s) : s;
}

int msi_smearing_report(const msi_ms_reader *r, const msi_channel_groups *groups, const msi_convert_options *o,
                        msi_average_time *time)
{
    const band b = find_band(r, groups);
    const double longest_m = msi_ms_reader_observation(r)->longest_baseline_m;
    char angle[MSI_FORMAT_SIZE], duration[MSI_FORMAT_SIZE];
    double radius_rad = o->smearing_radius_rad;
    *time = (msi_average_time){.longest_s = o->average_time_s, .loss = o->smearing_loss, .highest_hz = b.highest_hz};
    if (!b.is_averaged && !(o->average_time_s > 0) && !(o->smearing_loss > 0)) return MSI_OK;
    if (!(radius_rad > 0)) {
        const double dish_m = smallest_dish_m(o->shared.ms_paths[0]);
        if (dish_m > 0) radius_rad = fmin(0.5 * MSI_SPEED_OF_LIGHT / b.lowest_hz / dish_m, 0.5 * MSI_PI);
    }
    if (!(radius_rad > 0) && o->smearing_loss > 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: the antennas have no diameter; give -smearing-radius, the distance from the phase "
                             "centre for which the loss holds",
                             o->shared.ms_paths[0]);
    time->radius_rad = radius_rad;
    if (!(radius_rad > 0) || !(longest_m > 0)) return MSI_OK;
    msi_log_info("amplitude lost by averaging, %s from the phase centre, at most:",
                 msi_format_angle(angle, radius_rad));
    double baseline_m = longest_m;
    for (int i = 0; i < N_LENGTH; i++, baseline_m /= 2) {
        const double s = averaging_time_s(time, baseline_m);
        const double by_time = smearing_loss(smearing_time_turns(baseline_m, radius_rad, s, b.highest_hz));
        const double by_band = smearing_loss(smearing_band_turns(baseline_m, radius_rad, b.widest_hz));
        char in_time[MSI_FORMAT_SIZE + 32] = "";
        if (s > 0)
            snprintf(in_time, sizeof in_time, "%6.3g %% by %s, ", 100 * by_time, msi_format_duration(duration, s));
        msi_log_info("  baselines of %8.6g m: %s%6.3g %% by channels of %.6g kHz", baseline_m, in_time, 100 * by_band,
                     1e-3 * b.widest_hz);
    }
    return MSI_OK;
}

/* ---- Sums over the groups of channels of a row ---- */

/*
 * The loops have no conditions and a constant number of correlations, so that the compiler vectorises them, with wider
 * vectors if the CPU has AVX2. The sums do not depend on the vector width, because the order of additions is fixed and
 * products are exact.
 */

/* A visibility of at least this magnitude is treated as not finite, as in imaging. */
#define MOST_JY 1e30F

/* The samples of a row, [n_chan][n_corr] each. A sample is good if it is not flagged, its weight is positive and
 * finite, and its value is finite. */
typedef struct sum_row {
    int32_t n_chan, n_corr;
    const msi_c32 *data;
    const float *weight;
    const uint8_t *flag;
} sum_row;

#if defined(__x86_64__)
#include <immintrin.h>

#endif

#define INLINE static inline __attribute__((always_inline))

/* Return 1 if any of n bytes is not 0. */
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

/* Return 1 if all samples are good. Floats are compared by their bits, as unsigned integers. Positive finite floats are
 * in the order of these integers, below infinity, NaN and all negative floats. After subtracting 1, the bits of 0 are
 * the largest integer, so a weight of 0 is found too. */
INLINE int all_good(const sum_row *row)
{
    static const float most = MOST_JY, infinite = INFINITY;
    const int64_t n = (int64_t)row->n_chan * row->n_corr;
    const float *value = (const float *)row->data;
    uint32_t weight = 0, magnitude = 0;
    for (int64_t i = 0; i < n; i++) weight = larger(weight, bits_of(row->weight + i) - 1);
    for (int64_t i = 0; i < 2 * n; i++) magnitude = larger(magnitude, bits_of(value + i) & INT32_MAX);
    return !has_flag(row->flag, n) && weight < bits_of(&infinite) - 1 && magnitude < bits_of(&most);
}

/* Copy samples, and set those that are not good to 0. Comparisons with NaN are false, so NaN is not good. */
INLINE void keep_good(const sum_row *row, msi_c32 *restrict data, float *restrict weight)
{
    const int64_t n = (int64_t)row->n_chan * row->n_corr;
    for (int64_t i = 0; i < n; i++) {
        const msi_c32 v = row->data[i];
        const float w = row->weight[i];
        const int is_good =
            (row->flag[i] == 0) & (w > 0) & (w < INFINITY) & (fabsf(v.re) < MOST_JY) & (fabsf(v.im) < MOST_JY);
        data[i].re = is_good ? v.re : 0;
        data[i].im = is_good ? v.im : 0;
        weight[i] = is_good ? w : 0;
    }
}

/* Add n channels to the sums of a group. Their weights are also added to all [n_corr]. If `begins` is 1, the sums of
 * the group start from 0. */
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

/* Add a row to the sums of all groups. Return the sum of all weights. */
INLINE double add_groups(const sum_row *row, const msi_channel_groups *groups, const int32_t n_corr, const int begins,
                         double *value, double *weights)
{
    double all[MSI_MAX_CORR] = {0};
    for (int32_t g = 0; g < groups->n_group; g++, value += 2 * (int64_t)n_corr, weights += n_corr) {
        const int64_t at = (int64_t)groups->first[g] * n_corr;
        add_channels(row->data + at, row->weight + at, groups->first[g + 1] - groups->first[g], n_corr, begins, value,
                     weights, all);
    }
    return all[0] + all[1] + all[2] + all[3];
}

/* Add a row whose channels are not averaged: each channel is a group. The weights of a correlation are summed in the
 * order of channels. Return the sum of all weights. */
INLINE double add_ungrouped(const sum_row *row, const int32_t n_corr, const int begins, double *restrict value,
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

/* Add a row. The calls have constant arguments, so that each of them is compiled as its own loop. */
INLINE double add_row_corr(const sum_row *row, const msi_channel_groups *groups, const int32_t n_corr, int begins,
                           double *value, double *weights)
{
    if (groups->n_group == row->n_chan)
        return begins ? add_ungrouped(row, n_corr, 1, value, weights) : add_ungrouped(row, n_corr, 0, value, weights);
    return begins ? add_groups(row, groups, n_corr, 1, value, weights)
                  : add_groups(row, groups, n_corr, 0, value, weights);
}

INLINE double add_row(const sum_row *row, const msi_channel_groups *groups, int begins, double *value, double *weights)
{
    switch (row->n_corr) {
    case 1:
        return add_row_corr(row, groups, 1, begins, value, weights);
    case 2:
        return add_row_corr(row, groups, 2, begins, value, weights);
    case 4:
        return add_row_corr(row, groups, 4, begins, value, weights);
    default:
        return add_row_corr(row, groups, row->n_corr, begins, value, weights);
    }
}

INLINE void add_totals(int32_t n_group, const int32_t n_corr, const double *weight, double *total)
{
    double sum[MSI_MAX_CORR] = {0};
    for (int32_t g = 0; g < n_group; g++, weight += n_corr)
        for (int32_t p = 0; p < n_corr; p++) sum[p] += weight[p];
    for (int32_t p = 0; p < n_corr; p++) total[p] = sum[p];
}

/* Divide n sums of values by their sums of weights. */
INLINE void means(int64_t n, const double *value, const double *sum, msi_c32 *data, float *weight)
{
    for (int64_t i = 0; i < n; i++) {
        data[i] = (msi_c32){(float)(value[2 * i] / sum[i]), (float)(value[2 * i + 1] / sum[i])};
        weight[i] = (float)sum[i];
    }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma")))

AVX2 static int all_good_avx2(const sum_row *row)
{
    return all_good(row);
}

AVX2 static void keep_good_avx2(const sum_row *row, msi_c32 *data, float *weight)
{
    keep_good(row, data, weight);
}

/* Add a row of four correlations to the sums of all groups. Return the sum of all weights. */
AVX2 INLINE double add_four(const sum_row *row, const msi_channel_groups *groups, const int begins, double *value,
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

/* Add a row whose channels are not averaged, four samples at a time. n_corr must be 1, 2 or 4. */
AVX2 INLINE double add_ungrouped_four(const sum_row *row, const int32_t n_corr, const int begins, double *value,
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

AVX2 INLINE double add_ungrouped_avx2(const sum_row *row, const int begins, double *value, double *weights)
{
    switch (row->n_corr) {
    case 1:
        return add_ungrouped_four(row, 1, begins, value, weights);
    case 2:
        return add_ungrouped_four(row, 2, begins, value, weights);
    case 4:
        return add_ungrouped_four(row, 4, begins, value, weights);
    default:
        return add_ungrouped(row, row->n_corr, begins, value, weights);
    }
}

AVX2 static double add_row_avx2(const sum_row *row, const msi_channel_groups *groups, int begins, double *value,
                                double *weights)
{
    if (groups->n_group == row->n_chan)
        return begins ? add_ungrouped_avx2(row, 1, value, weights) : add_ungrouped_avx2(row, 0, value, weights);
    if (row->n_corr == 4)
        return begins ? add_four(row, groups, 1, value, weights) : add_four(row, groups, 0, value, weights);
    return add_row(row, groups, begins, value, weights);
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
#define add_row_avx2   add_row
#define means_avx2     means

static int has_avx2(void)
{
    return 0;
}
#endif

/* Return 1 if every sample is good, else 0. */
static int sum_all_good(const sum_row *row)
{
    return has_avx2() ? all_good_avx2(row) : all_good(row);
}

/* Copy values and weights, with 0 for samples that are not good. Returned: data, weight  [n_chan][n_corr] */
static void sum_keep_good(const sum_row *row, msi_c32 *data, float *weight)
{
    if (has_avx2())
        keep_good_avx2(row, data, weight);
    else
        keep_good(row, data, weight);
}

/*
 * Add a row to sums over groups of channels, in double precision, in the order of channels.
 * Given:              row     samples that are not good have value and weight 0; flags are not read
 *                     begins  1: this is the first row, so the previous contents of the sums are ignored
 * Given and returned: value   [n_group][n_corr][2]  sums of weight x value, real and imaginary parts
 *                     weight  [n_group][n_corr]     sums of weights
 * Returns: the sum of all weights of the row
 * Notes:   the product of two floats is exact in double precision, so that the mean of a single sample is the sample.
 */
static double sum_add(const sum_row *row, const msi_channel_groups *groups, int begins, double *value, double *weight)
{
    return has_avx2() ? add_row_avx2(row, groups, begins, value, weight) : add_row(row, groups, begins, value, weight);
}

/* Sum weights [n_group][n_corr] in the order of groups. Returned: total  [n_corr] */
static void sum_total(int32_t n_group, int32_t n_corr, const double *weight, double *total)
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

/* Divide n sums of values by their sums of weights. Returned: data [n] means, weight [n] sums of weights */
static void sum_means(int64_t n, const double *value, const double *sum, msi_c32 *data, float *weight)
{
    if (has_avx2())
        means_avx2(n, value, sum, data, weight);
    else
        means(n, value, sum, data, weight);
}

/* ---- The average ---- */

/* The samples of a cell without a good sample. */
typedef struct bad_samples {
    int32_t n;    /* number of samples; 0: the cell has a good sample */
    uint8_t flag; /* flag of the mean */
} bad_samples;

/* The sums of the cells of an interval. A cell is a group of channels and a correlation. It has weighted sums of the
 * good samples or, if there is none, plain sums of all samples. Before the first row of an interval the contents are
 * undefined, except that bad[].n is 0. */
typedef struct sums {
    double *value;    /* [n_group][n_corr][2] real and imaginary part */
    double *weight;   /* [n_group][n_corr] */
    bad_samples *bad; /* [n_group][n_corr] */
} sums;

/* The current interval of a baseline. When it is finished, its memory is reused for the next one. */
typedef struct interval {
    msi_set_row first;     /* values of the first row, which has the key of the interval */
    double longest_s;      /* averaging time of the baseline */
    double newest_s;       /* latest TIME of the baseline so far */
    double begin_s, end_s; /* time span of the rows */
    double latest_s;       /* end of the time bin */
    double weight, good_exposure_s, exposure_s;
    double uvw_m[3], centroid_s;             /* weighted sums */
    double plain_uvw_m[3], plain_centroid_s; /* plain sums */
    int64_t n_row, n_bad;                    /* n_bad: number of cells without a good sample */
    int all_flag_row;
} interval;

struct msi_average {
    int32_t n_chan, n_corr, n_group;
    const msi_channel_groups *groups;
    msi_average_time time;
    double most_turns;           /* phase change, in turns, for which the loss is time.loss */
    double origin_s, previous_s; /* beginning of the first bin; latest TIME since then */
    double next_end_s;           /* earliest end among the current intervals */
    int64_t n_back;              /* number of rows that are earlier than a previous row of their baseline */
    int64_t n_interval, n_interval_allocated, last_found;
    interval *interval;
    double *sum;      /* [n_interval_allocated][3][n_group][n_corr]: values, weights */
    bad_samples *bad; /* [n_interval_allocated][n_group][n_corr] */
    double *row_sum;  /* [3][n_group][n_corr] of one row */
    msi_c32 *good;    /* [n_chan][n_corr] of one row */
    float *good_weight;
    int64_t *table; /* [n_table] hash table of interval numbers + 1; 0: empty */
    int64_t n_table;
    msi_set_output *to;
};

int msi_average_make(msi_average **out, msi_set_output *to, int32_t n_chan, int32_t n_corr,
                     const msi_channel_groups *groups, const msi_average_time *time)
{
    const int64_t n_sample = (int64_t)n_chan * n_corr;
    msi_average *a;
    *out = NULL;
    MSI_TRY(msi_alloc(&a, 1, sizeof *a, "an average"));
    *a = (msi_average){.n_chan = n_chan,
                       .n_corr = n_corr,
                       .n_group = groups->n_group,
                       .groups = groups,
                       .time = *time,
                       .most_turns = time->loss > 0 ? smearing_turns(time->loss) : 0,
                       .to = to,
                       .origin_s = NAN,
                       .previous_s = NAN,
                       .next_end_s = INFINITY};
    int status = msi_alloc(&a->row_sum, 3 * (int64_t)a->n_group * n_corr, sizeof *a->row_sum, "sums of a row");
    if (!status) status = msi_alloc(&a->good, n_sample, sizeof *a->good, "samples of a row");
    if (!status) status = msi_alloc(&a->good_weight, n_sample, sizeof *a->good_weight, "samples of a row");
    if (status)
        msi_average_free(a);
    else
        *out = a;
    return status;
}

static int64_t n_cell(const msi_average *a)
{
    return (int64_t)a->n_group * a->n_corr;
}

static sums sums_of(const msi_average *a, const interval *v)
{
    const int64_t n = n_cell(a), i = v - a->interval;
    return (sums){a->sum + 3 * i * n, a->sum + (3 * i + 2) * n, a->bad + i * n};
}

/* ---- Intervals ---- */

static int same_key(const msi_set_row *a, const msi_set_row *b)
{
    return a->antenna1 == b->antenna1 && a->antenna2 == b->antenna2 && a->feed1 == b->feed1 && a->feed2 == b->feed2 &&
           a->array == b->array && a->observation == b->observation && a->processor == b->processor &&
           a->scan == b->scan && a->state == b->state;
}

static uint64_t hash_key(const msi_set_row *r)
{
    const int32_t key[] = {r->antenna1, r->antenna2, r->feed1,     r->feed2,      r->array,
                           r->scan,     r->state,    r->processor, r->observation};
    uint64_t h = 14695981039346656037U;
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) h = (h ^ (uint32_t)key[i]) * 1099511628211U;
    return h ^ h >> 29;
}

static void enter_interval(msi_average *a, int64_t i)
{
    uint64_t at = hash_key(&a->interval[i].first) % (uint64_t)a->n_table;
    while (a->table[at]) at = (at + 1) % (uint64_t)a->n_table;
    a->table[at] = i + 1;
}

static int grow_intervals(msi_average *a)
{
    const int64_t more = a->n_interval_allocated ? 2 * a->n_interval_allocated : 256;
    const int64_t n_sum = n_cell(a), n = a->n_interval;
    MSI_TRY(msi_grow(&a->interval, n, more, sizeof *a->interval, "intervals of baselines"));
    MSI_TRY(msi_grow(&a->sum, 3 * n * n_sum, 3 * more * n_sum, sizeof *a->sum, "sums of visibilities"));
    MSI_TRY(msi_grow(&a->bad, n * n_sum, more * n_sum, sizeof *a->bad, "sums of visibilities"));
    a->n_interval_allocated = more;
    msi_free(a->table);
    a->table = NULL;
    a->n_table = 4 * more;
    MSI_TRY(msi_alloc(&a->table, a->n_table, sizeof *a->table, "intervals of baselines"));
    for (int64_t i = 0; i < a->n_interval; i++) enter_interval(a, i);
    return MSI_OK;
}

/* Return the averaging time of a row's baseline, in seconds: a whole number of integrations, or 0 if it is shorter than
 * one integration. If there is no limit, as for a baseline of length 0, it is an hour. */
static double longest_interval_s(const msi_average *a, const msi_set_row *r)
{
    const msi_average_time *t = &a->time;
    if (!(t->loss > 0)) return t->longest_s;
    const double baseline_m = sqrt(r->uvw_m[0] * r->uvw_m[0] + r->uvw_m[1] * r->uvw_m[1] + r->uvw_m[2] * r->uvw_m[2]);
    const double turns_1s = smearing_time_turns(baseline_m, t->radius_rad, 1, t->highest_hz);
    double longest_s = turns_1s > 0 ? a->most_turns / turns_1s : INFINITY;
    if (t->longest_s > 0 && longest_s > t->longest_s) longest_s = t->longest_s;
    /* The length of a baseline varies from row to row by rounding errors. */
    const double n = floor(longest_s / r->interval_s * (1 + 1e-9) + 1e-6);
    return isfinite(n) && n >= 1 ? n * r->interval_s : isfinite(longest_s) ? 0 : 3600;
}

/* Find or create the interval of a row's baseline. Baselines mostly repeat in the same order, so the next interval is
 * tried first. */
static int find_interval(msi_average *a, const msi_set_row *r, interval **out)
{
    a->last_found = a->last_found + 1 < a->n_interval ? a->last_found + 1 : 0;
    *out = &a->interval[a->last_found];
    if (a->n_interval && same_key(&(*out)->first, r)) return MSI_OK;
    for (uint64_t at = a->n_table ? hash_key(r) % (uint64_t)a->n_table : 0; a->n_table && a->table[at];
         at = (at + 1) % (uint64_t)a->n_table) {
        a->last_found = a->table[at] - 1;
        *out = &a->interval[a->last_found];
        if (same_key(&(*out)->first, r)) return MSI_OK;
    }
    if (a->n_interval == a->n_interval_allocated) MSI_TRY(grow_intervals(a));
    a->last_found = a->n_interval;
    *out = &a->interval[a->n_interval];
    memset(*out, 0, sizeof **out);
    (*out)->first = *r;
    (*out)->longest_s = longest_interval_s(a, r);
    (*out)->newest_s = -INFINITY;
    enter_interval(a, a->n_interval++);
    return MSI_OK;
}

/* ---- Finished rows ---- */

/* Set a row's times, exposure and UVW. The values of a single row are copied. */
static void finish_row(const interval *v, msi_set_row *r)
{
    *r = v->first;
    if (v->n_row == 1) return;
    const double n = (double)v->n_row;
    r->time_s = 0.5 * (v->begin_s + v->end_s);
    r->interval_s = v->end_s - v->begin_s;
    r->exposure_s = v->weight > 0 ? v->good_exposure_s : v->exposure_s;
    r->centroid_s = v->first.time_s + (v->weight > 0 ? v->centroid_s / v->weight : v->plain_centroid_s / n);
    for (int k = 0; k < 3; k++) r->uvw_m[k] = v->weight > 0 ? v->uvw_m[k] / v->weight : v->plain_uvw_m[k] / n;
    r->flag_row = v->all_flag_row != 0;
}

/* Set WEIGHT and SIGMA of an averaged row from the mean weight of its good groups of channels. */
static void finish_weights(const msi_average *a, const sums *sum, int64_t n_bad, msi_set_row *r)
{
    double total[MSI_MAX_CORR] = {0};
    int32_t n[MSI_MAX_CORR] = {0};
    if (!n_bad) {
        sum_total(a->n_group, a->n_corr, sum->weight, total);
        for (int32_t p = 0; p < a->n_corr; p++) n[p] = a->n_group;
    }
    for (int64_t g = 0; n_bad && g < a->n_group; g++)
        for (int32_t p = 0; p < a->n_corr; p++) {
            const int is_good = !sum->bad[g * a->n_corr + p].n;
            total[p] += is_good ? sum->weight[g * a->n_corr + p] : 0;
            n[p] += is_good;
        }
    for (int32_t p = 0; p < a->n_corr; p++) {
        r->weight[p] = (float)(n[p] ? total[p] / n[p] : 0);
        r->sigma[p] = (float)(n[p] ? 1 / sqrt(total[p] / n[p]) : 0);
    }
}

/* Write the averages of an interval. */
static void finish_samples(const msi_average *a, interval *v, const msi_set_space *space)
{
    const int64_t n = n_cell(a);
    const sums sum = sums_of(a, v);
    sum_means(n, sum.value, sum.weight, space->data, space->weight);
    memset(space->flag, 0, (size_t)n);
    for (int64_t i = 0; v->n_bad > 0; i++) {
        bad_samples *b = &sum.bad[i];
        if (!b->n) continue;
        space->data[i] = (msi_c32){(float)(sum.value[2 * i] / b->n), (float)(sum.value[2 * i + 1] / b->n)};
        space->flag[i] = b->flag;
        *b = (bad_samples){0};
        v->n_bad--;
    }
}

static int finish_interval(msi_average *a, interval *v)
{
    const sums sum = sums_of(a, v);
    if (!v->n_row) return MSI_OK;
    msi_set_space space;
    MSI_TRY(msi_set_output_next(a->to, a->n_group, a->n_corr, &space));
    finish_row(v, space.row);
    if (v->n_row > 1 || a->n_group < a->n_chan) finish_weights(a, &sum, v->n_bad, space.row);
    finish_samples(a, v, &space);
    v->n_row = 0;
    return MSI_OK;
}

/* ---- Adding rows ---- */

/* Return the smaller or the larger number; if one is NaN, return the other. The compiler inlines these, unlike fmin and
 * fmax. */
static inline double smaller_of(double a, double b)
{
    return b < a || isnan(a) ? b : a;
}

static inline double larger_of(double a, double b)
{
    return b > a || isnan(a) ? b : a;
}

/* Add samples of a row to a cell without a good sample. A single sample keeps its flag; the mean of several samples is
 * flagged. */
static void add_bad(const msi_average *a, const sums *sum, int64_t cell, const sum_row *row)
{
    const int32_t g = (int32_t)(cell / a->n_corr);
    const int64_t p = cell % a->n_corr;
    bad_samples *b = &sum->bad[cell];
    for (int64_t c = a->groups->first[g]; c < a->groups->first[g + 1]; c++) {
        const int64_t k = c * a->n_corr + p;
        sum->value[2 * cell] += row->data[k].re;
        sum->value[2 * cell + 1] += row->data[k].im;
        sum->weight[cell] += row->weight[k];
        b->flag = ++b->n > 1 || row->flag[k];
    }
}

/* Add the sums of a row's good samples to the cells. In cells without any good sample, add the row's other samples. */
static void add_cells(const msi_average *a, interval *v, const sum_row *row)
{
    const sums sum = sums_of(a, v);
    const double *value = a->row_sum, *weight = a->row_sum + 2 * n_cell(a);
    for (int64_t i = 0; i < n_cell(a); i++) {
        bad_samples *b = &sum.bad[i];
        if (weight[i] > 0) {
            if (b->n) {
                sum.value[2 * i] = sum.value[2 * i + 1] = sum.weight[i] = 0;
                *b = (bad_samples){0};
                v->n_bad--;
            }
            sum.value[2 * i] += value[2 * i];
            sum.value[2 * i + 1] += value[2 * i + 1];
            sum.weight[i] += weight[i];
        } else if (v->n_row == 0 || b->n) {
            v->n_bad += !b->n;
            add_bad(a, &sum, i, row);
        }
    }
}

/* Add the samples of a row to the sums of its interval. Return the sum of the weights of its good samples. */
static double add_samples(const msi_average *a, interval *v, const msi_set_rows *rows, int64_t i)
{
    const int64_t n_sample = (int64_t)a->n_chan * a->n_corr, n = n_cell(a);
    const sum_row row = {a->n_chan, a->n_corr, rows->data + i * n_sample, rows->weight + i * n_sample,
                         rows->flag + i * n_sample};
    const sum_row good = {a->n_chan, a->n_corr, a->good, a->good_weight, NULL};
    double total = 0;
    if (!rows->row[i].flag_row && !v->n_bad && sum_all_good(&row)) {
        const sums sum = sums_of(a, v);
        return sum_add(&row, a->groups, v->n_row == 0, sum.value, sum.weight);
    }
    if (v->n_row == 0) memset(sums_of(a, v).value, 0, 3 * (size_t)n * sizeof *a->sum);
    if (rows->row[i].flag_row) {
        memset(a->row_sum, 0, 3 * (size_t)n * sizeof *a->row_sum);
    } else {
        sum_keep_good(&row, a->good, a->good_weight);
        total = sum_add(&good, a->groups, 1, a->row_sum, a->row_sum + 2 * n);
    }
    add_cells(a, v, &row);
    return total;
}

static void add_to_interval(interval *v, const msi_set_row *r, double weight)
{
    const double begin_s = r->time_s - 0.5 * r->interval_s, end_s = r->time_s + 0.5 * r->interval_s;
    /* Sum differences of time, because a sum of times would lose digits. */
    const double centroid_s = r->centroid_s - v->first.time_s;
    v->begin_s = v->n_row ? smaller_of(v->begin_s, begin_s) : begin_s;
    v->end_s = v->n_row ? larger_of(v->end_s, end_s) : end_s;
    v->all_flag_row = (v->n_row == 0 || v->all_flag_row) && r->flag_row;
    v->weight += weight;
    v->exposure_s += r->exposure_s;
    if (weight > 0) v->good_exposure_s += r->exposure_s;
    v->centroid_s += weight * centroid_s;
    v->plain_centroid_s += centroid_s;
    for (int k = 0; k < 3; k++) {
        v->uvw_m[k] += weight * r->uvw_m[k];
        v->plain_uvw_m[k] += r->uvw_m[k];
    }
    v->n_row++;
}

static void begin_interval(interval *v, const msi_set_row *r)
{
    const double longest_s = v->longest_s, newest_s = v->newest_s;
    *v = (interval){.first = *r, .longest_s = longest_s, .newest_s = newest_s};
}

/* Set the beginning of the first bin: at the first row, and again after a gap or a step back in time. */
static void update_origin(msi_average *a, const msi_set_row *r)
{
    const double gap_s = larger_of(a->time.longest_s, 4 * r->interval_s);
    const int goes_on = r->time_s >= a->previous_s - 0.5 * r->interval_s && r->time_s - a->previous_s <= gap_s;
    if (!goes_on) a->origin_s = r->time_s - 0.5 * r->interval_s;
    a->previous_s = goes_on ? larger_of(a->previous_s, r->time_s) : r->time_s;
}

int msi_average_add(msi_average *a, const msi_set_rows *rows)
{
    for (int64_t i = 0; i < rows->n_row; i++) {
        const msi_set_row *r = &rows->row[i];
        interval *v;
        update_origin(a, r);
        MSI_TRY(find_interval(a, r, &v));
        /* Allow a thousandth of an integration for times that are rounded. */
        const double since_s = r->time_s - a->origin_s + 1e-3 * r->interval_s;
        const double bin = v->longest_s > 0 ? floor(since_s / v->longest_s) : 0;
        const double bin_end_s = a->origin_s + (bin + 1) * v->longest_s;
        if (v->n_row && (!(v->longest_s > 0) || v->latest_s != bin_end_s)) MSI_TRY(finish_interval(a, v));
        if (!v->n_row) begin_interval(v, r);
        v->latest_s = bin_end_s;
        if (!(bin_end_s >= a->next_end_s)) a->next_end_s = isnan(bin_end_s) ? -INFINITY : bin_end_s;
        a->n_back += r->time_s < v->newest_s;
        v->newest_s = larger_of(v->newest_s, r->time_s);
        add_to_interval(v, r, add_samples(a, v, rows, i));
    }
    return MSI_OK;
}

/* Drop baselines without a current interval if they are more than half of all. Each scan has new ones, because the scan
 * is part of the key. */
static void drop_finished(msi_average *a)
{
    const int64_t n_sum = n_cell(a);
    int64_t kept = 0, n_live = 0;
    for (int64_t i = 0; i < a->n_interval; i++) n_live += a->interval[i].n_row > 0;
    if (2 * n_live >= a->n_interval) return;
    memset(a->table, 0, (size_t)a->n_table * sizeof *a->table);
    for (int64_t i = 0; i < a->n_interval; i++) {
        if (!a->interval[i].n_row) continue;
        if (kept < i) {
            a->interval[kept] = a->interval[i];
            memcpy(a->sum + 3 * kept * n_sum, a->sum + 3 * i * n_sum, 3 * (size_t)n_sum * sizeof *a->sum);
            memcpy(a->bad + kept * n_sum, a->bad + i * n_sum, (size_t)n_sum * sizeof *a->bad);
            memset(a->bad + i * n_sum, 0, (size_t)n_sum * sizeof *a->bad);
        }
        enter_interval(a, kept++);
    }
    a->n_interval = kept;
}

int msi_average_flush(msi_average *a, int all)
{
    if (!all && a->next_end_s > a->previous_s) return MSI_OK;
    a->next_end_s = INFINITY;
    for (int64_t i = 0; i < a->n_interval; i++) {
        const interval *v = &a->interval[i];
        const int is_over = !(v->latest_s > a->previous_s);
        if (all || is_over)
            MSI_TRY(finish_interval(a, &a->interval[i]));
        else if (v->n_row && v->latest_s < a->next_end_s)
            a->next_end_s = v->latest_s;
    }
    drop_finished(a);
    return MSI_OK;
}

int64_t msi_average_n_back(const msi_average *a)
{
    return a->n_back;
}

int64_t msi_average_bytes(const msi_average *a)
{
    const int64_t n_sample = n_cell(a);
    return a->n_interval_allocated *
           (int64_t)(sizeof *a->interval + (size_t)n_sample * (3 * sizeof *a->sum + sizeof *a->bad));
}

void msi_average_free(msi_average *a)
{
    if (!a) return;
    msi_free(a->interval);
    msi_free(a->sum);
    msi_free(a->bad);
    msi_free(a->row_sum);
    msi_free(a->good);
    msi_free(a->good_weight);
    msi_free(a->table);
    msi_free(a);
}
