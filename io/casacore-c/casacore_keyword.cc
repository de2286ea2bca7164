/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Keywords of tables and columns, and the coordinates of CASA images, which are records among them. */
#include "casacore_internal.hpp"

#include <casacore/casa/Quanta/Quantum.h>
#include <casacore/casa/Quanta/UnitVal.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

/* ---- Reading and setting of keywords of tables and columns, which may be in nested records ---- */

namespace {

std::string split_last(const std::string &name, std::vector<std::string> &records)
{
    size_t begin = 0;
    for (size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1)
        records.push_back(name.substr(begin, dot - begin));
    return name.substr(begin);
}

[[noreturn]] void no_keyword(const ccc_table *t, const char *column, const char *name)
{
    throw Failure(CCC_ENOTFOUND,
                  t->path + (column ? std::string(": column ") + column : "") + ": has no keyword " + name);
}

/* Keywords belong to the table, so they stay valid after the column object is destroyed. */
const cc::TableRecord &keywords_of(const ccc_table *t, const char *column)
{
    if (!column) return t->table.keywordSet();
    require_column(t, column);
    const cc::TableColumn c(t->table, column);
    return c.keywordSet();
}

template <class F> void with_keyword(const ccc_table *t, const char *column, const char *name, F &&f)
{
    std::vector<std::string> records;
    const std::string last = split_last(name, records);
    const cc::TableRecord *r = &keywords_of(t, column);
    for (const auto &record : records) {
        if (!r->isDefined(record) || r->dataType(record) != cc::TpRecord) no_keyword(t, column, name);
        r = &r->subRecord(record);
    }
    if (!r->isDefined(last)) no_keyword(t, column, name);
    f(*r, last);
}

template <class F> void with_new_keyword(ccc_table *t, const char *column, const char *name, F &&f)
{
    require_writable(t);
    std::vector<std::string> records;
    const std::string last = split_last(name, records);
    if (column) require_column(t, column);
    cc::TableColumn c;
    if (column) c.reference(cc::TableColumn(t->table, column));
    cc::TableRecord *r = column ? &c.rwKeywordSet() : &t->table.rwKeywordSet();
    for (const auto &record : records) {
        if (r->isDefined(record) && r->dataType(record) != cc::TpRecord)
            throw Failure(CCC_ETYPE, t->path + ": keyword " + record + " is not a record");
        if (!r->isDefined(record)) r->defineRecord(record, cc::TableRecord());
        r = &r->rwSubRecord(record);
    }
    if (r->isDefined(last)) r->removeField(last);
    f(*r, last);
}

[[noreturn]] void wrong_keyword(const ccc_table *t, const char *name, const char *wanted)
{
    throw Failure(CCC_ETYPE, t->path + ": keyword " + name + " is not " + wanted);
}

} // namespace

int ccc_keyword_names(ccc_table *t, const char *column, char ***names, int64_t *n)
{
    return guarded(t, column, [&] {
        const cc::TableRecord &r = keywords_of(t, column);
        std::vector<std::string> list;
        for (cc::uInt i = 0; i < r.nfields(); i++) list.push_back(r.name(i));
        *names = block_of(list);
        *n = static_cast<int64_t>(list.size());
    });
}

int ccc_keyword_type(ccc_table *t, const char *column, const char *name, ccc_type *type, int64_t *n)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            *type = type_of(r.dataType(field));
            if (!n) return;
            if (r.dataType(field) == cc::TpRecord)
                *n = static_cast<int64_t>(r.subRecord(field).nfields());
            else
                *n = *type == CCC_OTHER ? 1 : static_cast<int64_t>(r.shape(field).product());
        });
    });
}

int ccc_keyword_get_string(ccc_table *t, const char *column, const char *name, char **out)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            if (r.dataType(field) != cc::TpString) wrong_keyword(t, name, "a string");
            *out = copy_of(r.asString(field));
        });
    });
}

int ccc_keyword_get_strings(ccc_table *t, const char *column, const char *name, char ***out, int64_t *n)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            std::vector<std::string> list;
            if (r.dataType(field) == cc::TpString)
                list.push_back(r.asString(field));
            else if (r.dataType(field) == cc::TpArrayString)
                list = strings_in(r.asArrayString(field));
            else
                wrong_keyword(t, name, "strings");
            *out = block_of(list);
            *n = static_cast<int64_t>(list.size());
        });
    });
}

int ccc_column_factor(ccc_table *t, const char *column, const char *unit, double *factor)
{
    *factor = 1;
    return guarded(t, column, [&] {
        const cc::TableRecord &r = keywords_of(t, column);
        std::vector<std::string> units;
        if (!r.isDefined("QuantumUnits")) return;
        if (r.dataType("QuantumUnits") == cc::TpString) units.push_back(r.asString("QuantumUnits"));
        if (r.dataType("QuantumUnits") == cc::TpArrayString) units = strings_in(r.asArrayString("QuantumUnits"));
        const std::string where = t->path + ": column " + column + " is in ";
        for (size_t i = 0; i < units.size(); i++) {
            if (units[i] != units[0]) throw Failure(CCC_EFAILED, where + units[0] + " and " + units[i]);
            if (units[i].find_first_not_of(' ') == std::string::npos) continue;
            cc::String name(units[i]);
            if (!cc::UnitVal::check(name)) throw Failure(CCC_EFAILED, where + units[i] + ", which is no known unit");
            const cc::Quantity one(1, name);
            if (!one.isConform(cc::Unit(unit)))
                throw Failure(CCC_EFAILED, where + units[i] + ", which is not converted to " + unit);
            *factor = one.getValue(cc::Unit(unit));
        }
    });
}

int ccc_keyword_get_double(ccc_table *t, const char *column, const char *name, double *out)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            const ccc_type type = type_of(r.dataType(field));
            if (!cc::isScalar(r.dataType(field)) || type < CCC_UINT8 || type > CCC_DOUBLE)
                wrong_keyword(t, name, "a number");
            *out = r.asDouble(field);
        });
    });
}

int ccc_keyword_get_int(ccc_table *t, const char *column, const char *name, int64_t *out)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            const ccc_type type = type_of(r.dataType(field));
            if (!cc::isScalar(r.dataType(field)) || type > CCC_INT64) wrong_keyword(t, name, "an integer");
            *out = type == CCC_BOOL ? r.asBool(field) : r.asInt64(field);
        });
    });
}

int ccc_keyword_get_ints(ccc_table *t, const char *column, const char *name, int64_t **out, int64_t *n)
{
    *out = nullptr;
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [&](const cc::TableRecord &r, const std::string &field) {
            const cc::DataType type = r.dataType(field);
            if (type != cc::TpArrayInt && type != cc::TpArrayUInt) wrong_keyword(t, name, "an array of integers");
            std::vector<int64_t> list;
            if (type == cc::TpArrayInt)
                for (const auto v : r.asArrayInt(field)) list.push_back(v);
            else
                for (const auto v : r.asArrayuInt(field)) list.push_back(v);
            *out = array_of(list);
            *n = static_cast<int64_t>(list.size());
        });
    });
}

int ccc_keyword_put_string(ccc_table *t, const char *column, const char *name, const char *value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name,
                         [&](cc::TableRecord &r, const std::string &field) { r.define(field, cc::String(value)); });
    });
}

int ccc_keyword_put_strings(ccc_table *t, const char *column, const char *name, const char *const *values, int64_t n)
{
    return guarded(t, column, [&] {
        cc::Vector<cc::String> list(n);
        for (int64_t i = 0; i < n; i++) list[i] = values[i];
        with_new_keyword(t, column, name, [&](cc::TableRecord &r, const std::string &field) { r.define(field, list); });
    });
}

int ccc_keyword_put_double(ccc_table *t, const char *column, const char *name, double value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name,
                         [&](cc::TableRecord &r, const std::string &field) { r.define(field, value); });
    });
}

int ccc_keyword_put_int(ccc_table *t, const char *column, const char *name, int32_t value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name, [&](cc::TableRecord &r, const std::string &field) {
            r.define(field, static_cast<cc::Int>(value));
        });
    });
}

int ccc_keyword_put_bool(ccc_table *t, const char *column, const char *name, int value)
{
    return guarded(t, column, [&] {
        with_new_keyword(t, column, name, [&](cc::TableRecord &r, const std::string &field) {
            r.define(field, static_cast<cc::Bool>(value != 0));
        });
    });
}

int ccc_keyword_copy(ccc_table *t, const char *from_column, const char *to_column)
{
    return guarded(t, to_column, [&] {
        require_writable(t);
        require_column(t, to_column);
        cc::TableColumn to(t->table, to_column);
        to.rwKeywordSet().merge(keywords_of(t, from_column), cc::RecordInterface::OverwriteDuplicates);
    });
}

int ccc_keyword_remove(ccc_table *t, const char *column, const char *name)
{
    return guarded(t, column, [&] {
        with_keyword(t, column, name, [](const cc::TableRecord &, const std::string &) {});
        with_new_keyword(t, column, name, [](cc::TableRecord &, const std::string &) {});
    });
}

/* ---- CASA images are tables of one cell, `map`, whose coordinates are records among the keywords ---- */

namespace {

[[noreturn]] void no_direction(const ccc_table *t, const char *why)
{
    throw Failure(CCC_ENOTFOUND, t->path + ": " + why);
}

std::vector<double> doubles(const cc::TableRecord &r, const char *name, size_t n)
{
    const cc::Array<cc::Double> a = r.toArrayDouble(name);
    std::vector<double> values(a.begin(), a.end());
    if (n && values.size() != n)
        throw Failure(CCC_ESHAPE, std::string(name) + " does not have " + std::to_string(n) + " values");
    return values;
}

/* Coordinates are numbered. The pixel axes of coordinate N are in pixelmapN. */
const cc::TableRecord &direction_of(const ccc_table *t)
{
    const cc::TableRecord &keywords = t->table.keywordSet();
    if (!keywords.isDefined("coords") || keywords.dataType("coords") != cc::TpRecord)
        no_direction(t, "not a CASA image: the table has no keyword coords");
    const cc::TableRecord &coords = keywords.subRecord("coords");
    for (int i = 0; i < CCC_MAX_DIM; i++) {
        const std::string number = std::to_string(i), name = "direction" + number, map = "pixelmap" + number;
        if (!coords.isDefined(name)) continue;
        if (coords.isDefined(map)) {
            const std::vector<double> axes = doubles(coords, map.c_str(), 0);
            if (axes.size() != 2 || axes[0] != 0 || axes[1] != 1)
                no_direction(t, "the first two axes of the image are not those of the sky");
        }
        return coords.subRecord(name);
    }
    no_direction(t, "the image has no coordinates on the sky");
}

void copy_word(char *to, size_t size, const cc::String &word)
{
    if (word.size() >= size) throw Failure(CCC_EFAILED, "coordinates of an unknown kind: " + word.substr(0, 40));
    std::memcpy(to, word.c_str(), word.size() + 1);
}

} // namespace

int ccc_image_direction(ccc_table *t, ccc_image_axes *out)
{
    return guarded(t, nullptr, [&] {
        const cc::TableRecord &d = direction_of(t);
        *out = ccc_image_axes();
        copy_word(out->system, sizeof out->system, d.asString("system"));
        copy_word(out->projection, sizeof out->projection, d.asString("projection"));
        const cc::Array<cc::String> units = d.toArrayString("units");
        const std::vector<cc::String> unit(units.begin(), units.end());
        const std::vector<double> crval = doubles(d, "crval", 2), cdelt = doubles(d, "cdelt", 2),
                                  crpix = doubles(d, "crpix", 2), pc = doubles(d, "pc", 4),
                                  parameter = doubles(d, "projection_parameters", 0);
        if (unit.size() != 2 || parameter.size() > CCC_IMAGE_PARAMETERS)
            throw Failure(CCC_ESHAPE, "coordinates of an unknown kind");
        for (size_t i = 0; i < 2; i++) {
            const double degrees = cc::Quantity(1, unit[i]).getValue("deg");
            out->crval_deg[i] = crval[i] * degrees;
            out->cdelt_deg[i] = cdelt[i] * degrees;
            out->crpix[i] = crpix[i];
            /* casacore writes PCi_j with j fastest. */
            for (size_t j = 0; j < 2; j++) out->pc[i][j] = pc[2 * i + j];
        }
        out->lonpole_deg = d.isDefined("longpole") ? d.asDouble("longpole") : std::numeric_limits<double>::quiet_NaN();
        out->latpole_deg = d.isDefined("latpole") ? d.asDouble("latpole") : std::numeric_limits<double>::quiet_NaN();
        out->n_parameter = static_cast<int>(parameter.size());
        std::copy(parameter.begin(), parameter.end(), out->parameter);
    });
}
