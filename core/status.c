/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "core/interrupt.h"

static _Thread_local char message[MSI_MESSAGE_BYTES];

int(msi_error_set)(int status, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsnprintf(message, sizeof message, format, ap);
    va_end(ap);
    /* One line, whatever a path or a library's message holds. */
    for (char *p = message; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
    return status;
}

const char *msi_error_get(void)
{
    return message;
}

int msi_exit_code(int status)
{
    switch (status) {
    case MSI_OK:
        return 0;
    case MSI_EUSAGE:
        return 2;
    case MSI_EINPUT:
        return 3;
    case MSI_EOUTPUT:
        return 4;
    case MSI_ENOMEM:
    case MSI_EGPU:
        return 5;
    case MSI_ELOCKED:
        return 6;
    case MSI_EINTERRUPTED:
        return 128 + msi_interrupt_signal();
    default:
        return 70;
    }
}
