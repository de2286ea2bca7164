#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# casacore_c_install.sh SOURCE BUILD CC MSIMAGE_MAKEMS: io/casacore-c stands alone: its sources include nothing of the
# tree but themselves, and the example of its README, built against what is installed, prints the uvw of a set.
set -euo pipefail
source=$1/io/casacore-c build=$2 cc=$3 makems=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() {
    echo "FAILED: $*"
    exit 1
}

others=$(grep -n '#include "' "$source"/*.h "$source"/*.hpp "$source"/*.cc | grep -v '"casacore_[a-z]*\.hp*"' || true)
[[ -z $others ]] || fail "includes headers of other directories: $others"

for part in libcasacore-c libcasacore-c-dev; do
    cmake --install "$build" --component $part --prefix "$work/prefix" >install.log || fail "$(cat install.log)"
done
[[ $(find prefix -type f | wc -l) == 8 ]] || fail "installed: $(find prefix -type f)"
library=$(find "$work/prefix" -name 'libcasacore-c.so.0')
grep -o '\bccc_[a-z0-9_]*(' "$source/casacore_c.h" | tr -d '(' | sort -u >declared
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >exported
diff declared exported || fail "libcasacore-c.so exports something else than its header declares"
grep -q 'SONAME *libcasacore-c.so.0$' <<<"$(objdump -p "$library")" || fail "the SONAME is not libcasacore-c.so.0"
PKG_CONFIG_PATH=$(dirname "$(find prefix -name casacore-c.pc)")
export PKG_CONFIG_PATH
sed -n '/^```c$/,/^```$/p' "$source/README.md" | grep -v '^```' >uvw.c
read -ra flags <<<"$(pkg-config --cflags --libs casacore-c)"
"$cc" -std=c11 -Wall -Wextra -Werror uvw.c "${flags[@]}" -o uvw
# Programs need not know the library's own dependencies.
! objdump -p uvw | grep -E 'NEEDED.*(casa_|stdc)' || fail "the program needs more than libcasacore-c"
read -ra flags <<<"$(pkg-config --cflags --libs --static casacore-c | sed 's/-lcasacore-c/-l:libcasacore-c.a/')"
"$cc" -std=c11 uvw.c "${flags[@]}" -o uvw_static || fail "the static library cannot be linked"
! objdump -p uvw_static | grep 'NEEDED.*casacore-c' || fail "the static program needs the shared library"
LD_LIBRARY_PATH=$(dirname "$library")
export LD_LIBRARY_PATH
printf 'cmake_minimum_required(VERSION 3.16)\nproject(uvw C)\nfind_package(casacore-c 0.2 REQUIRED)\nadd_executable(uvw uvw.c)\n%s\n' \
    'target_link_libraries(uvw casacore-c::casacore-c)' >CMakeLists.txt
cmake -S . -B cmake -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_COMPILER="$cc" >cmake.log && cmake --build cmake >>cmake.log ||
    fail "find_package: $(tail -3 cmake.log)"

"$makems" -quiet -duration 20s -integration 10s a.ms
./uvw a.ms >lines
./uvw_static a.ms | cmp - lines || fail "linked to the static library the example prints something else"
./cmake/uvw a.ms | cmp - lines || fail "built by CMake the example prints something else"
[[ $(awk 'NF == 3' lines | wc -l) -gt 100 ]] || fail "no uvw: $(head -3 lines)"
env -u HOME ./uvw a.ms | cmp - lines || fail "without HOME a set cannot be read"
if ./uvw none.ms 2>error; then fail "a set that is not there was read"; fi
grep -q 'none.ms: No such file' error || fail "no cause: $(cat error)"
