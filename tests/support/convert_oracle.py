# SPDX-License-Identifier: GPL-3.0-or-later
"""Average a Measurement Set in double precision with numpy, apart from the program; and run msimage-convert."""
import collections
import os
import resource
import shutil
import signal
import subprocess

import numpy as np
from astropy.io import fits
from casacore.tables import table

from held_program import Held, await_none_of, group_of, process_times
from program_suite import GUARD_S, Suite, run

C = 299792458.0
SCALARS = ("ANTENNA1", "ANTENNA2", "FIELD_ID", "DATA_DESC_ID", "SCAN_NUMBER", "TIME", "TIME_CENTROID", "INTERVAL", "EXPOSURE",
           "FLAG_ROW", "UVW", "FEED1", "FEED2", "ARRAY_ID", "OBSERVATION_ID", "STATE_ID", "PROCESSOR_ID")


def _cells(rows, setup, column):
    """The cells of a column, read together for the rows of each setup, since these have one shape."""
    out = [None] * len(setup)
    for k in np.unique(setup):
        which = np.flatnonzero(setup == k)
        with rows.selectrows(which) as part:
            for i, cell in zip(which, part.getcol(column)):
                out[i] = cell
    return out


class Rows:
    """The rows of a set: columns as arrays, and for each row data, weights and flags [channel][correlation]."""

    def __init__(self, path, column="DATA"):
        with table(path, ack=False) as t:
            for name in SCALARS:
                setattr(self, name, t.getcol(name))
            self.n = t.nrows()
            self.data, self.flag, self.row_weight, self.sigma = (_cells(t, self.DATA_DESC_ID, name)
                                                                 for name in (column, "FLAG", "WEIGHT", "SIGMA"))
            self.weight = [np.broadcast_to(w, d.shape) for w, d in zip(self.row_weight, self.data)]
            if "WEIGHT_SPECTRUM" in t.colnames():
                has = np.flatnonzero([t.iscelldefined("WEIGHT_SPECTRUM", i) for i in range(self.n)])
                with t.selectrows(has) as part:
                    for i, cell in zip(has, _cells(part, self.DATA_DESC_ID[has], "WEIGHT_SPECTRUM")):
                        self.weight[i] = cell
        with table(path + "/SPECTRAL_WINDOW", ack=False) as t:
            self.freq = [t.getcell("CHAN_FREQ", i) for i in range(t.nrows())]
            self.width = [t.getcell("CHAN_WIDTH", i) for i in range(t.nrows())]
        with table(path + "/DATA_DESCRIPTION", ack=False) as t:
            self.window = t.getcol("SPECTRAL_WINDOW_ID")

    def key(self, i):
        return (self.DATA_DESC_ID[i], self.FIELD_ID[i], self.SCAN_NUMBER[i], self.ANTENNA1[i], self.ANTENNA2[i])


Averaged = collections.namedtuple("Averaged", "data weight flag uvw centroid time interval exposure")


def average(rows, members, groups):
    """The average of some rows of a baseline: by weight where any sample is good, and else the plain mean."""
    data = np.array([rows.data[i] for i in members], np.complex128)
    weight = np.array([rows.weight[i] for i in members], np.float64)
    flag = np.array([rows.flag[i] for i in members])
    stop = rows.FLAG_ROW[members][:, None, None]
    with np.errstate(invalid="ignore"):
        good = ~flag & ~stop & (weight > 0) & np.isfinite(weight) & (abs(data.real) < 1e30) & (abs(data.imag) < 1e30)
    first = [a for a, _ in groups]
    count = len(members) * np.array([b - a for a, b in groups])[:, None]

    def sums(values):
        """The sums of [member][channel][correlation] over the members and each group."""
        return np.add.reduceat(values.sum(axis=0), first, axis=0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        n_good = sums(good.astype(int))
        of_good = sums(np.where(good, weight, 0))
        mean = sums(np.where(good, data, 0) * np.where(good, weight, 0)) / of_good
        out = (np.where(n_good > 0, mean, sums(data) / count), np.where(n_good > 0, of_good, sums(weight)),
               (n_good == 0) & ((count > 1) | flag[0][first]))
    of_row = np.where(good, weight, 0).sum(axis=(1, 2))
    by = of_row if of_row.sum() > 0 else np.ones(len(members))
    start = (rows.TIME - rows.INTERVAL / 2)[members].min()
    end = (rows.TIME + rows.INTERVAL / 2)[members].max()
    t0 = rows.TIME[members[0]]
    return Averaged(*out, (rows.UVW[members] * by[:, None]).sum(axis=0) / by.sum(),
                    t0 + ((rows.TIME_CENTROID[members] - t0) * by).sum() / by.sum(), (start + end) / 2, end - start,
                    rows.EXPOSURE[members][of_row > 0 if of_row.sum() > 0 else slice(None)].sum())


def peak(path):
    """The pixel of the largest absolute value of an image, and its value."""
    image = fits.getdata(path).squeeze()
    at = np.unravel_index(np.nanargmax(abs(image)), image.shape)
    return at, image[at]


def processor_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_all_for(process, processor_s):
    """Until the program and the processes that it forked have used so much processor time, or it has ended."""
    while not process.has_ended() and sum(process_times("/proc/%d/stat" % p) or 0 for p in group_of(process.pid)) < processor_s:
        if process.is_written(0.002):
            process.take()


def await_end(process):
    """Until the program has ended; what it forked may still run."""
    while not process.has_ended():
        if process.is_written(0.02):
            process.take()


class Convert(Suite):
    """A suite whose folder is the working directory, with msimage-convert in the directory of msimage."""

    def __init__(self, msimage, makems, folder):
        super().__init__(msimage, makems, folder)
        self.convert_program = os.path.join(os.path.dirname(msimage), "msimage-convert")
        os.chdir(folder)

    def convert(self, *words, code=0, **options):
        return run(self.convert_program, *words, code=code, **options)

    def refused(self, title, code, pattern, *words, **options):
        """msimage-convert exits so, with one line of error, and leaves no file behind."""
        before = sorted(os.listdir("."))
        done = subprocess.run([self.convert_program, "-quiet", *[str(w) for w in words]], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, encoding="utf-8", errors="replace", timeout=GUARD_S,
                              **options)
        done.stderr = done.stderr.replace("msimage-convert: error: ", "msimage: error: ")
        self.tried += 1
        self.told(title, done, code, pattern)
        if sorted(os.listdir(".")) != before:
            self.complain("%s: leaves %s" % (title, sorted(set(os.listdir(".")) - set(before))))
        print(title, flush=True)

    def disturb(self, inputs, out, n_new, n_moment):
        """Convert over a set that is there, and send SIGTERM and SIGKILL in turn at n_moment moments. Afterwards the old set or
        the new one, of n_new rows, is there and complete. Nothing hidden is left."""
        began, old = processor_of_children(), Rows(out).n
        shutil.rmtree("undisturbed.ms", ignore_errors=True)
        self.convert(*inputs, "undisturbed.ms")
        all_s, kept, done_all = processor_of_children() - began, 0, 0
        def hidden():
            return [f for f in os.listdir(".") if f.startswith(".")]
        for i in range(n_moment):
            how = signal.SIGKILL if i % 2 else signal.SIGTERM
            process = Held([self.convert_program, "-quiet", "-overwrite", *inputs, out])
            run_all_for(process, all_s * i / (n_moment - 1))
            process.send(how)
            await_end(process)
            n, left = Rows(out).n, hidden()
            kept, done_all = kept + (n == old), done_all + (n == n_new)
            self.must(n in (old, n_new) and (how == signal.SIGKILL or not left),
                      "%s after %.2f s of processor: %d rows" % (how.name, all_s * i / (n_moment - 1), n))
            code = process.end()
            if how == signal.SIGTERM:
                # Before it has begun a signal ends it as it does any program.
                self.must(code in (0, 128 + how, -how), "exits %s" % code)
            # The process that converts sees the end of its parent, and removes what it has made.
            self.must(await_none_of(process.pid) and not hidden(), "nothing hidden is left")
        print("%d times the old set, %d times the new one" % (kept, done_all))

    def image(self, path, name, *options):
        """The image of a set, in double precision."""
        run(self.msimage, "-quiet", "-overwrite", "-backend", "cpu", "-j", 1, "-accuracy", 1e-9, "-name", name, *options, path)
        return fits.getdata(name + "-dirty.fits").squeeze().astype(np.float64)
