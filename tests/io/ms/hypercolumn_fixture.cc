/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/io/ms/hypercolumn_fixture.h"

#include <exception>
#include <iostream>

#include <casacore/casa/Arrays/Vector.h>
#include <casacore/casa/Containers/Record.h>
#include <casacore/tables/DataMan/TiledDataStMan.h>
#include <casacore/tables/DataMan/TiledDataStManAccessor.h>
#include <casacore/tables/Tables/ArrColDesc.h>
#include <casacore/tables/Tables/ArrayColumn.h>
#include <casacore/tables/Tables/ScaColDesc.h>
#include <casacore/tables/Tables/Table.h>
#include <casacore/tables/Tables/TableDesc.h>

namespace cc = casacore;

namespace {

const char *const names[] = {"MODEL_DATA", "CORRECTED_DATA"};

void put(cc::Table &t, const char *name, int64_t n_row, const cc::IPosition &cell, const float *values)
{
    cc::ArrayColumn<cc::Complex> column(t, name);
    cc::Array<cc::Complex> one(cell);
    for (int64_t row = 0; row < n_row; row++) {
        for (auto &v : one) {
            v = cc::Complex(values[0], values[1]);
            values += 2;
        }
        column.put(row, one);
    }
}

void add(const char *path, int64_t n_row, const cc::IPosition &cell, const float *model, const float *corrected)
{
    cc::Table t(path, cc::Table::Update);
    cc::TableDesc d;
    cc::Vector<cc::String> data(2), ids(1);
    for (int i = 0; i < 2; i++) d.addColumn(cc::ArrayColumnDesc<cc::Complex>(data[i] = names[i], 2));
    d.addColumn(cc::ScalarColumnDesc<cc::Int>(ids[0] = "DATA_HYPERCUBE_ID"));
    d.defineHypercolumn("TiledData", 3, data, cc::Vector<cc::String>(), ids);
    t.addColumn(d, cc::TiledDataStMan("TiledData"));
    cc::Record values;
    values.define("DATA_HYPERCUBE_ID", 0);
    cc::TiledDataStManAccessor accessor(t, "TiledData");
    accessor.addHypercube(cc::IPosition(3, cell[0], cell[1], n_row), cc::IPosition(3, 2, 3, 7), values);
    put(t, names[0], n_row, cell, model);
    put(t, names[1], n_row, cell, corrected);
}

} // namespace

int hypercolumn_add(const char *path, int64_t n_row, int n_chan, int n_corr, const float *model, const float *corrected)
{
    try {
        add(path, n_row, cc::IPosition(2, n_corr, n_chan), model, corrected);
        return 0;
    } catch (const std::exception &e) {
        std::cerr << path << ": " << e.what() << '\n';
        return 1;
    }
}
