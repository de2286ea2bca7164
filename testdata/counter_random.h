/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Counter-based random numbers: a number depends only on (seed, stream, index), not on the order of the calls. */
#ifndef MSI_TESTDATA_COUNTER_RANDOM_H
#define MSI_TESTDATA_COUNTER_RANDOM_H

#include <math.h>
#include <stdint.h>

#include "core/types.h"

/* Apply the finaliser of SplitMix64, a bijection of 64 bits. Every output bit depends on every input bit. */
static inline uint64_t msi_random_mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline uint64_t msi_random_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    return msi_random_mix(msi_random_mix(msi_random_mix(seed) ^ stream) ^ index);
}

/* Draw a uniform deviate from the open interval (0, 1). */
static inline double msi_random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return ((double)(msi_random_bits(seed, stream, index) >> 11) + 0.5) * 0x1p-53;
}

/* Draw two independent normal deviates of mean 0 and variance 1, by the method of Box and Muller. */
static inline msi_c64 msi_random_normal_pair(uint64_t seed, uint64_t stream, uint64_t index)
{
    double radius = sqrt(-2 * log(msi_random_uniform(seed, stream, 2 * index)));
    double angle = 2 * MSI_PI * msi_random_uniform(seed, stream, 2 * index + 1);
    return (msi_c64){radius * cos(angle), radius * sin(angle)};
}

#endif
