/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/restoring_beam.h"

#include <math.h>

#include "core/status.h"
#include "src/sky/psf_fit.h"

int msi_restoring_beam(msi_beam *beam, msi_beam_origin *origin, const msi_beam_choice *choice, const msi_beam_psf *psf)
{
    *beam = (msi_beam){NAN, NAN, NAN};
    *origin = MSI_BEAM_NONE;
    if (msi_beam_known(&choice->given)) {
        *beam = choice->given;
        *origin = MSI_BEAM_GIVEN;
        return MSI_OK;
    }
    if (choice->theoretic) {
        if (!(psf->theoretic_rad > 0)) {
            (void)msi_error_set(MSI_ERANGE, "no beam: the longest baseline is not known");
            return MSI_OK;
        }
        *beam = (msi_beam){psf->theoretic_rad, psf->theoretic_rad, 0};
        *origin = MSI_BEAM_THEORETIC;
        return MSI_OK;
    }
    if (choice->no_fit) return MSI_OK;
    const msi_psf_fit_constraints constraints = {choice->circular, choice->fitting_size * psf->theoretic_rad};
    const int rc = msi_psf_fit(beam, &psf->geometry, psf->pixel, psf->precision, &constraints);
    if (!rc) *origin = MSI_BEAM_FITTED;
    return rc == MSI_ERANGE ? MSI_OK : rc;
}
