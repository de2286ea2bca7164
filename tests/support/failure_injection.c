/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/support/failure_injection.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <fftw3.h>

/* The functions called so far; their names are string constants. */
enum { MAX_FUNCTIONS = 64 };
static struct {
    const char *function;
    int64_t n_call;
} seen[MAX_FUNCTIONS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int armed;
static int64_t n_call, fail_at;
static failure_mode fail_mode;
static const char *first;

void failure_arm(int64_t n, failure_mode mode)
{
    n_call = 0;
    fail_at = n;
    fail_mode = mode;
    first = NULL;
    armed = 1;
}

int64_t failure_disarm(void)
{
    armed = 0;
    return n_call;
}

const char *failure_first(void)
{
    return first;
}

int64_t failure_seen(const char *function)
{
    for (int i = 0; i < MAX_FUNCTIONS && seen[i].function; i++)
        if (strcmp(seen[i].function, function) == 0) return seen[i].n_call;
    return 0;
}

int failure_due(const char *function)
{
    if (!armed) return 0;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MAX_FUNCTIONS - 1 && seen[i].function && strcmp(seen[i].function, function) != 0) i++;
    seen[i].function = function;
    seen[i].n_call++;
    n_call++;
    int due = fail_at && (n_call == fail_at || (fail_mode == FAILURE_FROM && n_call > fail_at));
    if (due && !first) first = function;
    pthread_mutex_unlock(&lock);
    return due;
}

static int due_with(const char *function, int error)
{
    if (!failure_due(function)) return 0;
    errno = error;
    return 1;
}

/*
 * WRAP(result, function, (parameters), (arguments), error, failed): what --wrap makes of a call. With
 * _FILE_OFFSET_BITS=64 the C library's functions on files go by their names in 64.
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
WRAP(int, mkstemp64, (char *name), (name), EMFILE, -1)
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
