/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A beam is the elliptical gaussian that stands for a PSF's main lobe. */
#ifndef MSI_CORE_BEAM_H
#define MSI_CORE_BEAM_H

/* Full widths at half maximum; the position angle of the major axis grows from north through east, in [0, pi).
 * Unknown where major_rad is not positive: a zero-initialised beam, or the NaNs of a fit that failed. */
typedef struct msi_beam {
    double major_rad, minor_rad, pa_rad;
} msi_beam;

static inline int msi_beam_known(const msi_beam *b)
{
    return b->major_rad > 0 && b->minor_rad > 0;
}

#endif
