/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char message[MSI_MESSAGE_BYTES];
static _Thread_local const char *about = "";

static int write_from(size_t at, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
static void write_ends(int length, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));

/* Replace control characters, which a path or a library's message may contain, so that the message is one line. */
static void keep_one_line(char *p)
{
    for (; *p; p++)
        if ((unsigned char)*p < ' ') *p = ' ';
}

/* Write to the message from a position on, truncated to the buffer. Return the length of the whole text. */
static int write_from(size_t at, const char *format, va_list ap)
{
    const int length = vsnprintf(message + at, sizeof message - at, format, ap);
    keep_one_line(message + at);
    return length;
}

/* Write a message that is too long without its middle, because its beginning names the subject and its end says what to
 * do. UTF-8 characters are not cut. */
static void write_ends(int length, const char *format, va_list ap)
{
    char *whole = malloc((size_t)length + 1);
    if (!whole) return;
    vsnprintf(whole, (size_t)length + 1, format, ap);
    int head = MSI_MESSAGE_BYTES / 8, tail = length - head;
    while (head > 0 && (whole[head] & 0xc0) == 0x80) head--;
    while (tail < length && (whole[tail] & 0xc0) == 0x80) tail++;
    snprintf(message, sizeof message, "%.*s .. %s", head, whole, whole + tail);
    keep_one_line(message);
    free(whole);
}

int(msi_error_set)(int status, const char *format, ...)
{
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    const int length = write_from(0, format, ap);
    if (length >= MSI_MESSAGE_BYTES) write_ends(length, format, again);
    va_end(again);
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

void msi_first_error_keep(msi_first_error *e, int status)
{
    int none = MSI_OK;
    if (!status || !__atomic_compare_exchange_n(&e->status, &none, status, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    snprintf(e->message, sizeof e->message, "%s", msi_error_get());
    e->about = msi_error_about_get();
}

int msi_first_error_status(const msi_first_error *e)
{
    return __atomic_load_n(&e->status, __ATOMIC_ACQUIRE);
}

int msi_first_error_raise(const msi_first_error *e)
{
    const int status = msi_first_error_status(e);
    return status ? msi_error_about(msi_error_set(status, "%s", e->message), e->about) : MSI_OK;
}
