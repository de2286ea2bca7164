/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_stations.h"

#include <math.h>
#include <string.h>

#include "core/child.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_metadata.h"

enum { MOST_ELEMENTS = 4096 }; /* limit of a field's elements; the largest stations have 96 */

/* Read n values of a cell. Returns: 0, MSI_EINPUT */
static int read_cell(ccc_table *t, const char *column, int64_t row, ccc_type type, void *out, int64_t n)
{
    MSI_CCC(ccc_get_range(t, column, row, 1, NULL, type, out, n));
    return MSI_OK;
}

/* Count the elements of a field. Returns: 0, MSI_EINPUT */
static int count_elements(ccc_table *t, int64_t row, int64_t *n)
{
    int64_t shape[CCC_MAX_DIM];
    int ndim;
    MSI_CCC(ccc_cell_shape(t, "ELEMENT_OFFSET", row, &ndim, shape));
    if (ndim != 2 || shape[0] != 3 || shape[1] < 1 || shape[1] > MOST_ELEMENTS)
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: ELEMENT_OFFSET, row %lld: invalid cell shape",
                             ccc_table_path(t), (long long)row);
    *n = shape[1];
    return MSI_OK;
}

/* Read one field, a row of LOFAR_ANTENNA_FIELD, and append its elements to s->element. */
static int read_field(msi_ms_stations *s, ccc_table *t, int64_t row)
{
    msi_ms_dipoles *f = &s->field[row];
    int32_t antenna;
    char *name = NULL;
    double *offset = NULL;
    uint8_t *flag = NULL;
    int64_t n = 0;
    MSI_TRY(read_cell(t, "ANTENNA_ID", row, CCC_INT32, &antenna, 1));
    MSI_CCC(ccc_get_string(t, "NAME", row, &name));
    f->antenna = antenna;
    f->has_tiles = strncmp(name, "HBA", 3) == 0;
    ccc_free(name);
    MSI_TRY(read_cell(t, "POSITION", row, CCC_DOUBLE, f->position_m, 3));
    MSI_TRY(read_cell(t, "COORDINATE_AXES", row, CCC_DOUBLE, f->axes, 9));
    if (f->has_tiles)
        MSI_TRY(read_cell(t, "TILE_ELEMENT_OFFSET", row, CCC_DOUBLE, f->tile_m, 3 * (int64_t)MSI_MS_TILE));
    MSI_TRY(count_elements(t, row, &n));
    MSI_TRY(msi_grow(&s->element, s->n_element, s->n_element + n, sizeof *s->element, "dipoles of stations"));
    int rc = msi_alloc(&offset, 3 * n, sizeof *offset, "dipoles of stations");
    if (!rc) rc = msi_alloc(&flag, 2 * n, sizeof *flag, "dipoles of stations");
    if (!rc) rc = read_cell(t, "ELEMENT_OFFSET", row, CCC_DOUBLE, offset, 3 * n);
    if (!rc) rc = read_cell(t, "ELEMENT_FLAG", row, CCC_BOOL, flag, 2 * n);
    for (int64_t i = 0; !rc && i < n; i++) {
        msi_ms_element *e = &s->element[s->n_element + i];
        memcpy(e->offset_m, offset + 3 * i, sizeof e->offset_m);
        for (int p = 0; p < 2; p++) e->is_on[p] = !flag[2 * i + p];
    }
    msi_free(offset);
    msi_free(flag);
    f->first = s->n_element;
    f->n = n;
    if (!rc) s->n_element += n;
    return rc;
}

/* Read the directions of beams from the table FIELD. They are not read if they are not in J2000, or if the set has no
 * directions of tile beams. */
static int read_directions(msi_ms_stations *s, ccc_table *t)
{
    char *frame = NULL;
    const int64_t n = ccc_table_n_row(t);
    const int failed = ccc_keyword_get_string(t, "DELAY_DIR", "MEASINFO.Ref", &frame);
    const int is_j2000 = failed == CCC_OK && strcmp(frame, "J2000") == 0;
    ccc_free(frame);
    if (!is_j2000 || !ccc_table_has_column(t, "LOFAR_TILE_BEAM_DIR")) return MSI_OK;
    MSI_TRY(msi_alloc(&s->dir, n, sizeof *s->dir, "directions of beams"));
    s->n_dir = n;
    for (int64_t i = 0; i < n; i++) {
        MSI_TRY(read_cell(t, "DELAY_DIR", i, CCC_DOUBLE, s->dir[i].station_rad, 2));
        MSI_TRY(read_cell(t, "LOFAR_TILE_BEAM_DIR", i, CCC_DOUBLE, s->dir[i].tile_rad, 2));
    }
    return MSI_OK;
}

/* Read which part of the beam the data column is already corrected for, and for which direction. */
static int read_applied(msi_ms_stations *s, ccc_table *table, const char *data_column)
{
    static const char *const words[] = {"None", "Element", "ArrayFactor", "Full"};
    char *word = NULL;
    s->applied_rad[0] = s->applied_rad[1] = NAN;
    if (!*data_column || ccc_keyword_get_string(table, data_column, "LOFAR_APPLIED_BEAM_MODE", &word) != CCC_OK)
        return MSI_OK;
    s->applied = -1;
    for (int i = 0; i < 4; i++)
        if (strcmp(word, words[i]) == 0) s->applied = i;
    if (s->applied < 0)
        msi_error_set(MSI_EINPUT,
                      "%s: column %s has the keyword LOFAR_APPLIED_BEAM_MODE \"%.40s\", which is not None, Element, "
                      "ArrayFactor or Full; correct it",
                      ccc_table_path(table), data_column, word);
    ccc_free(word);
    if (s->applied <= 0) return s->applied < 0 ? MSI_EINPUT : MSI_OK;
    MSI_CCC(ccc_keyword_get_double(table, data_column, "LOFAR_APPLIED_BEAM_DIR.m0.value", &s->applied_rad[0]));
    MSI_CCC(ccc_keyword_get_double(table, data_column, "LOFAR_APPLIED_BEAM_DIR.m1.value", &s->applied_rad[1]));
    return MSI_OK;
}

int msi_ms_stations_read(msi_ms_stations *out, ccc_table *table, const char *data_column, int64_t n_antenna)
{
    ccc_table *t = NULL;
    *out = (msi_ms_stations){0};
    if (ccc_subtable_open(&t, table, "LOFAR_ANTENNA_FIELD") != CCC_OK) return MSI_OK;
    const int64_t n = ccc_table_n_row(t);
    int rc = msi_alloc(&out->field, n ? n : 1, sizeof *out->field, "fields of stations");
    if (!rc) out->n_field = n;
    for (int64_t i = 0; !rc && i < n; i++) {
        msi_child_progress(MSI_CHILD_STEP_S);
        rc = read_field(out, t, i);
    }
    ccc_table_close(t);
    t = NULL;
    if (!rc && ccc_subtable_open(&t, table, "FIELD") == CCC_OK) rc = read_directions(out, t);
    ccc_table_close(t);
    if (!rc) rc = read_applied(out, table, data_column);
    if (!rc && !msi_ms_stations_are_sound(out, n_antenna))
        rc = msi_error_set(MSI_EINPUT,
                           "%s/LOFAR_ANTENNA_FIELD: truncated or corrupt: an antenna number is out of range, or a "
                           "position is not finite",
                           ccc_table_path(table));
    return rc;
}

static int are_finite(const double *value, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(value[i])) return 0;
    return 1;
}

int msi_ms_stations_are_sound(const msi_ms_stations *s, int64_t n_antenna)
{
    for (int64_t i = 0; i < s->n_field; i++) {
        const msi_ms_dipoles *f = &s->field[i];
        if (f->antenna < 0 || f->antenna >= n_antenna || f->first < 0 || f->n < 1 || f->n > s->n_element - f->first)
            return 0;
        if (!are_finite(f->position_m, 3) || !are_finite(f->axes[0], 9) || !are_finite(f->tile_m[0], 3 * MSI_MS_TILE))
            return 0;
    }
    for (int64_t i = 0; i < s->n_element; i++)
        if (!are_finite(s->element[i].offset_m, 3) || !are_finite(s->element[i].is_on, 2)) return 0;
    for (int64_t i = 0; i < s->n_dir; i++)
        if (!are_finite(s->dir[i].station_rad, 2) || !are_finite(s->dir[i].tile_rad, 2)) return 0;
    return s->applied >= MSI_MS_APPLIED_NONE && s->applied <= MSI_MS_APPLIED_FULL;
}

void msi_ms_stations_free(msi_ms_stations *s)
{
    msi_free(s->field);
    msi_free(s->element);
    msi_free(s->dir);
    *s = (msi_ms_stations){0};
}
