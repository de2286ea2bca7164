/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Memory of a GPU for owners that are written in C, and sums over several GPUs. Every function works on the device of a
 * stream, makes it the calling thread's current one, and waits until its work is done, so that any other stream may use
 * the result.
 */
#ifndef MSI_GPU_MEMORY_H
#define MSI_GPU_MEMORY_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/gpu/gpu_device.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_gpu_alloc - allocate memory on the stream's device. Its contents are undefined.
 * Given:    what  the purpose, for the error message
 * Returned: *out  a device address, freed by msi_gpu_release; NULL after a failure
 * Returns:  0, MSI_EGPU
 */
int msi_gpu_alloc(void **out, const msi_gpu_stream *on, int64_t bytes, const char *what);

/* msi_gpu_release - free memory of msi_gpu_alloc; NULL-safe. */
void msi_gpu_release(void *p, const msi_gpu_stream *on);

/*
 * msi_gpu_upload, msi_gpu_download - copy from host to device memory, and back. msi_gpu_zero - set memory to zero.
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 */
int msi_gpu_upload(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes);
int msi_gpu_download(const msi_gpu_stream *on, void *to, const void *from, int64_t bytes);
int msi_gpu_zero(const msi_gpu_stream *on, void *p, int64_t bytes);

/*
 * Access to the memory of another GPU: by the links between the devices if they can reach each other, otherwise
 * through the host.
 */

/*
 * msi_gpu_peer_allow - allow (the default) or forbid direct access between devices. 0 sends all copies through the
 * host, for machines with faulty links, and for tests.
 */
void msi_gpu_peer_allow(int allowed);

/*
 * msi_gpu_peer_copy - copy bytes from another device's memory, or from the same device's.
 * Given:   to  on the stream's device; from  on from_device
 * Returns: 0, MSI_EGPU
 */
int msi_gpu_peer_copy(const msi_gpu_stream *on, void *to, const void *from, int from_device, int64_t bytes);

/*
 * msi_gpu_peer_send - copy bytes to another device's memory, or to the same device's.
 * Given:   to  on to_device; from  on the stream's device
 * Returns: 0, MSI_EGPU
 */
int msi_gpu_peer_send(const msi_gpu_stream *on, void *to, int to_device, const void *from, int64_t bytes);

/*
 * msi_gpu_peer_add - add n real numbers in another device's memory, or in the same device's, to n numbers of the
 * stream's device.
 * Given:   precision  of both
 * Returns: 0, MSI_EGPU
 */
int msi_gpu_peer_add(const msi_gpu_stream *on, void *to, const void *from, int from_device, int64_t n,
                     msi_precision precision);

#ifdef __cplusplus
}
#endif
#endif
