/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CUDA calls under the project's error convention. */
#ifndef MSI_KERNELS_CUDA_CHECK_H
#define MSI_KERNELS_CUDA_CHECK_H

#include <cuda_runtime.h>
#include <cufft.h>

#include "core/status.h"
#include "kernels/gpu/gpu_device.h"

/* Return MSI_EGPU with the call and its reason when a CUDA call fails. Functions using it own what they allocated
 * through objects that their callers free. The failure is taken out of CUDA's own record, where a later check of a
 * launch would find it. */
#define MSI_CUDA(call) MSI_CUDA_AT(msi_gpu_here(), #call, call)

/* The same for a call on a device that need not be the current one. */
#define MSI_CUDA_OF(device, call) MSI_CUDA_AT(msi_gpu_named(device), #call, call)

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
            return msi_error_set(MSI_EGPU, "%s: %s: cuFFT error %d", msi_gpu_here(), #call, (int)msi_cufft_result_);   \
        }                                                                                                              \
    } while (0)

#endif
