/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A run shares its gridders' work out among the GPUs of its host (-gpus): output channels one each where there are
 * as many, or up to four each, so that a GPU transforms one while the host plans and copies the others; else the images
 * or the samples of each one. */
#ifndef MSI_SRC_GPU_SHARE_H
#define MSI_SRC_GPU_SHARE_H

#include "kernels/gridder.h"
#include "src/options/options.h"
#include "src/run/ranks.h"

typedef struct msi_gpu_share {
    const msi_team *team; /* of whose ranks those on one host have some of its GPUs each */
    int n;                /* at least 1 */
    int device[MSI_MAX_GPUS];
    int n_lane; /* gridders of output channels that work side by side, as many on each GPU; 1: all GPUs work for one
                   after the other */
} msi_gpu_share;

/* The work to be shared, of one interval. */
typedef struct msi_gpu_work {
    const msi_gridder_report *gridder; /* as planned for one GPU; of one output channel */
    int64_t n_channel;
    int n_image;        /* of an output channel, the PSF counted */
    double one_gpu_s;   /* time of all channels by one GPU */
    int64_t lane_bytes; /* host memory that a lane more takes, */
    int64_t room_bytes; /* of what is left */
} msi_gpu_work;

/* msi_gpu_share_start - begin to start the GPUs that are asked for by number; else the first one. Does not wait for
 * their driver. team is borrowed. */
void msi_gpu_share_start(msi_gpu_share *share, const msi_options *options, const msi_team *team);

/*
 * msi_gpu_share_check - learn how many GPUs there are, and take them where all are asked for.
 * Returns: 0, MSI_EGPU (one is asked for that is not there)
 */
int msi_gpu_share_check(msi_gpu_share *share, const msi_options *options);

/* msi_gpu_share_plan - choose the lanes; of -gpus auto, take more GPUs where they gain more than their start takes. */
void msi_gpu_share_plan(msi_gpu_share *share, const msi_options *options, const msi_gpu_work *work);

/* msi_gpu_share_s - return the time of the work by the GPUs as planned. */
double msi_gpu_share_s(const msi_gpu_share *share, const msi_gpu_work *work);

/* msi_gpu_share_report - log which GPUs work at what, where there are several. */
void msi_gpu_share_report(const msi_gpu_share *share, const msi_gpu_work *work);

/*
 * msi_gpu_share_settle - wait for the GPUs, and make fewer channels side by side where others use memory that the plan,
 * which does not wait, took to be free. Gridders keep the GPUs that they were given.
 * Given: gridder  as planned for one GPU
 */
void msi_gpu_share_settle(msi_gpu_share *share, const msi_gridder_report *gridder);

/*
 * msi_gpu_share_gridder - name the GPUs of an output channel's gridder. Planes of gridders that are cleaned lie on the
 * first GPU.
 * Given and returned: *spec  whose lists are borrowed from the share
 */
void msi_gpu_share_gridder(const msi_gpu_share *share, int64_t channel, msi_gridder_spec *spec);

#endif
