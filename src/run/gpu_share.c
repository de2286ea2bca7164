/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/gpu_share.h"

#include <stdio.h>
#include <string.h>

#include "core/units.h"
#include "core/log.h"
#include "core/status.h"
#include "src/run/ranks.h"

/* A further GPU is taken where it saves more than this: so much longer, measured, is a command of a second by two that
 * has nothing to share. A tenth of it is the second context's end, the rest its start, which delays the first one's. */
static const double START_S = 0.3;

/* Take this rank's of the first n GPUs of the host. */
static void take_first(msi_gpu_share *share, int n)
{
    int all[MSI_MAX_GPUS];
    n = n < 1 ? 1 : n < MSI_MAX_GPUS ? n : MSI_MAX_GPUS;
    for (int i = 0; i < n; i++) all[i] = i;
    share->n = msi_assign_devices(all, n, share->team, share->device);
}

void msi_gpu_share_start(msi_gpu_share *share, const msi_options *o, const msi_team *team)
{
    const msi_gpus *asked = &o->gpus;
    *share = (msi_gpu_share){.team = team, .n_lane = 1};
    if (asked->kind == MSI_GPUS_LIST)
        share->n = msi_assign_devices(asked->device, asked->n, team, share->device);
    else if (asked->kind == MSI_GPUS_COUNT)
        take_first(share, asked->n);
    else {
        /* Plan as if there were one for each rank, which is known later. */
        share->n = 1;
        share->device[0] = team->gpu_rank;
    }
    msi_backend_warm_up(o->backend, share->device, share->n);
}

int msi_gpu_share_check(msi_gpu_share *share, const msi_options *o)
{
    const int is_named = o->gpus.kind == MSI_GPUS_COUNT || o->gpus.kind == MSI_GPUS_LIST;
    const int is_one = o->gpus.kind == MSI_GPUS_ONE || o->gpus.kind == MSI_GPUS_AUTO;
    if (o->backend == MSI_BACKEND_CPU || (is_one && share->team->gpu_rank == 0)) return MSI_OK;
    const int n_device = msi_backend_n_device();
    for (int i = 0; is_named && i < share->n; i++)
        if (share->device[i] >= n_device)
            return msi_error_set(MSI_EGPU, "-gpus: GPU %d is asked for; %d of this host answer%s", share->device[i],
                                 n_device, n_device == 1 ? "s" : "");
    if (is_named || n_device < 1) return MSI_OK;
    take_first(share, n_device);
    if (is_one) share->n = 1;
    msi_backend_warm_up(o->backend, share->device, share->n);
    return MSI_OK;
}

/* So many channels at most are made side by side on a GPU; of more than two, each has so many threads. */
enum { MOST_LANES = 4, LANE_THREADS = 4 };

/* Tell the free memory of a GPU of the list, for each place that it has there. */
static int64_t bytes_of(const msi_gpu_share *share, int i)
{
    int n_place = 0;
    for (int k = 0; k < share->n; k++) n_place += share->device[k] == share->device[i];
    return msi_backend_device_bytes(share->device[i]) / n_place;
}

/* Tell that of the GPU which has least. */
static int64_t least_bytes(const msi_gpu_share *share)
{
    int64_t least = bytes_of(share, 0);
    for (int i = 1; i < share->n; i++) {
        const int64_t bytes = bytes_of(share, i);
        if (bytes < least) least = bytes;
    }
    return least;
}

/* Tell whether a GPU of so many free bytes has room to spare beside gridders side by side. */
static int has_room(int each, int64_t gridder_bytes, int64_t bytes)
{
    return each * gridder_bytes <= bytes / 2;
}

static int lanes_fit(int n_lane, const msi_gpu_work *w)
{
    return w->n_channel >= n_lane && (n_lane - 1) * w->lane_bytes <= w->room_bytes;
}

/* Choose how many channels are made side by side: several on each GPU where both have room to spare. Gridders of
 * residuals keep their plans and samples on a GPU, and wait for nothing but it. */
static int lanes(const msi_gpu_share *share, const msi_options *o, const msi_gpu_work *w)
{
    const int most = o->clean.niter || w->n_channel == 1 ? 1 : MOST_LANES, n_gpu = share->n;
    /* Of others than the first one the plan asks nothing: they need not have been started. */
    const int64_t bytes = most > 1 ? bytes_of(share, 0) : 0;
    for (int each = most; each > 1; each--) {
        const int has_threads = each == 2 || o->n_threads >= LANE_THREADS * each * n_gpu;
        if (has_threads && has_room(each, w->gridder->device_bytes, bytes) && lanes_fit(each * n_gpu, w))
            return each * n_gpu;
    }
    return n_gpu > 1 && lanes_fit(n_gpu, w) ? n_gpu : 1;
}

double msi_gpu_share_s(const msi_gpu_share *share, const msi_gpu_work *w)
{
    if (share->n_lane == 1) return w->one_gpu_s * msi_gridder_shared(w->gridder, w->n_image, share->n).time;
    const int64_t each = (w->n_channel + share->n - 1) / share->n;
    return w->one_gpu_s * (double)each / (double)w->n_channel;
}

void msi_gpu_share_plan(msi_gpu_share *share, const msi_options *o, const msi_gpu_work *w)
{
    if (w->gridder->backend != MSI_BACKEND_CUDA) return;
    share->n_lane = lanes(share, o, w);
    if (o->gpus.kind != MSI_GPUS_AUTO || w->one_gpu_s <= START_S) return;
    msi_gpu_share best = *share, own = *share;
    take_first(&own, msi_backend_n_device());
    for (int n = 2; n <= own.n; n++) {
        msi_gpu_share more = own;
        more.n = n;
        more.n_lane = lanes(&more, o, w);
        if (msi_gpu_share_s(&more, w) + START_S * (n - best.n) < msi_gpu_share_s(&best, w)) best = more;
    }
    *share = best;
    if (share->n > 1) msi_backend_warm_up(o->backend, share->device, share->n);
}

void msi_gpu_share_report(const msi_gpu_share *share, const msi_gpu_work *w)
{
    char list[MSI_MAX_GPUS * 4 + 1] = "";
    size_t at = 0;
    if (w->gridder->backend != MSI_BACKEND_CUDA) return;
    if (share->n == 1 && share->team->gpu_size > 1)
        msi_log_info("GPU %d: the first rank's; the ranks of a host take its GPUs in turns", share->device[0]);
    if (share->n == 1 && share->n_lane > 1)
        msi_log_detail("GPU %d: %d output channels at a time", share->device[0], share->n_lane);
    if (share->n == 1) return;
    for (int i = 0; i < share->n; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", i ? "," : "", share->device[i]);
    if (share->n_lane > 1)
        msi_log_info("GPUs %s: %lld output channels, each on one of them, %d at a time", list, (long long)w->n_channel,
                     share->n_lane);
    else
        msi_log_info("GPUs %s: they share the %s%s", list, msi_gridder_shared(w->gridder, w->n_image, share->n).what,
                     w->n_channel > 1 ? " of one output channel after the other" : "");
}

void msi_gpu_share_settle(msi_gpu_share *share, const msi_gridder_report *gridder)
{
    const int planned = share->n_lane / share->n;
    if (planned < 2) return;
    msi_backend_await(share->device, share->n);
    const int64_t bytes = least_bytes(share);
    int each = planned;
    while (each > 1 && !has_room(each, gridder->device_bytes, bytes)) each--;
    share->n_lane = each * share->n;
    if (each < planned)
        msi_log_detail("%d output channels at a time on a GPU instead of %d: %.3f GB of its memory are free", each,
                       planned, 1e-9 * (double)bytes);
}

void msi_gpu_share_gridder(const msi_gpu_share *share, int64_t channel, msi_gridder_spec *spec)
{
    const int n_lane = share->n_lane;
    spec->device = share->device[0];
    spec->worker = share->device;
    spec->n_worker = share->n > 1 ? share->n : 0;
    if (n_lane == 1) return;
    spec->n_thread = spec->n_thread > n_lane ? spec->n_thread / n_lane : 1;
    if (spec->residual) {
        spec->worker = &share->device[channel % n_lane];
        spec->n_worker = 1;
    } else {
        spec->device = share->device[channel % share->n];
        spec->n_worker = 0;
    }
}
