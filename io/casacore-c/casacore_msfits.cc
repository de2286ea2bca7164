/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Make Measurement Sets of UVFITS and FITS-IDI files by casacore's msfits, and keeps what that logs. */
#include "casacore_internal.hpp"

#include <casacore/casa/Logging/LogFilter.h>
#include <casacore/casa/Logging/LogSink.h>
#include <casacore/casa/Logging/LogSinkInterface.h>
#include <casacore/casa/Logging/NullLogSink.h>
#include <casacore/msfits/MSFits/MSFitsIDI.h>
#include <casacore/msfits/MSFits/MSFitsInput.h>

using namespace ccc;

namespace {

constexpr size_t MOST_LINES = 64;

/* Keep the lines that are warnings or worse, each once: msfits reports problems only there. */
class KeptLog : public cc::LogSinkInterface {
  public:
    explicit KeptLog(std::vector<std::string> *lines)
        : cc::LogSinkInterface(cc::LogFilter(cc::LogMessage::WARN)), lines_(lines)
    {
    }
    cc::Bool postLocally(const cc::LogMessage &message) override
    {
        if (message.priority() < cc::LogMessage::WARN) return false;
        const std::string &text = message.message();
        if (lines_->size() < MOST_LINES && std::find(lines_->begin(), lines_->end(), text) == lines_->end())
            lines_->push_back(text);
        return true;
    }
    cc::String id() const override
    {
        return "KeptLog";
    }

  private:
    std::vector<std::string> *lines_;
};

/* Run f, which logs, and return its warnings. casacore owns its global sink and has none of its own afterwards. */
template <class F> int with_log(const char *path, char ***warnings, int64_t *n_warning, F &&f)
{
    *warnings = nullptr;
    *n_warning = 0;
    std::vector<std::string> lines;
    const int status = guarded(path ? path : "", [&] {
        cc::LogSinkInterface *kept = new KeptLog(&lines);
        cc::LogSink::globalSink(kept);
        f();
    });
    const int ended = guarded("", [&] {
        cc::LogSinkInterface *none = new cc::NullLogSink;
        cc::LogSink::globalSink(none);
        *warnings = block_of(lines);
        *n_warning = static_cast<int64_t>(lines.size());
    });
    return status != CCC_OK ? status : ended;
}

/* casacore reads the size of the memory there, and crashes where it cannot. */
void require_proc(const char *fits)
{
    if (::access("/proc/meminfo", R_OK) != 0)
        throw Failure(CCC_EFAILED,
                      std::string(fits) + ": casacore reads /proc/meminfo, which is not there; mount /proc");
}

} // namespace

int ccc_uvfits_import(const char *fits, const char *ms, char ***warnings, int64_t *n_warning)
{
    return with_log(fits, warnings, n_warning, [&] {
        require_proc(fits);
        require_plain(fits, fits);
        require_plain(ms, ms);
        cc::MSFitsInput input(ms, fits, false);
        input.readFitsFile();
    });
}

int ccc_fitsidi_import(const char *fits, const char *ms, char ***warnings, int64_t *n_warning)
{
    return with_log(fits, warnings, n_warning, [&] {
        require_proc(fits);
        require_plain(fits, fits);
        require_plain(ms, ms);
        cc::MSFitsIDI input(cc::String(fits), cc::String(ms), false);
        if (!input.fillMS()) throw Failure(CCC_EFAILED, std::string(fits) + ": could not be converted");
    });
}
