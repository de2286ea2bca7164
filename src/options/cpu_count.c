/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/cpu_count.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int affinity_count(void)
{
    int n = 0;
    /* The kernel refuses a mask shorter than its own; machines of more than 1024 processors exist. */
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

/* Read the quota in one cgroup's folder, in processors rounded up; INT_MAX where there is none. */
static int quota_in(const char *folder)
{
    char path[PATH_MAX];
    long long quota = -1, period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *f = fopen(path, "r");
    if (!f) return INT_MAX;
    if (fscanf(f, "%lld %lld", &quota, &period) != 2) quota = -1;
    fclose(f);
    if (quota <= 0 || period <= 0) return INT_MAX;
    long long n = (quota + period - 1) / period;
    return n < INT_MAX ? (int)n : INT_MAX;
}

static int cgroup_count(void)
{
    static const char root[] = "/sys/fs/cgroup";
    char line[PATH_MAX], folder[PATH_MAX + sizeof root];
    int n = INT_MAX;
    FILE *f = fopen("/proc/self/cgroup", "r");
    if (!f) return quota_in(root);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, "0::", 3) != 0) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(folder, sizeof folder, "%s%s", root, line + 3);
        /* A limit of any group above holds too. */
        for (;;) {
            int here = quota_in(folder);
            if (here < n) n = here;
            char *slash = strrchr(folder, '/');
            if (strlen(folder) <= sizeof root || !slash) break;
            *slash = 0;
        }
    }
    fclose(f);
    int top = quota_in(root);
    return top < n ? top : n;
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
    const int allowed = affinity_count(), quota = cgroup_count(), all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    /* A quota is shared whatever the masks are. */
    const int of_quota = quota < INT_MAX ? quota / n_sharing : quota,
              of_mask = allowed < all ? allowed : allowed / n_sharing;
    const int n = of_quota < of_mask ? of_quota : of_mask;
    return n > 0 ? n : 1;
}
