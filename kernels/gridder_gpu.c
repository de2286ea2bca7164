/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A gridder's samples that lie on its GPU. */
#include "kernels/gridder_state.h"

#include "core/status.h"

#ifdef MSI_HAVE_CUDA
int msi_gridder_gpu_room(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_gpu_samples *room)
{
    const msi_vis_store *s = &g->store;
    if (g->strategy->backend != MSI_BACKEND_CUDA || g->spec.n_plane != 1 || n_chan > MSI_STORE_MAX_CHAN ||
        g->is_weighted || g->spec.store_bytes || g->spec.n_worker || (s->n_segment && !s->gpu))
        return msi_error_set(MSI_EINTERNAL, "samples on the GPU for a gridder that cannot have them there");
    msi_gridder_forget_samples(g);
    return msi_gpu_samples_room(&g->store, g->spec.device, n_row, n_chan, freq_hz, room);
}

int msi_gridder_gpu_keep(msi_gridder *g, const msi_gpu_figures *figures)
{
    return msi_gpu_samples_keep(&g->store, figures);
}

void msi_gridder_gpu_drop(msi_gridder *g)
{
    msi_gpu_samples_drop(&g->store);
}

int msi_gridder_gpu_samples(const msi_gridder *g, int64_t i, msi_gpu_samples *out)
{
    return msi_gpu_samples_get(&g->store, i, out);
}
#endif

int msi_gridder_move_to_host(msi_gridder *g)
{
#ifdef MSI_HAVE_CUDA
    if (!g->store.gpu) return MSI_OK;
    msi_gridder_forget_samples(g);
    return msi_gpu_samples_move_to_host(&g->store);
#else
    (void)g;
    return MSI_OK;
#endif
}
