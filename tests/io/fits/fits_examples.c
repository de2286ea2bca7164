/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Write one published set of images of every kind and frame, under awkward names, into a directory; print the positions
 * of their corners, for checks by other programs. Exits with msimage's code.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "core/status.h"
#include "io/fits/picture.h"
#include "io/fits/sky_wcs.h"

enum { NX = 24, NY = 17 };

static const struct example {
    const char *name;
    msi_fits_kind kind;
    msi_pol pol;
    const char *dir_frame, *spec_frame;
    double ra_deg, dec_deg;
} EXAMPLES[] = {
    {"plain-dirty.fits", MSI_FITS_DIRTY, MSI_POL_I, "J2000", "TOPO", 125, -42.75},
    {"plain-psf.fits", MSI_FITS_PSF, MSI_POL_I, "J2000", "TOPO", 125, -42.75},
    {"plain-model.fits", MSI_FITS_MODEL, MSI_POL_I, "J2000", "TOPO", 125, -42.75},
    {"plain-weights.fits", MSI_FITS_WEIGHTS, MSI_POL_I, "J2000", "TOPO", 125, -42.75},
    {"plain-uv-real.fits", MSI_FITS_UV_REAL, MSI_POL_I, "J2000", "TOPO", 125, -42.75},
    {"plain-uv-imag.fits", MSI_FITS_UV_IMAG, MSI_POL_I, "J2000", "TOPO", 125, -42.75},
    {"icrs[1:5]-dirty.fits", MSI_FITS_DIRTY, MSI_POL_Q, "ICRS", "LSRK", 0.0001, 12},
    {"!b1950.gz", MSI_FITS_DIRTY, MSI_POL_XX, "B1950", "BARY", 359.9999, 89.5},
    {"-app (x) %s%n.fits", MSI_FITS_DIRTY, MSI_POL_YX, "APP", "GEO", 200, 90},
    {"~galactic.fits", MSI_FITS_DIRTY, MSI_POL_LR, "GALACTIC", "LSRD", 266, -1},
    {"mem:azel.fits", MSI_FITS_DIRTY, MSI_POL_V, "AZEL", "", 10, -90},
};
enum { N_EXAMPLE = sizeof EXAMPLES / sizeof EXAMPLES[0] };

static const char PICTURE[] = "picture.png";

static int write_examples(msi_publish *p)
{
    msi_observation o;
    memset(&o, 0, sizeof o);
    strcpy(o.telescope, "MWA");
    strcpy(o.observer, "O'Neill");
    strcpy(o.object, "PupA");
    strcpy(o.time_scale, "UTC");
    o.ra_rad = 125 * MSI_PI / 180;
    o.dec_rad = -42.75 * MSI_PI / 180;
    o.start_mjd_s = 4875418128.9;
    o.rest_freq_hz = 1420405751.786;
    o.antenna_itrf_m[0] = -2559453.1;
    o.antenna_itrf_m[1] = 5095371.7;
    o.antenna_itrf_m[2] = -2849056.3;
    float pixel[NY * NX];
    for (int i = 0; i < NX * NY; i++) pixel[i] = (float)i / 8;
    pixel[3] = NAN;
    for (int i = 0; i < N_EXAMPLE; i++) {
        const struct example *e = &EXAMPLES[i];
        snprintf(o.dir_frame, sizeof o.dir_frame, "%s", e->dir_frame);
        snprintf(o.spec_frame, sizeof o.spec_frame, "%s", e->spec_frame);
        msi_fits_spec spec = {.kind = e->kind,
                              .geometry = {NX, NY, 75 * MSI_PI / 648000, 60 * MSI_PI / 648000},
                              .observation = &o,
                              .ra_rad = e->ra_deg * MSI_PI / 180,
                              .dec_rad = e->dec_deg * MSI_PI / 180,
                              .freq_hz = 149.115e6,
                              .bandwidth_hz = 30.72e6,
                              .pol = e->pol,
                              .beam = {1.5e-3, 1.25e-3, 0.5},
                              .n_vis = 49255,
                              .sum_weight = 4704821,
                              .sum_vis_weight = 4704821,
                              .weighting = "briggs 0",
                              .data_column = "DATA",
                              .command_line = "msimage -size 24 17 -weight briggs 0 -name plain mwa.ms"};
        if (i == 0) MSI_TRY(msi_picture_write(p, N_EXAMPLE, &spec, NULL, pixel, MSI_FP32));
        MSI_TRY(msi_fits_write(p, i, &spec, pixel, MSI_FP32));
        if (e->kind > MSI_FITS_MODEL) continue;
        msi_sky_wcs *wcs;
        MSI_TRY(
            msi_sky_wcs_create(&wcs, &spec.geometry, spec.ra_rad, spec.dec_rad, e->dir_frame, o.start_mjd_s / 86400));
        for (int corner = 0; corner < 4; corner++) {
            double at[2] = {corner % 2 ? NX - 1 : 0, corner / 2 ? NY - 1 : 0}, sky[2];
            msi_sky_wcs_pixel_to_sky(wcs, at, sky);
            printf("%s\t%g\t%g\t%.17g\t%.17g\n", e->name, at[0], at[1], sky[0], sky[1]);
        }
        msi_sky_wcs_free(wcs);
    }
    return MSI_OK;
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    msi_interrupt_install();
    char path[N_EXAMPLE + 1][512];
    const char *name[N_EXAMPLE + 1];
    for (int i = 0; i <= N_EXAMPLE; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", argv[1], i < N_EXAMPLE ? EXAMPLES[i].name : PICTURE);
        name[i] = path[i];
    }
    msi_publish *p = NULL;
    int rc = msi_publish_plan(&p, name, N_EXAMPLE + 1, 0);
    if (!rc) rc = write_examples(p);
    if (!rc) rc = msi_publish_commit(p);
    msi_publish_free(p);
    if (rc) fprintf(stderr, "%s\n", msi_error_get());
    return msi_exit_code(rc);
}
