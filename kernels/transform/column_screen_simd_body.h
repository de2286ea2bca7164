/* SPDX-License-Identifier: GPL-3.0-or-later */
/* w-screens of columns in one precision. Included by column_simd.c with REAL, CPLX and SUFFIX set. */

/* Compute sine and cosine of 2 pi w (n - 1 - n_mid) at n rows of a column, at m = m_center + (first + i) step. */
ALWAYS_INLINE void NAME(screen_phases)(const msi_column_screen *c, double step, int64_t first, int n, REAL *sine,
                                       REAL *cosine)
{
    REAL turns[SCREEN_STRIP];
    for (int i = 0; i < n; i++) {
        double m = c->m_center + (double)(first + i) * step, r2 = c->l * c->l + m * m;
        double root = sqrt(r2 < 1 ? 1 - r2 : r2 - 1);
        double n_1 = r2 < 1 ? -r2 / (1 + root) : -1 - c->beyond * root;
        double t = c->w_lambda * (n_1 - c->n_mid);
        turns[i] = (REAL)(t - rint(t));
    }
    for (int i = 0; i < n; i++) NAME(sincos_turns)(turns[i], &sine[i], &cosine[i]);
}

/* Add a screened column to the image. Rows y and ny - y have the same n - 1 if the image is centred on the phase
 * centre: they share a sine and a cosine. */
static void NAME(screen_column)(const msi_screen_column *c)
{
    const CPLX *spectrum = c->spectrum;
    double *sum = c->sum;
    int64_t half = c->ny / 2;
    for (int64_t first = 0; first <= half; first += SCREEN_STRIP) {
        int n = (int)(half + 1 - first < SCREEN_STRIP ? half + 1 - first : SCREEN_STRIP);
        REAL sine[SCREEN_STRIP], cosine[SCREEN_STRIP];
        NAME(screen_phases)(&c->screen, c->screen.cell_y_rad, first, n, sine, cosine);
        /* y = ny/2 + i from spectrum[i]; y = ny/2 - i from spectrum[nv - i]. */
        for (int i = 0; i < n; i++) {
            int64_t j = first + i;
            if (j < c->ny - half) sum[half + j] += spectrum[j].re * cosine[i] + spectrum[j].im * sine[i];
        }
        if (c->screen.m_center != 0) NAME(screen_phases)(&c->screen, -c->screen.cell_y_rad, first, n, sine, cosine);
        for (int i = first ? 0 : 1; i < n; i++) {
            int64_t j = first + i;
            const CPLX *x = &spectrum[c->nv - j];
            sum[half - j] += x->re * cosine[i] + x->im * sine[i];
        }
    }
}

/* Do the transpose of screen_column. Rows y and ny - y share a sine and a cosine here too. */
static void NAME(spread_column)(const msi_spread_column *c)
{
    CPLX *out = c->out;
    const REAL *model = c->model;
    int64_t half = c->ny / 2;
    for (int64_t first = 0; first <= half; first += SCREEN_STRIP) {
        int n = (int)(half + 1 - first < SCREEN_STRIP ? half + 1 - first : SCREEN_STRIP);
        REAL sine[SCREEN_STRIP], cosine[SCREEN_STRIP];
        NAME(screen_phases)(&c->screen, -c->screen.cell_y_rad, first, n, sine, cosine);
        for (int i = first ? 0 : 1; i < n; i++) {
            REAL value = model[half - first - i];
            out[first + i] = (CPLX){value * cosine[i], value * sine[i]};
        }
        if (c->screen.m_center != 0) NAME(screen_phases)(&c->screen, c->screen.cell_y_rad, first, n, sine, cosine);
        for (int i = 0; i < n; i++) {
            int64_t j = first + i;
            if (j >= c->ny - half) break;
            REAL value = model[half + j];
            out[j ? c->nv - j : 0] = (CPLX){value * cosine[i], value * sine[i]};
        }
    }
    memset(out + half + 1, 0, sizeof *out * (size_t)(c->nv - c->ny));
}
