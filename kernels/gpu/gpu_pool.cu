/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/gpu_pool.h"

#include <stdint.h>

#include <mutex>

#include "kernels/gpu/gpu_device.h"

namespace {

/* The memory pool of one device. `pool` is NULL before the first use, and on devices that do not support pools. */
struct device_pool {
    std::mutex lock;
    cudaMemPool_t pool = nullptr;
    size_t total_bytes = 0; /* memory of the device */
    bool is_known = false;
    bool is_open_to[MSI_GPU_MAX_DEVICES] = {};
};

device_pool pools[MSI_GPU_MAX_DEVICES];

/* Clear CUDA's last error, so that the check of a later launch does not see it. Returns: e */
cudaError_t clear_error(cudaError_t e)
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

/* Find the pool of the current device, and create it at the first call. */
cudaError_t current_pool(cudaMemPool_t *out)
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

/* Allocate on the null stream and wait for it: after that any stream may use the memory. The null stream has no other
 * work. */
cudaError_t allocate_from_pool(void **out, size_t bytes, cudaMemPool_t pool)
{
    const cudaError_t e = cudaMallocFromPoolAsync(out, bytes, pool, nullptr);
    if (e != cudaSuccess) return e;
    const cudaError_t waited = cudaStreamSynchronize(nullptr);
    if (waited != cudaSuccess) cudaFreeAsync(*out, nullptr);
    return waited;
}

/* Count the bytes that a pool keeps and that are not in use; 0 after a failure. Returned: *used bytes in use */
uint64_t idle_of(cudaMemPool_t pool, uint64_t *used)
{
    uint64_t kept = 0;
    *used = 0;
    if (clear_error(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &kept)) != cudaSuccess) return 0;
    if (clear_error(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, used)) != cudaSuccess) return 0;
    return kept > *used ? kept - *used : 0;
}

/* Free the idle memory of a device's pool beyond kept_of(total bytes of the device). */
template <typename F> void shrink_pool(int device, F kept_of)
{
    int before;
    uint64_t used;
    device_pool &p = pools[device];
    const std::lock_guard<std::mutex> guard(p.lock);
    const size_t kept = kept_of(p.total_bytes);
    if (!p.pool || idle_of(p.pool, &used) <= kept) return;
    if (clear_error(cudaGetDevice(&before)) != cudaSuccess || clear_error(cudaSetDevice(device)) != cudaSuccess) return;
    /* Memory can be trimmed only when the frees on its stream are complete. */
    clear_error(cudaDeviceSynchronize());
    clear_error(cudaMemPoolTrimTo(p.pool, used + kept));
    clear_error(cudaSetDevice(before));
}

} // namespace

cudaError_t msi_gpu_pool_alloc(void **out, size_t bytes)
{
    cudaMemPool_t pool;
    cudaError_t e = clear_error(current_pool(&pool));
    if (e == cudaSuccess) e = clear_error(pool ? allocate_from_pool(out, bytes, pool) : cudaMalloc(out, bytes));
    if (e == cudaErrorMemoryAllocation && pool) {
        /* The idle memory may be fragmented. */
        msi_gpu_pool_trim();
        e = clear_error(allocate_from_pool(out, bytes, pool));
    }
    if (e != cudaSuccess) *out = nullptr;
    return e;
}

void msi_gpu_pool_free(void *p)
{
    int before = 0;
    cudaPointerAttributes of;
    if (!p) return;
    /* Memory is freed on its own device's null stream, whatever the current device is. */
    const bool is_elsewhere = clear_error(cudaGetDevice(&before)) == cudaSuccess &&
                              clear_error(cudaPointerGetAttributes(&of, p)) == cudaSuccess && of.device != before &&
                              clear_error(cudaSetDevice(of.device)) == cudaSuccess;
    /* The pool may hand out freed memory at once, so all work on it must be done. */
    clear_error(cudaDeviceSynchronize());
    clear_error(cudaFreeAsync(p, nullptr));
    if (is_elsewhere) clear_error(cudaSetDevice(before));
}

cudaError_t msi_gpu_pool_open(int owner, int device)
{
    int before;
    cudaMemPool_t pool;
    if (owner >= MSI_GPU_MAX_DEVICES || device >= MSI_GPU_MAX_DEVICES) return cudaErrorInvalidDevice;
    cudaError_t e = clear_error(cudaGetDevice(&before));
    if (e == cudaSuccess) e = clear_error(cudaSetDevice(owner));
    if (e != cudaSuccess) return e;
    e = clear_error(current_pool(&pool));
    clear_error(cudaSetDevice(before));
    if (e != cudaSuccess || !pool) return e;
    const std::lock_guard<std::mutex> guard(pools[owner].lock);
    if (pools[owner].is_open_to[device]) return e;
    cudaMemAccessDesc access = {};
    access.location = {cudaMemLocationTypeDevice, device};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    e = clear_error(cudaMemPoolSetAccess(pool, &access, 1));
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
    if (clear_error(cudaGetDevice(&device)) != cudaSuccess || device >= MSI_GPU_MAX_DEVICES) return;
    device_pool &p = pools[device];
    const std::lock_guard<std::mutex> guard(p.lock);
    if (!p.pool) return;
    /* Memory can be trimmed only when the frees on its stream are complete. */
    clear_error(cudaDeviceSynchronize());
    clear_error(cudaMemPoolTrimTo(p.pool, 0));
}

void msi_gpu_pool_shrink(size_t kept)
{
    for (int device = 0; device < MSI_GPU_MAX_DEVICES; device++) shrink_pool(device, [=](size_t) { return kept; });
}

void msi_gpu_pool_shrink_to_part(int divisor)
{
    for (int device = 0; device < MSI_GPU_MAX_DEVICES; device++)
        shrink_pool(device, [=](size_t total_bytes) { return total_bytes / (size_t)divisor; });
}
