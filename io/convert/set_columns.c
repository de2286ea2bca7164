/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/set_columns.h"

#include "core/memory.h"
#include "core/status.h"

#define AT(member) offsetof(msi_set_row, member)

const msi_set_column msi_set_columns[MSI_SET_N_COLUMN] = {
    {"ANTENNA1", CCC_INT32, AT(antenna1), 1, 1, MSI_SET_OF_ROW},
    {"ANTENNA2", CCC_INT32, AT(antenna2), 1, 1, MSI_SET_OF_ROW},
    {"FEED1", CCC_INT32, AT(feed1), 1, 0, MSI_SET_STEADY},
    {"FEED2", CCC_INT32, AT(feed2), 1, 0, MSI_SET_STEADY},
    {"ARRAY_ID", CCC_INT32, AT(array), 1, 0, MSI_SET_STEADY},
    {"OBSERVATION_ID", CCC_INT32, AT(observation), 1, 0, MSI_SET_STEADY},
    {"PROCESSOR_ID", CCC_INT32, AT(processor), 1, 0, MSI_SET_STEADY},
    {"SCAN_NUMBER", CCC_INT32, AT(scan), 1, 0, MSI_SET_STEADY},
    {"STATE_ID", CCC_INT32, AT(state), 1, 0, MSI_SET_STEADY},
    {"FLAG_ROW", CCC_BOOL, AT(flag_row), 1, 0, MSI_SET_OF_ROW},
    {"TIME_CENTROID", CCC_DOUBLE, AT(centroid_s), 1, 0, MSI_SET_OF_MEAN},
    {"INTERVAL", CCC_DOUBLE, AT(interval_s), 1, 1, MSI_SET_OF_TIME},
    {"EXPOSURE", CCC_DOUBLE, AT(exposure_s), 1, 0, MSI_SET_OF_MEAN},
    {"WEIGHT", CCC_FLOAT, AT(weight), 0, 1, MSI_SET_OF_ROW},
    {"SIGMA", CCC_FLOAT, AT(sigma), 0, 0, MSI_SET_OF_ROW},
    {"TIME", CCC_DOUBLE, AT(time_s), 1, 1, MSI_SET_OF_TIME},
    {"FIELD_ID", CCC_INT32, AT(field), 1, 1, MSI_SET_STEADY},
    {"DATA_DESC_ID", CCC_INT32, AT(data_desc), 1, 1, MSI_SET_STEADY},
    {"UVW", CCC_DOUBLE, AT(uvw_m), 3, 1, MSI_SET_OF_ROW},
};

/* Copy n values from one place in every so many bytes to another. Sizes that the compiler knows are no calls. */
static inline void copy_values(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++) memcpy(to + (size_t)i * to_step, from + (size_t)i * from_step, size);
}

void msi_set_copy_column(char *to, size_t to_step, const char *from, size_t from_step, int64_t n, size_t size)
{
    switch (size) {
    case 1:
        copy_values(to, to_step, from, from_step, n, 1);
        break;
    case 4:
        copy_values(to, to_step, from, from_step, n, 4);
        break;
    case 8:
        copy_values(to, to_step, from, from_step, n, 8);
        break;
    case 16:
        copy_values(to, to_step, from, from_step, n, 16);
        break;
    default:
        copy_values(to, to_step, from, from_step, n, size);
        break;
    }
}

int msi_set_grow(char **room, int64_t *n_allocated, int64_t bytes)
{
    if (*n_allocated >= bytes) return MSI_OK;
    *n_allocated = 0;
    MSI_TRY(msi_grow(room, 0, bytes, 1, "rows"));
    *n_allocated = bytes;
    return MSI_OK;
}
