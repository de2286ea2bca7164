/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CPU's engine: its memory, passes over images, and the list. */
#include "kernels/clean/clean_engine_cpu.h"

#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

#define REAL  float
#define IN(x) x##_f32
#include "kernels/clean/clean_image_cpu_body.h"
#undef REAL
#undef IN

#define REAL  double
#define IN(x) x##_f64
#include "kernels/clean/clean_image_cpu_body.h"

/* Call the function of the engine's precision. */
#define CALL(function, ...)                                                                                            \
    (e->s.precision == MSI_FP32 ? function##_f32(e, __VA_ARGS__) : function##_f64(e, __VA_ARGS__))

static int engine_alloc(msi_clean_engine *e, void **out, int64_t bytes, const char *what)
{
    (void)e;
    return msi_alloc(out, bytes, 1, what);
}

static void engine_release(msi_clean_engine *e, void *p)
{
    (void)e;
    msi_free(p);
}

static int engine_copy(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    (void)e;
    memcpy(to, from, (size_t)bytes);
    return MSI_OK;
}

static int engine_clear(msi_clean_engine *e, void *p, int64_t bytes)
{
    (void)e;
    memset(p, 0, (size_t)bytes);
    return MSI_OK;
}

static int engine_wait(msi_clean_engine *e)
{
    (void)e;
    return MSI_OK;
}

static void engine_free(msi_clean_engine *e)
{
    if (!e) return;
    void *all[] = {e->share, e->fit,   e->list,  e->residual, e->component, e->factor,
                   e->place, e->value, e->piece, e->row,      e->of_thread};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) msi_free(all[i]);
    msi_free(e);
}

static int make_tables(msi_clean_engine *e)
{
    const int n = e->s.join.n_channel;
    MSI_TRY(msi_alloc(&e->share, n, 8, "channels' weights"));
    if (e->s.fit) MSI_TRY(msi_alloc(&e->fit, n * n, 8, "a spectral fit"));
    for (int i = 0; i < n; i++) CALL(set_real, e->share, i, e->s.share[i]);
    for (int i = 0; i < n * n && e->s.fit; i++) CALL(set_real, e->fit, i, e->s.fit[i]);
    e->s.fit = NULL;
    return MSI_OK;
}

static int make_room(msi_clean_engine *e)
{
    const int64_t real = msi_clean_real_bytes(e), n = e->s.list_limit;
    e->n_piece = (e->s.nx + MSI_CLEAN_TILE - 1) / MSI_CLEAN_TILE;
    MSI_TRY(msi_alloc(&e->place, MSI_CLEAN_CHUNK, sizeof *e->place, "components"));
    MSI_TRY(msi_alloc(&e->value, MSI_CLEAN_CHUNK * e->n_plane, (size_t)real, "components"));
    MSI_TRY(msi_alloc(&e->of_thread, e->n_thread, sizeof *e->of_thread, "components"));
    if (!n) {
        MSI_TRY(msi_alloc(&e->piece, e->n_piece * e->s.ny, sizeof *e->piece, "rows' peaks"));
        return msi_alloc(&e->row, e->s.ny, sizeof *e->row, "rows' peaks");
    }
    MSI_TRY(msi_alloc(&e->list, n, sizeof *e->list, "a list of pixels"));
    MSI_TRY(msi_alloc(&e->residual, n * e->n_plane, (size_t)real, "a list of pixels"));
    MSI_TRY(msi_alloc(&e->component, n * e->n_plane, (size_t)real, "a list of pixels"));
    return msi_alloc(&e->factor, n, (size_t)real, "a list of pixels");
}

static int engine_create(msi_clean_engine **out, const msi_clean_setup *setup)
{
    msi_clean_engine *e;
    *out = NULL;
    MSI_TRY(msi_alloc(&e, 1, sizeof *e, "the cleaner"));
    e->s = *setup;
    e->n_plane = setup->join.n_channel * setup->join.n_pol;
    e->n_pixel = setup->nx * setup->ny;
    e->n_thread = setup->n_thread > 0 ? setup->n_thread : omp_get_max_threads();
    e->simd = msi_clean_simd();
    int rc = make_tables(e);
    if (!rc) rc = make_room(e);
    if (rc) {
        engine_free(e);
        return rc;
    }
    *out = e;
    return MSI_OK;
}

static int engine_allow(msi_clean_engine *e, const msi_clean_allow *from, uint8_t *allow)
{
    const int64_t nx = e->s.nx, ny = e->s.ny;
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t y = 0; y < ny; y++)
        for (int64_t x = 0; x < nx; x++) {
            const int64_t i = y * nx + x;
            const int inside =
                x >= from->border_x && x < nx - from->border_x && y >= from->border_y && y < ny - from->border_y;
            allow[i] = inside && (!from->mask || from->mask[i]) && (!from->found || (from->found[i] & from->bits) != 0);
        }
    return MSI_OK;
}

static int engine_finite(msi_clean_engine *e, void *image, int64_t n)
{
    CALL(finite, image, n);
    return MSI_OK;
}

static int engine_join(msi_clean_engine *e, const void *planes, int64_t stride, int averaged, const void *factor,
                       void *quantity)
{
    CALL(join, planes, stride, averaged, factor, quantity);
    return MSI_OK;
}

static int engine_mean(msi_clean_engine *e, const void *planes, int64_t stride, int pol, void *out)
{
    CALL(mean, planes, stride, pol, out);
    return MSI_OK;
}

static int engine_peak(msi_clean_engine *e, const msi_clean_search *s, msi_clean_peak *peak)
{
    msi_clean_best best = {0, 0, 0};
#pragma omp parallel num_threads(e->n_thread)
    {
        const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
        msi_clean_best part = CALL(peak, s, e->n_pixel * t / n, e->n_pixel * (t + 1) / n);
#pragma omp critical(msi_clean_peak)
        if (part.key > best.key || (part.key == best.key && part.at < best.at)) best = part;
    }
    *peak = (msi_clean_peak){best.key, best.value, best.at % e->s.nx, best.at / e->s.nx};
    return MSI_OK;
}

static int engine_bins(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
                       int64_t bins[MSI_CLEAN_BINS])
{
    memset(bins, 0, MSI_CLEAN_BINS * sizeof *bins);
#pragma omp parallel num_threads(e->n_thread)
    {
        const int64_t t = omp_get_thread_num(), n = omp_get_num_threads();
        int64_t part[MSI_CLEAN_BINS] = {0};
        CALL(bins, s, range, e->n_pixel * t / n, e->n_pixel * (t + 1) / n, part);
#pragma omp critical(msi_clean_bins)
        for (int b = 0; b < MSI_CLEAN_BINS; b++) bins[b] += part[b];
    }
    return MSI_OK;
}

static int engine_select(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin,
                         int64_t *n)
{
    CALL(select, s, range, first_bin);
    *n = e->n_list;
    return MSI_OK;
}

static int engine_load(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor)
{
    CALL(load, planes, stride, factor);
    return MSI_OK;
}

static int engine_deposit(msi_clean_engine *e, int plane, void *image)
{
    CALL(deposit, plane, image);
    return MSI_OK;
}

static int engine_mark(msi_clean_engine *e, uint16_t *found, int bit)
{
    CALL(mark, found, bit);
    return MSI_OK;
}

const msi_clean_engine_ops msi_clean_engine_cpu = {
    .create = engine_create,
    .free = engine_free,
    .alloc = engine_alloc,
    .release = engine_release,
    .upload = engine_copy,
    .download = engine_copy,
    .copy = engine_copy,
    .clear = engine_clear,
    .wait = engine_wait,
    .allow = engine_allow,
    .finite = engine_finite,
    .join = engine_join,
    .mean = engine_mean,
    .map = msi_clean_map_cpu,
    .peak = engine_peak,
    .bins = engine_bins,
    .select = engine_select,
    .load = engine_load,
    .list_loop = msi_clean_list_loop_cpu,
    .deposit = engine_deposit,
    .mark = engine_mark,
    .exact_loop = msi_clean_exact_loop_cpu,
    .fft_create = msi_clean_fft_create_cpu,
    .fft_free = msi_clean_fft_free_cpu,
    .fft_bytes = msi_clean_fft_bytes_cpu,
    .noise_bytes = msi_clean_noise_bytes_cpu,
    .forward = msi_clean_forward_cpu,
    .gaussian = msi_clean_gaussian_cpu,
    .product = msi_clean_product_cpu,
    .spread = msi_clean_spread_cpu,
    .inverse = msi_clean_inverse_cpu,
    .deviation = msi_clean_deviation_cpu,
    .square = msi_clean_square_cpu,
    .box = msi_clean_box_cpu,
    .factor = msi_clean_factor_cpu,
    .threshold = msi_clean_threshold_cpu,
    .prune = msi_clean_prune_cpu,
    .grow = msi_clean_grow_cpu,
    .unite = msi_clean_unite_cpu,
    .intersect = msi_clean_intersect_cpu,
    .mask_to_image = msi_clean_mask_to_image_cpu,
    .subtract_list = msi_clean_subtract_list_cpu,
};
