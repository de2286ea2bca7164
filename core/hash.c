/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/hash.h"

#include <string.h>

uint64_t msi_hash(uint64_t hash, const void *data, int64_t n)
{
    const unsigned char *at = data;
    hash ^= (uint64_t)n;
    while (n > 0) {
        /* Each step is one to one in the hash and in the word: a change of one word is never lost. */
        uint64_t word = 0;
        memcpy(&word, at, (size_t)(n < 8 ? n : 8));
        hash ^= word;
        hash = (hash << 27 | hash >> 37) * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
        at += 8;
        n -= 8;
    }
    return hash ^ hash >> 29;
}
