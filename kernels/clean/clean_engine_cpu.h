/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Declarations shared by the files of the CPU's engine. */
#ifndef MSI_CLEAN_ENGINE_CPU_H
#define MSI_CLEAN_ENGINE_CPU_H

#include "kernels/clean/clean_engine.h"
#include "kernels/clean/clean_simd.h"

enum { MSI_CLEAN_TILE = 256 }; /* pixels of a piece of a row, whose best pixel is kept */

struct msi_clean_engine {
    msi_clean_setup s;
    int n_plane, n_thread;
    int64_t n_pixel;
    const msi_clean_simd_table *simd;
    void *share, *fit;    /* in the planes' precision; fit NULL without */
    const void *loop_fit; /* that of the present loop */
    /* The list: */
    uint32_t *list;
    int64_t n_list;
    void *residual, *component, *factor; /* [n_plane][list_limit], and [list_limit] */
    int has_factor;
    int cell; /* whose components are transformed; -1: all */
    /* The PSF's channels side by side, for lists that read it often: [ny][nx][n_channel], NULL for one channel
     * and for several cells. */
    void *interleaved;
    int is_interleaved;
    int64_t psf_id, n_gathered; /* PSF of the last loop; pixels of that PSF that loops have read so far */
    /* Components recorded by a loop. */
    uint32_t *place; /* [MSI_CLEAN_CHUNK] */
    void *value;     /* [MSI_CLEAN_CHUNK][n_plane] */
    /* For exact loops, the best pixels of pieces of rows, and of rows: */
    msi_clean_best *piece, *row;
    int64_t n_piece; /* number of pieces of a row */
    msi_clean_best *of_thread;
};

/* msi_clean_real_bytes - count the bytes of a pixel. */
static inline int64_t msi_clean_real_bytes(const msi_clean_engine *e)
{
    return e->s.precision == MSI_FP32 ? 4 : 8;
}

/* msi_clean_least, msi_clean_most - return the smaller and the larger number. */
static inline int64_t msi_clean_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t msi_clean_most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Transforms (clean_fft_cpu.c) and noise (clean_noise_cpu.c) of msi_clean_engine_ops. */
int msi_clean_fft_create_cpu(msi_clean_engine *e, int64_t nx, int64_t ny, msi_clean_fft **out, int64_t *n_complex);
void msi_clean_fft_free_cpu(msi_clean_engine *e, msi_clean_fft *f);
int64_t msi_clean_fft_bytes_cpu(const msi_clean_setup *s, int64_t nx, int64_t ny);
int64_t msi_clean_noise_bytes_cpu(const msi_clean_setup *s);
int msi_clean_forward_cpu(msi_clean_engine *e, msi_clean_fft *f, const void *image, int plane, msi_clean_origin origin,
                          void *spectrum);
int msi_clean_gaussian_cpu(msi_clean_engine *e, msi_clean_fft *f, const msi_clean_gaussian *g, void *spectrum);
int msi_clean_product_cpu(msi_clean_engine *e, msi_clean_fft *f, const void *a, const void *b, int twice, void *out);
int msi_clean_spread_cpu(msi_clean_engine *e, msi_clean_fft *f, void *components, const void *kernel, const void *psf,
                         void *model);
int msi_clean_inverse_cpu(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                          msi_clean_put mode, void *image);
/* msi_clean_inverse_sized_cpu - the same for an image of nx x ny pixels, at most those of the transform. */
void msi_clean_inverse_sized_cpu(msi_clean_engine *e, msi_clean_fft *f, void *spectrum, msi_clean_origin origin,
                                 msi_clean_put mode, void *image, int64_t nx, int64_t ny);
int msi_clean_subtract_list_cpu(msi_clean_engine *e, msi_clean_fft *f, int plane, const msi_clean_scale_spectra *scale,
                                const void *psf, void *work, void *image);
int msi_clean_deviation_cpu(msi_clean_engine *e, const void *image, double *median, double *deviation, int64_t *n);
int msi_clean_square_cpu(msi_clean_engine *e, const void *in, void *out, void *count);
int msi_clean_box_cpu(msi_clean_engine *e, int64_t width, int least, void *image, void *work);
int msi_clean_weigh_cpu(msi_clean_engine *e, const void *weight, int64_t half, void *image, void *work);
int msi_clean_factor_cpu(msi_clean_engine *e, const void *residual, const void *count, const void *least_value,
                         double strength, void *square, double *least);

#endif
