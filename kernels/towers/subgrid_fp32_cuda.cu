/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The kernels of subgrids in single precision. Each precision has its own file, because compiling one takes minutes. */
#include "kernels/towers/subgrid_cuda.h"

#include "kernels/towers/subgrid_cuda.cuh"

int msi_subgrid_roots_fp32(const msi_subgrid_shape *shape, void *roots, int64_t *n)
{
    return make_roots<float>(*shape, roots, n);
}

int msi_subgrid_screens_fp32(const msi_subgrid_shape *shape, const double *nu, void *screens, void *stream)
{
    return make_screens<float>(*shape, nu, screens, (cudaStream_t)stream);
}

int msi_subgrid_add_fp32(const msi_subgrid_job *job, void *stream)
{
    return add<float>(*job, (cudaStream_t)stream);
}

int msi_subgrid_cut_fp32(const msi_subgrid_job *job, void *stream)
{
    return cut<float>(*job, (cudaStream_t)stream);
}
