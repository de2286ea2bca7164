/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_colour.h"

#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Fit the stretch to values [m] in ascending order, m > 0. */
static void fit_brightness(msi_stretch *s, const float *sorted, int64_t m, double sigma)
{
    double median = sorted[m / 2];
    s->low = sorted[(int64_t)(0.0005 * (double)m)];
    s->high = sorted[m - 1];
    s->centre = median;
    /* With sources far above the noise, the noise would be black. Keep a minimum for the linear range. */
    s->softening = fmax(4 * sigma, 1e-3 * (s->high - s->low));
    s->low = fmax(s->low, median - 4 * sigma);
    if (!(s->high > s->low)) {
        double margin = median != 0 ? 0.1 * fabs(median) : 1;
        s->low = median - margin;
        s->high = median + margin;
        s->softening = margin;
    }
}

static void fit_signed(msi_stretch *s, const float *sorted, int64_t m, double sigma)
{
    const double largest = fmax(fabs((double)sorted[0]), fabs((double)sorted[m - 1]));
    s->high = largest > 0 ? largest : 1;
    s->low = -s->high;
    s->centre = 0;
    s->softening = fmax(4 * sigma, 2e-3 * s->high);
}

static void fit_weights(msi_stretch *s, const float *sorted, int64_t m)
{
    int64_t first = 0;
    while (first < m - 1 && !(sorted[first] > 0)) first++;
    s->low = s->centre = 0;
    s->high = sorted[m - 1] > 0 ? sorted[m - 1] : 1;
    s->softening = sorted[first] > 0 ? fmax(sorted[first], 1e-9 * s->high) : s->high;
}

/* Ignore the tails: a few faint pixels have indices far from all others. */
static void fit_index(msi_stretch *s, const float *sorted, int64_t m)
{
    static const double TAIL = 0.01;
    const double median = sorted[m / 2];
    *s = (msi_stretch){sorted[(int64_t)(TAIL * (double)m)], sorted[m - 1 - (int64_t)(TAIL * (double)m)], median, 0};
    if (s->high > s->low) return;
    s->low = median - 1;
    s->high = median + 1;
}

int msi_stretch_fit(msi_stretch *s, msi_picture_values kind, const float *value, int64_t n)
{
    float *sorted;
    MSI_TRY(msi_alloc(&sorted, n, sizeof *sorted, "picture"));
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(value[i])) sorted[m++] = value[i];
    *s = (msi_stretch){kind == MSI_VALUES_SIGNED ? -1 : 0, 1, 0, 1};
    if (m > 0) {
        qsort(sorted, (size_t)m, sizeof *sorted, compare_floats);
        /* Half the width of the middle 68 %. It is the noise if sources are few. */
        const double sigma = 0.5 * (sorted[(int64_t)(0.84 * (double)m)] - sorted[(int64_t)(0.16 * (double)m)]);
        if (kind == MSI_VALUES_SIGNED)
            fit_signed(s, sorted, m, sigma);
        else if (kind == MSI_VALUES_WEIGHTS)
            fit_weights(s, sorted, m);
        else if (kind == MSI_VALUES_INDEX)
            fit_index(s, sorted, m);
        else
            fit_brightness(s, sorted, m, sigma);
    }
    msi_free(sorted);
    return MSI_OK;
}

msi_stretch msi_stretch_range(msi_picture_values kind, double low, double high)
{
    const double largest = fmax(fabs(low), fabs(high));
    return kind == MSI_VALUES_SIGNED ? (msi_stretch){-largest, largest, 0, 0} : (msi_stretch){low, high, 0, 0};
}

/* Map a value to the scale on which colours are even. */
static double scale_value(const msi_stretch *s, double v)
{
    return s->softening > 0 ? asinh((v - s->centre) / s->softening) : v;
}

double msi_stretch_apply(const msi_stretch *s, double v)
{
    double a = scale_value(s, s->low), b = scale_value(s, s->high);
    double t = (scale_value(s, v) - a) / (b - a);
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

/* Convert OKLab (B. Ottosson 2020) to linear sRGB. */
static void oklab_to_linear(double lightness, double a, double b, double rgb[3])
{
    double l = pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
    double m = pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
    double s = pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
    rgb[0] = 4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s;
    rgb[1] = -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s;
    rgb[2] = -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s;
}

static int in_gamut(const double rgb[3])
{
    for (int k = 0; k < 3; k++)
        if (rgb[k] < 0 || rgb[k] > 1) return 0;
    return 1;
}

static uint32_t srgb_byte(double linear)
{
    double v = linear <= 0.0031308 ? 12.92 * linear : 1.055 * pow(linear, 1 / 2.4) - 0.055;
    return (uint32_t)lround(255 * (v < 0 ? 0 : v > 1 ? 1 : v));
}

/* Compute the colour of a lightness, chroma and hue. Reduce the chroma until sRGB has the colour. */
static uint32_t colour_of(double lightness, double chroma, double hue_deg)
{
    const double hue = hue_deg * MSI_PI / 180;
    double linear[3];
    do {
        oklab_to_linear(lightness, chroma * cos(hue), chroma * sin(hue), linear);
        chroma -= 0.001;
    } while (!in_gamut(linear) && chroma > 0);
    return srgb_byte(linear[0]) << 16 | srgb_byte(linear[1]) << 8 | srgb_byte(linear[2]);
}

static uint32_t sequential_colour(double t)
{
    return colour_of(0.13 + 0.85 * t, 0.045 + 0.19 * sin(MSI_PI * pow(t, 0.8)) * (1 - 0.35 * t),
                     285 + 180 * t * (0.72 + 0.28 * t));
}

/* Half a step on either side of the middle is white, because no entry of the map is exactly zero. */
static uint32_t diverging_colour(double t)
{
    const double half_step = 0.5 / (MSI_N_COLOUR - 1),
                 away = 2 * fmax(0, fabs(t - 0.5) - half_step) / (1 - 2 * half_step);
    return away > 0 ? colour_of(1 - 0.65 * away, 0.26 * sin(0.5 * MSI_PI * away), t < 0.5 ? 260 : 27) : 0xffffff;
}

void msi_colour_map(uint32_t rgb[MSI_N_COLOUR], msi_picture_values kind)
{
    for (int i = 0; i < MSI_N_COLOUR; i++) {
        const double t = i / (double)(MSI_N_COLOUR - 1);
        rgb[i] = kind == MSI_VALUES_SIGNED ? diverging_colour(t) : sequential_colour(t);
    }
}
