/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Convolution functions of w-projection: the transforms of taper x w-screen, tabulated at sub-cell offsets. Each
 * w-plane has its own table, which is as wide as the plane requires.
 *
 * The cells of the grid are 1 / field wavelengths. With the image position x = l / field, in cycles per cell, the
 * kernel of plane w is
 *
 *     K(t) = integral over |x| < band of  T(x) exp(-2 pi i w (n - 1)) exp(2 pi i t x) dx,        T(0) = 1,
 *
 * where t is the distance from the sample in cells. An image that is gridded with K is multiplied by T and by the
 * screen of w. T is the prolate spheroidal taper of pswf.h. It is negligible beyond band < 1 - 1/(2 sigma), so aliases
 * fall outside of the image. Pixels between the image's edge and the band are not kept; there n - 1 is continued by the
 * parabola that fits at the edge. The tables have the sign of gridding for w > 0. Samples with w < 0 use the conjugate,
 * and degridding uses the conjugate of gridding's kernel.
 *
 * Source: Cornwell, Golap & Bhatnagar 2008, in the notation of Merry 2016 (thread coarsening), section 2.2. Layout of
 * the tables: SDP memo "Vertical prototyping of the gridding algorithm", section 4.1.
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
    MSI_WPHASE_FITTED, /* separable: the sum with the smallest error, a quarter of that of MSI_WPHASE_AXIS */
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

/* Vector code may read up to PADDING elements beyond the end of a table. */
enum { MSI_WKERNEL_MAX_HALF = 512, MSI_WKERNEL_PADDING = 16 };

/*
 * A set of tables.
 *
 * separable: element of plane p, sub-offset s, tap t along u:  offset_u[p] + (s + oversample/2) (2 half + 1) + t + half
 *            and along v the same from offset_v[p]. If both axes are alike, the two offsets are equal.
 * full:      offset_u[p] + (((s_u + os/2) (os + 1) + s_v + os/2) (2 half + 1) + t_v + half) (2 half + 1) + t_u + half;
 *            offset_v is offset_u.
 * The value is K(t - s / oversample). The sample is s / oversample cells from the middle of its cell, and tap t is the
 * cell t cells from the sample's. Every sub-offset from -os/2 to os/2, both included, has the plane's full width.
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
    int on_device;     /* 1: the table is device memory (msi_wkernel_make_cuda); the arrays are host memory */
} msi_wkernel_set;

/* msi_wkernel_taps - return the number of taps along one axis. */
MSI_HD int32_t msi_wkernel_taps(int32_t half)
{
    return 2 * half + 1;
}

/* msi_wkernel_elements - count the elements of one plane's table: along one axis (separable) or in total (full). */
MSI_HD int64_t msi_wkernel_elements(int full, int32_t oversample, int32_t half)
{
    int64_t axis = (int64_t)(oversample + 1) * msi_wkernel_taps(half);
    return full ? axis * axis : axis;
}

/* msi_wkernel_row - return the index of tap -half in a separable plane's row for a sub-offset. The other taps follow
 * it. */
MSI_HD int64_t msi_wkernel_row(int64_t offset, int32_t half, int32_t oversample, int32_t sub)
{
    return offset + (int64_t)(sub + oversample / 2) * msi_wkernel_taps(half);
}

/* msi_wkernel_square - return the index of tap (-half, -half) in a full plane's square for a pair of sub-offsets. u
 * varies fastest. */
MSI_HD int64_t msi_wkernel_square(int64_t offset, int32_t half, int32_t oversample, int32_t sub_u, int32_t sub_v)
{
    int64_t taps = msi_wkernel_taps(half);
    return offset + ((int64_t)(sub_u + oversample / 2) * (oversample + 1) + sub_v + oversample / 2) * taps * taps;
}

/*
 * msi_wkernel_supports - find the smallest half-support of every plane whose truncation error, summed over both axes,
 * is below spec->truncation at the worst place of the image and the worst fraction of a cell.
 * Returned: half [n_plane], which does not decrease with w; *error, the largest truncation error; may be NULL
 * Returns:  0, MSI_ERANGE (half_limit does not suffice), MSI_ENOMEM
 */
int msi_wkernel_supports(const msi_wkernel_spec *spec, int32_t *half, double *error);

/*
 * msi_wkernel_make - make supports and tables.
 * Returned: *set, freed by msi_wkernel_free
 * Returns:  0, MSI_ERANGE (half_limit does not suffice), MSI_ENOMEM
 */
int msi_wkernel_make(msi_wkernel_set *set, const msi_wkernel_spec *spec);

/* msi_wkernel_free - free a set in host memory and set it to zero. Does nothing if it is zero already. */
void msi_wkernel_free(msi_wkernel_set *set);

/*
 * msi_wkernel_layout - compute offsets and n_element from supports, form and oversampling. Makes no table.
 * Given:    half [n_plane], copied
 * Returned: *set with its arrays, freed by msi_wkernel_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_wkernel_layout(msi_wkernel_set *set, const msi_wkernel_spec *spec, const int32_t *half);

/*
 * msi_wkernel_separable_error - return the largest error of n - 1 over the image by the approximation of separable
 * kernels. 2 pi w times this is the relative error of plane w.
 */
double msi_wkernel_separable_error(const msi_wkernel_spec *spec);

/*
 * msi_wkernel_taper - return the taper by which an image is divided at position x, in cycles per cell. This is T times
 * the mean attenuation by sub-offsets: sinc(x / oversample) for the nearest one (linear = 0), or its square for linear
 * interpolation.
 */
double msi_wkernel_taper(const msi_pswf *pswf, int32_t oversample, int linear, double x);

/* Quadrature nodes, and the screen at the nodes. Kernel tables are sums over them, on the CPU and on the GPU. */

/* The nodes of an axis on [0, band] in cycles per cell, split at the image's edge, where the phase has a kink. */
typedef struct msi_wkernel_axis {
    double field_rad, edge; /* extent of the padded grid; edge of the image in cycles a cell */
    double half_l, half_m;  /* half extents of the image along this axis and along the other, in direction cosines */
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
 * Returned: *nodes, freed by msi_wkernel_nodes_free, which accepts members that are NULL
 * Returns:  0, MSI_ENOMEM
 * Notes:    With nodes x_i and weights g_i, a separable kernel is K(t) = sum_i g_i exp(-2 pi i w part_i) cos(2 pi x_i
 *           t) along one axis. A full kernel is the double sum of g_i g_j exp(-2 pi i w screen_ij) cos(..) cos(..).
 */
int msi_wkernel_nodes_make(msi_wkernel_nodes *nodes, const msi_wkernel_spec *spec, int32_t half_max);
void msi_wkernel_nodes_free(msi_wkernel_nodes *nodes);

/* msi_wkernel_distances - return n, where a kernel has the distances |t - s / oversample| = 0 .. n - 1 sub-cells. */
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

/* Computation of kernels on a GPU, and their layout for the GPU's strategies. */

/*
 * msi_wkernel_make_cuda - make tables in device memory.
 *
 * Given:    gpu   the device and the stream to use
 *           spec  spec->half must be set
 * Returned: *set, freed by msi_wkernel_free_cuda; set->on_device is 1
 * Returns:  0, MSI_EGPU, MSI_ENOMEM
 * Notes:    waits for the stream. The sums are computed in double, as by msi_wkernel_make, so values differ only by
 *           rounding to the tables' precision.
 */
int msi_wkernel_make_cuda(msi_wkernel_set *set, const msi_gpu_stream *gpu, const msi_wkernel_spec *spec);

/* msi_wkernel_free_cuda - free a set, made by msi_wkernel_make_cuda or by msi_wkernel_make. */
void msi_wkernel_free_cuda(msi_wkernel_set *set);

/* A mirror is a set in device memory. */
typedef struct msi_wkernel_mirror {
    msi_wproj_kernels view;
    void *memory[4]; /* owned */
} msi_wkernel_mirror;

/*
 * msi_wkernel_mirror_make - copy a set to the device. A table that is on the device already is borrowed.
 * Given:    gpu, the device and the stream to use; lookup: MSI_WPROJ_NEAREST or MSI_WPROJ_LINEAR
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
