/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/convert_stages.h"

#include "core/child.h"
#include "core/progress.h"
#include "io/convert/set_output.h"

static int run_work(msi_child *self, void *of)
{
    const msi_stage_spec *spec = of;
    (void)self;
    const int status = spec->work(spec->job);
    return spec->folder ? msi_set_output_explain(status, spec->folder, spec->out) : status;
}

int msi_stage_run(const msi_stage_spec *spec)
{
    msi_child *child;
    msi_stage_spec of = *spec;
    const msi_child_spec process = {.work = run_work,
                                    .of = &of,
                                    .what = "the process that converts",
                                    .path = spec->path,
                                    .cpu_s = MSI_CHILD_STEP_S,
                                    .reports = 1};
    MSI_TRY(msi_child_start(&child, &process));
    msi_progress_begin(spec->name);
    int status = msi_child_await_done(child, MSI_EINPUT);
    if (!status) msi_progress_end();
    /* On a full disk casacore may crash. */
    if (status == MSI_EINPUT && spec->folder) status = msi_set_output_explain(status, spec->folder, spec->out);
    msi_child_free(child);
    return status;
}
