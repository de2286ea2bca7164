/* SPDX-License-Identifier: GPL-3.0-or-later */
/* test_density cpu|cuda: natural, uniform and Briggs weights compared with a direct evaluation of their definitions. On a
 * GPU samples are kept in its memory. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <omp.h>

#include "core/status.h"
#include "kernels/gridder.h"
#include "kernels/store/density.h"
#include "kernels/store/vis_store.h"
#include "tests/support/wgrid_cases.h"

/* Cells of the uv plane's upper half, for images of NX x NY pixels. */
enum { NX = 32, NY = 48, N_CELL = NX * NY / 2, N_CHAN = 3 };

static const msi_case field = {.name = "weights",
                               .nx = NX,
                               .ny = NY,
                               .field_x_rad = 0.02,
                               .w_ratio = 0.5,
                               .n_row = 2000,
                               .n_chan = N_CHAN,
                               .band = 1.4,
                               .layout = CONCENTRATED};

static msi_backend backend = MSI_BACKEND_CPU;

/* Make a gridder of one plane with the samples of a block. */
static msi_gridder *gridder_with(const msi_gridder_spec *spec, const msi_vis_block *block)
{
    msi_gridder *g;
    msi_gridder_report report;
    assert_int_equal(msi_gridder_create(&g, spec), 0);
    if (backend == MSI_BACKEND_CUDA)
        assert_int_equal(msi_gridder_gpu_begin(g, block->n_row * block->n_chan, block->n_row), 0);
    assert_int_equal(msi_gridder_add(g, block), 0);
    assert_int_equal(msi_gridder_gpu_end(g), 0);
    msi_gridder_report_get(g, &report);
    assert_true(report.n_sample > 0 && (report.store_bytes == 0) == (backend == MSI_BACKEND_CUDA));
    return g;
}

/* The field's samples with their original weights, and the sums of these weights in each cell. */
typedef struct weighed {
    msi_case_data data;
    int64_t n;       /* samples */
    int64_t *cell;   /* [n] */
    float *original; /* [n] weights */
    double density[N_CELL];
    double mean_density; /* sum of density^2 over sum of the weights */
} weighed;

static void sample_uv(const weighed *s, int64_t i, double *u, double *v)
{
    const double f = s->data.freq_hz[i % N_CHAN] / MSI_SPEED_OF_LIGHT, *uvw_m = s->data.uvw_m + i / N_CHAN * 3;
    *u = uvw_m[0] * f;
    *v = uvw_m[1] * f;
}

static void weighed_make(weighed *s)
{
    memset(s, 0, sizeof *s);
    msi_case_make(&s->data, &field, 9);
    s->n = field.n_row * field.n_chan;
    s->cell = msi_test_alloc(s->n, sizeof *s->cell);
    s->original = msi_test_alloc(s->n, sizeof *s->original);
    memcpy(s->original, s->data.weight, sizeof(float) * (size_t)s->n);
    double sum = 0, sum_square = 0;
    for (int64_t i = 0; i < s->n; i++) {
        double u, v;
        sample_uv(s, i, &u, &v);
        const double fold = v < 0 || (v == 0 && u < 0) ? -1 : 1;
        const int64_t x = (int64_t)floor(fold * u * s->data.geometry.cell_x_rad * NX) + NX / 2;
        const int64_t y = (int64_t)floor(fold * v * s->data.geometry.cell_y_rad * NY);
        assert_true(x >= 0 && x < NX && y >= 0 && y < NY / 2);
        s->cell[i] = y * NX + x;
        s->density[s->cell[i]] += (double)s->original[i];
        sum += (double)s->original[i];
    }
    for (int i = 0; i < N_CELL; i++) sum_square += s->density[i] * s->density[i];
    s->mean_density = sum_square / sum;
}

static void weighed_free(weighed *s)
{
    free(s->cell);
    free(s->original);
    msi_case_free(&s->data);
}

/* Compute the factor of the weights of samples in a cell. */
static double cell_factor(const msi_weighting *rule, const weighed *s, int64_t cell)
{
    const double f = 5 * pow(10, -rule->robust);
    if (rule->mode == MSI_WEIGHT_BRIGGS) return 1 / (1 + s->density[cell] * f * f / s->mean_density);
    return s->density[cell] > 0 ? 1 / s->density[cell] : 0;
}

/* The factor limited to a level times the mean of those around it that are not 0. */
static double limited_factor(const msi_weighting *rule, const weighed *s, int64_t cell)
{
    const int64_t half = rule->rank_size / 2, x = cell % NX, y = cell / NX;
    const double factor = cell_factor(rule, s, cell);
    double sum = 0, n = 0;
    if (!(rule->rank_level >= 1)) return factor;
    for (int64_t row = 0; row < NY / 2; row++)
        for (int64_t column = 0; column < NX; column++) {
            const double one = cell_factor(rule, s, row * NX + column);
            if (row < y - half || row >= y + half || column < x - half || column >= x + half || !(one > 0)) continue;
            sum += one;
            n += 1;
        }
    return n > 0 && factor > rule->rank_level * sum / n ? rule->rank_level * sum / n : factor;
}

/* A Tukey transition: 0 at x = 0 and before, 1 at x = n and beyond. */
static double tukey(double x, double n)
{
    if (x < 0) return 0;
    return x >= n ? 1 : (1 + cos(MSI_PI * (x - n) / n)) / 2;
}

/* The product of the tapers at (u, v) wavelengths. The uv plane's edge is at half a period of two pixels. */
static double tapered(const msi_uv_taper *t, const msi_image_geometry *g, double u, double v)
{
    const double minor = t->minor_rad > 0 ? t->minor_rad : t->major_rad, r = hypot(u, v);
    const double along = u * sin(t->pa_rad) + v * cos(t->pa_rad), across = u * cos(t->pa_rad) - v * sin(t->pa_rad);
    const double x = MSI_PI * t->major_rad * along, y = MSI_PI * minor * across;
    double factor = exp(-(x * x + y * y) / (4 * log(2)));
    factor *= tukey(r - t->inner_lambda, t->inner_tukey);
    if (t->outer_lambda > 0) factor *= tukey(t->outer_lambda - r, t->outer_tukey);
    factor *= tukey(0.5 / g->cell_x_rad - fabs(u) - t->edge_lambda, t->edge_tukey);
    return factor * tukey(0.5 / g->cell_y_rad - fabs(v) - t->edge_lambda, t->edge_tukey);
}

/* CASA's factor of a density at a distance of x cells times the fractional bandwidth. */
static double bandwidth_divisor(double x)
{
    return x + 0.5 < 1.5 ? (4 - x) / (4 - 2 * x) : x + 0.5;
}

/* Apply the definitions, from the original weight of sample i. */
static double weight_by(const msi_weighting *rule, const weighed *s, int64_t i)
{
    const msi_image_geometry *g = &s->data.geometry;
    double u, v, w = s->original[i];
    const double w_lambda = s->data.uvw_m[i / N_CHAN * 3 + 2] * s->data.freq_hz[i % N_CHAN] / MSI_SPEED_OF_LIGHT;
    sample_uv(s, i, &u, &v);
    if (rule->most_w_lambda > 0 && fabs(w_lambda) > rule->most_w_lambda) return 0;
    if (rule->vis == MSI_VIS_WEIGHT_SQUARED) w *= w;
    if (rule->vis == MSI_VIS_WEIGHT_UNIT) w = w > 0;
    if (rule->mode == MSI_WEIGHT_BRIGGS && rule->bandwidth > 0) {
        const double f = 5 * pow(10, -rule->robust),
                     x = rule->bandwidth * hypot(u * g->cell_x_rad * NX, v * g->cell_y_rad * NY);
        w /= 1 + s->density[s->cell[i]] / bandwidth_divisor(x) * f * f / s->mean_density;
    } else if (rule->mode != MSI_WEIGHT_NATURAL) {
        w *= limited_factor(rule, s, s->cell[i]);
    }
    if (rule->taper.at_cells) {
        u = (double)(s->cell[i] % NX - NX / 2) / (g->cell_x_rad * NX);
        v = (double)(s->cell[i] / NX) / (g->cell_y_rad * NY);
    }
    return w * tapered(&rule->taper, g, u, v);
}

/* Return how many samples a rule of tapers lowers by more than 1 %, but not to 0; and how many to 0. */
static void count_lowered(const weighed *s, const msi_weighting *rule, int64_t *n_lowered, int64_t *n_zero)
{
    msi_weighting plain = *rule;
    plain.taper = (msi_uv_taper){0};
    plain.most_w_lambda = 0;
    *n_lowered = *n_zero = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const double share = weight_by(rule, s, i) / weight_by(&plain, s, i);
        *n_lowered += share > 0 && share < 0.99;
        *n_zero += share == 0;
    }
}

/* The gridder's image has the weights of the definition: compare their sum, and the direct sum with them. */
static void check_rule(weighed *s, const msi_weighting *rule)
{
    msi_gridder_spec spec = {.geometry = s->data.geometry, .n_plane = 1, .accuracy = 1e-10, .backend = backend};
    msi_density *d;
    msi_image image;
    memcpy(s->data.weight, s->original, sizeof(float) * (size_t)s->n);
    msi_gridder *g = gridder_with(&spec, &s->data.block);
    assert_int_equal(msi_density_create(&d, &s->data.geometry, rule), 0);
    assert_int_equal(msi_density_add(d, g), 0);
    if (rule->rank_level >= 1) assert_int_equal(msi_gridder_weight(g, d, rule), MSI_EINTERNAL);
    assert_int_equal(msi_density_limit(d, rule), 0);
    assert_int_equal(msi_gridder_weight(g, d, rule), 0);
    assert_int_equal(msi_gridder_image(g, &image), 0);

    double expected_sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const double w = weight_by(rule, s, i);
        s->data.weight[i] = (float)w;
        expected_sum += w;
    }
    assert_true(expected_sum > 0 &&
                fabs(image.sum_weight[0] / expected_sum - 1) < 1e-6); /* weights are kept as float: 2^-24 each */
    assert_true(msi_case_error(&s->data, &image, 0, 0, 60, 2) < 1e-6);
    msi_image_free(&image);
    msi_density_free(d);
    msi_gridder_free(g);
}

static void test_weights_are_their_definitions(void **state)
{
    (void)state;
    const msi_weighting rules[] = {{.mode = MSI_WEIGHT_UNIFORM},
                                   {.mode = MSI_WEIGHT_BRIGGS, .robust = 0.5},
                                   {.mode = MSI_WEIGHT_UNIFORM, .rank_level = 1, .rank_size = 16},
                                   {.mode = MSI_WEIGHT_UNIFORM, .rank_level = 1.5, .rank_size = 5},
                                   {.mode = MSI_WEIGHT_BRIGGS, .robust = -1, .rank_level = 1, .rank_size = 4},
                                   {.mode = MSI_WEIGHT_NATURAL, .taper = {.major_rad = 2e-3}},
                                   {.mode = MSI_WEIGHT_BRIGGS, .robust = -1, .taper = {.major_rad = 1e-3}},
                                   {.taper = {.major_rad = 2e-3, .minor_rad = 5e-4, .pa_rad = 0.5}},
                                   {.taper = {.inner_lambda = 60, .inner_tukey = 200}},
                                   {.taper = {.inner_tukey = 100, .outer_lambda = 500, .outer_tukey = 350}},
                                   {.mode = MSI_WEIGHT_UNIFORM, .taper = {.edge_lambda = 300, .edge_tukey = 250}},
                                   {.mode = MSI_WEIGHT_UNIFORM,
                                    .rank_level = 1,
                                    .rank_size = 16,
                                    .taper = {.major_rad = 1e-3, .inner_lambda = 60, .at_cells = 1}},
                                   {.taper = {.inner_tukey = 100, .edge_tukey = 500, .at_cells = 1}},
                                   {.vis = MSI_VIS_WEIGHT_SQUARED},
                                   {.mode = MSI_WEIGHT_BRIGGS, .robust = 0.5, .vis = MSI_VIS_WEIGHT_UNIT},
                                   {.mode = MSI_WEIGHT_UNIFORM, .vis = MSI_VIS_WEIGHT_SQUARED, .most_w_lambda = 150},
                                   {.mode = MSI_WEIGHT_BRIGGS, .robust = 0.5, .bandwidth = 0.3}};
    weighed s;
    weighed_make(&s);
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        int64_t n_lowered, n_zero;
        const msi_uv_taper *t = &rules[r].taper;
        check_rule(&s, &rules[r]);
        count_lowered(&s, &rules[r], &n_lowered, &n_zero);
        if (msi_uv_taper_is_set(t)) assert_in_range(n_lowered, 100, s.n - 100);
        if (t->inner_lambda > 0 || t->outer_lambda > 0 || t->edge_lambda > 0 || rules[r].most_w_lambda > 0)
            assert_in_range(n_zero, 20, s.n - 100);
    }
    weighed_free(&s);
}

/* Return the largest difference of a plane of an image from `factor` times another's, relative to the latter's
 * maximum. */
static double distance(const msi_image *image, int plane, double factor, const msi_image *other)
{
    double worst = 0, largest = 0;
    for (int64_t i = plane * NX * NY; i < (plane + 1) * NX * NY; i++) {
        worst = fmax(worst, fabs(msi_pixel_at(image, i) - factor * msi_pixel_at(other, i)));
        largest = fmax(largest, fabs(factor * msi_pixel_at(other, i)));
    }
    return isfinite(worst) ? worst / largest : HUGE_VAL;
}

/* Image one plane by a rule, with its PSF; *report is the report afterwards. */
static void image_by(const weighed *s, const msi_weighting *rule, msi_image *image, msi_gridder_report *report)
{
    msi_gridder_spec spec = {
        .geometry = s->data.geometry, .n_plane = 1, .psf = 1, .accuracy = 1e-4, .backend = backend};
    msi_gridder *g = gridder_with(&spec, &s->data.block);
    msi_density *d;
    assert_int_equal(msi_density_create(&d, &s->data.geometry, rule), 0);
    assert_int_equal(msi_density_add(d, g), 0);
    assert_int_equal(msi_gridder_weight(g, d, rule), 0);
    assert_int_equal(msi_gridder_image(g, image), 0);
    msi_gridder_report_get(g, report);

    /* Densities are those of the original weights, even if weights have been scaled. */
    msi_density *weighted;
    msi_density_grid grid;
    double sum = 0;
    assert_int_equal(msi_density_create(&weighted, &s->data.geometry, rule), 0);
    assert_int_equal(msi_density_add(weighted, g), 0);
    const double *cell;
    assert_int_equal(msi_density_sums(weighted, &grid, &cell), 0);
    for (int64_t i = 0; i < grid.nu * grid.nv / 2; i++) sum += cell[i];
    assert_true(fabs(sum / image->sum_weight[0] - 1) < 1e-12);
    msi_density_free(weighted);
    msi_density_free(d);
    msi_gridder_free(g);
}

/* Visibilities and weights at the ends of single precision give the same images as ordinary ones near 1: dirty images
 * scale with the visibilities, PSFs do not change. Weights of 1e-44 are 7 times the least float, so all samples have
 * the same: only the gridder can then lose precision. */
static void test_no_magnitude_is_lost(void **state)
{
    (void)state;
    const double jy[] = {1e30, 1e30, 1e30, 1e-30, 1e-37, 1, 1, 1}, weight[] = {1, 1e9, 1e38, 1, 1, 1e-44, 1e38, 1e-9};
    const msi_weighting rules[] = {{.mode = MSI_WEIGHT_NATURAL},
                                   {.mode = MSI_WEIGHT_UNIFORM},
                                   {.mode = MSI_WEIGHT_BRIGGS},
                                   {.mode = MSI_WEIGHT_NATURAL, .taper = {.major_rad = 2e-3}}};
    const double rounding = 0.5 * FLT_EPSILON * sqrt(6000);
    weighed s;
    weighed_make(&s);
    msi_c64 *vis = msi_test_alloc(s.n, sizeof *vis);
    memcpy(vis, s.data.vis, sizeof *vis * (size_t)s.n);
    double largest = 0;
    for (int64_t i = 0; i < s.n; i++) largest = fmax(largest, fmax(fabs(vis[i].re), fabs(vis[i].im)));
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        msi_image plain, image;
        msi_gridder_report report;
        for (int64_t i = 0; i < s.n; i++) {
            s.data.weight[i] = s.original[i] > 0;
            s.data.vis[i] = (msi_c64){vis[i].re / largest, vis[i].im / largest};
        }
        image_by(&s, &rules[r], &plain, &report);
        assert_true(report.weight_scale == 1);
        const double plain_sum = plain.sum_weight[0];
        for (size_t k = 0; k < sizeof jy / sizeof *jy; k++) {
            for (int64_t i = 0; i < s.n; i++) {
                s.data.weight[i] = s.original[i] > 0 ? (float)weight[k] : 0;
                s.data.vis[i] = (msi_c64){jy[k] * vis[i].re / largest, jy[k] * vis[i].im / largest};
            }
            image_by(&s, &rules[r], &image, &report);
            const double w = (double)(float)weight[k];
            /* The rounding of sums of 6000 samples in fp32 is a random walk; data of 1e-37 Jy are exact to 2^-26. */
            assert_true(distance(&image, 0, jy[k], &plain) < rounding);
            assert_true(distance(&image, 1, 1, &plain) < rounding);
            const double sum = rules[r].mode == MSI_WEIGHT_UNIFORM ? plain_sum : w * plain_sum;
            assert_true(fabs(image.sum_weight[0] / sum - 1) < 1e-6);
            assert_true(fabs(report.sum_vis_weight[0] / (w * (double)image.n_vis[0]) - 1) < 1e-12);
            msi_image_free(&image);
        }
        msi_image_free(&plain);
    }
    free(vis);
    weighed_free(&s);
}

/* Sums of weights with one thread and with four are the same to the last bit: for several batches of samples, with
 * weights that are not round numbers, so that any other order of additions would show. */
static void test_threads_do_not_count(void **state)
{
    (void)state;
    enum { SIDE = 64, N_ROW = 450000 };
    const msi_case many = {.name = "many",
                           .nx = SIDE,
                           .ny = SIDE,
                           .field_x_rad = 0.02,
                           .w_ratio = 0.5,
                           .n_row = N_ROW,
                           .n_chan = N_CHAN,
                           .band = 1.4,
                           .layout = CONCENTRATED};
    const msi_weighting briggs = {.mode = MSI_WEIGHT_BRIGGS};
    const int threads = omp_get_max_threads();
    msi_case_data data;
    msi_density *d[2];
    msi_density_grid grid;
    double sum[2];
    int64_t n;
    msi_case_make(&data, &many, 4);
    for (int i = 0; i < 2; i++) {
        msi_gridder_spec spec = {.geometry = data.geometry, .n_plane = 1, .accuracy = 1e-4, .backend = MSI_BACKEND_CPU};
        msi_gridder *g;
        omp_set_num_threads(i ? 4 : 1);
        assert_int_equal(msi_gridder_create(&g, &spec), 0);
        assert_int_equal(msi_gridder_add(g, &data.block), 0);
        assert_int_equal(msi_density_create(&d[i], &data.geometry, &briggs), 0);
        assert_int_equal(msi_density_add(d[i], g), 0);
        assert_int_equal(msi_gridder_weight(g, d[i], &briggs), 0);
        msi_gridder_weights(g, &sum[i], NULL, &n);
        assert_true(n > 1000000);
        msi_gridder_free(g);
    }
    omp_set_num_threads(threads);
    const double *one, *four;
    assert_int_equal(msi_density_sums(d[0], &grid, &one), 0);
    assert_int_equal(msi_density_sums(d[1], &grid, &four), 0);
    assert_memory_equal(one, four, sizeof *one * SIDE * SIDE / 2);
    assert_memory_equal(&sum[0], &sum[1], sizeof sum[0]);
    for (int i = 0; i < 2; i++) msi_density_free(d[i]);
    msi_case_free(&data);
}

static void test_a_rule_needs_its_density(void **state)
{
    (void)state;
    const msi_weighting uniform = {.mode = MSI_WEIGHT_UNIFORM}, natural = {.mode = MSI_WEIGHT_NATURAL};
    weighed s;
    msi_gridder *g;
    weighed_make(&s);
    msi_gridder_spec spec = {.geometry = s.data.geometry, .n_plane = 1, .accuracy = 1e-4, .backend = MSI_BACKEND_CPU};
    assert_int_equal(msi_gridder_create(&g, &spec), 0);
    assert_int_equal(msi_gridder_add(g, &s.data.block), 0);
    assert_int_equal(msi_gridder_weight(g, NULL, &natural), 0);
    assert_int_equal(msi_gridder_weight(g, NULL, &uniform), MSI_EINTERNAL);
    msi_gridder_free(g);
    weighed_free(&s);
}

/* ---- Wide squares ---- */

/* A plane of more cells than the narrowest squares whose rows and columns are added in lots; a sample in half of the
 * cells, in the middle of each. */
enum { WIDE_X = 96, WIDE_Y = 160, N_WIDE = WIDE_X * WIDE_Y / 2 };

typedef struct wide {
    msi_image_geometry geometry;
    int64_t n, cell[N_WIDE];
    float weight[N_WIDE], density[N_WIDE]; /* [n]; of all cells, 0 without a sample */
    double uvw_m[3 * N_WIDE];              /* in wavelengths, by the choice of the frequency */
} wide;

static void wide_make(wide *w)
{
    uint64_t random = 3;
    memset(w, 0, sizeof *w);
    w->geometry = (msi_image_geometry){.nx = WIDE_X, .ny = WIDE_Y, .cell_x_rad = 1e-4, .cell_y_rad = 2e-4};
    for (int64_t i = 0; i < N_WIDE; i++) {
        const float weight = (float)(0.1 + 1.9 * msi_random(&random));
        if (msi_random(&random) < 0.5) continue;
        w->uvw_m[3 * w->n] = ((double)(i % WIDE_X - WIDE_X / 2) + 0.5) / (WIDE_X * w->geometry.cell_x_rad);
        w->uvw_m[3 * w->n + 1] = ((double)(i / WIDE_X) + 0.5) / (WIDE_Y * w->geometry.cell_y_rad);
        w->cell[w->n] = i;
        w->weight[w->n++] = w->density[i] = weight;
    }
}

static double wide_factor(const wide *w, int64_t cell)
{
    return w->density[cell] > 0 ? 1 / (double)w->density[cell] : 0;
}

/* Compute a cell's factor by its definition. */
static double wide_limited(const wide *w, const msi_weighting *rule, int64_t cell)
{
    const int64_t half = rule->rank_size / 2, x = cell % WIDE_X, y = cell / WIDE_X;
    double sum = 0, n = 0;
    for (int64_t row = y > half ? y - half : 0; row < WIDE_Y / 2 && row < y + half; row++)
        for (int64_t column = x > half ? x - half : 0; column < WIDE_X && column < x + half; column++) {
            const double one = wide_factor(w, row * WIDE_X + column);
            sum += one;
            n += one > 0;
        }
    return fmin(wide_factor(w, cell), rule->rank_level * sum / n);
}

static void test_wide_squares(void **state)
{
    (void)state;
    static wide w;
    const double freq_hz = MSI_SPEED_OF_LIGHT;
    const msi_weighting rules[] = {{.mode = MSI_WEIGHT_UNIFORM, .rank_level = 1, .rank_size = 62},
                                   {.mode = MSI_WEIGHT_UNIFORM, .rank_level = 1, .rank_size = 64},
                                   {.mode = MSI_WEIGHT_UNIFORM, .rank_level = 1.2, .rank_size = 71},
                                   {.mode = MSI_WEIGHT_UNIFORM, .rank_level = 1, .rank_size = 1000}};
    wide_make(&w);
    msi_c32 *vis = msi_test_alloc(w.n, sizeof *vis);
    const msi_vis_block block = {.n_row = w.n,
                                 .n_chan = 1,
                                 .n_plane = 1,
                                 .uvw_m = w.uvw_m,
                                 .freq_hz = &freq_hz,
                                 .vis_f32 = vis,
                                 .weight = w.weight};
    for (size_t r = 0; r < sizeof rules / sizeof *rules; r++) {
        msi_vis_store store;
        msi_density *d;
        int64_t n_limited = 0;
        msi_vis_store_init(&store, 1, MSI_FP32, HUGE_VAL, HUGE_VAL, 0, NULL);
        assert_int_equal(msi_vis_store_add(&store, &block), 0);
        assert_int_equal(msi_density_create(&d, &w.geometry, &rules[r]), 0);
        assert_int_equal(msi_density_add_store(d, &store), 0);
        assert_int_equal(msi_density_limit(d, &rules[r]), 0);
        assert_int_equal(msi_density_weight(&store, d, &rules[r]), 0);
        for (int64_t i = 0; i < w.n; i++) {
            const msi_vis_segment *g = &store.segment[i / MSI_SEGMENT_ROWS];
            const double expected = (double)w.weight[i] * wide_limited(&w, &rules[r], w.cell[i]);
            n_limited += expected < 0.999 * (double)w.weight[i] * wide_factor(&w, w.cell[i]);
            /* Weights are kept as float. */
            assert_true(fabs((double)g->weight[i % MSI_SEGMENT_ROWS] / expected - 1) < 1e-6);
        }
        assert_in_range(n_limited, w.n / 10, w.n);
        msi_density_free(d);
        msi_vis_store_free(&store);
    }
    free(vis);
}

/* ---- Cells ---- */

/* The number of cells along an axis is the image's pixels times the padding, rounded up to a multiple of 4, divided by
 * -super-weight's factor, rounded to the nearest, and even. WSClean has 616 for 512. */
static void test_cells_along_an_axis(void **state)
{
    (void)state;
    static const struct {
        double padding, super_weight;
        int64_t n, cells;
    } axes[] = {{0, 0, 512, 512},  {1, 0, 514, 514},  {1.2, 0, 512, 616}, {1.2, 2, 512, 308}, {0, 1.5, 100, 68},
                {0, 1.6, 100, 62}, {0, 3, 1000, 334}, {0, 1000, 1000, 2}, {0, 0.5, 100, 200}};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        const msi_image_geometry geometry = {axes[i].n, 100, 1e-4, 1e-4};
        const msi_weighting rule = {
            .mode = MSI_WEIGHT_UNIFORM, .grid_padding = axes[i].padding, .super_weight = axes[i].super_weight};
        assert_int_equal(msi_density_grid_of(&geometry, &rule).nu, axes[i].cells);
    }
}

/* Samples on the lines between cells: on v = 0 a sample and its mirror image are equivalent, at u >= 0; the uv plane's
 * edge belongs to the last cell. */
static void test_lines_between_cells(void **state)
{
    (void)state;
    enum { SIDE = 8 };
    /* A cell is 64 wavelengths wide. */
    static const struct {
        double u, v; /* in cells */
        int64_t column, row;
    } samples[] = {{0, 0, 4, 0},   {1.5, 0, 5, 0},  {-1.5, 0, 5, 0}, {-1.5, 0.5, 2, 0}, {1.5, -0.5, 2, 0},
                   {4, 0.5, 7, 0}, {-4, 0.5, 0, 0}, {0.5, 4, 4, 3},  {0.5, -4, 3, 3},   {-2, 1, 2, 1}};
    const msi_image_geometry geometry = {SIDE, SIDE, 1.0 / (64 * SIDE), 1.0 / (64 * SIDE)};
    const msi_gridder_spec spec = {.geometry = geometry, .n_plane = 1, .accuracy = 1e-4, .backend = MSI_BACKEND_CPU};
    const msi_weighting uniform = {.mode = MSI_WEIGHT_UNIFORM};
    const double freq_hz = MSI_SPEED_OF_LIGHT; /* metres are wavelengths */
    const float weight = 1;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const double uvw_m[3] = {64 * samples[i].u, 64 * samples[i].v, 0};
        const msi_c64 vis = {1, 0};
        const msi_vis_block block = {
            .n_row = 1, .n_chan = 1, .n_plane = 1, .uvw_m = uvw_m, .freq_hz = &freq_hz, .vis = &vis, .weight = &weight};
        msi_gridder *g;
        msi_density *d;
        msi_density_grid grid;
        assert_int_equal(msi_gridder_create(&g, &spec), 0);
        assert_int_equal(msi_gridder_add(g, &block), 0);
        assert_int_equal(msi_density_create(&d, &geometry, &uniform), 0);
        assert_int_equal(msi_density_add(d, g), 0);
        const double *sum;
        assert_int_equal(msi_density_sums(d, &grid, &sum), 0);
        for (int64_t k = 0; k < SIDE * SIDE / 2; k++)
            assert_true(sum[k] == (k == samples[i].row * SIDE + samples[i].column));
        msi_density_free(d);
        msi_gridder_free(g);
    }
}

/* Samples that are moved to the host, while some are on the GPU and some are not, are those of a gridder there; so are
 * those of several planes with several lists of channels. Segments differ. */
static void test_samples_come_home(void **state)
{
    (void)state;
    enum { TIMES = 40 };
    if (backend == MSI_BACKEND_CPU) skip();
    const msi_case planes = {.name = "planes",
                             .nx = NX,
                             .ny = NY,
                             .field_x_rad = 0.02,
                             .w_ratio = 0.5,
                             .n_row = 5000,
                             .n_chan = 7,
                             .n_plane = 2,
                             .band = 1.4};
    msi_case more = planes;
    msi_case_data data[2];
    msi_image image[2];
    const msi_weighting briggs = {.mode = MSI_WEIGHT_BRIGGS};
    more.n_chan = 5;
    msi_case_make(&data[0], &planes, 21);
    msi_case_make(&data[1], &more, 22);
    for (int p = 0; p < 2; p++) data[0].weight[p] = 0, data[0].weight[100 + p] = NAN;
    const msi_gridder_spec spec = {
        .geometry = data[0].geometry, .n_plane = 2, .psf = 1, .accuracy = 1e-5, .backend = backend};
    for (int how = 0; how < 3; how++) {
        msi_gridder *g[2];
        msi_density *d;
        const int first_on_gpu[] = {TIMES / 4, 0, TIMES / 2};
        for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
            assert_int_equal(msi_gridder_create(&g[on_gpu], &spec), 0);
            for (int k = 0; k < TIMES; k++) {
                /* Samples so far are copied while the next are added. */
                if (on_gpu && k == first_on_gpu[how])
                    assert_int_equal(msi_gridder_gpu_begin(g[1], TIMES * 60000, TIMES * 10000), 0);
                assert_int_equal(msi_gridder_add_all(g[on_gpu], (msi_vis_block[]){data[0].block, data[1].block}, 2), 0);
            }
            /* In the middle, at the end, and after weights have been multiplied. */
            if (how > 0) assert_int_equal(msi_gridder_gpu_end(g[on_gpu]), 0);
            if (how == 0) assert_int_equal(msi_gridder_move_to_host(g[on_gpu]), 0);
            assert_int_equal(msi_density_create(&d, &spec.geometry, &briggs), 0);
            assert_int_equal(msi_density_add(d, g[on_gpu]), 0);
            assert_int_equal(msi_gridder_weight(g[on_gpu], d, &briggs), 0);
            msi_density_free(d);
            if (how == 1) assert_int_equal(msi_gridder_move_to_host(g[on_gpu]), 0);
            assert_int_equal(msi_gridder_image(g[on_gpu], &image[on_gpu]), 0);
        }
        for (int p = 0; p < 3; p++) {
            assert_true(distance(&image[1], p, 1, &image[0]) < 3e-6);
            assert_int_equal(image[0].n_vis[p], image[1].n_vis[p]);
            assert_true(fabs(image[1].sum_weight[p] / image[0].sum_weight[p] - 1) < 1e-9);
        }
        if (how < 2) {
            const msi_vis_store *a = msi_gridder_store(g[0]), *b = msi_gridder_store(g[1]);
            int64_t n = 0, at[2] = {0, 0}, row[2] = {0, 0};
            for (int list = 0; list < 2; list++) {
                const int32_t n_chan = data[list].block.n_chan;
                for (at[0] = at[1] = row[0] = row[1] = 0;;) {
                    const msi_vis_store *of[2] = {a, b};
                    for (int k = 0; k < 2; k++)
                        while (at[k] < of[k]->n_segment &&
                               (of[k]->segment[at[k]].n_chan != n_chan || row[k] == of[k]->segment[at[k]].n_row)) {
                            at[k]++;
                            row[k] = 0;
                        }
                    assert_int_equal(at[0] == a->n_segment, at[1] == b->n_segment);
                    if (at[0] == a->n_segment) break;
                    const msi_vis_segment *x = &a->segment[at[0]], *y = &b->segment[at[1]];
                    assert_memory_equal(x->uvw_m + 3 * row[0], y->uvw_m + 3 * row[1], 3 * sizeof(double));
                    for (int p = 0; p < 2; p++)
                        for (int32_t c = 0; c < n_chan; c++) {
                            const int64_t i = msi_segment_index(x, p, row[0], c),
                                          j = msi_segment_index(y, p, row[1], c);
                            assert_memory_equal((const msi_c32 *)x->vis + i, (const msi_c32 *)y->vis + j,
                                                sizeof(msi_c32));
                            assert_true(fabs((double)x->weight[i] - (double)y->weight[j]) <=
                                        1.2e-7 * (double)x->weight[i]);
                        }
                    row[0]++;
                    row[1]++;
                    n++;
                }
            }
            assert_true(n > TIMES * 9000);
        }
        for (int k = 0; k < 2; k++) {
            msi_image_free(&image[k]);
            msi_gridder_free(g[k]);
        }
    }
    msi_case_free(&data[0]);
    msi_case_free(&data[1]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest host[] = {
        cmocka_unit_test(test_weights_are_their_definitions), cmocka_unit_test(test_wide_squares),
        cmocka_unit_test(test_no_magnitude_is_lost),          cmocka_unit_test(test_threads_do_not_count),
        cmocka_unit_test(test_a_rule_needs_its_density),      cmocka_unit_test(test_cells_along_an_axis),
        cmocka_unit_test(test_lines_between_cells),
    };
    const struct CMUnitTest gpu[] = {cmocka_unit_test(test_weights_are_their_definitions),
                                     cmocka_unit_test(test_no_magnitude_is_lost),
                                     cmocka_unit_test(test_samples_come_home)};
    if (argc < 2 || strcmp(argv[1], "cuda") != 0) return cmocka_run_group_tests(host, NULL, NULL);
    backend = MSI_BACKEND_CUDA;
    const msi_gridder_spec spec = {
        .geometry = {16, 16, 1e-3, 1e-3}, .n_plane = 1, .accuracy = 1e-3, .backend = backend};
    msi_gridder *g = NULL;
    const int rc = msi_gridder_create(&g, &spec);
    msi_gridder_free(g);
    if (rc == MSI_EGPU) {
        printf("skipped: %s\n", msi_backend_describe());
        return 77;
    }
    return cmocka_run_group_tests(gpu, NULL, NULL);
}
