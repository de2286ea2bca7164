/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What casacore takes for something else in the tables of a FITS-IDI file: it takes the first row of FREQUENCY for
 * every FREQID, the apparent position of a source with a proper motion for one of J2000, and ends at an EQUINOX that is
 * not written as it writes it. The latter two are mended in a copy of the file before casacore reads it.
 */
#ifndef MSI_IO_IDI_MEND_H
#define MSI_IO_IDI_MEND_H

/* Says what is to be mended. */
typedef struct msi_idi_mending {
    int has_equinox;  /* an EQUINOX that casacore does not read */
    int has_motion;   /* a proper motion */
    int has_sideband; /* a band's SIDEBAND contradicts the sign of its CH_WIDTH: a warning is logged */
    char moving[72];  /* the first source that moves */
} msi_idi_mending;

/*
 * msi_idi_mending_find - look for what is to be mended.
 * Given:   fits  path of the file
 *          name  the file's, for messages
 * Returns: 0, MSI_EINPUT (visibilities of another FREQID than that of the first row, which is 1; an equinox that is
 *          neither B1950 nor J2000)
 */
int msi_idi_mending_find(msi_idi_mending *m, const char *fits, const char *name);

/* msi_idi_mending_is_needed - tell whether anything is to be mended. */
int msi_idi_mending_is_needed(const msi_idi_mending *m);

/* msi_idi_mend - mend a copy of the file. Returns: 0, MSI_EOUTPUT */
int msi_idi_mend(const msi_idi_mending *m, const char *copy, const char *name);

#endif
