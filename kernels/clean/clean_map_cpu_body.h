/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One precision of clean_map_cpu.c, which includes it with REAL, FMA and IN set. */

static int IN(log_map)(const msi_clean_engine *e, const msi_clean_map *m, int64_t i)
{
    const REAL *in = (const REAL *)m->in + i;
    REAL *out = (REAL *)m->out + i;
    double y[MSI_CLEAN_CHANNELS];
    msi_clean_log_state fit;
    for (int k = 0; k < m->n_in; k++) y[k] = (double)in[k * m->in_stride];
    const int sign = msi_clean_log_find(&e->s.log, y, &fit);
    if (!sign) return 0;
    for (int k = 0; k < m->n_out; k++)
        out[k * m->out_stride] = (REAL)(sign * msi_clean_log_at(fit.b, e->s.log.n_term, m->log_x[k]));
    return 1;
}

static void IN(map)(const msi_clean_engine *e, const msi_clean_map *m, int64_t i)
{
    const REAL *in = (const REAL *)m->in + i, *matrix = m->matrix;
    REAL *out = (REAL *)m->out + i;
    if (m->log_x && IN(log_map)(e, m, i)) return;
    for (int o = 0; o < m->n_out; o++) {
        REAL sum = 0;
        for (int k = 0; k < m->n_in; k++) {
            const REAL factor = matrix[o * m->n_in + k];
            if (factor != 0) sum = FMA(factor, in[k * m->in_stride], sum);
        }
        out[o * m->out_stride] = sum;
    }
}
