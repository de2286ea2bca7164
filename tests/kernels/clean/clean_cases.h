/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Problems for cleaners: point spread functions of random samples, sources convolved with them, and noise. */
#ifndef MSI_TESTS_CLEAN_CASES_H
#define MSI_TESTS_CLEAN_CASES_H

#include "kernels/cleaner.h"
#include "tests/kernels/clean/clean_oracle.h"

extern msi_backend clean_backend; /* set by clean_begin */

/* clean_begin - set clean_backend by the program's first argument, cpu or cuda. Returns 0 if it is not available. */
int clean_begin(int argc, char **argv);

/* A source: a point, or a gaussian of this sigma in pixels, with a flux in every channel and polarisation. */
typedef struct clean_source {
    double x, y, sigma, flux[ORACLE_CHANNELS * 4];
} clean_source;

/* clean_random - return a number in [-0.5, 0.5). */
double clean_random(uint64_t *seed);

/* clean_problem_make - make PSFs for shape (nx, ny, n_channel, n_pol, weights and frequencies set); residual and model
 * are zero. The uv coordinates of a channel's samples are proportional to its frequency; cells have other samples. */
void clean_problem_make(clean_problem *p, int n_sample, uint64_t seed);

/* clean_problem_add - add a source, convolved with the PSFs, to the residual. */
void clean_problem_add(clean_problem *p, const clean_source *s);

/* clean_problem_noise - add noise to the residual: a sky of this amplitude in every pixel, convolved with the PSFs. */
void clean_problem_noise(clean_problem *p, double amplitude, uint64_t seed);

/* clean_problem_points - add n points of fluxes that decrease from 1, with random places and spectra, and noise. */
void clean_problem_points(clean_problem *p, int n, uint64_t seed);
/*
 * clean_inner_mask - mask a fraction `part` of the pixels that are at least `border` of the width away from edges.
 * Returned: freed by free
 */
uint8_t *clean_inner_mask(const clean_problem *p, double border, double part);

void clean_problem_copy(clean_problem *to, const clean_problem *from);
void clean_problem_free(clean_problem *p);

/* clean_spec_of - return the specification of a problem: shape, weights, frequencies, backend. */
msi_cleaner_spec clean_spec_of(const clean_problem *p, msi_precision precision);

/* A cleaner with its planes. */
typedef struct clean_run {
    msi_cleaner *c;
    msi_planes *residual, *model;
    msi_precision precision;
    int64_t n_value; /* of all planes */
} clean_run;

/* clean_run_make - make a cleaner with a problem's PSFs, mask and planes. */
void clean_run_make(clean_run *run, const clean_problem *p, const msi_cleaner_spec *spec);

/* clean_run_fetch - copy planes to the host, as doubles. Returned: freed by free. */
double *clean_run_fetch(const clean_run *run, const msi_planes *planes);
void clean_run_free(clean_run *run);

/* clean_planes_upload, clean_planes_of - make planes of a problem's values. */
msi_planes *clean_planes_of(const clean_problem *p, const double *value, int n, msi_precision precision);

/* clean_largest_distance - return the largest difference of two arrays where both are finite; infinite if only one is
 * finite somewhere. */
double clean_largest_distance(const double *a, const double *b, int64_t n);

#endif
