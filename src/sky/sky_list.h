/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of sources in the text format of WSClean, DP3 and makesourcedb. */
#ifndef MSI_SKY_LIST_H
#define MSI_SKY_LIST_H

#include "core/image.h"
#include "io/fits/sky_wcs.h"

enum { MSI_SKY_MAX_TERMS = 16 };

/* A point, or a gaussian. */
typedef struct msi_sky_source {
    double ra_rad, dec_rad;
    double flux_jy; /* at reference_hz */
    int n_term, is_logarithmic;
    double
        term[MSI_SKY_MAX_TERMS]; /* [n_term] a_1, a_2 .. of the spectrum. Logarithmic: flux_jy 10^(a_1 x + a_2 x^2 ..),
                                       x = log10(frequency / reference_hz). Otherwise flux_jy + a_1 x + a_2 x^2 ..,
                                       x = frequency / reference_hz - 1 */
    double reference_hz;         /* positive if there are terms */
    msi_beam shape;              /* all 0: the source is a point */
} msi_sky_source;

typedef struct msi_sky_list {
    msi_sky_source *source; /* [n] owned */
    int64_t n, capacity;
} msi_sky_list;

/*
 * msi_sky_list_read - read a list: a format line "Format = .." or "# (..) = format" with columns in any order, then a
 * line for each source. Unknown columns, empty lines, comments and patches are ignored.
 * Returned: *list  emptied by msi_sky_list_free; empty on failure
 * Returns:  0, MSI_EINPUT (with the line's number), MSI_ENOMEM
 */
int msi_sky_list_read(msi_sky_list *list, const char *path);

/* msi_sky_list_free - free the sources, and leave the list empty. */
void msi_sky_list_free(msi_sky_list *list);

/* msi_sky_source_flux - return the flux at a frequency, in Jy. A source without terms may have no reference. */
double msi_sky_source_flux(const msi_sky_source *source, double freq_hz);

/* ---- Drawing: sources at their exact positions, also between pixels ---- */

/* The covariance of a gaussian, in squares of radians. */
typedef struct msi_covariance {
    double ee, en, nn; /* east, north */
} msi_covariance;

/* msi_covariance_of - return the covariance of a gaussian of these widths; 0 for a point. */
msi_covariance msi_covariance_of(const msi_beam *widths);

double msi_covariance_determinant(const msi_covariance *c);

/*
 * msi_draw_gaussian - add a gaussian, sampled at pixel centres.
 * Given:              at  0-based pixel position of its peak, which may be outside; c  not singular
 * Given and returned: image [ny][nx]
 */
void msi_draw_gaussian(double *image, const msi_image_geometry *g, const double at[2], const msi_covariance *c,
                       double peak);

/*
 * msi_sky_place - find the pixel position of a source.
 * Given and returned: *n_outside  incremented if the source is outside the image
 * Returns:            1; 0 if the source is on the other half of the sky
 */
int msi_sky_place(double at[2], int64_t *n_outside, const msi_sky_source *source, const msi_sky_wcs *wcs,
                  const msi_image_geometry *g);

/* The largest flux of a source in Jy. The sum of a million of them is finite in single precision. */
#define MSI_SKY_MAX_JY 1e30

/* ---- Model images, in Jy per pixel ---- */

enum { MSI_SKY_MAX_WINDOW = 4095 };

typedef struct msi_sky_model {
    const msi_sky_list *list;
    msi_image_geometry geometry; /* columns run to the west, rows to the north */
    const msi_sky_wcs *wcs;
    double freq_hz, bandwidth_hz; /* middle and width of the band; the width may be 0 if n_term is 1 */
    int n_term;                   /* number of terms of the spectra to draw, 1 .. MSI_SKY_MAX_TERMS + 1 */
    int64_t window;               /* pixels of a point's kernel, up to MSI_SKY_MAX_WINDOW; 0: all pixels, no window */
} msi_sky_model;

/*
 * msi_sky_model_spectrum - write the spectrum of a source as the polynomial c_0 + c_1 x + c_2 x^2 .. of
 * x = frequency / freq_hz - 1. A linear spectrum has an exact polynomial with as many terms as the spectrum, counting
 * flux_jy. A logarithmic spectrum is interpolated at equidistant frequencies, which include the ends of the band, by a
 * polynomial with as many terms as the spectrum, but at least n_term; 1 term if the band has no width.
 * Returned: c [n_term]  the first terms, in Jy; 0 after the last one
 * Returns:  the number of terms of the polynomial
 * Source:   WSClean's -draw-model, for n_term up to the number of terms of the spectrum. It has no rule for more terms
 */
int msi_sky_model_spectrum(const msi_sky_model *model, const msi_sky_source *source, double *c);

/*
 * msi_sky_model_draw - draw one spectral term of all sources.
 *
 * A point is the product over x and y of sinc(d) cos^2(pi d / window), with the distance |d| < window / 2 in pixels;
 * without a window, of sinc(d). A gaussian is the image whose spectrum equals the gaussian's spectrum, multiplied along
 * u and v by a Tukey window: 1 up to 0.4 cycles per pixel, then a half cosine down to 0 at 0.5. Wide gaussians are
 * sampled: their spectra are below 3e-9 where the window is not 1. Narrow ones are made by a Fourier transform of an
 * odd number of pixels along x and y: the window, but at least 127, and more for long gaussians.
 *
 * Given:    term  0 .. n_term - 1
 * Returned: image [ny][nx]  Jy per pixel; *n_outside  sources that are outside the image
 * Returns:  0, MSI_EINPUT (a flux that is not finite; a gaussian that is narrower than 6 pixels and too long),
 *           MSI_ENOMEM, MSI_EINTERRUPTED
 * Source:   the kernels of WSClean's -draw-model
 */
int msi_sky_model_draw(const msi_sky_model *model, int term, double *image, int64_t *n_outside);

#endif
