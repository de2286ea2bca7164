/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/types.h"
#include "kernels/transform/pswf.h"

/* The tap polynomials must not add to the window's own error: a twentieth of it adds 0.1 % in squares. */
static void test_polynomials_follow_the_window(void **state)
{
    (void)state;
    for (int width = MSI_PSWF_MIN_WIDTH; width <= MSI_PSWF_MAX_WIDTH; width++)
        for (double sigma = 1.2; sigma <= 2.01; sigma += 0.2) {
            msi_pswf window;
            assert_int_equal(msi_pswf_make(&window, width, sigma), 0);
            double worst = 0;
            for (int tap = 0; tap < width; tap++)
                for (int i = 0; i < 100; i++) {
                    double f = (i + 0.5) / 100, value = 0;
                    for (int k = 0; k < window.n_coef; k++) value = value * (2 * f - 1) + window.coef[k][tap];
                    worst = fmax(worst, fabs(value - msi_pswf_value(&window, f + tap - 0.5 * width)));
                }
            if (worst > 0.05 * msi_pswf_error(&window) + 2e-14)
                fail_msg("width %d sigma %g: polynomials are off by %g, window error %g", width, sigma, worst,
                         msi_pswf_error(&window));
        }
}

/* Compare the transform by the eigenvalue relation against a sum over the window (midpoint rule, its edge term below
 * 1e-4 of the window's value there). */
static void test_transform_is_the_integral(void **state)
{
    (void)state;
    for (int width = 4; width <= 16; width += 3) {
        msi_pswf window;
        assert_int_equal(msi_pswf_make(&window, width, 1.5), 0);
        for (double x = 0; x <= 0.33; x += 0.11) {
            enum { N = 20000 };
            double sum = 0;
            for (int i = 0; i < N; i++) {
                double t = ((i + 0.5) / N - 0.5) * width;
                sum += msi_pswf_value(&window, t) * cos(2 * MSI_PI * x * t) * width / N;
            }
            assert_true(fabs(sum / msi_pswf_transform(&window, x) - 1) < 1e-8);
        }
    }
}

/* Compute the error of an exponential-of-semicircle window, exp(beta (sqrt(1 - s^2) - 1)), the usual choice, in the
 * same way. */
static double semicircle_error(int width, double sigma)
{
    enum { N = 4000, N_X = 16 };
    double beta = 0.98 * MSI_PI * width * (1 - 0.5 / sigma), largest = 0;
    for (int ix = 0; ix <= N_X; ix++) {
        double x = ix * 0.5 / N_X / sigma, inside = 0, outside = 0;
        for (int k = -3; k <= 3; k++) {
            double sum = 0;
            for (int i = 0; i < N; i++) {
                double s = (i + 0.5) / N;
                sum += exp(beta * (sqrt(1 - s * s) - 1)) * cos(MSI_PI * width * (x + k) * s);
            }
            if (k)
                outside += sum * sum;
            else
                inside = sum * sum;
        }
        largest = fmax(largest, outside / inside);
    }
    return sqrt(largest);
}

static void test_better_than_semicircle(void **state)
{
    (void)state;
    for (int width = 5; width <= 9; width += 2) {
        msi_pswf window;
        assert_int_equal(msi_pswf_make(&window, width, 1.75), 0);
        assert_true(msi_pswf_error(&window) < 0.9 * semicircle_error(width, 1.75));
    }
}

static void test_least_sigma_reaches_the_error(void **state)
{
    (void)state;
    for (int width = 6; width <= 14; width += 4)
        for (double error = 1e-3; error > 1e-6; error *= 0.1) {
            double sigma = msi_pswf_least_sigma(width, error);
            if (sigma > 2.5) continue;
            msi_pswf window;
            assert_int_equal(msi_pswf_make(&window, width, sigma), 0);
            assert_true(msi_pswf_error(&window) <= error);
        }
}

static void test_refuses_what_it_cannot(void **state)
{
    (void)state;
    msi_pswf window;
    assert_int_not_equal(msi_pswf_make(&window, 1, 2), 0);
    assert_int_not_equal(msi_pswf_make(&window, 17, 2), 0);
    assert_int_not_equal(msi_pswf_make(&window, 8, 1), 0);
    assert_int_not_equal(msi_pswf_make(&window, 8, NAN), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polynomials_follow_the_window), cmocka_unit_test(test_transform_is_the_integral),
        cmocka_unit_test(test_better_than_semicircle),        cmocka_unit_test(test_least_sigma_reaches_the_error),
        cmocka_unit_test(test_refuses_what_it_cannot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
