/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bytes are checked by CRC-32C (Castagnoli's, RFC 3720 appendix B.4), which finds any change within 32 bits. */
#ifndef MSI_IO_CRC32C_H
#define MSI_IO_CRC32C_H

#include <stdint.h>

/* msi_crc32c - the CRC-32C of n bytes. */
uint32_t msi_crc32c(const void *bytes, int64_t n);

/* A processor computes four at once as fast as one: of the quarters of a stretch of bytes. */
typedef struct msi_crc4 {
    uint32_t quarter[4];
} msi_crc4;

enum { MSI_CRC4_UNIT = 32 };

/* msi_crc4_of - the CRC-32C of each quarter of n bytes. Given: n  a multiple of MSI_CRC4_UNIT; bytes  aligned to 8. */
msi_crc4 msi_crc4_of(const void *bytes, int64_t n);

/* msi_crc4_same - return 1 where all four are equal, else 0. */
int msi_crc4_same(const msi_crc4 *a, const msi_crc4 *b);

#endif
