/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Exact visibilities of point sources: V = sum S exp(+2 pi i (u l + v m + w (n-1))), wrong by less than 1e-12 of the
 * summed flux where |u l| + |v m| + |w (n-1)| is at most a million turns.
 */
#ifndef MSI_TESTDATA_POINT_MODEL_H
#define MSI_TESTDATA_POINT_MODEL_H

#include <stdint.h>

#include "core/types.h"

/* A source on the tangent plane of a phase centre. */
typedef struct msi_point_source {
    double l, m;           /* as msi_sky_to_lm gives them; l^2 + m^2 < 1 */
    double stokes_jy[4];   /* I Q U V at the reference frequency */
    double spectral_index; /* all four go as (freq / reference)^index */
} msi_point_source;

/* Holds what a model is made of. */
typedef struct msi_point_spec {
    const msi_point_source *source; /* [n_source] */
    int n_source;
    double reference_freq_hz;
    const double *freq_hz; /* [n_chan] positive, in any order */
    int n_chan;
    const msi_pol *corr; /* [n_corr] linear XX = I+Q, XY = U+iV, YX = U-iV, YY = I-Q; circular RR = I+V, RL = Q+iU,
                            LR = Q-iU, LL = I-V; or Stokes I Q U V */
    int n_corr;
} msi_point_spec;

typedef struct msi_point_model msi_point_model;

/*
 * msi_point_model_create - prepare sources for one set of channels and correlations.
 *
 * Returned: *out  owned, freed by msi_point_model_free; the arrays are copied
 * Returns:  0, MSI_EUSAGE (a source beyond the horizon, a frequency that is not positive, an unknown correlation),
 *           MSI_ENOMEM
 */
int msi_point_model_create(msi_point_model **out, const msi_point_spec *spec);

/*
 * msi_point_model_evaluate - compute the visibilities of some rows, on all cores.
 *
 * Given:    uvw_m [n_row][3]  metres
 * Returned: vis [n_row][n_chan][n_corr]  Jy
 * Notes:    the result does not depend on the number of threads or on how rows are blocked.
 */
void msi_point_model_evaluate(const msi_point_model *model, int64_t n_row, const double *uvw_m, msi_c64 *vis);

/* msi_point_model_free - NULL is fine. */
void msi_point_model_free(msi_point_model *model);

#endif
