/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A gridder's specification, which every method is given, and its report. */
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

/* Tells how w-projection's tabulated kernels give a value: of the nearest sub-cell, or interpolated between two, by
 * arithmetic or by texture units. */
typedef enum msi_kernel_lookup {
    MSI_KERNEL_AUTO,
    MSI_KERNEL_NEAREST,
    MSI_KERNEL_LINEAR,
    MSI_KERNEL_TEXTURE
} msi_kernel_lookup;

/* Parts of a plan that are fixed, so that plans can be measured side by side; 0: the cost model chooses. Where no plan
 * has them, there is none. */
typedef struct msi_plan_pins {
    int width;   /* wgrid: taps of the window */
    int subgrid; /* w-towers: edge of a subgrid in cells */
} msi_plan_pins;

/* The specification says what a gridder is to do. Members that are zero take the default; msi_gridder_create copies all
 * of it, strings too. */
typedef struct msi_gridder_spec {
    msi_image_geometry geometry;
    double l_center_rad, m_center_rad; /* wgrid: direction of pixel (nx/2, ny/2), for its n - 1; whoever adds
                                          visibilities has turned them to there by u l + v m wavelengths */
    int n_plane;                       /* planes of the blocks added: real images from the same coordinates */
    int psf;                           /* the PSF too: plane 0's weights with visibility 1, the image's last plane */
    int psf_only;                      /* of the image planes only the PSF */
    int predict;  /* the gridder degrids: only coordinates are added, and every sample is kept, in order */
    int residual; /* the gridder images any number of times, and subtracts models: it keeps what it makes of samples */
    const char *method, *strategy;  /* of the table of strategies; NULL: "wgrid", and the one foreseen to be soonest;
                                       "subgrid" is "planes" where w matters nowhere in the field */
    double accuracy;                /* relative L2 error of the image or of the visibilities; 1e-13 .. 0.1 */
    msi_precision_choice precision; /* AUTO: fp32 where its rounding stays below the accuracy */
    msi_backend backend;            /* AUTO: a GPU where one is present */
    msi_backend plan_for;           /* CPU: the plan that the CPU would make, on any backend, to compare them; AUTO */
    double least_padding;           /* the padded grid is at least this many times the image; 0: free choice */
    int n_slice;                    /* wproj: slices of w, each with a transform of its own; 0: free choice */
    msi_kernel_lookup kernel;       /* wproj */
    int device;                     /* the GPU to use, where planes lie: its CUDA ordinal */
    int n_worker;                   /* GPUs that share the work of images, residuals and predictions; 0: device alone */
    const int *worker;              /* [n_worker] their CUDA ordinals, of which one may be there several times */
    int n_thread;                   /* 0: as many as OpenMP gives */
    int64_t memory_bytes;           /* host memory that the gridder may use; 0: msi_memory_limit() */
    int64_t store_bytes;            /* of it, for stored visibilities; more goes to temp_dir; 0: no limit of its own */
    const char *temp_dir;           /* where the part of the store that does not fit goes; NULL: $TMPDIR or /tmp */
    msi_plan_pins pins;             /* all 0 but for measuring */
} msi_gridder_spec;

enum { MSI_GRIDDER_MAX_PLANES = 32 }; /* image planes of one gridder, PSF included */

/* The report says what was chosen and what happened, for logs, headers and tests. */
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
    double longest_lambda; /* length of (u, v, w) of the samples stored; 0: not known, as of those on the GPU */
    double weight_scale;   /* a power of two that the stored weights carry; 1 for ordinary data */
    int64_t store_bytes, spilled_bytes, grid_bytes, device_bytes;
    int64_t least_grid_bytes;                                  /* with one w-plane in memory at a time */
    double sort_s, grid_s, transform_s, correct_s, transfer_s; /* wall seconds so far */
} msi_gridder_report;

#ifdef __cplusplus
}
#endif
#endif
