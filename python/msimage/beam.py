# SPDX-License-Identifier: GPL-3.0-or-later
"""Primary beams of the packages everybeam and mwa_hyperbeam, as a file of Jones matrices for `msimage -pb FILE.fits`.

    python -m msimage.beam SET -name FILE.fits -size 1024 1024 -scale 1amin [-mwa-path FILE]

writes the Jones matrix of each station by direction, frequency and time; if all stations are alike, of one. For the MWA
mwa_hyperbeam computes full embedded elements from the file mwa_full_embedded_element_pattern.h5. For LOFAR, OSKAR and SKA-Low
everybeam computes them. -size, -scale and -shift are the options of the images."""
import argparse
import importlib
import os
import sys

import numpy as np

EXTENT = 1.25  # width of the file divided by that of the images
NODES = 48  # along an axis; msimage interpolates between them with cubics
FREQUENCY_STEP = 0.02  # at most, as a fraction of the frequency; msimage interpolates linearly in frequency and time


class Refusal(Exception):
    """An error of the user, whose message is one line."""


def _needed(module, package, what):
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise Refusal("%s needs the Python package %s (%s): pip install %s" % (what, package, e, package)) from e


def _angle(text):
    """Parse an angle with a unit, by default degrees. Returns radians."""
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
    """The columns of a Measurement Set on which the beam depends."""

    def __init__(self, path):
        tables = _needed("casacore.tables", "python-casacore", "reading a set")

        def column(name, of):
            try:
                with tables.table(os.path.join(path, of) if of else path, ack=False) as t:
                    return t.getcol(name)
            except RuntimeError as e:
                raise Refusal("%s: %s" % (path, str(e).splitlines()[0])) from e
        self.path = path
        self.telescope = column("TELESCOPE_NAME", "OBSERVATION")[0].strip()
        self.time = np.unique(column("TIME", ""))
        field = np.unique(column("FIELD_ID", ""))
        if len(field) != 1:
            raise Refusal("%s: its rows are of %d fields; split the one to image" % (path, len(field)))
        self.ra, self.dec = column("PHASE_DIR", "FIELD")[field[0]].ravel()[:2]
        self.freq = column("CHAN_FREQ", "SPECTRAL_WINDOW").ravel()
        self.width = np.abs(column("CHAN_WIDTH", "SPECTRAL_WINDOW")).max()
        self.position = column("POSITION", "ANTENNA").mean(axis=0)
        self.is_mwa = self.telescope.upper() == "MWA"
        delays = column("DELAYS", "MWA_TILE_POINTING") if self.is_mwa else [None]
        if len(delays) > 1 and np.ptp(delays, axis=0).any():
            raise Refusal("%s: MWA_TILE_POINTING has %d pointings; split the set by time" % (path, len(delays)))
        self.delays = delays[0]


MOST_STEPS = 100000


def _steps(low, high, most, alone):
    """Return positions from low to high with steps of at most `most`, and the step; the step of a single position is `alone`."""
    n = int(min(np.ceil((high - low) / most * (1 - 1e-9)), MOST_STEPS)) + 1
    return np.linspace(low, high, n), (high - low) / (n - 1) if n > 1 else alone


class Grid:
    """The nodes: a grid in the SIN projection at the centre of the image."""

    def __init__(self, centre, options):
        self.ra, self.dec = centre
        self.n = [min(k, options.nodes) for k in options.size]
        self.cell = [EXTENT * k * options.scale / (m - 1) for k, m in zip(options.size, self.n)]

    def directions(self):
        """Return right ascensions and declinations [ny][nx]; NaN beyond the horizon of the projection."""
        y, x = np.meshgrid(*((np.arange(k) - (k - 1) / 2) * c for k, c in zip(self.n[::-1], self.cell[::-1])), indexing="ij")
        left, up = -x, y
        with np.errstate(invalid="ignore"):
            inward = np.sqrt(1 - left**2 - up**2)
        return (self.ra + np.arctan2(left, inward * np.cos(self.dec) - up * np.sin(self.dec)),
                np.arcsin(up * np.cos(self.dec) + inward * np.sin(self.dec)))


class Tiles:
    """The MWA, whose tiles are all alike."""
    slot = 120  # seconds; the sky moves through the beam
    stations = [0]

    def __init__(self, of, path):
        hyperbeam = _needed("mwa_hyperbeam", "mwa_hyperbeam", "the beam of the MWA")
        self.coordinates = _needed("astropy.coordinates", "astropy", "the beam of the MWA")
        path = path or os.environ.get("MWA_BEAM_FILE", "")
        if os.path.isdir(path):
            path = os.path.join(path, "mwa_full_embedded_element_pattern.h5")
        if not os.path.isfile(path):
            raise Refusal("'%s': no such file; give -mwa-path with mwa_full_embedded_element_pattern.h5, or image with -pb "
                          "mwa-analytic, which needs none" % path)
        try:
            self.of, self.beam = of, hyperbeam.FEEBeam(path)
        except hyperbeam.HyperbeamError as e:
            raise Refusal("%s: mwa_hyperbeam cannot read it: %s" % (path, e)) from e

    def jones(self, _, time_s, hz, grid):
        """Jones matrices [ny][nx][feed][north, east]."""
        from astropy.time import Time
        from astropy.utils import iers
        iers.conf.auto_download = False
        ra, dec = grid.directions()
        seen = ~np.isnan(ra)
        site = self.coordinates.EarthLocation.from_geocentric(*self.of.position, unit="m")
        horizon = self.coordinates.AltAz(obstime=Time(time_s / 86400, format="mjd"), location=site)
        local = self.coordinates.SkyCoord(ra[seen], dec[seen], unit="rad", frame="fk5").transform_to(horizon)
        up = self.coordinates.SkyCoord(0, 90, unit="deg", frame=horizon).transform_to("fk5")
        delays = np.asarray(self.of.delays, dtype=int)
        j = self.beam.calc_jones_array(local.az.rad, np.pi / 2 - local.alt.rad, int(hz), np.where(delays > 31, 0, delays),
                                       (delays < 32).astype(float), True)
        theta, phi = np.moveaxis(np.asarray(j).reshape(-1, 2, 2), 2, 0) * (local.alt.rad > 0)[:, None]
        # q is the angle from north through east to the zenith. theta increases from the zenith down; phi increases with the
        # azimuth, which is to the west for a direction south of the zenith.
        away = up.ra.rad - ra[seen]
        q = np.arctan2(np.cos(up.dec.rad) * np.sin(away),
                       np.sin(up.dec.rad) * np.cos(dec[seen]) - np.cos(up.dec.rad) * np.sin(dec[seen]) * np.cos(away))[:, None]
        out = np.zeros((*ra.shape, 2, 2), complex)
        out[seen] = np.stack([-theta * np.cos(q) + phi * np.sin(q), -theta * np.sin(q) - phi * np.cos(q)], axis=2)
        return out


class Stations:
    """The stations of a telescope of everybeam."""
    slot = 600  # seconds; stations follow the sky

    def __init__(self, of):
        self.everybeam = _needed("everybeam", "everybeam", "the beam of %s" % of.telescope)
        # The path inside the wheel is a path on the machine that built it.
        for prefix in sys.prefix, os.path.join(os.path.dirname(os.path.realpath(self.everybeam.__file__)), "../../.."):
            if os.path.isdir(os.path.join(prefix, "share/everybeam")):
                os.environ.setdefault("EVERYBEAM_DATADIR", os.path.join(prefix, "share/everybeam"))
        self.path = of.path
        try:
            self.beam = self.everybeam.load_telescope(of.path)
        except RuntimeError as e:
            raise Refusal("%s: everybeam has no beam of %s: %s" % (of.path, of.telescope, str(e).splitlines()[0])) from e
        if not hasattr(self.beam, "station_response"):
            raise Refusal("%s: the beam of %s is computed by msimage itself, see -pb" % (of.path, of.telescope))
        self.stations = range(self.beam.nr_stations)

    def jones(self, station, time_s, hz, grid):
        """Jones matrices [ny][nx][feed][north, east]."""
        view = self.everybeam.GridSettings()
        view.ra, view.dec, (view.width, view.height), (view.dl, view.dm) = grid.ra, grid.dec, grid.n, grid.cell
        # The centre is pixel n / 2 of everybeam's grid, but (n - 1) / 2 of these nodes.
        view.l_shift, view.m_shift = ((m / 2 - (m - 1) / 2) * c * sign for m, c, sign in zip(grid.n, grid.cell, (-1, 1)))
        try:
            return np.nan_to_num(self.beam.gridded_response(view, time_s, hz, station))
        except RuntimeError as e:
            hint = ("; give everybeam casacore's tables of measures: a file ~/.casarc with the line 'measures.directory: FOLDER', such as "
                    "/usr/share/casacore/data" if "Meas" in str(e) else "")
            raise Refusal("%s: everybeam: %s%s" % (self.path, str(e).split("\t")[-1].strip(), hint)) from e


def write(of, source, options):
    """Write the file. Returns the numbers of stations, times and frequencies."""
    fits = _needed("astropy.io.fits", "astropy", "writing FITS files")
    centre = of.ra, of.dec
    if options.shift:
        angle = _needed("astropy.coordinates", "astropy", "-shift").Angle
        try:
            centre = [angle(text).rad for text in options.shift]
        except ValueError as e:
            raise Refusal("-shift %s %s: %s" % (*options.shift, str(e).splitlines()[0])) from e
    grid = Grid(centre, options)
    times, time_step = _steps(of.time[0], of.time[-1], options.slot or source.slot, options.slot or source.slot)
    freqs, freq_step = _steps(of.freq.min(), of.freq.max(), FREQUENCY_STEP * of.freq.min(), of.width)
    most = 32 * grid.n[0] * grid.n[1] * len(source.stations) * len(times) * len(freqs)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if most > memory / 2 or len(times) > MOST_STEPS:
        raise Refusal("%s: up to %d stations at %d%s times and %d frequencies need %.1f GB, of %.1f in this machine; give a longer -slot, fewer "
                      "-nodes, or a set of a part of the band" % (of.path, len(source.stations), len(times), " or more" * (len(times) > MOST_STEPS),
                                                                  len(freqs), most / 1e9, memory / 1e9))
    first = [source.jones(k, times[0], freqs[0], grid) for k in source.stations]
    apart = max(np.abs(j - first[0]).max() for j in first) / max(np.abs(first[0]).max(), 1e-30)
    stations = list(source.stations) if apart > 1e-5 else [0]
    data = np.empty((len(times), len(freqs), len(stations), 8, *grid.n[::-1]), np.float32)
    for t, f, s in np.ndindex(data.shape[:3]):
        j = np.moveaxis(source.jones(stations[s], times[t], freqs[f], grid).reshape(*grid.n[::-1], 4), 2, 0)
        data[t, f, s, 0::2], data[t, f, s, 1::2] = j.real, j.imag
    hdu = fits.PrimaryHDU(data)
    cards = (("RA---SIN", np.degrees(grid.ra), -np.degrees(grid.cell[0]), "deg"), ("DEC--SIN", np.degrees(grid.dec), np.degrees(grid.cell[1]), "deg"),
             ("MATRIX", 0, 1, ""), ("ANTENNA", 0, 1, ""), ("FREQ", freqs[0], freq_step, "Hz"), ("TIME", times[0], time_step, "s"))
    for i, (kind, value, step, unit) in enumerate(cards, 1):
        hdu.header.update({"CTYPE%d" % i: kind, "CRVAL%d" % i: value, "CDELT%d" % i: step,
                           "CRPIX%d" % i: (grid.n[i - 1] + 1) / 2 if i < 3 else 1, "CUNIT%d" % i: unit})
    hdu.header["RADESYS"], hdu.header["TELESCOP"] = "FK5", of.telescope
    try:
        hdu.writeto(options.name, overwrite=True)
    except OSError as e:
        raise Refusal("%s: %s" % (options.name, e.strerror or e)) from e
    return len(stations), len(times), len(freqs)


def main(words=None):
    """Run the command line. Returns the exit code: 0, or 3 after an error line."""
    parser = argparse.ArgumentParser(prog="python -m msimage.beam", description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("set")
    parser.add_argument("-name", required=True, metavar="FILE.fits")
    parser.add_argument("-size", type=int, nargs=2, required=True, metavar=("NX", "NY"), help="pixels of the images")
    parser.add_argument("-scale", type=_angle, required=True, help="angle of a pixel, such as 10asec")
    parser.add_argument("-shift", nargs=2, metavar=("RA", "DEC"), help="centre of the images, such as 12h30m 40d (the phase centre)")
    parser.add_argument("-slot", type=float, help="seconds between times (MWA %d, others %d)" % (Tiles.slot, Stations.slot))
    parser.add_argument("-nodes", type=int, default=NODES, help="directions along an axis of the images (%d)" % NODES)
    parser.add_argument("-mwa-path", help="mwa_full_embedded_element_pattern.h5, or its folder")
    options = parser.parse_args(words)
    if min(*options.size, options.nodes) < 4 or (options.slot is not None and not options.slot > 0) or not options.name.endswith(".fits"):
        parser.error("-size and -nodes are at least 4, -slot is positive, and -name ends in .fits")
    try:
        of = Set(options.set)
        done = write(of, Tiles(of, options.mwa_path) if of.is_mwa else Stations(of), options)
    except Refusal as e:
        print("msimage.beam: error: %s" % e, file=sys.stderr)
        return 3
    print("%s: %d station(s), %d time(s), %d frequencies" % (options.name, *done))
    return 0


if __name__ == "__main__":
    sys.exit(main())
