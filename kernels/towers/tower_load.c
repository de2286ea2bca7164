/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counts how many subgrids and small planes of each size would hold something, from where samples lie. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/towers/tower_plan.h"

/* So many samples are looked at; more would take longer than they teach. */
static const int64_t MOST_LOOKED_AT = 500000;

/* The occupancy lists tiles that hold something, and in which first w-planes. */
typedef struct occupancy {
    const msi_wgrid_geometry *g;
    int64_t n_word; /* of 64 first planes */
    int64_t n_used;
    int32_t *number; /* [tile] 1 .. n_used in the order of tiles, 0: holds nothing */
    int32_t *tile;   /* [n_used] */
    uint64_t *bit;   /* [n_used][n_word] */
} occupancy;

static int64_t tile_of(const msi_wgrid_geometry *g, const msi_footprint *f)
{
    return msi_bucket(g, f) - f->w0 * g->n_tile_u * g->n_tile_v;
}

/* Visits some samples of all rows and channels, chosen by a hash: rows of one baseline come at regular distances. */
static void look(const occupancy *o, const msi_vis_store *store,
                 void (*see)(const occupancy *o, int64_t tile, int32_t w0))
{
    const msi_wgrid_geometry *g = o->g;
    int64_t thin = 1 + store->n_sample / MOST_LOOKED_AT;
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < store->n_segment; i++) {
        const msi_vis_segment *s = &store->segment[i];
        int64_t channel_step = thin < s->n_chan ? thin : s->n_chan, row_step = (thin + channel_step - 1) / channel_step;
        for (int64_t row = 0; row < s->n_row; row++) {
            uint64_t hash = (uint64_t)(i * MSI_SEGMENT_ROWS + row + 1) * 0x9e3779b97f4a7c15u >> 20;
            if ((int64_t)(hash >> 22) % row_step) continue;
            const double *uvw = s->uvw_m + 3 * row;
            for (int64_t c = (int64_t)(hash & 0x3fffff) % channel_step; c < s->n_chan; c += channel_step) {
                msi_footprint f;
                double w_lambda;
                if (!store->coordinates && msi_uv_outside(g, uvw[0], uvw[1], s->freq_hz[c])) continue;
                msi_locate_any(g, uvw, s->freq_hz[c], store->coordinates, &f, &w_lambda);
                see(o, tile_of(g, &f), f.w0);
            }
        }
    }
}

static void see_tile(const occupancy *o, int64_t tile, int32_t w0)
{
    (void)w0;
    __atomic_store_n(&o->number[tile], 1, __ATOMIC_RELAXED);
}

static void see_plane(const occupancy *o, int64_t tile, int32_t w0)
{
    uint64_t *word = &o->bit[(o->number[tile] - 1) * o->n_word + w0 / 64], bit = (uint64_t)1 << w0 % 64;
    if (!(__atomic_load_n(word, __ATOMIC_RELAXED) & bit)) __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
}

static int find_occupancy(occupancy *o, const msi_vis_store *store)
{
    int64_t n_tile = o->g->n_tile_u * o->g->n_tile_v;
    MSI_TRY(msi_alloc(&o->number, n_tile, sizeof *o->number, "w-tower plan"));
    look(o, store, see_tile);
    for (int64_t t = 0; t < n_tile; t++)
        if (o->number[t]) o->number[t] = (int32_t)++o->n_used;
    MSI_TRY(msi_alloc(&o->tile, o->n_used + 1, sizeof *o->tile, "w-tower plan"));
    for (int64_t t = 0; t < n_tile; t++)
        if (o->number[t]) o->tile[o->number[t] - 1] = (int32_t)t;
    MSI_TRY(msi_alloc(&o->bit, o->n_used * o->n_word + 1, sizeof *o->bit, "w-tower plan"));
    look(o, store, see_plane);
    return MSI_OK;
}

/* Counts planes that hold something, where first planes are given: each sample reaches w_width of them. */
static int64_t count_planes(const uint64_t *first, int64_t n_word, int32_t w_width)
{
    int64_t n = 0, end = 0;
    for (int64_t k = 0; k < n_word; k++)
        for (uint64_t left = first[k]; left; left &= left - 1) {
            int64_t w0 = 64 * k + __builtin_ctzll(left);
            n += w0 + w_width - (w0 > end ? w0 : end);
            end = w0 + w_width;
        }
    return n;
}

/* Counts subgrids of cores of `edge` tiles, a row of them after the other. row: [cores of a row][n_word], zero. */
static void count_subgrids(msi_tower_load *load, const occupancy *o, int64_t edge, uint64_t *row)
{
    const msi_wgrid_geometry *g = o->g;
    int64_t n_core = (g->n_tile_u + edge - 1) / edge;
    for (int64_t i = 0; i < o->n_used;) {
        int64_t core_row = o->tile[i] / g->n_tile_u / edge, first = n_core, last = -1;
        for (; i < o->n_used && o->tile[i] / g->n_tile_u / edge == core_row; i++) {
            int64_t core = o->tile[i] % g->n_tile_u / edge;
            for (int64_t k = 0; k < o->n_word; k++) row[core * o->n_word + k] |= o->bit[i * o->n_word + k];
            first = core < first ? core : first;
            last = core > last ? core : last;
        }
        for (int64_t core = first; core <= last; core++) {
            int64_t n = count_planes(row + core * o->n_word, o->n_word, g->w_width);
            load->n_subgrid[edge] += n > 0;
            load->n_plane[edge] += (double)n;
        }
        memset(row + first * o->n_word, 0, (size_t)((last + 1 - first) * o->n_word) * sizeof *row);
    }
}

static int count_load(msi_tower_load *load, const occupancy *o)
{
    int64_t row_words = (o->g->n_tile_u + 8) * o->n_word; /* apart in memory: each edge has a thread */
    uint64_t *rows;
    MSI_TRY(msi_alloc(&rows, (MSI_TOWER_MAX_CORE_TILES + 1) * row_words, sizeof *rows, "w-tower plan"));
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t edge = 1; edge <= MSI_TOWER_MAX_CORE_TILES; edge++)
        count_subgrids(load, o, edge, rows + edge * row_words);
    msi_free(rows);
    return MSI_OK;
}

/*
 * Estimates the load without samples to look at: they lie in a part of the subgrids, where tracks lead through a tile
 * for a few samples and from tile to tile along a core's edge; and those of a subgrid, whose coordinates lie near one
 * plane in u, v and w, in a part of the w-planes. Generous: of the arrays looked at none filled more than half of this.
 */
static void foresee_load(msi_tower_load *load, const msi_wgrid_geometry *g, int64_t n_sample)
{
    static const double PART_OF_UV = 0.4, PART_OF_W = 0.15, SAMPLES_A_TILE = 8;
    for (int64_t edge = 1; edge <= MSI_TOWER_MAX_CORE_TILES; edge++) {
        double all = ceil((double)g->n_tile_u / (double)edge) * ceil((double)g->n_tile_v / (double)edge);
        load->n_subgrid[edge] = ceil(fmin(PART_OF_UV * all, (double)n_sample / SAMPLES_A_TILE / (double)edge));
        load->n_plane[edge] = load->n_subgrid[edge] * (g->w_width + PART_OF_W * (g->n_w - g->w_width));
    }
}

int msi_tower_load_make(msi_tower_load *out, const msi_wgrid_plan *plan, const msi_vis_store *store, int64_t n_sample)
{
    memset(out, 0, sizeof *out);
    const msi_wgrid_geometry *g = &plan->grid;
    if (!store) {
        foresee_load(out, g, n_sample);
        return MSI_OK;
    }
    occupancy o = {.g = g, .n_word = (g->n_w - g->w_width + 64) / 64};
    int rc = find_occupancy(&o, store);
    if (!rc) rc = count_load(out, &o);
    msi_free(o.number);
    msi_free(o.tile);
    msi_free(o.bit);
    return rc;
}
