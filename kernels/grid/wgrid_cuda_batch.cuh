/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Stored samples on their way through the device, for gridding and degridding: batches of whole segments are turned
 * into records, sorted by uv tile and w (CUB), and cut into items of one tile and first w-plane.
 */
#ifndef MSI_KERNELS_WGRID_CUDA_BATCH_CUH
#define MSI_KERNELS_WGRID_CUDA_BATCH_CUH

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>

#include "core/interrupt.h"
#include "kernels/grid/wgrid_cuda_kernels.cuh"
#include "kernels/prepare/store_batches_cuda.cuh"
#include "kernels/prepare/wgrid_plan.h"

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

  protected:
    sample_batches(const msi_wgrid_plan *plan_) : plan(plan_), g(plan_->grid)
    {
        lay_tiles();
        order = {g.n_w - g.w_width + 1, g.tile, 1, (int32_t)g.n_tile_u, (int32_t)g.n_tile_v};
    }
    /* In towers of w-planes; what orders them is not more than keys can number. */
    sample_batches(const msi_wgrid_plan *plan_, int32_t tile, const sample_order &order_)
        : plan(plan_), g(plan_->grid), order(order_)
    {
        g.tile = tile;
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
    buffer d_taps, d_value, d_records, d_key, d_index, d_work, d_runs, d_items, d_along;
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
        MSI_TRY(msi_taper_make(&host, plan));
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

    /* Shared memory that a block may have. */
    static size_t shared_bytes()
    {
        int device = 0, bytes = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
        return (size_t)bytes;
    }

    /*
     * Records and the sorted order of the batch at hand; with images, their weighted values [map.n_image][n_sample].
     * Without, every sample counts, wherever in the uv plane it lies.
     */
    int sort_batch(const plane_map &map)
    {
        double start = msi_wall_s();
        int64_t count = now.n_sample;
        bool grids = map.n_image > 0;
        if (grids) lay_ring_tiles();
        MSI_TRY(d_value.fit(map.n_image * count * (int64_t)sizeof(cplx<T>), "visibilities"));
        MSI_TRY(d_records.fit(count * (int64_t)sizeof(record<T>), "coordinates"));
        MSI_TRY(d_key.fit(2 * count * (int64_t)sizeof(uint32_t), "sort keys"));
        MSI_TRY(d_index.fit(2 * count * (int64_t)sizeof(uint32_t), "sort indices"));
        dim3 blocks((unsigned)(now.end - now.first), 8);
        uint32_t *key = as<uint32_t>(d_key), *index = as<uint32_t>(d_index);
        if (grids)
            k_locate<T><<<blocks, 256>>>(g, order, map, as<segment_view>(d_segments), as<double>(d_freq),
                                         as<double>(d_uvw), as<float>(d_weight), as<cplx<T>>(d_raw), count,
                                         as<cplx<T>>(d_value), as<record<T>>(d_records), key, index);
        else
            k_locate_all<T><<<blocks, 256>>>(g, order, as<segment_view>(d_segments), as<double>(d_freq),
                                             as<double>(d_uvw), as<record<T>>(d_records), key, index);
        MSI_CUDA(cudaGetLastError());
        cub::DoubleBuffer<uint32_t> keys(key, key + count), values(index, index + count);
        /* UNUSED sorts last by the bits of the largest key plus one. */
        uint64_t n_key = number_of_keys(order);
        int n_bit = 1;
        while (n_bit < 32 && (n_key >> n_bit)) n_bit++;
        size_t work_bytes = 0;
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, work_bytes, keys, values, count, 0, n_bit));
        MSI_TRY(d_work.fit((int64_t)work_bytes + 8, "sorting"));
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(as<void>(d_work), work_bytes, keys, values, count, 0, n_bit));
        d_sorted = values.Current();
        MSI_TRY(list_items(keys.Current(), count, grids));
        times->sort_s += msi_wall_s() - start;
        return MSI_OK;
    }

    /* Predicted visibilities of the batch at hand, d_value [n_image][n_sample], into the store. */
    int download_values(int n_image)
    {
        return store_batches<T>::download_batch(as<T>(d_value), n_image);
    }

    /* Samples that make an item crowded, so that a block takes it; UNUSED where no block can. */
    virtual uint32_t least_crowded() const = 0;
    virtual ~sample_batches() = default;

  private:
    /* Tiles of the size that degridding's crowded items take, unless there are more than keys can number. */
    void lay_tiles()
    {
        for (g.tile = TILE;; g.tile *= 2) {
            g.n_tile_u = (g.nu + 2 * g.width + g.tile) / g.tile;
            g.n_tile_v = (g.nv + 2 * g.width + g.tile) / g.tile;
            if (g.n_tile_u * g.n_tile_v * (g.n_w - g.w_width + 1) < (int64_t)UNUSED) return;
        }
    }

    uint64_t number_of_keys(const sample_order &o) const
    {
        int n_tower = (g.n_w - g.w_width + o.height) / o.height;
        return (uint64_t)(n_tower * o.n_core()) * (uint64_t)o.core_keys();
    }

    /* Gridding's tiles are smaller, unless there are more than keys can number. */
    void lay_ring_tiles()
    {
        sample_order small = order;
        small.edge *= order.tile / RING_TILE;
        small.tile = RING_TILE;
        if (number_of_keys(small) < UNUSED) order = small;
    }

    item_rule rule_of(bool grids) const
    {
        uint32_t height = (uint32_t)order.height, reach = (uint32_t)(g.w_width + 1) / 2;
        if (grids && order.tile == RING_TILE) return {height, reach, least_crowded(), RING_GROUP, MOST_SPARSE};
        if (grids) return {height, reach, UNUSED, RING_GROUP, 32};
        return {height, 1, order.tile == TILE ? least_crowded() : UNUSED, MOST_IN_COPY, 32};
    }

    /* Items of the sorted batch. */
    int list_items(const uint32_t *sorted_key, int64_t count, bool grids)
    {
        item_rule rule = rule_of(grids);
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
