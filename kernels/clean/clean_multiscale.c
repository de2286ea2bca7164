/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The method `multiscale`, after A. R. Offringa and O. Smirnov, MNRAS 471, 301 (2017). A round:
 *
 * 1. The joined residual is convolved to each scale.
 * 2. The scale of the largest biased peak is cleaned down to a fraction of it as a list, on residuals convolved once
 *    and with PSFs convolved twice with the scale's kernel.
 * 3. The components are subtracted from the residual and added to the model.
 *
 * Transforms are larger than the image, so that convolutions do not wrap: slightly larger for convolutions with kernels
 * (narrow), and 1.5 times as large for convolutions with PSFs (wide). The models of scales above 0 are summed as
 * spectra during a call, and transformed back once at its end.
 *
 * The rule MSI_CLEAN_BY_POWER follows T. J. Cornwell, IEEE J. Sel. Top. Signal Process. 2, 793 (2008) and CASA's
 * tclean. It chooses the scale and pixel whose component reduces the sum of squares of the residual most. A peak's key
 * times the bias of its scale is (R * K) / sqrt(P * K * K); at scale 0 it is the residual. tclean chooses again for
 * every component. This method does the same if scale_gain is so small that a list has one pixel. Cleaning ends when
 * the component of the chosen scale is at or below the threshold, in Jy.
 *
 * Taylor terms follow tclean's mtmfs (MultiTermMatrixCleaner.cc of CASA 6) in the masks of scales, the end and the
 * choice. The chosen component of all terms reduces the squares most: R^T H^-1 R is largest, with R_t = sum_k g_k x_k^t
 * R_k (shares g_k, powers of the frequency x_k) and the scale's Hessian H_tq = sum_k g_k x_k^(t+q) (P_k * K * K)(0).
 * With H = L L^T this is the square of the length of L^-1 R, whose elements are sums over channels, one for each term.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "kernels/clean/clean_state.h"
#include "kernels/clean/clean_tiles.h"

/* A peak above this factor times the first one means that cleaning diverges. A wide scale's peak may rise above the
 * first one without divergence: if points are cleaned in the middle of a wide source after wider scales, the peak is
 * not updated meanwhile, and is raised by its bias. The next rounds lower it again; on a real set they did so from 2.2
 * times the first peak. If cleaning really diverges, the peak soon exceeds any factor. */
static const double DIVERGED = 4;

/* A scale is left out if its peak does not fall in this many rounds in a row; it would be chosen forever. One round may
 * raise the peak, where sidelobes of the list add up, and the next one lowers it again. */
enum { MOST_IDLE = 3 };
static const double IDLE = 0.999;

/* The smallest edge of a kernel for which threads are started. */
enum { WORTH_THREADS = 128 };

struct msi_clean_multiscale {
    int64_t n_narrow; /* complex numbers of a narrow spectrum */
    double bias[MSI_CLEAN_MAX_SCALE], gain[MSI_CLEAN_MAX_SCALE];
    double power[MSI_CLEAN_MAX_SCALE]; /* (P * K * K)(0); 1 at scale 0 */
    int64_t half[MSI_CLEAN_MAX_SCALE]; /* half widths of kernels */
    void *psf[MSI_CLEAN_MAX_SCALE];    /* [n_cell][n_channel] twice convolved images */
    int has_psf[MSI_CLEAN_MAX_SCALE];
    void *fit[MSI_CLEAN_MAX_SCALE]; /* with spec.of_taylor: fits for the scales' PSFs; NULL: the setup's fit */
    int used[MSI_CLEAN_MAX_SCALE];  /* 0: left out because the PSF has no response to it; gain and bias are not set */
    void *searched[MSI_CLEAN_MAX_PLANE]; /* narrow spectra of the searched images */
    void *planes, *mean;                 /* [n_plane], [n_sum][n_pol] images */
    void *sums;                          /* [n_sum][n_channel] by terms: the factors of channels in the sums R_t */
    void *rows_of_sums[MSI_CLEAN_MAX_SCALE],
        *rows[MSI_CLEAN_MAX_SCALE];                      /* by terms: L^-1, of the sums and of channels */
    msi_clean_tiles *tiles;                              /* NULL: no call can use them */
    msi_clean_tiles_scale of_tiles[MSI_CLEAN_MAX_SCALE]; /* by terms: rows on the host; the rest for tiles */
    int has_hessian[MSI_CLEAN_MAX_SCALE];
    void *best;                         /* the joined image of the best scale so far */
    uint8_t *mask[MSI_CLEAN_MAX_SCALE]; /* by power: pixels where scales above 0 may be found */
    void *model[MSI_CLEAN_MAX_PLANE];   /* wide spectra, each in its worker's memory */
    int has_model;
};

/* The state of a scale during rounds. */
typedef struct scale_state {
    int active; /* 1: the peak is updated in this round; 0: it comes from an earlier round */
    int n_idle; /* rounds in a row that did not lower its peak; after MOST_IDLE the scale is left out until the next
                   call */
    msi_clean_peak peak;
} scale_state;

/* ---- Biases and kernels of scales (A. R. Offringa and O. Smirnov, MNRAS 471, 301 (2017), section 3) ------------- */

/*
 * Return the factor that multiplies a peak of R * K at scale i > 0 for comparison: bias^-log2(s / (2 beam)), or by
 * power.
 * Given: power  (P * K * K)(0) at that scale
 */
static double scale_bias_of(const msi_cleaner_spec *s, int i, double power)
{
    if (s->scale_rule == MSI_CLEAN_BY_POWER)
        return sqrt((1 - s->small_scale_bias * s->scale[i] / s->scale[s->n_scale - 1]) / power);
    return pow(s->scale_bias, -log2(s->scale[i] / (2 * s->beam_pixel)));
}

/* Count the pixels from a kernel's middle to its edge. */
static int64_t kernel_half(const msi_cleaner_spec *s, int i)
{
    const int64_t most = ((s->nx < s->ny ? s->nx : s->ny) - 1) / 2;
    const double reach = s->shape == MSI_CLEAN_GAUSSIAN ? 6 * 3 * s->scale[i] / 16 : s->scale[i] / 2;
    const int64_t half = (int64_t)ceil(reach);
    return half < most ? half : most;
}

static double tapered_quadratic(double r, double s, double n)
{
    if (2 * r > n + 1 || r >= s) return 0;
    return 0.5 * (1 + cos(2 * MSI_PI * r / (n + 1))) * (1 - r / s * (r / s));
}

/* F. R. Schwab's rational approximation of the zero-order spheroidal wave function for m = 6, alpha = 1, in Indirect
 * Imaging, ed. J. A. Roberts (1984), 333. */
static double spheroidal(double v)
{
    static const double P[2][5] = {{8.203343e-2, -3.644705e-1, 6.278660e-1, -5.335581e-1, 2.312756e-1},
                                   {4.028559e-3, -3.697768e-2, 1.021332e-1, -1.201436e-1, 6.412774e-2}};
    static const double Q[2][3] = {{1, 8.212018e-1, 2.078043e-1}, {1, 9.599102e-1, 2.918724e-1}};
    const int part = v >= 0.75;
    const double end = part ? 1 : 0.75, d = v * v - end * end;
    double p = 0, q = 0;
    for (int k = 4; k >= 0; k--) p = p * d + P[part][k];
    for (int k = 2; k >= 0; k--) q = q * d + Q[part][k];
    return p / q;
}

static double tapered_spheroidal(double v)
{
    return v < 1 ? (1 - v * v) * spheroidal(v) : 0;
}

/* Return the kernel of scale i at a distance in pixels, without its normalisation. Given: n  edge of the kernel */
static double kernel_value(const msi_cleaner_spec *s, int i, double r2, int64_t n)
{
    const double width = s->scale[i], sigma = 3 * width / 16;
    if (width == 0) return r2 == 0;
    if (s->shape == MSI_CLEAN_GAUSSIAN) return exp(-0.5 * r2 / (sigma * sigma));
    if (s->shape == MSI_CLEAN_SPHEROIDAL) return tapered_spheroidal(2 * sqrt(r2) / width);
    return tapered_quadratic(sqrt(r2), width, (double)n);
}

/* Make the kernel of scale i, which is symmetric. Returned: kernel [2 half + 1][2 half + 1], of sum 1 */
static void sample_kernel(const msi_cleaner_spec *s, int i, double *kernel)
{
    const int64_t half = kernel_half(s, i), n = 2 * half + 1;
    double sum = 0;
#pragma omp parallel for schedule(dynamic, 4) if (n > WORTH_THREADS)
    for (int64_t y = 0; y <= half; y++)
        for (int64_t x = 0; x <= half; x++) {
            const double dx = (double)(x - half), dy = (double)(y - half),
                         value = kernel_value(s, i, dx * dx + dy * dy, n);
            kernel[y * n + x] = kernel[y * n + n - 1 - x] = value;
            kernel[(n - 1 - y) * n + x] = kernel[(n - 1 - y) * n + n - 1 - x] = value;
        }
    for (int64_t k = 0; k < n * n; k++) sum += kernel[k];
    for (int64_t k = 0; k < n * n; k++) kernel[k] /= sum;
}

/* ---- PSFs and images of scales ---------------------------------------------------------------------------------- */

typedef struct rounds {
    msi_clean_call *call;
    scale_state scale[MSI_CLEAN_MAX_SCALE];
    msi_clean_peak points;  /* by terms: of the mean over channels */
    int n_last;             /* rounds that went down to the threshold */
    msi_clean_tiles *tiles; /* NULL: whole images are searched */
    int last;               /* the scale of the last round, -1: none */
} rounds;

static int64_t largest_half(const msi_cleaner *c)
{
    return kernel_half(&c->spec, c->spec.n_scale - 1);
}

static int64_t wide_edge(const msi_cleaner *c, int64_t n)
{
    return msi_clean_padded(n, largest_half(c));
}

static int64_t narrow_edge(const msi_cleaner *c, int64_t n)
{
    return msi_fft_size(n + largest_half(c));
}

static int by_power(const msi_cleaner *c)
{
    return c->spec.scale_rule == MSI_CLEAN_BY_POWER;
}

/* Return whether scales and pixels are chosen by terms, as in tclean's mtmfs. This quantity has no sign, so it cannot
 * be used with options that need one. */
static int by_terms(const msi_cleaner *c)
{
    const msi_cleaner_spec *s = &c->spec;
    return by_power(c) && s->of_taylor && s->fit == MSI_CLEAN_FIT_POLYNOMIAL && s->n_term > 1 && !s->squared_join &&
           !c->setup.join.no_negative && !s->stop_negative;
}

/* The largest half width of a kernel for which tiles are used. Tiles are convolved pixel by pixel; for wider kernels
 * transforms of whole images are faster. */
enum { TILES_HALF = 48 };

/* Return whether tiles are searched, not whole images: by terms, with an engine in host memory. */
static int fits_tiles(const msi_cleaner *c)
{
    const msi_cleaner_spec *s = &c->spec;
    return c->ops->on_host && by_terms(c) && s->n_pol == 1 && c->n_cell == 1 && s->shape != MSI_CLEAN_GAUSSIAN &&
           largest_half(c) <= TILES_HALF && s->nx >= 6 * largest_half(c) && s->ny >= 6 * largest_half(c);
}

/* Return the number of sums over channels from which a quantity is joined, for each polarisation; 0 if it is joined
 * from channels. */
static int n_sum(const msi_cleaner *c)
{
    return c->spec.squared_join ? 0 : by_terms(c) ? c->spec.n_term : 1;
}

/* Return the number of images that are convolved to join a quantity: the sums over channels, or all planes for squared
 * channels. */
static int n_joined(const msi_cleaner *c)
{
    return c->spec.squared_join ? c->n_plane : n_sum(c) * c->spec.n_pol;
}

/* Sample the kernel of scale i in the cleaner's precision. Returned: *out [2 half + 1][2 half + 1], freed by
 * msi_free */
static int kernel_pixels(const msi_cleaner *c, int i, void **out)
{
    const int64_t edge = 2 * kernel_half(&c->spec, i) + 1, n = edge * edge;
    double *kernel;
    *out = NULL;
    MSI_TRY(msi_alloc(&kernel, n, sizeof *kernel, "a scale's kernel"));
    sample_kernel(&c->spec, i, kernel);
    if (c->spec.precision == MSI_FP64) {
        *out = kernel;
        return MSI_OK;
    }
    const int rc = msi_alloc(out, n, sizeof(float), "a scale's kernel");
    for (int64_t k = 0; k < n && !rc; k++) ((float *)*out)[k] = (float)kernel[k];
    msi_free(kernel);
    return rc;
}

/* Make the transforms of a scale's kernel on all devices. */
static int make_kernel(msi_cleaner *c, int scale)
{
    const msi_clean_engine_ops *o = c->ops;
    void *kernel;
    int rc = MSI_OK;
    MSI_TRY(kernel_pixels(c, scale, &kernel));
    for (int i = 0; i < c->n_worker && !rc; i++) {
        msi_clean_worker *w = &c->worker[i];
        void *image = i ? w->image : c->quantity;
        rc = o->clear(w->e, image, c->n_pixel * c->real_bytes);
        if (!rc) rc = o->upload_middle(w->e, image, kernel, 2 * c->multiscale->half[scale] + 1);
        if (!rc) rc = o->forward(w->e, w->wide, image, 0, MSI_CLEAN_MIDDLE, w->kernel_wide[scale]);
        if (!rc) rc = o->forward(w->e, w->narrow, image, 0, MSI_CLEAN_MIDDLE, w->kernel_narrow[scale]);
    }
    msi_free(kernel);
    return rc;
}

/* Allocate the spectra of a scale's kernel on all devices. */
static int allocate_kernel(msi_cleaner *c, int scale)
{
    const int64_t wide = c->n_wide * c->complex_bytes, narrow = c->multiscale->n_narrow * c->complex_bytes;
    for (int i = 0; i < c->n_worker; i++) {
        msi_clean_worker *w = &c->worker[i];
        MSI_TRY(c->ops->alloc_paged(w->e, &w->kernel_wide[scale], wide, "kernels of scales"));
        MSI_TRY(c->ops->alloc_paged(w->e, &w->kernel_narrow[scale], narrow, "kernels of scales"));
    }
    return MSI_OK;
}

static int make_kernels(msi_cleaner *c)
{
    for (int s = 1; s < c->spec.n_scale; s++) {
        c->multiscale->half[s] = kernel_half(&c->spec, s);
        MSI_TRY(allocate_kernel(c, s));
        MSI_TRY(make_kernel(c, s));
    }
    return MSI_OK;
}

/* Make each worker's narrow transform. */
static int make_narrow(msi_cleaner *c)
{
    const int64_t nx = narrow_edge(c, c->spec.nx), ny = narrow_edge(c, c->spec.ny);
    int64_t *n = &c->multiscale->n_narrow;
    for (int i = 0; i < c->n_worker; i++) {
        msi_clean_worker *w = &c->worker[i];
        MSI_TRY(c->ops->fft_create(w->e, nx, ny, &w->narrow, n));
        MSI_TRY(c->ops->alloc(w->e, &w->narrow_work, *n * c->complex_bytes, "a transform"));
    }
    return MSI_OK;
}

static void release_workers(msi_cleaner *c)
{
    for (int i = 0; i < c->n_worker; i++) {
        msi_clean_worker *w = &c->worker[i];
        c->ops->release(w->e, w->narrow_work);
        for (int s = 0; s < MSI_CLEAN_MAX_SCALE; s++) {
            c->ops->release(w->e, w->kernel_wide[s]);
            c->ops->release(w->e, w->kernel_narrow[s]);
        }
        c->ops->fft_free(w->e, w->narrow);
    }
    msi_clean_free_wide(c);
}

static int allocate_arrays(msi_cleaner *c)
{
    const msi_clean_engine_ops *o = c->ops;
    msi_clean_multiscale *m = c->multiscale;
    const int64_t image = c->n_pixel * c->real_bytes, wide = c->n_wide * c->complex_bytes;
    const int64_t narrow = m->n_narrow * c->complex_bytes;
    for (int i = 0; i < n_joined(c); i++) MSI_TRY(o->alloc(c->e, &m->searched[i], narrow, "a transform"));
    for (int i = 0; i < c->n_plane; i++)
        MSI_TRY(o->alloc_paged(msi_clean_worker_of(c, i)->e, &m->model[i], wide, "transforms of models"));
    MSI_TRY(o->alloc_paged(c->e, &m->planes, image * c->n_plane, "convolved residuals"));
    MSI_TRY(o->alloc(c->e, &m->mean, image * (n_sum(c) ? n_joined(c) : c->spec.n_pol), "the joined image"));
    for (int s = 1; s < c->spec.n_scale && by_power(c); s++)
        MSI_TRY(o->alloc(c->e, (void **)&m->mask[s], c->n_pixel, "a scale's mask"));
    if (fits_tiles(c)) MSI_TRY(msi_clean_tiles_create(&m->tiles, c, m->mean));
    return o->alloc(c->e, &m->best, image, "the joined image");
}

static int prepare_scales(msi_cleaner *c)
{
    MSI_TRY(msi_alloc(&c->multiscale, 1, sizeof *c->multiscale, "scales"));
    MSI_TRY(msi_clean_make_wide(c, wide_edge(c, c->spec.nx), wide_edge(c, c->spec.ny)));
    MSI_TRY(make_narrow(c));
    MSI_TRY(allocate_arrays(c));
    return make_kernels(c);
}

static void release_scales(msi_cleaner *c)
{
    msi_clean_multiscale *m = c->multiscale;
    const msi_clean_engine_ops *o = c->ops;
    release_workers(c);
    if (!m) return;
    for (int i = 0; i < MSI_CLEAN_MAX_SCALE; i++) {
        void *all[] = {m->psf[i], m->fit[i], m->rows_of_sums[i], m->rows[i], m->mask[i]};
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) o->release(c->e, all[k]);
    }
    for (int i = 0; i < MSI_CLEAN_MAX_PLANE; i++) {
        o->release(c->e, m->searched[i]);
        if (m->model[i]) o->release(msi_clean_worker_of(c, i)->e, m->model[i]);
    }
    void *all[] = {m->planes, m->mean, m->best, m->sums};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) o->release(c->e, all[i]);
    msi_clean_tiles_free(m->tiles);
    msi_free(m);
}

static int64_t bytes(const msi_cleaner *c)
{
    const int64_t wide = (wide_edge(c, c->spec.nx) / 2 + 8) * wide_edge(c, c->spec.ny);
    const int64_t narrow = (narrow_edge(c, c->spec.nx) / 2 + 8) * narrow_edge(c, c->spec.ny);
    const int64_t n_scale = c->spec.n_scale, n_psf = (int64_t)c->n_cell * c->spec.n_channel;
    const int64_t images = c->n_plane + (n_sum(c) ? n_joined(c) : c->spec.n_pol) + 1 + (n_scale - 1) * n_psf;
    return c->complex_bytes * (wide * (n_scale + n_psf + c->n_plane) + narrow * (n_scale + n_joined(c))) +
           c->ops->fft_bytes(&c->setup, wide_edge(c, c->spec.nx), wide_edge(c, c->spec.ny)) +
           c->ops->fft_bytes(&c->setup, narrow_edge(c, c->spec.nx), narrow_edge(c, c->spec.ny)) +
           images * c->n_pixel * c->real_bytes + (by_power(c) ? (n_scale - 1) * c->n_pixel : 0) +
           (fits_tiles(c) ? msi_clean_tiles_bytes(c, largest_half(c)) : 0);
}

/* All except one transform and the PSFs of one scale may be paged out. */
static int64_t paged_bytes(const msi_cleaner *c)
{
    const int64_t wide = (wide_edge(c, c->spec.nx) / 2 + 8) * wide_edge(c, c->spec.ny);
    const int64_t narrow = (narrow_edge(c, c->spec.nx) / 2 + 8) * narrow_edge(c, c->spec.ny);
    const int64_t n_kernel = c->spec.n_scale - 1, n_psf = n_kernel > 1 ? n_kernel - 1 : 0;
    return c->complex_bytes * (wide * (n_kernel + c->n_cell * c->spec.n_channel + c->n_plane - 1) + narrow * n_kernel) +
           (c->n_plane + n_psf * c->n_cell * c->spec.n_channel) * c->n_pixel * c->real_bytes;
}

/* Host memory for a kernel, and for the middles of a PSF and of the joined PSF. */
static int64_t while_bytes(const msi_cleaner *c)
{
    const int64_t n = 2 * largest_half(c) + 1;
    return n * n * (2 * (int64_t)sizeof(double) + c->real_bytes);
}

/* Compute (P * K)(0) in double precision: the sum over the kernel's pixels. Given: psf  the middle of the joined PSF,
 * as large as the largest kernel */
static double central_value(const msi_cleaner *c, const double *psf, const double *kernel, int64_t half)
{
    const int64_t n = 2 * half + 1, all = 2 * largest_half(c) + 1, first = largest_half(c) - half;
    double sum = 0;
    for (int64_t y = 0; y < n; y++)
        for (int64_t x = 0; x < n; x++) sum += psf[(first + y) * all + first + x] * kernel[y * n + x];
    return sum;
}

/* Compute (P * K)(0) of the joined PSF at each scale. */
static int find_peaks(const msi_cleaner *c, double peak[MSI_CLEAN_MAX_SCALE])
{
    const int64_t edge = 2 * largest_half(c) + 1, n = edge * edge;
    double *kernel, *joined = NULL;
    void *psf = NULL;
    memset(peak, 0, MSI_CLEAN_MAX_SCALE * sizeof *peak);
    MSI_TRY(msi_alloc(&kernel, n, sizeof *kernel, "a scale's kernel"));
    int rc = msi_alloc(&psf, n, (size_t)c->real_bytes, "the PSF");
    if (!rc) rc = msi_alloc(&joined, n, sizeof *joined, "the PSF");
    for (int i = 0; i < c->spec.n_channel && !rc; i++) {
        const int64_t at = c->middle_cell * c->spec.n_channel + i;
        const double share = c->setup.share[i];
        if (share == 0) continue;
        rc = c->ops->download_middle(c->e, psf, (char *)c->psf + at * c->n_pixel * c->real_bytes, edge);
        for (int64_t k = 0; k < n && !rc; k++) joined[k] += share * msi_image_value(psf, c->spec.precision, k);
    }
    for (int s = 0; s < c->spec.n_scale && !rc; s++) {
        sample_kernel(&c->spec, s, kernel);
        peak[s] = central_value(c, joined, kernel, kernel_half(&c->spec, s));
    }
    msi_free(joined);
    msi_free(psf);
    msi_free(kernel);
    return rc;
}

/* Get the middle of a channel's PSF of a scale, (P * K * K)(0), in the middle cell. */
static int fetch_middle(msi_cleaner *c, int scale, int channel, double *value)
{
    const int64_t middle = c->spec.ny / 2 * c->spec.nx + c->spec.nx / 2;
    const int64_t plane = c->middle_cell * c->spec.n_channel + channel;
    const int64_t at = (plane * c->n_pixel + middle) * c->real_bytes;
    union {
        float single;
        double wide;
    } p;
    MSI_TRY(c->ops->download(c->e, &p, (char *)c->multiscale->psf[scale] + at, c->real_bytes));
    *value = c->spec.precision == MSI_FP32 ? (double)p.single : p.wide;
    return MSI_OK;
}

/*
 * By terms: make the rows of a scale from the channels' responses to it. If the Hessian cannot be inverted, the scale
 * is compared by the mean over channels.
 */
static int make_rows(msi_cleaner *c, int scale, const double *response)
{
    msi_clean_multiscale *m = c->multiscale;
    const int n = c->spec.n_channel, n_term = c->spec.n_term;
    msi_clean_taylor_rows *rows = &m->of_tiles[scale].rows;
    if (!by_terms(c)) return MSI_OK;
    c->ops->release(c->e, m->rows_of_sums[scale]);
    c->ops->release(c->e, m->rows[scale]);
    m->rows_of_sums[scale] = m->rows[scale] = NULL;
    m->has_hessian[scale] = msi_clean_taylor_rows_make(rows, n_term, n, c->freq_hz, c->setup.share, response);
    memcpy(m->of_tiles[scale].response, response, (size_t)n * sizeof *response);
    MSI_TRY(msi_clean_upload_matrix(c, &m->sums, rows->sums, (int64_t)n_term * n));
    MSI_TRY(msi_clean_upload_matrix(c, &m->rows_of_sums[scale], rows->inverse, (int64_t)n_term * n_term));
    return msi_clean_upload_matrix(c, &m->rows[scale], rows->rows, (int64_t)n_term * n);
}

/* Make the fit of a scale, and its rows, from the responses of channels to it. */
static int make_scale_fit(msi_cleaner *c, int scale)
{
    msi_clean_multiscale *m = c->multiscale;
    const int64_t n = c->spec.n_channel;
    double response[MSI_CLEAN_CHANNELS], *fit;
    c->ops->release(c->e, m->fit[scale]);
    m->fit[scale] = NULL;
    for (int i = 0; i < n; i++) MSI_TRY(fetch_middle(c, scale, i, &response[i]));
    MSI_TRY(make_rows(c, scale, response));
    MSI_TRY(msi_alloc(&fit, n * n, sizeof *fit, "a spectral fit"));
    memcpy(fit, c->fit, (size_t)(n * n) * sizeof *fit);
    int rc = msi_clean_fit_of_scale(c, response, fit);
    if (!rc) rc = msi_clean_upload_matrix(c, &m->fit[scale], fit, n * n);
    msi_free(fit);
    return rc;
}

/* The arguments of work on the planes of a scale. */
typedef struct scale_work {
    msi_cleaner *c;
    msi_clean_call *call; /* NULL for PSFs */
    int scale;
    msi_clean_planes planes; /* convolved residuals */
} scale_work;

/* Convolve the PSF of a channel in a cell twice with the scale's kernel. */
static int convolve_psf(void *of, msi_clean_worker *w, int plane)
{
    const scale_work *work = of;
    const msi_cleaner *c = work->c;
    const int scale = work->scale, channel = plane / c->spec.n_pol;
    if (plane % c->spec.n_pol) return MSI_OK;
    for (int64_t i = channel; i < (int64_t)c->n_cell * c->spec.n_channel; i += c->spec.n_channel) {
        void *to = (char *)c->multiscale->psf[scale] + i * c->n_pixel * c->real_bytes, *own = w->image ? w->image : to;
        MSI_TRY(c->ops->product(w->e, w->wide, w->psf_hat[i], w->kernel_wide[scale], 1, w->work));
        MSI_TRY(c->ops->inverse(w->e, w->wide, w->work, MSI_CLEAN_MIDDLE, MSI_CLEAN_SET, own));
        MSI_TRY(msi_clean_give_back(c, w, to));
    }
    return MSI_OK;
}

/* Make the PSFs of a scale's list when it is first chosen. */
static int make_scale_psf(msi_cleaner *c, int scale)
{
    msi_clean_multiscale *m = c->multiscale;
    const int64_t image = c->n_pixel * c->real_bytes, n = (int64_t)c->n_cell * c->spec.n_channel;
    scale_work work = {.c = c, .scale = scale};
    if (!scale || m->has_psf[scale]) return MSI_OK;
    if (!m->psf[scale]) MSI_TRY(c->ops->alloc_paged(c->e, &m->psf[scale], image * n, "PSFs of scales"));
    MSI_TRY(msi_clean_share(c, c->n_plane, convolve_psf, &work));
    if (c->spec.of_taylor && c->spec.fit == MSI_CLEAN_FIT_POLYNOMIAL) MSI_TRY(make_scale_fit(c, scale));
    m->has_psf[scale] = 1;
    return MSI_OK;
}

/* Compute (P * K * K)(0) of the joined PSF at a scale above 0. */
static int find_power(msi_cleaner *c, int scale, double *power)
{
    MSI_TRY(make_scale_psf(c, scale));
    *power = 0;
    for (int i = 0; i < c->spec.n_channel; i++) {
        double value;
        if (c->setup.share[i] == 0) continue;
        MSI_TRY(fetch_middle(c, scale, i, &value));
        *power += c->setup.share[i] * value;
    }
    return MSI_OK;
}

/* Choose the gain and the bias of a scale above 0, or leave the scale out. Without short baselines the PSF has little
 * response to a wide kernel. Then (P * K)(0) may be negative, or so small that a component removes more than the
 * residual contains: its flux is the gain times the peak over (P * K)(0), and gain (P * K * K)(0) > (P * K)(0). */
static int choose_gain(msi_cleaner *c, int scale, double peak)
{
    /* Below this response components consist of rounding errors of the PSF. */
    static const double LEAST_RESPONSE = 1e-6;
    /* If (P * K)(0) is above this, the condition on the gain is met, because (P * K * K)(0) is at most about 1e-3 where
     * (P * K)(0) passes through zero. */
    static const double SMALL = 1e-3;
    msi_clean_multiscale *m = c->multiscale;
    double power = 1, response = peak;
    m->used[scale] = peak > LEAST_RESPONSE;
    if (!m->used[scale]) return MSI_OK;
    if (by_power(c) || peak < SMALL) MSI_TRY(find_power(c, scale, &power));
    if (by_power(c)) {
        response = power;
        m->used[scale] = power > LEAST_RESPONSE;
    } else if (peak < SMALL) {
        m->used[scale] = c->spec.gain * power < peak;
    }
    m->power[scale] = power;
    m->gain[scale] = c->spec.gain / response;
    /* By terms the power is in the rows. */
    m->bias[scale] = scale_bias_of(&c->spec, scale, by_terms(c) ? 1 : power);
    return MSI_OK;
}

/* Set the gain and the bias of points, or leave them out if the specification requires it. */
static int choose_gain_of_points(msi_cleaner *c, double peak)
{
    msi_clean_multiscale *m = c->multiscale;
    if (!(peak > 0)) return msi_error_set(MSI_EINPUT, "the joined PSF has no peak in the middle: %g", peak);
    m->used[0] = !c->spec.no_points;
    m->power[0] = m->bias[0] = 1;
    m->gain[0] = c->spec.gain;
    double response[MSI_CLEAN_CHANNELS];
    for (int k = 0; k < c->spec.n_channel; k++) response[k] = 1;
    return make_rows(c, 0, response);
}

/* Log the scales that are left out. */
static void report_unused(const msi_cleaner *c)
{
    char text[MSI_CLEAN_MAX_SCALE * 16] = "";
    for (int s = 1; s < c->spec.n_scale; s++) {
        const size_t n = strlen(text);
        if (!c->multiscale->used[s]) snprintf(text + n, sizeof text - n, "%s%.4g", n ? ", " : "", c->spec.scale[s]);
    }
    if (*text)
        msi_log_info("scales left out because the point spread function has no response to them (too few short "
                     "baselines): %s pixels",
                     text);
}

/* ---- Tiles ------------------------------------------------------------------------------------------------------ */

/* Describe the scales to the tiles. */
static int set_tiles(msi_cleaner *c)
{
    msi_clean_multiscale *m = c->multiscale;
    const int64_t n = 2 * largest_half(c) + 1;
    double *kernel;
    int rc = MSI_OK;
    MSI_TRY(msi_alloc(&kernel, n * n, sizeof *kernel, "a scale's kernel"));
    for (int s = 0; s < c->spec.n_scale && !rc; s++) {
        msi_clean_tiles_scale *o = &m->of_tiles[s];
        o->used = m->used[s];
        o->half = m->half[s];
        o->kernel_wide = c->worker[0].kernel_wide[s];
        o->rows_of_sums = m->rows_of_sums[s];
        o->kernel = s ? kernel : NULL;
        if (s) sample_kernel(&c->spec, s, kernel);
        rc = msi_clean_tiles_set(m->tiles, s, o);
    }
    msi_free(kernel);
    return rc;
}

static int set_psf(msi_cleaner *c, int cell)
{
    msi_clean_multiscale *m = c->multiscale;
    double peak[MSI_CLEAN_MAX_SCALE];
    for (int s = 0; s < c->spec.n_scale; s++) m->has_psf[s] = 0;
    MSI_TRY(msi_clean_transform_psf(c, cell));
    if (cell != c->middle_cell) return MSI_OK;
    MSI_TRY(find_peaks(c, peak));
    MSI_TRY(choose_gain_of_points(c, peak[0]));
    int any = c->multiscale->used[0];
    for (int s = 1; s < c->spec.n_scale; s++) {
        MSI_TRY(choose_gain(c, s, peak[s]));
        any |= m->used[s];
    }
    report_unused(c);
    if (m->tiles) MSI_TRY(set_tiles(c));
    if (any) return MSI_OK;
    return msi_error_about(msi_error_set(MSI_EINPUT, "the point spread function has no response to any of the scales; "
                                                     "use smaller ones, or 0"),
                           "scale");
}

/* Make the masks of scales above 0: pixels where enough of a component lies within the mask. */
static int make_masks(msi_clean_call *call)
{
    msi_cleaner *c = call->c;
    const double within = c->spec.of_taylor ? 0.1 : 0.9; /* tclean's mtmfs and multiscale */
    msi_clean_multiscale *m = c->multiscale;
    const msi_clean_worker *w = &c->worker[0];
    if (!by_power(c) || !c->has_mask || c->spec.n_scale < 2) return MSI_OK;
    MSI_TRY(c->ops->mask_to_image(c->e, c->mask, c->quantity));
    MSI_TRY(c->ops->forward(c->e, w->narrow, c->quantity, 0, MSI_CLEAN_CORNER, m->searched[0]));
    for (int s = 1; s < c->spec.n_scale; s++) {
        MSI_TRY(c->ops->product(c->e, w->narrow, m->searched[0], w->kernel_narrow[s], 0, w->narrow_work));
        MSI_TRY(c->ops->inverse(c->e, w->narrow, w->narrow_work, MSI_CLEAN_CORNER, MSI_CLEAN_SET, c->quantity));
        MSI_TRY(c->ops->threshold(c->e, c->quantity, within, 0, m->mask[s]));
    }
    call->scale_mask = m->mask;
    return MSI_OK;
}

/* Convolve the searched images to a scale, into consecutive images. */
static int convolve_searched(msi_cleaner *c, int scale, void *out)
{
    const msi_clean_multiscale *m = c->multiscale;
    const msi_clean_worker *w = &c->worker[0];
    for (int i = 0; i < n_joined(c); i++) {
        if (!msi_clean_plane_searched(c, i)) continue;
        MSI_TRY(c->ops->product(c->e, w->narrow, m->searched[i], w->kernel_narrow[scale], 0, w->narrow_work));
        MSI_TRY(c->ops->inverse(c->e, w->narrow, w->narrow_work, MSI_CLEAN_CORNER, MSI_CLEAN_SET,
                                (char *)out + i * c->n_pixel * c->real_bytes));
    }
    return MSI_OK;
}

/* Return the width in pixels of the border in which a scale is not found: half the scale's width. By power it is 1.5
 * times as much and one pixel more, as observed in tclean; so a point is not found at the edge itself, except by
 * mtmfs. */
static int64_t border_of(const msi_cleaner *c, int scale)
{
    const double half_width = c->spec.scale[scale] / 2;
    if (c->spec.of_taylor && !scale) return 0;
    return (int64_t)(by_power(c) ? floor(1.5 * half_width) + 1 : ceil(half_width));
}

/* Make the joined image of a scale in c->quantity, and find its peak. */
static int search_scale(msi_clean_call *call, int scale, msi_clean_peak *peak)
{
    msi_cleaner *c = call->c;
    msi_clean_multiscale *m = c->multiscale;
    msi_clean_search search = {c->quantity, NULL};
    msi_clean_joined from = {n_sum(c) ? m->mean : call->residual.pixel, n_sum(c) ? c->n_pixel : call->residual.stride,
                             n_sum(c), m->rows_of_sums[scale]};
    if (scale) {
        MSI_TRY(convolve_searched(c, scale, m->planes));
        from.planes = m->planes;
        from.stride = c->n_pixel;
    }
    MSI_TRY(msi_clean_allow_scale(call, scale, border_of(c, scale), &search.allow));
    MSI_TRY(c->ops->join(c->e, &from, msi_clean_factor_of(call), c->quantity));
    return c->ops->peak(c->e, &search, peak);
}

/* By terms: find the peak of the mean over channels, to which thresholds refer. */
static int search_points(msi_clean_call *call, msi_clean_peak *peak)
{
    msi_cleaner *c = call->c;
    const msi_clean_joined mean = {.planes = c->multiscale->mean, .stride = c->n_pixel, .n_sum = 1};
    msi_clean_search search = {c->quantity, NULL};
    MSI_TRY(msi_clean_allow_scale(call, 0, border_of(c, 0), &search.allow));
    MSI_TRY(c->ops->join(c->e, &mean, msi_clean_factor_of(call), c->quantity));
    return c->ops->peak(c->e, &search, peak);
}

/* Make the sums of a polarisation's channels in m->mean: their mean, and by terms the sums with powers of frequency. */
static int make_sums(const msi_clean_call *call, int pol)
{
    msi_cleaner *c = call->c;
    void *out = (char *)c->multiscale->mean + pol * c->n_pixel * c->real_bytes;
    if (!by_terms(c)) return c->ops->mean(c->e, call->residual.pixel, call->residual.stride, pol, out);
    const msi_clean_map map = {.in = msi_clean_plane(c, &call->residual, pol),
                               .in_stride = call->residual.stride * c->spec.n_pol,
                               .n_in = c->spec.n_channel,
                               .out = out,
                               .out_stride = c->n_pixel * c->spec.n_pol,
                               .n_out = c->spec.n_term,
                               .matrix = c->multiscale->sums};
    return c->ops->map(c->e, &map);
}

/* Return the biased peak of a scale, by which scales are compared. */
static double biased(const msi_cleaner *c, const rounds *r, int scale)
{
    return r->scale[scale].peak.key * c->multiscale->bias[scale];
}

/* Make the sums that are searched, and their transforms. */
static int prepare_search(const msi_clean_call *call)
{
    msi_cleaner *c = call->c;
    msi_clean_multiscale *m = c->multiscale;
    for (int p = 0; p < c->spec.n_pol && n_sum(c); p++)
        if (msi_clean_plane_searched(c, p)) MSI_TRY(make_sums(call, p));
    const msi_clean_planes from = n_sum(c) ? (msi_clean_planes){m->mean, c->n_pixel} : call->residual;
    for (int i = 0; i < n_joined(c) && c->spec.n_scale > 1; i++) {
        if (!msi_clean_plane_searched(c, i)) continue;
        MSI_TRY(c->ops->forward(c->e, c->worker[0].narrow, msi_clean_plane(c, &from, i), 0, MSI_CLEAN_CORNER,
                                m->searched[i]));
    }
    return MSI_OK;
}

/* Compute all tiles of all scales. */
static int begin_tiles(msi_clean_call *call)
{
    msi_cleaner *c = call->c;
    msi_clean_multiscale *m = c->multiscale;
    MSI_TRY(prepare_search(call));
    msi_clean_tiles_applied(m->tiles);
    for (int s = 0; s < c->spec.n_scale; s++) {
        msi_clean_joined from = {msi_clean_tiles_convolved(m->tiles, s), c->n_pixel, n_sum(c), m->rows_of_sums[s]};
        const uint8_t *allow;
        if (!m->used[s]) continue;
        if (s) MSI_TRY(convolve_searched(c, s, msi_clean_tiles_convolved(m->tiles, s)));
        MSI_TRY(c->ops->join(c->e, &from, NULL, msi_clean_tiles_key(m->tiles, s)));
        MSI_TRY(msi_clean_allow_scale(call, s, border_of(c, s), &allow));
        msi_clean_tiles_begin(m->tiles, s, allow);
    }
    msi_clean_tiles_begin(m->tiles, c->spec.n_scale, NULL);
    return MSI_OK;
}

/* Find the best of all active scales by tiles. Its peak and the peak of the last round's scale are exact. Peaks of
 * other scales may be bounds. */
static int choose_by_tiles(rounds *r, int *best)
{
    msi_cleaner *c = r->call->c;
    msi_clean_tiles *tiles = r->tiles;
    msi_clean_tiles_peak(tiles, c->spec.n_scale, 0, &r->points);
    *best = -1;
    for (int s = 0; s < c->spec.n_scale; s++) {
        if (!r->scale[s].active) continue;
        MSI_TRY(msi_interrupt_check());
        const double least = *best < 0 || s == r->last ? 0 : biased(c, r, *best) / c->multiscale->bias[s];
        msi_clean_tiles_peak(tiles, s, least, &r->scale[s].peak);
        if (*best < 0 || biased(c, r, s) > biased(c, r, *best)) *best = s;
    }
    return MSI_OK;
}

/* Find the peaks of all active scales. *best becomes the scale with the largest peak, or -1 if none is active. Its
 * joined image is in c->multiscale->best; with tiles it is the scale's image. */
static int choose_scale(rounds *r, int *best)
{
    msi_clean_call *call = r->call;
    msi_cleaner *c = call->c;
    msi_clean_multiscale *m = c->multiscale;
    if (r->tiles) return choose_by_tiles(r, best);
    MSI_TRY(prepare_search(call));
    if (by_terms(c)) MSI_TRY(search_points(call, &r->points));
    *best = -1;
    for (int s = 0; s < c->spec.n_scale; s++) {
        if (!r->scale[s].active) continue;
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(search_scale(call, s, &r->scale[s].peak));
        if (*best >= 0 && biased(c, r, s) <= biased(c, r, *best)) continue;
        void *image = m->best;
        m->best = c->quantity;
        c->quantity = image;
        *best = s;
    }
    return MSI_OK;
}

/* Convolve a plane of the residual to a scale. */
static int convolve_residual(void *of, msi_clean_worker *w, int plane)
{
    const scale_work *work = of;
    const msi_cleaner *c = work->c;
    void *to = msi_clean_plane(c, &work->planes, plane), *own;
    if (!msi_clean_plane_has_weight(c, plane)) return MSI_OK;
    MSI_TRY(msi_clean_borrow(c, w, msi_clean_plane(c, &work->call->residual, plane), &own));
    MSI_TRY(c->ops->forward(w->e, w->narrow, own, 0, MSI_CLEAN_CORNER, w->narrow_work));
    MSI_TRY(c->ops->product(w->e, w->narrow, w->narrow_work, w->kernel_narrow[work->scale], 0, w->narrow_work));
    MSI_TRY(
        c->ops->inverse(w->e, w->narrow, w->narrow_work, MSI_CLEAN_CORNER, MSI_CLEAN_SET, w->image ? w->image : to));
    return msi_clean_give_back(c, w, to);
}

/* Convolve all residuals to a scale, into *planes. */
static int convolve_residuals(msi_clean_call *call, int scale, msi_clean_planes *planes)
{
    msi_cleaner *c = call->c;
    *planes = call->residual;
    if (!scale) return MSI_OK;
    *planes = (msi_clean_planes){c->multiscale->planes, c->n_pixel};
    scale_work work = {c, call, scale, *planes};
    if (c->spec.squared_join && !c->spec.search_pol) return convolve_searched(c, scale, planes->pixel);
    return msi_clean_share(c, c->n_plane, convolve_residual, &work);
}

/* Subtract a scale's list from a plane of the residual; above scale 0 add it to the model's spectrum. */
static int subtract_plane(void *of, msi_clean_worker *w, int plane)
{
    const scale_work *work = of;
    const msi_clean_scale_spectra spectra = {w->kernel_wide[work->scale], work->c->multiscale->model[plane]};
    if (!msi_clean_plane_has_weight(work->c, plane)) return MSI_OK;
    return msi_clean_subtract_list(work->call, w, plane, work->scale ? &spectra : NULL);
}

/* Subtract a scale's list from the residual; add it to the model at scale 0, else to the model's spectra. */
static int apply_list(msi_clean_call *call, int scale)
{
    msi_cleaner *c = call->c;
    scale_work work = {.c = c, .call = call, .scale = scale};
    MSI_TRY(msi_clean_share(c, c->n_plane, subtract_plane, &work));
    for (int k = 0; k < c->n_plane && !scale; k++)
        if (msi_clean_plane_has_weight(c, k)) MSI_TRY(c->ops->deposit(c->e, k, msi_clean_plane(c, &call->model, k)));
    c->multiscale->has_model |= scale > 0;
    return c->ops->mark(c->e, c->found, scale);
}

/* Subtract the components that tiles keep from the residual. */
static int apply_tiles(msi_clean_call *call)
{
    msi_clean_tiles *tiles = call->c->multiscale->tiles;
    for (int s = 0; s < call->c->spec.n_scale; s++)
        if (msi_clean_tiles_restore(tiles, s)) MSI_TRY(apply_list(call, s));
    msi_clean_tiles_applied(tiles);
    return MSI_OK;
}

/* Add a list's components to the tiles. If there are too many, all are subtracted from the residual, and the tiles are
 * started again. */
static int keep_list(msi_clean_call *call, int scale)
{
    if (msi_clean_tiles_take(call->c->multiscale->tiles, scale)) return MSI_OK;
    MSI_TRY(apply_list(call, scale));
    MSI_TRY(apply_tiles(call));
    return begin_tiles(call);
}

/* Clean one scale down to the biased peak `down`. *n becomes the number of iterations, *end the reason for the loop's
 * end. */
static int run_scale(rounds *r, int scale, double down, msi_clean_end *end, int64_t *n)
{
    msi_clean_call *call = r->call;
    msi_cleaner *c = call->c;
    msi_clean_multiscale *m = c->multiscale;
    msi_clean_search search = {r->tiles ? msi_clean_tiles_key(r->tiles, scale) : m->best, NULL};
    const double threshold = msi_clean_rounded(c, down / m->bias[scale]);
    const msi_clean_range range = {threshold, r->scale[scale].peak.key};
    msi_clean_planes planes;
    msi_clean_looped done;
    MSI_TRY(make_scale_psf(c, scale));
    msi_clean_loop loop = {.psf = scale ? m->psf[scale] : c->psf,
                           .fit = m->fit[scale],
                           .rows = m->rows[scale],
                           .n_row = c->spec.n_term,
                           .psf_id = c->psf_id + scale,
                           .gain = m->gain[scale],
                           .stop_negative = c->spec.stop_negative,
                           .diverged = DIVERGED * call->peak_first / m->bias[scale]};
    call->scale = scale;
    if (r->tiles) {
        MSI_TRY(msi_clean_tiles_respond(r->tiles, scale));
        msi_clean_tiles_refresh(r->tiles, scale, threshold);
        MSI_TRY(msi_clean_select_list(call, &search, range, &loop.threshold));
        msi_clean_tiles_load(r->tiles, scale);
    } else {
        MSI_TRY(msi_clean_allow_scale(call, scale, border_of(c, scale), &search.allow));
        MSI_TRY(convolve_residuals(call, scale, &planes));
        MSI_TRY(msi_clean_make_list(call, &search, &planes, range, &loop.threshold));
    }
    MSI_TRY(msi_clean_iterate(call, &loop, c->ops->list_loop, &done, n));
    *end = done.end;
    call->report->n_round++;
    r->last = scale;
    return r->tiles ? keep_list(call, scale) : apply_list(call, scale);
}

/* Return the number of idle rounds that are allowed. By power a round may have a single component, and another pixel
 * may then have an equally high peak. */
static int most_idle(const rounds *r)
{
    return by_power(r->call->c) ? 100 : MOST_IDLE;
}

static int is_stuck(const rounds *r, int scale)
{
    return r->scale[scale].n_idle >= most_idle(r);
}

static int can_take_part(const rounds *r, int scale)
{
    return r->call->c->multiscale->used[scale] && !is_stuck(r, scale);
}

/* Activate the scales whose last known peaks are near the peak of the scale chosen for this round. Others are activated
 * when that peak has fallen to theirs. */
static void activate(const msi_cleaner *c, rounds *r, int chosen)
{
    const double near = biased(c, r, chosen) * (1 - c->spec.gain);
    for (int s = 0; s < c->spec.n_scale; s++)
        r->scale[s].active = can_take_part(r, s) && (s == chosen || biased(c, r, s) > near || by_power(c));
}

/* Choose among all scales that are not stuck. */
static int choose_of_all(rounds *r, int *best)
{
    for (int s = 0; s < r->call->c->spec.n_scale; s++) r->scale[s].active = can_take_part(r, s);
    return choose_scale(r, best);
}

/* By power: return the peak of points, to which thresholds refer. */
static const msi_clean_peak *peak_of_points(const rounds *r)
{
    return by_terms(r->call->c) ? &r->points : &r->scale[0].peak;
}

/* Return the peak of the best scale for the report; by power that of points. */
static msi_clean_peak reported(const msi_cleaner *c, const rounds *r, int best)
{
    msi_clean_peak peak = {0, 0, 0, 0};
    if (best < 0) return peak;
    if (by_power(c)) return *peak_of_points(r);
    peak = r->scale[best].peak;
    peak.key *= c->multiscale->bias[best];
    peak.value *= c->multiscale->bias[best];
    return peak;
}

/* Return the biased peak at which a scale's component is at the threshold. */
static double least_of(const rounds *r, int scale)
{
    const msi_clean_multiscale *m = r->call->c->multiscale;
    const double threshold = r->call->report->threshold;
    return by_power(r->call->c) ? threshold * m->power[scale] * m->bias[scale] : threshold;
}

/* Return whether the peak of points decides when cleaning ends, for any chosen scale: by power with Taylor terms. */
static int ends_by_points(const msi_cleaner *c)
{
    return by_power(c) && c->spec.of_taylor;
}

/* Return 1 if the chosen scale must be cleaned. */
static int is_above(const rounds *r, int best)
{
    if (ends_by_points(r->call->c)) return peak_of_points(r)->key > r->call->report->threshold;
    return biased(r->call->c, r, best) > least_of(r, best);
}

/* Return the limit down to which a round may clean; by power, the first rounds clean all scales to the threshold of
 * points. */
static double floor_of(const rounds *r, int scale)
{
    const double threshold = r->call->report->threshold;
    if (ends_by_points(r->call->c)) return 0;
    return biased(r->call->c, r, scale) > threshold ? threshold : least_of(r, scale);
}

/* Run rounds until the biased peak is at the threshold. The number of rounds that clean down to the threshold is
 * limited, because each leaves only a few pixels to the next. */
static int run_rounds(rounds *r, int *best, msi_clean_end *end)
{
    msi_clean_call *call = r->call;
    msi_cleaner *c = call->c;
    const int most = by_power(c) ? INT_MAX : (int)fmax(8, ceil(1.5 * c->spec.n_scale));
    while (*end == MSI_CLEAN_END_BELOW && *best >= 0 && is_above(r, *best) && r->n_last < most) {
        const double least = floor_of(r, *best);
        const double part = biased(c, r, *best) * (1 - c->spec.scale_gain), before = biased(c, r, *best);
        const int chosen = *best;
        int64_t n;
        r->n_last += part <= least;
        MSI_TRY(run_scale(r, chosen, part > least ? part : least, end, &n));
        activate(c, r, chosen);
        MSI_TRY(choose_scale(r, best));
        int *idle = &r->scale[chosen].n_idle;
        *idle = !n ? most_idle(r) : biased(c, r, chosen) > before * IDLE ? *idle + 1 : 0;
        if (is_stuck(r, chosen)) MSI_TRY(choose_of_all(r, best));
        if (*end == MSI_CLEAN_END_BELOW && *best >= 0 && biased(c, r, *best) > DIVERGED * call->peak_first)
            *end = MSI_CLEAN_END_DIVERGED;
    }
    return MSI_OK;
}

static int add_model(void *of, msi_clean_worker *w, int plane)
{
    msi_clean_call *call = of;
    const msi_cleaner *c = call->c;
    void *model = msi_clean_plane(c, &call->model, plane), *own;
    if (!msi_clean_plane_has_weight(c, plane)) return MSI_OK;
    MSI_TRY(msi_clean_borrow(c, w, model, &own));
    MSI_TRY(c->ops->inverse(w->e, w->wide, c->multiscale->model[plane], MSI_CLEAN_CORNER, MSI_CLEAN_ADD, own));
    return msi_clean_give_back(c, w, model);
}

static int clear_model(void *of, msi_clean_worker *w, int plane)
{
    const msi_cleaner *c = of;
    return c->ops->clear(w->e, c->multiscale->model[plane], c->n_wide * c->complex_bytes);
}

/* Return the tiles if a call can use them, otherwise NULL. Their bounds need the Hessians of all scales, and do not
 * include factors of local noise. */
static msi_clean_tiles *tiles_of(const msi_clean_call *call)
{
    const msi_clean_multiscale *m = call->c->multiscale;
    int can = !msi_clean_factor_of(call);
    for (int s = 0; s < call->c->spec.n_scale; s++) can = can && (!m->used[s] || m->has_hessian[s]);
    return can ? m->tiles : NULL;
}

static int minor(msi_clean_call *call)
{
    msi_cleaner *c = call->c;
    rounds r = {.call = call, .last = -1, .tiles = tiles_of(call)};
    msi_clean_end end = MSI_CLEAN_END_BELOW;
    int best;
    MSI_TRY(msi_clean_share(c, c->n_plane, clear_model, c));
    c->multiscale->has_model = 0;
    MSI_TRY(make_masks(call));
    if (r.tiles) MSI_TRY(begin_tiles(call));
    MSI_TRY(choose_of_all(&r, &best));
    msi_clean_peak peak = reported(c, &r, best);
    if (msi_clean_start(call, &peak)) return MSI_OK;
    call->peak_first = biased(c, &r, best);
    MSI_TRY(run_rounds(&r, &best, &end));
    if (r.tiles) MSI_TRY(apply_tiles(call));
    /* The call's model of scales above 0 is added to the model. */
    if (c->multiscale->has_model) MSI_TRY(msi_clean_share(c, c->n_plane, add_model, call));
    peak = reported(c, &r, best);
    msi_clean_finish(call, end, &peak);
    if (best < 0) call->report->stop = MSI_CLEAN_STOP_STALLED;
    return MSI_OK;
}

const msi_clean_method_ops msi_clean_multiscale_ops = {.prepare = prepare_scales,
                                                       .release = release_scales,
                                                       .psf = set_psf,
                                                       .minor = minor,
                                                       .bytes = bytes,
                                                       .paged = paged_bytes,
                                                       .while_bytes = while_bytes,
                                                       .uses_lists = 1};
