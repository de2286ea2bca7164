/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The NVIDIA GPUs of this machine: whether there are any, how one starts, what it is and what memory it has. A device
 * is named by its CUDA ordinal, 0 .. MSI_GPU_MAX_DEVICES - 1. */
#ifndef MSI_GPU_DEVICE_H
#define MSI_GPU_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_GPU_MAX_DEVICES = 64 };

/* msi_gpu_count - return the number of devices that answer; 0 where there is no driver. */
int msi_gpu_count(void);

/* msi_gpu_available - return 1 where any device answers. */
int msi_gpu_available(void);

/*
 * msi_gpu_warm_up - start a device in the background: its driver, its context, cuFFT. A second call does nothing; so
 * does one for a device that there is not.
 */
void msi_gpu_warm_up(int device);

/* msi_gpu_await - wait until a device that is being warmed up has its context, or has failed to get one. */
void msi_gpu_await(int device);

/* msi_gpu_settle - wait for every warm-up to end; call it before the process does. */
void msi_gpu_settle(void);

/*
 * msi_gpu_memory - free and total memory of a device in bytes, 0 after a failure. While the device is being warmed up,
 * and before it has a context, all of it counts as free; so does what the process keeps in a pool (gpu_pool.h).
 * Returns: 0, MSI_EGPU
 * Notes:   leaves the calling thread's current device as it was.
 */
int msi_gpu_memory(int device, size_t *free_bytes, size_t *total_bytes);

/* msi_gpu_describe - one line on a device, or on why there is none. Borrowed, of the thread, until its next call. */
const char *msi_gpu_describe(int device);

/* msi_gpu_named - name a device, as an error line begins: "GPU", or "GPU 1" where several answer. Borrowed, of the
 * thread, until its next call. */
const char *msi_gpu_named(int device);

/* msi_gpu_here - name the calling thread's current device so. */
const char *msi_gpu_here(void);

/*
 * msi_gpu_speed - tell how fast a device is beside others: its multiprocessors times their clock.
 * Returned: *speed, above 0
 * Returns:  0, MSI_EGPU
 */
int msi_gpu_speed(int device, double *speed);

/* msi_gpu_versions - return CUDA's and cuFFT's versions, one line. Borrowed, static. */
const char *msi_gpu_versions(void);

/* A plan works on a device and on a stream of its own: there it launches, copies and transforms. */

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

/*
 * Set how many bytes the L2 cache of a device fetches from its memory at a time. The limit is the device's and concerns
 * whatever runs on it, so it is lowered while anyone wants it low, and put back when the last one is done.
 */

/*
 * msi_gpu_fetch_acquire - have a device fetch this many bytes at a time: 32, 64 or 128, the same for all who hold it.
 * Returns: 1 where it does, to be released; 0 where it cannot, which only costs time
 */
int msi_gpu_fetch_acquire(int device, size_t bytes);

/* msi_gpu_fetch_release - the last of those who acquired puts back what was before. */
void msi_gpu_fetch_release(int device);

#ifdef __cplusplus
}
#endif
#endif
