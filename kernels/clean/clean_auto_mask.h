/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Masks that follow the residual: auto-multithresh, after A. A. Kepley et al., PASP 132, 024505 (2020), with the names
 * and defaults of CASA's tclean. Pixels above a threshold of sidelobes and noise make regions; those that are small
 * beside the beam go; the rest is smoothed, and cut. From the second time on the mask also grows, within what is above
 * a lower threshold, and what of it is above that is pruned, smoothed and cut as well. A pixel that was in it stays.
 */
#ifndef MSI_CLEAN_AUTO_MASK_H
#define MSI_CLEAN_AUTO_MASK_H

#include <stdint.h>

#include "core/image.h"
#include "kernels/method/planes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tells how masks are made; msi_auto_mask_defaults fills it. */
typedef struct msi_auto_mask_spec {
    double sidelobe_threshold; /* times sidelobe_level and the largest |residual| */
    double noise_threshold;    /* times the noise; low_noise: of what the mask grows within */
    double low_noise_threshold;
    double negative_threshold; /* times the noise: negative regions are masked, too; 0: they are not */
    double smooth_factor;      /* times the beam: the gaussian that regions are smoothed with; 0: none */
    double min_beam_frac;      /* regions of fewer pixels than this part of the beam's area are left out; 0: none */
    double cut_threshold;      /* part of the smoothed regions' largest value that still belongs to the mask */
    int grow_iterations;       /* pixels that the mask grows by, along edges; 0: it does not */
    int do_grow_prune;         /* what has grown is pruned as well */
    double min_percent_change; /* the mask is kept as it is once it changed by less, from the second update on; below
                                   0: never */
    double sidelobe_level;     /* of the PSF: its largest |value| beside the main lobe, its peak being 1 */
    msi_beam beam;
    double cell_x_rad, cell_y_rad;
    int n_thread; /* of the CPU; 0: as many as OpenMP gives */
} msi_auto_mask_spec;

/* msi_auto_mask_defaults - tclean's: 3, 5, 1.5, 0, 1, 0.3, 0.01, 75, 1, -1; the rest is zero and the caller's. */
msi_auto_mask_spec msi_auto_mask_defaults(void);

typedef struct msi_auto_mask_report {
    double median, noise;            /* of the residual, Jy/beam */
    double threshold, low_threshold; /* Jy/beam, the median included */
    double negative_threshold;       /* likewise; 0: none */
    int is_sidelobe;                 /* the threshold is that of sidelobes, not of noise */
    int64_t n_pixel, n_added;        /* in the mask; since the last update */
    int is_kept;                     /* min_percent_change was reached: updates no longer change it */
} msi_auto_mask_report;

typedef struct msi_auto_mask msi_auto_mask;

/*
 * msi_auto_mask_create - make a mask without a pixel.
 * Given:    shape  of the residual's planes; n is not looked at
 * Returned: *out   freed by msi_auto_mask_free; NULL on failure
 * Returns:  0, MSI_EARGUMENT (no beam, a parameter below 0; msi_error_about names it), MSI_ENOMEM, MSI_EGPU
 */
int msi_auto_mask_create(msi_auto_mask **out, const msi_planes_shape *shape, const msi_auto_mask_spec *spec);

/* msi_auto_mask_foresee - count bytes that a mask takes, and its updates for a while, on the host and on the GPU. */
void msi_auto_mask_foresee(const msi_planes_shape *shape, const msi_auto_mask_spec *spec, int64_t *host,
                           int64_t *device);

/* msi_auto_mask_free - NULL is fine. */
void msi_auto_mask_free(msi_auto_mask *m);

/*
 * msi_auto_mask_update - add to the mask what a residual shows.
 * Given:    residual, plane  of the shape given before
 * Returned: *report
 * Returns:  0, MSI_EARGUMENT (other planes), MSI_EINPUT (no finite pixel), MSI_ENOMEM, MSI_EGPU; after a failure the
 *           mask is what it was
 */
int msi_auto_mask_update(msi_auto_mask *m, const msi_planes *residual, int plane, msi_auto_mask_report *report);

/* msi_auto_mask_fetch - copy the mask out, [ny][nx] bytes, 0 or 1; msi_auto_mask_set - set it, as from an earlier run,
 * after n_update updates. Returns: 0, MSI_EGPU */
int msi_auto_mask_fetch(msi_auto_mask *m, uint8_t *mask);
int msi_auto_mask_set(msi_auto_mask *m, const uint8_t *mask, int n_update);

#ifdef __cplusplus
}
#endif
#endif
