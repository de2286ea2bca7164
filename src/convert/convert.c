/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/convert.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/status.h"
#include "io/ms/ms_paths.h"
#include "io/msv/msv_file.h"
#include "src/convert/convert_sets.h"
#include "src/convert/convert_store.h"
#include "src/convert/workspace.h"

static int make_set(const msi_convert_options *o, const msi_workspace *w, const char *to)
{
    const msi_sets_job job = {o, o->shared.ms_paths, o->shared.n_ms, 0, to, o->out};
    const msi_stage_spec stage = {msi_convert_sets, &job, "converting", o->shared.ms_paths[0],
                                  w ? msi_workspace_folder(w) : NULL};
    return msi_stage_run(&stage);
}

static int make_store(const msi_convert_options *o, const msi_workspace *w, const char *to)
{
    const msi_store_job job = {o, to};
    const msi_stage_spec stage = {msi_convert_store, &job, "converting", o->shared.ms_paths[0],
                                  w ? msi_workspace_folder(w) : NULL};
    return msi_stage_run(&stage);
}

/* The kinds of output, by their names' ends. */
static int make_output(const msi_convert_options *o, const msi_workspace *w, const char *to)
{
    return msi_convert_is_store(o->out) ? make_store(o, w, to) : make_set(o, w, to);
}

static int check_inputs(const msi_convert_options *o)
{
    int a, b;
    for (int i = 0; i < o->shared.n_ms; i++)
        if (msi_msv_is_store(o->shared.ms_paths[i]))
            return msi_error_set(MSI_EUSAGE,
                                 "%s: is a visibility store, which has not all that a Measurement Set is made of: "
                                 "convert its set",
                                 o->shared.ms_paths[i]);
    if (msi_ms_paths_same(o->shared.ms_paths, o->shared.n_ms, &a, &b))
        return msi_error_set(MSI_EUSAGE, "%s and %s are the same: its rows would be there twice", o->shared.ms_paths[a],
                             o->shared.ms_paths[b]);
    return msi_convert_is_store(o->out) ? msi_convert_store_check(o) : MSI_OK;
}

static int make_all(const msi_convert_options *o, msi_workspace *w)
{
    char set[PATH_MAX];
    MSI_TRY(msi_workspace_path(w, "set.ms", set, sizeof set));
    MSI_TRY(make_output(o, w, set));
    return msi_workspace_publish(w, "set.ms");
}

int msi_convert(const msi_convert_options *o)
{
    msi_workspace *w;
    MSI_TRY(check_inputs(o));
    MSI_TRY(msi_workspace_check(o->out, o->shared.ms_paths, o->shared.n_ms, o->shared.overwrite));
    if (o->shared.dry_run) return make_output(o, NULL, NULL);
    MSI_TRY(msi_workspace_make(&w, o->out, o->shared.overwrite));
    const int status = make_all(o, w);
    msi_workspace_free(w);
    if (!status) msi_log_info("wrote %s", o->out);
    return status;
}
