/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/bench/array_el56.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/bench_random.h"

enum { N_STATION = 512, LEAST_STATIONS = 8 };

static const double latitude_deg = -26.82472208, declination_deg = -23.2, first_ha_deg = -37.44, interval_s = 30,
                    day_s = 86164.1;

static double rad(double deg)
{
    return deg * MSI_PI / 180;
}

/* Lay out half of the stations as a core and the others along three arms, as far out as SKA-Low's. */
static void invent_stations(double (*enu)[3])
{
    for (int i = 0; i < N_STATION; i++) {
        uint64_t at = 3 * (uint64_t)i;
        double core = i < N_STATION / 2, x = msi_bench_uniform(at), y = msi_bench_uniform(at + 1);
        double radius = core > 0 ? 500 * sqrt(x) : 500 * pow(76, x);
        double angle = core > 0 ? 2 * MSI_PI * y : 2 * MSI_PI * (i % 3) / 3.0 + 0.9 * log(radius / 500) + 0.1 * y;
        enu[i][0] = radius * cos(angle);
        enu[i][1] = radius * sin(angle);
        enu[i][2] = 5 * msi_bench_uniform(at + 2);
    }
}

int msi_el56_read_table(const char *dir, const char *name, double *out, int n, int columns)
{
    char path[4096], line[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    int row = 0;
    while (row < n && fgets(line, sizeof line, f)) {
        char *at = line;
        int c = 0;
        for (char *end = NULL; c < columns; c++, at = end) {
            out[row * columns + c] = strtod(at, &end);
            if (end == at) break;
        }
        if (c < columns) break;
        row++;
    }
    fclose(f);
    if (row < n)
        return msi_error_set(MSI_EINPUT, "%s: line %d is not %d number%s", path, row + 1, columns,
                             columns > 1 ? "s" : "");
    return MSI_OK;
}

/* Turn stations into wavelengths along the equatorial axes, then into uvw of all baselines at all times. */
static void make_coordinates(msi_el56_array *a, double (*enu)[3], int n_station)
{
    double xyz[N_STATION][3], lat = rad(latitude_deg), dec = rad(declination_deg);
    double per_m = MSI_EL56_FREQ_HZ / MSI_SPEED_OF_LIGHT, u_max = 0, v_max = 0, w_max = 0, w_min = HUGE_VAL;
    for (int i = 0; i < n_station; i++) {
        xyz[i][0] = (cos(lat) * enu[i][2] - sin(lat) * enu[i][1]) * per_m;
        xyz[i][1] = enu[i][0] * per_m;
        xyz[i][2] = (cos(lat) * enu[i][1] + sin(lat) * enu[i][2]) * per_m;
    }
#pragma omp parallel for reduction(max : u_max, v_max, w_max) reduction(min : w_min)
    for (int64_t t = 0; t < a->n_time; t++) {
        double ha = rad(first_ha_deg + (double)t * interval_s * 360 / day_s), uvw[N_STATION][3];
        for (int i = 0; i < n_station; i++) {
            double radial = cos(ha) * xyz[i][0] - sin(ha) * xyz[i][1];
            uvw[i][0] = sin(ha) * xyz[i][0] + cos(ha) * xyz[i][1];
            uvw[i][1] = cos(dec) * xyz[i][2] - sin(dec) * radial;
            uvw[i][2] = sin(dec) * xyz[i][2] + cos(dec) * radial;
        }
        int64_t k = t * a->n_baseline;
        for (int i = 0; i < n_station; i++)
            for (int j = i + 1; j < n_station; j++, k++) {
                a->u[k] = (float)(uvw[j][0] - uvw[i][0]);
                a->v[k] = (float)(uvw[j][1] - uvw[i][1]);
                a->w[k] = (float)(uvw[j][2] - uvw[i][2]);
                u_max = fmax(u_max, fabs((double)a->u[k]));
                v_max = fmax(v_max, fabs((double)a->v[k]));
                w_max = fmax(w_max, fabs((double)a->w[k]));
                w_min = fmin(w_min, fabs((double)a->w[k]));
            }
    }
    a->u_max_lambda = u_max;
    a->v_max_lambda = v_max;
    a->w_max_lambda = w_max;
    a->w_min_lambda = w_min;
}

int msi_el56_array_make(msi_el56_array *a, const msi_bench_options *options, int64_t n_time)
{
    double enu[N_STATION][3], times = (double)n_time * options->scale;
    memset(a, 0, sizeof *a);
    if (options->layout_dir)
        MSI_TRY(msi_el56_read_table(options->layout_dir, "ska1low_v6_enu.txt", enu[0], N_STATION, 3));
    else
        invent_stations(enu);
    a->procedural = !options->layout_dir;
    /* A smaller scale drops times first, so that neighbours in time stay so; below one time it drops stations all over
     * the array. */
    a->n_time = times >= 1 ? lrint(times) : 1;
    int n_station = times >= 1 ? N_STATION : (int)fmax(LEAST_STATIONS, ceil(N_STATION * sqrt(times)));
    for (int i = 0; i < n_station; i++) memcpy(enu[i], enu[i * N_STATION / n_station], sizeof enu[i]);
    a->n_baseline = (int64_t)n_station * (n_station - 1) / 2;
    const int64_t n = a->n_time * a->n_baseline;
    int rc = msi_alloc(&a->u, n, sizeof *a->u, "u");
    if (!rc) rc = msi_alloc(&a->v, n, sizeof *a->v, "v");
    if (!rc) rc = msi_alloc(&a->w, n, sizeof *a->w, "w");
    if (rc)
        msi_el56_array_free(a);
    else
        make_coordinates(a, enu, n_station);
    return rc;
}

void msi_el56_array_free(msi_el56_array *a)
{
    msi_free(a->u);
    msi_free(a->v);
    msi_free(a->w);
    memset(a, 0, sizeof *a);
}
