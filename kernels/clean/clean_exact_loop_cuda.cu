/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Exact minor iterations on whole images, in a grid of as many blocks as there are multiprocessors. One launch runs
 * thousands of iterations.
 *
 * The image is cut into tiles 32 pixels wide, each owned by one block; neighbouring tiles belong to different blocks,
 * so that a patch of the PSF keeps all of them busy. A block keeps the best pixel of each of its tiles in shared
 * memory. An iteration:
 * 1. Blocks post their best pixel in global memory.
 * 2. Every block reads all posts and finds the winner.
 * 3. Each block subtracts the component from its tiles under the PSF, a warp for each tile, and finds their best again.
 *
 * Only the owner of a pixel reads and writes it, so blocks wait only for posts. The words of a post contain the number
 * of the iteration. So a reader knows which words are valid, in any order in which they arrive. There are
 * several copies of a post, so that not all blocks read the same one.
 */
#include "kernels/clean/clean_loop_cuda.cuh"
#include "kernels/clean/cleaner_spec.h"

namespace {

constexpr int THREADS = 512, WARPS = THREADS / 32, MOST_BLOCKS = 256, COPIES = 8, TILE_WIDTH = 32, ROWS = 8;

template <typename T> struct exact_job : loop_job<T> {
    T *residual, *model;
    int64_t residual_stride, model_stride;
    const T *factor;
    const uint8_t *allow;
    uint16_t *found;
    int64_t n_pixel;
    int wide, high; /* the patch */
    int tile_height, tiles_x, tiles_y, slots_of_row, n_slot;
    uint64_t *mail; /* [2][COPIES][n_word][gridDim.x] */
    uint32_t generation;
};

template <typename T> struct best_pixel {
    T value;
    uint32_t place;
};

/* The best pixel of a lane so far, and its key. */
template <typename T> struct lane_best {
    best_pixel<T> pixel = {0, MSI_CLEAN_NOWHERE};
    T key = 0;

    __device__ __forceinline__ void take(T other, T value, int x, int y)
    {
        if (other > key) {
            key = other;
            pixel = {value, msi_clean_place((uint32_t)x, (uint32_t)y)};
        }
    }
};

/* A post's words: value (two for a double) and place, in pairs that are read together; then the residuals of all planes
 * at the pixel. */
template <typename T> constexpr int WORDS = sizeof(T) / 4;
template <typename T> constexpr int PAIRS = (WORDS<T> + 2) / 2;

template <typename T> __host__ __device__ int words_of(int n_plane)
{
    /* An even number, so that pairs are aligned for any number of blocks. */
    return 2 * PAIRS<T> + (WORDS<T> * n_plane + 1) / 2 * 2;
}

__device__ __forceinline__ uint32_t half_of(float v, int)
{
    return __float_as_uint(v);
}
__device__ __forceinline__ uint32_t half_of(double v, int half)
{
    return (uint32_t)((uint64_t)__double_as_longlong(v) >> 32 * half);
}
__device__ __forceinline__ float number_of(uint32_t low, uint32_t, float)
{
    return __uint_as_float(low);
}
__device__ __forceinline__ double number_of(uint32_t low, uint32_t high, double)
{
    return __longlong_as_double((long long)((uint64_t)high << 32 | low));
}

/* The two words of a block's pair are adjacent; pairs, and other words, of all blocks follow each other. */
template <typename T>
__device__ __forceinline__ uint64_t *post_at(const exact_job<T> &job, uint32_t generation, int copy, int word,
                                             int block)
{
    const int n_word = words_of<T>(job.j.n_channel * job.j.n_pol);
    uint64_t *first = job.mail + ((int64_t)(generation & 1) * COPIES + copy) * n_word * gridDim.x;
    if (word >= 2 * PAIRS<T>) return first + (int64_t)word * gridDim.x + block;
    return first + (int64_t)(word & ~1) * gridDim.x + 2 * block + (word & 1);
}

template <typename T>
__device__ __forceinline__ void post(const exact_job<T> &job, uint32_t generation, int copy, int word, uint32_t v)
{
    __stcg((unsigned long long *)post_at(job, generation, copy, word, blockIdx.x),
           (unsigned long long)v << 32 | generation);
}

/* Wait for a word, and read it. */
template <typename T>
__device__ __forceinline__ uint32_t read_post(const exact_job<T> &job, uint32_t generation, int word, int block)
{
    const volatile unsigned long long *at =
        (const volatile unsigned long long *)post_at(job, generation, (int)blockIdx.x % COPIES, word, block);
    unsigned long long v = *at;
    while ((uint32_t)v != generation) v = *at;
    return (uint32_t)(v >> 32);
}

/* Wait for both words of a pair, and read them. */
template <typename T>
__device__ __forceinline__ uint2 read_pair(const exact_job<T> &job, uint32_t generation, int pair, int block)
{
    const uint64_t *at = post_at(job, generation, (int)blockIdx.x % COPIES, 2 * pair, block);
    unsigned long long first, second;
    do asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(at) : "memory");
    while ((uint32_t)first != generation || (uint32_t)second != generation);
    return make_uint2((uint32_t)(first >> 32), (uint32_t)(second >> 32));
}

/* Read a block's best. */
template <typename T>
__device__ __forceinline__ best_pixel<T> read_block(const exact_job<T> &job, uint32_t generation, int block)
{
    const uint2 a = read_pair(job, generation, 0, block);
    if (WORDS<T> == 1) return {number_of(a.x, 0, T(0)), a.y};
    return {number_of(a.x, a.y, T(0)), read_pair(job, generation, 1, block).x};
}

template <typename T>
__device__ __forceinline__ T read_number(const exact_job<T> &job, uint32_t generation, int word, int block)
{
    const uint32_t low = read_post(job, generation, word, block);
    return number_of(low, WORDS<T> == 2 ? read_post(job, generation, word + 1, block) : 0, T(0));
}

/* The beginning of a block's shared memory. tile_value and tile_place [n_slot] follow it, then component [n_plane]. */
template <typename T> struct block_state {
    best_pixel<T> of_warp[WARPS];
    int of_block[WARPS];
};

template <typename T> struct block_view {
    block_state<T> *state;
    T *tile_value, *component;
    uint32_t *tile_place;
};

template <typename T> __device__ __forceinline__ block_view<T> lay_out(const exact_job<T> &job, char *bytes)
{
    block_view<T> v;
    v.state = reinterpret_cast<block_state<T> *>(bytes);
    v.tile_value = reinterpret_cast<T *>(v.state + 1);
    v.component = v.tile_value + job.n_slot;
    v.tile_place = reinterpret_cast<uint32_t *>(v.component + job.j.n_channel * job.j.n_pol);
    return v;
}

/* A component to subtract, and the pixels that it affects. */
template <typename T> struct reach {
    const T *psf;
    int to_x, to_y; /* the PSF's pixel that falls on (0, 0) */
    int x0, x1, y0, y1;
};

template <typename T> __device__ __forceinline__ reach<T> reach_of(const exact_job<T> &job, uint32_t place)
{
    const int x = (int)msi_clean_x(place), y = (int)msi_clean_y(place);
    reach<T> r;
    r.psf = psf_at(job, place);
    r.to_x = job.nx / 2 - x;
    r.to_y = job.ny / 2 - y;
    r.x0 = max(max(x - job.wide / 2, 0), -r.to_x);
    r.x1 = min(min(x - job.wide / 2 + job.wide, job.nx), job.nx - r.to_x);
    r.y0 = max(max(y - job.high / 2, 0), -r.to_y);
    r.y1 = min(min(y - job.high / 2 + job.high, job.ny), job.ny - r.to_y);
    return r;
}

/* Subtract a component from the affected pixels in a column of ROWS rows, one column for each lane, and find its best:
 * for one plane. */
template <typename T>
__device__ __forceinline__ void rows_of_one(const exact_job<T> &job, const reach<T> &r, bool subtract, T component,
                                            int x, int y0, lane_best<T> *best)
{
    T value[ROWS], psf[ROWS];
    bool allowed[ROWS], inside[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        const int y = y0 + k;
        const bool in_image = x < job.nx && y < job.ny;
        const int64_t i = (int64_t)y * job.nx + x;
        inside[k] = in_image && subtract && x >= r.x0 && x < r.x1 && y >= r.y0 && y < r.y1;
        value[k] = in_image ? job.residual[i] : T(0);
        psf[k] = inside[k] ? __ldg(r.psf + (int64_t)(y + r.to_y) * job.nx + x + r.to_x) : T(0);
        allowed[k] = in_image && (!job.allow || __ldg(job.allow + i));
    }
#pragma unroll
    for (int k = 0; k < ROWS; k++) {
        if (inside[k]) {
            value[k] = fma(-component, psf[k], value[k]);
            job.residual[(int64_t)(y0 + k) * job.nx + x] = value[k];
        }
        const T key = allowed[k] ? key_of(value[k], job.j.no_negative) : T(0);
        best->take(key, value[k], x, y0 + k);
    }
}

/* Do the same for several planes, or with a factor of local noise. */
template <typename T>
__device__ __forceinline__ void rows_of_planes(const exact_job<T> &job, const reach<T> &r, bool subtract,
                                               const T *component, int x, int y0, lane_best<T> *best)
{
    for (int y = y0; y < min(y0 + ROWS, job.ny) && x < job.nx; y++) {
        const int64_t i = (int64_t)y * job.nx + x;
        if (subtract && x >= r.x0 && x < r.x1 && y >= r.y0 && y < r.y1)
            for (int c = 0; c < job.j.n_channel; c++) {
                const T psf = __ldg(r.psf + c * job.n_pixel + (int64_t)(y + r.to_y) * job.nx + x + r.to_x);
                for (int k = c * job.j.n_pol; k < (c + 1) * job.j.n_pol; k++) {
                    T *at = job.residual + k * job.residual_stride + i;
                    *at = fma(-component[k], psf, *at);
                }
            }
        if (job.allow && !__ldg(job.allow + i)) continue;
        T q = quantity_of(&job.j, job.share, job.residual + i, job.residual_stride);
        if (job.factor) q *= job.factor[i];
        best->take(key_of(q, job.j.no_negative), q, x, y);
    }
}

/* Process a tile, by a warp. */
template <typename T, bool ONE>
__device__ __forceinline__ void take_tile(const exact_job<T> &job, const block_view<T> &v, const reach<T> &r,
                                          bool subtract, int tx, int ty)
{
    lane_best<T> best;
    const int x = tx * TILE_WIDTH + (int)threadIdx.x % 32, slot = ty * job.slots_of_row + tx / (int)gridDim.x;
    for (int y = ty * job.tile_height; y < min((ty + 1) * job.tile_height, job.ny); y += ROWS)
        if (ONE)
            rows_of_one(job, r, subtract, v.component[0], x, y, &best);
        else
            rows_of_planes(job, r, subtract, v.component, x, y, &best);
    if (!is_best_of_warp(best.key, best.pixel.place)) return;
    v.tile_value[slot] = best.pixel.value;
    v.tile_place[slot] = best.pixel.place;
}

/* Process the block's tiles under a rectangle of pixels: tile (tx, ty) belongs to block (tx + SKEW ty) modulo the
 * number of blocks. Every warp counts the tiles in the same way and processes its share. */
template <typename T, bool ONE>
__device__ void take_tiles(const exact_job<T> &job, const block_view<T> &v, const reach<T> &r, bool subtract)
{
    constexpr int SKEW = 17;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_block = gridDim.x;
    const int tx0 = r.x0 / TILE_WIDTH, tx1 = (r.x1 - 1) / TILE_WIDTH;
    const int ty0 = r.y0 / job.tile_height, ty1 = (r.y1 - 1) / job.tile_height;
    int count = 0;
    for (int base = ty0; base <= ty1; base += 32) {
        const int ty = base + lane, owner = (tx0 + SKEW * ty) % n_block;
        const int first = tx0 + ((int)blockIdx.x - owner + n_block) % n_block;
        unsigned rows = __ballot_sync(ALL, ty <= ty1 && first <= tx1);
        for (; rows; rows &= rows - 1) {
            const int from = __ffs(rows) - 1;
            for (int tx = __shfl_sync(ALL, first, from); tx <= tx1; tx += n_block)
                if (count++ % WARPS == warp) take_tile<T, ONE>(job, v, r, subtract, tx, base + from);
        }
    }
}

/* Find the block's best, in all lanes of warp 0. */
template <typename T>
__device__ __forceinline__ best_pixel<T> best_of_block(const exact_job<T> &job, const block_view<T> &v)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    best_pixel<T> best = {0, MSI_CLEAN_NOWHERE};
    T most = 0;
    for (int slot = threadIdx.x; slot < job.n_slot; slot += THREADS) {
        const T key = key_of(v.tile_value[slot], job.j.no_negative);
        const uint32_t place = v.tile_place[slot];
        if (key > most || (key == most && key > 0 && place < best.place)) {
            most = key;
            best = {v.tile_value[slot], place};
        }
    }
    if (is_best_of_warp(most, best.place)) v.state->of_warp[warp] = best;
    __syncthreads();
    best = lane < WARPS ? v.state->of_warp[lane] : best_pixel<T>{0, MSI_CLEAN_NOWHERE};
    const int from = __ffs(__ballot_sync(ALL, is_best_of_warp(key_of(best.value, job.j.no_negative), best.place))) - 1;
    best.value = __shfl_sync(ALL, best.value, from);
    best.place = __shfl_sync(ALL, best.place, from);
    return best;
}

template <typename T> __device__ __forceinline__ int64_t pixel_at(const exact_job<T> &job, uint32_t place)
{
    return (int64_t)msi_clean_y(place) * job.nx + msi_clean_x(place);
}

/* Post the block's best, by warp 0: place, value, and for several planes the residuals there. */
template <typename T, bool ONE>
__device__ __forceinline__ void post_best(const exact_job<T> &job, uint32_t generation, const best_pixel<T> &best)
{
    const int n_plane = job.j.n_channel * job.j.n_pol, lane = threadIdx.x;
    const int n_word = ONE ? 2 * PAIRS<T> : words_of<T>(n_plane);
    const int64_t pixel = best.place == MSI_CLEAN_NOWHERE ? 0 : pixel_at(job, best.place);
    for (int i = lane; i < n_word * COPIES; i += 32) {
        const int copy = i % COPIES, word = i / COPIES, k = word - 2 * PAIRS<T>;
        uint32_t v = best.place;
        if (word < WORDS<T>) v = half_of(best.value, word);
        if (k >= 0 && k < WORDS<T> * n_plane)
            v = half_of(job.residual[k / WORDS<T> * job.residual_stride + pixel], k % WORDS<T>);
        post(job, generation, copy, word, v);
    }
}

/* Read the best of all blocks, in all threads; *block is the winner. */
template <typename T>
__device__ __forceinline__ best_pixel<T> read_best(const exact_job<T> &job, const block_view<T> &v, uint32_t generation,
                                                   int *block)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    best_pixel<T> best = {0, MSI_CLEAN_NOWHERE};
    if (warp * 32 < (int)gridDim.x) {
        if (threadIdx.x < gridDim.x) best = read_block(job, generation, threadIdx.x);
        if (is_best_of_warp(key_of(best.value, job.j.no_negative), best.place)) {
            v.state->of_warp[warp] = best;
            v.state->of_block[warp] = threadIdx.x;
        }
    }
    __syncthreads();
    best = {0, MSI_CLEAN_NOWHERE};
    if (lane * 32 < (int)gridDim.x) best = v.state->of_warp[lane];
    const int from = __ffs(__ballot_sync(ALL, is_best_of_warp(key_of(best.value, job.j.no_negative), best.place))) - 1;
    best.value = __shfl_sync(ALL, best.value, from);
    best.place = __shfl_sync(ALL, best.place, from);
    *block = v.state->of_block[from];
    return best;
}

/* Compute the winner's component from the residuals that its block posted, by warp 0. */
template <typename T>
__device__ __forceinline__ void read_component(const exact_job<T> &job, const block_view<T> &v, uint32_t generation,
                                               int block)
{
    __shared__ T r[MSI_CLEAN_MAX_PLANE];
    const int lane = threadIdx.x, n_plane = job.j.n_channel * job.j.n_pol;
    for (int k = lane; k < n_plane; k += 32) r[k] = read_number(job, generation, 2 * PAIRS<T> + WORDS<T> * k, block);
    __syncwarp();
    make_component<T>(job, job.share, {r, 1}, v.component);
}

/* Set bit 0 of a number, by an atomic operation on its word whose result is not used, so that the thread need not
 * wait. */
__device__ __forceinline__ void set_found(uint16_t *found)
{
    const uintptr_t at = reinterpret_cast<uintptr_t>(found);
    atomicOr(reinterpret_cast<unsigned *>(at & ~(uintptr_t)3), at & 2 ? 0x10000u : 1u);
}

/* Record the winner's component and add it to the model, by its block. */
template <typename T>
__device__ __forceinline__ void record(const exact_job<T> &job, const block_view<T> &v, uint32_t place, int iteration)
{
    static_assert(MSI_CLEAN_MAX_PLANE <= THREADS, "each plane has a thread");
    const int n_plane = job.j.n_channel * job.j.n_pol, k = THREADS - 1 - (int)threadIdx.x;
    const int64_t pixel = pixel_at(job, place);
    if (k == 0) {
        job.place[iteration] = place;
        if (job.found) set_found(job.found + pixel);
    }
    if (k >= n_plane) return;
    job.value[(int64_t)iteration * n_plane + k] = v.component[k];
    atomicAdd(&job.model[k * job.model_stride + pixel], v.component[k]);
}

template <typename T, bool ONE> __global__ void __launch_bounds__(THREADS, 1) k_exact_loop(exact_job<T> job)
{
    extern __shared__ __align__(16) char bytes[];
    const block_view<T> v = lay_out<T>(job, bytes);
    reach<T> r = {job.psf, 0, 0, 0, job.nx, 0, job.ny};
    best_pixel<T> winner;
    int iteration = 0, end;
    for (int slot = threadIdx.x; slot < job.n_slot; slot += THREADS) v.tile_value[slot] = 0;
    for (int slot = threadIdx.x; slot < job.n_slot; slot += THREADS) v.tile_place[slot] = MSI_CLEAN_NOWHERE;
    if (threadIdx.x == 0) v.component[0] = 0;
    __syncthreads();
    for (;; iteration++) {
        const uint32_t generation = job.generation + (uint32_t)iteration;
        int block;
        take_tiles<T, ONE>(job, v, r, iteration > 0);
        __syncthreads();
        const best_pixel<T> block_best = best_of_block(job, v);
        if (threadIdx.x < 32) post_best<T, ONE>(job, generation, block_best);
        __syncthreads();
        winner = read_best(job, v, generation, &block);
        end = end_at(key_of(winner.value, job.j.no_negative), winner.value, job.threshold, job.diverged,
                     job.stop_negative);
        if (end >= 0 || iteration == job.n_iteration) break;
        if (ONE) {
            if (threadIdx.x == 0) v.component[0] = job.gain * winner.value;
        } else if (threadIdx.x < 32) {
            read_component(job, v, generation, block);
        }
        __syncthreads();
        if (block == (int)blockIdx.x) record(job, v, winner.place, iteration);
        r = reach_of(job, winner.place);
    }
    if (blockIdx.x || threadIdx.x) return;
    *job.end = {iteration, (double)key_of(winner.value, job.j.no_negative), (double)winner.value, winner.place,
                end < 0 ? MSI_CLEAN_END_MORE : end};
}

/* Cut the image into tiles whose best pixels fit in a block's shared memory. */
template <typename T> int lay_tiles(const msi_clean_engine *e, exact_job<T> *job, int n_block, size_t *bytes)
{
    size_t most;
    const size_t fixed = sizeof(block_state<T>) + sizeof(T) * (size_t)e->n_plane + 1024;
    MSI_TRY(block_shared_bytes(&most));
    job->tiles_x = (int)((e->s.nx + TILE_WIDTH - 1) / TILE_WIDTH);
    job->slots_of_row = (job->tiles_x + n_block - 1) / n_block;
    for (job->tile_height = ROWS;; job->tile_height *= 2) {
        job->tiles_y = (int)((e->s.ny + job->tile_height - 1) / job->tile_height);
        job->n_slot = job->tiles_y * job->slots_of_row;
        *bytes = fixed + (size_t)job->n_slot * (sizeof(T) + sizeof(uint32_t));
        if (*bytes <= most / 2 || job->tile_height >= e->s.ny) return MSI_OK;
    }
}

template <typename T> exact_job<T> job_of(msi_clean_engine *e, const msi_clean_loop *loop)
{
    exact_job<T> job = {};
    static_cast<loop_job<T> &>(job) = loop_job_of<T>(e, loop);
    job.residual = (T *)loop->residual;
    job.model = (T *)loop->model;
    job.residual_stride = loop->residual_stride;
    job.model_stride = loop->model_stride;
    job.factor = (const T *)loop->factor;
    job.allow = loop->allow;
    job.found = loop->found;
    job.n_pixel = e->n_pixel;
    job.wide = (int)(e->s.patch ? std::min(e->s.patch, e->s.nx) : e->s.nx);
    job.high = (int)(e->s.patch ? std::min(e->s.patch, e->s.ny) : e->s.ny);
    if (!e->s.patch || e->s.patch >= e->s.nx) job.wide = 2 * job.nx;
    if (!e->s.patch || e->s.patch >= e->s.ny) job.high = 2 * job.ny;
    return job;
}

/* Memory for posts is allocated when the first loop runs, with generation 0; all blocks of a loop must run at once. */
template <typename T, bool ONE> int run(msi_clean_engine *e, const msi_clean_loop *loop)
{
    exact_job<T> job = job_of<T>(e, loop);
    const int n_block = std::min(e->n_multiprocessor, MOST_BLOCKS);
    const int64_t mail_bytes = 2 * COPIES * (int64_t)words_of<T>(e->n_plane) * n_block * (int64_t)sizeof *e->mail;
    size_t bytes;
    MSI_TRY(lay_tiles(e, &job, n_block, &bytes));
    if (!e->mail) {
        MSI_TRY(allocate(&e->mail, mail_bytes / (int64_t)sizeof *e->mail, "a loop's messages"));
        MSI_CUDA(cudaMemsetAsync(e->mail, 0, (size_t)mail_bytes, clean_stream(e)));
    }
    job.mail = e->mail;
    job.generation = e->generation + 1;
    e->generation += (uint32_t)loop->n_iteration + 2;
    MSI_TRY((allow_shared(k_exact_loop<T, ONE>, bytes)));
    void *arguments[] = {&job};
    MSI_CUDA(cudaLaunchCooperativeKernel(k_exact_loop<T, ONE>, dim3((unsigned)n_block), dim3(THREADS), arguments, bytes,
                                         clean_stream(e)));
    return MSI_OK;
}

} // namespace

int msi_clean_exact_loop_cuda(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_TRY(at_form(e, loop->factor != nullptr,
                    [&](auto number, auto one) { return run<decltype(number), decltype(one)::value>(e, loop); }));
    return msi_clean_fetch_loop_cuda(e, done);
}
