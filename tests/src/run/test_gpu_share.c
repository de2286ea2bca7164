/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests how many output channels GPUs grid at a time, given their free memory. The linker replaces the kernels'
 * functions that query GPUs by those below. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "core/status.h"
#include "kernels/backend.h"
#include "src/run/gpu_share.h"

enum { N_GPU = 2 };

static const int64_t GB = 1000000000;
static int64_t free_bytes[8];
static int n_await;

int64_t __wrap_msi_backend_device_bytes(int device);
int64_t __wrap_msi_backend_device_bytes(int device)
{
    return free_bytes[device];
}

int __wrap_msi_backend_n_device(void);
int __wrap_msi_backend_n_device(void)
{
    return N_GPU;
}

void __wrap_msi_backend_await(const int *device, int n);
void __wrap_msi_backend_await(const int *device, int n)
{
    (void)device;
    n_await += n;
}

void __wrap_msi_backend_warm_up(msi_backend backend, const int *device, int n);
void __wrap_msi_backend_warm_up(msi_backend backend, const int *device, int n)
{
    (void)backend;
    (void)device;
    (void)n;
}

/* A GPU has up to four slots of four threads each, if there are enough channels and enough memory of the GPU and of the
 * host; two slots need fewer threads. With joined deconvolution it has one. */
static void test_slots(void **state)
{
    (void)state;
    const msi_ranks alone = MSI_RANKS_ALONE;
    const msi_gridder_report report = {.backend = MSI_BACKEND_CUDA, .device_bytes = 10};
    const msi_gpu_work enough = {.gridder = &report,
                                 .n_channel = 16,
                                 .n_image = 1,
                                 .one_gpu_s = 1,
                                 .device_bytes = 10,
                                 .slot_bytes = 5,
                                 .free_bytes = 15};
    const struct {
        int n_gpu, n_channel, niter; /* niter -1: channels that are cleaned apart */
        int64_t gpu_bytes, free_bytes;
        int n_slot, n_thread;
    } cases[] = {
        {1, 16, 0, 40, 15, 2, 8},   {1, 2, 0, 40, 5, 2, 8},    {1, 1, 0, 40, 15, 1, 8},   {1, 16, 0, 39, 15, 1, 8},
        {1, 16, 0, 40, 4, 1, 8},    {1, 16, 9, 40, 15, 1, 8},  {2, 16, 0, 40, 15, 4, 8},  {2, 3, 0, 40, 15, 2, 8},
        {2, 16, 0, 40, 14, 2, 8},   {2, 16, 0, 39, 15, 2, 8},  {2, 16, 9, 40, 15, 2, 8},  {2, 1, 0, 40, 15, 1, 8},
        {1, 16, 0, 80, 15, 4, 16},  {1, 3, 0, 80, 15, 3, 16},  {1, 16, 0, 79, 15, 3, 16}, {1, 16, 0, 80, 14, 3, 16},
        {1, 16, 0, 80, 15, 3, 15},  {2, 16, 0, 80, 35, 8, 32}, {2, 16, 0, 80, 35, 6, 31}, {1, 16, 0, 80, 15, 2, 1},
        {2, 16, -1, 80, 35, 8, 32}, {2, 16, -1, 39, 15, 2, 8}, {1, 16, -1, 80, 15, 4, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        msi_gpu_share share = {.ranks = &alone, .n = cases[i].n_gpu, .device = {3, 5}};
        msi_options o = {.gpus = {.kind = MSI_GPUS_COUNT, .n = cases[i].n_gpu}};
        msi_gpu_work work = enough;
        o.clean.niter = cases[i].niter;
        o.n_threads = cases[i].n_thread;
        work.apart = cases[i].niter <= 0;
        work.n_channel = cases[i].n_channel;
        free_bytes[3] = cases[i].gpu_bytes;
        work.free_bytes = cases[i].free_bytes;
        msi_gpu_share_plan(&share, &o, &work);
        assert_int_equal(share.n_slot, cases[i].n_slot);
        for (int64_t c = 0; c < cases[i].n_channel && share.n_slot > 1; c++) {
            msi_gridder_spec spec = {.residual = cases[i].niter != 0, .n_thread = cases[i].n_thread};
            msi_gpu_share_gridder(&share, c, &spec);
            assert_int_equal(cases[i].niter > 0 ? spec.worker[0] : spec.device, c % cases[i].n_gpu ? 5 : 3);
            assert_int_equal(spec.n_thread, cases[i].n_thread > share.n_slot ? cases[i].n_thread / share.n_slot : 1);
        }
    }
}

/* GPUs take the fields or facets of a channel in turns, whatever the number of channels. */
static void test_units(void **state)
{
    (void)state;
    const msi_ranks alone = MSI_RANKS_ALONE;
    const msi_gridder_report report = {.backend = MSI_BACKEND_CUDA, .device_bytes = 10};
    const msi_gpu_work work = {
        .gridder = &report, .n_channel = 16, .n_image = 1, .n_unit = 37, .unit = "fields", .one_gpu_s = 74, .apart = 1};
    const msi_options o = {.gpus = {.kind = MSI_GPUS_COUNT, .n = 2}, .n_threads = 8};
    msi_gpu_share share = {.ranks = &alone, .n = 2, .device = {3, 5}};
    msi_gridder_spec spec = {.residual = 1, .n_thread = 8};
    free_bytes[3] = 80;
    msi_gpu_share_plan(&share, &o, &work);
    assert_int_equal(share.n_slot, 1);
    assert_true(msi_gpu_share_s(&share, &work) == 2 * 19);
    msi_gpu_share_gridder(&share, 1, &spec);
    assert_int_equal(spec.n_worker, 2);
    assert_int_equal(spec.worker[1], 5);
    /* Two GPUs gain nothing for one image, but half the time of its facets. */
    const msi_options best = {.gpus = {.kind = MSI_GPUS_AUTO}, .n_threads = 8};
    share = (msi_gpu_share){.ranks = &alone, .n = 1};
    msi_gpu_share_plan(&share, &best, &work);
    assert_int_equal(share.n, 2);
    msi_gpu_work whole = work;
    whole.n_unit = 0;
    whole.n_channel = 1;
    share = (msi_gpu_share){.ranks = &alone, .n = 1};
    msi_gpu_share_plan(&share, &best, &whole);
    assert_int_equal(share.n, 1);
}

/* Plan 64 channels, whose gridders need 10 GB of a GPU each, and adjust when the free memory has become `then`. */
static void check_slots(msi_gpus gpus, int64_t first, int64_t then, int planned, int adjusted)
{
    const msi_ranks alone = MSI_RANKS_ALONE;
    const msi_options o = {.gpus = gpus, .n_threads = 64};
    const msi_gridder_report gridder = {.backend = MSI_BACKEND_CUDA, .device_bytes = 10 * GB};
    const msi_gpu_work work = {.gridder = &gridder,
                               .n_channel = 64,
                               .n_image = 1,
                               .one_gpu_s = 0.1,
                               .apart = 1,
                               .device_bytes = gridder.device_bytes};
    msi_gpu_share share;
    for (int i = 0; i < N_GPU; i++) free_bytes[i] = first;
    msi_gpu_share_start(&share, &o, &alone);
    assert_int_equal(msi_gpu_share_check(&share, &o), 0);
    msi_gpu_share_plan(&share, &o, &work);
    assert_int_equal(share.n_slot, planned);
    free_bytes[share.n - 1] = then; /* another program may use the last GPU */
    msi_gpu_share_adjust(&share, gridder.device_bytes);
    assert_int_equal(share.n_slot, adjusted);
}

static void test_slots_of_free_memory(void **state)
{
    (void)state;
    const msi_gpus one = {.kind = MSI_GPUS_ONE}, both = {.kind = MSI_GPUS_ALL},
                   same = {.kind = MSI_GPUS_LIST, .n = 2, .device = {0, 0}};
    check_slots(one, 140 * GB, 140 * GB, 4, 4);
    check_slots(one, 60 * GB, 60 * GB, 3, 3);
    check_slots(one, 30 * GB, 30 * GB, 1, 1);
    /* Another program uses memory after the plan. */
    check_slots(one, 140 * GB, 45 * GB, 4, 2);
    check_slots(one, 140 * GB, 5 * GB, 4, 1);
    check_slots(both, 140 * GB, 140 * GB, 8, 8);
    check_slots(both, 140 * GB, 65 * GB, 8, 6);
    check_slots(both, 140 * GB, 5 * GB, 8, 2);
    /* A GPU that is listed twice has its memory once. */
    check_slots(same, 140 * GB, 140 * GB, 6, 6);
    check_slots(same, 90 * GB, 90 * GB, 4, 4);
}

/* One channel on each GPU is planned without waiting for the GPUs. */
static void test_single_slots_do_not_wait(void **state)
{
    (void)state;
    n_await = 0;
    check_slots((msi_gpus){.kind = MSI_GPUS_ALL}, 15 * GB, 15 * GB, 2, 2);
    assert_int_equal(n_await, 0);
}

/* Work is left to the CPU, or refused with -backend cuda, if a GPU lacks the memory that it needs at least: cleaning
 * 45000 x 45000 pixels on GPUs with 141 GB and 80 GB. */
static void test_least_memory(void **state)
{
    (void)state;
    const msi_ranks alone = MSI_RANKS_ALONE;
    const msi_gridder_report on_gpu = {.backend = MSI_BACKEND_CUDA}, on_cpu = {.backend = MSI_BACKEND_CPU};
    const struct {
        int64_t has_gb, needs_gb;
        int n_place, is_small;
    } cases[] = {{141, 141, 1, 0}, {141, 142, 1, 1}, {80, 142, 1, 1}, {80, 80, 1, 0},
                 {141, 70, 2, 0},  {141, 71, 2, 1},  {0, 142, 1, 0}}; /* 0: unknown */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const msi_gpu_share share = {.ranks = &alone, .n = cases[i].n_place, .device = {1, 1}};
        const int64_t bytes = cases[i].needs_gb * GB;
        msi_options o = {.backend = MSI_BACKEND_AUTO};
        int fits = -1;
        free_bytes[1] = cases[i].has_gb * GB;
        assert_int_equal(msi_gpu_share_check_memory(&share, &o, &on_cpu, bytes, "images", &fits), 0);
        assert_int_equal(fits, 1);
        assert_int_equal(msi_gpu_share_check_memory(&share, &o, &on_gpu, bytes, "images", &fits), 0);
        assert_int_equal(fits, !cases[i].is_small);
        o.backend = MSI_BACKEND_CUDA;
        const int rc = msi_gpu_share_check_memory(&share, &o, &on_gpu, bytes, "images", &fits);
        assert_int_equal(rc, cases[i].is_small ? MSI_ENOMEM : 0);
        if (rc) assert_non_null(strstr(msi_error_get(), "of GPU memory"));
        if (rc) assert_string_equal(msi_error_about_get(), "backend");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_slots), cmocka_unit_test(test_slots_of_free_memory),
                                       cmocka_unit_test(test_least_memory),
                                       cmocka_unit_test(test_single_slots_do_not_wait), cmocka_unit_test(test_units)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
