/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/gridder_choice.h"

#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/status.h"

static const char *const methods[] = {[MSI_METHOD_WGRID] = "wgrid", [MSI_METHOD_WPROJ] = "wproj"};

/* Which words go together: in images, and in predictions. */
typedef struct strategy_word {
    const char *name;
    int method; /* -1: either */
    int images, predicts;
} strategy_word;

static const strategy_word strategies[] = {
    [MSI_STRATEGY_AUTO] = {"auto", -1, 1, 1},
    [MSI_STRATEGY_PLANES] = {"planes", MSI_METHOD_WGRID, 1, 1},
    [MSI_STRATEGY_SUBGRID] = {"subgrid", MSI_METHOD_WGRID, 1, 1},
    [MSI_STRATEGY_TILE] = {"tile", MSI_METHOD_WPROJ, 1, 1},
    [MSI_STRATEGY_WINDOW] = {"window", MSI_METHOD_WPROJ, 1, 1},
    [MSI_STRATEGY_GATHER] = {"gather", MSI_METHOD_WPROJ, 0, 1},
    [MSI_STRATEGY_SCATTER] = {"scatter", MSI_METHOD_WPROJ, 0, 1},
};
enum { N_STRATEGY = sizeof strategies / sizeof *strategies };

static int goes_with(const strategy_word *s, const msi_options *o)
{
    return (s->method < 0 || s->method == (int)o->gridder) && (o->predict ? s->predicts : s->images);
}

int msi_gridder_choice_check(const msi_options *o)
{
    const char *method = methods[o->gridder];
    if (!goes_with(&strategies[o->strategy], o)) {
        char words[80] = "";
        for (int i = 0; i < N_STRATEGY; i++)
            if (goes_with(&strategies[i], o))
                snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", *words ? ", " : "",
                         strategies[i].name);
        return msi_error_set(MSI_EUSAGE, "-strategy %s: -gridder %s %s by %s", strategies[o->strategy].name, method,
                             o->predict ? "predicts" : "makes images", words);
    }
    if (o->gridder == MSI_METHOD_WPROJ) return MSI_OK;
    if (o->n_slice)
        return msi_error_set(MSI_EUSAGE, "-wstack-slices %lld: it goes with -gridder wproj, not %s",
                             (long long)o->n_slice, method);
    if (o->kernel != MSI_KERNEL_AUTO)
        return msi_error_set(MSI_EUSAGE, "-kernel: it goes with -gridder wproj, not %s", method);
    return MSI_OK;
}

double msi_gridder_choice_accuracy(msi_gridding_method method)
{
    return method == MSI_METHOD_WPROJ ? 1e-2 : 1e-4;
}

msi_gridder_spec msi_gridder_choice_spec(const msi_options *o)
{
    return (msi_gridder_spec){.method = methods[o->gridder],
                              .strategy = strategies[o->strategy].name,
                              .accuracy = o->accuracy,
                              .precision = o->precision,
                              .backend = o->backend,
                              .least_padding = o->padding,
                              .n_slice = (int)o->n_slice,
                              .kernel = o->kernel,
                              .n_thread = o->n_threads};
}

void msi_gridder_choice_print(const msi_gridder_report *r)
{
    char planes[160];
    const int is_wgrid = strcmp(r->method, methods[MSI_METHOD_WGRID]) == 0;
    if (!is_wgrid)
        snprintf(planes, sizeof planes, "%lld slice%s of w", (long long)r->n_w, r->n_w == 1 ? "" : "s");
    else if (r->n_tower)
        snprintf(planes, sizeof planes, "up to %lld w-planes in %d w-towers of subgrids of %d x %d", (long long)r->n_w,
                 r->n_tower, r->subgrid, r->subgrid);
    else
        snprintf(planes, sizeof planes, "up to %lld w-planes (%lld in memory)", (long long)r->n_w,
                 (long long)r->n_w_resident);
    msi_log_info("gridder: %s %s on the %s, %s, %s %d cells, grid %lld x %lld, %s, predicted error %.1e", r->method,
                 r->strategy, r->backend == MSI_BACKEND_CUDA ? "GPU" : "CPU",
                 r->precision == MSI_FP32 ? "fp32" : "fp64", is_wgrid ? "window" : "kernels up to", r->width,
                 (long long)r->nu, (long long)r->nv, planes, r->error_estimate);
}
