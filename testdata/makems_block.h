/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Computes the rows of a new set in blocks. */
#ifndef MSI_TESTDATA_MAKEMS_BLOCK_H
#define MSI_TESTDATA_MAKEMS_BLOCK_H

#include "testdata/makems.h"
#include "testdata/point_model.h"

/*
 * Rows of one spw. Each spw numbers its own rows: row = timestep * n_baseline + baseline. The arrays are allocated for
 * blocks of any spw.
 */
typedef struct msi_makems_block {
    int spw;
    int64_t first_row, n_row;
    int64_t *ms_row; /* [n_row] ascending row numbers in the Measurement Set */
    double *time_s;  /* [n_row] middle of the integration */
    double *uvw_m;   /* [n_row][3] */
    int32_t *antenna1, *antenna2, *field_id, *scan, *data_desc_id; /* [n_row] */
    uint8_t *flag_row;                                             /* [n_row] */
    uint8_t *has_spectrum;                                         /* [n_row] 1: WEIGHT_SPECTRUM has a value */
    float *weight, *sigma;                                         /* [n_row][n_corr] */
    msi_c64 *exact;                                                /* [n_row][n_chan][n_corr] */
    msi_c32 *data;          /* [n_row][n_chan][n_corr] with noise and wrong values */
    float *weight_spectrum; /* [n_row][n_chan][n_corr]; NULL without the column */
    uint8_t *flag;          /* [n_row][n_chan][n_corr] */
} msi_makems_block;

typedef struct msi_makems_sampler msi_makems_sampler;

/*
 * msi_makems_sampler_create - prepare sources, temperatures and bandpasses.
 * Given:    spec  borrowed until the sampler is freed; start_mjd_s must be set
 * Returns:  0, MSI_EUSAGE, MSI_ENOMEM
 */
int msi_makems_sampler_create(msi_makems_sampler **out, const msi_makems_spec *spec);
void msi_makems_sampler_free(msi_makems_sampler *sampler);

/* msi_makems_block_alloc - allocate max_row rows of any spw. Returns 0 or MSI_ENOMEM; freed by
 * msi_makems_block_free. */
int msi_makems_block_alloc(msi_makems_block *block, const msi_makems_spec *spec, int64_t max_row);
void msi_makems_block_free(msi_makems_block *block);

/* msi_makems_block_fill - compute block->n_row rows from block->first_row on of block->spw. */
void msi_makems_block_fill(msi_makems_sampler *sampler, msi_makems_block *block);

#endif
