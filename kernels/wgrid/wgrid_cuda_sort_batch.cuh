/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batches for degridding: records of samples stay where they are, and their indices are sorted by tile and first
 * w-plane (CUB). Every sample counts, wherever in the uv plane it lies. */
#ifndef MSI_KERNELS_WGRID_CUDA_SORT_BATCH_CUH
#define MSI_KERNELS_WGRID_CUDA_SORT_BATCH_CUH

#include <algorithm>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/wgrid/wgrid_cuda_batch.cuh"

namespace {

template <typename T> class sorted_batches : public sample_batches<T> {
  public:
    using base = sample_batches<T>;
    using base::d_items;
    using base::d_key;
    using base::d_records;
    using base::d_runs;
    using base::d_work;
    using base::g;
    using base::n_crowded;
    using base::n_sparse;
    using base::now;
    using base::on;
    using base::order;
    using base::times;
    const uint32_t *d_sorted = nullptr; /* [n_sample] indices of samples in order */

    explicit sorted_batches(const msi_wgrid_plan *plan) : base(plan) {}
    sorted_batches(const msi_wgrid_plan *plan, const sample_order &o) : base(plan, o) {}

    /* Bytes of a sample of a batch, beside its visibilities. */
    static int64_t sorting_bytes()
    {
        return (int64_t)(sizeof(record<T>) + 4 * sizeof(uint32_t) + 5 * sizeof(uint32_t) + sizeof(item) +
                         3 * sizeof(double));
    }

    /* sort_batch - the batch's records, their order and its items. */
    int sort_batch()
    {
        const stage_timer stage("sort", &times->sort_s);
        int64_t count = now.n_sample;
        MSI_TRY(d_records.fit(count * (int64_t)sizeof(record<T>), "coordinates"));
        MSI_TRY(d_key.fit(2 * count * (int64_t)sizeof(uint32_t), "sort keys"));
        MSI_TRY(d_index.fit(2 * count * (int64_t)sizeof(uint32_t), "sort indices"));
        uint32_t *key = as<uint32_t>(d_key), *index = as<uint32_t>(d_index);
        k_locate_all<T><<<base::segment_blocks(), 256, 0, on.get()>>>(g, order, as<segment_view>(base::d_segments),
                                                                      as<double>(base::d_freq), as<double>(base::d_uvw),
                                                                      as<record<T>>(d_records), key, index);
        MSI_CUDA(cudaGetLastError());
        cub::DoubleBuffer<uint32_t> keys(key, key + count), values(index, index + count);
        int n_bit = 1;
        while (n_bit < 32 && (order.n_key() >> n_bit)) n_bit++;
        size_t bytes = 0;
        const auto sort = [&](void *work) {
            return cub::DeviceRadixSort::SortPairs(work, bytes, keys, values, count, 0, n_bit, on.get());
        };
        MSI_CUDA(sort(nullptr));
        MSI_TRY(d_work.fit((int64_t)bytes + 8, "sorting"));
        MSI_CUDA(sort(as<void>(d_work)));
        d_sorted = values.Current();
        MSI_TRY(list_items(keys.Current(), count));
        return on.wait();
    }

  private:
    buffer d_index;

    item_rule rule() const
    {
        item_rule r = {};
        r.height = (uint32_t)order.height;
        r.reach = 1;
        r.crowded_from = order.log_u == log_of(TILE) ? base::least_crowded : UNUSED;
        r.most_crowded = MOST_IN_COPY;
        r.most_sparse = 32;
        return r;
    }

    /* Items of the sorted batch. */
    int list_items(const uint32_t *sorted_key, int64_t count)
    {
        const item_rule cut = rule();
        MSI_TRY(d_runs.fit(5 * count * (int64_t)sizeof(uint32_t) + 8, "sorted runs"));
        uint32_t *key = as<uint32_t>(d_runs), *length = key + count, *start = length + count, *crowded = start + count;
        uint32_t *sparse = crowded + count, *n_run = sparse + count;
        size_t bytes[2] = {0, 0};
        const auto encode = [&](void *work) {
            return cub::DeviceRunLengthEncode::Encode(work, bytes[0], sorted_key, key, length, n_run, count, on.get());
        };
        MSI_CUDA(encode(nullptr));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(nullptr, bytes[1], length, start, count, on.get()));
        MSI_TRY(d_work.fit((int64_t)std::max(bytes[0], bytes[1]) + 8, "sorting"));
        MSI_CUDA(encode(as<void>(d_work)));
        uint32_t found;
        MSI_TRY(on.download(&found, n_run, 1));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(as<void>(d_work), bytes[1], length, start, found, on.get()));
        const key_runs sorted = {key, length, start, found};
        k_count_items<<<(found + 255) / 256, 256, 0, on.get()>>>(sorted, cut, crowded, sparse);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(scan_in_place(crowded, found, bytes[1], &n_crowded));
        MSI_TRY(scan_in_place(sparse, found, bytes[1], &n_sparse));
        base::runs = {key, crowded, sparse, found};
        MSI_TRY(d_items.fit((n_crowded + n_sparse) * (int64_t)sizeof(item), "items"));
        k_list_items<<<(unsigned)(((int64_t)found * 32 + 255) / 256), 256, 0, on.get()>>>(
            sorted, cut, crowded, sparse, as<item>(d_items), as<item>(d_items) + n_crowded);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    /* Exclusive sums of n counts, and their total. */
    int scan_in_place(uint32_t *count, uint32_t n, size_t work_bytes, int64_t *total)
    {
        uint32_t last = 0, before = 0;
        MSI_TRY(on.download(&last, count + n - 1, 1));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(as<void>(d_work), work_bytes, count, count, n, on.get()));
        MSI_TRY(on.download(&before, count + n - 1, 1));
        *total = (int64_t)before + last;
        return MSI_OK;
    }
};

} // namespace

#endif
