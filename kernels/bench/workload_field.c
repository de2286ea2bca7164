/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/bench.h"
#include "kernels/bench/field_rows.h"
#include "kernels/bench/workload_el56.h"
#include "kernels/method/geometry.h"

enum { MOST_CHECKED_VIS = 4096 };

/* Each use of a seed has its own stream of random numbers. */
enum { OF_WEIGHT, OF_VIS, OF_PIXEL, OF_FLUX };

static double drawn(const msi_bench_field *f, int stream, uint64_t i)
{
    return msi_bench_uniform((f->seed << 48) + ((uint64_t)stream << 44) + i);
}

/* Samples of a plane are counted as row * n_chan + channel in this file. */
static float weight_of(const msi_bench_field *f, int plane, int64_t sample)
{
    double x = drawn(f, OF_WEIGHT, (uint64_t)(sample * MSI_BENCH_FIELD_PLANES + plane));
    return x < f->flagged ? 0 : (float)(0.5 + x);
}

static msi_c32 vis_of(const msi_bench_field *f, int plane, int64_t sample)
{
    uint64_t i = 2 * (uint64_t)(sample * MSI_BENCH_FIELD_PLANES + plane);
    return (msi_c32){(float)(2 * drawn(f, OF_VIS, i) - 1), (float)(2 * drawn(f, OF_VIS, i + 1) - 1)};
}

static int64_t n_sample(const msi_bench_field *f)
{
    return f->n_row * f->n_chan;
}

static void set_vis(void *vis, msi_precision precision, int64_t at, msi_c32 x)
{
    if (precision == MSI_FP32)
        ((msi_c32 *)vis)[at] = x;
    else
        ((msi_c64 *)vis)[at] = (msi_c64){(double)x.re, (double)x.im};
}

/* Make the samples of segment i. Segments are contiguous, each with its planes. */
static void draw_segment(msi_bench_field *f, int64_t i)
{
    msi_vis_segment *s = &f->store.segment[i];
    const int64_t first = i * MSI_SEGMENT_ROWS * f->n_chan, n = s->n_row * s->n_chan;
    for (int p = 0; p < f->n_plane; p++)
        for (int64_t k = 0; k < n; k++) {
            s->weight[p * n + k] = weight_of(f, p, first + k);
            set_vis(s->vis, f->precision, p * n + k, vis_of(f, p, first + k));
        }
}

static void draw(msi_bench_field *f)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < f->store.n_segment; i++) draw_segment(f, i);
    f->overwritten = 0;
}

static void sum_weights(msi_bench_field *f)
{
    for (int p = 0; p < f->n_plane; p++) {
        double sum = 0, squares = 0, power = 0;
        int64_t n = 0;
#pragma omp parallel for reduction(+ : sum, squares, power, n)
        for (int64_t i = 0; i < n_sample(f); i++) {
            double weight = (double)weight_of(f, p, i);
            msi_c32 v = vis_of(f, p, i);
            sum += weight;
            squares += weight * weight;
            power += weight * weight * (double)(v.re * v.re + v.im * v.im);
            n += weight > 0;
        }
        f->sum_weight[p] = sum;
        f->n_vis[p] = n;
        f->rms[p] = sqrt(0.5 * power) / sum;
        if (p == 0) f->rms[f->n_plane] = sqrt(0.5 * squares) / sum;
    }
}

/* Choose the pixels that are checked. Errors are largest at corners and edges, so an eighth of the pixels, at most
 * nine, are there and in the middle. */
static void choose_pixels(msi_bench_field *f)
{
    const int64_t nx = f->geometry.nx, ny = f->geometry.ny, xs[3] = {0, nx / 2, nx - 1}, ys[3] = {0, ny / 2, ny - 1};
    const int special[9] = {0, 4, 5, 8, 1, 2, 3, 6, 7}, n_special = f->n_pixel < 72 ? f->n_pixel / 8 : 9;
    msi_bench_field_pixels *c = &f->checked;
    c->n = 0;
    for (int i = 0; c->n < f->n_pixel; i++) {
        uint64_t at = 2 * (uint64_t)i;
        int64_t x = i < n_special ? xs[special[i] % 3] : (int64_t)(drawn(f, OF_PIXEL, at) * (double)nx);
        int64_t y = i < n_special ? ys[special[i] / 3] : (int64_t)(drawn(f, OF_PIXEL, at + 1) * (double)ny);
        int known = 0;
        for (int k = 0; k < c->n; k++) known |= c->x[k] == x && c->y[k] == y;
        if (known) continue;
        c->x[c->n] = x;
        c->y[c->n++] = y;
    }
}

int msi_bench_field_fill(msi_bench_field *f)
{
    msi_vis_store *s = &f->store;
    const size_t size = (size_t)msi_complex_bytes(f->precision);
    MSI_TRY(msi_alloc(&f->weight, n_sample(f) * f->n_plane, sizeof *f->weight, "weights"));
    MSI_TRY(msi_alloc(&f->vis, n_sample(f) * f->n_plane, size, "visibilities"));
    s->n_plane = f->n_plane;
    s->precision = f->precision;
    s->w_min_lambda = f->w_min_lambda;
    s->w_max_lambda = f->w_max_lambda;
    s->n_sample = n_sample(f);
    s->n_segment = (f->n_row + MSI_SEGMENT_ROWS - 1) / MSI_SEGMENT_ROWS;
    MSI_TRY(msi_alloc(&s->segment, s->n_segment, sizeof *s->segment, "segments"));
    for (int64_t i = 0; i < s->n_segment; i++) {
        int64_t first = i * MSI_SEGMENT_ROWS, n = f->n_row - first, at = first * f->n_chan * f->n_plane;
        if (n > MSI_SEGMENT_ROWS) n = MSI_SEGMENT_ROWS;
        s->segment[i] = (msi_vis_segment){.n_row = n,
                                          .n_row_max = n,
                                          .n_chan = f->n_chan,
                                          .freq_hz = f->freq_hz,
                                          .uvw_m = f->uvw_m + 3 * first,
                                          .weight = f->weight + at,
                                          .vis = (char *)f->vis + (size_t)at * size};
    }
    draw(f);
    sum_weights(f);
    choose_pixels(f);
    return MSI_OK;
}

void msi_bench_field_free(msi_bench_field *f)
{
    msi_free(f->uvw_m);
    msi_free(f->weight);
    msi_free(f->vis);
    msi_free(f->store.segment);
    msi_free(f->truth);
    memset(f, 0, sizeof *f);
}

void msi_bench_field_use(msi_bench_field *f, int to_predict)
{
    f->store.coordinates = to_predict;
    for (int64_t i = 0; i < f->store.n_segment; i++)
        f->store.segment[i].weight = to_predict ? NULL : f->weight + i * MSI_SEGMENT_ROWS * f->n_chan * f->n_plane;
    if (!to_predict && f->overwritten) draw(f);
    f->overwritten = to_predict;
}

typedef struct direction {
    long double l, m, n_minus_1;
} direction;

static direction direction_of(const msi_image_geometry *g, int64_t x, int64_t y)
{
    long double l = (long double)(g->nx / 2 - x) * (long double)g->cell_x_rad;
    long double m = (long double)(y - g->ny / 2) * (long double)g->cell_y_rad, r2 = l * l + m * m;
    return (direction){l, m, -r2 / (1 + sqrtl(1 - r2))};
}

static msi_c64 turned(const double *uvw_m, const direction *d, double freq_hz)
{
    long double metres =
        (long double)uvw_m[0] * d->l + (long double)uvw_m[1] * d->m + (long double)uvw_m[2] * d->n_minus_1;
    long double turns = metres * (long double)freq_hz / (long double)MSI_SPEED_OF_LIGHT;
    double phase = 2 * MSI_PI * (double)(turns - rintl(turns));
    return (msi_c64){cos(phase), sin(phase)};
}

static msi_c64 product(msi_c64 a, msi_c64 b)
{
    return (msi_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/*
 * Add one row to the sums of all planes at all pixels. Channels are evenly spaced, so phases change by a constant angle
 * from one channel to the next.
 */
static void add_row(const msi_bench_field *f, const direction *d, int64_t row, double *sum)
{
    const int n_pixel = f->checked.n, n_plane = f->n_plane;
    const double *uvw_m = f->uvw_m + 3 * row;
    const double step_hz = f->n_chan > 1 ? f->freq_hz[1] - f->freq_hz[0] : 0;
    msi_c64 value[MSI_BENCH_FIELD_MAX_CHAN][MSI_BENCH_FIELD_PLANES + 1];
    for (int32_t c = 0; c < f->n_chan; c++) {
        for (int p = 0; p < n_plane; p++) {
            double weight = (double)weight_of(f, p, row * f->n_chan + c);
            msi_c32 v = vis_of(f, p, row * f->n_chan + c);
            value[c][p] = (msi_c64){weight * (double)v.re, weight * (double)v.im};
        }
        value[c][n_plane] = (msi_c64){(double)weight_of(f, 0, row * f->n_chan + c), 0};
    }
    for (int i = 0; i < n_pixel; i++) {
        msi_c64 turn = turned(uvw_m, &d[i], f->freq_hz[0]), step = {1, 0};
        if (f->n_chan > 1) step = turned(uvw_m, &d[i], step_hz);
        for (int32_t c = 0; c < f->n_chan; c++) {
            for (int p = 0; p <= n_plane; p++)
                sum[p * n_pixel + i] += value[c][p].re * turn.re + value[c][p].im * turn.im;
            turn = product(turn, step);
        }
    }
}

static int make_truth(msi_bench_field *f)
{
    const int n = (f->n_plane + 1) * f->checked.n;
    double *truth;
    direction d[MSI_BENCH_FIELD_MAX_PIXEL];
    MSI_TRY(msi_alloc(&truth, n, sizeof *truth, "exact image"));
    for (int i = 0; i < f->checked.n; i++) d[i] = direction_of(&f->geometry, f->checked.x[i], f->checked.y[i]);
#pragma omp parallel
    {
        double part[(MSI_BENCH_FIELD_PLANES + 1) * MSI_BENCH_FIELD_MAX_PIXEL] = {0};
#pragma omp for
        for (int64_t row = 0; row < f->n_row; row++) add_row(f, d, row, part);
#pragma omp critical(field_truth)
        for (int i = 0; i < n; i++) truth[i] += part[i];
    }
    for (int i = 0; i < n; i++) truth[i] /= f->sum_weight[i / f->checked.n % f->n_plane];
    f->truth = truth;
    return MSI_OK;
}

/* Set *error to the larger error; NaN counts as the largest. */
static void take_worse(double *error, double other)
{
    if (!isnan(*error) && !(other <= *error)) *error = other;
}

int msi_bench_field_image_error(msi_bench_field *f, const msi_image *image, const int *store_plane, double *error)
{
    return msi_bench_field_residual_error(f, image, store_plane, 0, error);
}

int msi_bench_field_residual_error(msi_bench_field *f, const msi_image *image, const int *store_plane, double centre_jy,
                                   double *error)
{
    const int64_t n_pixel = msi_image_n_pixel(&f->geometry);
    *error = 0;
    if (!f->truth) MSI_TRY(make_truth(f));
    for (int p = 0; p < image->n_plane; p++) {
        const int of = store_plane[p] < 0 ? f->n_plane : store_plane[p];
        double off = 0, all = 0;
        for (int i = 0; i < f->checked.n; i++) {
            int64_t at = p * n_pixel + f->checked.y[i] * f->geometry.nx + f->checked.x[i];
            double exact = f->truth[of * f->checked.n + i] - centre_jy * f->truth[f->n_plane * f->checked.n + i];
            double difference = msi_image_value(image->pixel, image->precision, at) - exact;
            off += difference * difference;
            all += exact * exact;
        }
        take_worse(error, sqrt(off / fmax(all, f->checked.n * f->rms[of] * f->rms[of])));
    }
    return MSI_OK;
}

/* Make random source s of a plane: its pixel, and its flux, which is exact in a float. */
static int64_t source_at(const msi_bench_field *f, int plane, int s, double *flux_jy)
{
    uint64_t i = 2 * (uint64_t)(s * MSI_BENCH_FIELD_PLANES + plane);
    *flux_jy = (double)(float)(0.1 + drawn(f, OF_FLUX, i));
    if (s < f->checked.n && s < MSI_BENCH_FIELD_SOURCES / 2) return f->checked.y[s] * f->geometry.nx + f->checked.x[s];
    return (int64_t)(drawn(f, OF_FLUX, i + 1) * (double)msi_image_n_pixel(&f->geometry));
}

int msi_bench_field_model(const msi_bench_field *f, msi_image *model)
{
    const int64_t n_pixel = msi_image_n_pixel(&f->geometry);
    double flux_jy;
    MSI_TRY(msi_image_alloc(model, &f->geometry, f->n_plane, f->precision));
    for (int p = 0; p < f->n_plane; p++)
        for (int s = 0; s < MSI_BENCH_FIELD_SOURCES; s++) {
            int64_t at = p * n_pixel + source_at(f, p, s, &flux_jy);
            if (f->precision == MSI_FP32)
                ((float *)model->pixel)[at] = (float)flux_jy;
            else
                ((double *)model->pixel)[at] = flux_jy;
        }
    return MSI_OK;
}

/*
 * Predict a sample from the values of the model image, because a pixel that is chosen twice has the last flux.
 * Returned: *power  sum of the squared fluxes, the mean of |V|^2
 */
static msi_c64 exact_vis(const msi_bench_field *f, const msi_image *model, int plane, int64_t sample, double *power)
{
    const int64_t nx = f->geometry.nx, first = plane * msi_image_n_pixel(&f->geometry);
    int64_t seen[MSI_BENCH_FIELD_SOURCES];
    msi_c64 sum = {0, 0};
    *power = 0;
    for (int s = 0; s < MSI_BENCH_FIELD_SOURCES; s++) {
        double flux_jy;
        int known = 0;
        seen[s] = source_at(f, plane, s, &flux_jy);
        for (int k = 0; k < s; k++) known |= seen[k] == seen[s];
        if (known) continue;
        direction d = direction_of(&f->geometry, seen[s] % nx, seen[s] / nx);
        msi_c64 turn = turned(f->uvw_m + 3 * (sample / f->n_chan), &d, f->freq_hz[sample % f->n_chan]);
        flux_jy = msi_image_value(model->pixel, model->precision, first + seen[s]);
        sum.re += flux_jy * turn.re;
        sum.im += flux_jy * turn.im;
        *power += flux_jy * flux_jy;
    }
    return sum;
}

static msi_c64 predicted(const msi_bench_field *f, int plane, int64_t sample)
{
    const int64_t row = sample / f->n_chan;
    const msi_vis_segment *s = &f->store.segment[row >> MSI_SEGMENT_SHIFT];
    const int64_t at = msi_segment_index(s, plane, row & (MSI_SEGMENT_ROWS - 1), (int32_t)(sample % f->n_chan));
    if (f->precision == MSI_FP64) return ((const msi_c64 *)s->vis)[at];
    msi_c32 x = ((const msi_c32 *)s->vis)[at];
    return (msi_c64){(double)x.re, (double)x.im};
}

void msi_bench_field_vis_error(const msi_bench_field *f, const msi_image *model, double *error)
{
    const int64_t n = n_sample(f), n_checked = n < MOST_CHECKED_VIS ? n : MOST_CHECKED_VIS;
    *error = 0;
    for (int p = 0; p < f->n_plane; p++) {
        double off = 0, all = 0, alone = 0;
#pragma omp parallel for reduction(+ : off, all, alone)
        for (int64_t k = 0; k < n_checked; k++) {
            int64_t sample = k * n / n_checked;
            double power;
            msi_c64 exact = exact_vis(f, model, p, sample, &power), x = predicted(f, p, sample);
            off += (x.re - exact.re) * (x.re - exact.re) + (x.im - exact.im) * (x.im - exact.im);
            all += exact.re * exact.re + exact.im * exact.im;
            alone += power;
        }
        take_worse(error, sqrt(off / fmax(all, alone)));
    }
}

enum { N_CHECKED = 24 };

static int is_same(const msi_field_el56 *a, const msi_field_el56 *b)
{
    return a->n_time == b->n_time && a->n_pixel == b->n_pixel && a->n_chan == b->n_chan && a->n_plane == b->n_plane &&
           a->precision == b->precision && a->cell_asec == b->cell_asec;
}

/* Without a given pixel size, the image's uv plane extends a thousandth beyond the longest baseline at the highest
 * frequency. */
static int make_field(msi_bench_field *f, const msi_field_el56 *wanted, const msi_bench_options *options)
{
    const double first_hz = MSI_EL56_FREQ_HZ, last_hz = 130e6;
    const int32_t n_chan = wanted->n_chan;
    msi_el56_array a;
    MSI_TRY(msi_el56_array_make(&a, options, wanted->n_time));
    f->n_row = a.n_time * a.n_baseline;
    f->n_chan = n_chan;
    f->n_plane = wanted->n_plane;
    f->precision = wanted->precision;
    f->n_pixel = N_CHECKED;
    f->seed = 1;
    f->procedural = a.procedural;
    for (int32_t c = 0; c < n_chan; c++)
        f->freq_hz[c] = n_chan > 1 ? first_hz + (last_hz - first_hz) * c / (n_chan - 1) : first_hz;
    const double highest = f->freq_hz[n_chan - 1] / first_hz;
    const double fitting_rad = 0.5 / (1.001 * highest * fmax(a.u_max_lambda, a.v_max_lambda));
    const double cell_rad = wanted->cell_asec > 0 ? wanted->cell_asec / 206264.806 : fitting_rad;
    f->geometry = (msi_image_geometry){wanted->n_pixel, wanted->n_pixel, cell_rad, cell_rad};
    f->w_min_lambda = a.w_min_lambda;
    f->w_max_lambda = a.w_max_lambda * highest;
    int rc = msi_alloc(&f->uvw_m, 3 * f->n_row, sizeof *f->uvw_m, "uvw");
    if (!rc) {
        const double metres = MSI_SPEED_OF_LIGHT / first_hz;
#pragma omp parallel for
        for (int64_t i = 0; i < f->n_row; i++) {
            f->uvw_m[3 * i] = (double)a.u[i] * metres;
            f->uvw_m[3 * i + 1] = (double)a.v[i] * metres;
            f->uvw_m[3 * i + 2] = (double)a.w[i] * metres;
        }
    }
    msi_el56_array_free(&a);
    return rc ? rc : msi_bench_field_fill(f);
}

int msi_field_el56_get(msi_bench_field **out, const msi_field_el56 *wanted, const msi_bench_options *options)
{
    static msi_bench_field field;
    static msi_field_el56 made_for;
    if (!is_same(&made_for, wanted)) {
        made_for = (msi_field_el56){0};
        msi_bench_field_free(&field);
        MSI_TRY(make_field(&field, wanted, options));
        made_for = *wanted;
    }
    *out = &field;
    return MSI_OK;
}
