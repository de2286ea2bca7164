/* SPDX-License-Identifier: GPL-3.0-or-later */
/* FITS images: every card is as specified, images are read back as written, bad files are refused with their path. */
#include <errno.h>
#include <fcntl.h>
#include <fitsio.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/image.h"
#include "core/status.h"
#include "io/fits/fits_image.h"
#include "io/fits/sky_wcs.h"
#include "tests/support/temp_folder.h"

enum { NX = 30, NY = 21, CARD = 80, BLOCK = 2880 };

static msi_observation observation;
static float pixels[NY][NX];

static int make_folder(void **state)
{
    for (int y = 0; y < NY; y++)
        for (int x = 0; x < NX; x++) pixels[y][x] = (float)(y * NX + x) / 3;
    pixels[4][2] = NAN;
    return temp_folder_enter(state);
}

static msi_fits_spec plain_spec(void)
{
    memset(&observation, 0, sizeof observation);
    strcpy(observation.telescope, "MWA");
    strcpy(observation.observer, "O'Neill");
    strcpy(observation.object, "PupA_117");
    strcpy(observation.dir_frame, "J2000");
    strcpy(observation.time_scale, "UTC");
    strcpy(observation.spec_frame, "TOPO");
    observation.ra_rad = 125 * MSI_PI / 180;
    observation.dec_rad = -42.75 * MSI_PI / 180;
    observation.start_mjd_s = 4875418128.9;
    observation.rest_freq_hz = 1420405751.786;
    observation.antenna_itrf_m[0] = -2559453.25;
    observation.antenna_itrf_m[1] = 5095371.5;
    observation.antenna_itrf_m[2] = -2849056;
    return (msi_fits_spec){.kind = MSI_FITS_DIRTY,
                           .geometry = {NX, NY, 75 * MSI_PI / 648000, 60 * MSI_PI / 648000},
                           .observation = &observation,
                           .ra_rad = 125.5 * MSI_PI / 180,
                           .dec_rad = -42 * MSI_PI / 180,
                           .freq_hz = 149115000,
                           .bandwidth_hz = 30720000,
                           .pol = MSI_POL_I,
                           .beam = {1.5 * MSI_PI / 180, 0.5 * MSI_PI / 180, 30 * MSI_PI / 180},
                           .n_vis = 49255,
                           .sum_weight = 34265.4825338582,
                           .largest_weight = 0.25,
                           .sum_vis_weight = 4704821,
                           .weighting = "uniform",
                           .data_column = "CORRECTED_DATA",
                           .has_field = 1,
                           .field_id = 4,
                           .channel_begin = 3,
                           .channel_end = 9,
                           .interval_end = 2,
                           .command_line = "msimage -size 30 21 mwa.ms"};
}

static int put(const char *name, const msi_fits_spec *spec, const void *pixel, msi_precision precision)
{
    msi_publish *p;
    int rc = msi_publish_plan(&p, &name, 1, 1);
    if (!rc) rc = msi_fits_write(p, 0, spec, pixel, precision);
    if (!rc) rc = msi_publish_commit(p);
    msi_publish_free(p);
    return rc;
}

/* Read the cards of the header as strings. Returns the number of cards before END. */
static int get_cards(const char *name, char card[][CARD + 1], int capacity)
{
    FILE *f = fopen(name, "rb");
    assert_non_null(f);
    int n = 0;
    while (n < capacity && fread(card[n], 1, CARD, f) == CARD) {
        card[n][CARD] = 0;
        if (strncmp(card[n], "END     ", 8) == 0) break;
        n++;
    }
    fclose(f);
    return n;
}

static void assert_card(char card[][CARD + 1], int n, const char *wanted)
{
    for (int i = 0; i < n; i++)
        if (strncmp(card[i], wanted, 9) == 0) {
            if (strncmp(card[i], wanted, strlen(wanted)) != 0) fail_msg("got    '%s'\nwanted '%s'", card[i], wanted);
            return;
        }
    fail_msg("no card '%s'", wanted);
}

static void assert_no_card(char card[][CARD + 1], int n, const char *key)
{
    for (int i = 0; i < n; i++)
        if (strncmp(card[i], key, strlen(key)) == 0) fail_msg("unwanted card '%s'", card[i]);
}

static const char *const wanted_cards[] = {
    "SIMPLE  =                    T",
    "BITPIX  =                  -32",
    "NAXIS   =                    4",
    "NAXIS1  =                   30",
    "NAXIS2  =                   21",
    "NAXIS3  =                    1",
    "NAXIS4  =                    1",
    "BSCALE  =                  1.0",
    "BZERO   =                  0.0",
    "BUNIT   = 'Jy/beam '",
    "BTYPE   = 'Intensity'",
    "OBJECT  = 'PupA_117'",
    "TELESCOP= 'MWA     '",
    "OBSERVER= 'O''Neill'",
    "ORIGIN  = 'msimage ",
    "BMAJ    =                  1.5",
    "BMIN    =                  0.5",
    "BPA     =                 30.0 ",
    "CTYPE1  = 'RA---SIN'",
    "CRPIX1  =                 16.0",
    "CRVAL1  =                125.5",
    "CDELT1  =  -0.0208333333333333",
    "CUNIT1  = 'deg     '",
    "CTYPE2  = 'DEC--SIN'",
    "CRPIX2  =                 11.0",
    "CRVAL2  =                -42.0",
    "CDELT2  =   0.0166666666666667",
    "CUNIT2  = 'deg     '",
    "CTYPE3  = 'FREQ    '",
    "CRPIX3  =                  1.0",
    "CRVAL3  =          149115000.0",
    "CDELT3  =           30720000.0",
    "CUNIT3  = 'Hz      '",
    "CTYPE4  = 'STOKES  '",
    "CRVAL4  =                  1.0",
    "CDELT4  =                  1.0",
    "PV2_1   =                  0.0",
    "PV2_2   =                  0.0",
    "LONPOLE =                180.0",
    "LATPOLE =                -42.0",
    "RADESYS = 'FK5     '",
    "EQUINOX =               2000.0",
    "SPECSYS = 'TOPOCENT'",
    "RESTFRQ =       1420405751.786",
    "VELREF  =                  259",
    "TIMESYS = 'UTC     '",
    "DATE-OBS= '2013-05-16T10:48:48.9000'",
    "MJD-OBS =     56428.4505659722",
    "OBSRA   =                125.0",
    "OBSDEC  =               -42.75",
    "OBSGEO-X=          -2559453.25",
    "OBSGEO-Y=            5095371.5",
    "OBSGEO-Z=           -2849056.0",
    "DATE    = '20",
    "WSCDATAC= 'CORRECTED_DATA'",
    "WSCWEIGH= 'uniform '",
    "WSCFIELD=                  4.0",
    "WSCCHANS=                  3.0",
    "WSCCHANE=                  9.0",
    "WSCTIMES=                  0.0",
    "WSCTIMEE=                  2.0",
    "WSCNVIS =              49255.0",
    "WSCENVIS=     137061.930135433",
    "WSCIMGWG=     34265.4825338582",
    "WSCNORMF=     34265.4825338582",
    "WSCVWSUM=            4704821.0",
    "HISTORY msimage -size 30 21 mwa.ms",
};

static void every_card_is_there(void **state)
{
    (void)state;
    msi_fits_spec spec = plain_spec();
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
    char card[200][CARD + 1];
    int n = get_cards("a.fits", card, 200);
    for (size_t i = 0; i < sizeof wanted_cards / sizeof wanted_cards[0]; i++) assert_card(card, n, wanted_cards[i]);
    struct stat st;
    assert_int_equal(stat("a.fits", &st), 0);
    /* 71 cards and END fill two header blocks; 2520 bytes of pixels take one. */
    assert_int_equal(st.st_size, 3 * BLOCK);
}

static void frequencies_and_longitudes_are_as_casa_has_them(void **state)
{
    (void)state;
    char card[200][CARD + 1];
    msi_fits_spec spec = plain_spec();
    observation.rest_freq_hz = 0;
    observation.ra_rad = -90 * MSI_PI / 180;
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
    int n = get_cards("a.fits", card, 200);
    assert_card(card, n, "RESTFRQ =          149115000.0");
    assert_card(card, n, "OBSRA   =                270.0");
    strcpy(observation.spec_frame, "CMB");
    observation.ra_rad = -1e-18;
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
    n = get_cards("a.fits", card, 200);
    assert_card(card, n, "OBSRA   =                  0.0");
    assert_card(card, n, "SPECSYS = 'CMBDIPOL'");
    assert_no_card(card, n, "VELREF");
}

static void uv_axes_have_no_unit(void **state)
{
    (void)state;
    static const msi_fits_kind kind[] = {MSI_FITS_WEIGHTS, MSI_FITS_UV_REAL, MSI_FITS_UV_IMAG};
    char card[200][CARD + 1];
    for (int i = 0; i < 3; i++) {
        msi_fits_spec spec = plain_spec();
        spec.kind = kind[i];
        assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
        const int n = get_cards("a.fits", card, 200);
        assert_card(card, n, "CTYPE1  = 'U---WAV '           / In wavelengths");
        assert_no_card(card, n, "CUNIT1");
        assert_no_card(card, n, "CUNIT2");
    }
}

static void unknowns_have_no_card(void **state)
{
    (void)state;
    msi_observation empty;
    memset(&empty, 0, sizeof empty);
    strcpy(empty.dir_frame, "ICRS");
    msi_fits_spec spec = {.kind = MSI_FITS_MODEL,
                          .geometry = {NX, NY, 1e-6, 1e-6},
                          .observation = &empty,
                          .pol = MSI_POL_V,
                          .sum_weight = NAN,
                          .beam = {1e-5, 1e-5, 0}};
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
    char card[200][CARD + 1];
    int n = get_cards("a.fits", card, 200);
    static const char *const unwanted[] = {"OBJECT",   "TELESCOP", "OBSERVER", "BMAJ",     "SPECSYS",
                                           "RESTFRQ",  "VELREF",   "DATE-OBS", "MJD-OBS",  "TIMESYS",
                                           "OBSGEO",   "HISTORY",  "EQUINOX",  "WSCDATAC", "WSCIMGWG",
                                           "WSCFIELD", "WSCENVIS", "WSCCHANS", "WSCTIMES"};
    for (size_t i = 0; i < sizeof unwanted / sizeof unwanted[0]; i++) assert_no_card(card, n, unwanted[i]);
    assert_card(card, n, "RADESYS = 'ICRS    '");
    assert_card(card, n, "BUNIT   = 'Jy/pixel'");
    assert_card(card, n, "CRVAL4  =                  4.0");
    assert_card(card, n, "WSCNVIS =                  0.0");
}

static void stokes_numbers(void **state)
{
    (void)state;
    static const int wanted[] = {0, 1, 2, 3, 4, -1, -3, -4, -2, -5, -7, -8, -6};
    for (int pol = MSI_POL_I; pol <= MSI_POL_YY; pol++) assert_int_equal(msi_fits_stokes((msi_pol)pol), wanted[pol]);
    assert_string_equal(msi_pol_name(MSI_POL_LR), "LR");
}

static void dates_carry_over(void **state)
{
    (void)state;
    static const struct {
        double mjd_s;
        const char *date;
    } cases[] = {{51544 * 86400.0 - 0.00004, "DATE-OBS= '2000-01-01T00:00:00.0000'"},
                 {51544 * 86400.0 - 0.00021, "DATE-OBS= '1999-12-31T23:59:59.9998'"},
                 {51603 * 86400.0 + 86399.5, "DATE-OBS= '2000-02-29T23:59:59.5000'"},
                 {40000 * 86400.0 + 0.25, "DATE-OBS= '1968-05-24T00:00:00.2500'"}};
    msi_fits_spec spec = plain_spec();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        observation.start_mjd_s = cases[i].mjd_s;
        assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
        char card[200][CARD + 1];
        assert_card(card, get_cards("a.fits", card, 200), cases[i].date);
    }
}

/* The HISTORY cards joined are the command line, for any length and any blanks. */
static void history_holds_the_whole_command_line(void **state)
{
    (void)state;
    char line[5000] = "msimage", joined[5000] = "";
    for (int i = 0; strlen(line) < 4000; i++) {
        size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, "%*s'arg %d'", 1 + i % 5, "", i * i);
    }
    msi_fits_spec spec = plain_spec();
    spec.command_line = line;
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
    char card[200][CARD + 1];
    int n = get_cards("a.fits", card, 200);
    for (int i = 0; i < n; i++) {
        if (strncmp(card[i], "HISTORY ", 8) != 0) continue;
        size_t length = CARD;
        while (card[i][length - 1] == ' ') length--;
        strncat(joined, card[i] + 8, length - 8);
    }
    assert_string_equal(joined, line);
    spec.command_line = "a\nb\xc3\xa9\x7f";
    strcpy(observation.object, "Caf\xc3\xa9");
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
    n = get_cards("a.fits", card, 200);
    assert_card(card, n, "HISTORY a\\x0Ab\\xC3\\xA9\\x7F ");
    assert_card(card, n, "OBJECT  = 'Caf\\xC3\\xA9'");
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const char *const name[] = {"plain",     "[1:5]", "!a", "-b",  "c.gz",
                                       "%s%n d(x)", "mem:e", "~f", "g+1", "h.fits[pix]"};
    msi_fits_spec spec = plain_spec();
    spec.pol = MSI_POL_RL;
    for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
        msi_fits_image image;
        assert_int_equal(put(name[i], &spec, pixels, MSI_FP32), MSI_OK);
        int rc = msi_fits_read(&image, name[i], i % 2 ? MSI_FP64 : MSI_FP32);
        if (rc) fail_msg("%s", msi_error_get());
        assert_int_equal(image.geometry.nx, NX);
        assert_int_equal(image.geometry.ny, NY);
        /* Cards have 14 or 15 digits. */
        assert_true(fabs(image.geometry.cell_x_rad / spec.geometry.cell_x_rad - 1) < 1e-13);
        assert_true(fabs(image.geometry.cell_y_rad / spec.geometry.cell_y_rad - 1) < 1e-13);
        assert_true(fabs(image.ra_rad / spec.ra_rad - 1) < 1e-14 && fabs(image.dec_rad / spec.dec_rad - 1) < 1e-14);
        assert_true(image.freq_hz == spec.freq_hz && image.bandwidth_hz == spec.bandwidth_hz);
        assert_int_equal(image.pol, MSI_POL_RL);
        assert_string_equal(image.dir_frame, "J2000");
        assert_string_equal(image.unit, "Jy/beam");
        assert_true(fabs(image.beam.pa_rad - spec.beam.pa_rad) < 1e-13);
        assert_int_equal(image.n_nan, 1);
        assert_int_equal(image.n_inf, 0);
        for (int k = 0; k < NX * NY; k++) {
            double v = image.precision == MSI_FP32 ? ((float *)image.pixel)[k] : ((double *)image.pixel)[k];
            double wanted = pixels[k / NX][k % NX];
            assert_true(v == wanted || (isnan(v) && isnan(wanted)));
        }
        msi_fits_image_free(&image);
        assert_null(image.pixel);
    }
}

static void planes_are_counted(void **state)
{
    (void)state;
    const msi_fits_spec spec = plain_spec();
    msi_fits_view view;
    assert_int_equal(put("one.fits", &spec, pixels, MSI_FP32), MSI_OK);
    assert_int_equal(msi_fits_view_read(&view, "one.fits", 0), MSI_OK);
    assert_int_equal(view.n_plane, 1);
    assert_true(view.pixel[NX * 3 + 7] == pixels[3][7] && isnan(view.pixel[NX * 4 + 2]));
    msi_fits_view_free(&view);
    /* The argument is wrong, the file is good. */
    assert_int_equal(msi_fits_view_read(&view, "one.fits", 1), MSI_EARGUMENT);
    assert_string_equal(msi_error_get(), "one.fits: has no plane 1; it has 1, counted from 0");
    assert_null(view.pixel);
}

static void doubles_become_floats(void **state)
{
    (void)state;
    double fine[NY][NX];
    for (int k = 0; k < NX * NY; k++) fine[k / NX][k % NX] = k / 7.0;
    fine[3][3] = NAN;
    fine[3][4] = INFINITY;
    msi_fits_spec spec = plain_spec();
    assert_int_equal(put("a", &spec, fine, MSI_FP64), MSI_OK);
    msi_fits_image image;
    assert_int_equal(msi_fits_read(&image, "a", MSI_FP32), MSI_OK);
    assert_int_equal(image.n_nan, 1);
    assert_int_equal(image.n_inf, 1);
    for (int k = 0; k < NX * NY; k++)
        if (isfinite(fine[k / NX][k % NX])) assert_true(((float *)image.pixel)[k] == (float)fine[k / NX][k % NX]);
    msi_fits_image_free(&image);
}

/* Compare the closed form of the projection, which the program uses, with wcslib, also at the poles. */
static void sky_positions_are_those_of_the_gridder(void **state)
{
    (void)state;
    static const double centre_deg[][2] = {{125, -42.75}, {0, 0}, {359.99, 60}, {30, 90}, {200, -90}, {-10, 89.9}};
    msi_image_geometry g = {200, 151, 3e-3, 2e-3};
    for (size_t i = 0; i < sizeof centre_deg / sizeof centre_deg[0]; i++) {
        double ra0 = centre_deg[i][0] * MSI_PI / 180, dec0 = centre_deg[i][1] * MSI_PI / 180;
        msi_sky_wcs *wcs;
        assert_int_equal(msi_sky_wcs_create(&wcs, &g, ra0, dec0, "J2000", 0), MSI_OK);
        for (int y = 0; y < g.ny; y += 15) {
            for (int x = 0; x < g.nx; x += 11) {
                double sky[2], back[2];
                assert_int_equal(msi_sky_wcs_pixel_to_sky(wcs, (double[]){x, y}, sky), 1);
                double ra = sky[0] * MSI_PI / 180, dec = sky[1] * MSI_PI / 180;
                double l = cos(dec) * sin(ra - ra0), m = sin(dec) * cos(dec0) - cos(dec) * sin(dec0) * cos(ra - ra0);
                /* Degrees of up to 360 in doubles, through asin and atan2: some 1e-15 each. */
                assert_true(fabs(l - (double)(g.nx / 2 - x) * g.cell_x_rad) < 2e-14);
                assert_true(fabs(m - (double)(y - g.ny / 2) * g.cell_y_rad) < 2e-14);
                assert_int_equal(msi_sky_wcs_sky_to_pixel(wcs, sky, back), 1);
                assert_true(fabs(back[0] - x) < 1e-9 && fabs(back[1] - y) < 1e-9);
            }
        }
        double beyond[2];
        assert_int_equal(msi_sky_wcs_pixel_to_sky(wcs, (double[]){1000, 75}, beyond), 0);
        assert_true(isnan(beyond[0]));
        double antipode[2] = {centre_deg[i][0] + 180, -centre_deg[i][1]};
        assert_int_equal(msi_sky_wcs_sky_to_pixel(wcs, antipode, beyond), 0);
        msi_sky_wcs_free(wcs);
    }
    msi_sky_wcs *none;
    g.cell_x_rad = NAN;
    assert_int_equal(msi_sky_wcs_create(&none, &g, 1, 1, "J2000", 0), MSI_ERANGE);
    assert_null(none);
    msi_sky_wcs_free(NULL);
}

/* Change the card `key` in a file to `card`. */
static void patch(const char *name, const char *key, const char *text)
{
    char all[20 * BLOCK], padded[CARD + 1];
    int fd = open(name, O_RDWR);
    ssize_t n = read(fd, all, sizeof all);
    snprintf(padded, sizeof padded, "%-80s", text);
    for (ssize_t at = 0; at + CARD <= n; at += CARD) {
        if (strncmp(all + at, key, 8) != 0) continue;
        assert_int_equal(pwrite(fd, padded, CARD, at), CARD);
        close(fd);
        return;
    }
    fail_msg("no card %s to change", key);
}

static void assert_refused(const char *name, const char *why)
{
    msi_fits_image image;
    int rc = msi_fits_read(&image, name, MSI_FP32);
    if (rc != MSI_EINPUT || strncmp(msi_error_get(), name, strlen(name)) != 0 || !strstr(msi_error_get(), why))
        fail_msg("%s (%s): %d, %s", name, why, rc, rc ? msi_error_get() : "");
    assert_null(image.pixel);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *card, *why;
    } patches[] = {
        {"NAXIS1  ", "NAXIS1  =            100000000", "truncated or corrupt"},
        {"NAXIS1  ", "NAXIS1  =  9000000000000000000", ""},
        {"NAXIS1  ", "NAXIS1  =                  -30", ""},
        {"NAXIS1  ", "NAXIS1  =                    0", ""},
        {"NAXIS3  ", "NAXIS3  =                    2", "NAXIS3 is 2"},
        {"BITPIX  ", "BITPIX  =                   16", "BITPIX is 16"},
        {"BITPIX  ", "BITPIX  =                   17", ""},
        {"NAXIS   ", "NAXIS   =                  999", ""},
        {"NAXIS   ", "NAXIS   =                    1", ""},
        {"SIMPLE  ", "SIMPLEX =                    T", "not a FITS file"},
        {"CTYPE1  ", "CTYPE1  = 'RA---TAN'", ""},
        {"CTYPE1  ", "CTYPE1  = 'LINEAR  '", ""},
        {"CRPIX1  ", "CRPIX1  =                 17.0", "CRPIX1"},
        {"CDELT1  ", "CDELT1  =                 0.01", "CDELT1"},
        {"CDELT1  ", "CDELT1  =                  0.0", ""},
        {"PV2_1   ", "PV2_1   =                  0.1", "PV2_1"},
        {"LONPOLE ", "LONPOLE =                 90.0", "LONPOLE"},
        {"BUNIT   ", "PC1_2   =                  0.5", "PC1_2"},
        {"CRVAL4  ", "CRVAL4  =                  9.0", "not a polarisation"},
        {"CRVAL4  ", "CRVAL4  =                1E300", "not a polarisation"},
        {"CRVAL1  ", "CRVAL1  = 'west    '", "CRVAL1 is not a number"},
        {"CRVAL2  ", "CRVAL2  =                 91.0", "beyond the pole"},
        {"CRVAL3  ", "CRVAL3  =                  -1.", "frequency"},
        {"CUNIT1  ", "CUNIT1  = 'furlong '", "furlong"},
    };
    msi_fits_spec spec = plain_spec();
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
        patch("a.fits", patches[i].key, patches[i].card);
        assert_refused("a.fits", patches[i].why);
    }
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_OK);
    assert_int_equal(truncate("a.fits", 2 * BLOCK + 100), 0);
    assert_refused("a.fits", "truncated or corrupt");
    assert_int_equal(truncate("a.fits", BLOCK + 100), 0);
    assert_refused("a.fits", "");
    assert_int_equal(truncate("a.fits", 0), 0);
    assert_refused("a.fits", "not a FITS file");
    assert_refused("missing.fits", strerror(ENOENT));
    assert_refused("/dev/null", "not a regular file");
    mkdir("folder", 0777);
    assert_refused("folder", "not a regular file");
    assert_int_equal(system("head -c 100000 /dev/urandom > noise"), 0);
    assert_refused("noise", "not a FITS file");
    spec.kind = MSI_FITS_UV_REAL;
    assert_int_equal(put("uv.fits", &spec, pixels, MSI_FP32), MSI_OK);
    assert_refused("uv.fits", "U---WAV");
}

static void other_programs_files(void **state)
{
    (void)state;
    static const char *const card[] = {"CTYPE1  = 'RA---SIN'", "CRPIX1  = 3",        "CRVAL1  = 10.",
                                       "CDELT1  = -1.",        "CUNIT1  = 'arcsec'", "CTYPE2  = 'DEC--SIN'",
                                       "CRPIX2  = 2",          "CRVAL2  = 20.",      "CDELT2  = 1.",
                                       "CUNIT2  = 'arcsec'",   "EQUINOX = 1950."};
    fitsfile *f;
    int status = 0;
    double pixel[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    fits_create_diskfile(&f, "ext.fits", &status);
    fits_create_img(f, BYTE_IMG, 0, NULL, &status);
    fits_create_img(f, DOUBLE_IMG, 2, (long[]){4, 3}, &status);
    for (size_t i = 0; i < sizeof card / sizeof card[0]; i++) fits_write_record(f, card[i], &status);
    fits_write_img(f, TDOUBLE, 1, 12, pixel, &status);
    fits_write_record(f, "BSCALE  = 2.", &status);
    fits_write_record(f, "BZERO   = 100.", &status);
    fits_close_file(f, &status);
    assert_int_equal(status, 0);
    msi_fits_image image;
    int rc = msi_fits_read(&image, "ext.fits", MSI_FP64);
    if (rc) fail_msg("%s", msi_error_get());
    assert_true(((double *)image.pixel)[11] == 122);
    assert_true(fabs(image.geometry.cell_x_rad / (MSI_PI / 648000) - 1) < 1e-12);
    assert_true(fabs(image.ra_rad / (10 * MSI_PI / 648000) - 1) < 1e-12);
    assert_string_equal(image.dir_frame, "B1950");
    assert_true(image.freq_hz == 0);
    assert_int_equal(image.pol, MSI_POL_I);
    msi_fits_image_free(&image);

    fits_create_diskfile(&f, "packed.fits", &status);
    fits_set_compression_type(f, RICE_1, &status);
    fits_create_img(f, FLOAT_IMG, 2, (long[]){4, 3}, &status);
    fits_write_img(f, TDOUBLE, 1, 12, pixel, &status);
    fits_close_file(f, &status);
    assert_int_equal(status, 0);
    assert_refused("packed.fits", "compressed");

    fits_create_diskfile(&f, "table.fits", &status);
    fits_create_tbl(f, BINARY_TBL, 0, 1, (char *[]){(char[]){"A"}}, (char *[]){(char[]){"1D"}}, NULL, "T", &status);
    fits_close_file(f, &status);
    assert_int_equal(status, 0);
    assert_refused("table.fits", "no image");
}

static int n_left(void)
{
    FILE *f = popen("ls -A | wc -l", "r");
    int n = -1;
    if (fscanf(f, "%d", &n) != 1) n = -1;
    pclose(f);
    return n;
}

/* A size limit at any byte of the file gives an output error with name and reason, and leaves no file. */
static void file_size_limit_is_an_output_error(void **state)
{
    (void)state;
    static float big[300][300];
    for (rlim_t limit = 0; limit < 300 * 300 * 4 + 2 * BLOCK; limit += 40001) {
        pid_t child = fork();
        if (child == 0) {
            msi_fits_spec spec = plain_spec();
            spec.geometry.nx = spec.geometry.ny = 300;
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){limit, limit});
            int rc = put("a.fits", &spec, big, MSI_FP32);
            int named = strncmp(msi_error_get(), "a.fits: ", 8) == 0 && strstr(msi_error_get(), strerror(EFBIG));
            _exit(rc == MSI_EOUTPUT && named ? 0 : 1);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(n_left(), 0);
    }
}

/* Making a header needs no memory for the pixels. A limit on the file size stops the writing of pixels. */
static void header_of_a_large_image_is_small(void **state)
{
    (void)state;
    const int64_t edge = 16384, image_kb = edge * edge * 4 / 1024;
    /* Several threads may read any pixel. The mapped zeros take no memory. */
    void *zeros = mmap(NULL, (size_t)image_kb * 1024, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(zeros != MAP_FAILED);
    const pid_t child = fork();
    if (child == 0) {
        msi_fits_spec spec = plain_spec();
        spec.geometry.nx = spec.geometry.ny = edge;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){3 * BLOCK, 3 * BLOCK});
        _exit(put("a.fits", &spec, zeros, MSI_FP32) == MSI_EOUTPUT ? 0 : 1);
    }
    int status;
    struct rusage used;
    assert_int_equal(wait4(child, &status, 0, &used), child);
    munmap(zeros, (size_t)image_kb * 1024);
    assert_int_equal(status, 0);
    assert_true(used.ru_maxrss < image_kb / 2);
}

static void impossible_coordinates_are_refused(void **state)
{
    (void)state;
    msi_fits_spec spec = plain_spec();
    spec.dec_rad = NAN;
    assert_int_equal(put("a.fits", &spec, pixels, MSI_FP32), MSI_ERANGE);
    assert_int_equal(n_left(), 0);
}

/* Write 2.4 GB of pixels. With a 32-bit offset the last pixels would be written to another place. */
static void beyond_2_gib(void **state)
{
    (void)state;
    const int64_t nx = 30000, ny = 20000, n = nx * ny;
    float *pixel =
        mmap(NULL, (size_t)n * 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pixel == MAP_FAILED) skip();
    pixel[n - 1] = 42;
    msi_fits_spec spec = plain_spec();
    spec.geometry.nx = nx;
    spec.geometry.ny = ny;
    assert_int_equal(put("a.fits", &spec, pixel, MSI_FP32), MSI_OK);
    munmap(pixel, (size_t)n * 4);
    struct stat st;
    assert_int_equal(stat("a.fits", &st), 0);
    assert_int_equal(st.st_size, 2 * BLOCK + (n * 4 + BLOCK - 1) / BLOCK * BLOCK);
    unsigned char last[4];
    int fd = open("a.fits", O_RDONLY);
    assert_int_equal(pread(fd, last, 4, 2 * BLOCK + (n - 1) * 4), 4);
    close(fd);
    assert_memory_equal(last, "\x42\x28\x00\x00", 4);
}

int main(int argc, char **argv)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, make_folder, temp_folder_leave)
    if (argc == 2 && strcmp(argv[1], "--large") == 0) {
        const struct CMUnitTest large[] = {TEST(beyond_2_gib)};
        return cmocka_run_group_tests(large, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        TEST(every_card_is_there),
        TEST(frequencies_and_longitudes_are_as_casa_has_them),
        TEST(uv_axes_have_no_unit),
        TEST(unknowns_have_no_card),
        TEST(stokes_numbers),
        TEST(dates_carry_over),
        TEST(history_holds_the_whole_command_line),
        TEST(what_is_written_is_read),
        TEST(planes_are_counted),
        TEST(doubles_become_floats),
        TEST(sky_positions_are_those_of_the_gridder),
        TEST(bad_files_are_refused),
        TEST(other_programs_files),
        TEST(file_size_limit_is_an_output_error),
        TEST(header_of_a_large_image_is_small),
        TEST(impossible_coordinates_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
