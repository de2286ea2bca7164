/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Loops are without conditions, and the number of correlations a constant in each, so that the compiler takes several
 * values at a time; more of them where the processor has AVX2. The sums do not depend on it: each has its own order.
 */
#include "src/convert/sum_rows.h"

#include <math.h>
#include <string.h>

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

/* Comparisons with what is not a number are false. */
INLINE int all_good(const msi_sum_row *row)
{
    const int64_t n = (int64_t)row->n_chan * row->n_corr;
    const msi_c32 *data = row->data;
    int is_bad = has_flag(row->flag, n);
    for (int64_t i = 0; i < n; i++) is_bad |= !(row->weight[i] > 0) | !(row->weight[i] < INFINITY);
    for (int64_t i = 0; i < n; i++)
        is_bad |= !(fabsf(data[i].re) < MSI_SUM_MOST_JY) | !(fabsf(data[i].im) < MSI_SUM_MOST_JY);
    return !is_bad;
}

INLINE void sum_channels(msi_sum_group *out, const msi_c32 *data, const float *weight, int32_t n, const int32_t n_corr)
{
    msi_sum_group sum = {{0}, {0}};
    for (int32_t c = 0; c < n; c++, data += n_corr, weight += n_corr)
        for (int32_t p = 0; p < n_corr; p++) {
            sum.value[2 * p] += (double)weight[p] * data[p].re;
            sum.value[2 * p + 1] += (double)weight[p] * data[p].im;
            sum.weight[p] += weight[p];
        }
    *out = sum;
}

INLINE void sum_any(msi_sum_group *sum, const msi_sum_row *row, int32_t first, int32_t n)
{
    const int64_t at = (int64_t)first * row->n_corr;
    switch (row->n_corr) {
    case 1:
        sum_channels(sum, row->data + at, row->weight + at, n, 1);
        break;
    case 2:
        sum_channels(sum, row->data + at, row->weight + at, n, 2);
        break;
    case 4:
        sum_channels(sum, row->data + at, row->weight + at, n, 4);
        break;
    default:
        sum_channels(sum, row->data + at, row->weight + at, n, row->n_corr);
        break;
    }
}

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static int all_good_avx2(const msi_sum_row *row)
{
    return all_good(row);
}

AVX2 static void sum_any_avx2(msi_sum_group *sum, const msi_sum_row *row, int32_t first, int32_t n)
{
    sum_any(sum, row, first, n);
}

int msi_sum_all_good(const msi_sum_row *row)
{
    return __builtin_cpu_supports("avx2") ? all_good_avx2(row) : all_good(row);
}

void msi_sum_channels(msi_sum_group *sum, const msi_sum_row *row, int32_t first, int32_t n)
{
    if (__builtin_cpu_supports("avx2"))
        sum_any_avx2(sum, row, first, n);
    else
        sum_any(sum, row, first, n);
}
#else
int msi_sum_all_good(const msi_sum_row *row)
{
    return all_good(row);
}

void msi_sum_channels(msi_sum_group *sum, const msi_sum_row *row, int32_t first, int32_t n)
{
    sum_any(sum, row, first, n);
}
#endif
