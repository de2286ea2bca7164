/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sky coordinates of an image are converted by wcslib, which this file alone knows. */
#ifndef MSI_IO_SKY_WCS_H
#define MSI_IO_SKY_WCS_H

#include "core/image.h"

typedef struct msi_sky_wcs msi_sky_wcs;

/* The header of an image says this of its two sky axes. Arrays: longitude, latitude. */
typedef struct msi_sky_axes {
    char ctype[2][9];    /* 'RA---SIN', 'DEC--SIN' */
    double crval_deg[2]; /* the image centre */
    double cdelt_deg[2]; /* first negative: longitude grows to lower x */
    double crpix[2];     /* FITS, 1-based: N/2 + 1 */
    double lonpole_deg, latpole_deg;
    char radesys[16];      /* "" where the frame has none (galactic ..) */
    double equinox;        /* years; 0 where the frame has none */
    int frame_is_standard; /* 0: FITS has no word for the frame; ctype is then 'AZLN-SIN' or the like */
    int is_equatorial;     /* right ascension and declination, as against galactic .. */
    char frame[16];        /* as the Measurement Set would name it: J2000, ICRS, B1950 .. */
} msi_sky_axes;

/*
 * msi_sky_wcs_create - make the SIN projection of an image on the sky.
 *
 * Given:    geometry; ra_rad, dec_rad  image centre, at pixel (nx/2, ny/2) 0-based
 *           frame   as Measurement Sets name directions' frames (J2000, ICRS, B1950, APP, GALACTIC ..)
 *           mjd     date of the observation, for frames of date; 0 where unknown
 * Returned: *out    owned by the caller, freed by msi_sky_wcs_free
 * Returns:  0, MSI_ERANGE (wcslib finds the numbers impossible), MSI_ENOMEM
 */
int msi_sky_wcs_create(msi_sky_wcs **out, const msi_image_geometry *geometry, double ra_rad, double dec_rad,
                       const char *frame, double mjd);

/*
 * msi_sky_wcs_frame - give a Measurement Set's name for the frame that a header gives.
 *
 * Given:    ctype_lng, ctype_lat  CTYPE of the two sky axes; radesys  "" where absent, equinox  0 where absent: the
 *           standard infers the one from the other
 * Returned: frame  UNKNOWN where the axes are those of a frame, but radesys and equinox of none known here
 * Returns:  1, or 0 where the axes are not those of a SIN projection in a frame known here
 */
int msi_sky_wcs_frame(const char *ctype_lng, const char *ctype_lat, const char *radesys, double equinox,
                      char frame[16]);

/* Two axes on the sky as the cards of a header have them, of any projection. */
typedef struct msi_sky_cards {
    char ctype[2][9];
    double crval_deg[2], cdelt_deg[2], crpix[2];
    double pc[2][2];
    double lonpole_deg, latpole_deg; /* NaN where there is no card */
    int n_pv;                        /* parameters of the projection */
    struct {
        int axis, m; /* the card PVaxis_m, axis 1 or 2 */
        double value;
    } pv[40];
    char radesys[16]; /* "" where absent */
    double equinox;   /* 0 where absent */
} msi_sky_cards;

/*
 * msi_sky_wcs_of_cards - make coordinates of a header, longitude on the first axis.
 * Returned: *out  NULL where wcslib makes no sky coordinates of them; freed by msi_sky_wcs_free
 * Returns:  0, MSI_ENOMEM
 */
int msi_sky_wcs_of_cards(msi_sky_wcs **out, const msi_sky_cards *cards);

/* msi_sky_wcs_axes - borrowed. */
const msi_sky_axes *msi_sky_wcs_axes(const msi_sky_wcs *w);

/*
 * msi_sky_wcs_pixel_to_sky - find the sky position of a 0-based pixel position.
 * Returned: sky [2]  longitude in [0, 360) and latitude, degrees
 * Returns:  1, or 0 beyond the horizon (sky is NaN)
 */
int msi_sky_wcs_pixel_to_sky(const msi_sky_wcs *w, const double pixel[2], double sky[2]);

/* msi_sky_wcs_sky_to_pixel - do the inverse; 0 where the direction is on the other half of the sky (pixel is NaN). */
int msi_sky_wcs_sky_to_pixel(const msi_sky_wcs *w, const double sky[2], double pixel[2]);

void msi_sky_wcs_free(msi_sky_wcs *w);

#endif
