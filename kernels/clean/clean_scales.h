/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The scales of multiscale cleaning: their list, biases and kernels. A. R. Offringa and O. Smirnov, MNRAS 471, 301
 * (2017), section 3. */
#ifndef MSI_CLEAN_SCALES_H
#define MSI_CLEAN_SCALES_H

#include "kernels/clean/clean_state.h"

/* msi_clean_scales_set - complete and check spec.scale. Returns: 0, MSI_EARGUMENT */
int msi_clean_scales_set(msi_cleaner *c);

/* msi_clean_scale_bias - tell what a peak of R * K counts at scale i, 1 at scale 0: bias^-log2(s / (2 beam)), or by
 * power. Given: power  (P * K * K)(0) at that scale */
double msi_clean_scale_bias(const msi_cleaner_spec *s, int i, double power);

/* msi_clean_kernel_half - count pixels that scale i's kernel reaches from its middle. */
int64_t msi_clean_kernel_half(const msi_cleaner_spec *s, int i);

/* msi_clean_kernel - make the kernel of scale i. Returned: kernel [2 half + 1][2 half + 1], of sum 1 */
void msi_clean_kernel(const msi_cleaner_spec *s, int i, double *kernel);

#endif
