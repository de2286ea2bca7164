/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Named time ranges (NVTX), which a profiler shows next to the GPU's work under the names of the pipeline's stages.
 * Without a profiler a range costs some nanoseconds; without a CUDA toolkit it is empty.
 */
#ifndef MSI_GPU_RANGE_H
#define MSI_GPU_RANGE_H

#include "core/log.h"

#if defined(MSI_HAVE_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MSI_HAVE_NVTX
#endif

namespace {

/* A gpu_range lasts until the end of its block. */
class gpu_range {
  public:
    explicit gpu_range(const char *name)
    {
#ifdef MSI_HAVE_NVTX
        nvtxRangePushA(name);
#else
        (void)name;
#endif
    }
    gpu_range(const gpu_range &) = delete;
    gpu_range &operator=(const gpu_range &) = delete;
    ~gpu_range()
    {
#ifdef MSI_HAVE_NVTX
        nvtxRangePop();
#endif
    }
};

/* A stage_timer is a range that also adds its wall seconds to *sum_s. Wait for the stream before it ends. */
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
