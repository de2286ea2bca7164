/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One precision of clean_simd.c, which includes it with REAL, SUFFIX and FMA set. */

static void NAME(list)(const msi_clean_list_step *s, int64_t first, int64_t end, msi_clean_best *best)
{
    const int n_channel = s->join->n_channel, n_pol = s->join->n_pol;
    const REAL *share = s->share, *factor = s->factor, *psf = s->psf, *component = s->component;
    REAL *residual = s->residual, most = 0;
    const int64_t to_x = s->nx / 2 - msi_clean_x(s->place), to_y = s->ny / 2 - msi_clean_y(s->place);
    *best = (msi_clean_best){0, 0, first};
    for (int64_t i = first; i < end; i++) {
        REAL *r = residual + i;
        const int64_t x = msi_clean_x(s->list[i]) + to_x, y = msi_clean_y(s->list[i]) + to_y;
        if (component && x >= 0 && x < s->nx && y >= 0 && y < s->ny)
            for (int c = 0; c < n_channel; c++) {
                const REAL p = psf[(c * s->ny + y) * s->nx + x];
                for (int k = c * n_pol; k < (c + 1) * n_pol; k++)
                    r[k * s->list_stride] = FMA(-component[k], p, r[k * s->list_stride]);
            }
        REAL q = NAME(msi_clean_quantity)(s->join, share, r, s->list_stride);
        if (factor) q *= factor[i];
        const REAL key = NAME(msi_clean_key)(q, s->join->no_negative);
        if (key > most) {
            most = key;
            *best = (msi_clean_best){key, q, i};
        }
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

static void NAME(search)(const msi_clean_row_step *s, int64_t n, msi_clean_best *best)
{
    const REAL *share = s->share, *factor = s->factor, *r = s->residual;
    REAL most = 0;
    *best = (msi_clean_best){0, 0, 0};
    for (int64_t i = 0; i < n; i++) {
        if (s->allow && !s->allow[i]) continue;
        REAL q = NAME(msi_clean_quantity)(s->join, share, r + i, s->stride);
        if (factor) q *= factor[i];
        const REAL key = NAME(msi_clean_key)(q, s->join->no_negative);
        if (key > most) {
            most = key;
            *best = (msi_clean_best){key, q, i};
        }
    }
}
