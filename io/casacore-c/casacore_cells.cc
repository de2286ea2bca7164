/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads and writes cells, directly into and from the caller's buffer, if it has the type of the column. */
#include "casacore_internal.hpp"

#include <casacore/casa/OS/Conversion.h>
#include <casacore/casa/OS/HostInfo.h>
#include <casacore/tables/DataMan/SSMBase.h>
#include <casacore/tables/DataMan/SSMColumn.h>
#include <casacore/tables/Tables/ArrayColumn.h>
#include <casacore/tables/Tables/PlainColumn.h>
#include <casacore/tables/Tables/ScalarColumn.h>
#include <casacore/tables/Tables/TableDesc.h>

using namespace ccc;

/* ---- Reading of cells, directly into the caller's buffer if that has the column's type ---- */

namespace {

/*
 * When casacore has read the value of a row of a scalar column, it caches the values of many rows: those of the bucket,
 * or all rows up to the next change. casacore's own check of this cache takes some 20 instructions for each value, so
 * the cache is read directly.
 */
class KeptColumn : private cc::TableColumn {
  public:
    KeptColumn(const ccc_table *t, const char *name) : cc::TableColumn(t->table, name) {}

    /* Copy the values of rows of a column of type T; return false if casacore has not cached them. */
    template <class T> bool get(const Rows &rows, T *out)
    {
        if (rows.list) return false;
        for (int64_t done = 0, n = 0; done < rows.n; done += n) {
            const auto row = static_cast<cc::rownr_t>(rows.first + done);
            const cc::ColumnCache &kept = baseColPtr()->columnCache();
            if (kept.offset(row) < 0) baseColPtr()->get(row, out + done);
            const cc::Int64 at = kept.offset(row);
            if (at < 0) return false;
            n = static_cast<int64_t>(std::min<cc::rownr_t>(kept.end() - row, rows.n - done - 1)) + 1;
            const T *from = static_cast<const T *>(kept.dataPtr()) + at;
            if (kept.incr() == 1)
                std::memcpy(out + done, from, static_cast<size_t>(n) * sizeof(T));
            else if (kept.incr() == 0)
                std::fill_n(out + done, n, *from);
            else
                return false;
        }
        return true;
    }
};

template <class T>
void read_native(const ccc_table *t, const char *column, const Rows &rows, const cc::Slicer *slicer,
                 const cc::IPosition &cell, T *out)
{
    if (t->table.tableDesc()[column].isScalar()) {
        const cc::ScalarColumn<T> c(t->table, column);
        if constexpr (std::is_arithmetic<T>::value)
            if (KeptColumn(t, column).get(rows, out)) return;
        cc::Vector<T> v(cc::IPosition(1, rows.n), out, cc::SHARE);
        if (rows.list)
            c.getColumnCells(rows.ref(), v);
        else
            c.getColumnRange(rows.range(), v);
        return;
    }
    cc::IPosition shape(cell.size() + 1);
    for (size_t i = 0; i < cell.size(); i++) shape[i] = slicer ? slicer->length()[i] : cell[i];
    shape[cell.size()] = rows.n;
    if (!slicer && t->lock == CCC_LOCK_NONE) {
        Cube cube(t, column);
        if (cube.has(rows, cell)) return cube.access(rows, out, false);
    }
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

/* Find the shape of the cells of all these rows. */
cc::IPosition shape_of(ccc_table *t, const char *column, const cc::TableColumn &c, const Rows &rows)
{
    if (!rows.list) return shape_in(t, column, c, rows.first, rows.n);
    if (is_fixed(c.columnDesc())) return shape_in(t, column, c, rows.list[0], 1);
    cc::IPosition cell;
    for (int64_t i = 0, n; i < rows.n; i += n) {
        for (n = 1; i + n < rows.n && rows.list[i + n] == rows.list[i] + n;) n++;
        const cc::IPosition shape = shape_in(t, column, c, rows.list[i], n);
        if (i == 0) cell = shape;
        if (!shape.isEqual(cell))
            throw Failure(CCC_ESHAPE, t->path + ": column " + column + ", row " + std::to_string(rows.list[i]) +
                                          ": shape " + text_of(shape) + " after " + text_of(cell));
    }
    return cell;
}

void get(ccc_table *t, const char *column, const Rows &rows, const ccc_slice *slice, ccc_type type, void *out,
         int64_t n_out)
{
    require_column(t, column);
    require_rows(t, rows);
    if (rows.n == 0) {
        if (n_out != 0) throw Failure(CCC_EARGUMENT, "a buffer for no rows");
        return;
    }
    const cc::TableColumn c(t->table, column);
    const ccc_type stored = type_of(c.columnDesc().dataType());
    const cc::IPosition cell = shape_of(t, column, c, rows);
    if (slice && c.columnDesc().isScalar())
        throw Failure(CCC_ESHAPE, t->path + ": column " + column + ": a slice of a scalar column");
    std::unique_ptr<cc::Slicer> slicer;
    if (slice) slicer = std::make_unique<cc::Slicer>(slicer_of(t->path + ": column " + column, *slice, cell));
    int64_t n = rows.n;
    for (size_t i = 0; i < cell.size(); i++) n *= slicer ? slicer->length()[i] : cell[i];
    if (n != n_out)
        throw Failure(CCC_EARGUMENT, t->path + ": column " + column + ": a buffer of " + std::to_string(n_out) +
                                         " elements for " + std::to_string(n));
    if (stored == CCC_STRING || stored == CCC_OTHER)
        throw Failure(CCC_ETYPE, t->path + ": column " + column + " holds " + name_of(stored) + ", not numbers");
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

} // namespace

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
        require_string_column(t, column, true);
        require_rows(t, row, 1);
        *out = copy_of(cc::ScalarColumn<cc::String>(t->table, column)(row));
    });
}

int ccc_get_strings(ccc_table *t, const char *column, int64_t row, char ***out, int64_t *n)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        require_string_column(t, column, false);
        require_rows(t, row, 1);
        const cc::ArrayColumn<cc::String> c(t->table, column);
        const auto list = c.isDefined(row) ? strings_in(c(row)) : std::vector<std::string>();
        *out = block_of(list);
        *n = static_cast<int64_t>(list.size());
    });
}

/* ---- Writing of cells, directly from the caller's buffer ---- */

namespace {

/*
 * A scalar column of a StandardStMan is stored in buckets of many rows. casacore looks up the bucket of each row, which
 * takes some 80 ns per value. Here it is looked up once for all rows of the bucket.
 */
class BucketColumn : private cc::TableColumn {
  public:
    /* Find the buckets of a column. It has none if it is stored in another way, or in another byte order. */
    BucketColumn(const ccc_table *t, const char *name) : cc::TableColumn(t->table, name)
    {
        auto *plain = dynamic_cast<cc::PlainColumn *>(baseColPtr());
        if (!plain || plain->dataManager()->asBigEndian() != cc::HostInfo::bigEndian()) return;
        manager = dynamic_cast<cc::SSMBase *>(plain->dataManager());
        column = manager ? dynamic_cast<cc::SSMColumn *>(plain->dataManagerColumn()) : nullptr;
    }

    /* Copy values to rows of a column of type T; return false, and do nothing, if there are no buckets. */
    template <class T> bool put(const Rows &rows, const T *in)
    {
        constexpr bool is_bit = std::is_same<T, cc::Bool>::value;
        if (!column || rows.list || column->getExternalSizeBits() != (is_bit ? 1 : 8 * sizeof(T))) return false;
        for (int64_t done = 0, n = 0; done < rows.n; done += n) {
            const auto row = static_cast<cc::rownr_t>(rows.first + done);
            cc::rownr_t begin, last;
            char *bucket = manager->find(row, column->getColNr(), begin, last, columnDesc().name());
            n = std::min(static_cast<int64_t>(last - row) + 1, rows.n - done);
            if constexpr (is_bit)
                cc::Conversion::boolToBit(bucket, in + done, row - begin, static_cast<size_t>(n));
            else
                std::memcpy(bucket + (row - begin) * sizeof(T), in + done, static_cast<size_t>(n) * sizeof(T));
            manager->setBucketDirty();
        }
        baseColPtr()->columnCache().invalidate();
        return true;
    }

  private:
    cc::SSMBase *manager = nullptr;
    cc::SSMColumn *column = nullptr;
};

template <class T>
void write_native(ccc_table *t, const char *column, const Rows &rows, const cc::Slicer *slicer,
                  const cc::IPosition &shape, T *in)
{
    if (t->table.tableDesc()[column].isScalar()) {
        if (t->table.hasLock(cc::FileLocker::Write) && BucketColumn(t, column).put(rows, in)) return;
        cc::Vector<T> v(cc::IPosition(1, rows.n), in, cc::SHARE);
        cc::ScalarColumn<T> c(t->table, column);
        if (rows.list)
            c.putColumnCells(rows.ref(), v);
        else
            c.putColumnRange(rows.range(), v);
        return;
    }
    cc::ArrayColumn<T> c(t->table, column);
    /* casacore's description of hypercubes is slow to get, and does not include new rows. */
    const bool is_new = !slicer && !is_fixed(c.columnDesc()) && !c.isDefined(rows.row(0));
    if (!slicer && !is_fixed(c.columnDesc()) &&
        (is_new || !is_in_one_cube(t, column) || !c.shape(rows.row(0)).isEqual(shape))) {
        for (int64_t i = 0; i < rows.n; i++) {
            const int64_t row = rows.row(i);
            if (c.isDefined(row) && c.shape(row).isEqual(shape)) continue;
            t->in_one_cube.erase(column);
            c.setShape(row, shape);
        }
    }
    if (!slicer && t->table.hasLock(cc::FileLocker::Write)) {
        Cube cube(t, column);
        if (cube.has(rows, shape)) return cube.access(rows, in, true);
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

// The values of the cells, row after row.
struct Values {
    int ndim;
    const int64_t *shape;
    const ccc_slice *slice;
    ccc_type type;
    const void *in;
};

void put(ccc_table *t, const char *column, const Rows &rows, const Values &given)
{
    const auto [ndim, shape, slice, type, in] = given;
    require_writable(t);
    require_column(t, column);
    require_rows(t, rows);
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
            if (!cell_shape(c, rows.row(i), cell))
                throw Failure(CCC_ESHAPE, where + ", row " + std::to_string(rows.row(i)) + ": the cell has no value");
            slicer =
                std::make_unique<cc::Slicer>(slicer_of(where + ", row " + std::to_string(rows.row(i)), *slice, cell));
            if (is_fixed(d)) break;
        }
        if (!slicer->length().isEqual(values))
            throw Failure(CCC_ESHAPE, where + ": values of shape " + text_of(values) + " for the slice");
    }
    t->alike.erase(column);
    with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        write_native(t, column, rows, slicer.get(), values, const_cast<T *>(static_cast<const T *>(given.in)));
    });
}

template <class V> void put_number(ccc_table *t, const char *column, int64_t row, V value)
{
    require_column(t, column);
    const ccc_type type = type_of(t->table.tableDesc()[column].dataType());
    with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        T v = converted<T>(value);
        put(t, column, Rows{row, 1, nullptr}, {0, nullptr, nullptr, type, &v});
    });
}

} // namespace

int ccc_put_range(ccc_table *t, const char *column, int64_t row, int64_t n_row, int ndim, const int64_t *shape,
                  const ccc_slice *slice, ccc_type type, const void *in)
{
    return guarded(t, column, [&] { put(t, column, Rows{row, n_row, nullptr}, {ndim, shape, slice, type, in}); });
}

int ccc_put_rows(ccc_table *t, const char *column, const int64_t *rows, int64_t n_row, int ndim, const int64_t *shape,
                 const ccc_slice *slice, ccc_type type, const void *in)
{
    return guarded(t, column, [&] { put(t, column, Rows{0, n_row, rows}, {ndim, shape, slice, type, in}); });
}

int ccc_put_array(ccc_table *t, const char *column, int64_t row, int ndim, const int64_t *shape, ccc_type type,
                  const void *in)
{
    return ccc_put_range(t, column, row, 1, ndim, shape, nullptr, type, in);
}

int ccc_put_bool(ccc_table *t, const char *column, int64_t row, int value)
{
    return guarded(t, column, [&] {
        const cc::Bool v = value != 0;
        put(t, column, Rows{row, 1, nullptr}, {0, nullptr, nullptr, CCC_BOOL, &v});
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
        require_string_column(t, column, true);
        require_rows(t, row, 1);
        cc::ScalarColumn<cc::String>(t->table, column).put(row, value);
    });
}

int ccc_put_strings(ccc_table *t, const char *column, int64_t row, int ndim, const int64_t *shape,
                    const char *const *values)
{
    return guarded(t, column, [&] {
        require_writable(t);
        require_string_column(t, column, false);
        require_rows(t, row, 1);
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
