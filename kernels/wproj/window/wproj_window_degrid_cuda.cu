/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Degridding with a moving window whose threads have blocks of cells (proposed in Merry 2016 section 6).
 *
 * This is the reverse of gridding. A thread keeps its blocks of cells in registers, and reads another block when the
 * window's corner moves past it. For a visibility it sums its cells weighted along u, then along v, and gets one
 * complex number per image. These numbers are summed over the warp by a transposed butterfly: in each step a lane sends
 * one half of its numbers to its partner and keeps the other, so the count halves. Eight numbers take nine shuffles; a
 * separate tree for each would take forty. The five steps depend on each other, so with few images several
 * visibilities share a butterfly to hide the latency. Sums of warps are added in shared memory, and sums of tiles in
 * global memory. A block of one warp writes its sums directly. wproj_window_tensor.cuh has the form for tensor cores.
 *
 * With full tables, a thread has cells of one column. Visibilities with the same place and kernel have the same value,
 * which is computed once.
 */
#include "kernels/wproj/window/wproj_window_cuda.h"

#include "kernels/wproj/window/wproj_window_tensor.cuh"

namespace {

/* In a separable form M visibilities share a butterfly. */
template <class F, int M_> struct degrid_form : F {
    static constexpr int M = M_;
};

template <class F> struct degrid_store {
    using T = typename F::T;
    static constexpr int PACKED = F::PACK; /* a pack of weights along v serves as many rows */
    static constexpr int WARPS = (F::THREADS + 31) / 32;
    alignas(16) cplx<T> u[F::N * F::TU];
    alignas(16) cplx<T> v[F::N * F::TV];
    alignas(16) cplx<T> part[WARPS][F::N * F::P]; /* sums over a warp */
    batch_store<T, F::P, F::N> batch;
};

/* Read a form's images of one cell. */
template <int P, typename T> __device__ __forceinline__ void read_cell(cplx<T> *cell, const cplx<T> *from, bool pairs)
{
    constexpr int PACK = 16 / (int)sizeof(cplx<T>);
    if (P % PACK == 0 && (PACK == 1 || pairs)) {
        read_packs<P / PACK * PACK>(from, PACK, cell);
    } else {
#pragma unroll
        for (int p = 0; p < P; p++) cell[p] = from[p];
    }
}

/* Read a block of cells from the grid. */
template <class F>
__device__ __forceinline__ void read_block(cplx<typename F::T> (*cell)[F::CU][F::P], int u, int v,
                                           const window_args<typename F::T> &a, int image)
{
    using T = typename F::T;
#pragma unroll
    for (int j = 0; j < F::CV; j++) {
        const cplx<T> *row = a.grid + (int64_t)msi_wrap_cell(v + j, a.nv) * a.nu * a.n_image + image;
        if (F::P == 1 && F::PACK == 2 && a.pairs) {
#pragma unroll
            for (int i = 0; i < F::CU; i += F::PACK) {
                cplx<T> pack[F::PACK];
                read_packs<F::PACK>(row + msi_wrap_cell(u + i, a.nu), 0, pack);
#pragma unroll
                for (int c = 0; c < F::PACK; c++) cell[j][i + c][0] = pack[c];
            }
            continue;
        }
#pragma unroll
        for (int i = 0; i < F::CU; i++) {
            read_cell<F::P>(cell[j][i], row + (int64_t)msi_wrap_cell(u + i, a.nu) * a.n_image, a.pairs);
        }
    }
}

/* Move a thread's blocks with the window's corner. Blocks whose position changes are read. */
template <class F>
__device__ __forceinline__ void move_blocks(cplx<typename F::T> (*cell)[F::CU][F::P], block_places<F::B> *at, corner to,
                                            const window_args<typename F::T> &a, const tile_thread &t)
{
    int u = cell_at(t.place_u, to.place_u, to.u, a.window_u);
#pragma unroll
    for (int b = 0; b < F::B; b++) {
        int v = cell_at(t.place_v + b * F::CV, to.place_v, to.v, a.window_v);
        if (u != at->u || v != at->v[b]) read_block<F>(cell + b * F::CV, u, v, a, t.part.image);
        at->v[b] = v;
    }
    at->u = u;
}

/* Sum a visibility over a thread's blocks. */
template <class F>
__device__ __forceinline__ void weigh_blocks(cplx<typename F::T> *sum, const cplx<typename F::T> (*cell)[F::CU][F::P],
                                             const cplx<typename F::T> *pu, const cplx<typename F::T> *pv)
{
    using T = typename F::T;
    constexpr int PACKED = degrid_store<F>::PACKED, CV = F::CV;
    cplx<T> wu[F::CU];
    read_packs<F::CU>(pu, F::TU / F::CU * F::PACK, wu);
#pragma unroll
    for (int p = 0; p < F::P; p++) sum[p] = {0, 0};
#pragma unroll
    for (int j = 0; j < F::ROWS; j += PACKED) {
        cplx<T> wv[PACKED];
        read_packs<PACKED>(pv + j / CV * (F::TV / CV / F::B) * PACKED + j % CV * (F::TV / CV), F::PACK, wv);
#pragma unroll
        for (int r = 0; r < PACKED; r++)
#pragma unroll
            for (int p = 0; p < F::P; p++) {
                cplx<T> along = multiply(cell[j + r][0][p], wu[0]);
#pragma unroll
                for (int i = 1; i < F::CU; i++) multiply_add(along, cell[j + r][i][p], wu[i]);
                multiply_add(sum[p], along, wv[r]);
            }
    }
}

/*
 * The destination of a warp's totals: its part of shared memory; or the visibilities themselves, if the block has one
 * warp and the tile is the whole window.
 */
template <typename T> struct totals {
    T *out;           /* output of the batch's first visibility */
    int stride;       /* real numbers of a visibility */
    int number;       /* index of the total that a lane holds, of several visibilities together */
    int number_alone; /* index of the total that a lane has, of a single visibility */

    /* Find the place of real number `number` of several visibilities' P images. */
    template <int P> __device__ __forceinline__ int place(int number) const
    {
        return number / (2 * P) * stride + number % (2 * P);
    }
};

/* Sum visibilities k .. stop - 1 over a warp. The cells do not change between them. pu and pv are the staged weights of
 * visibility k. */
template <class F>
__device__ __forceinline__ void sum_run(const cplx<typename F::T> (*cell)[F::CU][F::P], const cplx<typename F::T> *pu,
                                        const cplx<typename F::T> *pv, const totals<typename F::T> &to, int k, int stop,
                                        int lane)
{
    using T = typename F::T;
    constexpr int P = F::P, M = F::M;
    const int place = to.template place<P>(to.number);
#pragma unroll 1
    for (; k + M <= stop; k += M, pu += M * F::TU, pv += M * F::TV) {
        cplx<T> sum[M * P];
#pragma unroll
        for (int m = 0; m < M; m++) weigh_blocks<F>(sum + m * P, cell, pu + m * F::TU, pv + m * F::TV);
        T total = transposed_sum<2 * P * M>((T *)sum, lane);
        if (to.number < 2 * P * M) to.out[k * to.stride + place] = total;
    }
    if constexpr (M > 1) {
#pragma unroll 1
        for (; k < stop; k++, pu += F::TU, pv += F::TV) {
            cplx<T> sum[P];
            weigh_blocks<F>(sum, cell, pu, pv);
            T total = transposed_sum<2 * P>((T *)sum, lane);
            if (to.number_alone < 2 * P) to.out[k * to.stride + to.number_alone] = total;
        }
    }
}

template <class F>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    k_window_degrid(const __grid_constant__ window_args<typename F::T> a)
{
    using T = typename F::T;
    using S = degrid_store<F>;
    constexpr int P = F::P, CV = F::CV, N = F::N;
    extern __shared__ __align__(16) unsigned char memory[];
    S &s = *(S *)memory;

    tile_thread t = find_thread<F>(a);
    const block_part &part = t.part;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool several = a.n_tile_u * a.n_tile_v > 1, direct = blockDim.x == 32 && !several;
    /* Lanes without cells use the place of the tile's first thread. Their sums stay zero. */
    if (!t.own) t.x = t.y = 0;

    cplx<T> cell[F::ROWS][F::CU][P] = {};
    block_places<F::B> at; /* no blocks have been read */
    at.u = INT32_MIN;
    for (int b = 0; b < F::B; b++) at.v[b] = INT32_MIN;
    totals<T> to = {(T *)s.part[warp], direct ? 2 * a.n_image : 2 * P, transposed_index<2 * P * F::M>(lane),
                    transposed_index<2 * P>(lane)};

    const batch_walk<F::CU, CV, T, P, N> walk = {s.batch, a, part, nullptr};
    int half = 0;
    walk.begin();
    for (int64_t done = part.begin; done < part.end; done += N, half ^= 1) {
        const int n = walk.take(done, half);
        stage_by<T>(a.lookup, [&](auto lookup) {
            stage_rows<F::CU, 1, F::TU, lookup.value>(s.u, s.batch.u, s.batch.frac_u, t.along_u, n, t.items_u);
            stage_rows<CV, F::B, F::TV, lookup.value>(s.v, s.batch.v, s.batch.frac_v, t.along_v, n, t.items_v);
        });
        __syncthreads();

        cplx<T> *value = a.value + done * a.n_image + part.image;
        if (direct) to.out = (T *)value;
        uint32_t moves = s.batch.moves;
        for (int k = 0; k < n;) {
            if (t.own && moves & (1u << k)) move_blocks<F>(cell, &at, s.batch.at[k], a, t);
            int stop = end_of_run(moves, k, n);
            const cplx<T> *pu = s.u + k * F::TU + t.x * F::PACK;
            const cplx<T> *pv = s.v + k * F::TV + t.y * S::PACKED;
            sum_run<F>(cell, pu, pv, to, k, stop, lane);
            k = stop;
        }
        if (!direct) {
            __syncthreads();
            write_totals<P>((const T *)s.part, 2 * N * P, value, a.n_image, n, several);
        }
    }
}

/* Sum a visibility over a thread's column. */
template <class F>
__device__ __forceinline__ void weigh_column(cplx<typename F::T> *sum, const cplx<typename F::T> (*cell)[F::P],
                                             const cplx<typename F::T> *w)
{
#pragma unroll
    for (int p = 0; p < F::P; p++) {
        sum[p] = multiply(cell[0][p], w[0]);
#pragma unroll
        for (int j = 1; j < F::CV; j++) multiply_add(sum[p], cell[j][p], w[j]);
    }
}

/* Degrid by full tables; see k_window_grid_full. */
template <class F>
__global__ void __launch_bounds__(F::THREADS, F::BLOCKS)
    k_window_degrid_full(const __grid_constant__ window_args<typename F::T> a)
{
    using T = typename F::T;
    constexpr int P = F::P, CV = F::CV, N = F::N;
    __shared__ batch_store<T, P, N> b;
    __shared__ cplx<T> warp_sum[(F::THREADS + 31) / 32][N * P];

    const column_thread t = find_column<F>(a);
    const block_part &part = t.part;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    bool several = a.n_tile_u * a.n_tile_v > 1, direct = blockDim.x == 32 && !several;
    totals<T> to = {(T *)warp_sum[warp], direct ? 2 * a.n_image : 2 * P, 0, transposed_index<2 * P>(lane)};

    cplx<T> cell[CV][P] = {};
    corner at = {0, 0, -1, 0}; /* none */

    const batch_walk<1, 1, T, P, N> walk = {b, a, part, nullptr};
    int half = 0;
    walk.begin();
    for (int64_t done = part.begin; done < part.end; done += N, half ^= 1) {
        const int n = walk.take(done, half);

        cplx<T> *value = a.value + done * a.n_image + part.image;
        if (direct) to.out = (T *)value;
        uint32_t moves = b.moves, changes = b.changes;
        cplx<T> w[CV], next_w[CV];
        read_column<CV>(next_w, b, 0, a, t);
        for (int k = 0; k < n;) {
#pragma unroll
            for (int j = 0; j < CV; j++) w[j] = next_w[j];
            int stop = end_of_run(changes, k, n);
            if (stop < n) read_column<CV>(next_w, b, stop, a, t);
            if (t.own && moves & (1u << k)) {
                corner c = b.at[k];
                int u = cell_at(t.place_u, c.place_u, c.u, a.window_u);
                bool all = at.place_u < 0 || u != cell_at(t.place_u, at.place_u, at.u, a.window_u);
#pragma unroll
                for (int j = 0; j < CV; j++) {
                    int row = t.place_v + j * t.step_v, v = cell_at(row, c.place_v, c.v, a.window_v);
                    if (row < a.window_v && (all || v != cell_at(row, at.place_v, at.v, a.window_v))) {
                        int64_t place = (int64_t)msi_wrap_cell(v, a.nv) * a.nu + msi_wrap_cell(u, a.nu);
                        read_cell<P>(cell[j], a.grid + place * a.n_image + part.image, a.pairs);
                    }
                }
                at = c;
            }
            cplx<T> sum[P];
            weigh_column<F>(sum, cell, w);
            T total = transposed_sum<2 * P>((T *)sum, lane);
            if (to.number_alone < 2 * P)
                for (int i = k; i < stop; i++) to.out[i * to.stride + to.number_alone] = total;
            k = stop;
        }
        if (!direct) {
            __syncthreads();
            write_totals<P>((const T *)warp_sum, 2 * N * P, value, a.n_image, n, several);
        }
    }
}

/* The kernels of degridding, for launch_form. */
struct degridding {
    static constexpr int DEGRID = 1;
    template <class F> using store = degrid_store<F>;
    template <class F> static auto full()
    {
        return k_window_degrid_full<F>;
    }
    template <class F> static auto separable()
    {
        return k_window_degrid<F>;
    }
};

template <class F> constexpr form_row form()
{
    return row_of<degridding, F>();
}

template <class F> constexpr form_row tensor()
{
    return {MSI_FP32,
            0,
            {F::P, FOUR, FOUR, F::M * SET / FOUR, F::COLUMNS, F::ROWS, MSI_WINDOW_TENSOR, 0},
            launch_tensor<F>};
}

/* Each is the fastest for some number of images and taps. Tensor cores are faster for the jobs that they support; the
 * other separable forms in fp32 are for the remaining jobs. */
const form_row FORMS[] = {
    tensor<tensor_form<1, 2, 1, 24>>(),
    tensor<tensor_form<1, 4, 2, 12>>(),
    tensor<tensor_form<1, 3, 3, 12>>(),
    tensor<tensor_form<2, 2, 1, 16>>(),
    tensor<tensor_form<2, 2, 2, 12>>(),
    tensor<tensor_form<4, 1, 2, 12>>(),
    tensor<tensor_form<4, 2, 1, 12>>(),
    form<degrid_form<window_form<float, 1, 4, 4, 2, 32, 32, 16, 16>, 4>>(),
    form<degrid_form<window_form<float, 1, 4, 4, 2, 64, 64, 32, 4>, 4>>(),
    form<degrid_form<window_form<float, 4, 4, 4, 1, 64, 32, 32, 3>, 1>>(),
    form<degrid_form<window_form<double, 1, 4, 4, 1, 64, 32, 16, 4>, 2>>(),
    form<degrid_form<window_form<double, 2, 4, 2, 1, 64, 16, 16, 4>, 1>>(),
    form<full_form<float, 1, 8, 32, 128, 6>>(),
    form<full_form<float, 4, 4, 32, 128, 6>>(),
    form<full_form<double, 1, 8, 32, 128, 4>>(),
    form<full_form<double, 4, 4, 32, 128, 3>>(),
};
constexpr int N_FORM = (int)(sizeof FORMS / sizeof FORMS[0]);

} // namespace

extern "C" int msi_window_degrid_cuda(const msi_wproj_job *job, const msi_window_shape *shape, void *stream)
{
    return launch_forms(FORMS, N_FORM, job, shape, (cudaStream_t)stream);
}

extern "C" int msi_window_degrid_shapes(const msi_wproj_job *job, msi_window_shape *shape)
{
    return list_shapes(FORMS, N_FORM, job, shape);
}
