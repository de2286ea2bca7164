/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only, for the problem of Adamek et al. (2021). The product grids subgrids with kernels/towers.
 *
 * A counting sort by tile. The visibilities of a subgrid are contiguous, so a block counts a chunk of one subgrid's
 * visibilities by tile in shared memory; only the sums of a chunk are added in global memory. A second kernel, with one
 * block for each subgrid, converts counts to positions and divides the tiles into items. A third kernel counts each
 * chunk again, reserves its positions in every tile, sorts the chunk in shared memory, and writes it in runs, because
 * scattered words would each take a sector of 32 bytes. The coordinates are read twice, and the result is written once.
 *
 * For few visibilities three launches take longer than the work. Then, if the device supports clusters of blocks, one
 * kernel does all steps, with a cluster for each subgrid. Its blocks keep their visibilities in registers and read each
 * other's counts.
 */
#include "kernels/stacks/stack_degrid_cuda.h"

#include <algorithm>
#include <vector>

#include <cooperative_groups.h>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/gpu/hopper_cuda.cuh"

namespace {

constexpr int THREADS = 512, WARPS = THREADS / 32, EACH = 16, BATCH = 4, CHUNK = THREADS * EACH, SCAN = 1024;
constexpr int CLUSTER = 4; /* blocks */
constexpr int MAX_TILES = MSI_STACK_MAX_TILES;
constexpr int TILES_A_THREAD = (MAX_TILES + THREADS - 1) / THREADS, TILES_A_SCANNER = (MAX_TILES + SCAN - 1) / SCAN;
constexpr uint32_t ALL_LANES = 0xffffffffu;
static_assert(MAX_TILES <= 1 << 16 && CHUNK <= 1 << 16, "tile and rank share a word");

struct chunk {
    int32_t subgrid;
    uint32_t first, n;
};

/* A tiling of a subgrid: x / tile for 0 <= x < 512 is x inverse >> 16. */
struct tiling {
    int32_t size;
    msi_stack_tile tile;
    int32_t inverse_u, inverse_v, n_u, n_v, n;
};

__device__ __forceinline__ int tile_of(const tiling &t, msi_stack_place p)
{
    return (msi_stack_u0(p) * t.inverse_u >> 16) * t.n_v + (msi_stack_v0(p) * t.inverse_v >> 16);
}

/* Sum x over the block's threads before this one; *all is the sum over all of them. Synchronises the block twice. */
template <int N_WARP> __device__ __forceinline__ uint32_t sum_before(uint32_t x, uint32_t *warp_sum, uint32_t *all)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    uint32_t sum = x;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t below = __shfl_up_sync(ALL_LANES, sum, d);
        if (lane >= d) sum += below;
    }
    if (lane == 31) warp_sum[warp] = sum;
    __syncthreads();
    uint32_t of_warps = lane < N_WARP ? warp_sum[lane] : 0;
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const uint32_t below = __shfl_up_sync(ALL_LANES, of_warps, d);
        if (lane >= d) of_warps += below;
    }
    *all = __shfl_sync(ALL_LANES, of_warps, 31);
    const uint32_t before = __shfl_sync(ALL_LANES, of_warps, (warp + 31) % 32);
    __syncthreads();
    return (warp ? before : 0) + sum - x;
}

/* Count a chunk's visibilities over the tiles of its subgrid. */
__global__ void __launch_bounds__(THREADS)
    k_stack_count(const chunk *chunks, const msi_stack_uvw *uvw, tiling t, uint32_t *count, uint32_t *n_item)
{
    __shared__ uint32_t here[MAX_TILES];
    const chunk c = chunks[blockIdx.x];
    if (blockIdx.x == 0 && threadIdx.x == 0) *n_item = 0;
    for (int i = threadIdx.x; i < t.n; i += THREADS) here[i] = 0;
    __syncthreads();
    for (uint32_t first = threadIdx.x; first < c.n; first += BATCH * THREADS) {
        msi_stack_place p[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            p[k] = msi_stack_locate(&uvw[c.first + min(first + k * THREADS, c.n - 1)], t.size);
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (first + k * THREADS < c.n) atomicAdd(&here[tile_of(t, p[k])], 1u);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < t.n; i += THREADS)
        if (here[i]) atomicAdd(&count[(int64_t)c.subgrid * t.n + i], here[i]);
}

/* Find the beginnings of the tiles of subgrid blockIdx.x, and list their items. Sets the counts to zero for the next
 * sort. */
__global__ void __launch_bounds__(SCAN)
    k_stack_items(const uint32_t *first_vis, tiling t, uint32_t most, uint32_t *count, uint32_t *cursor,
                  msi_stack_item *item, uint32_t *n_item)
{
    __shared__ uint32_t warp_sum[32], first_item;
    const int first_tile = threadIdx.x * TILES_A_SCANNER;
    const int64_t base = (int64_t)blockIdx.x * t.n;
    uint32_t n[TILES_A_SCANNER], vis = 0, pieces = 0, n_piece, unused;
#pragma unroll
    for (int k = 0; k < TILES_A_SCANNER; k++) {
        n[k] = first_tile + k < t.n ? count[base + first_tile + k] : 0;
        vis += n[k];
        pieces += (n[k] + most - 1) / most;
    }
    uint32_t at = first_vis[blockIdx.x] + sum_before<SCAN / 32>(vis, warp_sum, &unused);
    uint32_t to = sum_before<SCAN / 32>(pieces, warp_sum, &n_piece);
    if (threadIdx.x == 0) first_item = atomicAdd(n_item, n_piece);
    __syncthreads();
    to += first_item;
#pragma unroll
    for (int k = 0; k < TILES_A_SCANNER; k++) {
        const int tile = first_tile + k;
        if (tile >= t.n) break;
        count[base + tile] = 0;
        cursor[base + tile] = at;
        const int32_t corner = tile / t.n_v * t.tile.u | tile % t.n_v * t.tile.v << 16;
        for (uint32_t left = n[k], parts = (left + most - 1) / most; parts > 0; parts--) {
            const uint32_t piece = left / parts;
            item[to++] = {(int32_t)blockIdx.x, corner, at, piece};
            at += piece;
            left -= piece;
        }
    }
}

template <int EACH_OF> struct order_store {
    msi_stack_place place[EACH_OF * THREADS];
    uint32_t index[EACH_OF * THREADS];
    uint32_t count[MAX_TILES]; /* counts of the tiles, then the first position of each tile in the chunk */
    uint32_t base[MAX_TILES];  /* final position minus position in the chunk, modulo 2^32 */
    uint32_t warp_sum[32];
};

/* Sort a chunk, with up to EACH_OF visibilities for each thread. */
template <int EACH_OF>
__global__ void __launch_bounds__(THREADS, 2) k_stack_order(const chunk *chunks, const msi_stack_uvw *uvw, tiling t,
                                                            uint32_t *cursor, msi_stack_place *place, uint32_t *index)
{
    extern __shared__ __align__(16) char shared_bytes[];
    order_store<EACH_OF> &s = *(order_store<EACH_OF> *)shared_bytes;
    const chunk c = chunks[blockIdx.x];
    for (int i = threadIdx.x; i < t.n; i += THREADS) s.count[i] = 0;
    __syncthreads();
    msi_stack_place own[EACH_OF];
    uint32_t tile_rank[EACH_OF];
#pragma unroll
    for (int batch = 0; batch < EACH_OF; batch += BATCH) {
        if (batch * THREADS >= c.n) break;
#pragma unroll
        for (int k = batch; k < batch + BATCH; k++)
            own[k] = msi_stack_locate(&uvw[c.first + min(k * THREADS + threadIdx.x, c.n - 1)], t.size);
#pragma unroll
        for (int k = batch; k < batch + BATCH; k++) {
            const uint32_t tile = (uint32_t)tile_of(t, own[k]);
            if (k * THREADS + threadIdx.x < c.n) tile_rank[k] = tile << 16 | atomicAdd(&s.count[tile], 1u);
        }
    }
    __syncthreads();
    const int first_tile = threadIdx.x * TILES_A_THREAD;
    uint32_t n[TILES_A_THREAD], sum = 0, unused;
#pragma unroll
    for (int k = 0; k < TILES_A_THREAD; k++) {
        n[k] = first_tile + k < t.n ? s.count[first_tile + k] : 0;
        sum += n[k];
    }
    uint32_t at = sum_before<WARPS>(sum, s.warp_sum, &unused);
#pragma unroll
    for (int k = 0; k < TILES_A_THREAD; k++) {
        if (n[k] == 0) continue;
        s.count[first_tile + k] = at;
        s.base[first_tile + k] = atomicAdd(&cursor[(int64_t)c.subgrid * t.n + first_tile + k], n[k]) - at;
        at += n[k];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < EACH_OF; k++) {
        const uint32_t i = k * THREADS + threadIdx.x;
        if (i >= c.n) break;
        const uint32_t to = s.count[tile_rank[k] >> 16] + (tile_rank[k] & 0xffff);
        s.place[to] = own[k];
        s.index[to] = c.first + i;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < c.n; i += THREADS) {
        const msi_stack_place p = s.place[i];
        const uint32_t to = s.base[tile_of(t, p)] + i;
        place[to] = p;
        index[to] = s.index[i];
    }
}

struct cluster_args {
    tiling tiles;
    uint32_t most, per_block; /* largest number of visibilities of an item; of a block */
    const uint32_t *first_vis;
    const msi_stack_uvw *uvw;
    uint32_t *end, *index, *n_item, *progress; /* progress: number of items; of clusters that listed theirs */
    uint32_t *ready;                           /* number of blocks that have written their part of a subgrid */
    msi_stack_place *place;
    msi_stack_item *item;
};

/* A block's visibilities in order, and the tiles of its subgrid. */
struct cluster_store {
    msi_stack_place *place;
    uint32_t *index;
    uint32_t *here, *all;        /* number of a tile's visibilities in the block, and in the cluster */
    uint32_t *first_here, *base; /* first position of a tile in the block's arrays; final position minus it, mod 2^32 */

    __device__ __forceinline__ cluster_store(char *bytes, uint32_t per_block, int n_tile)
        : place((msi_stack_place *)bytes), index((uint32_t *)(place + per_block)), here(index + per_block),
          all(here + n_tile), first_here(all + n_tile), base(first_here + n_tile)
    {
    }
};

size_t cluster_bytes(uint32_t per_block, int n_tile)
{
    return per_block * (sizeof(msi_stack_place) + sizeof(uint32_t)) + 4 * (size_t)n_tile * sizeof(uint32_t);
}

#if __CUDA_ARCH__ >= 900

namespace cg = cooperative_groups;

/* Count a block's n visibilities by tile. They stay in registers, with their tiles and their ranks in them. */
template <int EACH_OF>
__device__ __forceinline__ void count_block(const cluster_args &a, uint32_t first, uint32_t n, msi_stack_place *own,
                                            uint32_t *tile_rank, uint32_t *here)
{
#pragma unroll
    for (int batch = 0; batch < EACH_OF; batch += BATCH) {
        if (batch * THREADS >= n) break;
#pragma unroll
        for (int k = batch; k < batch + BATCH; k++)
            own[k] = msi_stack_locate(&a.uvw[first + min(k * THREADS + threadIdx.x, n - 1)], a.tiles.size);
#pragma unroll
        for (int k = batch; k < batch + BATCH; k++) {
            const uint32_t tile = (uint32_t)tile_of(a.tiles, own[k]);
            if (k * THREADS + threadIdx.x < n) tile_rank[k] = tile << 16 | atomicAdd(&here[tile], 1u);
        }
    }
}

/* Sum each tile's visibilities over all blocks, and in `base` over the blocks before this one. */
__device__ __forceinline__ void add_counts(const cg::cluster_group &cluster, const cluster_store &s, int n_tile)
{
    const uint32_t rank = cluster.block_rank();
    for (int i = threadIdx.x; i < n_tile; i += THREADS) {
        uint32_t n = 0, before = 0;
#pragma unroll
        for (uint32_t r = 0; r < CLUSTER; r++) {
            const uint32_t others = *cluster.map_shared_rank(&s.here[i], r);
            n += others;
            if (r < rank) before += others;
        }
        s.all[i] = n;
        s.base[i] = before;
    }
}

/* Find the tiles' positions, beginning with first_vis. A thread has some consecutive tiles. */
__device__ __forceinline__ void place_tiles(const cluster_store &s, int n_tile, uint32_t first_vis, uint32_t *warp_sum,
                                            uint32_t *end)
{
    const int each = (n_tile + THREADS - 1) / THREADS, first = threadIdx.x * each, last = min(first + each, n_tile);
    uint32_t sum = 0, sum_here = 0, unused;
    for (int i = first; i < last; i++) {
        sum += s.all[i];
        sum_here += s.here[i];
    }
    uint32_t at = first_vis + sum_before<WARPS>(sum, warp_sum, &unused);
    uint32_t at_here = sum_before<WARPS>(sum_here, warp_sum, &unused);
    for (int i = first; i < last; i++) {
        s.base[i] += at - at_here;
        s.first_here[i] = at_here;
        at += s.all[i];
        at_here += s.here[i];
        if (end) end[i] = at;
    }
}

/* Sort a block's visibilities in shared memory. */
template <int EACH_OF>
__device__ __forceinline__ void order_block(const cluster_store &s, const msi_stack_place *own,
                                            const uint32_t *tile_rank, uint32_t first, uint32_t n)
{
#pragma unroll
    for (int batch = 0; batch < EACH_OF; batch += BATCH) {
        uint32_t to[BATCH];
        if (batch * THREADS >= n) break;
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if ((batch + k) * THREADS + threadIdx.x < n)
                to[k] = s.first_here[tile_rank[batch + k] >> 16] + (tile_rank[batch + k] & 0xffff);
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const uint32_t i = (batch + k) * THREADS + threadIdx.x;
            if (i >= n) continue;
            s.place[to[k]] = own[batch + k];
            s.index[to[k]] = first + i;
        }
    }
}

/* Write a block's visibilities to their positions, several writes of a thread at a time. */
__device__ __forceinline__ void write_block(const cluster_args &a, const cluster_store &s, uint32_t n)
{
    for (uint32_t begin = threadIdx.x; begin < n; begin += BATCH * THREADS) {
        msi_stack_place p[BATCH];
        uint32_t index[BATCH], to[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            const uint32_t i = min(begin + k * THREADS, n - 1);
            p[k] = s.place[i];
            index[k] = s.index[i];
            to[k] = s.base[tile_of(a.tiles, p[k])] + i;
        }
#pragma unroll
        for (int k = 0; k < BATCH; k++)
            if (begin + k * THREADS < n) {
                a.place[to[k]] = p[k];
                a.index[to[k]] = index[k];
            }
    }
}

/* List the items of a subgrid, in one block of its cluster. The last cluster sets the counters to zero for the next
 * sort. */
__device__ __forceinline__ void list_items(const cluster_args &a, const cluster_store &s, int32_t subgrid,
                                           uint32_t first_vis, uint32_t *warp_sum, uint32_t *first_item)
{
    const tiling &t = a.tiles;
    const int each = (t.n + THREADS - 1) / THREADS, first = threadIdx.x * each, last = min(first + each, t.n);
    uint32_t sum = 0, pieces = 0, n_piece, unused;
    for (int i = first; i < last; i++) {
        sum += s.all[i];
        pieces += (s.all[i] + a.most - 1) / a.most;
    }
    uint32_t at = first_vis + sum_before<WARPS>(sum, warp_sum, &unused);
    uint32_t to = sum_before<WARPS>(pieces, warp_sum, &n_piece);
    if (threadIdx.x == 0) *first_item = atomicAdd(&a.progress[0], n_piece);
    __syncthreads();
    to += *first_item;
    for (int i = first; i < last; i++) {
        const int32_t corner = i / t.n_v * t.tile.u | i % t.n_v * t.tile.v << 16;
        for (uint32_t left = s.all[i], parts = (left + a.most - 1) / a.most; parts > 0; parts--) {
            const uint32_t piece = left / parts;
            a.item[to++] = {subgrid, corner, at, piece};
            at += piece;
            left -= piece;
        }
    }
    if (threadIdx.x != 0) return;
    __threadfence();
    if (atomicAdd(&a.progress[1], 1u) == gridDim.x / CLUSTER - 1) {
        *a.n_item = atomicExch(&a.progress[0], 0u);
        a.progress[1] = 0;
    }
}

#endif

/* Sort a subgrid by a cluster of blocks, EACH_OF visibilities to a thread. No items are listed if their size is
 * unlimited. */
template <int EACH_OF>
__global__ void __launch_bounds__(THREADS, 2) k_stack_sort_clusters(const __grid_constant__ cluster_args a)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(16) char shared_bytes[];
    __shared__ uint32_t warp_sum[32], first_item;
    const cluster_store s(shared_bytes, a.per_block, a.tiles.n);
    const cg::cluster_group cluster = cg::this_cluster();
    const uint32_t subgrid = blockIdx.x / CLUSTER, first_vis = a.first_vis[subgrid];
    const uint32_t n_vis = a.first_vis[subgrid + 1] - first_vis, begin = min(cluster.block_rank() * a.per_block, n_vis);
    const uint32_t first = first_vis + begin, n = min(a.per_block, n_vis - begin);
    const bool last_block = cluster.block_rank() == CLUSTER - 1;
    msi_stack_place own[EACH_OF];
    uint32_t tile_rank[EACH_OF];
    for (int i = threadIdx.x; i < a.tiles.n; i += THREADS) s.here[i] = 0;
    __syncthreads();
    count_block<EACH_OF>(a, first, n, own, tile_rank, s.here);
    /* Let the next kernel of the stream use free multiprocessors, because little memory traffic remains. */
    cudaTriggerProgrammaticLaunchCompletion();
    cluster.sync();
    add_counts(cluster, s, a.tiles.n);
    cluster.barrier_arrive();
    __syncthreads();
    place_tiles(s, a.tiles.n, first_vis, warp_sum, last_block ? a.end + (int64_t)subgrid * a.tiles.n : nullptr);
    __syncthreads();
    order_block<EACH_OF>(s, own, tile_rank, first, n);
    __syncthreads();
    write_block(a, s, n);
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&a.ready[subgrid], 1u);
    }
    if (last_block && a.most != INT32_MAX) list_items(a, s, (int32_t)subgrid, first_vis, warp_sum, &first_item);
    /* A block must not end while others read its counts. */
    cluster.barrier_wait();
#endif
}

} // namespace

struct msi_stack_sorter {
    msi_gpu_stream gpu;
    tiling tiles;
    uint32_t most, n_chunk, per_block; /* per_block: visibilities of a cluster's block; 0: no clusters */
    int each;                          /* most places of a chunk for a thread */
    int32_t n_subgrid;
    chunk *chunks;
    uint32_t *first_vis, *count, *cursor, *index, *n_item, *progress, *ready;
    uint32_t n_sort;
    msi_stack_place *place;
    msi_stack_item *item;
};

/* Cut subgrids into chunks, enough to keep all multiprocessors busy if there is enough work. */
static std::vector<chunk> cut_chunks(const msi_stack_job *job, int n_processor, int each)
{
    const int64_t n_vis = job->first_vis[job->n_subgrid], wanted = n_vis / (2 * (int64_t)n_processor);
    const int64_t length = std::clamp<int64_t>((wanted + THREADS - 1) / THREADS * THREADS, THREADS, each * THREADS);
    std::vector<chunk> chunks;
    for (int32_t s = 0; s < job->n_subgrid; s++)
        for (int64_t i = job->first_vis[s]; i < job->first_vis[s + 1]; i += length)
            chunks.push_back({s, (uint32_t)i, (uint32_t)std::min(length, job->first_vis[s + 1] - i)});
    return chunks;
}

/* Largest number of visibilities of a thread that stay in registers; a block then needs little shared memory. */
constexpr int FEW = 8;

static_assert(sizeof(order_store<FEW>) <= LEAST_SHARED_BYTES, "too much for a block of some GPUs");

static auto *order_kernel(int each)
{
    return each == FEW ? k_stack_order<FEW> : k_stack_order<EACH>;
}

static size_t order_bytes(int each)
{
    return each == FEW ? sizeof(order_store<FEW>) : sizeof(order_store<EACH>);
}

static auto *cluster_kernel(uint32_t per_block)
{
    return per_block <= FEW * THREADS ? k_stack_sort_clusters<FEW> : k_stack_sort_clusters<EACH>;
}

/* Choose the number of visibilities of a cluster's block; 0 if a subgrid's visibilities do not fit in a cluster, or the
 * device has no clusters. */
static int choose_per_block(uint32_t *per_block, const msi_stack_job *job, int n_tile)
{
    int64_t most = 0;
    *per_block = 0;
    for (int32_t s = 0; s < job->n_subgrid; s++) most = std::max(most, job->first_vis[s + 1] - job->first_vis[s]);
    if (most > CLUSTER * CHUNK) return MSI_OK;
    /* Even, so that the next arrays in shared memory are aligned. */
    const uint32_t of_block = (uint32_t)((most + 2 * CLUSTER - 1) / (2 * CLUSTER) * 2);
    const auto kernel = cluster_kernel(of_block);
    const size_t limit = hopper::dynamic_shared_bytes(kernel);
    if (limit < cluster_bytes(of_block, n_tile)) return MSI_OK;
    *per_block = of_block;
    /* The largest size for any sorter, because all sorters share the kernel. */
    MSI_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)std::min(limit, cluster_bytes(CHUNK, MAX_TILES))));
    /* Leave space for blocks of the next kernel. */
    MSI_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
    return MSI_OK;
}

static int fill_sorter(msi_stack_sorter *s, const msi_stack_job *job)
{
    int n_processor;
    size_t shared;
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    MSI_CUDA(cudaDeviceGetAttribute(&n_processor, cudaDevAttrMultiProcessorCount, s->gpu.device));
    MSI_TRY(block_shared_bytes(&shared));
    MSI_TRY(choose_per_block(&s->per_block, job, s->tiles.n));
    s->each = order_bytes(EACH) <= shared ? EACH : FEW;
    const int64_t n_vis = job->first_vis[job->n_subgrid], n_tile = s->tiles.n;
    const std::vector<chunk> chunks = cut_chunks(job, n_processor, s->each);
    const std::vector<uint32_t> first_vis(job->first_vis, job->first_vis + job->n_subgrid + 1);
    s->n_chunk = (uint32_t)chunks.size();
    MSI_TRY(allocate(&s->chunks, s->n_chunk, "chunks of visibilities"));
    MSI_TRY(allocate(&s->first_vis, job->n_subgrid + 1, "subgrids"));
    MSI_TRY(allocate(&s->count, job->n_subgrid * n_tile, "tiles"));
    MSI_TRY(allocate(&s->cursor, job->n_subgrid * n_tile, "tiles"));
    MSI_TRY(allocate(&s->place, n_vis, "sorted visibilities"));
    MSI_TRY(allocate(&s->index, n_vis, "sorted visibilities"));
    /* n visibilities of a tile make at most n / most + 1 pieces. */
    MSI_TRY(allocate(&s->item, std::min(job->n_subgrid * n_tile, n_vis) + n_vis / s->most, "work items"));
    MSI_TRY(allocate(&s->n_item, 1, "work items"));
    MSI_TRY(allocate(&s->progress, 2, "work items"));
    MSI_TRY(allocate(&s->ready, job->n_subgrid, "subgrids"));
    MSI_CUDA(cudaMemsetAsync(s->ready, 0, (size_t)job->n_subgrid * sizeof *s->ready, stream));
    MSI_CUDA(cudaMemsetAsync(s->progress, 0, 2 * sizeof *s->progress, stream));
    MSI_CUDA(cudaMemsetAsync(s->n_item, 0, sizeof *s->n_item, stream));
    MSI_CUDA(cudaMemsetAsync(s->count, 0, (size_t)(job->n_subgrid * n_tile) * sizeof *s->count, stream));
    MSI_CUDA(cudaMemcpyAsync(s->chunks, chunks.data(), chunks.size() * sizeof(chunk), cudaMemcpyHostToDevice, stream));
    MSI_CUDA(cudaMemcpyAsync(s->first_vis, first_vis.data(), first_vis.size() * sizeof(uint32_t),
                             cudaMemcpyHostToDevice, stream));
    MSI_CUDA(cudaFuncSetAttribute(order_kernel(s->each), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)order_bytes(s->each)));
    return msi_gpu_stream_wait(&s->gpu);
}

extern "C" int msi_stack_sorter_create(msi_stack_sorter **out, const msi_gpu_stream *gpu, const msi_stack_job *job,
                                       msi_stack_tile tile, int32_t most)
{
    *out = nullptr;
    const int64_t n_vis = job->first_vis[job->n_subgrid];
    const int32_t n_place = job->size - MSI_STACK_TAPS + 1;
    const int32_t n_u = (n_place + tile.u - 1) / tile.u, n_v = (n_place + tile.v - 1) / tile.v;
    if (n_vis > INT32_MAX || n_u * n_v > MAX_TILES)
        return msi_error_set(MSI_ERANGE, "GPU: too many visibilities (%lld) or tiles of a subgrid (%d)",
                             (long long)n_vis, n_u * n_v);
    msi_stack_sorter *s = new msi_stack_sorter{};
    s->gpu = *gpu;
    s->n_subgrid = job->n_subgrid;
    s->most = (uint32_t)most;
    s->tiles = {job->size, tile, (65536 + tile.u - 1) / tile.u, (65536 + tile.v - 1) / tile.v, n_u, n_v, n_u * n_v};
    int status = fill_sorter(s, job);
    if (status != MSI_OK) {
        msi_stack_sorter_free(s);
        return status;
    }
    *out = s;
    return MSI_OK;
}

extern "C" void msi_stack_sorter_free(msi_stack_sorter *s)
{
    if (!s) return;
    void *memory[] = {s->chunks, s->first_vis, s->count,  s->cursor,   s->place,
                      s->index,  s->item,      s->n_item, s->progress, s->ready};
    for (void *p : memory) cudaFree(p);
    delete s;
}

static int sort_in_clusters(const msi_stack_sorter *s, const msi_stack_job *job)
{
    const cluster_args a = {s->tiles, s->most,   s->per_block, s->first_vis, job->uvw, s->cursor,
                            s->index, s->n_item, s->progress,  s->ready,     s->place, s->item};
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {CLUSTER, 1, 1};
    cudaLaunchConfig_t launch = {};
    launch.gridDim = dim3((unsigned)(s->n_subgrid * CLUSTER));
    launch.blockDim = dim3(THREADS);
    launch.dynamicSmemBytes = cluster_bytes(s->per_block, s->tiles.n);
    launch.stream = (cudaStream_t)s->gpu.stream;
    launch.attrs = &cluster;
    launch.numAttrs = 1;
    MSI_CUDA(cudaLaunchKernelEx(&launch, cluster_kernel(s->per_block), a));
    return MSI_OK;
}

extern "C" int msi_stack_sorter_sort(msi_stack_sorter *s, const msi_stack_job *job, msi_stack_sorted *sorted)
{
    const gpu_range range("sort stacks");
    cudaStream_t stream = (cudaStream_t)s->gpu.stream;
    *sorted = {s->place, s->index, s->item, s->n_item, s->first_vis, s->cursor, s->tiles.n_u, s->tiles.n_v, nullptr, 0};
    if (s->n_chunk == 0) return MSI_OK;
    MSI_TRY(msi_gpu_stream_enter(&s->gpu));
    if (s->per_block > 0) {
        MSI_TRY(sort_in_clusters(s, job));
        sorted->ready = s->ready;
        sorted->ready_at = ++s->n_sort * CLUSTER;
        return MSI_OK;
    }
    k_stack_count<<<s->n_chunk, THREADS, 0, stream>>>(s->chunks, job->uvw, s->tiles, s->count, s->n_item);
    MSI_CUDA(cudaGetLastError());
    k_stack_items<<<(unsigned)s->n_subgrid, SCAN, 0, stream>>>(s->first_vis, s->tiles, s->most, s->count, s->cursor,
                                                               s->item, s->n_item);
    MSI_CUDA(cudaGetLastError());
    order_kernel(s->each)<<<s->n_chunk, THREADS, order_bytes(s->each), stream>>>(s->chunks, job->uvw, s->tiles,
                                                                                 s->cursor, s->place, s->index);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}
