/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Spectra of models that depend on the place: of true flux, where images respond to the sky by a primary beam, whose
 * spectrum is not part of the sky's; or of spectral indices that an image gives.
 */
#ifndef MSI_SEEN_SPECTRA_H
#define MSI_SEEN_SPECTRA_H

#include <stdint.h>

#include "kernels/cleaner.h"

/* The responses of the images of a field to the sky. */
typedef struct msi_clean_sight {
    /*
     * respond - NULL: the images show the sky. Else find the responses at a pixel. Threads call it at the same time.
     * Returned: response  [n_channel][n_pol][n_pol] image by sky, of imaged channels; NaN or 0 where it is not known
     */
    void (*respond)(const void *user, int64_t pixel, double *response);
    const void *user;
    int n_channel, n_pol;
    /* [n_forced][n_pixel] the terms of the log-polynomial after the first; where one is not finite, they are fitted.
     * NULL: they are fitted everywhere. */
    const float *forced;
    int n_forced;
    int64_t n_pixel;
} msi_clean_sight;

/*
 * msi_seen_spectra_fit - replace models by their spectra of true flux, as the images see them.
 * Given:              pol    the polarisation of the planes; -1: all
 * Given and returned: model  [n_cleaned][polarisations] of the cleaned channels
 * Returned:           part   [n_channel][polarisations] of the imaged channels; NULL: they are the cleaned ones
 * Returns:            0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_seen_spectra_fit(const msi_clean_sight *sight, const msi_cleaner *cleaner, int pol, msi_planes *model,
                         msi_planes *part);

/* msi_seen_spectra_work - return the numbers of work memory that msi_seen_spectra_terms needs. */
int64_t msi_seen_spectra_work(const msi_clean_sight *sight);

/*
 * msi_seen_spectra_terms - find the terms of the true spectrum of a pixel of one polarisation.
 * Given:    value  [n_value] of the images of the cleaned channels
 * Returned: term   [msi_cleaner_n_term]
 *           seen   [n_value] the values of the spectrum in the images; NULL: not wanted
 *           work   [msi_seen_spectra_work] overwritten; each thread needs its own
 */
void msi_seen_spectra_terms(const msi_clean_sight *sight, const msi_cleaner *cleaner, int pol, int64_t pixel,
                            int n_value, const double *value, double *term, double *seen, double *work);

#endif
