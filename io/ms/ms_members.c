/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_members.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_paths.h"
#include "io/ms/ms_metadata.h"

/* Address space for the names of all members. Only pages that are written take memory. */
static const int64_t NAMES_BYTES = (int64_t)64 << 20;

/* The reply of the process. The names of the members, each with its terminating zero, are in shared memory. */
typedef struct reply {
    int status;
    int64_t n, n_byte;
    char message[MSI_MESSAGE_BYTES];
} reply;

/* Return whether a table concatenates others. The beginning of its table.dat has its kind. */
static int is_concatenation(const char *path)
{
    enum { HEAD = 512 };
    static const char kind[] = "ConcatTable";
    char head[HEAD], *name;
    struct stat info;
    if (asprintf(&name, "%s/table.dat", path) < 0) return 0;
    const int fd = stat(name, &info) == 0 && S_ISREG(info.st_mode) ? open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(name);
    if (fd < 0) return 0;
    const ssize_t n = pread(fd, head, sizeof head, 0);
    close(fd);
    return n > 0 && memmem(head, (size_t)n, kind, sizeof kind - 1) != NULL;
}

/* ---- The process ---- */

static int put_name(char *names, reply *r, const char *name)
{
    const int64_t length = (int64_t)strlen(name) + 1;
    if (length > NAMES_BYTES - r->n_byte) return msi_error_set(MSI_ENOMEM, "%s: too many members", name);
    memcpy(names + r->n_byte, name, (size_t)length);
    r->n_byte += length;
    r->n++;
    return MSI_OK;
}

static int put_members(char *names, reply *r, const char *path)
{
    ccc_table *t;
    char **parts;
    int64_t n;
    if (!is_concatenation(path)) return put_name(names, r, path);
    msi_child_progress(MSI_CHILD_STEP_S);
    if (ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE) != CCC_OK) return msi_ms_failed(CCC_EFAILED);
    int rc = ccc_table_parts(t, &parts, &n) == CCC_OK ? MSI_OK : msi_ms_failed(CCC_ENOMEM);
    for (int64_t i = 0; !rc && i < n; i++) rc = put_name(names, r, parts[i]);
    ccc_free(parts);
    ccc_table_close(t);
    return rc;
}

static _Noreturn void list_all(const msi_child *parent, char *names, const char *const *paths, int n_path)
{
    static reply r;
    msi_ms_limit_memory(paths, n_path);
    /* The members of a multi-MS are not among its own files, so its size is no limit. */
    msi_ms_limit_lift();
    msi_child_watch();
    for (int i = 0; !r.status && i < n_path; i++) r.status = put_members(names, &r, paths[i]);
    if (r.status) snprintf(r.message, sizeof r.message, "%s", msi_error_get());
    msi_child_send(parent, &r, sizeof r);
    _exit(0);
}

/* ---- The caller ---- */

/* Check the names, which a damaged table may have made invalid, and make a list of them. */
static int take_names(char ***out, int *n_out, const char *names, const reply *r, const char *path)
{
    const char *name = names;
    int64_t n = 0;
    for (int64_t i = 0; i < r->n_byte; i++) n += names[i] == 0;
    if (r->n < 1 || r->n > INT32_MAX || n != r->n || names[r->n_byte - 1])
        return msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: the names of its members are missing", path);
    const char **list;
    MSI_TRY(msi_alloc(&list, n, sizeof *list, "members"));
    for (int64_t i = 0; i < n; i++, name += strlen(name) + 1) list[i] = name;
    const int rc = msi_ms_paths_copy(out, list, (int)n);
    msi_free(list);
    *n_out = (int)n;
    return rc;
}

static int take_reply(char ***out, int *n_out, msi_child *child, const char *names, const char *path)
{
    static reply r;
    int got;
    MSI_TRY(msi_child_await(child, 1, &r, sizeof r, &got));
    if (got < 0 && msi_child_refused(child, r.message, sizeof r.message))
        return msi_error_set(MSI_ENOMEM, "%s: the reader process ended: %s", path, r.message);
    if (got < 0) return msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: the reader process ended", path);
    r.message[sizeof r.message - 1] = 0;
    if (r.status) return msi_error_set(r.status < 0 ? r.status : MSI_EINPUT, "%s", r.message);
    if (r.n_byte < 1 || r.n_byte > NAMES_BYTES) return msi_error_set(MSI_EINPUT, "%s: truncated or corrupt", path);
    return take_names(out, n_out, names, &r, path);
}

int msi_ms_members(char ***out, int *n_out, int *which, const char *const *paths, int n_path)
{
    msi_child child;
    int is_child;
    *out = NULL;
    *n_out = 0;
    for (*which = 0; *which < n_path && !is_concatenation(paths[*which]);) ++*which;
    if (*which == n_path) return MSI_OK;
    char *names =
        mmap(NULL, (size_t)NAMES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (names == MAP_FAILED)
        return msi_error_set(MSI_ENOMEM, "cannot map memory for the names of members: %s", strerror(errno));
    const pid_t self = getpid();
    int rc = msi_child_fork(&child, "to read with", &is_child);
    if (!rc && is_child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(1);
        list_all(&child, names, paths, n_path);
    }
    if (!rc) rc = take_reply(out, n_out, &child, names, paths[*which]);
    msi_child_close(&child);
    if (child.pid > 0) {
        kill(child.pid, SIGKILL);
        msi_child_wait(&child);
    }
    munmap(names, (size_t)NAMES_BYTES);
    return rc;
}
