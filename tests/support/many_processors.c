/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Simulates a machine with many processors. This library is loaded before a program's own libraries (LD_PRELOAD); its
 * sysconf returns MANY_PROCESSORS. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

long sysconf(int name)
{
    const char *n = getenv("MANY_PROCESSORS");
    if (n && (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF)) return atol(n);
    long (*real)(int) = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}
