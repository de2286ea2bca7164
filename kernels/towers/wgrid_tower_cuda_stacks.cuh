/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stacks of small planes on the GPU, for w-towers in both directions: which planes of which subgrids hold samples, how
 * many of them are there at once, and their transforms.
 */
#ifndef MSI_KERNELS_WGRID_TOWER_CUDA_STACKS_CUH
#define MSI_KERNELS_WGRID_TOWER_CUDA_STACKS_CUH

#include <cub/device/device_scan.cuh>

#include "core/progress.h"
#include "kernels/towers/tower_plan.h"
#include "kernels/towers/wgrid_tower_cuda_kernels.cuh"
#include "kernels/wgrid/wgrid_cuda_batch.cuh"

namespace {

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

/* Transforms of small planes that go to cuFFT together; more gain a tenth, and more of a rest is transformed for
 * nothing.
 */
constexpr int64_t BYTES_TOGETHER = 32 << 20;

inline int64_t planes_together(int64_t plane_bytes)
{
    return plane_bytes > BYTES_TOGETHER ? 1 : BYTES_TOGETHER / plane_bytes;
}

inline int64_t round_up(int64_t n, int64_t step)
{
    return (n + step - 1) / step * step;
}

/* Subgrids [first_core, end_core) of a tower, those that hold samples being stacks [first_stack, ..). */
struct stack_batch {
    int64_t first_core, end_core, first_stack, n_stack, n_slot;
    item_range crowded, sparse;
};

/* Order samples by tower, core and tile of the plan's size, as degridding does. */
inline sample_order order_of_towers(const msi_wgrid_plan &plan, const msi_tower_plan &t)
{
    sample_order o = {};
    o.height = t.height;
    o.first_tower = 0;
    o.end_tower = t.n_tower;
    o.log_u = o.log_v = log_of(plan.grid.tile);
    o.edge_u = o.edge_v = t.core / plan.grid.tile;
    o.n_core_u = (int32_t)t.n_sub_u;
    o.n_core_v = (int32_t)t.n_sub_v;
    return o;
}

/* The stacks of a batch of samples, which somebody else owns and puts in samples.order. */
template <typename T> class tower_stacks {
  public:
    tower_stacks(sample_batches<T> &samples_, const msi_tower_plan *towers_, int64_t n_small_)
        : towers(*towers_), plane_cells((int64_t)towers.size * towers.size), samples(samples_), n_small(n_small_),
          together(planes_together(plane_cells * (int64_t)sizeof(cplx<T>)))
    {
    }

    /* Device bytes of everything here but samples. */
    static int64_t bytes(const msi_tower_plan &t, int64_t n_small)
    {
        int64_t plane = (int64_t)t.size * t.size * (int64_t)sizeof(cplx<T>), core = t.n_sub_u * t.n_sub_v;
        int64_t n = round_up(n_small, planes_together(plane)),
                n_sum = round_up(most_stacks(t, n_small), planes_together(plane));
        return (n + n_sum + planes_together(plane)) * plane +
               core * (t.n_plane * (int64_t)sizeof(uint32_t) + (int64_t)sizeof(core_start) + 4);
    }

    const msi_tower_plan towers;
    const int64_t plane_cells;

    int make_stacks()
    {
        int64_t n_core = samples.order.n_core(), half = towers.size / 2 + 1;
        MSI_TRY(starts.make(n_core + 1, "subgrids"));
        MSI_TRY(stack_cores.make(n_core, "subgrids"));
        MSI_TRY(d_slot.fit((n_core * towers.n_plane + 1) * (int64_t)sizeof(uint32_t), "subgrids"));
        MSI_TRY(d_start.fit((n_core + 1) * (int64_t)sizeof(core_start), "subgrids"));
        MSI_TRY(d_core_of.fit(n_core * (int64_t)sizeof(uint32_t), "subgrids"));
        int64_t n_sum = round_up(most_stacks(towers, n_small), together), cell = sizeof(cplx<T>);
        MSI_TRY(d_small.fit(round_up(n_small, together) * plane_cells * cell, "subgrids"));
        MSI_TRY(d_sum.fit(n_sum * plane_cells * cell, "subgrids"));
        host_array<double> nu;
        MSI_TRY(nu.make(half * half, "subgrids"));
        for (int64_t i = 0; i < half * half; i++)
            nu.at[i] = msi_tower_n(samples.plan, &towers, (int32_t)(i % half), (int32_t)(i / half));
        MSI_TRY(d_nu.fit(half * half * (int64_t)sizeof(double), "subgrids"));
        MSI_TRY(samples.on.upload(as<double>(d_nu), nu.at, half * half));
        MSI_TRY(samples.on.wait());
        return fft.make_many(towers.size, together, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z, samples.on.get());
    }

    /* find_stacks - which subgrids and planes the sorted batch of samples touches in a tower; then next_stacks hands
     * them out. */
    int find_stacks(int tower_)
    {
        const stage_timer stage("sort", &samples.times->sort_s);
        const plan_stream &on = samples.on;
        tower = tower_;
        rewind();
        const int64_t n_core = samples.order.n_core(), n_slot = n_core * towers.n_plane + 1;
        const sorted_runs &runs = samples.runs;
        uint32_t *slot = as<uint32_t>(d_slot);
        MSI_TRY(on.clear(slot, n_slot));
        k_mark_planes<<<(unsigned)((runs.n + 255) / 256), 256, 0, on.get()>>>(
            samples.order, towers.n_plane, samples.g.w_width, tower, runs.key, runs.n, slot);
        MSI_CUDA(cudaGetLastError());
        size_t bytes = 0;
        const auto scan = [&](void *work) {
            return cub::DeviceScan::ExclusiveSum(work, bytes, slot, slot, n_slot, on.get());
        };
        MSI_CUDA(scan(nullptr));
        MSI_TRY(samples.d_work.fit((int64_t)bytes + 8, "subgrids"));
        MSI_CUDA(scan(as<void>(samples.d_work)));
        const core_items items = {runs, (uint32_t)samples.n_crowded, (uint32_t)samples.n_sparse};
        k_find_cores<<<(unsigned)(n_core / 256 + 1), 256, 0, on.get()>>>(samples.order, towers.n_plane, tower, slot,
                                                                         items, as<core_start>(d_start));
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(on.download(starts.at, as<core_start>(d_start), n_core + 1));
        int64_t n_stack = 0;
        for (int64_t c = 0; c < n_core; c++)
            if (starts.at[c + 1].slot > starts.at[c].slot) stack_cores.at[n_stack++] = (uint32_t)c;
        MSI_TRY(on.upload(as<uint32_t>(d_core_of), stack_cores.at, n_stack));
        return on.wait();
    }

    void rewind()
    {
        at_core = at_stack = 0;
    }

    /* next_stacks - the next subgrids, as many as small planes are there for. Returns: false when there are no more */
    bool next_stacks(stack_batch *b)
    {
        int64_t n_core = samples.order.n_core();
        msi_progress_at(at_core, n_core);
        *b = {at_core, at_core, at_stack, 0, 0, {}, {}};
        const core_start *s = starts.at, first = s[at_core];
        for (; at_core < n_core && s[at_core + 1].slot - first.slot <= n_small; at_core++)
            at_stack += s[at_core + 1].slot > s[at_core].slot;
        b->end_core = at_core;
        b->n_stack = at_stack - b->first_stack;
        b->n_slot = s[at_core].slot - first.slot;
        b->crowded = {samples.crowded().first + first.crowded, s[at_core].crowded - first.crowded};
        b->sparse = {samples.sparse().first + first.sparse, s[at_core].sparse - first.sparse};
        return b->n_stack > 0;
    }

    stack_job<T> job(const stack_batch &b) const
    {
        tower_shape shape = {towers.size,    towers.core,     towers.margin, (int32_t)towers.n_sub_u,
                             towers.n_plane, samples.g.w_step};
        small_planes planes = {shape, as<uint32_t>(d_slot), starts.at[b.first_core].slot, tower * towers.height};
        return {planes, as<uint32_t>(d_core_of) + b.first_stack, as<double>(d_nu), as<cplx<T>>(d_small),
                as<cplx<T>>(d_sum)};
    }

    /* clear_rest - zero the planes from n on that are transformed with others but hold nothing. */
    int clear_rest(cplx<T> *planes, int64_t n)
    {
        int64_t rest = round_up(n, together) - n;
        return rest ? samples.on.clear(planes + n * plane_cells, rest * plane_cells) : MSI_OK;
    }

    int transform_small(cplx<T> *planes, int64_t n, int direction)
    {
        for (int64_t i = 0; i < n; i += together, planes += together * plane_cells) MSI_TRY(fft.run(planes, direction));
        return MSI_OK;
    }

    /* cut_stacks - cut subgrids out of a tower's whole plane, and make their small planes of them: job(b).small. */
    int cut_stacks(const stack_batch &b, const cplx<T> *whole)
    {
        const stage_timer stage("transform", &samples.times->transform_s);
        const stack_job<T> to = job(b);
        const cudaStream_t stream = samples.on.get();
        k_cut_subgrids<T><<<cell_blocks(b), 256, 0, stream>>>(samples.g, to, whole);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(clear_rest(to.sum, b.n_stack));
        MSI_TRY(transform_small(to.sum, b.n_stack, CUFFT_FORWARD));
        k_spread_planes<T><<<quad_blocks(b), 256, list_bytes(), stream>>>(to);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(clear_rest(to.small, b.n_slot));
        MSI_TRY(transform_small(to.small, b.n_slot, CUFFT_INVERSE));
        return samples.on.wait();
    }

    dim3 quad_blocks(const stack_batch &b) const
    {
        int64_t half = towers.size / 2 + 1;
        return dim3((unsigned)b.n_stack, (unsigned)((half * half + 255) / 256));
    }
    dim3 cell_blocks(const stack_batch &b) const
    {
        return dim3((unsigned)b.n_stack, (unsigned)((plane_cells + 255) / 256));
    }
    size_t list_bytes() const
    {
        return sizeof(uint16_t) * (size_t)towers.n_plane;
    }

    /* The geometry of a tower's whole plane: its only one. */
    screen_geometry tower_screen(int tower_) const
    {
        screen_geometry s = samples.screen();
        s.w_first = msi_tower_w(&samples.g, &towers, tower_);
        return s;
    }

  private:
    sample_batches<T> &samples;
    const int64_t n_small, together;
    int tower = 0;
    int64_t at_core = 0, at_stack = 0;
    host_array<core_start> starts;
    host_array<uint32_t> stack_cores;
    buffer d_slot, d_start, d_core_of, d_nu, d_small, d_sum;
    fft_plan fft;

    /* Every stack has at least the planes of one sample. */
    static int64_t most_stacks(const msi_tower_plan &t, int64_t n_small)
    {
        int64_t w_width = t.n_plane - t.height + 1;
        return n_small / w_width + 1;
    }
};

} // namespace

#endif
