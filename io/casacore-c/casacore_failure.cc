/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conversion of exceptions to a code and a message; the lock of the process; silencing of casacore's log. */
#include "casacore_internal.hpp"

#include <cerrno>

#include <casacore/casa/Logging/LogSink.h>
#include <casacore/casa/Logging/NullLogSink.h>
#include <casacore/casa/version.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

namespace {

thread_local char message[2048];

} // namespace

/* Return whether the text names a limit of the system that was reached. */
static bool indicates_shortage(const char *text) noexcept
{
    for (const int reason : {ENOMEM, EAGAIN, EMFILE, ENFILE})
        if (std::strstr(text, std::strerror(reason))) return true;
    return false;
}

int ccc::fail(int code, const char *text) noexcept
{
    if (code == CCC_EFAILED && indicates_shortage(text)) code = CCC_ENOMEM;
    size_t n = std::min(std::strlen(text), sizeof message - 1);
    std::memcpy(message, text, n);
    message[n] = 0;
    for (size_t i = 0; i < n; i++)
        if (static_cast<unsigned char>(message[i]) < ' ') message[i] = ' ';
    return code;
}

bool ccc::indicates_damage(const char *what) noexcept
{
    static const char *const signs[] = {
        "AipsIO",         "FilebufIO::read",      "MemoryIO::read", "No such file or directory",
        "Internal error", "Internal Table error", "AlwaysAssert",   "RecordDesc::",
        "ArrayIterator<", "shape mismatch",       "is incorrect"};
    for (const char *sign : signs)
        if (std::strstr(what, sign)) return !std::strstr(what, "getcwd") && !indicates_shortage(what);
    return false;
}

bool ccc::indicates_other_writer(const char *what) noexcept
{
    return std::strstr(what, "cannot sync table") || std::strstr(what, "another process changed");
}

std::recursive_mutex &ccc::process_lock()
{
    static std::recursive_mutex *lock = new std::recursive_mutex; /* never destroyed: static objects may log */
    return *lock;
}

void ccc::set_up_casacore()
{
    static const bool done = [] {
        cc::LogSinkInterface *sink = new cc::NullLogSink;
        cc::LogSink::globalSink(sink);
        const char *home = std::getenv("HOME");
        if (!home || !*home) ::setenv("HOME", "/nonexistent", 1);
        return true;
    }();
    (void)done;
}

#if defined(__SANITIZE_ADDRESS__)
/* casacore leaks what its constructors and parsers hold when they throw. */
extern "C" const char *__lsan_default_suppressions(void);
extern "C" const char *__lsan_default_suppressions(void)
{
    return "leak:libcasa_ms\nleak:libcasa_tables\nleak:libcasa_casa\n";
}
#endif

const char *ccc_error(void)
{
    return message;
}

const char *ccc_version(void)
{
    static const std::string version = cc::getVersion();
    return version.c_str();
}
