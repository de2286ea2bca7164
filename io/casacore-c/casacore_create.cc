/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Creation of tables, Measurement Sets and columns. */
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
#include <casacore/tables/Tables/TableDesc.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

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
