/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes an image on several GPUs with the installed library: each has a gridder in its own thread.
 *
 * With MSIMAGE_XY an image is a sum over samples, not divided by their weights. So each device grids a part of the
 * rows, and the images are added. The sum is compared with the image that one gridder makes of all rows. With fewer
 * than two GPUs two gridders share one device.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msimage/gridder.h>

enum { N_ROW = 4000, N_CHAN = 2, N_PIXEL = 256, MOST_DEVICES = 16 };

static const double ACCURACY = 1e-6;

static double uvw_m[N_ROW][3], freq_hz[N_CHAN] = {1e9, 1.01e9}, vis[N_ROW][N_CHAN][2];

/* A share of the rows, its device, and its results, for one thread. */
typedef struct share {
    msimage_backend backend;
    int device;
    int n_thread; /* host threads */
    int64_t first_row, n_row;
    double image[N_PIXEL][N_PIXEL];
    int status;
    char message[200]; /* copied in the thread, as each thread has its own msimage_error() */
} share;

static void observe(void)
{
    srand(3);
    for (int row = 0; row < N_ROW; row++) {
        for (int i = 0; i < 3; i++) uvw_m[row][i] = 1000.0 * rand() / RAND_MAX - 500;
        for (int chan = 0; chan < N_CHAN; chan++)
            for (int i = 0; i < 2; i++) vis[row][chan][i] = 2.0 * rand() / RAND_MAX - 1;
    }
}

static int image_of(share *s)
{
    const msimage_gridder_spec spec = {.struct_bytes = sizeof spec,
                                       .task = MSIMAGE_IMAGE,
                                       .convention = MSIMAGE_XY,
                                       .precision = MSIMAGE_FP64,
                                       .nx = N_PIXEL,
                                       .ny = N_PIXEL,
                                       .cell_x_rad = 2e-4,
                                       .cell_y_rad = 2e-4,
                                       .accuracy = ACCURACY,
                                       .backend = s->backend,
                                       .device = s->device,
                                       .n_thread = s->n_thread};
    const msimage_samples samples = {.n_row = s->n_row,
                                     .n_chan = N_CHAN,
                                     .uvw_m = uvw_m[s->first_row],
                                     .freq_hz = freq_hz,
                                     .vis = vis[s->first_row]};
    msimage_gridder *g;
    int status = msimage_gridder_create(&g, &spec, NULL);
    if (!status) status = msimage_gridder_add(g, &samples);
    if (!status) status = msimage_gridder_image(g, s->image);
    msimage_gridder_free(g);
    return status;
}

static void *work(void *of)
{
    share *s = of;
    s->status = image_of(s);
    snprintf(s->message, sizeof s->message, "%s", s->status ? msimage_error() : "");
    return NULL;
}

/* Run the shares in parallel, and add up their images. */
static int run(share *part, int n, double sum[N_PIXEL][N_PIXEL])
{
    pthread_t thread[MOST_DEVICES];
    int n_started = 0, status = EXIT_SUCCESS;
    while (n_started < n && !pthread_create(&thread[n_started], NULL, work, &part[n_started])) n_started++;
    for (int i = 0; i < n_started; i++) pthread_join(thread[i], NULL);
    if (n_started < n) return fprintf(stderr, "devices: cannot start a thread\n"), EXIT_FAILURE;
    for (int i = 0; i < n; i++) {
        if (part[i].status) {
            fprintf(stderr, "devices: device %d: %s\n", part[i].device, part[i].message);
            status = EXIT_FAILURE;
        }
        for (int y = 0; y < N_PIXEL; y++)
            for (int x = 0; x < N_PIXEL; x++) sum[y][x] += part[i].image[y][x];
    }
    return status;
}

static int compare(double image[N_PIXEL][N_PIXEL], double sum[N_PIXEL][N_PIXEL])
{
    double error = 0, norm = 0;
    for (int y = 0; y < N_PIXEL; y++)
        for (int x = 0; x < N_PIXEL; x++) {
            error += pow(sum[y][x] - image[y][x], 2);
            norm += pow(image[y][x], 2);
        }
    /* Each image may have an error of ACCURACY. */
    printf("the sum differs from one image by %.1e, allowed %.0e\n", sqrt(error / norm), 2 * ACCURACY);
    return sqrt(error / norm) <= 2 * ACCURACY ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(void)
{
    static double sum[N_PIXEL][N_PIXEL], whole[N_PIXEL][N_PIXEL];
    const int n_gpu = msimage_gpu_count();
    int n = n_gpu < 2 ? 2 : n_gpu > MOST_DEVICES ? MOST_DEVICES : n_gpu;
    share *part = calloc((size_t)n + 1, sizeof *part);
    if (!part) return fprintf(stderr, "devices: out of memory\n"), EXIT_FAILURE;
    observe();
    if (n_gpu > 1)
        printf("%d GPUs, a gridder on each\n", n);
    else
        printf("only one device, %s: two gridders share it\n", n_gpu ? "a GPU" : "the CPU");
    for (int i = 0; i < n; i++) {
        part[i] = (share){.backend = n_gpu ? MSIMAGE_CUDA : MSIMAGE_CPU, .device = n_gpu > 1 ? i : 0, .n_thread = 1};
        part[i].first_row = (int64_t)N_ROW * i / n;
        part[i].n_row = (int64_t)N_ROW * (i + 1) / n - part[i].first_row;
    }
    part[n] = (share){.backend = part[0].backend, .n_row = N_ROW};
    const int failed = run(part, n, sum) || run(part + n, 1, whole);
    free(part);
    return failed ? EXIT_FAILURE : compare(whole, sum);
}
