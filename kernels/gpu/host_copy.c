/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/host_copy.h"

#include <pthread.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "core/memory.h"
#include "core/status.h"

enum { MOST_KEPT = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *kept[MOST_KEPT];
static int n_kept;

void msi_host_copy(const msi_host_piece *piece, int n)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < n; i++) memcpy(piece[i].to, piece[i].from, (size_t)piece[i].bytes);
}

static char *take_kept(void)
{
    pthread_mutex_lock(&lock);
    char *p = n_kept ? kept[--n_kept] : NULL;
    pthread_mutex_unlock(&lock);
    return p;
}

/* Tell whether memory is registered yet: a program that resets its device frees it. */
static int is_registered(const char *p)
{
    struct cudaPointerAttributes a;
    if (cudaPointerGetAttributes(&a, p) == cudaSuccess) return a.type == cudaMemoryTypeHost;
    cudaGetLastError();
    return 0;
}

int msi_host_slot_take(msi_host_slot *slot)
{
    slot->is_registered = 1;
    while ((slot->memory = take_kept()))
        if (is_registered(slot->memory)) return MSI_OK;
    if (cudaHostAlloc((void **)&slot->memory, MSI_HOST_SLOT_BYTES, cudaHostAllocPortable) == cudaSuccess) return MSI_OK;
    cudaGetLastError();
    slot->is_registered = 0;
    return msi_alloc(&slot->memory, MSI_HOST_SLOT_BYTES, 1, "GPU copies");
}

static int keep(char *p)
{
    pthread_mutex_lock(&lock);
    const int has_room = n_kept < MOST_KEPT;
    if (has_room) kept[n_kept++] = p;
    pthread_mutex_unlock(&lock);
    return has_room;
}

void msi_host_slot_give(msi_host_slot *slot)
{
    if (slot->memory && !slot->is_registered) msi_free(slot->memory);
    if (slot->memory && slot->is_registered && !keep(slot->memory) && cudaFreeHost(slot->memory) != cudaSuccess)
        cudaGetLastError();
    slot->memory = NULL;
}
