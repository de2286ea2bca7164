/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Wraps the calls of the CUDA runtime and cuFFT, as failure_injection.c wraps those of the C library. A failed call
 * sets the error of cudaGetLastError, as in CUDA: code that continues after a failure must clear it. */
#include "tests/support/failure_injection_cuda.h"

#include <stdatomic.h>

#include <cuda_runtime_api.h>
#include <cufft.h>

#include "tests/support/failure_injection.h"

static atomic_llong n_live;
static _Thread_local cudaError_t pending;

int64_t failure_cuda_live(void)
{
    return n_live;
}

static int due_with(const char *function, cudaError_t error)
{
    if (!failure_due(function)) return 0;
    pending = error;
    return 1;
}

#define WRAP(function, parameters, arguments, error)                                                                   \
    cudaError_t __real_##function parameters;                                                                          \
    cudaError_t __wrap_##function parameters;                                                                          \
    cudaError_t __wrap_##function parameters                                                                           \
    {                                                                                                                  \
        return due_with(#function, error) ? (error) : __real_##function arguments;                                     \
    }

WRAP(cudaGetDeviceCount, (int *n), (n), cudaErrorInitializationError)
WRAP(cudaGetDevice, (int *device), (device), cudaErrorInitializationError)
WRAP(cudaSetDevice, (int device), (device), cudaErrorInvalidDevice)
WRAP(cudaMemGetInfo, (size_t * n_free, size_t *n_total), (n_free, n_total), cudaErrorUnknown)
WRAP(cudaMemcpyAsync, (void *to, const void *from, size_t n, enum cudaMemcpyKind kind, cudaStream_t stream),
     (to, from, n, kind, stream), cudaErrorInvalidValue)
WRAP(cudaMemcpy2DAsync,
     (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
      enum cudaMemcpyKind kind, cudaStream_t stream),
     (to, to_pitch, from, from_pitch, width, height, kind, stream), cudaErrorInvalidValue)
WRAP(cudaMemsetAsync, (void *p, int value, size_t n, cudaStream_t stream), (p, value, n, stream), cudaErrorInvalidValue)
WRAP(cudaStreamSynchronize, (cudaStream_t stream), (stream), cudaErrorIllegalAddress)
WRAP(cudaFuncSetAttribute, (const void *kernel, enum cudaFuncAttribute attribute, int value),
     (kernel, attribute, value), cudaErrorInvalidValue)

WRAP(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attribute, int device), (value, attribute, device),
     cudaErrorInvalidDevice)
WRAP(cudaLaunchCooperativeKernel,
     (const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes, cudaStream_t stream),
     (kernel, grid, block, arguments, shared_bytes, stream), cudaErrorLaunchOutOfResources)
WRAP(cudaLaunchKernelExC, (const cudaLaunchConfig_t *config, const void *kernel, void **arguments),
     (config, kernel, arguments), cudaErrorLaunchOutOfResources)
WRAP(cudaOccupancyMaxActiveClusters, (int *n, const void *kernel, const cudaLaunchConfig_t *config),
     (n, kernel, config), cudaErrorInvalidValue)

/* The launch of a kernel. Its name and handle differ from CUDA 13 on. */
#if CUDART_VERSION >= 13000
#define LAUNCH __cudaLaunchKernel
#define KERNEL cudaKernel_t
#else
#define LAUNCH cudaLaunchKernel
#define KERNEL const void *
#endif
#define JOINED(a, b)   a##b
#define PREFIXED(a, b) JOINED(a, b)
cudaError_t PREFIXED(__real_, LAUNCH)(KERNEL kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                      cudaStream_t stream);
cudaError_t PREFIXED(__wrap_, LAUNCH)(KERNEL kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                      cudaStream_t stream);
cudaError_t PREFIXED(__wrap_, LAUNCH)(KERNEL kernel, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                                      cudaStream_t stream)
{
    if (due_with("cudaLaunchKernel", cudaErrorLaunchOutOfResources)) return cudaErrorLaunchOutOfResources;
    return PREFIXED(__real_, LAUNCH)(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t __real_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t __wrap_cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    if (due_with("cudaStreamCreateWithFlags", cudaErrorMemoryAllocation)) return cudaErrorMemoryAllocation;
    cudaError_t e = __real_cudaStreamCreateWithFlags(stream, flags);
    n_live += e == cudaSuccess;
    return e;
}

cudaError_t __real_cudaStreamDestroy(cudaStream_t stream);
cudaError_t __wrap_cudaStreamDestroy(cudaStream_t stream);
cudaError_t __wrap_cudaStreamDestroy(cudaStream_t stream)
{
    n_live--;
    return __real_cudaStreamDestroy(stream);
}

cudaError_t __real_cudaMalloc(void **p, size_t n);
cudaError_t __wrap_cudaMalloc(void **p, size_t n);
cudaError_t __wrap_cudaMalloc(void **p, size_t n)
{
    if (due_with("cudaMalloc", cudaErrorMemoryAllocation)) return cudaErrorMemoryAllocation;
    cudaError_t e = __real_cudaMalloc(p, n);
    n_live += e == cudaSuccess && *p;
    return e;
}

cudaError_t __real_cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t __wrap_cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t pool, cudaStream_t stream);
cudaError_t __wrap_cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t pool, cudaStream_t stream)
{
    if (due_with("cudaMallocFromPoolAsync", cudaErrorMemoryAllocation)) return cudaErrorMemoryAllocation;
    cudaError_t e = __real_cudaMallocFromPoolAsync(p, n, pool, stream);
    n_live += e == cudaSuccess && *p;
    return e;
}

/* The program works without these attributes. */
cudaError_t __real_cudaMallocAsync(void **p, size_t n, cudaStream_t stream);
cudaError_t __wrap_cudaMallocAsync(void **p, size_t n, cudaStream_t stream);
cudaError_t __wrap_cudaMallocAsync(void **p, size_t n, cudaStream_t stream)
{
    cudaError_t e = __real_cudaMallocAsync(p, n, stream);
    n_live += e == cudaSuccess && *p;
    return e;
}

cudaError_t __real_cudaFreeAsync(void *p, cudaStream_t stream);
cudaError_t __wrap_cudaFreeAsync(void *p, cudaStream_t stream);
cudaError_t __wrap_cudaFreeAsync(void *p, cudaStream_t stream)
{
    n_live -= p != NULL;
    return __real_cudaFreeAsync(p, stream);
}

cudaError_t __real_cudaFree(void *p);
cudaError_t __wrap_cudaFree(void *p);
cudaError_t __wrap_cudaFree(void *p)
{
    n_live -= p != NULL;
    return __real_cudaFree(p);
}

cudaError_t __real_cudaGetLastError(void);
cudaError_t __wrap_cudaGetLastError(void);
cudaError_t __wrap_cudaGetLastError(void)
{
    cudaError_t e = pending, real = __real_cudaGetLastError();
    pending = cudaSuccess;
    return e != cudaSuccess ? e : real;
}

cudaError_t __real_cudaPeekAtLastError(void);
cudaError_t __wrap_cudaPeekAtLastError(void);
cudaError_t __wrap_cudaPeekAtLastError(void)
{
    return pending != cudaSuccess ? pending : __real_cudaPeekAtLastError();
}

#define WRAP_FFT(function, parameters, arguments, error)                                                               \
    cufftResult __real_##function parameters;                                                                          \
    cufftResult __wrap_##function parameters;                                                                          \
    cufftResult __wrap_##function parameters                                                                           \
    {                                                                                                                  \
        return failure_due(#function) ? (error) : __real_##function arguments;                                         \
    }

WRAP_FFT(cufftExecC2C, (cufftHandle plan, cufftComplex *in, cufftComplex *out, int direction),
         (plan, in, out, direction), CUFFT_EXEC_FAILED)
WRAP_FFT(cufftExecZ2Z, (cufftHandle plan, cufftDoubleComplex *in, cufftDoubleComplex *out, int direction),
         (plan, in, out, direction), CUFFT_EXEC_FAILED)

WRAP_FFT(cufftExecR2C, (cufftHandle plan, cufftReal *in, cufftComplex *out), (plan, in, out), CUFFT_EXEC_FAILED)
WRAP_FFT(cufftExecC2R, (cufftHandle plan, cufftComplex *in, cufftReal *out), (plan, in, out), CUFFT_EXEC_FAILED)
WRAP_FFT(cufftExecD2Z, (cufftHandle plan, cufftDoubleReal *in, cufftDoubleComplex *out), (plan, in, out),
         CUFFT_EXEC_FAILED)
WRAP_FFT(cufftExecZ2D, (cufftHandle plan, cufftDoubleComplex *in, cufftDoubleReal *out), (plan, in, out),
         CUFFT_EXEC_FAILED)
WRAP_FFT(cufftSetStream, (cufftHandle plan, cudaStream_t stream), (plan, stream), CUFFT_INVALID_PLAN)

cufftResult __real_cufftPlan2d(cufftHandle *plan, int n0, int n1, cufftType type);
cufftResult __wrap_cufftPlan2d(cufftHandle *plan, int n0, int n1, cufftType type);
cufftResult __wrap_cufftPlan2d(cufftHandle *plan, int n0, int n1, cufftType type)
{
    if (failure_due("cufftPlan2d")) return CUFFT_ALLOC_FAILED;
    cufftResult e = __real_cufftPlan2d(plan, n0, n1, type);
    n_live += e == CUFFT_SUCCESS;
    return e;
}

cufftResult __real_cufftPlanMany(cufftHandle *plan, int rank, int *n, int *in_embed, int in_stride, int in_distance,
                                 int *out_embed, int out_stride, int out_distance, cufftType type, int batch);
cufftResult __wrap_cufftPlanMany(cufftHandle *plan, int rank, int *n, int *in_embed, int in_stride, int in_distance,
                                 int *out_embed, int out_stride, int out_distance, cufftType type, int batch);
cufftResult __wrap_cufftPlanMany(cufftHandle *plan, int rank, int *n, int *in_embed, int in_stride, int in_distance,
                                 int *out_embed, int out_stride, int out_distance, cufftType type, int batch)
{
    if (failure_due("cufftPlanMany")) return CUFFT_ALLOC_FAILED;
    cufftResult e = __real_cufftPlanMany(plan, rank, n, in_embed, in_stride, in_distance, out_embed, out_stride,
                                         out_distance, type, batch);
    n_live += e == CUFFT_SUCCESS;
    return e;
}

cufftResult __real_cufftDestroy(cufftHandle plan);
cufftResult __wrap_cufftDestroy(cufftHandle plan);
cufftResult __wrap_cufftDestroy(cufftHandle plan)
{
    n_live--;
    return __real_cufftDestroy(plan);
}
