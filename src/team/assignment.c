/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/team/assignment.h"

#include "core/memory.h"
#include "core/status.h"

static int largest_left(const int64_t *bytes, int n, const int *rank)
{
    int largest = -1;
    for (int i = 0; i < n; i++)
        if (rank[i] < 0 && (largest < 0 || bytes[i] > bytes[largest])) largest = i;
    return largest;
}

int msi_assign_sets(const int64_t *bytes, int n, int n_rank, int *rank)
{
    int64_t *has;
    MSI_TRY(msi_alloc(&has, n_rank, sizeof *has, "ranks"));
    for (int i = 0; i < n; i++) rank[i] = -1;
    for (int n_assigned = 0; n_assigned < n; n_assigned++) {
        const int i = largest_left(bytes, n, rank);
        int least = 0;
        for (int k = 1; k < n_rank; k++)
            if (has[k] < has[least]) least = k;
        rank[i] = least;
        /* A set whose size cannot be told is still work. */
        has[least] += bytes[i] > 0 ? bytes[i] : 1;
    }
    msi_free(has);
    return MSI_OK;
}

int msi_assign_devices(const int *device, int n, const msi_team *t, int *own)
{
    int n_own = 0;
    for (int i = t->gpu_rank % n; i < n; i += t->gpu_size) own[n_own++] = device[i];
    return n_own;
}
