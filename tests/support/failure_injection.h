/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Calls fail on demand. Programs link with --wrap (tests/support/CMakeLists.txt), which sends the calls that they
 * make of malloc, mmap, fftw_plan_many_dft and their like to failure_injection.c; what shared libraries call among
 * themselves stays. */
#ifndef MSI_TESTS_FAILURE_INJECTION_H
#define MSI_TESTS_FAILURE_INJECTION_H

#include <stdint.h>

typedef enum failure_mode {
    FAILURE_ONCE, /* the call chosen alone */
    FAILURE_FROM  /* and every one after it */
} failure_mode;

/* failure_arm - count calls from now on, and call number n fails, counted from 1 over all threads; 0: none. */
void failure_arm(int64_t n, failure_mode mode);

/* failure_trace - do as failure_arm(0, ..), and the path of each call is remembered: the functions that stand above it,
 * and where in them. */
void failure_trace(void);

/* failure_is_first, failure_is_last - tell whether call n of failure_trace was the first, or the last, of those that
 * came along its path; of calls beyond what is remembered, every one. */
int failure_is_first(int64_t n);
int failure_is_last(int64_t n);

/* failure_disarm - calls go through again. Returns how many there were since failure_arm. */
int64_t failure_disarm(void);

/* failure_first - return the function whose call was the first to fail since failure_arm; NULL where none did. */
const char *failure_first(void);

/* failure_seen - tell how often a function was called while armed, since the program began. */
int64_t failure_seen(const char *function);

/* failure_due - count a call of a function; 1 where it has to fail. */
int failure_due(const char *function);

#endif
