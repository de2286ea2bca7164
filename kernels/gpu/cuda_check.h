/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Check CUDA calls, under the project's error convention. */
#ifndef MSI_KERNELS_CUDA_CHECK_H
#define MSI_KERNELS_CUDA_CHECK_H

#include <cuda_runtime.h>
#include <cufft.h>

#include "core/status.h"
#include "kernels/gpu/gpu_device.h"

/*
 * Return MSI_EGPU from the calling function, with the call and its reason, if a CUDA call fails. The calling function
 * must own its allocations through objects that its callers free. The macro also clears CUDA's last error, so that the
 * check of a later launch does not see it.
 */
#define MSI_CUDA(call) MSI_CUDA_AT(msi_gpu_current_name(), #call, call)

/* The same, for a call on a device that need not be the current one. */
#define MSI_CUDA_OF(device, call) MSI_CUDA_AT(msi_gpu_name(device), #call, call)

#define MSI_CUDA_AT(where, text, call)                                                                                 \
    do {                                                                                                               \
        cudaError_t msi_cuda_error_ = (call);                                                                          \
        if (msi_cuda_error_ != cudaSuccess) {                                                                          \
            cudaGetLastError();                                                                                        \
            return msi_error_set(MSI_EGPU, "%s: %s: %s", where, text, cudaGetErrorString(msi_cuda_error_));            \
        }                                                                                                              \
    } while (0)

#define MSI_CUFFT(call)                                                                                                \
    do {                                                                                                               \
        cufftResult msi_cufft_result_ = (call);                                                                        \
        if (msi_cufft_result_ != CUFFT_SUCCESS) {                                                                      \
            cudaGetLastError();                                                                                        \
            return msi_error_set(MSI_EGPU, "%s: %s: cuFFT error %d", msi_gpu_current_name(), #call,                    \
                                 (int)msi_cufft_result_);                                                              \
        }                                                                                                              \
    } while (0)

#endif
