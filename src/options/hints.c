/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/hints.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/status.h"
#include "io/ms/ms_mark.h"

const msi_hint_row msi_hint_table[] = {
    {"accuracy", "use a larger -accuracy", 0},
    {"backend", "use -backend cpu", 0},
    {"channel", "change -channel-range", 1},
    {"field", "change -field", 1},
    {"kernel", "use -kernel auto", 0},
    {"memory", "allow more with -abs-mem or -mem", 0},
    {"method", "use -gridder wgrid", 0},
    {"n_reader", "use -readers 1", 0},
    {"n_row", "image fewer rows at a time with -interval", 0},
    {"n_slice", "use more -wstack-slices", 0},
    {"overwrite", "-overwrite replaces it", 0},
    {"spectral window", "change -spws", 1},
    {"strategy", "use -strategy auto", 0},
    {"temp_dir", "use -temp-dir to choose another directory", 0},
    {"timestep", "change -interval", 1},
    {"w_max_lambda", "correct rows with a wrong W, or leave them out with -maxuvw-m", 1},
};
const int msi_hint_count = sizeof msi_hint_table / sizeof *msi_hint_table;

static const char GPU_MEMORY[] =
    "; nvidia-smi lists the processes that use the GPU; use -gpus to choose other GPUs, or -backend cpu";

/* CUDA reports a failed allocation in words. cuFFT reports plans whose tables do not fit by CUFFT_ALLOC_FAILED (2) and
 * CUFFT_INTERNAL_ERROR (5). */
static int is_gpu_memory(const char *line)
{
    if (strstr(line, GPU_MEMORY)) return 0;
    return strstr(line, "out of memory") || strstr(line, "cuFFT error 2") || strstr(line, "cuFFT error 5");
}

int msi_hint_append(int status)
{
    const int out_of_range = status == MSI_ERANGE;
    if (status == MSI_EGPU && !*msi_error_about_get() && is_gpu_memory(msi_error_get()))
        return msi_error_append(status, "%s", GPU_MEMORY);
    for (int i = 0; status && i < msi_hint_count; i++) {
        const msi_hint_row *row = &msi_hint_table[i];
        if (strcmp(msi_error_about_get(), row->about) != 0) continue;
        if (out_of_range) status = row->is_input ? MSI_EINPUT : MSI_EUSAGE;
        return msi_error_about(msi_error_append(status, "; %s", row->words), "");
    }
    return out_of_range ? MSI_EUSAGE : status;
}

/* Return 1 if a file of a table was changed after the given time. */
static int is_changed(const char *path, const struct timespec *since)
{
    char name[4096];
    int changed = 0;
    DIR *folder = opendir(path);
    for (const struct dirent *e = NULL; folder && !changed && (e = readdir(folder));) {
        struct stat s;
        if (strncmp(e->d_name, "table.", 6) != 0) continue;
        if (snprintf(name, sizeof name, "%s/%s", path, e->d_name) >= (int)sizeof name || stat(name, &s) != 0) continue;
        changed = s.st_mtim.tv_sec > since->tv_sec ||
                  (s.st_mtim.tv_sec == since->tv_sec && s.st_mtim.tv_nsec > since->tv_nsec);
    }
    if (folder) closedir(folder);
    return changed;
}

int msi_hint_append_writer(int status, const char *const *paths, int n, const struct timespec *began)
{
    const int is_damage = status == MSI_EINPUT && strstr(msi_error_get(), "truncated or corrupt");
    /* The files of a table that is being written may be inconsistent. */
    for (int i = 0; i < n && status == MSI_EINPUT; i++)
        if ((is_damage || strstr(msi_error_get(), paths[i])) && msi_ms_watch_is_locked(paths[i]))
            return msi_error_append(status, "; another process writes into %s: try again when it has ended", paths[i]);
    /* A process holds no lock between two of its writes. */
    for (int i = 0; i < n && is_damage && began; i++)
        if (is_changed(paths[i], began))
            return msi_error_append(status,
                                    "; files of %s have changed since this run began: if another process writes "
                                    "into it, try again when it has ended",
                                    paths[i]);
    return status;
}
