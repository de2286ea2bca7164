/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Spectra of components: fits over joined channels that are linear become one matrix, made once. */
#ifndef MSI_CLEAN_SPECTRUM_H
#define MSI_CLEAN_SPECTRUM_H

/* Channels whose values are means of a spectrum over parts of them. */
typedef struct msi_clean_bands {
    int n_channel, n_part;
    const double *weight;  /* [n_channel] */
    const int *channel;    /* [n_part] */
    const double *share;   /* [n_part]; they sum to 1 in each channel */
    const double *freq_hz; /* [n_part] */
    double mean_hz;
} msi_clean_bands;

/*
 * msi_clean_polynomial - make the matrices of the least-squares polynomial of n_term coefficients in x = freq / mean -
 * 1, whose means over channels fit values y with the channels' weights.
 * Given:    b  channels of weight 0 are evaluated, not fitted
 * Returned: term   [n_term][n_channel]     term y are its coefficients
 *           fit    [n_channel][n_channel]  fit y are its means over channels; F = X (X^T W X)^-1 X^T W
 *           expand [n_part][n_channel]     expand y are its values in the parts
 * Returns:  0, MSI_EARGUMENT (fewer different frequencies with weight than coefficients), MSI_ENOMEM
 */
int msi_clean_polynomial(const msi_clean_bands *b, int n_term, double *term, double *fit, double *expand);

/*
 * msi_clean_forced - make the matrix of a forced spectrum: a = sum w y / sum w f, values a f. It is not the
 * least-squares fit, which would leave a peak in the weighted mean where it is found again.
 * Returns:  0, MSI_EARGUMENT (the weighted mean of the spectrum is 0)
 */
int msi_clean_forced(int n, const double *weight, const double *spectrum, double *fit);

#endif
