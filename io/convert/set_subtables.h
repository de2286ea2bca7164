/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The subtables of sets are carried over to the one that is made of them. */
#ifndef MSI_IO_SET_SUBTABLES_H
#define MSI_IO_SET_SUBTABLES_H

#include "io/convert/set_maps.h"

/* Each set that goes into the output is a source of subtables. */
typedef struct msi_subtables_source {
    ccc_table *table; /* the set, open */
    const msi_ms_reader *reader;
    int set; /* its index in the reader */
    const msi_set_output_spec *spec;
} msi_subtables_source;

/*
 * msi_set_subtables_take - append the subtables of one set to those of the output: rows of what was selected and is not
 * there yet, numbers by the set's map, whose offsets are set here; windows with the output's channels.
 * Given:   to  the output's main table; maps  of this set and those before, filled by msi_set_maps_add
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_subtables_take(ccc_table *to, const msi_subtables_source *source, msi_set_maps *maps);

/* msi_set_subtables_are_one - tell whether all sets with rows have the same subtable, such as members of a multi-MS,
 * whose links lead to that of one of them. */
int msi_set_subtables_are_one(const msi_ms_reader *reader, const char *name);

/* msi_set_subtables_history - append to HISTORY what was done. Returns: 0, MSI_EOUTPUT. */
int msi_set_subtables_history(ccc_table *to, const msi_set_output_spec *spec);

#endif
