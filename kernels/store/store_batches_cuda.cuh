/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Batches of whole segments of a store on their way through the device. */
#ifndef MSI_KERNELS_STORE_BATCHES_CUDA_CUH
#define MSI_KERNELS_STORE_BATCHES_CUDA_CUH

#include <string.h>

#include "core/memory.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/plan_stream_cuda.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/store/store_rows.h"
#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"

namespace {

/* Segments [first, end) on their way through the device. */
struct store_batch {
    int64_t first, end, n_row, n_sample;
};

/* A store and the batch of it that is on the device: weights [plane][n_sample], visibilities d_raw the same. Gridders
 * add to it what they make of a batch. */
template <typename T> class store_batches {
  public:
    plan_stream on; /* where everything is copied and computed */
    const msi_vis_store *store = nullptr;
    msi_stage_times *times = nullptr;
    int64_t batch_samples = 0; /* at most, in one batch */
    store_batch now = {};
    buffer d_segments, d_freq, d_uvw, d_weight, d_raw;
    staged_copy staging{on};

    /* Cut the batch that begins at segment `first`: at least one segment, at most batch_samples. */
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

    /* enter - make the plan's device the current one, before anything else. Returns: 0, MSI_EGPU */
    int enter()
    {
        return on.enter();
    }

    /* upload_batch - upload coordinates, and the weights and visibilities of n_plane planes; none for degridding. */
    int upload_batch(int n_plane)
    {
        const stage_timer stage("transfer", &times->transfer_s);
        int64_t n_segment = now.end - now.first, n_freq = 0;
        msi_store_rows *views;
        double *freq = nullptr;
        for (int64_t i = now.first; i < now.end; i++) n_freq += store->segment[i].n_chan;
        MSI_TRY(msi_alloc(&views, n_segment, sizeof *views, "GPU batch"));
        int rc = msi_alloc(&freq, n_freq, sizeof *freq, "GPU batch");
        if (!rc) rc = copy_segments(n_plane, views, freq, n_segment, n_freq);
        msi_free(views);
        msi_free(freq);
        return rc;
    }

    /* download_batch - fetch the batch's visibilities, value [n_image][n_sample] on the device, into the store. */
    int download_batch(const T *value, int n_image)
    {
        const stage_timer stage("transfer", &times->transfer_s);
        const int64_t bytes_each = 2 * (int64_t)sizeof(T);
        for (int p = 0; p < n_image; p++) {
            int64_t segment = now.first, begin = 0; /* where the segment's visibilities begin */
            const auto place = [&](int64_t at) {
                const msi_vis_segment *s = &store->segment[segment];
                for (; at >= begin + s->n_row * s->n_chan * bytes_each; s = &store->segment[++segment])
                    begin += s->n_row * s->n_chan * bytes_each;
                char *first = reinterpret_cast<char *>((T *)s->vis + 2 * msi_segment_index(s, p, 0, 0));
                return staged_copy::host_room{first + (at - begin), begin + s->n_row * s->n_chan * bytes_each - at};
            };
            MSI_TRY(staging.download_to(place, value + 2 * p * now.n_sample, now.n_sample * bytes_each));
        }
        return MSI_OK;
    }

  private:
    int copy_segments(int n_plane, msi_store_rows *views, double *freq, int64_t n_segment, int64_t n_freq)
    {
        MSI_TRY(d_segments.fit(n_segment * (int64_t)sizeof *views, "segments"));
        MSI_TRY(d_freq.fit(n_freq * (int64_t)sizeof *freq, "frequencies"));
        MSI_TRY(d_uvw.fit(now.n_row * 3 * (int64_t)sizeof(double), "uvw"));
        MSI_TRY(d_weight.fit(n_plane * now.n_sample * (int64_t)sizeof(float), "weights"));
        MSI_TRY(d_raw.fit(n_plane * now.n_sample * (int64_t)(2 * sizeof(T)), "visibilities"));
        int64_t row = 0, sample = 0, at_freq = 0;
        MSI_TRY(staging.begin(now.n_row * 3 * (int64_t)sizeof(double) +
                                  n_plane * now.n_sample * (int64_t)(sizeof(float) + 2 * sizeof(T)),
                              store->segment[now.first].uvw_m));
        for (int64_t i = 0; i < n_segment; i++) {
            const msi_vis_segment *s = &store->segment[now.first + i];
            views[i] = {sample, row, (int32_t)s->n_row, s->n_chan, (int32_t)at_freq};
            memcpy(freq + at_freq, s->freq_hz, sizeof(double) * (size_t)s->n_chan);
            MSI_TRY(staging.upload(as<double>(d_uvw) + 3 * row, s->uvw_m, 3 * s->n_row));
            row += s->n_row;
            sample += s->n_row * s->n_chan;
            at_freq += s->n_chan;
        }
        for (int p = 0; p < n_plane; p++) MSI_TRY(copy_plane(p));
        MSI_TRY(staging.flush());
        MSI_TRY(on.upload(as<msi_store_rows>(d_segments), views, n_segment));
        MSI_TRY(on.upload(as<double>(d_freq), freq, n_freq));
        return on.wait();
    }

    /* Weights and visibilities of a plane lie one behind the other on the device, segment by segment. */
    int copy_plane(int p)
    {
        for (int weights = 0; weights < 2; weights++) {
            int64_t to = p * now.n_sample;
            MSI_TRY(staging.push());
            for (int64_t i = now.first; i < now.end; i++) {
                const msi_vis_segment *s = &store->segment[i];
                const int64_t n = s->n_row * s->n_chan, from = msi_segment_index(s, p, 0, 0);
                if (weights)
                    MSI_TRY(staging.upload(as<float>(d_weight) + to, s->weight + from, n));
                else
                    MSI_TRY(staging.upload(as<T>(d_raw) + 2 * to, (const T *)s->vis + 2 * from, 2 * n));
                to += n;
            }
        }
        return MSI_OK;
    }
};

} // namespace

#endif
