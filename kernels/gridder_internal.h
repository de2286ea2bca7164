/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What gridder.c and density.c share. */
#ifndef MSI_KERNELS_GRIDDER_INTERNAL_H
#define MSI_KERNELS_GRIDDER_INTERNAL_H

#include "kernels/gridder.h"
#include "kernels/prepare/vis_store.h"
#include "kernels/prepare/wgrid_plan.h"
#include "kernels/strategy.h"

struct msi_gridder {
    msi_gridder_spec spec;
    const msi_strategy *strategy;
    msi_precision precision;
    msi_vis_store store;
    msi_gridder_report report;
};

#endif
