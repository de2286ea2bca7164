/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/convert_stages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/status.h"
#include "core/units.h"
#include "kernels/strategy.h"
#include "src/options/help.h"
#include "src/options/option_table.h"
#include "src/options/suggestion.h"

#define CONVERT_AT(member) .offset = offsetof(msi_convert_options, member)

static int read_seconds(double *out, const char *option, const char *text)
{
    static const struct {
        const char *name;
        double s;
    } units[] = {{"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    const double value = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && strcmp(end, units[i].name) == 0 && value * units[i].s > 0 && value * units[i].s <= 1e9) {
            *out = value * units[i].s;
            return MSI_OK;
        }
    return msi_error_set(MSI_EUSAGE, "-%s %s: give a time with its unit, ms, s, min, h or d, such as 8s", option, text);
}

static int read_time(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    double value = 0;
    (void)n_argument;
    MSI_TRY(read_seconds(&value, option->name, argument[0]));
    memcpy((char *)options + option->offset, &value, sizeof value);
    return MSI_OK;
}

/* The options in the order of the help. A row without a reader is the option of msimage with the same name. */
static const msi_option rows[] = {
    {.name = "average-time",
     .arguments = "TIME",
     .fallback_words = "no averaging",
     .help = "Average each baseline over this time, such as 8s. Units are ms, s, min, h and d.",
     .read = read_time,
     CONVERT_AT(average_time_s)},
    {.name = "average-channels",
     .arguments = "COUNT",
     .fallback = "1",
     .help = "Average this many neighbouring channels into one, but never across a gap in frequency.",
     .read = msi_read_count,
     CONVERT_AT(average_channels),
     .low = 1,
     .high = 1e9},
    {.name = "average-baseline-dependent",
     .arguments = "LOSS",
     .help = "Average each baseline for as long as a source at -smearing-radius loses at most this fraction of its "
             "amplitude, such as 0.01, but not longer than -average-time. Rows then have different lengths in time.",
     .read = msi_read_real,
     CONVERT_AT(smearing_loss),
     .low = 1e-9,
     .high = 0.5},
    {.name = "smearing-radius",
     .arguments = "ANGLE",
     .fallback_words = "half the width of the primary beam, lambda / D at the lowest frequency",
     .help = "Distance from the phase centre for which the loss by averaging is computed and reported.",
     .read = msi_read_angle,
     CONVERT_AT(smearing_radius_rad)},
    {.name = "shift",
     .arguments = "RA DEC",
     .fallback_words = "the phase centres of the fields",
     .help = "Rotate uvw and phases of all fields to this phase centre, such as 08h24m07.0s -42d59m48.0s or 126.03deg "
             "-42.9967deg.",
     .read = msi_read_shift},
    {.name = "flip-uvw",
     .arguments = "",
     .help = "Change the sign of u, v and w, for files with the opposite direction of baselines. The log reports the "
             "direction when a file is read.",
     .read = msi_read_flag,
     CONVERT_AT(flip_uvw),
     .high = 1},
    {.name = "data-column",
     .arguments = "NAME",
     .fallback_words = "CORRECTED_DATA if it exists, else DATA",
     .help = "Column whose visibilities become DATA.",
     .read = msi_read_text,
     CONVERT_AT(shared.selection.data_column)},
    {.name = "field",
     .arguments = "LIST",
     .fallback = "all",
     .help = "Fields by number, such as 0,2, or all.",
     .read = msi_read_field},
    {.name = "uvcontsub"},
    {.name = "fit-channels"},
    {.name = "spws"},
    {.name = "channel-range"},
    {.name = "interval"},
    {.name = "minuv-l"},
    {.name = "maxuv-l"},
    {.name = "minuvw-m"},
    {.name = "maxuvw-m"},
    {.name = "select-field"},
    {.name = "select-spw"},
    {.name = "select-antenna"},
    {.name = "select-uvrange"},
    {.name = "select-time"},
    {.name = "select-scan"},
    {.name = "select-observation"},
    {.name = "select-intent"},
    {.name = "taql"},
    {.name = "overwrite",
     .arguments = "",
     .help = "Replace OUT if it exists. The old output is kept until the new one is complete.",
     .read = msi_read_flag,
     CONVERT_AT(shared.overwrite),
     .high = 1},
    {.name = "dry-run",
     .arguments = "",
     .help = "Print what would be done, and stop. Nothing is written.",
     .read = msi_read_flag,
     CONVERT_AT(shared.dry_run),
     .high = 1},
    {.name = "readers",
     .arguments = "N",
     .fallback = "auto",
     .help =
         "Number of processes that read sets while the main process averages and writes. auto uses one if there are "
         "two processors and at least 50 MB to read, otherwise none. A visibility store is always made by one process.",
     .read = msi_read_auto,
     CONVERT_AT(shared.n_reader),
     .low = 1,
     .high = 64},
    {.name = "mem"},
    {.name = "abs-mem"},
    {.name = "quiet"},
    {.name = "verbose"},
    {.name = "log-time"},
    {.name = "version", .arguments = "", .help = "Print the version and stop.", .read = msi_read_version},
    {.name = "help", .arguments = "", .help = "Print this help and stop.", .read = msi_read_help},
};
enum { N_ROW = sizeof rows / sizeof *rows };

static const msi_option *option_at(int i)
{
    return rows[i].read ? &rows[i] : msi_option_find(rows[i].name);
}

static const msi_option *find_option(const char *word)
{
    const char *name = msi_parse_option_name(word);
    for (int i = 0; i < N_ROW; i++) {
        const msi_option *o = option_at(i);
        if (strcmp(o->name, name) == 0 || (o->alias && strcmp(o->alias, name) == 0)) return o;
    }
    return NULL;
}

void msi_convert_options_help(void)
{
    puts("usage: msimage-convert [options] IN [IN ..] OUT\n"
         "Converts Measurement Sets, UVFITS and FITS-IDI files to one Measurement Set or, if OUT ends in\n"
         ".uvfits, .uvf or .fits, to one UVFITS file. Data can be selected, averaged, and shifted to another\n"
         "phase centre. If OUT ends in .msv, makes a visibility store from one set, which msimage images\n"
         "without the set.\n");
    for (int i = 0; i < N_ROW; i++) msi_help_print_option(stdout, option_at(i));
    puts("\nAveraging sums the weights, and flags samples without a positive finite weight; u, v, w, exposure\n"
         "and time come from the averaged samples. If there are several inputs, equal antennas, fields\n"
         "and spectral windows become one.\n"
         "\nExamples:\n"
         "  msimage-convert -average-time 8s -average-channels 4 large.ms small.ms\n"
         "  msimage-convert -select-field 3C286 -data-column CORRECTED_DATA all.ms 3c286.ms\n"
         "  msimage-convert night1.ms night2.ms both.ms\n"
         "  msimage-convert large.ms large.msv\n"
         "  msimage-convert archive.uvfits archive.ms\n"
         "  msimage-convert -average-channels 8 target.ms target.uvfits");
}

static const char *option_name_at(int i)
{
    return i < N_ROW ? rows[i].name : NULL;
}

static int unknown_option(const char *word)
{
    char names[MSI_SUGGESTION_SIZE];
    const char *name = word + strspn(word, "-"), *instead = msi_suggestion_advice(MSI_CASA_MSTRANSFORM, name);
    if (instead) return msi_error_set(MSI_EUSAGE, "%s: no such option; %s", word, instead);
    if (msi_suggestion_among(names, name, MSI_CASA_MSTRANSFORM, option_name_at))
        return msi_error_set(
            MSI_EUSAGE, "%s: no such option; did you mean %s? (msimage-convert -help lists all options)", word, names);
    return msi_error_set(MSI_EUSAGE, "%s: no such option; msimage-convert -help lists all options", word);
}

static int read_option(msi_convert_options *o, int argc, const char *const *argv, int *used)
{
    const msi_option *option = find_option(argv[0]);
    if (!option) return unknown_option(argv[0]);
    const char *const *argument = argv + 1;
    const int n = *option->arguments ? msi_option_arity(option, argc > 1 ? argument[0] : NULL) : 0;
    if (n >= argc)
        return msi_error_set(MSI_EUSAGE, "-%s: an argument is missing; write -%s %s", option->name, option->name,
                             option->arguments);
    *used = 1 + n;
    return option->read(&o->shared, option, n, argument);
}

static int read_defaults(msi_convert_options *o)
{
    memset(o, 0, sizeof *o);
    o->shared.log_level = MSI_LOG_NORMAL;
    for (int i = 0; i < N_ROW; i++) {
        const msi_option *row = option_at(i);
        if (!row->fallback) continue;
        const char *argument[] = {row->fallback};
        MSI_TRY(row->read(&o->shared, row, *row->fallback ? 1 : 0, argument));
    }
    return MSI_OK;
}

static int check_values(const msi_convert_options *o)
{
    MSI_TRY(msi_options_check_selection(&o->shared.selection));
    if (o->smearing_radius_rad >= MSI_PI / 2)
        return msi_error_set(MSI_EUSAGE, "-smearing-radius: give an angle below 90 degrees");
    return MSI_OK;
}

/* Check the paths. An option after them would be taken as the name of the output. */
static int check_paths(int n, const char *const *paths, int may_begin_so)
{
    for (int k = 0; k < n; k++) {
        if (!*paths[k]) return msi_error_set(MSI_EUSAGE, "the path of an input or of OUT is empty");
        if (k > 0 && paths[k][0] == '-' && !may_begin_so)
            return msi_error_set(MSI_EUSAGE,
                                 "%s: it comes after %s; options go before IN, and a path with this name is ./%s",
                                 paths[k], paths[k - 1], paths[k]);
    }
    return MSI_OK;
}

/* Refuse the name of a compressed file or of another format. The output would be a Measurement Set, which is a
 * directory, with this name. */
static int check_output(const char *out)
{
    static const struct {
        const char *ending;
        int is_packed;
    } table[] = {{".gz", 1},   {".bz2", 1},  {".xz", 1},     {".zst", 1},     {".fz", 1},
                 {".Z", 1},    {".zip", 1},  {".tar", 1},    {".h5", 0},      {".hdf5", 0},
                 {".uvh5", 0}, {".zarr", 0}, {".miriad", 0}, {".fitsidi", 0}, {".idifits", 0}};
    const size_t length = strlen(out);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *ending = table[i].ending;
        const size_t n = strlen(ending);
        if (length <= n || strcmp(out + length - n, ending) != 0) continue;
        if (!table[i].is_packed)
            return msi_error_set(MSI_EUSAGE,
                                 "%s: %s is not written; end the name in .ms for a Measurement Set, in .uvfits for "
                                 "UVFITS, in .msv for a visibility store",
                                 out, ending);
        return msi_error_set(MSI_EUSAGE,
                             "%s: the output cannot be compressed as %s; name it %.*s, and compress it afterwards", out,
                             ending, (int)(length - n), out);
    }
    return MSI_OK;
}

int msi_convert_options_parse(msi_convert_options *o, int argc, const char *const *argv)
{
    MSI_TRY(read_defaults(o));
    MSI_TRY(msi_options_keep_command_line(&o->shared, argc, argv));
    int i = 1;
    for (int used = 1; i < argc && argv[i][0] == '-' && argv[i][1] && strcmp(argv[i], "--") != 0; i += used) {
        MSI_TRY(read_option(o, argc - i, argv + i, &used));
        if (o->shared.action != MSI_ACTION_RUN) return MSI_OK;
    }
    const int only_paths = i < argc && strcmp(argv[i], "--") == 0;
    i += only_paths;
    MSI_TRY(check_paths(argc - i, argv + i, only_paths));
    if (argc - i < 2)
        return msi_error_set(MSI_EUSAGE, "%s; usage: msimage-convert [options] IN [IN ..] OUT",
                             argc > i ? "OUT is missing" : "no input is given");
    o->shared.ms_paths = o->shared.given_paths = argv + i;
    o->shared.n_ms = o->shared.n_given = argc - i - 1;
    o->out = argv[argc - 1];
    MSI_TRY(check_output(o->out));
    msi_options_limit_memory(&o->shared);
    return check_values(o);
}

void msi_convert_options_free(msi_convert_options *o)
{
    msi_options_free(&o->shared);
}

/* ---- Gridders ---- */

/* The option tables that this program shares with msimage refer to the table of strategies. These functions replace
 * those of strategy.c, so that gridders and their GPU code, which is larger than this program, are not linked. */
const msi_strategy *msi_strategies(int *n)
{
    *n = 0;
    return NULL;
}

const msi_strategy *msi_strategy_next(const msi_strategy *last, const char *method, const char *name, int predict)
{
    (void)last, (void)method, (void)name, (void)predict;
    return NULL;
}
