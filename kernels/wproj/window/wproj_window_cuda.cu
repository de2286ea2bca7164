/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Gridding with a moving window (Romein 2012 section 4) whose threads have blocks of cells (Merry 2016 section 3).
 *
 * A work group is a fixed number of visibilities. A block of threads processes it for one tile of the window.
 * Visibilities are staged in batches. For separable kernels, the products of the visibility and the weights along v are
 * stored for every row of the window and all polarisations, together with the weights along u. A thread then needs only
 * four multiply-adds per cell and polarisation (Merry 2016 section 6). When the window's corner moves past a thread's
 * block, the thread adds its sums to global memory by vector reductions.
 *
 * With full tables (Romein's form), a thread has CV cells of a column. It reads each weight once for all polarisations,
 * and keeps it for the following visibilities with the same kernel. The window is exactly as large as the footprint.
 */
#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/wproj/window/wproj_window_forms.cuh"

namespace {

/* Add a form's images to one cell, and clear the sums. */
template <int P, typename T> __device__ __forceinline__ void add_cell(cplx<T> *cell, cplx<T> *sum, bool pairs)
{
    if (P % 2 == 0 && pairs) {
#pragma unroll
        for (int p = 0; p + 1 < P; p += 2)
            vector_add::add_two(cell + p, sum[p].re, sum[p].im, sum[p + 1].re, sum[p + 1].im);
    } else {
#pragma unroll
        for (int p = 0; p < P; p++) vector_add::add_one(cell + p, sum[p].re, sum[p].im);
    }
#pragma unroll
    for (int p = 0; p < P; p++) sum[p] = {0, 0};
}

/* Add a block of cells at (u, v) to the grid, whose cells have n_image images. */
template <class F>
__device__ __forceinline__ void flush_block(cplx<typename F::T> (*sum)[F::CU][F::P], int u, int v,
                                            const window_args<typename F::T> &a, int image)
{
    using T = typename F::T;
#pragma unroll
    for (int j = 0; j < F::CV; j++) {
        cplx<T> *row = a.grid + (int64_t)msi_wrap_cell(v + j, a.nv) * a.nu * a.n_image + image;
        if (F::P == 1 && sizeof(T) == 4 && a.pairs) {
#pragma unroll
            for (int i = 0; i < F::CU; i += 2) {
                cplx<T> &x = sum[j][i][0], &y = sum[j][i + 1][0];
                vector_add::add_two(row + msi_wrap_cell(u + i, a.nu), x.re, x.im, y.re, y.im);
                x = y = {0, 0};
            }
            continue;
        }
#pragma unroll
        for (int i = 0; i < F::CU; i++)
            add_cell<F::P>(row + (int64_t)msi_wrap_cell(u + i, a.nu) * a.n_image, sum[j][i], a.pairs);
    }
}

/* Shared memory of a separable gridding block. */
template <class F> struct grid_store {
    using T = typename F::T;
    /* Rows of a pack. With one image, a float pack has two rows. */
    static constexpr int ROWS = F::P == 1 && F::PACK == 2 ? 2 : 1;
    /* Images of a row, rounded up to a multiple of packs. */
    static constexpr int PS = F::P == 1 ? 1 : (F::P + F::PACK - 1) / F::PACK * F::PACK;
    alignas(16) cplx<T> u[F::N * F::TU];
    alignas(16) cplx<T> v[F::N * F::TV * PS]; /* visibility times weight */
    batch_store<T, F::P, F::N> batch;
};

/* Stage the products of visibilities and weights along v for the rows of a tile. */
template <msi_wproj_lookup LOOKUP, class F>
__device__ __forceinline__ void stage_products(grid_store<F> &s, int half, axis along, int n, staging items)
{
    using T = typename F::T;
    using S = grid_store<F>;
    for (int x = items.x; x < along.cells; x += items.x_step) {
        cplx<T> *out = s.v + pack_place<F::CV, F::B, F::TV, S::ROWS>(x) * S::PS;
#pragma unroll 4
        for (int k = items.k; k < n; k += items.k_step) {
            cplx<T> w =
                weight_at<LOOKUP>(read_source(&s.batch.v[k]), LOOKUP == MSI_WPROJ_LINEAR ? s.batch.frac_v[k] : 0.0f,
                                  along.first + x, along);
            cplx<T> product[F::P];
#pragma unroll
            for (int p = 0; p < F::P; p++) product[p] = multiply(s.batch.value[half][k * F::P + p], w);
#pragma unroll
            for (int p = 0; p < F::P; p++) out[k * F::TV * S::PS + p] = product[p];
        }
    }
}

/* Add a visibility to a thread's cells, from its staged weights along u and products along v. */
template <class F>
__device__ __forceinline__ void add_footprint(cplx<typename F::T> (*sum)[F::CU][F::P], const cplx<typename F::T> *pu,
                                              const cplx<typename F::T> *pv)
{
    using T = typename F::T;
    using S = grid_store<F>;
    constexpr int CU = F::CU, CV = F::CV;
    cplx<T> wu[CU];
    read_packs<CU>(pu, F::TU / CU * F::PACK, wu);
#pragma unroll
    for (int j = 0; j < F::ROWS; j += S::ROWS) {
        cplx<T> wv[S::ROWS * S::PS];
        int at = (j / CV * (F::TV / CV / F::B) * S::ROWS + j % CV * (F::TV / CV)) * S::PS;
        read_packs<S::ROWS * S::PS>(pv + at, F::PACK, wv);
#pragma unroll
        for (int r = 0; r < S::ROWS; r++)
#pragma unroll
            for (int i = 0; i < CU; i++)
#pragma unroll
                for (int p = 0; p < F::P; p++) multiply_add(sum[j + r][i][p], wv[r * S::PS + p], wu[i]);
    }
}

template <class F>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    k_window_grid(const __grid_constant__ window_args<typename F::T> a)
{
    using T = typename F::T;
    using S = grid_store<F>;
    constexpr int P = F::P, CU = F::CU, CV = F::CV, B = F::B, N = F::N;
    extern __shared__ __align__(16) unsigned char memory[];
    S &s = *(S *)memory;

    const tile_thread t = find_thread<F>(a);
    const block_part &part = t.part;
    cplx<T> sum[F::ROWS][CU][P] = {};
    block_places<B> at = {};
    bool any = false;
    auto flush = [&](int b) { flush_block<F>(sum + b * CV, at.u, at.v[b], a, part.image); };

    const batch_walk<CU, CV, T, P, N> walk = {s.batch, a, part, a.value + part.image};
    int half = 0;
    walk.begin();
    for (int64_t done = part.begin; done < part.end; done += N, half ^= 1) {
        const int n = walk.take(done, half);
        stage_by<T>(a.lookup, [&](auto lookup) {
            stage_rows<CU, 1, F::TU, lookup.value>(s.u, s.batch.u, s.batch.frac_u, t.along_u, n, t.items_u);
            stage_products<lookup.value>(s, half, t.along_v, n, t.items_v);
        });
        __syncthreads();
        if (!t.own) continue;

        uint32_t moves = s.batch.moves;
        for (int k = 0; k < n;) {
            if (moves & (1u << k)) {
                corner c = s.batch.at[k];
                int u = cell_at(t.place_u, c.place_u, c.u, a.window_u);
#pragma unroll
                for (int b = 0; b < B; b++) {
                    int v = cell_at(t.place_v + b * CV, c.place_v, c.v, a.window_v);
                    if (any && (u != at.u || v != at.v[b])) flush(b);
                    at.v[b] = v;
                }
                at.u = u;
                any = true;
            }
            int stop = end_of_run(moves, k, n);
            const cplx<T> *pu = s.u + k * F::TU + t.x * F::PACK;
            const cplx<T> *pv = s.v + (k * F::TV + t.y * S::ROWS) * S::PS;
#pragma unroll(CU *CV *P *B <= 16 ? 2 : 1)
            for (; k < stop; k++, pu += F::TU, pv += F::TV * S::PS) {
                add_footprint<F>(sum, pu, pv);
            }
        }
    }
    if (t.own && any)
#pragma unroll
        for (int b = 0; b < B; b++) flush(b);
}

template <class F>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    k_window_grid_full(const __grid_constant__ window_args<typename F::T> a)
{
    using T = typename F::T;
    constexpr int P = F::P, CV = F::CV, N = F::N;
    __shared__ batch_store<T, P, N> b;

    const column_thread t = find_column<F>(a);
    const block_part &part = t.part;
    cplx<T> sum[CV][P] = {};
    corner at = {0, 0, 0, 0};
    bool any = false;

    auto flush = [&](corner to, bool all) {
        int from_u = cell_at(t.place_u, at.place_u, at.u, a.window_u);
        all |= from_u != cell_at(t.place_u, to.place_u, to.u, a.window_u);
        int64_t x = (int64_t)msi_wrap_cell(from_u, a.nu) * a.n_image + part.image, pitch = (int64_t)a.nu * a.n_image;
#pragma unroll
        for (int j = 0; j < CV; j++) {
            int place = t.place_v + j * t.step_v, from_v = cell_at(place, at.place_v, at.v, a.window_v);
            if ((all || from_v != cell_at(place, to.place_v, to.v, a.window_v)) && place < a.window_v)
                add_cell<P>(a.grid + msi_wrap_cell(from_v, a.nv) * pitch + x, sum[j], a.pairs);
        }
    };

    const batch_walk<1, 1, T, P, N> walk = {b, a, part, a.value + part.image};
    int half = 0;
    walk.begin();
    for (int64_t done = part.begin; done < part.end; done += N, half ^= 1) {
        const int n = walk.take(done, half);
        if (!t.own) continue;

        uint32_t moves = b.moves, changes = b.changes;
        cplx<T> w[CV], next_w[CV];
        read_column<CV>(next_w, b, 0, a, t);
        for (int k = 0; k < n;) {
#pragma unroll
            for (int j = 0; j < CV; j++) w[j] = next_w[j];
            int stop = end_of_run(changes, k, n);
            if (stop < n) read_column<CV>(next_w, b, stop, a, t);
            if (moves & (1u << k)) {
                corner to = b.at[k];
                if (any) flush(to, false);
                at = to;
                any = true;
            }
#pragma unroll 1
            for (; k < stop; k++) {
                cplx<T> value[P];
#pragma unroll
                for (int p = 0; p < P; p++) value[p] = b.value[half][k * P + p];
#pragma unroll
                for (int j = 0; j < CV; j++)
#pragma unroll
                    for (int p = 0; p < P; p++) multiply_add(sum[j][p], value[p], w[j]);
            }
        }
    }
    if (t.own && any) flush(at, true);
}

/* The kernels of gridding, for launch_form. */
struct gridding {
    static constexpr int DEGRID = 0;
    template <class F> using store = grid_store<F>;
    template <class F> static auto full()
    {
        return k_window_grid_full<F>;
    }
    template <class F> static auto separable()
    {
        return k_window_grid<F>;
    }
};

template <class F> constexpr form_row form()
{
    return row_of<gridding, F>();
}

/* Each is the fastest, or nearly the fastest, for some number of images and taps. */
const form_row FORMS[] = {
    form<window_form<float, 1, 4, 4, 2, 32, 32, 16, 16>>(),
    form<window_form<float, 1, 4, 4, 1, 32, 32, 16, 12>>(),
    form<window_form<float, 1, 4, 4, 1, 64, 64, 32, 3>>(),
    form<window_form<float, 1, 4, 4, 2, 64, 64, 32, 5>>(),
    form<window_form<float, 4, 4, 4, 1, 32, 32, 16, 6>>(),
    form<window_form<float, 4, 4, 4, 1, 64, 32, 32, 3>>(),
    form<window_form<float, 4, 2, 1, 1, 32, 32, 16, 2>>(),
    form<window_form<float, 2, 4, 4, 2, 64, 64, 16, 3>>(),
    form<window_form<float, 2, 4, 4, 1, 64, 32, 32, 4>>(),
    form<window_form<double, 1, 4, 4, 1, 64, 32, 16, 4>>(),
    form<window_form<double, 2, 4, 2, 1, 64, 16, 16, 4>>(),
    form<window_form<double, 4, 4, 2, 1, 64, 16, 16, 2>>(),
    form<full_form<float, 1, 8, 32, 128, 6>>(),
    form<full_form<float, 4, 4, 32, 128, 6>>(),
    form<full_form<float, 2, 8, 32, 128, 4>>(),
    form<full_form<double, 1, 8, 32, 128, 4>>(),
    form<full_form<double, 4, 4, 32, 128, 3>>(),
};
constexpr int N_FORM = (int)(sizeof FORMS / sizeof FORMS[0]);

} // namespace

extern "C" int msi_window_grid_cuda(const msi_wproj_job *job, const msi_window_shape *shape, void *stream)
{
    return launch_forms(FORMS, N_FORM, job, shape, (cudaStream_t)stream);
}

extern "C" int msi_window_grid_shapes(const msi_wproj_job *job, msi_window_shape *shape)
{
    return list_shapes(FORMS, N_FORM, job, shape);
}
