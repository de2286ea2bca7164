/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Computes the Jones matrices of primary beams. The file has, in this order: the responses of each telescope and
 * formula; beams from files; words of -pb with numbers, such as airy:25; the table of telescopes. To add a telescope,
 * add a row to `named` and a function that makes its model. Coefficients are in pb_tables.c, stations of LOFAR in
 * pb_stations.c.
 */
#include "src/pb/pb_model.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "src/pb/pb_file.h"
#include "src/pb/pb_stations.h"
#include "src/pb/pb_tables.h"

static const double ARCMIN = MSI_PI / 10800;

/* A dish with a circular blockage in its middle. */
typedef struct airy_dish {
    double diameter_m, blockage_m;
} airy_dish;

enum { TILE_DIPOLES = 16, DIPOLE_OFF = 32 };

typedef struct family family;

struct msi_pb_model {
    const family *family;
    char name[32];
    int n_class;
    uint8_t *class_of;             /* [n_antenna] */
    const msi_pb_feed_band *feeds; /* table of MeerKAT */
    const msi_pb_series *series;
    msi_pb_series own; /* series of poly: */
    msi_pb_band own_band;
    msi_pb_row own_row;
    airy_dish dish[MSI_PB_CLASSES];
    double width_rad_hz;               /* Gaussian: full width at half power times frequency */
    int32_t delay[TILE_DIPOLES];       /* MWA */
    msi_pb_file *file[MSI_PB_CLASSES]; /* data of FILE.fits; one for each class */
    msi_pb_stations *stations;         /* LOFAR */
    msi_pb_cube *cube;                 /* Jones matrices by time */
};

/* Functions that a family of models has in common. */
struct family {
    msi_pb_mount mount;
    /* Circular responses, the same for both feeds, set voltage, scale_rad and end_power. Other formulas set jones,
     * width and, if they have one, limit. Stations and cubes set only width. Images set none of these. */
    double (*voltage)(const msi_pb_model *m, int class_id, double freq_hz, double angle_rad);
    double (*scale_rad)(const msi_pb_model *m, int class_id, double freq_hz); /* a rough half width */
    double end_power; /* the limit is where the power falls to this, or at a minimum before. Below 0: no limit */
    void (*jones)(const msi_pb_model *m, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4]);
    double (*width)(const msi_pb_model *m, double freq_hz);
    double (*limit)(const msi_pb_model *m, double freq_hz);
};

/* ---- MeerKAT ---- */

/* Interpolate the table of a band; outside the band return the value of the nearer end. */
static msi_pb_feed_row feeds_at(const msi_pb_feed_band *band, double mhz)
{
    const double rows = (mhz - band->row[0].mhz) * (1 / MSI_PB_FEED_STEP), last = band->n_row - 1;
    const double place = rows < 0 ? 0 : rows > last ? last : rows;
    const int i = place < last ? (int)place : band->n_row - 2;
    const double t = place - i;
    const msi_pb_feed_row *a = &band->row[i], *b = a + 1;
    msi_pb_feed_row row = {.mhz = mhz};
    for (int k = 0; k < 4; k++) {
        row.squint[k] = a->squint[k] + t * (b->squint[k] - a->squint[k]);
        row.fwhm[k] = a->fwhm[k] + t * (b->fwhm[k] - a->fwhm[k]);
    }
    return row;
}

/*
 * Voltage of an aperture with cosine taper, cos(pi rho) / (1 - 4 rho^2). rho is scaled so that it is sqrt(1/2) at r =
 * 1/2.
 * Given: r  angle in units of the full width at half power
 */
static double cosine_taper(double r)
{
    /* With rho = 1/2 + e, numerator and denominator both have the factor e, which cancels. */
    const double e = 1.1889647809329453 * r - 0.5;
    return e == 0 ? MSI_PI / 4 : sin(MSI_PI * e) / (4 * e * (1 + e));
}

static void meerkat_jones(const msi_pb_model *m, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4])
{
    const msi_pb_feed_row row = feeds_at(m->feeds, 1e-6 * freq_hz);
    const double x = direction->x_rad / ARCMIN, y = direction->y_rad / ARCMIN;
    for (int feed = 0; feed < 2; feed++) {
        const double *squint = &row.squint[2 * feed], *fwhm = &row.fwhm[2 * feed];
        const double p = (x - squint[0]) / fwhm[0], q = (y - squint[1]) / fwhm[1];
        jones[3 * feed] = (msi_c64){cosine_taper(sqrt(p * p + q * q)), 0};
    }
    jones[1] = jones[2] = (msi_c64){0, 0};
}

static double meerkat_width(const msi_pb_model *m, double freq_hz)
{
    const msi_pb_feed_row row = feeds_at(m->feeds, 1e-6 * freq_hz);
    return ARCMIN * (row.fwhm[0] + row.fwhm[1] + row.fwhm[2] + row.fwhm[3]) / 4;
}

/* Return the angle of the first null, rho = 3/2, of the feed with the narrower beam. */
static double meerkat_limit(const msi_pb_model *m, double freq_hz)
{
    const msi_pb_feed_row row = feeds_at(m->feeds, 1e-6 * freq_hz);
    double nearest = INFINITY;
    for (int k = 0; k < 4; k++) nearest = fmin(nearest, 1.5 / 1.1889647809329453 * row.fwhm[k] - fabs(row.squint[k]));
    return ARCMIN * nearest;
}

static const family meerkat_family = {
    .mount = MSI_PB_ALTAZ, .jones = meerkat_jones, .width = meerkat_width, .limit = meerkat_limit};

/* ---- Polynomials in x = arcmin GHz ---- */

/* Return the band of a frequency, or the band with the nearest edge. */
static const msi_pb_band *band_at(const msi_pb_series *s, double mhz)
{
    int i = 0;
    while (i + 1 < s->n_band && mhz - s->band[i].high_mhz >= s->band[i + 1].low_mhz - mhz) i++;
    return &s->band[i];
}

static double series_power(const msi_pb_series *s, const msi_pb_row *row, double x)
{
    const double xx = x * x;
    double sum = 0;
    for (int k = MSI_PB_TERMS - 1; k >= 0; k--) sum = (sum + s->scale[k] * row->coefficient[k]) * xx;
    return s->is_inverse ? 1 / (1 + sum) : 1 + sum;
}

/* Find the last row at or below a frequency, or the first row. */
static const msi_pb_row *row_below(const msi_pb_band *band, double mhz)
{
    int low = 0, high = band->n_row;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (band->row[middle].mhz <= mhz)
            low = middle;
        else
            high = middle;
    }
    return &band->row[low];
}

/* Find the two rows around a frequency. Returns the weight of the second, which is 0 or 1 if the nearest row is used */
static double rows_at(const msi_pb_row *row[2], const msi_pb_series *s, double mhz)
{
    const msi_pb_band *band = band_at(s, mhz);
    row[0] = row_below(band, mhz);
    row[1] = row[0] + (row[0] < band->row + band->n_row - 1);
    if (row[0] == row[1]) return 0;
    const double t = fmax(0, (mhz - row[0]->mhz) / (row[1]->mhz - row[0]->mhz));
    return s->is_inverse ? t : t >= 0.5;
}

static double series_voltage(const msi_pb_model *m, int class_id, double freq_hz, double angle_rad)
{
    (void)class_id;
    const msi_pb_series *s = m->series;
    const msi_pb_row *row[2];
    const double t = rows_at(row, s, 1e-6 * freq_hz), x = angle_rad / ARCMIN * 1e-9 * freq_hz;
    double power = t < 1 ? (1 - t) * series_power(s, row[0], x) : 0;
    if (t > 0) power += t * series_power(s, row[1], x);
    return power > 0 ? sqrt(power) : 0;
}

static double series_scale(const msi_pb_model *m, int class_id, double freq_hz)
{
    (void)class_id;
    const msi_pb_row *row[2];
    const double t = rows_at(row, m->series, 1e-6 * freq_hz);
    return sqrt(0.7 / fabs(m->series->scale[0] * row[t >= 0.5]->coefficient[0])) * ARCMIN / (1e-9 * freq_hz);
}

static const family polynomial_family = {
    .mount = MSI_PB_EQUATORIAL, .voltage = series_voltage, .scale_rad = series_scale, .end_power = 0.05};
static const family inverse_family = {
    .mount = MSI_PB_EQUATORIAL, .voltage = series_voltage, .scale_rad = series_scale, .end_power = -1};

/* ---- Airy discs and Gaussians ---- */

/* 2 J1(t) / t */
static double jinc(double t)
{
    return t > 0 ? 2 * j1(t) / t : 1;
}

static double airy_voltage(const msi_pb_model *m, int class_id, double freq_hz, double angle_rad)
{
    const airy_dish *dish = &m->dish[class_id];
    const double t = MSI_PI * sin(fmin(angle_rad, MSI_PI / 2)) * freq_hz / MSI_SPEED_OF_LIGHT;
    const double d = dish->diameter_m, b = dish->blockage_m;
    if (b == 0) return jinc(t * d);
    return (d * d * jinc(t * d) - b * b * jinc(t * b)) / (d * d - b * b);
}

static double airy_scale(const msi_pb_model *m, int class_id, double freq_hz)
{
    return 0.5 * MSI_SPEED_OF_LIGHT / (freq_hz * m->dish[class_id].diameter_m);
}

static double gauss_voltage(const msi_pb_model *m, int class_id, double freq_hz, double angle_rad)
{
    (void)class_id;
    const double r = angle_rad * freq_hz / m->width_rad_hz;
    return exp(-2 * log(2) * r * r);
}

static double gauss_scale(const msi_pb_model *m, int class_id, double freq_hz)
{
    (void)class_id;
    return 0.5 * m->width_rad_hz / freq_hz;
}

static const family airy_family = {
    .mount = MSI_PB_EQUATORIAL, .voltage = airy_voltage, .scale_rad = airy_scale, .end_power = 0};
static const family gauss_family = {
    .mount = MSI_PB_EQUATORIAL, .voltage = gauss_voltage, .scale_rad = gauss_scale, .end_power = -1};

/* ---- MWA ---- */

static const double DIPOLE_SPACING_M = 1.10, DIPOLE_HEIGHT_M = 0.278, DELAY_STEP_S = 435e-12;

/* Jones matrix of a tile of short dipoles over an infinite ground screen, normalised to 1 at the zenith. Row 0 of the
 * delays is the northern row. */
static void tile_jones(const msi_pb_model *m, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4])
{
    const double turns_m = freq_hz / MSI_SPEED_OF_LIGHT, phase_m = 2 * MSI_PI * turns_m;
    const double cz = cos(direction->zenith_rad), sz = sin(direction->zenith_rad);
    const double sa = sin(direction->azimuth_rad), ca = cos(direction->azimuth_rad);
    double re = 0, im = 0;
    for (int k = 0; k < TILE_DIPOLES; k++) {
        if (m->delay[k] == DIPOLE_OFF) continue;
        const double east_m = (k % 4 - 1.5) * DIPOLE_SPACING_M, north_m = (1.5 - k / 4) * DIPOLE_SPACING_M;
        const double path_m = east_m * sz * sa + north_m * sz * ca - m->delay[k] * (DELAY_STEP_S * MSI_SPEED_OF_LIGHT);
        re += cos(phase_m * path_m);
        im += sin(phase_m * path_m);
    }
    const double ground = cz > 0 ? sin(phase_m * DIPOLE_HEIGHT_M * cz) / sin(phase_m * DIPOLE_HEIGHT_M) : 0;
    const double projection[4] = {cz * sa, ca, cz * ca, -sa};
    for (int k = 0; k < 4; k++) {
        const double gain = ground * projection[k] / TILE_DIPOLES;
        jones[k] = (msi_c64){gain * re, gain * im};
    }
}

/* Return the half-power width of a row of four dipoles. */
static double tile_width(const msi_pb_model *m, double freq_hz)
{
    (void)m;
    return 0.886 * MSI_SPEED_OF_LIGHT / (4 * DIPOLE_SPACING_M * freq_hz);
}

static const family tile_family = {.mount = MSI_PB_FIXED, .jones = tile_jones, .width = tile_width};

/* ---- LOFAR ---- */

static double stations_width(const msi_pb_model *m, double freq_hz)
{
    return msi_pb_stations_width(m->stations, freq_hz);
}

static const family stations_family = {.mount = MSI_PB_FIXED, .width = stations_width};

/* ---- Files ---- */

static const family sky_file_family = {.mount = MSI_PB_EQUATORIAL};
static const family dish_file_family = {.mount = MSI_PB_ALTAZ};

static double cube_width(const msi_pb_model *m, double freq_hz)
{
    return msi_pb_cube_width(m->cube, freq_hz);
}

static const family cube_family = {.mount = MSI_PB_FIXED, .width = cube_width};

/* Read the beam of a type of stations: the first pattern that covers the channels. */
static int read_type(msi_pb_file **out, const msi_pb_station_type *t, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    int rc = MSI_EINPUT;
    for (int i = 0; i < t->n_pattern && rc; i++) {
        rc = msi_pb_file_read(out, t->pattern[i], set, note);
        if (rc && rc != MSI_EINPUT) break;
    }
    return rc;
}

/* Read the beams of all types of a configuration. */
static int read_config(msi_pb_model *m, const char *path, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    msi_pb_config c;
    char each[MSI_PB_NOTE];
    MSI_TRY(msi_pb_config_read(&c, path, set, m->class_of));
    int rc = MSI_OK, n = 0;
    for (int k = 0; k < c.n_type && !rc; k++) {
        rc = read_type(&m->file[k], &c.type[k], set, each);
        if (!rc && msi_pb_file_mount(m->file[k]) != msi_pb_file_mount(m->file[0]))
            rc = msi_error_set(MSI_EINPUT, "%s: the beams of types \"%s\" and \"%s\" have different axes", path,
                               c.type[k].name, c.type[0].name);
        if (n < MSI_PB_NOTE - 1)
            n += snprintf(note + n, MSI_PB_NOTE - (size_t)n, "%s%.20s: %.90s", k ? "; " : "", c.type[k].name, each);
    }
    m->n_class = c.n_type;
    msi_pb_config_free(&c);
    return rc;
}

/* Make each antenna a class. */
static void set_stations(msi_pb_model *m, const msi_pb_set *set)
{
    m->n_class = (int)set->n_antenna;
    for (int64_t a = 0; a < set->n_antenna; a++) m->class_of[a] = (uint8_t)a;
}

static int make_file(msi_pb_model *m, const char *word, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    const char *slash = strrchr(word, '/');
    m->n_class = 1;
    snprintf(m->name, sizeof m->name, "%.31s", slash ? slash + 1 : word);
    if (msi_pb_cube_antennas(word)) {
        MSI_TRY(msi_pb_cube_read(&m->cube, word, set, note));
        m->family = &cube_family;
        if (msi_pb_cube_has_stations(m->cube)) set_stations(m, set);
        return MSI_OK;
    }
    MSI_TRY(msi_pb_file_is_config(word) ? read_config(m, word, set, note)
                                        : msi_pb_file_read(&m->file[0], word, set, note));
    m->family = msi_pb_file_mount(m->file[0]) == MSI_PB_ALTAZ ? &dish_file_family : &sky_file_family;
    return MSI_OK;
}

/* ---- Words with numbers ---- */

static void set_airy(msi_pb_model *m, const airy_dish *dish)
{
    m->family = &airy_family;
    m->n_class = 1;
    m->dish[0] = *dish;
}

static void set_gauss(msi_pb_model *m, double width_rad_hz)
{
    m->family = &gauss_family;
    m->n_class = 1;
    m->width_rad_hz = width_rad_hz;
}

/* Read numbers between commas. Returns: their count; 0 if one is invalid, or there are more than `most` */
static int read_numbers(double *out, int most, const char *text)
{
    int n = 0;
    for (const char *p = text;; p++) {
        char number[48];
        const size_t length = strcspn(p, ",");
        if (n == most || length >= sizeof number) return 0;
        memcpy(number, p, length);
        number[length] = 0;
        if (msi_parse_real(&out[n++], "-pb", number)) return 0;
        p += length;
        if (!*p) return n;
    }
}

/* Refuse a width that no dish or station has; it is probably in the wrong unit. */
static int check_width(const char *word, double amin_ghz)
{
    static const double least = 1e-3, most = 1e6;
    if (amin_ghz >= least && amin_ghz <= most) return MSI_OK;
    return msi_error_set(
        MSI_EUSAGE,
        "-pb %s: at 1 GHz its width at half power is %g arcmin, which no telescope has (%g to %g): check "
        "powers of ten",
        word, amin_ghz, least, most);
}

static int read_airy(msi_pb_model *m, const char *word, const char *text, char note[MSI_PB_NOTE])
{
    double size[2] = {0, 0};
    if (!read_numbers(size, 2, text) || !(size[0] > 0 && size[1] >= 0 && size[1] < size[0]))
        return msi_error_set(
            MSI_EUSAGE,
            "-pb %s: give the diameter in metres, then that of the blockage, such as airy:25 or airy:12,0.75", word);
    MSI_TRY(check_width(word, 1.03e-9 * MSI_SPEED_OF_LIGHT / size[0] / ARCMIN));
    set_airy(m, &(airy_dish){size[0], size[1]});
    snprintf(m->name, sizeof m->name, "Airy %g m", size[0]);
    snprintf(note, MSI_PB_NOTE, "Airy disc of dishes of %g m with a blockage of %g m", size[0], size[1]);
    return MSI_OK;
}

static int read_gauss(msi_pb_model *m, const char *word, const char *text, char note[MSI_PB_NOTE])
{
    char angle[48];
    const size_t length = strcspn(text, "@");
    double width_rad, freq_hz;
    if (text[length] != '@' || length >= sizeof angle)
        return msi_error_set(
            MSI_EUSAGE, "-pb %s: give a full width at half power at a frequency, such as gauss:60amin@1.4GHz", word);
    memcpy(angle, text, length);
    angle[length] = 0;
    MSI_TRY(msi_parse_angle(&width_rad, "-pb gauss:", angle));
    MSI_TRY(msi_parse_frequency(&freq_hz, "-pb gauss:", text + length + 1));
    if (!(width_rad > 0 && width_rad < MSI_PI))
        return msi_error_set(MSI_EUSAGE, "-pb %s: give a width between 0 and 180 degrees", word);
    MSI_TRY(check_width(word, 1e-9 * width_rad * freq_hz / ARCMIN));
    set_gauss(m, width_rad * freq_hz);
    snprintf(m->name, sizeof m->name, "Gaussian");
    snprintf(note, MSI_PB_NOTE, "Gaussian with a full width at half power of %g arcmin at %g GHz", width_rad / ARCMIN,
             1e-9 * freq_hz);
    return MSI_OK;
}

static double power_at(const msi_pb_model *m, int class_id, double freq_hz, double angle_rad)
{
    const double voltage = m->family->voltage(m, class_id, freq_hz, angle_rad);
    return voltage * voltage;
}

/* Return the first angle at which the power falls to `level` or has a minimum; pi if there is no such angle. */
static double first_fall(const msi_pb_model *m, int class_id, double freq_hz, double level)
{
    const double step = m->family->scale_rad(m, class_id, freq_hz) / 64;
    double low = 0, high = step, value = 1;
    for (int i = 1; i < 64 * 64 && low < MSI_PI; i++, low = high, high = step * i) {
        const double next = power_at(m, class_id, freq_hz, high);
        if (next > value) { /* the minimum is between the last three angles */
            low -= step;
            for (int k = 0; k < 60; k++) {
                const double p = low + (high - low) / 3, q = high - (high - low) / 3;
                if (power_at(m, class_id, freq_hz, p) < power_at(m, class_id, freq_hz, q))
                    high = q;
                else
                    low = p;
            }
            return fmin(low, MSI_PI);
        }
        if (next <= level) {
            for (int k = 0; k < 50; k++) {
                const double middle = 0.5 * (low + high);
                if (power_at(m, class_id, freq_hz, middle) <= level)
                    high = middle;
                else
                    low = middle;
            }
            return fmin(low, MSI_PI);
        }
        value = next;
    }
    return MSI_PI;
}

/* ---- The feeds of the VLA ---- */

/* Offset of the beam of feed R from the pointing, at 1 GHz. The beam of L has the opposite offset. The table has the
 * direction of the offset in each band, as an angle from up towards increasing azimuth. Stokes I agrees with the series
 * within 0.1 %. */
static const double VLA_SQUINT_ARCMIN = 1.21;
static const struct {
    double end_mhz, angle_deg;
} vla_squint[] = {{700, NAN},    {2000, -185.9}, {4000, -11.61}, {8000, -104.8},  {12000, -113.7},
                  {18000, 42.4}, {26500, 64.4},  {40000, 106.9}, {INFINITY, 85.5}};

static void squint_jones(const msi_pb_model *m, double freq_hz, const msi_pb_direction *direction, msi_c64 jones[4])
{
    double voltage[2];
    int i = 0;
    while (1e-6 * freq_hz > vla_squint[i].end_mhz) i++;
    const double angle = vla_squint[i].angle_deg * MSI_PI / 180,
                 size = isfinite(angle) ? VLA_SQUINT_ARCMIN * ARCMIN / (1e-9 * freq_hz) : 0,
                 x = size > 0 ? size * sin(angle) : 0, y = size > 0 ? size * cos(angle) : 0;
    for (int k = 0; k < 2; k++)
        voltage[k] =
            series_voltage(m, 0, freq_hz, hypot(direction->x_rad - (k ? -x : x), direction->y_rad - (k ? -y : y)));
    /* From circular to linear feeds, with R = (X + i Y) / sqrt(2). */
    const double half = 0.5 * (voltage[0] - voltage[1]);
    jones[0] = jones[3] = (msi_c64){0.5 * (voltage[0] + voltage[1]), 0};
    jones[1] = (msi_c64){0, half};
    jones[2] = (msi_c64){0, -half};
}

/* Return the angle at which the beam without offsets falls to a power. */
static double squint_fall(const msi_pb_model *m, double freq_hz, double level)
{
    msi_pb_model symmetric = *m;
    symmetric.family = &polynomial_family;
    return first_fall(&symmetric, 0, freq_hz, level);
}

static double squint_width(const msi_pb_model *m, double freq_hz)
{
    return 2 * squint_fall(m, freq_hz, 0.5);
}

static double squint_limit(const msi_pb_model *m, double freq_hz)
{
    return squint_fall(m, freq_hz, polynomial_family.end_power);
}

static const family squint_family = {
    .mount = MSI_PB_ALTAZ, .jones = squint_jones, .width = squint_width, .limit = squint_limit};

static int read_poly(msi_pb_model *m, const char *word, const char *text, char note[MSI_PB_NOTE])
{
    m->own = (msi_pb_series){.scale = {1, 1, 1, 1, 1}, .n_band = 1, .band = &m->own_band};
    m->own_band = (msi_pb_band){.name = "", .high_mhz = INFINITY, .n_row = 1, .row = &m->own_row};
    m->family = &polynomial_family;
    m->series = &m->own;
    m->n_class = 1;
    const int n = read_numbers(m->own_row.coefficient, MSI_PB_TERMS, text);
    if (!n)
        return msi_error_set(
            MSI_EUSAGE,
            "-pb %s: give 1 to %d coefficients of the even powers of arcmin GHz, such as poly:-1.3e-3,6.5e-7", word,
            MSI_PB_TERMS);
    double half = m->own_row.coefficient[0] < 0 ? first_fall(m, 0, 1e12, 0.5) : 0;
    if (half == 0 || power_at(m, 0, 1e12, half) > 0.501)
        return msi_error_set(
            MSI_EUSAGE, "-pb %s: the power 1 + a x^2 + b x^4 .. must fall from 1 to 0.5: check signs and powers of ten",
            word);
    MSI_TRY(check_width(word, 2e3 * half / ARCMIN));
    snprintf(m->name, sizeof m->name, "polynomial");
    snprintf(note, MSI_PB_NOTE, "polynomial of %d given coefficient%s, to its first minimum or power 0.05", n,
             msi_plural(n));
    return MSI_OK;
}

static const struct {
    const char *start;
    int (*read)(msi_pb_model *m, const char *word, const char *text, char note[MSI_PB_NOTE]);
} with_numbers[] = {{"airy:", read_airy}, {"gauss:", read_gauss}, {"poly:", read_poly}};

enum { N_WITH_NUMBERS = sizeof with_numbers / sizeof *with_numbers };

/* ---- Telescopes ---- */

static int is_near(double mhz, double low_mhz, double high_mhz)
{
    return mhz >= 0.95 * low_mhz && mhz <= 1.05 * high_mhz;
}

/* Set the error for channels outside of a model. Given: bands  the frequencies of the model, as text */
static int refuse_channels(const msi_pb_set *set, const char *model, const char *bands)
{
    return msi_error_set(MSI_EINPUT,
                         "no primary beam for channels from %g to %g MHz: the model of %s is for %s; select channels, "
                         "or give -pb airy:D with the diameter in metres",
                         1e-6 * set->low_hz, 1e-6 * set->high_hz, model, bands);
}

/* Append to a note the frequencies for which end values are used. */
static void note_outside(char note[MSI_PB_NOTE], const msi_pb_set *set, double low_mhz, double high_mhz)
{
    const double first = 1e-6 * set->low_hz, last = 1e-6 * set->high_hz;
    const size_t n = strlen(note);
    if (first < low_mhz || last > high_mhz)
        snprintf(
            note + n, MSI_PB_NOTE - n,
            "; the channels from %g to %g MHz extend beyond the model's range, where the values of its ends are used",
            first, last);
}

static int make_meerkat(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    const double middle = 0.5e-6 * (set->low_hz + set->high_hz);
    int i = 0;
    while (i + 1 < MSI_PB_MEERKAT_BANDS && middle > 0.5 * (msi_pb_meerkat[i].high_mhz + msi_pb_meerkat[i + 1].low_mhz))
        i++;
    const msi_pb_feed_band *band = &msi_pb_meerkat[i];
    if (!is_near(1e-6 * set->low_hz, band->low_mhz, band->high_mhz) ||
        !is_near(1e-6 * set->high_hz, band->low_mhz, band->high_mhz))
        return refuse_channels(set, "MeerKAT",
                               "one of UHF (544 to 1088 MHz), L (856 to 1712 MHz), S (1750 to 3500 MHz)");
    m->family = &meerkat_family;
    m->n_class = 1;
    m->feeds = band;
    const double low_mhz = band->row[0].mhz, high_mhz = band->row[band->n_row - 1].mhz;
    snprintf(m->name, sizeof m->name, "MeerKAT %s", band->name);
    snprintf(note, MSI_PB_NOTE, "MeerKAT %s, cosine tapers of both feeds (katbeam), %g to %g MHz", band->name, low_mhz,
             high_mhz);
    note_outside(note, set, low_mhz, high_mhz);
    return MSI_OK;
}

/* Choose a published series. Given: source  for the note */
static int set_series(msi_pb_model *m, const msi_pb_series *series, const char *telescope, const char *source,
                      const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    const double first = 1e-6 * set->low_hz, last = 1e-6 * set->high_hz;
    const msi_pb_band *low = band_at(series, first), *high = band_at(series, last),
                      *middle = band_at(series, 0.5 * (first + last));
    char bands[400] = "";
    for (int i = 0, n = 0; i < series->n_band; i++)
        n += snprintf(bands + n, sizeof bands - (size_t)n, "%s%s (%g to %g MHz)", i ? ", " : "", series->band[i].name,
                      series->band[i].low_mhz, series->band[i].high_mhz);
    if (!is_near(first, low->low_mhz, low->high_mhz) || !is_near(last, high->low_mhz, high->high_mhz))
        return refuse_channels(set, telescope, bands);
    m->family = series->is_inverse ? &inverse_family : &polynomial_family;
    m->n_class = 1;
    m->series = series;
    const double low_mhz = low->n_row > 1 ? low->row[0].mhz : low->low_mhz,
                 high_mhz = high->n_row > 1 ? high->row[high->n_row - 1].mhz : high->high_mhz;
    snprintf(m->name, sizeof m->name, "%s %s", telescope, middle->name);
    snprintf(note, MSI_PB_NOTE, "%s, polynomials of %s, %g to %g MHz", m->name, source, low_mhz, high_mhz);
    note_outside(note, set, low_mhz, high_mhz);
    return MSI_OK;
}

/* Return 1 if all samples are older than a modified Julian date. */
static int is_before(const msi_pb_set *set, double mjd)
{
    return set->last_s > 0 && set->first_s <= set->last_s && set->last_s < mjd * 86400;
}

static int make_vla(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    /* The old correlator was switched off in January 2010, and new receivers came with the new one. */
    if (is_before(set, 55208)) return set_series(m, &msi_pb_old_vla, "VLA before 2010,", "AIPS (PBPARM)", set, note);
    return set_series(m, &msi_pb_vla, "VLA", "EVLA memo 195", set, note);
}

static int make_vla_squint(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    MSI_TRY(make_vla(m, set, note));
    if (!set->is_circular)
        return msi_error_set(MSI_EINPUT,
                             "-pb vla-squint: it needs feeds R and L, but the feeds of the set are linear; give "
                             "-pb vla");
    m->family = &squint_family;
    const size_t n = strlen(note);
    snprintf(note + n, MSI_PB_NOTE - n, "; R and L are 2.42 arcmin GHz apart");
    return MSI_OK;
}

static int make_atca(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    if (is_before(set, 54922)) return set_series(m, &msi_pb_old_atca, "ATCA before CABB,", "Miriad", set, note);
    return set_series(m, &msi_pb_atca, "ATCA", "Miriad", set, note);
}

static int make_gmrt(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    return set_series(m, &msi_pb_gmrt, "GMRT", "NCRA 2022", set, note);
}

/* A kind of dish of a telescope. */
typedef struct dish_kind {
    double diameter_m; /* DISH_DIAMETER within 0.5 m */
    const char *start; /* prefix of the names of such antennas, used if the diameter is unknown; NULL: any name */
    airy_dish dish;
} dish_kind;

static int kind_of(const dish_kind kind[2], const msi_pb_set *set, int64_t antenna)
{
    const double diameter_m = set->diameter_m ? set->diameter_m[antenna] : 0;
    const char *name = set->name ? set->name[antenna] : "";
    for (int k = 0; k < 2; k++)
        if (diameter_m > 0 ? fabs(diameter_m - kind[k].diameter_m) <= 0.5
                           : !kind[k].start || strncasecmp(name, kind[k].start, strlen(kind[k].start)) == 0)
            return k;
    return msi_error_set(
        MSI_EINPUT,
        "no primary beam for antenna %s of %s: its DISH_DIAMETER is %g m, the model is for %g and %g m; "
        "give -pb airy:D with the diameter in metres",
        name, set->telescope, diameter_m, kind[0].diameter_m, kind[1].diameter_m);
}

/* Divide the antennas into classes by their diameters. Kinds without an antenna get no class. */
static int set_dishes(msi_pb_model *m, const char *telescope, const dish_kind kind[2], const msi_pb_set *set,
                      char note[MSI_PB_NOTE])
{
    int64_t count[2] = {0, 0};
    for (int64_t a = 0; a < set->n_antenna; a++) {
        const int k = kind_of(kind, set, a);
        if (k < 0) return k;
        m->class_of[a] = (uint8_t)k;
        count[k]++;
    }
    m->family = &airy_family;
    int n = snprintf(note, MSI_PB_NOTE, "%s, Airy discs:", telescope);
    for (int k = 0; k < 2; k++) {
        if (!count[k] && (k == 0 || count[0])) continue;
        const airy_dish *dish = &kind[k].dish;
        n += snprintf(note + n, MSI_PB_NOTE - (size_t)n, "%s %lld antenna%s of %g m", m->n_class ? "," : "",
                      (long long)count[k], msi_plural(count[k]), dish->diameter_m);
        if (dish->blockage_m > 0)
            n += snprintf(note + n, MSI_PB_NOTE - (size_t)n, " with a blockage of %g m", dish->blockage_m);
        m->dish[m->n_class++] = *dish;
    }
    for (int64_t a = 0; a < set->n_antenna; a++)
        if (m->n_class == 1) m->class_of[a] = 0;
    snprintf(m->name, sizeof m->name, "%s Airy", telescope);
    return MSI_OK;
}

static int make_alma(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    /* Effective diameters that CASA uses. */
    static const dish_kind kind[2] = {{7, "CM", {6.25, 0.75}}, {12, NULL, {10.7, 0.75}}};
    return set_dishes(m, "ALMA", kind, set, note);
}

static int make_ska_mid(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    /* Offset dishes without blockage. Dishes of 13.5 m are MeerKAT's. */
    static const dish_kind kind[2] = {{13.5, "M", {13.5, 0}}, {15, NULL, {15, 0}}};
    return set_dishes(m, "SKA-Mid", kind, set, note);
}

static int make_askap(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    (void)set;
    set_gauss(m, 1.09 * MSI_SPEED_OF_LIGHT / 12);
    snprintf(m->name, sizeof m->name, "ASKAP Gaussian");
    snprintf(note, MSI_PB_NOTE,
             "ASKAP, a Gaussian of 1.09 lambda / 12 m: a rough fallback, because each formed beam has its own shape");
    return MSI_OK;
}

static int make_mwa(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    int n_on = 0;
    if (!set->delay)
        return msi_error_set(MSI_EINPUT,
                             "no primary beam of %s: the delays of its tiles are unknown, because the set has no "
                             "column DELAYS in MWA_TILE_POINTING; give -pb off",
                             set->telescope);
    if (set->delays_differ)
        return msi_error_set(
            MSI_EINPUT,
            "no primary beam of %s: MWA_TILE_POINTING has pointings with different delays; split the set "
            "by pointings",
            set->telescope);
    for (int k = 0; k < TILE_DIPOLES; k++) {
        if (set->delay[k] < 0 || set->delay[k] > DIPOLE_OFF)
            return msi_error_set(MSI_EINPUT, "no primary beam of %s: the delay of dipole %d is %d, not 0 to %d",
                                 set->telescope, k, (int)set->delay[k], DIPOLE_OFF);
        m->delay[k] = set->delay[k];
        n_on += set->delay[k] < DIPOLE_OFF;
    }
    if (!n_on)
        return msi_error_set(MSI_EINPUT, "no primary beam of %s: all delays are %d, which switches a dipole off",
                             set->telescope, DIPOLE_OFF);
    if (!is_near(1e-6 * set->low_hz, 70, 300) || !is_near(1e-6 * set->high_hz, 70, 300))
        return refuse_channels(set, "MWA", "70 to 300 MHz");
    m->family = &tile_family;
    m->n_class = 1;
    snprintf(m->name, sizeof m->name, "MWA analytic");
    snprintf(
        note, MSI_PB_NOTE,
        "MWA, analytic tile of %d dipoles: within some per cent in the main lobe below 180 MHz, poor in sidelobes and "
        "above 200 MHz",
        n_on);
    return MSI_OK;
}

/* Return 1 if two names differ only in case and separators. */
static int is_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "-_ ");
        b += strspn(b, "-_ ");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return 0;
        if (!*a) return 1;
    }
}

static int make_lofar(msi_pb_model *m, const char *folder, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    MSI_TRY(msi_pb_stations_make(&m->stations, folder, set, note));
    m->family = &stations_family;
    set_stations(m, set);
    snprintf(m->name, sizeof m->name, "LOFAR %s", msi_pb_stations_has_tiles(m->stations) ? "HBA" : "LBA");
    return MSI_OK;
}

/* Return the folder of lofar:FOLDER; NULL for other words. */
static const char *lofar_folder(const char *word)
{
    return strncmp(word, "lofar:", 6) == 0 && word[6] ? word + 6 : NULL;
}

static int is_lofar(const char *word, const char *telescope)
{
    return lofar_folder(word) || strcmp(word, "lofar") == 0 ||
           (strcmp(word, "auto") == 0 && is_same_name(telescope, "LOFAR"));
}

static const struct {
    const char *word;
    int (*make)(msi_pb_model *m, const msi_pb_set *set, char note[MSI_PB_NOTE]);
    const char *telescope[3]; /* names for `auto` */
} named[] = {
    {"meerkat", make_meerkat, {"MeerKAT"}},
    {"vla", make_vla, {"EVLA", "VLA", "JVLA"}},
    {"atca", make_atca, {"ATCA"}},
    {"gmrt", make_gmrt, {"GMRT", "uGMRT"}},
    {"alma", make_alma, {"ALMA", "ACA"}},
    {"askap", make_askap, {"ASKAP"}},
    {"ska-mid", make_ska_mid, {"SKA-Mid", "SKA1-Mid", "MeerKAT+"}},
    {"mwa-analytic", make_mwa, {"MWA"}},
    {"vla-squint", make_vla_squint, {NULL}},
};

enum { N_NAMED = sizeof named / sizeof *named };

/* Arrays of dipoles whose beams follow from their station layouts. */
static const char *const without_model[] = {"SKA-Low", "OVRO-LWA", "OVRO-MMA", "LWA", "NenuFAR", "AARTFAAC"};

enum { WORDS_BYTES = 256 };

/* Write the values of -pb into a text. */
static const char *list_words(char text[WORDS_BYTES])
{
    int n = 0;
    for (int i = 0; i < N_NAMED; i++) n += snprintf(text + n, WORDS_BYTES - (size_t)n, "%s, ", named[i].word);
    snprintf(text + n, WORDS_BYTES - (size_t)n,
             "lofar, airy:25 (dishes of 25 m), gauss:60amin@1.4GHz, poly:a,b,c or FILE.fits");
    return text;
}

/* Return the index of the model of a set's telescope, or MSI_EINPUT. */
static int find_telescope(const msi_pb_set *set)
{
    char words[WORDS_BYTES], dishes[64] = "";
    const char *telescope = set->telescope;
    int is_one = set->n_antenna > 0;
    for (int i = 0; i < N_NAMED; i++)
        for (int k = 0; k < 3 && named[i].telescope[k]; k++)
            if (is_same_name(telescope, named[i].telescope[k])) return i;
    for (size_t i = 0; i < sizeof without_model / sizeof *without_model; i++)
        if (is_same_name(telescope, without_model[i]))
            return msi_error_set(
                MSI_EINPUT,
                "there is no model of the primary beam of %s, whose stations are arrays of dipoles: give -pb FILE.fits "
                "from 'python -m msimage.beam', or -pb off",
                without_model[i]);
    for (int64_t i = 0; is_one && i < set->n_antenna; i++)
        is_one = set->diameter_m && set->diameter_m[i] > 0 && fabs(set->diameter_m[i] - set->diameter_m[0]) < 1e-3;
    if (is_one) snprintf(dishes, sizeof dishes, "-pb airy:%.4g, by its DISH_DIAMETER, or ", set->diameter_m[0]);
    return msi_error_set(MSI_EINPUT, "there is no model of the primary beam of telescope '%s': give %s-pb %s",
                         telescope, dishes, list_words(words));
}

/* Return the index in with_numbers, or -1. */
static int find_with_numbers(const char *word)
{
    for (int i = 0; i < N_WITH_NUMBERS; i++)
        if (strncmp(word, with_numbers[i].start, strlen(with_numbers[i].start)) == 0) return i;
    return -1;
}

/* Return the index in named, or MSI_EUSAGE. */
static int find_named(const char *word)
{
    char words[WORDS_BYTES];
    for (int i = 0; i < N_NAMED; i++)
        if (strcmp(word, named[i].word) == 0) return i;
    return msi_error_set(MSI_EUSAGE, "-pb %s: give auto, off, %s", word, list_words(words));
}

int msi_pb_model_check(const char *word)
{
    char note[MSI_PB_NOTE];
    msi_pb_model scratch = {0};
    const int i = find_with_numbers(word);
    if (msi_pb_file_is_word(word)) return MSI_OK;
    if (i >= 0) return with_numbers[i].read(&scratch, word, word + strlen(with_numbers[i].start), note);
    if (strcmp(word, "auto") == 0 || strcmp(word, "off") == 0 || is_lofar(word, "")) return MSI_OK;
    const int found = find_named(word);
    return found < 0 ? found : MSI_OK;
}

int msi_pb_model_make(msi_pb_model **out, const char *word, const msi_pb_set *set, char note[MSI_PB_NOTE])
{
    msi_pb_model *m;
    *out = NULL;
    MSI_TRY(msi_alloc(&m, 1, sizeof *m, "primary beam"));
    int rc = msi_alloc(&m->class_of, set->n_antenna, sizeof *m->class_of, "primary beam");
    const int i = find_with_numbers(word);
    if (!rc && msi_pb_file_is_word(word)) {
        rc = make_file(m, word, set, note);
    } else if (!rc && i >= 0) {
        rc = with_numbers[i].read(m, word, word + strlen(with_numbers[i].start), note);
    } else if (!rc && is_lofar(word, set->telescope)) {
        rc = make_lofar(m, lofar_folder(word), set, note);
    } else if (!rc) {
        const int k = strcmp(word, "auto") == 0 ? find_telescope(set) : find_named(word);
        rc = k < 0 ? k : named[k].make(m, set, note);
    }
    if (rc) {
        msi_pb_model_free(m);
        return rc;
    }
    *out = m;
    return MSI_OK;
}

void msi_pb_model_free(msi_pb_model *m)
{
    if (!m) return;
    msi_free(m->class_of);
    for (int k = 0; k < MSI_PB_CLASSES; k++) msi_pb_file_free(m->file[k]);
    msi_pb_stations_free(m->stations);
    msi_pb_cube_free(m->cube);
    msi_free(m);
}

const char *msi_pb_model_name(const msi_pb_model *m)
{
    return m->name;
}

msi_pb_mount msi_pb_model_mount(const msi_pb_model *m)
{
    return m->family->mount;
}

int msi_pb_model_is_scalar(const msi_pb_model *m)
{
    return m->family->voltage != NULL;
}

int msi_pb_model_has_stations(const msi_pb_model *m)
{
    return m->stations || (m->cube && msi_pb_cube_has_stations(m->cube));
}

int msi_pb_model_word_has_stations(const char *word)
{
    return msi_pb_file_is_word(word) && msi_pb_cube_antennas(word) > 1;
}

int msi_pb_model_is_on_sky(const msi_pb_model *m)
{
    return m->cube != NULL;
}

int msi_pb_model_covers(const msi_pb_model *m, const double *sky)
{
    return !m->cube || msi_pb_cube_covers(m->cube, sky);
}

int msi_pb_model_classes(const msi_pb_model *m, const uint8_t **class_of)
{
    *class_of = m->class_of;
    return m->n_class;
}

double msi_pb_model_limit(const msi_pb_model *m, int class_id, double freq_hz)
{
    const family *f = m->family;
    if (m->file[0]) return msi_pb_file_limit(m->file[class_id]);
    if (!f->voltage) return f->limit ? f->limit(m, freq_hz) : MSI_PI;
    const double radius = m->series && m->series->limit_x > 0 ? m->series->limit_x * ARCMIN / (1e-9 * freq_hz) : MSI_PI;
    return fmin(radius, f->end_power < 0 ? MSI_PI : first_fall(m, class_id, freq_hz, f->end_power));
}

double msi_pb_model_width(const msi_pb_model *m, int class_id, double freq_hz)
{
    if (m->file[0]) return msi_pb_file_width(m->file[class_id], freq_hz);
    if (m->family->width) return m->family->width(m, freq_hz);
    return 2 * first_fall(m, class_id, freq_hz, 0.5);
}

void msi_pb_model_jones(const msi_pb_model *m, int class_id, double freq_hz, const msi_pb_direction *direction,
                        msi_c64 jones[4])
{
    if (m->stations) {
        msi_pb_stations_jones(m->stations, class_id, freq_hz, direction, direction->part, jones);
        return;
    }
    if (m->cube) {
        msi_pb_cube_jones(m->cube, class_id, freq_hz, direction, jones);
        return;
    }
    if (m->file[0]) {
        msi_pb_file_jones(m->file[class_id], freq_hz, direction, jones);
        return;
    }
    if (!m->family->voltage) {
        m->family->jones(m, freq_hz, direction, jones);
        return;
    }
    const double x = direction->x_rad, y = direction->y_rad;
    jones[0] = jones[3] = (msi_c64){m->family->voltage(m, class_id, freq_hz, sqrt(x * x + y * y)), 0};
    jones[1] = jones[2] = (msi_c64){0, 0};
}
