/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Masks on the GPU, a thread a pixel. Regions are trees: every pixel's label is a pixel before it in its region, or
 * itself at the root. Neighbours join their trees by hanging the later root under the earlier one, atomically; whoever
 * finds that root taken goes on from where it hangs now. After that labels are made roots, and roots count pixels.
 */
#include "kernels/clean/clean_engine_cuda.h"

namespace {

constexpr int BLOCK = 256;

template <typename T> __global__ void k_threshold(const T *image, int64_t n, double value, int below, uint8_t *mask)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double v = (double)image[i];
    mask[i] = isfinite(v) && (below ? v < value : v > value);
}

template <typename T> __global__ void k_mask_to_image(const uint8_t *mask, int64_t n, T *image)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) image[i] = mask[i] ? T(1) : T(0);
}

__global__ void k_unite(const uint8_t *other, int64_t n, uint8_t *mask)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && other[i]) mask[i] = 1;
}

__global__ void k_intersect(const uint8_t *other, int64_t n, uint8_t *mask)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !other[i]) mask[i] = 0;
}

__global__ void k_grow(const uint8_t *from, const uint8_t *within, int64_t nx, int64_t n, uint8_t *to)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, x = i % nx;
    if (i >= n) return;
    bool in = from[i];
    if (!in && within[i])
        in = (x > 0 && from[i - 1]) || (x + 1 < nx && from[i + 1]) || (i >= nx && from[i - nx]) ||
             (i + nx < n && from[i + nx]);
    to[i] = in;
}

__device__ __forceinline__ uint32_t find_root(const uint32_t *label, uint32_t i)
{
    for (uint32_t up; (up = *(const volatile uint32_t *)&label[i]) != i;) i = up;
    return i;
}

__device__ void join(uint32_t *label, uint32_t a, uint32_t b)
{
    while (true) {
        a = find_root(label, a);
        b = find_root(label, b);
        if (a == b) return;
        const uint32_t late = max(a, b), early = min(a, b), was = atomicMin(&label[late], early);
        if (was == late) return;
        a = was;
        b = early;
    }
}

__global__ void k_label(int64_t n, uint32_t *label, uint32_t *count)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    label[i] = (uint32_t)i;
    count[i] = 0;
}

__global__ void k_join(const uint8_t *mask, int64_t nx, int64_t n, uint32_t *label)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || !mask[i]) return;
    if (i % nx > 0 && mask[i - 1]) join(label, (uint32_t)i, (uint32_t)(i - 1));
    if (i >= nx && mask[i - nx]) join(label, (uint32_t)i, (uint32_t)(i - nx));
}

__global__ void k_count(const uint8_t *mask, int64_t n, const uint32_t *label, uint32_t *count)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && mask[i]) atomicAdd(&count[find_root(label, (uint32_t)i)], 1u);
}

__global__ void k_prune(uint8_t *mask, int64_t n, const uint32_t *label, const uint32_t *count, int64_t least)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && mask[i] && count[find_root(label, (uint32_t)i)] < least) mask[i] = 0;
}

int prune(msi_clean_engine *e, int64_t least, uint32_t *label, uint32_t *count, uint8_t *mask)
{
    const int64_t n = e->n_pixel;
    const unsigned n_block = clean_blocks(n, BLOCK);
    k_label<<<n_block, BLOCK, 0, clean_stream(e)>>>(n, label, count);
    MSI_CUDA(cudaGetLastError());
    k_join<<<n_block, BLOCK, 0, clean_stream(e)>>>(mask, e->s.nx, n, label);
    MSI_CUDA(cudaGetLastError());
    k_count<<<n_block, BLOCK, 0, clean_stream(e)>>>(mask, n, label, count);
    MSI_CUDA(cudaGetLastError());
    k_prune<<<n_block, BLOCK, 0, clean_stream(e)>>>(mask, n, label, count, least);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int grow(msi_clean_engine *e, const uint8_t *within, int64_t times, uint8_t *mask, uint8_t *work)
{
    const int64_t n = e->n_pixel;
    for (int64_t k = 0; k < times; k++) {
        k_grow<<<clean_blocks(n, BLOCK), BLOCK, 0, clean_stream(e)>>>(k % 2 ? work : mask, within, e->s.nx, n,
                                                                      k % 2 ? mask : work);
        MSI_CUDA(cudaGetLastError());
    }
    if (times % 2) MSI_CUDA(cudaMemcpyAsync(mask, work, (size_t)n, cudaMemcpyDeviceToDevice, clean_stream(e)));
    return MSI_OK;
}

} // namespace

int msi_clean_threshold_cuda(msi_clean_engine *e, const void *image, double value, int below, uint8_t *mask)
{
    const unsigned n_block = clean_blocks(e->n_pixel, BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        k_threshold<<<n_block, BLOCK, 0, clean_stream(e)>>>((const float *)image, e->n_pixel, value, below, mask);
    else
        k_threshold<<<n_block, BLOCK, 0, clean_stream(e)>>>((const double *)image, e->n_pixel, value, below, mask);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_clean_prune_cuda(msi_clean_engine *e, int64_t least, uint8_t *mask)
{
    void *label = nullptr, *count = nullptr;
    if (least <= 1) return MSI_OK;
    int rc = msi_clean_engine_cuda.alloc(e, &label, e->n_pixel * 4, "regions of a mask");
    if (!rc) rc = msi_clean_engine_cuda.alloc(e, &count, e->n_pixel * 4, "regions of a mask");
    if (!rc) rc = prune(e, least, (uint32_t *)label, (uint32_t *)count, mask);
    msi_clean_engine_cuda.release(e, label);
    msi_clean_engine_cuda.release(e, count);
    return rc;
}

int msi_clean_grow_cuda(msi_clean_engine *e, const uint8_t *within, int64_t n, uint8_t *mask)
{
    void *work = nullptr;
    int rc = msi_clean_engine_cuda.alloc(e, &work, e->n_pixel, "regions of a mask");
    if (!rc) rc = grow(e, within, n, mask, (uint8_t *)work);
    msi_clean_engine_cuda.release(e, work);
    return rc;
}

int msi_clean_unite_cuda(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    k_unite<<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(other, e->n_pixel, mask);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_clean_intersect_cuda(msi_clean_engine *e, const uint8_t *other, uint8_t *mask)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    k_intersect<<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(other, e->n_pixel, mask);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int msi_clean_mask_to_image_cuda(msi_clean_engine *e, const uint8_t *mask, void *image)
{
    const unsigned n_block = clean_blocks(e->n_pixel, BLOCK);
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    if (e->s.precision == MSI_FP32)
        k_mask_to_image<<<n_block, BLOCK, 0, clean_stream(e)>>>(mask, e->n_pixel, (float *)image);
    else
        k_mask_to_image<<<n_block, BLOCK, 0, clean_stream(e)>>>(mask, e->n_pixel, (double *)image);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}
