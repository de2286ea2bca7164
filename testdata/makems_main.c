/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-makems: makes Measurement Sets to test and time imagers with. */
#include <math.h>
#include <omp.h>
#include <stdio.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "io/fits/publish.h"
#include "testdata/makems.h"
#include "testdata/makems_options.h"
#include "testdata/point_model.h"

/* ---- -model-image: a model image of the sources ---- */

/* Add the sources to an image of zeros. Right ascension increases to the left. */
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
            return msi_error_set(MSI_EUSAGE, "-model-image: the source at RA %.6f Dec %.6f deg is outside the image",
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

/*
 * Write a model image of Stokes I in Jy/pixel at the reference frequency. The phase centre of field 0 is in the middle,
 * and each source is on the nearest pixel.
 *
 * Given:    size  pixels along each side, even; cell_rad  of a pixel; spec  with overwrite for this file too
 * Returned: *out  the file under its temporary name, for msi_publish_commit and msi_publish_free; NULL on failure
 * Returns:  0, MSI_EUSAGE (a source is outside the image, or the file exists), MSI_EOUTPUT, MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 */
static int write_model_image(msi_publish **out, const char *path, const msi_makems_spec *spec, int64_t size,
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

/* ---- The program ---- */

static const double DEG_PER_RAD = 180 / MSI_PI;

/* Convert an angle to hours, -12 to 12. */
static double hours(double angle_rad)
{
    return remainder(angle_rad, 2 * MSI_PI) * DEG_PER_RAD / 15;
}

static void describe(const msi_makems_spec *spec)
{
    const msi_layout *layout = spec->layout;
    const msi_makems_field *field = &spec->field[0];
    double end_mjd_s = spec->start_mjd_s + (double)spec->n_time * spec->integration_s;
    double sample = 0, high_hz = 0;
    for (int w = 0; w < spec->n_spw; w++) {
        const msi_makems_spw *spw = &spec->spw[w];
        sample += (double)msi_makems_n_baseline(spec) * (double)spec->n_time * spw->n_chan;
        high_hz = fmax(high_hz, fmax(spw->first_freq_hz, spw->first_freq_hz + (spw->n_chan - 1) * spw->step_hz));
    }
    double start_rad = msi_sky_gmst(spec->start_mjd_s) + layout->longitude_rad - field->ra_rad;
    double end_rad = msi_sky_gmst(end_mjd_s) + layout->longitude_rad - field->ra_rad;
    double longest_m = msi_layout_longest_m(layout);
    msi_log_info("%s: %d stations, longest baseline %.0f m, %.0f wavelengths", layout->telescope, layout->n_station,
                 longest_m, longest_m * high_hz / MSI_SPEED_OF_LIGHT);
    msi_log_info("field 0 at RA %.6f Dec %.6f deg: hour angle %.3f to %.3f h, elevation %.1f to %.1f deg",
                 field->ra_rad * DEG_PER_RAD, field->dec_rad * DEG_PER_RAD, hours(start_rad), hours(end_rad),
                 msi_sky_elevation(start_rad, field->dec_rad, layout->latitude_rad) * DEG_PER_RAD,
                 msi_sky_elevation(end_rad, field->dec_rad, layout->latitude_rad) * DEG_PER_RAD);
    msi_log_info("%lld rows: %lld baselines x %lld timestep%s x %d spectral window%s; %.3f million visibilities of %d "
                 "correlation%s; %d source%s",
                 (long long)msi_makems_n_row(spec), (long long)msi_makems_n_baseline(spec), (long long)spec->n_time,
                 msi_plural(spec->n_time), spec->n_spw, msi_plural(spec->n_spw), 1e-6 * sample, spec->spw[0].n_corr,
                 msi_plural(spec->spw[0].n_corr), spec->n_source, msi_plural(spec->n_source));
}

static void list_sources(const msi_makems_spec *spec)
{
    for (int i = 0; i < spec->n_source; i++) {
        const msi_makems_source *s = &spec->source[i];
        printf("%.12f %.12f %.9g %.9g %.9g %.9g %.6g\n", s->ra_rad * DEG_PER_RAD, s->dec_rad * DEG_PER_RAD,
               s->stokes_jy[0], s->stokes_jy[1], s->stokes_jy[2], s->stokes_jy[3], s->spectral_index);
    }
}

/* Write the set and, if requested, the model image: both or neither. */
static int make(const msi_makems_options *options)
{
    msi_publish *model = NULL;
    int rc = MSI_OK;
    if (options->model.path)
        rc = write_model_image(&model, options->model.path, &options->spec, options->model.size,
                               options->model.cell_rad);
    if (!rc) rc = msi_makems_write(options->path, &options->spec);
    if (!rc && model) rc = msi_publish_commit(model);
    msi_publish_free(model);
    return rc;
}

static int run(int argc, char **argv, msi_makems_options *options)
{
    MSI_TRY(msi_makems_options_parse(options, argc, argv));
    msi_log_setup(options->quiet ? MSI_LOG_QUIET : MSI_LOG_NORMAL, 0);
    if (options->n_thread) omp_set_num_threads((int)options->n_thread);
    if (options->help)
        msi_makems_options_help(stdout);
    else if (options->version)
        puts("msimage-makems " MSIMAGE_VERSION);
    else {
        msi_interrupt_install();
        describe(&options->spec);
        MSI_TRY(msi_process_limits_threads(omp_get_max_threads()));
        MSI_TRY(make(options));
        msi_log_info("%s: made in %.1f s", options->path, msi_wall_s());
        if (options->list_sources) list_sources(&options->spec);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) return msi_error_set(MSI_EOUTPUT, "stdout cannot be written");
    return MSI_OK;
}

MSI_PREFER_PASSIVE_THREADS;

int main(int argc, char **argv)
{
    msi_makems_options options = {0};
    msi_process_hold_standard_files();
    msi_wall_s();
    int status = msi_process_limits_files();
    if (status == MSI_OK) status = run(argc, argv, &options);
    if (status != MSI_OK) fprintf(stderr, "msimage-makems: error: %s\n", msi_error_get());
    msi_makems_options_free(&options);
    return msi_exit_code(status);
}
