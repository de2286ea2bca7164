/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A beam is described by the matrix S of its ellipse, whose eigenvalues are the squares of the widths. The convolution
 * of two Gaussians has the sum of their matrices. So the kernel from one beam to another has the matrix S_to - S_from.
 * It exists if no eigenvalue is negative; then the ellipse of `to` contains that of `from`.
 */
#include "src/sky/common_beam.h"

#include <fftw3.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"

/* A symmetric matrix in the basis of east and north. */
typedef struct matrix {
    double ee, en, nn;
} matrix;

static matrix matrix_of(const msi_beam *b)
{
    const double s = sin(b->pa_rad), c = cos(b->pa_rad), a2 = b->major_rad * b->major_rad,
                 b2 = b->minor_rad * b->minor_rad;
    return (matrix){a2 * s * s + b2 * c * c, (a2 - b2) * s * c, a2 * c * c + b2 * s * s};
}

static double determinant(const matrix *m)
{
    return m->ee * m->nn - m->en * m->en;
}

/* Convert a matrix to a beam. Negative eigenvalues are set to 0. Returned: *least  the smaller eigenvalue */
static msi_beam beam_of(const matrix *m, double *least)
{
    const double middle = 0.5 * (m->ee + m->nn), half = hypot(0.5 * (m->nn - m->ee), m->en);
    double pa = 0.5 * atan2(2 * m->en, m->nn - m->ee);
    if (pa < 0) pa += MSI_PI;
    *least = middle - half;
    return (msi_beam){sqrt(fmax(0, middle + half)), sqrt(fmax(0, *least)), pa};
}

int msi_beam_kernel(msi_beam *kernel, const msi_beam *from, const msi_beam *to)
{
    static const double ROUNDING = 1e-6;
    const matrix a = matrix_of(from), b = matrix_of(to), m = {b.ee - a.ee, b.en - a.en, b.nn - a.nn};
    double least;
    *kernel = beam_of(&m, &least);
    return least >= -ROUNDING * to->minor_rad * to->minor_rad;
}

msi_beam msi_largest_beam(const msi_beam *beam, int64_t n)
{
    msi_beam largest = {0};
    for (int64_t i = 0; i < n; i++)
        if (msi_beam_known(&beam[i]) && beam[i].major_rad * beam[i].minor_rad > largest.major_rad * largest.minor_rad)
            largest = beam[i];
    return largest;
}

static int contains_all(const msi_beam *outer, const msi_beam *beam, int64_t n)
{
    msi_beam unused;
    for (int64_t i = 0; i < n; i++)
        if (msi_beam_known(&beam[i]) && !msi_beam_kernel(&unused, &beam[i], outer)) return 0;
    return 1;
}

/* Number of directions, over 180 degrees, at which the hull of all ellipses is sampled. */
enum { N_POINT = 1024, MOST_STEPS = 200000 };

/* A point on the edge of the hull of all ellipses, and its weight. */
typedef struct edge_point {
    double e, n, weight;
} edge_point;

/* Find, for each direction, the point of all ellipses that is farthest in this direction. */
static void find_edge(edge_point *p, const msi_beam *beam, int64_t n, double unit)
{
    for (int i = 0; i < N_POINT; i++) {
        const double e = cos(MSI_PI * i / N_POINT), north = sin(MSI_PI * i / N_POINT);
        double farthest = 0;
        for (int64_t k = 0; k < n; k++) {
            if (!msi_beam_known(&beam[k])) continue;
            const matrix m = matrix_of(&beam[k]);
            const double x = m.ee * e + m.en * north, y = m.en * e + m.nn * north, reach2 = x * e + y * north;
            if (reach2 <= farthest) continue;
            farthest = reach2;
            p[i] = (edge_point){x / sqrt(reach2) / unit, y / sqrt(reach2) / unit, 1.0 / N_POINT};
        }
    }
}

/* Return the squared distance of a point from 0 in the metric of an ellipse: 1 on the ellipse. Given: m  its matrix */
static double distance2(const edge_point *p, const matrix *m)
{
    return (m->nn * p->e * p->e - 2 * m->en * p->e * p->n + m->ee * p->n * p->n) / determinant(m);
}

/* Find the smallest ellipse around points, with its centre at 0. In each step weight is moved to the point farthest
 * outside, or away from the weighted point farthest inside, until all weighted points lie on the ellipse. */
static matrix enclose(edge_point *p)
{
    static const double TOLERANCE = 1e-8;
    matrix m = {0, 0, 0};
    for (int step = 0; step < MOST_STEPS; step++) {
        int far = 0, near = -1;
        double most = 0, least = HUGE_VAL;
        m = (matrix){0, 0, 0};
        for (int i = 0; i < N_POINT; i++) {
            m.ee += p[i].weight * p[i].e * p[i].e;
            m.en += p[i].weight * p[i].e * p[i].n;
            m.nn += p[i].weight * p[i].n * p[i].n;
        }
        for (int i = 0; i < N_POINT; i++) {
            const double d2 = distance2(&p[i], &m);
            if (d2 > most) most = d2, far = i;
            if (p[i].weight > 0 && d2 < least) least = d2, near = i;
        }
        if (most < 2 * (1 + TOLERANCE) && least > 2 * (1 - TOLERANCE)) break;
        const int goes_to = most - 2 >= 2 - least || near < 0, i = goes_to ? far : near;
        const double d2 = goes_to ? most : least;
        double part = (0.5 * d2 - 1) / (d2 - 1);
        if (!goes_to && (d2 <= 1 || part < -p[i].weight / (1 - p[i].weight))) part = -p[i].weight / (1 - p[i].weight);
        for (int k = 0; k < N_POINT; k++) p[k].weight *= 1 - part;
        p[i].weight += part;
        if (p[i].weight < 1e-15) p[i].weight = 0;
    }
    return (matrix){2 * m.ee, 2 * m.en, 2 * m.nn};
}

/* Return the factor by which a matrix must be multiplied to contain another one: the larger eigenvalue of m^-1
 * other. */
static double growth(const matrix *m, const matrix *other)
{
    const double det = determinant(m);
    const double trace = (m->nn * other->ee - 2 * m->en * other->en + m->ee * other->nn) / det,
                 product = determinant(other) / det;
    return 0.5 * trace + sqrt(fmax(0, 0.25 * trace * trace - product));
}

int msi_common_beam(msi_beam *common, const msi_beam *beam, int64_t n)
{
    edge_point *p;
    double least, grown = 0;
    *common = msi_largest_beam(beam, n);
    if (!msi_beam_known(common) || contains_all(common, beam, n)) return MSI_OK;
    const double unit = common->major_rad;
    MSI_TRY(msi_alloc(&p, N_POINT, sizeof *p, "points of beams"));
    find_edge(p, beam, n, unit);
    matrix m = enclose(p);
    msi_free(p);
    m = (matrix){m.ee * unit * unit, m.en * unit * unit, m.nn * unit * unit};
    for (int64_t i = 0; i < n; i++) {
        if (!msi_beam_known(&beam[i])) continue;
        const matrix of_beam = matrix_of(&beam[i]);
        grown = fmax(grown, growth(&m, &of_beam));
    }
    m = (matrix){m.ee * grown, m.en * grown, m.nn * grown};
    *common = beam_of(&m, &least);
    return MSI_OK;
}

/* ---- Convolution ---- */

/* Return the smallest product of powers of 2, 3 and 5 that is at least n, for fast transforms. */
static int64_t fast_length(int64_t n)
{
    for (;; n++) {
        int64_t rest = n;
        for (int p = 2; p <= 5; p += p == 2 ? 1 : 2)
            while (rest % p == 0) rest /= p;
        if (rest == 1) return n;
    }
}

/* Number of columns that are transformed together. A row of such a block fills two cache lines. */
enum { LANES = 16 };

/* A convolution with a Gaussian: real transforms of the rows of the image, and complex transforms of blocks of columns.
 * Each thread has one block. */
typedef struct convolution {
    const msi_image_geometry *g;
    int64_t nx, ny; /* size of the transform */
    int64_t pitch;  /* complex values of a row */
    matrix m;       /* matrix of the Gaussian, in pixels */
    double factor;
    fftwf_complex *grid;  /* [g->ny][pitch] */
    fftwf_complex *block; /* [threads][ny][LANES] */
    fftwf_plan row_forward, row_backward, column_forward, column_backward;
} convolution;

static int make_plans(convolution *c)
{
    const int nx = (int)c->nx, ny = (int)c->ny;
    /* FFTW's planner is not thread-safe. */
#pragma omp critical(msi_fftw_planner)
    {
        c->row_forward = fftwf_plan_dft_r2c_1d(nx, (float *)c->grid, c->grid, FFTW_ESTIMATE);
        c->row_backward = fftwf_plan_dft_c2r_1d(nx, c->grid, (float *)c->grid, FFTW_ESTIMATE);
        c->column_forward = fftwf_plan_many_dft(1, &ny, LANES, c->block, NULL, LANES, 1, c->block, NULL, LANES, 1,
                                                FFTW_FORWARD, FFTW_ESTIMATE);
        c->column_backward = fftwf_plan_many_dft(1, &ny, LANES, c->block, NULL, LANES, 1, c->block, NULL, LANES, 1,
                                                 FFTW_BACKWARD, FFTW_ESTIMATE);
    }
    return c->row_forward && c->row_backward && c->column_forward && c->column_backward
               ? MSI_OK
               : msi_error_set(MSI_ENOMEM, "no memory for a convolved image");
}

static void free_convolution(convolution *c)
{
    const fftwf_plan plan[] = {c->row_forward, c->row_backward, c->column_forward, c->column_backward};
#pragma omp critical(msi_fftw_planner)
    for (int i = 0; i < 4; i++)
        if (plan[i]) fftwf_destroy_plan(plan[i]);
    msi_free(c->grid);
    msi_free(c->block);
}

/* Multiply a block of the spectrum by the spectrum of the Gaussian. Given: first  first column of the block */
static void multiply(const convolution *c, int64_t first, fftwf_complex *block)
{
    const double scale = MSI_PI * MSI_PI / (4 * log(2));
    for (int64_t j = 0; j < c->ny; j++)
        for (int64_t i = 0; i < LANES; i++) {
            /* x increases to the west. */
            const double u = -(double)(first + i) / (double)c->nx,
                         v = (double)(j <= c->ny / 2 ? j : j - c->ny) / (double)c->ny;
            const double w = c->factor * exp(-scale * (c->m.ee * u * u + 2 * c->m.en * u * v + c->m.nn * v * v));
            block[j * LANES + i][0] *= (float)w;
            block[j * LANES + i][1] *= (float)w;
        }
}

static void convolve_columns(const convolution *c, int64_t first, fftwf_complex *block)
{
    const int64_t n = c->g->ny;
    for (int64_t j = 0; j < n; j++) memcpy(block + j * LANES, c->grid + j * c->pitch + first, LANES * sizeof *block);
    memset(block + n * LANES, 0, (size_t)((c->ny - n) * LANES) * sizeof *block);
    fftwf_execute_dft(c->column_forward, block, block);
    multiply(c, first, block);
    fftwf_execute_dft(c->column_backward, block, block);
    for (int64_t j = 0; j < n; j++) memcpy(c->grid + j * c->pitch + first, block + j * LANES, LANES * sizeof *block);
}

static void convolve_image(const convolution *c, float *pixel)
{
    const int64_t nx = c->g->nx, ny = c->g->ny;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (int64_t y = 0; y < ny; y++) {
            float *row = (float *)(c->grid + y * c->pitch);
            for (int64_t x = 0; x < nx; x++) row[x] = isfinite(pixel[y * nx + x]) ? pixel[y * nx + x] : 0;
            fftwf_execute_dft_r2c(c->row_forward, row, (fftwf_complex *)row);
        }
#pragma omp for schedule(static)
        for (int64_t first = 0; first < c->pitch; first += LANES)
            convolve_columns(c, first, c->block + omp_get_thread_num() * c->ny * LANES);
#pragma omp for schedule(static)
        for (int64_t y = 0; y < ny; y++) {
            float *row = (float *)(c->grid + y * c->pitch);
            fftwf_execute_dft_c2r(c->row_backward, (fftwf_complex *)row, row);
            for (int64_t x = 0; x < nx; x++) pixel[y * nx + x] = isfinite(pixel[y * nx + x]) ? row[x] : NAN;
        }
    }
}

int msi_beam_convolve(float *pixel, const msi_image_geometry *g, const msi_beam *from, const msi_beam *to,
                      double factor)
{
    msi_beam kernel;
    (void)msi_beam_kernel(&kernel, from, to);
    const matrix m = matrix_of(&kernel);
    convolution c = {.g = g};
    /* The padding keeps opposite edges of the image from mixing. */
    c.nx = fast_length(g->nx + (int64_t)ceil(3 * kernel.major_rad / g->cell_x_rad) + 1);
    c.ny = fast_length(g->ny + (int64_t)ceil(3 * kernel.major_rad / g->cell_y_rad) + 1);
    c.pitch = (c.nx / 2 + LANES) / LANES * LANES;
    c.m = (matrix){m.ee / (g->cell_x_rad * g->cell_x_rad), m.en / (g->cell_x_rad * g->cell_y_rad),
                   m.nn / (g->cell_y_rad * g->cell_y_rad)};
    c.factor = factor / ((double)c.nx * (double)c.ny);
    int rc = msi_alloc(&c.grid, g->ny * c.pitch, sizeof *c.grid, "a convolved image");
    if (!rc) rc = msi_alloc(&c.block, omp_get_max_threads() * c.ny * LANES, sizeof *c.block, "a convolved image");
    if (!rc) rc = make_plans(&c);
    if (!rc) convolve_image(&c, pixel);
    free_convolution(&c);
    return rc;
}
