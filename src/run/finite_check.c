/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/finite_check.h"

#include <float.h>
#include <math.h>

#include "core/format.h"
#include "core/status.h"

/* Count the values of a row of pixels that are not finite in single precision. Counters are as wide as pixels, so that
 * vectors of both have as many elements. */
static int64_t n_large(const void *pixel, msi_precision precision, int64_t first, int64_t n)
{
    const float *f32 = (const float *)pixel + first;
    const double *f64 = (const double *)pixel + first;
    int32_t n_f32 = 0;
    int64_t n_f64 = 0;
    if (precision == MSI_FP32)
        for (int64_t x = 0; x < n; x++) n_f32 += !(fabsf(f32[x]) <= FLT_MAX);
    else
        for (int64_t x = 0; x < n; x++) n_f64 += !(fabs(f64[x]) <= (double)FLT_MAX);
    return n_f32 + n_f64;
}

enum { WORTH_THREADS = 8 << 20 }; /* pixels; of fewer, threads take longer to start than to look */

/* Count the pixels of row y that may be NaN and are. */
static int64_t n_beyond(const msi_image_geometry *g, const void *pixel, msi_precision precision, int64_t y)
{
    const double m = (double)(y - g->ny / 2) * g->cell_y_rad;
    int64_t count = 0;
    for (int64_t x = 0; x < g->nx; x++) {
        const double l = (double)(x - g->nx / 2) * g->cell_x_rad;
        count += l * l + m * m > 1 - 1e-9 && isnan(msi_image_value(pixel, precision, y * g->nx + x));
    }
    return count;
}

int msi_finite_check(const msi_finite_cause *cause, msi_fits_kind kind, const msi_fits_spec *spec, const void *pixel,
                     msi_precision precision)
{
    const msi_image_geometry *g = &spec->geometry;
    const int is_sky = kind < MSI_FITS_WEIGHTS;
    int64_t n = 0;
    if (is_sky && !spec->n_vis) return MSI_OK;
    /* Without a beam nothing is known of a restored image. */
    if (kind == MSI_FITS_INDEX) return MSI_OK; /* of the finite ones, and NaN elsewhere */
    if (kind == MSI_FITS_IMAGE && !msi_beam_known(&spec->beam)) return MSI_OK;
#pragma omp parallel for schedule(static) reduction(+ : n) if (g->nx * g->ny > WORTH_THREADS)
    for (int64_t y = 0; y < g->ny; y++) {
        const int64_t of_row = n_large(pixel, precision, y * g->nx, g->nx);
        if (of_row) n += of_row - (is_sky ? n_beyond(g, pixel, precision, y) : 0);
    }
    if (!n) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s, row %lld: has the largest product of weight and visibility, %.3g; with it %lld value%s "
                         "of %s would be beyond single precision, and nothing is written: correct or flag the row",
                         cause->ms_path, (long long)cause->row, cause->product, (long long)n, msi_plural(n),
                         is_sky ? "an image" : "a grid of the uv plane");
}
