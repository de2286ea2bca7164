/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batches for either direction: samples are counted by tile and first w-plane and go to their places
 * (wgrid_cuda_place.cuh). */
#ifndef MSI_KERNELS_WGRID_CUDA_PLACE_BATCH_CUH
#define MSI_KERNELS_WGRID_CUDA_PLACE_BATCH_CUH

#include <algorithm>

#include <cub/device/device_scan.cuh>

#include "kernels/gpu/gpu_device.h"
#include "kernels/wgrid/wgrid_cuda_batch.cuh"
#include "kernels/wgrid/wgrid_cuda_place.cuh"
#include "kernels/wgrid/wgrid_degrid_call.h"

namespace {

inline int64_t counter_bytes(const sample_order &o)
{
    return (o.n_key() + COUNT_CHUNK) * (int64_t)sizeof(uint32_t);
}

/* most_counted - limit the bytes of a device's counters: an eighth of its memory, and half of what is free.
 * Returns: 0, MSI_EGPU */
inline int most_counted(int device, int64_t *bytes)
{
    size_t free_bytes, total_bytes;
    MSI_TRY(msi_gpu_memory(device, &free_bytes, &total_bytes));
    *bytes = std::max<int64_t>((int64_t)std::min(total_bytes / 8, free_bytes / 2), 1 << 24);
    return MSI_OK;
}

/* can_count - tell whether an order can be counted in. Counters are summed by chunks, which must end before keys do. */
inline bool can_count(const sample_order &o, int64_t most_bytes)
{
    return o.n_key() < (int64_t)UNUSED - COUNT_CHUNK && counter_bytes(o) <= most_bytes;
}

/* order_for_rings - set the order for whole planes: in small tiles, unless there are too many to be counted.
 * Returns: 0, MSI_EGPU */
template <typename T> int order_for_rings(sample_order *out, const msi_wgrid_plan &plan)
{
    const tile_shape tile = ring_tile<T>(plan.grid.width);
    int64_t most;
    MSI_TRY(most_counted(plan.device, &most));
    sample_order o = order_by_tile(plan.grid, tile);
    for (int edge = TILE; !can_count(o, most); edge *= 2) o = order_by_tile(plan.grid, {edge, edge});
    *out = o;
    return MSI_OK;
}

/* order_for_rings - set the order for towers, whose cores have tiles of the plan's size in `large`: the same cores, and
 * as many towers at once as can be counted. Returns: 0, MSI_EGPU */
template <typename T> int order_for_rings(sample_order *out, const msi_wgrid_plan &plan, const sample_order &large)
{
    const tile_shape tile = ring_tile<T>(plan.grid.width);
    const int32_t n_tower = large.end_tower;
    int64_t most;
    MSI_TRY(most_counted(plan.device, &most));
    sample_order o = large;
    o.tile = tile;
    o.end_tower = 1;
    if (!can_count(o, most)) o = large;
    for (o.end_tower = n_tower; o.end_tower > 1 && !can_count(o, most);) o.end_tower--;
    *out = o;
    return MSI_OK;
}

/* What of several images lies beside samples in order: the values that are gridded, PSF's excepted, which go with the
 * samples; or visibilities and weights, of which make_values makes an image's. */
enum class parts { NONE, VALUES, VISIBILITIES };

template <typename T> class placed_batches : public sample_batches<T> {
  public:
    using base = sample_batches<T>;
    using base::d_items;
    using base::d_rank;
    using base::d_records;
    using base::d_runs;
    using base::d_value;
    using base::d_work;
    using base::g;
    using base::n_crowded;
    using base::n_sparse;
    using base::now;
    using base::on;
    using base::order;
    using base::times;

    explicit placed_batches(const msi_wgrid_plan *plan) : base(plan) {}
    placed_batches(const msi_wgrid_plan *plan, const sample_order &o) : base(plan, o) {}

    int64_t n_placed = 0; /* samples that have a place */

    /* Count a sample's bytes in a batch of n_plane planes, whose parts are kept in order; counters come on top. */
    static int64_t sample_bytes(int n_plane, parts kept)
    {
        const size_t beside = kept == parts::NONE ? 0 : (size_t)data_pitch<T>(n_plane), n = (size_t)n_plane;
        return (int64_t)((n + (kept == parts::VISIBILITIES ? beside : 0)) * sizeof(float) +
                         (n + beside) * sizeof(cplx<T>) + sizeof(placed<T>) + 6 * sizeof(uint32_t) + sizeof(item) +
                         3 * sizeof(double));
    }

    /* job - name what a gridding kernel reads of the batch, and the grid that it adds to. */
    grid_job<T> job(cplx<T> *grid) const
    {
        grid_job<T> j = {};
        j.taps = as<tap_table<T>>(base::d_taps);
        j.host_taps = &this->taps;
        j.samples = as<placed<T>>(d_records);
        j.value = gridded < 0 ? reinterpret_cast<const cplx<T> *>(j.samples) + OWN_PITCH<T> - 1
                              : as<cplx<T>>(d_value) + gridded;
        j.value_pitch = gridded < 0 ? OWN_PITCH<T> : pitch;
        j.grid = grid;
        j.is_coarse = base::plan->error_estimate >= COARSE_ERROR;
        return j;
    }

    /* grid_values - have the next jobs grid the values beside the samples of a plane; -1: those with the samples. */
    void grid_values(int plane)
    {
        gridded = plane;
    }

    /* degrid_call - do so for degridding into value [n_placed], in order, from the planes of an image of a model. */
    msi_wgrid_degrid_call degrid_call(const cplx<T> *cells, cplx<T> *value, bool adds) const
    {
        const item_range crowded = base::crowded(), sparse = base::sparse();
        return {base::plan, base::d_taps.get(), &this->taps, d_records.get(), crowded.first, sparse.first,
                crowded.n,  sparse.n,           cells,       value,           adds,          on.get()};
    }

    /*
     * place_batch - put the batch's samples that map's images have in their places, and list their items.
     * Given: kept  of all images beside them; NONE: there is one image, whose values go with the samples
     */
    int place_batch(const plane_map &map, parts kept)
    {
        const bool has_data = kept != parts::NONE, has_weights = kept == parts::VISIBILITIES;
        const stage_timer stage("sort", &times->sort_s);
        const int64_t count = now.n_sample;
        pitch = data_pitch<T>(map.n_image);
        if (has_data) MSI_TRY(d_value.fit(pitch * count * (int64_t)sizeof(cplx<T>), "visibilities"));
        if (has_weights) MSI_TRY(d_kept_weight.fit(pitch * count * (int64_t)sizeof(float), "weights"));
        MSI_TRY(count_batch(weighted_samples{map}));
        const sample_places<T> to = {as<placed<T>>(d_records), has_data ? as<cplx<T>>(d_value) : nullptr,
                                     has_weights ? as<float>(d_kept_weight) : nullptr, pitch};
        const raw_samples<T> raw = {map, as<cplx<T>>(base::d_raw), as<float>(base::d_weight), count};
        k_place_samples<T><<<base::segment_blocks(), 256, 0, on.get()>>>(g, order, raw, rows(), as<uint32_t>(d_count),
                                                                         as<uint32_t>(d_rank), to);
        MSI_CUDA(cudaGetLastError());
        return on.wait();
    }

    /* make_values - make the values that are gridded, with the samples, of a plane whose visibilities are kept, less
     * model [n_placed] where there is one; -1: of the PSF of plane 0. */
    int make_values(int plane, const cplx<T> *model)
    {
        const int of = std::max(plane, 0);
        const plane_data<T> from = {as<cplx<T>>(d_value) + of, as<float>(d_kept_weight) + of, pitch, model, plane < 0};
        k_make_values<T>
            <<<(unsigned)((n_placed + 255) / 256), 256, 0, on.get()>>>(g, n_placed, from, as<placed<T>>(d_records));
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    /* forget_upload - give back what the samples in place were made of; no other batch may follow, nor another order.
     */
    void forget_upload()
    {
        buffer *const all[] = {&this->d_segments, &this->d_freq, &this->d_uvw, &this->d_weight,
                               &this->d_raw,      &d_rank,       &d_count,     &d_sums};
        for (buffer *b : all) b->release();
    }

    /* place_wanted - put all samples of the batch in their places as degridding reads them, and list their items. */
    int place_wanted()
    {
        const stage_timer stage("sort", &times->sort_s);
        MSI_TRY(count_batch(all_samples{}));
        k_place_wanted<T><<<base::segment_blocks(), 256, 0, on.get()>>>(g, order, rows(), as<uint32_t>(d_count),
                                                                        as<uint32_t>(d_rank), as<wanted<T>>(d_records));
        MSI_CUDA(cudaGetLastError());
        return on.wait();
    }

  private:
    buffer d_count, d_sums, d_kept_weight;
    int pitch = 1;    /* of the data that are kept */
    int gridded = -1; /* plane of grid_values */

    item_rule rule() const
    {
        const tile_shape tile = ring_tile<T>(g.width);
        const bool rings = order.tile.u == tile.u && order.tile.v == tile.v;
        item_rule r = {};
        r.height = (uint32_t)order.height;
        r.reach = (uint32_t)(g.w_width + 1) / 2;
        r.crowded_from = rings ? base::least_crowded : UNUSED;
        r.most_crowded = rings ? (uint32_t)ring_group<T>(g.width) : 1;
        r.most_sparse = rings ? MOST_SPARSE : 32;
        return r;
    }

    batch_rows rows() const
    {
        return {as<segment_view>(base::d_segments), as<double>(base::d_freq), as<double>(base::d_uvw),
                as<float>(base::d_weight), now.n_sample};
    }

    /* Find ranks of the batch's samples, where keys begin, items; room for the samples themselves. */
    template <class COUNTED> int count_batch(const COUNTED &counted)
    {
        const int64_t count = now.n_sample, chunks = (order.n_key() + COUNT_CHUNK - 1) / COUNT_CHUNK;
        MSI_TRY(d_records.fit(count * (int64_t)sizeof(placed<T>), "samples"));
        MSI_TRY(d_rank.fit(count * (int64_t)sizeof(uint32_t), "ranks"));
        MSI_TRY(d_count.fit(chunks * COUNT_CHUNK * (int64_t)sizeof(uint32_t), "counts by tile and w"));
        uint32_t *counts = as<uint32_t>(d_count);
        MSI_TRY(on.clear(counts, chunks * COUNT_CHUNK));
        k_count_samples<<<base::segment_blocks(), 256, 0, on.get()>>>(g, order, counted, rows(), counts,
                                                                      as<uint32_t>(d_rank));
        MSI_CUDA(cudaGetLastError());
        return list_counted((unsigned)chunks);
    }

    /* Runs and items of what was counted; counts become where keys begin. */
    int list_counted(unsigned chunks)
    {
        const item_rule cut = rule();
        uint32_t *count = as<uint32_t>(d_count);
        size_t bytes = 0;
        MSI_TRY(d_sums.fit((chunks + 1) * (int64_t)sizeof(key_sums), "sums of counts"));
        key_sums *sums = as<key_sums>(d_sums), all;
        k_sum_counts<<<chunks, COUNT_BLOCK, 0, on.get()>>>(count, cut, sums);
        MSI_CUDA(cudaGetLastError());
        const auto scan = [&](void *work) {
            return cub::DeviceScan::ExclusiveScan(work, bytes, sums, sums, key_adder(), key_sums{}, chunks + 1,
                                                  on.get());
        };
        MSI_CUDA(scan(nullptr));
        MSI_TRY(d_work.fit((int64_t)bytes + 8, "sorting"));
        MSI_CUDA(scan(as<void>(d_work)));
        MSI_TRY(on.download(&all, sums + chunks, 1));
        const int64_t n_run = (int64_t)all.n_run + 1;
        MSI_TRY(d_runs.fit(5 * n_run * (int64_t)sizeof(uint32_t), "sorted runs"));
        n_placed = all.n_sample;
        n_crowded = all.n_crowded;
        n_sparse = all.n_sparse;
        MSI_TRY(d_items.fit((n_crowded + n_sparse) * (int64_t)sizeof(item), "items"));
        uint32_t *at = as<uint32_t>(d_runs);
        const run_lists lists = {at, at + n_run, at + 2 * n_run, at + 3 * n_run, at + 4 * n_run};
        k_list_runs<<<chunks, COUNT_BLOCK, 0, on.get()>>>(count, cut, sums, lists);
        MSI_CUDA(cudaGetLastError());
        if (all.n_run)
            k_list_run_items<<<(unsigned)(((int64_t)all.n_run * LANES_A_RUN + 255) / 256), 256, 0, on.get()>>>(
                lists, all.n_run, cut, as<item>(d_items), as<item>(d_items) + n_crowded, count);
        MSI_CUDA(cudaGetLastError());
        base::runs = {lists.key, lists.crowded_at, lists.sparse_at, n_run};
        return MSI_OK;
    }
};

} // namespace

#endif
