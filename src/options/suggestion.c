/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/suggestion.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/status.h"
#include "io/ms/ms_mark.h"
#include "src/options/option_table.h"
#include "src/options/tclean_words.h"
#include "src/options/wsclean_options.h"

/* A word of CASA or another program, with the option of the same meaning; or with advice if there is no such option.
 * Options with a similar name are then not suggested. */
typedef struct foreign_name {
    const char *name, *option, *advice;
} foreign_name;

#define CYCLES      "-mgain sets the depth of a major cycle, -nmiter the number of cycles"
#define MASKS       "give a mask with -fits-mask or -casa-mask, or make one with -auto-mask or -auto-multithresh"
#define MODES       "use -cube for the planes of a cube, -channels-out for several images of the band"
#define NITER_NAME  "-niter gives the most components, -name the prefix of the files"
#define SETS_LAST   "give the Measurement Sets last, without an option name"
#define OUTPUT_LAST "give the inputs and the output last, without an option name"
#define FORMATS     "the ending of OUT chooses: .uvfits, .uvf or .fits, .msv, or any other for a Measurement Set"
#define DEVICES     "use -backend cpu or -backend cuda; -gpus chooses the GPUs"
#define LOG         "the log is standard error; write it to a file with 2>run.log"
#define CONFIG      "all options are words of the command line; a script can keep them"
#define FOLDER      "-name is a prefix with its folder, such as -name out/image"
#define BAND        "without -channels-out there is one image of the whole band; with it, that image (MFS) is also made"
#define CHANNELS    "-channel-range selects channels, -channels-out makes several images of the band"
#define DIRTY       "leave out -niter: without it the image is dirty"
#define PIXELS      "-size is the width and height in pixels, -scale the size of a pixel"
#define TIMES       "-interval selects time steps by number, -select-time by date"
#define WEIGHTS     "-weight takes natural, uniform, or briggs and the robustness, as in -weight briggs 0.5"

/* Words that users may try as options of msimage: parameters of tclean for which there is no single option (the others
 * are rows of tclean_words.c), parameters of mstransform, and options of other programs. */
static const foreign_name imaging_names[] = {
    {"N", NULL, NITER_NAME},
    {"baseline", "select-antenna", NULL},
    {"briggs", NULL, WEIGHTS},
    {"cellsize", "scale", NULL},
    {"center", "shift", NULL},
    {"centre", "shift", NULL},
    {"chan", "channel-range", NULL},
    {"chanbin", NULL, "use msimage-convert -average-channels"},
    {"channels", NULL, CHANNELS},
    {"chanrange", "channel-range", NULL},
    {"clean", NULL, "give -niter, the most components: with it the image is cleaned"},
    {"clobber", "overwrite", NULL},
    {"column", "data-column", NULL},
    {"config", NULL, CONFIG},
    {"cores", "j", NULL},
    {"corr", "pol", NULL},
    {"correlation", "pol", NULL},
    {"cpu", NULL, DEVICES},
    {"cpus", "j", NULL},
    {"create-dirs", NULL, "the folder of -name must exist; make it with mkdir -p"},
    {"cuda", "backend", NULL},
    {"cyclefactor", NULL, CYCLES},
    {"cycleniter", NULL, CYCLES},
    {"ddid", "spws", NULL},
    {"debug", "verbose", NULL},
    {"dec", "shift", NULL},
    {"device", NULL, DEVICES},
    {"direction", "shift", NULL},
    {"dirty", NULL, DIRTY},
    {"dirty-only", NULL, DIRTY},
    {"dry", "dry-run", NULL},
    {"epsilon", "accuracy", NULL},
    {"f", "overwrite", NULL},
    {"facets", "facet-auto", NULL},
    {"format", NULL, "images are FITS files; -png writes pictures of them, too"},
    {"fov", NULL, PIXELS},
    {"ft", "predict", NULL},
    {"height", NULL, PIXELS},
    {"html", "report", NULL},
    {"i", NULL, SETS_LAST},
    {"image-name", "name", NULL},
    {"imname", "name", NULL},
    {"input", NULL, SETS_LAST},
    {"interactive", NULL, MASKS},
    {"iter", "niter", NULL},
    {"iterations", "niter", NULL},
    {"jpeg", "png", NULL},
    {"jpg", "png", NULL},
    {"log", NULL, LOG},
    {"log-file", NULL, LOG},
    {"log-level", NULL, "use -quiet or -verbose"},
    {"logfile", NULL, LOG},
    {"loop-gain", "gain", NULL},
    {"loopgain", "gain", NULL},
    {"maxpsffraction", NULL, CYCLES},
    {"mf", NULL, BAND},
    {"mfs", NULL, BAND},
    {"minpsffraction", NULL, CYCLES},
    {"mode", NULL, MODES},
    {"model", NULL, "-name gives the prefix of the models: NAME-model.fits"},
    {"ms", NULL, SETS_LAST},
    {"ms-clean", "multiscale", NULL},
    {"n", NULL, NITER_NAME},
    {"natural", NULL, WEIGHTS},
    {"ncores", "j", NULL},
    {"ncpu", "j", NULL},
    {"nfacets", "facet-auto", NULL},
    {"no-gpu", NULL, DEVICES},
    {"no-progress", NULL, "-quiet prints errors only"},
    {"np", "j", NULL},
    {"npix", "size", NULL},
    {"nproc", "j", NULL},
    {"nthreads", "j", NULL},
    {"o", "name", NULL},
    {"out", "name", NULL},
    {"outdir", NULL, FOLDER},
    {"outfile", "name", NULL},
    {"outname", "name", NULL},
    {"output", "name", NULL},
    {"output-dir", NULL, FOLDER},
    {"output-file", "name", NULL},
    {"output-name", "name", NULL},
    {"outputname", "name", NULL},
    {"outputvis", NULL, "use msimage-convert to write a new set"},
    {"parset", NULL, CONFIG},
    {"perchanweightdensity", "no-mf-weighting", NULL},
    {"phase-center", "shift", NULL},
    {"phase-centre", "shift", NULL},
    {"phasecentre", "shift", NULL},
    {"pixel", "scale", NULL},
    {"pixel-scale", "scale", NULL},
    {"pixel-size", "scale", NULL},
    {"pixelscale", "scale", NULL},
    {"pixelsize", "scale", NULL},
    {"plan", "dry-run", NULL},
    {"plot", "png", NULL},
    {"prefix", "name", NULL},
    {"primary-beam", "apply-primary-beam", NULL},
    {"psf", "make-psf", NULL},
    {"q", "quiet", NULL},
    {"ra", "shift", NULL},
    {"restart", "resume", NULL},
    {"restoringbeam", NULL, "use -restoring-beam for the planes of a cube, or -beam-shape"},
    {"robust", NULL, WEIGHTS},
    {"s", NULL, "-size is the size of the image, and -quiet hides the log"},
    {"save-model", "update-model-required", NULL},
    {"savemodel", "update-model-required", NULL},
    {"scan", "select-scan", NULL},
    {"silent", "quiet", NULL},
    {"simulate", "dry-run", NULL},
    {"solutions", "apply-facet-solutions", NULL},
    {"specmode", NULL, MODES},
    {"startmodel", "continue", NULL},
    {"t", "j", NULL},
    {"threads", "j", NULL},
    {"time-range", NULL, TIMES},
    {"timebin", NULL, "use msimage-convert -average-time"},
    {"tmp", "temp-dir", NULL},
    {"tmpdir", "temp-dir", NULL},
    {"trim", NULL, "-size is the size of the image, and padding is chosen from -accuracy"},
    {"uniform", NULL, WEIGHTS},
    {"use-gpu", NULL, DEVICES},
    {"usemask", NULL, MASKS},
    {"uv-max", "maxuv-l", NULL},
    {"uv-min", "minuv-l", NULL},
    {"uvmax", "maxuv-l", NULL},
    {"uvmin", "minuv-l", NULL},
    {"vis", NULL, SETS_LAST},
    {"w", "weight", NULL},
    {"w-layers", NULL, "the number of w-planes follows from -accuracy"},
    {"wprojplanes", NULL, "the number of w-planes follows from -accuracy"},
    {"y", "overwrite", NULL},
};

/* Parameters of mstransform and split, for msimage-convert. */
static const foreign_name convert_names[] = {
    {"antenna", "select-antenna", NULL},
    {"avg-chan", "average-channels", NULL},
    {"avg-channels", "average-channels", NULL},
    {"avg-time", "average-time", NULL},
    {"chanaverage", "average-channels", NULL},
    {"chanbin", "average-channels", NULL},
    {"clobber", "overwrite", NULL},
    {"datacolumn", "data-column", NULL},
    {"f", "overwrite", NULL},
    {"force", "overwrite", NULL},
    {"format", NULL, FORMATS},
    {"freqstep", "average-channels", NULL},
    {"i", NULL, OUTPUT_LAST},
    {"input", NULL, OUTPUT_LAST},
    {"o", NULL, OUTPUT_LAST},
    {"out", NULL, OUTPUT_LAST},
    {"output", NULL, OUTPUT_LAST},
    {"outputvis", NULL, OUTPUT_LAST},
    {"phasecenter", "shift", NULL},
    {"scan", "select-scan", NULL},
    {"split", NULL, "give the columns and selections that the output takes, such as -data-column CORRECTED_DATA"},
    {"spw", "select-spw", NULL},
    {"timeaverage", "average-time", NULL},
    {"timebin", "average-time", NULL},
    {"timerange", "select-time", NULL},
    {"timestep", "average-time", NULL},
    {"to", NULL, FORMATS},
    {"uvrange", "select-uvrange", NULL},
    {"vis", NULL, OUTPUT_LAST},
    {"width", "average-channels", NULL},
    {"y", "overwrite", NULL},
};

static const struct {
    const foreign_name *list;
    size_t n;
} tasks[] = {
    [MSI_CASA_TCLEAN] = {imaging_names, sizeof imaging_names / sizeof *imaging_names},
    [MSI_CASA_MSTRANSFORM] = {convert_names, sizeof convert_names / sizeof *convert_names},
};

enum { LONGEST = 31, FAR = 99, MAX_NAMED = 3, LEAST_PREFIX = 3 };

static int smaller_of(int a, int b)
{
    return a < b ? a : b;
}

/* Count the letters to change, insert, delete or swap with their neighbour, to turn one short word into another
 * (optimal string alignment). */
static int edit_distance(const char *a, int n_a, const char *b, int n_b)
{
    int d[LONGEST + 1][LONGEST + 1];
    for (int i = 0; i <= n_a; i++)
        for (int j = 0; j <= n_b; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            d[i][j] = smaller_of(d[i - 1][j - 1] + (a[i - 1] != b[j - 1]), smaller_of(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = smaller_of(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n_a][n_b];
}

/* Return the distance of two words, or FAR if they are not similar. Similar words begin with the same letter, and at
 * most one letter in three of the shorter word differs, or the shorter word is the beginning of the other one. */
static int word_distance(const char *a, int n_a, const char *b, int n_b)
{
    const int shorter = smaller_of(n_a, n_b);
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

static int option_distance(const char *name, const char *other)
{
    const size_t length = strlen(name);
    if (strcmp(name, other) == 0) return 0;
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

/* Return the i-th name: first names of the option table, then those of WSClean's other options. "": skip this one;
 * NULL: after the last. */
static const char *known_name_at(int i)
{
    const msi_option *o = msi_option_at(i);
    if (o) return o->name;
    i -= msi_option_count();
    if (i >= msi_wsclean_count) return NULL;
    /* Suggest the option itself instead of its former name without dashes. */
    const msi_wsclean_option *w = &msi_wsclean_table[i];
    return w->is == MSI_WSCLEAN_MAPPED && same_but_dashes(w->name, w->own) ? "" : w->name;
}

static const foreign_name *find_foreign_name(msi_casa_task task, const char *name)
{
    for (size_t i = 0; i < tasks[task].n; i++)
        if (strcmp(name, tasks[task].list[i].name) == 0) return &tasks[task].list[i];
    return NULL;
}

/* Return the option that a parameter of tclean becomes, with its dash; NULL if it does not become a single option. */
static const char *tclean_option(const char *name)
{
    const char *parameter, *answer, *why;
    for (int i = 0; (parameter = msi_tclean_parameter(i, &answer, &why)); i++)
        if (strcmp(name, parameter) == 0) return why[0] == '-' && !strpbrk(why, " ,;") ? why : NULL;
    return NULL;
}

const char *msi_suggestion_advice(msi_casa_task task, const char *name)
{
    const foreign_name *found = find_foreign_name(task, name);
    return found ? found->advice : NULL;
}

int msi_suggestion(char *out, const char *name)
{
    return msi_suggestion_among(out, name, MSI_CASA_TCLEAN, known_name_at);
}

int msi_suggestion_among(char *out, const char *name, msi_casa_task task, const char *(*option_at)(int i))
{
    const char *near[MAX_NAMED], *other;
    int least = FAR, n_near = 0, used = 0;
    char lower[LONGEST + 1];
    out[0] = 0;
    if (!*name || strlen(name) > LONGEST) return 0;
    size_t length = 0;
    for (; name[length]; length++) lower[length] = (char)tolower((unsigned char)name[length]);
    lower[length] = 0;
    const foreign_name *found = find_foreign_name(task, lower);
    if (found) {
        if (found->option) snprintf(out, MSI_SUGGESTION_SIZE, "-%s", found->option);
        return found->option != NULL;
    }
    const char *const tclean = task == MSI_CASA_TCLEAN ? tclean_option(lower) : NULL;
    if (tclean) {
        snprintf(out, MSI_SUGGESTION_SIZE, "%s", tclean);
        return 1;
    }
    for (int i = 0; (other = option_at(i)); i++) {
        const int distance = *other ? option_distance(lower, other) : FAR;
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

/* ---- Hints in messages of failures ---- */

const msi_hint_row msi_hint_table[] = {
    {"accuracy", "use a larger -accuracy", 0},
    {"backend", "use -backend cpu", 0},
    {"channel", "change -channel-range", 1},
    {"field", "change -field", 1},
    {"kernel", "use -kernel auto", 0},
    {"memory", "allow more with -abs-mem or -mem", 0},
    {"method", "use -gridder wgrid", 0},
    {"n_reader", "use -readers 1", 0},
    {"n_row", "image fewer rows at a time with -interval", 0},
    {"n_slice", "use more -wstack-slices", 0},
    {"overwrite", "-overwrite replaces it", 0},
    {"spectral window", "change -spws", 1},
    {"strategy", "use -strategy auto", 0},
    {"temp_dir", "use -temp-dir to choose another directory", 0},
    {"timestep", "change -interval", 1},
    {"w_max_lambda", "correct rows with a wrong W, or leave them out with -maxuvw-m", 1},
};
const int msi_hint_count = sizeof msi_hint_table / sizeof *msi_hint_table;

static const char GPU_MEMORY[] =
    "; nvidia-smi lists the processes that use the GPU; use -gpus to choose other GPUs, or -backend cpu";

/* Return 1 if a GPU has not enough memory. CUDA reports this in words; cuFFT reports it by CUFFT_ALLOC_FAILED (2) or
 * CUFFT_INTERNAL_ERROR (5). */
static int is_gpu_memory(const char *line)
{
    if (strstr(line, GPU_MEMORY)) return 0;
    return strstr(line, "out of memory") || strstr(line, "cuFFT error 2") || strstr(line, "cuFFT error 5");
}

int msi_hint_append(int status)
{
    const int out_of_range = status == MSI_ERANGE;
    if (status == MSI_EGPU && !*msi_error_about_get() && is_gpu_memory(msi_error_get()))
        return msi_error_append(status, "%s", GPU_MEMORY);
    for (int i = 0; status && i < msi_hint_count; i++) {
        const msi_hint_row *row = &msi_hint_table[i];
        if (strcmp(msi_error_about_get(), row->about) != 0) continue;
        if (out_of_range) status = row->is_input ? MSI_EINPUT : MSI_EUSAGE;
        return msi_error_about(msi_error_append(status, "; %s", row->words), "");
    }
    return out_of_range ? MSI_EUSAGE : status;
}

/* Return 1 if a file of a table was changed after the given time. */
static int is_changed(const char *path, const struct timespec *since)
{
    char name[4096];
    int changed = 0;
    DIR *folder = opendir(path);
    for (const struct dirent *e = NULL; folder && !changed && (e = readdir(folder));) {
        struct stat s;
        if (strncmp(e->d_name, "table.", 6) != 0) continue;
        if (snprintf(name, sizeof name, "%s/%s", path, e->d_name) >= (int)sizeof name || stat(name, &s) != 0) continue;
        changed = s.st_mtim.tv_sec > since->tv_sec ||
                  (s.st_mtim.tv_sec == since->tv_sec && s.st_mtim.tv_nsec > since->tv_nsec);
    }
    if (folder) closedir(folder);
    return changed;
}

int msi_hint_append_writer(int status, const char *const *paths, int n, const struct timespec *began)
{
    const int is_damage = status == MSI_EINPUT && strstr(msi_error_get(), "truncated or corrupt");
    /* If a table is being written, its files may be inconsistent. */
    for (int i = 0; i < n && status == MSI_EINPUT; i++)
        if ((is_damage || strstr(msi_error_get(), paths[i])) && msi_ms_watch_is_locked(paths[i]))
            return msi_error_append(status, "; another process writes into %s: try again when it has ended", paths[i]);
    /* Between two writes, a process has no lock. */
    for (int i = 0; i < n && is_damage && began; i++)
        if (is_changed(paths[i], began))
            return msi_error_append(status,
                                    "; files of %s have changed since this run began: if another process writes "
                                    "into it, try again when it has ended",
                                    paths[i]);
    return status;
}
