/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Divides the work of a run among the GPUs of its host (-gpus). If there are enough output channels, each GPU works on
 * whole channels. It works on up to four at a time, so that it transforms one while the host plans and copies others.
 * If there are fewer channels, the GPUs share the images or the samples of one channel. Fields of a mosaic and facets
 * are given to the GPUs in turn. */
#ifndef MSI_SRC_GPU_SHARE_H
#define MSI_SRC_GPU_SHARE_H

#include "kernels/gridder.h"
#include "src/options/options.h"
#include "src/run/ranks.h"

typedef struct msi_gpu_share {
    const msi_ranks *ranks; /* the ranks of one host share its GPUs */
    int n;                  /* at least 1 */
    int device[MSI_MAX_GPUS];
    /* output channels that are gridded at a time, equally many on each GPU; 1: all GPUs work on one channel */
    int n_slot;
    int apart; /* 1: each channel is on one GPU */
} msi_gpu_share;

/* The work of one interval. */
typedef struct msi_gpu_work {
    const msi_gridder_report *gridder; /* plan of one output channel on one GPU */
    int64_t n_channel;
    int n_image;          /* number of images of an output channel, with the PSF */
    int n_unit;           /* fields or facets of an output channel, each of which is on one GPU; 0: there are none */
    const char *unit;     /* their name in the plural, for the log */
    double one_gpu_s;     /* time of all channels on one GPU */
    int apart;            /* 1: channels are independent, which means that they are not cleaned jointly */
    int64_t device_bytes; /* memory of an output channel on its GPU */
    int64_t slot_bytes;   /* host memory of one more slot */
    int64_t free_bytes;   /* host memory that is still free */
} msi_gpu_work;

/* msi_gpu_share_start - begin to start the GPUs that -gpus names, or the first GPU. Does not wait for the driver.
 * Given: ranks  borrowed */
void msi_gpu_share_start(msi_gpu_share *share, const msi_options *options, const msi_ranks *ranks);

/*
 * msi_gpu_share_check - count the GPUs, and use all of them if -gpus all is given.
 * Returns: 0, MSI_EGPU (a GPU that -gpus names does not exist)
 */
int msi_gpu_share_check(msi_gpu_share *share, const msi_options *options);

/* msi_gpu_share_most - return the most GPUs that msi_gpu_share_plan may choose. */
int msi_gpu_share_most(const msi_gpu_share *share, const msi_options *options);

/*
 * msi_gpu_share_check_memory - check that the first GPU has enough memory for the work. If not, log that the CPU does
 *                              it.
 * Given:    gridder  as planned
 *           bytes    least memory of the GPU
 *           what     the work, as a plural subject, for messages
 * Returned: *fits
 * Returns:  0, MSI_ENOMEM (-backend cuda was given)
 */
int msi_gpu_share_check_memory(const msi_gpu_share *share, const msi_options *options,
                               const msi_gridder_report *gridder, int64_t bytes, const char *what, int *fits);

/* msi_gpu_share_plan - choose the slots. With -gpus auto, use more GPUs if they save more time than their start
 * takes. */
void msi_gpu_share_plan(msi_gpu_share *share, const msi_options *options, const msi_gpu_work *work);

/* msi_gpu_share_s - return the estimated time of the work on the GPUs as planned. */
double msi_gpu_share_s(const msi_gpu_share *share, const msi_gpu_work *work);

/* msi_gpu_share_report - log how several GPUs share the work. */
void msi_gpu_share_report(const msi_gpu_share *share, const msi_gpu_work *work);

/*
 * msi_gpu_share_adjust - wait until the GPUs have started, and reduce the slots if other programs use their memory. The
 * plan was made without waiting, and assumed that all memory is free. Gridders keep their GPUs.
 * Given: device_bytes  planned memory of an output channel
 */
void msi_gpu_share_adjust(msi_gpu_share *share, int64_t device_bytes);

/*
 * msi_gpu_share_gridder - choose the GPUs of an output channel's gridder. With joined deconvolution, its planes are on
 * the first GPU.
 * Given and returned: *spec  with lists borrowed from the share
 */
void msi_gpu_share_gridder(const msi_gpu_share *share, int64_t channel, msi_gridder_spec *spec);

/* msi_gpu_share_n_cleaning - return how many of the GPUs, from the first, share the minor iterations of a field; 0: the
 * field has all of its work on one GPU. */
int msi_gpu_share_n_cleaning(const msi_gpu_share *share);

#endif
