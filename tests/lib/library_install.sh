#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# library_install.sh SOURCE BUILD CC CXX: the library is installed into an empty folder; what it exports is the list in
# the tree; the headers are C11 and C++11; programs are built with it by CMake and by pkg-config, and run.
source "$(dirname "${BASH_SOURCE[0]}")/../support/cli_prologue.sh"
tree=$1 build=$2 cc=$3 cxx=$4
root=$PWD/root
for component in libmsimage libmsimage-dev; do
    cmake --install "$build" --component "$component" --prefix "$root" >/dev/null || complain "no $component"
done
library=$(find "$root" -name 'libmsimage.so.0')
folder=$(dirname "$library")

# This list is part of the ABI: removing a name or changing its meaning requires a new SONAME.
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >exported
diff "$tree/lib/abi.txt" exported || complain "libmsimage exports something else than lib/abi.txt lists"
grep -q 'SONAME *libmsimage.so.0$' <<<"$(objdump -p "$library")" || complain "the SONAME is not libmsimage.so.0"
! objdump -p "$library" | grep 'NEEDED.*casa' || complain "libmsimage needs casacore"

for header in base gridder cleaner; do
    echo "#include <msimage/$header.h>" >one.c
    "$cc" -std=c11 -pedantic -Wall -Wextra -Werror -I"$root/include" -fsyntax-only one.c || complain "$header.h in C11"
    "$cxx" -x c++ -std=c++11 -pedantic -Wall -Wextra -Werror -I"$root/include" -fsyntax-only one.c ||
        complain "$header.h in C++11"
done

cmake -S "$tree/examples/library" -B cmake -DCMAKE_PREFIX_PATH="$root" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_BUILD_TYPE=Release >log && cmake --build cmake >>log || complain "CMake: $(tail -5 log)"
export PKG_CONFIG_PATH=$folder/pkgconfig
for example in grid_once major_cycle devices; do
    # shellcheck disable=SC2046
    "$cc" -std=c11 -Wall -Wextra -Werror "$tree/examples/library/$example.c" -o "$example" \
        $(pkg-config --cflags --libs msimage) -Wl,-rpath,"$folder" -pthread -lm || complain "pkg-config: $example"
    for program in "./$example" "cmake/$example" "cmake/${example}_static"; do
        "$program" >log 2>&1 || complain "$program: $(cat log)"
    done
done

# The static line of pkg-config is all that a program needs where there is no shared library.
cp -r "$root" alone
rm "$(find alone -name 'libmsimage.so')"
# shellcheck disable=SC2046
"$cc" -std=c11 "$tree/examples/library/grid_once.c" -o static_alone \
    $(PKG_CONFIG_PATH=$(dirname "$(find "$PWD/alone" -name msimage.pc)") pkg-config --static --cflags --libs msimage) ||
    complain "pkg-config --static"
./static_alone >log 2>&1 || complain "static_alone: $(cat log)"
! ldd static_alone | grep msimage || complain "static_alone needs the shared library"
[[ $(pkg-config --modversion msimage) == "$(sed -n 's/^project(msimage VERSION \([0-9.]*\).*/\1/p' "$tree/CMakeLists.txt")" ]] ||
    complain "msimage.pc has another version"
! ldd cmake/grid_once_static | grep msimage || complain "the static program needs the shared library"
exit "$failed"
