/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tables of known content, and checks that a call of casacore_c succeeds or fails. */
#ifndef MSI_TESTS_TABLE_FIXTURE_H
#define MSI_TESTS_TABLE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "io/casacore-c/casacore_c.h"
#include "tests/support/temp_folder.h"

enum { N_ROW = 100 };

/* The call succeeds. */
#define OK(expr)                                                                                                       \
    do {                                                                                                               \
        const int ok_status_ = (expr);                                                                                 \
        if (ok_status_ != CCC_OK) fail_msg("%d: %s", ok_status_, ccc_error());                                         \
    } while (0)

/* The call fails with the code, and its message contains `text`. */
#define FAILS(code, text, expr)                                                                                        \
    do {                                                                                                               \
        assert_int_equal(expr, code);                                                                                  \
        if (!strstr(ccc_error(), text)) fail_msg("'%s' lacks '%s'", ccc_error(), text);                                \
    } while (0)

/* in_temp - set `path` to the path of a name in the program's temporary directory. */
void in_temp(char *path, size_t size, const char *name);

/* make_table - make a table of N_ROW rows without values: scalars, strings, a cube of fixed shape, one of any. */
void make_table(ccc_table **t, const char *path);

/* fill_table - put values into ID, VALUE, CUBE and SHAPED. */
void fill_table(ccc_table *t);

/* filled_table - make a new table with values, and set `path` to its path. */
ccc_table *filled_table(char *path, size_t size, const char *name);

#endif
