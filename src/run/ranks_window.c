/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A window is a file in memory without a name. Other ranks open it through /proc, which works for the processes of one user
 * on one host, and depends neither on the MPI nor on the size of /dev/shm.
 */
#include "src/run/ranks_window.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"

struct msi_ranks_windows {
    int is_shared;
    char *at[]; /* [size] NULL: not mapped */
};

/* Data with which other ranks open a window. */
typedef struct window_name {
    uint64_t host; /* hash of the name of this boot of the host; 0: unknown */
    int64_t pid, fd, device, inode;
} window_name;

/* Return a hash of the random number that Linux gives to each boot; 0 if it is unknown. */
static uint64_t hash_boot(void)
{
    char id[64];
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof id);
    if (fd >= 0) close(fd);
    return n > 0 ? msi_hash(0, id, (int64_t)n) : 0;
}

static void *map_window(int fd)
{
    void *p = mmap(NULL, MSI_RANKS_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Make the own window. Returns its file, or -1 */
static int make_window(char **at, window_name *name)
{
    struct stat is;
    const int fd = memfd_create("msimage", MFD_CLOEXEC);
    *name = (window_name){.fd = fd, .pid = getpid()};
    if (fd < 0 || ftruncate(fd, MSI_RANKS_WINDOW_BYTES) || fstat(fd, &is) || !(*at = map_window(fd))) return fd;
    name->host = hash_boot();
    name->device = (int64_t)is.st_dev;
    name->inode = (int64_t)is.st_ino;
    return fd;
}

/* Map the window of another rank, if it can be opened and is the one that was named. */
static char *open_window(const window_name *name)
{
    char path[64];
    struct stat is;
    char *at = NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)name->pid, (long long)name->fd);
    if (stat(path, &is) || (int64_t)is.st_dev != name->device || (int64_t)is.st_ino != name->inode) return NULL;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    if (!fstat(fd, &is) && (int64_t)is.st_dev == name->device && (int64_t)is.st_ino == name->inode &&
        is.st_size == MSI_RANKS_WINDOW_BYTES)
        at = map_window(fd);
    close(fd);
    return at;
}

/* Map the windows of the other ranks. Returned: is_shared */
static int open_windows(msi_ranks *ranks, const window_name *own)
{
    msi_ranks_windows *w = ranks->windows;
    window_name *all;
    int *opened, is_open = own->host != 0;
    MSI_TRY(msi_ranks_gather(ranks, own, sizeof *own, (void **)&all));
    for (int k = 0; k < ranks->size; k++) is_open &= all[k].host == own->host;
    for (int k = 0; k < ranks->size && is_open; k++) {
        if (k != ranks->rank) w->at[k] = open_window(&all[k]);
        is_open = w->at[k] != NULL;
    }
    msi_free(all);
    /* Files are closed after all ranks have opened them. */
    MSI_TRY(msi_ranks_gather(ranks, &is_open, sizeof is_open, (void **)&opened));
    w->is_shared = 1;
    for (int k = 0; k < ranks->size; k++) w->is_shared &= opened[k];
    msi_free(opened);
    return MSI_OK;
}

int msi_ranks_window(msi_ranks *ranks, char *const **at)
{
    window_name own;
    *at = NULL;
    if (!ranks->windows) {
        MSI_TRY(msi_ranks_agree(ranks, msi_alloc(&ranks->windows, 1,
                                                 sizeof *ranks->windows + (size_t)ranks->size * sizeof(char *),
                                                 "windows of ranks")));
        const int fd = make_window(&ranks->windows->at[ranks->rank], &own);
        const int rc = open_windows(ranks, &own);
        if (fd >= 0) close(fd);
        MSI_TRY(rc);
    }
    if (ranks->windows->is_shared) *at = ranks->windows->at;
    return MSI_OK;
}

void msi_ranks_window_close(msi_ranks *ranks)
{
    for (int k = 0; ranks->windows && k < ranks->size; k++)
        if (ranks->windows->at[k]) munmap(ranks->windows->at[k], MSI_RANKS_WINDOW_BYTES);
    msi_free(ranks->windows);
    ranks->windows = NULL;
}
