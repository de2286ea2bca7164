/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A gridder's specification, used by all methods, and its report. */
#ifndef MSI_KERNELS_GRIDDER_SPEC_H
#define MSI_KERNELS_GRIDDER_SPEC_H

#include <stdint.h>

#include "core/image.h"
#include "core/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum msi_backend { MSI_BACKEND_AUTO, MSI_BACKEND_CPU, MSI_BACKEND_CUDA } msi_backend;
typedef enum msi_precision_choice { MSI_PRECISION_AUTO, MSI_PRECISION_FP32, MSI_PRECISION_FP64 } msi_precision_choice;

/* How w-projection's tabulated kernels are looked up: the nearest sub-cell, or interpolated between two by arithmetic
 * or by texture units. */
typedef enum msi_kernel_lookup {
    MSI_KERNEL_AUTO,
    MSI_KERNEL_NEAREST,
    MSI_KERNEL_LINEAR,
    MSI_KERNEL_TEXTURE
} msi_kernel_lookup;

/* Fixed properties of a plan, to measure one plan against another; 0: the cost model chooses. Planning fails if no plan
 * has these properties. */
typedef struct msi_plan_pins {
    int width;   /* wgrid: taps of the window */
    int subgrid; /* w-towers: edge of a subgrid in cells */
} msi_plan_pins;

/* The specification of a gridder. Members that are zero take the default; msi_gridder_create copies all of it,
 * including strings. */
typedef struct msi_gridder_spec {
    msi_image_geometry geometry;
    /* wgrid: direction of pixel (nx/2, ny/2), for its n - 1. The caller has shifted the phases of the visibilities to
     * it by u l + v m wavelengths. */
    double l_center_rad, m_center_rad;
    int goes_beyond; /* wgrid, 1: also compute pixels beyond the horizon, with n - 1 = -1 - sqrt(l^2 + m^2 - 1) */
    int n_plane;     /* planes of the blocks added: real images from the same coordinates */
    int psf;         /* 1: also make the PSF: plane 0's weights with visibility 1, as the last plane of the image */
    int psf_only;    /* 1: make only the PSF, no image planes */
    int tagged;      /* 1: the rows of blocks have tags, which are stored with them (msi_gridder_store) */
    int predict;     /* 1: the gridder degrids; only coordinates are added, and every sample is kept, in order */
    int residual; /* 1: the gridder makes residuals of models, any number of times; it keeps everything derived from the
                     samples */
    /* With `residual`: models and residuals have n_term planes for each plane of the blocks, the terms of a polynomial
     * in x = frequency / reference_hz - 1. A model is the sum over t of x^t times its term t; in residual t, weights
     * are multiplied by x^t. 0: one term, without x. */
    int n_term;
    double reference_hz;
    /* Names in the table of strategies; NULL: "wgrid", and the strategy with the lowest estimated time. "subgrid"
     * becomes "planes" if w does not matter anywhere in the field. */
    const char *method, *strategy;
    double accuracy;                /* relative L2 error of the image or of the visibilities; 1e-13 .. 0.1 */
    msi_precision_choice precision; /* AUTO: fp32 if its rounding stays below the accuracy */
    msi_backend backend;            /* AUTO: a GPU if there is one */
    msi_backend plan_for; /* CPU: use the plan that the CPU would make, on any backend, to compare backends; AUTO: do
                                 not */
    double least_padding; /* the padded grid is at least this many times the image; 0: automatic */
    int n_tile;           /* wgrid on the CPU: the image is made in n_tile x n_tile tiles, each with a grid of its
                                 size, for grids larger than the memory (strategy.h); 0 or 1: as a whole */
    int n_slice;          /* wproj: slices of w, each with its own transform; 0: automatic */
    msi_kernel_lookup kernel; /* wproj */
    int device;               /* CUDA ordinal of the GPU to use, which holds the planes */
    int n_worker;         /* number of GPUs that share the work of images, residuals and predictions; 0: only device */
    const int *worker;    /* [n_worker] their CUDA ordinals; one may occur several times */
    int n_thread;         /* 0: as many as OpenMP gives */
    int64_t memory_bytes; /* host memory that the gridder may use; 0: msi_memory_limit() */
    int64_t store_bytes;  /* part of it for stored visibilities; more go to temp_dir; 0: no separate limit */
    int64_t
        grid_bytes; /* part of it for the grids of plans on the CPU; 0: all that is not in use when a plan is made */
    const char *temp_dir;  /* directory for the part of the store that does not fit; NULL: $TMPDIR or /tmp */
    double longest_lambda; /* upper limit of |u| and |v|, for memory plans before samples are added; 0: unknown */
    msi_plan_pins pins;    /* all 0 except in measurements */
} msi_gridder_spec;

enum { MSI_GRIDDER_MAX_PLANES = 32 }; /* image planes of one gridder, PSF included */

/* The report of what was chosen and what happened, for logs, headers and tests. */
typedef struct msi_gridder_report {
    const char *method, *strategy; /* static */
    msi_backend backend;
    msi_precision precision;
    int width;      /* taps of the window along u and v */
    int w_width;    /* taps along w; 1 if no w-planes are needed in this field */
    int64_t nu, nv; /* padded grid */
    int n_tile;     /* number of tiles of msi_gridder_spec; with tiles, the members below describe the largest grid */
    int64_t n_w;    /* w-planes */
    int64_t n_w_resident;                          /* number of w-planes in memory at a time */
    double w_step;                                 /* wavelengths */
    int n_tower, tower_planes;                     /* w-towers and the planes of each; 0 without towers */
    int subgrid;                                   /* edge of their subgrids in cells */
    double error_estimate;                         /* relative L2, predicted from the window */
    double estimate_s;                             /* rough seconds for the images, from the plan's cost model */
    double sum_vis_weight[MSI_GRIDDER_MAX_PLANES]; /* sums of the samples stored, before density weighting */
    int64_t n_sample;                              /* samples stored (weight > 0 in some plane) */
    int64_t n_outside;                             /* samples dropped because |u| or |v| is beyond 1 / (2 cell) */
    double w_max_lambda;                           /* largest |w| of the samples stored */
    double longest_lambda; /* largest length of (u, v, w) of the samples stored; 0: not known, as for samples on the
                              GPU */
    double weight_scale;   /* a power of two that the stored weights are multiplied by; 1 for ordinary data */
    int64_t store_bytes, spilled_bytes, grid_bytes, device_bytes;
    int64_t least_grid_bytes;   /* with one w-plane in memory at a time */
    int64_t least_device_bytes; /* least part of device_bytes that is needed: one w-plane, its transform, and the images
                                   that the gridder holds; 0: not known */
    int64_t kept_bytes;         /* part of grid_bytes that stays between residuals */
    int64_t sample_bytes;       /* part of grid_bytes for samples and their order, from msi_alloc_paged */
    int64_t work_bytes;         /* part of grid_bytes for the sum of an image or a model, from msi_alloc_work */
    double sort_s, grid_s, transform_s, correct_s, transfer_s; /* wall seconds so far */
} msi_gridder_report;

#ifdef __cplusplus
}
#endif
#endif
