/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The functions of clean_simd.c for one precision. That file includes this one with REAL, SUFFIX, FMA and SQRT
 * defined. */

/*
 * Compute the joined quantities of n pixels. The inner loops are over pixels, so that they are vectorised. The sums of
 * a pixel have the same order as in msi_clean_quantity.
 * Given:    share  [rows][n_channel] weights
 *           r      values of the pixels in the first plane; those in the next plane are `stride` elements later
 * Returned: q      [n]
 */
ALWAYS_INLINE void NAME(join_pixels)(const msi_clean_join *j, const REAL *share, const REAL *r, int64_t stride, int n,
                                     REAL *restrict q)
{
    REAL sum[MSI_CLEAN_PIECE];
    const int is_signed = msi_clean_signed(j), n_row = j->n_row ? j->n_row : 1;
    for (int i = 0; i < n; i++) q[i] = 0;
    for (int k = 0; k < j->n_pol * n_row; k++) {
        const int p = k / n_row;
        const REAL *row = share + (int64_t)(k % n_row) * j->n_channel;
        if (!msi_clean_searched(j, p)) continue;
        for (int i = 0; i < n; i++) sum[i] = 0;
        for (int c = 0; c < j->n_channel; c++) {
            const REAL *restrict value = r + ((int64_t)c * j->n_pol + p) * stride, w = row[c];
            if (w == 0) continue;
            for (int i = 0; i < n && j->squared; i++) {
                const REAL weighted = w * value[i];
                q[i] = FMA(weighted, value[i], q[i]);
            }
            for (int i = 0; i < n && !j->squared; i++) sum[i] = FMA(w, value[i], sum[i]);
        }
        for (int i = 0; i < n && is_signed; i++) q[i] = sum[i];
        for (int i = 0; i < n && !is_signed && !j->squared; i++) q[i] = FMA(sum[i], sum[i], q[i]);
    }
    for (int i = 0; i < n && !is_signed; i++) q[i] = SQRT(q[i]);
}

/*
 * Replace *best by the best of n pixels, at most MSI_CLEAN_PIECE, if that is better.
 * Given: q       [n] quantities
 *        factor  [n] multiplies the quantities (local noise); NULL: 1
 *        allow   [n] 0: the pixel is not searched; NULL: all are searched
 *        at      position of the first pixel
 */
ALWAYS_INLINE void NAME(find_best)(const REAL *q, const REAL *factor, const uint8_t *allow, int no_negative, int n,
                                   int64_t at, msi_clean_best *best)
{
    REAL value[MSI_CLEAN_PIECE], key[MSI_CLEAN_PIECE], lane[MSI_CLEAN_LANES] = {0}, most = (REAL)best->key;
    for (int i = 0; i < n; i++) value[i] = q[i];
    for (int i = 0; i < n && factor; i++) value[i] *= factor[i];
    for (int i = 0; i < n; i++) key[i] = NAME(msi_clean_key)(value[i], no_negative);
    for (int i = 0; i < n && allow; i++) key[i] = allow[i] ? key[i] : 0;
    for (int i = n; i % MSI_CLEAN_LANES; i++) key[i] = 0;
    for (int i = 0; i < n; i += MSI_CLEAN_LANES)
        for (int k = 0; k < MSI_CLEAN_LANES; k++) lane[k] = key[i + k] > lane[k] ? key[i + k] : lane[k];
    for (int k = 1; k < MSI_CLEAN_LANES; k++) lane[0] = lane[k] > lane[0] ? lane[k] : lane[0];
    if (!(lane[0] > most)) return;
    for (int i = 0;; i++)
        if (key[i] == lane[0]) {
            *best = (msi_clean_best){key[i], value[i], at + i};
            return;
        }
}

/* Find the PSF's pixels for n pixels of the list and a component at s->place. Returned: at [n]  offset from the middle
 * pixel of the PSF, so that 32 bits suffice for the largest image; inside [n]  0 beyond the edges of the PSF, else 1 */
ALWAYS_INLINE void NAME(find_psf)(const msi_clean_list_step *s, const uint32_t *list, int n, int32_t *restrict at,
                                  int32_t *restrict inside)
{
    const int32_t nx = (int32_t)s->nx, ny = (int32_t)s->ny, left = nx / 2, low = ny / 2;
    const int32_t place_x = (int32_t)msi_clean_x(s->place), place_y = (int32_t)msi_clean_y(s->place);
    for (int i = 0; i < n; i++) {
        const int32_t x = (int32_t)msi_clean_x(list[i]) - place_x, y = (int32_t)msi_clean_y(list[i]) - place_y;
        inside[i] = (x >= -left) & (x < nx - left) & (y >= -low) & (y < ny - low);
        at[i] = inside[i] ? y * nx + x : 0;
    }
}

/* Subtract a component from n pixels of the list, in all planes of channel c. Given: p [n]  PSF at these pixels */
ALWAYS_INLINE void NAME(subtract_channel)(const msi_clean_list_step *s, int c, const REAL *p, int n, REAL *residual)
{
    const int n_pol = s->join->n_pol;
    for (int k = c * n_pol; k < (c + 1) * n_pol; k++) {
        REAL *restrict r = residual + k * s->list_stride;
        const REAL minus = -((const REAL *)s->component)[k];
        for (int i = 0; i < n; i++) r[i] = FMA(minus, p[i], r[i]);
    }
}

/* Subtract a component from n pixels of the list. If the PSF is interleaved, its values for MSI_CLEAN_SIDE channels at
 * a pixel are in one or two cache lines. */
ALWAYS_INLINE void NAME(subtract_piece)(const msi_clean_list_step *s, const uint32_t *list, int n, REAL *residual)
{
    const int n_channel = s->join->n_channel;
    const int64_t middle = s->ny / 2 * s->nx + s->nx / 2;
    int32_t at[MSI_CLEAN_PIECE], inside[MSI_CLEAN_PIECE];
    REAL p[MSI_CLEAN_SIDE][MSI_CLEAN_PIECE];
    NAME(find_psf)(s, list, n, at, inside);
    for (int first = 0; s->interleaved && first < n_channel; first += MSI_CLEAN_SIDE) {
        const int wide = n_channel - first < MSI_CLEAN_SIDE ? n_channel - first : MSI_CLEAN_SIDE;
        const REAL *from = (const REAL *)s->interleaved + middle * n_channel + first;
        for (int i = 0; i < n; i++)
            for (int k = 0; k < wide; k++) p[k][i] = from[(int64_t)at[i] * n_channel + k];
        for (int k = 0; k < wide; k++) {
            for (int i = 0; i < n; i++) p[k][i] = inside[i] ? p[k][i] : 0;
            NAME(subtract_channel)(s, first + k, p[k], n, residual);
        }
    }
    for (int c = 0; !s->interleaved && c < n_channel; c++) {
        const REAL *from = (const REAL *)s->psf + c * s->nx * s->ny + middle;
        for (int i = 0; i < n; i++) p[0][i] = from[at[i]];
        for (int i = 0; i < n; i++) p[0][i] = inside[i] ? p[0][i] : 0;
        NAME(subtract_channel)(s, c, p[0], n, residual);
    }
}

static void NAME(list)(const msi_clean_list_step *s, int64_t first, int64_t end, msi_clean_best *best)
{
    REAL q[MSI_CLEAN_PIECE];
    *best = (msi_clean_best){0, 0, first};
    for (int64_t i = first; i < end; i += MSI_CLEAN_PIECE) {
        const int n = end - i < MSI_CLEAN_PIECE ? (int)(end - i) : MSI_CLEAN_PIECE;
        REAL *residual = (REAL *)s->residual + i;
        if (s->component) NAME(subtract_piece)(s, s->list + i, n, residual);
        NAME(join_pixels)(s->join, s->share, residual, s->list_stride, n, q);
        NAME(find_best)(q, s->factor ? (const REAL *)s->factor + i : NULL, NULL, s->join->no_negative, n, i, best);
    }
}

static void NAME(subtract)(const msi_clean_row_step *s, int64_t n)
{
    const int n_channel = s->join->n_channel, n_pol = s->join->n_pol;
    const REAL *component = s->component;
    for (int c = 0; c < n_channel; c++)
        for (int k = c * n_pol; k < (c + 1) * n_pol; k++) {
            const REAL *restrict p = (const REAL *)s->psf + c * s->psf_stride;
            REAL *restrict r = (REAL *)s->residual + k * s->stride;
            const REAL minus = -component[k];
            for (int64_t i = 0; i < n; i++) r[i] = FMA(minus, p[i], r[i]);
        }
}

static void NAME(search)(const msi_clean_row_step *s, int64_t n_all, msi_clean_best *best)
{
    REAL q[MSI_CLEAN_PIECE];
    *best = (msi_clean_best){0, 0, 0};
    for (int64_t i = 0; i < n_all; i += MSI_CLEAN_PIECE) {
        const int n = n_all - i < MSI_CLEAN_PIECE ? (int)(n_all - i) : MSI_CLEAN_PIECE;
        NAME(join_pixels)(s->join, s->share, (const REAL *)s->residual + i, s->stride, n, q);
        NAME(find_best)
        (q, s->factor ? (const REAL *)s->factor + i : NULL, s->allow ? s->allow + i : NULL, s->join->no_negative, n, i,
         best);
    }
}

static void NAME(join)(const msi_clean_row_step *s, int64_t n_all, void *quantity)
{
    for (int64_t i = 0; i < n_all; i += MSI_CLEAN_PIECE) {
        const int n = n_all - i < MSI_CLEAN_PIECE ? (int)(n_all - i) : MSI_CLEAN_PIECE;
        REAL *restrict q = (REAL *)quantity + i;
        NAME(join_pixels)(s->join, s->share, (const REAL *)s->residual + i, s->stride, n, q);
        for (int k = 0; k < n && s->factor; k++) q[k] *= ((const REAL *)s->factor)[i + k];
    }
}

static void NAME(put)(const msi_clean_put_step *s, int64_t n)
{
    const REAL *restrict from = s->from, factor = (REAL)s->factor;
    REAL *restrict out = s->out;
    for (int64_t i = 0; i < n && s->add; i++) out[i] = FMA(factor, from[i], out[i]);
    for (int64_t i = 0; i < n && !s->add; i++) out[i] = factor * from[i];
}

static void NAME(weigh)(const msi_clean_weigh_step *s, int64_t n_all)
{
    REAL sum[MSI_CLEAN_PIECE];
    const REAL *weight = s->weight;
    for (int64_t i = 0; i < n_all; i += MSI_CLEAN_PIECE) {
        const int n = n_all - i < MSI_CLEAN_PIECE ? (int)(n_all - i) : MSI_CLEAN_PIECE;
        for (int k = 0; k < n; k++) sum[k] = 0;
        for (int64_t at = -s->before; at <= s->after; at++) {
            const REAL *restrict line = (const REAL *)s->line + i + at * s->step, w = weight[at < 0 ? -at : at];
            for (int k = 0; k < n; k++) sum[k] = FMA(w, line[k], sum[k]);
        }
        for (int k = 0; k < n; k++) ((REAL *)s->out)[i + k] = sum[k];
    }
}
