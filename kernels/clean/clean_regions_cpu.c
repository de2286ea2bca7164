/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Masks on the CPU: thresholds, regions, growth. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/clean/clean_engine_cpu.h"

static double get(const msi_clean_engine *e, const void *image, int64_t i)
{
    return e->s.precision == MSI_FP32 ? (double)((const float *)image)[i] : ((const double *)image)[i];
}

int msi_clean_threshold_cpu(msi_clean_engine *e, const void *image, double value, int below, uint8_t *mask)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        const double v = get(e, image, i);
        mask[i] = isfinite(v) && (below ? v < value : v > value);
    }
    return MSI_OK;
}

/* Find the neighbours of pixel i along edges, *n of them. */
static int find_neighbours(const msi_clean_engine *e, int64_t i, int64_t at[4])
{
    const int64_t nx = e->s.nx, x = i % nx;
    int n = 0;
    if (x > 0) at[n++] = i - 1;
    if (x + 1 < nx) at[n++] = i + 1;
    if (i >= nx) at[n++] = i - nx;
    if (i + nx < e->n_pixel) at[n++] = i + nx;
    return n;
}

/* A region is collected in `queue`, pixel by pixel; those seen are 2 until it is known whether they stay. */
static int64_t collect(const msi_clean_engine *e, int64_t first, uint8_t *mask, uint32_t *queue)
{
    int64_t head = 0, tail = 0, near[4];
    queue[tail++] = (uint32_t)first;
    mask[first] = 2;
    while (head < tail) {
        const int n = find_neighbours(e, queue[head++], near);
        for (int k = 0; k < n; k++) {
            if (mask[near[k]] != 1) continue;
            mask[near[k]] = 2;
            queue[tail++] = (uint32_t)near[k];
        }
    }
    return tail;
}

int msi_clean_prune_cpu(msi_clean_engine *e, int64_t least, uint8_t *mask)
{
    uint32_t *queue;
    if (least <= 1) return MSI_OK;
    MSI_TRY(msi_alloc(&queue, e->n_pixel, sizeof *queue, "regions of a mask"));
    for (int64_t i = 0; i < e->n_pixel; i++) {
        if (mask[i] != 1) continue;
        const int64_t n = collect(e, i, mask, queue);
        for (int64_t k = 0; k < n && n < least; k++) mask[queue[k]] = 0;
    }
    msi_free(queue);
    for (int64_t i = 0; i < e->n_pixel; i++) mask[i] = mask[i] != 0;
    return MSI_OK;
}

/* Grow once from one mask to another. Returns: whether a pixel was added. */
static int grow_once(const msi_clean_engine *e, const uint8_t *within, const uint8_t *from, uint8_t *to)
{
    int grew = 0;
#pragma omp parallel for num_threads(e->n_thread) reduction(| : grew)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        to[i] = from[i];
        if (from[i] || !within[i]) continue;
        int64_t near[4];
        const int n = find_neighbours(e, i, near);
        for (int k = 0; k < n; k++) to[i] = to[i] || from[near[k]];
        grew |= to[i];
    }
    return grew;
}

int msi_clean_grow_cpu(msi_clean_engine *e, const uint8_t *within, int64_t n, uint8_t *mask)
{
    uint8_t *work;
    MSI_TRY(msi_alloc(&work, e->n_pixel, 1, "regions of a mask"));
    for (int64_t k = 0; k < n; k++) {
        const int grew = grow_once(e, within, mask, work);
        memcpy(mask, work, (size_t)e->n_pixel);
        if (!grew) break;
    }
    msi_free(work);
    return MSI_OK;
}

int msi_clean_unite_cpu(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    for (int64_t i = 0; i < e->n_pixel; i++) mask[i] = mask[i] || other[i];
    return MSI_OK;
}

int msi_clean_intersect_cpu(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    for (int64_t i = 0; i < e->n_pixel; i++) mask[i] = mask[i] && other[i];
    return MSI_OK;
}

int msi_clean_mask_to_image_cpu(msi_clean_engine *e, const uint8_t *mask, void *image)
{
#pragma omp parallel for num_threads(e->n_thread)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        if (e->s.precision == MSI_FP32)
            ((float *)image)[i] = mask[i];
        else
            ((double *)image)[i] = mask[i];
    }
    return MSI_OK;
}
