/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/stokes.h"

#include <stddef.h>

#include "core/status.h"

/* The two Stokes parameters of each correlation, with their factors. */
static const struct recipe {
    msi_pol corr, pol[2];
    msi_c64 factor[2];
} recipes[] = {
    {MSI_POL_XX, {MSI_POL_I, MSI_POL_Q}, {{1, 0}, {1, 0}}}, {MSI_POL_YY, {MSI_POL_I, MSI_POL_Q}, {{1, 0}, {-1, 0}}},
    {MSI_POL_XY, {MSI_POL_U, MSI_POL_V}, {{1, 0}, {0, 1}}}, {MSI_POL_YX, {MSI_POL_U, MSI_POL_V}, {{1, 0}, {0, -1}}},
    {MSI_POL_RR, {MSI_POL_I, MSI_POL_V}, {{1, 0}, {1, 0}}}, {MSI_POL_LL, {MSI_POL_I, MSI_POL_V}, {{1, 0}, {-1, 0}}},
    {MSI_POL_RL, {MSI_POL_Q, MSI_POL_U}, {{1, 0}, {0, 1}}}, {MSI_POL_LR, {MSI_POL_Q, MSI_POL_U}, {{1, 0}, {0, -1}}},
};

/* Return the index of a plane; -1 if it is missing. */
static int find_plane(msi_pol wanted, int imaginary, const msi_plane *planes, int n_plane)
{
    for (int i = 0; i < n_plane; i++)
        if (planes[i].pol == wanted && planes[i].imaginary == imaginary) return i;
    return -1;
}

/* Add a plane to the sum. A missing plane (-1) is zero. */
static void add_term(msi_unmix *u, int plane, msi_c64 factor)
{
    if (plane < 0) return;
    u->plane[u->n] = plane;
    u->factor[u->n++] = factor;
}

/* Add the planes of a hand to the sum, or the complex conjugate of the other cross hand. Returns: 1 if there are such
 * planes */
static int add_hand(msi_unmix *u, msi_pol hand, const msi_plane *planes, int n_plane)
{
    const int is_there = find_plane(hand, 0, planes, n_plane) >= 0;
    const msi_pol pol = is_there ? hand : msi_other_hand(hand);
    add_term(u, find_plane(pol, 0, planes, n_plane), (msi_c64){1, 0});
    add_term(u, find_plane(pol, 1, planes, n_plane), (msi_c64){0, is_there ? 1 : -1});
    return u->n > 0;
}

int msi_pols_share_flux(msi_pol a, msi_pol b)
{
    for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
        for (int i = 0; i < 2; i++)
            if ((recipes[r].corr == a && recipes[r].pol[i] == b) || (recipes[r].corr == b && recipes[r].pol[i] == a))
                return 1;
    return 0;
}

int msi_unmix_make(msi_unmix *unmix, const msi_plane *planes, int n_plane, const msi_pol *corr, int n_corr)
{
    int n_hand = 0, are_hands = 0;
    for (int p = 0; p < n_plane; p++) are_hands |= planes[p].pol > MSI_POL_V;
    for (int k = 0; k < n_corr; k++) {
        msi_unmix *u = &unmix[k];
        *u = (msi_unmix){0};
        n_hand += add_hand(u, corr[k], planes, n_plane);
        for (size_t r = 0; r < sizeof recipes / sizeof *recipes; r++)
            for (int i = 0; i < 2 && recipes[r].corr == corr[k]; i++)
                add_term(u, find_plane(recipes[r].pol[i], 0, planes, n_plane), recipes[r].factor[i]);
    }
    if (n_hand || !are_hands) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "the set does not have the correlations of the models; give models of Stokes parameters");
}

void msi_correlations_convert(const msi_unmix *unmix, int n_corr, int64_t n_row, msi_channel_range channels,
                              const msi_c64 *vis, int32_t n_chan_out, msi_c32 *out)
{
    const int32_t n_chan = channels.n;
    const int64_t n_sample = n_row * n_chan;
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < n_row; row++)
        for (int32_t c = 0; c < n_chan; c++) {
            msi_c32 *to = out + (row * n_chan_out + channels.first + c) * n_corr;
            const msi_c64 *from = vis + row * n_chan + c;
            for (int k = 0; k < n_corr; k++) {
                const msi_unmix *u = &unmix[k];
                msi_c64 sum = {0, 0};
                for (int i = 0; i < u->n; i++) {
                    msi_c64 v = from[u->plane[i] * n_sample], f = u->factor[i];
                    sum.re += f.re * v.re - f.im * v.im;
                    sum.im += f.re * v.im + f.im * v.re;
                }
                to[k] = (msi_c32){(float)sum.re, (float)sum.im};
            }
        }
}
