/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A plan works on a device and on a stream of its own: there it launches, copies and transforms. */
#ifndef MSI_KERNELS_GPU_STREAM_H
#define MSI_KERNELS_GPU_STREAM_H

#ifdef __cplusplus
extern "C" {
#endif

/* {device, NULL} is the device's default stream. */
typedef struct msi_gpu_stream {
    int device;   /* CUDA ordinal */
    void *stream; /* cudaStream_t */
} msi_gpu_stream;

/*
 * msi_gpu_stream_create - make a stream that does not wait for the device's default one. Makes the device the calling
 * thread's current one.
 * Returned: *s, freed by msi_gpu_stream_free; its stream is NULL after a failure
 * Returns:  0, MSI_EGPU (no such device, or it has no memory left)
 */
int msi_gpu_stream_create(msi_gpu_stream *s, int device);

/* msi_gpu_stream_free - wait for what the stream has begun, and free it. A stream of NULL is left alone. */
void msi_gpu_stream_free(msi_gpu_stream *s);

/*
 * msi_gpu_stream_enter - make the stream's device the calling thread's current one: every entry point of a plan begins
 * with it, since memory, launches and transforms go to the current device.
 * Returns: 0, MSI_EGPU
 */
int msi_gpu_stream_enter(const msi_gpu_stream *s);

/* msi_gpu_stream_wait - wait until all that the stream has begun is done. Returns: 0, MSI_EGPU (something failed) */
int msi_gpu_stream_wait(const msi_gpu_stream *s);

#ifdef __cplusplus
}
#endif
#endif
