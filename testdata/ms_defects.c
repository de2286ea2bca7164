/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/ms_defects.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "io/casacore-c/casacore_c.h"
#include "testdata/casacore_try.h"

/* The sample that becomes defective, and the shape of its cell. */
typedef struct place {
    int64_t row, n_corr, n_chan, mid_chan;
} place;

/* A defect: the function that applies it, and the argument of that function. */
typedef struct defect_entry {
    const char *name;
    int (*apply)(ccc_table *ms, double value);
    double value;
} defect_entry;

/* Allocate a cell of n elements. */
static int cell_alloc(void *out, int64_t n, size_t size)
{
    return msi_alloc(out, n, size, "a table cell");
}

/* Set *sound to 1 if a row is a cross-correlation whose middle channel has no flag. */
static int row_is_sound(ccc_table *ms, int64_t row, int *sound, place *at)
{
    int32_t antenna1, antenna2;
    uint8_t flag_row, *flag;
    int64_t shape[CCC_MAX_DIM];
    int ndim;
    *sound = 0;
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_get_range(ms, "ANTENNA1", row, 1, NULL, CCC_INT32, &antenna1, 1));
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_get_range(ms, "ANTENNA2", row, 1, NULL, CCC_INT32, &antenna2, 1));
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_get_range(ms, "FLAG_ROW", row, 1, NULL, CCC_BOOL, &flag_row, 1));
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_cell_shape(ms, "FLAG", row, &ndim, shape));
    if (antenna1 == antenna2 || flag_row || ndim != 2) return MSI_OK;
    *at = (place){row, shape[0], shape[1], shape[1] / 2};
    MSI_TRY(cell_alloc(&flag, shape[0] * shape[1], 1));
    int failed = ccc_get_range(ms, "FLAG", row, 1, NULL, CCC_BOOL, flag, shape[0] * shape[1]);
    *sound = !failed;
    for (int64_t c = 0; c < at->n_corr; c++)
        if (flag[at->mid_chan * at->n_corr + c]) *sound = 0;
    msi_free(flag);
    MSI_CASACORE_TRY(MSI_EINPUT, failed);
    return MSI_OK;
}

static int find_place(ccc_table *ms, place *at)
{
    int64_t n = ccc_table_n_row(ms);
    for (int64_t i = 0; i < n; i++) {
        int sound;
        MSI_TRY(row_is_sound(ms, (n / 2 + i) % n, &sound, at));
        if (sound) return MSI_OK;
    }
    return msi_error_set(MSI_EINPUT, "%s: no row is an unflagged cross-correlation", ccc_table_path(ms));
}

static int spoil_vis(ccc_table *ms, double value)
{
    static const char *const column[] = {"DATA", "CORRECTED_DATA"};
    place at;
    MSI_TRY(find_place(ms, &at));
    for (int i = 0; i < 2; i++) {
        if (!ccc_table_has_column(ms, column[i])) continue;
        msi_c32 *cell;
        int64_t n = at.n_corr * at.n_chan, shape[2] = {at.n_corr, at.n_chan};
        MSI_TRY(cell_alloc(&cell, n, sizeof *cell));
        int failed = ccc_get_range(ms, column[i], at.row, 1, NULL, CCC_COMPLEX, cell, n);
        cell[at.mid_chan * at.n_corr] = (msi_c32){(float)value, 0};
        if (!failed) failed = ccc_put_array(ms, column[i], at.row, 2, shape, CCC_COMPLEX, cell);
        msi_free(cell);
        MSI_CASACORE_TRY(MSI_EOUTPUT, failed);
    }
    return MSI_OK;
}

/* Change a weight to `value`, or change its sign if value is 0. */
static int spoil_weight(ccc_table *ms, double value)
{
    place at;
    MSI_TRY(find_place(ms, &at));
    const char *column = "WEIGHT_SPECTRUM";
    int ndim = -1;
    int64_t shape[CCC_MAX_DIM], index = at.mid_chan * at.n_corr, n = at.n_corr * at.n_chan;
    if (ccc_table_has_column(ms, column))
        MSI_CASACORE_TRY(MSI_EINPUT, ccc_cell_shape(ms, column, at.row, &ndim, shape));
    if (ndim != 2) {
        column = "WEIGHT";
        ndim = 1;
        shape[0] = n = at.n_corr;
        index = 0;
    }
    float *cell;
    MSI_TRY(cell_alloc(&cell, n, sizeof *cell));
    int failed = ccc_get_range(ms, column, at.row, 1, NULL, CCC_FLOAT, cell, n);
    cell[index] = value == 0 ? -cell[index] : (float)value;
    if (!failed) failed = ccc_put_array(ms, column, at.row, ndim, shape, CCC_FLOAT, cell);
    msi_free(cell);
    MSI_CASACORE_TRY(MSI_EOUTPUT, failed);
    return MSI_OK;
}

static int spoil_uvw(ccc_table *ms, double value)
{
    static const int64_t shape[1] = {3};
    double uvw_m[3];
    place at;
    MSI_TRY(find_place(ms, &at));
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_get_range(ms, "UVW", at.row, 1, NULL, CCC_DOUBLE, uvw_m, 3));
    uvw_m[0] = value;
    MSI_CASACORE_TRY(MSI_EOUTPUT, ccc_put_array(ms, "UVW", at.row, 1, shape, CCC_DOUBLE, uvw_m));
    return MSI_OK;
}

static int spoil_data_desc_id(ccc_table *ms, double value)
{
    place at;
    MSI_TRY(find_place(ms, &at));
    MSI_CASACORE_TRY(MSI_EOUTPUT, ccc_put_int(ms, "DATA_DESC_ID", at.row, (int64_t)value));
    return MSI_OK;
}

static int spoil_antenna1(ccc_table *ms, double value)
{
    place at;
    MSI_TRY(find_place(ms, &at));
    MSI_CASACORE_TRY(MSI_EOUTPUT, ccc_put_int(ms, "ANTENNA1", at.row, (int64_t)value));
    return MSI_OK;
}

/* Set all elements of a column to `one`, of `size` bytes; cells without a value keep none. */
static int fill_column(ccc_table *ms, const char *column, ccc_type type, const void *one, size_t size)
{
    const int64_t n_row = ccc_table_n_row(ms), n_at_once = 1024;
    for (int64_t row = 0, n; row < n_row; row += n) {
        int64_t shape[CCC_MAX_DIM], n_cell = 1;
        int ndim;
        MSI_CASACORE_TRY(MSI_EINPUT, ccc_rows_alike(ms, column, row, n_row - row < n_at_once ? n_row - row : n_at_once,
                                                    &n, &ndim, shape));
        if (ndim < 0) continue;
        for (int k = 0; k < ndim; k++) n_cell *= shape[k];
        char *cells;
        MSI_TRY(cell_alloc(&cells, n * n_cell, size));
        for (int64_t i = 0; i < n * n_cell; i++) memcpy(cells + (size_t)i * size, one, size);
        int failed = ccc_put_range(ms, column, row, n, ndim, shape, NULL, type, cells);
        msi_free(cells);
        MSI_CASACORE_TRY(MSI_EOUTPUT, failed);
    }
    return MSI_OK;
}

static int flag_all(ccc_table *ms, double value)
{
    uint8_t flag = (uint8_t)value;
    return fill_column(ms, "FLAG", CCC_BOOL, &flag, sizeof flag);
}

static int weigh_all(ccc_table *ms, double value)
{
    float weight = (float)value;
    MSI_TRY(fill_column(ms, "WEIGHT", CCC_FLOAT, &weight, sizeof weight));
    if (!ccc_table_has_column(ms, "WEIGHT_SPECTRUM")) return MSI_OK;
    return fill_column(ms, "WEIGHT_SPECTRUM", CCC_FLOAT, &weight, sizeof weight);
}

static int put_longer_chan_freq(ccc_table *spw)
{
    int ndim;
    int64_t shape[CCC_MAX_DIM];
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_cell_shape(spw, "CHAN_FREQ", 0, &ndim, shape));
    if (ndim != 1) return msi_error_set(MSI_EINPUT, "%s: row 0 has no CHAN_FREQ", ccc_table_path(spw));
    double *freq_hz;
    int64_t n = shape[0], longer[1] = {n + 1};
    MSI_TRY(cell_alloc(&freq_hz, n + 1, sizeof *freq_hz));
    int failed = ccc_get_range(spw, "CHAN_FREQ", 0, 1, NULL, CCC_DOUBLE, freq_hz, n);
    freq_hz[n] = freq_hz[n - 1] + 1e6;
    if (!failed) failed = ccc_put_array(spw, "CHAN_FREQ", 0, 1, longer, CCC_DOUBLE, freq_hz);
    msi_free(freq_hz);
    MSI_CASACORE_TRY(MSI_EOUTPUT, failed);
    return MSI_OK;
}

static int put_other_corr_type(ccc_table *polarization)
{
    int ndim;
    int64_t shape[CCC_MAX_DIM];
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_cell_shape(polarization, "CORR_TYPE", 0, &ndim, shape));
    if (ndim != 1 || shape[0] < 1 || shape[0] > MSI_MAX_CORR)
        return msi_error_set(MSI_EINPUT, "%s: row 0 has no valid CORR_TYPE", ccc_table_path(polarization));
    int32_t type[MSI_MAX_CORR + 1];
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_get_range(polarization, "CORR_TYPE", 0, 1, NULL, CCC_INT32, type, shape[0]));
    if (shape[0] > 1) {
        shape[0]--;
    } else {
        type[1] = type[0];
        shape[0]++;
    }
    MSI_CASACORE_TRY(MSI_EOUTPUT, ccc_put_array(polarization, "CORR_TYPE", 0, 1, shape, CCC_INT32, type));
    return MSI_OK;
}

static int in_subtable(ccc_table *ms, const char *name, int (*change)(ccc_table *))
{
    ccc_table *t;
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_subtable_open(&t, ms, name));
    int status = change(t);
    int closed = ccc_table_close(t);
    MSI_TRY(status);
    MSI_CASACORE_TRY(MSI_EOUTPUT, closed);
    return MSI_OK;
}

static int spoil_chan_freq(ccc_table *ms, double value)
{
    (void)value;
    return in_subtable(ms, "SPECTRAL_WINDOW", put_longer_chan_freq);
}

static int spoil_corr_type(ccc_table *ms, double value)
{
    (void)value;
    return in_subtable(ms, "POLARIZATION", put_other_corr_type);
}

static const defect_entry defects[MSI_N_DEFECT] = {
    [MSI_DEFECT_NONE] = {"none", NULL, 0},
    [MSI_DEFECT_NAN_VIS] = {"nan-vis", spoil_vis, NAN},
    [MSI_DEFECT_INF_VIS] = {"inf-vis", spoil_vis, INFINITY},
    [MSI_DEFECT_HUGE_VIS] = {"huge-vis", spoil_vis, 1e38},
    [MSI_DEFECT_NAN_WEIGHT] = {"nan-weight", spoil_weight, NAN},
    [MSI_DEFECT_INF_WEIGHT] = {"inf-weight", spoil_weight, INFINITY},
    [MSI_DEFECT_NEGATIVE_WEIGHT] = {"negative-weight", spoil_weight, 0},
    [MSI_DEFECT_NAN_UVW] = {"nan-uvw", spoil_uvw, NAN},
    [MSI_DEFECT_INF_UVW] = {"inf-uvw", spoil_uvw, INFINITY},
    [MSI_DEFECT_HUGE_UVW] = {"huge-uvw", spoil_uvw, 1e300},
    [MSI_DEFECT_BAD_DATA_DESC_ID] = {"bad-data-desc-id", spoil_data_desc_id, 1000},
    [MSI_DEFECT_BAD_ANTENNA1] = {"bad-antenna1", spoil_antenna1, 100000},
    [MSI_DEFECT_ALL_FLAGGED] = {"all-flagged", flag_all, 1},
    [MSI_DEFECT_ZERO_WEIGHTS] = {"zero-weights", weigh_all, 0},
    [MSI_DEFECT_CHAN_FREQ_LENGTH] = {"chan-freq-length", spoil_chan_freq, 0},
    [MSI_DEFECT_CORR_TYPE_LENGTH] = {"corr-type-length", spoil_corr_type, 0},
    [MSI_DEFECT_ZERO_ROWS] = {"zero-rows", NULL, 0},
    [MSI_DEFECT_ZERO_SPWS] = {"zero-spws", NULL, 0},
};

const char *msi_ms_defect_name(msi_ms_defect defect)
{
    return defects[defect].name;
}

int msi_ms_defect_find(msi_ms_defect *out, const char *name)
{
    char names[512] = "";
    for (int i = 0; i < MSI_N_DEFECT; i++) {
        if (!strcmp(name, defects[i].name)) {
            *out = (msi_ms_defect)i;
            return MSI_OK;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, " %s", defects[i].name);
    }
    return msi_error_set(MSI_EUSAGE, "defect %s: give one of%s", name, names);
}

int msi_ms_defect_apply(const char *path, msi_ms_defect defect)
{
    if (defect == MSI_DEFECT_NONE) return MSI_OK;
    if (!defects[defect].apply)
        return msi_error_set(MSI_EUSAGE, "%s: only a new Measurement Set can be made with %s", path,
                             defects[defect].name);
    ccc_table *ms;
    MSI_CASACORE_TRY(MSI_EINPUT, ccc_table_open(&ms, path, CCC_UPDATE, CCC_LOCK_HOLD));
    int status = defects[defect].apply(ms, defects[defect].value);
    int closed = ccc_table_close(ms);
    MSI_TRY(status);
    MSI_CASACORE_TRY(MSI_EOUTPUT, closed);
    return MSI_OK;
}
