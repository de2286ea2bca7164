/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Declarations shared by the functions of the installed library: callbacks during a call, and arrays in any memory. */
#ifndef MSI_LIB_LIBRARY_H
#define MSI_LIB_LIBRARY_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/gridder.h"
#include "msimage/base.h"

/* A call of the library, from msi_library_begin to msi_library_end. */
typedef struct msi_library_call {
    const msimage_callbacks *callbacks;
    int n_thread;                      /* host threads, at least 1; OpenMP's number during the call */
    int uses_gpu;                      /* restore the thread's current device and the GPU's memory at the end */
    const char *stage;                 /* name of the call in progress reports; static; NULL: no progress */
    int device_before, threads_before; /* set by msi_library_begin */
} msi_library_call;

/*
 * msi_library_begin - begin a call: the callbacks receive log, progress and interrupts of the calling thread.
 * Returns: 0, MSI_EINTERRUPTED
 */
int msi_library_begin(msi_library_call *call);

/* msi_library_end - end the call. Returns: rc */
int msi_library_end(const msi_library_call *call, int rc);

/* msi_library_gpu_trim - free the memory that calls left allocated on GPUs, except for the amount that may be kept. */
void msi_library_gpu_trim(void);

/* msi_library_may_use_gpu - return 1 if an object of a backend uses, or may use, a GPU. */
int msi_library_may_use_gpu(msimage_backend backend);

/*
 * msi_library_spec - copy a specification of the caller, who may have compiled against an older header.
 * Given:    from, from_bytes  the caller's struct_bytes, which is the first member; bytes  of this library's struct
 * Returned: *to  [bytes], zero beyond the caller's struct
 * Returns:  0, MSI_EARGUMENT (a struct of a newer library, or none)
 */
int msi_library_spec(void *to, const void *from, size_t from_bytes, size_t bytes);

/* msi_library_backend, msi_library_precision - translate to the kernels' enumerations. */
msi_backend msi_library_backend(msimage_backend backend);
msi_precision msi_library_precision(msimage_precision precision);

/* msi_library_check_threads - check a specification's number of threads. Returns: 0, MSI_ERANGE */
int msi_library_check_threads(int n_thread);

/* msi_library_threads - return the number of OpenMP threads for a specification's number. */
int msi_library_threads(int n_thread);

/* An array of the caller in host memory: the caller's own, or a copy of one in GPU memory. */
typedef struct msi_host_array {
    void *at;
    void *copy, *device; /* NULL if the array is the caller's own */
    int64_t bytes;
} msi_host_array;

/* The device memory of the caller's arrays. */
typedef struct msi_array_place {
    int on_gpu;   /* they may be in GPU memory */
    void *stream; /* cudaStream_t that wrote them */
} msi_array_place;

/*
 * msi_host_array_read - get an array's values in host memory. NULL stays NULL.
 * Returned: *a  freed by msi_host_array_end
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_host_array_read(msi_host_array *a, const msi_array_place *place, const void *array, int64_t bytes);

/* msi_host_array_reserve - get host memory for values that msi_host_array_write will copy to an array. */
int msi_host_array_reserve(msi_host_array *a, const msi_array_place *place, void *array, int64_t bytes);
int msi_host_array_write(msi_host_array *a);

/* msi_host_array_end - free copies; a second call does nothing. */
void msi_host_array_end(msi_host_array *a);

#endif
