/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conversion of directions between reference frames, and of times between scales. */
#include "casacore_internal.hpp"

#include <casacore/casa/Quanta/MVDirection.h>
#include <casacore/casa/Quanta/MVPosition.h>
#include <casacore/measures/Measures/MCDirection.h>
#include <casacore/measures/Measures/MCEpoch.h>
#include <casacore/measures/Measures/MDirection.h>
#include <casacore/measures/Measures/MEpoch.h>
#include <casacore/measures/Measures/MPosition.h>
#include <casacore/measures/Measures/MeasConvert.h>
#include <casacore/measures/Measures/MeasFrame.h>

using namespace ccc;

namespace {

cc::MDirection::Types frame_of(const char *name)
{
    cc::MDirection::Types type;
    if (!name || !cc::MDirection::getType(type, name))
        throw Failure(CCC_EARGUMENT, std::string("unknown direction frame ") + (name ? name : "(null)"));
    return type;
}

cc::MEpoch::Types scale_of(const char *name)
{
    cc::MEpoch::Types type;
    if (!name || !cc::MEpoch::getType(type, name))
        throw Failure(CCC_EARGUMENT, std::string("unknown time scale ") + (name ? name : "(null)"));
    return type;
}

} // namespace

int ccc_epoch_convert(const char *from, const char *to, double *mjd_s)
{
    return guarded("time", [&] {
        const cc::MVEpoch time(cc::Quantity(*mjd_s, "s"));
        *mjd_s = cc::MEpoch::Convert(cc::MEpoch(time, scale_of(from)), cc::MEpoch::Ref(scale_of(to)))()
                     .getValue()
                     .getTime("s")
                     .getValue();
    });
}

int ccc_direction_convert(const char *from, const char *to, double mjd_s, const double *itrf_m, double *lon_rad,
                          double *lat_rad)
{
    return guarded("direction", [&] {
        const cc::MDirection::Types source = frame_of(from), target = frame_of(to);
        cc::MeasFrame frame(cc::MEpoch(cc::MVEpoch(cc::Quantity(mjd_s, "s")), cc::MEpoch::UTC));
        if (itrf_m) frame.set(cc::MPosition(cc::MVPosition(itrf_m[0], itrf_m[1], itrf_m[2]), cc::MPosition::ITRF));
        const cc::MDirection direction =
            source >= cc::MDirection::MERCURY && source < cc::MDirection::N_Planets
                ? cc::MDirection(cc::MDirection::Ref(source))
                : cc::MDirection(cc::MVDirection(*lon_rad, *lat_rad), cc::MDirection::Ref(source));
        const cc::MVDirection result =
            cc::MDirection::Convert(direction, cc::MDirection::Ref(target, frame))().getValue();
        *lon_rad = result.getLong();
        if (*lon_rad < 0) *lon_rad += 2 * cc::C::pi;
        *lat_rad = result.getLat();
    });
}
