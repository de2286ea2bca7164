/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/options/selection_words.h"
#include "src/preprocess/phase_shift.h"
#include "src/run/open_sets.h"
#include "src/run/predict_check.h"
#include "src/run/predict_loop.h"
#include "src/run/predict_report.h"
#include "src/run/predict_run.h"

/* ---- Open ---- */

/* Names the column that -predict-op reads: -data-column or what stands for it. */
static int find_input(const msi_predict_run *r, char *column, size_t size)
{
    const msi_options *o = r->options;
    const msi_ms_opening opening = {.interval_begin = o->selection.interval_begin,
                                    .interval_end = o->selection.interval_end};
    msi_ms_reader *reader;
    MSI_TRY(msi_ms_crew_open(r->crew, &opening, &reader));
    snprintf(column, size, "%s", msi_ms_reader_data_column(reader));
    msi_ms_reader_free(reader);
    return MSI_OK;
}

/* A set that an earlier run left incomplete is redone, by the same selection. */
static int check_marks(const msi_predict_run *r, const char *selection)
{
    const msi_options *o = r->options;
    for (int i = 0; i < o->n_ms; i++) {
        const char *text, *earlier;
        if (!msi_ms_writer_marked(r->writer, i, &text, &earlier)) continue;
        if (strcmp(earlier, selection) != 0 && !o->force)
            return msi_error_set(
                MSI_EINPUT,
                "%s: an earlier run was stopped while it wrote (%s); complete it first, with its "
                "selection (%s), or give -force and have %s incomplete where that goes beyond this one",
                o->ms_paths[i], text, earlier, r->column);
        msi_log_warning("%s: an earlier run was stopped while it wrote (%s); it is redone", o->ms_paths[i], text);
    }
    return MSI_OK;
}

/* Fork the process that reads and the one that writes. */
static int start_processes(msi_predict_run *r, void (*forked)(void))
{
    const msi_options *o = r->options;
    char input[64] = "", selection[MSI_MS_MAX_SELECTION], *description;
    const int combines = o->predict_op != MSI_MS_WRITE_REPLACE;
    MSI_TRY(msi_ms_crew_start(&r->crew, o->ms_paths, o->n_ms, &o->selection, 1, NULL));
    r->column = combines ? o->output_column : o->model_column;
    if (combines) MSI_TRY(find_input(r, input, sizeof input));
    if (strcmp(input, r->column) == 0)
        return msi_error_set(
            MSI_EUSAGE, "-output-column %s: it is read too; name another, or what is read, -data-column", r->column);
    const size_t size = strlen(r->models->names) + 64;
    MSI_TRY(msi_alloc(&description, (int64_t)size, 1, "description of the model"));
    snprintf(description, size, "%s, hash %016" PRIx64, r->models->names, r->models->hash);
    msi_selection_words(&o->selection, selection, sizeof selection);
    const msi_ms_write_spec spec = {r->column,   o->predict_op, combines ? input : NULL,
                                    description, selection,     o->drop_old};
    int rc = msi_ms_writer_start(&r->writer, o->ms_paths, o->n_ms, &spec);
    msi_free(description);
    if (rc) return rc;
    msi_team_join(r->team);
    if (forked) forked();
    if (r->team->size > 1)
        return msi_error_set(MSI_EUSAGE,
                             "-predict: several ranks make images alone; predict with msimage, or one rank");
    MSI_TRY(check_marks(r, selection));
    /* Not before the fork: a GPU's context does not survive one. */
    msi_backend_warm_up(o->backend);
    return MSI_OK;
}

static int open_reader(msi_predict_run *r)
{
    const msi_options *o = r->options;
    const msi_ms_opening opening = {.interval_begin = o->selection.interval_begin,
                                    .interval_end = o->selection.interval_end,
                                    .coordinates_only = 1,
                                    .keep_flagged_rows = 1};
    msi_progress_begin("opening");
    MSI_TRY(msi_ms_crew_open(r->crew, &opening, &r->reader));
    msi_progress_end();
    MSI_TRY(msi_predict_scan_read(&r->scan, r->reader, r->models));
    return msi_model_bands_make(&r->bands, r->models, r->reader, o->model_interpolation);
}

/* ---- Plan ---- */

/* The band that all samples are of; -1 where there are several. */
static int64_t only_band(const msi_predict_run *r)
{
    int64_t only = -1;
    for (int64_t i = 0; i < r->bands.channels.n; i++) {
        if (!r->bands.band[i].n_sample) continue;
        if (only >= 0) return -1;
        only = i;
    }
    return only;
}

static int make_gridders(msi_predict_run *r)
{
    MSI_TRY(msi_alloc(&r->gridder, r->bands.channels.n, sizeof(msi_gridder *), "gridders"));
    for (int64_t i = 0; i < r->bands.channels.n; i++) {
        const msi_model_band *band = &r->bands.band[i];
        if (!band->n_sample) continue;
        msi_gridder_spec spec = msi_predict_gridder_spec(r->options, r->models, band->n_image * r->models->n_plane,
                                                         msi_predict_unplanned_bytes());
        MSI_TRY(msi_gridder_create(&r->gridder[i], &spec));
    }
    const int64_t only = only_band(r);
    if (only < 0) return MSI_OK;
    const msi_model_band *band = &r->bands.band[only];
    MSI_TRY(msi_model_images_take(r->models, band->first, band->n_image, msi_gridder_precision(r->gridder[only]),
                                  &r->model));
    return msi_gridder_model(r->gridder[only], &r->model);
}

static int make_plan(msi_predict_run *r)
{
    const msi_predict_need need = {.options = r->options,
                                   .models = r->models,
                                   .bands = &r->bands,
                                   .reader = r->reader,
                                   .scan = &r->scan,
                                   .model_in_memory = r->model.pixel != NULL};
    MSI_TRY(msi_predict_plan_make(&r->plan, &need));
    for (int64_t i = 0; i < r->bands.channels.n; i++)
        if (r->gridder[i]) msi_predict_expect(&r->plan, &r->scan, &r->bands.band[i], r->gridder[i]);
    msi_predict_report_plan(r);
    return MSI_OK;
}

/* ---- Run ---- */

static int predict(msi_predict_run *r, msi_predict_times *t)
{
    const double longest_lambda = fmax(1, r->scan.longest_lambda);
    msi_predict_loop loop = {.reader = r->reader,
                             .writer = r->writer,
                             .models = r->models,
                             .bands = &r->bands,
                             .plan = &r->plan,
                             .gridder = r->gridder,
                             .n_row = r->scan.n_row,
                             .no_turn_rad = MSI_LOST_TO_CENTRE * r->options->accuracy / (4 * MSI_PI * longest_lambda)};
    int rc = msi_predict_loop_run(&loop);
    t->looped_s = msi_wall_s();
    /* Columns that are still in memory go to the disk. */
    msi_progress_begin("completing");
    if (!rc) rc = msi_ms_writer_finish(r->writer);
    if (rc) return rc;
    msi_progress_end();
    t->finished_s = msi_wall_s();
    msi_predict_report_done(r, &loop, t);
    return MSI_OK;
}

static int run_stages(msi_predict_run *r, void (*forked)(void))
{
    msi_predict_times t = {.start_s = msi_wall_s()};
    MSI_TRY(msi_model_images_find(&r->models, r->options->name, r->options->force));
    t.models_s = msi_wall_s();
    MSI_TRY(start_processes(r, forked));
    MSI_TRY(open_reader(r));
    msi_predict_report_subject(r);
    MSI_TRY(msi_predict_check(r));
    MSI_TRY(make_gridders(r));
    msi_backend_await();
    MSI_TRY(make_plan(r));
    t.planned_s = msi_wall_s();
    if (r->options->dry_run) return MSI_OK;
    MSI_TRY(msi_ms_writer_prepare(r->writer));
    t.prepared_s = msi_wall_s();
    return predict(r, &t);
}

/* The line that says why a run failed says too what it leaves in the sets. */
static int append_incomplete(const msi_predict_run *r, int rc)
{
    msi_ms_writer_stop(r->writer);
    for (int i = 0; i < r->options->n_ms; i++)
        if (msi_ms_writer_left_mark(r->writer, i))
            return msi_error_append(rc, "; %s of %s is incomplete, and marked so: run predict again", r->column,
                                    r->options->ms_paths[i]);
    return rc;
}

int msi_run_predict(const msi_options *options, msi_team *team, void (*forked)(void))
{
    msi_team alone = MSI_TEAM_ALONE;
    msi_predict_run r = {.options = options, .team = team ? team : &alone};
    int rc = msi_open_sets_have_columns(options, "it has no columns to write to; predict into its Measurement Set");
    if (!rc) rc = run_stages(&r, forked);
    if (rc && r.writer) rc = append_incomplete(&r, rc);
    for (int64_t i = 0; r.gridder && i < r.bands.channels.n; i++) msi_gridder_free(r.gridder[i]);
    msi_free(r.gridder);
    msi_image_free(&r.model);
    msi_model_bands_free(&r.bands);
    msi_ms_reader_free(r.reader);
    msi_ms_crew_free(r.crew);
    msi_ms_writer_free(r.writer);
    msi_model_images_free(r.models);
    msi_backend_settle();
    return rc;
}
