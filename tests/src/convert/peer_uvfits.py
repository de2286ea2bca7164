#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_uvfits.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: CASA and pyuvdata read the UVFITS that is written here, and what they write
becomes a set: visibilities, weights, flags, u, v, w, frequencies and times are held against each other one by one.

Each is looked for among the modules of this Python and of those that MSIMAGE_PEER_PYTHON names, separated by colons, as both
mostly live in separate environments. A check without its peer says so; without any the test is skipped."""
import subprocess
import sys

import numpy as np
from casacore.tables import table

from convert_oracle import Convert, Rows, peak
from program_suite import GUARD_S, fresh_copy, main, python_with
from uv_compare import FLOAT, compare, sorted_rows
from uv_files import Parts

VLA = ["-telescope", "vla", "-config", "D", "-ra", "60deg", "-dec", "44deg", "-integration", "10s", "-duration", "40s"]
BANDS = ["-spw", "1.4GHz", "1MHz", 6, "-spw", "1.5GHz", "1MHz", 6]
BAD = ["-flags", 0.2, "-flag-rows", 0.1, "-noise", "1Jy", "-weights", "radiometer"]
SOURCE = ["-source", "60.1deg", "44.05deg", "1Jy"]
IMAGE = ["-size", 128, 128, "-scale", "15asec"]

# CASA writes the fraction of the day as one float32, with a rounding error of 2^-25 of a day.
CASA_DATE_S = 86400 * 2.0**-25
# pyuvdata has Julian dates in double precision, with a rounding error of 2^-32 of a day.
JULIAN_S = 86400 * 2.0**-32 + 2e-6

PYUVDATA = """
import sys, warnings, numpy as np
warnings.simplefilter("ignore")
from pyuvdata import UVData
u = UVData()
u.read(sys.argv[1], file_type="uvfits", fix_autos=False)
np.savez(sys.argv[2], time=u.time_array, first=u.ant_1_array, second=u.ant_2_array, uvw=u.uvw_array, freq=u.freq_array,
         data=u.data_array, flag=u.flag_array, weight=u.nsample_array, pol=u.polarization_array, exposure=u.integration_time,
         names=np.array(u.telescope.antenna_names), numbers=u.telescope.antenna_numbers)
u.write_uvfits(sys.argv[3], fix_autos=False)
"""
CASA_IMPORT = "import sys; from casatasks import importuvfits; importuvfits(fitsfile=sys.argv[1], vis=sys.argv[2])"
CASA_EXPORT = """
import sys
from casatasks import exportuvfits
exportuvfits(vis=sys.argv[1], fitsfile=sys.argv[2], datacolumn="data", multisource=sys.argv[3] == "several", combinespw=True,
             padwithflags=True)
"""


def run_peer(python, text, *words):
    done = subprocess.run([python, "-c", text, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=10 * GUARD_S)
    if done.returncode:
        sys.exit("the peer exits %d: %s" % (done.returncode, done.stdout.decode(errors="replace")[-2000:]))


def numbered(path):
    """Name antennas as the VLA does, because CASA uses the number in a name as the antenna number, which must not be 0."""
    with table(path + "/ANTENNA", readonly=False, ack=False) as t:
        t.putcol("NAME", ["ea%02d" % (i + 1) for i in range(t.nrows())])
    return path


def images_alike(s, title, a, b, field=0):
    """Check that a set imported from a peer's file gives the same image of its source, at the same position, as the first set."""
    image = [*IMAGE, "-field", field]
    want, got = s.image(a, "want", *image), s.image(b, "got", *image)
    s.must(abs(got - want).max() <= 1e-6 * abs(want).max() and peak("got-dirty.fits")[0] == peak("want-dirty.fits")[0],
           "%s: the image differs by %.2g of the peak" % (title, abs(got - want).max() / abs(want).max()))


def check_casa(s):
    python = python_with("casatasks")
    if not python:
        return
    a = numbered(fresh_copy(s.made("bands.ms", *VLA, *BANDS, *BAD, *SOURCE, "-autocorrelations"), "casa.ms"))
    s.convert("-quiet", a, "ours.uvfits")
    run_peer(python, CASA_IMPORT, "ours.uvfits", "casa-read.ms")
    compare(s, "CASA reads", Rows(a), Rows("casa-read.ms"), has_spectrum=False)
    images_alike(s, "CASA reads", a, "casa-read.ms")
    run_peer(python, CASA_EXPORT, a, "casa.uvfits", "one")
    s.convert("-quiet", "casa.uvfits", "casa-back.ms")
    compare(s, "CASA writes", Rows(a), Rows("casa-back.ms"), date_s=CASA_DATE_S)
    images_alike(s, "CASA writes", a, "casa-back.ms")


def check_casa_sources(s):
    python = python_with("casatasks")
    if not python:
        return
    a = numbered(fresh_copy(s.made("fields.ms", *VLA, *BANDS[:4], "-field", "61deg", "44deg", *SOURCE, "-source", "61deg", "44deg",
                                   "2Jy"), "casa-fields.ms"))
    run_peer(python, CASA_EXPORT, a, "fields.uvfits", "several")
    s.convert("-quiet", "fields.uvfits", "fields-back.ms")
    compare(s, "CASA writes several sources", Rows(a), Rows("fields-back.ms"), date_s=CASA_DATE_S)
    p, q = Parts(a), Parts("fields-back.ms")
    s.must(list(p.field) == list(q.field) and np.allclose(p.centre, q.centre, rtol=0, atol=1e-9), "sources are fields")
    images_alike(s, "the second source of CASA's", a, "fields-back.ms", field=1)


def compare_pyuvdata(s, title, path, z):
    """Compare a set with the samples that pyuvdata read from its file."""
    x, p = Rows(path), Parts(path)
    number = {name.strip(): n for name, n in zip(z["names"], z["numbers"])}
    at = {(int(a), int(b), round((t - 2400000.5) * 86400)): k
          for k, (a, b, t) in enumerate(zip(z["first"], z["second"], z["time"]))}
    pol = [list(z["pol"]).index(c) for c in p.stokes]
    bad = dict.fromkeys(("data", "flags", "weights", "uvw", "time", "exposure", "frequencies"), 0)
    for i in sorted_rows(x):
        k = at[(number[p.antenna[x.ANTENNA1[i]]], number[p.antenna[x.ANTENNA2[i]]], round(x.TIME[i]))]
        n = len(x.data[i])
        channels = slice(n * x.window[x.DATA_DESC_ID[i]], n * (x.window[x.DATA_DESC_ID[i]] + 1))
        data, flag, weight = (z[name][k, channels][:, pol] for name in ("data", "flag", "weight"))
        # The baselines have the opposite direction, with conjugate visibilities, or the direction of the set.
        same, other = np.array_equal(data, x.data[i]), np.array_equal(data.conj(), x.data[i])
        sign = 1 if same and not other else -1 if other and not same else np.sign(np.sum(z["uvw"][k] * x.UVW[i]) or 1)
        bad["data"] += not (same or other)
        bad["uvw"] += not np.all(abs(sign * z["uvw"][k] - x.UVW[i]) <= FLOAT * abs(x.UVW[i]))
        bad["flags"] += not np.array_equal(flag, x.flag[i] | x.FLAG_ROW[i])
        bad["weights"] += not np.array_equal(weight, x.weight[i])
        bad["time"] += abs((z["time"][k] - 2400000.5) * 86400 - x.TIME[i]) > JULIAN_S
        bad["exposure"] += abs(z["exposure"][k] - x.EXPOSURE[i]) > FLOAT * x.EXPOSURE[i]
        freq = x.freq[x.window[x.DATA_DESC_ID[i]]]
        bad["frequencies"] += not np.all(abs(z["freq"][channels] - freq) <= FLOAT * (freq[-1] - freq[0]))
    for what, n in bad.items():
        s.must(n == 0, "%s: %s, %d rows differ" % (title, what, n))


def check_pyuvdata(s):
    python = python_with("pyuvdata")
    if not python:
        return
    for title, words, image in (("pyuvdata", [*VLA, *BANDS, *BAD, *SOURCE], True),
                                ("pyuvdata, 260 antennas", ["-telescope", "skalow", "-stations", 260, "-spw", "150MHz", "1MHz", 1,
                                                            "-duration", "10s", "-integration", "10s", "-pol", "XX,YY"], False)):
        a = s.made(title.replace(" ", "-") + ".ms", *words)
        s.convert("-quiet", "-overwrite", a, "ours.uvfits")
        run_peer(python, PYUVDATA, "ours.uvfits", "read.npz", title + ".uvfits")
        with np.load("read.npz") as z:
            compare_pyuvdata(s, title + " reads", a, {name: z[name] for name in z})
        s.convert("-quiet", "-overwrite", title + ".uvfits", "pyuvdata-back.ms")
        compare(s, title + " writes", Rows(a), Rows("pyuvdata-back.ms"), date_s=JULIAN_S)
        if image:
            images_alike(s, title + " writes", a, "pyuvdata-back.ms")


if __name__ == "__main__":
    if not [m for m in ("casatasks", "pyuvdata") if python_with(m)]:
        print("skipped: neither CASA nor pyuvdata is there")
        sys.exit(77)
    main(Convert, globals())
