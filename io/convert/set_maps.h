/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Row numbers of antennas, fields, windows .. of several sets in the output set, and copying of their subtables. */
#ifndef MSI_IO_SET_MAPS_H
#define MSI_IO_SET_MAPS_H

#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/convert/set_output.h"
#include "io/ms/ms_block.h"

/* The row numbers of one set's entities in the output; -1: not copied. Arrays are owned. */
typedef struct msi_set_map {
    int32_t *antenna, *field, *window, *polarization, *data_desc; /* indexed by the row number in the set */
    int32_t n_antenna, n_field, n_window, n_polarization, n_data_desc;
    int32_t *polarization_of; /* [n_data_desc] POLARIZATION_ID */
    uint8_t *antenna_is_new, *window_is_new, *field_is_new, *polarization_is_new, *data_desc_is_new;
    int32_t observation_offset, processor_offset, state_offset, source_offset;
} msi_set_map;

typedef struct msi_set_maps msi_set_maps;

/* msi_set_read, msi_set_written - convert the status of a ccc function that reads a set, or writes one. CCC_EREFUSED on
 * writing comes from a table that is being copied. */
static inline int msi_set_read(int ccc_status)
{
    return ccc_status == CCC_OK ? MSI_OK : msi_ms_failed(ccc_status);
}

static inline int msi_set_written(int ccc_status)
{
    if (ccc_status == CCC_OK) return MSI_OK;
    return msi_error_set(ccc_status == CCC_ENOMEM     ? MSI_ENOMEM
                         : ccc_status == CCC_EREFUSED ? MSI_EINPUT
                                                      : MSI_EOUTPUT,
                         "%s", ccc_error());
}

/* msi_set_maps_make - make empty maps. Returned: *out  owned, msi_set_maps_free. Returns: 0, MSI_ENOMEM. */
int msi_set_maps_make(msi_set_maps **out, int n_set);

/*
 * msi_set_maps_add - number the antennas, fields, windows .. of one set. Antennas with equal name and position, fields
 * with equal name and phase centre, and windows with equal channels get the same number as in an earlier set.
 * Given:    table   the set, open; reader, k  its index in it; groups [msi_ms_reader_n_spw]
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_set_maps_add(msi_set_maps *maps, ccc_table *table, const msi_ms_reader *reader, int k,
                     const msi_channel_groups *groups);

/* msi_set_maps_of - return the map of one set, borrowed. */
msi_set_map *msi_set_maps_of(msi_set_maps *maps, int set);

/* msi_set_maps_free - NULL is fine. */
void msi_set_maps_free(msi_set_maps *maps);

/* ---- Copying of subtables to the output set ---- */

/* The set whose subtables are copied. */
typedef struct msi_subtables_source {
    ccc_table *table; /* the set, open */
    const msi_ms_reader *reader;
    int set; /* its index in the reader */
    const msi_set_output_spec *spec;
} msi_subtables_source;

/*
 * msi_set_subtables_copy - append the subtables of one set to those of the output. Rows that are selected and new are
 * copied, with the numbers of the set's map; its offsets are set here. Windows get the channels of the output.
 * Given:   to    main table of the output
 *          maps  of this set and earlier ones, filled by msi_set_maps_add
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_subtables_copy(ccc_table *to, const msi_subtables_source *source, msi_set_maps *maps);

/*
 * msi_set_subtables_of_uv - make a set without rows, whose subtables describe a UVFITS or FITS-IDI file.
 * Given:   path  must not exist; name  of the file, for messages
 * Returns: 0, MSI_EINPUT (positions of sources are in different frames), MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_subtables_of_uv(const char *path, const msi_uv_set *uv, const char *name);

/* msi_set_subtables_are_one - return 1 if all sets with rows share one subtable, such as members of a multi-MS that
 * link to the subtable of one member. */
int msi_set_subtables_are_one(const msi_ms_reader *reader, const char *name);

/* msi_set_subtables_history - append the command to HISTORY. Returns: 0, MSI_EOUTPUT. */
int msi_set_subtables_history(ccc_table *to, const msi_set_output_spec *spec);

#endif
