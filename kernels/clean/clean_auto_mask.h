/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Masks that follow the residual: auto-multithresh, after A. A. Kepley et al., PASP 132, 024505 (2020), with the names
 * and defaults of CASA's tclean.
 *
 * 1. Pixels above a threshold of sidelobes and noise make regions.
 * 2. Regions that are small compared with the beam are removed; the rest is smoothed and cut.
 * 3. From the second update on, the mask also grows within pixels above a lower threshold; the pixels above that
 *    threshold are pruned, smoothed and cut in the same way.
 *
 * A pixel that was in the mask stays in it.
 */
#ifndef MSI_CLEAN_AUTO_MASK_H
#define MSI_CLEAN_AUTO_MASK_H

#include <stdint.h>

#include "core/image.h"
#include "kernels/method/planes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters of masks; msi_auto_mask_defaults fills them in. */
typedef struct msi_auto_mask_spec {
    double sidelobe_threshold; /* times sidelobe_level and the largest |residual| */
    double noise_threshold;    /* times the noise; low_noise: the threshold within which the mask grows */
    double low_noise_threshold;
    double negative_threshold; /* times the noise: negative regions are masked too; 0: they are not */
    double smooth_factor;      /* times the beam: the gaussian that smooths regions; 0: none */
    double min_beam_frac;      /* regions of fewer pixels than this fraction of the beam's area are removed; 0: none */
    double cut_threshold; /* fraction of the smoothed regions' largest value above which pixels belong to the mask */
    int grow_iterations;  /* number of times that the mask grows by a pixel along edges; 0: it does not grow */
    int do_grow_prune;    /* prune the pixels that the mask has grown by */
    double
        min_percent_change; /* freeze the mask once the second or a later update changes it by less; below 0: never */
    double sidelobe_level;  /* largest |value| of the PSF outside the main lobe, relative to its peak */
    msi_beam beam;
    double cell_x_rad, cell_y_rad;
    int n_thread; /* threads of the CPU; 0: as many as OpenMP gives */
} msi_auto_mask_spec;

/* msi_auto_mask_defaults - set tclean's defaults: 3, 5, 1.5, 0, 1, 0.3, 0.01, 75, 1, -1; the other members are zero,
 * for the caller to set. */
msi_auto_mask_spec msi_auto_mask_defaults(void);

typedef struct msi_auto_mask_report {
    double median, noise;            /* median and noise of the residual, Jy/beam */
    double threshold, low_threshold; /* Jy/beam, including the median */
    double negative_threshold;       /* Jy/beam, including the median; 0: none */
    int is_sidelobe;                 /* 1: the threshold follows from sidelobes, 0: from noise */
    int64_t n_pixel, n_added;        /* in the mask; added by this update */
    int is_kept;                     /* the mask is frozen by min_percent_change */
} msi_auto_mask_report;

typedef struct msi_auto_mask msi_auto_mask;

/*
 * msi_auto_mask_create - make an empty mask.
 * Given:    shape  of the residual's planes; n is ignored
 * Returned: *out   freed by msi_auto_mask_free; NULL on failure
 * Returns:  0, MSI_EARGUMENT (no beam, a parameter below 0; msi_error_about names it), MSI_ENOMEM, MSI_EGPU
 */
int msi_auto_mask_create(msi_auto_mask **out, const msi_planes_shape *shape, const msi_auto_mask_spec *spec);

/* msi_auto_mask_estimate - count the bytes of a mask, including temporary ones of updates, on the host and on the
 * GPU. */
void msi_auto_mask_estimate(const msi_planes_shape *shape, const msi_auto_mask_spec *spec, int64_t *host,
                            int64_t *device);

/* msi_auto_mask_free - NULL-safe. */
void msi_auto_mask_free(msi_auto_mask *m);

/*
 * msi_auto_mask_update - add regions of a residual to the mask.
 * Given:    residual, plane  of the shape given before
 * Returned: *report
 * Returns:  0, MSI_EARGUMENT (other planes), MSI_EINPUT (no finite pixel), MSI_ENOMEM, MSI_EGPU; after a failure the
 *           mask is unchanged
 */
int msi_auto_mask_update(msi_auto_mask *m, const msi_planes *residual, int plane, msi_auto_mask_report *report);

/* msi_auto_mask_fetch - copy the mask to [ny][nx] bytes, 0 or 1. msi_auto_mask_set - set the mask, such as that of an
 * earlier run after n_update updates. Returns: 0, MSI_EGPU */
int msi_auto_mask_fetch(msi_auto_mask *m, uint8_t *mask);
int msi_auto_mask_set(msi_auto_mask *m, const uint8_t *mask, int n_update);

#ifdef __cplusplus
}
#endif
#endif
