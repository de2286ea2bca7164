/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Foresee what predicting will take: which coordinates there are, how many at a time, memory and time. */
#ifndef MSI_SRC_PREDICT_PLAN_H
#define MSI_SRC_PREDICT_PLAN_H

#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/predict/model_bands.h"
#include "src/sky/model_images.h"
#include "src/options/options.h"

/* The coordinates selected, seen from the models' centre. */
typedef struct msi_predict_scan {
    int64_t n_row, n_sample;           /* with a finite UVW */
    int64_t n_dropped;                 /* samples without */
    double w_min_lambda, w_max_lambda; /* of |w| */
    double longest_lambda;             /* of |uvw| */
    double farthest_rad;               /* of a block's phase centre from the models' */
} msi_predict_scan;

/* A prediction is planned from these. Everything is borrowed. */
typedef struct msi_predict_need {
    const msi_options *options;
    const msi_model_images *models;
    const msi_model_bands *bands;
    const msi_ms_reader *reader;
    const msi_predict_scan *scan;
    int model_in_memory; /* the only band's model has been taken */
} msi_predict_need;

typedef struct msi_predict_plan {
    int64_t n_band;      /* bands that are used */
    int64_t n_filling;   /* the gridders are filled and drained about so often, each time with at most: */
    int64_t fill_sample; /* samples of all bands (but one block in any case), */
    int64_t fill_row;    /* rows */
    int64_t slot_bytes;  /* correlations handed to the writer at a time, at most (but one block) */
    int64_t store_bytes; /* coordinates and visibilities of a filling */
    int64_t grid_bytes, device_bytes, image_bytes;
    double read_s, degrid_s, write_s;
    msi_gridder_report gridder; /* of the band whose grids need most */
} msi_predict_plan;

/*
 * msi_predict_scan_read - read all coordinates once.
 * Given:   reader  of coordinates; left at its beginning
 * Returns: 0, MSI_EINPUT (no row has a finite UVW), MSI_EINTERRUPTED, or any code of msi_ms_reader_next
 */
int msi_predict_scan_read(msi_predict_scan *scan, msi_ms_reader *reader, const msi_model_images *models);

/*
 * msi_predict_gridder_spec - specify a gridder of n_plane real planes.
 * Given: reserved_bytes  of the memory limit, not for the gridder to use
 */
msi_gridder_spec msi_predict_gridder_spec(const msi_options *options, const msi_model_images *models, int n_plane,
                                          int64_t reserved_bytes);

/* msi_predict_expect - tell a gridder what each filling brings of one band; a band among others is told nothing. */
void msi_predict_expect(const msi_predict_plan *plan, const msi_predict_scan *scan, const msi_model_band *band,
                        msi_gridder *gridder);

/*
 * msi_predict_plan_make - fit the run into the memory limit.
 *
 * Several bands take their models one after the other, each anew in each filling: those are as large as memory allows.
 * So they are with one band, unless all w-planes of its model fit in memory: then they are of a few million samples, so
 * that writing runs beside degridding.
 *
 * Returns:  0, MSI_ENOMEM (it does not fit; the message says what it needs), MSI_ERANGE
 */
int msi_predict_plan_make(msi_predict_plan *plan, const msi_predict_need *need);

/* msi_predict_unplanned_bytes - tell what no plan counts: libraries, buffers of blocks and of threads, the writer's
 * slots. */
int64_t msi_predict_unplanned_bytes(void);

#endif
