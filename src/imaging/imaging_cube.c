/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Cubes that are restored with one beam. It is known only after the last channel, so residuals, models and dirty images
 * are read back from their cubes, plane by plane: the residual is convolved to the common beam, and the model with it.
 */
#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "kernels/cleaner.h"
#include "src/imaging/imaging_run.h"
#include "src/sky/common_beam.h"

/* Planes on the CPU for one image. */
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

/* Convolve the image in w->pixel, in Jy per beam `from`, to the beam `to`. Returned: w->residual */
static int convolve(work *w, const msi_imaging_run *r, const msi_beam *from, const msi_beam *to)
{
    const double grown = to->major_rad * to->minor_rad / (from->major_rad * from->minor_rad);
    MSI_TRY(msi_beam_convolve(w->pixel, &r->options->geometry, from, to, grown));
    return msi_planes_upload(w->residual, 0, 1, w->pixel);
}

/* Make and write the restored image of a plane. */
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

/* Find the beam of all planes, and log it. */
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
