/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests allocation: memory is zero and aligned, allocated bytes are counted, and requests beyond the limit fail. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"

/* Below and above the size from which blocks are mapped. */
static const int64_t SIZES[] = {0, 1, 63, 64, 65, 4096, 5 << 20};
enum { N_SIZE = sizeof SIZES / sizeof *SIZES };

static void test_blocks_are_zero_aligned_and_counted(void **state)
{
    (void)state;
    const int64_t before = msi_memory_in_use();
    for (int round = 0; round < 2; round++) /* the second round reuses memory of the first */
        for (int k = 0; k < N_SIZE; k++) {
            unsigned char *p;
            assert_int_equal(msi_alloc(&p, SIZES[k], 1, "test"), MSI_OK);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % 64, 0);
            for (int64_t i = 0; i < SIZES[k]; i++) assert_int_equal(p[i], 0);
            memset(p, 0xff, (size_t)SIZES[k]);
            const int64_t counted = msi_memory_in_use() - before;
            assert_true(counted >= SIZES[k] && counted <= SIZES[k] + 128);
            msi_free(p);
            assert_int_equal(msi_memory_in_use(), before);
        }
    msi_free(NULL);
}

/* Large blocks begin at a huge page, with their header. */
static void test_large_blocks_begin_with_a_huge_page(void **state)
{
    (void)state;
    enum { N = 8, HUGE_PAGE = 2 << 20, IN_FRONT = 64 };
    char *p[N];
    for (int64_t k = 0; k < N; k++) {
        assert_int_equal(msi_alloc(&p[k], HUGE_PAGE - IN_FRONT + 1000 * k, 1, "large"), MSI_OK);
        assert_int_equal((uintptr_t)p[k] % HUGE_PAGE, IN_FRONT);
        memset(p[k], 1, (size_t)(HUGE_PAGE - IN_FRONT + 1000 * k));
    }
    for (int k = 0; k < N; k++) msi_free(p[k]);
}

/* Growing keeps the old elements, and the new ones are zero. On failure the array does not change. */
static void test_grow(void **state)
{
    (void)state;
    const int64_t before = msi_memory_in_use();
    int *list = NULL;
    assert_int_equal(msi_grow(&list, 0, 3, sizeof *list, "test"), MSI_OK);
    for (int i = 0; i < 3; i++) list[i] = 7 + i;
    assert_int_equal(msi_grow(&list, 3, 1000, sizeof *list, "test"), MSI_OK);
    for (int i = 0; i < 1000; i++) assert_int_equal(list[i], i < 3 ? 7 + i : 0);
    int *const same = list;
    assert_int_equal(msi_grow(&list, 1000, INT64_MAX, sizeof *list, "test"), MSI_ENOMEM);
    assert_ptr_equal(list, same);
    assert_int_equal(list[2], 9);
    msi_free(list);
    assert_int_equal(msi_memory_in_use(), before);
}

static void check_refused(int64_t n, size_t size)
{
    const int64_t before = msi_memory_in_use();
    int untouched;
    void *p = &untouched;
    assert_int_equal(msi_alloc(&p, n, size, "a plane"), MSI_ENOMEM);
    assert_null(p);
    assert_int_equal(msi_memory_in_use(), before);
    assert_non_null(strstr(msi_error_get(), "a plane"));
}

static void test_sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    check_refused(-1, 8);
    check_refused(INT64_MIN, 1);
    check_refused(INT64_MAX, 1);
    check_refused(INT64_MAX - 64, 1);
    check_refused(INT64_MAX / 8 + 1, 8);
    check_refused(INT64_C(1) << 62, 1 << 20);
}

static void test_limit_holds(void **state)
{
    (void)state;
    char *first, *second;
    msi_memory_limit_set(msi_memory_in_use() + 3000);
    assert_int_equal(msi_alloc(&first, 2000, 1, "first"), MSI_OK);
    check_refused(2000, 1);
    assert_non_null(strstr(msi_error_get(), "limit"));
    check_refused(5 << 20, 1);
    msi_free(first);
    assert_int_equal(msi_alloc(&second, 2000, 1, "second"), MSI_OK);
    msi_free(second);
    msi_memory_limit_set(0);
    assert_true(msi_memory_limit() == msi_memory_physical() && msi_memory_physical() > 0);
}

/* Repeatedly request more memory than the limit. */
enum { N_REQUEST = 800000 };

static void *ask_too_much(void *of)
{
    atomic_int *n_answer = of;
    void *p = NULL;
    while (!p && *n_answer < N_REQUEST) {
        (void)msi_alloc(&p, 4000, 1, "too much");
        ++*n_answer;
    }
    return p;
}

/* A refused request of one thread does not make another thread's request fail. */
static void test_refusals_affect_one_thread(void **state)
{
    (void)state;
    atomic_int n_answer = 0;
    int n_refused = 0;
    pthread_t other;
    void *given;
    msi_memory_limit_set(msi_memory_in_use() + 3000);
    assert_int_equal(pthread_create(&other, NULL, ask_too_much, &n_answer), 0);
    while (n_answer < N_REQUEST) {
        char *p;
        n_refused += msi_alloc(&p, 2000, 1, "a plane") != MSI_OK;
        msi_free(p);
    }
    assert_int_equal(pthread_join(other, &given), 0);
    msi_memory_limit_set(0);
    assert_null(given);
    assert_int_equal(n_refused, 0);
}

/* Count the mapped files of a directory by /proc/self/maps, which ends their lines with "(deleted)" once unlinked. */
static int count_unlinked_maps(const char *directory)
{
    char line[4096];
    int n = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) n += strstr(line, directory) && strstr(line, "(deleted)");
    fclose(maps);
    return n;
}

/* Large blocks are in unlinked files of the directory, zero, aligned, and not counted; small ones are in memory. */
static void test_paged_blocks_are_in_files(void **state)
{
    (void)state;
    enum { LARGE = 5 << 20, SMALL = 4096 };
    char directory[] = "/tmp/msimage-test-XXXXXX";
    const int64_t before = msi_memory_in_use();
    unsigned char *large, *small;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(msi_alloc_paged(&large, LARGE, 1, "blocks"), MSI_OK);
    assert_true(msi_memory_in_use() - before >= LARGE);
    msi_free(large);
    msi_memory_page_to(directory, 0);
    assert_int_equal(msi_alloc_paged(&large, LARGE, 1, "blocks"), MSI_OK);
    assert_int_equal(msi_memory_in_use(), before);
    assert_int_equal(count_unlinked_maps(directory), 1);
    assert_int_equal((uintptr_t)large % 64, 0);
    for (int i = 0; i < LARGE; i++) assert_int_equal(large[i], 0);
    memset(large, 1, LARGE);
    assert_int_equal(msi_alloc_paged(&small, SMALL, 1, "blocks"), MSI_OK);
    assert_true(msi_memory_in_use() - before >= SMALL);
    msi_free(large);
    msi_free(small);
    /* Arrays at work are in memory, unless they are to be in files too. */
    for (int with_work = 0; with_work < 2; with_work++) {
        msi_memory_page_to(directory, with_work);
        assert_int_equal(msi_alloc_work(&large, LARGE, 1, "blocks"), MSI_OK);
        assert_int_equal(count_unlinked_maps(directory), with_work);
        assert_int_equal(msi_memory_in_use() == before, with_work);
        msi_free(large);
    }
    assert_int_equal(count_unlinked_maps(directory), 0);
    assert_int_equal(rmdir(directory), 0);
    /* The directory is gone. */
    assert_int_equal(msi_alloc_paged(&large, LARGE, 1, "blocks"), MSI_EOUTPUT);
    assert_null(large);
    assert_string_equal(msi_error_about_get(), "temp_dir");
    msi_memory_page_to(NULL, 0);
}

/* Of a sparse block the part that is touched is counted, and all of it can be read and written. */
static void test_sparse_blocks_count_a_part(void **state)
{
    (void)state;
    enum { BLOCK = 64 << 20, PART = 4 << 20 };
    const int64_t before = msi_memory_in_use();
    unsigned char *block;
    msi_memory_limit_set(before + 2 * PART);
    assert_int_equal(msi_alloc_sparse(&block, BLOCK, 1, BLOCK, "blocks"), MSI_ENOMEM);
    assert_int_equal(msi_alloc_sparse(&block, BLOCK, 1, PART, "blocks"), MSI_OK);
    assert_int_equal(msi_memory_in_use(), before + PART);
    assert_int_equal(block[BLOCK - 1], 0);
    block[BLOCK - 1] = block[0] = 1;
    msi_free(block);
    assert_int_equal(msi_memory_in_use(), before);
    msi_memory_limit_set(0);
}

/* Memory of a freed block is used again for a block of the same size, unless more would then be in use than before. A
 * forked child has none of it. */
static void test_memory_is_used_again(void **state)
{
    (void)state;
    enum { BLOCK = 16 << 20 };
    const int64_t before = msi_memory_in_use();
    unsigned char *a, *b, *zeroed, *more;
    assert_int_equal(msi_alloc_unset(&a, BLOCK, 1, "blocks"), MSI_OK);
    msi_free(a);
    msi_memory_reuse(2);
    assert_int_equal(msi_alloc_unset(&a, BLOCK, 1, "blocks"), MSI_OK);
    memset(a, 7, BLOCK);
    msi_free(a);
    assert_int_equal(msi_memory_in_use(), before);
    assert_int_equal(msi_alloc(&zeroed, BLOCK / 2, 1, "blocks"), MSI_OK);
    for (int i = 0; i < BLOCK / 2; i++) assert_int_equal(zeroed[i], 0);
    msi_free(zeroed);

    assert_int_equal(msi_alloc_unset(&a, BLOCK, 1, "blocks"), MSI_OK);
    memset(a, 7, BLOCK);
    msi_free(a);
    assert_int_equal(msi_alloc_unset(&b, BLOCK, 1, "blocks"), MSI_OK);
    assert_ptr_equal(b, a);
    assert_int_equal(b[BLOCK - 1], 7);
    assert_true(msi_memory_in_use() - before >= BLOCK);
    msi_free(b);

    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        const int failed = msi_alloc_unset(&more, BLOCK, 1, "blocks") || more == a;
        msi_free(more);
        _exit(failed);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);

    /* More than was in use before: the idle block is given back. */
    assert_int_equal(msi_alloc(&more, 4 * BLOCK, 1, "blocks"), MSI_OK);
    assert_int_equal(msi_alloc_unset(&b, BLOCK, 1, "blocks"), MSI_OK);
    assert_int_equal(b[BLOCK - 1], 0);
    msi_free(b);
    msi_free(more);
    msi_memory_reuse(0);
    assert_int_equal(msi_memory_in_use(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_zero_aligned_and_counted),
        cmocka_unit_test(test_large_blocks_begin_with_a_huge_page),
        cmocka_unit_test(test_grow),
        cmocka_unit_test(test_sizes_that_overflow_are_refused),
        cmocka_unit_test(test_limit_holds),
        cmocka_unit_test(test_refusals_affect_one_thread),
        cmocka_unit_test(test_paged_blocks_are_in_files),
        cmocka_unit_test(test_memory_is_used_again),
        cmocka_unit_test(test_sparse_blocks_count_a_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
