#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_memory.py MSIMAGE MSIMAGE_MAKEMS: -abs-mem is kept, by fewer planes at once and visibilities on disk, and changes
nothing in the image; too little is refused with the amount needed; -dry-run tells the plan and writes nothing."""
import os
import re
import subprocess
import sys
import tempfile

from image_oracle import load, relative_error, run

# Libraries, threads' stacks, tables of casacore: what the program does not count. Measured: 60 to 110 MB.
BESIDE_MB = 150
# Sums of float32 in another order: of some 10^5 terms each of 2^-24, at random.
ROUNDING = 2e-6

SET = ["-quiet", "-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "160s", "-integration", "8s",
       "-start-ha", "-3h", "-spw", "882.75MHz", "53.5MHz", "32", "-random-sources", "5", "1", "20amin"]
IMAGE = ["-size", 1536, 1536, "-scale", "1.5asec", "-accuracy", 1e-5, "-make-psf"]


def measured(msimage, folder, name, *words):
    """Run; returns the log and the largest resident size in MB."""
    log = os.path.join(folder, "log")
    with open(log, "w", encoding="utf-8") as f:
        process = subprocess.Popen([msimage, *[str(w) for w in (*IMAGE, "-overwrite", "-name", name, *words)]], stderr=f,
                                   cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    with open(log, encoding="utf-8") as f:
        text = f.read()
    if process.returncode:
        sys.exit("%s: exits %d: %s" % (" ".join(str(w) for w in words), process.returncode, text))
    return text, usage.ru_maxrss / 1000


def sanitized(msimage):
    """A sanitizer's shadow memory is not the program's."""
    return b"libasan" in subprocess.run(["ldd", msimage], stdout=subprocess.PIPE, check=True).stdout


def check_limits(msimage, folder, ms):
    refused = subprocess.run([msimage, *[str(w) for w in IMAGE], "-quiet", "-abs-mem", "0.01", ms], cwd=folder,
                             stderr=subprocess.PIPE, check=False, encoding="utf-8")
    needed = re.search(r"needs ([0-9.]+) GB .*limit is 0\.010 GB", refused.stderr)
    if refused.returncode != 5 or not needed or refused.stderr.count("\n") != 1:
        print("-abs-mem 0.01: exits %d: %s  FAILED" % (refused.returncode, refused.stderr))
        return 1
    least_mb = 1000 * float(needed[1]) + 1
    failed = 0
    log, most_mb = measured(msimage, folder, "free", ms)
    want = [load(os.path.join(folder, "free-%s.fits" % kind))[0] for kind in ("dirty", "psf")]
    print("no limit: %.0f MB" % most_mb)
    spilled = fewer = 0
    for limit_mb in (least_mb, least_mb + 50, least_mb + 200):
        options = ["-abs-mem", "%.6f" % (limit_mb / 1000), "-temp-dir", folder, ms]
        log, mb = measured(msimage, folder, "tight", *options)
        spilled += "of visibilities that exceed the memory limit, in " + folder in log
        planes = re.search(r"up to (\d+) w-planes \((\d+) in memory\)", log)
        fewer += int(planes[2]) < int(planes[1])
        error = max(relative_error(load(os.path.join(folder, "tight-%s.fits" % kind))[0], w)
                    for kind, w in zip(("dirty", "psf"), want))
        good = error < ROUNDING and (mb <= limit_mb + BESIDE_MB or sanitized(msimage))
        failed += not good
        print("-abs-mem %.0f MB: %.0f MB at most, %s of %s w-planes at once, other by %.1e%s" %
              (limit_mb, mb, planes[2], planes[1], error, "" if good else "  FAILED"))
    if not spilled or not fewer:
        failed += 1
        print("no limit spilled visibilities (%d) or saved planes (%d)  FAILED" % (spilled, fewer))
    left = [f for f in os.listdir(folder) if f.startswith((".", "msimage-store"))]
    if left:
        failed += 1
        print("left: %s  FAILED" % left)
    return failed


def check_dry_run(msimage, folder, ms):
    before = sorted(os.listdir(folder))
    failed = 0
    for name in ("free", "dry"):
        # An image that exists already is refused as ever, unless it may be replaced.
        words = [*IMAGE, "-dry-run", "-name", name, "-overwrite", ms]
        done = run(msimage, *words, cwd=folder)
        log = done.stderr.decode()
        for what in (r"rows: 40320 kept", r"samples dropped: 0 autocorrelation", r"outside the uv grid",
                     r"up to \d+ w-planes \(\d+ in memory\)", r"memory: visibilities [0-9.]+ GB, grids [0-9.]+ GB, images",
                     r"disk: images [0-9.]+ GB", r"samples: up to \d+", r"time: about \d+ s to read, \d+ s to image"):
            if not re.search(what, log):
                failed += 1
                print("-dry-run: /%s/ is not in: %s  FAILED" % (what, log))
        if done.stdout or sorted(os.listdir(folder)) != before:
            failed += 1
            print("-dry-run writes: %s %s  FAILED" % (done.stdout, os.listdir(folder)))
    # Image and PSF of a channel and of all, a grid of densities for each channel or one for all, the weights as written.
    image_mb, density_mb = 2 * 1536 ** 2 * 4e-6, 1537 * 769 * 8e-6
    for words, want_mb in (([], 2 * image_mb), (["-weight", "uniform"], 2 * image_mb + density_mb),
                           (["-weight", "uniform", "-no-mf-weighting"], 2 * image_mb + 4 * density_mb),
                           (["-save-weights"], 2 * image_mb + density_mb + 1536 ** 2 * 8e-6)):
        log = run(msimage, *IMAGE, "-dry-run", "-channels-out", 4, *words, "-name", "dry", ms, cwd=folder).stderr.decode()
        told = re.search(r"images ([0-9.]+) GB; limit", log)
        if not told or abs(1000 * float(told[1]) - want_mb) > 1:
            failed += 1
            print("-dry-run %s: %.0f MB of images wanted: %s  FAILED" % (" ".join(words), want_mb, log))
    run(msimage, *IMAGE, "-dry-run", "-name", "free", ms, cwd=folder, code=2)
    run(msimage, *IMAGE, "-dry-run", "-name", "absent/free", ms, cwd=folder, code=4)
    run(msimage, *IMAGE, "-dry-run", "-abs-mem", 0.01, ms, cwd=folder, code=5)
    return failed


def main():
    msimage, makems = [os.path.abspath(p) for p in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        ms = os.path.join(folder, "set.ms")
        run(makems, *SET, ms)
        failed = check_limits(msimage, folder, ms) + check_dry_run(msimage, folder, ms)
    sys.exit(1 if failed else 0)


main()
