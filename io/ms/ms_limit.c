/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_limit.h"

#include <stdint.h>
#include <sys/mman.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_paths.h"

/* What libraries and buffers of blocks take beside what grows with the sets; and what grows, some 100 bytes a row of at
 * least 24 bytes, with room to spare. */
static const int64_t LEAST_BYTES = (int64_t)512 << 20, TIMES_SIZE = 32;

int msi_ms_limit_memory(const char *const *paths, int n_path)
{
    const int64_t bytes = msi_ms_paths_bytes(paths, n_path), allowed = msi_memory_limit();
    const int64_t by_size =
        bytes < (INT64_MAX - LEAST_BYTES) / TIMES_SIZE ? LEAST_BYTES + TIMES_SIZE * bytes : INT64_MAX;
    const int64_t by_user = allowed > LEAST_BYTES ? allowed : LEAST_BYTES;
    const int64_t most = by_size < by_user ? by_size : by_user;
    msi_memory_limit_set(most < INT64_MAX / 2 ? msi_memory_in_use() + most : most);
    return msi_child_limit_memory(most) && by_size <= by_user;
}

/* Asks whether ordinary requests for memory are still met. */
static int has_memory(void)
{
    enum { BYTES = 1 << 20 };
    void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) munmap(p, BYTES);
    return p != MAP_FAILED;
}

int msi_ms_limit_explain(int status, int is_by_size, const char *path)
{
    if (status != MSI_ENOMEM || !is_by_size || !has_memory()) return status;
    return msi_error_set(
        MSI_EINPUT, "%s: truncated or corrupt: reading it asks for more memory than a set of its size can need", path);
}
