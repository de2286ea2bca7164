/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Foresee what imaging will take, before it starts: memory, disk, time. */
#ifndef MSI_SRC_IMAGING_PLAN_H
#define MSI_SRC_IMAGING_PLAN_H

#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/options/options.h"
#include "src/sky/output_channels.h"

/* The samples of a run: as a scan of the coordinates finds them, or as many and as far as they can be at most. */
typedef struct msi_imaging_scan {
    int64_t n_row, n_sample;
    int64_t n_outside;                 /* samples beyond the uv plane that the pixels can hold; a bound counts none */
    double w_min_lambda, w_max_lambda; /* of |w| */
} msi_imaging_scan;

/* A run of images is planned from these. */
typedef struct msi_imaging_need {
    const msi_options *options;
    const msi_gridder *gridder; /* of one output channel as the run will make it, empty */
    int n_plane;                /* real planes of each output channel, PSF not counted */
    const msi_output_channels *channels;
    int64_t output_bytes; /* of the files */
    msi_imaging_scan scan;
} msi_imaging_need;

/* Bytes and seconds are those of all output channels together. */
typedef struct msi_imaging_plan {
    int64_t store_bytes;   /* visibilities in memory */
    int64_t spilled_bytes; /* visibilities in -temp-dir */
    int64_t grid_bytes, image_bytes, device_bytes, output_bytes;
    int64_t one_image_bytes;    /* images of one output channel */
    int64_t store_budget_bytes; /* what stores may hold in memory */
    int n_beside;               /* images that are written while others are computed; 0: none is */
    double read_s, image_s;
    msi_gridder_report gridder; /* of one output channel */
} msi_imaging_plan;

/* msi_imaging_scan_bound - bound the samples without reading them: |w| from the antennas' positions and the
 * highest frequency selected. */
void msi_imaging_scan_bound(msi_imaging_scan *scan, const msi_ms_reader *reader);

/*
 * msi_imaging_scan_read - read all coordinates, and no data.
 * Given:   reader  opened with coordinates_only; left at its end
 *          ra_rad, dec_rad  the images' centre
 * Returns: 0, MSI_EINTERRUPTED or any code of msi_ms_reader_next
 */
int msi_imaging_scan_read(msi_imaging_scan *scan, msi_ms_reader *reader, const msi_image_geometry *geometry,
                          double ra_rad, double dec_rad);

/* msi_imaging_gridder_bytes - tell what the memory limit leaves to images, stores and grids. */
int64_t msi_imaging_gridder_bytes(const msi_options *options);

/*
 * msi_imaging_plan_make - fit the run into the memory limit.
 * Returned: *plan  also on failure as far as it is known; plan->gridder.nu is 0 where no gridder was foreseen
 * Returns:  0, MSI_ENOMEM (it does not fit even with visibilities on disk; the message says what it needs), MSI_ERANGE
 */
int msi_imaging_plan_make(msi_imaging_plan *plan, const msi_imaging_need *need);

#endif
