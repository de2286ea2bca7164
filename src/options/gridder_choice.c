/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/gridder_choice.h"

#include <stdio.h>
#include <string.h>

#include "core/units.h"
#include "core/log.h"
#include "core/status.h"
#include "kernels/strategy.h"

enum { MAX_LIST = 128 };

/* Add a word to a list, unless the list has it. */
static void add_word(char list[MAX_LIST], const char *separator, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += length)
        if ((p == list || strchr(separator, p[-1])) && (!p[length] || strchr(separator, p[length]))) return;
    const size_t at = strlen(list);
    snprintf(list + at, MAX_LIST - at, "%s%s", at ? separator : "", word);
}

const char *msi_gridder_choice_methods(void)
{
    static char list[MAX_LIST];
    int n;
    const msi_strategy *all = msi_strategies(&n);
    for (int i = 0; i < n; i++) add_word(list, "|", all[i].method);
    return list;
}

const char *msi_gridder_choice_strategies(void)
{
    static char list[MAX_LIST] = MSI_STRATEGY_OPEN;
    int n;
    const msi_strategy *all = msi_strategies(&n);
    for (int i = 0; i < n; i++) add_word(list, "|", all[i].name);
    return list;
}

static int is_wproj(const char *method)
{
    return strcmp(method, "wproj") == 0;
}

int msi_gridder_choice_check(const msi_options *o)
{
    const char *method = o->gridder;
    if (!msi_strategy_next(NULL, method, o->strategy, o->predict)) {
        char words[MAX_LIST] = MSI_STRATEGY_OPEN;
        for (const msi_strategy *s = NULL; (s = msi_strategy_next(s, method, NULL, o->predict));)
            add_word(words, ", ", s->name);
        return msi_error_set(MSI_EUSAGE, "-strategy %s: -gridder %s %s with %s", o->strategy, method,
                             o->predict ? "predicts" : "makes images", words);
    }
    if (is_wproj(method)) return MSI_OK;
    if (o->n_slice)
        return msi_error_set(MSI_EUSAGE, "-wstack-slices %lld: it needs -gridder wproj, not %s", (long long)o->n_slice,
                             method);
    if (o->kernel != MSI_KERNEL_AUTO)
        return msi_error_set(MSI_EUSAGE, "-kernel: it needs -gridder wproj, not %s", method);
    return MSI_OK;
}

double msi_gridder_choice_accuracy(const char *method)
{
    return is_wproj(method) ? 1e-2 : 1e-4;
}

msi_gridder_spec msi_gridder_choice_spec(const msi_options *o)
{
    return (msi_gridder_spec){.method = o->gridder,
                              .strategy = o->strategy,
                              .accuracy = o->accuracy,
                              .precision = o->precision,
                              .backend = o->backend,
                              .least_padding = o->padding,
                              .n_slice = (int)o->n_slice,
                              .kernel = o->kernel,
                              .n_thread = o->n_threads};
}

void msi_gridder_choice_log(const msi_options *o, const msi_gridder_report *r)
{
    char planes[160], tiles[80] = "";
    const int is_wgrid = !is_wproj(r->method);
    if (!is_wgrid)
        snprintf(planes, sizeof planes, "%lld slice%s of w", (long long)r->n_w, r->n_w == 1 ? "" : "s");
    else if (r->n_tower)
        snprintf(planes, sizeof planes, "up to %lld w-planes in %d w-tower%s of subgrids of %d x %d", (long long)r->n_w,
                 r->n_tower, msi_plural(r->n_tower), r->subgrid, r->subgrid);
    else
        snprintf(planes, sizeof planes, "up to %lld w-plane%s (%lld in memory)", (long long)r->n_w, msi_plural(r->n_w),
                 (long long)r->n_w_resident);
    if (r->n_tile > 1) snprintf(tiles, sizeof tiles, ", in %d x %d tiles of the image", r->n_tile, r->n_tile);
    msi_log_info("gridder: %s (-strategy %s) on the %s%s in %s precision; planned: %s %d cells, uv grid of %lld x %lld "
                 "cells, %s, estimated error %.1e of the image's rms",
                 r->method, r->strategy, r->backend == MSI_BACKEND_CUDA ? "GPU" : "CPU", tiles,
                 r->precision == MSI_FP32 ? "single" : "double", is_wgrid ? "window of" : "kernels of up to", r->width,
                 (long long)r->nu, (long long)r->nv, planes, r->error_estimate);
    if (!msi_strategy_is_open(o->strategy) && strcmp(o->strategy, r->strategy) != 0)
        msi_log_info("-strategy %s: %s; using %s", o->strategy,
                     r->n_tile > 1 ? "images in tiles are made by whole w-planes" : "w is negligible in this field",
                     r->strategy);
}
