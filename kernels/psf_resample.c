/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/psf_resample.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"

enum {
    LEAST_WINDOW = 4, /* half widths of the window, pixels */
    MOST_WINDOW = 64
};

/* Return the modified Bessel function I0 by its power series, for moderate x. */
static double bessel_i0(double x)
{
    double term = 1, sum = 1;
    for (int k = 1; k < 200 && term > 1e-17 * sum; k++) {
        term *= 0.25 * x * x / ((double)k * k);
        sum += term;
    }
    return sum;
}

/*
 * Return the shape of the Kaiser window with this half width. A longer window has a better attenuation, or a steeper
 * edge of its passband. The edge is kept at 0.28 turns a pixel until the attenuation is 200 dB (Kaiser's formulas
 * relate half width, attenuation in dB, edge and shape).
 */
static double kaiser_shape(int64_t half)
{
    const double attenuation = fmin(200, 8 + 2.285 * 2 * (double)half * 2 * MSI_PI * 2 * (0.5 - 0.28));
    return 0.1102 * (attenuation - 8.7);
}

/* One axis of the resampling. The taps of a fine position depend on its fraction of a pixel. */
typedef struct axis {
    int64_t half;   /* half width of the window */
    int64_t n_fine; /* positions */
    int factor;
    int64_t part; /* largest offset, pixels */
    double *tap;  /* [factor][2 half] weights of pixels floor(x) - half + 1 .. floor(x) + half; owned */
} axis;

/* Given: n  pixels of the image along the axis */
static int make_axis(axis *a, int64_t n, int64_t part, int factor)
{
    const int64_t to_edge = n - 1 - n / 2 < n / 2 ? n - 1 - n / 2 : n / 2;
    const int64_t left = to_edge - part;
    *a = (axis){.half = left < MOST_WINDOW ? left : MOST_WINDOW,
                .n_fine = 2 * part * factor + 1,
                .factor = factor,
                .part = part};
    if (a->half < LEAST_WINDOW) return MSI_OK;
    MSI_TRY(msi_alloc(&a->tap, factor * 2 * a->half, sizeof *a->tap, "beam fit"));
    const double shape = kaiser_shape(a->half), peak = bessel_i0(shape);
    for (int f = 0; f < factor; f++)
        for (int64_t k = 0; k < 2 * a->half; k++) {
            const double x = (double)f / factor - (double)(k - a->half + 1), t = x / (double)a->half;
            const double sinc = x == 0 ? 1 : sin(MSI_PI * x) / (MSI_PI * x);
            a->tap[f * 2 * a->half + k] = sinc * bessel_i0(shape * sqrt(fmax(0, 1 - t * t))) / peak;
        }
    return MSI_OK;
}

/* Return the taps of a fine position, and the offset from the centre of the first pixel that they multiply. */
static const double *taps_at(const axis *a, int64_t fine, int64_t *first)
{
    const int64_t pixel = fine / a->factor, fraction = fine % a->factor;
    *first = pixel - a->part - a->half + 1;
    return a->tap + fraction * 2 * a->half;
}

static double pixel_at(const msi_image_geometry *g, const void *psf, msi_precision precision, int64_t dx, int64_t dy)
{
    for (int sign = 1; sign >= -1; sign -= 2) {
        const int64_t x = g->nx / 2 + sign * dx, y = g->ny / 2 + sign * dy;
        if (x < 0 || y < 0 || x >= g->nx || y >= g->ny) continue;
        const double value = msi_image_value(psf, precision, y * g->nx + x);
        if (isfinite(value)) return value;
    }
    return 0;
}

int msi_psf_resample(double **fine, const msi_image_geometry *g, const void *psf, msi_precision precision,
                     const msi_psf_part *part)
{
    axis x = {0}, y = {0};
    double *row = NULL, *column = NULL;
    *fine = NULL;
    int rc = make_axis(&x, g->nx, part->half_x, part->factor);
    if (!rc) rc = make_axis(&y, g->ny, part->half_y, part->factor);
    if (rc || !x.tap || !y.tap) goto out;
    /* Rows first: [n_row][x.n_fine] for the rows of pixels that the windows along y reach. */
    const int64_t n_row = 2 * (part->half_y + y.half) + 1, n_column = 2 * (part->half_x + x.half) + 1;
    if ((rc = msi_alloc(&row, n_column, sizeof *row, "beam fit"))) goto out;
    if ((rc = msi_alloc(&column, n_row * x.n_fine, sizeof *column, "beam fit"))) goto out;
    if ((rc = msi_alloc(fine, x.n_fine * y.n_fine, sizeof **fine, "beam fit"))) goto out;
    for (int64_t j = 0; j < n_row; j++) {
        for (int64_t i = 0; i < n_column; i++)
            row[i] = pixel_at(g, psf, precision, i - part->half_x - x.half, j - part->half_y - y.half);
        for (int64_t i = 0; i < x.n_fine; i++) {
            int64_t first;
            const double *tap = taps_at(&x, i, &first), *from = row + first + part->half_x + x.half;
            double sum = 0;
            for (int64_t k = 0; k < 2 * x.half; k++) sum += tap[k] * from[k];
            column[j * x.n_fine + i] = sum;
        }
    }
    for (int64_t j = 0; j < y.n_fine; j++) {
        int64_t first;
        const double *tap = taps_at(&y, j, &first), *from = column + (first + part->half_y + y.half) * x.n_fine;
        for (int64_t k = 0; k < 2 * y.half; k++)
            for (int64_t i = 0; i < x.n_fine; i++) (*fine)[j * x.n_fine + i] += tap[k] * from[k * x.n_fine + i];
    }
out:
    msi_free(x.tap);
    msi_free(y.tap);
    msi_free(row);
    msi_free(column);
    return rc;
}
