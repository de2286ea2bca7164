/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pictures of curves over a common axis, in panels below each other. */
#ifndef MSI_IO_PICTURE_CURVES_H
#define MSI_IO_PICTURE_CURVES_H

#include <stdint.h>

#include "io/fits/publish.h"

/* One curve. Colours repeat after six. */
typedef struct msi_picture_curve {
    const char *name; /* in the legend; "": not listed */
    int panel, colour, dashed;
    const double *x, *y; /* [n]; the curve has a gap if y is not finite, or not positive on a logarithmic axis */
    int64_t n;
} msi_picture_curve;

enum { MSI_CURVE_PANELS = 2 };

/* Everything is borrowed for the call. */
typedef struct msi_picture_curves {
    const char *title, *x_title;
    struct {
        const char *title; /* NULL: there is no such panel, nor any after it */
        int logarithmic;
    } panel[MSI_CURVE_PANELS];
    const msi_picture_curve *curve; /* [n_curve] */
    int64_t n_curve;
} msi_picture_curves;

/*
 * msi_picture_curves_draw - draw output i of a plan as a PNG, up to and including msi_publish_seal.
 * Returns: as msi_picture_apart
 */
int msi_picture_curves_draw(msi_publish *p, int i, const msi_picture_curves *c);

#endif
