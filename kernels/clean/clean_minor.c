/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The parts of msi_cleaner_minor: steps that all methods share (the first peak, chunks of iterations, records, the
 * reason to stop, lists), and the methods `hogbom` and `list`. The method `multiscale` is in clean_multiscale.c.
 */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/process.h"
#include "kernels/clean/clean_state.h"

double msi_clean_rounded(const msi_cleaner *c, double value)
{
    return c->spec.precision == MSI_FP32 ? (double)(float)value : value;
}

/* With limits->only_found, components of a scale are allowed only where this scale or a neighbouring scale was found
 * before, because later scales correct errors of earlier ones. If the scale is chosen by power, they are allowed where
 * any scale was found: thresholds are then those of points, but points may not have been found anywhere. */
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
                                  .scales = c->has_scale_mask ? c->scale_mask : NULL,
                                  .scale_bit = (uint16_t)(1U << scale),
                                  .bits = c->spec.scale_rule == MSI_CLEAN_BY_POWER ? UINT16_MAX
                                                                                   : (uint16_t)(7U << scale >> 1)};
    *allow = from.border_x || from.border_y || from.mask || from.found || from.scales ? c->allow : NULL;
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

/* Add iterations to the report: their flux in Jy, and their components, up to the caller's capacity. */
static void record(msi_clean_call *call, const msi_clean_looped *done)
{
    msi_cleaner *c = call->c;
    msi_clean_report *r = call->report;
    const msi_clean_limits *limits = call->limits;
    for (int64_t i = 0; i < done->n_iteration; i++) {
        double flux = 0;
        call->in_cell[msi_clean_cell_of(&c->setup.cells, done->place[i])] = 1;
        for (int k = 0; k < c->n_plane; k++)
            flux +=
                c->setup.share[k / c->spec.n_pol] * msi_image_value(done->value, c->spec.precision, i * c->n_plane + k);
        r->flux += flux;
        r->scale_flux[call->scale] += flux;
        if (call->n_component == limits->component_capacity) continue;
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

int msi_clean_iterate(msi_clean_call *call, msi_clean_loop *loop,
                      int (*step)(msi_clean_engine *, const msi_clean_loop *, msi_clean_looped *),
                      msi_clean_looped *done, int64_t *n)
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

int msi_clean_select_list(msi_clean_call *call, const msi_clean_search *search, msi_clean_range range, double *cut)
{
    msi_cleaner *c = call->c;
    int64_t bins[MSI_CLEAN_BINS], n = 0;
    memset(call->in_cell, 0, sizeof call->in_cell);
    int first = MSI_CLEAN_BINS - 1;
    MSI_TRY(c->ops->bins(c->e, search, &range, bins));
    for (n = bins[first]; first > 0 && n + bins[first - 1] <= c->spec.list_limit; first--) n += bins[first - 1];
    *cut = first ? range.threshold + (range.peak - range.threshold) * first / MSI_CLEAN_BINS : range.threshold;
    MSI_TRY(c->ops->select(c->e, search, &range, first, &n));
    if (n > call->report->list_largest) call->report->list_largest = n;
    return MSI_OK;
}

int msi_clean_make_list(msi_clean_call *call, const msi_clean_search *search, const msi_clean_planes *planes,
                        msi_clean_range range, double *cut)
{
    MSI_TRY(msi_clean_select_list(call, search, range, cut));
    return call->c->ops->load(call->c->e, planes->pixel, planes->stride, msi_clean_factor_of(call));
}

/* ---- The method `hogbom` ---------------------------------------------------------------------------------------- */

/*
 * Every component is subtracted from the whole image, or from the part that a patch of the PSF covers, before the next
 * peak is searched for. J. A. Hogbom, A&AS 15, 417 (1974).
 */
static int run_hogbom(msi_clean_call *call)
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
    MSI_TRY(c->ops->exact_loop(c->e, &loop, &done)); /* no iterations: only the peak */
    if (msi_clean_start(call, &done.peak)) return MSI_OK;
    loop.threshold = r->threshold;
    loop.diverged = 2 * call->peak_first;
    call->report->n_round = 1;
    MSI_TRY(msi_clean_iterate(call, &loop, c->ops->exact_loop, &done, &n));
    msi_clean_finish(call, done.end, &done.peak);
    return MSI_OK;
}

static int64_t hogbom_bytes(const msi_cleaner *c)
{
    (void)c;
    return 0;
}

const msi_clean_method_ops msi_clean_hogbom_ops = {.minor = run_hogbom, .bytes = hogbom_bytes};

/* ---- The method `list` ------------------------------------------------------------------------------------------ */

/*
 * A list has the pixels above the threshold. Only these are cleaned; a component changes all of them, by the full PSF.
 * Then one convolution subtracts the components from the image. Pixels that are now above the threshold make the next
 * list. If more pixels are above it than a list holds, the brightest are cleaned first. After A. R. Offringa
 * and O. Smirnov, MNRAS 471, 301 (2017), section 2; B. G. Clark, A&A 89, 377 (1980).
 */
static int64_t list_padded(int64_t n)
{
    return msi_clean_padded(n, 0);
}

static int prepare_list(msi_cleaner *c)
{
    return msi_clean_make_wide(c, list_padded(c->spec.nx), list_padded(c->spec.ny));
}

static int64_t list_bytes(const msi_cleaner *c)
{
    const int64_t cells = (list_padded(c->spec.nx) / 2 + 8) * list_padded(c->spec.ny);
    return cells * c->complex_bytes * (c->n_cell * c->spec.n_channel + 1) +
           c->ops->fft_bytes(&c->setup, list_padded(c->spec.nx), list_padded(c->spec.ny));
}

/* Return the bytes that may be paged out: the transforms of all PSFs except the one in use. */
static int64_t list_paged(const msi_cleaner *c)
{
    const int64_t cells = (list_padded(c->spec.nx) / 2 + 8) * list_padded(c->spec.ny);
    return cells * c->complex_bytes * (c->n_cell * c->spec.n_channel - 1);
}

/* Find the peak of the searched quantity. With one plane, no factor and no squares, the quantity is the residual.
 * Otherwise it is joined from all planes. */
static int find_peak(msi_clean_call *call, msi_clean_search *search, msi_clean_peak *peak)
{
    msi_cleaner *c = call->c;
    const void *factor = msi_clean_factor_of(call);
    if (c->n_plane == 1 && !factor && !c->spec.squared_join) {
        search->quantity = call->residual.pixel;
    } else {
        const msi_clean_joined from = {.planes = call->residual.pixel, .stride = call->residual.stride};
        MSI_TRY(c->ops->join(c->e, &from, factor, c->quantity));
        search->quantity = c->quantity;
    }
    return c->ops->peak(c->e, search, peak);
}

static int subtract_plane(void *of, msi_clean_worker *w, int plane)
{
    msi_clean_call *call = of;
    return msi_clean_plane_has_weight(call->c, plane) ? msi_clean_subtract_list(call, w, plane, NULL) : MSI_OK;
}

/* Subtract the list's components from the whole residual, and add them to the model. */
static int apply_list(msi_clean_call *call)
{
    msi_cleaner *c = call->c;
    MSI_TRY(msi_clean_share(c, c->n_plane, subtract_plane, call));
    for (int k = 0; k < c->n_plane; k++)
        if (msi_clean_plane_has_weight(c, k)) MSI_TRY(c->ops->deposit(c->e, k, msi_clean_plane(c, &call->model, k)));
    return c->ops->mark(c->e, c->found, 0);
}

/* Run one list: select, clean, apply. *n is the number of iterations. */
static int run_round(msi_clean_call *call, const msi_clean_search *search, const msi_clean_peak *peak,
                     msi_clean_end *end, int64_t *n)
{
    msi_cleaner *c = call->c;
    msi_clean_looped done;
    msi_clean_loop loop = {.psf = c->psf,
                           .psf_id = c->psf_id,
                           .gain = c->spec.gain,
                           .stop_negative = c->spec.stop_negative,
                           .diverged = 2 * call->peak_first};
    const msi_clean_range range = {call->report->threshold, peak->key};
    MSI_TRY(msi_clean_make_list(call, search, &call->residual, range, &loop.threshold));
    MSI_TRY(msi_clean_iterate(call, &loop, c->ops->list_loop, &done, n));
    *end = done.end;
    call->report->n_round++;
    return apply_list(call);
}

static int run_list(msi_clean_call *call)
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

const msi_clean_method_ops msi_clean_list_ops = {.prepare = prepare_list,
                                                 .release = msi_clean_free_wide,
                                                 .psf = msi_clean_transform_psf,
                                                 .minor = run_list,
                                                 .bytes = list_bytes,
                                                 .paged = list_paged,
                                                 .uses_lists = 1};
