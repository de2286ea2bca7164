/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rows and channels that CASA's expressions and TaQL conditions select. */
#include "io/casacore-c/casacore_internal.hpp"

#include <casacore/ms/MSSel/MSSelection.h>
#include <casacore/ms/MeasurementSets/MeasurementSet.h>
#include <casacore/tables/TaQL/ExprNode.h>
#include <casacore/tables/TaQL/RecordGram.h>
#include <casacore/tables/Tables/RowNumbers.h>
#include <casacore/tables/Tables/TableAttr.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

namespace {

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

} // namespace

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
