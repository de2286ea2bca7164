/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Copies within host memory with all OpenMP threads, because one thread is slower than a GPU's bus. Slots: registered
 * buffers through which data are copied to and from a GPU.
 */
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
 * msi_host_copy - copy n pieces. Their targets do not overlap.
 * Given: for_bus  1: the bus reads the targets next. Bypass the caches, because the bus reads lines that are in the
  *       cores'
 *                 caches at half its speed
 */
void msi_host_copy(const msi_host_piece *piece, int n, int for_bus);

enum { MSI_HOST_SLOT_BYTES = 4 << 20 };

/* Host memory that the GPU reads and writes directly. */
typedef struct msi_host_slot {
    char *memory;
    int is_registered; /* 0: ordinary memory, copied at the driver's speed */
} msi_host_slot;

/*
 * msi_host_slot_acquire - get a slot of MSI_HOST_SLOT_BYTES. Registering a slot takes as long as copying 100 slots, so
 * the process keeps a few released slots for later calls.
 * Returned: *slot  released by msi_host_slot_release; memory is NULL after a failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_host_slot_acquire(msi_host_slot *slot);

/* msi_host_slot_release - release a slot, and set its memory to NULL. NULL-safe. */
void msi_host_slot_release(msi_host_slot *slot);

#ifdef __cplusplus
}
#endif
#endif
