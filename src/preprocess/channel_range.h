/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A range of channels names the part of a block that a function works on. */
#ifndef MSI_SRC_CHANNEL_RANGE_H
#define MSI_SRC_CHANNEL_RANGE_H

#include <stdint.h>

/* The range holds channels [first, first + n) of a block. */
typedef struct msi_channel_range {
    int32_t first, n;
} msi_channel_range;

#endif
