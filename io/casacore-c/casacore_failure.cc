/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Converts exceptions to a code and a message; has the lock of the process; suppresses casacore's log. */
#include "casacore_internal.hpp"

#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

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
thread_local int message_number;
void (*leave_process)(int code);

} // namespace

/* Find the errno in a message of casacore, whose exceptions have no codes. Returns: the errno; -1: a write failed,
 * without a reason as for lock files, or with EIO, which reads also give; 0: the message has no errno */
static int number_of(const char *text) noexcept
{
    const bool writes =
        std::strstr(text, "tracePWRITE") || std::strstr(text, "traceWRITE") || std::strstr(text, "write error");
    for (const int reason : {ENOMEM, EAGAIN, EMFILE, ENFILE, ENOSPC, EFBIG, EDQUOT, EROFS, EIO})
        if (std::strstr(text, std::strerror(reason))) return reason == EIO && writes ? -1 : reason;
    return writes ? -1 : 0;
}

/* Return whether a limit of the system was reached. */
static bool is_shortage(int reason) noexcept
{
    return reason == ENOMEM || reason == EAGAIN || reason == EMFILE || reason == ENFILE;
}

/* Return whether a write failed. */
static bool is_write(int reason) noexcept
{
    return reason == -1 || reason == ENOSPC || reason == EFBIG || reason == EDQUOT || reason == EROFS;
}

int ccc::fail(int code, const char *text) noexcept
{
    message_number = number_of(text);
    if (code == CCC_EFAILED && is_shortage(message_number)) code = CCC_ENOMEM;
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
        if (std::strstr(what, sign))
            return !std::strstr(what, "getcwd") && !is_shortage(number_of(what)) && !is_write(number_of(what));
    return false;
}

namespace {

/* Read the first 64 MB of a file; return a message if that fails, else "". */
std::string why_unreadable(const std::string &path)
{
    const ccc::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    std::vector<char> piece(1 << 20);
    ssize_t n = file.fd < 0 ? 0 : 1;
    for (off_t at = 0; n > 0 && at < 64 << 20; at += n) n = ::pread(file.fd, piece.data(), piece.size(), at);
    return n < 0 ? path + ": cannot be read: " + std::strerror(errno) : "";
}

} // namespace

std::string ccc::unreadable_file(const char *what, const std::string &context)
{
    static const char before[] = " for file ";
    const char *name = std::strstr(what, before);
    if (!name) return "";
    std::string path = name + sizeof before - 1;
    path.erase(path.find_last_not_of(" \n") + 1);
    const std::string table = context.substr(0, context.find(": column "));
    if (!path.empty()) return why_unreadable(path);
    std::error_code error; /* it is not used: casacore does not keep the name */
    for (std::filesystem::recursive_directory_iterator i(table, error), end; !error && i != end; i.increment(error)) {
        const std::string why = i->is_regular_file(error) ? why_unreadable(i->path()) : "";
        if (!why.empty()) return why;
    }
    return "";
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
/* casacore leaks memory of its constructors and parsers when they throw. */
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

int ccc_error_number(void)
{
    return message_number;
}

/* Store the message of the exception that ends the process. */
static int describe_end() noexcept
{
    const std::exception_ptr e = std::current_exception();
    if (!e) return ccc::fail(CCC_EFAILED, "casacore failed");
    return ccc::guarded(std::string("casacore"), [&e] { std::rethrow_exception(e); });
}

void ccc_on_terminate(void (*f)(int code))
{
    leave_process = f;
    std::set_terminate([] {
        leave_process(describe_end());
        std::abort();
    });
}

const char *ccc_version(void)
{
    static const std::string version = cc::getVersion();
    return version.c_str();
}
