/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes system calls and library calls of unmodified programs fail. This library is loaded before a program's own
 * libraries (LD_PRELOAD). FAILING_CALL is "NAME ERRNO FIRST LAST WHO": the calls FIRST to LAST of a process fail with
 * ERRNO. WHO is parent (the program itself), child (processes that it forks), or all. Names are those of the functions
 * below; fsync means calls on directories, pread all reads of the file whose path ends in FAILING_FILE. With FAILING_COMMAND, the shell runs that command before the first lock for
 * writing is taken.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    char name[32], who[8];
    int error;
    long first, last;
    pid_t program;
} failing;

static atomic_long n_call;

__attribute__((constructor)) static void read_variable(void)
{
    const char *text = getenv("FAILING_CALL");
    failing.program = getpid();
    if (text && sscanf(text, "%31s %d %ld %ld %7s", failing.name, &failing.error, &failing.first, &failing.last,
                       failing.who) != 5)
        abort();
}

/* Return whether a call is to fail, and set errno. */
static int fails(const char *name)
{
    static _Atomic pid_t counted;
    if (strcmp(failing.name, name) != 0) return 0;
    const int is_parent = getpid() == failing.program;
    if (strcmp(failing.who, "all") != 0 && is_parent != (strcmp(failing.who, "parent") == 0)) return 0;
    if (atomic_exchange(&counted, getpid()) != getpid()) n_call = 0;
    const long n = ++n_call;
    errno = failing.error;
    return n >= failing.first && n <= failing.last;
}

/* The function that is replaced by this library. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t send(int fd, const void *message, size_t size, int flags)
{
    return fails("send") ? -1 : REAL(send)(fd, message, size, flags);
}

ssize_t recv(int fd, void *message, size_t size, int flags)
{
    return fails("recv") ? -1 : REAL(recv)(fd, message, size, flags);
}

int fsync(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) && fails("fsync") ? -1 : REAL(fsync)(fd);
}

/* Return whether a read of a file is to fail. */
static int read_fails(int fd)
{
    const char *end = getenv("FAILING_FILE");
    char link[64], path[4096];
    if (!end || strcmp(failing.name, "pread") != 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1), n_end = (ssize_t)strlen(end);
    path[n < 0 ? 0 : n] = 0;
    return n >= n_end && strcmp(path + n - n_end, end) == 0 && fails("pread");
}

ssize_t read(int fd, void *to, size_t size)
{
    return read_fails(fd) ? -1 : REAL(read)(fd, to, size);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    return read_fails(fd) ? -1 : REAL(pread)(fd, to, size, at);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *of)
{
    return fails("pthread_create") ? failing.error : REAL(pthread_create)(thread, attributes, start, of);
}

/* FFTW and OpenMP allocate memory by this function. */
void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
    Dl_info caller;
    const int is_fftw = dladdr(__builtin_return_address(0), &caller) && strstr(caller.dli_fname, "libfftw3");
    return is_fftw && fails("memalign") ? NULL : REAL(memalign)(alignment, size);
}

/* The choice of a font, where a lack of memory ends the process. */
int FcConfigSubstitute(void *config, void *pattern, int kind);
int FcConfigSubstitute(void *config, void *pattern, int kind)
{
    if (fails("FcConfigSubstitute")) raise(SIGSEGV);
    return REAL(FcConfigSubstitute)(config, pattern, kind);
}

/* casacore locks a table by this function. */
int fcntl64(int fd, int command, ...);
int fcntl64(int fd, int command, ...)
{
    va_list arguments;
    va_start(arguments, command);
    void *of = va_arg(arguments, void *);
    va_end(arguments);
    const char *before = getenv("FAILING_COMMAND");
    if (before && (command == F_SETLK || command == F_SETLKW) && ((struct flock *)of)->l_type == F_WRLCK) {
        char *copy = strdup(before);
        unsetenv("FAILING_COMMAND");
        unsetenv("LD_PRELOAD");
        if (!copy || system(copy) != 0) abort();
        free(copy);
    }
    return REAL(fcntl64)(fd, command, of);
}
