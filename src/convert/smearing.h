/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The amplitude that averaging takes from a source away from the phase centre. If the phase on a baseline changes by x
 * turns during the average, the amplitude is multiplied by sin(pi x) / (pi x) (Bridle and Schwab, in Synthesis Imaging
 * in Radio Astronomy II, 1999, chapter 18).
 */
#ifndef MSI_SRC_SMEARING_H
#define MSI_SRC_SMEARING_H

#include "src/convert/average.h"
#include "src/convert/convert_options.h"
#include "src/convert/convert_stages.h"

/* msi_smearing_turns - return the number of turns, at most 1, with a given loss, 0 .. 1. */
double msi_smearing_turns(double loss);

/*
 * msi_smearing_time_turns - return the turns of a source's phase on a baseline in a time, at most, by the Earth's
 *   rotation.
 * Given: baseline_m, radius_rad  from the phase centre; time_s; freq_hz
 */
double msi_smearing_time_turns(double baseline_m, double radius_rad, double time_s, double freq_hz);

/*
 * msi_smearing_report - determine the averaging time of baselines, and log the loss for several lengths.
 * Given:    groups [msi_ms_reader_n_spw]
 * Returned: *time
 * Returns:  0, MSI_EINPUT (baseline-dependent averaging without a radius, and no dish diameter is known)
 */
int msi_smearing_report(const msi_ms_reader *reader, const msi_channel_groups *groups,
                        const msi_convert_options *options, msi_average_time *time);

#endif
