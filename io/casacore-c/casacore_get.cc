/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading of cells, directly into the caller's buffer if that has the column's type. */
#include "casacore_internal.hpp"

#include <casacore/tables/Tables/ArrayColumn.h>
#include <casacore/tables/Tables/ScalarColumn.h>
#include <casacore/tables/Tables/TableDesc.h>

using namespace ccc;

namespace {

/*
 * After reading the value of a row, casacore keeps the values of many rows of a scalar column: those of its bucket, or
 * all up to the next change. casacore's own check for each row takes some 20 instructions per value, so the cache is
 * read directly.
 */
class KeptColumn : private cc::TableColumn {
  public:
    KeptColumn(const ccc_table *t, const char *name) : cc::TableColumn(t->table, name) {}

    /* Copy the values of rows of a column of type T; return false if casacore does not keep them. */
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
