/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/fits/picture_draw.h"
#include "io/fits/picture_words.h"

/* Weights of the uv plane go over decades; Stokes Q, U and V, and the uv plane's values, lie about zero. */
static msi_picture_values values_of(const msi_fits_view *v)
{
    if (strcmp(v->type, "Weight") == 0) return MSI_VALUES_WEIGHTS;
    if (strcmp(v->type, "Spectral Index") == 0) return MSI_VALUES_INDEX;
    if (strcmp(v->type, "Visibility") == 0) return MSI_VALUES_SIGNED;
    if (strcmp(v->type, "Beam") == 0 || !v->has_pol) return MSI_VALUES_BRIGHTNESS;
    const int is_signed = v->pol == MSI_POL_Q || v->pol == MSI_POL_U || v->pol == MSI_POL_V;
    return is_signed ? MSI_VALUES_SIGNED : MSI_VALUES_BRIGHTNESS;
}

/* An axis without a name counts pixels; of others the title is the name and the unit, with u and v in wavelengths. */
static void set_axis(const msi_fits_view *v, int k, msi_linear_axis *axis, char title[160])
{
    const char *ctype = v->ctype[k];
    axis->title = title;
    if (!ctype[0]) {
        *axis = (msi_linear_axis){-1, 1, title};
        snprintf(title, 160, "%s (pixel)", k ? "y" : "x");
        return;
    }
    const int is_uv = strcmp(ctype, "U---WAV") == 0 || strcmp(ctype, "V---WAV") == 0;
    const double reach = fabs(v->cdelt[k]) * (double)(k ? v->ny : v->nx) / 2;
    const double unit = !is_uv ? 1 : reach >= 1e6 ? 1e6 : reach >= 1e3 ? 1e3 : 1;
    axis->per_pixel = v->cdelt[k] / unit;
    axis->zero_pixel = v->crpix[k] - 1 - v->crval[k] / v->cdelt[k];
    if (is_uv)
        snprintf(title, 160, "%c (%sλ)", k ? 'v' : 'u', unit == 1e6 ? "M" : unit == 1e3 ? "k" : "");
    else
        snprintf(title, 160, v->cunit[k][0] ? "%s (%s)" : "%s", ctype, v->cunit[k]);
}

static void write_words(const msi_fits_view *v, const char *name, char title[MSI_PICTURE_WORDS],
                        char detail[MSI_PICTURE_WORDS])
{
    char part[64];
    msi_words_add(title, v->object);
    msi_words_add(title, v->telescope);
    msi_words_add_freq(title, v->freq_hz);
    if (v->has_pol) msi_words_add_pol(title, v->pol);
    msi_words_add(title[0] ? detail : title, name);
    if (v->n_plane > 1) {
        snprintf(part, sizeof part, "plane %lld of %lld", (long long)v->plane, (long long)v->n_plane);
        msi_words_add(detail, part);
    }
    msi_words_add_band(detail, v->bandwidth_hz);
    msi_words_add_peak(detail, msi_words_peak(v->nx * v->ny, v->pixel, MSI_FP32), v->unit);
    msi_words_add_beam(detail, &v->beam);
}

int msi_picture_write_view(msi_publish *p, int i, const msi_fits_view *view, const char *name,
                           const msi_picture_style *style)
{
    msi_linear_axis axis[2];
    char title[MSI_PICTURE_WORDS] = "", detail[MSI_PICTURE_WORDS] = "", axis_title[2][160];
    for (int k = 0; k < 2; k++) set_axis(view, k, &axis[k], axis_title[k]);
    write_words(view, name, title, detail);
    const msi_picture picture = {.title = title,
                                 .detail = detail,
                                 .nx = view->nx,
                                 .ny = view->ny,
                                 .precision = MSI_FP32,
                                 .pixel = view->pixel,
                                 .window = {0, 0, view->nx, view->ny},
                                 .values = values_of(view),
                                 .unit = view->unit,
                                 .wcs = view->wcs,
                                 .axis = axis,
                                 .beam = view->beam,
                                 .cell_rad = view->cell_rad,
                                 .style = style};
    return msi_picture_draw(p, i, &picture);
}
