/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Simulates a GPU that is lost during a run. This library is loaded before a program's own libraries (LD_PRELOAD). It
 * counts the calls that wait for a GPU, and makes call number LOST_GPU_AT fail. All later calls that wait for that GPU
 * fail too. At exit it writes the number of calls to the file LOST_GPU_COUNT.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

static atomic_long n_call;
static atomic_int lost = -1; /* the device */

/* Return whether the calling thread's device is lost, or is lost by this call. */
static int is_lost(void)
{
    const char *at = getenv("LOST_GPU_AT");
    const long number = atomic_fetch_add(&n_call, 1) + 1;
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess) return 0;
    if (at && number == atol(at)) lost = device;
    return lost == device;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t (*real)(cudaStream_t) = (cudaError_t(*)(cudaStream_t))dlsym(RTLD_NEXT, "cudaStreamSynchronize");
    return is_lost() ? cudaErrorDevicesUnavailable : real(stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t (*real)(cudaEvent_t) = (cudaError_t(*)(cudaEvent_t))dlsym(RTLD_NEXT, "cudaEventSynchronize");
    return is_lost() ? cudaErrorDevicesUnavailable : real(event);
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("LOST_GPU_COUNT");
    FILE *f = path && n_call ? fopen(path, "w") : NULL;
    if (!f) return;
    fprintf(f, "%ld\n", (long)n_call);
    fclose(f);
}
