#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""peer_options.py MSIMAGE: every option in WSClean's help is the same here, accepted, mapped, or refused with a reason, and
takes the same number of arguments, so that it never takes the Measurement Set as an argument."""
import re
import subprocess
import sys

from program_suite import skip_without

skip_without("wsclean")

# Options whose arguments are missing in WSClean's help.
UNNAMED = {"multiscale-scale-bias": 1, "local-rms-window": 1, "local-rms-method": 1, "beam-model": 1, "beam-mode": 1,
           "beam-normalisation-mode": 1, "link-polarizations": 1}
# Arguments to try accepted or mapped options with; the default is 1.
VALUES = {"grid-mode": "kb", "wgridder-accuracy": "1e-5"}
RUN = ["-size", "64", "64", "-scale", "1asec"]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def options():
    """Return the number of arguments of each option; some lines of the help have two options."""
    text = subprocess.run(["wsclean", "--help"], capture_output=True, text=True, check=False).stdout
    found = {}
    for line in text.splitlines():
        if line.startswith("-"):
            n_argument = len(re.findall(r"<[^>]*>|\[[^]]*\]", line))
            # -grid-mode <"nn", ..> and <name1[,name2]> have nested brackets.
            bare = re.sub(r"<.*>|\[[^]]*\]", "", line)
            if re.search(r"<[^>]*\[", line):
                n_argument = line.count("<")
            for name in re.findall(r"(?<![\w-])-([a-z][a-z0-9-]*)", bare):
                found[name] = UNNAMED.get(name, n_argument)
    return found


def complaint(msimage, name, n_argument):
    """Return the class of an option, and an error or None."""
    code, told, err = run(msimage, "-help", name)
    if code:
        return "unknown", "-help: exit %d, %s" % (code, err)
    if told.startswith("  -"):
        # The first line of the help of an option: "  -verbose, -v", "  -size WIDTH HEIGHT", "  -weight MODE [ROBUST]".
        words = re.match(r"  -[\w-]+(?:, -\w+)?((?: \[?[A-Z]+\]?)*)", told).group(1).split()
        plain = [w for w in words if not w.startswith("[")]
        return "same", None if len(plain) == n_argument else "takes %s, WSClean's %d" % (words, n_argument)
    kind = re.search(r"is (accepted|taken as|refused)", told).group(1)
    values = [VALUES.get(name, "1")] * n_argument
    code, out, err = run(msimage, *RUN, "-" + name, *values, "no-such-set.ms")
    if kind == "refused":
        fine = code == 2 and err.count("\n") == 1 and "-%s: " % name in err and "no such option" not in err
        return kind, None if fine else "exit %d, %s" % (code, err)
    # The set is opened, so it was not taken as an argument, and the log has a line for the option.
    fine = code == 3 and "no-such-set.ms" in err.splitlines()[-1] and "WSClean's -%s" % name in err and not out
    return kind, None if fine else "exit %d, %s" % (code, err)


def main():
    failures, count, found = 0, {}, options()
    for name, n_argument in found.items():
        kind, wrong = complaint(sys.argv[1], name, n_argument)
        count[kind] = count.get(kind, 0) + 1
        if wrong:
            failures += 1
            print("FAILED: -%s (%s): %s" % (name, kind, wrong))
    print("%d options: %s" % (len(found), ", ".join("%d %s" % (n, kind) for kind, n in sorted(count.items()))))
    if len(found) < 150:
        failures += 1
        print("FAILED: WSClean's help was not understood")
    return failures != 0


sys.exit(main())
