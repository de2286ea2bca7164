/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The number of processors that this process may use. */
#ifndef MSI_SRC_CPU_COUNT_H
#define MSI_SRC_CPU_COUNT_H

/* msi_cpu_count - return the number of processors in the affinity mask, or the CPU quota of the control group (rounded
 * up) if that is smaller; at least 1. */
int msi_cpu_count(void);

/*
 * msi_cpu_share_set - set the number of processes of this run that share this host. msi_cpu_count then returns the
 *   share of one, unless the launcher has bound each process to some of the processors.
 * msi_cpu_share - return that number; 1 at first.
 */
void msi_cpu_share_set(int n);
int msi_cpu_share(void);

#endif
