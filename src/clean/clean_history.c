/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/fits/picture_apart.h"
#include "io/fits/picture.h"

int msi_clean_history_add(msi_clean_history *h, const msi_clean_step *step)
{
    if (h->n == h->capacity) {
        MSI_TRY(msi_grow(&h->step, h->n, 2 * h->capacity + 64, sizeof *h->step, "the record of cleaning"));
        h->capacity = 2 * h->capacity + 64;
    }
    h->step[h->n++] = *step;
    return MSI_OK;
}

void msi_clean_history_free(msi_clean_history *h)
{
    if (!h) return;
    msi_free(h->step);
    *h = (msi_clean_history){0};
}

/* ---- The table ---- */

/* Write a number and a comma; only the comma if the number is unknown. */
static int put_number(char *line, int size, double value)
{
    return isfinite(value) ? snprintf(line, (size_t)size, "%.9g,", value) : snprintf(line, (size_t)size, ",");
}

int msi_clean_history_write(msi_publish *p, int i, const msi_clean_history *h)
{
    static const char names[] = "major,minor,scale,peak,noise,flux,seconds,stop,image\n";
    int fd;
    MSI_TRY(msi_publish_begin(p, i, &fd));
    MSI_TRY(msi_publish_write(p, i, names, sizeof names - 1));
    for (int64_t k = 0; k < h->n; k++) {
        const msi_clean_step *s = &h->step[k];
        const double value[] = {s->scale_pixel, s->peak_jy, s->noise_jy, s->flux_jy};
        char line[512];
        int n = snprintf(line, sizeof line, "%lld,%lld,", (long long)s->major, (long long)s->minor);
        for (int v = 0; v < 4; v++) n += put_number(line + n, (int)sizeof line - n, value[v]);
        n += snprintf(line + n, sizeof line - (size_t)n, "%.3f,%s,%s\n", s->seconds, s->stop, s->image);
        MSI_TRY(msi_publish_write(p, i, line, (size_t)n));
    }
    return msi_publish_seal(p, i);
}

/* ---- The picture ---- */

enum { N_CURVE = 3 };

/* The curves of all images: peak, noise and flux after each cycle. */
typedef struct plot {
    double *x, *y[N_CURVE];
    msi_picture_curve *curve;
    int64_t n_curve;
} plot;

static int plot_alloc(plot *q, int64_t n)
{
    MSI_TRY(msi_alloc(&q->x, n + 1, sizeof(double), "a picture"));
    for (int k = 0; k < N_CURVE; k++) MSI_TRY(msi_alloc(&q->y[k], n + 1, sizeof(double), "a picture"));
    return msi_alloc(&q->curve, N_CURVE * n + 1, sizeof *q->curve, "a picture");
}

static void plot_free(plot *q)
{
    msi_free(q->x);
    for (int k = 0; k < N_CURVE; k++) msi_free(q->y[k]);
    msi_free(q->curve);
}

/* Add the curves of an image, the points [first, end) of x and y. If there are several images, the name of the image is
 * the label of its first curve. */
static void add_curves(plot *q, int64_t first, int64_t end, const char *image)
{
    static const char *const word[N_CURVE] = {"peak", "noise", ""};
    const int image_number = (int)(q->n_curve / N_CURVE);
    for (int k = 0; k < N_CURVE; k++)
        q->curve[q->n_curve++] = (msi_picture_curve){.name = image[0] ? (k ? "" : image) : word[k],
                                                     .panel = k == 2,
                                                     .colour = image[0] ? image_number : k,
                                                     .dashed = k == 1,
                                                     .x = q->x + first,
                                                     .y = q->y[k] + first,
                                                     .n = end - first};
}

static int has_several_images(const msi_clean_history *h)
{
    for (int64_t i = 1; i < h->n; i++)
        if (strcmp(h->step[i].image, h->step[0].image) != 0) return 1;
    return 0;
}

/* Collect the results of the cycles of each image, whose steps need not be consecutive. Only the last step of a cycle
 * is a point of the curves: the scales of a cycle alternate. */
static void collect(plot *q, const msi_clean_history *h, int by_cycle)
{
    int64_t n = 0;
    for (int64_t i = 0; i < h->n; i++) {
        int64_t earlier = 0, major = -1;
        const int64_t first = n;
        if (i && strcmp(h->step[i - 1].image, h->step[i].image) == 0) continue;
        while (earlier < i && strcmp(h->step[earlier].image, h->step[i].image) != 0) earlier++;
        if (earlier < i) continue;
        for (int64_t k = i; k < h->n; k++) {
            const msi_clean_step *s = &h->step[k];
            if (strcmp(s->image, h->step[i].image) != 0) continue;
            if (s->major == major) n--;
            q->x[n] = (double)(by_cycle ? s->major : s->minor);
            q->y[0][n] = fabs(s->peak_jy);
            q->y[1][n] = s->noise_jy;
            q->y[2][n] = s->flux_jy;
            major = s->major;
            n++;
        }
        add_curves(q, first, n, h->step[i].image);
    }
}

int msi_clean_history_draw(msi_publish *p, int i, const msi_clean_history *h, const char *title)
{
    plot q = {0};
    int rc = plot_alloc(&q, h->n);
    if (!rc) {
        const int by_cycle = has_several_images(h);
        collect(&q, h, by_cycle);
        const msi_picture_curves c = {.title = title,
                                      .x_title = by_cycle ? "major cycles" : "iterations",
                                      .panel = {{"peak, noise (dashed), Jy/beam", 1}, {"flux of the model, Jy", 0}},
                                      .curve = q.curve,
                                      .n_curve = q.n_curve};
        rc = msi_picture_spare(p, i, msi_picture_curves_draw(p, i, &c));
    }
    plot_free(&q);
    return rc;
}
