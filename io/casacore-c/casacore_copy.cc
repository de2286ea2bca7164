/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copying of rows of subtables, and of keywords, from one Measurement Set to another. */
#include "casacore_internal.hpp"

#include <casacore/tables/DataMan/StandardStMan.h>
#include <casacore/tables/Tables/SetupNewTab.h>
#include <casacore/tables/Tables/TableCopy.h>
#include <casacore/tables/Tables/TableDesc.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

namespace {

/* Open a subtable; false if it does not exist or has no rows, so that another may replace it. */
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
 * Make fixed shapes variable, except those that the Measurement Set definition prescribes. Some writers fix the shape
 * of columns with a value for each channel, which rows of other windows do not fit. Return whether there were any.
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

/* Make an empty table with the columns of another one, except for fixed shapes. */
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
