/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/makems_options.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "core/units.h"
#include "testdata/point_model.h"

typedef struct unit {
    const char *name;
    double factor;
} unit;

/* If a number has no unit, the message suggests the first two of these. */
static const unit hour_units[] = {{"h", MSI_PI / 12}, {"deg", MSI_PI / 180}, {"rad", 1}, {NULL, 0}};
static const unit freq_units[] = {{"MHz", 1e6}, {"GHz", 1e9}, {"kHz", 1e3}, {"Hz", 1}, {NULL, 0}};
static const unit time_units[] = {{"s", 1}, {"h", 3600}, {"min", 60}, {"ms", 1e-3}, {"d", 86400}, {NULL, 0}};
static const unit flux_units[] = {{"Jy", 1}, {"mJy", 1e-3}, {"uJy", 1e-6}, {NULL, 0}};

/* Read the number at the start of text. Returns the end of the number, or text if there is none. */
static const char *end_of_number(double *out, const char *text)
{
    const char *digits = text + (*text == '-' || *text == '+');
    *out = 0;
    if (!strchr(".0123456789", *digits) || !*digits || digits[1] == 'x' || digits[1] == 'X') return text;
    char *end;
    *out = strtod(text, &end);
    return isfinite(*out) ? end : text;
}

static const unit *find_unit(const unit *units, const char *name)
{
    while (units->name && strcmp(units->name, name) != 0) units++;
    return units->name ? units : NULL;
}

static int with_unit(double *out, const char *what, const char *text, const unit *units)
{
    double value;
    const char *end = end_of_number(&value, text);
    const unit *u = find_unit(units, end);
    if (end == text)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a number and a unit, such as 2%s", what, text, units[0].name);
    if (!*end)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a unit, %s%s or %s%s?", what, text, text, units[0].name, text,
                             units[1].name);
    if (!u) {
        char names[64] = "";
        for (u = units; u->name; u++) snprintf(names + strlen(names), sizeof names - strlen(names), " %s", u->name);
        return msi_error_set(MSI_EUSAGE, "%s %s: unknown unit '%s'; use one of%s", what, text, end, names);
    }
    *out = value * u->factor;
    return MSI_OK;
}

/*
 * quantity_hour, quantity_freq, quantity_time, quantity_flux - parse a number with a unit. A number without a unit is
 * an error, whose message suggests one.
 *
 * Given:    what  the option's spelling, for messages; text  the whole argument
 * Returned: *out  radians, hertz, seconds or jansky
 * Returns:  0, MSI_EUSAGE
 *
 * Units: hour  h deg rad; freq  Hz kHz MHz GHz; time  ms s min h d; flux  uJy mJy Jy
 */
static int quantity_hour(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, hour_units);
}

static int quantity_freq(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, freq_units);
}

static int quantity_time(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, time_units);
}

static int quantity_flux(double *out, const char *what, const char *text)
{
    return with_unit(out, what, text, flux_units);
}

/* Return whether text is a number with a unit of flux. */
static int quantity_is_flux(const char *text)
{
    double value;
    const char *end = end_of_number(&value, text);
    return end != text && find_unit(flux_units, end);
}

/* Read an integer from min to max. */
static int quantity_count(int64_t *out, const char *what, const char *text, int64_t min, int64_t max)
{
    MSI_TRY(msi_parse_integer(out, what, text));
    if (*out < min || *out > max)
        return msi_error_set(MSI_EUSAGE, "%s %s: give a number from %lld to %lld", what, text, (long long)min,
                             (long long)max);
    return MSI_OK;
}

/* Read 2024-01-31T12:34:56 or 2024-01-31, UTC, as MJD seconds. */
static int quantity_date(double *mjd_s, const char *what, const char *text)
{
    int year, month, day, hour = 0, minute = 0, n = 0;
    double second = 0;
    int given = sscanf(text, "%4d-%2d-%2d%nT%2d:%2d:%lf%n", &year, &month, &day, &n, &hour, &minute, &second, &n);
    if ((given != 3 && given != 6) || text[n] || year < 1859 || month < 1 || month > 12 || day < 1 || day > 31 ||
        hour < 0 || hour > 23 || minute < 0 || minute > 59 || !(second >= 0 && second < 60))
        return msi_error_set(MSI_EUSAGE, "%s %s: give a date such as 2024-01-31T12:34:56", what, text);
    /* Days of the Gregorian calendar, with years that begin in March so that leap days come last. */
    int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;
    int64_t days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1;
    const int64_t mjd_of_0000_03_01 = -678881;
    *mjd_s = ((double)(days + mjd_of_0000_03_01) * 24 + hour) * 3600 + minute * 60 + second;
    return MSI_OK;
}

/* The options on the command line. All other values are computed when every option has been read. */
typedef struct given {
    msi_makems_options out;
    char what[48]; /* the spelling of the option that is being read */
    int telescope; /* index into telescopes[]; -1: not given */
    const char *layout_file;
    char config;
    int64_t n_station, layout_seed;
    double ra_rad, dec_rad, start_hour_rad; /* NaN: not given */
    double duration_s;
    int n_corr;
    msi_pol corr[MSI_MAX_CORR];
    int n_random;
    uint64_t random_seed;
    double random_width_rad;
} given;

typedef struct option option;

/* Read the values of an option, arg[0] .. arg[n - 1]. *used is its arity; options of variable arity set it. */
typedef int (*reader)(given *g, const option *o, char **arg, int n, int *used);

/* Read a number with its unit; `what` begins the message of a failure. */
typedef int (*quantity)(double *out, const char *what, const char *text);

enum { VARIABLE = -1 };

/* An option. The last members are parameters of readers that several options share. */
struct option {
    const char *name;
    int arity; /* or VARIABLE */
    const char *values, *help;
    reader read;
    size_t member;            /* offset in given */
    const char *const *words; /* read_word: ends with a NULL */
    quantity parse;           /* read_quantity */
    int64_t low, high;        /* read_count */
};

/* Make space for one more element of an array of n, whose capacity doubles. */
static int grow(void *array, int n, size_t size)
{
    void **p = array, *wider;
    if (n & (n - 1)) return MSI_OK;
    MSI_TRY(msi_alloc(&wider, n ? 2 * n : 1, size, "options"));
    if (n) memcpy(wider, *p, (size_t)n * size);
    msi_free(*p);
    *p = wider;
    return MSI_OK;
}

/* Set *out to the index of text among words, a list that ends with NULL. */
static int choose(int *out, const char *what, const char *text, const char *const *words)
{
    char all[256] = "";
    for (int i = 0; words[i]; i++) {
        if (!strcmp(text, words[i])) {
            *out = i;
            return MSI_OK;
        }
        size_t n = strlen(all);
        snprintf(all + n, sizeof all - n, " %s", words[i]);
    }
    return msi_error_set(MSI_EUSAGE, "%s %s: give one of%s", what, text, all);
}

#define READER(name) static int name(given *g, const option *o, char **arg, int n, int *used)
#define UNUSED_ARGS  (void)g, (void)o, (void)arg, (void)n, (void)used

static void *member(given *g, const option *o)
{
    return (char *)g + o->member;
}

/* The member is an enumeration or an index. */
READER(read_word)
{
    UNUSED_ARGS;
    return choose(member(g, o), g->what, arg[0], o->words);
}

READER(read_count)
{
    UNUSED_ARGS;
    return quantity_count(member(g, o), g->what, arg[0], o->low, o->high);
}

READER(read_quantity)
{
    UNUSED_ARGS;
    return o->parse(member(g, o), g->what, arg[0]);
}

READER(read_text)
{
    UNUSED_ARGS;
    *(const char **)member(g, o) = arg[0];
    return MSI_OK;
}

READER(read_switch)
{
    UNUSED_ARGS;
    *(int *)member(g, o) = 1;
    return MSI_OK;
}

READER(read_config)
{
    UNUSED_ARGS;
    if (strlen(arg[0]) != 1) return msi_error_set(MSI_EUSAGE, "%s %s: give one of A B C D", g->what, arg[0]);
    g->config = arg[0][0];
    return MSI_OK;
}

READER(read_field)
{
    UNUSED_ARGS;
    /* Element 0 is the field of -ra and -dec. */
    int at = ++g->out.spec.n_field;
    MSI_TRY(grow(&g->out.field, at, sizeof *g->out.field));
    MSI_TRY(msi_parse_ra(&g->out.field[at].ra_rad, g->what, arg[0]));
    return msi_parse_dec(&g->out.field[at].dec_rad, g->what, arg[1]);
}

READER(read_duration)
{
    UNUSED_ARGS;
    MSI_TRY(quantity_time(&g->duration_s, g->what, arg[0]));
    if (!(g->duration_s > 0)) return msi_error_set(MSI_EUSAGE, "%s %s: a duration must be positive", g->what, arg[0]);
    return MSI_OK;
}

READER(read_integration)
{
    UNUSED_ARGS;
    double *integration_s = &g->out.spec.integration_s;
    MSI_TRY(quantity_time(integration_s, g->what, arg[0]));
    if (!(*integration_s > 0))
        return msi_error_set(MSI_EUSAGE, "%s %s: an integration must be positive", g->what, arg[0]);
    return MSI_OK;
}

READER(read_spw)
{
    UNUSED_ARGS;
    int64_t n_chan;
    msi_makems_spec *spec = &g->out.spec;
    MSI_TRY(grow(&g->out.spw, spec->n_spw, sizeof *g->out.spw));
    msi_makems_spw *spw = &g->out.spw[spec->n_spw++];
    MSI_TRY(quantity_freq(&spw->first_freq_hz, g->what, arg[0]));
    MSI_TRY(quantity_freq(&spw->step_hz, g->what, arg[1]));
    MSI_TRY(quantity_count(&n_chan, g->what, arg[2], 1, 1 << 24));
    spw->n_chan = (int)n_chan;
    return MSI_OK;
}

READER(read_pol)
{
    UNUSED_ARGS;
    static const char *const lists[] = {"XX,XY,YX,YY", "XX,YY", "XX", "YY", "RR,RL,LR,LL", "RR,LL", "RR", "LL", NULL};
    static const msi_pol corr[][MSI_MAX_CORR] = {
        {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY}, {MSI_POL_XX, MSI_POL_YY}, {MSI_POL_XX}, {MSI_POL_YY},
        {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL}, {MSI_POL_RR, MSI_POL_LL}, {MSI_POL_RR}, {MSI_POL_LL}};
    int which = 0;
    MSI_TRY(choose(&which, g->what, arg[0], lists));
    memcpy(g->corr, corr[which], sizeof g->corr);
    g->n_corr = ((int)strlen(lists[which]) + 1) / 3;
    return MSI_OK;
}

READER(read_source)
{
    (void)o;
    msi_makems_spec *spec = &g->out.spec;
    int n_flux = 0;
    MSI_TRY(grow(&g->out.source, spec->n_source, sizeof *g->out.source));
    msi_makems_source *source = &g->out.source[spec->n_source++];
    if (n < 3) return msi_error_set(MSI_EUSAGE, "%s takes RA DEC I [Q U V] [INDEX]", g->what);
    MSI_TRY(msi_parse_ra(&source->ra_rad, g->what, arg[0]));
    MSI_TRY(msi_parse_dec(&source->dec_rad, g->what, arg[1]));
    MSI_TRY(quantity_flux(&source->stokes_jy[0], g->what, arg[2]));
    while (n_flux < 3 && 3 + n_flux < n && quantity_is_flux(arg[3 + n_flux])) n_flux++;
    if (n_flux != 0 && n_flux != 3) return msi_error_set(MSI_EUSAGE, "%s: give one flux, I, or four, I Q U V", g->what);
    for (int k = 0; k < n_flux; k++) MSI_TRY(quantity_flux(&source->stokes_jy[1 + k], g->what, arg[3 + k]));
    *used = 3 + n_flux;
    if (*used < n && msi_parse_real(&source->spectral_index, g->what, arg[*used]) == MSI_OK)
        (*used)++;
    else
        source->spectral_index = 0;
    return MSI_OK;
}

READER(read_random_sources)
{
    UNUSED_ARGS;
    int64_t count, seed;
    MSI_TRY(quantity_count(&count, g->what, arg[0], 1, 10000000));
    MSI_TRY(quantity_count(&seed, g->what, arg[1], 0, INT64_MAX));
    MSI_TRY(msi_parse_angle(&g->random_width_rad, g->what, arg[2]));
    if (!(g->random_width_rad > 0 && g->random_width_rad < sqrt(2)))
        return msi_error_set(MSI_EUSAGE, "%s %s: the side of the field must be more than 0 and less than 81 degrees",
                             g->what, arg[2]);
    g->n_random = (int)count;
    g->random_seed = (uint64_t)seed;
    return MSI_OK;
}

READER(read_model_image)
{
    UNUSED_ARGS;
    g->out.model.path = arg[0];
    MSI_TRY(quantity_count(&g->out.model.size, g->what, arg[1], 16, 65536));
    if (g->out.model.size % 2) return msi_error_set(MSI_EUSAGE, "%s: the size %s is not even", g->what, arg[1]);
    MSI_TRY(msi_parse_angle(&g->out.model.cell_rad, g->what, arg[2]));
    if (!(g->out.model.cell_rad > 0))
        return msi_error_set(MSI_EUSAGE, "%s %s: the size of a pixel must be positive", g->what, arg[2]);
    return MSI_OK;
}

READER(read_defect)
{
    UNUSED_ARGS;
    return msi_ms_defect_find(&g->out.spec.defect, arg[0]);
}

enum { VLA, MEERKAT, SKALOW }; /* in the order of telescopes[] */
static const char *const telescopes[] = {"vla", "meerkat", "skalow", NULL};
static const char *const telescope_names[] = {"VLA", "MeerKAT", "SKA-Low"};
/* Each list is in the order of its enumeration in makems.h. */
static const char *const spw_orders[] = {"time", "row", "separate", NULL};
static const char *const weights[] = {"natural", "radiometer", NULL};
static const char *const spectra[] = {"none", "full", "partly", NULL};
static const char *const columns[] = {"DATA", "CORRECTED_DATA", "both", NULL};
static const char *const storages[] = {"tiledshape", "tiledcolumn", "standard", NULL};
static_assert(sizeof(msi_makems_spw_order) == sizeof(int) && sizeof(msi_makems_weights) == sizeof(int) &&
                  sizeof(msi_makems_weight_spectrum) == sizeof(int) && sizeof(msi_makems_columns) == sizeof(int) &&
                  sizeof(msi_makems_storage) == sizeof(int),
              "read_word writes enumerations as int");

#define AT(name)            .member = offsetof(given, name)
#define OWN(reader)         reader, .member = 0
#define WORD(name, list)    read_word, AT(name), .words = list
#define COUNT(name, lo, hi) read_count, AT(name), .low = lo, .high = hi
#define QUANTITY(name, how) read_quantity, AT(name), .parse = how
#define TEXT(name)          read_text, AT(name)
#define SWITCH(name)        read_switch, AT(name)

static const option option_table[] = {
    {"telescope", 1, "vla|meerkat|skalow", "layout of the array (vla); with -layout-file, its name",
     WORD(telescope, telescopes)},
    {"config", 1, "A|B|C|D", "size of the VLA-like array (C)", OWN(read_config)},
    {"stations", 1, "N", "stations of the SKA-Low-like array (512)", COUNT(n_station, 2, 10000)},
    {"layout-seed", 1, "N", "seed of the MeerKAT-like and SKA-Low-like layouts (1)", COUNT(layout_seed, 0, INT64_MAX)},
    {"layout-file", 1, "FILE", "stations from a file: lines `X Y Z diameter name`, geocentric metres",
     TEXT(layout_file)},
    {"ra", 1, "RA", "phase centre (60deg)", QUANTITY(ra_rad, msi_parse_ra)},
    {"dec", 1, "DEC", "phase centre (10 degrees north of the array's zenith)", QUANTITY(dec_rad, msi_parse_dec)},
    {"field", 2, "RA DEC", "one more field; scans visit the fields in turn", OWN(read_field)},
    {"scan-length", 1, "N", "timesteps of a scan (all; 1 with several fields)",
     COUNT(out.spec.times_per_scan, 1, INT32_MAX)},
    {"start-ha", 1, "ANGLE", "hour angle at the start, such as -4h (half the duration before transit)",
     QUANTITY(start_hour_rad, quantity_hour)},
    {"start-time", 1, "DATE", "UTC at the start instead, such as 2024-01-31T12:34:56",
     QUANTITY(out.spec.start_mjd_s, quantity_date)},
    {"duration", 1, "TIME", "length of the observation (10min)", OWN(read_duration)},
    {"integration", 1, "TIME", "length of a timestep (10s)", OWN(read_integration)},
    {"spw", 3, "FIRST STEP N",
     "a spectral window: first channel's centre, channel width (negative: descending), channels; may be repeated",
     OWN(read_spw)},
    {"spw-order", 1, "time|row|separate", "order of the rows of several spws (time)",
     WORD(out.spec.spw_order, spw_orders)},
    {"pol", 1, "LIST", "XX,XY,YX,YY or XX,YY or XX or YY, or RR,RL,LR,LL or RR,LL or RR or LL (all four)",
     OWN(read_pol)},
    {"source", VARIABLE, "RA DEC I [Q U V] [INDEX]",
     "a point source, such as 60deg -45deg 1Jy -0.7; may be repeated (1 Jy at the centre)", OWN(read_source)},
    {"random-sources", 3, "N SEED WIDTH", "more sources of 0.1 to 1 Jy in a square field about the centre",
     OWN(read_random_sources)},
    {"model-image", 3, "FILE SIZE ANGLE",
     "write an image of the sources too: Stokes I in Jy/pixel, SIZE x SIZE pixels of ANGLE, each source on the nearest "
     "pixel",
     OWN(read_model_image)},
    {"reference-frequency", 1, "FREQ", "frequency of the sources' fluxes (middle of the band)",
     QUANTITY(out.spec.reference_freq_hz, quantity_freq)},
    {"noise", 1, "FLUX", "standard deviation of real and imaginary part at weight 1 (0Jy)",
     QUANTITY(out.spec.noise_jy, quantity_flux)},
    {"seed", 1, "N", "seed of noise, flags and weights (1)", COUNT(out.spec.seed, 0, INT64_MAX)},
    {"flags", 1, "FRACTION", "fraction of flagged samples, whose values are wrong (0)",
     QUANTITY(out.spec.flag_fraction, msi_parse_real)},
    {"flag-rows", 1, "FRACTION", "fraction of rows that are flagged in FLAG_ROW only (0)",
     QUANTITY(out.spec.flag_row_fraction, msi_parse_real)},
    {"weights", 1, "natural|radiometer", "all 1, or by the feeds' temperatures and a bandpass (natural)",
     WORD(out.spec.weights, weights)},
    {"weight-spectrum", 1, "none|full|partly", "column WEIGHT_SPECTRUM; partly: one cell of three has no value (full)",
     WORD(out.spec.weight_spectrum, spectra)},
    {"data-column", 1, "DATA|CORRECTED_DATA|both",
     "column of the visibilities; both: DATA has half of each value (DATA)", WORD(out.spec.columns, columns)},
    {"storage", 1, "tiledshape|tiledcolumn|standard", "storage manager of the large columns (tiledshape)",
     WORD(out.spec.storage, storages)},
    {"autocorrelations", 0, "", "write autocorrelations too", SWITCH(out.spec.autocorrelations)},
    {"defect", 1, "NAME", "put a defect into the set; an unknown name lists all defects (none)", OWN(read_defect)},
    {"overwrite", 0, "", "replace an existing Measurement Set", SWITCH(out.spec.overwrite)},
    {"list-sources", 0, "", "print the sources on stdout: RA and DEC in degrees, I Q U V in Jy, spectral index",
     SWITCH(out.list_sources)},
    {"j", 1, "N", "threads (all cores)", COUNT(out.n_thread, 1, 4096)},
    {"quiet", 0, "", "print errors only", SWITCH(out.quiet)},
    {"version", 0, "", "print the version", SWITCH(out.version)},
    {"help", 0, "", "print this", SWITCH(out.help)},
};

void msi_makems_options_help(FILE *f)
{
    fputs("usage: msimage-makems [options] OUT.ms\n"
          "Writes a Measurement Set with the exact visibilities of given point sources.\n\n",
          f);
    for (size_t i = 0; i < sizeof option_table / sizeof *option_table; i++)
        fprintf(f, "  -%s %s\n        %s\n", option_table[i].name, option_table[i].values, option_table[i].help);
    fputs("\nUnits: masec asec amin deg rad (RA also 08h24m07s, DEC also -42d59m48s), Hz kHz MHz GHz, ms s min h d, "
          "uJy mJy Jy.\n"
          "\nRight ascension and declination refer to the equator of date, but are written as J2000; UT1 is UTC.\n"
          "\nThe benchmark sets, of 29.0 and 16.7 million visibilities of 4 correlations each:\n"
          "  msimage-makems -telescope meerkat -ra 60deg -dec -45deg -duration 2h -integration 8s \\\n"
          "    -spw 882.75MHz 53.5MHz 16 -weight-spectrum none -storage tiledcolumn meerkat-2h.ms\n"
          "  msimage-makems -telescope skalow -ra 60deg -dec -10deg -start-ha -4h -duration 480s -integration 60s \\\n"
          "    -spw 101.25MHz 2.5MHz 16 -weight-spectrum none -storage tiledcolumn skalow-480s.ms\n"
          "With -duration 720s the first set has 2.9 million. -layout-file reads the stations of a real array.\n",
          f);
}

static const option *find_option(const char *text)
{
    const char *name = msi_parse_option_name(text);
    for (size_t i = 0; i < sizeof option_table / sizeof *option_table; i++)
        if (!strcmp(name, option_table[i].name)) return &option_table[i];
    return NULL;
}

static int read_arguments(given *g, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        if (argv[i][0] != '-' || !argv[i][1]) {
            if (g->out.path)
                return msi_error_set(MSI_EUSAGE, "%s and %s: only one Measurement Set can be written", g->out.path,
                                     argv[i]);
            g->out.path = argv[i++];
            continue;
        }
        const option *o = find_option(argv[i]);
        if (!o) return msi_error_set(MSI_EUSAGE, "%s: no such option; -help lists them", argv[i]);
        int left = argc - i - 1, used = o->arity;
        if (o->arity > left) return msi_error_set(MSI_EUSAGE, "-%s takes %s", o->name, o->values);
        snprintf(g->what, sizeof g->what, "-%s", o->name);
        MSI_TRY(o->read(g, o, argv + i + 1, left, &used));
        i += 1 + used;
    }
    if (!g->out.path && !g->out.help && !g->out.version)
        return msi_error_set(MSI_EUSAGE, "no Measurement Set given; usage: msimage-makems [options] OUT.ms");
    return MSI_OK;
}

/* Make the array of the telescope, or read the layout file. */
static int lay_out(given *g)
{
    msi_layout *layout = &g->out.layout;
    uint64_t seed = (uint64_t)g->layout_seed;
    g->out.spec.layout = layout;
    if (g->layout_file) {
        MSI_TRY(msi_layout_read(layout, g->layout_file));
        if (g->telescope >= 0)
            snprintf(layout->telescope, sizeof layout->telescope, "%s", telescope_names[g->telescope]);
        return MSI_OK;
    }
    if (g->telescope == MEERKAT) return msi_layout_meerkat(layout, seed);
    if (g->telescope == SKALOW) return msi_layout_skalow(layout, (int)g->n_station, seed);
    return msi_layout_vla(layout, g->config);
}

/* Set the fields, the scans and the times. */
static void set_fields(given *g)
{
    msi_makems_spec *spec = &g->out.spec;
    double zenith_rad = g->out.layout.latitude_rad, off_rad = MSI_PI / 18;
    msi_makems_field *field = g->out.field;
    field[0].ra_rad = isnan(g->ra_rad) ? MSI_PI / 3 : g->ra_rad;
    field[0].dec_rad = isnan(g->dec_rad) ? fmin(zenith_rad + off_rad, MSI_PI / 2) : g->dec_rad;
    spec->n_field++;
    spec->field = field;
    for (int i = 0; i < spec->n_field; i++) snprintf(field[i].name, sizeof field[i].name, "field%d", i);
    if (spec->n_field > 1 && spec->times_per_scan == 0) spec->times_per_scan = 1;
    spec->n_time = (int64_t)fmax(1, rint(g->duration_s / spec->integration_s));
    if (!isnan(g->start_hour_rad))
        spec->start_mjd_s = msi_makems_start(spec, g->start_hour_rad);
    else if (spec->start_mjd_s == 0)
        spec->start_mjd_s = msi_makems_start(spec, 0) - (double)spec->n_time * spec->integration_s / 2;
}

/* Set the channels and correlations; by default those of the telescope. */
static int set_spws(given *g)
{
    static const msi_pol all[2][MSI_MAX_CORR] = {{MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY},
                                                 {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL}};
    msi_makems_spec *spec = &g->out.spec;
    const msi_layout *layout = &g->out.layout;
    if (spec->n_spw == 0) {
        enum { N_CHAN = 16 };
        MSI_TRY(grow(&g->out.spw, 0, sizeof *g->out.spw));
        g->out.spw[0] = (msi_makems_spw){
            .n_chan = N_CHAN, .first_freq_hz = layout->first_freq_hz, .step_hz = layout->band_hz / N_CHAN};
        spec->n_spw = 1;
    }
    if (g->n_corr == 0) {
        g->n_corr = MSI_MAX_CORR;
        memcpy(g->corr, all[layout->circular_feeds], sizeof g->corr);
    }
    for (int w = 0; w < spec->n_spw; w++) {
        g->out.spw[w].n_corr = g->n_corr;
        memcpy(g->out.spw[w].corr, g->corr, sizeof g->corr);
    }
    spec->spw = g->out.spw;
    return MSI_OK;
}

/* Set the sources of -source and -random-sources; by default one of 1 Jy at the centre. */
static int set_sources(given *g)
{
    msi_makems_spec *spec = &g->out.spec;
    const msi_makems_field *centre = g->out.field;
    int n = spec->n_source + (g->n_random ? g->n_random : spec->n_source ? 0 : 1);
    msi_makems_source *all;
    MSI_TRY(msi_alloc(&all, n, sizeof *all, "sources"));
    if (spec->n_source) memcpy(all, g->out.source, (size_t)spec->n_source * sizeof *all);
    if (g->n_random)
        msi_makems_random_sources(all + spec->n_source, g->n_random, g->random_seed, centre->ra_rad, centre->dec_rad,
                                  g->random_width_rad);
    else if (!spec->n_source)
        all[0] = (msi_makems_source){.ra_rad = centre->ra_rad, .dec_rad = centre->dec_rad, .stokes_jy = {1, 0, 0, 0}};
    msi_free(g->out.source);
    spec->source = g->out.source = all;
    spec->n_source = n;
    return MSI_OK;
}

static int join(char **out, int argc, char **argv)
{
    size_t n = 1;
    for (int i = 0; i < argc; i++) n += strlen(argv[i]) + 1;
    char *p;
    MSI_TRY(msi_alloc(out, (int64_t)n, 1, "command line"));
    p = *out;
    for (int i = 0; i < argc; i++) p += sprintf(p, "%s%s", i ? " " : "", argv[i]);
    return MSI_OK;
}

static int read_all(given *g, int argc, char **argv)
{
    msi_makems_options *out = &g->out;
    MSI_TRY(grow(&out->field, 0, sizeof *out->field));
    MSI_TRY(read_arguments(g, argc, argv));
    if (out->help || out->version) return MSI_OK;
    MSI_TRY(join(&out->command, argc, argv));
    MSI_TRY(lay_out(g));
    set_fields(g);
    MSI_TRY(set_spws(g));
    MSI_TRY(set_sources(g));
    out->spec.command = out->command;
    out->spec.show_progress = !out->quiet;
    return MSI_OK;
}

int msi_makems_options_parse(msi_makems_options *options, int argc, char **argv)
{
    given g = {
        .out = {.spec = {.integration_s = 10, .seed = 1, .weight_spectrum = MSI_MAKEMS_SPECTRUM_FULL}},
        .telescope = -1,
        .config = 'C',
        .n_station = 512,
        .layout_seed = 1,
        .ra_rad = NAN,
        .dec_rad = NAN,
        .start_hour_rad = NAN,
        .duration_s = 600,
    };
    const int status = read_all(&g, argc, argv);
    *options = g.out;
    options->spec.layout = &options->layout;
    return status;
}

void msi_makems_options_free(msi_makems_options *options)
{
    msi_layout_free(&options->layout);
    msi_free(options->field);
    msi_free(options->spw);
    msi_free(options->source);
    msi_free(options->command);
    *options = (msi_makems_options){0};
}
