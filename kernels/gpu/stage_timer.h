/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A stage of a plan on a GPU: profilers show its name, and the plan adds up its time. */
#ifndef MSI_KERNELS_STAGE_TIMER_H
#define MSI_KERNELS_STAGE_TIMER_H

#include "core/log.h"
#include "kernels/gpu/gpu_range.h"

namespace {

/* A stage_timer times what follows it in a block, and adds the wall seconds to *sum_s when the block ends: wait for the
 * stream before. */
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
