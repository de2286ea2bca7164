/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/memory.h"

/* Data that differ in a bit, in length or in order have different hashes. */
static void hashes_differ(void **state)
{
    (void)state;
    char bytes[40] = {0};
    const uint64_t none = msi_hash(0, bytes, 40);
    for (int i = 0; i < 320; i++) {
        bytes[i / 8] = (char)(1 << i % 8);
        assert_true(msi_hash(0, bytes, 40) != none);
        bytes[i / 8] = 0;
    }
    assert_true(msi_hash(0, bytes, 39) != none && msi_hash(1, bytes, 40) != none);
    assert_true(msi_hash(msi_hash(0, "ab", 2), "c", 1) != msi_hash(msi_hash(0, "a", 1), "bc", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes_differ)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
