/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a run will take, before it starts: memory, disk, time. */
#ifndef MSI_SRC_RUN_PLAN_H
#define MSI_SRC_RUN_PLAN_H

#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/options/options.h"

typedef struct msi_run_plan {
    int64_t n_row, n_sample;
    double w_min_lambda, w_max_lambda; /* of |w|; an upper bound from the antenna positions, or as found by a scan */
    int64_t store_bytes;               /* visibilities in memory */
    int64_t spilled_bytes;             /* visibilities in -temp-dir */
    int64_t grid_bytes, image_bytes, device_bytes, output_bytes;
    int64_t store_budget_bytes; /* what stores may hold in memory, all output channels together */
    double read_s, image_s;
    msi_gridder_report gridder; /* of one output channel */
} msi_run_plan;

/* msi_run_plan_bound_w - an upper bound of |w| from the antenna positions and the highest frequency selected. */
double msi_run_plan_bound_w(const msi_ms_reader *reader);

/* msi_run_plan_gridder_bytes - of the memory limit, what is left to images, stores and grids. */
int64_t msi_run_plan_gridder_bytes(const msi_options *options);

/*
 * msi_run_plan_make - fit the run into the memory limit.
 *
 * Given:    gridder  one as the run will make it, empty; n_row, n_sample, w range; n_plane
 * Returns:  0, MSI_ENOMEM (it does not fit even with visibilities on disk; the message says what it needs), MSI_ERANGE
 */
int msi_run_plan_make(msi_run_plan *plan, const msi_options *options, const msi_gridder *gridder, int n_plane,
                      int64_t n_row, int64_t n_sample, double w_min_lambda, double w_max_lambda, int64_t output_bytes);

/* msi_run_plan_print - on the log. */
void msi_run_plan_print(const msi_run_plan *plan, const msi_options *options);

/*
 * msi_run_plan_scan - read coordinates alone: rows, samples and the range of |w| as they are, for -dry-run.
 * Given:    reader opened with coordinates_only; ra_rad, dec_rad the image's centre
 * Returned: *n_outside samples beyond the uv plane of the geometry
 */
int msi_run_plan_scan(msi_ms_reader *reader, const msi_image_geometry *geometry, double ra_rad, double dec_rad,
                      msi_run_plan *plan, int64_t *n_outside);

#endif
