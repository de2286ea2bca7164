/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "src/options/hints.h"

/* A slice is what a rank adds up at a time: of all ranks so many values. */
enum { SLICE = 1 << 20 };

/* The status of a rank that has stopped because another one has failed. */
enum { FOLLOWS = 1 };

void msi_team_join(msi_team *t)
{
    if (!t->link) return;
    t->link->join(t);
    t->link->heed(t, 1);
}

void msi_team_end(msi_team *t)
{
    if (t->link) t->link->end(t);
}

/* ---- Agreement ---- */

/* A signal ends what this rank has with the others. */
static int cut_off(msi_team *t, int status)
{
    t->is_cut_off = 1;
    return t->is_done && status == MSI_EINTERRUPTED ? MSI_OK : status;
}

/* All ranks take over the message of one. */
static int take_message(msi_team *t, int from, int status)
{
    char *all, own[MSI_MESSAGE_BYTES] = "";
    snprintf(own, sizeof own, "%s", msi_error_get());
    if (msi_alloc(&all, t->size, sizeof own, "messages of ranks") != MSI_OK) return cut_off(t, MSI_ENOMEM);
    const int rc = t->link->gather(t, own, sizeof own, all);
    if (rc)
        status = cut_off(t, rc);
    else
        msi_error_set(status, "%s", all + (size_t)from * sizeof own);
    msi_free(all);
    return status;
}

int msi_team_agree(msi_team *t, int status)
{
    if (t->size == 1 || t->is_settled || t->is_cut_off) return status;
    t->link->heed(t, 0);
    const int is_interrupted = status == MSI_EINTERRUPTED;
    if (is_interrupted && msi_interrupt_signal()) return cut_off(t, status);
    int own = is_interrupted ? FOLLOWS : msi_remedy_append(status), *all;
    if (msi_alloc(&all, t->size, sizeof *all, "statuses of ranks") != MSI_OK) return cut_off(t, MSI_ENOMEM);
    if (own < 0) t->link->alarm(t);
    int rc = t->link->gather(t, &own, sizeof own, all), from = -1;
    for (int k = t->size; !rc && k-- > 0;) {
        if (all[k] >= 0) continue;
        from = k;
        /* Some MPIs complain of messages that nobody has taken. */
        if (k != t->rank) t->link->calm(t, k);
    }
    const int agreed = from < 0 ? MSI_OK : all[from];
    msi_free(all);
    if (rc) return cut_off(t, rc);
    t->is_settled = agreed != MSI_OK;
    if (agreed) return take_message(t, from, agreed);
    t->link->heed(t, 1);
    return MSI_OK;
}

int msi_team_same(msi_team *t, uint64_t value, const char *what)
{
    uint64_t *all;
    if (t->size == 1) return MSI_OK;
    MSI_TRY(msi_team_gather(t, &value, sizeof value, (void **)&all));
    int other = 0;
    for (int k = t->size; k-- > 1;)
        if (all[k] != all[0]) other = k;
    msi_free(all);
    if (!other) return MSI_OK;
    t->is_settled = 1;
    return msi_error_set(MSI_EINPUT, "rank %d of %d %s than rank 0", other, t->size, what);
}

int msi_team_check_environment(msi_team *t)
{
    const int is_agreed = t->rank == t->env_rank && t->size == t->env_size;
    return msi_team_agree(t, is_agreed
                                 ? MSI_OK
                                 : msi_error_set(MSI_EUSAGE,
                                                 "what has started rank %d of %d has not told it its number by the "
                                                 "environment; use mpirun or srun",
                                                 t->rank, t->size));
}

/* ---- Exchanges ---- */

int msi_team_broadcast(msi_team *t, void *data, int64_t n_byte)
{
    /* MPI counts by int, and waits for what takes long by sleeping longer. */
    const int64_t most = 1 << 22;
    int rc = MSI_OK;
    for (int64_t at = 0; !rc && t->size > 1 && at < n_byte; at += most)
        rc = t->link->broadcast(t, (char *)data + at, n_byte - at < most ? n_byte - at : most);
    return rc ? cut_off(t, rc) : MSI_OK;
}

int msi_team_gather(msi_team *t, const void *own, int64_t n_byte, void **all)
{
    int rc = msi_team_agree(t, msi_alloc(all, t->size * n_byte, 1, "values of ranks"));
    if (!rc && t->size == 1) memcpy(*all, own, (size_t)n_byte);
    if (!rc && t->size > 1) {
        rc = t->link->gather(t, own, n_byte, *all);
        if (rc) rc = cut_off(t, rc);
    }
    if (rc) {
        msi_free(*all);
        *all = NULL;
    }
    return rc;
}

int msi_team_largest(msi_team *t, double *value, int64_t n)
{
    double *all;
    if (t->size == 1) return MSI_OK;
    MSI_TRY(msi_team_gather(t, value, n * (int64_t)sizeof *value, (void **)&all));
    for (int64_t i = 0; i < t->size * n; i++) value[i % n] = fmax(value[i % n], all[i]);
    msi_free(all);
    return MSI_OK;
}

int msi_team_count(msi_team *t, int64_t *count, int n)
{
    int64_t *all;
    if (t->size == 1) return MSI_OK;
    MSI_TRY(msi_team_gather(t, count, n * (int64_t)sizeof *count, (void **)&all));
    memset(count, 0, (size_t)n * sizeof *count);
    for (int k = 0; k < t->size; k++)
        for (int i = 0; i < n; i++) count[i] += all[k * n + i];
    msi_free(all);
    return MSI_OK;
}

/* ---- Sums ---- */

/* Add up this rank's slice of the arrays, or make a mean of them: weight [size] has sum 1. Values without a weight may
 * be anything. */
static void combine(void *slice, const void *of_ranks, int64_t n, msi_precision precision, const msi_team *t,
                    const double *weight)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < t->size; k++)
            if (weight[k] != 0) sum += weight[k] * msi_image_value(of_ranks, precision, k * n + i);
        if (precision == MSI_FP32)
            ((float *)slice)[i] = (float)sum;
        else
            ((double *)slice)[i] = sum;
    }
}

/* Each rank gets its slice of the arrays of all, makes one of them, and gives it to all. */
static int combine_all(msi_team *t, char *array, int64_t n, msi_precision precision, const double *weight)
{
    const int64_t bytes = msi_image_pixel_bytes(precision), even = (n + t->size - 1) / t->size;
    const int64_t each = even < SLICE ? even : SLICE;
    char *room = NULL;
    MSI_TRY(msi_team_agree(t, msi_alloc(&room, (2 * t->size + 1) * each, (size_t)bytes, "slices of ranks")));
    char *own = room, *received = own + t->size * each * bytes, *slice = received + t->size * each * bytes;
    int rc = MSI_OK;
    for (int64_t at = 0; !rc && at < n; at += t->size * each) {
        const int64_t here = n - at < t->size * each ? n - at : t->size * each;
        memcpy(own, array + at * bytes, (size_t)(here * bytes));
        rc = t->link->swap(t, own, each * bytes, received);
        if (rc) break;
        combine(slice, received, each, precision, t, weight);
        rc = t->link->gather(t, slice, each * bytes, own);
        if (!rc) memcpy(array + at * bytes, own, (size_t)(here * bytes));
    }
    msi_free(room);
    return rc ? cut_off(t, rc) : MSI_OK;
}

int msi_team_sum(msi_team *t, void *array, int64_t n, msi_precision precision)
{
    double *one;
    if (t->size == 1) return MSI_OK;
    MSI_TRY(msi_team_agree(t, msi_alloc(&one, t->size, sizeof *one, "weights of ranks")));
    for (int k = 0; k < t->size; k++) one[k] = 1;
    const int rc = combine_all(t, array, n, precision, one);
    msi_free(one);
    return rc;
}

/* A rank's image has sums beside its pixels, which are added up too. */
typedef struct image_sums {
    double sum_weight;
    int64_t n_vis;
} image_sums;

static int combine_plane(msi_team *t, msi_image *image, int plane, double *weight)
{
    const image_sums own = {image->sum_weight[plane], image->n_vis[plane]};
    const int64_t n = msi_image_n_pixel(&image->geometry);
    image_sums *all;
    MSI_TRY(msi_team_gather(t, &own, sizeof own, (void **)&all));
    image_sums sum = {0, 0};
    for (int k = 0; k < t->size; k++) {
        sum.sum_weight += all[k].sum_weight;
        sum.n_vis += all[k].n_vis;
    }
    for (int k = 0; k < t->size; k++) weight[k] = all[k].n_vis ? all[k].sum_weight / sum.sum_weight : 0;
    msi_free(all);
    image->sum_weight[plane] = sum.sum_weight;
    image->n_vis[plane] = sum.n_vis;
    /* A plane without a sample on any rank is NaN already. */
    if (!sum.n_vis) return MSI_OK;
    return combine_all(t, (char *)image->pixel + plane * n * msi_image_pixel_bytes(image->precision), n,
                       image->precision, weight);
}

int msi_team_image(msi_team *t, msi_image *image)
{
    double *weight = NULL;
    if (t->size == 1) return MSI_OK;
    int rc = msi_team_agree(t, msi_alloc(&weight, t->size, sizeof *weight, "weights of ranks"));
    for (int p = 0; !rc && p < image->n_plane; p++) rc = combine_plane(t, image, p, weight);
    msi_free(weight);
    return rc;
}

static int largest_left(const int64_t *bytes, int n, const int *rank)
{
    int largest = -1;
    for (int i = 0; i < n; i++)
        if (rank[i] < 0 && (largest < 0 || bytes[i] > bytes[largest])) largest = i;
    return largest;
}

int msi_assign_sets(const int64_t *bytes, int n, int n_rank, int *rank)
{
    int64_t *has;
    MSI_TRY(msi_alloc(&has, n_rank, sizeof *has, "ranks"));
    for (int i = 0; i < n; i++) rank[i] = -1;
    for (int n_assigned = 0; n_assigned < n; n_assigned++) {
        const int i = largest_left(bytes, n, rank);
        int least = 0;
        for (int k = 1; k < n_rank; k++)
            if (has[k] < has[least]) least = k;
        rank[i] = least;
        /* A set whose size cannot be told is still work. */
        has[least] += bytes[i] > 0 ? bytes[i] : 1;
    }
    msi_free(has);
    return MSI_OK;
}

int msi_assign_devices(const int *device, int n, const msi_team *t, int *own)
{
    int n_own = 0;
    for (int i = t->gpu_rank % n; i < n; i += t->gpu_size) own[n_own++] = device[i];
    return n_own;
}

int msi_shared_density(msi_team *team, msi_density *d)
{
    if (team->size == 1) return MSI_OK;
    const msi_density_parts parts = msi_density_parts_of(d);
    for (int k = 0; k < 2; k++) {
        if (!parts.sum[k]) continue;
        MSI_TRY(msi_team_sum(team, parts.sum[k], parts.n_cell, MSI_FP64));
        MSI_TRY(msi_team_sum(team, parts.total[k], 1, MSI_FP64));
    }
    return MSI_OK;
}
