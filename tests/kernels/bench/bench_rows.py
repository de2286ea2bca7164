# SPDX-License-Identifier: GPL-3.0-or-later
"""msimage-bench on the CPU: its list, a verified row, its JSON, and what -compare reports of a faster past.

usage: bench_rows.py MSIMAGE-BENCH
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile

BENCH = sys.argv[1]
ROW = "el56/cpu-plain"
SMALL = ["-scale", "1e-4", "-repeat", "2", "-run", ROW]


def bench(*args, status=0):
    done = subprocess.run([BENCH, *args], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{args}: exit {done.returncode}, not {status}\n{done.stdout}{done.stderr}"
    return done


def check_list():
    lines = bench("-list").stdout.splitlines()
    strategies = {tuple(line.split()[:2]) for line in lines if re.match(r"  (wgrid|wproj) ", line)}
    assert {("wgrid", "planes"), ("wproj", "tile"), ("wproj", "window")} <= strategies, strategies
    for line in lines:
        if re.match(r"  (wgrid|wproj) ", line):
            method, strategy, directions, backend = line.split()
            assert backend in ("cpu", "cuda") and directions in ("grid,degrid", "grid", "degrid"), line
    rows = [line.split() for line in lines if line.startswith("  ") and "/" in line.split()[0]]
    assert ROW in [row[0] for row in rows]
    assert len({row[0] for row in rows}) == len(rows), "two rows of one name"
    for method, strategy in strategies:
        assert any(row[0].startswith(f"random/{strategy}-") and row[1] == method for row in rows), strategy
    assert all(row[3] in ("grid", "degrid", "residual", "clean") and row[5] in ("fp32", "fp64") for row in rows), rows


def check_row(folder):
    path = os.path.join(folder, "a.json")
    done = bench(*SMALL, "-verify", "-json", path)
    assert ROW in done.stdout
    with open(path, encoding="utf-8") as file:
        result = json.load(file)
    assert [row["name"] for row in result["rows"]] == [ROW]
    row = result["rows"][0]
    assert row["method"] == "wproj" and row["direction"] == "grid" and row["backend"] == "cpu"
    assert result["scale"] == 1e-4 and result["threads"] >= 1
    # Merely one time in 240, and of that 0.024 of the baselines.
    assert 1000 < row["n_vis"] < 10000 and row["n_addition"] > 81 * row["n_vis"]
    assert row["all_ms"] > 0 and math.isclose(row["all_ms"], row["sort_ms"] + row["kernel_ms"], rel_tol=0.5)
    # fp32 sums of a hundred terms.
    assert 0 < row["error"] < 1e-6 < row["tolerance"]
    return path, result


def check_default_gridder(folder):
    """Rows of the default gridder say what sort, gridding and transforms take, and keep their accuracy."""
    path = os.path.join(folder, "e.json")
    names = ["field-small/planes-grid-1e-3", "field-small/planes-degrid-1e-3"]
    # Patterns with nothing to expand match inside names; a bracket makes them match the whole.
    bench("-scale", "1e-4", "-repeat", "1", "-verify", "-run", "field-small/planes-grid-1e-[3],field-small/planes-degrid-1e-[3]",
          "-json", path)
    with open(path, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    assert [row["name"] for row in rows] == names
    for row in rows:
        parts = row["sort_ms"] + row["kernel_ms"] + row["transform_ms"]
        assert row["transform_ms"] > 0 and math.isclose(row["all_ms"], parts, rel_tol=0.5), row
        assert 0 < row["error"] <= 1e-3, row


def check_compare(folder, path, result):
    done = bench(*SMALL, "-compare", path, "-factor", "1e6")
    assert re.search(rf"^{ROW} .*times$", done.stdout, re.M) and "measured" not in done.stdout, done.stdout
    # By far more than a busy machine makes of a time.
    result["rows"][0]["all_ms"] *= 1e-10
    result["scale"] = 1
    result["cpu"] = "an abacus"
    # Laid out by another program.
    other = os.path.join(folder, "other.json")
    with open(other, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=4)
    done = bench(*SMALL, "-compare", other, "-factor", "1e6", status=1)
    assert "not run now" not in done.stdout and "only in" not in done.stdout, done.stdout
    assert "SLOWER" in done.stdout and "another machine" in done.stdout and "-scale 1\n" in done.stdout, done.stdout


def check_compare_other_rows(folder, result):
    """Compare with a run from before a row was renamed: rows of only one run are reported, others are compared."""
    earlier = os.path.join(folder, "earlier.json")

    def compare(names, status):
        rows = [dict(result["rows"][0], name=name) for name in names]
        with open(earlier, "w", encoding="utf-8") as file:
            json.dump(dict(result, rows=rows), file)
        return bench(*SMALL, "-compare", earlier, "-factor", "1e6", status=status)

    done = compare(["A/cpu-plain", "\x1b[2J", "x" * 5000, "el56/cpu-tile", ROW], 0)
    assert re.search(r"^A/cpu-plain +only in the earlier run", done.stdout, re.M), done.stdout
    assert re.search(rf"^{ROW} .*times$", done.stdout, re.M), done.stdout
    assert re.search(r"^1 more row of the earlier run was not run now$", done.stdout, re.M), done.stdout
    assert "\x1b" not in done.stdout
    done = compare(["A/cpu-plain"], 3)
    assert re.search(rf"^{ROW} +not in the earlier run$", done.stdout, re.M), done.stdout
    assert "does not contain any of the rows" in done.stderr, done.stderr


def check_refusals(folder):
    other, long = os.path.join(folder, "other"), os.path.join(folder, "long")
    with open(other, "wb") as file:
        file.write(bytes(range(256)))
    with open(long, "wb") as file:
        file.truncate(1 << 30)
    for args, status, words in (
        (["-run", "no-such-row"], 2, "no-such-row"),
        (["-scale", "0"], 2, "scale"),
        (["-scale", "nan"], 2, "scale"),
        (["-repeat", "2.5"], 2, "whole"),
        (["-seeds", "many"], 2, "seeds"),
        (["-energy", "-1"], 2, "energy"),
        (["-repeat"], 2, "-repeat"),
        (["-frobnicate"], 2, "-frobnicate"),
        ([*SMALL, "-layouts", os.path.join(folder, "absent")], 3, "absent"),
        ([*SMALL, "-compare", os.path.join(folder, "absent.json")], 3, "absent.json"),
        ([*SMALL, "-compare", folder], 3, folder),
        ([*SMALL, "-compare", other], 3, "-json"),
        ([*SMALL, "-compare", long], 3, "too long"),
        ([*SMALL, "-json", os.path.join(folder, "absent", "a.json")], 4, "absent"),
    ):
        message = bench(*args, status=status).stderr
        assert words in message and message.count("\n") == 1, (args, message)


def main():
    check_list()
    with tempfile.TemporaryDirectory() as folder:
        path, result = check_row(folder)
        check_compare_other_rows(folder, result)
        check_compare(folder, path, result)
        check_default_gridder(folder)
        check_refusals(folder)


main()
