/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/msv/set_state.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t mixed(uint64_t h, uint64_t value)
{
    h = (h ^ value) * 0x9e3779b97f4a7c15U;
    return h ^ h >> 32;
}

static uint64_t of_name(const char *name)
{
    uint64_t h = 0xcbf29ce484222325U;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 0x100000001b3U;
    return h;
}

/* Add the files of a folder, and of those in it. A sum does not depend on the order in which they are listed. */
static int add_folder(int parent, const char *path, uint64_t name, int depth, uint64_t *sum)
{
    const int fd = openat(parent, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d && fd >= 0) close(fd);
    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat s;
        const uint64_t h = mixed(name, of_name(e->d_name));
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || strcmp(e->d_name, "table.lock") == 0 ||
            strcmp(e->d_name, "HISTORY") == 0 || fstatat(fd, e->d_name, &s, 0) != 0)
            continue;
        if (S_ISDIR(s.st_mode) && depth > 0) add_folder(fd, e->d_name, h, depth - 1, sum);
        if (S_ISREG(s.st_mode))
            *sum +=
                mixed(mixed(mixed(h, (uint64_t)s.st_size), (uint64_t)s.st_mtim.tv_sec), (uint64_t)s.st_mtim.tv_nsec);
    }
    closedir(d);
    return 1;
}

int msi_set_state(const char *path, uint64_t *state)
{
    *state = 0;
    return add_folder(AT_FDCWD, path, 0, 1, state);
}
