/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Selects rows and channels by CASA's expressions and TaQL conditions. */
#include "casacore_internal.hpp"

#include <cctype>
#include <numeric>
#include <set>

#include <casacore/ms/MSSel/MSSelection.h>
#include <casacore/ms/MeasurementSets/MeasurementSet.h>
#include <casacore/tables/TaQL/ExprNode.h>
#include <casacore/tables/TaQL/RecordGram.h>
#include <casacore/tables/Tables/RowNumbers.h>
#include <casacore/tables/Tables/TableAttr.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

namespace {

/* Find the row numbers of a selection in the table from which it was made. */
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

/*
 * While an object of this class exists, casacore sees only the subtables that expressions need. A MeasurementSet opens
 * all subtables that its keywords name, and fails if one is missing or damaged, even if no expression needs it. The
 * keywords are changed only in the memory of the open table, which is not written meanwhile.
 *
 * The subtables are opened with the set's lock option: a MeasurementSet would lock those that it opens itself, but it
 * finds these in casacore's cache as long as the handles exist.
 */
class NeededSubtables {
  public:
    NeededSubtables(ccc_table *ms, bool is_state_needed)
        : keywords(const_cast<cc::TableRecord &>(ms->table.keywordSet())), all(keywords)
    {
        const KnownManagersOnly known;
        std::set<std::string> needed{"ANTENNA",     "DATA_DESCRIPTION", "FIELD",
                                     "OBSERVATION", "POLARIZATION",     "SPECTRAL_WINDOW"};
        if (is_state_needed) needed.insert("STATE");
        try {
            for (cc::uInt i = 0; i < all.nfields(); i++) {
                if (all.dataType(i) != cc::TpTable) continue;
                const cc::String name = all.tableAttributes(all.name(i)).name();
                if (needed.count(all.name(i)) == 0 || file_size(name + "/table.dat") < 0) {
                    keywords.removeField(all.name(i));
                    continue;
                }
                check_files(name, name);
                check_managers(name, name);
                open.push_back(cc::Table(name, lock_option(ms->mode, ms->lock), cc::Table::Old, tile_option(ms->mode)));
            }
        } catch (...) {
            keywords = all;
            throw;
        }
    }
    NeededSubtables(const NeededSubtables &) = delete;
    NeededSubtables &operator=(const NeededSubtables &) = delete;
    ~NeededSubtables()
    {
        keywords = all;
    }

  private:
    cc::TableRecord &keywords;
    const cc::TableRecord all;
    std::vector<cc::Table> open;
};

/* One of CASA's expressions, and MSSelection's function for it. */
struct Expression {
    const char *name;
    const char *value;
    cc::Bool (cc::MSSelection::*set)(const cc::String &);

    bool is_spw() const
    {
        return set == &cc::MSSelection::setSpwExpr;
    }
};

/* Add an expression to the condition on rows and, for spectral windows, to the channels. */
void add_expression(const cc::MeasurementSet &set, const Expression &expression, cc::TableExprNode &condition,
                    std::vector<ccc_chan_range> &ranges)
{
    cc::MSSelection selection;
    (selection.*expression.set)(expression.value);
    const cc::TableExprNode node = selection.toTableExprNode(&set);
    if (!node.isNull()) condition = condition.isNull() ? node : condition && node;
    if (!expression.is_spw()) return;
    const cc::Matrix<cc::Int> list = selection.getChanList(&set, 1, true);
    for (size_t i = 0; i < list.nrow(); i++) ranges.push_back({list(i, 0), list(i, 1), list(i, 2), list(i, 3)});
}

/* Return whether a TaQL condition may call functions of a library, such as mscal.statecol(), which open tables that
 * keywords name. */
bool may_open_tables(const std::string &condition)
{
    const auto at = [&](size_t i) { return i < condition.size() ? static_cast<unsigned char>(condition[i]) : 0; };
    for (size_t dot = condition.find('.'); dot != std::string::npos; dot = condition.find('.', dot + 1))
        if ((std::isalpha(at(dot + 1)) || at(dot + 1) == '_') && (dot == 0 || !std::isdigit(at(dot - 1)))) return true;
    return false;
}

std::vector<int64_t> all_rows(const cc::Table &table)
{
    std::vector<int64_t> rows(table.nrow());
    std::iota(rows.begin(), rows.end(), int64_t{0});
    return rows;
}

} // namespace

int ccc_ms_select(ccc_table *ms, const ccc_ms_expressions *expressions, int64_t **rows, int64_t *n_row,
                  ccc_chan_range **ranges, int64_t *n_range)
{
    *rows = nullptr;
    if (ranges) *ranges = nullptr;
    return guarded(ms, nullptr, [&] {
        const Expression list[] = {{"field", expressions->field, &cc::MSSelection::setFieldExpr},
                                   {"spw", expressions->spw, &cc::MSSelection::setSpwExpr},
                                   {"antenna", expressions->antenna, &cc::MSSelection::setAntennaExpr},
                                   {"uvrange", expressions->uvrange, &cc::MSSelection::setUvDistExpr},
                                   {"time", expressions->time, &cc::MSSelection::setTimeExpr},
                                   {"scan", expressions->scan, &cc::MSSelection::setScanExpr},
                                   {"observation", expressions->observation, &cc::MSSelection::setObservationExpr},
                                   {"intent", expressions->intent, &cc::MSSelection::setStateExpr}};
        const NeededSubtables subtables(ms, expressions->intent != nullptr);
        const cc::MeasurementSet set(ms->table);
        std::vector<ccc_chan_range> chosen;
        cc::TableExprNode condition;
        /* Expressions are set one at a time, so that the message can name the one that failed. */
        for (const Expression &e : list) {
            if (!e.value || !*e.value) continue;
            try {
                add_expression(set, e, condition, chosen);
            } catch (const std::bad_alloc &) {
                throw;
            } catch (const std::exception &x) {
                throw Failure(CCC_EFAILED, ms->path + ": selection " + e.name + " '" + e.value + "': " + x.what());
            }
        }
        give_rows(condition.isNull() ? all_rows(ms->table) : row_numbers(ms->table, condition), rows, n_row);
        if (ranges) *ranges = array_of(chosen);
        if (n_range) *n_range = static_cast<int64_t>(chosen.size());
    });
}

int ccc_table_query(ccc_table *t, const char *condition, int64_t **rows, int64_t *n_row)
{
    *rows = nullptr;
    return guarded(t, nullptr, [&] {
        if (may_open_tables(condition)) check_managers_of_all(t->table, t->real, t->path);
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
