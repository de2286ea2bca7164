/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/imaging/imaging_run.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "kernels/cleaner.h"
#include "kernels/restoring_beam.h"
#include "src/run/uv_plane.h"
#include "src/sky/common_beam.h"

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
                           .freq_hz = o->clean.n_taylor ? msi_imaging_reference(r) : 0.5 * (low + high),
                           .n_term = (int)o->clean.n_taylor,
                           .bandwidth_hz = high - low,
                           .channel = is_mfs ? -1 : channel,
                           .n_channel = o->channels_out,
                           .weighting = r->weighting,
                           .has_field = !o->selection.all_fields,
                           .field_id = o->selection.n_field ? o->selection.fields[0] : 0,
                           .channel_begin = o->selection.channel_begin,
                           .channel_end = o->selection.channel_end,
                           .interval_begin = o->selection.interval_begin,
                           .interval_end = o->selection.interval_end,
                           .data_column = msi_ms_reader_data_column(r->reader),
                           .command_line = o->command_line};
}

static msi_finite_cause cause_of(const msi_imaging_run *r)
{
    return (msi_finite_cause){r->options->ms_paths[r->tally.largest_set], r->tally.largest_row,
                              r->tally.largest_product, r->mosaic != NULL};
}

static int write_finite(msi_imaging_run *r, const msi_output_id *id, const msi_fits_spec *spec, const double *pixel)
{
    const msi_finite_cause cause = cause_of(r);
    MSI_TRY(msi_finite_check(&cause, id->kind, spec, pixel, MSI_FP64));
    return msi_outputs_write(r->outputs, id, spec, pixel, MSI_FP64);
}

/* Write the gridded weights on the uv grid of the densities, both halves of the plane. */
static int write_weights(msi_imaging_run *r, int64_t channel, const msi_fits_spec *spec)
{
    const msi_options *o = r->options;
    const int is_mfs = channel == MSI_OUTPUT_MFS;
    const msi_density_grid grid = msi_density_grid_of(&o->geometry, &o->weighting);
    double *weight;
    const int n_part = msi_imaging_n_part(r);
    MSI_TRY(msi_uv_weights(&o->geometry, &o->weighting, r->gridder + (is_mfs ? 0 : channel * n_part),
                           (is_mfs ? o->channels_out : 1) * n_part, &weight));
    int rc = msi_ranks_sum(r->ranks, weight, grid.nu * grid.nv, MSI_FP64);
    msi_fits_spec of_grid = *spec;
    of_grid.geometry.nx = grid.nu;
    of_grid.geometry.ny = grid.nv;
    const msi_output_id id = {r->interval, channel, 0, MSI_FITS_WEIGHTS, 0};
    if (!rc && r->outputs) rc = write_finite(r, &id, &of_grid, weight);
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

static int fit_beam(const msi_imaging_run *r, int64_t channel, msi_beam *beam, const msi_image *image, int psf)
{
    const msi_beam_psf of = {image->geometry, msi_image_plane(image, psf), image->precision,
                             msi_imaging_theoretic_beam(r)};
    msi_beam_origin origin;
    MSI_TRY(msi_restoring_beam(beam, &origin, &r->options->clean.beam, &of));
    if (origin != MSI_BEAM_NONE)
        msi_imaging_report_beam(r, channel, beam);
    else if (!r->options->clean.beam.no_fit)
        msi_log_warning("%s", msi_error_get());
    return MSI_OK;
}

void msi_imaging_weight_add(msi_imaging_weight *all, const msi_imaging_weight *more)
{
    all->largest = fmax(all->largest, more->largest);
    all->vis_sum += more->vis_sum;
}

static void put_weight(msi_fits_spec *spec, double sum_weight, const msi_imaging_weight *weight)
{
    spec->sum_weight = sum_weight;
    spec->largest_weight = weight->largest;
    spec->sum_vis_weight = weight->vis_sum;
}

/* Write the images that are corrected for the primary beam. Given: file  all planes, the PSF first */
static int put_corrected(msi_imaging_run *r, int64_t channel, const msi_image *image, int psf,
                         const msi_image_file *file)
{
    const int has_psf = r->options->make_psf, n = image->n_plane - has_psf;
    if (has_psf) {
        const msi_imaging_pb_image of = {channel, MSI_FITS_PSF, image, psf, 1, 0, file};
        MSI_TRY(msi_imaging_pb_put(r, &of));
    }
    if (n <= 0) return MSI_OK;
    const msi_imaging_pb_image of = {channel, MSI_FITS_DIRTY, image, 0, n, 0, file + has_psf};
    return msi_imaging_pb_put(r, &of);
}

int msi_imaging_files_begin(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    double sum_weight[MSI_GRIDDER_MAX_PLANES], largest[MSI_GRIDDER_MAX_PLANES];
    int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    msi_gridder_report report;
    if (!r->outputs || o->channels_out > 1 || r->ranks->size > 1 || o->make_psf_only || r->plan.n_pending < 2)
        return MSI_OK;
    msi_gridder_weights(r->gridder[0], sum_weight, largest, n_vis);
    msi_imaging_report_of_channel(r, 0, &report);
    for (int p = 0; p < r->n_plane; p++) {
        file[p] = (msi_image_file){{r->interval, 0, p, MSI_FITS_DIRTY, 0}, p, fits_spec(r, 0), cause_of(r)};
        file[p].spec.n_vis = n_vis[p];
        put_weight(&file[p].spec, sum_weight[p], &(msi_imaging_weight){largest[p], report.sum_vis_weight[p]});
    }
    return msi_imaging_pb_begin(r, &(msi_imaging_pb_image){0, MSI_FITS_DIRTY, NULL, 0, r->n_plane, 0, file});
}

int msi_imaging_files_write(msi_imaging_run *r, int64_t channel, msi_image *image, const msi_imaging_weight *weight)
{
    const msi_options *o = r->options;
    const int psf = o->make_psf_only ? 0 : r->n_plane;
    msi_fits_spec spec = fits_spec(r, channel);
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    /* The other ranks only contribute to the weights. */
    if (!r->outputs) return msi_outputs_has_weights(o, channel) ? write_weights(r, channel, &spec) : MSI_OK;
    if (o->make_psf && image->n_vis[psf] > 0) MSI_TRY(fit_beam(r, channel, &spec.beam, image, psf));
    /* The PSF is the last plane and is written first. */
    for (int n = 0, i = o->make_psf ? psf : 0; n < image->n_plane; n++, i = (i + 1) % image->n_plane) {
        const int is_psf = i == psf;
        const msi_output_id id = {r->interval, channel, is_psf ? 0 : i, is_psf ? MSI_FITS_PSF : MSI_FITS_DIRTY, 0};
        spec.n_vis = image->n_vis[i];
        put_weight(&spec, image->sum_weight[i], &weight[is_psf ? 0 : i]);
        file[n] = (msi_image_file){id, i, spec, cause_of(r)};
        if (o->save_uv && !is_psf) MSI_TRY(write_uv(r, &id, &spec, msi_image_plane(image, i), image->precision));
    }
    if (msi_outputs_has_weights(o, channel)) MSI_TRY(write_weights(r, channel, &spec));
    MSI_TRY(put_corrected(r, channel, image, psf, file));
    for (int n = 0; n < image->n_plane; n++) file[n].spec.contour = msi_imaging_pb_contour(r, channel);
    return msi_image_writer_put(r->writer, image, image->n_plane, file, r->plan.n_pending);
}

int msi_imaging_files_weights(msi_imaging_run *r, int64_t channel, const msi_imaging_sums *sums)
{
    msi_fits_spec spec = fits_spec(r, channel);
    spec.n_vis = sums->n_vis;
    put_weight(&spec, sums->sum_weight, &sums->weight);
    return write_weights(r, channel, &spec);
}

int msi_imaging_files_beam(const msi_imaging_run *r, int64_t channel, msi_beam *beam, const msi_image *psf)
{
    *beam = (msi_beam){0};
    return psf->n_vis[0] > 0 ? fit_beam(r, channel, beam, psf, 0) : MSI_OK;
}

/* Return 1 for files that the primary beam determines: the beam itself, images of Taylor terms corrected for it, and a
 * map of fitted spectra of true flux. */
static int is_of_beam(const msi_imaging_run *r, msi_fits_kind kind)
{
    const msi_options *o = r->options;
    if (!r->pb) return 0;
    if (kind == MSI_FITS_INDEX && (o->pb.apply || o->facets.beam)) return 1;
    if (!o->pb.correct) return 0;
    return kind == MSI_FITS_INDEX || kind == MSI_FITS_PB || kind == MSI_FITS_PBCOR ||
           (o->clean.n_taylor && msi_fits_is_index(kind));
}

/* Write the planes of an image. Given: first  index of its first plane among the run's planes */
static int put_planes(msi_imaging_run *r, const msi_imaging_product *product, int first, msi_image *image)
{
    const msi_options *o = r->options;
    msi_fits_spec spec = fits_spec(r, product->channel);
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    spec.beam = product->beam;
    if (is_of_beam(r, product->kind)) spec.primary_beam = msi_pb_array_name(r->pb);
    for (int i = 0; i < image->n_plane; i++) {
        const msi_output_id id = {r->interval, product->channel, first + i, product->kind, product->term};
        spec.term = product->term;
        spec.n_vis = image->n_vis[i];
        put_weight(&spec, image->sum_weight[i], &product->weight[first + i]);
        if (product->clean) spec.clean = product->clean[first + i];
        file[i] = (msi_image_file){id, i, spec, cause_of(r)};
        if (o->save_uv && id.kind == MSI_FITS_DIRTY)
            MSI_TRY(write_uv(r, &id, &spec, msi_image_plane(image, i), image->precision));
    }
    const msi_imaging_pb_image of = {product->channel, product->kind, image, 0, image->n_plane, first, file};
    MSI_TRY(msi_imaging_pb_put(r, &of));
    for (int i = 0; i < image->n_plane; i++) file[i].spec.contour = msi_imaging_pb_contour(r, product->channel);
    return msi_image_writer_put(r->writer, image, image->n_plane, file, r->plan.n_pending);
}

int msi_imaging_files_put(msi_imaging_run *r, const msi_imaging_product *product, msi_image *image)
{
    return put_planes(r, product, 0, image);
}

int msi_imaging_files_horizon(msi_imaging_run *r)
{
    const uint8_t *mask = msi_clean_mask_plane(&r->mask, 0);
    msi_image image;
    if (!r->options->clean.has_horizon || r->has_written_horizon) return MSI_OK;
    MSI_TRY(msi_image_alloc(&image, &r->options->geometry, 1, MSI_FP32));
    float *pixel = msi_image_plane(&image, 0);
    for (int64_t i = 0; i < msi_image_n_pixel(&image.geometry); i++) pixel[i] = mask[i];
    image.n_vis[0] = r->n_loaded;
    msi_image_file file = {
        .id = {0, MSI_OUTPUT_MFS, 0, MSI_FITS_HORIZON, 0}, .spec = fits_spec(r, MSI_OUTPUT_MFS), .cause = cause_of(r)};
    file.spec.n_vis = image.n_vis[0];
    r->has_written_horizon = 1;
    const int rc = msi_image_writer_put(r->writer, &image, 1, &file, r->plan.n_pending);
    msi_image_free(&image);
    return rc;
}

int msi_imaging_files_put_plane(msi_imaging_run *r, const msi_imaging_product *product, int plane, msi_image *image)
{
    return put_planes(r, product, plane, image);
}

int msi_imaging_append_psf(msi_image *image, int n)
{
    msi_image more;
    MSI_TRY(msi_image_alloc(&more, &image->geometry, n + 1, image->precision));
    const int64_t bytes = msi_image_n_pixel(&image->geometry) * msi_image_pixel_bytes(image->precision);
    memcpy(more.pixel, image->pixel, (size_t)(bytes * n));
    memcpy(more.sum_weight, image->sum_weight, sizeof *more.sum_weight * (size_t)n);
    memcpy(more.n_vis, image->n_vis, sizeof *more.n_vis * (size_t)n);
    more.sum_weight[n] = image->sum_weight[0];
    more.n_vis[n] = image->n_vis[0];
    msi_image_free(image);
    *image = more;
    return MSI_OK;
}

/* ---- Cubes ---- */

/*
 * Cubes restored with one beam. This beam is known only after the last channel. So residuals, models and dirty images
 * are read back from their cubes, plane by plane. The residual is convolved to the common beam, and the model with it.
 */

/* Buffers on the CPU for one image. */
typedef struct work {
    msi_planes *residual, *model;
    float *pixel;
} work;

static int make_work(work *w, const msi_image_geometry *g)
{
    const msi_planes_shape shape = {
        .nx = g->nx, .ny = g->ny, .n = 1, .precision = MSI_FP32, .backend = MSI_BACKEND_CPU};
    MSI_TRY(msi_planes_create(&w->residual, &shape));
    MSI_TRY(msi_planes_create(&w->model, &shape));
    return msi_alloc(&w->pixel, msi_image_n_pixel(g), sizeof *w->pixel, "a plane of a cube");
}

static void free_work(work *w)
{
    msi_planes_free(w->residual);
    msi_planes_free(w->model);
    msi_free(w->pixel);
}

/* Convolve the image in w->pixel from the beam `from`, of its unit Jy/beam, to the beam `to`. Returned: w->residual */
static int convolve(work *w, const msi_imaging_run *r, const msi_beam *from, const msi_beam *to)
{
    const double grown = to->major_rad * to->minor_rad / (from->major_rad * from->minor_rad);
    MSI_TRY(msi_beam_convolve(w->pixel, &r->options->geometry, from, to, grown));
    return msi_planes_upload(w->residual, 0, 1, w->pixel);
}

/* Make and write one plane of the restored cube. */
static int restore(msi_imaging_run *r, work *w, const msi_output_id *id, const msi_beam *common)
{
    const msi_options *o = r->options;
    const msi_image_geometry *g = &o->geometry;
    msi_output_id from = *id;
    msi_fits_spec facts = {0};
    msi_imaging_weight weight[MSI_MAX_PLANES] = {{0}};
    msi_fits_clean clean[MSI_MAX_PLANES] = {{0}};
    msi_image image;
    from.kind = o->clean.niter ? MSI_FITS_RESIDUAL : MSI_FITS_DIRTY;
    MSI_TRY(msi_outputs_read_back(r->outputs, &from, &facts, w->pixel));
    const int is_empty = !facts.n_vis || !msi_beam_known(&facts.beam) || !msi_beam_known(common);
    MSI_TRY(msi_image_alloc(&image, g, 1, MSI_FP32));
    int rc = is_empty ? MSI_OK : convolve(w, r, &facts.beam, common);
    if (!rc && !is_empty && o->clean.niter) {
        const msi_restore_spec spec = {.beam = *common,
                                       .cell_x_rad = g->cell_x_rad,
                                       .cell_y_rad = g->cell_y_rad,
                                       .n = 1,
                                       .n_thread = o->n_threads};
        msi_fits_spec unused;
        from.kind = MSI_FITS_MODEL;
        rc = msi_outputs_read_back(r->outputs, &from, &unused, w->pixel);
        if (!rc) rc = msi_planes_upload(w->model, 0, 1, w->pixel);
        if (!rc) rc = msi_restore(w->residual, w->residual, w->model, &spec);
    }
    if (is_empty)
        msi_image_fill_nan(&image, 0);
    else if (!rc)
        rc = msi_planes_fetch(w->residual, 0, 1, image.pixel);
    image.n_vis[0] = facts.n_vis;
    image.sum_weight[0] = facts.sum_weight;
    weight[id->plane] = (msi_imaging_weight){.largest = facts.largest_weight, .vis_sum = facts.sum_vis_weight};
    clean[id->plane] = facts.clean;
    const msi_imaging_product product = {.channel = id->channel,
                                         .kind = MSI_FITS_IMAGE,
                                         .beam = is_empty ? (msi_beam){0} : *common,
                                         .weight = weight,
                                         .clean = clean};
    if (!rc) rc = msi_imaging_files_put_plane(r, &product, id->plane, &image);
    msi_image_free(&image);
    return rc;
}

/* Find the common beam of all planes, and log it. */
static int find_common(msi_beam *common, msi_restoring_planes rule, const msi_beam *beam, int64_t n)
{
    msi_beam kernel;
    int64_t outside = -1;
    char major[MSI_FORMAT_SIZE], minor[MSI_FORMAT_SIZE];
    *common = msi_largest_beam(beam, n);
    for (int64_t i = 0; i < n && rule == MSI_RESTORE_LARGEST; i++)
        if (msi_beam_known(&beam[i]) && !msi_beam_kernel(&kernel, &beam[i], common)) outside = i;
    if (outside >= 0)
        msi_log_warning(
            "-restoring-beam largest: the beam of plane %lld is not inside the largest one; the common beam is "
            "used",
            (long long)outside);
    if (rule == MSI_RESTORE_COMMON || outside >= 0) MSI_TRY(msi_common_beam(common, beam, n));
    if (msi_beam_known(common))
        msi_log_info("beam of all planes: %s x %s, position angle %.1f deg", msi_format_angle(major, common->major_rad),
                     msi_format_angle(minor, common->minor_rad), common->pa_rad * 180 / MSI_PI);
    else
        msi_log_warning("no plane has a beam, so the pixels of the restored cube are NaN");
    return MSI_OK;
}

int msi_imaging_cube_restore(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    const msi_cube_options *c = &o->cube;
    const msi_fits_kind of_beams = o->clean.niter ? MSI_FITS_RESIDUAL : MSI_FITS_DIRTY;
    work w = {0};
    msi_beam common;
    if (!r->outputs || !c->is_cube || !c->restoring_beam || o->make_psf_only) return MSI_OK;
    MSI_TRY(msi_image_writer_wait(r->writer));
    const msi_output_id first = {r->interval, 0, 0, of_beams, 0};
    const msi_beam *beam = msi_outputs_cube_beams(r->outputs, &first);
    MSI_TRY(find_common(&common, c->restoring_beam, beam, o->channels_out));
    int rc = make_work(&w, &o->geometry);
    for (int p = 0; !rc && p < r->n_plane; p++)
        for (int64_t k = 0; !rc && k < o->channels_out; k++) {
            const msi_output_id id = {r->interval, k, p, MSI_FITS_IMAGE, 0};
            rc = restore(r, &w, &id, &common);
        }
    free_work(&w);
    if (!rc) rc = msi_image_writer_wait(r->writer);
    return rc ? rc : msi_outputs_finish_cubes(r->outputs, r->interval);
}
