/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shared declarations of the casacore bindings: handles, failures, types, shapes, rows, and checks of arguments.
 *
 * A failure is an exception: a Failure, or an exception of casacore. Every function of casacore_c.h does its work in
 * guarded(), which converts exceptions to a code and a message.
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

/* Rows [begin, end) of a column whose cells are known to have one shape, or to have no value. */
struct Alike {
    int64_t begin = 0, end = 0;
    bool defined = false;
    cc::IPosition shape;
};

} // namespace ccc

struct ccc_table {
    /* Both are closed after the table: its name may refer to the directory's descriptor, and closing any descriptor of
     * table.lock releases the lock. */
    std::shared_ptr<ccc::Descriptor> directory;
    ccc::Descriptor lock_file;
    cc::Table table;
    std::string path; /* absolute, for messages */
    std::string real; /* the name for casacore */
    ccc_mode mode = CCC_READ;
    ccc_lock lock = CCC_LOCK_NONE;
    std::map<std::string, ccc::Alike> alike;
    std::map<std::string, bool> in_one_cube; /* known results, by column; erased when shapes are set */

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

/* Store the message for ccc_error, on one line; return the code. */
int fail(int code, const char *text) noexcept;

/* Return whether the text of casacore's exception is about invalid contents of files. */
bool indicates_damage(const char *what) noexcept;

/* casacore does not say why it read fewer bytes than it wanted. Read the file that the text names again, or all files of
 * the table of the context; if that fails, return a message with the reason, else "". */
std::string unreadable_file(const char *what, const std::string &context);

/* Return whether it is about a table that another process has changed since it was opened. */
bool indicates_other_writer(const char *what) noexcept;

/* Every call takes this lock, because casacore has one table cache for the process. */
std::recursive_mutex &process_lock();

/* Discard casacore's log lines, which would go to the caller's stderr. Set HOME if it is missing: casacore reads
 * settings there, and does not open tables without it. */
void set_up_casacore();

/* Run f, which throws on failure. `context` is put before the message of casacore's exceptions; a Failure has its
 * own. */
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
            const std::string unreadable = unreadable_file(e.what(), context);
            if (!unreadable.empty()) return fail(CCC_EFAILED, unreadable.c_str());
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

/* Convert a type; CCC_OTHER for a type that is not supported. An array has the type of its elements. */
ccc_type type_of(cc::DataType type);
const char *name_of(ccc_type type);

cc::IPosition position(int ndim, const int64_t *values);

/* Fail unless the shape fits into ccc's arrays. The message names the place. */
void store_shape(const std::string &where, const cc::IPosition &shape, int64_t *out);
std::string text_of(const cc::IPosition &shape);

/* Fail unless the slice is within cells of this shape. The message names the place. */
cc::Slicer slicer_of(const std::string &where, const ccc_slice &s, const cc::IPosition &cell);

std::vector<std::string> strings_in(const cc::Array<cc::String> &array);

/* Make a copy of strings that the caller frees with one ccc_free: a list that ends with NULL, followed by the
 * strings. */
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

/* Call f with a Tag of the C++ type of `type`. */
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

/* Values out of To's range become its nearest value. */
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
        const long double x = static_cast<long double>(v); /* larger than every int64 */
        if (!(x >= static_cast<long double>(std::numeric_limits<To>::min()))) return std::numeric_limits<To>::min();
        if (x >= static_cast<long double>(std::numeric_limits<To>::max())) return std::numeric_limits<To>::max();
        return static_cast<To>(v);
    }
}

/* ---- casacore_files.cc: the sizes of a table's files ---- */

/* Return the size of a file; -1 if it does not exist. */
int64_t file_size(const std::string &path);

/*
 * Fail if one of the table's files is not a plain file: opening a FIFO or a device would wait for ever. Fail also if
 * one is a link that does not lead to a table's file: the target would be read as data and written to.
 */
void check_kinds(const std::string &real, const std::string &shown);

/* Call check_kinds, and fail if a file of the table in directory `real` is shorter than its header says. `shown` is its
 * name in messages. */
void check_files(const std::string &real, const std::string &shown);

/* Check the files with the tiles of an open table with these storage managers, as check_files does. */
void check_tiles(const cc::Record &managers, const std::string &real, const std::string &shown);

/* Read the number of rows from table.dat; -1 if it is not in the expected place. */
int64_t rows_in_header(const std::string &real);

/* ---- casacore_managers.cc: libraries and expressions that opening a table would load and evaluate ---- */

/*
 * Fail if a storage manager or engine of the table is unknown or would evaluate expressions, or one of a table that
 * casacore opens with it: its parent, its members, and tables with its columns. This is checked before casacore opens
 * the table, since casacore loads unknown managers from a library that the table names.
 */
void check_managers(const std::string &real, const std::string &shown);

/* While it exists, casacore loads no library in this thread but those of known managers, and does not construct
 * VirtualTaQLColumn. */
class KnownManagersOnly {
  public:
    KnownManagersOnly();
    ~KnownManagersOnly();
    KnownManagersOnly(const KnownManagersOnly &) = delete;
    KnownManagersOnly &operator=(const KnownManagersOnly &) = delete;

  private:
    const cc::DataManagerCtor own_; /* constructor of VirtualTaQLColumn */
};

/* Check an open table and, recursively, all tables that keywords name, as check_managers does. casacore opens these to
 * copy the table. */
void check_managers_of_all(const cc::Table &table, const std::string &real, const std::string &shown);

/* ---- casacore_table.cc: names, and how tables are opened ---- */

/* Make a path absolute, without slashes at its end. */
std::string absolute(const std::string &path);

/* Fail if casacore would replace part of this name by an environment variable. */
void require_plain(const std::string &name, const std::string &path);

cc::TableLock lock_option(ccc_mode mode, ccc_lock lock);
cc::TSMOption tile_option(ccc_mode mode);

/* `path` is for messages, `real` for casacore; `real` refers to `directory` unless that is null. */
void open_table(ccc_table **out, const std::string &path, const std::string &real,
                const std::shared_ptr<Descriptor> &directory, ccc_mode mode, ccc_lock lock);

/* ---- casacore_column.cc: types and storage of columns ---- */

void require_writable(const ccc_table *t);
void require_column(const ccc_table *t, const char *column);
void require_rows(const ccc_table *t, int64_t row, int64_t n_row);

/* Fail unless the column exists and its cells are strings or, if it is not scalar, arrays of strings. */
void require_string_column(const ccc_table *t, const char *column, bool is_scalar);

/* Return whether the column's description fixes the shape of all cells. */
bool is_fixed(const cc::ColumnDesc &d);

/* Find the shape of one cell; false if it has no value. */
bool cell_shape(const cc::TableColumn &c, int64_t row, cc::IPosition &shape);

/* Get casacore's description of the manager that stores a column (TYPE, NAME, COLUMNS, SPEC); no fields if it has none.
 */
cc::Record manager_of(const cc::Table &table, const char *column);

/* Find the hypercubes in casacore's description of a manager; nullptr if it is not tiled. Valid as long as
 * `manager`. */
const cc::Record *cubes_of(const cc::Record &manager);

/* Return whether one hypercube of a tiled column has all rows, so that all its cells have one shape. */
bool is_in_one_cube(ccc_table *t, const char *column);

/* Find the shape of the cells of these rows; fail if they differ or one has no value. */
cc::IPosition shape_in(ccc_table *t, const char *column, const cc::TableColumn &c, int64_t row, int64_t n_row);

/* The rows of one access: a range, or an ascending list. */
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
 * A hypercube that has all rows of a tiled column in order, and no other column. casacore looks up the place of each
 * row of a range, which takes longer than copying a cell of few channels. In such a cube a range of rows is one
 * section, which casacore reads at once.
 */
class Cube : private cc::RODataManAccessor {
  public:
    /* Find the cube of a column, if it is stored in this way. */
    Cube(const ccc_table *t, const char *column);

    /* Return whether whole cells of this shape can be accessed in these rows. */
    bool has(const Rows &rows, const cc::IPosition &cell) const;

    /* Copy the cells to or from a buffer of the column's type. */
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

/* Fail unless they are rows of the table, and a list is ascending. */
void require_rows(const ccc_table *t, const Rows &rows);

} // namespace ccc

#endif
