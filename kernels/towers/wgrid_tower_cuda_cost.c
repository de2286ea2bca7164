/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/towers/wgrid_tower_cuda.h"

#include <math.h>

/* Sizes to choose from, which have kernels: columns of 320 leave fewer warps room than those of 256, for little. */
static const int32_t sizes[] = {64, 96, 128, 160, 192, 256, 384, 512};

/*
 * Rates of one H200, rounded: least squares of what msimage-bench measures for the plans of rows plan/. Small planes
 * take time as their filled rows do, transforms and all. A tower's whole plane goes through transforms of the
 * project's own, which take half of what cuFFT and a screen take for a w-plane. A cell of small planes beyond a
 * megabyte takes 1 to 7 ps more than one of those of 256, doubles most: fewer columns are on their way at once. Of a
 * sample's 90 ps 60 are its sort; in double precision planes and towers take 2.4 times as long, and samples 1.65 times
 * (a subgrid's gridding is a part of both). A call starts kernels that w-planes have not, 40 us of them.
 */
const msi_tower_cost msi_wgrid_tower_cuda_cost = {.fft_flop_s = HUGE_VAL,
                                                  .far_cell_s = 3e-12,
                                                  .near_bytes = 1 << 20,
                                                  .size = sizes,
                                                  .n_size = sizeof sizes / sizeof *sizes,
                                                  .filled_s = 1.15e-11,
                                                  .subgrid_s = 8e-7,
                                                  .tower_s = 3e-5,
                                                  .call_s = 4e-5,
                                                  .whole_flop_s = 9.5e12,
                                                  .sort_s = 6e-11,
                                                  .fp64_planes = 1.45};
