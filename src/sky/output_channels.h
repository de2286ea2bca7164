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

/*
 * msi_output_channels_make - divide the distinct frequencies of all selected spws, sorted, into n groups of equal size
 * (if n does not divide their number, the first groups have one more).
 * Given:    n  at least 1
 * Returned: *out  freed by msi_output_channels_free; empty on failure
 * Returns:  0, MSI_EUSAGE (more output channels than frequencies), MSI_ENOMEM
 */
int msi_output_channels_make(msi_output_channels *out, const msi_ms_reader *reader, int64_t n);
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
