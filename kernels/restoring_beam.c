/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/restoring_beam.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* ---- Resampling of the PSF ---- */

/* The part of a PSF to resample: offsets from the centre of up to half_x and half_y pixels, in steps of 1 / factor. */
typedef struct msi_psf_part {
    int64_t half_x, half_y;
    int factor;
} msi_psf_part;

enum {
    LEAST_WINDOW = 4, /* half widths of the window, pixels */
    MOST_WINDOW = 64
};

/* Return the modified Bessel function I0 by its power series, for moderate x. */
static double bessel_i0(double x)
{
    double term = 1, sum = 1;
    for (int k = 1; k < 200 && term > 1e-17 * sum; k++) {
        term *= 0.25 * x * x / ((double)k * k);
        sum += term;
    }
    return sum;
}

/*
 * Return the shape parameter of the Kaiser window with this half width. A longer window has a higher attenuation, or a
 * wider passband. The passband ends at 0.28 cycles per pixel until the attenuation is 200 dB; longer windows widen it.
 * Kaiser's formulas relate half width, attenuation in dB, passband and shape.
 */
static double kaiser_shape(int64_t half)
{
    const double attenuation = fmin(200, 8 + 2.285 * 2 * (double)half * 2 * MSI_PI * 2 * (0.5 - 0.28));
    return 0.1102 * (attenuation - 8.7);
}

/* One axis of the resampling. The taps of a fine position depend on its fraction of a pixel. */
typedef struct axis {
    int64_t half;   /* half width of the window */
    int64_t n_fine; /* positions */
    int factor;
    int64_t part; /* largest offset, pixels */
    double *tap;  /* [factor][2 half] weights of pixels floor(x) - half + 1 .. floor(x) + half; owned */
} axis;

/* Compute the taps of an axis. Given: n  pixels of the image along the axis */
static int make_axis(axis *a, int64_t n, int64_t part, int factor)
{
    const int64_t to_edge = n - 1 - n / 2 < n / 2 ? n - 1 - n / 2 : n / 2;
    const int64_t left = to_edge - part;
    *a = (axis){.half = left < MOST_WINDOW ? left : MOST_WINDOW,
                .n_fine = 2 * part * factor + 1,
                .factor = factor,
                .part = part};
    if (a->half < LEAST_WINDOW) return MSI_OK;
    MSI_TRY(msi_alloc(&a->tap, factor * 2 * a->half, sizeof *a->tap, "beam fit"));
    const double shape = kaiser_shape(a->half), peak = bessel_i0(shape);
    for (int f = 0; f < factor; f++)
        for (int64_t k = 0; k < 2 * a->half; k++) {
            const double x = (double)f / factor - (double)(k - a->half + 1), t = x / (double)a->half;
            const double sinc = x == 0 ? 1 : sin(MSI_PI * x) / (MSI_PI * x);
            a->tap[f * 2 * a->half + k] = sinc * bessel_i0(shape * sqrt(fmax(0, 1 - t * t))) / peak;
        }
    return MSI_OK;
}

/* Return the taps of a fine position, and the offset from the centre of the first pixel that they multiply. */
static const double *taps_at(const axis *a, int64_t fine, int64_t *first)
{
    const int64_t pixel = fine / a->factor, fraction = fine % a->factor;
    *first = pixel - a->part - a->half + 1;
    return a->tap + fraction * 2 * a->half;
}

static double pixel_at(const msi_image_geometry *g, const void *psf, msi_precision precision, int64_t dx, int64_t dy)
{
    for (int sign = 1; sign >= -1; sign -= 2) {
        const int64_t x = g->nx / 2 + sign * dx, y = g->ny / 2 + sign * dy;
        if (x < 0 || y < 0 || x >= g->nx || y >= g->ny) continue;
        const double value = msi_image_value(psf, precision, y * g->nx + x);
        if (isfinite(value)) return value;
    }
    return 0;
}

/*
 * psf_resample - evaluate the middle of a PSF on finer pixels.
 *
 * A PSF is a sum of cosines with frequencies below half a cycle per pixel, because samples outside the uv plane of the
 * image are dropped. By the sampling theorem it is the convolution of its pixels with sin(pi x) / (pi x). Here the sinc
 * is multiplied by a Kaiser window that does not extend beyond the edge of the image.
 *
 * Given:    geometry, psf [ny][nx]  centre at pixel (nx/2, ny/2); a NaN is replaced by the opposite pixel, or by 0
 *           part                    within the image
 * Returned: *fine [2 half_y factor + 1][2 half_x factor + 1]  to be freed with msi_free; NULL if the image is too
 *           small: the window would have fewer than 4 pixels on each side
 * Returns:  0 or MSI_ENOMEM
 * Notes:    with a window of 8 pixels the error is below 1e-5 of the sum of the cosines' moduli for frequencies up to
 *           0.28 cycles per pixel; with the widest window, 64 pixels, below 1e-9 up to 0.45 cycles per pixel.
 */
static int psf_resample(double **fine, const msi_image_geometry *g, const void *psf, msi_precision precision,
                        const msi_psf_part *part)
{
    axis x = {0}, y = {0};
    double *row = NULL, *column = NULL;
    *fine = NULL;
    int rc = make_axis(&x, g->nx, part->half_x, part->factor);
    if (!rc) rc = make_axis(&y, g->ny, part->half_y, part->factor);
    if (rc || !x.tap || !y.tap) goto out;
    /* Rows first: [n_row][x.n_fine] for the rows of pixels that the windows along y reach. */
    const int64_t n_row = 2 * (part->half_y + y.half) + 1, n_column = 2 * (part->half_x + x.half) + 1;
    if ((rc = msi_alloc(&row, n_column, sizeof *row, "beam fit"))) goto out;
    if ((rc = msi_alloc(&column, n_row * x.n_fine, sizeof *column, "beam fit"))) goto out;
    if ((rc = msi_alloc(fine, x.n_fine * y.n_fine, sizeof **fine, "beam fit"))) goto out;
    for (int64_t j = 0; j < n_row; j++) {
        for (int64_t i = 0; i < n_column; i++)
            row[i] = pixel_at(g, psf, precision, i - part->half_x - x.half, j - part->half_y - y.half);
        for (int64_t i = 0; i < x.n_fine; i++) {
            int64_t first;
            const double *tap = taps_at(&x, i, &first), *from = row + first + part->half_x + x.half;
            double sum = 0;
            for (int64_t k = 0; k < 2 * x.half; k++) sum += tap[k] * from[k];
            column[j * x.n_fine + i] = sum;
        }
    }
    for (int64_t j = 0; j < y.n_fine; j++) {
        int64_t first;
        const double *tap = taps_at(&y, j, &first), *from = column + (first + part->half_y + y.half) * x.n_fine;
        for (int64_t k = 0; k < 2 * y.half; k++)
            for (int64_t i = 0; i < x.n_fine; i++) (*fine)[j * x.n_fine + i] += tap[k] * from[k * x.n_fine + i];
    }
out:
    msi_free(x.tap);
    msi_free(y.tap);
    msi_free(row);
    msi_free(column);
    return rc;
}

/* The lobe consists of pixels that are at least this part of the peak. */
static const double THRESHOLD = 0.35;

/* The logarithm of a gaussian must decrease by at least this from the centre to the outermost pixel. A smaller decrease
 * may be rounding. */
static const double LEAST_FALL = 1e-3;

enum {
    MAX_SAMPLES = 1 << 20, /* largest number of pixels of a fit; of larger lobes only the inner part is used */
    MAX_ITERATIONS = 100,
    MAX_FINE = 1 << 22, /* pixels of a resampled PSF */
    MAX_FACTOR = 64
};

/* If a beam has fewer pixels than this across its narrow axis, the PSF is resampled to finer pixels. Without
 * resampling, the fit of a beam of 6 pixels has an error of 0.3 %. */
static const double ENOUGH_PIXELS = 64;

/* A pixel of the fit: its offset from the centre in cells of the y axis, its value relative to the peak, and its
 * weight, the part of the pixel that is in the lobe. */
typedef struct sample {
    double east, north, value, weight;
} sample;

/* The pixels of the fit. */
typedef struct lobe {
    int64_t n;
    sample *s;     /* [n] owned */
    double radius; /* radius of the outermost sample, cells */
    int cut;       /* 1: the lobe extends beyond the image */
} lobe;

/* Pixels of the lobe whose neighbours have not been examined yet. */
typedef struct pixel_queue {
    int64_t head, tail;
    int32_t (*at)[2]; /* [tail] offsets from the centre in pixels, x and y; owned */
} pixel_queue;

/* Return the value of a pixel by its offset from the centre; NaN outside the image. */
static double value_at(const msi_image_geometry *g, const void *psf, msi_precision precision, int64_t dx, int64_t dy)
{
    int64_t x = g->nx / 2 + dx, y = g->ny / 2 + dy;
    if (x < 0 || y < 0 || x >= g->nx || y >= g->ny) return NAN;
    return msi_image_value(psf, precision, y * g->nx + x);
}

/*
 * Return the part of a pixel that is above the threshold, with the values in the pixel approximated by a plane. The sum
 * of these parts changes smoothly when the lobe moves relative to the pixels.
 */
static double part_inside(const msi_image_geometry *g, const void *psf, msi_precision precision, int64_t dx, int64_t dy,
                          double centre)
{
    const double value = value_at(g, psf, precision, dx, dy) / centre;
    const double x = 0.5 * (value_at(g, psf, precision, dx + 1, dy) - value_at(g, psf, precision, dx - 1, dy)) / centre;
    const double y = 0.5 * (value_at(g, psf, precision, dx, dy + 1) - value_at(g, psf, precision, dx, dy - 1)) / centre;
    const double slope = fmax(fabs(x), fabs(y)), part = 0.5 + (value - THRESHOLD) / slope;
    return slope > 0 && isfinite(part) ? fmin(1, fmax(0, part)) : value >= THRESHOLD;
}

/* Grow the arrays for one more pixel and sample, up to `most`. Given and returned: *capacity  in pixels */
static int make_space(lobe *l, pixel_queue *q, int64_t *capacity, int64_t most)
{
    enum { FIRST = 1 << 12 };
    if (q->tail < *capacity || *capacity == most) return MSI_OK;
    const int64_t twice = *capacity ? 2 * *capacity : FIRST, larger = twice < most ? twice : most;
    MSI_TRY(msi_grow(&q->at, *capacity, larger, sizeof *q->at, "beam fit"));
    MSI_TRY(msi_grow(&l->s, *capacity, larger, sizeof *l->s, "beam fit"));
    *capacity = larger;
    return MSI_OK;
}

/*
 * Collect the lobe by a breadth-first flood fill, so that MAX_SAMPLES limits it to a circle. PSFs are point symmetric,
 * so half of the plane would suffice; but the other half costs little, and replaces NaN on one side.
 */
static int collect_lobe(lobe *l, const msi_image_geometry *g, const void *psf, msi_precision precision, double box_rad)
{
    int rc = MSI_OK;
    double centre = value_at(g, psf, precision, 0, 0);
    int64_t n_pixel = msi_image_n_pixel(g);
    const int64_t most = n_pixel < MAX_SAMPLES ? n_pixel : MAX_SAMPLES;
    int64_t capacity = 0;
    uint8_t *seen = NULL;
    pixel_queue q = {0, 0, NULL};
    /* Only the part that the lobe covers is accessed. */
    if ((rc = msi_alloc_sparse(&seen, n_pixel, 1, MAX_SAMPLES, "beam fit"))) goto out;
    if ((rc = make_space(l, &q, &capacity, most))) goto out;
    double aspect = g->cell_x_rad / g->cell_y_rad, half = box_rad > 0 ? 0.5 * box_rad / g->cell_y_rad : INFINITY;
    q.tail = 1;
    seen[(g->ny / 2) * g->nx + g->nx / 2] = 1;
    while (q.head < q.tail) {
        int32_t dx = q.at[q.head][0], dy = q.at[q.head][1];
        q.head++;
        double value = value_at(g, psf, precision, dx, dy) / centre;
        const int is_near = dx >= -1 && dx <= 1 && dy >= -1 && dy <= 1;
        const double weight = is_near ? 1 : part_inside(g, psf, precision, dx, dy, centre);
        if (weight > 0) {
            l->s[l->n++] = (sample){-dx * aspect, dy, value, weight};
            l->radius = fmax(l->radius, hypot(dx * aspect, dy));
        }
        if (value < THRESHOLD) continue;
        for (int k = 0; k < 9; k++) {
            int32_t x = dx + k % 3 - 1, y = dy + k / 3 - 1;
            double next = value_at(g, psf, precision, x, y) / centre;
            int near_centre = x >= -1 && x <= 1 && y >= -1 && y <= 1;
            int wanted = near_centre || (fabs(x * aspect) <= half && fabs((double)y) <= half);
            l->cut |= isnan(next);
            if (!isfinite(next) || !wanted || q.tail == most) continue;
            uint8_t *mark = &seen[(g->ny / 2 + y) * g->nx + g->nx / 2 + x];
            if (*mark) continue;
            if ((rc = make_space(l, &q, &capacity, most))) goto out;
            *mark = 1;
            q.at[q.tail][0] = x;
            q.at[q.tail][1] = y;
            q.tail++;
        }
    }
out:
    msi_free(q.at);
    msi_free(seen);
    return rc;
}

/* Solves m x = r. Returns: 1; 0 if there is no solution */
typedef int solver(const double m[3][3], const double r[3], double x[3]);

/* Solve the symmetric 3 x 3 system m x = r by elimination with pivoting. Return 0 if it is singular. */
static int solve_ellipse(const double m[3][3], const double r[3], double x[3])
{
    double a[3][4];
    for (int i = 0; i < 3; i++) {
        memcpy(a[i], m[i], 3 * sizeof(double));
        a[i][3] = r[i];
    }
    for (int i = 0; i < 3; i++) {
        int p = i;
        for (int k = i + 1; k < 3; k++)
            if (fabs(a[k][i]) > fabs(a[p][i])) p = k;
        if (!(fabs(a[p][i]) > 0)) return 0;
        for (int j = 0; j < 4; j++) {
            double t = a[i][j];
            a[i][j] = a[p][j];
            a[p][j] = t;
        }
        for (int k = 0; k < 3; k++) {
            if (k == i) continue;
            double f = a[k][i] / a[i][i];
            for (int j = i; j < 4; j++) a[k][j] -= f * a[i][j];
        }
    }
    for (int i = 0; i < 3; i++) x[i] = a[i][3] / a[i][i];
    return isfinite(x[0] + x[1] + x[2]);
}

/* Solve for a circle: a = c, b = 0. */
static int solve_circle(const double m[3][3], const double r[3], double x[3])
{
    const double sum = m[0][0] + m[2][2] + m[0][2] + m[2][0];
    x[0] = x[2] = (r[0] + r[2]) / sum;
    x[1] = 0;
    return sum > 0 && isfinite(x[0]);
}

/* Compute the derivatives of the quadratic form with respect to a, b and c at a sample. */
static void basis(const sample *s, double d[3])
{
    d[0] = s->east * s->east;
    d[1] = 2 * s->east * s->north;
    d[2] = s->north * s->north;
}

/* Sum the squares of the residuals of the gaussian q = (a, b, c). */
static double chi_squared(const lobe *l, const double q[3])
{
    double sum = 0, d[3];
    for (int64_t i = 0; i < l->n; i++) {
        basis(&l->s[i], d);
        double residual = l->s[i].value - exp(-(q[0] * d[0] + q[1] * d[1] + q[2] * d[2]));
        sum += l->s[i].weight * residual * residual;
    }
    return sum;
}

/* Compute starting values by a linear fit: -ln(value) is linear in the parameters. Weights of value^2 compensate for
 * the effect of the logarithm on the errors. Return 0 if there is no solution. */
static int start_values(const lobe *l, solver *solve, double q[3])
{
    double m[3][3] = {{0}}, r[3] = {0}, d[3];
    for (int64_t i = 0; i < l->n; i++) {
        double v = l->s[i].value;
        if (!(v > 0.05)) v = 0.05; /* a neighbour of the centre may be 0 or negative: keep the logarithm finite */
        const double weight = l->s[i].weight * v * v;
        basis(&l->s[i], d);
        for (int j = 0; j < 3; j++) {
            for (int k = 0; k < 3; k++) m[j][k] += weight * d[j] * d[k];
            r[j] += weight * d[j] * -log(v);
        }
    }
    return solve(m, r, q);
}

/* Improve q by Levenberg-Marquardt steps until it converges. */
static void refine_gaussian(const lobe *l, solver *solve, double q[3])
{
    double lambda = 1e-3, chi2 = chi_squared(l, q);
    for (int iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
        double m[3][3] = {{0}}, r[3] = {0}, d[3], step[3], trial[3];
        for (int64_t i = 0; i < l->n; i++) {
            basis(&l->s[i], d);
            double model = exp(-(q[0] * d[0] + q[1] * d[1] + q[2] * d[2]));
            const double residual = l->s[i].value - model, weight = l->s[i].weight * model;
            for (int j = 0; j < 3; j++) {
                for (int k = 0; k < 3; k++) m[j][k] += weight * model * d[j] * d[k];
                r[j] -= weight * d[j] * residual;
            }
        }
        for (int j = 0; j < 3; j++) m[j][j] *= 1 + lambda;
        if (!solve(m, r, step)) return;
        for (int j = 0; j < 3; j++) trial[j] = q[j] + step[j];
        double trial_chi2 = chi_squared(l, trial);
        if (!(trial_chi2 <= chi2)) {
            lambda *= 10;
            if (lambda > 1e12) return;
            continue;
        }
        memcpy(q, trial, sizeof trial);
        double size = fabs(q[0]) + fabs(q[1]) + fabs(q[2]);
        if (fabs(step[0]) + fabs(step[1]) + fabs(step[2]) < 1e-12 * size) return;
        chi2 = trial_chi2;
        lambda *= 0.1;
    }
}

/* Compute the beam of a gaussian q = (a, b, c). Return 0 if it does not fall off within the radius. */
static int beam_of(msi_beam *beam, const double q[3], double radius, double cell_rad)
{
    /* The eigenvalues of ((a, b), (b, c)) give the widths; the smaller eigenvalue gives the larger width. */
    const double mean = 0.5 * (q[0] + q[2]), spread = hypot(0.5 * (q[0] - q[2]), q[1]);
    const double steep = mean + spread, flat = mean - spread;
    if (!(flat * radius * radius > LEAST_FALL) || !isfinite(steep)) return 0;
    /* The quadratic form is smallest along the major axis, (sin pa, cos pa) in (east, north). */
    double pa = spread > 1e-12 * mean ? 0.5 * atan2(-2 * q[1], q[0] - q[2]) : 0;
    if (pa < 0) pa += MSI_PI;
    *beam = (msi_beam){sqrt(4 * log(2) / flat) * cell_rad, sqrt(4 * log(2) / steep) * cell_rad, pa < MSI_PI ? pa : 0};
    return 1;
}

/* Fit the lobe of one image. Returned: *cut  1 if the lobe extends beyond the image */
static int fit_image(msi_beam *beam, const msi_image_geometry *geometry, const void *psf, msi_precision precision,
                     const msi_psf_fit_constraints *constraints, int *cut)
{
    solver *const solve = constraints->circular ? solve_circle : solve_ellipse;
    *beam = (msi_beam){NAN, NAN, NAN};
    double centre = value_at(geometry, psf, precision, 0, 0);
    if (!(centre > 0) || !isfinite(centre))
        return msi_error_set(MSI_ERANGE, "no beam: the PSF is %g at its centre", centre);
    lobe l = {0};
    double q[3] = {0};
    int rc = collect_lobe(&l, geometry, psf, precision, constraints->box_rad);
    if (rc) goto out;
    *cut = l.cut;
    int solvable = start_values(&l, solve, q);
    if (solvable) refine_gaussian(&l, solve, q);
    if (!solvable || !beam_of(beam, q, l.radius, geometry->cell_y_rad))
        rc = msi_error_set(MSI_ERANGE,
                           "no beam: the PSF's main lobe, of %lld pixels, does not fall off in every direction",
                           (long long)l.n);
out:
    msi_free(l.s);
    return rc;
}

/*
 * Return the part of the PSF that is resampled for a beam.
 * Given: size  widths of the part, in widths of the lobe of this beam
 */
static msi_psf_part part_around(const msi_beam *beam, const msi_image_geometry *g, double size)
{
    /* A gaussian is 0.35 at a distance of 0.615 times its full width at half maximum. */
    const double reach = 0.615 * size, s = sin(beam->pa_rad), c = cos(beam->pa_rad);
    const double east = hypot(beam->major_rad * s, beam->minor_rad * c),
                 north = hypot(beam->major_rad * c, beam->minor_rad * s);
    const double narrow = beam->minor_rad / fmax(g->cell_x_rad, g->cell_y_rad);
    msi_psf_part part = {(int64_t)ceil(reach * east / g->cell_x_rad) + 1,
                         (int64_t)ceil(reach * north / g->cell_y_rad) + 1, 1};
    while (part.factor < MAX_FACTOR && part.factor * narrow < ENOUGH_PIXELS) part.factor *= 2;
    while (part.factor > 1 && (double)part.half_x * (double)part.half_y * 4 * part.factor * part.factor > MAX_FINE)
        part.factor /= 2;
    return part;
}

int msi_psf_fit(msi_beam *beam, const msi_image_geometry *geometry, const void *psf, msi_precision precision,
                const msi_psf_fit_constraints *constraints)
{
    enum { MOST_TRIES = 4 };
    int cut;
    MSI_TRY(fit_image(beam, geometry, psf, precision, constraints, &cut));
    /* The lobe of the resampled PSF may be longer than the first beam. Then resample a larger part. */
    for (int i = 0, again = 1; again && i < MOST_TRIES; i++) {
        const msi_psf_part part = part_around(beam, geometry, 1.3 * (1 << i));
        const msi_image_geometry fine = {2 * part.half_x * part.factor + 1, 2 * part.half_y * part.factor + 1,
                                         geometry->cell_x_rad / part.factor, geometry->cell_y_rad / part.factor};
        double *values = NULL;
        if (part.factor == 1) return MSI_OK;
        MSI_TRY(psf_resample(&values, geometry, psf, precision, &part));
        if (!values) return MSI_OK;
        msi_beam finer;
        const int rc = fit_image(&finer, &fine, values, MSI_FP64, constraints, &again);
        msi_free(values);
        if (rc == MSI_ENOMEM) return rc;
        if (rc) continue;
        *beam = finer;
    }
    return MSI_OK;
}

/* Collect the quarter of the box that WSClean fits. Given: width  width of the box in pixels */
static int collect_quarter(lobe *l, const msi_image_geometry *g, const void *psf, msi_precision precision,
                           int64_t width)
{
    const double centre = value_at(g, psf, precision, 0, 0), aspect = g->cell_x_rad / g->cell_y_rad;
    const int64_t nx = (width < g->nx ? width : g->nx + 1) / 2, ny = (width < g->ny ? width : g->ny + 1) / 2;
    MSI_TRY(msi_alloc(&l->s, nx * ny, sizeof *l->s, "beam fit"));
    for (int64_t y = 0; y < ny; y++)
        for (int64_t x = 0; x < nx; x++) {
            const double value = value_at(g, psf, precision, x, y) / centre;
            if (isfinite(value)) l->s[l->n++] = (sample){-(double)x * aspect, (double)y, value, 1};
        }
    l->radius = hypot((double)nx * aspect, (double)ny);
    return MSI_OK;
}

int msi_psf_fit_wsclean(msi_beam *beam, const msi_image_geometry *geometry, const void *psf, msi_precision precision,
                        double estimate_rad, double box, int circular)
{
    enum { MOST_BOXES = 5 };
    const int64_t larger = geometry->nx > geometry->ny ? geometry->nx : geometry->ny;
    double pixels = fmax(1, estimate_rad / geometry->cell_y_rad);
    if (!(box > 0)) box = 10;
    *beam = (msi_beam){NAN, NAN, NAN};
    for (int i = 0; i < MOST_BOXES; i++) {
        const int64_t width = 2 * (int64_t)ceil(0.5 * ceil(box * fmin(pixels, (double)larger)));
        const double start = 4 * log(2) / (pixels * pixels);
        double q[3] = {start, 0, start};
        lobe l = {0};
        int rc = collect_quarter(&l, geometry, psf, precision, width);
        if (!rc) refine_gaussian(&l, circular ? solve_circle : solve_ellipse, q);
        if (!rc && !beam_of(beam, q, l.radius, geometry->cell_y_rad))
            rc = msi_error_set(MSI_ERANGE,
                               "no beam: the PSF does not fall off in every direction in a box of %lld pixels",
                               (long long)width);
        msi_free(l.s);
        if (rc) return rc;
        const double major = beam->major_rad / geometry->cell_y_rad;
        if (0.8 * box * major < (double)width || width >= larger) break;
        pixels = fmax(pixels, major);
    }
    return MSI_OK;
}

int msi_restoring_beam(msi_beam *beam, msi_beam_origin *origin, const msi_beam_choice *choice, const msi_beam_psf *psf)
{
    *beam = (msi_beam){NAN, NAN, NAN};
    *origin = MSI_BEAM_NONE;
    if (msi_beam_known(&choice->given)) {
        *beam = choice->given;
        *origin = MSI_BEAM_GIVEN;
        return MSI_OK;
    }
    if (choice->theoretic) {
        if (!(psf->theoretic_rad > 0)) {
            (void)msi_error_set(MSI_ERANGE, "no beam: the longest baseline is unknown");
            return MSI_OK;
        }
        *beam = (msi_beam){psf->theoretic_rad, psf->theoretic_rad, 0};
        *origin = MSI_BEAM_THEORETIC;
        return MSI_OK;
    }
    if (choice->no_fit) return MSI_OK;
    const msi_psf_fit_constraints constraints = {choice->circular, choice->fitting_size * psf->theoretic_rad};
    const int rc = choice->rule == MSI_BEAM_WSCLEAN
                       ? msi_psf_fit_wsclean(beam, &psf->geometry, psf->pixel, psf->precision, psf->theoretic_rad,
                                             choice->fitting_size, choice->circular)
                       : msi_psf_fit(beam, &psf->geometry, psf->pixel, psf->precision, &constraints);
    if (!rc) *origin = MSI_BEAM_FITTED;
    return rc == MSI_ERANGE ? MSI_OK : rc;
}
