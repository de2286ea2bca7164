/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory of a GPU for owners that are written in C. Every function works on the device of a stream, makes it the
 * calling thread's current one, and returns when what it began is done, so that any other stream may follow. */
#ifndef MSI_GPU_MEMORY_H
#define MSI_GPU_MEMORY_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/gpu/gpu_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_gpu_alloc - allocate bytes of the stream's device, with whatever they held before.
 * Given:    what  the room is for, as an error names it
 * Returned: *out  a device address, freed by msi_gpu_release; NULL after a failure
 * Returns:  0, MSI_EGPU
 */
int msi_gpu_alloc(void **out, const msi_gpu_stream *on, int64_t bytes, const char *what);

/* msi_gpu_release - free what msi_gpu_alloc gave; NULL is fine. */
void msi_gpu_release(void *p, const msi_gpu_stream *on);

/*
 * msi_gpu_upload, msi_gpu_download - copy bytes from host to device memory, and back; msi_gpu_zero - set them to zero.
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 */
int msi_gpu_upload(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes);
int msi_gpu_download(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes);
int msi_gpu_zero(const msi_gpu_stream *on, void *p, int64_t bytes);

/*
 * GPUs reach each other's memory: over links between them where the devices can reach each other, else by way of
 * the host. As gpu_memory.h, every function works on the device of a stream and returns when what it began is done.
 */

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
