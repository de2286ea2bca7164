/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/clean/clean_tiles.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "kernels/clean/clean_engine_cpu.h"

/* TILE: edge of a tile. MOST: components that are subtracted from tiles one by one; more are subtracted from whole
 * images by transforms. */
enum { TILE = 64, MOST = 512, N = MSI_TAYLOR_MAX_NODE, T = MSI_TAYLOR_MAX_TERM };

/* Bounds are multiplied by this, because keys have rounding errors of the planes' precision. */
static const double MARGIN = 1.0001;

/* The data of a scale. */
typedef struct scale_tiles {
    msi_clean_tiles_scale given;
    void *kernel;          /* [2 half + 1][half + 1]: the right half of the kernel's rows, from the middle on */
    void *convolved, *key; /* images; key is NULL for the mean */
    void *psf; /* [n_channel] PSFs convolved once, `half` pixels wider on each side; made when first needed */
    int has_response;
    uint8_t *allow;
    int has_allow;
    double *bound;     /* [n_tile] */
    uint8_t *is_exact; /* [n_tile] */
    double
        *response[MSI_CLEAN_MAX_SCALE]; /* bounds of the response to components of each scale, by distance in tiles */
} scale_tiles;

typedef struct component {
    int64_t x, y;
    int scale;
    double value[N];
} component;

struct msi_clean_tiles {
    const msi_cleaner *c;
    const msi_clean_engine *e;
    int n_term, n_channel, n_scale;
    int64_t nx, ny, n_x, n_y, n_tile;
    void *sums;
    double factor[T * N], nodes[N * T]; /* channels to sums, sums to channels */
    scale_tiles scale[MSI_CLEAN_MAX_SCALE + 1];
    component found[MOST];
    int n_found;
    int *n_applied; /* [n_tile] components that have been subtracted from a tile's sums */
    void *line;     /* [TILE] */
};

/* A rectangle of pixels, x0 <= x < x1. */
typedef struct area {
    int64_t x0, x1, y0, y1;
} area;

static area area_of(const msi_clean_tiles *t, int64_t tile)
{
    const int64_t x = tile % t->n_x * TILE, y = tile / t->n_x * TILE;
    return (area){x, msi_clean_least(x + TILE, t->nx), y, msi_clean_least(y + TILE, t->ny)};
}

static void *pixel_at(const msi_clean_tiles *t, const void *image, int64_t plane, int64_t x, int64_t y)
{
    return (char *)image + (plane * t->nx * t->ny + y * t->nx + x) * t->c->real_bytes;
}

static double value_of(const msi_clean_tiles *t, const void *p, int64_t i)
{
    return msi_image_value(p, t->c->spec.precision, i);
}

static void set_value(const msi_clean_tiles *t, void *p, int64_t i, double value)
{
    msi_image_put(p, t->c->spec.precision, i, value);
}

/* Add factor times n pixels of `from` to `to`. */
static void add_row(const msi_clean_tiles *t, double factor, const void *from, void *to, int64_t n)
{
    const msi_clean_put_step step = {.from = from, .factor = factor, .add = 1, .out = to};
    (t->c->spec.precision == MSI_FP32 ? t->e->simd->put_f32 : t->e->simd->put_f64)(&step, n);
}

/* ---- Memory ----------------------------------------------------------------------------------------------------- */

int64_t msi_clean_tiles_bytes(const msi_cleaner *c, int64_t half)
{
    const int64_t n = c->spec.n_scale, images = (n - 1) * c->spec.n_term + n;
    const int64_t psf = (c->spec.nx + 2 * half) * (c->spec.ny + 2 * half);
    const int64_t twice = (c->spec.nx + 4 * half) * (c->spec.ny + 4 * half);
    const int64_t n_x = c->spec.nx / TILE + 1, n_y = c->spec.ny / TILE + 1;
    return c->n_pixel * (images * c->real_bytes + n) +
           (psf * n * c->spec.n_channel + twice * (c->spec.n_channel + 1)) * c->real_bytes +
           (n + 1) * n * (2 * n_x + 1) * (2 * n_y + 1) * (int64_t)sizeof(double);
}

void msi_clean_tiles_free(msi_clean_tiles *t)
{
    if (!t) return;
    for (int s = 0; s <= t->n_scale; s++) {
        scale_tiles *o = &t->scale[s];
        void *all[] = {o->kernel, o->psf, s ? o->convolved : NULL, o->key, o->allow, o->bound, o->is_exact};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) msi_free(all[i]);
        for (int k = 0; k < MSI_CLEAN_MAX_SCALE; k++) msi_free(o->response[k]);
    }
    msi_free(t->n_applied);
    msi_free(t->line);
    msi_free(t);
}

static int allocate_scale(msi_clean_tiles *t, int s)
{
    const int64_t n_pixel = t->c->n_pixel, n_response = (2 * t->n_x + 1) * (2 * t->n_y + 1);
    scale_tiles *o = &t->scale[s];
    MSI_TRY(msi_alloc(&o->bound, t->n_tile, sizeof *o->bound, "tiles of scales"));
    MSI_TRY(msi_alloc(&o->is_exact, t->n_tile, 1, "tiles of scales"));
    for (int k = 0; k < t->n_scale; k++)
        MSI_TRY(msi_alloc(&o->response[k], n_response, sizeof *o->response[k], "tiles of scales"));
    if (s == t->n_scale) return MSI_OK;
    MSI_TRY(msi_alloc_work(&o->key, n_pixel, (size_t)t->c->real_bytes, "keys of scales"));
    MSI_TRY(msi_alloc_work((void **)&o->allow, n_pixel, 1, "masks of scales"));
    o->convolved = t->sums;
    return s ? msi_alloc_work(&o->convolved, n_pixel * t->n_term, (size_t)t->c->real_bytes, "convolved sums") : MSI_OK;
}

int msi_clean_tiles_create(msi_clean_tiles **out, const msi_cleaner *c, void *sums)
{
    msi_clean_tiles *t;
    *out = NULL;
    MSI_TRY(msi_alloc(&t, 1, sizeof *t, "tiles of scales"));
    t->c = c;
    t->e = c->e;
    t->n_term = c->spec.n_term;
    t->n_channel = c->spec.n_channel;
    t->n_scale = c->spec.n_scale;
    t->nx = c->spec.nx;
    t->ny = c->spec.ny;
    t->n_x = (t->nx + TILE - 1) / TILE;
    t->n_y = (t->ny + TILE - 1) / TILE;
    t->n_tile = t->n_x * t->n_y;
    t->sums = sums;
    int rc = msi_alloc(&t->n_applied, t->n_tile, sizeof *t->n_applied, "tiles of scales");
    if (!rc) rc = msi_alloc(&t->line, TILE, (size_t)c->real_bytes, "tiles of scales");
    for (int s = 0; s <= t->n_scale && !rc; s++) rc = allocate_scale(t, s);
    if (rc) {
        msi_clean_tiles_free(t);
        return rc;
    }
    *out = t;
    return MSI_OK;
}

/* Return factor j of channel k in L^T c: with c the terms of values at channels, L^T c = L^-1 H c. */
static double of_component(const msi_clean_tiles *t, int scale, int j, int k)
{
    const msi_clean_tiles_scale *o = &t->scale[scale].given;
    return o->rows.rows[j * t->n_channel + k] * o->response[k];
}

/* Return factor j of channel k in the transpose of L^-1 X^T, where X has the powers of the channels' frequencies. */
static double of_powers(const msi_clean_tiles *t, int scale, int j, int k)
{
    const double share = t->c->setup.share[k];
    return share != 0 ? t->scale[scale].given.rows.rows[j * t->n_channel + k] / share : 0;
}

/* Make the matrix to the channels of the polynomial H^-1 R at scale 0. */
static void make_nodes(msi_clean_tiles *t)
{
    const int n = t->n_term;
    for (int k = 0; k < t->n_channel; k++)
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < n; j++)
                sum += of_powers(t, 0, j, k) * value_of(t, t->scale[0].given.rows_of_sums, j * n + i);
            t->nodes[k * n + i] = sum;
        }
}

int msi_clean_tiles_set(msi_clean_tiles *t, int scale, const msi_clean_tiles_scale *of)
{
    scale_tiles *o = &t->scale[scale];
    const int64_t half = of->half, n = 2 * half + 1;
    o->given = *of;
    o->has_response = 0;
    o->given.kernel = NULL;
    memcpy(t->factor, of->rows.sums, sizeof t->factor);
    if (!scale) make_nodes(t);
    if (!of->kernel) return MSI_OK;
    msi_free(o->kernel);
    o->kernel = NULL;
    MSI_TRY(msi_alloc(&o->kernel, n * (half + 1), (size_t)t->c->real_bytes, "a scale's kernel"));
    for (int64_t y = 0; y < n; y++)
        for (int64_t x = 0; x <= half; x++) set_value(t, o->kernel, y * (half + 1) + x, of->kernel[y * n + half + x]);
    return MSI_OK;
}

/* ---- Responses -------------------------------------------------------------------------------------------------- */

/* Convolve the PSFs with the kernels of two scales, 0: none. Returned: out [n_channel] images of nx x ny */
static int convolve_psfs(const msi_clean_tiles *t, int scale, int other, int64_t nx, int64_t ny, void *out)
{
    const msi_cleaner *c = t->c;
    const msi_clean_worker *w = &c->worker[0];
    const void *kernel[2] = {t->scale[scale].given.kernel_wide, t->scale[other].given.kernel_wide};
    for (int k = 0; k < t->n_channel; k++) {
        const void *from = w->psf_hat[k];
        for (int i = 0; i < 2; i++) {
            if (!kernel[i]) continue;
            MSI_TRY(c->ops->product(w->e, w->wide, from, kernel[i], 0, w->work));
            from = w->work;
        }
        if (from != w->work) MSI_TRY(c->ops->copy(w->e, w->work, from, c->n_wide * c->complex_bytes));
        msi_clean_inverse_sized_cpu(w->e, w->wide, w->work, MSI_CLEAN_MIDDLE, MSI_CLEAN_SET,
                                    (char *)out + k * nx * ny * c->real_bytes, nx, ny);
    }
    return MSI_OK;
}

/* Find the range of pixels of a PSF that a component has in a tile d tiles away. Given: n  edge of the PSF */
static void range_of(int64_t d, int64_t n, int64_t *first, int64_t *end)
{
    *first = msi_clean_most(0, d * TILE - (TILE - 1) + n / 2);
    *end = msi_clean_least(n, d * TILE + TILE + n / 2);
}

/* Find the largest pixel of an image of nx x ny at every distance in tiles. Given: row [2 n_x + 1] */
static void find_largest(const msi_clean_tiles *t, const void *image, int64_t nx, int64_t ny, double *row, double *most)
{
    const int64_t wide = 2 * t->n_x + 1;
    memset(most, 0, (size_t)(wide * (2 * t->n_y + 1)) * sizeof *most);
    for (int64_t y = 0; y < ny; y++) {
        int64_t first, end;
        for (int64_t d = -t->n_x; d <= t->n_x; d++) {
            double value = 0;
            range_of(d, nx, &first, &end);
            for (int64_t x = first; x < end; x++) {
                const double v = value_of(t, image, y * nx + x);
                value = v > value ? v : value;
            }
            row[d + t->n_x] = value;
        }
        for (int64_t d = -t->n_y; d <= t->n_y; d++) {
            double *out = most + (d + t->n_y) * wide;
            range_of(d, ny, &first, &end);
            for (int64_t x = 0; x < wide && y >= first && y < end; x++) out[x] = row[x] > out[x] ? row[x] : out[x];
        }
    }
}

/* Compute bounds of the changes of keys at scale `to`, or of the mean, by components of scale `from`. Given: psf 
 * memory for n_channel + 1 images */
static int respond(msi_clean_tiles *t, int from, int to, void *psf, double *row)
{
    const int n = t->n_channel, is_mean = to == t->n_scale, n_row = is_mean ? 1 : t->n_term;
    const int64_t more = 2 * (t->scale[from].given.half + (is_mean ? 0 : t->scale[to].given.half));
    const int64_t nx = t->nx + more, ny = t->ny + more;
    void *norm = (char *)psf + n * nx * ny * t->c->real_bytes;
    double matrix[T * T * N];
    for (int i = 0; i < n_row; i++)
        for (int j = 0; j < t->n_term; j++)
            for (int k = 0; k < n; k++)
                set_value(t, matrix, (i * t->n_term + j) * n + k,
                          (is_mean ? t->factor[k] : t->scale[to].given.rows.rows[i * n + k]) *
                              of_powers(t, from, j, k));
    const msi_clean_join join = {.n_channel = n, .n_pol = 1, .n_row = n_row * t->n_term};
    const msi_clean_row_step step = {.join = &join, .share = matrix, .residual = psf, .stride = nx * ny};
    MSI_TRY(convolve_psfs(t, from, is_mean ? 0 : to, nx, ny, psf));
    (t->c->spec.precision == MSI_FP32 ? t->e->simd->join_f32 : t->e->simd->join_f64)(&step, nx * ny, norm);
    find_largest(t, norm, nx, ny, row, t->scale[to].response[from]);
    return MSI_OK;
}

int msi_clean_tiles_respond(msi_clean_tiles *t, int scale)
{
    scale_tiles *o = &t->scale[scale];
    const int64_t half = o->given.half, nx = t->nx + 2 * half, ny = t->ny + 2 * half;
    int64_t most = 0;
    void *psf = NULL;
    double *row;
    if (o->has_response) return MSI_OK;
    for (int s = 0; s < t->n_scale; s++) most = msi_clean_most(most, half + t->scale[s].given.half);
    if (!o->psf) MSI_TRY(msi_alloc_paged(&o->psf, nx * ny * t->n_channel, (size_t)t->c->real_bytes, "PSFs of scales"));
    MSI_TRY(convolve_psfs(t, scale, 0, nx, ny, o->psf));
    MSI_TRY(msi_alloc(&row, 2 * t->n_x + 1, sizeof *row, "PSFs of scales"));
    int rc = msi_alloc_paged(&psf, (t->nx + 2 * most) * (t->ny + 2 * most) * (t->n_channel + 1),
                             (size_t)t->c->real_bytes, "PSFs of scales");
    for (int s = 0; s <= t->n_scale && !rc; s++)
        if (s == t->n_scale || t->scale[s].given.used) rc = respond(t, scale, s, psf, row);
    o->has_response = !rc;
    msi_free(row);
    msi_free(psf);
    return rc;
}

/* Raise the bounds of all tiles by a component. */
static void raise_bounds(msi_clean_tiles *t, const component *f)
{
    const int64_t wide = 2 * t->n_x + 1, at_x = f->x / TILE, at_y = f->y / TILE;
    double length = 0;
    for (int j = 0; j < t->n_term; j++) {
        double sum = 0;
        for (int k = 0; k < t->n_channel; k++) sum += of_component(t, f->scale, j, k) * f->value[k];
        length += sum * sum;
    }
    length = MARGIN * sqrt(length);
    for (int s = 0; s <= t->n_scale; s++) {
        scale_tiles *o = &t->scale[s];
        if (s < t->n_scale && !o->given.used) continue;
        for (int64_t y = 0; y < t->n_y; y++)
            for (int64_t x = 0; x < t->n_x; x++) {
                const int64_t i = y * t->n_x + x;
                if (o->bound[i] < 0) continue; /* no pixel may be found */
                o->bound[i] += length * o->response[f->scale][(y - at_y + t->n_y) * wide + x - at_x + t->n_x];
                o->is_exact[i] = 0;
            }
    }
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------ */

/* Subtract a component from an area of the sums. */
static void subtract(const msi_clean_tiles *t, const component *f, const area *a)
{
    const scale_tiles *o = &t->scale[f->scale];
    const int64_t nx = t->nx + 2 * o->given.half, ny = t->ny + 2 * o->given.half;
    const int64_t left = f->x - nx / 2, low = f->y - ny / 2; /* position of the PSF's pixel (0, 0) */
    const int64_t x0 = msi_clean_most(a->x0, left), x1 = msi_clean_least(a->x1, left + nx);
    const int64_t y0 = msi_clean_most(a->y0, low), y1 = msi_clean_least(a->y1, low + ny);
    for (int64_t y = y0; y < y1 && x0 < x1; y++)
        for (int k = 0; k < t->n_channel; k++) {
            const int64_t at = (k * ny + y - low) * nx + x0 - left;
            for (int i = 0; i < t->n_term; i++)
                add_row(t, -t->factor[i * t->n_channel + k] * f->value[k], (char *)o->psf + at * t->c->real_bytes,
                        pixel_at(t, t->sums, i, x0, y), x1 - x0);
        }
}

/* Bring the sums of all tiles that an area touches up to date. */
static void update_sums(msi_clean_tiles *t, const area *a)
{
    for (int64_t y = msi_clean_most(a->y0, 0) / TILE; y < t->n_y && y * TILE < a->y1; y++)
        for (int64_t x = msi_clean_most(a->x0, 0) / TILE; x < t->n_x && x * TILE < a->x1; x++) {
            const int64_t tile = y * t->n_x + x;
            const area of_tile = area_of(t, tile);
            for (int i = t->n_applied[tile]; i < t->n_found; i++) subtract(t, &t->found[i], &of_tile);
            t->n_applied[tile] = t->n_found;
        }
}

/* Convolve the sums with a scale's kernel in an area, at least `half` pixels from the edges. */
static void convolve(const msi_clean_tiles *t, int scale, const area *a)
{
    const scale_tiles *o = &t->scale[scale];
    const int64_t half = o->given.half, n = a->x1 - a->x0;
    const int single = t->c->spec.precision == MSI_FP32;
    for (int i = 0; i < t->n_term; i++)
        for (int64_t y = a->y0; y < a->y1; y++) {
            void *out = pixel_at(t, o->convolved, i, a->x0, y);
            for (int64_t k = -half; k <= half; k++) {
                const msi_clean_weigh_step step = {.line = pixel_at(t, t->sums, i, a->x0, y + k),
                                                   .step = 1,
                                                   .before = half,
                                                   .after = half,
                                                   .weight = (const char *)o->kernel +
                                                             (k + half) * (half + 1) * t->c->real_bytes,
                                                   .out = k == -half ? out : t->line};
                (single ? t->e->simd->weigh_f32 : t->e->simd->weigh_f64)(&step, n);
                if (k > -half) add_row(t, 1, t->line, out, n);
            }
        }
}

/* Return the largest modulus of n pixels where they may be found; others are set to zero if `clear`. */
static double largest(const msi_clean_tiles *t, void *p, const uint8_t *allow, int64_t n, int clear)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = fabs(value_of(t, p, i));
        const int may = (!allow || allow[i]) && v <= (t->c->spec.precision == MSI_FP32 ? FLT_MAX : DBL_MAX);
        if (may && v > most) most = v;
        if (!may && clear) set_value(t, p, i, 0);
    }
    return most;
}

static double largest_of_tile(msi_clean_tiles *t, int scale, const area *a)
{
    const int is_mean = scale == t->n_scale;
    const scale_tiles *o = &t->scale[scale], *mask = &t->scale[is_mean ? 0 : scale];
    double most = 0;
    for (int64_t y = a->y0; y < a->y1 && a->x0 < a->x1; y++)
        most = fmax(most, largest(t, pixel_at(t, is_mean ? t->sums : o->key, 0, a->x0, y),
                                  mask->has_allow ? mask->allow + y * t->nx + a->x0 : NULL, a->x1 - a->x0, !is_mean));
    return most;
}

/* Compute the keys of a tile. */
static void compute_tile(msi_clean_tiles *t, int scale, int64_t tile)
{
    scale_tiles *o = &t->scale[scale];
    const int64_t half = o->given.half;
    area a = area_of(t, tile);
    a = (area){msi_clean_most(a.x0, half), msi_clean_least(a.x1, t->nx - half), msi_clean_most(a.y0, half),
               msi_clean_least(a.y1, t->ny - half)};
    const area around = {a.x0 - half, a.x1 + half, a.y0 - half, a.y1 + half};
    const msi_clean_join join = {.n_channel = t->n_term, .n_pol = 1, .n_row = t->n_term};
    update_sums(t, &around);
    if (o->kernel) convolve(t, scale, &a);
    for (int64_t y = a.y0; y < a.y1 && scale < t->n_scale; y++) {
        const msi_clean_row_step step = {.join = &join,
                                         .share = o->given.rows_of_sums,
                                         .residual = pixel_at(t, o->convolved, 0, a.x0, y),
                                         .stride = t->c->n_pixel};
        (t->c->spec.precision == MSI_FP32 ? t->e->simd->join_f32
                                          : t->e->simd->join_f64)(&step, a.x1 - a.x0, pixel_at(t, o->key, 0, a.x0, y));
    }
    o->bound[tile] = largest_of_tile(t, scale, &a);
    o->is_exact[tile] = 1;
}

void *msi_clean_tiles_convolved(const msi_clean_tiles *t, int scale)
{
    return t->scale[scale].convolved;
}

void *msi_clean_tiles_key(const msi_clean_tiles *t, int scale)
{
    return t->scale[scale].key;
}

static int may_be_found(const scale_tiles *mask, int64_t nx, const area *a)
{
    int any = !mask->has_allow;
    for (int64_t y = a->y0; y < a->y1 && !any; y++)
        any = memchr(mask->allow + y * nx + a->x0, 1, (size_t)(a->x1 - a->x0)) != NULL;
    return any;
}

void msi_clean_tiles_begin(msi_clean_tiles *t, int scale, const uint8_t *allow)
{
    scale_tiles *o = &t->scale[scale];
    const scale_tiles *mask = &t->scale[scale == t->n_scale ? 0 : scale];
    if (scale < t->n_scale) {
        o->has_allow = allow != NULL;
        if (allow) memcpy(o->allow, allow, (size_t)t->c->n_pixel);
    }
    for (int64_t i = 0; i < t->n_tile; i++) {
        const area a = area_of(t, i);
        o->bound[i] = largest_of_tile(t, scale, &a);
        if (!may_be_found(mask, t->nx, &a)) o->bound[i] = -1;
        o->is_exact[i] = 1;
    }
}

/* Find where a tile has its largest key. */
static void find_in_tile(const msi_clean_tiles *t, int scale, int64_t tile, msi_clean_peak *peak)
{
    const int is_mean = scale == t->n_scale;
    const scale_tiles *o = &t->scale[scale], *mask = &t->scale[is_mean ? 0 : scale];
    const area a = area_of(t, tile);
    for (int64_t y = a.y0; y < a.y1; y++)
        for (int64_t x = a.x0; x < a.x1; x++) {
            const double v = value_of(t, is_mean ? t->sums : o->key, y * t->nx + x);
            if (fabs(v) != peak->key || (mask->has_allow && !mask->allow[y * t->nx + x])) continue;
            *peak = (msi_clean_peak){peak->key, v, x, y};
            return;
        }
}

void msi_clean_tiles_peak(msi_clean_tiles *t, int scale, double least, msi_clean_peak *peak)
{
    scale_tiles *o = &t->scale[scale];
    for (;;) {
        int64_t best = 0;
        for (int64_t i = 1; i < t->n_tile; i++)
            if (o->bound[i] > o->bound[best]) best = i;
        *peak = (msi_clean_peak){fmax(o->bound[best], 0), fmax(o->bound[best], 0), 0, 0};
        if (o->bound[best] <= least) return;
        if (o->is_exact[best]) {
            find_in_tile(t, scale, best, peak);
            return;
        }
        compute_tile(t, scale, best);
    }
}

void msi_clean_tiles_refresh(msi_clean_tiles *t, int scale, double least)
{
    scale_tiles *o = &t->scale[scale];
    for (int64_t i = 0; i < t->n_tile; i++)
        if (o->bound[i] >= least && !o->is_exact[i]) compute_tile(t, scale, i);
}

/* ---- Components ------------------------------------------------------------------------------------------------- */

void msi_clean_tiles_load(const msi_clean_tiles *t, int scale)
{
    msi_clean_engine *e = t->c->e;
    e->has_factor = 0;
    for (int64_t i = 0; i < e->n_list; i++)
        for (int k = 0; k < t->n_channel; k++) {
            double sum = 0;
            for (int j = 0; j < t->n_term; j++)
                sum +=
                    t->nodes[k * t->n_term + j] * value_of(t,
                                                           pixel_at(t, t->scale[scale].convolved, j,
                                                                    msi_clean_x(e->list[i]), msi_clean_y(e->list[i])),
                                                           0);
            set_value(t, e->residual, k * e->s.list_limit + i, sum);
            set_value(t, e->component, k * e->s.list_limit + i, 0);
        }
}

static int has_component(const msi_clean_tiles *t, int64_t i)
{
    int any = 0;
    for (int k = 0; k < t->n_channel; k++) any |= value_of(t, t->e->component, k * t->e->s.list_limit + i) != 0;
    return any;
}

int msi_clean_tiles_take(msi_clean_tiles *t, int scale)
{
    const int64_t most = msi_clean_least(MOST, t->e->s.list_limit);
    int64_t n = t->n_found;
    for (int64_t i = 0; i < t->e->n_list; i++) n += has_component(t, i);
    if (n > most) return 0;
    for (int64_t i = 0; i < t->e->n_list; i++) {
        component *f = &t->found[t->n_found];
        if (!has_component(t, i)) continue;
        *f = (component){msi_clean_x(t->e->list[i]), msi_clean_y(t->e->list[i]), scale, {0}};
        for (int k = 0; k < t->n_channel; k++) f->value[k] = value_of(t, t->e->component, k * t->e->s.list_limit + i);
        t->n_found++;
        raise_bounds(t, f);
    }
    return 1;
}

int64_t msi_clean_tiles_restore(const msi_clean_tiles *t, int scale)
{
    msi_clean_engine *e = t->c->e;
    e->n_list = 0;
    for (int i = 0; i < t->n_found; i++) {
        const component *f = &t->found[i];
        const uint32_t place = msi_clean_place((uint32_t)f->x, (uint32_t)f->y);
        int64_t at = 0;
        if (f->scale != scale) continue;
        while (at < e->n_list && e->list[at] != place) at++;
        for (int k = 0; k < t->n_channel; k++) {
            const int64_t to = k * e->s.list_limit + at;
            set_value(t, e->component, to, f->value[k] + (at < e->n_list ? value_of(t, e->component, to) : 0));
        }
        e->list[at] = place;
        e->n_list += at == e->n_list;
    }
    return e->n_list;
}

void msi_clean_tiles_applied(msi_clean_tiles *t)
{
    t->n_found = 0;
    memset(t->n_applied, 0, (size_t)t->n_tile * sizeof *t->n_applied);
}
