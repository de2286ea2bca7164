/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The NVIDIA GPUs of this machine, and their streams: how many there are, how one starts, its properties and its
 * memory. A device is named by its CUDA ordinal, 0 .. MSI_GPU_MAX_DEVICES - 1.
 */
#ifndef MSI_GPU_DEVICE_H
#define MSI_GPU_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MSI_GPU_MAX_DEVICES = 64 };

/* msi_gpu_count - return the number of usable devices; 0 if there is no driver. */
int msi_gpu_count(void);

/* msi_gpu_available - return 1 if there is any usable device, else 0. */
int msi_gpu_available(void);

/*
 * msi_gpu_warm_up - start a device in the background: its driver, its context, cuFFT. Does nothing if the device has
 * been started, or does not exist.
 */
void msi_gpu_warm_up(int device);

/* msi_gpu_await - wait until a device that is being started has its context, or has failed to get one. */
void msi_gpu_await(int device);

/* msi_gpu_has_started - return 1 if msi_gpu_await would not wait. */
int msi_gpu_has_started(int device);

/* msi_gpu_await_all - wait until every start has ended. Call it before the process exits. */
void msi_gpu_await_all(void);

/*
 * msi_gpu_memory - find the free and total memory of a device in bytes; 0 after a failure. All memory counts as free
 * while the device is being started and has no context. Memory that the pool keeps (gpu_pool.h) counts as free.
 * Returns: 0, MSI_EGPU
 * Notes:   the calling thread's current device stays the same.
 */
int msi_gpu_memory(int device, size_t *free_bytes, size_t *total_bytes);

/* msi_gpu_describe - describe a device in one line, or why there is none. Valid until the thread's next call. */
const char *msi_gpu_describe(int device);

/* msi_gpu_name - return the name of a device for the start of an error line: "GPU", or "GPU 1" if there are several.
 * Valid until the thread's next call. */
const char *msi_gpu_name(int device);

/* msi_gpu_current_name - return that name of the calling thread's current device. */
const char *msi_gpu_current_name(void);

/*
 * msi_gpu_speed - estimate the speed of a device, to compare devices: its multiprocessors times their clock.
 * Returned: *speed, above 0
 * Returns:  0, MSI_EGPU
 */
int msi_gpu_speed(int device, double *speed);

/* msi_gpu_versions - return the versions of CUDA and cuFFT in one line. Static. */
const char *msi_gpu_versions(void);

/* A device and a stream on it, to which a plan sends its kernels, copies and transforms. {device, NULL} is the device's
 * default stream. */
typedef struct msi_gpu_stream {
    int device;   /* CUDA ordinal */
    void *stream; /* cudaStream_t */
} msi_gpu_stream;

/*
 * msi_gpu_stream_create - create a stream that does not synchronise with the default stream, and make its device the
 * calling thread's current one.
 * Returned: *s, freed by msi_gpu_stream_free; its stream is NULL after a failure
 * Returns:  0, MSI_EGPU (no such device, or not enough memory on it)
 */
int msi_gpu_stream_create(msi_gpu_stream *s, int device);

/* msi_gpu_stream_free - wait for the work on the stream, and free it. Does nothing if the stream is NULL. */
void msi_gpu_stream_free(msi_gpu_stream *s);

/*
 * msi_gpu_stream_enter - make the stream's device the calling thread's current one. Every entry point of a plan starts
 * with it, because allocations, launches and transforms use the current device.
 * Returns: 0, MSI_EGPU
 */
int msi_gpu_stream_enter(const msi_gpu_stream *s);

/* msi_gpu_stream_wait - wait until all work on the stream is done. Returns: 0, MSI_EGPU (some of it failed) */
int msi_gpu_stream_wait(const msi_gpu_stream *s);

/*
 * The number of bytes that the L2 cache of a device fetches from memory at a time. The limit applies to the whole
 * device. It is lowered by the first caller that acquires it, and restored when the last one releases it.
 */

/*
 * msi_gpu_fetch_acquire - set the fetch size of a device: 32, 64 or 128 bytes, the same for all callers.
 * Returns: 1 if it is set, and must be released; 0 if the device cannot, which only costs time
 */
int msi_gpu_fetch_acquire(int device, size_t bytes);

/* msi_gpu_fetch_release - release the fetch size; the last caller restores the previous one. */
void msi_gpu_fetch_release(int device);

#ifdef __cplusplus
}
#endif
#endif
