/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Noise on the CPU: medians, and mean squares in windows. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/image.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_engine_cpu.h"

/* Partially sort v [n] so that v[k] has its final value, with no larger value before it: Hoare's quickselect. */
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

/* A value belongs to the bin of its first 16 bits: sign, exponent and four binary digits. The values in each bin are
 * counted, and only those in the bin of the median are sorted. In an image of noise these are some percent. */
enum { N_BIN = 1 << 16, BIN_SHIFT = 48, LEAST_PART = 1 << 16 };

/* The values to rank: the finite pixels of an image, or their distances from `middle`. */
typedef struct ranked {
    const msi_clean_engine *e;
    const void *image;
    int n_part; /* parts for threads; limited because each needs an array of counts */
    int distances;
    double middle;
} ranked;

/* Find the value of pixel i. Returns: 1 if the pixel is finite, else 0 */
static int ranked_value(const ranked *r, int64_t i, double *value)
{
    const double v = msi_image_value(r->image, r->e->s.precision, i);
    *value = r->distances ? fabs(v - r->middle) : v;
    return isfinite(v);
}

/* Return the bin of a value. Bins have the order of the values: for that, all bits of a negative value are inverted,
 * and only the sign bit of others. */
static int64_t bin_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (int64_t)((bits >> 63 ? ~bits : bits | (uint64_t)1 << 63) >> BIN_SHIFT);
}

/* Count the values in each bin. Returned: count [n_part + 1][N_BIN]  for each part of the image, and then
 * for the whole image. Returns: the number of values */
static int64_t count_values(const ranked *r, int64_t *count)
{
    const int n_part = r->n_part;
    int64_t *sum = count + (int64_t)n_part * N_BIN, all = 0;
#pragma omp parallel for num_threads(n_part)
    for (int t = 0; t < n_part; t++) {
        int64_t *mine = count + (int64_t)t * N_BIN;
        memset(mine, 0, N_BIN * sizeof *mine);
        for (int64_t i = r->e->n_pixel * t / n_part; i < r->e->n_pixel * (t + 1) / n_part; i++) {
            double v;
            if (ranked_value(r, i, &v)) mine[bin_of(v)]++;
        }
    }
    memset(sum, 0, N_BIN * sizeof *sum);
    for (int t = 0; t < n_part; t++)
        for (int b = 0; b < N_BIN; b++) sum[b] += count[(int64_t)t * N_BIN + b];
    for (int b = 0; b < N_BIN; b++) all += sum[b];
    return all;
}

/* Collect the values in bins `first` and `last` into v. The bins between them must be empty. */
static void collect(const ranked *r, const int64_t *count, int64_t first, int64_t last, double *v)
{
    const int n_part = r->n_part;
#pragma omp parallel for num_threads(n_part)
    for (int t = 0; t < n_part; t++) {
        int64_t to = 0;
        for (int before = 0; before < t; before++) {
            const int64_t *of = count + (int64_t)before * N_BIN;
            to += of[first] + (first < last ? of[last] : 0);
        }
        for (int64_t i = r->e->n_pixel * t / n_part; i < r->e->n_pixel * (t + 1) / n_part; i++) {
            double value;
            if (!ranked_value(r, i, &value)) continue;
            const int64_t b = bin_of(value);
            if (b >= first && b <= last) v[to++] = value;
        }
    }
}

/* Find the value of rank k. If `even`, find the mean of the values of ranks k - 1 and k. */
static int middle_value(const ranked *r, const int64_t *count, int64_t k, int even, double *value)
{
    const int64_t *sum = count + (int64_t)r->n_part * N_BIN;
    int64_t before = 0, last = 0;
    double *v;
    while (before + sum[last] <= k) before += sum[last++];
    int64_t first = last, n = sum[last];
    if (even && before == k) {
        for (first--; !sum[first];) first--;
        before -= sum[first];
        n += sum[first];
    }
    MSI_TRY(msi_alloc(&v, n, sizeof *v, "the noise"));
    collect(r, count, first, last, v);
    k -= before;
    *value = select_rank(v, n, k);
    if (even) {
        double lower = v[0];
        for (int64_t i = 1; i < k; i++)
            if (v[i] > lower) lower = v[i];
        *value = 0.5 * (lower + *value);
    }
    msi_free(v);
    return MSI_OK;
}

/* Find the median. If *n, the number of values, is even, it is the mean of the two middle ones. */
static int median_of(const ranked *r, int64_t *count, double *median, int64_t *n)
{
    *n = count_values(r, count);
    return *n ? middle_value(r, count, *n / 2, *n % 2 == 0, median) : MSI_OK;
}

/* Return the number of parts of an image that are counted in parallel. */
static int parts_of(int64_t n_pixel, int n_thread)
{
    const int64_t worth = n_pixel / LEAST_PART + 1;
    return worth < n_thread ? (int)worth : n_thread;
}

/* The values of one bin are copied (middle_value). All pixels may be in one bin. */
int64_t msi_clean_noise_bytes_cpu(const msi_clean_setup *s)
{
    const int n_thread = s->n_thread > 0 ? s->n_thread : omp_get_max_threads();
    const int64_t n_pixel = s->nx * s->ny;
    return ((parts_of(n_pixel, n_thread) + 1) * (int64_t)N_BIN + n_pixel) * 8;
}

int msi_clean_deviation_cpu(msi_clean_engine *e, const void *image, double *median, double *deviation, int64_t *n)
{
    ranked r = {.e = e, .image = image, .n_part = parts_of(e->n_pixel, e->n_thread)};
    int64_t *count;
    *n = 0;
    *median = *deviation = 0;
    MSI_TRY(msi_alloc(&count, (r.n_part + 1) * (int64_t)N_BIN, sizeof *count, "the noise"));
    int rc = median_of(&r, count, median, n);
    r.distances = 1;
    r.middle = *median;
    if (!rc && *n) rc = median_of(&r, count, deviation, n);
    msi_free(count);
    return rc;
}

int msi_clean_square_cpu(msi_clean_engine *e, const void *in, void *out, void *count)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double v = msi_image_value(in, e->s.precision, i);
        msi_image_put(out, e->s.precision, i, isfinite(v) ? v * v : 0);
        msi_image_put(count, e->s.precision, i, isfinite(v) ? 1 : 0);
    }
    return MSI_OK;
}

/* A line of an image: n pixels `step` apart, from `first` on. */
typedef struct image_line {
    int64_t first, n, step;
} image_line;

/* For each pixel of a line, sum the pixels at most `half` away, by a running total in double precision. */
static void sum_line(const msi_clean_engine *e, image_line l, int64_t half, const void *from, void *to)
{
    double sum = 0;
    for (int64_t i = 0; i < half && i < l.n; i++) sum += msi_image_value(from, e->s.precision, l.first + i * l.step);
    for (int64_t i = 0; i < l.n; i++) {
        if (i + half < l.n) sum += msi_image_value(from, e->s.precision, l.first + (i + half) * l.step);
        if (i - half > 0) sum -= msi_image_value(from, e->s.precision, l.first + (i - half - 1) * l.step);
        msi_image_put(to, e->s.precision, l.first + i * l.step, sum);
    }
}

/* For each pixel of a line, find the least finite pixel at most `half` away. */
static void least_of_line(const msi_clean_engine *e, image_line l, int64_t half, const void *from, void *to)
{
    for (int64_t i = 0; i < l.n; i++) {
        double low = INFINITY;
        for (int64_t j = i > half ? i - half : 0; j <= i + half && j < l.n; j++) {
            const double v = msi_image_value(from, e->s.precision, l.first + j * l.step);
            if (isfinite(v) && v < low) low = v;
        }
        msi_image_put(to, e->s.precision, l.first + i * l.step, low);
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

/* Compute weighted sums along the rows of an image. Each row is first copied between `half` zeros, so that the sums
 * need no tests at its ends. Given: copy  a zeroed row of nx + 2 half pixels for each thread. Returned: work */
static void weigh_rows(const msi_clean_engine *e, const void *weight, int64_t half, const char *image, char *copy,
                       char *work)
{
    const int64_t nx = e->s.nx, bytes = msi_clean_real_bytes(e), row = (nx + 2 * half) * bytes;
#pragma omp parallel for num_threads(e->n_thread) schedule(static)
    for (int64_t y = 0; y < e->s.ny; y++) {
        char *line = copy + omp_get_thread_num() * row + half * bytes;
        memcpy(line, image + y * nx * bytes, (size_t)(nx * bytes));
        const msi_clean_weigh_step step = {line, 1, half, half, weight, work + y * nx * bytes};
        (e->s.precision == MSI_FP32 ? e->simd->weigh_f32 : e->simd->weigh_f64)(&step, nx);
    }
}

/* Compute weighted sums along the columns of an image. A whole row of sums is computed at once, because the pixels of a
 * row are contiguous. Returned: out */
static void weigh_columns(const msi_clean_engine *e, const void *weight, int64_t half, const char *image, char *out)
{
    const int64_t nx = e->s.nx, ny = e->s.ny, bytes = msi_clean_real_bytes(e);
#pragma omp parallel for num_threads(e->n_thread) schedule(static)
    for (int64_t y = 0; y < ny; y++) {
        const int64_t at = y * nx * bytes, before = y < half ? y : half, after = ny - 1 - y < half ? ny - 1 - y : half;
        const msi_clean_weigh_step step = {image + at, nx, before, after, weight, out + at};
        (e->s.precision == MSI_FP32 ? e->simd->weigh_f32 : e->simd->weigh_f64)(&step, nx);
    }
}

int msi_clean_weigh_cpu(msi_clean_engine *e, const void *weight, int64_t half, void *image, void *work)
{
    char *copy;
    const int64_t row = (e->s.nx + 2 * half) * msi_clean_real_bytes(e);
    MSI_TRY(msi_alloc(&copy, row, e->n_thread, "local noise"));
    weigh_rows(e, weight, half, image, copy, work);
    weigh_columns(e, weight, half, work, image);
    msi_free(copy);
    return MSI_OK;
}

int msi_clean_factor_cpu(msi_clean_engine *e, const void *residual, const void *count, const void *least_value,
                         double strength, void *square, double *least)
{
    double low = INFINITY;
#pragma omp parallel for num_threads(e->n_thread) reduction(min : low)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double n = msi_image_value(count, e->s.precision, i), s = msi_image_value(square, e->s.precision, i);
        double rms = n > 0 && s > 0 ? sqrt(s / n) : 0;
        if (least_value && rms < 0.3 * fabs(msi_image_value(least_value, e->s.precision, i)))
            rms = 0.3 * fabs(msi_image_value(least_value, e->s.precision, i));
        msi_image_put(square, e->s.precision, i, rms);
        if (isfinite(msi_image_value(residual, e->s.precision, i)) && msi_image_value(square, e->s.precision, i) < low)
            low = msi_image_value(square, e->s.precision, i);
    }
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double rms = msi_image_value(square, e->s.precision, i);
        msi_image_put(square, e->s.precision, i, !(rms > 0) ? 0 : strength == 1 ? low / rms : pow(low / rms, strength));
    }
    *least = low;
    return MSI_OK;
}
