/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sorting of samples for the moving window. Samples that are close together on the grid become neighbours in memory.
 *
 * A Measurement Set is ordered by time. Neighbours then belong to different baselines, and are far apart on the grid.
 * Here samples are sorted by the size of their kernels, because a launch uses one window that is as wide as the widest
 * kernel. Then they are sorted by blocks of cells, row by row. Within a block, the samples of a baseline keep their
 * order in time. So the window moves by a few cells at a time, and visits each block only once.
 */
#ifndef MSI_WPROJ_WINDOW_GRIDDER_CUDA_H
#define MSI_WPROJ_WINDOW_GRIDDER_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/method/gridder_spec.h"
#include "kernels/store/vis_store.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_WINDOW_MAX_CLASS = 8, MSI_WINDOW_MAX_IMAGES = MSI_GRIDDER_MAX_PLANES };

/* Visibilities in device memory, of one spectral setup (see msi_vis_segment) or of several, one after the other. All
 * pointers are borrowed. */
typedef struct msi_window_block {
    int64_t n_row; /* number of rows of the one setup */
    int32_t n_chan;
    int64_t plane_stride;       /* samples from one plane to the next: at least n_row n_chan; several setups: all */
    const double *freq_hz;      /* [n_chan], or as in rows */
    const double *uvw_m;        /* [n_row][3] */
    const float *weight;        /* [n_plane][n_row][n_chan]; NULL: predict, every sample counts */
    void *vis;                  /* [n_plane][n_row][n_chan] msi_c32 or msi_c64 */
    int32_t n_rows;             /* setups; 0: the one that n_row and n_chan describe */
    const msi_store_rows *rows; /* [n_rows] device memory */
} msi_window_block;

/* The sorted samples of one slice of w, in device memory that belongs to the order. */
typedef struct msi_window_ordered {
    int32_t n_class;
    int32_t taps[MSI_WINDOW_MAX_CLASS];      /* widest kernel of the class */
    int64_t first[MSI_WINDOW_MAX_CLASS + 1]; /* class c has samples first[c] .. first[c + 1] - 1 */
    const msi_wproj_sample *sample;
    void *value; /* [n][n_image] complex: weighted and rotated, or space for degridded values */
} msi_window_ordered;

typedef struct msi_window_order msi_window_order;

/*
 * msi_window_order_create - allocate device memory for up to `capacity` samples of a slice.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 *           geometry: copied; half [geometry->n_plane], host: not used after the call
 * Returned: *out, freed by msi_window_order_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (2^31 samples or more, too many images)
 */
int msi_window_order_create(msi_window_order **out, const msi_gpu_stream *gpu, int64_t capacity,
                            const msi_wproj_geometry *geometry, const int32_t *half, msi_precision precision,
                            int n_image);
void msi_window_order_free(msi_window_order *o);

/* msi_window_order_bytes - return the bytes of device memory that msi_window_order_create takes. */
int64_t msi_window_order_bytes(int64_t capacity, msi_precision precision, int n_image);

/*
 * msi_window_order_take - sort a block's samples of a slice. Samples without weight in all planes are left out.
 *
 * Given:    image_plane [n_image] host: the block's plane of each image, -1: the PSF, with plane 0's weights
 * Returned: *ordered, valid until the next call
 * Returns:  0, MSI_EGPU, MSI_ERANGE (more samples than the capacity, 2^31 in the block or more)
 * Notes:    waits for the stream to get the number of samples. If block->weight is NULL, values are not set.
 */
int msi_window_order_take(msi_window_order *o, const msi_window_block *block, const int32_t *image_plane, int32_t slice,
                          msi_window_ordered *ordered);

/* msi_window_order_give - copy the degridded values of the last sorted samples to the block's visibilities. Image p is
 * copied to plane p. Returns: 0, MSI_EGPU */
int msi_window_order_give(msi_window_order *o, const msi_window_block *block, int32_t slice);

/*
 * The strategy "window" on a GPU grids blocks of visibilities onto a grid in device memory, and degrids them from it.
 * It sorts samples by the size of their kernels and by cells, and uses the shape that tuning has chosen for each size.
 * A gridder works on the device and the stream that it was made with.
 */

/* The specification of a gridder. Pointers are borrowed for the call. A table in device memory is borrowed as long as
 * the gridder exists. */
typedef struct msi_window_gridder_spec {
    const msi_wproj_geometry *geometry;
    const msi_wkernel_set
        *kernels;       /* kernels of the geometry's planes, of either form; values and grid have their precision */
    int n_image;        /* image planes gridded together */
    int64_t capacity;   /* most samples of a slice */
    int64_t n_expected; /* number of samples to expect. Unknown shapes are measured for at most a twentieth of the time
                           that these samples take; 0: nothing is measured */
    int textures;       /* 1: interpolate by texture units; needs separable kernels, fp32 and geometry->linear */
} msi_window_gridder_spec;

typedef struct msi_window_gridder msi_window_gridder;

/*
 * msi_window_gridder_create - copy kernels to the device, and allocate memory for up to spec->capacity samples of a
 * slice.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives
 * Returned: *out, freed by msi_window_gridder_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (an unsupported interpolation of the kernels; too many samples or images),
 *           MSI_ENOMEM
 */
int msi_window_gridder_create(msi_window_gridder **out, const msi_gpu_stream *gpu, const msi_window_gridder_spec *spec);
void msi_window_gridder_free(msi_window_gridder *g);

/*
 * msi_window_gridder_add - add a block's samples of one slice of w to the grid, for all image planes.
 * Given:   image_plane [n_image] host: the block's plane of each image, -1: the PSF
 * Returns: 0, MSI_EGPU, MSI_ERANGE (kernels wider than the grid, more samples than the capacity)
 * Notes:   waits for the stream once. Returns before the additions are complete.
 */
int msi_window_gridder_add(msi_window_gridder *g, const msi_window_block *block, const int32_t *image_plane,
                           int32_t slice, const msi_wproj_grid *grid);

/*
 * msi_window_gridder_predict - predict the visibilities of a block's samples of one slice from a grid, which was
 * transformed with exp(+2 pi i ...). This is the transpose of msi_window_gridder_add. block->weight must be NULL. Image
 * p gives plane p.
 * Returns: as msi_window_gridder_add
 */
int msi_window_gridder_predict(msi_window_gridder *g, const msi_window_block *block, int32_t slice,
                               const msi_wproj_grid *grid);

#ifdef __cplusplus
}
#endif
#endif
