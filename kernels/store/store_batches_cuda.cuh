/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batches of whole segments of a store on their way through the device, and plans of its FFTs. */
#ifndef MSI_KERNELS_STORE_BATCHES_CUDA_CUH
#define MSI_KERNELS_STORE_BATCHES_CUDA_CUH

#include <string.h>

#include "core/memory.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/store/store_rows.h"
#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"

namespace {

class fft_plan {
  public:
    fft_plan() = default;
    fft_plan(const fft_plan &) = delete;
    fft_plan &operator=(const fft_plan &) = delete;
    ~fft_plan()
    {
        if (made) cufftDestroy(plan);
    }
    int make(int64_t nv, int64_t nu, cufftType type_)
    {
        MSI_CUFFT(cufftPlan2d(&plan, (int)nv, (int)nu, type_));
        type = type_;
        made = true;
        return MSI_OK;
    }
    /* Of n_plane square planes one after the other. */
    int make_many(int size, int64_t n_plane, cufftType type_)
    {
        int edges[2] = {size, size}, cells = size * size;
        MSI_CUFFT(cufftPlanMany(&plan, 2, edges, edges, 1, cells, edges, 1, cells, type_, (int)n_plane));
        type = type_;
        made = true;
        return MSI_OK;
    }
    /* In place; CUFFT_FORWARD or CUFFT_INVERSE. */
    int run(void *cells, int direction) const
    {
        if (type == CUFFT_C2C)
            MSI_CUFFT(cufftExecC2C(plan, (cufftComplex *)cells, (cufftComplex *)cells, direction));
        else
            MSI_CUFFT(cufftExecZ2Z(plan, (cufftDoubleComplex *)cells, (cufftDoubleComplex *)cells, direction));
        return MSI_OK;
    }
    cufftHandle plan = 0;

  private:
    bool made = false;
    cufftType type = CUFFT_C2C;
};

/* Segments [first, end) on their way through the device. */
struct store_batch {
    int64_t first, end, n_row, n_sample;
};

/* A store and the batch of it that is on the device: weights [plane][n_sample], visibilities d_raw the same. */
template <typename T> class store_batches {
  protected:
    const msi_vis_store *store = nullptr;
    msi_stage_times *times = nullptr;
    int64_t batch_samples = 0; /* at most, in one batch */
    store_batch now = {};
    buffer d_segments, d_freq, d_uvw, d_weight, d_raw;

    /* The batch that begins at segment `first`: at least one segment, at most batch_samples. */
    store_batch cut_batch(int64_t first) const
    {
        store_batch b = {first, first, 0, 0};
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

    /* Coordinates, and of n_plane planes weights and visibilities; none for degridding. */
    int upload_batch(int n_plane)
    {
        double start = msi_wall_s();
        int64_t n_segment = now.end - now.first, n_freq = 0;
        msi_store_rows *views;
        double *freq = nullptr;
        for (int64_t i = now.first; i < now.end; i++) n_freq += store->segment[i].n_chan;
        MSI_TRY(msi_alloc(&views, n_segment, sizeof *views, "GPU batch"));
        int rc = msi_alloc(&freq, n_freq, sizeof *freq, "GPU batch");
        if (!rc) rc = copy_segments(n_plane, views, freq, n_segment, n_freq);
        msi_free(views);
        msi_free(freq);
        times->transfer_s += msi_wall_s() - start;
        return rc;
    }

    /* Predicted visibilities of the batch at hand, value [n_image][n_sample] on the device, into the store. */
    int download_batch(const T *value, int n_image)
    {
        double start = msi_wall_s();
        int64_t sample = 0;
        for (int64_t i = now.first; i < now.end; i++) {
            const msi_vis_segment *s = &store->segment[i];
            int64_t n = s->n_row * s->n_chan;
            for (int p = 0; p < n_image; p++)
                MSI_CUDA(cudaMemcpyAsync((T *)s->vis + 2 * msi_segment_index(s, p, 0, 0),
                                         value + 2 * (p * now.n_sample + sample), 2 * sizeof(T) * (size_t)n,
                                         cudaMemcpyDeviceToHost));
            sample += n;
        }
        MSI_CUDA(cudaDeviceSynchronize());
        times->transfer_s += msi_wall_s() - start;
        return MSI_OK;
    }

    int copy_segments(int n_plane, msi_store_rows *views, double *freq, int64_t n_segment, int64_t n_freq)
    {
        MSI_TRY(d_segments.fit(n_segment * (int64_t)sizeof *views, "segments"));
        MSI_TRY(d_freq.fit(n_freq * (int64_t)sizeof *freq, "frequencies"));
        MSI_TRY(d_uvw.fit(now.n_row * 3 * (int64_t)sizeof(double), "uvw"));
        MSI_TRY(d_weight.fit(n_plane * now.n_sample * (int64_t)sizeof(float), "weights"));
        MSI_TRY(d_raw.fit(n_plane * now.n_sample * (int64_t)(2 * sizeof(T)), "visibilities"));
        int64_t row = 0, sample = 0, at_freq = 0;
        for (int64_t i = 0; i < n_segment; i++) {
            const msi_vis_segment *s = &store->segment[now.first + i];
            int64_t n = s->n_row * s->n_chan;
            views[i] = {sample, row, (int32_t)s->n_row, s->n_chan, (int32_t)at_freq};
            memcpy(freq + at_freq, s->freq_hz, sizeof(double) * (size_t)s->n_chan);
            MSI_CUDA(cudaMemcpyAsync(as<double>(d_uvw) + 3 * row, s->uvw_m, sizeof(double) * 3 * (size_t)s->n_row,
                                     cudaMemcpyHostToDevice));
            for (int p = 0; p < n_plane; p++) {
                int64_t from = msi_segment_index(s, p, 0, 0), to = p * now.n_sample + sample;
                MSI_CUDA(cudaMemcpyAsync(as<float>(d_weight) + to, s->weight + from, sizeof(float) * (size_t)n,
                                         cudaMemcpyHostToDevice));
                MSI_CUDA(cudaMemcpyAsync(as<T>(d_raw) + 2 * to, (const T *)s->vis + 2 * from, 2 * sizeof(T) * (size_t)n,
                                         cudaMemcpyHostToDevice));
            }
            row += s->n_row;
            sample += n;
            at_freq += s->n_chan;
        }
        MSI_CUDA(cudaMemcpy(as<void>(d_segments), views, sizeof *views * (size_t)n_segment, cudaMemcpyHostToDevice));
        MSI_CUDA(cudaMemcpy(as<void>(d_freq), freq, sizeof(double) * (size_t)n_freq, cudaMemcpyHostToDevice));
        return MSI_OK;
    }
};

} // namespace

#endif
