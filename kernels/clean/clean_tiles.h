/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Searches for the best component of Taylor terms at several scales, tile by tile, for engines in host memory.
 *
 * The key of a scale at a pixel is the root of R^T H^-1 R, which is the length of the vector L^-1 R
 * (clean_multiscale.c). A component c of scale s changes the key of scale p by at most the length of L_s^T c times the
 * Frobenius norm of L_p^-1 A L_s^-T, where A has the PSFs convolved to both scales, at the distance of the pixel. So a
 * tile's largest key is at most the last computed one plus such products. Only tiles that may have the best pixel are
 * computed. For this, components that were found meanwhile are subtracted from the sums R_t of the tile and its
 * surroundings, and the sums are convolved with the scale's kernel.
 */
#ifndef MSI_CLEAN_TILES_H
#define MSI_CLEAN_TILES_H

#include "kernels/clean/clean_state.h"
#include "kernels/clean/clean_taylor.h"

/* The description of a scale. Images are in the engine's memory and precision. */
typedef struct msi_clean_tiles_scale {
    int used;
    int64_t half;             /* half width of the kernel in pixels */
    const double *kernel;     /* [2 half + 1][2 half + 1]; NULL at scale 0 */
    const void *kernel_wide;  /* its transform in c->wide; NULL at scale 0 */
    const void *rows_of_sums; /* L^-1 [n_term][n_term] */
    msi_clean_taylor_rows rows;
    double response[MSI_TAYLOR_MAX_NODE]; /* [n_channel] (P * K * K)(0) */
} msi_clean_tiles_scale;

typedef struct msi_clean_tiles msi_clean_tiles;

/* msi_clean_tiles_bytes - count the bytes that tiles allocate. Given: half  half width of the largest kernel; images
 * must be at least six times as wide */
int64_t msi_clean_tiles_bytes(const msi_cleaner *c, int64_t half);

/*
 * msi_clean_tiles_create - allocate tiles.
 * Given: sums  [n_term] images R_t, borrowed
 */
int msi_clean_tiles_create(msi_clean_tiles **out, const msi_cleaner *c, void *sums);
void msi_clean_tiles_free(msi_clean_tiles *t); /* NULL-safe */

/* msi_clean_tiles_set - set the description of a scale. The kernel is copied; other arrays are borrowed. */
int msi_clean_tiles_set(msi_clean_tiles *t, int scale, const msi_clean_tiles_scale *of);

/* msi_clean_tiles_respond - prepare for components of a scale: compute bounds of the changes of all keys. Transforms of
 * PSFs are in c->psf_hat; c->work is overwritten. */
int msi_clean_tiles_respond(msi_clean_tiles *t, int scale);

/* msi_clean_tiles_convolved - return the images R_t * K of a scale, [n_term]. msi_clean_tiles_key - return the image of
 * its keys. */
void *msi_clean_tiles_convolved(const msi_clean_tiles *t, int scale);
void *msi_clean_tiles_key(const msi_clean_tiles *t, int scale);

/* msi_clean_tiles_begin - start a new call with the keys in a scale's image. Given: allow  where the scale may be
 * found, copied; NULL: everywhere. Scale n_scale is the mean, whose image is R_0. */
void msi_clean_tiles_begin(msi_clean_tiles *t, int scale, const uint8_t *allow);

/* msi_clean_tiles_peak - find the largest key of a scale or of the mean. If it is not above `least`, the result may be
 * a bound. */
void msi_clean_tiles_peak(msi_clean_tiles *t, int scale, double least, msi_clean_peak *peak);

/* msi_clean_tiles_refresh - compute all keys of a scale that may be above `least`. */
void msi_clean_tiles_refresh(msi_clean_tiles *t, int scale, double least);

/* msi_clean_tiles_load - load the engine's list from the convolved sums of a scale. */
void msi_clean_tiles_load(const msi_clean_tiles *t, int scale);

/* msi_clean_tiles_take - take the components of the engine's list. Returns: 0 if there are too many */
int msi_clean_tiles_take(msi_clean_tiles *t, int scale);

/* msi_clean_tiles_restore - put all components of a scale taken so far into the engine's list. Returns: their number */
int64_t msi_clean_tiles_restore(const msi_clean_tiles *t, int scale);

/* msi_clean_tiles_applied - must be called when all components taken so far have been subtracted from the sums. */
void msi_clean_tiles_applied(msi_clean_tiles *t);

#endif
