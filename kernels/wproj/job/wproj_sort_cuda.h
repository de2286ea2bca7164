/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sorting of samples for w-projection on the GPU. A list is made of the samples' heads (cell and kernel) and values.
 * Samples with the same cell and tabulated kernel are merged, and the list is sorted by cells.
 *
 * Pointers are device memory unless documented otherwise. A sorter works on the device and the stream that it was made
 * with.
 */
#ifndef MSI_KERNELS_WPROJ_SORT_CUDA_H
#define MSI_KERNELS_WPROJ_SORT_CUDA_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/store/vis_store.h"
#include "kernels/wproj/job/wproj_geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A head has a sample's coordinates as indices. The sort computes and stores them (SDP memo, section 4.2). */
typedef struct msi_wproj_head {
    uint32_t cell;   /* v << 16 | u, in cells of the box that is gridded */
    uint32_t kernel; /* plane | (sub_u + oversample/2) << 16 | (sub_v + oversample/2) << 23 | conjugate << 30;
                        sub-offsets are 0 if the list keeps them in full (linear) */
} msi_wproj_head;

enum {
    MSI_WPROJ_MAX_BOX = 65535,
    MSI_WPROJ_MAX_PLANE = 65536,
    MSI_WPROJ_MAX_OVERSAMPLE = 126, /* if sub-offsets are not kept in full */
    MSI_WPROJ_MAX_IMAGE = 8
};

/* msi_wproj_pack_cell, msi_wproj_pack_kernel - pack the two words of a head. */
MSI_HD uint32_t msi_wproj_pack_cell(int32_t u, int32_t v)
{
    return (uint32_t)v << 16 | (uint32_t)u;
}

MSI_HD uint32_t msi_wproj_pack_kernel(int32_t plane, int32_t sub_u_index, int32_t sub_v_index, int32_t conjugate)
{
    return (uint32_t)plane | (uint32_t)sub_u_index << 16 | (uint32_t)sub_v_index << 23 | (uint32_t)conjugate << 30;
}

/* msi_wproj_head_u, .._v, .._plane, .._sub_u, .._sub_v, .._conjugate - unpack a part of a head's words. */
MSI_HD int32_t msi_wproj_head_u(uint32_t cell)
{
    return (int32_t)(cell & 0xffff);
}

MSI_HD int32_t msi_wproj_head_v(uint32_t cell)
{
    return (int32_t)(cell >> 16);
}

MSI_HD int32_t msi_wproj_head_plane(uint32_t kernel)
{
    return (int32_t)(kernel & 0xffff);
}

/* Sub-offsets from 0 to oversample. */
MSI_HD int32_t msi_wproj_head_sub_u(uint32_t kernel)
{
    return (int32_t)(kernel >> 16 & 127);
}

MSI_HD int32_t msi_wproj_head_sub_v(uint32_t kernel)
{
    return (int32_t)(kernel >> 23 & 127);
}

MSI_HD int32_t msi_wproj_head_conjugate(uint32_t kernel)
{
    return (int32_t)(kernel >> 30 & 1);
}

/*
 * Samples of one image plane in a regular array, with float32 coordinates in wavelengths. Time t of series s is sample
 * s series_step + t time_step.
 */
typedef struct msi_wproj_samples_f32 {
    int64_t n_series, n_time, series_step, time_step;
    const float *u, *v, *w, *weight;
    const msi_c32 *vis;
    float scale_u, scale_v;     /* cells per wavelength */
    int32_t origin_u, origin_v; /* added to cells to get their places in the box */
    float plane_scale;          /* plane = round(sqrt(|w| plane_scale)); w > 0 takes the conjugate kernel */
    int32_t n_plane, oversample;
} msi_wproj_samples_f32;

/* A batch of a store's samples. Samples whose weight is 0 in every image are left out. */
typedef struct msi_wproj_samples {
    int64_t n; /* samples in all */
    int32_t n_rows;
    const msi_store_rows *rows; /* [n_rows] */
    const double *freq_hz;
    const double *uvw_m; /* [row][3] */
    const float *weight; /* [store plane][n]; NULL: every sample counts (for msi_wproj_extents only) */
    const void *vis;     /* [store plane][n] msi_c32 or msi_c64: the sorter's precision */
    int32_t n_image;
    int32_t store_plane[MSI_WPROJ_MAX_IMAGE]; /* -1: the PSF of plane 0, visibility 1 */
    int32_t wrapped; /* 1: coordinates beyond the uv plane are wrapped into it by whole periods */
} msi_wproj_samples;

/*
 * A bin has the samples of one class in one square of cells. A class has planes of similar half-support. The samples
 * that touch a tile are in the bins around the tile.
 */
enum { MSI_WPROJ_MAX_CLASS = 16 };

typedef struct msi_wproj_bins {
    int32_t n_class;
    int32_t class_half[MSI_WPROJ_MAX_CLASS]; /* largest half-support of the class, ascending */
    int32_t shift[MSI_WPROJ_MAX_CLASS];      /* bin edge 2^shift cells, so that few rows of bins surround a tile */
    int32_t n_bin_u[MSI_WPROJ_MAX_CLASS], n_bin_v[MSI_WPROJ_MAX_CLASS];
    int64_t first[MSI_WPROJ_MAX_CLASS]; /* first bin of the class; bins for conjugated kernels follow the others */
    int64_t n_bin;                      /* number of bins of all classes */
} msi_wproj_bins;

typedef struct msi_wproj_sorter_spec {
    int64_t capacity;    /* samples processed together, below 2^31; more are processed in several passes */
    int32_t nu, nv;      /* box */
    const int32_t *half; /* [n_plane] host */
    int32_t n_plane, oversample;
    int32_t n_image;
    msi_precision precision;
    int32_t linear;      /* 1: samples keep their full sub-offsets and are not merged: for kernels that are
                         * interpolated, or whose oversampling is too large for a head */
    int32_t least_shift; /* smallest shift of bins; 0: 3 */
} msi_wproj_sorter_spec;

typedef struct msi_wproj_sorter msi_wproj_sorter;

/* msi_wproj_sorter_bytes - return the bytes of device memory that a sorter takes. CUB takes about 3 % more. */
int64_t msi_wproj_sorter_bytes(const msi_wproj_sorter_spec *spec);

/*
 * msi_wproj_sorter_create - allocate all device memory that sorting needs.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives. spec->half is read now
 * Returned: *out, freed by msi_wproj_sorter_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (box, planes or samples too large for a head or an index)
 */
int msi_wproj_sorter_create(msi_wproj_sorter **out, const msi_gpu_stream *gpu, const msi_wproj_sorter_spec *spec);
void msi_wproj_sorter_free(msi_wproj_sorter *s);

/*
 * msi_wproj_locate_f32 - make the list of a regular array. Equal neighbours are merged in runs of up to `run` times,
 * and the list is in no particular order. If run is 1, the list has one entry per sample, in the samples' order.
 * Returns: 0, MSI_EGPU, MSI_EINTERNAL (merging in fp64)
 * Notes:   waits for the stream to get the number of entries, unless run is 1.
 */
int msi_wproj_locate_f32(msi_wproj_sorter *s, const msi_wproj_samples_f32 *samples, int32_t run);

/*
 * msi_wproj_locate - make the list of a store's samples of one slice, in no particular order.
 * Given:   geometry; origin_u, origin_v: the box's first cell in the geometry's unbounded plane of cells
 * Returns: 0, MSI_EGPU, MSI_EINTERNAL (images unlike the sorter's)
 * Notes:   waits for the stream. Every footprint of the slice must lie inside the box; msi_wproj_extents finds such a
 *          box.
 */
int msi_wproj_locate(msi_wproj_sorter *s, const msi_wproj_geometry *geometry, const msi_wproj_samples *samples,
                     int32_t slice, int32_t origin_u, int32_t origin_v);

/* The cells [u_low, u_high] x [v_low, v_high] of the unbounded plane that the footprints of n samples cover. */
typedef struct msi_wproj_box_extent {
    int32_t u_low, v_low, u_high, v_high;
    int64_t n; /* if 0, low is the largest and high the smallest number */
} msi_wproj_box_extent;

/* msi_wproj_empty_extent - return the extent of no samples, which msi_wproj_extents enlarges. */
static inline msi_wproj_box_extent msi_wproj_empty_extent(void)
{
    msi_wproj_box_extent e = {INT32_MAX, INT32_MAX, INT32_MIN, INT32_MIN, 0};
    return e;
}

/*
 * msi_wproj_extents - find the extent that each slice's samples cover.
 * Given:              gpu; half [n_plane], host
 * Given and returned: extent [geometry->n_slice], host: enlarged by these samples
 * Returns: 0, MSI_EGPU
 * Notes:   waits for the stream; allocates memory at each call.
 */
int msi_wproj_extents(const msi_gpu_stream *gpu, const msi_wproj_geometry *geometry, const int32_t *half,
                      const msi_wproj_samples *samples, msi_wproj_box_extent *extent);

/* The samples of the list, unsorted or sorted by bin. The memory belongs to the sorter. */
typedef struct msi_wproj_sorted {
    int64_t n;
    const msi_wproj_head *head; /* [n] */
    const void *value;          /* [n_image][stride] msi_c32 or msi_c64 */
    const void *frac;           /* [n][2] float or double: sub-offsets with fractions, 0 .. oversample; NULL: nearest */
    int64_t stride;
    int32_t n_image;
    msi_precision precision;
    const uint32_t *bin_start;     /* [bins.n_bin + 1]; NULL in the list */
    const uint32_t *largest_value; /* [n_image] bits of the largest |re| or |im|, float; NULL in the list */
    msi_wproj_bins bins;
} msi_wproj_sorted;

/* msi_wproj_list - return the unsorted list. */
void msi_wproj_list(const msi_wproj_sorter *s, msi_wproj_sorted *list);

/* msi_wproj_sort_bins - sort the list by bins. Returns: 0, MSI_EGPU */
int msi_wproj_sort_bins(msi_wproj_sorter *s, msi_wproj_sorted *sorted);

/*
 * msi_wproj_sort_kernels - sort the list by bins, and within bins by kernels. Merge samples of one cell and kernel.
 * Returns: 0, MSI_EGPU
 * Notes:   waits for the stream. A merged value is a sum of at most 32 values.
 */
int msi_wproj_sort_kernels(msi_wproj_sorter *s, msi_wproj_sorted *sorted);

#ifdef __cplusplus
}
#endif
#endif
