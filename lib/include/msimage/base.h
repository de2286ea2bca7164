/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * @file base.h
 * @brief Status codes, messages, callbacks, precisions and backends of gridders and cleaners.
 *
 * **Errors.** A function that can fail returns 0 or a code of #msimage_status; msimage_error() then returns a line with
 * the reason, for the calling thread. The outputs of a call that failed are undefined. Its object may be used again,
 * except a gridder that failed to add samples, since some of them may have been added. In any case the object must be
 * freed.
 *
 * **Arrays** are in C order without gaps, in host memory or, if the library was built with CUDA, in GPU memory. They
 * are borrowed for the call. Complex numbers are pairs of real and imaginary part, as in C and C++. If the work is done
 * on a GPU, arrays in its memory and managed arrays are used in place; only frequencies, samples of several image
 * planes, and samples for density weights are copied to the host. Host memory that is registered with CUDA is copied
 * directly, other host memory through buffers that threads fill.
 *
 * **Threads.** An object may be used by one thread at a time. Any number of objects may be used in any number of
 * threads. The library uses OpenMP, and does not change the caller's settings of it. A process may be forked before the
 * first call, and between calls after msimage_threads_release().
 *
 * **Environment.** The library does not print, catch signals, or read environment variables.
 */
#ifndef MSIMAGE_BASE_H
#define MSIMAGE_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MSIMAGE_API __attribute__((visibility("default")))
#else
#define MSIMAGE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** Return values of functions. */
typedef enum msimage_status {
    MSIMAGE_OK = 0,
    MSIMAGE_EINPUT = -2,       /**< invalid data: a PSF without a peak, no finite pixel */
    MSIMAGE_EOUTPUT = -3,      /**< the directory for temporary files is full or cannot be written */
    MSIMAGE_ENOMEM = -4,       /**< not enough host memory, or the limit was reached */
    MSIMAGE_EGPU = -5,         /**< a GPU was requested and cannot be used, or it failed, or its memory is full */
    MSIMAGE_ERANGE = -7,       /**< a value is outside the supported range */
    MSIMAGE_EINTERRUPTED = -8, /**< msimage_callbacks.interrupt requested a stop */
    MSIMAGE_EINTERNAL = -9,    /**< a defect of the library */
    MSIMAGE_EARGUMENT = -10    /**< an invalid argument, or calls in the wrong order */
} msimage_status;

/** Type of numbers in arrays: float or double, and complex numbers of them. */
typedef enum msimage_precision {
    MSIMAGE_FP32, /**< single */
    MSIMAGE_FP64  /**< double */
} msimage_precision;

/** Where the work is done. */
typedef enum msimage_backend {
    MSIMAGE_AUTO, /**< on a GPU if there is one */
    MSIMAGE_CPU,  /**< on the host */
    MSIMAGE_CUDA  /**< on an NVIDIA GPU */
} msimage_backend;

/** Level of a log line. */
typedef enum msimage_log_level { MSIMAGE_LOG_WARNING, MSIMAGE_LOG_INFO, MSIMAGE_LOG_DETAIL } msimage_log_level;

/**
 * Functions of the caller; each may be NULL. They are called only during calls of the library, by the thread that made
 * the call, and must not call the library. They must return: C++ exceptions and longjmp must not leave them.
 */
typedef struct msimage_callbacks {
    /** A log line without newline, borrowed; level is a #msimage_log_level. */
    void (*log)(void *of, int level, const char *line);
    /** Progress of the call: a static name of the stage, and a fraction 0 .. 1 that never decreases. */
    void (*progress)(void *of, const char *stage, double fraction);
    /** Called at most fifty times a second; a value other than 0 ends the call with #MSIMAGE_EINTERRUPTED. */
    int (*interrupt)(void *of);
    void *of; /**< passed to each */
} msimage_callbacks;

/** The library's version, "MAJOR.MINOR.PATCH". Static. */
MSIMAGE_API const char *msimage_version(void);

/** The libraries that this library uses, with their versions. Static. */
MSIMAGE_API const char *msimage_libraries(void);

/** The last failure of the calling thread as one line; "" if none. Borrowed until the thread's next failure. */
MSIMAGE_API const char *msimage_error(void);

/** Number of GPUs that the library can use; 0 if it was built without CUDA. */
MSIMAGE_API int msimage_gpu_count(void);

/**
 * Limit the host memory of all objects together.
 * @param bytes 0: the limit of the machine, or of its batch job or container
 */
MSIMAGE_API void msimage_memory_limit(int64_t bytes);

/**
 * End the threads that OpenMP keeps for the next call of the calling thread. Then, while no call is in progress, the
 * process may be forked, and both processes may call the library on the host. The child of a process that used a GPU
 * must not use one.
 */
MSIMAGE_API void msimage_threads_release(void);

/**
 * Set how much memory of each GPU the library may keep between calls, for use by the next one. For other users of the
 * GPU, also in this process, this memory is occupied. Memory beyond the limit is freed at once.
 * @param bytes 0: none; negative: the default, a sixteenth of the GPU's memory
 */
MSIMAGE_API void msimage_gpu_memory_keep(int64_t bytes);

/** Free all GPU memory that the library keeps and no object uses. The next call may keep memory again. */
MSIMAGE_API void msimage_gpu_memory_release(void);

#ifdef __cplusplus
}
#endif
#endif
