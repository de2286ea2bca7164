/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_reader.h"
#include "io/ms/ms_writer.h"
#include "kernels/gridder.h"
#include "src/model/model_bands.h"
#include "src/model/model_images.h"
#include "src/run/predict_loop.h"
#include "src/run/predict_plan.h"
#include "src/preprocess/correlations.h"

/* A model whose centre is farther from the phase centre was hardly made from this set. */
static const double FARTHEST_RAD = 30 * MSI_PI / 180;

/* Of the accuracy, what may be lost by taking two centres for one. */
static const double LOST_TO_CENTRE = 1e-3;

/* A run and what its stages hand to each other. */
typedef struct predict_run {
    const msi_options *options;
    void (*forked)(void);
    const char *column; /* that is written */
    msi_model_images *models;
    msi_ms_writer *writer;
    msi_ms_reader *reader;
    msi_predict_scan scan;
    msi_model_bands bands;
    msi_predict_plan plan;
    msi_gridder **gridder; /* [bands.channels.n] NULL where the band is not used */
    msi_image model;       /* of the only band */
    double start_s, models_s, opened_s, planned_s, prepared_s, looped_s;
} predict_run;

/* What -predict-op reads, -data-column or what stands for it: known before the writer is forked, when no table may stay
 * open. */
static int find_input(const predict_run *r, char *column, size_t size)
{
    const msi_options *o = r->options;
    msi_ms_reader *reader;
    MSI_TRY(msi_ms_reader_open(&reader, o->ms_paths, o->n_ms, &o->selection));
    snprintf(column, size, "%s", msi_ms_reader_data_column(reader));
    msi_ms_reader_free(reader);
    return MSI_OK;
}

/* Adds a list of numbers as an option's words. */
static void add_numbers(char *text, size_t size, const char *option, const int *number, int n)
{
    size_t at = strlen(text);
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", i ? "," : option, number[i]);
}

static void add_range(char *text, size_t size, const char *option, int64_t begin, int64_t end)
{
    const size_t at = strlen(text);
    if (end) snprintf(text + at, size - at, " %s %lld %lld", option, (long long)begin, (long long)end);
}

static void add_words(char *text, size_t size, const char *option, const char *words)
{
    const size_t at = strlen(text);
    if (words) snprintf(text + at, size - at, " %s '%s'", option, words);
}

/* The options that select rows and channels, cut short where they are long. */
static void describe_selection(const msi_ms_selection *s, char *text, size_t size)
{
    text[0] = 0;
    if (s->all_fields) add_words(text, size, "-field", "all");
    add_numbers(text, size, " -field ", s->fields, s->n_field);
    add_words(text, size, "-select-field", s->mssel_field);
    if (!*text) add_words(text, size, "-field", "0");
    add_numbers(text, size, " -spws ", s->spws, s->n_spw);
    add_range(text, size, "-channel-range", s->channel_begin, s->channel_end);
    add_range(text, size, "-interval", s->interval_begin, s->interval_end);
    add_words(text, size, "-select-spw", s->mssel_spw);
    add_words(text, size, "-select-antenna", s->mssel_antenna);
    add_words(text, size, "-select-uvrange", s->mssel_uvrange);
    add_words(text, size, "-select-time", s->mssel_time);
    add_words(text, size, "-taql", s->taql);
    memmove(text, text + 1, strlen(text));
}

static int start_writer(predict_run *r)
{
    const msi_options *o = r->options;
    char input[64] = "", *description;
    const int combines = o->predict_op != MSI_MS_WRITE_REPLACE;
    r->column = combines ? o->output_column : o->model_column;
    if (combines) MSI_TRY(find_input(r, input, sizeof input));
    if (strcmp(input, r->column) == 0)
        return msi_error_set(
            MSI_EUSAGE, "-output-column %s: it is read too; name another, or what is read, -data-column", r->column);
    const size_t size = strlen(r->models->names) + 64;
    MSI_TRY(msi_alloc(&description, (int64_t)size, 1, "description of the model"));
    snprintf(description, size, "%s, hash %016" PRIx64, r->models->names, r->models->hash);
    char selection[MSI_MS_MAX_SELECTION];
    describe_selection(&o->selection, selection, sizeof selection);
    const msi_ms_write_spec spec = {r->column, o->predict_op, combines ? input : NULL, description, selection};
    int rc = msi_ms_writer_start(&r->writer, o->ms_paths, o->n_ms, &spec);
    msi_free(description);
    if (rc) return rc;
    if (r->forked) r->forked();
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
    /* Not before the fork: a GPU's context does not survive one. */
    msi_backend_warm_up(o->backend);
    return MSI_OK;
}

static int open_reader(predict_run *r)
{
    const msi_options *o = r->options;
    msi_ms_selection selection = o->selection;
    selection.coordinates_only = selection.keep_flagged_rows = 1;
    MSI_TRY(msi_ms_reader_open(&r->reader, o->ms_paths, o->n_ms, &selection));
    MSI_TRY(msi_predict_scan_read(&r->scan, r->reader, r->models));
    return msi_model_bands_make(&r->bands, r->models, r->reader, o->model_interpolation);
}

/* ---- Does the model belong to the set? ---- */

static int unlikely(const predict_run *r, const char *what)
{
    if (!r->options->force) return msi_error_set(MSI_EINPUT, "%s; -force predicts all the same", what);
    msi_log_warning("%s", what);
    return MSI_OK;
}

static int check_centre(const predict_run *r)
{
    const msi_model_images *m = r->models;
    const char *frame = msi_ms_reader_observation(r->reader)->dir_frame;
    char text[512];
    if (r->scan.farthest_rad > FARTHEST_RAD) {
        snprintf(text, sizeof text, "%.200s: its centre is %.1f degrees from the phase centre of %.200s", m->names,
                 r->scan.farthest_rad * 180 / MSI_PI, r->options->ms_paths[0]);
        MSI_TRY(unlikely(r, text));
    }
    if (strcmp(frame, m->dir_frame) == 0) return MSI_OK;
    snprintf(text, sizeof text, "%.200s: its coordinates are %s, those of %.200s are %s", m->names, m->dir_frame,
             r->options->ms_paths[0], frame);
    /* These two are within 0.03 asec of each other, and programs write the one for the other. */
    const char *alike[] = {"J2000", "ICRS"};
    int n_alike = 0;
    for (int i = 0; i < 2; i++) n_alike += strcmp(frame, alike[i]) == 0 || strcmp(m->dir_frame, alike[i]) == 0;
    if (n_alike < 2) return unlikely(r, text);
    msi_log_warning("%s; taken for the same", text);
    return MSI_OK;
}

static int check_frequency(const predict_run *r)
{
    const msi_model_images *m = r->models;
    double low = HUGE_VAL, high = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(r->reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r->reader, i);
        const int32_t last = spw->n_chan - 1;
        low = fmin(low, spw->freq_hz[0] - 0.5 * spw->width_hz[0]);
        high = fmax(high, spw->freq_hz[last] + 0.5 * spw->width_hz[last]);
    }
    const msi_model_channel *first = &m->channel[0], *last = &m->channel[m->n_channel - 1];
    if (!(first->freq_hz > 0) || (first->low_hz <= high && last->high_hz >= low)) return MSI_OK;
    char text[512];
    snprintf(text, sizeof text,
             "%.200s: at %.6g to %.6g MHz, but the selected channels of %.200s are at %.6g to %.6g MHz", m->names,
             1e-6 * first->low_hz, 1e-6 * last->high_hz, r->options->ms_paths[0], 1e-6 * low, 1e-6 * high);
    return unlikely(r, text);
}

static int check_model(const predict_run *r)
{
    msi_unmix unmix[MSI_MAX_CORR];
    for (int i = 0; i < msi_ms_reader_n_spw(r->reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r->reader, i);
        MSI_TRY(msi_unmix_make(unmix, r->models->pol, r->models->n_plane, spw->corr, spw->n_corr));
    }
    MSI_TRY(check_centre(r));
    return check_frequency(r);
}

/* ---- Plan ---- */

static int64_t only_band(const predict_run *r)
{
    int64_t only = -1;
    for (int64_t i = 0; i < r->bands.channels.n; i++) {
        if (!r->bands.band[i].n_sample) continue;
        if (only >= 0) return -1;
        only = i;
    }
    return only;
}

static int make_gridders(predict_run *r)
{
    MSI_TRY(msi_alloc(&r->gridder, r->bands.channels.n, sizeof(msi_gridder *), "gridders"));
    for (int64_t i = 0; i < r->bands.channels.n; i++) {
        const msi_model_band *band = &r->bands.band[i];
        if (!band->n_sample) continue;
        msi_gridder_spec spec =
            msi_predict_gridder_spec(r->options, r->models, band->n_image * r->models->n_plane, msi_predict_sundries());
        MSI_TRY(msi_gridder_create(&r->gridder[i], &spec));
    }
    const int64_t only = only_band(r);
    if (only < 0) return MSI_OK;
    const msi_model_band *band = &r->bands.band[only];
    MSI_TRY(msi_model_images_take(r->models, band->first, band->n_image, msi_gridder_precision(r->gridder[only]),
                                  &r->model));
    return msi_gridder_model(r->gridder[only], &r->model);
}

static int make_plan(predict_run *r)
{
    const msi_options *o = r->options;
    MSI_TRY(msi_predict_plan_make(&r->plan, o, r->models, &r->bands, r->reader, &r->scan, r->model.pixel != NULL));
    for (int64_t i = 0; i < r->bands.channels.n; i++)
        if (r->gridder[i]) msi_predict_expect(&r->plan, &r->scan, &r->bands.band[i], r->gridder[i]);
    msi_predict_plan_print(&r->plan);
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
    return MSI_OK;
}

/* ---- Run ---- */

static int prepare(predict_run *r)
{
    MSI_TRY(msi_ms_writer_prepare(r->writer));
    return MSI_OK;
}

static int predict(predict_run *r)
{
    msi_predict_loop loop = {.reader = r->reader,
                             .writer = r->writer,
                             .models = r->models,
                             .bands = &r->bands,
                             .plan = &r->plan,
                             .gridder = r->gridder,
                             .n_row = r->scan.n_row,
                             .no_turn_rad = LOST_TO_CENTRE * r->options->accuracy /
                                            (4 * MSI_PI * fmax(1, r->scan.longest_lambda))};
    int rc = msi_predict_loop_run(&loop);
    r->looped_s = msi_wall_s();
    if (!rc) rc = msi_ms_writer_finish(r->writer);
    if (rc) return rc;
    const double end_s = msi_wall_s();
    for (int i = 0; i < r->options->n_ms; i++) msi_log_info("wrote %s of %s", r->column, r->options->ms_paths[i]);
    msi_log_info("predicted %lld rows, %lld samples in %.2f s, %.2f million a second", (long long)loop.done.n_row,
                 (long long)loop.done.n_sample, end_s - r->start_s,
                 1e-6 * (double)loop.done.n_sample / (end_s - r->start_s));
    msi_log_info("time: models %.2f s, open and scan %.2f s, prepare %.2f s; read %.2f s, degrid %.2f s, correlations "
                 "and waiting for the disk %.2f s; finish %.2f s",
                 r->models_s - r->start_s, r->planned_s - r->models_s, r->prepared_s - r->planned_s, loop.done.read_s,
                 loop.done.degrid_s, loop.done.write_s, end_s - r->looped_s);
    return MSI_OK;
}

/* The stages. */
static int run_stages(predict_run *r)
{
    r->start_s = msi_wall_s();
    MSI_TRY(msi_model_images_find(&r->models, r->options->name, r->options->force));
    r->models_s = msi_wall_s();
    MSI_TRY(start_writer(r));
    MSI_TRY(open_reader(r));
    MSI_TRY(check_model(r));
    MSI_TRY(make_gridders(r));
    msi_backend_await();
    MSI_TRY(make_plan(r));
    r->planned_s = msi_wall_s();
    if (r->options->dry_run) return MSI_OK;
    MSI_TRY(prepare(r));
    r->prepared_s = msi_wall_s();
    return predict(r);
}

/* The line that says why a run failed says too what it leaves in the sets. */
static int tell_incomplete(const predict_run *r, int rc)
{
    msi_ms_writer_stop(r->writer);
    for (int i = 0; i < r->options->n_ms; i++)
        if (msi_ms_writer_left_mark(r->writer, i))
            return msi_error_append(rc, "; %s of %s is incomplete, and marked so: run predict again", r->column,
                                    r->options->ms_paths[i]);
    return rc;
}

int msi_run_predict(const msi_options *options, void (*forked)(void))
{
    predict_run r = {.options = options, .forked = forked};
    int rc = run_stages(&r);
    if (rc && r.writer) rc = tell_incomplete(&r, rc);
    for (int64_t i = 0; r.gridder && i < r.bands.channels.n; i++) msi_gridder_free(r.gridder[i]);
    msi_free(r.gridder);
    msi_image_free(&r.model);
    msi_model_bands_free(&r.bands);
    msi_ms_reader_free(r.reader);
    msi_ms_writer_free(r.writer);
    msi_model_images_free(r.models);
    msi_backend_settle();
    return rc;
}
