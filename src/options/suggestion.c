/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/suggestion.h"

#include <stdio.h>
#include <string.h>

#include "src/options/option_table.h"
#include "src/options/wsclean_options.h"

/* A parameter of CASA's: an option of another name that has the meaning, or what to do instead of one; no option,
 * however near its name is. */
typedef struct casa_name {
    const char *parameter, *option, *instead;
} casa_name;

/* Of tclean, and of mstransform as far as users look for it in msimage. */
static const casa_name tclean_names[] = {
    {"antenna", "select-antenna", NULL},
    {"cell", "scale", NULL},
    {"chanbin", NULL, "msimage-convert -average-channels averages a set"},
    {"cyclefactor", NULL, "-mgain says how far a major cycle goes, -nmiter how many there are"},
    {"cycleniter", NULL, "-mgain says how far a major cycle goes, -nmiter how many there are"},
    {"deconvolver", NULL, "-niter cleans; -multiscale suits extended sources, -fit-spectral-log-pol spectra"},
    {"facets", NULL, "the whole image is exact in w without facets"},
    {"imagename", "name", NULL},
    {"imsize", "size", NULL},
    {"interactive", NULL, "a mask is given by -fits-mask or -casa-mask, or made by -auto-mask or -auto-multithresh"},
    {"mask", "casa-mask", NULL},
    {"nchan", "channels-out", NULL},
    {"nsigma", "auto-threshold", NULL},
    {"nterms", NULL, "-channels-out with -join-channels and -fit-spectral-log-pol fits spectra"},
    {"outframe", NULL, "channels stay in the set's frame; mstransform or cvel2 turn a set before"},
    {"outputvis", NULL, "msimage-convert makes sets of sets"},
    {"pbcor", NULL, "primary beams are not known yet; correct the finished image for the beam"},
    {"pblimit", NULL, "primary beams are not known yet; every pixel within the horizon is imaged"},
    {"perchanweightdensity", "no-mf-weighting", NULL},
    {"phasecenter", "shift", NULL},
    {"restfreq", NULL, "the rest frequency in the header is the set's"},
    {"restoringbeam", "beam-shape", NULL},
    {"robust", "weight", NULL},
    {"savemodel", "update-model-required", NULL},
    {"scales", "multiscale-scales", NULL},
    {"scan", NULL, "scans are selected by -taql 'SCAN_NUMBER == 3'"},
    {"specmode", NULL, "all channels make one image; -channels-out makes several"},
    {"spw", "select-spw", NULL},
    {"start", NULL, "-select-spw or -channel-range choose channels"},
    {"startmodel", "continue", NULL},
    {"stokes", "pol", NULL},
    {"timebin", NULL, "msimage-convert -average-time averages a set"},
    {"timerange", "select-time", NULL},
    {"usemask", NULL, "a mask is given by -fits-mask or -casa-mask, or made by -auto-mask or -auto-multithresh"},
    {"uvrange", "select-uvrange", NULL},
    {"uvtaper", "taper-gaussian", NULL},
    {"vis", NULL, "Measurement Sets are the last words, with none before them"},
    {"weighting", "weight", NULL},
    {"width", NULL, "-select-spw or -channel-range choose channels, -channels-out cuts them into images"},
    {"wprojplanes", NULL, "the number of w-planes follows from -accuracy"},
};

/* Of mstransform and split, as msimage-convert has it. */
static const casa_name mstransform_names[] = {
    {"antenna", "select-antenna", NULL},
    {"chanaverage", "average-channels", NULL},
    {"chanbin", "average-channels", NULL},
    {"datacolumn", "data-column", NULL},
    {"outputvis", NULL, "the sets are the last words, the new one last"},
    {"phasecenter", "shift", NULL},
    {"scan", NULL, "scans are selected by -taql 'SCAN_NUMBER == 3'"},
    {"spw", "select-spw", NULL},
    {"timeaverage", "average-time", NULL},
    {"timebin", "average-time", NULL},
    {"timerange", "select-time", NULL},
    {"uvrange", "select-uvrange", NULL},
    {"vis", NULL, "the sets are the last words, the new one last"},
    {"width", "average-channels", NULL},
};

static const struct {
    const casa_name *name;
    size_t n;
} tasks[] = {
    [MSI_CASA_TCLEAN] = {tclean_names, sizeof tclean_names / sizeof *tclean_names},
    [MSI_CASA_MSTRANSFORM] = {mstransform_names, sizeof mstransform_names / sizeof *mstransform_names},
};

enum { LONGEST = 31, FAR = 99, MAX_NAMED = 3, LEAST_PREFIX = 3 };

static int least_of(int a, int b)
{
    return a < b ? a : b;
}

/* Letters to change, put in, leave out, or swap with their neighbour to make one short word of another. */
static int edit_distance(const char *a, int n_a, const char *b, int n_b)
{
    int d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= n_a; i++)
        for (int j = 0; j <= n_b; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = least_of(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), least_of(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least_of(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n_a][n_b];
}

/* Measure the distance of two words, FAR where they are not the same stem: one letter in three may differ, never the
 * first. */
static int word_distance(const char *a, int n_a, const char *b, int n_b)
{
    const int shorter = least_of(n_a, n_b);
    const int distance = edit_distance(a, n_a, b, n_b);
    if (distance == 0) return 0;
    if (shorter == 0 || a[0] != b[0]) return FAR;
    const int is_prefix = shorter >= LEAST_PREFIX && strncmp(a, b, (size_t)shorter) == 0;
    return is_prefix || distance <= shorter / 3 ? distance : FAR;
}

static int same_but_dashes(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '-' || *a == '_') a++;
        while (*b == '-') b++;
        if (*a != *b) return 0;
        if (!*a) return 1;
    }
}

static int name_distance(const char *name, const char *other)
{
    const size_t length = strlen(name);
    if (same_but_dashes(name, other)) return 1;
    if (length >= LEAST_PREFIX && strncmp(name, other, length) == 0 && other[length] == '-') return 1;
    int sum = 0;
    for (;;) {
        const int n = (int)strcspn(name, "-"), m = (int)strcspn(other, "-");
        sum += word_distance(name, n, other, m);
        if (sum >= FAR || !name[n] || !other[m]) return name[n] || other[m] ? FAR : sum;
        name += n + 1;
        other += m + 1;
    }
}

/* Return the i-th name that there is: the option table's first, then those that WSClean alone has, "" where both have
 * it; NULL past the last. */
static const char *name_at(int i)
{
    const msi_option *o = msi_option_at(i);
    if (o) return o->name;
    i -= msi_option_count();
    if (i >= msi_wsclean_count) return NULL;
    const char *name = msi_wsclean_table[i].name;
    return msi_option_find(name) ? "" : name;
}

static const casa_name *find_casa(msi_casa_task task, const char *name)
{
    for (size_t i = 0; i < tasks[task].n; i++)
        if (strcmp(name, tasks[task].name[i].parameter) == 0) return &tasks[task].name[i];
    return NULL;
}

const char *msi_suggestion_instead(msi_casa_task task, const char *name)
{
    const casa_name *casa = find_casa(task, name);
    return casa ? casa->instead : NULL;
}

int msi_suggestion(char *out, const char *name)
{
    return msi_suggestion_among(out, name, MSI_CASA_TCLEAN, name_at);
}

int msi_suggestion_among(char *out, const char *name, msi_casa_task task, const char *(*option_at)(int i))
{
    const char *near[MAX_NAMED], *other;
    int least = FAR, n_near = 0, used = 0;
    out[0] = 0;
    if (!*name || strlen(name) > LONGEST) return 0;
    const casa_name *casa = find_casa(task, name);
    if (casa) {
        if (casa->option) snprintf(out, MSI_SUGGESTION_SIZE, "-%s", casa->option);
        return casa->option != NULL;
    }
    for (int i = 0; (other = option_at(i)); i++) {
        const int distance = *other ? name_distance(name, other) : FAR;
        if (distance >= FAR || distance > least) continue;
        if (distance < least) n_near = 0;
        least = distance;
        if (n_near < MAX_NAMED) near[n_near++] = other;
    }
    for (int i = 0; i < n_near; i++)
        used += snprintf(out + used, (size_t)(MSI_SUGGESTION_SIZE - used), "%s-%s",
                         i == 0            ? ""
                         : i == n_near - 1 ? " or "
                                           : ", ",
                         near[i]);
    return n_near;
}
