/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Averaging takes flux from a source away from the phase centre; how much is told by the baseline's length. */
#ifndef MSI_SRC_SMEARING_REPORT_H
#define MSI_SRC_SMEARING_REPORT_H

#include "src/convert/average.h"
#include "src/convert/convert_options.h"
#include "src/convert/stage.h"

/*
 * msi_smearing_report - decide how long baselines are averaged, and tell the loss.
 * Given:    groups [msi_ms_reader_n_spw]
 * Returned: *time
 * Returns:  0, MSI_EINPUT (baseline-dependent averaging, and no radius is given nor known)
 */
int msi_smearing_report(msi_stage *stage, const msi_ms_reader *reader, const msi_channel_groups *groups,
                        const msi_convert_options *options, msi_average_time *time);

#endif
