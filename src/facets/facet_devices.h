/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Facets on GPUs: the samples of a channel lie on every GPU (kernels/facet_samples.h), and each GPU images or
 * predicts some of the facets. Functions that take the number of a device may be called by one thread for each. Builds
 * without CUDA do not have these functions.
 */
#ifndef MSI_FACET_DEVICES_H
#define MSI_FACET_DEVICES_H

#include "kernels/gridder.h"
#include "src/facets/facet_gains.h"

/* A facet, and the gridder of its box. */
typedef struct msi_facet_task {
    int facet;
    int only_beam;         /* gains without solutions */
    double l, m;           /* centre */
    msi_gridder_spec spec; /* specification of the facet's box and n_image planes */
} msi_facet_task;

/* Seconds of a device's calls: gains of facets, their samples, and their gridders. */
typedef struct msi_facet_times {
    double gains_s, samples_s, gridders_s;
} msi_facet_times;

typedef struct msi_facet_devices msi_facet_devices;

/* Numbers of planes of images and models. */
typedef struct msi_facet_terms {
    int n_image, n_term; /* n_term 1: no Taylor terms */
    double reference_hz; /* reference frequency of the terms */
} msi_facet_terms;

/*
 * msi_facet_devices_open - copy the samples of a gridder to its GPUs.
 * Given:    gridder  borrowed for the life of *out
 *           gains    borrowed; NULL: none
 *           map, form  planes of the samples, and form of their gains
 *           most     largest number of GPUs to use
 * Returned: *out     freed by msi_facet_devices_close; NULL: the gridder works on the CPU, or a GPU has too little
 *                    memory, so that the CPU makes the samples of facets
 * Returns:  0, MSI_ENOMEM
 */
int msi_facet_devices_open(msi_facet_devices **out, msi_gridder *gridder, const msi_facet_gains *gains,
                           const msi_gain_planes *map, msi_gain_form form, const msi_facet_terms *terms, int most);

/* msi_facet_devices_n - return the number of GPUs. */
int msi_facet_devices_n(const msi_facet_devices *d);

/* msi_facet_devices_may_stay - return 1 if most of the GPU memory is free, so that samples may stay between calls.
 * msi_facet_devices_no_model - discard the model, so that images are made from the samples only. */
int msi_facet_devices_may_stay(const msi_facet_devices *d);
void msi_facet_devices_no_model(msi_facet_devices *d);

/* msi_facet_devices_respond - sum the responses of a facet's samples. Returned: sum [2 n_term - 1][n_image][n_image];
 * total [n_image]; moment [2 n_term - 1], the total of plane 0 for each power. Returns: as msi_facet_samples_respond */
int msi_facet_devices_respond(msi_facet_devices *d, int device, const msi_facet_task *task, double *sum, double *total,
                              double *moment);

/* msi_facet_devices_image - image the samples of a facet less the model. Returned: *out  planes [n_image][n_term] of
 * its box; *report  of the last plane, with the times of all. Times are added to *times. Returns: 0, or any code of
 * msi_gridder_image */
int msi_facet_devices_image(msi_facet_devices *d, int device, const msi_facet_task *task, msi_image *out,
                            msi_gridder_report *report, msi_facet_times *times);

/* msi_facet_devices_model - set the model visibilities to 0.
 * msi_facet_devices_predict - add a facet's prediction to the model visibilities of a device.
 * msi_facet_devices_join_model - sum the model visibilities of all devices, for later images.
 * msi_facet_devices_fetch_model - copy the model visibilities to those of the gridder's samples. */
int msi_facet_devices_model(msi_facet_devices *d);
int msi_facet_devices_predict(msi_facet_devices *d, int device, const msi_facet_task *task, const msi_image *model,
                              msi_facet_times *times);
int msi_facet_devices_join_model(msi_facet_devices *d);
int msi_facet_devices_fetch_model(msi_facet_devices *d);

void msi_facet_devices_close(msi_facet_devices *d); /* NULL-safe */

#endif
