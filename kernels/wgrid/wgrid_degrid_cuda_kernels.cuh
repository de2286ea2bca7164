/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels of the default gridder's transpose on the GPU; wgrid_degrid_cuda.cu says how they work together. */
#ifndef MSI_KERNELS_WGRID_DEGRID_CUDA_KERNELS_CUH
#define MSI_KERNELS_WGRID_DEGRID_CUDA_KERNELS_CUH

#include "kernels/gpu/warp_sum_cuda.cuh"
#include "kernels/wgrid/wgrid_widths_cuda.cuh"

namespace {

/* A job of the degridding kernels: they read cells of one image's planes and write samples' values. */
template <typename T> struct degrid_job {
    const tap_table<T> *taps;
    const uint32_t *index; /* sorted; NULL: samples themselves are in order */
    const void *records;   /* record<T> of each sample, so many bytes from one to the next */
    int64_t record_bytes;
    const cplx<T> *grid;
    cplx<T> *value; /* [n_sample]; the planes' part of a sample is added where `add`, else stored */
    bool add;

    __device__ uint32_t sample(uint32_t place) const
    {
        return index ? index[place] : place;
    }
    __device__ const record<T> &record_of(uint32_t sample) const
    {
        return *reinterpret_cast<const record<T> *>(static_cast<const char *>(records) + sample * record_bytes);
    }
};

template <typename T> __device__ void store_value(cplx<T> *to, T re, T im, bool add)
{
    if (add) {
        re += to->re;
        im += to->im;
    }
    *to = {re, im};
}

/* Samples whose partial sums a warp holds before it adds them up: as many as leave registers for the rest. */
template <int WIDTH> constexpr int HELD = WIDTH <= 8 ? 8 : 4;

/* A warp degrids an item of at most 32 samples: lanes are cells of a row of taps, several rows at a time. */
template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(32 * WARPS<T, WIDTH>)
    k_degrid_sparse(msi_wgrid_geometry g, degrid_job<T> job, PLANES there, const item *items, int64_t n_item)
{
    using shape = tap_shape<WIDTH, HAS_W>;
    constexpr int N_COEF = shape::N_COEF, N_TAP = shape::N_TAP, ROW = shape::ROW, ROWS = shape::ROWS;
    constexpr int N_WARP = WARPS<T, WIDTH>;
    __shared__ T table[N_COEF][N_TAP];
    __shared__ T tap[N_WARP][32][N_TAP + 1];
    load_taps<T, N_COEF, WIDTH, N_TAP>(job.taps, table);
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int column = lane % ROW, first_row = lane / ROW;
    for (int64_t k = (int64_t)blockIdx.x * N_WARP + warp; k < n_item; k += (int64_t)gridDim.x * N_WARP) {
        item here = items[k];
        int n = (int)here.n;
        uint32_t sample = job.sample(here.first + (lane < n ? lane : n - 1));
        record<T> r = job.record_of(sample);
        patch from = there.find(g, r); /* the same for all of an item */
        if (from.k_first >= from.k_end) continue;
        __syncwarp();
        for (int i = 0; i < n; i++) {
            T z[3] = {__shfl_sync(~0u, r.zu, i), __shfl_sync(~0u, r.zv, i), __shfl_sync(~0u, r.zw, i)};
            for (int t = lane; t < N_TAP; t += 32)
                tap[warp][i][t] = tap_value<T, N_COEF, N_TAP>(table, t, t < WIDTH ? z[0] : t < 2 * WIDTH ? z[1] : z[2]);
        }
        __syncwarp();
        int k_end = HAS_W ? from.k_end : 1;
        int64_t planes = from.origin + from.k_first * from.plane_cells;
        T my_re = 0, my_im = 0;
        for (int i = 0; i < n; i++) {
            int u0 = __shfl_sync(~0u, r.u0, i), v0 = __shfl_sync(~0u, r.v0, i);
            T re = 0, im = 0;
            if (column < WIDTH) {
                int iu = msi_wrap_cell(u0 + column + from.shift_u, from.n_u);
                for (int j = first_row; j < WIDTH; j += ROWS) {
                    int iv = msi_wrap_cell(v0 + j + from.shift_v, from.n_v);
                    const cplx<T> *cell = job.grid + planes + (int64_t)iv * from.n_u + iu;
                    T a = 0, b = 0;
                    for (int w = from.k_first; w < k_end; w++, cell += from.plane_cells) {
                        T kw = HAS_W ? tap[warp][i][2 * WIDTH + w] : (T)1;
                        cplx<T> c = complex_cuda::read_only(cell);
                        a += kw * c.re;
                        b += kw * c.im;
                    }
                    T kv = tap[warp][i][WIDTH + j];
                    re += kv * a;
                    im += kv * b;
                }
                T ku = tap[warp][i][column];
                re *= ku;
                im *= ku;
            }
            for (int s = 16; s; s /= 2) {
                re += __shfl_xor_sync(~0u, re, s);
                im += __shfl_xor_sync(~0u, im, s);
            }
            if (lane == i) {
                my_re = re;
                my_im = im;
            }
        }
        if (lane < n) store_value(job.value + sample, my_re, my_im, job.add);
    }
}

/* Sizes of a crowded item's shared memory; the pitch as in gridding. */
template <typename T, int WIDTH, bool HAS_W> struct degrid_tile : tap_shape<WIDTH, HAS_W> {
    static constexpr int SIDE = TILE + WIDTH - 1;
    static constexpr int PITCH = sizeof(T) == 4 ? (SIDE + 7) / 16 * 16 + 8 : (SIDE + 3) / 8 * 8 + 4;
    static constexpr int SLICE = SIDE * PITCH;
    static constexpr int N_SLICE = HAS_W ? WIDTH : 1;
    static constexpr int THREADS = 256;
    static constexpr size_t BYTES = sizeof(cplx<T>) * N_SLICE * SLICE + sizeof(T) * THREADS * (degrid_tile::N_TAP + 1);
};

/*
 * A block degrids an item of up to MOST_IN_COPY samples of one tile and first w-plane: the tile's cells go to shared
 * memory once, then every warp takes 32 samples at a time as k_degrid_sparse does.
 */
template <typename T, int WIDTH, bool HAS_W, typename PLANES>
__global__ void __launch_bounds__(degrid_tile<T, WIDTH, HAS_W>::THREADS)
    k_degrid_crowded(msi_wgrid_geometry g, degrid_job<T> job, PLANES there, const item *items)
{
    using shape = degrid_tile<T, WIDTH, HAS_W>;
    constexpr int N_COEF = shape::N_COEF, N_TAP = shape::N_TAP, ROW = shape::ROW, ROWS = shape::ROWS;
    __shared__ T table[N_COEF][N_TAP];
    extern __shared__ float memory[];
    cplx<T> *tile = (cplx<T> *)memory;
    T *all_taps = (T *)(tile + shape::N_SLICE * shape::SLICE);

    item here = items[blockIdx.x];
    record<T> first = job.record_of(job.sample(here.first));
    patch from = there.find(g, first);
    if (from.k_first >= from.k_end) return;
    load_taps<T, N_COEF, WIDTH, N_TAP>(job.taps, table);
    int u_first = (int)((first.u0 + g.nu / 2 + g.width) / TILE * TILE - g.nu / 2 - g.width);
    int v_first = (int)((first.v0 + g.nv / 2 + g.width) / TILE * TILE - g.nv / 2 - g.width);
    for (int i = threadIdx.x; i < shape::N_SLICE * shape::SIDE * shape::SIDE; i += blockDim.x) {
        int slice = i / (shape::SIDE * shape::SIDE), row = i / shape::SIDE % shape::SIDE, col = i % shape::SIDE;
        cplx<T> cell = {0, 0};
        if (slice >= from.k_first && slice < from.k_end) {
            int iu = msi_wrap_cell(u_first + col + from.shift_u, from.n_u),
                iv = msi_wrap_cell(v_first + row + from.shift_v, from.n_v);
            cell = complex_cuda::read_only(job.grid + from.origin + slice * from.plane_cells + (int64_t)iv * from.n_u +
                                           iu);
        }
        tile[slice * shape::SLICE + row * shape::PITCH + col] = cell;
    }
    __syncthreads();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int column = lane % ROW, first_row = lane / ROW;
    T *tap = all_taps + warp * 32 * (N_TAP + 1);
    for (uint32_t done = warp * 32; done < here.n; done += blockDim.x) {
        int n = min(32, (int)(here.n - done));
        uint32_t sample = job.sample(here.first + done + (lane < n ? lane : n - 1));
        record<T> r = job.record_of(sample);
        int offset = (r.v0 - v_first) * shape::PITCH + r.u0 - u_first;
        __syncwarp();
        for (int t = 0; t < N_TAP; t++)
            tap[lane * (N_TAP + 1) + t] = tap_value<T, N_COEF, N_TAP>(table, t,
                                                                      t < WIDTH       ? r.zu
                                                                      : t < 2 * WIDTH ? r.zv
                                                                                      : r.zw);
        __syncwarp();
        constexpr int N = HELD<WIDTH>;
        T my_re = 0, my_im = 0;
        for (int held = 0; held < n; held += N) {
            T re[N], im[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                re[i] = im[i] = 0;
                /* Lanes beyond the item's samples repeat its last one. */
                int at = __shfl_sync(~0u, offset, held + i);
                const T *k = tap + (held + i) * (N_TAP + 1);
                if (column >= WIDTH) continue;
                const cplx<T> *cell = tile + at + column;
#pragma unroll
                for (int j0 = 0; j0 < WIDTH; j0 += ROWS) {
                    int j = j0 + first_row;
                    if (WIDTH % ROWS && j >= WIDTH) continue;
                    T a = 0, b = 0;
#pragma unroll
                    for (int w = 0; w < shape::N_SLICE; w++) {
                        T kw = HAS_W ? k[2 * WIDTH + w] : (T)1;
                        cplx<T> c = cell[w * shape::SLICE + j * shape::PITCH];
                        a += kw * c.re;
                        b += kw * c.im;
                    }
                    re[i] += k[WIDTH + j] * a;
                    im[i] += k[WIDTH + j] * b;
                }
                re[i] *= k[column];
                im[i] *= k[column];
            }
            T sum_re = warp_sum::sum_by_low_bits<N>(re, lane), sum_im = warp_sum::sum_by_low_bits<N>(im, lane);
            if (lane / N * N == held) {
                my_re = sum_re;
                my_im = sum_im;
            }
        }
        if (lane < n) store_value(job.value + sample, my_re, my_im, job.add);
    }
}

/* Make visibilities of sums: turn them back by the field's mean n - 1, conjugate them where w < 0. */
template <typename T>
__global__ void k_finish(msi_wgrid_geometry g, const segment_view *segments, const double *freq_hz, const double *uvw_m,
                         int64_t n_sample, int n_image, cplx<T> *value)
{
    segment_view s = segments[blockIdx.x];
    int64_t n = (int64_t)s.n_row * s.n_chan;
    for (int64_t i = (int64_t)blockIdx.y * blockDim.x + threadIdx.x; i < n; i += (int64_t)gridDim.y * blockDim.x) {
        double w = uvw_m[3 * (s.first_row + i / s.n_chan) + 2];
        double turns = fabs(w) * freq_hz[s.first_freq + i % s.n_chan] * g.w_lambda_per_m_hz * g.n_mid;
        T sine, cosine;
        sincos_turns((T)(turns - rint(turns)), &sine, &cosine);
        for (int p = 0; p < n_image; p++) {
            cplx<T> *v = value + p * n_sample + s.first_sample + i, x = *v;
            T im = x.im * cosine + x.re * sine;
            *v = {x.re * cosine - x.im * sine, w < 0 ? -im : im};
        }
    }
}

/* Samples that make an item crowded: what copying its tile is worth. */
constexpr uint32_t LEAST_COPIED = 32;

/* The same; UNUSED where no block can hold a tile. */
template <typename T> uint32_t least_copied(int width, size_t shared_bytes)
{
    size_t need = width <= 8    ? degrid_tile<T, 8, true>::BYTES
                  : width <= 12 ? degrid_tile<T, 12, true>::BYTES
                                : degrid_tile<T, 16, true>::BYTES;
    return need + 4096 <= shared_bytes ? LEAST_COPIED : UNUSED;
}

template <typename T, int WIDTH, bool HAS_W, typename PLANES>
int launch_degridding(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there, item_range crowded,
                      item_range sparse, cudaStream_t stream)
{
    using shape = degrid_tile<T, WIDTH, HAS_W>;
    if (crowded.n) {
        MSI_CUDA(cudaFuncSetAttribute(k_degrid_crowded<T, WIDTH, HAS_W, PLANES>,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shape::BYTES));
        k_degrid_crowded<T, WIDTH, HAS_W, PLANES>
            <<<(unsigned)crowded.n, shape::THREADS, shape::BYTES, stream>>>(g, job, there, crowded.first);
        MSI_CUDA(cudaGetLastError());
    }
    return launch_sparse<T, WIDTH>(k_degrid_sparse<T, WIDTH, HAS_W, PLANES>, g, job, there, sparse, stream);
}

/* Launch the kernels of the plan's window that degrid items from planes of either kind. */
template <typename T, typename PLANES>
int degrid_items(const msi_wgrid_geometry &g, const degrid_job<T> &job, const PLANES &there, item_range crowded,
                 item_range sparse, cudaStream_t stream)
{
    return at_width<PLANES>(g, [&](auto width, auto has_w) {
        return launch_degridding<T, width, has_w, PLANES>(g, job, there, crowded, sparse, stream);
    });
}

} // namespace

#endif
