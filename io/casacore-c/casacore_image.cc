/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CASA images are tables of one cell, `map`, whose coordinates are records among the keywords. */
#include "casacore_internal.hpp"

#include <casacore/casa/Quanta/Quantum.h>
#include <casacore/tables/Tables/TableRecord.h>

using namespace ccc;

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
        throw Failure(CCC_ESHAPE, std::string(name) + " has not " + std::to_string(n) + " values");
    return values;
}

/* Coordinates are numbered; the pixel axes of coordinate N are pixelmapN. */
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
