/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/child.h"
#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"

struct msi_workspace {
    char out[PATH_MAX], parent[PATH_MAX], folder[PATH_MAX];
    int overwrite;
    msi_child *keeper;
};

enum { OPEN_FOLDERS = 16 };

/* Split a path, without its trailing slashes, from its directory. */
static int split_path(const char *out, char plain[PATH_MAX], char parent[PATH_MAX])
{
    size_t n = strlen(out);
    while (n > 1 && out[n - 1] == '/') n--;
    if (n >= PATH_MAX - 64) return msi_error_set(MSI_EOUTPUT, "%.100s..: the name is too long", out);
    memcpy(plain, out, n);
    plain[n] = 0;
    const char *slash = strrchr(plain, '/');
    const char *name = slash ? slash + 1 : plain;
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return msi_error_set(MSI_EOUTPUT, "%s: is not a valid name for an output", out);
    if (slash)
        snprintf(parent, PATH_MAX, "%.*s", (int)(slash - plain + 1), plain);
    else
        strcpy(parent, "./");
    return MSI_OK;
}

/* Return 1 if `path` or one of its parent directories is `other`. */
static int is_within(const char *path, const char *other)
{
    struct stat a, b, root;
    char at[PATH_MAX + 4];
    if (stat(other, &b) != 0 || stat("/", &root) != 0 || !realpath(path, at)) return 0;
    for (;;) {
        if (stat(at, &a) != 0) return 0;
        if (a.st_dev == b.st_dev && a.st_ino == b.st_ino) return 1;
        char *slash = strrchr(at, '/');
        if (!slash || slash == at) return 0;
        *slash = 0;
    }
}

static int check_replaced(const char *out)
{
    struct stat info;
    if (lstat(out, &info) != 0) return MSI_OK;
    if (S_ISREG(info.st_mode)) return MSI_OK;
    if (S_ISDIR(info.st_mode) && msi_ms_path_is_table(out)) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%s: is not replaced, because it is neither a file nor a Measurement Set", out);
}

int msi_workspace_check(const char *out, const char *const *inputs, int n_input, int overwrite)
{
    char plain[PATH_MAX], parent[PATH_MAX];
    struct stat info;
    MSI_TRY(split_path(out, plain, parent));
    if (stat(parent, &info) != 0) return msi_error_set(MSI_EOUTPUT, "%s: %s", parent, strerror(errno));
    if (access(parent, W_OK | X_OK) != 0) return msi_error_set(MSI_EOUTPUT, "%s: %s", parent, strerror(errno));
    for (int i = 0; i < n_input; i++)
        if (is_within(plain, inputs[i]) || is_within(parent, inputs[i]) || is_within(inputs[i], plain))
            return msi_error_set(MSI_EOUTPUT, "%s: is the input %s, or is inside it, or contains it", out, inputs[i]);
    if (lstat(plain, &info) != 0) return MSI_OK;
    if (!overwrite) return msi_error_set(MSI_EUSAGE, "%s: exists; -overwrite replaces it", out);
    return check_replaced(plain);
}

/* ---- The keeper ---- */

/* A killed program cannot remove its directory, so a child process makes it, and removes it after the end of the
 * program. Another process of the program may still make new files there until it ends, so the removal is repeated. */
enum { KEEPER_TRIES = 1200, KEEPER_PAUSE_US = 50000, KEEPER_END_MS = 60000 };

/* The steps of the keeper: the directory is made, and was removed by the program. */
enum { FOLDER_MADE, FOLDER_REMOVED };

/* Make the directory, put its name into the shared memory, and wait. */
static int keep_folder(msi_child *self, void *of)
{
    const msi_workspace *w = of;
    char *folder = msi_child_shared(self);
    msi_frame removed;
    int got;
    strcpy(folder, w->folder);
    if (!mkdtemp(folder))
        return msi_error_set(MSI_EOUTPUT, "%s: cannot make a directory in it: %s", w->parent, strerror(errno));
    const int is_sent = msi_child_send(self, &(msi_frame){.kind = MSI_CHILD_STEP, .number = FOLDER_MADE}) == 0;
    if (is_sent && msi_child_receive(self, 1, &removed, &got) == MSI_OK && got > 0) return MSI_OK;
    for (int i = 0; i < KEEPER_TRIES && access(folder, F_OK) == 0; i++) {
        if (i) usleep(KEEPER_PAUSE_US);
        msi_workspace_remove(folder);
    }
    return MSI_OK;
}

static int make_folder(msi_workspace *w)
{
    const msi_child_spec spec = {.type = MSI_CHILD_KEEPER,
                                 .work = keep_folder,
                                 .of = w,
                                 .what = "the cleanup process",
                                 .path = w->parent,
                                 .shared_bytes = PATH_MAX};
    if (snprintf(w->folder, sizeof w->folder, "%s.msimage-convert-XXXXXX", w->parent) >= PATH_MAX)
        return msi_error_set(MSI_EOUTPUT, "%.100s..: the name is too long", w->out);
    MSI_TRY(msi_child_start(&w->keeper, &spec));
    MSI_TRY(msi_child_await(w->keeper, MSI_CHILD_STEP, FOLDER_MADE, MSI_ENOMEM));
    memcpy(w->folder, msi_child_shared(w->keeper), sizeof w->folder);
    return MSI_OK;
}

/* Wait for the end of the keeper. It removes the directory, unless the program reported that it did so. */
static void end_keeper(msi_child *keeper)
{
    msi_child_stop(keeper, KEEPER_END_MS);
    msi_child_free(keeper);
}

int msi_workspace_make(msi_workspace **out, const char *path, int overwrite)
{
    msi_workspace *w;
    *out = NULL;
    MSI_TRY(msi_alloc(&w, 1, sizeof *w, "names of files"));
    w->overwrite = overwrite;
    int status = split_path(path, w->out, w->parent);
    if (!status) status = make_folder(w);
    if (!status) {
        *out = w;
        return MSI_OK;
    }
    end_keeper(w->keeper);
    msi_free(w);
    return status;
}

int msi_workspace_path(const msi_workspace *w, const char *name, char *path, size_t size)
{
    if ((size_t)snprintf(path, size, "%s/%s", w->folder, name) < size) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%.100s..: the name is too long", w->out);
}

const char *msi_workspace_folder(const msi_workspace *w)
{
    return w->folder;
}

/* ---- Publish ---- */

static int sync_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)at;
    if (type != FTW_F && type != FTW_DP) return 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | (S_ISDIR(info->st_mode) ? O_DIRECTORY : 0));
    if (fd < 0) return errno;
    const int failed = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return failed == EINVAL ? 0 : failed;
}

static int sync_folder(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* A directory without read permission cannot be synced. */
    if (fd < 0) return 0;
    const int failed = fsync(fd);
    close(fd);
    return failed;
}

/* Rename to the output. An output that has appeared since the check is not replaced without overwrite; a replaced one
 * is exchanged with the new one. */
static int rename_to_output(const msi_workspace *w, const char *path)
{
    if (renameat2(AT_FDCWD, path, AT_FDCWD, w->out, RENAME_NOREPLACE) == 0) return MSI_OK;
    if (errno == EEXIST && w->overwrite) {
        MSI_TRY(check_replaced(w->out));
        if (renameat2(AT_FDCWD, path, AT_FDCWD, w->out, RENAME_EXCHANGE) == 0) return MSI_OK;
        if (errno == EINVAL || errno == ENOSYS)
            return msi_error_set(MSI_EOUTPUT,
                                 "%s: this file system cannot exchange it for the new one; remove it first", w->out);
    }
    if (errno == EINVAL || errno == ENOSYS) { /* no such flags; rename replaces at most an empty directory */
        struct stat info;
        if (lstat(w->out, &info) == 0)
            return msi_error_set(MSI_EOUTPUT, "%s: was created during the run, and is left unchanged", w->out);
        if (rename(path, w->out) == 0) return MSI_OK;
    }
    return msi_error_set(MSI_EOUTPUT, "%s: %s", w->out,
                         errno == EEXIST ? "was created during the run, and is left unchanged" : strerror(errno));
}

int msi_workspace_publish(msi_workspace *w, const char *name)
{
    char path[PATH_MAX];
    MSI_TRY(msi_workspace_path(w, name, path, sizeof path));
    const int failed = nftw(path, sync_one, OPEN_FOLDERS, FTW_PHYS | FTW_DEPTH);
    if (failed)
        return msi_error_set(MSI_EOUTPUT, "%s: cannot be synced: %s", w->out, strerror(failed > 0 ? failed : errno));
    MSI_TRY(msi_interrupt_check());
    MSI_TRY(rename_to_output(w, path));
    if (sync_folder(w->parent) != 0 && errno != EINVAL)
        return msi_error_set(
            MSI_EOUTPUT,
            "%s: its directory cannot be synced: %s; the output is complete, but a crash of the system "
            "may lose its name",
            w->out, strerror(errno));
    return MSI_OK;
}

/* ---- Remove ---- */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    (void)remove(path);
    return 0;
}

void msi_workspace_remove(const char *path)
{
    nftw(path, remove_one, OPEN_FOLDERS, FTW_PHYS | FTW_DEPTH);
}

void msi_workspace_free(msi_workspace *w)
{
    if (!w) return;
    msi_workspace_remove(w->folder);
    if (access(w->folder, F_OK) == 0) msi_log_warning("%s: cannot be removed; remove it", w->folder);
    msi_child_ask(w->keeper, &(msi_frame){.kind = MSI_CHILD_NEXT, .number = FOLDER_REMOVED});
    end_keeper(w->keeper);
    msi_free(w);
}
