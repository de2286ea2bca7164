/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/model_image.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/fits/fits_image.h"
#include "testdata/sky_geometry.h"

/* Add the sources to an image of zeros. Right ascension grows to the left. */
static int put_sources(float *pixel, const msi_makems_spec *spec, const msi_image_geometry *g)
{
    const msi_makems_field *centre = &spec->field[0];
    for (int i = 0; i < spec->n_source; i++) {
        const msi_makems_source *s = &spec->source[i];
        double l = NAN, m = NAN;
        (void)msi_sky_to_lm(s->ra_rad, s->dec_rad, centre->ra_rad, centre->dec_rad, &l, &m);
        const double x = (double)(g->nx / 2) - rint(l / g->cell_x_rad);
        const double y = (double)(g->ny / 2) + rint(m / g->cell_y_rad);
        if (!(x >= 0 && x < (double)g->nx && y >= 0 && y < (double)g->ny))
            return msi_error_set(MSI_EUSAGE, "-model-image: the source at RA %.6f Dec %.6f deg lies outside it",
                                 s->ra_rad * 180 / MSI_PI, s->dec_rad * 180 / MSI_PI);
        pixel[(int64_t)y * g->nx + (int64_t)x] += (float)s->stokes_jy[0];
    }
    return MSI_OK;
}

static int write_file(msi_publish **out, const char *path, const msi_makems_spec *spec, const msi_image_geometry *g,
                      const float *pixel)
{
    const msi_makems_field *centre = &spec->field[0];
    const msi_observation observation = {.dir_frame = "J2000",
                                         .time_scale = "UTC",
                                         .spec_frame = "TOPO",
                                         .ra_rad = centre->ra_rad,
                                         .dec_rad = centre->dec_rad,
                                         .start_mjd_s = spec->start_mjd_s,
                                         .end_mjd_s = spec->start_mjd_s};
    const msi_fits_spec fits = {.kind = MSI_FITS_MODEL,
                                .geometry = *g,
                                .observation = &observation,
                                .ra_rad = centre->ra_rad,
                                .dec_rad = centre->dec_rad,
                                .freq_hz = msi_makems_reference_freq(spec),
                                .bandwidth_hz = fabs(spec->spw[0].step_hz) * spec->spw[0].n_chan,
                                .pol = MSI_POL_I,
                                .command_line = spec->command};
    msi_publish *p;
    int rc = msi_publish_plan(&p, &path, 1, spec->overwrite);
    if (rc == MSI_EARGUMENT) return msi_error_set(MSI_EUSAGE, "-model-image: %s", msi_error_get());
    MSI_TRY(rc);
    rc = msi_fits_write(p, 0, &fits, pixel, MSI_FP32);
    if (rc)
        msi_publish_free(p);
    else
        *out = p;
    return rc;
}

int msi_model_image_write(msi_publish **out, const char *path, const msi_makems_spec *spec, int64_t size,
                          double cell_rad)
{
    *out = NULL;
    const msi_image_geometry g = {.nx = size, .ny = size, .cell_x_rad = cell_rad, .cell_y_rad = cell_rad};
    float *pixel;
    MSI_TRY(msi_alloc(&pixel, size * size, sizeof *pixel, "the model image"));
    int rc = put_sources(pixel, spec, &g);
    if (!rc) rc = write_file(out, path, spec, &g, pixel);
    msi_free(pixel);
    return rc;
}
