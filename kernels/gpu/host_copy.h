/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copy within host memory by all of OpenMP's threads, since one alone is slower than a GPU's bus; and the memory beside
 * the bus that they go through. */
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

/*
 * msi_host_copy - copy n pieces, none of which overlaps another's target.
 * Given: for_bus  the bus reads the targets next: they are written past the caches, since a bus that has to fetch lines
 *                 out of the cores' caches reads at half its pace
 */
void msi_host_copy(const msi_host_piece *piece, int n, int for_bus);

enum { MSI_HOST_SLOT_BYTES = 4 << 20 };

/* Memory that a GPU's bus reads and writes by itself. */
typedef struct msi_host_slot {
    char *memory;
    int is_registered; /* 0: it serves at the driver's pace */
} msi_host_slot;

/*
 * msi_host_slot_take - have MSI_HOST_SLOT_BYTES. Registering takes as long as copying a hundred times as much, so what
 * was given back is kept for the process, a few slots at most, and serves again.
 * Returned: *slot  to be given back; memory NULL after a failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_host_slot_take(msi_host_slot *slot);

/* msi_host_slot_give - give a slot back, and forget it; one without memory is fine. */
void msi_host_slot_give(msi_host_slot *slot);

#ifdef __cplusplus
}
#endif
#endif
