/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Density weights: uniform, Briggs, tapers. Briggs 1995; cells as in CASA and WSClean. */
#include "kernels/store/density.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/store/density_rules.h"
#include "kernels/store/vis_store.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/store/density_gpu.h"
#include "kernels/store/gpu_samples.h"
#endif

struct msi_density {
    msi_density_cells cells;
    double *sum; /* [nv / 2][nu] */
    double sum_weight;
    double *rest; /* like sum, for samples without a weight in plane 0, with their weight in the first plane that has
                     one; NULL: one plane */
    double rest_weight;
    double *limited; /* [nv / 2][nu] factors of cells after msi_density_limit; NULL: no limits */
#ifdef MSI_HAVE_CUDA
    msi_density_gpu *gpu; /* sums of samples on a GPU, which are not in sum and rest; NULL: none */
#endif
};

/* Return the number of cells along an axis of n pixels: padding times n, rounded up to a multiple of 4 (n if padding is
 * 1), divided by super_weight. */
static int64_t axis_cells(int64_t n, double padding, double super_weight)
{
    if (padding > 1) n = ((int64_t)ceil(padding * (double)n) + 3) / 4 * 4;
    if (super_weight > 0) n = (int64_t)rint((double)n / super_weight);
    return n > 2 ? n + n % 2 : 2;
}

msi_density_grid msi_density_grid_of(const msi_image_geometry *geometry, const msi_weighting *rule)
{
    const msi_density_grid grid = {axis_cells(geometry->nx, rule->grid_padding, rule->super_weight),
                                   axis_cells(geometry->ny, rule->grid_padding, rule->super_weight)};
    return grid;
}

int msi_density_create(msi_density **out, const msi_image_geometry *geometry, const msi_weighting *rule)
{
    *out = NULL;
    msi_density *d;
    MSI_TRY(msi_alloc(&d, 1, sizeof *d, "density weights"));
    d->cells.grid = msi_density_grid_of(geometry, rule);
    d->cells.is_centred = rule->is_centred;
    d->cells.per_lambda_u = (double)d->cells.grid.nu * geometry->cell_x_rad;
    d->cells.per_lambda_v = (double)d->cells.grid.nv * geometry->cell_y_rad;
    int rc = msi_alloc(&d->sum, d->cells.grid.nv / 2 * d->cells.grid.nu, sizeof *d->sum, "density weights");
    if (rc) {
        msi_free(d);
        return rc;
    }
    *out = d;
    return MSI_OK;
}

/*
 * Samples are added in batches of parcels. Threads find the cells of a batch's samples, and sort each parcel by stripe.
 * A stripe is the rows of cells with the same number modulo N_STRIPE. Then each stripe is added by one thread, parcel
 * by parcel. So the samples of a cell are added in the store's order, for any number of threads, and a stripe of the
 * plane fits in cache. Batches are large because threads wait for each other at their ends.
 */
enum { PARCEL_SAMPLES = 4096, LEAST_PARCEL = 16, N_PARCEL = 256, N_STRIPE = 64 };

typedef struct cell_weight {
    uint32_t row, column;
    float weight; /* negative: the sample has no weight in plane 0 */
} cell_weight;

typedef struct parcel {
    int64_t segment, row, n_row;
    double sum_weight, rest_weight;
    int64_t end[N_STRIPE + 1];   /* stripe k has samples [end[k], end[k + 1]) */
    cell_weight *found, *sorted; /* [most_samples] in the store's order; sorted by stripe */
} parcel;

typedef struct batch {
    msi_density *density;
    const msi_vis_store *store;
    double unscale; /* removes the scale of the weights: a power of two */
    int n, n_most;
    parcel parcel[N_PARCEL];
} batch;

static int64_t rows_of_parcel(const msi_vis_segment *s)
{
    return s->n_chan < PARCEL_SAMPLES ? PARCEL_SAMPLES / s->n_chan : 1;
}

/* Allocate the parcels of a batch, each with the size of the store's largest parcel. */
static int make_batch(batch *b, cell_weight **memory, msi_density *d, const msi_vis_store *store)
{
    int64_t most = 1, n_parcel = 1;
    for (int64_t i = 0; i < store->n_segment; i++) {
        const msi_vis_segment *s = &store->segment[i];
        const int64_t step = rows_of_parcel(s);
        most = step * s->n_chan > most ? step * s->n_chan : most;
        n_parcel += (s->n_row + step - 1) / step;
    }
    b->density = d;
    b->store = store;
    b->unscale = 1 / store->weight_scale;
    b->n = 0;
    /* Report progress between two batches. */
    n_parcel = n_parcel / 16 > LEAST_PARCEL ? n_parcel / 16 : LEAST_PARCEL;
    b->n_most = n_parcel < N_PARCEL ? (int)n_parcel : N_PARCEL;
    MSI_TRY(msi_alloc(memory, 2 * b->n_most * most, sizeof **memory, "density weights"));
    for (int i = 0; i < b->n_most; i++) {
        b->parcel[i].found = *memory + 2 * i * most;
        b->parcel[i].sorted = b->parcel[i].found + most;
    }
    return MSI_OK;
}

/* Return the weight of a sample, which has no weight in plane 0, in the first plane that has one; 0: no plane has
 * one. */
static float rest_weight(const msi_vis_segment *s, int n_plane, int64_t row, int32_t channel)
{
    for (int p = 1; p < n_plane; p++) {
        const float weight = s->weight[msi_segment_index(s, p, row, channel)];
        if (weight > 0) return weight;
    }
    return 0;
}

static void find_cells(const batch *b, parcel *p)
{
    const msi_density *d = b->density;
    const msi_vis_segment *s = &b->store->segment[p->segment];
    int64_t n = 0;
    memset(p->end, 0, sizeof p->end);
    p->sum_weight = p->rest_weight = 0;
    for (int64_t row = p->row; row < p->row + p->n_row; row++) {
        const double u = s->uvw_m[3 * row] / MSI_SPEED_OF_LIGHT, v = s->uvw_m[3 * row + 1] / MSI_SPEED_OF_LIGHT;
        const float *weight = s->weight + msi_segment_index(s, 0, row, 0);
        for (int32_t c = 0; c < s->n_chan; c++) {
            msi_uv_cell cell;
            const float rest = weight[c] > 0 ? 0 : rest_weight(s, b->store->n_plane, row, c);
            if (!(weight[c] > 0 || rest > 0)) continue;
            if (!msi_uv_cell_of(&d->cells, u * s->freq_hz[c], v * s->freq_hz[c], &cell)) continue;
            p->found[n++] = (cell_weight){(uint32_t)cell.row, (uint32_t)cell.column, rest > 0 ? -rest : weight[c]};
            p->sum_weight += rest > 0 ? 0 : (double)weight[c] * b->unscale;
            p->rest_weight += (double)rest * b->unscale;
            p->end[cell.row % N_STRIPE + 1]++;
        }
    }
    int64_t at[N_STRIPE];
    for (int k = 0; k < N_STRIPE; k++) {
        at[k] = p->end[k];
        p->end[k + 1] += p->end[k];
    }
    for (int64_t i = 0; i < n; i++) p->sorted[at[p->found[i].row % N_STRIPE]++] = p->found[i];
}

/* Add a parcel's samples of a stripe. */
static void add_stripe(const batch *b, const parcel *p, int stripe)
{
    const msi_density *d = b->density;
    for (int64_t j = p->end[stripe]; j < p->end[stripe + 1]; j++) {
        const cell_weight *w = &p->sorted[j];
        const int64_t i = (int64_t)w->row * d->cells.grid.nu + w->column;
        if (w->weight > 0)
            d->sum[i] += (double)w->weight * b->unscale;
        else
            d->rest[i] -= (double)w->weight * b->unscale;
    }
}

static void add_batch(batch *b)
{
    msi_density *d = b->density;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < b->n; i++) find_cells(b, &b->parcel[i]);
#pragma omp for schedule(dynamic, 1)
        for (int k = 0; k < N_STRIPE; k++)
            for (int i = 0; i < b->n; i++) add_stripe(b, &b->parcel[i], k);
    }
    for (int i = 0; i < b->n; i++) {
        d->sum_weight += b->parcel[i].sum_weight;
        d->rest_weight += b->parcel[i].rest_weight;
    }
    b->n = 0;
}

/* Allocate the sums of other planes, unless they exist. */
static int need_rest(msi_density *d)
{
    if (d->rest) return MSI_OK;
    return msi_alloc(&d->rest, d->cells.grid.nv / 2 * d->cells.grid.nu, sizeof *d->rest, "density weights");
}

/* Move the sums from a GPU to host memory. */
static int move_to_host(msi_density *d)
{
#ifdef MSI_HAVE_CUDA
    if (!d->gpu) return MSI_OK;
    const int has_rest = msi_density_gpu_has_rest(d->gpu);
    if (has_rest) MSI_TRY(need_rest(d));
    MSI_TRY(msi_density_gpu_fetch(d->gpu, d->sum, has_rest ? d->rest : NULL));
    msi_density_gpu_free(d->gpu);
    d->gpu = NULL;
#else
    (void)d;
#endif
    return MSI_OK;
}

#ifdef MSI_HAVE_CUDA
/* Add sums on a GPU to those in host memory. */
static int add_to_host(msi_density *d, const msi_density_gpu *gpu)
{
    const int64_t n = d->cells.grid.nv / 2 * d->cells.grid.nu;
    double *more = NULL, *rest = NULL;
    const int has_rest = msi_density_gpu_has_rest(gpu);
    if (has_rest) MSI_TRY(need_rest(d));
    int rc = msi_alloc_unset(&more, n, sizeof *more, "density weights");
    if (!rc && has_rest) rc = msi_alloc_unset(&rest, n, sizeof *rest, "density weights");
    if (!rc) rc = msi_density_gpu_fetch(gpu, more, rest);
    for (int64_t i = 0; !rc && i < n; i++) d->sum[i] += more[i];
    for (int64_t i = 0; !rc && rest && i < n; i++) d->rest[i] += rest[i];
    msi_free(more);
    msi_free(rest);
    return rc;
}

/* Add samples on a GPU. Sums stay there as long as all samples are on the same one. */
static int add_gpu_store(msi_density *d, const msi_vis_store *store)
{
    double total[2] = {d->sum_weight, d->rest_weight};
    msi_density_gpu *other = NULL;
    const int is_first = !d->gpu && !(d->sum_weight > 0) && !(d->rest_weight > 0);
    if (d->gpu && msi_density_gpu_device(d->gpu) != msi_gpu_samples_device(store)) MSI_TRY(move_to_host(d));
    const int stays = is_first || d->gpu;
    int rc = msi_density_gpu_add(stays ? &d->gpu : &other, &d->cells, store, total);
    if (!rc && other) rc = add_to_host(d, other);
    msi_density_gpu_free(other);
    MSI_TRY(rc);
    d->sum_weight = total[0];
    d->rest_weight = total[1];
    return MSI_OK;
}
#endif

int msi_density_add_store(msi_density *d, const msi_vis_store *store)
{
    batch *b;
    cell_weight *memory = NULL;
#ifdef MSI_HAVE_CUDA
    if (store->gpu) return add_gpu_store(d, store);
#endif
    MSI_TRY(move_to_host(d));
    if (store->n_plane > 1) MSI_TRY(need_rest(d));
    MSI_TRY(msi_alloc(&b, 1, sizeof *b, "density weights"));
    const int rc = make_batch(b, &memory, d, store);
    for (int64_t i = 0; i < store->n_segment && !rc; i++) {
        const int64_t n_row = store->segment[i].n_row, step = rows_of_parcel(&store->segment[i]);
        for (int64_t row = 0; row < n_row; row += step) {
            parcel *p = &b->parcel[b->n++];
            p->segment = i;
            p->row = row;
            p->n_row = n_row - row < step ? n_row - row : step;
            if (b->n < b->n_most) continue;
            msi_progress_at(i * MSI_SEGMENT_ROWS + row, store->n_segment * MSI_SEGMENT_ROWS);
            add_batch(b);
        }
    }
    if (!rc) add_batch(b);
    msi_free(memory);
    msi_free(b);
    return rc;
}

int msi_density_sums(msi_density *d, msi_density_grid *grid, const double **sum)
{
    MSI_TRY(move_to_host(d));
    *grid = d->cells.grid;
    *sum = d->sum;
    return MSI_OK;
}

int msi_density_parts_of(msi_density *d, msi_density_parts *parts)
{
    MSI_TRY(move_to_host(d));
    *parts = (msi_density_parts){
        d->cells.grid.nv / 2 * d->cells.grid.nu, {d->sum, d->rest}, {&d->sum_weight, &d->rest_weight}};
    return MSI_OK;
}

void msi_density_free(msi_density *d)
{
    if (!d) return;
    msi_free(d->sum);
    msi_free(d->rest);
    msi_free(d->limited);
#ifdef MSI_HAVE_CUDA
    msi_density_gpu_free(d->gpu);
#endif
    msi_free(d);
}

/* Return 1 if means over all cells use only plane 0, so that other planes do not change its weights; 0 if they use the
 * other planes, because plane 0 has no sample. */
static inline int has_first(const msi_density *d)
{
    return d->sum_weight > 0 || !(d->rest_weight > 0);
}

static int sum_squares(const msi_density *d, double *squares)
{
#ifdef MSI_HAVE_CUDA
    if (d->gpu) return msi_density_gpu_squares(d->gpu, !has_first(d), squares);
#endif
    const double *sum = has_first(d) ? d->sum : d->rest;
    double all = 0;
#pragma omp parallel for reduction(+ : all)
    for (int64_t i = 0; i < d->cells.grid.nv / 2 * d->cells.grid.nu; i++) all += sum[i] * sum[i];
    *squares = all;
    return MSI_OK;
}

/* Compute Briggs' s^2; 0 for uniform weights. The robustness is relative to the weighted mean of the density. */
static int briggs_scale(const msi_density *d, const msi_weighting *rule, double *scale)
{
    double squares;
    *scale = 0;
    if (rule->mode != MSI_WEIGHT_BRIGGS) return MSI_OK;
    MSI_TRY(sum_squares(d, &squares));
    const double s = 5 * pow(10, -rule->robust), total = has_first(d) ? d->sum_weight : d->rest_weight;
    if (squares > 0) *scale = s * s * total / squares;
    return MSI_OK;
}

/* A sum of factors, and the number of those that are not 0. */
typedef struct factor_sum {
    double total, count;
} factor_sum;

/* A lot is this many neighbouring rows or columns, which are summed once for all squares that contain them. Squares
 * with an edge of at least LEAST_WIDE use lots. */
enum { LOT = 16, LEAST_WIDE = 4 * LOT };

/* Sums of factors, from which the sums over squares around cells are computed. */
typedef struct square_sums {
    const msi_density *density;
    const msi_weighting *rule;
    double briggs;
    factor_sum *lot; /* [half_nv / LOT][nu] of LOT rows each; NULL: squares are small */
} square_sums;

/* Add the factors of a row of cells, column by column, to sum [nu]. */
static void add_row(const square_sums *s, int64_t row, factor_sum *sum)
{
    const msi_density *d = s->density;
    const double *of_row = (has_first(d) ? d->sum : d->rest) + row * d->cells.grid.nu;
    for (int64_t x = 0; x < d->cells.grid.nu; x++) {
        const double factor = msi_cell_factor(s->rule, s->briggs, of_row[x]);
        sum[x].total += factor;
        sum[x].count += factor > 0;
    }
}

/* Add n sums to a sum. */
static void add_sums(const factor_sum *from, int64_t n, factor_sum *sum)
{
    for (int64_t i = 0; i < n; i++) {
        sum[i].total += from[i].total;
        sum[i].count += from[i].count;
    }
}

/* Sum rows [first, end) column by column. Returned: sum [nu] */
static void sum_rows(const square_sums *s, int64_t first, int64_t end, factor_sum *sum)
{
    const int64_t nu = s->density->cells.grid.nu;
    memset(sum, 0, sizeof *sum * (size_t)nu);
    for (int64_t row = first; row < end;) {
        const int by_lot = s->lot && row % LOT == 0 && row + LOT <= end;
        if (by_lot)
            add_sums(s->lot + row / LOT * nu, nu, sum);
        else
            add_row(s, row, sum);
        row += by_lot ? LOT : 1;
    }
}

/* Sum columns [first, end) of a row's sums. Given: lot  sums of LOT columns each; NULL: squares are small */
static factor_sum sum_columns(const factor_sum *sum, const factor_sum *lot, int64_t first, int64_t end)
{
    factor_sum all = {0, 0};
    for (int64_t x = first; x < end;) {
        const int by_lot = lot && x % LOT == 0 && x + LOT <= end;
        add_sums(by_lot ? lot + x / LOT : sum + x, 1, &all);
        x += by_lot ? LOT : 1;
    }
    return all;
}

/* Limit the factors of a row of cells. Given: scratch [2 nu] */
static void limit_row(msi_density *d, const square_sums *s, int64_t y, factor_sum *scratch)
{
    const int64_t nu = d->cells.grid.nu, half_nv = d->cells.grid.nv / 2, half = s->rule->rank_size / 2;
    factor_sum *sum = scratch, *lot = s->lot ? scratch + nu : NULL;
    sum_rows(s, y > half ? y - half : 0, y + half < half_nv ? y + half : half_nv, sum);
    for (int64_t k = 0; lot && k < nu / LOT; k++) lot[k] = sum_columns(sum, NULL, k * LOT, (k + 1) * LOT);
    for (int64_t x = 0; x < nu; x++) {
        double factor = msi_cell_factor(s->rule, s->briggs, msi_cell_sum(d->sum, d->rest, y * nu + x));
        if (factor > 0) {
            const factor_sum all = sum_columns(sum, lot, x > half ? x - half : 0, x + half < nu ? x + half : nu);
            if (all.count > 0) factor = fmin(factor, s->rule->rank_level * all.total / all.count);
        }
        d->limited[y * nu + x] = factor;
    }
}

/* Compute the sums of all lots of rows. */
static void make_lots(square_sums *s)
{
    const int64_t nu = s->density->cells.grid.nu, n_lot = s->density->cells.grid.nv / 2 / LOT;
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < n_lot; k++)
        for (int64_t row = k * LOT; row < (k + 1) * LOT; row++) add_row(s, row, s->lot + k * nu);
}

int msi_density_limit(msi_density *d, const msi_weighting *rule)
{
    if (rule->mode == MSI_WEIGHT_NATURAL || !(rule->rank_level >= 1)) return MSI_OK;
    const int64_t nu = d->cells.grid.nu, n_row = d->cells.grid.nv / 2,
                  n_lot = rule->rank_size >= LEAST_WIDE ? n_row / LOT : 0;
    const int n_thread = omp_get_max_threads();
    square_sums s = {.density = d, .rule = rule};
    factor_sum *scratch = NULL;
    MSI_TRY(move_to_host(d));
    MSI_TRY(briggs_scale(d, rule, &s.briggs));
    int rc = d->limited ? MSI_OK : msi_alloc(&d->limited, n_row * nu, sizeof *d->limited, "density weights");
    if (!rc) rc = msi_alloc(&scratch, 2 * nu * n_thread, sizeof *scratch, "density weights");
    if (!rc && n_lot) rc = msi_alloc(&s.lot, n_lot * nu, sizeof *s.lot, "density weights");
    if (!rc) {
        if (n_lot) make_lots(&s);
#pragma omp parallel for schedule(static) num_threads(n_thread)
        for (int64_t y = 0; y < n_row; y++) limit_row(d, &s, y, scratch + 2 * nu * omp_get_thread_num());
    }
    msi_free(scratch);
    msi_free(s.lot);
    return rc;
}

/* ---- Factors of samples ---- */

/* Return 1 / the smallest sum of weights of a cell with samples: the largest uniform factor. */
static double largest_uniform(const msi_density *d)
{
    double least = HUGE_VAL;
#pragma omp parallel for reduction(min : least)
    for (int64_t i = 0; i < d->cells.grid.nv / 2 * d->cells.grid.nu; i++) {
        const double sum = msi_cell_sum(d->sum, d->rest, i);
        if (sum > 0 && sum < least) least = sum;
    }
    return least < HUGE_VAL ? 1 / least : 1;
}

/*
 * Return the power of two by which weights are multiplied. It keeps the products of weights and visibilities from
 * underflowing, and their sums from overflowing, in single precision. It is 1 for ordinary data. Visibilities and
 * weights both have the range of single precision. If sums are about 2^96, the smaller of the two keeps its precision,
 * and windows and transforms, which multiply a sum by less than 2^20, do not overflow.
 */
static double scale_of(const msi_vis_store *s, const msi_density *density, const msi_weighting *rule)
{
    const int is_uniform = rule->mode == MSI_WEIGHT_UNIFORM; /* normal weights are then 1 at most */
    double weight = is_uniform ? 1 : s->largest_weight, product = is_uniform ? s->largest_jy : s->largest_product;
    if (rule->vis == MSI_VIS_WEIGHT_SQUARED) {
        weight *= s->largest_weight;
        product *= s->largest_weight;
    } else if (rule->vis == MSI_VIS_WEIGHT_UNIT) {
        weight = is_uniform ? largest_uniform(density) : 1;
        product = weight * s->largest_jy;
    }
    const double sum = (double)s->n_sample * fmax(weight, product),
                 least = product > 0 ? fmin(weight, product) : weight;
    if (!(sum > 0) || (sum <= 0x1p100 && least >= 0x1p-64)) return 1;
    int exponent;
    frexp(sum, &exponent);
    return ldexp(1, 96 - exponent);
}

int msi_uv_taper_is_set(const msi_uv_taper *t)
{
    return t->major_rad > 0 || t->inner_lambda > 0 || t->inner_tukey > 0 || t->outer_lambda > 0 || t->edge_lambda > 0 ||
           t->edge_tukey > 0;
}

double msi_uv_taper_fwhm(double half_lambda)
{
    return 2 * log(2) / (MSI_PI * half_lambda);
}

static msi_taper_scales tapers_of(const msi_uv_taper *t, const msi_vis_store *store)
{
    /* The image of exp(-(pi a x)^2 / (4 ln 2)) is a Gaussian of FWHM a. */
    const double minor_rad = t->minor_rad > 0 ? t->minor_rad : t->major_rad;
    const double along = MSI_PI * t->major_rad, across = MSI_PI * minor_rad;
    return (msi_taper_scales){.is_gaussian = t->major_rad > 0,
                              .has_radius = t->inner_lambda > 0 || t->inner_tukey > 0 || t->outer_lambda > 0,
                              .has_edge = t->edge_lambda > 0 || t->edge_tukey > 0,
                              .along = along * along / (4 * log(2)),
                              .across = across * across / (4 * log(2)),
                              .cos_pa = cos(t->pa_rad),
                              .sin_pa = sin(t->pa_rad),
                              .edge_u = store->u_limit_lambda,
                              .edge_v = store->v_limit_lambda};
}

static void weigh_segment(const msi_weight_factors *f, const msi_vis_store *store, msi_vis_segment *s)
{
    enum { AT_ONCE = 64 }; /* number of channels whose factors are computed once for all planes */
    double factor[AT_ONCE];
    for (int64_t row = 0; row < s->n_row; row++)
        for (int32_t first = 0; first < s->n_chan; first += AT_ONCE) {
            const int32_t n = s->n_chan - first < AT_ONCE ? s->n_chan - first : AT_ONCE;
            for (int32_t c = 0; c < n; c++) factor[c] = msi_factor_at(f, s->uvw_m + 3 * row, s->freq_hz[first + c]);
            for (int p = 0; p < store->n_plane; p++) {
                float *weight = s->weight + msi_segment_index(s, p, row, first);
                for (int32_t c = 0; c < n; c++) weight[c] = (float)msi_weight_by(f, weight[c], factor[c]);
            }
        }
}

/* Make the factors of a store's weights. */
static int make_factors(msi_weight_factors *f, const msi_vis_store *store, const msi_density *density,
                        const msi_weighting *rule)
{
    *f = (msi_weight_factors){.rule = *rule,
                              .taper = tapers_of(&rule->taper, store),
                              .has_taper = msi_uv_taper_is_set(&rule->taper),
                              .scale = store->weight_scale,
                              /* The tolerance keeps the sample with the largest w in spite of rounding. */
                              .most_w_m_hz = rule->most_w_lambda * MSI_SPEED_OF_LIGHT * (1 + 1e-12)};
    if (!density) return MSI_OK;
    f->cells = density->cells;
    f->sum = density->sum;
    f->rest = density->rest;
    f->limited = rule->mode == MSI_WEIGHT_NATURAL ? NULL : density->limited;
    return briggs_scale(density, rule, &f->briggs);
}

/* Return 1 if the sums are on the same GPU as the store's samples. */
static int is_with(const msi_vis_store *store, const msi_density *d)
{
#ifdef MSI_HAVE_CUDA
    return d->gpu && store->gpu && msi_density_gpu_device(d->gpu) == msi_gpu_samples_device(store);
#else
    (void)store;
    (void)d;
    return 0;
#endif
}

int msi_density_weight(msi_vis_store *store, msi_density *density, const msi_weighting *rule)
{
    const int is_natural = rule->mode == MSI_WEIGHT_NATURAL;
    if (!density && (!is_natural || rule->taper.at_cells))
        return msi_error_set(MSI_EINTERNAL, "density weighting needs a density");
    if (!is_natural && rule->rank_level >= 1 && !density->limited)
        return msi_error_set(MSI_EINTERNAL, "density weighting needs msi_density_limit first");
    if (density && (!is_with(store, density) || rule->vis == MSI_VIS_WEIGHT_UNIT)) MSI_TRY(move_to_host(density));
    store->weight_scale = scale_of(store, density, rule);
    msi_weight_factors f;
    MSI_TRY(make_factors(&f, store, density, rule));
    if (is_natural && !f.has_taper && !(f.most_w_m_hz > 0) && rule->vis == MSI_VIS_WEIGHT_NORMAL && f.scale == 1)
        return MSI_OK;
#ifdef MSI_HAVE_CUDA
    if (store->gpu) return msi_density_gpu_weigh(store, density ? density->gpu : NULL, &f);
#endif
#pragma omp parallel for schedule(dynamic, 1)
    for (int64_t i = 0; i < store->n_segment; i++) {
        if (!omp_get_thread_num()) msi_progress_at(i, store->n_segment);
        weigh_segment(&f, store, &store->segment[i]);
    }
    return MSI_OK;
}
