/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The layouts of LOFAR's stations in a set: where their dipoles and tiles are, and where their beams point. */
#ifndef MSI_MS_STATIONS_H
#define MSI_MS_STATIONS_H

#include "core/types.h"

enum { MSI_MS_TILE = 16 }; /* dipoles of a tile */

/* A dipole or a tile of dipoles. */
typedef struct msi_ms_element {
    double offset_m[3]; /* ITRF, from the centre of its field */
    double is_on[2];    /* 1 or 0, for X and Y */
} msi_ms_element;

/* A field of dipoles or tiles. A station has one or two. */
typedef struct msi_ms_dipoles {
    int64_t antenna;      /* row of ANTENNA */
    int64_t has_tiles;    /* 1: elements are tiles of dipoles at tile_m; 0: elements are dipoles */
    int64_t first, n;     /* range in msi_ms_stations.element */
    double position_m[3]; /* ITRF, of its centre */
    double axes[3][3];    /* ITRF unit vectors: p and q in the plane of the ground, r normal to it */
    double tile_m[MSI_MS_TILE][3];
} msi_ms_dipoles;

/* The part of the beam that the data are already corrected for, in one direction. */
typedef enum msi_ms_applied {
    MSI_MS_APPLIED_NONE,
    MSI_MS_APPLIED_ELEMENT,
    MSI_MS_APPLIED_ARRAY_FACTOR,
    MSI_MS_APPLIED_FULL
} msi_ms_applied;

/* The directions of the beams of a row of FIELD, J2000 right ascension and declination. */
typedef struct msi_ms_beam_dir {
    double station_rad[2], tile_rad[2];
} msi_ms_beam_dir;

typedef struct msi_ms_stations {
    int64_t n_field, n_element, n_dir; /* n_field is 0 if the set has no layouts */
    msi_ms_dipoles *field;             /* [n_field] of LOFAR_ANTENNA_FIELD */
    msi_ms_element *element;           /* [n_element] */
    msi_ms_beam_dir *dir;              /* [n_dir] by FIELD_ID */
    int64_t applied;                   /* msi_ms_applied, for the data column */
    double applied_rad[2];             /* direction of the correction; NaN: not in the set */
} msi_ms_stations;

typedef struct ccc_table ccc_table;

/*
 * msi_ms_stations_read - read the layouts of a set, if it has any.
 * Given:    table  the set
 *           data_column  "": none
 *           n_antenna
 * Returned: *out   freed by msi_ms_stations_free, also after a failure
 * Returns:  0, MSI_EINPUT (damaged), MSI_ENOMEM
 */
int msi_ms_stations_read(msi_ms_stations *out, ccc_table *table, const char *data_column, int64_t n_antenna);

/* msi_ms_stations_are_sound - return 1 if all indices and numbers are valid. */
int msi_ms_stations_are_sound(const msi_ms_stations *s, int64_t n_antenna);

void msi_ms_stations_free(msi_ms_stations *s); /* leaves it empty */

#endif
