/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What casacore takes for something else in the tables of a UVFITS file, mended in a copy of the file before casacore
 * reads it: it takes the i-th row of AIPS FQ for FREQSEL = i whatever FRQSEL says, the line's velocity (ALTRVAL) for
 * the frequency of every window, proper motions for positions of the day that it cannot turn into others, and an axis
 * RA---SIN for one without a value.
 */
#ifndef MSI_IO_UVFITS_MEND_H
#define MSI_IO_UVFITS_MEND_H

#include <fitsio.h>
#include <stdint.h>

enum { MSI_UV_MOST_IDS = 32768 };

/* A set of numbers below MSI_UV_MOST_IDS. */
typedef struct msi_uv_ids {
    uint64_t bits[MSI_UV_MOST_IDS / 64];
    int64_t last; /* the largest; 0 where there is none */
} msi_uv_ids;

static inline void msi_uv_ids_add(msi_uv_ids *ids, int64_t id)
{
    ids->bits[id / 64] |= (uint64_t)1 << id % 64;
    if (id > ids->last) ids->last = id;
}

static inline int msi_uv_ids_has(const msi_uv_ids *ids, int64_t id)
{
    return ids->bits[id / 64] >> id % 64 & 1;
}

/* msi_uvfits_column - return the number of a column of the table that is open; 0, and cfitsio's status, where there is
 * none. */
int msi_uvfits_column(fitsfile *f, const char *name, int *status);

/* msi_uvfits_find_column - find a column that need not be there; 0 where it is not. */
int msi_uvfits_find_column(fitsfile *f, const char *name);

/* msi_uvfits_source_moves - tell whether a row of the table of sources that is open has a proper motion. */
int msi_uvfits_source_moves(fitsfile *f, long row);

/* msi_uvfits_stop_sources - write proper motions of 0 into the table of sources that is open. */
void msi_uvfits_stop_sources(fitsfile *f, int *status);

/* msi_uvfits_sideband_is_contrary - tell whether SIDEBAND of the table of frequencies that is open says that frequencies
 * run the other way than the sign of the channels' width does. Given: width_name  that column */
int msi_uvfits_sideband_is_contrary(fitsfile *f, const char *width_name);

/* What the groups of a file name. */
typedef struct msi_uvfits_use {
    const char *name; /* the file's, for messages */
    int64_t n_if;
    const msi_uv_ids *freqsel, *source; /* empty where there is no such parameter */
} msi_uvfits_use;

/* Says what is to be mended. */
typedef struct msi_uvfits_mending {
    int is_projected;    /* an axis of the position has a projection in its name */
    int has_line;        /* ALTRVAL, of several windows */
    int has_frequencies; /* rows of AIPS FQ that are not where casacore looks for them */
    int has_motion;      /* a proper motion in AIPS SU */
    int has_sideband;    /* SIDEBAND in AIPS FQ contradicts the sign of CH WIDTH: a warning is logged */
    char moving[72];     /* the first such source */
} msi_uvfits_mending;

/*
 * msi_uvfits_mending_find - look for what is to be mended.
 * Given:   fits  path of the file
 * Returns: 0, MSI_EINPUT (a number of the groups is not in the table, or there is no table), MSI_ENOMEM
 */
int msi_uvfits_mending_find(msi_uvfits_mending *m, const char *fits, const msi_uvfits_use *use);

/* msi_uvfits_mending_is_needed - tell whether anything is. */
int msi_uvfits_mending_is_needed(const msi_uvfits_mending *m);

/* msi_uvfits_mend - mend a copy of the file. Returns: 0, MSI_EOUTPUT, MSI_ENOMEM */
int msi_uvfits_mend(const msi_uvfits_mending *m, const char *copy, const msi_uvfits_use *use);

#endif
