/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies within host memory by all of OpenMP's threads: one alone is slower than a GPU's bus. */
#ifndef MSI_KERNELS_HOST_COPY_H
#define MSI_KERNELS_HOST_COPY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_host_piece {
    void *to;
    const void *from;
    int64_t bytes;
} msi_host_piece;

/* msi_host_copy - copy n pieces, none of which overlaps another's target. */
void msi_host_copy(const msi_host_piece *piece, int n);

#ifdef __cplusplus
}
#endif
#endif
