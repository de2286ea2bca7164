/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Lay a UVFITS file out, and make its header and tables. Source: E. W. Greisen, "AIPS FITS File Format", AIPS Memo 117,
 * NRAO 2009 and later: random groups (section 3.1), tables AN, FQ and SU (sections 4.1, 4.4, 4.7).
 */
#ifndef MSI_UVFITS_LAYOUT_H
#define MSI_UVFITS_LAYOUT_H

#include <stdio.h>

#include "io/ms/ms_reader.h"

/* Tells how visibilities lie: a group holds every window, a window its channels, a channel its correlations, and a
 * correlation real part, imaginary part and weight. */
typedef struct msi_uvfits_layout {
    const msi_ms_reader *reader; /* reader of one set; borrowed */
    int32_t n_window, n_chan, n_corr, n_antenna, n_field;
    const msi_ms_spw **window;     /* [n_window] the memory is owned */
    int32_t *place;                /* [setups] index into window[] by DATA_DESC_ID, -1 where there are no rows; owned */
    double step_hz;                /* between channels, of all windows */
    int32_t order[MSI_MAX_CORR];   /* which of the set's correlations comes at each place of the axis STOKES */
    int stokes_first, stokes_step; /* codes of that axis */
    double day_mjd;                /* day of the first row; dates count from it */
    double utc_offset_s;           /* UTC - UT1, added to times in UT1, which the format does not know; else 0 */
    int64_t n_group;
    int64_t data_begin; /* bytes to the first group */
} msi_uvfits_layout;

/*
 * msi_uvfits_layout_make - lay the file out, except its groups.
 * Given:    reader  of one set; name  the output's, for messages
 * Returned: *l      freed by msi_uvfits_layout_free whatever this returns
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT (what the format cannot hold: windows of different shape, channels that are not
 *           evenly spaced, correlations that are no series, frames that it does not know)
 */
int msi_uvfits_layout_make(msi_uvfits_layout *l, const msi_ms_reader *reader, const char *name);

/* msi_uvfits_n_parameter - return the parameters of a group. */
int msi_uvfits_n_parameter(const msi_uvfits_layout *l);

/* msi_uvfits_needs_antenna_columns - return 1 if the antennas of a baseline need a parameter each: there are more than
 * 255 antennas, which the baseline code 256 a1 + a2 cannot number. */
int msi_uvfits_needs_antenna_columns(const msi_uvfits_layout *l);

/* msi_uvfits_group_bytes - count the bytes of one group. */
int64_t msi_uvfits_group_bytes(const msi_uvfits_layout *l);

/*
 * msi_uvfits_header_write - write the primary header at the beginning of a file, and set data_begin.
 * Given:   command  for HISTORY
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_uvfits_header_write(msi_uvfits_layout *l, FILE *file, const char *name, const char *command);

/*
 * msi_uvfits_tables_make - make the tables that stand behind the groups.
 * Given:    name    the output's, for messages
 * Returned: *bytes  [*n] whole blocks of FITS, freed by free() whatever this returns
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_uvfits_tables_make(const msi_uvfits_layout *l, const char *name, void **bytes, int64_t *n);

/* msi_uvfits_layout_free - free what it holds. */
void msi_uvfits_layout_free(msi_uvfits_layout *l);

#endif
