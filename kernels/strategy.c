/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The one file that knows which gridders were compiled in. */
#include "kernels/strategy.h"

#include <string.h>

#include "kernels/towers/wgrid_tower_method.h"
#include "kernels/wgrid/wgrid_method.h"
#include "kernels/wproj/wproj_method.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

/* AUTO prefers them in this order. */
static const msi_strategy strategies[] = {
#ifdef MSI_HAVE_CUDA
    {.method = "wgrid", .name = "planes", .backend = MSI_BACKEND_CUDA, .ops = &msi_wgrid_cuda_ops},
#endif
    {.method = "wgrid", .name = "planes", .backend = MSI_BACKEND_CPU, .ops = &msi_wgrid_cpu_ops},
#ifdef MSI_HAVE_CUDA
    {.method = "wgrid", .name = "subgrid", .backend = MSI_BACKEND_CUDA, .ops = &msi_wgrid_tower_cuda_ops},
#endif
    {.method = "wgrid", .name = "subgrid", .backend = MSI_BACKEND_CPU, .ops = &msi_wgrid_tower_cpu_ops},
#ifdef MSI_HAVE_WPROJ_CUDA
    {.method = "wproj", .name = "tile", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_image_ops},
    {.method = "wproj", .name = "window", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_ops},
    {.method = "wproj", .name = "gather", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_predict_ops},
    {.method = "wproj", .name = "scatter", .backend = MSI_BACKEND_CUDA, .ops = &msi_wproj_cuda_predict_ops},
#endif
    {.method = "wproj", .name = "tile", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_ops},
    {.method = "wproj", .name = "window", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_ops},
    {.method = "wproj", .name = "gather", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_predict_ops},
    {.method = "wproj", .name = "scatter", .backend = MSI_BACKEND_CPU, .ops = &msi_wproj_cpu_predict_ops},
};

enum { N_STRATEGY = sizeof strategies / sizeof *strategies };

const msi_strategy *msi_strategies(int *n)
{
    *n = N_STRATEGY;
    return strategies;
}

const msi_strategy *msi_strategy_next(const msi_strategy *last, const char *method, const char *name, int predict)
{
    for (const msi_strategy *s = last ? last + 1 : strategies; s < strategies + N_STRATEGY; s++)
        if (strcmp(s->method, method ? method : MSI_METHOD_DEFAULT) == 0 &&
            (msi_strategy_is_open(name) || strcmp(s->name, name) == 0) && msi_strategy_serves(s, predict))
            return s;
    return NULL;
}

const msi_strategy *msi_strategy_find(const char *method, const char *name, msi_backend backend)
{
    for (const msi_strategy *s = strategies; s < strategies + N_STRATEGY; s++)
        if (s->backend == backend && strcmp(s->method, method) == 0 && strcmp(s->name, name) == 0) return s;
    return NULL;
}

int msi_strategy_available(const msi_strategy *strategy)
{
#ifdef MSI_HAVE_CUDA
    if (strategy->backend == MSI_BACKEND_CUDA) return msi_gpu_available();
#endif
    return strategy->backend == MSI_BACKEND_CPU;
}
