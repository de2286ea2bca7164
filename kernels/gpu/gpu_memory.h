/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Memory of a GPU for owners that are written in C. Every function works on the device of a stream, makes it the
 * calling thread's current one, and returns when what it began is done, so that any other stream may follow. */
#ifndef MSI_KERNELS_GPU_MEMORY_H
#define MSI_KERNELS_GPU_MEMORY_H

#include <stdint.h>

#include "kernels/gpu/gpu_stream.h"

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

#ifdef __cplusplus
}
#endif
#endif
