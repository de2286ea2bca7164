/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Compute what averaging takes from a source off the phase centre. A baseline whose phase turns by x turns while it is
 * averaged keeps sin(pi x) / (pi x) of the amplitude (Bridle and Schwab, in Synthesis Imaging in Radio Astronomy II,
 * 1999, chapter 18).
 */
#ifndef MSI_SRC_SMEARING_H
#define MSI_SRC_SMEARING_H

#include "src/convert/average.h"
#include "src/convert/convert_options.h"
#include "src/convert/convert_stages.h"

/* msi_smearing_loss - return the most of a source's amplitude that is lost by up to so many turns, 0 .. 1: 1 - sin(pi
 * x) / (pi x) up to one turn, where nothing is left; of more, a remainder of either sign may be, and all is lost on the
 * way. */
double msi_smearing_loss(double turns);

/* msi_smearing_turns - return the number of turns, at most 1, that loses so much of 0 .. 1. */
double msi_smearing_turns(double loss);

/*
 * msi_smearing_time_turns - count the turns of a source's phase on a baseline in a time, at the Earth's fastest.
 * Given: baseline_m, radius_rad  from the phase centre; time_s; freq_hz
 */
double msi_smearing_time_turns(double baseline_m, double radius_rad, double time_s, double freq_hz);

/* msi_smearing_band_turns - likewise over a channel's width, where the baseline points along the source. */
double msi_smearing_band_turns(double baseline_m, double radius_rad, double width_hz);

/*
 * msi_smearing_report - decide how long baselines are averaged, and tell the loss.
 * Given:    groups [msi_ms_reader_n_spw]
 * Returned: *time
 * Returns:  0, MSI_EINPUT (baseline-dependent averaging, and no radius is given nor known)
 */
int msi_smearing_report(msi_stage *stage, const msi_ms_reader *reader, const msi_channel_groups *groups,
                        const msi_convert_options *options, msi_average_time *time);

#endif
