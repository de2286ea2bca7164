/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beam that images are restored with: given, fitted, or what the longest baseline tells. */
#ifndef MSI_SRC_RESTORING_BEAM_H
#define MSI_SRC_RESTORING_BEAM_H

#include "core/beam.h"
#include "core/image.h"

/* A user may ask this of the beam; zero: an ellipse fitted to the PSF. */
typedef struct msi_beam_choice {
    msi_beam given;      /* -beam-shape, or -beam-size with both widths alike; unknown: none given */
    int circular;        /* -circular-beam: a circle is fitted; a given ellipse stays one */
    int theoretic;       /* -theoretic-beam: the fit is left out */
    int no_fit;          /* -no-fit-beam: no beam, unless one is given or the theoretic one asked for */
    double fitting_size; /* -beam-fitting-size: pixels of a box this many theoretic beams wide are fitted; 0: those of
                            the main lobe, however far it reaches */
} msi_beam_choice;

/* A beam is from one of these. */
typedef enum msi_beam_origin {
    MSI_BEAM_NONE,
    MSI_BEAM_GIVEN,
    MSI_BEAM_FITTED,
    MSI_BEAM_THEORETIC /* a circle as wide as a wavelength over the longest baseline */
} msi_beam_origin;

/* The PSF that a beam is for. */
typedef struct msi_beam_psf {
    msi_image_geometry geometry;
    const void *pixel; /* [ny][nx]; not looked at where the choice needs no fit */
    msi_precision precision;
    double theoretic_rad; /* wavelength over the longest baseline; 0: unknown */
} msi_beam_psf;

/*
 * msi_restoring_beam - choose the beam.
 * Returned: *beam    NaN where there is none: nothing was asked for, or the fit failed
 *           *origin
 * Returns:  0, MSI_ENOMEM; a fit that fails is no failure of the call: *origin is MSI_BEAM_NONE then, and
 *           msi_error_get says why
 */
int msi_restoring_beam(msi_beam *beam, msi_beam_origin *origin, const msi_beam_choice *choice, const msi_beam_psf *psf);

#endif
