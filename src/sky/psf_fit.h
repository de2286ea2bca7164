/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beam of an image is an elliptical gaussian, fitted to the main lobe of its PSF. */
#ifndef MSI_SRC_PSF_FIT_H
#define MSI_SRC_PSF_FIT_H

#include "core/beam.h"
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

#endif
