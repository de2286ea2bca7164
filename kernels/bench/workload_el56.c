/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/bench/workload_el56.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/bench/bench.h"

enum { N_STATION = 512, LEAST_STATIONS = 8 };

static const double latitude_deg = -26.82472208, declination_deg = -23.2, first_ha_deg = -37.44, interval_s = 30,
                    day_s = 86164.1;

static double rad(double deg)
{
    return deg * MSI_PI / 180;
}

/* Place half of the stations in a core, and the others along three arms with the length of those of SKA-Low. */
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

/* Read n lines of `columns` numbers of a file of a folder. Returns: 0, MSI_EINPUT */
static int el56_read_table(const char *dir, const char *name, double *out, int n, int columns)
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

/* Convert stations to wavelengths along the equatorial axes, then to uvw of all baselines at all times. */
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
        MSI_TRY(el56_read_table(options->layout_dir, "ska1low_v6_enu.txt", enu[0], N_STATION, 3));
    else
        invent_stations(enu);
    a->procedural = !options->layout_dir;
    /* A smaller scale first drops times at the end, so that neighbours in time remain. Below one time it drops stations
     * from all parts of the array. */
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

enum { N_TIME = 240, N_PLANE = 601, OVERSAMPLE = 4, N_QUADRATURE = 1024 };
enum { SCATTER_PLANES = 16, SCATTER_CELLS = 1024 };

static const double field_rad = 0.114;

/* Compute half-supports that differ from those of the data set by at most two cells. */
static void invent_supports(int32_t *half)
{
    for (int p = 0; p < N_PLANE; p++) half[p] = (int32_t)lrint(4 + 68.0 * p * p / ((N_PLANE - 1) * (N_PLANE - 1.0)));
}

static int read_supports(const char *dir, int32_t *half)
{
    double support[N_PLANE];
    if (!dir) {
        invent_supports(half);
        return MSI_OK;
    }
    MSI_TRY(el56_read_table(dir, "support_el56.txt", support, N_PLANE, 1));
    for (int p = 0; p < N_PLANE; p++) {
        half[p] = (int32_t)support[p];
        if (!(support[p] >= 1 && support[p] <= MSI_WKERNEL_MAX_HALF))
            return msi_error_set(MSI_EINPUT, "%s/support_el56.txt: line %d is no half-support", dir, p + 1);
    }
    return MSI_OK;
}

/* Find the box that contains all footprints. */
static void trim(msi_el56 *e)
{
    int32_t u_low = INT32_MAX, v_low = INT32_MAX, u_high = INT32_MIN, v_high = INT32_MIN;
    double n_addition = 0;
    e->origin_u = e->origin_v = 0;
#pragma omp parallel for reduction(min : u_low, v_low) reduction(max : u_high, v_high) reduction(+ : n_addition)
    for (int64_t i = 0; i < e->n_vis; i++) {
        msi_el56_place p = msi_el56_locate(e, i);
        int32_t half = e->kernels.half[p.plane], taps = msi_wkernel_taps(half);
        u_low = p.u - half < u_low ? p.u - half : u_low;
        v_low = p.v - half < v_low ? p.v - half : v_low;
        u_high = p.u + half > u_high ? p.u + half : u_high;
        v_high = p.v + half > v_high ? p.v + half : v_high;
        n_addition += (double)taps * taps;
    }
    e->n_addition = n_addition;
    e->origin_u = -u_low;
    e->origin_v = -v_low;
    e->nu = (u_high - u_low + MSI_EL56_TILE) / MSI_EL56_TILE * MSI_EL56_TILE;
    e->nv = (v_high - v_low + MSI_EL56_TILE) / MSI_EL56_TILE * MSI_EL56_TILE;
}

static int make_values(msi_el56 *e)
{
    int32_t *count;
    MSI_TRY(msi_alloc(&count, (int64_t)e->nu * e->nv, sizeof *count, "samples in cells"));
#pragma omp parallel for
    for (int64_t i = 0; i < e->n_vis; i++) {
        msi_el56_place p = msi_el56_locate(e, i);
#pragma omp atomic
        count[(int64_t)p.v * e->nu + p.u]++;
    }
#pragma omp parallel for
    for (int64_t i = 0; i < e->n_vis; i++) {
        msi_el56_place p = msi_el56_locate(e, i);
        e->weight[i] = 1.0f / (float)count[(int64_t)p.v * e->nu + p.u];
        e->vis[i].re = (float)(2 * msi_bench_uniform(2 * (uint64_t)i) - 1);
        e->vis[i].im = (float)(2 * msi_bench_uniform(2 * (uint64_t)i + 1) - 1);
    }
    msi_free(count);
    return MSI_OK;
}

/*
 * Compute k(x), x = j / oversample cells, j = 0 .. n - 1: the integral over eta in (-1, 1) of taper(eta)
 * exp(2 pi i w (n - 1)) cos(pi x eta) with l = eta field / 2, by the midpoint rule. It is even in eta, so half of the
 * range is summed. Cosines of equally spaced x are computed by a recurrence.
 */
static void transform_screen(msi_c64 *k, int n, double w_lambda, const msi_pswf *taper)
{
    memset(k, 0, (size_t)n * sizeof *k);
    for (int q = 0; q < N_QUADRATURE; q++) {
        double eta = (q + 0.5) / N_QUADRATURE, l = eta * field_rad / 2;
        double amplitude = msi_pswf_value(taper, eta * taper->width / 2);
        double phase = 2 * MSI_PI * w_lambda * msi_n_minus_1(l, 0);
        double re = amplitude * cos(phase), im = amplitude * sin(phase);
        double twice = 2 * cos(MSI_PI * eta / OVERSAMPLE), c = 1, last = twice / 2;
        for (int j = 0; j < n; j++) {
            double next = twice * c - last;
            k[j].re += re * c;
            k[j].im += im * c;
            last = c;
            c = next;
        }
    }
}

/* Scale a kernel so that the taps of sub-offset 0 sum to 1. */
static void normalise(msi_c64 *k, int32_t half)
{
    double re = k[0].re, im = k[0].im;
    for (int32_t t = 1; t <= half; t++) {
        re += 2 * k[t * OVERSAMPLE].re;
        im += 2 * k[t * OVERSAMPLE].im;
    }
    double norm = 1 / (re * re + im * im);
    for (int32_t j = 0; j <= half * OVERSAMPLE + OVERSAMPLE / 2; j++) {
        msi_c64 x = k[j];
        k[j].re = (x.re * re + x.im * im) * norm;
        k[j].im = (x.im * re - x.re * im) * norm;
    }
}

static int make_kernels(msi_el56 *e, int32_t n_plane, const int32_t *half)
{
    msi_wkernel_set *s = &e->kernels;
    msi_pswf taper;
    s->form = MSI_WKERNEL_SEPARABLE;
    s->precision = MSI_FP32;
    s->n_plane = n_plane;
    s->oversample = OVERSAMPLE;
    MSI_TRY(msi_pswf_make(&taper, 6, 2.5));
    MSI_TRY(msi_alloc(&s->half, n_plane, sizeof *s->half, "kernel supports"));
    MSI_TRY(msi_alloc(&s->offset_u, n_plane, sizeof *s->offset_u, "kernel offsets"));
    MSI_TRY(msi_alloc(&s->offset_v, n_plane, sizeof *s->offset_v, "kernel offsets"));
    MSI_TRY(msi_alloc(&s->w_lambda, n_plane, sizeof *s->w_lambda, "kernel planes"));
    for (int32_t p = 0; p < n_plane; p++) {
        s->half[p] = half[p];
        s->offset_u[p] = s->offset_v[p] = s->n_element;
        s->w_lambda[p] = (double)p * p / (double)e->plane_scale;
        s->n_element += msi_wkernel_elements(0, OVERSAMPLE, half[p]);
        if (half[p] > s->half_max) s->half_max = half[p];
    }
    MSI_TRY(msi_alloc(&s->table, s->n_element, sizeof(msi_c32), "kernels"));
    MSI_TRY(msi_alloc(&e->exact, s->n_element, sizeof *e->exact, "kernels"));
    msi_c32 *table = s->table;
#pragma omp parallel for schedule(dynamic)
    for (int32_t p = 0; p < n_plane; p++) {
        msi_c64 k[MSI_WKERNEL_MAX_HALF * OVERSAMPLE + OVERSAMPLE];
        transform_screen(k, half[p] * OVERSAMPLE + OVERSAMPLE / 2 + 1, s->w_lambda[p], &taper);
        normalise(k, half[p]);
        for (int32_t sub = -OVERSAMPLE / 2; sub <= OVERSAMPLE / 2; sub++)
            for (int32_t t = -half[p]; t <= half[p]; t++) {
                int64_t at = msi_wkernel_row(s->offset_u[p], half[p], OVERSAMPLE, sub) + t + half[p];
                e->exact[at] = k[abs(t * OVERSAMPLE - sub)];
                table[at] = (msi_c32){(float)e->exact[at].re, (float)e->exact[at].im};
            }
    }
    return MSI_OK;
}

/* Choose the tiles with a reference. Half of them contain a random sample, so they are where samples are dense; the
 * others are anywhere. */
static int choose_sample(msi_el56 *e)
{
    e->n_sample = 0;
    for (int i = 0; i < MSI_EL56_MAX_SAMPLE; i++) {
        int32_t u = (int32_t)(msi_bench_uniform(7000 + 2 * (uint64_t)i) * e->nu),
                v = (int32_t)(msi_bench_uniform(7001 + 2 * (uint64_t)i) * e->nv);
        if (i % 2 == 0) {
            msi_el56_place p = msi_el56_locate(e, (int64_t)(msi_bench_uniform(9000 + (uint64_t)i) * (double)e->n_vis));
            u = p.u;
            v = p.v;
        }
        u -= u % MSI_EL56_TILE;
        v -= v % MSI_EL56_TILE;
        int known = 0;
        for (int k = 0; k < e->n_sample; k++) known |= e->sample_u[k] == u && e->sample_v[k] == v;
        if (known) continue;
        e->sample_u[e->n_sample] = u;
        e->sample_v[e->n_sample++] = v;
    }
    return msi_alloc(&e->sample, (int64_t)e->n_sample * MSI_EL56_TILE * MSI_EL56_TILE, sizeof *e->sample, "reference");
}

/* Add the part of a sample's footprint that is in one of these tiles. */
static void add_to_tile(const msi_el56 *e, const msi_el56_place *p, msi_c64 value, int k, msi_c64 *tile)
{
    const msi_wkernel_set *s = &e->kernels;
    int32_t half = s->half[p->plane];
    const msi_c64 *ku = e->exact + msi_wkernel_row(s->offset_u[p->plane], half, OVERSAMPLE, p->sub_u) + half;
    const msi_c64 *kv = e->exact + msi_wkernel_row(s->offset_v[p->plane], half, OVERSAMPLE, p->sub_v) + half;
    double sign = p->conjugate ? -1 : 1;
    for (int32_t j = 0; j < MSI_EL56_TILE; j++) {
        int32_t tv = e->sample_v[k] + j - p->v;
        if (abs(tv) > half) continue;
        double row_re = value.re * kv[tv].re - value.im * sign * kv[tv].im;
        double row_im = value.re * sign * kv[tv].im + value.im * kv[tv].re;
        for (int32_t i = 0; i < MSI_EL56_TILE; i++) {
            int32_t tu = e->sample_u[k] + i - p->u;
            if (abs(tu) > half) continue;
            tile[j * MSI_EL56_TILE + i].re += row_re * ku[tu].re - row_im * sign * ku[tu].im;
            tile[j * MSI_EL56_TILE + i].im += row_re * sign * ku[tu].im + row_im * ku[tu].re;
        }
    }
}

static int make_reference(msi_el56 *e)
{
    MSI_TRY(choose_sample(e));
    const int64_t n_cell = (int64_t)e->n_sample * MSI_EL56_TILE * MSI_EL56_TILE;
    const int32_t n_tile_u = e->nu / MSI_EL56_TILE;
    int32_t *sample_of; /* index of a tile among those with a reference, plus 1; 0: no reference */
    MSI_TRY(msi_alloc(&sample_of, (int64_t)n_tile_u * (e->nv / MSI_EL56_TILE), sizeof *sample_of, "reference"));
    for (int k = 0; k < e->n_sample; k++)
        sample_of[e->sample_v[k] / MSI_EL56_TILE * n_tile_u + e->sample_u[k] / MSI_EL56_TILE] = k + 1;
    int status = MSI_OK;
#pragma omp parallel
    {
        msi_c64 *part;
        int failed = msi_alloc(&part, n_cell, sizeof *part, "reference");
#pragma omp for
        for (int64_t i = 0; i < e->n_vis; i++) {
            if (failed) continue;
            msi_el56_place p = msi_el56_locate(e, i);
            int32_t half = e->kernels.half[p.plane];
            msi_c64 value = {(double)e->weight[i] * (double)e->vis[i].re, (double)e->weight[i] * (double)e->vis[i].im};
            for (int32_t tv = (p.v - half) / MSI_EL56_TILE; tv <= (p.v + half) / MSI_EL56_TILE; tv++)
                for (int32_t tu = (p.u - half) / MSI_EL56_TILE; tu <= (p.u + half) / MSI_EL56_TILE; tu++) {
                    int k = sample_of[tv * n_tile_u + tu] - 1;
                    if (k >= 0) add_to_tile(e, &p, value, k, part + (int64_t)k * MSI_EL56_TILE * MSI_EL56_TILE);
                }
        }
#pragma omp critical(el56_reference)
        {
            if (failed) status = failed;
            for (int64_t i = 0; i < n_cell && !failed; i++) {
                e->sample[i].re += part[i].re;
                e->sample[i].im += part[i].im;
            }
        }
        if (!failed) msi_free(part);
    }
    msi_free(sample_of);
    return status;
}

/* Compute all members except the coordinates and plane_scale. */
static int finish(msi_el56 *e, int32_t n_plane, const int32_t *half)
{
    e->scale_u = (float)-field_rad;
    e->scale_v = (float)field_rad;
    MSI_TRY(msi_alloc(&e->weight, e->n_vis, sizeof *e->weight, "weights"));
    MSI_TRY(msi_alloc(&e->vis, e->n_vis, sizeof *e->vis, "visibilities"));
    MSI_TRY(make_kernels(e, n_plane, half));
    trim(e);
    MSI_TRY(make_values(e));
    return make_reference(e);
}

static int make_el56_workload(msi_el56 *e, const msi_bench_options *options)
{
    int32_t half[N_PLANE];
    msi_el56_array a;
    MSI_TRY(read_supports(options->layout_dir, half));
    MSI_TRY(msi_el56_array_make(&a, options, N_TIME));
    e->procedural = a.procedural;
    e->n_time = a.n_time;
    e->n_baseline = a.n_baseline;
    e->n_vis = a.n_time * a.n_baseline;
    e->u = a.u;
    e->v = a.v;
    e->w = a.w;
    e->plane_scale = (float)((N_PLANE - 1.0) * (N_PLANE - 1.0) / (1.05 * a.w_max_lambda));
    return finish(e, N_PLANE, half);
}

static int make_scattered(msi_el56 *e, const msi_bench_options *options, const msi_el56_scatter *scatter)
{
    int32_t half[SCATTER_PLANES];
    for (int p = 0; p < SCATTER_PLANES; p++) half[p] = scatter->half;
    e->n_time = 1;
    e->n_vis = e->n_baseline = (int64_t)fmax(1, (double)scatter->n_vis * options->scale);
    MSI_TRY(msi_alloc(&e->u, e->n_vis, sizeof *e->u, "u"));
    MSI_TRY(msi_alloc(&e->v, e->n_vis, sizeof *e->v, "v"));
    MSI_TRY(msi_alloc(&e->w, e->n_vis, sizeof *e->w, "w"));
    const double w_max = 1000, edge = 0.5 * SCATTER_CELLS;
#pragma omp parallel for
    for (int64_t i = 0; i < e->n_vis; i++) {
        uint64_t at = ((uint64_t)1 << 40) + 3 * (uint64_t)i;
        double radius = edge / 4 * sqrt(-2 * log(1 - msi_bench_uniform(at)));
        double angle = 2 * MSI_PI * msi_bench_uniform(at + 1);
        e->u[i] = (float)(fmin(radius, edge) * cos(angle) / field_rad);
        e->v[i] = (float)(fmin(radius, edge) * sin(angle) / field_rad);
        e->w[i] = (float)(w_max * (2 * msi_bench_uniform(at + 2) - 1));
    }
    e->plane_scale = (float)((SCATTER_PLANES - 1.0) * (SCATTER_PLANES - 1.0) / w_max);
    return finish(e, SCATTER_PLANES, half);
}

static void forget(msi_el56 *e)
{
    void *memory[] = {e->u, e->v, e->w, e->weight, e->vis, e->exact, e->sample};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++) msi_free(memory[i]);
    msi_wkernel_free(&e->kernels);
    memset(e, 0, sizeof *e);
}

int msi_el56_get(const msi_el56 **out, const msi_bench_options *options, const msi_el56_scatter *scatter)
{
    static msi_el56 workload;
    static const msi_el56_scatter *made_for;
    static int made, serial;
    if (made && made_for != scatter) {
        forget(&workload);
        made = 0;
    }
    if (!made) {
        int rc = scatter ? make_scattered(&workload, options, scatter) : make_el56_workload(&workload, options);
        if (rc) {
            forget(&workload);
            return rc;
        }
        workload.serial = ++serial;
        made = 1;
    }
    made_for = scatter;
    *out = &workload;
    return MSI_OK;
}

int msi_el56_error(const msi_el56 *e, const void *grid, msi_precision precision, double *error)
{
    double difference = 0, size = 0;
    for (int k = 0; k < e->n_sample; k++)
        for (int32_t j = 0; j < MSI_EL56_TILE; j++)
            for (int32_t i = 0; i < MSI_EL56_TILE; i++) {
                msi_c64 r = e->sample[(k * MSI_EL56_TILE + j) * MSI_EL56_TILE + i], x;
                int64_t at = (int64_t)(e->sample_v[k] + j) * e->nu + e->sample_u[k] + i;
                if (precision == MSI_FP64)
                    x = ((const msi_c64 *)grid)[at];
                else
                    x = (msi_c64){(double)((const msi_c32 *)grid)[at].re, (double)((const msi_c32 *)grid)[at].im};
                difference += (x.re - r.re) * (x.re - r.re) + (x.im - r.im) * (x.im - r.im);
                size += r.re * r.re + r.im * r.im;
            }
    *error = sqrt(difference / size);
    return MSI_OK;
}
