/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Noise on the CPU: medians, and squares of windows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_engine_cpu.h"

static double get(const msi_clean_engine *e, const void *image, int64_t i)
{
    return e->s.precision == MSI_FP32 ? (double)((const float *)image)[i] : ((const double *)image)[i];
}

static void set(const msi_clean_engine *e, void *image, int64_t i, double value)
{
    if (e->s.precision == MSI_FP32)
        ((float *)image)[i] = (float)value;
    else
        ((double *)image)[i] = value;
}

/* Order v [n] so that v[k] is what it were if all were sorted, nothing above it before it: Hoare's quickselect. */
static double select_rank(double *v, int64_t n, int64_t k)
{
    int64_t first = 0, last = n - 1;
    while (first < last) {
        const double middle = v[first + (last - first) / 2];
        int64_t i = first, j = last;
        while (i <= j) {
            while (v[i] < middle) i++;
            while (v[j] > middle) j--;
            if (i <= j) {
                const double t = v[i];
                v[i++] = v[j];
                v[j--] = t;
            }
        }
        if (k <= j)
            last = j;
        else if (k >= i)
            first = i;
        else
            break;
    }
    return v[k];
}

/* Find the median; of an even number the mean of both in the middle. */
static double median_of(double *v, int64_t n)
{
    const double upper = select_rank(v, n, n / 2);
    if (n % 2) return upper;
    double lower = v[0];
    for (int64_t i = 1; i < n / 2; i++)
        if (v[i] > lower) lower = v[i];
    return 0.5 * (lower + upper);
}

int msi_clean_deviation_cpu(msi_clean_engine *e, const void *image, double *median, double *deviation, int64_t *n)
{
    double *v;
    *n = 0;
    *median = *deviation = 0;
    MSI_TRY(msi_alloc(&v, e->n_pixel, sizeof *v, "the noise"));
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double value = get(e, image, i);
        if (isfinite(value)) v[(*n)++] = value;
    }
    if (*n) {
        *median = median_of(v, *n);
        for (int64_t i = 0; i < *n; i++) v[i] = fabs(v[i] - *median);
        *deviation = median_of(v, *n);
    }
    msi_free(v);
    return MSI_OK;
}

int msi_clean_square_cpu(msi_clean_engine *e, const void *in, void *out, void *count)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double v = get(e, in, i);
        set(e, out, i, isfinite(v) ? v * v : 0);
        set(e, count, i, isfinite(v) ? 1 : 0);
    }
    return MSI_OK;
}

/* A line of an image: n pixels `step` apart, from `first` on. */
typedef struct image_line {
    int64_t first, n, step;
} image_line;

/* Sum the pixels up to `half` from each of a line, by running totals in double, which start anew nowhere. */
static void sum_line(const msi_clean_engine *e, image_line l, int64_t half, const void *from, void *to)
{
    double sum = 0;
    for (int64_t i = 0; i < half && i < l.n; i++) sum += get(e, from, l.first + i * l.step);
    for (int64_t i = 0; i < l.n; i++) {
        if (i + half < l.n) sum += get(e, from, l.first + (i + half) * l.step);
        if (i - half > 0) sum -= get(e, from, l.first + (i - half - 1) * l.step);
        set(e, to, l.first + i * l.step, sum);
    }
}

/* Find the least of the finite pixels up to `half` from each of a line, by looking at all of them. */
static void least_of_line(const msi_clean_engine *e, image_line l, int64_t half, const void *from, void *to)
{
    for (int64_t i = 0; i < l.n; i++) {
        double low = INFINITY;
        for (int64_t j = i > half ? i - half : 0; j <= i + half && j < l.n; j++) {
            const double v = get(e, from, l.first + j * l.step);
            if (isfinite(v) && v < low) low = v;
        }
        set(e, to, l.first + i * l.step, low);
    }
}

int msi_clean_box_cpu(msi_clean_engine *e, int64_t width, int least, void *image, void *work)
{
    void (*const line)(const msi_clean_engine *, image_line, int64_t, const void *, void *) =
        least ? least_of_line : sum_line;
    const int64_t nx = e->s.nx, ny = e->s.ny, half = width / 2;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t y = 0; y < ny; y++) line(e, (image_line){y * nx, nx, 1}, half, image, work);
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t x = 0; x < nx; x++) line(e, (image_line){x, ny, nx}, half, work, image);
    return MSI_OK;
}

int msi_clean_factor_cpu(msi_clean_engine *e, const void *residual, const void *count, const void *least_value,
                         void *square, double *least)
{
    double low = INFINITY;
#pragma omp parallel for num_threads(e->n_thread) reduction(min : low)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double n = get(e, count, i), s = get(e, square, i);
        double rms = n > 0 && s > 0 ? sqrt(s / n) : 0;
        if (least_value && rms < 0.3 * fabs(get(e, least_value, i))) rms = 0.3 * fabs(get(e, least_value, i));
        set(e, square, i, rms);
        if (isfinite(get(e, residual, i)) && get(e, square, i) < low) low = get(e, square, i);
    }
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double rms = get(e, square, i);
        set(e, square, i, rms > 0 ? low / rms : 0);
    }
    *least = low;
    return MSI_OK;
}
