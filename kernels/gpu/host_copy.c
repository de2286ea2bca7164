/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/host_copy.h"

#include <pthread.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cuda_runtime_api.h>

#include "core/memory.h"
#include "core/status.h"

enum { MOST_KEPT = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *kept[MOST_KEPT];
static int n_kept;

#ifdef __SSE2__
/* Copy with stores that bypass the caches. */
static void copy_uncached(char *to, const char *from, int64_t bytes)
{
    int64_t i = (int64_t)(-(uintptr_t)to % sizeof(__m128i));
    if (i > bytes) i = bytes;
    memcpy(to, from, (size_t)i);
    for (; bytes - i >= 64; i += 64)
        for (int k = 0; k < 4; k++)
            _mm_stream_si128((__m128i *)(to + i) + k, _mm_loadu_si128((const __m128i *)(from + i) + k));
    memcpy(to + i, from + i, (size_t)(bytes - i));
    _mm_sfence();
}
#else
static void copy_uncached(char *to, const char *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}
#endif

void msi_host_copy(const msi_host_piece *piece, int n, int for_bus)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < n; i++) {
        if (for_bus)
            copy_uncached(piece[i].to, piece[i].from, piece[i].bytes);
        else
            memcpy(piece[i].to, piece[i].from, (size_t)piece[i].bytes);
    }
}

static char *pop_kept_slot(void)
{
    pthread_mutex_lock(&lock);
    char *p = n_kept ? kept[--n_kept] : NULL;
    pthread_mutex_unlock(&lock);
    return p;
}

/* Check that memory is still registered: a program that resets its device unregisters it. */
static int is_registered(const char *p)
{
    struct cudaPointerAttributes a;
    if (cudaPointerGetAttributes(&a, p) == cudaSuccess) return a.type == cudaMemoryTypeHost;
    cudaGetLastError();
    return 0;
}

int msi_host_slot_acquire(msi_host_slot *slot)
{
    slot->is_registered = 1;
    while ((slot->memory = pop_kept_slot()))
        if (is_registered(slot->memory)) return MSI_OK;
    if (cudaHostAlloc((void **)&slot->memory, MSI_HOST_SLOT_BYTES, cudaHostAllocPortable) == cudaSuccess) return MSI_OK;
    cudaGetLastError();
    slot->is_registered = 0;
    return msi_alloc(&slot->memory, MSI_HOST_SLOT_BYTES, 1, "GPU copies");
}

static int keep_slot(char *p)
{
    pthread_mutex_lock(&lock);
    const int is_kept = n_kept < MOST_KEPT;
    if (is_kept) kept[n_kept++] = p;
    pthread_mutex_unlock(&lock);
    return is_kept;
}

void msi_host_slot_release(msi_host_slot *slot)
{
    if (slot->memory && !slot->is_registered) msi_free(slot->memory);
    if (slot->memory && slot->is_registered && !keep_slot(slot->memory) && cudaFreeHost(slot->memory) != cudaSuccess)
        cudaGetLastError();
    slot->memory = NULL;
}
