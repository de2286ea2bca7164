/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Output channels: groups of the sets' channels, with an image for each group. */
#ifndef MSI_OUTPUT_CHANNELS_H
#define MSI_OUTPUT_CHANNELS_H

#include "io/ms/ms_reader.h"

/* How planes in another frame get their values from the channels of the data. Nearest: each channel is assigned to the
 * plane that contains it, or to the nearest plane if planes are narrower than channels. Linear: values are interpolated
 * along frequency. */
typedef enum msi_channel_interpolation {
    MSI_CHANNEL_NEAREST,
    MSI_CHANNEL_LINEAR,
    MSI_CHANNEL_CUBIC
} msi_channel_interpolation;

/* Evenly spaced output channels in a frame of frequencies. */
typedef struct msi_channel_grid {
    int64_t n;                /* 0: output channels are groups of the data's channels */
    double first_hz, step_hz; /* lowest centre; distance of centres, above 0 */
    int descends;             /* 1: the planes of the cube are in the order of decreasing frequency */
    msi_channel_interpolation interpolation;
    int n_part;           /* number of evenly spaced values that are interpolated for a channel */
    double data_width_hz; /* width of the narrowest channel of the data */
    double first_ratio, lowest_ratio,
        highest_ratio; /* ratios of frequencies to those of the data: at the first time; range over all times */
} msi_channel_grid;

/* Output channel i holds the selected frequencies in [edge_hz[i], edge_hz[i + 1]). */
typedef struct msi_output_channels {
    int64_t n;
    double *edge_hz;          /* [n + 1] ascending; owned */
    double *low_hz, *high_hz; /* [n] band covered, channel widths included; owned */
    msi_channel_grid grid;    /* if it is used, edges and bands are in its frame */
} msi_output_channels;

/* The division of frequencies into output channels. Zero-initialised: groups of equal numbers of frequencies. */
typedef struct msi_channel_division {
    int by_gaps;            /* 1: divide at the widest gaps between neighbouring frequencies */
    int64_t n_split;        /* divide at these frequencies first, then each part separately */
    const double *split_hz; /* [n_split] ascending, borrowed; first frequency of each part but the lowest */
} msi_channel_division;

/*
 * msi_output_channels_make - divide the distinct frequencies of all selected spws, sorted, into n groups.
 * Given:    n  at least 1, and n_split + 1
 * Returned: *out  freed by msi_output_channels_free; empty on failure
 * Returns:  0, MSI_EUSAGE (more output channels than frequencies), MSI_EINPUT (a part has no frequency), MSI_ENOMEM
 * Notes:    WSClean's rules. Part k of K parts gets the output channels from floor(n k / K) to floor(n (k + 1) / K).
 *           Even groups: group i of N has the frequencies from floor(i F / N) to floor((i + 1) F / N) of F. By gaps: of
 *           gaps of equal width, those at higher frequencies are used first.
 */
int msi_output_channels_make(msi_output_channels *out, const msi_ms_reader *reader, int64_t n,
                             const msi_channel_division *division);

/* msi_output_channels_regular - make the output channels of a grid. Returns: 0, MSI_ENOMEM; *out is empty on failure */
int msi_output_channels_regular(msi_output_channels *out, const msi_channel_grid *grid);

/*
 * msi_output_channels_frequencies - list the distinct frequencies of all selected spws, ascending.
 * Returned: *freq_hz [*n]  freed by msi_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_output_channels_frequencies(const msi_ms_reader *reader, double **freq_hz, int64_t *n);

/*
 * msi_output_channels_axis - find the frequencies of a cube whose planes are the output channels.
 * Returned: *first_hz  centre of the first channel; *step_hz  distance of centres, or the width of a single channel
 * Returns:  0, MSI_EINPUT (the centres are not evenly spaced)
 */
int msi_output_channels_axis(const msi_output_channels *c, double *first_hz, double *step_hz);

void msi_output_channels_free(msi_output_channels *c);

/* msi_n_below - return the number of values, of n ascending ones, that are less than a limit. */
int64_t msi_n_below(const double *value, int64_t n, double limit);

/* msi_output_channels_range - find the channels [*first, *end) of ascending frequencies freq_hz [n_chan] that belong to
 * output channel i; *first == *end if there are none. */
void msi_output_channels_range(const msi_output_channels *c, int64_t i, const double *freq_hz, int32_t n_chan,
                               int32_t *first, int32_t *end);

/* msi_output_channels_overlap - find the smallest range of output channels [*first, *end) that contains all ascending
 * frequencies freq_hz [n_chan]; n_chan is at least 1. */
void msi_output_channels_overlap(const msi_output_channels *c, const double *freq_hz, int32_t n_chan, int64_t *first,
                                 int64_t *end);

/* The planes of a cube in a frame of frequencies. They are evenly spaced. Their start and width may be channels of the
 * data, frequencies or velocities. */

/* A position on the spectral axis, or a distance. */
typedef struct msi_spectral_value {
    enum { MSI_SPECTRAL_NONE, MSI_SPECTRAL_CHANNEL, MSI_SPECTRAL_HZ, MSI_SPECTRAL_M_S } unit;
    double value; /* CHANNEL: an integer */
} msi_spectral_value;

typedef enum msi_velocity { MSI_VELOCITY_RADIO, MSI_VELOCITY_OPTICAL, MSI_VELOCITY_RELATIVISTIC } msi_velocity;

/* The planes as the user gives them. Zero-initialised: not given. */
typedef struct msi_cube_request {
    msi_spectral_value start, width;
    int64_t n_plane;   /* 0: to the end of the data */
    const char *frame; /* name in casacore, "LSRK" ..; NULL: the frame of the data */
    double rest_hz;    /* 0: the source's */
    msi_velocity velocity;
    msi_channel_interpolation interpolation;
    int counts_in_window; /* an integer start is a channel of the first selected window, selected or not; planes given in
                             channels have the order of that window */
} msi_cube_request;

/* msi_cube_request_is_made - return 1 if any of start, width, n_plane and frame is given. */
int msi_cube_request_is_made(const msi_cube_request *request);

/*
 * msi_cube_grid_make - find the planes. An integer start is a channel of the data, counted from 0 in order of frequency
 * over all selected windows. An integer width is a number of channels; the first plane begins with the start channel.
 * Both are converted to the frame at the first selected time, towards the first field. Without a start, planes begin at
 * the first channel, or at the last channel if the width is negative.
 * Given:    reader  opened with request->frame as the frame of its selection
 * Returned: *grid   planes of ascending frequency; the cube has them in the other order if `descends` is 1
 * Returns:  0, MSI_EINPUT (no rest frequency, planes outside the data, a width of 0), MSI_ENOMEM
 */
int msi_cube_grid_make(msi_channel_grid *grid, const msi_cube_request *request, const msi_ms_reader *reader);

#endif
