/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cases of w-projection, by the gridder's interface or by its parts, and how their errors are judged. */
#ifndef MSI_TESTS_WPROJ_CASES_H
#define MSI_TESTS_WPROJ_CASES_H

#include "kernels/wproj/wproj_cpu.h"
#include "kernels/store/vis_store.h"
#include "kernels/wproj/wproj_plan.h"
#include "tests/support/wgrid_cases.h"

/* A narrow field with w of one turn at its corner, a wide one with ten, one that reaches beyond the horizon, odd
 * shapes, and w that matters nowhere. */
enum { MSI_N_WPROJ_CASE = 6 };
extern const msi_case msi_wproj_cases[MSI_N_WPROJ_CASE];

/* Tests move its samples beyond the uv plane that the image can hold. */
extern const msi_case msi_wproj_outside;

/* msi_wproj_spec - specify a gridder of a strategy on the CPU. */
msi_gridder_spec msi_wproj_spec(const msi_case_data *d, double accuracy, const char *strategy);

/*
 * msi_error_to_peak - largest error of n pixels of plane 0 (corners, edges and centre first) over the image's peak.
 * msi_error_to_amplitude - over the weighted mean of the visibilities' amplitudes, which no pixel's value exceeds.
 */
double msi_error_to_peak(const msi_case_data *d, const msi_image *image, int64_t n, uint64_t seed);
double msi_error_to_amplitude(const msi_case_data *d, const msi_image *image, int64_t n, uint64_t seed);

/* msi_check_estimate - print; fail unless error <= estimate <= accuracy, and estimate <= 30 error. */
void msi_check_estimate(const char *what, double accuracy, double error, double estimate);

/* msi_check_edge - samples at the very edge of the uv plane wrap round the grid; beyond it they are dropped and
 * counted. msi_check_nothing - no samples at all: NaN, as of every plane without one. Images by a strategy of a
 * backend. */
void msi_check_edge(msi_backend backend, const char *strategy);
void msi_check_nothing(msi_backend backend, const char *strategy);

/* A case with its plan and kernels. */
typedef struct msi_wproj_parts {
    msi_case_data data;
    msi_vis_store store;
    msi_wproj_plan plan;
    msi_wkernel_set kernels;
} msi_wproj_parts;

/* msi_parts_store - draw the case and store it. msi_parts_plan - make plan and kernels; both fail the test. */
void msi_parts_store(msi_wproj_parts *d, const msi_case *c, msi_precision precision, uint64_t seed);
void msi_parts_plan(msi_wproj_parts *d, const msi_wproj_request *request);
void msi_parts_free(msi_wproj_parts *d);

/* msi_parts_request - make a request that leaves all choices to the plan. */
msi_wproj_request msi_parts_request(const msi_wproj_parts *d, double accuracy, msi_precision precision);

/* msi_parts_coordinates - a store of the case's coordinates, to be predicted. msi_store_difference - relative L2 of the
 * visibilities of two such stores, all planes. */
void msi_parts_coordinates(const msi_wproj_parts *d, msi_vis_store *store);
double msi_store_difference(const msi_vis_store *a, const msi_vis_store *b);

/* msi_parts_image - image plane 0, tile by tile. Freed by msi_image_free. */
void msi_parts_image(const msi_wproj_parts *d, msi_image *image);

/* Possible values of a request. */
typedef struct msi_wproj_choice {
    const char *name;
    double accuracy;
    msi_wproj_form form;
    msi_wproj_spacing spacing;
    msi_kernel_lookup lookup;
    int32_t n_slice;
} msi_wproj_choice;

enum { MSI_N_WPROJ_CHOICE = 10 };
extern const msi_wproj_choice msi_wproj_choices[MSI_N_WPROJ_CHOICE];

/* msi_parts_request_with - a choice's. */
msi_wproj_request msi_parts_request_with(const msi_wproj_parts *d, const msi_wproj_choice *c, msi_precision precision);

#endif
