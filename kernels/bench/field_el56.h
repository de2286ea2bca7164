/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Fields in the geometry of EL56-82, whose uv plane the longest baseline just fits unless a pixel's size is given. */
#ifndef MSI_BENCH_FIELD_EL56_H
#define MSI_BENCH_FIELD_EL56_H

#include "kernels/bench/workload_field.h"

/* Tells how much of the observation is gridded, at what pixels: of several channels the first is at 100 MHz, the last
 * at 130. */
typedef struct msi_field_el56 {
    int64_t n_time, n_pixel; /* pixels a side */
    int32_t n_chan;
    int n_plane;
    msi_precision precision;
    double cell_asec; /* 0: as the longest baseline asks for */
} msi_field_el56;

/*
 * msi_field_el56_get - return the field that was got last, or a new one where that is another.
 * Returned: *out, borrowed, until the next call
 * Returns:  0, MSI_EINPUT (layouts), MSI_ENOMEM
 */
int msi_field_el56_get(msi_bench_field **out, const msi_field_el56 *wanted, const msi_bench_options *options);

#endif
