/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests conversion of model planes to correlations: the inverse of the Stokes conversion, for any feeds, hands and
 * order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "src/sky/stokes.h"

enum { N_ROW = 3, N_CHAN = 4, FIRST = 2, N_OUT = 7, N_SAMPLE = N_ROW * N_CHAN, N_STOKES = 4 };

static const msi_pol stokes[] = {MSI_POL_I, MSI_POL_Q, MSI_POL_U, MSI_POL_V};

/* Draw integers: exact in float32, as are their sums. */
static double complex value(int plane, int sample)
{
    return 7 * sample + plane + 1 - I * (5 * plane * sample - 3);
}

typedef struct formed {
    msi_c64 vis[N_STOKES * N_SAMPLE];
    msi_c32 out[N_ROW * N_OUT * MSI_MAX_CORR];
} formed;

static void form_parts(formed *f, const msi_plane *planes, int n_plane, const msi_pol *corr, int n_corr)
{
    msi_unmix unmix[MSI_MAX_CORR];
    assert_int_equal(msi_unmix_make(unmix, planes, n_plane, corr, n_corr), MSI_OK);
    for (int p = 0; p < n_plane; p++)
        for (int i = 0; i < N_SAMPLE; i++) {
            const double complex v = value(p, i);
            f->vis[p * N_SAMPLE + i] = (msi_c64){creal(v), cimag(v)};
        }
    for (int i = 0; i < N_ROW * N_OUT * MSI_MAX_CORR; i++) f->out[i] = (msi_c32){NAN, -1};
    msi_correlations_convert(unmix, n_corr, N_ROW, (msi_channel_range){FIRST, N_CHAN}, f->vis, N_OUT, f->out);
}

static void form(formed *f, const msi_pol *pol, int n, const msi_pol *corr, int n_corr)
{
    msi_plane planes[N_STOKES];
    for (int p = 0; p < n; p++) planes[p] = (msi_plane){.pol = pol[p]};
    form_parts(f, planes, n, corr, n_corr);
}

static double complex got(const formed *f, int n_corr, int sample, int k)
{
    const int row = sample / N_CHAN, chan = sample % N_CHAN;
    const msi_c32 v = f->out[(row * N_OUT + FIRST + chan) * n_corr + k];
    return (double)v.re + I * (double)v.im;
}

/* Make the coherency matrices of both kinds of feeds, all hands. */
static void stokes_make_all_hands(void **state)
{
    (void)state;
    static const msi_pol linear[] = {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY},
                         circular[] = {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL};
    formed f;
    form(&f, stokes, 4, linear, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        const double complex si = value(0, i), q = value(1, i), u = value(2, i), v = value(3, i);
        assert_true(got(&f, 4, i, 0) == si + q && got(&f, 4, i, 1) == u + I * v);
        assert_true(got(&f, 4, i, 2) == u - I * v && got(&f, 4, i, 3) == si - q);
    }
    form(&f, stokes, 4, circular, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        const double complex si = value(0, i), q = value(1, i), u = value(2, i), v = value(3, i);
        assert_true(got(&f, 4, i, 0) == si + v && got(&f, 4, i, 1) == q + I * u);
        assert_true(got(&f, 4, i, 2) == q - I * u && got(&f, 4, i, 3) == si - v);
    }
}

/* The Stokes conversion of correlations gives the original planes, for any order of correlations. */
static void imaging_finds_the_planes_again(void **state)
{
    (void)state;
    static const msi_pol orders[][4] = {{MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY},
                                        {MSI_POL_YX, MSI_POL_YY, MSI_POL_XX, MSI_POL_XY},
                                        {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL},
                                        {MSI_POL_LL, MSI_POL_RR, MSI_POL_LR, MSI_POL_RL}};
    for (size_t k = 0; k < sizeof orders / sizeof orders[0]; k++) {
        formed f;
        msi_plane planes[MSI_MAX_PLANES];
        msi_mix mix[MSI_MAX_PLANES];
        form(&f, stokes, 4, orders[k], 4);
        const int n = msi_planes_of(stokes, 4, 0, planes);
        assert_int_equal(msi_mix_make(mix, planes, n, MSI_STOKES_WEIGHT_SMALLER, orders[k], 4), MSI_OK);
        for (int p = 0; p < 4; p++)
            for (int i = 0; i < N_SAMPLE; i++) {
                double complex sum = 0;
                for (int t = 0; t < mix[p].n; t++)
                    sum += (mix[p].factor[t].re + I * mix[p].factor[t].im) * got(&f, 4, i, mix[p].corr[t]);
                assert_true(sum == value(p, i));
            }
    }
}

/* Only Stokes I: both parallel hands have it, and the others are zero; also for sets with fewer hands. */
static void missing_planes_are_zero(void **state)
{
    (void)state;
    static const msi_pol linear[] = {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY}, one[] = {MSI_POL_LL},
                         two[] = {MSI_POL_YY, MSI_POL_XX}, v_and_i[] = {MSI_POL_V, MSI_POL_I};
    formed f;
    form(&f, stokes, 1, linear, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_true(got(&f, 4, i, 0) == value(0, i) && got(&f, 4, i, 3) == value(0, i));
        assert_true(got(&f, 4, i, 1) == 0 && got(&f, 4, i, 2) == 0);
    }
    form(&f, stokes, 2, two, 2);
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_true(got(&f, 2, i, 0) == value(0, i) - value(1, i));
        assert_true(got(&f, 2, i, 1) == value(0, i) + value(1, i));
    }
    form(&f, v_and_i, 2, one, 1);
    for (int i = 0; i < N_SAMPLE; i++) assert_true(got(&f, 1, i, 0) == value(1, i) - value(0, i));
    form(&f, v_and_i, 1, linear, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_true(got(&f, 4, i, 0) == 0 && got(&f, 4, i, 3) == 0);
        assert_true(got(&f, 4, i, 1) == I * value(0, i) && got(&f, 4, i, 2) == -I * value(0, i));
    }
}

static void hands_are_themselves(void **state)
{
    (void)state;
    static const msi_pol hands[] = {MSI_POL_YY, MSI_POL_XX},
                         linear[] = {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY},
                         circular[] = {MSI_POL_RR, MSI_POL_LL};
    formed f;
    form(&f, hands, 2, linear, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_true(got(&f, 4, i, 0) == value(1, i) && got(&f, 4, i, 3) == value(0, i));
        assert_true(got(&f, 4, i, 1) == 0 && got(&f, 4, i, 2) == 0);
    }
    form(&f, hands, 1, linear, 4);
    for (int i = 0; i < N_SAMPLE; i++) assert_true(got(&f, 4, i, 0) == 0 && got(&f, 4, i, 3) == value(0, i));
    msi_unmix unmix[MSI_MAX_CORR];
    const msi_plane planes[] = {{MSI_POL_YY, 0, 0}, {MSI_POL_XX, 0, 0}};
    assert_int_equal(msi_unmix_make(unmix, planes, 2, circular, 2), MSI_EINPUT);
}

/* Stokes V belongs to the hands XX and YY do not have. Images that share flux are no model together. */
static void hands_go_with_other_stokes(void **state)
{
    (void)state;
    static const msi_pol mixed[] = {MSI_POL_V, MSI_POL_XX, MSI_POL_YY},
                         linear[] = {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY},
                         circular[] = {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL};
    formed f;
    form(&f, mixed, 3, linear, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_true(got(&f, 4, i, 0) == value(1, i) && got(&f, 4, i, 3) == value(2, i));
        assert_true(got(&f, 4, i, 1) == I * value(0, i) && got(&f, 4, i, 2) == -I * value(0, i));
    }
    msi_unmix unmix[MSI_MAX_CORR];
    const msi_plane planes[] = {{MSI_POL_V, 0, 0}, {MSI_POL_XX, 0, 0}};
    assert_int_equal(msi_unmix_make(unmix, planes, 2, circular, 4), MSI_EINPUT);
    for (int k = 0; k < 4; k++) {
        const int is_cross = k == 1 || k == 2;
        assert_true(msi_pols_share_flux(linear[k], MSI_POL_I) == !is_cross);
        assert_true(msi_pols_share_flux(MSI_POL_Q, linear[k]) == !is_cross);
        assert_true(msi_pols_share_flux(linear[k], MSI_POL_U) == is_cross);
        assert_true(msi_pols_share_flux(MSI_POL_V, linear[k]) == is_cross);
        assert_true(msi_pols_share_flux(circular[k], MSI_POL_V) == !is_cross);
        assert_true(msi_pols_share_flux(MSI_POL_Q, circular[k]) == is_cross);
        assert_true(!msi_pols_share_flux(linear[0], linear[k]) && !msi_pols_share_flux(stokes[0], stokes[k]));
    }
}

/* The image of a cross hand is complex. The image of the other cross hand is its complex conjugate, unless it is given:
 * a sky's coherency matrix is Hermitian in every direction. */
static void cross_hands_have_two_parts(void **state)
{
    (void)state;
    static const msi_plane one[] = {{MSI_POL_XX, 0, 0}, {MSI_POL_XY, 0, 0}, {MSI_POL_XY, 1, 0}, {MSI_POL_YY, 0, 0}},
                           both[] = {{MSI_POL_RL, 0, 0}, {MSI_POL_RL, 1, 0}, {MSI_POL_LR, 0, 0}, {MSI_POL_LR, 1, 0}};
    static const msi_pol linear[] = {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY},
                         circular[] = {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL};
    formed f;
    form_parts(&f, one, 4, linear, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_true(got(&f, 4, i, 0) == value(0, i) && got(&f, 4, i, 3) == value(3, i));
        assert_true(got(&f, 4, i, 1) == value(1, i) + I * value(2, i));
        assert_true(got(&f, 4, i, 2) == value(1, i) - I * value(2, i));
    }
    form_parts(&f, both, 4, circular, 4);
    for (int i = 0; i < N_SAMPLE; i++) {
        assert_true(got(&f, 4, i, 0) == 0 && got(&f, 4, i, 3) == 0);
        assert_true(got(&f, 4, i, 1) == value(0, i) + I * value(1, i));
        assert_true(got(&f, 4, i, 2) == value(2, i) + I * value(3, i));
    }
}

/* Channels outside [FIRST, FIRST + N_CHAN) are not written. */
static void other_channels_are_untouched(void **state)
{
    (void)state;
    static const msi_pol two[] = {MSI_POL_RR, MSI_POL_LL};
    formed f;
    form(&f, stokes, 4, two, 2);
    for (int row = 0; row < N_ROW; row++)
        for (int c = 0; c < N_OUT; c++)
            for (int k = 0; k < 2; k++) {
                const msi_c32 v = f.out[(row * N_OUT + c) * 2 + k];
                const int written = c >= FIRST && c < FIRST + N_CHAN;
                assert_true(written ? !isnan(v.re) : isnan(v.re) && v.im == -1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stokes_make_all_hands),        cmocka_unit_test(imaging_finds_the_planes_again),
        cmocka_unit_test(missing_planes_are_zero),      cmocka_unit_test(hands_are_themselves),
        cmocka_unit_test(hands_go_with_other_stokes),   cmocka_unit_test(cross_hands_have_two_parts),
        cmocka_unit_test(other_channels_are_untouched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
