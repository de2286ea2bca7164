/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/run_plan.h"

#include <math.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/options/gridder_choice.h"
#include "src/preprocess/phase_shift.h"

/* Samples a second that casacore delivers from tiled storage in bulk, four correlations each (measured). */
static const double READ_RATE = 5e7;

/* Libraries, buffers of blocks and of threads: not worth counting one by one. */
static const int64_t SUNDRIES = 96 << 20;

int64_t msi_run_plan_gridder_bytes(const msi_options *o)
{
    return o->memory_limit_bytes > SUNDRIES ? o->memory_limit_bytes - SUNDRIES : 1;
}

double msi_run_plan_bound_w(const msi_ms_reader *reader)
{
    double highest = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, i);
        highest = fmax(highest, spw->freq_hz[spw->n_chan - 1]);
    }
    return msi_ms_reader_observation(reader)->longest_baseline_m * highest / MSI_SPEED_OF_LIGHT;
}

int msi_run_plan_make(msi_run_plan *plan, const msi_options *o, const msi_gridder *gridder, int n_plane, int64_t n_row,
                      int64_t n_sample, double w_min_lambda, double w_max_lambda, int64_t output_bytes)
{
    memset(plan, 0, sizeof *plan);
    plan->n_row = n_row;
    plan->n_sample = n_sample;
    plan->w_min_lambda = w_min_lambda;
    plan->w_max_lambda = w_max_lambda;
    plan->output_bytes = output_bytes;
    msi_gridder_report *r = &plan->gridder;
    int64_t per_channel = n_sample / o->channels_out;
    /* No grid, and so no plan, exists for an image beyond any machine; that is a lack of memory all the same. */
    double image_gb = 4e-9 * (double)o->geometry.nx * (double)o->geometry.ny;
    if (image_gb > 1e-9 * (double)msi_memory_physical())
        return msi_error_set(
            MSI_ENOMEM, "an image of %lld x %lld needs more than %.3f GB of memory; the limit is %.3f GB",
            (long long)o->geometry.nx, (long long)o->geometry.ny, image_gb, 1e-9 * (double)msi_memory_limit());
    MSI_TRY(msi_gridder_foresee(gridder, per_channel, n_row, w_min_lambda, w_max_lambda, r));
    int n_image = o->make_psf_only ? 1 : n_plane + o->make_psf;
    int64_t pixel_bytes = msi_image_pixel_bytes(r->precision), n_pixel = msi_image_n_pixel(&o->geometry);
    plan->image_bytes = n_image * n_pixel * pixel_bytes * (o->channels_out > 1 ? 2 : 1);
    const msi_density_grid density = msi_density_grid_of(&o->geometry, &o->weighting);
    int64_t density_bytes = density.nu * (density.nv / 2) * 8;
    if (o->weighting.mode != MSI_WEIGHT_NATURAL)
        plan->image_bytes += density_bytes * (o->mf_weighting ? 1 : o->channels_out);
    /* Beside the images, one after the other: a grid of weights and its two halves joined; a complex plane and its
     * parts. */
    if (o->save_uv)
        plan->image_bytes += n_pixel * 32;
    else if (o->save_weights)
        plan->image_bytes += 3 * density_bytes;
    plan->grid_bytes = r->grid_bytes;
    plan->device_bytes = r->device_bytes;
    plan->store_bytes = (r->store_bytes + r->spilled_bytes) * o->channels_out;
    /* What must be in memory whatever happens; the store takes what is left, and a file the rest. */
    int64_t limit = msi_memory_limit();
    int64_t least = r->least_grid_bytes + plan->image_bytes + SUNDRIES;
    if (least > limit)
        return msi_error_set(MSI_ENOMEM,
                             "an image of %lld x %lld needs %.3f GB of memory (grid %lld x %lld); the limit is %.3f GB",
                             (long long)o->geometry.nx, (long long)o->geometry.ny, 1e-9 * (double)least,
                             (long long)r->nu, (long long)r->nv, 1e-9 * (double)limit);
    int64_t room = limit - plan->image_bytes - SUNDRIES;
    int64_t grid = plan->store_bytes + plan->grid_bytes <= room ? plan->grid_bytes : r->least_grid_bytes;
    plan->store_budget_bytes = room - grid > o->channels_out ? room - grid : o->channels_out;
    if (plan->store_bytes > plan->store_budget_bytes) {
        plan->spilled_bytes = plan->store_bytes - plan->store_budget_bytes;
        plan->store_bytes = plan->store_budget_bytes;
    }
    plan->read_s = (double)n_sample / READ_RATE * (o->selection.coordinates_only ? 0.1 : 1);
    plan->image_s = r->estimate_s * (double)o->channels_out;
    return MSI_OK;
}

void msi_run_plan_print(const msi_run_plan *p, const msi_options *o)
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

int msi_run_plan_scan(msi_ms_reader *reader, const msi_image_geometry *g, double ra_rad, double dec_rad,
                      msi_run_plan *plan, int64_t *n_outside)
{
    plan->n_row = plan->n_sample = *n_outside = 0;
    plan->w_min_lambda = HUGE_VAL;
    plan->w_max_lambda = 0;
    msi_ms_block b = {0};
    for (;;) {
        MSI_TRY(msi_ms_reader_next(reader, &b));
        if (!b.n_row) return MSI_OK;
        msi_phase_shift shift;
        msi_phase_shift_make(&shift, b.ra_rad, b.dec_rad, ra_rad, dec_rad);
        for (int64_t row = 0; row < b.n_row; row++) {
            double uvw[3];
            msi_phase_shift_rotate(&shift, 1, b.uvw_m + 3 * row, uvw);
            for (int32_t c = 0; c < b.n_chan; c++) {
                double f = b.freq_hz[c] / MSI_SPEED_OF_LIGHT;
                if (fabs(uvw[0] * f * g->cell_x_rad) > 0.5 || fabs(uvw[1] * f * g->cell_y_rad) > 0.5) {
                    ++*n_outside;
                    continue;
                }
                plan->n_sample++;
                plan->w_min_lambda = fmin(plan->w_min_lambda, fabs(uvw[2]) * f);
                plan->w_max_lambda = fmax(plan->w_max_lambda, fabs(uvw[2]) * f);
            }
        }
        plan->n_row += b.n_row;
        MSI_TRY(msi_interrupt_check());
    }
}
