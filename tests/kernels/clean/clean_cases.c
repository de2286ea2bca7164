/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/kernels/clean/clean_cases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/status.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

msi_backend clean_backend;

int clean_begin(int argc, char **argv)
{
    clean_backend = argc > 1 && strcmp(argv[1], "cuda") == 0 ? MSI_BACKEND_CUDA : MSI_BACKEND_CPU;
#ifdef MSI_HAVE_CUDA
    return clean_backend == MSI_BACKEND_CPU || msi_gpu_available();
#else
    return clean_backend == MSI_BACKEND_CPU;
#endif
}

double clean_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53 - 0.5;
}

static int64_t all_pixels(const clean_problem *p)
{
    return p->nx * p->ny * p->n_channel * p->n_pol;
}

/* Compute the mean of cosines of samples whose density decreases from the middle of the uv plane outwards. */
static void make_psf(const clean_problem *p, int c, int n_sample, uint64_t seed, double *psf)
{
    const double scale = p->freq_hz[c] / p->freq_hz[0], turn = 2 * MSI_PI;
    memset(psf, 0, (size_t)(p->nx * p->ny) * sizeof *psf);
    for (int k = 0; k < n_sample; k++) {
        const double radius = 0.28 * scale * sqrt(fabs(clean_random(&seed) + clean_random(&seed)));
        const double angle = turn * clean_random(&seed), u = radius * cos(angle), v = radius * sin(angle);
        for (int64_t y = 0; y < p->ny; y++)
            for (int64_t x = 0; x < p->nx; x++)
                psf[y * p->nx + x] +=
                    cos(turn * (u * (double)(x - p->nx / 2) + v * (double)(y - p->ny / 2))) / n_sample;
    }
}

void clean_problem_make(clean_problem *p, int n_sample, uint64_t seed)
{
    for (int c = 0; c < p->n_channel; c++) {
        if (p->weight[c] == 0 && p->n_channel == 1) p->weight[c] = 1;
        if (p->freq_hz[c] == 0) p->freq_hz[c] = 1e9 + 1e8 * c;
    }
    const int n = oracle_n_psf(p);
    p->psf = calloc((size_t)(p->nx * p->ny * n), sizeof *p->psf);
    p->residual = calloc((size_t)all_pixels(p), sizeof *p->residual);
    p->model = calloc((size_t)all_pixels(p), sizeof *p->model);
    for (int c = 0; c < n; c++)
        make_psf(p, c % p->n_channel, n_sample, seed + (uint64_t)(c / p->n_channel), p->psf + c * p->nx * p->ny);
}

void clean_problem_add(clean_problem *p, const clean_source *s)
{
    const int64_t n = p->nx * p->ny;
    double *sky = calloc((size_t)n, sizeof *sky), *seen = calloc((size_t)n, sizeof *seen), sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double dx = (double)(i % p->nx) - s->x, dy = (double)(i / p->nx) - s->y;
        sky[i] = s->sigma > 0 ? exp(-(dx * dx + dy * dy) / (2 * s->sigma * s->sigma)) : dx == 0 && dy == 0;
        if (sky[i] < 1e-12) sky[i] = 0;
        sum += sky[i];
    }
    for (int64_t i = 0; i < n; i++) sky[i] /= sum;
    for (int c = 0; c < p->n_channel; c++) {
        oracle_convolve(p, sky, p->psf + c * n, seen);
        for (int k = c * p->n_pol; k < (c + 1) * p->n_pol; k++)
            for (int64_t i = 0; i < n; i++) p->residual[k * n + i] += s->flux[k] * seen[i];
    }
    free(sky);
    free(seen);
}

void clean_problem_noise(clean_problem *p, double amplitude, uint64_t seed)
{
    const int64_t n = p->nx * p->ny;
    double *sky = calloc((size_t)n, sizeof *sky), *seen = calloc((size_t)n, sizeof *seen);
    for (int k = 0; k < p->n_channel * p->n_pol; k++) {
        for (int64_t i = 0; i < n; i++) sky[i] = amplitude * clean_random(&seed);
        oracle_convolve(p, sky, p->psf + k / p->n_pol * n, seen);
        for (int64_t i = 0; i < n; i++) p->residual[k * n + i] += seen[i];
    }
    free(sky);
    free(seen);
}

void clean_problem_points(clean_problem *p, int n, uint64_t seed)
{
    for (int k = 0; k < n; k++) {
        clean_source s = {.x = floor((clean_random(&seed) * 0.8 + 0.5) * (double)p->nx),
                          .y = floor((clean_random(&seed) * 0.8 + 0.5) * (double)p->ny)};
        const double index = clean_random(&seed);
        for (int i = 0; i < p->n_channel * p->n_pol; i++) {
            const double sign = i % p->n_pol ? 2 * clean_random(&seed) : 1;
            s.flux[i] = sign * pow(0.9, k) * pow(p->freq_hz[i / p->n_pol] / p->freq_hz[0], index);
        }
        clean_problem_add(p, &s);
    }
    clean_problem_noise(p, 1e-3, seed);
}

uint8_t *clean_inner_mask(const clean_problem *p, double border, double part)
{
    uint8_t *mask = calloc((size_t)(p->nx * p->ny), 1);
    uint64_t seed = 11;
    const int64_t bx = (int64_t)ceil(border * (double)p->nx), by = (int64_t)ceil(border * (double)p->ny);
    for (int64_t y = by; y < p->ny - by; y++)
        for (int64_t x = bx; x < p->nx - bx; x++) mask[y * p->nx + x] = clean_random(&seed) + 0.5 < part;
    return mask;
}

void clean_problem_copy(clean_problem *to, const clean_problem *from)
{
    const size_t bytes = (size_t)all_pixels(from) * sizeof *from->residual;
    *to = *from;
    const size_t psfs = (size_t)(from->nx * from->ny * oracle_n_psf(from)) * sizeof *to->psf;
    to->psf = malloc(psfs);
    memcpy(to->psf, from->psf, psfs);
    to->residual = malloc(bytes);
    memcpy(to->residual, from->residual, bytes);
    to->model = malloc(bytes);
    memcpy(to->model, from->model, bytes);
}

void clean_problem_free(clean_problem *p)
{
    free(p->psf);
    free(p->residual);
    free(p->model);
}

msi_cleaner_spec clean_spec_of(const clean_problem *p, msi_precision precision)
{
    return (msi_cleaner_spec){.nx = p->nx,
                              .ny = p->ny,
                              .n_channel = p->n_channel,
                              .n_pol = p->n_pol,
                              .search_pol = p->searched,
                              .grid_x = p->grid_x,
                              .grid_y = p->grid_y,
                              .weight = p->weight,
                              .freq_hz = p->freq_hz,
                              .precision = precision,
                              .backend = clean_backend};
}

msi_planes *clean_planes_of(const clean_problem *p, const double *value, int n, msi_precision precision)
{
    const msi_planes_shape shape = {p->nx, p->ny, n, precision, clean_backend, 0};
    const int64_t count = p->nx * p->ny * n;
    msi_planes *planes;
    assert_int_equal(msi_planes_create(&planes, &shape), 0);
    if (precision == MSI_FP64) {
        assert_int_equal(msi_planes_upload(planes, 0, n, value), 0);
        return planes;
    }
    float *single = malloc((size_t)count * sizeof *single);
    for (int64_t i = 0; i < count; i++) single[i] = (float)value[i];
    assert_int_equal(msi_planes_upload(planes, 0, n, single), 0);
    free(single);
    return planes;
}

void clean_run_make(clean_run *run, const clean_problem *p, const msi_cleaner_spec *spec)
{
    const int n = p->n_channel * p->n_pol;
    msi_planes *psf = clean_planes_of(p, p->psf, p->n_channel, spec->precision);
    if (msi_cleaner_create(&run->c, spec) != 0) fail_msg("%s", msi_error_get());
    if (msi_cleaner_psf(run->c, psf) != 0) fail_msg("%s", msi_error_get());
    assert_int_equal(msi_cleaner_mask(run->c, p->mask), 0);
    msi_planes_free(psf);
    for (int cell = 1; cell < oracle_n_psf(p) / p->n_channel; cell++) {
        psf = clean_planes_of(p, p->psf + cell * p->n_channel * p->nx * p->ny, p->n_channel, spec->precision);
        if (msi_cleaner_cell_psf(run->c, cell, psf) != 0) fail_msg("%s", msi_error_get());
        msi_planes_free(psf);
    }
    run->precision = spec->precision;
    run->n_value = p->nx * p->ny * n;
    run->residual = clean_planes_of(p, p->residual, n, spec->precision);
    run->model = clean_planes_of(p, p->model, n, spec->precision);
}

double *clean_run_fetch(const clean_run *run, const msi_planes *planes)
{
    double *value = malloc((size_t)run->n_value * sizeof *value);
    const int n = msi_planes_shape_of(planes)->n;
    assert_int_equal(msi_planes_fetch(planes, 0, n, value), 0);
    if (run->precision == MSI_FP64) return value;
    /* Begin with the last: single-precision values are in the lower half. */
    for (int64_t i = run->n_value - 1; i >= 0; i--) {
        float single;
        memcpy(&single, (char *)value + i * 4, sizeof single);
        const double wide = single;
        memcpy((char *)value + i * 8, &wide, sizeof wide);
    }
    return value;
}

void clean_run_free(clean_run *run)
{
    msi_cleaner_free(run->c);
    msi_planes_free(run->residual);
    msi_planes_free(run->model);
}

double clean_largest_distance(const double *a, const double *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isfinite(a[i]) != isfinite(b[i])) return INFINITY;
        if (isfinite(a[i])) most = fmax(most, fabs(a[i] - b[i]));
    }
    return most;
}
