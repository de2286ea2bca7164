/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/imaging_files.h"

#include <float.h>
#include <math.h>

#include "core/format.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/run/imaging_report.h"
#include "src/run/uv_plane.h"
#include "src/sky/restoring_beam.h"

static msi_fits_spec fits_spec(const msi_imaging_run *r, int64_t channel)
{
    const msi_options *o = r->options;
    const int is_mfs = channel == MSI_OUTPUT_MFS;
    const double low = r->channels.low_hz[is_mfs ? 0 : channel];
    const double high = r->channels.high_hz[is_mfs ? o->channels_out - 1 : channel];
    return (msi_fits_spec){.geometry = o->geometry,
                           .observation = &r->observation,
                           .ra_rad = r->ra_rad,
                           .dec_rad = r->dec_rad,
                           .freq_hz = 0.5 * (low + high),
                           .bandwidth_hz = high - low,
                           .channel = is_mfs ? -1 : channel,
                           .n_channel = o->channels_out,
                           .weighting = r->weighting,
                           .has_field = !o->selection.all_fields,
                           .field_id = o->selection.n_field ? o->selection.fields[0] : 0,
                           .data_column = msi_ms_reader_data_column(r->reader),
                           .command_line = o->command_line};
}

/* Counts the values of an image that a file of floats does not hold. NaN belongs beyond the horizon, and everywhere
 * into an image without a sample; a grid of the uv plane has none. */
static int64_t n_not_finite(const msi_fits_spec *spec, int is_sky, const void *pixel, msi_precision precision)
{
    const msi_image_geometry *g = &spec->geometry;
    int64_t n = 0;
    if (is_sky && !spec->n_vis) return 0;
#pragma omp parallel for schedule(static) reduction(+ : n)
    for (int64_t y = 0; y < g->ny; y++) {
        const double m = (double)(y - g->ny / 2) * g->cell_y_rad;
        for (int64_t x = 0; x < g->nx; x++) {
            const double value = msi_image_value(pixel, precision, y * g->nx + x);
            if (fabs(value) <= (double)FLT_MAX) continue;
            const double l = (double)(x - g->nx / 2) * g->cell_x_rad;
            n += !(is_sky && isnan(value) && l * l + m * m > 1 - 1e-9);
        }
    }
    return n;
}

/* Refuses an image or a grid that overflowed. */
static int check_finite(const msi_imaging_run *r, msi_fits_kind kind, const msi_fits_spec *spec, const void *pixel,
                        msi_precision precision)
{
    const msi_sample_tally *t = &r->tally;
    const int is_sky = kind < MSI_FITS_WEIGHTS;
    const int64_t n = n_not_finite(spec, is_sky, pixel, precision);
    if (!n) return MSI_OK;
    return msi_error_set(
        MSI_EINPUT,
        "%s, row %lld: has the largest product of weight and visibility, %.3g; with it %lld value%s of "
        "%s would be beyond single precision, and nothing is written: correct or flag the row",
        r->options->ms_paths[t->largest_set], (long long)t->largest_row, t->largest_product, (long long)n,
        msi_plural(n), is_sky ? "an image" : "a grid of the uv plane");
}

static int write_finite(msi_imaging_run *r, const msi_output_id *id, const msi_fits_spec *spec, const double *pixel)
{
    MSI_TRY(check_finite(r, id->kind, spec, pixel, MSI_FP64));
    return msi_outputs_write(r->outputs, id, spec, pixel, MSI_FP64);
}

/* Writes the weights as gridded, on the uv grid of their densities: both halves of the plane. */
static int write_weights(msi_imaging_run *r, int64_t channel, const msi_fits_spec *spec)
{
    const msi_options *o = r->options;
    const int is_mfs = channel == MSI_OUTPUT_MFS;
    const msi_density_grid grid = msi_density_grid_of(&o->geometry, &o->weighting);
    double *weight;
    MSI_TRY(msi_uv_weights(&o->geometry, &o->weighting, r->gridder + (is_mfs ? 0 : channel),
                           is_mfs ? o->channels_out : 1, &weight));
    msi_fits_spec of_grid = *spec;
    of_grid.geometry.nx = grid.nu;
    of_grid.geometry.ny = grid.nv;
    const msi_output_id id = {r->interval, channel, 0, MSI_FITS_WEIGHTS};
    int rc = write_finite(r, &id, &of_grid, weight);
    msi_free(weight);
    return rc;
}

static int write_uv(msi_imaging_run *r, const msi_output_id *image_id, const msi_fits_spec *spec, const void *pixel,
                    msi_precision precision)
{
    double *re, *im;
    MSI_TRY(msi_uv_plane(&r->options->geometry, pixel, precision, &re, &im));
    msi_output_id id = *image_id;
    id.kind = MSI_FITS_UV_REAL;
    int rc = write_finite(r, &id, spec, re);
    id.kind = MSI_FITS_UV_IMAG;
    if (!rc) rc = write_finite(r, &id, spec, im);
    msi_free(re);
    msi_free(im);
    return rc;
}

static const char *plane_of(const msi_image *image, int i)
{
    return (const char *)image->pixel +
           i * msi_image_n_pixel(&image->geometry) * msi_image_pixel_bytes(image->precision);
}

static int fit_beam(const msi_imaging_run *r, msi_beam *beam, const msi_image *image, int psf)
{
    const msi_beam_psf of = {image->geometry, plane_of(image, psf), image->precision, msi_imaging_theoretic_beam(r)};
    msi_beam_origin origin;
    MSI_TRY(msi_restoring_beam(beam, &origin, &r->options->clean.beam, &of));
    if (origin != MSI_BEAM_NONE)
        msi_imaging_report_beam(beam);
    else if (!r->options->clean.beam.no_fit)
        msi_log_warning("%s", msi_error_get());
    return MSI_OK;
}

int msi_imaging_files_write(msi_imaging_run *r, int64_t channel, msi_image *image, const double *vis_weight)
{
    const msi_options *o = r->options;
    const int psf = o->make_psf_only ? 0 : r->n_plane;
    msi_fits_spec spec = fits_spec(r, channel);
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    if (o->make_psf && image->n_vis[psf] > 0) MSI_TRY(fit_beam(r, &spec.beam, image, psf));
    /* The PSF, which is the last plane, comes first. */
    for (int n = 0, i = o->make_psf ? psf : 0; n < image->n_plane; n++, i = (i + 1) % image->n_plane) {
        const int is_psf = i == psf;
        const msi_output_id id = {r->interval, channel, is_psf ? 0 : i, is_psf ? MSI_FITS_PSF : MSI_FITS_DIRTY};
        spec.n_vis = image->n_vis[i];
        spec.sum_weight = image->sum_weight[i];
        spec.sum_vis_weight = vis_weight[is_psf ? 0 : i];
        MSI_TRY(check_finite(r, id.kind, &spec, plane_of(image, i), image->precision));
        file[n] = (msi_image_file){id, i, spec};
        if (o->save_uv && !is_psf) MSI_TRY(write_uv(r, &id, &spec, plane_of(image, i), image->precision));
    }
    if (o->save_weights) MSI_TRY(write_weights(r, channel, &spec));
    MSI_TRY(msi_image_writer_put(r->writer, image, image->n_plane, file));
    return r->plan.writes_beside ? MSI_OK : msi_image_writer_wait(r->writer);
}

int msi_imaging_files_beam(const msi_imaging_run *r, msi_beam *beam, const msi_image *psf)
{
    *beam = (msi_beam){0};
    return psf->n_vis[0] > 0 ? fit_beam(r, beam, psf, 0) : MSI_OK;
}

int msi_imaging_files_put(msi_imaging_run *r, const msi_imaging_product *product, msi_image *image)
{
    const msi_options *o = r->options;
    msi_fits_spec spec = fits_spec(r, product->channel);
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    spec.beam = product->beam;
    for (int i = 0; i < image->n_plane; i++) {
        const msi_output_id id = {r->interval, product->channel, i, product->kind};
        spec.n_vis = image->n_vis[i];
        spec.sum_weight = image->sum_weight[i];
        spec.sum_vis_weight = product->vis_weight[i];
        if (product->clean) spec.clean = product->clean[i];
        /* Without a beam nothing is known of a restored image. */
        if (id.kind != MSI_FITS_IMAGE || msi_beam_known(&spec.beam))
            MSI_TRY(check_finite(r, id.kind, &spec, plane_of(image, i), image->precision));
        file[i] = (msi_image_file){id, i, spec};
        if (o->save_uv && id.kind == MSI_FITS_DIRTY)
            MSI_TRY(write_uv(r, &id, &spec, plane_of(image, i), image->precision));
    }
    if (o->save_weights && product->kind == MSI_FITS_PSF) MSI_TRY(write_weights(r, product->channel, &spec));
    MSI_TRY(msi_image_writer_put(r->writer, image, image->n_plane, file));
    return r->plan.writes_beside ? MSI_OK : msi_image_writer_wait(r->writer);
}
