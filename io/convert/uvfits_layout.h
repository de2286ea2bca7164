/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The layout of a UVFITS file, its header and its tables. Source: E. W. Greisen, "AIPS FITS File Format", AIPS Memo
 * 117, NRAO 2009 and later: random groups (section 3.1), tables AN, FQ and SU (sections 4.1, 4.4, 4.7).
 */
#ifndef MSI_UVFITS_LAYOUT_H
#define MSI_UVFITS_LAYOUT_H

#include <stdio.h>

#include "io/ms/ms_reader.h"

/* How visibilities are stored: a group has all windows, a window its channels, a channel its correlations, and a
 * correlation has real part, imaginary part and weight. */
typedef struct msi_uvfits_layout {
    const msi_ms_reader *reader; /* reader of one set; borrowed */
    int32_t n_window, n_chan, n_corr, n_antenna, n_field;
    const msi_ms_spw **window;     /* [n_window] the array is owned */
    int32_t *place;                /* [setups] index into window[] by DATA_DESC_ID; -1: no rows; owned */
    double step_hz;                /* distance of channels, equal for all windows */
    int32_t order[MSI_MAX_CORR];   /* index of the set's correlation at each place of the axis STOKES */
    int stokes_first, stokes_step; /* first code of that axis, and step */
    double day_mjd;                /* day of the first row, from which dates are counted */
    /* UTC - UT1, which is added to times in UT1, because the format has no UT1; else 0 */
    double utc_offset_s;
    int64_t n_group;
    int64_t data_begin; /* bytes before the first group */
} msi_uvfits_layout;

/*
 * msi_uvfits_layout_make - make the layout, except the groups.
 * Given:    reader  of one set; name  of the output, for messages
 * Returned: *l      freed by msi_uvfits_layout_free in all cases
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT (not possible in this format: windows of different shapes, channels or
 *           correlation codes that are not evenly spaced, unknown frames)
 */
int msi_uvfits_layout_make(msi_uvfits_layout *l, const msi_ms_reader *reader, const char *name);

/* msi_uvfits_n_parameter - return the number of parameters of a group. */
int msi_uvfits_n_parameter(const msi_uvfits_layout *l);

/* msi_uvfits_needs_antenna_columns - return 1 if each antenna of a baseline needs a parameter, because there are more
 * than 255 antennas, for which the code 256 a1 + a2 is not unique. */
int msi_uvfits_needs_antenna_columns(const msi_uvfits_layout *l);

/* msi_uvfits_group_bytes - return the size of a group in bytes. */
int64_t msi_uvfits_group_bytes(const msi_uvfits_layout *l);

/*
 * msi_uvfits_header_write - write the primary header at the beginning of a file, and set data_begin.
 * Given:   command  for HISTORY
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_uvfits_header_write(msi_uvfits_layout *l, FILE *file, const char *name, const char *command);

/*
 * msi_uvfits_tables_make - make the tables that follow the groups.
 * Given:    name    of the output, for messages
 * Returned: *bytes  [*n] whole blocks of FITS, freed by free() in all cases
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_uvfits_tables_make(const msi_uvfits_layout *l, const char *name, void **bytes, int64_t *n);

/* msi_uvfits_layout_free - free the arrays. */
void msi_uvfits_layout_free(msi_uvfits_layout *l);

#endif
