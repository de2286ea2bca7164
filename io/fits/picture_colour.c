/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_colour.h"

#include <math.h>
#include <stdlib.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"

static int compare(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

int msi_stretch_fit(msi_stretch *s, const float *value, int64_t n)
{
    float *sorted;
    MSI_TRY(msi_alloc(&sorted, n, sizeof *sorted, "picture"));
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(value[i])) sorted[m++] = value[i];
    *s = (msi_stretch){0, 1, 0, 1};
    if (m > 0) {
        qsort(sorted, (size_t)m, sizeof *sorted, compare);
        double median = sorted[m / 2];
        /* Half the width of the middle 68 %: the noise, where sources are few. */
        double sigma = 0.5 * (sorted[(int64_t)(0.84 * (double)m)] - sorted[(int64_t)(0.16 * (double)m)]);
        s->low = sorted[(int64_t)(0.0005 * (double)m)];
        s->high = sorted[m - 1];
        s->centre = median;
        /* Sources far above the noise would leave it black; it keeps at least the range below the knee. */
        s->softening = fmax(4 * sigma, 1e-3 * (s->high - s->low));
        s->low = fmax(s->low, median - 4 * sigma);
        if (!(s->high > s->low)) {
            double margin = median != 0 ? 0.1 * fabs(median) : 1;
            s->low = median - margin;
            s->high = median + margin;
            s->softening = margin;
        }
    }
    msi_free(sorted);
    return MSI_OK;
}

double msi_stretch_apply(const msi_stretch *s, double v)
{
    double a = asinh((s->low - s->centre) / s->softening), b = asinh((s->high - s->centre) / s->softening);
    double t = (asinh((v - s->centre) / s->softening) - a) / (b - a);
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

double msi_stretch_invert(const msi_stretch *s, double t)
{
    double a = asinh((s->low - s->centre) / s->softening), b = asinh((s->high - s->centre) / s->softening);
    return s->centre + s->softening * sinh(a + t * (b - a));
}

/* Converts OKLab (B. Ottosson 2020) to linear sRGB. */
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

void msi_colour_map(uint32_t rgb[MSI_N_COLOUR])
{
    for (int i = 0; i < MSI_N_COLOUR; i++) {
        double t = i / (double)(MSI_N_COLOUR - 1);
        double lightness = 0.13 + 0.85 * t;
        double hue = (285 + 180 * t * (0.72 + 0.28 * t)) * MSI_PI / 180;
        double chroma = 0.045 + 0.19 * sin(MSI_PI * pow(t, 0.8)) * (1 - 0.35 * t);
        double linear[3];
        /* Where the display has no such colour, the nearest paler one of the same lightness and hue. */
        do {
            oklab_to_linear(lightness, chroma * cos(hue), chroma * sin(hue), linear);
            chroma -= 0.001;
        } while (!in_gamut(linear) && chroma > 0);
        rgb[i] = srgb_byte(linear[0]) << 16 | srgb_byte(linear[1]) << 8 | srgb_byte(linear[2]);
    }
}
