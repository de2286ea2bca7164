/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Plan a prediction: scan the coordinates, choose the size of batches, estimate memory and time. */
#ifndef MSI_SRC_PREDICT_PLAN_H
#define MSI_SRC_PREDICT_PLAN_H

#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/predict/model_bands.h"
#include "src/predict/predict_beam.h"
#include "src/sky/model_images.h"

/* Properties of the selected coordinates, relative to the centre of the models. */
typedef struct msi_predict_scan {
    int64_t n_row, n_sample;           /* numbers of rows and samples with a finite UVW */
    int64_t n_dropped;                 /* number of samples without a finite UVW */
    double w_min_lambda, w_max_lambda; /* range of |w| */
    double longest_lambda;             /* maximum of |uvw| */
    double farthest_rad;               /* largest distance of a phase centre from that of the models */
    int n_field;
    msi_predict_field *field; /* [n_field] owned; fields with rows */
} msi_predict_scan;

/* The input of a plan. Everything is borrowed. */
typedef struct msi_predict_need {
    const msi_gridder_spec *gridder; /* members that all gridders have in common */
    const msi_model_images *models;
    const msi_model_bands *bands;
    const msi_predict_parts *parts;
    const msi_ms_reader *reader;
    const msi_predict_scan *scan;
    int model_in_memory; /* 1: there is one part, and its model is loaded */
    int is_whole;        /* 1: do not divide models into tiles, which facets and beams do not support */
} msi_predict_need;

typedef struct msi_predict_plan {
    int64_t n_part;       /* number of parts of the prediction */
    int64_t n_batch;      /* approximate number of batches */
    int64_t batch_sample; /* limit of samples of all parts in a batch (at least one block) */
    int64_t batch_row;    /* limit of rows in a batch */
    int64_t slot_bytes;   /* limit of correlations sent to the writer at a time (at least one block) */
    int64_t store_bytes;  /* coordinates and visibilities of a batch */
    int64_t grid_bytes, device_bytes, image_bytes;
    double read_s, degrid_s, write_s;
    msi_gridder_report gridder; /* gridder of the part with the largest grids */
} msi_predict_plan;

/*
 * msi_predict_scan_read - read all coordinates once.
 * Given:    reader  of coordinates; at its beginning afterwards
 * Returned: *scan   always freed by msi_predict_scan_free
 * Returns: 0, MSI_EINPUT (no row has a finite UVW), MSI_EINTERRUPTED, or any code of msi_ms_reader_next
 */
int msi_predict_scan_read(msi_predict_scan *scan, msi_ms_reader *reader, const msi_model_images *models);
void msi_predict_scan_free(msi_predict_scan *scan);

/*
 * msi_predict_gridder_spec - return the specification of a gridder of n_plane real planes.
 * Given: common          members that all gridders have in common
 *        reserved_bytes  part of the memory limit that the gridder may not use
 */
msi_gridder_spec msi_predict_gridder_spec(const msi_gridder_spec *common, const msi_model_images *models, int n_plane,
                                          int64_t reserved_bytes);

/* msi_predict_expect - give a gridder the number of samples of its band in each batch. Does nothing if there are
 * several parts. */
void msi_predict_expect(const msi_predict_plan *plan, const msi_predict_scan *scan, const msi_model_band *band,
                        msi_gridder *gridder);

/*
 * msi_predict_plan_make - plan the run within the memory limit.
 *
 * Several parts load their models again in each batch, one after the other, so batches are as large as memory allows.
 * The same holds for a single part whose w-planes do not all fit in memory. If they fit, a batch has a few million
 * samples, so that writing overlaps with degridding.
 *
 * Returns:  0, MSI_ENOMEM (it does not fit; the message gives the memory that it needs), MSI_ERANGE
 */
int msi_predict_plan_make(msi_predict_plan *plan, const msi_predict_need *need);

/* msi_predict_unplanned_bytes - return the memory that no plan counts: libraries, buffers of blocks and threads, slots
 * of the writer of the reader's sets. */
int64_t msi_predict_unplanned_bytes(msi_backend backend, const msi_ms_reader *reader);

#endif
