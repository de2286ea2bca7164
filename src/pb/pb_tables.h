/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Published coefficients of primary beams. Polynomials are in x, the angle from the pointing in arcmin times GHz. */
#ifndef MSI_PB_TABLES_H
#define MSI_PB_TABLES_H

#include "core/types.h"

enum { MSI_PB_TERMS = 5 }; /* number of coefficients of a row: those of x^2, x^4 .. */

/* Coefficients at a frequency. */
typedef struct msi_pb_row {
    double mhz, coefficient[MSI_PB_TERMS];
} msi_pb_row;

/* A band of receivers, and its rows of coefficients. */
typedef struct msi_pb_band {
    const char *name;
    double low_mhz, high_mhz; /* frequency range of the receivers; the rows may cover less of it */
    int n_row;
    const msi_pb_row *row; /* [n_row] ascending in mhz */
} msi_pb_band;

/* The power of one kind of dish, S = 1 + a x^2 + b x^4 ..., or its inverse. */
typedef struct msi_pb_series {
    double scale[MSI_PB_TERMS]; /* factors of the coefficients of all rows */
    int is_inverse;             /* 1: the power is 1 / S, interpolated between rows; 0: it is S of the nearest row */
    double limit_x;             /* the published radius; 0: none */
    int n_band;
    const msi_pb_band *band; /* [n_band] ascending */
} msi_pb_series;

/* Squint and full width at half power of both feeds at a frequency, in arcmin: H x, H y, V x, V y. */
typedef struct msi_pb_feed_row {
    double mhz, squint[4], fwhm[4];
} msi_pb_feed_row;

typedef struct msi_pb_feed_band {
    const char *name;
    double low_mhz, high_mhz; /* frequency range of the receivers; bands overlap */
    int n_row;
    const msi_pb_feed_row *row; /* [n_row] ascending, MSI_PB_FEED_STEP apart */
} msi_pb_feed_band;

#define MSI_PB_FEED_STEP 50.0 /* MHz */

enum { MSI_PB_MEERKAT_BANDS = 3 };
extern const msi_pb_feed_band msi_pb_meerkat[MSI_PB_MEERKAT_BANDS]; /* UHF, L, S */
extern const msi_pb_series msi_pb_vla, msi_pb_atca, msi_pb_gmrt;
extern const msi_pb_series msi_pb_old_vla, msi_pb_old_atca; /* before 2010, before April 2009 */

#endif
