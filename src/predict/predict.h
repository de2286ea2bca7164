/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Model images to visibilities in Measurement Sets: the stages, in order. */
#ifndef MSI_SRC_PREDICT_H
#define MSI_SRC_PREDICT_H

#include "src/options/options.h"
#include "src/run/ranks.h"

/*
 * msi_run_predict - write the visibilities of the models into every set.
 *
 * Given:   team    begun; every rank of it calls this with the same options. NULL: there is one rank
 *          forked  called once the process that writes has been forked: threads may start; NULL: nothing
 * Returns: 0 or any code of core/status.h
 * Notes:   call it from a process of one thread, without a GPU context or an open table: what other threads hold, a
 * lock of an allocator among it, the forked process would wait for in vain.
 */
int msi_run_predict(const msi_options *options, msi_team *team, void (*forked)(void));

#endif
