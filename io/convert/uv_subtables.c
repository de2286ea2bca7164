/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <string.h>

#include "core/status.h"
#include "io/convert/set_maps.h"
#include "io/convert/set_subtables.h"

static const int64_t shape_1[] = {1}, shape_2[] = {2}, shape_3[] = {3}, shape_2x1[] = {2, 1}, shape_2x2[] = {2, 2};

/* Return the status of a ccc function that fails. */
#define CCC_DO(expr)                                                                                                   \
    do {                                                                                                               \
        const int ccc_do_ = (expr);                                                                                    \
        if (ccc_do_ != CCC_OK) return ccc_do_;                                                                         \
    } while (0)

static int fill_antenna(ccc_table *t, const msi_uv_set *uv)
{
    CCC_DO(ccc_table_add_rows(t, uv->n_antenna));
    for (int64_t i = 0; i < uv->n_antenna; i++) {
        const msi_uv_antenna *a = &uv->antenna[i];
        const double offset_m[3] = {a->offset_m, 0, 0};
        CCC_DO(ccc_put_string(t, "NAME", i, a->name));
        CCC_DO(ccc_put_string(t, "STATION", i, a->station));
        CCC_DO(ccc_put_string(t, "TYPE", i, "GROUND-BASED"));
        CCC_DO(ccc_put_string(t, "MOUNT", i, a->mount));
        CCC_DO(ccc_put_array(t, "POSITION", i, 1, shape_3, CCC_DOUBLE, a->itrf_m));
        CCC_DO(ccc_put_array(t, "OFFSET", i, 1, shape_3, CCC_DOUBLE, offset_m));
        CCC_DO(ccc_put_double(t, "DISH_DIAMETER", i, a->diameter_m));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, !*a->name));
    }
    return CCC_OK;
}

static int put_feed(ccc_table *t, int64_t row, int64_t antenna, const msi_uv_set *uv)
{
    static const double zero[4] = {0};
    static const msi_c32 response[4] = {{1, 0}, {0, 0}, {0, 0}, {1, 0}};
    const msi_uv_antenna *a = &uv->antenna[antenna];
    const int is_circular = uv->corr[0] >= MSI_POL_RR && uv->corr[0] <= MSI_POL_LL;
    const char kind[2][2] = {{a->feed[0]    ? a->feed[0]
                              : is_circular ? 'R'
                                            : 'X'},
                             {a->feed[1]    ? a->feed[1]
                              : is_circular ? 'L'
                                            : 'Y'}};
    const char *const kinds[] = {kind[0], kind[1]};
    CCC_DO(ccc_put_int(t, "ANTENNA_ID", row, antenna));
    CCC_DO(ccc_put_int(t, "FEED_ID", row, 0));
    CCC_DO(ccc_put_int(t, "SPECTRAL_WINDOW_ID", row, -1));
    CCC_DO(ccc_put_double(t, "TIME", row, 0));
    CCC_DO(ccc_put_double(t, "INTERVAL", row, 0));
    CCC_DO(ccc_put_int(t, "NUM_RECEPTORS", row, 2));
    CCC_DO(ccc_put_int(t, "BEAM_ID", row, -1));
    CCC_DO(ccc_put_array(t, "BEAM_OFFSET", row, 2, shape_2x2, CCC_DOUBLE, zero));
    CCC_DO(ccc_put_strings(t, "POLARIZATION_TYPE", row, 1, shape_2, kinds));
    CCC_DO(ccc_put_array(t, "POL_RESPONSE", row, 2, shape_2x2, CCC_COMPLEX, response));
    CCC_DO(ccc_put_array(t, "POSITION", row, 1, shape_3, CCC_DOUBLE, zero));
    return ccc_put_array(t, "RECEPTOR_ANGLE", row, 1, shape_2, CCC_DOUBLE, a->feed_angle_rad);
}

static int fill_feed(ccc_table *t, const msi_uv_set *uv)
{
    int64_t n = 0, row = 0;
    for (int64_t i = 0; i < uv->n_antenna; i++) n += *uv->antenna[i].name != 0;
    CCC_DO(ccc_table_add_rows(t, n));
    for (int64_t i = 0; i < uv->n_antenna; i++)
        if (*uv->antenna[i].name) CCC_DO(put_feed(t, row++, i, uv));
    return CCC_OK;
}

static int fill_field(ccc_table *t, const msi_uv_set *uv)
{
    static const char *const directions[] = {"DELAY_DIR", "PHASE_DIR", "REFERENCE_DIR"};
    CCC_DO(ccc_table_add_rows(t, uv->n_source));
    for (int k = 0; k < 3; k++) CCC_DO(ccc_keyword_put_string(t, directions[k], "MEASINFO.Ref", uv->source[0].frame));
    for (int64_t i = 0; i < uv->n_source; i++) {
        const msi_uv_source *s = &uv->source[i];
        const double direction_rad[] = {s->ra_rad, s->dec_rad};
        CCC_DO(ccc_put_string(t, "NAME", i, s->name));
        CCC_DO(ccc_put_string(t, "CODE", i, s->code));
        CCC_DO(ccc_put_double(t, "TIME", i, uv->start_mjd_s));
        CCC_DO(ccc_put_int(t, "NUM_POLY", i, 0));
        for (int k = 0; k < 3; k++) CCC_DO(ccc_put_array(t, directions[k], i, 2, shape_2x1, CCC_DOUBLE, direction_rad));
        CCC_DO(ccc_put_int(t, "SOURCE_ID", i, s->n_line ? i : -1));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return CCC_OK;
}

static int put_source(ccc_table *t, int64_t row, int64_t i, const msi_uv_set *uv)
{
    static const double zero[2] = {0};
    const msi_uv_source *s = &uv->source[i];
    const double direction_rad[] = {s->ra_rad, s->dec_rad};
    const int64_t n_line = s->n_line;
    CCC_DO(ccc_put_int(t, "SOURCE_ID", row, i));
    CCC_DO(ccc_put_int(t, "SPECTRAL_WINDOW_ID", row, -1));
    CCC_DO(ccc_put_int(t, "CALIBRATION_GROUP", row, -1));
    CCC_DO(ccc_put_int(t, "NUM_LINES", row, n_line));
    CCC_DO(ccc_put_string(t, "NAME", row, s->name));
    CCC_DO(ccc_put_string(t, "CODE", row, s->code));
    CCC_DO(ccc_put_double(t, "TIME", row, (uv->start_mjd_s + uv->end_mjd_s) / 2));
    CCC_DO(ccc_put_double(t, "INTERVAL", row, uv->end_mjd_s - uv->start_mjd_s));
    CCC_DO(ccc_put_array(t, "DIRECTION", row, 1, shape_2, CCC_DOUBLE, direction_rad));
    CCC_DO(ccc_put_array(t, "PROPER_MOTION", row, 1, shape_2, CCC_DOUBLE, zero));
    return ccc_put_array(t, "REST_FREQUENCY", row, 1, &n_line, CCC_DOUBLE, s->line_hz);
}

static int fill_source(ccc_table *t, const msi_uv_set *uv)
{
    int64_t n = 0, row = 0;
    for (int64_t i = 0; i < uv->n_source; i++) n += uv->source[i].n_line > 0;
    CCC_DO(ccc_table_add_rows(t, n));
    CCC_DO(ccc_keyword_put_string(t, "DIRECTION", "MEASINFO.Ref", uv->source[0].frame));
    for (int64_t i = 0; i < uv->n_source; i++)
        if (uv->source[i].n_line) CCC_DO(put_source(t, row++, i, uv));
    return CCC_OK;
}

/* The number that casacore has for a frame of frequencies. */
static int frame_code(const char *frame)
{
    static const char *const frames[] = {"REST", "LSRK", "LSRD", "BARY", "GEO", "TOPO", "GALACTO", "LGROUP", "CMB"};
    int code = 0;
    while (code < (int)(sizeof frames / sizeof *frames) - 1 && strcmp(frames[code], frame) != 0) code++;
    return code;
}

static int fill_windows(ccc_table *t, const msi_uv_set *uv)
{
    const int64_t n_chan = uv->n_chan;
    CCC_DO(ccc_table_add_rows(t, uv->n_window));
    for (int64_t i = 0; i < uv->n_window; i++) {
        const msi_uv_window *w = &uv->window[i];
        const int is_down = n_chan > 1 && w->freq_hz[1] < w->freq_hz[0];
        CCC_DO(ccc_put_int(t, "NUM_CHAN", i, n_chan));
        CCC_DO(ccc_put_string(t, "NAME", i, ""));
        CCC_DO(ccc_put_double(t, "REF_FREQUENCY", i, w->freq_hz[0]));
        CCC_DO(ccc_put_array(t, "CHAN_FREQ", i, 1, &n_chan, CCC_DOUBLE, w->freq_hz));
        CCC_DO(ccc_put_array(t, "CHAN_WIDTH", i, 1, &n_chan, CCC_DOUBLE, w->width_hz));
        CCC_DO(ccc_put_array(t, "EFFECTIVE_BW", i, 1, &n_chan, CCC_DOUBLE, w->width_hz));
        CCC_DO(ccc_put_array(t, "RESOLUTION", i, 1, &n_chan, CCC_DOUBLE, w->width_hz));
        CCC_DO(ccc_put_int(t, "MEAS_FREQ_REF", i, frame_code(uv->freq_frame)));
        CCC_DO(ccc_put_double(t, "TOTAL_BANDWIDTH", i, (double)n_chan * w->width_hz[0]));
        CCC_DO(ccc_put_int(t, "NET_SIDEBAND", i, is_down ? -1 : 1));
        CCC_DO(ccc_put_int(t, "IF_CONV_CHAIN", i, i % uv->n_if));
        CCC_DO(ccc_put_int(t, "FREQ_GROUP", i, i / uv->n_if));
        CCC_DO(ccc_put_string(t, "FREQ_GROUP_NAME", i, ""));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return CCC_OK;
}

static int fill_polarization(ccc_table *t, const msi_uv_set *uv)
{
    const int64_t n = uv->n_corr, product_shape[] = {2, uv->n_corr};
    int32_t type[MSI_MAX_CORR], product[MSI_MAX_CORR][2] = {{0}};
    for (int c = 0; c < uv->n_corr; c++) {
        const int pair = uv->corr[c] >= MSI_POL_XX   ? uv->corr[c] - MSI_POL_XX
                         : uv->corr[c] >= MSI_POL_RR ? uv->corr[c] - MSI_POL_RR
                                                     : 0;
        type[c] = uv->corr[c];
        product[c][0] = pair >> 1;
        product[c][1] = pair & 1;
    }
    CCC_DO(ccc_table_add_rows(t, 1));
    CCC_DO(ccc_put_int(t, "NUM_CORR", 0, n));
    CCC_DO(ccc_put_array(t, "CORR_TYPE", 0, 1, &n, CCC_INT32, type));
    CCC_DO(ccc_put_array(t, "CORR_PRODUCT", 0, 2, product_shape, CCC_INT32, product));
    return ccc_put_bool(t, "FLAG_ROW", 0, 0);
}

static int fill_description(ccc_table *t, const msi_uv_set *uv)
{
    CCC_DO(ccc_table_add_rows(t, uv->n_window));
    for (int64_t i = 0; i < uv->n_window; i++) {
        CCC_DO(ccc_put_int(t, "SPECTRAL_WINDOW_ID", i, i));
        CCC_DO(ccc_put_int(t, "POLARIZATION_ID", i, 0));
        CCC_DO(ccc_put_bool(t, "FLAG_ROW", i, 0));
    }
    return CCC_OK;
}

static int fill_observation(ccc_table *t, const msi_uv_set *uv)
{
    const double range_s[] = {uv->start_mjd_s, uv->end_mjd_s};
    const char *const empty[] = {""};
    CCC_DO(ccc_table_add_rows(t, 1));
    CCC_DO(ccc_put_array(t, "TIME_RANGE", 0, 1, shape_2, CCC_DOUBLE, range_s));
    CCC_DO(ccc_put_string(t, "OBSERVER", 0, uv->observer));
    CCC_DO(ccc_put_strings(t, "LOG", 0, 1, shape_1, empty));
    CCC_DO(ccc_put_string(t, "SCHEDULE_TYPE", 0, ""));
    CCC_DO(ccc_put_strings(t, "SCHEDULE", 0, 1, shape_1, empty));
    CCC_DO(ccc_put_string(t, "PROJECT", 0, uv->project));
    CCC_DO(ccc_put_double(t, "RELEASE_DATE", 0, 0));
    CCC_DO(ccc_put_string(t, "TELESCOPE_NAME", 0, uv->telescope));
    return ccc_put_bool(t, "FLAG_ROW", 0, 0);
}

/* A set has one frame for all fields. */
static int check_frames(const msi_uv_set *uv, const char *name)
{
    for (int64_t i = 1; i < uv->n_source; i++)
        if (strcmp(uv->source[i].frame, uv->source[0].frame) != 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: the positions of sources '%s' and '%s' are in %s and %s; a Measurement Set needs "
                                 "one frame",
                                 name, uv->source[0].name, uv->source[i].name, uv->source[0].frame,
                                 uv->source[i].frame);
    return MSI_OK;
}

static int fill_subtables(ccc_table *set, const msi_uv_set *uv)
{
    static const struct {
        const char *name;
        int (*fill)(ccc_table *, const msi_uv_set *);
    } all[] = {{"ANTENNA", fill_antenna},
               {"FEED", fill_feed},
               {"FIELD", fill_field},
               {"SOURCE", fill_source},
               {"SPECTRAL_WINDOW", fill_windows},
               {"POLARIZATION", fill_polarization},
               {"DATA_DESCRIPTION", fill_description},
               {"OBSERVATION", fill_observation}};
    CCC_DO(ccc_ms_add_source(set));
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ccc_table *t;
        CCC_DO(ccc_subtable_open(&t, set, all[i].name));
        const int status = all[i].fill(t, uv), closed = ccc_table_close(t);
        CCC_DO(status);
        CCC_DO(closed);
    }
    CCC_DO(ccc_keyword_put_string(set, "TIME", "MEASINFO.Ref", uv->time_scale));
    return ccc_keyword_put_string(set, "TIME_CENTROID", "MEASINFO.Ref", uv->time_scale);
}

int msi_set_subtables_of_uv(const char *path, const msi_uv_set *uv, const char *name)
{
    static const ccc_column_spec data = {.name = "DATA", .ndim = 2};
    ccc_table *t;
    MSI_TRY(check_frames(uv, name));
    MSI_TRY(msi_set_written(ccc_ms_create(&t, path, &data, 1, NULL, 0)));
    const int status = msi_set_written(fill_subtables(t, uv)), closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}
