/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <complex.h>
#include <math.h>
#include <string.h>

#include "core/status.h"
#include "src/sky/stokes.h"

enum { N_ROW = 3, N_CHAN = 5, N_SAMPLE = N_ROW * N_CHAN, N_STOKES = 4, FIRST = 1, N_USED = 3 };

static const msi_pol linear[] = {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY};
static const msi_pol circular[] = {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL};

typedef struct fixture {
    msi_ms_block block;
    int64_t ms_row[N_ROW];
    msi_c32 data[N_SAMPLE * MSI_MAX_CORR];
    float weight[N_SAMPLE * MSI_MAX_CORR];
    uint8_t flag[N_SAMPLE * MSI_MAX_CORR];
    msi_plane planes[MSI_MAX_PLANES];
    msi_mix mix[MSI_MAX_PLANES];
    int n_plane;
    msi_c64 vis[MSI_MAX_PLANES * N_SAMPLE];
    float out_weight[MSI_MAX_PLANES * N_SAMPLE];
    msi_sample_tally tally;
    int both;
} fixture;

/* Valid samples of n_corr correlations, for tests that change them. */
static void fixture_init(fixture *f, const msi_pol *corr, int n_corr)
{
    memset(f, 0, sizeof *f);
    f->block = (msi_ms_block){.n_row = N_ROW,
                              .n_chan = N_CHAN,
                              .n_corr = n_corr,
                              .corr = corr,
                              .ms_row = f->ms_row,
                              .data = f->data,
                              .weight = f->weight,
                              .flag = f->flag};
    for (int i = 0; i < N_ROW; i++) f->ms_row[i] = 100 + 10 * i;
    for (int i = 0; i < N_SAMPLE * n_corr; i++) {
        f->data[i] = (msi_c32){(float)i, (float)(100 - 3 * i)};
        f->weight[i] = 1;
    }
}

static void form(fixture *f, const msi_pol *pol, int n_pol, int32_t first, int32_t n_chan)
{
    f->n_plane = msi_planes_of(pol, n_pol, f->both, f->planes);
    assert_int_equal(
        msi_mix_make(f->mix, f->planes, f->n_plane, MSI_STOKES_WEIGHT_SMALLER, f->block.corr, f->block.n_corr), MSI_OK);
    /* Old contents of the buffers must not matter. */
    for (int i = 0; i < MSI_MAX_PLANES * N_SAMPLE; i++) {
        f->vis[i] = (msi_c64){NAN, NAN};
        f->out_weight[i] = NAN;
    }
    memset(&f->tally, 0, sizeof f->tally);
    msi_stokes_convert(&f->block, f->mix, f->n_plane, (msi_channel_range){first, n_chan}, f->vis, f->out_weight,
                       &f->tally);
}

static int64_t total(const msi_sample_tally *d)
{
    return d->flagged + d->weight + d->data_not_finite + d->data_too_large;
}

/* Return unrelated Stokes visibilities of a sample; they and their sums are exact in float32. */
static void stokes_of(int sample, double complex stokes[N_STOKES])
{
    for (int s = 0; s < N_STOKES; s++) stokes[s] = 8.0 * sample + s + I * (3.0 - 5.0 * s * sample);
}

/* Compute the correlations that feeds see of Stokes I Q U V: the coherency matrix. */
static void correlate(const double complex s[N_STOKES], int is_circular, double complex out[MSI_MAX_CORR])
{
    double complex diagonal = is_circular ? s[3] : s[1];
    double complex re = is_circular ? s[1] : s[2], im = is_circular ? s[2] : s[3];
    out[0] = s[0] + diagonal;
    out[1] = re + I * im;
    out[2] = re - I * im;
    out[3] = s[0] - diagonal;
}

/* The conversion of correlations of known Stokes parameters gives these, at every row and channel of a part of the
 * band. */
static void test_stokes_of_feeds(void **state)
{
    (void)state;
    static const msi_pol iquv[] = {MSI_POL_I, MSI_POL_Q, MSI_POL_U, MSI_POL_V};
    for (int is_circular = 0; is_circular < 2; is_circular++) {
        fixture f;
        fixture_init(&f, is_circular ? circular : linear, MSI_MAX_CORR);
        for (int i = 0; i < N_SAMPLE; i++) {
            double complex stokes[N_STOKES], corr[MSI_MAX_CORR];
            stokes_of(i, stokes);
            correlate(stokes, is_circular, corr);
            for (int c = 0; c < MSI_MAX_CORR; c++) {
                f.data[MSI_MAX_CORR * i + c] = (msi_c32){(float)creal(corr[c]), (float)cimag(corr[c])};
                f.weight[MSI_MAX_CORR * i + c] = (float)(1 + i + (c == 2 ? 0 : 10 * c));
            }
        }
        form(&f, iquv, N_STOKES, FIRST, N_USED);
        assert_int_equal(f.n_plane, N_STOKES);
        for (int p = 0; p < N_STOKES; p++)
            for (int row = 0; row < N_ROW; row++)
                for (int c = 0; c < N_USED; c++) {
                    int sample = row * N_CHAN + FIRST + c, at = (p * N_ROW + row) * N_USED + c;
                    double complex stokes[N_STOKES];
                    stokes_of(sample, stokes);
                    assert_true(f.vis[at].re == creal(stokes[p]) && f.vis[at].im == cimag(stokes[p]));
                    /* The smallest weight: that of both cross-hands and of both parallel hands is 1 + sample. */
                    assert_true(f.out_weight[at] == (float)(1 + sample));
                }
        assert_int_equal(total(&f.tally), 0);
        /* Joined, both cross-hands are the real and the imaginary part of an image: of Stokes U and V, or of Q and U. */
        f.both = 1;
        form(&f, f.block.corr, MSI_MAX_CORR, FIRST, N_USED);
        assert_int_equal(f.n_plane, 4);
        assert_true(f.planes[1].pol == f.block.corr[1] && f.planes[2].pol == f.block.corr[1] && f.planes[2].imaginary);
        for (int i = 0; i < N_ROW * N_USED; i++) {
            double complex stokes[N_STOKES];
            stokes_of(i / N_USED * N_CHAN + FIRST + i % N_USED, stokes);
            for (int p = 1; p < 3; p++) {
                const msi_c64 got = f.vis[p * N_ROW * N_USED + i];
                const double complex want = stokes[p + !is_circular];
                assert_true(got.re == creal(want) && got.im == cimag(want));
            }
        }
    }
}

static void test_raw_correlations(void **state)
{
    (void)state;
    static const msi_pol pol[] = {MSI_POL_YY, MSI_POL_XY, MSI_POL_YX};
    fixture f;
    fixture_init(&f, linear, MSI_MAX_CORR);
    f.weight[1] = 7;
    form(&f, pol, 3, 0, N_CHAN);
    static const msi_plane want[] = {
        {MSI_POL_YY, 0, 0}, {MSI_POL_XY, 0, 0}, {MSI_POL_XY, 1, 0}, {MSI_POL_YX, 0, 0}, {MSI_POL_YX, 1, 0}};
    assert_int_equal(f.n_plane, 5);
    for (int p = 0; p < 5; p++) {
        assert_int_equal(f.planes[p].pol, want[p].pol);
        assert_int_equal(f.planes[p].imaginary, want[p].imaginary);
        int corr = want[p].pol == MSI_POL_YY ? 3 : want[p].pol == MSI_POL_XY ? 1 : 2;
        for (int i = 0; i < N_SAMPLE; i++) {
            msi_c32 v = f.data[MSI_MAX_CORR * i + corr];
            msi_c64 got = f.vis[p * N_SAMPLE + i];
            /* -i (a + ib) = b - ia: its image's real part is the imaginary part of the image of V. */
            assert_true(got.re == (double)(want[p].imaginary ? v.im : v.re));
            assert_true(got.im == (double)(want[p].imaginary ? -v.re : v.im));
        }
    }
    assert_true(f.out_weight[N_SAMPLE] == 7 && f.out_weight[0] == 1);
}

static void test_hands_alone(void **state)
{
    (void)state;
    static const msi_pol i_only[] = {MSI_POL_I}, hands[][1] = {{MSI_POL_XX}, {MSI_POL_YY}, {MSI_POL_RR}, {MSI_POL_LL}};
    for (int h = 0; h < 4; h++) {
        fixture f;
        fixture_init(&f, hands[h], 1);
        form(&f, i_only, 1, 0, N_CHAN);
        for (int i = 0; i < N_SAMPLE; i++)
            assert_true(f.vis[i].re == (double)f.data[i].re && f.vis[i].im == (double)f.data[i].im);
    }
    static const msi_pol pair[] = {MSI_POL_LL, MSI_POL_RR}, iv[] = {MSI_POL_I, MSI_POL_V};
    fixture f;
    fixture_init(&f, pair, 2);
    f.data[0] = (msi_c32){1, 2};
    f.data[1] = (msi_c32){5, -4};
    form(&f, iv, 2, 0, N_CHAN);
    assert_true(f.vis[0].re == 3 && f.vis[0].im == -1);
    assert_true(f.vis[N_SAMPLE].re == 2 && f.vis[N_SAMPLE].im == -3);
}

static void test_impossible_planes(void **state)
{
    (void)state;
    static const msi_pol pair[] = {MSI_POL_XX, MSI_POL_YY};
    static const msi_plane u = {MSI_POL_U, 0, 0}, v = {MSI_POL_V, 0, 0}, rr = {MSI_POL_RR, 0, 0}, i = {MSI_POL_I, 0, 0};
    const msi_plane *refused[] = {&u, &v, &rr};
    for (int k = 0; k < 3; k++) {
        msi_mix mix;
        assert_int_equal(msi_mix_make(&mix, refused[k], 1, MSI_STOKES_WEIGHT_SMALLER, pair, 2), MSI_EINPUT);
        assert_non_null(strstr(msi_error_get(), "XX YY"));
    }
    msi_mix mix;
    static const msi_pol crosses[] = {MSI_POL_XY, MSI_POL_YX};
    assert_int_equal(msi_mix_make(&mix, &i, 1, MSI_STOKES_WEIGHT_SMALLER, crosses, 2), MSI_EINPUT);
    static const msi_plane q = {MSI_POL_Q, 0, 0};
    assert_int_equal(msi_mix_make(&mix, &q, 1, MSI_STOKES_WEIGHT_SMALLER, pair, 1), MSI_EINPUT);
}

/* Defects of one correlation of one sample, each with its count. */
typedef struct spoilt {
    msi_c32 data;
    float weight;
    uint8_t flag;
    size_t counted; /* offset into msi_sample_tally */
} spoilt;

#define COUNTED(member) offsetof(msi_sample_tally, member)
static const msi_c32 SOUND = {1, 2};

static const spoilt spoils[] = {
    {{1, 2}, 1, 1, COUNTED(flagged)},
    {{1, 2}, 1, 255, COUNTED(flagged)},
    {{NAN, 2}, NAN, 1, COUNTED(flagged)},
    {{1, 2}, 0, 0, COUNTED(weight)},
    {{1, 2}, -1, 0, COUNTED(weight)},
    {{1, 2}, NAN, 0, COUNTED(weight)},
    {{1, 2}, INFINITY, 0, COUNTED(weight)},
    {{1, 2}, -INFINITY, 0, COUNTED(weight)},
    {{INFINITY, 2}, 0, 0, COUNTED(weight)},
    {{NAN, 2}, 1, 0, COUNTED(data_not_finite)},
    {{1, NAN}, 1, 0, COUNTED(data_not_finite)},
    {{INFINITY, 2}, 1, 0, COUNTED(data_not_finite)},
    {{1, -INFINITY}, 1, 0, COUNTED(data_not_finite)},
    {{1e38F, NAN}, 1, 0, COUNTED(data_not_finite)},
    {{1e38F, 2}, 1, 0, COUNTED(data_too_large)},
    {{1, -1e38F}, 1, 0, COUNTED(data_too_large)},
};
enum { N_SPOIL = sizeof spoils / sizeof *spoils };

static void spoil(fixture *f, int sample, int corr, const spoilt *s)
{
    int at = sample * f->block.n_corr + corr;
    f->data[at] = s->data;
    f->weight[at] = s->weight;
    f->flag[at] = s->flag;
}

/* A sample with a defect in one or both hands is 0 and counted once; others do not change. */
static void test_dropped(void **state)
{
    (void)state;
    static const msi_pol i_only[] = {MSI_POL_I};
    enum { SAMPLE = 7 };
    for (int k = 0; k < N_SPOIL; k++)
        for (int hands = 1; hands < 4; hands++) {
            fixture f;
            fixture_init(&f, linear, MSI_MAX_CORR);
            for (int h = 0; h < 2; h++)
                if (hands >> h & 1) spoil(&f, SAMPLE, 3 * h, &spoils[k]);
            form(&f, i_only, 1, 0, N_CHAN);
            assert_int_equal(total(&f.tally), 1);
            assert_int_equal(*(const int64_t *)((const char *)&f.tally + spoils[k].counted), 1);
            for (int i = 0; i < N_SAMPLE; i++) {
                assert_true(isfinite(f.vis[i].re) && isfinite(f.vis[i].im));
                assert_true(f.out_weight[i] == (i == SAMPLE ? 0.0F : 1.0F));
            }
            assert_true(f.vis[SAMPLE].re == 0 && f.vis[SAMPLE].im == 0);
        }
}

/* One hand is flagged, the other is NaN and not flagged: the sample must not be used. */
static void test_flag_hides_nothing(void **state)
{
    (void)state;
    static const msi_pol iv[] = {MSI_POL_I, MSI_POL_V};
    for (int flagged = 0; flagged < 2; flagged++) {
        fixture f;
        fixture_init(&f, circular, MSI_MAX_CORR);
        f.flag[flagged ? 3 : 0] = 1;
        f.data[flagged ? 0 : 3] = (msi_c32){NAN, INFINITY};
        form(&f, iv, 2, 0, N_CHAN);
        for (int p = 0; p < 2; p++) {
            assert_true(f.vis[p * N_SAMPLE].re == 0 && f.vis[p * N_SAMPLE].im == 0);
            assert_true(f.out_weight[p * N_SAMPLE] == 0);
        }
        assert_int_equal(f.tally.flagged, 1);
        assert_int_equal(total(&f.tally), 1);
    }
}

/* Correlations that a plane does not use do not matter. */
static void test_unused_correlations(void **state)
{
    (void)state;
    static const msi_pol iu[] = {MSI_POL_I, MSI_POL_U};
    for (int k = 0; k < N_SPOIL; k++) {
        fixture f;
        fixture_init(&f, linear, MSI_MAX_CORR);
        for (int i = 0; i < N_SAMPLE; i++) {
            f.data[MSI_MAX_CORR * i] = f.data[MSI_MAX_CORR * i + 3] = SOUND;
            spoil(&f, i, 1 + i % 2, &spoils[k]);
        }
        form(&f, iu, 2, 0, N_CHAN);
        assert_int_equal(total(&f.tally), 0);
        for (int i = 0; i < N_SAMPLE; i++) {
            assert_true(f.vis[i].re == 1 && f.vis[i].im == 2 && f.out_weight[i] == 1);
            assert_true(f.vis[N_SAMPLE + i].re == 0 && f.vis[N_SAMPLE + i].im == 0 && f.out_weight[N_SAMPLE + i] == 0);
        }
    }
}

/* 1e30 is used unchanged, in the real and the imaginary part, with both signs; the next larger number is left out. */
static void test_limit_of_data(void **state)
{
    (void)state;
    static const msi_pol i_only[] = {MSI_POL_I};
    const float limit = 1e30F, beyond = nextafterf(limit, INFINITY);
    const msi_c32 kept[] = {{limit, limit}, {-limit, -limit}, {limit, -limit}};
    const msi_c32 dropped[] = {{beyond, 0}, {-beyond, 0}, {0, beyond}, {0, -beyond}};
    for (int k = 0; k < 3; k++) {
        fixture f;
        fixture_init(&f, linear, MSI_MAX_CORR);
        f.data[0] = f.data[3] = kept[k];
        form(&f, i_only, 1, 0, N_CHAN);
        assert_int_equal(total(&f.tally), 0);
        assert_true(f.vis[0].re == (double)kept[k].re && f.vis[0].im == (double)kept[k].im);
    }
    for (int k = 0; k < 4; k++) {
        fixture f;
        fixture_init(&f, linear, MSI_MAX_CORR);
        f.data[3] = dropped[k];
        form(&f, i_only, 1, 0, N_CHAN);
        assert_int_equal(f.tally.data_too_large, 1);
        assert_int_equal(total(&f.tally), 1);
    }
}

/* The largest product is that of a used sample of any plane and row. Another tally's product replaces it if it is
 * larger. */
static void test_largest_product(void **state)
{
    (void)state;
    static const msi_pol hands[] = {MSI_POL_XX, MSI_POL_YY};
    fixture f;
    fixture_init(&f, linear, MSI_MAX_CORR);
    f.block.set = 4;
    const int spoilt_at = MSI_MAX_CORR * (2 * N_CHAN + 1), largest_at = MSI_MAX_CORR * (N_CHAN + 3) + 3;
    f.data[spoilt_at] = (msi_c32){-9e29F, 0};
    f.weight[spoilt_at] = INFINITY;
    f.data[largest_at] = (msi_c32){3, -9e29F};
    f.weight[largest_at] = 1e9F;
    form(&f, hands, 2, 0, N_CHAN);
    assert_true(f.tally.largest_product == (double)9e29F * (double)1e9F);
    assert_int_equal(f.tally.largest_set, 4);
    assert_int_equal(f.tally.largest_row, 110);
    msi_sample_tally sum = {.flagged = 1, .largest_product = 1e40, .largest_set = 1, .largest_row = 7};
    msi_sample_tally_add(&sum, &f.tally);
    assert_int_equal(sum.flagged, 1);
    assert_int_equal(sum.weight, 1);
    assert_int_equal(sum.largest_row, 7);
    sum.largest_product = 1e38;
    msi_sample_tally_add(&sum, &f.tally);
    assert_int_equal(sum.largest_row, 110);
    assert_int_equal(sum.largest_set, 4);
}

/* Defects of all kinds in rows that are longer and shorter than the piece that is converted at a time. */
static void check_channels(int32_t n_chan, int n_corr, msi_stokes_weight rule)
{
    enum { ROWS = 2, MOST = ROWS * 300 };
    static const msi_pol pol[][3] = {{MSI_POL_XX, MSI_POL_I, MSI_POL_Q}, {MSI_POL_I, MSI_POL_U, MSI_POL_V}};
    static const int used[][3][2] = {{{0, 0}, {0, 1}, {0, 1}}, {{0, 3}, {1, 2}, {1, 2}}};
    static const double complex factor[][3][2] = {{{1, 0}, {0.5, 0.5}, {0.5, -0.5}},
                                                  {{0.5, 0.5}, {0.5, 0.5}, {-0.5 * I, 0.5 * I}}};
    static const msi_pol pair[] = {MSI_POL_XX, MSI_POL_YY};
    static msi_c32 data[MOST * MSI_MAX_CORR];
    static float weight[MOST * MSI_MAX_CORR], got_weight[3 * MOST];
    static uint8_t flag[MOST * MSI_MAX_CORR], is_spoilt[MOST * MSI_MAX_CORR];
    static msi_c64 got[3 * MOST];
    const int64_t ms_row[ROWS] = {3, 5};
    const int which = n_corr == 4;
    uint32_t random = 12345 + (uint32_t)n_chan;
    for (int i = 0; i < ROWS * n_chan * n_corr; i++) {
        random = random * 1664525 + 1013904223;
        const spoilt *spoil = (random >> 16) % 7 == 0 ? &spoils[(random >> 20) % N_SPOIL] : NULL;
        is_spoilt[i] = spoil != NULL;
        data[i] = spoil ? spoil->data : (msi_c32){(float)(random >> 24) - 99, 0.25F * (float)(random >> 22)};
        weight[i] = spoil ? spoil->weight : (float)(1 + (random >> 28));
        flag[i] = spoil ? spoil->flag : 0;
    }
    const msi_ms_block block = {.n_row = ROWS,
                                .n_chan = n_chan,
                                .n_corr = n_corr,
                                .ms_row = ms_row,
                                .data = data,
                                .weight = weight,
                                .flag = flag};
    msi_plane planes[MSI_MAX_PLANES];
    msi_mix mix[MSI_MAX_PLANES];
    msi_sample_tally tally = {0};
    assert_int_equal(msi_planes_of(pol[which], 3, 0, planes), 3);
    assert_int_equal(msi_mix_make(mix, planes, 3, rule, which ? linear : pair, n_corr), MSI_OK);
    msi_stokes_convert(&block, mix, 3, (msi_channel_range){.n = n_chan}, got, got_weight, &tally);
    const int n = ROWS * n_chan;
    int64_t n_out = 0;
    double largest = 0;
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < n; i++) {
            const int a = i * n_corr + used[which][p][0], b = i * n_corr + used[which][p][1];
            const int is_out = is_spoilt[a] || is_spoilt[b];
            const double complex va = (double)data[a].re + I * (double)data[a].im,
                                 vb = (double)data[b].re + I * (double)data[b].im;
            const double complex v = is_out ? 0 : factor[which][p][0] * va + factor[which][p][1] * vb;
            const double w = is_out                              ? 0
                             : rule == MSI_STOKES_WEIGHT_SMALLER ? fmin((double)weight[a], (double)weight[b])
                                                                 : 0.5 * ((double)weight[a] + (double)weight[b]);
            assert_true(got[p * n + i].re == creal(v) && got[p * n + i].im == cimag(v));
            assert_true((double)got_weight[p * n + i] == w);
            largest = fmax(largest, w * fmax(fabs(creal(v)), fabs(cimag(v))));
            n_out += p == 0 && is_out;
        }
    assert_int_equal(total(&tally), n_out);
    assert_true(tally.largest_product == largest);
}

static void test_numbers_of_channels(void **state)
{
    (void)state;
    static const int32_t n_chan[] = {1, 2, 3, 7, 16, 31, 64, 127, 128, 129, 257, 300};
    for (size_t i = 0; i < sizeof n_chan / sizeof *n_chan; i++)
        for (int n_corr = 2; n_corr <= 4; n_corr += 2) {
            check_channels(n_chan[i], n_corr, MSI_STOKES_WEIGHT_SMALLER);
            check_channels(n_chan[i], n_corr, MSI_STOKES_WEIGHT_MEAN);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stokes_of_feeds),
        cmocka_unit_test(test_raw_correlations),
        cmocka_unit_test(test_hands_alone),
        cmocka_unit_test(test_impossible_planes),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_flag_hides_nothing),
        cmocka_unit_test(test_unused_correlations),
        cmocka_unit_test(test_limit_of_data),
        cmocka_unit_test(test_largest_product),
        cmocka_unit_test(test_numbers_of_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
