/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_limit.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"

/* Libraries and buffers of blocks take this beside what grows with the sets; and what grows, some 100 bytes a row of at
 * least 24 bytes, with room to spare. */
static const int64_t LEAST_BYTES = (int64_t)512 << 20, TIMES_SIZE = 32;

/* casacore starts a thread for each processor and each column that DyscoStMan compresses, of which a set has a few. */
static const int64_t STACK_BYTES = (int64_t)512 << 10, GUARD_BYTES = (int64_t)64 << 10;
enum { COMPRESSED_COLUMNS = 8, MOST_DESCRIPTION = 4 << 20 };

/* Limits of this process are kept to tell afterwards whether a failure is the set's or the machine's. */
static struct {
    struct rlimit before;
    int64_t by_user, beside, all_stacks; /* all_stacks: as if each set had COMPRESSED_COLUMNS; 0: lifted, or no limit */
    int is_by_size;
} limits;

/* Files that are mapped, and stacks, take address space beside the limit, and no memory. */
static int limit_space(int64_t bytes)
{
    return msi_child_limit_memory(bytes < INT64_MAX - limits.beside ? bytes + limits.beside : bytes);
}

static int limit_to(int64_t bytes)
{
    msi_memory_limit_set(bytes < INT64_MAX / 2 ? msi_memory_in_use() + bytes : bytes);
    return limit_space(bytes);
}

/* Have threads take little address space: by default each has a stack of 8 MB and an arena of malloc's of 64 MB, which
 * on a machine of a dozen processors are more than the limit of a small set. Returns: what the stacks of a compressed
 * column's threads take */
static int64_t make_threads_small(void)
{
    pthread_attr_t attributes;
    mallopt(M_ARENA_MAX, 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)STACK_BYTES);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    return sysconf(_SC_NPROCESSORS_ONLN) * (STACK_BYTES + GUARD_BYTES);
}

/* Count the columns that a table's description says are compressed, COMPRESSED_COLUMNS at most: of a multi-MS with
 * hundreds of members stacks that nobody asks for would be the larger part of the limit. A name may stand there more
 * than once for a column; a description too long to look through counts as if all were compressed. */
static int compressed_columns(const char *path)
{
    static const char manager[] = "DyscoStMan";
    struct stat info;
    char *name, *text = NULL;
    int n = 0;
    if (asprintf(&name, "%s/table.dat", path) < 0) return COMPRESSED_COLUMNS;
    const int fd = stat(name, &info) == 0 && S_ISREG(info.st_mode) ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(name);
    if (fd < 0) return 0;
    const ssize_t length = info.st_size <= MOST_DESCRIPTION && (text = malloc((size_t)info.st_size + 1))
                               ? pread(fd, text, (size_t)info.st_size, 0)
                               : -1;
    close(fd);
    const char *end = length > 0 ? text + length : text;
    for (const char *at = text; length > 0 && n < COMPRESSED_COLUMNS; n++, at += sizeof manager - 1)
        if (!(at = memmem(at, (size_t)(end - at), manager, sizeof manager - 1))) break;
    free(text);
    return length < 0 ? COMPRESSED_COLUMNS : n;
}

void msi_ms_limit_memory(const char *const *paths, int n_path)
{
    const int64_t bytes = msi_ms_paths_bytes(paths, n_path), allowed = msi_memory_limit();
    const int64_t by_size =
        bytes < (INT64_MAX - LEAST_BYTES) / TIMES_SIZE ? LEAST_BYTES + TIMES_SIZE * bytes : INT64_MAX;
    const int64_t stacks = make_threads_small();
    limits.by_user = allowed > LEAST_BYTES ? allowed : LEAST_BYTES;
    limits.beside = 0;
    for (int i = 0; i < n_path; i++)
        limits.beside +=
            msi_msv_is_file(paths[i]) ? msi_ms_paths_bytes(&paths[i], 1) : compressed_columns(paths[i]) * stacks;
    if (getrlimit(RLIMIT_AS, &limits.before) != 0) return;
    limits.all_stacks = n_path * COMPRESSED_COLUMNS * stacks;
    limits.is_by_size = limit_to(by_size < limits.by_user ? by_size : limits.by_user) && by_size <= limits.by_user;
}

void msi_ms_limit_lift(void)
{
    if (!limits.all_stacks) return;
    /* Which columns are compressed stands in the tables that it refers to. */
    limits.beside += limits.all_stacks;
    limits.all_stacks = 0;
    setrlimit(RLIMIT_AS, &limits.before);
    if (limits.is_by_size)
        limit_to(limits.by_user);
    else
        limit_space(limits.by_user);
    limits.is_by_size = 0;
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
