/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The default gridder's plan: window, padding and w-planes, chosen together from the accuracy and a cost model. */
#ifndef MSI_KERNELS_WGRID_PLAN_H
#define MSI_KERNELS_WGRID_PLAN_H

#include "core/image.h"
#include "kernels/method/geometry.h"
#include "kernels/method/method.h"
#include "kernels/store/vis_store.h"
#include "kernels/transform/pswf.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parts of the v axis of a padded grid. */
enum { MSI_V_PARTS = 1024 };

typedef struct msi_wgrid_plan {
    msi_image_geometry image;
    msi_wgrid_geometry grid;
    msi_pswf window;   /* along u and v */
    msi_pswf w_window; /* along w; same width, its own oversampling */
    msi_precision precision;
    int device;      /* CUDA ordinal, for the GPU backend */
    int64_t v_reach; /* |v| of all samples, in cells; 0: unknown */
    int knows_parts; /* 1: parts of the v axis without a sample have 0 in has_part */
    uint8_t has_part[MSI_V_PARTS];
    int64_t batch_samples; /* largest number of samples on the GPU (but at least one segment); 0: as many as fit */
    double error_estimate; /* relative L2 of the image: windows, rounding, phases */
    double cost_s;         /* estimated seconds for one image plane on one unit of the backend */
    double sample_cost_s;  /* the samples' part of cost_s */
} msi_wgrid_plan;

/* The requirements of a plan, and its samples. */
typedef struct msi_wgrid_request {
    msi_image_geometry image;
    double l_center_rad, m_center_rad; /* direction of pixel (nx/2, ny/2) */
    double beyond;                     /* argument of msi_n_minus_1_to */
    double accuracy;                   /* relative L2 of the image */
    msi_precision precision;
    double least_padding;        /* the padded grid is at least this many times the image; 0: no limit */
    int least_width, most_width; /* taps of the window; 0: no limit */
    int64_t n_sample;
    double w_min_lambda, w_max_lambda; /* range of |w|; w_min > w_max: no samples */
    double longest_lambda;             /* maximum of |v|; 0: unknown */
    const msi_cost_model *cost;        /* borrowed */
    int64_t (*padded_size)(int64_t n); /* padded size of an axis of at least n cells; NULL: msi_fft_size */
    int device;                        /* CUDA ordinal, for the GPU backend */
} msi_wgrid_request;

/* msi_wgrid_request_of - convert a gridder's request, for a plan with a backend's cost. */
msi_wgrid_request msi_wgrid_request_of(const msi_plan_request *request, const msi_cost_model *cost);

/*
 * msi_wgrid_plan_make - find the cheapest plan that reaches the accuracy.
 *
 * Returned: *plan
 * Returns:  0, MSI_ERANGE (no window reaches the accuracy on a grid that 32-bit cells can index)
 * Notes:    the squares of the errors of u, v and w are added; together they get 0.7 of the accuracy. The distance of
 *           w-planes is dw = 1 / (sigma_w (max - min of n - 1)).
 * Source:   improved w-stacking is Ye, Gull, Tan & Nikolic 2022, w-gridding Arras et al. 2021.
 */
int msi_wgrid_plan_make(msi_wgrid_plan *plan, const msi_wgrid_request *request);

/*
 * msi_wgrid_plan_report - copy a plan's figures to a report: window, grid, w-planes and error; no towers.
 * Returned: report's width to w_step, except n_w_resident; n_tower, tower_planes, subgrid: 0; error_estimate
 */
void msi_wgrid_plan_report(const msi_wgrid_plan *plan, msi_gridder_report *report);

/*
 * msi_wgrid_plan_least_device_bytes - return the least device memory for a request: a w-plane, cuFFT's work area for
 * its transform, and images. Planes of a residual belong to the caller, and samples are processed in batches.
 * Given: worked_cells  cells of the smallest plane for which cuFFT needs a work area
 */
int64_t msi_wgrid_plan_least_device_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request,
                                          int64_t worked_cells);

/* msi_wgrid_plan_lay_tiles - choose the smallest tiles whose number times that of the w-planes is at most
 * most_buckets. */
void msi_wgrid_plan_lay_tiles(msi_wgrid_plan *plan, int64_t most_buckets);

/* msi_wgrid_plan_find_parts - find the parts of the v axis that have samples, which bounds the rows of a plane that they
 * touch. Nothing is found if samples are unknown or in a file, or for predictions, whose samples may change. */
void msi_wgrid_plan_find_parts(msi_wgrid_plan *plan, const msi_plan_request *request);

/* ---- Strategies of the default gridder, and functions that whole planes and w-towers share ---- */

/* Whole w-planes, imaging and predicting. */
extern const msi_strategy_ops msi_wgrid_cpu_ops;

extern const msi_strategy_ops msi_wgrid_cuda_ops; /* in builds with CUDA */

/* The functions of one strategy of the default gridder on one backend. */
typedef struct msi_wgrid_form {
    int (*image)(const msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                 msi_stage_times *times);
    /* *model_cache is NULL at first, and then holds data for the next call with the same model, freed by free_model.
     * model_cache itself NULL: nothing is kept. */
    int (*predict)(const msi_plan *plan, msi_vis_store *store, const msi_image *model, void **model_cache,
                   msi_stage_times *times);
    void (*free_model)(void *model_cache);
    /* *samples is NULL at first, and then holds data made from the store for the next job, freed by free_samples. */
    int (*residual)(const msi_plan *plan, const msi_residual_job *job, void **samples, msi_stage_times *times);
    void (*free_samples)(void *samples);
} msi_wgrid_form;

/* The first part of the plans of whole planes and of w-towers. */
struct msi_plan {
    msi_wgrid_plan wgrid;
    const msi_wgrid_form *form;
    int64_t n_resident; /* planes in memory, as the form counts them */
    int keeps_model;
    void *model_cache, *samples;
};

/* msi_wgrid_plan_free, msi_wgrid_image, msi_wgrid_predict, msi_wgrid_residual - the functions of msi_strategy_ops,
 * which call the plan's form. */
void msi_wgrid_plan_free(msi_plan *plan);

int msi_wgrid_image(msi_plan *plan, const msi_vis_store *store, const int *store_plane, msi_image *image,
                    msi_stage_times *times);

int msi_wgrid_predict(msi_plan *plan, msi_vis_store *store, const msi_image *model, msi_stage_times *times);

int msi_wgrid_residual(msi_plan *plan, const msi_residual_job *job, msi_stage_times *times);

/* msi_wgrid_cpu_residual, msi_wgrid_cpu_free_samples - serve any form on the CPU, by its other functions. The samples
 * are sorted once. */
int msi_wgrid_cpu_residual(const msi_plan *plan, const msi_residual_job *job, void **samples, msi_stage_times *times);

void msi_wgrid_cpu_free_samples(void *samples);

/* msi_wgrid_cpu_samples_bytes - return the host bytes of a request's sorted samples, and of the copies that residuals
 * keep. */
int64_t msi_wgrid_cpu_samples_bytes(const msi_wgrid_plan *plan, const msi_plan_request *request);

#ifdef __cplusplus
}
#endif
#endif
