/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/predict_report.h"

#include <math.h>

#include "core/log.h"
#include "core/memory.h"
#include "src/options/gridder_choice.h"

static void report_memory(const msi_predict_plan *p)
{
    const msi_gridder_report *r = &p->gridder;
    msi_gridder_choice_print(r);
    msi_log_info("memory: visibilities %.3f GB at a time, grids %.3f GB, models %.3f GB, limit %.3f GB; %lld pass%s",
                 1e-9 * (double)p->store_bytes, 1e-9 * (double)p->grid_bytes, 1e-9 * (double)p->image_bytes,
                 1e-9 * (double)msi_memory_limit(), (long long)p->n_filling, p->n_filling == 1 ? "" : "es");
    if (r->backend == MSI_BACKEND_CUDA) msi_log_info("device memory: %.3f GB", 1e-9 * (double)p->device_bytes);
}

void msi_predict_report_plan(const msi_predict_run *r)
{
    const msi_options *o = r->options;
    report_memory(&r->plan);
    for (int i = 0; i < o->n_ms; i++) {
        const int64_t bytes = msi_ms_writer_disk_bytes(r->writer, i);
        if (bytes)
            msi_log_info("disk: %.3f GB for column %s of %s", 1e-9 * (double)bytes, r->column, o->ms_paths[i]);
        else
            msi_log_info("disk: column %s of %s is written in place", r->column, o->ms_paths[i]);
    }
    msi_log_info("to predict: %lld rows, %lld samples, |w| %.1f to %.1f wavelengths%s", (long long)r->scan.n_row,
                 (long long)r->scan.n_sample, r->scan.w_min_lambda, r->scan.w_max_lambda,
                 r->scan.n_dropped ? "; rows without a finite UVW stay as they are" : "");
    if (o->dry_run)
        msi_log_info("time: about %.0f s to read, %.0f s to degrid, %.0f s to write", ceil(r->plan.read_s),
                     ceil(r->plan.degrid_s), ceil(r->plan.write_s));
}

void msi_predict_report_done(const msi_predict_run *r, const msi_predict_loop *loop, const msi_predict_times *t)
{
    const double all_s = t->finished_s - t->start_s;
    for (int i = 0; i < r->options->n_ms; i++) msi_log_info("wrote %s of %s", r->column, r->options->ms_paths[i]);
    msi_log_info("predicted %lld rows, %lld samples in %.2f s, %.2f million a second", (long long)loop->done.n_row,
                 (long long)loop->done.n_sample, all_s, 1e-6 * (double)loop->done.n_sample / all_s);
    msi_log_info("time: models %.2f s, open and scan %.2f s, prepare %.2f s; read %.2f s, degrid %.2f s, correlations "
                 "and waiting for the disk %.2f s; finish %.2f s",
                 t->models_s - t->start_s, t->planned_s - t->models_s, t->prepared_s - t->planned_s, loop->done.read_s,
                 loop->done.degrid_s, loop->done.write_s, t->finished_s - t->looped_s);
}
