/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Compute the convolution kernels of wkernel.c on the device. A full kernel of a w-plane takes two small matrix
 * products. The first multiplies the phases at pairs of nodes by the cosines along v. The second multiplies the cosines
 * along u by the result. This gives the kernel for each pair of distances along u and v, in steps of 1 / oversample
 * cell. Then every element of the table is set to the value at its distances. As many w-planes as fit in the scratch
 * memory are processed together.
 */

#include <algorithm>
#include <vector>

#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/wproj/job/wkernel.h"

namespace {

constexpr int BLOCK = 128, ROWS = 4; /* threads of a block; values that a thread computes in the second product */
constexpr int64_t SCRATCH_BYTES = (int64_t)256 << 20, MOST_PLANES = 1024;

/* The quadrature nodes of one axis, in device memory. */
struct axis_view {
    int n_node;
    double *x, *weight, *part; /* [n_node]; part is NULL for full kernels */
    double *cosine;            /* [n_node][n_distance] */
    int64_t n_distance;        /* distances from 0, in steps of 1 / oversample cell */
};

/* A batch of w-planes of a set, from first_plane on. The arrays phase, row and kernel are scratch memory. For each
 * plane of the batch, `kernel` has n_distance values, or n_distance^2 for full kernels. */
struct batch_view {
    int32_t first_plane, oversample;
    const int32_t *half;
    const int64_t *offset_u, *offset_v;
    const double *w_lambda;
    double2 *phase, *row, *kernel;
};

/* Return weight exp(-2 pi i turns). */
__device__ double2 turned(double weight, double turns)
{
    double s, c;
    sincospi(-2 * (turns - rint(turns)), &s, &c);
    return {weight * c, weight * s};
}

/* Tabulate the cosines of an axis, for each node (blockIdx.y) and distance. */
__global__ void k_cosines(axis_view a, int32_t oversample)
{
    const int64_t q = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (q >= a.n_distance) return;
    const double turns = a.x[blockIdx.y] * (double)q / oversample;
    a.cosine[blockIdx.y * a.n_distance + q] = cospi(2 * (turns - rint(turns)));
}

/* Sum a separable kernel over the nodes of an axis. A block has BLOCK distances of one plane (blockIdx.y). */
__global__ void k_axis(axis_view a, batch_view b)
{
    __shared__ double2 phase[BLOCK];
    const int32_t plane = b.first_plane + (int32_t)blockIdx.y;
    const int64_t q = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    const bool used = q < msi_wkernel_distances(b.half[plane], b.oversample);
    double2 sum = {0, 0};
    for (int first = 0; first < a.n_node; first += BLOCK) {
        const int own = first + (int)threadIdx.x, n = min(BLOCK, a.n_node - first);
        __syncthreads();
        if (own < a.n_node) phase[threadIdx.x] = turned(a.weight[own], b.w_lambda[plane] * a.part[own]);
        __syncthreads();
        for (int i = 0; used && i < n; i++) {
            const double cosine = a.cosine[(first + i) * a.n_distance + q];
            sum.x += phase[i].x * cosine;
            sum.y += phase[i].y * cosine;
        }
    }
    if (used) b.kernel[blockIdx.y * a.n_distance + q] = sum;
}

/* Compute the weighted phases [u node][v node] of a full kernel, for each plane (blockIdx.y). */
__global__ void k_phases(axis_view u, axis_view v, const double *screen, batch_view b)
{
    const int64_t n = (int64_t)u.n_node * v.n_node, at = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= n) return;
    const double weight = u.weight[at / v.n_node] * v.weight[at % v.n_node];
    b.phase[blockIdx.y * n + at] = turned(weight, b.w_lambda[b.first_plane + (int32_t)blockIdx.y] * screen[at]);
}

/* The first product: sum the phases over the nodes along v. The result is [u node][distance along v] of each plane
 * (blockIdx.z). */
__global__ void k_rows(axis_view u, axis_view v, batch_view b)
{
    const int32_t plane = b.first_plane + (int32_t)blockIdx.z;
    const int64_t q = (int64_t)blockIdx.x * BLOCK + threadIdx.x, row = (int64_t)blockIdx.z * u.n_node + blockIdx.y;
    if (q >= msi_wkernel_distances(b.half[plane], b.oversample)) return;
    const double2 *phase = b.phase + row * v.n_node;
    double2 sum = {0, 0};
    for (int j = 0; j < v.n_node; j++) {
        const double cosine = v.cosine[j * v.n_distance + q];
        sum.x += phase[j].x * cosine;
        sum.y += phase[j].y * cosine;
    }
    b.row[row * v.n_distance + q] = sum;
}

/* The second product: sum the result of k_rows over the nodes along u. The result is
 * [distance along u][distance along v] of each plane (blockIdx.z). A thread computes ROWS distances along u. */
__global__ void k_squares(axis_view u, axis_view v, batch_view b)
{
    const int64_t n = msi_wkernel_distances(b.half[b.first_plane + (int32_t)blockIdx.z], b.oversample);
    const int64_t qv = (int64_t)blockIdx.x * BLOCK + threadIdx.x, qu = (int64_t)blockIdx.y * ROWS;
    if (qv >= n || qu >= n) return;
    const double2 *row = b.row + (int64_t)blockIdx.z * u.n_node * v.n_distance + qv;
    double2 sum[ROWS] = {};
    for (int i = 0; i < u.n_node; i++) {
        const double2 x = row[i * v.n_distance];
        for (int r = 0; r < ROWS; r++) {
            const double cosine = u.cosine[i * u.n_distance + min(qu + r, u.n_distance - 1)];
            sum[r].x += x.x * cosine;
            sum[r].y += x.y * cosine;
        }
    }
    double2 *kernel = b.kernel + (int64_t)blockIdx.z * u.n_distance * v.n_distance;
    for (int r = 0; r < ROWS && qu + r < n; r++) kernel[(qu + r) * v.n_distance + qv] = sum[r];
}

__device__ void put(msi_c32 *to, double2 value)
{
    *to = {(float)value.x, (float)value.y};
}

__device__ void put(msi_c64 *to, double2 value)
{
    *to = {value.x, value.y};
}

/* Fill the table of a separable kernel along one axis: set every element to the value at its distance. */
template <typename C> __global__ void k_put_rows(axis_view a, batch_view b, const int64_t *offset, C *table)
{
    const int32_t plane = b.first_plane + (int32_t)blockIdx.y, half = b.half[plane], taps = msi_wkernel_taps(half);
    const int64_t at = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (at >= (int64_t)(b.oversample + 1) * taps) return;
    const int32_t sub = (int32_t)(at / taps) - b.oversample / 2, tap = (int32_t)(at % taps) - half;
    put(table + offset[plane] + at, b.kernel[blockIdx.y * a.n_distance + msi_wkernel_distance(tap, sub, b.oversample)]);
}

/* Fill the table of a full kernel: set every element to the value at its distances. The elements of a block have the
 * same sub-offset along u (blockIdx.y). */
template <typename C> __global__ void k_put_squares(axis_view u, axis_view v, batch_view b, C *table)
{
    const int32_t plane = b.first_plane + (int32_t)blockIdx.z, half = b.half[plane], taps = msi_wkernel_taps(half);
    const int32_t os = b.oversample, sub_u = (int32_t)blockIdx.y - os / 2;
    const uint32_t at = blockIdx.x * BLOCK + threadIdx.x, square = (uint32_t)(taps * taps);
    if (at >= (uint32_t)(os + 1) * square) return;
    const int32_t sub_v = (int32_t)(at / square) - os / 2, tap = (int32_t)(at % square);
    const int64_t qu = msi_wkernel_distance(tap % taps - half, sub_u, os);
    const int64_t qv = msi_wkernel_distance(tap / taps - half, sub_v, os);
    put(table + b.offset_u[plane] + (int64_t)blockIdx.y * (os + 1) * square + at,
        b.kernel[((int64_t)blockIdx.z * u.n_distance + qu) * v.n_distance + qv]);
}

/* The workspace for making a table. `memory` lists the allocations, which are freed at the end. */
struct maker {
    cudaStream_t stream;
    const msi_wkernel_spec *spec;
    msi_wkernel_set *set;
    msi_wkernel_nodes nodes;
    axis_view u, v;
    double *screen;
    batch_view batch;
    int64_t planes_at_once;
    std::vector<void *> memory;
};

template <typename T> int allocate(maker *m, T **out, int64_t n)
{
    MSI_TRY(allocate(out, n, "convolution kernels"));
    m->memory.push_back(*out);
    return MSI_OK;
}

template <typename T> int upload(maker *m, T **out, const T *from, int64_t n)
{
    MSI_TRY(allocate(m, out, n));
    MSI_CUDA(cudaMemcpyAsync(*out, from, (size_t)n * sizeof(T), cudaMemcpyHostToDevice, m->stream));
    return MSI_OK;
}

unsigned blocks_for(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

int prepare_axis(maker *m, axis_view *a, const msi_wkernel_axis *from, const double *part)
{
    const int32_t os = m->set->oversample;
    a->n_node = from->n_node;
    a->n_distance = msi_wkernel_distances(m->set->half_max, os);
    MSI_TRY(upload(m, &a->x, from->x, from->n_node));
    MSI_TRY(upload(m, &a->weight, from->weight, from->n_node));
    if (part) MSI_TRY(upload(m, &a->part, part, from->n_node));
    MSI_TRY(allocate(m, &a->cosine, a->n_node * a->n_distance));
    k_cosines<<<dim3(blocks_for(a->n_distance), (unsigned)a->n_node), BLOCK, 0, m->stream>>>(*a, os);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int prepare(maker *m)
{
    msi_wkernel_set *set = m->set;
    const bool full = set->form == MSI_WKERNEL_FULL;
    MSI_TRY(msi_wkernel_nodes_make(&m->nodes, m->spec, set->half_max));
    MSI_TRY(prepare_axis(m, &m->u, &m->nodes.u, m->nodes.part_u));
    MSI_TRY(prepare_axis(m, &m->v, &m->nodes.v, m->nodes.part_v));
    const int64_t node_pairs = (int64_t)m->u.n_node * m->v.n_node, n_u = m->u.n_distance, n_v = m->v.n_distance;
    int64_t each = std::max(n_u, n_v);
    if (full) {
        each = node_pairs + m->u.n_node * n_v + n_u * n_v;
        MSI_TRY(upload(m, &m->screen, m->nodes.screen, node_pairs));
    }
    int32_t *half;
    int64_t *offset_u, *offset_v;
    double *w_lambda;
    MSI_TRY(upload(m, &half, set->half, set->n_plane));
    MSI_TRY(upload(m, &offset_u, set->offset_u, set->n_plane));
    MSI_TRY(upload(m, &offset_v, set->offset_v, set->n_plane));
    MSI_TRY(upload(m, &w_lambda, set->w_lambda, set->n_plane));
    const int64_t fit = SCRATCH_BYTES / (each * (int64_t)sizeof(double2));
    m->planes_at_once = std::clamp<int64_t>(fit, 1, std::min<int64_t>(set->n_plane, MOST_PLANES));
    m->batch = {0, set->oversample, half, offset_u, offset_v, w_lambda, nullptr, nullptr, nullptr};
    MSI_TRY(allocate(m, &m->batch.kernel, m->planes_at_once * each));
    if (full) {
        m->batch.phase = m->batch.kernel + m->planes_at_once * n_u * n_v;
        m->batch.row = m->batch.phase + m->planes_at_once * node_pairs;
    }
    char *table;
    const int64_t element = msi_complex_bytes(set->precision);
    MSI_TRY(allocate(&table, (set->n_element + MSI_WKERNEL_PADDING) * element, "convolution kernels"));
    set->table = table;
    set->on_device = 1;
    MSI_CUDA(cudaMemsetAsync(table + set->n_element * element, 0, (size_t)(MSI_WKERNEL_PADDING * element), m->stream));
    return MSI_OK;
}

template <typename C> int make_separable(maker *m, int32_t n_plane, int32_t half)
{
    const int64_t rows = msi_wkernel_elements(0, m->set->oversample, half);
    for (int axis = 0; axis < 2; axis++) {
        /* If both axes are the same, they share a table. */
        if (axis && m->set->offset_v[0] == m->set->offset_u[0]) continue;
        const axis_view &a = axis ? m->v : m->u;
        k_axis<<<dim3(blocks_for(a.n_distance), (unsigned)n_plane), BLOCK, 0, m->stream>>>(a, m->batch);
        MSI_CUDA(cudaGetLastError());
        k_put_rows<<<dim3(blocks_for(rows), (unsigned)n_plane), BLOCK, 0, m->stream>>>(
            a, m->batch, axis ? m->batch.offset_v : m->batch.offset_u, (C *)m->set->table);
        MSI_CUDA(cudaGetLastError());
    }
    return MSI_OK;
}

template <typename C> int make_full(maker *m, int32_t n_plane, int32_t half)
{
    const int32_t os = m->set->oversample, taps = msi_wkernel_taps(half);
    const int64_t n = msi_wkernel_distances(half, os);
    const unsigned z = (unsigned)n_plane;
    k_phases<<<dim3(blocks_for((int64_t)m->u.n_node * m->v.n_node), z), BLOCK, 0, m->stream>>>(m->u, m->v, m->screen,
                                                                                               m->batch);
    MSI_CUDA(cudaGetLastError());
    k_rows<<<dim3(blocks_for(n), (unsigned)m->u.n_node, z), BLOCK, 0, m->stream>>>(m->u, m->v, m->batch);
    MSI_CUDA(cudaGetLastError());
    k_squares<<<dim3(blocks_for(n), (unsigned)((n + ROWS - 1) / ROWS), z), BLOCK, 0, m->stream>>>(m->u, m->v, m->batch);
    MSI_CUDA(cudaGetLastError());
    k_put_squares<<<dim3(blocks_for((int64_t)(os + 1) * taps * taps), (unsigned)(os + 1), z), BLOCK, 0, m->stream>>>(
        m->u, m->v, m->batch, (C *)m->set->table);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int make_planes(maker *m)
{
    const msi_wkernel_set *set = m->set;
    for (int64_t first = 0; first < set->n_plane; first += m->planes_at_once) {
        const int32_t n = (int32_t)std::min<int64_t>(m->planes_at_once, set->n_plane - first);
        const int32_t half = *std::max_element(set->half + first, set->half + first + n);
        m->batch.first_plane = (int32_t)first;
        if (set->form == MSI_WKERNEL_FULL)
            MSI_TRY(set->precision == MSI_FP32 ? make_full<msi_c32>(m, n, half) : make_full<msi_c64>(m, n, half));
        else
            MSI_TRY(set->precision == MSI_FP32 ? make_separable<msi_c32>(m, n, half)
                                               : make_separable<msi_c64>(m, n, half));
    }
    MSI_CUDA(cudaStreamSynchronize(m->stream));
    return MSI_OK;
}

} // namespace

extern "C" int msi_wkernel_make_cuda(msi_wkernel_set *set, const msi_gpu_stream *gpu, const msi_wkernel_spec *spec)
{
    const gpu_range range("make kernels");
    *set = {};
    MSI_TRY(msi_gpu_stream_enter(gpu));
    if (spec->n_plane < 1 || spec->oversample < 2 || spec->oversample % 2 || !spec->half)
        return msi_error_set(MSI_EINTERNAL, "kernels: %d planes, oversampled %d times, with%s supports", spec->n_plane,
                             spec->oversample, spec->half ? "" : "out");
    MSI_TRY(msi_wkernel_layout(set, spec, spec->half));
    maker m = {};
    m.stream = (cudaStream_t)gpu->stream;
    m.spec = spec;
    m.set = set;
    int rc = prepare(&m);
    if (!rc) rc = make_planes(&m);
    for (void *p : m.memory) cudaFree(p);
    msi_wkernel_nodes_free(&m.nodes);
    if (rc) msi_wkernel_free_cuda(set);
    return rc;
}

extern "C" void msi_wkernel_free_cuda(msi_wkernel_set *set)
{
    if (set->on_device) {
        cudaFree(set->table);
        set->table = nullptr;
    }
    msi_wkernel_free(set);
}

static int upload_part(msi_wkernel_mirror *mirror, int part, const void *from, int64_t bytes, cudaStream_t stream)
{
    char *memory;
    MSI_TRY(allocate(&memory, bytes, "convolution kernels"));
    mirror->memory[part] = memory;
    MSI_CUDA(cudaMemcpyAsync(memory, from, (size_t)bytes, cudaMemcpyHostToDevice, stream));
    return MSI_OK;
}

static int fill_mirror(msi_wkernel_mirror *mirror, const msi_gpu_stream *gpu, const msi_wkernel_set *k,
                       msi_wproj_lookup lookup)
{
    cudaStream_t stream = (cudaStream_t)gpu->stream;
    MSI_TRY(msi_gpu_stream_enter(gpu));
    std::vector<int32_t> taps((size_t)k->n_plane);
    for (int32_t p = 0; p < k->n_plane; p++) taps[(size_t)p] = msi_wkernel_taps(k->half[p]);
    const int64_t words = k->n_plane * (int64_t)sizeof(int64_t);
    MSI_TRY(upload_part(mirror, 0, taps.data(), k->n_plane * (int64_t)sizeof(int32_t), stream));
    MSI_TRY(upload_part(mirror, 1, k->offset_u, words, stream));
    MSI_TRY(upload_part(mirror, 2, k->offset_v, words, stream));
    if (!k->on_device)
        MSI_TRY(upload_part(mirror, 3, k->table, k->n_element * msi_complex_bytes(k->precision), stream));
    msi_wproj_kernels *v = &mirror->view;
    v->full = k->form == MSI_WKERNEL_FULL;
    v->lookup = lookup;
    v->n_plane = k->n_plane;
    v->oversample = k->oversample;
    v->max_taps = msi_wkernel_taps(k->half_max);
    v->taps = (const int32_t *)mirror->memory[0];
    v->offset_u = (const int64_t *)mirror->memory[1];
    v->offset_v = (const int64_t *)mirror->memory[2];
    v->table = k->on_device ? k->table : mirror->memory[3];
    return msi_gpu_stream_wait(gpu);
}

extern "C" int msi_wkernel_mirror_make(msi_wkernel_mirror *mirror, const msi_gpu_stream *gpu,
                                       const msi_wkernel_set *set, msi_wproj_lookup lookup)
{
    *mirror = {};
    int rc = fill_mirror(mirror, gpu, set, lookup);
    if (rc) msi_wkernel_mirror_free(mirror);
    return rc;
}

extern "C" void msi_wkernel_mirror_free(msi_wkernel_mirror *mirror)
{
    for (void *p : mirror->memory) cudaFree(p);
    *mirror = {};
}
