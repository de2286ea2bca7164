/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/towers/tower_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/transform/fft_cpu.h"

/* N_SPECTRUM: length of the spectra in which spread samples are computed. N_HEIGHT: largest number of heights that are
 * measured; each is about an eighth larger than the one before. MOST_MARGIN: largest margin in cells. */
enum { N_SPECTRUM = 1024, N_HEIGHT = 48, MOST_MARGIN = 256 };

/* Largest |direction cosine| of images with towers. Nearer to the horizon the gradients of screens need too large
 * margins. */
static const double FARTHEST = 0.95;

/*
 * Compute the tail of the binomial distribution: the probability that more than k of n trials with probability t
 * succeed. As a function of t it is a smooth step from 0 to 1, flat at both ends.
 */
static double binomial_tail(double t, int n, int k)
{
    double term = pow(1 - t, n), below = term, ratio = t / (1 - t);
    if (t > 0.5) return 1 - binomial_tail(1 - t, n, n - k - 1);
    for (int i = 1; i <= k; i++) {
        term *= ratio * (n - i + 1) / i;
        below += term;
    }
    return 1 - below;
}

/* Compute the integral from 0 to t of a step from 1 to 0 whose `order` derivatives are zero at 0 and 1. */
static double integral_of_step(double t, int order)
{
    return t - t * binomial_tail(t, 2 * order + 1, order) + 0.5 * binomial_tail(t, 2 * order + 2, order + 1);
}

double msi_tower_bend(double x, double image, double field_rad, int order)
{
    double edge = 0.5 * image, beyond = 0.5 - edge, a = fabs(x);
    if (a <= edge) return x * field_rad;
    double straight = integral_of_step(fmin((a - edge) / beyond, 1), order);
    return copysign((edge + beyond * straight) * field_rad, x);
}

double msi_tower_return(double x, double image, double field_rad, int order)
{
    double edge = 0.5 * image, beyond = 0.5 - edge, a = fabs(x);
    if (a <= edge) return x * field_rad;
    /* The slope falls from 1 to 1 - fall, so that the integral ends at 0. */
    double t = fmin((a - edge) / beyond, 1), fall = 2 * (1 + edge / beyond);
    return copysign((edge + beyond * (t - fall * (t - integral_of_step(t, order)))) * field_rad, x);
}

/* ---- Screens ---------------------------------------------------------------------------------------------------- */

static int is_centred(const msi_wgrid_geometry *g)
{
    return g->l_center_rad == 0 && g->m_center_rad == 0;
}

/* Compute the direction cosine of a position in the padded field, relative to the middle of the image. n - 1 must be
 * periodic. If it is even, directions may level off; otherwise they must return to 0. */
static double bent(const msi_wgrid_geometry *g, double x, double image, double field_rad, int order)
{
    return (is_centred(g) ? msi_tower_bend : msi_tower_return)(x, image, field_rad, order);
}

static double bent_u(const msi_wgrid_plan *plan, double x, int order)
{
    double nu = (double)plan->grid.nu;
    return bent(&plan->grid, x, (double)plan->image.nx / nu, nu * plan->image.cell_x_rad, order);
}

static double bent_v(const msi_wgrid_plan *plan, double y, int order)
{
    double nv = (double)plan->grid.nv;
    return bent(&plan->grid, y, (double)plan->image.ny / nv, nv * plan->image.cell_y_rad, order);
}

/* Return the largest |direction cosine| of the image along an axis. */
static double farthest(double center, int64_t n, double cell_rad)
{
    return fabs(center) + 0.5 * (double)n * cell_rad;
}

/*
 * Continue n - 1 beyond the image. Bent directions beyond the farthest corner may be below the horizon, so the Taylor
 * series in l^2 + m^2 around this corner is used, with four derivatives.
 */
static double continued_n(const msi_wgrid_plan *plan, double l, double m)
{
    const msi_image_geometry *image = &plan->image;
    double corner_l = farthest(plan->grid.l_center_rad, image->nx, image->cell_x_rad),
           corner_m = farthest(plan->grid.m_center_rad, image->ny, image->cell_y_rad);
    double far = corner_l * corner_l + corner_m * corner_m, beyond = l * l + m * m - far;
    if (beyond <= 0) return msi_n_minus_1(l, m);
    double n = sqrt(1 - far), t = beyond / (1 - far);
    /* sqrt(1 - t) = 1 - t/2 - t^2/8 - t^3/16 - 5 t^4/128 .. */
    return msi_n_minus_1(corner_l, corner_m) - n * t * (0.5 + t * (0.125 + t * (0.0625 + t * 0.0390625)));
}

double msi_tower_n(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int32_t i, int32_t j)
{
    double l = bent_u(plan, (double)i / towers->size, towers->bend_order);
    double m = bent_v(plan, (double)j / towers->size, towers->bend_order);
    return continued_n(plan, l, m) - plan->grid.n_mid;
}

/* Find the screen's value at a pixel. */
static msi_c64 screen_value(const msi_wgrid_plan *plan, double dw, double scale, double l, double m)
{
    double turns = dw * (continued_n(plan, l, m) - plan->grid.n_mid);
    turns -= rint(turns);
    return (msi_c64){scale * cos(2 * MSI_PI * turns), -scale * sin(2 * MSI_PI * turns)};
}

static void set_screen(void *screen, msi_precision precision, int64_t at, msi_c64 value)
{
    if (precision == MSI_FP32)
        ((msi_c32 *)screen)[at] = (msi_c32){(float)value.re, (float)value.im};
    else
        ((msi_c64 *)screen)[at] = value;
}

int32_t msi_tower_screen_rows(const msi_wgrid_plan *plan, const msi_tower_plan *towers)
{
    return is_centred(&plan->grid) ? towers->size / 2 + 1 : towers->size;
}

void msi_tower_screen(const msi_wgrid_plan *plan, const msi_tower_plan *towers, int k, void *screen)
{
    const msi_wgrid_geometry *g = &plan->grid;
    int32_t size = towers->size, n_row = msi_tower_screen_rows(plan, towers);
    double l[MSI_TOWER_MAX_SIZE], scale = 1 / ((double)size * size);
    double dw = (k - 0.5 * (towers->n_plane - 1)) * g->w_step;
    /* Frequency i of a forward transform corresponds to pixel nx/2 + i, at l = center - i cell; row j to m = center + j
     * cell. Indices beyond size/2 are negative frequencies. */
    for (int32_t i = 0; i < size; i++)
        l[i] = g->l_center_rad - bent_u(plan, (double)(i <= size / 2 ? i : i - size) / size, towers->bend_order);
    for (int32_t j = 0; j < n_row; j++) {
        double m = g->m_center_rad + bent_v(plan, (double)(j <= size / 2 ? j : j - size) / size, towers->bend_order);
        int64_t row = (int64_t)j * size;
        if (n_row == size) {
            for (int32_t i = 0; i < size; i++)
                set_screen(screen, plan->precision, row + i, screen_value(plan, dw, scale, l[i], m));
            continue;
        }
        for (int32_t i = 0; i <= size / 2; i++) {
            msi_c64 value = screen_value(plan, dw, scale, l[i], m);
            set_screen(screen, plan->precision, row + i, value);
            set_screen(screen, plan->precision, row + (size - i) % size, value);
        }
    }
}

/* ---- Margins that screens need ---------------------------------------------------------------------------------- */

/* One axis of the padded field, at a position across it. */
typedef struct field_axis {
    double field_rad, image; /* size of the field; fraction of the field that the image covers */
    double center_rad;       /* direction cosine of its middle */
    double across_rad;       /* direction cosine along the other axis */
} field_axis;

/* The margins that towers of some heights need, both ascending. */
typedef struct reach {
    int n;
    int32_t height[N_HEIGHT];
    int margin[N_HEIGHT];
} reach;

/*
 * The sample with the largest error: its footprint ends at the edge of a core, and its w is half a plane beyond the
 * middle of the first w_width planes of a tower. The struct describes it along one axis, from the middle of the field
 * to the edge, or over the whole field if the field is not even around its middle.
 */
typedef struct seam {
    const msi_wgrid_plan *plan;
    const field_axis *axis;
    int order;
    int n; /* number of positions: half of the field from the middle on, or all of it */
    const msi_fft1d *fft;
    double taper[N_SPECTRUM];
    double per_plane[N_SPECTRUM]; /* phase step of the screen from one plane to the next, in turns */
    msi_c64 back[N_SPECTRUM];     /* exp(-2 pi i per_plane) */
    double size2[N_SPECTRUM];     /* squared amplitude of the exact sample at each position */
    msi_c64 spread[N_SPECTRUM];   /* cells of the sample; index 0 is the middle of the footprint */
    msi_c64
        tail[N_SPECTRUM]; /* cells that are missing. Both arrays are aligned for transforms: the allocator aligns the
                             struct, and all sizes are even */
} seam;

/* Find exp(2 pi i turns). */
static msi_c64 turn_by(double turns)
{
    turns -= rint(turns);
    return (msi_c64){cos(2 * MSI_PI * turns), sin(2 * MSI_PI * turns)};
}

/* Set the members that are the same for all heights: n, taper (the transform of the window around a sample on a cell),
 * per_plane and back. */
static void begin_seam(seam *s)
{
    const msi_pswf *window = &s->plan->window;
    const msi_wgrid_geometry *g = &s->plan->grid;
    int half = window->width / 2;
    s->n = is_centred(g) ? N_SPECTRUM / 2 + 1 : N_SPECTRUM;
    for (int j = 0; j < s->n; j++) {
        const double at = (double)(j <= N_SPECTRUM / 2 ? j : j - N_SPECTRUM) / N_SPECTRUM;
        double l = s->axis->center_rad + bent(g, at, s->axis->image, s->axis->field_rad, s->order);
        s->per_plane[j] = g->w_step * (continued_n(s->plan, l, s->axis->across_rad) - g->n_mid);
        s->back[j] = turn_by(-s->per_plane[j]);
    }
    /* The window is even, and so is its transform. */
    for (int j = 0; j < N_SPECTRUM; j++) s->taper[j] = msi_pswf_value(window, 0);
    for (int a = 1; a <= half; a++) {
        const double value = 2 * msi_pswf_value(window, a);
        for (int j = 0; j <= N_SPECTRUM / 2; j++) s->taper[j] += value * cos(2 * MSI_PI * a * j / N_SPECTRUM);
    }
    for (int j = N_SPECTRUM / 2 + 1; j < N_SPECTRUM; j++) s->taper[j] = s->taper[N_SPECTRUM - j];
}

/* Set size2 and spread for a tower's height. */
static void spread_seam(seam *s, int32_t height)
{
    const msi_wgrid_geometry *g = &s->plan->grid;
    double end = 0.5 * (height + g->w_width - 2),
           tap[MSI_PSWF_MAX_WIDTH]; /* end: number of planes from the middle to the first plane */
    for (int k = 0; k < g->w_width; k++) tap[k] = msi_pswf_value(&s->plan->w_window, k + 1 - 0.5 * g->w_width);
    for (int j = 0; j < s->n; j++) {
        msi_c64 turn = turn_by(end * s->per_plane[j]), back = s->back[j];
        double sum[2] = {0};
        for (int k = 0; k < g->w_width; k++) {
            sum[0] += tap[k] * turn.re;
            sum[1] += tap[k] * turn.im;
            turn = (msi_c64){turn.re * back.re - turn.im * back.im, turn.re * back.im + turn.im * back.re};
        }
        s->spread[j] = (msi_c64){s->taper[j] * sum[0], s->taper[j] * sum[1]};
        if (s->n < N_SPECTRUM) s->spread[(N_SPECTRUM - j) % N_SPECTRUM] = s->spread[j];
        s->size2[j] = s->taper[j] * s->taper[j] * (sum[0] * sum[0] + sum[1] * sum[1]);
    }
    msi_fft1d_run(s->fft, s->spread);
}

/* Estimate the image's largest squared error if cells from `first` on are missing. Given: backward  1: use cells at -1,
 * -2, .. from the footprint's middle */
static double tail_error2(seam *s, int first, int backward)
{
    const int edge = (int)(s->axis->image * N_SPECTRUM / 2);
    double worst2 = 0;
    memset(s->tail, 0, sizeof s->tail);
    for (int i = first; i < N_SPECTRUM / 2; i++) {
        const int at = backward ? N_SPECTRUM - i : i;
        s->tail[at] = s->spread[at];
    }
    msi_fft1d_run(s->fft, s->tail);
    /* Two forward transforms reverse the order: position j is at -j. */
    for (int j = -edge; j <= edge; j++) {
        const msi_c64 *t = &s->tail[(N_SPECTRUM - j) % N_SPECTRUM];
        const int at = s->n < N_SPECTRUM ? abs(j) : (j + N_SPECTRUM) % N_SPECTRUM;
        worst2 = fmax(worst2, (t->re * t->re + t->im * t->im) / s->size2[at]);
    }
    return worst2;
}

/* Estimate the image's largest error if cells from `first` on wrap around: they are missing at one end of the subgrid,
 * and added at the wrong place at the other. */
static double seam_error(seam *s, int first)
{
    double worst2 = tail_error2(s, first, 0);
    if (s->n == N_SPECTRUM) worst2 = fmax(worst2, tail_error2(s, first, 1));
    return 2 * sqrt(worst2) / N_SPECTRUM;
}

/* Find the margins that towers need along an axis, for all heights, at one position across it. */
static void measure_axis(int *margin, const reach *r, seam *s, double tolerance)
{
    int half = s->plan->grid.width / 2, least = 1;
    for (int i = 0; i < r->n; i++) {
        spread_seam(s, r->height[i]);
        while (least < MOST_MARGIN && seam_error(s, half + least) > tolerance) least++;
        margin[i] = least;
    }
}

static int measure_reach(reach *r, const msi_wgrid_plan *plan, double tolerance, int order)
{
    enum { MOST_AXIS = 6 };
    const msi_image_geometry *image = &plan->image;
    const msi_wgrid_geometry *g = &plan->grid;
    const double l = 0.5 * (double)image->nx * image->cell_x_rad, m = 0.5 * (double)image->ny * image->cell_y_rad;
    field_axis axis[MOST_AXIS];
    int margin[MOST_AXIS][N_HEIGHT], n_axis = 0;
    /* Measure both axes at the middle of the image and at its edges. If the image is centred, both edges are the
     * same. */
    for (int side = is_centred(g) ? 0 : -1; side <= 1; side++) {
        axis[n_axis++] = (field_axis){(double)g->nu * image->cell_x_rad, (double)image->nx / (double)g->nu,
                                      g->l_center_rad, g->m_center_rad + side * m};
        axis[n_axis++] = (field_axis){(double)g->nv * image->cell_y_rad, (double)image->ny / (double)g->nv,
                                      g->m_center_rad, g->l_center_rad + side * l};
    }
    memset(r, 0, sizeof *r);
    for (int32_t height = 1; height <= g->n_w - g->w_width + 1 && r->n < N_HEIGHT; height += 1 + height / 8)
        r->height[r->n++] = height;
    seam *s;
    msi_fft1d *fft = NULL;
    MSI_TRY(msi_alloc(&s, n_axis, sizeof *s, "w-tower plan"));
    int rc = msi_fft1d_create(&fft, N_SPECTRUM, MSI_FP64);
#pragma omp parallel for schedule(static, 1) if (!rc)
    for (int i = 0; i < (rc ? 0 : n_axis); i++) {
        s[i].plan = plan;
        s[i].order = order;
        s[i].fft = fft;
        s[i].axis = &axis[i];
        begin_seam(&s[i]);
        measure_axis(margin[i], r, &s[i], tolerance);
    }
    for (int i = 0; !rc && i < n_axis; i++)
        for (int k = 0; k < r->n; k++) r->margin[k] = margin[i][k] > r->margin[k] ? margin[i][k] : r->margin[k];
    msi_fft1d_free(fft);
    msi_free(s);
    return rc;
}

/* Return the largest number of first planes of a tower with this margin; 0: no tower is possible. */
static int32_t most_height(const reach *r, int margin)
{
    int32_t height = 0;
    for (int i = 0; i < r->n && r->margin[i] <= margin && r->margin[i] < MOST_MARGIN; i++) height = r->height[i];
    return height;
}

/* ---- Costs ------------------------------------------------------------------------------------------------------- */

static double fft_flop(double cells)
{
    return 5 * cells * log2(cells);
}

/* Estimate the seconds of planes, subgrids and towers. */
static void cost_parts(msi_tower_plan *t, const msi_wgrid_plan *plan, const msi_cost_model *whole,
                       const msi_tower_cost *cost)
{
    const msi_wgrid_geometry *g = &plan->grid;
    double cells = (double)t->size * t->size, filled = (double)(t->core + g->width - 1) / t->size;
    double full_cells = (double)g->nu * (double)g->nv, kept = 0.5 * (1 + (double)plan->image.nx / (double)g->nu);
    double full = cost->whole_flop_s > 0 ? fft_flop(full_cells) * kept / cost->whole_flop_s
                                         : fft_flop(full_cells) * kept / whole->fft_flop_s +
                                               (double)msi_image_n_pixel(&plan->image) * whole->pixel_s;
    double small_fft = fft_flop(cells) / cost->fft_flop_s, bytes = cells * (plan->precision == MSI_FP32 ? 8 : 16);
    double small = cells * (cost->cell_s + (bytes > (double)cost->near_bytes ? cost->far_cell_s : 0));
    t->plane_s = small_fft * 0.5 * (1 + filled) + small + cells * filled * cost->filled_s;
    t->subgrid_s = small_fft + small + cost->subgrid_s;
    t->tower_s = full + cost->tower_s;
}

static double towers_cost(const msi_tower_plan *t, const msi_wgrid_plan *plan, const msi_tower_load *load)
{
    int32_t edge = t->core / plan->grid.tile;
    /* A subgrid's planes at the border of two towers belong to both. */
    double planes = load->n_plane[edge] * (1 + (plan->grid.w_width - 1.0) / t->height);
    double subgrids = fmin(load->n_subgrid[edge] * t->n_tower, load->n_subgrid[edge] + planes / t->n_plane);
    return planes * t->plane_s + subgrids * t->subgrid_s + t->n_tower * t->tower_s + plan->sample_cost_s;
}

/* Set the margin, height and numbers of towers for a size and a core. Returns: 0 if no tower is possible */
static int lay_towers(msi_tower_plan *t, const msi_wgrid_geometry *g, const reach *r, int32_t size, int32_t core)
{
    int32_t n_w0 = g->n_w - g->w_width + 1;
    *t = (msi_tower_plan){.size = size,
                          .core = core,
                          .margin = (size - core - g->width + 1) / 2,
                          .n_sub_u = (g->n_tile_u * g->tile + core - 1) / core,
                          .n_sub_v = (g->n_tile_v * g->tile + core - 1) / core};
    if (size > g->nu || size > g->nv || t->margin < 1) return 0;
    int32_t height = most_height(r, t->margin);
    if (height < 1) return 0;
    t->n_tower = (n_w0 + height - 1) / height;
    t->height = (n_w0 + t->n_tower - 1) / t->n_tower;
    t->n_plane = t->height + g->w_width - 1;
    return 1;
}

/* Choose the order of the bend. Smaller errors need a smoother bend; measured optima are 4 at 5e-5, and 9 at 5e-9. */
static int bend_order(double tolerance)
{
    double order = ceil(-log10(tolerance));
    return order < 3 ? 3 : order > 14 ? 14 : (int)order;
}

int msi_tower_plan_make(msi_tower_plan *out, const msi_wgrid_plan *plan, double error, const msi_tower_load *load,
                        const msi_cost_model *whole, const msi_tower_cost *cost)
{
    const msi_wgrid_geometry *g = &plan->grid;
    double tolerance = error / sqrt(2);
    int order = bend_order(tolerance);
    double l = farthest(g->l_center_rad, plan->image.nx, plan->image.cell_x_rad);
    double m = farthest(g->m_center_rad, plan->image.ny, plan->image.cell_y_rad);
    if (g->w_width == 1)
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "strategy: w is negligible in this field, so w-towers are not possible"),
            "w_width");
    if (!is_centred(g) && !cost->off_centre)
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "strategy: w-towers of a GPU need an image centred on the phase centre"),
            "strategy");
    if (hypot(l, m) > FARTHEST)
        return msi_error_about(
            msi_error_set(MSI_ERANGE, "strategy: this field reaches too near the horizon for w-towers"), "strategy");
    reach r;
    MSI_TRY(measure_reach(&r, plan, tolerance, order));
    memset(out, 0, sizeof *out);
    out->cost_s = HUGE_VAL;
    for (int i = 0; i < cost->n_size; i++)
        for (int32_t edge = 1; edge <= MSI_TOWER_MAX_CORE_TILES; edge++) {
            msi_tower_plan t;
            if (!lay_towers(&t, g, &r, cost->size[i], edge * g->tile)) continue;
            t.error = error;
            t.bend_order = order;
            cost_parts(&t, plan, whole, cost);
            t.cost_s = towers_cost(&t, plan, load);
            if (t.cost_s < out->cost_s) *out = t;
        }
    if (!out->size)
        return msi_error_about(msi_error_set(MSI_ERANGE, "strategy: no subgrid can hold a w-tower of this field"),
                               "strategy");
    out->end_core = out->n_tower * out->n_sub_u * out->n_sub_v;
    return MSI_OK;
}

/* ---- Load -------------------------------------------------------------------------------------------------------- */

/* Numbers of samples that are examined: one in ONE_IN, but at least LEAST_EXAMINED and at most MOST_EXAMINED. Examining
 * more takes longer than a better plan saves. Shares need up to MOST_FOR_SHARES, because fewer would miss neighbouring
 * subgrids with few samples. */
enum { MOST_EXAMINED = 500000, MOST_FOR_SHARES = 8 * MOST_EXAMINED, LEAST_EXAMINED = 50000, ONE_IN = 8 };

/* The position of a sample. */
typedef struct place {
    int32_t tile, w0;
} place;

/* The tiles that hold samples, and their first w-planes. */
typedef struct occupancy {
    const msi_wgrid_geometry *g;
    int64_t n_word; /* words of 64 first planes */
    int64_t n_used;
    int32_t *number; /* [tile] 1 .. n_used in the order of tiles; 0: no samples */
    int32_t *tile;   /* [n_used] */
    uint64_t *bit;   /* [n_used][n_word] */
} occupancy;

/* The choice of samples that are examined. Rows are chosen by a hash, because rows of one baseline have regular
 * distances. The costs of towers were fitted with independently chosen rows. */
typedef struct choice {
    const msi_wgrid_geometry *g;
    const msi_vis_store *store;
    int64_t thin;
} choice;

static choice choose_samples(const msi_wgrid_geometry *g, const msi_vis_store *store, int64_t most)
{
    int64_t n = store->n_sample / ONE_IN;
    n = n > most ? most : n < LEAST_EXAMINED ? LEAST_EXAMINED : n;
    return (choice){g, store, 1 + store->n_sample / n};
}

/* Return the distance of chosen channels of a row (channel_step), or the mean distance of chosen rows of a segment
 * (row_step). */
static int64_t channel_step(const choice *c, const msi_vis_segment *s)
{
    return c->thin < s->n_chan ? c->thin : s->n_chan;
}

static int64_t row_step(const choice *c, const msi_vis_segment *s)
{
    const int64_t step = channel_step(c, s);
    return (c->thin + step - 1) / step;
}

/* Return an upper limit of the number of chosen samples of a segment: the expected number plus eight standard
 * deviations. Samples beyond the limit, which occur with a probability of 1e-15, are left out. */
static int64_t most_chosen(const choice *c, int64_t segment)
{
    const msi_vis_segment *s = &c->store->segment[segment];
    if (!s->n_row || !s->n_chan) return 0;
    const int64_t rows = s->n_row / row_step(c, s) + 1, most = rows + (int64_t)(8 * sqrt((double)rows)) + 8;
    return (most < s->n_row ? most : s->n_row) * ((s->n_chan - 1) / channel_step(c, s) + 1);
}

/* Find the positions of a segment's chosen samples, at most `most`. Returns: their number */
static int64_t find_segment_places(const choice *c, int64_t segment, int64_t most, place *out)
{
    const msi_vis_segment *s = &c->store->segment[segment];
    const int is_any = c->store->coordinates;
    if (!s->n_chan) return 0;
    const int64_t next_row = row_step(c, s), next_channel = channel_step(c, s);
    const int64_t of_row = (s->n_chan - 1) / next_channel + 1;
    int64_t n = 0;
    for (int64_t row = 0; row < s->n_row && n + of_row <= most; row++) {
        const uint64_t hash = (uint64_t)(segment * MSI_SEGMENT_ROWS + row + 1) * 0x9e3779b97f4a7c15u;
        /* Choose one row in next_row. A multiplication replaces the division, because every row is tested. */
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
    run *runs; /* [n_segment] of the positions */
    int64_t most = 0;
    MSI_TRY(msi_alloc(&runs, n_segment, sizeof *runs, "w-tower plan"));
    for (int64_t i = 0; i < n_segment; most += most_chosen(c, i++)) runs[i].first = most;
    int rc = msi_alloc(out, most + 1, sizeof **out, "w-tower plan");
    if (!rc) {
        place *at = *out;
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < n_segment; i++) {
            const int64_t end = i + 1 < n_segment ? runs[i + 1].first : most;
            runs[i].n = find_segment_places(c, i, end - runs[i].first, at + runs[i].first);
        }
        *n_place = 0;
        for (int64_t i = 0; i < n_segment; *n_place += runs[i++].n)
            if (runs[i].first > *n_place) memmove(at + *n_place, at + runs[i].first, (size_t)runs[i].n * sizeof *at);
    }
    msi_free(runs);
    return rc;
}

static void mark_tiles(const occupancy *o, const place *p, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) __atomic_store_n(&o->number[p[i].tile], 1, __ATOMIC_RELAXED);
}

/* Set a bit atomically. Most bits are set already, so test first. */
static void set_bit(uint64_t *bits, int64_t k)
{
    const uint64_t bit = (uint64_t)1 << k % 64;
    if (!(__atomic_load_n(&bits[k / 64], __ATOMIC_RELAXED) & bit))
        __atomic_fetch_or(&bits[k / 64], bit, __ATOMIC_RELAXED);
}

static void mark_planes(const occupancy *o, const place *p, int64_t n)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) set_bit(&o->bit[(o->number[p[i].tile] - 1) * o->n_word], p[i].w0);
}

static int find_occupancy(occupancy *o, const place *p, int64_t n)
{
    int64_t n_tile = o->g->n_tile_u * o->g->n_tile_v;
    MSI_TRY(msi_alloc(&o->number, n_tile, sizeof *o->number, "w-tower plan"));
    mark_tiles(o, p, n);
    for (int64_t t = 0; t < n_tile; t++)
        if (o->number[t]) o->number[t] = (int32_t)++o->n_used;
    MSI_TRY(msi_alloc(&o->tile, o->n_used + 1, sizeof *o->tile, "w-tower plan"));
    for (int64_t t = 0; t < n_tile; t++)
        if (o->number[t]) o->tile[o->number[t] - 1] = (int32_t)t;
    MSI_TRY(msi_alloc(&o->bit, o->n_used * o->n_word + 1, sizeof *o->bit, "w-tower plan"));
    mark_planes(o, p, n);
    return MSI_OK;
}

/* Count the planes with samples. Given: first  bits of first planes; a sample is on w_width planes from its first on */
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

/* Count the subgrids with samples, and their planes, for cores of `edge` tiles. Given: row  [cores of a row][n_word]
 * zeros */
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
    int64_t row_words =
        (o->g->n_tile_u + 8) * o->n_word; /* each edge has its own rows, because each edge has a thread */
    uint64_t *rows;
    MSI_TRY(msi_alloc(&rows, (MSI_TOWER_MAX_CORE_TILES + 1) * row_words, sizeof *rows, "w-tower plan"));
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t edge = 1; edge <= MSI_TOWER_MAX_CORE_TILES; edge++)
        count_subgrids(load, o, edge, rows + edge * row_words);
    msi_free(rows);
    return MSI_OK;
}

/*
 * Estimate the load without samples. A track passes through a tile within a few samples, and from tile to tile along
 * the edge of a core, so samples are only in a part of the subgrids. The samples of a subgrid are near one plane in u,
 * v and w, so they need only a part of the w-planes. The estimate is an upper limit: arrays that were tried filled at
 * most half of it.
 */
static void estimate_load(msi_tower_load *load, const msi_wgrid_geometry *g, int64_t n_sample)
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
        estimate_load(out, g, n_sample);
        return MSI_OK;
    }
    occupancy o = {.g = g, .n_word = (g->n_w - g->w_width + 64) / 64};
    const choice c = choose_samples(g, store, MOST_EXAMINED);
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

/* For the subgrids of all towers: the number of examined samples, and their first planes. */
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

/* The costs of the subgrids of all towers, one tower after the other. */
typedef struct core_costs {
    int64_t n_core, in_tower;
    double tower_s; /* seconds of a tower in which a share has samples */
    double *own_s;  /* [n_core] 0: no samples */
} core_costs;

/* Assign to each share, except the last, the subgrids that its device can process in most_s. Returns: the longest time
 * of a share */
static double cut_at(const core_costs *c, double most_s, const msi_share *to, int n_share, int64_t *cut)
{
    double share_s = 0, last_s = 0;
    int64_t tower = -1; /* last tower of the share */
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

/* Find the cut with the shortest total time. */
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

/* Estimate the time of each subgrid with samples. */
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
