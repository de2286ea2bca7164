/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beam of an image: fitted to the main lobe of its PSF, given, or computed from the longest baseline. */
#ifndef MSI_RESTORING_BEAM_H
#define MSI_RESTORING_BEAM_H

#include "core/image.h"

/* The pixels that a fit uses. */
typedef enum msi_beam_rule {
    MSI_BEAM_LOBE,   /* the main lobe down to 0.35, resampled so finely that the pixel size does not matter */
    MSI_BEAM_WSCLEAN /* the pixels of WSClean 3.1: a quarter, west and north of the centre, of a box of ten beams */
} msi_beam_rule;

/* Constraints of a fit; 0: unconstrained. */
typedef struct msi_psf_fit_constraints {
    int circular;   /* fit one width: b = 0, a = c */
    double box_rad; /* leave out pixels farther than half of this from the centre, east or north, except the centre's
                       neighbours */
} msi_psf_fit_constraints;

/*
 * msi_psf_fit - fit exp(-(a e^2 + 2 b e n + c n^2)) to a PSF by least squares, e east and n north of the centre.
 *
 * The peak is fixed at 1 on pixel (nx/2, ny/2), where every PSF has it. The fit uses the area around the centre that is
 * above 0.35 of the peak. If a beam has fewer than 64 pixels across, the PSF is resampled, so that the result does not
 * depend on the pixel size. If the image is too small for resampling, the fit uses the pixels, including the centre's
 * eight neighbours. The method is Levenberg-Marquardt; it starts from a fit of a quadratic form to the logarithms.
 *
 * Given:    geometry         cells in radians
 *           psf [ny][nx]     in the given precision; divided by the value at its centre before the fit; NaN is ignored
 * Returned: *beam            full widths at half maximum and position angle (north through east, [0, pi)), radians; NaN
 *                            on failure
 * Returns:  0; MSI_ERANGE (the centre is not positive, or the lobe does not fall off in every direction); MSI_ENOMEM.
 *           The message says which. The image is valid without a beam.
 */
int msi_psf_fit(msi_beam *beam, const msi_image_geometry *geometry, const void *psf, msi_precision precision,
                const msi_psf_fit_constraints *constraints);

/* The user's choice of the beam; zero: an ellipse that is fitted to the PSF. */
typedef struct msi_beam_choice {
    msi_beam given; /* -beam-shape, or -beam-size with two equal widths; unknown: not given */
    msi_beam_rule rule;
    int circular;  /* -circular-beam: fit a circle; a given ellipse is not changed */
    int theoretic; /* -theoretic-beam: do not fit */
    int no_fit;    /* -no-fit-beam: no beam, unless it is given or -theoretic-beam is set */
    double
        fitting_size; /* -beam-fitting-size: fit the pixels of a box this many theoretic beams wide; 0: the whole main
                            lobe */
} msi_beam_choice;

/*
 * msi_psf_fit_wsclean - fit a beam as WSClean 3.1 does.
 *
 * The fit uses the pixels of a box of ten beams around the centre, so sidelobes influence the beam. Only the
 * north-western quarter counts, because the unsigned arithmetic of WSClean's code makes pixels east or south of the
 * centre infinitely distant. The first box has the size for the estimate. The box grows while the beam is more than
 * 1.25 times as wide as assumed.
 *
 * Given:    estimate_rad  wavelength / longest baseline, or the taper's width if that is larger
 *           box           widths of the box in beams; 0: ten
 * Others, and Returns: as msi_psf_fit
 */
int msi_psf_fit_wsclean(msi_beam *beam, const msi_image_geometry *geometry, const void *psf, msi_precision precision,
                        double estimate_rad, double box, int circular);

/* Origin of a beam. */
typedef enum msi_beam_origin {
    MSI_BEAM_NONE,
    MSI_BEAM_GIVEN,
    MSI_BEAM_FITTED,
    MSI_BEAM_THEORETIC /* a circle with the width wavelength / longest baseline */
} msi_beam_origin;

/* The PSF of a beam. */
typedef struct msi_beam_psf {
    msi_image_geometry geometry;
    const void *pixel; /* [ny][nx]; not read if the choice needs no fit */
    msi_precision precision;
    double theoretic_rad; /* wavelength / longest baseline; 0: unknown */
} msi_beam_psf;

/*
 * msi_restoring_beam - choose the beam.
 * Returned: *beam    NaN if there is none: it was not requested, or the fit failed
 *           *origin
 * Returns:  0, MSI_ENOMEM; if the fit fails, the function returns 0, *origin is MSI_BEAM_NONE, and
 *           msi_error_get returns the reason
 */
int msi_restoring_beam(msi_beam *beam, msi_beam_origin *origin, const msi_beam_choice *choice, const msi_beam_psf *psf);

#endif
