/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Draws model images from a list of sources. */
#ifndef MSI_SRC_DRAW_MODEL_H
#define MSI_SRC_DRAW_MODEL_H

#include "src/options/options.h"

/*
 * msi_run_draw_model - run -draw-model: write PREFIX-term-0.fits and so on.
 * Given:   forked  called when no more processes are forked
 * Returns: 0, MSI_EINPUT (the list or the set), MSI_EOUTPUT, MSI_EUSAGE, MSI_ENOMEM, MSI_EINTERRUPTED, or any code of
 *          msi_reader_pool_open
 */
int msi_run_draw_model(const msi_options *options, void (*forked)(void));

#endif
