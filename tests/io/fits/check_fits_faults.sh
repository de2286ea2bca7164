#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Every system call that writes a set of images fails, or the process dies in it: final names are whole or absent, and
# a process that lives to report leaves nothing. $1: fits_examples. Exit 77: no strace, or it may not trace.
set -u
program=$1
command -v strace >/dev/null || { echo "skipped: strace is not installed"; exit 77; }
strace -o /dev/null true 2>/dev/null || { echo "skipped: strace may not trace"; exit 77; }
export ASAN_OPTIONS=detect_leaks=0 # LeakSanitizer itself needs to trace
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0
runs=0

complain() { echo "FAIL: $*"; failures=$((failures + 1)); }

# Checksum of a file without the card with its date.
sum_of() { sed 's/DATE    = .\{72\}//' "$1" | cksum; }
sums() { (cd "$1" && for f in *; do [ ! -e "./$f" ] || echo "$f $(sum_of "./$f")"; done); }
same_as_good() { sums "$work/run" | cmp -s - "$work/good.sums"; }

mkdir "$work/good"
"$program" "$work/good" >/dev/null || { echo "FAIL: the undisturbed run"; exit 1; }
sums "$work/good" >"$work/good.sums"

# fault NAME INJECTION: sets $status
fault() {
    rm -rf "$work/run" && mkdir "$work/run"
    strace -o /dev/null -e "inject=$1:$2" "$program" "$work/run" >/dev/null 2>"$work/stderr"
    status=$?
    runs=$((runs + 1))
}

left() { ls -A "$work/run" | wc -l; }

for call in openat write fsync close renameat2; do
    mkdir "$work/traced"
    strace -o "$work/trace" -e trace=$call "$program" "$work/traced" >/dev/null 2>&1
    # The calls that fail: opens of temporary files (others open fonts), and about a dozen of the hundreds of other
    # calls, spread over all of them.
    case $call in
    openat) numbers=$(grep -n 'openat(.*\.msimage-' "$work/trace" | cut -d: -f1) ;;
    *) total=$(grep -c "^$call(" "$work/trace")
       numbers=$(seq 1 $((total / 12 + 1)) "$total") ;;
    esac
    rm -rf "$work/traced"
    for n in $numbers; do
        case $call in
        openat | write | fsync)
            fault $call "error=ENOSPC:when=$n$([ $call = openat ] || echo +)"
            case $status in
            4) # A directory that cannot be synced is reported, but its files exist and are complete.
               [ "$(left)" -eq 0 ] || { [ $call = fsync ] && same_as_good; } ||
                   complain "$call $n ENOSPC: left $(ls -A "$work/run" | tr '\n' ' ')"
               [ ! -s "$work/stderr" ] || grep -q "No space left" "$work/stderr" ||
                   complain "$call $n ENOSPC: $(cat "$work/stderr")" ;;
            0) same_as_good || complain "$call $n ENOSPC: exit 0, files differ" ;;
            *) complain "$call $n ENOSPC: exit $status: $(cat "$work/stderr")" ;;
            esac
        esac
        fault $call "signal=SIGTERM:when=$n"
        case $status in
        143) [ "$(left)" -eq 0 ] || complain "$call $n SIGTERM: left $(ls -A "$work/run" | tr '\n' ' ')" ;;
        0) same_as_good || complain "$call $n SIGTERM: exit 0, files differ" ;;
        *) complain "$call $n SIGTERM: exit $status: $(cat "$work/stderr")" ;;
        esac
        fault $call "signal=SIGKILL:when=$n"
        [ "$status" -eq 137 ] || complain "$call $n SIGKILL: exit $status"
        for f in "$work/run"/*; do
            [ ! -e "$f" ] || [ "$(sum_of "$f")" = "$(sum_of "$work/good/$(basename -- "$f")")" ] ||
                complain "$call $n SIGKILL: $f is partial"
        done
    done
done
echo "$runs faults, $failures failures"
[ "$runs" -gt 100 ] || complain "too few faults tried"
[ "$failures" -eq 0 ]
