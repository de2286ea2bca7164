/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * msimage-convert: convert, select, average and join Measurement Sets and UVFITS files.
 *
 * A conversion has these stages, each in its own process:
 *   1. Sets, UVFITS and FITS-IDI files are converted to one set, or one set to a visibility store (convert_sets.c).
 *   2. If the output is a UVFITS file, the set is exported to it.
 * At the end the result is renamed to the output.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/child.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/convert/set_output.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"
#include "io/uv/uv_set.h"
#include "src/convert/convert_stages.h"
#include "src/options/suggestion.h"

static void workspace_remove(const char *path);

/* ---- The workspace ---- */

/* The workspace is a hidden directory next to the output, in which the output is made. When the output is complete, it
 * is renamed to its final name. */

typedef struct workspace workspace;

struct workspace {
    char out[PATH_MAX], parent[PATH_MAX], folder[PATH_MAX];
    int overwrite;
    msi_child *keeper;
};

enum { OPEN_FOLDERS = 16 };

/* Split a path into its directory and its name, without trailing slashes. */
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

/*
 * workspace_check - check that an output may be made: its directory is writable, no file is replaced without overwrite,
 * and the output is not an input, nor inside an input, nor contains one.
 * Returns: 0, MSI_EUSAGE (it exists, and overwrite is 0), MSI_EOUTPUT
 */
static int workspace_check(const char *out, const char *const *inputs, int n_input, int overwrite)
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

/* A killed program cannot remove its directory. So a child process, the keeper, creates it, and removes it when the
 * program has ended. Another process of the program may still create files there before it ends, so the removal is
 * repeated. */
enum { KEEPER_TRIES = 1200, KEEPER_PAUSE_US = 50000, KEEPER_END_MS = 60000 };

/* The steps of the keeper: the directory is created; the program has removed it. */
enum { FOLDER_MADE, FOLDER_REMOVED };

/* Create the directory, write its name to the shared memory, and wait. */
static int keep_folder(msi_child *self, void *of)
{
    const workspace *w = of;
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
        workspace_remove(folder);
    }
    return MSI_OK;
}

static int make_folder(workspace *w)
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

/* Wait for the end of the keeper. It removes the directory, unless the program has reported that it did so. */
static void end_keeper(msi_child *keeper)
{
    msi_child_stop(keeper, KEEPER_END_MS);
    msi_child_free(keeper);
}

/*
 * workspace_make - create the directory next to the output `path`.
 * Returned: *out  owned, workspace_free
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 * Notes:    a child process removes the directory if this process is killed, so call this before any thread is started.
 */
static int workspace_make(workspace **out, const char *path, int overwrite)
{
    workspace *w;
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

/* workspace_path - write the path of a file in the directory. Returns: 0, MSI_EOUTPUT (too long). */
static int workspace_path(const workspace *w, const char *name, char *path, size_t size)
{
    if ((size_t)snprintf(path, size, "%s/%s", w->folder, name) < size) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "%.100s..: the name is too long", w->out);
}

/* workspace_folder - return the path of the directory; borrowed. */
static const char *workspace_folder(const workspace *w)
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

/* Rename to the output. If an output was created after the check, it is replaced only with overwrite, by exchanging the
 * two. */
static int rename_to_output(const workspace *w, const char *path)
{
    if (renameat2(AT_FDCWD, path, AT_FDCWD, w->out, RENAME_NOREPLACE) == 0) return MSI_OK;
    if (errno == EEXIST && w->overwrite) {
        MSI_TRY(check_replaced(w->out));
        if (renameat2(AT_FDCWD, path, AT_FDCWD, w->out, RENAME_EXCHANGE) == 0) return MSI_OK;
        if (errno == EINVAL || errno == ENOSYS)
            return msi_error_set(MSI_EOUTPUT,
                                 "%s: this file system cannot exchange it for the new one; remove it first", w->out);
    }
    /* the flag is not supported; rename can only replace an empty directory */
    if (errno == EINVAL || errno == ENOSYS) {
        struct stat info;
        if (lstat(w->out, &info) == 0)
            return msi_error_set(MSI_EOUTPUT, "%s: was created during the run, and is left unchanged", w->out);
        if (rename(path, w->out) == 0) return MSI_OK;
    }
    return msi_error_set(MSI_EOUTPUT, "%s: %s", w->out,
                         errno == EEXIST ? "was created during the run, and is left unchanged" : strerror(errno));
}

/*
 * workspace_publish - sync a file or set in the directory to the disk, and rename it to the output in one step. At any
 * time either the complete old output or the complete new one exists.
 * Returns: 0, MSI_EOUTPUT (an old output is unchanged), MSI_EINTERRUPTED
 */
static int workspace_publish(workspace *w, const char *name)
{
    char path[PATH_MAX];
    MSI_TRY(workspace_path(w, name, path, sizeof path));
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

/* workspace_remove - remove a tree of files, as far as possible. */
static void workspace_remove(const char *path)
{
    nftw(path, remove_one, OPEN_FOLDERS, FTW_PHYS | FTW_DEPTH);
}

/* workspace_free - remove the directory and its contents; NULL is allowed. */
static void workspace_free(workspace *w)
{
    if (!w) return;
    workspace_remove(w->folder);
    if (access(w->folder, F_OK) == 0) msi_log_warning("%s: cannot be removed; remove it", w->folder);
    msi_child_ask(w->keeper, &(msi_frame){.kind = MSI_CHILD_NEXT, .number = FOLDER_REMOVED});
    end_keeper(w->keeper);
    msi_free(w);
}

/* The inputs of a conversion. */
typedef struct inputs {
    const msi_convert_options *o;
    const char **path; /* [o->shared.n_ms] paths of the sets and files */
    /* [o->shared.n_ms] resolved paths of devices; /dev/stdin is another file in a child process */
    char (*real)[PATH_MAX];
} inputs;

/* Return 1 for a folder, and for a missing path, which the reader of Measurement Sets reports. */
static int is_folder_or_missing(const char *path)
{
    struct stat info;
    return stat(path, &info) != 0 || S_ISDIR(info.st_mode);
}

/* Return 1 if the output is a UVFITS file by its name. */
static int becomes_fits(const char *out)
{
    static const char *const endings[] = {".uvfits", ".uvf", ".fits"};
    const size_t length = strlen(out);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (length > n && strcasecmp(out + length - n, endings[i]) == 0) return 1;
    }
    return 0;
}

static void free_inputs(inputs *in)
{
    msi_free(in->path);
    msi_free(in->real);
}

static int check_inputs(const msi_convert_options *o)
{
    int a, b;
    for (int i = 0; i < o->shared.n_ms; i++)
        if (msi_msv_is_store(o->shared.ms_paths[i]))
            return msi_error_set(
                MSI_EUSAGE, "%s: is a visibility store, which lacks a part of the Measurement Set; convert its set",
                o->shared.ms_paths[i]);
    if (msi_ms_paths_same(o->shared.ms_paths, o->shared.n_ms, &a, &b))
        return msi_error_set(MSI_EUSAGE, "%s and %s are the same set; give it only once", o->shared.ms_paths[a],
                             o->shared.ms_paths[b]);
    return msi_convert_is_store(o->out) ? msi_convert_store_check(o) : MSI_OK;
}

/* Refuse inputs that are neither folders nor FITS files, before anything is written. */
static int find_inputs(inputs *in)
{
    const int n = in->o->shared.n_ms;
    MSI_TRY(msi_alloc(&in->path, n, sizeof *in->path, "names of files"));
    MSI_TRY(msi_alloc(&in->real, n, sizeof *in->real, "names of files"));
    for (int i = 0; i < n; i++) {
        const char *path = in->path[i] = in->o->shared.ms_paths[i];
        if (is_folder_or_missing(path)) continue;
        if (strncmp(path, "/dev/", 5) == 0) {
            if (!realpath(path, in->real[i])) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
            path = in->path[i] = in->real[i];
        }
        if (!msi_msv_is_file(path)) return msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a file", path);
        if (!msi_uv_set_is_file(path))
            return msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a FITS file with a complete header",
                                 path);
    }
    return MSI_OK;
}

/* ---- Stages ---- */

typedef struct stage_spec {
    msi_stage_work *work;
    const void *job;
    const char *name;   /* stage name for the progress; static */
    const char *path;   /* the input, for messages */
    const char *folder; /* the workspace; NULL: the stage writes nothing */
    const char *out;    /* the output, for messages */
} stage_spec;

static int run_work(msi_child *self, void *of)
{
    const stage_spec *spec = of;
    (void)self;
    msi_set_output_child_begin(spec->folder, spec->out);
    const int status = spec->work(spec->job);
    return spec->folder ? msi_set_output_explain(status, spec->folder, spec->out) : status;
}

/* Run a stage and wait for its end. */
static int run_stage(const stage_spec *spec)
{
    msi_child *child;
    stage_spec of = *spec;
    const msi_child_spec process = {.work = run_work,
                                    .of = &of,
                                    .what = "the conversion process",
                                    .path = spec->path,
                                    .cpu_s = MSI_CHILD_STEP_S,
                                    .reports = 1};
    MSI_TRY(msi_child_start(&child, &process));
    msi_progress_begin(spec->name);
    int status = msi_child_await_done(child, MSI_EINPUT);
    if (!status) msi_progress_end();
    /* On a full disk, casacore may crash or end the process by an exception. */
    if (status && spec->folder) status = msi_set_output_explain(status, spec->folder, spec->out);
    msi_child_free(child);
    return status;
}

static int make_set(const inputs *in, const workspace *w, const char *to)
{
    const msi_convert_options *o = in->o;
    const char *name = o->shared.ms_paths[0];
    const msi_sets_job job = {o, in->path, o->shared.n_ms, name, becomes_fits(o->out), w ? workspace_folder(w) : NULL,
                              to};
    const stage_spec stage = {.work = msi_convert_sets,
                              .job = &job,
                              .name = "converting",
                              .path = name,
                              .folder = w ? workspace_folder(w) : NULL,
                              .out = o->out};
    return run_stage(&stage);
}

static int make_store(const msi_convert_options *o, const workspace *w, const char *to)
{
    const msi_store_job job = {o, to};
    const stage_spec stage = {.work = msi_convert_store,
                              .job = &job,
                              .name = "converting",
                              .path = o->shared.ms_paths[0],
                              .folder = w ? workspace_folder(w) : NULL,
                              .out = o->out};
    return run_stage(&stage);
}

static int export_file(const inputs *in, const workspace *w, const char *set)
{
    char fits[PATH_MAX];
    MSI_TRY(workspace_path(w, "out.uvfits", fits, sizeof fits));
    const msi_export_job job = {set, fits, in->o->out, in->o->shared.command_line};
    const stage_spec stage = {.work = msi_export_fits,
                              .job = &job,
                              .name = "writing",
                              .path = in->o->out,
                              .folder = workspace_folder(w),
                              .out = in->o->out};
    return run_stage(&stage);
}

static int make_all(inputs *in, workspace *w)
{
    char set[PATH_MAX];
    MSI_TRY(workspace_path(w, "set.ms", set, sizeof set));
    if (msi_convert_is_store(in->o->out)) {
        MSI_TRY(make_store(in->o, w, set));
        return workspace_publish(w, "set.ms");
    }
    MSI_TRY(make_set(in, w, set));
    if (!becomes_fits(in->o->out)) return workspace_publish(w, "set.ms");
    MSI_TRY(export_file(in, w, set));
    return workspace_publish(w, "out.uvfits");
}

static int convert_inputs(inputs *in)
{
    const msi_convert_options *o = in->o;
    workspace *w;
    MSI_TRY(find_inputs(in));
    if (o->shared.dry_run) return msi_convert_is_store(o->out) ? make_store(o, NULL, NULL) : make_set(in, NULL, NULL);
    MSI_TRY(workspace_make(&w, o->out, o->shared.overwrite));
    const int status = make_all(in, w);
    workspace_free(w);
    if (!status) msi_log_info("wrote %s", o->out);
    return status;
}

/*
 * run_conversion - convert the inputs to the output.
 * Returns: 0, MSI_EUSAGE, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM, MSI_ELOCKED, MSI_EINTERRUPTED
 * Notes:   call it in a process with one thread. The output is not touched until the result is complete.
 */
static int run_conversion(const msi_convert_options *o)
{
    inputs in = {.o = o};
    MSI_TRY(check_inputs(o));
    MSI_TRY(workspace_check(o->out, o->shared.given_paths, o->shared.n_given, o->shared.overwrite));
    const int status = convert_inputs(&in);
    free_inputs(&in);
    return status;
}

static int run_action(msi_convert_options *o)
{
    switch (o->shared.action) {
    case MSI_ACTION_HELP:
        msi_convert_options_help();
        return MSI_OK;
    case MSI_ACTION_VERSION:
        puts("msimage-convert " MSIMAGE_VERSION);
        return MSI_OK;
    default:
        break;
    }
    msi_interrupt_install();
    msi_log_setup(o->shared.log_level, o->shared.log_time);
    msi_memory_limit_set(o->shared.memory_limit_bytes);
    MSI_TRY(msi_options_expand_multi_ms(&o->shared));
    return run_conversion(o);
}

MSI_PREFER_PASSIVE_THREADS;

int main(int argc, char **argv)
{
    msi_convert_options options = {0};
    struct timespec began;
    timespec_get(&began, TIME_UTC);
    msi_process_hold_standard_files();
    msi_log_program("msimage-convert");
    msi_wall_s();
    int is_raised, rc = msi_process_limits_stack(&is_raised);
    if (!rc) rc = msi_process_limits_files();
    if (!rc) rc = msi_convert_options_parse(&options, argc, (const char *const *)argv);
    if (!rc) rc = run_action(&options);
    if (!rc && (ferror(stdout) | fflush(stdout)))
        rc = msi_error_set(MSI_EOUTPUT, "standard output: %s", strerror(errno ? errno : EIO));
    rc = msi_hint_append_writer(msi_hint_append(rc), options.shared.given_paths, options.shared.n_given, &began);
    if (rc) msi_log_error(msi_error_get());
    msi_convert_options_free(&options);
    return msi_exit_code(rc);
}
