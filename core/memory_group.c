/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A group's limit binds all groups below it, and a job often runs in a step of the group that has the limit: so every
 * folder up to the mount's own is asked. In a container the mount may be the container's group, which the list of
 * groups names by a path that is not there; what is left of it at last is the mount.
 */
#include "core/memory_group.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Read one limit: a number; "max", or no file, is none. */
static int64_t read_limit(const char *path)
{
    long long bytes;
    FILE *f = fopen(path, "r");
    if (!f) return INT64_MAX;
    const int is_number = fscanf(f, "%lld", &bytes) == 1 && bytes > 0;
    fclose(f);
    return is_number ? bytes : INT64_MAX;
}

/* Find the least limit from a group upwards; the group's path is cut short. */
static int64_t least_upwards(const char *mount, const char *below, char *group, const char *name)
{
    int64_t least = INT64_MAX;
    for (;;) {
        char path[PATH_MAX];
        if (snprintf(path, sizeof path, "%s%s%s/%s", mount, below, group, name) < (int)sizeof path) {
            const int64_t bytes = read_limit(path);
            if (bytes < least) least = bytes;
        }
        char *end = strrchr(group, '/');
        if (!end) return least;
        *end = '\0';
    }
}

/* Tell whether a list of words between commas has "memory". */
static int has_memory(const char *controllers)
{
    for (const char *p = controllers; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, "memory", 6) == 0 && (p[6] == ',' || p[6] == '\0')) return 1;
    }
    return 0;
}

int64_t msi_memory_group_limit(const char *membership, const char *mount)
{
    int64_t least = INT64_MAX;
    char line[PATH_MAX + 256];
    FILE *f = fopen(membership, "r");
    if (!f) return least;
    /* A line is number:controllers:path; version 2 has no controllers there. */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        controllers++;
        int64_t bytes = INT64_MAX;
        if (!*controllers)
            bytes = least_upwards(mount, "", group, "memory.max");
        else if (has_memory(controllers))
            bytes = least_upwards(mount, "/memory", group, "memory.limit_in_bytes");
        if (bytes < least) least = bytes;
    }
    fclose(f);
    return least;
}
