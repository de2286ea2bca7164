/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Control groups of Linux limit the memory and the processors of a batch job or a container. */
#ifndef MSI_CORE_CONTROL_GROUP_H
#define MSI_CORE_CONTROL_GROUP_H

#include <stdint.h>

/*
 * msi_control_group_memory - find the least limit of a process's groups and of all above them, of either version.
 * Given:   membership  the process's list of groups: /proc/self/cgroup
 *          mount       where the groups' files are: /sys/fs/cgroup
 * Returns: bytes; INT64_MAX where nothing limits them, or nothing can be read
 * Source:  cgroups(7), Linux's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst
 *
 * msi_control_group_cpus - likewise the least quota of processor time, in processors, rounded up.
 * Source:  the same, and Linux's Documentation/scheduler/sched-bwc.rst
 */
int64_t msi_control_group_memory(const char *membership, const char *mount);
int64_t msi_control_group_cpus(const char *membership, const char *mount);

#endif
