/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workers of a strategy of one backend compared with a gridder without workers and with the direct sum: test_workers
 * cpu|cuda [planes|subgrid]. If there are more workers than devices, they share devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gridder.h"
#include "tests/support/direct_sum.h"
#include "tests/support/wgrid_cases.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/gpu_memory.h"
#endif

static msi_case_choice chosen;

enum { MOST_WORKERS = 8 };
static int workers[MOST_WORKERS];

static msi_case wide = {.name = "wide",
                        .nx = 256,
                        .ny = 240,
                        .field_x_rad = 0.35,
                        .w_ratio = 0.5,
                        .n_row = 9000,
                        .n_chan = 5,
                        .n_plane = 3,
                        .band = 1.4,
                        .layout = CONCENTRATED};

static void check(int rc)
{
    if (rc) fail_msg("code %d: %s", rc, msi_error_get());
}

static msi_gridder_spec spec_of(const msi_field *f, int n_worker, double accuracy)
{
    msi_gridder_spec spec = msi_case_spec(&chosen, &f->data.geometry, f->data.block.n_plane, accuracy);
    spec.n_worker = n_worker;
    spec.worker = workers;
    return spec;
}

static msi_gridder *gridder_of(const msi_field *f, const msi_gridder_spec *spec)
{
    msi_gridder *g;
    check(msi_gridder_create(&g, spec));
    check(msi_gridder_add(g, &f->data.block));
    return g;
}

/* Estimate the difference due to the order of sums. */
static double rounding(const msi_image *image)
{
    return image->precision == MSI_FP32 ? 3e-6 : 1e-13;
}

static void check_alike(const msi_image *made, const msi_image *alone, const char *what, int n_worker)
{
    for (int p = 0; p < alone->n_plane; p++) {
        const double difference = msi_image_difference(made, alone, p);
        if (!(difference <= rounding(alone)))
            fail_msg("%s by %d workers, plane %d: %.2e", what, n_worker, p, difference);
    }
}

/* Make images and the PSF, once. */
static void image_by(const msi_field *f, int n_worker, double accuracy, msi_image *out)
{
    msi_gridder_spec spec = spec_of(f, n_worker, accuracy);
    spec.psf = 1;
    msi_gridder *g = gridder_of(f, &spec);
    check(msi_gridder_image(g, out));
    msi_gridder_free(g);
}

/* Make residuals of a model, twice, then the PSF. */
static void residual_by(const msi_field *f, int n_worker, double accuracy, msi_image *out)
{
    msi_gridder_spec spec = spec_of(f, n_worker, accuracy);
    msi_image model;
    msi_planes *from, *left, *psf;
    spec.residual = 1;
    spec.psf = 1;
    msi_gridder *g = gridder_of(f, &spec);
    const int n = spec.n_plane;
    check(msi_image_alloc(out, &spec.geometry, n + 1, msi_gridder_precision(g)));
    msi_case_model(&model, &spec.geometry, n, f->pixels, msi_gridder_precision(g));
    check(msi_gridder_planes(g, n, &from));
    check(msi_gridder_planes(g, n, &left));
    check(msi_gridder_planes(g, 1, &psf));
    check(msi_planes_upload(from, 0, n, model.pixel));
    check(msi_gridder_residual(g, NULL, left));
    check(msi_gridder_residual(g, from, left));
    check(msi_gridder_psf(g, psf));
    check(msi_planes_fetch(left, 0, n, out->pixel));
    check(msi_planes_fetch(
        psf, 0, 1, (char *)out->pixel + n * msi_image_n_pixel(&spec.geometry) * msi_image_pixel_bytes(out->precision)));
    msi_planes_free(from);
    msi_planes_free(left);
    msi_planes_free(psf);
    msi_image_free(&model);
    msi_gridder_free(g);
}

static void check_workers(void (*make)(const msi_field *, int, double, msi_image *), const char *what)
{
    static const double accuracies[] = {1e-3, 1e-5, 1e-9};
    msi_field f;
    msi_field_make(&f, &wide, chosen.brief ? 10 : 40, 21);
    for (size_t a = 0; a < (chosen.brief ? 1 : sizeof accuracies / sizeof *accuracies); a++) {
        msi_image alone, made;
        make(&f, 0, accuracies[a], &alone);
        for (int n = 1; n <= MOST_WORKERS; n += n < 4 ? 1 : 4) {
            make(&f, n, accuracies[a], &made);
            check_alike(&made, &alone, what, n);
            msi_image_free(&made);
        }
        msi_image_free(&alone);
    }
    msi_field_free(&f);
}

static void test_images(void **state)
{
    (void)state;
    check_workers(image_by, "images");
}

static void test_residuals(void **state)
{
    (void)state;
    check_workers(residual_by, "residuals");
}

/* The workers' results are compared with the direct sum too. */
static void test_direct_sum(void **state)
{
    (void)state;
    msi_field f;
    msi_image made;
    msi_field_make(&f, &wide, 10, 22);
    image_by(&f, 2, 1e-5, &made);
    for (int p = 0; p < made.n_plane; p++)
        assert_true(msi_case_error(&f.data, &made, p, p < wide.n_plane ? p : -1, chosen.brief ? 20 : 100, 5) <= 1e-5);
    msi_image_free(&made);
    msi_field_free(&f);
}

/* Every sample's sum depends only on the planes: on the CPU it is the same to the bit. */
static void test_predictions(void **state)
{
    (void)state;
    msi_field f;
    msi_gridder_report report;
    msi_field_make(&f, &wide, 20, 23);
    const int64_t n = wide.n_plane * f.n;
    msi_gridder_spec spec = spec_of(&f, 0, 1e-5);
    msi_field_predict(&f, &spec, &report);
    msi_c64 *alone = msi_test_alloc(n, sizeof *alone);
    memcpy(alone, f.vis, (size_t)n * sizeof *alone);
    for (int k = 1; k <= MOST_WORKERS; k += k < 4 ? 1 : 4) {
        double worst;
        spec.n_worker = k;
        memset(f.vis, 0, (size_t)n * sizeof *f.vis);
        msi_field_predict(&f, &spec, &report);
        if (!chosen.on_gpu)
            assert_memory_equal(f.vis, alone, (size_t)n * sizeof *alone);
        else
            assert_true(msi_vis_distance(f.vis, alone, n, &worst) <= 3e-6);
    }
    free(alone);
    msi_field_free(&f);
}

/* More workers than there is work for, and a store without a sample. */
static void test_little_work(void **state)
{
    (void)state;
    msi_case one = wide;
    one.n_row = 1;
    one.n_chan = 1;
    one.n_plane = 1;
    msi_field f;
    msi_image made, alone;
    msi_field_make(&f, &one, 10, 24);
    image_by(&f, 0, 1e-4, &alone);
    image_by(&f, MOST_WORKERS, 1e-4, &made);
    check_alike(&made, &alone, "one sample", MOST_WORKERS);
    msi_image_free(&made);
    msi_image_free(&alone);
    const msi_gridder_spec spec = spec_of(&f, 3, 1e-4);
    msi_gridder *g;
    check(msi_gridder_create(&g, &spec));
    check(msi_gridder_image(g, &made));
    assert_true(msi_pixel_at(&made, 0) != msi_pixel_at(&made, 0));
    msi_image_free(&made);
    msi_gridder_free(g);
    msi_field_free(&f);
}

#ifdef MSI_HAVE_CUDA
/* Copies through the host give the same. */
static void test_without_links(void **state)
{
    (void)state;
    if (!chosen.on_gpu) skip();
    msi_gpu_peer_allow(0);
    check_workers(residual_by, "residuals through the host");
    check_workers(image_by, "images through the host");
    msi_gpu_peer_allow(1);
}
#endif

int main(int argc, char **argv)
{
    /* Links between GPUs stay enabled: tests without them come first. */
    const struct CMUnitTest tests[] = {
#ifdef MSI_HAVE_CUDA
        cmocka_unit_test(test_without_links),
#endif
        cmocka_unit_test(test_images),        cmocka_unit_test(test_residuals),  cmocka_unit_test(test_direct_sum),
        cmocka_unit_test(test_predictions),   cmocka_unit_test(test_little_work)};
    const int rc = msi_case_choose(argc, argv, &chosen);
    if (rc) return rc;
    if (!chosen.is_planes && !chosen.on_gpu) { /* towers take long on a CPU */
        wide.nx = 192;
        wide.ny = 180;
    }
#ifdef MSI_HAVE_CUDA
    for (int i = 0; chosen.on_gpu && i < MOST_WORKERS; i++) workers[i] = i % msi_gpu_count();
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
