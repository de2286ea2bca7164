/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Numbers of workloads that are the same everywhere, whatever the order in which threads ask for them. */
#ifndef MSI_BENCH_RANDOM_H
#define MSI_BENCH_RANDOM_H

#include <stdint.h>

/* msi_bench_uniform - return a counter hashed (SplitMix64, a bijection), in [0, 1). */
static inline double msi_bench_uniform(uint64_t counter)
{
    uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

#endif
