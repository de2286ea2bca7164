/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/predict/predict_plan.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/ms/ms_writer.h"
#include "src/run/open_sets.h"
#include "src/sky/phase_shift.h"

/* Largest and smallest number of bytes of correlations that are sent to the writer at a time. */
enum { LARGEST_SLOT = 32 << 20, SMALLEST_SLOT = 1 << 20 };
_Static_assert(LARGEST_SLOT <= MSI_MS_WRITER_BLOCK_BYTES, "a slot fits in a block of the writer");

/* Number of samples of a batch if the w-planes of the model stay in memory. It is large enough to keep a GPU busy, and
 * small enough for degridding to overlap with writing. */
static const int64_t FEW_SAMPLES = 4 << 20;

/* Smallest number of samples of a batch; smaller batches do not save memory. */
static const int64_t LEAST_SAMPLES = 1 << 12;

/* Bytes of a row in addition to the store: its row number, and its uvw for the phase centre of its field. */
enum { ROW_BYTES = 8 + 24 };

/* Add the field of a block and the times of its rows to the scan. */
static int scan_field(msi_predict_scan *s, const msi_ms_block *b)
{
    int i = 0;
    while (i < s->n_field && (s->field[i].set != b->set || s->field[i].field_id != b->field_id)) i++;
    if (i == s->n_field) {
        MSI_TRY(msi_grow(&s->field, s->n_field, s->n_field + 1, sizeof *s->field, "fields"));
        s->field[s->n_field++] = (msi_predict_field){b->set, b->field_id, b->ra_rad, b->dec_rad, HUGE_VAL, -HUGE_VAL};
    }
    for (int64_t row = 0; row < b->n_row; row++) {
        s->field[i].low_s = fmin(s->field[i].low_s, b->time_s[row]);
        s->field[i].high_s = fmax(s->field[i].high_s, b->time_s[row]);
    }
    return MSI_OK;
}

static void scan_block(msi_predict_scan *s, const msi_ms_block *b, const msi_model_images *m)
{
    msi_phase_shift shift;
    msi_phase_shift_make(&shift, b->ra_rad, b->dec_rad, m->ra_rad, m->dec_rad);
    const double low = b->freq_hz[0] / MSI_SPEED_OF_LIGHT, high = b->freq_hz[b->n_chan - 1] / MSI_SPEED_OF_LIGHT;
    for (int64_t row = 0; row < b->n_row; row++) {
        const double *uvw = b->uvw_m + 3 * row;
        double turned[3];
        msi_phase_shift_rotate(&shift, 1, uvw, turned);
        s->w_min_lambda = fmin(s->w_min_lambda, fabs(turned[2]) * low);
        s->w_max_lambda = fmax(s->w_max_lambda, fabs(turned[2]) * high);
        s->longest_lambda = fmax(s->longest_lambda, sqrt(uvw[0] * uvw[0] + uvw[1] * uvw[1] + uvw[2] * uvw[2]) * high);
    }
    s->n_row += b->n_row;
    s->n_sample += b->n_row * b->n_chan;
    /* n - 1 = -2 sin^2(angle / 2). */
    s->farthest_rad = fmax(s->farthest_rad, 2 * asin(fmin(1, sqrt(fmax(0, -0.5 * shift.direction[2])))));
}

int msi_predict_scan_read(msi_predict_scan *scan, msi_ms_reader *reader, const msi_model_images *models)
{
    *scan = (msi_predict_scan){.w_min_lambda = HUGE_VAL};
    msi_ms_block block = {0};
    msi_progress_begin("scanning");
    for (;;) {
        MSI_TRY(msi_ms_reader_next(reader, &block));
        MSI_TRY(msi_interrupt_check());
        if (!block.n_row) break;
        scan_block(scan, &block, models);
        MSI_TRY(scan_field(scan, &block));
        msi_progress_at(scan->n_row, msi_ms_reader_n_row(reader));
    }
    msi_progress_end();
    scan->n_dropped = msi_ms_reader_dropped(reader)->uvw_not_finite;
    if (!scan->n_row) return msi_error_set(MSI_EINPUT, "nothing to predict: no selected row has a finite UVW");
    msi_ms_reader_rewind(reader);
    return MSI_OK;
}

void msi_predict_scan_free(msi_predict_scan *scan)
{
    msi_free(scan->field);
    *scan = (msi_predict_scan){0};
}

static int64_t slot_bytes(void)
{
    const int64_t part = msi_memory_limit() / 64;
    return part > LARGEST_SLOT ? LARGEST_SLOT : part < SMALLEST_SLOT ? SMALLEST_SLOT : part;
}

/* Return the bytes of all correlations to write. */
static double written_bytes(const msi_ms_reader *reader)
{
    double bytes = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, i);
        bytes += (double)sizeof(msi_c32) * (double)spw->n_row * spw->n_chan * spw->n_corr;
    }
    return bytes;
}

int64_t msi_predict_unplanned_bytes(msi_backend backend, const msi_ms_reader *reader)
{
    const double slots = fmin((double)(MSI_MS_WRITER_SLOTS * slot_bytes()), written_bytes(reader));
    return msi_unplanned_bytes(backend) + (int64_t)slots;
}

/* Models fainter than this are predicted in double precision, because single-precision numbers are denormal below
 * 1e-38. */
static const double FAINT_JY = 1e-28;

msi_gridder_spec msi_predict_gridder_spec(const msi_gridder_spec *common, const msi_model_images *models, int n_plane,
                                          int64_t reserved_bytes)
{
    const int64_t left = msi_memory_limit() - reserved_bytes;
    msi_gridder_spec spec = *common;
    spec.geometry = models->geometry;
    spec.n_plane = n_plane;
    spec.predict = 1;
    spec.memory_bytes = left > 1 ? left : 1;
    if (spec.precision == MSI_PRECISION_AUTO && models->least_peak_jy > 0 && models->least_peak_jy < FAINT_JY)
        spec.precision = MSI_PRECISION_FP64;
    return spec;
}

/* The input for the size of batches. */
typedef struct budget {
    const msi_predict_scan *scan;
    const msi_model_bands *bands;
    const msi_predict_part *largest; /* the part with the largest grids */
    double sample_bytes;             /* bytes of a sample in the stores, averaged over the parts */
    int64_t left;                    /* memory for stores and grids */
} budget;

static void find_largest(msi_predict_plan *plan, budget *b, const msi_predict_parts *parts)
{
    double planes = 0, selected = 0;
    for (int64_t i = 0; i < b->bands->channels.n; i++) selected += (double)b->bands->band[i].n_sample;
    for (int64_t i = 0; i < parts->n; i++) {
        const msi_predict_part *p = &parts->part[i];
        const int64_t n_sample = b->bands->band[p->band].n_sample;
        plan->n_part++;
        /* A sample is in the parts of one pointing only. */
        planes += (double)p->n_plane * (double)n_sample / parts->n_view;
        if (!b->largest || p->n_plane * n_sample > b->largest->n_plane * b->bands->band[b->largest->band].n_sample)
            b->largest = p;
    }
    b->sample_bytes = planes / selected;
}

/* Return the number of samples of a band in one batch. */
static int64_t batch_samples_of(const msi_predict_plan *plan, const msi_predict_scan *scan, const msi_model_band *band)
{
    const double part = fmin(1, (double)plan->batch_sample / (double)scan->n_sample);
    return (int64_t)ceil((double)band->n_sample * part);
}

void msi_predict_expect(const msi_predict_plan *plan, const msi_predict_scan *scan, const msi_model_band *band,
                        msi_gridder *gridder)
{
    /* If there are several parts, each frees its grids after each batch. */
    if (plan->n_part == 1)
        msi_gridder_expect(gridder, batch_samples_of(plan, scan, band), plan->batch_row, scan->w_min_lambda,
                           scan->w_max_lambda);
}

/* Estimate the plan for n_batch batches of equal size. */
static int estimate_plan(msi_predict_plan *plan, msi_gridder *g, const budget *b, int64_t n_batch)
{
    const msi_predict_scan *scan = b->scan;
    msi_gridder_report *r = &plan->gridder;
    plan->n_batch = n_batch;
    plan->batch_sample = n_batch == 1 ? scan->n_sample : scan->n_sample / n_batch + MSI_MS_BLOCK_SAMPLES;
    plan->batch_row = n_batch == 1 ? scan->n_row : scan->n_row / n_batch + MSI_MS_BLOCK_SAMPLES;
    if (plan->batch_sample > scan->n_sample) plan->batch_sample = scan->n_sample;
    if (plan->batch_row > scan->n_row) plan->batch_row = scan->n_row;
    plan->store_bytes = (int64_t)(b->sample_bytes * (double)plan->batch_sample) + plan->batch_row * ROW_BYTES +
                        msi_gridder_store_bytes(g, 0, plan->batch_row);
    msi_predict_expect(plan, scan, &b->bands->band[b->largest->band], g);
    MSI_TRY(msi_gridder_estimate(g, batch_samples_of(plan, scan, &b->bands->band[b->largest->band]), plan->batch_row,
                                 scan->w_min_lambda, scan->w_max_lambda, r));
    plan->grid_bytes = r->grid_bytes;
    plan->device_bytes = r->device_bytes;
    return MSI_OK;
}

/* Return 1 if the plan fits in memory. Grids get at most half of the memory, because fewer w-planes at a time are
 * faster than more batches. */
static int fits(const msi_predict_plan *plan, const budget *b)
{
    int64_t grids = plan->grid_bytes < b->left / 2 ? plan->grid_bytes : b->left / 2;
    if (grids < plan->gridder.least_grid_bytes) grids = plan->gridder.least_grid_bytes;
    return plan->store_bytes + grids <= b->left;
}

static int choose_batch(msi_predict_plan *plan, msi_gridder *g, const budget *b, const msi_image_geometry *geometry)
{
    const int64_t n_sample = b->scan->n_sample;
    if (plan->n_part == 1) {
        MSI_TRY(estimate_plan(plan, g, b, (n_sample + FEW_SAMPLES - 1) / FEW_SAMPLES));
        if (plan->gridder.n_w_resident >= plan->gridder.n_w && fits(plan, b)) return MSI_OK;
    }
    for (int64_t n_batch = 1;; n_batch *= 2) {
        MSI_TRY(estimate_plan(plan, g, b, n_batch));
        if (fits(plan, b)) return MSI_OK;
        if (n_sample / n_batch < LEAST_SAMPLES) break;
    }
    const int64_t limit = msi_memory_limit();
    return msi_error_about(
        msi_error_set(MSI_ENOMEM,
                      "a model of %lld x %lld needs %.3f GB of memory (grid %lld x %lld); the limit is %.3f GB",
                      (long long)geometry->nx, (long long)geometry->ny,
                      1e-9 * (double)(limit - b->left + plan->store_bytes + plan->gridder.least_grid_bytes),
                      (long long)plan->gridder.nu, (long long)plan->gridder.nv, 1e-9 * (double)limit),
        "memory");
}

int msi_predict_plan_make(msi_predict_plan *plan, const msi_predict_need *need)
{
    const msi_model_images *models = need->models;
    const msi_predict_scan *scan = need->scan;
    int64_t reserved = msi_predict_unplanned_bytes(need->gridder->backend, need->reader);
    memset(plan, 0, sizeof *plan);
    budget b = {.scan = scan, .bands = need->bands};
    find_largest(plan, &b, need->parts);
    if (!b.largest) return msi_error_set(MSI_EINTERNAL, "no channel of the sets is in a band of the models");
    msi_gridder_spec spec = msi_predict_gridder_spec(need->gridder, models, b.largest->n_plane, reserved);
    spec.longest_lambda = scan->longest_lambda;
    msi_gridder *g;
    MSI_TRY(msi_gridder_create(&g, &spec));
    const int64_t pixel_bytes = msi_image_pixel_bytes(msi_gridder_precision(g));
    b.sample_bytes *= (double)msi_gridder_store_bytes(g, 1, 0) / spec.n_plane;
    plan->slot_bytes = slot_bytes();
    plan->image_bytes = spec.n_plane * msi_image_n_pixel(&models->geometry) * pixel_bytes;
    if (!need->model_in_memory) {
        /* Create the gridder again, without the memory of the model. */
        msi_gridder_free(g);
        reserved += plan->image_bytes;
        spec = msi_predict_gridder_spec(need->gridder, models, spec.n_plane, reserved);
        spec.longest_lambda = scan->longest_lambda;
        MSI_TRY(msi_gridder_create(&g, &spec));
    }
    b.left = msi_memory_limit() - msi_memory_in_use() - reserved;
    int rc = choose_batch(plan, g, &b, &models->geometry);
    /* Divide the model into as few tiles as fit. If there is no plan, an allocation failed, and tiles would not
     * help. */
    static const int TILES[] = {2, 3, 4, 6, 8, 12, 16};
    const int can_tile = !need->is_whole && plan->gridder.least_grid_bytes &&
                         plan->gridder.backend == MSI_BACKEND_CPU && strcmp(plan->gridder.method, "wgrid") == 0;
    for (size_t i = 0; rc == MSI_ENOMEM && can_tile && i < sizeof TILES / sizeof *TILES; i++) {
        msi_gridder_free(g);
        spec.n_tile = TILES[i];
        MSI_TRY(msi_gridder_create(&g, &spec));
        rc = choose_batch(plan, g, &b, &models->geometry);
    }
    msi_gridder_free(g);
    plan->read_s = 2 * (double)scan->n_row / MSI_READ_ROWS_PER_S;
    plan->degrid_s = plan->gridder.estimate_s * (double)plan->n_batch * (double)plan->n_part / need->parts->n_view;
    plan->write_s = written_bytes(need->reader) / MSI_WRITE_BYTES_PER_S;
    return rc;
}
