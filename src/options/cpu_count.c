/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/cpu_count.h"

#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#include "core/process.h"

static int affinity_count(void)
{
    int n = 0;
    /* The kernel rejects a mask shorter than its own, so try longer ones for machines with more than 1024
     * processors. */
    for (int bits = CPU_SETSIZE; bits <= 1 << 20 && n == 0; bits *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)bits);
        if (!set) break;
        if (sched_getaffinity(0, CPU_ALLOC_SIZE((size_t)bits), set) == 0)
            n = CPU_COUNT_S(CPU_ALLOC_SIZE((size_t)bits), set);
        CPU_FREE(set);
    }
    if (n == 0) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? n : 1;
}

static int quota_count(void)
{
    const int64_t n = msi_control_group_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
    return n < INT_MAX ? (int)n : INT_MAX;
}

static int n_sharing = 1;

void msi_cpu_share_set(int n)
{
    n_sharing = n > 1 ? n : 1;
}

int msi_cpu_share(void)
{
    return n_sharing;
}

int msi_cpu_count(void)
{
    const int allowed = affinity_count(), quota = quota_count(), all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    /* Processes share a quota even if each is bound to its own processors. */
    const int of_quota = quota < INT_MAX ? quota / n_sharing : quota,
              of_mask = allowed < all ? allowed : allowed / n_sharing;
    const int n = of_quota < of_mask ? of_quota : of_mask;
    return n > 0 ? n : 1;
}
