/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_channels.h"

#include <omp.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/turns.h"
#include "src/imaging/imaging_files.h"
#include "src/imaging/imaging_report.h"

/* The multi-frequency image: images are means, so it is that of the channels, each with its weight. */
typedef struct mfs_image {
    msi_image image; /* empty until the first channel comes */
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES];
} mfs_image;

static int mfs_add(mfs_image *mfs, const msi_image *image, const msi_imaging_weight *weight)
{
    if (!mfs->image.pixel) MSI_TRY(msi_image_alloc(&mfs->image, &image->geometry, image->n_plane, image->precision));
    msi_image_add(&mfs->image, image);
    for (int p = 0; p < image->n_plane; p++) msi_imaging_weight_add(&mfs->weight[p], &weight[p]);
    return MSI_OK;
}

static int mfs_write(mfs_image *mfs, msi_imaging_run *r)
{
    /* A plane without a sample in any channel is unknown, not zero. */
    for (int p = 0; p < mfs->image.n_plane; p++)
        if (!mfs->image.n_vis[p]) msi_image_fill_nan(&mfs->image, p);
    return msi_imaging_files_write(r, MSI_OUTPUT_MFS, &mfs->image, mfs->weight);
}

int msi_imaging_channels_at_once(const msi_imaging_run *r)
{
    const int n_thread = omp_get_max_threads();
    const int64_t each = r->plan.grid_bytes + 2 * r->plan.image_bytes;
    if (r->plan.gridder.backend == MSI_BACKEND_CUDA) return r->gpus.n_lane;
    if (r->options->channels_out < 2 * n_thread) return 1;
    return n_thread * each <= msi_memory_limit() / 4 ? n_thread : 1;
}

/* A channel's image from its gridder to its turn. */
typedef struct made_image {
    msi_image image;
    msi_gridder_report report;
    double largest_weight[MSI_GRIDDER_MAX_PLANES];
    int rc; /* of its making */
} made_image;

/* Make the image of a channel, and look at what its gridder knows. */
static void make_image(msi_gridder *g, made_image *m)
{
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
    m->rc = msi_gridder_image(g, &m->image);
    msi_gridder_report_get(g, &m->report);
    if (!m->rc) msi_gridder_weights(g, sum_weight, m->largest_weight, n_vis);
}

/* The image of a channel goes onto the log, into the sum and onto the disk. */
static int finish_channel(msi_imaging_run *r, int64_t channel, made_image *made, mfs_image *mfs)
{
    msi_image *image = &made->image;
    msi_gridder_report *report = &made->report;
    msi_imaging_weight weight[MSI_GRIDDER_MAX_PLANES] = {{0}};
    int64_t most = 0;
    MSI_TRY(msi_team_image(r->team, image));
    MSI_TRY(msi_team_sum(r->team, report->sum_vis_weight, r->n_plane, MSI_FP64));
    MSI_TRY(msi_team_largest(r->team, made->largest_weight, r->n_plane));
    for (int p = 0; p < r->n_plane; p++)
        weight[p] = (msi_imaging_weight){.largest = made->largest_weight[p], .vis_sum = report->sum_vis_weight[p]};
    for (int p = 0; p < image->n_plane; p++) most = image->n_vis[p] > most ? image->n_vis[p] : most;
    r->n_gridded += most;
    msi_imaging_report_empty(r, channel, image->n_plane, image->n_vis);
    msi_imaging_report_channel(channel, most, report);
    if (r->options->channels_out > 1) MSI_TRY(mfs_add(mfs, image, weight));
    return msi_imaging_files_write(r, channel, image, weight);
}

/* The weights of all channels together are read off the gridders at the end. */
static void forget_gridder(msi_imaging_run *r, int64_t c)
{
    if (r->options->save_weights) return;
    msi_gridder_free(r->gridder[c]);
    r->gridder[c] = NULL;
}

/* In the progress of a channel, its files are one part of these. */
enum { WRITE_PARTS = 10 };

/* Count the parts of all channels and of the files of the image of all of them. */
static int64_t n_part(const msi_imaging_run *r)
{
    return WRITE_PARTS * r->options->channels_out + (r->options->channels_out > 1);
}

/* Image each channel by all threads. No parallel region may stand around this, not even one of a single thread: those
 * inside it would start their threads anew every time. */
static int image_in_turn(msi_imaging_run *r, mfs_image *mfs)
{
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        made_image made = {0};
        const msi_progress_share all = msi_progress_enter(WRITE_PARTS * c, WRITE_PARTS * (c + 1), n_part(r));
        msi_progress_share gridding = msi_progress_enter(0, WRITE_PARTS - 1, WRITE_PARTS);
        make_image(r->gridder[c], &made);
        msi_progress_leave(gridding);
        gridding = msi_progress_enter(WRITE_PARTS - 1, WRITE_PARTS, WRITE_PARTS);
        int rc = msi_team_agree(r->team, made.rc);
        if (!rc) rc = finish_channel(r, c, &made, mfs);
        msi_progress_leave(gridding);
        msi_progress_leave(all);
        msi_image_free(&made.image);
        forget_gridder(r, c);
        if (rc) return rc;
    }
    return MSI_OK;
}

/* Channels that are imaged side by side. */
typedef struct channel_lanes {
    msi_imaging_run *run;
    mfs_image *mfs;
    int n;
    made_image *made; /* [n] */
} channel_lanes;

static int image_channel(void *of, int64_t c)
{
    channel_lanes *l = of;
    made_image *m = &l->made[c % l->n];
    make_image(l->run->gridder[c], m);
    forget_gridder(l->run, c);
    return MSI_OK;
}

/* Files and sums come in the order of channels, whatever the number of lanes; ranks agree on each. */
static int hand_over(void *of, int64_t c)
{
    channel_lanes *l = of;
    made_image *m = &l->made[c % l->n];
    int rc = msi_team_agree(l->run->team, m->rc);
    if (!rc) rc = finish_channel(l->run, c, m, l->mfs);
    msi_image_free(&m->image);
    return rc;
}

/* Image channels side by side, by a thread each, or by GPUs. */
static int image_at_once(msi_imaging_run *r, mfs_image *mfs, int at_once)
{
    channel_lanes l = {.run = r, .mfs = mfs, .n = at_once};
    const msi_turns turns = {
        .n_item = r->options->channels_out, .n_thread = at_once, .work = image_channel, .finish = hand_over, .of = &l};
    MSI_TRY(msi_alloc(&l.made, at_once, sizeof *l.made, "images"));
    const msi_progress_share all = msi_progress_enter(0, WRITE_PARTS * turns.n_item, n_part(r));
    const int rc = msi_turns_run(&turns);
    if (!rc) msi_progress_leave(all);
    for (int i = 0; i < at_once; i++) msi_image_free(&l.made[i].image);
    msi_free(l.made);
    return rc;
}

int msi_imaging_channels_run(msi_imaging_run *r)
{
    const int at_once = msi_imaging_channels_at_once(r);
    mfs_image mfs = {0};
    msi_progress_begin("imaging");
    int rc = at_once > 1 ? image_at_once(r, &mfs, at_once) : image_in_turn(r, &mfs);
    msi_progress_enter(n_part(r) - 1, n_part(r), n_part(r));
    if (!rc && r->options->channels_out > 1) rc = mfs_write(&mfs, r);
    if (!rc) msi_progress_end();
    msi_image_free(&mfs.image);
    return rc;
}
