/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/average.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/convert/smearing.h"
#include "src/convert/sum_rows.h"

/* What an averaged sample knows of those that are not good while there is no other. */
typedef struct bad_samples {
    int32_t n; /* 0: there is a good one */
    uint8_t flag;
} bad_samples;

/* Sums of averaged samples: of the good ones by weight or, where there is none, of the others as they are. An interval
 * without a row has none yet: what is there is of the one before. */
typedef struct sums {
    double *value;    /* [n_group][n_corr][2] real and imaginary part */
    double *weight;   /* [n_group][n_corr] */
    bad_samples *bad; /* likewise */
} sums;

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
    int64_t n_row, n_bad;                    /* n_bad: averaged samples without a good one */
    int all_flag_row;
} interval;

struct msi_average {
    int32_t n_chan, n_corr, n_group;
    const msi_channel_groups *groups;
    msi_average_time time;
    double most_turns;           /* that time.loss allows */
    double origin_s, previous_s; /* where bins begin; the latest TIME since */
    double next_end_s;           /* no interval under way ends before */
    int64_t n_back;              /* rows earlier than one of their baseline before */
    int64_t n_interval, n_interval_allocated, last_found;
    interval *interval;
    double *sum;      /* [n_interval_allocated][3][n_group][n_corr]: values, weights */
    bad_samples *bad; /* [n_interval_allocated][n_group][n_corr] */
    double *row_sum;  /* [3][n_group][n_corr] of one row */
    msi_c32 *good;    /* [n_chan][n_corr] of one row */
    float *good_weight;
    int64_t *table; /* [n_table] a hash table of interval numbers + 1; 0: empty */
    int64_t n_table;
    msi_set_output *to;
};

int msi_average_make(msi_average **out, msi_set_output *to, int32_t n_chan, int32_t n_corr,
                     const msi_channel_groups *groups, const msi_average_time *time)
{
    const int64_t n_sample = (int64_t)n_chan * n_corr;
    msi_average *a;
    *out = NULL;
    MSI_TRY(msi_alloc(&a, 1, sizeof *a, "an average"));
    *a = (msi_average){.n_chan = n_chan,
                       .n_corr = n_corr,
                       .n_group = groups->n_group,
                       .groups = groups,
                       .time = *time,
                       .most_turns = time->loss > 0 ? msi_smearing_turns(time->loss) : 0,
                       .to = to,
                       .origin_s = NAN,
                       .previous_s = NAN,
                       .next_end_s = INFINITY};
    int status = msi_alloc(&a->row_sum, 3 * (int64_t)a->n_group * n_corr, sizeof *a->row_sum, "sums of a row");
    if (!status) status = msi_alloc(&a->good, n_sample, sizeof *a->good, "samples of a row");
    if (!status) status = msi_alloc(&a->good_weight, n_sample, sizeof *a->good_weight, "samples of a row");
    if (status)
        msi_average_free(a);
    else
        *out = a;
    return status;
}

static int64_t n_cell(const msi_average *a)
{
    return (int64_t)a->n_group * a->n_corr;
}

static sums sums_of(const msi_average *a, const interval *v)
{
    const int64_t n = n_cell(a), i = v - a->interval;
    return (sums){a->sum + 3 * i * n, a->sum + (3 * i + 2) * n, a->bad + i * n};
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
    const int64_t n_sum = n_cell(a), n = a->n_interval;
    MSI_TRY(msi_grow(&a->interval, n, more, sizeof *a->interval, "intervals under way"));
    MSI_TRY(msi_grow(&a->sum, 3 * n * n_sum, 3 * more * n_sum, sizeof *a->sum, "sums of visibilities"));
    MSI_TRY(msi_grow(&a->bad, n * n_sum, more * n_sum, sizeof *a->bad, "sums of visibilities"));
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
    double longest_s = turns_1s > 0 ? a->most_turns / turns_1s : INFINITY;
    if (t->longest_s > 0 && longest_s > t->longest_s) longest_s = t->longest_s;
    /* Lengths of one baseline differ from row to row by what the set rounds. */
    const double n = floor(longest_s / r->interval_s * (1 + 1e-9) + 1e-6);
    return isfinite(n) && n >= 1 ? n * r->interval_s : isfinite(longest_s) ? 0 : 3600;
}

/* Find the interval of a row's baseline. Baselines mostly come in one order, again and again. */
static int find(msi_average *a, const msi_set_row *r, interval **out)
{
    a->last_found = a->last_found + 1 < a->n_interval ? a->last_found + 1 : 0;
    *out = &a->interval[a->last_found];
    if (a->n_interval && same_key(&(*out)->first, r)) return MSI_OK;
    for (uint64_t at = a->n_table ? hash(r) % (uint64_t)a->n_table : 0; a->n_table && a->table[at];
         at = (at + 1) % (uint64_t)a->n_table) {
        a->last_found = a->table[at] - 1;
        *out = &a->interval[a->last_found];
        if (same_key(&(*out)->first, r)) return MSI_OK;
    }
    if (a->n_interval == a->n_interval_allocated) MSI_TRY(grow_intervals(a));
    a->last_found = a->n_interval;
    *out = &a->interval[a->n_interval];
    memset(*out, 0, sizeof **out);
    (*out)->first = *r;
    (*out)->longest_s = longest_of(a, r);
    (*out)->newest_s = -INFINITY;
    enter(a, a->n_interval++);
    return MSI_OK;
}

/* ---- Finished rows ---- */

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
static void finish_weights(const msi_average *a, const sums *sum, int64_t n_bad, msi_set_row *r)
{
    double total[MSI_MAX_CORR] = {0};
    int32_t n[MSI_MAX_CORR] = {0};
    if (!n_bad) {
        msi_sum_total(a->n_group, a->n_corr, sum->weight, total);
        for (int32_t p = 0; p < a->n_corr; p++) n[p] = a->n_group;
    }
    for (int64_t g = 0; n_bad && g < a->n_group; g++)
        for (int32_t p = 0; p < a->n_corr; p++) {
            const int is_good = !sum->bad[g * a->n_corr + p].n;
            total[p] += is_good ? sum->weight[g * a->n_corr + p] : 0;
            n[p] += is_good;
        }
    for (int32_t p = 0; p < a->n_corr; p++) {
        r->weight[p] = (float)(n[p] ? total[p] / n[p] : 0);
        r->sigma[p] = (float)(n[p] ? 1 / sqrt(total[p] / n[p]) : 0);
    }
}

/* Write the averages of an interval. */
static void finish_samples(const msi_average *a, interval *v, const msi_set_room *room)
{
    const int64_t n = n_cell(a);
    const sums sum = sums_of(a, v);
    msi_sum_means(n, sum.value, sum.weight, room->data, room->weight);
    memset(room->flag, 0, (size_t)n);
    for (int64_t i = 0; v->n_bad > 0; i++) {
        bad_samples *b = &sum.bad[i];
        if (!b->n) continue;
        room->data[i] = (msi_c32){(float)(sum.value[2 * i] / b->n), (float)(sum.value[2 * i + 1] / b->n)};
        room->flag[i] = b->flag;
        *b = (bad_samples){0};
        v->n_bad--;
    }
}

static int finish(msi_average *a, interval *v)
{
    const sums sum = sums_of(a, v);
    if (!v->n_row) return MSI_OK;
    msi_set_room room;
    MSI_TRY(msi_set_output_next(a->to, a->n_group, a->n_corr, &room));
    finish_row(v, room.row);
    if (v->n_row > 1 || a->n_group < a->n_chan) finish_weights(a, &sum, v->n_bad, room.row);
    finish_samples(a, v, &room);
    v->n_row = 0;
    return MSI_OK;
}

/* ---- Add ---- */

/* Take the smaller, the larger number, or that which is one, as fmin and fmax do, which are calls. */
static inline double smaller_of(double a, double b)
{
    return b < a || isnan(a) ? b : a;
}

static inline double larger_of(double a, double b)
{
    return b > a || isnan(a) ? b : a;
}

/* Add samples that are not good to a sum without a good one: correlation p of a group of channels. */
static void add_bad(const msi_average *a, const sums *sum, int64_t cell, const msi_sum_row *row)
{
    const int32_t g = (int32_t)(cell / a->n_corr);
    const int64_t p = cell % a->n_corr;
    bad_samples *b = &sum->bad[cell];
    for (int64_t c = a->groups->first[g]; c < a->groups->first[g + 1]; c++) {
        const int64_t k = c * a->n_corr + p;
        sum->value[2 * cell] += row->data[k].re;
        sum->value[2 * cell + 1] += row->data[k].im;
        sum->weight[cell] += row->weight[k];
        b->flag = ++b->n > 1 || row->flag[k];
    }
}

/* Add the sums of a row's good samples, and where it has none, the others. */
static void add_cells(const msi_average *a, interval *v, const msi_sum_row *row)
{
    const sums sum = sums_of(a, v);
    const double *value = a->row_sum, *weight = a->row_sum + 2 * n_cell(a);
    for (int64_t i = 0; i < n_cell(a); i++) {
        bad_samples *b = &sum.bad[i];
        if (weight[i] > 0) {
            if (b->n) {
                sum.value[2 * i] = sum.value[2 * i + 1] = sum.weight[i] = 0;
                *b = (bad_samples){0};
                v->n_bad--;
            }
            sum.value[2 * i] += value[2 * i];
            sum.value[2 * i + 1] += value[2 * i + 1];
            sum.weight[i] += weight[i];
        } else if (v->n_row == 0 || b->n) {
            v->n_bad += !b->n;
            add_bad(a, &sum, i, row);
        }
    }
}

/* Add the samples of a row to the sums of its interval; return the weights of the good ones. */
static double add_samples(const msi_average *a, interval *v, const msi_set_rows *rows, int64_t i)
{
    const int64_t n_sample = (int64_t)a->n_chan * a->n_corr, n = n_cell(a);
    const msi_sum_row row = {a->n_chan, a->n_corr, rows->data + i * n_sample, rows->weight + i * n_sample,
                             rows->flag + i * n_sample};
    const msi_sum_row good = {a->n_chan, a->n_corr, a->good, a->good_weight, NULL};
    double total = 0;
    if (!rows->row[i].flag_row && !v->n_bad && msi_sum_all_good(&row)) {
        const sums sum = sums_of(a, v);
        return msi_sum_add(&row, a->groups, v->n_row == 0, sum.value, sum.weight);
    }
    if (v->n_row == 0) memset(sums_of(a, v).value, 0, 3 * (size_t)n * sizeof *a->sum);
    if (rows->row[i].flag_row) {
        memset(a->row_sum, 0, 3 * (size_t)n * sizeof *a->row_sum);
    } else {
        msi_sum_keep_good(&row, a->good, a->good_weight);
        total = msi_sum_add(&good, a->groups, 1, a->row_sum, a->row_sum + 2 * n);
    }
    add_cells(a, v, &row);
    return total;
}

static void add_to_interval(interval *v, const msi_set_row *r, double weight)
{
    const double begin_s = r->time_s - 0.5 * r->interval_s, end_s = r->time_s + 0.5 * r->interval_s;
    /* The sum of differences keeps the digits that a sum of times would lose. */
    const double centroid_s = r->centroid_s - v->first.time_s;
    v->begin_s = v->n_row ? smaller_of(v->begin_s, begin_s) : begin_s;
    v->end_s = v->n_row ? larger_of(v->end_s, end_s) : end_s;
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
    const double gap_s = larger_of(a->time.longest_s, 4 * r->interval_s);
    const int goes_on = r->time_s >= a->previous_s - 0.5 * r->interval_s && r->time_s - a->previous_s <= gap_s;
    if (!goes_on) a->origin_s = r->time_s - 0.5 * r->interval_s;
    a->previous_s = goes_on ? larger_of(a->previous_s, r->time_s) : r->time_s;
}

int msi_average_add(msi_average *a, const msi_set_rows *rows)
{
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
        if (!(bin_end_s >= a->next_end_s)) a->next_end_s = isnan(bin_end_s) ? -INFINITY : bin_end_s;
        a->n_back += r->time_s < v->newest_s;
        v->newest_s = larger_of(v->newest_s, r->time_s);
        add_to_interval(v, r, add_samples(a, v, rows, i));
    }
    return MSI_OK;
}

/* Forget the baselines that are not under way: scans come and go. */
static void compact(msi_average *a)
{
    const int64_t n_sum = n_cell(a);
    int64_t kept = 0, n_live = 0;
    for (int64_t i = 0; i < a->n_interval; i++) n_live += a->interval[i].n_row > 0;
    if (2 * n_live >= a->n_interval) return;
    memset(a->table, 0, (size_t)a->n_table * sizeof *a->table);
    for (int64_t i = 0; i < a->n_interval; i++) {
        if (!a->interval[i].n_row) continue;
        if (kept < i) {
            a->interval[kept] = a->interval[i];
            memcpy(a->sum + 3 * kept * n_sum, a->sum + 3 * i * n_sum, 3 * (size_t)n_sum * sizeof *a->sum);
            memcpy(a->bad + kept * n_sum, a->bad + i * n_sum, (size_t)n_sum * sizeof *a->bad);
            memset(a->bad + i * n_sum, 0, (size_t)n_sum * sizeof *a->bad);
        }
        enter(a, kept++);
    }
    a->n_interval = kept;
}

int msi_average_flush(msi_average *a, int all)
{
    if (!all && a->next_end_s > a->previous_s) return MSI_OK;
    a->next_end_s = INFINITY;
    for (int64_t i = 0; i < a->n_interval; i++) {
        const interval *v = &a->interval[i];
        const int is_over = !(v->latest_s > a->previous_s);
        if (all || is_over)
            MSI_TRY(finish(a, &a->interval[i]));
        else if (v->n_row && v->latest_s < a->next_end_s)
            a->next_end_s = v->latest_s;
    }
    compact(a);
    return MSI_OK;
}

/* ---- What it holds ---- */

int64_t msi_average_n_back(const msi_average *a)
{
    return a->n_back;
}

int64_t msi_average_bytes(const msi_average *a)
{
    const int64_t n_sample = n_cell(a);
    return a->n_interval_allocated *
           (int64_t)(sizeof *a->interval + (size_t)n_sample * (3 * sizeof *a->sum + sizeof *a->bad));
}

void msi_average_free(msi_average *a)
{
    if (!a) return;
    msi_free(a->interval);
    msi_free(a->sum);
    msi_free(a->bad);
    msi_free(a->row_sum);
    msi_free(a->good);
    msi_free(a->good_weight);
    msi_free(a->table);
    msi_free(a);
}
