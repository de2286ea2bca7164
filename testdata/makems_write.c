/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "testdata/casacore_try.h"
#include "testdata/counter_random.h"
#include "testdata/makems.h"
#include "testdata/makems_block.h"
#include "testdata/point_model.h"

/* Return MSI_EOUTPUT from the caller if a call of casacore fails. */
#define CCC_TRY(expr) MSI_CASACORE_TRY(MSI_EOUTPUT, expr)

/* ---- Subtables ---- */

/* CASA's number of the topocentric frame of frequencies. */
enum { FREQ_TOPO = 5 };

static const int64_t shape_1[] = {1}, shape_2[] = {2}, shape_3[] = {3}, shape_2x1[] = {2, 1}, shape_2x2[] = {2, 2};

static int fill_antenna(ccc_table *t, const msi_makems_spec *spec)
{
    static const double offset_m[3] = {0, 0, 0};
    CCC_TRY(ccc_table_add_rows(t, spec->layout->n_station));
    for (int i = 0; i < spec->layout->n_station; i++) {
        const msi_station *station = &spec->layout->station[i];
        CCC_TRY(ccc_put_string(t, "NAME", i, station->name));
        CCC_TRY(ccc_put_string(t, "STATION", i, station->name));
        CCC_TRY(ccc_put_string(t, "TYPE", i, "GROUND-BASED"));
        CCC_TRY(ccc_put_string(t, "MOUNT", i, "ALT-AZ"));
        CCC_TRY(ccc_put_array(t, "POSITION", i, 1, shape_3, CCC_DOUBLE, station->itrf_m));
        CCC_TRY(ccc_put_array(t, "OFFSET", i, 1, shape_3, CCC_DOUBLE, offset_m));
        CCC_TRY(ccc_put_double(t, "DISH_DIAMETER", i, station->diameter_m));
        CCC_TRY(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return MSI_OK;
}

static int is_circular(const msi_makems_spec *spec)
{
    return spec->spw[0].corr[0] >= MSI_POL_RR && spec->spw[0].corr[0] <= MSI_POL_LL;
}

static int fill_feed(ccc_table *t, const msi_makems_spec *spec)
{
    static const char *const linear[2] = {"X", "Y"}, *const circular[2] = {"R", "L"};
    static const double zero[4] = {0, 0, 0, 0};
    static const msi_c32 response[4] = {{1, 0}, {0, 0}, {0, 0}, {1, 0}};
    double span_s = (double)spec->n_time * spec->integration_s;
    CCC_TRY(ccc_table_add_rows(t, spec->layout->n_station));
    for (int i = 0; i < spec->layout->n_station; i++) {
        CCC_TRY(ccc_put_int(t, "ANTENNA_ID", i, i));
        CCC_TRY(ccc_put_int(t, "FEED_ID", i, 0));
        CCC_TRY(ccc_put_int(t, "SPECTRAL_WINDOW_ID", i, -1));
        CCC_TRY(ccc_put_double(t, "TIME", i, spec->start_mjd_s + span_s / 2));
        CCC_TRY(ccc_put_double(t, "INTERVAL", i, span_s));
        CCC_TRY(ccc_put_int(t, "NUM_RECEPTORS", i, 2));
        CCC_TRY(ccc_put_int(t, "BEAM_ID", i, -1));
        CCC_TRY(ccc_put_array(t, "BEAM_OFFSET", i, 2, shape_2x2, CCC_DOUBLE, zero));
        CCC_TRY(ccc_put_strings(t, "POLARIZATION_TYPE", i, 1, shape_2, is_circular(spec) ? circular : linear));
        CCC_TRY(ccc_put_array(t, "POL_RESPONSE", i, 2, shape_2x2, CCC_COMPLEX, response));
        CCC_TRY(ccc_put_array(t, "POSITION", i, 1, shape_3, CCC_DOUBLE, zero));
        CCC_TRY(ccc_put_array(t, "RECEPTOR_ANGLE", i, 1, shape_2, CCC_DOUBLE, zero));
    }
    return MSI_OK;
}

static int fill_field(ccc_table *t, const msi_makems_spec *spec)
{
    CCC_TRY(ccc_table_add_rows(t, spec->n_field));
    for (int i = 0; i < spec->n_field; i++) {
        double direction_rad[2] = {spec->field[i].ra_rad, spec->field[i].dec_rad};
        CCC_TRY(ccc_put_string(t, "NAME", i, spec->field[i].name));
        CCC_TRY(ccc_put_string(t, "CODE", i, ""));
        CCC_TRY(ccc_put_double(t, "TIME", i, spec->start_mjd_s));
        CCC_TRY(ccc_put_int(t, "NUM_POLY", i, 0));
        CCC_TRY(ccc_put_array(t, "DELAY_DIR", i, 2, shape_2x1, CCC_DOUBLE, direction_rad));
        CCC_TRY(ccc_put_array(t, "PHASE_DIR", i, 2, shape_2x1, CCC_DOUBLE, direction_rad));
        CCC_TRY(ccc_put_array(t, "REFERENCE_DIR", i, 2, shape_2x1, CCC_DOUBLE, direction_rad));
        CCC_TRY(ccc_put_int(t, "SOURCE_ID", i, -1));
        CCC_TRY(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return MSI_OK;
}

/* Fill a row of SPECTRAL_WINDOW. Given: scratch [2][n_chan] */
static int fill_one_spw(ccc_table *t, int i, const msi_makems_spw *spw, double *scratch)
{
    const int64_t shape[1] = {spw->n_chan};
    double *freq_hz = scratch, *width_hz = scratch + spw->n_chan;
    char name[64];
    snprintf(name, sizeof name, "%d channels from %.6g MHz", spw->n_chan, 1e-6 * spw->first_freq_hz);
    for (int k = 0; k < spw->n_chan; k++) {
        freq_hz[k] = spw->first_freq_hz + k * spw->step_hz;
        width_hz[k] = spw->step_hz;
    }
    CCC_TRY(ccc_put_int(t, "NUM_CHAN", i, spw->n_chan));
    CCC_TRY(ccc_put_string(t, "NAME", i, name));
    CCC_TRY(ccc_put_double(t, "REF_FREQUENCY", i, spw->first_freq_hz));
    CCC_TRY(ccc_put_array(t, "CHAN_FREQ", i, 1, shape, CCC_DOUBLE, freq_hz));
    CCC_TRY(ccc_put_array(t, "CHAN_WIDTH", i, 1, shape, CCC_DOUBLE, width_hz));
    for (int k = 0; k < spw->n_chan; k++) width_hz[k] = fabs(spw->step_hz);
    CCC_TRY(ccc_put_array(t, "EFFECTIVE_BW", i, 1, shape, CCC_DOUBLE, width_hz));
    CCC_TRY(ccc_put_array(t, "RESOLUTION", i, 1, shape, CCC_DOUBLE, width_hz));
    CCC_TRY(ccc_put_int(t, "MEAS_FREQ_REF", i, FREQ_TOPO));
    CCC_TRY(ccc_put_double(t, "TOTAL_BANDWIDTH", i, spw->n_chan * fabs(spw->step_hz)));
    CCC_TRY(ccc_put_int(t, "NET_SIDEBAND", i, spw->step_hz < 0 ? -1 : 1));
    CCC_TRY(ccc_put_int(t, "IF_CONV_CHAIN", i, 0));
    CCC_TRY(ccc_put_int(t, "FREQ_GROUP", i, 0));
    CCC_TRY(ccc_put_string(t, "FREQ_GROUP_NAME", i, ""));
    CCC_TRY(ccc_put_bool(t, "FLAG_ROW", i, 0));
    return MSI_OK;
}

static int fill_spectral_window(ccc_table *t, const msi_makems_spec *spec)
{
    if (spec->defect == MSI_DEFECT_ZERO_SPWS) return MSI_OK;
    CCC_TRY(ccc_table_add_rows(t, spec->n_spw));
    for (int i = 0; i < spec->n_spw; i++) {
        double *scratch;
        MSI_TRY(msi_alloc(&scratch, 2 * (int64_t)spec->spw[i].n_chan, sizeof *scratch, "frequencies"));
        int status = fill_one_spw(t, i, &spec->spw[i], scratch);
        msi_free(scratch);
        MSI_TRY(status);
    }
    return MSI_OK;
}

static int same_corr(const msi_makems_spw *a, const msi_makems_spw *b)
{
    return a->n_corr == b->n_corr && !memcmp(a->corr, b->corr, (size_t)a->n_corr * sizeof *a->corr);
}

/* Find the first spw with the correlations of spw i. */
static int first_alike(const msi_makems_spec *spec, int i)
{
    int j = 0;
    while (!same_corr(&spec->spw[j], &spec->spw[i])) j++;
    return j;
}

static int fill_polarization(ccc_table *t, const msi_makems_spec *spec)
{
    int64_t row = 0;
    for (int i = 0; i < spec->n_spw; i++) {
        if (first_alike(spec, i) != i) continue;
        const msi_makems_spw *spw = &spec->spw[i];
        const int64_t shape[1] = {spw->n_corr}, product_shape[2] = {2, spw->n_corr};
        int32_t type[MSI_MAX_CORR], product[MSI_MAX_CORR][2];
        for (int c = 0; c < spw->n_corr; c++) {
            int pair = spw->corr[c] >= MSI_POL_XX ? spw->corr[c] - MSI_POL_XX : spw->corr[c] - MSI_POL_RR;
            type[c] = spw->corr[c];
            product[c][0] = pair >> 1;
            product[c][1] = pair & 1;
        }
        CCC_TRY(ccc_table_add_rows(t, 1));
        CCC_TRY(ccc_put_int(t, "NUM_CORR", row, spw->n_corr));
        CCC_TRY(ccc_put_array(t, "CORR_TYPE", row, 1, shape, CCC_INT32, type));
        CCC_TRY(ccc_put_array(t, "CORR_PRODUCT", row, 2, product_shape, CCC_INT32, product));
        CCC_TRY(ccc_put_bool(t, "FLAG_ROW", row, 0));
        row++;
    }
    return MSI_OK;
}

static int fill_data_description(ccc_table *t, const msi_makems_spec *spec)
{
    CCC_TRY(ccc_table_add_rows(t, spec->n_spw));
    for (int i = 0; i < spec->n_spw; i++) {
        int polarization = 0;
        for (int j = 0; j < first_alike(spec, i); j++) polarization += first_alike(spec, j) == j;
        CCC_TRY(ccc_put_int(t, "SPECTRAL_WINDOW_ID", i, i));
        CCC_TRY(ccc_put_int(t, "POLARIZATION_ID", i, polarization));
        CCC_TRY(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return MSI_OK;
}

static int fill_observation(ccc_table *t, const msi_makems_spec *spec)
{
    static const char *const log[1] = {"simulated"};
    double range_s[2] = {spec->start_mjd_s, spec->start_mjd_s + (double)spec->n_time * spec->integration_s};
    CCC_TRY(ccc_table_add_rows(t, 1));
    CCC_TRY(ccc_put_array(t, "TIME_RANGE", 0, 1, shape_2, CCC_DOUBLE, range_s));
    CCC_TRY(ccc_put_string(t, "OBSERVER", 0, "msimage-makems"));
    CCC_TRY(ccc_put_strings(t, "LOG", 0, 1, shape_1, log));
    CCC_TRY(ccc_put_string(t, "SCHEDULE_TYPE", 0, ""));
    CCC_TRY(ccc_put_strings(t, "SCHEDULE", 0, 1, shape_1, log));
    CCC_TRY(ccc_put_string(t, "PROJECT", 0, "simulated"));
    CCC_TRY(ccc_put_double(t, "RELEASE_DATE", 0, range_s[1]));
    CCC_TRY(ccc_put_string(t, "TELESCOPE_NAME", 0, spec->layout->telescope));
    CCC_TRY(ccc_put_bool(t, "FLAG_ROW", 0, 0));
    return MSI_OK;
}

static int fill_history(ccc_table *t, const msi_makems_spec *spec)
{
    const char *command[1] = {spec->command ? spec->command : ""};
    static const char *const parameters[1] = {""};
    CCC_TRY(ccc_table_add_rows(t, 1));
    CCC_TRY(ccc_put_double(t, "TIME", 0, spec->start_mjd_s + (double)spec->n_time * spec->integration_s));
    CCC_TRY(ccc_put_int(t, "OBSERVATION_ID", 0, 0));
    CCC_TRY(ccc_put_string(t, "MESSAGE", 0, "exact visibilities of point sources; J2000 is the equator of date"));
    CCC_TRY(ccc_put_string(t, "PRIORITY", 0, "NORMAL"));
    CCC_TRY(ccc_put_string(t, "ORIGIN", 0, "msimage-makems"));
    CCC_TRY(ccc_put_int(t, "OBJECT_ID", 0, -1));
    CCC_TRY(ccc_put_string(t, "APPLICATION", 0, "msimage-makems"));
    CCC_TRY(ccc_put_strings(t, "CLI_COMMAND", 0, 1, shape_1, command));
    CCC_TRY(ccc_put_strings(t, "APP_PARAMS", 0, 1, shape_1, parameters));
    return MSI_OK;
}

/* Fill the subtables ANTENNA, FEED, FIELD, SPECTRAL_WINDOW, POLARIZATION, DATA_DESCRIPTION, OBSERVATION and HISTORY.
 * start_mjd_s must be set. */
static int fill_subtables(ccc_table *ms, const msi_makems_spec *spec)
{
    static const struct {
        const char *name;
        int (*fill)(ccc_table *, const msi_makems_spec *);
    } subtable[] = {
        {"ANTENNA", fill_antenna},
        {"FEED", fill_feed},
        {"FIELD", fill_field},
        {"SPECTRAL_WINDOW", fill_spectral_window},
        {"POLARIZATION", fill_polarization},
        {"DATA_DESCRIPTION", fill_data_description},
        {"OBSERVATION", fill_observation},
        {"HISTORY", fill_history},
    };
    for (size_t i = 0; i < sizeof subtable / sizeof *subtable; i++) {
        ccc_table *t;
        CCC_TRY(ccc_subtable_open(&t, ms, subtable[i].name));
        int status = subtable[i].fill(t, spec);
        int closed = ccc_table_close(t);
        MSI_TRY(status);
        CCC_TRY(closed);
    }
    return MSI_OK;
}

/* ---- The main table ---- */

/* Bytes of DATA in a block of rows; a block has at least one row. */
static const int64_t BLOCK_BYTES = 8 << 20;
/* Bytes of a tile. */
static const int64_t TILE_BYTES = 512 << 10;
enum {
    SCALAR_BUCKET_BYTES = 32768, /* as CASA makes them */
    MAX_STORAGE = 12
};

int64_t msi_makems_n_baseline(const msi_makems_spec *spec)
{
    int64_t n = spec->layout->n_station;
    return spec->autocorrelations ? n * (n + 1) / 2 : n * (n - 1) / 2;
}

int64_t msi_makems_n_row(const msi_makems_spec *spec)
{
    return spec->n_time * msi_makems_n_baseline(spec) * spec->n_spw;
}

double msi_makems_reference_freq(const msi_makems_spec *spec)
{
    if (spec->reference_freq_hz > 0) return spec->reference_freq_hz;
    double low = INFINITY, high = 0;
    for (int w = 0; w < spec->n_spw; w++) {
        double a = spec->spw[w].first_freq_hz, b = a + (spec->spw[w].n_chan - 1) * spec->spw[w].step_hz;
        low = fmin(low, fmin(a, b));
        high = fmax(high, fmax(a, b));
    }
    return (low + high) / 2;
}

double msi_makems_start(const msi_makems_spec *spec, double hour_angle_rad)
{
    return msi_sky_time_of(spec->field[0].ra_rad, hour_angle_rad, spec->layout->longitude_rad, MSI_MAKEMS_EPOCH_MJD_S);
}

void msi_makems_random_sources(msi_makems_source *source, int n, uint64_t seed, double ra_rad, double dec_rad,
                               double width_rad)
{
    enum { STREAM_SOURCE = 17, DRAWS = 8 };
    for (int i = 0; i < n; i++) {
        double draw[DRAWS];
        for (int k = 0; k < DRAWS; k++)
            draw[k] = msi_random_uniform(seed, STREAM_SOURCE, (uint64_t)i * DRAWS + (uint64_t)k);
        msi_makems_source *s = &source[i];
        msi_sky_from_lm((draw[0] - 0.5) * width_rad, (draw[1] - 0.5) * width_rad, ra_rad, dec_rad, &s->ra_rad,
                        &s->dec_rad);
        double flux_jy = 0.1 / (0.1 + 0.9 * draw[2]), linear_jy = 0.1 * draw[3] * flux_jy;
        s->stokes_jy[0] = flux_jy;
        s->stokes_jy[1] = linear_jy * cos(2 * MSI_PI * draw[4]);
        s->stokes_jy[2] = linear_jy * sin(2 * MSI_PI * draw[4]);
        s->stokes_jy[3] = 0.04 * (draw[5] - 0.5) * flux_jy;
        s->spectral_index = -0.7 + 0.4 * (draw[6] - 0.5);
    }
}

static int same_shape(const msi_makems_spec *spec)
{
    for (int w = 1; w < spec->n_spw; w++)
        if (spec->spw[w].n_chan != spec->spw[0].n_chan || spec->spw[w].n_corr != spec->spw[0].n_corr) return 0;
    return 1;
}

static int same_n_corr(const msi_makems_spec *spec)
{
    for (int w = 1; w < spec->n_spw; w++)
        if (spec->spw[w].n_corr != spec->spw[0].n_corr) return 0;
    return 1;
}

static int check(const msi_makems_spec *spec)
{
    if (!spec->layout || spec->layout->n_station < 2 || spec->n_field < 1 || spec->n_spw < 1 || spec->n_time < 0 ||
        spec->n_source < 0)
        return msi_error_set(MSI_EUSAGE, "a set needs at least two stations, a field and a spectral window");
    if (!(spec->integration_s > 0))
        return msi_error_set(MSI_EUSAGE, "an integration of %g s: must be positive", spec->integration_s);
    for (int w = 0; w < spec->n_spw; w++) {
        const msi_makems_spw *spw = &spec->spw[w];
        double last_hz = spw->first_freq_hz + (spw->n_chan - 1) * spw->step_hz;
        if (spw->n_chan < 1 || !(spw->first_freq_hz > 0) || !(last_hz > 0) || spw->step_hz == 0)
            return msi_error_set(MSI_EUSAGE, "spw %d: %d channels from %g Hz in steps of %g Hz", w, spw->n_chan,
                                 spw->first_freq_hz, spw->step_hz);
        if (spw->n_corr < 1 || spw->n_corr > MSI_MAX_CORR)
            return msi_error_set(MSI_EUSAGE, "spw %d: %d correlations", w, spw->n_corr);
    }
    if (!(spec->noise_jy >= 0) || !(spec->flag_fraction >= 0 && spec->flag_fraction <= 1) ||
        !(spec->flag_row_fraction >= 0 && spec->flag_row_fraction <= 1))
        return msi_error_set(
            MSI_EUSAGE, "noise %g Jy, flags %g, flagged rows %g: noise must not be negative, fractions must be 0 to 1",
            spec->noise_jy, spec->flag_fraction, spec->flag_row_fraction);
    if (spec->storage == MSI_MAKEMS_TILED_COLUMN && !same_shape(spec))
        return msi_error_set(MSI_EUSAGE, "tiledcolumn storage needs spectral windows of one shape; use tiledshape");
    return MSI_OK;
}

/* The columns of the main table, and their storage managers. */
typedef struct plan {
    ccc_column_spec column[8];
    int n_column;
    ccc_storage storage[MAX_STORAGE];
    int n_storage;
    const char *name[MAX_STORAGE]; /* of the column in storage[i], if it has one column */
} plan;

static void plan_column(plan *p, const char *name, int is_fixed, int ndim, int64_t n0, int64_t n1)
{
    p->column[p->n_column++] = (ccc_column_spec){
        .name = name, .ndim = ndim, .is_fixed_shape = is_fixed, .shape = {is_fixed ? n0 : 0, is_fixed ? n1 : 0}};
}

/* Give a column a tiled storage manager. Given: bytes  size of an element of the widest column of that shape */
static void plan_tiled(plan *p, const char *name, const char *type, int ndim, int64_t n0, int64_t n1, int64_t bytes)
{
    int64_t rows = TILE_BYTES / (n0 * n1 * bytes);
    if (rows < 1) rows = 1;
    if (rows > 8192) rows = 8192;
    p->name[p->n_storage] = name;
    ccc_storage s = {.type = type, .n_column = 1, .columns = &p->name[p->n_storage], .tile_ndim = ndim + 1};
    s.tile_shape[0] = n0;
    s.tile_shape[1] = ndim == 2 ? n1 : rows;
    s.tile_shape[2] = ndim == 2 ? rows : 0;
    p->storage[p->n_storage++] = s;
}

static void make_plan(plan *p, const msi_makems_spec *spec)
{
    /* Columns that never change, and columns that change only with the timestep. */
    static const char *const constant[] = {"ARRAY_ID", "OBSERVATION_ID", "PROCESSOR_ID", "STATE_ID",
                                           "FEED1",    "FEED2",          "INTERVAL",     "EXPOSURE"};
    static const char *const scalar[] = {"TIME",     "TIME_CENTROID", "ANTENNA1",     "ANTENNA2",
                                         "FIELD_ID", "SCAN_NUMBER",   "DATA_DESC_ID", "FLAG_ROW"};
    *p = (plan){0};
    const int tiled = spec->storage != MSI_MAKEMS_STANDARD;
    const int shape_fixed = same_shape(spec) && spec->storage != MSI_MAKEMS_TILED_SHAPE;
    const int corr_fixed = same_n_corr(spec) && spec->storage != MSI_MAKEMS_TILED_SHAPE;
    const int partly = spec->weight_spectrum == MSI_MAKEMS_SPECTRUM_PARTLY;
    const char *type = spec->storage == MSI_MAKEMS_TILED_COLUMN ? "TiledColumnStMan" : "TiledShapeStMan";
    int64_t n_corr = spec->spw[0].n_corr, n_chan = spec->spw[0].n_chan;

    p->storage[p->n_storage++] = (ccc_storage){.type = "IncrementalStMan",
                                               .name = "IncrementalConstants",
                                               .n_column = sizeof constant / sizeof *constant,
                                               .columns = constant};
    p->storage[p->n_storage++] = (ccc_storage){.type = "StandardStMan",
                                               .name = "Scalars",
                                               .n_column = sizeof scalar / sizeof *scalar,
                                               .columns = scalar,
                                               .bucket_bytes = SCALAR_BUCKET_BYTES};
    const char *cubes[4];
    int n_cube = 0;
    if (spec->columns != MSI_MAKEMS_CORRECTED_DATA) cubes[n_cube++] = "DATA";
    if (spec->columns != MSI_MAKEMS_DATA) cubes[n_cube++] = "CORRECTED_DATA";
    cubes[n_cube++] = "FLAG";
    for (int i = 0; i < n_cube; i++) {
        plan_column(p, cubes[i], shape_fixed, 2, n_corr, n_chan);
        if (tiled) plan_tiled(p, cubes[i], type, 2, n_corr, n_chan, sizeof(msi_c32));
    }
    if (spec->weight_spectrum != MSI_MAKEMS_SPECTRUM_NONE) {
        /* A column of fixed shape has a value in every row. */
        plan_column(p, "WEIGHT_SPECTRUM", shape_fixed && !partly, 2, n_corr, n_chan);
        if (tiled)
            plan_tiled(p, "WEIGHT_SPECTRUM", partly ? "TiledShapeStMan" : type, 2, n_corr, n_chan, sizeof(msi_c32));
    }
    plan_column(p, "WEIGHT", corr_fixed, 1, n_corr, 0);
    plan_column(p, "SIGMA", corr_fixed, 1, n_corr, 0);
    if (tiled) {
        plan_tiled(p, "WEIGHT", type, 1, n_corr, 1, sizeof(float));
        plan_tiled(p, "SIGMA", type, 1, n_corr, 1, sizeof(float));
        plan_tiled(p, "UVW", "TiledColumnStMan", 1, 3, 1, sizeof(double));
    }
}

/* The values of a column in all rows of a block. */
typedef struct column_values {
    const char *name;
    ccc_type type;
    int ndim; /* of a cell; 0: a scalar */
    int64_t shape[2];
    const void *in;
} column_values;

/* Write a column of a block. Its rows need not be adjacent. */
static int put(ccc_table *ms, const msi_makems_block *b, const column_values *c)
{
    const int64_t *shape = c->ndim ? c->shape : NULL;
    if (b->ms_row[b->n_row - 1] - b->ms_row[0] == b->n_row - 1)
        CCC_TRY(ccc_put_range(ms, c->name, b->ms_row[0], b->n_row, c->ndim, shape, NULL, c->type, c->in));
    else
        CCC_TRY(ccc_put_rows(ms, c->name, b->ms_row, b->n_row, c->ndim, shape, NULL, c->type, c->in));
    return MSI_OK;
}

/* Write the weight spectra of the rows that have one; adjacent rows are written in one call. */
static int put_spectrum_partly(ccc_table *ms, const msi_makems_block *b, int64_t n_corr, int64_t n_chan)
{
    const int64_t shape[2] = {n_corr, n_chan};
    for (int64_t i = 0; i < b->n_row; i++) {
        if (!b->has_spectrum[i]) continue;
        int64_t end = i + 1;
        while (end < b->n_row && b->has_spectrum[end] && b->ms_row[end] - b->ms_row[i] == end - i) end++;
        CCC_TRY(ccc_put_range(ms, "WEIGHT_SPECTRUM", b->ms_row[i], end - i, 2, shape, NULL, CCC_FLOAT,
                              b->weight_spectrum + i * n_corr * n_chan));
        i = end - 1;
    }
    return MSI_OK;
}

static int put_block(ccc_table *ms, const msi_makems_spec *spec, msi_makems_block *b)
{
    const int64_t n_corr = spec->spw[b->spw].n_corr, n_chan = spec->spw[b->spw].n_chan;
    const column_values always[] = {
        {"TIME", CCC_DOUBLE, 0, {0, 0}, b->time_s},
        {"TIME_CENTROID", CCC_DOUBLE, 0, {0, 0}, b->time_s},
        {"ANTENNA1", CCC_INT32, 0, {0, 0}, b->antenna1},
        {"ANTENNA2", CCC_INT32, 0, {0, 0}, b->antenna2},
        {"FIELD_ID", CCC_INT32, 0, {0, 0}, b->field_id},
        {"SCAN_NUMBER", CCC_INT32, 0, {0, 0}, b->scan},
        {"DATA_DESC_ID", CCC_INT32, 0, {0, 0}, b->data_desc_id},
        {"FLAG_ROW", CCC_BOOL, 0, {0, 0}, b->flag_row},
        {"UVW", CCC_DOUBLE, 1, {3, 0}, b->uvw_m},
        {"WEIGHT", CCC_FLOAT, 1, {n_corr, 0}, b->weight},
        {"SIGMA", CCC_FLOAT, 1, {n_corr, 0}, b->sigma},
        {"FLAG", CCC_BOOL, 2, {n_corr, n_chan}, b->flag},
    };
    for (size_t i = 0; i < sizeof always / sizeof *always; i++) MSI_TRY(put(ms, b, &always[i]));
    if (spec->weight_spectrum == MSI_MAKEMS_SPECTRUM_FULL)
        MSI_TRY(put(ms, b, &(column_values){"WEIGHT_SPECTRUM", CCC_FLOAT, 2, {n_corr, n_chan}, b->weight_spectrum}));
    if (spec->weight_spectrum == MSI_MAKEMS_SPECTRUM_PARTLY) MSI_TRY(put_spectrum_partly(ms, b, n_corr, n_chan));
    if (spec->columns != MSI_MAKEMS_DATA)
        MSI_TRY(put(ms, b, &(column_values){"CORRECTED_DATA", CCC_COMPLEX, 2, {n_corr, n_chan}, b->data}));
    if (spec->columns == MSI_MAKEMS_BOTH)
        for (int64_t i = 0; i < b->n_row * n_corr * n_chan; i++) {
            b->data[i].re *= 0.5f;
            b->data[i].im *= 0.5f;
        }
    if (spec->columns != MSI_MAKEMS_CORRECTED_DATA)
        MSI_TRY(put(ms, b, &(column_values){"DATA", CCC_COMPLEX, 2, {n_corr, n_chan}, b->data}));
    return MSI_OK;
}

/* Write the columns that never change. In an incremental storage manager a value holds until the next one. */
static int put_constants(ccc_table *ms, const msi_makems_spec *spec)
{
    if (ccc_table_n_row(ms) == 0) return MSI_OK;
    static const char *const zero[] = {"ARRAY_ID", "OBSERVATION_ID", "FEED1", "FEED2"};
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) CCC_TRY(ccc_put_int(ms, zero[i], 0, 0));
    CCC_TRY(ccc_put_int(ms, "PROCESSOR_ID", 0, -1));
    CCC_TRY(ccc_put_int(ms, "STATE_ID", 0, -1));
    CCC_TRY(ccc_put_double(ms, "INTERVAL", 0, spec->integration_s));
    CCC_TRY(ccc_put_double(ms, "EXPOSURE", 0, spec->integration_s));
    return MSI_OK;
}

static int stream_rows(ccc_table *ms, const msi_makems_spec *spec)
{
    const int64_t n_row = spec->n_time * msi_makems_n_baseline(spec);
    const int separate = spec->spw_order == MSI_MAKEMS_SPW_SEPARATE;
    int64_t row_bytes = 1, done = 0;
    for (int w = 0; w < spec->n_spw; w++) {
        int64_t bytes = (int64_t)spec->spw[w].n_chan * spec->spw[w].n_corr * (int64_t)sizeof(msi_c32);
        if (bytes > row_bytes) row_bytes = bytes;
    }
    int64_t max_row = BLOCK_BYTES / row_bytes > 0 ? BLOCK_BYTES / row_bytes : 1;
    if (max_row > n_row) max_row = n_row;
    msi_makems_sampler *sampler = NULL;
    msi_makems_block block = {0};
    int status;
    if ((status = msi_makems_sampler_create(&sampler, spec)) ||
        (status = msi_makems_block_alloc(&block, spec, max_row)))
        goto out;
    /* Write in the order of the set: one spw after another, or for each block of rows all spws. */
    if (spec->show_progress) msi_progress_begin("writing");
    const int n_pass = separate ? spec->n_spw : 1, n_in_pass = separate ? 1 : spec->n_spw;
    for (int pass = 0; pass < n_pass; pass++)
        for (int64_t first = 0; first < n_row; first += max_row)
            for (int k = 0; k < n_in_pass; k++) {
                if ((status = msi_interrupt_check())) goto out;
                block.spw = separate ? pass : k;
                block.first_row = first;
                block.n_row = n_row - first < max_row ? n_row - first : max_row;
                msi_makems_block_fill(sampler, &block);
                if ((status = put_block(ms, spec, &block))) goto out;
                done += block.n_row;
                msi_progress_at(done, n_row * spec->n_spw);
            }
    msi_progress_end();
out:
    msi_makems_block_free(&block);
    msi_makems_sampler_free(sampler);
    return status;
}

static int make(const char *path, const msi_makems_spec *spec)
{
    plan p;
    ccc_table *ms;
    make_plan(&p, spec);
    CCC_TRY(ccc_ms_create(&ms, path, p.column, p.n_column, p.storage, p.n_storage));
    int status = fill_subtables(ms, spec);
    if (status == MSI_OK && msi_makems_n_row(spec) > 0) {
        if (ccc_table_add_rows(ms, msi_makems_n_row(spec)) != CCC_OK)
            status = msi_casacore_failed(CCC_EFAILED, MSI_EOUTPUT);
        if (status == MSI_OK) status = put_constants(ms, spec);
        if (status == MSI_OK) status = stream_rows(ms, spec);
    }
    if (ccc_table_close(ms) != CCC_OK && status == MSI_OK) status = msi_casacore_failed(CCC_EFAILED, MSI_EOUTPUT);
    MSI_TRY(status);
    if (spec->defect == MSI_DEFECT_NONE || spec->defect == MSI_DEFECT_ZERO_ROWS || spec->defect == MSI_DEFECT_ZERO_SPWS)
        return MSI_OK;
    return msi_ms_defect_apply(path, spec->defect);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int remove_tree(const char *path)
{
    return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Check that the set may be written to `path`. */
static int check_place(const char *path, int overwrite)
{
    struct stat st;
    if (lstat(path, &st) != 0) {
        if (errno == ENOENT) return MSI_OK;
        return msi_error_set(MSI_EOUTPUT, "%s: %s", path, strerror(errno));
    }
    if (!overwrite) return msi_error_set(MSI_EUSAGE, "%s exists; -overwrite replaces a Measurement Set", path);
    double version;
    ccc_table *t = NULL;
    int is_ms = S_ISDIR(st.st_mode) && ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE) == CCC_OK &&
                ccc_keyword_get_double(t, NULL, "MS_VERSION", &version) == CCC_OK;
    ccc_table_close(t);
    if (!is_ms) return msi_error_set(MSI_EUSAGE, "%s is not a Measurement Set: it is not replaced", path);
    return MSI_OK;
}

/*
 * Check that the file system has space for the set. casacore ends the process if the disk is full when it writes its
 * buffers.
 */
static int check_space(const char *path, const msi_makems_spec *spec)
{
    static const double SUBTABLE_BYTES = 1e6, ROW_BYTES = 100;
    double bytes = SUBTABLE_BYTES;
    for (int w = 0; w < spec->n_spw; w++) {
        const double n_sample = (double)spec->spw[w].n_chan * spec->spw[w].n_corr;
        const int n_column = spec->columns == MSI_MAKEMS_BOTH ? 2 : 1;
        const int has_weights = spec->weight_spectrum != MSI_MAKEMS_SPECTRUM_NONE;
        const double per_sample = 8 * n_column + 4 * has_weights + 1.0 / 8;
        bytes += (double)(spec->n_time * msi_makems_n_baseline(spec)) * (n_sample * per_sample + ROW_BYTES);
    }
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder) return msi_error_set(MSI_ENOMEM, "no memory for a path");
    struct statvfs disk;
    const int known = statvfs(folder, &disk) == 0;
    free(folder);
    const double left = known ? (double)disk.f_bavail * (double)disk.f_frsize : INFINITY;
    if (bytes <= left) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: the set needs %.1f MB, but the file system has only %.1f MB left", path,
                         1e-6 * bytes, 1e-6 * left);
}

int msi_makems_write(const char *path, const msi_makems_spec *spec)
{
    msi_makems_spec s = *spec;
    if (s.defect == MSI_DEFECT_ZERO_ROWS) s.n_time = 0;
    MSI_TRY(check(&s));
    if (s.start_mjd_s == 0) {
        double half_s = (double)s.n_time * s.integration_s / 2;
        s.start_mjd_s = msi_makems_start(&s, 0) - half_s;
    }
    char *name = strdup(path), *making = NULL;
    int status = MSI_OK;
    if (!name) return msi_error_set(MSI_ENOMEM, "no memory for a path");
    for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--) name[n - 1] = 0;
    if ((status = check_place(name, s.overwrite))) goto out;
    if ((status = check_space(name, &s))) goto out;
    if (asprintf(&making, "%s.making-%ld", name, (long)getpid()) < 0) {
        making = NULL;
        status = msi_error_set(MSI_ENOMEM, "no memory for a path");
        goto out;
    }
    if ((status = check_place(making, 0))) goto out;
    status = make(making, &s);
    if (status == MSI_OK && s.overwrite && remove_tree(name) != 0 && errno != ENOENT)
        status = msi_error_set(MSI_EOUTPUT, "%s: %s", name, strerror(errno));
    if (status == MSI_OK && rename(making, name) != 0)
        status = msi_error_set(MSI_EOUTPUT, "%s: %s", name, strerror(errno));
    if (status != MSI_OK) remove_tree(making);
out:
    free(making);
    free(name);
    return status;
}
