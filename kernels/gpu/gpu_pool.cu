/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/gpu_pool.h"

#include <stdint.h>

#include <mutex>

#include "kernels/gpu/gpu_device.h"

namespace {

/* The pool of one device; `pool` is NULL while there is none, and stays so where the device knows no pools. */
struct device_pool {
    std::mutex lock;
    cudaMemPool_t pool = nullptr;
    size_t total_bytes = 0; /* of the device */
    bool is_known = false;
    bool is_open_to[MSI_GPU_MAX_DEVICES] = {};
};

device_pool pools[MSI_GPU_MAX_DEVICES];

/* Take a failure out of CUDA's own record, where a later check of a launch would find it. */
cudaError_t told(cudaError_t e)
{
    if (e != cudaSuccess) cudaGetLastError();
    return e;
}

cudaError_t make_pool(cudaMemPool_t *out, size_t *total_bytes, int device)
{
    int has_pools = 0;
    size_t free_bytes;
    cudaMemPoolProps props = {};
    *out = nullptr;
    cudaError_t e = cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, device);
    if (e != cudaSuccess || !has_pools) return e;
    e = cudaMemGetInfo(&free_bytes, total_bytes);
    if (e != cudaSuccess) return e;
    props.allocType = cudaMemAllocationTypePinned;
    props.location = {cudaMemLocationTypeDevice, device};
    e = cudaMemPoolCreate(out, &props);
    if (e != cudaSuccess) return e;
    uint64_t kept = *total_bytes / 2;
    e = cudaMemPoolSetAttribute(*out, cudaMemPoolAttrReleaseThreshold, &kept);
    if (e == cudaSuccess) return e;
    cudaMemPoolDestroy(*out);
    *out = nullptr;
    return e;
}

/* Find the pool of the current device, which is made when it is first asked for. */
cudaError_t find_pool(cudaMemPool_t *out)
{
    int device;
    *out = nullptr;
    const cudaError_t e = cudaGetDevice(&device);
    if (e != cudaSuccess || device >= MSI_GPU_MAX_DEVICES) return e;
    device_pool &p = pools[device];
    const std::lock_guard<std::mutex> guard(p.lock);
    if (!p.is_known) {
        const cudaError_t made = make_pool(&p.pool, &p.total_bytes, device);
        if (made != cudaSuccess) return made;
    }
    p.is_known = true;
    *out = p.pool;
    return cudaSuccess;
}

/* Memory is there for all streams once the stream that it is got on, which does nothing else, has been waited for. */
cudaError_t get(void **out, size_t bytes, cudaMemPool_t pool)
{
    const cudaError_t e = cudaMallocFromPoolAsync(out, bytes, pool, nullptr);
    if (e != cudaSuccess) return e;
    const cudaError_t waited = cudaStreamSynchronize(nullptr);
    if (waited != cudaSuccess) cudaFreeAsync(*out, nullptr);
    return waited;
}

/* Count the bytes that a pool keeps and nobody has; 0 after a failure. Returned: *used  what somebody has */
uint64_t idle_of(cudaMemPool_t pool, uint64_t *used)
{
    uint64_t kept = 0;
    *used = 0;
    if (told(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &kept)) != cudaSuccess) return 0;
    if (told(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, used)) != cudaSuccess) return 0;
    return kept > *used ? kept - *used : 0;
}

/* Give back what a device's pool keeps beyond the bytes that kept_of tells of all the device has. */
template <typename F> void shrink(int device, F kept_of)
{
    int before;
    uint64_t used;
    device_pool &p = pools[device];
    const std::lock_guard<std::mutex> guard(p.lock);
    const size_t kept = kept_of(p.total_bytes);
    if (!p.pool || idle_of(p.pool, &used) <= kept) return;
    if (told(cudaGetDevice(&before)) != cudaSuccess || told(cudaSetDevice(device)) != cudaSuccess) return;
    /* What has been given back is nobody's once its stream has been waited for. */
    told(cudaDeviceSynchronize());
    told(cudaMemPoolTrimTo(p.pool, used + kept));
    told(cudaSetDevice(before));
}

} // namespace

cudaError_t msi_gpu_pool_alloc(void **out, size_t bytes)
{
    cudaMemPool_t pool;
    cudaError_t e = told(find_pool(&pool));
    if (e == cudaSuccess) e = told(pool ? get(out, bytes, pool) : cudaMalloc(out, bytes));
    if (e == cudaErrorMemoryAllocation && pool) {
        /* What is kept may lie in pieces. */
        msi_gpu_pool_trim();
        e = told(get(out, bytes, pool));
    }
    if (e != cudaSuccess) *out = nullptr;
    return e;
}

void msi_gpu_pool_free(void *p)
{
    int before = 0;
    cudaPointerAttributes of;
    if (!p) return;
    /* Memory goes back on its own device's stream, whichever device the caller is on. */
    const bool is_elsewhere = told(cudaGetDevice(&before)) == cudaSuccess &&
                              told(cudaPointerGetAttributes(&of, p)) == cudaSuccess && of.device != before &&
                              told(cudaSetDevice(of.device)) == cudaSuccess;
    /* Memory of a pool is free at once, whatever still works on it. */
    told(cudaDeviceSynchronize());
    told(cudaFreeAsync(p, nullptr));
    if (is_elsewhere) told(cudaSetDevice(before));
}

cudaError_t msi_gpu_pool_open(int owner, int device)
{
    int before;
    cudaMemPool_t pool;
    if (owner >= MSI_GPU_MAX_DEVICES || device >= MSI_GPU_MAX_DEVICES) return cudaErrorInvalidDevice;
    cudaError_t e = told(cudaGetDevice(&before));
    if (e == cudaSuccess) e = told(cudaSetDevice(owner));
    if (e != cudaSuccess) return e;
    e = told(find_pool(&pool));
    told(cudaSetDevice(before));
    if (e != cudaSuccess || !pool) return e;
    const std::lock_guard<std::mutex> guard(pools[owner].lock);
    if (pools[owner].is_open_to[device]) return e;
    cudaMemAccessDesc access = {};
    access.location = {cudaMemLocationTypeDevice, device};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    e = told(cudaMemPoolSetAccess(pool, &access, 1));
    pools[owner].is_open_to[device] = e == cudaSuccess;
    return e;
}

size_t msi_gpu_pool_idle(int device)
{
    if (device < 0 || device >= MSI_GPU_MAX_DEVICES) return 0;
    device_pool &p = pools[device];
    const std::lock_guard<std::mutex> guard(p.lock);
    uint64_t used;
    return p.pool ? (size_t)idle_of(p.pool, &used) : 0;
}

void msi_gpu_pool_trim(void)
{
    int device;
    if (told(cudaGetDevice(&device)) != cudaSuccess || device >= MSI_GPU_MAX_DEVICES) return;
    device_pool &p = pools[device];
    const std::lock_guard<std::mutex> guard(p.lock);
    if (!p.pool) return;
    /* What has been given back is nobody's once its stream has been waited for. */
    told(cudaDeviceSynchronize());
    told(cudaMemPoolTrimTo(p.pool, 0));
}

void msi_gpu_pool_shrink(size_t kept)
{
    for (int device = 0; device < MSI_GPU_MAX_DEVICES; device++) shrink(device, [=](size_t) { return kept; });
}

void msi_gpu_pool_shrink_to_part(int divisor)
{
    for (int device = 0; device < MSI_GPU_MAX_DEVICES; device++)
        shrink(device, [=](size_t total_bytes) { return total_bytes / (size_t)divisor; });
}
