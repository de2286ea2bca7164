/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_limit.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"

/* Libraries and buffers of blocks take this beside what grows with the sets; and what grows, some 100 bytes a row of at
 * least 24 bytes, with room to spare. */
static const int64_t LEAST_BYTES = (int64_t)512 << 20, TIMES_SIZE = 32;

/* Limits of this process are kept to tell afterwards whether a failure is the set's or the machine's. */
static struct {
    struct rlimit before;
    int64_t by_user, mapped;
    int is_by_size;
} limits;

/* Files that are mapped take address space, and no memory. */
static int limit_to(int64_t bytes)
{
    msi_memory_limit_set(bytes < INT64_MAX / 2 ? msi_memory_in_use() + bytes : bytes);
    return msi_child_limit_memory(bytes < INT64_MAX - limits.mapped ? bytes + limits.mapped : bytes);
}

void msi_ms_limit_memory(const char *const *paths, int n_path)
{
    const int64_t bytes = msi_ms_paths_bytes(paths, n_path), allowed = msi_memory_limit();
    const int64_t by_size =
        bytes < (INT64_MAX - LEAST_BYTES) / TIMES_SIZE ? LEAST_BYTES + TIMES_SIZE * bytes : INT64_MAX;
    limits.by_user = allowed > LEAST_BYTES ? allowed : LEAST_BYTES;
    limits.mapped = 0;
    for (int i = 0; i < n_path; i++)
        if (msi_msv_is_file(paths[i])) limits.mapped += msi_ms_paths_bytes(&paths[i], 1);
    if (getrlimit(RLIMIT_AS, &limits.before) != 0) return;
    limits.is_by_size = limit_to(by_size < limits.by_user ? by_size : limits.by_user) && by_size <= limits.by_user;
}

void msi_ms_limit_lift(void)
{
    if (!limits.is_by_size) return;
    limits.is_by_size = 0;
    setrlimit(RLIMIT_AS, &limits.before);
    limit_to(limits.by_user);
}

/* Ask whether ordinary requests for memory are still met. */
static int has_memory(void)
{
    enum { BYTES = 1 << 20 };
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) munmap(p, BYTES);
    return p != MAP_FAILED;
}

int msi_ms_limit_explain(int status, const char *path)
{
    if (status != MSI_ENOMEM || !limits.is_by_size || !has_memory()) return status;
    return msi_error_set(
        MSI_EINPUT, "%s: truncated or corrupt: reading it asks for more memory than a set of its size can need", path);
}
