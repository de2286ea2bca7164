/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Describes columns: types, storage, and ranges of rows whose cells have one shape. */
#include "casacore_internal.hpp"

#include <casacore/tables/Tables/TableDesc.h>

using namespace ccc;

namespace {

/* Find the range of rows from `row` on whose cells have the same shape, and store it for the next read. */
const Alike &alike_from(ccc_table *t, const char *column, const cc::TableColumn &c, int64_t row, int64_t n_row)
{
    Alike &a = t->alike[column];
    if (row < a.begin || row >= a.end) {
        a.begin = a.end = row;
        a.defined = cell_shape(c, row, a.shape);
        a.end = row + 1;
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

} // namespace

cc::Record ccc::manager_of(const cc::Table &table, const char *column)
{
    const cc::Record managers = table.dataManagerInfo();
    for (cc::uInt i = 0; i < managers.nfields(); i++) {
        const cc::Record &m = managers.subRecord(i);
        const cc::Vector<cc::String> columns(m.asArrayString("COLUMNS"));
        if (std::find(columns.begin(), columns.end(), cc::String(column)) != columns.end()) return m;
    }
    return cc::Record();
}

void ccc::require_column(const ccc_table *t, const char *column)
{
    if (!column || !t->table.tableDesc().isColumn(column))
        throw Failure(CCC_ENOTFOUND, t->path + ": has no column " + (column ? column : "(null)"));
}

void ccc::require_rows(const ccc_table *t, int64_t row, int64_t n_row)
{
    const int64_t n = static_cast<int64_t>(t->table.nrow());
    if (row < 0 || n_row < 0 || row > n || n_row > n - row)
        throw Failure(CCC_EARGUMENT, t->path + ": " + std::to_string(n_row) + " rows from row " + std::to_string(row) +
                                         " on, of a table of " + std::to_string(n));
}

void ccc::require_rows(const ccc_table *t, const Rows &rows)
{
    if (!rows.list) return require_rows(t, rows.first, rows.n);
    for (int64_t i = 0; i < rows.n; i++) {
        require_rows(t, rows.list[i], 1);
        if (i && rows.list[i] <= rows.list[i - 1])
            throw Failure(CCC_EARGUMENT, t->path + ": a list of rows does not ascend");
    }
}

void ccc::require_string_column(const ccc_table *t, const char *column, bool is_scalar)
{
    require_column(t, column);
    const cc::ColumnDesc &d = t->table.tableDesc()[column];
    if (type_of(d.dataType()) != CCC_STRING || d.isScalar() != is_scalar)
        throw Failure(CCC_ETYPE, t->path + ": column " + column + " holds no string" + (is_scalar ? "" : "s"));
}

void ccc::require_writable(const ccc_table *t)
{
    if (t->mode != CCC_UPDATE) throw Failure(CCC_EREADONLY, t->path + ": opened to read");
}

bool ccc::is_fixed(const cc::ColumnDesc &d)
{
    return d.isScalar() || d.isFixedShape();
}

bool ccc::cell_shape(const cc::TableColumn &c, int64_t row, cc::IPosition &shape)
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

const cc::Record *ccc::cubes_of(const cc::Record &manager)
{
    if (!manager.isDefined("SPEC") || !manager.subRecord("SPEC").isDefined("HYPERCUBES")) return nullptr;
    return &manager.subRecord("SPEC").subRecord("HYPERCUBES");
}

bool ccc::is_in_one_cube(ccc_table *t, const char *column)
{
    const auto known = t->in_one_cube.find(column);
    if (known != t->in_one_cube.end()) return known->second;
    bool one = false;
    const cc::Record manager = manager_of(t->table, column);
    const cc::Record *cubes = cubes_of(manager);
    /* A cube of a TiledCellStMan is one cell. */
    if (cubes && cubes->nfields() == 1 && manager.asString("TYPE") != "TiledCellStMan") {
        const cc::Vector<cc::Int> shape(cubes->subRecord(0).toArrayInt("CubeShape"));
        one = shape.size() > 0 && static_cast<cc::rownr_t>(shape[shape.size() - 1]) == t->table.nrow();
    }
    return t->in_one_cube[column] = one;
}

Cube::Cube(const ccc_table *t, const char *column)
{
    /* Rows of a selection or concatenation are not the rows of a manager. */
    if (!t->table.isRootTable() || t->table.tableType() != cc::Table::Plain) return;
    cc::RODataManAccessor::operator=(cc::RODataManAccessor(t->table, column, true));
    manager = dynamic_cast<cc::TiledStMan *>(baseDataManager());
    if (manager && manager->ncolumn() == 1 && manager->canAccessColumn()) cube = manager->singleHypercube();
}

bool Cube::has(const Rows &rows, const cc::IPosition &cell) const
{
    if (!cube || rows.list) return false;
    const cc::IPosition &shape = cube->cubeShape();
    const size_t n = cell.size();
    return shape.size() == n + 1 && shape.getFirst(n).isEqual(cell) && rows.first + rows.n <= shape[n];
}

void Cube::section(const Rows &rows, void *buffer, size_t bytes, size_t stored_bytes, bool is_written)
{
    const cc::IPosition &shape = cube->cubeShape();
    cc::IPosition start(shape.size(), 0), end(shape - 1);
    start.last() = rows.first;
    end.last() = rows.first + rows.n - 1;
    /* Choose the cache for access by columns, as casacore does. */
    if (!manager->userSetCache(0) && cube->getLastColAccess() != cc::TSMCube::ColumnAccess) {
        cube->setCacheSize(shape, cc::IPosition(), cc::IPosition(), cc::IPosition(), true, false);
        cube->setLastColAccess(cc::TSMCube::ColumnAccess);
    }
    cube->accessSection(start, end, static_cast<char *>(buffer), 0, static_cast<cc::uInt>(bytes),
                        static_cast<cc::uInt>(stored_bytes), is_written);
}

cc::IPosition ccc::shape_in(ccc_table *t, const char *column, const cc::TableColumn &c, int64_t row, int64_t n_row)
{
    const Alike &a = alike_from(t, column, c, row, n_row);
    const std::string where = t->path + ": column " + column + ", row ";
    if (!a.defined) throw Failure(CCC_ESHAPE, where + std::to_string(row) + ": the cell has no value");
    if (a.end < row + n_row)
        throw Failure(CCC_ESHAPE, where + std::to_string(a.end) + ": the cell has no value or another shape than " +
                                      text_of(a.shape));
    return a.shape;
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
            store_shape(t->path + ": column " + column, d.shape(), info->shape);
        }
        const cc::Record manager = manager_of(t->table, column);
        if (manager.nfields() == 0) return;
        info->manager_n_column = static_cast<int>(manager.asArrayString("COLUMNS").size());
        std::strncpy(info->manager_type, manager.asString("TYPE").c_str(), sizeof info->manager_type - 1);
        std::strncpy(info->manager_name, manager.asString("NAME").c_str(), sizeof info->manager_name - 1);
        const cc::Record *cubes = cubes_of(manager);
        if (!cubes) return;
        if (manager.subRecord("SPEC").isDefined("SEQNR")) info->manager_file = manager.subRecord("SPEC").asInt("SEQNR");
        for (cc::uInt i = 0; i < cubes->nfields() && info->tile_ndim == 0; i++) {
            const cc::Vector<cc::Int> tile(cubes->subRecord(i).toArrayInt("TileShape"));
            info->tile_ndim = static_cast<int>(std::min<size_t>(tile.size(), CCC_MAX_DIM));
            for (int k = 0; k < info->tile_ndim; k++) info->tile_shape[k] = tile[k];
        }
    });
}

int ccc_table_managers(ccc_table *t, int32_t **numbers, int64_t *n)
{
    *numbers = nullptr;
    *n = 0;
    return guarded(t, nullptr, [&] {
        std::vector<int32_t> list;
        const cc::Record managers = t->table.dataManagerInfo();
        for (cc::uInt i = 0; i < managers.nfields(); i++)
            if (managers.subRecord(i).isDefined("SEQNR"))
                list.push_back(static_cast<int32_t>(managers.subRecord(i).asuInt("SEQNR")));
        std::sort(list.begin(), list.end());
        *numbers = array_of(list);
        *n = static_cast<int64_t>(list.size());
    });
}

int ccc_column_comment(ccc_table *t, const char *column, char **out)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        require_column(t, column);
        *out = copy_of(t->table.tableDesc()[column].comment());
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
        if (a.defined) store_shape(t->path + ": column " + column + ", row " + std::to_string(row), a.shape, shape);
    });
}
