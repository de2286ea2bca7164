/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Parsing of casacore's headers: sequences of numbers, texts and nested objects. An object begins with its length, name and
 * version. The format follows casacore's sources (casa/IO/AipsIO.cc, casa/Containers/BlockIO.tcc). */
#ifndef MSI_AIPS_HEADER_H
#define MSI_AIPS_HEADER_H

#include <stdint.h>
#include <string.h>

/* Bytes that are parsed. After a failure is_bad stays set, and values are 0. */
typedef struct msi_aips {
    const unsigned char *byte;
    int64_t at, end;
    int is_little; /* numbers are little-endian */
    int is_bad;
} msi_aips;

static inline void msi_aips_require(msi_aips *p, int holds)
{
    if (!holds) p->is_bad = 1;
}

static inline uint64_t msi_aips_number(msi_aips *p, int n_byte)
{
    uint64_t v = 0;
    if (p->is_bad || p->end - p->at < n_byte) {
        p->is_bad = 1;
        return 0;
    }
    for (int i = 0; i < n_byte; i++) v |= (uint64_t)p->byte[p->at + i] << 8 * (p->is_little ? i : n_byte - 1 - i);
    p->at += n_byte;
    return v;
}

static inline int64_t msi_aips_u32(msi_aips *p)
{
    return (int64_t)msi_aips_number(p, 4);
}

static inline int64_t msi_aips_i32(msi_aips *p)
{
    return (int32_t)(uint32_t)msi_aips_number(p, 4);
}

static inline int64_t msi_aips_i64(msi_aips *p)
{
    return (int64_t)msi_aips_number(p, 8);
}

static inline void msi_aips_skip_text(msi_aips *p)
{
    const int64_t n = msi_aips_u32(p);
    msi_aips_require(p, n <= p->end - p->at);
    if (!p->is_bad) p->at += n;
}

/* Enter an object of this name. Returned: *end  its end. Returns: its version */
static inline int64_t msi_aips_begin(msi_aips *p, const char *name, int64_t *end)
{
    const int64_t start = p->at, length = msi_aips_u32(p), n = msi_aips_u32(p);
    msi_aips_require(p, length <= p->end - start && n == (int64_t)strlen(name) && n <= p->end - p->at);
    *end = p->is_bad ? p->end : start + length;
    if (p->is_bad || memcmp(p->byte + p->at, name, (size_t)n) != 0) {
        p->is_bad = 1;
        return 0;
    }
    p->at += n;
    return msi_aips_u32(p);
}

/* Enter an object that no other one contains. */
static inline int64_t msi_aips_begin_first(msi_aips *p, const char *name, int64_t *end)
{
    msi_aips_require(p, msi_aips_u32(p) == 0xbebebebe);
    return msi_aips_begin(p, name, end);
}

static inline void msi_aips_end(msi_aips *p, int64_t end)
{
    msi_aips_require(p, p->at == end);
}

/* Skip an object. */
static inline void msi_aips_skip(msi_aips *p, const char *name)
{
    int64_t end;
    msi_aips_begin(p, name, &end);
    if (!p->is_bad) p->at = end;
}

/* Find the values of a Block of n numbers of n_byte bytes. Returns the place of the first one, for msi_aips_value. */
static inline int64_t msi_aips_block(msi_aips *p, int64_t n, int n_byte)
{
    int64_t end;
    const int64_t version = msi_aips_begin(p, "Block", &end);
    msi_aips_require(p, version == 1 && msi_aips_u32(p) == n && n * n_byte == end - p->at);
    const int64_t at = p->at;
    if (!p->is_bad) p->at = end;
    return at;
}

static inline int64_t msi_aips_value(const msi_aips *p, int64_t at, int64_t i, int n_byte)
{
    msi_aips one = *p;
    one.at = at + n_byte * i;
    return (int64_t)msi_aips_number(&one, n_byte);
}

#endif
