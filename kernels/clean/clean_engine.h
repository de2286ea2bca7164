/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * An engine implements the basic operations of cleaning on one backend: passes over images, lists of pixels, loops and
 * transforms. Methods of cleaning are written once, on the host, for all engines.
 *
 * Images and spectra are in the engine's memory and precision. Functions that can fail return 0 or a code of
 * core/status.h and set the error line. GPU engines queue work in order on one stream, and wait if a function returns a
 * result.
 */
#ifndef MSI_CLEAN_ENGINE_H
#define MSI_CLEAN_ENGINE_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/clean/clean_pixel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Threads of a GPU have arrays of MSI_CLEAN_LOG_CHANNELS values each, so this is smaller. */
enum { MSI_CLEAN_CHANNELS = 256, MSI_CLEAN_LOG_CHANNELS = 64, MSI_CLEAN_CHUNK = 16384 };

enum { MSI_CLEAN_NODES = 3 };

/* The table of a log-polynomial fit, for msi_clean_log_fit. The value of a channel is the mean of the spectrum over the
 * channel, computed at nodes x with weights `part`, whose sum is 1. */
typedef struct msi_clean_log_table {
    int n_channel, n_term; /* n_term 0: no such fit */
    int n_node;            /* 1, or MSI_CLEAN_NODES for wide channels */
    double x[MSI_CLEAN_LOG_CHANNELS][MSI_CLEAN_NODES], part[MSI_CLEAN_LOG_CHANNELS][MSI_CLEAN_NODES];
    double weight[MSI_CLEAN_LOG_CHANNELS], correction[MSI_CLEAN_LOG_CHANNELS];
} msi_clean_log_table;

/* A map of planes, pixel by pixel: out_o = sum_i matrix[o][i] in_i. If log_x is set, and the values in_i have a
 * log-polynomial (by the setup's table), out_o is the log-polynomial at log_x[o]. */
typedef struct msi_clean_map {
    const void *in; /* n_in planes, in_stride pixels apart; at most MSI_CLEAN_LOG_CHANNELS with log_x */
    int64_t in_stride;
    int n_in;
    void *out; /* n_out planes, out_stride pixels apart */
    int64_t out_stride;
    int n_out;
    const void *matrix;  /* [n_out][n_in], in the engine's memory and precision; where it is 0, in is not read */
    const double *log_x; /* [n_out], in the engine's memory; NULL: no log-polynomials */
} msi_clean_map;

/* The setup of an engine: images of one shape, joined in one way. */
typedef struct msi_clean_setup {
    int64_t nx, ny;
    msi_precision precision;
    msi_clean_join join;
    double share[MSI_CLEAN_CHANNELS]; /* w_c / sum w */
    const double *fit;                /* [n_channel][n_channel] of a linear fit, NULL without */
    msi_clean_log_table log;
    msi_clean_cells cells; /* each with a separate PSF for its components */
    int64_t list_limit;    /* most pixels of a list; 0: no lists are made */
    int64_t patch;         /* edge of the PSF that exact loops subtract; 0: all */
    int device, n_thread;
} msi_clean_setup;

typedef struct msi_clean_peak {
    double key, value; /* key 0: nowhere */
    int64_t x, y;
} msi_clean_peak;

/* A quantity, and the pixels that are searched: allow [ny][nx] bytes, 0 where not; NULL: everywhere. */
typedef struct msi_clean_search {
    const void *quantity; /* [ny][nx] */
    const uint8_t *allow;
} msi_clean_search;

/* Planes that are joined into a quantity, `stride` pixels apart. */
typedef struct msi_clean_joined {
    const void *planes;
    int64_t stride;
    int n_sum;        /* sums over channels, for each polarisation; 0: the planes are the channels */
    const void *rows; /* [n_sum][n_sum], in the engine's memory and precision: the quantity is the root of the sum of
                         squares of rows times sums; NULL: there is one sum, the mean over channels */
} msi_clean_joined;

/* A range of keys that is divided into bins. */
typedef struct msi_clean_range {
    double threshold, peak;
} msi_clean_range;

typedef enum msi_clean_end {
    MSI_CLEAN_END_MORE,  /* iterations are used up */
    MSI_CLEAN_END_BELOW, /* key <= threshold */
    MSI_CLEAN_END_NEGATIVE,
    MSI_CLEAN_END_DIVERGED /* key > diverged */
} msi_clean_end;

/* The arguments of a loop. */
typedef struct msi_clean_loop {
    const void *psf; /* [cells][n_channel][ny][nx] */
    /* [n_channel][n_channel] a linear fit in place of the setup's, in the engine's memory and precision; NULL: the
     * setup's */
    const void *fit;
    const void *rows; /* [n_row][n_channel] for lists, in the engine's memory and precision: the quantity is the root of
                         the sum of squares of rows times channels; NULL: the setup's quantity */
    int n_row;
    int64_t psf_id; /* for lists: identifies the values of psf; 0: unknown */
    double gain, threshold, diverged;
    int stop_negative;
    int64_t n_iteration; /* at most MSI_CLEAN_CHUNK */
    /* For exact loops, which work on images. For list loops the list must have been loaded. */
    void *residual, *model; /* planes */
    int64_t residual_stride, model_stride;
    const uint8_t *allow;
    const void *factor; /* [ny][nx] of local noise, NULL without */
    uint16_t *found;    /* bit 0 is set where components are found; whole words of two pixels; NULL: not recorded */
} msi_clean_loop;

/* The result of a loop. */
typedef struct msi_clean_looped {
    msi_clean_end end;
    int64_t n_iteration;
    msi_clean_peak peak;   /* after it */
    const uint32_t *place; /* [n_iteration], on the host, until the next call */
    const void *value;     /* [n_iteration][n_plane], components, on the host, until the next call */
} msi_clean_looped;

/* The pixels that may be searched. */
typedef struct msi_clean_allow {
    int64_t border_x, border_y; /* width of the borders in which nothing is searched */
    const uint8_t *mask;        /* NULL: everywhere */
    const uint16_t *found;      /* NULL: everywhere; else only where one of the bits is set */
    uint16_t bits;
    const uint16_t *scales; /* NULL: everywhere; else only where this bit is set */
    uint16_t scale_bit;
} msi_clean_allow;

typedef struct msi_clean_fft msi_clean_fft; /* a transform of images padded with zeros */

/* The position of an image in a transform. */
typedef enum msi_clean_origin {
    MSI_CLEAN_CORNER, /* pixel (0, 0) at the transform's origin: residuals, models */
    MSI_CLEAN_MIDDLE  /* pixel (nx/2, ny/2) at the transform's origin, the rest around it cyclically: point spread
                        functions, kernels */
} msi_clean_origin;

/* The spectra of a scale's kernel and of a model, to which components times the kernel are added. */
typedef struct msi_clean_scale_spectra {
    const void *kernel;
    void *model;
} msi_clean_scale_spectra;

typedef enum msi_clean_put { MSI_CLEAN_SET, MSI_CLEAN_ADD, MSI_CLEAN_SUBTRACT } msi_clean_put;

/* A quadratic form of pixels. */
typedef struct msi_clean_gaussian {
    double xx, xy, yy;
} msi_clean_gaussian;

/* msi_clean_gaussian_at - return the gaussian's transform at element (u, v) of a transform of nx x ny points. */
MSI_CLEAN_FN double msi_clean_gaussian_at(const msi_clean_gaussian *g, int64_t u, int64_t v, int64_t nx, int64_t ny)
{
    const double x = (double)(2 * u > nx ? u - nx : u), y = (double)(2 * v > ny ? v - ny : v);
    const double power = g->xx * x * x + 2 * g->xy * x * y + g->yy * y * y;
    return power < 746 ? exp(-power) : 0; /* exp(-746) is 0, but slow to compute */
}

/* msi_clean_join_of - return how planes are joined. */
static inline msi_clean_join msi_clean_join_of(const msi_clean_join *setup, const msi_clean_joined *from)
{
    msi_clean_join j = *setup;
    if (!from->n_sum) return j;
    j.n_channel = from->n_sum;
    j.squared = j.no_negative = 0;
    j.n_row = from->rows ? from->n_sum : 0;
    return j;
}

/* msi_clean_middle - return the first pixel of the square of n pixels around pixel (nx/2, ny/2). */
static inline int64_t msi_clean_middle(const msi_clean_setup *s, int64_t n)
{
    return (s->ny / 2 - n / 2) * s->nx + s->nx / 2 - n / 2;
}

typedef struct msi_clean_engine msi_clean_engine;

struct msi_clean_engine_ops {
    int on_host; /* the engine has its data in host memory */
    int (*create)(msi_clean_engine **out, const msi_clean_setup *setup);
    void (*free)(msi_clean_engine *e); /* NULL-safe */
    /* alloc: memory, initially zero. */
    int (*alloc)(msi_clean_engine *e, void **out, int64_t bytes, const char *what);
    /* alloc_paged: the same for memory that is used from time to time; on the CPU that of msi_alloc_paged. */
    int (*alloc_paged)(msi_clean_engine *e, void **out, int64_t bytes, const char *what);
    void (*release)(msi_clean_engine *e, void *p); /* NULL-safe */
    int (*upload)(msi_clean_engine *e, void *to, const void *from, int64_t bytes);
    int (*download)(msi_clean_engine *e, void *to, const void *from, int64_t bytes);
    /* upload_middle, download_middle: copy the square of n x n pixels around pixel (nx/2, ny/2) of an image. n is odd,
     * and the square lies in the image. */
    int (*upload_middle)(msi_clean_engine *e, void *image, const void *from, int64_t n);
    int (*download_middle)(msi_clean_engine *e, void *to, const void *image, int64_t n);
    int (*copy)(msi_clean_engine *e, void *to, const void *from, int64_t bytes);
    int (*clear)(msi_clean_engine *e, void *p, int64_t bytes);
    /* take, give: copy from another engine's memory to that of e, and back. take_list: copy another engine's list with
     * its components of a plane. The other engine's work must be complete. */
    int (*take)(msi_clean_engine *e, void *to, const msi_clean_engine *other, const void *from, int64_t bytes);
    int (*give)(msi_clean_engine *e, const msi_clean_engine *other, void *to, const void *from, int64_t bytes);
    int (*take_list)(msi_clean_engine *e, const msi_clean_engine *other, int plane);
    int (*wait)(msi_clean_engine *e); /* wait until all queued work is done */

    int (*allow)(msi_clean_engine *e, const msi_clean_allow *from, uint8_t *allow);
    /* finite: replace values that are not finite by zero. */
    int (*finite)(msi_clean_engine *e, void *image, int64_t n);
    /* join: compute the quantity of planes, times the factor unless that is NULL. */
    int (*join)(msi_clean_engine *e, const msi_clean_joined *from, const void *factor, void *quantity);
    /* mean: sum_c share_c of planes of one polarisation; not finite where a plane is not finite. */
    int (*mean)(msi_clean_engine *e, const void *planes, int64_t stride, int pol, void *out);
    int (*map)(msi_clean_engine *e, const msi_clean_map *m);
    int (*peak)(msi_clean_engine *e, const msi_clean_search *s, msi_clean_peak *peak);

    /* bins: count the keys from range.threshold on in each bin. */
    int (*bins)(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
                int64_t bins[MSI_CLEAN_BINS]);
    /* select: list the pixels of first_bin and above, in the order of pixels, at most the list's limit. */
    int (*select)(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin,
                  int64_t *n);
    /* load: load the list's values from planes, and zero its components. */
    int (*load)(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor);
    /* list_loop: run iterations on the list. */
    int (*list_loop)(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done);
    /* deposit: add the list's components of a plane to an image. */
    int (*deposit)(msi_clean_engine *e, int plane, void *image);
    /* mark: set a bit where the list has components. */
    int (*mark)(msi_clean_engine *e, uint16_t *found, int bit);
    /* take_cell: later transforms take only the list's components in one cell; -1: all, as after create. */
    int (*take_cell)(msi_clean_engine *e, int cell);
    int (*exact_loop)(msi_clean_engine *e, const msi_clean_loop *loop, msi_clean_looped *done);

    /* Transforms of at least nx x ny; *n_complex numbers in a spectrum. */
    int (*fft_create)(msi_clean_engine *e, int64_t nx, int64_t ny, msi_clean_fft **out, int64_t *n_complex);
    void (*fft_free)(msi_clean_engine *e, msi_clean_fft *f); /* NULL-safe */
    /* fft_bytes: the work memory of such transforms, without spectra; noise_bytes: the host memory of deviation, at
     * most. */
    int64_t (*fft_bytes)(const msi_clean_setup *s, int64_t nx, int64_t ny);
    int64_t (*noise_bytes)(const msi_clean_setup *s);
    /* forward: values that are not finite count as zero. image NULL: transform the list's components of a plane. */
    int (*forward)(msi_clean_engine *e, msi_clean_fft *f, const void *image, int plane, msi_clean_origin origin,
                   void *spectrum);
    /* gaussian: compute the spectrum of exp(-(xx x^2 + 2 xy x y + yy y^2)), pixel (0, 0) at the transform's origin. */
    int (*gaussian)(msi_clean_engine *e, msi_clean_fft *f, const msi_clean_gaussian *g, void *spectrum);
    /* product: out = a b, or a b^2 where `twice`; spectra of one transform. out may be a. */
    int (*product)(msi_clean_engine *e, msi_clean_fft *f, const void *a, const void *b, int twice, void *out);
    /* spread: convolve components: model += components kernel, components *= kernel psf. kernel NULL: 1; model NULL:
     * not added to. */
    int (*spread)(msi_clean_engine *e, msi_clean_fft *f, void *components, const void *kernel, const void *psf,
                  void *model);
    /* inverse: image = or += or -= the inverse of the spectrum, which is overwritten. */
    int (*inverse)(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin, msi_clean_put put,
                   void *image);

    /* deviation: the median of an image's *n finite pixels, and the median distance from it. */
    int (*deviation)(msi_clean_engine *e, const void *image, double *median, double *deviation, int64_t *n);
    /* square: out = in^2 where that is finite, else 0; count = 1 there, else 0. */
    int (*square)(msi_clean_engine *e, const void *in, void *out, void *count);
    /* box: sums over squares of odd width, or the least value in them, clipped at the edges; work is overwritten. */
    int (*box)(msi_clean_engine *e, int64_t width, int least, void *image, void *work);
    /* weigh: sums of weight[|dx|] weight[|dy|] times the pixels up to half away, clipped at the edges; weight [half +
     * 1] is in the engine's memory and precision; work is overwritten. */
    int (*weigh)(msi_clean_engine *e, const void *weight, int64_t half, void *image, void *work);
    /* factor: rms = sqrt(square / count), at least 0.3 |least| unless that is NULL; square becomes the least rms of
     * pixels where residual is finite, *least, over rms, to the power of strength. */
    int (*factor)(msi_clean_engine *e, const void *residual, const void *count, const void *least_value,
                  double strength, void *square, double *least);

    /*
     * Masks are [ny][nx] bytes, 0 or 1; the pixels of a region are connected along edges, not corners.
     * threshold: set where image > value, or image < value if `below`; not set where it is not finite.
     */
    int (*threshold)(msi_clean_engine *e, const void *image, double value, int below, uint8_t *mask);
    /* prune: remove regions of fewer than `least` pixels. */
    int (*prune)(msi_clean_engine *e, int64_t least, uint8_t *mask);
    /* grow: add neighbours that are in `within`, n times. */
    int (*grow)(msi_clean_engine *e, const uint8_t *within, int64_t n, uint8_t *mask);
    /* unite: mask or other. intersect: mask and other. mask_to_image: image = the mask as numbers. */
    int (*unite)(msi_clean_engine *e, const uint8_t *other, uint8_t *mask);
    int (*intersect)(msi_clean_engine *e, const uint8_t *other, uint8_t *mask);
    int (*mask_to_image)(msi_clean_engine *e, const uint8_t *mask, void *image);

    /* subtract_list: image -= the list's components of a plane, convolved with the PSF of this spectrum; with a scale,
     * which is not NULL, also with its kernel, and added to its model. work is overwritten. */
    int (*subtract_list)(msi_clean_engine *e, msi_clean_fft *f, int plane, const msi_clean_scale_spectra *scale,
                         const void *psf, void *work, void *image);
};
typedef struct msi_clean_engine_ops msi_clean_engine_ops;

extern const msi_clean_engine_ops msi_clean_engine_cpu;
#ifdef MSI_HAVE_CUDA
extern const msi_clean_engine_ops msi_clean_engine_cuda;
#endif

#ifdef __cplusplus
}
#endif
#endif
