/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks the sizes of a table's files, because casacore can crash on truncated files. */
#include "casacore_internal.hpp"

#include <cctype>
#include <cerrno>
#include <set>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <casacore/casa/Containers/Record.h>

using namespace ccc;

namespace {

[[noreturn]] void truncated(const std::string &shown, const std::string &why)
{
    throw Failure(CCC_EFAILED, "truncated or corrupt: " + shown + " (" + why + ")");
}

/* Read the beginning of a file, of at least 16 bytes. */
void read_head(int fd, unsigned char *head, size_t n, const std::string &shown)
{
    const ssize_t has = ::pread(fd, head, n, 0);
    if (has < 0) throw Failure(CCC_EFAILED, shown + ": cannot be read: " + std::strerror(errno));
    if (has < 16) truncated(shown, "it has no valid header");
}

std::string sizes(int64_t has, int64_t needs)
{
    return std::to_string(has) + " bytes of " + std::to_string(needs);
}

/* Read an unsigned number of casacore, in either byte order. */
uint64_t number_at(const unsigned char *p, int n_byte, bool big)
{
    uint64_t v = 0;
    for (int i = 0; i < n_byte; i++) v = v << 8 | p[big ? i : n_byte - 1 - i];
    return v;
}

/*
 * Compute the smallest size of a casacore file from its beginning. A file begins with an object that contains its own
 * length. In files of the Standard and Incremental storage manager, buckets follow. Their number and size are in that
 * object, after the manager's name and version and, since versions 3 and 5, one byte for the byte order.
 */
int64_t size_by_header(const std::string &path, const std::string &shown)
{
    unsigned char head[128] = {0};
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    read_head(file.fd, head, sizeof head, shown);
    if (number_at(head, 4, true) != 0xbebebebe) truncated(shown, "it has no valid header");
    const bool big = number_at(head + 4, 4, true) < number_at(head + 4, 4, false);
    const int64_t object = 4 + static_cast<int64_t>(number_at(head + 4, 4, big));
    const size_t n_name = number_at(head + 8, 4, big);
    if (n_name > 64) return object;
    const std::string name(reinterpret_cast<const char *>(head + 12), n_name);
    const bool incremental = name == "IncrementalStMan";
    if (!incremental && name != "StandardStMan") return object;
    const uint64_t version = number_at(head + 12 + n_name, 4, big);
    const unsigned char *p = head + 16 + n_name + (version >= (incremental ? 5u : 3u) ? 1 : 0);
    const int64_t buckets =
        512 + static_cast<int64_t>(number_at(p, 4, big)) * static_cast<int64_t>(number_at(p + 4, 4, big));
    if (!incremental) return buckets;
    unsigned char index[8];
    if (::pread(file.fd, index, sizeof index, buckets) != sizeof index) return buckets + 8;
    return buckets + 4 + static_cast<int64_t>(number_at(index + 4, 4, big));
}

/* A file of arrays begins with a version and its length. Returns the length. */
int64_t size_by_array_header(const std::string &path, const std::string &shown)
{
    unsigned char head[16];
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    read_head(file.fd, head, sizeof head, shown);
    const uint64_t little = number_at(head + 4, 8, false), big = number_at(head + 4, 8, true);
    const uint64_t old_big = number_at(head + 4, 4, true); /* version 0 has 4 bytes */
    return static_cast<int64_t>(std::min({little, big, old_big ? old_big : UINT64_MAX}));
}

/* The list of the table's storage managers in table.dat. */
struct ManagerList {
    int64_t next = INT64_MAX;                    /* number of the next manager; INT64_MAX if the list is not found */
    std::map<int64_t, std::string> from_outside; /* types, by number, of managers that are not part of casacore */
};

bool is_from_outside(const std::string &type)
{
    static const std::set<std::string> own{"StandardStMan",  "IncrementalStMan", "TiledColumnStMan", "TiledShapeStMan",
                                           "TiledCellStMan", "TiledDataStMan",   "StManAipsIO"};
    return own.count(type) == 0;
}

/* Read a list of n managers, each with a name and a number, from p; return false if there is no such list. */
bool read_managers(const unsigned char *p, const unsigned char *end, uint64_t n, ManagerList &list)
{
    for (uint64_t i = 0; i < n; i++) {
        if (end - p < 4) return false;
        const uint64_t length = number_at(p, 4, true);
        if (length == 0 || length >= 64 || static_cast<uint64_t>(end - p) < 8 + length || !std::isalpha(p[4]))
            return false;
        const std::string type(reinterpret_cast<const char *>(p + 4), length);
        const auto number = static_cast<int64_t>(number_at(p + 4 + length, 4, true));
        if (number >= list.next) return false;
        if (is_from_outside(type)) list.from_outside[number] = type;
        p += 8 + length;
    }
    return true;
}

/*
 * Find the list of managers in table.dat. It follows a version (-2, -3), the number of rows, the number of the next
 * manager, and the count of managers. Files with the next number or a higher one come from a process that was killed
 * before it had added their column.
 */
ManagerList managers_of_file(const std::string &real)
{
    std::vector<unsigned char> bytes(static_cast<size_t>(std::max<int64_t>(0, file_size(real + "/table.dat"))));
    const Descriptor file(::open((real + "/table.dat").c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0 || ::pread(file.fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) return {};
    for (size_t i = 0; i + 32 < bytes.size(); i++) {
        const uint64_t version = number_at(&bytes[i], 4, true);
        if (version != 0xfffffffe && version != 0xfffffffd) continue;
        const unsigned char *p = &bytes[i] + (version == 0xfffffffe ? 8 : 20);
        const uint64_t next = number_at(p, 4, true), n = number_at(p + 4, 4, true);
        ManagerList list;
        list.next = static_cast<int64_t>(next);
        if (n > 0 && n <= next && next < 1 << 20 && read_managers(p + 8, bytes.data() + bytes.size(), n, list))
            return list;
    }
    return {};
}

/*
 * Compute the smallest size of a DyscoStMan file. It has a header (its length, the offset and number of the column
 * headers, the manager's name, rows and bytes of a block) and blocks. A block has its columns one after another. The
 * last block may end after any column, if later columns were not written yet; before the first write there is no block.
 * Numbers are little-endian.
 */
int64_t size_by_dysco_header(const std::string &path, const std::string &shown, int64_t n_row)
{
    unsigned char head[1024] = {0};
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    read_head(file.fd, head, sizeof head, shown);
    const auto word = [&](size_t at) { return at + 4 <= sizeof head ? number_at(head + at, 4, false) : 0; };
    const size_t n_column = word(8), block = 16 + word(12);
    const auto length = static_cast<int64_t>(word(0)), block_rows = static_cast<int64_t>(word(block)),
               block_bytes = static_cast<int64_t>(word(block + 8));
    if (block_rows < 1 || n_row < 1) return length;
    int64_t end;
    if (__builtin_mul_overflow((n_row - 1) / block_rows, block_bytes, &end) ||
        __builtin_add_overflow(end, length, &end) || end > INT64_MAX / 2)
        truncated(shown, "its header is not valid");
    const int64_t has = file_size(path);
    for (size_t i = 0, at = word(4); i < n_column && word(at) > 0 && (i == 0 || end < has); i++) {
        end += static_cast<int64_t>(word(at + 4));
        at += word(at);
    }
    return end;
}

/* Return whether a link leads to a file in a table's directory that has the name of a table's file. */
bool leads_to_a_table(const std::string &link)
{
    std::unique_ptr<char, decltype(&std::free)> target(::realpath(link.c_str(), nullptr), std::free);
    if (!target) return false;
    const std::string path = target.get();
    const size_t slash = path.rfind('/');
    struct stat info;
    return path.compare(slash + 1, 6, "table.") == 0 &&
           ::stat((path.substr(0, slash) + "/table.dat").c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

} // namespace

int64_t ccc::file_size(const std::string &path)
{
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : -1;
}

void ccc::check_kinds(const std::string &real, const std::string &shown)
{
    std::unique_ptr<DIR, int (*)(DIR *)> dir(::opendir(real.c_str()), ::closedir);
    if (!dir) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    while (const dirent *e = ::readdir(dir.get())) {
        struct stat info;
        if (std::strncmp(e->d_name, "table.", 6) != 0) continue;
        if (::fstatat(::dirfd(dir.get()), e->d_name, &info, 0) == 0 && !S_ISREG(info.st_mode))
            throw Failure(CCC_EFAILED, "truncated or corrupt: " + shown + "/" + e->d_name + " (not a plain file)");
        if (::fstatat(::dirfd(dir.get()), e->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode) &&
            !leads_to_a_table(real + "/" + e->d_name))
            throw Failure(CCC_EFAILED, shown + "/" + e->d_name +
                                           ": is a link, but not to a file of a table; put a copy in its place");
    }
}

void ccc::check_files(const std::string &real, const std::string &shown)
{
    check_kinds(real, shown);
    const ManagerList managers = managers_of_file(real);
    std::vector<std::string> names{"table.dat"};
    std::unique_ptr<DIR, int (*)(DIR *)> dir(::opendir(real.c_str()), ::closedir);
    if (!dir) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    while (const dirent *e = ::readdir(dir.get()))
        if (std::strncmp(e->d_name, "table.f", 7) == 0 && e->d_name[7] >= '0' && e->d_name[7] <= '9') {
            const int64_t number = std::strtoll(e->d_name + 7, nullptr, 10);
            if (number < managers.next && managers.from_outside.count(number) == 0) names.push_back(e->d_name);
        }
    for (const auto &[number, type] : managers.from_outside) {
        const std::string name = "/table.f" + std::to_string(number);
        const int64_t has = file_size(real + name);
        if (type != "DyscoStMan" || has < 0) continue;
        const int64_t needs = size_by_dysco_header(real + name, shown + name, rows_in_header(real));
        if (has < needs) truncated(shown + name, sizes(has, needs));
    }
    for (const auto &name : names) {
        const size_t end = name == "table.dat" ? name.size() : name.find_first_not_of("0123456789", 7);
        const std::string tail = end == std::string::npos ? "" : name.substr(end);
        if (!tail.empty() && tail != "i") continue;
        const std::string path = real + "/" + name, at = shown + "/" + name;
        const int64_t needs = tail == "i" ? size_by_array_header(path, at) : size_by_header(path, at);
        const int64_t has = file_size(path);
        if (has < needs) truncated(at, sizes(has, needs));
    }
}

int ccc_table_check(const char *path)
{
    return guarded(path ? path : "", [&] {
        const std::string real(path ? path : "");
        check_files(real, real);
    });
}

/* Compare the sizes of the tiles of each hypercube with the sizes of their files. */
void ccc::check_tiles(const cc::Record &managers, const std::string &real, const std::string &shown)
{
    for (cc::uInt m = 0; m < managers.nfields(); m++) {
        const cc::Record &manager = managers.subRecord(m);
        const cc::Record *cubes = cubes_of(manager);
        if (!cubes) continue;
        const std::string file = "/table.f" + std::to_string(manager.asuInt("SEQNR"));
        if (file_size(real + file) < 0) continue; /* all files are in one MultiFile */
        int64_t needs = 0, has = 0;
        for (cc::uInt i = 0; i < cubes->nfields(); i++) {
            const cc::Record &cube = cubes->subRecord(i);
            const cc::Vector<cc::Int> shape(cube.toArrayInt("CubeShape")), tile(cube.toArrayInt("TileShape"));
            int64_t n_tile = 1;
            for (size_t k = 0; k < shape.size() && k < tile.size(); k++)
                n_tile *= tile[k] > 0 ? (static_cast<int64_t>(shape[k]) + tile[k] - 1) / tile[k] : 1;
            needs += n_tile * cube.asInt("BucketSize");
        }
        std::string last = "_TSM0";
        for (int i = 0, gap = 0; gap < 3; i++) {
            const std::string tail = "_TSM" + std::to_string(i);
            const int64_t size = file_size(real + file + tail);
            gap = size < 0 ? gap + 1 : 0;
            if (size < 0) continue;
            has += size;
            last = tail;
        }
        if (has < needs) truncated(shown + file + last, sizes(has, needs));
    }
}

int64_t ccc::rows_in_header(const std::string &real)
{
    unsigned char head[32];
    const Descriptor file(::open((real + "/table.dat").c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0 || ::pread(file.fd, head, sizeof head, 0) != sizeof head) return -1;
    if (number_at(head + 8, 4, true) != 5 || std::memcmp(head + 12, "Table", 5) != 0) return -1;
    return static_cast<int64_t>(number_at(head + 21, number_at(head + 17, 4, true) > 2 ? 8 : 4, true));
}
