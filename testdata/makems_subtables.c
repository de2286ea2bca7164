/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/makems_subtables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "testdata/casacore_try.h"

/* Go on only if a step of writing succeeds. */
#define CCC_TRY(expr) MSI_CASACORE_TRY(MSI_EOUTPUT, expr)

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

/* scratch [2][n_chan] */
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

/* Find the first spw that has the correlations of spw i. */
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

int msi_makems_subtables(ccc_table *ms, const msi_makems_spec *spec)
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
