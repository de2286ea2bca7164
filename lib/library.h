/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Declarations that the functions of the installed library share: callbacks during a call, and arrays in any memory. */
#ifndef MSI_LIB_LIBRARY_H
#define MSI_LIB_LIBRARY_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/gridder.h"
#include "msimage/base.h"

/* A call of the library, from msi_library_begin to msi_library_end. */
typedef struct msi_library_call {
    const msimage_callbacks *callbacks;
    int n_thread; /* host threads, at least 1; OpenMP's number of threads during the call */
    int uses_gpu; /* 1: restore the thread's current device at the end, and free GPU memory */
    /* name of the call in progress reports; static; NULL: progress is not reported */
    const char *stage;
    int device_before, threads_before; /* set by msi_library_begin */
} msi_library_call;

/*
 * msi_library_begin - begin a call. During the call, the callbacks receive log lines and progress, and may interrupt
 * it.
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
 * msi_library_spec - copy a specification of a caller, who may have compiled with an older header.
 * Given:    from, from_bytes  the caller's struct, and its struct_bytes, the first member; bytes  size of this
 *                             library's struct
 * Returned: *to  [bytes], zero after the caller's members
 * Returns:  0, MSI_EARGUMENT (a struct of a newer library, or a size that is too small)
 */
int msi_library_spec(void *to, const void *from, size_t from_bytes, size_t bytes);

/* msi_library_backend, msi_library_precision - convert to the kernels' enumerations. */
msi_backend msi_library_backend(msimage_backend backend);
msi_precision msi_library_precision(msimage_precision precision);

/* msi_library_check_threads - check the number of threads of a specification. Returns: 0, MSI_ERANGE */
int msi_library_check_threads(int n_thread);

/* msi_library_threads - return the number of OpenMP threads for the number of a specification. */
int msi_library_threads(int n_thread);

/* An array of the caller in host memory: the caller's array itself, or a copy of an array in GPU memory. */
typedef struct msi_host_array {
    void *at;
    void *copy, *device; /* NULL if there is no copy */
    int64_t bytes;
} msi_host_array;

/* Where the caller's arrays may be. */
typedef struct msi_array_place {
    int on_gpu;   /* 1: they may be in GPU memory */
    void *stream; /* cudaStream_t that wrote them */
} msi_array_place;

/*
 * msi_host_array_read - get the values of an array in host memory; NULL gives NULL
 * Returned: *a  freed by msi_host_array_end
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_host_array_read(msi_host_array *a, const msi_array_place *place, const void *array, int64_t bytes);

/* msi_host_array_reserve - get host memory for values that msi_host_array_write copies to the caller's array. */
int msi_host_array_reserve(msi_host_array *a, const msi_array_place *place, void *array, int64_t bytes);
int msi_host_array_write(msi_host_array *a);

/* msi_host_array_end - free the copy; a second call does nothing. */
void msi_host_array_end(msi_host_array *a);

#endif
