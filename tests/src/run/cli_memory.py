#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_memory.py MSIMAGE MSIMAGE_MAKEMS: -abs-mem is kept by fewer planes at a time and visibilities on disk, and does not
change the image; too little is refused with the required amount; -dry-run prints the plan and writes nothing."""
import os
import re
import subprocess
import sys
import tempfile
import time

from image_oracle import load, relative_error
from program_suite import Suite, main, run, sanitized

# Memory that the program does not count: libraries, stacks of threads, tables of casacore. Measured: 60 to 110 MB.
UNCOUNTED_MB = 150
# Sums of float32 in another order: some 10^5 terms with random errors of 2^-24.
ROUNDING = 2e-6

SET = ["-telescope", "meerkat", "-ra", "60deg", "-dec", "-45deg", "-duration", "160s", "-integration", "8s",
       "-start-ha", "-3h", "-spw", "882.75MHz", "53.5MHz", "32", "-random-sources", "5", "1", "20amin"]
ELSEWHERE = ["-shift", "62deg", "-43deg"]
IMAGE = ["-size", 1536, 1536, "-scale", "1.5asec", "-accuracy", 1e-5, "-make-psf"]


def measured(s, name, *words):
    """Run; returns the log and the largest resident size in MB."""
    log = s.path("log")
    with open(log, "w", encoding="utf-8") as f:
        process = subprocess.Popen([s.msimage, *[str(w) for w in (*IMAGE, "-overwrite", "-name", name, *words)]], stderr=f,
                                   cwd=s.folder)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    with open(log, encoding="utf-8") as f:
        text = f.read()
    if process.returncode:
        sys.exit("%s: exits %d: %s" % (" ".join(str(w) for w in words), process.returncode, text))
    return text, usage.ru_maxrss / 1000


def needed_mb(s, ms, *words):
    """The memory that a run needs, in images of tiles and with all images in files, as it says if there is less."""
    refused = s.launch(*words, "-quiet", "-abs-mem", "0.01", ms, cwd=s.folder)
    needed = re.search(r"needs ([0-9.]+) GB .*limit is 0\.010 GB", refused.stderr)
    s.must(refused.returncode == 5 and needed and refused.stderr.count("\n") == 1,
           "%s -abs-mem 0.01: exits %s: %s" % (words, refused.returncode, refused.stderr))
    log = s.launch(*words, "-abs-mem", "0.01", ms, cwd=s.folder).stderr
    s.must("in all %s GB, limit 0.010 GB" % needed[1] in log, "the plan has the same sum as the error, %s GB" % needed[1])
    return 1000 * float(needed[1]) + 1


def least_mb(s, ms, *words):
    """The least memory, to 1 MB, with which the image is made as a whole and with arrays at work in memory."""
    low, high = needed_mb(s, ms, *words) - 2, 1200
    while high - low > 1:
        middle = (low + high) / 2
        done = s.launch(*words, "-dry-run", "-overwrite", "-abs-mem", middle / 1000, "-temp-dir", s.folder, ms, cwd=s.folder)
        whole = done.returncode == 0 and " tiles of the image" not in done.stderr and "GB of images in temporary files" not in done.stderr
        low, high = (low, middle) if whole else (middle, high)
    return high


def keep_limits(s, strategy):
    """Check that a strategy keeps its limits. Returns how often it had fewer w-planes in memory than there are."""
    ms, words = s.made("set.ms", *SET), ["-strategy", strategy]
    least = least_mb(s, ms, *IMAGE, *words)
    _, most_mb = measured(s, "free", *words, ms)
    want = [load(s.path("free-%s.fits" % kind))[0] for kind in ("dirty", "psf")]
    print("%s, no limit: %.0f MB" % (strategy, most_mb))
    spilled = fewer = 0
    for limit_mb in (least, least + 200):
        log, mb = measured(s, "tight", *words, "-abs-mem", "%.6f" % (limit_mb / 1000), "-temp-dir", s.folder, ms)
        spilled += "of visibilities that exceed the memory limit, in a temporary file in " + s.folder in log
        planes = re.search(r"up to (\d+) w-planes \((\d+) in memory\)", log)
        fewer += bool(planes) and int(planes[2]) < int(planes[1])
        error = max(relative_error(load(s.path("tight-%s.fits" % kind))[0], w)
                    for kind, w in zip(("dirty", "psf"), want))
        s.must(error < ROUNDING and (mb <= limit_mb + UNCOUNTED_MB or sanitized(s.msimage)),
               "%s, -abs-mem %.0f MB: %.0f MB at most%s, other by %.1e" %
               (strategy, limit_mb, mb, ", " + planes[0] if planes else "", error))
    if not spilled:
        s.complain("%s: no limit spilled visibilities" % strategy)
    left = [f for f in os.listdir(s.folder) if f.startswith((".", "msimage-store"))]
    if left:
        s.complain("left: %s" % left)
    return fewer


def check_limits(s):
    if not keep_limits(s, "planes"):
        s.complain("no limit saved planes")
    keep_limits(s, "subgrid")


def check_choice(s):
    """If only one strategy fits in the limit, it is used."""
    ms, least_gb = s.made("set.ms", *SET), {}
    for strategy in ("planes", "subgrid"):
        least_gb[strategy] = least_mb(s, ms, *IMAGE, "-strategy", strategy) / 1000
    smaller = min(least_gb, key=least_gb.get)
    limit_gb = least_gb[smaller] + 0.002
    log, _ = measured(s, "choice", "-abs-mem", limit_gb, "-temp-dir", s.folder, ms)
    s.must(limit_gb < max(least_gb.values()) and "wgrid (-strategy %s) on" % smaller in log,
           "-abs-mem %.3f of %s: %s" % (limit_gb, least_gb, log.splitlines()[0]))


# Joined channels of a few sources.
JOINED = ["-size", 512, 512, "-scale", "3asec", "-channels-out", 3, "-join-channels", "-no-mf-weighting", "-weight", "briggs", 0,
          "-niter", 2000, "-mgain", 0.8, "-nmiter", 1, "-threshold", 0.01, "-no-update-model-required", "-accuracy", 1e-4]
KINDS = ("-0000-image", "-0001-residual", "-0002-psf", "-0001-model", "-MFS-image")


def private_mb(pid):
    """Memory that only belongs to a process, without pages of files, in MB; 0 after its end."""
    try:
        with open("/proc/%d/status" % pid, encoding="ascii") as f:
            return sum(int(line.split()[1]) for line in f if line.startswith(("RssAnon", "RssShmem"))) / 1000
    except OSError:
        return 0


def joined(s, name, ms, *words, line=JOINED):
    """Clean joined channels, or run another line. Returns the log, seconds, and the largest private memory in MB."""
    path, most, start = s.path(name + ".log"), 0, time.monotonic()
    with open(path, "w", encoding="utf-8") as f:
        process = subprocess.Popen([s.msimage, *map(str, [*line, *words, "-j", 2, "-overwrite", "-name", name]), ms], stderr=f,
                                   cwd=s.folder)
        while process.poll() is None:
            most = max(most, private_mb(process.pid))
            time.sleep(0.01)
    with open(path, encoding="utf-8") as f:
        log = f.read()
    s.must(process.returncode == 0, "%s: exits %d%s" % (name, process.returncode, log[-400:] if process.returncode else ""))
    return log, time.monotonic() - start, most


def planned_mb(log):
    told = re.search(r"memory: visibilities ([0-9.]+) GB, grids ([0-9.]+) GB, images ([0-9.]+) GB", log)
    return 1000 * sum(map(float, told.groups()))


def unplanned_mb(log):
    """What the plan has for libraries and buffers."""
    return 1000 * float(re.search(r"libraries and buffers ([0-9.]+) GB; in all", log)[1])


def check_paged(s):
    """With the least memory, images of channels that are not in use are in files; the results do not change."""
    ms = s.made("few.ms", *SET[:6], "-duration", "16s", *SET[8:14], "53.5MHz", 8, *SET[-4:])
    for title, words in (("scales", ["-multiscale", "-multiscale-scales", "0,8,32"]),
                         ("IQUV", ["-pol", "IQUV", "-join-polarizations"])):
        log, free_s, free_mb = joined(s, "whole", ms, *words)
        limit_mb = least_mb(s, ms, *JOINED, *words, "-j", 2, "-name", "none")
        s.must("not in use" not in log, "%s: no limit, %.0f MB planned, %.0f MB used" % (title, planned_mb(log), free_mb))
        read_mb = 1000 * float(re.search(r"memory for the samples that were read: .* in all ([0-9.]+) GB", log)[1])
        s.must((free_mb <= read_mb or sanitized(s.msimage)) and read_mb <= planned_mb(log) + unplanned_mb(log),
               "%s: %.0f MB planned once samples are read" % (title, read_mb))
        log, paged_s, paged_mb = joined(s, "paged", ms, *words, "-checkpoint", 0, "-abs-mem", limit_mb / 1000, "-temp-dir", s.folder)
        s.must(re.search(r"disk: [0-9.]+ GB of images that are not in use in temporary files.*in " + re.escape(s.folder), log) is not None,
               "%s: with %.0f MB images are in files" % (title, limit_mb))
        s.must(paged_mb <= limit_mb + UNCOUNTED_MB or sanitized(s.msimage),
               "%s: %.0f MB used of %.0f MB planned; %.1f s instead of %.1f s" %
               (title, paged_mb, planned_mb(log) + unplanned_mb(log), paged_s, free_s))
        pol = "-V" if title == "IQUV" else ""
        for kind in KINDS:
            at = kind.rindex("-") if pol and kind != "-0002-psf" else len(kind)
            names = [s.path("%s%s%s%s.fits" % (run, kind[:at], pol if at < len(kind) else "", kind[at:])) for run in ("whole", "paged")]
            s.must((load(names[0])[0] == load(names[1])[0]).all(), "%s%s: the same to the last bit" % (title, kind))
    left = [f for f in os.listdir(s.folder) if f.startswith("msimage-store")]
    s.must(not left, "nothing is left: %s" % left)


def check_small(s):
    """Planes of small images go to files, too: with 0.42 of the memory that all of them need, a run ends well."""
    ms = s.made("few.ms", *SET[:6], "-duration", "16s", *SET[8:14], "53.5MHz", 8, *SET[-4:])
    line = ["-size", 256, 256, *JOINED[3:6], 4, *JOINED[7:], "-pol", "IQUV", "-join-polarizations", "-multiscale"]
    log, _, _ = joined(s, "whole", ms, line=line)
    limit_gb = 0.42e-3 * (planned_mb(log) + unplanned_mb(log))
    log, _, _ = joined(s, "small", ms, "-abs-mem", limit_gb, "-temp-dir", s.folder, line=line)
    s.must("in temporary files" in log, "with %.3f GB planes are in files" % limit_gb)


def check_tiles(s):
    """With even less memory the image is made in tiles, and all arrays of cleaning are in files: the images are the same
    within the accuracy of two gridders, and use no more memory than planned."""
    ms = s.made("few.ms", *SET[:6], "-duration", "16s", *SET[8:14], "53.5MHz", 8, *SET[-4:])
    clean = [*JOINED[:5], "-niter", 300, "-threshold", 0.01, "-mgain", 0.8, "-nmiter", 1, "-no-update-model-required",
             "-accuracy", 1e-4, "-weight", "briggs", 0, "-pol", "I,V", "-checkpoint", 0]
    for words, kinds, accuracy in ((IMAGE, ("-dirty", "-psf"), 1e-5), (clean, ("-I-residual", "-V-dirty", "-I-model"), 1e-4)):
        limit_mb = needed_mb(s, ms, *words, "-name", "none")
        for name, more in (("whole", ()), ("tiles", ("-abs-mem", limit_mb / 1000, "-temp-dir", s.folder))):
            log, _, used_mb = joined(s, name, ms, *words, *more, line=())
            s.must((" tiles of the image" in log) == (name == "tiles"), "%s: %s" % (name, log.splitlines()[0]))
        s.must(used_mb <= limit_mb or sanitized(s.msimage), "%.0f MB used, %.0f MB planned" % (used_mb, limit_mb))
        for kind in kinds:
            error = relative_error(load(s.path("tiles%s.fits" % kind))[0], load(s.path("whole%s.fits" % kind))[0])
            s.must(error < (1.5 if "model" not in kind else 20) * accuracy, "%s in tiles: other by %.1e" % (kind, error))


def dry_run_elsewhere(s, ms):
    """With another centre other samples lie outside the uv plane of coarse pixels: a dry run counts as many as a run."""
    told = []
    for words in ([], ["-dry-run"], ["-dry-run", *ELSEWHERE], ELSEWHERE):
        words = ["-size", 128, 128, "-scale", "30asec", *words, "-name", "elsewhere", "-overwrite", ms]
        log = run(s.msimage, *words, cwd=s.folder).stderr.decode()
        told.append(int(re.search(r"(\d+) outside the uv (?:grid|plane)", log)[1]))
    s.must(told[0] == told[1] > 0 and told[2] == told[3] > 0 and told[1] != told[2], "outside the uv grid: %s" % told)


def check_dry_run(s):
    ms = s.made("set.ms", *SET)
    with open(s.path("free-dirty.fits"), "a", encoding="ascii"):
        pass
    before = sorted(os.listdir(s.folder))
    for name in ("free", "dry"):
        # An image that exists is refused, unless it may be overwritten.
        words = [*IMAGE, "-dry-run", "-name", name, "-overwrite", ms]
        done = run(s.msimage, *words, cwd=s.folder)
        log = done.stderr.decode()
        for what in (r"rows: 40320 kept", r"samples dropped: none", r"set: +\S*set.ms", r"resolution: ",
                     r"up to \d+ w-planes (\(\d+ in memory\)|in \d+ w-towers?\b)", r"memory: visibilities [0-9.]+ GB, grids [0-9.]+ GB, images",
                     r"disk: output files [0-9.]+ GB", r"samples: up to \d+", r"time: about \d+ s to read, \d+ s to image"):
            if not re.search(what, log):
                s.complain("-dry-run: /%s/ is not in: %s" % (what, log))
        if done.stdout or sorted(os.listdir(s.folder)) != before:
            s.complain("-dry-run writes: %s %s" % (done.stdout, os.listdir(s.folder)))
    # Image and PSF of a channel and of all, and of the two that are written at the same time at most; the weights as
    # written. Densities are freed before images are made. If memory is short, fewer are written at the same time; with one
    # thread none.
    image_mb, density_mb = 2 * 1536 ** 2 * 4e-6, 1536 * 768 * 8e-6
    threads = ["-j", 2]
    log = run(s.msimage, *IMAGE, "-dry-run", "-channels-out", 4, *threads, "-name", "dry", ms, cwd=s.folder).stderr.decode()
    needed = sum(map(float, re.search(r"visibilities ([0-9.]+) GB, grids ([0-9.]+) GB, images ([0-9.]+) GB", log).groups()))
    unplanned_gb = unplanned_mb(log) / 1000
    for words, want_mb in (([*threads], 4 * image_mb), (["-j", 1], 2 * image_mb),
                           ([*threads, "-abs-mem", needed + unplanned_gb + 0.01], 4 * image_mb),
                           ([*threads, "-abs-mem", needed + unplanned_gb - 0.01], 3 * image_mb),
                           ([*threads, "-abs-mem", needed + unplanned_gb - 0.01 - 1e-3 * image_mb], 2 * image_mb),
                           ([*threads, "-weight", "uniform"], 4 * image_mb),
                           ([*threads, "-weight", "uniform", "-no-mf-weighting"], 4 * image_mb),
                           ([*threads, "-save-weights"], 4 * image_mb + 3 * density_mb)):
        log = run(s.msimage, *IMAGE, "-dry-run", "-channels-out", 4, *words, "-name", "dry", ms, cwd=s.folder).stderr.decode()
        told = re.search(r"images ([0-9.]+) GB,", log)
        if not told or abs(1000 * float(told[1]) - want_mb) > 1:
            s.complain("-dry-run %s: %.0f MB of images wanted: %s" % (" ".join(map(str, words)), want_mb, log))
    dry_run_elsewhere(s, ms)
    run(s.msimage, *IMAGE, "-dry-run", "-name", "free", ms, cwd=s.folder, code=2)
    run(s.msimage, *IMAGE, "-dry-run", "-name", "absent/free", ms, cwd=s.folder, code=4)
    run(s.msimage, *IMAGE, "-dry-run", "-abs-mem", 0.01, ms, cwd=s.folder, code=5)


# Files in memory would count as memory of a process that maps them.
tempfile.tempdir = "/var/tmp"
main(Suite, globals())
