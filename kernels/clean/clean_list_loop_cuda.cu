/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Minor iterations on a list of pixels, in one cluster of thread blocks. One launch runs thousands of iterations.
 *
 * Each block keeps its part of the list, places and residuals, in shared memory. An iteration:
 * 1. Threads subtract the last component from their pixels, gathering the PSF, and remember their best.
 * 2. Warps find their best by integer reductions.
 * 3. Warp 0 finds the block's best, makes a component of it as if it were the winner, and sends it to every block.
 * 4. All blocks wait for one message from each block, and find the winner.
 *
 * An iteration takes one synchronisation of a block's threads, one message latency between blocks, and one access to
 * the L2 cache. No reply is needed: only its own block writes a pixel and its components.
 *
 * Without clusters (before compute capability 9.0) one block runs everything, with residuals in global memory if they
 * do not fit in shared memory.
 */
#include <stdint.h>

#include "kernels/clean/clean_loop_cuda.cuh"
#include "kernels/gpu/hopper_cuda.cuh"

/*
 * Blocks of a cluster send each other words through distributed shared memory: a store that counts its bytes at a
 * barrier of the receiver. A block that waits at its barrier has received the words, and waits for nothing else.
 * Compute capability 9.0; empty functions before.
 */
namespace clean_cluster {

/* Return the address of the same location in another block's shared memory. */
__device__ __forceinline__ uint32_t address_in(const void *p, uint32_t block)
{
    uint32_t there = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(hopper::shared_address(p)), "r"(block));
#endif
    return there;
}

/* Send four words, or one number, to an address in another block, and count its bytes at the barrier there. */
__device__ __forceinline__ void send(uint32_t to, uint4 v, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
        "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
        : "memory");
#endif
}
__device__ __forceinline__ void send(uint32_t to, float v, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to),
                 "r"(__float_as_uint(v)), "r"(barrier)
                 : "memory");
#endif
}
__device__ __forceinline__ void send(uint32_t to, double v, uint32_t barrier)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" ::"r"(to),
                 "l"(__double_as_longlong(v)), "r"(barrier)
                 : "memory");
#endif
}

/* Wait until a phase of a barrier is over; the data that other blocks sent in it are then visible. */
__device__ __forceinline__ void wait(uint64_t *barrier, uint32_t parity)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(hopper::shared_address(barrier)),
                 "r"(parity)
                 : "memory");
#endif
}

/* Synchronise all threads of the cluster. */
__device__ __forceinline__ void meet()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

} // namespace clean_cluster

namespace {

constexpr int MOST_BLOCKS = 16, MOST_WARPS = 32;

template <typename T> struct list_job : loop_job<T> {
    const uint32_t *list;
    T *residual, *component;
    const T *factor;
    int64_t stride; /* stride of the list's planes */
    int n, per;     /* pixels of the list, and of a block */
    int64_t psf_stride;
};

/* A candidate. slot: its position in the whole list. */
template <typename T> struct __align__(16) candidate
{
    T value;
    uint32_t place, slot;
};

__device__ __forceinline__ uint4 words_of(const candidate<float> &c)
{
    return make_uint4(__float_as_uint(c.value), c.place, c.slot, 0);
}
__device__ __forceinline__ uint4 words_of(const candidate<double> &c)
{
    const unsigned long long bits = (unsigned long long)__double_as_longlong(c.value);
    return make_uint4((unsigned)bits, (unsigned)(bits >> 32), c.place, c.slot);
}

/* Find the best of a warp's candidates, in all lanes; *lane is its owner. */
template <typename T> __device__ __forceinline__ candidate<T> best_of_warp(candidate<T> c, int no_negative, int *lane)
{
    const bool best = is_best_of_warp(key_of(c.value, no_negative), c.place);
    *lane = __ffs(__ballot_sync(ALL, best)) - 1;
    c.value = __shfl_sync(ALL, c.value, *lane);
    c.place = __shfl_sync(ALL, c.place, *lane);
    c.slot = __shfl_sync(ALL, c.slot, *lane);
    return c;
}

/* The beginning of a block's shared memory. */
template <typename T> struct block_state {
    candidate<T> inbox[2][MOST_BLOCKS], of_warp[MOST_WARPS];
    uint64_t barrier[2];
};

/* Pointers to a block's part of the list, and to the arrays that follow block_state. */
template <typename T> struct block_view {
    block_state<T> *state;
    T *sent;     /* [2][MOST_BLOCKS][n_plane], components */
    T *share;    /* [n_channel] */
    T *residual; /* [n_plane][per] */
    T *factor;   /* [per] */
    uint32_t *list;
    int64_t stride;
    int first, n; /* pixels */
};

/* IN_SHARED: the list is in shared memory, else in the job's arrays. */
template <typename T, bool IN_SHARED>
__device__ __forceinline__ block_view<T> lay_out(const list_job<T> &job, char *bytes)
{
    const int n_plane = job.j.n_channel * job.j.n_pol;
    block_view<T> v;
    v.first = min((int)blockIdx.x * job.per, job.n);
    v.n = min(job.per, job.n - v.first);
    v.state = reinterpret_cast<block_state<T> *>(bytes);
    v.sent = reinterpret_cast<T *>(v.state + 1);
    v.share = v.sent + 2 * MOST_BLOCKS * n_plane;
    v.residual = IN_SHARED ? v.share + job.j.n_channel : job.residual + v.first;
    v.stride = IN_SHARED ? (int64_t)job.per : job.stride;
    v.factor = IN_SHARED ? v.residual + n_plane * job.per : const_cast<T *>(job.factor) + v.first;
    v.list = IN_SHARED ? reinterpret_cast<uint32_t *>(v.factor + (job.factor ? job.per : 0))
                       : const_cast<uint32_t *>(job.list) + v.first;
    return v;
}

/* Copy the list to shared memory, if it is kept there. */
template <typename T, bool IN_SHARED> __device__ void load_list(const list_job<T> &job, const block_view<T> &v)
{
    const int n_plane = job.j.n_channel * job.j.n_pol;
    for (int i = threadIdx.x; i < job.j.n_channel; i += blockDim.x) v.share[i] = job.share[i];
    for (int i = threadIdx.x; IN_SHARED && i < v.n; i += blockDim.x) {
        v.list[i] = job.list[v.first + i];
        if (job.factor) v.factor[i] = job.factor[v.first + i];
        for (int k = 0; k < n_plane; k++) v.residual[k * v.stride + i] = job.residual[k * job.stride + v.first + i];
    }
}

template <typename T, bool IN_SHARED> __device__ void store_list(const list_job<T> &job, const block_view<T> &v)
{
    const int n_plane = job.j.n_channel * job.j.n_pol;
    for (int i = threadIdx.x; IN_SHARED && i < v.n; i += blockDim.x)
        for (int k = 0; k < n_plane; k++) job.residual[k * job.stride + v.first + i] = v.residual[k * v.stride + i];
}

/* A component to subtract. */
template <typename T> struct component_at {
    const T *psf;
    int to_x, to_y; /* the PSF's pixel that falls on (0, 0) */
    T value;        /* value of one plane */
    const T *of_plane;
};

template <typename T>
__device__ __forceinline__ int64_t psf_pixel(const list_job<T> &job, const component_at<T> &c, uint32_t place)
{
    const int x = (int)msi_clean_x(place) + c.to_x, y = (int)msi_clean_y(place) + c.to_y;
    return (unsigned)x < (unsigned)job.nx && (unsigned)y < (unsigned)job.ny ? (int64_t)y * job.nx + x : -1;
}

/* Subtract a component from the block's pixels of one plane, UNROLL pixels of a thread at a time, and find the thread's
 * best. */
template <int UNROLL, typename T>
__device__ __forceinline__ candidate<T> scan_one(const list_job<T> &job, const block_view<T> &v, bool subtract,
                                                 const component_at<T> &c)
{
    candidate<T> best = {0, MSI_CLEAN_NOWHERE, 0};
    T most = 0;
    for (int at = threadIdx.x; at < v.n; at += UNROLL * blockDim.x) {
        uint32_t place[UNROLL];
        T psf[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int i = at + u * (int)blockDim.x;
            psf[u] = 0;
            place[u] = i < v.n ? v.list[i] : 0;
            if (i >= v.n || !subtract) continue;
            const int64_t pixel = psf_pixel(job, c, place[u]);
            if (pixel >= 0) psf[u] = __ldg(c.psf + pixel);
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int i = at + u * (int)blockDim.x;
            if (i >= v.n) continue;
            T r = v.residual[i];
            if (subtract) v.residual[i] = r = fma(-c.value, psf[u], r);
            const T key = key_of(r, job.j.no_negative);
            if (key > most) {
                most = key;
                best = {r, place[u], (uint32_t)(v.first + i)};
            }
        }
    }
    return best;
}

/* Do the same for several planes. */
template <typename T>
__device__ __forceinline__ candidate<T> scan_planes(const list_job<T> &job, const block_view<T> &v, bool subtract,
                                                    const component_at<T> &c)
{
    constexpr int UNROLL = 4;
    candidate<T> best = {0, MSI_CLEAN_NOWHERE, 0};
    const int64_t stride = v.stride;
    T most = 0;
    for (int i = threadIdx.x; i < v.n; i += blockDim.x) {
        const uint32_t place = v.list[i];
        T *r = v.residual + i;
        const int64_t pixel = subtract ? psf_pixel(job, c, place) : -1;
        for (int first_c = 0; pixel >= 0 && first_c < job.j.n_channel; first_c += UNROLL) {
            T psf[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                psf[u] = first_c + u < job.j.n_channel ? __ldg(c.psf + (first_c + u) * job.psf_stride + pixel) : T(0);
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                for (int k = (first_c + u) * job.j.n_pol;
                     first_c + u < job.j.n_channel && k < (first_c + u + 1) * job.j.n_pol; k++)
                    r[k * stride] = fma(-c.of_plane[k], psf[u], r[k * stride]);
        }
        T q = quantity_of(&job.j, job.rows ? job.rows : v.share, r, stride);
        if (job.factor) q *= v.factor[i];
        const T key = key_of(q, job.j.no_negative);
        if (key > most) {
            most = key;
            best = {q, place, (uint32_t)(v.first + i)};
        }
    }
    return best;
}

/* Send the block's candidate, and for several planes its component, to all blocks, by warp 0. */
template <typename T, bool ONE>
__device__ __forceinline__ void send_candidate(const list_job<T> &job, const block_view<T> &v, const candidate<T> &c,
                                               int parity)
{
    const int lane = threadIdx.x, n_block = gridDim.x, rank = blockIdx.x, n_plane = job.j.n_channel * job.j.n_pol;
    block_state<T> *state = v.state;
    T *component = v.sent + (parity * MOST_BLOCKS + rank) * n_plane;
    const bool any = c.place != MSI_CLEAN_NOWHERE;
    if (!ONE && any) make_component<T>(job, v.share, {v.residual + ((int)c.slot - v.first), v.stride}, component);
    if (!ONE) __syncwarp();
    if (n_block == 1) {
        if (lane == 0) state->inbox[parity][0] = c;
        return;
    }
    if (lane < n_block)
        clean_cluster::send(clean_cluster::address_in(&state->inbox[parity][rank], lane), words_of(c),
                            clean_cluster::address_in(&state->barrier[parity], lane));
    /* Components are sent to the other blocks; the block's own are in place already, and only counted. */
    if (!ONE)
        for (int i = lane; i < n_block * n_plane; i += 32) {
            const int to = i / n_plane, k = i % n_plane;
            clean_cluster::send(clean_cluster::address_in(component + k, to), any ? component[k] : T(0),
                                clean_cluster::address_in(&state->barrier[parity], to));
        }
}

/* Set the number of bytes that a barrier waits for in one iteration. */
template <typename T, bool ONE> __device__ __forceinline__ void expect(const list_job<T> &job, uint64_t *barrier)
{
    const int n_plane = job.j.n_channel * job.j.n_pol;
    hopper::arrive_and_expect(barrier, gridDim.x * (16 + (ONE ? 0 : n_plane * (int)sizeof(T))));
}

/* Find the winner of all blocks, in all threads; *rank is its block. */
template <typename T, bool ONE>
__device__ __forceinline__ candidate<T> find_winner(const list_job<T> &job, const block_view<T> &v,
                                                    const candidate<T> &best, int iteration, int *rank)
{
    const int parity = iteration & 1, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const candidate<T> none = {0, MSI_CLEAN_NOWHERE, 0};
    block_state<T> *state = v.state;
    int from;
    if (is_best_of_warp(key_of(best.value, job.j.no_negative), best.place)) state->of_warp[warp] = best;
    __syncthreads();
    if (warp == 0)
        send_candidate<T, ONE>(
            job, v, best_of_warp(lane < (int)blockDim.x / 32 ? state->of_warp[lane] : none, job.j.no_negative, &from),
            parity);
    if (gridDim.x == 1) {
        __syncthreads();
    } else {
        clean_cluster::wait(&state->barrier[parity], iteration >> 1 & 1);
        if (threadIdx.x == 0) expect<T, ONE>(job, &state->barrier[parity]);
    }
    return best_of_warp(lane < (int)gridDim.x ? state->inbox[parity][lane] : none, job.j.no_negative, rank);
}

/* Record the winner's component, by its block, and add it to the pixel's components. */
template <typename T, bool ONE>
__device__ __forceinline__ void record_winner(const list_job<T> &job, const candidate<T> &winner,
                                              const component_at<T> &c, int iteration)
{
    const int n_plane = job.j.n_channel * job.j.n_pol;
    /* The last warp does it: the first is the busiest. */
    const int k = (int)blockDim.x - 1 - (int)threadIdx.x;
    if (k == 0) job.place[iteration] = winner.place;
    for (int plane = k; plane < n_plane; plane += blockDim.x) {
        const T value = ONE ? c.value : c.of_plane[plane];
        job.value[(int64_t)iteration * n_plane + plane] = value;
        /* An atomic addition whose result is not used does not make the thread wait. */
        atomicAdd(&job.component[plane * job.stride + winner.slot], value);
    }
}

template <typename T, bool ONE, bool IN_SHARED> __global__ void __launch_bounds__(1024) k_list_loop(list_job<T> job)
{
    extern __shared__ __align__(16) char bytes[];
    const block_view<T> v = lay_out<T, IN_SHARED>(job, bytes);
    const int n_plane = job.j.n_channel * job.j.n_pol;
    component_at<T> c = {job.psf, 0, 0, 0, nullptr};
    candidate<T> winner;
    int iteration = 0, end = -1;
    load_list<T, IN_SHARED>(job, v);
    if (gridDim.x > 1 && threadIdx.x == 0) {
        for (int i = 0; i < 2; i++) hopper::init_barrier(&v.state->barrier[i], 1);
        hopper::fence_barriers();
        for (int i = 0; i < 2; i++) expect<T, ONE>(job, &v.state->barrier[i]);
    }
    __syncthreads();
    if (gridDim.x > 1) clean_cluster::meet();
    for (;; iteration++) {
        int rank;
        const bool subtract = iteration > 0;
        const candidate<T> best = !ONE                            ? scan_planes(job, v, subtract, c)
                                  : job.per > 4 * (int)blockDim.x ? scan_one<8>(job, v, subtract, c)
                                                                  : scan_one<4>(job, v, subtract, c);
        winner = find_winner<T, ONE>(job, v, best, iteration, &rank);
        end = end_at(key_of(winner.value, job.j.no_negative), winner.value, job.threshold, job.diverged,
                     job.stop_negative);
        if (end >= 0 || iteration == job.n_iteration) break;
        c.psf = psf_at(job, winner.place);
        c.to_x = job.nx / 2 - (int)msi_clean_x(winner.place);
        c.to_y = job.ny / 2 - (int)msi_clean_y(winner.place);
        c.value = job.gain * winner.value;
        c.of_plane = v.sent + ((iteration & 1) * MOST_BLOCKS + rank) * n_plane;
        if (rank == (int)blockIdx.x) record_winner<T, ONE>(job, winner, c, iteration);
    }
    store_list<T, IN_SHARED>(job, v);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *job.end = {iteration, (double)key_of(winner.value, job.j.no_negative), (double)winner.value, winner.place,
                    end < 0 ? MSI_CLEAN_END_MORE : end};
    if (gridDim.x > 1) clean_cluster::meet();
}

/* The distribution of a list over blocks. */
struct list_shape {
    int n_block, per, n_thread;
    size_t shared_bytes;
    bool in_shared;
};

template <typename T> size_t shared_bytes_for(const msi_clean_engine *e, int per, bool in_shared)
{
    const size_t fixed =
        sizeof(block_state<T>) + sizeof(T) * (size_t)(2 * MOST_BLOCKS * e->n_plane + e->s.join.n_channel);
    if (!in_shared) return fixed;
    return fixed + (size_t)per * (sizeof(T) * (size_t)(e->n_plane + (e->has_factor ? 1 : 0)) + sizeof(uint32_t));
}

template <class K> bool cluster_fits(K *kernel, const list_shape &s)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute cluster = {};
    int n = 0;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {(unsigned)s.n_block, 1, 1};
    config.gridDim = dim3((unsigned)s.n_block);
    config.blockDim = dim3((unsigned)s.n_thread);
    config.dynamicSmemBytes = s.shared_bytes;
    config.attrs = &cluster;
    config.numAttrs = 1;
    if (cudaOccupancyMaxActiveClusters(&n, kernel, &config) == cudaSuccess && n > 0) return true;
    cudaGetLastError();
    return false;
}

int threads_for(int per)
{
    return per <= 1024 ? 256 : per <= 4096 ? 512 : 1024;
}

/* Pixels of a block before another block is worth using: processing fewer takes less time than a message. */
constexpr int WORTH_A_BLOCK = 512;

/* Distribute a list over as many blocks as are worth using and as the device allows in a cluster. */
template <typename T, class K> list_shape shape_of(const msi_clean_engine *e, K *kernel)
{
    const size_t limit = hopper::dynamic_shared_bytes(kernel);
    int n_block = 1;
    while (n_block < MOST_BLOCKS && e->n_list * e->n_plane > (int64_t)n_block * WORTH_A_BLOCK) n_block *= 2;
    for (; n_block > 1; n_block /= 2) {
        list_shape s;
        s.n_block = n_block;
        s.per = (int)((e->n_list + n_block - 1) / n_block);
        s.n_thread = threads_for(s.per * std::min(e->n_plane, 4));
        s.shared_bytes = shared_bytes_for<T>(e, s.per, true);
        s.in_shared = true;
        if (s.shared_bytes <= limit && cluster_fits(kernel, s)) return s;
    }
    list_shape s = {1, (int)std::max<int64_t>(e->n_list, 1), 0, 0, true};
    s.n_thread = threads_for(s.per);
    s.shared_bytes = shared_bytes_for<T>(e, s.per, true);
    if (s.shared_bytes > LEAST_SHARED_BYTES - 1024) {
        s.in_shared = false;
        s.shared_bytes = shared_bytes_for<T>(e, s.per, false);
    }
    return s;
}

template <class K> int prepare(K *kernel, size_t bytes, bool clusters)
{
    MSI_TRY(allow_shared(kernel, bytes));
    if (clusters) MSI_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    return MSI_OK;
}

template <typename T> list_job<T> job_of(msi_clean_engine *e, const msi_clean_loop *loop)
{
    list_job<T> job = {};
    static_cast<loop_job<T> &>(job) = loop_job_of<T>(e, loop);
    job.list = e->list;
    job.residual = (T *)e->residual;
    job.component = (T *)e->component;
    job.factor = e->has_factor ? (const T *)e->factor : nullptr;
    job.stride = e->s.list_limit;
    job.n = (int)e->n_list;
    job.psf_stride = e->n_pixel;
    return job;
}

template <class K, typename T> int launch(msi_clean_engine *e, K *kernel, const list_shape &s, list_job<T> job)
{
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute cluster = {};
    job.per = s.per;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {(unsigned)s.n_block, 1, 1};
    config.gridDim = dim3((unsigned)s.n_block);
    config.blockDim = dim3((unsigned)s.n_thread);
    config.dynamicSmemBytes = s.shared_bytes;
    config.stream = clean_stream(e);
    config.attrs = &cluster;
    config.numAttrs = s.n_block > 1 ? 1 : 0;
    MSI_CUDA(cudaLaunchKernelEx(&config, kernel, job));
    return MSI_OK;
}

template <typename T, bool ONE> int run(msi_clean_engine *e, const msi_clean_loop *loop)
{
    const size_t limit = hopper::dynamic_shared_bytes(k_list_loop<T, ONE, true>);
    const size_t most = limit ? limit : LEAST_SHARED_BYTES - 1024;
    MSI_TRY(prepare(k_list_loop<T, ONE, true>, most, limit > 0));
    const list_shape s = shape_of<T>(e, k_list_loop<T, ONE, true>);
    if (s.in_shared) return launch(e, k_list_loop<T, ONE, true>, s, job_of<T>(e, loop));
    MSI_TRY(prepare(k_list_loop<T, ONE, false>, s.shared_bytes, false));
    return launch(e, k_list_loop<T, ONE, false>, s, job_of<T>(e, loop));
}

} // namespace

int msi_clean_list_loop_cuda(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_TRY(at_form(e, e->has_factor,
                    [&](auto number, auto one) { return run<decltype(number), decltype(one)::value>(e, loop); }));
    return msi_clean_fetch_loop_cuda(e, done);
}
