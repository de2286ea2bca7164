/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The moving window's host side lays out a form's launch, and finds a job's form in a table of them. */
#ifndef MSI_KERNELS_WPROJ_WINDOW_FORMS_CUH
#define MSI_KERNELS_WPROJ_WINDOW_FORMS_CUH

#include "kernels/gpu/cuda_memory.h"
#include "kernels/wproj/window/wproj_window_cuda.cuh"
#include "kernels/wproj/window/window_operands_cuda.h"

namespace {

/* Cut a window into the least number of tiles of at most `room` cells; find the threads of each, `blocks` blocks to a
 * thread. */
inline void cut_window(int cells, int coarsen, int blocks, int room, int *window, int *n_tile, int *threads)
{
    int n = (cells + coarsen - 1) / coarsen;
    *n_tile = (n * coarsen + room - 1) / room;
    *threads = (n + *n_tile * blocks - 1) / (*n_tile * blocks);
    *window = *threads * blocks * *n_tile * coarsen;
}

inline int log2_ceil(int n)
{
    int bits = 0;
    while (1 << bits < n) bits++;
    return bits;
}

/* Fill the arguments for n_pass times P images from first_image on. */
template <typename T, int P>
void fill_args(window_args<T> *a, const msi_wproj_job *job, int group, int first_image, int n_pass, int conjugate)
{
    *a = {};
    a->nu = (int32_t)job->nu;
    a->nv = (int32_t)job->nv;
    a->n_vis = job->n_vis;
    a->group = group;
    a->n_image = job->n_image;
    a->first_image = first_image;
    a->n_pass = n_pass;
    a->oversample = job->kernels.oversample;
    a->full = job->kernels.full;
    a->lookup = job->kernels.lookup;
    a->texture_u = job->kernels.texture_u;
    a->texture_v = job->kernels.texture_v;
    a->texture_middle = job->kernels.texture_middle;
    a->conjugate = conjugate;
    a->pairs = P == 1 ? job->n_image == 1 && job->nu % 2 == 0 : job->n_image % 2 == 0 && first_image % 2 == 0;
    a->sample = job->sample;
    a->value = (cplx<T> *)job->value;
    a->grid = (cplx<T> *)job->grid;
    a->taps = job->kernels.taps;
    a->offset_u = job->kernels.offset_u;
    a->offset_v = job->kernels.offset_v;
    a->table = (const cplx<T> *)job->kernels.table;
}

template <typename T> int64_t count_blocks(const window_args<T> &a)
{
    return (a.n_vis + a.group - 1) / a.group * a.n_tile_u * a.n_tile_v * a.n_pass;
}

/* Divide a tile's places among the threads that stage them. */
template <typename T> void divide_tile(window_args<T> *a, int cells_u, int cells_v, int threads)
{
    a->log2_tile_u = log2_ceil(cells_u);
    a->log2_tile_v = log2_ceil(cells_v);
    while (1 << a->log2_tile_u > threads) a->log2_tile_u--;
    while (1 << a->log2_tile_v > threads) a->log2_tile_v--;
}

/* Lay out window, tiles and threads of a form. */
template <class F> void divide_window(window_args<typename F::T> *a, int taps, int *threads)
{
    if constexpr (F::FULL) {
        /* No cell is padding; rows of a thread lie threads_v apart. */
        int window;
        cut_window(taps, 1, 1, F::THREADS < 64 ? F::THREADS : 64, &window, &a->n_tile_u, &a->threads_u);
        a->window_u = a->window_v = taps;
        int rows = (taps + F::CV - 1) / F::CV, most = F::THREADS / a->threads_u;
        a->n_tile_v = (rows + most - 1) / most;
        a->threads_v = (rows + a->n_tile_v - 1) / a->n_tile_v;
    } else {
        cut_window(taps + F::CU - 1, F::CU, 1, F::TU, &a->window_u, &a->n_tile_u, &a->threads_u);
        cut_window(taps + F::CV - 1, F::CV, F::B, F::TV, &a->window_v, &a->n_tile_v, &a->threads_v);
    }
    *threads = (a->threads_u * a->threads_v + 31) / 32 * 32;
    if constexpr (!F::FULL) divide_tile(a, a->threads_u * F::CU, a->threads_v * F::ROWS, *threads);
}

/* Clear the values where several tiles will add to them. */
template <typename T> int clear_values(const window_args<T> &a, int first_image, int n, cudaStream_t stream)
{
    if (a.n_tile_u * a.n_tile_v == 1) return MSI_OK;
    const size_t cell = sizeof *a.value, pitch = (size_t)a.n_image * cell;
    MSI_CUDA(cudaMemset2DAsync(a.value + first_image, pitch, 0, (size_t)n * cell, (size_t)a.n_vis, stream));
    return MSI_OK;
}

/* Find a form's kernel, of a direction, and the shared memory that it takes. */
template <class DIRECTION, class F> struct form_kernel {
    static constexpr size_t store_bytes()
    {
        if constexpr (F::FULL)
            return 0;
        else
            return sizeof(typename DIRECTION::template store<F>);
    }
    static auto kernel()
    {
        if constexpr (F::FULL)
            return DIRECTION::template full<F>();
        else
            return DIRECTION::template separable<F>();
    }
};

template <class DIRECTION, class F>
int launch_form(const msi_wproj_job *job, int group, int first_image, int n_pass, cudaStream_t stream)
{
    constexpr size_t STORE_BYTES = form_kernel<DIRECTION, F>::store_bytes();
    static_assert(STORE_BYTES <= LEAST_SHARED_BYTES, "too much for a block of some GPUs");
    const auto kernel = form_kernel<DIRECTION, F>::kernel();
    window_args<typename F::T> a;
    fill_args<typename F::T, F::P>(&a, job, group, first_image, n_pass, DIRECTION::DEGRID);
    int threads;
    divide_window<F>(&a, job->kernels.max_taps, &threads);
    if (DIRECTION::DEGRID) MSI_TRY(clear_values(a, first_image, n_pass * F::P, stream));
    MSI_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)STORE_BYTES));
    kernel<<<(unsigned)count_blocks(a), threads, STORE_BYTES, stream>>>(a);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

typedef int (*launch_fn)(const msi_wproj_job *job, int group, int first_image, int n_pass, cudaStream_t stream);

/* A row is one compiled form; both directions' tables list such. */
struct form_row {
    msi_precision precision;
    int full;
    msi_window_shape shape;
    launch_fn launch;
};

template <class DIRECTION, class F> constexpr form_row row_of()
{
    constexpr launch_fn launch = launch_form<DIRECTION, F>;
    constexpr msi_precision precision = sizeof(typename F::T) == 4 ? MSI_FP32 : MSI_FP64;
    if constexpr (F::FULL)
        return {precision, 1, {F::P, 1, F::CV, 1, F::THREADS, 0, MSI_WINDOW_THREADS, 0}, launch};
    else
        return {precision, 0, {F::P, F::CU, F::CV, F::B, F::TU, F::TV, MSI_WINDOW_THREADS, 0}, launch};
}

/* Tell whether tensor cores take a job: rows whose blocks do not wrap within themselves, and whole tiles of the
 * operands' window. */
inline bool tensor_takes(const msi_window_shape &s, const msi_wproj_job *job)
{
    const msi_window_operands *o = job->kernels.operands;
    return o && o->taps == job->kernels.max_taps && o->lookup == job->kernels.lookup && job->nu % s.coarsen_u == 0 &&
           job->n_image % s.images == 0 && o->window % s.tile_u == 0 && o->window % s.tile_v == 0;
}

/* Tell whether a form is for a job's precision, tables and operands. */
inline bool suits(const form_row &f, const msi_wproj_job *job)
{
    return f.precision == job->precision && f.full == job->kernels.full &&
           (f.shape.variant != MSI_WINDOW_TENSOR || tensor_takes(f.shape, job));
}

inline bool same_tile(const msi_window_shape &a, const msi_window_shape *b)
{
    return a.tile_u == b->tile_u && a.tile_v == b->tile_v && a.variant == b->variant;
}

inline bool same_shape(const msi_window_shape &a, const msi_window_shape *b)
{
    return a.images == b->images && a.coarsen_u == b->coarsen_u && a.coarsen_v == b->coarsen_v &&
           a.blocks_v == b->blocks_v && same_tile(a, b);
}

/*
 * Launch all images of a job: those that the shape's form takes at a time in one launch, the others one by one by a
 * form that takes one, of like tiles if there is any.
 */
inline int launch_forms(const form_row *form, int n_form, const msi_wproj_job *job, const msi_window_shape *shape,
                        cudaStream_t stream)
{
    const int64_t least = (int64_t)job->kernels.max_taps + 16;
    if (job->nu < least || job->nv < least || job->nu > INT32_MAX / 2 || job->nv > INT32_MAX / 2)
        return msi_error_set(MSI_ERANGE, "%d taps do not fit a window gridder's grid of %lld x %lld cells",
                             (int)job->kernels.max_taps, (long long)job->nu, (long long)job->nv);
    if (job->kernels.lookup != MSI_WPROJ_NEAREST &&
        (job->kernels.full || (job->kernels.lookup == MSI_WPROJ_TEXTURE && job->precision != MSI_FP32)))
        return msi_error_set(MSI_ERANGE,
                             "a window gridder interpolates separable kernels alone, by textures in fp32 alone");
    const form_row *first = nullptr, *single = nullptr;
    for (int i = 0; i < n_form; i++) {
        if (!suits(form[i], job)) continue;
        if (!first && same_shape(form[i].shape, shape)) first = &form[i];
        if (form[i].shape.images == 1 &&
            (!single || (!same_tile(single->shape, shape) && same_tile(form[i].shape, shape))))
            single = &form[i];
    }
    if (!first || !single || shape->n_vis <= 0)
        return msi_error_set(MSI_ERANGE, "the window strategy has no form of %d images in %d of %d x %d cells a thread",
                             (int)shape->images, (int)shape->blocks_v, (int)shape->coarsen_u, (int)shape->coarsen_v);
    if (job->n_vis == 0) return MSI_OK;
    int n_pass = job->n_image / shape->images, done = n_pass * shape->images;
    if (n_pass) MSI_TRY(first->launch(job, shape->n_vis, 0, n_pass, stream));
    if (done < job->n_image) MSI_TRY(single->launch(job, shape->n_vis, done, job->n_image - done, stream));
    return MSI_OK;
}

/* List the shapes of the forms that suit a job. */
inline int list_shapes(const form_row *form, int n_form, const msi_wproj_job *job, msi_window_shape *shape)
{
    int n = 0;
    for (int i = 0; i < n_form; i++)
        if (suits(form[i], job) && form[i].shape.images <= job->n_image) shape[n++] = form[i].shape;
    return n;
}

} // namespace

#endif
