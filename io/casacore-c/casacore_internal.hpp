/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the files of the casacore bindings share: handles, failures, types, shapes, rows, and checks of arguments.
 *
 * Within them a failure is an exception: a Failure, or what casacore throws. Every function of casacore_c.h does its
 * work in guarded(), where each exception ends as a code and a message.
 */
#ifndef CASACORE_INTERNAL_HPP
#define CASACORE_INTERNAL_HPP

#include "casacore_c.h"

#include <algorithm>
#include <complex>
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

#include <unistd.h>

#include <casacore/casa/Arrays/Array.h>
#include <casacore/casa/Arrays/IPosition.h>
#include <casacore/casa/Arrays/Slicer.h>
#include <casacore/casa/Containers/Record.h>
#include <casacore/tables/DataMan/TSMOption.h>
#include <casacore/tables/Tables/ColumnDesc.h>
#include <casacore/tables/DataMan/DataManAccessor.h>
#include <casacore/tables/DataMan/TSMCube.h>
#include <casacore/tables/DataMan/TiledStMan.h>
#include <casacore/tables/Tables/RefRows.h>
#include <casacore/tables/Tables/Table.h>
#include <casacore/tables/Tables/TableColumn.h>
#include <casacore/tables/Tables/TableLock.h>

namespace cc = casacore;

namespace ccc {

/* An open file or directory. */
struct Descriptor {
    int fd = -1;
    Descriptor() = default;
    explicit Descriptor(int opened) : fd(opened) {}
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    ~Descriptor()
    {
        if (fd >= 0) ::close(fd);
    }
};

/* Rows [begin, end) of a column, known to have cells of one shape, or none of them a value. */
struct Alike {
    int64_t begin = 0, end = 0;
    bool defined = false;
    cc::IPosition shape;
};

} // namespace ccc

struct ccc_table {
    /* Both are closed after the table: its name may lead by way of the directory, and closing any descriptor of
     * table.lock gives up the lock. */
    std::shared_ptr<ccc::Descriptor> directory;
    ccc::Descriptor lock_file;
    cc::Table table;
    std::string path; /* absolute, as the user would write it */
    std::string real; /* the name casacore knows it by */
    ccc_mode mode = CCC_READ;
    ccc_lock lock = CCC_LOCK_NONE;
    std::map<std::string, ccc::Alike> alike;
    std::map<std::string, bool> in_one_cube; /* columns with all rows in one hypercube, until a cell's shape is set */

    void forget_shapes()
    {
        alike.clear();
        in_one_cube.clear();
    }
};

namespace ccc {

/* ---- casacore_failure.cc: failures, and the lock of the process ---- */

struct Failure : std::runtime_error {
    Failure(int status, const std::string &what) : std::runtime_error(what), code(status) {}
    int code;
};

/* Keep the message for ccc_error, on one line; return the code. */
int fail(int code, const char *text) noexcept;

/* Ask whether the text of casacore's exception is about invalid contents of files. */
bool indicates_damage(const char *what) noexcept;

/* Ask whether it is about a table that another process has changed since it was opened. */
bool indicates_other_writer(const char *what) noexcept;

/* Every call holds this, because casacore's table cache is one for the process. */
std::recursive_mutex &process_lock();

/* Send casacore's own log lines, which would go to the caller's stderr, nowhere; and name a HOME where there is none:
 * casacore looks for settings there, and opens no table without it. */
void set_up_casacore();

/* Run f, which throws to fail. `context` begins the message of what casacore throws; Failures have their own. */
template <class F> int guarded(const std::string &context, F &&f) noexcept
{
    try {
        std::lock_guard<std::recursive_mutex> hold(process_lock());
        set_up_casacore();
        f();
        return CCC_OK;
    } catch (const Failure &e) {
        return fail(e.code, e.what());
    } catch (const std::bad_alloc &) {
        try {
            return fail(CCC_ENOMEM, (context + ": out of memory").c_str());
        } catch (...) {
            return fail(CCC_ENOMEM, "out of memory");
        }
    } catch (const std::exception &e) {
        try {
            if (indicates_other_writer(e.what()))
                return fail(CCC_ELOCKED,
                            (context + ": in use: another process changed its columns at the same time").c_str());
            return fail(CCC_EFAILED, indicates_damage(e.what())
                                         ? ("truncated or corrupt: " + context + " (" + e.what() + ")").c_str()
                                         : (context + ": " + e.what()).c_str());
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

/* ---- casacore_types.cc: types and shapes, and strings for C ---- */

/* Convert a type, CCC_OTHER for a type that is not accessible. The type of an array is that of its elements. */
ccc_type type_of(cc::DataType type);
const char *name_of(ccc_type type);

cc::IPosition position(int ndim, const int64_t *values);

/* Fail, naming where it is, unless C can hold the shape. */
void store_shape(const std::string &where, const cc::IPosition &shape, int64_t *out);
std::string text_of(const cc::IPosition &shape);

/* Fail, naming where that is, unless the slice lies in cells of this shape. */
cc::Slicer slicer_of(const std::string &where, const ccc_slice &s, const cc::IPosition &cell);

std::vector<std::string> strings_in(const cc::Array<cc::String> &array);

/* Make copies that the caller frees with ccc_free: strings behind a list of them that ends with NULL, and one string.
 */
char **block_of(const std::vector<std::string> &strings);
char *copy_of(const std::string &s);

/* Make a copy that the caller frees with ccc_free. */
template <class T> T *array_of(const std::vector<T> &values)
{
    T *copy = static_cast<T *>(std::malloc(std::max<size_t>(1, values.size() * sizeof(T))));
    if (!copy) throw std::bad_alloc();
    if (!values.empty()) std::memcpy(copy, values.data(), values.size() * sizeof(T));
    return copy;
}

template <class T> struct Tag {
    using type = T;
};

/* Call f with a Tag of the C++ type that stands for `type`. */
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

/* Values that To cannot hold become the nearest that it can. */
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

/* ---- casacore_files.cc: the sizes of a table's files ---- */

/* Return the size of a file, -1 where there is none. */
int64_t file_size(const std::string &path);

/*
 * Fail where one of the table's files is not a plain file: opening a FIFO or a device would wait for ever. Fail also
 * where one is a link that does not lead to a table's file: the target would be read as data and written to.
 */
void check_kinds(const std::string &real, const std::string &shown);

/* Throw as check_kinds does, and where a file of the table in directory `real` is shorter than it says; `shown` is its
 * name in messages. */
void check_files(const std::string &real, const std::string &shown);

/* Check as check_files does the files that hold the tiles of an open table with these storage managers. */
void check_tiles(const cc::Record &managers, const std::string &real, const std::string &shown);

/* Read the number of rows from table.dat; -1 where it has none in the expected place. */
int64_t rows_in_header(const std::string &real);

/* ---- casacore_managers.cc: what opening a table loads and runs ---- */

/*
 * Fail where a storage manager or engine of the table is not known, or would evaluate expressions; or where a table
 * that casacore opens with it has one: what it is a selection or a concatenation of, and where its columns lie. Every
 * table is looked at before casacore opens it, since casacore loads what it does not know from a library that the table
 * names.
 */
void check_managers(const std::string &real, const std::string &shown);

/* Check as check_managers does an open table and all that its keywords name, and theirs: what casacore opens to copy
 * it. */
void check_managers_of_all(const cc::Table &table, const std::string &real, const std::string &shown);

/* ---- casacore_table.cc: names, and how tables are opened ---- */

/* Make a path absolute, without slashes at its end. */
std::string absolute(const std::string &path);

/* Fail where casacore would put the value of a variable of the environment in this name. */
void require_plain(const std::string &name, const std::string &path);

cc::TableLock lock_option(ccc_mode mode, ccc_lock lock);
cc::TSMOption tile_option(ccc_mode mode);

/* `path` as the user would write it, `real` for casacore, by way of `directory` where that is not null. */
void open_table(ccc_table **out, const std::string &path, const std::string &real,
                const std::shared_ptr<Descriptor> &directory, ccc_mode mode, ccc_lock lock);

/* ---- casacore_column.cc: what a column holds, and where ---- */

void require_writable(const ccc_table *t);
void require_column(const ccc_table *t, const char *column);
void require_rows(const ccc_table *t, int64_t row, int64_t n_row);

/* Fail unless the column is there and holds a string in each row, or, not scalar, an array of them. */
void require_string_column(const ccc_table *t, const char *column, bool is_scalar);

/* Ask whether every cell has the same shape by the column's description. */
bool is_fixed(const cc::ColumnDesc &d);

/* Find the shape of one cell; false where it has no value. */
bool cell_shape(const cc::TableColumn &c, int64_t row, cc::IPosition &shape);

/* Get casacore's description of the manager that stores a column (TYPE, NAME, COLUMNS, SPEC); no fields if it has none.
 */
cc::Record manager_of(const cc::Table &table, const char *column);

/* Find the hypercubes in casacore's description of a manager; nullptr where it is not tiled. Lives as long as
 * `manager`. */
const cc::Record *cubes_of(const cc::Record &manager);

/* Ask whether one hypercube of a tiled column holds every row, so that all its cells have one shape. */
bool is_in_one_cube(ccc_table *t, const char *column);

/* Find the shape of the cells of these rows; fail where they differ or one has no value. */
cc::IPosition shape_in(ccc_table *t, const char *column, const cc::TableColumn &c, int64_t row, int64_t n_row);

/* The rows of one access: a range, or a list that ascends. */
struct Rows {
    int64_t first = 0, n = 0;
    const int64_t *list = nullptr;

    int64_t row(int64_t i) const
    {
        return list ? list[i] : first + i;
    }
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

/*
 * The hypercube of a tiled column that holds all rows in their order, and no other column. casacore looks up for each
 * row of a range where it lies, which takes longer than to copy a cell of few channels; of such a cube, rows are one
 * section, as a whole column is to casacore.
 */
class Cube : private cc::RODataManAccessor {
  public:
    /* Find it; a column that is stored in another way has none. */
    Cube(const ccc_table *t, const char *column);

    /* Ask whether whole cells of this shape, of these rows, can be accessed. */
    bool has(const Rows &rows, const cc::IPosition &cell) const;

    /* Copy them to, or from, a buffer of the column's type. */
    template <class T> void access(const Rows &rows, T *buffer, bool is_written)
    {
        /* Bool is stored as bits, which have no size in bytes. */
        section(rows, buffer, sizeof(T), std::is_same<T, cc::Bool>::value ? 0 : sizeof(T), is_written);
    }

  private:
    void section(const Rows &rows, void *buffer, size_t bytes, size_t stored_bytes, bool is_written);

    cc::TiledStMan *manager = nullptr;
    cc::TSMCube *cube = nullptr;
};

/* Fail unless they are rows of the table, and a list of them ascends. */
void require_rows(const ccc_table *t, const Rows &rows);

} // namespace ccc

#endif
