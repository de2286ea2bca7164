/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/makems_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/options/units.h"
#include "testdata/makems_quantity.h"
#include "testdata/sky_geometry.h"

/* What the options say before it is known what they leave open. */
typedef struct given {
    msi_makems_options *out;
    char what[48]; /* the spelling of the option that is being read */
    int telescope; /* index into telescopes[]; -1: not given */
    const char *layout_file;
    char config;
    int64_t n_station, layout_seed;
    int has_ra, has_dec, has_start_hour, has_start_time, n_corr;
    double ra_rad, dec_rad, start_hour_rad, duration_s;
    msi_pol corr[MSI_MAX_CORR];
    int n_random;
    uint64_t random_seed;
    double random_width_rad;
} given;

/* Reads an option's values, arg[0] .. arg[n - 1]; *used is arity on entry and may be set by options of variable arity.
 */
typedef int (*reader)(given *g, char **arg, int n, int *used);

enum { VARIABLE = -1 };

typedef struct option {
    const char *name;
    int arity; /* or VARIABLE */
    const char *values, *help;
    reader read;
} option;

/* Makes room for one more element of an array that grows by doubling. */
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

/* The index of text among words, which end with a NULL. */
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

#define READER(name) static int name(given *g, char **arg, int n, int *used)
#define UNUSED_ARGS  (void)g, (void)arg, (void)n, (void)used

enum { VLA, MEERKAT, SKALOW }; /* as telescopes[] lists them */
static const char *const telescopes[] = {"vla", "meerkat", "skalow", NULL};
static const char *const telescope_names[] = {"VLA", "MeerKAT", "SKA-Low"};

READER(read_telescope)
{
    UNUSED_ARGS;
    return choose(&g->telescope, g->what, arg[0], telescopes);
}

READER(read_config)
{
    UNUSED_ARGS;
    if (strlen(arg[0]) != 1) return msi_error_set(MSI_EUSAGE, "%s %s: give one of A B C D", g->what, arg[0]);
    g->config = arg[0][0];
    return MSI_OK;
}

READER(read_stations)
{
    UNUSED_ARGS;
    return msi_quantity_count(&g->n_station, g->what, arg[0], 2, 10000);
}

READER(read_layout_seed)
{
    UNUSED_ARGS;
    return msi_quantity_count(&g->layout_seed, g->what, arg[0], 0, INT64_MAX);
}

READER(read_layout_file)
{
    UNUSED_ARGS;
    g->layout_file = arg[0];
    return MSI_OK;
}

READER(read_ra)
{
    UNUSED_ARGS;
    g->has_ra = 1;
    return msi_parse_ra(&g->ra_rad, g->what, arg[0]);
}

READER(read_dec)
{
    UNUSED_ARGS;
    g->has_dec = 1;
    return msi_parse_dec(&g->dec_rad, g->what, arg[0]);
}

READER(read_field)
{
    UNUSED_ARGS;
    /* Element 0 is the first field, which -ra and -dec set. */
    int at = ++g->out->spec.n_field;
    MSI_TRY(grow(&g->out->field, at, sizeof *g->out->field));
    MSI_TRY(msi_parse_ra(&g->out->field[at].ra_rad, g->what, arg[0]));
    return msi_parse_dec(&g->out->field[at].dec_rad, g->what, arg[1]);
}

READER(read_scan_length)
{
    UNUSED_ARGS;
    int64_t length;
    MSI_TRY(msi_quantity_count(&length, g->what, arg[0], 1, INT32_MAX));
    g->out->spec.times_per_scan = length;
    return MSI_OK;
}

READER(read_start_ha)
{
    UNUSED_ARGS;
    g->has_start_hour = 1;
    return msi_quantity_hour(&g->start_hour_rad, g->what, arg[0]);
}

READER(read_start_time)
{
    UNUSED_ARGS;
    g->has_start_time = 1;
    return msi_quantity_date(&g->out->spec.start_mjd_s, g->what, arg[0]);
}

READER(read_duration)
{
    UNUSED_ARGS;
    MSI_TRY(msi_quantity_time(&g->duration_s, g->what, arg[0]));
    if (!(g->duration_s > 0)) return msi_error_set(MSI_EUSAGE, "%s %s: a duration is positive", g->what, arg[0]);
    return MSI_OK;
}

READER(read_integration)
{
    UNUSED_ARGS;
    double *integration_s = &g->out->spec.integration_s;
    MSI_TRY(msi_quantity_time(integration_s, g->what, arg[0]));
    if (!(*integration_s > 0)) return msi_error_set(MSI_EUSAGE, "%s %s: an integration is positive", g->what, arg[0]);
    return MSI_OK;
}

READER(read_spw)
{
    UNUSED_ARGS;
    int64_t n_chan;
    msi_makems_spec *spec = &g->out->spec;
    MSI_TRY(grow(&g->out->spw, spec->n_spw, sizeof *g->out->spw));
    msi_makems_spw *spw = &g->out->spw[spec->n_spw++];
    MSI_TRY(msi_quantity_freq(&spw->first_freq_hz, g->what, arg[0]));
    MSI_TRY(msi_quantity_freq(&spw->step_hz, g->what, arg[1]));
    MSI_TRY(msi_quantity_count(&n_chan, g->what, arg[2], 1, 1 << 24));
    spw->n_chan = (int)n_chan;
    return MSI_OK;
}

READER(read_spw_order)
{
    UNUSED_ARGS;
    static const char *const words[] = {"time", "row", "separate", NULL};
    int which = 0;
    MSI_TRY(choose(&which, g->what, arg[0], words));
    g->out->spec.spw_order = (msi_makems_spw_order)which;
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
    msi_makems_spec *spec = &g->out->spec;
    int n_flux = 0;
    MSI_TRY(grow(&g->out->source, spec->n_source, sizeof *g->out->source));
    msi_makems_source *source = &g->out->source[spec->n_source++];
    if (n < 3) return msi_error_set(MSI_EUSAGE, "%s takes RA DEC I [Q U V] [INDEX]", g->what);
    MSI_TRY(msi_parse_ra(&source->ra_rad, g->what, arg[0]));
    MSI_TRY(msi_parse_dec(&source->dec_rad, g->what, arg[1]));
    MSI_TRY(msi_quantity_flux(&source->stokes_jy[0], g->what, arg[2]));
    while (n_flux < 3 && 3 + n_flux < n && msi_quantity_is_flux(arg[3 + n_flux])) n_flux++;
    if (n_flux != 0 && n_flux != 3) return msi_error_set(MSI_EUSAGE, "%s: give one flux, I, or four, I Q U V", g->what);
    for (int k = 0; k < n_flux; k++) MSI_TRY(msi_quantity_flux(&source->stokes_jy[1 + k], g->what, arg[3 + k]));
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
    MSI_TRY(msi_quantity_count(&count, g->what, arg[0], 1, 10000000));
    MSI_TRY(msi_quantity_count(&seed, g->what, arg[1], 0, INT64_MAX));
    MSI_TRY(msi_parse_angle(&g->random_width_rad, g->what, arg[2]));
    if (!(g->random_width_rad > 0 && g->random_width_rad < sqrt(2)))
        return msi_error_set(MSI_EUSAGE, "%s %s: the field's side is more than 0 and less than 81 degrees", g->what,
                             arg[2]);
    g->n_random = (int)count;
    g->random_seed = (uint64_t)seed;
    return MSI_OK;
}

READER(read_reference_frequency)
{
    UNUSED_ARGS;
    return msi_quantity_freq(&g->out->spec.reference_freq_hz, g->what, arg[0]);
}

READER(read_seed)
{
    UNUSED_ARGS;
    int64_t seed;
    MSI_TRY(msi_quantity_count(&seed, g->what, arg[0], 0, INT64_MAX));
    g->out->spec.seed = (uint64_t)seed;
    return MSI_OK;
}

READER(read_noise)
{
    UNUSED_ARGS;
    return msi_quantity_flux(&g->out->spec.noise_jy, g->what, arg[0]);
}

READER(read_flags)
{
    UNUSED_ARGS;
    return msi_parse_real(&g->out->spec.flag_fraction, g->what, arg[0]);
}

READER(read_flag_rows)
{
    UNUSED_ARGS;
    return msi_parse_real(&g->out->spec.flag_row_fraction, g->what, arg[0]);
}

READER(read_weights)
{
    UNUSED_ARGS;
    static const char *const words[] = {"natural", "radiometer", NULL};
    int which = 0;
    MSI_TRY(choose(&which, g->what, arg[0], words));
    g->out->spec.weights = (msi_makems_weights)which;
    return MSI_OK;
}

READER(read_weight_spectrum)
{
    UNUSED_ARGS;
    static const char *const words[] = {"none", "full", "partly", NULL};
    int which = 0;
    MSI_TRY(choose(&which, g->what, arg[0], words));
    g->out->spec.weight_spectrum = (msi_makems_weight_spectrum)which;
    return MSI_OK;
}

READER(read_data_column)
{
    UNUSED_ARGS;
    static const char *const words[] = {"DATA", "CORRECTED_DATA", "both", NULL};
    int which = 0;
    MSI_TRY(choose(&which, g->what, arg[0], words));
    g->out->spec.columns = (msi_makems_columns)which;
    return MSI_OK;
}

READER(read_storage)
{
    UNUSED_ARGS;
    static const char *const words[] = {"tiledshape", "tiledcolumn", "standard", NULL};
    int which = 0;
    MSI_TRY(choose(&which, g->what, arg[0], words));
    g->out->spec.storage = (msi_makems_storage)which;
    return MSI_OK;
}

READER(read_defect)
{
    UNUSED_ARGS;
    return msi_ms_defect_find(&g->out->spec.defect, arg[0]);
}

READER(read_threads)
{
    UNUSED_ARGS;
    int64_t count;
    MSI_TRY(msi_quantity_count(&count, g->what, arg[0], 1, 4096));
    g->out->n_thread = (int)count;
    return MSI_OK;
}

#define SWITCH(name, member)                                                                                           \
    READER(name)                                                                                                       \
    {                                                                                                                  \
        UNUSED_ARGS;                                                                                                   \
        g->out->member = 1;                                                                                            \
        return MSI_OK;                                                                                                 \
    }
SWITCH(set_autocorrelations, spec.autocorrelations)
SWITCH(set_overwrite, spec.overwrite)
SWITCH(set_list_sources, list_sources)
SWITCH(set_quiet, quiet)
SWITCH(set_help, help)
SWITCH(set_version, version)

static const option option_table[] = {
    {"telescope", 1, "vla|meerkat|skalow", "array to lay out (vla); with -layout-file, what it is called",
     read_telescope},
    {"config", 1, "A|B|C|D", "size of the VLA-like array (C)", read_config},
    {"stations", 1, "N", "stations of the SKA-Low-like array (512)", read_stations},
    {"layout-seed", 1, "N", "seed of the MeerKAT-like and SKA-Low-like layouts (1)", read_layout_seed},
    {"layout-file", 1, "FILE", "stations from a file: lines `X Y Z diameter name`, geocentric metres",
     read_layout_file},
    {"ra", 1, "RA", "phase centre (60deg)", read_ra},
    {"dec", 1, "DEC", "phase centre (10 degrees north of the array's zenith)", read_dec},
    {"field", 2, "RA DEC", "one more field; scans visit the fields in turn", read_field},
    {"scan-length", 1, "N", "timesteps of a scan (all; 1 with several fields)", read_scan_length},
    {"start-ha", 1, "ANGLE", "hour angle at the start, such as -4h (half the duration before transit)", read_start_ha},
    {"start-time", 1, "DATE", "UTC at the start instead, such as 2024-01-31T12:34:56", read_start_time},
    {"duration", 1, "TIME", "length of the observation (10min)", read_duration},
    {"integration", 1, "TIME", "length of a timestep (10s)", read_integration},
    {"spw", 3, "FIRST STEP N",
     "a spectral window: first channel's centre, channel width (negative: descending), channels; may be repeated",
     read_spw},
    {"spw-order", 1, "time|row|separate", "how rows of several spws follow one another (time)", read_spw_order},
    {"pol", 1, "LIST", "XX,XY,YX,YY or XX,YY or XX or YY, or RR,RL,LR,LL or RR,LL or RR or LL (all four)", read_pol},
    {"source", VARIABLE, "RA DEC I [Q U V] [INDEX]",
     "a point source, such as 60deg -45deg 1Jy -0.7; may be repeated (1 Jy at the centre)", read_source},
    {"random-sources", 3, "N SEED WIDTH", "more sources of 0.1 to 1 Jy in a square field about the centre",
     read_random_sources},
    {"reference-frequency", 1, "FREQ", "where the sources have their fluxes (middle of the band)",
     read_reference_frequency},
    {"noise", 1, "FLUX", "standard deviation of real and imaginary part at weight 1 (0Jy)", read_noise},
    {"seed", 1, "N", "seed of noise, flags and weights (1)", read_seed},
    {"flags", 1, "FRACTION", "fraction of samples flagged; they hold rubbish (0)", read_flags},
    {"flag-rows", 1, "FRACTION", "fraction of rows flagged in FLAG_ROW alone (0)", read_flag_rows},
    {"weights", 1, "natural|radiometer", "all 1, or by the feeds' temperatures and a bandpass (natural)", read_weights},
    {"weight-spectrum", 1, "none|full|partly",
     "column WEIGHT_SPECTRUM; partly leaves one cell of three without a value (full)", read_weight_spectrum},
    {"data-column", 1, "DATA|CORRECTED_DATA|both",
     "where the visibilities go; with both, DATA holds half of them (DATA)", read_data_column},
    {"storage", 1, "tiledshape|tiledcolumn|standard", "storage manager of the large columns (tiledshape)",
     read_storage},
    {"autocorrelations", 0, "", "rows of antennas with themselves too", set_autocorrelations},
    {"defect", 1, "NAME", "spoil the set; a wrong name lists them all (none)", read_defect},
    {"overwrite", 0, "", "replace a Measurement Set of that name", set_overwrite},
    {"list-sources", 0, "", "print the sources on stdout: RA and DEC in degrees, I Q U V in Jy, spectral index",
     set_list_sources},
    {"j", 1, "N", "threads (all cores)", read_threads},
    {"quiet", 0, "", "no log but errors", set_quiet},
    {"version", 0, "", "print the version", set_version},
    {"help", 0, "", "print this", set_help},
};

void msi_makems_options_help(FILE *f)
{
    fputs("usage: msimage-makems [options] OUT.ms\n"
          "Makes a Measurement Set whose visibilities are exactly those of given point sources.\n\n",
          f);
    for (size_t i = 0; i < sizeof option_table / sizeof *option_table; i++)
        fprintf(f, "  -%s %s\n        %s\n", option_table[i].name, option_table[i].values, option_table[i].help);
    fputs("\nUnits: masec asec amin deg rad (RA also 08h24m07s, DEC also -42d59m48s), Hz kHz MHz GHz, ms s min h d, "
          "uJy mJy Jy.\n"
          "\nRight ascension and declination are of the equator of date, written as J2000; UT1 is UTC.\n"
          "\nThe benchmark sets, of 29.0 and 16.7 million visibilities of 4 correlations each:\n"
          "  msimage-makems -telescope meerkat -ra 60deg -dec -45deg -duration 2h -integration 8s \\\n"
          "    -spw 882.75MHz 53.5MHz 16 -weight-spectrum none -storage tiledcolumn meerkat-2h.ms\n"
          "  msimage-makems -telescope skalow -ra 60deg -dec -10deg -start-ha -4h -duration 480s -integration 60s \\\n"
          "    -spw 101.25MHz 2.5MHz 16 -weight-spectrum none -storage tiledcolumn skalow-480s.ms\n"
          "With -duration 720s the first one has 2.9 million. -layout-file takes a real array's stations.\n",
          f);
}

static const option *find_option(const char *text)
{
    const char *name = text + 1 + (text[1] == '-');
    for (size_t i = 0; i < sizeof option_table / sizeof *option_table; i++)
        if (!strcmp(name, option_table[i].name)) return &option_table[i];
    return NULL;
}

static int read_arguments(given *g, int argc, char **argv)
{
    for (int i = 1; i < argc;) {
        if (argv[i][0] != '-' || !argv[i][1]) {
            if (g->out->path)
                return msi_error_set(MSI_EUSAGE, "%s and %s: one Measurement Set is made", g->out->path, argv[i]);
            g->out->path = argv[i++];
            continue;
        }
        const option *o = find_option(argv[i]);
        if (!o) return msi_error_set(MSI_EUSAGE, "%s: no such option; -help lists them", argv[i]);
        int left = argc - i - 1, used = o->arity;
        if (o->arity > left) return msi_error_set(MSI_EUSAGE, "-%s takes %s", o->name, o->values);
        snprintf(g->what, sizeof g->what, "-%s", o->name);
        MSI_TRY(o->read(g, argv + i + 1, left, &used));
        i += 1 + used;
    }
    if (!g->out->path && !g->out->help && !g->out->version)
        return msi_error_set(MSI_EUSAGE, "which Measurement Set is to be made? usage: msimage-makems [options] OUT.ms");
    return MSI_OK;
}

static int lay_out(given *g)
{
    msi_layout *layout = &g->out->layout;
    uint64_t seed = (uint64_t)g->layout_seed;
    g->out->spec.layout = layout;
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

static void point(given *g)
{
    msi_makems_spec *spec = &g->out->spec;
    double zenith_rad = g->out->layout.latitude_rad, off_rad = MSI_PI / 18;
    msi_makems_field *field = g->out->field;
    field[0].ra_rad = g->has_ra ? g->ra_rad : MSI_PI / 3;
    field[0].dec_rad = g->has_dec ? g->dec_rad : fmin(zenith_rad + off_rad, MSI_PI / 2);
    spec->n_field++;
    spec->field = field;
    for (int i = 0; i < spec->n_field; i++) snprintf(field[i].name, sizeof field[i].name, "field%d", i);
    if (spec->n_field > 1 && spec->times_per_scan == 0) spec->times_per_scan = 1;
    spec->n_time = (int64_t)fmax(1, rint(g->duration_s / spec->integration_s));
    if (g->has_start_hour)
        spec->start_mjd_s = msi_makems_start(spec, g->start_hour_rad);
    else if (!g->has_start_time)
        spec->start_mjd_s = msi_makems_start(spec, 0) - (double)spec->n_time * spec->integration_s / 2;
}

static int tune(given *g)
{
    static const msi_pol all[2][MSI_MAX_CORR] = {{MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY},
                                                 {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL}};
    msi_makems_spec *spec = &g->out->spec;
    const msi_layout *layout = &g->out->layout;
    if (spec->n_spw == 0) {
        enum { N_CHAN = 16 };
        MSI_TRY(grow(&g->out->spw, 0, sizeof *g->out->spw));
        g->out->spw[0] = (msi_makems_spw){
            .n_chan = N_CHAN, .first_freq_hz = layout->first_freq_hz, .step_hz = layout->band_hz / N_CHAN};
        spec->n_spw = 1;
    }
    if (g->n_corr == 0) {
        g->n_corr = MSI_MAX_CORR;
        memcpy(g->corr, all[layout->circular_feeds], sizeof g->corr);
    }
    for (int w = 0; w < spec->n_spw; w++) {
        g->out->spw[w].n_corr = g->n_corr;
        memcpy(g->out->spw[w].corr, g->corr, sizeof g->corr);
    }
    spec->spw = g->out->spw;
    return MSI_OK;
}

static int light(given *g)
{
    msi_makems_spec *spec = &g->out->spec;
    const msi_makems_field *centre = g->out->field;
    int n = spec->n_source + (g->n_random ? g->n_random : spec->n_source ? 0 : 1);
    msi_makems_source *all;
    MSI_TRY(msi_alloc(&all, n, sizeof *all, "sources"));
    if (spec->n_source) memcpy(all, g->out->source, (size_t)spec->n_source * sizeof *all);
    if (g->n_random)
        msi_makems_random_sources(all + spec->n_source, g->n_random, g->random_seed, centre->ra_rad, centre->dec_rad,
                                  g->random_width_rad);
    else if (!spec->n_source)
        all[0] = (msi_makems_source){.ra_rad = centre->ra_rad, .dec_rad = centre->dec_rad, .stokes_jy = {1, 0, 0, 0}};
    msi_free(g->out->source);
    spec->source = g->out->source = all;
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

int msi_makems_options_parse(msi_makems_options *options, int argc, char **argv)
{
    *options =
        (msi_makems_options){.spec = {.integration_s = 10, .seed = 1, .weight_spectrum = MSI_MAKEMS_SPECTRUM_FULL}};
    given g = {.out = options, .telescope = -1, .config = 'C', .n_station = 512, .layout_seed = 1, .duration_s = 600};
    MSI_TRY(grow(&options->field, 0, sizeof *options->field));
    MSI_TRY(read_arguments(&g, argc, argv));
    if (options->help || options->version) return MSI_OK;
    MSI_TRY(join(&options->command, argc, argv));
    MSI_TRY(lay_out(&g));
    point(&g);
    MSI_TRY(tune(&g));
    MSI_TRY(light(&g));
    options->spec.command = options->command;
    options->spec.show_progress = !options->quiet;
    return MSI_OK;
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
