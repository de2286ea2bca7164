/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Benchmark only, for the problem of Adamek et al. (2021). The product grids subgrids with kernels/towers. */
#include "kernels/stacks/stack_degrid_cpu.h"

#include "core/process.h"
#include "core/status.h"

enum { AT_ONCE = 4096 };

int msi_stack_job_check(const msi_stack_job *job)
{
    const int32_t size = job->size, n = job->n_subgrid;
    if (size < 2 * MSI_STACK_TAPS || size > MSI_STACK_MAX_SIZE || size % 2 != 0)
        return msi_error_set(MSI_ERANGE, "subgrids of %d cells a side: an even number from %d to %d is needed", size,
                             2 * MSI_STACK_TAPS, MSI_STACK_MAX_SIZE);
    if (n < 0 || job->first_vis[0] != 0)
        return msi_error_set(MSI_ERANGE, "n_subgrid must be 0 or more, and first_vis[0] must be 0; n_subgrid is %d", n);
    for (int32_t s = 0; s < n; s++)
        if (job->first_vis[s + 1] < job->first_vis[s])
            return msi_error_set(MSI_ERANGE, "subgrid %d: %lld visibilities", s,
                                 (long long)(job->first_vis[s + 1] - job->first_vis[s]));
    return MSI_OK;
}

static double real_at(const msi_stack_job *job, const void *table, int64_t i)
{
    return job->precision == MSI_FP32 ? ((const float *)table)[i] : ((const double *)table)[i];
}

static msi_c64 cell_at(const msi_stack_job *job, int64_t i)
{
    if (job->precision == MSI_FP64) return ((const msi_c64 *)job->grid)[i];
    msi_c32 x = ((const msi_c32 *)job->grid)[i];
    return (msi_c64){x.re, x.im};
}

static msi_c64 sum_footprint(const msi_stack_job *job, int32_t subgrid, msi_stack_place place)
{
    msi_c64 sum = {0, 0};
    const int64_t u_row = (int64_t)msi_stack_sub_u(place) * MSI_STACK_TAPS;
    const int64_t v_row = (int64_t)msi_stack_sub_v(place) * MSI_STACK_TAPS;
    const int64_t w_row = (int64_t)msi_stack_sub_w(place) * MSI_STACK_PLANES;
    for (int l = 0; l < MSI_STACK_PLANES; l++) {
        const double kw = real_at(job, job->kernel_w, w_row + l);
        for (int k = 0; k < MSI_STACK_TAPS; k++) {
            const double kwv = kw * real_at(job, job->kernel_v, v_row + k);
            const int64_t row = ((int64_t)subgrid * MSI_STACK_PLANES + l) * job->size + msi_stack_v0(place) + k;
            for (int j = 0; j < MSI_STACK_TAPS; j++) {
                const msi_c64 x = cell_at(job, row * job->size + msi_stack_u0(place) + j);
                const double weight = kwv * real_at(job, job->kernel_u, u_row + j);
                sum.re += weight * x.re;
                sum.im += weight * x.im;
            }
        }
    }
    return sum;
}

int msi_stack_cpu_degrid(const msi_stack_job *job)
{
    int64_t n_outside = 0;
    MSI_TRY(msi_stack_job_check(job));
    for (int32_t s = 0; s < job->n_subgrid; s++)
        for (int64_t first = job->first_vis[s]; first < job->first_vis[s + 1]; first += AT_ONCE) {
            const int64_t rest = job->first_vis[s + 1] - first, end = first + (rest < AT_ONCE ? rest : AT_ONCE);
            MSI_TRY(msi_interrupt_check());
#pragma omp parallel for reduction(+ : n_outside) schedule(static)
            for (int64_t i = first; i < end; i++) {
                const msi_stack_place place = msi_stack_locate(&job->uvw[i], job->size);
                const msi_c64 x = place & MSI_STACK_OUTSIDE ? (msi_c64){0, 0} : sum_footprint(job, s, place);
                n_outside += (place & MSI_STACK_OUTSIDE) != 0;
                if (job->precision == MSI_FP64)
                    ((msi_c64 *)job->value)[i] = x;
                else
                    ((msi_c32 *)job->value)[i] = (msi_c32){(float)x.re, (float)x.im};
            }
        }
    if (n_outside > 0)
        return msi_error_set(MSI_ERANGE, "%lld visibilities have footprints that leave their subgrids of %d cells",
                             (long long)n_outside, job->size);
    return MSI_OK;
}
