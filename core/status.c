/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[MSI_MESSAGE_BYTES];
static _Thread_local const char *about = "";

int(msi_error_set)(int status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    about = "";
    /* One line, whatever a path or a library's message holds. */
    for (char *p = message; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
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
