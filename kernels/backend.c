/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/backend.h"

#include <pthread.h>
#include <stdio.h>

#include <fftw3.h>

#include "core/status.h"
#include "kernels/method/simd.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

const char *msi_backend_describe_device(int device)
{
#ifdef MSI_HAVE_CUDA
    return msi_gpu_describe(device);
#else
    (void)device;
    return "this build has no GPU backend";
#endif
}

const char *msi_backend_describe(void)
{
    return msi_backend_describe_device(0);
}

int msi_backend_n_device(void)
{
#ifdef MSI_HAVE_CUDA
    return msi_gpu_count();
#else
    return 0;
#endif
}

int64_t msi_backend_device_bytes(int device)
{
#ifdef MSI_HAVE_CUDA
    size_t free_bytes, total_bytes;
    return msi_gpu_memory(device, &free_bytes, &total_bytes) == MSI_OK ? (int64_t)free_bytes : 0;
#else
    (void)device;
    return 0;
#endif
}

void msi_backend_warm_up(msi_backend backend, const int *device, int n)
{
#ifdef MSI_HAVE_CUDA
    for (int i = 0; i < n && backend != MSI_BACKEND_CPU; i++) msi_gpu_warm_up(device[i]);
#else
    (void)backend;
    (void)device;
    (void)n;
#endif
}

void msi_backend_await(const int *device, int n)
{
#ifdef MSI_HAVE_CUDA
    for (int i = 0; i < n; i++) msi_gpu_await(device[i]);
#else
    (void)device;
    (void)n;
#endif
}

int msi_backend_has_started(int device)
{
#ifdef MSI_HAVE_CUDA
    return msi_gpu_has_started(device);
#else
    (void)device;
    return 1;
#endif
}

void msi_backend_await_all(void)
{
#ifdef MSI_HAVE_CUDA
    msi_gpu_await_all();
#endif
}

static char versions[256];

static void write_versions(void)
{
#ifdef MSI_HAVE_CUDA
    snprintf(versions, sizeof versions, "%s, %s, SIMD %s", fftw_version, msi_gpu_versions(), msi_simd_name());
#else
    snprintf(versions, sizeof versions, "%s, SIMD %s", fftw_version, msi_simd_name());
#endif
}

const char *msi_backend_versions(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_versions);
    return versions;
}
