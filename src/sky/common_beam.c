/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A beam is the matrix S of its ellipse, with the squares of the widths as eigenvalues; matrices of Gaussians add when
 * these are convolved. So `to` contains `from` if S_to - S_from has no negative eigenvalue, and that is the kernel.
 */
#include "src/sky/common_beam.h"

#include <fftw3.h>
#include <math.h>

#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"

/* A symmetric matrix, in axes to the east and north. */
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

/* Return the beam of a matrix. Small negative eigenvalues count as 0. Returned: *least  the smaller eigenvalue */
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

/* Directions in which the edge of all ellipses together is sampled, over half a turn. */
enum { N_POINT = 1024, MOST_STEPS = 200000 };

/* A point on the edge of the hull of all ellipses, and its weight. */
typedef struct edge_point {
    double e, n, weight;
} edge_point;

/* Find the point of all ellipses that is farthest in each direction. */
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

/* Return the distance of a point in units of an ellipse, squared. Given: m  of the ellipse */
static double distance2(const edge_point *p, const matrix *m)
{
    return (m->nn * p->e * p->e - 2 * m->en * p->e * p->n + m->ee * p->n * p->n) / determinant(m);
}

/* Find the smallest ellipse with its centre at 0 around points: the weights are moved to its farthest point, or away
 * from the nearest point that has one, until all points with a weight lie on it. */
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

/* Return by which factor a matrix must grow to contain another one: the larger eigenvalue of other / m. */
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

/* Return the next length of a fast transform: products of 2, 3 and 5. */
static int64_t fast_length(int64_t n)
{
    for (;; n++) {
        int64_t rest = n;
        for (int p = 2; p <= 5; p += p == 2 ? 1 : 2)
            while (rest % p == 0) rest /= p;
        if (rest == 1) return n;
    }
}

/* Multiply a spectrum by that of a Gaussian. Given: grid  [ny][nx/2 + 1]; m in pixels; factor */
static void multiply(fftwf_complex *grid, int64_t nx, int64_t ny, const matrix *m, double factor)
{
    const double scale = MSI_PI * MSI_PI / (4 * log(2));
#pragma omp parallel for schedule(static)
    for (int64_t j = 0; j < ny; j++)
        for (int64_t i = 0; i <= nx / 2; i++) {
            /* Columns run to the west. */
            const double u = -(double)i / (double)nx, v = (double)(j <= ny / 2 ? j : j - ny) / (double)ny;
            const double w = factor * exp(-scale * (m->ee * u * u + 2 * m->en * u * v + m->nn * v * v));
            grid[j * (nx / 2 + 1) + i][0] *= (float)w;
            grid[j * (nx / 2 + 1) + i][1] *= (float)w;
        }
}

int msi_beam_convolve(float *pixel, const msi_image_geometry *g, const msi_beam *from, const msi_beam *to,
                      double factor)
{
    msi_beam kernel;
    (void)msi_beam_kernel(&kernel, from, to);
    matrix m = matrix_of(&kernel);
    /* The edges of the image do not reach each other. */
    const int64_t nx = fast_length(g->nx + (int64_t)ceil(3 * kernel.major_rad / g->cell_x_rad) + 1),
                  ny = fast_length(g->ny + (int64_t)ceil(3 * kernel.major_rad / g->cell_y_rad) + 1);
    const int64_t row = 2 * (nx / 2 + 1);
    float *grid;
    fftwf_plan forward, backward;
    MSI_TRY(msi_alloc(&grid, ny * row, sizeof *grid, "a convolved image"));
    /* FFTW's planner is not thread-safe. */
#pragma omp critical(msi_fftw_planner)
    {
        forward = fftwf_plan_dft_r2c_2d((int)ny, (int)nx, grid, (fftwf_complex *)grid, FFTW_ESTIMATE);
        backward = fftwf_plan_dft_c2r_2d((int)ny, (int)nx, (fftwf_complex *)grid, grid, FFTW_ESTIMATE);
    }
    int rc = forward && backward ? MSI_OK : msi_error_set(MSI_ENOMEM, "no memory for a convolved image");
    m = (matrix){m.ee / (g->cell_x_rad * g->cell_x_rad), m.en / (g->cell_x_rad * g->cell_y_rad),
                 m.nn / (g->cell_y_rad * g->cell_y_rad)};
    if (!rc) {
        for (int64_t y = 0; y < g->ny; y++)
            for (int64_t x = 0; x < g->nx; x++) {
                const float v = pixel[y * g->nx + x];
                grid[y * row + x] = isfinite(v) ? v : 0;
            }
        fftwf_execute(forward);
        multiply((fftwf_complex *)grid, nx, ny, &m, factor / ((double)nx * (double)ny));
        fftwf_execute(backward);
        for (int64_t y = 0; y < g->ny; y++)
            for (int64_t x = 0; x < g->nx; x++)
                pixel[y * g->nx + x] = isfinite(pixel[y * g->nx + x]) ? grid[y * row + x] : NAN;
    }
#pragma omp critical(msi_fftw_planner)
    {
        if (forward) fftwf_destroy_plan(forward);
        if (backward) fftwf_destroy_plan(backward);
    }
    msi_free(grid);
    return rc;
}
