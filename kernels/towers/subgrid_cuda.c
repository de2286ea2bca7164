/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/towers/subgrid_cuda.h"

const int32_t msi_subgrid_size[MSI_SUBGRID_N_SIZE] = {32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512};

int msi_subgrid_roots(const msi_subgrid_shape *shape, void *roots, int64_t *n)
{
    return shape->precision == MSI_FP32 ? msi_subgrid_roots_fp32(shape, roots, n)
                                        : msi_subgrid_roots_fp64(shape, roots, n);
}

int msi_subgrid_screens(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream)
{
    return shape->precision == MSI_FP32 ? msi_subgrid_screens_fp32(shape, nu, screens, stream)
                                        : msi_subgrid_screens_fp64(shape, nu, screens, stream);
}

int msi_subgrid_add(const msi_subgrid_job *job, void *stream)
{
    return job->shape.precision == MSI_FP32 ? msi_subgrid_add_fp32(job, stream) : msi_subgrid_add_fp64(job, stream);
}

int msi_subgrid_cut(const msi_subgrid_job *job, void *stream)
{
    return job->shape.precision == MSI_FP32 ? msi_subgrid_cut_fp32(job, stream) : msi_subgrid_cut_fp64(job, stream);
}
