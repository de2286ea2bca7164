/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Spectra of components: fits over joined channels that are linear become one matrix, made once. */
#ifndef MSI_CLEAN_SPECTRUM_H
#define MSI_CLEAN_SPECTRUM_H

/*
 * msi_clean_polynomial - the matrix F of the least-squares polynomial of n_term coefficients in x = freq / mean - 1,
 * mean = sum w freq / sum w: the fit of values y is F y. F = X (X^T W X)^-1 X^T W.
 * Given:    weight, freq_hz [n]; channels of weight 0 are evaluated, not fitted
 * Returned: fit [n][n]
 * Returns:  0, MSI_EARGUMENT (fewer different frequencies with weight than coefficients)
 */
int msi_clean_polynomial(int n, const double *weight, const double *freq_hz, int n_term, double *fit);

/*
 * msi_clean_forced - the matrix of a forced spectrum: a = sum w y / sum w f, values a f. It is not the least-squares
 * fit, which would leave a peak in the weighted mean where it is found again.
 * Returns:  0, MSI_EARGUMENT (the weighted mean of the spectrum is 0)
 */
int msi_clean_forced(int n, const double *weight, const double *spectrum, double *fit);

#endif
