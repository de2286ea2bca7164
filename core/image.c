/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/image.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

static int make_image(msi_image *image, const msi_image_geometry *geometry, int n_plane, msi_precision precision,
                      int (*allocate)(void *out, int64_t n, size_t size, const char *what))
{
    memset(image, 0, sizeof *image);
    image->geometry = *geometry;
    image->n_plane = n_plane;
    image->precision = precision;
    size_t size = precision == MSI_FP32 ? sizeof(float) : sizeof(double);
    int rc = allocate(&image->pixel, msi_image_n_pixel(geometry) * n_plane, size, "images");
    if (!rc) rc = msi_alloc(&image->sum_weight, n_plane, sizeof(double), "image");
    if (!rc) rc = msi_alloc(&image->n_vis, n_plane, sizeof(int64_t), "image");
    if (rc) msi_image_free(image);
    return rc;
}

int msi_image_alloc(msi_image *image, const msi_image_geometry *geometry, int n_plane, msi_precision precision)
{
    return make_image(image, geometry, n_plane, precision, msi_alloc_paged);
}

int msi_image_alloc_unset(msi_image *image, const msi_image_geometry *geometry, int n_plane, msi_precision precision)
{
    return make_image(image, geometry, n_plane, precision, msi_alloc_unset);
}

void msi_image_free(msi_image *image)
{
    if (!image) return;
    msi_free(image->pixel);
    msi_free(image->sum_weight);
    msi_free(image->n_vis);
    memset(image, 0, sizeof *image);
}

void msi_image_fill_nan(msi_image *image, int plane)
{
    const int64_t n = msi_image_n_pixel(&image->geometry);
    float *f32 = image->pixel;
    double *f64 = image->pixel;
    for (int64_t i = plane * n; i < (plane + 1) * n; i++) {
        if (image->precision == MSI_FP32)
            f32[i] = NAN;
        else
            f64[i] = NAN;
    }
}

void msi_image_blank(msi_image *image)
{
    const int64_t n = image->n_plane * msi_image_n_pixel(&image->geometry);
    float *f32 = image->pixel;
    double *f64 = image->pixel;
    for (int64_t i = 0; i < n; i++) {
        if (image->precision == MSI_FP32)
            f32[i] = isfinite(f32[i]) ? f32[i] : 0;
        else
            f64[i] = isfinite(f64[i]) ? f64[i] : 0;
    }
}

/* Add a range of pixels of one plane. Given: part  fraction of the mean that the image has */
static void add_pixels(msi_image *sum, const msi_image *image, int64_t first, int64_t end, double part)
{
    const double rest = 1 - part;
#pragma omp parallel for schedule(static)
    for (int64_t i = first; i < end; i++) {
        if (image->precision == MSI_FP32) {
            float *to = (float *)sum->pixel + i;
            *to = (float)(rest * (double)*to + part * (double)((const float *)image->pixel)[i]);
        } else {
            double *to = (double *)sum->pixel + i;
            *to = rest * *to + part * ((const double *)image->pixel)[i];
        }
    }
}

/* Add the weights of a plane. Returns: fraction of the mean that the image has; 0: it has no weight */
static double add_weight(msi_image *sum, const msi_image *image, int plane)
{
    if (!(image->sum_weight[plane] > 0)) return 0;
    sum->sum_weight[plane] += image->sum_weight[plane];
    sum->n_vis[plane] += image->n_vis[plane];
    return image->sum_weight[plane] / sum->sum_weight[plane];
}

void msi_image_add_weights(msi_image *sum, const msi_image *image, double *part)
{
    for (int p = 0; p < image->n_plane; p++) part[p] = add_weight(sum, image, p);
}

void msi_image_add_strip(msi_image *sum, const msi_image *image, const double *part, int strip, int n_strip)
{
    const int64_t n = msi_image_n_pixel(&image->geometry), first = n * strip / n_strip, end = n * (strip + 1) / n_strip;
    for (int p = 0; p < image->n_plane; p++)
        if (part[p] > 0) add_pixels(sum, image, p * n + first, p * n + end, part[p]);
}

void msi_image_add(msi_image *sum, const msi_image *image)
{
    const int64_t n = msi_image_n_pixel(&image->geometry);
    for (int p = 0; p < image->n_plane; p++) {
        const double part = add_weight(sum, image, p);
        if (part > 0) add_pixels(sum, image, p * n, (p + 1) * n, part);
    }
}

const char *msi_pol_name(msi_pol pol)
{
    static const char *const names[] = {"?", "I", "Q", "U", "V", "RR", "RL", "LR", "LL", "XX", "XY", "YX", "YY"};
    return names[(int)pol >= MSI_POL_I && pol <= MSI_POL_YY ? pol : 0];
}

void msi_image_widen(int64_t *from, int64_t *n, int64_t of, int64_t least)
{
    if (least > of) least = of;
    while (*n % 2 || *n < least) {
        if (*from > 0 && (*n % 2 || *from + *n >= of)) --*from;
        ++*n;
    }
}
