/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * GPUs reach each other's memory: over links between them where the devices can reach each other, else by way of
 * the host. As gpu_memory.h, every function works on the device of a stream and returns when what it began is done.
 */
#ifndef MSI_KERNELS_GPU_PEER_H
#define MSI_KERNELS_GPU_PEER_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/gpu/gpu_stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/* msi_gpu_peer_allow - whether devices may read each other's memory where they can, which is so at first: 0 leaves the
 * way through the host, for machines where links fail, and for tests. */
void msi_gpu_peer_allow(int allowed);

/* msi_gpu_peer_reaches - return 1 where a device may read another's memory directly, or is the same, else 0. */
int msi_gpu_peer_reaches(int device, int other);

/*
 * msi_gpu_peer_copy - copy bytes from another device's memory, or the same one's.
 * Given:   to  of the stream's device; from  of from_device
 * Returns: 0, MSI_EGPU
 */
int msi_gpu_peer_copy(const msi_gpu_stream *on, void *to, const void *from, int from_device, int64_t bytes);

/*
 * msi_gpu_peer_add - add n real numbers in another device's memory, or the same one's, to as many of one's own.
 * Given:   precision  of both
 * Returns: 0, MSI_EGPU
 */
int msi_gpu_peer_add(const msi_gpu_stream *on, void *to, const void *from, int from_device, int64_t n,
                     msi_precision precision);

#ifdef __cplusplus
}
#endif
#endif
