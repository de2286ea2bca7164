# SPDX-License-Identifier: GPL-3.0-or-later
"""Primary beams of the packages everybeam and mwa_hyperbeam, as files of `msimage -apply-primary-beam -reuse-primary-beam`.

    python -m msimage.beam SET -name NAME -size 1024 1024 -scale 1amin [-channels-out 4] [-mwa-path FILE]

writes NAME-beam-0.fits and NAME-beam-15.fits, the power of both feeds as a mean over times, stations and channels; with
-channels-out NAME-0000-beam-0.fits and so on. MWA: full embedded elements by mwa_hyperbeam, with the file
mwa_full_embedded_element_pattern.h5. LOFAR, OSKAR and SKA-Low: everybeam. Give msimage the same set, size and scale."""
import argparse
import importlib
import os
import sys

import numpy as np

NODES = 128  # at most, along an axis; the beam is linear between them


class Refusal(Exception):
    """What is wrong, in a line."""


def _needed(module, package, what):
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise Refusal("%s needs the Python package %s (%s): pip install %s" % (what, package, e, package)) from e


def _angle(text):
    """Radians of a number with a unit; degrees without."""
    for unit, degrees in ("asec", 1 / 3600), ("amin", 1 / 60), ("mas", 1 / 3.6e6), ("deg", 1), ("rad", 180 / np.pi), ("", 1):
        if text.endswith(unit):
            try:
                value = np.radians(float(text[:len(text) - len(unit)]) * degrees)
            except ValueError:
                continue
            if 0 < value < 1:
                return value
    raise argparse.ArgumentTypeError("%s: give an angle such as 10asec, 2amin or 0.01 (degrees)" % text)


class Set:
    """What the beam depends on."""

    def __init__(self, path):
        tables = _needed("casacore.tables", "python-casacore", "reading a set")

        def column(name, of):
            try:
                with tables.table(os.path.join(path, of) if of else path, ack=False) as t:
                    return t.getcol(name)
            except RuntimeError as e:
                raise Refusal("%s: %s" % (path, str(e).splitlines()[0])) from e
        self.path = path
        self.telescope = column("TELESCOPE_NAME", "OBSERVATION")[0]
        self.time, self.rows = np.unique(column("TIME", ""), return_counts=True)
        field = np.unique(column("FIELD_ID", ""))
        if len(field) > 1:
            raise Refusal("%s: has %d fields; split the one to image" % (path, len(field)))
        self.ra, self.dec = column("PHASE_DIR", "FIELD")[field[0]].ravel()[:2]
        self.freq = np.sort(column("CHAN_FREQ", "SPECTRAL_WINDOW").ravel())
        self.position = column("POSITION", "ANTENNA").mean(axis=0)
        self.delays = column("DELAYS", "MWA_TILE_POINTING")[0] if self.telescope == "MWA" else None

    def slots(self, seconds):
        """Times and shares of the rows, one for each slot."""
        slot = np.floor((self.time - self.time[0]) / seconds).astype(int)
        for k in np.unique(slot):
            rows = self.rows[slot == k]
            yield np.average(self.time[slot == k], weights=rows), rows.sum() / self.rows.sum()


def _directions(of, n, cell):
    """Right ascensions and declinations of a grid of nodes, [ny][nx]; NaN beyond the horizon of the projection."""
    y, x = np.meshgrid(*((np.arange(k) - k / 2) * c for k, c in zip(n[::-1], cell[::-1])), indexing="ij")
    left, up = -x, y
    with np.errstate(invalid="ignore"):
        inward = np.sqrt(1 - left**2 - up**2)
    return (of.ra + np.arctan2(left, inward * np.cos(of.dec) - up * np.sin(of.dec)),
            np.arcsin(up * np.cos(of.dec) + inward * np.sin(of.dec)))


class Tiles:
    """MWA: one tile stands for all."""

    def __init__(self, of, path):
        hyperbeam = _needed("mwa_hyperbeam", "mwa_hyperbeam", "the beam of the MWA")
        self.coordinates = _needed("astropy.coordinates", "astropy", "the beam of the MWA")
        path = path or os.environ.get("MWA_BEAM_FILE", "")
        if os.path.isdir(path):
            path = os.path.join(path, "mwa_full_embedded_element_pattern.h5")
        if not os.path.isfile(path):
            raise Refusal("'%s': no such file; give -mwa-path with mwa_full_embedded_element_pattern.h5, or image with -pb "
                          "mwa-analytic, which needs none" % path)
        self.of, self.beam = of, hyperbeam.FEEBeam(path)

    def power(self, time_s, hz, ra, dec):
        from astropy.time import Time
        from astropy.utils import iers
        iers.conf.auto_download = False
        site = self.coordinates.EarthLocation.from_geocentric(*self.of.position, unit="m")
        seen = ~np.isnan(ra)
        sky = self.coordinates.SkyCoord(ra[seen], dec[seen], unit="rad", frame="fk5")
        local = sky.transform_to(self.coordinates.AltAz(obstime=Time(time_s / 86400, format="mjd"), location=site))
        delays = np.asarray(self.of.delays, dtype=int)
        jones = self.beam.calc_jones_array(local.az.rad, np.pi / 2 - local.alt.rad, int(hz), np.where(delays > 31, 0, delays),
                                           (delays < 32).astype(float), True)
        out = np.full((2, *ra.shape), np.nan)
        out[:, seen] = (np.abs(jones.reshape(-1, 2, 2))**2).sum(axis=2).T * (local.alt.rad > 0)
        return out


class Stations:
    """Stations of everybeam: the mean over baselines, all alike."""

    def __init__(self, of):
        self.everybeam = _needed("everybeam", "everybeam", "the beam of %s" % of.telescope)
        data = os.path.join(sys.prefix, "share", "everybeam")
        if os.path.isdir(data):
            os.environ.setdefault("EVERYBEAM_DATADIR", data)
        try:
            self.beam = self.everybeam.load_telescope(of.path)
        except RuntimeError as e:
            raise Refusal("%s: everybeam has no beam of %s: %s" % (of.path, of.telescope, str(e).splitlines()[0])) from e
        if not hasattr(self.beam, "station_response"):
            raise Refusal("%s: the beam of %s is computed by msimage itself, see -pb" % (of.path, of.telescope))

    def power(self, time_s, hz, ra, dec):
        out = np.full((2, *ra.shape), np.nan)
        n = self.beam.nr_stations
        for at in zip(*np.nonzero(~np.isnan(ra))):
            jones = np.array([self.beam.station_response(time_s, k, hz, ra[at], dec[at]) for k in range(n)])
            # The sum over pairs of different stations is the product of sums less that of each with itself.
            all_pairs = (np.abs(jones.sum(axis=0))**2 - (np.abs(jones)**2).sum(axis=0)) / (n * (n - 1)) if n > 1 else np.abs(jones[0])**2
            out[(slice(None), *at)] = all_pairs.sum(axis=1)
        return out


def _enlarge(nodes, n):
    """Interpolate linearly to [ny][nx] pixels."""
    for axis, pixels in ((0, n[1]), (1, n[0])):
        at = np.arange(pixels) * nodes.shape[axis] / pixels
        low = np.minimum(at.astype(int), nodes.shape[axis] - 2)
        part = np.expand_dims(at - low, 1 - axis)
        nodes = (1 - part) * np.take(nodes, low, axis=axis) + part * np.take(nodes, low + 1, axis=axis)
    return nodes


def write(of, source, options):
    """Write the files of all output channels."""
    fits = _needed("astropy.io.fits", "astropy", "writing FITS files")
    n, cell = options.size, options.scale
    nodes = [min(k, options.nodes) for k in n]
    ra, dec = _directions(of, nodes, [k * cell / m for k, m in zip(n, nodes)])
    parts = np.array_split(of.freq, options.channels_out)
    for c, part in enumerate(parts):
        mean = sum(share * source.power(when, part.mean(), ra, dec) for when, share in of.slots(options.slot))
        for feed, number in enumerate((0, 15)):
            hdu = fits.PrimaryHDU(_enlarge(mean[feed], n)[None, None].astype(np.float32))
            for i, (kind, value, step, unit) in enumerate((("RA---SIN", np.degrees(of.ra), -np.degrees(cell), "deg"),
                                                           ("DEC--SIN", np.degrees(of.dec), np.degrees(cell), "deg"),
                                                           ("FREQ", part.mean(), 1.0, "Hz"), ("STOKES", 1.0, 1.0, "")), 1):
                hdu.header.update({"CTYPE%d" % i: kind, "CRVAL%d" % i: value, "CDELT%d" % i: step,
                                   "CRPIX%d" % i: n[i - 1] // 2 + 1 if i < 3 else 1, "CUNIT%d" % i: unit})
            hdu.header["RADESYS"], hdu.header["TELESCOP"] = "FK5", of.telescope
            hdu.header["PBMODEL"] = "power of the feeds"
            channel = "-%04d" % c if options.channels_out > 1 else ""
            hdu.writeto("%s%s-beam-%d.fits" % (options.name, channel, number), overwrite=True)


def main(words=None):
    """Run the command line. Returns its exit code: 0, or 3 with a line."""
    parser = argparse.ArgumentParser(prog="python -m msimage.beam", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("set")
    parser.add_argument("-name", required=True)
    parser.add_argument("-size", type=int, nargs=2, required=True, metavar=("NX", "NY"))
    parser.add_argument("-scale", type=_angle, required=True, help="angle of a pixel, such as 10asec")
    parser.add_argument("-channels-out", type=int, default=1)
    parser.add_argument("-slot", type=float, default=1800, help="seconds between times (1800)")
    parser.add_argument("-nodes", type=int, default=NODES, help="along an axis, between which the beam is linear (%d)" % NODES)
    parser.add_argument("-mwa-path", help="mwa_full_embedded_element_pattern.h5, or its folder")
    options = parser.parse_args(words)
    if min(*options.size, options.channels_out, options.nodes - 1) < 1 or not options.slot > 0:
        parser.error("-size, -channels-out, -nodes and -slot must be positive")
    try:
        of = Set(options.set)
        write(of, Tiles(of, options.mwa_path) if of.telescope == "MWA" else Stations(of), options)
    except Refusal as e:
        print("msimage.beam: error: %s" % e, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
