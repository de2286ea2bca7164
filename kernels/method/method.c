/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/method/method.h"

#include <math.h>
#include <omp.h>

#include "kernels/method/geometry.h"

int msi_plan_threads(const msi_plan_request *request)
{
    return request->spec->n_thread ? request->spec->n_thread : omp_get_max_threads();
}

/* Below this accuracy the rounding of 32-bit sums matters: 2e-7 to 6e-7 of the image was measured for several
 * layouts. */
static const double LEAST_FP32_ACCURACY = 1.5e-6;

msi_precision msi_precision_for(double accuracy)
{
    return accuracy >= LEAST_FP32_ACCURACY ? MSI_FP32 : MSI_FP64;
}

/* Time of an n x n transform in arbitrary units; HUGE_VAL if n has other factors. The weights of the radices are
 * rounded times of FFTW and cuFFT for a pass of each: passes of 5 and 7 are relatively expensive. */
static double fft_time(int64_t n)
{
    static const struct {
        int radix;
        double weight;
    } passes[] = {{2, 1}, {3, 1.7}, {5, 3}, {7, 4.5}};
    double per_cell = 0;
    int64_t rest = n;
    for (int i = 0; i < 4; i++)
        for (; rest % passes[i].radix == 0; rest /= passes[i].radix) per_cell += passes[i].weight;
    return rest == 1 ? (double)n * (double)n * per_cell : HUGE_VAL;
}

int64_t msi_fft_size(int64_t n)
{
    int64_t best = 0;
    double least = HUGE_VAL;
    n += n % 2;
    for (int64_t size = n; size <= n + n * 6 / 100 || !best; size += 2) {
        double time = fft_time(size);
        if (time >= least) continue;
        least = time;
        best = size;
    }
    return best;
}

double msi_field_n_range(const msi_image_geometry *image)
{
    double l = 0.5 * (double)image->nx * image->cell_x_rad, m = 0.5 * (double)image->ny * image->cell_y_rad;
    return msi_n_minus_1(l, m);
}

void msi_field_n_span(const msi_image_geometry *image, double l, double m, double beyond, double *least, double *most)
{
    const double half_l = 0.5 * (double)image->nx * image->cell_x_rad,
                 half_m = 0.5 * (double)image->ny * image->cell_y_rad;
    *least = msi_n_minus_1_to(fabs(l) + half_l, fabs(m) + half_m, beyond);
    *most = msi_n_minus_1_to(fmax(fabs(l) - half_l, 0), fmax(fabs(m) - half_m, 0), beyond);
}
