/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The method `hogbom`: every component is subtracted from the whole image, or from the part of it that a patch of the
 * PSF reaches, before the next is looked for. J. A. Hogbom, A&AS 15, 417 (1974).
 */
#include "kernels/clean/clean_state.h"

static int minor(msi_clean_call *call)
{
    msi_cleaner *c = call->c;
    const msi_clean_report *r = call->report;
    msi_clean_looped done;
    int64_t n;
    const uint8_t *allow;
    MSI_TRY(msi_clean_allow_scale(call, 0, 0, &allow));
    msi_clean_loop loop = {.psf = c->psf,
                           .gain = c->spec.gain,
                           .stop_negative = c->spec.stop_negative,
                           .residual = call->residual.pixel,
                           .residual_stride = call->residual.stride,
                           .model = call->model.pixel,
                           .model_stride = call->model.stride,
                           .allow = allow,
                           .factor = msi_clean_factor_of(call),
                           .found = c->found};
    MSI_TRY(c->ops->exact_loop(c->e, &loop, &done)); /* of no iterations: the peak */
    if (msi_clean_start(call, &done.peak)) return MSI_OK;
    loop.threshold = r->threshold;
    loop.diverged = 2 * call->peak_first;
    call->report->n_round = 1;
    MSI_TRY(msi_clean_run(call, &loop, c->ops->exact_loop, &done, &n));
    msi_clean_finish(call, done.end, &done.peak);
    return MSI_OK;
}

static int64_t bytes(const msi_cleaner *c)
{
    (void)c;
    return 0;
}

const msi_clean_method_ops msi_clean_hogbom_ops = {.minor = minor, .bytes = bytes};
