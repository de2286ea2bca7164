/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * w-towers on the CPU (tower_plan.h).
 *
 * Gridding:
 *   1. Sort samples by first w-plane and uv tile, as for whole planes.
 *   2. Threads process the subgrids of one tower; subgrids with many samples are divided. A ring of small planes moves
 *      up through the tower.
 *   3. Transform each complete plane, multiply it by its screen, and add it to the subgrid's sum; at the end transform
 *      the sum back.
 *   4. Add a batch of these sums to the tower's one whole plane, row by row in a fixed order, so that the result does
 *      not depend on the number of threads.
 *   5. Transform the whole plane, multiply it by its screen, and add it to the image.
 *
 * Degridding:
 *   1. Make one whole plane for each tower from the model.
 *   2. Threads process subgrids in any order. Each subgrid is copied from the plane, and transformed once.
 *   3. A ring of small planes moves up through the tower. A plane is made from the subgrid's transform when the first
 *      sample needs it, and samples are degridded from the ring.
 */

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/towers/tower_plan.h"
#include "kernels/transform/fft_cpu.h"
#include "kernels/wgrid/wgrid_cpu.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"
#include "kernels/wgrid/wgrid_simd.h"

static const int32_t sizes[] = {32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512};

/* Measured as for msi_wgrid_cpu_cost. */
const msi_tower_cost msi_wgrid_tower_cpu_cost = {.fft_flop_s = 3.5e10,
                                                 .cell_s = 1e-9,
                                                 .far_cell_s = 2e-9,
                                                 .near_bytes = 3 << 19,
                                                 .off_centre = 1,
                                                 .size = sizes,
                                                 .n_size = sizeof sizes / sizeof *sizes};

enum { G = MSI_GRID_GUARD };

/* ---- Stacks of small planes ------------------------------------------------------------------------------------- */

/*
 * Screens and transforms, which threads share, and a ring of small planes for each thread. A plane has [size] rows of
 * `pitch` cells, the first `size` of which are used; the others are finite, for vectors that reach beyond a row.
 */
typedef struct tower_stacks {
    const msi_wgrid_plan *plan;
    const msi_tower_plan *towers;
    const msi_wgrid_simd_table *simd;
    int fp32, n_thread;
    int64_t cell_bytes, pitch;
    int64_t screen_rows;
    char **screen;            /* [(n_plane + 1)/2] msi_tower_screen of the lower half of a tower's planes */
    char **plane;             /* [n_thread][w_width + 1] zero at first */
    msi_fft1d *row, *columns; /* transform of a row, and of all columns */
    msi_fft1d *row_back, *columns_back;
} tower_stacks;

/* A subgrid's samples of first planes [w0_begin, w0_end), for one thread. */
typedef struct tower_item {
    int64_t su, sv, w0_begin, w0_end, n_run;
} tower_item;

/* Count the runs of w0 in n_tile tiles from (tu, tv) on, limited to the grid. */
static inline int64_t count_tile_runs(const msi_wgrid_geometry *g, const msi_buckets *buckets, int64_t w0, int64_t tu,
                                      int64_t tv, int64_t n_tile)
{
    if (n_tile > g->n_tile_u - tu) n_tile = g->n_tile_u - tu;
    const int64_t *start = buckets->start + (w0 * g->n_tile_v + tv) * g->n_tile_u + tu;
    return tv < g->n_tile_v ? start[n_tile] - start[0] : 0;
}

/* Cells after a row. They avoid rows of 2^k cells, which map to few sets of a cache, and vectors may extend into
 * them. */
enum { ROW_PAD = MSI_TAP_PAD };

/* An item has at most about 1 / PARTS of all runs, but need not have fewer than LEAST_RUNS. */
enum { PARTS = 64, LEAST_RUNS = 1024 };

/* Return the size of a small plane. */
static int64_t small_plane_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    return (int64_t)towers->size * (towers->size + ROW_PAD) * msi_complex_bytes(plan->precision);
}

static int64_t screen_cells(const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    return (int64_t)msi_tower_screen_rows(plan, towers) * towers->size;
}

static int64_t stacks_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread)
{
    return n_thread * (plan->grid.w_width + 1) * small_plane_bytes(plan, towers) +
           (towers->n_plane + 1) / 2 * screen_cells(plan, towers) * msi_complex_bytes(plan->precision);
}

/*
 * Allocate for as many threads as OpenMP uses, and make the screens.
 * Given:   plan, towers  borrowed for the life of *s
 * Returns: 0, MSI_ENOMEM; freed by free_stacks in either case
 */
static int create_stacks(tower_stacks *s, const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    memset(s, 0, sizeof *s);
    int64_t size = towers->size, n_plane = plan->grid.w_width + 1;
    s->plan = plan;
    s->towers = towers;
    s->simd = msi_wgrid_simd();
    s->fp32 = plan->precision == MSI_FP32;
    s->n_thread = omp_get_max_threads();
    s->cell_bytes = msi_complex_bytes(plan->precision);
    s->pitch = size + ROW_PAD;
    s->screen_rows = msi_tower_screen_rows(plan, towers);
    MSI_TRY(msi_fft1d_create_batch(&s->row, size, 1, 1, size, 0, plan->precision));
    MSI_TRY(msi_fft1d_create_batch(&s->columns, size, size, s->pitch, 1, 0, plan->precision));
    MSI_TRY(msi_fft1d_create_batch(&s->row_back, size, 1, 1, size, 1, plan->precision));
    MSI_TRY(msi_fft1d_create_batch(&s->columns_back, size, size, s->pitch, 1, 1, plan->precision));
    MSI_TRY(msi_alloc(&s->plane, s->n_thread * n_plane, sizeof *s->plane, "subgrids"));
    for (int64_t i = 0; i < s->n_thread * n_plane; i++)
        MSI_TRY(msi_alloc(&s->plane[i], size * s->pitch, (size_t)s->cell_bytes, "subgrid"));
    int n_screen = (towers->n_plane + 1) / 2;
    MSI_TRY(msi_alloc(&s->screen, n_screen, sizeof *s->screen, "w-screens"));
    for (int k = 0; k < n_screen; k++)
        MSI_TRY(msi_alloc(&s->screen[k], screen_cells(plan, towers), (size_t)s->cell_bytes, "w-screen"));
#pragma omp parallel for schedule(dynamic, 1)
    for (int k = 0; k < n_screen; k++) msi_tower_screen(plan, towers, k, s->screen[k]);
    return MSI_OK;
}

static void free_stacks(tower_stacks *s)
{
    int64_t n_plane = s->plan ? s->plan->grid.w_width + 1 : 0;
    for (int64_t i = 0; s->plane && i < s->n_thread * n_plane; i++) msi_free(s->plane[i]);
    for (int k = 0; s->screen && k < (s->towers->n_plane + 1) / 2; k++) msi_free(s->screen[k]);
    msi_free(s->plane);
    msi_free(s->screen);
    msi_fft1d_free(s->row);
    msi_fft1d_free(s->columns);
    msi_fft1d_free(s->row_back);
    msi_fft1d_free(s->columns_back);
    memset(s, 0, sizeof *s);
}

/* Return the calling thread's planes, [w_width + 1]; borrowed. */
static char **ring_of_thread(const tower_stacks *s)
{
    return s->plane + omp_get_thread_num() * (s->plan->grid.w_width + 1);
}

/* ---- Transforms ------------------------------------------------------------------------------------------------- */

static char *row_of(const tower_stacks *s, const char *plane, int64_t row)
{
    return (char *)plane + row * s->pitch * s->cell_bytes;
}

/* Mark the rows that samples of some rows of tiles touch, and one row on either side: see msi_grid_source. */
static void rows_of_tiles(const tower_stacks *s, uint32_t tile_rows, uint8_t *touched)
{
    const msi_wgrid_geometry *g = &s->plan->grid;
    memset(touched, 0, (size_t)s->towers->size);
    for (int64_t t = 0; t < s->towers->core / g->tile; t++)
        if (tile_rows >> t & 1)
            memset(touched + s->towers->margin + t * g->tile - 1, 1, (size_t)g->tile + (size_t)g->width + 1);
}

static void run_rows(const tower_stacks *s, const msi_fft1d *fft, char *plane, const uint8_t *which)
{
    for (int64_t r = 0; r < s->towers->size; r++)
        if (!which || which[r]) msi_fft1d_run(fft, row_of(s, plane, r));
}

/* Find row r of the screen of a tower's plane k, and the sign of its imaginary part: see msi_tower_screen. */
static const char *screen_row(const tower_stacks *s, int64_t k, int64_t r, int *sign)
{
    int64_t mirrored = s->towers->n_plane - 1 - k, size = s->towers->size;
    *sign = k <= mirrored ? 1 : -1;
    return s->screen[k <= mirrored ? k : mirrored] + (r < s->screen_rows ? r : size - r) * size * s->cell_bytes;
}

/*
 * Transform a small plane, screen it, add it to the subgrid's sum, and set it to zero.
 * Given: tile_rows  bit t: the plane has samples in row t of the core's tiles; k  the plane's number in the tower
 */
static void gather_plane(const tower_stacks *s, char *plane, uint32_t tile_rows, int64_t k, char *sum)
{
    uint8_t touched[MSI_TOWER_MAX_SIZE];
    int64_t size = s->towers->size;
    int sign;
    rows_of_tiles(s, tile_rows, touched);
    run_rows(s, s->row, plane, touched);
    msi_fft1d_run(s->columns, plane);
    for (int64_t r = 0; r < size; r++) {
        void *cell = row_of(s, plane, r), *to = row_of(s, sum, r);
        const void *screen = screen_row(s, k, r, &sign);
        if (s->fp32)
            s->simd->gather_f32(cell, screen, (float)sign, size, to);
        else
            s->simd->gather_f64(cell, screen, sign, size, to);
    }
}

/* Transform a subgrid's sum back, in place, to its contribution to the tower's plane. */
static void close_sum(const tower_stacks *s, char *sum)
{
    msi_fft1d_run(s->columns_back, sum);
    run_rows(s, s->row_back, sum, NULL);
}

/* Transform, in place, a subgrid that was copied from a tower's plane. */
static void open_subgrid(const tower_stacks *s, char *cut)
{
    run_rows(s, s->row, cut, NULL);
    msi_fft1d_run(s->columns, cut);
}

/* Make a tower's small plane k from the subgrid's transform. Only rows of the given tiles are made. */
static void spread_plane(const tower_stacks *s, const char *open, uint32_t tile_rows, int64_t k, char *plane)
{
    uint8_t touched[MSI_TOWER_MAX_SIZE];
    int64_t size = s->towers->size;
    int sign;
    for (int64_t r = 0; r < size; r++) {
        void *to = row_of(s, plane, r);
        const void *cell = row_of(s, open, r), *screen = screen_row(s, k, r, &sign);
        if (s->fp32)
            s->simd->turn_f32(cell, screen, (float)-sign, size, to);
        else
            s->simd->turn_f64(cell, screen, -sign, size, to);
    }
    rows_of_tiles(s, tile_rows, touched);
    msi_fft1d_run(s->columns_back, plane);
    run_rows(s, s->row_back, plane, touched);
}

/* ---- Items ------------------------------------------------------------------------------------------------------ */

static int64_t most_items(const tower_stacks *s)
{
    return s->towers->n_sub_u * s->towers->n_sub_v + PARTS;
}

static int most_runs_first(const void *a, const void *b)
{
    const tower_item *x = a, *y = b;
    if (x->n_run != y->n_run) return x->n_run > y->n_run ? -1 : 1;
    if (x->sv != y->sv) return x->sv < y->sv ? -1 : 1;
    if (x->su != y->su) return x->su < y->su ? -1 : 1;
    return (x->w0_begin > y->w0_begin) - (x->w0_begin < y->w0_begin);
}

/*
 * List the items of a tower's share that hold samples, most runs first. Subgrids with a large part of all samples are
 * cut along w to balance the threads. The cuts depend only on the samples.
 * Returned: item [most_items]
 * Returns:  the number of items
 */
static int64_t list_items(const tower_stacks *s, const msi_buckets *buckets, int64_t tower, tower_item *item)
{
    const msi_wgrid_geometry *g = &s->plan->grid;
    const msi_tower_plan *t = s->towers;
    int64_t n_w0 = g->n_w - g->w_width + 1, edge = t->core / g->tile, n = 0;
    int64_t begin = tower * t->height, end = begin + t->height < n_w0 ? begin + t->height : n_w0;
    int64_t enough = buckets->n_run / PARTS > LEAST_RUNS ? buckets->n_run / PARTS : LEAST_RUNS;
    for (int64_t sv = 0; sv < t->n_sub_v; sv++)
        for (int64_t su = 0; su < t->n_sub_u; su++) {
            const int64_t core = (tower * t->n_sub_v + sv) * t->n_sub_u + su;
            if (core < t->first_core || core >= t->end_core) continue;
            tower_item next = {.su = su, .sv = sv, .w0_begin = begin};
            for (int64_t w0 = begin; w0 < end; w0++) {
                for (int64_t tv = sv * edge; tv < (sv + 1) * edge; tv++)
                    next.n_run += count_tile_runs(g, buckets, w0, su * edge, tv, edge);
                if (!next.n_run) next.w0_begin = w0 + 1;
                if (next.n_run < enough) continue;
                next.w0_end = w0 + 1;
                item[n++] = next;
                next = (tower_item){.su = su, .sv = sv, .w0_begin = w0 + 1};
            }
            next.w0_end = end;
            if (next.n_run) item[n++] = next;
        }
    qsort(item, (size_t)n, sizeof *item, most_runs_first);
    return n;
}

/* ---- Gridding --------------------------------------------------------------------------------------------------- */

/* Subgrids for each thread that are summed before they are added to the whole plane together. */
enum { ITEMS_A_THREAD = 4 };

typedef struct tower_cpu {
    const msi_wgrid_geometry *g;
    const msi_tower_plan *towers;
    msi_wgrid_planes whole; /* one plane; row_used: rows that are not zero */
    tower_stacks stacks;
    msi_tile_gridder tiles;
    msi_buckets buckets;
    tower_item *item; /* items of the current tower */
    int64_t n_slot;
    char **slot; /* [n_slot] sums of subgrids, zero between batches */
    double *sum; /* [nx][ny] see msi_image_sum_add */
} tower_cpu;

/* Return the bytes of the part of a whole plane that subgrids cover: at most a core and a margin beyond the samples. */
static int64_t touched_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    return msi_wgrid_plane_touched(plan, towers->core + towers->margin);
}

int64_t msi_wgrid_tower_cpu_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread)
{
    return touched_bytes(plan, towers) + stacks_bytes(plan, towers, n_thread) +
           n_thread * ITEMS_A_THREAD * small_plane_bytes(plan, towers);
}

static int create_gridder(tower_cpu *c, const msi_wgrid_plan *plan, const msi_tower_plan *towers,
                          const msi_vis_store *store)
{
    memset(c, 0, sizeof *c);
    c->g = &plan->grid;
    c->towers = towers;
    MSI_TRY(msi_wgrid_planes_create(&c->whole, plan, 1, touched_bytes(plan, towers)));
    MSI_TRY(create_stacks(&c->stacks, plan, towers));
    MSI_TRY(msi_tile_gridder_create(&c->tiles, plan, c->whole.taps, store, &c->buckets, plan->grid.w_width));
    MSI_TRY(msi_alloc(&c->item, most_items(&c->stacks), sizeof *c->item, "list of subgrids"));
    c->n_slot = c->stacks.n_thread * ITEMS_A_THREAD;
    MSI_TRY(msi_alloc(&c->slot, c->n_slot, sizeof *c->slot, "subgrids"));
    for (int64_t i = 0; i < c->n_slot; i++)
        MSI_TRY(msi_alloc(&c->slot[i], towers->size * c->stacks.pitch, (size_t)c->stacks.cell_bytes, "subgrid"));
    return msi_alloc_work(&c->sum, msi_image_n_pixel(&plan->image), sizeof *c->sum, "image");
}

static void free_gridder(tower_cpu *c)
{
    for (int64_t i = 0; c->slot && i < c->n_slot; i++) msi_free(c->slot[i]);
    msi_free(c->slot);
    msi_free(c->sum);
    msi_free(c->item);
    msi_tile_gridder_free(&c->tiles);
    free_stacks(&c->stacks);
    msi_wgrid_planes_free(&c->whole);
    msi_buckets_free(&c->buckets);
}

/* Grid an item's samples of one first plane. Returns: bits of the rows of tiles with samples */
static uint32_t grid_first_plane(const tower_cpu *c, const tower_item *item, const msi_tile_planes *planes,
                                 int image_plane, int64_t w0)
{
    const msi_wgrid_geometry *g = c->g;
    int64_t edge = c->towers->core / g->tile;
    const msi_ring_step step = {.w0_begin = w0, .w0_end = w0 + 1, .low = w0, .high = w0 + g->w_width};
    uint32_t tile_rows = 0;
    for (int64_t t = 0; t < edge; t++) {
        int64_t tv = item->sv * edge + t;
        if (!count_tile_runs(g, &c->buckets, w0, item->su * edge, tv, edge)) continue;
        tile_rows |= (uint32_t)1 << t;
        for (int64_t tu = item->su * edge; tu < (item->su + 1) * edge && tu < g->n_tile_u; tu++) {
            const msi_tile_work work = {tv * g->n_tile_u + tu, count_tile_runs(g, &c->buckets, w0, tu, tv, 1)};
            if (work.n_run) msi_tile_grid(&c->tiles, planes, image_plane, &work, &step);
        }
    }
    return tile_rows;
}

static void grid_item(const tower_cpu *c, int image_plane, int64_t tower, const tower_item *item, char *sum)
{
    const msi_wgrid_geometry *g = c->g;
    const msi_tower_plan *t = c->towers;
    char **ring = ring_of_thread(&c->stacks);
    uint32_t used[MSI_PSWF_MAX_WIDTH] = {0}; /* rows of tiles that hold samples, of each plane of the ring */
    const msi_tile_planes planes = {.plane = ring,
                                    .n_ring = g->w_width,
                                    .n_row = t->size,
                                    .stride = c->stacks.pitch,
                                    .u_origin = item->su * t->core - g->nu / 2 - g->width - t->margin,
                                    .v_origin = item->sv * t->core - g->nv / 2 - g->width - t->margin};
    for (int64_t p = item->w0_begin; p < item->w0_end + g->w_width - 1; p++) {
        uint32_t tile_rows = p < item->w0_end ? grid_first_plane(c, item, &planes, image_plane, p) : 0;
        for (int k = 0; k < g->w_width; k++) used[(p + k) % g->w_width] |= tile_rows;
        uint32_t *complete = &used[p % g->w_width];
        if (*complete) gather_plane(&c->stacks, ring[p % g->w_width], *complete, p - tower * t->height, sum);
        *complete = 0;
    }
    close_sum(&c->stacks, sum);
}

/* Add n cells of a subgrid's row to the whole plane, and set them to zero. */
static void add_row(const tower_cpu *c, char *from, int64_t n, char *to)
{
    if (c->whole.fp32)
        msi_bucket_simd()->flush_f32((void *)from, 1, n, n, (void *)to, n);
    else
        msi_bucket_simd()->flush_f64((void *)from, 1, n, n, (void *)to, n);
}

/* Add the slots' cells to row r of the whole plane. */
static void add_to_row(const tower_cpu *c, const tower_item *item, int64_t n, int64_t r)
{
    const msi_wgrid_geometry *g = c->g;
    int64_t size = c->towers->size, cell = c->stacks.cell_bytes;
    char *row = msi_plane_cell(&c->whole, c->whole.plane[0], (r + G) * c->whole.stride + G);
    for (int64_t i = 0; i < n; i++) {
        int64_t from = r - msi_tower_origin_v(g, c->towers, item[i].sv);
        if (from < 0) from += g->nv;
        if (from >= size) continue;
        int64_t u = msi_tower_origin_u(g, c->towers, item[i].su), first = g->nu - u < size ? g->nu - u : size;
        char *cells = c->slot[i] + from * c->stacks.pitch * cell;
        add_row(c, cells, first, row + u * cell);
        add_row(c, cells + first * cell, size - first, row);
        c->whole.row_used[r + G] = 1;
    }
}

static int grid_tower(tower_cpu *c, int image_plane, int64_t tower)
{
    int64_t n_item = list_items(&c->stacks, &c->buckets, tower, c->item);
    for (int64_t first = 0; first < n_item; first += c->n_slot) {
        int64_t n = n_item - first < c->n_slot ? n_item - first : c->n_slot;
        const tower_item *item = c->item + first;
#pragma omp parallel num_threads(c->stacks.n_thread)
        {
#pragma omp for schedule(dynamic, 1)
            for (int64_t i = 0; i < n; i++)
                if (!msi_interrupt_signal()) {
                    if (!omp_get_thread_num()) msi_progress_at(first + i, n_item);
                    grid_item(c, image_plane, tower, &item[i], c->slot[i]);
                }
#pragma omp for schedule(static, 16)
            for (int64_t r = 0; r < c->g->nv; r++) add_to_row(c, item, n, r);
        }
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

/* Make one image plane, before correction. */
static int grid_image_plane(void *of, int image_plane, msi_stage_times *times)
{
    tower_cpu *c = of;
    for (int64_t tower = 0; tower < c->towers->n_tower; tower++) {
        double t0 = msi_wall_s();
        msi_progress_share all = msi_progress_enter(2 * tower, 2 * tower + 1, 2 * c->towers->n_tower);
        MSI_TRY(grid_tower(c, image_plane, tower));
        msi_progress_leave(all);
        double t1 = msi_wall_s();
        all = msi_progress_enter(2 * tower + 1, 2 * tower + 2, 2 * c->towers->n_tower);
        msi_image_sum_add(&c->whole, c->whole.plane[0], c->whole.row_used, msi_tower_w(c->g, c->towers, tower), c->sum);
        msi_progress_leave(all);
        times->grid_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        MSI_TRY(msi_interrupt_check());
    }
    return MSI_OK;
}

int msi_wgrid_tower_cpu_image(const msi_wgrid_plan *plan, const msi_tower_plan *towers, const msi_vis_store *store,
                              const int *store_plane, msi_image *image, msi_stage_times *times)
{
    tower_cpu c;
    int rc = create_gridder(&c, plan, towers, store);
    const msi_plane_imager imager = {&c.whole, &c.buckets, c.sum, grid_image_plane, &c};
    if (!rc) rc = msi_image_sum_make(&imager, store, store_plane, image, times);
    free_gridder(&c);
    return rc;
}

/* ---- Degridding ------------------------------------------------------------------------------------------------- */

typedef struct tower_degridder {
    const msi_wgrid_geometry *g;
    msi_tower_plan towers;
    msi_model_planes model; /* a plane for each tower */
    tower_stacks stacks;
    tower_item *item;    /* items of the current tower */
    uint32_t *tile_rows; /* [n_thread][height] rows of tiles of the current item that have samples of a first plane */

    /* These members belong to one call. */
    msi_vis_store *store;
    msi_buckets buckets;
} tower_degridder;

int64_t msi_wgrid_tower_cpu_predict_bytes(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int n_thread,
                                          int64_t n_plane)
{
    return (n_plane == 1 ? touched_bytes(plan, towers) : n_plane * msi_wgrid_plane_bytes(plan)) +
           stacks_bytes(plan, towers, n_thread);
}

static int create_degridder(tower_degridder **out, const msi_wgrid_plan *plan, const msi_tower_plan *towers,
                            int n_image, int keeps)
{
    tower_degridder *d;
    MSI_TRY(msi_alloc(&d, 1, sizeof *d, "degridder"));
    *out = d;
    d->g = &plan->grid;
    d->towers = *towers;
    MSI_TRY(msi_model_planes_create(&d->model, plan, n_image, towers->n_tower, 1, keeps, touched_bytes(plan, towers)));
    MSI_TRY(create_stacks(&d->stacks, plan, &d->towers));
    MSI_TRY(msi_alloc(&d->item, most_items(&d->stacks), sizeof *d->item, "list of subgrids"));
    return msi_alloc(&d->tile_rows, d->stacks.n_thread * towers->height, sizeof *d->tile_rows, "list of tiles");
}

void msi_wgrid_tower_cpu_free_model(void *model_cache)
{
    tower_degridder *d = model_cache;
    if (!d) return;
    msi_model_planes_free(&d->model);
    free_stacks(&d->stacks);
    msi_free(d->item);
    msi_free(d->tile_rows);
    msi_free(d);
}

/* Copy an item's subgrid out of its tower's plane. */
static void cut_subgrid(const tower_degridder *d, const tower_item *item, const char *plane, char *cut)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t size = d->towers.size, cell = d->stacks.cell_bytes;
    int64_t u = msi_tower_origin_u(g, &d->towers, item->su), v = msi_tower_origin_v(g, &d->towers, item->sv);
    int64_t first = g->nu - u < size ? g->nu - u : size;
    for (int64_t r = 0; r < size; r++) {
        const char *row = plane + (((v + r) % g->nv + G) * d->model.planes.stride + G) * cell;
        char *to = cut + r * d->stacks.pitch * cell;
        memcpy(to, row + u * cell, (size_t)(first * cell));
        memcpy(to + first * cell, row, (size_t)((size - first) * cell));
    }
}

/* Degrid an item's samples of one first plane. */
static void degrid_first_plane(const tower_degridder *d, int image, const tower_item *item, int64_t w0,
                               uint32_t tile_rows, char *const *ring)
{
    const msi_wgrid_geometry *g = d->g;
    int64_t edge = d->towers.core / g->tile, to_middle = g->tile / 2 + g->width / 2;
    for (int64_t t = 0; t < edge; t++)
        for (int64_t s = 0; s < edge && tile_rows >> t & 1; s++) {
            int64_t tu = item->su * edge + s, tv = item->sv * edge + t;
            if (tu == g->n_tile_u) break;
            const int64_t *start = d->buckets.start + msi_bucket_of(g, w0, tv * g->n_tile_u + tu);
            if (start[0] == start[1]) continue;
            msi_grid_source source = {.end_tap = g->w_width,
                                      .w0 = (int32_t)w0,
                                      .stride = d->stacks.pitch,
                                      .u_offset = d->towers.margin + s * g->tile + to_middle,
                                      .v_offset = d->towers.margin + t * g->tile + to_middle,
                                      .u_middle = (double)(tu * g->tile - g->nu / 2 - g->width + to_middle),
                                      .v_middle = (double)(tv * g->tile - g->nv / 2 - g->width + to_middle),
                                      .reach = 0.5 * g->tile + 1};
            for (int k = 0; k < g->w_width; k++) source.plane[k] = ring[(w0 + k) % g->w_width];
            msi_span span = {g,     d->store, d->model.planes.taps, d->buckets.run + start[0], start[1] - start[0],
                             image, 0};
            (d->stacks.fp32 ? d->stacks.simd->degrid_f32 : d->stacks.simd->degrid_f64)(&span, &source);
        }
}

static void degrid_item(const tower_degridder *d, int image, int64_t tower, const tower_item *item, const char *plane)
{
    const msi_wgrid_geometry *g = d->g;
    char **ring = ring_of_thread(&d->stacks), *open = ring[g->w_width];
    int64_t edge = d->towers.core / g->tile, made = 0; /* planes below `made` are made, or not needed */
    uint32_t *tile_rows = d->tile_rows + omp_get_thread_num() * d->towers.height;
    for (int64_t w0 = item->w0_begin; w0 < item->w0_end; w0++) {
        uint32_t rows = 0;
        for (int64_t t = 0; t < edge; t++)
            if (count_tile_runs(g, &d->buckets, w0, item->su * edge, item->sv * edge + t, edge))
                rows |= (uint32_t)1 << t;
        tile_rows[w0 - item->w0_begin] = rows;
    }
    cut_subgrid(d, item, plane, open);
    open_subgrid(&d->stacks, open);
    for (int64_t w0 = item->w0_begin; w0 < item->w0_end; w0++) {
        if (!tile_rows[w0 - item->w0_begin]) continue;
        for (int64_t p = made > w0 ? made : w0; p < w0 + g->w_width; p++) {
            uint32_t rows = 0;
            for (int64_t of = w0; of <= p && of < item->w0_end; of++) rows |= tile_rows[of - item->w0_begin];
            spread_plane(&d->stacks, open, rows, p - tower * d->towers.height, ring[p % g->w_width]);
        }
        made = w0 + g->w_width;
        degrid_first_plane(d, image, item, w0, tile_rows[w0 - item->w0_begin], ring);
    }
}

/* Mark the rows of the whole plane that a tower's subgrids need. */
static void want_rows(tower_degridder *d, int64_t n_item)
{
    const msi_wgrid_geometry *g = d->g;
    memset(d->model.wanted, 0, (size_t)d->model.planes.n_row);
    for (int64_t i = 0; i < n_item; i++)
        for (int64_t r = 0, v = msi_tower_origin_v(g, &d->towers, d->item[i].sv); r < d->towers.size; r++)
            d->model.wanted[(v + r) % g->nv + G] = 1;
}

static int degrid_tower(tower_degridder *d, int image, int64_t tower, msi_stage_times *times)
{
    double t0 = msi_wall_s();
    int64_t n_item = list_items(&d->stacks, &d->buckets, tower, d->item);
    want_rows(d, n_item);
    msi_progress_share all = msi_progress_enter(0, 1, 4);
    if (n_item && !d->model.keeps)
        msi_model_planes_fill(&d->model, image, tower, msi_tower_w(d->g, &d->towers, tower), 1);
    msi_progress_leave(all);
    all = msi_progress_enter(1, 2, 4);
    if (n_item) msi_model_planes_finish(&d->model, image, tower);
    msi_progress_leave(all);
    double t1 = msi_wall_s();
    const char *plane = d->model.planes.plane[msi_model_plane_number(&d->model, image, tower)];
    all = msi_progress_enter(2, 4, 4);
#pragma omp parallel for schedule(dynamic, 1) num_threads(d->stacks.n_thread)
    for (int64_t i = 0; i < n_item; i++) {
        if (msi_interrupt_signal()) continue;
        if (!omp_get_thread_num()) msi_progress_at(i, n_item);
        degrid_item(d, image, tower, &d->item[i], plane);
    }
    msi_progress_leave(all);
    times->transform_s += t1 - t0;
    times->grid_s += msi_wall_s() - t1;
    return msi_interrupt_check();
}

static int degrid_image(tower_degridder *d, int image, msi_stage_times *times)
{
    if (!d->model.image_used[image]) msi_vis_store_zero(d->store, image);
    for (int64_t tower = 0; d->model.image_used[image] && tower < d->towers.n_tower; tower++) {
        const msi_progress_share all = msi_progress_enter(tower, tower + 1, d->towers.n_tower);
        MSI_TRY(degrid_tower(d, image, tower, times));
        msi_progress_leave(all);
    }
    return MSI_OK;
}

/* Sort the samples, then degrid one image after the other. */
static int degrid_store(tower_degridder *d, msi_vis_store *store, const msi_image *model, int is_new,
                        msi_stage_times *times)
{
    double t0 = msi_wall_s();
    d->store = store;
    const int n_part = 1 + MSI_PLANE_PARTS * d->model.n_image;
    msi_progress_share all = msi_progress_enter(0, 1, n_part);
    int rc = msi_bucket_sort(&d->buckets, store, d->g);
    msi_progress_leave(all);
    times->sort_s += msi_wall_s() - t0;
    for (int image = 0; !rc && image < d->model.n_image; image++) {
        t0 = msi_wall_s();
        if (is_new) msi_model_planes_load(&d->model, model, image);
        double t1 = msi_wall_s();
        const int part = 1 + MSI_PLANE_PARTS * image;
        all = msi_progress_enter(part, part + 2, n_part);
        for (int64_t t = 0; is_new && d->model.keeps && d->model.image_used[image] && t < d->towers.n_tower; t++) {
            const msi_progress_share planes = msi_progress_enter(t, t + 1, d->towers.n_tower);
            msi_model_planes_fill(&d->model, image, t, msi_tower_w(d->g, &d->towers, t), 0);
            msi_progress_leave(planes);
        }
        msi_progress_leave(all);
        times->correct_s += t1 - t0;
        times->transform_s += msi_wall_s() - t1;
        all = msi_progress_enter(part + 2, part + MSI_PLANE_PARTS, n_part);
        rc = degrid_image(d, image, times);
        msi_progress_leave(all);
    }
    msi_buckets_free(&d->buckets);
    if (d->model.keeps) msi_model_planes_free_image(&d->model);
    return rc;
}

int msi_wgrid_tower_cpu_predict(const msi_wgrid_plan *plan, const msi_tower_plan *towers, msi_vis_store *store,
                                const msi_image *model, int keeps, void **model_cache, msi_stage_times *times)
{
    tower_degridder *d = model_cache ? *model_cache : NULL;
    int rc = MSI_OK, is_new = !d;
    if (is_new) rc = create_degridder(&d, plan, towers, model->n_plane, model_cache && keeps);
    if (!rc) rc = degrid_store(d, store, model, is_new, times);
    int stays = !rc && d->model.keeps;
    if (model_cache) *model_cache = stays ? d : NULL;
    if (!stays) msi_wgrid_tower_cpu_free_model(d);
    return rc;
}
