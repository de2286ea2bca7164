/* SPDX-License-Identifier: GPL-3.0-or-later */
/* FIELD of a Measurement Set: phase centres, their frames, and how they move. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_subtable.h"

/* Find the name that a column's keywords give to a code. */
static int frame_of_code(ccc_table *t, const char *column, int code, char *frame, size_t size)
{
    char **names = NULL;
    int64_t *codes = NULL, n_name = 0, n_code = 0;
    int is_there;
    int status =
        msi_ms_optional(ccc_keyword_get_strings(t, column, "MEASINFO.TabRefTypes", &names, &n_name), &is_there);
    if (status == MSI_OK && is_there)
        status = msi_ms_optional(ccc_keyword_get_ints(t, column, "MEASINFO.TabRefCodes", &codes, &n_code), &is_there);
    for (int64_t i = 0; status == MSI_OK && i < n_name && i < n_code; i++)
        if (codes[i] == code) msi_ms_copy_text(frame, size, names[i]);
    ccc_free(names);
    ccc_free(codes);
    return status;
}

/* Read the frame of a direction column: one for all rows, or a code or a name in a column of its own. */
static int direction_frame(ccc_table *t, const char *column, int64_t row, char *frame, size_t size)
{
    char *text = NULL;
    int32_t code;
    int is_there;
    msi_ms_copy_text(frame, size, "J2000");
    MSI_TRY(msi_ms_optional(ccc_keyword_get_string(t, column, "MEASINFO.VarRefCol", &text), &is_there));
    int status;
    if (is_there) {
        status = msi_ms_optional(ccc_get_range(t, text, row, 1, NULL, CCC_INT32, &code, 1), &is_there);
        if (status == MSI_OK)
            status =
                is_there ? frame_of_code(t, column, code, frame, size) : msi_ms_cell_text(t, text, row, frame, size);
    } else {
        status = msi_ms_optional(ccc_keyword_get_string(t, column, "MEASINFO.Ref", &text), &is_there);
        if (is_there) msi_ms_copy_text(frame, size, text);
    }
    ccc_free(text);
    return status;
}

/* Find how a phase centre moves; its polynomial has the terms direction[n_value], two a power of time. */
static int find_motion(ccc_table *t, int row, const double *direction, int64_t n_value, msi_ms_field *f)
{
    static const char bodies[] = " MERCURY VENUS MARS JUPITER SATURN URANUS NEPTUNE PLUTO SUN MOON COMET ";
    int32_t ephemeris = -1;
    int is_there = 0;
    char between[sizeof f->frame + 2];
    f->motion = MSI_MS_FIXED;
    for (int64_t i = 2; i < n_value; i++)
        if (direction[i] != 0) f->motion = MSI_MS_POLYNOMIAL;
    snprintf(between, sizeof between, " %s ", f->frame);
    if (strstr(bodies, between)) f->motion = MSI_MS_PLANET;
    if (ccc_table_has_column(t, "EPHEMERIS_ID"))
        MSI_TRY(msi_ms_optional(ccc_get_range(t, "EPHEMERIS_ID", row, 1, NULL, CCC_INT32, &ephemeris, 1), &is_there));
    if (is_there && ephemeris >= 0) f->motion = MSI_MS_EPHEMERIS;
    return MSI_OK;
}

static int read_field(ccc_table *t, int row, msi_ms_field *f)
{
    int32_t source = -1;
    int is_there = 0;
    double *direction;
    int64_t n_value;
    MSI_TRY(msi_ms_cell_text(t, "NAME", row, f->name, sizeof f->name));
    MSI_TRY(direction_frame(t, "PHASE_DIR", row, f->frame, sizeof f->frame));
    if (ccc_table_has_column(t, "SOURCE_ID"))
        MSI_TRY(msi_ms_optional(ccc_get_range(t, "SOURCE_ID", row, 1, NULL, CCC_INT32, &source, 1), &is_there));
    f->source_id = is_there ? source : -1;
    MSI_TRY(msi_ms_cell_doubles(t, "PHASE_DIR", row, &direction, &n_value));
    /* The first two numbers are the constant term of the polynomial in time. */
    const int is_finite = n_value >= 2 && isfinite(direction[0]) && isfinite(direction[1]);
    f->ra_rad = is_finite ? direction[0] : NAN;
    f->dec_rad = is_finite ? direction[1] : NAN;
    const int status = find_motion(t, row, direction, n_value, f);
    msi_free(direction);
    return status;
}

int msi_ms_fields_read(msi_ms_set *set)
{
    ccc_table *t = NULL;
    MSI_TRY(msi_ms_subtable_open(set, "FIELD", &t));
    const int64_t n = ccc_table_n_row(t);
    int status = MSI_OK;
    if (n < 1 || n > INT32_MAX)
        status =
            msi_error_set(MSI_EINPUT, "%s/FIELD: has %lld rows: no phase centre is known", set->path, (long long)n);
    else
        status = msi_alloc(&set->field, n, sizeof *set->field, "fields");
    if (status == MSI_OK) set->n_field = (int)n;
    for (int i = 0; i < set->n_field && status == MSI_OK; i++) {
        msi_child_progress(MSI_CHILD_STEP_S);
        status = read_field(t, i, &set->field[i]);
    }
    ccc_table_close(t);
    return status;
}
