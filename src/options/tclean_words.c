/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A call of tclean becomes options in three steps:
 *   1. The text is parsed: keywords with literal values, which are strings, numbers, True, False, None, lists and
 *      tuples.
 *   2. Each value is checked by the row of its parameter. Parameters without effect are accepted; some others are
 *      accepted only with values that this program implements.
 *   3. Values become options, in groups of related parameters: data, image, channels, weights, cleaning, masks.
 */
#include "src/options/tclean_words.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "src/options/option_table.h"

/* ---- Words ---- */

static int add_word(msi_words *w, const char *text)
{
    if (w->n + 2 > w->capacity) {
        const int capacity = w->capacity ? 2 * w->capacity : 64;
        MSI_TRY(msi_grow(&w->word, w->n, capacity, sizeof *w->word, "words of a command line"));
        w->capacity = capacity;
    }
    const size_t size = strlen(text) + 1;
    char *copy;
    MSI_TRY(msi_alloc(&copy, (int64_t)size, 1, "words of a command line"));
    memcpy(copy, text, size);
    w->word[w->n++] = copy;
    w->word[w->n] = NULL;
    return MSI_OK;
}

/* Add n words. */
static int add_words(msi_words *w, int n, ...)
{
    va_list list;
    int rc = MSI_OK;
    va_start(list, n);
    for (int i = 0; i < n && !rc; i++) rc = add_word(w, va_arg(list, const char *));
    va_end(list);
    return rc;
}

void msi_words_free(msi_words *w)
{
    for (int i = 0; i < w->n; i++) msi_free(w->word[i]);
    msi_free(w->word);
    *w = (msi_words){0};
}

/* ---- Values ---- */

enum { MOST_ITEMS = 4096, MOST_TEXT = 4096 };

typedef enum value_kind { VALUE_ABSENT, VALUE_TEXT, VALUE_NUMBER, VALUE_BOOL, VALUE_NONE } value_kind;

typedef struct item {
    value_kind kind;
    char text[MOST_TEXT]; /* a string; a number as written; "1" or "0" for a bool; "" for None */
} item;

/* The value of a parameter: one item, or a list of them. */
typedef struct value {
    int is_given, is_list, n, capacity;
    item *item; /* [capacity] owned */
} value;

/* ---- The parameters ---- */

typedef enum answer { MAPPED, ACCEPTED, REFUSED } answer;

/* A parameter. A refused parameter is accepted with values that mean that it is not used. */
typedef struct parameter {
    const char *name;
    answer is;
    const char *why;    /* MAPPED: the option; otherwise the reason */
    const char *unused; /* REFUSED: values that are accepted, separated by | */
} parameter;

#define AWPROJECT "beams and their frequencies as for -mosaic, w terms are exact"
#define CYCLES    "a major cycle ends at 1 - mgain of the peak; -mgain sets it"

enum {
    P_VIS,
    P_SELECTDATA,
    P_FIELD,
    P_SPW,
    P_TIMERANGE,
    P_UVRANGE,
    P_ANTENNA,
    P_SCAN,
    P_OBSERVATION,
    P_INTENT,
    P_DATACOLUMN,
    P_IMAGENAME,
    P_IMSIZE,
    P_CELL,
    P_PHASECENTER,
    P_STOKES,
    P_SPECMODE,
    P_NCHAN,
    P_START,
    P_WIDTH,
    P_OUTFRAME,
    P_VELTYPE,
    P_RESTFREQ,
    P_INTERPOLATION,
    P_PERCHAN,
    P_GRIDDER,
    P_USEPOINTING,
    P_MOSWEIGHT,
    P_PBLIMIT,
    P_DECONVOLVER,
    P_SCALES,
    P_NTERMS,
    P_REFFREQ,
    P_SMALLSCALEBIAS,
    P_RESTORINGBEAM,
    P_PBCOR,
    P_WEIGHTING,
    P_ROBUST,
    P_UVTAPER,
    P_NITER,
    P_GAIN,
    P_THRESHOLD,
    P_NSIGMA,
    P_NMAJOR,
    P_USEMASK,
    P_MASK,
    P_PBMASK,
    P_SIDELOBE,
    P_NOISE_THRESHOLD,
    P_LOWNOISE,
    P_NEGATIVE,
    P_SMOOTH,
    P_MINBEAM,
    P_CUT,
    P_GROW,
    P_PRUNE,
    P_CHANGE,
    P_SAVEMODEL,
    N_MAPPED
};

static const parameter parameters[] = {
    [P_VIS] = {"vis", MAPPED, "the sets, last", NULL},
    [P_SELECTDATA] = {"selectdata", MAPPED, "False: nothing is selected", NULL},
    [P_FIELD] = {"field", MAPPED, "-field, -select-field", NULL},
    [P_SPW] = {"spw", MAPPED, "-select-spw", NULL},
    [P_TIMERANGE] = {"timerange", MAPPED, "-select-time", NULL},
    [P_UVRANGE] = {"uvrange", MAPPED, "-select-uvrange", NULL},
    [P_ANTENNA] = {"antenna", MAPPED, "-select-antenna", NULL},
    [P_SCAN] = {"scan", MAPPED, "-select-scan", NULL},
    [P_OBSERVATION] = {"observation", MAPPED, "-select-observation", NULL},
    [P_INTENT] = {"intent", MAPPED, "-select-intent", NULL},
    [P_DATACOLUMN] = {"datacolumn", MAPPED, "-data-column", NULL},
    [P_IMAGENAME] = {"imagename", MAPPED, "-name", NULL},
    [P_IMSIZE] = {"imsize", MAPPED, "-size", NULL},
    [P_CELL] = {"cell", MAPPED, "-scale", NULL},
    [P_PHASECENTER] = {"phasecenter", MAPPED, "-shift", NULL},
    [P_STOKES] = {"stokes", MAPPED, "-pol", NULL},
    [P_SPECMODE] = {"specmode", MAPPED, "-cube", NULL},
    [P_NCHAN] = {"nchan", MAPPED, "-cube-nchan", NULL},
    [P_START] = {"start", MAPPED, "-cube-start", NULL},
    [P_WIDTH] = {"width", MAPPED, "-cube-width", NULL},
    [P_OUTFRAME] = {"outframe", MAPPED, "-frame", NULL},
    [P_VELTYPE] = {"veltype", MAPPED, "-velocity", NULL},
    [P_RESTFREQ] = {"restfreq", MAPPED, "-rest-frequency", NULL},
    [P_INTERPOLATION] = {"interpolation", MAPPED, "-channel-interpolation", NULL},
    [P_PERCHAN] = {"perchanweightdensity", MAPPED, "-no-mf-weighting, -mf-weighting", NULL},
    [P_GRIDDER] = {"gridder", MAPPED, "standard and wproject: the default gridder; mosaic and awproject: -mosaic",
                   NULL},
    [P_USEPOINTING] = {"usepointing", MAPPED, "-use-pointing", NULL},
    [P_MOSWEIGHT] = {"mosweight", MAPPED, "-mosweight, -no-mosweight", NULL},
    [P_PBLIMIT] = {"pblimit", MAPPED, "-pblimit", NULL},
    [P_DECONVOLVER] = {"deconvolver", MAPPED, "-multiscale, -deconvolver mtmfs; hogbom and clark: the default", NULL},
    [P_SCALES] = {"scales", MAPPED, "-multiscale-scales", NULL},
    [P_NTERMS] = {"nterms", MAPPED, "-nterms", NULL},
    [P_REFFREQ] = {"reffreq", MAPPED, "-reffreq", NULL},
    [P_SMALLSCALEBIAS] = {"smallscalebias", MAPPED, "-smallscalebias", NULL},
    [P_RESTORINGBEAM] = {"restoringbeam", MAPPED, "-restoring-beam, -beam-shape", NULL},
    [P_PBCOR] = {"pbcor", MAPPED, "-pbcor", NULL},
    [P_WEIGHTING] = {"weighting", MAPPED, "-weight", NULL},
    [P_ROBUST] = {"robust", MAPPED, "-weight", NULL},
    [P_UVTAPER] = {"uvtaper", MAPPED, "-taper-gaussian", NULL},
    [P_NITER] = {"niter", MAPPED, "-niter", NULL},
    [P_GAIN] = {"gain", MAPPED, "-gain", NULL},
    [P_THRESHOLD] = {"threshold", MAPPED, "-threshold", NULL},
    [P_NSIGMA] = {"nsigma", MAPPED, "-auto-threshold", NULL},
    [P_NMAJOR] = {"nmajor", MAPPED, "-nmiter", NULL},
    [P_USEMASK] = {"usemask", MAPPED, "-auto-multithresh, -pbmask", NULL},
    [P_MASK] = {"mask", MAPPED, "-mask", NULL},
    [P_PBMASK] = {"pbmask", MAPPED, "-pbmask", NULL},
    [P_SIDELOBE] = {"sidelobethreshold", MAPPED, "-sidelobethreshold", NULL},
    [P_NOISE_THRESHOLD] = {"noisethreshold", MAPPED, "-noisethreshold", NULL},
    [P_LOWNOISE] = {"lownoisethreshold", MAPPED, "-lownoisethreshold", NULL},
    [P_NEGATIVE] = {"negativethreshold", MAPPED, "-negativethreshold", NULL},
    [P_SMOOTH] = {"smoothfactor", MAPPED, "-smoothfactor", NULL},
    [P_MINBEAM] = {"minbeamfrac", MAPPED, "-minbeamfrac", NULL},
    [P_CUT] = {"cutthreshold", MAPPED, "-cutthreshold", NULL},
    [P_GROW] = {"growiterations", MAPPED, "-growiterations", NULL},
    [P_PRUNE] = {"dogrowprune", MAPPED, "-dogrowprune", NULL},
    [P_CHANGE] = {"minpercentchange", MAPPED, "-minpercentchange", NULL},
    [P_SAVEMODEL] = {"savemodel", MAPPED, "-update-model-required, -no-update-model-required", NULL},
    {"facets", ACCEPTED, "the w term is exact in the whole image", NULL},
    {"wprojplanes", ACCEPTED, "the number of w-planes follows from -accuracy", NULL},
    {"chanchunks", ACCEPTED, "cubes are made plane by plane", NULL},
    {"normtype", ACCEPTED, "images have flat noise; -pbcor corrects them", NULL},
    {"aterm", ACCEPTED, AWPROJECT, NULL},
    {"psterm", ACCEPTED, AWPROJECT, NULL},
    {"wbawp", ACCEPTED, AWPROJECT, NULL},
    {"conjbeams", ACCEPTED, AWPROJECT, NULL},
    {"cfcache", ACCEPTED, AWPROJECT, NULL},
    {"computepastep", ACCEPTED, AWPROJECT, NULL},
    {"rotatepastep", ACCEPTED, AWPROJECT, NULL},
    {"pointingoffsetsigdev", ACCEPTED, AWPROJECT, NULL},
    {"fusedthreshold", ACCEPTED, "it belongs to asp, which is refused", NULL},
    {"largestscale", ACCEPTED, "it belongs to asp, which is refused", NULL},
    {"noise", ACCEPTED, "it belongs to briggsabs, which is refused", NULL},
    {"cycleniter", ACCEPTED, CYCLES, NULL},
    {"cyclefactor", ACCEPTED, CYCLES, NULL},
    {"minpsffraction", ACCEPTED, CYCLES, NULL},
    {"maxpsffraction", ACCEPTED, CYCLES, NULL},
    {"fullsummary", ACCEPTED, "NAME-clean.csv has the whole record", NULL},
    {"verbose", ACCEPTED, "the log is as with -verbose", NULL},
    {"fastnoise", ACCEPTED, "the noise is measured by the median of the residual", NULL},
    {"restart", ACCEPTED, "-resume continues from a checkpoint, -continue from models", NULL},
    {"parallel", ACCEPTED, "all cores are used; msimage-mp uses several hosts", NULL},
    {"psfcutoff", ACCEPTED, "the beam is fitted to the main lobe above 0.35", NULL},
    {"projection", REFUSED, "images are in the SIN projection; leave it out", "SIN"},
    {"startmodel", REFUSED,
     "CASA images are not read as models; write it with exportfits to NAME-model.fits for imagename NAME, or terms to "
     "NAME-tt0-model.fits .., and give the option -continue",
     ""},
    {"psfphasecenter", ACCEPTED, "the PSF of a mosaic is made from the samples of all fields", NULL},
    {"vptable", REFUSED, "voltage patterns of CASA are not read; name the beam with -pb", ""},
    {"restoration", ACCEPTED, "the restored image is always written", NULL},
    {"outlierfile", REFUSED,
     "one image is made in a run; image each outlier first, with its phasecenter and savemodel='modelcolumn', then "
     "this "
     "image with the option -subtract-model",
     ""},
    {"npixels", REFUSED, "superuniform weights of CASA are not made; give -weight uniform -super-weight FACTOR", "0"},
    {"interactive", REFUSED, "masks are not drawn; give mask, or usemask='auto-multithresh'", "False|0"},
    {"calcres", ACCEPTED, "the residual is always computed", NULL},
    {"calcpsf", ACCEPTED, "the PSF is always computed; -reuse-psf reads that of an earlier run", NULL},
};
enum { N_PARAMETER = sizeof parameters / sizeof *parameters };

const char *msi_tclean_parameter(int i, const char **is, const char **why)
{
    static const char *const words[] = {[MAPPED] = "mapped", [ACCEPTED] = "accepted", [REFUSED] = "refused"};
    if (i < 0 || i >= N_PARAMETER) return NULL;
    *is = words[parameters[i].is];
    *why = parameters[i].why;
    return parameters[i].name;
}

/* ---- Parsing ---- */

typedef struct parser {
    const char *at;
    value v[N_PARAMETER];
} parser;

static int syntax(const parser *p, const char *expected)
{
    return msi_error_set(MSI_EUSAGE,
                         "-tclean: %s is expected at '%.24s'; give a call such as tclean(vis='a.ms', "
                         "imagename='a', imsize=512, cell='1arcsec'), with literal values",
                         expected, p->at);
}

/* Skip blanks, line ends and comments. */
static void skip(parser *p)
{
    for (;;) {
        while (isspace((unsigned char)*p->at) || *p->at == '\\') p->at++;
        if (*p->at != '#') return;
        while (*p->at && *p->at != '\n') p->at++;
    }
}

/* Skip the comma after a value. It may be missing before the closing bracket. */
static int skip_comma(parser *p, char closing)
{
    skip(p);
    if (*p->at == ',')
        p->at++;
    else if (*p->at != closing)
        return syntax(p, "a comma");
    return MSI_OK;
}

static int parse_string(parser *p, item *out)
{
    const char quote = *p->at;
    const int is_long = p->at[1] == quote && p->at[2] == quote;
    size_t n = 0;
    p->at += is_long ? 3 : 1;
    while (*p->at && !(*p->at == quote && (!is_long || (p->at[1] == quote && p->at[2] == quote)))) {
        if (*p->at == '\\' && p->at[1]) p->at++;
        if (n + 1 == sizeof out->text) return syntax(p, "a shorter string");
        out->text[n++] = *p->at++;
    }
    if (!*p->at) return syntax(p, "the end of a string");
    p->at += is_long ? 3 : 1;
    out->text[n] = 0;
    out->kind = VALUE_TEXT;
    return MSI_OK;
}

static int parse_item(parser *p, item *out)
{
    static const struct {
        const char *word, *text;
        value_kind kind;
    } words[] = {{"True", "1", VALUE_BOOL}, {"False", "0", VALUE_BOOL}, {"None", "", VALUE_NONE}};
    char *end;
    if (*p->at == '\'' || *p->at == '"') return parse_string(p, out);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i].word);
        if (strncmp(p->at, words[i].word, n) != 0 || isalnum((unsigned char)p->at[n])) continue;
        out->kind = words[i].kind;
        snprintf(out->text, sizeof out->text, "%s", words[i].text);
        p->at += n;
        return MSI_OK;
    }
    const double number = strtod(p->at, &end);
    const size_t n = (size_t)(end - p->at);
    if (n == 0 || n >= 64 || !isfinite(number)) return syntax(p, "a string, a number, True, False, None or a list");
    snprintf(out->text, sizeof out->text, "%.*s", (int)n, p->at);
    out->kind = VALUE_NUMBER;
    p->at = end;
    return MSI_OK;
}

static int add_item(parser *p, value *v)
{
    if (v->n == MOST_ITEMS) return syntax(p, "the end of a list of at most 4096 values");
    if (v->n == v->capacity) {
        const int capacity = v->capacity ? 2 * v->capacity : 4;
        MSI_TRY(msi_grow(&v->item, v->n, capacity, sizeof *v->item, "a call of tclean"));
        v->capacity = capacity;
    }
    return parse_item(p, &v->item[v->n++]);
}

static int parse_value(parser *p, value *v)
{
    msi_free(v->item);
    *v = (value){.is_given = 1, .is_list = *p->at == '[' || *p->at == '('};
    if (!v->is_list) return add_item(p, v);
    const char closing = *p->at == '[' ? ']' : ')';
    p->at++;
    for (skip(p); *p->at != closing; skip(p)) {
        MSI_TRY(add_item(p, v));
        MSI_TRY(skip_comma(p, closing));
    }
    p->at++;
    return MSI_OK;
}

static int find_parameter(const char *name, size_t length)
{
    for (int i = 0; i < N_PARAMETER; i++)
        if (strlen(parameters[i].name) == length && strncmp(parameters[i].name, name, length) == 0) return i;
    return -1;
}

static int parse_call(parser *p)
{
    skip(p);
    if (strncmp(p->at, "tclean", 6) == 0) p->at += 6;
    skip(p);
    if (*p->at != '(') return syntax(p, "'('");
    p->at++;
    for (skip(p); *p->at != ')'; skip(p)) {
        const char *name = p->at;
        while (isalnum((unsigned char)*p->at) || *p->at == '_') p->at++;
        const size_t length = (size_t)(p->at - name);
        skip(p);
        if (!length || *p->at != '=') return syntax(p, "'name='");
        const int i = find_parameter(name, length);
        if (i < 0) return msi_error_set(MSI_EUSAGE, "-tclean: %.*s is not a parameter of tclean", (int)length, name);
        p->at++;
        skip(p);
        MSI_TRY(parse_value(p, &p->v[i]));
        MSI_TRY(skip_comma(p, ')'));
    }
    p->at++;
    skip(p);
    return *p->at ? syntax(p, "the end") : MSI_OK;
}

/* Remove the blanks of quantities, such as '0.1 arcsec'. */
static void join_quantities(parser *p)
{
    static const int quantities[] = {P_CELL,    P_START,     P_WIDTH,         P_RESTFREQ,
                                     P_UVTAPER, P_THRESHOLD, P_RESTORINGBEAM, P_REFFREQ};
    for (size_t k = 0; k < sizeof quantities / sizeof *quantities; k++)
        for (int i = 0; i < p->v[quantities[k]].n; i++) {
            char *to = p->v[quantities[k]].item[i].text;
            for (const char *c = to; *c; c++)
                if (*c != ' ') *to++ = *c;
            *to = 0;
        }
}

/* ---- Values of parameters ---- */

/* Return the only item as text; "" if the parameter is not given or is empty. */
static const char *text_of(const parser *p, int i)
{
    return p->v[i].n ? p->v[i].item[0].text : "";
}

static const char *text_or(const parser *p, int i, const char *absent)
{
    return *text_of(p, i) ? text_of(p, i) : absent;
}

static int is_true(const parser *p, int i, int absent)
{
    return p->v[i].n ? strcmp(text_of(p, i), "0") != 0 && *text_of(p, i) : absent;
}

static double number_of(const parser *p, int i, double absent)
{
    return *text_of(p, i) ? atof(text_of(p, i)) : absent;
}

static int refuse(int i, const char *text, const char *why)
{
    return msi_error_set(MSI_EUSAGE, "-tclean: %s=%s is refused: %s", parameters[i].name, text, why);
}

/* Return 1 if a text is one of the words of a list separated by |. */
static int is_one_of(const char *text, const char *list)
{
    size_t length;
    const char *word;
    if (!*text && !*list) return 1;
    for (int i = 0; (word = msi_option_word(list, '|', i, &length)); i++)
        if (strlen(text) == length && strncasecmp(text, word, length) == 0) return 1;
    return 0;
}

static int is_cube(const parser *p)
{
    return is_one_of(text_or(p, P_SPECMODE, "mfs"), "cube|cubedata");
}

/* Refuse parameters, unless they have values that mean that they are not used. */
static int check_refused(const parser *p)
{
    for (int i = N_MAPPED; i < N_PARAMETER; i++) {
        const parameter *q = &parameters[i];
        const value *v = &p->v[i];
        const int is_empty = v->n == 0 || (v->n == 1 && !*v->item[0].text);
        if (q->is != REFUSED || !v->is_given || is_empty) continue;
        if (v->n > 1 || !is_one_of(v->item[0].text, q->unused)) return refuse(i, v->item[0].text, q->why);
    }
    return MSI_OK;
}

/* Return 1 if all items of a list are the same. */
static int is_uniform(const value *v)
{
    for (int i = 1; i < v->n; i++)
        if (strcmp(v->item[i].text, v->item[0].text) != 0) return 0;
    return 1;
}

/* Add an option with the text of a parameter, if it is given. The items of a list must be equal. */
static int put_text(msi_words *w, const parser *p, int i, const char *option)
{
    if (!*text_of(p, i)) return MSI_OK;
    if (!is_uniform(&p->v[i])) return refuse(i, "a list", "give one value");
    return add_words(w, 2, option, text_of(p, i));
}

/* Add an option of selection. A list has one item for each set, in the order of the sets. */
static int put_selected(msi_words *w, const parser *p, int i, const char *option)
{
    const value *v = &p->v[i];
    const char next[] = {MSI_MSSEL_NEXT_SET, 0};
    char *all;
    int64_t size = 1;
    if (is_uniform(v)) return put_text(w, p, i, option);
    if (v->n != p->v[P_VIS].n)
        return msi_error_set(MSI_EUSAGE,
                             "-tclean: %s is a list of %d, vis of %d; give one value for all sets, or one for each",
                             parameters[i].name, v->n, p->v[P_VIS].n);
    for (int k = 0; k < v->n; k++) size += (int64_t)strlen(v->item[k].text) + 1;
    MSI_TRY(msi_alloc(&all, size, 1, "a call of tclean"));
    for (int k = 0; k < v->n; k++) {
        if (k) strcat(all, next);
        strcat(all, v->item[k].text);
    }
    const int rc = add_words(w, 2, option, all);
    msi_free(all);
    return rc;
}

/* ---- Data ---- */

static int put_selection(msi_words *w, const parser *p)
{
    const value *field = &p->v[P_FIELD];
    const int is_number = is_uniform(field) && !text_of(p, P_FIELD)[strspn(text_of(p, P_FIELD), "0123456789,")];
    if (!is_true(p, P_SELECTDATA, 1)) return add_words(w, 2, "-field", "all");
    if (is_number)
        MSI_TRY(add_words(w, 2, "-field", text_or(p, P_FIELD, "all")));
    else
        MSI_TRY(put_selected(w, p, P_FIELD, "-select-field"));
    MSI_TRY(put_selected(w, p, P_SPW, "-select-spw"));
    MSI_TRY(put_selected(w, p, P_TIMERANGE, "-select-time"));
    MSI_TRY(put_selected(w, p, P_UVRANGE, "-select-uvrange"));
    MSI_TRY(put_selected(w, p, P_ANTENNA, "-select-antenna"));
    MSI_TRY(put_selected(w, p, P_SCAN, "-select-scan"));
    MSI_TRY(put_selected(w, p, P_OBSERVATION, "-select-observation"));
    return put_selected(w, p, P_INTENT, "-select-intent");
}

static int put_column(msi_words *w, const parser *p)
{
    const char *c = text_or(p, P_DATACOLUMN, "corrected");
    /* Sets without CORRECTED_DATA use DATA, as in tclean. */
    if (is_one_of(c, "corrected|corrected_data")) return MSI_OK;
    if (is_one_of(c, "data")) return add_words(w, 2, "-data-column", "DATA");
    if (is_one_of(c, "model|model_data")) return add_words(w, 2, "-data-column", "MODEL_DATA");
    return refuse(P_DATACOLUMN, c, "give corrected, data or model");
}

/* ---- Image ---- */

static int put_cell(msi_words *w, const parser *p)
{
    const value *v = &p->v[P_CELL];
    char text[64];
    if (!v->n || !*text_of(p, P_CELL)) return add_words(w, 2, "-scale", "1asec");
    if (!is_uniform(v)) return refuse(P_CELL, "a list", "pixels are square; give one size");
    const int is_bare =
        v->item[0].kind == VALUE_NUMBER || !isalpha((unsigned char)text_of(p, P_CELL)[strlen(text_of(p, P_CELL)) - 1]);
    snprintf(text, sizeof text, "%.40s%s", text_of(p, P_CELL), is_bare ? "asec" : "");
    return add_words(w, 2, "-scale", text);
}

/* Add the centre: a direction such as J2000 05h35m17s -05d23m28s, or a field's number. Moving fields are always
 * tracked. */
static int put_centre(msi_words *w, const parser *p)
{
    const char *text = text_of(p, P_PHASECENTER);
    char frame[32] = "", ra[64] = "", dec[64] = "";
    if (!*text) return MSI_OK;
    const int n = sscanf(text, "%31s %63s %63s", frame, ra, dec);
    if (n == 3 && (strcasecmp(frame, "J2000") == 0 || strcasecmp(frame, "ICRS") == 0))
        return add_words(w, 3, "-shift", ra, dec);
    if (n == 2 && isdigit((unsigned char)*frame)) return add_words(w, 3, "-shift", frame, ra);
    if (n == 1 && !frame[strspn(frame, "0123456789")]) return add_words(w, 3, "-shift", "field", frame);
    if (n == 1 && strcasecmp(frame, "TRACKFIELD") == 0) return MSI_OK;
    return refuse(P_PHASECENTER, text, "give a direction such as 'J2000 05h35m17s -05d23m28s', or a field's number");
}

static int put_stokes(msi_words *w, const parser *p)
{
    const char *s = text_or(p, P_STOKES, "I");
    char list[32] = "";
    if (is_one_of(s, "RRLL|XXYY|RR|LL|XX|YY")) {
        snprintf(list, sizeof list, "%.2s%s%.2s", s, s[2] ? "," : "", s + 2);
        return add_words(w, 2, "-pol", list);
    }
    if (s[strspn(s, "IQUV")] || strlen(s) > 4)
        return refuse(P_STOKES, s, "give I, Q, U, V, RRLL, XXYY or parts of them");
    for (size_t i = 0; s[i]; i++) snprintf(list + strlen(list), sizeof list - strlen(list), "%s%c", i ? "," : "", s[i]);
    return add_words(w, 2, "-pol", list);
}

static int put_image(msi_words *w, const parser *p)
{
    const value *size = &p->v[P_IMSIZE];
    const char *gridder = text_or(p, P_GRIDDER, "standard");
    const char *width = size->n ? size->item[0].text : "100";
    MSI_TRY(add_words(w, 3, "-size", width, size->n > 1 ? size->item[1].text : width));
    MSI_TRY(put_cell(w, p));
    MSI_TRY(put_centre(w, p));
    MSI_TRY(put_stokes(w, p));
    if (!*text_of(p, P_IMAGENAME)) return refuse(P_IMAGENAME, "''", "give the beginning of the names of the files");
    MSI_TRY(add_words(w, 2, "-name", text_of(p, P_IMAGENAME)));
    const int is_mosaic = is_one_of(gridder, "mosaic|mosaicft|ftmosaic|imagemosaic|awproject|awprojectft|awp2|awphpg");
    if (is_mosaic) MSI_TRY(add_words(w, 1, "-mosaic"));
    if (is_mosaic && !is_true(p, P_MOSWEIGHT, 1)) MSI_TRY(add_words(w, 1, "-no-mosweight"));
    if (is_true(p, P_USEPOINTING, 0)) MSI_TRY(add_words(w, 1, "-use-pointing"));
    if (is_mosaic) return add_words(w, 2, "-pblimit", text_or(p, P_PBLIMIT, "0.2"));
    if (!is_one_of(gridder, "standard|gridft|ft|wproject|wprojectft|widefield"))
        return refuse(P_GRIDDER, gridder, "give standard, wproject, mosaic or awproject");
    if (!is_true(p, P_PBCOR, 0)) return MSI_OK;
    return add_words(w, 3, "-pbcor", "-pblimit", text_or(p, P_PBLIMIT, "0.2"));
}

/* ---- Channels ---- */

static int put_cube(msi_words *w, const parser *p)
{
    const char *mode = text_or(p, P_SPECMODE, "mfs"), *frame = text_or(p, P_OUTFRAME, "LSRK"),
               *velocity = text_or(p, P_VELTYPE, "radio");
    if (is_one_of(mode, "mfs|mvc")) {
        if (strcasecmp(mode, "mvc") == 0) return refuse(P_SPECMODE, mode, "Taylor terms are not made of cubes");
        return MSI_OK;
    }
    if (strcasecmp(mode, "cubesource") == 0)
        return refuse(P_SPECMODE, mode,
                      "frames do not follow a moving source; specmode='cube' with outframe='TOPO' or "
                      "'LSRK' does not either");
    if (!is_cube(p)) return refuse(P_SPECMODE, mode, "give mfs, cube or cubedata");
    if (is_one_of(velocity, "radio"))
        velocity = "radio";
    else if (is_one_of(velocity, "optical|z"))
        velocity = "optical";
    else if (is_one_of(velocity, "relativistic|beta|true"))
        velocity = "relativistic";
    else
        return refuse(P_VELTYPE, velocity, "give radio, optical or relativistic");
    MSI_TRY(add_words(w, 3, "-cube", "-frame", strcasecmp(mode, "cubedata") == 0 ? "data" : frame));
    if (number_of(p, P_NCHAN, -1) > 0) MSI_TRY(add_words(w, 2, "-cube-nchan", text_of(p, P_NCHAN)));
    MSI_TRY(put_text(w, p, P_START, "-cube-start"));
    MSI_TRY(put_text(w, p, P_WIDTH, "-cube-width"));
    MSI_TRY(add_words(w, 2, "-velocity", velocity));
    /* tclean uses the first of a list, too. */
    if (*text_of(p, P_RESTFREQ)) MSI_TRY(add_words(w, 2, "-rest-frequency", text_of(p, P_RESTFREQ)));
    return put_text(w, p, P_INTERPOLATION, "-channel-interpolation");
}

/* ---- Weights ---- */

static int put_taper(msi_words *w, const parser *p)
{
    const value *v = &p->v[P_UVTAPER];
    char text[256] = "";
    if (!v->n || !*text_of(p, P_UVTAPER)) return MSI_OK;
    if (v->n > 3) return refuse(P_UVTAPER, "a list", "give one or two widths, and an angle");
    for (int i = 0; i < v->n; i++) {
        char *unit;
        const double number = strtod(v->item[i].text, &unit);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.12g%s", i ? "," : "", number,
                 *unit    ? unit
                 : i == 2 ? "deg"
                          : "lambda");
    }
    return add_words(w, 2, "-taper-gaussian", text);
}

static int put_weights(msi_words *w, const parser *p)
{
    const char *weight = text_or(p, P_WEIGHTING, "natural");
    if (is_one_of(weight, "briggs|briggsbwtaper"))
        MSI_TRY(add_words(w, 3, "-weight", weight, text_or(p, P_ROBUST, "0.5")));
    else if (is_one_of(weight, "natural|uniform"))
        MSI_TRY(add_words(w, 2, "-weight", weight));
    else
        return refuse(P_WEIGHTING, weight,
                      "give natural, uniform, briggs or briggsbwtaper; -super-weight makes superuniform weights");
    if (is_cube(p) && !is_true(p, P_PERCHAN, 1)) {
        if (strcasecmp(weight, "briggsbwtaper") == 0)
            return refuse(P_PERCHAN, "False", "briggsbwtaper has the densities of each channel");
        MSI_TRY(add_word(w, "-mf-weighting"));
    }
    return put_taper(w, p);
}

/* ---- Cleaning ---- */

static int put_deconvolver(msi_words *w, const parser *p)
{
    const char *name = text_or(p, P_DECONVOLVER, "hogbom");
    const value *s = &p->v[P_SCALES];
    const int is_mtmfs = strcasecmp(name, "mtmfs") == 0 && number_of(p, P_NTERMS, 2) > 1;
    char scales[512] = "";
    if (is_mtmfs && number_of(p, P_NITER, 0) > 0) {
        MSI_TRY(add_words(w, 4, "-deconvolver", "mtmfs", "-nterms", text_or(p, P_NTERMS, "2")));
        MSI_TRY(put_text(w, p, P_REFFREQ, "-reffreq"));
    }
    if (is_mtmfs && !s->n) return MSI_OK;
    if (is_one_of(name, "hogbom|clark|clarkstokes|clark_exp|clarkstokes_exp")) return MSI_OK;
    if (!is_one_of(name, "multiscale|mtmfs"))
        return refuse(P_DECONVOLVER, name, "give hogbom, clark, multiscale or mtmfs");
    MSI_TRY(add_word(w, "-multiscale"));
    /* tclean's scales are radii. Without scales it cleans points. */
    for (int i = 0; i < s->n; i++)
        snprintf(scales + strlen(scales), sizeof scales - strlen(scales), "%s%.9g", i ? "," : "",
                 2 * atof(s->item[i].text));
    MSI_TRY(add_words(w, 2, "-multiscale-scales", *scales ? scales : "0"));
    return put_text(w, p, P_SMALLSCALEBIAS, "-smallscalebias");
}

static int put_restoring(msi_words *w, const parser *p)
{
    const value *v = &p->v[P_RESTORINGBEAM];
    const char *first = text_of(p, P_RESTORINGBEAM);
    if (!*first) return MSI_OK;
    if (strcasecmp(first, "common") == 0) return is_cube(p) ? add_words(w, 2, "-restoring-beam", "common") : MSI_OK;
    return add_words(w, 4, "-beam-shape", first, v->n > 1 ? v->item[1].text : first,
                     v->n > 2 ? v->item[2].text : "0deg");
}

static int put_threshold(msi_words *w, const parser *p)
{
    const char *text = text_of(p, P_THRESHOLD);
    char jy[80];
    if (number_of(p, P_NSIGMA, 0) > 0) MSI_TRY(add_words(w, 2, "-auto-threshold", text_of(p, P_NSIGMA)));
    if (!(number_of(p, P_THRESHOLD, 0) > 0)) return MSI_OK;
    snprintf(jy, sizeof jy, "%.64s%s", text, p->v[P_THRESHOLD].item[0].kind == VALUE_NUMBER ? "Jy" : "");
    char *end = jy + strlen(jy);
    if (end > jy + 5 && strcasecmp(end - 5, "/beam") == 0) end[-5] = 0;
    return add_words(w, 2, "-threshold", jy);
}

/* Add a mask; or regions, which become lines of one text. */
static int put_masks(msi_words *w, const parser *p)
{
    const value *v = &p->v[P_MASK];
    char lines[MOST_TEXT] = "";
    size_t at = 0;
    for (int i = 0; i < v->n && at < sizeof lines; i++) {
        if (v->n > 1 && !strstr(v->item[i].text, "[["))
            return refuse(P_MASK, "a list", "give one file, or regions such as 'circle[[9pix, 9pix], 3pix]'");
        at += (size_t)snprintf(lines + at, sizeof lines - at, "%s%s", i ? "\n" : "", v->item[i].text);
    }
    if (at >= sizeof lines) return refuse(P_MASK, "a list", "it is too long; write the regions into a file");
    return add_words(w, 2, "-mask", lines);
}

static int put_mask(msi_words *w, const parser *p)
{
    static const struct {
        int parameter;
        const char *option;
    } automatic[] = {{P_SIDELOBE, "-sidelobethreshold"}, {P_NOISE_THRESHOLD, "-noisethreshold"},
                     {P_LOWNOISE, "-lownoisethreshold"}, {P_NEGATIVE, "-negativethreshold"},
                     {P_SMOOTH, "-smoothfactor"},        {P_MINBEAM, "-minbeamfrac"},
                     {P_CUT, "-cutthreshold"},           {P_GROW, "-growiterations"},
                     {P_CHANGE, "-minpercentchange"}};
    const char *use = text_or(p, P_USEMASK, "user"), *mask = text_of(p, P_MASK);
    if (!is_one_of(use, "user|pb|auto-multithresh")) return refuse(P_USEMASK, use, "give user, pb or auto-multithresh");
    if (strcasecmp(use, "user") == 0 && *mask) {
        return put_masks(w, p);
    }
    if (strcasecmp(use, "user") != 0 && number_of(p, P_PBMASK, 0) > 0)
        MSI_TRY(add_words(w, 2, "-pbmask", text_of(p, P_PBMASK)));
    if (strcasecmp(use, "auto-multithresh") != 0) return MSI_OK;
    MSI_TRY(add_word(w, "-auto-multithresh"));
    for (size_t i = 0; i < sizeof automatic / sizeof *automatic; i++)
        MSI_TRY(put_text(w, p, automatic[i].parameter, automatic[i].option));
    if (!p->v[P_PRUNE].n) return MSI_OK;
    return add_words(w, 2, "-dogrowprune", is_true(p, P_PRUNE, 1) ? "true" : "false");
}

static int put_cleaning(msi_words *w, const parser *p)
{
    const char *save = text_or(p, P_SAVEMODEL, "none");
    if (!is_one_of(save, "none|modelcolumn"))
        return refuse(P_SAVEMODEL, save, "models are written as a column; give savemodel='modelcolumn'");
    MSI_TRY(put_deconvolver(w, p));
    MSI_TRY(put_restoring(w, p));
    if (!(number_of(p, P_NITER, 0) > 0)) return MSI_OK;
    char niter[32];
    snprintf(niter, sizeof niter, "%.0f", number_of(p, P_NITER, 0));
    MSI_TRY(add_words(w, 2, "-niter", niter));
    MSI_TRY(put_text(w, p, P_GAIN, "-gain"));
    if (number_of(p, P_NMAJOR, -1) > 0) MSI_TRY(put_text(w, p, P_NMAJOR, "-nmiter"));
    MSI_TRY(put_threshold(w, p));
    MSI_TRY(put_mask(w, p));
    return add_word(w, strcasecmp(save, "none") == 0 ? "-no-update-model-required" : "-update-model-required");
}

/* ---- The command line ---- */

static int put_call(msi_words *w, const parser *p)
{
    MSI_TRY(check_refused(p));
    MSI_TRY(add_words(w, 2, "-like", "tclean"));
    MSI_TRY(put_selection(w, p));
    MSI_TRY(put_column(w, p));
    MSI_TRY(put_image(w, p));
    MSI_TRY(put_cube(w, p));
    MSI_TRY(put_weights(w, p));
    return put_cleaning(w, p);
}

int msi_tclean_expand(msi_words *out, int argc, const char *const *argv)
{
    int at = 1;
    parser *p;
    *out = (msi_words){0};
    while (at < argc && !(argv[at][0] == '-' && strcmp(msi_parse_option_name(argv[at]), "tclean") == 0)) at++;
    if (at == argc) return MSI_OK;
    if (at + 1 == argc)
        return msi_error_set(MSI_EUSAGE, "-tclean: an argument is missing; write -tclean \"tclean(..)\"");
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "a call of tclean"));
    p->at = argv[at + 1];
    int rc = parse_call(p);
    join_quantities(p);
    if (!rc) rc = add_word(out, argv[0]);
    if (!rc) rc = put_call(out, p);
    for (int i = 1; i < argc && !rc; i++)
        if (i != at && i != at + 1) rc = add_word(out, argv[i]);
    if (!rc && !*text_of(p, P_VIS)) rc = refuse(P_VIS, "nothing", "give the Measurement Set");
    for (int i = 0; i < p->v[P_VIS].n && !rc; i++) rc = add_word(out, p->v[P_VIS].item[i].text);
    for (int i = 0; i < N_PARAMETER; i++) msi_free(p->v[i].item);
    msi_free(p);
    if (rc) msi_words_free(out);
    return rc;
}
