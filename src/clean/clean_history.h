/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Record how a deconvolution converged: a step for where it begins and for each cycle and scale; table and picture. */
#ifndef MSI_SRC_CLEAN_HISTORY_H
#define MSI_SRC_CLEAN_HISTORY_H

#include <stdint.h>

#include "io/fits/publish.h"

enum { MSI_CLEAN_WORD = 32 };

typedef struct msi_clean_step {
    char image[MSI_CLEAN_WORD]; /* which of those cleaned by themselves: "", or "t0001-0002-Q"; no comma or quote */
    int64_t major;              /* cycles made, this one included; 0: it begins */
    int64_t minor;              /* iterations up to here, of all cycles */
    double scale_pixel;         /* width of the scale; 0: points; NaN: none */
    double peak_jy, noise_jy;  /* of the exact residual after the cycle, Jy/beam; a peak stands in its last step, NaN in
                                   others */
    double flux_jy;            /* of the model, but for one that the run went on with */
    double seconds;            /* since the deconvolution began */
    char stop[MSI_CLEAN_WORD]; /* why the step ended; "": it is not the cycle's last */
} msi_clean_step;

typedef struct msi_clean_history {
    msi_clean_step *step; /* [n] owned */
    int64_t n, room;
} msi_clean_history;

/* msi_clean_history_add - copy a step; a zero-initialised history is empty. Returns: 0, MSI_ENOMEM */
int msi_clean_history_add(msi_clean_history *h, const msi_clean_step *step);

/* msi_clean_history_free - leave it empty; NULL is fine. */
void msi_clean_history_free(msi_clean_history *h);

/*
 * msi_clean_history_write - write output i of a plan as comma-separated values, up to and including msi_publish_seal:
 * a line of names, major,minor,scale,peak,noise,flux,seconds,stop,image, and a line for each step. What is not known is
 * empty.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_clean_history_write(msi_publish *p, int i, const msi_clean_history *h);

/*
 * msi_clean_history_draw - draw output i of a plan as a PNG, up to and including msi_publish_seal: peak and noise,
 * both logarithmic, and the flux of the model after each cycle: over iterations; of several images, each with curves
 * of its own and as many iterations as it takes, over cycles.
 * Given:   title  above it
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_clean_history_draw(msi_publish *p, int i, const msi_clean_history *h, const char *title);

#endif
