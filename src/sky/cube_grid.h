/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The planes of a cube in a frame of frequencies: evenly spaced, from a start and a width that may be channels of the
 * data, frequencies or velocities. */
#ifndef MSI_CUBE_GRID_H
#define MSI_CUBE_GRID_H

#include "io/ms/ms_reader.h"
#include "src/sky/output_channels.h"

/* A place on the spectral axis, or a distance. */
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
} msi_cube_request;

/* msi_velocity_hz - return the frequency of a line at a velocity, m/s. */
double msi_velocity_hz(msi_velocity velocity, double rest_hz, double m_s);

/* msi_hz_velocity - return the velocity of a frequency, m/s. */
double msi_hz_velocity(msi_velocity velocity, double rest_hz, double hz);

/* msi_cube_request_is_made - return 1 if any of start, width, n_plane and frame is given. */
int msi_cube_request_is_made(const msi_cube_request *request);

/*
 * msi_cube_grid_make - find the planes. An integer start is a channel of the data, counted from 0 in order of frequency
 * over all selected windows; an integer width is as many channels, of which the first plane begins with the start. They
 * are converted to the frame at the first selected time, towards the first field. Without a start, planes begin at
 * the first channel, or at the last one if the width is negative.
 * Given:    reader  opened with request->frame as the frame of its selection
 * Returned: *grid   regular planes of ascending frequency; descends tells that the cube has them in the other order
 * Returns:  0, MSI_EINPUT (no rest frequency, planes outside the data, a width of 0), MSI_ENOMEM
 */
int msi_cube_grid_make(msi_channel_grid *grid, const msi_cube_request *request, const msi_ms_reader *reader);

#endif
