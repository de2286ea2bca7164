/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Residuals for cleaning with a primary beam that differs between samples. A model in true flux is multiplied by the
 * beam of each baseline, as a sum of terms (pb_terms.h). Its visibilities are subtracted from the samples of a gridder.
 * The tag of a sample has its time, pointing and kinds of dishes.
 */
#ifndef MSI_PB_SAMPLES_H
#define MSI_PB_SAMPLES_H

#include "kernels/gridder.h"
#include "src/pb/pb_mean.h"
#include "src/pb/pb_terms.h"

/* Data that all output channels share. Pointers are borrowed. */
typedef struct msi_pb_work {
    const msi_pb_array *array;
    msi_pb_view *view;    /* [array->n_pointing] owned, freed by msi_pb_work_free */
    double low_s, high_s; /* TIME of all rows */
    int n_plane;
    const msi_plane *planes; /* [n_plane] */
    msi_gridder_spec spec;   /* specification of the image's gridders */
} msi_pb_work;

enum { MSI_PB_PLANES_AT_ONCE = 8 }; /* number of planes that are predicted together; more if one term needs more */

/* msi_pb_work_make - prepare the views of all pointings, relative to the centre of the image. Returns: 0, MSI_ENOMEM,
 * MSI_EINPUT (too many pointings) */
int msi_pb_work_make(msi_pb_work *w, const msi_pb_array *array, const double centre[2]);
void msi_pb_work_free(msi_pb_work *w);

/* msi_pb_work_tag - make the tags of the rows of a block. Returned: tag [n_row] */
void msi_pb_work_tag(const msi_pb_work *w, const msi_ms_block *block, uint64_t *tag);

/* An output channel. */
typedef struct msi_pb_channel {
    const msi_pb_work *work;
    msi_gridder *gridder;    /* gridder of tagged samples, made with spec.residual; borrowed */
    double accuracy;         /* 0: that of work->spec */
    const msi_pb_mean *mean; /* the response of its images: apparent flux over true flux; borrowed */
    double limit;            /* least mean response; the model is 0 where the response is lower */
    int n_band;
    double *edge_hz;     /* [n_band + 1] owned; NULL: not known yet */
    msi_pb_terms *terms; /* [n_band][pointings] owned */
} msi_pb_channel;

/*
 * msi_pb_channel_residual - compute the residual of a model, as msi_gridder_residual does, but with the beam of each
 * sample. Given:    model  n_plane planes, in apparent flux
 * Returns:  as msi_gridder_residual, msi_pb_terms_make
 */
int msi_pb_channel_residual(msi_pb_channel *c, const msi_planes *model, msi_planes *residual);
void msi_pb_channel_free(msi_pb_channel *c);

#endif
