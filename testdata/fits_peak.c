/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-peak IMAGE.fits RA DEC JY: compares the brightest point of an image with a source of known position and
 * flux. */
#include <math.h>
#include <stdio.h>

#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "io/fits/sky_wcs.h"

/* Sidelobes of other sources shift the peak of a dirty image a little. A larger distance is an error. */
static const double LARGEST_FLUX_ERROR = 0.1, LARGEST_OFFSET_PIXELS = 1;

#define DEG (MSI_PI / 180)

static int64_t brightest(const msi_fits_image *image)
{
    const double *pixel = image->pixel;
    int64_t best = -1;
    for (int64_t i = 0; i < msi_image_n_pixel(&image->geometry); i++)
        if (isfinite(pixel[i]) && (best < 0 || pixel[i] > pixel[best])) best = i;
    return best;
}

/* Fit a parabola to three adjacent values. Returns the position of its maximum in pixels from the middle value. *rise
 * is the height of the maximum above the middle value. */
static double top(double left, double middle, double right, double *rise)
{
    double slope = (right - left) / 2, curvature = left - 2 * middle + right;
    *rise = curvature < 0 ? -slope * slope / (2 * curvature) : 0;
    return curvature < 0 ? -slope / curvature : 0;
}

static double separation(const double a_deg[2], const double b_rad[2])
{
    double d_ra = a_deg[0] * DEG - b_rad[0], sin_dec = sin((a_deg[1] * DEG - b_rad[1]) / 2), sin_ra = sin(d_ra / 2);
    return 2 * asin(sqrt(sin_dec * sin_dec + cos(a_deg[1] * DEG) * cos(b_rad[1]) * sin_ra * sin_ra));
}

static int compare(const msi_fits_image *image, const double truth_rad[2], double truth_jy)
{
    const msi_image_geometry *g = &image->geometry;
    int64_t i = brightest(image), x = i % g->nx, y = i / g->nx;
    if (i < 0 || x < 1 || y < 1 || x > g->nx - 2 || y > g->ny - 2)
        return msi_error_set(MSI_EINPUT, "the peak of the image is on its edge");
    const double *p = (const double *)image->pixel + i;
    double rise_x, rise_y, sky[2];
    double at[2] = {(double)x + top(p[-1], p[0], p[1], &rise_x), (double)y + top(p[-g->nx], p[0], p[g->nx], &rise_y)};
    double peak_jy = *p + rise_x + rise_y;

    msi_sky_wcs *wcs;
    MSI_TRY(msi_sky_wcs_create(&wcs, g, image->ra_rad, image->dec_rad, image->dir_frame, 0));
    int visible = msi_sky_wcs_pixel_to_sky(wcs, at, sky);
    msi_sky_wcs_free(wcs);
    if (!visible) return msi_error_set(MSI_EINPUT, "the peak is beyond the horizon");

    double flux_error = peak_jy / truth_jy - 1, offset_rad = separation(sky, truth_rad);
    double offset_pixels = offset_rad / g->cell_x_rad;
    printf("Brightest point: %.5f Jy/beam at RA %.6f Dec %.6f deg\n", peak_jy, sky[0], sky[1]);
    printf("Truth:           %.5f Jy      at RA %.6f Dec %.6f deg\n", truth_jy, truth_rad[0] / DEG, truth_rad[1] / DEG);
    printf("Difference:      %+.2f %% in flux, %.3f asec (%.3f pixels) in place\n", 100 * flux_error,
           offset_rad / DEG * 3600, offset_pixels);
    if (fabs(flux_error) > LARGEST_FLUX_ERROR || offset_pixels > LARGEST_OFFSET_PIXELS)
        return msi_error_set(MSI_EINPUT, "the brightest point is not the source");
    return MSI_OK;
}

static int run(char **argument)
{
    double truth_rad[2], truth_jy;
    MSI_TRY(msi_parse_ra(&truth_rad[0], "RA", argument[1]));
    MSI_TRY(msi_parse_dec(&truth_rad[1], "DEC", argument[2]));
    MSI_TRY(msi_parse_real(&truth_jy, "JY", argument[3]));
    msi_fits_image image;
    MSI_TRY(msi_fits_read(&image, argument[0], MSI_FP64));
    int rc = compare(&image, truth_rad, truth_jy);
    msi_fits_image_free(&image);
    return rc;
}

int main(int argc, char **argv)
{
    int rc = argc == 5 ? run(argv + 1) : msi_error_set(MSI_EUSAGE, "usage: msimage-peak IMAGE.fits RA DEC JY");
    if (rc) fprintf(stderr, "msimage-peak: %s\n", msi_error_get());
    return msi_exit_code(rc);
}
