/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Converts blocks of correlations to samples of the output channels:
 *
 *   1. Flagged samples, and samples without a weight, are left out.
 *   2. Correlations become image planes (stokes.h).
 *   3. Phases and uvw are shifted to the images' centre (phase_shift.h).
 *   4. Samples are stored for each output channel, in the precision of the gridders: in a block, from which they are
 *      added to the gridders, or in rows that a gridder has reserved for them.
 *
 * Reader processes do this work, on blocks that they share with the main process. The main process sends them a
 * request, which has the parameters as bytes without pointers, and passes the samples to the gridders unchanged.
 */
#ifndef MSI_BLOCK_CONVERSION_H
#define MSI_BLOCK_CONVERSION_H

#include "core/types.h"
#include "io/ms/ms_reader.h"
#include "io/ms/reader_pool.h"
#include "kernels/gridder.h"
#include "src/sky/continuum.h"
#include "src/sky/output_channels.h"
#include "src/sky/stokes.h"

/* The channels of a block and the Doppler shifts of its rows, for planes of a cube in another frame of frequencies. */
typedef struct msi_framed_block {
    const msi_channel_grid *grid;
    const double *freq_hz; /* [n_chan] ascending */
    int32_t n_chan;
    double width_hz; /* width of a channel */
    /* least and greatest ratio of a frequency in the frame to the one in the data, of all rows */
    double lowest, highest;
} msi_framed_block;

/* A field of a mosaic: its samples are shifted to the direction l, m in the image. */
typedef struct msi_conversion_turn {
    int64_t set, field_id;
    double l, m;
} msi_conversion_turn;

/* Parameters of the conversion. Everything is borrowed. */
typedef struct msi_conversion_spec {
    const msi_plane *planes; /* [n_plane] real planes of each gridder, in order */
    int n_plane;
    msi_stokes_weight weight; /* how the weights of several correlations become the weight of a sample */
    msi_precision precision;  /* precision of the gridders */

    const msi_output_channels *channels; /* each has a gridder */
    const msi_ms_reader *reader;         /* with channels->grid: has the Doppler shifts */
    double ra_rad, dec_rad;              /* the images' centre; fields with another phase centre are shifted to it */
    const msi_conversion_turn *turn;     /* [n_turn] fields of a mosaic; other fields are not shifted further */
    int64_t n_turn;
    const msi_continuum *continuum; /* to subtract; NULL: none */
    int sums_beam_weights;          /* 1: sum the weights that a mean primary beam needs */
    double beam_hz[2];              /* frequency range that the steps of these sums divide */
    double least_turn_rad;          /* a block is not shifted if no phase would change by more than this */
} msi_conversion_spec;

/* The parameters as bytes without pointers, for another process. */
typedef struct msi_conversion_request {
    msi_plane planes[MSI_MAX_PLANES];
    int n_plane;
    msi_stokes_weight weight;
    msi_precision precision;
    double ra_rad, dec_rad, least_turn_rad;
    int sums_beam_weights;
    double beam_hz[2];
    msi_continuum continuum;
    msi_channel_grid grid;     /* n 0: channels are groups of the data's channels */
    int64_t n_shift, shift_at; /* Doppler shifts of fields, and the byte of the request where they begin */
    int64_t n_turn, turn_at;   /* turns of fields, and the byte of the request where they begin */
    int64_t n_channel;
    double edge_hz[]; /* [n_channel + 1] of msi_output_channels; with a grid, frequencies [n_channel][n_part] follow */
} msi_conversion_request;

/* The Doppler shifts of a field in a request: from byte `at` on, n_minute minutes and then n_minute ratios. */
typedef struct msi_conversion_shift {
    int64_t set, field_id, n_minute, at;
} msi_conversion_shift;

/* A converter has the buffers of a conversion. */
typedef struct msi_block_converter msi_block_converter;

/*
 * msi_block_converter_create - create a converter. Call it before the reader processes are forked.
 * Returned: *out  freed by msi_block_converter_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_block_converter_create(msi_block_converter **out);

/* msi_block_converter_conversion - return the functions for the reader pool; borrowed. */
const msi_reader_conversion *msi_block_converter_conversion(msi_block_converter *converter);

/* msi_block_converter_free - NULL is fine. */
void msi_block_converter_free(msi_block_converter *converter);

/*
 * msi_conversion_request_make - convert parameters to a request.
 * Returned: *out  [*n_byte], freed by msi_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_conversion_request_make(msi_conversion_request **out, int64_t *n_byte, const msi_conversion_spec *spec);

/* Reserved rows of a gridder (msi_ms_block.into). A block that has samples of this gridder only is converted into them;
 * msi_ms_block.converted then has the counts. */
typedef struct msi_block_into {
    msi_gridder *gridder;
    msi_vis_rows *rows; /* [n] together they have as many rows as the block */
    int64_t n;
} msi_block_into;

/*
 * msi_converted_tally - read the sample counts of a converted block.
 * Returns: 0, MSI_EINPUT (the counts are impossible: the reader process is corrupt)
 */
int msi_converted_tally(const msi_ms_block *block, msi_sample_tally *tally);

enum { MSI_BEAM_STEPS = 512 };

/* Sums of the weights of the first plane, before density weighting: by the pair of dish types of a baseline, by
 * frequency, and by sidereal time. */
typedef struct msi_beam_weights {
    double pair[MSI_MS_PAIRS]; /* as msi_ms_block.pair */
    double of_hz[MSI_BEAM_STEPS];
    msi_ms_row_times times;
} msi_beam_weights;

/* msi_beam_step - return the index of a frequency in msi_beam_weights.of_hz, whose steps divide range_hz. */
static inline int msi_beam_step(const double range_hz[2], double hz)
{
    const double at = (hz - range_hz[0]) / (range_hz[1] - range_hz[0]) * MSI_BEAM_STEPS;
    return at >= MSI_BEAM_STEPS ? MSI_BEAM_STEPS - 1 : at > 0 ? (int)at : 0;
}

/* msi_converted_beam_weights - add the weights of a converted block, if the request sums them. */
void msi_converted_beam_weights(const msi_conversion_request *request, const msi_ms_block *block,
                                msi_beam_weights *sum);

/* The samples of one output channel in a converted block. */
typedef struct msi_converted_part {
    int64_t channel;
    msi_vis_block samples; /* in the requested precision: vis or vis_f32 is set */
} msi_converted_part;

/* An iterator over the parts of a converted block; msi_converted_first initialises it. */
typedef struct msi_converted_walk {
    const msi_conversion_request *request;
    const msi_ms_block *block;
    int64_t channel, end_channel; /* the next one; the end */
    msi_framed_block framed;      /* with a grid: the block with the Doppler shifts of its rows */
    int64_t at;                   /* offset of the next part in block->converted */
} msi_converted_walk;

/* msi_converted_first - initialise the iterator. */
void msi_converted_first(msi_converted_walk *walk, const msi_conversion_request *request, const msi_ms_block *block);

/* msi_converted_next - get the next part, which borrows from block and request. Returns: 1; 0 after the last part. */
int msi_converted_next(msi_converted_walk *walk, msi_converted_part *part);

/* Buffers for one block of visibilities; the next block uses them again. Zero-initialised: empty. */
typedef struct msi_block_workspace {
    int64_t n_row, n_vis, n_weight; /* capacities */
    double *uvw_m;                  /* [n_row][3] */
    msi_c64 *vis;                   /* [n_vis] */
    float *weight;                  /* [n_weight] */
} msi_block_workspace;

/*
 * msi_block_workspace_fit - enlarge arrays that are too small. A new array does not keep the old contents.
 * Given:   n_row, n_vis, n_weight  elements that are needed; 0 for an array that is not needed
 * Returns: 0, MSI_ENOMEM
 */
int msi_block_workspace_fit(msi_block_workspace *w, int64_t n_row, int64_t n_vis, int64_t n_weight);

/* msi_block_workspace_free - free the arrays, and leave the struct empty. */
void msi_block_workspace_free(msi_block_workspace *w);

#endif
