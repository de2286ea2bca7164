/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"

/*
 * The list of temporary files, for the signal handler. The handler may read the list at any time, so nodes are only
 * added, and never freed or reused.
 */
typedef struct temporary {
    struct temporary *next;
    atomic_int live;
    char path[];
} temporary;

static _Atomic(temporary *) temporaries;

typedef enum output_state { PLANNED, BEGUN, SEALED, PUBLISHED, DROPPED } output_state;

typedef struct output {
    char *name;
    temporary *temp; /* BEGUN, SEALED */
    int fd;          /* BEGUN, else -1 */
    output_state state;
} output;

struct msi_publish {
    int n;
    int overwrite;
    int links; /* 1: the directory of the first output supports hard links */
    output *o; /* [n] */
};

/* Return the length of the directory part of a name, including its last slash; 0 without a slash. */
static size_t directory_length(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) + 1 : 0;
}

static void unlink_temporary(temporary *t)
{
    if (!t) return;
    unlink(t->path);
    atomic_store(&t->live, 0);
}

/*
 * Create an empty file in the directory of `name`. Its own name is short, because `name` may have NAME_MAX characters.
 * Given: of  NULL; or the path of a file, then the new file is a hard link to it, and *fd is not changed. If the file
 *            system does not support hard links, *out is NULL, and errno has the reason.
 */
static int create_temporary(temporary **out, int *fd, const char *name, const char *of)
{
    size_t dir_length = directory_length(name);
    size_t size = dir_length + sizeof ".msimage-0123456789abcdef.tmp";
    temporary *t = malloc(sizeof *t + size);
    if (!t) return msi_error_set(MSI_ENOMEM, "%s: out of memory for the name of its temporary file", name);
    memset(t, 0, sizeof *t);
    *out = NULL;
    int made = -1;
    for (int attempt = 0; attempt < 100 && made < 0; attempt++) {
        uint64_t number;
        if (getrandom(&number, sizeof number, GRND_NONBLOCK) != (ssize_t)sizeof number)
            number = (uint64_t)getpid() << 40 ^ (uint64_t)time(NULL) << 8 ^ (uint64_t)attempt;
        snprintf(t->path, size, "%.*s.msimage-%016llx.tmp", (int)dir_length, name, (unsigned long long)number);
        made = of ? link(of, t->path) : open(t->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (made < 0 && errno != EEXIST) break;
    }
    if (made < 0) {
        int why = errno;
        free(t);
        errno = why;
        if (of) return MSI_OK;
        return msi_error_set(MSI_EOUTPUT, "%s: cannot create a file in directory '%.*s': %s", name,
                             dir_length ? (int)dir_length : 1, dir_length ? name : ".", strerror(why));
    }
    if (!of) *fd = made;
    atomic_store(&t->live, 1);
    t->next = atomic_load(&temporaries);
    while (!atomic_compare_exchange_weak(&temporaries, &t->next, t)) {
    }
    *out = t;
    return MSI_OK;
}

/* Fail unless the final name is unused, or its file may be replaced. */
static int check_name(const char *name, int overwrite)
{
    if (!name[0] || name[strlen(name) - 1] == '/')
        return msi_error_set(MSI_EARGUMENT, "'%s' is not a valid name for an output file", name);
    struct stat st;
    if (lstat(name, &st) == 0) {
        if (S_ISLNK(st.st_mode) && stat(name, &st) != 0) st.st_mode = S_IFREG; /* a dangling link is replaced */
        if (!S_ISREG(st.st_mode))
            return msi_error_set(MSI_EOUTPUT, "%s: a %s of this name exists", name,
                                 S_ISDIR(st.st_mode) ? "directory" : "special file");
        if (!overwrite) return msi_error_about(msi_error_set(MSI_EARGUMENT, "%s: already exists", name), "overwrite");
        return MSI_OK;
    }
    if (errno == ENOENT) return MSI_OK; /* create_temporary reports a missing directory */
    return msi_error_set(MSI_EOUTPUT, "%s: %s", name, strerror(errno));
}

static int same_directory(const char *a, const char *b)
{
    size_t length = directory_length(a);
    return length == directory_length(b) && memcmp(a, b, length) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const output *const *)a)->name, (*(const output *const *)b)->name);
}

/* Fail if two outputs have the same name, since one would replace the other. */
static int check_distinct(const msi_publish *p)
{
    const output **sorted = malloc((size_t)p->n * sizeof *sorted);
    if (!sorted) return msi_error_set(MSI_ENOMEM, "out of memory for the list of %d outputs", p->n);
    for (int i = 0; i < p->n; i++) sorted[i] = &p->o[i];
    qsort(sorted, (size_t)p->n, sizeof *sorted, compare_names);
    int rc = MSI_OK;
    for (int i = 1; i < p->n && !rc; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            rc = msi_error_set(MSI_EARGUMENT, "%s: two outputs have this name", sorted[i]->name);
    free(sorted);
    return rc;
}

/* Return 1 if a hard link to the file can be made. */
static int try_link(const temporary *file, const char *name)
{
    temporary *second;
    int unused;
    if (create_temporary(&second, &unused, name, file->path) || !second) return 0;
    unlink_temporary(second);
    return 1;
}

int msi_publish_plan(msi_publish **out, const char *const *name, int n_name, int overwrite)
{
    int rc = MSI_OK;
    *out = NULL;
    msi_publish *p = calloc(1, sizeof *p);
    if (p) p->o = calloc((size_t)n_name + 1, sizeof *p->o);
    if (!p || !p->o) {
        rc = msi_error_set(MSI_ENOMEM, "out of memory for the list of %d outputs", n_name);
        goto out;
    }
    p->overwrite = overwrite;
    for (int i = 0; i < n_name; i++) {
        p->o[i].fd = -1;
        p->o[i].name = strdup(name[i]);
        if (!p->o[i].name) {
            rc = msi_error_set(MSI_ENOMEM, "out of memory for the list of %d outputs", n_name);
            goto out;
        }
        p->n = i + 1;
    }
    if (n_name > 1 && (rc = check_distinct(p))) goto out;
    for (int i = 0; i < n_name; i++)
        if ((rc = check_name(name[i], overwrite))) goto out;
    for (int i = 0; i < n_name; i++) {
        if (i > 0 && same_directory(name[i], name[i - 1])) continue;
        int fd;
        temporary *trial;
        if ((rc = create_temporary(&trial, &fd, name[i], NULL))) goto out;
        close(fd);
        if (i == 0) p->links = try_link(trial, name[i]);
        unlink_temporary(trial);
    }
    *out = p;
out:
    if (rc) msi_publish_free(p);
    return rc;
}

int msi_publish_n(const msi_publish *p)
{
    return p->n;
}

const char *msi_publish_name(const msi_publish *p, int i)
{
    return p->o[i].name;
}

void msi_publish_drop(msi_publish *p, int i)
{
    output *o = &p->o[i];
    if (o->fd >= 0) close(o->fd);
    o->fd = -1;
    if (o->state == BEGUN || o->state == SEALED) unlink_temporary(o->temp);
    o->state = DROPPED;
}

int msi_publish_is_dropped(const msi_publish *p, int i)
{
    return p->o[i].state == DROPPED;
}

int msi_publish_begin(msi_publish *p, int i, int *fd)
{
    output *o = &p->o[i];
    if (o->state != PLANNED) return msi_error_set(MSI_EINTERNAL, "%s: output begun twice", o->name);
    MSI_TRY(create_temporary(&o->temp, &o->fd, o->name, NULL));
    o->state = BEGUN;
    *fd = o->fd;
    return MSI_OK;
}

int msi_publish_fail(const msi_publish *p, int i, int errno_value, const char *reason)
{
    if (errno_value && reason)
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s (%s)", p->o[i].name, strerror(errno_value),
                             reason);
    return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: %s", p->o[i].name,
                         errno_value ? strerror(errno_value)
                         : reason    ? reason
                                     : "unknown reason");
}

int msi_publish_write(msi_publish *p, int i, const void *data, size_t n)
{
    const char *at = data;
    while (n) {
        ssize_t done = write(p->o[i].fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return msi_publish_fail(p, i, errno, NULL);
        at += done;
        n -= (size_t)done;
    }
    return MSI_OK;
}

int msi_publish_write_at(const msi_publish *p, int i, int64_t at, const void *data, size_t n)
{
    const char *from = data;
    while (n) {
        const ssize_t done = pwrite(p->o[i].fd, from, n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return msi_publish_fail(p, i, errno, NULL);
        from += done;
        at += done;
        n -= (size_t)done;
    }
    return MSI_OK;
}

int msi_publish_seal(msi_publish *p, int i)
{
    output *o = &p->o[i];
    if (o->state != BEGUN) return msi_error_set(MSI_EINTERNAL, "%s: output sealed before it was begun", o->name);
    int why = 0;
    /* EINVAL means that the file system does not support fsync. */
    if (fsync(o->fd) != 0 && errno != EINVAL) why = errno;
    if (close(o->fd) != 0 && errno != EINTR && !why) why = errno;
    o->fd = -1;
    if (why) return msi_publish_fail(p, i, why, NULL);
    o->state = SEALED;
    return MSI_OK;
}

int msi_publish_read(const msi_publish *p, int i, unsigned char **bytes, int64_t *n)
{
    const output *o = &p->o[i];
    struct stat st;
    *bytes = NULL;
    *n = 0;
    if (o->state != SEALED) return msi_error_set(MSI_EINTERNAL, "%s: read before it was written", o->name);
    const int fd = open(o->temp->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) != 0) {
        const int why = errno;
        if (fd >= 0) close(fd);
        return msi_publish_fail(p, i, why, "it was to be read again");
    }
    int rc = st.st_size ? msi_alloc(bytes, st.st_size, 1, "a picture") : MSI_OK;
    while (!rc && *n < st.st_size) {
        const ssize_t got = read(fd, *bytes + *n, (size_t)(st.st_size - *n));
        if (got == 0) break;
        if (got < 0 && errno != EINTR) rc = msi_publish_fail(p, i, errno, "it was to be read again");
        if (got > 0) *n += got;
    }
    close(fd);
    if (rc) {
        msi_free(*bytes);
        *bytes = NULL;
    }
    return rc;
}

/* Copy output `of` to output i, which has not been begun. */
static int copy_output(msi_publish *p, int i, int of)
{
    enum { PIECE = 1 << 20 };
    int unused, rc = msi_publish_begin(p, i, &unused);
    const int from = rc ? -1 : open(p->o[of].temp->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *piece = rc ? NULL : malloc(PIECE);
    ssize_t n = 1;
    if (!rc && !piece) rc = msi_error_set(MSI_ENOMEM, "%s: out of memory for a copy", p->o[i].name);
    while (!rc && n) {
        n = read(from, piece, PIECE);
        if (n < 0 && errno != EINTR) rc = msi_publish_fail(p, i, errno, NULL);
        if (n > 0) rc = msi_publish_write(p, i, piece, (size_t)n);
    }
    free(piece);
    if (from >= 0) close(from);
    return rc ? rc : msi_publish_seal(p, i);
}

int msi_publish_link(msi_publish *p, int i, int of)
{
    output *o = &p->o[i];
    int unused;
    if (o->state != PLANNED || p->o[of].state != SEALED)
        return msi_error_set(MSI_EINTERNAL, "%s: linked before it was written", o->name);
    MSI_TRY(create_temporary(&o->temp, &unused, o->name, p->o[of].temp->path));
    if (!o->temp) return copy_output(p, i, of);
    o->state = SEALED;
    return MSI_OK;
}

int msi_publish_links(const msi_publish *p)
{
    return p->links;
}

/* Rename a file without replacing another. If the file system cannot do this in one step, use a hard link. If it has no
 * hard links either, check first that no file has the new name. Returns 0 or an errno value. */
static int rename_without_replacing(const char *from, const char *to)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
    if (link(from, to) == 0) {
        unlink(from);
        return 0;
    }
    if (errno != EPERM && errno != ENOSYS && errno != EOPNOTSUPP && errno != EMLINK) return errno;
    struct stat st;
    if (lstat(to, &st) == 0) return EEXIST;
    return rename(from, to) == 0 ? 0 : errno;
}

/* Sync the directory of an output. It allocates no memory: files have their names already, so only the disk may
 * fail. */
static int sync_directory(output *o)
{
    size_t length = directory_length(o->name);
    char *name = o->name, first = name[length];
    name[length] = 0;
    int rc = MSI_OK;
    int fd = open(length ? name : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    name[length] = first;
    /* A directory without read permission cannot be synced, and some file systems do not support it. */
    if (fd >= 0 && fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP && errno != EBADF)
        rc = msi_error_set(MSI_EOUTPUT,
                           "%s: cannot sync its directory: %s; all files are complete, but a crash of the system may "
                           "lose their names",
                           name, strerror(errno));
    if (fd >= 0) close(fd);
    return rc;
}

int msi_publish_commit(msi_publish *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->o[i].state != SEALED && p->o[i].state != DROPPED)
            return msi_error_set(MSI_EINTERNAL, "%s: output published before it was sealed", p->o[i].name);
    for (int i = 0; i < p->n && !p->overwrite; i++) {
        struct stat st;
        if (p->o[i].state == SEALED && lstat(p->o[i].name, &st) == 0)
            return msi_error_set(MSI_EOUTPUT, "%s: another program created this file during the run; it is kept",
                                 p->o[i].name);
    }
    MSI_TRY(msi_interrupt_check());
    for (int i = 0; i < p->n; i++) {
        output *o = &p->o[i];
        int why = 0;
        if (o->state == DROPPED) continue;
        if (!p->overwrite)
            why = rename_without_replacing(o->temp->path, o->name);
        else if (rename(o->temp->path, o->name) != 0)
            why = errno;
        if (why == EEXIST && !p->overwrite)
            return msi_error_set(MSI_EOUTPUT, "%s: another program created this file during the run; it is kept",
                                 o->name);
        if (why)
            return msi_error_set(MSI_EOUTPUT,
                                 "%s: cannot be renamed from its temporary name (%d of %d outputs are published): %s",
                                 o->name, i, p->n, strerror(why));
        atomic_store(&o->temp->live, 0);
        o->state = PUBLISHED;
    }
    for (int i = 0; i < p->n; i++)
        if (i == 0 || !same_directory(p->o[i].name, p->o[i - 1].name)) MSI_TRY(sync_directory(&p->o[i]));
    return MSI_OK;
}

void msi_publish_free(msi_publish *p)
{
    if (!p) return;
    for (int i = 0; i < p->n; i++) {
        output *o = &p->o[i];
        if (o->fd >= 0) close(o->fd);
        if (o->state == BEGUN || o->state == SEALED) unlink_temporary(o->temp);
        free(o->name);
    }
    free(p->o);
    free(p);
}

void msi_publish_emergency(void)
{
    for (temporary *t = atomic_load(&temporaries); t; t = t->next)
        if (atomic_load(&t->live)) unlink(t->path);
}
