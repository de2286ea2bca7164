/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writes FITS images. A file is written in three steps:
 *   1. cfitsio makes the header in memory, for a file that never exists on disk.
 *   2. The header is written, padded with blanks to whole blocks.
 *   3. The pixels are written, by several threads if there are many, and padded with zeros.
 * msi_fits_write makes the header from a msi_fits_spec. msi_fits_write_like copies the header of another image.
 */
#include "io/fits/fits_image.h"

#include <endian.h>
#include <fitsio.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/types.h"
#include "io/fits/fits_cards.h"

/* ---- Kinds of images ---- */

#define BEAM  "Jy/beam"
#define PIXEL "Jy/pixel"

/* The table row for element n of a primary beam's matrix. */
#define BEAM_ELEMENT(n)                                                                                                \
    [MSI_FITS_BEAM_0 + (n)] = {"beam-" #n, MSI_CONTENT_OTHER, NULL, "Primary Beam", NULL, NULL, 0, 1}

/* name, content, BUNIT, BTYPE, title, scale, is_of_term, is_of_channel */
static const msi_fits_kind_row rows[] = {
    [MSI_FITS_DIRTY] = {"dirty", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "dirty image", NULL, 1, 0},
    [MSI_FITS_PSF] = {"psf", MSI_CONTENT_PSF, BEAM, "Beam", "point spread function", NULL, 1, 1},
    [MSI_FITS_MODEL] = {"model", MSI_CONTENT_MODEL, PIXEL, "Intensity", "model convolved with half the beam", NULL, 1,
                        0},
    [MSI_FITS_RESIDUAL] = {"residual", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "residual", NULL, 1, 0},
    [MSI_FITS_FIRST_RESIDUAL] = {"first-residual", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity",
                                 "residual of the first cycle", NULL, 1, 0},
    [MSI_FITS_IMAGE] = {"image", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "restored image", NULL, 1, 0},
    [MSI_FITS_MASK] = {"mask", MSI_CONTENT_OTHER, NULL, "Mask", "mask", "mask", 0, 0},
    [MSI_FITS_INDEX] = {"spectral-index", MSI_CONTENT_INDEX, NULL, "Spectral Index", "spectral index", "index", 0, 0},
    [MSI_FITS_ALPHA] = {"alpha", MSI_CONTENT_INDEX, NULL, "Spectral Index", "spectral index", "index", 0, 0},
    [MSI_FITS_ALPHA_ERROR] = {"alpha-error", MSI_CONTENT_INDEX, NULL, "Uncertainty",
                              "standard deviation of the spectral index", "index", 0, 0},
    [MSI_FITS_BETA] = {"beta", MSI_CONTENT_INDEX, NULL, "Spectral Curvature", "spectral curvature", "curvature", 0, 0},
    [MSI_FITS_IMAGE_PB] = {"image-pb", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "corrected for the primary beam",
                           NULL, 1, 0},
    [MSI_FITS_MODEL_PB] = {"model-pb", MSI_CONTENT_MODEL, PIXEL, "Intensity", "model corrected for the primary beam",
                           NULL, 1, 0},
    [MSI_FITS_PSF_PB] = {"psf-pb", MSI_CONTENT_PSF, BEAM, "Beam", "point spread function over the primary beam", NULL,
                         0, 1},
    [MSI_FITS_PBCOR] = {"pbcor", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "corrected for the primary beam", NULL, 1,
                        0},
    [MSI_FITS_PB] = {"pb", MSI_CONTENT_OTHER, NULL, "Primary Beam", "primary beam", "response", 1, 0},
    [MSI_FITS_BEAM_0] = {"beam-0", MSI_CONTENT_OTHER, NULL, "Primary Beam", "primary beam of the first feed",
                         "response", 0, 1},
    BEAM_ELEMENT(1),
    BEAM_ELEMENT(2),
    BEAM_ELEMENT(3),
    BEAM_ELEMENT(4),
    BEAM_ELEMENT(5),
    BEAM_ELEMENT(6),
    BEAM_ELEMENT(7),
    BEAM_ELEMENT(8),
    BEAM_ELEMENT(9),
    BEAM_ELEMENT(10),
    BEAM_ELEMENT(11),
    BEAM_ELEMENT(12),
    BEAM_ELEMENT(13),
    BEAM_ELEMENT(14),
    [MSI_FITS_BEAM_15] = {"beam-15", MSI_CONTENT_OTHER, NULL, "Primary Beam", "primary beam of the second feed",
                          "response", 0, 1},
    [MSI_FITS_WEIGHT] = {"weight", MSI_CONTENT_OTHER, NULL, "Weight", "weight of a mosaic", "weight", 0, 1},
    [MSI_FITS_SUM_WEIGHT] = {"sumwt", MSI_CONTENT_OTHER, NULL, "Weight", NULL, NULL, 0, 1},
    [MSI_FITS_NOISE] = {"noise", MSI_CONTENT_OTHER, BEAM, "Noise", "noise of a mosaic", "noise", 0, 0},
    [MSI_FITS_HORIZON] = {"horizon-mask", MSI_CONTENT_OTHER, NULL, "Mask", NULL, NULL, 0, 0},
    [MSI_FITS_WEIGHTS] = {"weights", MSI_CONTENT_OTHER, NULL, "Weight", "weights in the uv plane", "weight", 0, 1},
    [MSI_FITS_UV_REAL] = {"uv-real", MSI_CONTENT_OTHER, "Jy", "Visibility", NULL, NULL, 0, 0},
    [MSI_FITS_UV_IMAG] = {"uv-imag", MSI_CONTENT_OTHER, "Jy", "Visibility", NULL, NULL, 0, 0}};

const msi_fits_kind_row *msi_fits_kind_about(msi_fits_kind kind)
{
    return &rows[kind];
}

int msi_fits_is_on_sky(msi_fits_kind kind)
{
    return kind < MSI_FITS_WEIGHTS;
}

int msi_fits_is_index(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_INDEX;
}

int msi_fits_is_brightness(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_BRIGHTNESS || rows[kind].content == MSI_CONTENT_MODEL;
}

int msi_fits_is_model(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_MODEL;
}

int msi_fits_is_psf(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_PSF;
}

int msi_fits_has_beam(msi_fits_kind kind)
{
    return rows[kind].content != MSI_CONTENT_OTHER && rows[kind].content != MSI_CONTENT_MODEL;
}

static const double DEG_PER_RAD = 180 / MSI_PI;

enum {
    CARD = 80,
    BLOCK = 2880,
    HISTORY_TEXT = 72,      /* characters of text in a HISTORY card */
    CHUNK_PIXELS = 16384,   /* pixels written between two checks of the interrupt flag */
    TURN_CHUNKS = 32,       /* consecutive chunks that a thread writes at a time: 2 MB */
    WORTH_THREADS = 8 << 20 /* pixels; below this, starting threads takes longer than writing */
};

/* ---- Cards ---- */

/* These functions append cards to a header. *status is a status of cfitsio. After a failure they do nothing. */

/* Copy a text for a card. Cards may only have printable ASCII characters; others are written as \xNN. The caller frees
 * the copy. Returns NULL if out of memory. */
static char *printable(const char *text)
{
    char *out = calloc(4 * strlen(text) + 1, 1), *o = out;
    if (!out) return NULL;
    for (const unsigned char *t = (const unsigned char *)text; *t; t++) {
        if (*t >= ' ' && *t <= '~')
            *o++ = (char)*t;
        else
            o += sprintf(o, "\\x%02X", *t);
    }
    return out;
}

/* Write a text card. For an empty text or NULL, no card is written. */
static void put_string(fitsfile *f, const char *key, const char *value, const char *comment, int *status)
{
    if (!value || !value[0] || *status) return;
    char *text = printable(value);
    if (!text) {
        *status = MEMORY_ALLOCATION;
        return;
    }
    fits_write_key_str(f, key, text, comment, status);
    free(text);
}

/* Write a number card, with as many of 15 digits as fit in the 20 columns of the fixed format of FITS, which casacore
 * requires. FITS has no NaN or Inf: no card is written for these. */
static void put_number(fitsfile *f, const char *key, double value, const char *comment, int *status)
{
    if (!isfinite(value)) return;
    char text[40];
    int digits = 15;
    while (snprintf(text, sizeof text, "%.*G", digits, value) > 20) digits--;
    if (!strpbrk(text, ".E")) strcat(text, ".0");
    char card[256];
    snprintf(card, sizeof card, "%-8s= %20s%s%s", key, text, comment ? " / " : "", comment ? comment : "");
    card[CARD] = 0;
    fits_write_record(f, card, status);
}

/*
 * Write `text` as HISTORY cards, which give the text when they are joined. Trailing blanks of a card are not
 * significant, so the text is never split after a blank.
 */
static void put_history(fitsfile *f, const char *text, int *status)
{
    if (!text || *status) return;
    char *all = printable(text);
    if (!all) {
        *status = MEMORY_ALLOCATION;
        return;
    }
    size_t left = strlen(all);
    for (const char *at = all; left && !*status;) {
        size_t take = left < HISTORY_TEXT ? left : HISTORY_TEXT;
        while (take > 1 && take < left && at[take - 1] == ' ') take--;
        char card[HISTORY_TEXT + 1];
        memcpy(card, at, take);
        card[take] = 0;
        fits_write_history(f, card, status);
        at += take;
        left -= take;
    }
    free(all);
}

/*
 * Return the header as the bytes of a file, padded with blanks to whole blocks.
 * Given:    status  of cfitsio; nothing is done after a failure
 *           least   bytes, whole blocks: a shorter header gets blank cards before its END
 * Returned: *header  freed by free; *size in bytes
 * Returns:  a status of cfitsio
 */
static int header_text(fitsfile *f, size_t least, char **header, size_t *size, int status)
{
    int n_card = 0;
    fits_hdr2str(f, 0, NULL, 0, header, &n_card, &status);
    if (!status) {
        size_t used = (size_t)n_card * CARD;
        *size = (used + BLOCK - 1) / BLOCK * BLOCK;
        const int grows = *size < least;
        if (grows) *size = least;
        char *padded = realloc(*header, *size);
        if (padded) {
            if (grows) used -= CARD;
            memset(padded + used, ' ', *size - used);
            if (grows) memcpy(padded + *size - CARD, "END", 3);
            *header = padded;
        } else {
            status = MEMORY_ALLOCATION;
        }
    }
    return status;
}

/* Close a file of fits_create_memfile of which only the header was used, and free its memory. When a file is closed, or
 * its size is queried, cfitsio fills it with zeros for all pixels. So first set its axes to one pixel. */
static void close_header(fitsfile *f, void **memory)
{
    LONGLONG n_axis = 0;
    int ignored = 0;
    char key[FLEN_KEYWORD];
    fits_read_key_lnglng(f, "NAXIS", &n_axis, NULL, &ignored);
    for (int i = 1; i <= n_axis; i++) {
        fits_make_keyn("NAXIS", i, key, &ignored);
        fits_modify_key_lng(f, key, 1, "&", &ignored);
    }
    ignored = 0;
    fits_close_file(f, &ignored);
    free(*memory);
}

/* ---- Pixels ---- */

/* Write pixels [first, first + n) of a file whose pixels begin at byte `at`. */
static int write_chunk(const msi_publish *p, int i, int64_t at, int64_t first, int64_t n, const void *pixel,
                       msi_precision precision)
{
    uint32_t chunk[CHUNK_PIXELS];
    for (int64_t k = 0; k < n; k++) {
        float value =
            precision == MSI_FP32 ? ((const float *)pixel)[first + k] : (float)((const double *)pixel)[first + k];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        chunk[k] = htobe32(bits);
    }
    return msi_publish_write_at(p, i, at + first * (int64_t)sizeof *chunk, chunk, (size_t)n * sizeof *chunk);
}

/* Several threads are faster than one if the file is in memory, and not slower on most disks. */
int msi_fits_write_pixels(const msi_publish *p, int i, int64_t at, int64_t n_pixel, const void *pixel,
                          msi_precision precision)
{
    msi_first_error failure = {0};
#pragma omp parallel for schedule(dynamic, TURN_CHUNKS) if (n_pixel > WORTH_THREADS)
    for (int64_t first = 0; first < n_pixel; first += CHUNK_PIXELS) {
        const int64_t n = n_pixel - first < CHUNK_PIXELS ? n_pixel - first : CHUNK_PIXELS;
        if (msi_first_error_status(&failure)) continue;
        msi_first_error_keep(&failure, msi_interrupt_check());
        if (omp_get_thread_num() == 0) msi_progress_at(first, n_pixel);
        msi_first_error_keep(&failure, write_chunk(p, i, at, first, n, pixel, precision));
    }
    return msi_first_error_raise(&failure);
}

int msi_fits_write_padding(const msi_publish *p, int i, int64_t end)
{
    static const char zeros[BLOCK];
    return msi_publish_write_at(p, i, end, zeros, (size_t)(BLOCK - end % BLOCK) % BLOCK);
}

/* Write all pixels of a file after its header, padded to whole blocks. */
static int write_pixels(const msi_publish *p, int i, int64_t at, int64_t n_pixel, const void *pixel,
                        msi_precision precision)
{
    MSI_TRY(msi_fits_write_pixels(p, i, at, n_pixel, pixel, precision));
    return msi_fits_write_padding(p, i, at + n_pixel * (int64_t)sizeof(float));
}

/* ---- The header of an image of this program ---- */

int msi_fits_stokes(msi_pol pol)
{
    static const int number[] = {[MSI_POL_I] = 1,   [MSI_POL_Q] = 2,   [MSI_POL_U] = 3,   [MSI_POL_V] = 4,
                                 [MSI_POL_RR] = -1, [MSI_POL_LL] = -2, [MSI_POL_RL] = -3, [MSI_POL_LR] = -4,
                                 [MSI_POL_XX] = -5, [MSI_POL_YY] = -6, [MSI_POL_XY] = -7, [MSI_POL_YX] = -8};
    return (int)pol >= MSI_POL_I && pol <= MSI_POL_YY ? number[pol] : 0;
}

/* Spectral frames: their names in casacore and in FITS, and casacore's number for VELREF. AIPS defines numbers 1 to 3.
 * 0 means that the frame has no number. */
static const struct {
    const char *frame, *specsys;
    int velref;
} SPECTRAL_FRAMES[] = {
    {"LSRK", "LSRK", 1},        {"BARY", "BARYCENT", 2},   {"TOPO", "TOPOCENT", 3},
    {"LSRD", "LSRD", 4},        {"GEO", "GEOCENTR", 5},    {"REST", "SOURCE", 6},
    {"GALACTO", "GALACTOC", 7}, {"LGROUP", "LOCALGRP", 0}, {"CMB", "CMBDIPOL", 0},
};
enum {
    N_SPECTRAL_FRAME = sizeof SPECTRAL_FRAMES / sizeof SPECTRAL_FRAMES[0],
    VELREF_RADIO = 256 /* added to VELREF for velocities of the radio definition, as in CASA */
};

const char *msi_fits_spec_frame(const char *specsys)
{
    for (int i = 0; i < N_SPECTRAL_FRAME; i++)
        if (strcasecmp(specsys, SPECTRAL_FRAMES[i].specsys) == 0) return SPECTRAL_FRAMES[i].frame;
    return "";
}

/* Convert an angle to a longitude in degrees, at least 0 and below 360. */
static double longitude_deg(double rad)
{
    const double deg = fmod(rad * DEG_PER_RAD, 360), turned = deg < 0 ? deg + 360 : deg;
    return turned < 360 ? turned : 0;
}

static const double YEAR_10000_MJD_S = 2973484 * 86400.0;

/* Format MJD seconds as a FITS date, rounded to 0.1 ms. The precision of a double is about a microsecond here. */
static void format_date(double mjd_s, char text[32])
{
    int64_t ticks = llround((mjd_s - 40587 * 86400.0) * 1e4);
    int64_t second = ticks >= 0 ? ticks / 10000 : -((-ticks + 9999) / 10000);
    time_t t = (time_t)second;
    struct tm utc;
    gmtime_r(&t, &utc);
    size_t n = strftime(text, 24, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, 32 - n, ".%04d", (int)(ticks - second * 10000));
}

static void put_quantity(fitsfile *f, const msi_fits_spec *spec, int *status)
{
    const msi_fits_kind_row *about = msi_fits_kind_about(spec->kind);
    const msi_observation *o = spec->observation;
    put_number(f, "BSCALE", 1, NULL, status);
    put_number(f, "BZERO", 0, NULL, status);
    put_string(f, "BUNIT", spec->unit ? spec->unit : about->unit, "Unit of the pixels", status);
    put_string(f, "BTYPE", about->type, NULL, status);
    if (spec->n_term > 1 && !*status && about->is_of_term) {
        fits_write_key_lng(f, "TERM", spec->term, "Taylor term in FREQ / reference - 1", status);
        fits_write_key_lng(f, "NTERMS", spec->n_term, "Number of Taylor terms", status);
    }
    put_string(f, "OBJECT", o->object, NULL, status);
    put_string(f, "TELESCOP", o->telescope, NULL, status);
    put_string(f, "OBSERVER", o->observer, NULL, status);
    if (spec->primary_beam) put_string(f, "PBMODEL", spec->primary_beam, "Model of the primary beam", status);
    put_string(f, "ORIGIN", "msimage " MSIMAGE_VERSION, "The program that wrote this file", status);
    const int has_table = spec->cube && spec->cube->beam;
    if (has_table && !*status) fits_write_key_log(f, "CASAMBM", 1, "Beams of the planes: the table BEAMS", status);
    if (msi_fits_has_beam(spec->kind) && !has_table && msi_beam_known(&spec->beam)) {
        put_number(f, "BMAJ", spec->beam.major_rad * DEG_PER_RAD, "[deg] Beam's major axis, FWHM", status);
        put_number(f, "BMIN", spec->beam.minor_rad * DEG_PER_RAD, "[deg] Beam's minor axis, FWHM", status);
        put_number(f, "BPA", spec->beam.pa_rad * DEG_PER_RAD, "[deg] Beam's angle, north through east", status);
    }
}

/* The cards of an axis. cunit is NULL if it has no unit. comment may be NULL. */
typedef struct axis_cards {
    const char *ctype;
    double crpix, crval, cdelt;
    const char *cunit, *comment;
} axis_cards;

static void put_axis(fitsfile *f, int number, const axis_cards *axis, int *status)
{
    char key[FLEN_KEYWORD];
    snprintf(key, sizeof key, "CTYPE%d", number);
    put_string(f, key, axis->ctype, axis->comment, status);
    snprintf(key, sizeof key, "CRPIX%d", number);
    put_number(f, key, axis->crpix, NULL, status);
    snprintf(key, sizeof key, "CRVAL%d", number);
    put_number(f, key, axis->crval, NULL, status);
    snprintf(key, sizeof key, "CDELT%d", number);
    put_number(f, key, axis->cdelt, NULL, status);
    snprintf(key, sizeof key, "CUNIT%d", number);
    put_string(f, key, axis->cunit, NULL, status);
}

/* Return the number of axes. An image of several polarisations has no STOKES axis. */
static int n_axis(const msi_fits_spec *spec)
{
    return spec->pol ? 4 : 3;
}

static void put_axes(fitsfile *f, const msi_fits_spec *spec, const msi_sky_axes *sky, int *status)
{
    const msi_image_geometry *g = &spec->geometry;
    const double du = 1 / ((double)g->nx * g->cell_x_rad), dv = 1 / ((double)g->ny * g->cell_y_rad);
    /* Weights are sums over cells, and a cell begins at u = v = 0. A transform has a sample at u = v = 0. */
    const int is_cells = spec->kind == MSI_FITS_WEIGHTS;
    const double u_crpix = is_cells ? 0.5 * (double)g->nx + 0.5 : sky->crpix[0],
                 v_crpix = is_cells ? 0.5 * (double)g->ny + 0.5 : sky->crpix[1];
    /* FITS has no unit for wavelengths, and readers warn about unknown units. So these axes have no unit. */
    axis_cards axis[] = {{"U---WAV", u_crpix, 0, du, NULL, "In wavelengths"},
                         {"V---WAV", v_crpix, 0, dv, NULL, "In wavelengths"},
                         {"FREQ", 1, spec->cube ? spec->cube->first_hz : spec->freq_hz,
                          spec->cube ? spec->cube->step_hz : spec->bandwidth_hz, "Hz", NULL},
                         {"STOKES", 1, msi_fits_stokes(spec->pol), 1, NULL, NULL}};
    for (int i = 0; i < 2 && msi_fits_is_on_sky(spec->kind); i++)
        axis[i] = (axis_cards){sky->ctype[i], sky->crpix[i], sky->crval_deg[i], sky->cdelt_deg[i], "deg", NULL};
    for (int i = 0; i < n_axis(spec); i++) put_axis(f, i + 1, &axis[i], status);
    if (msi_fits_is_on_sky(spec->kind)) {
        put_number(f, "PV2_1", 0, NULL, status);
        put_number(f, "PV2_2", 0, NULL, status);
        put_number(f, "LONPOLE", sky->lonpole_deg, NULL, status);
        put_number(f, "LATPOLE", sky->latpole_deg, NULL, status);
    }
    put_string(f, "RADESYS", sky->radesys, NULL, status);
    if (sky->equinox > 0) put_number(f, "EQUINOX", sky->equinox, NULL, status);
    if (!sky->frame_is_standard && !*status) {
        char text[FLEN_CARD];
        snprintf(text, sizeof text, "Directions are in frame '%s', for which FITS has no name.", sky->frame);
        fits_write_comment(f, text, status);
    }
}

/* Write a comment about what pixels include, if a reader might miss it. */
static void put_caveat(fitsfile *f, const msi_fits_spec *spec, int *status)
{
    if (msi_fits_is_index(spec->kind) && !spec->primary_beam && !*status)
        fits_write_comment(f, "Not corrected for the primary beam, whose spectrum the map includes.", status);
}

static void put_observation(fitsfile *f, const msi_fits_spec *spec, int *status)
{
    const msi_observation *o = spec->observation;
    int velref = 0;
    for (int i = 0; i < N_SPECTRAL_FRAME; i++) {
        if (strcasecmp(o->spec_frame, SPECTRAL_FRAMES[i].frame) != 0) continue;
        put_string(f, "SPECSYS", SPECTRAL_FRAMES[i].specsys, "Frame of the frequencies", status);
        velref = SPECTRAL_FRAMES[i].velref;
        if (spec->cube) put_string(f, "SSYSOBS", "TOPOCENT", "Frame in which a channel is one frequency", status);
        if (spec->cube && spec->cube->observer_m_s != 0)
            put_number(f, "VELOSYS", spec->cube->observer_m_s, "[m/s] Of the observer in SPECSYS, at the start",
                       status);
    }
    if (o->rest_freq_hz > 0)
        put_number(f, "RESTFRQ", o->rest_freq_hz, "[Hz] Rest frequency of the source", status);
    else if (spec->freq_hz > 0)
        put_number(f, "RESTFRQ", spec->freq_hz, "[Hz] Of the image; not known for the source", status);
    if (velref && !*status)
        fits_write_key_lng(f, "VELREF", (spec->cube && spec->cube->is_not_radio ? 0 : VELREF_RADIO) + velref,
                           "1 LSR 2 HEL 3 OBS 4 LSRD 5 GEO 6 SOU 7 GAL +256 radio", status);
    /* A FITS date has a year of four digits. */
    if (o->start_mjd_s > 0 && o->start_mjd_s < YEAR_10000_MJD_S) {
        char date[32], scale[16] = "UTC";
        format_date(o->start_mjd_s, date);
        if (o->time_scale[0]) snprintf(scale, sizeof scale, "%s", o->time_scale);
        put_string(f, "TIMESYS", scale, NULL, status);
        put_string(f, "DATE-OBS", date, "First integration's centre", status);
        put_number(f, "MJD-OBS", o->start_mjd_s / 86400, "[d] The same", status);
    }
    put_number(f, "OBSRA", longitude_deg(o->ra_rad), "[deg] Phase centre of the field", status);
    put_number(f, "OBSDEC", o->dec_rad * DEG_PER_RAD, "[deg] The same", status);
    const double *x = o->antenna_itrf_m;
    if (x[0] != 0 || x[1] != 0 || x[2] != 0) {
        put_number(f, "OBSGEO-X", x[0], "[m] Mean position of the antennas, ITRF", status);
        put_number(f, "OBSGEO-Y", x[1], NULL, status);
        put_number(f, "OBSGEO-Z", x[2], NULL, status);
    }
}

/* Keywords follow WSClean. A value without a WSClean keyword gets one that begins with MSI. */
static void put_clean(fitsfile *f, const msi_fits_clean *c, int *status)
{
    if (!c->is_known) return;
    put_number(f, "WSCNITER", (double)c->most_iterations, "Minor iterations allowed", status);
    put_number(f, "WSCTHRES", c->threshold_jy, "[Jy/beam] Threshold requested", status);
    put_number(f, "WSCGAIN", c->gain, "Gain of minor iterations", status);
    put_number(f, "WSCMGAIN", c->mgain, "Gain of major cycles", status);
    put_number(f, "WSCNEGCM", c->allow_negative, "Negative components are allowed", status);
    put_number(f, "WSCNEGST", c->stop_negative, "The first negative peak ends cleaning", status);
    put_number(f, "WSCMINOR", (double)c->n_minor, "Minor iterations made", status);
    put_number(f, "WSCMAJOR", (double)c->n_major, "Major cycles made", status);
    put_string(f, "MSISTOP", c->stop, "Why cleaning ended", status);
    put_number(f, "MSITHRES", c->final_threshold_jy, "[Jy/beam] Threshold of the last cycle", status);
    put_number(f, "MSIRMS", c->noise_jy, "[Jy/beam] Noise of the residual, by its median", status);
    put_number(f, "MSIPEAK", c->peak_jy, "[Jy/beam] Peak of this image's residual", status);
    put_number(f, "MSIFLUX", c->flux_jy, "[Jy] Flux of this image's model", status);
}

/* Write the range of selected channels or times, unless all are selected. */
static void put_range(fitsfile *f, const char *first_key, const char *end_key, int64_t begin, int64_t end, int *status)
{
    if (end <= begin) return;
    put_number(f, first_key, (double)begin, "First selected, counted from 0", status);
    put_number(f, end_key, (double)end, "End of the selection, exclusive", status);
}

static void put_making(fitsfile *f, const msi_fits_spec *spec, int *status)
{
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    put_string(f, "DATE", date, "This file was written (UTC)", status);
    put_string(f, "WSCDATAC", spec->data_column, "Data column", status);
    put_string(f, "WSCWEIGH", spec->weighting, "Weighting", status);
    if (spec->has_field) put_number(f, "WSCFIELD", spec->field_id, "First field imaged, by its row in FIELD", status);
    put_range(f, "WSCCHANS", "WSCCHANE", spec->channel_begin, spec->channel_end, status);
    put_range(f, "WSCTIMES", "WSCTIMEE", spec->interval_begin, spec->interval_end, status);
    put_number(f, "WSCNVIS", (double)spec->n_vis, "Samples gridded", status);
    if (spec->largest_weight > 0)
        put_number(f, "WSCENVIS", spec->sum_weight / spec->largest_weight, "Sum of the weights over the largest",
                   status);
    put_number(f, "WSCIMGWG", spec->sum_weight, "Sum of the weights gridded", status);
    put_number(f, "WSCNORMF", spec->sum_weight, "Divisor of the image", status);
    put_number(f, "WSCVWSUM", spec->sum_vis_weight, "Sum of the weights as stored", status);
    put_clean(f, &spec->clean, status);
    put_history(f, spec->command_line, status);
}

/*
 * Make the header, padded with blanks to whole blocks. cfitsio makes it in memory, for a file that never exists. If
 * cfitsio wrote the file, the error of its last flush would be lost, and on a full disk the file would be truncated.
 * Returned: *header  freed by free; *size in bytes. Returns a status of cfitsio.
 */
static int make_header(const msi_fits_spec *spec, const msi_sky_axes *sky, size_t least, char **header, size_t *size)
{
    LONGLONG axis[4] = {spec->geometry.nx, spec->geometry.ny, spec->cube ? spec->cube->n : 1, 1};
    fitsfile *f = NULL;
    void *memory = NULL;
    size_t memory_size = 0;
    int status = 0;
    *header = NULL;
    if (fits_create_memfile(&f, &memory, &memory_size, BLOCK, realloc, &status)) return status;
    fits_create_imgll(f, FLOAT_IMG, n_axis(spec), axis, &status);
    put_quantity(f, spec, &status);
    put_axes(f, spec, sky, &status);
    put_caveat(f, spec, &status);
    put_observation(f, spec, &status);
    put_making(f, spec, &status);
    status = header_text(f, least, header, size, status);
    close_header(f, &memory);
    return status;
}

/* Only one thread at a time makes a header, because some builds of cfitsio are not thread-safe. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int msi_fits_make_header(const msi_publish *p, int i, const msi_fits_spec *spec, size_t least, char **header,
                         size_t *size)
{
    msi_sky_wcs *wcs = NULL;
    *header = NULL;
    pthread_mutex_lock(&lock);
    int rc = msi_sky_wcs_create(&wcs, &spec->geometry, spec->ra_rad, spec->dec_rad, spec->observation->dir_frame,
                                spec->observation->start_mjd_s / 86400);
    int status = rc ? 0 : make_header(spec, msi_sky_wcs_axes(wcs), least, header, size);
    if (status == MEMORY_ALLOCATION) {
        rc = msi_error_set(MSI_ENOMEM, "%s: out of memory for the FITS header", msi_publish_name(p, i));
    } else if (status) {
        char text[FLEN_STATUS];
        fits_get_errstatus(status, text);
        rc = msi_error_set(MSI_EINTERNAL, "%s: cannot make the FITS header: %s", msi_publish_name(p, i), text);
    }
    if (status) fits_clear_errmsg();
    msi_sky_wcs_free(wcs);
    pthread_mutex_unlock(&lock);
    return rc;
}

int msi_fits_write(msi_publish *p, int i, const msi_fits_spec *spec, const void *pixel, msi_precision precision)
{
    char *header;
    size_t header_size = 0;
    int fd, rc;
    if ((rc = msi_fits_make_header(p, i, spec, 0, &header, &header_size))) goto out;
    if ((rc = msi_publish_begin(p, i, &fd))) goto out;
    if ((rc = msi_publish_write(p, i, header, header_size))) goto out;
    if ((rc = write_pixels(p, i, (int64_t)header_size, msi_image_n_pixel(&spec->geometry), pixel, precision))) goto out;
    rc = msi_publish_seal(p, i);
out:
    free(header);
    return rc;
}

/* ---- The beams of a cube ---- */

/*
 * Return the first plane from k on that has a beam; n if there is none. In the table, a plane without a beam gets the
 * beam of the nearest plane, as tclean does, because casacore's readers refuse a table in which a beam is 0.
 */
static int64_t next_beam(const msi_fits_cube *cube, int64_t k)
{
    while (k < cube->n && !msi_beam_known(&cube->beam[k])) k++;
    return k;
}

/* Make the table BEAMS in memory, as an extension of an empty file. Returns a status of cfitsio. */
static int make_beams(const msi_fits_cube *cube, fitsfile **f, void **memory, size_t *memory_size)
{
    /* cfitsio's arguments are not const. */
    static char names[][5] = {"BMAJ", "BMIN", "BPA", "CHAN", "POL"}, forms[][3] = {"1E", "1J"},
                units[][7] = {"arcsec", "deg", ""};
    char *column[] = {names[0], names[1], names[2], names[3], names[4]},
         *form[] = {forms[0], forms[0], forms[0], forms[1], forms[1]},
         *unit[] = {units[0], units[0], units[1], units[2], units[2]};
    const double asec = 3600 * DEG_PER_RAD;
    int status = 0;
    if (fits_create_memfile(f, memory, memory_size, BLOCK, realloc, &status)) return status;
    fits_create_tbl(*f, BINARY_TBL, cube->n, 5, column, form, unit, "BEAMS", &status);
    if (!status) fits_write_key_lng(*f, "EXTVER", 1, NULL, &status);
    if (!status) fits_write_key_lng(*f, "NCHAN", cube->n, "Planes along FREQ", &status);
    if (!status) fits_write_key_lng(*f, "NPOL", 1, "Planes along STOKES", &status);
    for (int64_t k = 0, last = -1, next = next_beam(cube, 0); k < cube->n && !status; k++) {
        if (k == next) {
            last = k;
            next = next_beam(cube, k + 1);
        }
        const msi_beam *b = &cube->beam[last < 0 || (next < cube->n && next - k < k - last) ? next : last];
        float value[] = {(float)(b->major_rad * asec), (float)(b->minor_rad * asec), (float)(b->pa_rad * DEG_PER_RAD)};
        int number[] = {(int)k, 0};
        for (int c = 0; c < 3; c++) fits_write_col(*f, TFLOAT, c + 1, k + 1, 1, 1, &value[c], &status);
        for (int c = 0; c < 2; c++) fits_write_col(*f, TINT, c + 4, k + 1, 1, 1, &number[c], &status);
    }
    fits_flush_file(*f, &status);
    return status;
}

int msi_fits_write_beams(const msi_publish *p, int i, int64_t at, const msi_fits_cube *cube)
{
    fitsfile *f = NULL;
    void *memory = NULL;
    size_t memory_size = 0;
    LONGLONG head, data, end = 0;
    pthread_mutex_lock(&lock);
    int status = make_beams(cube, &f, &memory, &memory_size), ignored = 0;
    fits_get_hduaddrll(f, &head, &data, &end, &status);
    int rc = MSI_OK;
    if (status || end < head || (size_t)end > memory_size)
        rc = msi_error_set(MSI_ENOMEM, "%s: cannot make the table of beams (cfitsio status %d)", msi_publish_name(p, i),
                           status);
    else
        rc = msi_publish_write_at(p, i, at, (const char *)memory + head, (size_t)(end - head));
    if (f) fits_close_file(f, &ignored);
    if (status) fits_clear_errmsg();
    free(memory);
    pthread_mutex_unlock(&lock);
    return rc;
}

/* ---- The header of another image ---- */

/* Return 1 if a card is not copied: cards about the storage of pixels, checksums, and cards that are written with new
 * values. */
static int is_not_copied(const char *card)
{
    static const char *const own[] = {"BMAJ    ", "BMIN    ", "BPA     ", "ORIGIN  ",
                                      "DATE    ", "BTYPE   ", "CASAMBM "};
    const int class = fits_get_keyclass((char *)card);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strncmp(card, own[i], 8) == 0) return 1;
    return class == TYP_STRUC_KEY || class == TYP_CMPRS_KEY || class == TYP_SCAL_KEY || class == TYP_NULL_KEY ||
           class == TYP_RANG_KEY || class == TYP_UNIT_KEY || class == TYP_CKSUM_KEY || class == TYP_DIM_KEY ||
           strncmp(card, "BUNIT   ", 8) == 0 || strncmp(card, "END     ", 8) == 0;
}

static void copy_cards(fitsfile *to, fitsfile *from, int *status)
{
    int n = 0;
    fits_get_hdrspace(from, &n, NULL, status);
    for (int i = 1; i <= n && !*status; i++) {
        char card[FLEN_CARD];
        fits_read_record(from, i, card, status);
        if (!*status && !is_not_copied(card)) fits_write_record(to, card, status);
    }
}

static void put_changed_cards(fitsfile *f, const msi_fits_change *change, int *status)
{
    put_string(f, "BUNIT", change->unit, "Unit of the pixels", status);
    put_string(f, "BTYPE", change->type ? change->type : "Intensity", NULL, status);
    if (msi_beam_known(&change->beam)) {
        put_number(f, "BMAJ", change->beam.major_rad * DEG_PER_RAD, "[deg] Beam's major axis, FWHM", status);
        put_number(f, "BMIN", change->beam.minor_rad * DEG_PER_RAD, "[deg] Beam's minor axis, FWHM", status);
        put_number(f, "BPA", change->beam.pa_rad * DEG_PER_RAD, "[deg] Beam's angle, north through east", status);
    }
    put_string(f, "ORIGIN", "msimage " MSIMAGE_VERSION, "The program that wrote this file", status);
    if (!*status) fits_write_date(f, status);
    put_history(f, change->command_line, status);
}

/* Make the header in memory, for a file that never exists. Returns a status of cfitsio. */
static int make_header_like(const msi_fits_handle *from, int n_axis, LONGLONG *axis, const msi_fits_change *change,
                            char **header, size_t *size)
{
    fitsfile *f = NULL;
    void *memory = NULL;
    size_t memory_size = 0;
    int status = 0;
    if (fits_create_memfile(&f, &memory, &memory_size, BLOCK, realloc, &status)) return status;
    fits_create_imgll(f, FLOAT_IMG, n_axis, axis, &status);
    copy_cards(f, from->f, &status);
    put_changed_cards(f, change, &status);
    status = header_text(f, 0, header, size, status);
    close_header(f, &memory);
    return status;
}

static int write_like(msi_publish *p, int i, const char *header, size_t size, int64_t n_pixel, const float *pixel)
{
    int fd;
    MSI_TRY(msi_publish_begin(p, i, &fd));
    MSI_TRY(msi_publish_write(p, i, header, size));
    MSI_TRY(write_pixels(p, i, (int64_t)size, n_pixel, pixel, MSI_FP32));
    return msi_publish_seal(p, i);
}

int msi_fits_write_like(msi_publish *p, int i, const char *path, const msi_fits_change *change, const float *pixel)
{
    msi_fits_handle h;
    LONGLONG axis[MSI_FITS_MAX_AXES];
    char *header = NULL;
    size_t size = 0;
    int n_axis = 0, bitpix;
    int64_t n_pixel = 1;
    MSI_TRY(msi_fits_handle_open(&h, path));
    int rc = msi_fits_find_image(&h, path, &n_axis, axis, &bitpix);
    for (int k = 2; k < n_axis && change->one_plane; k++) axis[k] = 1;
    const int status = rc ? 0 : make_header_like(&h, n_axis, axis, change, &header, &size);
    if (status) rc = msi_fits_failed(path, status, "copying its header");
    msi_fits_handle_close(&h);
    for (int k = 0; k < n_axis; k++) n_pixel *= axis[k];
    if (!rc) rc = write_like(p, i, header, size, n_pixel, pixel);
    free(header);
    return rc;
}
