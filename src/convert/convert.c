/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/convert.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/status.h"
#include "src/convert/convert_sets.h"
#include "src/convert/workspace.h"

static int make_set(const msi_convert_options *o, const msi_workspace *w, const char *to)
{
    const msi_sets_job job = {o, o->shared.ms_paths, o->shared.n_ms, 0, to, o->out};
    const msi_stage_spec stage = {msi_convert_sets, &job, "converting", o->shared.ms_paths[0],
                                  w ? msi_workspace_folder(w) : NULL};
    return msi_stage_run(&stage);
}

static int make_all(const msi_convert_options *o, msi_workspace *w)
{
    char set[PATH_MAX];
    MSI_TRY(msi_workspace_path(w, "set.ms", set, sizeof set));
    MSI_TRY(make_set(o, w, set));
    return msi_workspace_publish(w, "set.ms");
}

int msi_convert(const msi_convert_options *o)
{
    msi_workspace *w;
    MSI_TRY(msi_workspace_check(o->out, o->shared.ms_paths, o->shared.n_ms, o->shared.overwrite));
    if (o->shared.dry_run) return make_set(o, NULL, NULL);
    MSI_TRY(msi_workspace_make(&w, o->out, o->shared.overwrite));
    const int status = make_all(o, w);
    msi_workspace_free(w);
    if (!status) msi_log_info("wrote %s", o->out);
    return status;
}
