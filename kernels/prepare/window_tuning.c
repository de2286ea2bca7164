/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/prepare/window_tuning.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"

enum { MAX_LINE = 512, MAX_CACHE_LINES = 4096, TAPS_ALIKE = 4 };

/* Visibilities of a work group that are tried. */
static const int32_t group_sizes[] = {128, 256, 512, 1024};
enum { N_GROUP = sizeof group_sizes / sizeof group_sizes[0] };

/* The part of a line that names a case; the device, whose name may hold blanks, ends the line. */
static void describe(char *text, size_t size, const msi_window_case *c)
{
    static const char *const lookup[] = {"", "-linear", "-texture"};
    int taps = (c->taps + TAPS_ALIKE - 1) / TAPS_ALIKE * TAPS_ALIKE;
    snprintf(text, size, "window-1 %s %s images %d %s%s taps %d", c->degrid ? "degrid" : "grid",
             c->precision == MSI_FP32 ? "fp32" : "fp64", c->n_image, c->full ? "full" : "separable", lookup[c->lookup],
             taps);
}

/* 1 where the line is about the case; *shape its shape. */
static int read_line(const char *line, const msi_window_case *c, msi_window_shape *s)
{
    char key[MAX_LINE];
    describe(key, sizeof key, c);
    size_t n = strlen(key);
    int end = 0;
    if (strncmp(line, key, n) != 0) return 0;
    if (sscanf(line + n, " shape %d %d %d %d %d %d %d group %d on %n", &s->images, &s->coarsen_u, &s->coarsen_v,
               &s->blocks_v, &s->tile_u, &s->tile_v, &s->variant, &s->n_vis, &end) != 8 ||
        end == 0)
        return 0;
    const char *device = line + n + end;
    return strncmp(device, c->device, strlen(c->device)) == 0 && strcmp(device + strlen(c->device), "\n") == 0;
}

static void write_line(FILE *f, const msi_window_case *c, const msi_window_shape *s)
{
    char key[MAX_LINE];
    describe(key, sizeof key, c);
    fprintf(f, "%s shape %d %d %d %d %d %d %d group %d on %s\n", key, s->images, s->coarsen_u, s->coarsen_v,
            s->blocks_v, s->tile_u, s->tile_v, s->variant, s->n_vis, c->device);
}

static int is_candidate(const msi_window_shape *s, const msi_window_shape *candidate, int n)
{
    int known = 0;
    for (int g = 0; g < N_GROUP; g++) known |= group_sizes[g] == s->n_vis;
    for (int i = 0; known && i < n; i++) {
        const msi_window_shape *c = &candidate[i];
        if (c->images == s->images && c->coarsen_u == s->coarsen_u && c->coarsen_v == s->coarsen_v &&
            c->blocks_v == s->blocks_v && c->tile_u == s->tile_u && c->tile_v == s->tile_v && c->variant == s->variant)
            return 1;
    }
    return 0;
}

/* The path of the cache. Returns 0 where the user has no home. */
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

static int recall(msi_window_shape *shape, const char *path, const msi_window_case *what,
                  const msi_window_shape *candidate, int n)
{
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    char line[MAX_LINE];
    int found = 0;
    for (int i = 0; i < MAX_CACHE_LINES && !found && fgets(line, sizeof line, f); i++) {
        msi_window_shape s;
        found = read_line(line, what, &s) && is_candidate(&s, candidate, n);
        if (found) *shape = s;
    }
    fclose(f);
    return found;
}

/* Creates the folders of a path that are not there. */
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

/* Other cases' lines that mean something, and the new one. */
static void copy_lines(FILE *to, const char *path, const msi_window_case *what)
{
    FILE *from = fopen(path, "re");
    if (!from) return;
    char line[MAX_LINE];
    for (int i = 0; i < MAX_CACHE_LINES && fgets(line, sizeof line, from); i++) {
        msi_window_shape s;
        if (strncmp(line, "window-1 ", 9) == 0 && line[strlen(line) - 1] == '\n' && !read_line(line, what, &s))
            fputs(line, to);
    }
    fclose(from);
}

static void remember(const char *path, const msi_window_case *what, const msi_window_shape *shape)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= (int)sizeof temporary) return;
    make_folders(path);
    int fd = mkstemp(temporary);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    if (!f) {
        if (fd >= 0) {
            close(fd);
            unlink(temporary);
        }
        msi_log_detail("window tuning: %s cannot be written; it will be measured again", path);
        return;
    }
    copy_lines(f, path, what);
    write_line(f, what, shape);
    int failed = ferror(f);
    if (fclose(f) != 0 || failed || rename(temporary, path) != 0) unlink(temporary);
}

int msi_window_tuning_choose(msi_window_shape *shape, const msi_window_case *what, const msi_window_shape *candidate,
                             int n, msi_window_time_fn time, void *context, const char *path)
{
    char own_path[PATH_MAX];
    if (!path && cache_path(own_path, sizeof own_path)) path = own_path;
    if (path && recall(shape, path, what, candidate, n)) return MSI_OK;
    double best = 0;
    int found = 0;
    for (int i = 0; i < n; i++)
        for (int g = 0; g < N_GROUP; g++) {
            msi_window_shape s = candidate[i];
            double ms;
            s.n_vis = group_sizes[g];
            MSI_TRY(time(context, &s, &ms));
            if (found && ms >= best) continue;
            found = 1;
            best = ms;
            *shape = s;
        }
    if (path) remember(path, what, shape);
    return MSI_OK;
}

static int64_t round_up(int64_t x, int64_t step)
{
    return (x + step - 1) / step * step;
}

/*
 * Instructions of a visibility and image, roughly: what a cell and what a staged weight take on the GPU that the shapes
 * were tried on. Cells are those of all tiles of the window, with the threads that have none.
 */
static double estimate(const msi_window_shape *s, int32_t taps)
{
    const double a_weight = 0.47 / s->images;
    const int64_t rows = (int64_t)s->coarsen_v * s->blocks_v;
    if (s->variant == MSI_WINDOW_TENSOR) {
        int64_t u = round_up(taps + s->coarsen_u - 1, 16), v = round_up(taps + s->coarsen_v - 1, rows);
        int64_t n_u = (u + s->tile_u - 1) / s->tile_u, n_v = (v + s->tile_v - 1) / s->tile_v;
        u = round_up(u, 16 * n_u);
        v = round_up(v, rows * n_v);
        return 0.06 * (double)(u * v) + a_weight * (double)(n_v * u + n_u * v);
    }
    int64_t u = round_up(taps + s->coarsen_u - 1, s->coarsen_u), v = round_up(taps + s->coarsen_v - 1, rows);
    int64_t n_u = (u + s->tile_u - 1) / s->tile_u, n_v = (v + s->tile_v - 1) / s->tile_v;
    int64_t warps = (u / s->coarsen_u * (v / rows) + 31) / 32;
    double cells = (double)(warps * 32 * s->coarsen_u * rows), a_thread = 0.1 / (double)(s->coarsen_u * rows);
    return cells * (0.13 + 0.05 / s->images + a_thread) + a_weight * (double)(n_v * u + n_u * v);
}

msi_window_shape msi_window_tuning_guess(const msi_window_case *what, const msi_window_shape *candidate, int n)
{
    msi_window_shape best = candidate[0];
    double least = 0;
    for (int i = 0; i < n; i++) {
        double cost = what->full ? -candidate[i].images : estimate(&candidate[i], what->taps);
        if (i > 0 && cost >= least) continue;
        least = cost;
        best = candidate[i];
    }
    best.n_vis = 512;
    return best;
}
