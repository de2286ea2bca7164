/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/imaging_report.h"

#include <math.h>

#include "core/log.h"
#include "core/memory.h"
#include "src/options/gridder_choice.h"

void msi_imaging_report_plan(const msi_imaging_plan *p, const msi_options *o)
{
    const msi_gridder_report *r = &p->gridder;
    msi_gridder_choice_print(r);
    msi_log_info("memory: visibilities %.3f GB, grids %.3f GB, images %.3f GB; limit %.3f GB",
                 1e-9 * (double)p->store_bytes, 1e-9 * (double)p->grid_bytes, 1e-9 * (double)p->image_bytes,
                 1e-9 * (double)msi_memory_limit());
    if (r->backend == MSI_BACKEND_CUDA) msi_log_info("device memory: up to %.3f GB", 1e-9 * (double)p->device_bytes);
    if (p->spilled_bytes)
        msi_log_info("disk: %.3f GB of visibilities that exceed the memory limit, in %s",
                     1e-9 * (double)p->spilled_bytes, o->temp_dir ? o->temp_dir : "the temporary folder");
    msi_log_info("disk: images %.3f GB", 1e-9 * (double)p->output_bytes);
}

void msi_imaging_report_dry_run(const msi_imaging_run *run, const msi_imaging_scan *scan)
{
    const msi_ms_dropped *d = msi_ms_reader_dropped(run->reader);
    msi_log_info(
        "rows: %lld kept; samples dropped: %lld autocorrelation, %lld FLAG_ROW, %lld UVW not finite, %lld outside "
        "the uv limits, %lld outside the uv grid; flags and weights are not read by a dry run",
        (long long)scan->n_row, (long long)d->autocorrelation, (long long)d->flag_row, (long long)d->uvw_not_finite,
        (long long)d->uv_limits, (long long)scan->n_outside);
    msi_log_info("samples: up to %lld; |w| %.1f to %.1f wavelengths", (long long)scan->n_sample, scan->w_min_lambda,
                 scan->w_max_lambda);
    msi_log_info("time: about %.0f s to read, %.0f s to image", ceil(run->plan.read_s), ceil(run->plan.image_s));
}

void msi_imaging_report_loaded(const msi_imaging_run *run)
{
    const msi_ms_dropped *d = msi_ms_reader_dropped(run->reader);
    const msi_sample_dropped *s = &run->dropped;
    int64_t kept = 0, outside = 0;
    for (int64_t c = 0; c < run->options->channels_out; c++) {
        msi_gridder_report report;
        msi_gridder_report_get(run->gridder[c], &report);
        kept += report.n_sample;
        outside += report.n_outside;
    }
    msi_log_info(
        "samples: %lld kept; dropped: %lld autocorrelation, %lld FLAG_ROW, %lld FLAG, %lld weight not positive or not "
        "finite, %lld data not finite, %lld data beyond 1e30, %lld UVW not finite, %lld outside the uv limits, %lld "
        "outside the uv grid",
        (long long)kept, (long long)d->autocorrelation, (long long)d->flag_row, (long long)s->flagged,
        (long long)s->weight, (long long)s->data_not_finite, (long long)s->data_too_large, (long long)d->uvw_not_finite,
        (long long)d->uv_limits, (long long)outside);
    if (outside)
        msi_log_warning(
            "%lld samples lie outside the uv plane that pixels of this -scale can hold; a smaller -scale keeps them",
            (long long)outside);
}

void msi_imaging_report_weights(const msi_imaging_run *run)
{
    const msi_options *o = run->options;
    const int is_natural = o->weighting.mode == MSI_WEIGHT_NATURAL;
    msi_log_info("weights: %s%s%s", run->weighting, o->weighting.taper_fwhm_rad > 0 ? ", gaussian taper" : "",
                 !is_natural && o->mf_weighting && o->channels_out > 1 ? ", densities over all output channels" : "");
    if (is_natural) return;
    const msi_density_grid grid = msi_density_grid_of(&o->geometry, &o->weighting);
    msi_log_info("weight grid: %lld x %lld cells of %.6g x %.6g wavelengths", (long long)grid.nu, (long long)grid.nv,
                 1 / (o->geometry.cell_x_rad * (double)grid.nu), 1 / (o->geometry.cell_y_rad * (double)grid.nv));
}

void msi_imaging_report_channel(int64_t channel, int64_t n_sample, const msi_gridder_report *r)
{
    msi_log_detail("channel %lld: %lld samples, %s %s, width %d, grid %lld x %lld, %lld transforms or planes %.4g "
                   "wavelengths apart; "
                   "sort %.2f s, grid %.2f s, FFT and w-screens %.2f s, correction %.2f s, transfer %.2f s",
                   (long long)channel, (long long)n_sample, r->method, r->strategy, r->width, (long long)r->nu,
                   (long long)r->nv, (long long)r->n_w, r->w_step, r->sort_s, r->grid_s, r->transform_s, r->correct_s,
                   r->transfer_s);
}

void msi_imaging_report_beam(const msi_beam *beam)
{
    msi_log_info("beam: %.4g x %.4g asec, position angle %.1f deg", beam->major_rad * 648000 / MSI_PI,
                 beam->minor_rad * 648000 / MSI_PI, beam->pa_rad * 180 / MSI_PI);
}

void msi_imaging_report_times(const msi_imaging_times *t)
{
    msi_log_info("time: open %.2f s, read %.2f s, weights %.2f s, images and files %.2f s", t->opened_s - t->start_s,
                 t->loaded_s - t->opened_s, t->weighed_s - t->loaded_s, t->imaged_s - t->weighed_s);
}
