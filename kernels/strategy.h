/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The table of gridders: method x backend. gridder.c owns it; tests walk it. */
#ifndef MSI_KERNELS_STRATEGY_H
#define MSI_KERNELS_STRATEGY_H

#include "kernels/gridder.h"
#include "kernels/grid/wgrid_cpu.h"

typedef struct msi_strategy {
    const char *method;
    msi_backend backend;
    const msi_cost_model *cost;
    /* 1 where this process can use the backend. */
    int (*available)(void);
    /* Bytes of host memory the image call needs beside the store, and of device memory; see msi_gridder_report. */
    void (*bytes)(const msi_wgrid_plan *plan, int64_t n_sample, int n_plane, int64_t n_resident, int64_t *host,
                  int64_t *device);
    int64_t (*resident)(const msi_wgrid_plan *plan, int n_plane, int64_t n_sample, int64_t host_bytes);
    int (*image)(const msi_wgrid_plan *plan, const msi_vis_store *store, const int *store_plane, int64_t n_resident,
                 msi_image *image, msi_wgrid_times *times);
} msi_strategy;

/* msi_strategies - the table; *n entries, in the order in which AUTO prefers them. */
const msi_strategy *msi_strategies(int *n);

#endif
