/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-makems: makes Measurement Sets to test and time imagers with. */
#include <math.h>
#include <omp.h>
#include <stdio.h>

#include "core/exit_code.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/status.h"
#include "testdata/makems_options.h"
#include "testdata/model_image.h"
#include "testdata/sky_geometry.h"

static const double DEG_PER_RAD = 180 / MSI_PI;

/* Turn an angle into hours between -12 and 12. */
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
    msi_log_info("%lld rows: %lld baselines x %lld timesteps x %d spectral windows; %.3f million visibilities of %d "
                 "correlations; %d sources",
                 (long long)msi_makems_n_row(spec), (long long)msi_makems_n_baseline(spec), (long long)spec->n_time,
                 spec->n_spw, 1e-6 * sample, spec->spw[0].n_corr, spec->n_source);
}

static void list_sources(const msi_makems_spec *spec)
{
    for (int i = 0; i < spec->n_source; i++) {
        const msi_makems_source *s = &spec->source[i];
        printf("%.12f %.12f %.9g %.9g %.9g %.9g %.6g\n", s->ra_rad * DEG_PER_RAD, s->dec_rad * DEG_PER_RAD,
               s->stokes_jy[0], s->stokes_jy[1], s->stokes_jy[2], s->stokes_jy[3], s->spectral_index);
    }
}

/* Make the set and, where it is wanted, the model image: both or neither. */
static int make(const msi_makems_options *options)
{
    msi_publish *model = NULL;
    int rc = MSI_OK;
    if (options->model.path)
        rc = msi_model_image_write(&model, options->model.path, &options->spec, options->model.size,
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
        MSI_TRY(make(options));
        msi_log_info("%s: made in %.1f s", options->path, msi_wall_s());
        if (options->list_sources) list_sources(&options->spec);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) return msi_error_set(MSI_EOUTPUT, "stdout cannot be written");
    return MSI_OK;
}

int main(int argc, char **argv)
{
    msi_makems_options options = {0};
    msi_wall_s();
    int status = run(argc, argv, &options);
    if (status != MSI_OK) fprintf(stderr, "msimage-makems: error: %s\n", msi_error_get());
    msi_makems_options_free(&options);
    return msi_exit_code(status);
}
