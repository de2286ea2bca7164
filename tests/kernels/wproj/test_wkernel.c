/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Convolution functions of w-projection against their definition, summed in long double. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/wproj/job/wkernel.h"
#include "tests/support/wgrid_cases.h"

typedef struct complex_l {
    long double re, im;
} complex_l;

/* n - 1, outside the image the parabola that touches it at its edge: wkernel.h. */
static long double screen(long double l, long double m, long double half_l, long double half_m)
{
    long double a = fminl(l, half_l), b = fminl(m, half_m), n = sqrtl(1 - a * a - b * b), dl = l - a, dm = m - b;
    long double k = n > 0.3L ? 1 / n : 1 / 0.3L, along = a * dl + b * dm;
    return -(a * a + b * b) / (1 + n) - along / n - 0.5L * (k * (dl * dl + dm * dm) + k * k * k * along * along);
}

/* A separable kernel's phase along one axis is the mean of n - 1 at both ends of the other, so that the two parts add
 * up to n - 1 except for l^2 m^2 less its own such mean. */
static long double part(const msi_wkernel_spec *s, int axis, long double l)
{
    long double half_l = 0.5L * (axis ? s->image_v_rad : s->image_u_rad);
    long double half_m = 0.5L * (axis ? s->image_u_rad : s->image_v_rad);
    if (s->phase == MSI_WPHASE_AXIS) return screen(l, 0, half_l, half_m);
    long double corners =
        screen(half_l, half_m, half_l, half_m) + screen(half_l, 0, half_l, half_m) + screen(0, half_m, half_l, half_m);
    return (screen(l, 0, half_l, half_m) + screen(l, half_m, half_l, half_m)) / 2 - corners / 8;
}

static const msi_pswf *window_of(const msi_wkernel_spec *s, int axis)
{
    return axis ? s->pswf_v : s->pswf_u;
}

enum { PANELS = 48, NODES = 2 * 4 * PANELS };

/* Integrate by four-point Gauss quadrature on panels of [0, edge] and [edge, band]: with x in cycles a cell and weights
 * that hold the taper and the even function's other half. For the few turns that the phases here make in a panel's
 * width of 1/48 it is good to better than 1e-13. */
static void quadrature(const msi_wkernel_spec *s, int axis, long double *x, long double *weight)
{
    const msi_pswf *w = window_of(s, axis);
    long double field = axis ? s->field_v_rad : s->field_u_rad, image = axis ? s->image_v_rad : s->image_u_rad;
    long double ends[3] = {0, image / (2 * field), 1 / (long double)w->omega_per_x};
    if (ends[1] > ends[2]) ends[1] = ends[2];
    long double inner = sqrtl(3.0L / 7 - 2.0L / 7 * sqrtl(1.2L)), outer = sqrtl(3.0L / 7 + 2.0L / 7 * sqrtl(1.2L));
    long double node[4] = {-outer, -inner, inner, outer};
    long double heavy = (18 + sqrtl(30)) / 36, light = (18 - sqrtl(30)) / 36, share[4] = {light, heavy, heavy, light};
    int n = 0;
    for (int side = 0; side < 2; side++)
        for (int p = 0; p < PANELS; p++)
            for (int i = 0; i < 4; i++, n++) {
                long double width = (ends[side + 1] - ends[side]) / PANELS;
                x[n] = ends[side] + (p + 0.5L + 0.5L * node[i]) * width;
                weight[n] = 0.5L * share[i] * width * msi_pswf_transform(w, (double)x[n]) / w->transform_at_0;
            }
}

static complex_l turn(long double turns)
{
    long double phase = 2 * acosl(-1) * (turns - rintl(turns));
    return (complex_l){cosl(phase), sinl(phase)};
}

static complex_l separable_kernel(const msi_wkernel_spec *s, int axis, long double w, long double t)
{
    static long double x[NODES], weight[NODES];
    complex_l sum = {0, 0};
    quadrature(s, axis, x, weight);
    for (int i = 0; i < NODES; i++) {
        complex_l e = turn(-w * part(s, axis, x[i] * (axis ? s->field_v_rad : s->field_u_rad)));
        long double c = 2 * weight[i] * turn(t * x[i]).re;
        sum.re += c * e.re;
        sum.im += c * e.im;
    }
    return sum;
}

static complex_l full_kernel(const msi_wkernel_spec *s, long double w, long double tu, long double tv)
{
    static long double x[NODES], y[NODES], weight_x[NODES], weight_y[NODES], cosine_y[NODES];
    complex_l sum = {0, 0};
    quadrature(s, 0, x, weight_x);
    quadrature(s, 1, y, weight_y);
    for (int j = 0; j < NODES; j++) cosine_y[j] = 2 * weight_y[j] * turn(tv * y[j]).re;
    for (int i = 0; i < NODES; i++) {
        long double c = 2 * weight_x[i] * turn(tu * x[i]).re;
        for (int j = 0; j < NODES; j++) {
            complex_l e = turn(-w * screen(x[i] * s->field_u_rad, y[j] * s->field_v_rad, 0.5L * s->image_u_rad,
                                           0.5L * s->image_v_rad));
            sum.re += c * cosine_y[j] * e.re;
            sum.im += c * cosine_y[j] * e.im;
        }
    }
    return sum;
}

typedef struct kernel_case {
    const char *name;
    double image_u_rad, image_v_rad, sigma_u, sigma_v;
    int width;
    msi_wkernel_form form;
    msi_wkernel_phase phase;
    int32_t oversample;
    double w_max, truncation;
} kernel_case;

static const kernel_case cases[] = {
    {.name = "narrow",
     .image_u_rad = 0.02,
     .image_v_rad = 0.02,
     .sigma_u = 1.3,
     .sigma_v = 1.3,
     .width = 6,
     .form = MSI_WKERNEL_SEPARABLE,
     .phase = MSI_WPHASE_FITTED,
     .oversample = 16,
     .w_max = 8000,
     .truncation = 1e-3},
    {.name = "axis",
     .image_u_rad = 0.1,
     .image_v_rad = 0.1,
     .sigma_u = 1.5,
     .sigma_v = 1.5,
     .width = 6,
     .form = MSI_WKERNEL_SEPARABLE,
     .phase = MSI_WPHASE_AXIS,
     .oversample = 8,
     .w_max = 500,
     .truncation = 1e-3},
    {.name = "oblong",
     .image_u_rad = 0.1,
     .image_v_rad = 0.06,
     .sigma_u = 1.4,
     .sigma_v = 1.7,
     .width = 5,
     .form = MSI_WKERNEL_SEPARABLE,
     .phase = MSI_WPHASE_FITTED,
     .oversample = 10,
     .w_max = 400,
     .truncation = 3e-3},
    {.name = "full",
     .image_u_rad = 0.3,
     .image_v_rad = 0.3,
     .sigma_u = 1.4,
     .sigma_v = 1.4,
     .width = 5,
     .form = MSI_WKERNEL_FULL,
     .phase = MSI_WPHASE_FITTED,
     .oversample = 4,
     .w_max = 60,
     .truncation = 3e-3},
    {.name = "full oblong",
     .image_u_rad = 0.3,
     .image_v_rad = 0.2,
     .sigma_u = 1.4,
     .sigma_v = 1.6,
     .width = 7,
     .form = MSI_WKERNEL_FULL,
     .phase = MSI_WPHASE_FITTED,
     .oversample = 6,
     .w_max = 50,
     .truncation = 1e-4},
};
enum { N_CASE = sizeof cases / sizeof *cases, N_PLANE = 9 };

typedef struct made {
    msi_pswf pswf_u, pswf_v;
    double w_lambda[N_PLANE];
    msi_wkernel_spec spec;
    msi_wkernel_set set;
} made;

static void make(made *m, const kernel_case *c, msi_precision precision)
{
    assert_int_equal(msi_pswf_make(&m->pswf_u, c->width, c->sigma_u), 0);
    assert_int_equal(msi_pswf_make(&m->pswf_v, c->width, c->sigma_v), 0);
    for (int p = 0; p < N_PLANE; p++) m->w_lambda[p] = c->w_max * p * p / ((N_PLANE - 1) * (N_PLANE - 1));
    m->spec = (msi_wkernel_spec){.field_u_rad = c->image_u_rad * c->sigma_u,
                                 .field_v_rad = c->image_v_rad * c->sigma_v,
                                 .image_u_rad = c->image_u_rad,
                                 .image_v_rad = c->image_v_rad,
                                 .pswf_u = &m->pswf_u,
                                 .pswf_v = &m->pswf_v,
                                 .form = c->form,
                                 .phase = c->phase,
                                 .precision = precision,
                                 .oversample = c->oversample,
                                 .n_plane = N_PLANE,
                                 .w_lambda = m->w_lambda,
                                 .truncation = c->truncation};
    if (msi_wkernel_make(&m->set, &m->spec)) fail_msg("%s: %s", c->name, msi_error_get());
}

static complex_l element(const msi_wkernel_set *k, int64_t at)
{
    assert_true(at >= 0 && at < k->n_element);
    if (k->precision == MSI_FP32) {
        msi_c32 x = ((const msi_c32 *)k->table)[at];
        return (complex_l){x.re, x.im};
    }
    msi_c64 x = ((const msi_c64 *)k->table)[at];
    return (complex_l){x.re, x.im};
}

/* Tables hold, at random planes, sub-offsets and taps, what the definition says: to rounding of the type, relative to
 * the kernel's centre (at most 1). Sums of a thousand terms in double are good to some 1e-14. */
static void test_definition(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < N_CASE; i++)
        for (int precision = 0; precision < 2; precision++) {
            made m;
            make(&m, &cases[i], precision ? MSI_FP64 : MSI_FP32);
            const msi_wkernel_set *k = &m.set;
            int full = cases[i].form == MSI_WKERNEL_FULL, n_point = full ? 16 : 60;
            double worst = 0;
            for (int n = 0; n < n_point; n++) {
                int32_t p = (int32_t)(msi_random(&seed) * N_PLANE), half = k->half[p], os = k->oversample;
                int32_t taps = msi_wkernel_taps(half), axis = (int32_t)(2 * msi_random(&seed));
                int32_t tu = (int32_t)(msi_random(&seed) * taps) - half,
                        tv = (int32_t)(msi_random(&seed) * taps) - half;
                int32_t su = (int32_t)(msi_random(&seed) * (os + 1)) - os / 2;
                int32_t sv = (int32_t)(msi_random(&seed) * (os + 1)) - os / 2;
                long double at_u = tu - (long double)su / os, at_v = tv - (long double)sv / os;
                complex_l expected, found;
                if (full) {
                    expected = full_kernel(&m.spec, m.w_lambda[p], at_u, at_v);
                    found = element(k, msi_wkernel_square(k->offset_u[p], half, os, su, sv) +
                                           (int64_t)(tv + half) * taps + tu + half);
                } else {
                    expected = separable_kernel(&m.spec, axis, m.w_lambda[p], at_u);
                    found =
                        element(k, msi_wkernel_row((axis ? k->offset_v : k->offset_u)[p], half, os, su) + tu + half);
                }
                worst = fmax(worst, (double)hypotl(found.re - expected.re, found.im - expected.im));
            }
            printf("  %-12s %s half %d..%d: off by %.1e\n", cases[i].name, precision ? "fp64" : "fp32", k->half[0],
                   k->half_max, worst);
            assert_true(worst < (precision ? 1e-13 : 1e-7));
            msi_wkernel_free(&m.set);
        }
}

/* Summed over its taps a kernel is taper times screen, everywhere in the image and at every sub-offset, within the
 * error that cutting off may leave; and a support one cell smaller would exceed it somewhere (or it would not be the
 * least), unless it is plane 0's that sets it. */
static void test_cutting_off(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASE; i++) {
        if (cases[i].form != MSI_WKERNEL_SEPARABLE) continue;
        made m;
        make(&m, &cases[i], MSI_FP64);
        const msi_wkernel_set *k = &m.set;
        double worst[2] = {0, 0};
        for (int axis = 0; axis < 2; axis++)
            for (int32_t p = 0; p < N_PLANE; p++) {
                double field = axis ? m.spec.field_v_rad : m.spec.field_u_rad;
                double image = axis ? m.spec.image_v_rad : m.spec.image_u_rad;
                int32_t half = k->half[p];
                if (p) assert_true(half >= k->half[p - 1]);
                for (int place = 0; place <= 20; place++)
                    for (int32_t s = -k->oversample / 2; s <= k->oversample / 2; s++) {
                        double x = 0.5 * image / field * place / 20;
                        const msi_pswf *w = window_of(&m.spec, axis);
                        long double taper = (long double)(msi_pswf_transform(w, x) / w->transform_at_0);
                        complex_l e = turn(-m.w_lambda[p] * part(&m.spec, axis, x * field)), sum = {0, 0};
                        int64_t row = msi_wkernel_row((axis ? k->offset_v : k->offset_u)[p], half, k->oversample, s);
                        for (int32_t t = -half; t <= half; t++) {
                            complex_l v = element(k, row + t + half);
                            complex_l f = turn(-x * (t - (long double)s / k->oversample));
                            sum.re += v.re * f.re - v.im * f.im;
                            sum.im += v.re * f.im + v.im * f.re;
                        }
                        double error = (double)hypotl(sum.re / taper - e.re, sum.im / taper - e.im);
                        worst[axis] = fmax(worst[axis], error);
                    }
            }
        printf("  %-12s allowed %.1e, left %.1e and %.1e\n", cases[i].name, cases[i].truncation, worst[0], worst[1]);
        /* The error may be slightly larger at places and fractions between those of the search. */
        assert_true(worst[0] + worst[1] <= 1.1 * cases[i].truncation);
        assert_true(worst[0] + worst[1] >= 0.1 * cases[i].truncation);
        msi_wkernel_free(&m.set);
    }
}

/* Check both axes of a full kernel together: the response to a sample at a corner of the image. */
static void test_full_response(void **state)
{
    (void)state;
    for (int i = 0; i < N_CASE; i++) {
        if (cases[i].form != MSI_WKERNEL_FULL) continue;
        made m;
        make(&m, &cases[i], MSI_FP64);
        const msi_wkernel_set *k = &m.set;
        int32_t p = N_PLANE - 1, half = k->half[p], taps = msi_wkernel_taps(half);
        double worst = 0;
        for (int corner = 0; corner < 4; corner++)
            for (int32_t s = -k->oversample / 2; s <= k->oversample / 2; s++) {
                double l = corner & 1 ? 0.5 * m.spec.image_u_rad : 0.1 * m.spec.image_u_rad;
                double b = corner & 2 ? 0.5 * m.spec.image_v_rad : 0;
                double x = l / m.spec.field_u_rad, y = b / m.spec.field_v_rad;
                double taper = msi_wkernel_taper(&m.pswf_u, k->oversample, 0, x) / sin(MSI_PI * x / k->oversample) *
                               (MSI_PI * x / k->oversample);
                taper *= msi_pswf_transform(&m.pswf_v, y) / m.pswf_v.transform_at_0;
                complex_l e = turn(-m.w_lambda[p] * screen(l, b, 1, 1)), sum = {0, 0};
                int64_t square = msi_wkernel_square(k->offset_u[p], half, k->oversample, s, -s / 2);
                for (int32_t tv = -half; tv <= half; tv++)
                    for (int32_t tu = -half; tu <= half; tu++) {
                        complex_l v = element(k, square + (int64_t)(tv + half) * taps + tu + half);
                        complex_l f = turn(-x * (tu - (long double)s / k->oversample) -
                                           y * (tv + (long double)(s / 2) / k->oversample));
                        sum.re += v.re * f.re - v.im * f.im;
                        sum.im += v.re * f.im + v.im * f.re;
                    }
                worst = fmax(worst, (double)hypotl(sum.re / taper - e.re, sum.im / taper - e.im));
            }
        printf("  %-12s allowed %.1e, left %.1e\n", cases[i].name, cases[i].truncation, worst);
        assert_true(worst <= 1.1 * cases[i].truncation);
        msi_wkernel_free(&m.set);
    }
}

/* The error of separable kernels is l^2 m^2 / 4 to lowest order: L^4 / 4 at the corner for the sum of both axes' own
 * screens, a quarter of that for the fitted sum. */
static void test_separable_error(void **state)
{
    (void)state;
    for (double half = 0.01; half < 0.2; half *= 2) {
        msi_wkernel_spec s = {.field_u_rad = 3 * half,
                              .field_v_rad = 3 * half,
                              .image_u_rad = 2 * half,
                              .image_v_rad = 2 * half,
                              .phase = MSI_WPHASE_AXIS};
        double axis = msi_wkernel_separable_error(&s), lowest = pow(half, 4) / 4;
        s.phase = MSI_WPHASE_FITTED;
        double fitted = msi_wkernel_separable_error(&s);
        printf("  half field %.2f: axis %.2e, fitted %.2e\n", half, axis, fitted);
        /* The next order is relatively l^2 + m^2 = 2 L^2 times 3/2. */
        assert_true(fabs(axis / lowest - 1) < 4 * half * half);
        assert_true(fabs(4 * fitted / lowest - 1) < 4 * half * half);
    }
}

/* Given supports are used, and a limit that is too small is refused. */
static void test_limits(void **state)
{
    (void)state;
    made m;
    make(&m, &cases[0], MSI_FP32);
    assert_true(m.set.half_max > 4);
    msi_wkernel_free(&m.set);
    int32_t half[N_PLANE];
    for (int p = 0; p < N_PLANE; p++) half[p] = 2 + p;
    m.spec.half = half;
    assert_int_equal(msi_wkernel_make(&m.set, &m.spec), 0);
    assert_int_equal(m.set.half_max, N_PLANE + 1);
    for (int p = 1; p < N_PLANE; p++)
        assert_int_equal(m.set.offset_u[p] - m.set.offset_u[p - 1],
                         msi_wkernel_elements(0, m.spec.oversample, half[p - 1]));
    msi_wkernel_free(&m.set);
    m.spec.half = NULL;
    m.spec.half_limit = 3;
    assert_int_equal(msi_wkernel_make(&m.set, &m.spec), MSI_ERANGE);
    assert_null(m.set.table);
    m.spec.oversample = 5;
    assert_int_equal(msi_wkernel_make(&m.set, &m.spec), MSI_EINTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition),    cmocka_unit_test(test_cutting_off),
        cmocka_unit_test(test_full_response), cmocka_unit_test(test_separable_error),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
