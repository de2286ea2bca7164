#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# cli_usage.sh MSIMAGE: exit codes and messages of wrong command lines, and of -help and -version.
set -euo pipefail
# shellcheck source=tests/support/cli_prologue.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../support/cli_prologue.sh"
msimage=$1

# expect CODE PATTERN ARGUMENTS..: the exit code is CODE, stderr is one line that matches PATTERN, stdout is empty, and no file
# is written.
expect() {
    local code=$1 pattern=$2 got=0
    shift 2
    "$msimage" "$@" >out 2>err || got=$?
    [[ $got == "$code" ]] || complain "$* exits $got, not $code: $(cat err)"
    grep -q -E -- "$pattern" err || complain "$*: /$pattern/ is not in: $(cat err)"
    [[ $(wc -l <err) == 1 ]] || complain "$*: not one line: $(cat err)"
    [[ ! -s out ]] || complain "$* prints on stdout"
    rm -f out err
    [[ -z $(ls -A) ]] || complain "$* leaves $(ls -A)"
}

good=(-size 256 256 -scale 2asec)

expect 2 '-size 0 0: give two even numbers' -size 0 0 -scale 1asec x.ms
expect 2 '-size -5 -5: give two even numbers' -size -5 -5 -scale 1asec x.ms
expect 2 '-size abc: give a whole number' -size abc abc -scale 1asec x.ms
expect 2 '-size 1 1: give two even numbers' -size 1 1 -scale 1asec x.ms
expect 2 '-size 1x1: its arguments are separate words; write -size WIDTH HEIGHT' -size 1x1 1x1 -scale 1asec x.ms
expect 2 '-size 255 256: give two even numbers' -size 255 256 -scale 1asec x.ms
expect 2 '-size 99999999999999999999: the number is too large' -size 99999999999999999999 2 -scale 1asec x.ms
expect 2 '-scale -1asec: the angle must be larger than 0' -size 256 256 -scale -1asec x.ms
expect 2 '-scale 1.5 is 1.5 degrees: .*; 1.5asec\?' -size 256 256 -scale 1.5 x.ms
expect 2 '-scale: .*half the sky' -size 256 256 -scale 5deg x.ms
expect 2 '-scale: .*half the sky' -size 256 256 -scale 1000deg x.ms
expect 2 '-size: .*missing' -scale 1asec x.ms
expect 2 '-scale: .*missing' -size 256 256 x.ms
expect 2 '-nonsense: no such option' -nonsense x.ms
expect 2 '-acuracy: .*did you mean -accuracy\?' -acuracy 1e-4 x.ms
expect 2 '-niter 1000.5: ' "${good[@]}" -niter 1000.5 x.ms
expect 2 '-name: an argument is missing' "${good[@]}" -name
expect 2 'x.ms was read as an argument of -name' "${good[@]}" -name x.ms
expect 2 'no Measurement Set' "${good[@]}"
expect 2 '-accuracy 1e-13: give a number from 1e-12 to 0.01' "${good[@]}" -accuracy 1e-13 x.ms
expect 2 '-precision fp32: ' "${good[@]}" -accuracy 1e-9 -precision fp32 x.ms
expect 2 '-pol I,I: I is given twice' "${good[@]}" -pol I,I x.ms
expect 2 '-weight: an argument is missing before -make-psf' "${good[@]}" -weight briggs -make-psf x.ms
expect 2 '-shift 91deg: the Dec must be' "${good[@]}" -shift 0deg 91deg x.ms
expect 2 '-png: it comes after x.ms, which was read as a set' "${good[@]}" x.ms -png
expect 2 '-help nonsense: no option or section has this name' -help nonsense
expect 3 'x.ms' "${good[@]}" x.ms
expect 3 '%s%n' "${good[@]}" 'no such set %s%n [1:5] (x).ms'

# Habits of other programs: an answer names the mistake, and what to write.
expect 2 '^msimage: error: -niter=5: arguments follow after a space; write -niter 5$' "${good[@]}" -niter=5 x.ms
expect 2 '^msimage: error: --niter=5: arguments follow after a space; write -niter 5$' "${good[@]}" --niter=5 x.ms
expect 2 'write -niter 5$' "${good[@]}" -niter:5 x.ms
expect 2 'write -niter 5$' "${good[@]}" -niter5 x.ms
expect 2 'write -j 4$' "${good[@]}" -j4 x.ms
expect 2 'write -name x$' "${good[@]}" --name=x x.ms
expect 2 'write -weight briggs 0.5$' "${good[@]}" -weight briggs=0.5 -name a x.ms
expect 2 'write -weight briggs 0.5$' "${good[@]}" -weight robust:0.5 x.ms
expect 2 'write -weight briggs -0.5$' "${good[@]}" -weight -0.5 x.ms
expect 2 'write -weight briggs and the robustness, such as -weight briggs 0.5$' "${good[@]}" -weight robust 0.5 x.ms
expect 2 'write -weight uniform -super-weight 3$' "${good[@]}" -weight superuniform x.ms
expect 2 'page.html: .* it is no argument of -report$' "${good[@]}" -report page.html /
expect 2 '-oout: .*did you mean -name out\?' "${good[@]}" -oout x.ms
expect 2 '-t4: .*did you mean -j 4\?' "${good[@]}" -t4 x.ms
expect 2 '-qv: .*did you mean -quiet -verbose\?' "${good[@]}" -qv x.ms
expect 2 '-N: no such option; -niter gives the most components, -name the prefix of the files$' "${good[@]}" -N 100 x.ms
expect 2 '/size: options begin with a dash; write -size$' /size 100 100 x.ms
expect 2 '-force: it needs -predict; to replace existing files give -overwrite$' "${good[@]}" -force x.ms
expect 2 '-pixelscale: .*did you mean -scale\?' "${good[@]}" -pixelscale 1asec x.ms
expect 2 '-scale 0,5asec: write decimals with a point, as in 0.5asec$' -size 64 64 -scale 0,5asec x.ms
expect 2 '-padding 1,5: write decimals with a point, as in 1.5$' "${good[@]}" -padding 1,5 x.ms
expect 2 '-vv: .*did you mean -verbose\?' "${good[@]}" -vv x.ms
expect 2 '-clean: no such option; give -niter' "${good[@]}" -clean x.ms
expect 2 '-channels: no such option; -channel-range selects' "${good[@]}" -channels 0 2 x.ms
expect 2 '--no-gpu: no such option; use -backend cpu' "${good[@]}" --no-gpu x.ms
expect 2 '--logfile: no such option; the log is standard error' "${good[@]}" --logfile run.log x.ms
expect 2 'write -size 512 512$' --size=512,512 --scale=2asec x.ms
expect 2 'write -size 512 512$' -size=512x512 -scale 2asec x.ms
expect 2 'write -size WIDTH HEIGHT$' -size=512 -scale 2asec x.ms
expect 2 'write -weight briggs 0$' "${good[@]}" --weight=briggs=0 x.ms
expect 2 '-multiscale=true: -multiscale takes no argument' "${good[@]}" -niter 5 -multiscale=true x.ms
expect 2 '--imsize=512: .*did you mean -size\?' --imsize=512 --cell=2arcsec x.ms
expect 2 '-imsize: .*did you mean -size\?' -imsize 512 512 -cell 2asec x.ms
expect 2 '-phasecentre: .*did you mean -shift\?' "${good[@]}" -phasecentre 30deg 40deg x.ms
expect 2 '-Niter: .*did you mean -niter\?' "${good[@]}" -Niter 5 x.ms
expect 2 '-NITER: .*did you mean -niter\?' "${good[@]}" -NITER 5 x.ms
expect 2 '-iterations: .*did you mean -niter\?' "${good[@]}" -iterations 5 x.ms
expect 2 '-loopgain: .*did you mean -gain\?' "${good[@]}" -niter 5 -loopgain 0.1 x.ms
expect 2 '-natural: .*-weight takes natural' "${good[@]}" -natural x.ms
expect 2 '-output: .*did you mean -name\?' "${good[@]}" -output x x.ms
expect 2 '--threads=4: .*did you mean -j\?' "${good[@]}" --threads=4 x.ms
expect 2 '-q: .*did you mean -quiet\?' "${good[@]}" -q x.ms
expect 2 '-psf: .*did you mean -make-psf\?' "${good[@]}" -psf x.ms
expect 2 '-ms: .*give the Measurement Sets last' "${good[@]}" -ms x.ms
expect 2 '-no-multiscale: no such option; leave out -multiscale$' "${good[@]}" -niter 5 -no-multiscale x.ms
expect 2 '-threshold 3sigma: give a flux; -auto-threshold' "${good[@]}" -niter 5 -threshold 3sigma x.ms
expect 2 '^msimage: error: mJy: a unit follows its number without a space; write 1mJy$' "${good[@]}" -niter 5 -threshold 1 mJy x.ms
expect 2 '-auto-threshold takes a number without a unit; leave sigma out$' "${good[@]}" -niter 5 -auto-threshold 3 sigma x.ms
expect 2 'write 10asec$' "${good[@]}" -taper-gaussian 10 asec x.ms
expect 2 '^msimage: error: niter=5: options begin with a dash' "${good[@]}" niter=5 x.ms
expect 2 '^msimage: error: niter: options begin with a dash; write -niter$' "${good[@]}" niter 5 x.ms
expect 2 '^msimage: error: predict: options begin with a dash; write -predict$' predict -name x x.ms
expect 2 '^msimage: error: help: options begin with a dash; write -help$' help
expect 2 '^msimage: error: vis=x.ms: options begin with a dash' vis=x.ms imagename=x imsize=512
expect 2 'typographic dash' "${good[@]}" −niter 5 x.ms
expect 2 'typographic dash' "${good[@]}" –niter 5 x.ms
expect 2 'yes: no such file or directory; .* it is no argument of -overwrite$' "${good[@]}" -overwrite yes /
expect 2 '0: no such file or directory; .* it is no argument of -weight$' "${good[@]}" -weight uniform 0 /
expect 2 'V: no such file or directory; .* it is no argument of -pol$' "${good[@]}" -pol I V /
expect 3 'absent.ms: No such file' "${good[@]}" absent.ms /
expect 2 '-scale: it comes after 256, which was read as a set' -size 256 256 256 -scale 2asec x.ms
expect 2 '-size: an argument is missing before -scale; write -size WIDTH HEIGHT' -size 512 -scale 2asec x.ms
expect 2 '-niter: an argument is missing before -name; write -niter COUNT' "${good[@]}" -niter -name x x.ms
expect 2 '-niter x.ms: give a whole number' "${good[@]}" -niter x.ms
expect 2 "-abs-mem 4GB: give a number alone, without 'GB'; -help has its unit" "${good[@]}" -abs-mem 4GB x.ms
expect 2 "-minuv-l 1klambda: give a number alone, without 'klambda'" "${good[@]}" -minuv-l 1klambda x.ms
expect 2 "-mgain 80%: give a number alone, without '%'" "${good[@]}" -niter 5 -mgain 80% x.ms
expect 2 'write -name PREFIX$' "${good[@]}" -name= x.ms
expect 3 'a shell replaces ~ at the start of a word without quotes$' "${good[@]}" '~/x.ms'
expect 3 'no name matches, or the pattern is in quotes$' "${good[@]}" '*.ms'
expect 3 'm: No such file or directory' "${good[@]}" m
expect 3 'download it, and give its path$' "${good[@]}" https://example.org/a.ms
expect 3 'give several sets as separate words$' "${good[@]}" a.ms,b.ms
expect 3 'give several sets as separate words$' "${good[@]}" 'a.ms b.ms'
expect 4 '-temp-dir absent: there is no such directory' "${good[@]}" -temp-dir absent x.ms

# Options of WSClean without effect are logged, and their arguments are not taken for sets.
got=0
"$msimage" "${good[@]}" -reorder -wgridder-accuracy 1e-3 -nwlayers 20 x.ms >out 2>err || got=$?
for line in "WSClean's -reorder is accepted: " "WSClean's -wgridder-accuracy is taken as -accuracy" \
    "WSClean's -nwlayers is accepted: the number of w-planes" 'x\.ms'; do
    grep -q -- "$line" err || complain "/$line/ is not in: $(cat err)"
done
[[ $got == 3 && $(wc -l <err) == 4 && ! -s out ]] || complain "WSClean's options: exit $got, $(cat err)"
got=0
"$msimage" "${good[@]}" -joinchannels -channelsout 2 -datacolumn DATA -smallinversion -niter 5 -threshold 1 x.ms >out 2>err || got=$?
for line in "WSClean's -joinchannels is taken as -join-channels" "WSClean's -smallinversion is accepted: " 'x\.ms: No such'; do
    grep -q -- "$line" err || complain "/$line/ is not in: $(cat err)"
done
[[ $got == 3 ]] || complain "names of WSClean 1: exit $got, $(cat err)"
"$msimage" "${good[@]}" -quiet -reorder x.ms 2>err || true
[[ $(wc -l <err) == 1 ]] || complain "-quiet logs WSClean's options: $(cat err)"
"$msimage" -help wgridder-accuracy >out
grep -q 'taken as -accuracy' out || complain "-help wgridder-accuracy: $(cat out)"
rm -f out err

got=0
"$msimage" >out 2>err || got=$?
if [[ $got != 2 || -s out ]] || ! grep -q '^usage: msimage' err; then complain "no arguments: exit $got, $(cat err)"; fi
rm -f out err

for words in -help -h -\? --help --help=size -V '-help size' '-help weighting' -version --version; do
    # shellcheck disable=SC2086
    "$msimage" $words >out 2>err || complain "$words exits $?"
    [[ -s out && ! -s err ]] || complain "$words: nothing on stdout, or something on stderr"
    rm -f out err
    got=0
    # shellcheck disable=SC2086
    "$msimage" $words >/dev/full 2>err || got=$?
    if [[ $got != 4 ]] || ! grep -q 'standard output: No space left' err; then
        complain "$words >/dev/full exits $got: $(cat err)"
    fi
    rm -f err
done
got=0
"$msimage" -help >&- 2>err || got=$?
[[ $got == 4 ]] || complain "-help >&- exits $got"
rm -f err

# Other words are searched; a section comes before an option of its name; every program knows the short forms.
"$msimage" -help sidelobe >out
grep -q '^  -sidelobethreshold' out || complain "-help sidelobe: $(cat out)"
"$msimage" --help=predict >out
if ! grep -q '^Prediction of visibilities' out || ! grep -q '^  -drop-old' out; then complain "--help=predict: $(cat out)"; fi
for program in "$msimage-convert" "$msimage-mosaic" "$msimage-png" "$msimage-makems" "$msimage-bench"; do
    for words in -h -help --help=x; do
        "$program" $words >out 2>err || complain "$program $words exits $?"
        if ! grep -q '^usage: msimage' out || [[ -s err ]]; then complain "$program $words: $(cat out err)"; fi
    done
    "$program" -V >out 2>err || complain "$program -V exits $?"
    grep -q -E '^msimage-[a-z]+ [0-9]' out || complain "$program -V: $(cat out err)"
done
got=0
"$msimage-bench" >out 2>err || got=$?
if [[ $got != 2 || -s out ]] || ! grep -q '^usage: msimage-bench' err; then complain "msimage-bench: $got, $(cat err)"; fi
rm -f out err

"$msimage" -version >out
for pattern in '^msimage [0-9]+\.[0-9]+\.[0-9]+$' '^build: .*, id [0-9a-f]{16}$' 'casacore [0-9]' 'cfitsio [0-9]' \
    'wcslib [0-9]' 'FFTW' '^GPU: ' '^WGridder is available'; do
    grep -q -i -E -- "$pattern" out || complain "-version: /$pattern/ is not in: $(cat out)"
done
rm -f out

# Waiting threads do not spin, unless the environment requests it.
spin_count() {
    { env "$@" OMP_DISPLAY_ENV=verbose "$msimage" "${good[@]}" x.ms 2>&1 || true; } |
        sed -n "s/.*GOMP_SPINCOUNT = '\(.*\)'/\1/p" | tail -1
}
[[ $(spin_count -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT) == 0 ]] || complain "threads spin while they wait"
# The runtime starts once if a shell started the program; otherwise the program restarts itself.
n_start() {
    env "$@" OMP_DISPLAY_ENV=verbose "$msimage" "${good[@]}" absent.ms 2>&1 | grep -c "GOMP_SPINCOUNT ="
}
[[ $(n_start -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT _=shell) == 1 ]] || complain "starts itself again though a shell has"
[[ $(n_start -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u _) == 2 ]] || complain "does not start exactly twice"
[[ $(spin_count -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT -u _) == 0 ]] || complain "threads spin if no shell has started the program"
[[ $(spin_count GOMP_SPINCOUNT=777) == 777 ]] || complain "GOMP_SPINCOUNT is not used"

# Random words, the same on every run, never cause a signal or an internal error.
RANDOM=4711
# shellcheck disable=SC2054
words=(-size 64 64 -scale 1asec -pol I,Q XX -weight briggs 0 -field all 0,1 -shift 08h24m07s -42d59m48s -interval -1 3 -- '' -j 1
    -mem 50 -name out 'a b' %s%n%d $'\xff\xfe\x01' -accuracy 1e-4 nan 1e999 -spws x.ms -dry-run -quiet --version -h)
for ((round = 0; round < 100; round++)); do
    line=()
    for ((i = RANDOM % 10; i >= 0; i--)); do line+=("${words[RANDOM % ${#words[@]}]}"); done
    got=0
    "$msimage" "${line[@]}" >out 2>err || got=$?
    [[ $got == 0 || $got == 2 || $got == 3 ]] || complain "${line[*]} exits $got: $(cat err)"
    rm -f out err
    [[ -z $(ls -A) ]] || complain "${line[*]} leaves $(ls -A)"
done
exit $failed
