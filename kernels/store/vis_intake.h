/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sources of the store share this: vis_intake.c takes blocks in, gpu_samples.c what is on a GPU, vis_store.c has
 * the memory. */
#ifndef MSI_KERNELS_VIS_INTAKE_H
#define MSI_KERNELS_VIS_INTAKE_H

#include "kernels/store/vis_store.h"

/* A setup is a channel list that segments share, with the segment that is being filled. */
struct msi_vis_setup {
    struct msi_vis_setup *next;
    int32_t n_chan;
    int64_t open_segment;             /* -1: none */
    int64_t fetch_segment, fetch_row; /* where fetching stands */
    double freq_hz[];
};

/* Blocks come in by ranges of channels [first, first + n_chan). */
typedef struct msi_vis_range {
    const msi_vis_block *block;
    int32_t first, n_chan;
} msi_vis_range;

/* msi_vis_store_setup - find or make the setup of a list of channels. Returns: 0, MSI_ENOMEM. */
int msi_vis_store_setup(msi_vis_store *s, int32_t n_chan, const double *freq_hz, struct msi_vis_setup **out);

/*
 * msi_vis_store_reserve - make room for the next rows of a setup, as far as a segment has it; it counts as filled.
 * Returned: *segment, *row, *n  the rows [*row, *row + *n) of that segment; 1 <= *n <= n_row
 * Returns:  as msi_vis_store_add
 */
int msi_vis_store_reserve(msi_vis_store *s, struct msi_vis_setup *setup, int64_t n_row, int64_t *segment, int64_t *row,
                          int64_t *n);

/* msi_vis_store_rows_of_segment - return the rows that a segment of so many channels has room for. */
int64_t msi_vis_store_rows_of_segment(const msi_vis_store *s, int32_t n_chan);

/* msi_vis_store_next_segment - return the segment that becomes part of the store when n_segment grows. Returns: 0,
 * MSI_ENOMEM, MSI_ERANGE (more than the store numbers) */
int msi_vis_store_next_segment(msi_vis_store *s, msi_vis_segment **out);

/* msi_vis_intake_free - NULL is fine. */
void msi_vis_intake_free(struct msi_vis_intake *intake);

#endif
