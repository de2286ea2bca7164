/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a set says of itself: telescope, observer, the array's place and extent, frames, the rest frequency. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_store.h"
#include "io/ms/ms_subtable.h"

/* SOURCE is an optional subtable. */
int msi_ms_set_rest_frequency(msi_ms_set *set, int source_id, double *rest_hz)
{
    ccc_table *t = NULL;
    int is_there, status = MSI_OK;
    *rest_hz = 0;
    MSI_TRY(msi_ms_optional(ccc_subtable_open(&t, set->table, "SOURCE"), &is_there));
    if (is_there && msi_ms_subtable_check(t) != MSI_OK) is_there = 0;
    const int64_t n = is_there && ccc_table_has_column(t, "REST_FREQUENCY") ? ccc_table_n_row(t) : 0;
    for (int64_t row = 0; row < n && *rest_hz == 0; row++) {
        int32_t id = -1;
        msi_child_progress(MSI_CHILD_STEP_S);
        double *values = NULL;
        int64_t n_value = 0;
        status = msi_ms_optional(ccc_get_range(t, "SOURCE_ID", row, 1, NULL, CCC_INT32, &id, 1), &is_there);
        if (status != MSI_OK) break;
        if (!is_there || id != source_id) continue;
        status = msi_ms_cell_doubles(t, "REST_FREQUENCY", row, &values, &n_value);
        if (status != MSI_OK) break;
        if (n_value > 0 && isfinite(values[0]) && values[0] > 0) *rest_hz = values[0];
        msi_free(values);
    }
    ccc_table_close(t);
    /* A cell that cannot be read counts as one that is not there. */
    return status == MSI_ENOMEM ? status : MSI_OK;
}

/* Antennas that were never on the ground have the zero vector or none; and none is beyond the Moon. */
static int is_somewhere(const double *itrf_m)
{
    const double r2 = itrf_m[0] * itrf_m[0] + itrf_m[1] * itrf_m[1] + itrf_m[2] * itrf_m[2];
    return r2 > 0 && r2 < 1e9 * 1e9;
}

static void observe_antennas(const msi_ms_set *set, msi_observation *o)
{
    const double *p = set->antenna_itrf_m;
    double sum[3] = {0}, longest2 = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < set->n_antenna; i++) {
        if (!is_somewhere(p + 3 * i)) continue;
        for (int k = 0; k < 3; k++) sum[k] += p[3 * i + k];
        n++;
        for (int64_t j = 0; j < i; j++) {
            if (!is_somewhere(p + 3 * j)) continue;
            double d2 = 0;
            for (int k = 0; k < 3; k++) d2 += (p[3 * i + k] - p[3 * j + k]) * (p[3 * i + k] - p[3 * j + k]);
            if (d2 > longest2) longest2 = d2;
        }
    }
    for (int k = 0; k < 3; k++) o->antenna_itrf_m[k] = n ? sum[k] / (double)n : 0;
    o->longest_baseline_m = sqrt(longest2);
}

static int observe_tables(msi_ms_set *set, msi_observation *o)
{
    ccc_table *t = NULL;
    char *text = NULL;
    MSI_TRY(msi_ms_subtable_open(set, "OBSERVATION", &t));
    int is_there, status = msi_ms_cell_text(t, "TELESCOPE_NAME", 0, o->telescope, sizeof o->telescope);
    if (status == MSI_OK) status = msi_ms_cell_text(t, "OBSERVER", 0, o->observer, sizeof o->observer);
    ccc_table_close(t);
    MSI_TRY(status);
    MSI_TRY(msi_ms_optional(ccc_keyword_get_string(set->table, "TIME", "MEASINFO.Ref", &text), &is_there));
    msi_ms_copy_text(o->time_scale, sizeof o->time_scale, is_there ? text : "UTC");
    ccc_free(text);
    return MSI_OK;
}

int msi_ms_set_observe(msi_ms_set *set, msi_observation *o)
{
    memset(o, 0, sizeof *o);
    if (set->store)
        msi_ms_store_observe(set, set->n_run > 0 ? set->run[0].field_id : -1, o);
    else
        MSI_TRY(observe_tables(set, o));
    o->start_mjd_s = set->start_mjd_s;
    o->end_mjd_s = set->end_mjd_s;
    observe_antennas(set, o);
    if (set->n_run == 0) return MSI_OK;
    const msi_ms_run *first = &set->run[0];
    const msi_ms_field *field = &set->field[first->field_id];
    msi_ms_copy_text(o->object, sizeof o->object, field->name);
    msi_ms_copy_text(o->dir_frame, sizeof o->dir_frame, field->frame);
    msi_ms_copy_text(o->spec_frame, sizeof o->spec_frame, set->window[set->setup[first->data_desc_id].spw_id].frame);
    o->ra_rad = field->ra_rad;
    o->dec_rad = field->dec_rad;
    return set->store ? MSI_OK : msi_ms_set_rest_frequency(set, field->source_id, &o->rest_freq_hz);
}
