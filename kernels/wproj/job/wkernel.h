/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Convolution functions of w-projection: the transforms of taper x w-screen, tabulated at sub-cell offsets, with one
 * table for each w-plane, which is as wide as its plane requires.
 *
 * On a grid whose cell is 1 / field wavelengths, image position x = l / field in cycles a cell, the kernel of plane w
 * is
 *
 *     K(t) = integral over |x| < band of  T(x) exp(-2 pi i w (n - 1)) exp(2 pi i t x) dx,        T(0) = 1,
 *
 * t in cells from the sample: gridding with K and transforming gives T times the screen of w. T is the prolate
 * spheroidal taper of pswf.h; it is negligible beyond band < 1 - 1/(2 sigma), so that aliases fall outside the image.
 * Between the image's edge and the band, which are not kept, n - 1 is continued by its parabola at the edge. Tables are
 * of the gridding sign for w > 0; w < 0 takes the conjugate, and so does degridding.
 *
 * Source: Cornwell, Golap & Bhatnagar 2008 as Merry 2016 (thread coarsening) section 2.2 states it; table layouts SDP
 * memo "Vertical prototyping of the gridding algorithm" section 4.1.
 */
#ifndef MSI_WKERNEL_H
#define MSI_WKERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "core/types.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/method/geometry.h"
#include "kernels/transform/pswf.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_wkernel_form {
    MSI_WKERNEL_SEPARABLE, /* K(u) K(v), with n - 1 replaced by a sum of a function of l and one of m */
    MSI_WKERNEL_FULL       /* K(u, v), exact n - 1 */
} msi_wkernel_form;

typedef enum msi_wkernel_phase {
    MSI_WPHASE_FITTED, /* separable: the sum with the smallest error, a quarter of the other one's */
    MSI_WPHASE_AXIS    /* separable: (sqrt(1 - l^2) - 1) + (sqrt(1 - m^2) - 1), as in the literature */
} msi_wkernel_phase;

/* The specification of kernels. Pointers are borrowed for the call. */
typedef struct msi_wkernel_spec {
    double field_u_rad, field_v_rad; /* extent of the padded grid: nu cell_x, nv cell_y */
    double image_u_rad, image_v_rad; /* extent of the image: nx cell_x, ny cell_y */
    const msi_pswf *pswf_u;          /* their transforms are the taper; sigma is the grid's padding */
    const msi_pswf *pswf_v;
    msi_wkernel_form form;
    msi_wkernel_phase phase;
    msi_precision precision;
    int32_t oversample; /* even */
    int32_t n_plane;
    const double *w_lambda; /* [n_plane] >= 0, ascending */
    double truncation;      /* limit of the truncation error, relative, at the worst place of the image */
    int32_t half_limit;     /* largest half-support allowed; 0: MSI_WKERNEL_MAX_HALF */
    const int32_t *half;    /* [n_plane] given supports; NULL: from truncation */
} msi_wkernel_spec;

/* Up to PADDING elements after a table's last one may be read, in whole vectors. */
enum { MSI_WKERNEL_MAX_HALF = 512, MSI_WKERNEL_PADDING = 16 };

/*
 * A set of tables.
 *
 * separable: element of plane p, sub-offset s, tap t along u:  offset_u[p] + (s + oversample/2) (2 half + 1) + t + half
 *            and along v the same from offset_v[p]; where both axes are alike the two offsets are equal.
 * full:      offset_u[p] + (((s_u + os/2) (os + 1) + s_v + os/2) (2 half + 1) + t_v + half) (2 half + 1) + t_u + half;
 *            offset_v is offset_u.
 * The value is K(t - s / oversample): sub-offset s is where the sample lies from its cell, tap t where the cell written
 * lies from it. Every sub-offset from -os/2 to os/2, both included, has the plane's full width.
 */
typedef struct msi_wkernel_set {
    msi_wkernel_form form;
    msi_precision precision;
    int32_t n_plane, oversample;
    int32_t half_max;  /* largest of half */
    int32_t *half;     /* [n_plane] half-support: 2 half + 1 taps */
    int64_t *offset_u; /* [n_plane] first element of the plane's table along u, or of its only one */
    int64_t *offset_v; /* [n_plane] */
    double *w_lambda;  /* [n_plane] */
    int64_t n_element; /* number of elements of table */
    void *table;       /* [n_element] msi_c32 or msi_c64 */
    int on_device;     /* 1: table is device memory, of wkernel_cuda.h; the arrays are not */
} msi_wkernel_set;

/* msi_wkernel_taps - return the taps along one axis. */
MSI_HD int32_t msi_wkernel_taps(int32_t half)
{
    return 2 * half + 1;
}

/* msi_wkernel_elements - return the elements of one plane's table along one axis (separable) or in all (full). */
MSI_HD int64_t msi_wkernel_elements(int full, int32_t oversample, int32_t half)
{
    int64_t axis = (int64_t)(oversample + 1) * msi_wkernel_taps(half);
    return full ? axis * axis : axis;
}

/* msi_wkernel_row - return the element of tap -half in a separable plane's row for a sub-offset; taps are
 * contiguous. */
MSI_HD int64_t msi_wkernel_row(int64_t offset, int32_t half, int32_t oversample, int32_t sub)
{
    return offset + (int64_t)(sub + oversample / 2) * msi_wkernel_taps(half);
}

/* msi_wkernel_square - return the element of tap (-half, -half) in a full plane's square for a pair of sub-offsets; u
 * fastest. */
MSI_HD int64_t msi_wkernel_square(int64_t offset, int32_t half, int32_t oversample, int32_t sub_u, int32_t sub_v)
{
    int64_t taps = msi_wkernel_taps(half);
    return offset + ((int64_t)(sub_u + oversample / 2) * (oversample + 1) + sub_v + oversample / 2) * taps * taps;
}

/*
 * msi_wkernel_supports - return the half-support of every plane: the smallest one whose truncation error is below
 * spec->truncation at the worst place of the image and the worst fraction of a cell, both axes together.
 * Returned: half [n_plane], not falling with w; *error the largest truncation error; may be NULL
 * Returns:  0, MSI_ERANGE (half_limit does not suffice), MSI_ENOMEM
 */
int msi_wkernel_supports(const msi_wkernel_spec *spec, int32_t *half, double *error);

/*
 * msi_wkernel_make - make supports and tables.
 * Returned: *set, freed by msi_wkernel_free
 * Returns:  0, MSI_ERANGE (half_limit does not suffice), MSI_ENOMEM
 */
int msi_wkernel_make(msi_wkernel_set *set, const msi_wkernel_spec *spec);

/* msi_wkernel_free - free a set in host memory and zero it; does nothing for a set of zeros. */
void msi_wkernel_free(msi_wkernel_set *set);

/*
 * msi_wkernel_layout - set offsets and n_element from supports, form and oversampling, without a table.
 * Given:    half [n_plane], copied
 * Returned: *set with its arrays, freed by msi_wkernel_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_wkernel_layout(msi_wkernel_set *set, const msi_wkernel_spec *spec, const int32_t *half);

/*
 * msi_wkernel_separable_error - return the largest |n - 1 - (its approximation in a separable kernel)| over the image;
 * times 2 pi w it is the relative error of plane w.
 */
double msi_wkernel_separable_error(const msi_wkernel_spec *spec);

/*
 * msi_wkernel_taper - T at image position x cycles a cell, with the mean amplitude that rounding to (linear = 0) or
 * interpolating between sub-offsets leaves, sinc(x / oversample) or its square. The image is divided by this.
 */
double msi_wkernel_taper(const msi_pswf *pswf, int32_t oversample, int linear, double x);

/* Nodes of quadrature, and the screen at them. Kernel tables are sums over these nodes, on the CPU and on the GPU. */

/* The nodes of an axis on [0, band] in cycles per cell, split at the image's edge, where the phase has a kink. */
typedef struct msi_wkernel_axis {
    double field_rad, edge; /* extent of the padded grid; edge of the image in cycles a cell */
    double half_l, half_m;  /* half extents of the image along this axis and across it, in direction cosines */
    const msi_pswf *pswf;
    int n_node;
    double *x, *weight; /* [n_node]; weight holds the taper and the factor 2 of the even half */
    double *cosine;     /* [n_node][n_distance] cos(2 pi x q / steps); NULL if not tabulated yet */
    int64_t n_distance;
} msi_wkernel_axis;

typedef struct msi_wkernel_nodes {
    msi_wkernel_axis u, v;
    double *part_u, *part_v; /* separable: [n_node] approximation of n - 1 along one axis */
    double *screen;          /* full: [u.n_node][v.n_node] n - 1 */
} msi_wkernel_nodes;

/*
 * msi_wkernel_nodes_make - make enough nodes for every plane of a spec, for kernels with half-supports of up to
 * half_max cells.
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

/* msi_wkernel_distance - return the distance of tap t from a sample at sub-offset s, in sub-cells. */
MSI_HD int64_t msi_wkernel_distance(int32_t tap, int32_t sub, int32_t oversample)
{
    int64_t q = (int64_t)tap * oversample - sub;
    return q < 0 ? -q : q;
}

/* Convolution functions of w-projection computed on a GPU, and sets of them as the GPU's strategies read them. */

/*
 * msi_wkernel_make_cuda - make tables in device memory.
 *
 * Given:    gpu, on whose device and stream they are made; spec, its supports prescribed (spec->half)
 * Returned: *set, freed by msi_wkernel_free_cuda; set->on_device is 1
 * Returns:  0, MSI_EGPU, MSI_ENOMEM
 * Notes:    waits for the stream. The same sums as msi_wkernel_make's, in double: values differ by rounding of the
 * tables' precision.
 */
int msi_wkernel_make_cuda(msi_wkernel_set *set, const msi_gpu_stream *gpu, const msi_wkernel_spec *spec);

/* msi_wkernel_free_cuda - frees a set made here or by msi_wkernel_make. */
void msi_wkernel_free_cuda(msi_wkernel_set *set);

/* A mirror is a set in device memory. */
typedef struct msi_wkernel_mirror {
    msi_wproj_kernels view;
    void *memory[4]; /* owned */
} msi_wkernel_mirror;

/*
 * msi_wkernel_mirror_make - make a set's mirror; a table that is on the device already is borrowed.
 * Given:    gpu, on whose device and stream it is made; lookup: MSI_WPROJ_NEAREST or MSI_WPROJ_LINEAR
 * Returned: *mirror, freed by msi_wkernel_mirror_free
 * Returns:  0, MSI_EGPU
 */
int msi_wkernel_mirror_make(msi_wkernel_mirror *mirror, const msi_gpu_stream *gpu, const msi_wkernel_set *set,
                            msi_wproj_lookup lookup);

void msi_wkernel_mirror_free(msi_wkernel_mirror *mirror);

#ifdef __cplusplus
}
#endif
#endif
