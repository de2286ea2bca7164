/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes calls fail on demand. Test programs are linked with --wrap (tests/support/CMakeLists.txt), so that their calls of
 * malloc, mmap, fftw_plan_many_dft and similar functions go to failure_injection.c. Calls inside shared libraries are not
 * affected. */
#ifndef MSI_TESTS_FAILURE_INJECTION_H
#define MSI_TESTS_FAILURE_INJECTION_H

#include <stdint.h>

typedef enum failure_mode {
    FAILURE_ONCE, /* only the chosen call fails */
    FAILURE_FROM  /* the chosen call and all later calls fail */
} failure_mode;

/* failure_arm - count calls from now on, and make call number n fail, counted from 1 over all threads; 0: none. */
void failure_arm(int64_t n, failure_mode mode);

/* failure_trace - count calls as failure_arm(0, ..) does, and store the path of each call: its return addresses. */
void failure_trace(void);

/* FAILURE_CALLER - marks a function of a test whose calls are compared: paths end below it, so that they do not depend on
 * the line from which it calls the tested code. */
#define FAILURE_CALLER __attribute__((noinline, section("failure_caller")))

/* failure_path - return the path of call n of failure_trace, counted from 1; 0 if it was not stored. */
uint64_t failure_path(int64_t n);

/* failure_arm_path - as failure_arm, but make the nth call of a path fail. Processes and threads that work in parallel
 * change the order of all calls, but hardly that of the calls of one path. */
void failure_arm_path(uint64_t path, int64_t n, failure_mode mode);

/* failure_is_first, failure_is_last - return whether call n of failure_trace was the first, or the last, of its path.
 * Calls whose path is not stored are both. */
int failure_is_first(int64_t n);
int failure_is_last(int64_t n);

/* failure_disarm - let calls succeed again. Returns the number of calls since failure_arm. */
int64_t failure_disarm(void);

/* failure_first - return the function whose call was the first to fail since failure_arm; NULL if none failed. */
const char *failure_first(void);

/* failure_seen - return how often a function was called while armed, since the program started. */
int64_t failure_seen(const char *function);

/* failure_due - count a call of a function. Returns 1 if the call must fail. */
int failure_due(const char *function);

#endif
