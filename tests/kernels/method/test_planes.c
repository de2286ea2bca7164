/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Image planes of either backend: zero at first, copied in and out plane by plane, with errors for invalid shapes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gridder.h"
#include "kernels/method/planes.h"
#include "kernels/strategy.h"

enum { NX = 6, NY = 10, N = 3, EACH = NX * NY };

static msi_backend backend = MSI_BACKEND_CPU;

static msi_planes_shape shape_of(msi_precision precision)
{
    return (msi_planes_shape){.nx = NX, .ny = NY, .n = N, .precision = precision, .backend = backend};
}

static void check_copies(msi_precision precision)
{
    const msi_planes_shape shape = shape_of(precision);
    const size_t pixel = precision == MSI_FP32 ? 4 : 8;
    msi_planes *p = NULL;
    unsigned char in[2 * EACH * 8], out[N * EACH * 8], zero[EACH * 8] = {0};
    for (size_t i = 0; i < sizeof in; i++) in[i] = (unsigned char)(7 * i + 1);
    memset(out, 1, sizeof out);
    assert_int_equal(msi_planes_create(&p, &shape), MSI_OK);
    assert_int_equal(msi_planes_bytes(&shape), (int64_t)(N * EACH * pixel));
    assert_memory_equal(msi_planes_shape_of(p), &shape, sizeof shape);
    assert_int_equal((char *)msi_planes_pixel(p, 2) - (char *)msi_planes_pixel(p, 0), 2 * EACH * pixel);

    assert_int_equal(msi_planes_fetch(p, 0, N, out), MSI_OK);
    for (int i = 0; i < N; i++) assert_memory_equal(out + i * EACH * pixel, zero, EACH * pixel);
    assert_int_equal(msi_planes_upload(p, 1, 2, in), MSI_OK);
    assert_int_equal(msi_planes_fetch(p, 0, N, out), MSI_OK);
    assert_memory_equal(out, zero, EACH * pixel);
    assert_memory_equal(out + EACH * pixel, in, 2 * EACH * pixel);
    assert_int_equal(msi_planes_zero(p, 2, 1), MSI_OK);
    assert_int_equal(msi_planes_fetch(p, 1, 2, out), MSI_OK);
    assert_memory_equal(out, in, EACH * pixel);
    assert_memory_equal(out + EACH * pixel, zero, EACH * pixel);

    assert_int_equal(msi_planes_fetch(p, 2, 2, out), MSI_EINTERNAL);
    assert_int_equal(msi_planes_upload(p, -1, 1, in), MSI_EINTERNAL);
    assert_int_equal(msi_planes_zero(p, 0, N + 1), MSI_EINTERNAL);
    msi_planes_free(p);
}

static void test_copies(void **state)
{
    (void)state;
    check_copies(MSI_FP32);
    check_copies(MSI_FP64);
}

/* A view shares the pixels of its planes, and planes are copied from one to another. */
static void test_views(void **state)
{
    (void)state;
    const int64_t before = msi_memory_in_use();
    const msi_planes_shape shape = shape_of(MSI_FP64);
    msi_planes_shape other = shape;
    msi_planes *p, *view, *of_view, *copy;
    double in[EACH], out[N * EACH];
    for (int i = 0; i < EACH; i++) in[i] = 3 * i + 1;
    assert_int_equal(msi_planes_create(&p, &shape), MSI_OK);
    assert_int_equal(msi_planes_create(&copy, &shape), MSI_OK);
    assert_int_equal(msi_planes_view(&view, p, 1, 2), MSI_OK);
    assert_int_equal(msi_planes_view(&of_view, view, 1, 1), MSI_OK);
    assert_int_equal(msi_planes_shape_of(view)->n, 2);
    assert_ptr_equal(msi_planes_pixel(of_view, 0), msi_planes_pixel(p, 2));
    assert_int_equal(msi_planes_upload(of_view, 0, 1, in), MSI_OK);
    assert_int_equal(msi_planes_copy(copy, 0, view, 1, 1), MSI_OK);
    assert_int_equal(msi_planes_fetch(copy, 0, N, out), MSI_OK);
    assert_memory_equal(out, in, sizeof in);
    for (int i = EACH; i < N * EACH; i++) assert_true(out[i] == 0);

    msi_planes *none;
    assert_int_equal(msi_planes_view(&none, view, 1, 2), MSI_EINTERNAL);
    assert_null(none);
    assert_int_equal(msi_planes_copy(copy, 2, p, 0, 2), MSI_EINTERNAL);
    assert_int_equal(msi_planes_copy(copy, 0, p, 2, 2), MSI_EINTERNAL);
    msi_planes_free(copy);
    other.nx += 2;
    assert_int_equal(msi_planes_create(&copy, &other), MSI_OK);
    assert_int_equal(msi_planes_copy(copy, 0, p, 0, 1), MSI_EINTERNAL);
    msi_planes_free(copy);
    msi_planes_free(of_view);
    msi_planes_free(view);
    msi_planes_free(p);
    assert_true(msi_memory_in_use() == before);
}

static void test_refusals(void **state)
{
    (void)state;
    const int64_t before = msi_memory_in_use();
    msi_planes *p = NULL;
    msi_planes_shape shape = shape_of(MSI_FP32);
    shape.n = 0;
    assert_int_equal(msi_planes_create(&p, &shape), MSI_EINTERNAL);
    shape = shape_of(MSI_FP32);
    shape.backend = MSI_BACKEND_AUTO;
    assert_int_equal(msi_planes_create(&p, &shape), MSI_EINTERNAL);
    shape = shape_of(MSI_FP64);
    shape.nx = shape.ny = (int64_t)1 << 25; /* 8 PiB */
    assert_int_equal(msi_planes_create(&p, &shape), backend == MSI_BACKEND_CPU ? MSI_ENOMEM : MSI_EGPU);
    shape = shape_of(MSI_FP64);
    shape.backend = MSI_BACKEND_CUDA;
    shape.device = 1 << 20;
    assert_int_equal(msi_planes_create(&p, &shape), MSI_EGPU);
    assert_null(p);
    assert_true(msi_memory_in_use() == before);
    msi_planes_free(NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_copies), cmocka_unit_test(test_views),
                                       cmocka_unit_test(test_refusals)};
    if (argc > 1 && strcmp(argv[1], "cuda") == 0) backend = MSI_BACKEND_CUDA;
    const msi_strategy *gpu = msi_strategy_find("wgrid", "planes", MSI_BACKEND_CUDA);
    if (backend == MSI_BACKEND_CUDA && (!gpu || !msi_strategy_available(gpu))) {
        printf("skipped: %s\n", msi_backend_describe());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
