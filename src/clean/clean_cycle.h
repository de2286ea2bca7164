/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Major cycles: components are found in the residuals, models subtracted from the visibilities, what is left imaged. */
#ifndef MSI_CLEAN_CYCLE_H
#define MSI_CLEAN_CYCLE_H

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

/* Decide when a group's cleaning goes on, goes back, or ends. */

/*
 * msi_clean_judge - decide about a group whose residual is exact.
 * Given:    peak  of the residual, Jy/beam, with its sign; NaN where there is none
 * Given and returned: group  its noise and thresholds are those of this residual; stop is set where it ends
 * Returns:  1 where the last cycle made things worse and is to be taken back
 */
int msi_clean_judge(msi_clean_group *group, const msi_clean_options *options, double peak);

/* msi_clean_judge_minor - the same right after minor iterations, before a residual is made. Returns: as above */
int msi_clean_judge_minor(msi_clean_group *group);

/* msi_clean_final - tell whether the group's threshold is the one at which it ends, or -auto-mask's. */
int msi_clean_is_final(const msi_clean_group *group, const msi_clean_options *options);

/* Foresee how much of cleaning is left, by the decay of the residual's peak. */

/*
 * msi_clean_cycles_left - foresee a group's major cycles yet to come, if its peak falls in each as in the last one;
 * before the first one, or after one that was taken back, as -mgain asks for.
 * Given:   group      judged by its exact residual
 *          threshold  Jy/beam at which it ends, -auto-mask reached or not; 0: none
 * Returns: 0 where it has stopped, else at least 1, and no more than -nmiter and -niter leave; INFINITY where nothing
 *          limits them
 */
double msi_clean_cycles_left(const msi_clean_group *group, const msi_clean_options *options, double threshold);

/* Write what deconvolution says in the log. */

/* msi_clean_report_end - log a line for each group: why it ended, and what it came to. */
void msi_clean_report_end(const char *label, const msi_clean_field *field);

#endif
