/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests agreement, sums and assignment of ranks. The ranks are threads. Sums must equal those of one thread in the
 * order of ranks. */
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/run/gpu_share.h"
#include "src/run/ranks.h"

enum { MOST = 5 };

/* ---- Ranks that are threads ---- */

static struct {
    pthread_barrier_t barrier;
    const char *own[MOST];
    int n_sent, n_received, n_wrong;
    pthread_mutex_t mutex;
} shared = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Copy from each rank the part for this one (step is n_byte), or all of it (step is 0). */
static int copy_parts(msi_ranks *t, const void *own, int64_t n_byte, void *all, int64_t step)
{
    shared.own[t->rank] = own;
    pthread_barrier_wait(&shared.barrier);
    for (int k = 0; k < t->size; k++) memcpy((char *)all + k * n_byte, shared.own[k] + t->rank * step, (size_t)n_byte);
    pthread_barrier_wait(&shared.barrier);
    return MSI_OK;
}

static int gather(msi_ranks *t, const void *own, int64_t n_byte, void *all)
{
    return copy_parts(t, own, n_byte, all, 0);
}

static int exchange_parts(msi_ranks *t, const void *own, int64_t n_byte, void *theirs)
{
    return copy_parts(t, own, n_byte, theirs, n_byte);
}

static int broadcast(msi_ranks *t, void *data, int64_t n_byte)
{
    shared.own[t->rank] = data;
    pthread_barrier_wait(&shared.barrier);
    if (t->rank) memcpy(data, shared.own[0], (size_t)n_byte);
    pthread_barrier_wait(&shared.barrier);
    return MSI_OK;
}

static void count_sent(msi_ranks *t)
{
    (void)t;
    pthread_mutex_lock(&shared.mutex);
    shared.n_sent++;
    pthread_mutex_unlock(&shared.mutex);
}

static void count_received(msi_ranks *t, int rank)
{
    assert_int_not_equal(rank, t->rank);
    pthread_mutex_lock(&shared.mutex);
    shared.n_received++;
    pthread_mutex_unlock(&shared.mutex);
}

static void watch(msi_ranks *t, int is_on)
{
    (void)t;
    (void)is_on;
}

static const msi_ranks_link link = {.gather = gather,
                                    .exchange = exchange_parts,
                                    .broadcast = broadcast,
                                    .alarm_send = count_sent,
                                    .alarm_receive = count_received,
                                    .alarm_watch = watch};

/* A function that runs on each of n ranks. */
typedef struct on_rank {
    msi_ranks ranks;
    void (*run)(msi_ranks *ranks, void *of);
    void *of;
} on_rank;

static void *start(void *on)
{
    on_rank *o = on;
    o->run(&o->ranks, o->of);
    msi_ranks_window_close(&o->ranks);
    return NULL;
}

static void run_on(int n, void (*run)(msi_ranks *ranks, void *of), void *of)
{
    pthread_t thread[MOST];
    on_rank on[MOST];
    pthread_barrier_init(&shared.barrier, NULL, (unsigned)n);
    for (int k = 0; k < n; k++) {
        on[k] = (on_rank){.ranks = {.rank = k, .size = n, .link = &link}, .run = run, .of = of};
        assert_int_equal(pthread_create(&thread[k], NULL, start, &on[k]), 0);
    }
    for (int k = 0; k < n; k++) pthread_join(thread[k], NULL);
    pthread_barrier_destroy(&shared.barrier);
}

/* ---- Sums ---- */

/* Return values whose sum depends on the order of additions. */
static double value_of(int rank, int64_t i)
{
    return ldexp(1 + (double)((i * 37 + rank * 11) % 101) / 101, (int)((i * 7 + rank * 13) % 60) - 30);
}

typedef struct sums {
    int64_t n;
    int is_apart; /* ranks do not see each other's memory */
    int wrong[MOST];
} sums;

static void sum_on_rank(msi_ranks *t, void *of)
{
    sums *s = of;
    double *array;
    if (msi_alloc(&array, s->n, sizeof *array, "test") != MSI_OK) return;
    /* Windows of zeros are not shared. */
    if (s->is_apart && msi_alloc(&t->windows, 1, 256, "test") != MSI_OK) return;
    for (int64_t i = 0; i < s->n; i++) array[i] = value_of(t->rank, i);
    s->wrong[t->rank] = msi_ranks_sum(t, array, s->n, MSI_FP64) != MSI_OK;
    for (int64_t i = 0; i < s->n; i++) {
        double want = 0;
        for (int k = 0; k < t->size; k++) want += value_of(k, i);
        s->wrong[t->rank] += array[i] != want;
    }
    msi_free(array);
}

/* Sum arrays with fewer values than ranks, with a part of a slice, and longer than the slices or windows of all ranks. */
static void test_sum(void **state)
{
    (void)state;
    static const int64_t length[] = {1, 4, 1001, 2 * (1 << 20) + 3};
    for (int n = 2; n <= MOST; n += 3)
        for (size_t i = 0; i < 2 * sizeof length / sizeof *length; i++) {
            sums s = {.n = length[i / 2], .is_apart = i % 2};
            run_on(n, sum_on_rank, &s);
            for (int k = 0; k < n; k++) assert_int_equal(s.wrong[k], 0);
        }
}

/* Rank 1 has no samples: its pixels are NaN. Plane 1 has no samples on any rank. */
static void average_on_rank(msi_ranks *t, void *of)
{
    enum { N = 16 };
    int *wrong = of;
    const msi_image_geometry g = {N, N, 1e-5, 1e-5};
    msi_image image;
    if (msi_image_alloc(&image, &g, 2, MSI_FP32) != MSI_OK) return;
    float *pixel = image.pixel;
    msi_image_fill_nan(&image, 1);
    if (t->rank == 1) msi_image_fill_nan(&image, 0);
    for (int i = 0; i < N * N && t->rank != 1; i++) pixel[i] = (float)(i + t->rank);
    image.sum_weight[0] = t->rank == 1 ? 0 : t->rank + 1;
    image.n_vis[0] = t->rank == 1 ? 0 : 10;
    wrong[t->rank] =
        msi_ranks_image(t, &image) != MSI_OK || image.sum_weight[0] != 4 || image.n_vis[0] != 20 || image.n_vis[1] != 0;
    /* Weights are 1 and 3: i * 1/4 + (i + 2) * 3/4, which is exact. */
    for (int i = 0; i < N * N; i++) wrong[t->rank] += pixel[i] != (float)i + 1.5f || !isnan(pixel[N * N + i]);
    msi_image_free(&image);
}

static void test_image(void **state)
{
    (void)state;
    int wrong[3];
    run_on(3, average_on_rank, wrong);
    for (int k = 0; k < 3; k++) assert_int_equal(wrong[k], 0);
}

/* Send bytes of rank 0 to all ranks, also more than one broadcast holds. */
static void broadcast_on_rank(msi_ranks *t, void *of)
{
    int64_t *n = of;
    unsigned char *data;
    if (msi_alloc(&data, *n, 1, "test") != MSI_OK) return;
    for (int64_t i = 0; t->rank == 0 && i < *n; i++) data[i] = (unsigned char)(i % 251 + 1);
    int wrong = msi_ranks_broadcast(t, data, *n) != MSI_OK;
    for (int64_t i = 0; i < *n; i++) wrong += data[i] != i % 251 + 1;
    pthread_mutex_lock(&shared.mutex);
    shared.n_wrong += wrong;
    pthread_mutex_unlock(&shared.mutex);
    msi_free(data);
}

static void test_broadcast(void **state)
{
    (void)state;
    static const int64_t length[] = {1, 1000, (1 << 22) + 5};
    shared.n_wrong = 0;
    for (size_t i = 0; i < sizeof length / sizeof *length; i++) run_on(3, broadcast_on_rank, &(int64_t){length[i]});
    assert_int_equal(shared.n_wrong, 0);
}

/* ---- Agreement ---- */

typedef struct agreement {
    int status[MOST]; /* of each rank */
    int got[MOST];
    char message[MOST][128];
} agreement;

static void agree_on_rank(msi_ranks *t, void *of)
{
    agreement *a = of;
    int rc = MSI_OK;
    if (a->status[t->rank]) rc = msi_error_set(a->status[t->rank], "rank %d says", t->rank);
    a->got[t->rank] = msi_ranks_agree(t, rc);
    snprintf(a->message[t->rank], sizeof a->message[t->rank], "%s", msi_error_get());
    /* A rank that has failed does not wait for the others again. */
    if (a->got[t->rank] && msi_ranks_agree(t, a->got[t->rank]) != a->got[t->rank]) a->got[t->rank] = MSI_EINTERNAL;
}

static void test_agree(void **state)
{
    (void)state;
    agreement none = {.got = {0}}, a = {.status = {0, 0, MSI_EOUTPUT, MSI_EINPUT}};
    run_on(4, agree_on_rank, &none);
    for (int k = 0; k < 4; k++) assert_int_equal(none.got[k], MSI_OK);
    shared.n_sent = shared.n_received = 0;
    run_on(4, agree_on_rank, &a);
    /* Two ranks send an alarm to three others each. */
    assert_int_equal(shared.n_sent, 2);
    assert_int_equal(shared.n_received, 6);
    for (int k = 0; k < 4; k++) {
        assert_int_equal(a.got[k], MSI_EOUTPUT);
        assert_string_equal(a.message[k], "rank 2 says");
    }
}

static void compare_on_rank(msi_ranks *t, void *of)
{
    agreement *a = of;
    a->got[t->rank] = msi_ranks_same(t, t->rank == 3 ? 8 : 7, "reads other sets");
    snprintf(a->message[t->rank], sizeof a->message[t->rank], "%s", msi_error_get());
}

static void test_same(void **state)
{
    (void)state;
    agreement a = {.got = {0}};
    run_on(3, compare_on_rank, &a);
    for (int k = 0; k < 3; k++) assert_int_equal(a.got[k], MSI_OK);
    run_on(5, compare_on_rank, &a);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(a.got[k], MSI_EINPUT);
        assert_string_equal(a.message[k], "rank 3 of 5 reads other sets than rank 0");
    }
}

/* ---- Assignment ---- */

/* Devices go to ranks in turn. If there are more ranks than devices, each rank has one. */
static void test_assign_devices(void **state)
{
    (void)state;
    static const int device[] = {7, 3, 5, 0, 2};
    int own[5];
    msi_ranks t = {.gpu_rank = 1, .gpu_size = 2};
    assert_int_equal(msi_ranks_assign_devices(device, 5, &t, own), 2);
    assert_true(own[0] == 3 && own[1] == 0);
    t.gpu_rank = 0;
    assert_int_equal(msi_ranks_assign_devices(device, 5, &t, own), 3);
    assert_true(own[0] == 7 && own[1] == 5 && own[2] == 2);
    t = (msi_ranks){.gpu_rank = 3, .gpu_size = 4};
    assert_int_equal(msi_ranks_assign_devices(device, 2, &t, own), 1);
    assert_int_equal(own[0], 3);
    t = (msi_ranks){.gpu_rank = 0, .gpu_size = 1};
    assert_int_equal(msi_ranks_assign_devices(device, 5, &t, own), 5);
    assert_memory_equal(own, device, sizeof device);
}

/* Ranks that see the same GPUs share those of -gpus, in each of its forms. */
static void test_gpus(void **state)
{
    (void)state;
    const msi_ranks second = {.rank = 1, .size = 4, .gpu_rank = 1, .gpu_size = 2};
    msi_options o = {.backend = MSI_BACKEND_CPU, .gpus = {.kind = MSI_GPUS_AUTO}};
    msi_gpu_share share;
    msi_gpu_share_start(&share, &o, &second);
    assert_true(share.n == 1 && share.device[0] == 1);
    o.gpus = (msi_gpus){.kind = MSI_GPUS_COUNT, .n = 4};
    msi_gpu_share_start(&share, &o, &second);
    assert_true(share.n == 2 && share.device[0] == 1 && share.device[1] == 3);
    o.gpus = (msi_gpus){.kind = MSI_GPUS_LIST, .n = 3, .device = {0, 6, 2}};
    msi_gpu_share_start(&share, &o, &second);
    assert_true(share.n == 1 && share.device[0] == 6);
    o.gpus = (msi_gpus){.kind = MSI_GPUS_COUNT, .n = 1};
    msi_gpu_share_start(&share, &o, &second);
    assert_true(share.n == 1 && share.device[0] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sum),       cmocka_unit_test(test_image), cmocka_unit_test(test_agree),
        cmocka_unit_test(test_broadcast), cmocka_unit_test(test_same),  cmocka_unit_test(test_assign_devices),
        cmocka_unit_test(test_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
