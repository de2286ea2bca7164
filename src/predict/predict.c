/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/predict/predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "src/options/selection_words.h"
#include "src/preprocess/phase_shift.h"
#include "src/run/open_sets.h"
#include "src/predict/predict_check.h"
#include "src/predict/predict_loop.h"
#include "src/predict/predict_report.h"
#include "src/predict/predict_run.h"
#include "src/team/assignment.h"

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
static int check_marks(const msi_predict_run *r)
{
    const msi_options *o = r->options;
    char selection[MSI_MS_MAX_SELECTION];
    msi_selection_words(&o->selection, selection, sizeof selection);
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

/* Choose the sets of this rank among those of the run, before MPI tells which it is: a writer is forked first. */
static int assign_sets(msi_predict_run *r)
{
    const msi_options *all = r->all;
    int64_t *bytes;
    int *rank = NULL, a, b;
    r->own = *all;
    r->options = &r->own;
    /* What is replaced is not read: some sets may have CORRECTED_DATA, and others not. */
    if (all->predict_op == MSI_MS_WRITE_REPLACE && !all->selection.data_column) r->own.selection.data_column = "DATA";
    if (r->team->env_size == 1) return MSI_OK;
    if (msi_ms_paths_same(all->ms_paths, all->n_ms, &a, &b))
        return msi_error_set(MSI_EARGUMENT, "%s and %s are the same Measurement Set", all->ms_paths[a],
                             all->ms_paths[b]);
    MSI_TRY(msi_alloc(&bytes, all->n_ms, sizeof *bytes, "sets"));
    for (int i = 0; i < all->n_ms; i++) bytes[i] = msi_ms_paths_bytes(&all->ms_paths[i], 1);
    int rc = msi_alloc(&rank, all->n_ms, sizeof *rank, "sets");
    if (!rc) rc = msi_alloc(&r->paths, all->n_ms, sizeof *r->paths, "sets");
    if (!rc) rc = msi_assign_sets(bytes, all->n_ms, r->team->env_size, rank);
    r->own.n_ms = 0;
    r->own.ms_paths = r->paths;
    for (int i = 0; !rc && i < all->n_ms; i++)
        if (rank[i] == r->team->env_rank) r->paths[r->own.n_ms++] = all->ms_paths[i];
    msi_free(bytes);
    msi_free(rank);
    return rc;
}

/* Fork the process that reads and the one that writes. */
static int start_processes(msi_predict_run *r)
{
    const msi_options *o = r->options;
    char selection[MSI_MS_MAX_SELECTION], *description;
    const int combines = o->predict_op != MSI_MS_WRITE_REPLACE;
    MSI_TRY(msi_ms_crew_start(&r->crew, o->ms_paths, o->n_ms, &o->selection, 1, NULL));
    r->column = combines ? o->output_column : o->model_column;
    if (combines) MSI_TRY(find_input(r, r->input, sizeof r->input));
    if (strcmp(r->input, r->column) == 0)
        return msi_error_set(
            MSI_EUSAGE, "-output-column %s: it is read too; name another, or what is read, -data-column", r->column);
    const size_t size = strlen(r->models->names) + 64;
    MSI_TRY(msi_alloc(&description, (int64_t)size, 1, "description of the model"));
    snprintf(description, size, "%s, hash %016" PRIx64, r->models->names, r->models->hash);
    msi_selection_words(&o->selection, selection, sizeof selection);
    const msi_ms_write_spec spec = {r->column,   o->predict_op, combines ? r->input : NULL,
                                    description, selection,     o->drop_old};
    const int rc = msi_ms_writer_start(&r->writer, o->ms_paths, o->n_ms, &spec);
    msi_free(description);
    return rc;
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

/* Find the band that all samples are of; -1 where there are several. */
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
        spec.device = r->gpus.device[0];
        MSI_TRY(msi_gridder_create(&r->gridder[i], &spec));
    }
    const int64_t only = only_band(r);
    if (only < 0) return MSI_OK;
    const msi_model_band *band = &r->bands.band[only];
    MSI_TRY(msi_model_images_take(r->models, band->first, band->n_image, msi_gridder_precision(r->gridder[only]),
                                  &r->model));
    return msi_gridder_model(r->gridder[only], &r->model);
}

/* Share the work out, and tells of the plan. */
static int share_gpus(msi_predict_run *r)
{
    const msi_gpu_work work = {.gridder = &r->plan.gridder, .n_channel = 1, .one_gpu_s = r->plan.degrid_s};
    msi_gpu_share_plan(&r->gpus, r->options, &work);
    r->plan.degrid_s = msi_gpu_share_s(&r->gpus, &work);
    msi_predict_report_plan(r);
    msi_gpu_share_report(&r->gpus, &work);
    for (int64_t i = 0; r->gpus.n > 1 && i < r->bands.channels.n; i++)
        if (r->gridder[i]) MSI_TRY(msi_gridder_set_workers(r->gridder[i], r->gpus.device, r->gpus.n));
    return MSI_OK;
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
    MSI_TRY(share_gpus(r));
    for (int64_t i = 0; i < r->bands.channels.n; i++)
        if (r->gridder[i]) msi_predict_expect(&r->plan, &r->scan, &r->bands.band[i], r->gridder[i]);
    return MSI_OK;
}

/* ---- Run ---- */

/* Fail where ranks are not those that sets were assigned to, or would read columns of different names. */
static int check_team(const msi_predict_run *r)
{
    const msi_team *t = r->team;
    char *all, *first = NULL, *other = NULL;
    if (t->size == 1 && t->env_size == 1) return MSI_OK;
    MSI_TRY(msi_team_check_environment(r->team));
    MSI_TRY(msi_team_same(r->team, msi_options_hash(r->options), "was given another command line"));
    MSI_TRY(msi_team_gather(r->team, r->input, sizeof r->input, (void **)&all));
    for (int k = 0; k < t->size; k++) {
        char *input = all + (size_t)k * sizeof r->input;
        if (*input && !first) first = input;
        if (*input && strcmp(input, first) != 0) other = input;
    }
    const int rc =
        other ? msi_error_set(MSI_EINPUT, "some sets would be read from %s, others from %s: name the data column",
                              first, other)
              : MSI_OK;
    msi_free(all);
    return msi_team_agree(r->team, rc);
}

/* Plan what is to be done to the sets of this rank. Nothing is changed yet. */
static int plan_sets(msi_predict_run *r)
{
    MSI_TRY(check_marks(r));
    /* Not before the fork: a GPU's context does not survive one. */
    msi_gpu_share_start(&r->gpus, r->options, r->team);
    MSI_TRY(open_reader(r));
    msi_predict_report_subject(r);
    MSI_TRY(msi_predict_check(r));
    MSI_TRY(msi_gpu_share_check(&r->gpus, r->options));
    MSI_TRY(make_gridders(r));
    msi_backend_await(r->gpus.device, r->gpus.n);
    return make_plan(r);
}

static int predict(msi_predict_run *r, msi_predict_loop *loop)
{
    const double longest_lambda = fmax(1, r->scan.longest_lambda);
    *loop =
        (msi_predict_loop){.reader = r->reader,
                           .writer = r->writer,
                           .models = r->models,
                           .bands = &r->bands,
                           .plan = &r->plan,
                           .gridder = r->gridder,
                           .n_row = r->scan.n_row,
                           .no_turn_rad = MSI_LOST_TO_CENTRE * r->options->accuracy / (4 * MSI_PI * longest_lambda)};
    return msi_predict_loop_run(loop);
}

/* The line that says why a run failed says too what it leaves in the sets. */
static int append_incomplete(msi_predict_run *r, int rc)
{
    if (!rc || !r->writer || r->is_stopped) return rc;
    r->is_stopped = 1;
    msi_ms_writer_stop(r->writer);
    for (int i = 0; i < r->options->n_ms; i++)
        if (msi_ms_writer_left_mark(r->writer, i))
            return msi_error_append(rc, "; %s of %s is incomplete, and marked so: run predict again", r->column,
                                    r->options->ms_paths[i]);
    return rc;
}

/* A failure of this rank is told to the others with what it leaves. One that stops for another's has its turn later. */
static int agree_on_writing(msi_predict_run *r, int rc)
{
    return msi_team_agree(r->team, rc == MSI_EINTERRUPTED ? rc : append_incomplete(r, rc));
}

/* Write what is still in memory, and bring the columns into the sets. */
static int finish(msi_predict_run *r, msi_predict_loop *loop)
{
    int64_t count[] = {0, 0};
    msi_progress_begin("completing");
    if (r->writer) {
        MSI_TRY(msi_ms_writer_finish(r->writer));
        count[0] = loop->done.n_row;
        count[1] = loop->done.n_sample;
    }
    msi_progress_end();
    MSI_TRY(msi_team_count(r->team, count, 2));
    r->team->is_done = 1;
    loop->done.n_row = count[0];
    loop->done.n_sample = count[1];
    return MSI_OK;
}

/* Between the steps ranks wait for each other: sets change when all are known to be right, and are completed when all
 * have been written. */
static int run_stages(msi_predict_run *r)
{
    msi_predict_times t = {.start_s = r->start_s, .models_s = r->models_s};
    msi_predict_loop loop = {0};
    MSI_TRY(check_team(r));
    MSI_TRY(msi_team_agree(r->team, r->writer ? plan_sets(r) : MSI_OK));
    t.planned_s = msi_wall_s();
    if (r->options->dry_run) return MSI_OK;
    MSI_TRY(agree_on_writing(r, r->writer ? msi_ms_writer_prepare(r->writer) : MSI_OK));
    t.prepared_s = msi_wall_s();
    MSI_TRY(agree_on_writing(r, r->writer ? predict(r, &loop) : MSI_OK));
    t.looped_s = msi_wall_s();
    MSI_TRY(finish(r, &loop));
    t.finished_s = msi_wall_s();
    msi_predict_report_done(r, &loop, &t);
    return MSI_OK;
}

static int start(msi_predict_run *r)
{
    const msi_options *all = r->all;
    r->start_s = msi_wall_s();
    MSI_TRY(msi_open_sets_have_columns(all, "it has no columns to write to; predict into its Measurement Set"));
    MSI_TRY(assign_sets(r));
    if (r->team->env_size > all->n_ms)
        msi_log_info("ranks: %d of %d have nothing to do: a set has one writer, and there %s %d",
                     r->team->env_size - all->n_ms, r->team->env_size, all->n_ms == 1 ? "is" : "are", all->n_ms);
    if (r->own.n_ms < all->n_ms)
        msi_log_info("ranks: the first writes %d of %d sets, of which this log tells", r->own.n_ms, all->n_ms);
    if (!r->own.n_ms) return MSI_OK;
    MSI_TRY(msi_model_images_find(&r->models, r->options->name, r->options->force));
    r->models_s = msi_wall_s();
    return start_processes(r);
}

int msi_run_predict(const msi_options *options, msi_team *team, void (*forked)(void))
{
    msi_team alone = MSI_TEAM_ALONE;
    msi_predict_run r = {.all = options, .team = team ? team : &alone};
    int rc = start(&r);
    msi_team_join(r.team);
    if (forked) forked();
    if (!rc) rc = run_stages(&r);
    rc = append_incomplete(&r, rc);
    rc = msi_team_agree(r.team, rc);
    for (int64_t i = 0; r.gridder && i < r.bands.channels.n; i++) msi_gridder_free(r.gridder[i]);
    msi_free(r.gridder);
    msi_image_free(&r.model);
    msi_model_bands_free(&r.bands);
    msi_ms_reader_free(r.reader);
    msi_ms_crew_free(r.crew);
    msi_ms_writer_free(r.writer);
    msi_model_images_free(r.models);
    msi_free(r.paths);
    msi_backend_settle();
    return rc;
}
