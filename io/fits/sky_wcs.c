/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/sky_wcs.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <wcslib/wcs.h>

#include "core/status.h"

static const double DEG_PER_RAD = 180 / MSI_PI;

struct msi_sky_wcs {
    /* not const, because wcslib's functions take non-const pointers; it does not change after wcsset */
    struct wcsprm *prm;
    msi_sky_axes axes;
};

/* Frames: name in Measurement Sets, and CTYPE, RADESYS, EQUINOX in FITS. equinox -1 stands for the Julian year of the
 * observation. */
typedef struct frame_entry {
    const char *name, *lng, *lat, *radesys;
    double equinox;
} frame_entry;

static const frame_entry FRAMES[] = {
    {"J2000", "RA---SIN", "DEC--SIN", "FK5", 2000},    {"ICRS", "RA---SIN", "DEC--SIN", "ICRS", 0},
    {"B1950", "RA---SIN", "DEC--SIN", "FK4", 1950},    {"B1950_VLA", "RA---SIN", "DEC--SIN", "FK4", 1950},
    {"JMEAN", "RA---SIN", "DEC--SIN", "FK5", -1},      {"APP", "RA---SIN", "DEC--SIN", "GAPPT", 0},
    {"GALACTIC", "GLON-SIN", "GLAT-SIN", "", 0},       {"SUPERGAL", "SLON-SIN", "SLAT-SIN", "", 0},
    {"ECLIPTIC", "ELON-SIN", "ELAT-SIN", "FK5", 2000},
};
enum { N_FRAME = sizeof FRAMES / sizeof FRAMES[0] };

static void name_frame(msi_sky_axes *a, const char *frame, double mjd)
{
    for (int i = 0; i < N_FRAME; i++) {
        if (strcasecmp(frame, FRAMES[i].name) != 0) continue;
        strcpy(a->ctype[0], FRAMES[i].lng);
        strcpy(a->ctype[1], FRAMES[i].lat);
        strcpy(a->radesys, FRAMES[i].radesys);
        a->equinox = FRAMES[i].equinox >= 0 ? FRAMES[i].equinox : 2000 + (mjd - 51544.5) / 365.25;
        a->frame_is_standard = 1;
        strcpy(a->frame, FRAMES[i].name);
        break;
    }
    if (!a->frame_is_standard) {
        /* Use the generic names xyLN and xyLT of the FITS standard. With RA and DEC, readers would assume ICRS. */
        const char *name = frame[0] && frame[1] ? frame : "UNKNOWN";
        strcpy(a->ctype[0], "xxLN-SIN");
        strcpy(a->ctype[1], "xxLT-SIN");
        for (int k = 0; k < 2; k++)
            for (int c = 0; c < 2; c++) a->ctype[k][c] = (char)toupper((unsigned char)name[c]);
        memcpy(a->frame, name, strnlen(name, sizeof a->frame - 1));
    }
    a->is_equatorial = strncmp(a->ctype[0], "RA", 2) == 0;
}

int msi_sky_wcs_frame(const char *ctype_lng, const char *ctype_lat, const char *radesys, double equinox, char frame[16])
{
    if (!radesys[0]) radesys = equinox == 0 ? "ICRS" : equinox < 1984 ? "FK4" : "FK5";
    if (equinox == 0 && strcmp(radesys, "FK5") == 0) equinox = 2000;
    if (equinox == 0 && strcmp(radesys, "FK4") == 0) equinox = 1950;
    strcpy(frame, "UNKNOWN");
    int axes_known = 0;
    for (int i = 0; i < N_FRAME; i++) {
        const frame_entry *f = &FRAMES[i];
        if (strcmp(ctype_lng, f->lng) != 0 || strcmp(ctype_lat, f->lat) != 0) continue;
        axes_known = 1;
        if (f->radesys[0] && strcmp(f->radesys, radesys) != 0) continue;
        if (f->equinox > 0 && f->equinox != equinox) continue;
        strcpy(frame, f->name);
        break;
    }
    return axes_known;
}

static int allocate(msi_sky_wcs **out)
{
    msi_sky_wcs *w = calloc(1, sizeof *w);
    if (w) w->prm = calloc(1, sizeof *w->prm);
    if (!w || !w->prm) {
        free(w);
        return msi_error_set(MSI_ENOMEM, "out of memory for the sky coordinates of an image");
    }
    w->prm->flag = -1;
    *out = w;
    return MSI_OK;
}

int msi_sky_wcs_create(msi_sky_wcs **out, const msi_image_geometry *geometry, double ra_rad, double dec_rad,
                       const char *frame, double mjd)
{
    *out = NULL;
    msi_sky_wcs *w = NULL;
    /* wcslib does not check for NaN. */
    if (!isfinite(ra_rad + dec_rad) || !(geometry->cell_x_rad > 0) || !(geometry->cell_y_rad > 0) ||
        !isfinite(geometry->cell_x_rad + geometry->cell_y_rad))
        return msi_error_set(MSI_ERANGE, "image centre %g, %g rad, pixel %g x %g rad: invalid sky coordinates", ra_rad,
                             dec_rad, geometry->cell_x_rad, geometry->cell_y_rad);
    MSI_TRY(allocate(&w));
    msi_sky_axes *a = &w->axes;
    name_frame(a, frame, mjd);
    double longitude = fmod(ra_rad * DEG_PER_RAD, 360);
    a->crval_deg[0] = longitude < 0 ? longitude + 360 : longitude;
    a->crval_deg[1] = dec_rad * DEG_PER_RAD;
    a->cdelt_deg[0] = -geometry->cell_x_rad * DEG_PER_RAD;
    a->cdelt_deg[1] = geometry->cell_y_rad * DEG_PER_RAD;
    a->crpix[0] = (double)(geometry->nx / 2 + 1);
    a->crpix[1] = (double)(geometry->ny / 2 + 1);

    struct wcsprm *prm = w->prm;
    int status = wcsini(1, 2, prm);
    if (!status) {
        for (int i = 0; i < 2; i++) {
            strcpy(prm->ctype[i], a->ctype[i]);
            strcpy(prm->cunit[i], "deg");
            prm->crval[i] = a->crval_deg[i];
            prm->cdelt[i] = a->cdelt_deg[i];
            prm->crpix[i] = a->crpix[i];
        }
        /* Set LONPOLE, because its default is different at the pole. There m then points along RA0 + 180 degrees. */
        prm->lonpole = 180;
        status = wcsset(prm);
    }
    if (status) {
        int rc = msi_error_set(MSI_ERANGE, "image centre %.6f, %.6f deg, pixel %g x %g deg: wcslib: %s",
                               a->crval_deg[0], a->crval_deg[1], a->cdelt_deg[0], a->cdelt_deg[1], wcs_errmsg[status]);
        msi_sky_wcs_free(w);
        return rc;
    }
    a->lonpole_deg = prm->lonpole;
    a->latpole_deg = prm->latpole;
    *out = w;
    return MSI_OK;
}

static int fill_from_cards(struct wcsprm *prm, const msi_sky_cards *c)
{
    if (wcsini(1, 2, prm)) return 0;
    for (int i = 0; i < 2; i++) {
        strcpy(prm->ctype[i], c->ctype[i]);
        strcpy(prm->cunit[i], "deg");
        prm->crval[i] = c->crval_deg[i];
        prm->cdelt[i] = c->cdelt_deg[i];
        prm->crpix[i] = c->crpix[i];
        for (int k = 0; k < 2; k++) prm->pc[2 * i + k] = c->pc[i][k];
    }
    if (isfinite(c->lonpole_deg)) prm->lonpole = c->lonpole_deg;
    if (isfinite(c->latpole_deg)) prm->latpole = c->latpole_deg;
    for (int n = 0; n < c->n_pv && n < prm->npvmax; n++)
        prm->pv[prm->npv++] = (struct pvcard){c->pv[n].axis, c->pv[n].m, c->pv[n].value};
    return wcsset(prm) == 0 && prm->lng == 0 && prm->lat == 1;
}

int msi_sky_wcs_from_cards(msi_sky_wcs **out, const msi_sky_cards *cards)
{
    *out = NULL;
    msi_sky_wcs *w = NULL;
    MSI_TRY(allocate(&w));
    msi_sky_axes *a = &w->axes;
    if (!fill_from_cards(w->prm, cards)) {
        msi_sky_wcs_free(w);
        return MSI_OK;
    }
    const char *radesys = cards->radesys;
    if (!radesys[0]) radesys = cards->equinox == 0 ? "" : cards->equinox < 1984 ? "FK4" : "FK5";
    for (int i = 0; i < 2; i++) {
        memcpy(a->ctype[i], cards->ctype[i], sizeof a->ctype[i]);
        a->crval_deg[i] = cards->crval_deg[i];
        a->cdelt_deg[i] = cards->cdelt_deg[i];
        a->crpix[i] = cards->crpix[i];
    }
    a->equinox = cards->equinox;
    a->is_equatorial = strncmp(a->ctype[0], "RA", 2) == 0;
    snprintf(a->frame, sizeof a->frame, "%s",
             !strcmp(radesys, "FK5")   ? "J2000"
             : !strcmp(radesys, "FK4") ? "B1950"
                                       : radesys);
    *out = w;
    return MSI_OK;
}

const msi_sky_axes *msi_sky_wcs_axes(const msi_sky_wcs *w)
{
    return &w->axes;
}

int msi_sky_wcs_pixel_to_sky(const msi_sky_wcs *w, const double pixel[2], double sky[2])
{
    const double fits_pixel[2] = {pixel[0] + 1, pixel[1] + 1};
    double plane[2], phi, theta;
    int stat = 0;
    if (isfinite(pixel[0] + pixel[1]) && wcsp2s(w->prm, 1, 2, fits_pixel, plane, &phi, &theta, sky, &stat) == 0)
        return 1;
    sky[0] = sky[1] = NAN;
    return 0;
}

int msi_sky_wcs_sky_to_pixel(const msi_sky_wcs *w, const double sky[2], double pixel[2])
{
    double fits_pixel[2], plane[2], phi, theta;
    int stat = 0;
    if (isfinite(sky[0] + sky[1]) && wcss2p(w->prm, 1, 2, sky, &phi, &theta, plane, fits_pixel, &stat) == 0) {
        pixel[0] = fits_pixel[0] - 1;
        pixel[1] = fits_pixel[1] - 1;
        return 1;
    }
    pixel[0] = pixel[1] = NAN;
    return 0;
}

void msi_sky_wcs_free(msi_sky_wcs *w)
{
    if (!w) return;
    if (w->prm) wcsfree(w->prm);
    free(w->prm);
    free(w);
}
