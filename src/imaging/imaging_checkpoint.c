/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checkpoints of a run: their names, and when they are written, read and removed. */
#include "src/imaging/imaging_checkpoint.h"

#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "core/log.h"
#include "core/progress.h"
#include "core/status.h"
#include "src/clean/checkpoint.h"
#include "src/clean/clean_resume.h"

/* NAME[-tNNNN][-NNNN].clean. Nothing is allocated for it, so that a run whose images are complete does not fail. A name
 * that is longer than any path was refused with those of the images. */
typedef struct checkpoint_path {
    char text[PATH_MAX];
} checkpoint_path;

static checkpoint_path name_checkpoint(const msi_options *o, int64_t interval, int64_t first)
{
    checkpoint_path path;
    char t[32] = "", c[32] = "";
    if (o->intervals_out > 1) snprintf(t, sizeof t, "-t%04lld", (long long)interval);
    if (o->channels_out > 1 && !o->clean.join_channels) snprintf(c, sizeof c, "-%04lld", (long long)first);
    snprintf(path.text, sizeof path.text, "%s%s%s.clean", o->name, t, c);
    return path;
}

int msi_imaging_checkpoint_save(msi_imaging_run *run, msi_clean_field *field, int64_t first)
{
    const checkpoint_path path = name_checkpoint(run->options, run->interval, first);
    if (msi_wall_s() - run->checkpoint_at_s < run->options->clean.checkpoint_s) return MSI_OK;
    const int rc = msi_clean_save(field, &run->history, path.text);
    run->checkpoint_at_s = msi_wall_s();
    return rc;
}

int msi_imaging_checkpoint_load(msi_imaging_run *run, msi_clean_field *field, int64_t first, int *found)
{
    const checkpoint_path path = name_checkpoint(run->options, run->interval, first);
    int rc = MSI_OK;
    *found = 0;
    if (run->options->clean.resume) {
        rc = msi_clean_load(field, &run->history, path.text, found);
        if (!rc && *found) msi_log_info("going on from the checkpoint %s", path.text);
        if (!rc && !*found) msi_log_info("there is no checkpoint %s; cleaning begins anew", path.text);
    } else if (access(path.text, F_OK) == 0) {
        msi_log_advice("%s is a checkpoint that a run has left; -resume would go on from it", path.text);
    }
    return rc;
}

/* Call a function for the path of every checkpoint that a run may have. */
static int for_checkpoints(const msi_options *o, int (*call)(const char *path))
{
    const int64_t each = o->clean.join_channels ? o->channels_out : 1;
    for (int64_t t = 0; t < o->intervals_out; t++)
        for (int64_t first = 0; first < o->channels_out; first += each) {
            const checkpoint_path path = name_checkpoint(o, t, first);
            if (access(path.text, F_OK) == 0) MSI_TRY(call(path.text));
        }
    return MSI_OK;
}

int msi_imaging_checkpoint_forget(const msi_options *options)
{
    return for_checkpoints(options, msi_checkpoint_remove);
}

int msi_imaging_checkpoint_check(const msi_options *options)
{
    return options->clean.resume ? MSI_OK : for_checkpoints(options, msi_checkpoint_check_place);
}
