#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""wsclean_names.py MSIMAGE [--write]: every option of wsclean_names.txt, and of the installed WSClean's help, is the same here,
accepted, mapped, or refused with a reason, and takes the same number of arguments, so that it never takes the Measurement
Set as an argument. docs/from-wsclean.md has the right table of them; --write writes it."""
import collections
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
DOCUMENT = os.path.join(HERE, "../../../docs/from-wsclean.md")
HEADING = "## All options of WSClean\n"
# Options whose arguments are missing in WSClean's help.
UNNAMED = {"multiscale-scale-bias": 1, "local-rms-window": 1, "local-rms-method": 1, "beam-model": 1, "beam-mode": 1,
           "beam-normalisation-mode": 1, "link-polarizations": 1}
# Arguments to try accepted or mapped options with; the default is 1.
VALUES = {"grid-mode": "kb", "wstack-grid-mode": "kb", "wgridder-accuracy": "1e-5",
          "wtowers-accuracy": "1e-5",
          "component-optimization": "clean"}
RUN = ["-size", "64", "64", "-scale", "1asec"]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def listed():
    with open(os.path.join(HERE, "wsclean_names.txt"), encoding="ascii") as f:
        lines = [line.split() for line in f if not line.startswith("#")]
    return {name: int(n) for name, n in lines}


def of_help(text):
    """Return the number of arguments of each option of WSClean's help; some lines have two options."""
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


def answer(msimage, name, n_argument):
    """Return the class of an option, its reason or own option, and an error or None."""
    code, told, err = run(msimage, "-help", name)
    if code:
        return "unknown", "", "-help: exit %d, %s" % (code, err)
    # The first lines of options: "  -verbose, -v", "  -size WIDTH HEIGHT", "  -weight MODE [ROBUST]".
    for first, alias, words in re.findall(r"^  -([\w-]+)(?:, -(\w+))?((?: \[?[A-Z]+\]?)*)", told, re.M):
        plain = [w for w in words.split() if not w.startswith("[")]
        if name in (first, alias):
            return "same", "", None if len(plain) == n_argument else "takes %s, WSClean's %d" % (words, n_argument)
    found = re.match(r"WSClean's -%s(?: \S+)? is (accepted|taken as|refused):? (.*)\.\n" % name, told)
    if not found:
        return "unknown", "", "-help: %s" % told
    kind, why = found.groups()
    if kind != "refused":
        return kind, why, None
    code, _, err = run(msimage, *RUN, "-" + name, *["1"] * n_argument, "no-such-set.ms")
    fine = code == 2 and err.count("\n") == 1 and "-%s: " % name in err and "no such option" not in err
    return kind, why, None if fine else "exit %d, %s" % (code, err)


def check_accepted(msimage, names, answers):
    """Give all accepted and mapped options at once, except names of version 1, which exclude each other: the set is opened, so
    none took it or another option as an argument, and the log has a line for each. Returns the number of failures."""
    given = [name for name, (kind, why, _) in answers.items() if kind == "accepted" or kind == "taken as" and why[1:].replace("-", "") != name]
    words = [w for name in given for w in ["-" + name] + [VALUES.get(name, "1")] * names[name]]
    code, out, err = run(msimage, *RUN, *words, "no-such-set.ms")
    without = [name for name in given if "WSClean's -%s " % name not in err]
    fine = code == 3 and "no-such-set.ms" in err.splitlines()[-1] and not out and not without and len(given) > 50
    if not fine:
        print("FAILED: the accepted options: exit %d, without a line: %s; %s" % (code, without, err[-300:]))
    return not fine


def table(answers):
    """Write the section of docs/from-wsclean.md."""
    grouped = {kind: collections.defaultdict(list) for kind in ("same", "accepted", "taken as", "refused")}
    for name, (kind, why, _) in answers.items():
        grouped[kind][why].append("`-%s`" % name)
    n = {kind: sum(map(len, rows.values())) for kind, rows in grouped.items()}
    text = [HEADING, "", "%d options of the help of WSClean 3.7 and 3.1, and older names that they accept: %d are options here, %d are "
            "accepted with a" % (len(answers), n["same"], n["accepted"]),
            "line in the log, %d are other names of options here, %d are refused with the reason." % (n["taken as"], n["refused"]), "",
            "| option of WSClean | here |", "|---|---|",
            "| %s | an option of this name |" % " ".join(grouped["same"][""])]
    for kind, words in (("taken as", "taken as `%s`"), ("accepted", "accepted: %s"), ("refused", "refused: %s")):
        rows = [(" ".join(names), words % why) for why, names in grouped[kind].items()]
        text += ["| %s | %s |" % row for row in rows]
    return text[0] + "\n".join(text[1:]) + "\n"


def main():
    msimage, names, failures = sys.argv[1], listed(), 0
    if len(names) < 200:
        failures += 1
        print("FAILED: wsclean_names.txt has only %d names" % len(names))
    if shutil.which("wsclean"):
        installed = of_help(subprocess.run(["wsclean", "--help"], capture_output=True, text=True, check=False).stdout)
        missing = [n for n in installed if names.get(n) != installed[n]]
        if missing or len(installed) < 150:
            failures += 1
            print("FAILED: wsclean --help has %d options; not listed, or with other arguments: %s" % (len(installed), missing))
    with ThreadPoolExecutor(2) as pool:
        answers = dict(zip(names, pool.map(lambda item: answer(msimage, *item), names.items())))
    for name, (kind, _, wrong) in answers.items():
        if wrong:
            failures += 1
            print("FAILED: -%s (%s): %s" % (name, kind, wrong))
    failures += check_accepted(msimage, names, answers)
    if failures:
        return 1
    with open(DOCUMENT, encoding="utf-8") as f:
        before, _, _ = f.read().partition(HEADING)
    text = before + table(answers)
    if "--write" in sys.argv:
        with open(DOCUMENT, "w", encoding="utf-8") as f:
            f.write(text)
    with open(DOCUMENT, encoding="utf-8") as f:
        if f.read() != text:
            failures += 1
            print("FAILED: the table of docs/from-wsclean.md is another one; wsclean_names.py MSIMAGE --write writes it")
    print(table(answers).splitlines()[2:4])
    return failures != 0


sys.exit(main())
