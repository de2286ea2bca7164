/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Transforms of planes in minor iterations, shared by the devices of a cleaner. The first worker is the cleaner's own
 * device. It has the planes and PSFs, searches them and runs the loops. Each worker has the spectra of the PSFs of its
 * planes. A plane of another worker is copied to its device, changed there, and copied back. So results do not depend
 * on the number of workers.
 */
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "kernels/clean/clean_state.h"

/* ---- Workers ---------------------------------------------------------------------------------------------------- */

/* Make a worker's engine. It runs no loops, so it needs no fits. */
static int make_engine(msi_cleaner *c, int i)
{
    msi_clean_setup setup = c->setup;
    setup.device = c->spec.devices[i];
    setup.fit = NULL;
    setup.log.n_term = 0;
    MSI_TRY(c->ops->create(&c->worker[i].e, &setup));
    return c->ops->alloc(c->worker[i].e, &c->worker[i].image, c->n_pixel * c->real_bytes, "a plane of another GPU");
}

int msi_clean_workers_create(msi_cleaner *c)
{
    const int most = c->method->uses_lists ? c->n_plane : 1, n = c->spec.n_device < most ? c->spec.n_device : most;
    c->worker[0].e = c->e;
    c->n_worker = 1;
    for (; c->n_worker < n; c->n_worker++) MSI_TRY(make_engine(c, c->n_worker));
    return MSI_OK;
}

void msi_clean_workers_free(msi_cleaner *c)
{
    for (int i = 1; i < MSI_CLEAN_MAX_DEVICE; i++) {
        if (!c->worker[i].e) continue;
        c->ops->release(c->worker[i].e, c->worker[i].image);
        c->ops->free(c->worker[i].e);
    }
}

typedef struct shared_work {
    msi_cleaner *c;
    int n;
    int (*work)(void *of, msi_clean_worker *w, int plane);
    void *of;
} shared_work;

static int work_on_share(void *of, int64_t i)
{
    const shared_work *s = of;
    msi_clean_worker *w = &s->c->worker[i];
    for (int k = (int)i; k < s->n; k += s->c->n_worker) MSI_TRY(s->work(s->of, w, k));
    return i ? s->c->ops->wait(w->e) : MSI_OK;
}

int msi_clean_share(msi_cleaner *c, int n, int (*work)(void *of, msi_clean_worker *w, int plane), void *of)
{
    shared_work s = {c, n, work, of};
    const msi_ordered_parallel workers = {
        .n_item = c->n_worker, .n_thread = c->n_worker, .work = work_on_share, .of = &s};
    if (c->n_worker == 1) return work_on_share(&s, 0);
    MSI_TRY(c->ops->wait(c->e));
    return msi_ordered_parallel_run(&workers);
}

int msi_clean_borrow(const msi_cleaner *c, const msi_clean_worker *w, void *plane, void **own)
{
    *own = w->image ? w->image : plane;
    return w->image ? c->ops->take(w->e, w->image, c->e, plane, c->n_pixel * c->real_bytes) : MSI_OK;
}

int msi_clean_give_back(const msi_cleaner *c, const msi_clean_worker *w, void *plane)
{
    return w->image ? c->ops->give(w->e, c->e, plane, w->image, c->n_pixel * c->real_bytes) : MSI_OK;
}

/* ---- PSFs ------------------------------------------------------------------------------------------------------- */

/* Return 1 if a worker has a plane of a channel. */
static int has_channel(const msi_cleaner *c, const msi_clean_worker *w, int channel)
{
    for (int p = 0; p < c->spec.n_pol; p++)
        if (msi_clean_worker_of(c, channel * c->spec.n_pol + p) == w) return 1;
    return 0;
}

static int make_wide(msi_cleaner *c, msi_clean_worker *w, int64_t nx, int64_t ny)
{
    const int n = c->n_cell * c->spec.n_channel;
    MSI_TRY(c->ops->fft_create(w->e, nx, ny, &w->wide, &c->n_wide));
    MSI_TRY(c->ops->alloc(w->e, &w->work, c->n_wide * c->complex_bytes, "a transform"));
    MSI_TRY(msi_alloc(&w->psf_hat, n, sizeof *w->psf_hat, "transforms of PSFs"));
    for (int i = 0; i < n; i++)
        if (has_channel(c, w, i % c->spec.n_channel))
            MSI_TRY(c->ops->alloc_paged(w->e, &w->psf_hat[i], c->n_wide * c->complex_bytes, "transforms of PSFs"));
    return MSI_OK;
}

int msi_clean_make_wide(msi_cleaner *c, int64_t nx, int64_t ny)
{
    for (int i = 0; i < c->n_worker; i++) MSI_TRY(make_wide(c, &c->worker[i], nx, ny));
    return MSI_OK;
}

void msi_clean_free_wide(msi_cleaner *c)
{
    for (int i = 0; i < c->n_worker; i++) {
        msi_clean_worker *w = &c->worker[i];
        for (int k = 0; w->psf_hat && k < c->n_cell * c->spec.n_channel; k++) c->ops->release(w->e, w->psf_hat[k]);
        msi_free(w->psf_hat);
        w->psf_hat = NULL;
        c->ops->release(w->e, w->work);
        c->ops->fft_free(w->e, w->wide);
    }
}

typedef struct psf_work {
    msi_cleaner *c;
    int cell;
} psf_work;

/* Transform the PSFs of a worker. */
static int transform_psfs(void *of, msi_clean_worker *w, int number)
{
    const psf_work *p = of;
    msi_cleaner *c = p->c;
    const msi_clean_planes psf = {c->psf, c->n_pixel};
    (void)number;
    for (int i = p->cell * c->spec.n_channel; i < (p->cell + 1) * c->spec.n_channel; i++) {
        void *image;
        if (!w->psf_hat[i]) continue;
        MSI_TRY(msi_clean_borrow(c, w, msi_clean_plane(c, &psf, i), &image));
        MSI_TRY(c->ops->forward(w->e, w->wide, image, 0, MSI_CLEAN_MIDDLE, w->psf_hat[i]));
    }
    return MSI_OK;
}

int msi_clean_transform_psf(msi_cleaner *c, int cell)
{
    psf_work p = {c, cell};
    return msi_clean_share(c, c->n_worker, transform_psfs, &p);
}

/* ---- Subtraction of lists --------------------------------------------------------------------------------------- */

/* Subtract the listed components from a plane of the residual, by one convolution for each cell of PSFs. */
static int subtract_cells(const msi_clean_call *call, msi_clean_worker *w, int plane,
                          const msi_clean_scale_spectra *scale, void *image)
{
    const msi_cleaner *c = call->c;
    const int channel = plane / c->spec.n_pol;
    int rc = MSI_OK;
    if (c->n_cell == 1) return c->ops->subtract_list(w->e, w->wide, plane, scale, w->psf_hat[channel], w->work, image);
    for (int cell = 0; !rc && cell < c->n_cell; cell++) {
        const void *psf = w->psf_hat[cell * c->spec.n_channel + channel];
        if (!call->in_cell[cell]) continue;
        rc = c->ops->take_cell(w->e, cell);
        if (!rc) rc = c->ops->subtract_list(w->e, w->wide, plane, scale, psf, w->work, image);
    }
    const int reset = c->ops->take_cell(w->e, -1);
    return rc ? rc : reset;
}

int msi_clean_subtract_list(msi_clean_call *call, msi_clean_worker *w, int plane, const msi_clean_scale_spectra *scale)
{
    const msi_cleaner *c = call->c;
    void *residual = msi_clean_plane(c, &call->residual, plane), *image;
    if (w->image) MSI_TRY(c->ops->take_list(w->e, c->e, plane));
    MSI_TRY(msi_clean_borrow(c, w, residual, &image));
    MSI_TRY(subtract_cells(call, w, plane, scale, image));
    return msi_clean_give_back(c, w, residual);
}
