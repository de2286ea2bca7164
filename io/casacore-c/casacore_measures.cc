/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Measures: directions, times and frequencies between reference frames. */
#include "casacore_internal.hpp"

#include <casacore/casa/Quanta/MVDirection.h>
#include <casacore/casa/Quanta/MVPosition.h>
#include <casacore/measures/Measures/MCDirection.h>
#include <casacore/measures/Measures/MCEpoch.h>
#include <casacore/measures/Measures/MCFrequency.h>
#include <casacore/measures/Measures/MDirection.h>
#include <casacore/measures/Measures/MEpoch.h>
#include <casacore/measures/Measures/MFrequency.h>
#include <casacore/measures/Measures/MPosition.h>
#include <casacore/measures/Measures/MeasConvert.h>
#include <casacore/measures/Measures/MeasFrame.h>

using namespace ccc;

/* ---- Conversion of directions between reference frames, and of times between scales ---- */

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

/* ---- Ratios of frequencies between reference frames ---- */

namespace {

cc::MFrequency::Types spectral_frame_of(const char *name)
{
    cc::MFrequency::Types type;
    if (!name || !cc::MFrequency::getType(type, name))
        throw Failure(CCC_EARGUMENT, std::string("unknown frame of frequencies '") + (name ? name : "") + "'");
    return type;
}

} // namespace

int ccc_frequency_ratios(const char *from, const char *to, const ccc_observer *o, int64_t n, const double *mjd_s,
                         double *ratio)
{
    return guarded("frequency", [&] {
        const cc::MFrequency::Types source = spectral_frame_of(from), target = spectral_frame_of(to);
        cc::MEpoch::Types scale;
        cc::MDirection::Types frame;
        if (!cc::MEpoch::getType(scale, o->time_scale))
            throw Failure(CCC_EARGUMENT, std::string("unknown time scale ") + o->time_scale);
        if (!cc::MDirection::getType(frame, o->direction_frame))
            throw Failure(CCC_EARGUMENT, std::string("unknown direction frame ") + o->direction_frame);
        const cc::MDirection direction =
            frame >= cc::MDirection::MERCURY && frame < cc::MDirection::N_Planets
                ? cc::MDirection(cc::MDirection::Ref(frame))
                : cc::MDirection(cc::MVDirection(o->lon_rad, o->lat_rad), cc::MDirection::Ref(frame));
        cc::MeasFrame where(
            cc::MEpoch(cc::MVEpoch(0.0), scale),
            cc::MPosition(cc::MVPosition(o->itrf_m[0], o->itrf_m[1], o->itrf_m[2]), cc::MPosition::ITRF), direction);
        cc::MFrequency::Convert convert(cc::MFrequency::Ref(source, where), cc::MFrequency::Ref(target, where));
        const double unit = 1e9;
        for (int64_t i = 0; i < n; i++) {
            where.set(cc::MEpoch(cc::MVEpoch(cc::Quantity(mjd_s[i], "s")), scale));
            ratio[i] = convert(unit).getValue().getValue() / unit;
        }
    });
}
