/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Named ranges of time that a profiler shows beside the GPU's work (NVTX), so that a profile speaks of the pipeline's
 * stages. Without a profiler a range costs some nanoseconds; without a CUDA toolkit it is nothing.
 *
 *     C:    msi_gpu_range_begin("sort");  ..  msi_gpu_range_end();        ends what began last on this thread
 *     C++:  const gpu_range range("sort");                                until the end of the block, however it ends
 */
#ifndef MSI_GPU_RANGE_H
#define MSI_GPU_RANGE_H

#if defined(MSI_HAVE_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MSI_HAVE_NVTX
#endif

static inline void msi_gpu_range_begin(const char *name)
{
#ifdef MSI_HAVE_NVTX
    nvtxRangePushA(name);
#else
    (void)name;
#endif
}

static inline void msi_gpu_range_end(void)
{
#ifdef MSI_HAVE_NVTX
    nvtxRangePop();
#endif
}

#ifdef __cplusplus
#include "core/log.h"

namespace {

class gpu_range {
  public:
    explicit gpu_range(const char *name)
    {
        msi_gpu_range_begin(name);
    }
    gpu_range(const gpu_range &) = delete;
    gpu_range &operator=(const gpu_range &) = delete;
    ~gpu_range()
    {
        msi_gpu_range_end();
    }
};

/* A stage_timer is a range whose wall seconds are added to *sum_s when the block ends: wait for the stream before. */
class stage_timer {
  public:
    stage_timer(const char *name, double *sum_s_) : range(name), sum_s(sum_s_), start_s(msi_wall_s()) {}
    stage_timer(const stage_timer &) = delete;
    stage_timer &operator=(const stage_timer &) = delete;
    ~stage_timer()
    {
        *sum_s += msi_wall_s() - start_s;
    }

  private:
    gpu_range range;
    double *sum_s, start_s;
};

} // namespace
#endif
#endif
