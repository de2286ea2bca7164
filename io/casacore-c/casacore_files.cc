/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks that the files of a table are as long as they say: casacore can crash in short ones. */
#include "casacore_internal.hpp"

#include <cctype>
#include <cerrno>

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

/* Reads an unsigned number as casacore stores it, in either byte order. */
uint64_t number_at(const unsigned char *p, int n_byte, bool big)
{
    uint64_t v = 0;
    for (int i = 0; i < n_byte; i++) v = v << 8 | p[big ? i : n_byte - 1 - i];
    return v;
}

/*
 * What a file of casacore's must have by its beginning. Each begins with an object that has the object's length; those
 * of the Standard and Incremental storage manager go on with buckets whose number and size are in that object, behind
 * the manager's name and version, and (since version 3 and 5) one byte for the byte order.
 */
int64_t size_by_header(const std::string &path, const std::string &shown)
{
    unsigned char head[128] = {0};
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    const ssize_t n = ::pread(file.fd, head, sizeof head, 0);
    if (n < 16 || number_at(head, 4, true) != 0xbebebebe) truncated(shown, "it has no valid header");
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

/* A file of arrays begins with a version and its length, which is returned. */
int64_t size_by_array_header(const std::string &path, const std::string &shown)
{
    unsigned char head[16];
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    if (::pread(file.fd, head, sizeof head, 0) < 16) truncated(shown, "it has no valid header");
    const uint64_t little = number_at(head + 4, 8, false), big = number_at(head + 4, 8, true);
    const uint64_t old_big = number_at(head + 4, 4, true); /* version 0 has 4 bytes */
    return static_cast<int64_t>(std::min({little, big, old_big ? old_big : UINT64_MAX}));
}

/*
 * The number that the next storage manager of a table gets, or INT64_MAX where it is not found: table.dat has it where
 * the managers are listed, behind a version (-2, -3) and the number of rows, and before the number of managers and the
 * name of the first. Files of higher numbers were left by a process that was killed before it had added their column.
 */
int64_t next_manager(const std::string &real)
{
    std::vector<unsigned char> bytes(static_cast<size_t>(std::max<int64_t>(0, file_size(real + "/table.dat"))));
    const Descriptor file(::open((real + "/table.dat").c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd < 0 || ::pread(file.fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
        return INT64_MAX;
    for (size_t i = 0; i + 32 < bytes.size(); i++) {
        const uint64_t version = number_at(&bytes[i], 4, true);
        if (version != 0xfffffffe && version != 0xfffffffd) continue;
        const unsigned char *p = &bytes[i] + (version == 0xfffffffe ? 8 : 20);
        const uint64_t next = number_at(p, 4, true), n = number_at(p + 4, 4, true), length = number_at(p + 8, 4, true);
        if (n > 0 && n <= next && next < 1 << 20 && length > 0 && length < 64 && std::isalpha(p[12]))
            return static_cast<int64_t>(next);
    }
    return INT64_MAX;
}

} // namespace

int64_t ccc::file_size(const std::string &path)
{
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : -1;
}

void ccc::check_files(const std::string &real, const std::string &shown)
{
    const int64_t next = next_manager(real);
    std::vector<std::string> names{"table.dat"};
    std::unique_ptr<DIR, int (*)(DIR *)> dir(::opendir(real.c_str()), ::closedir);
    if (!dir) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    while (const dirent *e = ::readdir(dir.get()))
        if (std::strncmp(e->d_name, "table.f", 7) == 0 && e->d_name[7] >= '0' && e->d_name[7] <= '9' &&
            std::strtoll(e->d_name + 7, nullptr, 10) < next)
            names.push_back(e->d_name);
    for (const auto &name : names) {
        const size_t end = name == "table.dat" ? name.size() : name.find_first_not_of("0123456789", 7);
        const std::string tail = end == std::string::npos ? "" : name.substr(end);
        if (!tail.empty() && tail != "i") continue;
        const std::string path = real + "/" + name, at = shown + "/" + name;
        const int64_t needs = tail == "i" ? size_by_array_header(path, at) : size_by_header(path, at);
        const int64_t has = file_size(path);
        if (has < needs) truncated(at, std::to_string(has) + " bytes of " + std::to_string(needs));
    }
}

/* Compares the bytes that the tiles of each hypercube take with the files that hold them. */
void ccc::check_tiles(const cc::Record &managers, const std::string &real, const std::string &shown)
{
    for (cc::uInt m = 0; m < managers.nfields(); m++) {
        const cc::Record &manager = managers.subRecord(m);
        const cc::Record *cubes = cubes_of(manager);
        if (!cubes) continue;
        const std::string file = "/table.f" + std::to_string(manager.asuInt("SEQNR"));
        if (file_size(real + file) < 0) continue; /* all in one MultiFile */
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
        if (has < needs) truncated(shown + file + last, std::to_string(has) + " bytes of " + std::to_string(needs));
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
