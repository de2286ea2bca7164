/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An observation is what a Measurement Set says about itself, as FITS headers and logs need it. */
#ifndef MSI_CORE_OBSERVATION_H
#define MSI_CORE_OBSERVATION_H

#include "core/types.h"

typedef struct msi_observation {
    char telescope[64]; /* OBSERVATION::TELESCOPE_NAME */
    char observer[64];
    char object[64];        /* FIELD::NAME of the field imaged */
    char dir_frame[16];     /* J2000, ICRS, B1950, APP ..: MEASINFO of FIELD::PHASE_DIR */
    char time_scale[16];    /* UTC ..: MEASINFO of TIME */
    char spec_frame[16];    /* TOPO, LSRK, BARY ..: of SPECTRAL_WINDOW::MEAS_FREQ_REF; "" where undefined */
    double ra_rad, dec_rad; /* phase centre of the field */
    double start_mjd_s;     /* first and last selected TIME, MJD seconds */
    double end_mjd_s;
    double rest_freq_hz;       /* SOURCE::REST_FREQUENCY, 0 where unknown */
    double antenna_itrf_m[3];  /* mean antenna position, for OBSGEO-X/Y/Z; all 0 where unknown */
    double longest_baseline_m; /* largest distance between two antennas in ANTENNA */
} msi_observation;

#endif
