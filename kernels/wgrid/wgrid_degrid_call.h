/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The degridding kernels, called with samples that somebody else has put in order: gridders that subtract a model. The
 * kernels are compiled once, with the predictions; what they are given lies on the device and has the types of
 * wgrid_cuda_kernels.cuh in the plan's precision.
 */
#ifndef MSI_KERNELS_WGRID_DEGRID_CALL_H
#define MSI_KERNELS_WGRID_DEGRID_CALL_H

#include "kernels/wgrid/wgrid_plan.h"

typedef struct msi_wgrid_degrid_call {
    const msi_wgrid_plan *plan;
    const void *taps, *host_taps; /* tap_table, on the device and on the host */
    const void *samples;          /* placed, in order */
    const void *crowded, *sparse; /* items of gridding */
    int64_t n_crowded, n_sparse;
    const void *cells; /* of the planes of one image of a model */
    void *value;       /* complex numbers in the samples' order, and turned as their values are */
    int adds;          /* to the values, which other planes have begun */
    void *stream;      /* where it is launched */
} msi_wgrid_degrid_call;

/* msi_wgrid_degrid_whole - begin to degrid from planes [low, high) of whole grids. Returns: 0, MSI_EGPU */
int msi_wgrid_degrid_whole(const msi_wgrid_degrid_call *call, int low, int high);

#endif
