/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Coordinates of an SKA-Low observation in the geometry of the data set EL56-82 of the SDP memo "Vertical prototyping
 * of the gridding algorithm": 512 stations, 240 times 30 s at 100 MHz, declination -23.2 degrees.
 */
#ifndef MSI_BENCH_ARRAY_EL56_H
#define MSI_BENCH_ARRAY_EL56_H

#include "core/types.h"
#include "kernels/bench/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MSI_EL56_FREQ_HZ 100e6

typedef struct msi_el56_array {
    int64_t n_baseline, n_time;
    float *u, *v, *w;                  /* [n_time][n_baseline] wavelengths at MSI_EL56_FREQ_HZ */
    double u_max_lambda, v_max_lambda; /* of |u|, |v| */
    double w_min_lambda, w_max_lambda; /* of |w| */
    int procedural;                    /* no station table was given */
} msi_el56_array;

/*
 * msi_el56_array_make - make options->scale of the times; below one time, of the stations too.
 * Given:    n_time  of the whole, at most 240
 * Returned: *a, freed by msi_el56_array_free
 * Returns:  0, MSI_EINPUT (layouts), MSI_ENOMEM
 */
int msi_el56_array_make(msi_el56_array *a, const msi_bench_options *options, int64_t n_time);
void msi_el56_array_free(msi_el56_array *a);

/* msi_el56_read_table - read n lines of `columns` numbers of a file of a folder. Returns: 0, MSI_EINPUT */
int msi_el56_read_table(const char *dir, const char *name, double *out, int n, int columns);

#ifdef __cplusplus
}
#endif
#endif
