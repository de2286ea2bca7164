#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# cli_makems.sh MSIMAGE_MAKEMS: the generator's command line: exit codes, messages, defaults, what it prints and leaves.
set -euo pipefail
# shellcheck source=tests/support/cli_prologue.sh
source "$(dirname "${BASH_SOURCE[0]}")/../support/cli_prologue.sh"
makems=$1
# The output files are next to the folder whose content is checked.
mkdir here
cd here

# refused CODE PATTERN ARGUMENTS..: the exit code, a line on stderr that matches, nothing on stdout, nothing new on disk.
refused() {
    local code=$1 pattern=$2 got=0 before
    shift 2
    before=$(ls -A)
    "$makems" "$@" >"$work/out" 2>"$work/err" || got=$?
    [[ $got == "$code" ]] || complain "$* exits $got, not $code: $(cat "$work/err")"
    grep -q -E -- "$pattern" "$work/err" || complain "$*: /$pattern/ is not in: $(cat "$work/err")"
    [[ ! -s "$work/out" ]] || complain "$* prints on stdout"
    rm -f "$work/out" "$work/err"
    [[ $(ls -A) == "$before" ]] || complain "$* leaves $(ls -A)"
}

short=(-quiet -duration 20s -integration 10s)

refused 2 'usage: msimage-makems'
refused 2 'no such option' -nonsense x.ms
refused 2 'only one Measurement Set can be written' x.ms y.ms
refused 2 'give one of vla meerkat skalow' -telescope alma x.ms
refused 2 'there are A, B, C and D' -config Z x.ms
refused 2 '-ra 60: give a unit' -ra 60 x.ms
refused 2 '-dec .*must be -90deg to 90deg' -dec 91deg x.ms
refused 2 '-duration 10: give a unit, 10s or 10h\?' -duration 10 x.ms
refused 2 '-duration -5s: a duration must be positive' -duration -5s x.ms
refused 2 "-spw 1furlong: unknown unit 'furlong'" -spw 1furlong 1MHz 4 x.ms
refused 2 '-spw takes FIRST STEP N' x.ms -spw 1GHz 1MHz
refused 2 '-spw 0: give a number from 1' -spw 1GHz 1MHz 0 x.ms
refused 2 'spw 0: 4 channels' -spw 1GHz -400MHz 4 x.ms
refused 2 '-pol XX,XY: give one of' -pol XX,XY x.ms
refused 2 'I Q U V' -source 60deg 44deg 1Jy 1Jy 1Jy x.ms
refused 2 '-source takes RA DEC I' x.ms -source 60deg 44deg
refused 2 '-model-image takes FILE SIZE ANGLE' x.ms -model-image m.fits 64
refused 2 '-model-image: the size 65 is not even' -model-image m.fits 65 1asec x.ms
refused 2 '-model-image 0asec: the size of a pixel' -model-image m.fits 64 0asec x.ms
refused 2 'source at RA 61.000000 Dec 44.000000 deg is outside' -model-image m.fits 64 1asec -source 61deg 44deg 1Jy \
    -ra 60deg -dec 44deg x.ms
refused 4 'absent' -model-image absent/m.fits 64 1asec x.ms
refused 2 '-start-time 2024-13-01: give a date' -start-time 2024-13-01 x.ms
refused 2 'fractions must be 0 to 1' -flags 2 x.ms
refused 2 'defect broken: give one of none nan-vis' -defect broken x.ms
refused 2 'one shape' -spw 1GHz 1MHz 4 -spw 2GHz 1MHz 8 -storage tiledcolumn x.ms
refused 3 'No such file' -layout-file absent.txt x.ms
refused 4 'absent' "${short[@]}" absent/x.ms
# 1e14 bytes and more: a disk that holds them is not looked for.
refused 4 'the set needs .* MB, but the file system has only .* MB left' -quiet -duration 30000h -integration 1s \
    -spw 1GHz 1MHz 64 x.ms

# Variable arity: the set's name follows a source of one, two, four and five numbers. -x and --x are alike.
"$makems" "${short[@]}" --list-sources -source 60deg 44d05m 1Jy -source 60.1deg 44deg 2Jy -0.7 \
    -source 04:00:01 44deg 3Jy -10mJy 20mJy -30mJy -source 60deg -1deg 1Jy 0Jy 0Jy 0Jy 1.5 five.ms >sources
[[ -d five.ms ]] || complain "five.ms is not there"
[[ $(wc -l <sources) == 4 ]] || complain "not four sources: $(cat sources)"
read -r _ _ i q u v index < <(sed -n 3p sources)
[[ "$i $q $u $v $index" == "3 -0.01 0.02 -0.03 0" ]] || complain "third source: $i $q $u $v $index"
read -r _ _ i _ _ _ index < <(sed -n 2p sources)
[[ "$i $index" == "2 -0.7" ]] || complain "second source: $i $index"

# -overwrite replaces a set, and nothing else.
refused 2 'five.ms exists' "${short[@]}" five.ms
"$makems" "${short[@]}" -overwrite five.ms
mkdir folder
refused 2 'is not a Measurement Set' "${short[@]}" -overwrite folder
"$makems" "${short[@]}" 'odd name [1:2](x)%s.ms'
[[ -d 'odd name [1:2](x)%s.ms' ]] || complain "a name with brackets"

# Random sources are the same for the same seed, and all in the field.
for seed in 1 1 2; do "$makems" "${short[@]}" -overwrite -list-sources -random-sources 20 $seed 1deg r.ms >>random; done
[[ $(sed -n 1,20p random) == "$(sed -n 21,40p random)" ]] || complain "the same seed gives other sources"
[[ $(sed -n 1,20p random) != "$(sed -n 41,60p random)" ]] || complain "another seed gives the same sources"
awk '$2 < 43.57 || $2 > 44.59 || $3 < 0.1 || $3 > 1 { bad = 1 } END { exit bad || NR != 60 }' random ||
    complain "random sources out of range"

# A layout file: called by its name, or as -telescope says.
printf '5109271.5 2006808.9 -3239130.7 13.5 a\n5109284.9 2006824.2 -3239100.1 13.5 b\n' >pair.txt
"$makems" -duration 20s -integration 10s -layout-file pair.txt pair.ms 2>log
grep -q 'pair: 2 stations, longest baseline 37 m' log || complain "layout file: $(cat log)"
grep -q '^2 rows' log || complain "layout file: $(cat log)"

[[ $("$makems" -version) == msimage-makems\ * ]] || complain "-version"
"$makems" -help >help
for word in telescope source defect Units tiledcolumn '-spw 882.75MHz 53.5MHz 16'; do
    grep -q -e "$word" help || complain "-help does not mention $word"
done
# Stacks of threads that do not fit are an error line, as by all programs. A sanitizer needs more addresses.
if ! ldd "$makems" | grep -q libasan; then
    got=0
    (ulimit -v 1000000 && OMP_STACKSIZE=1g "$makems" -quiet -j 4 "${short[@]}" threads.ms) 2>err || got=$?
    [[ $got == 5 && ! -e threads.ms ]] && grep -q 'use a smaller -j' err || complain "threads without space: exits $got, $(cat err)"
fi

if [[ -e /dev/full ]]; then
    got=0
    "$makems" -help >/dev/full 2>err || got=$?
    [[ $got == 4 ]] || complain "-help to a full device exits $got"
fi
got=0
(ulimit -f 0 && "$makems" -help >cut 2>/dev/null) || got=$?
[[ $got == 4 ]] || complain "-help to a file that may not grow exits $got"
got=0
(ulimit -n 20 && "$makems" -quiet "${short[@]}" descriptors.ms) 2>err || got=$?
[[ $got == 5 && ! -e descriptors.ms ]] && grep -q '20 files can be open' err || complain "20 open files: exits $got, $(cat err)"
exit $failed
