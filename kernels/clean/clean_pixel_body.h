/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The functions of clean_pixel.h for one precision. That file includes this one with REAL, NAME, FMA, SQRT, FABS and
 * REAL_MAX defined. */

/* Return the size by which a quantity is searched: 0 if it is not finite, or of the wrong sign. */
MSI_CLEAN_FN REAL NAME(msi_clean_key)(REAL q, int no_negative)
{
    const REAL size = no_negative ? q : FABS(q);
    return size > 0 && size <= REAL_MAX ? size : 0;
}

/*
 * Compute the joined quantity of a pixel, without the factor of local noise.
 * Given: r  its value in the first plane, stride to the next plane's
 */
MSI_CLEAN_FN REAL NAME(msi_clean_quantity)(const msi_clean_join *j, const REAL *share, const REAL *r, int64_t stride)
{
    const int n_row = j->n_row ? j->n_row : 1;
    REAL squares = 0;
    for (int p = 0; p < j->n_pol; p++) {
        if (!msi_clean_searched(j, p)) continue;
        for (int row = 0; row < n_row; row++) {
            const REAL *factor = share + row * j->n_channel;
            REAL sum = 0;
            for (int c = 0; c < j->n_channel; c++) {
                if (factor[c] == 0) continue;
                const REAL value = r[((int64_t)c * j->n_pol + p) * stride];
                if (j->squared) {
                    const REAL weighted = factor[c] * value;
                    squares = FMA(weighted, value, squares);
                } else {
                    sum = FMA(factor[c], value, sum);
                }
            }
            if (msi_clean_signed(j)) return sum;
            if (!j->squared) squares = FMA(sum, sum, squares);
        }
    }
    return SQRT(squares);
}

/* Return the bin of a key at or above the threshold; per = bins over (peak - threshold). */
MSI_CLEAN_FN int NAME(msi_clean_bin)(REAL key, REAL threshold, REAL per)
{
    const REAL above = key - threshold;
    const REAL bin = above * per;
    return bin < MSI_CLEAN_BINS - 1 ? (int)bin : MSI_CLEAN_BINS - 1;
}

/*
 * Compute a component's value in channel c, polarisation p: the gain times the residual, or times its linear fit.
 * Given: fit  [n_channel][n_channel], NULL without
 *        r    as of msi_clean_quantity
 */
MSI_CLEAN_FN REAL NAME(msi_clean_value)(const msi_clean_join *j, const REAL *share, const REAL *fit, REAL gain,
                                        const REAL *r, int64_t stride, int c, int p)
{
    REAL sum = 0;
    if (share[c] == 0) return 0;
    if (!fit) return gain * r[((int64_t)c * j->n_pol + p) * stride];
    for (int k = 0; k < j->n_channel; k++)
        if (share[k] != 0) sum = FMA(fit[c * j->n_channel + k], r[((int64_t)k * j->n_pol + p) * stride], sum);
    return gain * sum;
}
