/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The runs of msimage: imaging, restoring and drawing of models. -predict is in predict.h. */
#ifndef MSI_SRC_RUNS_H
#define MSI_SRC_RUNS_H

#include "src/options/options.h"
#include "src/run/ranks.h"

/*
 * msi_run_image - make all images that the options request. If one fails, none gets its name.
 * Given:   ranks   begun; every rank calls this with the same options. NULL: there is one rank
 *          forked  called after the last fork of this function, before which no thread may start; may be NULL
 * Returns: 0 or any code of core/status.h
 */
int msi_run_image(const msi_options *options, msi_ranks *ranks, void (*forked)(void));

/* ---- Restoring of images from files, without a Measurement Set ---- */

/*
 * msi_run_restore - run -restore or -restore-list.
 * Returns: 0, MSI_EINPUT (a file is not an image; model and residual do not match; no beam), MSI_EOUTPUT, MSI_EUSAGE,
 *          MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_run_restore(const msi_options *options);

/* ---- Drawing of model images from a list of sources ---- */

/*
 * msi_run_draw_model - run -draw-model: write PREFIX-term-0.fits and so on.
 * Given:   forked  called after the last fork of this function; may be NULL
 * Returns: 0, MSI_EINPUT (the list or the set is invalid), MSI_EOUTPUT, MSI_EUSAGE, MSI_ENOMEM, MSI_EINTERRUPTED,
 *          or any code of msi_reader_pool_open
 */
int msi_run_draw_model(const msi_options *options, void (*forked)(void));

#endif
