/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/gpu_share.h"

#include <stdio.h>
#include <string.h>

#include "core/units.h"
#include "core/log.h"
#include "core/status.h"
#include "src/run/ranks.h"

/* A further GPU must save more time than this. Measured: starting a second GPU that gets no work makes a command of one
 * second this much longer. Nine tenths are the start of its context, which delays the start of the first one; a tenth
 * is the end. */
static const double START_S = 0.3;

/* Use this rank's share of the first n GPUs of the host. */
static void use_first(msi_gpu_share *share, int n)
{
    int all[MSI_MAX_GPUS];
    n = n < 1 ? 1 : n < MSI_MAX_GPUS ? n : MSI_MAX_GPUS;
    for (int i = 0; i < n; i++) all[i] = i;
    share->n = msi_ranks_assign_devices(all, n, share->ranks, share->device);
}

void msi_gpu_share_start(msi_gpu_share *share, const msi_options *o, const msi_ranks *ranks)
{
    const msi_gpus *gpus = &o->gpus;
    *share = (msi_gpu_share){.ranks = ranks, .n_slot = 1};
    if (gpus->kind == MSI_GPUS_LIST)
        share->n = msi_ranks_assign_devices(gpus->device, gpus->n, ranks, share->device);
    else if (gpus->kind == MSI_GPUS_COUNT)
        use_first(share, gpus->n);
    else {
        /* The number of GPUs is known later. Until then, plan as if each rank had one. */
        share->n = 1;
        share->device[0] = ranks->gpu_rank;
    }
    msi_backend_warm_up(o->backend, share->device, share->n);
}

int msi_gpu_share_check(msi_gpu_share *share, const msi_options *o)
{
    const int is_named = o->gpus.kind == MSI_GPUS_COUNT || o->gpus.kind == MSI_GPUS_LIST;
    const int is_one = o->gpus.kind == MSI_GPUS_ONE || o->gpus.kind == MSI_GPUS_AUTO;
    if (o->backend == MSI_BACKEND_CPU || (is_one && share->ranks->gpu_rank == 0)) return MSI_OK;
    const int n_device = msi_backend_n_device();
    for (int i = 0; is_named && i < share->n; i++)
        if (share->device[i] >= n_device)
            return msi_error_set(MSI_EGPU, "-gpus: GPU %d does not exist; this host has %d GPU%s", share->device[i],
                                 n_device, msi_plural(n_device));
    if (is_named || n_device < 1) return MSI_OK;
    use_first(share, n_device);
    if (is_one) share->n = 1;
    msi_backend_warm_up(o->backend, share->device, share->n);
    return MSI_OK;
}

/* A GPU has at most four slots. If there are more than two, each of them needs four threads. */
enum { MOST_SLOTS = 4, SLOT_THREADS = 4 };

/* Return the free memory of a GPU, divided by the number of times that the list names the GPU. */
static int64_t free_device_bytes(const msi_gpu_share *share, int i)
{
    int n_place = 0;
    for (int k = 0; k < share->n; k++) n_place += share->device[k] == share->device[i];
    return msi_backend_device_bytes(share->device[i]) / n_place;
}

int msi_gpu_share_most(const msi_gpu_share *share, const msi_options *o)
{
    const int n = o->backend != MSI_BACKEND_CPU && o->gpus.kind == MSI_GPUS_AUTO ? msi_backend_n_device() : 1;
    return n > share->n ? n : share->n;
}

int msi_gpu_share_check_memory(const msi_gpu_share *share, const msi_options *o, const msi_gridder_report *gridder,
                               int64_t bytes, const char *what, int *fits)
{
    const int64_t has = gridder->backend == MSI_BACKEND_CUDA ? free_device_bytes(share, 0) : 0;
    *fits = !has || bytes <= has; /* 0: the GPU cannot report its memory */
    if (*fits) return MSI_OK;
    if (o->backend == MSI_BACKEND_CUDA)
        return msi_error_about(msi_error_set(MSI_ENOMEM,
                                             "%s need at least %.3f GB of GPU memory; %.3f GB of GPU %d are free", what,
                                             1e-9 * (double)bytes, 1e-9 * (double)has, share->device[0]),
                               "backend");
    msi_log_warning("%s need at least %.3f GB of GPU memory; %.3f GB of GPU %d are free: the CPU does the work", what,
                    1e-9 * (double)bytes, 1e-9 * (double)has, share->device[0]);
    return MSI_OK;
}

/* Return the smallest free memory of the GPUs. */
static int64_t least_device_bytes(const msi_gpu_share *share)
{
    int64_t least = free_device_bytes(share, 0);
    for (int i = 1; i < share->n; i++) {
        const int64_t bytes = free_device_bytes(share, i);
        if (bytes < least) least = bytes;
    }
    return least;
}

/* Return whether this number of channels needs at most half of a GPU's free memory. */
static int fits_device(int each, int64_t channel_bytes, int64_t bytes)
{
    return each * channel_bytes <= bytes / 2;
}

/* Return whether there are enough channels and enough host memory. */
static int fits_host(int n_slot, const msi_gpu_work *w)
{
    return w->n_channel >= n_slot && (n_slot - 1) * w->slot_bytes <= w->free_bytes;
}

/* Choose the number of slots: several on each GPU if host and GPU memory suffice. With joined deconvolution one slot is
 * enough, because gridders keep their plans and samples on the GPU and the host only waits for it. */
static int choose_slots(const msi_gpu_share *share, const msi_options *o, const msi_gpu_work *w)
{
    const int most = !w->apart || w->n_channel == 1 ? 1 : MOST_SLOTS, n_gpu = share->n;
    if (w->n_unit) return 1;
    /* Only the memory of the first GPU is read; the others may still be starting. */
    const int64_t bytes = most > 1 ? free_device_bytes(share, 0) : 0;
    for (int each = most; each > 1; each--) {
        const int has_threads = each == 2 || o->n_threads >= SLOT_THREADS * each * n_gpu;
        if (has_threads && fits_device(each, w->device_bytes, bytes) && fits_host(each * n_gpu, w)) return each * n_gpu;
    }
    return n_gpu > 1 && fits_host(n_gpu, w) ? n_gpu : 1;
}

/* Return how the GPUs share an output channel. */
static msi_gridder_sharing sharing_of(const msi_gpu_share *share, const msi_gpu_work *w)
{
    if (!w->n_unit) return msi_gridder_estimate_sharing(w->gridder, w->n_image, share->n);
    const int most = (w->n_unit + share->n - 1) / share->n;
    return (msi_gridder_sharing){w->unit, (double)most / w->n_unit};
}

double msi_gpu_share_s(const msi_gpu_share *share, const msi_gpu_work *w)
{
    if (share->n_slot == 1) return w->one_gpu_s * sharing_of(share, w).time;
    const int64_t each = (w->n_channel + share->n - 1) / share->n;
    return w->one_gpu_s * (double)each / (double)w->n_channel;
}

void msi_gpu_share_plan(msi_gpu_share *share, const msi_options *o, const msi_gpu_work *w)
{
    if (w->gridder->backend != MSI_BACKEND_CUDA) return;
    share->apart = w->apart;
    share->n_slot = choose_slots(share, o, w);
    if (o->gpus.kind != MSI_GPUS_AUTO || w->one_gpu_s <= START_S) return;
    msi_gpu_share best = *share, own = *share;
    use_first(&own, msi_backend_n_device());
    for (int n = 2; n <= own.n; n++) {
        msi_gpu_share more = own;
        more.n = n;
        more.n_slot = choose_slots(&more, o, w);
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
    if (share->n == 1 && share->ranks->gpu_size > 1)
        msi_log_info("GPU %d: the first rank's; the ranks of a host take its GPUs in turns", share->device[0]);
    if (share->n == 1 && share->n_slot > 1)
        msi_log_detail("GPU %d: %d output channels at a time", share->device[0], share->n_slot);
    if (share->n == 1) return;
    for (int i = 0; i < share->n; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%d", i ? "," : "", share->device[i]);
    if (share->n_slot > 1)
        msi_log_info("GPUs %s: %lld output channels, each on one of them, %d at a time", list, (long long)w->n_channel,
                     share->n_slot);
    else
        msi_log_info("GPUs %s: they share the %s%s", list, sharing_of(share, w).what,
                     w->n_channel > 1 ? " of one output channel after the other" : "");
}

void msi_gpu_share_adjust(msi_gpu_share *share, int64_t device_bytes)
{
    const int planned = share->n_slot / share->n;
    if (planned < 2) return;
    msi_backend_await(share->device, share->n);
    const int64_t bytes = least_device_bytes(share);
    int each = planned;
    while (each > 1 && !fits_device(each, device_bytes, bytes)) each--;
    share->n_slot = each * share->n;
    if (each < planned)
        msi_log_detail("%d output channels at a time on a GPU instead of %d: %.3f GB of its memory are free", each,
                       planned, 1e-9 * (double)bytes);
}

void msi_gpu_share_gridder(const msi_gpu_share *share, int64_t channel, msi_gridder_spec *spec)
{
    const int n_slot = share->n_slot;
    spec->device = share->device[0];
    spec->worker = share->device;
    spec->n_worker = share->n > 1 ? share->n : 0;
    if (n_slot == 1) return;
    spec->n_thread = spec->n_thread > n_slot ? spec->n_thread / n_slot : 1;
    if (spec->residual && !share->apart) {
        spec->worker = &share->device[channel % n_slot];
        spec->n_worker = 1;
    } else {
        spec->device = share->device[channel % share->n];
        spec->n_worker = 0;
    }
}

int msi_gpu_share_n_cleaning(const msi_gpu_share *share)
{
    return share->apart && share->n_slot > 1 ? 0 : share->n;
}
