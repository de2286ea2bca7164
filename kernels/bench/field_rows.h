/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Random fields, on which msimage-bench runs the strategies of the plan API and checks their results.
 *
 * A field has a store of visibilities, and reference results at some pixels of an image and at some visibilities of a
 * model. References are direct Fourier sums in double precision, with phases in long double. Visibilities are functions
 * of their index and the seed, so they can be computed again after a prediction has overwritten them.
 */
#ifndef MSI_FIELD_ROWS_H
#define MSI_FIELD_ROWS_H

#include "core/image.h"
#include "kernels/bench/bench.h"
#include "kernels/store/vis_store.h"
#include "kernels/strategy.h"

enum {
    MSI_BENCH_FIELD_PLANES = 4,
    MSI_BENCH_FIELD_MAX_CHAN = 16,
    MSI_BENCH_FIELD_MAX_PIXEL = 200,
    MSI_BENCH_FIELD_SOURCES = 64
};

/* Pixels with reference values: some corners, middles of edges and the centre, then random pixels. */
typedef struct msi_bench_field_pixels {
    int n;
    int64_t x[MSI_BENCH_FIELD_MAX_PIXEL], y[MSI_BENCH_FIELD_MAX_PIXEL];
} msi_bench_field_pixels;

typedef struct msi_bench_field {
    /* Set by the caller before msi_bench_field_fill. uvw_m then belongs to the field; msi_bench_field_free frees it. */
    msi_image_geometry geometry;
    int64_t n_row;
    int32_t n_chan;
    int n_plane;
    msi_precision precision;
    double freq_hz[MSI_BENCH_FIELD_MAX_CHAN]; /* evenly spaced */
    double *uvw_m;                            /* [n_row][3] */
    double w_min_lambda, w_max_lambda;        /* range of |w| over rows and channels */
    double flagged;                           /* fraction of samples with weight 0 */
    int n_pixel;                              /* number of pixels that are checked, up to MSI_BENCH_FIELD_MAX_PIXEL */
    uint64_t seed;
    int procedural; /* 1: no station table was given */
    /* Set by msi_bench_field_fill. */
    float *weight; /* weights of the store */
    void *vis;
    int overwritten; /* 1: vis has a prediction, not the random values */
    msi_vis_store store;
    double sum_weight[MSI_BENCH_FIELD_PLANES];
    double rms[MSI_BENCH_FIELD_PLANES + 1]; /* expected rms of the images if phases are random, the PSF last */
    int64_t n_vis[MSI_BENCH_FIELD_PLANES];
    msi_bench_field_pixels checked;
    double *truth; /* [n_plane + 1][checked.n], the PSF last; NULL until an image is checked */
} msi_bench_field;

/* msi_bench_field_fill - make the store, weights and visibilities of a field whose first members are set. Returns: 0,
 * MSI_ENOMEM
 */
int msi_bench_field_fill(msi_bench_field *f);
void msi_bench_field_free(msi_bench_field *f);

/* msi_bench_field_use - prepare the store for imaging, with the random visibilities, or for prediction. */
void msi_bench_field_use(msi_bench_field *f, int to_predict);

/*
 * msi_bench_field_image_error - return the relative L2 error of an image's worst plane at the checked pixels, compared
 * with direct sums. It is relative to the rms of these sums, or to the expected rms of the image if that is larger.
 * Given:   image  of the field's geometry; store_plane [image->n_plane], -1: the PSF of plane 0
 * Returns: 0, MSI_ENOMEM
 */
int msi_bench_field_image_error(msi_bench_field *f, const msi_image *image, const int *store_plane, double *error);

/* msi_bench_field_residual_error - return the same for images from which a source of centre_jy at the centre pixel of
 * plane 0 was subtracted. */
int msi_bench_field_residual_error(msi_bench_field *f, const msi_image *image, const int *store_plane, double centre_jy,
                                   double *error);

/* msi_bench_field_model - make n_plane images with MSI_BENCH_FIELD_SOURCES pixels that are not 0. Returned: *model,
 * freed by msi_image_free */
int msi_bench_field_model(const msi_bench_field *f, msi_image *model);

/* msi_bench_field_vis_error - compute the relative L2 error of a prediction of this model, compared with direct sums,
 * at visibilities spread over the store. */
void msi_bench_field_vis_error(const msi_bench_field *f, const msi_image *model, double *error);

/* ---- Fields in the geometry of EL56-82 ---- */

/* The part of the observation that is gridded, and the image. Several channels are from 100 to 130 MHz. */
typedef struct msi_field_el56 {
    int64_t n_time, n_pixel; /* pixels a side */
    int32_t n_chan;
    int n_plane;
    msi_precision precision;
    double cell_asec; /* pixel size; 0: the longest baseline just fits in the uv plane */
} msi_field_el56;

/*
 * msi_field_el56_get - return the last field if it is the requested one, otherwise a new field.
 * Returned: *out, borrowed until the next call
 * Returns:  0, MSI_EINPUT (layouts), MSI_ENOMEM
 */
int msi_field_el56_get(msi_bench_field **out, const msi_field_el56 *wanted, const msi_bench_options *options);

/* A plan of a strategy for a field, and its result. */
typedef struct msi_field_strategy {
    msi_bench_field *field;
    const msi_strategy *strategy;
    msi_gridder_spec spec;
    msi_plan *plan;
    msi_gridder_report report;
    msi_image image; /* result, or model */
    int store_plane[MSI_BENCH_FIELD_PLANES + 1];
    msi_stage_times times; /* times of the last run */
    double wall_s;
} msi_field_strategy;

/* The task of a strategy for a field, in the precision of the field. */
typedef struct msi_field_request {
    const msi_strategy *strategy;
    int predict, psf; /* psf: also make the PSF */
    double accuracy;
    msi_plan_pins pins; /* pins of its plan */
} msi_field_request;

/*
 * msi_field_strategy_begin - make a plan and allocate the result.
 * Given:    field  borrowed
 * Returned: *s, freed by msi_field_strategy_end, also after a failure
 * Returns:  0, MSI_ERANGE (no plan), MSI_ENOMEM, MSI_EGPU
 */
int msi_field_strategy_begin(msi_field_strategy *s, msi_bench_field *field, const msi_field_request *request);

/*
 * msi_field_strategy_run - image or predict once.
 * Returned: *time  of the stages; members without a stage are not changed
 * Returns:  0, or any code of the strategy
 */
int msi_field_strategy_run(msi_field_strategy *s, msi_bench_time *time);

/* msi_field_strategy_error - compute the relative error of the last run's worst image, compared with direct sums.
 * Returns: 0, MSI_ENOMEM */
int msi_field_strategy_error(msi_field_strategy *s, double *error);

/* msi_field_strategy_end - free the members; NULL-safe. */
void msi_field_strategy_end(msi_field_strategy *s);

/* msi_field_strategy_row - return a table row with the names of a strategy, without functions. */
msi_bench_row msi_field_strategy_row(const msi_strategy *strategy, msi_precision precision, int predict);

/* msi_field_strategy_serves - return 1 if a strategy can image, or predict. */
int msi_field_strategy_serves(const msi_strategy *strategy, int predict);

/* msi_field_strategy_additions - return the number of cells that the samples of all images touch, for the widest
 * kernel. */
double msi_field_strategy_additions(const msi_field_strategy *s);

/*
 * The regret of a plan: the extra time of the plan that the cost model chooses, compared with the fastest plan of the
 * same accuracy. Plans of the default gridder differ by strategy, window and subgrids. Each plan is run, and its time
 * is compared with the estimate of the model.
 */

typedef struct msi_plan_regret msi_plan_regret;

/*
 * msi_plan_regret_begin - list the plans for a field.
 * Given:    field  borrowed; wanted  as for msi_field_strategy_begin
 * Returned: *out, freed by msi_plan_regret_end, also after a failure
 * Returns:  0, MSI_ERANGE (no plan), MSI_ENOMEM, MSI_EGPU
 */
int msi_plan_regret_begin(msi_plan_regret **out, msi_bench_field *field, const msi_field_request *wanted);

/*
 * msi_plan_regret_run - run the chosen plan and all plans with similar estimated times, each a few times, and print
 * their shortest times. Later calls run only the chosen plan.
 * Returned: *time  of the chosen plan; work->note  the regret
 * Returns:  0, or any code of the strategies
 */
int msi_plan_regret_run(msi_plan_regret *r, msi_bench_work *work, msi_bench_time *time);

/*
 * msi_plan_regret_row - set the functions of a row that runs all plans, except set_up, which must return an
 * msi_plan_regret as the state. The row does not check results; rows of single strategies do.
 */
void msi_plan_regret_row(msi_bench_row *row);

/* msi_plan_regret_measured - return the relative difference of the times of the chosen plan and the best one. */
double msi_plan_regret_measured(const msi_plan_regret *r);

/* msi_plan_regret_end - NULL-safe. */
void msi_plan_regret_end(msi_plan_regret *r);

/* ---- Rows of whole strategies, by the plan API ---- */

/* Rows field/, field-small/ and field-8chan/: the default gridder's strategies on the coordinates of rows el56/. */
msi_bench_table msi_default_rows(void);

/* Rows residual/ and residual-small/: a deconvolution's major cycle by the default gridder's strategies. */
msi_bench_table msi_residual_rows(void);

/* Rows team/ and team-small/: images by several GPUs, or several workers of the CPU. */
msi_bench_table msi_team_rows(void);

/* Every strategy and direction on small random fields. */
msi_bench_table msi_random_rows(void);

#endif
