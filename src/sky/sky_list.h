/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of sources as WSClean writes them, and how a beam sees their sources. */
#ifndef MSI_SRC_SKY_LIST_H
#define MSI_SRC_SKY_LIST_H

#include <stdint.h>

#include "core/beam.h"
#include "core/image.h"
#include "io/fits/sky_wcs.h"

enum { MSI_SKY_TERMS = 16 };

/* A point, or a gaussian. */
typedef struct msi_sky_source {
    double ra_rad, dec_rad;
    double flux_jy; /* at reference_hz */
    int n_term, is_logarithmic;
    double term[MSI_SKY_TERMS]; /* [n_term] a_1 ..: of flux 10^(a_1 x + a_2 x^2 ..), x = log10(frequency / reference),
                                   or of flux + a_1 x + a_2 x^2 .., x = frequency / reference - 1 */
    double reference_hz;
    msi_beam shape; /* unknown: a point */
} msi_sky_source;

typedef struct msi_sky_list {
    msi_sky_source *source; /* [n] owned */
    int64_t n, room;
} msi_sky_list;

/*
 * msi_sky_list_read - read a list: a line "Format = .." or "# (..) = format", whose columns may stand in any order, and
 * a line for each source. Columns that are not known are left aside, and so are empty lines, comments and patches.
 * Returned: *list  emptied by msi_sky_list_free; empty on failure
 * Returns:  0, MSI_EINPUT (with the line's number), MSI_ENOMEM
 */
int msi_sky_list_read(msi_sky_list *list, const char *path);

/* msi_sky_list_free - leave it empty. */
void msi_sky_list_free(msi_sky_list *list);

/* The image that sources are drawn on. */
typedef struct msi_sky_canvas {
    msi_image_geometry geometry; /* columns run to the west, rows to the north */
    const msi_sky_wcs *wcs;
    double freq_hz, bandwidth_hz; /* 0: unknown */
    float *pixel;                 /* [ny][nx] added to */
} msi_sky_canvas;

/*
 * msi_sky_list_draw - add sources to an image in Jy/beam, each where it is, at any place within a pixel: gaussians
 * convolved with the beam, a point of 1 Jy with a peak of 1.
 * Given:    beam  known
 * Returned: *n_outside  sources that are not within the image
 * Returns:  0, MSI_EINPUT (a spectrum that leads to no flux), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_sky_list_draw(const msi_sky_list *list, const msi_beam *beam, const msi_sky_canvas *canvas, int64_t *n_outside);

#endif
