/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Measurement Sets to images: the stages, in order. */
#ifndef MSI_SRC_IMAGING_H
#define MSI_SRC_IMAGING_H

#include "src/options/options.h"
#include "src/run/ranks.h"

/*
 * msi_run_image - make every image the options ask for, or none.
 * Given:   team    begun; every rank of it calls this with the same options. NULL: there is one rank
 *          forked  called when processes to read with have been forked, before which no thread may start; NULL is fine
 * Returns: 0 or any code of core/status.h
 */
int msi_run_image(const msi_options *options, msi_team *team, void (*forked)(void));

#endif
