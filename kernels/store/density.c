/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Density weights: uniform, Briggs, gaussian taper. Briggs 1995; a sample belongs to the nearest cell. */
#include "kernels/store/density.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/store/vis_store.h"

struct msi_density {
    msi_image_geometry geometry;
    double *sum; /* [n_v][n_u]; row 0 is v = 0, column nx/2 is u = 0; both ends of u have their cell */
    int64_t n_u, n_v;
    double sum_weight;
};

int msi_density_create(msi_density **out, const msi_image_geometry *geometry)
{
    *out = NULL;
    msi_density *d;
    MSI_TRY(msi_alloc(&d, 1, sizeof *d, "density weights"));
    d->geometry = *geometry;
    d->n_u = geometry->nx + 1;
    d->n_v = geometry->ny / 2 + 1;
    int rc = msi_alloc(&d->sum, d->n_v * d->n_u, sizeof *d->sum, "density weights");
    if (rc) {
        msi_free(d);
        return rc;
    }
    *out = d;
    return MSI_OK;
}

/* The sample's cell; -1 outside the grid. u and v in wavelengths. */
static int64_t cell_of(const msi_density *d, double u, double v)
{
    if (v < 0) {
        u = -u;
        v = -v;
    }
    double x = rint(u * d->geometry.cell_x_rad * (double)d->geometry.nx) + (double)(d->geometry.nx / 2);
    double y = rint(v * d->geometry.cell_y_rad * (double)d->geometry.ny);
    if (!(x >= 0 && x < (double)d->n_u && y < (double)d->n_v)) return -1;
    return (int64_t)y * d->n_u + (int64_t)x;
}

void msi_density_add_store(msi_density *d, const msi_vis_store *store)
{
    for (int64_t i = 0; i < store->n_segment; i++) {
        const msi_vis_segment *s = &store->segment[i];
        for (int64_t row = 0; row < s->n_row; row++) {
            double u = s->uvw_m[3 * row] / MSI_SPEED_OF_LIGHT, v = s->uvw_m[3 * row + 1] / MSI_SPEED_OF_LIGHT;
            const float *weight = s->weight + msi_segment_index(s, 0, row, 0);
            for (int32_t c = 0; c < s->n_chan; c++) {
                if (!(weight[c] > 0)) continue;
                int64_t cell = cell_of(d, u * s->freq_hz[c], v * s->freq_hz[c]);
                if (cell >= 0) d->sum[cell] += (double)weight[c];
                d->sum_weight += (double)weight[c];
            }
        }
    }
}

const double *msi_density_grid(const msi_density *d, int64_t *nu, int64_t *nv)
{
    *nu = d->n_u;
    *nv = d->n_v;
    return d->sum;
}

void msi_density_free(msi_density *d)
{
    if (!d) return;
    msi_free(d->sum);
    msi_free(d);
}

/* Briggs' s^2; the robustness is relative to the mean density seen by the weights. */
static double briggs_scale(const msi_density *d, double robust)
{
    double squares = 0;
#pragma omp parallel for reduction(+ : squares)
    for (int64_t i = 0; i < d->n_v * d->n_u; i++) squares += d->sum[i] * d->sum[i];
    double s = 5 * pow(10, -robust);
    return squares > 0 ? s * s * d->sum_weight / squares : 0;
}

int msi_density_weight(msi_vis_store *store, const msi_density *density, const msi_weighting *rule)
{
    if (!density && rule->mode != MSI_WEIGHT_NATURAL)
        return msi_error_set(MSI_EINTERNAL, "density weighting without a density");
    double scale = rule->mode == MSI_WEIGHT_BRIGGS ? briggs_scale(density, rule->robust) : 0;
    /* The taper's image is a gaussian of the FWHM: exp(-(pi FWHM r)^2 / (4 ln 2)) at uv distance r. */
    double taper = MSI_PI * rule->taper_fwhm_rad;
    taper *= taper / (4 * log(2));
    if (rule->mode == MSI_WEIGHT_NATURAL && taper == 0) return MSI_OK;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < store->n_segment; i++) {
        msi_vis_segment *s = &store->segment[i];
        for (int64_t row = 0; row < s->n_row; row++) {
            double u_m = s->uvw_m[3 * row] / MSI_SPEED_OF_LIGHT, v_m = s->uvw_m[3 * row + 1] / MSI_SPEED_OF_LIGHT;
            for (int32_t c = 0; c < s->n_chan; c++) {
                double u = u_m * s->freq_hz[c], v = v_m * s->freq_hz[c], factor = 1;
                if (rule->mode != MSI_WEIGHT_NATURAL) {
                    int64_t cell = cell_of(density, u, v);
                    double sum = cell >= 0 ? density->sum[cell] : 0;
                    if (rule->mode == MSI_WEIGHT_BRIGGS)
                        factor = 1 / (1 + sum * scale);
                    else
                        factor = sum > 0 ? 1 / sum : 0;
                }
                if (taper > 0) factor *= exp(-taper * (u * u + v * v));
                for (int p = 0; p < store->n_plane; p++) {
                    float *weight = s->weight + msi_segment_index(s, p, row, c);
                    *weight = (float)(*weight * factor);
                }
            }
        }
    }
    return MSI_OK;
}
