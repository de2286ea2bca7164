/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What gridder.c and density.c share. */
#ifndef MSI_KERNELS_GRIDDER_INTERNAL_H
#define MSI_KERNELS_GRIDDER_INTERNAL_H

#include "kernels/gridder.h"
#include "kernels/store/vis_store.h"
#include "kernels/strategy.h"

struct msi_gridder {
    msi_gridder_spec spec;
    const msi_strategy *strategy;
    msi_precision precision;
    msi_vis_store store;
    msi_gridder_report report;

    /* Of predict. */
    const msi_image *model;
    msi_plan *plan;
    struct {
        int64_t n_sample, n_row; /* 0: what the store holds decides */
        double w_min_lambda, w_max_lambda;
    } expected;
};

#endif
