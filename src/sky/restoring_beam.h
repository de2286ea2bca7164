/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beam of an image is an elliptical gaussian, fitted to the main lobe of its PSF. */
#ifndef MSI_RESTORING_BEAM_H
#define MSI_RESTORING_BEAM_H

#include "core/image.h"

/* A fit may be bound; 0: it is not. */
typedef struct msi_psf_fit_constraints {
    int circular;   /* one width is fitted: b = 0, a = c */
    double box_rad; /* pixels farther than half of this from the centre, east or north, are left out but for its
                       neighbours */
} msi_psf_fit_constraints;

/*
 * msi_psf_fit - fit exp(-(a e^2 + 2 b e n + c n^2)) to a PSF by least squares, e east and n north of the centre.
 *
 * The peak is held at 1 on pixel (nx/2, ny/2), where a PSF has it by construction. The pixels fitted are those above
 * 0.35 of the peak that hang together with the centre, and always the centre's eight neighbours, so that a beam of
 * only two pixels still shows its angle. Levenberg-Marquardt, started from the quadratic that fits the logarithms.
 *
 * Given:    geometry         cells in radians
 *           psf [ny][nx]     float32 or float64 as precision says, divided by its centre's value first; NaN is left out
 * Returned: *beam            full widths at half maximum and position angle (north through east, [0, pi)), radians; NaN
 *                            on failure
 * Returns:  0; MSI_ERANGE (the centre is not positive, or the lobe does not fall off in every direction); MSI_ENOMEM.
 *           The message says which; an image without a beam is still an image.
 * Notes:    WSClean fits all pixels of a box ten beams wide, so that the sidelobes pull its beam; CASA fits those
 *           above 0.35 as here.
 */
int msi_psf_fit(msi_beam *beam, const msi_image_geometry *geometry, const void *psf, msi_precision precision,
                const msi_psf_fit_constraints *constraints);

/* The beam that images are restored with: given, fitted, or what the longest baseline tells. */

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
