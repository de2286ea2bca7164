/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels of w-towers on the GPU, both directions; wgrid_tower_cuda.cu says how they work together. */
#ifndef MSI_KERNELS_WGRID_TOWER_CUDA_KERNELS_CUH
#define MSI_KERNELS_WGRID_TOWER_CUDA_KERNELS_CUH

#include "kernels/gpu/vector_add_cuda.cuh"
#include "kernels/wgrid/wgrid_cuda_batch.cuh"

namespace {

/* The part of a plan of towers that kernels need. */
struct tower_shape {
    int32_t size, core, margin;
    int32_t n_core_u, n_plane; /* planes of a tower */
    double w_step;
};

/*
 * The small planes of a tower and a batch of its subgrids. slot [core][n_plane] counts the planes that hold something:
 * planes of one subgrid lie one after the other, and an empty one takes no room.
 */
struct small_planes {
    static constexpr bool ALWAYS_W = true;
    tower_shape tower;
    const uint32_t *slot;
    uint32_t first_slot; /* of the batch */
    int first_w0;        /* of the tower */

    __device__ int64_t image_cells(const msi_wgrid_geometry &) const
    {
        return 0;
    }
    /* Column and row of a sample's core. */
    template <typename T> __device__ int2 core(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int to_u = (int)(g.nu / 2) + g.width, to_v = (int)(g.nv / 2) + g.width;
        return {(r.u0 + to_u) / tower.core, (r.v0 + to_v) / tower.core};
    }
    template <typename T> __device__ int plane_number(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int2 c = core(g, r);
        return (int)(slot[((int64_t)c.y * tower.n_core_u + c.x) * tower.n_plane + r.w0 - first_w0] - first_slot);
    }
    __device__ int n_plane() const
    {
        return INT32_MAX;
    }
    template <typename T> __device__ patch find(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int to_u = (int)(g.nu / 2) + g.width, to_v = (int)(g.nv / 2) + g.width;
        int2 c = core(g, r);
        int64_t cells = (int64_t)tower.size * tower.size;
        return {plane_number(g, r) * cells,
                cells,
                to_u - c.x * tower.core + tower.margin,
                to_v - c.y * tower.core + tower.margin,
                tower.size,
                tower.size,
                0,
                g.w_width};
    }
};

/* The runs of one tower mark the planes that their samples touch: mark [core][n_plane]. */
__global__ void k_mark_planes(sample_order order, int n_plane, int w_width, int tower, const uint32_t *run_key,
                              int64_t n_run, uint32_t *mark)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_run) return;
    int64_t tower_keys = order.tower_keys(), key = (int64_t)run_key[i] - (tower - order.first_tower) * tower_keys;
    if (run_key[i] == UNUSED || key < 0 || key >= tower_keys) return;
    int64_t core = key / order.core_keys();
    uint32_t *first = mark + core * n_plane + key % order.height;
    for (int k = 0; k < w_width; k++) first[k] = 1;
}

/* Where the planes and the items of a core begin. */
struct core_start {
    uint32_t slot, crowded, sparse;
};

/* A batch's runs, and the numbers of its crowded and sparse items. */
struct core_items {
    sorted_runs runs;
    uint32_t n_crowded, n_sparse;
};

/* Find start [n_core + 1] of a tower's cores, and where the last one ends. */
__global__ void k_find_cores(sample_order order, int n_plane, int tower, const uint32_t *slot, core_items items,
                             core_start *start)
{
    int64_t core = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (core > order.n_core()) return;
    int64_t key = (tower - order.first_tower) * order.tower_keys() + core * order.core_keys(), low = 0,
            high = items.runs.n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (items.runs.key[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    start[core] = {slot[core * n_plane], low < items.runs.n ? items.runs.crowded_at[low] : items.n_crowded,
                   low < items.runs.n ? items.runs.sparse_at[low] : items.n_sparse};
}

/*
 * Subgrids as kernels visit them: stack k of a batch is that of core core_of[k]. nu [size/2 + 1][size/2 + 1] is
 * n - 1 - n_mid at the pixels of a subgrid's transform, which looks the same from all four corners.
 */
template <typename T> struct stack_job {
    small_planes planes;
    const uint32_t *core_of;
    const double *nu;
    cplx<T> *small; /* [slot][size][size] */
    cplx<T> *sum;   /* [stack][size][size] */
};

/* Four cells of a subgrid that share a screen, and n - 1 - n_mid there. */
struct quad {
    int cell[4];
    double nu;
};

__device__ quad find_quad(int size, const double *nu, int i)
{
    int half = size / 2 + 1, x = i % half, y = i / half;
    int mirror_x = x ? size - x : 0, mirror_y = y ? size - y : 0;
    return {{y * size + x, y * size + mirror_x, mirror_y * size + x, mirror_y * size + mirror_x}, nu[i]};
}

/* A stack's planes that hold something, in shared memory: plane [n]. Returned: n and the slot of the first. */
__device__ int list_planes(const small_planes &p, uint32_t core, uint16_t *plane, int64_t *slot)
{
    const uint32_t *at = p.slot + (int64_t)core * p.tower.n_plane;
    uint32_t first = at[0];
    for (int k = threadIdx.x; k < p.tower.n_plane; k += blockDim.x)
        if (at[k + 1] != at[k]) plane[at[k] - first] = (uint16_t)k;
    __syncthreads();
    *slot = first - p.first_slot;
    return (int)(at[p.tower.n_plane] - first);
}

/* exp(-2 pi i dw nu) of a plane of a tower, brought to the tower's own w. */
template <typename T> __device__ cplx<T> small_screen(const tower_shape &t, int plane, double nu)
{
    double turns = (plane - 0.5 * (t.n_plane - 1)) * t.w_step * nu;
    T s, c;
    sincos_turns((T)(turns - rint(turns)), &s, &c);
    return {c, -s};
}

/* Transformed planes, screened and added up: sum; block (stack, part of it). Shared: n_plane uint16_t. */
template <typename T> __global__ void __launch_bounds__(256) k_sum_planes(stack_job<T> job)
{
    extern __shared__ uint16_t plane[];
    const tower_shape &t = job.planes.tower;
    int64_t slot, cells = (int64_t)t.size * t.size;
    int n = list_planes(job.planes, job.core_of[blockIdx.x], plane, &slot);
    int i = blockIdx.y * blockDim.x + threadIdx.x, half = t.size / 2 + 1;
    if (i >= half * half) return;
    quad q = find_quad(t.size, job.nu, i);
    cplx<T> total[4] = {};
    const cplx<T> *from = job.small + slot * cells;
#pragma unroll 4
    for (int k = 0; k < n; k++, from += cells) {
        cplx<T> turn = small_screen<T>(t, plane[k], q.nu);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            cplx<T> x = from[q.cell[c]];
            total[c].re += x.re * turn.re - x.im * turn.im;
            total[c].im += x.re * turn.im + x.im * turn.re;
        }
    }
    T scale = (T)(1 / (double)cells);
#pragma unroll
    for (int c = 0; c < 4; c++) job.sum[blockIdx.x * cells + q.cell[c]] = {total[c].re * scale, total[c].im * scale};
}

/* Spread one transformed subgrid, screened the other way, onto each of its planes: the transpose of k_sum_planes. */
template <typename T> __global__ void __launch_bounds__(256) k_spread_planes(stack_job<T> job)
{
    extern __shared__ uint16_t plane[];
    const tower_shape &t = job.planes.tower;
    int64_t slot, cells = (int64_t)t.size * t.size;
    int n = list_planes(job.planes, job.core_of[blockIdx.x], plane, &slot);
    int i = blockIdx.y * blockDim.x + threadIdx.x, half = t.size / 2 + 1;
    if (i >= half * half) return;
    quad q = find_quad(t.size, job.nu, i);
    cplx<T> x[4];
    T scale = (T)(1 / (double)cells);
#pragma unroll
    for (int c = 0; c < 4; c++) {
        x[c] = job.sum[blockIdx.x * cells + q.cell[c]];
        x[c].re *= scale;
        x[c].im *= scale;
    }
    cplx<T> *to = job.small + slot * cells;
    for (int k = 0; k < n; k++, to += cells) {
        cplx<T> turn = small_screen<T>(t, plane[k], q.nu);
#pragma unroll
        for (int c = 0; c < 4; c++)
            to[q.cell[c]] = {x[c].re * turn.re + x[c].im * turn.im, x[c].im * turn.re - x[c].re * turn.im};
    }
}

/* Find the cell of the whole plane under cell `cell` of a core's subgrid. */
__device__ int64_t whole_cell(const msi_wgrid_geometry &g, const tower_shape &t, uint32_t core, int cell)
{
    int u = (int)(core % (uint32_t)t.n_core_u) * t.core - t.margin - g.width + cell % t.size;
    int v = (int)(core / (uint32_t)t.n_core_u) * t.core - t.margin - g.width + cell / t.size;
    return (int64_t)msi_wrap_cell(v, (int)g.nv) * g.nu + msi_wrap_cell(u, (int)g.nu);
}

/* Add subgrids to the whole plane; k_cut_subgrids takes them out of it. A block has a part of a stack. */
template <typename T> __global__ void k_add_subgrids(msi_wgrid_geometry g, stack_job<T> job, cplx<T> *whole)
{
    const tower_shape &t = job.planes.tower;
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= t.size * t.size) return;
    cplx<T> x = job.sum[(int64_t)blockIdx.x * t.size * t.size + i];
    vector_add::add_one(whole + whole_cell(g, t, job.core_of[blockIdx.x], i), x.re, x.im);
}

template <typename T> __global__ void k_cut_subgrids(msi_wgrid_geometry g, stack_job<T> job, const cplx<T> *whole)
{
    const tower_shape &t = job.planes.tower;
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= t.size * t.size) return;
    job.sum[(int64_t)blockIdx.x * t.size * t.size + i] = whole[whole_cell(g, t, job.core_of[blockIdx.x], i)];
}

} // namespace

#endif
