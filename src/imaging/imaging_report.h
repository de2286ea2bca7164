/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The log of an imaging run: its lines of many figures. */
#ifndef MSI_SRC_IMAGING_REPORT_H
#define MSI_SRC_IMAGING_REPORT_H

#include "core/beam.h"
#include "src/imaging/imaging_run.h"

/* The stages of an interval ended at these times, by msi_wall_s. */
typedef struct msi_imaging_times {
    double start_s, opened_s, loaded_s, weighed_s, imaged_s;
} msi_imaging_times;

/* Report what is imaged, as far as it is known before samples are read: sets, fields, band, times, image, resolution;
 * and a warning where pixels are needlessly fine. Of an interval after the first, its times. */
void msi_imaging_report_subject(const msi_imaging_run *run);

/* Report memory, disk and the gridder, as planned. */
void msi_imaging_report_plan(const msi_imaging_plan *plan, const msi_options *options);

/* Report what a dry run found, and how long a run would take. */
void msi_imaging_report_dry_run(const msi_imaging_run *run, const msi_imaging_scan *scan);

/* Report samples loaded, and samples dropped by reason; a warning where pixels are so coarse that samples are lost. */
void msi_imaging_report_loaded(const msi_imaging_run *run);

/* msi_imaging_report_nothing - record the error that no sample is left, with the reasons and their counts, which a
 * quiet log has not told. Returns: MSI_EINPUT */
int msi_imaging_report_nothing(const msi_imaging_run *run);

/* Report the rule by which samples were weighted. */
void msi_imaging_report_weights(const msi_imaging_run *run);

/*
 * msi_imaging_report_empty - warn of an output channel without a sample, and of a polarisation that has none where
 * others have: the images are NaN.
 * Given:   n_vis  [n] samples of the channel in each polarisation
 */
void msi_imaging_report_empty(const msi_imaging_run *r, int64_t channel, int n, const int64_t *n_vis);

/* Report the image of an output channel: n_sample of the plane that has most, the plan, and the time each step took. */
void msi_imaging_report_channel(int64_t channel, int64_t n_sample, const msi_gridder_report *report);

/* msi_imaging_theoretic_beam - give the wavelength over the longest baseline, in radians; 0 where it is unknown. */
double msi_imaging_theoretic_beam(const msi_imaging_run *run);

void msi_imaging_report_beam(const msi_beam *beam);
void msi_imaging_report_times(const msi_imaging_times *times);

#endif
