/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Removal of columns so that their disk space is freed. */
#include "casacore_internal.hpp"

#include <casacore/tables/DataMan/IncrementalStMan.h>
#include <casacore/tables/DataMan/StandardStMan.h>
#include <casacore/tables/Tables/TableDesc.h>

using namespace ccc;

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
