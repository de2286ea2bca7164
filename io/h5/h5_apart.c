/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/h5/h5_apart.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/child.h"
#include "core/memory.h"
#include "core/status.h"

/* The file that the child reads, and the pipe for its output. */
typedef struct job {
    const char *path;
    int (*read)(int fd, const char *path, void *of);
    void *of;
    int fd;
} job;

int msi_h5_put(int fd, const void *bytes, int64_t n)
{
    const char *from = bytes;
    while (n > 0) {
        const ssize_t done = write(fd, from, n > 1 << 24 ? 1 << 24 : (size_t)n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return msi_error_set(MSI_ENOMEM, "no memory for an HDF5 file: %s", strerror(errno));
        from += done;
        n -= done;
    }
    return MSI_OK;
}

static int read_file(msi_child *self, void *of)
{
    const job *j = of;
    (void)self;
    msi_child_limit_memory(msi_memory_limit());
    return j->read(j->fd, j->path, j->of);
}

static int take_result(int fd, const char *path,
                       int (*take)(void *of, const char *path, const char *bytes, int64_t n_byte), void *of)
{
    const int64_t n_byte = (int64_t)lseek(fd, 0, SEEK_END);
    if (n_byte < 1) return msi_error_set(MSI_EINPUT, "%s: nothing was read", path);
    const char *bytes = mmap(NULL, (size_t)n_byte, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return msi_error_set(MSI_ENOMEM, "no memory for an HDF5 file: %s", strerror(errno));
    const int rc = take(of, path, bytes, n_byte);
    munmap((void *)bytes, (size_t)n_byte);
    return rc;
}

int msi_h5_apart(const char *path, int (*read)(int fd, const char *path, void *of),
                 int (*take)(void *of, const char *path, const char *bytes, int64_t n_byte), void *of)
{
    job j = {path, read, of, memfd_create("msimage-hdf5", MFD_CLOEXEC)};
    if (j.fd < 0) return msi_error_set(MSI_ENOMEM, "cannot create a file in memory: %s", strerror(errno));
    const msi_child_spec spec = {.work = read_file,
                                 .of = &j,
                                 .what = "the HDF5 reader process",
                                 .path = path,
                                 .keeps_files = 1,
                                 .cpu_s = MSI_H5_STEP_S};
    int rc = msi_child_run(&spec);
    if (!rc) rc = take_result(j.fd, path, take, of);
    close(j.fd);
    return rc;
}
