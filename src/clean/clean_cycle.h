/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Major cycles: components are found in the residuals, models subtracted from the visibilities, what is left imaged. */
#ifndef MSI_SRC_CLEAN_CYCLE_H
#define MSI_SRC_CLEAN_CYCLE_H

#include "src/clean/clean_field.h"
#include "src/clean/clean_history.h"

/* Cycles are told of this beside the field. Members may be NULL or zero. */
typedef struct msi_clean_cycle_spec {
    const char *label; /* begins a group's lines in the log, such as "channel 3"; "": nothing */
    const char *image; /* begins the name of its steps in the history, such as "0003" */
    double beam_pixel; /* for windows of local noise */
    const void *rms;   /* [ny][nx] of the planes' precision: local noise that is given, Jy/beam */
    msi_clean_history *history;
    int resumed;            /* the field goes on where it was when `cycle` was called for the last time */
    int (*first)(void *of); /* called when the first cycle's residual is there */
    int (*cycle)(void *of); /* called between cycles, when all is known of the last one */
    void *of;               /* handed to them */
} msi_clean_cycle_spec;

/*
 * msi_clean_cycles_run - clean until every group of the field has a reason to stop.
 *
 * Given and returned: field  with its cleaners, and with the residuals of its models, which need not be zero
 * Returns:  0, or any code of gridder and cleaner; MSI_EINTERRUPTED within minor iterations too
 * Notes:    residuals are exact when this returns: they are those of the models. A cycle after which a residual's peak
 *           is higher than before is taken back, and the next one goes half as far.
 */
int msi_clean_cycles_run(msi_clean_field *field, const msi_clean_cycle_spec *spec);

#endif
