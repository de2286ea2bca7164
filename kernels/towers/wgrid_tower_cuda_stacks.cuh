/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Small planes and stacks of w-towers on the GPU, for gridding and degridding: the planes with samples, the numbers by
 * which samples find their planes, batches of subgrids, and the memory of their transforms. */
#ifndef MSI_WGRID_TOWER_CUDA_STACKS_CUH
#define MSI_WGRID_TOWER_CUDA_STACKS_CUH

#include <algorithm>
#include <cub/device/device_scan.cuh>

#include "core/progress.h"
#include "kernels/towers/subgrid_cuda.h"
#include "kernels/towers/tower_plan.h"
#include "kernels/transform/image_fft_cuda.h"
#include "kernels/wgrid/wgrid_batches_cuda.cuh"

namespace {

/*
 * The small planes of a batch of subgrids of a tower, [filled][pitch], without their margins, which are zero. slot
 * [core][n_plane] is the number of planes with samples before a plane. The planes of a subgrid are contiguous; planes
 * without samples have no memory.
 */
struct small_planes {
    static constexpr bool ALWAYS_W = true;
    msi_subgrid_shape tower;
    const uint32_t *slot;
    uint32_t first_slot; /* first slot of the batch */
    int first_w0;        /* first w-plane of the tower */

    /* Return the column and row of a sample's core. */
    template <typename T> __device__ int2 core(const msi_wgrid_geometry &g, const record<T> &r) const
    {
        int to_u = (int)(g.nu / 2) + g.width, to_v = (int)(g.nv / 2) + g.width;
        return {(r.u0 + to_u) / tower.core, (r.v0 + to_v) / tower.core};
    }
    /* Find the place of a cell in its core. The cell is counted from the first cell of the first core. */
    __device__ int in_core(int cell) const
    {
        return cell % tower.core;
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
        int64_t cells = (int64_t)tower.filled * tower.pitch;
        return {plane_number(g, r) * cells,
                cells,
                to_u - c.x * tower.core,
                to_v - c.y * tower.core,
                tower.pitch,
                tower.filled,
                0,
                g.w_width};
    }
};

/* Mark the planes that the samples of runs touch: mark [tower][core][n_plane]. */
__global__ void k_mark_planes(sample_order order, int n_plane, int w_width, const uint32_t *run_key, int64_t n_run,
                              uint32_t *mark)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_run || run_key[i] == UNUSED) return;
    uint32_t *first = mark + run_key[i] / order.core_keys() * n_plane + run_key[i] % order.height;
    for (int k = 0; k < w_width; k++) first[k] = 1;
}

/* Mark the rows of whole planes that are covered by subgrids with samples: mark [tower][nv]. One thread for each
 * core. */
__global__ void k_mark_rows(msi_subgrid_shape s, int64_t n_core, int64_t n_tower, const uint32_t *slot, uint8_t *mark)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n_core * n_tower || slot[i * s.n_plane] == slot[(i + 1) * s.n_plane]) return;
    const int first = (int)(i % n_core / s.n_core_u) * s.core - s.width - s.margin;
    for (int k = 0; k < s.size; k++) mark[i / n_core * s.nv + msi_wrap_cell(first + k, (int)s.nv)] = 1;
}

/* The first plane and the first item of a core. */
struct core_start {
    uint32_t slot, crowded, sparse;
};

/* A batch's runs, and the numbers of its crowded and sparse items. */
struct core_items {
    sorted_runs runs;
    uint32_t n_crowded, n_sparse;
};

/* Find start [n + 1] of the n cores of all towers, and the end of the last one. */
__global__ void k_find_cores(sample_order order, int n_plane, int64_t n, const uint32_t *slot, core_items items,
                             core_start *start)
{
    int64_t core = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (core > n) return;
    int64_t key = core * order.core_keys(), low = 0, high = items.runs.n;
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

/* Host memory that frees itself. */
template <typename E> class host_array {
  public:
    host_array() = default;
    host_array(const host_array &) = delete;
    host_array &operator=(const host_array &) = delete;
    ~host_array()
    {
        msi_free(at);
    }
    int make(int64_t n, const char *what)
    {
        return at ? MSI_OK : msi_alloc(&at, n, sizeof(E), what);
    }
    E *at = nullptr;
};

/* Find the shape of a plan's subgrids. Rows of small planes begin at multiples of 32 bytes. */
inline msi_subgrid_shape shape_of(const msi_wgrid_plan &plan, const msi_tower_plan &t)
{
    const msi_wgrid_geometry &g = plan.grid;
    msi_subgrid_shape s = {};
    s.size = t.size;
    s.core = t.core;
    s.margin = t.margin;
    s.width = g.width;
    s.filled = t.core + g.width - 1;
    s.pitch = (s.filled + 3) / 4 * 4;
    s.n_core_u = (int32_t)t.n_sub_u;
    s.n_plane = t.n_plane;
    s.nu = g.nu;
    s.nv = g.nv;
    s.w_step = g.w_step;
    s.precision = plan.precision;
    return s;
}

/* Subgrids [first_core, end_core) of all towers. Those that hold samples are stacks [first_stack, ..). */
struct stack_batch {
    int64_t first_core, end_core, first_stack, n_stack, n_slot;
    item_range crowded, sparse;
};

/* Order samples by tower, core and tile of the plan's size. */
inline sample_order order_of_towers(const msi_wgrid_plan &plan, const msi_tower_plan &t)
{
    sample_order o = {};
    o.height = t.height;
    o.first_tower = 0;
    o.end_tower = t.n_tower;
    o.core = {t.core, t.core};
    o.tile = {plan.grid.tile, plan.grid.tile};
    o.n_core_u = (int32_t)t.n_sub_u;
    o.n_core_v = (int32_t)t.n_sub_v;
    o.first_core = t.first_core;
    o.end_core = t.end_core;
    return o;
}

/* The stacks of a batch of samples. Their owner sorts them in samples.order. */
template <typename T> class tower_stacks {
  public:
    tower_stacks(sample_batches<T> &samples_, const msi_tower_plan *towers_, int64_t n_small_)
        : towers(*towers_), shape(shape_of(*samples_.plan, *towers_)), samples(samples_), n_small(n_small_)
    {
    }
    tower_stacks(const tower_stacks &) = delete;
    tower_stacks &operator=(const tower_stacks &) = delete;
    ~tower_stacks()
    {
        msi_image_fft_free(fft);
    }

    /* Count the device bytes of this object, without samples. */
    static int64_t bytes(const msi_wgrid_plan &plan, const msi_tower_plan &t, int64_t n_small)
    {
        const msi_subgrid_shape shape = shape_of(plan, t);
        int64_t core = t.n_sub_u * t.n_sub_v, sum_cells = (int64_t)t.size * t.size;
        int64_t plane = msi_subgrid_plane_cells(&shape) + msi_subgrid_row_cells(&shape);
        int64_t cells = n_small * plane + most_stacks(t, n_small) * sum_cells + msi_subgrid_screen_cells(&shape);
        return cells * (int64_t)sizeof(cplx<T>) +
               t.n_tower * (core * (t.n_plane * (int64_t)sizeof(uint32_t) + (int64_t)sizeof(core_start) + 4) +
                            shape.nv + (t.n_sub_v + 1) * (int64_t)sizeof(uint32_t));
    }

    const msi_tower_plan towers;
    const msi_subgrid_shape shape;

    /* make_stacks - allocate memory for the towers of samples.order, the largest number that is sorted together. */
    int make_stacks()
    {
        const sample_order &o = samples.order;
        int64_t n_core = o.n_core() * (o.end_tower - o.first_tower), cell = sizeof(cplx<T>);
        int64_t sum_cells = (int64_t)towers.size * towers.size;
        MSI_TRY(starts.make(n_core + 1, "subgrids"));
        MSI_TRY(stack_cores.make(n_core, "subgrids"));
        MSI_TRY(d_slot.fit((n_core * towers.n_plane + 1) * (int64_t)sizeof(uint32_t), "subgrids"));
        MSI_TRY(d_start.fit((n_core + 1) * (int64_t)sizeof(core_start), "subgrids"));
        MSI_TRY(d_core_of.fit(n_core * (int64_t)sizeof(uint32_t), "subgrids"));
        MSI_TRY(row_first.make(n_row_first(), "subgrids"));
        MSI_TRY(d_row_first.fit(n_row_first() * (int64_t)sizeof(uint32_t), "subgrids"));
        MSI_TRY(d_row_used.fit((o.end_tower - o.first_tower) * shape.nv, "subgrids"));
        MSI_TRY(d_small.fit(n_small * msi_subgrid_plane_cells(&shape) * cell, "subgrids"));
        MSI_TRY(d_rows.fit(n_small * msi_subgrid_row_cells(&shape) * cell, "subgrids"));
        MSI_TRY(d_sum.fit(most_stacks(towers, n_small) * sum_cells * cell, "subgrids"));
        const msi_wgrid_geometry &g = samples.g;
        const msi_image_fft_shape whole = {samples.plan->image,    g.nu, g.nv, g.n_mid, g.w_width > 1,
                                           samples.plan->precision};
        if (!fft) MSI_TRY(msi_image_fft_create(&fft, &whole, samples.on.get()));
        MSI_TRY(make_roots());
        /* make_screens frees its workspace, which cannot fail: an error of the device appears in the next call. */
        return make_screens();
    }

    /* find_stacks - find the subgrids and planes that hold samples of the sorted batch, in the towers of its order,
     * unless they are known. Then begin_tower and next_stacks list them. */
    int find_stacks()
    {
        if (is_found) return MSI_OK;
        const stage_timer stage("sort", &samples.times->sort_s);
        const plan_stream &on = samples.on;
        const sample_order &o = samples.order;
        const int64_t n_tower = o.end_tower - o.first_tower, n_core = n_tower * o.n_core();
        const int64_t n_slot = n_core * towers.n_plane + 1;
        const sorted_runs &runs = samples.runs;
        uint32_t *slot = as<uint32_t>(d_slot);
        MSI_TRY(on.clear(slot, n_slot));
        MSI_TRY(on.clear(as<uint8_t>(d_row_used), n_tower * shape.nv));
        k_mark_planes<<<(unsigned)((runs.n + 255) / 256), 256, 0, on.get()>>>(o, towers.n_plane, samples.g.w_width,
                                                                              runs.key, runs.n, slot);
        MSI_CUDA(cudaGetLastError());
        size_t bytes = 0;
        const auto scan = [&](void *work) {
            return cub::DeviceScan::ExclusiveSum(work, bytes, slot, slot, n_slot, on.get());
        };
        MSI_CUDA(scan(nullptr));
        MSI_TRY(samples.d_work.fit((int64_t)bytes + 8, "subgrids"));
        MSI_CUDA(scan(as<void>(samples.d_work)));
        const core_items items = {runs, (uint32_t)samples.n_crowded, (uint32_t)samples.n_sparse};
        k_find_cores<<<(unsigned)(n_core / 256 + 1), 256, 0, on.get()>>>(o, towers.n_plane, n_core, slot, items,
                                                                         as<core_start>(d_start));
        MSI_CUDA(cudaGetLastError());
        k_mark_rows<<<(unsigned)((n_core + 255) / 256), 256, 0, on.get()>>>(shape, o.n_core(), n_tower, slot,
                                                                            as<uint8_t>(d_row_used));
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(on.download(starts.at, as<core_start>(d_start), n_core + 1));
        return list_stacks(n_core);
    }

    /* reset_stacks - must be called before samples are sorted in another order. */
    void reset_stacks()
    {
        is_found = false;
    }

    /* begin_tower - make next_stacks begin with the first subgrid of a tower. */
    void begin_tower(int tower_)
    {
        const int64_t n_core = samples.order.n_core();
        tower = tower_;
        at_core = (tower - samples.order.first_tower) * n_core;
        end_core = at_core + n_core;
        tower_stack = at_stack = stack_before(at_core);
    }

    /* sums_fit - return whether the sums of all stacks of the current tower fit in memory, as add_sums needs. */
    bool sums_fit() const
    {
        return msi_image_fft_can_add_squares(fft) &&
               stack_before(end_core) - tower_stack <= most_stacks(towers, n_small);
    }

    /* next_stacks - find the next subgrids, at most one for each small plane. Returns: false if there are no more */
    bool next_stacks(stack_batch *b)
    {
        msi_progress_at(at_core - (end_core - samples.order.n_core()), samples.order.n_core());
        *b = {at_core, at_core, at_stack, 0, 0, {}, {}};
        const core_start *s = starts.at, first = s[at_core];
        for (; at_core < end_core && s[at_core + 1].slot - first.slot <= n_small; at_core++)
            at_stack += s[at_core + 1].slot > s[at_core].slot;
        b->end_core = at_core;
        b->n_stack = at_stack - b->first_stack;
        b->n_slot = s[at_core].slot - first.slot;
        b->crowded = {samples.crowded().first + first.crowded, s[at_core].crowded - first.crowded};
        b->sparse = {samples.sparse().first + first.sparse, s[at_core].sparse - first.sparse};
        return b->n_stack > 0;
    }

    /* planes - return the small planes of a batch, as samples find them. */
    small_planes planes(const stack_batch &b) const
    {
        return {shape, tower_slots(), starts.at[b.first_core].slot, tower * towers.height};
    }
    cplx<T> *small() const
    {
        return as<cplx<T>>(d_small);
    }
    /* clear_small - begin to set the first n_slot small planes to zero, for samples to be gridded next. Those that
     * add_small has transformed are zero already. Returns: 0, MSI_EGPU */
    int clear_small(int64_t n_slot)
    {
        const int64_t before = n_clear, cells = msi_subgrid_plane_cells(&shape);
        n_gridded = std::max(n_slot, before);
        n_clear = 0;
        return n_slot > before ? samples.on.clear(small() + before * cells, (n_slot - before) * cells) : MSI_OK;
    }
    /* add_small - begin to transform the small planes, to add up those of a subgrid, and to add subgrids to the whole
     * plane, if there is one. Returns: 0, MSI_EGPU */
    int add_small(const stack_batch &b, cplx<T> *whole)
    {
        const gpu_range range("transform");
        const msi_subgrid_job of = job(b, whole);
        MSI_TRY(msi_subgrid_add(&of, samples.on.get()));
        n_clear = n_gridded;
        return MSI_OK;
    }
    /* job - describe the transforms of a batch. Without a whole plane the sums stay in memory for add_sums. */
    msi_subgrid_job job(const stack_batch &b, cplx<T> *whole) const
    {
        msi_subgrid_job j = {};
        j.shape = shape;
        j.core_of = as<uint32_t>(d_core_of) + b.first_stack;
        j.slot = tower_slots();
        j.first_slot = starts.at[b.first_core].slot;
        j.n_stack = b.n_stack;
        j.n_slot = b.n_slot;
        j.roots = as<void>(d_roots);
        j.screens = as<void>(d_screens);
        j.small = as<void>(d_small);
        j.rows = as<void>(d_rows);
        j.sum = as<cplx<T>>(d_sum) + (whole ? 0 : (b.first_stack - tower_stack) * shape.size * shape.size);
        j.whole = whole;
        return j;
    }

    /* cut_stacks - cut subgrids out of a tower's whole plane, and make their small planes. */
    int cut_stacks(const stack_batch &b, cplx<T> *whole)
    {
        const stage_timer stage("transform", &samples.times->transform_s);
        const msi_subgrid_job to = job(b, whole);
        n_clear = 0;
        MSI_TRY(msi_subgrid_cut(&to, samples.on.get()));
        return samples.on.wait();
    }

    /* add_whole - begin to add a tower's whole plane, which is overwritten, to an image's sum [ny][nx]. */
    int add_whole(int tower_, cplx<T> *whole, T *sum) const
    {
        return msi_image_fft_add(fft, whole, row_used(tower_), msi_tower_w(&samples.g, &towers, tower_), sum);
    }

    /* add_sums - do the same from the sums of the current tower. The whole plane is a workspace. */
    int add_sums(cplx<T> *whole, T *sum) const
    {
        const sample_order &o = samples.order;
        const uint32_t *first = as<uint32_t>(d_row_first) + (tower - o.first_tower) * (o.n_core_v + 1);
        const msi_plane_squares squares = {d_sum.get(),
                                           as<uint32_t>(d_core_of) + tower_stack,
                                           first,
                                           shape.size,
                                           shape.core,
                                           shape.n_core_u,
                                           o.n_core_v,
                                           shape.margin,
                                           -shape.width - shape.margin};
        return msi_image_fft_add_squares(fft, &squares, whole, msi_tower_w(&samples.g, &towers, tower), sum);
    }

    /* make_whole - begin to make a tower's whole plane from a model [ny][nx]: the rows that the current stacks cover,
     * or all rows. */
    int make_whole(int tower_, const msi_taper &taper, const T *model, bool all, cplx<T> *whole) const
    {
        const double w_lambda = msi_tower_w(&samples.g, &towers, tower_);
        return msi_image_fft_spread(fft, &taper, model, w_lambda, all ? nullptr : row_used(tower_), whole);
    }

  private:
    sample_batches<T> &samples;
    const int64_t n_small;
    msi_image_fft *fft = nullptr; /* transform of whole planes */
    int tower = 0;
    bool is_found = false;
    int64_t at_core = 0, end_core = 0, at_stack = 0, n_stack = 0;
    int64_t tower_stack = 0; /* first stack of the current tower */
    int64_t n_clear = 0,
            n_gridded = 0; /* small planes that are zero; that become zero when the gridded planes are transformed */
    host_array<core_start> starts;
    host_array<uint32_t> stack_cores; /* cores of all towers that hold samples */
    host_array<uint32_t>
        row_first; /* [n_tower][n_core_v + 1] first stacks of rows of cores, counted within their tower */
    buffer d_slot, d_start, d_core_of, d_row_first, d_row_used, d_roots, d_screens, d_small, d_rows, d_sum;

    int64_t n_row_first() const
    {
        const sample_order &o = samples.order;
        return (int64_t)(o.end_tower - o.first_tower) * (o.n_core_v + 1);
    }

    /* Count the stacks before a core, of all towers. */
    int64_t stack_before(int64_t core) const
    {
        return std::lower_bound(stack_cores.at, stack_cores.at + n_stack, (uint32_t)core) - stack_cores.at;
    }

    /* List the stacks. The kernels count cores within their tower. */
    int list_stacks(int64_t n_core)
    {
        const sample_order &o = samples.order;
        const uint32_t in_tower = (uint32_t)o.n_core();
        uint32_t *first = row_first.at;
        int64_t before = 0; /* stacks before the tower */
        n_stack = 0;
        for (int64_t c = 0; c < n_core; c++) {
            if (c % in_tower == 0) before = n_stack;
            if (c % o.n_core_u == 0) *first++ = (uint32_t)(n_stack - before);
            if (starts.at[c + 1].slot > starts.at[c].slot) stack_cores.at[n_stack++] = (uint32_t)c;
            if ((c + 1) % in_tower == 0) *first++ = (uint32_t)(n_stack - before);
        }
        host_array<uint32_t> core_of;
        MSI_TRY(core_of.make(n_stack, "subgrids"));
        for (int64_t k = 0; k < n_stack; k++) core_of.at[k] = stack_cores.at[k] % in_tower;
        MSI_TRY(samples.on.upload(as<uint32_t>(d_core_of), core_of.at, n_stack));
        MSI_TRY(samples.on.upload(as<uint32_t>(d_row_first), row_first.at, first - row_first.at));
        MSI_TRY(samples.on.wait());
        is_found = true;
        return MSI_OK;
    }

    const uint32_t *tower_slots() const
    {
        return as<uint32_t>(d_slot) + (tower - samples.order.first_tower) * samples.order.n_core() * towers.n_plane;
    }
    /* Return which rows of a tower's whole plane are covered by stacks, [nv]. */
    const uint8_t *row_used(int tower_) const
    {
        return as<uint8_t>(d_row_used) + (tower_ - samples.order.first_tower) * shape.nv;
    }

    /* Every stack has at least the planes of one sample. */
    static int64_t most_stacks(const msi_tower_plan &t, int64_t n_small)
    {
        int64_t w_width = t.n_plane - t.height + 1;
        return n_small / w_width + 1;
    }

    int make_roots()
    {
        cplx<T> roots[MSI_SUBGRID_MAX_ROOTS];
        int64_t n;
        MSI_TRY(msi_subgrid_roots(&shape, roots, &n));
        MSI_TRY(d_roots.fit(n * (int64_t)sizeof(cplx<T>), "subgrids"));
        MSI_TRY(samples.on.upload(as<cplx<T>>(d_roots), roots, n));
        return samples.on.wait();
    }

    int make_screens()
    {
        int64_t half = towers.size / 2 + 1;
        host_array<double> nu;
        buffer d_nu;
        MSI_TRY(nu.make(half * half, "subgrids"));
        for (int64_t i = 0; i < half * half; i++)
            nu.at[i] = msi_tower_n(samples.plan, &towers, (int32_t)(i % half), (int32_t)(i / half));
        MSI_TRY(d_nu.fit(half * half * (int64_t)sizeof(double), "subgrids"));
        MSI_TRY(d_screens.fit(msi_subgrid_screen_cells(&shape) * (int64_t)sizeof(cplx<T>), "subgrids"));
        MSI_TRY(samples.on.upload(as<double>(d_nu), nu.at, half * half));
        MSI_TRY(msi_subgrid_screens(&shape, as<double>(d_nu), as<void>(d_screens), samples.on.get()));
        return samples.on.wait();
    }
};

} // namespace

#endif
