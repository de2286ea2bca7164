/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Major cycles: components are found in the residuals, models subtracted from the visibilities, what is left imaged. */
#ifndef MSI_SRC_CLEAN_CYCLE_H
#define MSI_SRC_CLEAN_CYCLE_H

#include "src/clean/clean_field.h"

/* What cycles are told of beside the field. Members may be NULL or zero. */
typedef struct msi_clean_cycle_spec {
    const char *what;       /* begins a group's lines in the log, such as "channel 3"; "": nothing */
    double beam_pixel;      /* for windows of local noise */
    int (*first)(void *of); /* called when the first cycle's residual is there */
    void *of;
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
