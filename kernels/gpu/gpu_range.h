/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Named ranges of time that a profiler shows beside the GPU's work (NVTX), so that a profile speaks of the pipeline's
 * stages. Without a profiler a range costs some nanoseconds; without a CUDA toolkit it is nothing.
 *
 *     C:    msi_gpu_range_begin("sort");  ..  msi_gpu_range_end();        ends what began last on this thread
 *     C++:  const gpu_range range("sort");                                until the end of the block, however it ends
 */
#ifndef MSI_KERNELS_GPU_RANGE_H
#define MSI_KERNELS_GPU_RANGE_H

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

} // namespace
#endif
#endif
