/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/hints.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/status.h"
#include "io/ms/ms_watch.h"

const msi_remedy_row msi_remedy_table[] = {
    {"accuracy", "a larger -accuracy asks for less", 0},
    {"backend", "try -backend cpu", 0},
    {"kernel", "-kernel auto chooses what fits", 0},
    {"method", "try -gridder wgrid", 0},
    {"n_reader", "-readers 1 takes less", 0},
    {"n_row", "image fewer at a time (-interval)", 0},
    {"n_slice", "more slices of w (-wstack-slices) make it smaller", 0},
    {"overwrite", "-overwrite replaces it", 0},
    {"strategy", "-strategy auto chooses what fits", 0},
    {"temp_dir", "-temp-dir names another folder", 0},
    {"w_max_lambda", "correct rows whose W is wrong, or leave them out (-maxuvw-m)", 1},
};
const int msi_remedy_count = sizeof msi_remedy_table / sizeof *msi_remedy_table;

static const char GPU_MEMORY[] = "; nvidia-smi shows who has the GPU's memory: -gpus takes others, -backend cpu none";

/* CUDA says so of an allocation; cuFFT, by its numbers 2 and 5, of plans whose tables it has no room for. */
static int is_gpu_memory(const char *line)
{
    if (strstr(line, GPU_MEMORY)) return 0;
    return strstr(line, "out of memory") || strstr(line, "cuFFT error 2") || strstr(line, "cuFFT error 5");
}

int msi_remedy_append(int status)
{
    const int out_of_range = status == MSI_ERANGE;
    if (status == MSI_EGPU && !*msi_error_about_get() && is_gpu_memory(msi_error_get()))
        return msi_error_append(status, "%s", GPU_MEMORY);
    for (int i = 0; status && i < msi_remedy_count; i++) {
        const msi_remedy_row *row = &msi_remedy_table[i];
        if (strcmp(msi_error_about_get(), row->about) != 0) continue;
        if (out_of_range) status = row->is_input ? MSI_EINPUT : MSI_EUSAGE;
        return msi_error_about(msi_error_append(status, "; %s", row->words), "");
    }
    return out_of_range ? MSI_EUSAGE : status;
}

/* Say whether a file of a table was changed after a moment. */
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

int msi_remedy_writer(int status, const char *const *paths, int n, const struct timespec *began)
{
    const int is_damage = status == MSI_EINPUT && strstr(msi_error_get(), "truncated or corrupt");
    /* The files of a table that is being written do not agree with one another. */
    for (int i = 0; i < n && status == MSI_EINPUT; i++)
        if ((is_damage || strstr(msi_error_get(), paths[i])) && msi_ms_watch_is_locked(paths[i]))
            return msi_error_append(status, "; another process writes into %s: try again when it has ended", paths[i]);
    /* Between two of its writes a process holds no lock. */
    for (int i = 0; i < n && is_damage && began; i++)
        if (is_changed(paths[i], began))
            return msi_error_append(status,
                                    "; files of %s have changed since this run began: if another process writes "
                                    "into it, try again when it has ended",
                                    paths[i]);
    return status;
}
