/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The record of how a deconvolution converged: a step for its start and one for each cycle and scale. It is written as
 * a table and drawn as a picture. */
#ifndef MSI_SRC_CLEAN_HISTORY_H
#define MSI_SRC_CLEAN_HISTORY_H

#include <stdint.h>

#include "io/fits/publish.h"

enum { MSI_CLEAN_WORD = 32 };

typedef struct msi_clean_step {
    char image[MSI_CLEAN_WORD]; /* the separately cleaned image: "", or such as "t0001-0002-Q"; no comma or quote */
    int64_t major;              /* cycles made, this one included; 0: the start */
    int64_t minor;              /* iterations of all cycles so far */
    double scale_pixel;         /* width of the scale; 0: points; NaN: none */
    double peak_jy,
        noise_jy; /* peak and noise of the exact residual after the cycle, Jy/beam; the peak is NaN in all but the last
                                  step of a cycle */
    double flux_jy;            /* flux of the model, without that of a model with which the run began */
    double seconds;            /* since the deconvolution began */
    char stop[MSI_CLEAN_WORD]; /* why minor iterations ended; "": not the last step of the cycle */
} msi_clean_step;

typedef struct msi_clean_history {
    msi_clean_step *step; /* [n] owned */
    int64_t n, capacity;
} msi_clean_history;

/* msi_clean_history_add - append a copy of a step; a zero-initialised history is empty. Returns: 0, MSI_ENOMEM */
int msi_clean_history_add(msi_clean_history *h, const msi_clean_step *step);

/* msi_clean_history_free - empty a history; NULL is fine. */
void msi_clean_history_free(msi_clean_history *h);

/*
 * msi_clean_history_write - write output i of a plan as comma-separated values, up to and including msi_publish_seal:
 * a line of names, major,minor,scale,peak,noise,flux,seconds,stop,image, and a line for each step. Unknown values are
 * empty.
 * Returns: 0, MSI_EOUTPUT
 */
int msi_clean_history_write(msi_publish *p, int i, const msi_clean_history *h);

/*
 * msi_clean_history_draw - draw output i of a plan as a PNG, up to and including msi_publish_seal. The curves are peak
 * and noise, both logarithmic, and the flux of the model after each cycle. The x axis counts iterations. Several images
 * have separate curves, and the x axis counts cycles.
 * Given:   title  above the picture
 * Returns: 0, also if memory was short: then there is a warning, and the output is dropped; MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_clean_history_draw(msi_publish *p, int i, const msi_clean_history *h, const char *title);

#endif
