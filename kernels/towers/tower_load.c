/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Count how many subgrids and small planes of each size would hold something, from where samples lie, and share
 * subgrids out among devices. */
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/towers/tower_plan.h"

/* Of many samples so many are looked at, of fewer one in eight; more would take longer than they teach. For shares more
 * are: the planes of subgrids with few samples, which lie side by side, are missed together. */
enum { MOST_LOOKED_AT = 500000, MOST_FOR_SHARES = 8 * MOST_LOOKED_AT, LEAST_LOOKED_AT = 50000, ONE_IN = 8 };

/* A place is where a sample lies. */
typedef struct place {
    int32_t tile, w0;
} place;

/* The occupancy lists tiles that hold something, and in which first w-planes. */
typedef struct occupancy {
    const msi_wgrid_geometry *g;
    int64_t n_word; /* of 64 first planes */
    int64_t n_used;
    int32_t *number; /* [tile] 1 .. n_used in the order of tiles, 0: holds nothing */
    int32_t *tile;   /* [n_used] */
    uint64_t *bit;   /* [n_used][n_word] */
} occupancy;

/* A choice says which samples are looked at: of all rows and channels, by a hash, since rows of one baseline come at
 * regular distances. The costs of towers are fitted to what is seen of rows chosen each by itself. */
typedef struct choice {
    const msi_wgrid_geometry *g;
    const msi_vis_store *store;
    int64_t thin;
} choice;

static choice choose_samples(const msi_wgrid_geometry *g, const msi_vis_store *store, int64_t most)
{
    int64_t n = store->n_sample / ONE_IN;
    n = n > most ? most : n < LEAST_LOOKED_AT ? LEAST_LOOKED_AT : n;
    return (choice){g, store, 1 + store->n_sample / n};
}

/* Steps from one chosen channel of a row, or row of a segment, to the next. */
static int64_t channel_step(const choice *c, const msi_vis_segment *s)
{
    return c->thin < s->n_chan ? c->thin : s->n_chan;
}

static int64_t row_step(const choice *c, const msi_vis_segment *s)
{
    const int64_t step = channel_step(c, s);
    return (c->thin + step - 1) / step;
}

/* Bound the samples chosen of a segment from above: rows are chosen each by itself, and of n expected there are n and
 * eight deviations more in one case of 1e15; those beyond are left out. */
static int64_t most_chosen(const choice *c, int64_t segment)
{
    const msi_vis_segment *s = &c->store->segment[segment];
    if (!s->n_row || !s->n_chan) return 0;
    const int64_t rows = s->n_row / row_step(c, s) + 1, most = rows + (int64_t)(8 * sqrt((double)rows)) + 8;
    return (most < s->n_row ? most : s->n_row) * ((s->n_chan - 1) / channel_step(c, s) + 1);
}

/* Visit the chosen samples of a segment, at most so many. Returned: where they lie. Returns how many there are. */
static int64_t look(const choice *c, int64_t segment, int64_t most, place *out)
{
    const msi_vis_segment *s = &c->store->segment[segment];
    const int is_any = c->store->coordinates;
    if (!s->n_chan) return 0;
    const int64_t next_row = row_step(c, s), next_channel = channel_step(c, s);
    const int64_t of_row = (s->n_chan - 1) / next_channel + 1;
    int64_t n = 0;
    for (int64_t row = 0; row < s->n_row && n + of_row <= most; row++) {
        const uint64_t hash = (uint64_t)(segment * MSI_SEGMENT_ROWS + row + 1) * 0x9e3779b97f4a7c15u;
        /* One in next_row: without a division, for all rows are asked. */
        if ((hash >> 32) * (uint64_t)next_row >> 32) continue;
        const double *uvw = s->uvw_m + 3 * row;
        for (int64_t k = (int64_t)(hash >> 10 & 0x3fffff) % next_channel; k < s->n_chan; k += next_channel) {
            msi_footprint f;
            double w_lambda;
            if (!is_any && msi_uv_outside(c->g, uvw[0], uvw[1], s->freq_hz[k])) continue;
            msi_locate_any(c->g, uvw, s->freq_hz[k], is_any, &f, &w_lambda);
            const int64_t tile = msi_bucket(c->g, &f) - f.w0 * c->g->n_tile_u * c->g->n_tile_v;
            out[n++] = (place){(int32_t)tile, f.w0};
        }
    }
    return n;
}

/* Returned: *out [*n_place], freed by msi_free */
static int find_places(place **out, int64_t *n_place, const choice *c)
{
    typedef struct run {
        int64_t first, n;
    } run;
    const int64_t n_segment = c->store->n_segment;
    run *runs; /* [n_segment] of places */
    int64_t most = 0;
    MSI_TRY(msi_alloc(&runs, n_segment, sizeof *runs, "w-tower plan"));
    for (int64_t i = 0; i < n_segment; most += most_chosen(c, i++)) runs[i].first = most;
    int rc = msi_alloc(out, most + 1, sizeof **out, "w-tower plan");
    if (!rc) {
        place *at = *out;
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < n_segment; i++) {
            const int64_t end = i + 1 < n_segment ? runs[i + 1].first : most;
            runs[i].n = look(c, i, end - runs[i].first, at + runs[i].first);
        }
        *n_place = 0;
        for (int64_t i = 0; i < n_segment; *n_place += runs[i++].n)
            if (runs[i].first > *n_place) memmove(at + *n_place, at + runs[i].first, (size_t)runs[i].n * sizeof *at);
    }
    msi_free(runs);
    return rc;
}

static void see_tiles(const occupancy *o, const place *p, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) __atomic_store_n(&o->number[p[i].tile], 1, __ATOMIC_RELAXED);
}

/* Set a bit while others are being set; most are set already. */
static void set_bit(uint64_t *bits, int64_t k)
{
    const uint64_t bit = (uint64_t)1 << k % 64;
    if (!(__atomic_load_n(&bits[k / 64], __ATOMIC_RELAXED) & bit))
        __atomic_fetch_or(&bits[k / 64], bit, __ATOMIC_RELAXED);
}

static void see_planes(const occupancy *o, const place *p, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) set_bit(&o->bit[(o->number[p[i].tile] - 1) * o->n_word], p[i].w0);
}

static int find_occupancy(occupancy *o, const place *p, int64_t n)
{
    int64_t n_tile = o->g->n_tile_u * o->g->n_tile_v;
    MSI_TRY(msi_alloc(&o->number, n_tile, sizeof *o->number, "w-tower plan"));
    see_tiles(o, p, n);
    for (int64_t t = 0; t < n_tile; t++)
        if (o->number[t]) o->number[t] = (int32_t)++o->n_used;
    MSI_TRY(msi_alloc(&o->tile, o->n_used + 1, sizeof *o->tile, "w-tower plan"));
    for (int64_t t = 0; t < n_tile; t++)
        if (o->number[t]) o->tile[o->number[t] - 1] = (int32_t)t;
    MSI_TRY(msi_alloc(&o->bit, o->n_used * o->n_word + 1, sizeof *o->bit, "w-tower plan"));
    see_planes(o, p, n);
    return MSI_OK;
}

/* Count planes that hold something, where first planes are given: each sample reaches w_width of them. */
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

/* Count subgrids of cores of `edge` tiles, a row of them after the other. row: [cores of a row][n_word], zero. */
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
 * Estimate the load without samples to look at: they lie in a part of the subgrids, where tracks lead through a tile
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
    const choice c = choose_samples(g, store, MOST_LOOKED_AT);
    place *places = NULL;
    int64_t n_place = 0;
    int rc = find_places(&places, &n_place, &c);
    if (!rc) rc = find_occupancy(&o, places, n_place);
    if (!rc) rc = count_load(out, &o);
    msi_free(places);
    msi_free(o.number);
    msi_free(o.tile);
    msi_free(o.bit);
    return rc;
}

/* ---- Shares ----------------------------------------------------------------------------------------------------- */

/* Subgrids of all towers: how many of the samples looked at each has, and in which first planes. */
typedef struct core_table {
    int64_t n_core, n_word;
    int64_t *n_sample; /* [n_core] */
    uint64_t *first;   /* [n_core][n_word] */
} core_table;

static void fill_cores(const core_table *c, const msi_wgrid_plan *plan, const msi_tower_plan *t, const place *p,
                       int64_t n)
{
    const int64_t n_tile_u = plan->grid.n_tile_u, edge = t->core / plan->grid.tile;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const int64_t su = p[i].tile % n_tile_u / edge, sv = p[i].tile / n_tile_u / edge, tower = p[i].w0 / t->height;
        const int64_t core = (tower * t->n_sub_v + sv) * t->n_sub_u + su, k = p[i].w0 - tower * t->height;
        __atomic_fetch_add(&c->n_sample[core], 1, __ATOMIC_RELAXED);
        set_bit(&c->first[core * c->n_word], k);
    }
}

/* Subgrids of all towers, one tower after the other. */
typedef struct core_costs {
    int64_t n_core, in_tower;
    double tower_s; /* of a tower that a share has anything in */
    double *own_s;  /* [n_core] 0: holds nothing */
} core_costs;

/* Give each share but the last as many subgrids as take its device at most most_s. Returns what the last to end
 * takes. */
static double cut_at(const core_costs *c, double most_s, const msi_share *to, int n_share, int64_t *cut)
{
    double share_s = 0, last_s = 0;
    int64_t tower = -1; /* the last one of this share */
    int share = 0;
    cut[0] = 0;
    for (int64_t i = 0; i < c->n_core; i++) {
        if (c->own_s[i] == 0) continue;
        double more_s = c->own_s[i] + (i / c->in_tower == tower ? 0 : c->tower_s);
        if (share + 1 < n_share && share_s > 0 && share_s + more_s > most_s * to[share].speed) {
            cut[++share] = i;
            share_s = 0;
            more_s = c->own_s[i] + c->tower_s;
        }
        tower = i / c->in_tower;
        share_s += more_s;
        last_s = fmax(last_s, share_s / to[share].speed);
    }
    while (share < n_share) cut[++share] = c->n_core;
    return last_s;
}

/* Find the cut that ends soonest. */
static void cut_cores(const core_costs *c, const msi_share *to, int n_share, int64_t *cut)
{
    enum { N_HALVING = 40 };
    double low_s = 0, high_s = cut_at(c, HUGE_VAL, to, n_share, cut);
    for (int k = 0; k < N_HALVING; k++) {
        const double most_s = 0.5 * (low_s + high_s);
        if (cut_at(c, most_s, to, n_share, cut) <= most_s)
            high_s = most_s;
        else
            low_s = most_s;
    }
    cut_at(c, high_s, to, n_share, cut);
}

/* Find what each subgrid takes, of those in which samples were seen. */
static void cost_cores(const core_costs *c, const core_table *cores, const msi_wgrid_plan *plan,
                       const msi_tower_plan *towers, double sample_s)
{
    for (int64_t i = 0; i < c->n_core; i++) {
        const int64_t n = count_planes(cores->first + i * cores->n_word, cores->n_word, plan->grid.w_width);
        if (n) c->own_s[i] = sample_s * (double)cores->n_sample[i] + towers->plane_s * (double)n + towers->subgrid_s;
    }
}

int msi_tower_cut(int64_t *cut, const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_tower_cost *cost,
                  const msi_vis_store *store, const msi_share *share, int n_share)
{
    const int64_t in_tower = towers->n_sub_u * towers->n_sub_v, n_core = towers->n_tower * in_tower;
    core_table cores = {.n_core = n_core, .n_word = (towers->height + 63) / 64};
    core_costs costs = {.n_core = n_core, .in_tower = in_tower, .tower_s = towers->tower_s};
    const choice c = choose_samples(&plan->grid, store, MOST_FOR_SHARES);
    place *places = NULL;
    int64_t n_place = 0;
    int rc = find_places(&places, &n_place, &c);
    if (!rc) rc = msi_alloc(&cores.n_sample, n_core, sizeof *cores.n_sample, "w-tower plan");
    if (!rc) rc = msi_alloc(&cores.first, n_core * cores.n_word, sizeof *cores.first, "w-tower plan");
    if (!rc) rc = msi_alloc(&costs.own_s, n_core, sizeof *costs.own_s, "w-tower plan");
    if (!rc) {
        const int is_slower = plan->precision == MSI_FP64 && cost->fp64_planes > 0;
        const double own_s = fmax(0, plan->sample_cost_s - cost->sort_s * (double)store->n_sample);
        fill_cores(&cores, plan, towers, places, n_place);
        cost_cores(&costs, &cores, plan, towers, own_s / (is_slower ? cost->fp64_planes : 1) / (double)(n_place + 1));
        cut_cores(&costs, share, n_share, cut);
    }
    msi_free(places);
    msi_free(cores.n_sample);
    msi_free(cores.first);
    msi_free(costs.own_s);
    return rc;
}
