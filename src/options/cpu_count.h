/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Count the threads that this process can run at once. */
#ifndef MSI_SRC_CPU_COUNT_H
#define MSI_SRC_CPU_COUNT_H

/* msi_cpu_count - count processors of the affinity mask, or the CPU quota of the control group (rounded up) where that
 * is fewer; at least 1. */
int msi_cpu_count(void);

/*
 * msi_cpu_share_set - say that n processes of one run, of which this is one, share this host: from now on msi_cpu_count
 * is the share of one, unless the launcher has bound each to some of the processors.
 * msi_cpu_share - that n; 1 at first.
 */
void msi_cpu_share_set(int n);
int msi_cpu_share(void);

#endif
