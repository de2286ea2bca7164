/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How many threads this process can run at once. */
#ifndef MSI_SRC_CPU_COUNT_H
#define MSI_SRC_CPU_COUNT_H

/* msi_cpu_count - processors of the affinity mask, or the CPU quota of the control group (rounded up) where that is
 * fewer; at least 1. */
int msi_cpu_count(void);

#endif
