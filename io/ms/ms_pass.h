/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Structures become bytes and come back by one function for both, so that both agree on the order. */
#ifndef MSI_IO_MS_PASS_H
#define MSI_IO_MS_PASS_H

#include <stddef.h>
#include <stdint.h>

/* Holds where packing or unpacking stands; what is passed takes a multiple of 8 bytes. */
typedef struct msi_ms_cursor {
    char *to;         /* packing: NULL while only the length is asked for */
    const char *from; /* unpacking: not NULL; aligned as any array may need */
    int64_t at, n;
} msi_ms_cursor;

/* msi_ms_pass - take the next bytes of either direction. Returns 0 where there are not as many, else 1. */
int msi_ms_pass(msi_ms_cursor *c, void *value, int64_t bytes);

/*
 * msi_ms_pass_array - pass an array of n elements, and allocate it where it is unpacked: not before its bytes are known
 * to be there.
 * Given and returned: array  address of the pointer to it; freed by msi_free
 * Returned: *is_whole  0 where there are not as many
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_pass_array(msi_ms_cursor *c, void *array, int64_t n, size_t size, int *is_whole);

#endif
