/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[MSI_MESSAGE_BYTES];
static _Thread_local const char *about = "";

static void write_from(size_t at, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));

/* The message stays one line, whatever a path or a library's message holds. */
static void write_from(size_t at, const char *format, va_list ap)
{
    vsnprintf(message + at, sizeof message - at, format, ap);
    for (char *p = message + at; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
}

int(msi_error_set)(int status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    write_from(0, format, ap);
    va_end(ap);
    about = "";
    return status;
}

int(msi_error_append)(int status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    write_from(strlen(message), format, ap);
    va_end(ap);
    return status;
}

const char *msi_error_get(void)
{
    return message;
}

int(msi_error_about)(int status, const char *member)
{
    about = member;
    return status;
}

const char *msi_error_about_get(void)
{
    return about;
}
