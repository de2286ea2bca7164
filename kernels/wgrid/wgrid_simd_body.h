/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One precision of the CPU's inner loops; included by wgrid_simd.c with REAL, CPLX, TAPS and SUFFIX set.
 *
 * A sample's footprint is width x width x w_width cells. Its row of u taps, weighted with the visibility, is one vector
 * of interleaved complex numbers (two or more for long windows or short vectors); every row of the footprint adds that
 * vector times one real weight: one load, one multiply-add, one store a row.
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

/* Compute a sample's weighted and rotated value: w V exp(-2 pi i w n_mid), of the half-space w >= 0. */
ALWAYS_INLINE CPLX NAME(sample_value)(const msi_span *s, const msi_vis_segment *segment, int64_t row, int32_t chan,
                                      int conjugate, double w_lambda)
{
    int plane = s->image_plane < 0 ? 0 : s->image_plane;
    int64_t at = msi_segment_index(segment, plane, row, chan);
    REAL weight = (REAL)segment->weight[at];
    CPLX v = {weight, 0};
    if (s->image_plane >= 0) {
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
    int plane = s->image_plane < 0 ? 0 : s->image_plane;
    int64_t at = msi_segment_index(segment, plane, row, run->chan);
    __builtin_prefetch(segment->uvw_m + 3 * row);
    __builtin_prefetch(segment->weight + at);
    if (s->image_plane >= 0) __builtin_prefetch((const CPLX *)segment->vis + at);
}

/* width and has_w are compile-time constants at every call, so that the tap loops unroll. */
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
