/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which of the moving window's shapes is fastest here: measured once, and remembered in the user's cache folder. */
#ifndef MSI_KERNELS_WINDOW_TUNING_H
#define MSI_KERNELS_WINDOW_TUNING_H

#include "kernels/grid/wproj_window_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a shape is chosen for. Kernels of nearly the same width share a choice. */
typedef struct msi_window_case {
    const char *device; /* its name */
    int degrid;
    msi_precision precision;
    int n_image, full;
    msi_window_lookup lookup;
    int32_t taps;
} msi_window_case;

/* Milliseconds that a shape takes. Returns 0, or a code of core/status.h. */
typedef int (*msi_window_time_fn)(void *context, const msi_window_shape *shape, double *ms);

/*
 * msi_window_tuning_choose - the shape of a case: from the cache, or else the fastest of the candidates, which is then
 * put into the cache.
 *
 * Given:    candidate [n], n > 0, n_vis left open; time, context
 *           path  the cache's file; NULL: window-tuning in $XDG_CACHE_HOME/msimage or ~/.cache/msimage
 * Returned: *shape, one of the candidates with n_vis set
 * Returns:  0, what `time` returned
 * Notes:    a cache that cannot be read or written, lines in it that mean nothing and shapes that are no longer
 *           compiled in are as good as none. Processes may share the file: it is replaced in one step.
 */
int msi_window_tuning_choose(msi_window_shape *shape, const msi_window_case *what, const msi_window_shape *candidate,
                             int n, msi_window_time_fn time, void *context, const char *path);

/* msi_window_tuning_guess - the shape of a case too small to measure: the fewest instructions, or the first of equals.
 */
msi_window_shape msi_window_tuning_guess(const msi_window_case *what, const msi_window_shape *candidate, int n);

#ifdef __cplusplus
}
#endif
#endif
