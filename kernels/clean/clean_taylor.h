/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Multi-term cleaning (U. Rau and T. J. Cornwell, A&A 532, A71 (2011)) by a cleaner of joined channels.
 *
 * A spectrum is a polynomial of n_term coefficients in x = frequency / reference_hz - 1. Its PSFs are
 * P_n = sum w x^n .. for n up to 2 n_term - 2, its residuals R_t = sum w x^t (V - V_model) .., all divided by sum w. A
 * component c changes R_t by sum over q of P_(t+q) c_q, so the terms cannot be cleaned one by one. The many frequencies
 * of the samples are replaced by a few nodes x_k with shares g_k of the weight, by Gauss quadrature for the weights of
 * the samples. There are n_node = 2 n_term - 1 nodes, or as many as there are frequencies. With Lagrange's polynomials
 * L_k over the nodes, x^n = sum_k x_k^n L_k(x) for every power that occurs, so
 *
 *     P_n = sum_k g_k x_k^n p_k          with the PSFs of the nodes  p_k = sum w L_k(x) .. / g_k, which are 1 in the
 *     middle R_t = sum_k g_k x_k^t r_k
 *
 * and a component changes r_k by p_k times its value at node k. A cleaner of joined channels does the same with
 * channels of weights g_k at the frequencies of the nodes. Its weighted least-squares polynomial of n_term coefficients
 * is the solution H^-1 R with the Hessian H_tq = P_(t+q)(0), because H_tq = sum_k g_k x_k^(t+q). The residuals r_k are
 * not unique; the values of the polynomial H^-1 R are used.
 */
#ifndef MSI_CLEAN_TAYLOR_H
#define MSI_CLEAN_TAYLOR_H

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_TAYLOR_MAX_TERM = 4, MSI_TAYLOR_MAX_NODE = 2 * MSI_TAYLOR_MAX_TERM - 1 };

/* Nodes, and matrices between planes of terms and of nodes. */
typedef struct msi_clean_taylor {
    int n_term, n_node; /* n_term 0: no Taylor terms */
    double reference_hz;
    double x[MSI_TAYLOR_MAX_NODE], share[MSI_TAYLOR_MAX_NODE], freq_hz[MSI_TAYLOR_MAX_NODE];
    double psf[MSI_TAYLOR_MAX_NODE * MSI_TAYLOR_MAX_NODE];      /* [n_node][2 n_term - 1] from P_n */
    double residual[MSI_TAYLOR_MAX_NODE * MSI_TAYLOR_MAX_TERM]; /* [n_node][n_term] from R_t */
    double term[MSI_TAYLOR_MAX_TERM * MSI_TAYLOR_MAX_NODE];     /* [n_term][n_node] the terms of values at the nodes */
} msi_clean_taylor;

/*
 * msi_clean_taylor_make - find the nodes of a distribution of weights.
 * Given:   n_term               2 to MSI_TAYLOR_MAX_TERM
 *          reference_hz         > 0
 *          middle_hz, half_hz   y = (frequency - middle) / half lies in -1 .. 1
 *          moment [4 n_term - 2]  sum w y^k, k = 0, 1 ..
 * Returns: 0, MSI_EINPUT (fewer different frequencies with weight than terms)
 */
int msi_clean_taylor_make(msi_clean_taylor *t, int n_term, double reference_hz, double middle_hz, double half_hz,
                          const double *moment);

/*
 * Sums over nodes that are used to search components of terms at a scale: R_t = sum_k g_k x_k^t R_k, where x is any
 * linear function of frequency. With the scale's Hessian H_tq = sum_k g_k x_k^(t+q) (P_k * K * K)(0) = L L^T, the root
 * of R^T H^-1 R is the length of L^-1 R.
 */
typedef struct msi_clean_taylor_rows {
    double sums[MSI_TAYLOR_MAX_TERM * MSI_TAYLOR_MAX_NODE];    /* [n_term][n_node] from nodes to R_t */
    double inverse[MSI_TAYLOR_MAX_TERM * MSI_TAYLOR_MAX_TERM]; /* [n_term][n_term] L^-1 */
    double rows[MSI_TAYLOR_MAX_TERM * MSI_TAYLOR_MAX_NODE];    /* [n_term][n_node] their product */
} msi_clean_taylor_rows;

/*
 * msi_clean_taylor_rows_make - make the sums of a scale.
 * Given:   share, response  [n_node] g_k and (P_k * K * K)(0)
 * Returns: 0 if H is not positive definite: L^-1 R is then R_0 over the root of H_00
 */
int msi_clean_taylor_rows_make(msi_clean_taylor_rows *r, int n_term, int n_node, const double *freq_hz,
                               const double *share, const double *response);

#ifdef __cplusplus
}
#endif
#endif
