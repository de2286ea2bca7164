/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Creates tables and columns, removes columns, and copies rows and keywords. */
#include "casacore_internal.hpp"

#include <cerrno>
#include <sys/stat.h>

#include <casacore/ms/MeasurementSets/MSSource.h>
#include <casacore/ms/MeasurementSets/MeasurementSet.h>
#include <casacore/tables/DataMan/DataManager.h>
#include <casacore/tables/DataMan/IncrementalStMan.h>
#include <casacore/tables/DataMan/StandardStMan.h>
#include <casacore/tables/DataMan/TiledColumnStMan.h>
#include <casacore/tables/DataMan/TiledShapeStMan.h>
#include <casacore/tables/Tables/ArrColDesc.h>
#include <casacore/tables/Tables/ScaColDesc.h>
#include <casacore/tables/Tables/SetupNewTab.h>
#include <casacore/tables/Tables/TableCopy.h>
#include <casacore/tables/Tables/TableDesc.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

/* ---- Creation of tables, Measurement Sets and columns ---- */

namespace {

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
    if (type == "StandardStMan") return std::make_unique<cc::StandardStMan>(name, s.bucket_bytes);
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

} // namespace

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
        t->forget_shapes();
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
        t->forget_shapes();
        t->table.renameColumn(new_name, old_name);
    });
}

/* ---- Removal of columns so that their disk space is freed ---- */

namespace {

const char MOVED[] = "_MOVED_BY_CASACORE_C";

/* Make a manager of a type, with a name that is not used in the table. */
std::unique_ptr<cc::DataManager> manager_like(const cc::Table &table, const std::string &type, const std::string &name)
{
    const cc::Record managers = table.dataManagerInfo();
    std::vector<std::string> used;
    for (cc::uInt i = 0; i < managers.nfields(); i++) used.push_back(managers.subRecord(i).asString("NAME"));
    std::string made = name;
    for (int i = 1; std::find(used.begin(), used.end(), made) != used.end(); i++) made = name + "_" + std::to_string(i);
    if (type == "IncrementalStMan") return std::make_unique<cc::IncrementalStMan>(made);
    return std::make_unique<cc::StandardStMan>(made);
}

void copy_cells(const cc::Table &table, const std::string &from_name, const std::string &to_name)
{
    const cc::TableColumn from(table, from_name);
    cc::TableColumn to(table, to_name);
    for (cc::rownr_t row = 0; row < table.nrow(); row++)
        if (from.isDefined(row)) to.put(row, from, row);
}

} // namespace

/*
 * A StandardStMan does not free the space of a removed column: it keeps it for new columns, and loses it for arrays in
 * a separate file. So the remaining columns are moved to a new manager instead.
 */
int ccc_column_remove(ccc_table *t, const char *column)
{
    return guarded(t, column, [&] {
        require_writable(t);
        require_column(t, column);
        t->forget_shapes();
        const cc::Record manager = manager_of(t->table, column);
        if (manager.nfields() == 0) return t->table.removeColumn(column);
        const std::vector<std::string> all = strings_in(manager.asArrayString("COLUMNS"));
        cc::Vector<cc::String> gone(all.size());
        std::copy(all.begin(), all.end(), gone.begin());
        if (all.size() == 1) return t->table.removeColumn(gone);
        const std::string type = manager.asString("TYPE");
        if (type != "StandardStMan" && type != "IncrementalStMan")
            throw Failure(CCC_EARGUMENT, t->path + ": column " + column + " cannot be removed: its " + type +
                                             " stores other columns too");
        const cc::TableDesc now = t->table.actualTableDesc();
        cc::TableDesc moved("", cc::TableDesc::Scratch);
        for (const auto &name : all)
            if (name != column) moved.addColumn(now.columnDesc(name), name + MOVED);
        t->table.addColumn(moved, *manager_like(t->table, type, manager.asString("NAME")));
        for (const auto &name : all)
            if (name != column) copy_cells(t->table, name, name + MOVED);
        t->table.removeColumn(gone);
        for (const auto &name : all)
            if (name != column) t->table.renameColumn(name, name + MOVED);
    });
}

/* ---- Copying of rows of subtables, and of keywords, from one Measurement Set to another ---- */

namespace {

/* Open a subtable; return false if it does not exist or has no rows, so that it may be replaced. */
bool open_filled(ccc_table *ms, const char *name, cc::Table &out)
{
    cc::TableRecord &keys = ms->table.rwKeywordSet();
    if (!keys.isDefined(name)) return false;
    {
        cc::Table there = keys.asTable(name, lock_option(ms->mode, ms->lock));
        if (there.nrow() > 0) {
            out = there;
            out.reopenRW();
            return true;
        }
    }
    keys.removeField(name);
    return false;
}

/*
 * Make fixed shapes variable, except those that the Measurement Set definition prescribes. Some programs fix the shape
 * of columns with a value for each channel, into which rows of other windows do not fit. Return whether a shape was
 * changed.
 */
bool lift_shapes(cc::TableDesc &desc)
{
    static const char *const prescribed[] = {"POSITION", "OFFSET", "TIME_RANGE", "DIRECTION", "PROPER_MOTION"};
    bool lifted = false;
    for (cc::uInt i = 0; i < desc.ncolumn(); i++) {
        cc::ColumnDesc &d = desc.rwColumnDesc(i);
        if (d.isScalar() || !d.isFixedShape() ||
            std::find(std::begin(prescribed), std::end(prescribed), d.name()) != std::end(prescribed))
            continue;
        const cc::Int ndim = d.ndim();
        d.setOptions(0);
        d.setNdim(0);
        d.setNdim(ndim);
        lifted = true;
    }
    return lifted;
}

/* Make an empty table with the columns of another one, with variable shapes. */
void make_like(const cc::Table &from, const cc::String &path)
{
    cc::TableDesc desc(from.actualTableDesc());
    if (!lift_shapes(desc)) {
        from.deepCopy(path, cc::Table::New, true, cc::Table::AipsrcEndian, true);
        return;
    }
    cc::SetupNewTable setup(path, desc, cc::Table::New);
    setup.bindAll(cc::StandardStMan("SSM"));
    cc::Table made(setup);
    cc::TableCopy::copyInfo(made, from);
    const cc::TableRecord &keys = from.keywordSet();
    for (cc::uInt i = 0; i < keys.nfields(); i++)
        if (keys.dataType(i) != cc::TpTable)
            made.rwKeywordSet().mergeField(keys, i, cc::RecordInterface::OverwriteDuplicates);
}

} // namespace

int ccc_subtable_names(ccc_table *t, char ***names, int64_t *n)
{
    *names = nullptr;
    *n = 0;
    return guarded(t, nullptr, [&] {
        std::vector<std::string> found;
        const cc::TableRecord &keys = t->table.keywordSet();
        for (cc::uInt i = 0; i < keys.nfields(); i++)
            if (keys.dataType(i) == cc::TpTable) found.push_back(keys.name(i));
        *names = block_of(found);
        *n = static_cast<int64_t>(found.size());
    });
}

int ccc_subtable_append(ccc_table *to_ms, const char *name, ccc_table *from, const int64_t *rows, int64_t n_row)
{
    return guarded(to_ms, name, [&] {
        require_writable(to_ms);
        if (!from) throw Failure(CCC_EARGUMENT, "no table to copy from is open");
        require_rows(from, Rows{0, n_row, rows});
        cc::Vector<cc::rownr_t> list(n_row);
        for (int64_t i = 0; i < n_row; i++) list[i] = rows[i];
        const cc::Table part = n_row > 0 ? from->table(list) : from->table;
        const cc::String path = to_ms->real + "/" + name;
        cc::Table target;
        if (!open_filled(to_ms, name, target)) {
            check_managers_of_all(from->table, from->real, from->path);
            make_like(part, path);
            target = cc::Table(path, lock_option(CCC_UPDATE, CCC_LOCK_HOLD), cc::Table::Update);
            to_ms->table.rwKeywordSet().defineTable(name, target);
        }
        if (n_row == 0) return;
        target.lock(true, 1);
        const cc::rownr_t first = target.nrow();
        target.addRow(n_row);
        cc::TableCopy::copyRows(target, part, first, 0, n_row);
        target.flush();
        target.unlock();
    });
}

int ccc_column_take_keywords(ccc_table *to, ccc_table *from, const char *to_column, const char *from_column)
{
    return guarded(to, to_column, [&] {
        require_writable(to);
        require_column(to, to_column);
        require_column(from, from_column);
        const cc::TableColumn source(from->table, from_column);
        const cc::TableRecord &keys = source.keywordSet();
        cc::TableColumn target(to->table, to_column);
        for (cc::uInt i = 0; i < keys.nfields(); i++)
            if (keys.dataType(i) != cc::TpTable)
                target.rwKeywordSet().mergeField(keys, i, cc::RecordInterface::OverwriteDuplicates);
    });
}
