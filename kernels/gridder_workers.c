/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Devices of a gridder, and the workers that share a plan. */
#include "kernels/gridder_state.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

int msi_gridder_check_devices(const msi_strategy *strategy, const msi_gridder_spec *spec)
{
#ifdef MSI_HAVE_CUDA
    for (int i = -1; strategy->backend == MSI_BACKEND_CUDA && i < spec->n_worker; i++) {
        const int device = i < 0 ? spec->device : spec->worker[i];
        if (device < 0 || device >= msi_gpu_count())
            return msi_error_about(msi_error_set(MSI_EGPU, "device %d: %s", device, msi_gpu_describe(device)),
                                   "backend");
    }
#else
    (void)strategy;
    (void)spec;
#endif
    return MSI_OK;
}

void msi_gridder_await_device(const msi_strategy *strategy, int device)
{
#ifdef MSI_HAVE_CUDA
    if (strategy->backend == MSI_BACKEND_CUDA) msi_gpu_await(device);
#else
    (void)strategy;
    (void)device;
#endif
}

int msi_gridder_keep_workers(msi_gridder *g, const int *worker, int n)
{
    int *own;
    MSI_TRY(msi_alloc(&own, n, sizeof *own, "gridder"));
    if (n) memcpy(own, worker, (size_t)n * sizeof *own);
    msi_free(g->worker);
    g->spec.worker = g->worker = own;
    g->spec.n_worker = n;
    return MSI_OK;
}

int msi_gridder_set_workers(msi_gridder *g, const int *worker, int n_worker)
{
    msi_gridder_spec spec = g->spec;
    spec.worker = worker;
    spec.n_worker = n_worker;
    MSI_TRY(msi_gridder_check_devices(g->strategy, &spec));
    msi_gridder_forget_plan(g);
    return msi_gridder_keep_workers(g, worker, n_worker);
}

/* Strategies without residuals have no workers for images. */
int msi_gridder_has_workers(const msi_gridder *g)
{
    const msi_gridder_spec *s = &g->spec;
    if (s->n_worker == 0 || (s->n_worker == 1 && s->worker[0] == s->device)) return 0;
    return s->predict || g->strategy->ops->residual != NULL;
}

int msi_gridder_ready_workers(msi_gridder *g, const msi_plan_request *request, const msi_plan *plan, msi_workers **out)
{
    *out = NULL;
    if (!msi_gridder_has_workers(g)) return MSI_OK;
    MSI_TRY(msi_workers_create(out, g->strategy, plan, request));
    g->report.estimate_s *=
        msi_gridder_shared(&g->report, g->spec.predict ? 0 : msi_gridder_n_image(&g->spec), g->spec.n_worker).time;
    return MSI_OK;
}
