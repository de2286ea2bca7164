/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Images, residuals, products and predictions whose pixels stay on the GPU, from the caller's array to the caller's. */
#include "core/status.h"
#include "lib/library_gridder.h"

static int planes(msimage_gridder *g, int n, msi_planes **out)
{
    return *out ? MSI_OK : msi_gridder_planes(g->inner, n, out);
}

/* Give planes to the caller, less others (NULL: none), over a scale. */
static int give_planes(msimage_gridder *g, const msi_planes *from, const msi_planes *less, double scale, void *image)
{
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
    msi_gridder_weights(g->inner, sum_weight, NULL, n_vis);
    const msi_work_images images = {.from = msi_planes_pixel(from, 0),
                                    .less = less ? msi_planes_pixel(less, 0) : NULL,
                                    .scale = scale,
                                    .sum_weight = sum_weight,
                                    .n_plane = msi_planes_shape_of(from)->n};
    return msi_library_gpu_pixels(g, &images, image);
}

/* Make residuals of a model where kernels read it, times a scale. NULL: of none. */
static int residual_of(msimage_gridder *g, const void *model, double scale, msi_planes *residual)
{
    int is_nan[MSI_GRIDDER_MAX_PLANES];
    if (!model) return msi_gridder_residual(g->inner, NULL, residual);
    MSI_TRY(planes(g, g->n_plane, &g->model));
    MSI_TRY(msi_library_gpu_model(g, model, scale, msi_planes_pixel(g->model, 0), is_nan));
    for (int p = 0; p < g->n_plane; p++)
        if (is_nan[p]) return msi_error_set(MSI_ERANGE, "model: image %d has a value that is not finite", p);
    return msi_gridder_residual(g->inner, g->model, residual);
}

int msi_library_gpu_residual(msimage_gridder *g, const void *model, void *image)
{
    const void *at;
    MSI_TRY(planes(g, g->n_plane, &g->residual));
    MSI_TRY(msi_library_gpu_reach(g, model, &at));
    MSI_TRY(residual_of(g, at, 1, g->residual));
    return give_planes(g, g->residual, NULL, 1, image);
}

int msi_library_gpu_psf(msimage_gridder *g, const void *model, void *image)
{
    (void)model;
    MSI_TRY(planes(g, 1, &g->psf));
    MSI_TRY(msi_gridder_psf(g->inner, g->psf));
    return give_planes(g, g->psf, NULL, 1, image);
}

/* Make the image of the visibilities unless it is there. */
static int make_dirty(msimage_gridder *g)
{
    if (g->gpu_dirty) return MSI_OK;
    MSI_TRY(planes(g, g->n_plane, &g->gpu_dirty));
    const int rc = residual_of(g, NULL, 1, g->gpu_dirty);
    if (rc) msi_library_forget_dirty(g);
    return rc;
}

int msi_library_gpu_hessian(msimage_gridder *g, const void *model, void *image)
{
    const void *at;
    double squares = 0;
    const int has_data = g->samples.largest_jy > 0;
    MSI_TRY(planes(g, g->n_plane, &g->residual));
    MSI_TRY(msi_library_gpu_reach(g, model, &at));
    if (has_data) MSI_TRY(msi_library_gpu_squares(g, at, &squares));
    const double scale = msi_library_hessian_scale(g, squares);
    MSI_TRY(residual_of(g, at, scale, g->residual));
    if (!has_data) return give_planes(g, g->residual, NULL, -scale, image);
    MSI_TRY(make_dirty(g));
    return give_planes(g, g->gpu_dirty, g->residual, scale, image);
}

int msi_library_gpu_predict(msimage_gridder *g, const void *model)
{
    const void *at;
    MSI_TRY(planes(g, g->n_plane, &g->model));
    MSI_TRY(msi_library_gpu_reach(g, model, &at));
    MSI_TRY(msi_library_gpu_model(g, at, 1, msi_planes_pixel(g->model, 0), g->is_nan));
    const msi_image image = {.geometry = g->geometry,
                             .n_plane = g->n_plane,
                             .precision = g->precision,
                             .pixel = msi_planes_pixel(g->model, 0)};
    return msi_library_predict(g, &image);
}
