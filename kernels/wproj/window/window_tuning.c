/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/wproj/window/wproj_window_cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"

enum { MAX_LINE = 512, MAX_CACHE_LINES = 4096, FIRST_GROUP = 512 };

/* Numbers of visibilities of a work group that are tried with the best candidate. */
static const int32_t group_sizes[] = {128, 256, 512, 1024};
enum { N_GROUP = sizeof group_sizes / sizeof group_sizes[0] };

/* The progress of tuning a case. The trials are the candidates, in the order of their estimates, and then the group
 * sizes with the best candidate. */
typedef struct progress {
    msi_window_shape best;
    int n_tried, n_trial;
} progress;

/* Write the part of a line that identifies a case, except for the device. Names of devices may contain blanks, so they
 * are at the end of the line. */
static void describe(char *text, size_t size, const msi_window_case *c)
{
    static const char *const lookup[] = {"", "-linear", "-texture"};
    snprintf(text, size, "window-3 %s %s images %d %s%s taps %d", c->degrid ? "degrid" : "grid",
             c->precision == MSI_FP32 ? "fp32" : "fp64", c->n_image, c->full ? "full" : "separable", lookup[c->lookup],
             c->taps);
}

/* Read a line of the cache. Returns 1 and sets *p if the line belongs to the case. */
static int read_line(const char *line, const msi_window_case *c, progress *p)
{
    char key[MAX_LINE];
    describe(key, sizeof key, c);
    size_t n = strlen(key);
    int end = 0;
    msi_window_shape *s = &p->best;
    if (strncmp(line, key, n) != 0) return 0;
    if (sscanf(line + n, " shape %d %d %d %d %d %d %d group %d tried %d of %d on %n", &s->images, &s->coarsen_u,
               &s->coarsen_v, &s->blocks_v, &s->tile_u, &s->tile_v, &s->variant, &s->n_vis, &p->n_tried, &p->n_trial,
               &end) != 10 ||
        end == 0)
        return 0;
    const char *device = line + n + end;
    return strncmp(device, c->device, strlen(c->device)) == 0 && strcmp(device + strlen(c->device), "\n") == 0;
}

static void write_line(FILE *f, const msi_window_case *c, const progress *p)
{
    char key[MAX_LINE];
    const msi_window_shape *s = &p->best;
    describe(key, sizeof key, c);
    fprintf(f, "%s shape %d %d %d %d %d %d %d group %d tried %d of %d on %s\n", key, s->images, s->coarsen_u,
            s->coarsen_v, s->blocks_v, s->tile_u, s->tile_v, s->variant, s->n_vis, p->n_tried, p->n_trial, c->device);
}

static int is_same(const msi_window_shape *a, const msi_window_shape *b)
{
    return a->images == b->images && a->coarsen_u == b->coarsen_u && a->coarsen_v == b->coarsen_v &&
           a->blocks_v == b->blocks_v && a->tile_u == b->tile_u && a->tile_v == b->tile_v && a->variant == b->variant;
}

int msi_window_tuning_is_candidate(const msi_window_shape *s, const msi_window_shape *candidate, int n)
{
    int known = 0;
    for (int g = 0; g < N_GROUP; g++) known |= group_sizes[g] == s->n_vis;
    for (int i = 0; known && i < n; i++)
        if (is_same(s, &candidate[i])) return 1;
    return 0;
}

/* Find the path of the cache. Returns 0 if the user has no home directory. */
static int cache_path(char *path, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (cache && cache[0] == '/')
        n = snprintf(path, size, "%s/msimage/window-tuning", cache);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/.cache/msimage/window-tuning", home);
    else
        return 0;
    return n > 0 && (size_t)n < size;
}

static int recall(progress *p, const char *path, const msi_window_case *problem, const msi_window_shape *candidate,
                  int n)
{
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    char line[MAX_LINE];
    int found = 0;
    for (int i = 0; i < MAX_CACHE_LINES && !found && fgets(line, sizeof line, f); i++) {
        progress x;
        found = read_line(line, problem, &x) && msi_window_tuning_is_candidate(&x.best, candidate, n) &&
                x.n_trial == n + N_GROUP && x.n_tried > 0 && x.n_tried <= x.n_trial;
        if (found) *p = x;
    }
    fclose(f);
    return found;
}

/* Create the missing directories of a path. */
static void make_folders(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *p = strchr(folder + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        if (mkdir(folder, 0700) != 0 && errno != EEXIST) return;
        *p = '/';
    }
}

/* Copy the lines of other cases, except invalid ones. */
static void copy_lines(FILE *to, const char *path, const msi_window_case *problem)
{
    FILE *from = fopen(path, "re");
    if (!from) return;
    char line[MAX_LINE];
    for (int i = 0; i < MAX_CACHE_LINES - 1 && fgets(line, sizeof line, from); i++) {
        progress p;
        if (strncmp(line, "window-3 ", 9) == 0 && line[strlen(line) - 1] == '\n' && !read_line(line, problem, &p))
            fputs(line, to);
    }
    fclose(from);
}

static void remember(const char *path, const msi_window_case *problem, const progress *p)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary) return;
    make_folders(path);
    int fd = mkostemp(temporary, O_CLOEXEC);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        if (fd >= 0) {
            close(fd);
            unlink(temporary);
        }
        msi_log_detail("window tuning: cannot write %s; the next run will measure again", path);
        return;
    }
    copy_lines(f, path, problem);
    write_line(f, problem, p);
    int failed = ferror(f);
    if (fclose(f) != 0 || failed || rename(temporary, path) != 0) unlink(temporary);
}

static int64_t round_up(int64_t x, int64_t step)
{
    return (x + step - 1) / step * step;
}

/*
 * Estimate the number of instructions per visibility and image. The numbers per cell, per thread and per staged weight
 * were measured on one kind of GPU. All tiles of the window are counted, including threads without cells.
 */
static double estimate(const msi_window_shape *s, int32_t taps)
{
    const double per_weight = 0.47 / s->images;
    const int64_t rows = (int64_t)s->coarsen_v * s->blocks_v;
    if (s->variant == MSI_WINDOW_TENSOR) {
        int64_t n_u = (taps + s->coarsen_u - 2 + s->tile_u) / s->tile_u;
        int64_t n_v = (taps + s->coarsen_v - 2 + s->tile_v) / s->tile_v;
        double per_cell = 0.033 + 0.004 / s->images, cells = (double)s->tile_u * s->tile_v;
        return (double)(n_u * n_v) * (10.0 / s->images + per_cell * cells);
    }
    int64_t u = round_up(taps + s->coarsen_u - 1, s->coarsen_u), v = round_up(taps + s->coarsen_v - 1, rows);
    int64_t n_u = (u + s->tile_u - 1) / s->tile_u, n_v = (v + s->tile_v - 1) / s->tile_v;
    int64_t warps = (u / s->coarsen_u * (v / rows) + 31) / 32;
    double cells = (double)(warps * 32 * s->coarsen_u * rows), per_thread = 0.1 / (double)(s->coarsen_u * rows);
    return cells * (0.13 + 0.05 / s->images + per_thread) + per_weight * (double)(n_v * u + n_u * v);
}

/* Sort candidates, the most promising first. */
static void sort_candidates(msi_window_shape *sorted, const msi_window_case *problem, const msi_window_shape *candidate,
                            int n)
{
    double cost[MSI_WINDOW_MAX_SHAPES];
    for (int i = 0; i < n; i++) {
        const double own = problem->full ? -candidate[i].images : estimate(&candidate[i], problem->taps);
        int at = i;
        for (; at > 0 && cost[at - 1] > own; at--) {
            cost[at] = cost[at - 1];
            sorted[at] = sorted[at - 1];
        }
        cost[at] = own;
        sorted[at] = candidate[i];
        sorted[at].n_vis = FIRST_GROUP;
    }
}

/* Continue the trials of a case, up to the permitted number. Returned: p, and *n_timed, the number of timings */
static int run_trials(progress *p, const msi_window_shape *sorted, const msi_window_trials *trials, int *n_timed)
{
    const int n = p->n_trial - N_GROUP;
    double best_ms = 0;
    *n_timed = 0;
    for (; p->n_tried < p->n_trial; p->n_tried++) {
        msi_window_shape trial = p->n_tried < n ? sorted[p->n_tried] : p->best;
        if (p->n_tried >= n) trial.n_vis = group_sizes[p->n_tried - n];
        if (is_same(&trial, &p->best) && trial.n_vis == p->best.n_vis) continue;
        const int needed = *n_timed ? 1 : 2;
        if (*n_timed + needed > trials->n_timing) break;
        double ms;
        if (!*n_timed) MSI_TRY(trials->time(trials->context, &p->best, &best_ms));
        MSI_TRY(trials->time(trials->context, &trial, &ms));
        *n_timed += needed;
        if (ms >= best_ms) continue;
        best_ms = ms;
        p->best = trial;
    }
    return MSI_OK;
}

int msi_window_tuning_choose(msi_window_shape *shape, const msi_window_case *problem, const msi_window_trials *trials)
{
    const int n = trials->n;
    const char *path = trials->path;
    char own_path[PATH_MAX];
    if (!path && cache_path(own_path, sizeof own_path)) path = own_path;
    msi_window_shape sorted[MSI_WINDOW_MAX_SHAPES];
    sort_candidates(sorted, problem, trials->candidate, n);
    progress p = {sorted[0], 1, n + N_GROUP};
    int n_timed;
    if (path) recall(&p, path, problem, trials->candidate, n);
    MSI_TRY(run_trials(&p, sorted, trials, &n_timed));
    *shape = p.best;
    if (path && n_timed) remember(path, problem, &p);
    return MSI_OK;
}

msi_window_shape msi_window_tuning_estimate(const msi_window_case *problem, const msi_window_shape *candidate, int n)
{
    msi_window_shape sorted[MSI_WINDOW_MAX_SHAPES];
    sort_candidates(sorted, problem, candidate, n);
    return sorted[0];
}
