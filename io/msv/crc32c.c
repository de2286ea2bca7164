/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/msv/crc32c.h"

#include <string.h>

/* ---- Eight bytes at a time: by the processor's instruction, or by tables ---- */

#if defined(__SSE4_2__) && defined(__x86_64__)
#include <nmmintrin.h>

static inline uint32_t add_word(uint32_t crc, uint64_t word)
{
    return (uint32_t)_mm_crc32_u64(crc, word);
}

static inline uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    return _mm_crc32_u8(crc, byte);
}
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>

static inline uint32_t add_word(uint32_t crc, uint64_t word)
{
    return __crc32cd(crc, word);
}

static inline uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    return __crc32cb(crc, byte);
}
#else
static inline uint32_t add_byte(uint32_t crc, uint8_t byte)
{
    crc ^= byte;
    for (int k = 0; k < 8; k++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
    return crc;
}

static inline uint32_t add_word(uint32_t crc, uint64_t word)
{
    for (int k = 0; k < 8; k++, word >>= 8) crc = add_byte(crc, (uint8_t)word);
    return crc;
}
#endif

static inline uint64_t word_at(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* ---- Checks ---- */

uint32_t msi_crc32c(const void *bytes, int64_t n)
{
    const char *p = bytes;
    uint32_t crc = 0xffffffffU;
    for (; n >= 8; n -= 8, p += 8) crc = add_word(crc, word_at(p));
    for (; n > 0; n--, p++) crc = add_byte(crc, (uint8_t)*p);
    return ~crc;
}

msi_crc4 msi_crc4_of(const void *bytes, int64_t n)
{
    const int64_t quarter = n / 4;
    const char *p0 = bytes, *p1 = p0 + quarter, *p2 = p1 + quarter, *p3 = p2 + quarter;
    uint32_t a = 0xffffffffU, b = a, c = a, d = a;
    /* The instruction takes three cycles and another can begin in each: four chains keep it busy. */
    for (int64_t i = 0; i < quarter; i += 8) {
        a = add_word(a, word_at(p0 + i));
        b = add_word(b, word_at(p1 + i));
        c = add_word(c, word_at(p2 + i));
        d = add_word(d, word_at(p3 + i));
    }
    return (msi_crc4){{~a, ~b, ~c, ~d}};
}

int msi_crc4_same(const msi_crc4 *a, const msi_crc4 *b)
{
    return memcmp(a->quarter, b->quarter, sizeof a->quarter) == 0;
}
