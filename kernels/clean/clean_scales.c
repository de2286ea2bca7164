/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/clean/clean_scales.h"

#include <math.h>
#include <string.h>

static int wrong_scale(const char *why, double value)
{
    return msi_error_about(msi_error_set(MSI_EARGUMENT, "the cleaner's scales: %s: %g pixels", why, value), "scale");
}

static double shorter_edge(const msi_cleaner_spec *s)
{
    return (double)(s->nx < s->ny ? s->nx : s->ny);
}

/* Doubling may end far below half the image, and a source as wide as the image holds would find no scale of its own.
 * One more is as wide as leaves its components room, where that is not near the last one. */
static const double WIDEST = 0.8, APART = 1.2;

static void make_list(msi_cleaner *c)
{
    msi_cleaner_spec *s = &c->spec;
    const int most = s->n_scale ? s->n_scale : MSI_CLEAN_MAX_SCALE;
    s->n_scale = 0;
    c->scale[s->n_scale++] = 0;
    for (double width = 4 * s->beam_pixel; width < shorter_edge(s) / 2 && s->n_scale < most; width *= 2)
        c->scale[s->n_scale++] = width;
    const double last = WIDEST * shorter_edge(s) / 2;
    if (s->n_scale < most && last > APART * c->scale[s->n_scale - 1]) c->scale[s->n_scale++] = last;
}

int msi_clean_scales_set(msi_cleaner *c)
{
    msi_cleaner_spec *s = &c->spec;
    if (strcmp(s->method, "multiscale") != 0) {
        s->n_scale = 1;
        s->scale = c->scale;
        return MSI_OK;
    }
    if (!(s->beam_pixel > 0) || !isfinite(s->beam_pixel)) return wrong_scale("the beam has a width", s->beam_pixel);
    if (s->n_scale < 0 || s->n_scale > MSI_CLEAN_MAX_SCALE) return wrong_scale("at most 16 of them", s->n_scale);
    if (s->scale && !s->n_scale) return wrong_scale("a list has members", 0);
    if (s->scale)
        memcpy(c->scale, s->scale, (size_t)s->n_scale * sizeof *c->scale);
    else
        make_list(c);
    s->scale = c->scale;
    if (c->scale[0] != 0) return wrong_scale("the first is 0", c->scale[0]);
    for (int i = 1; i < s->n_scale; i++) {
        if (!(c->scale[i] > c->scale[i - 1])) return wrong_scale("they rise", c->scale[i]);
        if (!(c->scale[i] < shorter_edge(s) / 2)) return wrong_scale("below half the image", c->scale[i]);
    }
    return MSI_OK;
}

double msi_clean_scale_bias(const msi_cleaner_spec *s, int i, double power)
{
    if (!i) return 1;
    if (s->scale_rule == MSI_CLEAN_BY_POWER)
        return sqrt((1 - s->small_scale_bias * s->scale[i] / s->scale[s->n_scale - 1]) / power);
    return pow(s->scale_bias, -log2(s->scale[i] / (2 * s->beam_pixel)));
}

int64_t msi_clean_kernel_half(const msi_cleaner_spec *s, int i)
{
    const int64_t most = ((s->nx < s->ny ? s->nx : s->ny) - 1) / 2;
    const double reach = s->shape == MSI_CLEAN_GAUSSIAN ? 6 * 3 * s->scale[i] / 16 : s->scale[i] / 2;
    const int64_t half = (int64_t)ceil(reach);
    return half < most ? half : most;
}

static double tapered_quadratic(double r, double s, double n)
{
    if (2 * r > n + 1 || r >= s) return 0;
    return 0.5 * (1 + cos(2 * MSI_PI * r / (n + 1))) * (1 - r / s * (r / s));
}

/* F. R. Schwab's rational approximation of the zero-order spheroidal wave function for m = 6, alpha = 1, in Indirect
 * Imaging, ed. J. A. Roberts (1984), 333. */
static double spheroidal(double v)
{
    static const double P[2][5] = {{8.203343e-2, -3.644705e-1, 6.278660e-1, -5.335581e-1, 2.312756e-1},
                                   {4.028559e-3, -3.697768e-2, 1.021332e-1, -1.201436e-1, 6.412774e-2}};
    static const double Q[2][3] = {{1, 8.212018e-1, 2.078043e-1}, {1, 9.599102e-1, 2.918724e-1}};
    const int part = v >= 0.75;
    const double end = part ? 1 : 0.75, d = v * v - end * end;
    double p = 0, q = 0;
    for (int k = 4; k >= 0; k--) p = p * d + P[part][k];
    for (int k = 2; k >= 0; k--) q = q * d + Q[part][k];
    return p / q;
}

static double tapered_spheroidal(double v)
{
    return v < 1 ? (1 - v * v) * spheroidal(v) : 0;
}

void msi_clean_kernel(const msi_cleaner_spec *s, int i, double *kernel)
{
    const int64_t half = msi_clean_kernel_half(s, i), n = 2 * half + 1;
    const double width = s->scale[i], sigma = 3 * width / 16;
    double sum = 0;
    for (int64_t y = 0; y < n; y++)
        for (int64_t x = 0; x < n; x++) {
            const double dx = (double)(x - half), dy = (double)(y - half), r2 = dx * dx + dy * dy;
            double *k = &kernel[y * n + x];
            if (width == 0)
                *k = r2 == 0;
            else if (s->shape == MSI_CLEAN_GAUSSIAN)
                *k = exp(-0.5 * r2 / (sigma * sigma));
            else if (s->shape == MSI_CLEAN_SPHEROIDAL)
                *k = tapered_spheroidal(2 * sqrt(r2) / width);
            else
                *k = tapered_quadratic(sqrt(r2), width, (double)n);
            sum += *k;
        }
    for (int64_t k = 0; k < n * n; k++) kernel[k] /= sum;
}
