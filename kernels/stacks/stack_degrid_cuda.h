/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Benchmark only: the paper's problem (Adamek et al. 2021); msimage itself grids subgrids in towers/.
 *
 * Degridding from stacks of subgrids on the GPU. An object works on the device and the stream that it was made with.
 */
#ifndef MSI_KERNELS_STACK_DEGRID_CUDA_H
#define MSI_KERNELS_STACK_DEGRID_CUDA_H

#include "kernels/gpu/gpu_device.h"
#include "kernels/stacks/stack_job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first three are those of Adamek 2021 and take visibilities in the order given. Whatever the form, one launch
 * serves all subgrids, and a subgrid of few visibilities, or none, leaves no block idle. */
typedef enum msi_stack_form {
    MSI_STACK_SINGLE,  /* a block a visibility, a thread a cell */
    MSI_STACK_WARP,    /* a warp for a group of visibilities */
    MSI_STACK_ZREDUCE, /* two warps for a group; every thread sums over w before the threads sum over u and v */
    MSI_STACK_STREAM,  /* sorted by place, rows streamed through shared memory; compute capability 9.0 with 113 KB of
                          it to a block */
    MSI_STACK_TILE,    /* sorted by tile, on the tensor cores */
    MSI_STACK_AUTO
} msi_stack_form;

/* msi_stack_form_for - the form that takes least time, its sort counted, at so many visibilities to each 512 x 512
 * cells, where they lie at random. */
msi_stack_form msi_stack_form_for(double vis_per_subgrid);

typedef struct msi_stack msi_stack;

/*
 * msi_stack_create - allocate device memory for a form.
 * Given:   gpu: copied; its stream is borrowed as long as *out lives
 *          job: precision, size and counts; its pointers to device memory are not looked at but for MSI_STACK_AUTO
 *          form: MSI_STACK_AUTO for the best that the GPU can do, by the visibilities of those subgrids that have any
 *          and by how close to each other uvw has them; where uvw is NULL, as if they lay at random
 *          group: visibilities of a warp or pair of warps, 1 .. 32; 0 to choose
 * Returned: *out, freed by msi_stack_free
 * Returns: 0, MSI_EGPU (also: a form that this GPU cannot do), MSI_ERANGE (sizes or counts; group; 2^31 visibilities or
 *          more)
 */
int msi_stack_create(msi_stack **out, const msi_gpu_stream *gpu, const msi_stack_job *job, msi_stack_form form,
                     int32_t group);
void msi_stack_free(msi_stack *s);

/* msi_stack_form_of - the form in use. */
msi_stack_form msi_stack_form_of(const msi_stack *s);

/*
 * msi_stack_check - look whether every footprint lies inside its subgrid.
 * Returns: 0, MSI_EGPU, MSI_ERANGE (some do not)
 * Notes:   waits for the stream. Without it such visibilities become 0 without an error.
 */
int msi_stack_check(msi_stack *s, const msi_stack_job *job);

/*
 * msi_stack_sort - put the job's visibilities in order; must precede msi_stack_degrid whenever they changed. Forms that
 * take them in the order given do nothing.
 * Given:   what msi_stack_degrid will read and where it will write, too: it may begin before the sort ends, so that
 *          nothing in the stream between the two may touch the grid, the tables or the values
 * Returns: 0, MSI_EGPU
 */
int msi_stack_sort(msi_stack *s, const msi_stack_job *job);

/*
 * msi_stack_degrid - compute the sums that msi_stack_cpu_degrid gives.
 * Given:    job, with the precision, size and counts of the one at create
 * Returned: job->value, overwritten; 0 for a visibility whose footprint leaves its subgrid
 * Returns:  0, MSI_EGPU
 */
int msi_stack_degrid(msi_stack *s, const msi_stack_job *job);

#ifdef __cplusplus
}
#endif
#endif
