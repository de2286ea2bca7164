/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes one image and predicts visibilities, each in one call of the installed library.
 *
 * The program observes two sources with random baselines. It compares a few pixels of the image with the direct sum,
 * and the predicted visibilities with the formula. Both must agree to the requested accuracy.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <msimage/gridder.h>

enum { N_ROW = 2000, N_CHAN = 4, N_PIXEL = 256 };

static const double ACCURACY = 1e-6, CELL_RAD = 2e-4, TWO_PI = 6.283185307179586, LIGHT_M_S = 299792458.0;

static const struct {
    int x, y;
    double flux_jy;
} source[] = {{128, 128, 1}, {40, 201, 0.5}};

static double uvw_m[N_ROW][3], freq_hz[N_CHAN], vis[N_ROW][N_CHAN][2], predicted[N_ROW][N_CHAN][2];
static double image[N_PIXEL][N_PIXEL], model[N_PIXEL][N_PIXEL];

/* Compute the phase 2 pi f/c (u l + v m + w (n - 1)) of the direction of a pixel. */
static double phase(int row, int chan, int x, int y)
{
    const double l = (N_PIXEL / 2 - x) * CELL_RAD, m = (y - N_PIXEL / 2) * CELL_RAD, r2 = l * l + m * m;
    const double metres = uvw_m[row][0] * l + uvw_m[row][1] * m - uvw_m[row][2] * r2 / (1 + sqrt(1 - r2));
    return TWO_PI * metres * freq_hz[chan] / LIGHT_M_S;
}

static void observe(void)
{
    srand(1);
    for (int row = 0; row < N_ROW; row++)
        for (int i = 0; i < 3; i++) uvw_m[row][i] = 1000.0 * rand() / RAND_MAX - 500;
    for (int chan = 0; chan < N_CHAN; chan++) freq_hz[chan] = 1e9 + 1e7 * chan;
    for (int row = 0; row < N_ROW; row++)
        for (int chan = 0; chan < N_CHAN; chan++)
            for (size_t s = 0; s < sizeof source / sizeof *source; s++) {
                const double turned = phase(row, chan, source[s].x, source[s].y);
                vis[row][chan][0] += source[s].flux_jy * cos(turned);
                vis[row][chan][1] += source[s].flux_jy * sin(turned);
            }
}

/* Compute a pixel of the image directly: the mean of V exp(-i phase). */
static double direct_sum(int x, int y)
{
    double sum = 0;
    for (int row = 0; row < N_ROW; row++)
        for (int chan = 0; chan < N_CHAN; chan++) {
            const double turned = phase(row, chan, x, y);
            sum += vis[row][chan][0] * cos(turned) + vis[row][chan][1] * sin(turned);
        }
    return sum / (N_ROW * N_CHAN);
}

static int fail(const char *what)
{
    fprintf(stderr, "grid_once: %s: %s\n", what, msimage_error());
    return EXIT_FAILURE;
}

static int compare_image(void)
{
    static const int at[][2] = {{128, 128}, {40, 201}, {0, 0}, {255, 255}, {10, 240}};
    double error = 0, norm = 0;
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        const double exact = direct_sum(at[i][0], at[i][1]);
        error += pow(image[at[i][1]][at[i][0]] - exact, 2);
        norm += exact * exact;
    }
    printf("image: relative error %.1e, requested %.0e\n", sqrt(error / norm), ACCURACY);
    return sqrt(error / norm) <= ACCURACY ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int compare_predictions(void)
{
    double error = 0, norm = 0;
    for (int row = 0; row < N_ROW; row++)
        for (int chan = 0; chan < N_CHAN; chan++)
            for (int i = 0; i < 2; i++) {
                error += pow(predicted[row][chan][i] - vis[row][chan][i], 2);
                norm += vis[row][chan][i] * vis[row][chan][i];
            }
    printf("visibilities: relative error %.1e, requested %.0e\n", sqrt(error / norm), ACCURACY);
    return sqrt(error / norm) <= ACCURACY ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void)
{
    msimage_gridder_spec spec = {.struct_bytes = sizeof spec,
                                 .task = MSIMAGE_IMAGE,
                                 .precision = MSIMAGE_FP64,
                                 .nx = N_PIXEL,
                                 .ny = N_PIXEL,
                                 .cell_x_rad = CELL_RAD,
                                 .cell_y_rad = CELL_RAD,
                                 .accuracy = ACCURACY};
    const msimage_samples samples = {
        .n_row = N_ROW, .n_chan = N_CHAN, .uvw_m = uvw_m[0], .freq_hz = freq_hz, .vis = vis};
    msimage_gridder *g;
    observe();

    if (msimage_gridder_create(&g, &spec, NULL)) return fail("create");
    if (msimage_gridder_add(g, &samples) || msimage_gridder_image(g, image)) return fail("image");
    msimage_gridder_free(g);

    for (size_t s = 0; s < sizeof source / sizeof *source; s++) model[source[s].y][source[s].x] = source[s].flux_jy;
    spec.task = MSIMAGE_PREDICT;
    if (msimage_gridder_create(&g, &spec, NULL)) return fail("create");
    if (msimage_gridder_add(g, &samples) || msimage_gridder_predict(g, model) ||
        msimage_gridder_fetch(g, &samples, predicted))
        return fail("predict");
    msimage_gridder_free(g);
    return compare_image() || compare_predictions();
}
