/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/predict/predict_report.h"

#include <math.h>
#include <stdio.h>

#include "core/format.h"
#include "core/log.h"
#include "core/memory.h"
#include "src/options/gridder_choice.h"
#include "src/run/set_report.h"

void msi_predict_report_subject(const msi_predict_run *r)
{
    static const char *const ops[] = {[MSI_MS_WRITE_REPLACE] = "predicted into",
                                      [MSI_MS_WRITE_ADD] = "plus the model into",
                                      [MSI_MS_WRITE_SUBTRACT] = "minus the model into"};
    const msi_options *o = r->options;
    char data[256];
    if (o->predict_op == MSI_MS_WRITE_REPLACE)
        snprintf(data, sizeof data, "%s %.64s", ops[o->predict_op], r->column);
    else
        snprintf(data, sizeof data, "%.64s %s %.64s", msi_ms_reader_data_column(r->reader), ops[o->predict_op],
                 r->column);
    msi_set_report(r->reader, o, data);
}

static void report_memory(const msi_options *o, const msi_predict_plan *p)
{
    const msi_gridder_report *r = &p->gridder;
    msi_gridder_choice_print(o, r);
    msi_log_info("memory: visibilities %.3f GB at a time, grids %.3f GB, models %.3f GB, limit %.3f GB; %lld pass%s",
                 1e-9 * (double)p->store_bytes, 1e-9 * (double)p->grid_bytes, 1e-9 * (double)p->image_bytes,
                 1e-9 * (double)msi_memory_limit(), (long long)p->n_filling, p->n_filling == 1 ? "" : "es");
    if (r->backend == MSI_BACKEND_CUDA) msi_log_info("device memory: %.3f GB", 1e-9 * (double)p->device_bytes);
}

void msi_predict_report_plan(const msi_predict_run *r)
{
    const msi_options *o = r->options;
    report_memory(o, &r->plan);
    for (int i = 0; i < o->n_ms; i++) {
        const int64_t bytes = msi_ms_writer_disk_bytes(r->writer, i);
        if (bytes)
            msi_log_info("disk: %.3f GB for column %s of %s", 1e-9 * (double)bytes, r->column, o->ms_paths[i]);
        else
            msi_log_info("disk: column %s of %s is written in place", r->column, o->ms_paths[i]);
    }
    msi_log_info("to predict: %lld row%s, %lld sample%s, |w| %.1f to %.1f wavelengths%s", (long long)r->scan.n_row,
                 msi_plural(r->scan.n_row), (long long)r->scan.n_sample, msi_plural(r->scan.n_sample),
                 r->scan.w_min_lambda, r->scan.w_max_lambda,
                 r->scan.n_dropped ? "; rows without a finite UVW stay as they are" : "");
    if (o->dry_run)
        msi_log_info("time: about %.0f s to read, %.0f s to degrid, %.0f s to write", ceil(r->plan.read_s),
                     ceil(r->plan.degrid_s), ceil(r->plan.write_s));
}

void msi_predict_report_done(const msi_predict_run *r, const msi_predict_loop *loop, const msi_predict_times *t)
{
    const double all_s = t->finished_s - t->start_s;
    msi_log_info("predicted %lld row%s, %lld sample%s in %.2f s, %.2f million a second", (long long)loop->done.n_row,
                 msi_plural(loop->done.n_row), (long long)loop->done.n_sample, msi_plural(loop->done.n_sample), all_s,
                 1e-6 * (double)loop->done.n_sample / all_s);
    msi_log_info("time: models %.2f s, open and scan %.2f s, prepare %.2f s; read %.2f s, degrid %.2f s, correlations "
                 "and waiting for the disk %.2f s; finish %.2f s",
                 t->models_s - t->start_s, t->planned_s - t->models_s, t->prepared_s - t->planned_s, loop->done.read_s,
                 loop->done.degrid_s, loop->done.write_s, t->finished_s - t->looped_s);
    char sets[4200];
    msi_set_report_names(sets, sizeof sets, r->all->ms_paths, r->all->n_ms);
    msi_log_info("wrote %s of %s in %.2f s", r->column, sets, msi_wall_s());
}
