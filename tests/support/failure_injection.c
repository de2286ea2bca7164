/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/support/failure_injection.h"

#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <fftw3.h>

enum { MAX_FUNCTIONS = 64, MAX_PATHS = 1 << 16, MAX_DEPTH = 24 };

/* Forked processes share the state, so that calls of all processes are counted and can fail. There is no lock, because
 * a process could be killed while it holds one. Names are string constants, which have the same address in all
 * processes. */
typedef struct injection {
    _Atomic(const char *) function[MAX_FUNCTIONS]; /* called so far */
    _Atomic int64_t n_call_of[MAX_FUNCTIONS];
    atomic_int armed;
    _Atomic int64_t n_call;
    int64_t fail_at;
    uint64_t fail_path; /* 0: calls are chosen by fail_at alone; else fail_at counts the calls of this path */
    _Atomic int64_t n_of_path;
    atomic_int has_failed;
    failure_mode fail_mode;
    _Atomic(const char *) first;
    int traced;
    uint64_t path[MAX_PATHS]; /* of calls 1 .., as a hash of their return addresses */
} injection;

static injection *shared; /* NULL until it is first armed */

void *__real_mmap64(void *p, size_t n, int protection, int flags, int fd, off_t offset);

void failure_arm(int64_t n, failure_mode mode)
{
    if (!shared) {
        void *p = __real_mmap64(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) abort();
        shared = p;
    }
    shared->n_call = 0;
    shared->fail_at = n;
    shared->fail_path = 0;
    shared->n_of_path = 0;
    shared->has_failed = 0;
    shared->fail_mode = mode;
    shared->first = NULL;
    shared->traced = 0;
    shared->armed = 1;
}

void failure_trace(void)
{
    void *address[1];
    (void)backtrace(address, 1); /* its first call loads a library */
    failure_arm(0, FAILURE_ONCE);
    shared->traced = 1;
}

void failure_arm_path(uint64_t path, int64_t n, failure_mode mode)
{
    failure_arm(n, mode);
    shared->fail_path = path;
}

/* The linker defines these where FAILURE_CALLER is used. */
extern const char __start_failure_caller[] __attribute__((weak)), __stop_failure_caller[] __attribute__((weak));

static int is_in_caller(const void *address)
{
    return (uintptr_t)address >= (uintptr_t)__start_failure_caller &&
           (uintptr_t)address < (uintptr_t)__stop_failure_caller;
}

/* Compute Fowler, Noll and Vo's hash of the addresses that a call returns to, without those of this file's functions,
 * which the compiler may call from several places. */
static __attribute__((noinline)) uint64_t path_here(void)
{
    void *address[MAX_DEPTH];
    const int n = backtrace(address, MAX_DEPTH);
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 2; i < n && !is_in_caller(address[i]); i++)
        hash = (hash ^ (uint64_t)(uintptr_t)address[i]) * 0x100000001b3;
    return hash;
}

uint64_t failure_path(int64_t n)
{
    return n <= MAX_PATHS ? shared->path[n - 1] : 0;
}

static int is_only_in(int64_t n, int64_t first, int64_t end)
{
    for (int64_t i = first; i < end; i++)
        if (i != n - 1 && shared->path[i] == shared->path[n - 1]) return 0;
    return 1;
}

int failure_is_first(int64_t n)
{
    return n > MAX_PATHS || is_only_in(n, 0, n);
}

int failure_is_last(int64_t n)
{
    const int64_t n_call = shared->n_call;
    return n > MAX_PATHS || is_only_in(n, n, n_call < MAX_PATHS ? n_call : MAX_PATHS);
}

int64_t failure_disarm(void)
{
    shared->armed = 0;
    return shared->n_call;
}

const char *failure_first(void)
{
    return shared ? shared->first : NULL;
}

int64_t failure_seen(const char *function)
{
    for (int i = 0; shared && i < MAX_FUNCTIONS && shared->function[i]; i++)
        if (strcmp(shared->function[i], function) == 0) return shared->n_call_of[i];
    return 0;
}

/* Find a function in the list; add it if it is new. */
static int place_of(const char *function)
{
    for (int i = 0; i < MAX_FUNCTIONS - 1; i++) {
        const char *there = NULL;
        if (atomic_compare_exchange_strong(&shared->function[i], &there, function) || strcmp(there, function) == 0)
            return i;
    }
    return MAX_FUNCTIONS - 1;
}

int failure_due(const char *function)
{
    if (!shared || !shared->armed) return 0;
    shared->n_call_of[place_of(function)]++;
    const int64_t n = ++shared->n_call, at = shared->fail_at;
    const uint64_t path = shared->traced || shared->fail_path ? path_here() : 0;
    if (shared->traced && n <= MAX_PATHS) shared->path[n - 1] = path;
    const int is_chosen = !at                 ? 0
                          : shared->fail_path ? path == shared->fail_path && ++shared->n_of_path == at
                                              : n == at;
    const int due = is_chosen || (shared->has_failed && shared->fail_mode == FAILURE_FROM);
    if (due) shared->has_failed = 1;
    const char *none = NULL;
    if (due) atomic_compare_exchange_strong(&shared->first, &none, function);
    return due;
}

static int due_with(const char *function, int error)
{
    if (!failure_due(function)) return 0;
    errno = error;
    return 1;
}

/*
 * WRAP(result, function, (parameters), (arguments), error, failed): defines the function that --wrap calls instead.
 * With _FILE_OFFSET_BITS=64 the names of the C library's file functions end in 64.
 */
#define WRAP(result, function, parameters, arguments, error, failed)                                                   \
    result __real_##function parameters;                                                                               \
    result __wrap_##function parameters;                                                                               \
    result __wrap_##function parameters                                                                                \
    {                                                                                                                  \
        return due_with(#function, error) ? (failed) : __real_##function arguments;                                    \
    }

WRAP(void *, malloc, (size_t size), (size), ENOMEM, NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), ENOMEM, NULL)
WRAP(void *, realloc, (void *p, size_t size), (p, size), ENOMEM, NULL)
WRAP(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), ENOMEM, NULL)
WRAP(char *, strdup, (const char *text), (text), ENOMEM, NULL)
WRAP(char *, strndup, (const char *text, size_t n), (text, n), ENOMEM, NULL)
WRAP(void *, mmap64, (void *p, size_t n, int protection, int flags, int fd, off_t offset),
     (p, n, protection, flags, fd, offset), ENOMEM, MAP_FAILED)
WRAP(int, mkostemp64, (char *name, int flags), (name, flags), EMFILE, -1)
WRAP(int, posix_fallocate64, (int fd, off_t offset, off_t n), (fd, offset, n), ENOSPC, ENOSPC)
WRAP(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*start)(void *), void *context),
     (t, a, start, context), EAGAIN, EAGAIN)
WRAP(fftwf_plan, fftwf_plan_many_dft,
     (int rank, const int *n, int count, fftwf_complex *in, const int *in_embed, int in_stride, int in_distance,
      fftwf_complex *out, const int *out_embed, int out_stride, int out_distance, int sign, unsigned flags),
     (rank, n, count, in, in_embed, in_stride, in_distance, out, out_embed, out_stride, out_distance, sign, flags),
     ENOMEM, NULL)
WRAP(fftw_plan, fftw_plan_many_dft,
     (int rank, const int *n, int count, fftw_complex *in, const int *in_embed, int in_stride, int in_distance,
      fftw_complex *out, const int *out_embed, int out_stride, int out_distance, int sign, unsigned flags),
     (rank, n, count, in, in_embed, in_stride, in_distance, out, out_embed, out_stride, out_distance, sign, flags),
     ENOMEM, NULL)
WRAP(fftw_plan, fftw_plan_dft_2d, (int n0, int n1, fftw_complex *in, fftw_complex *out, int sign, unsigned flags),
     (n0, n1, in, out, sign, flags), ENOMEM, NULL)
WRAP(fftwf_plan, fftwf_plan_dft_r2c_1d, (int n, float *in, fftwf_complex *out, unsigned flags), (n, in, out, flags),
     ENOMEM, NULL)
WRAP(fftwf_plan, fftwf_plan_dft_c2r_1d, (int n, fftwf_complex *in, float *out, unsigned flags), (n, in, out, flags),
     ENOMEM, NULL)
WRAP(fftw_plan, fftw_plan_dft_r2c_1d, (int n, double *in, fftw_complex *out, unsigned flags), (n, in, out, flags),
     ENOMEM, NULL)
WRAP(fftw_plan, fftw_plan_dft_c2r_1d, (int n, fftw_complex *in, double *out, unsigned flags), (n, in, out, flags),
     ENOMEM, NULL)
