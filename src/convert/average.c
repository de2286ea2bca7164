/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/average.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/convert/smearing.h"
#include "src/convert/sum_rows.h"

enum { NOTHING, BAD, GOOD };

/* Sums of one averaged sample: of the good ones by weight or, while there is none, of the others as they are. */
typedef struct sample_sum {
    double re, im, weight;
    int32_t n;
    uint8_t kind, flag;
} sample_sum;

/* A baseline's interval under way. It stays for the next one when it is finished. */
typedef struct interval {
    msi_set_row first;     /* the row that began it; what its members identify is the interval's key */
    double longest_s;      /* that it may last */
    double newest_s;       /* the latest TIME of its baseline so far */
    double begin_s, end_s; /* what its rows span */
    double latest_s;       /* where its bin ends */
    double weight, good_exposure_s, exposure_s;
    double uvw_m[3], centroid_s;             /* sums by weight */
    double plain_uvw_m[3], plain_centroid_s; /* sums */
    int64_t n_row;
    int all_flag_row;
} interval;

struct msi_average {
    int32_t n_chan, n_corr, n_group;
    const msi_channel_groups *groups;
    msi_average_time time;
    double origin_s, previous_s; /* where bins begin; the latest TIME since */
    int64_t n_back;              /* rows earlier than one of their baseline before */
    int64_t n_interval, n_interval_allocated;
    interval *interval;
    sample_sum *sum; /* [n_interval_allocated][n_group][n_corr] */
    int64_t *table;  /* [n_table] a hash table of interval numbers + 1; 0: empty */
    int64_t n_table;
    int64_t n_out, n_out_allocated;
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
    int is_taken;
};

int msi_average_make(msi_average **out, int32_t n_chan, int32_t n_corr, const msi_channel_groups *groups,
                     const msi_average_time *time)
{
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "an average"));
    **out = (msi_average){.n_chan = n_chan,
                          .n_corr = n_corr,
                          .n_group = groups->n_group,
                          .groups = groups,
                          .time = *time,
                          .origin_s = NAN,
                          .previous_s = NAN};
    return MSI_OK;
}

/* ---- Intervals ---- */

static int same_key(const msi_set_row *a, const msi_set_row *b)
{
    return a->antenna1 == b->antenna1 && a->antenna2 == b->antenna2 && a->feed1 == b->feed1 && a->feed2 == b->feed2 &&
           a->array == b->array && a->observation == b->observation && a->processor == b->processor &&
           a->scan == b->scan && a->state == b->state;
}

static uint64_t hash(const msi_set_row *r)
{
    const int32_t key[] = {r->antenna1, r->antenna2, r->feed1,     r->feed2,      r->array,
                           r->scan,     r->state,    r->processor, r->observation};
    uint64_t h = 14695981039346656037U;
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) h = (h ^ (uint32_t)key[i]) * 1099511628211U;
    return h ^ h >> 29;
}

static void enter(msi_average *a, int64_t i)
{
    uint64_t at = hash(&a->interval[i].first) % (uint64_t)a->n_table;
    while (a->table[at]) at = (at + 1) % (uint64_t)a->n_table;
    a->table[at] = i + 1;
}

static int grow_intervals(msi_average *a)
{
    const int64_t more = a->n_interval_allocated ? 2 * a->n_interval_allocated : 256;
    const int64_t n_sum = (int64_t)a->n_group * a->n_corr;
    MSI_TRY(msi_grow(&a->interval, a->n_interval, more, sizeof *a->interval, "intervals under way"));
    MSI_TRY(msi_grow(&a->sum, a->n_interval * n_sum, more * n_sum, sizeof *a->sum, "sums of visibilities"));
    a->n_interval_allocated = more;
    msi_free(a->table);
    a->table = NULL;
    a->n_table = 4 * more;
    MSI_TRY(msi_alloc(&a->table, a->n_table, sizeof *a->table, "intervals under way"));
    for (int64_t i = 0; i < a->n_interval; i++) enter(a, i);
    return MSI_OK;
}

/* So long a baseline may be averaged: whole integrations, and one at least. */
static double longest_of(const msi_average *a, const msi_set_row *r)
{
    const msi_average_time *t = &a->time;
    if (!(t->loss > 0)) return t->longest_s;
    const double baseline_m = sqrt(r->uvw_m[0] * r->uvw_m[0] + r->uvw_m[1] * r->uvw_m[1] + r->uvw_m[2] * r->uvw_m[2]);
    const double turns_1s = msi_smearing_time_turns(baseline_m, t->radius_rad, 1, t->highest_hz);
    double longest_s = turns_1s > 0 ? msi_smearing_turns(t->loss) / turns_1s : INFINITY;
    if (t->longest_s > 0 && longest_s > t->longest_s) longest_s = t->longest_s;
    /* Lengths of one baseline differ from row to row by what the set rounds. */
    const double n = floor(longest_s / r->interval_s * (1 + 1e-9) + 1e-6);
    return isfinite(n) && n >= 1 ? n * r->interval_s : isfinite(longest_s) ? 0 : 3600;
}

static int find(msi_average *a, const msi_set_row *r, interval **out)
{
    for (uint64_t at = a->n_table ? hash(r) % (uint64_t)a->n_table : 0; a->n_table && a->table[at];
         at = (at + 1) % (uint64_t)a->n_table) {
        *out = &a->interval[a->table[at] - 1];
        if (same_key(&(*out)->first, r)) return MSI_OK;
    }
    if (a->n_interval == a->n_interval_allocated) MSI_TRY(grow_intervals(a));
    *out = &a->interval[a->n_interval];
    memset(*out, 0, sizeof **out);
    (*out)->first = *r;
    (*out)->longest_s = longest_of(a, r);
    (*out)->newest_s = -INFINITY;
    enter(a, a->n_interval++);
    return MSI_OK;
}

/* ---- Finished rows ---- */

static int grow_out(msi_average *a)
{
    const int64_t more = a->n_out_allocated ? 2 * a->n_out_allocated : 256, n = a->n_out;
    const int64_t n_sample = (int64_t)a->n_group * a->n_corr;
    MSI_TRY(msi_grow(&a->row, n, more, sizeof *a->row, "averaged rows"));
    MSI_TRY(msi_grow(&a->data, n * n_sample, more * n_sample, sizeof *a->data, "averaged visibilities"));
    MSI_TRY(msi_grow(&a->weight, n * n_sample, more * n_sample, sizeof *a->weight, "averaged weights"));
    MSI_TRY(msi_grow(&a->flag, n * n_sample, more * n_sample, sizeof *a->flag, "averaged flags"));
    a->n_out_allocated = more;
    return MSI_OK;
}

static void finish_row(const interval *v, msi_set_row *r)
{
    *r = v->first;
    if (v->n_row == 1) return;
    const double n = (double)v->n_row;
    r->time_s = 0.5 * (v->begin_s + v->end_s);
    r->interval_s = v->end_s - v->begin_s;
    r->exposure_s = v->weight > 0 ? v->good_exposure_s : v->exposure_s;
    r->centroid_s = v->first.time_s + (v->weight > 0 ? v->centroid_s / v->weight : v->plain_centroid_s / n);
    for (int k = 0; k < 3; k++) r->uvw_m[k] = v->weight > 0 ? v->uvw_m[k] / v->weight : v->plain_uvw_m[k] / n;
    r->flag_row = v->all_flag_row != 0;
}

/* Averaged rows have the mean weight of their good channels. */
static void finish_weights(const msi_average *a, const sample_sum *sum, msi_set_row *r)
{
    for (int32_t p = 0; p < a->n_corr; p++) {
        double total = 0;
        int32_t n = 0;
        for (int32_t g = 0; g < a->n_group; g++) {
            const sample_sum *s = &sum[(int64_t)g * a->n_corr + p];
            if (s->kind != GOOD) continue;
            total += s->weight;
            n++;
        }
        r->weight[p] = (float)(n ? total / n : 0);
        r->sigma[p] = (float)(n ? 1 / sqrt(total / n) : 0);
    }
}

static int finish(msi_average *a, interval *v)
{
    const int64_t n_sample = (int64_t)a->n_group * a->n_corr;
    sample_sum *sum = a->sum + (v - a->interval) * n_sample;
    if (!v->n_row) return MSI_OK;
    if (a->n_out == a->n_out_allocated) MSI_TRY(grow_out(a));
    msi_set_row *r = &a->row[a->n_out];
    finish_row(v, r);
    if (v->n_row > 1 || a->n_group < a->n_chan) finish_weights(a, sum, r);
    const int64_t at = a->n_out * n_sample;
    for (int64_t i = 0; i < n_sample; i++) {
        const sample_sum *s = &sum[i];
        const double by = s->kind == GOOD ? s->weight : (double)s->n;
        a->data[at + i] = (msi_c32){(float)(s->re / by), (float)(s->im / by)};
        a->weight[at + i] = (float)s->weight;
        a->flag[at + i] = s->flag;
    }
    memset(sum, 0, (size_t)n_sample * sizeof *sum);
    v->n_row = 0;
    a->n_out++;
    return MSI_OK;
}

/* ---- Add ---- */

/* Add one sample; return 1 where it is good. */
static int add_sample(sample_sum *s, msi_c32 v, float weight, int flag, int row_flagged)
{
    const int good = !flag && !row_flagged && weight > 0 && isfinite(weight) && fabsf(v.re) < MSI_SUM_MOST_JY &&
                     fabsf(v.im) < MSI_SUM_MOST_JY;
    if (good) {
        if (s->kind != GOOD) *s = (sample_sum){.kind = GOOD};
        /* The product of two floats is exact in double: a single sample comes out as it went in. */
        s->re += (double)weight * v.re;
        s->im += (double)weight * v.im;
        s->weight += weight;
        s->n++;
    } else if (s->kind != GOOD) {
        s->kind = BAD;
        s->re += v.re;
        s->im += v.im;
        s->weight += weight;
        s->flag = ++s->n > 1 || flag;
    }
    return good;
}

/* Add the samples of a row one by one; return the sum of the weights of the good ones. */
static double add_each(const msi_average *a, sample_sum *sum, const msi_sum_row *row, int row_flagged)
{
    double total = 0;
    for (int32_t g = 0; g < a->n_group; g++, sum += a->n_corr)
        for (int32_t c = a->groups->first[g]; c < a->groups->first[g + 1]; c++)
            for (int32_t p = 0; p < a->n_corr; p++) {
                const int64_t k = (int64_t)c * a->n_corr + p;
                if (add_sample(&sum[p], row->data[k], row->weight[k], row->flag[k], row_flagged))
                    total += row->weight[k];
            }
    return total;
}

/* Add the same of a row whose samples are all good. */
static double add_good(const msi_average *a, sample_sum *sum, const msi_sum_row *row)
{
    double total = 0;
    for (int32_t g = 0; g < a->n_group; g++, sum += a->n_corr) {
        const int32_t first = a->groups->first[g], n = a->groups->first[g + 1] - first;
        msi_sum_group of_group;
        msi_sum_channels(&of_group, row, first, n);
        for (int32_t p = 0; p < a->n_corr; p++) {
            if (sum[p].kind != GOOD) sum[p] = (sample_sum){.kind = GOOD};
            sum[p].re += of_group.value[2 * p];
            sum[p].im += of_group.value[2 * p + 1];
            sum[p].weight += of_group.weight[p];
            sum[p].n += n;
            total += of_group.weight[p];
        }
    }
    return total;
}

static double add_samples(const msi_average *a, sample_sum *sum, const msi_set_rows *rows, int64_t i)
{
    const int64_t at = i * a->n_chan * a->n_corr;
    const msi_sum_row row = {a->n_chan, a->n_corr, rows->data + at, rows->weight + at, rows->flag + at};
    const int row_flagged = rows->row[i].flag_row;
    return !row_flagged && msi_sum_all_good(&row) ? add_good(a, sum, &row) : add_each(a, sum, &row, row_flagged);
}

static void add_to_interval(interval *v, const msi_set_row *r, double weight)
{
    const double begin_s = r->time_s - 0.5 * r->interval_s, end_s = r->time_s + 0.5 * r->interval_s;
    /* The sum of differences keeps the digits that a sum of times would lose. */
    const double centroid_s = r->centroid_s - v->first.time_s;
    v->begin_s = v->n_row ? fmin(v->begin_s, begin_s) : begin_s;
    v->end_s = v->n_row ? fmax(v->end_s, end_s) : end_s;
    v->all_flag_row = (v->n_row == 0 || v->all_flag_row) && r->flag_row;
    v->weight += weight;
    v->exposure_s += r->exposure_s;
    if (weight > 0) v->good_exposure_s += r->exposure_s;
    v->centroid_s += weight * centroid_s;
    v->plain_centroid_s += centroid_s;
    for (int k = 0; k < 3; k++) {
        v->uvw_m[k] += weight * r->uvw_m[k];
        v->plain_uvw_m[k] += r->uvw_m[k];
    }
    v->n_row++;
}

static void begin_interval(interval *v, const msi_set_row *r)
{
    const double longest_s = v->longest_s, newest_s = v->newest_s;
    *v = (interval){.first = *r, .longest_s = longest_s, .newest_s = newest_s};
}

/* Bins are counted from the first row, and anew from a gap or a step back in time. */
static void keep_origin(msi_average *a, const msi_set_row *r)
{
    const double gap_s = fmax(a->time.longest_s, 4 * r->interval_s);
    const int goes_on = r->time_s >= a->previous_s - 0.5 * r->interval_s && r->time_s - a->previous_s <= gap_s;
    if (!goes_on) a->origin_s = r->time_s - 0.5 * r->interval_s;
    a->previous_s = goes_on ? fmax(a->previous_s, r->time_s) : r->time_s;
}

int msi_average_add(msi_average *a, const msi_set_rows *rows)
{
    const int64_t n_sum = (int64_t)a->n_group * a->n_corr;
    if (a->is_taken) a->n_out = a->is_taken = 0;
    for (int64_t i = 0; i < rows->n_row; i++) {
        const msi_set_row *r = &rows->row[i];
        interval *v;
        keep_origin(a, r);
        MSI_TRY(find(a, r, &v));
        /* A thousandth of an integration allows for times that are rounded. */
        const double since_s = r->time_s - a->origin_s + 1e-3 * r->interval_s;
        const double bin = v->longest_s > 0 ? floor(since_s / v->longest_s) : 0;
        const double bin_end_s = a->origin_s + (bin + 1) * v->longest_s;
        if (v->n_row && (!(v->longest_s > 0) || v->latest_s != bin_end_s)) MSI_TRY(finish(a, v));
        if (!v->n_row) begin_interval(v, r);
        v->latest_s = bin_end_s;
        a->n_back += r->time_s < v->newest_s;
        v->newest_s = fmax(v->newest_s, r->time_s);
        add_to_interval(v, r, add_samples(a, a->sum + (v - a->interval) * n_sum, rows, i));
    }
    return MSI_OK;
}

/* Forget the baselines that are not under way: scans come and go. */
static void compact(msi_average *a)
{
    const int64_t n_sum = (int64_t)a->n_group * a->n_corr;
    int64_t kept = 0, n_live = 0;
    for (int64_t i = 0; i < a->n_interval; i++) n_live += a->interval[i].n_row > 0;
    if (2 * n_live >= a->n_interval) return;
    memset(a->table, 0, (size_t)a->n_table * sizeof *a->table);
    for (int64_t i = 0; i < a->n_interval; i++) {
        if (!a->interval[i].n_row) continue;
        if (kept < i) {
            a->interval[kept] = a->interval[i];
            memcpy(a->sum + kept * n_sum, a->sum + i * n_sum, (size_t)n_sum * sizeof *a->sum);
            memset(a->sum + i * n_sum, 0, (size_t)n_sum * sizeof *a->sum);
        }
        enter(a, kept++);
    }
    a->n_interval = kept;
}

int msi_average_flush(msi_average *a, int all)
{
    if (a->is_taken) a->n_out = a->is_taken = 0;
    for (int64_t i = 0; i < a->n_interval; i++) {
        const int is_over = !(a->interval[i].latest_s > a->previous_s);
        if (all || is_over) MSI_TRY(finish(a, &a->interval[i]));
    }
    compact(a);
    return MSI_OK;
}

/* ---- Take ---- */

void msi_average_take(msi_average *a, msi_set_rows *rows)
{
    *rows = (msi_set_rows){a->n_out, a->n_group, a->n_corr, a->row, a->data, a->weight, a->flag};
    a->is_taken = 1;
}

int64_t msi_average_n_back(const msi_average *a)
{
    return a->n_back;
}

int64_t msi_average_bytes(const msi_average *a)
{
    const int64_t n_sample = (int64_t)a->n_group * a->n_corr;
    return a->n_interval_allocated * (int64_t)(sizeof *a->interval + (size_t)n_sample * sizeof *a->sum) +
           a->n_out_allocated * (int64_t)(sizeof *a->row + (size_t)n_sample * (sizeof(msi_c32) + sizeof(float) + 1));
}

void msi_average_free(msi_average *a)
{
    if (!a) return;
    msi_free(a->interval);
    msi_free(a->sum);
    msi_free(a->table);
    msi_free(a->row);
    msi_free(a->data);
    msi_free(a->weight);
    msi_free(a->flag);
    msi_free(a);
}
