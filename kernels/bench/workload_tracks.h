/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows tracks/ and merged/: baselines of a synthesis array as tracks over the grid, in the order in which a moving
 * window wants them. */
#ifndef MSI_KERNELS_BENCH_WORKLOAD_TRACKS_H
#define MSI_KERNELS_BENCH_WORKLOAD_TRACKS_H

#include "kernels/bench/bench.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Samples [n] baseline by baseline. */
typedef struct msi_tracks {
    int64_t n;
    int64_t n_before_merging, n_baseline;
    int32_t grid, oversample, n_plane;
    msi_wproj_sample *sample;
} msi_tracks;

/*
 * msi_tracks_romein - rows tracks/: 44 stations of a LOFAR-like layout, 946 baselines, n_time steps of 10 s, 16
 * channels of one 195 kHz subband; a baseline's samples are ordered by time, then channel. Grid 2048, oversampling 8,
 * 32 planes.
 *
 * msi_tracks_merry - rows merged/: 64 antennas, 2016 baselines, 3600 samples of 8 s. Grid 4096, oversampling 8, 64
 * planes.
 *
 * Given:    merge  neighbours of equal cell, sub-cell and plane become one
 * Returned: *out, freed by msi_tracks_free. The same on every call.
 * Returns:  0, MSI_ENOMEM
 */
int msi_tracks_romein(msi_tracks *out, int n_time, int merge);
int msi_tracks_merry(msi_tracks *out, int merge);
void msi_tracks_free(msi_tracks *tracks);

msi_bench_table msi_tracks_rows_cuda(void);

#ifdef __cplusplus
}
#endif
#endif
