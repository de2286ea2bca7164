/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stored samples on their way through the device, for gridding and degridding: those of batches of whole segments are
 * put in their places by uv tile and w, or turned into records that stay where they are, and sorted (CUB); and cut into
 * items of one tile and first w-plane.
 */
#ifndef MSI_KERNELS_WGRID_CUDA_BATCH_CUH
#define MSI_KERNELS_WGRID_CUDA_BATCH_CUH

#include <algorithm>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>

#include "core/interrupt.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/wgrid/wgrid_cuda.h"
#include "kernels/wgrid/wgrid_cuda_place.cuh"
#include "kernels/store/store_batches_cuda.cuh"
#include "kernels/wgrid/wgrid_plan.h"

namespace {

/* What gridding and degridding do alike: a plan's geometry and taps, and the batch at hand. */
template <typename T> class sample_batches : protected store_batches<T> {
  public:
    /* Of the batches that samples pass in, beside what gridding or degridding adds. */
    static int64_t sorting_bytes()
    {
        return (int64_t)(sizeof(record<T>) + 4 * sizeof(uint32_t) + 5 * sizeof(uint32_t) + sizeof(item) +
                         3 * sizeof(double));
    }

    /* The same of gridding's, beside the other images' values; what counts samples is not in it. */
    static int64_t placing_bytes()
    {
        return (int64_t)(sizeof(placed<T>) + 7 * sizeof(uint32_t) + sizeof(item) + 3 * sizeof(double));
    }

    static int64_t counter_bytes(const sample_order &o)
    {
        return (o.n_key() + COUNT_CHUNK) * (int64_t)sizeof(uint32_t);
    }

    /* Whole planes in tiles of edges 2^log_u and 2^log_v. */
    static sample_order order_by_tile(const msi_wgrid_geometry &g, int log_u, int log_v)
    {
        return {g.n_w - g.w_width + 1,
                0,
                1,
                log_u,
                log_v,
                1,
                1,
                (int32_t)((g.nu + 2 * g.width) >> log_u) + 1,
                (int32_t)((g.nv + 2 * g.width) >> log_v) + 1};
    }

    /* The order for gridding: in small tiles, unless there are too many to be counted. */
    static sample_order order_for_rings(const msi_wgrid_geometry &g)
    {
        const tile_shape tile = ring_tile<T>(g.width);
        sample_order o = order_by_tile(g, tile.log_u, tile.log_v);
        for (int log = log_of(TILE); !can_count(o); log++) o = order_by_tile(g, log, log);
        return o;
    }

    /* In cores of tiles of the plan's size: the same cores, and towers as many at once as can be counted. */
    static sample_order order_for_rings(const msi_wgrid_geometry &g, const sample_order &large)
    {
        const tile_shape tile = ring_tile<T>(g.width);
        sample_order o = large;
        o.edge_u <<= large.log_u - tile.log_u;
        o.edge_v <<= large.log_v - tile.log_v;
        o.log_u = tile.log_u;
        o.log_v = tile.log_v;
        o.end_tower = 1;
        if (!can_count(o)) o = large;
        for (o.end_tower = large.end_tower; o.end_tower > 1 && !can_count(o);) o.end_tower--;
        return o;
    }

  protected:
    sample_batches(const msi_wgrid_plan *plan_) : plan(plan_), g(plan_->grid)
    {
        lay_tiles();
        order = order_by_tile(g, log_of(g.tile), log_of(g.tile));
    }
    /* In towers of w-planes; what orders them is not more than keys can number. */
    sample_batches(const msi_wgrid_plan *plan_, const sample_order &order_) : plan(plan_), g(plan_->grid), order(order_)
    {
        g.tile = 1 << order.log_u;
    }

    const msi_wgrid_plan *plan;
    msi_wgrid_geometry g;
    sample_order order;
    using store_batches<T>::store;
    using store_batches<T>::now;
    using store_batches<T>::times;
    using store_batches<T>::d_segments;
    using store_batches<T>::d_freq;
    using store_batches<T>::d_uvw;
    using store_batches<T>::d_weight;
    using store_batches<T>::d_raw;
    int64_t n_crowded = 0, n_sparse = 0; /* items of the batch at hand */
    /* Runs of equal keys in it, the last of them possibly UNUSED, and the number of each one's first items. */
    struct {
        const uint32_t *key, *crowded_at, *sparse_at;
        int64_t n;
    } runs = {};
    buffer d_taps, d_value, d_records, d_key, d_index, d_work, d_runs, d_items, d_along, d_count, d_sums;
    const uint32_t *d_sorted = nullptr;

    tap_table<T> taps = {}; /* and d_taps */

    int upload_taps()
    {
        for (int k = 0; k < plan->window.n_coef; k++)
            for (int i = 0; i < g.width; i++) {
                taps.uv[k][i] = (T)plan->window.coef[k][i];
                taps.w[k][i] = (T)plan->w_window.coef[k][i];
            }
        MSI_TRY(d_taps.fit(sizeof taps, "the window"));
        MSI_CUDA(cudaMemcpy(as<void>(d_taps), &taps, sizeof taps, cudaMemcpyHostToDevice));
        return MSI_OK;
    }

    /* The factors of correction, with arrays on the device. */
    int upload_taper(msi_taper *device)
    {
        int64_t nx = plan->image.nx, ny = plan->image.ny;
        msi_taper host;
        MSI_TRY(msi_taper_make(&host, &plan->image, &plan->grid, &plan->window, &plan->w_window));
        *device = host;
        int rc = d_along.fit((nx + ny) * (int64_t)sizeof(double), "taper correction");
        cudaError_t e = cudaSuccess;
        if (!rc) {
            device->along_x = as<double>(d_along);
            device->along_y = as<double>(d_along) + nx;
            e = cudaMemcpy(device->along_x, host.along_x, sizeof(double) * (size_t)nx, cudaMemcpyHostToDevice);
            if (e == cudaSuccess)
                e = cudaMemcpy(device->along_y, host.along_y, sizeof(double) * (size_t)ny, cudaMemcpyHostToDevice);
        }
        msi_taper_free(&host);
        MSI_TRY(rc);
        MSI_CUDA(e);
        return MSI_OK;
    }

    item_range crowded() const
    {
        return {as<item>(d_items), n_crowded};
    }
    item_range sparse() const
    {
        return {as<item>(d_items) + n_crowded, n_sparse};
    }

    screen_geometry screen() const
    {
        const msi_image_geometry &i = plan->image;
        return {i.nx, i.ny, g.nu, g.nv, i.cell_x_rad, i.cell_y_rad, g.w_first, g.w_step, g.n_mid, g.w_width > 1};
    }

    /* Shared memory that a block may have; 0: unknown. */
    static size_t shared_bytes()
    {
        size_t bytes;
        block_shared_bytes(&bytes);
        return bytes;
    }

    /* Samples of the batch at hand in their places, with values of map's images; and their items. */
    int place_batch(const plane_map &map)
    {
        double start = msi_wall_s();
        const int64_t count = now.n_sample, chunks = (order.n_key() + COUNT_CHUNK - 1) / COUNT_CHUNK;
        MSI_TRY(d_records.fit(count * (int64_t)sizeof(placed<T>), "samples"));
        MSI_TRY(d_value.fit((map.n_image - 1) * count * (int64_t)sizeof(cplx<T>), "visibilities"));
        MSI_TRY(d_key.fit(2 * count * (int64_t)sizeof(uint32_t), "sort keys"));
        MSI_TRY(d_count.fit(chunks * COUNT_CHUNK * (int64_t)sizeof(uint32_t), "counts by tile and w"));
        const batch_rows rows = {as<segment_view>(d_segments), as<double>(d_freq), as<double>(d_uvw),
                                 as<float>(d_weight), count};
        const dim3 blocks((unsigned)(now.end - now.first), 8);
        uint32_t *counts = as<uint32_t>(d_count), *key = as<uint32_t>(d_key), *rank = key + count;
        MSI_CUDA(cudaMemsetAsync(counts, 0, sizeof *counts * (size_t)(chunks * COUNT_CHUNK)));
        k_count_samples<<<blocks, 256>>>(g, order, map, rows, counts, key, rank);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(list_counted((unsigned)chunks));
        k_place_samples<T><<<blocks, 256>>>(g, map, rows, as<cplx<T>>(d_raw), key, counts, rank,
                                            as<placed<T>>(d_records), as<cplx<T>>(d_value));
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cudaDeviceSynchronize());
        times->sort_s += msi_wall_s() - start;
        return MSI_OK;
    }

    /* Records and the sorted order of the batch at hand: every sample counts, wherever in the uv plane it lies. */
    int sort_batch()
    {
        double start = msi_wall_s();
        int64_t count = now.n_sample;
        MSI_TRY(d_records.fit(count * (int64_t)sizeof(record<T>), "coordinates"));
        MSI_TRY(d_key.fit(2 * count * (int64_t)sizeof(uint32_t), "sort keys"));
        MSI_TRY(d_index.fit(2 * count * (int64_t)sizeof(uint32_t), "sort indices"));
        dim3 blocks((unsigned)(now.end - now.first), 8);
        uint32_t *key = as<uint32_t>(d_key), *index = as<uint32_t>(d_index);
        k_locate_all<T><<<blocks, 256>>>(g, order, as<segment_view>(d_segments), as<double>(d_freq), as<double>(d_uvw),
                                         as<record<T>>(d_records), key, index);
        MSI_CUDA(cudaGetLastError());
        cub::DoubleBuffer<uint32_t> keys(key, key + count), values(index, index + count);
        int n_bit = 1;
        while (n_bit < 32 && (order.n_key() >> n_bit)) n_bit++;
        size_t work_bytes = 0;
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, work_bytes, keys, values, count, 0, n_bit));
        MSI_TRY(d_work.fit((int64_t)work_bytes + 8, "sorting"));
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(as<void>(d_work), work_bytes, keys, values, count, 0, n_bit));
        d_sorted = values.Current();
        MSI_TRY(list_items(keys.Current(), count));
        times->sort_s += msi_wall_s() - start;
        return MSI_OK;
    }

    /* Samples that make an item crowded, so that a block takes it; UNUSED where no block can. */
    virtual uint32_t least_crowded() const = 0;
    virtual ~sample_batches() = default;

    static int log_of(int32_t edge)
    {
        int log = 0;
        while (edge >> (log + 1)) log++;
        return log;
    }

  private:
    /* Counters may take an eighth of the device's memory, and half of what is free; they are summed by chunks, which
     * must end before keys do. */
    static bool can_count(const sample_order &o)
    {
        size_t free_bytes, total_bytes;
        msi_gpu_memory(0, &free_bytes, &total_bytes);
        const int64_t most = std::max<int64_t>((int64_t)std::min(total_bytes / 8, free_bytes / 2), 1 << 24);
        return o.n_key() < (int64_t)UNUSED - COUNT_CHUNK && counter_bytes(o) <= most;
    }

    /* Tiles of the size that degridding's crowded items take, unless there are more than keys can number. */
    void lay_tiles()
    {
        for (g.tile = TILE;; g.tile *= 2) {
            g.n_tile_u = (g.nu + 2 * g.width + g.tile) / g.tile;
            g.n_tile_v = (g.nv + 2 * g.width + g.tile) / g.tile;
            if (g.n_tile_u * g.n_tile_v * (g.n_w - g.w_width + 1) < (int64_t)UNUSED) return;
        }
    }

    item_rule rule_of(bool grids) const
    {
        const uint32_t height = (uint32_t)order.height, reach = (uint32_t)(g.w_width + 1) / 2;
        if (!grids) return {height, 1, order.log_u == log_of(TILE) ? least_crowded() : UNUSED, MOST_IN_COPY, 32};
        const tile_shape tile = ring_tile<T>(g.width);
        if (order.log_u != tile.log_u || order.log_v != tile.log_v) return {height, reach, UNUSED, 1, 32};
        return {height, reach, least_crowded(), (uint32_t)ring_group<T>(g.width), MOST_SPARSE};
    }

    /* Runs and items of what was counted; counts become where keys begin. */
    int list_counted(unsigned chunks)
    {
        const item_rule rule = rule_of(true);
        uint32_t *count = as<uint32_t>(d_count);
        size_t bytes = 0;
        MSI_TRY(d_sums.fit((chunks + 1) * (int64_t)sizeof(key_sums), "sums of counts"));
        key_sums *sums = as<key_sums>(d_sums), all;
        k_sum_counts<<<chunks, COUNT_BLOCK>>>(count, rule, sums);
        MSI_CUDA(cudaGetLastError());
        MSI_CUDA(cub::DeviceScan::ExclusiveScan(nullptr, bytes, sums, sums, key_adder(), key_sums{}, chunks + 1));
        MSI_TRY(d_work.fit((int64_t)bytes + 8, "sorting"));
        MSI_CUDA(
            cub::DeviceScan::ExclusiveScan(as<void>(d_work), bytes, sums, sums, key_adder(), key_sums{}, chunks + 1));
        MSI_CUDA(cudaMemcpy(&all, sums + chunks, sizeof all, cudaMemcpyDeviceToHost));
        const int64_t n_run = (int64_t)all.n_run + 1;
        MSI_TRY(d_runs.fit(5 * n_run * (int64_t)sizeof(uint32_t), "sorted runs"));
        n_crowded = all.n_crowded;
        n_sparse = all.n_sparse;
        MSI_TRY(d_items.fit((n_crowded + n_sparse) * (int64_t)sizeof(item), "items"));
        uint32_t *at = as<uint32_t>(d_runs);
        const run_lists lists = {at, at + n_run, at + 2 * n_run, at + 3 * n_run, at + 4 * n_run};
        k_list_runs<<<chunks, COUNT_BLOCK>>>(count, rule, sums, lists);
        MSI_CUDA(cudaGetLastError());
        if (all.n_run)
            k_list_run_items<<<(unsigned)(((int64_t)all.n_run * LANES_A_RUN + 255) / 256), 256>>>(
                lists, all.n_run, rule, as<item>(d_items), as<item>(d_items) + n_crowded, count);
        MSI_CUDA(cudaGetLastError());
        runs = {lists.key, lists.crowded_at, lists.sparse_at, n_run};
        return MSI_OK;
    }

    /* Items of the sorted batch. */
    int list_items(const uint32_t *sorted_key, int64_t count)
    {
        item_rule rule = rule_of(false);
        MSI_TRY(d_runs.fit(5 * count * (int64_t)sizeof(uint32_t) + 8, "sorted runs"));
        uint32_t *key = as<uint32_t>(d_runs), *length = key + count, *start = length + count, *crowded = start + count;
        uint32_t *sparse = crowded + count, *n_run = sparse + count;
        size_t bytes[2] = {0, 0};
        MSI_CUDA(cub::DeviceRunLengthEncode::Encode(nullptr, bytes[0], sorted_key, key, length, n_run, count));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(nullptr, bytes[1], length, start, count));
        MSI_TRY(d_work.fit((int64_t)(bytes[0] > bytes[1] ? bytes[0] : bytes[1]) + 8, "sorting"));
        MSI_CUDA(cub::DeviceRunLengthEncode::Encode(as<void>(d_work), bytes[0], sorted_key, key, length, n_run, count));
        uint32_t found;
        MSI_CUDA(cudaMemcpy(&found, n_run, sizeof found, cudaMemcpyDeviceToHost));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(as<void>(d_work), bytes[1], length, start, found));
        unsigned blocks = (found + 255) / 256;
        key_runs sorted = {key, length, start, found};
        k_count_items<<<blocks, 256>>>(sorted, rule, crowded, sparse);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(scan_in_place(crowded, found, bytes[1], &n_crowded));
        MSI_TRY(scan_in_place(sparse, found, bytes[1], &n_sparse));
        runs = {key, crowded, sparse, found};
        MSI_TRY(d_items.fit((n_crowded + n_sparse) * (int64_t)sizeof(item), "items"));
        k_list_items<<<(unsigned)(((int64_t)found * 32 + 255) / 256), 256>>>(
            sorted, rule, crowded, sparse, as<item>(d_items), as<item>(d_items) + n_crowded);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    /* Exclusive sums of n counts, and their total. */
    int scan_in_place(uint32_t *count, uint32_t n, size_t work_bytes, int64_t *total)
    {
        uint32_t last = 0, before = 0;
        MSI_CUDA(cudaMemcpy(&last, count + n - 1, sizeof last, cudaMemcpyDeviceToHost));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(as<void>(d_work), work_bytes, count, count, n));
        MSI_CUDA(cudaMemcpy(&before, count + n - 1, sizeof before, cudaMemcpyDeviceToHost));
        *total = (int64_t)before + last;
        return MSI_OK;
    }
};

} // namespace

#endif
