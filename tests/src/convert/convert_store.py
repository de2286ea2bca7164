#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""convert_store.py MSIMAGE MSIMAGE_MAKEMS [CHECK..]: visibility stores give bitwise the same images as their sets.
A damaged store is refused in one line. If a conversion ends early, the old output is unchanged."""
import glob
import os
import random
import re
import shutil
import signal
import struct

import numpy as np
from astropy.io import fits

from convert_oracle import Convert
from held_program import Held, await_none_of
from program_suite import as_other_user, fresh_copy, main, run, with_small_files

VLA = ["-telescope", "vla", "-config", "D", "-ra", "60deg", "-dec", "44deg", "-integration", "2s", "-noise", "1Jy"]
HOSTILE = ["-flags", 0.3, "-flag-rows", 0.1, "-autocorrelations", "-weights", "radiometer"]
# The sets: windows one after another and in turn, ascending and descending; several fields; weights of rows and of samples.
SETS = {
    "plain": [*VLA, *HOSTILE, "-duration", "60s", "-spw", "1.4GHz", "1MHz", 10, "-weight-spectrum", "partly"],
    "turns": [*VLA, *HOSTILE, "-duration", "60s", "-spw", "1GHz", "2MHz", 6, "-spw", "1.5GHz", "-2MHz", 8, "-spw-order", "row",
              "-field", "61deg", "44deg", "-weight-spectrum", "none", "-pol", "XX,YY"],
    "many": [*VLA, "-duration", "10min", "-spw", "1.4GHz", "1MHz", 16, "-flags", 0.01],
}
IMAGE = ["-size", 96, 96, "-scale", "20asec"]
# Selections and options of images; some apply to one of the sets only.
WAYS = {
    "plain": (["-pol", "IQUV"], ["-pol", "RR,LL"], ["-channel-range", 2, 7, "-weight", "uniform"], ["-interval", 3, 20],
              ["-minuv-l", 500, "-maxuv-l", 3000], ["-minuvw-m", 100, "-maxuvw-m", 700], ["-intervals-out", 3],
              ["-channels-out", 5], ["-taper-gaussian", "1amin"], ["-weight", "briggs", 0.5], ["-readers", 3],
              ["-shift", "60.2deg", "44.1deg"], ["-data-column", "DATA"], ["-precision", "fp64", "-accuracy", 1e-9]),
    "turns": ([], ["-field", 1], ["-field", "all", "-shift", "60deg", "44deg"], ["-spws", 1], ["-spws", "1", "-pol", "YY"],
              ["-channel-range", 4, 9], ["-channel-range", 8, 12, "-interval", 2, 25, "-field", 1]),
    "many": (["-readers", 4], ["-interval", 40, 123], ["-channel-range", 3, 5]),
}


def crc32c(data):
    """Compute the CRC by its definition, a byte at a time."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xffffffff


def store(s, path, *options):
    """Make a store of a set, and return its path."""
    out = os.path.basename(path)[:-3] + ".msv"
    s.convert("-quiet", "-overwrite", *options, path, out)
    return out


def images(s, path, name, *options):
    """Return the images of a run with their headers, except for the date, and the counts in the log."""
    done = run(s.msimage, "-overwrite", "-backend", "cpu", "-j", 2, "-name", name, *IMAGE, *options, path)
    made = {}
    for file in sorted(glob.glob(name + "-*.fits")):
        with fits.open(file) as f:
            header = {k: v for k, v in f[0].header.items() if k not in ("DATE", "HISTORY", "COMMENT", "")}
            made[file[len(name):]] = (f[0].data.tobytes(), header)
        os.remove(file)
    counts = [line for line in done.stderr.decode().splitlines() if line.startswith(("samples:", "times:", "band:", "field"))]
    return made, counts


def check_images(s):
    """Stores and sets give bitwise the same images, with the same headers and counts, for any selection."""
    for name, ways in WAYS.items():
        a = s.made(name + ".ms", *SETS[name])
        b = store(s, a)
        for way in ways:
            want, got = images(s, a, "want", *way), images(s, b, "got", *way)
            s.must(want[0] and len(want[1]) > 2 and want == got, "%s %s" % (name, " ".join(map(str, way))))


def check_selection(s):
    """A store of a selection gives the same image as the set, with its own numbers of fields and windows."""
    a = s.made("turns.ms", *SETS["turns"])
    for way in (["-field", 1, "-spws", 1], ["-interval", 2, 25, "-channel-range", 4, 9], ["-select-antenna", "!0,3"],
                ["-taql", "ANTENNA1 != 5", "-maxuvw-m", 600]):
        field = ["-field", 1] if "-field" in way else []
        want = images(s, a, "want", *field, *way)[0]
        got = images(s, store(s, a, *way), "got", *field)[0]
        s.must(want and {k: v[0] for k, v in want.items()} == {k: v[0] for k, v in got.items()},
               "selected before: %s" % " ".join(map(str, way)))


def check_several(s):
    """Stores and sets are imaged together."""
    a = s.made("plain.ms", *SETS["plain"])
    b = s.made("second.ms", *SETS["plain"][:-2], "-weight-spectrum", "none", "-seed", 7)
    want = run(s.msimage, "-quiet", "-overwrite", "-backend", "cpu", "-j", 1, "-name", "want", *IMAGE, a, b)
    got = run(s.msimage, "-quiet", "-overwrite", "-backend", "cpu", "-j", 1, "-name", "got", *IMAGE, a, store(s, b))
    s.must(not want.stderr and not got.stderr and
           np.array_equal(fits.getdata("want-dirty.fits"), fits.getdata("got-dirty.fits")), "a set and a store")


def told(s, title, code, pattern, *words, **options):
    """Check that msimage ends with this exit code, one error line and no file."""
    before = sorted(os.listdir("."))
    s.told(title, s.launch("-quiet", "-backend", "cpu", "-j", 1, *words, **options), code, pattern)
    if sorted(os.listdir(".")) != before:
        s.complain("%s: leaves %s" % (title, sorted(set(os.listdir(".")) - set(before))))
    print(title, flush=True)


def check_refusals(s):
    a = s.made("plain.ms", *SETS["plain"])
    b = store(s, a)
    image = ["-name", "o", *IMAGE]
    told(s, "TaQL", 3, "use them when the store is made", *image, "-taql", "ANTENNA1 != 3", b)
    told(s, "MSSelection", 3, "use them when the store is made", *image, "-select-antenna", "3", b)
    told(s, "another column", 3, "the visibility store has only column DATA, not MODEL_DATA", *image, "-data-column", "MODEL_DATA", b)
    told(s, "a model's column", 3, "the visibility store has only column DATA, not MODEL_DATA", *image, "-subtract-model", b)
    told(s, "no such field", 3, "has no field 1; it has 0 to 0", *image, "-field", 1, b)
    told(s, "no such time", 3, "timesteps 0 to 99", *image, "-interval", 0, 99, b)
    told(s, "predict", 2, "no columns to write to; predict into its Measurement Set", "-predict", "-name", "m", b)
    told(s, "MODEL_DATA", 2, "-no-update-model-required", *image, "-niter", 10, "-auto-threshold", 3, "-update-model-required", b)
    s.refused("a set of a store", 2, "is a visibility store.*convert its set", b, "out.ms")
    s.refused("a store of a store", 2, "is a visibility store.*convert its set", b, "out.msv")
    s.refused("a store of two", 2, "is made from one Measurement Set", a, s.made("many.ms", *SETS["many"]), "out.msv")
    for words in (["-average-time", "8s"], ["-average-channels", 2], ["-shift", "60deg", "44deg"]):
        s.refused("a store and %s" % words[0], 2, "%s: a visibility store keeps" % words[0], *words, a, "out.msv")
    s.refused("what exists is kept", 2, "-overwrite replaces it", a, b)
    s.refused("a full disk", 4, "File too large", a, "out.msv", preexec_fn=with_small_files(200000))
    s.refused("no row", 3, "no row is selected", "-taql", "ANTENNA1 > 1000", a, "out.msv")
    s.convert("-quiet", "-dry-run", a, "out.msv")
    s.must(not os.path.exists("out.msv"), "-dry-run writes nothing")
    with open("text.msv", "w", encoding="ascii") as f:
        f.write("no store\n")
    told(s, "another file", 3, "is a file, but neither a visibility store nor a FITS file", *image, "text.msv")
    with s.where_others_have_access("a store that may not be read") as folder:
        if folder:
            hidden = shutil.copy(s.path(b), folder)
            os.chmod(hidden, 0)
            os.mkdir("open")
            os.chmod("open", 0o777)
            done = s.launch("-quiet", *image[2:], "-name", "open/o", hidden, preexec_fn=as_other_user())
            s.told("not readable", done, 3, "Permission denied")


def check_age(s):
    """A store is refused if its set has changed, except with -allow-stale. The set may be missing."""
    a = fresh_copy(s.made("plain.ms", *SETS["plain"]), "aged.ms")
    b = store(s, s.path(a))
    image = ["-name", "o", *IMAGE]
    want = images(s, b, "o")
    os.utime("aged.ms/FIELD/table.dat")
    told(s, "a changed field", 3, r"aged\.ms has changed since.*give -allow-stale", *image, b)
    s.must(images(s, b, "o", "-allow-stale") == want, "-allow-stale")
    b = store(s, s.path(a))
    with open("aged.ms/table.f0", "r+b") as f:
        f.write(f.read(1))
    told(s, "changed rows", 3, r"aged\.ms has changed since", *image, b)
    shutil.rmtree("aged.ms")
    s.must(images(s, b, "o") == want, "without its set")
    os.mkdir("moved")
    shutil.move(b, "moved/x.msv")
    s.must(images(s, "moved/x.msv", "o") == want, "elsewhere")


def small(s):
    """Make a store of some kilobytes with weights of rows and of samples, flags, and rows without samples."""
    with open("five", "w", encoding="ascii") as f:
        f.writelines("%d -5042000 %d 25 a%d\n" % (-1601188 + 40 * i, 3554886 + 100 * i * i, i) for i in range(4))
    a = s.made("small.ms", "-j", 1, "-layout-file", "five", "-ra", "60deg", "-dec", "44deg", "-integration", "2s", "-noise",
               "1Jy", "-duration", "8s", *HOSTILE, "-spw", "1.4GHz", "1MHz", 3, "-spw", "1.5GHz", "1MHz", 2, "-spw-order", "row",
               "-weight-spectrum", "partly", "-pol", "XX,YY")
    return store(s, a)


def spoiled(path, at, data):
    """Copy a store and change bytes."""
    with open(path, "rb") as f:
        held = bytearray(f.read())
    held[at:at + len(data)] = data
    with open("spoiled.msv", "wb") as f:
        f.write(held)
    return "spoiled.msv"


def flips(s, step):
    b = small(s)
    with open(b, "rb") as f:
        held = f.read()
    image = ["-name", "o", "-size", 32, 32, "-scale", "20asec"]
    run(s.msimage, "-quiet", "-backend", "cpu", *image, b)
    for kind in ("dirty", "image"):
        os.remove("o-%s.fits" % kind)
    for at in sorted({*range(0, len(held), step), 3, 9, 13, 17, 4095, len(held) - 1}):
        told(s, "byte %d" % at, 3, "first bytes are damaged" if at < 8 else "damaged: invalid data in .*; make the store",
             *image, spoiled(b, at, bytes([held[at] ^ 1 << at % 8])))
    for n in (0, 7, 100, 4095, 4096, 5000, len(held) - 1):
        os.truncate(spoiled(b, 0, b""), n)
        told(s, "%d bytes" % n, 3, "truncated" if n > 7 else "first bytes are damaged", *image, "spoiled.msv")
    with open(spoiled(b, 0, b""), "ab") as f:
        f.write(b"x")
    told(s, "a byte more", 3, "truncated or extended", *image, "spoiled.msv")
    header = bytearray(held[:4092])
    header[8] = 2
    told(s, "another version", 3, "of version 2; this program reads version 1; make the store again", *image,
         spoiled(b, 0, header + struct.pack("<I", crc32c(header))))


def check_flips(s):
    """A changed byte is detected when the store is opened or read. Here every 211th byte is tried, in flips_all every byte."""
    flips(s, 211)


def check_flips_all(s):
    flips(s, 1)


def index_of(held):
    return struct.unpack_from("<qq", held, 24)


def mend(held):
    """Update the CRCs of index and header."""
    at, n = index_of(held)
    if 0 <= at <= len(held) and 0 <= n <= len(held) - at:
        for k in range(4):
            struct.pack_into("<I", held, 72 + 4 * k, crc32c(held[at + k * (n // 4):at + (k + 1) * (n // 4)]))
    struct.pack_into("<I", held, 4092, crc32c(held[:4092]))


def check_mutants(s, seed=1, count=40):
    """Random changes of the index, with a correct CRC, give one line and an exit code, no signal, and no file."""
    b = small(s)
    with open(b, "rb") as f:
        whole = f.read()
    at, n = index_of(whole)
    print("seed", seed, flush=True)
    for number in range(count):
        r, held = random.Random("%d/%d" % (seed, number)), bytearray(whole)
        for _ in range(r.choice((1, 1, 2, 4))):
            size = r.choice((1, 4, 8))
            here = r.randrange(16, 96) if r.random() < 0.2 else r.randrange(at, at + n - 8)
            here -= here % size
            value = r.choice((r.getrandbits(8 * size), r.choice((0, 1, 0x7f, 0xff)),
                              int.from_bytes(held[here:here + size], "little") + r.choice((-1, 1, 64, -64)),
                              1 << r.randrange(8 * size)))
            held[here:here + size] = (value % (1 << 8 * size)).to_bytes(size, "little")
        mend(held)
        with open("mutant.msv", "wb") as f:
            f.write(held)
        before = sorted(os.listdir("."))
        done = s.launch("-quiet", "-backend", "cpu", "-j", 1, "-abs-mem", 1, "-allow-stale", "-name", "o", "-size", 32, 32,
                        "-scale", "20asec", "-field", "all", *r.choice(([], ["-readers", 2], ["-interval", 1, 3])), "mutant.msv")
        errors = [line for line in done.stderr.splitlines() if not line.startswith("msimage-convert: warning: ")]
        if done.returncode not in (0, 2, 3, 5) or len(errors) != (done.returncode != 0) or "ended by signal" in done.stderr:
            s.complain("seed %d, mutant %d: exits %s: %s" % (seed, number, done.returncode, done.stderr[-500:]))
        if done.returncode == 0:
            for file in glob.glob("o-*"):
                os.remove(file)
            before = [f for f in before if not f.startswith("o-")]
        if sorted(os.listdir(".")) != before:
            s.complain("seed %d, mutant %d: leaves files" % (seed, number))
    print("%d mutants" % count)


def check_mutants_many(s):
    """Try this many mutants, with a random seed."""
    check_mutants(s, random.SystemRandom().randrange(1 << 31), int(os.environ.get("MUTANTS", "5000")))


def check_safety(s):
    """After SIGTERM and SIGKILL at any time, the old or the new store is complete. SIGTERM leaves no hidden file."""
    a = s.made("many.ms", *SETS["many"])
    old = small(s)
    shutil.copy(old, "kept.msv")
    with open(old, "rb") as f:
        before = f.read()
    whole = store(s, a)
    with open(whole, "rb") as f:
        after = f.read()
    words = [s.convert_program, "-verbose", "-overwrite", a, "kept.msv"]
    n_old = 0
    for line in range(4):
        for how in (signal.SIGTERM, signal.SIGKILL):
            shutil.copy(old, "kept.msv")
            process = Held(words)
            process.hold_at_line(line)
            process.send(how)
            code = process.end()
            s.must(await_none_of(process.pid), "nothing runs on")
            with open("kept.msv", "rb") as f:
                now = f.read()
            n_old += now == before
            left = [f for f in os.listdir(".") if f.startswith(".")]
            s.must(now in (before, after) and not (how == signal.SIGTERM and left),
                   "%s in line %d: exits %s; the %s store" % (how.name, line, code, "old" if now == before else "new"))
            for f in left:
                shutil.rmtree(f)
    s.must(n_old > 0, "%d times the old one" % n_old)
    run(s.msimage, "-quiet", "-backend", "cpu", *IMAGE, "-name", "o", "kept.msv")


def check_help(s):
    text = run(s.convert_program, "-help").stdout.decode()
    s.must(bool(re.search(r"\.msv", text)), "-help describes stores")


if __name__ == "__main__":
    main(Convert, globals(), if_named=("flips_all", "mutants_many"))
