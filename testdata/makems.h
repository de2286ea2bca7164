/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Writes Measurement Sets with the exact visibilities of given point sources. */
#ifndef MSI_TESTDATA_MAKEMS_H
#define MSI_TESTDATA_MAKEMS_H

#include <stdint.h>

#include "core/types.h"
#include "testdata/array_layout.h"
#include "testdata/ms_defects.h"

/* Observations start less than a sidereal day after this time if no date is given: 2023-02-25, MJD 60000. */
#define MSI_MAKEMS_EPOCH_MJD_S (60000.0 * 86400.0)

typedef struct msi_makems_field {
    char name[64];
    double ra_rad, dec_rad; /* phase centre */
} msi_makems_field;

typedef struct msi_makems_spw {
    int n_chan;
    double first_freq_hz; /* centre of channel 0 */
    double step_hz;       /* to the next channel's centre; its absolute value is the channel width */
    int n_corr;
    msi_pol corr[MSI_MAX_CORR];
} msi_makems_spw;

typedef struct msi_makems_source {
    double ra_rad, dec_rad;
    double stokes_jy[4]; /* I Q U V at the reference frequency */
    double spectral_index;
} msi_makems_source;

/* Storage manager of DATA, CORRECTED_DATA, FLAG, WEIGHT_SPECTRUM. UVW, WEIGHT, SIGMA are tiled unless STANDARD. */
typedef enum msi_makems_storage {
    MSI_MAKEMS_TILED_SHAPE,
    MSI_MAKEMS_TILED_COLUMN, /* all spws must have one shape */
    MSI_MAKEMS_STANDARD
} msi_makems_storage;

typedef enum msi_makems_spw_order {
    MSI_MAKEMS_SPW_BY_TIME, /* all baselines of one spw, then of the next, then the next timestep */
    MSI_MAKEMS_SPW_BY_ROW,  /* the spws of one baseline in neighbouring rows */
    MSI_MAKEMS_SPW_SEPARATE /* one spw after another */
} msi_makems_spw_order;

typedef enum msi_makems_weights {
    MSI_MAKEMS_WEIGHTS_NATURAL,   /* 1 */
    MSI_MAKEMS_WEIGHTS_RADIOMETER /* 1 / (T_i T_j) for feeds of different temperatures, times a bandpass in
                                     WEIGHT_SPECTRUM; about 1 on average */
} msi_makems_weights;

typedef enum msi_makems_weight_spectrum {
    MSI_MAKEMS_SPECTRUM_NONE,  /* no column */
    MSI_MAKEMS_SPECTRUM_FULL,  /* every cell */
    MSI_MAKEMS_SPECTRUM_PARTLY /* a random third of the cells have no value */
} msi_makems_weight_spectrum;

typedef enum msi_makems_columns {
    MSI_MAKEMS_DATA,
    MSI_MAKEMS_CORRECTED_DATA,
    MSI_MAKEMS_BOTH /* CORRECTED_DATA is right, DATA is half of it */
} msi_makems_columns;

/*
 * The set to write. All pointers are borrowed for the call. Members that are not required may be 0.
 *
 * Flagged samples and rows have 1000 times the flux of all sources, so that a reader that ignores flags is noticed.
 * Noise, flags and weights depend only on the seed and on timestep, baseline, spw, channel and correlation.
 */
typedef struct msi_makems_spec {
    const msi_layout *layout;      /* required */
    int n_field;                   /* required; scans visit the fields in turn */
    const msi_makems_field *field; /* [n_field] */
    int n_spw;                     /* required */
    const msi_makems_spw *spw;     /* [n_spw] */
    int n_source;
    const msi_makems_source *source; /* [n_source] a field ignores sources more than 90 degrees away */
    double reference_freq_hz;        /* of fluxes; 0: midway between the lowest and the highest channel */
    double start_mjd_s;              /* start of the first integration; 0: the first field transits half-way */
    double integration_s;            /* required */
    int64_t n_time;                  /* timesteps; 0 gives a set without rows */
    int64_t times_per_scan;          /* 0: one scan */
    int autocorrelations;            /* rows with ANTENNA1 == ANTENNA2 too */
    uint64_t seed;
    double noise_jy;          /* of the real and of the imaginary part at weight 1; scales as 1 / sqrt(weight) */
    double flag_fraction;     /* of row x channel; in a quarter of these only one correlation is flagged */
    double flag_row_fraction; /* of rows: only FLAG_ROW is set (WSClean reads only FLAG) */
    msi_makems_weights weights;
    msi_makems_weight_spectrum weight_spectrum;
    msi_makems_columns columns;
    msi_makems_storage storage;
    msi_makems_spw_order spw_order;
    msi_ms_defect defect;
    const char *command; /* for HISTORY; NULL: none */
    int overwrite;       /* replace an existing Measurement Set, but no other file */
    int show_progress;
} msi_makems_spec;

/*
 * msi_makems_write - write a Measurement Set.
 *
 * The set gets a temporary name next to `path`, and is renamed when it is complete. After a failure it is removed.
 * Returns: 0, MSI_EUSAGE (the specification is invalid, or `path` exists), MSI_EOUTPUT, MSI_ENOMEM,
 *          MSI_EINTERRUPTED
 */
int msi_makems_write(const char *path, const msi_makems_spec *spec);

/* msi_makems_start - return the first time after MSI_MAKEMS_EPOCH_MJD_S at which field 0 has this hour angle. */
double msi_makems_start(const msi_makems_spec *spec, double hour_angle_rad);

/* msi_makems_n_baseline - return the rows of one timestep and spw. msi_makems_n_row - return the rows of the set. */
int64_t msi_makems_n_baseline(const msi_makems_spec *spec);
int64_t msi_makems_n_row(const msi_makems_spec *spec);

/* msi_makems_reference_freq - return reference_freq_hz, or its default if it is 0. */
double msi_makems_reference_freq(const msi_makems_spec *spec);

/*
 * msi_makems_random_sources - draw n random sources in a square field. Fluxes are 0.1 to 1 Jy with N(>S)
 * proportional to 1/S, spectral indices are about -0.7, and some sources are polarised.
 *
 * Given:    n, seed; ra_rad, dec_rad, width_rad  centre and side of the field
 * Returned: source [n], caller's
 */
void msi_makems_random_sources(msi_makems_source *source, int n, uint64_t seed, double ra_rad, double dec_rad,
                               double width_rad);

#endif
