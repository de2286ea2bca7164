/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The output channels of an interval, imaged one after the other or several at a time, and their sum. */
#ifndef MSI_SRC_IMAGING_CHANNELS_H
#define MSI_SRC_IMAGING_CHANNELS_H

#include "src/imaging/imaging_run.h"

/*
 * msi_imaging_channels_at_once - choose how many channels to image together: on GPUs as many as the shares
 * of GPUs have lanes; on the CPU one by each thread, where there are channels enough for them and their grids take no
 * more than a quarter of the memory; else one, by all threads. A small image has little for many threads to share.
 * Given: run  planned
 */
int msi_imaging_channels_at_once(const msi_imaging_run *run);

/*
 * msi_imaging_channels_run - image every output channel and write it; then the multi-frequency image of all of them.
 * Given:   run  loaded and weighed; run->n_gridded counted on, gridders that are not needed any more are freed
 * Returns: 0, or any code of msi_gridder_image and msi_imaging_files_write
 */
int msi_imaging_channels_run(msi_imaging_run *run);

#endif
