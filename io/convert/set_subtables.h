/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copy the subtables of sets to the output set. */
#ifndef MSI_IO_SET_SUBTABLES_H
#define MSI_IO_SET_SUBTABLES_H

#include "io/convert/set_maps.h"

/* A set whose subtables are copied. */
typedef struct msi_subtables_source {
    ccc_table *table; /* the set, open */
    const msi_ms_reader *reader;
    int set; /* its index in the reader */
    const msi_set_output_spec *spec;
} msi_subtables_source;

/*
 * msi_set_subtables_copy - append the subtables of one set to those of the output: rows that are selected and new, with
 * the numbers of the map of the set, whose offsets are set here. Windows get the channels of the output.
 * Given:   to    main table of the output
 *          maps  of this set and the sets before, filled by msi_set_maps_add
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_subtables_copy(ccc_table *to, const msi_subtables_source *source, msi_set_maps *maps);

/*
 * msi_set_subtables_of_uv - make a set without rows, whose subtables describe a UVFITS or FITS-IDI file.
 * Given:   path  must not exist; name  of the file, for messages
 * Returns: 0, MSI_EINPUT (positions of sources are in different frames), MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_subtables_of_uv(const char *path, const msi_uv_set *uv, const char *name);

/* msi_set_subtables_are_one - return whether all sets with rows share one subtable, such as members of a multi-MS with
 * links to the subtable of one of them. */
int msi_set_subtables_are_one(const msi_ms_reader *reader, const char *name);

/* msi_set_subtables_history - append a row with the command to HISTORY. Returns: 0, MSI_EOUTPUT. */
int msi_set_subtables_history(ccc_table *to, const msi_set_output_spec *spec);

#endif
