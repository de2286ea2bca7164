/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Major cycles: find components in the residuals, subtract the models from the visibilities, image the remainder.
 * A group is judged after each cycle: it continues, its last cycle is undone, or it stops.
 */
#ifndef MSI_CLEAN_CYCLE_H
#define MSI_CLEAN_CYCLE_H

#include "src/clean/clean_field.h"
#include "src/clean/clean_history.h"

/* The input of the cycles next to the field. Members may be NULL or zero. */
typedef struct msi_clean_cycle_spec {
    const char *label; /* begins the log lines of a group, such as "channel 3"; "": no label */
    const char *image; /* begins the image name of steps in the history, such as "0003" */
    double beam_pixel; /* for windows of local noise */
    const void *rms;   /* [ny][nx] in the precision of the planes: local noise given by the user, Jy/beam */
    msi_clean_history *history;
    int resumed;              /* the field is in the state of its last checkpoint */
    int (*first)(void *user); /* called when the residual of the first cycle is made */
    int (*cycle)(void *user); /* called between cycles, after the groups were judged */
    void *user;               /* argument of these two */
} msi_clean_cycle_spec;

/*
 * msi_clean_cycles_run - clean until every group of the field has a reason to stop.
 *
 * Given and returned: field  with its cleaners, and with the residuals of its models, which may be non-zero
 * Returns:  0, or any code of gridder and cleaner; MSI_EINTERRUPTED within minor iterations too
 * Notes:    on return the residuals are exactly those of the models, except with -skip-final-iteration. A cycle that
 *           raises the peak of a residual is undone, and the next one cleans half as deep.
 */
int msi_clean_cycles_run(msi_clean_field *field, const msi_clean_cycle_spec *spec);

/*
 * msi_clean_judge - judge a group whose residual is exact.
 * Given:    peak  of the residual, Jy/beam, with its sign; NaN if there is none
 * Given and returned: group  noise and threshold are set from this residual; stop is set if cleaning ends
 * Returns:  1 if the last cycle made the residual worse and must be undone, otherwise 0
 */
int msi_clean_judge(msi_clean_group *group, const msi_clean_options *options, double peak);

/*
 * msi_clean_last_cycle - return why cleaning ends with the minor iterations of the last cycle, as far as that is known
 * before the exact residual; NULL: it may continue.
 */
const char *msi_clean_last_cycle(const msi_clean_group *group, const msi_clean_options *options);

/*
 * msi_clean_cycles_left - estimate how many major cycles a group still needs. The peak is assumed to fall in each cycle
 * by the same factor as in the last one; before the first cycle, or after an undone one, by that of -mgain.
 * Given:   group      judged by its exact residual
 *          threshold  Jy/beam at which cleaning ends, even if -auto-mask is not reached yet; 0: none
 * Returns: 0 if the group has stopped; otherwise at least 1 and at most what -nmiter and -niter allow; INFINITY if
 *          there is no limit
 */
double msi_clean_cycles_left(const msi_clean_group *group, const msi_clean_options *options, double threshold);

/* msi_clean_report_end - log for each group why it stopped, and its final peak, flux and noise. */
void msi_clean_report_end(const char *label, const msi_clean_field *field);

#endif
