/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lists of sources in the text format of WSClean, DP3 and makesourcedb. */
#ifndef MSI_SKY_LIST_H
#define MSI_SKY_LIST_H

#include "core/image.h"

enum { MSI_SKY_MAX_TERMS = 16 };

/* A point, or a gaussian. */
typedef struct msi_sky_source {
    double ra_rad, dec_rad;
    double flux_jy; /* at reference_hz */
    int n_term, is_logarithmic;
    double term[MSI_SKY_MAX_TERMS]; /* [n_term] a_1 ..: of flux 10^(a_1 x + a_2 x^2 ..), x = log10(frequency /
                                       reference), or of flux + a_1 x + a_2 x^2 .., x = frequency / reference - 1 */
    double reference_hz;            /* positive if there are terms */
    msi_beam shape;                 /* all 0: the source is a point */
} msi_sky_source;

typedef struct msi_sky_list {
    msi_sky_source *source; /* [n] owned */
    int64_t n, capacity;
} msi_sky_list;

/*
 * msi_sky_list_read - read a list: a line "Format = .." or "# (..) = format", whose columns may stand in any order, and
 * a line for each source. Columns that are not known are left aside, and so are empty lines, comments and patches.
 * Returned: *list  emptied by msi_sky_list_free; empty on failure
 * Returns:  0, MSI_EINPUT (with the line's number), MSI_ENOMEM
 */
int msi_sky_list_read(msi_sky_list *list, const char *path);

/* msi_sky_list_free - leave it empty. */
void msi_sky_list_free(msi_sky_list *list);

/* msi_sky_source_flux - return the flux at a frequency, in Jy. A source without terms may have no reference. */
double msi_sky_source_flux(const msi_sky_source *source, double freq_hz);

#endif
