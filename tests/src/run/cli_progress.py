#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_progress.py MSIMAGE MSIMAGE_MAKEMS: on a terminal every stage of a run has a bar that begins at 0 % and is removed
at the end; without a terminal a short run has no bars."""
import os
import pty
import re
import subprocess

from program_suite import VLA, Suite, main, run

IMAGE = ["-size", 256, 256, "-scale", "20asec", "-backend", "cpu"]


def on_terminal(program, *words):
    """Returns the exit status and the output of a program on a terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen([program, *[str(w) for w in words]], stderr=its, stdout=its) as process:
        os.close(its)
        shown = b""
        try:
            while part := os.read(ours, 65536):
                shown += part
        except OSError: # the terminal's other end is closed
            pass
        os.close(ours)
        return process.wait(), shown.decode(errors="replace")


def bars(shown):
    """Returns stage and per cent of each bar, in order."""
    return [(stage, int(per_cent)) for stage, per_cent in re.findall(r"\r\x1b\[K(\w+) +\[[#.]{30}\] +(\d+) %", shown)]


def expect_stages(s, title, stages, program, *words):
    code, shown = on_terminal(program, *words)
    found = bars(shown)
    first, before = [], None
    for stage, per_cent in found:
        if not before or before[0] != stage:
            first.append(stage)
            s.must(per_cent == 0, "%s: %s begins at %d %%" % (title, stage, per_cent))
        elif per_cent < before[1]:
            s.complain("%s: %s falls from %d to %d %%" % (title, stage, before[1], per_cent))
        before = (stage, per_cent)
    s.must(code == 0 and first == stages, "%s: exits %d, stages %s" % (title, code, " ".join(first)))
    s.must("[" not in shown.splitlines()[-1].rsplit("\x1b[K", 1)[-1], "%s: no bar at the end" % title)


def check_stages(s):
    ms = s.made_at("bars.ms", VLA, ["-telescope", "vla", "-config", "D", "-duration", "10min", "-spw", "1GHz", "40MHz",
                                    "4", "-source", "60deg", "44deg", "1Jy"])
    name = ["-overwrite", "-name", s.path("bars")]
    expect_stages(s, "image", ["opening", "reading", "weighting", "imaging", "writing"], s.msimage, *IMAGE, *name, "-weight",
                  "uniform", ms)
    expect_stages(s, "channels", ["opening", "reading", "weighting", "imaging", "writing"], s.msimage, *IMAGE, *name, "-channels-out",
                  4, "-make-psf", ms)
    expect_stages(s, "towers", ["opening", "reading", "weighting", "imaging", "writing"], s.msimage, *IMAGE, *name, "-strategy",
                  "subgrid", ms)
    expect_stages(s, "dry run", ["opening", "scanning"], s.msimage, *IMAGE, *name, "-dry-run", ms)
    run(s.msimage, "-quiet", *IMAGE, *name, ms)
    os.rename(s.path("bars-dirty.fits"), s.path("bars-model.fits"))
    expect_stages(s, "predict", ["models", "opening", "scanning", "predicting", "completing"], s.msimage, "-predict",
                  "-force", "-backend", "cpu", "-name", s.path("bars"), ms)
    expect_stages(s, "makems", ["writing"], s.makems, "-ra", "60deg", "-dec", "44deg", "-duration", "1min",
                  s.path("other.ms"))


def check_no_terminal(s):
    ms = s.made_at("quiet.ms", VLA, ["-telescope", "vla", "-config", "D", "-duration", "1min"])
    done = s.launch(*IMAGE, "-name", s.path("quiet"), ms)
    s.must(done.returncode == 0 and "\x1b" not in done.stderr, "no terminal, no bar")
    # A stage logs lines after 5 s; a busy machine can slow any stage down to that.
    took_s = float(re.search(r"^wrote .* in ([0-9.]+) s", done.stderr, re.M)[1])
    s.must("ETA" not in done.stderr or took_s > 5, "no terminal, no lines in %.2f s" % took_s)


main(Suite, globals())
