/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The degridding loops of w-projection in one precision. wproj_simd.c includes this after wproj_simd_body.h.
 *
 * Degridding is the transpose of gridding, with conjugate kernels. The columns of a separable footprint are first
 * summed with the kernel along v, a vector of cells at a time; the real and imaginary parts of the kernel have separate
 * sums. The results are then summed with the kernel along u.
 */

/* Sums of products of cells and taps in each vector lane: with the taps as they are (re re, im im), and with swapped
 * parts (re im, im re). */
typedef struct NAME(products) {
    VEC straight, swapped;
} NAME(products);

/* Sum the products over the lanes: cells times taps, or times the taps' conjugates. */
ALWAYS_INLINE CPLX NAME(sum_of)(const NAME(products) * p, int conjugate)
{
    CPLX sum = {0, 0};
    REAL sign = conjugate ? 1 : -1;
    for (int i = 0; i < VL; i += 2) {
        sum.re += p->straight[i] + sign * p->straight[i + 1];
        sum.im += p->swapped[i + 1] - sign * p->swapped[i];
    }
    return sum;
}

/* Sum the columns of a separable footprint, n vectors beginning with `from`. n is a constant in every call. */
ALWAYS_INLINE void NAME(sum_separable)(const int n, int from, const NAME(row) * along_u, const REAL *along_v, VEC mask,
                                       const NAME(lookup) * at, const CPLX *first, int64_t stride,
                                       NAME(products) * products)
{
    VEC by_re[AT_ONCE], by_im[AT_ONCE];
    for (int k = 0; k < n; k++) by_re[k] = by_im[k] = (VEC){0};
    const REAL *cell = (const REAL *)first + from * VL;
    for (int32_t j = 0; j < at->taps; j++, cell += 2 * stride) {
        REAL re = along_v[2 * j], im = along_v[2 * j + 1];
        for (int k = 0; k < n; k++) {
            VEC cells = *(const VEC_U *)(cell + k * VL);
            by_re[k] += cells * re;
            by_im[k] += cells * im;
        }
    }
    const VEC signs = NAME(alternating)(-1, 1);
    for (int k = 0; k < n; k++) {
        VEC taps = NAME(row_taps)(along_u, from + k), column = by_re[k] + NAME(swap)(by_im[k]) * signs;
        if (from + k == at->n_vector - 1) taps *= mask;
        products->straight += column * taps;
        products->swapped += column * NAME(swap)(taps);
    }
}

ALWAYS_INLINE CPLX NAME(degrid_separable)(const msi_wkernel_set *k, const NAME(lookup) * at, const CPLX *first,
                                          int64_t stride)
{
    const msi_wproj_place *p = &at->place;
    REAL along_v[NAME(ROW)];
    NAME(row) u = NAME(find_row)(k, at, k->offset_u[p->plane], p->sub_u, p->frac_u);
    NAME(row) v = NAME(find_row)(k, at, k->offset_v[p->plane], p->sub_v, p->frac_v);
    NAME(store_row)(&v, NAME(alternating)(1, p->conjugate_kernel ? 1 : -1), at->n_vector, along_v);
    VEC mask = NAME(last_lanes)(at);
    NAME(products) sum = {{0}, {0}};
    for (int from = 0, rest; (rest = at->n_vector - from) > 0; from += AT_ONCE) {
        switch (rest) {
        case 1:
            NAME(sum_separable)(1, from, &u, along_v, mask, at, first, stride, &sum);
            break;
        case 2:
            NAME(sum_separable)(2, from, &u, along_v, mask, at, first, stride, &sum);
            break;
        case 3:
            NAME(sum_separable)(3, from, &u, along_v, mask, at, first, stride, &sum);
            break;
        default:
            NAME(sum_separable)(AT_ONCE, from, &u, along_v, mask, at, first, stride, &sum);
        }
    }
    return NAME(sum_of)(&sum, !p->conjugate_kernel);
}

ALWAYS_INLINE CPLX NAME(degrid_full)(const int n_square, const NAME(squares) * squares, const NAME(lookup) * at,
                                     const CPLX *first, int64_t stride)
{
    VEC mask = NAME(last_lanes)(at);
    NAME(products) sum = {{0}, {0}};
    int last = at->n_vector - 1;
    for (int32_t j = 0; j < at->taps; j++, first += stride) {
        int64_t row = (int64_t)j * 2 * at->taps;
        for (int k = 0; k <= last; k++) {
            VEC taps = NAME(square_taps)(n_square, squares, row + k * VL);
            if (k == last) taps *= mask;
            VEC cells = *(const VEC_U *)((const REAL *)first + k * VL);
            sum.straight += cells * taps;
            sum.swapped += cells * NAME(swap)(taps);
        }
    }
    return NAME(sum_of)(&sum, !at->place.conjugate_kernel);
}

static void NAME(degrid_span)(const msi_wproj_span *s, const msi_wproj_cells *source)
{
    const msi_wkernel_set *k = s->kernels;
    for (int64_t i = 0; i < s->n_run; i++) {
        const msi_run *run = &s->run[i];
        const msi_vis_segment *segment = &s->store->segment[run->row >> MSI_SEGMENT_SHIFT];
        int64_t row = run->row & (MSI_SEGMENT_ROWS - 1);
        for (int32_t c = run->chan; c < run->chan + run->n_chan; c++) {
            NAME(lookup) at;
            NAME(look_up)(s, segment->uvw_m + 3 * row, segment->freq_hz[c], &at);
            const CPLX *first = (const CPLX *)source->cells + msi_wproj_first_cell(source, &at.place, at.half);
            CPLX value;
            if (k->form == MSI_WKERNEL_SEPARABLE) {
                value = NAME(degrid_separable)(k, &at, first, source->stride);
            } else {
                NAME(squares) squares;
                NAME(find_squares)(k, &at, s->geometry->linear, &squares);
                value = s->geometry->linear ? NAME(degrid_full)(4, &squares, &at, first, source->stride)
                                            : NAME(degrid_full)(1, &squares, &at, first, source->stride);
            }
            msi_c64 phase = residual_phase(at.place.turns);
            REAL re = (REAL)phase.re, im = (REAL)-phase.im;
            CPLX turned = {value.re * re - value.im * im, value.re * im + value.im * re};
            if (at.place.conjugate_vis) turned.im = -turned.im;
            ((CPLX *)segment->vis)[msi_segment_index(segment, s->image_plane, row, c)] = turned;
        }
    }
}
