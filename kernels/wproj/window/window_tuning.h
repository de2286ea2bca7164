/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Find the fastest of the moving window's shapes on this machine: measure a few a run, and remember them in the
 * user's cache folder. */
#ifndef MSI_KERNELS_WINDOW_TUNING_H
#define MSI_KERNELS_WINDOW_TUNING_H

#include "kernels/wproj/window/wproj_window_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A case is what a shape is chosen for. */
typedef struct msi_window_case {
    const char *device; /* its name */
    int degrid;
    msi_precision precision;
    int n_image, full;
    msi_wproj_lookup lookup;
    int32_t taps;
} msi_window_case;

/* A time function measures the milliseconds that a shape takes. Returns 0, or a code of core/status.h. */
typedef int (*msi_window_time_fn)(void *context, const msi_window_shape *shape, double *ms);

/* Trials say which shapes there are and how they may be measured. */
typedef struct msi_window_trials {
    const msi_window_shape *candidate; /* [n], their n_vis left open */
    int n;                             /* 1 .. MSI_WINDOW_MAX_SHAPES */
    int64_t n_timing;                  /* calls of time that may be made; fewer than 2 measure nothing */
    msi_window_time_fn time;
    void *context;    /* of time */
    const char *path; /* of the cache; NULL: window-tuning in $XDG_CACHE_HOME/msimage or ~/.cache/msimage */
} msi_window_trials;

/*
 * msi_window_tuning_choose - choose the shape of a case, better known from call to call: the one in the cache, or a
 * guess, against which untried candidates are measured, the most promising first, and then sizes of work groups, until
 * all are tried or n_timing is used up. How far it came goes into the cache, and the next call goes on from there.
 *
 * Given:    trials  borrowed for the call
 * Returned: *shape, one of the candidates with n_vis set
 * Returns:  0, what `time` returned
 * Notes:    a cache that cannot be read or written, lines in it that mean nothing and shapes that are no longer
 *           compiled in are as good as none. Processes may share the file: it is replaced in one step.
 */
int msi_window_tuning_choose(msi_window_shape *shape, const msi_window_case *problem, const msi_window_trials *trials);

/* msi_window_tuning_is_candidate - return 1 where a shape is one that msi_window_tuning_choose might return. */
int msi_window_tuning_is_candidate(const msi_window_shape *shape, const msi_window_shape *candidate, int n);

/* msi_window_tuning_estimate - the shape that takes the fewest instructions, or the first of equals. */
msi_window_shape msi_window_tuning_estimate(const msi_window_case *problem, const msi_window_shape *candidate, int n);

#ifdef __cplusplus
}
#endif
#endif
