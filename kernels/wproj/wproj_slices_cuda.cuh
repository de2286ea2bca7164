/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Slices of w in device memory, for strategies that process all images at once. The box of a slice has the cells of the
 * uv plane that the slice's footprints cover; the values of a cell for all images are neighbours in memory. To make
 * images, the box is folded onto the padded grid. To predict, it is filled from the padded grid.
 */
#ifndef MSI_WPROJ_SLICES_CUDA_CUH
#define MSI_WPROJ_SLICES_CUDA_CUH

#include <algorithm>
#include <vector>

#include "core/log.h"
#include "core/process.h"
#include "core/progress.h"
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/gpu_range.h"
#include "kernels/store/store_batches_cuda.cuh"
#include "kernels/transform/fft_plan_cuda.cuh"
#include "kernels/transform/screen_cuda.cuh"
#include "kernels/wproj/job/wproj_geometry.h"
#include "kernels/wproj/tile/wproj_tile_cuda.h"
#include "kernels/wproj/window/wproj_window_gridder_cuda.h"
#include "kernels/wproj/wproj_plan.h"

namespace {

/*
 * A box has the cells [v_low, v_low + nv) x [u_low, u_low + nu). Cell (u, v) of an image is element
 * ((v mod nv) nu + u mod nu) n_image + image. The kernels find cells by additions only, starting from the first cell
 * (u_low, v_low), because remainders would take longer than the memory accesses.
 */
struct box_view {
    int32_t nu, nv, n_image;
    int32_t first_u, first_v; /* the first cell's column and row in memory: u_low mod nu, v_low mod nv */
    int32_t grid_nu, grid_nv;
    int32_t grid_u, grid_v; /* its column and row of the padded grid: u_low mod grid_nu, v_low mod grid_nv */
};

/* Place a box with first cell (u_low, v_low) on a padded grid. */
inline box_view box_at(int64_t nu, int64_t nv, int n_image, int64_t u_low, int64_t v_low, int64_t grid_nu,
                       int64_t grid_nv)
{
    return {(int32_t)nu,
            (int32_t)nv,
            n_image,
            (int32_t)msi_wproj_wrap(u_low, nu),
            (int32_t)msi_wproj_wrap(v_low, nv),
            (int32_t)grid_nu,
            (int32_t)grid_nv,
            (int32_t)msi_wproj_wrap(u_low, grid_nu),
            (int32_t)msi_wproj_wrap(v_low, grid_nv)};
}

/* Set every cell of the padded grid to the sum of the cells of the box that are congruent to it, modulo the size of the
 * grid. One thread computes one cell of the grid. */
template <typename T> __global__ void k_fold_box(box_view b, const cplx<T> *box, int image, cplx<T> *grid)
{
    const int32_t u = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), v = (int32_t)blockIdx.y;
    if (u >= b.grid_nu) return;
    cplx<T> sum = {0, 0};
    for (int32_t dv = v < b.grid_v ? v - b.grid_v + b.grid_nv : v - b.grid_v; dv < b.nv; dv += b.grid_nv) {
        const int32_t row = b.first_v + dv < b.nv ? b.first_v + dv : b.first_v + dv - b.nv;
        for (int32_t du = u < b.grid_u ? u - b.grid_u + b.grid_nu : u - b.grid_u; du < b.nu; du += b.grid_nu) {
            const int32_t column = b.first_u + du < b.nu ? b.first_u + du : b.first_u + du - b.nu;
            const cplx<T> x = box[((int64_t)row * b.nu + column) * b.n_image + image];
            sum.re += x.re;
            sum.im += x.im;
        }
    }
    grid[(int64_t)v * b.grid_nu + u] = sum;
}

/* Copy cells of the padded grid to the congruent cells of the box; this is the transpose of k_fold_box. One thread
 * copies one cell of the box. */
template <typename T> __global__ void k_fill_box(box_view b, const cplx<T> *grid, int image, cplx<T> *box)
{
    const int32_t column = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x), row = (int32_t)blockIdx.y;
    if (column >= b.nu) return;
    int32_t u = b.grid_u + (column < b.first_u ? column - b.first_u + b.nu : column - b.first_u);
    int32_t v = b.grid_v + (row < b.first_v ? row - b.first_v + b.nv : row - b.first_v);
    while (u >= b.grid_nu) u -= b.grid_nu;
    while (v >= b.grid_nv) v -= b.grid_nv;
    box[((int64_t)row * b.nu + column) * b.n_image + image] = grid[(int64_t)v * b.grid_nu + u];
}

} // namespace

/* The class `slices` is the base of imaging and prediction by w-projection on a GPU. It has the batches of a store, the
 * extents of slices in the uv plane, the padded grid and its transform. An object uses one device and one stream. */

namespace {

constexpr int64_t LEAST_BATCH_BYTES = 64 << 20;

inline int64_t cell_bytes(const msi_wproj_plan *plan)
{
    return msi_complex_bytes(plan->precision);
}

inline int64_t whole_tiles(int64_t n_cell)
{
    return (n_cell + MSI_WPROJ_TILE - 1) / MSI_WPROJ_TILE * MSI_WPROJ_TILE;
}

/* Return the smallest length of a box along an axis, in cells. A moving window needs some cells in addition to the
 * widest kernel. */
inline int64_t smallest_box(const msi_wproj_plan *plan)
{
    return whole_tiles(2 * plan->half_max + 1 + 18);
}

/* Return the largest length of a box along an axis, in cells. Samples are at most half of the padded grid's n_grid
 * cells from the middle. */
inline int64_t largest_box(const msi_wproj_plan *plan, int64_t n_grid)
{
    return std::max(whole_tiles(n_grid + 2 * plan->half_max + 3), smallest_box(plan));
}

/* Return the bytes of the padded grid and of its transform, which takes twice as many. */
inline int64_t grid_bytes(const msi_wproj_plan *plan)
{
    return 3 * plan->grid.nu * plan->grid.nv * cell_bytes(plan);
}

inline int64_t box_bytes(const msi_wproj_plan *plan)
{
    return largest_box(plan, plan->grid.nu) * largest_box(plan, plan->grid.nv) * cell_bytes(plan);
}

/* Return the bytes of a stored sample: its coordinates, and for each plane a visibility and, if has_weight is 1, a
 * weight. */
inline int64_t stored_bytes(const msi_wproj_plan *plan, int n_plane, int has_weight)
{
    return n_plane * (has_weight * (int64_t)sizeof(float) + cell_bytes(plan)) + 3 * (int64_t)sizeof(double);
}

template <typename T> class slices : protected store_batches<T> {
  protected:
    slices(const msi_wproj_plan *plan_, int device_) : plan(plan_), device(device_), extent((size_t)plan_->grid.n_slice)
    {
    }

    using base = store_batches<T>;
    using base::batch_samples;
    using base::d_freq;
    using base::d_raw;
    using base::d_segments;
    using base::d_uvw;
    using base::d_weight;
    using base::now;
    using base::store;
    using base::times;
    const msi_wproj_plan *plan;
    const int device;
    msi_gpu_stream gpu = {};                  /* the stream of store_batches, after enter() */
    std::vector<msi_wproj_box_extent> extent; /* [n_slice] cells that the samples of each slice cover */
    int64_t box_nu = 0, box_nv = 0;           /* cells of a box that is large enough for every slice */
    buffer d_box, d_grid, d_along;
    fft_plan fft;

    /* enter - make the plan's device the current one, with a stream that the first call makes. Returns: 0, MSI_EGPU */
    int enter()
    {
        MSI_TRY(base::on.begin(device));
        gpu = {device, base::on.get()};
        return MSI_OK;
    }

    cudaStream_t stream() const
    {
        return (cudaStream_t)gpu.stream;
    }

    /* Limit batch_samples to the number of samples, of `each` bytes, that fit in `left` bytes. */
    void limit_batches(int64_t left, int64_t each)
    {
        const int64_t fit = std::min<int64_t>(std::max(left, LEAST_BATCH_BYTES) / each, INT32_MAX);
        batch_samples = batch_samples > 0 ? std::min(batch_samples, fit) : fit;
    }

    int make_grid()
    {
        MSI_TRY(d_grid.fit(plan->grid.nu * plan->grid.nv * cell_bytes(plan), "the grid"));
        return fft.make(plan->grid.nv, plan->grid.nu, sizeof(T) == sizeof(float) ? CUFFT_C2C : CUFFT_Z2Z, stream());
    }

    /* Describe the current batch. If planes is NULL, it has only coordinates, and those beyond the uv plane are
     * wrapped. */
    msi_wproj_samples samples(int n_image, const int *planes) const
    {
        msi_wproj_samples s = {};
        s.n = now.n_sample;
        s.n_rows = (int32_t)(now.end - now.first);
        s.rows = as<msi_store_rows>(d_segments);
        s.freq_hz = as<double>(d_freq);
        s.uvw_m = as<double>(d_uvw);
        s.n_image = n_image;
        s.wrapped = !planes;
        if (!planes) return s;
        s.weight = as<float>(d_weight);
        s.vis = as<void>(d_raw);
        std::copy(planes, planes + n_image, s.store_plane);
        return s;
    }

    /* Describe the current batch for the moving window. */
    msi_window_block block(int has_weight) const
    {
        msi_window_block b = {};
        b.plane_stride = now.n_sample;
        b.freq_hz = as<double>(d_freq);
        b.uvw_m = as<double>(d_uvw);
        b.weight = has_weight ? as<float>(d_weight) : nullptr;
        b.vis = as<void>(d_raw);
        b.n_rows = (int32_t)(now.end - now.first);
        b.rows = as<msi_store_rows>(d_segments);
        return b;
    }

    void forget_extents()
    {
        std::fill(extent.begin(), extent.end(), msi_wproj_empty_extent());
    }

    /* Enlarge the extents by the current batch. */
    int add_extents(const msi_wproj_samples &batch)
    {
        const double start = msi_wall_s();
        MSI_TRY(msi_wproj_extents(&gpu, &plan->grid, plan->half, &batch, extent.data()));
        times->sort_s += msi_wall_s() - start;
        return msi_interrupt_check();
    }

    /* Compute box_nu and box_nv from the extents; they are 0 if there are no samples. Set *most to the largest number
     * of samples in a slice. Extents get one more cell on each side, because code that computes the place of a sample
     * again may round it to the neighbouring cell. */
    void lay_box(int64_t *most)
    {
        box_nu = box_nv = *most = 0;
        for (msi_wproj_box_extent &e : extent) {
            if (e.n == 0) continue;
            e = {e.u_low - 1, e.v_low - 1, e.u_high + 1, e.v_high + 1, e.n};
            box_nu = std::max({box_nu, whole_tiles((int64_t)e.u_high - e.u_low + 1), smallest_box(plan)});
            box_nv = std::max({box_nv, whole_tiles((int64_t)e.v_high - e.v_low + 1), smallest_box(plan)});
            *most = std::max(*most, e.n);
        }
    }

    screen_geometry screen(double w_lambda) const
    {
        const msi_image_geometry &i = plan->image;
        return {i.nx, i.ny, plan->grid.nu, plan->grid.nv, i.cell_x_rad, i.cell_y_rad, w_lambda, 0, 0, w_lambda != 0};
    }

    int upload_factors(int axis, double *to, int64_t n)
    {
        double *factor;
        MSI_TRY(msi_wproj_factors(plan, axis, &factor));
        cudaError_t e = cudaMemcpyAsync(to, factor, (size_t)n * sizeof *factor, cudaMemcpyHostToDevice, stream());
        if (e == cudaSuccess) e = cudaStreamSynchronize(stream());
        msi_free(factor);
        MSI_CUDA(e);
        return MSI_OK;
    }

    int upload_taper(msi_taper *taper)
    {
        const int64_t nx = plan->image.nx, ny = plan->image.ny;
        *taper = {};
        MSI_TRY(d_along.fit((nx + ny) * (int64_t)sizeof(double), "taper correction"));
        taper->along_x = as<double>(d_along);
        taper->along_y = taper->along_x + nx;
        MSI_TRY(upload_factors(0, taper->along_x, nx));
        return upload_factors(1, taper->along_y, ny);
    }
};

} // namespace

#endif
