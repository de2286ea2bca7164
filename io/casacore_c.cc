/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The only C++ that knows casacore: every exception ends here, as a code and a message. */
#include "io/casacore_c.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <casacore/casa/Arrays/Array.h>
#include <casacore/casa/Arrays/IPosition.h>
#include <casacore/casa/Arrays/Slicer.h>
#include <casacore/casa/Containers/Record.h>
#include <casacore/casa/Exceptions/Error.h>
#include <casacore/casa/Logging/LogSink.h>
#include <casacore/casa/Logging/NullLogSink.h>
#include <casacore/casa/OS/Path.h>
#include <casacore/casa/Quanta/MVDirection.h>
#include <casacore/casa/Quanta/MVPosition.h>
#include <casacore/casa/version.h>
#include <casacore/measures/Measures/MCDirection.h>
#include <casacore/measures/Measures/MDirection.h>
#include <casacore/measures/Measures/MEpoch.h>
#include <casacore/measures/Measures/MPosition.h>
#include <casacore/measures/Measures/MeasConvert.h>
#include <casacore/measures/Measures/MeasFrame.h>
#include <casacore/ms/MSSel/MSSelection.h>
#include <casacore/ms/MeasurementSets/MSSource.h>
#include <casacore/ms/MeasurementSets/MeasurementSet.h>
#include <casacore/tables/DataMan/DataManager.h>
#include <casacore/tables/DataMan/IncrementalStMan.h>
#include <casacore/tables/DataMan/StandardStMan.h>
#include <casacore/tables/DataMan/TSMOption.h>
#include <casacore/tables/DataMan/TiledColumnStMan.h>
#include <casacore/tables/DataMan/TiledShapeStMan.h>
#include <casacore/tables/TaQL/ExprNode.h>
#include <casacore/tables/TaQL/RecordGram.h>
#include <casacore/tables/Tables/ArrColDesc.h>
#include <casacore/tables/Tables/ArrayColumn.h>
#include <casacore/tables/Tables/RefRows.h>
#include <casacore/tables/Tables/RowNumbers.h>
#include <casacore/tables/Tables/ScaColDesc.h>
#include <casacore/tables/Tables/ScalarColumn.h>
#include <casacore/tables/Tables/SetupNewTab.h>
#include <casacore/tables/Tables/Table.h>
#include <casacore/tables/Tables/TableAttr.h>
#include <casacore/tables/Tables/TableColumn.h>
#include <casacore/tables/Tables/TableDesc.h>
#include <casacore/tables/Tables/TableError.h>
#include <casacore/tables/Tables/TableLock.h>
#include <casacore/tables/Tables/TableRecord.h>

namespace cc = casacore;

static_assert(sizeof(cc::Bool) == 1 && sizeof(cc::uChar) == 1 && sizeof(cc::Short) == 2 && sizeof(cc::Int) == 4 &&
                  sizeof(cc::uInt) == 4 && sizeof(cc::Int64) == 8 && sizeof(cc::Complex) == 8 &&
                  sizeof(cc::DComplex) == 16,
              "casacore's types are laid out as the C types that stand for them");

namespace {

/* An open directory, by which casacore can be given a name that it would otherwise expand or cut. */
struct Directory {
    int fd = -1;
    ~Directory()
    {
        if (fd >= 0) ::close(fd);
    }
};

/* Rows known to have cells of one shape. */
struct Alike {
    int64_t begin = 0, end = 0;
    bool defined = false;
    cc::IPosition shape;
};

} // namespace

struct ccc_table {
    Directory lock_file; /* closed after the table: closing any descriptor of table.lock gives up the lock */
    cc::Table table;
    std::string path; /* absolute, as the user would write it */
    std::string real; /* the name casacore knows it by */
    std::shared_ptr<Directory> directory;
    ccc_mode mode = CCC_READ;
    ccc_lock lock = CCC_LOCK_NONE;
    std::map<std::string, Alike> alike;
    std::map<std::string, bool> in_one_cube; /* columns with all rows in one hypercube, until a cell's shape is set */
};

namespace {

/* ---- Errors ---- */

thread_local char message[2048];

class Failure : public std::runtime_error {
  public:
    Failure(int status, const std::string &what) : std::runtime_error(what), code(status) {}
    int code;
};

int fail(int code, const char *text) noexcept
{
    size_t n = std::min(std::strlen(text), sizeof message - 1);
    std::memcpy(message, text, n);
    message[n] = 0;
    for (size_t i = 0; i < n; i++)
        if (static_cast<unsigned char>(message[i]) < ' ') message[i] = ' ';
    return code;
}

std::recursive_mutex &process_lock()
{
    static std::recursive_mutex *lock = new std::recursive_mutex; /* outlives every static of casacore */
    return *lock;
}

/* casacore's own log lines would go to the caller's stderr. */
void silence_log()
{
    static const bool done = [] {
        cc::LogSinkInterface *sink = new cc::NullLogSink;
        cc::LogSink::globalSink(sink);
        return true;
    }();
    (void)done;
}

/* Runs f, which throws to fail. `context` begins the message of what casacore throws; Failures have their own. */
template <class F> int guarded(const std::string &context, F &&f) noexcept
{
    try {
        std::lock_guard<std::recursive_mutex> hold(process_lock());
        silence_log();
        f();
        return CCC_OK;
    } catch (const Failure &e) {
        return fail(e.code, e.what());
    } catch (const std::bad_alloc &) {
        return fail(CCC_ENOMEM, "out of memory");
    } catch (const std::exception &e) {
        try {
            return fail(CCC_EFAILED, (context + ": " + e.what()).c_str());
        } catch (...) {
            return fail(CCC_EFAILED, "casacore failed");
        }
    } catch (...) {
        return fail(CCC_EFAILED, "casacore failed in an unknown way");
    }
}

template <class F> int guarded(const ccc_table *t, const char *column, F &&f) noexcept
{
    if (!t) return fail(CCC_EARGUMENT, "no table is open");
    try {
        return guarded(column ? t->path + ": column " + column : t->path, f);
    } catch (...) {
        return fail(CCC_ENOMEM, "out of memory");
    }
}

/* ---- Paths ---- */

std::string absolute(const std::string &path)
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

/* casacore expands `$NAME` in a path, and names of files are formed by appending to it. */
bool is_awkward(const std::string &path)
{
    return path.find('$') != std::string::npos || path.size() > 3072;
}

void require_table(const std::string &path)
{
    struct stat info;
    if (::stat(path.c_str(), &info) != 0) throw Failure(CCC_ENOTFOUND, path + ": " + std::strerror(errno));
    if (!S_ISDIR(info.st_mode)) throw Failure(CCC_ENOTFOUND, path + ": a file, not a table (which is a directory)");
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throw Failure(CCC_EFAILED, path + ": " + std::strerror(errno));
    const bool has = ::fstatat(fd, "table.dat", &info, 0) == 0;
    ::close(fd);
    if (!has) throw Failure(CCC_ENOTFOUND, path + ": not a table (it has no table.dat)");
}

/* ---- Types ---- */

ccc_type type_of(cc::DataType type)
{
    switch (type) {
    case cc::TpBool:
    case cc::TpArrayBool:
        return CCC_BOOL;
    case cc::TpUChar:
    case cc::TpArrayUChar:
        return CCC_UINT8;
    case cc::TpShort:
    case cc::TpArrayShort:
        return CCC_INT16;
    case cc::TpInt:
    case cc::TpArrayInt:
        return CCC_INT32;
    case cc::TpUInt:
    case cc::TpArrayUInt:
        return CCC_UINT32;
    case cc::TpInt64:
    case cc::TpArrayInt64:
        return CCC_INT64;
    case cc::TpFloat:
    case cc::TpArrayFloat:
        return CCC_FLOAT;
    case cc::TpDouble:
    case cc::TpArrayDouble:
        return CCC_DOUBLE;
    case cc::TpComplex:
    case cc::TpArrayComplex:
        return CCC_COMPLEX;
    case cc::TpDComplex:
    case cc::TpArrayDComplex:
        return CCC_DCOMPLEX;
    case cc::TpString:
    case cc::TpArrayString:
        return CCC_STRING;
    default:
        return CCC_OTHER;
    }
}

const char *name_of(ccc_type type)
{
    static const char *const names[] = {"bool",  "uint8",  "int16",   "int32",    "uint32", "int64",
                                        "float", "double", "complex", "dcomplex", "string", "other"};
    return names[type];
}

template <class T> struct Tag {
    using type = T;
};

/* Calls f with a Tag of the C++ type that stands for `type`. */
template <class F> void with_type(ccc_type type, F &&f)
{
    switch (type) {
    case CCC_BOOL:
        return f(Tag<cc::Bool>{});
    case CCC_UINT8:
        return f(Tag<cc::uChar>{});
    case CCC_INT16:
        return f(Tag<cc::Short>{});
    case CCC_INT32:
        return f(Tag<cc::Int>{});
    case CCC_UINT32:
        return f(Tag<cc::uInt>{});
    case CCC_INT64:
        return f(Tag<cc::Int64>{});
    case CCC_FLOAT:
        return f(Tag<cc::Float>{});
    case CCC_DOUBLE:
        return f(Tag<cc::Double>{});
    case CCC_COMPLEX:
        return f(Tag<cc::Complex>{});
    case CCC_DCOMPLEX:
        return f(Tag<cc::DComplex>{});
    default:
        throw Failure(CCC_ETYPE, std::string("no numbers in a ") + name_of(type));
    }
}

template <class T> struct is_complex : std::false_type {
};
template <class T> struct is_complex<std::complex<T>> : std::true_type {
};

template <class To, class From> To converted(From v)
{
    if constexpr (is_complex<To>::value && is_complex<From>::value) {
        using R = typename To::value_type;
        return To(static_cast<R>(v.real()), static_cast<R>(v.imag()));
    } else if constexpr (is_complex<To>::value) {
        return To(static_cast<typename To::value_type>(v), 0);
    } else if constexpr (std::is_same_v<To, bool>) {
        return v != From(0);
    } else if constexpr (std::is_floating_point_v<To>) {
        return static_cast<To>(v);
    } else {
        const long double x = static_cast<long double>(v); /* holds every int64 */
        if (!(x >= static_cast<long double>(std::numeric_limits<To>::min()))) return std::numeric_limits<To>::min();
        if (x >= static_cast<long double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
        return static_cast<To>(v);
    }
}

char **block_of(const std::vector<std::string> &strings)
{
    size_t bytes = (strings.size() + 1) * sizeof(char *);
    for (const auto &s : strings) bytes += s.size() + 1;
    char **block = static_cast<char **>(std::malloc(bytes));
    if (!block) throw std::bad_alloc();
    char *at = reinterpret_cast<char *>(block + strings.size() + 1);
    for (size_t i = 0; i < strings.size(); i++) {
        block[i] = at;
        std::memcpy(at, strings[i].c_str(), strings[i].size() + 1);
        at += strings[i].size() + 1;
    }
    block[strings.size()] = nullptr;
    return block;
}

std::vector<std::string> strings_in(const cc::Array<cc::String> &array)
{
    std::vector<std::string> out;
    for (const auto &s : array) out.push_back(s);
    return out;
}

char *copy_of(const std::string &s)
{
    char *copy = static_cast<char *>(std::malloc(s.size() + 1));
    if (!copy) throw std::bad_alloc();
    std::memcpy(copy, s.c_str(), s.size() + 1);
    return copy;
}

template <class T> T *array_of(const std::vector<T> &values)
{
    T *copy = static_cast<T *>(std::malloc(std::max<size_t>(1, values.size() * sizeof(T))));
    if (!copy) throw std::bad_alloc();
    if (!values.empty()) std::memcpy(copy, values.data(), values.size() * sizeof(T));
    return copy;
}

/* ---- Shapes ---- */

cc::IPosition position(int ndim, const int64_t *values)
{
    if (ndim < 0 || ndim > CCC_MAX_DIM) throw Failure(CCC_EARGUMENT, "an array of more than 8 dimensions");
    cc::IPosition out(static_cast<unsigned>(ndim));
    for (int i = 0; i < ndim; i++) out[i] = values[i];
    return out;
}

void store_shape(const cc::IPosition &shape, int64_t *out)
{
    if (shape.size() > CCC_MAX_DIM) throw Failure(CCC_ESHAPE, "an array of more than 8 dimensions");
    for (size_t i = 0; i < shape.size(); i++) out[i] = shape[i];
}

std::string text_of(const cc::IPosition &shape)
{
    std::string s = "[";
    for (size_t i = 0; i < shape.size(); i++) s += (i ? "," : "") + std::to_string(shape[i]);
    return s + "]";
}

cc::Slicer slicer_of(const ccc_slice &s, const cc::IPosition &cell)
{
    if (s.ndim != static_cast<int>(cell.size()))
        throw Failure(CCC_ESHAPE,
                      "a slice of " + std::to_string(s.ndim) + " axes from cells of shape " + text_of(cell));
    for (int i = 0; i < s.ndim; i++)
        if (s.start[i] < 0 || s.count[i] < 1 || s.stride[i] < 1 ||
            s.start[i] + (s.count[i] - 1) * s.stride[i] >= cell[i])
            throw Failure(CCC_ESHAPE, "a slice outside cells of shape " + text_of(cell));
    return cc::Slicer(position(s.ndim, s.start), position(s.ndim, s.count), position(s.ndim, s.stride));
}

/* ---- Columns ---- */

void require_column(const ccc_table *t, const char *column)
{
    if (!column || !t->table.tableDesc().isColumn(column))
        throw Failure(CCC_ENOTFOUND, t->path + ": has no column " + (column ? column : "(null)"));
}

void require_rows(const ccc_table *t, int64_t row, int64_t n_row)
{
    const int64_t n = static_cast<int64_t>(t->table.nrow());
    if (row < 0 || n_row < 0 || row > n || n_row > n - row)
        throw Failure(CCC_EARGUMENT, t->path + ": " + std::to_string(n_row) + " rows from row " + std::to_string(row) +
                                         " on, of a table of " + std::to_string(n));
}

void require_rows(const ccc_table *t, const int64_t *rows, int64_t n_row)
{
    for (int64_t i = 0; i < n_row; i++) {
        require_rows(t, rows[i], 1);
        if (i && rows[i] <= rows[i - 1]) throw Failure(CCC_EARGUMENT, t->path + ": a list of rows does not ascend");
    }
}

void require_writable(const ccc_table *t)
{
    if (t->mode != CCC_UPDATE) throw Failure(CCC_EREADONLY, t->path + ": opened to read");
}

bool is_fixed(const cc::ColumnDesc &d)
{
    return d.isScalar() || d.isFixedShape();
}

/* Shape of one cell; false where it has no value. */
bool cell_shape(const cc::TableColumn &c, int64_t row, cc::IPosition &shape)
{
    const cc::ColumnDesc &d = c.columnDesc();
    if (d.isScalar()) {
        shape.resize(0);
        return true;
    }
    if (!c.isDefined(row)) return false;
    shape.resize(0);
    shape = c.shape(row);
    return true;
}

/* All cells of a tiled column have one shape where one hypercube holds every row: no need to ask for each. */
bool is_in_one_cube(ccc_table *t, const char *column)
{
    const auto known = t->in_one_cube.find(column);
    if (known != t->in_one_cube.end()) return known->second;
    bool one = false;
    const cc::Record managers = t->table.dataManagerInfo();
    for (cc::uInt i = 0; i < managers.nfields(); i++) {
        const cc::Record &m = managers.subRecord(i);
        const cc::Vector<cc::String> columns(m.asArrayString("COLUMNS"));
        if (std::find(columns.begin(), columns.end(), cc::String(column)) == columns.end()) continue;
        if (!m.isDefined("SPEC") || !m.subRecord("SPEC").isDefined("HYPERCUBES")) break;
        const cc::Record &cubes = m.subRecord("SPEC").subRecord("HYPERCUBES");
        if (cubes.nfields() != 1) break;
        const cc::Vector<cc::Int> shape(cubes.subRecord(0).toArrayInt("CubeShape"));
        one = shape.size() > 0 && static_cast<cc::rownr_t>(shape[shape.size() - 1]) == t->table.nrow();
        break;
    }
    return t->in_one_cube[column] = one;
}

/* The stretch of rows from `row` on that are like it, remembered for the read that follows. */
const Alike &alike_from(ccc_table *t, const char *column, const cc::TableColumn &c, int64_t row, int64_t n_row)
{
    Alike &a = t->alike[column];
    if (row < a.begin || row >= a.end) {
        a.begin = row;
        a.end = row + 1;
        a.defined = cell_shape(c, row, a.shape);
    }
    if (a.end < row + n_row && (is_fixed(c.columnDesc()) || is_in_one_cube(t, column))) a.end = row + n_row;
    cc::IPosition shape;
    while (a.end < row + n_row) {
        const bool defined = cell_shape(c, a.end, shape);
        if (defined != a.defined || (defined && !shape.isEqual(a.shape))) break;
        a.end++;
    }
    return a;
}

cc::IPosition shape_in(ccc_table *t, const char *column, const cc::TableColumn &c, int64_t row, int64_t n_row)
{
    const Alike &a = alike_from(t, column, c, row, n_row);
    const std::string where = t->path + ": column " + column + ", row ";
    if (!a.defined) throw Failure(CCC_ESHAPE, where + std::to_string(row) + ": the cell has no value");
    if (a.end < row + n_row)
        throw Failure(CCC_ESHAPE, where + std::to_string(a.end) + ": the cell has no value or another shape than " +
                                      text_of(a.shape));
    return a.shape;
}

/* One way to name rows for both kinds of access. */
struct Rows {
    int64_t first = 0, n = 0;
    const int64_t *list = nullptr;

    cc::Slicer range() const
    {
        return cc::Slicer(cc::IPosition(1, first), cc::IPosition(1, n));
    }
    cc::RefRows ref() const
    {
        cc::Vector<cc::rownr_t> v(n);
        for (int64_t i = 0; i < n; i++) v[i] = list[i];
        return cc::RefRows(v, false, true);
    }
};

template <class T>
void read_native(const ccc_table *t, const char *column, const Rows &rows, const cc::Slicer *slicer,
                 const cc::IPosition &cell, T *out)
{
    if (t->table.tableDesc()[column].isScalar()) {
        cc::Vector<T> v(cc::IPosition(1, rows.n), out, cc::SHARE);
        cc::ScalarColumn<T> c(t->table, column);
        if (rows.list)
            c.getColumnCells(rows.ref(), v);
        else
            c.getColumnRange(rows.range(), v);
        return;
    }
    cc::IPosition shape(cell.size() + 1);
    for (size_t i = 0; i < cell.size(); i++) shape[i] = slicer ? slicer->length()[i] : cell[i];
    shape[cell.size()] = rows.n;
    cc::Array<T> a(shape, out, cc::SHARE);
    cc::ArrayColumn<T> c(t->table, column);
    if (rows.list) {
        if (slicer)
            c.getColumnCells(rows.ref(), *slicer, a);
        else
            c.getColumnCells(rows.ref(), a);
    } else if (slicer) {
        c.getColumnRange(rows.range(), *slicer, a);
    } else {
        c.getColumnRange(rows.range(), a);
    }
}

void get(ccc_table *t, const char *column, const Rows &rows, const ccc_slice *slice, ccc_type type, void *out,
         int64_t n_out)
{
    require_column(t, column);
    if (rows.list)
        require_rows(t, rows.list, rows.n);
    else
        require_rows(t, rows.first, rows.n);
    if (rows.n == 0) {
        if (n_out != 0) throw Failure(CCC_EARGUMENT, "a buffer for no rows");
        return;
    }
    const cc::TableColumn c(t->table, column);
    const ccc_type stored = type_of(c.columnDesc().dataType());
    cc::IPosition cell;
    if (!rows.list) {
        cell = shape_in(t, column, c, rows.first, rows.n);
    } else if (is_fixed(c.columnDesc())) {
        cell = shape_in(t, column, c, rows.list[0], 1);
    } else {
        for (int64_t i = 0, n; i < rows.n; i += n) {
            for (n = 1; i + n < rows.n && rows.list[i + n] == rows.list[i] + n;) n++;
            const cc::IPosition shape = shape_in(t, column, c, rows.list[i], n);
            if (i == 0) cell = shape;
            if (!shape.isEqual(cell))
                throw Failure(CCC_ESHAPE, t->path + ": column " + column + ", row " + std::to_string(rows.list[i]) +
                                              ": shape " + text_of(shape) + " after " + text_of(cell));
        }
    }
    if (slice && c.columnDesc().isScalar())
        throw Failure(CCC_ESHAPE, std::string(column) + ": a slice of a scalar column");
    std::unique_ptr<cc::Slicer> slicer;
    if (slice) slicer = std::make_unique<cc::Slicer>(slicer_of(*slice, cell));
    int64_t n = rows.n;
    for (size_t i = 0; i < cell.size(); i++) n *= slicer ? slicer->length()[i] : cell[i];
    if (n != n_out)
        throw Failure(CCC_EARGUMENT, t->path + ": column " + column + ": a buffer of " + std::to_string(n_out) +
                                         " elements for " + std::to_string(n));
    with_type(stored, [&](auto from) {
        using From = typename decltype(from)::type;
        if (stored == type) return read_native(t, column, rows, slicer.get(), cell, static_cast<From *>(out));
        with_type(type, [&](auto to) {
            using To = typename decltype(to)::type;
            if constexpr (is_complex<From>::value && !is_complex<To>::value) {
                throw Failure(CCC_ETYPE,
                              t->path + ": column " + column + " holds " + name_of(stored) + ", not " + name_of(type));
            } else {
                std::unique_ptr<From[]> buffer(new From[n]);
                read_native(t, column, rows, slicer.get(), cell, buffer.get());
                To *p = static_cast<To *>(out);
                for (int64_t i = 0; i < n; i++) p[i] = converted<To>(buffer[i]);
            }
        });
    });
}

template <class T>
void write_native(ccc_table *t, const char *column, const Rows &rows, const cc::Slicer *slicer,
                  const cc::IPosition &shape, T *in)
{
    if (t->table.tableDesc()[column].isScalar()) {
        cc::Vector<T> v(cc::IPosition(1, rows.n), in, cc::SHARE);
        cc::ScalarColumn<T> c(t->table, column);
        if (rows.list)
            c.putColumnCells(rows.ref(), v);
        else
            c.putColumnRange(rows.range(), v);
        return;
    }
    cc::ArrayColumn<T> c(t->table, column);
    if (!slicer && !is_fixed(c.columnDesc()) &&
        !(is_in_one_cube(t, column) && c.shape(rows.list ? rows.list[0] : rows.first).isEqual(shape))) {
        for (int64_t i = 0; i < rows.n; i++) {
            const int64_t row = rows.list ? rows.list[i] : rows.first + i;
            if (c.isDefined(row) && c.shape(row).isEqual(shape)) continue;
            t->in_one_cube.erase(column);
            c.setShape(row, shape);
        }
    }
    cc::IPosition all(shape.size() + 1);
    for (size_t i = 0; i < shape.size(); i++) all[i] = shape[i];
    all[shape.size()] = rows.n;
    const cc::Array<T> a(all, in, cc::SHARE);
    if (rows.list) {
        if (slicer)
            c.putColumnCells(rows.ref(), *slicer, a);
        else
            c.putColumnCells(rows.ref(), a);
    } else if (slicer) {
        c.putColumnRange(rows.range(), *slicer, a);
    } else {
        c.putColumnRange(rows.range(), a);
    }
}

void put(ccc_table *t, const char *column, const Rows &rows, int ndim, const int64_t *shape, const ccc_slice *slice,
         ccc_type type, const void *in)
{
    require_writable(t);
    require_column(t, column);
    if (rows.list)
        require_rows(t, rows.list, rows.n);
    else
        require_rows(t, rows.first, rows.n);
    if (rows.n == 0) return;
    const cc::ColumnDesc &d = t->table.tableDesc()[column];
    const std::string where = t->path + ": column " + column;
    const ccc_type stored = type_of(d.dataType());
    if (stored != type) throw Failure(CCC_ETYPE, where + " holds " + name_of(stored) + ", not " + name_of(type));
    const cc::IPosition values = position(ndim, shape);
    if (d.isScalar() ? ndim != 0 || slice : ndim == 0 || (d.ndim() > 0 && d.ndim() != ndim))
        throw Failure(CCC_ESHAPE, where + ": values of shape " + text_of(values) + " do not fit");
    if (!slice && !d.isScalar() && d.isFixedShape() && !d.shape().isEqual(values))
        throw Failure(CCC_ESHAPE,
                      where + ": values of shape " + text_of(values) + " for cells of " + text_of(d.shape()));
    std::unique_ptr<cc::Slicer> slicer;
    if (slice) {
        const cc::TableColumn c(t->table, column);
        for (int64_t i = 0; i < rows.n; i++) {
            cc::IPosition cell;
            const int64_t row = rows.list ? rows.list[i] : rows.first + i;
            if (!cell_shape(c, row, cell))
                throw Failure(CCC_ESHAPE, where + ", row " + std::to_string(row) + ": the cell has no value");
            slicer = std::make_unique<cc::Slicer>(slicer_of(*slice, cell));
            if (is_fixed(d)) break;
        }
        if (!slicer->length().isEqual(values))
            throw Failure(CCC_ESHAPE, where + ": values of shape " + text_of(values) + " for the slice");
    }
    t->alike.erase(column);
    with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        write_native(t, column, rows, slicer.get(), values, const_cast<T *>(static_cast<const T *>(in)));
    });
}

/* ---- Files ---- */

int64_t file_size(const std::string &path)
{
    struct stat info;
    return ::stat(path.c_str(), &info) == 0 ? static_cast<int64_t>(info.st_size) : -1;
}

[[noreturn]] void truncated(const std::string &shown, const std::string &why)
{
    throw Failure(CCC_EFAILED, "truncated or corrupt: " + shown + " (" + why + ")");
}

/* Unsigned numbers as casacore stores them, in either byte order. */
uint64_t number_at(const unsigned char *p, int n_byte, bool big)
{
    uint64_t v = 0;
    for (int i = 0; i < n_byte; i++) v = v << 8 | p[big ? i : n_byte - 1 - i];
    return v;
}

/*
 * casacore reads past the end of short files, and may crash there. Each of its files begins with an object that has the
 * object's length; those of the Standard and Incremental storage manager go on with buckets whose number and size are
 * in that object, behind the manager's name and version, and (since version 3 and 5) one byte for the byte order.
 */
int64_t size_by_header(const std::string &path, const std::string &shown)
{
    unsigned char head[128] = {0};
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    std::shared_ptr<Directory> closer = std::make_shared<Directory>();
    closer->fd = fd;
    const ssize_t n = ::pread(fd, head, sizeof head, 0);
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
    if (::pread(fd, index, sizeof index, buckets) != sizeof index) return buckets + 8;
    return buckets + 4 + static_cast<int64_t>(number_at(index + 4, 4, big));
}

/* A file of arrays begins with a version and its length. */
int64_t size_by_array_header(const std::string &path, const std::string &shown)
{
    unsigned char head[16];
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) throw Failure(CCC_EFAILED, shown + ": " + std::strerror(errno));
    const ssize_t n = ::read(fd, head, sizeof head);
    ::close(fd);
    if (n < 16) truncated(shown, "it has no valid header");
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
    Directory file;
    file.fd = ::open((real + "/table.dat").c_str(), O_RDONLY | O_CLOEXEC);
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

void check_files(const std::string &real, const std::string &shown)
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

/* Bytes that the tiles of each hypercube take, against the files that hold them. */
void check_tiles(const cc::Table &table, const std::string &real, const std::string &shown)
{
    const cc::Record managers = table.dataManagerInfo();
    for (cc::uInt m = 0; m < managers.nfields(); m++) {
        const cc::Record &manager = managers.subRecord(m);
        if (!manager.isDefined("SPEC") || !manager.subRecord("SPEC").isDefined("HYPERCUBES")) continue;
        const cc::Record &cubes = manager.subRecord("SPEC").subRecord("HYPERCUBES");
        const std::string file = "/table.f" + std::to_string(manager.asuInt("SEQNR"));
        if (file_size(real + file) < 0) continue; /* all in one MultiFile */
        int64_t needs = 0, has = 0;
        for (cc::uInt i = 0; i < cubes.nfields(); i++) {
            const cc::Record &cube = cubes.subRecord(i);
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

/* ---- Open and close ---- */

cc::TableLock lock_option(ccc_mode mode, ccc_lock lock)
{
    /* A table that is written has a lock that can be given up before the destructor, which then writes nothing. */
    return cc::TableLock(mode == CCC_READ && lock == CCC_LOCK_NONE ? cc::TableLock::NoLocking
                                                                   : cc::TableLock::UserNoReadLocking);
}

void take_lock(ccc_table *t)
{
    if (t->mode == CCC_READ && t->lock == CCC_LOCK_NONE) return;
    if (!t->table.lock(t->mode == CCC_UPDATE, 1)) throw Failure(CCC_ELOCKED, t->path + ": in use by another process");
}

/*
 * Memory-mapped access would turn a failed read into SIGBUS; casacore's own cache may grow to the whole column when
 * parts of cells are read, at a quarter of the speed. A table that is written has no buffer at all (of one byte): what
 * is put has then reached the kernel without a flush, which would also rewrite the manager's header in place; bytes
 * beside it are not read and written back; and casacore fills no buffer to lengthen a file by one byte.
 */
cc::TSMOption tile_option(ccc_mode mode)
{
    return cc::TSMOption(cc::TSMOption::Buffer, mode == CCC_UPDATE ? 1 : 256 << 10, 0);
}

void open_table(ccc_table **out, const std::string &path, const std::string &real,
                const std::shared_ptr<Directory> &directory, ccc_mode mode, ccc_lock lock)
{
    require_table(real);
    check_files(real, path);
    if (mode == CCC_UPDATE && !cc::Table::isWritable(real)) throw Failure(CCC_EREADONLY, path + ": cannot be written");
    auto t = std::make_unique<ccc_table>();
    t->path = path;
    t->real = real;
    t->directory = directory;
    t->mode = mode;
    t->lock = lock;
    t->table = cc::Table(real, lock_option(mode, lock), mode == CCC_UPDATE ? cc::Table::Update : cc::Table::Old,
                         tile_option(mode));
    /* casacore would rewrite table.info in place at the first flush, though it has not changed. */
    if (mode == CCC_UPDATE) t->table.tableInfo().flush("/dev/null");
    check_tiles(t->table, real, path);
    take_lock(t.get());
    *out = t.release();
}

/* casacore would put the value of a variable of the environment in this name. */
void require_plain(const std::string &name, const std::string &path)
{
    if (std::string(cc::Path(name).expandedName()) != name)
        throw Failure(CCC_EARGUMENT, path + ": casacore takes a part of this name for a variable; rename it");
}

/* The name that casacore gets: by way of the parent directory, which stays open, where the path itself would not do. */
std::string real_name(const std::string &path, std::shared_ptr<Directory> &directory)
{
    if (!is_awkward(path)) return path;
    const size_t slash = path.rfind('/');
    const std::string parent = path.substr(0, slash + 1);
    directory = std::make_shared<Directory>();
    directory->fd = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory->fd < 0) throw Failure(CCC_ENOTFOUND, parent + ": " + std::strerror(errno));
    const std::string real = "/proc/self/fd/" + std::to_string(directory->fd) + path.substr(slash);
    require_plain(real, path);
    return real;
}

/* A path below an awkward one, as the user would write it. */
std::string shown_name(const ccc_table *parent, const std::string &name)
{
    if (name.compare(0, parent->real.size(), parent->real) == 0) return parent->path + name.substr(parent->real.size());
    return name;
}

/*
 * casacore throws from destructors when a file of headers cannot be written, which ends the process. So the space for
 * them is asked for first, where a failure can be told.
 */
void require_space(const ccc_table *t)
{
    if (t->mode != CCC_UPDATE) return;
    Directory probe;
    probe.fd = ::open(t->real.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
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

/* The number of rows that table.dat has; -1 where it has none in the expected place. */
int64_t rows_in_header(const ccc_table *t)
{
    unsigned char head[32];
    Directory file;
    file.fd = ::open((t->real + "/table.dat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file.fd < 0 || ::pread(file.fd, head, sizeof head, 0) != sizeof head) return -1;
    if (number_at(head + 8, 4, true) != 5 || std::memcmp(head + 12, "Table", 5) != 0) return -1;
    return static_cast<int64_t>(number_at(head + 21, number_at(head + 17, 4, true) > 2 ? 8 : 4, true));
}

/* ---- Keywords ---- */

std::string split_last(const std::string &name, std::vector<std::string> &records)
{
    size_t begin = 0;
    for (size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1)
        records.push_back(name.substr(begin, dot - begin));
    return name.substr(begin);
}

[[noreturn]] void no_keyword(const ccc_table *t, const char *column, const char *name)
{
    throw Failure(CCC_ENOTFOUND,
                  t->path + (column ? std::string(": column ") + column : "") + ": has no keyword " + name);
}

/* Keywords belong to the table, and so outlive the object through which a column's are reached. */
const cc::TableRecord &keywords_of(const ccc_table *t, const char *column)
{
    if (!column) return t->table.keywordSet();
    require_column(t, column);
    const cc::TableColumn c(t->table, column);
    return c.keywordSet();
}

template <class F> void with_keyword(const ccc_table *t, const char *column, const char *name, F &&f)
{
    std::vector<std::string> records;
    const std::string last = split_last(name, records);
    const cc::TableRecord *r = &keywords_of(t, column);
    for (const auto &record : records) {
        if (!r->isDefined(record) || r->dataType(record) != cc::TpRecord) no_keyword(t, column, name);
        r = &r->subRecord(record);
    }
    if (!r->isDefined(last)) no_keyword(t, column, name);
    f(*r, last);
}

template <class F> void with_new_keyword(ccc_table *t, const char *column, const char *name, F &&f)
{
    require_writable(t);
    std::vector<std::string> records;
    const std::string last = split_last(name, records);
    if (column) require_column(t, column);
    cc::TableColumn c;
    if (column) c.reference(cc::TableColumn(t->table, column));
    cc::TableRecord *r = column ? &c.rwKeywordSet() : &t->table.rwKeywordSet();
    for (const auto &record : records) {
        if (r->isDefined(record) && r->dataType(record) != cc::TpRecord)
            throw Failure(CCC_ETYPE, t->path + ": keyword " + record + " is not a record");
        if (!r->isDefined(record)) r->defineRecord(record, cc::TableRecord());
        r = &r->rwSubRecord(record);
    }
    if (r->isDefined(last)) r->removeField(last);
    f(*r, last);
}

[[noreturn]] void wrong_keyword(const ccc_table *t, const char *name, const char *wanted)
{
    throw Failure(CCC_ETYPE, t->path + ": keyword " + name + " is not " + wanted);
}

/* ---- New tables ---- */

template <class T> cc::ColumnDesc column_desc(const ccc_column_spec &spec)
{
    const cc::String comment(spec.comment ? spec.comment : "");
    if (spec.ndim == 0) return cc::ScalarColumnDesc<T>(spec.name, comment);
    if (spec.is_fixed_shape)
        return cc::ArrayColumnDesc<T>(spec.name, comment, position(spec.ndim, spec.shape), cc::ColumnDesc::FixedShape);
    return cc::ArrayColumnDesc<T>(spec.name, comment, spec.ndim);
}

cc::ColumnDesc describe(const ccc_column_spec &spec)
{
    if (!spec.name || !*spec.name) throw Failure(CCC_EARGUMENT, "a column without a name");
    if (spec.type == CCC_STRING) return column_desc<cc::String>(spec);
    std::unique_ptr<cc::ColumnDesc> out;
    with_type(spec.type, [&](auto tag) {
        out = std::make_unique<cc::ColumnDesc>(column_desc<typename decltype(tag)::type>(spec));
    });
    return *out;
}

std::unique_ptr<cc::DataManager> manager_for(const ccc_storage &s, const char *first_column, int number = 0)
{
    const std::string type = s.type ? s.type : "StandardStMan";
    const char *prefix = type == "StandardStMan" ? "Std" : type == "IncrementalStMan" ? "Inc" : "Tiled";
    const std::string made = prefix + std::string(first_column) + (number ? "_" + std::to_string(number) : "");
    const cc::String name = s.name ? s.name : made;
    if (type == "StandardStMan") return std::make_unique<cc::StandardStMan>(name);
    if (type == "IncrementalStMan") return std::make_unique<cc::IncrementalStMan>(name);
    const cc::IPosition tile = position(s.tile_ndim, s.tile_shape);
    if (type == "TiledColumnStMan") return std::make_unique<cc::TiledColumnStMan>(name, tile);
    if (type == "TiledShapeStMan") return std::make_unique<cc::TiledShapeStMan>(name, tile);
    throw Failure(CCC_EARGUMENT, "unknown storage manager " + type);
}

void bind(cc::SetupNewTable &setup, const cc::TableDesc &desc, const ccc_storage *storage, int n_storage)
{
    setup.bindAll(cc::StandardStMan("SSM"));
    for (int i = 0; i < n_storage; i++) {
        const ccc_storage &s = storage[i];
        if (s.n_column < 1) throw Failure(CCC_EARGUMENT, "a storage manager without columns");
        const auto manager = manager_for(s, s.columns[0]);
        for (int k = 0; k < s.n_column; k++) {
            if (!desc.isColumn(s.columns[k]))
                throw Failure(CCC_EARGUMENT, std::string("storage for a column that is not made: ") + s.columns[k]);
            setup.bindColumn(s.columns[k], *manager);
        }
    }
}

std::string require_new(const char *path)
{
    const std::string full = absolute(path ? path : "");
    struct stat info;
    require_plain(full, full);
    if (::lstat(full.c_str(), &info) == 0) throw Failure(CCC_EARGUMENT, full + ": exists");
    const std::string parent = full.substr(0, full.rfind('/') + 1);
    if (::stat(parent.c_str(), &info) != 0) throw Failure(CCC_ENOTFOUND, parent + ": " + std::strerror(errno));
    if (::access(parent.c_str(), W_OK) != 0) throw Failure(CCC_EREADONLY, parent + ": " + std::strerror(errno));
    return full;
}

void add_ms_column(cc::TableDesc &desc, const ccc_column_spec &spec)
{
    if (!spec.name) throw Failure(CCC_EARGUMENT, "a column without a name");
    const cc::MS::PredefinedColumns standard = cc::MS::columnType(spec.name);
    if (!desc.isColumn(spec.name)) {
        if (standard == cc::MS::UNDEFINED_COLUMN) {
            desc.addColumn(describe(spec));
            return;
        }
        cc::MS::addColumnToDesc(desc, standard, spec.ndim > 0 ? spec.ndim : 2);
    }
    if (!spec.is_fixed_shape) return;
    cc::ColumnDesc &d = desc.rwColumnDesc(spec.name);
    if (d.isScalar()) throw Failure(CCC_EARGUMENT, std::string("a shape for the scalar column ") + spec.name);
    d.setNdim(0);
    d.setShape(position(spec.ndim, spec.shape));
    d.setOptions(cc::ColumnDesc::FixedShape);
}

/* Rows of a selection, as numbers of the table that it was made from. */
std::vector<int64_t> row_numbers(const cc::Table &base, const cc::TableExprNode &condition)
{
    std::vector<int64_t> rows;
    const cc::Table chosen = base(condition);
    const cc::RowNumbers numbers = base.isRootTable() ? chosen.rowNumbers() : chosen.rowNumbers(base, true);
    rows.reserve(numbers.size());
    for (size_t i = 0; i < numbers.size(); i++) rows.push_back(static_cast<int64_t>(numbers[i]));
    std::sort(rows.begin(), rows.end());
    return rows;
}

void give_rows(const std::vector<int64_t> &values, int64_t **rows, int64_t *n_row)
{
    *rows = array_of(values);
    *n_row = static_cast<int64_t>(values.size());
}

cc::MDirection::Types frame_of(const char *name)
{
    cc::MDirection::Types type;
    if (!name || !cc::MDirection::getType(type, name))
        throw Failure(CCC_EARGUMENT, std::string("unknown direction frame ") + (name ? name : "(null)"));
    return type;
}

} // namespace

extern "C" {

#if defined(__SANITIZE_ADDRESS__)
/* casacore leaks what its constructors and parsers hold when they throw. */
const char *__lsan_default_suppressions(void)
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

void ccc_free(void *p)
{
    std::free(p);
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
        std::shared_ptr<Directory> directory;
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
    /* What could not be written now would be written again by casacore's destructor, which would then end the process.
     */
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
        t->table.resync();
        t->alike.clear();
        t->in_one_cube.clear();
    });
}

int ccc_table_forget_changes(ccc_table *t)
{
    return guarded(t, nullptr, [&] {
        require_writable(t);
        if (rows_in_header(t) != static_cast<int64_t>(t->table.nrow())) {
            t->table.rwKeywordSet(); /* has table.dat written, with all rows */
            require_space(t);
            t->table.flush();
        }
        const int64_t at = (1 + 2 * 32) * 4; /* behind the list of requests for the lock */
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
        t->alike.clear();
        t->in_one_cube.clear();
        t->table.addRow(static_cast<cc::rownr_t>(n));
        /* Marks the table as changed, or else the number of rows would be in table.lock alone. */
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

int ccc_column_describe(ccc_table *t, const char *column, ccc_column_info *info)
{
    return guarded(t, column, [&] {
        require_column(t, column);
        const cc::ColumnDesc &d = t->table.tableDesc()[column];
        std::memset(info, 0, sizeof *info);
        info->manager_file = -1;
        info->type = type_of(d.dataType());
        info->is_scalar = d.isScalar();
        info->ndim = d.isScalar() ? 0 : d.ndim() > 0 ? d.ndim() : -1;
        info->is_fixed_shape = !d.isScalar() && d.isFixedShape();
        if (info->is_fixed_shape) {
            info->ndim = static_cast<int>(d.shape().size());
            store_shape(d.shape(), info->shape);
        }
        const cc::Record managers = t->table.dataManagerInfo();
        for (cc::uInt i = 0; i < managers.nfields(); i++) {
            const cc::Record &m = managers.subRecord(i);
            const cc::Vector<cc::String> columns(m.asArrayString("COLUMNS"));
            if (std::find(columns.begin(), columns.end(), cc::String(column)) == columns.end()) continue;
            info->manager_n_column = static_cast<int>(columns.size());
            std::strncpy(info->manager_type, m.asString("TYPE").c_str(), sizeof info->manager_type - 1);
            std::strncpy(info->manager_name, m.asString("NAME").c_str(), sizeof info->manager_name - 1);
            if (!m.isDefined("SPEC") || !m.subRecord("SPEC").isDefined("HYPERCUBES")) break;
            if (m.subRecord("SPEC").isDefined("SEQNR")) info->manager_file = m.subRecord("SPEC").asInt("SEQNR");
            const cc::Record &cubes = m.subRecord("SPEC").subRecord("HYPERCUBES");
            for (cc::uInt k = 0; k < cubes.nfields() && info->tile_ndim == 0; k++) {
                const cc::Vector<cc::Int> tile(cubes.subRecord(k).toArrayInt("TileShape"));
                info->tile_ndim = static_cast<int>(std::min<size_t>(tile.size(), CCC_MAX_DIM));
                for (int j = 0; j < info->tile_ndim; j++) info->tile_shape[j] = tile[j];
            }
            break;
        }
    });
}

int ccc_cell_shape(ccc_table *t, const char *column, int64_t row, int *ndim, int64_t shape[CCC_MAX_DIM])
{
    int64_t n_alike;
    return ccc_rows_alike(t, column, row, 1, &n_alike, ndim, shape);
}

int ccc_rows_alike(ccc_table *t, const char *column, int64_t row, int64_t n_row, int64_t *n_alike, int *ndim,
                   int64_t shape[CCC_MAX_DIM])
{
    return guarded(t, column, [&] {
        require_column(t, column);
        require_rows(t, row, n_row);
        if (n_row < 1) throw Failure(CCC_EARGUMENT, t->path + ": no rows to compare");
        const cc::TableColumn c(t->table, column);
        const Alike &a = alike_from(t, column, c, row, n_row);
        *n_alike = std::min(a.end - row, n_row);
        *ndim = a.defined ? static_cast<int>(a.shape.size()) : -1;
        if (a.defined) store_shape(a.shape, shape);
    });
}

int ccc_get_range(ccc_table *t, const char *column, int64_t row, int64_t n_row, const ccc_slice *slice, ccc_type type,
                  void *out, int64_t n_out)
{
    return guarded(t, column, [&] { get(t, column, Rows{row, n_row, nullptr}, slice, type, out, n_out); });
}

int ccc_get_rows(ccc_table *t, const char *column, const int64_t *rows, int64_t n_row, const ccc_slice *slice,
                 ccc_type type, void *out, int64_t n_out)
{
    return guarded(t, column, [&] { get(t, column, Rows{0, n_row, rows}, slice, type, out, n_out); });
}

int ccc_get_string(ccc_table *t, const char *column, int64_t row, char **out)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        require_column(t, column);
        require_rows(t, row, 1);
        if (t->table.tableDesc()[column].dataType() != cc::TpString || !t->table.tableDesc()[column].isScalar())
            throw Failure(CCC_ETYPE, t->path + ": column " + column + " holds no string");
        *out = copy_of(cc::ScalarColumn<cc::String>(t->table, column)(row));
    });
}

int ccc_get_strings(ccc_table *t, const char *column, int64_t row, char ***out, int64_t *n)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        require_column(t, column);
        require_rows(t, row, 1);
        if (type_of(t->table.tableDesc()[column].dataType()) != CCC_STRING || t->table.tableDesc()[column].isScalar())
            throw Failure(CCC_ETYPE, t->path + ": column " + column + " holds no strings");
        const cc::ArrayColumn<cc::String> c(t->table, column);
        const auto list = c.isDefined(row) ? strings_in(c(row)) : std::vector<std::string>();
        *out = block_of(list);
        *n = static_cast<int64_t>(list.size());
    });
}

int ccc_put_range(ccc_table *t, const char *column, int64_t row, int64_t n_row, int ndim, const int64_t *shape,
                  const ccc_slice *slice, ccc_type type, const void *in)
{
    return guarded(t, column, [&] { put(t, column, Rows{row, n_row, nullptr}, ndim, shape, slice, type, in); });
}

int ccc_put_rows(ccc_table *t, const char *column, const int64_t *rows, int64_t n_row, int ndim, const int64_t *shape,
                 const ccc_slice *slice, ccc_type type, const void *in)
{
    return guarded(t, column, [&] { put(t, column, Rows{0, n_row, rows}, ndim, shape, slice, type, in); });
}

int ccc_put_array(ccc_table *t, const char *column, int64_t row, int ndim, const int64_t *shape, ccc_type type,
                  const void *in)
{
    return ccc_put_range(t, column, row, 1, ndim, shape, nullptr, type, in);
}

} // extern "C"

namespace {

template <class V> void put_number(ccc_table *t, const char *column, int64_t row, V value)
{
    require_column(t, column);
    const ccc_type type = type_of(t->table.tableDesc()[column].dataType());
    with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T v = converted<T>(value);
        put(t, column, Rows{row, 1, nullptr}, 0, nullptr, nullptr, type, &v);
    });
}

} // namespace

extern "C" {

int ccc_put_bool(ccc_table *t, const char *column, int64_t row, int value)
{
    return guarded(t, column, [&] {
        const cc::Bool v = value != 0;
        put(t, column, Rows{row, 1, nullptr}, 0, nullptr, nullptr, CCC_BOOL, &v);
    });
}

int ccc_put_int(ccc_table *t, const char *column, int64_t row, int64_t value)
{
    return guarded(t, column, [&] { put_number(t, column, row, static_cast<cc::Int64>(value)); });
}

int ccc_put_double(ccc_table *t, const char *column, int64_t row, double value)
{
    return guarded(t, column, [&] { put_number(t, column, row, value); });
}

int ccc_put_string(ccc_table *t, const char *column, int64_t row, const char *value)
{
    return guarded(t, column, [&] {
        require_writable(t);
        require_column(t, column);
        require_rows(t, row, 1);
        if (t->table.tableDesc()[column].dataType() != cc::TpString || !t->table.tableDesc()[column].isScalar())
            throw Failure(CCC_ETYPE, t->path + ": column " + column + " holds no string");
        cc::ScalarColumn<cc::String>(t->table, column).put(row, value);
    });
}

int ccc_put_strings(ccc_table *t, const char *column, int64_t row, int ndim, const int64_t *shape,
                    const char *const *values)
{
    return guarded(t, column, [&] {
        require_writable(t);
        require_column(t, column);
        require_rows(t, row, 1);
        if (type_of(t->table.tableDesc()[column].dataType()) != CCC_STRING || t->table.tableDesc()[column].isScalar())
            throw Failure(CCC_ETYPE, t->path + ": column " + column + " holds no strings");
        cc::Array<cc::String> a(position(ndim, shape));
        size_t i = 0;
        for (auto &s : a) s = values[i++];
        t->alike.erase(column);
        cc::ArrayColumn<cc::String>(t->table, column).put(row, a);
    });
}

int ccc_put_shapes(ccc_table *t, const char *column, int64_t row, int64_t n_row, int ndim, const int64_t *shape)
{
    return guarded(t, column, [&] {
        require_writable(t);
        require_column(t, column);
        require_rows(t, row, n_row);
        if (t->table.tableDesc()[column].isScalar())
            throw Failure(CCC_ESHAPE, t->path + ": column " + column + ": shapes for a scalar column");
        const cc::IPosition cell = position(ndim, shape);
        t->alike.erase(column);
        t->in_one_cube.erase(column);
        with_type(type_of(t->table.tableDesc()[column].dataType()), [&](auto tag) {
            cc::ArrayColumn<typename decltype(tag)::type> c(t->table, column);
            for (int64_t i = 0; i < n_row; i++) c.setShape(static_cast<cc::rownr_t>(row + i), cell);
        });
    });
}

int ccc_keyword_names(ccc_table *t, const char *column, char ***names, int64_t *n)
{
    return guarded(t, column, [&] {
        const cc::TableRecord &r = keywords_of(t, column);
        std::vector<std::string> list;
        for (cc::uInt i = 0; i < r.nfields(); i++) list.push_back(r.name(i));
        *names = block_of(list);
        *n = static_cast<int64_t>(list.size());
    });
}

int ccc_keyword_type(ccc_table *t, const char *column, const char *name, ccc_type *type, int64_t *n)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            *type = type_of(r.dataType(field));
            if (!n) return;
            if (r.dataType(field) == cc::TpRecord)
                *n = static_cast<int64_t>(r.subRecord(field).nfields());
            else
                *n = *type == CCC_OTHER ? 1 : static_cast<int64_t>(r.shape(field).product());
        });
    });
}

int ccc_keyword_get_string(ccc_table *t, const char *column, const char *name, char **out)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            if (r.dataType(field) != cc::TpString) wrong_keyword(t, name, "a string");
            *out = copy_of(r.asString(field));
        });
    });
}

int ccc_keyword_get_strings(ccc_table *t, const char *column, const char *name, char ***out, int64_t *n)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            std::vector<std::string> list;
            if (r.dataType(field) == cc::TpString)
                list.push_back(r.asString(field));
            else if (r.dataType(field) == cc::TpArrayString)
                list = strings_in(r.asArrayString(field));
            else
                wrong_keyword(t, name, "strings");
            *out = block_of(list);
            *n = static_cast<int64_t>(list.size());
        });
    });
}

int ccc_keyword_get_double(ccc_table *t, const char *column, const char *name, double *out)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            const ccc_type type = type_of(r.dataType(field));
            if (!cc::isScalar(r.dataType(field)) || type < CCC_UINT8 || type > CCC_DOUBLE)
                wrong_keyword(t, name, "a number");
            *out = r.asDouble(field);
        });
    });
}

int ccc_keyword_get_int(ccc_table *t, const char *column, const char *name, int64_t *out)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            const ccc_type type = type_of(r.dataType(field));
            if (!cc::isScalar(r.dataType(field)) || type > CCC_INT64) wrong_keyword(t, name, "an integer");
            *out = type == CCC_BOOL ? r.asBool(field) : r.asInt64(field);
        });
    });
}

int ccc_keyword_get_ints(ccc_table *t, const char *column, const char *name, int64_t **out, int64_t *n)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            const cc::DataType type = r.dataType(field);
            if (type != cc::TpArrayInt && type != cc::TpArrayUInt) wrong_keyword(t, name, "an array of integers");
            std::vector<int64_t> list;
            if (type == cc::TpArrayInt)
                for (const auto v : r.asArrayInt(field)) list.push_back(v);
            else
                for (const auto v : r.asArrayuInt(field)) list.push_back(v);
            *out = array_of(list);
            *n = static_cast<int64_t>(list.size());
        });
    });
}

int ccc_keyword_put_string(ccc_table *t, const char *column, const char *name, const char *value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name,
                         [&](cc::TableRecord &r, const std::string &field) { r.define(field, cc::String(value)); });
    });
}

int ccc_keyword_put_strings(ccc_table *t, const char *column, const char *name, const char *const *values, int64_t n)
{
    return guarded(t, column, [&] {
        cc::Vector<cc::String> list(n);
        for (int64_t i = 0; i < n; i++) list[i] = values[i];
        with_new_keyword(t, column, name, [&](cc::TableRecord &r, const std::string &field) { r.define(field, list); });
    });
}

int ccc_keyword_put_double(ccc_table *t, const char *column, const char *name, double value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name,
                         [&](cc::TableRecord &r, const std::string &field) { r.define(field, value); });
    });
}

int ccc_keyword_put_int(ccc_table *t, const char *column, const char *name, int32_t value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name, [&](cc::TableRecord &r, const std::string &field) {
            r.define(field, static_cast<cc::Int>(value));
        });
    });
}

int ccc_keyword_put_bool(ccc_table *t, const char *column, const char *name, int value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name, [&](cc::TableRecord &r, const std::string &field) {
            r.define(field, static_cast<cc::Bool>(value != 0));
        });
    });
}

int ccc_keyword_remove(ccc_table *t, const char *column, const char *name)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [](const cc::TableRecord &, const std::string &) {});
        with_new_keyword(t, column, name, [](cc::TableRecord &, const std::string &) {});
    });
}

int ccc_ms_create(ccc_table **out, const char *path, const ccc_column_spec *columns, int n_column,
                  const ccc_storage *storage, int n_storage)
{
    *out = nullptr;
    return guarded(path ? path : "", [&] {
        const std::string full = require_new(path);
        cc::TableDesc desc = cc::MS::requiredTableDesc();
        for (int i = 0; i < n_column; i++) add_ms_column(desc, columns[i]);
        {
            cc::SetupNewTable setup(full, desc, cc::Table::New);
            bind(setup, desc, storage, n_storage);
            cc::MeasurementSet ms(setup);
            ms.createDefaultSubtables(cc::Table::New);
            ms.flush();
        }
        open_table(out, full, full, nullptr, CCC_UPDATE, CCC_LOCK_HOLD);
    });
}

int ccc_ms_add_source(ccc_table *ms)
{
    return guarded(ms, "SOURCE", [&] {
        require_writable(ms);
        if (ms->table.keywordSet().isDefined("SOURCE")) throw Failure(CCC_EARGUMENT, ms->path + ": has a SOURCE table");
        const cc::String name = ms->real + "/SOURCE";
        {
            cc::TableDesc desc = cc::MSSource::requiredTableDesc();
            cc::MSSource::addColumnToDesc(desc, cc::MSSource::REST_FREQUENCY, 1);
            cc::MSSource::addColumnToDesc(desc, cc::MSSource::SYSVEL, 1);
            cc::MSSource::addColumnToDesc(desc, cc::MSSource::TRANSITION, 1);
            cc::SetupNewTable setup(name, desc, cc::Table::New);
            cc::Table table(setup);
            table.flush();
        }
        ms->table.rwKeywordSet().defineTable("SOURCE", cc::Table(name, cc::TableLock(cc::TableLock::NoLocking)));
    });
}

int ccc_table_create(ccc_table **out, const char *path, const ccc_column_spec *columns, int n_column,
                     const ccc_storage *storage, int n_storage)
{
    *out = nullptr;
    return guarded(path ? path : "", [&] {
        const std::string full = require_new(path);
        cc::TableDesc desc("", cc::TableDesc::Scratch);
        for (int i = 0; i < n_column; i++) desc.addColumn(describe(columns[i]));
        {
            cc::SetupNewTable setup(full, desc, cc::Table::New);
            bind(setup, desc, storage, n_storage);
            cc::Table table(setup);
            table.flush();
        }
        open_table(out, full, full, nullptr, CCC_UPDATE, CCC_LOCK_HOLD);
    });
}

int ccc_column_add(ccc_table *t, const ccc_column_spec *column, const ccc_storage *storage)
{
    return guarded(t, column->name, [&] {
        require_writable(t);
        cc::TableDesc desc("", cc::TableDesc::Scratch);
        desc.addColumn(describe(*column));
        t->alike.clear();
        t->in_one_cube.clear();
        if (t->table.tableDesc().isColumn(column->name))
            throw Failure(CCC_EARGUMENT, t->path + ": has a column " + column->name);
        std::vector<std::string> used;
        const cc::Record managers = t->table.dataManagerInfo();
        for (cc::uInt i = 0; i < managers.nfields(); i++) used.push_back(managers.subRecord(i).asString("NAME"));
        auto manager = manager_for(*storage, column->name);
        for (int i = 1; !storage->name &&
                        std::find(used.begin(), used.end(), std::string(manager->dataManagerName())) != used.end();
             i++)
            manager = manager_for(*storage, column->name, i);
        t->table.addColumn(desc, *manager);
    });
}

int ccc_column_rename(ccc_table *t, const char *old_name, const char *new_name)
{
    return guarded(t, old_name, [&] {
        require_writable(t);
        require_column(t, old_name);
        if (t->table.tableDesc().isColumn(new_name))
            throw Failure(CCC_EARGUMENT, t->path + ": has a column " + new_name);
        t->alike.clear();
        t->in_one_cube.clear();
        t->table.renameColumn(new_name, old_name);
    });
}

int ccc_ms_select(ccc_table *ms, const ccc_ms_expressions *expressions, int64_t **rows, int64_t *n_row,
                  ccc_chan_range **ranges, int64_t *n_range)
{
    *rows = nullptr;
    if (ranges) *ranges = nullptr;
    return guarded(ms, nullptr, [&] {
        const struct {
            const char *name;
            const char *value;
            cc::Bool (cc::MSSelection::*set)(const cc::String &);
        } parts[] = {{"field", expressions->field, &cc::MSSelection::setFieldExpr},
                     {"spw", expressions->spw, &cc::MSSelection::setSpwExpr},
                     {"antenna", expressions->antenna, &cc::MSSelection::setAntennaExpr},
                     {"uvrange", expressions->uvrange, &cc::MSSelection::setUvDistExpr},
                     {"time", expressions->time, &cc::MSSelection::setTimeExpr}};
        /* The subtables are opened here first, because a MeasurementSet would lock those that it opens itself. */
        std::vector<cc::Table> subtables;
        const cc::TableRecord &keys = ms->table.keywordSet();
        for (cc::uInt i = 0; i < keys.nfields(); i++)
            if (keys.dataType(i) == cc::TpTable)
                subtables.push_back(cc::Table(keys.tableAttributes(keys.name(i)).name(),
                                              lock_option(ms->mode, ms->lock), cc::Table::Old, tile_option(ms->mode)));
        const cc::MeasurementSet set(ms->table);
        std::vector<ccc_chan_range> chosen;
        cc::TableExprNode all;
        for (const auto &part : parts) {
            if (!part.value || !*part.value) continue;
            /* One at a time, so that the message can say which. */
            try {
                cc::MSSelection selection;
                (selection.*part.set)(part.value);
                const cc::TableExprNode node = selection.toTableExprNode(&set);
                if (!node.isNull()) all = all.isNull() ? node : all && node;
                if (part.set == &cc::MSSelection::setSpwExpr) {
                    const cc::Matrix<cc::Int> list = selection.getChanList(&set, 1, true);
                    for (size_t i = 0; i < list.nrow(); i++)
                        chosen.push_back({list(i, 0), list(i, 1), list(i, 2), list(i, 3)});
                }
            } catch (const std::bad_alloc &) {
                throw;
            } catch (const std::exception &e) {
                throw Failure(CCC_EFAILED,
                              ms->path + ": selection " + part.name + " '" + part.value + "': " + e.what());
            }
        }
        std::vector<int64_t> numbers;
        if (all.isNull()) {
            numbers.resize(ms->table.nrow());
            for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<int64_t>(i);
        } else {
            numbers = row_numbers(ms->table, all);
        }
        give_rows(numbers, rows, n_row);
        if (ranges) *ranges = array_of(chosen);
        if (n_range) *n_range = static_cast<int64_t>(chosen.size());
    });
}

int ccc_table_query(ccc_table *t, const char *condition, int64_t **rows, int64_t *n_row)
{
    *rows = nullptr;
    return guarded(t, nullptr, [&] {
        try {
            const cc::TableExprNode node = cc::RecordGram::parse(t->table, condition);
            if (node.dataType() != cc::TpBool || !node.isScalar())
                throw Failure(CCC_EFAILED, "its value is not true or false");
            give_rows(row_numbers(t->table, node), rows, n_row);
        } catch (const std::bad_alloc &) {
            throw;
        } catch (const std::exception &e) {
            throw Failure(CCC_EFAILED, t->path + ": TaQL condition '" + condition + "': " + e.what());
        }
    });
}

int ccc_direction_convert(const char *from, const char *to, double mjd_s, const double *itrf_m, double *lon_rad,
                          double *lat_rad)
{
    return guarded("direction", [&] {
        const cc::MDirection::Types source = frame_of(from), target = frame_of(to);
        cc::MeasFrame frame(cc::MEpoch(cc::MVEpoch(cc::Quantity(mjd_s, "s")), cc::MEpoch::UTC));
        if (itrf_m) frame.set(cc::MPosition(cc::MVPosition(itrf_m[0], itrf_m[1], itrf_m[2]), cc::MPosition::ITRF));
        const cc::MDirection direction =
            source >= cc::MDirection::MERCURY && source < cc::MDirection::N_Planets
                ? cc::MDirection(cc::MDirection::Ref(source))
                : cc::MDirection(cc::MVDirection(*lon_rad, *lat_rad), cc::MDirection::Ref(source));
        const cc::MVDirection result =
            cc::MDirection::Convert(direction, cc::MDirection::Ref(target, frame))().getValue();
        *lon_rad = result.getLong();
        if (*lon_rad < 0) *lon_rad += 2 * cc::C::pi;
        *lat_rad = result.getLat();
    });
}

} // extern "C"
