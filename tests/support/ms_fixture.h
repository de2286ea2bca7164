/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Small Measurement Sets of known content for tests, written by casacore_c. */
#ifndef MSI_TESTS_MS_FIXTURE_H
#define MSI_TESTS_MS_FIXTURE_H

#include <stdint.h>

#include "io/casacore-c/casacore_c.h"
#include "tests/support/temp_folder.h"

enum { FIXTURE_MAX_SPW = 4 };

/* Rows are ordered by timestep, spectral setup, baseline (with autocorrelations); or, if interleaved, the setups of a
 * baseline follow each other. */
typedef struct ms_fixture {
    int n_antenna, n_time, n_field;                       /* timestep t belongs to field t % n_field */
    int n_spw;                                            /* one DATA_DESC_ID each */
    int n_chan[FIXTURE_MAX_SPW], n_corr[FIXTURE_MAX_SPW]; /* 1, 2 or 4 correlations: XX, XX YY, XX XY YX YY */
    int descending[FIXTURE_MAX_SPW];
    int interleaved;          /* the setups of a baseline follow each other */
    int tiled;                /* DATA, FLAG, WEIGHT_SPECTRUM in TiledShapeStMan, TIME .. in IncrementalStMan */
    int with_weight_spectrum; /* 1: in all rows, 2: undefined in every third row */
    int with_corrected;       /* CORRECTED_DATA = 2 * DATA */
    int with_source;          /* SOURCE with a rest frequency of 1.42e9 */
} ms_fixture;

/* fixture_make - write the set. On failure it ends the test process with a message. */
void fixture_make(const ms_fixture *f, const char *path);

/* Values in the set, by row number, stored channel and correlation. */
int64_t fixture_n_row(const ms_fixture *f);
void fixture_row(const ms_fixture *f, int64_t row, int *time, int *spw, int *antenna1, int *antenna2);
double fixture_freq_hz(const ms_fixture *f, int spw, int chan);
float fixture_data(int64_t row, int chan, int corr, float *imaginary);
int fixture_flag(int64_t row, int chan, int corr);
int fixture_flag_row(int64_t row);
float fixture_weight(int64_t row, int corr);                    /* WEIGHT */
float fixture_weight_spectrum(int64_t row, int chan, int corr); /* WEIGHT_SPECTRUM */
int fixture_has_spectrum(const ms_fixture *f, int64_t row);
void fixture_uvw_m(int64_t row, double uvw_m[3]);

/* fixture_hash - return a hash of the bytes, names, sizes and modes of all files below path. */
uint64_t fixture_hash(const char *path);

#endif
