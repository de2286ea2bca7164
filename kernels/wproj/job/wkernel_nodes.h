/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables of kernels are sums over these nodes of quadrature and the screen at them, on the CPU and on the GPU. */
#ifndef MSI_KERNELS_WKERNEL_NODES_H
#define MSI_KERNELS_WKERNEL_NODES_H

#include "kernels/wproj/job/wkernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An axis has nodes on [0, band] in cycles a cell, split at the image's edge, where the phase changes its course. */
typedef struct msi_wkernel_axis {
    double field_rad, edge; /* of the padded grid; of the image in cycles a cell */
    double half_l, half_m;  /* of the image along this axis and across it, in direction cosines */
    const msi_pswf *pswf;
    int n_node;
    double *x, *weight; /* [n_node]; weight holds the taper and the factor 2 of the even half */
    double *cosine;     /* [n_node][n_distance] cos(2 pi x q / steps); NULL until they are tabulated */
    int64_t n_distance;
} msi_wkernel_axis;

typedef struct msi_wkernel_nodes {
    msi_wkernel_axis u, v;
    double *part_u, *part_v; /* separable: [n_node] what stands for n - 1 along one axis */
    double *screen;          /* full: [u.n_node][v.n_node] n - 1 */
} msi_wkernel_nodes;

/*
 * msi_wkernel_nodes_make - find nodes enough for every plane of a spec, for kernels of up to half_max cells to a side.
 * Returned: *nodes, freed by msi_wkernel_nodes_free, which is NULL-safe in its members
 * Returns:  0, MSI_ENOMEM
 * Notes:    with x_i, g_i nodes and weights, K(t) = sum_i g_i exp(-2 pi i w part_i) cos(2 pi x_i t) along one axis, and
 *           a full kernel is the same over both, g_i g_j exp(-2 pi i w screen_ij) cos(..) cos(..).
 */
int msi_wkernel_nodes_make(msi_wkernel_nodes *nodes, const msi_wkernel_spec *spec, int32_t half_max);
void msi_wkernel_nodes_free(msi_wkernel_nodes *nodes);

/* msi_wkernel_distances - count distances |t - s / oversample| in sub-cells that a kernel has: 0 .. that less 1. */
MSI_HD int64_t msi_wkernel_distances(int32_t half, int32_t oversample)
{
    return (int64_t)half * oversample + oversample / 2 + 1;
}

/* msi_wkernel_distance - compute how far tap t lies from a sample at sub-offset s, in sub-cells. */
MSI_HD int64_t msi_wkernel_distance(int32_t tap, int32_t sub, int32_t oversample)
{
    int64_t q = (int64_t)tap * oversample - sub;
    return q < 0 ? -q : q;
}

#ifdef __cplusplus
}
#endif
#endif
