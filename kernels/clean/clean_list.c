/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The method `list`: pixels above the threshold are cleaned by themselves, with the whole PSF between any two of them;
 * then one convolution subtracts what was found from the image, and pixels that have risen above the threshold make
 * another list. Where more pixels are above it than a list holds, the brightest come first. After A. R. Offringa and O.
 * Smirnov, MNRAS 471, 301 (2017), section 2; B. G. Clark, A&A 89, 377 (1980).
 */
#include "kernels/clean/clean_state.h"

static int64_t padded(int64_t n)
{
    return msi_clean_padded(n, 0);
}

static int prepare(msi_cleaner *c)
{
    const msi_clean_engine_ops *o = c->ops;
    MSI_TRY(o->fft_create(c->e, padded(c->spec.nx), padded(c->spec.ny), &c->wide, &c->n_wide));
    MSI_TRY(o->alloc(c->e, &c->work, c->n_wide * c->complex_bytes, "a transform"));
    for (int i = 0; i < c->spec.n_channel; i++)
        MSI_TRY(o->alloc(c->e, &c->psf_hat[i], c->n_wide * c->complex_bytes, "the PSF's transform"));
    return MSI_OK;
}

static void release(msi_cleaner *c)
{
    for (int i = 0; i < c->spec.n_channel; i++) c->ops->release(c->e, c->psf_hat[i]);
    c->ops->release(c->e, c->work);
    c->ops->fft_free(c->e, c->wide);
}

static int set_psf(msi_cleaner *c)
{
    const msi_clean_planes psf = {c->psf, c->n_pixel};
    for (int i = 0; i < c->spec.n_channel; i++)
        MSI_TRY(c->ops->forward(c->e, c->wide, msi_clean_plane(c, &psf, i), 0, MSI_CLEAN_MIDDLE, c->psf_hat[i]));
    return MSI_OK;
}

static int64_t bytes(const msi_cleaner *c)
{
    const int64_t cells = (padded(c->spec.nx) / 2 + 8) * padded(c->spec.ny);
    return cells * c->complex_bytes * (c->spec.n_channel + 1) +
           c->ops->fft_bytes(&c->setup, padded(c->spec.nx), padded(c->spec.ny));
}

/* Find the peak of the residual's quantity, which is the residual itself where there is one plane and no factor. */
static int find_peak(msi_clean_call *call, msi_clean_search *search, msi_clean_peak *peak)
{
    msi_cleaner *c = call->c;
    const void *factor = msi_clean_factor_of(call);
    if (c->n_plane == 1 && !factor && !c->spec.squared_join) {
        search->quantity = call->residual.pixel;
    } else {
        MSI_TRY(c->ops->join(c->e, call->residual.pixel, call->residual.stride, 0, factor, c->quantity));
        search->quantity = c->quantity;
    }
    return c->ops->peak(c->e, search, peak);
}

/* Subtract the list's components from the whole residual, and add them to the model. */
static int apply_list(msi_clean_call *call)
{
    msi_cleaner *c = call->c;
    for (int k = 0; k < c->n_plane; k++) {
        if (!msi_clean_plane_has_weight(c, k)) continue;
        MSI_TRY(msi_clean_subtract_list(call, k));
        MSI_TRY(c->ops->deposit(c->e, k, msi_clean_plane(c, &call->model, k)));
    }
    return c->ops->mark(c->e, c->found, 0);
}

/* Run one list: select, clean, apply. *n iterations were made. */
static int run_round(msi_clean_call *call, const msi_clean_search *search, const msi_clean_peak *peak,
                     msi_clean_end *end, int64_t *n)
{
    msi_cleaner *c = call->c;
    msi_clean_looped done;
    msi_clean_loop loop = {
        .psf = c->psf, .gain = c->spec.gain, .stop_negative = c->spec.stop_negative, .diverged = 2 * call->peak_first};
    const msi_clean_range range = {call->report->threshold, peak->key};
    MSI_TRY(msi_clean_list(call, search, &call->residual, range, &loop.threshold));
    MSI_TRY(msi_clean_run(call, &loop, c->ops->list_loop, &done, n));
    *end = done.end;
    call->report->n_round++;
    return apply_list(call);
}

static int minor(msi_clean_call *call)
{
    msi_clean_search search = {NULL, NULL};
    msi_clean_end end = MSI_CLEAN_END_BELOW;
    msi_clean_peak peak;
    int64_t n = 1;
    MSI_TRY(msi_clean_allow_scale(call, 0, 0, &search.allow));
    MSI_TRY(find_peak(call, &search, &peak));
    if (msi_clean_start(call, &peak)) return MSI_OK;
    while (end == MSI_CLEAN_END_BELOW && n > 0 && peak.key > call->report->threshold) {
        MSI_TRY(run_round(call, &search, &peak, &end, &n));
        MSI_TRY(find_peak(call, &search, &peak));
        if (end == MSI_CLEAN_END_BELOW && peak.key > 2 * call->peak_first) end = MSI_CLEAN_END_DIVERGED;
    }
    msi_clean_finish(call, end, &peak);
    if (end == MSI_CLEAN_END_BELOW && peak.key > call->report->threshold) call->report->stop = MSI_CLEAN_STOP_STALLED;
    return MSI_OK;
}

const msi_clean_method_ops msi_clean_list_ops = {
    .prepare = prepare, .release = release, .psf = set_psf, .minor = minor, .bytes = bytes, .uses_lists = 1};
