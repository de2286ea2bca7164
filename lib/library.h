/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The installed library's functions share this: callbacks in force during a call, and arrays wherever they lie. */
#ifndef MSI_LIB_LIBRARY_H
#define MSI_LIB_LIBRARY_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/gridder.h"
#include "msimage/base.h"

/* A call of the library, from msi_library_begin to msi_library_end. */
typedef struct msi_library_call {
    const msimage_callbacks *callbacks;
    int n_thread;                      /* of the host, at least 1: so many are OpenMP's while it lasts */
    int uses_gpu;                      /* the thread's current device and the GPU's memory are put back at its end */
    const char *stage;                 /* what its progress is called; static; NULL: it has none */
    int device_before, threads_before; /* msi_library_begin sets them */
} msi_library_call;

/*
 * msi_library_begin - begin a call: log, progress and interrupts of the calling thread are the callbacks'.
 * Returns: 0, MSI_EINTERRUPTED
 */
int msi_library_begin(msi_library_call *call);

/* msi_library_end - end the call. Returns: rc */
int msi_library_end(const msi_library_call *call, int rc);

/* msi_library_gpu_settle - give the memory back to GPUs that calls leave behind, but for what may stay. */
void msi_library_gpu_settle(void);

/* msi_library_may_use_gpu - return whether an object of a backend has a GPU's work to do, or may have. */
int msi_library_may_use_gpu(msimage_backend backend);

/*
 * msi_library_spec - copy a specification that the caller compiled, perhaps against an older header.
 * Given:    from, from_bytes  the caller's struct_bytes, which is the first member; bytes  of this library's
 * Returned: *to  [bytes], zero where the caller's ends
 * Returns:  0, MSI_EARGUMENT (a struct of a newer library, or none)
 */
int msi_library_spec(void *to, const void *from, size_t from_bytes, size_t bytes);

/* msi_library_backend, msi_library_precision - the kernels' own names of them. */
msi_backend msi_library_backend(msimage_backend backend);
msi_precision msi_library_precision(msimage_precision precision);

/* msi_library_check_threads - 0, or MSI_ERANGE where a specification's number of threads is none that can be. */
int msi_library_check_threads(int n_thread);

/* msi_library_threads - OpenMP's threads for a specification's number. */
int msi_library_threads(int n_thread);

/* An array of the caller's in host memory: itself, or a copy of what lies in a GPU's. */
typedef struct msi_host_array {
    void *at;
    void *copy, *device; /* NULL where it is the caller's own */
    int64_t bytes;
} msi_host_array;

/* The caller's arrays may be these, beside host memory. */
typedef struct msi_array_place {
    int on_gpu;   /* they may lie in a GPU's memory */
    void *stream; /* cudaStream_t that wrote them */
} msi_array_place;

/*
 * msi_host_array_read - have an array's values in host memory. NULL stays NULL.
 * Returned: *a  freed by msi_host_array_end
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_host_array_read(msi_host_array *a, const msi_array_place *place, const void *array, int64_t bytes);

/* msi_host_array_room - have room in host memory for values that msi_host_array_write puts into an array. */
int msi_host_array_room(msi_host_array *a, const msi_array_place *place, void *array, int64_t bytes);
int msi_host_array_write(msi_host_array *a);

/* msi_host_array_end - free what was made; once more is fine. */
void msi_host_array_end(msi_host_array *a);

#endif
