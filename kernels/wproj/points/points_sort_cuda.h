/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sort of samples for degridding by points: by tile of their footprints, then by kernel. The beginning of every tile's
 * samples is stored.
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
 * A class has planes of similar width. Its samples are sorted as if all had `taps` taps: tile (tu, tv) holds those
 * whose first cell, cell - taps / 2 in 0 .. n - 1, lies in tu tile_u .. and tv tile_v ..
 */
typedef struct msi_wproj_points_class {
    int32_t taps;
    int32_t tile_u, tile_v;
    int32_t n_tile_u, n_tile_v;
    int32_t first_tile; /* tiles of all classes are numbered through */
} msi_wproj_points_class;

typedef struct msi_wproj_points_classes {
    int32_t n_class, n_tile;
    int32_t nu, nv;
    msi_wproj_points_class of[MSI_WPROJ_POINTS_MAX_CLASS];
} msi_wproj_points_classes;

/* msi_wproj_points_kernel - return the number of the kernel's square in its set, with the top bit set if the sample
 * conjugates it. */
MSI_HD uint32_t msi_wproj_points_kernel(const msi_wproj_sample *s, int32_t oversample)
{
    uint32_t squares = (uint32_t)(oversample + 1);
    uint32_t at = ((uint32_t)s->plane * squares + (uint32_t)(s->sub_u + oversample / 2)) * squares;
    return (at + (uint32_t)(s->sub_v + oversample / 2)) | (s->conjugate ? 0x80000000u : 0u);
}

/* msi_wproj_points_wrap - x in 0 .. n - 1. */
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
 * msi_wproj_points_sorter_create - make classes of planes, and device memory for n samples.
 * Given:    gpu: copied; its stream is borrowed as long as *out lives, and all work is put into it
 *           job: nu, nv, n_vis and kernels (full); the kernels' arrays are read now
 * Returned: *out, freed by msi_wproj_points_sorter_free
 * Returns:  0, MSI_EGPU, MSI_ERANGE (kernels wider than the grid, or too many; 2^31 samples or more)
 * Notes:    waits for the stream.
 */
int msi_wproj_points_sorter_create(msi_wproj_points_sorter **out, const msi_gpu_stream *gpu, const msi_wproj_job *job);
void msi_wproj_points_sorter_free(msi_wproj_points_sorter *s);

/* msi_wproj_points_sorter_classes - the classes; tile_u and tile_v are the caller's to set,
 * msi_wproj_points_sorter_tiles then numbers the tiles and allocates memory for them. Returns: 0, MSI_EGPU, MSI_ERANGE */
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
 *          by_kernel: 1 to put equal kernels side by side within a tile (neighbours may be unlike all the same where
 *          tiles and kernels are more than 32 bits can number)
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
 * msi_wproj_points_list_items - cut every tile's samples into pieces of at most `most`, tile by tile.
 * Returned: items and *n_item, device memory that belongs to the sorter
 * Returns:  0, MSI_EGPU
 */
int msi_wproj_points_list_items(msi_wproj_points_sorter *s, const msi_wproj_points_sorted *sorted, int32_t most,
                                const msi_wproj_points_item **item, const uint32_t **n_item);

/* The data of a sample for a degridder, in 16 bytes, read together. */
typedef struct msi_wproj_points_place {
    int32_t u, v;    /* its kernel's first cell, in 0 .. n - 1 */
    uint32_t kernel; /* msi_wproj_points_kernel */
    uint32_t index;
} msi_wproj_points_place;

/*
 * Strips of an image, for degridders that move down them. A strip's rows, and its first ones once more so that no
 * footprint reaches beyond them, are followed by the next strip's, all in one line that is cut into bins of `rows`.
 */
typedef struct msi_wproj_points_strips {
    int32_t width;  /* first cells of a strip's row, at most 2^MSI_WPROJ_POINTS_STRIP_U_BITS */
    int32_t height; /* rows of a strip with those that come again; rows of all strips are fewer than 2^31 */
    int32_t rows;   /* rows of a bin, at most 2^MSI_WPROJ_POINTS_STRIP_ROW_BITS */
    int32_t n_bin;
} msi_wproj_points_strips;

enum {
    MSI_WPROJ_POINTS_STRIP_U_BITS = 9,
    MSI_WPROJ_POINTS_STRIP_ROW_BITS = 10,
    MSI_WPROJ_POINTS_STRIP_KERNEL_BITS = 12
};

/*
 * A sample in its bin is 8 bytes, read at once. at: beginning with the lowest bit, its kernel's first column in the
 * strip, its first row in the bin, msi_wproj_points_kernel's number, and 1 in the top bit where the sample conjugates
 * the kernel.
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
 * msi_wproj_points_sort_places - order the job's samples tile by tile, in any order within a tile. What one block a
 * multiprocessor can hold at once (a million on a large GPU) is read once, by a kernel that counts, waits for all its
 * blocks, and puts the samples into their places; more are read twice.
 * Given:    at most MSI_WPROJ_POINTS_MAX_PLACE_TILES tiles; most: samples of an item
 * Returned: *placed; the result of msi_wproj_points_sort becomes invalid
 * Returns:  0, MSI_EGPU, MSI_ERANGE (more samples than the sorter was made for, too many tiles)
 */
enum { MSI_WPROJ_POINTS_MAX_PLACE_TILES = 1024 };
int msi_wproj_points_sort_places(msi_wproj_points_sorter *s, const msi_wproj_job *job, int32_t most,
                                 msi_wproj_points_placed *placed);

/*
 * msi_wproj_points_sort_strips - order them bin by bin; an item's tile is its bin's number. A kernel launched next into
 * the stream with leave to overlap the one before may begin while this sort is at work.
 * Given: kernels of one plane, fewer than 2^MSI_WPROJ_POINTS_STRIP_KERNEL_BITS
 *        at most MSI_WPROJ_POINTS_MAX_PLACE_TILES bins
 */
int msi_wproj_points_sort_strips(msi_wproj_points_sorter *s, const msi_wproj_job *job,
                                 const msi_wproj_points_strips *strips, int32_t most, msi_wproj_points_placed *placed);

#ifdef __cplusplus
}
#endif
#endif
