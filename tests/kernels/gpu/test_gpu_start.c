/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Threads start, count, await, describe and release devices at the same time, with and without devices, and get
 * consistent results. ThreadSanitizer must not find a race. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/backend.h"
#include "kernels/gpu/gpu_device.h"

enum { N_THREAD = 8, N_ROUND = 20 };

typedef struct told {
    pthread_barrier_t *all;
    int n_device, n_contradiction;
    char device[256], absent[256], versions[256];
} told;

static void keep(char *to, const char *line)
{
    strncpy(to, line, 255);
}

static void *ask(void *of)
{
    told *t = of;
    for (int round = 0; round < N_ROUND; round++) {
        pthread_barrier_wait(t->all);
        msi_gpu_warm_up(0);
        msi_gpu_warm_up(1);
        t->n_device = msi_gpu_count();
        msi_gpu_await(0);
        keep(t->device, msi_gpu_describe(0));
        keep(t->absent, msi_gpu_describe(MSI_GPU_MAX_DEVICES));
        keep(t->versions, msi_backend_versions());
        size_t free_bytes, total_bytes;
        t->n_contradiction += (msi_gpu_memory(0, &free_bytes, &total_bytes) == 0) != (total_bytes > 0);
        msi_gpu_await_all();
    }
    return NULL;
}

static void test_many_start_at_once(void **state)
{
    (void)state;
    static told by[N_THREAD];
    pthread_t thread[N_THREAD];
    pthread_barrier_t all;
    assert_int_equal(pthread_barrier_init(&all, NULL, N_THREAD), 0);
    for (int i = 0; i < N_THREAD; i++) by[i].all = &all;
    for (int i = 1; i < N_THREAD; i++) assert_int_equal(pthread_create(&thread[i], NULL, ask, &by[i]), 0);
    ask(&by[0]);
    for (int i = 1; i < N_THREAD; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    pthread_barrier_destroy(&all);
    for (int i = 0; i < N_THREAD; i++) {
        assert_int_equal(by[i].n_contradiction, 0);
        assert_int_equal(by[i].n_device, by[0].n_device);
        assert_string_equal(by[i].device, by[0].device);
        assert_string_equal(by[i].absent, by[0].absent);
        assert_string_equal(by[i].versions, by[0].versions);
        assert_non_null(strstr(by[i].absent, "no GPU"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_start_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
