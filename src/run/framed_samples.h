/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples of planes in another frame of frequencies (msi_channel_grid), made of the samples of a block by the Doppler
 * shift of each row. Used by block_conversion.c. */
#ifndef MSI_FRAMED_SAMPLES_H
#define MSI_FRAMED_SAMPLES_H

#include "io/ms/ms_reader.h"
#include "src/sky/output_channels.h"

/* The channels of a block, and the Doppler shifts of its rows. */
typedef struct msi_framed_block {
    const msi_channel_grid *grid;
    const double *freq_hz; /* [n_chan] ascending */
    int32_t n_chan;
    double width_hz;        /* width of a channel */
    double lowest, highest; /* ratios of frequencies in the frame to those of the data, over the rows */
} msi_framed_block;

/* msi_framed_block_make - describe a block. Given: lowest, highest  ratios */
msi_framed_block msi_framed_block_make(const msi_channel_grid *grid, const double *freq_hz, int32_t n_chan,
                                       double lowest, double highest);

/* msi_framed_planes - find the planes [*first, *end) that may have samples of the block. */
void msi_framed_planes(const msi_framed_block *b, int64_t *first, int64_t *end);

/*
 * msi_framed_range - find the samples of a plane: with msi_channel_nearest the channels [*first, *first + n) of the
 * block, of which each row has some; otherwise n is grid->n_part and *first 0.
 * Returns: n; 0 if the plane has no sample
 */
int32_t msi_framed_range(const msi_framed_block *b, int64_t plane, int32_t *first);

/* msi_framed_part_hz - return the frequency of a value that is interpolated, in the frame: part 0 .. n_part - 1. */
static inline double msi_framed_part_hz(const msi_channel_grid *g, int64_t plane, int part)
{
    const double centre = g->first_hz + (double)plane * g->step_hz;
    return centre + ((double)part - 0.5 * (double)(g->n_part - 1)) * g->step_hz / (double)g->n_part;
}

/* One row of one image plane. */
typedef struct msi_framed_row {
    const msi_c64 *vis;  /* [n_chan] */
    const float *weight; /* [n_chan] 0: flagged */
    double ratio;
} msi_framed_row;

/*
 * msi_framed_convert - make the samples of a row for a plane of the cube.
 * Given:    first, n  as msi_framed_range
 * Returned: vis, weight [n]; weight 0 where the row has no sample. Interpolated values belong to msi_framed_part_hz,
 *           and to coordinates in metres divided by the ratio; those of msi_channel_nearest to the block's frequencies
 */
void msi_framed_convert(const msi_framed_block *b, const msi_framed_row *row, int64_t plane, int32_t first, int32_t n,
                        msi_c64 *vis, float *weight);

#endif
