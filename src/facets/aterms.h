/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A-terms: screens of gains over the image, for each antenna and time, in FITS files. Values between pixels are
 * interpolated with cubic polynomials. In time, and in frequency for gains, the nearest plane is used.
 *
 *     tec       phase = -8.44797245e9 TEC / frequency
 *     diagonal  real and imaginary parts of the gains of feeds X and Y
 *     dldm      shifts dl, dm: a source at l, m appears at l + dl, m + dm
 */
#ifndef MSI_ATERMS_H
#define MSI_ATERMS_H

#include "core/types.h"
#include "io/ms/ms_reader.h"

typedef struct msi_aterms msi_aterms;

/* Directions, and their pixels in the screens. */
typedef struct msi_aterm_view {
    int64_t n;
    double reach;       /* distance in l and m, to each side of a direction, over which slopes are differences */
    double (*lm)[2];    /* [n] from the centre of the image */
    double (*pixel)[2]; /* [n][5][screens] pixels of the direction, and of points at +-reach in l and in m */
} msi_aterm_view;

/*
 * msi_aterms_open - read the configuration and its images.
 * Returned: *out  freed by msi_aterms_free; NULL on failure
 * Returns:  0, MSI_EINPUT (as msi_aterm_config_read, msi_fits_screen_read; a screen has other axes than its kind needs;
 *           times overlap), MSI_ENOMEM
 */
int msi_aterms_open(msi_aterms **out, const char *path);
void msi_aterms_free(msi_aterms *a); /* NULL-safe */

/* msi_aterms_is_diagonal - return 1 if the two feeds have different gains. */
int msi_aterms_is_diagonal(const msi_aterms *a);

/* msi_aterms_beam_update - return update_interval of the beam, in seconds; negative: the configuration does not give
 * it. */
double msi_aterms_beam_update(const msi_aterms *a);

/* msi_aterms_check - compare the screens with a set: its number of antennas and its times. Returns: 0, MSI_EINPUT */
int msi_aterms_check(const msi_aterms *a, const msi_ms_reader *reader, int set);

/*
 * msi_aterms_look - find the pixels of directions in the screens.
 * Given:    centre  right ascension and declination of the image; lm [n]
 * Returned: *view   emptied by msi_aterm_view_free; empty on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_aterms_look(const msi_aterms *a, const double centre[2], int64_t n, const double (*lm)[2], double reach,
                    msi_aterm_view *view);
void msi_aterm_view_free(msi_aterm_view *view);

/*
 * msi_aterms_gains - multiply Jones matrices by the gains in a direction. Several threads may call it.
 * Given:              point  index of the direction in the view
 *                     form   number of elements of a matrix: 1, 2 or 4
 * Given and returned: jones [n_antenna][n_chan][form]
 * Returned:           slope [n_antenna][n_chan][2]  change of the phase with l and m
 */
void msi_aterms_gains(const msi_aterms *a, const msi_aterm_view *view, int64_t point, double time_s, int64_t n_antenna,
                      int32_t n_chan, const double *freq_hz, int form, msi_c64 *jones, double (*slope)[2]);

/* msi_aterms_shift - compute the shift of a source in a direction. Returned: shift  in l, m, n; its change with l; with
 * m */
void msi_aterms_shift(const msi_aterms *a, const msi_aterm_view *view, int64_t point, double time_s,
                      double shift[3][3]);

/*
 * The file of -aterm-config, in WSClean's format: lines KEY = VALUE, a list as [A, B], comments after #. The list
 * `aterms` has the names of the terms. NAME.type is the kind of a term; without it the name is the kind.
 */

typedef enum msi_aterm_kind {
    MSI_ATERM_TEC,      /* total electron content: a phase proportional to 1 / frequency */
    MSI_ATERM_DLDM,     /* shifts of sources in l and m */
    MSI_ATERM_DIAGONAL, /* complex gains of both feeds */
    MSI_ATERM_BEAM      /* the primary beam */
} msi_aterm_kind;

enum { MSI_ATERM_MOST = 8 };

typedef struct msi_aterm {
    msi_aterm_kind kind;
    const char *name;
    int n_image;
    const char **image; /* [n_image] FITS files */
} msi_aterm;

typedef struct msi_aterm_config {
    char *text; /* owned; names point into it */
    int n;
    msi_aterm term[MSI_ATERM_MOST];
    int has_beam;
    double beam_update_s; /* negative: not given */
} msi_aterm_config;

/* Path to give instead of a file that contains `aterms = [beam]`. */
extern const char MSI_ATERMS_BEAM[];

/*
 * msi_aterm_config_read - read the file.
 * Returned: *out  emptied by msi_aterm_config_free; empty on failure
 * Returns:  0, MSI_EINPUT (not such a file; an unknown or unsupported kind; no images), MSI_ENOMEM
 */
int msi_aterm_config_read(msi_aterm_config *out, const char *path);

void msi_aterm_config_free(msi_aterm_config *c);

#endif
