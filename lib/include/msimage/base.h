/* SPDX-License-Identifier: GPL-3.0-or-later */
/**
 * @file base.h
 * @brief What gridders and cleaners share: status codes, messages, callbacks, precisions and backends.
 *
 * **Errors.** A function that can fail returns 0 or a code of #msimage_status; msimage_error() then has one line that
 * says why, of the calling thread. What a call that failed was to write is undefined. Its object may be used again,
 * but for a gridder whose samples were cut short, as some of them may be in it; it is to be freed in any case.
 *
 * **Arrays** are in C order without gaps, in the host's memory or, where the library was built for GPUs, in a GPU's.
 * They are borrowed for the call. Complex numbers are pairs of real and imaginary part, as in C and C++. Where a GPU
 * does the work, arrays in its memory, and managed ones, are read and written as they lie; only frequencies, samples of
 * several image planes and samples whose density weights are asked for come to the host. Memory of the host that is
 * registered with CUDA is copied by the bus alone, other memory by threads beside it.
 *
 * **Threads.** An object is used by one thread at a time; any number of objects may be at work in any number of
 * threads. The library works with OpenMP and leaves the caller's settings of it as they are. A process may be forked
 * before the first call, and between calls after msimage_threads_release().
 *
 * **The surroundings.** Nothing is printed, no signal is caught, no variable of the environment is read.
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

/** What functions return. */
typedef enum msimage_status {
    MSIMAGE_OK = 0,
    MSIMAGE_EINPUT = -2,       /**< data are not what they must be: a PSF without a peak, no finite pixel */
    MSIMAGE_EOUTPUT = -3,      /**< the folder for temporary files is full or cannot be written */
    MSIMAGE_ENOMEM = -4,       /**< host memory, or the limit that was set, does not suffice */
    MSIMAGE_EGPU = -5,         /**< a GPU was asked for and cannot be used, or failed, or its memory does not suffice */
    MSIMAGE_ERANGE = -7,       /**< a value is outside what the algorithm supports */
    MSIMAGE_EINTERRUPTED = -8, /**< msimage_callbacks.interrupt said stop */
    MSIMAGE_EINTERNAL = -9,    /**< a defect of the library */
    MSIMAGE_EARGUMENT = -10    /**< an argument, or the order of calls, cannot be */
} msimage_status;

/** Numbers of arrays: float or double, and complex numbers of them. */
typedef enum msimage_precision {
    MSIMAGE_FP32, /**< single */
    MSIMAGE_FP64  /**< double */
} msimage_precision;

/** Where the work is done. */
typedef enum msimage_backend {
    MSIMAGE_AUTO, /**< on a GPU where there is one */
    MSIMAGE_CPU,  /**< on the host */
    MSIMAGE_CUDA  /**< on a GPU of NVIDIA's */
} msimage_backend;

/** What a line of the log is. */
typedef enum msimage_log_level { MSIMAGE_LOG_WARNING, MSIMAGE_LOG_INFO, MSIMAGE_LOG_DETAIL } msimage_log_level;

/**
 * Functions of the caller's, each of which may be NULL. They are called during calls of the library alone, by the
 * thread that made them, and may not call the library. They return: no exception of C++ and no longjmp may leave one.
 */
typedef struct msimage_callbacks {
    /** A line without its end, borrowed; level is a #msimage_log_level. */
    void (*log)(void *of, int level, const char *line);
    /** How far the call is: a static name of what it does, and 0 .. 1, never less than before. */
    void (*progress)(void *of, const char *stage, double fraction);
    /** Asked at most fifty times a second; not 0 ends the call with #MSIMAGE_EINTERRUPTED. */
    int (*interrupt)(void *of);
    void *of; /**< handed to each */
} msimage_callbacks;

/** The library's version, "MAJOR.MINOR.PATCH". Static. */
MSIMAGE_API const char *msimage_version(void);

/** The libraries that the library works with, and their versions. Static. */
MSIMAGE_API const char *msimage_libraries(void);

/** The last failure of the calling thread in one line; "" if none. Borrowed until the thread's next failure. */
MSIMAGE_API const char *msimage_error(void);

/** GPUs that the library can use; 0 where it was built without. */
MSIMAGE_API int msimage_gpu_count(void);

/**
 * Limit the host memory that all objects may have at once.
 * @param bytes 0: that of the machine, or of its batch job or container
 */
MSIMAGE_API void msimage_memory_limit(int64_t bytes);

/**
 * End the threads that OpenMP keeps for the calling thread's next call. After it the process may be forked while no
 * call is under way, and both processes may call the library on the host; a child of a process that used a GPU may not
 * use one.
 */
MSIMAGE_API void msimage_threads_release(void);

/**
 * Set how much memory of each GPU may stay with the library between calls, for the next one. Other users of the GPU,
 * of this process too, see it as taken. What is kept beyond that goes back to the GPU at once.
 * @param bytes 0: nothing; negative: what it was at first, a sixteenth of the GPU's memory
 */
MSIMAGE_API void msimage_gpu_memory_keep(int64_t bytes);

/** Give back all memory of the GPUs that stays with the library and that no object has. The next call may keep some
 * again. */
MSIMAGE_API void msimage_gpu_memory_release(void);

#ifdef __cplusplus
}
#endif
#endif
