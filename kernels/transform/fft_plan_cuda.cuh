/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuFFT's plans for the two-dimensional transforms of w-planes. */
#ifndef MSI_KERNELS_FFT_PLAN_CUDA_CUH
#define MSI_KERNELS_FFT_PLAN_CUDA_CUH

#include <stdint.h>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_pool.h"

namespace {

/* An fft_plan transforms in place, and frees itself. */
class fft_plan {
  public:
    fft_plan() = default;
    fft_plan(const fft_plan &) = delete;
    fft_plan &operator=(const fft_plan &) = delete;
    ~fft_plan()
    {
        forget();
    }
    /* make - plan a plane [nv][nu], CUFFT_C2C or CUFFT_Z2Z, on a stream of the current device. Returns: 0, MSI_EGPU */
    int make(int64_t nv, int64_t nu, cufftType type_, cudaStream_t stream)
    {
        forget();
        const cufftResult e = cufftPlan2d(&plan, (int)nv, (int)nu, type_);
        if (e != CUFFT_SUCCESS) {
            /* What cuFFT works in does not come from the pool. */
            msi_gpu_pool_trim();
            MSI_CUFFT(cufftPlan2d(&plan, (int)nv, (int)nu, type_));
        }
        type = type_;
        made = true;
        MSI_CUFFT(cufftSetStream(plan, stream));
        return MSI_OK;
    }
    /* run - begin to transform; direction: CUFFT_FORWARD or CUFFT_INVERSE. Returns: 0, MSI_EGPU */
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

    void forget()
    {
        if (made) cufftDestroy(plan);
        made = false;
    }
};

} // namespace

#endif
