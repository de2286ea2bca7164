/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All methods do this in a call: the first peak, chunks of iterations, records, and the reason to stop. */
#include <math.h>
#include <string.h>

#include "core/process.h"
#include "kernels/clean/clean_state.h"

double msi_clean_rounded(const msi_cleaner *c, double value)
{
    return c->spec.precision == MSI_FP32 ? (double)(float)value : value;
}

/* What one scale leaves is mended by the next ones: components lie where their own scale or a neighbour was found; by
 * power, where any was, since thresholds are then of points, which may have been found nowhere. */
int msi_clean_allow_scale(msi_clean_call *call, int scale, int64_t border, const uint8_t **allow)
{
    msi_cleaner *c = call->c;
    const int64_t border_x = (int64_t)floor(c->spec.border * (double)c->spec.nx);
    const int64_t border_y = (int64_t)floor(c->spec.border * (double)c->spec.ny);
    const msi_clean_allow from = {.border_x = border_x > border ? border_x : border,
                                  .border_y = border_y > border ? border_y : border,
                                  .mask = !c->has_mask                ? NULL
                                          : scale && call->scale_mask ? call->scale_mask[scale]
                                                                      : c->mask,
                                  .found = call->limits->only_found ? c->found : NULL,
                                  .bits = c->spec.scale_rule == MSI_CLEAN_BY_POWER ? UINT16_MAX
                                                                                   : (uint16_t)(7U << scale >> 1)};
    *allow = from.border_x || from.border_y || from.mask || from.found ? c->allow : NULL;
    return *allow ? c->ops->allow(c->e, &from, c->allow) : MSI_OK;
}

int msi_clean_start(msi_clean_call *call, const msi_clean_peak *peak)
{
    const msi_clean_limits *limits = call->limits;
    const double mgain = limits->mgain > 0 ? limits->mgain : 1, major = peak->key * (1 - mgain);
    msi_clean_report *r = call->report;
    r->peak_before = r->peak_after = peak->value;
    r->peak_x = peak->x;
    r->peak_y = peak->y;
    r->threshold = msi_clean_rounded(call->c, major > limits->threshold ? major : limits->threshold);
    call->peak_first = peak->key;
    if (peak->key > r->threshold && limits->n_iteration > 0) return 0;
    if (!(peak->key > 0))
        r->stop = MSI_CLEAN_STOP_EMPTY;
    else if (peak->key > r->threshold)
        r->stop = MSI_CLEAN_STOP_ITERATIONS;
    else
        r->stop = MSI_CLEAN_STOP_THRESHOLD;
    return 1;
}

static double value_at(const msi_cleaner *c, const void *value, int64_t i)
{
    return c->spec.precision == MSI_FP32 ? (double)((const float *)value)[i] : ((const double *)value)[i];
}

/* Record iterations: their flux, and the components themselves as long as the caller has room. */
static void record(msi_clean_call *call, const msi_clean_looped *done)
{
    msi_cleaner *c = call->c;
    msi_clean_report *r = call->report;
    const msi_clean_limits *limits = call->limits;
    for (int64_t i = 0; i < done->n_iteration; i++) {
        double flux = 0;
        for (int k = 0; k < c->n_plane; k++)
            flux += c->setup.share[k / c->spec.n_pol] * value_at(c, done->value, i * c->n_plane + k);
        r->flux += flux;
        r->scale_flux[call->scale] += flux;
        if (call->n_component == limits->component_room) continue;
        if (limits->component)
            limits->component[call->n_component] = (msi_clean_component){
                (int32_t)msi_clean_x(done->place[i]), (int32_t)msi_clean_y(done->place[i]), call->scale};
        const size_t bytes = (size_t)(c->n_plane * c->real_bytes);
        if (limits->value)
            memcpy((char *)limits->value + (size_t)call->n_component * bytes, (const char *)done->value + i * bytes,
                   bytes);
        call->n_component++;
    }
    r->scale_count[call->scale] += done->n_iteration;
    r->n_iteration += done->n_iteration;
}

int msi_clean_run(msi_clean_call *call, msi_clean_loop *loop,
                  int (*step)(msi_clean_engine *, const msi_clean_loop *, msi_clean_looped *), msi_clean_looped *done,
                  int64_t *n)
{
    *n = 0;
    do {
        const int64_t left = call->limits->n_iteration - call->report->n_iteration;
        MSI_TRY(msi_interrupt_check());
        loop->n_iteration = left < MSI_CLEAN_CHUNK ? left : MSI_CLEAN_CHUNK;
        MSI_TRY(step(call->c->e, loop, done));
        *n += done->n_iteration;
        record(call, done);
    } while (done->end == MSI_CLEAN_END_MORE && call->report->n_iteration < call->limits->n_iteration);
    return MSI_OK;
}

void msi_clean_finish(msi_clean_call *call, msi_clean_end end, const msi_clean_peak *peak)
{
    msi_clean_report *r = call->report;
    r->peak_after = peak->value;
    r->peak_x = peak->x;
    r->peak_y = peak->y;
    if (end == MSI_CLEAN_END_NEGATIVE)
        r->stop = MSI_CLEAN_STOP_NEGATIVE;
    else if (end == MSI_CLEAN_END_DIVERGED)
        r->stop = MSI_CLEAN_STOP_DIVERGED;
    else if (end == MSI_CLEAN_END_MORE)
        r->stop = MSI_CLEAN_STOP_ITERATIONS;
    else if (peak->key <= msi_clean_rounded(call->c, call->limits->threshold))
        r->stop = MSI_CLEAN_STOP_THRESHOLD;
    else
        r->stop = MSI_CLEAN_STOP_MAJOR;
}

int msi_clean_list(msi_clean_call *call, const msi_clean_search *search, const msi_clean_planes *planes,
                   msi_clean_range range, double *cut)
{
    msi_cleaner *c = call->c;
    int64_t bins[MSI_CLEAN_BINS], n = 0;
    int first = MSI_CLEAN_BINS - 1;
    MSI_TRY(c->ops->bins(c->e, search, &range, bins));
    for (n = bins[first]; first > 0 && n + bins[first - 1] <= c->spec.list_limit; first--) n += bins[first - 1];
    *cut = first ? range.threshold + (range.peak - range.threshold) * first / MSI_CLEAN_BINS : range.threshold;
    MSI_TRY(c->ops->select(c->e, search, &range, first, &n));
    if (n > call->report->list_largest) call->report->list_largest = n;
    return c->ops->load(c->e, planes->pixel, planes->stride, msi_clean_factor_of(call));
}

int msi_clean_subtract_list(msi_clean_call *call, int plane)
{
    msi_cleaner *c = call->c;
    void *image = msi_clean_plane(c, &call->residual, plane);
    const void *psf = c->psf_hat[plane / c->spec.n_pol];
    if (c->ops->subtract_list) return c->ops->subtract_list(c->e, c->wide, plane, psf, c->work, image);
    MSI_TRY(c->ops->forward(c->e, c->wide, NULL, plane, MSI_CLEAN_CORNER, c->work));
    MSI_TRY(c->ops->spread(c->e, c->wide, c->work, NULL, psf, NULL));
    return c->ops->inverse(c->e, c->wide, c->work, MSI_CLEAN_CORNER, MSI_CLEAN_SUBTRACT, image);
}
