/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The command line of msimage is parsed in these steps:
 *   1. Every option gets its default.
 *   2. Options are read one by one, by the readers in the option table. Options of WSClean are mapped, accepted or
 *      refused.
 *   3. The words after the options are paths of Measurement Sets.
 *   4. Options are checked against each other (options_check.c).
 *   5. Values that depend on several options are set.
 */
#include "src/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/units.h"
#include "core/memory.h"
#include "core/log.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "src/facets/aterms.h"
#include "core/process.h"
#include "src/options/gridder_choice.h"
#include "src/options/option_table.h"
#include "src/options/suggestion.h"
#include "src/pb/pb_model.h"

/* ---- The options, one by one ---- */

/* Return 1 if a word of the command line names an option of msimage or WSClean. */
static int is_option(const char *word)
{
    return msi_option_find(msi_parse_option_name(word)) || msi_wsclean_find(msi_parse_option_name(word));
}

enum { MOST_NAME = 64 };

/* Copy the first n characters of a name, truncated to the buffer. */
static void copy_name(char to[MOST_NAME], const char *from, size_t n)
{
    snprintf(to, MOST_NAME, "%.*s", (int)(n < MOST_NAME ? n : MOST_NAME - 1), from);
}

/* Split an argument that was joined to its option into the words that the option takes: "512,512" becomes "512 512". If
 * their number is wrong, write the names of the arguments instead. */
static void split_argument(char to[MOST_NAME], const char *joined, const msi_option *option, int arity)
{
    const int has_more = option && strchr(option->arguments, '[') != NULL;
    int n_word = 1;
    copy_name(to, joined, strlen(joined));
    for (char *s = to; *s; s++) {
        if ((arity > 1 && (*s == ',' || *s == 'x')) || (has_more && *s == '=')) *s = ' ';
        n_word += *s == ' ';
    }
    if (option && (n_word < arity || !*joined)) copy_name(to, option->arguments, strlen(option->arguments));
}

/* Refuse a word such as -niter=5, -niter5 or -j4, in which an option of n letters and its argument are joined. */
static int joined_option(const char *word, const char *name, size_t n)
{
    char only[MOST_NAME], argument[MOST_NAME];
    const size_t skip = name[n] == '=' || name[n] == ':';
    copy_name(only, name, n);
    const msi_option *option = msi_option_find(only);
    const int arity = option ? msi_option_arity(option, NULL) : 1;
    if (!arity)
        return msi_error_set(MSI_EUSAGE, "%s: -%s takes no argument; write -%s, or leave it out", word, only, only);
    split_argument(argument, name + n + skip, option, arity);
    return msi_error_set(MSI_EUSAGE, "%s: arguments follow after a space; write -%s %s", word, only, argument);
}

/* Return the number of letters that are an option, if an argument is joined to it; 0 if there is none. */
static size_t letters_of_joined(const char *name)
{
    char only[MOST_NAME];
    size_t n = strcspn(name, "=:");
    if (!name[n]) n = strcspn(name, "0123456789");
    if (!n || !name[n]) return 0;
    copy_name(only, name, n);
    return msi_option_find(only) || msi_wsclean_find(only) ? n : 0;
}

/* Find the option that a single letter means here, or in other programs. */
static const msi_option *option_of_letter(char letter)
{
    char names[MSI_SUGGESTION_SIZE];
    const char word[] = {letter, 0};
    const msi_option *option = msi_option_find(word);
    return option || !msi_suggestion(names, word) ? option : msi_option_find(msi_parse_option_name(names));
}

/* Suggest options for joined letters, as curl and tar read them: -q -v for -qv, or -o out for -oout.
 * Returns: 0 if the letters are no options, else 1 */
static int suggest_letters(char names[MSI_SUGGESTION_SIZE], const char *name)
{
    const msi_option *first = option_of_letter(name[0]);
    int used = 0;
    if (!first || !name[1]) return 0;
    /* The names of options have dashes too, and -jpg is not -j with a number. */
    if (msi_option_arity(first, NULL) == 1 && (strchr(name, '-') || name[0] == 'j')) return 0;
    if (msi_option_arity(first, NULL) == 1) {
        snprintf(names, MSI_SUGGESTION_SIZE, "-%s %s", first->name, name + 1);
        return 1;
    }
    for (const char *s = name; *s && used < MSI_SUGGESTION_SIZE; s++) {
        const msi_option *option = option_of_letter(*s);
        if (!option || msi_option_arity(option, NULL)) return 0;
        if (used && strstr(names, option->name)) continue;
        used += snprintf(names + used, (size_t)(MSI_SUGGESTION_SIZE - used), "%s-%s", used ? " " : "", option->name);
    }
    return 1;
}

static int unknown_option(const char *word)
{
    char names[MSI_SUGGESTION_SIZE], only[MOST_NAME];
    const char *name = msi_parse_option_name(word);
    const size_t joined = letters_of_joined(name);
    if (joined) return joined_option(word, name, joined);
    copy_name(only, name, strcspn(name, "="));
    const msi_option *flag = strncmp(only, "no-", 3) == 0 ? msi_option_find(only + 3) : NULL;
    if (flag) return msi_error_set(MSI_EUSAGE, "%s: no such option; leave out -%s", word, flag->name);
    const char *instead = msi_suggestion_advice(MSI_CASA_TCLEAN, only);
    if (instead) return msi_error_set(MSI_EUSAGE, "%s: no such option; %s", word, instead);
    if (msi_suggestion(names, only) || suggest_letters(names, name))
        return msi_error_set(MSI_EUSAGE, "%s: no such option; did you mean %s? (msimage -help lists all options)", word,
                             names);
    return msi_error_set(MSI_EUSAGE, "%s: no such option; msimage -help lists all options", word);
}

/* ---- A word that is read as a Measurement Set, but is none ---- */

/* Return 1 if a word begins with a dash that a word processor wrote: U+2010 to U+2015, U+2212. */
static int has_typographic_dash(const char *word)
{
    const unsigned char *s = (const unsigned char *)word;
    return s[0] == 0xe2 && ((s[1] == 0x80 && s[2] >= 0x90 && s[2] <= 0x95) || (s[1] == 0x88 && s[2] == 0x92));
}

/* Return 1 if a word is a unit, which users may write after a number and a space. */
static int is_unit(const char *word)
{
    static const char *const unit[] = {"uasec", "masec", "asec", "arcsec", "amin",   "arcmin",  "deg", "rad",
                                       "ujy",   "mjy",   "jy",   "sigma",  "hz",     "khz",     "mhz", "ghz",
                                       "m",     "km",    "gb",   "mb",     "lambda", "klambda", "%"};
    for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
        if (strcasecmp(word, unit[i]) == 0) return 1;
    return 0;
}

/* Return 1 if a word is NAME=VALUE, the syntax of CASA, MIRIAD and DP3. */
static int is_assignment(const char *word)
{
    const size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-");
    return n && word[n] == '=' && word[n + 1];
}

/* Return 1 if a word looks like the name of an output file. */
static int is_like_output(const char *word)
{
    static const char *const end[] = {".html", ".png", ".txt", ".log", ".csv", ".json", ".fits", ".image"};
    const char *dot = strrchr(word, '.');
    for (size_t i = 0; dot && i < sizeof end / sizeof *end; i++)
        if (strcasecmp(dot, end[i]) == 0) return 1;
    return 0;
}

/* Return 1 if a word may be the path of a set that does not exist: it has a dot or a slash, and is not a number. */
static int is_like_path(const char *word)
{
    char *end;
    strtod(word, &end);
    return *end && strpbrk(word, "./") != NULL && !is_like_output(word);
}

/* If no file has the name of the first word after the options, and it looks like something other than a path, report
 * that.
 * Given: words [n]  this word and those after it; before  the word before it; NULL: none */
static int check_first_path(const char *const *words, int n, const char *before, const char *last_option)
{
    const char *word = words[0];
    int is_another = 0;
    struct stat st;
    if (stat(word, &st) == 0) return MSI_OK;
    if ((*word == '/' || *word == '+') && msi_option_find(word + 1))
        return msi_error_set(MSI_EUSAGE, "%s: options begin with a dash; write -%s", word, word + 1);
    if (has_typographic_dash(word))
        return msi_error_set(MSI_EUSAGE, "%s: it begins with a typographic dash; options begin with the character -",
                             word);
    /* Single letters, such as those of "-pol I V", are probably not options. */
    if (word[1] && msi_option_find(word))
        return msi_error_set(MSI_EUSAGE, "%s: options begin with a dash; write -%s", word, word);
    if (is_assignment(word))
        return msi_error_set(MSI_EUSAGE,
                             "%s: options begin with a dash, and their arguments follow after a space, as in -niter "
                             "1000; -tclean takes a call of tclean",
                             word);
    if (before && is_unit(word) && strspn(before, "+-.0123456789eE") == strlen(before)) {
        const msi_option *last = last_option ? msi_option_find(msi_parse_option_name(last_option)) : NULL;
        if (last && last->read == msi_read_real)
            return msi_error_set(MSI_EUSAGE, "%s: -%s takes a number without a unit; leave %s out", word, last->name,
                                 word);
        return msi_error_set(MSI_EUSAGE, "%s: a unit follows its number without a space; write %s%s", word, before,
                             word);
    }
    for (int i = 1; i < n; i++) is_another |= stat(words[i], &st) == 0;
    if (is_another && last_option && !is_like_path(word))
        return msi_error_set(MSI_EUSAGE,
                             "%s: no such file or directory; it was read as a Measurement Set, because it is no "
                             "argument of %s",
                             word, last_option);
    if (!last_option && !is_like_path(word))
        return msi_error_set(MSI_EUSAGE,
                             "%s: no such file or directory; it was read as a Measurement Set, because options begin "
                             "with a dash",
                             word);
    return MSI_OK;
}

/* Defaults of other programs that differ from those of msimage. */
static const struct {
    msi_peer peer;
    const char *option, *argument; /* NULL: a flag */
    int unless_joined;             /* not used with -join-channels */
} peer_defaults[] = {
    /* WSClean 3.1. */
    {MSI_PEER_WSCLEAN, "name", "wsclean", 0},
    {MSI_PEER_WSCLEAN, "weight", "uniform", 0},
    {MSI_PEER_WSCLEAN, "weight-padding", "1.2", 0},
    {MSI_PEER_WSCLEAN, "weighting-rank-filter", "3", 0},
    {MSI_PEER_WSCLEAN, "taper-at", "cell", 0},
    {MSI_PEER_WSCLEAN, "no-mf-weighting", NULL, 1},
    {MSI_PEER_WSCLEAN, "beam-fit-rule", "wsclean", 0},
    {MSI_PEER_WSCLEAN, "mgain", "1", 0},
    {MSI_PEER_WSCLEAN, "nmiter", "20", 0},
    /* tclean of CASA 6. */
    {MSI_PEER_TCLEAN, "stokes-weight", "mean", 0},
    {MSI_PEER_TCLEAN, "no-mf-weighting", NULL, 1},
    {MSI_PEER_TCLEAN, "nmiter", "0", 0},
    {MSI_PEER_TCLEAN, "multiscale-rule", "tclean", 0},
    {MSI_PEER_TCLEAN, "frame", "LSRK", 0},
    {MSI_PEER_TCLEAN, "channel-interpolation", "linear", 0},
    {MSI_PEER_TCLEAN, "multiscale-shape", "spheroidal", 0},
};

/* Another program, and words of the command line on which its defaults depend. */
typedef struct peer_words {
    msi_peer peer;
    int is_joined;
    double padding; /* 0: not given */
} peer_words;

/* Parse the defaults of another program as if they were in the command line. */
static int read_peer_defaults(msi_options *options, const peer_words *p)
{
    for (size_t i = 0; i < sizeof peer_defaults / sizeof *peer_defaults; i++) {
        if (peer_defaults[i].peer != p->peer || (peer_defaults[i].unless_joined && p->is_joined)) continue;
        const msi_option *o = msi_option_find(peer_defaults[i].option);
        const char *argument[] = {peer_defaults[i].argument};
        MSI_TRY(o->read(options, o, *argument ? 1 : 0, argument));
    }
    /* WSClean computes weights on the grid of its padded image. */
    if (p->peer == MSI_PEER_WSCLEAN && p->padding > 0) options->weighting.grid_padding = p->padding;
    return MSI_OK;
}

/* Parse the defaults as if they were in the command line. */
static int read_fallbacks(msi_options *options, const peer_words *peer)
{
    const msi_option *o;
    for (int i = 0; (o = msi_option_at(i)); i++) {
        if (!o->fallback) continue;
        /* A reader may keep a pointer to its argument, so these strings are static. */
        const char *argument[] = {o->fallback};
        MSI_TRY(o->read(options, o, *o->fallback ? 1 : 0, argument));
    }
    MSI_TRY(read_peer_defaults(options, peer));
    options->weight_given = 0;
    options->clean.mgain_given = options->clean.local_rms = options->pol_given = 0;
    return MSI_OK;
}

/* Return 1 if a word is two values as other programs join them, such as 0:3, 0~3, 64x64 or 30deg,40deg. */
static int is_joined_pair(const char *word)
{
    const size_t n = strspn(word, "0123456789.");
    return strchr(word, ',') || (n && word[n] && strchr(":~-x", word[n]) && strspn(word + n + 1, "0123456789."));
}

static int refuse_joined_pair(const char *name, const char *word, const char *write)
{
    return msi_error_set(MSI_EUSAGE, "-%s %s: its arguments are separate words; write -%s %s", name, word, name, write);
}

/* Check that n arguments follow the option at argv[i]. None of them may be an option, unless all are optional. */
static int check_arguments(const char *name, int argc, const char *const *argv, int i, int n, const char *write)
{
    for (int k = i + 1; k <= i + n; k++) {
        const int missing = k >= argc;
        const int another = !missing && write[0] != '[' && is_option(argv[k]);
        if ((missing || another) && k > i + 1 && is_joined_pair(argv[i + 1]))
            return refuse_joined_pair(name, argv[i + 1], write);
        if (missing || another)
            return msi_error_set(MSI_EUSAGE, "-%s: an argument is missing%s%s; write -%s %s", name,
                                 another ? " before " : "", another ? argv[k] : "", name, write);
    }
    return MSI_OK;
}

/* Return 1 if an option applies to a run with the named options; options for logs and resources always do. */
static int applies_to(const msi_option *o, const char *const *names)
{
    static const char *const common[] = {"overwrite", "j", "mem", "abs-mem", "temp-dir", "dry-run", NULL};
    for (int i = 0; common[i]; i++)
        if (strcmp(o->name, common[i]) == 0) return 1;
    for (int i = 0; names[i]; i++)
        if (strcmp(o->name, names[i]) == 0) return 1;
    return msi_option_group_of(o) == MSI_GROUP_OTHER;
}

static int read_own_option(msi_options *options, const msi_option *o, int n, const char *const *argument)
{
    static const char *const restoring[] = {"restore", "restore-list", "beam-size", "beam-shape", "backend", NULL};
    static const char *const drawing[] = {"draw-model",
                                          "draw-centre",
                                          "draw-frequencies",
                                          "draw-spectral-terms",
                                          "sinc-window-size",
                                          "size",
                                          "scale",
                                          "name",
                                          "field",
                                          "like",
                                          NULL};
    const char **only = o->use == MSI_USE_IMAGING   ? &options->only_imaging
                        : o->use == MSI_USE_PREDICT ? &options->only_predict
                                                    : &options->only_draw;
    if (o->use != MSI_USE_ALWAYS && !*only) *only = o->name;
    if (msi_option_group_of(o) == MSI_GROUP_CLEAN && !options->only_clean && strcmp(o->name, "niter") != 0)
        options->only_clean = o->name;
    if (!options->not_restore && !applies_to(o, restoring)) options->not_restore = o->name;
    if (!options->not_draw && !applies_to(o, drawing)) options->not_draw = o->name;
    const int rc = o->read(options, o, n, argument);
    const int is_pair = rc == MSI_EUSAGE && n > 1 && is_joined_pair(argument[0]);
    return is_pair ? refuse_joined_pair(o->name, argument[0], o->arguments) : rc;
}

/* Store an option of WSClean for the log, unless it is stored. */
static void note_wsclean(msi_options *options, const msi_wsclean_option *w)
{
    int noted = 0;
    for (int k = 0; k < options->n_wsclean; k++) noted |= options->wsclean[k] == w;
    if (!noted && options->n_wsclean < MSI_MAX_WSCLEAN) options->wsclean[options->n_wsclean++] = w;
}

/* Read an option that only WSClean has: refuse it, pass its arguments to the corresponding option, or only store it. */
static int read_wsclean(msi_options *options, const msi_wsclean_option *w, int argc, const char *const *argv, int *i)
{
    static const char *const arguments[] = {"", "VALUE", "VALUE VALUE", "VALUE VALUE VALUE"};
    const char *const *argument = argv + *i + 1;
    const int n = w->n_argument;
    if (w->is != MSI_WSCLEAN_REFUSED) MSI_TRY(check_arguments(w->name, argc, argv, *i, n, arguments[n]));
    MSI_TRY(msi_wsclean_check(w, n > 0 ? argument[0] : NULL));
    *i += n;
    note_wsclean(options, w);
    return w->is == MSI_WSCLEAN_MAPPED ? read_own_option(options, msi_option_find(w->own), n, argument) : MSI_OK;
}

/* Read one option and its arguments. Given and returned: *i  index of the option; on return, of the last word read */
static int read_option(msi_options *options, int argc, const char *const *argv, int *i)
{
    const char *name = msi_parse_option_name(argv[*i]);
    const char *topic = strcmp(name, "help") == 0 ? strchr(argv[*i], '=') : NULL;
    const msi_option *o = msi_option_find(name);
    const msi_wsclean_option *w = o ? NULL : msi_wsclean_find(name);
    if (topic) return msi_read_help(options, o, 1, (const char *[]){topic + 1});
    if (w) return read_wsclean(options, w, argc, argv, i);
    if (!o) return unknown_option(argv[*i]);
    const char *const *argument = argv + *i + 1;
    int n = msi_option_arity(o, *i + 1 < argc ? argument[0] : NULL);
    MSI_TRY(check_arguments(o->name, argc, argv, *i, n, o->arguments));
    *i += n;
    const msi_wsclean_option *gridder = strcmp(o->name, "gridder") == 0 ? msi_wsclean_gridder(argument[0]) : NULL;
    if (!gridder) return read_own_option(options, o, n, argument);
    if (gridder->is == MSI_WSCLEAN_REFUSED)
        return msi_error_set(MSI_EUSAGE, "-gridder %s: %s", argument[0], gridder->why);
    note_wsclean(options, gridder);
    return read_own_option(options, o, n, &o->fallback);
}

/* ---- The command line ---- */

void msi_options_limit_memory(msi_options *options)
{
    const double percent = options->memory_percent;
    const double share = (double)msi_memory_physical() / msi_cpu_share();
    double bytes = share * (percent > 0 ? percent / 100 : 1);
    if (options->memory_gb > 0) bytes = fmin(bytes, 1e9 * options->memory_gb);
    options->memory_limit_bytes = (int64_t)bytes;
}

/* Set the options that the word of -deconvolver stands for. */
static void set_deconvolver(msi_clean_options *c)
{
    if (c->deconvolver == MSI_DECONVOLVER_HOGBOM) c->is_exact = 1;
    if (c->deconvolver == MSI_DECONVOLVER_MULTISCALE) c->multiscale = 1;
    if (c->deconvolver == MSI_DECONVOLVER_MTMFS)
        c->n_taylor = c->n_taylor == 0 ? 2 : c->n_taylor == 1 ? 0 : c->n_taylor;
    /* With tclean's rule for scales, points are a scale too. */
    if (c->n_taylor && !c->multiscale && c->scale_rule == MSI_CLEAN_BY_POWER) {
        c->multiscale = c->n_scale = 1;
        c->scale[0] = 0;
    }
}

/* Replace -grid-with-beam where another option has this meaning: with a-terms the beam is one of them, and with
 * -predict it is -pb. In set_dependent_values, -grid-with-beam also sets -apply-primary-beam. */
static void translate_grid_with_beam(msi_options *o)
{
    if (o->facets.aterms) o->facets.beam |= o->pb.grid;
    if (o->predict && o->pb.grid && !o->facets.aterms && !o->pb.model) o->pb.model = "auto";
    if (o->predict || o->facets.aterms) o->pb.grid = 0;
}

static void set_dependent_values(msi_options *o)
{
    msi_uv_taper *taper = &o->weighting.taper;
    if (o->bandwidth_taper) o->weighting.rank_level = o->mf_weighting = 0;
    /* For densities of each channel, tclean uses other cells than for densities of all channels. */
    o->weighting.is_centred =
        o->bandwidth_taper || (o->like == MSI_PEER_TCLEAN && !o->mf_weighting &&
                               (o->channels_out > 1 || o->cube.is_cube) && o->weighting.rank_level < 1);
    if (taper->at_cells || taper->inner_tukey > 0) taper->inner_lambda = o->selection.min_uv_lambda;
    if (taper->at_cells || taper->outer_tukey > 0) taper->outer_lambda = o->selection.max_uv_lambda;
    /* A cell within the limits may have samples outside them, and these are needed. */
    if (taper->at_cells) o->selection.min_uv_lambda = o->selection.max_uv_lambda = 0;
    o->pb.apply |= o->pb.grid;
    o->pb.correct |= o->pb.mosaic;
    if (o->pb.apply || o->pb.correct || o->pb.mask > 0 || o->facets.beam || (o->predict && o->pb.model))
        o->selection.aims = o->pb.by_table ? MSI_MS_AIMS_ALL : MSI_MS_AIMS_IF_QUICK;
    if (o->pb.mosaic && o->selection.n_field == 0) o->selection.all_fields = 1;
    if (o->make_psf_only || o->clean.niter || o->cube.restoring_beam) o->make_psf = 1;
    /* Cleaned images have less noise than dirty ones, so the default of -accuracy is smaller. */
    o->accuracy_follows = o->clean.niter && !(o->accuracy > 0);
    if (!(o->accuracy > 0)) o->accuracy = o->clean.niter ? 1e-5 : msi_gridder_choice_accuracy(o->gridder);
    /* Field 0, the default, would contradict fields that an expression selects. */
    if (o->selection.mssel[MSI_MSSEL_FIELD] && o->selection.n_field == 0) o->selection.all_fields = 1;
    if (o->cube.is_cube) o->selection.spectral_frame = o->cube.grid.frame;
    o->cube.grid.counts_in_window = o->selection.columns_may_differ = o->like == MSI_PEER_TCLEAN;
    if (!o->n_threads) o->n_threads = msi_cpu_count();
    msi_options_limit_memory(o);
    o->clean.mask.grow_iterations = (int)o->clean.grow_iterations;
    if (o->clean.save_sources) o->clean.shape = MSI_CLEAN_GAUSSIAN;
    if (o->predict_op == MSI_MS_WRITE_REPLACE && !o->model_column) o->model_column = "MODEL_DATA";
    if (o->subtract_model) o->selection.model_column = o->model_column;
}

static int is_plain(const char *word)
{
    return *word && word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%")] == 0;
}

int msi_options_keep_command_line(msi_options *options, int argc, const char *const *argv)
{
    int64_t size = 1;
    for (int i = 0; i < argc; i++) {
        size += 3;
        for (const char *p = argv[i]; *p; p++) size += *p == '\'' ? 4 : 1;
    }
    MSI_TRY(msi_alloc(&options->command_line, size, 1, "command line"));
    char *q = options->command_line;
    for (int i = 0; i < argc; i++) {
        const char *quote = is_plain(argv[i]) ? "" : "'";
        if (i) *q++ = ' ';
        q = stpcpy(q, quote);
        for (const char *p = argv[i]; *p; p++) {
            if (*p == '\'')
                q = stpcpy(q, "'\\''");
            else
                *q++ = *p;
        }
        q = stpcpy(q, quote);
    }
    *q = 0;
    return MSI_OK;
}

/* Positions in a command line. */
typedef struct word_places {
    int first_path, last_option;
    int only_paths; /* 1: the options end with -- */
} word_places;

/* Read the defaults and then the options of the command line. */
static int read_words(msi_options *options, int argc, const char *const *argv, const peer_words *peer, word_places *at)
{
    memset(options, 0, sizeof *options);
    *at = (word_places){1, 0, 0};
    options->log_level = MSI_LOG_NORMAL;
    MSI_TRY(read_fallbacks(options, peer));
    MSI_TRY(msi_options_keep_command_line(options, argc, argv));
    int i = 1;
    for (; i < argc && !at->only_paths && argv[i][0] == '-' && argv[i][1]; i++) {
        at->only_paths = strcmp(argv[i], "--") == 0;
        if (at->only_paths) continue;
        at->last_option = i;
        MSI_TRY(read_option(options, argc, argv, &i));
        if (options->action != MSI_ACTION_RUN) return MSI_OK;
    }
    at->first_path = i;
    return MSI_OK;
}

static int parse(msi_options *options, int argc, const char *const *argv)
{
    word_places at;
    MSI_TRY(read_words(options, argc, argv, &(peer_words){.peer = MSI_PEER_NONE}, &at));
    if (options->action != MSI_ACTION_RUN) return MSI_OK;
    if (options->like) {
        /* The defaults of another program come before all words. */
        const peer_words peer = {options->like, options->clean.join_channels, options->padding};
        msi_options_free(options);
        MSI_TRY(read_words(options, argc, argv, &peer, &at));
    }

    struct stat st;
    const int i = at.first_path, last_option = at.last_option, only_paths = at.only_paths;
    options->ms_paths = argv + i;
    options->n_ms = argc > i ? argc - i : 0;
    options->given_paths = options->ms_paths;
    options->n_given = options->n_ms;
    const int needs_set = !options->restore.residual && !options->draw.list;
    if (needs_set && options->n_ms == 0 && !only_paths && last_option && last_option < argc - 1)
        return msi_error_set(MSI_EUSAGE, "no Measurement Set is given: %s was read as an argument of %s",
                             argv[argc - 1], argv[last_option]);
    if (needs_set && options->n_ms == 0)
        return msi_error_set(MSI_EUSAGE, "no Measurement Set is given; put its path after the options");
    if (options->n_ms && !only_paths)
        MSI_TRY(
            check_first_path(argv + i, argc - i, i > 1 ? argv[i - 1] : NULL, last_option ? argv[last_option] : NULL));
    for (int k = i; k < argc; k++) {
        if (k > i && !only_paths && argv[k][0] == '-' && (is_option(argv[k]) || stat(argv[k], &st) != 0))
            return msi_error_set(MSI_EUSAGE,
                                 "%s: it comes after %s, which was read as a set; options go before the Measurement "
                                 "Sets",
                                 argv[k], argv[k - 1]);
    }
    set_deconvolver(&options->clean);
    translate_grid_with_beam(options);
    MSI_TRY(msi_options_check(options));
    set_dependent_values(options);
    return MSI_OK;
}

int msi_options_parse(msi_options *options, int argc, const char *const *argv)
{
    msi_words words;
    memset(options, 0, sizeof *options);
    for (int i = 1; i < argc; i++)
        if (!*argv[i])
            return msi_error_set(MSI_EUSAGE, "%s is followed by an empty word (\"\"); write a value, or leave it out",
                                 argv[i - 1]);
    MSI_TRY(msi_tclean_expand(&words, argc, argv));
    const int rc = words.n ? parse(options, words.n, (const char *const *)words.word) : parse(options, argc, argv);
    options->tclean = words;
    return rc;
}

int msi_options_expand_multi_ms(msi_options *o)
{
    int which, n;
    MSI_TRY(msi_ms_members(&o->members, &n, &which, o->given_paths, o->n_given));
    if (!o->members) return MSI_OK;
    o->ms_paths = (const char *const *)o->members;
    o->n_ms = n;
    for (int i = 0; i < MSI_N_MSSEL; i++)
        if (o->selection.mssel[i] && strchr(o->selection.mssel[i], MSI_MSSEL_NEXT_SET))
            return msi_error_set(MSI_EUSAGE,
                                 "selection '%s': it has an expression for each set, but %s is a multi-MS of several; "
                                 "give its members instead, or one expression",
                                 o->selection.mssel[i], o->given_paths[which]);
    const msi_ms_steps steps = o->selection.steps;
    if (o->intervals_out > 1 || o->selection.interval_begin || o->selection.interval_end || steps)
        return msi_error_set(MSI_EUSAGE,
                             "-%s: it counts the time steps of each set, and %s is a multi-MS (there are %d sets in "
                             "all); select times with -select-time or -taql",
                             o->intervals_out > 1        ? "intervals-out"
                             : steps == MSI_MS_ODD_STEPS ? "odd-timesteps"
                             : steps                     ? "even-timesteps"
                                                         : "interval",
                             o->given_paths[which], n);
    return MSI_OK;
}

int msi_options_check_paths(const msi_options *o)
{
    struct stat s;
    for (int i = 0; i < o->n_ms; i++) {
        const char *path = o->ms_paths[i];
        const char *why = path[0] == '~'        ? "a shell replaces ~ at the start of a word without quotes"
                          : strstr(path, "://") ? "a set is a local directory; download it, and give its path"
                          : strpbrk(path, "*?") ? "no name matches, or the pattern is in quotes"
                          : strpbrk(path, ", ") ? "give several sets as separate words"
                                                : NULL;
        if (why && stat(path, &s) != 0 && errno == ENOENT)
            return msi_error_set(MSI_EINPUT, "%s: No such file or directory; %s", path, why);
    }
    return MSI_OK;
}

/* Return 1 if the stations of a set have different beams: by the file of beams, or by the subtable with their
 * layouts. */
static int has_stations(const msi_options *o)
{
    char path[PATH_MAX];
    struct stat s;
    const char *word = o->pb.model ? o->pb.model : "auto";
    if (msi_pb_model_word_has_stations(word)) return 1;
    if (strcmp(word, "auto") != 0 && strncmp(word, "lofar", strlen("lofar")) != 0) return 0;
    for (int i = 0; i < o->n_ms; i++) {
        const int n = snprintf(path, sizeof path, "%s/LOFAR_ANTENNA_FIELD", o->ms_paths[i]);
        if (n > 0 && n < (int)sizeof path && stat(path, &s) == 0) return 1;
    }
    return 0;
}

int msi_options_read_aterms(msi_options *o)
{
    msi_aterm_config config;
    if ((o->pb.grid || (o->predict && o->pb.model && !o->facets.beam)) && !msi_options_has_facets(o) &&
        has_stations(o)) {
        if (o->pb.save_psf || o->pb.correct)
            return msi_error_set(
                MSI_EUSAGE,
                "-%s: it cannot be used with -grid-with-beam, because each station has its own beam; leave "
                "one of them out",
                o->pb.save_psf ? "save-psf-pb" : "pbcor");
        msi_log_info("%s: each station has its own beam, which is an a-term",
                     o->pb.grid ? "-grid-with-beam" : "-predict -pb");
        o->facets.aterms = MSI_ATERMS_BEAM;
        o->pb.grid = o->pb.apply = 0;
    }
    if (!o->clean.niter) o->pb.grid = 0;
    if (!o->facets.aterms) return MSI_OK;
    MSI_TRY(msi_aterm_config_read(&config, o->facets.aterms));
    o->facets.beam |= config.has_beam;
    msi_aterm_config_free(&config);
    if (o->predict && !o->facets.beam && o->pb.model && strcmp(o->pb.model, "off") != 0)
        return msi_error_set(
            MSI_EUSAGE, "-pb: the a-terms of -aterm-config have no beam; give -grid-with-beam too, or leave it out");
    return msi_options_check_facets(o);
}

void msi_options_free(msi_options *options)
{
    if (!options) return;
    msi_free((void *)options->selection.fields);
    msi_free((void *)options->selection.spws);
    msi_free((void *)options->division.split_hz);
    msi_free(options->members);
    msi_words_free(&options->tclean);
    msi_free(options->command_line);
    memset(options, 0, sizeof *options);
}

/* ---- Options in words ---- */

uint64_t msi_options_command_hash(const msi_options *o)
{
    return msi_hash(0, o->command_line, (int64_t)strlen(o->command_line));
}

/* Return 1 if a TaQL condition has an index 0, such as UVW[0]. casacore accepts it, although indices begin at 1.
 * Brackets after a name contain indices; other brackets contain the members of a set. */
static int has_index_0(const char *taql)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    int is_index = 0;
    char quote = 0;
    for (const char *p = taql, *name = taql; *p; p++) {
        if (quote || *p == '\'' || *p == '"') {
            quote = quote ? (*p == quote ? 0 : quote) : *p;
        } else if (*p == '[') {
            const ptrdiff_t length = p - name;
            is_index = length > 0 && !(length == 2 && strncasecmp(name, "in", 2) == 0);
        } else if (*p == ']') {
            is_index = 0;
        }
        if (is_index && !quote && strchr("[,:", *p)) {
            const char *number = p + 1 + strspn(p + 1, " ");
            const size_t n = strspn(number, "0");
            if (n > 0 && strchr(" ,:]", number[n])) return 1;
        }
        if (!strchr(letters, *p)) name = p + 1;
    }
    return 0;
}

void msi_options_log(const msi_options *options)
{
    if (options->selection.taql && has_index_0(options->selection.taql))
        msi_log_warning("-taql: indices begin at 1 (UVW[1] is u, UVW[3] is w); there is no index 0");
    const msi_clean_options *c = &options->clean;
    if (!c->niter && !options->restore.residual && !options->draw.list && options->only_clean)
        msi_log_advice("-%s: it has no effect without -niter; the result is a dirty image", options->only_clean);
    if (c->niter && c->squared_join && !c->join_channels)
        msi_log_advice("-squared-channel-joining: it has no effect without -join-channels");
    if (c->niter && c->stop_negative && !msi_options_has_sign(options))
        msi_log_advice("-stop-negative: it has no effect on joined polarisations, whose peaks have no sign");
    if (c->niter && c->n_correction && !c->join_channels)
        msi_log_advice("-spectral-correction: it has no effect without -join-channels");
    const msi_pb_options *pb = &options->pb;
    if (pb->model && strcmp(pb->model, "off") != 0 && !options->predict && !options->facets.beam &&
        !(pb->apply || pb->grid || pb->mosaic || pb->correct || pb->mask > 0))
        msi_log_advice("-pb: it has no effect by itself; -apply-primary-beam or -pbcor corrects the images");
    if (c->niter && !(c->threshold_jy > 0) && !(c->auto_threshold > 0))
        msi_log_warning("no threshold is given: cleaning ends only at -niter %lld and goes into the noise; see "
                        "-auto-threshold",
                        (long long)c->niter);
    if (c->niter && c->save_sources && c->multiscale)
        msi_log_info("-save-source-list: using Gaussian scales (-multiscale-shape gaussian), because a list can hold "
                     "only these");
    for (int i = 0; i < options->n_wsclean; i++) {
        char line[256];
        msi_wsclean_describe(line, sizeof line, options->wsclean[i]);
        msi_log_info("%s", line);
    }
}

static void add_numbers(char *text, size_t size, const char *option, const int *number, int n)
{
    size_t at = strlen(text);
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d", i ? "," : option, number[i]);
}

static void add_range(char *text, size_t size, const char *option, int64_t begin, int64_t end)
{
    const size_t at = strlen(text);
    if (begin || end) snprintf(text + at, size - at, " %s %lld %lld", option, (long long)begin, (long long)end);
}

static void add_word(char *text, size_t size, const char *word)
{
    const size_t at = strlen(text);
    snprintf(text + at, size - at, "%s", word);
}

static void add_quoted(char *text, size_t size, const char *option, const char *words)
{
    const size_t at = strlen(text);
    if (words) snprintf(text + at, size - at, " %s '%s'", option, words);
}

void msi_options_selection_words(const msi_ms_selection *s, char *text, size_t size)
{
    text[0] = 0;
    if (s->all_fields) add_quoted(text, size, "-field", "all");
    add_numbers(text, size, " -field ", s->fields, s->n_field);
    add_quoted(text, size, "-select-field", s->mssel[MSI_MSSEL_FIELD]);
    if (!*text) add_quoted(text, size, "-field", "0");
    add_numbers(text, size, " -spws ", s->spws, s->n_spw);
    add_range(text, size, "-channel-range", s->channel_begin, s->channel_end);
    add_range(text, size, "-interval", s->interval_begin, s->interval_end);
    if (s->steps) add_word(text, size, s->steps == MSI_MS_ODD_STEPS ? " -odd-timesteps" : " -even-timesteps");
    add_quoted(text, size, "-select-spw", s->mssel[MSI_MSSEL_SPW]);
    add_quoted(text, size, "-select-antenna", s->mssel[MSI_MSSEL_ANTENNA]);
    add_quoted(text, size, "-select-uvrange", s->mssel[MSI_MSSEL_UVRANGE]);
    add_quoted(text, size, "-select-time", s->mssel[MSI_MSSEL_TIME]);
    add_quoted(text, size, "-select-scan", s->mssel[MSI_MSSEL_SCAN]);
    add_quoted(text, size, "-select-observation", s->mssel[MSI_MSSEL_OBSERVATION]);
    add_quoted(text, size, "-select-intent", s->mssel[MSI_MSSEL_INTENT]);
    add_quoted(text, size, "-taql", s->taql);
    /* Remove the space before the first option. */
    memmove(text, text + 1, strlen(text));
}
