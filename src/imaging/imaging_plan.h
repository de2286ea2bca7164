/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The plan of an imaging run: an estimate of memory, disk space and time, made before the run starts. */
#ifndef MSI_SRC_IMAGING_PLAN_H
#define MSI_SRC_IMAGING_PLAN_H

#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/clean/clean_field.h"
#include "src/options/options.h"
#include "src/sky/output_channels.h"

/* The samples of a run: counted by a scan of the coordinates, or upper bounds. */
typedef struct msi_imaging_scan {
    int64_t n_row, n_sample;
    int64_t n_outside;                 /* samples outside the uv plane of the image; not known from a bound: 0 */
    double w_min_lambda, w_max_lambda; /* range of |w| */
    double longest_lambda;             /* largest length of (u, v, w); not known from a bound: 0 */
} msi_imaging_scan;

/* The input of msi_imaging_plan_make. */
typedef struct msi_imaging_need {
    const msi_options *options;
    const msi_gridder *gridder; /* an empty gridder of one output channel, as in the run */
    /* [channels_out] the gridders of all output channels, with their samples: the plan is made for these; NULL: for scan */
    msi_gridder *const *loaded;
    const msi_plane *planes; /* [n_plane] */
    int n_plane;             /* planes of each output channel, without the PSF */
    const msi_output_channels *channels;
    int64_t output_bytes; /* size of the files */
    int n_gpu;            /* GPUs that share the channels; at least 1 */
    msi_imaging_scan scan;
} msi_imaging_need;

/* Bytes and seconds are sums over the output channels. */
typedef struct msi_imaging_plan {
    int64_t store_bytes;   /* visibilities in memory */
    int64_t spilled_bytes; /* visibilities in -temp-dir */
    int64_t grid_bytes, image_bytes, device_bytes, output_bytes;
    /* part of device_bytes that is in use while images are restored, after the last grid */
    int64_t restoring_device_bytes;
    int64_t least_device_bytes; /* part of device_bytes that fewer w-planes or samples would not reduce */
    /* images while there are no grids: when cleaners are made, and when images are written */
    int64_t alone_bytes;
    int64_t paged_bytes;        /* images in files of -temp-dir because memory is short; not part of image_bytes */
    int64_t grid_file_bytes;    /* grids of a channel in such files; part of paged_bytes */
    int pages_work;             /* 1: arrays in use are in such files too */
    int64_t grid_budget_bytes;  /* memory limit of the grids of a channel */
    int64_t one_image_bytes;    /* images of one output channel */
    int64_t store_budget_bytes; /* memory limit of the stores */
    int64_t psfs_bytes; /* memory that varying PSFs would need, if that is too much and one PSF is used; 0: they fit */
    int n_pending;      /* images that may be in the writer while others are computed */
    int n_hand;         /* images of joined channels that may be prepared for the writer at the same time */
    double read_s, image_s;
    msi_gridder_report gridder; /* gridder of one output channel */
} msi_imaging_plan;

/* msi_imaging_scan_bound - set upper bounds of the samples without reading. The bound of |w| follows from the positions
 * of the antennas and the highest selected frequency. */
void msi_imaging_scan_bound(msi_imaging_scan *scan, const msi_ms_reader *reader);

/*
 * msi_imaging_scan_read - scan all coordinates without reading data.
 * Given:   reader  opened with coordinates_only; at its end on return
 *          ra_rad, dec_rad  centre of the images
 * Returns: 0, MSI_EINTERRUPTED or any code of msi_ms_reader_next
 */
int msi_imaging_scan_read(msi_imaging_scan *scan, msi_ms_reader *reader, const msi_image_geometry *geometry,
                          double ra_rad, double dec_rad);

/* msi_imaging_gridder_bytes - return the part of the memory limit that is for images, stores and grids. */
int64_t msi_imaging_gridder_bytes(const msi_options *options);

/* msi_imaging_field_spec - return the specification of a field, except its channels and samples. */
msi_clean_field_spec msi_imaging_field_spec(const msi_options *options, const msi_plane *planes, int n_plane);

/*
 * msi_imaging_plan_make - plan the run within the memory limit.
 * Returned: *plan  on failure, with the values that are known; plan->gridder.nu is 0 if no gridder was planned
 * Returns:  0, MSI_ENOMEM (not possible even with visibilities on disk; the message has the memory that is needed),
 *           MSI_ERANGE
 */
int msi_imaging_plan_make(msi_imaging_plan *plan, const msi_imaging_need *need);

#endif
