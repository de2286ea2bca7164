/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Beams of several types of stations: a JSON file as DDFacet and Cattery read it,
 *
 *     {"lband": {"patterns": {"cmd::default": ["$(stype)_$(corr)_$(reim).fits"], "ska": [..]},
 *                "define-stationtypes": {"cmd::default": "meerkat", "~ska[0-9]{3}": "ska"}}}
 *
 * The type of an antenna is the one named like it; otherwise the type of the first regular expression (~) that matches
 * the beginning of its name; otherwise the default. Further blocks add patterns and rules.
 */
#ifndef MSI_PB_CONFIG_H
#define MSI_PB_CONFIG_H

#include "src/pb/pb_model.h"

/* A type of stations. */
typedef struct msi_pb_station_type {
    char *name;
    int n_pattern;
    char **pattern; /* [n_pattern] of files, with $(corr) and $(reim); for different frequencies */
} msi_pb_station_type;

typedef struct msi_pb_config {
    int n_type;
    msi_pb_station_type type[MSI_PB_CLASSES];
} msi_pb_config;

/*
 * msi_pb_config_read - read a file, and find the types of a set's antennas.
 * Returned: *out      freed by msi_pb_config_free; empty on failure
 *           class_of  [set->n_antenna] types of the antennas
 * Returns:  0, MSI_EINPUT (it cannot be read or is not of this form; an antenna has no type; too many types),
 *           MSI_ENOMEM
 */
int msi_pb_config_read(msi_pb_config *out, const char *path, const msi_pb_set *set, uint8_t *class_of);
void msi_pb_config_free(msi_pb_config *c); /* leaves it empty */

#endif
