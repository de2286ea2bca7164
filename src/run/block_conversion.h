/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Blocks as read become finished samples of the output channels: flags and weights count, correlations become planes,
 * phases turn to the images' centre. The processes that read do it, and leave the samples in the precision of the
 * gridders; the main process takes them to the gridders as they are.
 */
#ifndef MSI_BLOCK_CONVERSION_H
#define MSI_BLOCK_CONVERSION_H

#include "core/types.h"
#include "io/ms/ms_crew.h"
#include "src/sky/output_channels.h"
#include "src/sky/stokes.h"

/* An order says what is made of a block. Everything is borrowed. */
typedef struct msi_forming_spec {
    const msi_plane *planes; /* [n_plane] real planes formed of the correlations, one after the other in each gridder */
    int n_plane;
    msi_stokes_weight weight; /* of a sample of several correlations */
    msi_precision precision;  /* of the gridders */

    const msi_output_channels *channels; /* which gridder a channel goes to */
    double ra_rad, dec_rad;              /* the images' centre, to which fields with another one are turned */
    double least_turn_rad;               /* unless no phase of a block would change by more */
} msi_forming_spec;

/* The same as bytes that any process understands. */
typedef struct msi_forming_order {
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane;
    msi_stokes_weight weight;
    msi_precision precision;
    double ra_rad, dec_rad, least_turn_rad;
    int64_t n_channel;
    double edge_hz[]; /* [n_channel + 1] of msi_output_channels */
} msi_forming_order;

/* Room for what is made on the way; zero-initialised. */
typedef struct msi_block_former msi_block_former;

/*
 * msi_block_former_create - make what processes form by, before they are forked; with nothing in it.
 * Returned: *out  freed by msi_block_former_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_block_former_create(msi_block_former **out);

/* msi_block_former_forming - name what a crew is started with; borrowed. */
const msi_ms_forming *msi_block_former_forming(msi_block_former *former);

/* msi_block_former_free - NULL is fine. */
void msi_block_former_free(msi_block_former *former);

/*
 * msi_forming_order_make - write a spec as bytes.
 * Returned: *out  [*n_byte], freed by msi_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_forming_order_make(msi_forming_order **out, int64_t *n_byte, const msi_forming_spec *spec);

/*
 * msi_formed_tally - read what was counted when a block was formed, for its samples of all output channels.
 * Returns: 0, MSI_EINPUT (what cannot have been counted)
 */
int msi_formed_tally(const msi_ms_block *block, msi_sample_tally *tally);

/* The samples of one output channel among those formed of a block. */
typedef struct msi_formed_part {
    int64_t channel;
    msi_vis_block samples; /* in the order's precision: its vis, or its vis_f32 */
} msi_formed_part;

/* The walk goes through the parts of a block; msi_formed_first sets it before the first. */
typedef struct msi_formed_walk {
    const msi_forming_order *order;
    const msi_ms_block *block;
    int64_t channel, end_channel; /* next; behind the last */
    int64_t at;                   /* byte of block->formed */
} msi_formed_walk;

/* msi_formed_first - begin with the first part of a formed block. */
void msi_formed_first(msi_formed_walk *walk, const msi_forming_order *order, const msi_ms_block *block);

/* msi_formed_next - give the next part, which borrows from block and order. Returns: 1; 0 behind the last one. */
int msi_formed_next(msi_formed_walk *walk, msi_formed_part *part);

/* Room for what is made of one block of visibilities, kept from block to block. */

/* Zero-initialised: empty. */
typedef struct msi_block_workspace {
    int64_t n_row, n_vis, n_weight; /* that there is room for */
    double *uvw_m;                  /* [n_row][3] */
    msi_c64 *vis;                   /* [n_vis] */
    float *weight;                  /* [n_weight] */
} msi_block_workspace;

/*
 * msi_block_workspace_fit - make room; an array that is large enough stays, one that grows loses what it held.
 * Given:   n_row, n_vis, n_weight  elements that are needed, 0 for an array that is not
 * Returns: 0, MSI_ENOMEM
 */
int msi_block_workspace_fit(msi_block_workspace *w, int64_t n_row, int64_t n_vis, int64_t n_weight);

/* msi_block_workspace_free - leave it empty. */
void msi_block_workspace_free(msi_block_workspace *w);

#endif
