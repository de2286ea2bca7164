/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sky coordinates of images, by wcslib. Only sky_wcs.c includes wcslib. */
#ifndef MSI_IO_SKY_WCS_H
#define MSI_IO_SKY_WCS_H

#include "core/image.h"

typedef struct msi_sky_wcs msi_sky_wcs;

/* The two sky axes in the header of an image. Arrays: longitude, latitude. */
typedef struct msi_sky_axes {
    char ctype[2][9];    /* 'RA---SIN', 'DEC--SIN' */
    double crval_deg[2]; /* the image centre */
    double cdelt_deg[2]; /* first one negative: longitude grows towards lower x */
    double crpix[2];     /* 1-based as in FITS: N/2 + 1 */
    double lonpole_deg, latpole_deg;
    char radesys[16];      /* "" if the frame has none (galactic ..) */
    double equinox;        /* years; 0 if the frame has none */
    int frame_is_standard; /* 0: FITS has no name for the frame; ctype is then 'AZLN-SIN' or the like */
    int is_equatorial;     /* 1: right ascension and declination; 0: galactic and others */
    char frame[16];        /* name in Measurement Sets: J2000, ICRS, B1950 .. */
} msi_sky_axes;

/*
 * msi_sky_wcs_create - make the SIN projection of an image on the sky.
 *
 * Given:    geometry; ra_rad, dec_rad  image centre, at pixel (nx/2, ny/2) 0-based
 *           frame   name of the direction frame in Measurement Sets (J2000, ICRS, B1950, APP, GALACTIC ..)
 *           mjd     date of the observation, for frames of date; 0 if unknown
 * Returned: *out    owned by the caller, freed by msi_sky_wcs_free
 * Returns:  0, MSI_ERANGE (wcslib refuses the values), MSI_ENOMEM
 */
int msi_sky_wcs_create(msi_sky_wcs **out, const msi_image_geometry *geometry, double ra_rad, double dec_rad,
                       const char *frame, double mjd);

/*
 * msi_sky_wcs_frame - find the frame of a FITS header, by its name in Measurement Sets.
 *
 * Given:    ctype_lng, ctype_lat  CTYPE of the two sky axes
 *           radesys, equinox      "" and 0 if absent: the FITS standard infers one from the other
 * Returned: frame  UNKNOWN if the axes are known, but not with this radesys and equinox
 * Returns:  1; 0 if the axes are not a SIN projection in a known frame
 */
int msi_sky_wcs_frame(const char *ctype_lng, const char *ctype_lat, const char *radesys, double equinox,
                      char frame[16]);

/* The cards of two sky axes, of any projection. */
typedef struct msi_sky_cards {
    char ctype[2][9];
    double crval_deg[2], cdelt_deg[2], crpix[2];
    double pc[2][2];
    double lonpole_deg, latpole_deg; /* NaN if absent */
    int n_pv;                        /* parameters of the projection */
    struct {
        int axis, m; /* the card PVaxis_m, axis 1 or 2 */
        double value;
    } pv[40];
    char radesys[16]; /* "" if absent */
    double equinox;   /* 0 if absent */
} msi_sky_cards;

/*
 * msi_sky_wcs_from_cards - make the coordinates of a header. Longitude is on the first axis.
 * Returned: *out  freed by msi_sky_wcs_free; NULL if wcslib refuses the cards
 * Returns:  0, MSI_ENOMEM
 */
int msi_sky_wcs_from_cards(msi_sky_wcs **out, const msi_sky_cards *cards);

/* msi_sky_wcs_axes - return the axes, borrowed. */
const msi_sky_axes *msi_sky_wcs_axes(const msi_sky_wcs *w);

/*
 * msi_sky_wcs_pixel_to_sky - find the sky position of a 0-based pixel position.
 * Returned: sky [2]  longitude in [0, 360) and latitude, degrees
 * Returns:  1; 0 beyond the horizon (sky is NaN)
 */
int msi_sky_wcs_pixel_to_sky(const msi_sky_wcs *w, const double pixel[2], double sky[2]);

/* msi_sky_wcs_sky_to_pixel - the inverse. Returns 0 if the direction is on the other half of the sky (pixel is NaN). */
int msi_sky_wcs_sky_to_pixel(const msi_sky_wcs *w, const double sky[2], double pixel[2]);

void msi_sky_wcs_free(msi_sky_wcs *w);

#endif
