/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/image.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

int msi_image_alloc(msi_image *image, const msi_image_geometry *geometry, int n_plane, msi_precision precision)
{
    memset(image, 0, sizeof *image);
    image->geometry = *geometry;
    image->n_plane = n_plane;
    image->precision = precision;
    size_t size = precision == MSI_FP32 ? sizeof(float) : sizeof(double);
    int rc = msi_alloc(&image->pixel, msi_image_n_pixel(geometry) * n_plane, size, "image");
    if (!rc) rc = msi_alloc(&image->sum_weight, n_plane, sizeof(double), "image");
    if (!rc) rc = msi_alloc(&image->n_vis, n_plane, sizeof(int64_t), "image");
    if (rc) msi_image_free(image);
    return rc;
}

void msi_image_free(msi_image *image)
{
    if (!image) return;
    msi_free(image->pixel);
    msi_free(image->sum_weight);
    msi_free(image->n_vis);
    memset(image, 0, sizeof *image);
}
