/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Visibilities to an image and back, with the gridder that msimage uses.
 *
 * The program observes three point sources with a small array, images the visibilities block by block, and compares
 * some pixels with the direct Fourier sum. Then it predicts the visibilities of an image of the sources, and compares
 * those with the formula. It needs no Measurement Set. `grid cpu` and `grid cuda` choose the backend; by default a GPU
 * is used if there is one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gridder.h"

enum { N_STATION = 24, N_TIME = 40, N_CHAN = 16, N_SOURCE = 3 };
enum { N_ROW = N_STATION * (N_STATION - 1) / 2 }; /* baselines: the rows of one time, and of one block */
enum { N_PIXEL = 512 };

static const double ACCURACY = 1e-5;
static const double CELL_RAD = 4e-5; /* 8 arcsec */

/* Pixel (x, y), counted from 0, is at l = (nx/2 - x) cell, m = (y - ny/2) cell: see core/image.h. */
static const struct {
    int x, y;
    double flux_jy;
} source[N_SOURCE] = {{256, 256, 1}, {40, 470, 0.5}, {301, 199, 2}};

/* All visibilities, block by block, in the gridder's format: one image plane, Stokes I. */
typedef struct observation {
    double freq_hz[N_CHAN];
    double uvw_m[N_TIME][N_ROW][3];
    msi_c64 vis[N_TIME][N_ROW][N_CHAN];
    float weight[N_TIME][N_ROW][N_CHAN];
} observation;

/* Compute the phase of a direction, in turns: u l + v m + w (n - 1), with u, v, w in metres. */
static double turns(const double *uvw_m, double freq_hz, double l, double m)
{
    const double r2 = l * l + m * m, n_minus_1 = -r2 / (1 + sqrt(1 - r2));
    return (uvw_m[0] * l + uvw_m[1] * m + uvw_m[2] * n_minus_1) * freq_hz / MSI_SPEED_OF_LIGHT;
}

/* Compute V = sum of S exp(+2 pi i (u l + v m + w (n - 1))) over the sources. */
static msi_c64 visibility(const double *uvw_m, double freq_hz)
{
    msi_c64 sum = {0, 0};
    for (int s = 0; s < N_SOURCE; s++) {
        const double l = (N_PIXEL / 2 - source[s].x) * CELL_RAD, m = (source[s].y - N_PIXEL / 2) * CELL_RAD;
        const double phase = 2 * MSI_PI * turns(uvw_m, freq_hz, l, m);
        sum.re += source[s].flux_jy * cos(phase);
        sum.im += source[s].flux_jy * sin(phase);
    }
    return sum;
}

/* Compute coordinates: stations on a spiral, 1.5 km wide, at latitude 40 degrees, track the sources at declination 55
 * degrees for 5 hours. */
static void observe(observation *o)
{
    const double latitude = 40 * MSI_PI / 180, declination = 55 * MSI_PI / 180;
    double xyz_m[N_STATION][3]; /* towards hour angle 0 on the equator, towards the east, towards the pole */
    for (int i = 0; i < N_STATION; i++) {
        const double radius_m = 750 * sqrt((i + 0.5) / N_STATION), angle = 2.39996 * i;
        const double east_m = radius_m * cos(angle), north_m = radius_m * sin(angle);
        xyz_m[i][0] = -north_m * sin(latitude);
        xyz_m[i][1] = east_m;
        xyz_m[i][2] = north_m * cos(latitude);
    }
    for (int c = 0; c < N_CHAN; c++) o->freq_hz[c] = 1.4e9 + 1e6 * c;
    for (int t = 0; t < N_TIME; t++) {
        const double hour_angle = (t - N_TIME / 2) * (5.0 / N_TIME) * MSI_PI / 12;
        const double sin_h = sin(hour_angle), cos_h = cos(hour_angle);
        const double sin_d = sin(declination), cos_d = cos(declination);
        int row = 0;
        for (int i = 0; i < N_STATION; i++)
            for (int j = i + 1; j < N_STATION; j++, row++) {
                const double x = xyz_m[j][0] - xyz_m[i][0], y = xyz_m[j][1] - xyz_m[i][1],
                             z = xyz_m[j][2] - xyz_m[i][2];
                double *uvw_m = o->uvw_m[t][row];
                uvw_m[0] = sin_h * x + cos_h * y;
                uvw_m[1] = -sin_d * cos_h * x + sin_d * sin_h * y + cos_d * z;
                uvw_m[2] = cos_d * cos_h * x - cos_d * sin_h * y + sin_d * z;
                for (int c = 0; c < N_CHAN; c++) {
                    o->vis[t][row][c] = visibility(uvw_m, o->freq_hz[c]);
                    o->weight[t][row][c] = 1;
                }
            }
    }
}

/* Make the block of one time. The gridder copies the data, so that a program may reuse one buffer. */
static msi_vis_block block_of(const observation *o, int t)
{
    return (msi_vis_block){.n_row = N_ROW,
                           .n_chan = N_CHAN,
                           .n_plane = 1,
                           .uvw_m = o->uvw_m[t][0],
                           .freq_hz = o->freq_hz,
                           .vis = o->vis[t][0],
                           .weight = o->weight[t][0]};
}

/* Compute the image at one pixel, exactly: the weighted mean of V exp(-2 pi i (u l + v m + w (n - 1))). */
static double direct_sum(const observation *o, int x, int y)
{
    const double l = (N_PIXEL / 2 - x) * CELL_RAD, m = (y - N_PIXEL / 2) * CELL_RAD;
    double sum = 0, sum_weight = 0;
    for (int t = 0; t < N_TIME; t++)
        for (int row = 0; row < N_ROW; row++)
            for (int c = 0; c < N_CHAN; c++) {
                const double phase = -2 * MSI_PI * turns(o->uvw_m[t][row], o->freq_hz[c], l, m);
                const double weight = (double)o->weight[t][row][c];
                const msi_c64 v = o->vis[t][row][c];
                sum += weight * (v.re * cos(phase) - v.im * sin(phase));
                sum_weight += weight;
            }
    return sum / sum_weight;
}

/* Compare the image with the direct sum, at the corners and in the middle. Returns 0 or MSI_EINTERNAL. */
static int compare_pixels(const observation *o, const msi_image *image)
{
    static const int at[][2] = {{0, 0},     {N_PIXEL - 1, 0}, {0, N_PIXEL - 1}, {N_PIXEL - 1, N_PIXEL - 1},
                                {301, 199}, {0, 256},         {256, 0},         {100, 333}};
    enum { N_AT = sizeof at / sizeof *at };
    double square = 0, error_square = 0;
    printf("pixel          image    direct sum, Jy/beam\n");
    for (int i = 0; i < N_AT; i++) {
        const double exact = direct_sum(o, at[i][0], at[i][1]);
        const double value = msi_image_value(image->pixel, image->precision, (int64_t)at[i][1] * N_PIXEL + at[i][0]);
        printf("%3d, %3d  %11.8f   %11.8f\n", at[i][0], at[i][1], value, exact);
        error_square += (value - exact) * (value - exact);
        square += exact * exact;
    }
    const double error = sqrt(error_square / square);
    printf("relative L2 error of these pixels: %.1e; requested: %.0e\n", error, ACCURACY);
    if (!(error <= ACCURACY)) return msi_error_set(MSI_EINTERNAL, "the image's relative error is too large: %g", error);
    return MSI_OK;
}

/* Make an image of the visibilities. */
static int make_image(const observation *o, msi_backend backend, msi_image *image)
{
    /* Other members have their defaults: the method is the w-gridder, which chooses its strategy and precision. */
    const msi_gridder_spec spec = {.geometry = {N_PIXEL, N_PIXEL, CELL_RAD, CELL_RAD},
                                   .n_plane = 1,
                                   .psf = 1, /* the point spread function is one more plane, the last */
                                   .accuracy = ACCURACY,
                                   .backend = backend};
    msi_gridder *gridder;
    MSI_TRY(msi_gridder_create(&gridder, &spec));
    int rc = MSI_OK;
    for (int t = 0; !rc && t < N_TIME; t++) {
        const msi_vis_block block = block_of(o, t);
        rc = msi_gridder_add(gridder, &block);
    }
    if (!rc) rc = msi_gridder_image(gridder, image);
    if (!rc) {
        msi_gridder_report r;
        msi_gridder_report_get(gridder, &r);
        printf("%s, strategy %s: %lld samples, window of %d cells, grid of %lld x %lld, %lld w-planes %.1f wavelengths "
               "apart\n",
               r.method, r.strategy, (long long)r.n_sample, r.width, (long long)r.nu, (long long)r.nv, (long long)r.n_w,
               r.w_step);
    }
    msi_gridder_free(gridder);
    return rc;
}

/* Compare predicted visibilities with the formula. Returns 0 or MSI_EINTERNAL. */
static int compare_visibilities(msi_gridder *gridder, const observation *o)
{
    static msi_c64 vis[N_ROW][N_CHAN];
    double error_square = 0, square = 0;
    for (int t = 0; t < N_TIME; t++) {
        MSI_TRY(msi_gridder_fetch(gridder, N_ROW, N_CHAN, o->freq_hz, vis[0]));
        for (int row = 0; row < N_ROW; row++)
            for (int c = 0; c < N_CHAN; c++) {
                const msi_c64 exact = o->vis[t][row][c], got = vis[row][c];
                error_square += pow(got.re - exact.re, 2) + pow(got.im - exact.im, 2);
                square += exact.re * exact.re + exact.im * exact.im;
            }
    }
    const double error = sqrt(error_square / square);
    printf("relative L2 error of the predicted visibilities: %.1e; requested: %.0e\n", error, ACCURACY);
    if (!(error <= ACCURACY))
        return msi_error_set(MSI_EINTERNAL, "the visibilities' relative error is too large: %g", error);
    return MSI_OK;
}

/* Predict the visibilities of an image. */
static int predict(const observation *o, msi_backend backend)
{
    const msi_gridder_spec spec = {.geometry = {N_PIXEL, N_PIXEL, CELL_RAD, CELL_RAD},
                                   .n_plane = 1,
                                   .predict = 1, /* blocks contain coordinates; visibilities are fetched */
                                   .accuracy = ACCURACY,
                                   .backend = backend};
    msi_image model = {0}; /* Jy/pixel; the gridder borrows it */
    msi_gridder *gridder;
    MSI_TRY(msi_gridder_create(&gridder, &spec));
    int rc = msi_image_alloc(&model, &spec.geometry, 1, msi_gridder_precision(gridder));
    for (int s = 0; !rc && s < N_SOURCE; s++) {
        const int64_t at = (int64_t)source[s].y * N_PIXEL + source[s].x;
        if (model.precision == MSI_FP32)
            ((float *)model.pixel)[at] = (float)source[s].flux_jy;
        else
            ((double *)model.pixel)[at] = source[s].flux_jy;
    }
    if (!rc) rc = msi_gridder_model(gridder, &model);
    for (int t = 0; !rc && t < N_TIME; t++) {
        msi_vis_block block = block_of(o, t);
        block.vis = NULL; /* ignored */
        block.weight = NULL;
        rc = msi_gridder_add(gridder, &block);
    }
    if (!rc) rc = msi_gridder_predict(gridder);
    if (!rc) rc = compare_visibilities(gridder, o);
    msi_gridder_free(gridder);
    msi_image_free(&model);
    return rc;
}

int main(int argc, char **argv)
{
    const msi_backend backend = argc < 2                       ? MSI_BACKEND_AUTO
                                : strcmp(argv[1], "cuda") == 0 ? MSI_BACKEND_CUDA
                                                               : MSI_BACKEND_CPU;
    msi_image image = {0};
    observation *o;
    int rc = msi_alloc(&o, 1, sizeof *o, "simulated visibilities");
    if (!rc) {
        observe(o);
        rc = make_image(o, backend, &image);
        if (!rc) rc = compare_pixels(o, &image);
        if (!rc) rc = predict(o, backend);
        msi_image_free(&image);
        msi_free(o);
    }
    /* The function that failed has set the message. */
    if (rc) fprintf(stderr, "grid: %s\n", msi_error_get());
    msi_backend_await_all();
    return rc ? EXIT_FAILURE : EXIT_SUCCESS;
}
