/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The plan API: visibilities in, images out, or an image in, visibilities out. The only header of kernels/ for src/. */
#ifndef MSI_KERNELS_GRIDDER_H
#define MSI_KERNELS_GRIDDER_H

#include "core/image.h"
#include "core/types.h"
#include "core/vis_block.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_backend { MSI_BACKEND_AUTO, MSI_BACKEND_CPU, MSI_BACKEND_CUDA } msi_backend;
typedef enum msi_precision_choice { MSI_PRECISION_AUTO, MSI_PRECISION_FP32, MSI_PRECISION_FP64 } msi_precision_choice;
/* Values of w-projection's kernels: of the nearest sub-cell, interpolated between two, or so by texture units. */
typedef enum msi_kernel_lookup {
    MSI_KERNEL_AUTO,
    MSI_KERNEL_NEAREST,
    MSI_KERNEL_LINEAR,
    MSI_KERNEL_TEXTURE
} msi_kernel_lookup;

/* What is wanted. Zero-initialised members take the default. */
typedef struct msi_gridder_spec {
    msi_image_geometry geometry;
    int n_plane;  /* planes of the blocks added: real images from the same coordinates */
    int psf;      /* the PSF too: plane 0's weights with visibility 1, the image's last plane */
    int psf_only; /* of the image planes only the PSF */
    int predict;  /* the gridder degrids: only coordinates are added, and every sample is kept, in order */
    const char *method, *strategy;  /* of the table of strategies; NULL: "wgrid", and the one foreseen to be soonest */
    double accuracy;                /* relative L2 error of the image or of the visibilities; 1e-13 .. 0.1 */
    msi_precision_choice precision; /* AUTO: fp32 where its rounding stays below the accuracy */
    msi_backend backend;            /* AUTO: a GPU where one is present */
    msi_backend plan_for;           /* CPU: the plan that the CPU would make, on any backend, to compare them; AUTO */
    double least_padding;           /* the padded grid is at least this many times the image; 0: free choice */
    int n_slice;                    /* wproj: slices of w, each with a transform of its own; 0: free choice */
    msi_kernel_lookup kernel;       /* wproj */
    int n_thread;                   /* 0: as many as OpenMP gives */
    int64_t memory_bytes;           /* host memory that the gridder may use; 0: msi_memory_limit() */
    int64_t store_bytes;            /* of it, for stored visibilities; more goes to temp_dir; 0: no limit of its own */
    const char *temp_dir;           /* where the part of the store that does not fit goes; NULL: $TMPDIR or /tmp */
} msi_gridder_spec;

/* What was chosen and what happened, for logs, headers and tests. */
enum { MSI_GRIDDER_MAX_PLANES = 32 }; /* of one gridder, PSF included */

typedef struct msi_gridder_report {
    const char *method, *strategy; /* static */
    msi_backend backend;
    msi_precision precision;
    int width;                                     /* taps of the window along u and v */
    int w_width;                                   /* along w; 1 where w matters nowhere in the field */
    int64_t nu, nv;                                /* padded grid */
    int64_t n_w;                                   /* w-planes */
    int64_t n_w_resident;                          /* of them in memory at once */
    double w_step;                                 /* wavelengths */
    int n_tower, tower_planes;                     /* w-towers and the planes of each; 0 without */
    int subgrid;                                   /* edge of their subgrids in cells */
    double error_estimate;                         /* relative L2, predicted from the window */
    double estimate_s;                             /* rough seconds for the images, from the plan's cost model */
    double sum_vis_weight[MSI_GRIDDER_MAX_PLANES]; /* of the samples stored, before density weighting */
    int64_t n_sample;                              /* samples stored (weight > 0 in some plane) */
    int64_t n_outside;                             /* samples dropped because |u| or |v| is beyond 1 / (2 cell) */
    int64_t store_bytes, spilled_bytes, grid_bytes, device_bytes;
    int64_t least_grid_bytes;                                  /* with one w-plane in memory at a time */
    double sort_s, grid_s, transform_s, correct_s, transfer_s; /* wall seconds so far */
} msi_gridder_report;

typedef struct msi_gridder msi_gridder;
typedef struct msi_density msi_density;

/*
 * msi_gridder_create - an empty gridder.
 * Returned: *out, owned, freed by msi_gridder_free
 * Returns:  0, MSI_ERANGE (accuracy or size that no plan reaches), MSI_EGPU (a GPU asked for and not there), MSI_ENOMEM
 */
int msi_gridder_create(msi_gridder **out, const msi_gridder_spec *spec);

/*
 * msi_gridder_add - take in a block of visibilities; any number of times.
 * Notes:   samples that the image cannot hold are dropped and counted (msi_gridder_report.n_outside).
 * Returns: 0, MSI_ENOMEM, MSI_EOUTPUT (temp_dir is full), MSI_EINTERNAL (block of another number of planes)
 */
int msi_gridder_add(msi_gridder *g, const msi_vis_block *block);

/*
 * msi_gridder_image - grid everything added so far, transform, correct, normalise by the sum of weights.
 * Returned: *out, allocated here, freed by msi_image_free: the planes, then the PSF. A plane without a sample is NaN.
 * Returns:  0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED
 */
int msi_gridder_image(msi_gridder *g, msi_image *out);

/*
 * msi_gridder_expect - what will be added in all, where msi_gridder_clear makes room in between: one plan serves it.
 * Given: w_min_lambda, w_max_lambda of |w| over all samples; n_sample, n_row of one filling
 */
void msi_gridder_expect(msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda);

/*
 * msi_gridder_model - what msi_gridder_predict degrids.
 * Given:   model  the gridder's n_plane images in Jy/pixel, of its geometry; borrowed until the next model or the end.
 *                 Pixels beyond the horizon are not looked at, all others must be finite
 * Returns: 0, MSI_EINTERNAL (not of this gridder's planes, geometry and msi_gridder_precision)
 */
int msi_gridder_model(msi_gridder *g, const msi_image *model);
msi_precision msi_gridder_precision(const msi_gridder *g);

/*
 * msi_gridder_predict - the visibilities of the model at everything added since the last msi_gridder_clear:
 *     V = sum over pixels of S exp(+2 pi i (u l + v m + w (n - 1))).
 * Returns: 0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERRUPTED, MSI_ERANGE
 * Notes:   the transpose of msi_gridder_image before its division by the sum of weights. A sample beyond the uv plane
 *          that the image can hold has its value too: a pixel grid is periodic there.
 */
int msi_gridder_predict(msi_gridder *g);

/*
 * msi_gridder_fetch - predicted visibilities, block by block in the order in which they were added.
 * Given:    n_row, n_chan, freq_hz [n_chan]  of the block that was added
 * Returned: vis [n_plane][n_row][n_chan] Jy
 * Returns:  0, MSI_EINTERNAL (blocks asked for in another order)
 */
int msi_gridder_fetch(msi_gridder *g, int64_t n_row, int32_t n_chan, const double *freq_hz, msi_c64 *vis);

/* msi_gridder_clear - forget the samples; memory, plan and what was made of the model stay for the next ones. */
void msi_gridder_clear(msi_gridder *g);

/* msi_gridder_report_get - figures as they stand; plan figures are set by the first msi_gridder_image. */
void msi_gridder_report_get(const msi_gridder *g, msi_gridder_report *report);

/*
 * msi_gridder_foresee - the plan for a number of samples and a range of |w|, without data: dry runs and memory plans.
 */
int msi_gridder_foresee(const msi_gridder *g, int64_t n_sample, int64_t n_row, double w_min_lambda, double w_max_lambda,
                        msi_gridder_report *report);

void msi_gridder_free(msi_gridder *g);

/* msi_backend_describe - one line: the GPU that AUTO would take, or why there is none. Borrowed, static. */
const char *msi_backend_describe(void);

/*
 * msi_backend_warm_up - begin in the background what a GPU takes a third of a second for (its context, its FFT
 * library), so that it is over when visibilities have been read. Until it has a context, plans are foreseen as if
 * nobody else used the GPU's memory; msi_backend_await waits for one, as the first image or prediction does by itself.
 * Call msi_backend_settle before the process ends. All do nothing where backend is CPU or there is no GPU.
 */
void msi_backend_warm_up(msi_backend backend);
void msi_backend_await(void);
void msi_backend_settle(void);

/* msi_backend_versions - the libraries behind the backends with their versions, one line. Borrowed, static. */
const char *msi_backend_versions(void);

/* ---- Density weights ------------------------------------------------------------------------------------------- */

typedef enum msi_weighting_mode { MSI_WEIGHT_NATURAL, MSI_WEIGHT_UNIFORM, MSI_WEIGHT_BRIGGS } msi_weighting_mode;

typedef struct msi_weighting {
    msi_weighting_mode mode;
    double robust;         /* Briggs' R, -2 .. 2 */
    double taper_fwhm_rad; /* gaussian uv taper whose image is a gaussian of this FWHM; 0: none */
} msi_weighting;

/*
 * msi_density_create - an empty grid of summed weights: the image's unpadded uv grid, v >= 0 (negative v folds over).
 * Source: Briggs 1995 for the weights.
 * Returns: 0, MSI_ENOMEM
 * Notes:   a sample belongs to the nearest cell. WSClean 3.1 makes this grid about 1.2 times as large: its cells are
 *          smaller, its weights others.
 */
int msi_density_create(msi_density **out, const msi_image_geometry *geometry);

/* msi_density_add - add the weights of a gridder's plane 0; several gridders (channels of an MFS image) add up. */
int msi_density_add(msi_density *d, const msi_gridder *g);

/* msi_density_grid - borrowed [nv = ny/2 + 1][nu = nx + 1] float64 sums; row v = 0 first, column nx/2 is u = 0. */
const double *msi_density_grid(const msi_density *d, int64_t *nu, int64_t *nv);

void msi_density_free(msi_density *d);

/*
 * msi_gridder_weight - multiply every stored weight by density weighting and taper. Call once, before image.
 * Given:   density  may be NULL for natural weighting
 * Returns: 0, MSI_EINTERNAL
 * Notes:   uniform w / Wc; Briggs w / (1 + Wc s^2), s^2 = (5 10^-R)^2 / (sum Wc^2 / sum w).
 */
int msi_gridder_weight(msi_gridder *g, const msi_density *density, const msi_weighting *rule);

#ifdef __cplusplus
}
#endif
#endif
