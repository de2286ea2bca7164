/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuFFT plans for the two-dimensional transforms of w-planes. */
#ifndef MSI_KERNELS_FFT_PLAN_CUDA_CUH
#define MSI_KERNELS_FFT_PLAN_CUDA_CUH

#include <stdint.h>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_pool.h"

namespace {

/* plan_fft - make a cuFFT plan. If it fails, free the pool's idle memory, which cuFFT cannot use, and try again.
 * Returns: 0, MSI_EGPU */
template <typename F> int plan_fft(F make)
{
    if (make() == CUFFT_SUCCESS) return MSI_OK;
    cudaGetLastError();
    msi_gpu_pool_trim();
    const cufftResult e = make();
    if (e == CUFFT_SUCCESS) return MSI_OK;
    cudaGetLastError();
    const int rc = msi_error_set(MSI_EGPU, "%s: cannot plan a transform%s: cuFFT error %d", msi_gpu_current_name(),
                                 e == CUFFT_ALLOC_FAILED ? " (not enough device memory)" : "", (int)e);
    return e == CUFFT_ALLOC_FAILED ? msi_error_about(rc, "backend") : rc;
}

/* An fft_plan transforms in place and frees itself. */
class fft_plan {
  public:
    fft_plan() = default;
    fft_plan(const fft_plan &) = delete;
    fft_plan &operator=(const fft_plan &) = delete;
    ~fft_plan()
    {
        destroy_plan();
    }
    /* make - plan the transform of a plane [nv][nu], CUFFT_C2C or CUFFT_Z2Z, on a stream of the current device.
     * Returns: 0, MSI_EGPU */
    int make(int64_t nv, int64_t nu, cufftType type_, cudaStream_t stream)
    {
        destroy_plan();
        MSI_TRY(plan_fft([&] { return cufftPlan2d(&plan, (int)nv, (int)nu, type_); }));
        type = type_;
        made = true;
        MSI_CUFFT(cufftSetStream(plan, stream));
        return MSI_OK;
    }
    /* run - begin a transform in direction CUFFT_FORWARD or CUFFT_INVERSE. Returns: 0, MSI_EGPU */
    int run(void *cells, int direction) const
    {
        if (type == CUFFT_C2C)
            MSI_CUFFT(cufftExecC2C(plan, (cufftComplex *)cells, (cufftComplex *)cells, direction));
        else
            MSI_CUFFT(cufftExecZ2Z(plan, (cufftDoubleComplex *)cells, (cufftDoubleComplex *)cells, direction));
        return MSI_OK;
    }

  private:
    cufftHandle plan = 0;
    bool made = false;
    cufftType type = CUFFT_C2C;

    void destroy_plan()
    {
        if (made) cufftDestroy(plan);
        made = false;
    }
};

} // namespace

#endif
