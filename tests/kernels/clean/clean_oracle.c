/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/kernels/clean/clean_oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t pixels(const clean_problem *p)
{
    return p->nx * p->ny;
}

double oracle_quantity(const clean_problem *p, int squared, const double *planes, int64_t i)
{
    double all = 0, squares = 0, linear = 0;
    int n = 0;
    for (int c = 0; c < p->n_channel; c++) all += p->weight[c];
    for (int k = 0; k < p->n_pol; k++) {
        double sum = 0;
        if (p->searched && !(p->searched & 1U << k)) continue;
        n++;
        for (int c = 0; c < p->n_channel; c++) {
            if (p->weight[c] == 0) continue;
            const double v = planes[(c * p->n_pol + k) * pixels(p) + i];
            sum += p->weight[c] / all * v;
            if (squared) squares += p->weight[c] / all * v * v;
        }
        if (!squared) squares += sum * sum;
        linear = sum;
    }
    return n == 1 && !squared ? linear : sqrt(squares);
}

static double key_of(double q, int no_negative)
{
    const double key = no_negative ? q : fabs(q);
    return isfinite(key) && key > 0 ? key : 0;
}

/* Solve weighted least squares by the normal equations, in long double: replace y by the fitted polynomial. */
static void fit(const clean_problem *p, int n_term, double *y)
{
    long double a[9][10] = {{0}};
    for (int c = 0; c < p->n_channel; c++) {
        const long double x = p->freq_hz[c] / p->freq_hz[0] - 1;
        for (int i = 0; i < n_term; i++) {
            for (int j = 0; j < n_term; j++) a[i][j] += p->weight[c] * powl(x, i + j);
            a[i][n_term] += p->weight[c] * powl(x, i) * (p->weight[c] > 0 ? y[c] : 0);
        }
    }
    for (int i = 0; i < n_term; i++)
        for (int k = 0; k < n_term; k++) {
            if (k == i) continue;
            const long double f = a[k][i] / a[i][i];
            for (int j = i; j <= n_term; j++) a[k][j] -= f * a[i][j];
        }
    for (int c = 0; c < p->n_channel; c++) {
        const long double x = p->freq_hz[c] / p->freq_hz[0] - 1;
        long double sum = 0;
        for (int i = 0; i < n_term; i++) sum += a[i][n_term] / a[i][i] * powl(x, i);
        y[c] = p->weight[c] > 0 ? (double)sum : 0;
    }
}

static void component_at(const clean_problem *p, const oracle_rules *r, const double *planes, double gain, int64_t i,
                         oracle_component *out)
{
    for (int k = 0; k < p->n_pol; k++) {
        double y[ORACLE_CHANNELS];
        for (int c = 0; c < p->n_channel; c++) y[c] = p->weight[c] > 0 ? planes[(c * p->n_pol + k) * pixels(p) + i] : 0;
        if (r->n_term) fit(p, r->n_term, y);
        for (int c = 0; c < p->n_channel; c++) out->value[c * p->n_pol + k] = gain * y[c];
    }
    out->x = i % p->nx;
    out->y = i / p->nx;
}

/* Subtract a component `value` times a function of about (2 hx + 1) x (2 hy + 1) pixels, with its middle at (mx,
 * my). */
typedef struct response {
    const double *value;
    int64_t nx, ny, mx, my;
} response;

static void subtract(const clean_problem *p, double *plane, const response *f, const oracle_component *at, double value,
                     int64_t patch)
{
    const int64_t wide = patch && patch < p->nx ? patch : 0, high = patch && patch < p->ny ? patch : 0;
    for (int64_t y = 0; y < p->ny; y++)
        for (int64_t x = 0; x < p->nx; x++) {
            const int64_t dx = x - at->x, dy = y - at->y, u = dx + f->mx, v = dy + f->my;
            if (u < 0 || u >= f->nx || v < 0 || v >= f->ny) continue;
            if (wide && (dx < -(wide / 2) || dx >= wide - wide / 2)) continue;
            if (high && (dy < -(high / 2) || dy >= high - high / 2)) continue;
            plane[y * p->nx + x] = fma(-value, f->value[v * f->nx + u], plane[y * p->nx + x]);
        }
}

int oracle_n_psf(const clean_problem *p)
{
    return p->n_channel * (p->grid_x > 1 ? p->grid_x : 1) * (p->grid_y > 1 ? p->grid_y : 1);
}

/* Return the first channel's response in the cell of a pixel: cells are as wide as the image over their number. */
static const response *responses_at(const clean_problem *p, const response *all, const oracle_component *at)
{
    const int n_x = p->grid_x > 1 ? p->grid_x : 1, n_y = p->grid_y > 1 ? p->grid_y : 1;
    int column = 0, row = 0;
    while ((column + 1) * p->nx <= at->x * n_x) column++;
    while ((row + 1) * p->ny <= at->y * n_y) row++;
    return all + (row * n_x + column) * p->n_channel;
}

static void subtract_all(const clean_problem *p, double *planes, const response *all, const oracle_component *c,
                         int64_t patch)
{
    const response *of_channel = responses_at(p, all, c);
    for (int k = 0; k < p->n_channel * p->n_pol; k++)
        if (p->weight[k / p->n_pol] > 0)
            subtract(p, planes + k * pixels(p), &of_channel[k / p->n_pol], c, c->value[k], patch);
}

static void psf_responses(const clean_problem *p, response *out)
{
    for (int c = 0; c < oracle_n_psf(p); c++)
        out[c] = (response){p->psf + c * pixels(p), p->nx, p->ny, p->nx / 2, p->ny / 2};
}

/* Find the pixel of the largest quantity where allow is set; -1: none. */
static int64_t peak_of(const clean_problem *p, const oracle_rules *r, const double *planes, const uint8_t *allow,
                       double *key)
{
    int64_t best = -1;
    *key = 0;
    for (int64_t i = 0; i < pixels(p); i++) {
        if (allow && !allow[i]) continue;
        const double q = oracle_quantity(p, r->squared, planes, i) * (p->factor ? p->factor[i] : 1);
        const double k = key_of(q, r->no_negative);
        if (k > *key) {
            *key = k;
            best = i;
        }
    }
    return best;
}

static void add_model(clean_problem *p, const oracle_component *c)
{
    for (int k = 0; k < p->n_channel * p->n_pol; k++) p->model[k * pixels(p) + c->y * p->nx + c->x] += c->value[k];
}

static double threshold_of(const oracle_rules *r, double peak)
{
    return fmax(r->threshold, r->mgain > 0 ? peak * (1 - r->mgain) : 0);
}

int64_t oracle_hogbom(clean_problem *p, const oracle_rules *r, oracle_component *out)
{
    response f[ORACLE_PSFS];
    double key, threshold = -1;
    int64_t n = 0;
    psf_responses(p, f);
    for (; n < r->n_iteration; n++) {
        const int64_t i = peak_of(p, r, p->residual, p->mask, &key);
        if (threshold < 0) threshold = threshold_of(r, key);
        if (i < 0 || key <= threshold) break;
        out[n].scale = 0;
        component_at(p, r, p->residual, r->gain, i, &out[n]);
        add_model(p, &out[n]);
        subtract_all(p, p->residual, f, &out[n], r->patch);
    }
    return n;
}

/* List the pixels at or above a threshold. Returns their number. */
static int64_t list_of(const clean_problem *p, const oracle_rules *r, const double *planes, const uint8_t *allow,
                       double threshold, uint8_t *in)
{
    int64_t n = 0;
    for (int64_t i = 0; i < pixels(p); i++) {
        const double q = oracle_quantity(p, r->squared, planes, i) * (p->factor ? p->factor[i] : 1);
        in[i] = (!allow || allow[i]) && key_of(q, r->no_negative) >= threshold && key_of(q, r->no_negative) > 0;
        n += in[i];
    }
    return n;
}

int64_t oracle_list(clean_problem *p, const oracle_rules *r, oracle_component *out)
{
    const size_t bytes = (size_t)(pixels(p) * p->n_channel * p->n_pol) * sizeof(double);
    response f[ORACLE_PSFS];
    uint8_t *in = malloc((size_t)pixels(p));
    double *work = malloc(bytes), key, threshold = -1;
    int64_t n = 0;
    psf_responses(p, f);
    for (;;) {
        peak_of(p, r, p->residual, p->mask, &key);
        if (threshold < 0) threshold = threshold_of(r, key);
        if (key <= threshold || n == r->n_iteration) break;
        list_of(p, r, p->residual, p->mask, threshold, in);
        memcpy(work, p->residual, bytes);
        for (; n < r->n_iteration; n++) {
            const int64_t i = peak_of(p, r, work, in, &key);
            if (i < 0 || key <= threshold) break;
            out[n].scale = 0;
            component_at(p, r, work, r->gain, i, &out[n]);
            add_model(p, &out[n]);
            subtract_all(p, work, f, &out[n], 0);
        }
        memcpy(p->residual, work, bytes);
    }
    free(in);
    free(work);
    return n;
}

/* Compute the full linear convolution: out is (f->nx + 2 half) wide, and as much higher. */
static response convolve_full(const response *f, const double *kernel, int64_t half)
{
    response out = {NULL, f->nx + 2 * half, f->ny + 2 * half, f->mx + half, f->my + half};
    double *value = calloc((size_t)(out.nx * out.ny), sizeof *value);
    for (int64_t y = 0; y < f->ny; y++)
        for (int64_t x = 0; x < f->nx; x++) {
            const double v = f->value[y * f->nx + x];
            if (v == 0) continue;
            for (int64_t b = 0; b <= 2 * half; b++)
                for (int64_t a = 0; a <= 2 * half; a++)
                    value[(y + b) * out.nx + x + a] += v * kernel[b * (2 * half + 1) + a];
        }
    out.value = value;
    return out;
}

/* Compute the convolution cut to the image. */
static void convolve_image(const clean_problem *p, const double *plane, const double *kernel, int64_t half, double *out)
{
    const response in = {plane, p->nx, p->ny, 0, 0}, all = convolve_full(&in, kernel, half);
    for (int64_t y = 0; y < p->ny; y++)
        memcpy(out + y * p->nx, all.value + (y + half) * all.nx + half, (size_t)p->nx * sizeof *out);
    free((void *)all.value);
}

void oracle_convolve(const clean_problem *p, const double *in, const double *psf, double *out)
{
    memset(out, 0, (size_t)pixels(p) * sizeof *out);
    const response f = {psf, p->nx, p->ny, p->nx / 2, p->ny / 2};
    for (int64_t i = 0; i < pixels(p); i++) {
        const oracle_component at = {.x = i % p->nx, .y = i / p->nx};
        if (in[i] != 0) subtract(p, out, &f, &at, -in[i], 0);
    }
}

/* A scale and the values derived from it. */
typedef struct scale {
    int64_t half, border;
    double *kernel, bias, gain;
    response once[ORACLE_PSFS], twice[ORACLE_PSFS];
    double key;
    int active, idle; /* idle: rounds in a row that did not lower its peak; after three it is left out */
} scale;

static void make_kernel(const oracle_rules *r, double width, scale *s)
{
    s->border = (int64_t)ceil(width / 2);
    s->half = width == 0 ? 0 : (int64_t)ceil(r->gaussian ? 6 * (3 * width / 16) : width / 2);
    const int64_t n = 2 * s->half + 1;
    s->kernel = calloc((size_t)(n * n), sizeof *s->kernel);
    double sum = 0;
    for (int64_t i = 0; i < n * n; i++) {
        const double d = hypot((double)(i % n - s->half), (double)(i / n - s->half));
        if (width == 0)
            s->kernel[i] = 1;
        else if (r->gaussian)
            s->kernel[i] = exp(-d * d / (2 * pow(3 * width / 16, 2)));
        else if (2 * d <= (double)n + 1 && d < width)
            s->kernel[i] = (1 - d * d / (width * width)) * (1 + cos(2 * acos(-1) * d / ((double)n + 1))) / 2;
        sum += s->kernel[i];
    }
    for (int64_t i = 0; i < n * n; i++) s->kernel[i] /= sum;
}

static void make_scale(const clean_problem *p, const oracle_rules *r, int i, scale *s)
{
    double all = 0, peak = 0;
    make_kernel(r, r->scale[i], s);
    response f[ORACLE_PSFS];
    psf_responses(p, f);
    for (int c = 0; c < p->n_channel; c++) all += p->weight[c];
    /* Gains are those of the cell with the middle pixel. */
    const oracle_component centre = {.x = p->nx / 2, .y = p->ny / 2};
    for (int c = 0; c < oracle_n_psf(p); c++) {
        s->once[c] = convolve_full(&f[c], s->kernel, s->half);
        response twice = convolve_full(&s->once[c], s->kernel, s->half);
        /* A list is cleaned with PSFs of the image's size. */
        double *cut = calloc((size_t)pixels(p), sizeof *cut);
        for (int64_t y = 0; y < p->ny; y++)
            memcpy(cut + y * p->nx, twice.value + (y + 2 * s->half) * twice.nx + 2 * s->half,
                   (size_t)p->nx * sizeof *cut);
        free((void *)twice.value);
        s->twice[c] = (response){cut, p->nx, p->ny, p->nx / 2, p->ny / 2};
    }
    const response *middle = responses_at(p, s->once, &centre);
    for (int c = 0; c < p->n_channel; c++)
        peak += p->weight[c] / all * middle[c].value[middle[c].my * middle[c].nx + middle[c].mx];
    s->bias = i ? pow(r->bias, -log2(r->scale[i] / (2 * r->beam))) : 1;
    s->gain = i ? r->gain / peak : r->gain;
    s->active = 1;
    s->idle = 0;
}

static void free_scale(const clean_problem *p, scale *s)
{
    for (int c = 0; c < oracle_n_psf(p); c++) {
        free((void *)s->once[c].value);
        free((void *)s->twice[c].value);
    }
    free(s->kernel);
}

/* Compute the pixels in which a scale may be found: none nearer to the border than half its width. */
static void allow_scale(const clean_problem *p, int64_t half, uint8_t *allow)
{
    for (int64_t i = 0; i < pixels(p); i++) {
        const int64_t x = i % p->nx, y = i / p->nx;
        allow[i] = x >= half && x < p->nx - half && y >= half && y < p->ny - half && (!p->mask || p->mask[i]);
    }
}

static void convolve_planes(const clean_problem *p, const scale *s, double *out)
{
    for (int k = 0; k < p->n_channel * p->n_pol; k++)
        convolve_image(p, p->residual + k * pixels(p), s->kernel, s->half, out + k * pixels(p));
}

/* Clean one scale's list down to a biased threshold. */
static int64_t clean_scale(clean_problem *p, const oracle_rules *r, int i, const scale *s, double down,
                           oracle_component *out, int64_t n)
{
    const size_t bytes = (size_t)(pixels(p) * p->n_channel * p->n_pol) * sizeof(double);
    double *work = malloc(bytes), key;
    uint8_t *allow = malloc((size_t)pixels(p)), *in = malloc((size_t)pixels(p));
    const int64_t first = n;
    convolve_planes(p, s, work);
    allow_scale(p, s->border, allow);
    list_of(p, r, work, allow, down / s->bias, in);
    for (; n < r->n_iteration; n++) {
        const int64_t at = peak_of(p, r, work, in, &key);
        if (at < 0 || key <= down / s->bias) break;
        out[n].scale = i;
        component_at(p, r, work, s->gain, at, &out[n]);
        subtract_all(p, work, s->twice, &out[n], 0);
    }
    for (int64_t k = first; k < n; k++) {
        subtract_all(p, p->residual, s->once, &out[k], 0);
        const response blob = {s->kernel, 2 * s->half + 1, 2 * s->half + 1, s->half, s->half};
        for (int plane = 0; plane < p->n_channel * p->n_pol; plane++)
            subtract(p, p->model + plane * pixels(p), &blob, &out[k], -out[k].value[plane], 0);
    }
    free(work);
    free(allow);
    free(in);
    return n;
}

/* By power: compute the pixels in which a scale may be found: those where at least a part of its kernel is within the
 * mask. */
static void allow_within(const clean_problem *p, const scale *s, double part, uint8_t *allow)
{
    const response kernel = {s->kernel, 2 * s->half + 1, 2 * s->half + 1, s->half, s->half};
    allow_scale(p, s->border, allow);
    for (int64_t i = 0; i < pixels(p) && p->mask && s->half; i++) {
        double within = 0;
        for (int64_t k = 0; k < kernel.nx * kernel.ny; k++) {
            const int64_t x = i % p->nx + k % kernel.nx - s->half, y = i / p->nx + k / kernel.nx - s->half;
            if (x >= 0 && x < p->nx && y >= 0 && y < p->ny && p->mask[y * p->nx + x]) within += s->kernel[k];
        }
        const int64_t x = i % p->nx, y = i / p->nx;
        allow[i] = within > part && x >= s->border && x < p->nx - s->border && y >= s->border && y < p->ny - s->border;
    }
}

/* (P * K * K)(0) of the joined PSF. */
static double power_of(const clean_problem *p, const scale *s)
{
    double all = 0, power = 0;
    for (int c = 0; c < p->n_channel; c++) all += p->weight[c];
    for (int c = 0; c < p->n_channel; c++)
        power += p->weight[c] / all * s->twice[c].value[s->twice[c].my * s->twice[c].nx + s->twice[c].mx];
    return power;
}

/* Subtract a component from the residual, and add it to the model. */
static void take(clean_problem *p, const scale *s, const oracle_component *at)
{
    const response blob = {s->kernel, 2 * s->half + 1, 2 * s->half + 1, s->half, s->half};
    subtract_all(p, p->residual, s->once, at, 0);
    for (int plane = 0; plane < p->n_channel * p->n_pol; plane++)
        subtract(p, p->model + plane * pixels(p), &blob, at, -at->value[plane], 0);
}

/* Solve h c = r of n equations by Gaussian elimination; h is symmetric and positive definite. */
static void solve(int n, const double *h, const double *r, double *c)
{
    double a[ORACLE_TERMS][ORACLE_TERMS + 1];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) a[i][j] = h[i + j];
        a[i][n] = r[i];
    }
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const double factor = k == i ? 0 : a[k][i] / a[i][i];
            for (int j = 0; j <= n && k != i; j++) a[k][j] -= factor * a[i][j];
        }
    for (int i = 0; i < n; i++) c[i] = a[i][n] / a[i][i];
}

/*
 * By terms: R_t = sum of w x^t times the channels' residuals, H_tq = sum of w x^(t+q) times the channels' (P * K * K)(0),
 * x = frequency over that of the first channel, less 1.
 */
typedef struct terms {
    int n;
    double h[2 * ORACLE_TERMS], power[ORACLE_TERMS][ORACLE_CHANNELS], factor[ORACLE_TERMS][ORACLE_CHANNELS];
} terms;

static terms terms_of(const clean_problem *p, const scale *s, int n_term)
{
    terms of = {.n = n_term};
    double all = 0;
    for (int c = 0; c < p->n_channel; c++) all += p->weight[c];
    for (int c = 0; c < p->n_channel; c++) {
        const double x = p->freq_hz[c] / p->freq_hz[0] - 1,
                     in_middle = s->twice[c].value[s->twice[c].my * s->twice[c].nx + s->twice[c].mx];
        for (int t = 0; t < 2 * n_term - 1; t++) of.h[t] += p->weight[c] / all * pow(x, t) * in_middle;
        for (int t = 0; t < n_term; t++) of.factor[t][c] = p->weight[c] / all * (of.power[t][c] = pow(x, t));
    }
    return of;
}

/*
 * Compute the sum over polarisations of c_t R_t at a pixel, with c = H^-1 R: by how much a component of unit gain lowers
 * the squares.
 * Returned: value  the component in each plane, unless NULL
 */
static double squares_of_terms(const clean_problem *p, const terms *of, const double *planes, int64_t i, double *value)
{
    double squares = 0;
    for (int pol = 0; pol < p->n_pol; pol++) {
        double r[ORACLE_TERMS] = {0}, term[ORACLE_TERMS];
        for (int c = 0; c < p->n_channel; c++)
            for (int t = 0; t < of->n; t++) r[t] += of->factor[t][c] * planes[(c * p->n_pol + pol) * pixels(p) + i];
        solve(of->n, of->h, r, term);
        for (int t = 0; t < of->n; t++) squares += term[t] * r[t];
        for (int c = 0; c < p->n_channel && value; c++) {
            value[c * p->n_pol + pol] = 0;
            for (int t = 0; t < of->n; t++) value[c * p->n_pol + pol] += term[t] * of->power[t][c];
        }
    }
    return squares;
}

/* By terms: find the pixel whose component lowers the squares most, and its component. Returns: by how much */
static double best_of_terms(const clean_problem *p, const oracle_rules *r, const scale *s, const double *planes,
                            const uint8_t *allow, oracle_component *out)
{
    const terms of = terms_of(p, s, r->n_term);
    int64_t at = -1;
    double best = 0;
    for (int64_t i = 0; i < pixels(p); i++) {
        const double squares = allow[i] ? squares_of_terms(p, &of, planes, i, NULL) : 0;
        if (squares <= best) continue;
        best = squares;
        at = i;
    }
    if (at < 0) return 0;
    out->x = at % p->nx;
    out->y = at / p->nx;
    squares_of_terms(p, &of, planes, at, out->value);
    for (int k = 0; k < p->n_channel * p->n_pol; k++) out->value[k] *= r->gain;
    return best;
}

int64_t oracle_cornwell(clean_problem *p, const oracle_rules *r, oracle_component *out)
{
    scale s[ORACLE_SCALES];
    const size_t bytes = (size_t)(pixels(p) * p->n_channel * p->n_pol) * sizeof(double);
    double *work = malloc(bytes), threshold = -1, power[ORACLE_SCALES], key;
    uint8_t *allow[ORACLE_SCALES];
    int64_t n = 0;
    for (int i = 0; i < r->n_scale; i++) {
        make_scale(p, r, i, &s[i]);
        s[i].border = (int64_t)(0.75 * r->scale[i]) + 1; /* tclean's: 1.5 times its scale, a radius, and one more */
        if (r->of_taylor && !i) s[i].border = 0;
        allow_within(p, &s[i], r->of_taylor ? 0.1 : 0.9, allow[i] = malloc((size_t)pixels(p)));
        power[i] = power_of(p, &s[i]);
    }
    for (; n < r->n_iteration; n++) {
        double best = 0, strength = 0, points = 0;
        for (int i = 0; i < r->n_scale; i++) {
            convolve_planes(p, &s[i], work);
            const int64_t at = peak_of(p, r, work, allow[i], &key);
            if (!i) points = key;
            const int by_terms = r->of_taylor && r->n_term > 1;
            oracle_component of_terms = {.scale = i};
            const double bias = 1 - r->small_scale_bias * r->scale[i] / r->scale[r->n_scale - 1];
            const double squares =
                bias * (by_terms ? best_of_terms(p, r, &s[i], work, allow[i], &of_terms) : key * key / power[i]);
            if (threshold < 0) threshold = threshold_of(r, key);
            if (at < 0 || squares <= best) continue;
            best = squares;
            strength = key / power[i];
            out[n].scale = i;
            component_at(p, r, work, r->gain / power[i], at, &out[n]);
            if (by_terms) out[n] = of_terms;
        }
        if ((r->of_taylor ? points : strength) <= threshold) break;
        take(p, &s[out[n].scale], &out[n]);
    }
    for (int i = 0; i < r->n_scale; i++) {
        free_scale(p, &s[i]);
        free(allow[i]);
    }
    free(work);
    return n;
}

/* Choose the scale of the largest biased peak. */
static int choose(const clean_problem *p, const oracle_rules *r, scale *s, double *work, uint8_t *allow)
{
    int best = -1;
    for (int i = 0; i < r->n_scale; i++) {
        if (!s[i].active) continue;
        convolve_planes(p, &s[i], work);
        allow_scale(p, s[i].border, allow);
        peak_of(p, r, work, allow, &s[i].key);
        if (best < 0 || s[i].key * s[i].bias > s[best].key * s[best].bias) best = i;
    }
    return best;
}

int64_t oracle_multiscale(clean_problem *p, const oracle_rules *r, oracle_component *out)
{
    scale s[ORACLE_SCALES];
    double *work = malloc((size_t)(pixels(p) * p->n_channel * p->n_pol) * sizeof *work);
    uint8_t *allow = malloc((size_t)pixels(p));
    int64_t n = 0;
    int last = 0;
    for (int i = 0; i < r->n_scale; i++) make_scale(p, r, i, &s[i]);
    int best = choose(p, r, s, work, allow);
    const double threshold = threshold_of(r, s[best].key * s[best].bias);
    const int most = (int)fmax(8, ceil(1.5 * r->n_scale));
    while (best >= 0 && s[best].key * s[best].bias > threshold && last < most && n < r->n_iteration) {
        const double peak = s[best].key * s[best].bias, part = peak * (1 - r->scale_gain);
        const int chosen = best;
        const int64_t before = n;
        last += part <= threshold;
        n = clean_scale(p, r, chosen, &s[chosen], fmax(part, threshold), out, n);
        for (int i = 0; i < r->n_scale; i++)
            s[i].active = s[i].idle < 3 && (i == chosen || s[i].key * s[i].bias > (1 - r->gain) * peak);
        best = choose(p, r, s, work, allow);
        if (n == before)
            s[chosen].idle = 3;
        else
            s[chosen].idle = s[chosen].key * s[chosen].bias > 0.999 * peak ? s[chosen].idle + 1 : 0;
        if (s[chosen].idle < 3) continue;
        for (int i = 0; i < r->n_scale; i++) s[i].active = s[i].idle < 3;
        best = choose(p, r, s, work, allow);
    }
    for (int i = 0; i < r->n_scale; i++) free_scale(p, &s[i]);
    free(work);
    free(allow);
    return n;
}
