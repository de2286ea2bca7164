/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_clean_ranks.h"

#include "core/status.h"
#include "src/clean/clean_samples.h"
#include "src/imaging/imaging_clean.h"
#include "src/imaging/imaging_files.h"

/* Count a channel by the plane that has most samples. */
static void count_gridded(msi_imaging_run *r, const msi_clean_samples *s)
{
    for (int64_t c = 0; c < s->n_channel; c++) {
        int64_t most = 0;
        for (int p = 0; p < s->n_plane; p++) {
            const int64_t n = s->n_vis[c * s->n_plane + p];
            most = n > most ? n : most;
        }
        r->n_gridded += most;
    }
}

/* Weights are written before the first gridder is freed. */
static int put_weights(msi_imaging_run *r, const msi_clean_samples *s)
{
    msi_imaging_sums all = {0};
    if (!r->options->save_weights) return MSI_OK;
    for (int64_t c = 0; c < s->n_channel; c++) {
        const int64_t i = c * s->n_plane;
        const msi_imaging_sums of_channel = {
            s->sum_weight[i], {.largest = s->largest_weight[i], .vis_sum = s->sum_vis_weight[i]}, s->n_vis[i]};
        MSI_TRY(msi_imaging_files_weights(r, c, &of_channel));
        all.sum_weight += of_channel.sum_weight;
        msi_imaging_weight_add(&all.weight, &of_channel.weight);
        all.n_vis += of_channel.n_vis;
    }
    return s->n_channel > 1 ? msi_imaging_files_weights(r, MSI_OUTPUT_MFS, &all) : MSI_OK;
}

static int clean(msi_imaging_run *r, msi_clean_samples *s)
{
    MSI_TRY(put_weights(r, s));
    if (r->team->rank) return msi_clean_samples_serve(s);
    MSI_TRY(msi_imaging_clean_run(r, s));
    return msi_clean_samples_done(s);
}

int msi_imaging_clean_ranks(msi_imaging_run *r)
{
    msi_clean_samples samples = {.team = r->team,
                                 .gridder = r->gridder,
                                 .n_channel = r->options->channels_out,
                                 .n_plane = r->n_plane,
                                 .geometry = r->options->geometry};
    int rc = msi_clean_samples_count(&samples);
    if (!rc) count_gridded(r, &samples);
    if (!rc) rc = clean(r, &samples);
    msi_clean_samples_free(&samples);
    return rc;
}
