/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parts of a prediction. Without a primary beam each band of the models is a part. With -pb the bands are divided
 * into narrower ones. Each pointing has one or more parts in each band; a part is a group of the terms of its beam
 * (pb_terms.h). Each part has a gridder for the model multiplied by the beams of its terms.
 */
#ifndef MSI_PREDICT_BEAM_H
#define MSI_PREDICT_BEAM_H

#include "io/ms/ms_reader.h"
#include "kernels/gridder.h"
#include "src/pb/pb_terms.h"
#include "src/predict/model_bands.h"
#include "src/sky/model_images.h"

/* The rows of a field of a set that are predicted, and their times. */
typedef struct msi_predict_field {
    int set, field_id;
    double ra_rad, dec_rad;
    double low_s, high_s; /* TIME of the rows */
} msi_predict_field;

typedef struct msi_predict_part {
    int64_t band;
    int view;               /* index of the view of its pointing; 0 without a beam */
    int first_term, n_term; /* 0 without a beam */
    int n_plane;            /* planes of its gridder */
    msi_gridder *gridder;   /* owned; NULL before it is made */
} msi_predict_part;

typedef struct msi_predict_parts {
    int64_t n;
    msi_predict_part *part; /* [n] owned; in order of band and view */
    int64_t *first;         /* [bands x n_view + 1] owned; the parts of each band and view */
    int n_view;             /* 1 without a beam */
    int n_out;              /* planes of the visibilities: those of the models, or more with a beam */
    msi_plane out[MSI_MODEL_MAX_PLANES];
    double accuracy; /* accuracy of the primary beam */
    int has_warned;  /* 1: the warning about flux beyond its range was printed */
    /* With a beam: */
    msi_pb_array *array;      /* owned; NULL: no beam */
    msi_pb_view *view;        /* [n_view] owned */
    msi_predict_field *field; /* [n_view] owned; field of each view */
    int64_t n_terms;          /* bands x n_view */
    msi_pb_terms *terms;      /* [n_terms] owned */
} msi_predict_parts;

/*
 * msi_predict_parts_make - find the parts of a prediction, and log the beam.
 * Given:              choice    options of the beam; NULL: no beam
 *                     field     [n_field] fields with rows
 *                     accuracy  accuracy of the visibilities, relative to the model's flux
 * Given and returned: bands   bands of the models; divided if there is a beam
 * Returned:           parts   always freed by msi_predict_parts_free
 * Returns:            0, MSI_ENOMEM, MSI_EINPUT (as msi_pb_array_make; nothing of the model is within the beam),
  *                    MSI_ERANGE
 */
int msi_predict_parts_make(msi_predict_parts *parts, const msi_pb_choice *choice, const msi_model_images *models,
                           const msi_ms_reader *reader, const msi_predict_field *field, int n_field, double accuracy,
                           msi_model_bands *bands);
void msi_predict_parts_free(msi_predict_parts *parts);

/* msi_predict_parts_of - return the first of *n consecutive parts of a band for the rows of a block. */
int64_t msi_predict_parts_of(const msi_predict_parts *parts, int64_t band, const msi_ms_block *block, int *n);

/*
 * msi_predict_parts_load - load the planes of a part's gridder: the models of its band, multiplied by its beams.
 * Returned: image  [n_plane][ny][nx], freed by msi_image_free
 * Returns:  as msi_model_images_load
 */
int msi_predict_parts_load(msi_predict_parts *parts, const msi_predict_part *part, msi_model_images *models,
                           const msi_model_bands *bands, msi_precision precision, msi_image *image);

#endif
