/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Rows points/: degridding random points with a tabulated, non-separable convolution function of 8 x 8 sub-positions
 * from an 8192^2 complex image, the problem of NVIDIA 2015 ("Degridding optimization for SDP on NVIDIA GPUs"). Image,
 * table and points are functions of their indices, so that the device computes them, and the reference computes the
 * same values again.
 */
#ifndef MSI_WORKLOAD_TRACKS_H
#define MSI_WORKLOAD_TRACKS_H

#include "core/types.h"
#include "kernels/bench/bench.h"
#include "kernels/wproj/job/wproj_job.h"
#include "kernels/wproj/points/wproj_points_cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_POINTS_CELLS = 8192, MSI_POINTS_OVERSAMPLE = 8 };

enum { MSI_POINTS_IMAGE = 1, MSI_POINTS_TABLE = 2, MSI_POINTS_PLACE = 3 }; /* streams of random numbers */

/* msi_points_bits - return the 64 random bits of index i of a stream (the finaliser of SplitMix64). */
MSI_HD uint64_t msi_points_bits(uint64_t stream, uint64_t i)
{
    uint64_t x = (stream << 56) + (i + 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* msi_points_value - return a complex number in the square [-1, 1) x [-1, 1), exact in float32. */
MSI_HD msi_c32 msi_points_value(uint64_t stream, uint64_t i)
{
    uint64_t bits = msi_points_bits(stream, i);
    return (msi_c32){(float)(int32_t)(bits >> 40) * 0x1p-23f - 1, (float)(int32_t)(bits & 0xffffff) * 0x1p-23f - 1};
}

/* msi_points_sample - return point i, with any cell and any of the sub-positions -4 .. 3. */
MSI_HD msi_wproj_sample msi_points_sample(uint64_t i)
{
    uint64_t bits = msi_points_bits(MSI_POINTS_PLACE, i);
    msi_wproj_sample s;
    s.u = (int32_t)(bits % MSI_POINTS_CELLS) - MSI_POINTS_CELLS / 2;
    s.v = (int32_t)((bits >> 16) % MSI_POINTS_CELLS) - MSI_POINTS_CELLS / 2;
    s.sub_u = (int16_t)((int)((bits >> 32) % MSI_POINTS_OVERSAMPLE) - MSI_POINTS_OVERSAMPLE / 2);
    s.sub_v = (int16_t)((int)((bits >> 40) % MSI_POINTS_OVERSAMPLE) - MSI_POINTS_OVERSAMPLE / 2);
    s.plane = 0;
    s.conjugate = 0;
    s.frac_u = s.frac_v = 0;
    return s;
}

/*
 * msi_points_reference - return the visibility of point i, summed in double.
 * Given: phase  the function to evaluate; NULL: use the table
 */
msi_c64 msi_points_reference(int32_t taps, uint64_t i, const msi_gather_phase *phase);

/*
 * msi_points_bound_ms - return a lower limit of the time for n points: the time to read, once, the 32-byte sectors of
 * the image that footprints touch, with samples and values, at the memory bandwidth.
 */
double msi_points_bound_ms(int32_t taps, int64_t n, msi_precision precision, double bytes_per_s);

msi_bench_table msi_points_rows_cuda(void);

/* Rows tracks/ and merged/: baselines of a synthesis array as tracks over the grid, in the order of a moving
 * window. */

/* Samples [n], baseline by baseline. */
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
 * Given:    merge  1: merge neighbours with the same cell, sub-cell and plane
 * Returned: *out, freed by msi_tracks_free; the same on every call
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
