/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Opens, flushes and closes tables, and finds their rows, paths and parts. */
#include "casacore_internal.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include <casacore/casa/OS/Path.h>
#include <casacore/tables/DataMan/StandardStManAccessor.h>
#include <casacore/tables/Tables/TableAttr.h>
#include <casacore/tables/Tables/TableDesc.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

namespace {

/* Limits for each manager; casacore searches all cached buckets. */
constexpr int64_t KEPT_BYTES = 8 << 20, KEPT_BUCKETS = 1024;

/* casacore expands `$NAME` in a path, even after it has appended the names of files. */
bool needs_descriptor(const std::string &path)
{
    return path.find('$') != std::string::npos || path.size() > 3072;
}

void require_table(const std::string &path)
{
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) throw Failure(CCC_ENOTFOUND, path + ": " + std::strerror(errno));
    if (!S_ISDIR(info.st_mode)) throw Failure(CCC_ENOTFOUND, path + ": a file, not a table (which is a directory)");
    const Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.fd < 0) throw Failure(CCC_EFAILED, path + ": " + std::strerror(errno));
    if (::fstatat(directory.fd, "table.dat", &info, 0) != 0)
        throw Failure(CCC_ENOTFOUND, path + ": not a table (it has no table.dat)");
}

/* Find the name to give to casacore. If casacore would misread the path, use the descriptor of the parent directory,
 * which stays open. */
std::string real_name(const std::string &path, std::shared_ptr<Descriptor> &directory)
{
    if (!needs_descriptor(path)) return path;
    const size_t slash = path.rfind('/');
    const std::string parent = path.substr(0, slash + 1);
    directory = std::make_shared<Descriptor>(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory->fd < 0) throw Failure(CCC_ENOTFOUND, parent + ": " + std::strerror(errno));
    if (::access("/proc/self/fd", X_OK) != 0)
        throw Failure(CCC_EFAILED, path + ": a table of such a name is opened through /proc, which is not mounted");
    std::string real = "/proc/self/fd/" + std::to_string(directory->fd) + path.substr(slash);
    require_plain(real, path);
    return real;
}

/* Replace the descriptor's path in a name by the user's path, for messages. */
std::string shown_name(const ccc_table *parent, const std::string &name)
{
    if (name.compare(0, parent->real.size(), parent->real) == 0) return parent->path + name.substr(parent->real.size());
    return name;
}

void take_lock(ccc_table *t)
{
    if (t->mode == CCC_READ && t->lock == CCC_LOCK_NONE) return;
    if (!t->table.lock(t->mode == CCC_UPDATE, 1)) throw Failure(CCC_ELOCKED, t->path + ": in use by another process");
}

/*
 * casacore throws from destructors when it cannot write a file of headers, which ends the process. So the space for the
 * headers is requested first, when a failure can still be reported.
 */
void require_space(const ccc_table *t)
{
    if (t->mode != CCC_UPDATE) return;
    Descriptor probe(::open(t->real.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (probe.fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        std::string name = t->real + "/.space-XXXXXX";
        probe.fd = ::mkostemp(&name[0], O_CLOEXEC);
        if (probe.fd >= 0) ::unlink(name.c_str());
    }
    if (probe.fd < 0) throw Failure(CCC_EFAILED, t->path + ": cannot be written: " + std::strerror(errno));
    const int64_t headers = std::max<int64_t>(0, file_size(t->real + "/table.dat"));
    const int failed = ::posix_fallocate(probe.fd, 0, (1 << 20) + 4 * headers);
    if (failed) throw Failure(CCC_EFAILED, t->path + ": cannot be written: " + std::strerror(failed));
}

/*
 * A StandardStMan interleaves its columns in buckets, and by default caches only two of them. So when several columns
 * of a block of rows are read, all buckets are read again for each column. The number set here is enough for nearly any
 * block.
 */
void keep_buckets(const cc::Table &table, const cc::Record &managers)
{
    for (cc::uInt m = 0; m < managers.nfields(); m++) {
        const cc::Record &manager = managers.subRecord(m);
        const cc::Vector<cc::String> columns(manager.toArrayString("COLUMNS"));
        if (manager.asString("TYPE") != "StandardStMan" || columns.empty()) continue;
        const int64_t bytes = std::max<int64_t>(manager.subRecord("SPEC").asInt64("BUCKETSIZE"), 1);
        cc::ROStandardStManAccessor(table, columns[0], true)
            .setCacheSize(static_cast<cc::uInt>(std::clamp<int64_t>(KEPT_BYTES / bytes, 2, KEPT_BUCKETS)));
    }
}

} // namespace

std::string ccc::absolute(const std::string &path)
{
    if (path.empty()) throw Failure(CCC_ENOTFOUND, "the path of a table is empty");
    std::string full = path;
    if (path[0] != '/') {
        std::unique_ptr<char, decltype(&std::free)> cwd(::getcwd(nullptr, 0), std::free);
        if (!cwd) throw Failure(CCC_ENOTFOUND, path + ": the working directory is not accessible");
        full = std::string(cwd.get()) + "/" + path;
    }
    while (full.size() > 1 && full.back() == '/') full.pop_back();
    return full;
}

void ccc::require_plain(const std::string &name, const std::string &path)
{
    if (std::string(cc::Path(name).expandedName()) != name)
        throw Failure(CCC_EARGUMENT, path + ": casacore would expand a variable in this name; rename it");
}

cc::TableLock ccc::lock_option(ccc_mode mode, ccc_lock lock)
{
    /* A table opened for writing has a lock that can be released before the destructor, which then does not write. */
    return cc::TableLock(mode == CCC_READ && lock == CCC_LOCK_NONE ? cc::TableLock::NoLocking
                                                                   : cc::TableLock::UserNoReadLocking);
}

/*
 * Do not use memory-mapped access, which would turn a failed read into SIGBUS. casacore's own cache may grow to the
 * whole column when parts of cells are read, and is four times slower. A table opened for writing gets a buffer of one
 * byte, which means no buffer. Then values reach the kernel without a flush, which would also rewrite the manager's
 * header in place; neighbouring bytes are not read and written back; and casacore does not fill a buffer to lengthen a
 * file by one byte.
 */
cc::TSMOption ccc::tile_option(ccc_mode mode)
{
    return cc::TSMOption(cc::TSMOption::Buffer, mode == CCC_UPDATE ? 1 : 256 << 10, 0);
}

void ccc::open_table(ccc_table **out, const std::string &path, const std::string &real,
                     const std::shared_ptr<Descriptor> &directory, ccc_mode mode, ccc_lock lock)
{
    const KnownManagersOnly known;
    require_table(real);
    check_files(real, path);
    check_managers(real, path);
    /* casacore also reports a table as not writable if its header is unreadable. Then opening it gives a better
     * message. */
    if (mode == CCC_UPDATE && !cc::Table::isWritable(real) && ::access((real + "/table.dat").c_str(), W_OK) != 0)
        throw Failure(CCC_EREADONLY, path + ": cannot be written");
    auto t = std::make_unique<ccc_table>();
    t->path = path;
    t->real = real;
    t->directory = directory;
    t->mode = mode;
    t->lock = lock;
    t->table = cc::Table(real, lock_option(mode, lock), mode == CCC_UPDATE ? cc::Table::Update : cc::Table::Old,
                         tile_option(mode));
    /* At the first flush, casacore would rewrite table.info in place even if it has not changed. */
    if (mode == CCC_UPDATE) t->table.tableInfo().flush("/dev/null");
    const cc::Record managers = t->table.dataManagerInfo();
    check_tiles(managers, real, path);
    if (mode == CCC_READ) keep_buckets(t->table, managers);
    take_lock(t.get());
    *out = t.release();
}

int ccc_table_exists(const char *path)
{
    struct stat info;
    std::string file;
    try {
        file = std::string(path ? path : "") + "/table.dat";
    } catch (...) {
        return 0;
    }
    return ::stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

int ccc_table_open(ccc_table **out, const char *path, ccc_mode mode, ccc_lock lock)
{
    *out = nullptr;
    return guarded(path ? path : "", [&] {
        const std::string full = absolute(path ? path : "");
        require_table(full);
        std::shared_ptr<Descriptor> directory;
        const std::string real = real_name(full, directory);
        open_table(out, full, real, directory, mode, lock);
    });
}

int ccc_subtable_open(ccc_table **out, ccc_table *parent, const char *name)
{
    *out = nullptr;
    return guarded(parent, nullptr, [&] {
        const cc::TableRecord &keys = parent->table.keywordSet();
        if (!name || !keys.isDefined(name) || keys.dataType(name) != cc::TpTable)
            throw Failure(CCC_ENOTFOUND, parent->path + ": has no subtable " + (name ? name : "(null)"));
        const std::string real = keys.tableAttributes(name).name();
        const std::string path = shown_name(parent, real);
        struct stat info;
        if (::stat(real.c_str(), &info) != 0)
            throw Failure(CCC_ENOTFOUND, path + ": subtable is missing: " + std::strerror(errno));
        open_table(out, path, real, parent->directory, parent->mode, parent->lock);
    });
}

int ccc_table_close(ccc_table *t)
{
    if (!t) return CCC_OK;
    const int status = guarded(t, nullptr, [&] {
        require_space(t);
        if (t->mode == CCC_UPDATE) t->table.flush();
        if (t->mode == CCC_UPDATE || t->lock == CCC_LOCK_HOLD) t->table.unlock();
    });
    /* casacore's destructor would try the failed write again, and then end the process. */
    if (status != CCC_OK) return status;
    return guarded(std::string(), [&] { delete t; });
}

int ccc_table_flush(ccc_table *t)
{
    return guarded(t, nullptr, [&] {
        require_space(t);
        t->table.flush();
    });
}

int ccc_table_resync(ccc_table *t)
{
    return guarded(t, nullptr, [&] {
        const KnownManagersOnly known;
        check_managers(t->real, t->path);
        t->table.resync();
        t->forget_shapes();
    });
}

int ccc_table_forget_changes(ccc_table *t)
{
    return guarded(t, nullptr, [&] {
        require_writable(t);
        if (rows_in_header(t->real) != static_cast<int64_t>(t->table.nrow())) {
            t->table.rwKeywordSet(); /* makes casacore write table.dat with all rows */
            require_space(t);
            t->table.flush();
        }
        const int64_t at = (1 + 2 * 32) * 4; /* after the list of requests for the lock */
        const unsigned char none[4] = {0, 0, 0, 0};
        const std::string name = t->real + "/table.lock";
        if (file_size(name) < at + 4) return;
        if (t->lock_file.fd < 0) t->lock_file.fd = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
        if (t->lock_file.fd < 0 || ::pwrite(t->lock_file.fd, none, sizeof none, at) != sizeof none ||
            ::fsync(t->lock_file.fd) != 0)
            throw Failure(CCC_EFAILED, t->path + "/table.lock: " + std::strerror(errno));
    });
}

int ccc_table_is_root(const ccc_table *t)
{
    int is = 0;
    guarded(t, nullptr, [&] { is = t->table.isRootTable() && t->table.getPartNames().size() == 1; });
    return is;
}

int ccc_table_parts(const ccc_table *t, char ***names, int64_t *n)
{
    *names = nullptr;
    *n = 0;
    return guarded(t, nullptr, [&] {
        std::vector<std::string> parts;
        for (const cc::String &name : t->table.getPartNames()) parts.push_back(shown_name(t, name));
        *names = block_of(parts);
        *n = static_cast<int64_t>(parts.size());
    });
}

const char *ccc_table_path(const ccc_table *t)
{
    return t ? t->path.c_str() : "";
}

int64_t ccc_table_n_row(const ccc_table *t)
{
    int64_t n = 0;
    guarded(t, nullptr, [&] { n = static_cast<int64_t>(t->table.nrow()); });
    return n;
}

int ccc_table_add_rows(ccc_table *t, int64_t n)
{
    return guarded(t, nullptr, [&] {
        require_writable(t);
        if (n < 0) throw Failure(CCC_EARGUMENT, t->path + ": rows to add: " + std::to_string(n));
        t->forget_shapes();
        t->table.addRow(static_cast<cc::rownr_t>(n));
        /* Mark the table as changed; otherwise only table.lock would have the new number of rows. */
        t->table.rwKeywordSet();
    });
}

int ccc_table_has_column(const ccc_table *t, const char *column)
{
    int has = 0;
    guarded(t, nullptr, [&] { has = column && t->table.tableDesc().isColumn(column); });
    return has;
}

int ccc_table_columns(ccc_table *t, char ***names, int64_t *n)
{
    return guarded(t, nullptr, [&] {
        const auto list = strings_in(t->table.tableDesc().columnNames());
        *names = block_of(list);
        *n = static_cast<int64_t>(list.size());
    });
}
