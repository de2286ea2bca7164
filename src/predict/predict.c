/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A prediction (msi_run_predict):
 *  1. choose the sets of this rank, find the models, fork the reader and writer processes (start_run);
 *  2. start MPI, scan the coordinates, check the models, plan (plan_sets); no set is changed before this succeeds;
 *  3. prepare the columns; predict in batches (predict_loop.c); complete the columns (run_stages).
 */
#include "src/predict/predict.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_reader.h"
#include "io/ms/ms_writer.h"
#include "io/ms/reader_pool.h"
#include "kernels/gridder.h"
#include "src/facets/facet_setup.h"
#include "src/options/gridder_choice.h"
#include "src/options/options.h"
#include "src/predict/model_bands.h"
#include "src/predict/predict_loop.h"
#include "src/predict/predict_plan.h"
#include "src/run/gpu_share.h"
#include "src/run/open_sets.h"
#include "src/run/ranks.h"
#include "src/sky/stokes.h"
#include "src/sky/model_images.h"
#include "src/sky/phase_shift.h"

/* The state of a prediction. */
typedef struct prediction {
    const msi_predict_request *request; /* request of this rank: points to `own` */
    msi_ranks *ranks;                   /* each set is written by one of its ranks */
    const msi_predict_request *all;     /* request of the run */
    msi_predict_request own;            /* request with the sets of this rank, possibly none */
    const char **paths;                 /* [own.n_ms] owned */
    char input[64];                     /* the column that is added to or subtracted from; "": none */
    msi_model_images *models;
    double start_s, models_s; /* times of the start and after the models were found */
    msi_gpu_share gpus;
    msi_reader_pool *reader_pool; /* the reader process */
    msi_ms_writer *writer;        /* NULL: this rank has no set */
    int is_stopped;               /* the writer was stopped after a failure */
    msi_ms_reader *reader;
    msi_predict_scan scan;
    msi_model_bands bands;
    msi_predict_plan plan;
    msi_predict_parts parts;
    msi_image model;        /* model of a single part; empty if there are several parts */
    msi_facet_gains *gains; /* NULL: predict without facets */
    msi_facets facets;
    msi_facet_work work;
    msi_pb_array *facet_pb; /* beams of the facets; NULL: none */
} prediction;

/* ---- Check that the model belongs to the sets ---- */

/* A model whose centre is this far from the phase centre was probably not made from the set. 1e-6 allows for
 * rounding. */
static const double TOO_FAR_RAD = 30 * MSI_PI / 180 - 1e-6;

/* Refuse an unlikely model; with -force, warn. */
static int refuse_model(const prediction *r, const char *reason)
{
    if (!r->request->force) return msi_error_set(MSI_EINPUT, "%s; use -force to predict anyway", reason);
    msi_log_warning("%s", reason);
    return MSI_OK;
}

static int check_centre(const prediction *r)
{
    const msi_model_images *m = r->models;
    const char *frame = msi_ms_reader_observation(r->reader)->dir_frame;
    char text[512];
    MSI_TRY(msi_ms_reader_check_frames(r->reader));
    if (r->scan.farthest_rad > TOO_FAR_RAD) {
        snprintf(text, sizeof text, "%.200s: its centre is %.1f degrees from the phase centre of %.200s", m->names,
                 r->scan.farthest_rad * 180 / MSI_PI, r->request->ms_paths[0]);
        MSI_TRY(refuse_model(r, text));
    }
    if (strcmp(frame, m->dir_frame) == 0) return MSI_OK;
    snprintf(text, sizeof text, "%.200s: its coordinates are %s, those of %.200s are %s", m->names, m->dir_frame,
             r->request->ms_paths[0], frame);
    /* These two differ by less than 0.03 arcsec, and programs often confuse them. */
    const char *alike[] = {"J2000", "ICRS"};
    int n_alike = 0;
    for (int i = 0; i < 2; i++) n_alike += strcmp(frame, alike[i]) == 0 || strcmp(m->dir_frame, alike[i]) == 0;
    if (n_alike < 2) return refuse_model(r, text);
    msi_log_warning("%s; they are treated as the same", text);
    return MSI_OK;
}

static int check_frequency(const prediction *r)
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
             1e-6 * first->low_hz, 1e-6 * last->high_hz, r->request->ms_paths[0], 1e-6 * low, 1e-6 * high);
    return refuse_model(r, text);
}

/* List polarisations. */
static void list_pols(char text[64], const msi_pol *pol, int n)
{
    *text = 0;
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(text);
        snprintf(text + length, 64 - length, "%s%s", length ? " " : "", msi_pol_name(pol[i]));
    }
}

/* List the polarisations of the planes of a model, each cross hand once. Given: is_reached  list only planes for which
 * it is 0; NULL: all */
static void list_planes(char text[64], const msi_model_images *m, const int *is_reached)
{
    msi_pol pol[MSI_MODEL_MAX_PLANES];
    int n = 0;
    for (int i = 0; i < m->n_plane; i++)
        if (!m->plane[i].imaginary && (!is_reached || !is_reached[i])) pol[n++] = m->plane[i].pol;
    list_pols(text, pol, n);
}

/* Check that each polarisation of the model contributes to a correlation of the sets. Q and U, for example, do not
 * contribute to RR and LL. */
static int check_correlations(const prediction *r)
{
    const msi_model_images *m = r->models;
    const msi_ms_spw *empty = NULL;
    int is_reached[MSI_MODEL_MAX_PLANES] = {0}, n_filled = 0, n_reached = 0;
    char text[700], pols[64], corr[64];
    for (int i = 0; i < msi_ms_reader_n_spw(r->reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r->reader, i);
        msi_unmix unmix[MSI_MAX_CORR];
        int n_term = 0;
        MSI_TRY(msi_unmix_make(unmix, m->plane, m->n_plane, spw->corr, spw->n_corr));
        for (int k = 0; k < spw->n_corr; k++) {
            n_term += unmix[k].n;
            for (int t = 0; t < unmix[k].n; t++) is_reached[unmix[k].plane[t]] = 1;
        }
        n_filled += n_term > 0;
        if (n_term == 0) empty = spw;
    }
    if (empty) {
        list_planes(pols, m, NULL);
        list_pols(corr, empty->corr, empty->n_corr);
        snprintf(
            text, sizeof text,
            "%.200s: %s does not contribute to the correlations %s of spectral window %d of %.200s, which would be "
            "predicted as zero",
            m->names, pols, corr, empty->spw_id, r->request->ms_paths[empty->set]);
        if (!n_filled) return refuse_model(r, text);
        msi_log_warning("%s", text);
    }
    for (int p = 0; p < m->n_plane; p++) n_reached += is_reached[p];
    if (n_reached == m->n_plane) return MSI_OK;
    list_planes(pols, m, is_reached);
    msi_log_warning("%.200s: the set has no correlation for %s, which is not predicted", m->names, pols);
    return MSI_OK;
}

/*
 * Refuse a model that does not contribute to the correlations of the sets, or whose centre, frame or frequencies
 * suggest that it was not made from them. With -force the latter is a warning.
 * Given:   run  reader opened and scanned
 * Returns: 0, MSI_EINPUT
 */
static int check_model(const prediction *r)
{
    MSI_TRY(check_correlations(r));
    MSI_TRY(check_centre(r));
    return check_frequency(r);
}

/* ---- The log: lines with many numbers ---- */

/* Times at which the stages of a prediction ended, by msi_wall_s. */
typedef struct msi_predict_times {
    double start_s, models_s, planned_s, prepared_s, looped_s, finished_s;
} msi_predict_times;

/* Log the subject of the prediction: sets, fields, columns, band, times. */
static void report_subject(const prediction *r)
{
    static const char *const ops[] = {[MSI_MS_WRITE_REPLACE] = "predicted into",
                                      [MSI_MS_WRITE_ADD] = "plus the model into",
                                      [MSI_MS_WRITE_SUBTRACT] = "minus the model into"};
    const msi_predict_request *q = r->request;
    char data[256];
    if (q->op == MSI_MS_WRITE_REPLACE)
        snprintf(data, sizeof data, "%s %.64s", ops[q->op], r->request->column);
    else
        snprintf(data, sizeof data, "%.64s %s %.64s", msi_ms_reader_data_column(r->reader), ops[q->op],
                 r->request->column);
    msi_set_report(r->reader, q->ms_paths, q->n_ms, NULL, data);
}

static void report_memory(const prediction *of)
{
    const msi_predict_plan *p = &of->plan;
    const msi_gridder_report *r = &p->gridder;
    const int64_t unplanned = msi_predict_unplanned_bytes(r->backend, of->reader);
    msi_gridder_choice_log(of->request->options, r);
    msi_log_info(
        "memory: visibilities %.3f GB at a time, grids %.3f GB, models %.3f GB, libraries and buffers %.3f GB; "
        "in all %.3f GB, limit %.3f GB; %lld pass%s",
        1e-9 * (double)p->store_bytes, 1e-9 * (double)p->grid_bytes, 1e-9 * (double)p->image_bytes,
        1e-9 * (double)unplanned, 1e-9 * (double)(p->store_bytes + p->grid_bytes + p->image_bytes + unplanned),
        1e-9 * (double)msi_memory_limit(), (long long)p->n_batch, p->n_batch == 1 ? "" : "es");
    if (r->backend == MSI_BACKEND_CUDA) msi_log_info("device memory: %.3f GB", 1e-9 * (double)p->device_bytes);
}

/* Log the plan: memory, disk, the gridder, the samples; in a dry run also the estimated time. */
static void report_plan(const prediction *r)
{
    const msi_predict_request *q = r->request;
    report_memory(r);
    for (int i = 0; i < q->n_ms; i++) {
        const int64_t bytes = msi_ms_writer_disk_bytes(r->writer, i);
        if (bytes)
            msi_log_info("disk: %.3f GB for column %s of %s", 1e-9 * (double)bytes, r->request->column, q->ms_paths[i]);
        else
            msi_log_info("disk: column %s of %s is written in place", r->request->column, q->ms_paths[i]);
    }
    msi_log_info("to predict: %lld row%s, %lld sample%s, |w| %.1f to %.1f wavelengths%s", (long long)r->scan.n_row,
                 msi_plural(r->scan.n_row), (long long)r->scan.n_sample, msi_plural(r->scan.n_sample),
                 r->scan.w_min_lambda, r->scan.w_max_lambda,
                 r->scan.n_dropped ? "; rows without a finite UVW are left unchanged" : "");
    if (q->dry_run)
        msi_log_info("time: about %.0f s to read, %.0f s to degrid, %.0f s to write", ceil(r->plan.read_s),
                     ceil(r->plan.degrid_s), ceil(r->plan.write_s));
}

/* Log the rows and columns written, and the time of each stage. */
static void report_done(const prediction *r, const msi_predict_loop *loop, const msi_predict_times *t)
{
    const double all_s = t->finished_s - t->start_s;
    msi_log_info("predicted %lld row%s, %lld sample%s in %.2f s, %.2f million a second", (long long)loop->done.n_row,
                 msi_plural(loop->done.n_row), (long long)loop->done.n_sample, msi_plural(loop->done.n_sample), all_s,
                 1e-6 * (double)loop->done.n_sample / all_s);
    msi_log_info("time: models %.2f s, open and scan %.2f s, prepare %.2f s; read %.2f s, degrid %.2f s, correlations "
                 "and writing %.2f s; finish %.2f s",
                 t->models_s - t->start_s, t->planned_s - t->models_s, t->prepared_s - t->planned_s, loop->done.read_s,
                 loop->done.degrid_s, loop->done.write_s, t->finished_s - t->looped_s);
    char sets[4200];
    msi_set_report_names(sets, sizeof sets, r->all->ms_paths, r->all->n_ms);
    msi_log_info("wrote %s of %s in %.2f s", r->request->column, sets, msi_wall_s());
}

/* ---- Open ---- */

/* Find the column that -predict-op reads: -data-column, or its default. */
static int find_input(const prediction *r, char *column, size_t size)
{
    const msi_predict_request *q = r->request;
    const msi_ms_opening opening = {.interval_begin = q->selection.interval_begin,
                                    .interval_end = q->selection.interval_end};
    msi_ms_reader *reader;
    MSI_TRY(msi_reader_pool_open(r->reader_pool, &opening, &reader));
    snprintf(column, size, "%s", msi_ms_reader_data_column(reader));
    msi_ms_reader_free(reader);
    return MSI_OK;
}

/* Check the marks of sets that an earlier run left incomplete. They must be written again with the same selection. */
static int check_marks(const prediction *r)
{
    const msi_predict_request *q = r->request;
    char selection[MSI_MS_MAX_SELECTION];
    msi_options_selection_words(&q->selection, selection, sizeof selection);
    for (int i = 0; i < q->n_ms; i++) {
        const char *text, *earlier;
        if (!msi_ms_writer_marked(r->writer, i, &text, &earlier)) continue;
        if (strcmp(earlier, selection) != 0 && !q->force)
            return msi_error_set(MSI_EINPUT,
                                 "%s: an earlier run was stopped while it wrote (%s); complete it first, with its "
                                 "selection (%s), or use "
                                 "-force, which leaves %s incomplete outside the present selection",
                                 q->ms_paths[i], text, earlier, r->request->column);
        msi_log_warning("%s: an earlier run was stopped while it wrote (%s); this run writes it again", q->ms_paths[i],
                        text);
    }
    return MSI_OK;
}

/* Choose the sets of this rank. The writer is forked before MPI starts, so the number of the rank comes from the
 * environment. */
static int assign_sets(prediction *r)
{
    const msi_predict_request *all = r->all;
    int64_t *bytes;
    int *rank = NULL, a, b;
    r->own = *all;
    r->request = &r->own;
    /* A column that is replaced is not read, so it does not matter that only some sets have CORRECTED_DATA. */
    if (all->op == MSI_MS_WRITE_REPLACE && !all->selection.data_column) r->own.selection.data_column = "DATA";
    if (all->beam || all->gains || msi_options_has_gains(all->options)) r->own.selection.describe_rows = 1;
    if (r->ranks->env_size == 1) return MSI_OK;
    if (msi_ms_paths_same(all->ms_paths, all->n_ms, &a, &b))
        return msi_error_set(MSI_EARGUMENT, "%s and %s are the same Measurement Set", all->ms_paths[a],
                             all->ms_paths[b]);
    MSI_TRY(msi_alloc(&bytes, all->n_ms, sizeof *bytes, "sets"));
    for (int i = 0; i < all->n_ms; i++) bytes[i] = msi_ms_paths_bytes(&all->ms_paths[i], 1);
    int rc = msi_alloc(&rank, all->n_ms, sizeof *rank, "sets");
    if (!rc) rc = msi_alloc(&r->paths, all->n_ms, sizeof *r->paths, "sets");
    if (!rc) rc = msi_ms_share_out(bytes, all->n_ms, r->ranks->env_size, rank);
    r->own.n_ms = 0;
    r->own.ms_paths = r->paths;
    for (int i = 0; !rc && i < all->n_ms; i++)
        if (rank[i] == r->ranks->env_rank) r->paths[r->own.n_ms++] = all->ms_paths[i];
    msi_free(bytes);
    msi_free(rank);
    return rc;
}

/* Fork the reader and writer processes. */
static int start_processes(prediction *r)
{
    const msi_predict_request *q = r->request;
    char selection[MSI_MS_MAX_SELECTION], *description;
    const int combines = q->op != MSI_MS_WRITE_REPLACE;
    MSI_TRY(msi_reader_pool_start(&r->reader_pool, q->ms_paths, q->n_ms, &q->selection, 1, NULL));
    if (combines) MSI_TRY(find_input(r, r->input, sizeof r->input));
    if (strcmp(r->input, q->column) == 0)
        return msi_error_set(MSI_EUSAGE,
                             "-output-column %s: this column is also read; choose another one, or set -data-column",
                             q->column);
    const size_t size = strlen(r->models->names) + 64;
    MSI_TRY(msi_alloc(&description, (int64_t)size, 1, "description of the model"));
    snprintf(description, size, "%s, hash %016" PRIx64, r->models->names, r->models->hash);
    msi_options_selection_words(&q->selection, selection, sizeof selection);
    const msi_ms_write_spec spec = {q->column, q->op, combines ? r->input : NULL, description, selection, q->drop_old};
    const int rc = msi_ms_writer_start(&r->writer, q->ms_paths, q->n_ms, &spec);
    msi_free(description);
    return rc;
}

/* Make the facets of the models, and find their gains. */
static int make_facets(prediction *r)
{
    const msi_options *o = r->request->options;
    const msi_facet_options *f = &o->facets;
    const msi_model_images *m = r->models;
    if (f->beam) {
        const msi_pb_choice choice = {o->pb.model ? o->pb.model : "auto", o->pb.is_differential, o->pb.by_table, 0};
        double low = HUGE_VAL, high = 0;
        for (int i = 0; i < msi_ms_reader_n_spw(r->reader); i++) {
            const msi_ms_spw *s = msi_ms_reader_spw(r->reader, i);
            low = fmin(low, s->freq_hz[0]);
            high = fmax(high, s->freq_hz[s->n_chan - 1]);
        }
        MSI_TRY(msi_pb_array_make(&r->facet_pb, &choice, r->reader, low, high, m->dir_frame));
    }
    const msi_facet_subject subject = {
        .target = {.geometry = m->geometry, .ra_rad = m->ra_rad, .dec_rad = m->dec_rad, .frame = m->dir_frame},
        .reader = r->reader,
        .pb = r->facet_pb,
        .planes = m->plane,
        .n_plane = m->n_plane,
        .accuracy = o->accuracy_follows ? 1e-4 : o->accuracy};
    MSI_TRY(msi_facet_setup_make(f, &subject, r->gains, &r->facets, &r->work));
    r->work.n_term = m->is_taylor ? (int)m->n_channel : 0;
    r->work.reference_hz = m->channel[0].freq_hz;
    /* The samples of each part have the planes that the gains need. */
    r->parts.n_out = r->work.planes.n_stored;
    for (int i = 0; i < r->parts.n_out; i++) r->parts.out[i] = r->work.planes.stored[i];
    for (int64_t i = 0; i < r->parts.n; i++) r->parts.part[i].n_plane = r->parts.n_out;
    return MSI_OK;
}

static int open_reader(prediction *r)
{
    const msi_predict_request *q = r->request;
    const msi_ms_opening opening = {.interval_begin = q->selection.interval_begin,
                                    .interval_end = q->selection.interval_end,
                                    .coordinates_only = 1,
                                    .keep_flagged_rows = 1};
    msi_progress_begin("opening");
    MSI_TRY(msi_reader_pool_open(r->reader_pool, &opening, &r->reader));
    msi_progress_end();
    MSI_TRY(msi_predict_scan_read(&r->scan, r->reader, r->models));
    return msi_model_bands_make(&r->bands, r->models, r->reader, q->interpolation);
}

/* ---- Plan ---- */

static int make_gridders(prediction *r)
{
    for (int64_t i = 0; i < r->parts.n; i++) {
        msi_gridder_spec spec =
            msi_predict_gridder_spec(&r->request->gridder, r->models, r->parts.part[i].n_plane,
                                     msi_predict_unplanned_bytes(r->request->gridder.backend, r->reader));
        spec.device = r->gpus.device[0];
        spec.longest_lambda = r->scan.longest_lambda;
        if (r->gains) {
            spec.tagged = 1;
            r->work.spec = spec;
        }
        MSI_TRY(msi_gridder_create(&r->parts.part[i].gridder, &spec));
    }
    if (r->parts.n > 1) return MSI_OK;
    const msi_predict_part *only = &r->parts.part[0];
    MSI_TRY(
        msi_predict_parts_load(&r->parts, only, r->models, &r->bands, msi_gridder_precision(only->gridder), &r->model));
    return r->gains ? MSI_OK : msi_gridder_model(only->gridder, &r->model);
}

/* Distribute the gridders over the GPUs, and log the plan. */
static int share_gpus(prediction *r)
{
    const msi_gpu_work work = {.gridder = &r->plan.gridder, .n_channel = 1, .one_gpu_s = r->plan.degrid_s};
    msi_gpu_share_plan(&r->gpus, r->all->options, &work);
    r->plan.degrid_s = msi_gpu_share_s(&r->gpus, &work);
    report_plan(r);
    msi_gpu_share_report(&r->gpus, &work);
    const int shares = r->plan.gridder.backend == MSI_BACKEND_CUDA && r->gpus.n > 1;
    for (int64_t i = 0; shares && i < r->parts.n; i++)
        MSI_TRY(msi_gridder_set_workers(r->parts.part[i].gridder, r->gpus.device, r->gpus.n));
    return MSI_OK;
}

/* Bind gridders to the CPU. */
static int use_cpu(prediction *r)
{
    r->own.gridder.backend = r->work.spec.backend = MSI_BACKEND_CPU;
    for (int64_t i = 0; i < r->parts.n; i++) {
        msi_gridder_spec spec = *msi_gridder_spec_of(r->parts.part[i].gridder);
        spec.backend = MSI_BACKEND_CPU;
        MSI_TRY(msi_gridder_bind(r->parts.part[i].gridder, &spec));
    }
    return MSI_OK;
}

static int make_plan(prediction *r)
{
    const msi_predict_need need = {.gridder = &r->request->gridder,
                                   .models = r->models,
                                   .bands = &r->bands,
                                   .parts = &r->parts,
                                   .reader = r->reader,
                                   .scan = &r->scan,
                                   .model_in_memory = r->model.pixel != NULL,
                                   .is_whole = r->gains || r->request->beam};
    int fits = 1;
    char what[96];
    const msi_image_geometry *g = &r->models->geometry;
    snprintf(what, sizeof what, "models of %lld x %lld", (long long)g->nx, (long long)g->ny);
    MSI_TRY(msi_predict_plan_make(&r->plan, &need));
    /* Facets have gridders of other sizes. */
    if (!r->gains)
        MSI_TRY(msi_gpu_share_check_memory(&r->gpus, r->all->options, &r->plan.gridder,
                                           r->plan.gridder.least_device_bytes, what, &fits));
    if (!fits) {
        MSI_TRY(use_cpu(r));
        MSI_TRY(msi_predict_plan_make(&r->plan, &need));
    }
    MSI_TRY(share_gpus(r));
    for (int64_t i = 0; i < r->parts.n; i++) {
        const msi_predict_part *part = &r->parts.part[i];
        msi_gridder_spec spec = *msi_gridder_spec_of(part->gridder);
        spec.n_tile = r->plan.gridder.n_tile;
        if (spec.n_tile > 1) MSI_TRY(msi_gridder_bind(part->gridder, &spec));
        msi_predict_expect(&r->plan, &r->scan, &r->bands.band[part->band], part->gridder);
    }
    return MSI_OK;
}

/* ---- Run ---- */

/* Check that the ranks are those to which sets were assigned, and that all read the same column. */
static int check_team(const prediction *r)
{
    const msi_ranks *t = r->ranks;
    char *all, *first = NULL, *other = NULL;
    if (t->size == 1 && t->env_size == 1) return MSI_OK;
    MSI_TRY(msi_ranks_check_environment(r->ranks));
    MSI_TRY(msi_ranks_same(r->ranks, msi_options_command_hash(r->all->options), "was given another command line"));
    MSI_TRY(msi_ranks_gather(r->ranks, r->input, sizeof r->input, (void **)&all));
    for (int k = 0; k < t->size; k++) {
        char *input = all + (size_t)k * sizeof r->input;
        if (*input && !first) first = input;
        if (*input && strcmp(input, first) != 0) other = input;
    }
    const int rc = other
                       ? msi_error_set(MSI_EINPUT, "some sets would be read from %s, others from %s; set -data-column",
                                       first, other)
                       : MSI_OK;
    msi_free(all);
    return msi_ranks_agree(r->ranks, rc);
}

/* Open, check and plan the sets of this rank. Nothing is changed yet. */
static int plan_sets(prediction *r)
{
    MSI_TRY(check_marks(r));
    /* A GPU context does not survive a fork, so GPUs are opened after the last fork. */
    msi_gpu_share_start(&r->gpus, r->all->options, r->ranks);
    MSI_TRY(open_reader(r));
    report_subject(r);
    MSI_TRY(check_model(r));
    const msi_pb_options *pb = &r->all->options->pb;
    const msi_pb_choice choice = {r->request->beam, pb->is_differential, pb->by_table, 0};
    MSI_TRY(msi_predict_parts_make(&r->parts, choice.word ? &choice : NULL, r->models, r->reader, r->scan.field,
                                   r->scan.n_field, r->request->gridder.accuracy, &r->bands));
    if (r->gains) MSI_TRY(make_facets(r));
    MSI_TRY(msi_gpu_share_check(&r->gpus, r->all->options));
    MSI_TRY(make_gridders(r));
    msi_backend_await(r->gpus.device, r->gpus.n);
    return make_plan(r);
}

static int predict_sets(prediction *r, msi_predict_loop *loop)
{
    const double longest_lambda = fmax(1, r->scan.longest_lambda);
    *loop = (msi_predict_loop){.reader = r->reader,
                               .writer = r->writer,
                               .models = r->models,
                               .bands = &r->bands,
                               .parts = &r->parts,
                               .plan = &r->plan,
                               .facets = r->gains ? &r->work : NULL,
                               .gains = r->gains,
                               .model = &r->model,
                               .n_row = r->scan.n_row,
                               .no_turn_rad =
                                   MSI_LOST_TO_CENTRE * r->request->gridder.accuracy / (4 * MSI_PI * longest_lambda)};
    return msi_predict_loop_run(loop);
}

/* Append to the error line the name of the set that the run leaves incomplete. */
static int append_incomplete(prediction *r, int rc)
{
    if (!rc || !r->writer || r->is_stopped) return rc;
    r->is_stopped = 1;
    msi_ms_writer_stop(r->writer);
    for (int i = 0; i < r->request->n_ms; i++)
        if (msi_ms_writer_left_mark(r->writer, i))
            return msi_error_append(rc, "; %s of %s is incomplete and marked as such; run predict again",
                                    r->request->column, r->request->ms_paths[i]);
    return rc;
}

/* Share a failure with all ranks. The line of the rank that failed names the set that it leaves incomplete; a rank that
 * was interrupted appends the name later. */
static int agree_on_writing(prediction *r, int rc)
{
    return msi_ranks_agree(r->ranks, rc == MSI_EINTERRUPTED ? rc : append_incomplete(r, rc));
}

/* Write the remaining correlations, and put the columns into the sets. */
static int finish_columns(prediction *r, msi_predict_loop *loop)
{
    int64_t count[] = {0, 0};
    msi_progress_begin("completing");
    if (r->writer) {
        MSI_TRY(msi_ms_writer_finish(r->writer));
        count[0] = loop->done.n_row;
        count[1] = loop->done.n_sample;
    }
    msi_progress_end();
    MSI_TRY(msi_ranks_count(r->ranks, count, 2));
    r->ranks->is_done = 1;
    loop->done.n_row = count[0];
    loop->done.n_sample = count[1];
    return MSI_OK;
}

/* Run the stages. All ranks finish a stage before the next one begins: sets are changed only after all sets were
 * checked, and completed only after all were written. */
static int run_stages(prediction *r)
{
    msi_predict_times t = {.start_s = r->start_s, .models_s = r->models_s};
    msi_predict_loop loop = {0};
    MSI_TRY(check_team(r));
    MSI_TRY(msi_ranks_agree(r->ranks, r->writer ? plan_sets(r) : MSI_OK));
    t.planned_s = msi_wall_s();
    if (r->request->dry_run) return MSI_OK;
    MSI_TRY(agree_on_writing(r, r->writer ? msi_ms_writer_prepare(r->writer) : MSI_OK));
    t.prepared_s = msi_wall_s();
    MSI_TRY(agree_on_writing(r, r->writer ? predict_sets(r, &loop) : MSI_OK));
    t.looped_s = msi_wall_s();
    MSI_TRY(finish_columns(r, &loop));
    t.finished_s = msi_wall_s();
    report_done(r, &loop, &t);
    return MSI_OK;
}

/* Select the files of solutions that belong to this rank's sets. Returned: *own, to be freed; NULL: the files are for
 * all sets */
static int own_files(const prediction *r, const char *files, char **own)
{
    const msi_predict_request *all = r->all, *q = r->request;
    *own = NULL;
    if (!files || !strchr(files, ',') || q->n_ms == all->n_ms) return MSI_OK;
    MSI_TRY(msi_alloc(own, (int64_t)strlen(files) + 2, 1, "names of files"));
    const char *from = files;
    for (int i = 0, k = 0; i < all->n_ms && *from; i++) {
        const size_t n = strcspn(from, ",");
        if (k < q->n_ms && q->ms_paths[k] == all->ms_paths[i]) {
            if (k++) strcat(*own, ",");
            strncat(*own, from, n);
        }
        from += from[n] ? n + 1 : n;
    }
    return MSI_OK;
}

/* Read the solutions of facets, unless they are open. Without solutions, facets give the same result as the whole
 * image. */
static int open_gains(prediction *r)
{
    msi_facet_options o = r->all->options->facets;
    char *files;
    r->gains = r->all->gains;
    if (r->gains || !r->own.n_ms) return MSI_OK;
    MSI_TRY(own_files(r, o.files, &files));
    if (files) o.files = files;
    const int rc = msi_facet_gains_open(&r->gains, &o, r->own.n_ms);
    msi_free(files);
    return rc;
}

static int start_run(prediction *r)
{
    const msi_predict_request *all = r->all;
    r->start_s = msi_wall_s();
    MSI_TRY(
        msi_open_sets_have_columns(all->options, "it has no columns to write to; predict into its Measurement Set"));
    MSI_TRY(assign_sets(r));
    MSI_TRY(open_gains(r));
    if (r->ranks->env_size > all->n_ms)
        msi_log_info("ranks: %d of %d have nothing to do, because each set has one writer and the number of sets is %d",
                     r->ranks->env_size - all->n_ms, r->ranks->env_size, all->n_ms);
    if (r->own.n_ms < all->n_ms)
        msi_log_info("ranks: the first rank writes %d of %d sets; only these are in this log", r->own.n_ms, all->n_ms);
    if (!r->own.n_ms) return MSI_OK;
    MSI_TRY(msi_model_images_find(&r->models, r->request->name, r->request->force, r->gains || r->request->beam));
    MSI_TRY(msi_model_images_check(r->models, &r->request->wanted));
    r->models_s = msi_wall_s();
    return start_processes(r);
}

int msi_run_predict_request(const msi_predict_request *request, msi_ranks *ranks, void (*forked)(void))
{
    msi_ranks alone = MSI_RANKS_ALONE;
    prediction r = {.all = request, .ranks = ranks ? ranks : &alone};
    int rc = start_run(&r);
    msi_ranks_join(r.ranks);
    if (forked) forked();
    if (!rc) rc = run_stages(&r);
    rc = append_incomplete(&r, rc);
    rc = msi_ranks_agree(r.ranks, rc);
    msi_predict_parts_free(&r.parts);
    msi_predict_scan_free(&r.scan);
    msi_image_free(&r.model);
    msi_model_bands_free(&r.bands);
    msi_ms_reader_free(r.reader);
    msi_reader_pool_free(r.reader_pool);
    msi_ms_writer_free(r.writer);
    msi_model_images_free(r.models);
    msi_facets_free(&r.facets);
    msi_pb_array_free(r.facet_pb);
    if (r.gains != request->gains) msi_facet_gains_free(r.gains);
    msi_free(r.paths);
    msi_backend_await_all();
    return rc;
}

int msi_run_predict(const msi_options *o, msi_ranks *ranks, void (*forked)(void))
{
    msi_predict_request q = {.ms_paths = o->ms_paths,
                             .n_ms = o->n_ms,
                             .selection = o->selection,
                             .name = o->name,
                             .wanted = {.nx = o->geometry.nx,
                                        .ny = o->geometry.ny,
                                        .cell_rad = o->geometry.cell_x_rad,
                                        .n_channel = o->channels_out,
                                        .n_pol = o->pol_given ? o->n_pol : 0,
                                        .pol = o->pol},
                             .column = o->predict_op == MSI_MS_WRITE_REPLACE ? o->model_column : o->output_column,
                             .op = o->predict_op,
                             .interpolation = o->model_interpolation,
                             .drop_old = o->drop_old,
                             .force = o->force,
                             .dry_run = o->dry_run,
                             .beam =
                                 o->pb.model && strcmp(o->pb.model, "off") != 0 && !o->facets.beam ? o->pb.model : NULL,
                             .gridder = msi_gridder_choice_spec(o),
                             .options = o};
    q.gridder.temp_dir = o->temp_dir;
    return msi_run_predict_request(&q, ranks, forked);
}
