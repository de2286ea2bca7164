/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Deconvolves an image with the installed library: a gridder makes the major cycles, a cleaner the minor cycles.
 *
 * The program observes three sources with random baselines and images them with uniform weights. After some cycles the
 * model has their fluxes, and the residual is small.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <msimage/cleaner.h>
#include <msimage/gridder.h>

enum { N_ROW = 4000, N_PIXEL = 256, MOST_CYCLES = 10 };

static const double CELL_RAD = 2e-4, TWO_PI = 6.283185307179586, LIGHT_M_S = 299792458.0, FREQ_HZ = 1e9;

static const struct {
    int x, y;
    double flux_jy;
} source[] = {{128, 128, 1}, {60, 201, 0.5}, {170, 90, 0.25}};
enum { N_SOURCE = sizeof source / sizeof *source };

static double uvw_m[N_ROW][3];
static float vis[N_ROW][2], psf[N_PIXEL][N_PIXEL], residual[N_PIXEL][N_PIXEL], model[N_PIXEL][N_PIXEL];

static void observe(void)
{
    srand(2);
    for (int row = 0; row < N_ROW; row++) {
        double re = 0, im = 0;
        for (int i = 0; i < 3; i++) uvw_m[row][i] = 1000.0 * rand() / RAND_MAX - 500;
        for (int s = 0; s < N_SOURCE; s++) {
            const double l = (N_PIXEL / 2 - source[s].x) * CELL_RAD, m = (source[s].y - N_PIXEL / 2) * CELL_RAD;
            const double r2 = l * l + m * m, n_1 = -r2 / (1 + sqrt(1 - r2));
            const double phase =
                TWO_PI * FREQ_HZ / LIGHT_M_S * (uvw_m[row][0] * l + uvw_m[row][1] * m + uvw_m[row][2] * n_1);
            re += source[s].flux_jy * cos(phase);
            im += source[s].flux_jy * sin(phase);
        }
        vis[row][0] = (float)re;
        vis[row][1] = (float)im;
    }
}

/* Count the stages of long calls that have ended: their last report has the fraction 1. */
static void count_progress(void *of, const char *stage, double fraction)
{
    if (fraction == 1) ++*(int *)of;
    (void)stage;
}

/* Print which step failed, and the error line of the library. */
static int fail(const char *what)
{
    fprintf(stderr, "major_cycle: %s: %s\n", what, msimage_error());
    return EXIT_FAILURE;
}

static int deconvolve(msimage_gridder *g, msimage_cleaner *c)
{
    const msimage_clean_limits limits = {.threshold = 1e-3, .mgain = 0.8, .n_iteration = 100000};
    msimage_clean_report report;
    if (msimage_gridder_psf(g, psf) || msimage_cleaner_psf(c, psf)) return fail("point spread function");
    for (int cycle = 0; cycle < MOST_CYCLES; cycle++) {
        if (msimage_gridder_residual(g, cycle ? model[0] : NULL, residual)) return fail("residual");
        if (msimage_cleaner_minor(c, residual, model, &limits, &report)) return fail("minor cycle");
        printf("cycle %d: peak %.4f to %.4f Jy/beam, %lld iterations\n", cycle + 1, report.peak_before,
               report.peak_after, (long long)report.n_iteration);
        if (report.stop != MSIMAGE_STOP_MAJOR) break;
    }
    return EXIT_SUCCESS;
}

/* Compare the fluxes within two pixels of each source. */
static int compare(void)
{
    int is_wrong = 0;
    for (int s = 0; s < N_SOURCE; s++) {
        double flux_jy = 0;
        for (int y = -2; y <= 2; y++)
            for (int x = -2; x <= 2; x++) flux_jy += (double)model[source[s].y + y][source[s].x + x];
        printf("source of %.2f Jy: %.4f Jy in the model\n", source[s].flux_jy, flux_jy);
        is_wrong |= !(fabs(flux_jy - source[s].flux_jy) < 0.01);
    }
    return is_wrong;
}

int main(void)
{
    int n_progress = 0;
    const msimage_gridder_spec spec = {.struct_bytes = sizeof spec,
                                       .task = MSIMAGE_RESIDUAL,
                                       .precision = MSIMAGE_FP32,
                                       .nx = N_PIXEL,
                                       .ny = N_PIXEL,
                                       .cell_x_rad = CELL_RAD,
                                       .cell_y_rad = CELL_RAD,
                                       .accuracy = 1e-4};
    const msimage_cleaner_spec cleaning = {
        .struct_bytes = sizeof cleaning, .nx = N_PIXEL, .ny = N_PIXEL, .precision = MSIMAGE_FP32};
    const msimage_samples samples = {.n_row = N_ROW, .n_chan = 1, .uvw_m = uvw_m[0], .freq_hz = &FREQ_HZ, .vis = vis};
    const msimage_weighting uniform = {.mode = MSIMAGE_UNIFORM};
    const msimage_callbacks callbacks = {.progress = count_progress, .of = &n_progress};
    msimage_gridder *g;
    msimage_cleaner *c;
    observe();
    if (msimage_gridder_create(&g, &spec, &callbacks)) return fail("gridder");
    if (msimage_gridder_add(g, &samples) || msimage_gridder_weight(g, &uniform)) return fail("samples");
    if (msimage_cleaner_create(&c, &cleaning, NULL)) return fail("cleaner");
    const int rc = deconvolve(g, c);
    msimage_cleaner_free(c);
    msimage_gridder_free(g);
    if (rc) return rc;
    if (!n_progress) {
        fputs("major_cycle: no call reported its end\n", stderr);
        return EXIT_FAILURE;
    }
    return compare();
}
