/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lib/library.h"

#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "kernels/gridder.h"
#ifdef MSI_HAVE_CUDA
#include <cuda_runtime_api.h>

#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/gpu_pool.h"
#include "lib/library_gpu.h"
#endif

_Static_assert((int)MSIMAGE_EINPUT == (int)MSI_EINPUT && (int)MSIMAGE_EOUTPUT == (int)MSI_EOUTPUT &&
                   (int)MSIMAGE_ENOMEM == (int)MSI_ENOMEM && (int)MSIMAGE_EGPU == (int)MSI_EGPU &&
                   (int)MSIMAGE_ERANGE == (int)MSI_ERANGE && (int)MSIMAGE_EINTERRUPTED == (int)MSI_EINTERRUPTED &&
                   (int)MSIMAGE_EINTERNAL == (int)MSI_EINTERNAL && (int)MSIMAGE_EARGUMENT == (int)MSI_EARGUMENT,
               "codes equal the codes of the kernels");

const char *msimage_version(void)
{
    return MSIMAGE_VERSION;
}

const char *msimage_libraries(void)
{
    return msi_backend_versions();
}

const char *msimage_error(void)
{
    return msi_error_get();
}

int msimage_gpu_count(void)
{
#ifdef MSI_HAVE_CUDA
    return msi_gpu_count();
#else
    return 0;
#endif
}

void msimage_memory_limit(int64_t bytes)
{
    msi_memory_limit_set(bytes);
}

void msimage_threads_release(void)
{
    omp_pause_resource_all(omp_pause_soft);
}

/* ---- Memory of GPUs --------------------------------------------------------------------------------------------- */

#ifdef MSI_HAVE_CUDA
/* Bytes of each device's memory that the library may keep between calls; negative: the initial amount. */
static atomic_int_least64_t most_kept = -1;

/* The initial amount is this fraction of each device's memory: enough for calls of medium size, but small compared with
 * the rest. */
enum { FIRST_PART = 16 };

void msi_library_gpu_trim(void)
{
    const int64_t kept = most_kept;
    if (kept < 0)
        msi_gpu_pool_shrink_to_part(FIRST_PART);
    else
        msi_gpu_pool_shrink((size_t)kept);
}
#endif

void msimage_gpu_memory_keep(int64_t bytes)
{
#ifdef MSI_HAVE_CUDA
    most_kept = bytes < 0 ? -1 : bytes;
    if (bytes >= 0) msi_gpu_pool_shrink((size_t)bytes);
#else
    (void)bytes;
#endif
}

void msimage_gpu_memory_release(void)
{
#ifdef MSI_HAVE_CUDA
    msi_gpu_pool_shrink(0);
#endif
}

/* ---- Calls ------------------------------------------------------------------------------------------------------ */

/* Pass a line to the caller, with the library's code for its level. */
static void log_line(void *of, msi_log_level level, const char *line)
{
    const msimage_callbacks *c = of;
    if (!c->log) return;
    c->log(c->of,
           level == MSI_LOG_QUIET    ? MSIMAGE_LOG_WARNING
           : level == MSI_LOG_NORMAL ? MSIMAGE_LOG_INFO
                                     : MSIMAGE_LOG_DETAIL,
           line);
}

int msi_library_begin(msi_library_call *call)
{
    const msimage_callbacks *c = call->callbacks;
    call->threads_before = omp_get_max_threads();
    omp_set_num_threads(call->n_thread);
#ifdef MSI_HAVE_CUDA
    if (call->uses_gpu) call->device_before = msi_library_gpu_device();
#endif
    msi_log_listen(log_line, (void *)c);
    msi_progress_thread_begin(c->progress, c->of);
    if (c->progress && call->stage) msi_progress_begin(call->stage);
    msi_interrupt_callback(c->interrupt, c->of);
    return msi_interrupt_check();
}

int msi_library_end(const msi_library_call *call, int rc)
{
    if (!rc) msi_progress_end();
    msi_progress_thread_end();
    msi_log_listen(NULL, NULL);
    msi_interrupt_callback(NULL, NULL);
#ifdef MSI_HAVE_CUDA
    if (call->uses_gpu) {
        msi_library_gpu_trim();
        msi_library_gpu_device_set(call->device_before);
    }
#endif
    omp_set_num_threads(call->threads_before);
    return rc;
}

int msi_library_may_use_gpu(msimage_backend backend)
{
#ifdef MSI_HAVE_CUDA
    return backend != MSIMAGE_CPU && msi_gpu_available();
#else
    (void)backend;
    return 0;
#endif
}

int msi_library_spec(void *to, const void *from, size_t from_bytes, size_t bytes)
{
    if (from_bytes < sizeof(size_t) || from_bytes > bytes)
        return msi_error_set(
            MSI_EARGUMENT,
            "struct_bytes %zu: this library's specification has %zu bytes; larger ones belong to newer headers",
            from_bytes, bytes);
    memset(to, 0, bytes);
    memcpy(to, from, from_bytes);
    return MSI_OK;
}

msi_backend msi_library_backend(msimage_backend backend)
{
    return backend == MSIMAGE_CPU ? MSI_BACKEND_CPU : backend == MSIMAGE_CUDA ? MSI_BACKEND_CUDA : MSI_BACKEND_AUTO;
}

msi_precision msi_library_precision(msimage_precision precision)
{
    return precision == MSIMAGE_FP32 ? MSI_FP32 : MSI_FP64;
}

/* OpenMP ends the process if it cannot create a thread. */
enum { MOST_THREADS = 4096 };

int msi_library_check_threads(int n_thread)
{
    if (n_thread >= 0 && n_thread <= MOST_THREADS) return MSI_OK;
    return msi_error_set(MSI_ERANGE, "n_thread must be 0 to %d, got %d", MOST_THREADS, n_thread);
}

int msi_library_threads(int n_thread)
{
    return n_thread > 0 ? n_thread : omp_get_max_threads();
}

/* ---- Arrays ----------------------------------------------------------------------------------------------------- */

#ifdef MSI_HAVE_CUDA
/* Copy between the caller's array and host memory, after all work on the stream that wrote the array. */
static int copy_array(const msi_array_place *place, void *to, const void *from, int64_t bytes)
{
    MSI_CUDA(cudaStreamSynchronize((cudaStream_t)place->stream));
    MSI_CUDA(cudaMemcpy(to, from, (size_t)bytes, cudaMemcpyDefault));
    return MSI_OK;
}

static int is_on_device(const void *array)
{
    struct cudaPointerAttributes a;
    if (cudaPointerGetAttributes(&a, array) == cudaSuccess) return a.type == cudaMemoryTypeDevice;
    cudaGetLastError(); /* clears the error */
    return 0;
}
#endif

int msi_host_array_reserve(msi_host_array *a, const msi_array_place *place, void *array, int64_t bytes)
{
    *a = (msi_host_array){.at = array, .bytes = bytes};
#ifdef MSI_HAVE_CUDA
    if (!array || !place->on_gpu || !is_on_device(array)) return MSI_OK;
    MSI_TRY(msi_alloc(&a->copy, bytes, 1, "a copy of an array"));
    a->at = a->copy;
    a->device = array;
#else
    (void)place;
#endif
    return MSI_OK;
}

int msi_host_array_read(msi_host_array *a, const msi_array_place *place, const void *array, int64_t bytes)
{
    MSI_TRY(msi_host_array_reserve(a, place, (void *)array, bytes));
#ifdef MSI_HAVE_CUDA
    if (a->copy) return copy_array(place, a->copy, array, bytes);
#endif
    return MSI_OK;
}

int msi_host_array_write(msi_host_array *a)
{
#ifdef MSI_HAVE_CUDA
    if (a->copy) MSI_CUDA(cudaMemcpy(a->device, a->copy, (size_t)a->bytes, cudaMemcpyDefault));
#else
    (void)a;
#endif
    return MSI_OK;
}

void msi_host_array_end(msi_host_array *a)
{
    msi_free(a->copy);
    a->copy = NULL;
}
