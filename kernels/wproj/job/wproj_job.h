/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The job of every strategy of w-projection on the GPU: samples, their values, kernels, and a grid. */
#ifndef MSI_KERNELS_WPROJ_JOB_H
#define MSI_KERNELS_WPROJ_JOB_H

#include "core/types.h"
#include "kernels/wproj/job/wproj_geometry.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cell, position within the cell, and kernel of a sample. */
typedef struct msi_wproj_sample {
    int32_t u, v;         /* nearest cell, 0 is u = 0; footprints wrap round the grid */
    int16_t sub_u, sub_v; /* sub-offset, or the lower of two with frac; -oversample/2 .. oversample/2 */
    int16_t plane;
    int16_t conjugate;    /* 1: uses the conjugate of the plane's kernel */
    float frac_u, frac_v; /* weight of the next sub-offset; 0 for the nearest one */
} msi_wproj_sample;

/* The ways to read a weight from a table. Full tables support NEAREST only. TEXTURE needs fp32. */
typedef enum msi_wproj_lookup {
    MSI_WPROJ_NEAREST, /* nearest kernel to the sample's sub-offset */
    MSI_WPROJ_LINEAR,  /* interpolated between two sub-offsets by the sample's fractions */
    MSI_WPROJ_TEXTURE  /* interpolated by the texture unit, which distinguishes 256 fractions */
} msi_wproj_lookup;

/*
 * Convolution functions on the device: the tables of a msi_wkernel_set, or others. `taps` may be even or odd. Tap 0
 * belongs to cell - taps / 2.
 */
typedef struct msi_wproj_kernels {
    int full; /* 0: separable, rows of taps; 1: squares of taps */
    msi_wproj_lookup lookup;
    int32_t n_plane, oversample;
    int32_t max_taps;
    const int32_t *taps;     /* [n_plane] */
    const int64_t *offset_u; /* [n_plane] elements of table; full: offset_v is not read */
    const int64_t *offset_v;
    const void *table; /* msi_c32 or msi_c64 */
    /* TEXTURE: cudaTextureObject_t of [n_plane][..] pairs of floats; K(x) of a plane is element texture_middle +
     * x oversample. */
    uint64_t texture_u, texture_v;
    float texture_middle;
    const struct msi_window_operands *operands; /* operands of max_taps, for tensor cores; NULL: they are not used */
} msi_wproj_kernels;

/* The samples, kernels and grid of a gridding or degridding. Pointers are borrowed device memory; complex elements are
 * msi_c32 or msi_c64, according to precision. */
typedef struct msi_wproj_job {
    msi_precision precision;
    int32_t n_image; /* any number */
    int64_t nu, nv;
    int64_t n_vis;
    const msi_wproj_sample *sample; /* [n_vis] */
    void *value;                    /* [n_vis][n_image] complex */
    void *grid;                     /* [nv][nu][n_image] complex, cell 0 first */
    msi_wproj_kernels kernels;
} msi_wproj_job;

/*
 * A grid in device memory: [nv][nu][n_image] msi_c32 or msi_c64. Cell (u, v) of the unbounded plane is element (v mod
 * nv, u mod nu), so a trimmed grid may be as small as the box that contains all footprints.
 */
typedef struct msi_wproj_grid {
    int64_t nu, nv;
    void *cells; /* borrowed */
} msi_wproj_grid;

#ifdef __cplusplus
}
#endif
#endif
