/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The passes of clean_engine_cpu.c for one precision. That file includes this one with REAL, FMA, FABS and IN
 * defined. */

static void IN(set_real)(const msi_clean_engine *e, void *array, int64_t i, double value)
{
    (void)e;
    ((REAL *)array)[i] = (REAL)value;
}

/* Set pixels that are not finite to 0. */
static void IN(finite)(const msi_clean_engine *e, void *image, int64_t n)
{
    REAL *v = image;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(v[i])) v[i] = 0;
}

/* Return 0 if all n values have keys below `key`, so that a search can skip them. A key is at most the absolute value
 * (clean_pixel.h). This loop is vectorised, and most pieces of an image are skipped. */
static int IN(any_key)(const REAL *q, int64_t n, REAL key)
{
    int any = 0;
    for (int64_t i = 0; i < n; i++) any |= FABS(q[i]) >= key;
    return any;
}

static msi_clean_best IN(peak)(const msi_clean_engine *e, const msi_clean_search *s, int64_t first, int64_t end)
{
    const REAL *q = s->quantity;
    msi_clean_best best = {0, 0, 0};
    REAL most = 0;
    for (int64_t from = first; from < end; from += PIECE) {
        const int64_t to = from + PIECE < end ? from + PIECE : end;
        if (!IN(any_key)(q + from, to - from, most)) continue;
        for (int64_t i = from; i < to; i++) {
            if (s->allow && !s->allow[i]) continue;
            const REAL key = IN(msi_clean_key)(q[i], e->s.join.no_negative);
            if (key > most) {
                most = key;
                best = (msi_clean_best){key, q[i], i};
            }
        }
    }
    return best;
}

/* Return the number of bins per unit of the key. */
static REAL IN(bins_per)(const msi_clean_range *range)
{
    const REAL wide = (REAL)range->peak - (REAL)range->threshold;
    return wide > 0 ? MSI_CLEAN_BINS / wide : 0;
}

/* Return the histogram bin of pixel i; -1 if it is masked, or its key is below the threshold. */
static inline int IN(bin_of)(const msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
                             REAL per, int64_t i)
{
    if (s->allow && !s->allow[i]) return -1;
    const REAL key = IN(msi_clean_key)(((const REAL *)s->quantity)[i], e->s.join.no_negative);
    return key > 0 && key >= (REAL)range->threshold ? IN(msi_clean_bin)(key, (REAL)range->threshold, per) : -1;
}

static void IN(bins)(const msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int64_t first,
                     int64_t end, int64_t *bins)
{
    const REAL per = IN(bins_per)(range);
    for (int64_t from = first; from < end; from += PIECE) {
        const int64_t to = from + PIECE < end ? from + PIECE : end;
        if (!IN(any_key)((const REAL *)s->quantity + from, to - from, (REAL)range->threshold)) continue;
        for (int64_t i = from; i < to; i++) {
            const int bin = IN(bin_of)(e, s, range, per, i);
            if (bin >= 0) bins[bin]++;
        }
    }
}

static void IN(select)(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin)
{
    const REAL per = IN(bins_per)(range);
    e->n_list = 0;
    for (int64_t from = 0; from < e->n_pixel; from += PIECE) {
        const int64_t to = from + PIECE < e->n_pixel ? from + PIECE : e->n_pixel;
        if (!IN(any_key)((const REAL *)s->quantity + from, to - from, (REAL)range->threshold)) continue;
        for (int64_t i = from; i < to && e->n_list < e->s.list_limit; i++)
            if (IN(bin_of)(e, s, range, per, i) >= first_bin)
                e->list[e->n_list++] = msi_clean_place((uint32_t)(i % e->s.nx), (uint32_t)(i / e->s.nx));
    }
}

static int64_t IN(pixel_of)(const msi_clean_engine *e, int64_t i)
{
    return msi_clean_y(e->list[i]) * e->s.nx + msi_clean_x(e->list[i]);
}

static void IN(load)(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor)
{
    e->has_factor = factor != NULL;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_list; i++) {
        const int64_t at = IN(pixel_of)(e, i);
        for (int k = 0; k < e->n_plane; k++) {
            ((REAL *)e->residual)[k * e->s.list_limit + i] = ((const REAL *)planes)[k * stride + at];
            ((REAL *)e->component)[k * e->s.list_limit + i] = 0;
        }
        if (factor) ((REAL *)e->factor)[i] = ((const REAL *)factor)[at];
    }
}

static void IN(deposit)(msi_clean_engine *e, int plane, void *image)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_list; i++)
        ((REAL *)image)[IN(pixel_of)(e, i)] += ((const REAL *)e->component)[plane * e->s.list_limit + i];
}

static void IN(mark)(msi_clean_engine *e, uint16_t *found, int bit)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_list; i++) {
        int any = 0;
        for (int k = 0; k < e->n_plane; k++) any |= ((const REAL *)e->component)[k * e->s.list_limit + i] != 0;
        if (any) found[IN(pixel_of)(e, i)] |= (uint16_t)(1 << bit);
    }
}

/* Compute the log-polynomial of pixel i in every plane. Returns 0 if there is no fit. */
static int IN(log_map)(const msi_clean_engine *e, const msi_clean_map *m, int64_t i)
{
    const REAL *in = (const REAL *)m->in + i;
    REAL *out = (REAL *)m->out + i;
    double y[MSI_CLEAN_LOG_CHANNELS];
    msi_clean_log_state fit;
    for (int k = 0; k < m->n_in; k++) y[k] = (double)in[k * m->in_stride];
    const int sign = msi_clean_log_find(&e->s.log, y, &fit);
    if (!sign) return 0;
    for (int k = 0; k < m->n_out; k++)
        out[k * m->out_stride] = (REAL)(sign * msi_clean_log_at(fit.b, e->s.log.n_term, m->log_x[k]));
    return 1;
}
