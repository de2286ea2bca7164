/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The reference of rows points/, and the lower limit of their time from the memory bandwidth. */
#include "kernels/bench/workload_tracks.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

static msi_c64 weight(const msi_wproj_sample *s, int32_t taps, int32_t tu, int32_t tv, const msi_gather_phase *phase)
{
    const int32_t os = MSI_POINTS_OVERSAMPLE, squares = os + 1;
    if (!phase) {
        int64_t square = (int64_t)(s->sub_u + os / 2) * squares + s->sub_v + os / 2;
        msi_c32 g = msi_points_value(MSI_POINTS_TABLE, (uint64_t)((square * taps + tv) * taps + tu));
        return (msi_c64){g.re, g.im};
    }
    double step = 2.0 / taps, x = (tu - taps / 2 - (double)s->sub_u / os) * step,
           y = (tv - taps / 2 - (double)s->sub_v / os) * step;
    double p = phase->turns * (1 - sqrt(x * x + y * y));
    for (int i = 0; i < phase->n_polynomial; i++) p += p * p / MSI_GATHER_PHASE_SCALE;
    p = 2 * MSI_PI * (p - rint(p));
    return (msi_c64){cos(p), sin(p)};
}

msi_c64 msi_points_reference(int32_t taps, uint64_t i, const msi_gather_phase *phase)
{
    const int32_t n = MSI_POINTS_CELLS;
    msi_wproj_sample s = msi_points_sample(i);
    msi_c64 sum = {0, 0};
    for (int32_t tv = 0; tv < taps; tv++)
        for (int32_t tu = 0; tu < taps; tu++) {
            int64_t u = (s.u - taps / 2 + tu + n) % n, v = (s.v - taps / 2 + tv + n) % n;
            msi_c32 x = msi_points_value(MSI_POINTS_IMAGE, (uint64_t)(v * n + u));
            msi_c64 g = weight(&s, taps, tu, tv, phase);
            sum.re += (double)x.re * g.re + (double)x.im * g.im;
            sum.im += (double)x.im * g.re - (double)x.re * g.im;
        }
    return sum;
}

double msi_points_bound_ms(int32_t taps, int64_t n, msi_precision precision, double bytes_per_s)
{
    const double sector = 32, cell = (double)msi_complex_bytes(precision);
    const double cells = (double)MSI_POINTS_CELLS * MSI_POINTS_CELLS, per_sector = sector / cell;
    /* Number of first cells of points that touch a sector. */
    double places = taps * (taps + per_sector - 1);
    double touched = cells / per_sector * -expm1(-(double)n * places / cells);
    return 1e3 * (touched * sector + (double)n * (sizeof(msi_wproj_sample) + cell)) / bytes_per_s;
}

/* Return a random number in [0, 1). The generator is defined here, so that the workload is the same everywhere. */
static double uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static double gaussian(uint64_t *state)
{
    double r = uniform(state), t = uniform(state);
    return sqrt(-2 * log(1 - r)) * cos(2 * MSI_PI * t);
}

/* An array on flat ground: a gaussian core, and other antennas log-uniform in distance. */
typedef struct layout {
    int n_antenna, n_core;
    double core_sigma_m, far_min_m, far_max_m;
    double latitude_rad, dec_rad, ha_first_rad;
    double step_s;
    int n_time, n_chan;
    double freq_hz, chan_hz;
} layout;

static const double EARTH_RAD_S = 2 * MSI_PI / 86164.1;
static const double FILL = 0.47; /* the longest baseline reaches this part of the grid */

enum { MAX_ANTENNA = 64 };

static void place_antennas(const layout *l, double (*xyz)[3])
{
    uint64_t seed = 20160119;
    for (int i = 0; i < l->n_antenna; i++) {
        double east, north;
        if (i < l->n_core) {
            east = l->core_sigma_m * gaussian(&seed);
            north = l->core_sigma_m * gaussian(&seed);
        } else {
            double r = l->far_min_m * pow(l->far_max_m / l->far_min_m, uniform(&seed));
            double t = 2 * MSI_PI * uniform(&seed);
            east = r * sin(t);
            north = r * cos(t);
        }
        xyz[i][0] = -sin(l->latitude_rad) * north;
        xyz[i][1] = east;
        xyz[i][2] = cos(l->latitude_rad) * north;
    }
}

/* Compute uvw in metres of a baseline at an hour angle. */
static void project(const double *b, double ha, double dec, double *uvw)
{
    double s = sin(ha), c = cos(ha), sd = sin(dec), cd = cos(dec);
    uvw[0] = s * b[0] + c * b[1];
    uvw[1] = -sd * c * b[0] + sd * s * b[1] + cd * b[2];
    uvw[2] = cd * c * b[0] - cd * s * b[1] + sd * b[2];
}

static int same_place(const msi_wproj_sample *a, const msi_wproj_sample *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static int make_tracks(msi_tracks *out, const layout *l, int grid, int oversample, int n_plane, int merge)
{
    int64_t n_baseline = (int64_t)l->n_antenna * (l->n_antenna - 1) / 2;
    *out = (msi_tracks){.grid = grid, .oversample = oversample, .n_plane = n_plane};
    out->n_baseline = n_baseline;
    out->n_before_merging = n_baseline * l->n_time * l->n_chan;
    MSI_TRY(msi_alloc(&out->sample, out->n_before_merging, sizeof *out->sample, "samples of a workload"));
    double xyz[MAX_ANTENNA][3], longest = 0, w_largest = 0;
    place_antennas(l, xyz);
    /* Find the extremes over baselines and times, which determine the scales. */
    for (int i = 0; i < l->n_antenna; i++)
        for (int j = i + 1; j < l->n_antenna; j++)
            for (int t = 0; t < l->n_time; t += 30) {
                double b[3] = {xyz[j][0] - xyz[i][0], xyz[j][1] - xyz[i][1], xyz[j][2] - xyz[i][2]}, uvw[3];
                project(b, l->ha_first_rad + t * l->step_s * EARTH_RAD_S, l->dec_rad, uvw);
                longest = fmax(longest, fmax(fabs(uvw[0]), fabs(uvw[1])));
                w_largest = fmax(w_largest, fabs(uvw[2]));
            }
    double top = l->freq_hz + l->n_chan * l->chan_hz;
    double cells = FILL * grid / (longest * top), planes = (n_plane - 1) / (w_largest * top * 1.01);
    msi_wproj_sample *s = out->sample, *last = NULL;
    for (int i = 0; i < l->n_antenna; i++)
        for (int j = i + 1; j < l->n_antenna; j++) {
            double b[3] = {xyz[j][0] - xyz[i][0], xyz[j][1] - xyz[i][1], xyz[j][2] - xyz[i][2]}, uvw[3];
            last = NULL;
            for (int t = 0; t < l->n_time; t++) {
                project(b, l->ha_first_rad + t * l->step_s * EARTH_RAD_S, l->dec_rad, uvw);
                for (int c = 0; c < l->n_chan; c++) {
                    double freq = l->freq_hz + c * l->chan_hz;
                    double u = uvw[0] * freq * cells, v = uvw[1] * freq * cells;
                    *s = (msi_wproj_sample){.u = msi_wproj_cell(u),
                                            .v = msi_wproj_cell(v),
                                            .plane = (int16_t)msi_wproj_plane(fabs(uvw[2] * freq), planes, 0, n_plane),
                                            .conjugate = uvw[2] < 0};
                    s->sub_u = (int16_t)msi_wproj_sub(u, s->u, oversample);
                    s->sub_v = (int16_t)msi_wproj_sub(v, s->v, oversample);
                    if (merge && last && same_place(s, last)) continue;
                    last = s++;
                }
            }
        }
    out->n = s - out->sample;
    return MSI_OK;
}

int msi_tracks_romein(msi_tracks *out, int n_time, int merge)
{
    layout l = {.n_antenna = 44,
                .n_core = 24,
                .core_sigma_m = 1000,
                .far_min_m = 3000,
                .far_max_m = 40000,
                .latitude_rad = 52.9 * MSI_PI / 180,
                .dec_rad = 50 * MSI_PI / 180,
                .ha_first_rad = -45 * MSI_PI / 180,
                .step_s = 10,
                .n_time = n_time,
                .n_chan = 16,
                .freq_hz = 120e6,
                .chan_hz = 195312.5 / 16};
    return make_tracks(out, &l, 2048, 8, 32, merge);
}

int msi_tracks_merry(msi_tracks *out, int merge)
{
    layout l = {.n_antenna = 64,
                .n_core = 44,
                .core_sigma_m = 500,
                .far_min_m = 1000,
                .far_max_m = 4000,
                .latitude_rad = -30.7 * MSI_PI / 180,
                .dec_rad = -45 * MSI_PI / 180,
                .ha_first_rad = -60 * MSI_PI / 180,
                .step_s = 8,
                .n_time = 3600,
                .n_chan = 1,
                .freq_hz = 1.4e9};
    return make_tracks(out, &l, 4096, 8, 64, merge);
}

void msi_tracks_free(msi_tracks *tracks)
{
    msi_free(tracks->sample);
    *tracks = (msi_tracks){0};
}
