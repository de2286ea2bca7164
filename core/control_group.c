/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A group's limit binds all groups below it, and a job often runs in a step of the group that has the limit: so every
 * folder up to the mount's own is asked. In a container the mount may be the container's group, which the list of
 * groups names by a path that is not there; what is left of it at last is the mount.
 */
#include "core/control_group.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* What is limited: the controller that does so, and how its limit is read from the files of a group's folder, which are
 * others in version 1. */
typedef struct resource {
    const char *controller;
    int64_t (*read)(const char *folder, int is_version_1);
} resource;

/* Read the first numbers of a file; returns how many there are. "max" is none. */
static int read_numbers(const char *folder, const char *name, long long number[2])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    const int n = fscanf(f, "%lld %lld", &number[0], &number[1]);
    fclose(f);
    return n > 0 ? n : 0;
}

static int64_t read_memory(const char *folder, int is_version_1)
{
    long long bytes[2];
    const char *name = is_version_1 ? "memory.limit_in_bytes" : "memory.max";
    return read_numbers(folder, name, bytes) > 0 && bytes[0] > 0 ? bytes[0] : INT64_MAX;
}

/* A group has so much processor time in each period. */
static int64_t read_cpus(const char *folder, int is_version_1)
{
    long long quota[2], period[2];
    int is_there;
    if (is_version_1) {
        is_there = read_numbers(folder, "cpu.cfs_quota_us", quota) > 0;
        is_there = is_there && read_numbers(folder, "cpu.cfs_period_us", period) > 0;
    } else {
        is_there = read_numbers(folder, "cpu.max", quota) == 2;
        period[0] = quota[1];
    }
    return is_there && quota[0] > 0 && period[0] > 0 ? quota[0] / period[0] + (quota[0] % period[0] > 0) : INT64_MAX;
}

/* Find the least limit from a group upwards; the group's path is cut short. */
static int64_t least_upwards(const resource *r, const char *mount, int is_version_1, char *group)
{
    int64_t least = INT64_MAX;
    for (;;) {
        char folder[PATH_MAX];
        const char *slash = is_version_1 ? "/" : "", *below = is_version_1 ? r->controller : "";
        if (snprintf(folder, sizeof folder, "%s%s%s%s", mount, slash, below, group) < (int)sizeof folder) {
            const int64_t limit = r->read(folder, is_version_1);
            if (limit < least) least = limit;
        }
        char *end = strrchr(group, '/');
        if (!end) return least;
        *end = '\0';
    }
}

/* Tell whether a list of words between commas has one. */
static int has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, length) == 0 && (p[length] == ',' || p[length] == '\0')) return 1;
    }
    return 0;
}

static int64_t least_of(const resource *r, const char *membership, const char *mount)
{
    int64_t least = INT64_MAX;
    char line[PATH_MAX + 256];
    FILE *f = fopen(membership, "re");
    if (!f) return least;
    /* A line is number:controllers:path; version 2 has no controllers there. */
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        controllers++;
        const int is_version_1 = *controllers != '\0';
        if (is_version_1 && !has_word(controllers, r->controller)) continue;
        const int64_t limit = least_upwards(r, mount, is_version_1, group);
        if (limit < least) least = limit;
    }
    fclose(f);
    return least;
}

int64_t msi_control_group_memory(const char *membership, const char *mount)
{
    const resource memory = {"memory", read_memory};
    return least_of(&memory, membership, mount);
}

int64_t msi_control_group_cpus(const char *membership, const char *mount)
{
    const resource cpu = {"cpu", read_cpus};
    return least_of(&cpu, membership, mount);
}
