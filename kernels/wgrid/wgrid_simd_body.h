/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The CPU's inner loops of gridding, degridding and w-towers in one precision. Included by wgrid_simd.c with REAL,
 * CPLX, TAPS and SUFFIX set.
 *
 * A sample's footprint is width x width x w_width cells. The row of its u taps times the visibility is one vector of
 * interleaved complex numbers (two or more for wide windows or short vectors). Each row of the footprint adds that
 * vector times one real weight: one load, one multiply-add, one store.
 */

enum { VL = MSI_VECTOR_BYTES / sizeof(REAL) };

typedef REAL VEC __attribute__((vector_size(MSI_VECTOR_BYTES)));
typedef REAL VEC_U __attribute__((vector_size(MSI_VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

ALWAYS_INLINE void NAME(tap_values)(const int n, const int n_coef, const REAL *coef, int pitch, REAL z, VEC *out)
{
    for (int i = 0; i < n; i++) {
        VEC p = *(const VEC_U *)(coef + i * VL);
        for (int k = 1; k < n_coef; k++) p = p * z + *(const VEC_U *)(coef + k * pitch + i * VL);
        out[i] = p;
    }
}

/* Compute the weighted value of a sample with the phase of n_mid, weight V exp(-2 pi i w n_mid), for w >= 0. */
ALWAYS_INLINE CPLX NAME(sample_value)(const msi_span *s, const msi_vis_segment *segment, int64_t row, int32_t chan,
                                      int conjugate, double w_lambda)
{
    REAL weight = (REAL)segment->weight[msi_segment_index(segment, s->weight_plane, row, chan)];
    CPLX v = {weight, 0};
    if (s->image_plane >= 0) {
        const int64_t at = msi_segment_index(segment, s->image_plane, row, chan);
        v.re = weight * ((const CPLX *)segment->vis)[at].re;
        v.im = weight * ((const CPLX *)segment->vis)[at].im;
        if (conjugate) v.im = -v.im;
    }
    REAL sine, cosine;
    NAME(sincos_turns)(NAME(fraction)(w_lambda * s->geometry->n_mid), &sine, &cosine);
    CPLX turned = {v.re * cosine + v.im * sine, v.im * cosine - v.re * sine};
    return turned;
}

ALWAYS_INLINE void NAME(prefetch_run)(const msi_span *s, const msi_run *run)
{
    const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
    int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
    __builtin_prefetch(segment->uvw_m + 3 * row);
    __builtin_prefetch(segment->weight + msi_segment_index(segment, s->weight_plane, row, run->chan));
    if (s->image_plane >= 0)
        __builtin_prefetch((const CPLX *)segment->vis + msi_segment_index(segment, s->image_plane, row, run->chan));
}

/* width and has_w are compile-time constants in every call, so that the tap loops unroll. */
ALWAYS_INLINE void NAME(grid_width)(const int width, const int has_w, const msi_span *s, const msi_grid_target *t)
{
    enum { MAX_VEC = 2 * MSI_TAP_PAD / VL };
    const int n_coef = msi_pswf_n_coef(width);
    const int n_u = (2 * width + VL - 1) / VL, n_v = (width + VL - 1) / VL;
    const TAPS *taps = s->taps;
    for (int64_t i = 0; i < s->n_run; i++) {
        if (i + 6 < s->n_run) NAME(prefetch_run)(s, &s->run[i + 6]);
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        const double *uvw = segment->uvw_m + 3 * row;
        for (int32_t c = run->chan; c < run->chan + run->n_chan; c++) {
            msi_footprint f;
            double w_lambda;
            int conjugate = msi_locate(s->geometry, uvw, segment->freq_hz[c], &f, &w_lambda);
            CPLX value = NAME(sample_value)(s, segment, row, c, conjugate, w_lambda);

            VEC u[MAX_VEC], v[MAX_VEC], w[MAX_VEC];
            REAL pair[VL];
            for (int k = 0; k < VL; k++) pair[k] = k % 2 ? value.im : value.re;
            VEC values = *(const VEC_U *)pair;
            NAME(tap_values)(n_u, n_coef, taps->u[0], 2 * MSI_TAP_PAD, (REAL)f.zu, u);
            NAME(tap_values)(n_v, n_coef, taps->v[0], MSI_TAP_PAD, (REAL)f.zv, v);
            if (has_w) NAME(tap_values)(n_v, n_coef, taps->w[0], MSI_TAP_PAD, (REAL)f.zw, w);
            for (int k = 0; k < n_u; k++) u[k] *= values;
            const REAL *v_weight = (const REAL *)v, *w_weight = (const REAL *)w;

            int64_t origin = (f.v0 - t->v_origin) * t->stride + (f.u0 - t->u_origin);
            for (int p = has_w ? t->first_tap : 0; p < (has_w ? t->end_tap : 1); p++) {
                REAL *cell = (REAL *)((CPLX *)t->plane[p] + origin);
                VEC part[MAX_VEC];
                for (int k = 0; k < n_u; k++) part[k] = has_w ? u[k] * w_weight[p] : u[k];
                for (int j = 0; j < width; j++, cell += 2 * t->stride)
                    for (int k = 0; k < n_u; k++) {
                        VEC_U *at = (VEC_U *)(cell + k * VL);
                        *at += part[k] * v_weight[j];
                    }
            }
        }
    }
}

static void NAME(grid_span)(const msi_span *s, const msi_grid_target *t)
{
    switch (s->geometry->width * 2 + (s->geometry->w_width > 1)) {
#define WIDTH(n)                                                                                                       \
    case 2 * n:                                                                                                        \
        NAME(grid_width)(n, 0, s, t);                                                                                  \
        break;                                                                                                         \
    case 2 * n + 1:                                                                                                    \
        NAME(grid_width)(n, 1, s, t);                                                                                  \
        break;
        MSI_WIDTHS(WIDTH)
#undef WIDTH
    }
}

/*
 * Degridding. Samples are processed in batches. Positions, phases, and v and w taps are computed with one sample in
 * each lane of a vector. Then each sample is summed: rows of cells times v taps, planes of these times w taps, and the
 * sum's cells times u taps. Multiplying by u taps last leaves one load and one multiply-add for each row of a
 * footprint.
 */

enum { NAME(BATCH) = 16 };
#define BATCH NAME(BATCH)

typedef struct NAME(batch) {
    int n;
    double u[BATCH], v[BATCH], w[BATCH]; /* cells, cells, wavelengths; w >= 0 */
    CPLX *out[BATCH];
    REAL sign[BATCH]; /* -1: the visibility must be conjugated */

    int64_t origin[BATCH]; /* first cell of the footprint, in cells of a plane */
    REAL zu[BATCH];
    REAL v_tap[MSI_TAP_PAD][BATCH], w_tap[MSI_TAP_PAD][BATCH];
    REAL sine[BATCH], cosine[BATCH]; /* sine and cosine of 2 pi w n_mid */
    REAL sum[BATCH][VL];             /* over rows and planes; columns are added later */
} NAME(batch);

/* Compute the first tap relative to a tile's middle, and z of msi_first_tap. The result is limited to the tile and one
 * cell around it; only rounding, or coordinates beyond 2^53 periods, could exceed this. */
ALWAYS_INLINE void NAME(place)(const double *x, double middle, double period, double reach, double half_width,
                               double *first_tap, REAL *z)
{
    double inverse = 1 / period;
    for (int i = 0; i < BATCH; i++) {
        double r = x[i] - middle;
        r -= period * rint(r * inverse);
        r = r > -reach ? r : -reach;
        r = r < reach - 1 ? r : reach - 1;
        double edge = r - half_width, first = ceil(edge);
        first_tap[i] = first;
        z[i] = (REAL)(2 * (first - edge) - 1);
    }
}

/* Evaluate [width][BATCH] taps, whose coefficients are [n_coef][MSI_TAP_PAD]. Several taps are evaluated side by side
 * to hide latency; those beyond width are 0. */
ALWAYS_INLINE void NAME(batch_taps)(int width, int n_coef, const REAL *coef, const REAL *z, REAL (*out)[BATCH])
{
    enum { N = BATCH / VL, SIDE_BY_SIDE = N < 4 ? 4 : 1 };
    VEC at[N];
    for (int i = 0; i < N; i++) at[i] = *(const VEC_U *)(z + i * VL);
    for (int j = 0; j < width; j += SIDE_BY_SIDE) {
        VEC p[SIDE_BY_SIDE][N];
        for (int side = 0; side < SIDE_BY_SIDE; side++)
            for (int i = 0; i < N; i++) p[side][i] = (VEC){0} + coef[j + side];
        for (int k = 1; k < n_coef; k++)
            for (int side = 0; side < SIDE_BY_SIDE; side++)
                for (int i = 0; i < N; i++) p[side][i] = p[side][i] * at[i] + coef[k * MSI_TAP_PAD + j + side];
        for (int side = 0; side < SIDE_BY_SIDE; side++)
            for (int i = 0; i < N; i++) *(VEC_U *)&out[j + side][i * VL] = p[side][i];
    }
}

/* Prepare everything of a batch except the sums over cells. */
static void NAME(prepare_batch)(const msi_span *s, const msi_grid_source *d, NAME(batch) * b)
{
    const TAPS *taps = s->taps;
    const msi_wgrid_geometry *g = s->geometry;
    int n_coef = msi_pswf_n_coef(g->width);
    double u0[BATCH], v0[BATCH];
    REAL zv[BATCH], zw[BATCH], turns[BATCH];
    for (int i = b->n; i < BATCH; i++) {
        b->u[i] = b->u[0];
        b->v[i] = b->v[0];
        b->w[i] = b->w[0];
    }
    NAME(place)(b->u, d->u_middle, (double)g->nu, d->reach, 0.5 * g->width, u0, b->zu);
    NAME(place)(b->v, d->v_middle, (double)g->nv, d->reach, 0.5 * g->width, v0, zv);
    for (int i = 0; i < BATCH; i++)
        b->origin[i] = ((int64_t)v0[i] + d->v_offset) * d->stride + ((int64_t)u0[i] + d->u_offset);
    NAME(batch_taps)(g->width, n_coef, taps->v[0], zv, b->v_tap);
    if (g->w_width > 1) {
        /* The bucket gives the plane of the first tap. */
        double per_step = 1 / g->w_step, first = d->w0 + 0.5 * g->width;
        for (int i = 0; i < BATCH; i++) zw[i] = (REAL)(2 * (first - (b->w[i] - g->w_first) * per_step) - 1);
        NAME(batch_taps)(g->width, n_coef, taps->w[0], zw, b->w_tap);
    } else {
        for (int i = 0; i < BATCH; i++) b->w_tap[0][i] = 1;
    }
    for (int i = 0; i < BATCH; i++) {
        double t = b->w[i] * g->n_mid;
        turns[i] = (REAL)(t - rint(t));
    }
    for (int i = 0; i < BATCH; i++) NAME(sincos_turns)(turns[i], &b->sine[i], &b->cosine[i]);
}

static void NAME(store_batch)(const msi_grid_source *d, NAME(batch) * b)
{
    for (int half = VL / 2; half >= 2; half /= 2)
        for (int i = 0; i < BATCH; i++)
            for (int k = 0; k < half; k++) b->sum[i][k] += b->sum[i][k + half];
    for (int i = 0; i < b->n; i++) {
        REAL re = b->sum[i][0], im = b->sum[i][1];
        CPLX value = {re * b->cosine[i] - im * b->sine[i], b->sign[i] * (re * b->sine[i] + im * b->cosine[i])};
        if (d->adds) {
            value.re += b->out[i]->re;
            value.im += b->out[i]->im;
        }
        *b->out[i] = value;
    }
    b->n = 0;
}

/* width is a compile-time constant in every call, so that the tap loops unroll. */
ALWAYS_INLINE void NAME(sum_batch)(const int width, const TAPS *taps, const msi_grid_source *d, NAME(batch) * b)
{
    enum { MAX_VEC = 2 * MSI_TAP_PAD / VL };
    const int n_coef = msi_pswf_n_coef(width), n_u = (2 * width + VL - 1) / VL;
    for (int i = 0; i < b->n; i++) {
        VEC sum[MAX_VEC], u[MAX_VEC];
        for (int k = 0; k < n_u; k++) sum[k] = (VEC){0};
        for (int p = d->first_tap; p < d->end_tap; p++) {
            const REAL *cell = (const REAL *)((const CPLX *)d->plane[p] + b->origin[i]);
            if (n_u > 4) { /* a separate sum for each plane would not fit in registers */
                for (int j = 0; j < width; j++, cell += 2 * d->stride) {
                    REAL weight = b->v_tap[j][i] * b->w_tap[p][i];
                    for (int k = 0; k < n_u; k++) sum[k] += *(const VEC_U *)(cell + k * VL) * weight;
                }
                continue;
            }
            VEC part[MAX_VEC];
            for (int k = 0; k < n_u; k++) part[k] = *(const VEC_U *)(cell + k * VL) * b->v_tap[0][i];
            for (int j = 1; j < width; j++) {
                cell += 2 * d->stride;
                for (int k = 0; k < n_u; k++) part[k] += *(const VEC_U *)(cell + k * VL) * b->v_tap[j][i];
            }
            for (int k = 0; k < n_u; k++) sum[k] += part[k] * b->w_tap[p][i];
        }
        NAME(tap_values)(n_u, n_coef, taps->u[0], 2 * MSI_TAP_PAD, b->zu[i], u);
        sum[0] *= u[0];
        for (int k = 1; k < n_u; k++) sum[0] += sum[k] * u[k];
        *(VEC_U *)b->sum[i] = sum[0];
    }
}

static void NAME(degrid_batch)(const msi_span *s, const msi_grid_source *d, NAME(batch) * b)
{
    NAME(prepare_batch)(s, d, b);
    switch (s->geometry->width) {
#define WIDTH(n)                                                                                                       \
    case n:                                                                                                            \
        NAME(sum_batch)(n, s->taps, d, b);                                                                             \
        break;
        MSI_WIDTHS(WIDTH)
#undef WIDTH
    }
    NAME(store_batch)(d, b);
}

ALWAYS_INLINE void NAME(prefetch_out)(const msi_span *s, const msi_run *run)
{
    const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
    int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
    __builtin_prefetch(segment->uvw_m + 3 * row);
    __builtin_prefetch((CPLX *)segment->vis + msi_segment_index(segment, s->image_plane, row, run->chan), 1);
}

static void NAME(degrid_span)(const msi_span *s, const msi_grid_source *d)
{
    const msi_wgrid_geometry *g = s->geometry;
    NAME(batch) b;
    b.n = 0;
    for (int64_t i = 0; i < s->n_run; i++) {
        if (i + 6 < s->n_run) NAME(prefetch_out)(s, &s->run[i + 6]);
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        const double *uvw = segment->uvw_m + 3 * row;
        double sign = uvw[2] < 0 ? -1 : 1;
        double u = sign * uvw[0] * g->u_cells_per_m_hz, v = sign * uvw[1] * g->v_cells_per_m_hz,
               w = sign * uvw[2] * g->w_lambda_per_m_hz;
        CPLX *out = (CPLX *)segment->vis + msi_segment_index(segment, s->image_plane, row, run->chan);
        for (int32_t c = 0; c < run->n_chan; c++) {
            double freq_hz = segment->freq_hz[run->chan + c];
            b.u[b.n] = u * freq_hz;
            b.v[b.n] = v * freq_hz;
            b.w[b.n] = w * freq_hz;
            b.sign[b.n] = (REAL)sign;
            b.out[b.n] = out + c;
            if (++b.n == BATCH) NAME(degrid_batch)(s, d, &b);
        }
    }
    if (b.n) NAME(degrid_batch)(s, d, &b);
}

#undef BATCH

/* Loops of w-towers over cells of their subgrids. */

static void NAME(gather_cells)(CPLX *restrict cell, const CPLX *restrict screen, REAL sign, int64_t n,
                               CPLX *restrict sum)
{
    for (int64_t i = 0; i < n; i++) {
        REAL re = screen[i].re, im = sign * screen[i].im;
        sum[i].re += cell[i].re * re - cell[i].im * im;
        sum[i].im += cell[i].re * im + cell[i].im * re;
        cell[i] = (CPLX){0, 0};
    }
}

static void NAME(turn_cells)(const CPLX *restrict cell, const CPLX *restrict screen, REAL sign, int64_t n,
                             CPLX *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        REAL re = screen[i].re, im = sign * screen[i].im;
        out[i].re = cell[i].re * re - cell[i].im * im;
        out[i].im = cell[i].re * im + cell[i].im * re;
    }
}
