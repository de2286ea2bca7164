/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The default gridder on the GPU.
 *
 * Visibilities travel in batches of whole segments. One kernel turns every sample of a batch into a record (first cells
 * and fractions) and weighted values turned by the field's mean n - 1, all coordinates in double; a radix sort (CUB)
 * orders samples by uv tile and then w, so that what runs together writes cells that lie together and stay in L2.
 *
 * Gridding: samples of one tile and first w-plane are an item. A crowded item is gathered by a block in shared memory,
 * one warp to a w-tap, so that no two warps write a cell and nothing is atomic; then the block adds its tile to the
 * planes. That is fast, and in fp32 it is needed: an array's core puts 1e5 samples and more on a cell, and a float sum
 * of so many is off by 1e-5, while here no sum has more than a thousand terms. A sparse item goes to the planes by one
 * warp: its lanes evaluate the taps of all samples into shared memory, then each lane adds one cell of a row of taps,
 * several rows at a time, with vector reductions in L2. Footprints wrap around the grid's edge, which is exact.
 *
 * As many w-planes as fit are held; where not all do, the planes are made in slabs and every batch is gridded once for
 * each. Then cuFFT, one kernel that screens all planes of the slab at a pixel, and one that divides the windows out.
 */
#include "kernels/grid/wgrid_cuda.h"

#include <stdio.h>
#include <string.h>

#include <thread>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "kernels/grid/cuda_check.h"
#include "kernels/grid/wgrid_cuda_kernels.cuh"
#include "kernels/transform/taper_correction.h"

/* Rates of one H200, rounded; only ratios matter. */
extern const msi_cost_model msi_wgrid_cuda_cost = {4e12, 1e-11, 2e-10, 4e-12, 4};

namespace {

/* Device memory that frees itself: every failure path below is a plain return. */
class buffer {
  public:
    buffer() = default;
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    ~buffer()
    {
        cudaFree(p);
    }
    int fit(int64_t bytes, const char *what)
    {
        if (bytes <= size) return MSI_OK;
        cudaFree(p);
        p = nullptr;
        size = 0;
        cudaError_t e = cudaMalloc(&p, (size_t)bytes);
        if (e != cudaSuccess) {
            cudaGetLastError();
            return msi_error_set(MSI_EGPU, "GPU: no %.3f GB of device memory for %s: %s; try -backend cpu",
                                 1e-9 * (double)bytes, what, cudaGetErrorString(e));
        }
        size = bytes;
        return MSI_OK;
    }
    template <typename T> T *as() const
    {
        return static_cast<T *>(p);
    }

  private:
    void *p = nullptr;
    int64_t size = 0;
};

class fft_plan {
  public:
    fft_plan() = default;
    fft_plan(const fft_plan &) = delete;
    fft_plan &operator=(const fft_plan &) = delete;
    ~fft_plan()
    {
        if (made) cufftDestroy(plan);
    }
    int make(int64_t nv, int64_t nu, cufftType type)
    {
        MSI_CUFFT(cufftPlan2d(&plan, (int)nv, (int)nu, type));
        made = true;
        return MSI_OK;
    }
    cufftHandle plan = 0;

  private:
    bool made = false;
};

/* Segments [first, end) on their way through the device. */
struct batch {
    int64_t first, end, n_row, n_sample;
    int64_t n_crowded, n_sparse; /* items */
};

template <typename T> class gridder {
  public:
    gridder(const msi_wgrid_plan *plan_, const msi_vis_store *store_, const int *store_plane, int n_image,
            int64_t n_resident_, msi_wgrid_times *times_)
        : plan(plan_), g(plan_->grid), store(store_), n_resident(n_resident_), times(times_)
    {
        lay_tiles();
        map.n_image = n_image;
        map.n_plane = store_->n_plane;
        for (int i = 0; i < n_image; i++) map.store_plane[i] = store_plane[i];
    }

    int make(msi_image *image)
    {
        MSI_TRY(prepare());
        for (int first = 0; first < map.n_image; first += images_at_once) {
            int n = map.n_image - first < images_at_once ? map.n_image - first : images_at_once;
            MSI_TRY(make_images(image, first, n));
        }
        return MSI_OK;
    }

    /* Batches hold at most this many bytes of samples; see batch_bytes. */
    static int64_t sample_bytes(int n_plane, int n_image)
    {
        return (int64_t)(n_plane * (sizeof(float) + sizeof(cplx<T>)) + n_image * sizeof(cplx<T>) + sizeof(record<T>) +
                         4 * sizeof(uint32_t) + 5 * sizeof(uint32_t) + sizeof(item) + 3 * sizeof(double));
    }

  private:
    const msi_wgrid_plan *plan;
    msi_wgrid_geometry g;
    const msi_vis_store *store;
    int64_t n_resident;
    msi_wgrid_times *times;
    plane_map map;
    int images_at_once = 1;
    int64_t batch_samples = 0;
    buffer d_grid, d_sum, d_taps, d_segments, d_freq, d_uvw, d_weight, d_raw, d_value, d_records, d_key, d_index,
        d_work;
    buffer d_along, d_runs, d_items;
    const uint32_t *d_sorted = nullptr;
    fft_plan fft;
    int64_t loaded_batch = -1;
    int loaded_image = -1;
    batch now = {};

    int64_t image_cells() const
    {
        return n_resident * g.nu * g.nv;
    }

    /* Tiles of the size that crowded items take, unless there are more than keys can number. */
    void lay_tiles()
    {
        for (g.tile = TILE;; g.tile *= 2) {
            g.n_tile_u = (g.nu + 2 * g.width + g.tile) / g.tile;
            g.n_tile_v = (g.nv + 2 * g.width + g.tile) / g.tile;
            if (g.n_tile_u * g.n_tile_v * (g.n_w - g.w_width + 1) < (int64_t)UNUSED) return;
        }
    }

    int upload_taps()
    {
        tap_table<T> t = {};
        for (int k = 0; k < plan->window.n_coef; k++)
            for (int i = 0; i < g.width; i++) {
                t.uv[k][i] = (T)plan->window.coef[k][i];
                t.w[k][i] = (T)plan->w_window.coef[k][i];
            }
        MSI_TRY(d_taps.fit(sizeof t, "the window"));
        MSI_CUDA(cudaMemcpy(d_taps.as<void>(), &t, sizeof t, cudaMemcpyHostToDevice));
        return MSI_OK;
    }

    /* Grids first, as many image planes at once as fit beside one batch of samples; batches get what is left. */
    int prepare()
    {
        size_t free_bytes, total_bytes;
        MSI_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
        int64_t usable = (int64_t)(0.9 * (double)free_bytes);
        int64_t plane_bytes = g.nu * g.nv * (int64_t)sizeof(cplx<T>), work = plane_bytes * 2;
        int64_t per_image =
            image_cells() * (int64_t)sizeof(cplx<T>) + msi_image_n_pixel(&plan->image) * (int64_t)sizeof(T);
        int64_t samples = store->n_sample < 1 ? 1 : store->n_sample;
        int64_t least_batch = 64 << 20;
        images_at_once = map.n_image;
        while (images_at_once > 1 && images_at_once * per_image + work + least_batch > usable) images_at_once--;
        int64_t left = usable - images_at_once * per_image - work;
        batch_samples = left / sample_bytes(map.n_plane, images_at_once);
        if (batch_samples > samples * 2) batch_samples = samples * 2; /* flagged samples travel too */
        if (batch_samples > INT32_MAX) batch_samples = INT32_MAX;     /* what CUB counts in */
        if (batch_samples < 1) batch_samples = 1;
        MSI_TRY(upload_taps());
        MSI_TRY(d_grid.fit(images_at_once * image_cells() * (int64_t)sizeof(cplx<T>), "w-planes"));
        MSI_TRY(d_sum.fit(images_at_once * msi_image_n_pixel(&plan->image) * (int64_t)sizeof(T), "images"));
        return fft.make(g.nv, g.nu, sizeof(T) == 4 ? CUFFT_C2C : CUFFT_Z2Z);
    }

    /* The batch that begins at segment `first`: at least one segment, at most batch_samples. */
    batch cut_batch(int64_t first) const
    {
        batch b = {first, first, 0, 0, 0, 0};
        while (b.end < store->n_segment) {
            const msi_vis_segment *s = &store->segment[b.end];
            int64_t n = s->n_row * s->n_chan;
            if (b.end > first && b.n_sample + n > batch_samples) break;
            b.n_row += s->n_row;
            b.n_sample += n;
            b.end++;
        }
        return b;
    }

    int upload_batch()
    {
        double start = msi_wall_s();
        int64_t n_segment = now.end - now.first, n_freq = 0;
        segment_view *views;
        double *freq = nullptr;
        for (int64_t i = now.first; i < now.end; i++) n_freq += store->segment[i].n_chan;
        MSI_TRY(msi_alloc(&views, n_segment, sizeof *views, "GPU batch"));
        int rc = msi_alloc(&freq, n_freq, sizeof *freq, "GPU batch");
        if (!rc) rc = copy_segments(views, freq, n_segment, n_freq);
        msi_free(views);
        msi_free(freq);
        times->transfer_s += msi_wall_s() - start;
        return rc;
    }

    int copy_segments(segment_view *views, double *freq, int64_t n_segment, int64_t n_freq)
    {
        MSI_TRY(d_segments.fit(n_segment * (int64_t)sizeof *views, "segments"));
        MSI_TRY(d_freq.fit(n_freq * (int64_t)sizeof *freq, "frequencies"));
        MSI_TRY(d_uvw.fit(now.n_row * 3 * (int64_t)sizeof(double), "uvw"));
        MSI_TRY(d_weight.fit(map.n_plane * now.n_sample * (int64_t)sizeof(float), "weights"));
        MSI_TRY(d_raw.fit(map.n_plane * now.n_sample * (int64_t)sizeof(cplx<T>), "visibilities"));
        int64_t row = 0, sample = 0, at_freq = 0;
        for (int64_t i = 0; i < n_segment; i++) {
            const msi_vis_segment *s = &store->segment[now.first + i];
            int64_t n = s->n_row * s->n_chan;
            views[i] = {sample, row, (int32_t)s->n_row, s->n_chan, (int32_t)at_freq};
            memcpy(freq + at_freq, s->freq_hz, sizeof(double) * (size_t)s->n_chan);
            MSI_CUDA(cudaMemcpyAsync(d_uvw.as<double>() + 3 * row, s->uvw_m, sizeof(double) * 3 * (size_t)s->n_row,
                                     cudaMemcpyHostToDevice));
            for (int p = 0; p < map.n_plane; p++) {
                int64_t from = msi_segment_index(s, p, 0, 0), to = p * now.n_sample + sample;
                MSI_CUDA(cudaMemcpyAsync(d_weight.as<float>() + to, s->weight + from, sizeof(float) * (size_t)n,
                                         cudaMemcpyHostToDevice));
                MSI_CUDA(cudaMemcpyAsync(d_raw.as<cplx<T>>() + to, (const cplx<T> *)s->vis + from,
                                         sizeof(cplx<T>) * (size_t)n, cudaMemcpyHostToDevice));
            }
            row += s->n_row;
            sample += n;
            at_freq += s->n_chan;
        }
        MSI_CUDA(cudaMemcpy(d_segments.as<void>(), views, sizeof *views * (size_t)n_segment, cudaMemcpyHostToDevice));
        MSI_CUDA(cudaMemcpy(d_freq.as<void>(), freq, sizeof(double) * (size_t)n_freq, cudaMemcpyHostToDevice));
        return MSI_OK;
    }

    /* Records, values and the sorted order of the batch at hand, for images [first_image, first_image + n). */
    int sort_batch(int first_image, int n)
    {
        double start = msi_wall_s();
        int64_t count = now.n_sample;
        MSI_TRY(d_value.fit(n * count * (int64_t)sizeof(cplx<T>), "visibilities"));
        MSI_TRY(d_records.fit(count * (int64_t)sizeof(record<T>), "coordinates"));
        MSI_TRY(d_key.fit(2 * count * (int64_t)sizeof(uint32_t), "sort keys"));
        MSI_TRY(d_index.fit(2 * count * (int64_t)sizeof(uint32_t), "sort indices"));
        plane_map part = map;
        part.n_image = n;
        for (int i = 0; i < n; i++) part.store_plane[i] = map.store_plane[first_image + i];
        dim3 blocks((unsigned)(now.end - now.first), 8);
        k_locate<T><<<blocks, 256>>>(g, part, d_segments.as<segment_view>(), d_freq.as<double>(), d_uvw.as<double>(),
                                     d_weight.as<float>(), d_raw.as<cplx<T>>(), count, d_value.as<cplx<T>>(),
                                     d_records.as<record<T>>(), d_key.as<uint32_t>(), d_index.as<uint32_t>());
        MSI_CUDA(cudaGetLastError());
        cub::DoubleBuffer<uint32_t> keys(d_key.as<uint32_t>(), d_key.as<uint32_t>() + count);
        cub::DoubleBuffer<uint32_t> values(d_index.as<uint32_t>(), d_index.as<uint32_t>() + count);
        size_t work_bytes = 0;
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, work_bytes, keys, values, count));
        MSI_TRY(d_work.fit((int64_t)work_bytes + 8, "sorting"));
        MSI_CUDA(cub::DeviceRadixSort::SortPairs(d_work.as<void>(), work_bytes, keys, values, count));
        d_sorted = values.Current();
        MSI_TRY(list_items(keys.Current(), count));
        times->sort_s += msi_wall_s() - start;
        return MSI_OK;
    }

    /* Items of the sorted batch. A crowded item's block must find its tile in shared memory. */
    int list_items(const uint32_t *sorted_key, int64_t count)
    {
        uint32_t crowded_from = sizeof(T) == 4 && g.tile == TILE && crowded_fits() ? LEAST_CROWDED : UNUSED;
        MSI_TRY(d_runs.fit(5 * count * (int64_t)sizeof(uint32_t) + 8, "sorted runs"));
        uint32_t *key = d_runs.as<uint32_t>(), *length = key + count, *start = length + count, *crowded = start + count;
        uint32_t *sparse = crowded + count, *n_run = sparse + count;
        size_t bytes[2] = {0, 0};
        MSI_CUDA(cub::DeviceRunLengthEncode::Encode(nullptr, bytes[0], sorted_key, key, length, n_run, count));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(nullptr, bytes[1], length, start, count));
        MSI_TRY(d_work.fit((int64_t)(bytes[0] > bytes[1] ? bytes[0] : bytes[1]) + 8, "sorting"));
        MSI_CUDA(
            cub::DeviceRunLengthEncode::Encode(d_work.as<void>(), bytes[0], sorted_key, key, length, n_run, count));
        uint32_t runs;
        MSI_CUDA(cudaMemcpy(&runs, n_run, sizeof runs, cudaMemcpyDeviceToHost));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(d_work.as<void>(), bytes[1], length, start, runs));
        unsigned blocks = (runs + 255) / 256;
        k_count_items<<<blocks, 256>>>(key, length, runs, crowded_from, crowded, sparse);
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(scan_in_place(crowded, runs, bytes[1], &now.n_crowded));
        MSI_TRY(scan_in_place(sparse, runs, bytes[1], &now.n_sparse));
        MSI_TRY(d_items.fit((now.n_crowded + now.n_sparse) * (int64_t)sizeof(item), "items"));
        k_list_items<<<blocks, 256>>>(key, length, start, runs, crowded_from, crowded, sparse, d_items.as<item>(),
                                      d_items.as<item>() + now.n_crowded);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    /* Exclusive sums of n counts, and their total. */
    int scan_in_place(uint32_t *count, uint32_t n, size_t work_bytes, int64_t *total)
    {
        uint32_t last = 0, before = 0;
        MSI_CUDA(cudaMemcpy(&last, count + n - 1, sizeof last, cudaMemcpyDeviceToHost));
        MSI_CUDA(cub::DeviceScan::ExclusiveSum(d_work.as<void>(), work_bytes, count, count, n));
        MSI_CUDA(cudaMemcpy(&before, count + n - 1, sizeof before, cudaMemcpyDeviceToHost));
        *total = (int64_t)before + last;
        return MSI_OK;
    }

    grid_job<T> job(int n_image, int low, int high) const
    {
        return {d_taps.as<tap_table<T>>(),
                n_image,
                now.n_sample,
                d_sorted,
                d_records.as<record<T>>(),
                d_value.as<cplx<T>>(),
                d_grid.as<cplx<T>>(),
                low,
                high};
    }

    template <int WIDTH, bool HAS_W> int launch_crowded(int n_image, int low, int high)
    {
        if constexpr (sizeof(T) == 4) {
            if (!now.n_crowded) return MSI_OK;
            MSI_CUDA(cudaFuncSetAttribute(k_grid_crowded<WIDTH, HAS_W>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          (int)tile_shape<WIDTH>::BYTES));
            k_grid_crowded<WIDTH, HAS_W><<<(unsigned)now.n_crowded, 32 * WIDTH, tile_shape<WIDTH>::BYTES>>>(
                g, job(n_image, low, high), d_items.as<item>());
            MSI_CUDA(cudaGetLastError());
        }
        return MSI_OK;
    }

    template <int WIDTH, bool HAS_W> int launch_sparse(int n_image, int low, int high)
    {
        if (!now.n_sparse) return MSI_OK;
        constexpr int N_WARP = WARPS<T, WIDTH>;
        int64_t wanted = (now.n_sparse + N_WARP - 1) / N_WARP;
        unsigned blocks = (unsigned)(wanted < (int64_t)1 << 20 ? wanted : (int64_t)1 << 20);
        k_grid_sparse<T, WIDTH, HAS_W>
            <<<blocks, 32 * N_WARP>>>(g, job(n_image, low, high), d_items.as<item>() + now.n_crowded, now.n_sparse);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }

    template <int WIDTH> int launch(int n_image, int low, int high)
    {
        if (g.w_width > 1) {
            MSI_TRY((launch_crowded<WIDTH, true>(n_image, low, high)));
            return launch_sparse<WIDTH, true>(n_image, low, high);
        }
        MSI_TRY((launch_crowded<WIDTH, false>(n_image, low, high)));
        return launch_sparse<WIDTH, false>(n_image, low, high);
    }

    int grid_batch(int n_image, int low, int high)
    {
        switch (g.width) {
#define WIDTH_CASE(n)                                                                                                  \
    case n:                                                                                                            \
        return launch<n>(n_image, low, high)
            WIDTH_CASE(2);
            WIDTH_CASE(3);
            WIDTH_CASE(4);
            WIDTH_CASE(5);
            WIDTH_CASE(6);
            WIDTH_CASE(7);
            WIDTH_CASE(8);
            WIDTH_CASE(9);
            WIDTH_CASE(10);
            WIDTH_CASE(11);
            WIDTH_CASE(12);
            WIDTH_CASE(13);
            WIDTH_CASE(14);
            WIDTH_CASE(15);
            WIDTH_CASE(16);
#undef WIDTH_CASE
        default:
            return msi_error_set(MSI_EINTERNAL, "no kernel for a window of %d cells", g.width);
        }
    }

    bool crowded_fits() const
    {
        int device = 0, bytes = 0;
        cudaGetDevice(&device);
        cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
        size_t need = g.width <= 8    ? tile_shape<8>::BYTES
                      : g.width <= 12 ? tile_shape<12>::BYTES
                                      : tile_shape<16>::BYTES;
        return need + 4096 <= (size_t)bytes;
    }

    /* A store that fits one batch is uploaded and sorted once, however many slabs and image planes there are. */
    int ready_batch(int64_t first_segment, int first_image, int n)
    {
        if (loaded_batch != first_segment) {
            now = cut_batch(first_segment);
            if (now.n_sample) MSI_TRY(upload_batch());
            loaded_batch = first_segment;
            loaded_image = -1;
        }
        if (now.n_sample && loaded_image != first_image) {
            MSI_TRY(sort_batch(first_image, n));
            loaded_image = first_image;
        }
        return MSI_OK;
    }

    int transform(cplx<T> *plane)
    {
        if constexpr (sizeof(T) == 4)
            MSI_CUFFT(cufftExecC2C(fft.plan, (cufftComplex *)plane, (cufftComplex *)plane, CUFFT_FORWARD));
        else
            MSI_CUFFT(cufftExecZ2Z(fft.plan, (cufftDoubleComplex *)plane, (cufftDoubleComplex *)plane, CUFFT_FORWARD));
        return MSI_OK;
    }

    screen_geometry screen() const
    {
        const msi_image_geometry &i = plan->image;
        return {i.nx, i.ny, g.nu, g.nv, i.cell_x_rad, i.cell_y_rad, g.w_first, g.w_step, g.n_mid, g.w_width > 1};
    }

    int make_images(msi_image *image, int first_image, int n)
    {
        int64_t n_pixel = msi_image_n_pixel(&plan->image), plane_cells = g.nu * g.nv;
        dim3 threads(32, 8);
        dim3 blocks((unsigned)((plan->image.nx + 31) / 32), (unsigned)((plan->image.ny + 7) / 8));
        MSI_CUDA(cudaMemset(d_sum.as<void>(), 0, sizeof(T) * (size_t)(n * n_pixel)));
        for (int low = 0; low < g.n_w; low += (int)n_resident) {
            int high = low + n_resident < g.n_w ? low + (int)n_resident : g.n_w;
            int64_t slab_cells = plane_cells * (high - low);
            MSI_CUDA(cudaMemset(d_grid.as<void>(), 0, sizeof(cplx<T>) * (size_t)(n * slab_cells)));
            for (int64_t s = 0; s < store->n_segment;) {
                MSI_TRY(ready_batch(s, first_image, n));
                double start = msi_wall_s();
                MSI_TRY(grid_batch(n, low, high));
                MSI_CUDA(cudaDeviceSynchronize());
                times->grid_s += msi_wall_s() - start;
                MSI_TRY(msi_interrupt_check());
                s = now.end;
            }
            double start = msi_wall_s();
            for (int i = 0; i < n; i++) {
                cplx<T> *planes = d_grid.as<cplx<T>>() + i * slab_cells;
                for (int p = 0; p < high - low; p++) MSI_TRY(transform(planes + p * plane_cells));
                k_screen<T><<<blocks, threads>>>(screen(), planes, low, high, d_sum.as<T>() + i * n_pixel);
                MSI_CUDA(cudaGetLastError());
            }
            MSI_CUDA(cudaDeviceSynchronize());
            times->transform_s += msi_wall_s() - start;
            MSI_TRY(msi_interrupt_check());
            msi_progress("gridding", (int64_t)first_image * g.n_w + (int64_t)high * n, (int64_t)map.n_image * g.n_w);
        }
        return correct(image, first_image, n, blocks, threads);
    }

    int correct(msi_image *image, int first_image, int n, dim3 blocks, dim3 threads)
    {
        double start = msi_wall_s();
        int64_t nx = plan->image.nx, ny = plan->image.ny, n_pixel = nx * ny;
        msi_taper host;
        MSI_TRY(msi_taper_make(&host, plan));
        msi_taper device = host;
        int rc = d_along.fit((nx + ny) * (int64_t)sizeof(double), "taper correction");
        cudaError_t e = cudaSuccess;
        if (!rc) {
            device.along_x = d_along.as<double>();
            device.along_y = d_along.as<double>() + nx;
            e = cudaMemcpy(device.along_x, host.along_x, sizeof(double) * (size_t)nx, cudaMemcpyHostToDevice);
            if (e == cudaSuccess)
                e = cudaMemcpy(device.along_y, host.along_y, sizeof(double) * (size_t)ny, cudaMemcpyHostToDevice);
        }
        msi_taper_free(&host);
        MSI_TRY(rc);
        MSI_CUDA(e);
        for (int i = 0; i < n; i++) {
            double sum = image->sum_weight[first_image + i];
            k_correct<T><<<blocks, threads>>>(screen(), device, sum > 0 ? 1 / sum : NAN, d_sum.as<T>() + i * n_pixel);
            MSI_CUDA(cudaGetLastError());
        }
        MSI_CUDA(cudaMemcpy((T *)image->pixel + first_image * n_pixel, d_sum.as<T>(), sizeof(T) * (size_t)(n * n_pixel),
                            cudaMemcpyDeviceToHost));
        times->correct_s += msi_wall_s() - start;
        return MSI_OK;
    }
};

template <typename T>
int make_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane, int64_t n_resident,
               msi_image *image, msi_wgrid_times *times)
{
    gridder<T> g(plan, store, store_plane, image->n_plane, n_resident, times);
    return g.make(image);
}

int64_t cell_bytes(const msi_wgrid_plan *plan)
{
    return plan->precision == MSI_FP32 ? 8 : 16;
}

int64_t batch_bytes(const msi_wgrid_plan *plan, int64_t n_sample, int n_plane)
{
    return n_sample * (plan->precision == MSI_FP32 ? gridder<float>::sample_bytes(n_plane, n_plane)
                                                   : gridder<double>::sample_bytes(n_plane, n_plane));
}

} // namespace

static std::thread warming_up;

void msi_wgrid_cuda_warm_up(void)
{
    if (warming_up.joinable()) return;
    warming_up = std::thread([] {
        if (cudaFree(nullptr) != cudaSuccess) return;
        cufftHandle plan;
        if (cufftPlan1d(&plan, 64, CUFFT_C2C, 1) == CUFFT_SUCCESS) cufftDestroy(plan);
    });
}

void msi_wgrid_cuda_settle(void)
{
    if (warming_up.joinable()) warming_up.join();
}

int msi_wgrid_cuda_available(void)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess) cudaGetLastError();
    return e == cudaSuccess && n > 0;
}

const char *msi_wgrid_cuda_describe(void)
{
    static char text[256];
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);
    cudaDeviceProp properties;
    if (e == cudaSuccess && n > 0) e = cudaGetDeviceProperties(&properties, 0);
    if (e != cudaSuccess || n == 0)
        snprintf(text, sizeof text, "no GPU found (%s)",
                 e != cudaSuccess ? cudaGetErrorString(e) : "none in this machine");
    else
        snprintf(text, sizeof text, "%s, compute capability %d.%d, %.1f GB", properties.name, properties.major,
                 properties.minor, 1e-9 * (double)properties.totalGlobalMem);
    if (e != cudaSuccess) cudaGetLastError();
    return text;
}

const char *msi_wgrid_cuda_versions(void)
{
    static char text[96];
    int fft = 0;
    cufftGetVersion(&fft);
    snprintf(text, sizeof text, "CUDA %d.%d, cuFFT %d.%d.%d", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10,
             fft / 1000, fft % 1000 / 100, fft % 100);
    return text;
}

void msi_wgrid_cuda_bytes(const msi_wgrid_plan *plan, int64_t n_sample, int n_plane, int64_t n_resident, int64_t *host,
                          int64_t *device)
{
    int64_t image = msi_image_n_pixel(&plan->image) * cell_bytes(plan) / 2;
    *host = 0;
    *device = n_plane * (n_resident * plan->grid.nu * plan->grid.nv * cell_bytes(plan) + image) +
              batch_bytes(plan, n_sample, n_plane);
}

int64_t msi_wgrid_cuda_resident(const msi_wgrid_plan *plan, int n_plane, int64_t n_sample, int64_t host_bytes)
{
    (void)host_bytes;
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) {
        cudaGetLastError();
        return 1;
    }
    int64_t plane = plan->grid.nu * plan->grid.nv * cell_bytes(plan);
    int64_t image = msi_image_n_pixel(&plan->image) * cell_bytes(plan) / 2;
    int64_t usable = (int64_t)(0.9 * (double)free_bytes), batch = batch_bytes(plan, n_sample, n_plane);
    if (batch > usable / 3) batch = usable / 3;
    /* Every plane for every image where that fits, else as many for one image at a time. */
    int64_t fit = (usable - batch - 2 * plane) / n_plane - image;
    if (fit < plan->grid.n_w * plane) fit = usable - batch - 2 * plane - image;
    int64_t n = fit / plane;
    return n < 1 ? 1 : n > plan->grid.n_w ? plan->grid.n_w : n;
}

int msi_wgrid_cuda_image(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane,
                         int64_t n_resident, msi_image *image, msi_wgrid_times *times)
{
    return plan->precision == MSI_FP32 ? make_image<float>(plan, store, store_plane, n_resident, image, times)
                                       : make_image<double>(plan, store, store_plane, n_resident, image, times);
}
