/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which channels of the sets go into which output channel. */
#ifndef MSI_SRC_OUTPUT_CHANNELS_H
#define MSI_SRC_OUTPUT_CHANNELS_H

#include "io/ms/ms_reader.h"

/* Output channel i holds the selected frequencies in [edge_hz[i], edge_hz[i + 1]). */
typedef struct msi_output_channels {
    int64_t n;
    double *edge_hz;          /* [n + 1] */
    double *low_hz, *high_hz; /* [n] band covered, channel widths included */
} msi_output_channels;

/*
 * msi_output_channels_make - divide the distinct frequencies of all selected spws, sorted, into n groups of equal size
 * (the first ones one larger where it does not divide).
 * Returns: 0, MSI_EUSAGE (more output channels than frequencies), MSI_ENOMEM. Freed by msi_output_channels_free.
 */
int msi_output_channels_make(msi_output_channels *out, const msi_ms_reader *reader, int64_t n);
void msi_output_channels_free(msi_output_channels *c);

/* msi_output_channels_range - channels [*first, *end) of ascending frequencies that belong to output channel i. */
void msi_output_channels_range(const msi_output_channels *c, int64_t i, const double *freq_hz, int32_t n_chan,
                               int32_t *first, int32_t *end);

/* msi_output_channels_met - output channels [*first, *end) that n_chan >= 1 ascending frequencies reach into; none of
 * the frequencies belongs to another. */
void msi_output_channels_met(const msi_output_channels *c, const double *freq_hz, int32_t n_chan, int64_t *first,
                             int64_t *end);

#endif
