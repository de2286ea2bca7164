/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Loops of cleaning on the CPU, compiled once for each instruction set and chosen at run time. */
#ifndef MSI_CLEAN_SIMD_H
#define MSI_CLEAN_SIMD_H

#include "kernels/clean/clean_pixel.h"

/* The best pixel found so far; key 0: none. */
typedef struct msi_clean_best {
    double key, value;
    int64_t at; /* position in the list, or along the row */
} msi_clean_best;

/* A step on a list: subtract a component at `place`. The value of pixel i in plane k is residual[k list_stride + i]. */
typedef struct msi_clean_list_step {
    const msi_clean_join *join;
    const void *share;
    const uint32_t *list;
    void *residual;
    int64_t list_stride;
    const void *factor;      /* [list_stride], NULL without */
    const void *psf;         /* [n_channel][ny][nx] */
    const void *interleaved; /* the same, [ny][nx][n_channel]; NULL: psf is read */
    int64_t nx, ny;
    uint32_t place;
    const void *component; /* [n_plane]; NULL: only find the best pixel */
} msi_clean_list_step;

/* A step on a piece of a row of images. */
typedef struct msi_clean_row_step {
    const msi_clean_join *join;
    const void *share;
    void *residual; /* its first pixel in the first plane */
    int64_t stride;
    const void *psf; /* the PSF's pixel that falls on it, of the first channel; NULL: nothing is subtracted */
    int64_t psf_stride;
    const void *component;
    const uint8_t *allow; /* mask at its first pixel; NULL: everywhere */
    const void *factor;   /* factor at its first pixel; NULL: none */
} msi_clean_row_step;

/* Weighted sums along lines of an image: out[i] = sum over k of weight[|k|] line[i + k step], k from -before to after in
 * this order. */
typedef struct msi_clean_weigh_step {
    const void *line; /* its first pixel */
    int64_t step, before, after;
    const void *weight;
    void *out;
} msi_clean_weigh_step;

/* A pass over pixels in a row: out = factor times `from`, added to out if `add`. */
typedef struct msi_clean_put_step {
    const void *from;
    double factor;
    int add;
    void *out;
} msi_clean_put_step;

/* The functions of one instruction set. join computes the joined quantities of pixels, times the step's factor. list and
 * search return the best of pixels first .. end - 1 after the step;
 * of equal ones the first. */
typedef struct msi_clean_simd_table {
    void (*list_f32)(const msi_clean_list_step *step, int64_t first, int64_t end, msi_clean_best *best);
    void (*list_f64)(const msi_clean_list_step *step, int64_t first, int64_t end, msi_clean_best *best);
    void (*subtract_f32)(const msi_clean_row_step *step, int64_t n);
    void (*subtract_f64)(const msi_clean_row_step *step, int64_t n);
    void (*search_f32)(const msi_clean_row_step *step, int64_t n, msi_clean_best *best);
    void (*search_f64)(const msi_clean_row_step *step, int64_t n, msi_clean_best *best);
    void (*join_f32)(const msi_clean_row_step *step, int64_t n, void *quantity);
    void (*join_f64)(const msi_clean_row_step *step, int64_t n, void *quantity);
    void (*put_f32)(const msi_clean_put_step *step, int64_t n);
    void (*put_f64)(const msi_clean_put_step *step, int64_t n);
    void (*weigh_f32)(const msi_clean_weigh_step *step, int64_t n);
    void (*weigh_f64)(const msi_clean_weigh_step *step, int64_t n);
} msi_clean_simd_table;

#endif
