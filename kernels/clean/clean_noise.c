/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The noise of residuals, the thresholds that follow from it, and the noise around each pixel. */
#include <math.h>

#include "core/memory.h"
#include "kernels/clean/clean_state.h"

static int no_pixel(void)
{
    return msi_error_about(msi_error_set(MSI_EINPUT, "the residual has no finite pixel"), "residual");
}

int msi_clean_noise(msi_cleaner *c, const msi_clean_planes *residual, double *sigma)
{
    /* The median distance of a normal variable from its median is its standard deviation over this. */
    const double of_normal = 1.48260221850560;
    double squares = 0;
    *sigma = 0;
    for (int p = 0; p < c->spec.n_pol; p++) {
        double median, deviation;
        int64_t n;
        if (!msi_clean_searched(&c->setup.join, p)) continue;
        const void *image = c->quantity;
        if (c->spec.n_channel == 1)
            image = msi_clean_plane(c, residual, p);
        else
            MSI_TRY(c->ops->mean(c->e, residual->pixel, residual->stride, p, c->quantity));
        MSI_TRY(c->ops->deviation(c->e, image, &median, &deviation, &n));
        if (!n) return no_pixel();
        squares += of_normal * deviation * of_normal * deviation;
    }
    *sigma = sqrt(squares / msi_clean_n_searched(&c->setup.join));
    return MSI_OK;
}

/* Compute the probability that a chi variable of k degrees of freedom exceeds x: the sum from integration by parts,
 * down to one or two degrees. */
static double chi_exceeds(int k, double x)
{
    const double half = 0.5 * x * x;
    double q = k % 2 ? erfc(x / sqrt(2)) : exp(-half);
    double term = k % 2 ? exp(-half) * sqrt(half) / (0.5 * sqrt(MSI_PI)) : half * exp(-half);
    for (int degrees = k % 2 ? 3 : 4; degrees <= k; degrees += 2) {
        q += term;
        term *= half / (0.5 * degrees);
    }
    return q;
}

double msi_clean_sigmas(const msi_cleaner *c, double n_sigma)
{
    int channels = 0;
    for (int i = 0; i < c->spec.n_channel; i++) channels += c->setup.share[i] != 0;
    const int degrees = msi_clean_n_searched(&c->setup.join) * (c->spec.squared_join ? channels : 1);
    if (degrees == 1 || !(n_sigma > 0)) return n_sigma;
    /* erfc is accurate up to 37 sigma; beyond, the result is extended linearly. */
    const double within = n_sigma < 37 ? n_sigma : 37, wanted = log(erfc(within / sqrt(2)));
    double low = within, high = within + 2 * sqrt((double)degrees) + 1;
    for (int i = 0; i < 200 && high > low; i++) {
        const double middle = 0.5 * (low + high);
        if (middle == low || middle == high) break;
        if (log(chi_exceeds(degrees, middle)) > wanted)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high) + (n_sigma - within);
}

/* Compute the weights of a gaussian window. At six sigma they have fallen to e-18. Returned: *out [*half + 1], in the
 * engine's memory */
static int make_weights(msi_cleaner *c, double fwhm, void **out, int64_t *half)
{
    const double sigma = fwhm / sqrt(8 * log(2));
    const int64_t longer = c->spec.nx > c->spec.ny ? c->spec.nx : c->spec.ny;
    const int is_single = c->spec.precision == MSI_FP32;
    double *weight;
    *out = NULL;
    *half = 6 * sigma < (double)longer ? (int64_t)ceil(6 * sigma) : longer;
    MSI_TRY(msi_alloc(&weight, *half + 1, sizeof *weight, "local noise"));
    float *single = (float *)weight;
    for (int64_t i = 0; i <= *half; i++) {
        const double distance = (double)i / sigma, value = exp(-0.5 * distance * distance);
        if (is_single)
            single[i] = (float)value;
        else
            weight[i] = value;
    }
    int rc = c->ops->alloc(c->e, out, (*half + 1) * c->real_bytes, "local noise");
    if (!rc) rc = c->ops->upload(c->e, *out, weight, (*half + 1) * c->real_bytes);
    if (!rc) rc = c->ops->wait(c->e);
    msi_free(weight);
    return rc;
}

/* Sum squares and counts over the window around each pixel. */
static int sum_windows(msi_cleaner *c, const msi_clean_local_rms *options, void *square, void *count, void *work)
{
    const int64_t box = (int64_t)ceil(options->window_pixel) | 1;
    void *weight;
    int64_t half;
    if (options->box) {
        MSI_TRY(c->ops->box(c->e, box, 0, square, work));
        return c->ops->box(c->e, box, 0, count, work);
    }
    int rc = make_weights(c, options->window_pixel, &weight, &half);
    if (!rc) rc = c->ops->weigh(c->e, weight, half, square, work);
    if (!rc) rc = c->ops->weigh(c->e, weight, half, count, work);
    c->ops->release(c->e, weight);
    return rc;
}

/* Temporary images for local noise. */
typedef struct images {
    void *mean, *count, *least, *work;
} images;

static int measure(msi_cleaner *c, const msi_clean_planes *residual, const msi_clean_local_rms *options,
                   const images *i, double *least)
{
    const msi_clean_engine_ops *o = c->ops;
    const int64_t bytes = c->n_pixel * c->real_bytes;
    int first = 0;
    while (!msi_clean_searched(&c->setup.join, first)) first++;
    MSI_TRY(o->mean(c->e, residual->pixel, residual->stride, first, i->mean));
    MSI_TRY(o->square(c->e, i->mean, c->factor, i->count));
    MSI_TRY(sum_windows(c, options, c->factor, i->count, i->work));
    if (options->with_min) {
        MSI_TRY(o->copy(c->e, i->least, i->mean, bytes));
        MSI_TRY(o->box(c->e, (int64_t)ceil(options->window_pixel) | 1, 1, i->least, i->work));
    }
    return o->factor(c->e, i->mean, i->count, options->with_min ? i->least : NULL,
                     options->strength > 0 ? options->strength : 1, c->factor, least);
}

int msi_clean_local_noise(msi_cleaner *c, const msi_clean_planes *residual, const msi_clean_local_rms *options,
                          double *least)
{
    const int64_t bytes = c->n_pixel * c->real_bytes;
    images i = {0};
    *least = 0;
    c->has_noise = c->has_factor = 0;
    if (!(options->window_pixel > 0) || !isfinite(options->window_pixel))
        return msi_error_about(msi_error_set(MSI_EARGUMENT,
                                             "local noise: the window must be a positive number of pixels, got %g",
                                             options->window_pixel),
                               "local_rms");
    if (!c->factor) MSI_TRY(c->ops->alloc(c->e, &c->factor, bytes, "local noise"));
    int rc = c->ops->alloc(c->e, &i.mean, bytes, "local noise");
    if (!rc) rc = c->ops->alloc(c->e, &i.count, bytes, "local noise");
    if (!rc) rc = c->ops->alloc(c->e, &i.work, bytes, "local noise");
    if (!rc && options->with_min) rc = c->ops->alloc(c->e, &i.least, bytes, "local noise");
    if (!rc) rc = measure(c, residual, options, &i, least);
    c->ops->release(c->e, i.mean);
    c->ops->release(c->e, i.count);
    c->ops->release(c->e, i.least);
    c->ops->release(c->e, i.work);
    if (rc) return rc;
    if (!isfinite(*least)) return no_pixel();
    c->has_noise = 1;
    c->has_factor = *least > 0;
    return MSI_OK;
}
