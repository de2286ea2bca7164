/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/array_layout.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "testdata/counter_random.h"

#define DEG (MSI_PI / 180)

/* WGS84. */
static const double EARTH_RADIUS_M = 6378137.0;
static const double EARTH_FLATTENING = 1 / 298.257223563;

/* The origin of local east, north, up coordinates, to convert them to geocentric ones. */
typedef struct site {
    double longitude_rad, latitude_rad, height_m;
} site;

static void enu_to_itrf(const site *s, const double enu_m[3], double itrf_m[3])
{
    double e2 = EARTH_FLATTENING * (2 - EARTH_FLATTENING);
    double sin_lat = sin(s->latitude_rad), cos_lat = cos(s->latitude_rad);
    double sin_lon = sin(s->longitude_rad), cos_lon = cos(s->longitude_rad);
    double normal_m = EARTH_RADIUS_M / sqrt(1 - e2 * sin_lat * sin_lat);
    double outward = cos_lat * enu_m[2] - sin_lat * enu_m[1];
    double axis_m = (normal_m + s->height_m) * cos_lat + outward;
    itrf_m[0] = axis_m * cos_lon - sin_lon * enu_m[0];
    itrf_m[1] = axis_m * sin_lon + cos_lon * enu_m[0];
    itrf_m[2] = (normal_m * (1 - e2) + s->height_m) * sin_lat + cos_lat * enu_m[1] + sin_lat * enu_m[2];
}

static int layout_start(msi_layout *out, const char *telescope, int n_station, const site *s)
{
    *out = (msi_layout){.n_station = n_station, .longitude_rad = s->longitude_rad, .latitude_rad = s->latitude_rad};
    snprintf(out->telescope, sizeof out->telescope, "%s", telescope);
    return msi_alloc(&out->station, n_station, sizeof *out->station, "stations");
}

/* Place station i at (east, north, height). Heights are above the ground, which follows the Earth's curve. */
static void place(msi_layout *layout, int i, const site *s, const double enh_m[3], double diameter_m,
                  const char *name_format)
{
    msi_station *station = &layout->station[i];
    const double fall_m = (enh_m[0] * enh_m[0] + enh_m[1] * enh_m[1]) / (2 * EARTH_RADIUS_M);
    const double enu_m[3] = {enh_m[0], enh_m[1], enh_m[2] - fall_m};
    enu_to_itrf(s, enu_m, station->itrf_m);
    station->diameter_m = diameter_m;
    /* All formats are literals of this file. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(station->name, sizeof station->name, name_format, i);
#pragma GCC diagnostic pop
}

int msi_layout_vla(msi_layout *out, char config)
{
    static const double azimuth_deg[3] = {355, 115, 236};
    const site s = {-107.6184 * DEG, 34.08 * DEG, 2124};
    *out = (msi_layout){0};
    if (config < 'A' || config > 'D')
        return msi_error_set(MSI_EUSAGE, "VLA configuration '%c': there are A, B, C and D", config);
    MSI_TRY(layout_start(out, "VLA", 27, &s));
    out->circular_feeds = 1;
    out->first_freq_hz = 1.4e9;
    out->band_hz = 64e6;
    const double clear_m = 15; /* the innermost antennas are this far from the middle, so that they do not touch */
    double arm_m = 21000 / pow(3.285, config - 'A') - clear_m;
    for (int i = 0; i < 27; i++) {
        int arm = i % 3;
        /* The arms are slightly staggered, so that no two baselines are equal. */
        double radius_m = clear_m + arm_m * pow((i / 3 + 1 - 0.08 * arm) / 9.0, 1.716);
        double azimuth_rad = azimuth_deg[arm] * DEG;
        const double enh_m[3] = {radius_m * sin(azimuth_rad), radius_m * cos(azimuth_rad), 0};
        place(out, i, &s, enh_m, 25, "ea%02d");
    }
    return MSI_OK;
}

/* Streams of random numbers, one for each use. */
enum { STREAM_CORE = 1, STREAM_OUTER, STREAM_HEIGHT };

/* Return whether (east, north) is far enough from the first n points. */
static int clear_of(const double (*enu_m)[2], int n, double east_m, double north_m, double distance_m)
{
    for (int i = 0; i < n; i++)
        if (hypot(enu_m[i][0] - east_m, enu_m[i][1] - north_m) < distance_m) return 0;
    return 1;
}

static double height_of(uint64_t seed, int i)
{
    return 4 * (msi_random_uniform(seed, STREAM_HEIGHT, (uint64_t)i) - 0.5);
}

int msi_layout_meerkat(msi_layout *out, uint64_t seed)
{
    enum { N = 64, N_CORE = 45 };
    const site s = {21.443 * DEG, -30.71 * DEG, 1053};
    const double core_sigma_m = 300, core_limit_m = 1000, outer_limit_m = 4000, spacing_m = 30;
    double enu_m[N][2];
    MSI_TRY(layout_start(out, "MeerKAT", N, &s));
    out->first_freq_hz = 882.75e6;
    out->band_hz = 856e6;
    uint64_t draw = 0;
    for (int i = 0; i < N_CORE;) {
        msi_c64 r = msi_random_normal_pair(seed, STREAM_CORE, draw++);
        enu_m[i][0] = core_sigma_m * r.re;
        enu_m[i][1] = core_sigma_m * r.im;
        if (hypot(enu_m[i][0], enu_m[i][1]) < core_limit_m && clear_of(enu_m, i, enu_m[i][0], enu_m[i][1], spacing_m))
            i++;
    }
    for (int i = N_CORE; i < N; i++) {
        /* Radii evenly spread in the logarithm; azimuths a golden angle apart, with some scatter. */
        double k = i - N_CORE + msi_random_uniform(seed, STREAM_OUTER, 2 * (uint64_t)i);
        double radius_m = core_limit_m * pow(outer_limit_m / core_limit_m, k / (N - N_CORE));
        double azimuth_rad =
            (137.508 * (i - N_CORE) + 40 * (msi_random_uniform(seed, STREAM_OUTER, 2 * (uint64_t)i + 1) - 0.5)) * DEG;
        enu_m[i][0] = radius_m * sin(azimuth_rad);
        enu_m[i][1] = radius_m * cos(azimuth_rad);
    }
    for (int i = 0; i < N; i++) {
        const double enh_m[3] = {enu_m[i][0], enu_m[i][1], height_of(seed, i)};
        place(out, i, &s, enh_m, 13.5, "m%03d");
    }
    return MSI_OK;
}

int msi_layout_skalow(msi_layout *out, int n_station, uint64_t seed)
{
    const site s = {116.7644 * DEG, -26.82 * DEG, 365};
    const double arm_start_m = 700, arm_end_m = 37000, spacing_m = 36, turns_per_arm = 0.9;
    *out = (msi_layout){0};
    if (n_station < 2 || n_station > 10000)
        return msi_error_set(MSI_EUSAGE, "%d stations: 2 to 10000 can be laid out", n_station);
    double(*enu_m)[2];
    MSI_TRY(msi_alloc(&enu_m, n_station, sizeof *enu_m, "station positions"));
    int n_core = n_station / 2;
    /* 256 stations, spaced by 36 m, cover a third of a disc of 500 m. Random placing still succeeds there. */
    double core_m = n_core > 256 ? 500 * sqrt(n_core / 256.0) : 500;
    uint64_t draw = 0;
    for (int i = 0; i < n_core;) {
        double radius_m = core_m * sqrt(msi_random_uniform(seed, STREAM_CORE, draw));
        double azimuth_rad = 2 * MSI_PI * msi_random_uniform(seed, STREAM_CORE, draw + 1);
        draw += 2;
        enu_m[i][0] = radius_m * sin(azimuth_rad);
        enu_m[i][1] = radius_m * cos(azimuth_rad);
        if (clear_of((const double(*)[2])enu_m, i, enu_m[i][0], enu_m[i][1], spacing_m)) i++;
    }
    double first_m = arm_start_m > 1.2 * core_m ? arm_start_m : 1.2 * core_m;
    int n_on_arm = (n_station - n_core + 2) / 3;
    for (int i = n_core; i < n_station; i++) {
        int arm = (i - n_core) % 3, step = (i - n_core) / 3;
        /* The station scatters about the arm, more widely after each try that hits an occupied place. */
        double scatter_rad = 0.15;
        do {
            double along = (step + 0.5 + 0.6 * (msi_random_uniform(seed, STREAM_OUTER, draw) - 0.5)) / n_on_arm;
            double radius_m = first_m * pow(arm_end_m / first_m, along);
            double azimuth_rad = 2 * MSI_PI * (arm / 3.0 + turns_per_arm * along) +
                                 scatter_rad * (msi_random_uniform(seed, STREAM_OUTER, draw + 1) - 0.5);
            enu_m[i][0] = radius_m * sin(azimuth_rad);
            enu_m[i][1] = radius_m * cos(azimuth_rad);
            draw += 2;
            scatter_rad *= 1.1;
        } while (!clear_of((const double(*)[2])enu_m, i, enu_m[i][0], enu_m[i][1], spacing_m));
    }
    int status = layout_start(out, "SKA-Low", n_station, &s);
    if (status == MSI_OK) {
        out->first_freq_hz = 101.25e6;
        out->band_hz = 40e6;
        for (int i = 0; i < n_station; i++) {
            const double enh_m[3] = {enu_m[i][0], enu_m[i][1], height_of(seed, i)};
            place(out, i, &s, enh_m, 38, "s%04d");
        }
    }
    msi_free(enu_m);
    return status;
}

static int read_stations(msi_layout *out, const char *path, FILE *f)
{
    char line[512];
    int capacity = 0;
    for (int64_t number = 1; fgets(line, sizeof line, f); number++) {
        char *p = line + strspn(line, " \t\r\n");
        if (!*p || *p == '#') continue;
        msi_station station = {0};
        double *x = station.itrf_m;
        if (sscanf(p, "%lf %lf %lf %lf %31s", &x[0], &x[1], &x[2], &station.diameter_m, station.name) != 5 ||
            !isfinite(x[0] + x[1] + x[2]) || !(station.diameter_m > 0))
            return msi_error_set(MSI_EINPUT, "%s: line %lld is not `X Y Z diameter name`", path, (long long)number);
        if (out->n_station == capacity) {
            msi_station *wider;
            capacity = capacity ? 2 * capacity : 64;
            MSI_TRY(msi_alloc(&wider, capacity, sizeof *wider, "stations"));
            if (out->station) memcpy(wider, out->station, (size_t)out->n_station * sizeof *wider);
            msi_free(out->station);
            out->station = wider;
        }
        out->station[out->n_station++] = station;
    }
    if (ferror(f)) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    if (out->n_station < 2)
        return msi_error_set(MSI_EINPUT, "%s: %d stations; an array has at least 2", path, out->n_station);
    return MSI_OK;
}

int msi_layout_read(msi_layout *out, const char *path)
{
    *out = (msi_layout){.first_freq_hz = 1e9, .band_hz = 64e6};
    FILE *f = fopen(path, "r");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    int status = read_stations(out, path, f);
    fclose(f);
    if (status != MSI_OK) {
        msi_layout_free(out);
        return status;
    }
    double mean_m[3] = {0, 0, 0};
    for (int i = 0; i < out->n_station; i++)
        for (int k = 0; k < 3; k++) mean_m[k] += out->station[i].itrf_m[k] / out->n_station;
    double squash = (1 - EARTH_FLATTENING) * (1 - EARTH_FLATTENING);
    out->longitude_rad = atan2(mean_m[1], mean_m[0]);
    out->latitude_rad = atan2(mean_m[2], squash * hypot(mean_m[0], mean_m[1]));
    const char *slash = strrchr(path, '/');
    snprintf(out->telescope, sizeof out->telescope, "%.31s", slash ? slash + 1 : path);
    char *dot = strrchr(out->telescope, '.');
    if (dot && dot > out->telescope) *dot = 0;
    return MSI_OK;
}

double msi_layout_longest_m(const msi_layout *layout)
{
    double longest2 = 0;
    for (int i = 0; i < layout->n_station; i++)
        for (int j = 0; j < i; j++) {
            const double *a = layout->station[i].itrf_m, *b = layout->station[j].itrf_m;
            double d2 = (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) + (a[2] - b[2]) * (a[2] - b[2]);
            if (d2 > longest2) longest2 = d2;
        }
    return sqrt(longest2);
}

void msi_layout_free(msi_layout *layout)
{
    msi_free(layout->station);
    *layout = (msi_layout){0};
}
