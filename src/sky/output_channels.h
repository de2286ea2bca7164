/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Output channels: groups of the sets' channels, with an image for each group. */
#ifndef MSI_OUTPUT_CHANNELS_H
#define MSI_OUTPUT_CHANNELS_H

#include "io/ms/ms_reader.h"

/* Output channel i holds the selected frequencies in [edge_hz[i], edge_hz[i + 1]). */
typedef struct msi_output_channels {
    int64_t n;
    double *edge_hz;          /* [n + 1] ascending; owned */
    double *low_hz, *high_hz; /* [n] band covered, channel widths included; owned */
} msi_output_channels;

/* How frequencies are divided. Zero-initialised: evenly. */
typedef struct msi_channel_division {
    int by_gaps;            /* at the widest gaps between neighbouring frequencies */
    int64_t n_split;        /* first at these frequencies; each part is then divided by itself */
    const double *split_hz; /* [n_split] ascending, borrowed; a part begins at its frequency */
} msi_channel_division;

/*
 * msi_output_channels_make - divide the distinct frequencies of all selected spws, sorted, into n groups.
 * Given:    n  at least 1, and n_split + 1
 * Returned: *out  freed by msi_output_channels_free; empty on failure
 * Returns:  0, MSI_EUSAGE (more output channels than frequencies), MSI_EINPUT (a part has no frequency), MSI_ENOMEM
 * Notes:    WSClean's rules. Part k of K parts gets the output channels from floor(n k / K) to floor(n (k + 1) / K).
 *           Even groups: group i of N has the frequencies from floor(i F / N) to floor((i + 1) F / N) of F. By gaps:
 *           of equal gaps, those at higher frequencies.
 */
int msi_output_channels_make(msi_output_channels *out, const msi_ms_reader *reader, int64_t n,
                             const msi_channel_division *division);
void msi_output_channels_free(msi_output_channels *c);

/* msi_output_channels_range - find the channels [*first, *end) of ascending frequencies freq_hz [n_chan] that belong to
 * output channel i; *first == *end if there are none. */
void msi_output_channels_range(const msi_output_channels *c, int64_t i, const double *freq_hz, int32_t n_chan,
                               int32_t *first, int32_t *end);

/* msi_output_channels_overlap - find the smallest range of output channels [*first, *end) that contains all ascending
 * frequencies freq_hz [n_chan]; n_chan is at least 1. */
void msi_output_channels_overlap(const msi_output_channels *c, const double *freq_hz, int32_t n_chan, int64_t *first,
                                 int64_t *end);

#endif
