/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The gridding loops of w-projection in one precision. wproj_simd.c includes this with REAL, CPLX and SUFFIX set.
 *
 * For separable kernels, let p be the kernel along u times the visibility, as one or more vectors of interleaved
 * complex numbers. p and i p are computed once. Each row of the footprint adds the real part of the kernel along v
 * times p and the imaginary part times i p. This takes two multiply-adds and no shuffle. The rows of a full kernel are
 * read from the table, or interpolated from four rows, and multiplied by the visibility with one swap of real and
 * imaginary parts.
 */

enum { VL = MSI_VECTOR_BYTES / sizeof(REAL), NAME(ROW) = 2 * (2 * MSI_WKERNEL_MAX_HALF + 1) + VL };

typedef REAL VEC __attribute__((vector_size(MSI_VECTOR_BYTES)));
typedef REAL VEC_U __attribute__((vector_size(MSI_VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* The position of a sample's kernel in the table. */
typedef struct NAME(lookup) {
    int32_t half, taps;
    int n_vector; /* number of vectors of a row of taps */
    msi_wproj_place place;
} NAME(lookup);

ALWAYS_INLINE void NAME(look_up)(const msi_wproj_span *s, const double *uvw_m, double freq_hz, NAME(lookup) * out)
{
    msi_wproj_locate_in(s->geometry, uvw_m, freq_hz, s->store->coordinates, s->slice, &out->place);
    out->half = s->kernels->half[out->place.plane];
    out->taps = msi_wkernel_taps(out->half);
    out->n_vector = (2 * out->taps + VL - 1) / VL;
}

/* Return a mask for a row's last vector: 1 in the lanes with taps, 0 in the others. */
ALWAYS_INLINE VEC NAME(last_lanes)(const NAME(lookup) * at)
{
    REAL kept[VL];
    int from = (at->n_vector - 1) * VL;
    for (int i = 0; i < VL; i++) kept[i] = from + i < 2 * at->taps ? 1 : 0;
    return *(const VEC_U *)kept;
}

/* Return a vector with `even` in the even lanes and `odd` in the odd lanes. */
ALWAYS_INLINE VEC NAME(alternating)(REAL even, REAL odd)
{
    REAL pair[VL];
    for (int i = 0; i < VL; i++) pair[i] = i & 1 ? odd : even;
    return *(const VEC_U *)pair;
}

/* A complex factor for a vector x of interleaved complex numbers. The product is x * straight + swap(x) * swapped. With
 * `conjugate` it is the product with the conjugate of x. */
typedef struct NAME(factor) {
    VEC straight, swapped;
} NAME(factor);

ALWAYS_INLINE NAME(factor) NAME(factor_of)(CPLX value, int conjugate)
{
    NAME(factor)
    f = {NAME(alternating)(value.re, conjugate ? -value.re : value.re),
         NAME(alternating)(conjugate ? value.im : -value.im, value.im)};
    return f;
}

ALWAYS_INLINE VEC NAME(swap)(VEC x)
{
    return __builtin_shufflevector(x, x, SWAP_PAIRS);
}

/* The row of a separable kernel for a sample along one axis: two rows of the table and their weights. */
typedef struct NAME(row) {
    const REAL *low, *high;
    REAL lower, upper;
} NAME(row);

ALWAYS_INLINE NAME(row)
    NAME(find_row)(const msi_wkernel_set *k, const NAME(lookup) * at, int64_t offset, int32_t sub, double frac)
{
    const REAL *low = (const REAL *)((const CPLX *)k->table + msi_wkernel_row(offset, at->half, k->oversample, sub));
    NAME(row) r = {low, low + (frac > 0 ? 2 * at->taps : 0), (REAL)(1 - frac), (REAL)frac};
    return r;
}

/* Read vector i of a row. The last vector may include elements of the next row, or padding. */
ALWAYS_INLINE VEC NAME(row_taps)(const NAME(row) * r, int i)
{
    return *(const VEC_U *)(r->low + i * VL) * r->lower + *(const VEC_U *)(r->high + i * VL) * r->upper;
}

/* The squares of a full kernel for a sample: one, or four with weights to interpolate between sub-offsets. */
typedef struct NAME(squares) {
    int n;
    const REAL *first[4];
    REAL part[4];
} NAME(squares);

ALWAYS_INLINE void NAME(find_squares)(const msi_wkernel_set *k, const NAME(lookup) * at, int linear,
                                      NAME(squares) * out)
{
    const msi_wproj_place *p = &at->place;
    out->n = linear ? 4 : 1;
    for (int i = 0; i < out->n; i++) {
        int u = i & 1, v = i >> 1;
        double part = (u ? p->frac_u : 1 - p->frac_u) * (v ? p->frac_v : 1 - p->frac_v);
        int64_t first = msi_wkernel_square(k->offset_u[p->plane], at->half, k->oversample, p->sub_u + u, p->sub_v + v);
        out->first[i] = (const REAL *)((const CPLX *)k->table + first);
        out->part[i] = (REAL)part;
    }
}

ALWAYS_INLINE VEC NAME(square_taps)(const int n_square, const NAME(squares) * squares, int64_t at)
{
    VEC sum = *(const VEC_U *)(squares->first[0] + at) * squares->part[0];
    for (int i = 1; i < n_square; i++) sum += *(const VEC_U *)(squares->first[i] + at) * squares->part[i];
    return sum;
}

/* Return a sample's weighted visibility, conjugated and rotated according to its place. */
ALWAYS_INLINE CPLX NAME(gridded_value)(const msi_wproj_span *s, const msi_vis_segment *segment, int64_t row,
                                       int32_t chan, const msi_wproj_place *p)
{
    int64_t at = msi_segment_index(segment, s->image_plane < 0 ? 0 : s->image_plane, row, chan);
    REAL weight = (REAL)segment->weight[at];
    CPLX v = {weight, 0};
    if (s->image_plane >= 0) {
        v.re = weight * ((const CPLX *)segment->vis)[at].re;
        v.im = weight * ((const CPLX *)segment->vis)[at].im;
        if (p->conjugate_vis) v.im = -v.im;
    }
    msi_c64 phase = residual_phase(p->turns);
    REAL re = (REAL)phase.re, im = (REAL)phase.im;
    return (CPLX){v.re * re - v.im * im, v.re * im + v.im * re};
}

/* Add n vectors of every row of a separable footprint, beginning with vector `from`. n is a constant in every call, so
 * the vectors stay in registers. along_v is the kernel along v, conjugated if required. */
ALWAYS_INLINE void NAME(add_separable)(const int n, int from, const NAME(row) * along_u, const REAL *along_v,
                                       const NAME(factor) * value, VEC mask, const NAME(lookup) * at, CPLX *first,
                                       int64_t stride)
{
    VEC by_re[AT_ONCE], by_im[AT_ONCE];
    const VEC signs = NAME(alternating)(-1, 1);
    for (int k = 0; k < n; k++) {
        VEC taps = NAME(row_taps)(along_u, from + k);
        if (from + k == at->n_vector - 1) taps *= mask;
        by_re[k] = taps * value->straight + NAME(swap)(taps) * value->swapped;
        by_im[k] = NAME(swap)(by_re[k]) * signs;
    }
    REAL *cell = (REAL *)first + from * VL;
    for (int32_t j = 0; j < at->taps; j++, cell += 2 * stride) {
        REAL re = along_v[2 * j], im = along_v[2 * j + 1];
        for (int k = 0; k < n; k++) *(VEC_U *)(cell + k * VL) += by_re[k] * re + by_im[k] * im;
    }
}

/* Store the kernel along v multiplied by `signs`, which may conjugate it. */
ALWAYS_INLINE void NAME(store_row)(const NAME(row) * r, VEC signs, int n_vector, REAL *out)
{
    for (int k = 0; k < n_vector; k++) *(VEC_U *)(out + k * VL) = NAME(row_taps)(r, k) * signs;
}

ALWAYS_INLINE void NAME(grid_separable)(const msi_wkernel_set *k, const NAME(lookup) * at, CPLX value, CPLX *first,
                                        int64_t stride)
{
    const msi_wproj_place *p = &at->place;
    REAL along_v[NAME(ROW)];
    NAME(row) u = NAME(find_row)(k, at, k->offset_u[p->plane], p->sub_u, p->frac_u);
    NAME(row) v = NAME(find_row)(k, at, k->offset_v[p->plane], p->sub_v, p->frac_v);
    NAME(store_row)(&v, NAME(alternating)(1, p->conjugate_kernel ? -1 : 1), at->n_vector, along_v);
    NAME(factor) factor = NAME(factor_of)(value, p->conjugate_kernel);
    VEC mask = NAME(last_lanes)(at);
    for (int from = 0, rest; (rest = at->n_vector - from) > 0; from += AT_ONCE) {
        switch (rest) {
        case 1:
            NAME(add_separable)(1, from, &u, along_v, &factor, mask, at, first, stride);
            break;
        case 2:
            NAME(add_separable)(2, from, &u, along_v, &factor, mask, at, first, stride);
            break;
        case 3:
            NAME(add_separable)(3, from, &u, along_v, &factor, mask, at, first, stride);
            break;
        default:
            NAME(add_separable)(AT_ONCE, from, &u, along_v, &factor, mask, at, first, stride);
        }
    }
}

ALWAYS_INLINE void NAME(add_full)(const int n_square, const NAME(squares) * squares, const NAME(lookup) * at,
                                  CPLX value, CPLX *first, int64_t stride)
{
    NAME(factor) factor = NAME(factor_of)(value, at->place.conjugate_kernel);
    VEC mask = NAME(last_lanes)(at);
    int last = at->n_vector - 1;
    for (int32_t j = 0; j < at->taps; j++, first += stride) {
        int64_t row = (int64_t)j * 2 * at->taps;
        for (int k = 0; k <= last; k++) {
            VEC taps = NAME(square_taps)(n_square, squares, row + k * VL);
            if (k == last) taps *= mask;
            *(VEC_U *)((REAL *)first + k * VL) += taps * factor.straight + NAME(swap)(taps) * factor.swapped;
        }
    }
}

ALWAYS_INLINE void NAME(prefetch)(const msi_wproj_span *s, const msi_run *run)
{
    const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
    int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
    int64_t at = msi_segment_index(segment, s->image_plane < 0 ? 0 : s->image_plane, row, run->chan);
    __builtin_prefetch(segment->uvw_m + 3 * row);
    __builtin_prefetch(segment->weight + at);
    if (s->image_plane >= 0) __builtin_prefetch((const CPLX *)segment->vis + at);
}

static void NAME(grid_span)(const msi_wproj_span *s, const msi_wproj_cells *target)
{
    const msi_wkernel_set *k = s->kernels;
    for (int64_t i = 0; i < s->n_run; i++) {
        if (i + 6 < s->n_run) NAME(prefetch)(s, &s->run[i + 6]);
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        for (int32_t c = run->chan; c < run->chan + run->n_chan; c++) {
            NAME(lookup) at;
            NAME(look_up)(s, segment->uvw_m + 3 * row, segment->freq_hz[c], &at);
            CPLX value = NAME(gridded_value)(s, segment, row, c, &at.place);
            int64_t u = at.place.u - at.half - target->u_origin, v = at.place.v - at.half - target->v_origin;
            CPLX *first = (CPLX *)target->cells + v * target->stride + u;
            if (k->form == MSI_WKERNEL_SEPARABLE) {
                NAME(grid_separable)(k, &at, value, first, target->stride);
                continue;
            }
            NAME(squares) squares;
            NAME(find_squares)(k, &at, s->geometry->linear, &squares);
            if (s->geometry->linear)
                NAME(add_full)(4, &squares, &at, value, first, target->stride);
            else
                NAME(add_full)(1, &squares, &at, value, first, target->stride);
        }
    }
}
