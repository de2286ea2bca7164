/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes the stations of an array: a layout that resembles one of three telescopes, or positions from a file. */
#ifndef MSI_TESTDATA_ARRAY_LAYOUT_H
#define MSI_TESTDATA_ARRAY_LAYOUT_H

#include <stdint.h>

typedef struct msi_station {
    double itrf_m[3]; /* geocentric */
    double diameter_m;
    char name[32];
} msi_station;

typedef struct msi_layout {
    char telescope[32]; /* as OBSERVATION::TELESCOPE_NAME */
    int n_station;
    msi_station *station;               /* [n_station] owned */
    double longitude_rad, latitude_rad; /* of the array's reference point, east and geodetic */
    int circular_feeds;                 /* R and L rather than X and Y */
    double first_freq_hz, band_hz;      /* a band of the telescope, for defaults */
} msi_layout;

/*
 * msi_layout_vla - make 27 antennas on a Y of three arms. The distance along an arm is proportional to the antenna's
 * number to the power 1.716.
 *
 * Given:    config  'A' (arms of 21 km), 'B' (6.4 km), 'C' (1.9 km) or 'D' (0.6 km)
 * Returned: *out    freed by msi_layout_free
 * Returns:  0, MSI_EUSAGE (another letter), MSI_ENOMEM
 */
int msi_layout_vla(msi_layout *out, char config);

/*
 * msi_layout_meerkat - make 64 dishes: 70 % in a Gaussian core of 300 m standard deviation, the others log-uniform in
 * radius out to 4 km. No baseline is longer than 8 km.
 *
 * Given:    seed  of the positions
 * Returns:  0, MSI_ENOMEM
 */
int msi_layout_meerkat(msi_layout *out, uint64_t seed);

/*
 * msi_layout_skalow - make stations of 38 m: half of them in a dense disc of 500 m radius (wider for more than 512
 * stations), the others on three logarithmic spiral arms out to 37 km.
 *
 * Given:    n_station  2 to 10000; seed  of the positions
 * Returns:  0, MSI_EUSAGE, MSI_ENOMEM
 */
int msi_layout_skalow(msi_layout *out, int n_station, uint64_t seed);

/*
 * msi_layout_read - read stations from a text file: lines `X Y Z diameter name`, geocentric metres. Empty lines
 * and lines that begin with # are ignored. The telescope's name is the file's name without directory and extension.
 *
 * Returns:  0, MSI_EINPUT (not readable, an invalid line, fewer than 2 stations), MSI_ENOMEM
 */
int msi_layout_read(msi_layout *out, const char *path);

/* msi_layout_longest_m - return the largest distance between two stations. */
double msi_layout_longest_m(const msi_layout *layout);

/* msi_layout_free - free the stations and leave the struct empty. */
void msi_layout_free(msi_layout *layout);

#endif
