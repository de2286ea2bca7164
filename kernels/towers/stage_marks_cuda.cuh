/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times of stages that follow each other on a stream, without waiting for each: the device's own clock marks their
 * ends. */
#ifndef MSI_KERNELS_STAGE_MARKS_CUDA_CUH
#define MSI_KERNELS_STAGE_MARKS_CUDA_CUH

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/plan_stream_cuda.h"

namespace {

class stage_marks {
  public:
    explicit stage_marks(const plan_stream &on_) : on(on_) {}
    stage_marks(const stage_marks &) = delete;
    stage_marks &operator=(const stage_marks &) = delete;
    ~stage_marks()
    {
        for (cudaEvent_t e : event)
            if (e && cudaEventDestroy(e) != cudaSuccess) cudaGetLastError();
    }

    /* begin - the first stage begins when what was begun before is done. Returns: 0, MSI_EGPU */
    int begin()
    {
        n = 0;
        return mark(nullptr);
    }
    /* end - a stage ends with what was begun last; sum adds its seconds to *sum_s. Returns: 0, MSI_EGPU */
    int end(double *sum_s)
    {
        return n < MOST ? mark(sum_s) : MSI_OK;
    }
    /* is_full - tell whether it is time for sum: no more stages can end. */
    bool is_full() const
    {
        return n > MOST - AT_ONCE;
    }
    /* sum - wait for all that was begun, and add up the stages; the next one begins now. Returns: 0, MSI_EGPU */
    int sum()
    {
        MSI_TRY(on.wait());
        for (int k = 1; k < n; k++) {
            float ms;
            MSI_CUDA(cudaEventElapsedTime(&ms, event[k - 1], event[k]));
            *to[k] += 1e-3 * (double)ms;
        }
        return begin();
    }

  private:
    static constexpr int MOST = 32, AT_ONCE = 4; /* stages that may end before is_full is asked again */
    const plan_stream &on;
    cudaEvent_t event[MOST] = {};
    double *to[MOST] = {};
    int n = 0;

    int mark(double *sum_s)
    {
        if (!event[n]) MSI_CUDA(cudaEventCreate(&event[n]));
        MSI_CUDA(cudaEventRecord(event[n], on.get()));
        to[n++] = sum_s;
        return MSI_OK;
    }
};

} // namespace

#endif
