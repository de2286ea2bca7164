/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/bench/field_el56.h"

#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/array_el56.h"

enum { N_CHECKED = 24 };

static int is_same(const msi_field_el56 *a, const msi_field_el56 *b)
{
    return a->n_time == b->n_time && a->n_pixel == b->n_pixel && a->n_chan == b->n_chan && a->n_plane == b->n_plane &&
           a->precision == b->precision && a->cell_asec == b->cell_asec;
}

/* Where no pixel's size is given, the image's uv plane reaches a thousandth beyond the longest baseline at the highest
 * frequency. */
static int make_field(msi_bench_field *f, const msi_field_el56 *wanted, const msi_bench_options *options)
{
    const double first_hz = MSI_EL56_FREQ_HZ, last_hz = 130e6;
    const int32_t n_chan = wanted->n_chan;
    msi_el56_array a;
    MSI_TRY(msi_el56_array_make(&a, options, wanted->n_time));
    f->n_row = a.n_time * a.n_baseline;
    f->n_chan = n_chan;
    f->n_plane = wanted->n_plane;
    f->precision = wanted->precision;
    f->n_pixel = N_CHECKED;
    f->seed = 1;
    f->procedural = a.procedural;
    for (int32_t c = 0; c < n_chan; c++)
        f->freq_hz[c] = n_chan > 1 ? first_hz + (last_hz - first_hz) * c / (n_chan - 1) : first_hz;
    const double highest = f->freq_hz[n_chan - 1] / first_hz;
    const double fitting_rad = 0.5 / (1.001 * highest * fmax(a.u_max_lambda, a.v_max_lambda));
    const double cell_rad = wanted->cell_asec > 0 ? wanted->cell_asec / 206264.806 : fitting_rad;
    f->geometry = (msi_image_geometry){wanted->n_pixel, wanted->n_pixel, cell_rad, cell_rad};
    f->w_min_lambda = a.w_min_lambda;
    f->w_max_lambda = a.w_max_lambda * highest;
    int rc = msi_alloc(&f->uvw_m, 3 * f->n_row, sizeof *f->uvw_m, "uvw");
    if (!rc) {
        const double metres = MSI_SPEED_OF_LIGHT / first_hz;
#pragma omp parallel for
        for (int64_t i = 0; i < f->n_row; i++) {
            f->uvw_m[3 * i] = (double)a.u[i] * metres;
            f->uvw_m[3 * i + 1] = (double)a.v[i] * metres;
            f->uvw_m[3 * i + 2] = (double)a.w[i] * metres;
        }
    }
    msi_el56_array_free(&a);
    return rc ? rc : msi_bench_field_fill(f);
}

int msi_field_el56_get(msi_bench_field **out, const msi_field_el56 *wanted, const msi_bench_options *options)
{
    static msi_bench_field field;
    static msi_field_el56 made_for;
    if (!is_same(&made_for, wanted)) {
        made_for = (msi_field_el56){0};
        msi_bench_field_free(&field);
        MSI_TRY(make_field(&field, wanted, options));
        made_for = *wanted;
    }
    *out = &field;
    return MSI_OK;
}
