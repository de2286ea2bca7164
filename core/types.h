/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Small types and constants that C, C++ and CUDA share. */
#ifndef MSI_TYPES_H
#define MSI_TYPES_H

#include <math.h>
#include <stdint.h>

typedef struct msi_c32 {
    float re, im;
} msi_c32;

typedef struct msi_c64 {
    double re, im;
} msi_c64;

typedef enum msi_precision { MSI_FP32, MSI_FP64 } msi_precision;

/* msi_complex_bytes - return the size of a complex number in bytes. */
static inline int64_t msi_complex_bytes(msi_precision precision)
{
    return precision == MSI_FP32 ? sizeof(msi_c32) : sizeof(msi_c64);
}

#define MSI_SPEED_OF_LIGHT 299792458.0
#define MSI_PI             3.14159265358979323846

/* Stokes parameters and correlations, numbered as CASA's CORR_TYPE; the FITS STOKES axis has its own numbers. */
typedef enum msi_pol {
    MSI_POL_I = 1,
    MSI_POL_Q,
    MSI_POL_U,
    MSI_POL_V,
    MSI_POL_RR,
    MSI_POL_RL,
    MSI_POL_LR,
    MSI_POL_LL,
    MSI_POL_XX,
    MSI_POL_XY,
    MSI_POL_YX,
    MSI_POL_YY
} msi_pol;

enum { MSI_MAX_CORR = 4 };

/*
 * A block of visibilities for a gridder: rows of one spectral setup, converted to real image planes (Stokes
 * parameters), with phases shifted to the image's centre. Arrays are borrowed for the call. vis and weight may be NULL
 * if only coordinates are needed, for predictions.
 */
typedef struct msi_vis_block {
    int64_t n_row;
    int32_t n_chan;
    int32_t n_plane;
    const double *uvw_m;    /* [n_row][3]  metres, not conjugated */
    const double *freq_hz;  /* [n_chan] */
    const msi_c64 *vis;     /* [n_plane][n_row][n_chan]  Jy, unweighted */
    const float *weight;    /* [n_plane][n_row][n_chan]  >= 0; 0 leaves the sample out of that plane */
    const msi_c32 *vis_f32; /* used if vis is NULL */
    const uint64_t *tag;    /* [n_row] numbers of the caller that are stored with rows (msi_gridder_spec.tagged) */
} msi_vis_block;

/* Metadata of a Measurement Set, for FITS headers and logs. */
typedef struct msi_observation {
    char telescope[64]; /* OBSERVATION::TELESCOPE_NAME */
    char observer[64];
    char object[64];        /* FIELD::NAME of the field imaged */
    char dir_frame[16];     /* J2000, ICRS, B1950, APP ..: MEASINFO of FIELD::PHASE_DIR */
    char time_scale[16];    /* UTC ..: MEASINFO of TIME */
    char spec_frame[16];    /* TOPO, LSRK, BARY ..: SPECTRAL_WINDOW::MEAS_FREQ_REF; "" if undefined */
    double ra_rad, dec_rad; /* phase centre of the field */
    double start_mjd_s;     /* first and last selected TIME, MJD seconds */
    double end_mjd_s;
    double rest_freq_hz;       /* SOURCE::REST_FREQUENCY, 0 if unknown */
    double antenna_itrf_m[3];  /* mean antenna position, for OBSGEO-X/Y/Z; all 0 if unknown */
    double longest_baseline_m; /* largest distance between two antennas in ANTENNA */
} msi_observation;

/* Rotations of the Earth in a day of UT1. Source: linear term of Aoki et al. 1982, A&A 105, 359. */
#define MSI_TURNS_PER_DAY 1.00273790935079524

/* msi_sidereal_turns - return Greenwich mean sidereal time in turns, 0 .. 1. Given: mjd  UT1. Source: as above. */
static inline double msi_sidereal_turns(double mjd)
{
    const double turns = 0.77905727325 + MSI_TURNS_PER_DAY * (mjd - 51544.5);
    return turns - floor(turns);
}

#endif
