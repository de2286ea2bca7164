/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sorting of samples for the degridders gather and scatter: by tile of the footprint, then by kernel. The sorter also
 * stores where the samples of each tile begin.
 */
#ifndef MSI_KERNELS_POINTS_SORT_CUDA_H
#define MSI_KERNELS_POINTS_SORT_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_WPROJ_POINTS_MAX_CLASS = 16 };

/*
 * A class has planes with kernels of similar width. Its samples are sorted as if all kernels had `taps` taps. The first
 * cell of a sample is cell - taps / 2, wrapped to 0 .. n - 1. Tile (tu, tv) has the samples whose first cells are in
 * [tu tile_u, (tu + 1) tile_u) x [tv tile_v, (tv + 1) tile_v).
 */
typedef struct msi_wproj_points_class {
    int32_t taps;
    int32_t tile_u, tile_v;
    int32_t n_tile_u, n_tile_v;
    int32_t first_tile; /* index of the class's first tile; the tiles of all classes are numbered together */
} msi_wproj_points_class;

typedef struct msi_wproj_points_classes {
    int32_t n_class, n_tile;
    int32_t nu, nv;
    msi_wproj_points_class of[MSI_WPROJ_POINTS_MAX_CLASS];
} msi_wproj_points_classes;

/* msi_wproj_points_kernel - return the index of the kernel's square in its set. The top bit is set if the sample uses
 * the conjugate. */
MSI_HD uint32_t msi_wproj_points_kernel(const msi_wproj_sample *s, int32_t oversample)
{
    uint32_t squares = (uint32_t)(oversample + 1);
    uint32_t at = ((uint32_t)s->plane * squares + (uint32_t)(s->sub_u + oversample / 2)) * squares;
    return (at + (uint32_t)(s->sub_v + oversample / 2)) | (s->conjugate ? 0x80000000u : 0u);
}

/* msi_wproj_points_wrap - return x mod n, in 0 .. n - 1. */
MSI_HD int32_t msi_wproj_points_wrap(int32_t x, int32_t n)
{
    /* Division is slow, and rarely needed. */
    x += x < 0 ? n : 0;
    x -= x >= n ? n : 0;
    if (x >= 0 && x < n) return x;
    int32_t r = x % n;
    return r < 0 ? r + n : r;
}

typedef struct msi_wproj_points_sorter msi_wproj_points_sorter;

/*
 * msi_wproj_points_sorter_create - divide planes into classes, and allocate device memory for job->n_vis samples.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives, and all work is queued on it
 *           job: nu, nv, n_vis and kernels (full); the kernels' arrays are read now
 * Returned: *out, freed by msi_wproj_points_sorter_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (kernels wider than the grid, or too many; 2^31 samples or more)
 * Notes:    waits for the stream.
 */
int msi_wproj_points_sorter_create(msi_wproj_points_sorter **out, const msi_gpu_stream *gpu, const msi_wproj_job *job);
void msi_wproj_points_sorter_free(msi_wproj_points_sorter *s);

/* msi_wproj_points_sorter_classes - return the classes, of which the caller sets tile_u and tile_v.
 * msi_wproj_points_sorter_tiles - number the tiles of these classes and allocate memory for them. Returns: 0, MSI_EGPU,
 * MSI_ERANGE */
msi_wproj_points_classes *msi_wproj_points_sorter_classes(msi_wproj_points_sorter *s);
int msi_wproj_points_sorter_tiles(msi_wproj_points_sorter *s);

/* Samples index[first[t]] .. index[first[t + 1] - 1] belong to tile t. The arrays are device memory of the sorter. */
typedef struct msi_wproj_points_sorted {
    int64_t n;
    const uint32_t *index;   /* [n] */
    const uint32_t *first;   /* [n_tile + 1] */
    const uint8_t *class_of; /* [n_plane] */
} msi_wproj_points_sorted;

/*
 * msi_wproj_points_sort - order the job's samples.
 * Given:   job: samples and n_vis
 *          by_kernel: 1: sort by kernel within a tile. If tiles and kernels have more than 32 bits together, only the
 *          high bits of the kernel count
 * Returns: 0, MSI_EGPU, MSI_ERANGE (more samples than the sorter was made for)
 */
int msi_wproj_points_sort(msi_wproj_points_sorter *s, const msi_wproj_job *job, int by_kernel,
                          msi_wproj_points_sorted *sorted);

/* Samples of one tile that one block processes together. */
typedef struct msi_wproj_points_item {
    int32_t tile;
    uint32_t first, n;
} msi_wproj_points_item;

/*
 * msi_wproj_points_list_items - divide the samples of each tile into items of at most `most`, tile by tile.
 * Returned: items and *n_item, device memory that belongs to the sorter
 * Returns:  0, MSI_EGPU
 */
int msi_wproj_points_list_items(msi_wproj_points_sorter *s, const msi_wproj_points_sorted *sorted, int32_t most,
                                const msi_wproj_points_item **item, const uint32_t **n_item);

/* The data of a sample for a degridder: 16 bytes, which are read together. */
typedef struct msi_wproj_points_place {
    int32_t u, v;    /* its kernel's first cell, in 0 .. n - 1 */
    uint32_t kernel; /* msi_wproj_points_kernel */
    uint32_t index;
} msi_wproj_points_place;

/*
 * Strips of an image, for degridders that move down the strips. After its last row, a strip has its first rows once
 * more, so that no footprint reaches beyond its end. The rows of all strips are numbered strip after strip, and divided
 * into bins of `rows` rows.
 */
typedef struct msi_wproj_points_strips {
    int32_t width;  /* first cells of a strip's row, at most 2^MSI_WPROJ_POINTS_STRIP_U_BITS */
    int32_t height; /* rows of a strip, including the repeated ones; all strips together have fewer than 2^31 */
    int32_t rows;   /* rows of a bin, at most 2^MSI_WPROJ_POINTS_STRIP_ROW_BITS */
    int32_t n_bin;
} msi_wproj_points_strips;

enum {
    MSI_WPROJ_POINTS_STRIP_U_BITS = 9,
    MSI_WPROJ_POINTS_STRIP_ROW_BITS = 10,
    MSI_WPROJ_POINTS_STRIP_KERNEL_BITS = 12
};

/*
 * A sample of a bin: 8 bytes, which are read together. The word `at` has, from the lowest bit on, the footprint's first
 * column in the strip, its first row in the bin, and the index of msi_wproj_points_kernel. Its top bit is 1 if the
 * sample uses the conjugate kernel.
 */
typedef struct msi_wproj_points_strip_place {
    uint32_t at;
    uint32_t index;
} msi_wproj_points_strip_place;

/* The placed samples are device memory of the sorter. */
typedef struct msi_wproj_points_placed {
    const msi_wproj_points_place *place;             /* [job->n_vis], or NULL: by strip */
    const msi_wproj_points_strip_place *strip_place; /* [job->n_vis], or NULL: by tile */
    const msi_wproj_points_item *item; /* items of at most `most` places each, tile by tile or bin by bin */
    const uint32_t *n_item;
} msi_wproj_points_placed;

/*
 * msi_wproj_points_sort_places - sort the job's samples by tile, in any order within a tile. If one block for each
 * multiprocessor can hold all samples (a million on a large GPU), one kernel sorts them and reads them once. Otherwise
 * they are read twice.
 * Given:    at most MSI_WPROJ_POINTS_MAX_PLACE_TILES tiles; most: samples of an item
 * Returned: *placed; the result of msi_wproj_points_sort becomes invalid
 * Returns:  0, MSI_EGPU, MSI_ERANGE (more samples than the sorter was made for, too many tiles)
 */
enum { MSI_WPROJ_POINTS_MAX_PLACE_TILES = 1024 };
int msi_wproj_points_sort_places(msi_wproj_points_sorter *s, const msi_wproj_job *job, int32_t most,
                                 msi_wproj_points_placed *placed);

/*
 * msi_wproj_points_sort_strips - sort the job's samples by bin. An item's tile is the index of its bin. If the next
 * kernel on the stream is launched with programmatic stream serialization, it may begin before this sort ends.
 * Given: kernels of one plane, fewer than 2^MSI_WPROJ_POINTS_STRIP_KERNEL_BITS
 *        at most MSI_WPROJ_POINTS_MAX_PLACE_TILES bins
 */
int msi_wproj_points_sort_strips(msi_wproj_points_sorter *s, const msi_wproj_job *job,
                                 const msi_wproj_points_strips *strips, int32_t most, msi_wproj_points_placed *placed);

#ifdef __cplusplus
}
#endif
#endif
