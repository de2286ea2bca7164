/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * msimage-convert: convert, select, average and join Measurement Sets and UVFITS files.
 *
 * A conversion has these stages, each in its own process:
 *   1. The sets, UVFITS and FITS-IDI files are converted to one set (convert_sets.c), or one to a visibility store
 *      (convert_store.c).
 *   2. If the output is a UVFITS file, the set is exported (convert_sets.c).
 * At the end the result gets the name of the output (workspace.c).
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/child.h"
#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/progress.h"
#include "core/status.h"
#include "io/convert/set_output.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"
#include "io/uv/uv_set.h"
#include "src/convert/convert_options.h"
#include "src/convert/convert_stages.h"
#include "src/convert/workspace.h"
#include "src/options/hints.h"

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

/* Return 1 if the output has the name of a UVFITS file. */
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

/* Refuse inputs that are neither folders nor FITS files before anything is written. */
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
    const char *folder; /* the workspace; NULL: nothing is written */
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
    /* On a full disk casacore may crash, or end the process by an exception. */
    if (status && spec->folder) status = msi_set_output_explain(status, spec->folder, spec->out);
    msi_child_free(child);
    return status;
}

static int make_set(const inputs *in, const msi_workspace *w, const char *to)
{
    const msi_convert_options *o = in->o;
    const char *name = o->shared.ms_paths[0];
    const msi_sets_job job = {
        o, in->path, o->shared.n_ms, name, becomes_fits(o->out), w ? msi_workspace_folder(w) : NULL, to};
    const stage_spec stage = {.work = msi_convert_sets,
                              .job = &job,
                              .name = "converting",
                              .path = name,
                              .folder = w ? msi_workspace_folder(w) : NULL,
                              .out = o->out};
    return run_stage(&stage);
}

static int make_store(const msi_convert_options *o, const msi_workspace *w, const char *to)
{
    const msi_store_job job = {o, to};
    const stage_spec stage = {.work = msi_convert_store,
                              .job = &job,
                              .name = "converting",
                              .path = o->shared.ms_paths[0],
                              .folder = w ? msi_workspace_folder(w) : NULL,
                              .out = o->out};
    return run_stage(&stage);
}

static int export_file(const inputs *in, const msi_workspace *w, const char *set)
{
    char fits[PATH_MAX];
    MSI_TRY(msi_workspace_path(w, "out.uvfits", fits, sizeof fits));
    const msi_export_job job = {set, fits, in->o->out, in->o->shared.command_line};
    const stage_spec stage = {.work = msi_export_fits,
                              .job = &job,
                              .name = "writing",
                              .path = in->o->out,
                              .folder = msi_workspace_folder(w),
                              .out = in->o->out};
    return run_stage(&stage);
}

static int make_all(inputs *in, msi_workspace *w)
{
    char set[PATH_MAX];
    MSI_TRY(msi_workspace_path(w, "set.ms", set, sizeof set));
    if (msi_convert_is_store(in->o->out)) {
        MSI_TRY(make_store(in->o, w, set));
        return msi_workspace_publish(w, "set.ms");
    }
    MSI_TRY(make_set(in, w, set));
    if (!becomes_fits(in->o->out)) return msi_workspace_publish(w, "set.ms");
    MSI_TRY(export_file(in, w, set));
    return msi_workspace_publish(w, "out.uvfits");
}

static int convert_inputs(inputs *in)
{
    const msi_convert_options *o = in->o;
    msi_workspace *w;
    MSI_TRY(find_inputs(in));
    if (o->shared.dry_run) return msi_convert_is_store(o->out) ? make_store(o, NULL, NULL) : make_set(in, NULL, NULL);
    MSI_TRY(msi_workspace_make(&w, o->out, o->shared.overwrite));
    const int status = make_all(in, w);
    msi_workspace_free(w);
    if (!status) msi_log_info("wrote %s", o->out);
    return status;
}

/*
 * run_conversion - convert the inputs to the output.
 * Returns: 0, MSI_EUSAGE, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM, MSI_ELOCKED, MSI_EINTERRUPTED
 * Notes:   call it from a process with one thread. The name of the output is not touched until the result is complete.
 */
static int run_conversion(const msi_convert_options *o)
{
    inputs in = {.o = o};
    MSI_TRY(check_inputs(o));
    MSI_TRY(msi_workspace_check(o->out, o->shared.given_paths, o->shared.n_given, o->shared.overwrite));
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
