/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Convolution functions of w-projection computed on a GPU, and sets of them as the GPU's strategies read them. */
#ifndef MSI_KERNELS_WKERNEL_CUDA_H
#define MSI_KERNELS_WKERNEL_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/wproj/job/wkernel.h"
#include "kernels/wproj/job/wproj_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_wkernel_make_cuda - make tables in device memory.
 *
 * Given:    gpu, on whose device and stream they are made; spec, its supports prescribed (spec->half)
 * Returned: *set, freed by msi_wkernel_free_cuda; set->on_device is 1
 * Returns:  0, MSI_EGPU, MSI_ENOMEM
 * Notes:    waits for the stream. The same sums as msi_wkernel_make's, in double: values differ by rounding of the
 * tables' precision.
 */
int msi_wkernel_make_cuda(msi_wkernel_set *set, const msi_gpu_stream *gpu, const msi_wkernel_spec *spec);

/* msi_wkernel_free_cuda - frees a set made here or by msi_wkernel_make. */
void msi_wkernel_free_cuda(msi_wkernel_set *set);

/* A mirror is a set in device memory. */
typedef struct msi_wkernel_mirror {
    msi_wproj_kernels view;
    void *memory[4]; /* owned */
} msi_wkernel_mirror;

/*
 * msi_wkernel_mirror_make - make a set's mirror; a table that is on the device already is borrowed.
 * Given:    gpu, on whose device and stream it is made; lookup: MSI_WPROJ_NEAREST or MSI_WPROJ_LINEAR
 * Returned: *mirror, freed by msi_wkernel_mirror_free
 * Returns:  0, MSI_EGPU
 */
int msi_wkernel_mirror_make(msi_wkernel_mirror *mirror, const msi_gpu_stream *gpu, const msi_wkernel_set *set,
                            msi_wproj_lookup lookup);
void msi_wkernel_mirror_free(msi_wkernel_mirror *mirror);

#ifdef __cplusplus
}
#endif
#endif
