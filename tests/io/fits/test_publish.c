/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Publishing sets of files: they are checked first, published as a whole, and temporary files are removed. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/fits/publish.h"
#include "tests/support/temp_folder.h"

static int n_files(void)
{
    return temp_folder_n_file(temp_folder);
}

static void put_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void assert_content(const char *name, const char *text)
{
    char buffer[64] = "";
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    size_t n = fread(buffer, 1, sizeof buffer - 1, f);
    fclose(f);
    buffer[n] = 0;
    assert_string_equal(buffer, text);
}

static void put_all(msi_publish *p, const char *text)
{
    for (int i = 0; i < msi_publish_n(p); i++) {
        int fd;
        assert_int_equal(msi_publish_begin(p, i, &fd), MSI_OK);
        assert_int_equal(msi_publish_write(p, i, text, strlen(text)), MSI_OK);
        assert_int_equal(msi_publish_seal(p, i), MSI_OK);
    }
}

/* link(2) of the tested code, by -Wl,--wrap=link. A file system without hard links says EPERM. */
static int no_links;
int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
    errno = EPERM;
    return no_links ? -1 : __real_link(from, to);
}

/* A second name of an output is a hard link where there are such, else a copy; both replace what was there. */
static void a_second_name(void **state)
{
    (void)state;
    const char *name[] = {"a", "b"};
    for (no_links = 0; no_links < 2; no_links++)
        for (int overwrite = 0; overwrite < 2; overwrite++) {
            char text[64];
            struct stat a, b;
            msi_publish *p;
            int fd;
            snprintf(text, sizeof text, "text %d %d", no_links, overwrite);
            assert_int_equal(msi_publish_plan(&p, name, 2, overwrite), MSI_OK);
            assert_int_equal(msi_publish_links(p), !no_links);
            assert_int_equal(msi_publish_begin(p, 0, &fd), MSI_OK);
            assert_int_equal(msi_publish_link(p, 1, 0), MSI_EINTERNAL);
            assert_int_equal(msi_publish_write(p, 0, text, strlen(text)), MSI_OK);
            assert_int_equal(msi_publish_seal(p, 0), MSI_OK);
            assert_int_equal(msi_publish_link(p, 1, 0), MSI_OK);
            assert_int_equal(msi_publish_commit(p), MSI_OK);
            msi_publish_free(p);
            assert_content("a", text);
            assert_content("b", text);
            assert_int_equal(n_files(), 2);
            assert_int_equal(stat("a", &a) | stat("b", &b), 0);
            assert_true((a.st_ino == b.st_ino) == !no_links);
            if (overwrite) assert_int_equal(unlink("a") | unlink("b"), 0);
        }
    no_links = 0;
}

static void set_appears_whole(void **state)
{
    (void)state;
    const char *name[] = {"[1:5] a", "-b%s%n", "sub/~c"};
    mkdir("sub", 0777);
    msi_publish *p;
    assert_int_equal(msi_publish_plan(&p, name, 3, 0), MSI_OK);
    assert_int_equal(n_files(), 1);
    unsigned char *bytes;
    int64_t n;
    assert_int_equal(msi_publish_read(p, 0, &bytes, &n), MSI_EINTERNAL);
    put_all(p, "new");
    assert_int_equal(access(name[0], F_OK), -1);
    assert_int_equal(msi_publish_read(p, 0, &bytes, &n), MSI_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(bytes, "new", 3);
    msi_free(bytes);
    assert_int_equal(msi_publish_commit(p), MSI_OK);
    msi_publish_free(p);
    for (int i = 0; i < 3; i++) assert_content(name[i], "new");
    assert_int_equal(n_files(), 3);
    mode_t mask = umask(0);
    umask(mask);
    struct stat st;
    assert_int_equal(stat(name[0], &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
}

static void existing_output_is_refused(void **state)
{
    (void)state;
    const char *name[] = {"a", "b"};
    put_file("b", "old");
    msi_publish *p = NULL;
    assert_int_equal(msi_publish_plan(&p, name, 2, 0), MSI_EARGUMENT);
    assert_null(p);
    assert_non_null(strstr(msi_error_get(), "b: already exists"));
    assert_int_equal(msi_publish_plan(&p, name, 2, 1), MSI_OK);
    put_all(p, "new");
    assert_content("b", "old");
    assert_int_equal(msi_publish_commit(p), MSI_OK);
    msi_publish_free(p);
    assert_content("b", "new");
    assert_int_equal(n_files(), 2);
}

static void impossible_names_are_refused(void **state)
{
    (void)state;
    char long_name[300], longest[256], path[4096];
    memset(long_name, 'x', sizeof long_name);
    long_name[299] = 0;
    memset(longest, 'y', sizeof longest);
    longest[255] = 0;
    mkdir("directory", 0777);
    mkfifo("fifo", 0666);
    assert_int_equal(symlink("nowhere", "dangling"), 0);
    const struct {
        const char *name;
        int overwrite, status;
    } cases[] = {
        {"missing/a", 0, MSI_EOUTPUT}, {"fifo/a", 0, MSI_EOUTPUT},    {"directory", 0, MSI_EOUTPUT},
        {"directory", 1, MSI_EOUTPUT}, {"fifo", 1, MSI_EOUTPUT},      {"directory/", 0, MSI_EARGUMENT},
        {"", 0, MSI_EARGUMENT},        {long_name, 0, MSI_EOUTPUT},   {"dangling", 0, MSI_EARGUMENT},
        {"/proc/a", 0, MSI_EOUTPUT},   {"/dev/full", 1, MSI_EOUTPUT},
    };
    int before = n_files();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        msi_publish *p = NULL;
        int rc = msi_publish_plan(&p, &cases[i].name, 1, cases[i].overwrite);
        if (rc != cases[i].status) fail_msg("'%s': %d, %s", cases[i].name, rc, msi_error_get());
        assert_null(p);
    }
    const char *twice[] = {"a", "b", "a"};
    msi_publish *p = NULL;
    assert_int_equal(msi_publish_plan(&p, twice, 3, 1), MSI_EARGUMENT);
    assert_int_equal(n_files(), before);

    /* The longest possible name, in a path of almost 4 kB. */
    strcpy(path, temp_folder);
    while (strlen(path) + 257 + 256 < sizeof path) {
        strcat(path, "/");
        strcat(path, longest);
        assert_int_equal(mkdir(path, 0777), 0);
    }
    strcat(path, "/");
    strcat(path, longest);
    const char *name = path;
    assert_int_equal(msi_publish_plan(&p, &name, 1, 0), MSI_OK);
    put_all(p, "far");
    assert_int_equal(msi_publish_commit(p), MSI_OK);
    msi_publish_free(p);
    assert_content(path, "far");
}

static void unwritable_directory_is_refused(void **state)
{
    (void)state;
    if (geteuid() == 0) skip(); /* root may write anywhere */
    mkdir("shut", 0555);
    const char *name = "shut/a";
    msi_publish *p = NULL;
    assert_int_equal(msi_publish_plan(&p, &name, 1, 0), MSI_EOUTPUT);
}

static void abandoned_set_leaves_nothing(void **state)
{
    (void)state;
    const char *name[] = {"a", "b"};
    msi_publish *p;
    int fd;
    assert_int_equal(msi_publish_plan(&p, name, 2, 0), MSI_OK);
    assert_int_equal(msi_publish_begin(p, 0, &fd), MSI_OK);
    assert_int_equal(msi_publish_seal(p, 0), MSI_OK);
    assert_int_equal(msi_publish_begin(p, 1, &fd), MSI_OK);
    assert_int_equal(n_files(), 2);
    assert_int_equal(msi_publish_commit(p), MSI_EINTERNAL);
    msi_publish_free(p);
    assert_int_equal(n_files(), 0);
    msi_publish_free(NULL);
}

static void emergency_removes_temporaries_only(void **state)
{
    (void)state;
    const char *name[] = {"a", "b"};
    msi_publish *p;
    int fd;
    assert_int_equal(msi_publish_plan(&p, name, 1, 0), MSI_OK);
    put_all(p, "done");
    assert_int_equal(msi_publish_commit(p), MSI_OK);
    msi_publish_free(p);
    assert_int_equal(msi_publish_plan(&p, name + 1, 1, 0), MSI_OK);
    assert_int_equal(msi_publish_begin(p, 0, &fd), MSI_OK);
    assert_int_equal(n_files(), 2);
    msi_publish_emergency();
    assert_int_equal(n_files(), 1);
    assert_content("a", "done");
    msi_publish_free(p);
}

static void a_file_that_appears_meanwhile_stays(void **state)
{
    (void)state;
    const char *name[] = {"a", "b"};
    msi_publish *p;
    assert_int_equal(msi_publish_plan(&p, name, 2, 0), MSI_OK);
    put_all(p, "new");
    put_file("b", "theirs");
    assert_int_equal(msi_publish_commit(p), MSI_EOUTPUT);
    msi_publish_free(p);
    assert_content("b", "theirs");
    assert_int_equal(n_files(), 1);
}

static void directory_gone_meanwhile(void **state)
{
    (void)state;
    const char *name = "sub/a";
    mkdir("sub", 0777);
    msi_publish *p;
    assert_int_equal(msi_publish_plan(&p, &name, 1, 0), MSI_OK);
    put_all(p, "new");
    assert_int_equal(rename("sub", "moved"), 0);
    assert_int_equal(msi_publish_commit(p), MSI_EOUTPUT);
    assert_int_equal(rename("moved", "sub"), 0);
    msi_publish_free(p);
    assert_int_equal(rmdir("sub"), 0);
}

/* Run in a child: the flag of an arrived signal stays for the life of a process. */
static void interrupt_publishes_nothing(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        const char *name = "a";
        msi_publish *p;
        int fd, bad = msi_publish_plan(&p, &name, 1, 0) || msi_publish_begin(p, 0, &fd) || msi_publish_seal(p, 0);
        msi_interrupt_raise(SIGINT);
        bad |= msi_publish_commit(p) != MSI_EINTERRUPTED;
        msi_publish_free(p);
        _exit(bad || n_files() != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void file_size_limit_is_an_output_error(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        const char *name = "a";
        static const char block[8192];
        msi_publish *p;
        int fd;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
        int bad = msi_publish_plan(&p, &name, 1, 0) || msi_publish_begin(p, 0, &fd);
        bad |= msi_publish_write(p, 0, block, sizeof block) != MSI_EOUTPUT;
        bad |= !strstr(msi_error_get(), strerror(EFBIG)) || strncmp(msi_error_get(), "a: ", 3) != 0;
        msi_publish_free(p);
        _exit(bad || n_files() != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, temp_folder_enter, temp_folder_leave)
    const struct CMUnitTest tests[] = {
        TEST(a_second_name),
        TEST(set_appears_whole),
        TEST(existing_output_is_refused),
        TEST(impossible_names_are_refused),
        TEST(unwritable_directory_is_refused),
        TEST(abandoned_set_leaves_nothing),
        TEST(emergency_removes_temporaries_only),
        TEST(a_file_that_appears_meanwhile_stays),
        TEST(directory_gone_meanwhile),
        TEST(interrupt_publishes_nothing),
        TEST(file_size_limit_is_an_output_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
