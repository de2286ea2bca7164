/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/point_model.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"

static const double DAY_S = 86400;
static const double J2000_MJD_DAY = 51544.5;
static const double GMST_AT_J2000_DEG = 280.46061837;
static const double GMST_PER_DAY_DEG = 360.98564736629;

static double into_turn(double angle_rad)
{
    double x = fmod(angle_rad, 2 * MSI_PI);
    return x < 0 ? x + 2 * MSI_PI : x;
}

double msi_sky_gmst(double mjd_s)
{
    /* Leave out the whole turn of each day, which would cost digits. */
    double day = mjd_s / DAY_S - J2000_MJD_DAY;
    double deg = GMST_AT_J2000_DEG + 360 * (day - floor(day)) + (GMST_PER_DAY_DEG - 360) * day;
    return into_turn(deg * (MSI_PI / 180));
}

double msi_sky_time_of(double ra_rad, double hour_angle_rad, double longitude_rad, double after_mjd_s)
{
    double rate_rad_per_s = GMST_PER_DAY_DEG * (MSI_PI / 180) / DAY_S;
    double ahead_rad = into_turn(ra_rad + hour_angle_rad - longitude_rad - msi_sky_gmst(after_mjd_s));
    return after_mjd_s + ahead_rad / rate_rad_per_s;
}

double msi_sky_elevation(double hour_angle_rad, double dec_rad, double latitude_rad)
{
    return asin(sin(latitude_rad) * sin(dec_rad) + cos(latitude_rad) * cos(dec_rad) * cos(hour_angle_rad));
}

void msi_sky_uvw(const double itrf_m[3], double greenwich_hour_angle_rad, double dec_rad, double uvw_m[3])
{
    double sin_h = sin(greenwich_hour_angle_rad), cos_h = cos(greenwich_hour_angle_rad);
    double sin_d = sin(dec_rad), cos_d = cos(dec_rad);
    double x = itrf_m[0], y = itrf_m[1], z = itrf_m[2];
    uvw_m[0] = x * sin_h + y * cos_h;
    uvw_m[1] = -x * sin_d * cos_h + y * sin_d * sin_h + z * cos_d;
    uvw_m[2] = x * cos_d * cos_h - y * cos_d * sin_h + z * sin_d;
}

int msi_sky_to_lm(double ra_rad, double dec_rad, double ra0_rad, double dec0_rad, double *l, double *m)
{
    long double dra = (long double)ra_rad - ra0_rad, dec = dec_rad, dec0 = dec0_rad;
    long double towards = sinl(dec) * sinl(dec0) + cosl(dec) * cosl(dec0) * cosl(dra);
    if (!(towards > 0))
        return msi_error_set(MSI_ERANGE, "RA %.6f Dec %.6f deg is more than 90 degrees from the centre %.6f %.6f deg",
                             ra_rad * (180 / MSI_PI), dec_rad * (180 / MSI_PI), ra0_rad * (180 / MSI_PI),
                             dec0_rad * (180 / MSI_PI));
    /* sin(dec) cos(dec0) - cos(dec) sin(dec0) cos(dra), in a form that loses no digits for nearby directions. */
    long double half = sinl(dra / 2);
    *l = (double)(cosl(dec) * sinl(dra));
    *m = (double)(sinl(dec - dec0) + 2 * cosl(dec) * sinl(dec0) * half * half);
    return MSI_OK;
}

void msi_sky_from_lm(double l, double m, double ra0_rad, double dec0_rad, double *ra_rad, double *dec_rad)
{
    double n = sqrt(1 - l * l - m * m);
    double x = n * cos(dec0_rad) - m * sin(dec0_rad), y = l, z = m * cos(dec0_rad) + n * sin(dec0_rad);
    *ra_rad = into_turn(ra0_rad + atan2(y, x));
    *dec_rad = atan2(z, hypot(x, y));
}

/*
 * The phase of a source in turns is delay x frequency, up to 1e8. Only its fraction matters. The delay is computed in
 * long double, once for a row. Delay and frequency are split after 26 bits: the product of the leading parts is exact
 * in double, and its whole turns are removed exactly. This needs no fused multiply-add: the results are the same on
 * every processor, and the loops over channels vectorise.
 */

/* Channels evaluated together; their phasors and sums fit in the L1 cache. */
enum { CHUNK = 256 };

struct msi_point_model {
    int n_source, n_chan, n_corr;
    long double *lmn;   /* [n_source][3] l, m, n - 1, divided by the speed of light */
    double *freq_high;  /* [n_chan] the leading 26 bits of the frequency */
    double *freq_low;   /* [n_chan] the rest */
    double *spectrum;   /* [n_source][n_chan] */
    msi_c64 *coherency; /* [n_source][n_corr] */
};

/* Round x to its leading 26 bits. The rest has 27 bits, so products of the parts are exact. */
static double leading(double x)
{
    double scaled = 134217729.0 * x;
    return scaled - (scaled - x);
}

static int coherency_of(const double stokes_jy[4], msi_pol corr, msi_c64 *out)
{
    double i = stokes_jy[0], q = stokes_jy[1], u = stokes_jy[2], v = stokes_jy[3];
    switch (corr) {
    case MSI_POL_I:
        *out = (msi_c64){i, 0};
        return MSI_OK;
    case MSI_POL_Q:
        *out = (msi_c64){q, 0};
        return MSI_OK;
    case MSI_POL_U:
        *out = (msi_c64){u, 0};
        return MSI_OK;
    case MSI_POL_V:
        *out = (msi_c64){v, 0};
        return MSI_OK;
    case MSI_POL_XX:
        *out = (msi_c64){i + q, 0};
        return MSI_OK;
    case MSI_POL_XY:
        *out = (msi_c64){u, v};
        return MSI_OK;
    case MSI_POL_YX:
        *out = (msi_c64){u, -v};
        return MSI_OK;
    case MSI_POL_YY:
        *out = (msi_c64){i - q, 0};
        return MSI_OK;
    case MSI_POL_RR:
        *out = (msi_c64){i + v, 0};
        return MSI_OK;
    case MSI_POL_RL:
        *out = (msi_c64){q, u};
        return MSI_OK;
    case MSI_POL_LR:
        *out = (msi_c64){q, -u};
        return MSI_OK;
    case MSI_POL_LL:
        *out = (msi_c64){i - v, 0};
        return MSI_OK;
    }
    return msi_error_set(MSI_EUSAGE, "correlation %d: a point source does not have it", (int)corr);
}

static int prepare(msi_point_model *p, const msi_point_spec *spec)
{
    const msi_point_source *source = spec->source;
    const double *freq_hz = spec->freq_hz;
    for (int k = 0; k < p->n_chan; k++) {
        if (!(freq_hz[k] > 0) || !isfinite(freq_hz[k]))
            return msi_error_set(MSI_EUSAGE, "channel %d: the frequency %g Hz is not valid", k, freq_hz[k]);
        p->freq_high[k] = leading(freq_hz[k]);
        p->freq_low[k] = freq_hz[k] - p->freq_high[k];
    }
    for (int s = 0; s < p->n_source; s++) {
        long double l = source[s].l, m = source[s].m, r2 = l * l + m * m;
        if (!(r2 < 1)) return msi_error_set(MSI_EUSAGE, "source %d is beyond the horizon: l %Lg, m %Lg", s, l, m);
        long double *lmn = p->lmn + 3 * (int64_t)s;
        lmn[0] = l / (long double)MSI_SPEED_OF_LIGHT;
        lmn[1] = m / (long double)MSI_SPEED_OF_LIGHT;
        lmn[2] = -r2 / (1 + sqrtl(1 - r2)) / (long double)MSI_SPEED_OF_LIGHT;
        for (int k = 0; k < p->n_chan; k++)
            p->spectrum[(int64_t)s * p->n_chan + k] =
                pow(freq_hz[k] / spec->reference_freq_hz, source[s].spectral_index);
        for (int c = 0; c < p->n_corr; c++)
            MSI_TRY(coherency_of(source[s].stokes_jy, spec->corr[c], &p->coherency[(int64_t)s * p->n_corr + c]));
    }
    return MSI_OK;
}

int msi_point_model_create(msi_point_model **out, const msi_point_spec *spec)
{
    const int n_source = spec->n_source, n_chan = spec->n_chan, n_corr = spec->n_corr;
    *out = NULL;
    if (n_corr < 1 || n_corr > MSI_MAX_CORR || n_chan < 1 || n_source < 0 || !(spec->reference_freq_hz > 0))
        return msi_error_set(MSI_EUSAGE, "%d sources, %d channels, %d correlations, reference frequency %g Hz",
                             n_source, n_chan, n_corr, spec->reference_freq_hz);
    msi_point_model *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "point model"));
    p->n_source = n_source;
    p->n_chan = n_chan;
    p->n_corr = n_corr;
    int status;
    if ((status = msi_alloc(&p->lmn, 3 * (int64_t)n_source, sizeof *p->lmn, "point model")) ||
        (status = msi_alloc(&p->freq_high, n_chan, sizeof *p->freq_high, "point model")) ||
        (status = msi_alloc(&p->freq_low, n_chan, sizeof *p->freq_low, "point model")) ||
        (status = msi_alloc(&p->spectrum, (int64_t)n_source * n_chan, sizeof *p->spectrum, "point model")) ||
        (status = msi_alloc(&p->coherency, (int64_t)n_source * n_corr, sizeof *p->coherency, "point model")) ||
        (status = prepare(p, spec))) {
        msi_point_model_free(p);
        return status;
    }
    *out = p;
    return MSI_OK;
}

/*
 * Compute exp(2 pi i turns) for a few turns, to 4e-16. Half turns are removed exactly and become a sign. The rest, at
 * most a quarter turn, is evaluated by Taylor series, whose first omitted terms are below 1e-17.
 */
static inline void phasor(double turns, double *re, double *im)
{
    double halves = rint(2 * turns);
    double sign = 1 - 2 * fabs(halves - 2 * rint(0.5 * halves));
    double a = 2 * MSI_PI * (turns - 0.5 * halves), b = a * a;
    double s = 1.0 / 51090942171709440000.0;
    s = s * b - 1.0 / 121645100408832000.0;
    s = s * b + 1.0 / 355687428096000.0;
    s = s * b - 1.0 / 1307674368000.0;
    s = s * b + 1.0 / 6227020800.0;
    s = s * b - 1.0 / 39916800.0;
    s = s * b + 1.0 / 362880.0;
    s = s * b - 1.0 / 5040.0;
    s = s * b + 1.0 / 120.0;
    s = s * b - 1.0 / 6.0;
    double c = 1.0 / 2432902008176640000.0;
    c = c * b - 1.0 / 6402373705728000.0;
    c = c * b + 1.0 / 20922789888000.0;
    c = c * b - 1.0 / 87178291200.0;
    c = c * b + 1.0 / 479001600.0;
    c = c * b - 1.0 / 3628800.0;
    c = c * b + 1.0 / 40320.0;
    c = c * b - 1.0 / 720.0;
    c = c * b + 1.0 / 24.0;
    c = c * b - 0.5;
    *re = sign * (1 + b * c);
    *im = sign * (a + a * b * s);
}

/* Compute the phasors re, im [n] of one delay at n frequencies, times the spectrum of the source. */
static void phasors(long double delay_s, int n, const double *freq_high, const double *freq_low, const double *spectrum,
                    double *re, double *im)
{
    double high = leading((double)delay_s), low = (double)(delay_s - high);
#pragma omp simd
    for (int k = 0; k < n; k++) {
        double whole = high * freq_high[k];
        double turns = (whole - rint(whole)) + (high * freq_low[k] + low * (freq_high[k] + freq_low[k]));
        double c, s;
        phasor(turns, &c, &s);
        re[k] = spectrum[k] * c;
        im[k] = spectrum[k] * s;
    }
}

static void add_scaled(int n, msi_c64 coherency, const double *re, const double *im, double *sum_re, double *sum_im)
{
#pragma omp simd
    for (int k = 0; k < n; k++) {
        sum_re[k] += coherency.re * re[k] - coherency.im * im[k];
        sum_im[k] += coherency.re * im[k] + coherency.im * re[k];
    }
}

/* Evaluate channels [first, first + n) of one row, n <= CHUNK; vis [n][n_corr]. */
static void evaluate_chunk(const msi_point_model *p, const double uvw_m[3], int first, int n, msi_c64 *vis)
{
    double re[CHUNK], im[CHUNK], sum_re[MSI_MAX_CORR][CHUNK], sum_im[MSI_MAX_CORR][CHUNK];
    for (int c = 0; c < p->n_corr; c++)
        for (int k = 0; k < n; k++) sum_re[c][k] = sum_im[c][k] = 0;
    for (int64_t s = 0; s < p->n_source; s++) {
        const long double *lmn = p->lmn + 3 * s;
        long double delay_s = uvw_m[0] * lmn[0] + uvw_m[1] * lmn[1] + uvw_m[2] * lmn[2];
        phasors(delay_s, n, p->freq_high + first, p->freq_low + first, p->spectrum + s * p->n_chan + first, re, im);
        for (int c = 0; c < p->n_corr; c++) {
            msi_c64 coherency = p->coherency[s * p->n_corr + c];
            if (coherency.re != 0 || coherency.im != 0) add_scaled(n, coherency, re, im, sum_re[c], sum_im[c]);
        }
    }
    for (int k = 0; k < n; k++)
        for (int c = 0; c < p->n_corr; c++) vis[k * p->n_corr + c] = (msi_c64){sum_re[c][k], sum_im[c][k]};
}

void msi_point_model_evaluate(const msi_point_model *model, int64_t n_row, const double *uvw_m, msi_c64 *vis)
{
#pragma omp parallel for schedule(static) if (n_row > 16)
    for (int64_t row = 0; row < n_row; row++)
        for (int first = 0; first < model->n_chan; first += CHUNK) {
            int n = model->n_chan - first < CHUNK ? model->n_chan - first : CHUNK;
            evaluate_chunk(model, uvw_m + 3 * row, first, n, vis + (row * model->n_chan + first) * model->n_corr);
        }
}

void msi_point_model_free(msi_point_model *model)
{
    if (!model) return;
    msi_free(model->lmn);
    msi_free(model->freq_high);
    msi_free(model->freq_low);
    msi_free(model->spectrum);
    msi_free(model->coherency);
    msi_free(model);
}
