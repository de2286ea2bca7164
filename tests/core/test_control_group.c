/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests limits of control groups, with a copy of the kernel's directory tree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/process.h"
#include "tests/support/temp_folder.h"

static void write_file(const char *path, const char *text)
{
    char folder[256];
    for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(folder, sizeof folder, "%.*s", (int)(p - path), path);
        mkdir(folder, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int64_t limit_of(const char *membership)
{
    write_file("membership", membership);
    return msi_control_group_memory("membership", "groups");
}

/* A batch system limits the job. The process is in a child group of it, and the machine's own group has no limit. */
static void a_job_above_the_step_limits(void **state)
{
    (void)state;
    write_file("groups/system/job_7/memory.max", "17179869184\n");
    write_file("groups/system/job_7/step_0/memory.max", "max\n");
    write_file("groups/system/memory.max", "34359738368\n");
    assert_int_equal(limit_of("0::/system/job_7/step_0\n"), INT64_C(17179869184));
    assert_int_equal(limit_of("0::/system\n"), INT64_C(34359738368));
    assert_int_equal(limit_of("0::/elsewhere\n"), INT64_MAX);
}

/* A container's mount is its own group. The path of the group outside does not exist there. */
static void a_containers_mount_limits(void **state)
{
    (void)state;
    write_file("groups/memory.max", "4294967296\n");
    assert_int_equal(limit_of("0::/\n"), INT64_C(4294967296));
    assert_int_equal(limit_of("0::/docker/0123456789abcdef\n"), INT64_C(4294967296));
    assert_int_equal(remove("groups/memory.max"), 0);
}

static void the_first_version_has_a_tree_for_memory(void **state)
{
    (void)state;
    write_file("groups/memory/slurm/uid_1/job_2/memory.limit_in_bytes", "2147483648\n");
    write_file("groups/memory/slurm/uid_1/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(limit_of("11:cpuset:/\n9:memory:/slurm/uid_1/job_2/step_batch\n1:name=systemd:/user\n0::/user\n"),
                     INT64_C(2147483648));
    assert_int_equal(limit_of("4:hugetlb,memory:/slurm/uid_1/job_2\n"), INT64_C(2147483648));
    assert_int_equal(limit_of("4:memory_pressure,cpu:/slurm/uid_1/job_2\n"), INT64_MAX);
}

static void unreadable_limits_limit_nothing(void **state)
{
    (void)state;
    assert_int_equal(msi_control_group_memory("missing", "groups"), INT64_MAX);
    assert_int_equal(limit_of(""), INT64_MAX);
    assert_int_equal(limit_of("no colons\n1:memory\n:\n"), INT64_MAX);
    write_file("groups/odd/memory.max", "-1\n");
    assert_int_equal(limit_of("0::/odd\n"), INT64_MAX);
    write_file("groups/odd/memory.max", "plenty\n");
    assert_int_equal(limit_of("0::/odd\n"), INT64_MAX);
}

static int64_t cpus_of(const char *membership)
{
    write_file("membership", membership);
    return msi_control_group_cpus("membership", "groups");
}

static void quotas_are_processors_rounded_up(void **state)
{
    (void)state;
    write_file("groups/pod/cpu.max", "250000 100000\n");
    write_file("groups/pod/inner/cpu.max", "max 100000\n");
    assert_int_equal(cpus_of("0::/pod/inner\n"), 3);
    write_file("groups/pod/inner/cpu.max", "50000 100000\n");
    assert_int_equal(cpus_of("0::/pod/inner\n"), 1);
    assert_int_equal(cpus_of("0::/pod\n"), 3);
    assert_int_equal(cpus_of("0::/elsewhere\n"), INT64_MAX);
    write_file("groups/pod/cpu.max", "200000\n");
    assert_int_equal(cpus_of("0::/pod\n"), INT64_MAX);
}

/* In version 1 a container reads the group's path outside, and finds its own group at the mount. */
static void the_first_version_has_quota_and_period(void **state)
{
    (void)state;
    write_file("groups/cpu/job/cpu.cfs_quota_us", "-1\n");
    write_file("groups/cpu/job/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpus_of("4:cpu,cpuacct:/job\n0::/\n"), INT64_MAX);
    write_file("groups/cpu/job/cpu.cfs_quota_us", "400000\n");
    assert_int_equal(cpus_of("4:cpu,cpuacct:/job/step\n0::/\n"), 4);
    assert_int_equal(cpus_of("4:cpuset:/job\n3:cpuacct:/job\n"), INT64_MAX);
    write_file("groups/cpu/cpu.cfs_quota_us", "800000\n");
    write_file("groups/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(cpus_of("11:cpuacct,cpu:/docker/0123456789abcdef\n"), 8);
    write_file("groups/cpu/cpu.cfs_period_us", "0\n");
    assert_int_equal(cpus_of("11:cpuacct,cpu:/docker/0123456789abcdef\n"), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_above_the_step_limits),
        cmocka_unit_test(a_containers_mount_limits),
        cmocka_unit_test(the_first_version_has_a_tree_for_memory),
        cmocka_unit_test(quotas_are_processors_rounded_up),
        cmocka_unit_test(the_first_version_has_quota_and_period),
        cmocka_unit_test(unreadable_limits_limit_nothing),
    };
    return cmocka_run_group_tests(tests, temp_folder_enter, temp_folder_leave);
}
