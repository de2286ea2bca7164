/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/png_moments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"

const char *const msi_moment_names[MSI_N_MOMENT] = {"moment0", "moment1", "moment2", "peak"};

/* Sums over planes for each pixel. */
typedef struct sums {
    int64_t n_pixel, n_plane;
    double *all;          /* [n_pixel] of all values; NaN: none */
    double *w, *wx, *wxx; /* [n_pixel] over values above the level: of values, times x, times x^2 */
    float *peak;          /* [n_pixel] NaN: none */
    double x0, step;      /* x of plane k is x0 + k step */
    const char *unit_name;
} sums;

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Return the noise of a plane: the median of moduli over that of a Gaussian; NaN for an empty plane. */
static double noise_of(const msi_fits_view *v, float *buffer)
{
    int64_t n = 0;
    for (int64_t i = 0; i < v->nx * v->ny; i++)
        if (isfinite(v->pixel[i])) buffer[n++] = fabsf(v->pixel[i]);
    if (!n) return NAN;
    qsort(buffer, (size_t)n, sizeof *buffer, compare);
    return (double)buffer[n / 2] / 0.6745;
}

/* Find the noise of the planes: the median of each, averaged. */
static int find_noise(const char *path, const sums *s, double *noise)
{
    double sum = 0;
    int64_t n = 0;
    float *buffer;
    MSI_TRY(msi_alloc(&buffer, s->n_pixel, sizeof *buffer, "a plane"));
    int rc = MSI_OK;
    for (int64_t k = 0; k < s->n_plane && !rc; k++) {
        msi_fits_view v;
        rc = msi_fits_view_read(&v, path, k);
        if (rc) break;
        const double of_plane = noise_of(&v, buffer);
        if (isfinite(of_plane)) sum += of_plane, n++;
        msi_fits_view_free(&v);
    }
    msi_free(buffer);
    *noise = n ? sum / (double)n : 0;
    return rc;
}

static void add_plane(sums *s, const msi_fits_view *v, double above)
{
    const double x = s->x0 + (double)v->plane * s->step;
    for (int64_t i = 0; i < s->n_pixel; i++) {
        const double value = (double)v->pixel[i];
        if (!isfinite(value)) continue;
        s->all[i] = isnan(s->all[i]) ? value : s->all[i] + value;
        if (!(v->pixel[i] <= s->peak[i])) s->peak[i] = v->pixel[i];
        if (!(value > above)) continue;
        s->w[i] += value;
        s->wx[i] += value * x;
        s->wxx[i] += value * x * x;
    }
}

/* Make a view of a moment from that of a plane, whose header it has. */
static int make_view(msi_fits_view *view, const char *path, const sums *s, int moment)
{
    static const char *const type[MSI_N_MOMENT] = {"Moment 0", "Moment 1", "Moment 2", "Peak"};
    char unit[sizeof view->unit];
    MSI_TRY(msi_fits_view_read(view, path, 0));
    for (int64_t i = 0; i < s->n_pixel; i++) {
        const double mean = s->wx[i] / s->w[i], square = s->wxx[i] / s->w[i] - mean * mean;
        view->pixel[i] = moment == 3      ? s->peak[i]
                         : moment == 0    ? (float)(s->all[i] * fabs(s->step))
                         : !(s->w[i] > 0) ? NAN
                         : moment == 1    ? (float)mean
                                          : (float)sqrt(fmax(0, square));
    }
    snprintf(unit, sizeof unit, "%.40s%s%s", moment == 0 || moment == 3 ? view->unit : "", moment == 0 ? " " : "",
             moment == 3 ? "" : s->unit_name);
    snprintf(view->unit, sizeof view->unit, "%s", unit);
    snprintf(view->type, sizeof view->type, "%s", type[moment]);
    view->freq_hz = view->bandwidth_hz = 0;
    view->n_plane = 1;
    return MSI_OK;
}

static int alloc_sums(sums *s)
{
    MSI_TRY(msi_alloc(&s->all, s->n_pixel, sizeof *s->all, "moments"));
    MSI_TRY(msi_alloc(&s->w, s->n_pixel, sizeof *s->w, "moments"));
    MSI_TRY(msi_alloc(&s->wx, s->n_pixel, sizeof *s->wx, "moments"));
    MSI_TRY(msi_alloc(&s->wxx, s->n_pixel, sizeof *s->wxx, "moments"));
    MSI_TRY(msi_alloc(&s->peak, s->n_pixel, sizeof *s->peak, "moments"));
    for (int64_t i = 0; i < s->n_pixel; i++) {
        s->all[i] = NAN;
        s->peak[i] = NAN;
    }
    return MSI_OK;
}

static void free_sums(sums *s)
{
    msi_free(s->all);
    msi_free(s->w);
    msi_free(s->wx);
    msi_free(s->wxx);
    msi_free(s->peak);
}

/* Find the planes along FREQ, and their velocities. */
static int find_axis(sums *s, const char *path)
{
    msi_fits_view first, second;
    MSI_TRY(msi_fits_view_read(&first, path, 0));
    s->n_pixel = first.nx * first.ny;
    s->n_plane = first.n_freq;
    const double rest_hz = first.rest_freq_hz, hz = first.freq_hz;
    msi_fits_view_free(&first);
    if (s->n_plane < 2 || !(hz > 0))
        return msi_error_set(MSI_EINPUT, "%s: moments need a cube with several planes along FREQ, the third axis",
                             path);
    MSI_TRY(msi_fits_view_read(&second, path, 1));
    const double step_hz = second.freq_hz - hz;
    msi_fits_view_free(&second);
    s->x0 = rest_hz > 0 ? 1e-3 * MSI_SPEED_OF_LIGHT * (1 - hz / rest_hz) : 1e-6 * hz;
    s->step = rest_hz > 0 ? -1e-3 * MSI_SPEED_OF_LIGHT * step_hz / rest_hz : 1e-6 * step_hz;
    s->unit_name = rest_hz > 0 ? "km/s" : "MHz";
    return MSI_OK;
}

static int add_planes(sums *s, const char *path, double above)
{
    for (int64_t k = 0; k < s->n_plane; k++) {
        msi_fits_view v;
        MSI_TRY(msi_fits_view_read(&v, path, k));
        add_plane(s, &v, above);
        msi_fits_view_free(&v);
    }
    return MSI_OK;
}

int msi_moments_make(msi_fits_view view[MSI_N_MOMENT], const char *path, double above)
{
    sums s = {0};
    double noise = 0;
    memset(view, 0, MSI_N_MOMENT * sizeof *view);
    MSI_TRY(find_axis(&s, path));
    int rc = alloc_sums(&s);
    if (!rc && isnan(above)) rc = find_noise(path, &s, &noise);
    if (!rc && isnan(above)) {
        above = 3 * noise;
        msi_log_info("%s: moments 1 and 2 of values above %.3g, three times the noise", path, above);
    }
    if (!rc) rc = add_planes(&s, path, above);
    for (int m = 0; m < MSI_N_MOMENT && !rc; m++) rc = make_view(&view[m], path, &s, m);
    free_sums(&s);
    for (int m = 0; rc && m < MSI_N_MOMENT; m++) msi_fits_view_free(&view[m]);
    return rc;
}
